"""Comparisons with grouped queries, of gains and losses, and at equal token counts; and detectable changes.

**Groups** (paraphrases, turns of a session): queries of a group are similar, so a sample holds less information than
as many independent queries. At a correlation of 0.5 in groups of three, a 95% interval by query covers 82 to 89%, one
by group 92 to 97% (`reports/tuning-coverage.md`).

**Gains and losses:** after a small change of a catalog most queries are equal and a few differ, by a line or by a long
document. Intervals by a normal or Student's deviate, Johnson's t, Hall's t and a bootstrap-t cover 60 to 90% there,
since a large difference may not be in the sample; `gain_loss_interval` accounts for that.

**Equal tokens:** more items make any selector more complete. So a selector is compared with the base at the same token
count, with the base's size increased or decreased.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from ctxbench.evaluation.metrics import Metric, summarise
from ctxbench.evaluation.statistics import (
    FEW,
    LEVEL,
    SMALL,
    Comparison,
    Estimate,
    Interval,
    Scale,
    bootstrap_interval,
    compare,
    correct,
    critical,
    difference_interval,
    estimate,
    hall_bounds,
    sign_flip,
    sign_flip_floor,
    wilson_bounds,
)
from ctxbench.io.errors import ParameterError, raise_first
from ctxbench.model.arrays import FloatArray, IntArray
from ctxbench.model.registry import StoredDomains, StoredRefine, StoredStep
from ctxbench.model.strategies import built_step

_METHOD = "gains and losses"
_MANY = 60  # groups that differ; with fewer, the sizes of their differences were not known well enough
_WIDE = 5.0  # spread of amounts, in mean sizes of a difference, from which on fewer are enough
_ROUNDING = 1e-12  # of sums over a group, as a share of the largest values


def gain_loss_interval(
    base: npt.ArrayLike, other: npt.ArrayLike, groups: npt.ArrayLike, *, scale: Scale, level: float = LEVEL
) -> Interval:
    """Interval for the mean of other - base where pairs are independent between groups only.

    1. The groups' sums of differences are taken for gains and, apart from them, losses: as many as a Poisson count
       comes to, of sizes as seen.
    2. Each sum of sizes gets Fay and Feuer's interval, a chi-square with as many degrees of freedom as the sizes are
       worth. Its high end allows for one more difference, counted half, as a mid-P value counts what was seen. That one
       is as large as the largest seen or, if that is more, as 1 (yes/no and shares) or the standard deviation of the
       amounts among queries. So there is a width even where nothing differs.
    3. Both are joined by Zou and Donner's formula for a difference.
    4. Where many differ, their count varies less than a Poisson count. So the ends are drawn in by the ratio of the
       spread of the groups' sums about what the mean makes expected to their root mean square (one more included).

    Coverage at level 0.95, simulated by `python experiments/gate/gate_chance_intervals.py`: 93% and above for shares,
    yes/no values and prompt tokens of workbench and freight, above 97% where few differ. Amounts whose differences are
    not small compared with their spread, 85% for lognormal ones with sigma 1, and down to 73% where one in fifty is ten
    times the mean; there `holds` is False. Made-up amounts where it is True: 90% and above.

    Args:
        base, other: shape (n_queries,), paired; pairs with a NaN are left out.
        groups: names or numbers of the group that each query is of, shape (n_queries,).
        scale: what the values are.
        level: nominal coverage.

    Returns:
        The interval, within [-1, 1] for yes/no and shares. Without pairs [-1, 1], or infinite for amounts. `holds` is
        False with fewer than 20 groups, and for amounts with fewer than 10 groups that differ, or 60, unless the
        amounts spread at least five times as far as those differ on average. It depends on no order and no name of a
        group, and swapping the sides mirrors it.

    Raises:
        ParameterError: the lengths differ.

    Source: Fay and Feuer, Confidence intervals for directly standardized rates: a method based on the gamma
        distribution, Statistics in Medicine 16, 1997; Fay and Kim, the same with mid-p gamma intervals, Biometrical
        Journal 59, 2017; Zou and Donner, Construction of confidence limits about effect measures: a general approach,
        Statistics in Medicine 27, 2008. How large one more difference is taken to be, and step 4, are ours.
    """
    left, right, named = np.asarray(base, dtype=np.float64), np.asarray(other, dtype=np.float64), np.asarray(groups)
    if not left.shape == right.shape == named.shape or left.ndim != 1:
        shapes = f"{left.shape}, {right.shape} and {named.shape}"
        raise ParameterError(f"paired values and their groups need equal lengths, got shapes {shapes}")
    paired = ~np.isnan(right - left)
    left, right, (_, group) = left[paired], right[paired], np.unique(named[paired], return_inverse=True)
    n, limit = len(left), math.inf if scale == "amount" else 1.0
    if not n:
        return Interval(low=-limit, high=limit, level=level, method=_METHOD, holds=False)
    order = np.lexsort((right, left, right + left))  # so that no result depends on the order of queries
    left, right, group = left[order], right[order], group[order]
    size, sums = np.bincount(group), np.bincount(group, right - left)
    sums[np.abs(sums) <= _ROUNDING * float(np.abs(left).max() + np.abs(right).max())] = 0.0
    unequal = np.sort(np.abs(sums[sums != 0]))
    unit = math.sqrt(float(left.var() + right.var()) / 2.0) if scale == "amount" else 1.0
    extra = max(float(unequal.max(initial=0.0)), unit)
    gains, losses = (_reach(np.sort(side[side > 0]), extra, level=level) for side in (sums, -sums))
    mean = math.fsum(sums.tolist()) / n
    square = float(unequal @ unequal) + extra**2
    spread = math.fsum(((sums - size * mean) ** 2).tolist()) + extra**2
    scaled = math.sqrt(min(spread / square, 1.0)) / n if square > 0 else 0.0
    low = mean - scaled * math.hypot(gains[0], losses[1])
    high = mean + scaled * math.hypot(gains[1], losses[0])
    is_reliable = len(size) >= SMALL
    if is_reliable and scale == "amount":
        is_reliable = len(unequal) >= (FEW if unit * len(unequal) >= _WIDE * float(unequal.sum()) else _MANY)
    return Interval(low=max(low, -limit), high=min(high, limit), level=level, method=_METHOD, holds=is_reliable)


def agreeing(comparison: Comparison) -> Comparison:
    """The comparison with an interval that lies on one side of 0, or ends there, exactly if its p-value is <= alpha.

    An end that says otherwise is moved to 0. That an interval is lengthened costs no coverage. That it is cut costs
    some only where the true difference has the other sign than the significant one, the chance of which is at most
    alpha / 2. It is the p-value of this comparison alone, as the interval is.
    """
    interval, difference = comparison.interval, comparison.difference
    if not comparison.n:
        return comparison
    low, high = interval.low, interval.high
    if comparison.p > comparison.alpha:
        low, high = min(low, 0.0), max(high, 0.0)
    elif difference > 0:
        low = max(low, 0.0)
    else:
        high = min(high, 0.0)
    return replace(comparison, interval=replace(interval, low=low, high=high))


def _reach(sizes: FloatArray, extra: float, *, level: float) -> tuple[float, float]:
    """How far the expected sum of sizes, as many of them as a Poisson count, may lie below and above the one seen.

    Args:
        sizes: of the differences to one side, above 0, shape (n,).
        extra: size of one more difference that may come, half of which is added above.
        level: nominal coverage.
    """
    total, square = float(sizes.sum()), float((sizes**2).sum())
    low = square / (2.0 * total) * chi_square(total**2 / square * 2.0, -critical(level)) if total else 0.0
    above, wide = total + extra / 2.0, square + extra**2 / 2.0
    high = wide / (2.0 * above) * chi_square(above**2 / wide * 2.0, critical(level)) if above else 0.0
    return total - low, high - total


def chi_square(df: float, deviate: float) -> float:
    """The value of a chi-square that is as probable not to be exceeded as `deviate` is of a normal value.

    Within 2% of the exact one at +1.96 from 1 degree of freedom on; at -1.96 within 3% from 8 on, and too low below,
    0.026 for 0.051 at 2.

    Source: Wilson and Hilferty, The distribution of chi-square, PNAS 17, 1931.
    """
    bend = 2.0 / (9.0 * df)
    return df * max(1.0 - bend + deviate * math.sqrt(bend), 0.0) ** 3


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
    low, high = wilson_bounds(float(sample.sum()) / len(sample), answers, level=level)
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
    return correct({"": grouped})[""]  # computes `needed` anew


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
    if (groups := int(group.max()) + 1) < 2:
        return Interval(low=0.0, high=math.inf, level=level, method=method, holds=False)
    if len(distinct) == 1:
        return Interval(low=float(distinct[0]), high=float(distinct[0]), level=level, method=method, holds=False)
    low, high = hall_bounds(np.sort(by_group(sample, group)), level=level)
    differ = int(np.count_nonzero(np.bincount(group[index != counts.argmax()])))
    return Interval(low=max(0.0, low), high=high, level=level, method=method, holds=groups >= SMALL and differ >= FEW)


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
        values: as `ctxbench.evaluation.metrics.evaluate` gives them: shape (n_queries,), NaN = does not apply.
        level: nominal coverage.
        seed: of the bootstrap, which only metrics made of several means use (BoR).
        groups: of each query, shape (n_queries,), for intervals that hold where only queries of different groups are
            independent (see `grouped_estimate`); a bootstrap takes no account of it. Every query alone if not given.
    """
    out = {}
    for metric, mean in summarise(metrics, values).items():
        if (scale := metric.declaration.scale) == "bits":
            rows = np.stack([values[part] for part in metric.parts], axis=1)
            rows = rows[~np.isnan(rows).any(axis=1)]
            out[metric] = Estimate(
                value=mean.value,
                interval=bootstrap_interval(rows, _bits, level=level, seed=seed),
                n=mean.n,
                left_out=mean.left_out,
            )
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


