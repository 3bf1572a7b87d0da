"""The stratified sample of queries to label, and estimates from the answers to it.

**Sample.** Queries with unknown required items are divided into strata by predictions from selectors and the log. The
order is random within a stratum. The predictions fix the order of strata, so that expected intervals shrink fastest
(Neyman allocation, by cost). At any time, the answered queries are a random sample of each stratum.

**Estimate.** Known queries are counted; the others are estimated by stratum. Completeness is the number of complete
queries divided by the number of queries that need something. The interval is a score interval: all totals whose
distance from the estimate is at most the critical value times the standard error at that total. The standard error has
the finite-population factor; the critical value is Student's, with the number of answered queries minus strata as
degrees of freedom. A stratum without an answer adds its whole width. At another total,

* shares of a completeness are the observed ones (smoothed by one observation of prediction and pooled share), tilted
  exponentially: all logits are shifted by the same amount. With one stratum this is Wilson's interval.
* differences of strata are shifted, each by its variance times the same amount. The variance at a difference d is
  max(r, |d|) - d^2, with r the smoothed share of queries for which only one selector is complete. With one stratum this
  is Tango's interval, with the observed r instead of the maximum-likelihood one.

Undecided queries count as incomplete for the lower end and as complete for the upper end; the estimate ignores them.
Measured coverage: at least 92% and 93% of draws (nominal 95%) for several kinds of strata, see
`tests/labelling/labelling` and `python experiments/labelling/simulate.py --pairs 0`. Sources: Wilson, JASA 22, 1927;
Tango, Statistics in Medicine 17, 1998; Cochran, Sampling Techniques, 1977, chapter 5; the tilt and the shift are new.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.evaluation.statistics import LEVEL, student_critical
from ctxbench.io.documents import dump_json, read_json
from ctxbench.io.errors import StorageError, check_all_known
from ctxbench.io.files import write_atomic
from ctxbench.labelling.pools import Guesses, Predictor, pairs
from ctxbench.model.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False, kw_only=True)
class _Strata:
    """Strata with their shares.

    Attributes:
        shares: shares of categories, shape (n_categories, n_strata); for a difference of plus, minus and neither.
        size, n: sizes and sample sizes of the strata; n is below size.
    """

    shares: FloatArray
    size: FloatArray
    n: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Tilted(_Strata):
    """Strata whose shares are tilted towards higher or lower totals.

    Attributes:
        values: the values of the categories.
    """

    values: FloatArray

    def at(self, tilt: float) -> tuple[float, float]:
        """The expected total and the standard error of its estimate."""
        power = self.values * tilt
        shares = self.shares * np.exp(power - power.max())[:, None]
        shares /= shares.sum(axis=0)
        mean = self.values @ shares
        spread = np.maximum((self.values**2) @ shares - mean**2, 0.0)
        variance = self.size * (self.size - self.n) * spread / self.n
        return float((self.size * mean).sum()), math.sqrt(float(variance.sum()))

    @property
    def reach(self) -> float:
        """The tilt at which the share of a category is practically 0 or 1."""
        return _STEEPEST / max(float(self.values.max() - self.values.min()), 1e-9)


@dataclass(frozen=True, eq=False, kw_only=True)
class Shifted(_Strata):
    """Strata whose differences are shifted; the share of differing queries does not decrease.

    Attributes:
        gaps: observed shares of plus minus those of minus.
    """

    gaps: FloatArray

    def at(self, shift: float) -> tuple[float, float]:
        """The expected total and the standard error of its estimate."""
        gaps = np.clip(self.gaps + shift * self._spread, -1.0, 1.0)
        differing = np.maximum(self.shares[0] + self.shares[1], np.abs(gaps))
        variance = self.size * (self.size - self.n) * (differing - gaps**2) / self.n
        return float((self.size * gaps).sum()), math.sqrt(float(variance.sum()))

    @property
    def _spread(self) -> FloatArray:
        return np.asarray(
            np.maximum(self.shares[0] + self.shares[1] - (self.shares[0] - self.shares[1]) ** 2, _FLATTEST)
        )

    @property
    def reach(self) -> float:
        """The shift at which all differences are 1, or -1."""
        return 2.0 / float(self._spread.min())


def end_of(strata: Tilted | Shifted, estimate: float, z: float) -> float:
    """The total whose distance from the estimate is z standard errors; above it for z > 0."""
    inner, outer = (-strata.reach, strata.reach) if z > 0 else (strata.reach, -strata.reach)
    for _ in range(_HALVINGS):
        middle = (inner + outer) / 2.0
        total, error = strata.at(middle)
        beyond = (total - estimate) / z > error if error > 0 else (total > estimate) == (z > 0)
        inner, outer = (inner, middle) if beyond else (middle, outer)
    return strata.at(outer)[0]


_FLATTEST = 1e-4  # least variance of a stratum
_STEEPEST = 40.0  # tilt at which a share is practically 0 or 1
_HALVINGS = 60  # bisection steps for an end


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One estimate with its interval.

    Attributes:
        name: the name of the selector, or "A - B" for a difference.
        value: the estimate; NaN if no query is known to need anything.
        low, high, level: the interval, and its nominal coverage.
        known: the number of known queries.
        sampled: the number of answered queries of the sample.
        open: the number of queries in the strata.
        unsure: the number of undecided queries.
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
        size, n: numbers of unknown queries, and of sampled ones.
        plus, minus: numbers of sampled complete and incomplete queries; for a difference, queries with only the first
            or only the second selector complete.
        guess_plus, guess_minus: guessed shares, for strata without an answer.
        n_known, known_plus, known_minus: numbers of known queries.
        n_with_requirements: for a difference, the estimated number of queries that need something.
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
    n_with_requirements: float = 0.0


def share(name: str, tally: Tally) -> Figure:
    """Completeness: plus / (plus + minus) over all queries."""
    p, m = _shares(tally)
    plus = tally.known_plus + float((tally.size * p).sum())
    n_with_requirements = plus + (tally.known_minus + float((tally.size * m).sum()))
    ratio = plus / n_with_requirements if n_with_requirements > 0 else math.nan
    # To first order, the error of the ratio is the mean of plus - ratio * (plus + minus).
    return _figure(name, tally, ratio, (1.0 - ratio, -ratio), n_with_requirements=n_with_requirements, lower_bound=0.0)


def difference(name: str, tally: Tally) -> Figure:
    """Completeness of one selector minus another: (plus - minus) / queries that need something."""
    p, m = _shares(tally)
    gap = tally.known_plus - tally.known_minus + float((tally.size * (p - m)).sum())
    value = gap / tally.n_with_requirements if tally.n_with_requirements > 0 else math.nan
    return _figure(name, tally, value, (1.0, -1.0), n_with_requirements=tally.n_with_requirements, lower_bound=-1.0)


def _figure(
    name: str,
    tally: Tally,
    value: float,
    values: tuple[float, float],
    *,
    n_with_requirements: float,
    lower_bound: float,
) -> Figure:
    """A value with its interval, which is the whole range if no query needs anything."""
    low, high = lower_bound, 1.0
    if n_with_requirements > 0:
        down, up = _distances(tally, values)
        low, high = max(lower_bound, value - down / n_with_requirements), min(1.0, value + up / n_with_requirements)
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
    """The distances of the interval below and above values[0] x plus + values[1] x minus, in queries.

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


