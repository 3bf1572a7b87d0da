"""Agent files on the command line: select, capture, datasets over them, and checks that see edits of their sources."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import ClassVar

import pytest
import yaml

import ctxbench
from ctxbench.catalogs.agent_file import read_agent
from ctxbench.io.documents import load_yaml
from ctxbench.io.errors import read_messages
from ctxbench.selectors.definition import TunedPreset, definition_hash, parameter_texts
from ctxbench.selectors.definitions import agent_definition, definition, write_presets
from tests.checkout import Checkout

FAKE = str(Path(__file__).parents[1] / "catalogs" / "mcp" / "fake_stdio.py")
ABOUT = "How refunds are handled and who approves them"
RULE = f"---\ndescription: {ABOUT}\n---\nAsk finance.\n"
RULE_ID = "rule:.cursor%2Frules%2Frefunds.mdc"
EVALS = [
    {"query": "who approves them?", "expected": [RULE_ID]},
    {"query": "where is my parcel", "expected": ["track_parcel"]},
    {"query": "thanks, bye", "expected": []},
]
AGENT = {
    "name": "support",
    "sources": {"tools": "tools.json", "rules": "."},
    "include": {"otherwise": "agent"},
    "selector": "bm25",
    "settings": {"n": 1},
    "system": "You help customers.",
}
GATE = "datasets: [evals]\nselectors: [agent.yaml]\nembedder: hashing\n"


@pytest.fixture
def agent(place):
    """A project with a rule, a list of tools, evals and an agent file."""
    (place / ".cursor" / "rules").mkdir(parents=True)
    (place / ".cursor" / "rules" / "refunds.mdc").write_text(RULE)
    tools = [{"name": "track_parcel", "description": "Where a parcel is now"}, {"name": "pay", "description": "Pay"}]
    (place / "tools.json").write_text(json.dumps(tools))
    (place / "evals.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in EVALS))
    write(place, AGENT)
    return place / "agent.yaml"


@pytest.fixture
def gate(agent, cli):
    """A gate over a dataset of the agent, accepted."""
    done = cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals")
    assert done.code == 0, done.err
    Path("gate.yaml").write_text(GATE)
    assert cli("check", "gate.yaml", "--accept").code == 0
    return Path("gate.yaml")


def write(place: Path, about: dict) -> None:
    (place / "agent.yaml").write_text(yaml.safe_dump(about))


def accepted_tool(cli) -> str:
    """The first tool that the servers have, which an eval requires, with a baseline accepted."""
    assert cli("data", "capture", "--agent", "agent.yaml", "--timeout", "60").code == 0
    tool = json.loads(Path("agent.snapshot/corpus.jsonl").read_text().splitlines()[0])["_id"]
    Path("evals.jsonl").write_text(json.dumps({"query": "where is my parcel", "expected": [tool]}))
    assert cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals").code == 0
    Path("gate.yaml").write_text(GATE.replace("agent.yaml", "everything"))
    assert cli("check", "gate.yaml", "--accept").code == 0
    return tool


class TestSelect:
    def test_items_selector_settings_and_system_prompt_are_the_agent_s(self, cli, agent):
        done = cli("select", "where is my parcel", "--agent", "agent.yaml", "--embedder", "hashing", "--json")
        assert done.json["selector"] == "agent"
        assert done.json["parameters"]["n"] == 1
        assert [row["id"] for row in done.json["items"]] == ["tool:track_parcel"]
        sent = cli("select", "x", "--agent", "agent.yaml", "--embedder", "hashing", "--messages").json["messages"]
        assert sent[0] == {"role": "system", "content": "You help customers."}

    def test_another_selector_may_be_named(self, cli, agent):
        asked = ("select", "where", "--agent", "agent.yaml", "--selector", "everything", "--json")
        assert cli(*asked, "--embedder", "hashing").json["selector"] == "everything"

    def test_an_agent_file_is_a_catalog_and_a_selector_wherever_these_stand(self, cli, agent):
        asked = ("select", "where", "--catalog", "agent.yaml", "--selector", "agent.yaml", "--embedder", "hashing")
        assert cli(*asked).code == 0

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ((), "name the items to choose from: --catalog FOLDER, or --agent FILE"),
            (("--agent", "agent.yaml", "--catalog", "evals"), "--catalog and --agent both say which items there are"),
            (("--agent", "gone.yaml"), "cannot read gone.yaml"),
            (("--agent", "tools.json"), "an agent file has name, sources"),
        ],
    )
    def test_what_does_not_go_together_is_one_error(self, cli, agent, options, message):
        done = cli("select", "where", *options, "--embedder", "hashing")
        assert (done.code, done.err.count("error:")) == (2, 1)
        assert message in done.err

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"selector": "bm26"}, "unknown selector 'bm26'; did you mean 'bm25'"),
            ({"selector": "bm25/loud"}, "unknown preset 'loud'"),
            ({"selector": "agent.yaml"}, "selector names agent.yaml, an agent file"),
            ({"selector": "p.yaml#small"}, "`selector: {presets: p.yaml, preset: small}` in an agent file"),
            ({"selector": {"presets": "p.yaml"}}, "selector must be {presets: FILE, preset: NAME}, got {'presets'"),
            (
                {"selector": ["bm25"]},
                "or an external selector, such as {command: [node, my-selector.mjs]}; got ['bm25']",
            ),
            ({"selector": {"comand": ["node", "x.js"]}}, "did you mean 'command'?"),
            ({"selector": {"pipeline": {"retrieve": "bm25"}}}, "got {'pipeline': {'retrieve': 'bm25'}} (agent.yaml"),
            ({"selector": {"presets": "p.yaml", "preset": "small", "n": 1}}, "a tuned preset has no 'n'"),
            ({"settings": {"m": 1}}, "selector 'bm25' has no parameter 'm'"),
            ({"settings": {"n": -1}}, "n must be"),
        ],
    )
    def test_a_wrong_selector_or_setting_has_its_line(self, cli, place, agent, change, message):
        write(place, AGENT | change)
        done = cli("select", "where", "--agent", "agent.yaml", "--embedder", "hashing")
        assert done.code == 2
        assert message in done.err
        assert "agent.yaml, line" in done.err


class TestOnesOwnSelector:
    OWN: ClassVar = "def select(request, items):\n    return [one['_id'] for one in items if one['name'] == 'pay']\n"

    @pytest.fixture
    def own(self, gate, place):
        """A dataset of an agent with a callable as its selector."""
        (place / "own.py").write_text(self.OWN)
        about = {key: value for key, value in AGENT.items() if key != "settings"}
        write(place, about | {"selector": {"callable": "own.py:select"}})

    def test_runs_and_checks_ask_it_under_the_name_of_the_agent_file(self, cli, own, place):
        (place / "e.yaml").write_text("datasets: [evals]\nselectors: [agent.yaml, bm25]\nembedder: hashing\n")
        done = cli("run", "e.yaml", "--json")
        assert done.code == 0, done.err
        assert list(done.json["datasets"]["evals"]["selectors"]) == ["agent", "bm25"]
        assert cli("check", "gate.yaml").code != 0  # another selector than was accepted
        assert cli("check", "gate.yaml", "--accept").code == 0

    def test_it_has_one_name_in_every_command(self, cli, own, place):
        (place / "agent.own.yaml").write_bytes((place / "agent.yaml").read_bytes())
        assert cli("select", "parcel", "--agent", "agent.own.yaml", "--json").json["selector"] == "agent.own"
        (place / "a.jsonl").write_text('{"query": "q1", "items": []}\n')
        done = cli("score", "a.jsonl", "--dataset", "evals", "--compare-to", "agent.own.yaml")
        assert "\nagent.own  " in done.out, done.err

    def test_it_takes_nothing_beside_it(self, cli, own, place):
        entry = "{selector: agent.yaml, set: {n: 1}}"
        (place / "e.yaml").write_text(f"datasets: [evals]\nselectors: [{entry}]\nembedder: hashing\n")
        assert "an external selector has no 'set'" in cli("run", "e.yaml").err

    def test_pools_ask_it_and_so_does_tuning_which_needs_all_that_it_ranks(self, cli, own, place):
        done = cli("data", "pool", "evals", "--out", "pairs.jsonl", "--selectors", "agent.yaml", "--share", "1")
        assert done.code == 0, done.err
        minimise = "{minimise: tokens, constraints: [{metric: completeness, at_least: 0.9, of: base}]}"
        (place / "p.yaml").write_text(f"selectors: [agent.yaml]\npolicies: {{normal: {minimise}}}\n")
        done = cli("tune", "evals", "--policy", "p.yaml")
        assert done.code == 0, done.err
        ranked = "[{'id': one['_id'], 'score': float(one['name'] == 'pay')} for one in items]"
        (place / "own.py").write_text(f"def select(request, items):\n    return {{'items': [], 'ranking': {ranked}}}\n")
        done = cli("tune", "evals", "--policy", "p.yaml", "--out", "tuned")
        assert done.code == 0, done.err
        assert "agent" in done.out


def test_what_was_tuned_on_an_agent_is_a_preset_of_its_selector(cli, gate):
    """Written as `tune` writes it, and taken by `select` and experiments."""
    made = agent_definition(read_agent(Path("agent.yaml")))
    values = {**made.with_defaults({}), "n": 2}
    preset = TunedPreset(
        selector="agent.yaml",
        set={name: values[name] for name in made.in_force(values)},
        definition=definition_hash(made),
        parameters=parameter_texts(made),
    )
    write_presets(Path("p.yaml"), tuned={"dataset": "evals"}, presets={"small": preset}, test_split="")
    asked = ("select", "where is my parcel", "--agent", "agent.yaml", "--presets", "p.yaml", "--preset", "small")
    done = cli(*asked, "--embedder", "hashing", "--json")
    assert done.code == 0, done.err
    assert (done.json["selector"], done.json["parameters"]["n"]) == ("p/small", 2)
    Path("e.yaml").write_text("datasets: [evals]\nselectors: [{presets: p.yaml, preset: small}]\nembedder: hashing\n")
    done = cli("run", "e.yaml")
    assert done.code == 0, done.err


class TestTunedPreset:
    """`selector: {presets, preset}` in an agent file, wherever one is read."""

    @pytest.fixture
    def presets(self, gate):
        """A presets file with one preset of a shipped selector, and one of the agent's own, in a folder."""
        bm25, made = definition("bm25"), agent_definition(read_agent(Path("agent.yaml")))
        presets = {
            name: TunedPreset(
                selector=source,
                set=found.in_force({**found.with_defaults({}), "n": 2}),
                definition=definition_hash(found),
                parameters=parameter_texts(found),
            )
            for name, source, found in (("small", "bm25", bm25), ("own", "agent.yaml", made))
        }
        Path("tuned").mkdir()
        write_presets(Path("tuned/p.yaml"), tuned={"dataset": "evals"}, presets=presets, test_split="")

        def chosen(preset, **settings):
            selector = {"presets": "tuned/p.yaml", "preset": preset}
            write(Path(), AGENT | {"selector": selector, "settings": settings})

        return chosen

    def test_an_edit_of_it_is_located_in_its_file(self, agent, cli, presets):
        presets("small")
        assert cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals").code == 0
        Path("gate.yaml").write_text(GATE)
        assert cli("check", "--accept").code == 0
        Checkout(Path.cwd()).commit("Accept", day=1)
        text = Path("tuned/p.yaml").read_text().replace("n: 2", "n: 0")
        Path("tuned/p.yaml").write_text(text)
        _, lines = load_yaml(Path("tuned/p.yaml"))
        assert f"- tuned/p.yaml:{lines['presets', 'small', 'set']}: " in cli("check").out

    def test_commands_that_read_agent_files_take_it(self, cli, presets):
        presets("small")
        asked = ("select", "where is my parcel", "--agent", "agent.yaml", "--embedder", "hashing", "--json")
        assert cli(*asked).json["parameters"]["n"] == 2
        Path("e.yaml").write_text("datasets: [evals]\nselectors: [agent.yaml]\nembedder: hashing\n")
        done = cli("check", "gate.yaml", "--accept")
        assert done.code == 0, done.err
        for words in (("run", "e.yaml"), ("check", "gate.yaml"), ("data", "label", "evals", "--minutes", "0")):
            done = cli(*words, *(("--embedder", "hashing") if "label" in words else ()))
            assert done.code == 0, done.err

    def test_settings_go_over_it(self, cli, presets):
        presets("small", n=3)
        asked = cli("select", "where", "--agent", "agent.yaml", "--embedder", "hashing", "--json")
        assert asked.json["parameters"]["n"] == 3

    def test_one_of_the_agent_s_own_selector_is_refused(self, cli, presets):
        presets("own")
        done = cli("select", "where", "--agent", "agent.yaml", "--embedder", "hashing")
        assert done.code == 2
        assert "it was tuned on the selector that agent.yaml names, and is its settings: write what" in done.err

    def test_one_that_is_not_there_is_one_error(self, cli, presets):
        presets("smal")
        done = cli("select", "where", "--agent", "agent.yaml", "--embedder", "hashing")
        assert "unknown preset 'smal' of presets file tuned/p.yaml; did you mean 'small'" in done.err

    def test_the_file_alone_is_told_how_it_is_named(self, cli, presets):
        write(Path(), AGENT | {"selector": "tuned/p.yaml"})
        done = cli("select", "where", "--agent", "agent.yaml", "--embedder", "hashing")
        assert "tuned/p.yaml is a presets file, not a selector: write" in done.err
        assert "`selector: {presets: tuned/p.yaml, preset: small}`" in done.err