LENGTHS = (*range(31), 40, 50, 75, 100)
_AROUND = 2  # points to either side that the slope of the curve is taken over


@dataclass(frozen=True, eq=False)
class Curve:
    """What the base offers, from nothing to much.

    Attributes:
        complete: by setting and query, shape (n_settings, n_queries); NaN where nothing is required.
        tokens: the same shape; a setting's tokens are no fewer than those of the one before, on every query.
    """

    complete: FloatArray
    tokens: FloatArray

    def __post_init__(self) -> None:
        if self.complete.shape != self.tokens.shape or self.tokens.ndim != 2 or len(self.tokens) < 2:
            raise ParameterError(
                f"a curve needs completeness and tokens of two or more settings by query, got shapes "
                f"{self.complete.shape} and {self.tokens.shape}"
            )
        if (np.diff(self.tokens, axis=0) < 0).any():
            raise ParameterError("the tokens of a curve must not fall from one setting to the next")

    def means(self) -> tuple[FloatArray, FloatArray]:
        """Mean tokens and mean completeness of every setting, each of shape (n_settings,)."""
        return self.tokens.mean(axis=1), self.complete[:, ~np.isnan(self.complete[0])].mean(axis=1)


@dataclass(frozen=True, eq=False, kw_only=True)
class AtTokens:
    """A strategy compared with the base at the strategy's tokens.

    Attributes:
        tokens: the strategy's mean.
        complete: the strategy's completeness.
        base: that of the base for as many tokens; NaN if its curve ends before.
        comparison: of the two on the same queries; None if the curve ends before.
        p_groups: p-value of the same test on groups of queries in place of queries, not corrected; NaN as above.
    """

    tokens: float
    complete: float
    base: float
    comparison: Comparison | None
    p_groups: float = math.nan


