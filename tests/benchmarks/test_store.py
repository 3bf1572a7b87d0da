"""What importing memories costs, beside bare `executemany` into the same tables. Run with `--benchmark-only -s`.

Bar: at least half as fast. Each memory has a text and a vector of 384 numbers, which goes to the store of vectors; the
bare rows are ready in their order, checked by nobody, and committed by the thousand likewise. Both take turns.
"""

from __future__ import annotations

import itertools
import random
import sqlite3
import statistics
import time

import numpy as np

from ctxbench.memory.memories import Memory
from ctxbench.memory.sqlite_store import _ADD_MEMORY, _ADD_VERSION, SqliteStore, _values
from ctxbench.memory.stores import BATCH
from ctxbench.search.embedders import EmbedderIdentity, VectorStore, text_hash

ROWS = 20_000
ROUNDS = 5
ADD_VECTOR = "INSERT INTO vectors VALUES (?, ?, ?)"
IDENTITY = EmbedderIdentity(model="bench", revision="1", backend="none", quantisation="none", dimensions=384)


def _imported(folder, memories, vectors):
    """Seconds of an import with vectors."""
    store, kept = SqliteStore(folder / "memories.sqlite"), VectorStore(IDENTITY, folder)
    store.create_workspace("w")
    kept.add(["first"], vectors[:1])
    start = time.perf_counter()
    store.insert_many(memories)
    for first in range(0, ROWS, BATCH):
        texts = [memory.content for memory in memories[first : first + BATCH]]
        kept.add(texts, vectors[first : first + BATCH])
    seconds = time.perf_counter() - start
    store.close()
    kept.close()
    return seconds


def _bare(folder, memories, vectors):
    """Seconds of the same rows by `executemany`."""
    store, kept = SqliteStore(folder / "memories.sqlite"), VectorStore(IDENTITY, folder)
    store.create_workspace("w")
    kept.add(["first"], vectors[:1])
    rows = [(key, 1, memory.id) for key, memory in enumerate(memories, 1)]
    versions = [_values(memory, 1, key) for key, memory in enumerate(memories, 1)]
    values = [(text_hash(memory.content), row.tobytes(), 0) for memory, row in zip(memories, vectors, strict=True)]
    files = [sqlite3.connect(one.path, isolation_level=None) for one in (store, kept)]
    start = time.perf_counter()
    for db, statements in zip(files, ({_ADD_MEMORY: rows, _ADD_VERSION: versions}, {ADD_VECTOR: values}), strict=True):
        for first in range(0, ROWS, BATCH):
            db.execute("BEGIN IMMEDIATE")
            for statement, given in statements.items():
                db.executemany(statement, given[first : first + BATCH])
            db.execute("COMMIT")
    seconds = time.perf_counter() - start
    for one in (*files, store, kept):
        one.close()
    return seconds


def test_an_import_beside_bare_rows(benchmark, tmp_path):
    dice = random.Random(0)
    vectors = np.random.default_rng(0).standard_normal((ROWS, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    words = [f"word{number}" for number in range(1000)]
    memories = [
        Memory(
            id=f"m{n}",
            workspace="w",
            content=f"{n} {' '.join(dice.choices(words, k=40))}",
            created="2026-03-01T09:30:00+00:00",
            metadata={"speaker": f"s{n % 9}"} if n % 2 else {},
        )
        for n in range(ROWS)
    ]
    seconds = {_imported: [], _bare: []}
    number = itertools.count()

    def both():
        for way, taken in seconds.items():
            folder = tmp_path / f"{next(number)}"
            folder.mkdir()
            taken.append(way(folder, memories, vectors))

    benchmark.pedantic(both, rounds=ROUNDS, warmup_rounds=1)
    imported, bare = (statistics.median(seconds[way]) for way in (_imported, _bare))
    figures = {"import s": imported, "bare s": bare, "import's speed of the bare": bare / imported}
    benchmark.extra_info.update(figures)
    print("", f"{ROWS:,} memories", *(f"{name}: {value:.2f}" for name, value in figures.items()), sep="\n  ")  # noqa: T201  for who runs it
