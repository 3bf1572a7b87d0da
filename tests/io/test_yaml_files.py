"""YAML: JSON's types only, and every fault with its line and column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ctxbench.io.documents import dump_yaml, line_of, load_yaml
from ctxbench.io.errors import InputError


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_yaml_gives_the_line_of_every_key_and_entry(tmp_path: Path) -> None:
    data, lines = load_yaml(written(tmp_path, "# head\na: 1\nb:\n  - x\n  - y: 2\n    z:\n      deep\n"))
    assert data == {"a": 1, "b": ["x", {"y": 2, "z": "deep"}]}
    assert lines == {(): 1, ("a",): 2, ("b",): 3, ("b", 0): 4, ("b", 1): 5, ("b", 1, "y"): 5, ("b", 1, "z"): 6}
    assert line_of(lines, ("b", 1, "missing", 3)) == 5
    assert line_of({}, ("b",)) == 0


def test_yaml_has_the_types_of_json(tmp_path: Path) -> None:
    text = "[yes, no, on, 2026-03-23, 12:30:00, 1e-5, 010, 0x1F, 0o17, .5, 1., -3, ~, .nan, .inf, 'true', true, null]"
    data, _ = load_yaml(written(tmp_path, text))
    assert data == [
        *("yes", "no", "on", "2026-03-23", "12:30:00", 1e-5, 10, 31, 15, 0.5, 1.0, -3, None),
        *(".nan", ".inf", "true", True, None),
    ]
    assert [type(value) for value in data[5:12]] == [float, int, int, int, float, float, int]


def test_keys_of_yaml_are_texts_and_merges_work(tmp_path: Path) -> None:
    data, lines = load_yaml(written(tmp_path, "base: &b {k: 1, j: 2}\nuse:\n  <<: *b\n  k: 3\n"))
    assert data == {"base": {"k": 1, "j": 2}, "use": {"k": 3, "j": 2}}
    assert line_of(lines, ("use", "j")) == 2
    assert line_of(lines, ("use", "k")) == 4


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", "malformed YAML", 3, 2),
        ("a: 1\n\tb: 2\n", "malformed YAML", 2, 1),
        ("a: 1\nb: 2\na: 3\n", "key 'a' occurs twice in one mapping", 3, 1),
        ("a: !!python/object:os.system x\n", "tag !!python/object:os.system is not a type of JSON", 1, 4),
        ("a: !!timestamp 2020-01-01\n", "tag !!timestamp is not a type of JSON", 1, 4),
        ("- 1\n- !!binary aGk=\n", "tag !!binary is not a type of JSON", 2, 3),
        ("a: !!set {x, y}\n", "tag !!set is not a type of JSON", 1, 4),
        ("a: !!omap [x: 1]\n", "tag !!omap is not a type of JSON", 1, 4),
        ("a: !mine x\n", "tag !mine is not a type of JSON", 1, 4),
        ("a: !!bool maybe\n", "tag !!bool is not a type of JSON", 1, 4),
        ("a: !!map [x]\n", "tag !!map is not a type of JSON", 1, 4),
        ("a:\n  <<: {k: !!timestamp 2020-01-01}\n", "tag !!timestamp is not a type of JSON", 2, 11),
        ("a: 1\n---\nb: 2\n", "malformed YAML: expected a single document", 2, 1),
        ("a: 1e999\n", "'1e999' is no finite number", 1, 4),
        ("a: x\x00y\n", "the file contains a NUL byte, which no text has; remove it, or name another file", 1, 5),
        ("? [a, b]\n: 1\n", "a key must be a text", 1, 3),
        ("1: a\n", "a key must be a text", 1, 1),
    ],
)
def test_what_is_wrong_in_yaml_is_placed(tmp_path: Path, text: str, message: str, line: int, column: int) -> None:
    with pytest.raises(InputError) as caught:
        load_yaml(written(tmp_path, text))
    fault = caught.value.faults[0]
    assert message in fault.message
    assert (fault.line, fault.column) == (line, column)


def test_all_keys_that_stand_twice_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_yaml(written(tmp_path, "a: {x: 1, x: 2}\nb: 1\nb: 2\n"))
    assert [(f.line, f.column) for f in caught.value.faults] == [(1, 11), (3, 1)]


def test_aliases_cannot_fill_the_memory(tmp_path: Path) -> None:
    levels = [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 12)]
    with pytest.raises(InputError, match="more than"):
        load_yaml(written(tmp_path, "\n".join(["l0: &l0 x", *levels])))
    merges = [f"l{i}: &l{i} {{<<: [{', '.join([f'*l{i - 1}'] * 10)}]}}" for i in range(1, 8)]
    with pytest.raises(InputError, match="more than"):
        load_yaml(written(tmp_path, "\n".join(["l0: &l0 {k: 1}", *merges])))
    for text in ("a: &a [*a]\n", "a: &a {<<: *a}\n", "a: &a {b: [1, *a]}\n"):
        with pytest.raises(InputError, match="an alias contains itself"):
            load_yaml(written(tmp_path, text))


def test_a_tag_that_says_what_a_value_is_anyway_is_fine(tmp_path: Path) -> None:
    data, _ = load_yaml(written(tmp_path, "!!map {a: !!str 1, b: !!int 2, c: !!float 3, d: !!bool true, e: !!seq []}"))
    assert data == {"a": "1", "b": 2, "c": 3.0, "d": True, "e": []}


def test_what_an_alias_repeats_is_one_fault(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_yaml(written(tmp_path, "a: &a {x: 1, x: 2}\nb: [*a, *a]\nc: {<<: *a}\n"))
    assert [(f.line, f.column) for f in caught.value.faults] == [(1, 14)]


def test_an_empty_yaml_file_is_none(tmp_path: Path) -> None:
    assert load_yaml(written(tmp_path, "# nothing\n")) == (None, {(): 1})


@pytest.mark.parametrize(
    "value",
    [
        "1e-5",
        "yes",
        "010",
        "0o7",
        "12:30",
        "null",
        "",
        "a: b",
        "two\nlines\n",
        " lead\nx",
        "ä",
        "2026-03-23",
        "#",
        "\x07",
        "\x85",
        "a\x85b\nc",
        "\u2028x\n",
    ],
)
def test_texts_survive_yaml(tmp_path: Path, value: str) -> None:
    data: dict[str, Any] = {"k": value, value or "e": [value, {"x": 1e-7, "y": -3, "z": None, "b": True}]}
    for short in (False, True):
        assert load_yaml(written(tmp_path, dump_yaml(data, short=short)))[0] == data


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "[" * 3_900 + "]" * 3_900, "- " * 1_900 + "x", "[" * 20_000 + "]" * 20_000]
)
def test_yaml_of_any_depth_ends_in_a_message(tmp_path, text):
    with pytest.raises(InputError, match=r"nested too deeply|malformed YAML"):
        load_yaml(written(tmp_path, text))


def test_either_parser_of_yaml_gives_the_same_data_and_lines(tmp_path, monkeypatch):
    text = "a: [1, {b: yes}]\nc:\n- x\n- |\n  two\n  lines\n- &k {d: 1e-5}\n- *k\n"
    fast = load_yaml(written(tmp_path, text))
    monkeypatch.setattr("ctxbench.io.documents._FAST", 0)
    assert load_yaml(written(tmp_path, text)) == fast
    assert fast[0] == {"a": [1, {"b": "yes"}], "c": ["x", "two\nlines\n", {"d": 1e-5}, {"d": 1e-5}]}
