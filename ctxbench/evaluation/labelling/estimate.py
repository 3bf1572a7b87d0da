"""Completeness over all queries, and differences between selectors, from the queries answered so far.

Queries whose needs are known count as they are. The others are estimated stratum by stratum, from a random sample
of each. Completeness is a ratio: queries for which the selector is complete, by queries that need something.

The interval is a score interval, as Wilson's is: it holds every total that the estimate is no further from than the
critical value times the standard error *at that total*. The shares of the strata at another total are those observed
(smoothed by one observation's worth of guess and pooled share, so that a stratum without an error is not taken for
one without spread), tilted exponentially: for yes/no shares, all logits shifted by the same amount. The standard error
has the finite-population factor, so that what is answered through has none; the critical value is Student's with as
many degrees of freedom as answered queries less strata. With one stratum this is Wilson's interval. What has no
answer yet adds its whole width. Coverage was measured by simulation (tests/evaluation/labelling/test_estimate.py;
experiments/labelling): 93 to 98% over 11 kinds of strata, where squaring the strata's own Wilson intervals together
gives 89 to 98% at up to twice the width, and a beta posterior by stratum 85 to 97%.

Sources: Wilson, JASA 22, 1927; Cochran, Sampling Techniques, 1977, chapter 5 (stratified shares, finite populations);
the tilt is ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.arrays import FloatArray
from ctxbench.evaluation.stats import LEVEL, student_critical


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One estimate with its interval.

    Attributes:
        name: of the selector, or the two of a difference, as "A - B".
        value: the estimate; NaN where no query is known to need anything.
        low, high: the ends of the interval.
        level: its nominal coverage.
        known: queries that count as they are.
        sampled: answered queries that stand for others.
        open: queries that they stand for, themselves included.
    """

    name: str
    value: float
    low: float
    high: float
    level: float
    known: int
    sampled: int
    open: int

    @property
    def width(self) -> float:
        """From end to end."""
        return self.high - self.low


@dataclass(frozen=True, eq=False, kw_only=True)
class Tally:
    """Answers counted by stratum; each array has shape (n_strata,).

    Attributes:
        size: queries whose value is not known but by the sample, the sampled ones included.
        n: how many of them are sampled.
        plus, minus: how many of these are complete and incomplete, or, of a difference, complete with the first
            selector only and with the second only. The rest are neither.
        guess_plus, guess_minus: guessed shares, where there is no answer yet.
        known: queries whose value is known.
        known_plus, known_minus: how many of these are which.
        needing: for a difference, how many queries need something (an estimate); not used for a share.
    """

    size: FloatArray
    n: FloatArray
    plus: FloatArray
    minus: FloatArray
    guess_plus: FloatArray
    guess_minus: FloatArray
    known: int = 0
    known_plus: float = 0.0
    known_minus: float = 0.0
    needing: float = 0.0


def share(name: str, tally: Tally, *, level: float = LEVEL) -> Figure:
    """Completeness: plus / (plus + minus) over all queries."""
    p, m = _shares(tally)
    plus = tally.known_plus + float((tally.size * p).sum())
    minus = tally.known_minus + float((tally.size * m).sum())
    needing = plus + minus
    if needing <= 0:
        return _figure(name, tally, math.nan, (0.0, 1.0), level)
    ratio = plus / needing
    # The ratio is off by the mean of plus - ratio * (plus + minus), to first order.
    down, up = _distances(tally, (1.0 - ratio, -ratio), level)
    return _figure(name, tally, ratio, (max(0.0, ratio - down / needing), min(1.0, ratio + up / needing)), level)


def difference(name: str, tally: Tally, *, level: float = LEVEL) -> Figure:
    """Completeness of one selector less that of another: (plus - minus) by the queries that need something."""
    p, m = _shares(tally)
    gap = tally.known_plus - tally.known_minus + float((tally.size * (p - m)).sum())
    if tally.needing <= 0:
        return _figure(name, tally, math.nan, (-1.0, 1.0), level)
    value = gap / tally.needing
    down, up = _distances(tally, (1.0, -1.0), level)
    low, high = max(-1.0, value - down / tally.needing), min(1.0, value + up / tally.needing)
    return _figure(name, tally, value, (low, high), level)


def _figure(name: str, tally: Tally, value: float, ends: tuple[float, float], level: float) -> Figure:
    return Figure(
        name=name,
        value=value,
        low=ends[0],
        high=ends[1],
        level=level,
        known=tally.known,
        sampled=round(float(tally.n.sum())),
        open=round(float(tally.size.sum())),
    )


def _shares(tally: Tally) -> tuple[FloatArray, FloatArray]:
    asked = tally.n > 0
    n = np.where(asked, tally.n, 1.0)
    return np.where(asked, tally.plus / n, tally.guess_plus), np.where(asked, tally.minus / n, tally.guess_minus)


