"""Curves of thresholds on a probability, the area under the ROC curve, and the reliability of probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ctxbench.bench.stats import LEVEL, Estimate, Interval, estimate
from ctxbench.bench.stats.intervals import SMALL
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.errors import ParameterError
from ctxbench.features.stored_fits import ABSTENTION
from ctxbench.tuning.fits.examples import Examples, folds_of
from ctxbench.tuning.fits.query_fits import Progress, out_of_fold

RESAMPLES = 1000
BINS = 10


@dataclass(frozen=True, eq=False)
class CutCurve:
    """Items and recall for each threshold on the probability of items, from none offered to all that was found.

    Attributes:
        threshold: falling, shape (n,); infinity first.
        items: mean number of items per query, shape (n,), rising.
        recall: mean share of required items that are offered, over the queries that need any, shape (n,), rising.
    """

    threshold: FloatArray
    items: FloatArray
    recall: FloatArray

    @classmethod
    def of(cls, examples: Examples, probability: FloatArray) -> CutCurve:
        """The curve of all thresholds for the probabilities of rows, shape (n_rows,)."""
        best = needed_probability(examples, probability)
        n_required = np.bincount(examples.needed, minlength=examples.n_queries)
        share = 1.0 / (
            n_required[examples.needed] * max(int((n_required > 0).sum()), 1)
        )  # of the mean recall, by required item
        threshold = np.unique(np.concatenate([probability, best[np.isfinite(best)]]))[::-1]
        by_row, by_need = np.sort(probability), np.argsort(best)
        items = (len(by_row) - np.searchsorted(by_row, threshold, side="left")) / max(examples.n_queries, 1)
        met = np.concatenate([np.cumsum(share[by_need][::-1])[::-1], np.zeros(1)])
        recall = met[np.searchsorted(best[by_need], threshold, side="left")]
        return cls(np.append(math.inf, threshold), np.append(0.0, items), np.append(0.0, recall))

    def threshold_for_items(self, items: float) -> float:
        """The lowest threshold with which at most `items` are offered on average."""
        return float(self.threshold[np.searchsorted(self.items, items, side="right") - 1])


@dataclass(frozen=True)
class CutPoint:
    """What a threshold gives on the queries of some examples, each with its interval."""

    recall: Estimate
    items: Estimate


def cut_point(examples: Examples, probability: FloatArray, threshold: FloatArray | float) -> CutPoint:
    """Recall and items with a threshold, one for all or one per query, shape (n_queries,)."""
    limit = np.broadcast_to(np.asarray(threshold, dtype=np.float64), (examples.n_queries,))
    met = needed_probability(examples, probability) >= limit[examples.needed]
    n_required = np.bincount(examples.needed, minlength=examples.n_queries)
    n_offered = np.bincount(examples.needed[met], minlength=examples.n_queries)
    recall = np.divide(n_offered, n_required, out=np.full(examples.n_queries, np.nan), where=n_required > 0)
    items = np.bincount(examples.query[probability >= limit[examples.query]], minlength=examples.n_queries)
    return CutPoint(estimate(recall, scale="share"), estimate(items.astype(np.float64), scale="amount"))


def needed_probability(examples: Examples, probability: FloatArray) -> FloatArray:
    """The probability of each required item (the best of its alternatives); minus infinity where it was not found."""
    return np.array([probability[rows].max(initial=-np.inf) for rows in examples.required_rows], dtype=np.float64)


@dataclass(frozen=True)
class AbstentionPoint:
    """What abstaining below a threshold does.

    Attributes:
        threshold: on the probability that anything is needed.
        lost: share of the queries that need something which are offered nothing.
        spared: share of the queries that need nothing which are offered nothing.
    """

    threshold: float
    lost: Estimate
    spared: Estimate


def request_probability(examples: Examples, probability: FloatArray) -> FloatArray:
    """By query, shape (n_queries,): that of its row; 0 for a query without candidates, which is offered nothing."""
    out = np.zeros(examples.n_queries, dtype=np.float64)
    out[examples.query] = probability
    return out


def abstention_point(needs: BoolArray, probability: FloatArray, threshold: float) -> AbstentionPoint:
    """What abstaining below a threshold does to queries, both arguments of shape (n_queries,)."""
    silent = (probability < threshold).astype(np.float64)
    return AbstentionPoint(threshold, estimate(silent[needs], scale="yes/no"), estimate(silent[~needs], scale="yes/no"))


def threshold_by_loss(needs: BoolArray, probability: FloatArray, share: float) -> float:
    """The highest threshold below which at most this share of the queries lies that need something.

    Raises:
        ParameterError: no query needs anything.
    """
    finite = np.sort(probability[needs])
    if not len(finite):
        raise ParameterError("no query needs anything, so that no threshold loses any")
    return float(finite[min(int(share * len(finite) + 1e-9), len(finite) - 1)])


def roc_area(label: BoolArray, probability: FloatArray) -> float:
    """Area under the ROC curve: how often a positive row scores above a negative one, ties counting half.

    NaN where all labels are alike. Source: Hanley and McNeil, Radiology 143, 1982.
    """
    return float(_roc_areas(label, probability, np.ones((1, len(label))))[0])


def roc_area_interval(
    label: BoolArray, probability: FloatArray, groups: Sequence[str], *, level: float = LEVEL, seed: int = 0
) -> Interval:
    """Percentile bootstrap over groups for `roc_area`: queries of one group are drawn together.

    Args:
        label, probability: shape (n,).
        groups: of each row, shape (n,).
        level: nominal coverage.
        seed: of the draws.

    Source: Field and Welsh, Bootstrapping clustered data, JRSS B 69, 2007.
    """
    counts, group = resample_groups(groups, seed)
    draws = np.concatenate([_roc_areas(label, probability, some[:, group]) for some in np.array_split(counts, BINS)])
    return percentile_interval(draws, counts.shape[1], level)


def resample_groups(groups: Sequence[str], seed: int) -> tuple[IntArray, IntArray]:
    """How often each group is drawn, shape (RESAMPLES, n_groups), and the group of each row, shape (n,)."""
    names, group = np.unique(np.array(groups, dtype=object), return_inverse=True)
    n = max(len(names), 1)
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=RESAMPLES), group


def percentile_interval(draws: FloatArray, n_groups: int, level: float) -> Interval:
    """The interval of the draws that are numbers; it holds from 20 groups on."""
    finite, method = draws[~np.isnan(draws)], "bootstrap by group"
    if not len(finite):
        return Interval(low=-math.inf, high=math.inf, level=level, method=method, holds=False)
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return Interval(low=float(low), high=float(high), level=level, method=method, holds=n_groups >= SMALL)


def _roc_areas(label: BoolArray, probability: FloatArray, weight: FloatArray | IntArray) -> FloatArray:
    """The area for each row of weights, shape (m, n)."""
    _, value = np.unique(probability, return_inverse=True)
    by_value = np.argsort(value, kind="stable")
    first = np.flatnonzero(np.diff(value[by_value], prepend=-1))
    weight = weight[:, by_value].astype(np.float64)
    if not len(first):
        return np.full(len(weight), np.nan)
    positive = np.add.reduceat(weight * label[by_value], first, axis=1)
    negative = np.add.reduceat(weight * ~label[by_value], first, axis=1)
    below = np.cumsum(negative, axis=1) - negative / 2
    total = positive.sum(axis=1) * negative.sum(axis=1)
    ratio = np.divide((positive * below).sum(axis=1), total, out=np.full(len(weight), np.nan), where=total > 0)
    return np.asarray(ratio)


ITEMS = (1.0, 2.0, 3.0, 5.0, 8.0)  # mean items per query at which recall is shown
LOSSES = (0.005, 0.01, 0.02, 0.05)  # shares of queries in need that are offered nothing, at which the rest is shown


@dataclass(frozen=True)
class FoldFigures:
    """Figures out of fold.

    Attributes:
        what: `probability` or `abstention`.
        folds: how many.
        queries, groups: how many queries, and groups of queries that are always in one fold.
        roc_area, interval: area under the ROC curve, its interval drawn by group.
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
    if examples.what == ABSTENTION:
        columns = ("lost", "spared")
        label, groups, scores = examples.needs, examples.groups, request_probability(examples, probability)
        thresholds = sorted({threshold_by_loss(label, scores, share) for share in LOSSES})
        silences = [abstention_point(label, scores, threshold) for threshold in thresholds]
        points = [(point.threshold, point.lost, point.spared) for point in silences]
    else:
        columns = ("items", "recall")
        label, groups, scores = examples.label, tuple(examples.groups[query] for query in examples.query), probability
        curve = CutCurve.of(examples, probability)
        thresholds = sorted({curve.threshold_for_items(items) for items in ITEMS} - {math.inf}, reverse=True)
        cuts = [(threshold, cut_point(examples, probability, threshold)) for threshold in thresholds]
        points = [(threshold, cut.items, cut.recall) for threshold, cut in cuts]
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
