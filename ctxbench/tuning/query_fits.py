"""Fit probabilities, abstention and weights out of fold, with ROC and threshold curves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.evaluation.statistics import LEVEL, SMALL, Estimate, Interval, estimate
from ctxbench.io.errors import ParameterError
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.model.resources import Resources
from ctxbench.pipelines.features import LABELLED, TEXT, VERSION, Logistic
from ctxbench.pipelines.fits import (
    ABSTENTION,
    PROBABILITY,
    SHIPPED,
    WEIGHTS,
    Fit,
    describe_context,
    in_front,
    open_calibrations,
)
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.tuning.fit_examples import (
    Examples,
    Prior,
    fit_regression,
    fit_weights,
    folds_of,
    labelled_queries,
    levelled,
    make_examples,
)

Progress = Callable[[int, int], None]

STRENGTHS = (0.03, 0.3)  # scikit-learn's C for abstention, on standardised features
PRIOR_PRECISION = 100.0  # of the shipped weights as a prior; of 1 to 300, it loses the least at any number of labels
VECTOR_SCALES = (0.0, 2.0, 8.0)  # scales of the coordinates of unit vectors, relative to standardised features
INNER_FOLDS = 5
DIGITS = 6  # significant digits of a fit; the last ones depend on the machine


def fit(
    kind: str,
    dataset: Dataset,
    pipeline: Pipeline,
    resources: Resources,
    *,
    split: str = "tuning",
    requests: bool = True,
) -> Fit:
    """Fit one calibration on the queries of a split. A probability starts from the shipped fit.

    Args:
        kind: `probability`, `abstention` or `weights`.
        dataset: the whole dataset.
        pipeline: with the steps before the fitted step.
        resources: of the pipeline.
        split: the split of the queries; `all` = every split.
        requests: whether a fit of a probability stores the labelled requests, with their texts, and has features of
            what similar requests needed.

    Raises:
        UnknownNameError: there is no such split.
        ParameterError: no query is labelled, or all rows have the same label.
    """
    part = labelled_queries(dataset, split)
    front = in_front(pipeline, kind)
    values = (
        _weights(part, pipeline, resources)
        if kind == WEIGHTS
        else fit_values(make_examples(kind, part, front, resources, columns=columns_of(requests=requests)))
    )
    return Fit(
        kind=kind,
        dataset=dataset.name,
        dataset_hash=part.hash,
        catalog=dataset.catalog.hash,
        embedder=resources.identity("embedder"),
        behind=describe_context(pipeline, 0 if kind == WEIGHTS else len(front.refine)),
        split=split,
        queries=len(part),
        values=values,
    )


def columns_of(*, requests: bool) -> tuple[str, ...]:
    """The features of a fit of a probability, with or without those of labelled requests."""
    return (*TEXT, *(LABELLED if requests else ()))


def shipped_fit() -> Fit:
    """The probability fit that ships with ctxbench."""
    return next(fit for fit in open_calibrations(SHIPPED).fits if fit.kind == PROBABILITY)


def fit_with_prior(examples: Examples, earlier: Logistic) -> dict[str, Any]:
    """The values of a fit on examples that starts from an earlier fit; new columns start from 0.

    All queries have the same weight. The fewer labels there are, the closer the weights are to the earlier ones.
    Weights of columns of labelled requests are never below 0: such columns are left out, the lowest first. They occur
    if almost no two requests need the same item.

    Raises:
        ParameterError: all rows have the same label.
    """
    weight = row_weights(examples, len(examples.query))
    columns = examples.names
    while True:
        features = examples.columns(columns)
        prior = Prior.from_fit(earlier, columns, features, weight, precision=PRIOR_PRECISION)
        model = fit_regression(prior, features, examples.label, weight)
        scaled = dict(zip(columns, (model.weights * model.scale).tolist(), strict=True))
        worst = min((name for name in columns if name in LABELLED), key=scaled.__getitem__, default="")
        if not worst or scaled[worst] >= 0:
            break
        columns = tuple(name for name in columns if name != worst)
    return plain_values(levelled(model, features, examples.label), examples)


def fit_without_prior(examples: Examples, *, precision: float = 1.0) -> dict[str, Any]:
    """The values of a fit on examples that starts from weights of 0, for comparisons with `fit_with_prior`."""
    weight = row_weights(examples, len(examples.query))
    prior = Prior.zero(examples.names, examples.features, weight, precision=precision)
    return plain_values(fit_regression(prior, examples.features, examples.label, weight), examples)


def row_weights(examples: Examples, total: float) -> FloatArray:
    """Weights of rows, shape (n,): they add up to a total, and are equal in sum for each query."""
    counts = np.bincount(examples.query, minlength=examples.n_queries)
    return 1.0 / counts[examples.query] * (total / max(len(np.unique(examples.query)), 1))


def plain_values(model: Logistic, examples: Examples | None = None) -> dict[str, Any]:
    """A regression as plain numbers for `Logistic.read`, with the labelled requests that its columns need."""
    table = np.stack([model.weights, model.low, model.high, model.scale], axis=1)
    columns = {name: _rounded(row) for name, row in zip(model.columns, table, strict=True)}
    values = {"features": VERSION, "intercept": _rounded(np.array([model.intercept]))[0], "columns": columns}
    if examples is not None and examples.neighbours is not None and set(model.columns) & set(LABELLED):
        values["requests"] = examples.neighbours.requests.as_rows()
    return values | ({"vector": _rounded(model.vector)} if len(model.vector) else {})


def _weights(part: Dataset, pipeline: Pipeline, resources: Resources) -> dict[str, Any]:
    """Fit the weights of a fusion, with the normalisation of the pipeline's fusion if it has one."""
    fusions: list[Any] = [step.call for step in pipeline.refine if hasattr(step.call, "normalise")]
    how = {"normalise": fusions[0].normalise, "lowest": fusions[0].lowest} if fusions else {}
    return asdict(fit_weights(part, replace(pipeline, refine=()).run(part.batch(), resources).candidates, **how))


