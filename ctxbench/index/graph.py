"""The relationship graph: which items of a catalog are alike, computed once, looked up at every request.

An item's list holds the items at least as similar as the threshold, best first, with the pair of chunks that is the
most alike. BLAS proposes in blocks and float64 decides, so a graph does not depend on blocks, threads or machine; one
that was updated after a change equals one that is built anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, frozen, owners, ranges, starts
from ctxbench.core.candidates import MARGIN
from ctxbench.core.errors import check_choice, check_range
from ctxbench.core.items import Catalog, Item
from ctxbench.index.dense import BLOCK, ChunkMatrix
from ctxbench.index.pairs import Edges, best_pairs, dots, every_pair, heads, positions_in, spans
from ctxbench.index.products import blocks, multiply

T = TypeVar("T", bound=np.generic)
Prints: TypeAlias = np.ndarray[tuple[int], np.dtype[np.void]]
SIMILARITIES = ("max", "mean", "centroid")
_AT_ONCE = 65_536  # entries turned at once


@dataclass(frozen=True, kw_only=True)
class GraphSpec:
    """What a graph holds.

    Attributes:
        similarity: of two items: `max`, the best pair of their chunks; `mean`, the mean over all pairs; `centroid`,
            the cosine of their mean vectors.
        threshold: only pairs at least this similar are held, 0 to 1.
        neighbours: at most this many of an item, the most similar, >= 1.
        heads: compare only the first chunk of each item, which holds its name and description.
    """

    similarity: str = "max"
    threshold: float = 0.75
    neighbours: int = 100
    heads: bool = False

    def __post_init__(self) -> None:
        check_choice("similarity", self.similarity, SIMILARITIES)
        check_range("threshold", self.threshold, 0, 1)
        check_range("neighbours", self.neighbours, 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph:
    """Similar items of every item of a catalog.

    Attributes:
        spec: what is held.
        catalog: the catalog's hash.
        embedder: key of the embedder's identity.
        chunking: how items were split.
        prints: a hash of each item's identity and search text, shape (n_items,), 16 bytes each.
        start: CSR starts by item, shape (n_items + 1,).
        item: the similar items, best first, of equals the first in the catalog.
        score: their similarity, float64.
        own_chunk, other_chunk: the pair of chunks that is the most alike, as places within the two items.
    """

    spec: GraphSpec
    catalog: str
    embedder: str
    chunking: str
    prints: Prints
    start: IntArray
    item: IntArray
    score: FloatArray
    own_chunk: IntArray
    other_chunk: IntArray

    def __post_init__(self) -> None:
        for array in (self.start, self.item, self.score, self.own_chunk, self.other_chunk):
            frozen(array)

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def edges(self) -> Edges:
        """All entries, by owner."""
        return Edges(owners(self.start), self.item, self.score, self.own_chunk, self.other_chunk)

    def of(self, items: IntArray, *, first: int) -> Edges:
        """The first entries of some items, shape (n,), in that order."""
        length = np.minimum(self.start[items + 1] - self.start[items], first)
        entry, owner = ranges(self.start[items], length), np.repeat(items, length)
        return Edges(owner, self.item[entry], self.score[entry], self.own_chunk[entry], self.other_chunk[entry])


def item_prints(items: Iterable[Item]) -> Prints:
    """A hash of each item's identity and of the text that its vectors are made of."""
    digests = [
        hashlib.blake2b(
            f"{item.type}\0{item.server or ''}\0{item.name}\0{item.search_text}".encode("utf-8", "surrogatepass"),
            digest_size=16,
        ).digest()
        for item in items
    ]
    return np.frombuffer(b"".join(digests), dtype="V16")


