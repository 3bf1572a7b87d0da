from __future__ import annotations

import math

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.answers import Labels, Slice
from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Query, Request
from ctxbench.model.selection import concatenated, joined
from ctxbench.pipelines.strategies.rank import Weighted
from ctxbench.tuning.fit_examples import N_ERRORS, best_by_lower_bound, compositions, fit_weights

ITEMS = 40
NDCG = parse_metric("nDCG@10")


def dataset(required: list[int | None]) -> Dataset:
    """A query for each number, which is the place of the item that it needs; None needs nothing."""
    catalog = Catalog([Item(type="rule", name=f"n{place}") for place in range(ITEMS)])
    queries = tuple(
        DatasetQuery(request=Request(id=f"q{n}", text="?"), split="tuning", needs_nothing=item is None)
        for n, item in enumerate(required)
    )
    labels = tuple(Label(f"q{n}", catalog[i].key, 2) for n, i in enumerate(required) if i is not None)
    return Dataset(name="made", version="1", catalog=catalog, queries=queries, labels=labels)


def found(rows: list[dict[int, float]]) -> Candidates:
    request = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    item = np.array([i for row in rows for i in row], dtype=np.int64)
    return Candidates.build(len(rows), request, item, score=np.array([s for row in rows for s in row.values()], float))


def scores(rng: np.random.Generator, n: int, required: list[int], seen: float) -> list[dict[int, float]]:
    """Scores of all items, with the required one raised in a share `seen` of the queries."""
    out = []
    for item in required[:n]:
        values = rng.random(ITEMS)
        values[item] += 3 * (rng.random() < seen)
        out.append(dict(enumerate(values.tolist())))
    return out


@pytest.fixture
def rng():
    return np.random.default_rng(4)


REQUIRED = [n % ITEMS for n in range(120)]


