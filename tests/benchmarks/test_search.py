"""Speed of exact search. Run with `pytest tests/benchmarks --benchmark-only -s`.

Search and the bare product take turns in one test, since machines change their speed within a minute; the test
prints and stores figures, and asserts only that the best chunk is the same.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.runner import run
from ctxbench.search.dense import search
from ctxbench.search.embedders import HashingEmbedder, named
from ctxbench.search.vector_files import ChunkMatrix
from tests.benchmarks.scale import write_dataset

CHUNKS, QUERY_CHUNKS, DIMENSIONS = 10_000, 3, 384
ROUNDS = 50


def unit(generator, n):
    vectors = generator.standard_normal((n, DIMENSIONS)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize("n_items", [10_000, 2_500])
@pytest.mark.parametrize("scope", [1.0, 0.5])
def test_search_beside_the_bare_product(benchmark, n_items, scope):
    generator = np.random.default_rng(5)
    vectors, queries = unit(generator, CHUNKS), unit(generator, QUERY_CHUNKS)
    item = np.arange(CHUNKS, dtype=np.int64) * n_items // CHUNKS
    matrix = ChunkMatrix.of(vectors, item, np.zeros(CHUNKS, dtype=np.int64))
    start, weight = np.array([0, QUERY_CHUNKS]), np.ones(QUERY_CHUNKS)
    eligible = generator.random((1, n_items)) < scope

    def bare():
        return queries @ vectors.T

    def whole():
        return next(iter(search(queries, start, eligible, matrix, depth=100, weight=weight)))

    taken = {bare: [], whole: []}
    with threadpool_limits(limits=1):
        for _ in range(ROUNDS):
            for run in (bare, whole):
                began = time.perf_counter()
                run()
                taken[run].append(time.perf_counter() - began)
        benchmark.pedantic(whole, rounds=5)
    product, searched = (1000 * statistics.median(taken[run]) for run in (bare, whole))
    figures = {"product_ms": product, "search_ms": searched, "ratio": searched / product}
    benchmark.extra_info.update(figures)
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{CHUNKS} chunks of {n_items} items, {QUERY_CHUNKS} query chunks, one thread, scope {scope:.0%}: "
        f"product {product:.2f} ms, search {searched:.2f} ms, ratio {searched / product:.2f} (bar 2)"
    )
    allowed = eligible[0, item]
    best = np.where(allowed, bare().max(axis=0), -np.inf)
    assert whole().row[0] == int(best.argmax())


ITEMS, QUERIES = 50_000, 5_000


def test_a_run_with_metrics_beside_product_and_partition(benchmark, tmp_path, monkeypatch):
    """CPU seconds of `run` from stored vectors, with metrics and files, and of NumPy's product and argpartition."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    dataset = write_dataset(tmp_path / "dataset", items=ITEMS, queries=QUERIES)
    (tmp_path / "e.yaml").write_text(
        f"datasets: [{dataset}]\nselectors:\n  - {{selector: dense, set: {{n: 5}}}}\n"
        f"embedder: {named(HashingEmbedder(DIMENSIONS))}\ntokens: chars/4\n",
        encoding="utf-8",
    )
    prepared = open_experiment(tmp_path / "e.yaml")
    generator = np.random.default_rng(5)
    vectors, queries = unit(generator, ITEMS), unit(generator, QUERIES)
    folders = iter([tmp_path / str(n) for n in range(4)])

    def bare():
        for first in range(0, QUERIES, 64):
            np.argpartition(queries[first : first + 64] @ vectors.T, ITEMS - 100, axis=1)

    def at_once():
        np.argpartition(queries @ vectors.T, ITEMS - 100, axis=1)

    def whole():
        run(prepared, next(folders))

    taken = {bare: [], at_once: [], whole: []}
    with threadpool_limits(limits=1):
        whole()
        for _ in range(3):
            for function, seconds in taken.items():
                began = time.process_time()
                function()
                seconds.append(time.process_time() - began)
        benchmark.pedantic(bare)
    product, product_at_once, searched = map(min, taken.values())
    benchmark.extra_info.update({"product_s": product, "product_at_once_s": product_at_once, "run_s": searched})
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{ITEMS:,} items, {QUERIES:,} queries: product and argpartition {product:.2f} s in slices of 64, "
        f"{product_at_once:.2f} s at once, run {searched:.2f} s, ratios {searched / product:.2f} and "
        f"{searched / product_at_once:.2f} (bar 1.5)"
    )
