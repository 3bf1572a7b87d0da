"""Slices: what is written is read back, equal answers are equal bytes, and damage is seen."""

from __future__ import annotations

import io
import json
import random
import zipfile

import numpy as np
import pytest

from ctxbench.evaluation.answers import Slice, joined_slices
from ctxbench.io.errors import StorageError
from ctxbench.model.candidates import Candidates, Mode, Origin, Rule


def table(*requests, rules=("too low",), **columns):
    """Candidates from lists of (item, score, out) by request."""
    rows = [(row, *entry) for row, request in enumerate(requests) for entry in request]
    made = Candidates.build(
        len(requests),
        np.array([row for row, _, _, _ in rows], dtype=np.int64),
        np.array([item for _, item, _, _ in rows], dtype=np.int64),
        score=np.array([score for _, _, score, _ in rows], dtype=np.float64),
        out=np.array([out for _, _, _, out in rows], dtype=np.int64),
    )
    return Candidates(
        start=made.start,
        rules=(None, *map(Rule, rules)),
        columns={name: np.array(values, dtype=np.float64) for name, values in columns.items()},
        **{name: getattr(made, name) for name in Candidates.row_arrays()},
    )


def some_slice(*queries, candidates=None, **given):
    rows = [[(0, 0.9, 0), (1, 0.1 + 0.2, 1)] for _ in queries]
    return Slice(
        queries=queries,
        chunks=tuple((f"chunk of {query}", "ä") for query in queries),
        candidates=table(*rows) if candidates is None else candidates,
        ranked=given.get("ranked", True),
        scored=given.get("scored", True),
        errors=given.get("errors", {}),
        seconds=np.full(len(queries), 0.5),
        notes=given.get("notes", {}),
    )


def equal(left, right):
    return (left.queries, left.chunks, left.ranked, left.scored, left.errors, left.candidates.rules) == (
        right.queries, right.chunks, right.ranked, right.scored, right.errors, right.candidates.rules,
    ) and all(
        np.array_equal(getattr(left.candidates, name), getattr(right.candidates, name), equal_nan=name == "score")
        for name in ("start", *Candidates.row_arrays())
    )  # fmt: skip


def test_parts_are_stored_where_there_are_any(tmp_path):
    whole = some_slice("q1")
    part = some_slice("q1", candidates=table([(0, 0.9, 0), (1, 0.3, 0)]).showing(
        np.array([False, True]), np.array([3]), np.array([9]), np.array([2])
    ))  # fmt: skip
    for made, stored in ((whole, False), (part, True)):
        data = made.to_bytes(timed=False)
        assert equal(Slice.from_bytes(data, tmp_path / "a.npz"), made)
        with np.load(io.BytesIO(data)) as arrays:
            assert ("shown_to" in arrays.files) == stored, "a run without parts has the bytes that it always had"


def test_a_slice_is_read_back_as_it_was_written(tmp_path):
    session = Candidates.build(
        2,
        np.array([0, 1, 1]),
        np.array([2, 0, 1]),
        score=np.array([np.nan, 0.25, 0.75]),
        origin=np.array([Origin.SESSION, Origin.SEARCH, Origin.EXPANSION + 1]),
        mode=np.array([Mode.ALWAYS, Mode.AGENT, Mode.EXPANSION]),
        via_item=np.array([-1, -1, 0]),
        query_chunk=np.array([-1, 300, 2]),
        item_chunk=np.array([-1, 40_000, 3_000_000_000]),
    )
    made = some_slice("q1", "q\u2028ü", candidates=session, errors={"q1": "gone"}, notes={"unstable": 1}, ranked=False)
    (tmp_path / "a.npz").write_bytes(made.to_bytes(timed=True))
    read = Slice.from_bytes((tmp_path / "a.npz").read_bytes(), tmp_path / "a.npz")
    assert equal(read, made)
    assert read.seconds.tolist() == [0.5, 0.5]
    assert read.notes == {"unstable": 1}
    assert all(getattr(read.candidates, name).dtype == np.int64 for name in Candidates.row_arrays() if name != "score")


def test_equal_answers_give_equal_bytes_at_any_time(monkeypatch):
    made = some_slice("q1")
    first = made.to_bytes(timed=False)
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    again = Slice(**{**vars(made), "seconds": np.array([9.0]), "notes": {"unstable": 2}})
    assert again.to_bytes(timed=False) == first
    assert again.to_bytes(timed=True) != made.to_bytes(timed=True)