def build_graph(
    catalog: Catalog, matrix: ChunkMatrix | None, spec: GraphSpec, *, embedder: str, chunking: str
) -> Graph:
    """Compare all items of a catalog.

    Args:
        catalog: the items.
        matrix: the chunks of all of them; None where there are none.
        spec: what is held.
        embedder: key of the embedder's identity.
        chunking: how items were split.

    Cost: a product of all chunks with all chunks, in blocks of 16 MB.
    """
    edges = Edges.joined([])
    if matrix is not None:
        view = _ChunkView(heads(matrix) if spec.heads else matrix, spec)
        edges = view.edges(np.arange(len(view.held), dtype=np.int64), limit=spec.neighbours)
    return Graph(
        spec=spec,
        catalog=catalog.hash,
        embedder=embedder,
        chunking=chunking,
        prints=item_prints(catalog),
        start=starts(np.bincount(edges.owner, minlength=len(catalog))),
        item=edges.item,
        score=edges.score,
        own_chunk=edges.own_chunk,
        other_chunk=edges.other_chunk,
    )


def update_graph(old: Graph, catalog: Catalog, matrix: ChunkMatrix | None, *, grown: bool = False) -> Graph:
    """The graph of a changed catalog, from that of the catalog before: equal to one that is built anew.

    Only the rows of items that are new or have another text are computed, and those of items that lose an entry
    which a cut list might replace by one that it does not hold. Where most items changed, or others changed places,
    all is built.

    Args:
        old: made by the same embedder and chunking.
        catalog, matrix: as for `build_graph`.
        grown: the catalog is known to begin with the items of the old one, which need not be looked at.
    """
    prints = np.concatenate([old.prints, item_prints(catalog[len(old) :])]) if grown else item_prints(catalog)
    now_of_old, changed = _matched(old.prints, prints)
    surviving = now_of_old[now_of_old >= 0]
    if matrix is None or 4 * int(changed.sum()) > len(catalog) or np.any(np.diff(surviving) < 0):
        return build_graph(catalog, matrix, old.spec, embedder=old.embedder, chunking=old.chunking)
    view = _ChunkView(heads(matrix) if old.spec.heads else matrix, old.spec)
    fresh = view.edges(positions_in(view.held, np.flatnonzero(changed)), limit=None)
    to_unchanged = fresh.select_rows(~changed[fresh.item])
    back = view.turned(to_unchanged)
    gone = now_of_old < 0
    lossy = np.unique(np.searchsorted(old.start, np.flatnonzero(gone[old.item]), side="right") - 1)
    dirty = gone.copy()  # old items whose list does not stay as it is
    dirty[lossy] = True
    dirty[np.isin(now_of_old, back.owner)] = True
    merged = Edges.joined([_moved(old, np.flatnonzero(dirty & ~gone), now_of_old), back]).sorted()
    unsure = _unsure(old, now_of_old, merged, lossy[~gone[lossy]])
    recomputed = view.edges(positions_in(view.held, unsure), limit=old.spec.neighbours)
    parts = Edges.joined([merged.select_rows(~np.isin(merged.owner, unsure)), recomputed, fresh])
    parts = parts.sorted().first(old.spec.neighbours)
    return _spliced(old, parts, np.flatnonzero(~dirty), now_of_old, catalog, prints)


def _moved(old: Graph, items: IntArray, now_of_old: IntArray) -> Edges:
    """The entries of some old items at their new positions, without those that lead to what is gone."""
    entries = old.of(items, first=old.spec.neighbours)
    moved = entries._replace(owner=now_of_old[entries.owner], item=now_of_old[entries.item])
    return moved.select_rows(moved.item >= 0)


