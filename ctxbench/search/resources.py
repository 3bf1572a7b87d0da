"""Resources that strategies use: vectors, token counts, text indexes and plugins."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from ctxbench.io.errors import ParameterError, UnknownNameError
from ctxbench.model import registry
from ctxbench.model.arrays import BoolArray, Float32Array, IntArray
from ctxbench.model.items import TEXT_FIELDS, Catalog, Item
from ctxbench.model.resources import EMBEDDER, Resource, Resources, TextKind, kind_of, row_over
from ctxbench.search.embedders import Embedder, Vectors, VectorStats, VectorStore, open_embedder, open_vectors
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


class LocalResources(Resources):
    """Resources of one process: everything is made at first use and kept as long as this object lives.

    `embedder` is the one that it is made with; `embedder:NAME` is the one that `open_embedder` knows by that name.
    """

    def __init__(self, vectors: Vectors, counter: TokenCounter) -> None:
        self._vectors = [vectors]
        self._kept: dict[Hashable, Any] = {}
        self._lock = threading.Lock()
        self._making: dict[Hashable, Any] = {}  # a lock for each value, so that one waits for no other
        self._named: dict[str, Resource | TextVectors | TokenCounts] = {
            "embedder": TextVectors(vectors),
            "tokens": TokenCounts(counter, self),
        }

    @property
    def stats(self) -> VectorStats:
        """How many texts were embedded and how many found in the store, by whatever embedder."""
        return sum((vectors.stats for vectors in self._vectors), VectorStats())

    def note_texts(self) -> None:
        """From now on, note of what texts vectors are taken, for `noted_vectors`."""
        for vectors in self._vectors:
            vectors.noted = set()

    def noted_vectors(self, queries: Sequence[str]) -> bytes:
        """The stored vectors of noted texts and of `queries`, by every embedder; nothing is noted any more."""
        parts = []
        for vectors in self._vectors:
            noted, vectors.noted = vectors.noted or set(), None
            texts = sorted({*noted, *vectors.identity.stored_texts(queries, "query")})
            is_stored, rows = vectors.look_up(texts)
            parts.append((vectors.identity, list(itertools.compress(texts, is_stored)), rows[is_stored]))
        return pickle.dumps(parts)

    def stored_vectors(self, texts: Sequence[str]) -> BoolArray:
        """Of which texts of items there are vectors, shape (n_texts,); nothing is embedded."""
        return self._vectors[0].stored(texts, kind="item")

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

    def _resource(self, name: str) -> Resource | TextVectors | TokenCounts:
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


def add_vectors(data: bytes) -> None:
    """Add what `LocalResources.noted_vectors` gave to the stores of this machine, where it lacks them."""
    for identity, texts, vectors in pickle.loads(data):  # noqa: S301 - published by the caller
        with VectorStore(identity) as store:
            lacks = ~store.look_up(texts)[0]
            if store.writable and lacks.any():
                store.add(list(itertools.compress(texts, lacks)), vectors[lacks])


def local_resources(
    embedder: Embedder, counter: TokenCounter, *, progress: Callable[[int, int], None] | None = None
) -> LocalResources:
    """Resources over the vector store of this machine; no model is loaded."""
    return LocalResources(open_vectors(embedder, progress=progress), counter)
