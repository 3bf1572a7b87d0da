"""Confidence intervals for a mean, paired comparisons of two selectors, and power laws.

Intervals depend on the values and not on their order, and `holds` says whether there are enough values. Coverage was
measured by simulation (`tests/evaluation/test_stats.py` repeats the deciding cases):

* yes/no: Wilson's score interval. At p = .98, n = 50 a percentile bootstrap covers 63%, Wilson 92%; over all p its mean
  coverage is within a point of nominal from n = 10 on.
* share in [0, 1] (recall, nDCG, RR): Wilson's interval at the effective sample size; equal to Wilson's if all values
  are 0 or 1. A bootstrap collapses near 1 (recall .98, n = 50: percentile 77%, BCa 77%, this one 96%).
* amount (items, tokens): Hall's correction of Student's t for skewness. Lognormal (sigma 1), n = 50: percentile 87%,
  BCa 89%, bootstrap-t 91%, this one 93%. No interval holds if fewer than about ten values differ from the rest.
* any function of means (Bits-over-Random): BCa bootstrap.

For paired comparisons, position i of both arrays is the same query.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from ctxbench.io.errors import ParameterError, check_choice, check_range
from ctxbench.model.arrays import FloatArray

Scale: TypeAlias = Literal["yes/no", "share", "amount"]
SCALES = get_args(Scale)
LEVEL = 0.95
_NORMAL = NormalDist()
FEW = 10  # values that differ from the most frequent one, below which no interval for an amount was found to hold
SMALL = 20  # queries below which intervals for amounts and for paired differences were not found to hold
_ROUNDING = 1e-9  # values this far outside their scale are taken for its end: rounding in another program
_ROWS = 256  # resamples drawn at a time, to bound memory


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A confidence interval.

    Attributes:
        low, high: its ends; infinite where the values say nothing.
        level: nominal coverage, in (0, 1).
        method: how it was made.
        holds: False where there are too few values, or too few that differ, to rely on the coverage.
    """

    low: float
    high: float
    level: float
    method: str
    holds: bool


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over the queries that a metric applies to, with its interval.

    Attributes:
        value: the mean; NaN if `n` is 0.
        interval: its confidence interval.
        n: how many queries it is over.
        left_out: how many the metric does not apply to.
    """

    value: float
    interval: Interval
    n: int
    left_out: int


def critical(level: float) -> float:
    """The normal deviate z with `level` of the distribution within ±z.

    Raises:
        ParameterError: `level` is not in (0, 1).
    """
    if not 0.0 < level < 1.0:
        raise ParameterError(f"level must be above 0 and below 1, got {level}")
    return _NORMAL.inv_cdf(0.5 + level / 2.0)


def student_critical(level: float, df: npt.ArrayLike) -> FloatArray:
    """Student's t for normal `critical(level)`, by Fisher's expansion in 1/df; for many df at once.

    Within 0.0001 of the exact quantile at level 0.95 for df >= 9, within 0.002 for df >= 4.

    Source: Abramowitz and Stegun, 26.7.5.
    """
    z = critical(level)
    terms = (
        (z**3 + z) / 4.0,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96.0,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384.0,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160.0,
    )
    inverse = 1.0 / np.asarray(df, dtype=np.float64)
    return np.asarray(z + sum(term * inverse**power for power, term in enumerate(terms, start=1)))


def wilson_bounds(share: npt.ArrayLike, n: npt.ArrayLike, *, level: float = LEVEL) -> tuple[FloatArray, FloatArray]:
    """Wilson's score interval for many proportions at once.

    Args:
        share: observed proportion in [0, 1]; any shape.
        n: how many trials, >= 0, not necessarily whole; any shape that broadcasts. At 0 the bounds are 0 and 1.
        level: nominal coverage.

    Source: Wilson, Probable inference, JASA 22, 1927.
    """
    p, size = np.broadcast_arrays(np.asarray(share, dtype=np.float64), np.asarray(n, dtype=np.float64))
    z2 = critical(level) ** 2
    p = np.where(size > 0, p, 0.5)
    centre = (size * p + z2 / 2.0) / (size + z2)
    half = np.sqrt(z2 * (size * p * (1.0 - p) + z2 / 4.0)) / (size + z2)
    low = np.where((p <= 0.0) | (size <= 0), 0.0, np.clip(centre - half, 0.0, 1.0))
    return low, np.where((p >= 1.0) | (size <= 0), 1.0, np.clip(centre + half, 0.0, 1.0))


def wilson(successes: int, n: int, *, level: float = LEVEL) -> Interval:
    """Wilson's score interval for a proportion. With n = 0 it is [0, 1].

    Raises:
        ParameterError: not 0 <= successes <= n.
    """
    check_range("successes", successes, 0, n)
    low, high = wilson_bounds(successes / n if n else 0.0, n, level=level)
    return Interval(low=float(low), high=float(high), level=level, method="Wilson", holds=n >= FEW)


def share_bounds(
    mean: npt.ArrayLike, variance: npt.ArrayLike, n: npt.ArrayLike, *, level: float = LEVEL
) -> tuple[FloatArray, FloatArray]:
    """Wilson's interval for means of values in [0, 1], at the sample size that their spread is worth; many at once.

    A mean m of n values of variance v is worth n m(1 - m)/v yes/no answers. v is estimated with one observation's
    worth of m(1 - m) added, so that equal values do not make it 0; the size is never taken below n, since no values
    in [0, 1] spread more than yes/no. Values that are all 0 or 1 give exactly Wilson's interval.

    Args:
        mean: of the values, in [0, 1]; any shape.
        variance: mean square of what they are away from it, >= 0; a shape that broadcasts.
        n: how many, >= 0; a shape that broadcasts. At 0 the bounds are 0 and 1.
        level: nominal coverage.

    Source: the effective-sample-size form of Wilson's interval known from survey sampling (Korn and Graubard, 1998,
        for Clopper-Pearson); the added observation is ours.
    """
    m, v, size = np.broadcast_arrays(*(np.asarray(array, dtype=np.float64) for array in (mean, variance, n)))
    binomial = m * (1.0 - m)
    spread = size * v + binomial
    worth = np.ones_like(spread)
    np.divide(size * binomial, spread, out=worth, where=spread > 0)
    return wilson_bounds(m, size * np.maximum(1.0, worth), level=level)


def share_interval(values: npt.ArrayLike, *, level: float = LEVEL) -> Interval:
    """`share_bounds` of values in [0, 1].

    Args:
        values: shape (n,), in [0, 1]. Empty: the interval is [0, 1].
        level: nominal coverage.
    """
    sample = _clean(values, "share")
    n = len(sample)
    mean = float(sample.mean()) if n else 0.5
    variance = float(((sample - mean) ** 2).mean()) if n else 0.0
    low, high = share_bounds(mean, variance, n, level=level)
    return Interval(low=float(low), high=float(high), level=level, method="Wilson, effective n", holds=n >= FEW)


def amount_interval(values: npt.ArrayLike, *, level: float = LEVEL) -> Interval:
    """Interval for a mean of values >= 0: Student's t, corrected for skewness by Hall's cubic transformation.

    Args:
        values: shape (n,), >= 0. With n < 2 the interval is [0, infinity); equal values give one of no width. Neither
            holds, nor does any with n < 20 or with fewer than 10 values that differ from the most frequent one.
        level: nominal coverage.

    Source: Hall, On the removal of skewness by transformation, JRSS B 54, 1992.
    """
    sample = _clean(values, "amount")
    n, method = len(sample), "Hall's t"
    if n < 2:
        return Interval(low=0.0, high=math.inf, level=level, method=method, holds=False)
    low, high = hall_bounds(sample, level=level)
    _, counts = np.unique(sample, return_counts=True)
    return Interval(
        low=max(0.0, low), high=high, level=level, method=method, holds=n >= SMALL and n - int(counts.max()) >= FEW
    )


def hall_bounds(sample: FloatArray, *, level: float = LEVEL) -> tuple[float, float]:
    """`moment_bounds` of a sample; equal values give an interval of no width.

    Args:
        sample: shape (n,), n >= 2, finite.
        level: nominal coverage.
    """
    if float(sample.min()) == float(sample.max()):
        return float(sample[0]), float(sample[0])
    mean = float(sample.mean())
    away = sample - mean
    low, high = moment_bounds(mean, float((away**2).mean()), float((away**3).mean()), len(sample), level=level)
    return float(low), float(high)


def moment_bounds(
    mean: npt.ArrayLike, variance: npt.ArrayLike, third: npt.ArrayLike, n: npt.ArrayLike, *, level: float = LEVEL
) -> tuple[FloatArray, FloatArray]:
    """Student's t interval of a mean, corrected for skewness, from central moments; many at once.

    Args:
        mean: of the values; any shape.
        variance: mean square of what they are away from it, >= 0; at 0 both bounds are the mean.
        third: mean cube of what they are away from it.
        n: how many values each is over, >= 2, not necessarily whole. All four of shapes that broadcast.
        level: nominal coverage.

    Source: Hall, On the removal of skewness by transformation, JRSS B 54, 1992.
    """
    arrays = (np.asarray(moment, dtype=np.float64) for moment in (mean, variance, third, n))
    m, v, cube, size = np.broadcast_arrays(*arrays)
    sd = np.sqrt(v * (size / (size - 1.0)))
    a = np.zeros_like(sd)
    np.divide(cube, sd**3, out=a, where=sd**3 > 0)
    a /= 3.0 * np.sqrt(size)
    bent = np.abs(a) > 1e-9
    divisor = np.where(bent, a, 1.0)

    def deviate(t: FloatArray) -> FloatArray:
        y = t - a / 2.0
        return np.where(bent, (np.cbrt(1.0 + 3.0 * a * y) - 1.0) / divisor, y)

    t, se = student_critical(level, size - 1.0), sd / np.sqrt(size)
    return m - se * deviate(t), m - se * deviate(-t)


def estimate(values: npt.ArrayLike, *, scale: Scale, level: float = LEVEL) -> Estimate:
    """The mean of a metric's values by query with the interval that its scale calls for; NaN are left out, counted.

    Args:
        values: shape (n_queries,).
        scale: what the values are: `yes/no` = 0 or 1, as of `completeness`, `Comp` and `Success`; `share` = in [0, 1],
            as of `recall`, `nDCG`, `RR` and `AP`; `amount` = at least 0, as of `tokens` and `items`.
        level: nominal coverage.

    Raises:
        ParameterError: there is no such scale, or a value is outside of it or infinite.
    """
    array = np.asarray(values, dtype=np.float64)
    sample = _clean(array[~np.isnan(array)], scale)
    n = len(sample)
    if scale == "yes/no":
        interval = wilson(int(sample.sum()), n, level=level)
    elif scale == "share":
        interval = share_interval(sample, level=level)
    else:
        interval = amount_interval(sample, level=level)
    return Estimate(
        value=math.fsum(sample.tolist()) / n if n else math.nan, interval=interval, n=n, left_out=len(array) - n
    )


def mover_bounds(means: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Ends of the intervals of means of independent means, each of the same weight, by MOVER.

    An end is as far from the mean as the root of the sum of the squared distances of the means' own ends, divided by
    how many they are. So it is never beyond the mean of these ends: that of a share lies in [0, 1].

    Args:
        means, low, high: the means and the ends of their intervals, shape (n_means, n); NaN are left out.

    Returns:
        Low and high ends, shape (n,); NaN where all means are.

    Source: Zou and Donner, Construction of confidence limits about effect measures: a general approach, Statistics in
    Medicine 27, 2008.
    """
    n = (~np.isnan(means)).sum(axis=0)
    mean = np.nansum(means, axis=0) / np.where(n > 0, n, math.nan)
    below, above = (np.sqrt(np.nansum((means - ends) ** 2, axis=0)) / np.maximum(n, 1) for ends in (low, high))
    return mean - below, mean + above