class TestDatasets:
    def test_the_dataset_holds_no_items_of_its_own(self, gate, cli):
        card = yaml.safe_load(Path("evals/dataset.yaml").read_text())
        assert card["agent"] == "../agent.yaml"
        assert not {"items", "types"} & set(card["counts"])
        assert not Path("evals/corpus.jsonl").exists()
        assert cli("data", "validate", "evals").code == 0
        shown = cli("data", "show", "evals", "--json").json
        assert (shown["counts"]["items"], shown["agent"]) == (3, "agent.yaml")

    def test_written_elsewhere_it_still_names_the_agent(self, gate, cli):
        assert cli("data", "split", "evals", "--out", "deep/er/copy").code == 0
        assert yaml.safe_load(Path("deep/er/copy/dataset.yaml").read_text())["agent"] == "../../../agent.yaml"
        assert cli("data", "validate", "deep/er/copy").code == 0

    def test_items_of_its_own_beside_the_agent_are_a_fault(self, gate, cli):
        Path("evals/corpus.jsonl").write_text("")
        done = cli("data", "validate", "evals")
        assert "names an agent, but the folder also has corpus.jsonl" in done.out + done.err

    def test_faults_of_the_agent_file_are_told_with_its_lines(self, gate, cli, place):
        write(place, AGENT | {"sources": {"tools": "gone.json"}})
        done = cli("data", "validate", "evals")
        assert done.code != 0
        assert "gone.json" in done.out + done.err

    def test_a_fault_of_the_agent_file_is_told_once_by_a_check(self, gate, cli, place):
        write(place, AGENT | {"colour": "red"})
        done = cli("check", "gate.yaml")
        assert done.err.count("an agent file has no 'colour'") == 1
        assert "agent.yaml, line" in done.err

    def test_rebased_to_a_catalog_it_names_the_agent_no_more(self, gate, cli):
        assert cli("data", "import", "tools", "tools.json", "--out", "catalog").code == 0
        done = cli("data", "rebase", "evals", "--catalog", "catalog", "--out", "rebased")
        assert done.code == 0, done.err
        assert "agent" not in yaml.safe_load(Path("rebased/dataset.yaml").read_text())
        assert Path("rebased/corpus.jsonl").is_file()

    def test_labels_are_carried_to_what_the_agent_has_now(self, gate, cli):
        tools = json.loads(Path("tools.json").read_text())
        Path("tools.json").write_text(json.dumps(tools[1:]))
        done = cli("data", "validate", "evals")
        assert "which is not in agent.yaml" in done.out + done.err
        assert "`ctxbench data rebase DATASET --in-place`" in done.out + done.err
        done = cli("data", "rebase", "evals", "--catalog", "agent.yaml", "--out", "carried")
        assert done.code == 0, done.err
        assert cli("data", "validate", "carried").code == 0
        assert yaml.safe_load(Path("carried/dataset.yaml").read_text())["agent"] == "../agent.yaml"
        gate.write_text(GATE.replace("evals", "carried"))
        assert cli("check", "gate.yaml", "--accept").code == 0

    def test_rebased_in_place_it_follows_a_renamed_rule_and_keeps_what_lies_beside_it(self, gate, cli):
        rules = Path(".cursor/rules")
        (rules / "refunds.mdc").rename(rules / "money.mdc")
        Path("evals/labelling").mkdir()
        Path("evals/labelling/guide.md").write_text("Ask Ann.")
        new = RULE_ID.replace("refunds", "money")
        Path("renames.yaml").write_text(f"{RULE_ID}: {new}\n")
        done = cli("data", "rebase", "evals", "--renames", "renames.yaml", "--in-place")
        assert done.code == 0, done.err
        assert f"items renamed: 1\n  {RULE_ID} -> {new} (given)\n" in done.out
        assert "changed" not in done.out
        assert "another order" not in done.out
        assert cli("data", "validate", "evals").code == 0
        assert new in Path("evals/qrels/tuning.tsv").read_text() + Path("evals/qrels/test.tsv").read_text()
        assert Path("evals/labelling/guide.md").read_text() == "Ask Ann."
        assert yaml.safe_load(Path("evals/dataset.yaml").read_text())["agent"] == "../agent.yaml"

    def test_rebased_twice_the_version_names_one_catalog(self, gate, cli):
        tools = json.loads(Path("tools.json").read_text())
        for kept in (tools[1:], tools):
            Path("tools.json").write_text(json.dumps(kept))
            assert cli("data", "rebase", "evals", "--in-place").code == 0
        assert yaml.safe_load(Path("evals/dataset.yaml").read_text())["version"].count("+") == 1

    def test_a_rename_to_what_labels_name_already_is_refused(self, gate, cli):
        Path("renames.yaml").write_text(f"{RULE_ID}: tool:track_parcel\n")
        done = cli("data", "rebase", "evals", "--renames", "renames.yaml", "--in-place")
        assert (done.code, done.err.count("error:")) == (2, 1)
        assert "two items would become one" in done.err

    def test_labels_are_asked_for_what_the_agent_s_own_selector_offers(self, agent, cli):
        Path("evals.jsonl").write_text('{"query": "has it left the depot?"}\n')
        assert cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals").code == 0
        done = cli("data", "label", "evals", "--minutes", "0", "--embedder", "hashing")
        assert "\n  agent  " in done.out, done.err
        asked = ("data", "label", "evals", "--minutes", "0", "--embedder", "hashing", "--selectors", "agent.yaml")
        done = cli(*asked, "--selectors", "everything", "--json")
        assert {row["name"] for row in done.json["before"]["completeness"]} == {"agent", "everything"}
        with ctxbench.label("evals", embedder="hashing") as session:
            assert "agent" in set(session.report()["of"])

    def test_evals_without_ids_that_moved_are_told_as_such(self, agent, cli):
        rows = ['{"query": "has it left?", "expected": []}\n', '{"query": "where?", "expected": []}\n']
        Path("e.yaml").write_text("datasets: [evals]\nselectors: [bm25]\nembedder: hashing\n")
        evals = ("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals")
        Path("evals.jsonl").write_text("".join(rows))
        assert cli(*evals).code == 0
        assert cli("check", "e.yaml", "--accept").code == 0
        Path("evals.jsonl").write_text("".join(reversed(rows)))
        done = cli("check", "e.yaml")
        assert "notice: evals.jsonl has changed since it was imported: import it again" in done.err
        assert cli(*evals).code == 0
        done = cli("check", "e.yaml")
        assert "give each an `id`" in " ".join(done.out.split())
        assert "has changed since" not in done.err

    def test_answers_of_before_a_rebase_do_not_bring_old_names_back(self, agent, cli):
        Path("evals.jsonl").write_text('{"query": "has it left the depot?"}\n')
        assert cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals").code == 0
        with ctxbench.label("evals", ["bm25", "everything"], embedder="hashing") as session:
            assert session.next().query == "evals-1"
            session.answer(["track_parcel"])
        tools = json.loads(Path("tools.json").read_text())
        Path("tools.json").write_text(json.dumps([{**tools[0], "name": "follow_parcel"}, tools[1]]))
        Path("renames.yaml").write_text("tool:track_parcel: tool:follow_parcel\n")
        done = cli("data", "rebase", "evals", "--renames", "renames.yaml", "--in-place")
        assert done.code == 0, done.err
        with ctxbench.label("evals", ["bm25", "everything"], embedder="hashing") as session:
            assert session.next() is None
        assert ctxbench.load("evals").labels["item"].tolist() == ["tool:follow_parcel"]

    def test_exported_it_holds_its_items_and_names_no_agent(self, gate, cli):
        assert cli("data", "export", "evals", "--format", "beir", "--out", "beir").code == 0
        assert cli("data", "import", "beir", "beir", "--out", "back").code == 0
        assert "agent" not in yaml.safe_load(Path("back/dataset.yaml").read_text())
        assert Path("back/corpus.jsonl").is_file()
        assert cli("data", "diff", "evals", "back").out.endswith("\n\ncard: agent differ\n")

    def test_its_folder_is_a_catalog(self, gate, cli):
        done = cli("select", "where", "--catalog", "evals", "--selector", "everything", "--json")
        assert len(done.json["items"]) == 3


