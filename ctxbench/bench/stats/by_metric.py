"""Which statistic goes with which metric: read off the metric's declared scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ctxbench.bench.metrics.metric_names import Metric
from ctxbench.bench.metrics.values_by_query import summarise
from ctxbench.bench.stats.groups import grouped_compare, grouped_estimate
from ctxbench.bench.stats.intervals import LEVEL, Estimate, bootstrap_interval
from ctxbench.bench.stats.paired import Comparison, compare
from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.errors import ParameterError


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
    asked = list(metrics)
    for metric, mean in summarise(asked, values).items():
        scale = metric.declaration.scale
        if scale == "bits":
            rows = np.stack([values[part] for part in metric.parts], axis=1)
            rows = rows[~np.isnan(rows).any(axis=1)]
            interval = bootstrap_interval(rows, _bits, level=level, seed=seed)
            out[metric] = Estimate(value=mean.value, interval=interval, n=mean.n, left_out=mean.left_out)
        else:
            own = np.arange(len(values[metric])) if groups is None else groups
            out[metric] = grouped_estimate(values[metric], own, scale=scale, level=level)
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
