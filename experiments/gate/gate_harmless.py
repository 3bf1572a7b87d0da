"""Changes that should alarm nobody: reruns in another order, on other threads or with noise, and neutral rewordings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
from gate_world import (
    HERE,
    OWN,
    TWINS,
    Loss,
    check,
    data_of,
    draw,
    found_once,
    only,
    reworded,
    shipped,
    with_data,
    with_items,
)
from threadpoolctl import threadpool_limits

from ctxbench.datasets.dataset import Dataset
from ctxbench.gate.results import Check, Verdict
from ctxbench.gate.snapshot_sources import take
from ctxbench.gate.snapshots import SelectorSnapshot
from ctxbench.io.documents import load_yaml
from ctxbench.model.arrays import Float32Array
from ctxbench.model.candidates import Candidates
from ctxbench.model.requests import Query
from ctxbench.model.resources import Resources
from ctxbench.pipelines.strategies.retrieve import Dense
from ctxbench.search.embedders import Vectors, VectorStore
from ctxbench.search.minilm import MiniLM
from ctxbench.search.resources import LocalResources

SIZE = 1e-6  # of the noise, either way
THREADS = (1, 2, 3, 4)
EMBEDDED = ("freight", 2)  # a dataset, and how many of its reruns embed all texts anew: on one thread, on two
NS, DRAWS = (30, 100, 300), 10  # of queries, on which every rewording is checked, too
RERUNS = {  # by what differs, for each own dataset
    "order of items": 17,
    "order of queries": 17,
    "threads": 15,
    "noise on vectors": 17,
    "noise on scores": 17,
    "all together": 17,
}
TWINNED = f"freight{TWINS}"
TWINNED_RERUNS = {"order of items": 10, "noise on scores": 10, "all together": 10}  # where ties are many


@dataclass(frozen=True, slots=True)
class Rerun:
    """A run of what ships, with a change that should make no difference.

    Attributes:
        dataset: its name.
        what: a key of `RERUNS`.
        number: from 0 on.
    """

    dataset: str
    what: str
    number: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a check said.

    Attributes:
        verdicts: of the selectors, in order.
        changed, swapped: queries that differ, and that differ by a swap within the noise, of all selectors.
        lost, gained: required items, of all selectors.
        allowed: how many more may be lost than gained, by selector.
        net: required items lost net, by selector.
        losses: what other defaults would say of it, by selector.
    """

    verdicts: tuple[Verdict, ...]
    changed: int
    swapped: int
    lost: int
    gained: int
    allowed: tuple[int, ...]
    net: tuple[int, ...]
    losses: tuple[Loss, ...]

    @classmethod
    def of(cls, one: Check, heads: Sequence[SelectorSnapshot]) -> Found:
        """Of a check."""
        rows = one.selectors
        return cls(
            verdicts=tuple(row.verdict for row in rows),
            changed=sum(len({change.query for change in row.changes}) for row in rows),
            swapped=sum(len(row.swaps) for row in rows),
            lost=sum(row.lost for row in rows),
            gained=sum(row.gained for row in rows),
            allowed=tuple(row.allowed for row in rows),
            net=tuple(row.lost - row.gained for row in rows),
            losses=tuple(map(Loss.of, rows, heads)),
        )

    @property
    def worse(self) -> bool:
        """Whether the check fails."""
        return Verdict.WORSE in self.verdicts or Verdict.NOT_COMPARABLE in self.verdicts


# ---------------------------------------------------------------------------------------------- reruns


def reruns() -> list[Rerun]:
    """All of them: half of 200 on each own dataset, and some where ties are many."""
    plan = [*((name, RERUNS) for name in OWN), (TWINNED, TWINNED_RERUNS)]
    return [Rerun(name, what, number) for name, counts in plan for what, n in counts.items() for number in range(n)]


