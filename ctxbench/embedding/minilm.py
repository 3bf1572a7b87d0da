"""all-MiniLM-L6-v2 by onnxruntime: the default embedder."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ctxbench.core.arrays import Float32Array
from ctxbench.core.errors import ParameterError
from ctxbench.embedding.embedder import EmbedderIdentity, ModelError, OnDone, well_formed
from ctxbench.embedding.model_files import MODEL_FILE, REPOSITORY, SHA256, find_weights
from ctxbench.embedding.onnx_graph import HIDDEN, minilm_graph, read_header

MAX_PIECES = 256  # the model's published limit, [CLS] and [SEP] included
_WINDOW = 512  # texts that are tokenised, sorted by length and computed before the next ones are looked at
_CALL_PIECES = 256  # word pieces a call: more gain nothing and cost memory

_Batch: TypeAlias = tuple[list[int], list[list[int]]]  # positions of texts, and their word pieces, of equal number


class MiniLM:
    """all-MiniLM-L6-v2 in full precision, mean over word pieces, unit length, at most 256 word pieces a text.

    The files are looked for, checked and loaded at the first text. Texts are computed in calls of texts with equal
    numbers of word pieces, so nothing is padded and nothing masked; every operator of the graph treats its rows one
    by one, so a vector has the same bits in any company. Calls run in parallel on threads of their own, each
    calculated by one thread, so the number of threads cannot change a bit either. Both are held by tests.

    Args:
        weights: folder with `model.safetensors` and `tokenizer.json`; None: see `find_weights`.
        threads: calls at a time, >= 1; None: as many as there are processors for this process.
    """

    identity = EmbedderIdentity(
        model=REPOSITORY,
        revision=SHA256[MODEL_FILE][:12],
        backend="onnxruntime-graph1",  # counts up when graph.py or the pooling below changes a vector
        quantisation="float32",
        dimensions=HIDDEN,
    )

    def __init__(self, weights: Path | None = None, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise ParameterError(f"threads must be at least 1, got {threads}")
        self._weights = weights
        self._threads = threads or _processors()
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def embed(self, texts: Sequence[str], *, on_done: OnDone | None = None) -> Float32Array:
        """Embed texts; see `Embedder.embed`. Lone surrogates count as U+FFFD."""
        vectors = np.empty((len(texts), HIDDEN), dtype=np.float32)
        for start in range(0, len(texts), _WINDOW):
            window = texts[start : start + _WINDOW]
            for positions, rows in self._computed(window):
                for position, row in zip(positions, rows, strict=True):
                    vectors[start + position] = row
                    if on_done is not None:
                        on_done(start + position, vectors[start + position])
        return vectors

    def _computed(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Float32Array]]:
        """Yield (positions, vectors) as calls finish."""
        session, tokenizer = self._load()
        pieces = [encoding.ids for encoding in tokenizer.encode_batch([well_formed(text) for text in texts])]
        batches = _batches(pieces)
        if len(batches) == 1 or self._threads == 1:
            for positions, ids in batches:
                yield positions, _run(session, ids)
            return
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="ctxbench-embed")
        try:
            futures = {pool.submit(_run, session, ids): positions for positions, ids in batches}
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _load(self) -> tuple[Any, Any]:
        """Return (session, tokenizer), loading them the first time."""
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._weights)
            return self._loaded


def _processors() -> int:
    """Processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # where the system has it
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _batches(pieces: Sequence[Sequence[int]]) -> list[_Batch]:
    """Group texts of equal length into calls, longest first so that no thread is left with a long one at the end."""
    batches: list[_Batch] = []
    for position in sorted(range(len(pieces)), key=lambda p: (-len(pieces[p]), p)):
        ids = list(pieces[position])
        if batches:
            positions, rows = batches[-1]
            if len(rows[0]) == len(ids) and (len(rows) + 1) * len(ids) <= _CALL_PIECES:
                positions.append(position)
                rows.append(ids)
                continue
        batches.append(([position], [ids]))
    return batches


def _run(session: Any, ids: list[list[int]]) -> Float32Array:
    """Vectors of texts of one length.

    Mean and length are taken text by text in here and not in the graph: onnxruntime's ReduceMean adds up in another
    order for a batch than for one text.
    """
    (hidden,) = session.run(None, {"ids": np.array(ids, dtype=np.int64)})
    vectors = np.empty((len(ids), HIDDEN), dtype=np.float32)
    for position, states in enumerate(hidden):
        total = states.sum(axis=0).astype(np.float64)
        vectors[position] = total / np.sqrt(np.add.reduce(total * total))
    return vectors


def _load(folder: Path | None) -> tuple[Any, Any]:
    """Find and check the files; return (session, tokenizer)."""
    weights = find_weights(folder)
    import onnxruntime
    from tokenizers import Tokenizer

    onnxruntime.disable_telemetry_events()  # its Windows builds report use
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised; they need not be printed as well
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # The graph says what is fused; left to itself, onnxruntime would fuse additions into a slower operator.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    # The graph names the weights file by its bare name; onnxruntime maps it into memory from this folder.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(weights.model.parent))
    graph = minilm_graph(read_header(weights.model), location=weights.model.name)
    try:
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelError(f"onnxruntime {onnxruntime.__version__} cannot load {weights.model}: {error}") from error
    tokenizer = Tokenizer.from_file(str(weights.tokenizer))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_PIECES)
    return session, tokenizer
