"""Rows field by field: what is wrong becomes a fault with its line, and reading goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ctxbench.io.errors import Fault, ParameterError
from ctxbench.io.rows import Row, jsonl_rows, read_text_value
from ctxbench.model.items import ItemKey, read_key

PATH = Path("a.jsonl")


def row_of(**data: Any) -> Row:
    return Row(data, [], PATH, 3)


def shown(row: Row) -> list[str]:
    return [str(fault) for fault in row.faults]


def test_values_are_taken_as_they_are() -> None:
    row = row_of(text="x", flag=False, number=0, entries=[], object={})
    assert row.take("text", str, "") == "x"
    assert row.take("flag", bool, True) is False
    assert row.take("number", int, 7) == 0
    assert row.take("entries", list, [1]) == []
    assert row.optional("object", dict) == {}
    assert row.faults == []


def test_what_is_absent_or_null_is_the_default() -> None:
    row = row_of(null=None)
    assert (row.take("null", str, "d"), row.take("absent", str, "d")) == ("d", "d")
    assert (row.optional("null", int), row.optional("absent", int)) == (None, None)
    assert row.faults == []


@pytest.mark.parametrize(
    ("value", "kind", "called"),
    [
        (1, str, "a text"), ("x", int, "a whole number"), (1.0, int, "a whole number"), (True, int, "a whole number"),
        (1, bool, "true or false"), ({}, list, "a list"), ([], dict, "an object"),
    ],
)  # fmt: skip
def test_another_type_is_a_fault_and_counts_as_absent(value: Any, kind: type[Any], called: str) -> None:
    row = row_of(a=value)
    assert row.take("a", kind, "default") == "default"
    assert row.optional("a", kind) is None
    assert shown(row) == [f"field 'a' must be {called}, got {value!r} (a.jsonl, line 3)"] * 2


def test_a_long_value_is_cut_in_the_message() -> None:
    row = row_of(a="x" * 500)
    row.take("a", int, 0)
    assert shown(row) == [f"field 'a' must be a whole number, got '{'x' * 59} (a.jsonl, line 3)"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "field 'a' is missing; expected a text"),
        ({"a": None}, "field 'a' is missing; expected a text"),
        ({"a": ""}, "field 'a' must not be empty"),
        ({"a": 1}, "field 'a' must be a text, got 1"),
    ],
)
def test_a_required_text_is_there_and_not_empty(data: dict[str, Any], message: str) -> None:
    row = row_of(**data)
    assert row.take("a", str, "", required=True) == ""
    assert [fault.message for fault in row.faults] == [message]


def test_unknown_fields_are_faults_with_the_closest() -> None:
    row = row_of(text="x", txet="y")
    row.refuse_unknown(("text", "title"))
    assert shown(row) == ["unknown field 'txet'; did you mean 'text'? Known: text, title (a.jsonl, line 3)"]


def test_a_field_of_yaml_has_its_own_line() -> None:
    faults: list[Fault] = []
    row = Row({"a": 1, "b": 1}, faults, PATH, 3, {("a",): 5})
    row.take("a", str, "")
    row.take("b", str, "")
    row.fault("whole")
    assert [fault.line for fault in faults] == [5, 3, 3]


def test_entries_that_cannot_be_read_are_faults_and_left_out() -> None:
    row = row_of(items=["rule:a", 7, "rule", "tool:s:n"])
    read = row.read_list("items", read_key, expected="an item id")
    assert read == (ItemKey("rule", None, "a"), ItemKey("tool", "s", "n"))
    second, third = shown(row)
    assert second == "field 'items', entry 2: expected an item id, got 7 (a.jsonl, line 3)"
    assert third.startswith("field 'items', entry 3: 'rule' is no item id")


def test_no_list_gives_no_entries() -> None:
    row = row_of(text="x", null=None)
    for name in ("absent", "null"):
        assert row.read_list(name, read_key, expected="an item id") == ()
    assert row.faults == []
    assert row.read_list("text", read_key, expected="an item id") == ()
    assert shown(row) == ["field 'text' must be a list, got 'x' (a.jsonl, line 3)"]


def test_single_values_say_what_they_are_not() -> None:
    assert read_text_value("") == ""
    for value in (None, 1, ["x"]):
        with pytest.raises(TypeError):
            read_text_value(value)
        with pytest.raises(TypeError):
            read_key(value)
    with pytest.raises(ParameterError, match="is no item id"):
        read_key("a:b:c:d")


def test_an_object_in_a_row_has_its_line_and_its_faults() -> None:
    row = row_of(inner={"a": 1}, text="x")
    inner = row.nested(row.data["inner"])
    assert inner.take("a", str, "") == ""
    assert shown(row) == ["field 'a' must be a text, got 1 (a.jsonl, line 3)"]
    assert row.nested(row.data["text"]).data == {}


def test_rows_of_json_lines_leave_faulty_lines_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n\n[]\n{"a": 2}\n')
    faults: list[Fault] = []
    assert [(row.line, row.data["a"]) for row in jsonl_rows(path, faults)] == [(1, 1), (4, 2)]
    assert [fault.line for fault in faults] == [3]