def test_score_columns_are_kept(tmp_path):
    made = some_slice("q1", candidates=table([(0, 0.9, 0), (1, 0.5, 0)], **{"a/b: c": [0.25, np.nan]}))
    (tmp_path / "a.npz").write_bytes(made.to_bytes(timed=False))
    column = Slice.from_bytes((tmp_path / "a.npz").read_bytes(), tmp_path / "a.npz").candidates.columns["a/b: c"]
    assert column[0] == 0.25
    assert np.isnan(column[1])


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_slice_is_one_clear_error_or_reads_alike(seed, tmp_path):
    made = some_slice("q1", "q2")
    data = bytearray(made.to_bytes(timed=bool(seed % 2)))
    chance = random.Random(seed)
    if seed < 10:
        data = data[: chance.randrange(len(data))]
    else:
        for _ in range(1 + seed % 3):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path = tmp_path / "000000.npz"
    path.write_bytes(data)
    try:
        read = Slice.from_bytes(path.read_bytes(), path)
    except StorageError:
        with pytest.raises(StorageError, match=r"000000\.npz is damaged"):
            Slice.from_bytes(path.read_bytes(), path)
    else:  # a bit that nothing depends on, such as a zip entry's attributes
        assert equal(read, made)


def test_a_slice_of_another_shape_is_damaged(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.npy", b"nothing of numpy's")
    with pytest.raises(StorageError, match="is damaged"):
        Slice.from_bytes(path.read_bytes(), path)
    path.write_text("not a zip file at all")
    with pytest.raises(StorageError, match="is damaged"):
        Slice.from_bytes(path.read_bytes(), path)


def test_rules_keep_their_values(tmp_path):
    cut = table([(0, 0.9, 0), (1, 0.3, 0)], rules=())
    cut = cut.exclude(np.array([False, True]), Rule.of("topN", topN=1, includeScore=0.7))
    written = some_slice("q1", candidates=cut).to_bytes(timed=False)
    read = Slice.from_bytes(written, tmp_path / "s.npz")
    assert read.candidates.rules == cut.rules
    assert read.to_bytes(timed=False) == written


def test_rules_that_were_stored_as_sentences_are_read(tmp_path):
    with np.load(io.BytesIO(some_slice("q1").to_bytes(timed=False))) as stored:
        arrays = {name: stored[name] for name in stored.files}
    meta = {**json.loads(arrays["meta"].tobytes()), "rules": ["", "its score is too low"]}
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    read = Slice.from_bytes(stream.getvalue(), tmp_path / "s.npz")
    assert read.candidates.rules == (None, Rule.of("text", text="its score is too low"))


def test_joined_slices_are_one_behind_the_other_and_join_their_rules():
    first = some_slice("q1", candidates=table([(0, 0.9, 0), (1, 0.5, 1)], rules=("low",)))
    second = some_slice("q2", candidates=table([(2, 0.8, 2)], rules=("high", "low")), errors={"q2": "x"})
    both = joined_slices([first, second])
    assert both.queries == ("q1", "q2")
    assert both.candidates.start.tolist() == [0, 2, 3]
    assert [str(both.candidates.rules[code] or "") for code in both.candidates.out] == ["", "low", "low"]
    assert both.errors == {"q2": "x"}
    assert joined_slices([]).queries == ()


def test_joining_in_steps_gives_the_same_bytes():
    slices = [some_slice(f"q{i}", candidates=table([(i % 3, 0.5, 1)], rules=(f"rule {i % 2}",))) for i in range(4)]
    at_once = joined_slices(slices).to_bytes(timed=False)
    in_steps = joined_slices([joined_slices(slices[:2]), joined_slices(slices[2:])]).to_bytes(timed=False)
    assert in_steps == at_once


def test_a_slice_whose_queries_all_failed_says_nothing_about_rankings():
    failed = some_slice("q1", candidates=Candidates.empty(1), errors={"q1": "x"}, ranked=True)
    unranked = some_slice("q2", ranked=False, scored=False)
    both = joined_slices([failed, unranked])
    assert (both.ranked, both.scored) == (False, False)
    assert joined_slices([failed, some_slice("q2")]).ranked
    assert joined_slices([failed]).ranked


def test_notes_of_slices_add_up():
    first = some_slice("q1", notes={"unstable": 1, "builds": ["b"], "repeats": 3, "said": "old"})
    second = some_slice("q2", notes={"unstable": 2, "builds": ["a", "b"], "repeats": 3, "said": "new", "late": 1})
    notes = joined_slices([first, second]).notes
    assert notes == {"unstable": 3, "builds": ["a", "b"], "repeats": 3, "said": "new", "late": 1}
