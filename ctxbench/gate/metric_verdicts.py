"""Judges metrics as worse, better, the same or not to be told, and says which change could have been told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from ctxbench.bench.metrics import Metric
from ctxbench.bench.stats import (
    Comparison,
    Estimate,
    Scale,
    agreeing,
    correct,
    critical,
    estimate,
    estimates,
    gain_loss_interval,
    grouped_compare,
)
from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.gate.check_settings import CheckSettings
from ctxbench.gate.model import MetricVerdict, Verdict
from ctxbench.gate.snapshots import SelectorSnapshot

POWER = 0.8
_ROUNDING = 1e-12  # differences this far beyond a tolerance are within it, as a share of the means: rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class MetricPair:
    """Two snapshots to be judged.

    Attributes:
        base, head: the two.
        queries: ids of those compared.
        same: ids of queries that count as equal on both sides, whatever their values: swaps within the noise of scores.
    """

    base: SelectorSnapshot
    head: SelectorSnapshot
    queries: Sequence[str]
    same: Sequence[str] = ()


def judge_metrics(pairs: Sequence[MetricPair], settings: CheckSettings) -> list[tuple[MetricVerdict, ...]]:
    """Judge every metric of every pair, p-values Holm-corrected over all of them.

    * same: the means differ by no more than the tolerance, or by more for the better, but are not told apart; or no
      query of both sides has a value.
    * worse, better: they differ by more, and are told apart.
    * cannot tell: they differ by more for the worse, and are not told apart.

    A selector that was asked repeatedly has means over repeats as values, which are judged as shares where a single
    answer is yes or no. Where the session costs on every query what it did, tokens with and without it differ alike:
    that is one comparison, and corrected for as one. `forbidden_offered`, which is judged without being named wherever
    both sides have it, is then corrected apart, so that the verdicts of others do not depend on it, and where it cannot
    be told, it counts as the same.

    Args:
        pairs: of all selectors on all datasets of a check.
        settings: metrics, tolerances, confidence, seed.

    Returns:
        For each pair what was judged, in the order of the settings; metrics that either side lacks are left out.
    """
    rows = [_PairValues.of(pair) for pair in pairs]
    asked = [[metric for metric in settings.judged(row.head) if row.has(metric)] for row in rows]
    first = [
        {metric: row.first_equivalent(metric, own) for metric in own} for row, own in zip(rows, asked, strict=True)
    ]
    compared = {
        (place, metric): rows[place].compare(metric, settings)
        for place, alike in enumerate(first)
        for metric in dict.fromkeys(alike.values())
    }
    named, added = (
        {key: one for key, one in compared.items() if (key[1] in settings.metrics) is by_name}
        for by_name in (True, False)
    )
    family = {True: len(named), False: len(added)}
    corrected = correct(named) | correct(added)
    return [
        tuple(
            _metric_verdict(
                row,
                metric,
                row.with_means_of(corrected[place, alike], metric, alike),
                settings,
                family=family[alike in settings.metrics],
            )
            for metric, alike in first[place].items()
        )
        for place, row in enumerate(rows)
    ]


@dataclass(frozen=True, eq=False)
class _PairValues:
    """The values of a pair's metrics, a row for each query compared."""

    base: dict[Metric, FloatArray]
    head: dict[Metric, FloatArray]
    groups: IntArray
    repeated: bool

    @classmethod
    def of(cls, pair: MetricPair) -> _PairValues:
        rows = [side.rows_of(pair.queries) for side in (pair.base, pair.head)]
        same = set(pair.same)
        equal = np.array([query in same for query in pair.queries], dtype=np.bool_)
        base = {metric: values[rows[0]] for metric, values in pair.base.metrics.items()}
        head = {metric: values[rows[1]] for metric, values in pair.head.metrics.items()}
        if same:
            head = {m: np.where(equal, base[m], values) for m, values in head.items() if m in base}
        # The base's groups: queries put into one group by the change under test would count as one.
        _, groups = np.unique([pair.base.queries[query].group for query in pair.queries], return_inverse=True)
        return cls(base, head, groups, max(pair.base.repeats, pair.head.repeats) > 1)

    def has(self, metric: Metric) -> bool:
        return all(part in self.base and part in self.head for part in metric.parts)

    def has_equal_values(self, metric: Metric) -> bool:
        """Whether a metric has the same values at base and head."""
        return all(np.array_equal(self.base[part], self.head[part], equal_nan=True) for part in metric.parts)

    def first_equivalent(self, metric: Metric, metrics: Sequence[Metric]) -> Metric:
        """The first of some metrics that counts tokens and differs alike on every query; else the metric itself."""
        if metric.declaration.unit != "tokens":
            return metric
        own = self.head[metric] - self.base[metric]
        counted = (one for one in metrics if one.declaration.unit == "tokens")
        return next(one for one in counted if np.array_equal(self.head[one] - self.base[one], own, equal_nan=True))

    def with_means_of(self, comparison: Comparison, metric: Metric, alike: Metric) -> Comparison:
        """The comparison of an equivalent metric with the means of this one."""
        if metric == alike or not comparison.n:
            return comparison
        known = ~np.isnan(self.base[metric] - self.head[metric])
        base, head = (math.fsum(side[metric][known].tolist()) / comparison.n for side in (self.base, self.head))
        return replace(comparison, base=base, other=head)

    def scale(self, metric: Metric) -> Scale:
        """The scale of the values that are compared."""
        scale = metric.parts[0].declaration.scale
        if scale == "bits":
            raise ValueError(f"{metric} has no values by query")
        return "share" if self.repeated and scale == "yes/no" else scale

    def compare(self, metric: Metric, settings: CheckSettings) -> Comparison:
        """Compare a metric by groups, with an interval that holds where few queries differ and fits the p-value."""
        alpha, scale, part = round(1.0 - settings.confidence, 12), self.scale(metric), metric.parts[0]
        base, head = self.base[part], self.head[part]
        found = grouped_compare(base, head, self.groups, scale=scale, alpha=alpha, seed=settings.seed)
        interval = gain_loss_interval(base, head, self.groups, scale=scale, level=1.0 - alpha)
        return agreeing(replace(found, interval=interval))

    def detectable(self, metric: Metric, comparison: Comparison, *, tolerance: float, family: int) -> float | None:
        """The smallest change for the worse that could be told; see the function of this name.

        A query that gets worse is taken to lose its yes, or as much of a share as the queries of the base which have
        any have on average, or to cost more by the standard deviation of the amounts among queries of the base.
        """
        part, scale = metric.parts[0], self.scale(metric)
        known = ~np.isnan(self.base[part] - self.head[part])
        base, groups = np.sort(self.base[part][known]), len(set(self.groups[known].tolist()))
        higher = metric.declaration.better == "higher"
        if scale == "amount":
            room, size = float(comparison.base) if higher else math.inf, float(base.std()) if len(base) else 0.0
        else:
            left = base if higher else 1.0 - base
            room = float(left.mean()) if len(left) else 0.0
            size = float(left[left > 0].mean()) if room > 0 else 0.0
        return detectable(comparison, groups=groups, tolerance=tolerance, family=family, size=size, room=room)

    def estimate(self, metric: Metric, settings: CheckSettings, *, head: bool) -> Estimate:
        """The mean of one side, with the interval that a run gives the same values."""
        values = self.head if head else self.base
        level = settings.confidence
        if self.repeated and not metric.declaration.parts:
            return estimate(values[metric], scale=self.scale(metric), level=level)
        return estimates([metric], values, level=level, seed=settings.seed)[metric]