_FEWEST = 4  # least degrees of freedom for the expansion of the quantile
_WORTH = 1.0  # weight of the smoothing of a stratum, in observations
_POOLED = 0.3  # part of the smoothing from the share in all strata; the rest is the guess
_LEAST = 1e-4  # least share


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


def labels_to_halve_interval(
    tally: Tally, turns: Sequence[int], *, kind: str, upper: Tally | None = None
) -> int | None:
    """The number of further queries, in the order of the queue, that halve the width of the interval.

    Future shares of a stratum are the present ones, smoothed by the guess.

    Args:
        tally: the present counts.
        turns: the strata of the remaining queries, in order.
        kind: `share` or `difference`.
        upper: the counts for the upper end, if undecided queries make them differ.

    Returns:
        The number; 0 if the width is 0; None if all queries are not enough.
    """
    make = share if kind == "share" else difference

    def width(n_added: int) -> float:
        added = np.bincount(np.array(turns[:n_added], dtype=np.int64), minlength=len(tally.n))
        low = make("", _grown(tally, added))
        return (low if upper is None else make("", _grown(upper, added))).high - low.low

    if (goal := width(0) / 2.0) <= 0:
        return 0
    if width(len(turns)) > goal:
        return None
    low, high = 0, len(turns)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if width(middle) <= goal else (middle, high)
    return high


