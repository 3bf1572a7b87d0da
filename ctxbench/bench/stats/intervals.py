"""Confidence intervals for one mean, and where each of them holds.

All depend on the values and not on their order, and say by `holds` whether there is enough to rely on them.
Coverage was measured by simulation (tests/bench/test_stats.py repeats the cases that decide):

* yes/no: Wilson's score interval. At p = .98, n = 50 a percentile bootstrap covers 63%, Wilson 92%; over all p
  its mean coverage is within a point of nominal from n = 10 on.
* share in [0, 1] (recall, nDCG, RR): Wilson's interval at the effective sample size, which is the same thing where
  all values are 0 or 1. A bootstrap of such values collapses near 1 (recall .98, n = 50: percentile 77%, BCa 77%,
  this one 96%).
* amount (items, tokens): Hall's correction of Student's t for skewness. Lognormal (sigma 1), n = 50: percentile
  87%, BCa 89%, bootstrap-t 91%, this one 93%. Nothing holds where fewer than about ten values differ from the rest.
* any function of means (Bits-over-Random): BCa bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError, check_range

Scale: TypeAlias = Literal["yes/no", "share", "amount"]
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
    high = np.where((p >= 1.0) | (size <= 0), 1.0, np.clip(centre + half, 0.0, 1.0))
    return low, high


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
    method = "Wilson, effective n"
    return Interval(low=float(low), high=float(high), level=level, method=method, holds=n >= FEW)


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
    is_reliable = n >= SMALL and n - int(counts.max()) >= FEW
    return Interval(low=max(0.0, low), high=high, level=level, method=method, holds=is_reliable)


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
        values: shape (n_queries,). yes/no: 0 or 1; share: in [0, 1]; amount: >= 0.
        scale: what the values are.
        level: nominal coverage.

    Raises:
        ParameterError: a value is outside its scale, or infinite.
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
    mean = math.fsum(sample.tolist()) / n if n else math.nan
    return Estimate(value=mean, interval=interval, n=n, left_out=len(array) - n)


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
        rows: one row a query, shape (n, n_columns), finite.
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
    is_reliable = n >= SMALL and low < high
    return Interval(low=low, high=high, level=level, method="BCa bootstrap", holds=is_reliable)


def _acceleration(left_out: FloatArray) -> float:
    """The skewness term of BCa from the leave-one-out values; 0 where they are equal or not finite."""
    if not np.isfinite(left_out).all():
        return 0.0
    away = left_out.mean() - left_out
    square = float((away**2).sum())
    return float((away**3).sum()) / (6.0 * square**1.5) if square > 0 else 0.0


def _clean(values: npt.ArrayLike, scale: Scale) -> FloatArray:
    """The values sorted, so that no result depends on their order; checks them against their scale."""
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
