"""The relationship graph of a catalog: compute it, store it, and look up related items.

The list of an item has the items at least as similar as the threshold, best first, with the most similar pair of
chunks. A graph does not depend on blocks, threads or machine; an updated graph equals a new one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import shlex
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ctxbench.io.errors import Message, ParameterError, StorageError, check_choice, check_range
from ctxbench.io.files import read_bytes, write_atomic
from ctxbench.model.arrays import BoolArray, Float32Array, FloatArray, IntArray, firsts, frozen, owners, ranges, starts
from ctxbench.model.candidates import MARGIN
from ctxbench.model.items import Catalog, Item
from ctxbench.model.resources import Resources, index_over
from ctxbench.search.chunking import DOCUMENTS
from ctxbench.search.dense import (
    BLOCK,
    Edges,
    best_pairs,
    dense_index,
    dots,
    every_pair,
    heads,
    multiply,
    positions_in,
)
from ctxbench.search.vector_files import ChunkMatrix, blocks, spans

T = TypeVar("T", bound=np.generic)
Prints: TypeAlias = np.ndarray[tuple[int], np.dtype[np.void]]
SIMILARITIES = ("max", "mean", "centroid")
_ENTRIES_AT_ONCE = 65_536  # entries turned at once


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
    back = view.turned(fresh.select_rows(~changed[fresh.item]))
    gone = now_of_old < 0
    lossy = np.unique(np.searchsorted(old.start, np.flatnonzero(gone[old.item]), side="right") - 1)
    dirty = gone.copy()  # old items whose list does not stay as it is
    dirty[lossy] = True
    dirty[np.isin(now_of_old, back.owner)] = True
    entries = old.of(np.flatnonzero(dirty & ~gone), first=old.spec.neighbours)
    moved = entries._replace(owner=now_of_old[entries.owner], item=now_of_old[entries.item])
    merged = Edges.joined([moved.select_rows(moved.item >= 0), back]).sorted()
    unsure = _unsure(old, now_of_old, merged, lossy[~gone[lossy]])
    recomputed = view.edges(positions_in(view.held, unsure), limit=old.spec.neighbours)
    parts = Edges.joined([merged.select_rows(~np.isin(merged.owner, unsure)), recomputed, fresh])
    parts = parts.sorted().first(old.spec.neighbours)
    return _spliced(old, parts, np.flatnonzero(~dirty), now_of_old, catalog, prints)


def _spliced(
    old: Graph,
    parts: Edges,
    clean: IntArray,
    now_of_old: IntArray,
    catalog: Catalog,
    prints: Prints,
) -> Graph:
    """New lists among those that stay unchanged.

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

    Whatever a full list does not hold is behind its last entry. With as many entries before that as the list may
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
        for first in range(0, len(edges.owner), _ENTRIES_AT_ONCE):
            part = edges.select_rows(np.arange(first, min(first + _ENTRIES_AT_ONCE, len(edges.owner)), dtype=np.int64))
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


_KEPT = 64_000_000  # bytes of rows that are kept


def either(preferred: Edges, alternative: Edges) -> Edges:
    """What is in one or the other; what is in both has its higher score, of equals that of `preferred`."""
    edges = Edges.joined([preferred, alternative])
    by_item = np.lexsort((-edges.score, edges.item))  # stable: of equals `preferred` is first
    best = by_item[firsts(edges.item[by_item])]
    return edges.select_rows(best[np.lexsort((edges.item[best], -edges.score[best]))])


@dataclass(frozen=True, eq=False)
class QueryWeighting:
    """The query's part in a ranking.

    Attributes:
        vectors: of the request's chunks, shape (n_query_chunks, d).
        weight: of the chunks, > 0.
        share: of the score that is the item's similarity with the query, 0 to 1; the rest is its similarity with the
            item that led to it.
    """

    vectors: Float32Array
    weight: FloatArray
    share: float


