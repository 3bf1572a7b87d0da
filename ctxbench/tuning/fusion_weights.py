"""Weights of a fusion, fitted on labelled queries: those with the highest lower bound of their gain."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.bench.metrics import Evidence, OfferedItems, Rankings, evaluate, parse_metric
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.candidates import Candidates, Origin, order
from ctxbench.core.errors import ParameterError
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.steps.rank import fused, normalised, sources_of

METRIC = "nDCG@10"
STEPS = 20  # parts that the weights of two sources are counted in; of more sources, half as many
N_ERRORS = 1.645  # standard errors of a gain below which it may be chance: one-sided 95%


@dataclass(frozen=True, kw_only=True)
class FusionWeights:
    """What was fitted.

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
    dataset: Dataset,
    candidates: Candidates,
    *,
    normalise: str = "min_max",
    lowest: Mapping[str, float] | None = None,
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
            "weights can be fitted behind a merge of at least two retrievers only; "
            "name a selector with one, such as `hybrid`"
        )
    if candidates.n_requests != len(dataset):
        raise ParameterError(
            f"the candidates are of {candidates.n_requests} requests; dataset {dataset.name} has {len(dataset)} queries"
        )
    found = candidates.taken(candidates.ranked)
    scores = normalised(found, normalise, lowest=lowest)
    measure = _RankingMetric(dataset, candidates, found)
    grid = list(compositions(STEPS if len(sources) == 2 else STEPS // 2, len(sources)))
    values = np.stack([measure(fused(scores, dict(zip(sources, parts, strict=True)))) for parts in grid])
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
        Places of the choice and of the best single source; of equals the first. With one query every gain is
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


class _RankingMetric:
    """nDCG@10 of each query for other scores of the rows that were found."""

    def __init__(self, dataset: Dataset, candidates: Candidates, found: Candidates) -> None:
        self._metric = parse_metric(METRIC)
        self._depth = self._metric.k
        self._found = found
        self._place: IntArray = np.arange(len(found)) - found.start[:-1][found.request]
        session = candidates.origin == Origin.SESSION
        self._judgments = dataset.judgments
        self._offered = OfferedItems(
            start=candidates.starts_of(session), item=candidates.item[session], origin=candidates.origin[session]
        )

    def __call__(self, score: FloatArray) -> FloatArray:
        """Values by query, shape (n_queries,), for scores of shape (n_rows,)."""
        table, near = self._found, self._near(score)
        request, item = table.request[near], table.item[near]
        by_score = order(request, np.zeros(len(item), dtype=np.int64), score[near], item)
        rankings = Rankings(start=table.starts_of(near), item=item[by_score])
        evidence = Evidence(judgments=self._judgments, offered=self._offered, rankings=rankings)
        return np.asarray(evaluate([self._metric], evidence)[self._metric])

    def _near(self, score: FloatArray) -> BoolArray:
        """True for the rows that may be among the ten that are read: sorting the others would be idle."""
        table = self._found
        width = int(np.diff(table.start).max(initial=0))
        if width <= self._depth:
            return np.ones(len(table), dtype=np.bool_)
        padded = np.full((table.n_requests, width), -np.inf)
        padded[table.request, self._place] = score
        last = np.partition(padded, width - self._depth, axis=1)[:, width - self._depth]
        return np.asarray(score >= last[table.request])
