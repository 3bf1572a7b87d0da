"""Diversity: of items that say the same, offer one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ctxbench.core.arrays import Float32Array, FloatArray, IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import SelectorError, check_range
from ctxbench.core.query import Query
from ctxbench.core.registry import foreign_code
from ctxbench.core.rules import Rule
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy, later
from ctxbench.index.dense import dense_index
from ctxbench.text.chunking.chunk_rules import chunk_rule
from ctxbench.text.chunking.item_chunks import ItemChunking


@dataclass(frozen=True)
class Mmr(Strategy):
    """Offer `n` items picked one after the other by maximal marginal relevance: relevant, and unlike those before.

    Attributes:
        n: items a request, >= 0.
        relevance: how much an item's score counts against its likeness to what is picked already, 0 to 1; 1 offers
            the first `n` of the ranking. The paper's lambda.
        chunks, split_tools, bodies: how the retriever splits items, as its parameters of these names.

    The next item is that with the highest relevance x score - (1 - relevance) x its largest cosine with an item picked
    before; of equals the first in the ranking. Items are compared by the chunks that gave them their scores, an item
    without one by the mean of its chunks. Scores should be cosines, or lie between 0 and 1, to be weighed against
    cosines. Only what the search found and no rule has kept out yet is picked from; those picked stand in the order
    of their scores all the same. A request with at most `n` candidates keeps all and embeds nothing. Empty in, empty
    out. Cost: `n` products of the candidates' vectors with one of them, in float64, so that no shape decides.
    Source: Carbonell and Goldstein, SIGIR 1998.
    """

    n: int = 5
    relevance: float = 0.7
    chunks: str | Mapping[str, Any] = "paragraphs"
    split_tools: bool = False
    bodies: bool = later(False)
    uses: ClassVar[tuple[str, ...]] = ("embedder",)
    rule_words: ClassVar[Mapping[str, str]] = {
        "mmr": "not among the n={n} picked for relevance and diversity (relevance={relevance:g})"
    }

    def __post_init__(self) -> None:
        check_range("n", self.n, 0)
        check_range("relevance", self.relevance, 0, 1)
        self.chunking  # noqa: B018 - an unknown rule is an error now

    @cached_property
    def chunking(self) -> ItemChunking:
        """How items are split."""
        return ItemChunking(chunk_rule(self.chunks, parameter="chunks"), self.split_tools, self.bodies)

    @property
    def code(self) -> str | None:
        """Module, class and source of a chunking rule that is not ours, which its name does not tell."""
        return foreign_code(type(self.chunking.rule))

    @property
    def reach(self) -> int:
        """How many of the best items decide, at least."""
        return self.n

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark what is not picked."""
        alive = candidates.chosen & candidates.ranked
        counts = np.bincount(candidates.request[alive], minlength=candidates.n_requests)
        rows = np.flatnonzero(alive & (counts > self.n)[candidates.request])
        out = np.zeros(len(candidates), dtype=np.bool_)
        out[rows] = True
        if len(rows) and self.n:
            vectors = self._vectors(query, candidates, rows, resources)
            first = np.flatnonzero(np.diff(candidates.request[rows], prepend=-1)).tolist()
            for start, end in zip(first, [*first[1:], len(rows)], strict=True):
                mine = rows[start:end]
                chosen = picked(candidates.score[mine], vectors[start:end], n=self.n, relevance=self.relevance)
                out[mine[chosen]] = False
        return candidates.exclude(out, Rule.of("mmr", n=self.n, relevance=self.relevance))

    def _vectors(self, query: Query, table: Candidates, rows: IntArray, resources: Resources) -> FloatArray:
        """The unit vector of the item of each row, shape (n_rows, n_dimensions)."""
        catalog, item = query.batch.catalog, table.item[rows]
        chunk = np.where(table.via_item[rows] < 0, table.item_chunk[rows], -1)  # an expansion splits items its own way
        mask = np.zeros(len(catalog), dtype=np.bool_)
        mask[item] = True
        matrix = dense_index(catalog, resources, chunking=self.chunking).matrix(mask, resources.vectors)
        if matrix is None:
            raise SelectorError(f"mmr: none of {int(mask.sum())} items has a chunk by {self.chunks!r} to compare")
        first, end = (np.searchsorted(matrix.item, item, side=side) for side in ("left", "right"))
        if (wrong := np.flatnonzero(first + np.maximum(chunk, 0) >= end)).size:
            raise SelectorError(
                f"mmr: item {catalog.ids[int(item[wrong[0]])]} has no chunk {int(chunk[wrong[0]])} by "
                f"{self.chunks!r}; give chunks, split_tools and bodies as they are given to the retriever"
            )
        return _standing_for(matrix.vectors, first, end, chunk)


def picked(score: FloatArray, vectors: FloatArray, *, n: int, relevance: float) -> IntArray:
    """Pick `n` of some items by maximal marginal relevance.

    Args:
        score: shape (n_items,), best first.
        vectors: of length 1, shape (n_items, n_dimensions).
        n: how many, 0 to n_items.
        relevance: 0 to 1.

    Returns:
        Their places in the order in which they were picked, shape (n,).
    """
    nearest = np.zeros(len(score))
    open_ = np.ones(len(score), dtype=np.bool_)
    out = np.empty(n, dtype=np.int64)
    for turn in range(n):
        value = np.where(open_, relevance * score - (1 - relevance) * nearest, -np.inf)
        best = int(value.argmax())
        out[turn], open_[best] = best, False
        cosine = _dots(vectors, vectors[best])
        nearest = np.maximum(nearest, cosine) if turn else cosine
    return out


def _standing_for(vectors: Float32Array, first: IntArray, end: IntArray, chunk: IntArray) -> FloatArray:
    """The vector of a chunk of each item, or where `chunk` is -1 of all, of length 1; shape (n_items, n_dimensions).

    Args:
        vectors: of all chunks, shape (n_chunks, n_dimensions).
        first, end: where the chunks of each item stand, shape (n_items,).
        chunk: shape (n_items,).
    """
    out = vectors[first + np.maximum(chunk, 0)].astype(np.float64)
    for row in np.flatnonzero(chunk < 0).tolist():
        out[row] = vectors[first[row] : end[row]].astype(np.float64).sum(axis=0)
    length = np.sqrt(_dots(out, out))[:, None]
    unit: FloatArray = np.divide(out, length, out=np.zeros_like(out), where=length > 0)
    return unit


def _dots(left: FloatArray, right: FloatArray) -> FloatArray:
    """Dot products row by row, shape (n,); bit-equal for equal rows, whatever the other rows are."""
    sums: FloatArray = np.add.reduce(left * right, axis=1)
    return sums
