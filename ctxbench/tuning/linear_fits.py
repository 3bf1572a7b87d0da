"""Fit the weights of the strategy `linear` by exact line search.

The search evaluates all values of one weight at once, weight by weight. With the other weights fixed, the score of a
candidate is a linear function of the weight, so ranks change only where two of these lines cross. The metric is
constant between crossings, and a cumulative sum gives all its values. Source: Och, Minimum Error Rate Training in
Statistical Machine Translation, ACL 2003; Macherey et al., Lattice-based Minimum Error Rate Training, EMNLP 2008.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.evaluation.comparisons import grouped_compare
from ctxbench.evaluation.metric_kernels import NEVER, Joined
from ctxbench.evaluation.metrics import MOST_RANKS, WHOLE, Metric, mean, parse_metric
from ctxbench.evaluation.statistics import Comparison
from ctxbench.io.errors import ParameterError
from ctxbench.model.arrays import (
    BoolArray,
    Evidence,
    FloatArray,
    Grade,
    IntArray,
    Judgments,
    OfferedItems,
    Rankings,
    firsts,
    owners,
    ranges,
    starts,
)
from ctxbench.model.candidates import Origin, starts_by_request
from ctxbench.model.resources import Resources
from ctxbench.model.strategies import Step
from ctxbench.pipelines.features import VERSION, feature_rows
from ctxbench.pipelines.fits import LINEAR, Fit, describe_context
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.tuning.fit_examples import folds_of, groups_of, labelled_queries

METRICS = ("nDCG", "R", "Comp", "Success", "RR", "AP", "P")
_WITHIN = re.compile(r"(R|Comp|Success)@([1-9]\d{0,8})tokens")


@dataclass(frozen=True, order=True)
class WithinTokens(Metric):
    """A metric of the first items of a ranking that fit into a token count, as in `R@500tokens`.

    Rankings are then compared at equal tokens: long items leave room for fewer. The first item that does not fit ends
    the ranking.
    """

    token_count: int = 0

    def __str__(self) -> str:
        return f"{self.name}@{self.token_count}tokens"


def parse_objective(text: str) -> Metric:
    """Read what weights maximise: a metric, or R, Comp or Success within a token count (`Comp@500tokens`).

    Raises:
        UnknownNameError, ParameterError: as of `parse_metric`.
    """
    match = _WITHIN.fullmatch(text.strip())
    return WithinTokens(match[1], MOST_RANKS, token_count=int(match[2])) if match else parse_metric(text)


def check_objective(metric: Metric) -> None:
    """Check that a metric depends only on the ranks of labelled items.

    Raises:
        ParameterError: it is none of `METRICS`.
    """
    if metric.name not in METRICS or metric.group:
        raise ParameterError(f"weights are fitted by {', '.join(METRICS)}, with a rank, got {metric}")


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearCases:
    """The training data of weights: candidates with their columns, and the labels of their queries.

    Attributes:
        values: of every candidate in every column, shape (n, n_columns), finite.
        query: of each candidate, rising, shape (n,).
        item: the catalog position of each candidate, shape (n,); at most once per query.
        judgments: the labels of the queries.
        session: the items of their sessions, none of them a candidate; None = no items.
        tokens: of each candidate, shape (n,); None = not counted, and no metric is `WithinTokens`.
    """

    values: FloatArray
    query: IntArray
    item: IntArray
    judgments: Judgments
    session: OfferedItems | None = None
    tokens: IntArray | None = None

    def joined(self) -> Joined:
        """The labels, joined to the items of the sessions and to the candidates."""
        start, none = np.zeros(self.judgments.n_queries + 1, dtype=np.int64), np.empty(0, dtype=np.int64)
        offered = self.session or OfferedItems(start=start, item=none, origin=none)
        rankings = Rankings(start=starts_by_request(self.query, self.judgments.n_queries), item=self.item)
        return Joined(Evidence(judgments=self.judgments, offered=offered, rankings=rankings))


class RankStates(Joined):
    """States of rankings: each has a query and the ranks of its labelled items. Rank metrics read it like a run."""

    def __init__(self, base: Joined, query: IntArray, state: IntArray, label: IntArray, rank: FloatArray) -> None:
        """Join ranks to labels.

        Args:
            base: labels and the items of the sessions.
            query: of each state, shape (n_states,).
            state, label, rank: the labelled items of each state (the row of the label) and their 1-based ranks, shape
                (n,) each.
        """
        self.n, self.labels, self._base, self._query = len(query), base.labels, base, query
        self.trec, self.label_gain, self.labelled = base.trec, base.label_gain, base.labelled[query]
        size = np.bincount(base.group_query, minlength=base.n)
        start, first = starts(size[query]), starts(size)[query]
        groups = ranges(first, size[query])
        self.group_query, self.session_met = owners(start), base.session_met[groups]
        self.need, self.open_need, self.has_ranking = base.need[query], base.open_need[query], base.has_ranking[query]
        self._ranked = (state, rank, label, None)  # type: ignore[assignment]  # ranks may be infinite
        self.first_rank = np.full(len(groups), NEVER)
        group = base.label_group[label]
        np.minimum.at(self.first_rank, (start[state] + group - first[state])[group >= 0], rank[group >= 0])

    def ideal_gain(self, k: int) -> FloatArray:
        """The ideal gain of the query of each state."""
        return np.asarray(self._base.ideal_gain(k)[self._query])


MOST = 10.0  # the largest weight times spread of a column in one step, relative to the strongest other column
SURE = 1e-10  # smaller differences of means may be rounding errors
_NARROW = 1e-8  # narrower intervals, as a share of the searched range, are skipped, since scores are rounded
_CELLS = 1 << 16  # pairs of a needed item and a candidate in one block; they fit into a cache
_DIGITS = 6  # significant digits of a weight; the last ones depend on the machine
_DRAWS = 3  # random starts


@dataclass(frozen=True, eq=False)
class LineValues:
    """The mean of a metric for every value of one weight.

    Attributes:
        edges: ends of the intervals, rising, shape (n + 1,); at an edge two scores are equal.
        means: within each interval, shape (n,).
    """

    edges: FloatArray
    means: FloatArray

    def middle(self, above: float) -> float | None:
        """The middle of the best interval (of equals the widest, then the lowest); None if no mean is above a value."""
        width = np.diff(self.edges)
        means = np.where(width > _NARROW * width.sum(), self.means, -np.inf)
        best = float(means.max(initial=-np.inf))
        if best <= above + SURE:
            return None
        at = int(np.argmax(np.where(means >= best - SURE, width, -1.0)))
        return float(self.edges[at] + self.edges[at + 1]) / 2


@dataclass(frozen=True, eq=False)
class LinearWeights:
    """The result of a search for weights.

    Attributes:
        weights: shape (n_columns,).
        mean: of the metric with them, over the queries to which it applies.
        before: the same with the initial weights; NaN if there were none.
    """

    weights: FloatArray
    mean: float
    before: float


@dataclass(frozen=True, eq=False)
class _Block:
    """The candidates of some queries, padded to one width, and the needed ones among them.

    Attributes:
        columns: shape (n_columns, n_queries, width), 0 in the padding.
        padding: minus infinity in the padding, else 0, shape (n_queries, width).
        required: indices of needed candidates among all of them, shape (n_needed,).
        query, position: row and column of each in this block, shape (n_needed,).
        first: whether a candidate comes before a needed one in the catalog, shape (n_needed, width).
        size: what each candidate counts above others: 1, or its tokens; 0 in the padding, shape (n_queries, width).
    """

    columns: FloatArray
    padding: FloatArray
    required: IntArray
    query: IntArray
    position: IntArray
    first: BoolArray
    size: IntArray

    def scores(self, weights: FloatArray) -> FloatArray:
        """Shape (n_queries, width), added like `linear_scores`; a weight of 0 adds nothing."""
        total = self.padding.copy()
        for column in np.flatnonzero(weights):
            total += self.columns[column] * weights[column]
        return total

    def away(self, values: FloatArray) -> FloatArray:
        """The value of each candidate less that of the needed one, shape (n_needed, width)."""
        return np.asarray(values[self.query] - values[self.query, self.position][:, None])

    def above(self, weights: FloatArray) -> IntArray:
        """The size of the candidates that rank above each needed one, shape (n_needed,)."""
        away = self.away(self.scores(weights))
        return np.asarray(np.where((away > 0) | ((away == 0) & self.first), self.size[self.query], 0).sum(axis=1))

    def crossings(self, column: int, weights: FloatArray, depth: int) -> tuple[FloatArray, IntArray]:
        """The weights at which candidates start, and stop, to rank above a needed one, and the sizes of these.

        Returns:
            The `depth` lowest starts (minus infinity = always above), then the `depth` highest stops, shape (n_needed,
            2 x depth) each; others do not change the first ranks.
        """
        rest = weights.copy()
        rest[column] = 0.0
        away, slope = self.away(self.scores(rest)), self.away(self.columns[column])
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ends = away / slope
        begins = np.where(slope > 0, -ends, np.inf)
        begins[(slope == 0) & ((away > 0) | ((away == 0) & self.first))] = -np.inf
        stops, size = np.where(slope < 0, ends, np.inf), self.size[self.query]
        low, high = _lowest(begins, size, depth), _lowest(stops, size, depth)
        return np.concatenate([low[0], -high[0]], axis=1), np.concatenate([low[1], high[1]], axis=1)


class LineSearch:
    """The metric of given candidates as a function of the weights of their columns.

    Attributes:
        spread: standard deviation of each column within queries, shape (n_columns,).
        applies: the selected queries to which the metric applies, shape (n_queries,).
    """

    def __init__(self, cases: LinearCases, metric: Metric, *, queries: BoolArray | None = None) -> None:
        """Prepare for the queries where `queries`, shape (n_queries,), is True; None = all.

        Raises:
            ParameterError: as of `check_objective`, or the metric applies to none of the queries.
        """
        check_objective(metric)
        self._metric, self._labels, self.spread = metric, cases.joined(), _spread(cases)
        self._limit = metric.token_count if isinstance(metric, WithinTokens) else 0
        self._depth, all_queries, none = metric.k or WHOLE, np.arange(self._labels.n), np.empty(0, dtype=np.int64)
        self.applies = ~np.isnan(self._values(all_queries, none, none, none))
        if queries is not None:
            self.applies &= queries
        if not self.applies.any():
            raise ParameterError(f"{metric} applies to no query; weights cannot be fitted")
        lowest = Grade.HELPFUL if metric.name in ("nDCG", "P") else Grade.REQUIRED
        useful = self._labels.label_free & (self._labels.labels.grade >= lowest)
        label = self._labels.label_of(cases.query, cases.item)
        required = np.flatnonzero(np.append(useful, False)[label] & self.applies[cases.query])
        self._label, self._query = label[required], cases.query[required]
        size = cases.tokens if self._limit else np.ones(len(cases.query), dtype=np.int64)
        if size is None:
            raise ParameterError(f"{metric} needs the tokens of the candidates")
        self._own = size[required] if self._limit else np.zeros(len(required), dtype=np.int64)
        self._blocks = tuple(_blocks(cases, required, size))

    def _values(self, query: IntArray, state: IntArray, label: IntArray, above: IntArray) -> FloatArray:
        """The metric of states, shape (n_states,), from the size of the candidates above each labelled item.

        Within a token count the size is that with the item, and every item that fits has rank 1.
        """
        rank = (
            np.where(above <= self._limit, 1.0, NEVER)
            if self._limit
            else np.where(above < self._depth, above + 1.0, NEVER)
        )
        compute: Any = self._metric.declaration.compute
        return np.asarray(compute(RankStates(self._labels, query, state, label, rank), self._metric.k))

    def _by_query(self, above: IntArray) -> FloatArray:
        return np.where(self.applies, self._values(np.arange(self._labels.n), self._query, self._label, above), np.nan)

    def by_query(self, weights: FloatArray) -> FloatArray:
        """The metric by query, shape (n_queries,); NaN if it does not apply or the query is not selected."""
        above = np.zeros(len(self._label), dtype=np.int64)
        for block in self._blocks:
            above[block.required] = block.above(weights)
        return self._by_query(above + self._own)

    def mean(self, weights: FloatArray) -> float:
        """The mean of the metric, from an exact sum."""
        return mean(self.by_query(weights)).value

    def along(self, column: int, weights: FloatArray) -> LineValues:
        """The mean of the metric for every weight of a column within the searched range; the others are fixed."""
        strongest = float((np.abs(weights) * self.spread)[np.arange(len(weights)) != column].max(initial=0.0))
        high = MOST * (strongest or 1.0) / self.spread[column]
        above, within = self._own.copy(), []
        for block in self._blocks:
            width = block.size.shape[1]
            depth = width if self._limit else min(self._depth, width)  # within tokens any number of items may count
            at, size = block.crossings(column, weights, depth)
            is_start = np.arange(2 * depth) < depth
            above[block.required] += np.where(np.where(is_start, at <= -high, at > -high), size, 0).sum(axis=1)
            row, position = np.nonzero(np.abs(at) < high)
            step = np.where(is_start, size, -size)[row, position]
            within.append((at[row, position], block.required[row], step))
        at, owner, step = (np.concatenate(parts) for parts in zip(*within, strict=True))
        by_place = np.lexsort((at, self._query[owner]))
        at, owner, step = at[by_place], owner[by_place], step[by_place]
        first, after = self._by_query(above), self._after(above, owner, step)
        query = self._query[owner]
        change = after - np.where(firsts(query), first[query], np.append(0.0, after[:-1]))
        moves = np.flatnonzero(change)
        by_place = moves[np.argsort(at[moves])]
        at, start = at[by_place], float(np.nansum(first))
        distinct = np.diff(at, append=np.inf) > 0
        sums = np.append(start, (start + np.cumsum(change[by_place]))[distinct])
        return LineValues(np.concatenate([[-high], at[distinct], [high]]), sums / self.applies.sum())

    def _after(self, above: IntArray, owner: IntArray, step: IntArray) -> FloatArray:
        """The metric of the query after each crossing, shape (n_crossings,).

        Args:
            above: the size above each needed candidate before all crossings, shape (n_needed,).
            owner, step: the needed candidate of each crossing, by query and position, and the change of its size.
        """
        query = self._query[owner]
        begin, end = (np.searchsorted(query, self._query, side=side) for side in ("left", "right"))
        state, required = ranges(begin, end - begin), np.repeat(np.arange(len(above)), end - begin)
        total = np.append(0, np.cumsum(np.where(owner[state] == required, step[state], 0)))
        total = total[1:] - np.repeat(total[starts(end - begin)[:-1]], end - begin)
        return self._values(query, state, self._label[required], above[required] + total)

    def climb(self, weights: FloatArray) -> FloatArray:
        """Set one weight after the other to its best value, until no weight improves the mean."""
        mean, tried, turn = self.mean(weights), 0, 0
        columns = np.flatnonzero(self.spread > 0).tolist()
        while tried < len(columns):
            index = columns[turn % len(columns)]
            middle, tried, turn = self.along(index, weights).middle(mean), tried + 1, turn + 1
            if middle is not None:
                moved = weights.copy()
                moved[index] = middle
                if (reached := self.mean(moved)) > mean + SURE:
                    weights, mean, tried = moved, reached, 1
        return weights


def fit_linear(
    cases: LinearCases,
    metric: Metric,
    *,
    start: FloatArray | None = None,
    queries: BoolArray | None = None,
    seed: int = 0,
) -> LinearWeights:
    """Search for the weights of columns with the highest mean of a metric of the ranking.

    The search starts from the initial weights, from each column alone and from random weights. Of equal results, the
    first is returned, so initial weights that cannot be improved are not changed. Others are scaled so that the largest
    is 1 or -1.

    Args:
        cases: candidates and labels.
        metric: one of `METRICS` at a rank.
        start: initial weights, shape (n_columns,).
        queries: the queries of the fit, shape (n_queries,); None = all.
        seed: of the random starts.

    Raises:
        ParameterError: as of `LineSearch`, or no column distinguishes candidates of a query.
    """
    search = LineSearch(cases, metric, queries=queries)
    if not search.spread.any():
        raise ParameterError("no column differs between the candidates of a query; weights cannot be fitted")
    results = [] if start is None else [start]
    results += [_scaled(search.climb(weights)) for weights in _starts(search.spread, start, seed)]
    means = [search.mean(weights) for weights in results]
    best = next(index for index, mean in enumerate(means) if mean >= max(means) - SURE)
    return LinearWeights(results[best], means[best], math.nan if start is None else means[0])


def _scaled(weights: FloatArray) -> FloatArray:
    """The weights scaled so that the largest is 1 or -1, and rounded."""
    return np.array([float(f"{weight:.{_DIGITS}g}") for weight in weights / np.abs(weights).max()])


def _starts(spread: FloatArray, initial: FloatArray | None, seed: int) -> Iterator[FloatArray]:
    """The starts of the search; each has a weight that is not 0."""
    if initial is not None and initial.any():
        yield initial
    scale = np.divide(1.0, spread, out=np.zeros(len(spread)), where=spread > 0)
    yield from np.diag(scale)[spread > 0]
    yield from np.random.default_rng(seed).standard_normal((_DRAWS, len(spread))) * scale


def _lowest(values: FloatArray, size: IntArray, n: int) -> tuple[FloatArray, IntArray]:
    """The n lowest of each row, in any order, and their sizes, shape (n_rows, n); infinite, of size 0, if fewer."""
    if values.shape[1] > n:
        index = np.argpartition(values, n - 1, axis=1)[:, :n]
        return np.take_along_axis(values, index, axis=1), np.take_along_axis(size, index, axis=1)
    pad = ((0, 0), (0, n - values.shape[1]))
    return np.pad(values, pad, constant_values=np.inf), np.pad(size, pad)


def _spread(cases: LinearCases) -> FloatArray:
    """Standard deviation of each column within queries, shape (n_columns,); 0 if it differs by rounding only."""
    size = np.bincount(cases.query)
    out = np.zeros(cases.values.shape[1])
    for index, column in enumerate(cases.values.T):
        mean = np.bincount(cases.query, column) / np.maximum(size, 1)
        out[index] = math.sqrt(float(np.mean((column - mean[cases.query]) ** 2))) if len(column) else 0.0
        out[index] *= out[index] > 1e-12 * np.abs(column).max(initial=0.0)
    return out


def _blocks(cases: LinearCases, row: IntArray, size_of: IntArray) -> Iterator[_Block]:
    """The queries of needed candidates in blocks, ordered by their number of candidates."""
    query, count = cases.query[row], np.bincount(cases.query)
    start = starts(count)
    used, n_needed = np.unique(query, return_counts=True)
    by_width = np.argsort(count[used], kind="stable")
    used, cells = used[by_width], np.cumsum((n_needed * count[used])[by_width]) // _CELLS
    for part in np.split(used, np.flatnonzero(np.diff(cells)) + 1):
        part = np.sort(part)
        required = np.flatnonzero(np.isin(query, part))
        owner, rows = np.repeat(np.arange(len(part)), count[part]), ranges(start[part], count[part])
        position, shape = rows - start[part][owner], (len(part), int(count[part].max(initial=0)))
        columns, item, padding = np.zeros((cases.values.shape[1], *shape)), np.full(shape, -1), np.full(shape, -np.inf)
        columns[:, owner, position] = cases.values[rows].T
        item[owner, position], padding[owner, position] = cases.item[rows], 0.0
        size = np.zeros(shape, dtype=np.int64)
        size[owner, position] = size_of[rows]
        block_query = np.searchsorted(part, query[required])
        first = item[block_query] < cases.item[row[required]][:, None]
        yield _Block(columns, padding, required, block_query, row[required] - start[query[required]], first, size)


@dataclass(frozen=True)
class WeightFigures:
    """Figures of fitted weights on queries that they were not fitted on, compared with the selector's own weights.

    Attributes:
        metric: the fitted and measured metric.
        folds, groups: the numbers of folds and of groups; queries of one group are in one fold.
        compared: the comparison of the selector's weights (base) with those of the fits.
    """

    metric: Metric
    folds: int
    groups: int
    compared: Comparison

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON."""
        comparison = self.compared
        return {
            "folds": self.folds,
            "queries": comparison.n,
            "groups": self.groups,
            "metric": str(self.metric),
            "before": comparison.base,
            "after": comparison.other,
            "gain": {
                "value": comparison.difference,
                "low": comparison.interval.low,
                "high": comparison.interval.high,
            },
        }


