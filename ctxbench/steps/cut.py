"""Cuts: how much of the ranking is offered. A cut marks rows out and names the rule; it drops none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ctxbench.core.arrays import BoolArray, IntArray
from ctxbench.core.candidates import Candidates, place_among
from ctxbench.core.errors import ParameterError, check_range
from ctxbench.core.query import Query
from ctxbench.core.rules import Rule
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy

TOP_K = "topK"  # the code of the rule that keeps out what has no chunk among the best topK


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
    rule_words: ClassVar[Mapping[str, str]] = {
        TOP_K: "its best chunk is not among the best topK={topK} chunks",
        "positive": "its score is not above 0",
        "topN": "beyond the first topN={topN} and its score is below includeScore={includeScore:g}",
    }

    def __post_init__(self) -> None:
        for name in ("topK", "topN"):
            check_range(name, getattr(self, name), 0)
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
        table = candidates.marked(found & (candidates.chunk_rank >= self.topK), Rule.of(TOP_K, topK=self.topK))
        table = table.marked(found & (candidates.score <= 0), Rule.of("positive"))
        alive = found & table.chosen
        high = _count(table, alive & (table.score >= self.includeScore))
        length = offered_length(_count(table, alive), high, self.topN)
        beyond = alive & (place_among(table, alive) >= length[table.request])
        return table.marked(beyond, Rule.of("topN", topN=self.topN, includeScore=self.includeScore))


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
        check_range("topK", self.topK, 0)

    @property
    def reach(self) -> int:
        """How many of the best chunk matches decide."""
        return self.topK

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark the items whose best chunk stands behind."""
        behind = candidates.ranked & (candidates.chunk_rank >= self.topK)
        return candidates.marked(behind, Rule.of(TOP_K, topK=self.topK))


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
    rule_words: ClassVar[Mapping[str, str]] = {"first": "beyond the first n={n}"}

    def __post_init__(self) -> None:
        check_range("n", self.n, 0)

    @property
    def reach(self) -> int:
        """How many of the best items decide."""
        return self.n

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark what is beyond the first n."""
        alive = candidates.chosen & candidates.ranked
        return candidates.marked(alive & (place_among(candidates, alive) >= self.n), Rule.of("first", n=self.n))
