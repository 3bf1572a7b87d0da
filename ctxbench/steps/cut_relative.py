"""Relative cuts: where to stop by how far scores fall, since one query's 0.5 is another's 0.7."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.candidates import Candidates, place_among
from ctxbench.core.errors import ParameterError, check_range
from ctxbench.core.query import Query
from ctxbench.core.rules import Rule
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy


@dataclass(frozen=True)
class Margin(Strategy):
    """Offer the items that score within `margin` of the best of their request.

    Attributes:
        margin: how far below the best an item may score, >= 0; as a share of the best at most 1. 0 keeps the best
            and its ties.
        of: `difference`, of scores; or `ratio`, a share of the best score: within 0.2 of a best of 0.5 is 0.4 and
            more. Of a best score that is not above 0 there is no share; then its ties are kept.
        at_least: that many items are offered however low they score, >= 0.
        at_most: no more items than that are offered, >= at_least.

    Only what the search found and no rule has kept out yet is looked at. What is offered is a prefix of the ranking.
    Empty in, empty out; the best item is always offered, unless `at_most` is 0, so that this cut never says that
    nothing suits. Cost: linear in the candidates. Source: ours; expected values are worked by hand in the tests.
    """

    margin: float = 0.1
    of: Literal["difference", "ratio"] = "difference"
    at_least: int = 0
    at_most: int = 20
    rule_words: ClassVar[Mapping[str, str]] = {
        "margin": "more than margin={margin:g} below the best",
        "margin_share": "more than margin={margin:g} of its score below the best",
        "at_most": "beyond at_most={at_most}",
    }

    def __post_init__(self) -> None:
        if not (math.isfinite(self.margin) and self.margin >= 0):
            raise ParameterError(f"margin must be a finite number, 0 or more, got {self.margin}")
        if self.of not in ("difference", "ratio"):
            raise ParameterError(f"of must be difference or ratio, got {self.of!r}")
        if self.of == "ratio" and self.margin > 1:
            raise ParameterError(f"margin must be 0 to 1 with of: ratio, a share of the best, got {self.margin}")
        _check_sizes(self.at_least, self.at_most, lowest=0)

    @property
    def reach(self) -> int:
        """How many of the best items decide."""
        return self.at_most

    @property
    def thresholds(self) -> dict[str, dict[str, float]]:
        """The lowest score that is within the margin, as it stands to the best of its request."""
        return {self.of: {"margin": -self.margin if self.of == "difference" else 1 - self.margin}}

    @property
    def floor(self) -> int:
        """How many items are offered whatever they score."""
        return self.at_least

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark what is beyond the margin."""
        scores = _scores(candidates)
        found = np.isfinite(scores)
        best = np.where(found[:, :1], scores[:, :1], 0.0)
        within = (fallen(np.where(found, scores, best), best, self.of) <= self.margin).sum(axis=1, where=found)
        rule = Rule.of("margin_share" if self.of == "ratio" else "margin", margin=self.margin)
        return _cut(candidates, np.maximum(within, self.at_least), rule, at_most=self.at_most)


def fallen(scores: FloatArray, best: FloatArray, of: Literal["difference", "ratio"]) -> FloatArray:
    """How far scores have fallen below the best of their request; what has fallen by at most the margin is within it.

    Args:
        scores: any shape, finite.
        best: a shape that broadcasts to it; no score is above its best.
        of: `difference`: best - score; `ratio`: that as a share of the best. Of a best that is not above 0 there is
            no share: its ties have fallen by 0, all others infinitely far.

    Returns:
        The shape of `scores`, >= 0; along a ranking it never falls, bit for bit.
    """
    with np.errstate(over="ignore"):  # further than any number is infinitely far
        below: FloatArray = best - scores
        if of == "difference":
            return below
        share = np.where(below > 0, np.inf, 0.0)
        np.divide(below, best, out=share, where=np.broadcast_to(best > 0, share.shape))
    return share


@dataclass(frozen=True)
class Gap(Strategy):
    """Cut where the scores of neighbours in the ranking fall the most.

    Attributes:
        at_least: that many items are offered, >= 1: above the best there is no gap.
        at_most: no more items than that are offered, >= at_least.

    Of lengths from `at_least` to `at_most`, that with the largest gap between its last score and the next one; of
    equal gaps the first. Where there is no gap to choose (too few candidates, or all scores equal), as many as there
    are up to `at_most`. Only what the search found and no rule has kept out yet is looked at. What is offered is a
    prefix of the ranking. Empty in, empty out. Cost: linear in the candidates. Source: ours, after the elbow of a
    falling curve; expected values are worked by hand in the tests.
    """

    at_least: int = 1
    at_most: int = 10
    rule_words: ClassVar[Mapping[str, str]] = {
        "gap": "below the largest gap of scores",
        "at_most": "beyond at_most={at_most}",
    }

    def __post_init__(self) -> None:
        _check_sizes(self.at_least, self.at_most, lowest=1)

    @property
    def reach(self) -> int:
        """How many of the best items decide: the last gap is to the one after `at_most`."""
        return self.at_most + 1

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark what is below the gap."""
        scores = _scores(candidates)[:, : self.at_most + 1]
        found = np.isfinite(scores).sum(axis=1)
        fallen = np.full((len(scores), self.at_most), -np.inf)  # column i: the gap behind i + 1 items
        held = np.isfinite(scores[:, 1:])
        upper, lower = scores[:, :-1][held], scores[:, 1:][held]
        fallen[:, : held.shape[1]][held] = upper - lower
        fallen[:, : self.at_least - 1] = -np.inf
        there = fallen.max(axis=1) > 0
        length = np.where(there, fallen.argmax(axis=1) + 1, found)
        return _cut(candidates, length, Rule.of("gap"), at_most=self.at_most)


def _check_sizes(at_least: int, at_most: int, *, lowest: int) -> None:
    check_range("at_least", at_least, lowest)
    if at_most < at_least:
        raise ParameterError(f"at_most must not be below at_least, got at_most {at_most} and at_least {at_least}")


def _scores(table: Candidates) -> FloatArray:
    """The scores that a cut looks at, best first, shape (n_requests, most of a request or 1); -inf where none is."""
    alive = table.chosen & table.ranked
    place = place_among(table, alive)[alive]
    out = np.full((table.n_requests, max(int(place.max(initial=-1)) + 1, 1)), -np.inf)
    out[table.request[alive], place] = table.score[alive]
    return out


def _cut(table: Candidates, length: IntArray, rule: Rule, *, at_most: int) -> Candidates:
    """Keep the first `length` items of each request, shape (n_requests,), by a rule, and of these at most so many."""
    alive = table.chosen & table.ranked
    place = place_among(table, alive)
    cut = table.marked(alive & (place >= length[table.request]), rule)
    return cut.marked(alive & (place >= at_most), Rule.of("at_most", at_most=at_most))
