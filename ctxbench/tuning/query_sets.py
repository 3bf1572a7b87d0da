"""Query sets: the judged queries of a split, with answers to them and the metrics of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ctxbench.bench.dataset_run import NOT_OF_FAILED, answered
from ctxbench.bench.labels import Labels
from ctxbench.bench.metrics import Grade, GroupMean, Metric, evaluate, group_means, parse_metric, worst_group
from ctxbench.bench.metrics.joined import Joined
from ctxbench.bench.slices import Slice
from ctxbench.bench.stats import Estimate, estimates
from ctxbench.bench.summary import SCOPE_QUERIES
from ctxbench.core.arrays import FloatArray, IntArray, owners
from ctxbench.core.errors import ParameterError
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.query import Query
from ctxbench.core.requests import Batch
from ctxbench.core.stages import PerType, Step
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.features.columns import Logistic
from ctxbench.features.stored_fits import ABSTENTION, KINDS, PROBABILITY, Calibrations, all_steps
from ctxbench.index.resources import LocalResources
from ctxbench.selectors.pipelines import PipelineSelector
from ctxbench.selectors.selector import Selector
from ctxbench.steps.calibrated import Abstain, Probability
from ctxbench.tuning.fits.examples import ALL, folds_of, groups_of, make_examples
from ctxbench.tuning.fits.query_fits import out_of_fold
from ctxbench.tuning.tuning_results import WorseRequest

COMPLETE = parse_metric("completeness")
TUNING, TEST = "tuning", "test"
_SHOWN = 100  # characters of a request in a report
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class QuerySet:
    """The queries of one split that metrics apply to, or of all labels, whole or a sample.

    Attributes:
        dataset: those queries.
        split: which one; `all`: every label decides.
        item_tokens: prompt tokens of every item, shape (n_items,).
        resources: what steps use.
        memo: outputs of steps that settings share; one a split, since a step's key holds the batch.
    """

    dataset: Dataset
    split: str
    item_tokens: IntArray
    resources: LocalResources
    memo: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def labels(self) -> Labels:
        """The labels of the queries."""
        return Labels.of(self.dataset, self.item_tokens, self.resources.text_tokens)

    @cached_property
    def batch(self) -> Batch:
        """All requests."""
        return self.dataset.batch()

    def __len__(self) -> int:
        return len(self.dataset)

    @property
    def title(self) -> str:
        """The name in messages."""
        subset = "all labels" if self.split == ALL else f"{self.split} split"
        return f"{subset} of dataset {self.dataset.name}"

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The name of each query's group, see `groups_of`."""
        return groups_of(self.dataset.queries)

    @cached_property
    def group(self) -> IntArray:
        """The same as numbers from 0 on, shape (n_queries,)."""
        return np.unique(np.array(self.groups, dtype=object), return_inverse=True)[1].astype(np.int64)

    @property
    def fit_splits(self) -> tuple[str, ...]:
        """The splits that a fit may name if it has seen some of these queries."""
        return (self.split, TUNING, TEST, *self.dataset.split_names) if self.split == ALL else (self.split, ALL)

    def answers(self, selector: Selector) -> Slice:
        """Ask a selector all requests.

        Raises:
            UserError: it fails as a whole; queries that fail on their own are `Slice.errors`.
        """
        return answered(selector, self.batch)

    def values(self, answers: Slice, metrics: Sequence[Metric]) -> dict[Metric, FloatArray]:
        """Metrics by query, each of shape (n_queries,); what is unknown for a query that failed is NaN."""
        values = evaluate(metrics, self.labels.evidence(answers))
        if not answers.errors:
            return values
        failed = np.array([query in answers.errors for query in answers.queries], dtype=np.bool_)
        return {m: np.where(failed, np.nan, v) if str(m) in NOT_OF_FAILED else v for m, v in values.items()}

    def estimates(self, values: Mapping[Metric, FloatArray], *, level: float) -> dict[str, Estimate]:
        """Means with intervals by groups of queries, by metric name; one that applies to no query is left out."""
        by_metric = estimates(list(values), values, level=level, groups=self.group)
        return {str(metric): estimate for metric, estimate in by_metric.items() if estimate.n}

    def worst_scope(self, values: Mapping[Metric, FloatArray]) -> GroupMean | None:
        """The named scope of least completeness; None where fewer than two have enough queries."""
        scopes = [(query.scope, index) for index, query in enumerate(self.dataset.queries)]
        return _worst(values[COMPLETE], [(scope, index) for scope, index in scopes if scope is not None])

    def worst_server(self, values: Mapping[Metric, FloatArray]) -> GroupMean | None:
        """The server of least completeness among the queries that require an item of it; None as for scopes."""
        judgments, catalog = self.dataset.judgments, self.dataset.catalog
        required = judgments.grade == Grade.REQUIRED
        pairs = zip(owners(judgments.start)[required].tolist(), judgments.item[required].tolist(), strict=True)
        servers = sorted({(query, catalog[item].server or "") for query, item in pairs})
        return _worst(values[COMPLETE], [(server, query) for query, server in servers if server])

    def made_worse(self, before: FloatArray, after: FloatArray, answers: Slice) -> tuple[WorseRequest, ...]:
        """The queries that were complete before and are not after, with what is missing from the answers after.

        Of several alternatives that are all missing the first in the order of the catalog is named.
        """
        joined = Joined(self.labels.evidence(answers))
        items: dict[int, dict[int, str]] = {}
        missing = np.flatnonzero(joined.label_group >= 0)
        for label in missing[~joined.met[joined.label_group[missing]]].tolist():
            query, group = int(joined.label_query[label]), int(joined.label_group[label])
            items.setdefault(query, {}).setdefault(group, self.dataset.catalog[int(joined.labels.item[label])].id)
        return tuple(
            WorseRequest(
                query=self.dataset.queries[index].id, text=_shorten(self.batch.requests[index].text), missing=item_ids
            )
            for index in np.flatnonzero((before == 1) & (after == 0)).tolist()
            for item_ids in [tuple(items.get(index, {}).values())]
        )


