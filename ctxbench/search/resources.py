"""Resources that strategies use: vectors, token counts, text indexes and plugins."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from ctxbench.io.errors import EmbeddingError, Message, ParameterError, UnknownNameError, raise_first
from ctxbench.io.files import atomic_folder, cache_dir, exclusive, modified, remove
from ctxbench.model import registry
from ctxbench.model.arrays import Float32Array, FloatArray, IntArray, Masks, firsts
from ctxbench.model.candidates import MARGIN
from ctxbench.model.items import TEXT_FIELDS, Catalog, Item
from ctxbench.model.resources import EMBEDDER, INDEX, IndexFields, Resources, TextKind, kind_of, row_over
from ctxbench.search.dense import FEW, ChunkMatrix, DenseIndex, Proposer, blocks, spans
from ctxbench.search.embedders import Embedder, Vectors, VectorStats, open_embedder, open_vectors
from ctxbench.search.tokens import FileCounter, TokenCounter
from ctxbench.search.words import TextIndex

T = TypeVar("T")


class TextVectors:
    """The resource `embedder`: a function from texts and their kind to unit vectors, shape (n_texts, n_dimensions)."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._lock = threading.Lock()  # `Vectors` is for one thread at a time

    @property
    def identity(self) -> str:
        """Model, revision, backend, quantisation and prompts."""
        return self._vectors.identity.key

    def value(self, texts: Sequence[str], *, kind: TextKind = "query") -> Float32Array:
        """See `Vectors.get`; from several threads one waits for the other."""
        with self._lock:
            return self._vectors.get(texts, kind=kind)


class TokenCounts:
    """The resource `tokens`: a function from a catalog to the prompt tokens of its items, shape (n_items,).

    What is counted is carried on where a catalog is extended. A file of counts is asked for all items at once, so that
    what it lacks is reported whichever are needed first.
    """

    def __init__(self, counter: TokenCounter, resources: Resources) -> None:
        self._counter = counter
        self._resources = resources

    @property
    def identity(self) -> str:
        """The name of the counter."""
        return self._counter.name

    @property
    def value(self) -> TokenCounts:
        """Itself: called with a catalog, and with `texts`."""
        return self

    def texts(self, texts: Sequence[str]) -> IntArray:
        """See `Resources.text_tokens`."""
        if self._counter.name.startswith(FileCounter.prefix):
            raise ParameterError(
                f"{self._counter.name} counts whole items only; a step that shows parts of items, or counts a whole "
                "prompt, needs a counter of texts: o200k, cl100k or chars/4"
            )
        return np.array(self._counter.count(["" for _ in texts], texts))

    def __call__(self, catalog: Catalog, items: IntArray | None = None) -> IntArray:
        """See `Resources.tokens`; read-only."""
        required = None if self._counter.name.startswith(FileCounter.prefix) else items
        return row_over(catalog, self._resources, "tokens", over=TEXT_FIELDS, make=self._count, items=required)

    def _count(self, items: Sequence[Item]) -> IntArray:
        return np.array(self._counter.count([item.id for item in items], [item.prompt_text for item in items]))


class TextIndexes:
    """The resource `text_index:NAME`, a `TextIndex`: `fts5`, in this process, or `postgres` (`CTXBENCH_POSTGRES`)."""

    def __init__(self, _resources: Resources, model: str = "") -> None:
        if model not in ("fts5", "postgres"):
            raise UnknownNameError("text index", model, ("fts5", "postgres"))
        self.identity = model  # rows follow from the items, wherever they are stored

    @property
    def value(self) -> TextIndex:
        """The index, opened.

        Raises:
            TextIndexError: it cannot be had; says why, and what to do.
        """
        from ctxbench.search.text_index import Fts5Index, PostgresIndex

        return Fts5Index() if self.identity == "fts5" else PostgresIndex()


