"""Changes that should alarm nobody: reruns in another order, on other threads or with noise, and neutral rewordings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from gate_world import (
    ALLOWED_COLUMNS,
    HERE,
    OWN,
    TWINS,
    check,
    data_of,
    draw,
    found_once,
    only,
    reworded,
    shipped,
    with_data,
    with_items,
    worse_allowing,
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
from ctxbench.model.resources import Resources, TextKind
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


# ---------------------------------------------------------------------------------------------------- reruns


def row_of(result: Check, heads: Sequence[SelectorSnapshot]) -> dict[str, Any]:
    """What a check says of all its selectors together; `net_lost` is the most of any."""
    rows = result.selectors
    verdicts = {row.verdict for row in rows}
    allowing = [worse_allowing(row, head) for row, head in zip(rows, heads, strict=True)]
    return {
        "checks": 1,
        "worse": not verdicts.isdisjoint({Verdict.WORSE, Verdict.NOT_COMPARABLE}),
        "not_same": verdicts != {Verdict.SAME},
        "changed": sum(len({change.query for change in row.changes}) for row in rows),
        "swapped": sum(len(row.swaps) for row in rows),
        "lost": sum(row.lost for row in rows),
        "gained": sum(row.gained for row in rows),
        **{column: any(row[column] for row in allowing) for column in ALLOWED_COLUMNS},
    }


def reruns() -> list[tuple[str, str, int]]:
    """Dataset, change and number of each: half of 200 on each dataset, and some where ties are many."""
    plan = [*((name, RERUNS) for name in OWN), (TWINNED, TWINNED_RERUNS)]
    return [(name, change, number) for name, counts in plan for change, n in counts.items() for number in range(n)]


def rerun(name: str, change: str, number: int) -> list[dict[str, Any]]:
    """Run what ships with a change that should make no difference, and check it."""
    ready, _, base = shipped(name)
    whole, dataset = change == "all together", data_of(ready)
    rng = np.random.default_rng([number, list(RERUNS).index(change), len(name)])
    if whole or change == "order of items":
        dataset = with_items(dataset, _shuffled(dataset.catalog, rng))
    if whole or change == "order of queries":
        dataset = replace(dataset, queries=tuple(_shuffled(dataset.queries, rng)))
    ready = with_data(ready, dataset)
    with ExitStack() as during:
        resources = ready.resources()
        if whole or change == "threads":
            during.enter_context(threadpool_limits(THREADS[number % len(THREADS)]))
            if (name, whole) == (EMBEDDED[0], False) and number < EMBEDDED[1]:
                resources = _embedded_anew(dataset, during, threads=1 + number)
        if whole or change == "noise on vectors":
            resources = _Noisy(resources, rng)
        during.enter_context(_noisy_scores(rng) if whole or change == "noise on scores" else nullcontext())
        heads = take(ready, resources=resources)
    check_row = row_of(check(list(zip(base, heads, strict=True))), heads)
    return [{"dataset": name, "change": change, "queries": "all", **check_row}]


def _shuffled(several: Sequence, rng: np.random.Generator) -> list:  # type: ignore[type-arg]
    return [several[index] for index in rng.permutation(len(several)).tolist()]


class _Noisy(LocalResources):
    """Resources whose vectors are off by up to `SIZE` in every number; the same each time that one is asked for."""

    def __init__(self, resources: LocalResources, rng: np.random.Generator) -> None:
        vars(self).update(vars(resources))
        self._rng = rng
        self._known: dict[str, Float32Array] = {}

    def vectors(self, texts: Sequence[str], *, kind: TextKind = "query") -> Float32Array:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            vectors = super().vectors(new, kind=kind)
            noise = self._rng.uniform(-SIZE, SIZE, vectors.shape)
            self._known.update(zip(new, (vectors + noise).astype(np.float32), strict=True))
        return np.stack([self._known[text] for text in texts]) if texts else super().vectors(texts, kind=kind)


@contextmanager
def _noisy_scores(rng: np.random.Generator) -> Iterator[None]:
    """Within it, every score of a search is off by up to `SIZE`."""
    plain: Callable[[Dense, Query, Resources], Candidates] = Dense.__call__

    def noisy(self: Dense, query: Query, resources: Resources) -> Candidates:
        candidates = plain(self, query, resources)
        noise = rng.uniform(-SIZE, SIZE, len(candidates))
        return candidates.reordered(score=candidates.score + noise)

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
    rows: dict[str, list[dict[str, str]]] = load_yaml(HERE / "rewordings.yaml")[0]
    return rows


def reword(name: str, index: int | None) -> list[dict[str, Any]]:
    """Apply one rewording, or all of a dataset together, and check it over all queries and over draws.

    Returns:
        A row for the check of all queries, and one for each draw.
    """
    ready, _, base = shipped(name)
    rows = rewordings()[name]
    chosen = rows if index is None else [rows[index]]
    texts = {row["item"]: {field: text for field, text in row.items() if field != "item"} for row in chosen}
    heads = take(with_data(ready, reworded(data_of(ready), texts)))
    full = check(list(zip(base, heads, strict=True)))
    head = {"dataset": name, "change": "all rewordings together" if index is None else "rewordings"}
    checks = [{**head, "queries": "all", **row_of(full, heads)}]
    for n in NS:
        for seed in range(DRAWS):
            queries = draw(base[0], n, seed)
            drawn = [only(snapshot, queries) for snapshot in heads]
            with found_once(full):
                result = check([(only(before, queries), after) for before, after in zip(base, drawn, strict=True)])
            checks.append({**head, "queries": str(n), **row_of(result, drawn)})
    return checks
