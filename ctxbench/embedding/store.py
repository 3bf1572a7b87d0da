"""Vectors on disk: one SQLite file for each embedder identity, from the hash of a text to its vector.

SQLite with its rollback journal, and every batch one transaction: a process may be killed at any moment and the
file holds all batches that were committed and nothing of the one that was not; several processes take turns. Not
the write-ahead log, which cannot be read in a folder that cannot be written.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from ctxbench.arrays import BoolArray, Float32Array
from ctxbench.cache import cache_dir
from ctxbench.embedding.base import EmbedderIdentity
from ctxbench.errors import StorageError

_FORMAT = 1
_BUSY_SECONDS = 60.0  # how long to wait for another process's transaction, which takes some milliseconds
_LOOK_UP = 500  # hashes a statement, below SQLite's oldest limit of 999 variables
_PAGE = 16384  # bytes; ten vectors of 384 numbers on a page and little left over
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
        identity: whose vectors; a file that holds another's is refused.
        root: folder of all vector stores; None: `vectors` in the cache folder (`ctxbench.cache.cache_dir`).
    """

    def __init__(self, identity: EmbedderIdentity, root: Path | None = None) -> None:
        self._process = 0
        self.identity = identity
        self.path = (root or cache_dir() / "vectors") / identity.key / "vectors.sqlite"
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._inherited: sqlite3.Connection | None = None
        self._writable = True

    @property
    def writable(self) -> bool:
        """Whether `add` can store anything. A file in a read-only place can still be read."""
        self._open()
        return self._writable

    def look_up(self, texts: Sequence[str]) -> tuple[BoolArray, Float32Array]:
        """Find the vectors of texts.

        Args:
            texts: any number; may repeat.

        Returns:
            Which are there, shape (n_texts,), and their vectors, shape (n_texts, dimensions), zero where they are not.

        Raises:
            StorageError: the file is damaged, another's, or stays locked.
        """
        keys = [text_hash(text) for text in texts]
        found = np.zeros(len(keys), dtype=np.bool_)
        vectors = np.zeros((len(keys), self.identity.dimensions), dtype=np.float32)
        rows = self._read(list(dict.fromkeys(keys)))
        for position, key in enumerate(keys):
            blob = rows.get(key)
            if blob is not None:
                found[position] = True
                vectors[position] = np.frombuffer(blob, dtype="<f4")
        self._check(vectors[found])
        return found, vectors

    def add(self, texts: Sequence[str], vectors: Float32Array) -> None:
        """Store vectors in one transaction: all of them or, whatever happens, none. Texts that are there stay.

        Args:
            texts: the texts.
            vectors: shape (n_texts, dimensions), finite, of unit length.

        Raises:
            StorageError: the disk is full, the place cannot be written, or the file is damaged or stays locked.
            ValueError: `vectors` are not what they should be.
        """
        if vectors.shape != (len(texts), self.identity.dimensions):
            raise ValueError(f"expected shape {(len(texts), self.identity.dimensions)}, got {vectors.shape}")
        if not _unit(vectors):
            raise ValueError("vectors must be finite and of unit length")
        data = np.ascontiguousarray(vectors, dtype="<f4")
        rows = [(text_hash(text), row.tobytes()) for text, row in zip(texts, data, strict=True)]
        with self._lock, self._faults("written"):
            connection = self._open()
            if not self._writable:
                raise StorageError(
                    f"{self.path} cannot be written; free its folder, or choose another cache folder (CTXBENCH_CACHE)"
                )
            with _transaction(connection):
                connection.executemany("INSERT OR IGNORE INTO vectors (hash, vector) VALUES (?, ?)", rows)

    def __len__(self) -> int:
        with self._lock, self._faults("read"):
            connection = self._open()
            return int(connection.execute("SELECT count(*) FROM vectors").fetchone()[0])

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._process == os.getpid():  # a connection that was inherited by a fork must not be closed
            self.close()

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        rows: dict[bytes, bytes] = {}
        with self._lock, self._faults("read"):
            connection = self._open()
            for start in range(0, len(keys), _LOOK_UP):
                part = keys[start : start + _LOOK_UP]
                marks = ",".join("?" * len(part))
                query = f"SELECT hash, vector FROM vectors WHERE hash IN ({marks})"  # noqa: S608  only question marks
                rows.update(connection.execute(query, part))
        if any(len(blob) != 4 * self.identity.dimensions for blob in rows.values()):
            raise StorageError(self._damaged("a vector of the wrong length"))
        return rows

    def _check(self, vectors: Float32Array) -> None:
        if not _unit(vectors):
            raise StorageError(self._damaged("a vector that is not finite or not of unit length"))

    def _open(self) -> sqlite3.Connection:
        """Return this process's connection, opening and checking the file the first time."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                return self._connection
            # SQLite forbids the use, and closing, of a connection that was inherited by a fork.
            self._inherited, self._connection = self._connection, None
            with self._faults("opened"):
                connection = self._connect()
                try:
                    self._prepare(connection)
                except BaseException:
                    connection.close()
                    raise
            self._connection, self._process = connection, os.getpid()
            return connection

    def _connect(self) -> sqlite3.Connection:
        folder = self.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise StorageError(f"the folder {folder} for vectors cannot be made: {error.strerror}") from error
        self._writable = all(os.access(place, os.W_OK) for place in (folder, self.path) if place.exists())
        self._writable = self._writable and folder.exists()
        if self._writable:
            return _connected(self.path.absolute().as_uri())
        if self.path.exists():
            reader = _connected(f"{self.path.absolute().as_uri()}?mode=ro")
            with contextlib.ExitStack() as closing:
                closing.callback(reader.close)
                if _has_tables(reader):
                    closing.pop_all()
                    return reader
        return _connected("file:?mode=memory")  # nothing there and nothing can be put there: an empty store

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the tables where there are none; refuse a file of another format or another embedder."""
        expected = {"format": str(_FORMAT), "identity": json.dumps(self.identity.as_dict(), sort_keys=True)}
        if not _has_tables(connection):
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            with _transaction(connection):
                connection.execute("CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS vectors (hash BLOB NOT NULL UNIQUE, vector BLOB NOT NULL)"
                )
                connection.executemany("INSERT OR IGNORE INTO meta VALUES (?, ?)", expected.items())
        stored = dict(connection.execute("SELECT name, value FROM meta"))
        if stored != expected:
            raise StorageError(
                f"{self.path} holds other vectors than expected: it says {stored}, expected {expected}. "
                "Move it away or delete it; what it held for this embedder will be made again"
            )

    def _damaged(self, why: str) -> str:
        return f"{self.path} is damaged ({why}). Delete it: it is a cache, the vectors will be made again"

    @contextlib.contextmanager
    def _faults(self, action: str) -> Iterator[None]:
        """Say what SQLite's errors mean for the user."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the kind, the rest detail
            if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                message = self._damaged(str(error))
            elif code == sqlite3.SQLITE_FULL:
                message = (
                    f"no room for vectors in {self.path}: {error}. Free some and run again; what was stored is kept"
                )
            elif code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                message = (
                    f"{self.path} was kept locked by another process for {_BUSY_SECONDS:.0f} s; "
                    "end that process, or choose another cache folder (CTXBENCH_CACHE)"
                )
            elif not self._writable and self.path.with_name(f"{self.path.name}-journal").exists():
                message = (
                    f"{self.path} holds half a batch of a process that was killed, which cannot be undone without "
                    "writing. Open it once where it can be written, or choose another cache folder (CTXBENCH_CACHE)"
                )
            else:
                message = (
                    f"{self.path} could not be {action}: {error}. Check its folder, "
                    "or choose another cache folder (CTXBENCH_CACHE)"
                )
            raise StorageError(message) from error


def _connected(target: str) -> sqlite3.Connection:
    return sqlite3.connect(target, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _has_tables(connection: sqlite3.Connection) -> bool:
    """Not so in an empty file, as left by a process that was killed while it made the store."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is not None


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Take the write lock at once, commit at the end, roll back on any error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself rolls back on some errors
            connection.execute("ROLLBACK")
        raise


def text_hash(text: str) -> bytes:
    """SHA-256 of the text in UTF-8, lone surrogates encoded as they are."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _unit(vectors: Float32Array) -> bool:
    """Whether all rows are of unit length, which NaN and infinity are not."""
    squares = np.einsum("ij,ij->i", vectors, vectors)
    return bool(np.all(np.abs(squares - 1.0) <= UNIT_TOLERANCE))
