"""The search along lines says what the step and the metrics say, for every weight."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.evaluation.metrics import Metric, evaluate, parse_metric
from ctxbench.io.errors import ParameterError, UserError
from ctxbench.model.arrays import Evidence, FloatArray, Grade, IntArray, Judgments, OfferedItems, Rankings, starts
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.strategies.rank import Linear
from ctxbench.tuning.linear_fits import LinearCases, LineSearch, WithinTokens, fit_linear, parse_objective

COLUMNS = ("similarity.score", "words.bm25", "sentence.margin")  # only names; the values are made here
METRICS = [
    parse_objective(name)
    for name in (
        *("R@1", "R@3", "Comp@2", "RR", "RR@2", "Success@2", "nDCG@3", "nDCG", "AP@3", "P@2"),
        *("R@12tokens", "Comp@20tokens", "Success@7tokens"),
    )
]
N_ITEMS = 9


def drawn(seed: int, *, n_queries: int = 6, n_items: int = N_ITEMS, largest: int = 4) -> LinearCases:
    """Queries with up to all items, some held, required (also as alternatives) or helpful. Many scores are equal."""
    rng = np.random.default_rng(seed)
    held, items, labels, grades, groups = [], [], [], [], []
    for _ in range(n_queries):
        mixed = rng.permutation(n_items)
        held.append(mixed[: rng.integers(0, 2)])
        items.append(np.sort(mixed[len(held[-1]) : rng.integers(len(held[-1]), n_items + 1)]))
        labels.append(rng.permutation(n_items)[: rng.integers(0, 6)])
        grades.append(rng.integers(0, 3, len(labels[-1])))
        groups.append(np.where(grades[-1] == 2, rng.integers(0, 3, len(labels[-1])), -1))
    sizes, item = [len(one) for one in items], np.concatenate(items).astype(np.int64)
    return LinearCases(
        values=rng.integers(0, largest, (len(item), len(COLUMNS))).astype(np.float64),
        query=np.repeat(np.arange(n_queries), sizes),
        item=item,
        judgments=Judgments(
            start=starts([len(one) for one in labels]),
            item=np.concatenate(labels),
            grade=np.concatenate(grades),
            group=np.concatenate(groups),
        ),
        session=OfferedItems(
            start=starts([len(one) for one in held]), item=np.concatenate(held), origin=np.zeros(sum(map(len, held)))
        ),
        tokens=rng.integers(1, 10, len(item)),
    )


def judged_as_trec(judgments: Judgments) -> Judgments:
    """The labels as trec_eval judges them: helpful items are required too, and each is a group of its own."""
    required = judgments.grade >= Grade.HELPFUL
    grade, group = np.where(required, Grade.REQUIRED, judgments.grade), np.where(required, np.arange(len(required)), -1)
    return replace(judgments, grade=grade, group=group, gain=judgments.grade)


def many_small(n_items: int = 240) -> LinearCases:
    """Two queries with more items than other metrics look at, of 1 or 2 tokens, and few of them required."""
    rng = np.random.default_rng(4)
    needed = [rng.permutation(n_items)[:4].tolist() for _ in range(2)]
    cases = made(
        [list(range(n_items))] * 2,
        (rng.integers(0, 64, (2 * n_items, len(COLUMNS))) / 8).tolist(),
        [[[i] for i in one] for one in needed],
    )
    return replace(cases, tokens=rng.integers(1, 3, 2 * n_items))


def made(item: list[list[int]], values: list[list[float]], needed: list[list[list[int]]]) -> LinearCases:
    """Candidates and one column or more by query; needed groups of alternatives by query."""
    labels = [[(i, group) for group, alternatives in enumerate(one) for i in alternatives] for one in needed]
    flat = [label for one in labels for label in one]
    return LinearCases(
        values=np.array(values, dtype=np.float64).reshape(sum(map(len, item)), -1),
        query=np.repeat(np.arange(len(item)), list(map(len, item))),
        item=np.array([i for one in item for i in one], dtype=np.int64),
        judgments=Judgments(
            start=starts(list(map(len, labels))),
            item=np.array([i for i, _ in flat], dtype=np.int64),
            grade=np.full(len(flat), 2),
            group=np.array([group for _, group in flat], dtype=np.int64),
        ),
    )


class Reranked:
    """The step `linear` over a table of the cases, measured as every ranking is."""

    def __init__(self, cases: LinearCases) -> None:
        n = cases.judgments.n_queries
        self.cases, self.resources = cases, testing.mock_resources()
        catalog = Catalog([Item(type="rule", name=f"n{place}") for place in range(int(cases.item.max(initial=0)) + 1)])
        batch = Batch.of(catalog, [Request(id=f"q{place}", text="?") for place in range(n)])
        self.query = Query.of_chunks(batch, [["?"]] * n)
        table = Candidates.build(n, cases.query, cases.item, score=np.zeros(len(cases.item)))
        self.table = table.with_columns(**dict(zip(COLUMNS, cases.values.T, strict=False)))

    def by_query(self, metric: Metric, weights: FloatArray) -> FloatArray:
        given = dict(zip(COLUMNS, weights.tolist(), strict=False))
        start, item = Linear(weights=given)(self.query, self.table, self.resources).ranking()
        if isinstance(metric, WithinTokens):
            start, item = self.within(start, item, metric.token_count)
            metric = parse_metric(f"{metric.name}@{metric.k}")
        none = np.empty(0, dtype=np.int64)
        nothing = OfferedItems(start=np.zeros_like(start), item=none, origin=none)
        evidence = Evidence(
            judgments=self.cases.judgments,
            offered=self.cases.session or nothing,
            rankings=Rankings(start=start, item=item),
        )
        return np.asarray(evaluate([metric], evidence)[metric])

    def within(self, start: IntArray, item: IntArray, limit: int) -> tuple[IntArray, IntArray]:
        """Each ranking up to the last item that fits into the tokens, labelled ones first: metrics read 1000 ranks."""
        tokens = dict(zip(zip(self.cases.query, self.cases.item, strict=True), self.cases.tokens, strict=True))
        kept = []
        for query in range(len(start) - 1):
            ranking = item[start[query] : start[query + 1]]
            spent = np.cumsum([tokens[query, one] for one in ranking.tolist()])
            ranking, judgments = ranking[: np.count_nonzero(spent <= limit)], self.cases.judgments
            labelled = judgments.item[judgments.start[query] : judgments.start[query + 1]]
            kept.append(ranking[np.argsort(~np.isin(ranking, labelled), kind="stable")])
        return starts([len(ranking) for ranking in kept]), np.concatenate(kept)

    def mean(self, metric: Metric, weights: FloatArray) -> float:
        return float(np.nanmean(self.by_query(metric, weights)))


def said(line, weight: float) -> float:
    """What a line says for a weight that is no edge."""
    return float(line.means[np.searchsorted(line.edges, weight) - 1])


@pytest.mark.parametrize("name", ["R@120tokens", "R@200tokens", "Comp@300tokens", "Success@90tokens"])
@pytest.mark.parametrize("column", range(len(COLUMNS)))
def test_within_tokens_more_than_a_hundred_small_items_count(name, column):
    cases, metric, weights = many_small(), parse_objective(name), np.array([1.0, 0.5, -0.25])
    search, rerun = LineSearch(cases, metric), Reranked(cases)
    line = search.along(column, weights)
    for weight in np.linspace(-4.0, 4.0, 41) + 1 / 4096:
        moved = weights.copy()
        moved[column] = weight
        expected = rerun.mean(metric, moved)
        assert search.mean(moved) == pytest.approx(expected, abs=1e-12)
        assert said(line, weight) == pytest.approx(expected, abs=1e-12)


def test_the_last_of_many_small_items_does_not_fit():
    cases = made([list(range(200))], [[float(-i)] for i in range(200)], [[[199]]])
    search = LineSearch(replace(cases, tokens=np.ones(200, dtype=np.int64)), parse_objective("R@120tokens"))
    line = search.along(0, np.array([1.0]))
    assert search.mean(np.array([1.0])) == said(line, 0.1) == 0.0
    assert search.mean(np.array([-1.0])) == said(line, -0.1) == 1.0


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    metric=st.sampled_from(METRICS),
    weights=st.lists(st.integers(-8, 8).map(lambda n: n / 8), min_size=3, max_size=3).filter(any),
    column=st.integers(0, 2),
    shares=st.lists(st.integers(-(2**16) + 1, 2**16 - 1), min_size=8, max_size=8),
    trec=st.booleans(),
)
def test_a_line_says_what_the_step_and_the_metric_say(seed, metric, weights, column, shares, trec):
    """Values and weights are short binary numbers, so that scores which are equal are so to the last bit."""
    cases, weights = drawn(seed), np.array(weights)
    if trec:
        cases = replace(cases, judgments=judged_as_trec(cases.judgments))
    rerun = Reranked(cases)
    try:
        search = LineSearch(cases, metric)
    except ParameterError:
        assert np.isnan(rerun.by_query(metric, weights)).all()
        return
    np.testing.assert_allclose(search.by_query(weights), rerun.by_query(metric, weights), rtol=0, atol=1e-12)
    if search.spread[column] == 0:
        return
    line = search.along(column, weights)
    for share in shares:
        moved = weights.copy()
        moved[column] = np.trunc(share / 2**16 * line.edges[-1] * 2**12) / 2**12
        if moved.any() and np.abs(line.edges - moved[column]).min() > 1e-9:
            expected, beside = rerun.mean(metric, moved), moved.copy()
            beside[column] += 2.0**-40
            if rerun.mean(metric, beside) != expected:
                continue  # at this very point scores are equal, which no interval shows
            assert said(line, moved[column]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", ["R@10", "Comp@10", "RR", "nDCG@10", "R@50tokens"])
def test_two_hundred_weights_of_many_candidates(metric):
    """Values of any kind: two scores that differ by rounding alone do not come up."""
    rng = np.random.default_rng(3)
    cases, wanted = drawn(5, n_queries=40, n_items=120), parse_objective(metric)
    cases = LinearCases(
        values=rng.standard_normal(cases.values.shape),
        query=cases.query,
        item=cases.item,
        judgments=cases.judgments,
        session=cases.session,
        tokens=cases.tokens,
    )
    rerun, search, weights = Reranked(cases), LineSearch(cases, wanted), rng.standard_normal(3)
    line = search.along(1, weights)
    assert len(line.means) > 10
    for weight in rng.uniform(line.edges[0], line.edges[-1], 200):
        moved = np.array([weights[0], weight, weights[2]])
        assert said(line, weight) == pytest.approx(rerun.mean(wanted, moved), abs=1e-9)


def test_an_objective_within_tokens():
    metric = parse_objective(" Comp@500tokens ")
    assert (str(metric), metric.name, metric.k) == ("Comp@500tokens", "Comp", 1000)
    assert parse_objective("R@5") == parse_metric("R@5")
    for text in ("R@0tokens", "nDCG@500tokens", "R@tokens"):
        with pytest.raises(UserError):
            parse_objective(text)
    with pytest.raises(ParameterError, match="tokens"):
        LineSearch(made([[0, 1]], [[1], [0]], [[[0]]]), metric)


def test_a_line_worked_by_hand():
    """Item 1 is needed and scores 1 + w; item 0 scores 2 and item 2 scores 3w: first from w = 1 / 2 to ... nowhere."""
    cases = made([[0, 1, 2]], [[2, 0], [1, 1], [0, 3]], [[[1]]])
    line = LineSearch(cases, parse_metric("RR")).along(1, np.array([1.0, 0.0]))
    # Item 0 is above it while w < 1, item 2 while w > 1 / 2: ranks 2, 3, 2.
    np.testing.assert_allclose(line.edges[1:-1], [0.5, 1.0])
    np.testing.assert_allclose(line.means, [1 / 2, 1 / 3, 1 / 2])


def test_equal_lines_are_in_catalog_order():
    cases = made([[0, 1, 2]], [[1, 1], [1, 1], [0, 0]], [[[1]]])
    line = LineSearch(cases, parse_metric("RR")).along(1, np.array([1.0, 0.0]))
    np.testing.assert_allclose(line.edges[1:-1], [-1.0])
    np.testing.assert_allclose(line.means, [1 / 3, 1 / 2])
    before = made([[0, 1, 2]], [[1, 1], [1, 1], [0, 0]], [[[0]]])
    assert said(LineSearch(before, parse_metric("RR")).along(1, np.array([1.0, 0.0])), 0.5) == 1.0


def test_alternatives_count_by_the_best_of_them():
    """Items 0 and 2 are alternatives: one of them is before item 1, whatever the weight, but for equal scores."""
    cases = made([[0, 1, 2]], [[1], [0], [-1]], [[[0, 2]]])
    line = LineSearch(cases, parse_metric("R@1")).along(0, np.array([1.0]))
    np.testing.assert_allclose(line.edges[1:-1], [])
    np.testing.assert_allclose(line.means, [1.0])


def test_queries_that_need_nothing_or_find_nothing_are_constant():
    cases = made([[0, 1], [0, 1], []], [[0], [1], [0], [1]], [[[1]], [], [[0]]])
    search = LineSearch(cases, parse_metric("R@1"))
    np.testing.assert_array_equal(search.by_query(np.array([1.0])), [1.0, np.nan, 0.0])
    line = search.along(0, np.array([1.0]))
    np.testing.assert_allclose((line.edges[1:-1], line.means.tolist()[1:]), ([0.0], [0.5]))


def test_only_the_queries_asked_for_count():
    cases = made([[0, 1], [0, 1]], [[0], [1], [0], [1]], [[[1]], [[0]]])
    both, first = (
        fit_linear(cases, parse_metric("R@1"), queries=np.array(one)) for one in ([True, True], [True, False])
    )
    assert (both.mean, first.mean) == (0.5, 1.0)


def test_a_search_finds_what_no_column_alone_shows():
    """What is needed is second in each column and first in their sum."""
    cases = made([[0, 1, 2]] * 3, [[3, 0], [2, 2], [0, 3]] * 3, [[[1]]] * 3)
    found = fit_linear(cases, parse_metric("RR"), start=np.array([1.0, 0.0]))
    assert (found.before, found.mean) == (0.5, 1.0)
    assert np.abs(found.weights).max() == 1.0
    assert Reranked(cases).mean(parse_metric("RR"), found.weights) == 1.0


def test_weights_that_nothing_improves_stay():
    cases = made([[0, 1]], [[1, 0], [0, 1]], [[[0]]])
    found = fit_linear(cases, parse_metric("R@1"), start=np.array([0.3, 0.1]))
    np.testing.assert_array_equal(found.weights, [0.3, 0.1])
    assert found.before == found.mean == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_the_same_whatever_the_order_of_queries(seed):
    cases = drawn(seed, n_queries=12)
    order = np.random.default_rng(seed).permutation(12)
    rows = np.concatenate([np.flatnonzero(cases.query == query) for query in order])
    judgments, held = cases.judgments, cases.session
    labels = np.concatenate([np.arange(judgments.start[one], judgments.start[one + 1]) for one in order])
    holds = np.concatenate([np.arange(held.start[one], held.start[one + 1]) for one in order])
    mixed = LinearCases(
        values=cases.values[rows],
        query=np.repeat(np.arange(12), np.bincount(cases.query, minlength=12)[order]),
        item=cases.item[rows],
        judgments=Judgments(
            start=starts(np.diff(judgments.start)[order]),
            item=judgments.item[labels],
            grade=judgments.grade[labels],
            group=judgments.group[labels],
        ),
        session=OfferedItems(
            start=starts(np.diff(held.start)[order]), item=held.item[holds], origin=held.origin[holds]
        ),
    )
    one, other = (fit_linear(given, parse_metric("nDCG@3")) for given in (cases, mixed))
    np.testing.assert_array_equal(one.weights, other.weights)
    assert one.mean == other.mean


def test_faults_are_named():
    cases = made([[0, 1]], [[1], [1]], [[[0]]])
    with pytest.raises(ParameterError, match="no column differs between the candidates of a query"):
        fit_linear(cases, parse_metric("R@1"))
    with pytest.raises(ParameterError, match=r"weights are fitted by nDCG, R, .*, with a rank, got recall"):
        fit_linear(cases, parse_metric("recall"))
    with pytest.raises(ParameterError, match="R@1 applies to no query"):
        fit_linear(made([[0, 1]], [[1], [0]], [[]]), parse_metric("R@1"))