def _worst(complete: FloatArray, members: Sequence[tuple[str, int]]) -> GroupMean | None:
    """The group of least completeness, of those with enough queries in need; a name and an index for each query."""
    groups: dict[str, list[int]] = {}
    for name, index in members:
        groups.setdefault(name, []).append(index)
    placed = {name: np.array(indices, dtype=np.int64) for name, indices in groups.items()}
    large = [group for group in group_means(complete, placed) if group.mean.n >= SCOPE_QUERIES]
    return worst_group(COMPLETE, complete, placed, min_n=SCOPE_QUERIES) if len(large) > 1 else None


def _shorten(text: str) -> str:
    """The text on one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1].rstrip() + "…"


OUT_OF_FOLD = 5  # folds that a fit's own queries are scored in


@dataclass(frozen=True, eq=False)
class FullRanking:
    """The ranking of a selector with nothing cut.

    Attributes:
        query: the analysed requests.
        answers: all that was found, as if all of it were offered.
        refitted: whether scores are out of fold, since a step was fitted on these queries.
        shared: of how many datasets a fit is that has seen these queries among theirs; 0 = there is none.
    """

    query: Query
    answers: Slice
    refitted: bool = False
    shared: int = 0

    def cut(self, steps: Sequence[Step | PerType], query_set: QuerySet) -> Slice:
        """Apply steps to it."""
        table = self.answers.candidates
        for step in steps:
            table = step.call(self.query, table, query_set.resources)
        return replace(self.answers, candidates=table)


def rank_with_pipeline(head: Pipeline, query_set: QuerySet) -> FullRanking:
    """Rank with a pipeline without cuts.

    A probability that was fitted on the very queries of the side would look better than it is on others: there each
    fold of them is scored by a fit of the same kind on the other folds. Weights of a fusion are a number a source and
    stay as they are.

    Raises:
        ParameterError: a step was fitted on the test split.
        UserError: a step fails, or does not suit the catalog.
    """
    if is_fitted_on(head, query_set):
        if query_set.split == TEST:
            raise ParameterError(
                f"a step was fitted on the {query_set.split} split of dataset {query_set.dataset.name}, so "
                f"that nothing measured there would hold elsewhere; fit it on the tuning split with "
                f"`ctxbench calibrate --split tuning`"
            )
        return _out_of_fold(head, query_set)
    result = ask(PipelineSelector("uncut", head, query_set.resources, query_set.memo), query_set)
    return FullRanking(*result, shared=count_fit_datasets(head, query_set))


def ask(selector: Selector, query_set: QuerySet) -> tuple[Query, Slice]:
    """Ask a selector all requests: these, analysed, and the answers; raises as `QuerySet.answers`."""
    answers = query_set.answers(selector)
    return Query.of_chunks(query_set.batch, answers.chunks), answers


def _is_step_fitted_on(step: Step, query_set: QuerySet) -> bool:
    """Whether the step was fitted on some of these queries; for weights, only on the test split.

    A fit of several datasets, such as the shipped one, counts on the test split only: a dataset is a small part of what
    it saw, and there is no fit without it.
    """
    datasets = _fit_datasets(step, query_set)
    return datasets == 1 or (datasets > 1 and query_set.split == TEST)


def _fit_datasets(step: Step, query_set: QuerySet) -> int:
    """How many datasets the step was fitted on, if it has seen some of these queries; 0 = it has not."""
    kind, catalog = step.declared("calibrated"), query_set.dataset.catalog
    if kind not in (KINDS if query_set.split == TEST else (PROBABILITY, ABSTENTION)):
        return 0
    stored: Calibrations = step.call.calibrations  # type: ignore[attr-defined]
    try:
        fits = [stored.fit(kind, catalog)] if kind == PROBABILITY else stored.fits
    except ParameterError:  # there is none for this catalog, which the step says when it is asked
        return 0
    for fit in fits:
        names = fit.values.get("datasets", [fit.dataset])
        matches = kind == PROBABILITY or (fit.what, fit.catalog) == (kind, catalog.hash)
        if matches and query_set.dataset.name in names and fit.split in query_set.fit_splits:
            return len(names)
    return 0


def count_fit_datasets(pipeline: Pipeline, query_set: QuerySet) -> int:
    """How many datasets (more than one) a fit is of that has seen some of these queries; 0 = there is none.

    What such a step gains here is a little more than it would elsewhere.
    """
    n_datasets = max((_fit_datasets(step, query_set) for step in all_steps(pipeline.refine)), default=0)
    return n_datasets if n_datasets > 1 else 0


def is_fitted_on(pipeline: Pipeline, query_set: QuerySet) -> bool:
    """Whether a step of the pipeline, or of a domain in it, was fitted on some of these queries.

    Weights of a fusion count on the test split only, where nothing is measured that they have seen.
    """
    return any(_is_step_fitted_on(step, query_set) for step in all_steps(pipeline.refine))


def _out_of_fold(head: Pipeline, query_set: QuerySet) -> FullRanking:
    """Rank every query by fits on the other folds.

    What a step is fitted on depends on each query alone, so it is taken once for all folds.
    """
    fold = folds_of(query_set.groups, min(OUT_OF_FOLD, len(set(query_set.groups))))
    complete = query_set.dataset.judgments.complete
    if complete is not None:  # a fit on all others tells of those whose labels are not all known
        groups = [group for group, is_complete in zip(query_set.groups, complete.tolist(), strict=True) if is_complete]
        fold = np.full(len(complete), -1, dtype=np.int64)
        fold[complete] = folds_of(groups, min(OUT_OF_FOLD, len(set(groups))))
    steps: list[Step | PerType] = []
    for step in head.refine:
        if isinstance(step, Step) and _is_step_fitted_on(step, query_set):
            kind, before = step.declared("calibrated"), replace(head, refine=tuple(steps))
            columns: Sequence[str] = ()
            if kind == PROBABILITY:
                columns = step.call.model(query_set.dataset.catalog, query_set.resources).columns  # type: ignore[attr-defined]
            rows = make_examples(kind, query_set.dataset, before, query_set.resources, columns=columns)
            step = replace(step, call=_fixed_step(step.call, out_of_fold(rows, fold)))
        steps.append(step)
    result = ask(PipelineSelector("uncut", replace(head, refine=tuple(steps)), query_set.resources), query_set)
    return FullRanking(*result, refitted=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Fixed(Logistic):
    """In the place of a fit: fixed probabilities of the rows, in the order of the examples."""

    fixed: FloatArray

    def probabilities(self, features: FloatArray, vectors: FloatArray | None = None) -> FloatArray:  # noqa: ARG002
        if len(features) != len(self.fixed):
            raise RuntimeError(f"{len(self.fixed)} examples, and {len(features)} rows to score")
        return self.fixed


@dataclass(frozen=True, kw_only=True)
class _WithFixed:
    """In front of a fitted step: gives it the fixed probabilities as its model."""

    fixed: _Fixed

    def model(self, *_: Any) -> Logistic:
        return self.fixed


@dataclass(frozen=True, kw_only=True)
class _FixedProbability(_WithFixed, Probability):
    """A probability that is fixed."""


@dataclass(frozen=True, kw_only=True)
class _FixedAbstain(_WithFixed, Abstain):
    """Abstention by a probability that is fixed."""


def _fixed_step(call: Any, probability: FloatArray) -> Probability | Abstain:
    """A fitted step with fixed probabilities, which reads no feature."""
    none = np.empty(0)
    fixed = _Fixed(
        columns=(), intercept=0.0, weights=none, low=none, high=none, scale=none, vector=none, fixed=probability
    )
    if isinstance(call, Abstain):
        return _FixedAbstain(calibration=call.calibration, threshold=call.threshold, fixed=fixed)
    return _FixedProbability(calibration=call.calibration, fixed=fixed)