FETCHED = 4  # chunks that an approximate index proposes for one item that is wanted, of one chunk each
SCANNED = 32  # of the lists of faiss one in so many is scanned, at least `LISTS`
LISTS = 32
_ROWS = 65_536  # vectors hashed, added or copied at once
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
        return import_module(module)
    except ImportError as error:
        raise ParameterError(Message("search.ann-not-installed", library=name, package=package)) from error


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

    @classmethod
    def of(cls, matrix: ChunkMatrix, library: str) -> AnnIndex:
        """Open the index, building it first if the cache folder lacks it.

        Raises:
            ParameterError: the library is not installed.
            StorageError: it cannot be written.
        """
        module, digest = ann_library(library), hashlib.sha256(ann_identity(library).encode())
        for _, vectors in matrix.parts(_ROWS, exact=True):
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
        self,
        queries: Float32Array,
        start: IntArray,
        eligible: Masks,
        *,
        depth: int,
        weight: FloatArray,  # noqa: ARG002
    ) -> Iterator[IntArray | None]:
        """See `Proposer.rows`: each request is searched alone, so that its answer does not depend on others.

        All chunks are searched for a request that may get few items, or for which too few are found.
        """
        counts, n_rows = eligible.counts().tolist(), len(self.matrix.item)
        for request, count in enumerate(counts):
            mine = queries[start[request] : start[request + 1]]
            wanted = -(-FETCHED * depth * n_rows // max(count, 1))
            if not len(mine) or wanted * FEW >= n_rows or count * FEW <= len(self.matrix.first):
                yield None
                continue
            rows = np.unique(self.nearest(mine, wanted))
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
        lists.cp.niter, lists.cp.seed = 10, 0
        sample = np.sort(np.random.default_rng(0).permutation(n)[: 40 * n_lists])
        lists.train(matrix.select_rows(sample).vectors)
        for _, vectors in matrix.parts(_ROWS, exact=True):
            lists.add(vectors)
        module.write_index(lists, str(path))
        return
    graph = module.Index(ndim=dimensions, metric="ip", dtype="i8", connectivity=32, expansion_add=128)
    for rows, vectors in matrix.parts(_ROWS, exact=True):
        graph.add(np.arange(rows.start, rows.stop), vectors, threads=1)
    graph.save(str(path))


def _keys(matches: Any, n_queries: int) -> IntArray:
    """The keys that usearch finds, shape (n_queries, n), -1 where there are fewer."""
    keys, counts = np.asarray(matches.keys).reshape(n_queries, -1).astype(np.int64), np.atleast_1d(matches.counts)
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
            for part, vectors in matrix.parts(_ROWS, exact=True):
                self._vectors[part] = torch.from_numpy(np.ascontiguousarray(vectors)).to(device)
            group = np.repeat(np.arange(len(matrix.first)), np.diff(spans(matrix)))
            self._item = torch.from_numpy(group).to(device)

    def rows(
        self, queries: Float32Array, start: IntArray, eligible: Masks, *, depth: int, weight: FloatArray
    ) -> Iterator[IntArray | None]:
        """See `Proposer.rows`: every chunk that may be among the nearest, so that search stays exact."""
        import torch

        n_items, margin = len(self.matrix.first), 2 * MARGIN * max(1.0, float(weight.max(initial=1.0)))
        for first, last in blocks(start, max(1, _DEVICE_BLOCK // len(self.matrix.item))):
            part = slice(int(start[first]), int(start[last]))
            with self._within_memory():
                products = self._products(queries[part]) * torch.from_numpy(weight[part, None]).to(self._device).float()
            for request in range(first, last):
                mine = slice(int(start[request]) - part.start, int(start[request + 1]) - part.start)
                allowed = torch.from_numpy(self.matrix.by_chunk(eligible[request]).copy()).to(self._device)
                if mine.start == mine.stop:
                    yield np.empty(0, dtype=np.int64)
                    continue
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
            return torch.from_numpy(queries).to(self._device) @ self._vectors.T
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


class IndexSearch:
    """The resource `index`: proposes chunks to a search by best pairs, as an experiment's `index` says.

    Attributes:
        identity: library, version and parameters of an approximate index; empty where search is exact, on any device.
        approximate: whether it is.
    """

    def __init__(self, fields: IndexFields) -> None:
        """Take the fields; nothing is built.

        Raises:
            ParameterError: a library is not installed, or there is no GPU.
        """
        self._library, self._device = fields.ann, "cuda" if fields.device == "cuda" else ""
        self.approximate = bool(fields.ann)
        self.identity = ann_identity(fields.ann) if fields.ann else ""
        raise_first(
            (fields.ann and self._device, Message("search.ann-on-device", library=fields.ann)),
            (self._device and not _sees_gpu(), Message("search.no-gpu")),
        )

    @property
    def value(self) -> IndexSearch:
        """Itself."""
        return self

    def proposer(self, index: DenseIndex) -> Proposer | None:
        """What proposes chunks of a dense index, made once; None where all are compared by NumPy."""
        if not self._library and not self._device:
            return None
        return index.get_or_compute(
            INDEX,
            lambda matrix: (
                AnnIndex.of(matrix, self._library) if self._library else DeviceProducts(matrix, self._device)
            ),
        )


def _sees_gpu() -> bool:
    """Whether PyTorch is installed and sees a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


class ExactSearch(Resources):
    """The same resources without an approximate index: what its answers are compared with."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def get(self, name: str) -> Any:
        """As `Resources.get`."""
        return IndexSearch(IndexFields()) if name == INDEX else self._resources.get(name)

    def identity(self, name: str) -> str:
        """As `Resources.identity`."""
        return "" if name == INDEX else self._resources.identity(name)

    def get_or_create(self, key: Hashable, make: Callable[[], T]) -> T:
        """As `Resources.get_or_create`."""
        return self._resources.get_or_create(key, make)


class LocalResources(Resources):
    """Resources of one process: everything is made at first use and kept as long as this object lives.

    `embedder` is the one that it is made with; `embedder:NAME` is the one that `open_embedder` knows by that name.
    """

    def __init__(self, vectors: Vectors, counter: TokenCounter, *, index: IndexFields | None = None) -> None:
        self.index = index or IndexFields()
        self._vectors = [vectors]
        self._kept: dict[Hashable, Any] = {}
        self._lock = threading.Lock()
        self._making: dict[Hashable, Any] = {}  # a lock for each value, so that one waits for no other
        self._named: dict[str, Any] = {
            "embedder": TextVectors(vectors),
            INDEX: IndexSearch(self.index),
            "tokens": TokenCounts(counter, self),
        }

    @property
    def stats(self) -> VectorStats:
        """How many texts were embedded and how many found in the store, by whatever embedder."""
        return sum((vectors.stats for vectors in self._vectors), VectorStats())

    def get(self, name: str) -> Any:
        """The value of a resource, made at the first call; see `Resources.get`."""
        resource = self._resource(name)
        with registry.of_plugin("resource", kind_of(name), "made"):
            return self.get_or_create(("resource", name), lambda: resource.value)

    def identity(self, name: str) -> str:
        """What a resource is; see `Resources.identity`."""
        resource = self._resource(name)
        with registry.of_plugin("resource", kind_of(name), "asked for its identity"):
            return str(resource.identity)

    def get_or_create(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what was made under `key`, making it at the first call; other threads wait for what one makes."""
        if key not in self._kept:
            with self._lock:
                making = self._making.setdefault(key, threading.RLock())
            with making:
                if key not in self._kept:
                    self._kept[key] = make()
        return cast("T", self._kept[key])

    def _resource(self, name: str) -> Any:
        if name not in self._named and name != EMBEDDER == kind_of(name):
            model = open_embedder(name.partition(":")[2])
            self._vectors.append(open_vectors(model, progress=self._vectors[0].progress))
            self._named[name] = TextVectors(self._vectors[-1])
        elif name not in self._named:
            kind, _, argument = name.partition(":")
            factory = registry.find("resource", kind)
            with registry.of_plugin("resource", kind, "made"):
                self._named[name] = factory(self, argument) if argument else factory(self)
        return self._named[name]


def local_resources(
    embedder: Embedder,
    counter: TokenCounter,
    *,
    progress: Callable[[int, int], None] | None = None,
    index: IndexFields | None = None,
) -> LocalResources:
    """Resources over the vector store of this machine; no model is loaded."""
    return LocalResources(open_vectors(embedder, progress=progress), counter, index=index)