class TestCheck:
    def test_items_beside_the_agent_are_a_fault_though_nothing_else_changed(self, gate, cli):
        Path("evals/corpus.jsonl").write_text("{}")
        assert cli("check", "gate.yaml").code == 2

    def test_nothing_changed_is_the_same_and_asks_nobody(self, gate, cli):
        done = cli("check", "gate.yaml", "--verbose")
        assert (done.code, done.out.split(":")[0]) == (0, "same")
        assert "was not asked again" in done.out

    def test_where_no_agent_has_servers_a_recapture_says_so(self, gate, cli):
        done = cli("check", "gate.yaml", "--recapture")
        assert done.code == 0
        assert "--recapture asks no server: no dataset of gate.yaml is over an agent file that" in done.err

    def test_an_edited_rule_is_seen_without_copying_a_file(self, gate, cli):
        Path(".cursor/rules/refunds.mdc").write_text(RULE.replace(ABOUT, "Minutes"))
        done = cli("check", "gate.yaml", "--verbose")
        assert f"{RULE_ID}" in done.out
        assert ".cursor/rules/refunds.mdc:2" in done.out
        assert "; lost 1; gained" in done.out

    def test_a_rule_that_is_gone_is_worse(self, gate, cli):
        Path(".cursor/rules/refunds.mdc").unlink()
        done = cli("check", "gate.yaml")
        assert (done.code, done.out.split(":")[0]) == (1, "worse")
        assert RULE_ID in done.out

    @pytest.mark.parametrize("where", [("--in-place",), ("--catalog", "agent.yaml", "--out", "carried")])
    def test_a_tool_that_is_renamed_and_reworded_is_judged_once_labels_follow_it(self, gate, cli, where):
        for old, new, about in (("track_parcel", "trace", "Follow a box"), ("trace", "find", "Look a box up")):
            tools = json.loads(Path("tools.json").read_text())
            Path("tools.json").write_text(json.dumps([{"name": new, "description": about}, tools[1]]))
            Path("renames.yaml").write_text(f"tool:{old}: tool:{new}\n")
            done = cli("data", "rebase", "evals", "--renames", "renames.yaml", *where)
            assert done.code == 0, done.err
            if "--out" in where:
                shutil.rmtree("evals")
                Path("carried").rename("evals")
            done = cli("check", "gate.yaml", "--verbose")
            assert done.code != 2, done.out
            text = " ".join(done.out.split())
            assert f"item edited: renamed from tool:track_parcel, description edited (tool:{new})" in text
            assert f"tool:track_parcel -> tool:{new}" in text
        assert cli("check", "gate.yaml", "--accept").code == 0
        done = cli("check", "gate.yaml", "--output-format", "json")
        assert (done.code, done.json["verdict"]) == (0, "same")

    def test_a_tool_that_is_only_renamed_counts_once(self, gate, cli):
        tools = json.loads(Path("tools.json").read_text())
        Path("tools.json").write_text(json.dumps([{**tools[0], "name": "trace_parcel"}, tools[1]]))
        Path("renames.yaml").write_text("tool:track_parcel: tool:trace_parcel\n")
        assert cli("data", "rebase", "evals", "--renames", "renames.yaml", "--in-place").code == 0
        text = " ".join(cli("check", "gate.yaml", "--verbose").out.split())
        assert "1 item renamed" in text
        assert "edited" not in text

    def test_labels_that_name_a_renamed_tool_are_said_to_with_the_command_that_mends_them(self, gate, cli):
        tools = json.loads(Path("tools.json").read_text())
        Path("tools.json").write_text(json.dumps([{**tools[0], "name": "trace_parcel"}, tools[1]]))
        done = cli("check", "gate.yaml")
        assert (done.code, done.out.split(":")[0]) == (0, "same"), done.out
        command = ["data", "rebase", "evals", "--renames", "renames.yaml", "--in-place"]
        text = " ".join(done.out.split())
        assert f"update the labels (`ctxbench {' '.join(command)}`; " in text
        assert "renames.yaml: `tool:track_parcel: tool:trace_parcel`)" in text
        assert cli("check", "gate.yaml", "--accept").code == 2
        Path("renames.yaml").write_text("tool:track_parcel: tool:trace_parcel\n")
        assert cli(*command).code == 0
        assert "update the labels" not in cli("check", "gate.yaml").out
        assert cli("check", "gate.yaml", "--accept").code == 0

    def test_all_renames_that_are_certain_or_likely_are_listed_with_the_command(self, gate, cli):
        tools = json.loads(Path("tools.json").read_text())
        tools[0] = {"name": "track_package", "description": "Where a parcel is today"}
        Path("tools.json").write_text(json.dumps(tools))
        Path(".cursor/rules/refunds.mdc").rename(".cursor/rules/returns.mdc")
        done = cli("check", "gate.yaml", "--output-format", "markdown")
        (steps,) = [line for line in done.out.splitlines() if "update the labels" in line]
        pairs = {RULE_ID: "rule:.cursor%2Frules%2Freturns.mdc", "tool:track_parcel": "tool:track_package"}
        for old, new in pairs.items():
            assert f"{old}: {new}" in steps
        Path("renames.yaml").write_text(yaml.safe_dump(pairs))
        assert cli("data", "rebase", "evals", "--renames", "renames.yaml", "--in-place").code == 0
        assert cli("check", "gate.yaml", "--accept").code == 0
        assert cli("check", "gate.yaml", "--output-format", "json").json["selectors"][0]["compared"] == len(EVALS)

    def test_an_emptied_rule_is_gone_and_the_cause_says_why_in_any_words(self, gate, cli, monkeypatch):
        Path(".cursor/rules/refunds.mdc").write_text(RULE.partition("Ask")[0])
        done = cli("check", "gate.yaml")
        assert done.code == 1
        assert ".cursor/rules/refunds.mdc has no text; left out" in " ".join(done.out.split())
        monkeypatch.setitem(read_messages("catalogs")["file-empty"], "text", "the text of {path} is empty")
        assert "the text of .cursor/rules/refunds.mdc is empty" in " ".join(cli("check", "gate.yaml").out.split())

    def test_a_setting_of_the_agent_is_a_cause(self, gate, cli, place):
        write(place, AGENT | {"settings": {"n": 3}})
        assert "1 -> 3" in cli("check", "gate.yaml", "--verbose").out
        write(place, AGENT | {"settings": {"n": 0}})
        text = Path("agent.yaml").read_text().splitlines()
        assert f"- agent.yaml:{text.index('settings:') + 1}: " in cli("check", "gate.yaml").out
        write(place, {key: value for key, value in AGENT.items() if key != "settings"} | {"selector": "random"})
        line = 1 + next(n for n, one in enumerate(Path("agent.yaml").read_text().splitlines()) if "selector:" in one)
        assert line > 1
        assert f"- agent.yaml:{line}: " in cli("check", "gate.yaml").out

    def test_its_settings_hold_in_presets_too(self, agent, cli, place):
        write(place, AGENT | {"selector": "learned", "settings": {"at_most": 2}})
        asked = ("select", "where is my parcel", "--agent", "agent.yaml", "--embedder", "hashing", "--json")
        for preset in ("aggressive", "conservative"):
            done = cli(*asked, "--preset", preset)
            assert done.json["parameters"]["at_most"] == 2, done.err

    def test_it_is_found_beside_a_linked_file(self, agent, cli, place):
        """The path from the dataset to the agent is that of their names, not of what they are links to."""
        (place / "elsewhere").mkdir()
        agent.rename(place / "elsewhere" / "agent.yaml")
        agent.symlink_to(place / "elsewhere" / "agent.yaml")
        for folder in ("tools.json", ".cursor"):
            (place / "elsewhere" / folder).symlink_to(place / folder)
        done = cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals")
        assert done.code == 0, done.err
        assert yaml.safe_load(Path("evals/dataset.yaml").read_text())["agent"] == "../agent.yaml"
        assert cli("data", "validate", "evals").code == 0


