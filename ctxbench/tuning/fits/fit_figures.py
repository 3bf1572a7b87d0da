"""Figures of a fit out of fold, with intervals: what it is worth on queries that it has not seen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxbench.bench.stats import Estimate, Interval
from ctxbench.features.stored_fits import ABSTENTION
from ctxbench.tuning.fits.curves import (
    CutCurve,
    abstention_point,
    cut_point,
    request_probability,
    roc_area,
    roc_area_interval,
    threshold_by_loss,
)
from ctxbench.tuning.fits.examples import Examples, folds_of
from ctxbench.tuning.fits.query_fits import Progress, out_of_fold

ITEMS = (1.0, 2.0, 3.0, 5.0, 8.0)  # mean items a query at which recall is shown
LOSSES = (0.005, 0.01, 0.02, 0.05)  # shares of queries in need that are offered nothing, at which the rest is shown


@dataclass(frozen=True)
class FoldFigures:
    """Figures out of fold.

    Attributes:
        what: `probability` or `abstention`.
        folds: how many.
        queries, groups: how many queries, and groups of queries that are never told apart.
        area, interval: area under the ROC curve, its interval drawn by group.
        columns: what the two figures of each point are.
        points: a threshold and two figures with their intervals; thresholds are chosen on these very figures.
    """

    what: str
    folds: int
    queries: int
    groups: int
    roc_area: float
    interval: Interval
    columns: tuple[str, str]
    points: tuple[tuple[float, Estimate, Estimate], ...]

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        return {
            "folds": self.folds,
            "queries": self.queries,
            "groups": self.groups,
            "area": {"value": self.roc_area, "low": self.interval.low, "high": self.interval.high},
            "points": [
                {
                    "threshold": threshold,
                    **{name: _as_dict(value) for name, value in zip(self.columns, two, strict=True)},
                }
                for threshold, *two in self.points
            ],
        }


def measure(examples: Examples, folds: int, *, progress: Progress | None = None) -> FoldFigures:
    """Fit without each fold in turn, and measure on the fold left out.

    Raises:
        ParameterError: there are fewer groups than folds, or all rows outside a fold have the same label.
    """
    probability = out_of_fold(examples, folds_of(examples.groups, folds), progress=progress)
    points: list[tuple[float, Estimate, Estimate]] = []
    if examples.what == ABSTENTION:
        columns = ("lost", "spared")
        by_query = request_probability(examples, probability)
        label, groups, scores = examples.needs, examples.groups, by_query
        for threshold in sorted({threshold_by_loss(examples.needs, by_query, share) for share in LOSSES}):
            one = abstention_point(examples.needs, by_query, threshold)
            points.append((threshold, one.lost, one.spared))
    else:
        columns = ("items", "recall")
        label, scores = examples.label, probability
        groups = tuple(examples.groups[query] for query in examples.query)
        curve = CutCurve.of(examples, probability)
        for threshold in sorted({curve.threshold_for_items(items) for items in ITEMS}, reverse=True):
            if math.isfinite(threshold):
                cut = cut_point(examples, probability, threshold)
                points.append((threshold, cut.items, cut.recall))
    return FoldFigures(
        what=examples.what,
        folds=folds,
        queries=examples.n_queries,
        groups=len(np.unique(np.array(examples.groups, dtype=object))),
        roc_area=roc_area(label, scores),
        interval=roc_area_interval(label, scores, groups),
        columns=columns,
        points=tuple(points),
    )


def _as_dict(value: Estimate) -> dict[str, float | int]:
    return {"value": value.value, "low": value.interval.low, "high": value.interval.high, "queries": value.n}