class Relatives:
    """Similarity of the items of a chunk matrix. Rows are kept, so that an item that leads again costs next to nothing.

    Args:
        matrix: the chunks.
        only_heads: compare only the first chunk of each item.
    """

    def __init__(self, matrix: ChunkMatrix, *, only_heads: bool = False) -> None:
        self.matrix = matrix
        self._compared = heads(matrix) if only_heads else matrix
        self._span, self._whole_span = spans(self._compared), spans(matrix)
        self._items = matrix.item[matrix.first]
        self._rows: dict[int, Float32Array] = {}

    def chunks_of(self, items: IntArray) -> IntArray:
        """The chunks of some items, as rows of the matrix that is compared, rising.

        Args:
            items: catalog positions, rising; items without a chunk have none.
        """
        position = positions_in(self._items, items)
        return every_pair(position, np.zeros(len(position), np.int64), self._span, np.array([0, 1], dtype=np.int64))[1]

    def near(
        self, rows: IntArray, allowed: BoolArray, *, threshold: float, limit: int, query: QueryWeighting | None = None
    ) -> Edges:
        """The items most similar to some chunks (max pooling).

        Args:
            rows: the chunks that lead, of `chunks_of`.
            allowed: items that may be found, shape (n_items,).
            threshold: least similarity.
            limit: at most this many.
            query: mixes similarity with the query into the ranking; None leaves it out.
        """
        may = allowed[self._items]
        if not len(rows) or not may.any():
            return Edges.joined([])
        proposed = self._proposed(rows)
        best = proposed.max(axis=0)
        margin = np.float32(MARGIN)
        may &= best >= np.float32(threshold) - margin
        doubtful = np.flatnonzero(may & (best < np.float32(threshold) + margin))
        if len(doubtful):
            may[doubtful] = self._exact(rows, proposed, best, doubtful).score >= threshold
        positions = np.flatnonzero(may)
        positions = positions[self._shortlisted(positions, best[positions], limit, query)]
        if not len(positions):
            return Edges.joined([])
        return self.ranked(self._exact(rows, proposed, best, positions), limit, query)

    def _proposed(self, rows: IntArray) -> Float32Array:
        """Similarity of chunks with all items by a float32 product, shape (n_rows, n_held)."""
        if missing := [row for row in rows.tolist() if row not in self._rows]:
            if (len(self._rows) + len(missing)) * 4 * len(self._items) > _KEPT:
                self._rows.clear()
                missing = rows.tolist()
            vectors = self._compared.vectors
            product = multiply(vectors[missing], vectors)
            if len(self._items) < len(vectors):
                product = np.maximum.reduceat(product, self._compared.first, axis=1)
            self._rows.update(zip(missing, product, strict=True))
        return np.array([self._rows[row] for row in rows.tolist()])

    def _exact(self, rows: IntArray, proposed: Float32Array, best: Float32Array, positions: IntArray) -> Edges:
        """The exact similarity of some of the items held, by place, with what leads to each."""
        lead, group = np.nonzero(proposed[:, positions] >= best[positions] - np.float32(MARGIN))
        pair, _, right = every_pair(lead, positions[group], np.arange(len(rows) + 1, dtype=np.int64), self._span)
        vectors = self._compared.vectors
        pairs = best_pairs((group[pair], rows[lead[pair]], right), vectors, vectors, n=len(positions))
        item, ordinal = self._compared.item, self._compared.ordinal
        return Edges(item[pairs.left], item[pairs.right], pairs.score, ordinal[pairs.left], ordinal[pairs.right])

    def _shortlisted(
        self, positions: IntArray, best: Float32Array, limit: int, query: QueryWeighting | None
    ) -> IntArray:
        """Which places are among the first `limit`, and what is so near that only exact scores can tell."""
        n = len(positions)
        if n <= limit:
            return np.arange(n, dtype=np.int64)
        rank = best
        if query is not None:
            rank = (
                np.float32(1 - query.share) * best + np.float32(query.share) * self._query_similarity(query)[positions]
            )
        margin = MARGIN if query is None else MARGIN * max(1.0, float(query.weight.max(initial=1.0)))
        return np.flatnonzero(rank >= np.partition(rank, n - limit)[n - limit] - np.float32(margin))

    def _query_similarity(self, query: QueryWeighting) -> Float32Array:
        """Similarity of the query with all items held by a float32 product, shape (n_held,)."""
        if not len(query.vectors):
            return np.zeros(len(self._items), dtype=np.float32)
        product = multiply(query.vectors, self.matrix.vectors) * query.weight[:, None].astype(np.float32)
        return np.asarray(np.maximum.reduceat(product.max(axis=0), self.matrix.first))

    def ranked(self, edges: Edges, limit: int, weighting: QueryWeighting | None) -> Edges:
        """The first `limit` by similarity, or by what `weighting` makes of it."""
        if weighting is None:
            return best_first(edges, limit)
        positions = positions_in(self._items, edges.item)
        near = self._shortlisted(positions, edges.score.astype(np.float32), limit, weighting)
        edges, positions = edges.select_rows(near), positions[near]
        low, high = self._whole_span[positions], self._whole_span[positions + 1]
        query = _query_score(weighting, self.matrix, np.arange(len(positions), dtype=np.int64), low, high)
        score = (1.0 - weighting.share) * edges.score + weighting.share * query
        return best_first(edges._replace(score=score), limit)


def best_first(edges: Edges, limit: int) -> Edges:
    """The first `limit` by score, of equals in catalog order."""
    return edges.select_rows(np.lexsort((edges.item, -edges.score))[:limit])


