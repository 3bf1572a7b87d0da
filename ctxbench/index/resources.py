"""The resources that steps use: vectors, token counts, and whatever an index keeps for a catalog."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from ctxbench.core.arrays import Float32Array, IntArray, frozen
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog
from ctxbench.embedding.base import Embedder
from ctxbench.embedding.store import VectorStore
from ctxbench.embedding.vectors import Vectors
from ctxbench.tokens import TokenCounter

T = TypeVar("T")


class LocalResources:
    """Resources of one process: everything is made at first use and kept as long as this object lives."""

    def __init__(self, vectors: Vectors, counter: TokenCounter) -> None:
        self._vectors = vectors
        self._counter = counter
        self._kept: dict[Hashable, Any] = {}

    @property
    def stats(self) -> Any:
        """How many texts were embedded and how many found in the store."""
        return self._vectors.stats

    def vectors(self, texts: Sequence[str]) -> Float32Array:
        """Unit vectors of `texts`, shape (n_texts, n_dimensions); see `Vectors.get`."""
        return self._vectors.get(texts)

    def tokens(self, catalog: Catalog) -> IntArray:
        """Prompt tokens of every item, shape (n_items,)."""

        def count() -> IntArray:
            counts = self._counter.count(catalog.ids, [item.prompt_text for item in catalog])
            frozen(counts)
            return counts

        return self.kept(("tokens", catalog.hash), count)

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what was made under `key`, making it at the first call."""
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found

    def identity(self, resource: str) -> str:
        """What a resource is: `embedder` or `tokens`."""
        if resource == "embedder":
            return self._vectors.identity.key
        if resource == "tokens":
            return self._counter.name
        raise ParameterError(f"no resource is called {resource!r}; known: embedder, tokens")


def local_resources(
    embedder: Embedder, counter: TokenCounter, *, progress: Callable[[int, int], None] | None = None
) -> LocalResources:
    """Resources over the vector store of this machine; no model is loaded."""
    return LocalResources(Vectors(embedder, VectorStore(embedder.identity), progress=progress), counter)
