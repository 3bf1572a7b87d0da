"""Interval for a mean difference that holds where few queries differ, and by very different sizes.

Most queries get and cost the same before and after a small change of a catalog, and a few cost more or less by anything
from a line to a long document. What an interval by a normal or Student's deviate misses then is the large difference
that happens not to be among the few: it covers 60 to 90%, and Johnson's t, Hall's t and a bootstrap-t do no better.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ctxbench.bench.stats.intervals import FEW, LEVEL, SMALL, Interval, Scale, critical
from ctxbench.bench.stats.paired import Comparison
from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError

_METHOD = "gains and losses"
_MANY = 60  # groups that differ, from which on their sizes alone were found to tell what sizes there are
_WIDE = 5.0  # spread of amounts, in mean sizes of a difference, from which on fewer were found to do
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
