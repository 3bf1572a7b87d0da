"""Two selectors on the same queries: is the difference significant, how large is it, how many queries are needed?

Values are paired by query id before they come here: position i of both arrays is the same query.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ctxbench.bench.stats.intervals import FEW, LEVEL, SMALL, Interval, Scale, critical, hall_bounds
from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError

RESAMPLES = 9999  # random sign flips, where there are too many to try all
_EXACT = 20  # up to so many differences that are not 0 all sign flips are tried
_WHOLE = 1000  # up to so many discordant pairs the exact test counts in whole numbers
_ROWS = 512
_POWER = 0.8  # the chance that a difference is significant

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison of two selectors on the same queries by one metric; it does not say which is better.

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
        p_floor: the smallest p-value that the random sign flips can give, below which the true one may lie; 0 for an
            exact test.
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
        """True if no random flip was as extreme as what was seen, so that the true p-value is at most `p`."""
        return self.p_floor > 0.0 and self.p == self.p_floor

    @property
    def distinguishable(self) -> bool:
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


def correct(comparisons: Mapping[Key, Comparison]) -> dict[Key, Comparison]:
    """Correct comparisons that are read together, by Holm; keys and their order are kept.

    How many queries would tell is computed again for alpha / (number of comparisons), the strictest step of Holm's:
    at that many the difference is significant whatever the others come to.
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
        )
        for (key, comparison), p in zip(comparisons.items(), corrected, strict=True)
    }


def _with_needed(comparison: Comparison, *, family: int) -> Comparison:
    """The comparison with `needed` as one of `family` comparisons."""
    n, differing = comparison.n, comparison.higher + comparison.lower
    if not differing:
        return replace(comparison, needed=None)
    n_needed = needed_n(comparison.difference, comparison.square, differing / n, comparison.alpha / family)
    n_needed = None if n_needed is None else math.ceil(n_needed / comparison.worth)
    if n_needed is not None and n_needed <= n and not comparison.distinguishable:
        n_needed = None  # the formula is normal theory; n queries were asked, and did not tell
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
        tail = sum(math.comb(n, i) for i in range(fewer + 1))
        return min(1.0, 2 * tail / (1 << n))
    top = math.lgamma(n + 1) - math.lgamma(fewer + 1) - math.lgamma(n - fewer + 1) - n * math.log(2.0)
    below = np.arange(fewer, 0, -1, dtype=np.float64)
    ratio = 1.0 + float(np.cumprod(below / (n - below + 1.0)).sum())
    return min(1.0, 2.0 * math.exp(top) * ratio)


def sign_flip(differences: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Two-sided p-value of a mean difference, by flipping the signs of the paired differences.

    All flips are tried with up to 20 differences that are not 0 (zeros change nothing); with more, `resamples`
    random ones, and the p-value is (1 + those as extreme) / (1 + resamples). On differences of -1, 0 and 1 the
    exact form is the exact McNemar test.

    Args:
        differences: shape (n,), finite. Empty or all 0: the p-value is 1.
        resamples: random flips, >= 100.
        seed: of the flips; equal seeds give equal p-values, whatever the order of the differences and
            whichever side is taken from the other.

    Source: Fisher, The Design of Experiments, 1935; the added one: Phipson and Smyth, 2010.
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
    for first in range(0, resamples, _ROWS):
        drawn = rng.integers(0, 256, (min(_ROWS, resamples - first), width), dtype=np.uint8)
        sums = 2.0 * (np.unpackbits(drawn, axis=1, count=len(size)) @ size) - size.sum()
        hits += int(np.count_nonzero(np.abs(sums) >= extreme))
    return (1 + hits) / (1 + resamples)


def sign_flip_floor(differences: npt.ArrayLike, *, resamples: int = RESAMPLES) -> float:
    """The smallest p-value that `sign_flip` can give with random flips; 0 where it tries all flips.

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
    z = critical(level)
    away = _differences(differences)
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
    is_reliable = n >= SMALL and (scale != "amount" or unequal >= FEW)
    low, high = max(mean - half, -limit), min(mean + half, limit)
    return Interval(low=low, high=high, level=level, method=method, holds=is_reliable)


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
    times = np.arange(len(rising), 0, -1)
    out[rising] = np.minimum(np.maximum.accumulate(p[rising] * times), 1.0)
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
