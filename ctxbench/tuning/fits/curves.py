"""Curves of thresholds on a probability, the area under the ROC curve, and the reliability of probabilities."""

from __future__ import annotations

import itertools
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
    """What a threshold on the probability of items gives, from none offered to all that was found.

    Attributes:
        threshold: falling, shape (n,); infinity first.
        items: mean number of items a query, shape (n,), rising.
        recall: mean share of required items that are offered, over the queries that need any, shape (n,), rising.
    """

    threshold: FloatArray
    items: FloatArray
    recall: FloatArray

    @classmethod
    def of(cls, examples: Examples, probability: FloatArray) -> CutCurve:
        """The curve of all thresholds for the probabilities of rows, shape (n_rows,)."""
        best = needed_probability(examples, probability)
        wanted = np.bincount(examples.needed, minlength=examples.n_queries)
        share = 1.0 / (
            wanted[examples.needed] * max(int((wanted > 0).sum()), 1)
        )  # of the mean recall, by required item
        threshold = np.unique(np.concatenate([probability, best[np.isfinite(best)]]))[::-1]
        by_row, by_need = np.sort(probability), np.argsort(best)
        items = (len(by_row) - np.searchsorted(by_row, threshold, side="left")) / max(examples.n_queries, 1)
        met = np.concatenate([np.cumsum(share[by_need][::-1])[::-1], np.zeros(1)])
        recall = met[np.searchsorted(best[by_need], threshold, side="left")]
        zero = np.zeros(1)
        start = np.array([math.inf])
        return cls(*(np.concatenate(pair) for pair in ((start, threshold), (zero, items), (zero, recall))))

    def threshold_for_items(self, items: float) -> float:
        """The lowest threshold with which at most `items` are offered on average."""
        return float(self.threshold[np.searchsorted(self.items, items, side="right") - 1])

    def threshold_for_recall(self, recall: float) -> float:
        """The highest threshold that gives this recall; minus infinity where none does."""
        place = int(np.searchsorted(self.recall, recall - 1e-12, side="left"))
        return float(self.threshold[place]) if place < len(self.recall) else -math.inf


@dataclass(frozen=True)
class CutPoint:
    """What a threshold gives on the queries of some examples, each with its interval."""

    recall: Estimate
    items: Estimate


def cut_point(examples: Examples, probability: FloatArray, threshold: FloatArray | float) -> CutPoint:
    """Recall and items with a threshold, one for all or one a query, shape (n_queries,)."""
    limit = np.broadcast_to(np.asarray(threshold, dtype=np.float64), (examples.n_queries,))
    met = needed_probability(examples, probability) >= limit[examples.needed]
    wanted = np.bincount(examples.needed, minlength=examples.n_queries)
    held = np.bincount(examples.needed[met], minlength=examples.n_queries)
    recall = np.divide(held, wanted, out=np.full(examples.n_queries, np.nan), where=wanted > 0)
    items = np.bincount(examples.query[probability >= limit[examples.query]], minlength=examples.n_queries)
    return CutPoint(estimate(recall, scale="share"), estimate(items.astype(np.float64), scale="amount"))


def needed_probability(examples: Examples, probability: FloatArray) -> FloatArray:
    """The probability of each required item (the best of its alternatives); minus infinity where it was not found."""
    return np.array([probability[rows].max(initial=-np.inf) for rows in examples.required_rows], dtype=np.float64)


def recall_of_first(examples: Examples, score: FloatArray, most: int) -> FloatArray:
    """Mean recall of the best 1, 2, ... rows of each query, shape (most,); rows that tie all count as the last.

    Args:
        examples: candidates, rows by query.
        score: shape (n_rows,).
        most: >= 1.
    """
    start = np.searchsorted(examples.query, np.arange(examples.n_queries + 1))
    place = [
        float((score[start[query] : start[query + 1]] >= score[rows].max()).sum()) if len(rows) else np.inf
        for query, rows in zip(examples.needed, examples.required_rows, strict=True)
    ]
    wanted = np.bincount(examples.needed, minlength=examples.n_queries)
    held = [
        np.bincount(examples.needed[np.array(place) <= n], minlength=examples.n_queries) for n in range(1, most + 1)
    ]
    return np.array([(one[wanted > 0] / wanted[wanted > 0]).mean() for one in held])


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
    counts, group = _resample_groups(groups, seed)
    draws = np.concatenate([_roc_areas(label, probability, some[:, group]) for some in np.array_split(counts, BINS)])
    return _percentiles(draws, counts.shape[1], level)


