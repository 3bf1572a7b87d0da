"""Processes killed while they fill a store: what was committed is there, and the end is the same bytes."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from ctxbench.search.embedders import Vectors, VectorStore
from ctxbench.search.minilm import MiniLM
from tests.children import child
from tests.draws import draws

_FILL = """
import json, sys
from pathlib import Path
from ctxbench.search.minilm import MiniLM
from ctxbench.search import embedders as module
from ctxbench.search.embedders import VectorStore
module.COMMIT_TEXTS = 8  # more commits, more moments at which a kill can do harm
texts = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
embedder = MiniLM(threads=2)
store = VectorStore(embedder.identity, Path(sys.argv[1]))
vectors = module.Vectors(embedder, store, progress=lambda done, total: print(done, flush=True))
print("from", len(store), flush=True)
vectors.get(texts)
print("embedded", vectors.stats.embedded, flush=True)
"""


def _fill_and_kill(root, texts_file, seconds):
    """Fill the store for some seconds, then SIGKILL; what the process had said, in lines."""
    with child([sys.executable, "-c", _FILL, str(root), str(texts_file)], stdout=subprocess.PIPE, text=True) as process:
        time.sleep(seconds)
        process.kill()
        return process.stdout.read().split("\n")[:-1]


def _count(store):
    if not store.path.exists():
        return 0
    connection = sqlite3.connect(store.path)
    try:
        tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'vectors'").fetchone()[0]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return connection.execute("SELECT count(*) FROM vectors").fetchone()[0] if tables else 0
    finally:
        connection.close()


def test_a_killed_process_loses_nothing_that_was_committed(minilm, desk_texts, tmp_path):
    kills = draws(24, 8)
    moments = random.Random(kills)
    texts_file = Path(__file__).parents[1] / "fixtures" / "desk" / "embedding_texts.json"
    expected = minilm.embed(desk_texts).tobytes()
    fills = 0
    held = 0
    root = tmp_path / "fill-0"
    for _ in range(kills):
        lines = _fill_and_kill(root, texts_file, moments.uniform(0.1, 1.2))
        store = VectorStore(minilm.identity, root)
        said = [int(line) for line in lines if line.isdigit()]
        now = _count(store)
        assert now >= held + (said[-1] if said else 0)  # what was reported stored is stored, and what was there before
        found, vectors = store.look_up(desk_texts)
        store.close()
        assert found.sum() == now
        complete = np.frombuffer(expected, dtype=np.float32).reshape(vectors.shape)
        assert vectors[found].tobytes() == complete[found].tobytes()
        held = now
        if now == len(desk_texts):
            fills += 1
            held = 0
            root = tmp_path / f"fill-{fills}"
    store = VectorStore(minilm.identity, root)
    rest = Vectors(MiniLM(threads=1), store)
    assert rest.get(desk_texts).tobytes() == expected
    assert rest.stats.embedded == len(desk_texts) - held  # nothing that was there is made again
    store.close()