def _spliced(
    old: Graph,
    parts: Edges,
    clean: IntArray,
    now_of_old: IntArray,
    catalog: Catalog,
    prints: Prints,
) -> Graph:
    """New lists among those that stay as they are.

    Args:
        old: the graph before.
        parts: the new lists, in order.
        clean: old items whose lists stay, rising.
        now_of_old: their new positions.
        catalog, prints: of the new graph.
    """
    added = np.bincount(parts.owner, minlength=len(catalog))
    lengths_before = np.diff(old.start)[clean]
    lengths = added.copy()
    lengths[now_of_old[clean]] = lengths_before
    start = starts(lengths)
    stays = np.repeat(np.isin(np.arange(len(old)), clean, assume_unique=True), np.diff(old.start))
    goes = ranges(start[now_of_old[clean]], lengths_before)
    position = np.arange(len(parts.owner), dtype=np.int64) + (start - starts(added))[parts.owner]

    def column(before: npt.NDArray[T], new: npt.NDArray[T]) -> npt.NDArray[T]:
        out = np.empty(int(start[-1]), dtype=before.dtype)
        out[goes] = before
        out[position] = new
        return out

    return replace(
        old,
        catalog=catalog.hash,
        prints=prints,
        start=start,
        item=column(now_of_old[old.item[stays]], parts.item),
        score=column(old.score[stays], parts.score),
        own_chunk=column(old.own_chunk[stays], parts.own_chunk),
        other_chunk=column(old.other_chunk[stays], parts.other_chunk),
    )


def _matched(old: Prints, new: Prints) -> tuple[IntArray, BoolArray]:
    """The new position of each old item, -1 if it is gone or has changed; and which new items the old are not."""
    position = {print_: row for row, print_ in enumerate(new.tolist())}
    new_of_old = np.array([position.get(print_, -1) for print_ in old.tolist()], dtype=np.int64)
    changed = np.ones(len(new), dtype=np.bool_)
    changed[new_of_old[new_of_old >= 0]] = False
    return new_of_old, changed


def _unsure(old: Graph, now_of_old: IntArray, merged: Edges, lossy: IntArray) -> IntArray:
    """New positions of items whose full list lost an entry, so that one that it does not hold may belong in it.

    Whatever a full list does not hold stands behind its last entry. With as many entries before that as the list may
    hold, nothing is missing.

    Args:
        old: the graph before.
        now_of_old: new positions.
        merged: the lists of all items below, in order, with what is new in them.
        lossy: old positions of the items that lost an entry.
    """
    limit = old.spec.neighbours
    unsure = []
    for before in lossy[np.diff(old.start)[lossy] >= limit].tolist():
        item = int(now_of_old[before])
        mine = slice(*np.searchsorted(merged.owner, [item, item + 1]).tolist())
        last = int(old.start[before + 1]) - 1
        last_item, score, items = now_of_old[old.item[last]], merged.score[mine], merged.item[mine]
        sure = score > old.score[last]
        if last_item >= 0:  # else the last entry itself is gone, and only what scores above it is sure
            sure |= (score == old.score[last]) & (items <= last_item)
        if int(sure.sum()) < limit:
            unsure.append(item)
    return np.array(unsure, dtype=np.int64)


