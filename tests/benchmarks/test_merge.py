"""Sources of a merge side by side, as a request is served that somebody waits for, beside one after the other.

Over 100,000 items, warm; both ways take turns in one test, since machines change their speed within a minute. Figures
are printed and stored, and asserted is only that both find the same. Run with `--benchmark-only -s`.
"""

from __future__ import annotations

import statistics

import pytest

from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch, Request
from ctxbench.pipelines.pipeline import Pipeline
from tests.benchmarks.test_growing_catalogs import ASKED, ITEMS, Memory, item, timed

SOURCES = {"dense": "dense", "bm25": "bm25", "fuzzy": "fuzzy"}


@pytest.mark.parametrize("names", [("dense", "bm25"), ("dense", "bm25", "fuzzy")])
def test_side_by_side_beside_one_after_the_other(benchmark, names):
    merge = {"merge": {name: SOURCES[name] for name in names}, "seconds": 60}
    pipeline = Pipeline.of({"analyse": "whole", "retrieve": merge, "refine": [{"rrf": {}}, {"first": {"n": 5}}]})
    resources, catalog = Memory(), Catalog(item(n) for n in range(ITEMS))
    batch = Batch.of(catalog, [Request(id="q", text=" ".join(ASKED))])
    pipeline.run(batch, resources)
    taken = {"side by side": [], "one after the other": []}
    for _ in range(15):
        spent, live = timed(lambda: pipeline.run(batch, resources, live=True))
        taken["side by side"].append(spent)
        spent, waited = timed(lambda: pipeline.run(batch, resources))
        taken["one after the other"].append(spent)
    benchmark.pedantic(lambda: pipeline.run(batch, resources, live=True), rounds=3)
    figures = {name: statistics.median(times) for name, times in taken.items()}
    benchmark.extra_info.update(figures)
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{', '.join(names)}, {ITEMS:,} items: side by side {figures['side by side']:.1f} ms, one after the other "
        f"{figures['one after the other']:.1f} ms, "
        f"{figures['side by side'] / figures['one after the other']:.2f} times as long"
    )
    assert live.trace == waited.trace == ()
    assert live.candidates.item.tolist() == waited.candidates.item.tolist()
    assert live.candidates.score.tolist() == waited.candidates.score.tolist()
