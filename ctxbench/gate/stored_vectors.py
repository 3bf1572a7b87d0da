"""Vectors and token counts from a baseline, so that unchanged texts need neither a model nor a cache.

In `vectors.npz`, rows stand in the order of the hashes of their texts, uncompressed: float32 numbers hardly shrink, and
so git keeps a changed file as its difference. The same vectors give the same bytes.
"""

from __future__ import annotations

import io
import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import BoolArray, Float32Array, IntArray
from ctxbench.core.candidates import MARGIN
from ctxbench.core.errors import InputError, StorageError
from ctxbench.embedding.embedder import Embedder, EmbedderIdentity, ModelError
from ctxbench.embedding.vectors import UNIT_TOLERANCE, Store, Vectors, VectorStore, text_hash
from ctxbench.gate.baseline_layout import MANIFEST, VECTORS, accept_command, file_hash
from ctxbench.gate.baseline_reader import read_manifest
from ctxbench.gate.snapshots import SelectorSnapshot, content_hash
from ctxbench.index.resources import LocalResources
from ctxbench.io.files import read_bytes
from ctxbench.io.json_files import dump_json
from ctxbench.text.tokens import TokenCounter

if TYPE_CHECKING:
    from ctxbench.bench.prepared import Prepared  # slow to import


_FORMAT = 1
_HASH = 32  # bytes
_DATE = (1980, 1, 1, 0, 0, 0)  # of every file in the archive
_LFS = b"version https://git-lfs"
_LONGEST_META = 4096  # bytes; some hundred are usual
_LOCKED = 1  # of a member's flags
_HEADER = re.compile(  # numpy.lib.format, version 1.0
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<kind>[|<>][uif][1248])', 'fortran_order': False, "
    rb"'shape': \((?P<shape>[0-9]{1,10},(?: [0-9]{1,10})?)\), \} *\n",
    re.DOTALL,
)
# Whatever `zipfile` raises for bytes that are no archive, or not one of this form; `json` for nesting.
_DAMAGE = (
    BadZipFile,
    OSError,
    EOFError,
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    RuntimeError,
    struct.error,
)


@dataclass(frozen=True, eq=False)
class StoredVectors:
    """The vectors of a baseline, by the hash of their text.

    Attributes:
        embedder: key of the identity of who made them.
        rows: by hash of the text, the row in `vectors`.
        vectors: shape (n_texts, dimensions), unit length.
    """

    embedder: str
    rows: Mapping[bytes, int]
    vectors: Float32Array

    def __len__(self) -> int:
        return len(self.rows)

    def look_up(self, texts: Sequence[str]) -> tuple[BoolArray, Float32Array]:
        """Which texts are there, shape (n_texts,), and their vectors, shape (n_texts, dimensions), else zero."""
        rows = np.array([self.rows.get(text_hash(text), -1) for text in texts], dtype=np.int64)
        is_stored = rows >= 0
        vectors = np.zeros((len(texts), self.vectors.shape[1]), dtype=np.float32)
        vectors[is_stored] = self.vectors[rows[is_stored]]
        return is_stored, vectors


class BaselineStore(VectorStore):
    """The vectors of a baseline over this machine's store, which is opened only for texts that the baseline lacks.

    Args:
        first: of the baseline.
        identity: of the embedder, whose vectors this machine's store holds; new ones go there.

    Raises:
        ValueError: the two are of different embedders, or of vectors of different lengths.
    """

    def __init__(self, first: StoredVectors, identity: EmbedderIdentity) -> None:
        super().__init__(identity)
        lengths = first.vectors.shape[1], identity.dimensions
        if first.embedder != identity.key or lengths[0] != lengths[1]:
            of = f"{first.embedder} ({lengths[0]} numbers)"
            raise ValueError(f"vectors of {of} cannot stand over those of {identity.key} ({lengths[1]} numbers)")
        self._first = first

    def look_up(self, texts: Sequence[str]) -> tuple[BoolArray, Float32Array]:
        """See `Store.look_up`."""
        is_stored, vectors = self._first.look_up(texts)
        if missing := np.flatnonzero(~is_stored).tolist():
            is_stored[missing], vectors[missing] = super().look_up([texts[index] for index in missing])
        return is_stored, vectors


