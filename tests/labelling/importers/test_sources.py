"""Files become documents by their content, whatever their name."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ctxbench.io.errors import InputError, StorageError, UserError
from ctxbench.labelling.sources import data_files, documents, sample


def read(path: Path, content: str | bytes, *, name: str = "file") -> tuple[list[tuple[int, object]], list[int]]:
    """The line and value of each document of a file, and the lines of its faults."""
    file = path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    faults: list = []
    return [(document.line, document.value) for document in documents(file, faults)], [fault.line for fault in faults]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"a": 1}\n\n{"a": 2}\n', [(1, {"a": 1}), (3, {"a": 2})]),
        ('[\n {"a": 1},\n {"a": 2}\n]', [(2, {"a": 1}), (3, {"a": 2})]),
        ('{\n "a": 1\n}\n{"a": 2}', [(1, {"a": 1}), (4, {"a": 2})]),
        ("[1, 2]", [(1, [1, 2])]),
        ('{"a": [\n{"b": 1},\n{"b": 2}\n]}', [(1, {"a": [{"b": 1}, {"b": 2}]})]),
        ("# head\n" + "\n" * 40 + "a text\n", [(1, "# head"), (42, "a text")]),
        ('{"a": {"0": 1, "1": 2}, "b": {"0": 3, "1": 4}}', [(1, {"a": 1, "b": 3}), (2, {"a": 2, "b": 4})]),
        (gzip.compress(mtime=0, data=b'{"a": 1}\n{"a": 2}'), [(1, {"a": 1}), (2, {"a": 2})]),
        ('{"a": "ä"}'.encode("utf-16"), [(1, {"a": "ä"})]),
        ("\ufeffa,b\n1,2\n", [(2, {"a": "1", "b": "2"})]),
        ('a;b\n1;"x\ny"\n3;4', [(2, {"a": "1", "b": "x\ny"}), (4, {"a": "3", "b": "4"})]),
        ("id\ttext\nq1\twhere is it\n", [(2, {"id": "q1", "text": "where is it"})]),
        ("q1\twhere is it\nq2\tpay me back\n", [(1, "q1\twhere is it"), (2, "q2\tpay me back")]),
        ("q1 0 d1 1\n", [(1, "q1 0 d1 1")]),
        ("# a comment\n- a: 1\n- a: 2\n", [(2, {"a": 1}), (3, {"a": 2})]),
        ("tests:\n- a: 1\n", [(1, {"tests": [{"a": 1}]})]),
        ('event: x\ndata: {"a": 1}\n\ndata: {"a": 2}\n\ndata: [DONE]\n', [(1, {"stream": [{"a": 1}, {"a": 2}]})]),
        ("---\nname: x\n---\nthe body\n", [(1, {"front_matter": {"name": "x"}, "text": "the body"})]),
        ("", []),
    ],
)
def test_the_form_is_found_by_the_content(tmp_path, content, expected):
    assert read(tmp_path, content) == (expected, [])


@pytest.mark.parametrize(
    ("content", "lines", "faults"),
    [
        ('{"a": 1}\n{"a": \n{"a": 3}\n', [1, 3], [2]),
        ('[{"a": 1},\n {"a": 2},\n {"a" 3}]', [1, 2], [3]),
        ('[{"a": 1}', [1], [1]),
        ('{"a": "x', [], [1]),
        ("a,b\n1\n2,3\n", [3], [2]),
        (b'{"a": "\xff"}\n{"a": 2}\n', [2], [1]),
        ("[" * 100_000, [], [1]),
    ],
)
def test_a_fault_has_its_line_and_what_is_right_is_read(tmp_path, content, lines, faults):
    found, faulty = read(tmp_path, content)
    assert ([line for line, _ in found], faulty) == (lines, faults)


def test_what_is_no_text_is_one_error(tmp_path):
    with pytest.raises(InputError, match="binary"):
        read(tmp_path, b"PK\x03\x04\0\0")
    with pytest.raises(StorageError, match="end-of-stream"):
        read(tmp_path, gzip.compress(mtime=0, data=b'{"a": 1}\n{"a": 2}')[:-12])


def test_parquet_is_read_by_rows(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra `parquet` is not installed")
    arrow = pytest.importorskip("pyarrow")
    parquet.write_table(arrow.table({"q": ["a", "b"], "ids": [[1], []]}), tmp_path / "x")
    assert [(d.line, d.value) for d in documents(tmp_path / "x", [])] == [
        (1, {"q": "a", "ids": [1]}),
        (2, {"q": "b", "ids": []}),
    ]
    (tmp_path / "x").write_bytes(b"PAR1" + b"\0" * 40)
    with pytest.raises(InputError, match="parquet"):
        list(documents(tmp_path / "x", []))


def test_entries_of_an_object_have_their_lines(tmp_path):
    file = tmp_path / "x"
    file.write_text('{\n"tests": [\n{"a": 1},\n\n{"a": 2}]}')
    (document,) = documents(file, [])
    assert [(entry.line, entry.value) for entry in document.entries("tests")] == [(3, {"a": 1}), (5, {"a": 2})]
    assert document.entries("none") == document.entries("tests", "a") == []
    file.write_text("x: 1\ntests:\n- a: 1\n- a: 2\n")
    assert [entry.line for entry in sample(file)[0].entries("tests")] == [3, 4]


def test_folders_and_patterns_give_their_files_in_order(tmp_path):
    for name in ("b.jsonl", "a.jsonl", ".hidden", "sub/c.json", ".git/config"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert [file.name for file in data_files([tmp_path])] == ["a.jsonl", "b.jsonl", "c.json"]
    assert [file.name for file in data_files([tmp_path / "*.jsonl"])] == ["a.jsonl", "b.jsonl"]
    with pytest.raises(StorageError, match=r"a\.jsonl"):
        data_files([tmp_path / "a.json"])
    with pytest.raises(StorageError, match="no file"):
        data_files([tmp_path / "*.csv"])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(rows=st.lists(st.dictionaries(st.text(min_size=1), VALUES, min_size=1), min_size=2), lines=st.booleans())
def test_rows_come_back_as_they_were_written(tmp_path_factory, rows, lines):
    text = "\n".join(map(json.dumps, rows)) if lines else json.dumps(rows, indent=1)
    found, faults = read(tmp_path_factory.mktemp("rows"), text)
    assert ([value for _, value in found], faults) == (rows, [])


@given(data=st.binary(max_size=200))
def test_no_bytes_cause_another_error_than_a_users(tmp_path_factory, data):
    with suppress(UserError):
        read(tmp_path_factory.mktemp("bytes"), data)
