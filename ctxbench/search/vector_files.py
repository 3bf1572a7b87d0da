"""Vectors of the chunks of a catalog: in memory, or, of a large one, in files that are read part by part.

Files are content-addressed: a folder is named after who made the vectors and a hash of the texts, and holds the exact
float32 rows, or the same rows in fewer bytes with a bound of their error. A search reads the latter first. Files are
read by position into a buffer: processes share what the system caches of them, and little counts as memory of each.
Folders are sealed: one that is damaged or half-written is made again, from the vector store.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ctxbench.io.cache import altered, is_sealed, seal_folder
from ctxbench.io.errors import EmbeddingError, Message, ParameterError, StorageError, install_command
from ctxbench.io.files import atomic_folder, cache_dir, exclusive, modified, read_bytes, remove
from ctxbench.model.arrays import BoolArray, Float32Array, FloatArray, IntArray, Masks, firsts, owners
from ctxbench.model.candidates import MARGIN

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
        self.vectors: Float32Array = np.asarray(np.memmap(exact / "rows", "<f4", "r")).reshape(-1, about["dimensions"])
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
        n_in_memory: how many vectors of one catalog may be in memory; more are kept here.
    """

    folder: Path
    maker: str
    vectors: str = "float32"
    n_in_memory: int = 0

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
                    parts = VectorFile(exact, exact).parts(parts_of(0, n_rows, _ROWS))
                    _write(compact, self.vectors, (rows for _, rows in parts))
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
            folders = (path for path in self.folder.iterdir() if path.is_dir())
            for folder in sorted(folders, key=modified, reverse=True)[MOST_FOLDERS:]:
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
                packed = unpacked = rows
                if vectors == "float16":
                    packed = unpacked = rows.astype("<f2")
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
        if scales:
            np.save(temporary / "scale.npy", np.concatenate(scales))
        seal_folder(temporary, ["rows", _ABOUT, *["scale.npy"] * bool(scales)])


_PAIRS_AT_ONCE = 256  # of which exact products are made: what fits a processor's cache
PART = 16_384  # rows of a file in memory at once: 25 MB in float32 at 384 dimensions
FEW = 8  # where at most one chunk in so many may be found, these are copied, which is faster than a product of all


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
    def has_parts(self) -> bool:
        """Whether an item has more than one chunk."""
        return len(self.first) < len(self.item)

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
        span, limit = spans(self), size if self.file is None else min(size or PART, PART)
        rows = (slice(int(span[first]), int(span[last])) for first, last in blocks(span, limit))
        if self.file is None:
            yield from ((part, self.vectors[part]) for part in rows)
        else:
            yield from self.file.parts(rows, exact=exact)

    def dots(self, queries: Float32Array, chunk: IntArray, row: IntArray) -> FloatArray:
        """Exact dot products of query chunks and rows, shape (n,): see `row_dots`."""
        return np.concatenate(
            [row_dots(queries[chunk[part]], self._rows(row[part])) for part in parts_of(0, len(row), _PAIRS_AT_ONCE)]
        )

    def _rows(self, rows: IntArray) -> Float32Array:
        """Some of the rows, in any order, with repeats."""
        if self.file is None:
            return self.vectors[rows]
        distinct, index = np.unique(rows, return_inverse=True)
        return self.file.take(distinct)[index]

    def by_chunk(self, of_items: BoolArray) -> BoolArray:
        """Values of items, shape (n_items,), repeated for every chunk, shape (n_chunks,)."""
        return of_items if len(self.first) == len(self.item) == len(of_items) else of_items[self.item]


