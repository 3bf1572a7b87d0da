"""JSON with comments, and the lines of its entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctxbench.io.documents import entry_lines, plain_json, read_jsonc
from ctxbench.io.errors import InputError


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "file.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_comments_and_trailing_commas_are_passed_over(tmp_path: Path) -> None:
    text = '// head\n{\n  "a": [1, 2, /* two,\n lines */ ], // tail\n  "b": {"c": "x",},\n}\n'
    assert read_jsonc(write(tmp_path, text))[0] == {"a": [1, 2], "b": {"c": "x"}}


def test_what_looks_like_a_comment_in_a_text_stays(tmp_path: Path) -> None:
    text = '{"url": "https://a/b", "glob": "/* not */", "quote": "\\"// no\\"", "comma": ",]"}'
    assert read_jsonc(write(tmp_path, text)) == (
        {"url": "https://a/b", "glob": "/* not */", "quote": '"// no"', "comma": ",]"},
        text,
    )


def test_lines_and_columns_stay_where_they_were(tmp_path: Path) -> None:
    text = '{ /* a\n b */ "a": 1, // c\n  "b": nope }'
    assert [len(line) for line in plain_json(text).split("\n")] == [len(line) for line in text.split("\n")]
    with pytest.raises(InputError) as caught:
        read_jsonc(write(tmp_path, text))
    assert [(fault.line, fault.column) for fault in caught.value.faults] == [(3, 8)]


@pytest.mark.parametrize("text", ["", "{", '{"a": 1} x', "[1,,2]", '{"a": 1, "a": 2}', '"open', "/* open"])
def test_what_is_no_json_is_a_fault(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_jsonc(write(tmp_path, text))


def test_invalid_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"invalid UTF-8.*line 2, column 4"):
        read_jsonc(write(tmp_path, b'{\n "a\xff": 1}'))


def test_every_value_has_its_line() -> None:
    text = '{\n "a": [1,\n {"b": 2}, [], "x,]"],\n"c:d": {},\n"e":\n null }'
    assert entry_lines(text) == {
        (): 1, ("a",): 2, ("a", 0): 2, ("a", 1): 3, ("a", 1, "b"): 3, ("a", 2): 3, ("a", 3): 3, ("c:d",): 4, ("e",): 5,
    }  # fmt: skip
    assert entry_lines("\n3") == {(): 2}


@pytest.mark.parametrize("text", ["/* " * 100_000, '"' + '\\"' * 100_000, '"\n' * 100_000])
def test_what_is_never_closed_is_looked_through_once(text: str) -> None:
    assert plain_json(text) == text


def test_a_comment_that_is_never_closed_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="malformed JSON"):
        read_jsonc(write(tmp_path, "[1] /* open"))
