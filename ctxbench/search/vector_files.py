"""Vectors of the chunks of a catalog: in memory, or, of a large one, in files that are read part by part.

Files are content-addressed: a folder is named after who made the vectors and a hash of the texts, and holds the exact
float32 rows, or the same rows in fewer bytes with a bound of their error. A search reads the latter first. Files are
read by position into a buffer: processes share what the system caches of them, and little counts as memory of each.
Folders are sealed: one that is damaged or half-written is made again, from the vector store.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxbench.io.cache import altered, is_sealed, seal_folder
from ctxbench.io.errors import Message, StorageError
from ctxbench.io.files import atomic_folder, exclusive, modified, read_bytes, remove
from ctxbench.model.arrays import BoolArray, Float32Array, FloatArray, IntArray, firsts
from ctxbench.model.resources import Embed

FOLDER = "matrices-1"  # beside the vector store of the same embedder
BYTES = 64_000_000  # of float32 vectors, from which they are kept in files
WHOLE = 256_000_000  # of float32 vectors, up to which their file is mapped and used as if it were in memory
MOST_FOLDERS = 8  # of one embedder; those that were not used for the longest time are removed
_ABOUT = "about.json"
_log = logging.getLogger(__name__)


class VectorFile:
    """Unit vectors in files, shape (n_rows, n_dimensions). Threads may share it.

    Attributes:
        vectors: the exact rows, float32, mapped: each that is looked at counts as memory of this process.
        error: no row that `parts` gives is further from the exact one than this, in Euclidean distance.

    Args:
        exact: the folder of float32 rows.
        compact: that of the rows that `parts` reads; may be the same.

    Raises:
        OSError, StorageError: the files cannot be read.
    """

    def __init__(self, exact: Path, compact: Path) -> None:
        about: dict[str, Any] = json.loads(read_bytes(compact / _ABOUT))
        self.vectors: Float32Array = np.memmap(exact / "rows", "<f4", "r").reshape(-1, about["dimensions"])
        self.error = float(about["error"])
        self._type: np.dtype[Any] = np.dtype(about["type"])
        self._scale: Float32Array | None = np.load(compact / "scale.npy") if self._type == np.int8 else None
        self._exact, self._compact = (
            (folder / "rows").open("rb", buffering=0) for folder in (exact, compact)
        )  # open as long as this object lives: another process may remove the folders
        for file in (self._exact, self._compact):
            weakref.finalize(self, file.close)
        self._lock = threading.Lock()

    def take(self, rows: IntArray) -> Float32Array:
        """Some of the exact rows, rising, shape (n_those_rows, n_dimensions), read without mapping them."""
        if not hasattr(os, "pread"):  # as on Windows
            return self.vectors[rows]
        handle, width = self._exact.fileno(), self.vectors.strides[0]
        with self._errors_named(self._exact):
            data = b"".join([os.pread(handle, width, width * row) for row in rows.tolist()])
            if len(data) < width * len(rows):
                raise OSError(errno.EIO, "it is too short")
        return np.frombuffer(data, "<f4").reshape(len(rows), self.vectors.shape[1])

    def parts(self, spans: Iterable[slice], *, exact: bool = False) -> Iterator[tuple[slice, Float32Array]]:
        """Parts of the rows as float32, one after the other; each is overwritten by the next.

        Args:
            spans: the parts.
            exact: exact rows, instead of those that may differ by `error`.
        """
        number_type = np.dtype("<f4") if exact else self._type
        raw: npt.NDArray[Any] = np.empty((0, self.vectors.shape[1]), dtype=number_type)
        values: Float32Array = np.empty(raw.shape, dtype=np.float32)
        for span in spans:
            n = span.stop - span.start
            if n > len(raw):
                raw = np.empty((n, raw.shape[1]), dtype=number_type)
                values = raw if number_type.itemsize == 4 else np.empty(raw.shape, dtype=np.float32)
            self._read(self._exact if exact else self._compact, span.start, raw[:n])
            if number_type.itemsize == 2:
                widen(raw[:n], values[:n])
            elif self._scale is not None and not exact:
                np.multiply(raw[:n], self._scale[span, None], out=values[:n])
            yield span, values[:n]

    def _read(self, file: Any, first: int, out: npt.NDArray[Any]) -> None:
        """Fill an array with the rows from `first` on."""
        view = out.data.cast("B")
        with self._errors_named(file), self._lock:
            file.seek(first * out.strides[0])
            while view and (n := file.readinto(view)):
                view = view[n:]
            if view:
                raise OSError(errno.EIO, "it is too short")

    @contextmanager
    def _errors_named(self, file: Any) -> Iterator[None]:
        """Turn an `OSError` into a `StorageError` that names the file: it is shorter than it was, or the disk fails."""
        try:
            yield
        except OSError as error:
            raise StorageError(Message("search.matrix-unreadable", path=file.name, reason=error.strerror)) from error


def widen(half: npt.NDArray[Any], out: Float32Array) -> None:
    """Convert finite float16 to float32, exactly; NumPy's own conversion takes several times as long.

    The bits move to where float32 has them, and the product corrects the exponent.
    """
    for first in range(0, len(half), 128):  # what fits a processor's cache
        values = out[first : first + 128]
        bits = values.view(np.int32)
        np.copyto(bits, half[first : first + 128].view(np.int16))
        bits <<= 13
        bits &= np.int32(-0x70000001)  # sign, five bits of exponent, ten of the fraction
        values *= np.float32(2.0**112)


@dataclass(frozen=True)
class VectorFiles:
    """The files of one embedder's vectors.

    Attributes:
        folder: where they are.
        maker: the identity of the embedder, which is part of every key.
        vectors: the number format that a search reads: `float32`, `float16` or `int8`.
        least: bytes of float32 from which vectors are kept here.
    """

    folder: Path
    maker: str
    vectors: str = "float32"
    least: float = BYTES

    def rows(self, embed: Embed) -> int:
        """How many vectors may be in memory."""
        return int(self.least // (4 * embed([], kind="item").shape[1]))

    def open(self, key: str, n_rows: int, blocks: Callable[[], Iterator[Float32Array]]) -> VectorFile | None:
        """The vectors of some texts, from files that are there, or else made now.

        Args:
            key: a hash of the texts and of `maker`.
            n_rows: how many there are, 1 or more.
            blocks: makes the vectors, some thousand rows at a time.

        Returns:
            None where they cannot be written or read, which is logged.

        Raises:
            UserError: as `blocks`, but no `StorageError`.
        """
        exact, compact = (self.folder / f"{key}-{name}" for name in ("float32", self.vectors))
        try:
            with exclusive(self.folder / f"{key}.lock", waiting=lambda: None):
                if not _is_whole(exact):
                    _write(exact, "float32", blocks())
                if not _is_whole(compact):
                    spans = [slice(first, min(first + _ROWS, n_rows)) for first in range(0, n_rows, _ROWS)]
                    _write(compact, self.vectors, (rows for _, rows in VectorFile(exact, exact).parts(spans)))
                self._remove_unused(exact, compact)
                return VectorFile(exact, compact)
        except (OSError, StorageError) as error:
            _log.warning("%s", Message("search.matrix-not-kept", path=self.folder, reason=error))
            return None

    def _remove_unused(self, *used: Path) -> None:
        """Note that some folders are used, and remove those that were not for the longest time."""
        with suppress(OSError):  # another process may remove them, too
            for folder in used:
                os.utime(folder)
            folders = sorted((path for path in self.folder.iterdir() if path.is_dir()), key=modified, reverse=True)
            for folder in folders[MOST_FOLDERS:]:
                remove(folder)


_ROWS = 4_096  # converted at once


def _is_whole(folder: Path) -> bool:
    """Whether a folder is as it was sealed; one that is not is removed."""
    if is_sealed(folder) and not altered(folder):
        return True
    if os.path.lexists(folder):
        _log.warning("%s", Message("io.cache-checksum", path=folder))
        remove(folder)
    return False


def _write(folder: Path, vectors: str, blocks: Iterator[Float32Array]) -> None:
    """Write rows as numbers of a type; the folder is there once all of them are.

    Raises:
        OSError, StorageError: the disk is full, or the place cannot be written.
        UserError: as `blocks`.
    """
    scales: list[Float32Array] = []
    dimensions, error = 0, 0.0
    with atomic_folder(folder, keep=True) as temporary:
        with (temporary / "rows").open("xb") as file:
            for rows in blocks:
                packed, unpacked = rows, rows
                if vectors == "float16":
                    packed = rows.astype("<f2")
                    unpacked = packed.astype(np.float32)
                elif vectors == "int8":
                    largest = np.abs(rows).max(axis=1)
                    scales.append(np.where(largest > 0, largest / np.float32(127), np.float32(1)))
                    packed = np.rint(rows / scales[-1][:, None]).astype(np.int8)
                    unpacked = packed * scales[-1][:, None]
                difference = unpacked.astype(np.float64) - rows
                error = max(error, float(np.sqrt(np.add.reduce(difference * difference, axis=1)).max(initial=0.0)))
                dimensions = rows.shape[1]
                file.write(np.ascontiguousarray(packed).data)
        about = {"type": np.dtype(vectors).newbyteorder("<").str, "dimensions": dimensions, "error": error * (1 + 1e-9)}
        (temporary / _ABOUT).write_text(json.dumps(about), "utf-8")
        names = ["rows", _ABOUT]
        if scales:
            np.save(temporary / "scale.npy", np.concatenate(scales))
            names.append("scale.npy")
        seal_folder(temporary, names)


_PAIRS_AT_ONCE = 1_024  # of which exact products are made: 3 MB in float64 at 384 dimensions
PART = 16_384  # rows of a file in memory at once: 25 MB in float32 at 384 dimensions


@dataclass(frozen=True, eq=False)
class ChunkMatrix:
    """Vectors of the chunks of some items, in catalog order.

    Attributes:
        vectors: shape (n_chunks, n_dimensions), float32.
        item: catalog position of each chunk, shape (n_chunks,), rising.
        ordinal: place of each chunk within its item, shape (n_chunks,).
        first: row of the first chunk of each item that has any, shape (n_items_held,).
        file: where the vectors are kept; None: in memory.
    """

    vectors: Float32Array
    item: IntArray
    ordinal: IntArray
    first: IntArray
    file: VectorFile | None = None

    @classmethod
    def of(cls, vectors: Float32Array, item: IntArray, ordinal: IntArray) -> ChunkMatrix:
        """Take rows that are in catalog order."""
        return cls(np.ascontiguousarray(vectors, dtype=np.float32), item, ordinal, np.flatnonzero(firsts(item)))

    def select_rows(self, rows: IntArray) -> ChunkMatrix:
        """Some of the rows, rising, in memory."""
        return ChunkMatrix.of(self._rows(rows), self.item[rows], self.ordinal[rows])

    @property
    def error(self) -> float:
        """How far a row that `parts` gives may be from the exact one, in Euclidean distance."""
        return 0.0 if self.file is None else self.file.error

    def parts(self, size: int = 0, *, exact: bool = False) -> Iterator[tuple[slice, Float32Array]]:
        """The vectors of whole items, some at a time.

        Args:
            size: how many rows at most, but for an item with more; 0 = all. Of vectors in a file at most `PART`.
            exact: not those that may be wrong by `error`.

        Yields:
            Rows of the matrix, and their vectors, which are there until the next are asked for; at least once.
        """
        if self.file is None and not 0 < size < len(self.item):
            yield slice(0, len(self.item)), self.vectors
            return
        span = spans(self)
        rows = (
            slice(int(span[first]), int(span[last]))
            for first, last in blocks(span, size if self.file is None else min(size or PART, PART))
        )
        if self.file is None:
            yield from ((part, self.vectors[part]) for part in rows)
        else:
            yield from self.file.parts(rows, exact=exact)

    def dots(self, queries: Float32Array, chunk: IntArray, row: IntArray) -> FloatArray:
        """Exact dot products of query chunks and rows, shape (n,): see `row_dots`."""
        parts = parts_of(0, len(row), _PAIRS_AT_ONCE)
        return np.concatenate([row_dots(queries[chunk[part]], self._rows(row[part])) for part in parts])

    def _rows(self, rows: IntArray) -> Float32Array:
        """Some of the rows, in any order, with repeats."""
        if self.file is None:
            return self.vectors[rows]
        distinct, index = np.unique(rows, return_inverse=True)
        return self.file.take(distinct)[index]

    def by_chunk(self, of_items: BoolArray) -> BoolArray:
        """Values of items, shape (n_items,), repeated for every chunk, shape (n_chunks,)."""
        return of_items if len(self.first) == len(self.item) == len(of_items) else of_items[self.item]


def spans(matrix: ChunkMatrix) -> IntArray:
    """CSR starts of the chunks of the items held, shape (n_held + 1,)."""
    return np.append(matrix.first, len(matrix.item)).astype(np.int64)


def parts_of(start: int, stop: int, size: int) -> Iterator[slice]:
    """A range in slices of at most `size`, >= 1; one empty slice of an empty range."""
    return (slice(first, min(first + size, stop)) for first in range(start, max(stop, start + 1), size))


def blocks(start: IntArray, per_block: int) -> Iterator[tuple[int, int]]:
    """Runs of requests that have at most `per_block` query chunks together (or are a single request)."""
    first, n = 0, len(start) - 1
    while first < n:
        last = int(np.searchsorted(start, start[first] + per_block, side="right")) - 1
        last = min(max(last, first + 1), n)
        yield first, last
        first = last


def row_dots(left: Float32Array | FloatArray, right: Float32Array | FloatArray) -> FloatArray:
    """Dot products row by row in float64, shape (n,): bit-equal for equal rows, whatever the other rows are."""
    products: FloatArray = right.astype(np.float64)
    products *= left  # exact in either type: a product of float32 numbers fits float64
    return np.asarray(np.add.reduce(products, axis=1))
