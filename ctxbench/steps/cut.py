"""Cuts: how much of the ranking is offered. A cut marks rows out and names the rule; it drops none."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ctxbench.core.arrays import BoolArray, IntArray
from ctxbench.core.candidates import Candidates, place_among
from ctxbench.core.errors import ParameterError
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy


@dataclass(frozen=True)
class Standard(Strategy):
    """The documents' cut: topK limits chunk matches, topN is a floor on items, includeScore always includes.

    Attributes:
        topK: only items whose best chunk is among the best `topK` chunk matches stay, >= 0.
        topN: that many items are offered even below includeScore, >= 0. A floor, not a cap.
        includeScore: every item that scores at least this much is offered, also beyond topN; any number.

    Items that score 0 or less are out. What is offered is a prefix of the ranking, of length `offered_length`.
    Empty in, empty out. Cost: linear in the candidates. Source: the documents, "Rank and Filter Results".
    """

    topK: int = 20
    topN: int = 5
    includeScore: float = 0.7

    def __post_init__(self) -> None:
        for name in ("topK", "topN"):
            if getattr(self, name) < 0:
                raise ParameterError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if not math.isfinite(self.includeScore):
            raise ParameterError(f"includeScore must be a finite number, got {self.includeScore}")

    @property
    def reach(self) -> int:
        """How many of the best chunk matches decide."""
        return self.topK

    @property
    def thresholds(self) -> dict[str, dict[str, float]]:
        """The score from which on every item is offered."""
        return {"score": {"includeScore": self.includeScore}}

    @property
    def floor(self) -> int:
        """How many items are offered whatever they score."""
        return self.topN

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark what the three rules keep out, in that order."""
        found = candidates.ranked
        table = candidates.marked(
            found & (candidates.chunk_rank >= self.topK),
            f"its best chunk is not among the best topK={self.topK} chunks",
        )
        table = table.marked(found & (candidates.score <= 0), "its score is not above 0")
        alive = found & table.chosen
        high = _count(table, alive & (table.score >= self.includeScore))
        length = offered_length(_count(table, alive), high, self.topN)
        beyond = alive & (place_among(table, alive) >= length[table.request])
        return table.marked(
            beyond, f"beyond the first topN={self.topN} and its score is below includeScore={self.includeScore:g}"
        )


@dataclass(frozen=True)
class TopChunks(Strategy):
    """Keep the items whose best chunk is among the best chunk matches: the first rule of `standard`, on its own.

    Attributes:
        topK: how many matches, those of all items of the search together, >= 0.

    In a domain it is a topK of its own, while the cut behind it keeps the one of all domains. Empty in, empty out.
    Cost: linear in the candidates. Source: the documents, "Rank and Filter Results" and "Per-Domain Settings".
    """

    topK: int = 20

    def __post_init__(self) -> None:
        if self.topK < 0:
            raise ParameterError(f"topK must be 0 or more, got {self.topK}")

    @property
    def reach(self) -> int:
        """How many of the best chunk matches decide."""
        return self.topK

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark the items whose best chunk stands behind."""
        behind = candidates.ranked & (candidates.chunk_rank >= self.topK)
        return candidates.marked(behind, f"its best chunk is not among the best topK={self.topK} chunks")


def offered_length(found: IntArray, high: IntArray, topN: int) -> IntArray:  # noqa: N803 - the documents' name
    """How many items the standard cut offers: max(high, min(topN, found)).

    Args:
        found: items with a chunk among the best topK and a score above 0, shape (n,).
        high: how many of them score at least includeScore, shape (n,).
        topN: the floor, >= 0.
    """
    return np.maximum(high, np.minimum(topN, found))


def _count(table: Candidates, rows: BoolArray) -> IntArray:
    """How many of `rows` each request has, shape (n_requests,)."""
    return np.bincount(table.request[rows], minlength=table.n_requests).astype(np.int64)


@dataclass(frozen=True)
class First(Strategy):
    """Offer the first `n` items of the ranking, whatever they score.

    Attributes:
        n: items a request, >= 0.

    Empty in, empty out. Cost: linear in the candidates. Source: fixed-k retrieval, the usual practice.
    """

    n: int = 5

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ParameterError(f"n must be 0 or more, got {self.n}")

    @property
    def reach(self) -> int:
        """How many of the best items decide."""
        return self.n

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark what is beyond the first n."""
        alive = candidates.chosen & candidates.ranked
        return candidates.marked(alive & (place_among(candidates, alive) >= self.n), f"beyond the first n={self.n}")