def _distances(tally: Tally, values: tuple[float, float], level: float) -> tuple[float, float]:
    """How far below and above its estimate the sum of values[0] x plus + values[1] x minus may lie, in queries.

    values[0] is not negative, values[1] not positive.
    """
    p, m = _shares(tally)
    a, b = values[0], -values[1]
    unasked = (tally.n <= 0) & (tally.size > 0)
    extra_down = float((tally.size * (a * p + b * (1.0 - m)))[unasked].sum())
    extra_up = float((tally.size * (a * (1.0 - p) + b * m))[unasked].sum())
    open_ = (tally.n > 0) & (tally.size - tally.n > 0.5)
    if not open_.any():
        return extra_down, extra_up
    strata = _Tilted(
        shares=_smoothed(tally)[:, open_],
        values=np.array([a, -b, 0.0]),
        size=tally.size[open_],
        n=tally.n[open_],
    )
    estimate = float((tally.size * (a * p - b * m))[open_].sum())
    z = student_critical(level, max(int(tally.n[open_].sum()) - int(open_.sum()), _FEWEST))
    low, high = strata.end(estimate, -z), strata.end(estimate, z)
    return max(estimate - low, 0.0) + extra_down, max(high - estimate, 0.0) + extra_up


_FEWEST = 4  # degrees of freedom, below which the quantile's expansion is not exact
_WORTH = 1.0  # observations that the smoothing of a stratum is worth
_POOLED = 0.3  # how much of it is the share in all strata; the rest is the guess
_LEAST = 1e-4  # share that is taken for possible


def _smoothed(tally: Tally) -> FloatArray:
    """Shares of plus, minus and neither by stratum, the first two above 0; shape (3, n_strata)."""
    counts = np.stack([tally.plus, tally.minus, tally.n - tally.plus - tally.minus])
    guess = np.stack([tally.guess_plus, tally.guess_minus, 1.0 - tally.guess_plus - tally.guess_minus])
    weight = np.where(tally.n > 0, tally.size, 0.0)
    observed = (counts / np.maximum(tally.n, 1.0) * weight).sum(axis=1) / max(float(weight.sum()), 1e-9)
    prior = _POOLED * observed[:, None] + (1.0 - _POOLED) * guess
    shares = (counts + _WORTH * prior) / (tally.n + _WORTH)
    shares[:2] = np.maximum(shares[:2], _LEAST)
    return np.asarray(shares / shares.sum(axis=0))


@dataclass(frozen=True, eq=False)
class _Tilted:
    """Strata whose shares are tilted towards higher or lower totals.

    Attributes:
        shares: of the categories, shape (n_categories, n_strata).
        values: of the categories.
        size, n: of the strata; n is below size.
    """

    shares: FloatArray
    values: FloatArray
    size: FloatArray
    n: FloatArray

    def at(self, tilt: float) -> tuple[float, float]:
        """The expected total and the standard error of its estimate."""
        power = self.values * tilt
        shares = self.shares * np.exp(power - power.max())[:, None]
        shares /= shares.sum(axis=0)
        mean = self.values @ shares
        spread = np.maximum((self.values**2) @ shares - mean**2, 0.0)
        variance = self.size * (self.size - self.n) * spread / self.n
        return float((self.size * mean).sum()), math.sqrt(float(variance.sum()))

    def end(self, estimate: float, z: float) -> float:
        """The total, above `estimate` for z > 0, from which it is z standard errors away."""
        reach = float(self.values.max() - self.values.min())
        if reach <= 0:
            return estimate
        inner, outer = -_STEEPEST / reach, _STEEPEST / reach
        if z < 0:
            inner, outer = outer, inner
        for _ in range(50):
            middle = (inner + outer) / 2.0
            total, error = self.at(middle)
            beyond = (total - estimate) / z > error if error > 0 else (total > estimate) == (z > 0)
            inner, outer = (inner, middle) if beyond else (middle, outer)
        return self.at(outer)[0]


_STEEPEST = 40.0  # tilt at which a category's share is as good as 0 or 1


def halving(tally: Tally, turns: Sequence[int], *, kind: str, level: float = LEVEL) -> int | None:
    """How many more queries, in the order of the queue, bring the width down to half.

    Each stratum is taken to go on as it went so far, its shares smoothed by one observation's worth of the guess.

    Args:
        tally: of now.
        turns: the strata of the queries still to come, in order.
        kind: `share` or `difference`.
        level: of the interval.

    Returns:
        The number; 0 if the width is 0 already; None if even all of them do not (which an exact end would exclude).
    """
    make = share if kind == "share" else difference
    goal = make("", tally, level=level).width / 2.0
    if goal <= 0:
        return 0
    counts = np.array(tally.n)
    expected_p = (tally.plus + 2.0 * tally.guess_plus) / (tally.n + 2.0)
    expected_m = (tally.minus + 2.0 * tally.guess_minus) / (tally.n + 2.0)

    def width(more: int) -> float:
        n = np.minimum(counts + np.bincount(np.array(turns[:more], dtype=np.int64), minlength=len(counts)), tally.size)
        added = n - counts
        then = Tally(
            size=tally.size,
            n=n,
            plus=tally.plus + added * expected_p,
            minus=tally.minus + added * expected_m,
            guess_plus=tally.guess_plus,
            guess_minus=tally.guess_minus,
            known=tally.known,
            known_plus=tally.known_plus,
            known_minus=tally.known_minus,
            needing=tally.needing,
        )
        return make("", then, level=level).width

    if width(len(turns)) > goal:
        return None
    low, high = 0, len(turns)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if width(middle) <= goal else (middle, high)
    return high


