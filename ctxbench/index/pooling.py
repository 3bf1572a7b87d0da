"""Pooling: one score of an item from the similarities of all its chunks to all chunks of a request."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, TypeAlias

import numpy as np

from ctxbench.core.arrays import Float32Array, FloatArray, IntArray, ranges
from ctxbench.core.candidates import MARGIN
from ctxbench.core.masks import Masks
from ctxbench.index.dense import ChunkMatrix, Hits, products
from ctxbench.index.products import row_dots

Pool: TypeAlias = Literal["max", "mean", "top"]


@dataclass(frozen=True)
class Pooling:
    """How similarities become a score: for each query chunk over the item's chunks, then over query chunks.

    Attributes:
        over_chunks: `max`, `mean`, or `top`: the mean of the best `top` (of all there are, if fewer).
        over_queries: likewise over the query chunks, each of which first counts times its weight: `max` and `top` of
            the weighted values; `mean` is their sum over the sum of weights.
        top: how many `top` takes, >= 1.
    """

    over_chunks: Pool = "max"
    over_queries: Pool = "max"
    top: int = 1

    @property
    def by_best_pair(self) -> bool:
        """Whether an item scores as its best pair, which `search` is made for."""
        return self.over_chunks == self.over_queries == "max"

    def search(
        self,
        queries: Float32Array,
        start: IntArray,
        eligible: Masks,
        matrix: ChunkMatrix,
        *,
        depth: int,
        weight: FloatArray,
    ) -> Iterator[Hits]:
        """Find the best items of each request by a pooled score: one hit an item.

        Args:
            queries: vectors of all query chunks, shape (n_query_chunks, n_dimensions).
            start: CSR starts by request, shape (n_requests + 1,).
            eligible: what each request may get.
            matrix: the chunks to search.
            depth: items found a request.
            weight: shape (n_query_chunks,).

        Yields:
            The items of each request, best first, ties in catalog order; row and query chunk are those of the item's
            best pair. None for a request without chunks or without eligible items.

        Raises:
            EmbeddingError: a query vector holds NaN or infinity.
        """
        for request, parts in itertools.groupby(products(queries, start, matrix), key=itemgetter(0)):
            pieces = [product for *_, product in parts]
            scores = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
            mine = slice(int(start[request]), int(start[request + 1]))
            allowed = np.flatnonzero(eligible[request][matrix.item[matrix.first]])
            yield self._exact(queries[mine], scores, matrix, allowed=allowed, depth=depth, weight=weight[mine])

    def _exact(
        self,
        queries: Float32Array,
        scores: Float32Array,
        matrix: ChunkMatrix,
        *,
        allowed: IntArray,
        depth: int,
        weight: FloatArray,
    ) -> Hits:
        """Turn the proposed products of one request, shape (n_query_chunks, n_chunks), into exact hits, one an item.

        Args:
            allowed: positions in `matrix.first` of the items that may be found, rising.
        """
        if len(scores) == 0 or len(allowed) == 0:
            none = np.empty(0, dtype=np.int64)
            return Hits(none, none, np.empty(0, dtype=np.float64))
        size = np.diff(np.append(matrix.first, len(matrix.item)))
        if len(allowed) > depth:
            rows, of_item = _rows(matrix.first[allowed], size[allowed])
            proposed = _pooled(scores[:, rows].astype(np.float64), of_item, len(allowed), weight, self)
            margin = MARGIN * max(1.0, float(weight.max()))
            limit = np.partition(proposed, len(proposed) - depth)[len(proposed) - depth] - margin
            allowed = allowed[proposed >= limit]
        rows, of_item = _rows(matrix.first[allowed], size[allowed])
        vectors = matrix.vectors[rows]
        table = np.stack([row_dots(np.repeat(query[None], len(rows), axis=0), vectors) for query in queries])
        score = _pooled(table, of_item, len(allowed), weight, self)
        best = np.argsort(-score, kind="stable")[:depth]
        query, row = _best_pairs(table * weight[:, None], rows, of_item, len(allowed))
        return Hits(row[best], query[best], score[best])


def _rows(first: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
    """The rows of some items' chunks, one item behind the other, and the place of the item of each."""
    return ranges(first, size), np.repeat(np.arange(len(first), dtype=np.int64), size)


def _pooled(table: FloatArray, of_item: IntArray, n_items: int, weight: FloatArray, pooling: Pooling) -> FloatArray:
    """Scores of items, shape (n_items,), from products, shape (n_query_chunks, n_chunks)."""
    by_query = np.stack([_pool(row, of_item, n_items, pooling.over_chunks, pooling.top) for row in table])
    weighted = by_query * weight[:, None]
    group = np.tile(np.arange(n_items, dtype=np.int64), len(weighted))
    if pooling.over_queries == "mean":  # added in order, so that nothing but the item's own values decides the bits
        total = np.bincount(np.zeros(len(weight), dtype=np.int64), weight)
        return np.divide(np.bincount(group, weighted.reshape(-1), n_items), total)
    return _pool(weighted.reshape(-1), group, n_items, pooling.over_queries, pooling.top)


def _pool(values: FloatArray, group: IntArray, n_groups: int, how: Pool, top: int) -> FloatArray:
    """Pool values by group, each of which has at least one, shape (n_groups,); sums are made in order."""
    if how == "max":
        best = np.full(n_groups, -np.inf)
        np.maximum.at(best, group, values)
        return best
    if how == "top":
        by_value = np.lexsort((-values, group))
        values, group = values[by_value], group[by_value]
        count = np.bincount(group, minlength=n_groups)
        rank = np.arange(len(group)) - np.repeat(np.cumsum(count) - count, count)
        values, group = values[rank < top], group[rank < top]
    return np.divide(np.bincount(group, values, n_groups), np.bincount(group, minlength=n_groups))


def _best_pairs(weighted: FloatArray, rows: IntArray, of_item: IntArray, n_items: int) -> tuple[IntArray, IntArray]:
    """Query chunk and row of the best pair of each item; of equals the first chunk, then the first query chunk."""
    query = weighted.argmax(axis=0)
    best = weighted[query, np.arange(len(rows))]
    by_item = np.lexsort((rows, -best, of_item))
    first = np.searchsorted(of_item[by_item], np.arange(n_items))
    chosen = by_item[first]
    return query[chosen].astype(np.int64), rows[chosen]
