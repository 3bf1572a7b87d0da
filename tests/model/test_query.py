from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch, ChunkKind, Query, Request, whole_texts
from ctxbench.testing import mock_catalog, mock_requests

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


def test_some_requests_of_a_query_are_those_of_a_query_of_them_and_may_repeat():
    catalog, requests = mock_catalog(), mock_requests()
    query = whole_texts(Batch.of(catalog, requests))
    query = replace(query, keywords=tuple((request.id,) for request in requests))
    rows = np.array([3, len(requests) - 2, 0, len(requests) - 1], dtype=np.int64)
    part, wanted = query.select_requests(rows), whole_texts(Batch.of(catalog, [requests[row] for row in rows.tolist()]))
    assert part.batch.requests == wanted.batch.requests
    assert (part.text, part.keywords) == (wanted.text, tuple((one.id,) for one in wanted.batch.requests))
    for name in ("session_start", "session_item", "session_mode", "visible", "eligible"):
        np.testing.assert_array_equal(np.asarray(getattr(part.batch, name)), np.asarray(getattr(wanted.batch, name)))
    for name in ("start", "weight", "kind"):
        np.testing.assert_array_equal(getattr(part, name), getattr(wanted, name))
    twice = query.select_requests(np.array([rows[1], rows[1]]))
    assert [twice.batch.ids, twice.chunks(0), twice.batch.session_start.tolist()] == [
        (requests[rows[1]].id,) * 2,
        twice.chunks(1),
        [0, 3, 6],
    ]
    assert len(query.select_requests(rows[:0]).batch) == 0