def fit_values(examples: Examples, *, earlier: Logistic | None = None) -> dict[str, Any]:
    """Fit the logistic regression of abstention, or that of a probability from an earlier one.

    Features are standardised, and weights have an L2 penalty. For abstention, its strength and the scale of vectors are
    chosen by the loss out of fold.

    Args:
        examples: all rows.
        earlier: the earlier probability; None = the shipped one. Not used for abstention.

    Returns:
        `features` (their version), `intercept`, `columns` and possibly `vector`: plain numbers for `Logistic.read`.

    Raises:
        ParameterError: all rows have the same label.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):  # faster for narrow matrices, and rounding is always the same
        if examples.what == PROBABILITY:
            earlier = earlier or Logistic.read(shipped_fit().values)
            covers = set(earlier.columns) <= set(examples.names)
            return fit_with_prior(examples, earlier) if covers else fit_without_prior(examples)
        return plain_values(_fit_abstention(examples, *_best_settings(examples)))


def out_of_fold(
    examples: Examples, fold: IntArray, *, earlier: Logistic | None = None, progress: Progress | None = None
) -> FloatArray:
    """The probability of every row by a fit on the queries of the other folds, shape (n,).

    Args:
        examples: all rows.
        fold: of each query, shape (n_queries,); see `folds_of`. No fit is on queries of a fold below 0.
        earlier: where the fits start; see `fit_values`.
        progress: called with (folds done, folds).

    Raises:
        ParameterError: all rows outside a fold have the same label.
    """
    probability = np.zeros(len(examples.label), dtype=np.float64)
    folds = np.unique(fold)
    for done, number in enumerate(folds):
        training = (fold != number) & (fold >= 0)
        model = Logistic.read(fit_values(examples.select_queries(training), earlier=earlier))
        rows = fold[examples.query] == number
        features = examples.columns(model.columns, labelled=training)
        probability[rows] = model.probabilities(features[rows], examples.vectors[rows])
        if progress is not None:
            progress(done + 1, len(folds))
    return probability


def _log_loss(model: Logistic, examples: Examples) -> float:
    """The sum over rows of -log(probability of the label)."""
    odds = model.intercept + np.clip(examples.features, model.low, model.high) @ model.weights
    if len(model.vector):
        odds = odds + examples.vectors @ model.vector
    return float(np.logaddexp(0.0, np.where(examples.label, -odds, odds)).sum())


def _best_settings(examples: Examples) -> tuple[float, float]:
    """The strength and the scale of vectors with the least loss out of fold."""
    choices = list(itertools.product(STRENGTHS, VECTOR_SCALES))
    n_groups = len(set(examples.groups))
    if n_groups < 2:
        return choices[0]
    fold = folds_of(examples.groups, min(INNER_FOLDS, n_groups))
    losses = np.zeros(len(choices))
    for number in range(int(fold.max()) + 1):
        training, unseen = examples.select_queries(fold != number), examples.select_queries(fold == number)
        if training.label.any() and not training.label.all():
            losses += [_log_loss(_fit_abstention(training, *choice), unseen) for choice in choices]
    return choices[int(np.argmin(losses))]


def _fit_abstention(examples: Examples, strength: float, vector_scale: float) -> Logistic:
    """Fit abstention.

    Args:
        examples: requests.
        strength: scikit-learn's C.
        vector_scale: the scale of vectors relative to the features; 0 = without vectors.

    Raises:
        ParameterError: all rows have the same label.
    """
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    label = examples.label
    if not label.any() or label.all():
        raise ParameterError(
            f"a fit would see {len(label)} rows that are {'all' if label.any() else 'never'} of requests "
            "that need something; use another number of folds, or label more queries"
        )
    mean, scale = examples.features.mean(axis=0), examples.features.std(axis=0)
    varies = scale > 1e-9
    scale = np.where(varies, scale, 1.0)
    vectors = examples.vectors[:, : examples.vectors.shape[1] if vector_scale > 0 else 0] * vector_scale
    rows = np.concatenate([(examples.features - mean) / scale * varies, vectors], axis=1)
    fitted = LogisticRegression(C=strength, max_iter=5000, tol=1e-6).fit(rows, label)
    weights = fitted.coef_[0][: len(mean)] * varies / scale
    return Logistic(
        columns=examples.names,
        intercept=float(fitted.intercept_[0]) - float(weights @ mean),
        weights=weights,
        low=examples.features.min(axis=0),
        high=examples.features.max(axis=0),
        scale=scale,
        vector=fitted.coef_[0][len(mean) :] * vector_scale,
    )


def _rounded(values: FloatArray) -> list[float]:
    """Values to `DIGITS` significant digits."""
    return [float(f"{value:.{DIGITS}g}") + 0.0 for value in values.tolist()]


RESAMPLES = 1000
BINS = 10


@dataclass(frozen=True, eq=False)
class CutCurve:
    """Items and recall for each threshold on the probability of items, from none to all candidates.

    Attributes:
        threshold: falling, shape (n,); infinity first.
        items: mean number of items per query, shape (n,), rising.
        recall: mean share of required items that are offered, over queries with requirements, shape (n,), rising.
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
        """The lowest threshold that offers at most `items` items on average."""
        return float(self.threshold[np.searchsorted(self.items, items, side="right") - 1])


