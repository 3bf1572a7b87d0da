"""Pairs of items, and of chunks of two items: which are the most alike, exactly.

As in `ctxbench.index.dense`, BLAS proposes and a float64 dot product by rows decides: of the pairs that a float32
product puts within `MARGIN` of the best, the best is found again from the two vectors alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ctxbench.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, firsts, owners, starts
from ctxbench.core.candidates import MARGIN
from ctxbench.index.dense import ChunkMatrix
from ctxbench.index.products import row_dots

_AT_ONCE = 8_192  # rows multiplied at once: 50 MB in float64 at 384 dimensions


class Edges(NamedTuple):
    """Items similar to others: to which, what, how much, and the pair of chunks that is the most alike.

    Attributes:
        owner, item: catalog positions, shape (n,): whose list an entry is of, or what led to an item; and the item.
        score: their similarity, or what `item` is ranked by, float64.
        own_chunk, other_chunk: the pair of chunks, as places within the two items.
    """

    owner: IntArray
    item: IntArray
    score: FloatArray
    own_chunk: IntArray
    other_chunk: IntArray

    def select_rows(self, rows: BoolArray | IntArray) -> Edges:
        """Some of them, in the order of `rows`."""
        owner, item, score = self.owner[rows], self.item[rows], self.score[rows]
        return Edges(owner, item, score, self.own_chunk[rows], self.other_chunk[rows])

    def sorted(self) -> Edges:
        """By owner, then score descending, then item."""
        return self.select_rows(np.lexsort((self.item, -self.score, self.owner)))

    def first(self, limit: int) -> Edges:
        """The first `limit` of each owner, of those in order."""
        new = firsts(self.owner)
        position = np.arange(len(self.owner), dtype=np.int64)
        return self.select_rows(position - np.maximum.accumulate(np.where(new, position, 0)) < limit)

    @classmethod
    def joined(cls, parts: Sequence[Edges]) -> Edges:
        """The entries of all parts, one behind the other."""
        none = np.empty(0, dtype=np.int64)
        return cls(
            np.concatenate([none, *(part.owner for part in parts)]),
            np.concatenate([none, *(part.item for part in parts)]),
            np.concatenate([np.empty(0, dtype=np.float64), *(part.score for part in parts)]),
            np.concatenate([none, *(part.own_chunk for part in parts)]),
            np.concatenate([none, *(part.other_chunk for part in parts)]),
        )


@dataclass(frozen=True, eq=False)
class BestPairs:
    """For each of some pairs of items (or of a request and an item) the pair of chunks that is the most alike.

    Attributes:
        score: float64 dot product, times the weight of the left chunk, shape (n,).
        left, right: rows of the winning chunks, shape (n,); of equals the first left one, then the first right one.
    """

    score: FloatArray
    left: IntArray
    right: IntArray


def spans(matrix: ChunkMatrix) -> IntArray:
    """CSR starts of the chunks of the items held, shape (n_held + 1,)."""
    return np.append(matrix.first, len(matrix.item)).astype(np.int64)


def heads(matrix: ChunkMatrix) -> ChunkMatrix:
    """The first chunk of every item alone: that which holds its name and description."""
    first = matrix.first
    return ChunkMatrix.of(matrix.vectors[first], matrix.item[first], matrix.ordinal[first])


def positions_in(sorted_items: IntArray, items: IntArray) -> IntArray:
    """Where items stand among those held, which rise; those that are not there are left out."""
    position = np.searchsorted(sorted_items, items)
    is_present = position < len(sorted_items)
    is_present[is_present] = sorted_items[position[is_present]] == items[is_present]
    return position[is_present].astype(np.int64)


def every_pair(left: IntArray, right: IntArray, left_span: IntArray, right_span: IntArray) -> tuple[IntArray, ...]:
    """All pairs of rows of two sides, for several pairs of groups of rows.

    Args:
        left, right: the groups, shape (n,): places in the spans.
        left_span, right_span: CSR starts of the rows of each group.

    Returns:
        (pair, left row, right row), each of shape (number of pairs of rows,), by pair, left row, right row.
    """
    n_right = right_span[right + 1] - right_span[right]
    count = (left_span[left + 1] - left_span[left]) * n_right
    start = starts(count)
    pair = owners(start)
    within = np.arange(int(start[-1]), dtype=np.int64) - start[pair]
    width = np.maximum(n_right, 1)[pair]
    return pair, left_span[left][pair] + within // width, right_span[right][pair] + within % width


def best_pairs(
    pairs: tuple[IntArray, ...],
    left: Float32Array,
    right: Float32Array,
    *,
    n: int,
    proposed: Float32Array | None = None,
    weight: FloatArray | None = None,
) -> BestPairs:
    """Find the best pair of rows of each of `n` groups of pairs, exactly.

    Args:
        pairs: (group, left row, right row), each of shape (n_pairs,); every group has at least one pair.
        left, right: vectors of all rows, float32.
        n: how many groups.
        proposed: float32 score of every pair, if it is known: those more than `MARGIN` below the best of their group
            are not looked at again.
        weight: of the left rows, > 0; None: 1 each.
    """
    group, row, right_row = pairs
    if proposed is None and weight is None and len(group) > _AT_ONCE:
        proposed = _proposed(left, right, row, right_row)
    if proposed is not None:
        best = np.full(n, -np.inf, dtype=np.float32)
        np.maximum.at(best, group, proposed)
        margin = MARGIN if weight is None else MARGIN * max(1.0, float(weight.max(initial=1.0)))
        near = proposed >= best[group] - np.float32(margin)
        group, row, right_row = group[near], row[near], right_row[near]
    exact = dots(left, right, row, right_row)
    if weight is not None:
        exact = exact * weight[row]
    by_score = np.lexsort((right_row, row, -exact, group))
    group, row, right_row, exact = group[by_score], row[by_score], right_row[by_score], exact[by_score]
    winner = firsts(group)
    return BestPairs(exact[winner], row[winner], right_row[winner])


def dots(
    left: Float32Array | FloatArray, right: Float32Array | FloatArray, row: IntArray, right_row: IntArray
) -> FloatArray:
    """Exact dot products of rows of two sides, shape (n,), some thousands at a time; see `row_dots`."""
    ends = range(0, max(len(row), 1), _AT_ONCE)
    return np.concatenate([row_dots(left[row[a : a + _AT_ONCE]], right[right_row[a : a + _AT_ONCE]]) for a in ends])


def _proposed(left: Float32Array, right: Float32Array, row: IntArray, right_row: IntArray) -> Float32Array:
    """Dot products of rows in float32, which takes a quarter of the time."""
    ends = range(0, len(row), _AT_ONCE)
    parts = [np.einsum("ij,ij->i", left[row[a : a + _AT_ONCE]], right[right_row[a : a + _AT_ONCE]]) for a in ends]
    return np.concatenate(parts)
