"""How long `ctxbench serve` takes to build a context by `assembly`, without its cache.

Stores hold the files and messages of datasets/threads, as they are or with each file several times under other paths.
Every request of the dataset is built, half of them after a message was written.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from replay import THREADS, WORKSPACE, kept_memory

from ctxbench.datasets.files import read_dataset
from ctxbench.memory.engine import ContextCache, ContextEngine
from ctxbench.memory.memories import Memory
from ctxbench.memory.service import ContextService
from ctxbench.memory.sqlite_store import SqliteStore

SELECTORS = ("assembly", "assembly/embeddings")
COPIES = (1, 30)  # of each file: about 800 and 10,000 items
LIMIT = 300  # milliseconds, of the specification


def latencies(copies: Sequence[int] = COPIES, *, requests: int | None = None) -> list[dict[str, Any]]:
    """Milliseconds of a build by size of the store and selector: p50, p95 and p99, on the clock and of the processor.

    Other work on the machine lengthens the first. The second is of all threads together, so an idle machine takes less.

    Args:
        copies: how often each file is in the store.
        requests: how many requests are built; None = all of the dataset.
    """
    return [row for n in copies for selector in SELECTORS for row in _latencies(selector, n, requests)]


def _latencies(selector: str, copies: int, requests: int | None) -> list[dict[str, Any]]:
    dataset = read_dataset(THREADS)
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder, "store.db")) as store:
        store.create_workspace(WORKSPACE)
        store.insert_many(kept_memory(item) for item in dataset.catalog if item.type == "message")
        files = [kept_memory(item) for item in dataset.catalog if item.type == "file"]
        store.insert_many(files)
        for copy in range(1, copies):
            store.insert_many(_copied(file, copy) for file in files)
        ContextEngine(store).embed(WORKSPACE)  # as an import with --embedder
        service = ContextService(store, WORKSPACE, selector=selector, cache=ContextCache(0))
        users = tuple(dict.fromkeys(query.request.user for query in dataset.queries))
        service.prepare(users)
        times: dict[str, list[tuple[float, float]]] = {"": [], "after a write": []}  # on the clock, of the processor
        for n, query in enumerate(islice(dataset.queries, requests)):
            request = query.request
            if n % 2:
                new = Memory(id=f"new-{n}", workspace=WORKSPACE, content=request.text, type="message", kind="user")
                store.insert(new)
            begin = time.perf_counter(), time.process_time()
            service.build(request.text, thread=request.conversation, user=request.user)
            end = time.perf_counter(), time.process_time()
            times["after a write" if n % 2 else ""].append((end[0] - begin[0], end[1] - begin[1]))
        n_items = len(store.catalog(WORKSPACE))
    rows = []
    for when, values in times.items():
        quantiles = 1000 * np.quantile(values, (0.5, 0.95, 0.99), axis=0)
        row = {"items": n_items, "selector": selector, "when": when, "builds": len(values)}
        row |= dict(zip(("p50", "p95", "p99"), quantiles[:, 0].tolist(), strict=True))
        rows.append(row | dict(zip(("p50 cpu", "p95 cpu", "p99 cpu"), quantiles[:, 1].tolist(), strict=True)))
    return rows


def _copied(file: Memory, copy: int) -> Memory:
    fields = {name: getattr(file, name) for name in ("workspace", "content", "type", "kind", "created", "user")}
    return Memory(id=f"copy{copy}/{file.id}", **fields)