def rerun(one: Rerun) -> Found:
    """Run and check it."""
    ready, _, base = shipped(one.dataset)
    whole, dataset = one.what == "all together", data_of(ready)
    rng = np.random.default_rng([one.number, list(RERUNS).index(one.what), len(one.dataset)])
    if whole or one.what == "order of items":
        dataset = with_items(dataset, _shuffled(dataset.catalog, rng))
    if whole or one.what == "order of queries":
        dataset = replace(dataset, queries=tuple(_shuffled(dataset.queries, rng)))
    ready = with_data(ready, dataset)
    with ExitStack() as during:
        resources = ready.resources()
        if whole or one.what == "threads":
            during.enter_context(threadpool_limits(THREADS[one.number % len(THREADS)]))
            if (one.dataset, whole) == (EMBEDDED[0], False) and one.number < EMBEDDED[1]:
                resources = _embedded_anew(dataset, during, threads=1 + one.number)
        if whole or one.what == "noise on vectors":
            resources = _Noisy(resources, rng)
        during.enter_context(_noisy_scores(rng) if whole or one.what == "noise on scores" else nullcontext())
        heads = take(ready, resources=resources)
    return Found.of(check(list(zip(base, heads, strict=True))), heads)


def _shuffled(several: Sequence, rng: np.random.Generator) -> list:  # type: ignore[type-arg]
    return [several[place] for place in rng.permutation(len(several)).tolist()]


class _Noisy(LocalResources):
    """Resources whose vectors are off by up to `SIZE` in every number; the same each time that one is asked for."""

    def __init__(self, resources: LocalResources, rng: np.random.Generator) -> None:
        vars(self).update(vars(resources))
        self._rng = rng
        self._known: dict[str, Float32Array] = {}

    def vectors(self, texts: Sequence[str]) -> Float32Array:
        new = [one for one in dict.fromkeys(texts) if one not in self._known]
        if new:
            vectors = super().vectors(new)
            noise = self._rng.uniform(-SIZE, SIZE, vectors.shape)
            self._known.update(zip(new, (vectors + noise).astype(np.float32), strict=True))
        return np.stack([self._known[one] for one in texts]) if texts else super().vectors(texts)


@contextmanager
def _noisy_scores(rng: np.random.Generator) -> Iterator[None]:
    """Within it, every score of a search is off by up to `SIZE`."""
    plain: Callable[[Dense, Query, Resources], Candidates] = Dense.__call__

    def noisy(self: Dense, query: Query, resources: Resources) -> Candidates:
        found = plain(self, query, resources)
        return found.reordered(score=found.score + rng.uniform(-SIZE, SIZE, len(found)))

    with patch.object(Dense, "__call__", noisy):
        yield


def _embedded_anew(dataset: Dataset, during: ExitStack, *, threads: int) -> LocalResources:
    """Resources whose model works on so many threads, and finds no vector in its store."""
    folder = Path(during.enter_context(tempfile.TemporaryDirectory()))
    embedder = MiniLM(threads=threads)
    store = VectorStore(embedder.identity, folder)
    during.callback(store.close)
    counter = shipped(dataset.name)[0].counter
    return LocalResources(Vectors(embedder, store), counter)


# ---------------------------------------------------------------------------------------------- rewordings


@cache
def rewordings() -> dict[str, list[dict[str, str]]]:
    """By dataset, the items and what is written anew of each."""
    found: dict[str, list[dict[str, str]]] = load_yaml(HERE / "rewordings.yaml")[0]
    return found


def reword(dataset: str, place: int | None) -> tuple[Found, dict[int, list[Found]]]:
    """Apply one rewording, or all of a dataset together, and check it over all queries and over draws.

    Returns:
        What a check of all queries says, and by number of queries those of draws.
    """
    ready, _, base = shipped(dataset)
    rows = rewordings()[dataset]
    chosen = rows if place is None else [rows[place]]
    texts = {row["item"]: {name: text for name, text in row.items() if name != "item"} for row in chosen}
    heads = take(with_data(ready, reworded(data_of(ready), texts)))
    full = check(list(zip(base, heads, strict=True)))
    draws: dict[int, list[Found]] = {}
    for n in NS:
        for seed in range(DRAWS):
            queries = draw(base[0], n, seed)
            drawn = [only(head, queries) for head in heads]
            with found_once(full):
                found = check([(only(one, queries), head) for one, head in zip(base, drawn, strict=True)])
            draws.setdefault(n, []).append(Found.of(found, drawn))
    return Found.of(full, heads), draws
