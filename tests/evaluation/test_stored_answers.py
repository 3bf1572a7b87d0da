"""Answers in files: read a block at a time they are what they are at once, and runs of rows take one."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ctxbench.evaluation import answers as stored_answers
from ctxbench.evaluation.answers import Part, Slice, StoredAnswers, continuing
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.io.errors import StorageError
from ctxbench.model.candidates import Candidates, Mode, Origin, Rule
from ctxbench.model.items import Catalog, Item
from tests.experiment_files import store_blocks

ITEMS = 12
ROW = st.tuples(
    st.integers(0, 2),  # request
    st.integers(0, ITEMS - 1),
    st.sampled_from([0.0, 0.0, 0.5]),
    st.integers(0, 1),  # out
    st.sampled_from([Mode.AGENT, Mode.MANUAL]),
    st.booleans(),  # of the session
)


def slice_of(table, *, errors=None):
    queries = tuple(f"q{row}" for row in range(table.n_requests))
    return Slice(
        queries=queries,
        chunks=tuple((query,) for query in queries),
        candidates=table,
        ranked=True,
        scored=True,
        errors=errors or {},
        seconds=np.full(len(queries), 0.25),
    )


def table_of(rows, n_requests=3):
    rows = list({row[:2]: row for row in rows}.values())
    request, item, score, out, mode, held = (np.array(column) for column in zip(*rows, strict=True))
    made = Candidates.build(
        n_requests,
        request,
        item,
        score=np.where(held, np.nan, score),
        out=np.where(held, 0, out),
        mode=mode,
        origin=np.where(held, Origin.SESSION, Origin.SEARCH),
    )
    arrays = {name: getattr(made, name) for name in Candidates.row_arrays()}
    columns = {"of search": np.where(made.item % 3 == 0, np.nan, 0.5)}
    return Candidates(start=made.start, rules=(None, Rule("first")), columns=columns, **arrays)


def same(one, other):
    names = ("start", *Candidates.row_arrays())
    left, right = one.candidates, other.candidates
    assert all(np.array_equal(getattr(left, n), getattr(right, n), equal_nan=n == "score") for n in names)
    assert all(np.array_equal(left.columns[n], right.columns[n], equal_nan=True) for n in left.columns)
    assert (one.queries, one.chunks, one.errors, left.rules) == (other.queries, other.chunks, other.errors, right.rules)


def stored(answers, path):
    """The answers in a file, one block a query."""
    return store_blocks([answers.select_queries([index]) for index in range(len(answers.queries))], path)


@given(st.lists(ROW, min_size=1, max_size=40))
def test_rows_are_read_back_as_they_were_in_runs_or_not(rows):
    answers = slice_of(table_of(rows))
    same(Slice.from_bytes(answers.to_bytes(timed=True), "a.npz"), answers)


def test_the_whole_catalog_takes_a_row_a_query():
    n = 5_000
    table = Candidates.build(40, np.repeat(np.arange(40), n), np.tile(np.arange(n), 40), score=np.zeros(40 * n))
    data = slice_of(table).to_bytes(timed=False)
    assert len(data) < 10_000
    with np.load(io.BytesIO(data)) as arrays:
        assert (len(arrays["item"]), arrays["run"].tolist()) == (40, [n] * 40)
    same(Slice.from_bytes(data, "a.npz"), slice_of(table))


def test_what_is_ranked_is_stored_as_it_was():
    table = Candidates.build(1, np.zeros(3, np.int64), np.array([4, 5, 9]), score=np.array([0.9, 0.8, 0.7]))
    with np.load(io.BytesIO(slice_of(table).to_bytes(timed=False))) as arrays:
        assert "run" not in arrays.files
        assert arrays["item"].tolist() == [4, 5, 9]


def test_a_row_continues_the_one_above_in_its_own_request_only():
    table = Candidates.build(2, np.array([0, 0, 0, 1]), np.array([1, 2, 4, 5]), score=np.zeros(4))
    assert continuing(table).tolist() == [False, True, False, False]
    nan = Candidates.build(1, np.zeros(2, np.int64), np.array([1, 2]), origin=np.zeros(2), mode=np.zeros(2))
    assert continuing(nan).tolist() == [False, True], "scores that are not there are alike"


def test_blocks_are_what_all_are_at_once(tmp_path):
    table = Candidates.build(3, np.array([0, 0, 2]), np.array([1, 2, 0]), score=np.array([0.5, 0.4, 0.3]))
    whole = slice_of(table, errors={"q1": "gone"})
    found = stored(whole, tmp_path / "answers.zip")
    assert [one.queries for one in found.blocks()] == [("q0",), ("q1",), ("q2",)]
    same(found.joined(), whole)
    assert (found.queries, found.chunks, found.errors) == (whole.queries, whole.chunks, whole.errors)
    same(found.select_queries(["q2", "q0"]), whole.select_queries([2, 0]))
    assert found.select_queries(["q0", "q9"]) is None


def test_a_block_of_failures_says_nothing_of_rankings(tmp_path):
    failed = replace(slice_of(Candidates.empty(1), errors={"q0": "gone"}), ranked=False, scored=False)
    good = replace(slice_of(Candidates.empty(1)), queries=("q1",))
    found = store_blocks([failed, good], tmp_path / "answers.zip")
    assert (found.ranked, found.scored) == (True, True)
    assert all(one.ranked and one.scored for one in found.blocks())


def test_equal_answers_are_equal_bytes(tmp_path, monkeypatch):
    whole = slice_of(Candidates.empty(2))
    stored(whole, tmp_path / "a.zip")
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    monkeypatch.setattr("time.localtime", lambda *_: (2033, 5, 18, 3, 33, 20, 2, 138, 0))
    stored(whole, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


@pytest.mark.parametrize("content", [b"", b"no zip", None])
def test_what_is_no_file_of_answers_is_one_error(content, tmp_path):
    path = tmp_path / "answers.zip"
    if content is None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("000000.npz", b"no answers")
    else:
        path.write_bytes(content)
    with pytest.raises(StorageError, match=r"answers\.zip is damaged \(.*\); delete it and run again"):
        StoredAnswers.read(path)


def test_answers_that_change_while_they_are_read_are_an_error(tmp_path):
    table = Candidates.build(3, np.array([0, 1, 2]), np.array([1, 2, 0]), score=np.array([0.5, 0.4, 0.3]))
    path = tmp_path / "answers.zip"
    found = stored(slice_of(table), path)
    stored(slice_of(table), tmp_path / "other.zip")
    (tmp_path / "other.zip").replace(path)
    with pytest.raises(StorageError, match=r"answers\.zip was changed while it was read; do the same again"):
        found.joined()
    path.unlink()
    with pytest.raises(StorageError, match=r"cannot read .*answers\.zip: No such file or directory; run again"):
        found.joined()


def test_only_the_blocks_that_are_asked_for_are_read(tmp_path, monkeypatch):
    table = Candidates.build(3, np.array([0, 1, 2]), np.array([1, 2, 0]), score=np.array([0.5, 0.4, 0.3]))
    found = stored(slice_of(table), tmp_path / "answers.zip")
    monkeypatch.setattr(stored_answers, "_recent", stored_answers._Recent(limit=0))
    read = []
    from_bytes = Slice.from_bytes
    monkeypatch.setattr(Slice, "from_bytes", lambda *a, **k: read.append(1) or from_bytes(*a, **k))
    assert found.select_queries(["q2"]).candidates.item.tolist() == [0]
    assert len(read) == 1


def test_minus_zero_is_not_zero(tmp_path):
    table = Candidates.build(1, np.zeros(4, np.int64), np.arange(4), score=np.zeros(4))
    column = np.array([0.0, -0.0, 0.0, -0.0])
    made = slice_of(table.with_columns(of=column))
    read = Slice.from_bytes(made.to_bytes(timed=False), tmp_path / "a.npz").candidates.columns["of"]
    assert np.signbit(read).tolist() == [False, True, False, True]


def saved(tmp_path, answers, catalog):
    part = Part(dataset="d", selector="s", key="k", answers=answers, metrics={"tokens": np.zeros(len(answers.queries))})
    RunFolder(tmp_path).save(part, catalog)
    return tmp_path / "d" / "s"


def test_many_items_in_a_row_are_told_as_first_and_last(tmp_path):
    catalog = Catalog([Item(type="tool", server="s", name=f"t{n:02d}") for n in range(60)])
    items = [*range(20, 45), *range(50, 55), 3]
    table = Candidates.build(1, np.zeros(len(items), np.int64), np.array(items), score=np.zeros(len(items)))
    table = table.exclude(table.item == 30, "first")
    folder = saved(tmp_path, slice_of(table), catalog)
    (line,) = (folder / "selections.jsonl").read_text().splitlines()
    told = json.loads(line)["items"]
    alike = {"score": 0.0, "mode": "agent", "origin": "search"}
    few = [{"id": f"tool:s:t{n:02d}", **alike} for n in (3, *range(20, 30))]
    assert told[:11] == few, "ten in a row are told one by one"
    assert [one["id"] for one in told[11:]] == [f"tool:s:t{n:02d}" for n in (*range(31, 45), *range(50, 55))]
    every = Candidates.build(1, np.zeros(60, np.int64), np.arange(60), score=np.zeros(60))
    folder = saved(tmp_path / "all", slice_of(every.exclude(every.item == 5, "first")), catalog)
    (line,) = (folder / "selections.jsonl").read_text().splitlines()
    told = json.loads(line)["items"]
    assert [one["id"] for one in told] == [f"tool:s:t{n:02d}" for n in (*range(5), 6)]
    assert told[-1] == {"id": "tool:s:t06", "to": "tool:s:t59", "items": 54, **alike}


class TestRecent:
    """Blocks that were written or read a moment ago are not unpacked again."""

    @pytest.fixture
    def reads(self, monkeypatch):
        made, from_bytes = [], Slice.from_bytes
        monkeypatch.setattr(
            Slice, "from_bytes", lambda *a, **k: made.append(k.get("rows", True)) or from_bytes(*a, **k)
        )
        return made

    def table(self, score=0.5):
        return Candidates.build(2, np.array([0, 1]), np.array([1, 0]), score=np.array([score, 0.4]))

    def test_what_was_written_is_not_unpacked_and_is_what_would_be(self, tmp_path, monkeypatch, reads):
        monkeypatch.setattr(stored_answers, "_recent", stored_answers._Recent(limit=10_000))
        found = stored(slice_of(self.table()), tmp_path / "answers.zip")
        kept = found.joined()
        assert True not in reads
        monkeypatch.setattr(stored_answers, "_recent", stored_answers._Recent(limit=0))
        unpacked = found.joined()
        assert reads.count(True) == len(found.parts)
        for name in Candidates.row_arrays():
            assert np.array_equal(getattr(kept.candidates, name), getattr(unpacked.candidates, name), equal_nan=True)
        assert np.isnan(kept.seconds).all()
        assert np.isnan(unpacked.seconds).all()
        assert (kept.queries, kept.chunks, kept.errors, kept.notes) == (
            unpacked.queries, unpacked.chunks, unpacked.errors, unpacked.notes,
        )  # fmt: skip

    def test_the_block_that_was_used_the_longest_ago_goes_first(self, tmp_path, reads):
        one, other, third = (slice_of(self.table(score)).to_bytes(timed=False) for score in (0.5, 0.6, 0.7))
        size = stored_answers._size(slice_of(self.table()))
        recent = stored_answers._Recent(limit=2 * size)
        for data in (one, other, one, third, one, other):
            recent.read(data, tmp_path, rows=True)
        assert len(reads) == 4  # `other` was unpacked again
        assert recent._bytes == 2 * size