def mean_estimate(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of independent estimates, such as of several datasets, each of the same weight (see `mover_bounds`)."""
    applied = [estimate for estimate in estimates if estimate.n] or estimates[:1]
    columns = [[estimate.value, estimate.interval.low, estimate.interval.high] for estimate in applied]
    means, low, high = np.array(columns).T[:, :, np.newaxis]
    ends = mover_bounds(means, low, high) if applied[0].n else (low[0], high[0])
    return Estimate(
        value=float(means.mean()),
        interval=Interval(
            low=float(ends[0][0]),
            high=float(ends[1][0]),
            level=applied[0].interval.level,
            method="MOVER",
            holds=all(estimate.interval.holds for estimate in applied),
        ),
        n=sum(estimate.n for estimate in applied),
        left_out=sum(estimate.left_out for estimate in estimates),
    )


def bootstrap_interval(
    rows: FloatArray,
    statistic: Callable[[FloatArray], FloatArray],
    *,
    level: float = LEVEL,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """BCa bootstrap interval for a function of means, such as a ratio of two.

    For plain means use `estimate`: its intervals hold where a bootstrap's does not.

    Args:
        rows: one row per query, shape (n, n_columns), finite.
        statistic: from column means, shape (m, n_columns), to m values; may be infinite, not NaN.
        level: nominal coverage.
        resamples: how many samples are drawn, >= 100.
        seed: of the draws; equal seeds give equal intervals, whatever the order of the rows.

    Returns:
        The interval; (-infinity, infinity), not holding, with fewer than 2 rows. Where all resamples agree it has
        no width and does not hold either; nor does it with n < 20.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 14.
    """
    if resamples < 100:
        raise ParameterError(f"resamples must be at least 100, got {resamples}")
    z, n = critical(level), len(rows)
    if n < 2:
        return Interval(low=-math.inf, high=math.inf, level=level, method="BCa bootstrap", holds=False)
    if not np.isfinite(rows).all():
        raise ParameterError("bootstrap: the rows must be finite; leave out queries that the metric does not apply to")
    rows = rows[np.lexsort(rows.T)]
    rng = np.random.default_rng(seed)
    blocks = [min(_ROWS, resamples - first) for first in range(0, resamples, _ROWS)]
    draws = np.concatenate([statistic(rows[rng.integers(0, n, (size, n))].mean(axis=1)) for size in blocks])
    value = float(statistic(rows.mean(axis=0, keepdims=True))[0])
    below = (np.count_nonzero(draws < value) + 0.5 * np.count_nonzero(draws == value)) / resamples
    bias = _NORMAL.inv_cdf(min(max(below, 1.0 / resamples), 1.0 - 1.0 / resamples))
    acceleration = _acceleration(statistic((rows.sum(axis=0) - rows) / (n - 1)))
    ends = [_NORMAL.cdf(bias + away / max(1.0 - acceleration * away, 1e-9)) for away in (bias - z, bias + z)]
    low, high = (float(end) for end in np.quantile(draws, ends, method="inverted_cdf"))
    return Interval(low=low, high=high, level=level, method="BCa bootstrap", holds=n >= SMALL and low < high)


def _acceleration(left_out: FloatArray) -> float:
    """The skewness term of BCa from the leave-one-out values; 0 where they are equal or not finite."""
    if not np.isfinite(left_out).all():
        return 0.0
    away = left_out.mean() - left_out
    square = float((away**2).sum())
    return float((away**3).sum()) / (6.0 * square**1.5) if square > 0 else 0.0


def _clean(values: npt.ArrayLike, scale: Scale) -> FloatArray:
    """The values sorted, so that no result depends on their order; checks them against their scale."""
    check_choice("scale", scale, SCALES)
    sample = np.sort(np.asarray(values, dtype=np.float64))
    if sample.ndim != 1:
        raise ParameterError(f"values must have one dimension, got {sample.ndim}")
    top = math.inf if scale == "amount" else 1.0
    sample = np.where((sample < 0) & (sample >= -_ROUNDING), 0.0, sample)
    sample = np.where((sample > top) & (sample <= top + _ROUNDING), top, sample)
    wrong = ~np.isfinite(sample) | (sample < 0) | (sample > top)
    if scale == "yes/no":
        wrong |= (sample != 0) & (sample != 1)
    if wrong.any():
        expected = {"yes/no": "0 or 1", "share": "0 to 1", "amount": "at least 0"}[scale]
        raise ParameterError(f"values on the scale {scale!r} must be {expected}, got {sample[wrong][0]}")
    return sample


RESAMPLES = 9999  # random sign flips, where there are too many to try all
_EXACT = 20  # up to so many differences that are not 0 all sign flips are tried
_WHOLE = 1000  # up to so many discordant pairs the exact test counts in whole numbers
_RESAMPLED_ROWS = 512
_POWER = 0.8  # the chance that a difference is significant

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison of two selectors on the same queries by one metric, without a verdict.

    Attributes:
        n: pairs compared.
        left_out: pairs that the metric does not apply to on at least one side.
        base, other: the two means over the pairs compared; NaN if `n` is 0.
        difference: other - base; NaN if `n` is 0.
        interval: of the difference, for this comparison alone.
        higher, lower, equal: queries on which other's value is higher, lower, the same.
        square: mean of the squared differences; NaN if `n` is 0.
        standardised: mean difference / standard deviation of the differences (Cohen's d_z); 0 if all are 0,
            infinite if all are equal and not 0, NaN if `n` < 2.
        p: two-sided p-value of the paired test; 1 if nothing differs.
        p_holm: `p` corrected for the other comparisons made with it; `p` itself if there are none.
        test: which test.
        p_floor: the smallest p-value that the random sign flips can count; 0 for an exact test. A `p` of no more is a
            bound, below which the true one may lie.
        p_holm_at_floor: whether `p_holm` is an upper bound of the true one, because a p-value that it is made of is at
            its floor.
        alpha: what `p_holm` is compared with.
        needed: at how many queries such a difference is significant with power 0.8, all comparisons made with it
            considered (see `needed_n`); None if the means are equal, or if the formula gives no more than `n` where
            the test on `n` was not significant.
        worth: how many independent pairs a pair is worth; below 1 where queries of one group differ alike (see
            `grouped_compare`).
    """

    n: int
    left_out: int
    base: float
    other: float
    difference: float
    interval: Interval
    higher: int
    lower: int
    equal: int
    square: float
    standardised: float
    p: float
    p_holm: float
    test: str
    alpha: float
    needed: int | None
    worth: float = 1.0
    p_floor: float = 0.0
    p_holm_at_floor: bool = False

    @property
    def p_at_floor(self) -> bool:
        """True if no random flip was as extreme as the observed one, so that the true p-value is at most `p`."""
        return 0.0 < self.p <= self.p_floor

    @property
    def significant(self) -> bool:
        """Whether the difference is significant: p_holm <= alpha. Its size is another question."""
        return self.p_holm <= self.alpha


def compare(
    base: npt.ArrayLike, other: npt.ArrayLike, *, scale: Scale, alpha: float = 0.05, seed: int = 0
) -> Comparison:
    """Compare two selectors on the same queries.

    Args:
        base, other: shape (n_queries,), paired; NaN where the metric does not apply. Pairs with a NaN are left out.
        scale: what the values are; decides the test: exact McNemar for yes/no, sign flips otherwise.
        alpha: the p-value at or below which the difference is significant; the interval has level 1 - alpha.
        seed: of the sign flips, where there are too many to try all.

    Raises:
        ParameterError: the lengths differ, or a value is infinite.
    """
    left, right = np.asarray(base, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if left.shape != right.shape or left.ndim != 1:
        raise ParameterError(f"paired values need equal lengths, got shapes {left.shape} and {right.shape}")
    paired = ~(np.isnan(left) | np.isnan(right))
    n = int(paired.sum())
    if scale == "yes/no" and not np.isin(np.concatenate([left[paired], right[paired]]), (0.0, 1.0)).all():
        raise ParameterError("values on the scale 'yes/no' must be 0 or 1")
    left, right = left[paired], right[paired]
    away = _differences(right - left)
    higher, lower = int((away > 0).sum()), int((away < 0).sum())
    if scale == "yes/no":
        p, p_floor, test = mcnemar_exact(lower, higher), 0.0, "exact McNemar"
    else:
        p, p_floor, test = sign_flip(away, seed=seed), sign_flip_floor(away), "sign flips"
    means = [math.fsum(side.tolist()) / n if n else math.nan for side in (left, right)]
    comparison = Comparison(
        n=n,
        left_out=len(paired) - n,
        base=means[0],
        other=means[1],
        difference=math.fsum(away.tolist()) / n if n else math.nan,
        interval=difference_interval(away, scale=scale, level=1.0 - alpha),
        higher=higher,
        lower=lower,
        equal=n - higher - lower,
        square=float((away**2).mean()) if n else math.nan,
        standardised=standardised_difference(away),
        p=p,
        p_holm=p,
        test=test,
        alpha=alpha,
        needed=None,
        p_floor=p_floor,
    )
    return correct({"": comparison})[""]


def correct(comparisons: Mapping[Key, Comparison], *, planned: float | None = None) -> dict[Key, Comparison]:
    """Correct comparisons that are read together, by Holm; keys and their order are kept.

    `needed` is computed again for alpha / (number of comparisons), the strictest step of Holm's method: with that many
    queries the difference is significant whatever the other comparisons give.

    Args:
        comparisons: by key.
        planned: the difference that `needed` is for, with the spread of each comparison about its mean; None = the
            observed one.
    """
    corrected = holm([comparison.p for comparison in comparisons.values()])
    floors = [
        (comparison.p, p)
        for comparison, p in zip(comparisons.values(), corrected, strict=True)
        if comparison.p_at_floor
    ]
    return {
        key: _with_needed(
            replace(
                comparison,
                p_holm=float(p),
                # Holm raises a p-value to that of a smaller one, which may be at its floor
                p_holm_at_floor=any(floor <= comparison.p and raised == p for floor, raised in floors),
            ),
            family=len(comparisons),
            planned=planned,
        )
        for (key, comparison), p in zip(comparisons.items(), corrected, strict=True)
    }


def _with_needed(comparison: Comparison, *, family: int, planned: float | None) -> Comparison:
    """The comparison with `needed` as one of `family` comparisons, for a planned or the observed difference."""
    n, differing = comparison.n, comparison.higher + comparison.lower
    if not differing:
        return replace(comparison, needed=None)
    mean, square = comparison.difference, comparison.square
    if planned is not None:
        mean, square = planned, max(square - mean**2, 0.0) + planned**2
    n_needed = needed_n(mean, square, differing / n, comparison.alpha / family)
    n_needed = None if n_needed is None else math.ceil(n_needed / comparison.worth)
    if planned is None and n_needed is not None and n_needed <= n and not comparison.significant:
        n_needed = None  # the formula is normal theory, but n queries were not enough
    return replace(comparison, needed=n_needed)


def mcnemar_exact(only_base: int, only_other: int) -> float:
    """Two-sided p-value that discordant pairs fall to either side with chance one half: the exact McNemar test.

    Args:
        only_base, only_other: queries on which only one of the two says yes, >= 0.

    Returns:
        min(1, 2 P(X <= the smaller)), X binomial(sum, 1/2); 1 if there are no discordant pairs.
    """
    if only_base < 0 or only_other < 0:
        raise ParameterError(f"counts must be at least 0, got {only_base} and {only_other}")
    n, fewer = only_base + only_other, min(only_base, only_other)
    if n == 2 * fewer:
        return 1.0
    if n <= _WHOLE:
        return min(1.0, 2 * sum(math.comb(n, i) for i in range(fewer + 1)) / (1 << n))
    top = math.lgamma(n + 1) - math.lgamma(fewer + 1) - math.lgamma(n - fewer + 1) - n * math.log(2.0)
    below = np.arange(fewer, 0, -1, dtype=np.float64)
    ratio = 1.0 + float(np.cumprod(below / (n - below + 1.0)).sum())
    return min(1.0, 2.0 * math.exp(top) * ratio)


def sign_flip(differences: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Two-sided p-value of a mean difference, by flipping the signs of the paired differences.

    All flips are tried with up to 20 differences that are not 0 (zeros change nothing); with more, `resamples`
    random ones, and the p-value is (1 + those as extreme) / (1 + resamples). Where none is as extreme, it is at most
    2 exp(-(sum of differences)^2 / (2 sum of squares)), Hoeffding's bound of the exact p-value, so that large effects
    differ, and stay significant among thousands of comparisons. On differences of -1, 0 and 1 the exact form is the
    exact McNemar test.

    Args:
        differences: shape (n,), finite. Empty or all 0: the p-value is 1.
        resamples: random flips, >= 100.
        seed: of the flips; equal seeds give equal p-values, whatever the order of the differences and
            whichever side is taken from the other.

    Source: Fisher, The Design of Experiments, 1935; the added one: Phipson and Smyth, 2010; the bound: Hoeffding,
        Probability inequalities for sums of bounded random variables, JASA 58, 1963.
    """
    if resamples < 100:
        raise ParameterError(f"resamples must be at least 100, got {resamples}")
    away = _differences(differences)
    away = away[away != 0]
    size = np.sort(np.abs(away))  # so that the p-value is the same whichever side is the base
    # Sums that are equal in exact arithmetic may differ in their last bits; they count as equally extreme.
    extreme = abs(math.fsum(away.tolist())) - 1e-12 * float(size.sum())
    if len(away) == 0:
        return 1.0
    if len(away) <= _EXACT:
        sums = size[:1]  # the first sign is held: the other half is the mirror image
        for magnitude in size[1:]:
            sums = np.concatenate([sums + magnitude, sums - magnitude])
        return float(np.count_nonzero(np.abs(sums) >= extreme) / len(sums))
    rng = np.random.default_rng(seed)
    width, hits = (len(size) + 7) // 8, 0
    for first in range(0, resamples, _RESAMPLED_ROWS):
        drawn = rng.integers(0, 256, (min(_RESAMPLED_ROWS, resamples - first), width), dtype=np.uint8)
        sums = 2.0 * (np.unpackbits(drawn, axis=1, count=len(size)) @ size) - size.sum()
        hits += int(np.count_nonzero(np.abs(sums) >= extreme))
    bound = 1.0 if hits else max(2.0 * math.exp(-(extreme**2) / (2.0 * float(size @ size))), sys.float_info.min)
    return min((1 + hits) / (1 + resamples), bound)


def sign_flip_floor(differences: npt.ArrayLike, *, resamples: int = RESAMPLES) -> float:
    """The smallest p-value that random flips of `sign_flip` can count; 0 where it tries all flips.

    Args:
        differences: as `sign_flip` takes them.
        resamples: random flips.
    """
    return 1 / (1 + resamples) if np.count_nonzero(np.asarray(differences)) > _EXACT else 0.0


def difference_interval(
    differences: npt.ArrayLike, *, scale: Scale, level: float = LEVEL, worth: float = 1.0
) -> Interval:
    """Interval for a mean paired difference.

    Amounts that differ on at least half of the queries get Hall's t. All else gets one gain and one loss added to
    what was seen; the added pair is what keeps the interval from collapsing where few queries differ. On yes/no
    values it is the interval of Bonett and Price; on others the added gain and loss have the root mean square size of
    the differences that are not 0 (1 for a share if all are 0).

    Coverage at level 0.95, by simulation: yes/no 94% and above, shares 90% at n = 20 and 93% from n = 50 on (a
    percentile bootstrap: down to 54%). Amounts that differ on one query in ten, there by a lognormal gain: with sigma
    0.5 84% at n = 20, 92% at n = 50, 93% at n = 100; with sigma 1, whose tail is seldom seen in so few, 70%, 81% and
    85%, and 88% at n = 200. No method tried there did better than a few points.

    Args:
        differences: shape (n,), finite. yes/no and shares: in [-1, 1].
        scale: what the compared values are.
        level: nominal coverage.
        worth: how many independent differences each is worth, in (0, 1]; Hall's t takes no account of it.

    Returns:
        The interval, within [-1, 1] for yes/no and shares. n = 0: [-1, 1], or infinite for amounts. Amounts that are
        all equal on both sides give [0, 0]. `holds` is False with n < 20, and for amounts with fewer than 10
        differences that are not 0.

    Source: Hall, On the removal of skewness by transformation, JRSS B 54, 1992; Bonett and Price, Adjusted Wald
        confidence interval for a difference of binomial proportions based on paired data, JEBS 37(4), 2012; the size
        of the added pair on other scales is ours.
    """
    check_choice("scale", scale, SCALES)
    z, away = critical(level), _differences(differences)
    n, limit = len(away), math.inf if scale == "amount" else 1.0
    if n and float(np.abs(away).max()) > limit + 1e-9:
        raise ParameterError(f"differences on the scale {scale!r} must be -1 to 1, got {away[np.abs(away).argmax()]}")
    method, unequal = "Bonett-Price", int(np.count_nonzero(away))
    if n == 0:
        return Interval(low=-limit, high=limit, level=level, method=method, holds=False)
    if scale == "amount" and n >= SMALL and 2 * unequal >= n:
        low, high = hall_bounds(away, level=level)
        return Interval(low=low, high=high, level=level, method="Hall's t", holds=float(np.ptp(away)) > 0)
    squares = float((away**2).sum())
    added = squares / unequal if unequal else float(scale != "amount")
    size = n * worth + 2.0
    mean = float(away.sum()) * worth / size
    half = z * math.sqrt(max((squares * worth + 2.0 * added) / size - mean**2, 0.0) / size)
    low, high = max(mean - half, -limit), min(mean + half, limit)
    return Interval(
        low=low, high=high, level=level, method=method, holds=n >= SMALL and (scale != "amount" or unequal >= FEW)
    )


def standardised_difference(differences: npt.ArrayLike) -> float:
    """Mean / standard deviation of paired differences (Cohen's d_z).

    0 if all are 0, plus or minus infinity if all are equal and not 0, NaN with fewer than 2.
    """
    away = _differences(differences)
    if len(away) < 2:
        return math.nan
    if away[0] == away[-1]:
        return math.copysign(math.inf, away[0]) if away[0] != 0 else 0.0
    return float(away.mean() / away.std(ddof=1))


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """Correct p-values for being read together, so that the chance of any false alarm stays below alpha.

    Args:
        p_values: shape (m,), each in [0, 1]; NaN stays NaN and is not counted. Empty in, empty out.

    Source: Holm, A simple sequentially rejective multiple test procedure, Scand. J. Stat. 6, 1979.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if np.any((p < 0) | (p > 1)):
        raise ParameterError(f"p-values must be 0 to 1, got {p[(p < 0) | (p > 1)][0]}")
    out = np.full(len(p), np.nan)
    present = np.flatnonzero(~np.isnan(p))
    rising = present[np.argsort(p[present], kind="stable")]
    out[rising] = np.minimum(np.maximum.accumulate(p[rising] * np.arange(len(rising), 0, -1)), 1.0)
    return out


def needed_n(mean: float, square: float, differing: float, alpha: float) -> int | None:
    """At how many queries the observed mean difference is significant with power 0.8, if it and the spread stay.

    n = ((z_a sqrt(E d^2) + z_b sd) / mean d)^2, with z_a for alpha two-sided and z_b for the power: Connor's
    formula for McNemar's test where d is -1, 0 or 1. At least as many as it takes for the share of queries that
    differ to give an exact test a chance: with m differing queries its p-value is never below 2^(1 - m).

    Args:
        mean, square: of the differences d, and of their squares.
        differing: the share of differences that are not 0, above 0.
        alpha: of the test; divide by the number of comparisons read together for the strictest step of Holm's.

    Returns:
        The number of queries (those that the metric applies to), or None if the mean difference is 0.

    Source: Connor, Sample size for testing differences in proportions for the paired-sample design, Biometrics
        43, 1987.
    """
    if abs(mean) <= 1e-12 * math.sqrt(square):
        return None
    z_alpha, z_power = critical(1.0 - alpha), critical(2.0 * _POWER - 1.0)
    sd = math.sqrt(max(square - mean**2, 0.0))
    plain = ((z_alpha * math.sqrt(square) + z_power * sd) / mean) ** 2
    lowest = math.ceil(1.0 - math.log2(alpha)) / differing
    return math.ceil(max(plain, lowest) - 1e-9)


def _differences(differences: npt.ArrayLike) -> FloatArray:
    """The differences sorted, so that no result depends on their order."""
    away = np.sort(np.asarray(differences, dtype=np.float64))
    if away.ndim != 1 or not np.isfinite(away).all():
        raise ParameterError("differences must be finite and have one dimension")
    return away


@dataclass(frozen=True, kw_only=True)
class PowerFit:
    """y = factor * x ** exponent, with the interval of the exponent."""

    factor: float
    exponent: float
    interval: Interval


def power_fit(x: npt.ArrayLike, y: npt.ArrayLike, *, level: float = LEVEL) -> PowerFit:
    """Fit a power law by least squares on logarithms.

    The interval is Student's t from the residuals, so it also widens where the points are not on a power law; it holds
    for the range of `x` only, from six points on.

    Args:
        x, y: at least three points, > 0; shape (n_points,); not all of one x.
        level: nominal coverage, in (0, 1).
    """
    log_x, log_y = (np.log(np.asarray(values, dtype=np.float64)) for values in (x, y))
    centred = log_x - log_x.mean()
    spread = float(centred @ centred)
    exponent = float(centred @ log_y) / spread
    intercept = float(log_y.mean() - exponent * log_x.mean())
    residuals = log_y - intercept - exponent * log_x
    df = len(log_x) - 2
    margin = float(student_critical(level, df)) * math.sqrt(float(residuals @ residuals) / df / spread)
    interval = Interval(low=exponent - margin, high=exponent + margin, level=level, method="log-log t", holds=df >= 4)
    return PowerFit(factor=math.exp(intercept), exponent=exponent, interval=interval)
