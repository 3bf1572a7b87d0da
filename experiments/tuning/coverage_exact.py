"""Intervals of a proportion made from the count alone, and what each of them covers: enumeration, no simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy import special, stats

from ctxbench.evaluation.statistics import critical, wilson_bounds
from ctxbench.model.arrays import FloatArray

NS, PS = (50, 100, 300), (0.5, 0.9, 0.98)
CELLS = tuple((n, p) for n in NS for p in PS)
LOW, HIGH = 0.93, 0.97  # the bar
LEVEL = 0.95
Bounds: TypeAlias = tuple[FloatArray, FloatArray]


def wilson(n: int) -> Bounds:
    """What the package prints."""
    return wilson_bounds(np.arange(n + 1) / n, n, level=LEVEL)


def mid_p(n: int) -> Bounds:
    """Clopper and Pearson's interval with half of the chance of what was seen (Lancaster, 1961), by bisection."""
    count = np.arange(n + 1)
    low, high = np.zeros(n + 1), np.ones(n + 1)
    for _ in range(60):
        p = (low + high) / 2
        at_least = np.where(count > 0, special.betainc(np.maximum(count, 1), n - count + 1, p), 1.0)
        more = np.where(count < n, special.betainc(count + 1, np.maximum(n - count, 1), p), 0.0)
        under = (at_least + more) / 2 < (1 - LEVEL) / 2
        low, high = np.where(under, p, low), np.where(under, high, p)
    low[0] = 0.0
    return low, 1.0 - low[::-1]


def beta_prior(n: int, weight: float) -> Bounds:
    """The middle of the posterior of a beta(weight, weight) prior; no failure: up to 1, no success: from 0."""
    count = np.arange(n + 1)
    low, high = (stats.beta.ppf(end, count + weight, n - count + weight) for end in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    low[0], high[-1] = 0.0, 1.0
    return low, high


def jeffreys(n: int) -> Bounds:
    """The prior beta(1/2, 1/2)."""
    return beta_prior(n, 0.5)


def three_quarters(n: int) -> Bounds:
    """The prior beta(3/4, 3/4), between Jeffreys's and the even one: no method of the literature."""
    return beta_prior(n, 0.75)


def agresti_coull(n: int) -> Bounds:
    """Wald's interval after adding z^2 / 2 successes and as many failures (Agresti and Coull, 1998)."""
    z = critical(LEVEL)
    size = n + z**2
    p = (np.arange(n + 1) + z**2 / 2) / size
    half = z * np.sqrt(p * (1 - p) / size)
    return np.clip(p - half, 0, 1), np.clip(p + half, 0, 1)


def clopper_pearson(n: int) -> Bounds:
    """Never below the nominal level."""
    count = np.arange(n + 1)
    low, high = np.zeros(n + 1), np.ones(n + 1)
    low[1:] = stats.beta.ppf((1 - LEVEL) / 2, count[1:], n - count[1:] + 1)
    high[:-1] = stats.beta.ppf((1 + LEVEL) / 2, count[:-1] + 1, n - count[:-1])
    return low, high


METHODS: dict[str, Callable[[int], Bounds]] = {
    "Wilson": wilson,
    "mid-p": mid_p,
    "Jeffreys": jeffreys,
    "Agresti-Coull": agresti_coull,
    "Clopper-Pearson": clopper_pearson,
    "beta(3/4, 3/4)": three_quarters,
}


def chances(n: int, p: float) -> FloatArray:
    """P(count) of 0 to n successes, shape (n + 1,)."""
    return np.asarray(stats.binom.pmf(np.arange(n + 1), n, p), dtype=np.float64)


def coverage(bounds: Bounds, p: float) -> float:
    """P(low <= p <= high): the chances of the counts whose interval holds p, added up.

    Args:
        bounds: low and high ends by count, each of shape (n + 1,).
        p: the true proportion.
    """
    low, high = bounds
    return float(chances(len(low) - 1, p)[(low <= p) & (p <= high)].sum())


@dataclass(frozen=True, slots=True)
class Within:
    """Which coverages an interval made from the count alone can have at one n and p.

    Attributes:
        ranges: how many ranges of counts have a chance within the bar.
        below, above: the chances next to the bar, of any range.
    """

    ranges: int
    below: float
    above: float


def possible(n: int, p: float) -> Within:
    """All coverages that ends which do not fall as the count rises can have.

    With such ends the counts whose interval holds p are a range: low(count) <= p is so up to some count, and
    p <= high(count) from some count on. So the coverage is the chance of a range, of which there are
    (n + 1)(n + 2) / 2.
    """
    below = np.concatenate([[0.0], np.cumsum(chances(n, p))])
    first, last = np.triu_indices(n + 1)
    found = below[last + 1] - below[first]
    inside = (found >= LOW) & (found <= HIGH)
    return Within(int(inside.sum()), float(found[found < LOW].max()), float(found[found > HIGH].min()))


@dataclass(frozen=True, slots=True)
class Overall:
    """A method over a grid of n and p.

    Attributes:
        mean, least: coverage.
        inside: share of the grid within the bar.
        width: mean expected width.
        above, most_above: mean and greatest chance that the low end lies above p: a constraint met by mistake.
    """

    mean: float
    least: float
    inside: float
    width: float
    above: float
    most_above: float


GRID_N, GRID_P = range(20, 501, 10), np.arange(200, 400) / 400  # 0.5 to 0.9975; below 0.5 all is the mirror image


def overall(method: Callable[[int], Bounds]) -> Overall:
    """The method over the grid."""
    rows = np.concatenate([_at(method(n)) for n in GRID_N], axis=1)
    covered, width, above = rows
    return Overall(
        mean=float(covered.mean()),
        least=float(covered.min()),
        inside=float(((covered >= LOW) & (covered <= HIGH)).mean()),
        width=float(width.mean()),
        above=float(above.mean()),
        most_above=float(above.max()),
    )


def _at(bounds: Bounds) -> FloatArray:
    """Coverage, expected width and the chance of a low end above p, shape (3, n_p)."""
    low, high = (end[:, None] for end in bounds)
    chance = stats.binom.pmf(np.arange(len(low))[:, None], len(low) - 1, GRID_P)
    held = (low <= GRID_P) & (high >= GRID_P)
    return np.stack([(chance * one).sum(axis=0) for one in (held, high - low, low > GRID_P)])


def exact_rows() -> Iterator[tuple[str, list[float]]]:
    """Name and coverage in the nine cells, by method."""
    for name, method in METHODS.items():
        made = {n: method(n) for n in NS}
        yield name, [coverage(made[n], p) for n, p in CELLS]