def refining(steps: Sequence[StoredRefine]) -> tuple[StoredRefine, ...]:
    """Refining steps of a described pipeline, also those of domains, without those that are switched off.

    A step is off with `enabled: false`, and a cut that excludes nothing of what the cut before it offers.
    """
    effective: list[StoredRefine] = []
    for step in steps:
        if isinstance(step, StoredDomains):
            effective.append(
                StoredDomains(tuple((types, refining(domain_steps)) for types, domain_steps in step.domains))
            )
        elif step.values.get("enabled") is not False and not (effective and _leaves_all(step, effective[-1])):
            effective.append(step)
    return tuple(effective)


def _leaves_all(step: StoredStep, before: StoredRefine) -> bool:
    """Whether a cut excludes nothing of what the step before it offers."""
    if step.kind != "cut" or not isinstance(before, StoredStep):
        return False
    return bool(built_step(step).declared("leaves_all")(before.build()))


def at_equal_tokens(
    complete: FloatArray, tokens: FloatArray, curve: Curve, *, groups: IntArray | None = None, seed: int = 0
) -> AtTokens:
    """Compare a strategy with the base at the strategy's mean tokens.

    The base between two settings is the one or the other by lot, in the proportion that gives as many tokens on
    average. With curve C over mean tokens T and slope b there, each query counts as its difference in completeness
    less b times its difference in tokens: the second part has mean 0 and takes into account that the tokens at which
    the two are compared are known from the same queries only. The test is that of `compare` for amounts, sign flips;
    the interval that of Bonett and Price, since most queries differ by next to nothing and few by one: by simulation
    it covers 93 to 99%, where Hall's t falls to 86%.

    Args:
        complete: of the strategy by query, NaN where nothing is required; shape (n_queries,).
        tokens: of the strategy by query; shape (n_queries,). Queries that need nothing cost tokens, too.
        curve: of the base on the same queries.
        groups: a number for the group of every query, shape (n_queries,); None = each is a group alone.
        seed: of the sign flips.

    Returns:
        The comparison; with no query that requires anything it has n = 0.

    Raises:
        ParameterError: the shapes differ, or a query has no tokens because the selector failed on it.

    Source: ours; the linear form is the delta method.
    """
    raise_first(
        (
            complete.shape != tokens.shape or tokens.shape != curve.tokens.shape[1:],
            "strategy and curve must be of the same queries",
        ),
        (
            np.isnan(tokens).any(),
            "a query that failed has no tokens; strategies are compared where all queries were answered",
        ),
    )
    applies = ~np.isnan(complete)
    if not applies.any():
        return AtTokens(
            tokens=float(tokens.mean()) if len(tokens) else 0.0,
            complete=math.nan,
            base=math.nan,
            comparison=compare(complete, complete, scale="amount", seed=seed),
        )
    spent, completeness = float(tokens.mean()), float(complete[applies].mean())
    if spent > curve.tokens[-1].mean():
        return AtTokens(tokens=spent, complete=completeness, base=math.nan, comparison=None)
    base_complete, base_tokens, slope = _by_lot(curve, spent)
    gained = np.where(applies, complete - base_complete, 0.0) * (len(complete) / applies.sum())
    away = gained - slope * (tokens - base_tokens)
    return AtTokens(
        tokens=spent,
        complete=completeness,
        base=float(base_complete[applies].mean()),
        comparison=_compared(away, seed),
        p_groups=sign_flip(away if groups is None else np.bincount(groups, weights=away), seed=seed),
    )


