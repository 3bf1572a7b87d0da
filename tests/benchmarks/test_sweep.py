"""Speed of the exact sweep. Run with `pytest tests/benchmarks/test_sweep.py --benchmark-only -s`.

The sweep and the selector, run at single settings on rankings that it finds ready, take turns in one test, since
machines change their speed within a minute; the test prints and stores figures, and asserts only that both say the
same.
"""

from __future__ import annotations

import resource
import statistics
import time

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.evaluation.answers import Labels, Slice
from ctxbench.evaluation.metrics import Metric, evaluate
from ctxbench.model.candidates import Candidates
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Query, Request
from ctxbench.pipelines.strategies.cut import Standard
from ctxbench.tuning.cut_families import StandardMargin, sweep
from ctxbench.tuning.measures import Measure
from ctxbench.tuning.policy import Constraint, Policy
from ctxbench.tuning.rankings import MeasuredRankings
from ctxbench.tuning.search import Optimum
from ctxbench.tuning.setting_lines import Counts, Front, ThresholdSpan

QUERIES, ITEMS = 1000, 500
ROUNDS, SAMPLE = 3, 20
COMPLETE, TOKENS = Metric("completeness"), Metric("tokens")
POLICY = Policy.of(
    "fewest tokens",
    minimise=TOKENS,
    constraints=(Constraint(metric=COMPLETE, at_least=0.2),),
)
K, N, SCORE = Counts("K", tuple(range(1, 101))), Counts("N", tuple(range(1, 51))), ThresholdSpan("s", 0.0, 1.0)


@pytest.fixture(scope="module")
def labels() -> Labels:
    """1 to 3 required items a query, drawn from 500."""
    generator = np.random.default_rng(0)
    catalog = Catalog([Item(type="tool", name=f"tool_{i}", server=f"server_{i % 20}") for i in range(ITEMS)])
    needed = [generator.choice(ITEMS, generator.integers(1, 4), replace=False) for _ in range(QUERIES)]
    dataset = Dataset(
        name="drawn",
        version="1",
        catalog=catalog,
        queries=tuple(DatasetQuery(request=Request(id=f"q{i}", text="?"), split="tuning") for i in range(QUERIES)),
        labels=tuple(Label(f"q{i}", catalog[int(item)].key, 2) for i, items in enumerate(needed) for item in items),
    )
    return Labels.of(dataset, generator.integers(50, 400, ITEMS))


@pytest.fixture(scope="module")
def table(labels) -> Candidates:
    """All items ranked for each query, one chunk each, so that topK leaves as many as it can; no two scores equal."""
    generator = np.random.default_rng(1)
    score = generator.random((QUERIES, ITEMS))
    item = np.argsort(-score, axis=1)
    return Candidates.build(
        QUERIES,
        np.repeat(np.arange(QUERIES), ITEMS),
        item.ravel(),
        score=np.take_along_axis(score, item, axis=1).ravel(),
        chunk_rank=np.tile(np.arange(ITEMS), QUERIES),
    )


@pytest.fixture(scope="module")
def drawn():
    """Settings to run the selector at."""
    generator = np.random.default_rng(2)
    counts = zip(generator.integers(1, 101, SAMPLE), generator.integers(1, 51, SAMPLE), strict=True)
    return [Standard(int(topK), int(topN), float(generator.uniform(0.8, 1.0))) for topK, topN in counts]


def selector(table, labels):
    """Runs a cut and measures what it offers; the query is ready, too."""
    dataset = labels.dataset
    query = Query.of_chunks(dataset.batch(), [["?"]] * QUERIES)
    resources = testing.mock_resources()
    ids, none = tuple(one.id for one in dataset.queries), np.zeros(QUERIES)

    def run(step):
        cut = step(query, table, resources)
        answers = Slice(
            queries=ids, chunks=((),) * QUERIES, candidates=cut, ranked=False, scored=True, errors={}, seconds=none
        )
        return evaluate([COMPLETE, TOKENS], labels.evidence(answers))

    return run


@pytest.mark.parametrize(
    "margin", [None, ThresholdSpan("m", 0.0, 1.0)], ids=["includeScore", "includeScore and margin"]
)
def test_the_sweep_beside_the_selector(benchmark, labels, table, drawn, margin):
    run, family = selector(table, labels), StandardMargin(K, N, SCORE, margin)

    def whole():
        rankings = MeasuredRankings.of(table, labels, [Measure(COMPLETE), Measure(TOKENS)])
        collectors = [Optimum(POLICY), Front(cost=Measure(TOKENS), gain=Measure(COMPLETE))]
        return sweep(family, rankings, collectors), collectors

    taken: dict[str, list[float]] = {"whole": [], "processor": [], "one": []}
    for number in range(ROUNDS):
        began, busy = time.perf_counter(), time.process_time()
        settings, (optimum, front) = whole()
        taken["whole"].append(time.perf_counter() - began)
        taken["processor"].append(time.process_time() - busy)
        for step in drawn[number::ROUNDS]:
            began = time.perf_counter()
            run(step)
            taken["one"].append(time.perf_counter() - began)
    benchmark.pedantic(whole, rounds=1)
    swept, busy, one = (statistics.median(taken[name]) for name in ("whole", "processor", "one"))
    times = settings * one / swept
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    benchmark.extra_info.update({"settings": settings, "sweep_s": swept, "one_ms": 1000 * one, "times": times})
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{QUERIES} queries, {ITEMS} items, topK 1-100 x topN 1-50 x {QUERIES * 100:,} scores, 2 metrics, an optimum "
        f"and a front: {settings:,} different settings in {swept:.1f} s (bar 10 without the margin; {busy:.1f} s of "
        f"the processor), with the rankings; the selector takes {1000 * one:.0f} ms a setting (median of "
        f"{len(taken['one'])}), which makes {settings * one / 3600:,.0f} hours: {times:,.0f} times as long (bar "
        f"1,000); at most {peak:.0f} MB in this "
        "process (bar 1,000)"
    )
    rankings = MeasuredRankings.of(table, labels, [Measure(COMPLETE), Measure(TOKENS)])
    plain = StandardMargin(K, N, SCORE)
    for step in drawn[:5]:
        values = plain.by_query(rankings, {"K": step.topK, "N": step.topN, "s": step.includeScore})
        for metric, expected in run(step).items():
            np.testing.assert_array_equal(values[Measure(metric)], expected)
    assert len(front)
    assert optimum.settings == settings
