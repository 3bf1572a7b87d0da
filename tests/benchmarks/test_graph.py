"""The relationship graph of 5,000 items of 3 chunks: seconds, memory and the price of an update.

Bars: under 20 s on 2 cores and 600 MB of peak memory of a fresh process; an update of one item under 1% of a rebuild.
Run with `--benchmark-only -s`. Figures are printed and stored; asserted is only that the updated graph is the new one.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from ctxbench.model.items import Catalog, Item
from ctxbench.search.dense import ChunkMatrix
from ctxbench.search.graph import GraphSpec, build_graph, update_graph, write_graph

ITEMS, CHUNKS, TOPICS, DIMENSIONS = 5_000, 3, 600, 384
ROUNDS = 3


def vectors(seed, chunks):
    """Unit vectors around topics: those of one topic have a cosine of about 0.8."""
    generator = np.random.default_rng(seed)
    topics = np.random.default_rng(0).standard_normal((TOPICS, DIMENSIONS))
    made = topics[generator.integers(TOPICS, size=chunks)] + 0.5 * generator.standard_normal((chunks, DIMENSIONS))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def data():
    """A catalog with its chunks, and both after a change of one item."""
    items = [Item(type="rule", name=f"rule {i}", text=f"first {i}\n\nsecond {i}\n\nthird {i}") for i in range(ITEMS)]
    item, ordinal = np.repeat(np.arange(ITEMS), CHUNKS), np.tile(np.arange(CHUNKS), ITEMS)
    before, at = vectors(1, ITEMS * CHUNKS), ITEMS // 3
    after = before.copy()
    after[CHUNKS * at : CHUNKS * (at + 1)] = vectors(2, CHUNKS)
    changed = [*items[:at], replace(items[at], text="changed"), *items[at + 1 :]]
    catalogs = Catalog(items), Catalog(changed)
    for catalog in catalogs:
        assert catalog.hash  # counted once a catalog, whatever is made of it
    return [(catalog, ChunkMatrix.of(v, item, ordinal)) for catalog, v in zip(catalogs, (before, after), strict=True)]


def build(catalog, matrix, similarity="max"):
    return build_graph(catalog, matrix, GraphSpec(similarity=similarity), embedder="synthetic", chunking="synthetic")


def timed(run):
    began = time.perf_counter()
    made = run()
    return time.perf_counter() - began, made


_CHILD = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[1])
import test_graph as bench
(catalog, matrix), _ = bench.data()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
graph = bench.build(catalog, matrix)
seconds = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": seconds, "peak_mb": peak / 1024, "before_mb": before / 1024, "entries": len(graph.item)}))
"""


def test_build(benchmark):
    def fresh():
        command = [sys.executable, "-c", _CHILD, __file__.rpartition("/")[0]]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)

    runs = [fresh() for _ in range(ROUNDS)]
    figures = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    benchmark.extra_info.update(figures)
    benchmark.pedantic(fresh, rounds=1)
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{ITEMS} items of {CHUNKS} chunks: {figures['seconds']:.1f} s (bar 20), peak {figures['peak_mb']:.0f} MB "
        f"(bar 600; {figures['before_mb']:.0f} before), {figures['entries']:.0f} entries"
    )


@pytest.mark.parametrize("similarity", ["max", "mean", "centroid"])
def test_update_beside_a_rebuild(benchmark, tmp_path, similarity):
    (catalog, matrix), (changed, after) = data()
    old = build(catalog, matrix, similarity)
    taken = {"rebuild": [], "update": [], "write": []}
    for _ in range(ROUNDS):
        seconds, anew = timed(lambda: build(changed, after, similarity))
        taken["rebuild"].append(seconds)
        seconds, updated = timed(lambda: update_graph(old, changed, after))
        taken["update"].append(seconds)
        taken["write"].append(timed(lambda: write_graph(tmp_path / "graph.npz", updated))[0])  # noqa: B023 - run at once
    benchmark.pedantic(lambda: update_graph(old, changed, after), rounds=ROUNDS)
    figures = {f"{name}_ms": 1000 * statistics.median(times) for name, times in taken.items()}
    figures["share"] = figures["update_ms"] / figures["rebuild_ms"]
    benchmark.extra_info.update(figures)
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{similarity}: rebuild {figures['rebuild_ms']:.0f} ms, update of one item {figures['update_ms']:.1f} ms "
        f"({figures['share']:.2%}, bar 1%), writing {figures['write_ms']:.0f} ms, {len(anew.item)} entries"
    )
    assert np.array_equal(updated.item, anew.item)
    assert np.array_equal(updated.score, anew.score)