def ratio_interval(
    top: FloatArray, bottom: FloatArray, groups: Sequence[str], *, level: float = LEVEL, seed: int = 0
) -> Interval:
    """Percentile bootstrap over groups for sum of `top` / sum of `bottom`: queries of one group are drawn together.

    Args:
        top, bottom: by query, shape (n,); with `bottom` all 1 the ratio is a mean.
        groups, level, seed: as of `roc_area_interval`.

    Coverage at level 0.95, by simulation with the groups of `bfcl-live-listed`, of which two hold a third of the
    queries in no need: a ratio of 0.45 85 to 96%, with correlations within groups of 0 to 0.3. A ratio of 0.01 81 to
    95%, and the misses lie above: groups that lose much are seldom drawn, so that the upper end is too low.
    """
    counts, group = _resample_groups(groups, seed)
    above, below = (counts @ np.bincount(group, weights=one, minlength=counts.shape[1]) for one in (top, bottom))
    draws = np.divide(above, below, out=np.full(len(counts), np.nan), where=below != 0)
    return _percentiles(draws, counts.shape[1], level)


def _resample_groups(groups: Sequence[str], seed: int) -> tuple[IntArray, IntArray]:
    """How often each group is drawn, shape (RESAMPLES, n_groups), and the group of each row, shape (n,)."""
    names, group = np.unique(np.array(groups, dtype=object), return_inverse=True)
    n = max(len(names), 1)
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=RESAMPLES), group


def _percentiles(draws: FloatArray, n_groups: int, level: float) -> Interval:
    """The interval of the draws that are numbers; it holds from 20 groups on."""
    finite, method = draws[~np.isnan(draws)], "bootstrap by group"
    if not len(finite):
        return Interval(low=-math.inf, high=math.inf, level=level, method=method, holds=False)
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return Interval(low=float(low), high=float(high), level=level, method=method, holds=n_groups >= SMALL)


def roc_area_by_stratum(label: BoolArray, probability: FloatArray, stratum: IntArray) -> float:
    """`roc_area` over pairs of rows of the same stratum only: what is left of it when the strata cannot help."""
    pairs = right = 0.0
    for one in np.unique(stratum):
        rows = stratum == one
        n = float(label[rows].sum()) * float((~label[rows]).sum())
        if n:
            pairs += n
            right += n * roc_area(label[rows], probability[rows])
    return right / pairs if pairs else math.nan


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
    areas: FloatArray = np.full(len(weight), np.nan)
    np.divide((positive * below).sum(axis=1), total, out=areas, where=total > 0)
    return areas


@dataclass(frozen=True)
class Bin:
    """Rows whose probability is between two edges: how many, their mean probability, and the share that is positive."""

    low: float
    high: float
    n: int
    predicted: float
    observed: float


def reliability(label: BoolArray, probability: FloatArray, edges: Sequence[float]) -> tuple[Bin, ...]:
    """Mean probability and share of positives between the edges.

    Args:
        label, probability: shape (n,).
        edges: rising; a bin holds its lower one, the last bin the upper one as well. Bins without rows are left out.
    """
    place = np.clip(np.searchsorted(edges, probability, side="right") - 1, 0, len(edges) - 2)
    found = []
    for one, (low, high) in enumerate(itertools.pairwise(edges)):
        rows = place == one
        if rows.any():
            found.append(Bin(low, high, int(rows.sum()), float(probability[rows].mean()), float(label[rows].mean())))
    return tuple(found)


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
