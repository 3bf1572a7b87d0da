"""Speed of the default embedder and of the store. Run with `pytest tests/benchmarks --benchmark-only -s`.

The comparison with sentence-transformers is one test that takes both in turns, since machines change their speed
within a minute; it prints and stores figures and asserts only that the vectors agree.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ctxbench.search.embedders import EmbedderIdentity, VectorStore
from ctxbench.search.minilm import MiniLM, find_weights

THREADS = 2
ROUNDS = 5
LAYERS, HIDDEN, INNER = 6, 384, 1536
DESK = Path(__file__).parents[1] / "fixtures" / "desk"


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def texts():
    """The texts of a file (`CTXBENCH_BENCHMARK_TEXTS`, a JSON list), else those of the desk data."""
    file = os.environ.get("CTXBENCH_BENCHMARK_TEXTS") or DESK / "embedding_texts.json"
    return json.loads(Path(file).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def minilm():
    embedder = MiniLM(threads=THREADS)
    embedder.embed(["load"])
    return embedder


def _operations(pieces: np.ndarray) -> float:
    """Additions and multiplications of the matrix products: 2 x weights a piece, and attention's two products."""
    return float(2 * LAYERS * (pieces * (4 * HIDDEN**2 + 2 * HIDDEN * INNER) + 2 * pieces**2 * HIDDEN).sum())


def _numpy_rate() -> float:
    """GFLOP/s of numpy's product in the shape of the widest layer, over 512 word pieces."""
    left, right = (np.ones(shape, dtype=np.float32) for shape in ((512, HIDDEN), (HIDDEN, INNER)))
    times = []
    for _ in range(50):
        start = time.perf_counter()
        left @ right
        times.append(time.perf_counter() - start)
    return 2 * 512 * HIDDEN * INNER / statistics.median(times) / 1e9


def _timed(function, *arguments):
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


def test_beside_sentence_transformers(benchmark, texts, minilm):
    torch = pytest.importorskip("torch", reason="needs the extra")
    sentence_transformers = pytest.importorskip("sentence_transformers", reason="needs the extra")
    torch.set_num_threads(THREADS)
    theirs = sentence_transformers.SentenceTransformer(str(find_weights().model.parent), device="cpu")
    encoded = minilm._load()[1].encode_batch(texts)
    pieces = np.array([len(encoding.ids) for encoding in encoded])

    def encode():
        return theirs.encode(texts, normalize_embeddings=True, show_progress_bar=False)

    encode()
    ours_times, theirs_times, cosine = [], [], 1.0

    def turn():
        nonlocal cosine
        gc.collect()
        ours, our_vectors = _timed(minilm.embed, texts)
        seconds, their_vectors = _timed(encode)
        ours_times.append(ours)
        theirs_times.append(seconds)
        cosine = min(cosine, float((our_vectors * their_vectors).sum(axis=1).min()))

    benchmark.pedantic(turn, rounds=ROUNDS, iterations=1)
    ours, other = statistics.median(ours_times), statistics.median(theirs_times)
    figures = {
        "texts": len(texts),
        "word pieces": int(pieces.sum()),
        "ctxbench s": round(ours, 3),
        "sentence-transformers s": round(other, 3),
        "ratio of medians": round(other / ours, 2),
        "smallest ratio of a round": round(min(b / a for a, b in zip(ours_times, theirs_times, strict=True)), 2),
        "smallest cosine": cosine,
        "GFLOP/s": round(_operations(pieces) / ours / 1e9),
        "numpy product GFLOP/s": round(_numpy_rate()),
    }
    benchmark.extra_info.update(figures)
    print("", *(f"{name}: {value}" for name, value in figures.items()), sep="\n  ")  # noqa: T201  figures for who runs it with -s
    assert cosine >= 0.9999


def test_embedding(benchmark, texts, minilm):
    benchmark.pedantic(minilm.embed, args=(texts,), rounds=ROUNDS, warmup_rounds=1)


def test_one_query(benchmark, minilm):
    benchmark.pedantic(minilm.embed, args=(["where are the logs of the last deployment?"],), rounds=20, warmup_rounds=2)


def test_first_vector_in_a_fresh_process(benchmark):
    script = "from ctxbench.search.embedders import open_embedder; open_embedder().embed(['where are the logs?'])"
    command = [sys.executable, "-c", script]
    subprocess.run(command, check=True, timeout=120)  # the weights' hash is checked here, once
    benchmark.pedantic(subprocess.run, args=(command,), kwargs={"check": True}, rounds=ROUNDS)


def test_ten_thousand_look_ups(benchmark, tmp_path):
    store = VectorStore(EmbedderIdentity("random", "1", "test", "float32", 384), tmp_path)
    vectors = np.random.default_rng(0).normal(size=(10_000, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    keys = [f"text {number}" for number in range(10_000)]
    store.add(keys, vectors)
    found, _ = benchmark.pedantic(store.look_up, args=(keys,), rounds=ROUNDS, warmup_rounds=1)
    store.close()
    assert found.all()
