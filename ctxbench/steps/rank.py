"""Rank: a new score for what was found, such as one score of several sources."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ctxbench.arrays import FloatArray, IntArray
from ctxbench.candidates import Candidates, Origin, place_among
from ctxbench.errors import ParameterError
from ctxbench.pipeline import Resources
from ctxbench.query import Query


@dataclass(frozen=True)
class Rrf:
    """Reciprocal rank fusion: an item scores the sum over sources of 1 / (k + its rank there).

    Attributes:
        k: how little the first ranks stand out, >= 0.

    Sources are those of a `merge`; behind a single retriever the order stays. Ranks are counted from 1; items that a
    source scores equal have the same rank, the best of theirs, so that no catalog order enters; a source that did
    not find an item adds nothing. Session items stay as they are. Empty in, empty out. Cost: a sort a source.
    Source: Cormack, Clarke and Buettcher, SIGIR 2009 (k = 60).
    """

    k: int = 60

    def __post_init__(self) -> None:
        if self.k < 0:
            raise ParameterError(f"k must be 0 or more, got {self.k}")

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Score by the ranks in every source; `chunk_rank` becomes the place in the new order."""
        found = candidates.origin == Origin.SEARCH
        sources = [column for name, column in candidates.columns.items() if "." not in name] or [candidates.score]
        score = np.zeros(len(candidates), dtype=np.float64)
        for source in sources:
            held = np.flatnonzero(found & ~np.isnan(source))
            score[held] += 1.0 / (self.k + _ranks(candidates.request[held], source[held]))
        table = candidates.reordered(score=np.where(found, score, candidates.score))
        among = place_among(table, table.origin == Origin.SEARCH)
        return table.reordered(chunk_rank=np.where(among >= 0, among, table.chunk_rank))


def _ranks(request: IntArray, score: FloatArray) -> IntArray:
    """The 1-based rank of every row among those of its request, best score first, ties all at the best of theirs.

    Args:
        request, score: shape (n,).
    """
    by_score = np.lexsort((-score, request))
    row, value = request[by_score], score[by_score]
    new_request = np.ones(len(row), dtype=np.bool_)
    new_request[1:] = row[1:] != row[:-1]
    new_rank = new_request.copy()
    new_rank[1:] |= value[1:] != value[:-1]
    place = np.arange(len(row), dtype=np.int64)
    first = np.maximum.accumulate(np.where(new_request, place, 0))
    tied = np.maximum.accumulate(np.where(new_rank, place, 0))
    ranks = np.empty(len(row), dtype=np.int64)
    ranks[by_score] = tied - first + 1
    return ranks
