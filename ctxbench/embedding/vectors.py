"""Vectors of texts: looked up in a store, a file of checked rows an embedder, and made only where they are missing."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self, TypeAlias

import numpy as np

from ctxbench.core.arrays import BoolArray, Float32Array
from ctxbench.core.errors import EmbeddingError, StorageError
from ctxbench.embedding.embedder import Embedder, EmbedderIdentity, ModelError
from ctxbench.io.cache import cache_dir
from ctxbench.io.checked_rows import CheckedRows

COMMIT_TEXTS = 64
COMMIT_SECONDS = 1.0

_Commit: TypeAlias = Callable[[Sequence[str], Float32Array, int, int], None]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VectorStats:
    """What was done so far.

    Attributes:
        embedded: texts that were embedded.
        loaded: distinct texts of calls that were there already.
        unsaved: embedded texts that could not be stored because the store cannot be written.
    """

    embedded: int = 0
    loaded: int = 0
    unsaved: int = 0

    def __add__(self, other: VectorStats) -> VectorStats:
        return VectorStats(self.embedded + other.embedded, self.loaded + other.loaded, self.unsaved + other.unsaved)


def open_vectors(embedder: Embedder, *, progress: Callable[[int, int], None] | None = None) -> Vectors:
    """Vectors over the store of this machine, or over an embedder's own; see `Vectors`. No model is loaded."""
    store: Store | None = getattr(embedder, "store", None)
    return Vectors(embedder, VectorStore(embedder.identity) if store is None else store, progress=progress)


