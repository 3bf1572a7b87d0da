"""Vectors of large catalogs in files, which are read in parts, so that they never are in memory at once.

Files are content-addressed: a folder is named after who made the vectors and a hash of the texts, and holds the exact
float32 rows, or the same rows in fewer bytes with a bound of their error. A search reads the latter first. Rows of
float32 are read by position, and so processes share what the system caches of them, and nothing counts as memory of
one. Folders are sealed: one that is damaged or half-written is made again, from the vector store.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ctxbench.io.cache import altered, is_sealed, seal_folder
from ctxbench.io.errors import Message, StorageError
from ctxbench.io.files import atomic_folder, exclusive, modified, read_bytes, remove
from ctxbench.model.arrays import Float32Array, IntArray

FOLDER = "matrices-1"  # beside the vector store of the same embedder
BYTES = 64_000_000  # of float32 vectors, from which they are kept in files
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
        self._lock = threading.Lock()

    def take(self, rows: IntArray) -> Float32Array:
        """Some of the exact rows, rising, shape (n_those_rows, n_dimensions), read without mapping them."""
        out: Float32Array = np.empty((len(rows), self.vectors.shape[1]), dtype="<f4")
        breaks = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
        for first, last in pairwise(breaks):
            if last > first:
                self._read(self._exact, int(rows[first]), out[first:last])
        return out

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
        """Fill an array with the rows from `first` on.

        Raises:
            StorageError: the file is shorter than it was, or the disk fails.
        """
        view = out.data.cast("B")
        try:
            with self._lock:
                file.seek(first * out.strides[0])
                while view and (n := file.readinto(view)):
                    view = view[n:]
        except OSError as error:
            raise StorageError(Message("search.matrix-unreadable", path=file.name, reason=error.strerror)) from error
        if view:
            raise StorageError(Message("search.matrix-unreadable", path=file.name, reason="it is too short"))


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
    least: int = BYTES

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
