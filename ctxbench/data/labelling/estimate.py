"""Completeness over all queries, and differences between selectors, from the queries answered so far.

Queries whose needs are known count as they are. The others are estimated stratum by stratum, from a random sample
of each. Completeness is a ratio: queries for which the selector is complete, by queries that need something.

The interval is a score interval, as Wilson's is: it holds every total that the estimate is no further from than the
critical value times the standard error *at that total*. The standard error has the finite-population factor, so that
what is answered through has none; the critical value is Student's with as many degrees of freedom as answered queries
less strata. What has no answer yet adds its whole width.

The shares of the strata at another total:

* of a completeness: those observed (smoothed by one observation's worth of guess and pooled share, so that a stratum
  without an error is not taken for one without spread), tilted exponentially: for yes/no shares, all logits shifted by
  the same amount. With one stratum this is Wilson's interval.
* of a difference: the strata's differences are shifted, each by its variance times the same amount. What the two
  selectors differ in at all is not shifted away with it: the variance at a difference d is max(r, |d|) - d^2, where r
  is the smoothed share of queries for which one of the two alone is complete. With one stratum this is Tango's
  interval, with the observed r in place of the likeliest one.

Queries in doubt (a person could not say, or has not been asked what would do as well) count as badly as they may for
the lower end and as well as they may for the upper one; the estimate itself leaves them out.

Coverage is measured, not proved: tests/data/labelling/test_estimate.py and test_difference.py hold it to at
least 92% and 93% of the draws (nominal: 95%) for several kinds of strata, good and wrong guesses among them, and
`python experiments/labelling/simulate.py --pairs 0` counts it over 100 made-up logs (figures in the README there).

Sources: Wilson, JASA 22, 1927; Tango, Statistics in Medicine 17, 1998; Cochran, Sampling Techniques, 1977, chapter 5
(stratified shares, finite populations); the tilt and the shift are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ctxbench.bench.stats import LEVEL, student_critical
from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.data.labelling.interval_ends import Shifted, Tilted, end_of


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One estimate with its interval.

    Attributes:
        name: of the selector, or the two of a difference, as "A - B".
        value: the estimate; NaN where no query is known to need anything.
        low, high, level: the ends of the interval, and its nominal coverage.
        known: queries that count as they are.
        sampled: answered queries that stand for others.
        open: queries that they stand for, themselves included.
        unsure: queries whose answers leave it in doubt; they count both ways.
    """

    name: str
    value: float
    low: float
    high: float
    level: float
    known: int
    sampled: int
    open: int
    unsure: int = 0

    @property
    def width(self) -> float:
        """The width of the interval."""
        return self.high - self.low


@dataclass(frozen=True, eq=False, kw_only=True)
class Tally:
    """Answers counted by stratum; each array has shape (n_strata,).

    Attributes:
        size, n: queries whose value is not known but by the sample, and how many of them are sampled.
        plus, minus: how many of these are complete and incomplete, or, of a difference, complete with the first
            selector only and with the second only. The rest are neither.
        guess_plus, guess_minus: guessed shares, where there is no answer yet.
        n_known, known_plus, known_minus: queries whose value is known, and how many of these are which.
        needing: for a difference, how many queries need something (an estimate); not used for a share.
    """

    size: FloatArray
    n: FloatArray
    plus: FloatArray
    minus: FloatArray
    guess_plus: FloatArray
    guess_minus: FloatArray
    n_known: int = 0
    known_plus: float = 0.0
    known_minus: float = 0.0
    needing: float = 0.0


def share(name: str, tally: Tally) -> Figure:
    """Completeness: plus / (plus + minus) over all queries."""
    p, m = _shares(tally)
    plus = tally.known_plus + float((tally.size * p).sum())
    needing = plus + (tally.known_minus + float((tally.size * m).sum()))
    ratio = plus / needing if needing > 0 else math.nan
    # The ratio is off by the mean of plus - ratio * (plus + minus), to first order.
    return _figure(name, tally, ratio, (1.0 - ratio, -ratio), needing=needing, lower_bound=0.0)


