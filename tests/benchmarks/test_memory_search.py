"""A search of memories by a vector with filters, and the first one after an insert, beside the bare product.

Bars: at 100,000 memories x 384 the middle and the 95th percentile of requests take at most 1.5 times those of the bare
product (`matrix @ vector` and the best by `argpartition`), and the first request after an insert at most 3 times. All
take turns in one test on one thread, since machines change their speed within a minute; figures are printed and stored,
and asserted is only that what is found is what the product says. Run with `--benchmark-only -s`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Filter, Request
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.dense import dense_index
from ctxbench.search.embedders import HashingEmbedder, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter

ITEMS, DIMENSIONS, BEST, ROUNDS = 100_000, 384, 10, 60
KINDS = ("fact", "decision", "preference", "note")
BEGAN = datetime(2025, 1, 1, tzinfo=UTC)
PIPELINE = Pipeline.of({"retrieve": "dense", "refine": [{"first": {"n": BEST}}]})


class Given(LocalResources):
    """Resources whose vectors are made already: the text of a memory is its number."""

    def __init__(self, vectors: np.ndarray) -> None:
        super().__init__(Vectors(HashingEmbedder(), None), CharsCounter())
        self.given = vectors

    def vectors(self, texts, *, kind="query"):
        return self.given[[int(text) for text in texts]]


def unit(generator: np.random.Generator, n: int) -> np.ndarray:
    vectors = generator.standard_normal((n, DIMENSIONS)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def day(n: float) -> str:
    return (BEGAN + timedelta(days=n)).isoformat()


def memory(n: int) -> Item:
    ended = {"until": day(n % 365 + 400)} if n % 20 == 0 else {}
    return Item(
        type="memory",
        name=f"m{n}@1",
        text=str(n),
        workspace="w",
        kind=KINDS[n % len(KINDS)],
        confidence=(n * 7919 % 1000) / 1000,
        created=day(n * 104_729 % 36_500 / 100),
        **ended,
    )


def request(n: int, vector: np.ndarray, *, fresh: bool) -> Request:
    """One with three filters; a fresh one looks back from a moment that no other has asked at."""
    now = 300 + n / 1000 if fresh else 300
    only = Filter(kinds=KINDS[:3], since=day(now - 280), before=day(now), confidence=0.2)
    return Request(id="q", text="", vector=tuple(vector.tolist()), workspace="w", time=day(now + 50), only=only)


def run(catalog: Catalog, asked: Request, resources: Given):
    return PIPELINE.run(Batch.of(catalog, [asked]), resources).candidates


def matrix_of(catalog: Catalog, resources: Given) -> np.ndarray:
    """The vectors that the search multiplies with, where they lie: memory elsewhere may be faster or slower."""
    matrix = dense_index(catalog, resources).matrix(np.zeros(len(catalog), dtype=np.bool_), resources.vectors)
    assert matrix is not None
    return matrix.vectors


def bare(vectors: np.ndarray, vector: np.ndarray) -> np.ndarray:
    scores = vectors @ vector
    best = np.argpartition(scores, len(scores) - BEST)[-BEST:]
    return best[np.argsort(-scores[best])]


def timed(call):
    began = time.perf_counter()
    made = call()
    return 1000 * (time.perf_counter() - began), made


@pytest.mark.parametrize("fresh", [False, True], ids=["the same filters", "filters that nobody asked for yet"])
def test_search_with_filters_beside_the_bare_product(benchmark, fresh):
    generator = np.random.default_rng(5)
    vectors, asked = unit(generator, ITEMS + ROUNDS), unit(generator, 2 * ROUNDS + 1)
    resources, catalog = Given(vectors), Catalog(memory(n) for n in range(ITEMS))
    everything = Request(id="all", text="", vector=tuple(asked[-1].tolist()), workspace="w", time=day(399))
    run(catalog, everything, resources)  # items are indexed once a request may get them
    assert len(matrix_of(catalog, resources)) == ITEMS
    taken: dict[str, list[float]] = {"bare": [], "search": [], "after": []}
    with threadpool_limits(limits=1):
        for n in range(ROUNDS):
            held = matrix_of(catalog, resources)
            taken["bare"].append(timed(lambda: bare(held, asked[n]))[0])  # noqa: B023 - run at once
            one = request(2 * n, asked[n], fresh=fresh)
            spent, found = timed(lambda: run(catalog, one, resources))  # noqa: B023
            taken["search"].append(spent)
            other = request(2 * n + 1, asked[ROUNDS + n], fresh=fresh)
            began = time.perf_counter()
            catalog = catalog.extended([replace(memory(ITEMS + n), kind="fact", created=day(100), confidence=0.9)])
            run(catalog, other, resources)
            taken["after"].append(1000 * (time.perf_counter() - began))
        benchmark.pedantic(lambda: run(catalog, one, resources), rounds=3)
    allowed = Batch.of(catalog, [one]).eligible[0][: len(held)]
    scores = np.where(allowed, held.astype(np.float64) @ asked[ROUNDS - 1].astype(np.float64), -np.inf)
    assert found.item[:BEST].tolist() == np.argsort(-scores)[:BEST].tolist()
    product = {share: float(np.quantile(taken["bare"], share)) for share in (0.5, 0.95)}
    for kind, bar in (("search", 1.5), ("after", 3)):
        for share, name in ((0.5, "p50"), (0.95, "p95")):
            value = float(np.quantile(taken[kind], share))
            benchmark.extra_info |= {f"{kind}_{name}_ms": value, f"{kind}_{name}_ratio": value / product[share]}
            print(  # noqa: T201 - figures for who runs it with -s
                f"\n{kind} {name} {value:.1f} ms, bare {product[share]:.1f} ms, ratio {value / product[share]:.2f} "
                f"(bar {bar}), fastest {min(taken[kind]):.1f} to {min(taken['bare']):.1f}, n {ROUNDS}, "
                f"{allowed.mean():.0%} allowed"
            )