def looked_up(
    graph: Graph,
    items: IntArray,
    allowed: BoolArray,
    *,
    threshold: float,
    neighbours: int,
) -> Edges:
    """All items that a graph holds as similar to some others, best first; those of equal score in catalog order.

    Args:
        graph: over the catalog.
        items: catalog positions that lead.
        allowed: items that may be found, shape (n_items,).
        threshold: least similarity.
        neighbours: at most this many of each item that leads, allowed or not.
    """
    edges = graph.of(items, first=neighbours)
    edges = edges.select_rows((edges.score >= threshold) & allowed[edges.item])
    edges = edges.select_rows(np.lexsort((edges.other_chunk, edges.own_chunk, edges.owner, -edges.score, edges.item)))
    return edges.select_rows(firsts(edges.item))


def _query_score(
    query: QueryWeighting, matrix: ChunkMatrix, group: IntArray, low: IntArray, high: IntArray
) -> FloatArray:
    """The exact score of groups of rows of a matrix with the query, as `dense` gives it; 0 without a query chunk."""
    n = len(query.vectors)
    if not n:
        return np.zeros(len(group), dtype=np.float64)
    span = np.stack([low, high], axis=1).ravel()
    pair, left, right = every_pair(np.zeros(len(group), np.int64), 2 * group, np.array([0, n], dtype=np.int64), span)
    return best_pairs((pair, left, right), query.vectors, matrix.vectors, n=len(group), weight=query.weight).score


FORMAT = 1
CHUNKING = repr(DOCUMENTS)
_ARRAYS = {"start": "<i8", "item": "<i4", "score": "<f8", "own_chunk": "<i4", "other_chunk": "<i4"}
_META: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("catalog", "embedder", "chunking", "similarity", "sha256"), str),
    "threshold": (int, float),
    "neighbours": int,
    "heads": bool,
}
_DAMAGE = (KeyError, ValueError, TypeError, EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error)


def make_graph(
    catalog: Catalog, resources: Resources, spec: GraphSpec, *, old: Graph | None = None, grown: bool = False
) -> Graph:
    """Compare all items of a catalog, each embedded first where it is not yet.

    Args:
        catalog: the items.
        resources: where vectors come from.
        spec: what is held.
        old: the graph of an earlier state of the catalog; if it was made in the same way, only what changed is
            computed.
        grown: the catalog is known to begin with the items of the old graph.
    """
    matrix = dense_index(catalog, resources).matrix(np.ones(len(catalog), dtype=np.bool_), resources.vectors)
    embedder = resources.identity("embedder")
    if old is not None and (old.spec, old.embedder, old.chunking) == (spec, embedder, CHUNKING):
        return update_graph(old, catalog, matrix, grown=grown)
    return build_graph(catalog, matrix, spec, embedder=embedder, chunking=CHUNKING)


def kept_graph(catalog: Catalog, resources: Resources, spec: GraphSpec) -> Graph:
    """The graph of a catalog, kept with the resources by identities and search texts.

    It is made at the first use: from that of the catalog that this one extends, else from the one made last if it fits.
    """
    last: list[Graph] = resources.get_or_create(("last graph", spec), list)

    def remade(old: Graph | None, *, grown: bool) -> Graph:
        last[:] = [make_graph(catalog, resources, spec, old=old, grown=grown)]
        return last[0]

    return index_over(
        catalog,
        resources,
        ("graph", spec),
        over=DOCUMENTS.over,
        make=lambda: remade(last[0] if last else None, grown=False),
        extend=lambda old: remade(old, grown=True),
    )


def stored_graph(path: str, catalog: Catalog, resources: Resources, spec: GraphSpec) -> Graph:
    """The graph in a file, held to what is asked of it; read and checked once as long as the file stays unchanged.

    Raises:
        StorageError: it is missing or damaged.
        ParameterError: it does not fit, as `check_graph` says.
    """

    def checked() -> bool:
        check_graph(path, catalog, embedder=resources.identity("embedder"), spec=spec)
        return True

    status = Path(path).stat() if Path(path).is_file() else None  # a missing file is for the check to say
    state = None if status is None else (status.st_mtime_ns, status.st_size, status.st_ino)
    resources.get_or_create(("graph file fits", path, state, catalog.hash, spec), checked)
    return resources.get_or_create(("graph file", path, state), lambda: read_graph(path))


def write_graph(path: Path | str, graph: Graph) -> None:
    """Write a graph whole or not at all; equal graphs give equal bytes, whoever of several processes is last.

    Raises:
        StorageError: the disk is full, or the place cannot be written.
    """
    arrays: dict[str, Any] = {name: getattr(graph, name).astype(kind) for name, kind in _ARRAYS.items()}
    arrays["prints"] = np.frombuffer(graph.prints.tobytes(), dtype=np.uint8)
    meta = {**made_from(graph), "sha256": _digest(arrays)}
    arrays["meta"] = np.frombuffer(json.dumps(meta, sort_keys=True).encode(), dtype=np.uint8)
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    write_atomic(path, stream.getvalue())


