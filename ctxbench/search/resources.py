"""Resources that strategies use: vectors, token counts, text indexes and plugins."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from ctxbench.io.errors import Message, ParameterError, UnknownNameError, raise_first
from ctxbench.model import registry
from ctxbench.model.arrays import Float32Array, IntArray
from ctxbench.model.items import TEXT_FIELDS, Catalog, Item
from ctxbench.model.resources import (
    EMBEDDER,
    INDEX,
    IndexFields,
    Resources,
    TextKind,
    WithinResources,
    kind_of,
    row_over,
)
from ctxbench.search.dense import DenseIndex
from ctxbench.search.embedders import Embedder, Vectors, VectorStats, open_embedder, open_vectors
from ctxbench.search.tokens import FileCounter, TokenCounter
from ctxbench.search.vector_files import BYTES, AnnIndex, DeviceProducts, Proposer, VectorFiles, ann_identity
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

    @property
    def folder(self) -> Path | None:
        """Where files of many vectors are kept; see `Vectors.folder`."""
        return self._vectors.folder

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


class ExactSearch(WithinResources):
    """Resources without an approximate index: what its answers are compared with."""

    def get(self, name: str) -> Any:
        """As `Resources.get`."""
        return IndexSearch(IndexFields()) if name == INDEX else super().get(name)


class LocalResources(Resources):
    """Resources of one process: everything is made at first use and kept as long as this object lives.

    `embedder` is the one that it is made with; `embedder:NAME` is the one that `open_embedder` knows by that name.

    Attributes:
        mapped_from: bytes of vectors of one catalog from which they are kept in files; where no `index` is given, and
            so what is stored may have to be forgotten, all are in memory.
    """

    def __init__(self, vectors: Vectors, counter: TokenCounter, *, index: IndexFields | None = None) -> None:
        self.index = index or IndexFields()
        self.mapped_from = math.inf if index is None else BYTES
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

    def vector_files(self, embedder: str) -> VectorFiles | None:
        """Where many vectors are kept; see `Resources.vector_files`."""
        resource = self._resource(embedder)
        if self.mapped_from == math.inf or not isinstance(resource, TextVectors) or resource.folder is None:
            return None
        return VectorFiles(resource.folder, resource.identity, self.index.vectors, self.mapped_from)

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
