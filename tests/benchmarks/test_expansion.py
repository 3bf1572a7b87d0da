"""What expansion adds to a warm selection over 1,000 items of 3 chunks. Run with `--benchmark-only -s`.

Bar: under 1 ms. With and without take turns in one test, since machines change their speed within a minute; the time of
the processor stands beside that of the clock, which a busy machine stretches. Figures are printed and stored; asserted
is only that something was brought in.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request
from ctxbench.model.resources import Resources
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.testing import mock_resources

ITEMS, CHUNKS, TOPICS, DIMENSIONS = 1_000, 3, 60, 384
ROUNDS = 300


class Synthetic(Resources):
    """Resources whose texts lie around topics: `topic.number` is near its topic's vector."""

    def __init__(self):
        self._mock = mock_resources()
        self._topics = np.random.default_rng(1).standard_normal((TOPICS, DIMENSIONS))
        self._known = {}
        self.get_or_create, self.tokens, self.identity = (
            self._mock.get_or_create,
            self._mock.tokens,
            self._mock.identity,
        )

    def vectors(self, texts, *, kind="query"):
        return np.array([self._vector(text) for text in texts], dtype=np.float32).reshape(len(texts), DIMENSIONS)

    def _vector(self, text):
        if text not in self._known:
            topic, number = text.split(": ")[-1].split(".")
            own = np.random.default_rng(int(number)).standard_normal(DIMENSIONS)
            vector = self._topics[int(topic)] + 0.5 * own
            self._known[text] = vector / np.linalg.norm(vector)
        return self._known[text]


def catalog():
    rng = np.random.default_rng(2)
    texts = [[f"{rng.integers(TOPICS)}.{1 + CHUNKS * i + chunk}" for chunk in range(CHUNKS)] for i in range(ITEMS)]
    return Catalog(
        [
            Item(type="rule", name="r", description=one[0], text="\n\n".join(one[1:]), server=str(i))
            for i, one in enumerate(texts)
        ]
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"threshold": 0.5},
        {"threshold": 0.5, "topN": 20, "depth": 2},
        {"by": "graph", "graph_threshold": 0.5},
        {"threshold": 0.5, "heads": True, "query_weight": 0.5},
    ],
    ids=["chunks", "two passes of 20", "graph", "heads and query"],
)
def test_what_expansion_adds(benchmark, parameters):
    refine = [{"standard": {}}]
    plain = Pipeline.of({"retrieve": "dense", "refine": refine})
    expanding = Pipeline.of({"retrieve": "dense", "refine": [*refine, {"expansion": parameters}]})
    items, resources = catalog(), Synthetic()
    batches = [Batch.of(items, [Request(id=str(n), text=f"{n % TOPICS}.{10**6 + n}")]) for n in range(ROUNDS)]
    for batch in batches[:TOPICS]:  # warm: vectors, graph and rows are there
        expanding.run(batch, resources)
    taken = {plain: [], expanding: []}
    added = 0
    with threadpool_limits(limits=1):
        for batch in batches:
            for pipeline in (plain, expanding):
                began = time.perf_counter(), time.process_time()
                outcome = pipeline.run(batch, resources)
                taken[pipeline].append((time.perf_counter() - began[0], time.process_time() - began[1]))
            added += int((outcome.candidates.via_item >= 0).sum())
        benchmark.pedantic(lambda: expanding.run(batches[0], resources), rounds=5)
    clock, processor = zip(*(np.median(1000 * np.array(times), axis=0) for times in taken.values()), strict=True)
    figures = {"without_ms": clock[0], "with_ms": clock[1], "processor_ms": processor[1] - processor[0]}
    benchmark.extra_info.update(figures)
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{parameters}: {clock[0]:.2f} ms without, {clock[1]:.2f} ms with, {clock[1] - clock[0]:.2f} ms more (bar 1; "
        f"{processor[1] - processor[0]:.2f} ms of the processor), {added / ROUNDS:.1f} items brought in"
    )
    assert added > 0
