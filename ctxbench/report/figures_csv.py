"""The figures of a run as CSV, one row per dataset, selector and metric."""

from __future__ import annotations

import csv
import io
import math

from ctxbench.bench.stats import Comparison, Estimate
from ctxbench.bench.summary import RunSummary

HEAD = (
    *("dataset", "selector", "metric", "mean", "low", "high", "n", "left_out", "errors", "queries"),
    *("baseline", "difference", "difference_low", "difference_high", "p_holm", "p_holm_at_floor", "note"),
)


def figures_csv(summary: RunSummary) -> str:
    """Means with their 95% intervals, and the comparison with the run's baseline on the headline metrics.

    `p_holm_at_floor` says that p is an upper bound. Shares are 0 to 1; figures have ten digits. One that does not apply
    is an empty field, with the reason in `note`.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, HEAD, restval="", lineterminator="\n")
    writer.writeheader()
    for dataset in summary.datasets:
        for selector in dataset.selectors:
            about = {
                "dataset": dataset.dataset,
                "selector": selector.selector,
                "errors": selector.errors,
                "queries": selector.queries,
            }
            for metric, estimate in selector.estimates.items():
                compared = _compared(selector.against.get(metric), summary.compare_to)
                writer.writerow({**about, "metric": metric, **_figures(estimate), **compared})
            for metric, why in selector.unavailable.items():
                writer.writerow({**about, "metric": metric, "note": why})
    return out.getvalue()


def _figures(estimate: Estimate) -> dict[str, str]:
    counts = {"n": str(estimate.n), "left_out": str(estimate.left_out)}
    if not math.isfinite(estimate.value):
        return counts
    interval = estimate.interval
    return {"mean": _number(estimate.value), "low": _number(interval.low), "high": _number(interval.high), **counts}


def _compared(comparison: Comparison | None, baseline: str) -> dict[str, str]:
    if comparison is None:
        return {}
    return {
        "baseline": baseline,
        "difference": _number(comparison.difference),
        "difference_low": _number(comparison.interval.low),
        "difference_high": _number(comparison.interval.high),
        "p_holm": _number(comparison.p_holm),
        "p_holm_at_floor": "yes" if comparison.p_holm_at_floor else "no",
    }


def _number(value: float) -> str:
    return f"{value:.10g}" if math.isfinite(value) else ""
