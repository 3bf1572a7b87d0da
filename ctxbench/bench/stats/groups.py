"""Estimates and comparisons of metrics, also where queries come in groups, such as paraphrases or turns of one session.

Queries of one group share what makes them easy or hard, so that a sample says less than as many independent ones: at a
correlation of 0.5 within groups of three an interval by query that is called 95% covers 82 to 89%, one by group 92 to
97% (reports/tuning-coverage.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ctxbench.bench.metrics.named_metrics import Metric, summarise
from ctxbench.bench.stats.intervals import (
    FEW,
    LEVEL,
    SMALL,
    Estimate,
    Interval,
    Scale,
    bootstrap_interval,
    estimate,
    hall_bounds,
    wilson_bounds,
)
from ctxbench.bench.stats.paired import Comparison, compare, correct, difference_interval, sign_flip, sign_flip_floor
from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.errors import ParameterError


def worth(group_sums: npt.ArrayLike, sizes: npt.ArrayLike, *, at_most: npt.ArrayLike | None = None) -> FloatArray:
    """How many independent yes/no answers a sample in groups is worth.

    n^2 m(1 - m) / v, v the sum over groups of the squared distance of their sum from its expectation under the mean m,
    times g / (g - 1), with one query's m(1 - m) added as `share_bounds` adds it. At least n^2 / (sum of squared sizes),
    what it is where each group answers as one: the number of groups, if all are of one size. It is that where all
    answers are 0 or all are 1, since nothing is known of their correlation then.

    Args:
        group_sums: sums over the groups of values in [0, 1], such as counts of successes; shape (..., n_groups).
        sizes: queries, >= 1 each, shape (n_groups,), at least one group.
        at_most: what the same values are worth if all are independent, a shape that broadcasts with the result; the
            number of queries n, as for yes/no answers, if not given.

    Returns:
        Shape (...,); from n^2 / (sum of squared sizes) to `at_most`. With groups of one query each it is n.

    Source: Kish, Survey Sampling, 1965, for the variance; Korn and Graubard, Confidence intervals for proportions with
        small expected number of positive counts estimated from survey data, Survey Methodology 24, 1998, for its use in
        an interval of a proportion.
    """
    sums, size = np.asarray(group_sums, dtype=np.float64), np.asarray(sizes, dtype=np.float64)
    n, groups = float(size.sum()), len(size)
    mean = sums.sum(axis=-1) / n
    binomial = mean * (1.0 - mean)
    away = ((sums - size * mean[..., None]) ** 2).sum(axis=-1) * groups / max(groups - 1, 1) + binomial
    lowest = n**2 / float((size**2).sum())
    answers = np.full(mean.shape, lowest)
    if groups > 1:
        np.divide(n**2 * binomial, away, out=answers, where=binomial > 0)
    return np.asarray(np.clip(answers, lowest, n if at_most is None else at_most), dtype=np.float64)


def by_group(values: FloatArray, group: IntArray) -> FloatArray:
    """One value per group: their mean is that of `values`, and their spread that of the groups' sums.

    The mean, and (groups / n) x the sum over the group of what its values are above the mean. An interval for the mean
    of independent values then holds for values that are independent between groups only.

    Args:
        values: shape (n,), n >= 1.
        group: which group each is of, shape (n,), from 0 on, none of them empty.

    Returns:
        Shape (n_groups,); with groups of one query each the values, but for rounding.

    Source: the linearised values of a ratio mean; Cochran, Sampling Techniques, 1977, chapter 9A.
    """
    sizes, mean = np.bincount(group), float(values.mean())
    return np.asarray(mean + len(sizes) / len(values) * np.bincount(group, values - mean), dtype=np.float64)


def worth_of(values: npt.ArrayLike, groups: npt.ArrayLike) -> float:
    """How many independent answers the known values of a metric are worth; see `worth`.

    Args:
        values: shape (n_queries,), 0 or 1, or NaN, which is left out.
        groups: which group each is of, shape (n_queries,).

    Returns:
        At most the number of known values; 0 if there are none.
    """
    sample, group = _drop_missing(values, groups)
    return float(worth(np.bincount(group, sample), np.bincount(group))) if len(sample) else 0.0


def grouped_estimate(values: npt.ArrayLike, groups: npt.ArrayLike, *, scale: Scale, level: float = LEVEL) -> Estimate:
    """As `estimate`, with an interval that holds where values are independent between groups only.

    * yes/no: Wilson's interval at `worth`.
    * share: Wilson's interval at `worth` of the groups' sums, which is at most what the same values would be worth if
      all were independent: n m(1 - m) / (v + m(1 - m) / n), v their variance, and at least n (see `share_bounds`).
      Values that are all 0 or 1 give exactly the interval of yes/no.
    * amount: Hall's t of one value a group (see `by_group`).

    The mean is that of the queries, as large groups have more of them. Depends on which values are grouped together,
    and neither on their order nor on the names of groups. Where all groups are of one query it is `estimate`.

    Args:
        values: by query, shape (n_queries,); NaN are left out, counted. yes/no: 0 or 1; share: in [0, 1]; amount: >= 0.
        groups: names or numbers of the group that each is of, shape (n_queries,).
        scale: what the values are.
        level: nominal coverage.

    Returns:
        The mean over queries. The interval holds with 10 groups or more; that of an amount with 20, of which 10 have a
        value that differs from the most frequent one. With one group that of an amount is [0, infinity).

    Raises:
        ParameterError: a value is outside its scale, or infinite; values and groups are not equally many.

    Source: see `worth` and `by_group`.
    """
    plain = estimate(values, scale=scale, level=level)
    sample, group = _drop_missing(values, groups)
    sizes = np.bincount(group)
    if len(sizes) == len(sample):
        return plain
    if scale == "amount":
        return replace(plain, interval=_amount(np.maximum(sample, 0.0), group, level=level))
    sample = np.clip(sample, 0.0, 1.0)
    sums = np.bincount(group, sample)
    order = np.lexsort((sums, sizes))  # so that no name of a group decides the last digits
    answers = worth(sums[order], sizes[order], at_most=_independent_worth(sample) if scale == "share" else None)
    mean = float(sample.sum()) / len(sample)
    low, high = wilson_bounds(mean, answers, level=level)
    method, is_reliable = "Wilson, by group", len(sizes) >= FEW
    return replace(
        plain, interval=Interval(low=float(low), high=float(high), level=level, method=method, holds=is_reliable)
    )


def grouped_compare(
    base: npt.ArrayLike,
    other: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    scale: Scale,
    alpha: float = 0.05,
    seed: int = 0,
) -> Comparison:
    """As `compare`, with a test and an interval that hold where pairs are independent between groups only.

    The test flips the signs of the groups' sums of differences. The interval is that of `difference_interval`, for
    amounts that differ on at least half of the queries of one value a group (see `by_group`), else for as many
    independent pairs as there are in effect: n x (sum of squared distances of the differences from their mean) / (that
    of the groups' sums from theirs, times g / (g - 1)), from n^2 / (sum of squared sizes) to n. How many queries would
    tell is for such groups.

    Means and counts are those of queries. Where all groups are of one query it is `compare`.

    Args:
        base, other: shape (n_queries,), paired; NaN where the metric does not apply. Pairs with a NaN are left out.
        groups: names or numbers of the group that each query is of, shape (n_queries,).
        scale: what the values are.
        alpha: the p-value at or below which the difference is significant; the interval has level 1 - alpha.
        seed: of the sign flips, where there are too many to try all.

    Raises:
        ParameterError: the lengths differ, or a value is infinite.

    Source: Kish, Survey Sampling, 1965, for the effect of groups on a variance; see `difference_interval`, `sign_flip`.
    """
    plain = compare(base, other, scale=scale, alpha=alpha, seed=seed)
    away, group = _drop_missing(np.asarray(other, dtype=np.float64) - np.asarray(base, dtype=np.float64), groups)
    sizes, n = np.bincount(group), len(away)
    if len(sizes) == n:
        return plain
    sums = np.asarray(np.bincount(group, away), dtype=np.float64)
    order = np.lexsort((sums, sizes))
    p = sign_flip(sums[order], seed=seed)
    share = _share_independent(away, sums[order], sizes[order])
    differ = int(np.count_nonzero(np.bincount(group[away != 0])))
    is_reliable = len(sizes) >= SMALL and (scale != "amount" or differ >= FEW)
    if scale == "amount" and 2 * np.count_nonzero(away) >= n:
        interval = difference_interval(by_group(away, group), scale=scale, level=1.0 - alpha)
    else:
        interval = difference_interval(away, scale=scale, level=1.0 - alpha, worth=share)
    grouped = replace(
        plain,
        interval=replace(interval, method=f"{interval.method}, by group", holds=is_reliable and interval.holds),
        p=p,
        p_holm=p,
        p_floor=sign_flip_floor(sums),
        test="sign flips of groups",
        worth=share,
    )
    return correct({"": grouped})[""]  # how many would tell


def _share_independent(away: FloatArray, sums: FloatArray, sizes: IntArray) -> float:
    """How many independent differences each is worth; where all are equal what groups that differ as one are worth."""
    n, groups = len(away), len(sizes)
    mean = float(away.sum()) / n
    spread = float(((away - mean) ** 2).sum())
    lowest = n / float((sizes**2).sum())
    grouped = float(((sums - sizes * mean) ** 2).sum()) * groups / max(groups - 1, 1)
    if groups < 2 or away[0] == away[-1]:
        return lowest
    return min(max(spread / grouped, lowest), 1.0) if grouped > 0 else 1.0


def _drop_missing(values: npt.ArrayLike, groups: npt.ArrayLike) -> tuple[FloatArray, IntArray]:
    """The values that are not NaN in rising order, so that no sum depends on theirs, and the group of each, from 0."""
    array, named = np.asarray(values, dtype=np.float64), np.asarray(groups)
    if array.shape != named.shape:
        raise ParameterError(f"every value needs a group: got shapes {array.shape} and {named.shape}")
    present = ~np.isnan(array)
    order = array[present].argsort(kind="stable")
    _, group = np.unique(named[present][order], return_inverse=True)
    return array[present][order], group.astype(np.int64)


def _independent_worth(sample: FloatArray) -> float:
    """What values in [0, 1] are worth if all are independent, as `share_bounds` has it."""
    n, mean = len(sample), float(sample.sum()) / len(sample)
    binomial = mean * (1.0 - mean)
    spread = float(((sample - mean) ** 2).sum()) + binomial
    return n * max(1.0, n * binomial / spread) if spread > 0 else float(n)


def _amount(sample: FloatArray, group: IntArray, *, level: float) -> Interval:
    """Hall's t of one value per group; of no width where all values are equal, and as wide as can be with one group."""
    method, (distinct, index, counts) = "Hall's t, by group", np.unique(sample, return_inverse=True, return_counts=True)
    groups = int(group.max()) + 1
    if groups < 2:
        return Interval(low=0.0, high=math.inf, level=level, method=method, holds=False)
    if len(distinct) == 1:
        return Interval(low=float(distinct[0]), high=float(distinct[0]), level=level, method=method, holds=False)
    low, high = hall_bounds(np.sort(by_group(sample, group)), level=level)
    differ = int(np.count_nonzero(np.bincount(group[index != counts.argmax()])))
    is_reliable = groups >= SMALL and differ >= FEW
    return Interval(low=max(0.0, low), high=high, level=level, method=method, holds=is_reliable)


def estimates(
    metrics: Iterable[Metric],
    values: Mapping[Metric, FloatArray],
    *,
    level: float = LEVEL,
    seed: int = 0,
    groups: IntArray | None = None,
) -> dict[Metric, Estimate]:
    """Mean and interval of each metric, from values by query.

    Args:
        metrics: what is asked; one whose values (or whose parts') are not in `values` is left out.
        values: as `ctxbench.bench.metrics.evaluate` gives them: shape (n_queries,), NaN = does not apply.
        level: nominal coverage.
        seed: of the bootstrap, which only metrics made of several means use (BoR).
        groups: of each query, shape (n_queries,), for intervals that hold where only queries of different groups are
            independent (see `grouped_estimate`); a bootstrap takes no account of it. Every query alone if not given.
    """
    out = {}
    requested = list(metrics)
    for metric, mean in summarise(requested, values).items():
        scale = metric.declaration.scale
        if scale == "bits":
            rows = np.stack([values[part] for part in metric.parts], axis=1)
            rows = rows[~np.isnan(rows).any(axis=1)]
            interval = bootstrap_interval(rows, _bits, level=level, seed=seed)
            out[metric] = Estimate(value=mean.value, interval=interval, n=mean.n, left_out=mean.left_out)
        else:
            query_groups = np.arange(len(values[metric])) if groups is None else groups
            out[metric] = grouped_estimate(values[metric], query_groups, scale=scale, level=level)
    return out


def compare_metric(
    metric: Metric,
    base: Mapping[Metric, FloatArray],
    other: Mapping[Metric, FloatArray],
    *,
    alpha: float = 0.05,
    seed: int = 0,
    groups: IntArray | None = None,
) -> Comparison:
    """Compare two selectors on one metric: see `compare`, and `grouped_compare` where groups are given.

    A metric made of several is compared by its first part: the chance in Bits-over-Random is the same for both, so its
    difference is one of Success@k.

    Raises:
        ParameterError: one side has no values of the metric.
    """
    part = metric.parts[0]
    scale = part.declaration.scale
    if part not in base or part not in other or scale == "bits":
        raise ParameterError(f"{metric} cannot be compared: one side has no values of {part}")
    if groups is None:
        return compare(base[part], other[part], scale=scale, alpha=alpha, seed=seed)
    return grouped_compare(base[part], other[part], groups, scale=scale, alpha=alpha, seed=seed)


def _bits(means: FloatArray) -> FloatArray:
    """Bits over random from mean success and mean chance, shape (m, 2); minus infinity at no success."""
    ratio = means[:, 0] / means[:, 1]
    out = np.full(len(ratio), -np.inf)
    np.log2(ratio, out=out, where=ratio > 0)
    return out