def made_from(graph: Graph) -> dict[str, Any]:
    """What a graph was made of: the hash of its catalog, the model's identity, the chunking, and what it holds."""
    return {
        "format": FORMAT,
        "catalog": graph.catalog,
        "embedder": graph.embedder,
        "chunking": graph.chunking,
        **dataclasses.asdict(graph.spec),
    }


def read_meta(path: Path | str) -> dict[str, Any]:
    """What the graph in a file was made of; its lists are not read.

    Raises:
        StorageError: the file is missing, damaged, or holds no graph of this format.
    """
    if Path(path).is_dir():
        raise StorageError(f"{path} is a folder; expected a relationship graph, a file that `ctxbench graph` makes")
    if not Path(path).is_file():
        raise StorageError(f"there is no relationship graph {path}; make it with `{_command(path)}`")
    if not zipfile.is_zipfile(path):
        raise StorageError(f"{path} is damaged, or not a relationship graph; make one with `{_command(path)}`")
    try:
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            meta: dict[str, Any] = json.loads(stored["meta"].tobytes())
        version = meta["format"]
        if version == FORMAT and (wrong := [name for name, kind in _META.items() if not isinstance(meta[name], kind)]):
            raise ValueError(f"its {', '.join(wrong)} cannot be read")
    except _DAMAGE as error:
        raise StorageError(_damaged(path, error)) from error
    if version != FORMAT:
        raise StorageError(f"{path} holds a graph of format {version}, expected {FORMAT}; make it again")
    return meta


def read_graph(path: Path | str) -> Graph:
    """Read a graph.

    Raises:
        StorageError: the file is missing or damaged, or holds no graph of this format.
    """
    meta = read_meta(path)
    try:
        with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in (*_ARRAYS, "prints")}
        if _digest(arrays) != meta["sha256"]:
            raise ValueError("its checksum is wrong")
        names = [field.name for field in dataclasses.fields(GraphSpec)]
        numbers = {name: arrays[name].astype(np.float64 if name == "score" else np.int64) for name in _ARRAYS}
        return Graph(
            spec=GraphSpec(**{name: meta[name] for name in names}),
            catalog=meta["catalog"],
            embedder=meta["embedder"],
            chunking=meta["chunking"],
            prints=np.frombuffer(arrays["prints"].tobytes(), dtype="V16"),
            **numbers,
        )
    except _DAMAGE as error:
        raise StorageError(_damaged(path, error)) from error


def check_graph(path: Path | str, catalog: Catalog, *, embedder: str, spec: GraphSpec) -> None:
    """Check that a stored graph fits what is asked of it; neither its lists nor a model are loaded.

    Args:
        path: the file.
        catalog: whose items will be looked up.
        embedder: key of the identity of the embedder in use.
        spec: what is asked; the graph's threshold may be lower, and its lists longer.

    Raises:
        StorageError: the file is missing or damaged.
        ParameterError: it is of another catalog, model, chunking or similarity, or holds less; all of that at once.
    """
    meta = read_meta(path)
    faults = []
    expected = {"catalog": catalog.hash, "embedder": embedder, "chunking": CHUNKING, "similarity": spec.similarity}
    for name, value in {**expected, "heads": str(spec.heads)}.items():
        if str(meta[name]) != value:
            actual, required = (text[:12] if name == "catalog" else text for text in (str(meta[name]), value))
            faults.append(Message("search.graph-differs", name=name, actual=actual, expected=required))
    if meta["threshold"] > spec.threshold:
        at_most = f"at most {spec.threshold:g}"
        faults.append(
            Message("search.graph-differs", name="threshold", actual=f"{meta['threshold']:g}", expected=at_most)
        )
    if meta["neighbours"] < spec.neighbours:
        at_least = f"at least {spec.neighbours}"
        faults.append(Message("search.graph-differs", name="neighbours", actual=meta["neighbours"], expected=at_least))
    if faults:
        raise ParameterError(f"the graph {path} does not fit: {'; '.join(faults)}. Make it again: `{_command(path)}`")


def _digest(arrays: Mapping[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in (*_ARRAYS, "prints"):
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def _damaged(path: Path | str, why: BaseException) -> str:
    return Message("search.graph-damaged", path=path, error=type(why).__name__, reason=why)


def _command(path: Path | str) -> str:
    """What makes a graph in a file, of a catalog that the user names."""
    return f"ctxbench graph CATALOG --out {shlex.quote(str(path))}"
