"""The figures of a run as CSV, one row a dataset, selector and metric: for spreadsheets and scripts."""

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
    """Means with their 95% intervals, and what the comparison with the run's baseline says of the headline metrics.

    `p_holm_at_floor` says that p is an upper bound. Shares are 0 to 1; figures have ten digits. One that does not apply
    is an empty field, with the reason in `note`.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, HEAD, restval="", lineterminator="\n")
    writer.writeheader()
    for dataset in summary.datasets:
        for one in dataset.selectors:
            about = {"dataset": dataset.dataset, "selector": one.selector, "errors": one.errors, "queries": one.queries}
            for metric, found in one.estimates.items():
                compared = _compared(one.against.get(metric), summary.compare_to)
                writer.writerow({**about, "metric": metric, **_figures(found), **compared})
            for metric, why in one.unavailable.items():
                writer.writerow({**about, "metric": metric, "note": why})
    return out.getvalue()


def _figures(found: Estimate) -> dict[str, str]:
    counts = {"n": str(found.n), "left_out": str(found.left_out)}
    if not math.isfinite(found.value):
        return counts
    interval = found.interval
    return {"mean": _number(found.value), "low": _number(interval.low), "high": _number(interval.high), **counts}


def _compared(found: Comparison | None, baseline: str) -> dict[str, str]:
    if found is None:
        return {}
    return {
        "baseline": baseline,
        "difference": _number(found.difference),
        "difference_low": _number(found.interval.low),
        "difference_high": _number(found.interval.high),
        "p_holm": _number(found.p_holm),
        "p_holm_at_floor": "yes" if found.p_holm_at_floor else "no",
    }


def _number(value: float) -> str:
    return f"{value:.10g}" if math.isfinite(value) else ""
