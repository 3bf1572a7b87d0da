"""JSON and JSON lines: every fault with its line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctxbench.io.documents import dump_json, dump_jsonl, is_lines, iter_jsonl, parse_json, read_json, values_with_lines
from ctxbench.io.errors import Fault, InputError


def faults_of(text: str) -> list[tuple[str, int, int]]:
    with pytest.raises(InputError) as caught:
        parse_json(text)
    return [(f.message, f.line, f.column) for f in caught.value.faults]


def test_malformed_json_is_placed() -> None:
    assert faults_of('{\n  "a": 1,\n  "b" 2}') == [("malformed JSON: Expecting ':' delimiter", 3, 7)]
    assert faults_of(" \n") == [("the file is empty; expected JSON", 2, 1)]


@pytest.mark.parametrize(
    ("text", "said", "column"),
    [
        ('{"a": "one tw', "Unterminated string starting at", 7),
        ('{"a": [1, 2', "Expecting ',' delimiter", 12),
        ('{"a": 1,\n', "Expecting property name enclosed in double quotes", 1),
        ('{"a": ', "Expecting value", 7),
    ],
)
def test_json_that_is_cut_off_is_told_from_other_mistakes(text: str, said: str, column: int) -> None:
    (found,) = faults_of(text)
    assert found == (f"malformed JSON: it ends too early, as if cut off ({said})", 1 + text.count("\n"), column)


def test_every_key_that_stands_twice_is_placed() -> None:
    text = '{"a": {"x": 1,\n "x": 2}, "b": "a", "c": ["\\"a\\":", {"a": 1}],\n "\\u0061": 3}'
    assert faults_of(text) == [
        ("key 'x' occurs twice in one object", 2, 2),
        ("key 'a' occurs twice in one object", 3, 2),
    ]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(number: str) -> None:
    text = f'["{number}",\n  {number}]'
    assert faults_of(text) == [(f"{number} is no JSON number; expected a finite one", 2, 3)]


def test_nesting_beyond_the_stack_and_endless_integers_are_faults() -> None:
    assert faults_of("[" * 100_000)[0][0] == "JSON is nested too deeply"
    assert "malformed JSON" in faults_of("9" * 5000)[0][0]


def test_json_lines_gives_good_rows_and_all_faults(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n\n[1]\n{"a": }\n\xff\n{"a": 1, "a": 2}\n{"a": "\xe2\x80\xa8"}')
    faults: list[Fault] = []
    assert list(iter_jsonl(path, faults)) == [(1, {"a": 1}), (7, {"a": "\u2028"})]
    assert [(f.line, f.column) for f in faults] == [(3, 1), (4, 7), (5, 1), (6, 10)]
    assert faults[0].message == "expected a JSON object {...} on each line, got a list"
    assert all(f.path == path for f in faults)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('\n[\n  {"a": 1},\n  {\n    "a": [2]\n  }\n]\n', [(3, {"a": 1}), (4, {"a": [2]})]),
        ('[{"a": 1}, {"a": 2}]', [(1, {"a": 1}), (1, {"a": 2})]),
        ('{\n"a": 1\n}\n{\n"a": 2\n}\n', [(1, {"a": 1}), (4, {"a": 2})]),
        ("[]", []),
    ],
)
def test_a_list_and_objects_over_several_lines_are_read_as_json_lines(
    tmp_path: Path, text: str, rows: list[tuple[int, dict[str, object]]]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    faults: list[Fault] = []
    assert (list(iter_jsonl(path, faults)), faults) == (rows, [])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[\n{"a": 1}\n{"a": 2}\n]', [("malformed JSON: Expecting ',' delimiter", 3, 1)]),
        (
            '[\n{"a": 1},',
            [("malformed JSON: it ends too early, as if cut off (Expecting value)", 2, 10)],
        ),
        ('[{"a": 1},\n {"a": 1, "a": 2}]', [("key 'a' occurs twice in one object", 2, 11)]),
        ('["a",\n"b"]', [("expected a JSON object {...} on each line, got a list", 1, 1)]),
        ("[" * 100_000, [("JSON is nested too deeply", 0, 0)]),
    ],
)
def test_a_list_with_something_wrong_is_one_fault(tmp_path: Path, text: str, found: list[tuple[str, int, int]]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    faults: list[Fault] = []
    list(iter_jsonl(path, faults))
    assert [(fault.message, fault.line, fault.column) for fault in faults] == found


def test_one_bad_first_line_does_not_make_a_list_of_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for first in ("{", "[1]"):
        path.write_text(first + '\n{"a": 1}\n{"a": }\n')
        faults: list[Fault] = []
        assert list(iter_jsonl(path, faults)) == [(2, {"a": 1})]
        assert [fault.line for fault in faults] == [1, 3]


@pytest.mark.parametrize(("text", "so"), [('{"a": 1}\n{"a": 2}', True), ('{\n"a": 1', False), ("x", False)])
def test_lines_are_told_from_json_that_is_malformed(tmp_path: Path, text: str, so: bool) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    assert is_lines(path) is so


def test_what_is_written_reads_back_equal(tmp_path: Path) -> None:
    value = {"b": [1, 0.1, None, True], "a": 'ä\u2028\n"', "lone": "\ud800"}
    path = tmp_path / "a.json"
    for indent in (None, 2):
        path.write_text(dump_json(value, indent=indent), encoding="utf-8")
        assert read_json(path) == value
    assert dump_json({"b": "ä", "a": 1}) == '{"b":"ä","a":1}'
    assert dump_jsonl([{"a": 1}, {"b": 2}]) == '{"a":1}\n{"b":2}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump_json(float("nan"))


def test_values_that_follow_each_other_have_the_lines_that_they_start_in() -> None:
    assert list(values_with_lines('{"a": 1}\n\n[2,\n 3] 4')) == [(1, {"a": 1}), (3, [2, 3]), (4, 4)]
    assert list(values_with_lines(" [1,\n 2] 3", 2, end="]}")) == [(1, 1), (2, 2)]
    assert list(values_with_lines(" \n")) == []
    with pytest.raises(ValueError, match="Expecting value"):
        list(values_with_lines("1 x"))


def test_what_is_malformed_is_said_before_a_key_that_is_there_twice() -> None:
    assert faults_of('{"a": 1, "b": {"a": 2, "a": 3} x}') == [("malformed JSON: Expecting ',' delimiter", 1, 32)]
    assert faults_of('{"a": 1, "b": {"a": 2, "a": 3}}') == [("key 'a' occurs twice in one object", 1, 24)]
