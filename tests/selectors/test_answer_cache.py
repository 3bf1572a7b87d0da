"""The file of answers that were kept: it only grows, and a record that does not fit is passed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ctxbench.io.cache import checksum
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request
from ctxbench.selectors.external import AnswerCache

BATCH = Batch.of(Catalog([Item(type="tool", name="a")]), [Request(id=f"q{row}", text="a") for row in range(3)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of the answers 0, 1 and 2, the first of which is damaged."""
    cache = AnswerCache.of(tmp_path, "somebody")
    for row in range(3):
        cache.put(BATCH, row, 0, row)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes().replace(b'"answer":0', b'"answer":7'))
    return path


def answers(path: Path) -> list[object]:
    cache = AnswerCache(path)
    return [cache.get(BATCH, row, 0) for row in range(3)]


def test_a_record_that_does_not_fit_is_said_once_and_the_file_only_grows(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = path.read_bytes()
    assert answers(path) == answers(path) == [None, 1, 2]
    AnswerCache(path).put(BATCH, 0, 0, 0)
    assert answers(path) == [0, 1, 2]
    assert path.read_bytes().startswith(before)
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"1 of 3 answers in {path} do not match their checksums; they are asked for again"]
    path.write_bytes(path.read_bytes().replace(b'"answer":2', b'"answer":7'))
    assert answers(path) == answers(path) == [0, 1, None]
    assert "2 of 4 answers" in caplog.records[-1].getMessage()
    assert len(caplog.records) == 2


def test_an_answer_that_another_process_keeps_meanwhile_is_not_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = AnswerCache(path.with_name("none"))
    other._path = path
    read = Path.read_bytes

    def read_before_another_writes(one: Path) -> bytes:
        data = read(one)
        other.put(BATCH, 0, 0, 0)
        return data

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", read_before_another_writes)
        AnswerCache(path)
    assert answers(path) == [0, 1, 2]


def test_a_record_that_is_nested_too_deep_to_be_read_does_not_fit(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rest = b'"key":"k","answer":%s}' % (b"[" * 100_000 + b"]" * 100_000)
    with path.open("ab") as file:
        file.write(b'{"checksum":"%s",%s\n' % (checksum(path.name, rest).encode(), rest))
    assert answers(path) == [None, 1, 2]
    assert "2 of 4 answers" in caplog.text


def test_answers_of_an_older_version_are_left_alone(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record = json.loads(path.read_bytes().split()[1])
    path.unlink()
    older = path.with_name(path.name.replace("-2.jsonl", ".jsonl"))
    older.write_text(f"\n{json.dumps({'key': record['key'], 'answer': 1}, separators=(',', ':'))}\n")
    before = older.read_bytes()
    cache = AnswerCache.of(path.parent, "somebody")
    assert cache.get(BATCH, 1, 0) is None
    cache.put(BATCH, 1, 0, 1)
    assert (older.read_bytes(), caplog.text) == (before, "")
    assert sorted(path.parent.iterdir()) == sorted([older, path])
