"""A search after one insert into a large catalog, beside the search itself.

Bar: a dense search after one insert into 100,000 items takes at most three times the search. Both take turns in one
test, since machines change their speed within a minute; figures are printed and stored, and asserted is only that what
is found is what a catalog made anew gives. Run with `--benchmark-only -s`.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import pytest

from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.strategies.retrieve import Bm25, Bm25f, Dense, Fuzzy
from ctxbench.search.embedders import HashingEmbedder, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter

ITEMS, DIMENSIONS = 100_000, 384
WORDS = [
    f"{verb} {noun}" for verb in ("create", "list", "close", "merge", "find") for noun in ("issue", "user", "file")
]
ASKED = ["close the issue that the user found", "merge both files", "list what is left"]
STEPS = {"dense": Dense(), "bm25": Bm25(), "bm25f": Bm25f(), "fuzzy": Fuzzy()}
CASES = [("dense", 1, 25), ("dense", 3, 25), ("bm25", 3, 5), ("bm25f", 3, 3), ("fuzzy", 3, 5)]  # step, chunks, rounds


class Memory(LocalResources):
    """Vectors of the length that the default model makes, by the text alone; no text is embedded twice."""

    def __init__(self) -> None:
        super().__init__(Vectors(HashingEmbedder(), None), CharsCounter())
        self.made: dict[str, np.ndarray] = {}

    def vectors(self, texts, *, kind="query"):
        for text in texts:
            if text not in self.made:
                vector = np.random.default_rng(list(text.encode())).standard_normal(DIMENSIONS)
                self.made[text] = (vector / np.linalg.norm(vector)).astype(np.float32)
        return np.stack([self.made[text] for text in texts])


def item(n: int) -> Item:
    what = WORDS[n % len(WORDS)]
    return Item(type="tool", server=f"s{n % 50}", name=f"tool_{n}", description=f"{what} of kind {n % 977}, number {n}")


def query(catalog: Catalog, chunks: list[str]) -> Query:
    return Query.of_chunks(Batch.of(catalog, [Request(id="q", text=" ".join(chunks))]), [chunks])


def timed(run):
    began = time.perf_counter()
    made = run()
    return 1000 * (time.perf_counter() - began), made


@pytest.mark.parametrize(("name", "n_chunks", "rounds"), CASES)
def test_search_after_one_insert_beside_the_search(benchmark, name, n_chunks, rounds):
    step, resources, chunks = STEPS[name], Memory(), ASKED[:n_chunks]
    catalog = Catalog(item(n) for n in range(ITEMS))
    asked = query(catalog, chunks)
    anew, _ = timed(lambda: step(asked, resources))
    taken = {"extend": [], "request": [], "after": [], "search": []}
    for n in range(rounds):
        spent, catalog = timed(lambda: catalog.extended([item(ITEMS + n)]))  # noqa: B023 - run at once
        taken["extend"].append(spent)
        spent, asked = timed(lambda: query(catalog, chunks))  # noqa: B023 - run at once
        taken["request"].append(spent)
        for kind in ("after", "search"):
            spent, found = timed(lambda: step(asked, resources))  # noqa: B023 - run at once
            taken[kind].append(spent)
    benchmark.pedantic(lambda: step(asked, resources), rounds=3)
    figures = {f"{kind}_ms": statistics.median(times) for kind, times in taken.items()}
    figures["anew_ms"] = anew
    after = figures["extend_ms"] + figures["request_ms"] + figures["after_ms"]
    figures["ratio"] = after / figures["search_ms"]
    benchmark.extra_info.update(figures)
    bar = " (bar 3)" if name == "dense" else ""
    print(  # noqa: T201 - figures for who runs it with -s
        f"\n{name}, {ITEMS:,} items, {len(chunks)} query chunks: search {figures['search_ms']:.1f} ms; one insert "
        f"{figures['extend_ms']:.1f} ms, a request over it {figures['request_ms']:.1f} ms and the search after it "
        f"{figures['after_ms']:.1f} ms, together {figures['ratio']:.2f} times the search{bar}; index made anew "
        f"{anew:,.0f} ms"
    )
    fresh = step(query(Catalog(catalog), chunks), with_vectors_of(resources))
    assert (fresh.item.tolist(), fresh.score.tolist()) == (found.item.tolist(), found.score.tolist())


def with_vectors_of(before: Memory) -> Memory:
    """Others that have the same vectors, and no index."""
    fresh = Memory()
    fresh.made = before.made
    return fresh
