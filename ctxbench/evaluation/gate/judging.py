"""Judges metrics: worse, better, the same, or that it cannot be told; and what could have been told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.arrays import FloatArray, IntArray
from ctxbench.evaluation.gate.model import Judged, Verdict
from ctxbench.evaluation.gate.settings import Settings
from ctxbench.evaluation.gate.snapshots import Snapshot
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.stats import (
    Comparison,
    Estimate,
    Scale,
    compare_metric,
    correct,
    critical,
    estimates,
    grouped_compare,
    grouped_estimate,
)

POWER = 0.8
_ROUNDING = 1e-12  # differences this far beyond a tolerance are within it, as a share of the means: rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class Pair:
    """Two snapshots to be judged.

    Attributes:
        base, head: the two.
        queries: ids of those compared.
        same: ids of queries that count as equal on both sides, whatever their values: swaps within the noise of scores.
    """

    base: Snapshot
    head: Snapshot
    queries: Sequence[str]
    same: Sequence[str] = ()


def compare_all(pairs: Sequence[Pair], settings: Settings) -> list[tuple[Judged, ...]]:
    """Judge every metric of every pair, p-values Holm-corrected over all of them.

    * same: the means differ by no more than the tolerance; or no query of both sides has a value.
    * worse, better: they differ by more, and are told apart.
    * cannot tell: they differ by more, and are not told apart.

    A selector that was asked repeatedly has means over repeats as values, which are judged as shares where a single
    answer is yes or no.

    Args:
        pairs: of all selectors on all datasets of a check.
        settings: metrics, tolerances, confidence, seed.

    Returns:
        For each pair what was judged, in the order of the settings; metrics that either side lacks are left out.
    """
    rows = [_Rows.of(pair) for pair in pairs]
    found = {
        (place, metric): row.compare(metric, settings)
        for place, row in enumerate(rows)
        for metric in settings.metrics
        if row.has(metric)
    }
    corrected = correct(found)
    out: list[list[Judged]] = [[] for _ in pairs]
    for (place, metric), comparison in corrected.items():
        out[place].append(_judged(rows[place], metric, comparison, settings, family=len(corrected)))
    return [tuple(one) for one in out]


@dataclass(frozen=True, eq=False)
class _Rows:
    """The values of a pair, by query compared."""

    base: dict[Metric, FloatArray]
    head: dict[Metric, FloatArray]
    groups: IntArray
    repeated: bool

    @classmethod
    def of(cls, pair: Pair) -> _Rows:
        rows = [
            np.array([place[query] for query in pair.queries], dtype=np.int64)
            for place in ({query: i for i, query in enumerate(side.queries)} for side in (pair.base, pair.head))
        ]
        same = set(pair.same)
        equal = np.array([query in same for query in pair.queries], dtype=np.bool_)
        base = {metric: values[rows[0]] for metric, values in pair.base.metrics.items()}
        head = {metric: values[rows[1]] for metric, values in pair.head.metrics.items()}
        if same:
            head = {m: np.where(equal, base[m], values) for m, values in head.items() if m in base}
        names = [pair.head.queries[query].group for query in pair.queries]
        code = {name: place for place, name in enumerate(sorted(set(names)))}
        groups = np.array([code[name] for name in names], dtype=np.int64)
        return cls(base, head, groups, max(pair.base.repeats, pair.head.repeats) > 1)

    def has(self, metric: Metric) -> bool:
        return all(part in self.base and part in self.head for part in metric.parts)

    def scale(self, metric: Metric) -> Scale:
        """The scale of the values that are compared."""
        scale = metric.parts[0].declaration.scale
        if scale == "bits":
            raise ValueError(f"{metric} has no values by query")
        return "share" if self.repeated and scale == "yes/no" else scale

    def compare(self, metric: Metric, settings: Settings) -> Comparison:
        alpha = round(1.0 - settings.confidence, 12)
        if not self.repeated:
            return compare_metric(metric, self.base, self.head, alpha=alpha, seed=settings.seed, groups=self.groups)
        part = metric.parts[0]
        return grouped_compare(
            self.base[part], self.head[part], self.groups, scale=self.scale(metric), alpha=alpha, seed=settings.seed
        )

    def estimate(self, metric: Metric, settings: Settings, *, head: bool) -> Estimate:
        values = self.head if head else self.base
        level = settings.confidence
        if self.repeated and not metric.declaration.parts:
            return grouped_estimate(values[metric], self.groups, scale=self.scale(metric), level=level)
        return estimates([metric], values, level=level, seed=settings.seed, groups=self.groups)[metric]


def _judged(rows: _Rows, metric: Metric, comparison: Comparison, settings: Settings, *, family: int) -> Judged:
    base = rows.estimate(metric, settings, head=False)
    head = rows.estimate(metric, settings, head=True)
    tolerance = settings.tolerance(metric).of(comparison.base) if comparison.n else 0.0
    higher = metric.declaration.better == "higher"
    return Judged(
        metric=str(metric),
        verdict=_verdict(comparison, tolerance, higher=higher),
        base=base,
        head=head,
        comparison=comparison,
        tolerance=tolerance,
        detectable=detectable(comparison, scale=rows.scale(metric), tolerance=tolerance, family=family, higher=higher),
    )


def _verdict(comparison: Comparison, tolerance: float, *, higher: bool) -> Verdict:
    """Whether `higher` is better, the difference is large enough, and told apart."""
    rounding = _ROUNDING * max(1.0, abs(comparison.base), abs(comparison.other))
    if not comparison.n or abs(comparison.difference) <= tolerance + rounding:
        return Verdict.SAME
    if not comparison.distinguishable:
        return Verdict.CANNOT_TELL
    return Verdict.BETTER if (comparison.difference > 0) is higher else Verdict.WORSE


# ---------------------------------------------------------------------------------------------- what could be told


def detectable(
    comparison: Comparison, *, scale: Scale, tolerance: float, family: int, higher: bool = True
) -> float | None:
    """The smallest true change for the worse that would be judged worse with a chance of `POWER` on as many queries.

    * yes/no: queries only get worse, each with the same chance q. k of them are judged worse if they exceed the
      tolerance and the exact McNemar test tells them from none, 2^(1 - k) <= alpha / family: the smallest q for which
      P(X >= k) >= POWER, X binomial(n, q). None if that is more than can get worse.
    * shares and amounts: differences spread as those seen do. With se = sd / sqrt(n), the larger of (z_a + z_b) se and
      tolerance + z_b se, z_a for alpha / family two-sided and z_b for the power (the normal approximation). None if
      nothing differs, since nothing is known of the spread then, or if it is more than can get worse.

    Where queries come in groups, n is what they are worth (`Comparison.worth`): where nothing differs, as if each group
    were to change as one. alpha / family is the strictest step of Holm's, so that more is told where several metrics
    are worse together.

    Args:
        comparison: on the queries at hand.
        scale: of its values.
        tolerance: changes up to this are the same, in the unit of the metric.
        family: how many comparisons are corrected together, >= 1.
        higher: whether higher is better.

    Returns:
        In the unit of the metric, >= 0; None where no such change can be named.
    """
    n = comparison.n * comparison.worth
    if n <= 0:
        return None
    alpha = comparison.alpha / family
    room = math.inf if scale == "amount" and not higher else comparison.base if higher else 1.0 - comparison.base
    if scale == "yes/no":
        found = _binomial_chance(math.floor(n + _ROUNDING), alpha, tolerance)
    elif comparison.higher + comparison.lower:
        sd = math.sqrt(max(comparison.square - comparison.difference**2, 0.0))
        z_power = critical(2.0 * POWER - 1.0)
        se = sd / math.sqrt(n)
        found = max((critical(1.0 - alpha) + z_power) * se, tolerance + z_power * se)
    else:
        return None
    return found if found is not None and found <= room + _ROUNDING else None


def _binomial_chance(n: int, alpha: float, tolerance: float) -> float | None:
    """The smallest q with P(X >= k) >= POWER, k what is worse beyond the tolerance and told apart; None if k > n."""
    told = math.ceil(1.0 - math.log2(alpha) - _ROUNDING)
    least = max(told, math.floor(tolerance * n + _ROUNDING) + 1)
    if least > n:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if _at_least(least, n, middle) >= POWER else (middle, high)
    return high


def _at_least(least: int, n: int, chance: float) -> float:
    """P(X >= least), X binomial(n, chance)."""
    if chance <= 0.0 or chance >= 1.0:
        return float(chance >= 1.0)
    below = [
        math.exp(
            math.lgamma(n + 1)
            - math.lgamma(k + 1)
            - math.lgamma(n - k + 1)
            + k * math.log(chance)
            + (n - k) * math.log1p(-chance)
        )
        for k in range(least)
    ]
    return 1.0 - math.fsum(below)