class _ChunkView:
    """The chunks of a catalog by item, and what a similarity of items needs of them."""

    def __init__(self, matrix: ChunkMatrix, spec: GraphSpec) -> None:
        self._matrix = matrix
        self._spec = spec
        self._span = spans(matrix)
        self.held = matrix.item[matrix.first]

    @cached_property
    def _items(self) -> tuple[FloatArray, Float32Array]:
        """A vector of each item whose dot product is the similarity (mean or centroid), shape (n_held, d)."""
        sums = np.add.reduceat(self._matrix.vectors.astype(np.float64), self._matrix.first, axis=0)
        means: FloatArray = sums / np.diff(self._span)[:, None]
        if self._spec.similarity == "centroid":
            length = np.sqrt(np.add.reduce(means * means, axis=1))
            means = means / np.where(length > 0, length, 1.0)[:, None]
        return means, means.astype(np.float32)

    def edges(self, rows: IntArray, *, limit: int | None) -> Edges:
        """The entries of some of the items held, in order; at most `limit` each."""
        return Edges.joined([self._block(block, limit) for block in self._blocks(rows)])

    def turned(self, edges: Edges) -> Edges:
        """The same entries in the lists of the other items: of equal pairs of chunks the first by their own chunk."""
        parts = []
        for first in range(0, len(edges.owner), _AT_ONCE):
            part = edges.select_rows(np.arange(first, min(first + _AT_ONCE, len(edges.owner)), dtype=np.int64))
            row = np.arange(len(part.owner), dtype=np.int64)
            rows, columns = positions_in(self.held, part.item), positions_in(self.held, part.owner)
            _, left, right = self._exact(rows, row, columns, None)
            ordinal = self._matrix.ordinal
            parts.append(Edges(part.item, part.owner, part.score, ordinal[left], ordinal[right]))
        return Edges.joined(parts)

    def _blocks(self, rows: IntArray) -> Iterator[IntArray]:
        """The rows in runs whose product has at most `BLOCK` cells, or of a single item."""
        by_chunk = self._spec.similarity == "max"
        height = np.diff(self._span)[rows] if by_chunk else np.ones(len(rows), dtype=np.int64)
        width = len(self._matrix.item) if by_chunk else len(self.held)
        return (rows[first:last] for first, last in blocks(starts(height), BLOCK // max(width, 1)))

    def _block(self, rows: IntArray, limit: int | None) -> Edges:
        proposed, chunks = self._proposed(rows)
        proposed[np.arange(len(rows)), rows] = -np.inf
        margin = np.float32(MARGIN)
        bound = np.full(len(rows), np.float32(self._spec.threshold) - margin)
        n = proposed.shape[1]
        if limit is not None and limit < n:
            bound = np.maximum(bound, np.partition(proposed, n - limit, axis=1)[:, n - limit] - margin)
        row, column = np.nonzero(proposed >= bound[:, None])
        score, left, right = self._exact(rows, row, column, chunks)
        keep = score >= self._spec.threshold
        ordinal = self._matrix.ordinal
        edges = (
            Edges(self.held[rows[row]], self.held[column], score, ordinal[left], ordinal[right])
            .select_rows(keep)
            .sorted()
        )
        return edges if limit is None else edges.first(limit)

    def _proposed(self, rows: IntArray) -> tuple[Float32Array, Float32Array | None]:
        """Similarity of some items with all by a float32 product, and that of their chunks with all chunks."""
        if self._spec.similarity != "max":
            vectors = self._items[1]
            return multiply(vectors[rows], vectors), None
        vectors, height = self._matrix.vectors, np.diff(self._span)[rows]
        chunks = multiply(vectors[ranges(self._span[rows], height)], vectors)
        of_items = chunks if len(chunks) == len(rows) else np.maximum.reduceat(chunks, starts(height)[:-1], axis=0)
        if len(self.held) < len(vectors):
            of_items = np.maximum.reduceat(of_items, self._matrix.first, axis=1)
        return of_items.copy() if of_items is chunks else of_items, chunks

    def _exact(
        self, rows: IntArray, row: IntArray, column: IntArray, chunks: Float32Array | None
    ) -> tuple[FloatArray, IntArray, IntArray]:
        """Similarity of pairs of items and the rows of their best pair of chunks.

        Args:
            rows: the items of the block.
            row, column: the pairs, shape (n,): positions in `rows` and in the items held.
            chunks: proposed similarity of the block's chunks with all, or None.
        """
        vectors = self._matrix.vectors
        pair, left, right = every_pair(rows[row], column, self._span, self._span)
        proposed = None
        if chunks is not None:
            offset = starts(np.diff(self._span)[rows])[:-1] - self._span[rows]
            proposed = chunks[left + offset[row][pair], right]
        best = best_pairs((pair, left, right), vectors, vectors, n=len(row), proposed=proposed)
        score = best.score
        if self._spec.similarity != "max":
            items = self._items[0]
            score = dots(items, items, rows[row], column)
        return score, best.left, best.right
