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

from ctxbench.search.dense import ChunkMatrix, search

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
