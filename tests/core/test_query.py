from __future__ import annotations

import pytest

from ctxbench.core.items import Catalog
from ctxbench.core.query import ChunkKind, Query
from ctxbench.core.requests import Batch, Request

BATCH = Batch.of(Catalog([]), [Request(id=name, text="") for name in "abc"])


def test_chunks_are_held_by_request():
    query = Query.of_chunks(BATCH, [["one", "two"], [], ["one"]])
    assert query.start.tolist() == [0, 2, 2, 3]
    assert [query.chunks(row) for row in range(3)] == [("one", "two"), (), ("one",)]
    assert query.weight.tolist() == [1.0, 1.0, 1.0]
    assert query.kind.tolist() == [ChunkKind.TEXT] * 3
    assert query.keywords == ((), (), ())
    assert query.intent == query.plan == (None, None, None)


def test_no_request_has_no_chunk():
    query = Query.of_chunks(BATCH.take([]), [])
    assert (query.start.tolist(), query.text) == ([0], ())


def test_a_query_cannot_be_changed():
    query = Query.of_chunks(BATCH, [["one"], [], []])
    for array in (query.start, query.weight, query.kind):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_what_a_request_repeats_at_the_same_weight_is_left_out_of_the_distinct_ones():
    query = Query.of_chunks(
        BATCH, [["one", "two", "one"], [], ["one", "one", "one"]], weights=[[1.0, 1.0, 1.0], [], [1.0, 0.5, 1.0]]
    )
    distinct, place = query.distinct
    assert [distinct.chunks(row) for row in range(3)] == [("one", "two"), (), ("one", "one")]
    assert distinct.weight.tolist() == [1.0, 1.0, 1.0, 0.5]
    assert place.tolist() == [0, 1, 0, 1]


def test_a_query_without_repeats_is_its_own_distinct_one():
    query = Query.of_chunks(BATCH, [["one", "two"], [], ["one"]])
    distinct, place = query.distinct
    assert distinct is query
    assert place.tolist() == [0, 1, 0]
