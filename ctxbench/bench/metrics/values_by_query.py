"""From evidence to values by query, and from values by query to means."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ctxbench.bench.metrics.inputs import Evidence
from ctxbench.bench.metrics.joined import Joined
from ctxbench.bench.metrics.metric_names import Metric
from ctxbench.core.arrays import FloatArray
from ctxbench.core.errors import ParameterError


@dataclass(frozen=True)
class Mean:
    """A mean over the queries that a metric applies to.

    Attributes:
        value: the mean; NaN if `n` is 0.
        n: how many queries it is over.
        left_out: how many the metric does not apply to.
    """

    value: float
    n: int
    left_out: int


@dataclass(frozen=True)
class GroupMean:
    """The mean of one scope, tag or other group of queries."""

    group: str
    mean: Mean


def unavailable(metrics: Iterable[Metric], evidence: Evidence) -> dict[Metric, str]:
    """Say which of these metrics the evidence does not allow, and what it lacks. Empty if all can be computed."""
    reasons = {
        "rankings": "the selector returns no ranking",
        "item_tokens": "the items' tokens were not counted",
        "body_tokens": "the bodies of skills were not counted, which a file of counts cannot do",
        "kinship": "it is not known which items are siblings",
        "pool": "it is not known how many items the rankings were made from",
        "model_use": "no step of the selector asks a language model",
    }
    lacks = {name: reason for name, reason in reasons.items() if getattr(evidence, name) is None}
    missing = {metric: [lacks[name] for name in metric.declaration.needs if name in lacks] for metric in metrics}
    return {metric: "; ".join(found) for metric, found in missing.items() if found}


def evaluate(metrics: Iterable[Metric], evidence: Evidence) -> dict[Metric, FloatArray]:
    """Compute metrics by query.

    Returns:
        For each metric, in the order asked, its values: shape (n_queries,), NaN where it does not apply to the
        query. A metric that has `parts` is replaced by them; one that `unavailable` names is left out.
    """
    asked = list(metrics)
    lacking = unavailable(asked, evidence)
    joined = Joined(evidence)
    values: dict[Metric, FloatArray] = {}
    for metric in (part for whole in asked if whole not in lacking for part in whole.parts):
        compute = metric.declaration.compute
        if compute is not None and metric not in values:
            values[metric] = compute(joined, metric.k)
    return values


def mean(values: npt.ArrayLike) -> Mean:
    """Average values by query, NaN left out and counted. Nothing to average: NaN with n = 0.

    The sum is exact before it is rounded once, so that the order of the queries cannot show in the last digit.
    """
    values = np.asarray(values, dtype=np.float64)
    applies = values[~np.isnan(values)]
    n = len(applies)
    return Mean(math.fsum(applies.tolist()) / n if n else math.nan, n, len(values) - n)


def bits_over_random(success: Mean, chance: Mean) -> Mean:
    """log2(mean Success@k / mean Chance@k), over the same queries.

    NaN if there are no queries; minus infinity if none succeeds. The chance is above 0 wherever something is
    required and k >= 1, so it is never divided by 0.
    """
    if success.n != chance.n:
        raise ParameterError(f"success is over {success.n} queries and chance over {chance.n}; expected the same")
    if success.n == 0:
        return Mean(math.nan, 0, success.left_out)
    ratio = success.value / chance.value
    return Mean(math.log2(ratio) if ratio > 0 else -math.inf, success.n, success.left_out)


def summarise(metrics: Iterable[Metric], values: Mapping[Metric, FloatArray]) -> dict[Metric, Mean]:
    """Average metrics from values by query, as `evaluate` gives them or a results file holds them.

    Returns:
        For each metric, in the order asked, its mean; metrics whose values (or whose parts') are not there are
        left out.
    """
    there = [metric for metric in metrics if all(part in values for part in metric.parts)]
    means = {metric: [mean(values[part]) for part in metric.parts] for metric in there}
    return {one: bits_over_random(*found) if one.declaration.parts else found[0] for one, found in means.items()}


def group_means(values: FloatArray, groups: Mapping[str, npt.NDArray[np.int64]]) -> list[GroupMean]:
    """Average over groups of queries, sorted by name.

    Args:
        values: shape (n_queries,), NaN where the metric does not apply.
        groups: the positions of each group's queries; a query may be in several or in none.
    """
    return [GroupMean(name, mean(values[groups[name]])) for name in sorted(groups)]


def worst_group(
    metric: Metric, values: FloatArray, groups: Mapping[str, npt.NDArray[np.int64]], *, min_n: int = 1
) -> GroupMean | None:
    """The group whose mean is worst for this metric; of equals the larger, then the first by name.

    Of many small groups the worst is often only the unluckiest: `min_n` leaves out those with fewer queries that
    the metric applies to. None if fewer than two groups have as many.
    """
    if min_n < 1:
        raise ParameterError(f"min_n must be at least 1, got {min_n}")
    sign = 1.0 if metric.declaration.better == "higher" else -1.0
    found = [group for group in group_means(values, groups) if group.mean.n >= min_n]
    if len(found) < 2:
        return None
    return min(found, key=lambda group: (sign * group.mean.value, -group.mean.n, group.group))