@dataclass(frozen=True)
class CutPoint:
    """Recall and items with a threshold, each with its interval."""

    recall: Estimate
    items: Estimate


def cut_point(examples: Examples, probability: FloatArray, threshold: FloatArray | float) -> CutPoint:
    """Recall and items with a threshold for all queries, or one per query, shape (n_queries,)."""
    limit = np.broadcast_to(np.asarray(threshold, dtype=np.float64), (examples.n_queries,))
    met = needed_probability(examples, probability) >= limit[examples.needed]
    n_required = np.bincount(examples.needed, minlength=examples.n_queries)
    n_offered = np.bincount(examples.needed[met], minlength=examples.n_queries)
    recall = np.divide(n_offered, n_required, out=np.full(examples.n_queries, np.nan), where=n_required > 0)
    items = np.bincount(examples.query[probability >= limit[examples.query]], minlength=examples.n_queries)
    return CutPoint(estimate(recall, scale="share"), estimate(items.astype(np.float64), scale="amount"))


def needed_probability(examples: Examples, probability: FloatArray) -> FloatArray:
    """The probability of each required item (the best of its alternatives); minus infinity if it was not found."""
    return np.array([probability[rows].max(initial=-np.inf) for rows in examples.required_rows], dtype=np.float64)


def request_probability(examples: Examples, probability: FloatArray) -> FloatArray:
    """The probability of each query, shape (n_queries,); 0 for a query without candidates."""
    out = np.zeros(examples.n_queries, dtype=np.float64)
    out[examples.query] = probability
    return out


def abstention_point(needs: BoolArray, probability: FloatArray, threshold: float) -> tuple[Estimate, Estimate]:
    """The shares of queries that are offered nothing with a threshold on the probability that anything is needed.

    Args:
        needs: whether a query needs anything, shape (n_queries,).
        probability: likewise.
        threshold: below it nothing is offered.

    Returns:
        The share of the queries that need something (lost), and of those that need nothing (spared).
    """
    silent = (probability < threshold).astype(np.float64)
    return estimate(silent[needs], scale="yes/no"), estimate(silent[~needs], scale="yes/no")


def threshold_by_loss(needs: BoolArray, probability: FloatArray, share: float) -> float:
    """The highest threshold that abstains on at most a share of the queries that need something.

    Raises:
        ParameterError: no query needs anything.
    """
    finite = np.sort(probability[needs])
    if not len(finite):
        raise ParameterError("no query needs anything; abstention needs queries of both kinds")
    return float(finite[min(int(share * len(finite) + 1e-9), len(finite) - 1)])


def roc_area(label: BoolArray, probability: FloatArray) -> float:
    """Area under the ROC curve: how often a positive row scores above a negative one; ties count half.

    NaN if all labels are equal. Source: Hanley and McNeil, Radiology 143, 1982.
    """
    return float(_roc_areas(label, probability, np.ones((1, len(label))))[0])


def roc_area_interval(
    label: BoolArray, probability: FloatArray, groups: Sequence[str], *, level: float = LEVEL, seed: int = 0
) -> Interval:
    """Percentile bootstrap of `roc_area` over groups: queries of one group are drawn together.

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
    """The interval of the draws that are not NaN; it holds from 20 groups on."""
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
LOSSES = (0.005, 0.01, 0.02, 0.05)  # shares of lost queries at which spared queries are shown


@dataclass(frozen=True)
class FoldFigures:
    """Figures out of fold.

    Attributes:
        what: `probability` or `abstention`.
        folds: the number of folds.
        queries, groups: the numbers of queries, and of groups of queries that are always in one fold.
        roc_area, interval: area under the ROC curve, with its bootstrap interval by group.
        columns: the names of the two figures of each point.
        points: a threshold and two figures with intervals; the thresholds are chosen on these figures.
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
        points = [(threshold, *abstention_point(label, scores, threshold)) for threshold in thresholds]
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
