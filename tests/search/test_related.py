from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.search import graph as related
from ctxbench.search.dense import ChunkMatrix, Edges, best_pairs, every_pair
from ctxbench.search.graph import Relatives, either


def matrix(chunks: list[list[int]]) -> ChunkMatrix:
    """Chunks by item, as angles in degrees."""
    angle = np.radians([float(one) for item in chunks for one in item])
    vectors = np.stack([np.cos(angle), np.sin(angle)], axis=1).reshape(-1, 2).astype(np.float32)
    item = np.repeat(np.arange(len(chunks)), [len(one) for one in chunks])
    ordinal = np.array([place for one in chunks for place in range(len(one))], dtype=np.int64)
    return ChunkMatrix.of(vectors, item, ordinal)


def by_hand(chunks: list[list[int]], leads: list[int], allowed: list[bool], threshold: float, limit: int) -> Edges:
    """One pair of chunks at a time, by the definition."""
    vectors, best = matrix(chunks).vectors.astype(np.float64), {}
    row = [(i, c) for i, one in enumerate(chunks) for c in range(len(one))]
    for a, (lead, own) in enumerate(row):
        for b, (item, other) in enumerate(row):
            score = float((vectors[a] * vectors[b]).sum())
            if lead in leads and allowed[item] and score >= threshold and score > best.get(item, (-2.0,))[0]:
                best[item] = (score, lead, own, other)
    first = sorted(best, key=lambda item: (-best[item][0], item))[:limit]
    score, lead, own, other = (np.array([best[item][place] for item in first]) for place in range(4))
    return Edges(lead, np.array(first, dtype=np.int64), score, own, other)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([0, 30, 45, 60, 90, 180]), min_size=1, max_size=3), min_size=2, max_size=8),
    st.data(),
)
def test_what_is_near_is_what_one_pair_at_a_time_gives(chunks, data):
    leads = sorted(data.draw(st.sets(st.integers(0, len(chunks) - 1), min_size=1)))
    allowed = [data.draw(st.booleans()) and item not in leads for item in range(len(chunks))]
    threshold, limit = data.draw(st.sampled_from([0.0, 0.5, 0.7, 0.9])), data.draw(st.integers(1, 4))
    relatives = Relatives(matrix(chunks))
    found = relatives.near(relatives.chunks_of(np.array(leads)), np.array(allowed), threshold=threshold, limit=limit)
    expected = by_hand(chunks, leads, allowed, threshold, limit)
    for name in ("item", "score", "owner", "own_chunk", "other_chunk"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name


def test_what_is_kept_is_bounded_and_changes_nothing(monkeypatch):
    chunks = [[10 * item, 7 * item] for item in range(12)]
    allowed = np.arange(12) > 5
    whole = Relatives(matrix(chunks))
    monkeypatch.setattr(related, "_KEPT", 4 * 12 * 3)  # three rows
    bounded = Relatives(matrix(chunks))
    for leads in ([0], [1, 2], [3, 4, 5], [0]):
        one, other = (
            relatives.near(relatives.chunks_of(np.array(leads)), allowed, threshold=0.1, limit=3)
            for relatives in (whole, bounded)
        )
        assert one.item.tolist() == other.item.tolist()
        assert one.score.tolist() == other.score.tolist()
    assert len(bounded._rows) <= 6  # those of one call, at most


def test_nothing_leads_or_is_allowed():
    relatives = Relatives(matrix([[0], [10]]))
    none = np.empty(0, dtype=np.int64)
    assert len(relatives.near(relatives.chunks_of(none), np.array([True, True]), threshold=0.0, limit=1).item) == 0
    assert (
        len(relatives.near(relatives.chunks_of(np.array([0])), np.array([False, False]), threshold=0.0, limit=1).item)
        == 0
    )


def test_items_without_chunks_have_none():
    held = ChunkMatrix.of(np.eye(2, dtype=np.float32), np.array([1, 3]), np.array([0, 0]))
    relatives = Relatives(held)
    assert relatives.chunks_of(np.array([0, 1, 2, 3, 4])).tolist() == [0, 1]


def test_all_chunks_of_the_items_lead():
    assert Relatives(matrix([[0, 30, 60], [90, 10]])).chunks_of(np.array([0, 1])).tolist() == [0, 1, 2, 3, 4]


def test_either_keeps_the_higher_score_and_of_equals_the_first():
    def found(*rows: tuple[int, float, int]) -> Edges:
        item, score, via = (np.array(column) for column in zip(*rows, strict=True))
        return Edges(via, item, score, np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64))

    joint = either(found((4, 0.9, 1), (2, 0.5, 1), (7, 0.3, 1)), found((2, 0.8, 2), (7, 0.3, 2), (1, 0.9, 2)))
    assert list(zip(joint.item.tolist(), joint.score.tolist(), joint.owner.tolist(), strict=True)) == [
        (1, 0.9, 2),
        (4, 0.9, 1),
        (2, 0.8, 2),
        (7, 0.3, 1),
    ]


def test_every_pair_of_groups_of_rows():
    span = np.array([0, 2, 3])
    pair, left, right = every_pair(np.array([0, 1]), np.array([1, 0]), span, span)
    assert list(zip(pair.tolist(), left.tolist(), right.tolist(), strict=True)) == [
        (0, 0, 2),
        (0, 1, 2),
        (1, 2, 0),
        (1, 2, 1),
    ]


@pytest.mark.parametrize("at_once", [1, 3, 8192])
def test_the_best_pair_of_each_group_however_many_are_taken_at_once(at_once, monkeypatch):
    monkeypatch.setattr("ctxbench.search.dense._ROWS_AT_ONCE", at_once)
    vectors = matrix([[0, 90, 45, 45]]).vectors
    pairs = (np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0]), np.array([2, 3, 0, 3]))
    found = best_pairs(pairs, vectors, vectors, n=2)
    assert found.score.tolist() == pytest.approx([0.5**0.5, 0.5**0.5])
    assert (found.left.tolist(), found.right.tolist()) == ([0, 0], [2, 3])
    weighted = best_pairs(pairs, vectors, vectors, n=2, weight=np.array([0.5, 9.0, 1.0, 1.0]))
    assert weighted.score.tolist() == pytest.approx([0.5 * 0.5**0.5] * 2)