def _grown(tally: Tally, added: IntArray) -> Tally:
    """The expected counts after further answers by stratum."""
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
        needs: whether it needs anything, or may.
        complete: whether each selector is complete; ignored if it needs nothing.
        upper_bound: the same in the best case; None if all is decided.
    """

    needs: bool
    complete: tuple[bool, ...]
    upper_bound: tuple[bool, ...] | None = None

    @property
    def sure(self) -> bool:
        """Whether all is decided."""
        return self.upper_bound is None

    def value(self, selector: int, end: int) -> int | None:
        """1 for complete, -1 for incomplete, 0 for a query that needs nothing.

        Args:
            selector: its number.
            end: -1 for the worst case, 1 for the best, 0 for the decided value (None if undecided).
        """
        worst, best = self._range(selector)
        return self._at(end, 2 * worst - 1, 2 * best - 1)

    def gap(self, first: int, second: int, end: int) -> int | None:
        """1 if only the first selector is complete, -1 if only the second is, else 0; `end` as in `value`."""
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
    """All queries as data for the estimate.

    Attributes:
        selectors: their names.
        census: queries that are known without the sample.
        strata: by stratum, the ids of the other queries.
        answered: the completeness of answered queries of the strata.
        equal_offers: by pair of selectors, in the order of `ctxbench.labelling.pools.pairs`, the queries with equal
            offers.
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
        """The number of undecided queries."""
        return sum(not answer.sure for answer in self.answered.values()) + sum(
            not completeness.sure for completeness in self.census
        )

    def weights(self) -> dict[str, float]:
        """The number of queries that each decided query represents in its stratum."""
        return {
            query: len(queries) / len(drawn)
            for queries in self.strata
            if (drawn := [query for query in queries if query in self.answered and self.answered[query].sure])
            for query in drawn
        }

    def share_tally(self, selector: int, *, end: int = 0) -> Tally:
        """Counts for the completeness of one selector; `end` as in `Known.value`."""
        labelled = [
            [self.answered[query].value(selector, end) for query in queries if query in self.answered]
            for queries in self.strata
        ]
        rows = [
            (len(queries), len(values) - values.count(None), values.count(1), values.count(-1))
            for queries, values in zip(self.strata, labelled, strict=True)
        ]
        guess = np.array([guess_row[0][selector] for guess_row in self.guesses])
        return _tally(rows, [completeness.value(selector, end) for completeness in self.census], guess, 1.0 - guess)

    def difference_tally(self, pair: int, first: int, second: int, *, end: int = 0) -> Tally:
        """Counts for the difference of two selectors, which is 0 for equal offers."""
        rows = []
        same_queries = self.equal_offers[pair]
        alike = 0
        for queries in self.strata:
            gaps = {q: self.answered[q].gap(first, second, end) for q in queries if q in self.answered}
            gaps = {query: gap for query, gap in gaps.items() if gap is not None}
            differing = sum(query not in same_queries for query in queries)
            labelled = [gap for query, gap in gaps.items() if query not in same_queries]
            if gaps and not labelled and differing:  # no answer differs: use the whole stratum
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
        return replace(tally, n_with_requirements=self.n_with_requirements(end=end))

    def n_with_requirements(self, *, end: int = 0) -> float:
        """The estimated number of queries that need something."""
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
        """One figure from the decided, the worst and the best case."""
        sure = make(name, tally(end=0))
        if not self.unsure:
            return sure
        worst, best = make(name, tally(end=-1)), make(name, tally(end=1))
        low, high = min(worst.low, best.low), max(worst.high, best.high)
        value = sure.value if math.isnan(sure.value) else min(max(sure.value, low), high)
        return replace(sure, value=value, low=low, high=high, unsure=self.unsure)

    def labels_to_halve_of(self, selector: int, turns: Sequence[int]) -> int | None:
        """`labels_to_halve_interval` of a selector's completeness."""
        return self._labels_to_halve("share", partial(self.share_tally, selector), turns)

    def labels_to_halve_between(self, pair: int, first: int, second: int, turns: Sequence[int]) -> int | None:
        """`labels_to_halve_interval` of a difference."""
        return self._labels_to_halve("difference", partial(self.difference_tally, pair, first, second), turns)

    def _labels_to_halve(self, kind: str, tally: Callable[..., Tally], turns: Sequence[int]) -> int | None:
        return (
            labels_to_halve_interval(tally(end=-1), turns, kind=kind, upper=tally(end=1))
            if self.unsure
            else labels_to_halve_interval(tally(end=0), turns, kind=kind)
        )