def test_compositions_are_all_ways_to_share_a_total():
    assert list(compositions(2, 2)) == [(2, 0), (1, 1), (0, 2)]
    assert list(compositions(1, 3)) == [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    assert len(list(compositions(20, 2))) == 21
    assert len(list(compositions(10, 4))) == math.comb(13, 3)


def test_the_choice_with_the_highest_lower_bound_of_its_gain_is_surest():
    single = [0.4, 0.4, 0.4, 0.4]
    other = [0.0, 0.0, 0.0, 0.0]
    safe = [0.5, 0.5, 0.5, 0.5]  # gains 0.1 on every query
    bold = [1.0, 1.0, 0.4, 0.4]  # gains 0.3 on average, with a deviation of sqrt(0.12), over sqrt(4) queries
    assert 0.3 - N_ERRORS * math.sqrt(0.12) / 2 < 0.1
    values = np.array([single, bold, safe, other])
    assert best_by_lower_bound(values, [True, False, False, True]) == (2, 0)


def test_the_best_source_stays_alone_where_no_gain_is_sure():
    single, other = [0.4, 0.4, 0.4, 0.4], [0.3, 0.3, 0.3, 0.3]
    unsure = [1.0, 0.4, 0.4, 0.3]
    assert best_by_lower_bound(np.array([other, unsure, single]), [True, False, True]) == (2, 2)
    assert best_by_lower_bound(np.array([single, single, single]), [True, False, True]) == (0, 0)


def test_one_query_is_never_sure():
    assert best_by_lower_bound(np.array([[0.1], [0.9], [0.2]]), [True, False, True]) == (2, 2)


def test_sources_that_each_know_half_are_both_used(rng):
    table = joined({"dense": found(scores(rng, 120, REQUIRED, 0.6)), "bm25": found(scores(rng, 120, REQUIRED, 0.6))})
    fit = fit_weights(dataset(REQUIRED), table)
    assert 0.2 < fit.weights["dense"] < 0.8
    assert math.fsum(fit.weights.values()) == pytest.approx(1)
    assert fit.single_value < fit.value <= fit.best_value
    assert fit.queries == 120


def test_a_source_of_noise_gets_no_weight(rng):
    table = joined({"bm25": found(scores(rng, 120, REQUIRED, 0.0)), "dense": found(scores(rng, 120, REQUIRED, 1.0))})
    fit = fit_weights(dataset(REQUIRED), table)
    assert fit.weights == {"bm25": 0.0, "dense": 1.0}
    assert (fit.single, fit.value) == ("dense", fit.single_value)


def test_two_sources_that_say_the_same_leave_the_first_alone(rng):
    rows = scores(rng, 30, REQUIRED, 0.7)
    fit = fit_weights(dataset(REQUIRED[:30]), joined({"bm25": found(rows), "dense": found(rows)}))
    assert fit.weights == {"bm25": 1.0, "dense": 0.0}


@pytest.mark.parametrize("normalise", ["min_max", "z"])
def test_the_value_is_that_of_the_weighted_step(rng, normalise):
    """The fit keeps only rows that may be among the first ten; the step and the metric know nothing of that."""
    made = dataset(REQUIRED)
    sources = {name: found(scores(rng, 120, REQUIRED, share)) for name, share in (("a", 0.3), ("b", 0.5), ("c", 0.4))}
    table = joined(sources)
    fit = fit_weights(made, table, normalise=normalise)
    batch = made.batch()
    query = Query.of_chunks(batch, [["?"]] * len(batch))
    after = Weighted(weights=fit.weights, normalise=normalise)(query, table, testing.mock_resources())
    answers = Slice(
        queries=batch.ids,
        chunks=tuple(query.chunks(row) for row in range(len(batch))),
        candidates=after,
        ranked=True,
        scored=True,
        errors={},
        seconds=np.zeros(len(batch)),
        notes={},
    )
    evidence = Labels.of(made, np.ones(ITEMS, dtype=np.int64)).evidence(answers)
    assert fit.value == pytest.approx(float(np.mean(evaluate([NDCG], evidence)[NDCG])), abs=1e-15)


def test_what_the_session_holds_is_neither_ranked_nor_looked_for(rng):
    rows = [{0: 0.9, 1: 0.5}, {1: 0.9, 0: 0.1}]
    table = joined({"a": found(rows), "b": found([{1: 0.2}, {0: 0.9}])})
    session = Candidates.build(
        2, np.array([0]), np.array([5]), origin=np.array([Origin.SESSION]), mode=np.array([0], dtype=np.int64)
    )
    made = dataset([5, 1])
    fit = fit_weights(made, concatenated([session, table]))
    assert fit.queries == 1  # the first query's item is held
    assert fit.single_value == 1.0


def test_the_order_of_queries_does_not_matter(rng):
    rows = {name: scores(rng, 60, REQUIRED, share) for name, share in (("a", 0.4), ("b", 0.6))}
    order = rng.permutation(60)
    one = fit_weights(dataset(REQUIRED[:60]), joined({name: found(part) for name, part in rows.items()}))
    other = fit_weights(
        dataset([REQUIRED[place] for place in order]),
        joined({name: found([part[place] for place in order]) for name, part in rows.items()}),
    )
    assert one == other


def test_a_request_without_candidates_scores_0_and_one_that_needs_nothing_is_left_out():
    table = joined({"a": found([{3: 0.5}, {}, {1: 0.2}]), "b": found([{3: 0.1}, {}, {}])})
    fit = fit_weights(dataset([3, 7, None]), table)
    assert (fit.queries, fit.single_value) == (2, 0.5)


def test_faults_are_named(rng):
    with pytest.raises(ParameterError, match="behind a merge of two or more retrievers"):
        fit_weights(dataset([1]), found([{1: 0.5}]))
    two = joined({"a": found([{1: 0.5}]), "b": found([{1: 0.5}])})
    with pytest.raises(ParameterError, match="nDCG@10 applies to no query of dataset"):
        fit_weights(dataset([None]), two)
    with pytest.raises(ParameterError, match="nDCG@10 applies to no query of dataset"):
        fit_weights(dataset([]), joined({"a": found([]), "b": found([])}))