def linear_index(pipeline: Pipeline) -> int | None:
    """The index of the last step `linear` outside domains; None if there is none."""
    steps = [isinstance(step, Step) and getattr(step.call, "fitted", None) == LINEAR for step in pipeline.refine]
    return len(steps) - 1 - steps[::-1].index(True) if any(steps) else None


@dataclass(frozen=True, eq=False)
class LinearExamples:
    """The examples for the weights of a pipeline's step `linear`.

    Attributes:
        dataset: labelled queries only.
        columns, weights: of the step.
        cases: the candidates before the step, with their columns.
    """

    dataset: Dataset
    columns: tuple[str, ...]
    weights: FloatArray
    cases: LinearCases

    @classmethod
    def of(cls, dataset: Dataset, pipeline: Pipeline, resources: Resources) -> LinearExamples:
        """Run the steps before it on labelled queries.

        Raises:
            ParameterError: the pipeline has no such step, or its file has no initial weights.
        """
        index = linear_index(pipeline)
        if index is None:
            raise ParameterError("weights of columns are fitted for a selector with a step `linear`")
        step: Any = pipeline.refine[index].call
        weights = step.weights_for(dataset.catalog)
        outcome = replace(pipeline, refine=pipeline.refine[:index]).run(dataset.batch(), resources)
        table, columns = outcome.candidates, tuple(weights)
        searched, values = feature_rows(table, columns, outcome.query, resources)
        session = table.origin == Origin.SESSION
        cases = LinearCases(
            values=values,
            query=table.request[searched.rows],
            item=searched.item,
            judgments=dataset.judgments,
            session=OfferedItems(
                start=table.starts_of(session), item=table.item[session], origin=table.origin[session]
            ),
            tokens=np.asarray(resources.tokens(dataset.catalog, searched.item)[searched.item], dtype=np.int64),
        )
        return cls(dataset, columns, np.array(list(weights.values())), cases)

    def fit(self, metric: Metric) -> dict[str, Any]:
        """The values of a fit: weights by column, and the mean of the metric before and after."""
        fitted = fit_linear(self.cases, metric, start=self.weights)
        weights = dict(zip(self.columns, (fitted.weights + 0.0).tolist(), strict=True))  # no -0.0
        return {
            "features": VERSION,
            "weights": weights,
            "metric": str(metric),
            "before": fitted.before,
            "value": fitted.mean,
        }

    def measure(self, metric: Metric, folds: int) -> WeightFigures:
        """Fit without each fold in turn, and measure on the fold left out.

        The fits do not start from the weights of the step, which may have been fitted on these queries.

        Raises:
            ParameterError: there are fewer groups than folds, or the metric applies to no query outside a fold.
        """
        groups = groups_of(self.dataset.queries)
        fold, search = folds_of(groups, folds), LineSearch(self.cases, metric)
        after = np.full(len(fold), math.nan)
        for index in range(folds):
            weights = fit_linear(self.cases, metric, queries=fold != index).weights
            after[fold == index] = search.by_query(weights)[fold == index]
        before, scale = search.by_query(self.weights), metric.declaration.scale
        compared = grouped_compare(before, after, groups, scale="yes/no" if scale == "yes/no" else "share")
        return WeightFigures(metric, folds, len(set(groups)), compared)


def fit_columns(
    dataset: Dataset, pipeline: Pipeline, resources: Resources, metric: Metric, *, split: str = "tuning", folds: int = 0
) -> tuple[Fit, WeightFigures | None]:
    """Fit the weights of a pipeline's step `linear` on the queries of a split; with folds, measure such fits as well.

    Raises:
        UnknownNameError: there is no such split.
        ParameterError: as of `LinearExamples` and `fit_linear`.
    """
    check_objective(metric)
    part = labelled_queries(dataset, split)
    examples = LinearExamples.of(part, pipeline, resources)
    fit = Fit(
        kind=LINEAR,
        dataset=dataset.name,
        dataset_hash=part.hash,
        catalog=dataset.catalog.hash,
        embedder=resources.identity("embedder"),
        behind=describe_context(pipeline, linear_index(pipeline)),
        split=split,
        queries=len(part),
        values=examples.fit(metric),
    )
    return fit, examples.measure(metric, folds) if folds else None