def difference(name: str, tally: Tally) -> Figure:
    """Completeness of one selector minus that of another: (plus - minus) by the queries that need something."""
    p, m = _shares(tally)
    gap = tally.known_plus - tally.known_minus + float((tally.size * (p - m)).sum())
    value = gap / tally.needing if tally.needing > 0 else math.nan
    return _figure(name, tally, value, (1.0, -1.0), needing=tally.needing, lower_bound=-1.0)


def _figure(
    name: str, tally: Tally, value: float, values: tuple[float, float], *, needing: float, lower_bound: float
) -> Figure:
    """A value between `lower_bound` and 1 with its interval, which is the whole range if no query needs anything."""
    low, high = lower_bound, 1.0
    if needing > 0:
        down, up = _distances(tally, values)
        low, high = max(lower_bound, value - down / needing), min(1.0, value + up / needing)
    return Figure(
        name=name,
        value=value,
        low=low,
        high=high,
        level=LEVEL,
        known=tally.n_known,
        sampled=round(float(tally.n.sum())),
        open=round(float(tally.size.sum())),
    )


def _shares(tally: Tally) -> tuple[FloatArray, FloatArray]:
    is_labelled = tally.n > 0
    n = np.where(is_labelled, tally.n, 1.0)
    return np.where(is_labelled, tally.plus / n, tally.guess_plus), np.where(
        is_labelled, tally.minus / n, tally.guess_minus
    )


def _distances(tally: Tally, values: tuple[float, float]) -> tuple[float, float]:
    """How far below and above its estimate the sum of values[0] x plus + values[1] x minus may lie, in queries.

    values[0] is not negative, values[1] not positive; (1, -1) is a difference.
    """
    p, m = _shares(tally)
    a, b = values[0], -values[1]
    unasked = (tally.n <= 0) & (tally.size > 0)
    extra_down = float((tally.size * (a * p + b * (1.0 - m)))[unasked].sum())
    extra_up = float((tally.size * (a * (1.0 - p) + b * m))[unasked].sum())
    open_ = (tally.n > 0) & (tally.size - tally.n > 0.5)
    if not open_.any():
        return extra_down, extra_up
    shares = _smoothed(tally)[:, open_]
    size, n = tally.size[open_], tally.n[open_]
    strata: Tilted | Shifted = (
        Shifted(shares=shares, gaps=(p - m)[open_], size=size, n=n)
        if a == b == 1.0
        else Tilted(shares=shares, values=np.array([a, -b, 0.0]), size=size, n=n)
    )
    estimate = float((tally.size * (a * p - b * m))[open_].sum())
    z = float(student_critical(LEVEL, max(int(tally.n[open_].sum()) - int(open_.sum()), _FEWEST)))
    low, high = end_of(strata, estimate, -z), end_of(strata, estimate, z)
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


def halving(tally: Tally, turns: Sequence[int], *, kind: str, upper: Tally | None = None) -> int | None:
    """How many more queries, in the order of the queue, bring the width down to half.

    Each stratum is taken to go on as it went so far, its shares smoothed by one observation's worth of the guess.

    Args:
        tally: of now.
        turns: the strata of the queries still to come, in order.
        kind: `share` or `difference`.
        upper: the counts for the upper end, where queries in doubt make them others than those for the lower one.

    Returns:
        The number; 0 if the width is 0 already; None if even all of them do not (which an exact end would exclude).
    """
    make = share if kind == "share" else difference

    def width(n_added: int) -> float:
        added = np.bincount(np.array(turns[:n_added], dtype=np.int64), minlength=len(tally.n))
        low = make("", _grown(tally, added))
        return (low if upper is None else make("", _grown(upper, added))).high - low.low

    goal = width(0) / 2.0
    if goal <= 0:
        return 0
    if width(len(turns)) > goal:
        return None
    low, high = 0, len(turns)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if width(middle) <= goal else (middle, high)
    return high