class TestServers:
    @pytest.fixture
    def served(self, place, agent):
        """The agent with a server, whose tools are in no file."""
        servers = {"rich": {"command": sys.executable, "args": [FAKE, "rich"]}}
        (place / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        write(place, AGENT | {"sources": {**AGENT["sources"], "mcp": ".mcp.json"}})
        return agent

    def test_they_are_captured_where_the_agent_says(self, served, cli):
        done = cli("data", "capture", "--agent", "agent.yaml", "--timeout", "60")
        assert done.code == 0, done.err
        assert 'Next: ctxbench select "what a user asks" --agent agent.yaml' in done.out
        ids = [json.loads(line)["_id"] for line in Path("agent.snapshot/corpus.jsonl").read_text().splitlines()]
        assert ids
        assert all(name.startswith("tool:rich:") for name in ids)
        found = cli("select", "where", "--agent", "agent.yaml", "--selector", "everything", "--json")
        assert set(ids) <= {row["id"] for row in found.json["items"]}

    def test_capture_tells_what_is_odd_in_the_other_sources_too(self, served, cli, place):
        for name in ("pets", "fees"):
            (place / ".cursor" / "rules" / f"{name}.mdc").write_text("No pets.")
        lines = cli("data", "capture", "--agent", "agent.yaml", "--timeout", "60").out.splitlines()
        assert [line.partition(" has ")[0] for line in lines if line.startswith("agent.yaml: ")] == [
            "agent.yaml: Cursor rules: .cursor/rules/fees.mdc",
            "agent.yaml: Cursor rules: .cursor/rules/pets.mdc",
        ]

    def test_a_check_says_how_old_their_tools_are_and_asks_them_on_demand(self, served, cli, caplog):
        assert cli("data", "capture", "--agent", "agent.yaml", "--timeout", "60").code == 0
        assert cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals").code == 0
        Path("gate.yaml").write_text(GATE)
        assert cli("check", "gate.yaml", "--accept").code == 0
        done = cli("check", "gate.yaml")
        assert [
            one["name"] for one in cli("check", "gate.yaml", "--output-format", "json").json["selectors"][0]["servers"]
        ] == ["rich"]
        assert "servers not asked: rich" in done.out
        assert not caplog.records
        servers = json.loads(Path(".mcp.json").read_text())
        servers["mcpServers"]["new"] = {"command": "new"}
        Path(".mcp.json").write_text(json.dumps(servers))
        cli("check", "gate.yaml")
        (said,) = caplog.messages
        assert "servers that were never captured: new" in said
        del servers["mcpServers"]["new"]
        Path(".mcp.json").write_text(json.dumps(servers))
        before = Path("agent.snapshot/capture.yaml").stat().st_mtime_ns
        done = cli("check", "gate.yaml", "--recapture", "--output-format", "json")
        assert done.code == 0
        assert done.json["verdict"] == "same"
        assert done.json["selectors"][0]["servers"] == []
        assert "items, catalog" in done.err
        assert "Next:" not in done.err
        assert Path("agent.snapshot/capture.yaml").stat().st_mtime_ns > before

    def test_a_server_that_was_disabled_at_the_capture_is_to_be_asked(self, served, cli, caplog):
        accepted_tool(cli)
        enabled = Path(".mcp.json").read_text()
        servers = json.loads(enabled)["mcpServers"]
        off = {"mcpServers": {"rich": {**servers["rich"], "disabled": True}, "other": servers["rich"]}}
        Path(".mcp.json").write_text(json.dumps(off))
        assert cli("data", "capture", "--agent", "agent.yaml", "--timeout", "60").code == 0
        Path(".mcp.json").write_text(enabled)
        ask = "`ctxbench data capture --agent agent.yaml`"
        why = "not in agent.snapshot, because server rich was disabled during the capture"
        cli("select", "where", "--agent", "agent.yaml", "--selector", "everything")
        (said,) = caplog.messages
        assert said.endswith(f"that were disabled during the capture: rich; {ask} captures them")
        text = " ".join(cli("check", "gate.yaml", "--verbose").out.split())
        assert f"reason: {why}" in text
        assert f"fix: capture server rich: {ask}, or `ctxbench check` with --recapture" in text
        Path("run.yaml").write_text("datasets: [evals]\nselectors: [everything]\n")
        failed = cli("run", "run.yaml")
        assert f"not in agent.yaml: {why}; capture server rich: {ask}, or" in failed.err
        assert "remove what names it" not in failed.err
        assert cli("check", "gate.yaml", "--recapture").code == 0

    @pytest.mark.parametrize(
        ("left", "place_told", "why", "fix"),
        [
            ({}, ".mcp.json", "no longer in the catalog", "restore tool:rich:"),
            (
                {"disabled": True},
                ".mcp.json:1",
                "disabled with server rich in .mcp.json",
                "enable server rich in .mcp.json again",
            ),
        ],
    )
    def test_a_server_that_is_taken_out_is_where_its_tools_went(self, served, cli, left, place_told, why, fix):
        tool = accepted_tool(cli)
        servers = json.loads(Path(".mcp.json").read_text())["mcpServers"]
        servers = {"rich": {**servers["rich"], **left}} if left else {"other": {"command": "x", "disabled": True}}
        Path(".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        done = cli("check", "gate.yaml")
        assert (done.code, done.out.split(":")[0]) == (1, "worse")
        text = " ".join(done.out.split())
        assert re.search(rf"- {re.escape(place_told)}: CTX1\d\d item gone", text)
        assert f"items {why} (" in text
        assert f"{tool} ({why}): " in text
        assert f"fix: {fix}" in text

    def test_a_tool_that_its_server_has_no_more_is_not_looked_for_in_the_configuration(self, served, cli):
        assert cli("data", "capture", "--agent", "agent.yaml", "--timeout", "60").code == 0
        first, *others = Path("agent.snapshot/corpus.jsonl").read_text().splitlines(keepends=True)
        eval_of_it = {"query": "where is my parcel", "expected": [json.loads(first)["_id"]]}
        Path("evals.jsonl").write_text(json.dumps(eval_of_it))
        assert cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals").code == 0
        Path("gate.yaml").write_text(GATE.replace("agent.yaml", "everything"))
        assert cli("check", "gate.yaml", "--accept").code == 0
        Path("agent.snapshot/corpus.jsonl").write_text("".join(others))
        done = cli("check", "gate.yaml")
        assert (done.code, done.out.split(":")[0]) == (1, "worse")
        assert re.search(r"- agent.snapshot/corpus.jsonl: CTX1\d\d item gone", " ".join(done.out.split()))

    def test_a_capture_that_cannot_ask_them_names_the_command_that_goes_on_without(self, served, cli):
        assert cli("data", "capture", "--agent", "agent.yaml", "--timeout", "60").code == 0
        assert cli("data", "import", "golden", "evals.jsonl", "--catalog", "agent.yaml", "--out", "evals").code == 0
        Path("gate.yaml").write_text(GATE)
        works = json.loads(Path(".mcp.json").read_text())["mcpServers"]["rich"]
        Path(".mcp.json").write_text(json.dumps({"mcpServers": {"rich": {"command": "no-such-command"}, "o": works}}))
        done = cli("data", "capture", "--agent", "agent.yaml")
        assert done.code == 2
        said = " ".join(done.err.split())
        assert "agent.snapshot is kept as it was, since 1 of 2 failed, and it holds " in said
        capture = "ctxbench data capture --agent agent.yaml"
        others = (
            f'ask only the others: `{capture} --skip rich`, or "disabled": true in the configuration, or replace it'
        )
        assert f"{others} by what the others gave: `{capture} --partial` (rich: " in said

    def test_the_tools_of_a_server_that_is_gone_from_the_configuration_are_gone(self, served, cli):
        assert cli("data", "capture", "--agent", "agent.yaml", "--timeout", "60").code == 0
        asked = ("select", "where", "--agent", "agent.yaml", "--selector", "everything", "--json")
        works = json.loads(Path(".mcp.json").read_text())["mcpServers"]["rich"]

        def offered() -> int:
            return sum(row["id"].startswith("tool:rich:") for row in cli(*asked).json["items"])

        before = offered()
        assert before
        needs_a_variable = works | {"env": {"KEY": "${NOT_SET_ANYWHERE}"}}
        for servers, left in (
            ({"rich": needs_a_variable}, before),
            ({"rich": works | {"disabled": True}}, 0),
            ({"other": works}, 0),
        ):
            Path(".mcp.json").write_text(json.dumps({"mcpServers": servers}))
            assert offered() == left
        Path(".mcp.json").unlink()
        done = cli(*asked)
        assert done.code == 2
        assert (
            "cannot read .mcp.json: No such file or directory; expected a readable file (agent.yaml, line " in done.err
        )

    def test_a_first_capture_that_fails_in_part_is_not_checked(self, gate, served, cli):
        works = json.loads(Path(".mcp.json").read_text())["mcpServers"]["rich"]
        servers = {"rich": works, "gone": {"command": "no-such-command"}}
        Path(".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        done = cli("check", "gate.yaml", "--recapture")
        assert done.code == 2
        assert "server gone gave no tools, and agent.snapshot holds none of it" in done.err
        assert "--skip gone" in done.err

    @pytest.mark.parametrize("option", ["--out", "--mcp-config", "--rules", "--references"])
    def test_nothing_else_is_captured_with_an_agent(self, served, cli, option):
        done = cli("data", "capture", "--agent", "agent.yaml", option, "x")
        assert done.code == 2
        assert "--agent says what is captured and where it goes" in done.err

    def test_without_servers_there_is_nothing_to_capture(self, agent, cli):
        done = cli("data", "capture", "--agent", "agent.yaml")
        assert done.code == 2
        assert "names no servers" in done.err

    def test_two_runs_are_compared_without_servers(self, cli):
        assert "--recapture needs a gate file" in cli("check", "a", "b", "--recapture").err
