"""Vectors on disk: one file of checked rows for each embedder identity, from the hash of a text to its vector."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from ctxbench.core.arrays import BoolArray, Float32Array
from ctxbench.embedding.embedder import EmbedderIdentity
from ctxbench.io.cache import cache_dir
from ctxbench.io.checked_rows import CheckedRows

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
        found = np.zeros(len(keys), dtype=np.bool_)
        vectors = np.zeros((len(keys), self.identity.dimensions), dtype=np.float32)
        rows = self._rows.get(keys)
        for position, key in enumerate(keys):
            value = rows.get(key)
            if value is not None:
                found[position] = True
                vectors[position] = np.frombuffer(value, dtype="<f4")
        return found, vectors

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
