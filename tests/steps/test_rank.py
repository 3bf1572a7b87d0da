from __future__ import annotations

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.candidates import Candidates, Origin, concatenated, joined
from ctxbench.errors import ParameterError
from ctxbench.items import Catalog
from ctxbench.query import Query
from ctxbench.requests import Batch
from ctxbench.steps.rank import Rrf

QUERY = Query.of_chunks(Batch.of(Catalog([]), []), [])  # the step does not look at the query


def found(*requests: dict[int, float]) -> Candidates:
    """Each request's items with their scores."""
    request = np.repeat(np.arange(len(requests)), [len(scores) for scores in requests])
    item = np.array([i for scores in requests for i in scores], dtype=np.int64)
    score = np.array([s for scores in requests for s in scores.values()], dtype=np.float64)
    return Candidates.build(len(requests), request, item, score=score)


def ranked(step: Rrf, candidates: Candidates) -> list[list[tuple[int, float]]]:
    after = step(QUERY, candidates, testing.mock_resources())
    rows = [after.rows(request) for request in range(after.n_requests)]
    return [list(zip(after.item[row].tolist(), after.score[row].tolist(), strict=True)) for row in rows]


def test_an_item_scores_the_sum_of_its_reciprocal_ranks():
    table = joined({"dense": found({0: 0.9, 1: 0.8, 2: 0.1}), "bm25": found({2: 12.0, 0: 3.0})})
    # item 0: ranks 1 and 2; item 2: ranks 3 and 1; item 1: rank 2 in one
    [row] = ranked(Rrf(k=60), table)
    assert row == [
        (0, pytest.approx(1 / 61 + 1 / 62, rel=1e-15)),
        (2, pytest.approx(1 / 63 + 1 / 61, rel=1e-15)),
        (1, pytest.approx(1 / 62, rel=1e-15)),
    ]


def test_ties_in_a_source_share_the_best_rank_and_keep_catalog_order():
    table = joined({"dense": found({3: 0.5, 1: 0.5, 2: 0.4})})
    [row] = ranked(Rrf(k=0), table)
    assert row == [(1, 1.0), (3, 1.0), (2, 1 / 3)]


def test_requests_are_ranked_each_on_its_own_and_an_empty_one_stays_empty():
    table = joined({"dense": found({0: 0.1}, {}, {1: 0.9, 0: 0.2}), "bm25": found({}, {}, {0: 1.0})})
    assert ranked(Rrf(k=1), table) == [[(0, 0.5)], [], [(0, pytest.approx(1 / 3 + 1 / 2)), (1, 0.5)]]


def test_no_request_and_a_single_source_without_columns():
    assert ranked(Rrf(), joined({"dense": found()})) == []
    assert ranked(Rrf(k=0), found({4: 0.2, 2: 0.7})) == [[(2, 1.0), (4, 0.5)]]


def test_chunk_rank_is_the_place_in_the_new_order():
    table = joined({"dense": found({0: 0.9, 1: 0.8, 2: 0.7}), "bm25": found({2: 5.0, 1: 4.0})})
    after = Rrf(k=0)(QUERY, table, testing.mock_resources())
    assert after.item.tolist() == [2, 0, 1]  # 1/3 + 1, 1, 1/2 + 1/2: the tie goes to the first in the catalog
    assert after.chunk_rank.tolist() == [0, 1, 2]


def test_session_items_stay_first_and_without_a_score():
    session = Candidates.build(1, np.array([0]), np.array([7]), origin=np.array([Origin.SESSION]), mode=np.array([0]))
    after = Rrf()(QUERY, concatenated([session, joined({"dense": found({1: 0.3})})]), testing.mock_resources())
    assert after.item.tolist() == [7, 1]
    assert np.isnan(after.score[0])
    assert after.chunk_rank.tolist() == [-1, 0]


def test_k_below_zero_is_refused():
    with pytest.raises(ParameterError, match="k must be 0 or more, got -1"):
        Rrf(k=-1)