def _grown(tally: Tally, added: IntArray) -> Tally:
    """The counts expected after as many more answers by stratum."""
    n = np.minimum(tally.n + added, tally.size)
    n_added = n - tally.n
    return replace(
        tally,
        n=n,
        plus=tally.plus + n_added * (tally.plus + 2.0 * tally.guess_plus) / (tally.n + 2.0),
        minus=tally.minus + n_added * (tally.minus + 2.0 * tally.guess_minus) / (tally.n + 2.0),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Known:
    """The completeness of one query.

    Attributes:
        needs: whether it needs anything; True if it may.
        complete: by selector, whether it is; nothing is read of it where nothing is needed.
        upper_bound: the same if everything in doubt speaks for the selectors; None if nothing is in doubt.
    """

    needs: bool
    complete: tuple[bool, ...]
    upper_bound: tuple[bool, ...] | None = None

    @property
    def sure(self) -> bool:
        """Whether nothing is in doubt."""
        return self.upper_bound is None

    def value(self, selector: int, end: int) -> int | None:
        """1 for complete, -1 for incomplete, 0 for a query that needs nothing.

        Args:
            selector: its number.
            end: -1 for the worst that it may be, 1 for the best, 0 for what is sure; None if nothing is.
        """
        worst, best = self._range(selector)
        return self._at(end, 2 * worst - 1, 2 * best - 1)

    def gap(self, first: int, second: int, end: int) -> int | None:
        """1 if only the first is complete, -1 if only the second is, else 0; `end` as for `value`."""
        (low1, high1), (low2, high2) = self._range(first), self._range(second)
        return self._at(end, low1 - high2, high1 - low2)

    def _at(self, end: int, worst: int, best: int) -> int | None:
        if not self.needs:
            return 0
        if end == 0:
            return worst if worst == best else None
        return best if end > 0 else worst

    def _range(self, selector: int) -> tuple[bool, bool]:
        return self.complete[selector], (self.upper_bound or self.complete)[selector]


@dataclass(frozen=True, eq=False, kw_only=True)
class Sample:
    """All queries as the estimate sees them.

    Attributes:
        selectors: their names.
        census: queries known otherwise than by the sample.
        strata: by stratum, the ids of the queries not in the census.
        answered: what is known of the answered ones of these.
        equal_offers: by pair of selectors (in `predict.pairs` order), queries for which the two offer the same.
        guesses: by stratum, guessed shares: complete by selector, then first only and second only by pair.
    """

    selectors: tuple[str, ...]
    census: Sequence[Known]
    strata: Sequence[Sequence[str]]
    answered: Mapping[str, Known]
    equal_offers: Sequence[frozenset[str]]
    guesses: Sequence[tuple[Sequence[float], Sequence[float], Sequence[float]]]

    @property
    def unsure(self) -> int:
        """Queries that answers leave in doubt."""
        return sum(not answer.sure for answer in self.answered.values()) + sum(
            not completeness.sure for completeness in self.census
        )

    def weights(self) -> dict[str, float]:
        """The number of queries of its stratum that each answered one represents; without those in doubt."""
        by_query: dict[str, float] = {}
        for queries in self.strata:
            drawn = [query for query in queries if query in self.answered and self.answered[query].sure]
            by_query |= {query: len(queries) / len(drawn) for query in drawn}
        return by_query

    def share_tally(self, selector: int, *, end: int = 0) -> Tally:
        """Counts for the completeness of one selector; `end` as for `Known.value`."""
        rows = []
        for queries in self.strata:
            labelled = [self.answered[query].value(selector, end) for query in queries if query in self.answered]
            rows.append((len(queries), len(labelled) - labelled.count(None), labelled.count(1), labelled.count(-1)))
        guess = np.array([guess_row[0][selector] for guess_row in self.guesses])
        return _tally(rows, [completeness.value(selector, end) for completeness in self.census], guess, 1.0 - guess)

    def difference_tally(self, pair: int, first: int, second: int, *, end: int = 0) -> Tally:
        """Counts for the difference of two selectors; where they offer the same, it is known to be 0."""
        rows = []
        same_queries = self.equal_offers[pair]
        alike = 0
        for queries in self.strata:
            gaps = {q: self.answered[q].gap(first, second, end) for q in queries if q in self.answered}
            gaps = {query: gap for query, gap in gaps.items() if gap is not None}
            differing = sum(query not in same_queries for query in queries)
            labelled = [gap for query, gap in gaps.items() if query not in same_queries]
            if gaps and not labelled and differing:  # rare ones were not hit: the stratum speaks as a whole
                rows.append((len(queries), len(gaps), 0, 0))
            else:
                rows.append((differing, len(labelled), labelled.count(1), labelled.count(-1)))
                alike += len(queries) - differing
        part = np.array(
            [max(row[0], 1.0) / max(len(queries), 1) for row, queries in zip(rows, self.strata, strict=True)]
        )
        guesses = (
            np.array([(guess_row[1][pair], guess_row[2][pair]) for guess_row in self.guesses]).reshape(-1, 2).T / part
        )
        gaps_of_census = [completeness.gap(first, second, end) for completeness in self.census]
        plus = np.clip(guesses[0], 0.0, 1.0)
        tally = _tally(rows, [*gaps_of_census, *[0] * alike], plus, np.clip(guesses[1], 0.0, 1.0 - plus))
        return replace(tally, needing=self.needing(end=end))

    def needing(self, *, end: int = 0) -> float:
        """An estimate of how many queries need something."""
        tally = self.share_tally(0, end=end)
        p, m = _shares(tally)
        return tally.known_plus + tally.known_minus + float((tally.size * (p + m)).sum())

    def complete(self, selector: int) -> Figure:
        """Completeness of a selector over all queries."""
        return self._figure(share, self.selectors[selector], partial(self.share_tally, selector))

    def ahead(self, pair: int, first: int, second: int) -> Figure:
        """Completeness of the first selector minus that of the second, over all queries."""
        name = f"{self.selectors[first]} - {self.selectors[second]}"
        return self._figure(difference, name, partial(self.difference_tally, pair, first, second))

    def _figure(self, make: Callable[[str, Tally], Figure], name: str, tally: Callable[..., Tally]) -> Figure:
        """One figure from those for the sure, the worst and the best case."""
        sure = make(name, tally(end=0))
        if not self.unsure:
            return sure
        worst, best = make(name, tally(end=-1)), make(name, tally(end=1))
        low, high = min(worst.low, best.low), max(worst.high, best.high)
        value = sure.value if math.isnan(sure.value) else min(max(sure.value, low), high)
        return replace(sure, value=value, low=low, high=high, unsure=self.unsure)

    def halving_of(self, selector: int, turns: Sequence[int]) -> int | None:
        """`halving` of a selector's completeness."""
        return self._halving("share", partial(self.share_tally, selector), turns)

    def halving_between(self, pair: int, first: int, second: int, turns: Sequence[int]) -> int | None:
        """`halving` of a difference."""
        return self._halving("difference", partial(self.difference_tally, pair, first, second), turns)

    def _halving(self, kind: str, tally: Callable[..., Tally], turns: Sequence[int]) -> int | None:
        if not self.unsure:
            return halving(tally(end=0), turns, kind=kind)
        return halving(tally(end=-1), turns, kind=kind, upper=tally(end=1))


def _tally(
    rows: Sequence[tuple[int, int, int, int]], census: Sequence[int | None], plus: FloatArray, minus: FloatArray
) -> Tally:
    """Counts of the strata (size, n, plus, minus), of what is known, and the guessed shares."""
    size, n, n_plus, n_minus = np.array(rows, dtype=np.float64).reshape(-1, 4).T
    return Tally(
        size=size,
        n=n,
        plus=n_plus,
        minus=n_minus,
        guess_plus=plus,
        guess_minus=minus,
        n_known=len(census) - census.count(None),
        known_plus=census.count(1),
        known_minus=census.count(-1),
    )
