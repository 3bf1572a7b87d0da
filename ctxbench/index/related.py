"""Items related to others: by their chunks, or looked up in a graph; the best few of what is allowed, exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctxbench.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, firsts
from ctxbench.core.candidates import MARGIN
from ctxbench.index.dense import ChunkMatrix
from ctxbench.index.graph import Graph
from ctxbench.index.pairs import Edges, best_pairs, every_pair, heads, positions_in, spans
from ctxbench.index.products import multiply

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
        self._held = matrix.item[matrix.first]
        self._rows: dict[int, Float32Array] = {}

    def lent(
        self, items: IntArray, *, limit: int = 0, above: float | None = None, query: QueryWeighting | None = None
    ) -> IntArray:
        """The chunks that some items lend, as rows of the matrix that is compared, rising.

        Args:
            items: catalog positions, rising; those without a chunk lend none.
            limit: at most this many of an item, those nearest to the query; 0 = all.
            above: only chunks that score at least this with the query.
            query: for `limit` and `above`.
        """
        position = positions_in(self._held, items)
        pair, rows, _ = every_pair(
            position, np.zeros(len(position), np.int64), self._span, np.array([0, 1], dtype=np.int64)
        )
        if (not limit and above is None) or query is None or not len(rows):
            return rows
        score = _query_score(query, self._compared, np.arange(len(rows), dtype=np.int64), rows, rows + 1)
        if above is not None:
            return rows[score >= above]
        by_score = np.lexsort((rows, -score, pair))
        rank = np.arange(len(rows), dtype=np.int64) - np.searchsorted(pair, pair)
        return np.sort(rows[by_score[rank < limit]])

    def near(
        self, rows: IntArray, allowed: BoolArray, *, threshold: float, limit: int, query: QueryWeighting | None = None
    ) -> Edges:
        """The items most similar to some chunks (max pooling).

        Args:
            rows: the chunks that lead, of `lent`.
            allowed: items that may be found, shape (n_items,).
            threshold: least similarity.
            limit: at most this many.
            query: mixes similarity with the query into the ranking; None leaves it out.
        """
        may = allowed[self._held]
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
        missing = [row for row in rows.tolist() if row not in self._rows]
        if missing:
            if (len(self._rows) + len(missing)) * 4 * len(self._held) > _KEPT:
                self._rows.clear()
                missing = rows.tolist()
            vectors = self._compared.vectors
            product = multiply(vectors[missing], vectors)
            if len(self._held) < len(vectors):
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
            return np.zeros(len(self._held), dtype=np.float32)
        product = multiply(query.vectors, self.matrix.vectors) * query.weight[:, None].astype(np.float32)
        return np.asarray(np.maximum.reduceat(product.max(axis=0), self.matrix.first))

    def ranked(self, edges: Edges, limit: int, weighting: QueryWeighting | None) -> Edges:
        """The first `limit` by similarity, or by what `weighting` makes of it."""
        if weighting is None:
            return best_first(edges, limit)
        positions = positions_in(self._held, edges.item)
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
