"""Catalogs from files: where they are looked for, and everything that can be wrong in one, by line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ctxbench.catalogs.snapshots import corpus_rows, read_catalog, read_items
from ctxbench.io.errors import Fault, InputError, StorageError
from ctxbench.model.items import Item

RULE = {"_id": "rule:a", "text": "Write tests."}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def corpus(folder: Path, *lines: str | dict[str, Any]) -> Path:
    """Write `corpus.jsonl`; a text is a line as it stands."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    (folder / "corpus.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return folder / "corpus.jsonl"


def faults_of(path: Path) -> list[tuple[int, str]]:
    with pytest.raises(InputError) as caught:
        read_catalog(path)
    assert {fault.path for fault in caught.value.faults} == {path}
    return [(fault.line, fault.message) for fault in caught.value.faults]


def test_a_file_a_folder_and_a_name_in_the_cache_are_found(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = corpus(tmp_path / "mine", RULE)
    corpus(cache / "datasets" / "kept", {"_id": "rule:kept"})
    for given in (file, str(file), file.parent):
        assert read_catalog(given).ids == ("rule:a",)
    assert read_catalog("kept").ids == ("rule:kept",)
    corpus(tmp_path / "kept", {"_id": "rule:here"})
    monkeypatch.chdir(tmp_path)
    assert read_catalog("kept").ids == ("rule:here",)  # a folder comes before a name


@pytest.mark.parametrize("given", ["nothing", "", "a\0b", "a" * 300, "\ud800"])
def test_what_is_not_there_is_a_storage_error(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match=r"no catalog|can be no path"):
        read_catalog(given)


def test_a_folder_that_a_killed_process_moved_aside_is_found(tmp_path: Path) -> None:
    target = tmp_path / "cache" / "datasets" / "kept"
    corpus(target, RULE)
    program = (
        "import os, sys; from pathlib import Path; from ctxbench.io.files import atomic_folder\n"
        "rename = Path.rename\n"
        "Path.rename = lambda path, to: (rename(path, to), path.name == 'kept' and os._exit(9))\n"
        "with atomic_folder(Path(sys.argv[1])) as folder: (folder / 'x').write_text('x')\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(target)], check=False, timeout=120).returncode == 9
    assert not target.exists()
    assert read_catalog("kept").ids == ("rule:a",)


def test_every_field_is_read(tmp_path: Path) -> None:
    row = {
        "_id": "tool:tracker:create_issue", "type": "tool", "server": "tracker", "name": "create_issue",
        "title": "Create", "description": "Makes an issue.", "text": "", "include": "manual", "enabled": False,
        "priority": 120, "schema": {"type": "object"}, "metadata": {"since": 1},
    }  # fmt: skip
    (item,) = read_catalog(corpus(tmp_path, row))
    assert item == Item(
        type="tool", server="tracker", name="create_issue", title="Create", description="Makes an issue.",
        include="manual", enabled=False, priority=120, schema={"type": "object"}, metadata={"since": 1},
    )  # fmt: skip


def test_a_title_that_is_the_name_is_none(tmp_path: Path) -> None:
    (item,) = read_catalog(corpus(tmp_path, {"_id": "rule:a", "title": "a"}))
    assert item.title == ""


def test_any_text_of_unicode_is_kept_and_a_byte_order_mark_is_not(tmp_path: Path) -> None:
    rows = [
        {"_id": "rule:%E6%BC%A2%20x", "text": "漢\u2028字 e\u0301 \U0001f680\u202e"},
        '{"_id": "rule:half", "text": "\\ud83d\\u0000"}',
    ]
    path = corpus(tmp_path, *rows)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    first, second = read_catalog(path)
    assert (first.name, first.text) == ("漢 x", "漢\u2028字 e\u0301 \U0001f680\u202e")
    assert second.text == "\ud83d\0"


def test_items_keep_the_order_of_lines_and_blank_lines_do_not_count(tmp_path: Path) -> None:
    path = corpus(tmp_path, "", {"_id": "rule:b"}, "  ", {"_id": "rule:a"}, "")
    faults: list[Fault] = []
    items, complete = read_items(path, faults)
    assert ([item.id for item in items], complete) == (["rule:b", "rule:a"], True)
    assert faults == []


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_is_a_fault(tmp_path: Path, content: str) -> None:
    assert faults_of(corpus(tmp_path, content)) == [(0, "the file is empty; expected one item per line")]


def test_everything_wrong_is_reported_in_file_order(tmp_path: Path) -> None:
    path = corpus(
        tmp_path,
        RULE,
        "{bad",
        {"_id": "rule:b", "foo": 1, "descripton": "x"},
        "[1]",
        {"_id": "rule:a"},
        {"text": "no id"},
    )
    known = (
        "_id, confidence, conversation, created, description, enabled, include, kind, links, metadata, name, "
        "priority, ..."
    )
    assert faults_of(path) == [
        (2, "malformed JSON: Expecting property name enclosed in double quotes"),
        (3, f"unknown field 'foo'; Known: {known}"),
        (3, f"unknown field 'descripton'; did you mean 'description'? Known: {known}"),
        (4, "expected a JSON object {...} on each line, got a list"),
        (5, "item 'rule:a' occurs twice, first in line 1; ids must differ"),
        (6, "field '_id' is missing; expected a text"),
    ]


def test_faults_that_were_there_before_stay_first(tmp_path: Path) -> None:
    faults = [Fault("of another file", "dataset.yaml", 9)]
    items, complete = read_items(corpus(tmp_path, "{bad", RULE), faults)
    assert [(fault.path and Path(fault.path).name, fault.line) for fault in faults] == [
        ("dataset.yaml", 9),
        ("corpus.jsonl", 1),
    ]
    assert ([item.id for item in items], complete) == (["rule:a"], False)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"_id": "rule:code review"}, "field '_id' is 'rule:code review'; percent-encoded it must be"),
        ({"_id": "rule"}, "field '_id': 'rule' is no item id"),
        ({"_id": ""}, "field '_id' must not be empty"),
        ({"_id": 7}, "field '_id' must be a text, got 7"),
        ({"_id": "tool:s:n", "name": "m"}, "field 'name' is 'm', but _id 'tool:s:n' says 'n'; they must agree"),
        ({"_id": "tool:s:n", "server": "t"}, "field 'server' is 't', but _id 'tool:s:n' says 's'; they must agree"),
        ({"_id": "rule:n", "server": "t"}, "field 'server' is 't', but _id 'rule:n' says None; they must agree"),
        ({"_id": "rule:n", "type": "tool"}, "field 'type' is 'tool', but _id 'rule:n' says 'rule'; they must agree"),
        ({"_id": "rulle:n"}, "item type must be one of"),
        ({"_id": "rule:n", "include": "never"}, "field 'include' must be one of always, manual, agent, got 'never'"),
        ({"_id": "rule:n", "enabled": "yes"}, "field 'enabled' must be true or false, got 'yes'"),
        ({"_id": "rule:n", "priority": True}, "field 'priority' must be a whole number, got True"),
        ({"_id": "tool:n", "schema": []}, "field 'schema' must be an object, got []"),
    ],
)
def test_a_field_that_is_wrong_is_one_fault(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    [(line, shown)] = faults_of(corpus(tmp_path, RULE, row))
    assert line == 2
    assert message in shown


def test_an_empty_server_is_none(tmp_path: Path) -> None:
    assert read_catalog(corpus(tmp_path, {"_id": "rule:a", "server": ""})).ids == ("rule:a",)


def test_a_line_that_is_no_utf8_is_a_fault_with_its_line(tmp_path: Path) -> None:
    path = corpus(tmp_path, RULE)
    path.write_bytes(path.read_bytes() + b'\n{"_id": "rule:\xff"}\n')
    [(line, message)] = faults_of(path)
    assert (line, "byte 0xff" in message) == (2, True)


def test_facts_are_read_and_written_alike(tmp_path: Path) -> None:
    row = {
        "_id": "memory:m",
        "title": "m",
        "text": "Likes tea.",
        "type": "memory",
        "name": "m",
        "workspace": "w",
        "user": "ann",
        "conversation": "k",
        "kind": "preference",
        "created": "2026-01-01",
        "until": "2026-02-01T00:00:00Z",
        "confidence": 0.5,
        "links": [{"type": "about", "item": "memory:n"}],
    }
    other = {"_id": "memory:n", "title": "n", "text": "", "type": "memory", "name": "n"}
    catalog = read_catalog(corpus(tmp_path, row, other))
    assert [item.as_row() for item in catalog] == [row, other]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("created", "soon", "created must be ISO 8601, such as 2026-03-23T09:30:00+00:00, got 'soon' (item memory:m)"),
        ("kind", 3, "field 'kind' must be a text, got 3"),
        ("confidence", "much", "field 'confidence' must be a number, got 'much'"),
        ("confidence", 2, "confidence must be 0 to 1, got 2.0 (item memory:m)"),
        (
            "links",
            [["about", "memory:n"]],
            'field \'links\', entry 1: expected {"type": text, "item": item id}',
        ),
        (
            "links",
            [{"type": "about", "item": "memory:n"}],
            "item 'memory:m': its link 'about' leads to 'memory:n', which does not exist; add that item",
        ),
    ],
)
def test_faults_of_facts_have_their_line(tmp_path: Path, field: str, value: object, said: str) -> None:
    ((line, found),) = faults_of(corpus(tmp_path, {"_id": "memory:m", field: value}))
    assert (line, found.startswith(said)) == (1, True), found


def test_a_tool_has_no_text_whatever_its_row_says(tmp_path: Path) -> None:
    """An edit of the description by hand leaves the text of the row as it was."""
    row = '{"_id": "tool:s:a", "title": "a", "text": "Does a.", "description": "Does a, and b."}\n'
    (tmp_path / "corpus.jsonl").write_text(row, "utf-8")
    (item,) = read_catalog(tmp_path)
    assert (item.text, item.description) == ("", "Does a, and b.")
    (written,) = corpus_rows([item])
    assert (written["text"], written["description"]) == ("Does a, and b.", "Does a, and b.")