class GateVectors(Vectors):
    """Vectors that keep those asked for, and explain what to do where a text is new and no model is there.

    Args:
        embedder, store, progress: as for `Vectors`.
        missing_reason: why a baseline has no vector of a text, for messages.
        last: vectors to take where neither the store nor the model has any.
    """

    def __init__(
        self,
        embedder: Embedder,
        store: Store,
        *,
        missing_reason: str,
        last: StoredVectors | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        super().__init__(embedder, store, progress=progress)
        self.vectors_by_text: dict[str, Float32Array] = {}
        self._missing_reason = missing_reason
        self._last = last

    def get(self, texts: Sequence[str]) -> Float32Array:
        """See `Vectors.get`."""
        try:
            vectors = super().get(texts)
        except ModelError as error:
            if self._last is not None:
                last, self._last = self._last, None
                self._memory.update((key, last.vectors[row]) for key, row in last.rows.items())
                return self.get(texts)
            distinct = list(dict.fromkeys(texts))
            new = len(distinct) - int(self._look_up(distinct)[0].sum())
            raise ModelError(
                f"{new} text{'s have' if new > 1 else ' has'} no vector ({self._missing_reason}), "
                f"and the model that would make them cannot be used: {error}. "
                f"Write the vectors on a machine that has the model ({accept_command('--vectors')}) and commit them, "
                "or install the model here"
            ) from error
        self.vectors_by_text.update(zip(texts, vectors, strict=True))
        return vectors


class GateResources(LocalResources):
    """The resources of a check: vectors and token counts.

    Attributes:
        vectors_by_text: the vectors that were asked for so far: what `write_baseline` stores.
    """

    def __init__(self, vectors: GateVectors, counter: TokenCounter) -> None:
        super().__init__(vectors, counter)
        self.vectors_by_text: Mapping[str, Float32Array] = vectors.vectors_by_text


def gate_resources(
    prepared: Prepared,
    folder: Path,
    *,
    accepting: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> GateResources:
    """Make resources whose vectors come from a baseline, then from this machine's store, then from the model.

    Where a baseline is accepted, they come from this machine's store or the model, and from the baseline so far only
    where neither is there: vectors that someone else put there would else stay unnoticed.

    Vectors of another model than the experiment's are not used: a model is under test like anything else.

    Args:
        prepared: the experiment.
        folder: of the baseline; neither it nor vectors in it need be there.
        accepting: the baseline is about to be written anew: its vectors come last, and are passed over where they
            cannot be used.
        progress: as for `Vectors`.

    Raises:
        StorageError: the vectors are damaged, or not those that were accepted.
        InputError: `baseline.json` beside them is damaged.
    """
    local_store = VectorStore(prepared.embedder.identity)
    stored = _usable_vectors(folder, local_store.identity, accepting=accepting)
    store: Store = local_store
    last: StoredVectors | None = None
    if stored is None:
        missing_reason = f"{folder} has no {VECTORS}"
    elif stored.embedder != local_store.identity.key:
        missing_reason = (
            f"{folder / VECTORS} is of {stored.embedder}, the experiment's model is {local_store.identity.key}"
        )
    else:
        store, last = (local_store, stored) if accepting else (BaselineStore(stored, local_store.identity), None)
        missing_reason = f"new since {folder / VECTORS} was written"
    vectors = GateVectors(prepared.embedder, store, missing_reason=missing_reason, last=last, progress=progress)
    return GateResources(vectors, prepared.counter)


def _usable_vectors(folder: Path, identity: EmbedderIdentity, *, accepting: bool) -> StoredVectors | None:
    path = folder / VECTORS
    if not path.exists():
        return None
    try:
        stored = accepted_vectors(folder)
        length = stored.vectors.shape[1]
        if stored.embedder == identity.key and length != identity.dimensions:
            raise damaged(path, f"vectors of {length} numbers, the model's have {identity.dimensions}")
    except (StorageError, InputError):
        if accepting:
            return None
        raise
    return stored


def accepted_vectors(folder: Path) -> StoredVectors:
    """The vectors of a baseline, which must be those that were accepted with it.

    Args:
        folder: of the baseline, with a file of vectors.

    Raises:
        StorageError: they are damaged, or others than those whose hash `baseline.json` has.
        InputError: `baseline.json` is damaged.
    """
    path = folder / VECTORS
    stored = read_vectors(path)
    if read_manifest(folder).get("vectors") != file_hash(read_bytes(path)):
        message = f"{path} is not the file that was accepted: {MANIFEST} has another hash of it, or none"
        raise StorageError(f"{message}; bring both back from git, or accept again ({accept_command('--vectors')})")
    return stored


class BaselineCounter:
    """A token counter that counts only what has no count in a baseline.

    Args:
        counter: counts the rest.
        counts: tokens by (item id, hash of its prompt text), by this counter.
    """

    def __init__(self, counter: TokenCounter, counts: Mapping[tuple[str, str], int]) -> None:
        self.name = counter.name
        self._counter = counter
        self._counts = counts

    def count(self, ids: Sequence[str], texts: Sequence[str]) -> IntArray:
        """Count; see `TokenCounter.count`."""
        if len(ids) != len(texts):
            raise ValueError(f"as many ids as texts are needed, got {len(ids)} and {len(texts)}")
        stored_counts = [
            self._counts.get((name, content_hash(text)), -1) for name, text in zip(ids, texts, strict=True)
        ]
        counts = np.array(stored_counts, dtype=np.int64)
        if missing := np.flatnonzero(counts < 0).tolist():
            counts[missing] = self._counter.count(
                [ids[index] for index in missing], [texts[index] for index in missing]
            )
        return counts


def baseline_counts(snapshots: Iterable[SelectorSnapshot]) -> Callable[[TokenCounter], TokenCounter]:
    """Make the argument `counting` of `prepare`: a counter that takes counts of items from the baseline."""
    by_counter: dict[str, dict[tuple[str, str], int]] = {}
    for snapshot in snapshots:
        counts = by_counter.setdefault(snapshot.identity.tokens, {})
        counts.update(((item.id, item.prompt), item.tokens) for item in snapshot.all_items.values() if item.prompt)

    def counting(counter: TokenCounter) -> TokenCounter:
        counts = by_counter.get(counter.name)
        return BaselineCounter(counter, counts) if counts else counter

    return counting


def read_vectors(path: Path) -> StoredVectors:
    """Read the vectors of a baseline.

    Raises:
        StorageError: the file is missing, damaged or of another format.
    """
    return _from_bytes(read_bytes(path), path)


def vectors_bytes(vectors: Mapping[str, Float32Array], embedder: str, before: bytes | None = None) -> bytes:
    """Vectors as the bytes of a file.

    Args:
        vectors: by text, at least one, each of shape (dimensions,), of unit length, all equally long.
        embedder: key of the identity of who made them.
        before: the file so far: a vector that is no further from the one there than `MARGIN` stays as it stands, for
            then no score moves by more.
    """
    stored = None
    with suppress(StorageError):  # a damaged file is written anew
        stored = None if before is None else _from_bytes(before, Path())
    by_hash = {text_hash(text): np.asarray(vector, dtype="<f4") for text, vector in vectors.items()}
    if stored is not None and stored.embedder == embedder:
        for key, vector in by_hash.items():
            if key in stored.rows and len(vector) == stored.vectors.shape[1]:
                old = stored.vectors[stored.rows[key]]
                by_hash[key] = old if float(np.linalg.norm(vector - old)) <= MARGIN else vector
    keys = sorted(by_hash)
    meta = dump_json({"format": _FORMAT, "embedder": embedder}).encode()
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "meta": np.frombuffer(meta, dtype=np.uint8),
        "hashes": np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), _HASH),
        "vectors": np.array([by_hash[key] for key in keys], dtype="<f4").reshape(len(keys), -1),
    }
    stream = io.BytesIO()
    with ZipFile(stream, "w", ZIP_STORED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            archive.writestr(ZipInfo(f"{name}.npy", date_time=_DATE), content.getvalue())
    return stream.getvalue()


def damaged(path: Path, wrong: str) -> StorageError:
    """The error for a file of vectors that cannot be used."""
    how = f"bring it back from git, or write it again ({accept_command('--vectors')})"
    return StorageError(f"{path} is damaged or of another version ({wrong}); {how}")


def _from_bytes(data: bytes, path: Path) -> StoredVectors:
    if data.startswith(_LFS):
        raise StorageError(f"{path} is a pointer of Git LFS and not the file itself; fetch it with `git lfs pull`")
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            meta = json.loads(_read_array(archive, "meta", "|u1", at_most=_LONGEST_META).tobytes())
            hashes, vectors = _read_array(archive, "hashes", "|u1"), _read_array(archive, "vectors", "<f4")
        wrong = _content_fault(meta, hashes, vectors)
    except _DAMAGE as error:
        wrong = str(error) or type(error).__name__
    if wrong:
        raise damaged(path, wrong)
    keys = hashes.tobytes()
    rows = {keys[_HASH * row : _HASH * (row + 1)]: row for row in range(len(hashes))}
    return StoredVectors(meta["embedder"], rows, vectors)


def _read_array(archive: ZipFile, name: str, kind: str, *, at_most: int | None = None) -> npt.NDArray[Any]:
    """Read one array of the archive, which must not be compressed.

    Raises:
        ValueError: it is packed, locked, too long, no array, or of another kind or size than it says.
    """
    about = archive.getinfo(f"{name}.npy")
    if about.compress_type != ZIP_STORED or about.flag_bits & _LOCKED or about.file_size != about.compress_size:
        raise ValueError(f"{name} is compressed or encrypted, and is stored as it is by ctxbench")
    if at_most is not None and about.file_size > at_most:
        raise ValueError(f"{name} takes {about.file_size} bytes, at most {at_most} are expected")
    content = archive.read(about)
    head = _HEADER.match(content)
    if head is None:
        raise ValueError(f"{name} is no array of one or two dimensions")
    if head["kind"].decode() != kind:
        raise ValueError(f"{name} are {np.dtype(head['kind'].decode())}, expected {np.dtype(kind)}")
    shape = [int(size) for size in head["shape"].decode().split(",") if size.strip()]
    if math.prod(shape) * np.dtype(kind).itemsize != len(content) - head.end():
        raise ValueError(f"{name} say that they are of shape {tuple(shape)}, which {len(content)} bytes do not hold")
    return np.frombuffer(content, dtype=kind, offset=head.end()).reshape(shape)


def _content_fault(meta: object, hashes: npt.NDArray[np.uint8], vectors: Float32Array) -> str:
    """What is wrong with the content; empty if nothing is."""
    if not isinstance(meta, dict) or meta.get("format") != _FORMAT or not isinstance(meta.get("embedder"), str):
        return f"expected format {_FORMAT} and the key of an embedder"
    if not len(hashes) or hashes.shape != (len(vectors), _HASH) or vectors.ndim != 2:
        return f"hashes of shape {hashes.shape} do not fit vectors of shape {vectors.shape}"
    squares = np.einsum("ij,ij->i", vectors, vectors)
    return "" if np.all(np.abs(squares - 1.0) <= UNIT_TOLERANCE) else "a vector is not finite or not of unit length"