class Room:
    """The rows of a chunk matrix, with room for more behind them.

    What was handed out stays unchanged: rows are only ever added behind the last. Matrices of several catalogs can be
    the first rows of one room, in which a single one, that of the most rows, may go on. Threads may share a room: the
    indexes of several users can go on from one public index at the same time.
    """

    def __init__(self, rows: int, dimensions: int) -> None:
        size = rows + rows // 2 + 64  # memory that nobody has written to yet costs nothing
        self.vectors: Float32Array = np.empty((size, dimensions), dtype=np.float32)
        self._item, self._ordinal, self._first = (np.empty(size, dtype=np.int64) for _ in range(3))
        self._rows = self._items = 0
        self._lock = threading.Lock()

    def extended(
        self, matrix: ChunkMatrix, item: IntArray, ordinal: IntArray, vectors: Float32Array
    ) -> ChunkMatrix | None:
        """A matrix of this room with more rows; None if others are behind it already, or they do not fit in."""
        with self._lock:
            is_last = self._rows == len(matrix.item)
            fits = self._rows + len(item) <= len(self.vectors)
            return self.add(item, ordinal, vectors) if is_last and fits else None

    def add(self, item: IntArray, ordinal: IntArray, vectors: Float32Array | None = None) -> ChunkMatrix:
        """Put rows behind the last, and return the matrix of all; None: their vectors are there already."""
        new = np.flatnonzero(firsts(item)) + self._rows
        rows = slice(self._rows, self._rows + len(item))
        items = slice(self._items, self._items + len(new))
        self._item[rows], self._ordinal[rows], self._first[items] = item, ordinal, new
        if vectors is not None:
            self.vectors[rows] = vectors
        self._rows, self._items = rows.stop, items.stop
        used = slice(rows.stop)
        return ChunkMatrix(self.vectors[used], self._item[used], self._ordinal[used], self._first[: items.stop])


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
        yield first, (last := min(max(last, first + 1), n))
        first = last


def row_dots(left: Float32Array | FloatArray, right: Float32Array | FloatArray) -> FloatArray:
    """Dot products row by row in float64, shape (n,): bit-equal for equal rows, whatever the other rows are."""
    products: FloatArray = right.astype(np.float64)
    products *= left  # exact in either type: a product of float32 numbers fits float64
    return np.asarray(np.add.reduce(products, axis=1))


class Proposer(Protocol):
    """Proposes chunks that a search by best pairs scores exactly: an approximate index, or a product on a GPU."""

    @property
    def matrix(self) -> ChunkMatrix:
        """The chunks that it is of."""

    def rows(
        self, queries: Float32Array, start: IntArray, eligible: Masks, *, depth: int, weight: FloatArray
    ) -> Iterator[IntArray | None]:
        """Propose chunks for each request; the arguments are those of `search`.

        Yields:
            Rows of the matrix, rising, each of an item that the request may get; None = all of them must be searched.
        """


FETCHED = 4  # chunks that an approximate index proposes for one item that is wanted, of one chunk each
SCANNED = 32  # of the lists of faiss one in so many is scanned, at least `LISTS`
LISTS = 32
_MANY = 65_536  # vectors hashed, added or copied at once
MOST_INDEXES = 8  # files kept, those made last
_LIBRARIES = {  # its module, package, and what decides what it finds; see `_build` and `AnnIndex.of`
    "faiss": ("faiss", "faiss-cpu", f"int8 in 2 sqrt(n) lists, 10 iterations, 1/{SCANNED} and {LISTS} lists scanned"),
    "usearch": ("usearch.index", "usearch", "int8 in a graph, connectivity 32, expansion 128 and 256"),
}


def ann_library(name: str) -> Any:
    """The module of an approximate index, imported.

    Raises:
        ParameterError: it is not installed.
    """
    module, package, _ = _LIBRARIES[name]
    try:
        if name == "usearch":
            import_module("onnxruntime")  # the import of either crashes the process if usearch comes first
        return import_module(module)
    except ImportError as error:
        message = Message("search.ann-not-installed", library=name, package=package, command=install_command("ann"))
        raise ParameterError(message) from error