class Vectors:
    """Vectors of texts by one embedder, each text embedded once.

    Vectors are stored while they are made, at least every 64 texts or every second, so that a process that is killed
    loses no more than that. Where there is no store, or one that cannot be written, they are kept in memory. One
    thread at a time.

    Args:
        embedder: makes what is missing; not asked, and so not loaded, where nothing is.
        store: where vectors are kept; None: in memory only.
        progress: called with (texts embedded, texts to embed) of the present call, after each commit.

    Raises:
        ValueError: the store is another embedder's.
    """

    def __init__(
        self,
        embedder: Embedder,
        store: Store | None,
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        if store is not None and store.identity != embedder.identity:
            raise ValueError(f"a store of {store.identity} cannot hold vectors of {embedder.identity}")
        self._embedder = embedder
        self._store = store
        self.progress = progress
        self._memory: dict[bytes, Float32Array] = {}
        self.stats = VectorStats()

    @property
    def identity(self) -> EmbedderIdentity:
        """Who made the vectors."""
        return self._embedder.identity

    def get(self, texts: Sequence[str]) -> Float32Array:
        """Return the vectors of texts.

        Args:
            texts: any strings; may repeat.

        Returns:
            Shape (n_texts, dimensions), in the order of `texts`, rows of unit length. No texts: shape (0, dimensions).

        Raises:
            ModelError: the model is missing or cannot be loaded, or returns more or fewer vectors than texts.
            EmbeddingError: a text could not be embedded; names it. Those embedded before it are stored.
            StorageError: the store cannot be read, or has no room.
        """
        distinct = list(dict.fromkeys(texts))
        is_stored, vectors = self._look_up(distinct)
        missing = np.flatnonzero(~is_stored)
        self._count(loaded=len(distinct) - len(missing))
        if len(missing):
            making = _Making([distinct[position] for position in missing], self._embedder, self._commit)
            vectors[missing] = making.run()
        row = {text: position for position, text in enumerate(distinct)}
        return vectors[np.array([row[text] for text in texts], dtype=np.intp)]

    def _look_up(self, texts: Sequence[str]) -> tuple[BoolArray, Float32Array]:
        if self._store is not None:
            is_stored, vectors = self._store.look_up(texts)
        else:
            is_stored = np.zeros(len(texts), dtype=np.bool_)
            vectors = np.zeros((len(texts), self.identity.dimensions), dtype=np.float32)
        if self._memory:
            for position in np.flatnonzero(~is_stored):
                vector = self._memory.get(text_hash(texts[int(position)]))
                if vector is not None:
                    is_stored[position] = True
                    vectors[position] = vector
        return is_stored, vectors

    def _commit(self, texts: Sequence[str], vectors: Float32Array, done: int, total: int) -> None:
        """Keep vectors that were made; `done` of `total` are, in the present call."""
        unsaved = 0
        if self._store is not None and self._store.writable:
            self._store.add(texts, vectors)
        else:
            self._memory.update((text_hash(text), row) for text, row in zip(texts, vectors, strict=True))
            unsaved = len(texts) if self._store is not None else 0
            if self._store is not None and unsaved and not self.stats.unsaved:
                _log.warning("%s cannot be written: new vectors are kept in memory only", self._store.path)
        self._count(embedded=len(texts), unsaved=unsaved)
        if self.progress is not None:
            self.progress(done, total)

    def _count(self, *, embedded: int = 0, loaded: int = 0, unsaved: int = 0) -> None:
        self.stats += VectorStats(embedded, loaded, unsaved)


class _Making:
    """One call's missing texts on their way to vectors, committed a few at a time."""

    def __init__(self, texts: list[str], embedder: Embedder, commit: _Commit) -> None:
        self._texts = texts
        self._embedder = embedder
        self._commit = commit
        self._vectors = np.empty((len(texts), embedder.identity.dimensions), dtype=np.float32)
        self._done = np.zeros(len(texts), dtype=np.bool_)
        self._bad: list[int] = []
        self._pending: list[int] = []
        self._committed = time.monotonic()

    def run(self) -> Float32Array:
        """Return the vectors, shape (n_texts, dimensions); all of them have been committed."""
        try:
            try:
                self._rest(range(len(self._texts)), self._embedder.embed(self._texts, on_done=self._record))
            except (ModelError, StorageError, MemoryError):
                raise
            except Exception as error:  # noqa: BLE001  an embedder may fail with anything; the text is named below
                _log.debug("embedding failed (%s); looking for the text that it fails on", error)
                self._one_by_one()
        finally:
            self._flush()
        if self._bad:
            raise self._error(min(self._bad), "its vector is not finite and of unit length")
        return self._vectors

    def _record(self, position: int, vector: Float32Array) -> None:
        """Take one vector from the embedder."""
        if vector.shape != self._vectors.shape[1:] or not abs(float(vector @ vector) - 1.0) <= UNIT_TOLERANCE:
            self._bad.append(position)
            return
        self._vectors[position] = vector
        self._done[position] = True
        self._pending.append(position)
        if len(self._pending) >= COMMIT_TEXTS or time.monotonic() - self._committed >= COMMIT_SECONDS:
            self._flush()

    def _rest(self, positions: Sequence[int], vectors: Float32Array) -> None:
        """Take the vectors that the embedder returned without having reported them.

        Raises:
            ModelError: there are more or fewer than texts, so nobody knows which is whose.
        """
        missing = [p for p in positions if not self._done[p] and p not in self._bad]
        if missing and len(vectors) != len(positions):
            raise ModelError(
                f"the embedder {self._embedder.identity.model} returned {len(vectors)} vectors for "
                f"{len(positions)} texts; it must return one for each"
            )
        for position, vector in zip(positions, vectors, strict=False):
            if not self._done[position] and position not in self._bad:
                self._record(position, vector)

    def _one_by_one(self) -> None:
        """After a failure: embed what is missing text by text, to know on which it fails."""
        for position in np.flatnonzero(~self._done):
            text = self._texts[position]
            try:
                self._rest([int(position)], self._embedder.embed([text]))
            except (ModelError, StorageError, MemoryError):
                raise
            except Exception as error:
                raise self._error(int(position), f"{type(error).__name__}: {error}") from error

    def _flush(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, []
            texts = [self._texts[position] for position in pending]
            self._commit(texts, self._vectors[pending], int(self._done.sum()), len(self._texts))
        self._committed = time.monotonic()

    def _error(self, position: int, reason: str) -> EmbeddingError:
        start = self._texts[position][:60]
        excerpt = f"{start!r}..." if len(self._texts[position]) > 60 else repr(start)
        return EmbeddingError(
            f"text {excerpt}, number {position + 1} of {len(self._texts)} to embed, could not be embedded "
            f"by {self._embedder.identity.model}: {reason}"
        )


UNIT_TOLERANCE = 1e-3  # of a squared length; float32 rounding stays below 1e-6


class Store(Protocol):
    """Where the vectors of one embedder are kept."""

    @property
    def identity(self) -> EmbedderIdentity:
        """Whose vectors."""
        ...

    @property
    def path(self) -> Path:
        """What `add` writes to, for messages."""
        ...

    @property
    def writable(self) -> bool:
        """Whether `add` can store anything."""
        ...

    def look_up(self, texts: Sequence[str]) -> tuple[BoolArray, Float32Array]:
        """Which texts are there, shape (n_texts,), and their vectors, shape (n_texts, dimensions), else zero."""
        ...

    def add(self, texts: Sequence[str], vectors: Float32Array) -> None:
        """Store vectors of shape (n_texts, dimensions), all of them or none."""
        ...


class VectorStore:
    """The vectors of one embedder, on disk. Opened at the first use; may be used from several threads.

    Args:
        identity: whose vectors; those of another are not given out.
        root: folder of all vector stores; None: `vectors` in the cache folder (`ctxbench.io.cache.cache_dir`).
    """

    def __init__(self, identity: EmbedderIdentity, root: Path | None = None) -> None:
        self.identity = identity
        # an older version has another table in vectors.sqlite
        self.path = (root or cache_dir() / "vectors") / identity.key / "vectors-2.sqlite"
        self._rows = CheckedRows(self.path, "vectors", maker=json.dumps(identity.as_dict(), sort_keys=True))

    @property
    def writable(self) -> bool:
        """Whether `add` can store anything. A file in a read-only place can still be read."""
        return self._rows.writable

    def look_up(self, texts: Sequence[str]) -> tuple[BoolArray, Float32Array]:
        """Find the vectors of texts. One that is not what was stored is not there.

        Args:
            texts: any number; may repeat.

        Returns:
            Which are there, shape (n_texts,), and their vectors, shape (n_texts, dimensions), zero where they are not.

        Raises:
            StorageError: the file stays locked, or the disk fails.
        """
        keys = [text_hash(text) for text in texts]
        is_stored = np.zeros(len(keys), dtype=np.bool_)
        vectors = np.zeros((len(keys), self.identity.dimensions), dtype=np.float32)
        rows = self._rows.get(keys)
        for position, key in enumerate(keys):
            value = rows.get(key)
            if value is not None:
                is_stored[position] = True
                vectors[position] = np.frombuffer(value, dtype="<f4")
        return is_stored, vectors

    def add(self, texts: Sequence[str], vectors: Float32Array) -> None:
        """Store vectors in one transaction: all of them or, whatever happens, none. Texts that are there stay.

        Args:
            texts: the texts.
            vectors: shape (n_texts, dimensions), finite, of unit length.

        Raises:
            StorageError: the disk is full, the place cannot be written, or the file stays locked.
            ValueError: `vectors` are not what they should be.
        """
        if vectors.shape != (len(texts), self.identity.dimensions):
            raise ValueError(f"expected shape {(len(texts), self.identity.dimensions)}, got {vectors.shape}")
        if not _unit(vectors):
            raise ValueError("vectors must be finite and of unit length")
        data = np.ascontiguousarray(vectors, dtype="<f4")
        self._rows.put({text_hash(text): row.tobytes() for text, row in zip(texts, data, strict=True)})

    def forget(self, texts: Sequence[str]) -> None:
        """Take the vectors of texts out for good, so that no file holds them; unknown texts are passed over.

        Raises:
            StorageError: the place cannot be written, or the file stays locked.
        """
        self._rows.remove(text_hash(text) for text in texts)

    def __len__(self) -> int:
        return len(self._rows)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._rows.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def text_hash(text: str) -> bytes:
    """SHA-256 of the text in UTF-8, lone surrogates encoded as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _unit(vectors: Float32Array) -> bool:
    """Whether all rows are of unit length, which NaN and infinity are not."""
    squares = np.einsum("ij,ij->i", vectors, vectors)
    return bool(np.all(np.abs(squares - 1.0) <= UNIT_TOLERANCE))