def _by_lot(curve: Curve, spent: float) -> tuple[FloatArray, FloatArray, float]:
    """The base with `spent` tokens on average: completeness and tokens by query, and the slope of its curve there."""
    mean_tokens, mean_complete = curve.means()
    below = int(np.flatnonzero(mean_tokens <= spent)[-1])
    above = min(below + 1, len(mean_tokens) - 1)
    width = mean_tokens[above] - mean_tokens[below]
    share = (spent - mean_tokens[below]) / width if width else 0.0
    low, high = max(below - _AROUND, 0), min(above + _AROUND, len(mean_tokens) - 1)
    run = mean_tokens[high] - mean_tokens[low]
    slope = float((mean_complete[high] - mean_complete[low]) / run) if run else 0.0
    complete, tokens = (
        (1 - share) * values[below] + share * values[above] for values in (curve.complete, curve.tokens)
    )
    return complete, tokens, slope


def _compared(away: FloatArray, seed: int) -> Comparison:
    """The comparison of paired differences that are mostly small."""
    largest = max(float(np.abs(away).max()), 1.0)
    interval = difference_interval(away / largest, scale="share")
    interval = replace(interval, low=interval.low * largest, high=interval.high * largest)
    return replace(compare(np.zeros(len(away)), away, scale="amount", seed=seed), interval=interval)


