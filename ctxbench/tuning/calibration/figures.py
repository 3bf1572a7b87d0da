"""What a calibration is worth on queries that its fits have not seen: figures out of fold, with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxbench.bench.stats import Estimate, Interval
from ctxbench.features.stored_fits import ABSTENTION
from ctxbench.tuning.calibration.curves import (
    CutCurve,
    area,
    area_interval,
    cut_point,
    losing,
    request_probability,
    silence_point,
)
from ctxbench.tuning.calibration.examples import Examples, folds_of
from ctxbench.tuning.calibration.fits import Progress, out_of_fold

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
    area: float
    interval: Interval
    columns: tuple[str, str]
    points: tuple[tuple[float, Estimate, Estimate], ...]

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        return {
            "folds": self.folds,
            "queries": self.queries,
            "groups": self.groups,
            "area": {"value": self.area, "low": self.interval.low, "high": self.interval.high},
            "points": [
                {
                    "threshold": threshold,
                    **{name: _as_dict(value) for name, value in zip(self.columns, two, strict=True)},
                }
                for threshold, *two in self.points
            ],
        }


def measure(made: Examples, folds: int, *, progress: Progress | None = None) -> FoldFigures:
    """Fit without each fold in turn, and measure on the fold left out.

    Raises:
        ParameterError: there are fewer groups than folds, or all rows outside a fold have the same label.
    """
    probability = out_of_fold(made, folds_of(made.groups, folds), progress=progress)
    points: list[tuple[float, Estimate, Estimate]] = []
    if made.what == ABSTENTION:
        columns = ("lost", "spared")
        by_query = request_probability(made, probability)
        label, groups, scores = made.needs, made.groups, by_query
        for threshold in sorted({losing(made.needs, by_query, share) for share in LOSSES}):
            one = silence_point(made.needs, by_query, threshold)
            points.append((threshold, one.lost, one.spared))
    else:
        columns = ("items", "recall")
        label, scores = made.label, probability
        groups = tuple(made.groups[query] for query in made.query)
        curve = CutCurve.of(made, probability)
        for threshold in sorted({curve.within(items) for items in ITEMS}, reverse=True):
            if math.isfinite(threshold):
                cut = cut_point(made, probability, threshold)
                points.append((threshold, cut.items, cut.recall))
    return FoldFigures(
        what=made.what,
        folds=folds,
        queries=made.n_queries,
        groups=len(np.unique(np.array(made.groups, dtype=object))),
        area=area(label, scores),
        interval=area_interval(label, scores, groups),
        columns=columns,
        points=tuple(points),
    )


def _as_dict(value: Estimate) -> dict[str, float | int]:
    return {"value": value.value, "low": value.interval.low, "high": value.interval.high, "queries": value.n}