def _metric_verdict(
    rows: _PairValues, metric: Metric, comparison: Comparison, settings: CheckSettings, *, family: int
) -> MetricVerdict:
    base = rows.estimate(metric, settings, head=False)
    head = base if rows.has_equal_values(metric) else rows.estimate(metric, settings, head=True)
    tolerance = settings.tolerance(metric).of(comparison.base) if comparison.n else 0.0
    told = comparison.distinguishable
    harm = -comparison.difference if metric.declaration.better == "higher" else comparison.difference
    tolerated = not exceeds(comparison, tolerance)
    if not told and metric not in settings.metrics:  # nobody named it: as few queries may change as items may be lost
        tolerated |= comparison.higher - comparison.lower <= settings.allowed(comparison.n)
    verdict = Verdict.of(harm, tolerated=tolerated, fields=told)
    detectable = rows.detectable(metric, comparison, tolerance=tolerance, family=family)
    if verdict is Verdict.WORSE:  # so much was told here, whatever the model of changes to come says
        detectable = harm if detectable is None else min(detectable, harm)
    return MetricVerdict(
        metric=str(metric),
        verdict=verdict,
        base=base,
        head=head,
        comparison=comparison,
        tolerance=tolerance,
        detectable=detectable,
    )


def exceeds(comparison: Comparison, tolerance: float) -> bool:
    """Whether means differ, in either direction, by more than a tolerance in their unit; False without a query."""
    rounding = _ROUNDING * max(1.0, abs(comparison.base), abs(comparison.other))
    return bool(comparison.n) and abs(comparison.difference) > tolerance + rounding


# ---------------------------------------------------------------------------------------------- what could be told


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

    * told apart: k groups that all get worse are, by exact McNemar and sign flips alike, if 2^(1 - k) <= alpha /
      family. So P(X >= k) >= POWER, X binomial(groups, q).
    * beyond the tolerance: P(X x size > groups x tolerance) >= POWER.

    alpha / family is the strictest step of Holm's, so that more is told where several metrics are worse together; and
    more is told where queries of a group change apart from each other.

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
    told, beyond = 0.0, tolerance
    if size:
        least = math.ceil(1.0 - math.log2(alpha) - _ROUNDING), math.floor(tolerance / size * groups + _ROUNDING) + 1
        if max(least) > groups:
            return None
        told, beyond = (size * _binomial_chance(groups, one) for one in least)
    if differ:
        sd = math.sqrt(max(comparison.square - comparison.difference**2, 0.0))
        z_power, se = critical(2.0 * POWER - 1.0), sd / math.sqrt(comparison.n * comparison.worth)
        told = (told + math.hypot(told, 2.0 * (critical(1.0 - alpha) + z_power) * se)) / 2.0
        beyond = tolerance + math.hypot(beyond - tolerance, z_power * se)
    found = max(told, beyond)
    return found if found <= room + _ROUNDING else None


@cache
def _binomial_chance(n: int, least: int) -> float:
    """The smallest q with P(X >= least) >= POWER, X binomial(n, q), least <= n."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if _at_least(least, n, middle) >= POWER else (middle, high)
    return high


def _at_least(least: int, n: int, chance: float) -> float:
    """P(X >= least), X binomial(n, chance)."""
    if chance <= 0.0 or chance >= 1.0:
        return float(chance >= 1.0)
    yes, no = math.log(chance), math.log1p(-chance)
    return 1.0 - math.fsum([math.exp(ways + k * yes + (n - k) * no) for k, ways in enumerate(_log_ways(least, n))])


@cache
def _log_ways(least: int, n: int) -> tuple[float, ...]:
    """Logarithms of how many ways there are to choose k of n, for every k below `least`."""
    return tuple(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(least))