POWER = 0.8  # the chance that a detectable change is judged worse
_MARGIN = 1e-12  # of counts, and of what a mean can get worse by: rounding


# Where queries differ with a standard deviation sd, let se = sd / sqrt(n), n what they are worth
# (`Comparison.worth`). A change D from the first becomes (D + sqrt(D^2 + 4 (z_a + z_b)^2 se^2)) / 2, which solves
# Connor's equation with D for what it says without those differences; what the second exceeds the tolerance by is
# joined with z_b se in quadrature; z_a for alpha / family, two-sided, and z_b for the power. With a `size` of 0, as
# if all got worse alike, these are (z_a + z_b) se and tolerance + z_b se, the common formula for means.
def detectable(
    comparison: Comparison, *, groups: int, tolerance: float, family: int, size: float, room: float = math.inf
) -> float | None:
    """The smallest true change for the worse that would be judged worse with a chance of `POWER` on as many queries.

    Assumed: all queries of a group get worse by `size` together, with the same chance q, and apart from that queries
    differ as those seen do (which for a selector that always answers alike is not at all, if nothing changed). The
    change is q x size, and the smallest that meets both of these:

    * significant: k groups that all get worse are, by exact McNemar and sign flips alike, if 2^(1 - k) <= alpha /
      family. So P(X >= k) >= POWER, X binomial(groups, q).
    * beyond the tolerance: P(X x size > groups x tolerance) >= POWER.

    alpha / family is the strictest step of Holm's, so smaller changes are detected if several metrics get worse, or if
    queries of a group change independently.

    Args:
        comparison: on the queries at hand.
        groups: how many they are of, at most as many as there are queries.
        tolerance: changes up to this are the same, in the unit of the metric.
        family: how many comparisons are corrected together, >= 1.
        size: how much worse a query gets that does, in the unit of the metric, >= 0.
        room: how much worse the mean can get.

    Returns:
        In the unit of the metric, >= 0; None where no such change can be named: more would have to get worse than can,
        there are no queries, or `size` is 0 and nothing differs.

    Source: Connor, Sample size for testing differences in proportions for the paired-sample design, Biometrics 43,
        1987; the binomial law for the exact test; the rest is ours. `python experiments/gate/gate_chance_intervals.py`
        measures how often a change of that size is judged worse.
    """
    differ = comparison.higher + comparison.lower
    if not groups or not (size or differ):
        return None
    alpha = comparison.alpha / family
    significant, beyond = 0.0, tolerance
    if size:
        group_counts = (
            math.ceil(1.0 - math.log2(alpha) - _MARGIN),
            math.floor(tolerance / size * groups + _MARGIN) + 1,
        )
        if max(group_counts) > groups:
            return None
        significant, beyond = (size * _binomial_chance(groups, count) for count in group_counts)
    if differ:
        sd = math.sqrt(max(comparison.square - comparison.difference**2, 0.0))
        z_power, se = critical(2.0 * POWER - 1.0), sd / math.sqrt(comparison.n * comparison.worth)
        significant = (significant + math.hypot(significant, 2.0 * (critical(1.0 - alpha) + z_power) * se)) / 2.0
        beyond = tolerance + math.hypot(beyond - tolerance, z_power * se)
    change = max(significant, beyond)
    return change if change <= room + _MARGIN else None


@cache
def _binomial_chance(n: int, minimum: int) -> float:
    """The smallest q with P(X >= minimum) >= POWER, X binomial(n, q), minimum <= n."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if _at_least(minimum, n, middle) >= POWER else (middle, high)
    return high


def _at_least(minimum: int, n: int, chance: float) -> float:
    """P(X >= minimum), X binomial(n, chance)."""
    if chance <= 0.0 or chance >= 1.0:
        return float(chance >= 1.0)
    yes, no = math.log(chance), math.log1p(-chance)
    return 1.0 - math.fsum(
        [math.exp(log_ways + k * yes + (n - k) * no) for k, log_ways in enumerate(_log_ways(minimum, n))]
    )


@cache
def _log_ways(minimum: int, n: int) -> tuple[float, ...]:
    """Logarithms of how many ways there are to choose k of n, for every k below `minimum`."""
    return tuple(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(minimum))
