"""Files of tools: every frame that lists come in, and everything that can be wrong in one, by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctxbench.catalogs.snapshots import capture
from ctxbench.catalogs.tool_lists import read_tool_list, tool_list
from ctxbench.io.errors import InputError, StorageError

LIVEMCPBENCH = Path(__file__).parents[2] / ".." / "shared" / "data" / "livemcpbench" / "tools.json"


def mcp(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, **more}


def listed(folder: Path, data: Any, **options: Any) -> Any:
    path = folder / "tools.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return read_tool_list(path, **options)


def test_another_file_than_json_is_told_what_is_expected(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("- name: a\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a list of tools must be JSON, or JSON lines in .*\.jsonl: malformed JSON"):
        read_tool_list(tmp_path / "t.yaml")


def faults_of(folder: Path, data: Any) -> list[tuple[int, str]]:
    with pytest.raises(InputError) as caught:
        listed(folder, data)
    return [(fault.line, fault.message) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("data", "ids"),
    [
        ([mcp("a"), mcp("b")], "tool:a tool:b"),
        ({"tools": [mcp("b"), mcp("a")]}, "tool:b tool:a"),
        (mcp("a"), "tool:a"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"tools": [mcp("a")]}}, "tool:a"),
        ({"model": "m", "messages": [], "tools": [mcp("a")]}, "tool:a"),
        ({"functions": [{"name": "a", "parameters": {}}]}, "tool:a"),
        ({"git": [mcp("a")], "web": {"tools": [mcp("a")]}}, "tool:git:a tool:web:a"),
        ({"servers": {"git": {"tools": [mcp("a")]}}}, "tool:git:a"),
        ({"servers": [{"name": "git", "tools": [mcp("a")]}]}, "tool:git:a"),
        ({"mcpServers": {"git": {"command": "x", "tools": [mcp("a")]}}}, "tool:git:a"),
        ([{"server": "git", "tools": [mcp("a")]}, {"id": "web", "tools": [mcp("b")]}], "tool:git:a tool:web:b"),
        ([{"name": "Shown", "tools": {"git": {"tools": [mcp("a")]}}}], "tool:git:a"),
        ([mcp("a", server="git"), mcp("a", serverName="my web"), mcp("a")], "tool:git:a tool:my%20web:a tool:a"),
        ({"git": [mcp("a", server="other")]}, "tool:other:a"),
    ],
)
def test_every_frame_is_read(data: Any, ids: str, tmp_path: Path) -> None:
    assert [item.id for item in listed(tmp_path, data).items] == ids.split()


def test_a_server_can_be_given_for_tools_that_name_none(tmp_path: Path) -> None:
    part = listed(tmp_path, [mcp("a"), mcp("b", server="web")], server="git")
    assert [item.id for item in part.items] == ["tool:git:a", "tool:web:b"]
    assert part.details == {"forms": {"mcp": 2}, "servers": ["git", "web"]}


def test_the_version_of_a_server_is_kept(tmp_path: Path) -> None:
    data = {"git": {"serverInfo": {"version": "3"}, "tools": [mcp("a")]}, "web": {"version": "4", "tools": [mcp("a")]}}
    assert [item.metadata["server_version"] for item in listed(tmp_path, data).items] == ["3", "4"]


def test_forms_may_be_mixed_and_are_counted(tmp_path: Path) -> None:
    data = [mcp("a"), {"type": "function", "function": {"name": "b"}}, {"name": "c", "input_schema": {}}, {"name": "d"},
            {"type": "web_search"}, {"type": "web_search", "name": "again"}]  # fmt: skip
    part = listed(tmp_path, data)
    assert [item.name for item in part.items] == ["a", "b", "c", "d"]
    assert part.details["forms"] == {"anthropic": 1, "mcp": 1, "openai": 1, "plain": 1}
    assert part.notes == ("left out, because the model's provider runs them and they have no definition: 2 web_search",)
    row = part.as_row()
    assert (row["items"], row["without_description"], row["without_schema"]) == (4, 3, 2)


def test_a_list_that_names_a_next_page_says_so(tmp_path: Path) -> None:
    assert "next page" in listed(tmp_path, {"tools": [mcp("a")], "nextCursor": "2"}).notes[0]


def test_a_name_twice_on_one_server_is_a_fault_with_both_lines(tmp_path: Path) -> None:
    text = '{"tools": [\n{"name": "a", "inputSchema": {}},\n{"name": "b"},\n{"name": "a", "description": "x"}\n]}'
    what = "tool 'a' occurs twice, first in line 2; names must differ"
    assert faults_of(tmp_path, text) == [(4, what)]
    text = '{"git": [\n{"name": "a"}],\n"web": [{"name": "a"},\n\n{"name": "a"}]}'
    assert faults_of(tmp_path, text) == [
        (5, "tool 'a' occurs twice on server 'web', first in line 3; names must differ")
    ]


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    text = '[{"name": ""},\n3,\n{"name": "ok"},\n{"name": "s", "parameters": 1},\n{"tools": [null]}\n]'
    found = faults_of(tmp_path, text)
    assert [line for line, _ in found] == [1, 2, 4]
    assert "tool 's': field 'parameters' must be an object" in found[2][1]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("[]", "contains no tool definition"),
        ("{}", "contains no tool definition"),
        ('"tools"', "'tools' contains no tool definition; expected a list of tools"),
        ('{"a": 1}', "field 'a' contains no tool definition"),
        ('{"mcpServers": {"git": {"command": "x"}}}', "` starts it and lists them"),
        ('[{"type": "web_search"}]', "contains no tool definition"),
        ('{"tools": [}', "malformed JSON"),
    ],
)
def test_what_is_no_list_is_a_fault(data: str, message: str, tmp_path: Path) -> None:
    found = faults_of(tmp_path, data)
    assert len(found) == 1
    assert message in found[0][1]


def test_a_file_that_is_not_there_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot read"):
        read_tool_list(tmp_path / "no.json")


@pytest.mark.skipif(not LIVEMCPBENCH.exists(), reason="needs shared/data/livemcpbench")
def test_the_list_of_livemcpbench_is_read_as_its_source_says() -> None:
    snapshot = capture(tool_list(LIVEMCPBENCH))
    assert snapshot.counts() == {"items": 527, "tools": 527, "without_description": 19}
    assert len({item.server for item in snapshot.catalog}) == 70
    assert len({item.name for item in snapshot.catalog}) == 510


@pytest.mark.parametrize("name", ["tools.jsonl", "tools.json"])
def test_a_list_in_a_file_of_lines_and_lines_in_a_file_of_json_are_read(tmp_path: Path, name: str) -> None:
    tools = [mcp("a"), mcp("b", inputSchema=3)]
    text = json.dumps(tools, indent=1) if name == "tools.jsonl" else "\n".join(map(json.dumps, tools))
    line = 1 + next(place for place, one in enumerate(text.split("\n")) if '"b"' in one)
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="tool 'b': field 'inputSchema' must be an object") as caught:
        read_tool_list(tmp_path / name)
    assert [fault.line for fault in caught.value.faults] == [line - (name == "tools.jsonl")]


def test_entries_that_are_no_tools_are_one_fault(tmp_path: Path) -> None:
    ((_, what),) = faults_of(tmp_path, ["a", "b"])
    assert what == "'a' is not a tool; expected an object with name, description and schema; and 1 more: 'b'"


def test_a_second_document_after_the_list_is_a_fault(tmp_path):
    path = tmp_path / "tools.json"
    path.write_text('[\n{"name": "a", "inputSchema": {}}\n]\n[]\n')
    with pytest.raises(InputError, match=r"malformed JSON: Extra data .*tools\.json, line 4"):
        read_tool_list(path)
