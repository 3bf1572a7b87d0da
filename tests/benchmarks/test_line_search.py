"""Speed of the line search. Run with `pytest tests/benchmarks/test_line_search.py --benchmark-only -s`.

A whole fit of six weights, and one weight by trying 200 values, each a sort of all candidates and the metric. The test
prints and stores figures, and asserts only that both say the same.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import pytest

from ctxbench.evaluation.metrics import evaluate, mean, parse_metric
from ctxbench.model.arrays import Evidence, Judgments, OfferedItems, Rankings, starts
from ctxbench.model.candidates import order
from ctxbench.pipelines.strategies.rank import linear_scores
from ctxbench.tuning.linear_fits import LinearCases, LineSearch, fit_linear

QUERIES, LEAST, MOST, COLUMNS = 1980, 370, 690, 6
VALUES, SAMPLE = 200, 8


@pytest.fixture(scope="module")
def cases() -> LinearCases:
    """As many queries and candidates as LoCoMo has, drawn; what is needed stands out a little in most columns."""
    generator = np.random.default_rng(0)
    size = generator.integers(LEAST, MOST + 1, QUERIES)
    values, start = generator.standard_normal((int(size.sum()), COLUMNS)), starts(size)
    values[:, -1] = values[:, -1] > 0
    needed = [generator.choice(n, min(int(generator.geometric(0.7)), 20), replace=False) for n in size]
    rows = np.concatenate([start[query] + items for query, items in enumerate(needed)])
    values[rows, : COLUMNS - 1] += np.linspace(2.0, 0.0, COLUMNS - 1) * generator.random((len(rows), 1))
    return LinearCases(
        values=values,
        query=np.repeat(np.arange(QUERIES), size),
        item=np.concatenate([np.arange(n) for n in size]),
        judgments=Judgments(
            start=starts([len(one) for one in needed]),
            item=np.concatenate(needed),
            grade=np.full(len(rows), 2),
            group=np.concatenate([np.arange(len(one)) for one in needed]),
        ),
    )


@pytest.mark.parametrize("metric", ["R@10", "nDCG@10"])
def test_the_line_search_beside_trying_values(benchmark, cases, metric):
    wanted = parse_metric(metric)
    none, start = np.empty(0, dtype=np.int64), starts(np.bincount(cases.query))
    nothing = OfferedItems(start=np.zeros_like(start), item=none, origin=none)

    def reranked(weights):
        score = linear_scores(cases.values, weights)
        by_score = order(cases.query, np.zeros(len(score), dtype=np.int64), score, cases.item)
        rankings = Rankings(start=start, item=cases.item[by_score])
        evidence = Evidence(judgments=cases.judgments, offered=nothing, rankings=rankings)
        return mean(evaluate([wanted], evidence)[wanted]).value

    search, weights = LineSearch(cases, wanted), np.ones(COLUMNS)
    lines, tried = [], []
    for weight in np.linspace(-1.9, 2.1, SAMPLE):
        began = time.perf_counter()
        line = search.along(1, weights)
        lines.append(time.perf_counter() - began)
        moved = np.where(np.arange(COLUMNS) == 1, weight, weights)
        began = time.perf_counter()
        value = reranked(moved)
        tried.append(time.perf_counter() - began)
        assert line.means[np.searchsorted(line.edges, weight) - 1] == pytest.approx(value, abs=1e-9)
    busy = time.process_time()
    found = benchmark.pedantic(lambda: fit_linear(cases, wanted, start=weights), rounds=1)
    busy = time.process_time() - busy
    one, trying = statistics.median(lines), VALUES * statistics.median(tried)
    benchmark.extra_info.update({"line_s": one, "values_s": trying, "processor_s": busy})
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{metric}, {QUERIES} queries, {len(cases.item):,} candidates: all values of a weight ({len(line.means):,} "
        f"intervals) in {1000 * one:.0f} ms; {VALUES} values by ranking anew in {trying:.0f} s, {trying / one:,.0f} "
        f"times as long; six weights ({COLUMNS + 4} starts) in {busy:.1f} s of the processor "
        f"(bar 30), {found.before:.3f} before and {found.mean:.3f} after"
    )