@dataclass(frozen=True, eq=False, kw_only=True)
class Known:
    """What is known of one query.

    Attributes:
        needs: whether it needs anything.
        complete: by selector, whether it is; nothing is read of it where nothing is needed.
    """

    needs: bool
    complete: tuple[bool, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Sample:
    """All queries as the estimate sees them.

    Attributes:
        selectors: their names.
        census: queries known otherwise than by the sample.
        strata: by stratum, the ids of the queries not in the census.
        answered: what is known of the answered ones of these.
        same: by pair of selectors (in `predict.pairs` order), queries for which the two offer the same.
        guesses: by stratum, guessed shares: complete by selector, then first only and second only by pair.
    """

    selectors: tuple[str, ...]
    census: Sequence[Known]
    strata: Sequence[Sequence[str]]
    answered: Mapping[str, Known]
    same: Sequence[frozenset[str]]
    guesses: Sequence[tuple[Sequence[float], Sequence[float], Sequence[float]]]

    def share_tally(self, selector: int) -> Tally:
        """Counts for the completeness of one selector."""
        rows = np.zeros((4, len(self.strata)))
        for number, queries in enumerate(self.strata):
            found = [self.answered[query] for query in queries if query in self.answered]
            plus = sum(one.needs and one.complete[selector] for one in found)
            minus = sum(one.needs and not one.complete[selector] for one in found)
            rows[:, number] = len(queries), len(found), plus, minus
        guess = np.array([one[0][selector] for one in self.guesses])
        needing = [one for one in self.census if one.needs]
        complete = sum(one.complete[selector] for one in needing)
        return Tally(
            size=rows[0],
            n=rows[1],
            plus=rows[2],
            minus=rows[3],
            guess_plus=guess,
            guess_minus=1.0 - guess,
            known=len(self.census),
            known_plus=complete,
            known_minus=len(needing) - complete,
        )

    def difference_tally(self, pair: int, first: int, second: int) -> Tally:
        """Counts for the difference of two selectors; where they offer the same, it is known to be 0."""
        rows = np.zeros((4, len(self.strata)))
        same = self.same[pair]
        for number, queries in enumerate(self.strata):
            differing = [query for query in queries if query not in same]
            answered = sum(query in self.answered for query in queries)
            found = [self.answered[query] for query in differing if query in self.answered]
            plus = sum(one.needs and one.complete[first] and not one.complete[second] for one in found)
            minus = sum(one.needs and one.complete[second] and not one.complete[first] for one in found)
            if answered and not found and differing:  # rare ones were not hit: the stratum speaks as a whole
                rows[:, number] = len(queries), answered, 0, 0
            else:
                rows[:, number] = len(differing), len(found), plus, minus
        part = np.maximum(rows[0], 1.0) / np.maximum([len(queries) for queries in self.strata], 1)
        guesses = np.array([(one[1][pair], one[2][pair]) for one in self.guesses]).reshape(-1, 2).T / part
        needing = [one for one in self.census if one.needs]
        return Tally(
            size=rows[0],
            n=rows[1],
            plus=rows[2],
            minus=rows[3],
            guess_plus=np.clip(guesses[0], 0.0, 1.0),
            guess_minus=np.clip(guesses[1], 0.0, 1.0 - np.clip(guesses[0], 0.0, 1.0)),
            known=len(self.census) + len(same),
            known_plus=sum(one.complete[first] and not one.complete[second] for one in needing),
            known_minus=sum(one.complete[second] and not one.complete[first] for one in needing),
            needing=self.needing(),
        )

    def needing(self) -> float:
        """An estimate of how many queries need something."""
        tally = self.share_tally(0)
        p, m = _shares(tally)
        return tally.known_plus + tally.known_minus + float((tally.size * (p + m)).sum())

    def complete(self, selector: int, *, level: float = LEVEL) -> Figure:
        """Completeness of a selector over all queries."""
        return share(self.selectors[selector], self.share_tally(selector), level=level)

    def ahead(self, pair: int, first: int, second: int, *, level: float = LEVEL) -> Figure:
        """Completeness of the first selector less that of the second, over all queries."""
        name = f"{self.selectors[first]} - {self.selectors[second]}"
        return difference(name, self.difference_tally(pair, first, second), level=level)