def _tally(
    rows: Sequence[tuple[int, int, int, int]], census: Sequence[int | None], plus: FloatArray, minus: FloatArray
) -> Tally:
    """A tally of strata (size, n, plus, minus), known values and guessed shares."""
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


PLAN = 100.0  # planned answers
MOST = 16  # strata
SMALLEST = 20  # least number of queries of a stratum
SMALLEST_SHARE = 0.025  # least share of queries of a stratum
_CUTS = (0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875)  # quantiles at which a stratum may be cut
_WORTH_IT = 0.985  # a split must reduce the expected variance to this


@dataclass(frozen=True, kw_only=True)
class Stratum:
    """One stratum.

    Attributes:
        queries: in random order.
        complete: by selector, the guessed share of complete queries.
        first, second: by pair of selectors, the guessed shares with only the first, or only the second complete.
        differ: by pair, the share of queries with different offers.
        answers: guessed answers per query.
    """

    queries: tuple[str, ...]
    complete: tuple[float, ...]
    first: tuple[float, ...]
    second: tuple[float, ...]
    differ: tuple[float, ...]
    answers: float


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A drawn sample.

    Attributes:
        selectors: the selectors that it was drawn for.
        focus: the figures that it was drawn for, from `figure_names`; empty = all.
        seed: the seed of the random orders.
        strata: in order of creation; later ones have queries that were added later.
    """

    selectors: tuple[str, ...]
    seed: int
    strata: tuple[Stratum, ...]
    focus: tuple[str, ...] = ()

    def stratum_of(self) -> dict[str, int]:
        """The stratum of every query."""
        return {query: number for number, stratum in enumerate(self.strata) for query in stratum.queries}

    def turns(self) -> list[int]:
        """The strata in the order of their turns, one entry per query."""
        return turns(self.strata, _weights(self.selectors, self.focus))

    def as_dict(self) -> dict[str, Any]:
        """The queue as JSON."""
        return {
            "format": 1,
            "selectors": list(self.selectors),
            "focus": list(self.focus),
            "seed": self.seed,
            "strata": [asdict(stratum) for stratum in self.strata],
        }

    @classmethod
    def read(cls, path: Path) -> Queue | None:
        """Read the queue; None if there is none yet.

        Raises:
            StorageError: the file is damaged.
        """
        if not path.exists():
            return None
        data = read_json(path)
        try:
            if data["format"] != 1:
                raise StorageError(f"{path} has format {data['format']}, expected 1; it was written by another release")
            return cls(
                selectors=tuple(data["selectors"]),
                seed=int(data["seed"]),
                strata=tuple(_read_stratum(row) for row in data["strata"]),
                focus=tuple(data.get("focus", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StorageError(
                f"{path} is damaged ({error}); restore a copy: without it answers have no weights"
            ) from error

    def write(self, path: Path) -> None:
        """Write the queue, whole or not at all."""
        write_atomic(path, dump_json(self.as_dict()) + "\n")


def _read_stratum(row: Mapping[str, Any]) -> Stratum:
    shares = {name: tuple(map(float, row[name])) for name in ("complete", "first", "second", "differ")}
    return Stratum(queries=tuple(map(str, row["queries"])), answers=float(row["answers"]), **shares)


def figure_names(selectors: Sequence[str]) -> tuple[str, ...]:
    """The names of the figures: every selector, then "A - B" for every pair."""
    return (*selectors, *(f"{selectors[i]} - {selectors[j]}" for i, j in pairs(len(selectors))))


def _weights(selectors: Sequence[str], focus: Sequence[str]) -> FloatArray:
    """The weights of figures, with sum 1, shape (n_selectors + n_pairs,)."""
    names = figure_names(selectors)
    chosen = np.array([name in focus or not focus for name in names], dtype=np.float64)
    if not focus:
        n, k = len(selectors), len(names) - len(selectors)
        chosen = np.array([_ALONE / n] * n + [(1.0 - _ALONE) / max(k, 1)] * k)
    return np.asarray(chosen / chosen.sum())


def make_queue(
    predictor: Predictor, queries: Iterable[str], *, seed: int, focus: Sequence[str] = (), split: bool = True
) -> Queue:
    """Draw the sample of the queries with unknown required items.

    Args:
        predictor: guesses over the pool.
        queries: their ids, in any order; without queries the queue has no strata.
        seed: the seed of the random orders.
        focus: the figures to estimate, from `figure_names`; empty = all.
        split: False = one stratum in random order.

    Raises:
        UnknownNameError: there is no figure with this name.
    """
    selectors = predictor.pool.names
    check_all_known("figure", focus, figure_names(selectors))
    ids = sorted(queries)
    guesses = predictor.guesses(ids)
    rng = np.random.default_rng(seed)
    cells = _split(guesses, _weights(selectors, focus)) if split and ids else [np.arange(len(ids))] * bool(ids)
    strata = tuple(_stratum(guesses, cell, tuple(ids[i] for i in rng.permutation(cell))) for cell in cells)
    return Queue(selectors=selectors, seed=seed, strata=strata, focus=tuple(focus))


def extended(queue: Queue, predictor: Predictor, queries: Iterable[str]) -> Queue:
    """The queue with strata for new queries; itself if there are none."""
    if not (new := set(queries) - set(queue.stratum_of())):
        return queue
    n_selectors = len(queue.selectors)
    added = make_queue(predictor, new, seed=queue.seed + len(queue.strata)).strata
    if predictor.pool.names != queue.selectors:  # guesses are for other selectors
        halves = (0.5,) * n_selectors
        quarter = (0.25,) * len(pairs(n_selectors))
        unit_shares = (1.0,) * len(quarter)
        added = tuple(
            replace(stratum, complete=halves, first=quarter, second=quarter, differ=unit_shares) for stratum in added
        )
    return replace(queue, strata=(*queue.strata, *added))


def _stratum(guesses: Guesses, cell: IntArray, queries: tuple[str, ...]) -> Stratum:
    def mean(table: Any) -> tuple[float, ...]:
        return tuple(round(float(value), 6) for value in np.asarray(table[cell], dtype=np.float64).mean(axis=0))

    return Stratum(
        queries=queries,
        complete=mean(guesses.complete),
        first=mean(guesses.first),
        second=mean(guesses.second),
        differ=mean(guesses.differ),
        answers=round(float(guesses.answers[cell].mean()), 6),
    )


def turns(strata: Sequence[Stratum], weights: FloatArray) -> list[int]:
    """The strata in the order of their turns: first the one whose next answer reduces the variance most."""
    total = sum(len(stratum.queries) for stratum in strata)
    rows: list[tuple[float, int, int]] = []
    for number, stratum in enumerate(strata):
        gains = -np.diff(_left(stratum, total, len(stratum.queries), weights)) / stratum.answers
        gains = np.minimum.accumulate(gains)  # turns of a stratum stay in order
        rows += [(-float(gain), position, number) for position, gain in enumerate(gains)]
    return [number for _, _, number in sorted(rows)]


def _left(stratum: Stratum, total: int, upto: int, weights: FloatArray) -> FloatArray:
    """The contribution of a stratum to the mean variance after 0, 1 ... answers, shape (upto + 1,)."""
    size = len(stratum.queries)
    p = _BELIEF * np.array(stratum.complete) + (1.0 - _BELIEF) * 0.5
    spreads = (p * (1.0 - p)).tolist()
    for first, second, differ in zip(stratum.first, stratum.second, stratum.differ, strict=True):
        either = _BELIEF * (first + second) + (1.0 - _BELIEF) * differ * 0.5
        spreads.append(max(either - (first - second) ** 2, 0.0))
    n = np.arange(upto + 1, dtype=np.float64)
    spread = float(weights @ np.array(spreads))
    return np.asarray(spread * (size / total) ** 2 * np.maximum(1.0 / (n + _HALF) - 1.0 / size, 0.0))


_ALONE = 0.7  # weight of all completeness figures; the rest is for differences
_HALF = 0.5  # answers that no answer counts as, so that the gain of the first one is finite
_BELIEF = 0.85  # weight of the guesses; the rest is even chances


def _split(guesses: Guesses, weights: FloatArray) -> list[IntArray]:
    """Split the queries at guessed chances, greedily, until no split reduces the variance enough."""
    features = np.concatenate([guesses.complete, guesses.first + guesses.second, guesses.differ], axis=1)
    features = np.unique(np.round(features, 9), axis=1)
    n = len(features)
    smallest = max(SMALLEST, int(SMALLEST_SHARE * n))
    cells = [np.arange(n)]
    tables = [_plan(guesses, cells[0], n, weights)]
    best = _objective(tables)
    while len(cells) < MOST:
        best_split = None
        for position, cell in enumerate(cells):
            for cut in _cuts(features, cell, smallest):
                inside, outside = cell[cut], cell[~cut]
                parts = [_plan(guesses, cell_part, n, weights) for cell_part in (inside, outside)]
                value = _objective([*tables[:position], *tables[position + 1 :], *parts])
                if value < best * _WORTH_IT and (best_split is None or value < best_split[0]):
                    best_split = (value, position, [inside, outside], parts)
        if best_split is None:
            break
        best, position, new, parts = best_split
        cells[position : position + 1] = new
        tables[position : position + 1] = parts
    return cells


def _cuts(features: FloatArray, cell: IntArray, smallest: int) -> Iterator[Any]:
    if len(cell) < 2 * smallest:
        return
    for column in features.T:
        values = column[cell]
        for end in np.unique(np.quantile(values, _CUTS, method="lower")):
            cut = values <= end
            if smallest <= int(cut.sum()) <= len(cell) - smallest:
                yield cut


def _plan(guesses: Guesses, cell: IntArray, total: int, weights: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """The variance of a stratum without answers, and the gains and costs of answers."""
    stratum = _stratum(guesses, cell, ("",) * len(cell))
    left = _left(stratum, total, min(len(cell), int(PLAN)), weights)
    return float(left[0]), np.asarray(-np.diff(left)), np.full(len(left) - 1, stratum.answers)


def _objective(tables: Sequence[tuple[float, FloatArray, FloatArray]]) -> float:
    """The mean variance after `PLAN` answers in the order of `turns`."""
    gains = np.concatenate([table[1] for table in tables])
    costs = np.concatenate([table[2] for table in tables])
    order = np.argsort(-gains / costs, kind="stable")
    paid = np.cumsum(costs[order]) <= PLAN
    return sum(table[0] for table in tables) - float(gains[order][paid].sum())