@dataclass(frozen=True, eq=False)
class AnnIndex:
    """An approximate index over the chunks of a catalog, as a file of the cache folder that is memory-mapped.

    Of one machine and one version of its library the same vectors give the same file.

    Attributes:
        matrix: the chunks.
        nearest: from vectors of query chunks, shape (n, n_dimensions), and a number to the rows of the chunks most
            similar to each, shape (n, that number); -1 where there are fewer.
    """

    matrix: ChunkMatrix
    nearest: Callable[[Float32Array, int], IntArray]
    _lock: threading.Lock = field(default_factory=threading.Lock)  # usearch answers one thread at a time

    @classmethod
    def of(cls, matrix: ChunkMatrix, library: str) -> AnnIndex:
        """Open the index, building it first if the cache folder lacks it.

        Raises:
            ParameterError: the library is not installed.
            StorageError: it cannot be written.
        """
        module, digest = ann_library(library), hashlib.sha256(ann_identity(library).encode())
        for _, vectors in matrix.parts(_MANY, exact=True):
            digest.update(vectors.data)
        path = cache_dir() / "ann-1" / f"{digest.hexdigest()[:32]}.{library}"
        with exclusive(path.with_suffix(".lock"), waiting=lambda: None):
            if not (file := next(path.glob("*"), None)) or file.name != str(file.stat().st_size):
                with atomic_folder(path) as folder:
                    _build(module, matrix, folder / "index")
                    (folder / "index").rename(folder / str((folder / "index").stat().st_size))
                for old in sorted(path.parent.glob(f"*.{library}"), key=modified)[:-MOST_INDEXES]:
                    remove(old)
            file = next(path.glob("*"))
        if library == "usearch":
            graph = module.Index.restore(str(file), view=True)
            graph.expansion_search = 256
            return cls(matrix, lambda queries, n: _keys(graph.search(queries, n, threads=1), len(queries)))
        lists = module.read_index(str(file), module.IO_FLAG_MMAP)
        lists.nprobe = max(lists.nlist // SCANNED, LISTS)
        return cls(matrix, lambda queries, n: lists.search(queries, n)[1])

    def rows(
        self, queries: Float32Array, start: IntArray, eligible: Masks, *, depth: int, weight: FloatArray
    ) -> Iterator[IntArray | None]:
        """See `Proposer.rows`: each request is searched alone, so that its answer does not depend on others.

        All chunks are searched for a request that may get few items, or for which too few are found.
        """
        del weight  # chunks are found for each query chunk
        counts, n_rows = eligible.counts().tolist(), len(self.matrix.item)
        for request, count in enumerate(counts):
            mine = queries[start[request] : start[request + 1]]
            n_wanted = -(-FETCHED * depth * n_rows // max(count, 1))
            if not len(mine) or n_wanted * FEW >= n_rows or count * FEW <= len(self.matrix.first):
                yield None
                continue
            with self._lock:
                rows = np.unique(self.nearest(mine, n_wanted))
            rows = rows[rows >= 0]
            rows = rows[eligible.cells(request, self.matrix.item[rows])]
            yield rows if np.count_nonzero(firsts(self.matrix.item[rows])) >= min(depth, count) else None


def ann_identity(library: str) -> str:
    """What decides what an approximate index finds: the library, its version and its parameters.

    Raises:
        ParameterError: it is not installed.
    """
    version = import_module(ann_library(library).__name__.partition(".")[0]).__version__
    return f"{library} {version}: {_LIBRARIES[library][2]}; {FETCHED} chunks fetched for one"


def _build(module: Any, matrix: ChunkMatrix, path: Path) -> None:
    """Build an index and write it; by one thread where more would give another."""
    n, dimensions = matrix.vectors.shape
    if module.__name__ == "faiss":
        quantizer, n_lists = module.IndexFlatIP(dimensions), 2 * math.isqrt(n)
        lists = module.IndexIVFScalarQuantizer(
            quantizer, dimensions, n_lists, module.ScalarQuantizer.QT_8bit, module.METRIC_INNER_PRODUCT
        )
        lists.cp.niter, lists.cp.seed, lists.cp.min_points_per_centroid = 10, 0, 1
        sample = np.sort(np.random.default_rng(0).permutation(n)[: 40 * n_lists])
        lists.train(matrix.select_rows(sample).vectors)
        for _, vectors in matrix.parts(_MANY, exact=True):
            lists.add(vectors)
        module.write_index(lists, str(path))
        return
    graph = module.Index(ndim=dimensions, metric="ip", dtype="i8", connectivity=32, expansion_add=128)
    for rows, vectors in matrix.parts(_MANY, exact=True):
        graph.add(np.arange(rows.start, rows.stop), vectors, threads=1)
    graph.save(str(path))


def _keys(matches: Any, n_queries: int) -> IntArray:
    """The keys that usearch finds, shape (n_queries, n), -1 where there are fewer."""
    keys = np.asarray(matches.keys).reshape(n_queries, -1).astype(np.int64)
    counts = getattr(matches, "counts", np.array([keys.shape[1]]))  # a single query has none
    return np.where(np.arange(keys.shape[1]) < counts[:, None], keys, -1)


class DeviceProducts:
    """Products of query chunks and item chunks by PyTorch; float64 on the CPU decides on what is near the limit.

    Args:
        matrix: the chunks, which are copied to the device.
        device: a name that PyTorch knows, such as `cuda`.

    Raises:
        EmbeddingError: the device has too little memory.
    """

    def __init__(self, matrix: ChunkMatrix, device: str) -> None:
        import torch

        self.matrix, self._device = matrix, device
        with self._within_memory():
            self._vectors = torch.empty(matrix.vectors.shape, device=device)
            for part, vectors in matrix.parts(_MANY, exact=True):
                self._vectors[part] = torch.tensor(vectors, device=device)
            self._item = torch.tensor(owners(spans(matrix)), device=device)

    def rows(
        self, queries: Float32Array, start: IntArray, eligible: Masks, *, depth: int, weight: FloatArray
    ) -> Iterator[IntArray | None]:
        """See `Proposer.rows`: every chunk that may be among the nearest, so that search stays exact."""
        import torch

        n_items, margin = len(self.matrix.first), 2 * MARGIN * max(1.0, float(weight.max(initial=1.0)))
        for first, last in blocks(start, max(1, _DEVICE_BLOCK // len(self.matrix.item))):
            part = slice(int(start[first]), int(start[last]))
            with self._within_memory():
                factor = torch.tensor(weight[part, None], device=self._device, dtype=torch.float32)
                products = self._products(queries[part]) * factor
            for request in range(first, last):
                mine = slice(int(start[request]) - part.start, int(start[request + 1]) - part.start)
                if mine.start == mine.stop:
                    yield np.empty(0, dtype=np.int64)
                    continue
                allowed = torch.tensor(self.matrix.by_chunk(eligible[request]), device=self._device)
                best = products[mine].amax(0).masked_fill(~allowed, -torch.inf)
                of_items = torch.full((n_items,), -torch.inf, device=self._device)
                of_items.scatter_reduce_(0, self._item, best, "amax")
                limit = of_items.topk(min(depth, n_items)).values[-1] - margin
                yield torch.nonzero((best >= limit) & allowed).ravel().cpu().numpy()

    def _products(self, queries: Float32Array) -> Any:
        """float32 products, with all bits of float32: TF32 is off meanwhile."""
        import torch

        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            return torch.tensor(queries, device=self._device) @ self._vectors.T
        finally:
            torch.set_float32_matmul_precision(precision)

    @contextmanager
    def _within_memory(self) -> Iterator[None]:
        import torch

        try:
            yield
        except torch.OutOfMemoryError as error:
            n, dimensions = self.matrix.vectors.shape
            raise EmbeddingError(Message("search.device-memory", n=n, dimensions=dimensions)) from error


_DEVICE_BLOCK = 1 << 28  # products that a device holds at once: 1 GB
