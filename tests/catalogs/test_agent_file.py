"""Agent files: what their sources give, read anew each time, and what is wrong in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctxbench.catalogs.agent_file import is_agent_file, open_catalog, read_agent
from ctxbench.catalogs.snapshots import CatalogSnapshot, SnapshotPart, odd_in, write_snapshot
from ctxbench.io.errors import InputError
from ctxbench.model.items import Catalog, Item

RULE = "---\ndescription: How refunds are handled\n---\nFinance approves.\n"
TOOLS = [{"name": "refund_order", "description": "Refund an order"}, {"name": "track", "description": "Where is it"}]


@pytest.fixture
def project(tmp_path):
    """A project with rules, a reference and a list of tools, and an agent file over them."""
    (tmp_path / ".cursor" / "rules").mkdir(parents=True)
    (tmp_path / ".cursor" / "rules" / "refunds.mdc").write_text(RULE)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "shipping.md").write_text("# Shipping zones\n\nWhich country is where.\n")
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    agent(tmp_path, "sources: {tools: tools.json, rules: ., references: docs}")
    return tmp_path


def agent(folder: Path, text: str) -> Path:
    path = folder / "agent.yaml"
    path.write_text(text + "\n")
    return path


def modes(catalog: Catalog) -> dict[str, str]:
    return {item.id: item.include for item in catalog}


RULE_ID = "rule:.cursor%2Frules%2Frefunds.mdc"


def test_its_items_are_those_of_its_sources_in_one_order(project):
    file = read_agent(project / "agent.yaml")
    assert (file.name, file.selector, file.system) == ("agent", "learned", "")
    assert [item.id for item in file.catalog()] == [
        "tool:refund_order",
        "tool:track",
        RULE_ID,
        "reference:shipping.md",
    ]


def test_sources_are_read_anew_each_time(project):
    file = read_agent(project / "agent.yaml")
    before = file.catalog()
    (project / ".cursor" / "rules" / "refunds.mdc").write_text(RULE.replace("refunds", "returns"))
    (project / "docs" / "prices.md").write_text("# Prices\n\nOf parcels.\n")
    after = file.catalog()
    assert after.hash != before.hash
    assert after[after.position(RULE_ID)].description == "How returns are handled"
    assert "reference:prices.md" in after.ids


def test_where_each_item_stands(project):
    places = read_agent(project / "agent.yaml").locations()
    assert places == {
        "tool:refund_order": (project / "tools.json", 0),
        "tool:track": (project / "tools.json", 0),
        RULE_ID: (project / ".cursor" / "rules" / "refunds.mdc", 4),
        "reference:shipping.md": (project / "docs" / "shipping.md", 1),
    }


@pytest.mark.parametrize(
    "own",
    [
        {"command": ["node", "ours.mjs"], "name": "ours"},
        {"callable": "ours.py:select"},
        {"url": "http://localhost:1/select", "name": "mine"},
    ],
)
def test_a_selector_of_ones_own_is_its_block(own, project):
    assert read_agent(agent(project, f"sources: {{tools: tools.json}}\nselector: {json.dumps(own)}")).external == own


def test_of_ones_own_it_takes_no_settings_and_is_no_file_of_answers(project):
    own = "selector: {command: [node, ours.mjs]}\nsettings: {n: 1}"
    with pytest.raises(InputError, match="an external selector takes no settings here"):
        read_agent(agent(project, f"sources: {{tools: tools.json}}\n{own}"))
    with pytest.raises(InputError, match=r"`- \{answers: a.jsonl, name: ours\}`"):
        read_agent(agent(project, "sources: {tools: tools.json}\nselector: {answers: a.jsonl}"))


class TestModes:
    def test_without_include_they_are_as_the_sources_say(self, project):
        assert set(modes(open_catalog(project / "agent.yaml")).values()) == {"agent"}

    def test_a_tool_is_over_its_server_over_always(self, project):
        listed = {"shop": [{"name": "a"}, {"name": "b"}], "web": [{"name": "c"}]}
        (project / "tools.json").write_text(json.dumps(listed))
        include = "include: {servers: {shop: manual}, tools: {'tool:shop:b': agent}}"
        path = agent(project, f"sources: {{tools: tools.json, rules: .}}\n{include}")
        assert modes(open_catalog(path)) == {
            "tool:shop:a": "manual",
            "tool:shop:b": "agent",
            "tool:web:c": "always",
            RULE_ID: "agent",
        }

    def test_all_others_may_have_another_mode(self, project):
        include = "include: {otherwise: agent, tools: {'tool:track': manual}}"
        path = agent(project, f"sources: {{tools: tools.json}}\n{include}")
        assert modes(open_catalog(path)) == {"tool:refund_order": "agent", "tool:track": "manual"}

    def test_a_tool_that_is_not_there_is_a_fault(self, project):
        path = agent(project, "sources: {tools: tools.json}\ninclude: {tools: {'tool:trck': manual}}")
        with pytest.raises(InputError, match="include: no tool 'tool:trck'; did you mean 'tool:track'"):
            open_catalog(path)


class TestServers:
    def test_what_they_said_comes_from_the_snapshot(self, project, caplog):
        path = agent(project, "sources: {mcp: .mcp.json, rules: .}")
        file = read_agent(path)
        with pytest.raises(InputError, match=r"cannot read .*\.mcp\.json: .* \(.*agent\.yaml, line 1\)"):
            file.catalog()
        (project / ".mcp.json").write_text('{"mcpServers": {"shop": {"command": "x"}, "new": {"command": "y"}}}')
        with pytest.raises(InputError, match=r"never captured \(.*agent\.snapshot is missing\); .* capture --agent"):
            file.catalog()
        assert file.captured == ""
        items = (Item(type="tool", server="shop", name="sell", description="Sell it"),)
        write_snapshot(
            CatalogSnapshot((SnapshotPart(name="shop", kind="server", items=items),), Catalog(items)), file.snapshot
        )
        assert [item.id for item in file.catalog()] == ["tool:shop:sell", RULE_ID]
        (said,) = {record.getMessage() for record in caplog.records}
        assert said.startswith(f"{path}: servers that were never captured: new; `ctxbench data")
        assert file.locations()["tool:shop:sell"][0] == project / "agent.snapshot" / "corpus.jsonl"
        assert file.captured.endswith("Z")
        assert len(caplog.records) == 1, "once a process"

    @pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": {}}'])
    def test_a_configuration_that_is_none_is_a_fault(self, project, text):
        (project / ".mcp.json").write_text(text)
        with pytest.raises(InputError, match=r"\.mcp\.json, line 1"):
            open_catalog(agent(project, "sources: {mcp: .mcp.json}"))


class TestFaults:
    @pytest.mark.parametrize(
        ("text", "messages"),
        [
            ("name: x", ["an agent file has name, sources, .*, and needs sources"]),
            ("source: {rules: .}", ["an agent file has no 'source'; did you mean 'sources'"]),
            ("- rules: .", ["an agent file has .*; got list"]),
            ("", ["an agent file has .*; got NoneType"]),
            ("sources: {tools: {file: tools.json, map: nam=x}}", ["'nam' is no field of a tool"]),
            ("sources: {}", ["sources is empty, .* name some of mcp, tools, rules, references"]),
            ("sources: {rule: .}", ["sources has no 'rule'; did you mean 'rules'"]),
            ("sources: {mcp: 3}", ["mcp must be the path of a file"]),
            ("sources: {tools: [{file: 3}]}", ["tools must be files of tool definitions"]),
            ("sources: {tools: [{file: a, srv: b}]}", ["a list of tools has no 'srv'"]),
            ("sources: {rules: [3]}", ["rules must be a folder or a list of folders, got 3"]),
            ("sources: {rules: .}\nname: a/b", ["name must be usable as the name of a folder"]),
            ("sources: {rules: .}\ninclude: {tools: {x: agent}}", ["'x' is no item id"]),
            (
                "sources: {rules: .}\ninclude: {otherwise: maybe}",
                ["an include mode must be one of always, manual, agent"],
            ),
            ("sources: {rules: .}\nsystem: {path: x}", ["system must be a text or"]),
            ("sources: {rules: .}\nsystem: {file: gone.md}", ["cannot read .*gone.md"]),
            ("sources: {rules: .}\nsettings: 3", ["settings must be a mapping"]),
            ("sources: {rules: .}\ncolour: red", ["an agent file has no 'colour'"]),
        ],
    )
    def test_each_is_told_with_its_line(self, project, text, messages):
        with pytest.raises(InputError) as caught:
            read_agent(agent(project, text))
        for message in messages:
            with pytest.raises(InputError, match=message):
                raise caught.value
        assert all(fault.line for fault in caught.value.faults)

    def test_two_sources_of_one_item_are_a_fault(self, project):
        path = agent(project, "sources: {tools: [tools.json, tools.json]}")
        with pytest.raises(InputError, match=r"comes from 'tools\.json' in .* and from 'tools\.json'"):
            open_catalog(path)

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            ("rules: gone", "cannot read .*gone: no such folder"),
            ("rules: [., gone]", "cannot read .*gone: no such folder"),
            ("references: tools.json", "tools.json: it is a file"),
            ("tools: gone.json", "cannot read .*gone.json: No such file"),
            (
                "tools: {file: tools.json, map: name=titel}",
                "'name' is mapped to 'titel', which no tool has; the tools have 'name'",
            ),
        ],
    )
    def test_a_source_that_cannot_be_used_is_told_with_the_line_that_names_it(self, project, source, message):
        with pytest.raises(InputError, match=message) as caught:
            open_catalog(agent(project, f"name: shop\nsources:\n  {source}"))
        (fault,) = caught.value.faults
        assert (fault.path, fault.line) == (
            (project / "tools.json", 0) if "map:" in source else (project / "agent.yaml", 3)
        )

    @pytest.mark.parametrize("mode", ["tools: {'tool:trck': manual}", "servers: {shp: manual}"])
    def test_a_mode_of_what_is_not_there_is_told_with_its_line(self, project, mode):
        with pytest.raises(InputError, match="include: no tool") as caught:
            open_catalog(agent(project, f"sources: {{tools: tools.json}}\ninclude:\n  {mode}"))
        assert [(fault.path, fault.line) for fault in caught.value.faults] == [(project / "agent.yaml", 3)]

    def test_what_is_odd_in_its_sources_is_told_once(self, project, caplog):
        (project / ".cursor" / "rules" / "odd.mdc").write_text("---\nalwaysApply: perhaps\n---\nText")
        said = "alwaysApply must be true or false, got 'perhaps'"
        (project / "none").mkdir()
        path = agent(project, "sources: {rules: ., references: none}")
        assert open_catalog(path).hash == open_catalog(path).hash
        notes = [
            f"Cursor rules: .cursor/rules/odd.mdc, line 2: {said}; it is read as false",
            "none: no Markdown file under it; name another folder",
        ]
        assert odd_in(read_agent(path).parts()) == notes
        assert caplog.messages == [f"{path}: {note}" for note in notes]
        for name in ("strange", "stranger"):
            (project / ".cursor" / "rules" / f"{name}.mdc").write_text("---\nalwaysApply: perhaps\n---\nText")
        open_catalog(path)
        more = f"4 notes on its sources; `ctxbench init {project}` shows them"
        assert caplog.messages[2:] == [f"{path}: {more}"]


@pytest.mark.parametrize("name", ["tools.json", "tools.jsonl"])
def test_a_list_of_tools_is_one_fault_with_the_command_that_reads_it(tmp_path, name):
    rows = [{"name": tool, "description": "x"} for tool in "abc"]
    text = "\n".join(map(json.dumps, rows)) if name.endswith("l") else json.dumps(rows, indent=1)
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        open_catalog(tmp_path / name)
    (fault,) = caught.value.faults
    assert fault.message == (
        "expected a catalog, an agent file, a file of items or a folder with corpus.jsonl; "
        f"it is a list of tools; make a catalog of it: `ctxbench data import {tmp_path / name} --out FOLDER`"
    )


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"query": "refund 17", "expected": ["refund_order"]}, "it holds evals; .*`ctxbench data import "),
        ({"query": "e1", "items": [{"id": "tool:a"}]}, "it holds a selector's answers; .*`ctxbench score "),
        (
            {"messages": [{"role": "user", "content": "x"}], "called": []},
            "it is a log; .*`ctxbench data import ",
        ),
    ],
)
def test_another_kind_of_file_is_one_fault_that_says_what_it_is(tmp_path, row, said):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join([json.dumps(row)] * 3), encoding="utf-8")
    with pytest.raises(InputError, match=f"^expected a catalog, .*; {said}") as caught:
        open_catalog(path)
    assert len(caught.value.faults) == 1


def test_items_with_a_wrong_field_stay_items(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"_id": "tool:a", "expected": "x"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="unknown field 'expected'"):
        open_catalog(tmp_path / "rows.jsonl")


def test_which_files_are_agent_files(project):
    assert is_agent_file(project / "agent.yaml")
    assert not is_agent_file(project / "tools.json")
    assert not is_agent_file(project / "gone.yaml")
    assert not is_agent_file(agent(project, "pipeline: {retrieve: dense}"))
    assert not is_agent_file(agent(project, "a: [1"))


def test_an_empty_command_is_said_to_be_empty(project):
    (project / "agent.yaml").write_text("sources: {rules: .}\nselector: {command: []}\n", encoding="utf-8")
    with pytest.raises(InputError, match="command is empty; name the external selector"):
        read_agent(project / "agent.yaml")
