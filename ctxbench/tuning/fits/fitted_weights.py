"""Weights fitted on labelled queries: of a logistic regression with a prior, and of a fusion of sources.

Source: Gelman et al., A weakly informative default prior distribution for logistic regression, 2008 (the idea of
scaled features with a prior each); Newton's method with halved steps, Boyd and Vandenberghe, Convex Optimization, 9.5.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ctxbench.bench.metrics import Evidence, OfferedItems, Rankings, evaluate, parse_metric
from ctxbench.core.arrays import BoolArray, FloatArray
from ctxbench.core.candidates import Candidates, Origin, order
from ctxbench.core.errors import ParameterError
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.features.columns import Logistic
from ctxbench.features.found import LABELLED
from ctxbench.steps.rank import fused, normalised, sources_of

_STEPS = 100  # of Newton's method; it takes about ten
_ENOUGH = 1e-9  # a step that promises less is the last
_SMALLEST = 0.02  # scale of a feature that hardly varies: a rare value must not weigh hundreds


@dataclass(frozen=True, eq=False, kw_only=True)
class Prior:
    """What is believed of the weights before any label is seen.

    Attributes:
        columns: the features, in order.
        intercept: log odds where all features are 0; hardly held to.
        weights: shape (n_columns,).
        precision: how firmly the weights are believed, in units of `scale`: 1 / variance, >= 0.
        low, high: the range of each feature, beyond which a value counts as its end; shape (n_columns,).
        scale: of each feature, shape (n_columns,), > 0.
    """

    columns: tuple[str, ...]
    intercept: float
    weights: FloatArray
    precision: float
    low: FloatArray
    high: FloatArray
    scale: FloatArray

    @classmethod
    def zero(cls, columns: tuple[str, ...], features: FloatArray, weight: FloatArray, *, precision: float) -> Prior:
        """A prior of weights of 0, on the scale of the features at hand."""
        mean = np.average(features, axis=0, weights=weight)
        return cls(
            columns=columns,
            intercept=0.0,
            weights=np.zeros(len(columns)),
            precision=precision,
            low=features.min(axis=0),
            high=features.max(axis=0),
            scale=np.maximum(np.sqrt(np.average((features - mean) ** 2, axis=0, weights=weight)), _SMALLEST),
        )

    @classmethod
    def from_fit(
        cls, earlier: Logistic, columns: tuple[str, ...], features: FloatArray, weight: FloatArray, *, precision: float
    ) -> Prior:
        """A prior of the weights of an earlier fit, and of 0 for columns that it lacks.

        Ranges are widened to the features at hand; those of shares of labelled requests are 0 to 1.
        """
        new = cls.zero(columns, features, weight, precision=precision)
        index = {name: at for at, name in enumerate(earlier.columns)}
        old = np.array([index.get(name, -1) for name in columns], dtype=np.int64)
        share = np.array([name in LABELLED for name in columns], dtype=np.bool_)
        in_earlier = old >= 0
        return replace(
            new,
            intercept=earlier.intercept,
            weights=np.where(in_earlier, earlier.weights[old], 0.0),
            low=np.where(share, 0.0, np.where(in_earlier, np.minimum(earlier.low[old], new.low), new.low)),
            high=np.where(share, 1.0, np.where(in_earlier, np.maximum(earlier.high[old], new.high), new.high)),
            scale=np.where(in_earlier, earlier.scale[old], new.scale),
        )


def fit_regression(prior: Prior, features: FloatArray, label: BoolArray, weight: FloatArray) -> Logistic:
    """The most likely weights, given labels and what is believed before any is seen.

    Args:
        prior: see there.
        features: shape (n, n_columns), finite.
        label: shape (n,).
        weight: how often each row counts, shape (n,), > 0.

    Raises:
        ParameterError: all rows have the same label.
    """
    if not label.any() or label.all():
        kinds = "required" if label.any() else "never required"
        raise ParameterError(
            f"a fit would see {len(label)} rows that are all {kinds}; use another number of folds, or label "
            f"more queries"
        )
    rows = np.concatenate([np.ones((len(label), 1)), np.clip(features, prior.low, prior.high) / prior.scale], axis=1)
    centre = np.concatenate([[prior.intercept], prior.weights * prior.scale])
    precision = np.concatenate([[1e-3], np.full(len(prior.weights), max(prior.precision, 1e-6))])
    target = label.astype(np.float64)

    def loss(at: FloatArray) -> float:
        odds = rows @ at
        return float(weight @ np.logaddexp(0.0, np.where(label, -odds, odds)) + precision @ (at - centre) ** 2 / 2)

    at, current = centre, loss(centre)
    for _ in range(_STEPS):
        odds = rows @ at
        p = np.exp(-np.logaddexp(0.0, -odds))
        slope = rows.T @ (weight * (p - target)) + precision * (at - centre)
        curve = (rows * (weight * p * (1 - p))[:, None]).T @ rows + np.diag(precision)
        step = np.linalg.solve(curve, slope)
        if step @ slope < _ENOUGH * max(1.0, abs(current)):
            break
        share = 1.0
        while loss(at - share * step) > current - 1e-4 * share * float(step @ slope) and share > 1e-6:
            share /= 2
        at = at - share * step
        current = loss(at)
    return Logistic(
        columns=prior.columns,
        intercept=float(at[0]),
        weights=at[1:] / prior.scale,
        low=prior.low,
        high=prior.high,
        scale=prior.scale,
        vector=np.empty(0),
    )


def levelled(model: Logistic, features: FloatArray, label: BoolArray) -> Logistic:
    """The regression with the intercept at which its probabilities add up to the labels; the order of rows stays.

    A fit in which every query weighs the same is calibrated for queries with few candidates and many alike; what is
    asked of it is how many items are needed, and there every row counts once.

    Args:
        model: reads no vector.
        features: shape (n, n_columns).
        label: shape (n,), of both kinds.
    """
    odds = np.clip(features, model.low, model.high) @ model.weights + model.intercept
    low, high = -50.0, 50.0
    for _ in range(100):
        middle = (low + high) / 2
        if np.exp(-np.logaddexp(0.0, -(odds + middle))).sum() > label.sum():
            high = middle
        else:
            low = middle
    return replace(model, intercept=model.intercept + low)


METRIC = "nDCG@10"
STEPS = 20  # parts that the weights of two sources are counted in; of more sources, half as many
N_ERRORS = 1.645  # standard errors of a gain below which it may be chance: one-sided 95%


@dataclass(frozen=True, kw_only=True)
class FusionWeights:
    """Fitted weights of a fusion, and their figures.

    Attributes:
        weights: by source; they add up to 1.
        normalise, lowest: as in the `weighted` step that they are for.
        single: the best single source; of equals the first.
        queries: how many nDCG@10 applies to.
        value: mean nDCG@10 with these weights, on the queries of the fit.
        single_value: of the best single source, there.
        best_value: the highest mean of all weights tried, there.
    """

    weights: Mapping[str, float]
    normalise: str
    lowest: Mapping[str, float]
    single: str
    queries: int
    value: float
    single_value: float
    best_value: float


def fit_weights(
    dataset: Dataset, candidates: Candidates, *, normalise: str = "min_max", lowest: Mapping[str, float] | None = None
) -> FusionWeights:
    """Fit the weights of a fusion on a dataset's queries.

    Of all weights on a grid (twentieths for two sources, tenths for more) those are taken whose gain over the best
    single source has the highest lower bound: its mean less 1.645 standard errors. The gain of that source over
    itself is 0 without error, so that it stays alone unless another choice is surely better.

    Args:
        dataset: labelled queries, those of the tuning split.
        candidates: what a `merge` of two sources or more found for them, in their order, not ranked or cut yet.
        normalise, lowest: as in the `weighted` step that the weights are for.

    Raises:
        ParameterError: there is one source only, no query that the metric applies to, or queries without labels.
    """
    sources = tuple(sources_of(candidates))
    if len(sources) < 2:
        raise ParameterError(
            "weights can be fitted behind a merge of at least two retrievers only; name a selector with one, "
            "such as `hybrid`, or with a step `linear`"
        )
    if candidates.n_requests != len(dataset):
        raise ParameterError(
            f"the candidates are of {candidates.n_requests} requests; dataset {dataset.name} has {len(dataset)} queries"
        )
    ranked = candidates.select_rows(candidates.ranked)
    scores = normalised(ranked, normalise, lowest=lowest)
    grid = list(compositions(STEPS if len(sources) == 2 else STEPS // 2, len(sources)))
    fusions = [fused(scores, dict(zip(sources, parts, strict=True))) for parts in grid]
    values = np.stack([_ranking_values(dataset, candidates, ranked, fusion) for fusion in fusions])
    values = values[:, ~np.isnan(values).any(axis=0)]
    if not values.shape[1]:
        raise ParameterError(f"dataset {dataset.name} has no query that {METRIC} applies to; weights cannot be fitted")
    chosen, single = best_by_lower_bound(values, [max(parts) == sum(parts) for parts in grid])
    means = [_mean(row) for row in values]
    total = sum(grid[chosen])
    return FusionWeights(
        weights={name: part / total for name, part in zip(sources, grid[chosen], strict=True)},
        normalise=normalise,
        lowest=dict(lowest or {}),
        single=sources[int(np.argmax(grid[single]))],
        queries=values.shape[1],
        value=means[chosen],
        single_value=means[single],
        best_value=max(means),
    )


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write `total` as an ordered sum of `parts` numbers >= 0, the first number falling."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total, -1, -1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def best_by_lower_bound(values: FloatArray, single: Sequence[bool]) -> tuple[int, int]:
    """The choice with the highest lower bound of its gain over the best single source, and that source.

    Args:
        values: of each choice on each query, shape (n_choices, n_queries), n_queries >= 1.
        single: which choices are one source alone, at least one.

    Returns:
        Indices of the choice and of the best single source; of equals the first. With one query every gain is
        uncertain without end, so the single source stays.
    """
    single_places = np.flatnonzero(single)
    means = np.array([_mean(row) for row in values])
    base = int(single_places[np.argmax(means[single_places])])
    distance = values - values[base]
    n = values.shape[1]
    error = (
        distance.std(axis=1, ddof=1) / math.sqrt(n) if n > 1 else np.where(np.any(distance != 0, axis=1), np.inf, 0.0)
    )
    bound = np.array([_mean(row) for row in distance]) - N_ERRORS * error
    best = int(np.argmax(bound))
    return (best if bound[best] > 0 else base), base


def _mean(values: FloatArray) -> float:
    """The mean, from an exact sum, so that the order of queries cannot show in the last digit."""
    return math.fsum(values.tolist()) / len(values)


def _ranking_values(dataset: Dataset, candidates: Candidates, ranked: Candidates, score: FloatArray) -> FloatArray:
    """The metric of each query, shape (n_queries,), for other scores of the rows found, shape (n_rows,)."""
    metric, session = parse_metric(METRIC), candidates.origin == Origin.SESSION
    near = _near(ranked, score, metric.k)
    request, item = ranked.request[near], ranked.item[near]
    by_score = order(request, np.zeros(len(item), dtype=np.int64), score[near], item)
    evidence = Evidence(
        judgments=dataset.judgments,
        offered=OfferedItems(
            start=candidates.starts_of(session), item=candidates.item[session], origin=candidates.origin[session]
        ),
        rankings=Rankings(start=ranked.starts_of(near), item=item[by_score]),
    )
    return np.asarray(evaluate([metric], evidence)[metric])


def _near(table: Candidates, score: FloatArray, depth: int) -> BoolArray:
    """True for the rows that may be among the ten that are read: sorting the others would be idle."""
    width = int(np.diff(table.start).max(initial=0))
    if width <= depth:
        return np.ones(len(table), dtype=np.bool_)
    padded = np.full((table.n_requests, width), -np.inf)
    padded[table.request, np.arange(len(table)) - table.start[:-1][table.request]] = score
    last = np.partition(padded, width - depth, axis=1)[:, width - depth]
    return np.asarray(score >= last[table.request])
