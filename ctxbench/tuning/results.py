"""Results of tuning, and query sets with their answers and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import group_pairs
from ctxbench.evaluation.answers import Labels, Slice
from ctxbench.evaluation.comparisons import AtTokens, estimates
from ctxbench.evaluation.metric_kernels import Joined
from ctxbench.evaluation.metrics import GroupMean, Metric, evaluate, parse_metric, worst_group
from ctxbench.evaluation.run_folder import SCOPE_QUERIES
from ctxbench.evaluation.runner import NOT_OF_FAILED, answered
from ctxbench.evaluation.statistics import Comparison, Estimate
from ctxbench.io.errors import ParameterError
from ctxbench.model.arrays import FloatArray, Grade, IntArray, owners
from ctxbench.model.requests import Batch, Query
from ctxbench.model.strategies import PerType, Step
from ctxbench.pipelines.features import Logistic
from ctxbench.pipelines.fits import ABSTENTION, KINDS, PROBABILITY, Calibrations, all_steps
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.resources import LocalResources
from ctxbench.selectors.selector import PipelineSelector, Selector, Value
from ctxbench.tuning.fit_examples import ALL, folds_of, groups_of, make_examples
from ctxbench.tuning.policy import SAME, Policy
from ctxbench.tuning.query_fits import out_of_fold

# Roles of settings
RECOMMENDED, DEFAULTS, PRESET, FIXED, EVERYTHING = "recommended", "defaults", "preset", "fixed", "everything"
TUNED = "tuned"  # a tuned setting that a shipped preset beats
LEARNED_NORMAL = "learned/normal"  # the default of those who tune nothing
# names of the base: behind the selector's name, or in place of it
SPEC_DEFAULTS, WITH_DEFAULTS, OF_ITS_RANKING = "specification's defaults", ", defaults", " of its ranking"
AS_RETURNED = ", all that it returns"  # of a function whose answers have no ranking
# names of traces, behind the selector's name; the front of a selector that is not tuned has its shipped presets
FRONT, PRESETS, FIRST_ITEMS = ": front", ": presets", ": first n"
Status: TypeAlias = Literal["holds", "holds within 2 points", "open", "missed", "too few to say"]
TOGETHER = "together"
"""The name of the setting for all datasets, in place of the name of a dataset."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SettingResult:
    """One setting of one selector, measured by running it.

    Attributes:
        name: the name in tables, unique in its dataset: the name of the policy that it is recommended for, or
            `specification's defaults`, `semantic/normal`, `semantic, first 4`, `everything`.
        role: one of the roles above.
        selector: the name in the policy file.
        values: values of the parameters that have an effect, by name.
        tuning: estimates by metric name on the tuning set: the tuning split, or all labels.
        test: estimates on the test split; empty if all labels decide.
    """

    name: str
    role: str
    selector: str
    values: Mapping[str, Value]
    tuning: Mapping[str, Estimate]
    test: Mapping[str, Estimate]

    @property
    def figures(self) -> Mapping[str, Estimate]:
        """The estimates on the test split, or on all labels if these decide."""
        return self.test or self.tuning


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """A line of a chart: settings with means and intervals on the tuning set.

    Attributes:
        name: as in a legend: `semantic: front`, `semantic: first n`, or the name of the parameter that rises.
        settings: the values of each point, length n_points.
        means: by metric name, shape (n_points,).
        low, high: ends of the 95% interval of each mean, by metric name, shape (n_points,).
    """

    name: str
    settings: tuple[Mapping[str, Value], ...]
    means: Mapping[str, FloatArray]
    low: Mapping[str, FloatArray]
    high: Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanGrid:
    """A heat map: means over two parameters. All others have their recommended values.

    Attributes:
        x, y: the parameters.
        xs, ys: their values.
        means: by metric name, shape (len(ys), len(xs)).
    """

    x: str
    y: str
    xs: tuple[Value, ...]
    ys: tuple[Value, ...]
    means: Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorseRequest:
    """A request that is complete with the defaults and incomplete with the recommended setting.

    Attributes:
        query: its id.
        text: the text of the request, shortened.
        missing: ids of required items that are no longer offered.
    """

    query: str
    text: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintVerdict:
    """Whether a constraint holds on some queries.

    Attributes:
        text: the constraint.
        status: `holds`: the unfavourable end of the interval reaches the target; `holds within 2 points`: it misses the
            target by no more than the room of a share, which is smaller if the base is complete on fewer than a fifth;
            `missed`: the favourable end misses the target; `open`: none of these; `too few to say`: fewer than 20
            queries.
        value, low, high: the mean and its interval, in the unit of the constraint.
        n: how many queries the metric applies to.
        needed: about how many more queries would decide; None = it is decided, or more are unlikely to decide it.
        falls_short: whether the mean itself misses the target by more than the room.
    """

    text: str
    status: Status
    value: float
    low: float
    high: float
    n: int
    needed: int | None = None
    falls_short: bool = False

    @property
    def met(self) -> bool | None:
        """Whether it holds; None = open, or too few queries."""
        return {"holds": True, "holds within 2 points": True, "missed": False}.get(self.status)


def fall_short(verdicts: Iterable[ConstraintVerdict]) -> bool:
    """Whether a constraint is missed. Then the default is kept."""
    return any(verdict.falls_short or verdict.met is False for verdict in verdicts)


@dataclass(frozen=True, eq=False, kw_only=True)
class PolicyOutcome:
    """The result of one policy on a dataset.

    All but `bounds` is measured on the test split, or on all labels if these decide.

    Attributes:
        policy: which policy.
        chosen: the setting that is better than the default; None if there is none.
        reason: why the default is kept, without a full stop; empty if a setting is recommended.
        needed: about how many more labels would allow a recommendation, from and to; None = more are unlikely to help,
            or a setting is recommended.
        answered: whether the metrics of the policy apply to any label.
        taken_from: the stricter policy whose setting `chosen` is; empty if it is the best by the limits of this policy.
        tied_with: the selector that is better by the objective, but not significantly, so that the base's selector is
            chosen, or its default kept; empty if there is none.
        shipped: the name of the shipped preset that `chosen` is, such as `learned/normal`; empty if it is none.
        replaced: the tuned setting that was replaced, because a shipped preset or the default beats it in completeness
            and prompt tokens on the evaluation set, or because it is tied with the base's selector there.
        settings: how many settings were compared exactly for this policy.
        tried: how many settings were run, because a parameter cannot be swept.
        bounds: by text of each constraint, the bound on the tuning set that was compared with its target.
        verdicts: of the constraints, without those whose metric applies to no query.
        fixed: the first k items of the base's ranking, k tuned by the same policy; None if no k keeps all limits and is
            better than the default.
        fixed_reason: why there is no such k, without a full stop; empty if there is one.
        fixed_of_selector: the same for the ranking of the chosen selector.
        against: paired comparisons of `chosen` with "defaults", "fixed" and "fixed_of_selector", by that
            key and metric name (completeness, tokens, items, the objective), Holm-corrected over the dataset.
        at_tokens: `chosen` compared with the first n items of the base's ranking at equal prompt tokens; None if
            queries failed.
        ranking: the gain by a better ranking: `fixed_of_selector` compared with `fixed`, by metric name.
        heat_maps: around the chosen setting.
        slices: sensitivity: one trace per parameter, with the chosen values of all others.
        worst_scope, worst_server: the worst one with at least 10 queries; None if fewer than two have so many.
        worse: requests made worse, in the order of the dataset.
    """

    policy: Policy
    chosen: SettingResult | None
    reason: str = ""
    needed: tuple[int, int] | None = None
    answered: bool = True
    taken_from: str = ""
    tied_with: str = ""
    shipped: str = ""
    replaced: SettingResult | None = None
    settings: int = 0
    tried: int = 0
    bounds: Mapping[str, float] = field(default_factory=dict)
    verdicts: tuple[ConstraintVerdict, ...] = ()
    fixed: SettingResult | None = None
    fixed_reason: str = ""
    fixed_of_selector: SettingResult | None = None
    against: Mapping[str, Mapping[str, Comparison]] = field(default_factory=dict)
    at_tokens: AtTokens | None = None
    ranking: Mapping[str, Comparison] = field(default_factory=dict)
    heat_maps: tuple[MeanGrid, ...] = ()
    slices: tuple[Trace, ...] = ()
    worst_scope: GroupMean | None = None
    worst_server: GroupMean | None = None
    worse: tuple[WorseRequest, ...] = ()

    @property
    def recommended(self) -> SettingResult | None:
        """The chosen setting, unless it misses a constraint on the evaluation set."""
        return None if fall_short(self.verdicts) else self.chosen


@dataclass(frozen=True, eq=False, kw_only=True)
class DatasetTuning:
    """The result of tuning on one dataset.

    Attributes:
        dataset, version, hash: of the dataset.
        items: how many items the catalog has.
        queries: by split, how many were measured: `tuning` and `test`, or `all` if all labels decide.
        of: by split, how many there are; more than `queries` if a sample was drawn.
        tokens: name of the token counter.
        results: measured settings: the specification's defaults, shipped presets, tuned fixed k, everything, and
            recommendations.
        traces: fronts and first-n curves of every selector on the tuning set.
        shipped: the shipped presets that competed, by name; the default if it is one of them.
        outcomes: one per policy, in the order of the file.
        notes: messages for the reader: samples, parameters that were not swept, which labels decided.
    """

    dataset: str
    version: str
    hash: str
    items: int
    queries: Mapping[str, int]
    of: Mapping[str, int]
    tokens: str
    results: tuple[SettingResult, ...]
    traces: tuple[Trace, ...]
    outcomes: tuple[PolicyOutcome, ...]
    notes: tuple[str, ...] = ()
    shipped: Mapping[str, SettingResult] = field(default_factory=dict)

    @property
    def all_decide(self) -> bool:
        """Whether all labels decide, so no unread split is left."""
        return "test" not in self.queries

    @property
    def default(self) -> SettingResult | None:
        """The setting that is kept if nothing is recommended."""
        return next((result for result in self.results if result.role == DEFAULTS), None)

    def advised(self, outcome: PolicyOutcome) -> SettingResult | None:
        """The advice for a policy: the recommended setting, or the default."""
        return outcome.recommended or self.default

    def shortfall(self, outcome: PolicyOutcome) -> float:
        """How much less complete than `learned/normal` the advised setting is, as a share; 0 if it is not, or NaN."""
        results = (self.shipped.get(LEARNED_NORMAL), self.advised(outcome))
        values = [
            result.figures["completeness"].value for result in results if result and "completeness" in result.figures
        ]
        gap = values[0] - values[1] if len(values) == len(results) else 0.0
        return gap if gap > SAME else 0.0

    def same_advice(self) -> tuple[tuple[PolicyOutcome, ...], ...]:
        """The outcomes in groups of equal advice, in the order of the first of each group."""

        def advice(outcome: PolicyOutcome) -> object:
            chosen = outcome.chosen
            return outcome.recommended is None, chosen and (chosen.selector, tuple(chosen.values.items()))

        return tuple(map(tuple, group_pairs((advice(outcome), outcome) for outcome in self.outcomes).values()))


@dataclass(frozen=True, eq=False, kw_only=True)
class Tuning:
    """The results of a `ctxbench tune` on all datasets.

    Attributes:
        name, about: of the policy file.
        command: the command that repeats it.
        seed: of random search, resampling and folds.
        embedder: its identity.
        datasets: one result per dataset; with `together`, the last one has the name `together` and one setting for all.
        date: the day, `2026-11-29`; may be empty.
    """

    name: str
    about: str
    command: str
    seed: int
    embedder: str
    datasets: tuple[DatasetTuning, ...]
    date: str = ""


COMPLETE = parse_metric("completeness")
TUNING, TEST = "tuning", "test"
_SHOWN = 100  # characters of a request in a report


@dataclass(frozen=True, eq=False)
class QuerySet:
    """The labelled queries of one split, or all labelled queries; whole or a sample.

    Attributes:
        dataset: these queries.
        split: its name; `all` if every label decides.
        item_tokens: prompt tokens of every item, shape (n_items,).
        resources: embedder and token counter.
        memo: outputs of steps that settings share; one per split, since the key of a step contains the batch.
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
        return f"{'all labels' if self.split == ALL else f'{self.split} split'} of dataset {self.dataset.name}"

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The name of each query's group, see `groups_of`."""
        return groups_of(self.dataset.queries)

    @cached_property
    def group(self) -> IntArray:
        """The group of each query as a number from 0 on, shape (n_queries,)."""
        return np.unique(np.array(self.groups, dtype=object), return_inverse=True)[1].astype(np.int64)

    @property
    def fit_splits(self) -> tuple[str, ...]:
        """The names of splits whose fits have seen some of these queries."""
        return (self.split, TUNING, TEST, *self.dataset.split_names) if self.split == ALL else (self.split, ALL)

    def answers(self, selector: Selector) -> Slice:
        """The answers of a selector to all requests.

        Raises:
            UserError: it fails as a whole; queries that fail are in `Slice.errors`.
        """
        return answered(selector, self.batch)

    def values(self, answers: Slice, metrics: Sequence[Metric]) -> dict[Metric, FloatArray]:
        """Metrics by query, each of shape (n_queries,); NaN if unknown, because the query failed."""
        values = evaluate(metrics, self.labels.evidence(answers))
        if not answers.errors:
            return values
        failed = np.array([query in answers.errors for query in answers.queries], dtype=np.bool_)
        return {m: np.where(failed, np.nan, v) if str(m) in NOT_OF_FAILED else v for m, v in values.items()}

    def estimates(self, values: Mapping[Metric, FloatArray], *, level: float) -> dict[str, Estimate]:
        """Means with intervals by groups of queries, by name of each metric that applies to any query."""
        by_metric = estimates(list(values), values, level=level, groups=self.group)
        return {str(metric): estimate for metric, estimate in by_metric.items() if estimate.n}

    def worst_scope(self, values: Mapping[Metric, FloatArray]) -> GroupMean | None:
        """The scope with the lowest completeness; None if fewer than two have enough queries."""
        queries = enumerate(self.dataset.queries)
        return _worst(values[COMPLETE], [(query.scope, index) for index, query in queries if query.scope is not None])

    def worst_server(self, values: Mapping[Metric, FloatArray]) -> GroupMean | None:
        """The server with the lowest completeness of the queries that require one of its items; None as for scopes."""
        judgments, catalog = self.dataset.judgments, self.dataset.catalog
        required = judgments.grade == Grade.REQUIRED
        pairs = zip(owners(judgments.start)[required].tolist(), judgments.item[required].tolist(), strict=True)
        servers = sorted({(query, catalog[item].server or "") for query, item in pairs})
        return _worst(values[COMPLETE], [(server, query) for query, server in servers if server])

    def made_worse(self, before: FloatArray, after: FloatArray, answers: Slice) -> tuple[WorseRequest, ...]:
        """The queries that were complete before and are not after, with the items that are missing after.

        Of several missing alternatives, the first in the order of the catalog is named.
        """
        joined = Joined(self.labels.evidence(answers))
        items: dict[int, dict[int, str]] = {}
        missing = np.flatnonzero(joined.label_group >= 0)
        for label in missing[~joined.met[joined.label_group[missing]]].tolist():
            query, group = int(joined.label_query[label]), int(joined.label_group[label])
            items.setdefault(query, {}).setdefault(group, self.dataset.catalog[int(joined.labels.item[label])].id)
        return tuple(
            WorseRequest(
                query=self.dataset.queries[index].id,
                text=_shorten(self.batch.requests[index].text),
                missing=tuple(items.get(index, {}).values()),
            )
            for index in np.flatnonzero((before == 1) & (after == 0)).tolist()
        )


def _worst(complete: FloatArray, members: Sequence[tuple[str, int]]) -> GroupMean | None:
    """The group with the lowest completeness, of those with enough queries; `members` are names and query indices."""
    groups = {name: np.array(indices, dtype=np.int64) for name, indices in group_pairs(members).items()}
    return worst_group(COMPLETE, complete, groups, min_n=SCOPE_QUERIES)


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
        refitted: whether scores are out of fold, because a step was fitted on these queries.
        shared: the number of datasets of a fit that has seen these queries among others; 0 = there is none.
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


def rank_with_pipeline(
    head: Pipeline, query_set: QuerySet, memo: MutableMapping[str, Any] | None = None
) -> FullRanking:
    """Rank with a pipeline without cuts; `memo` has outputs of steps, by default those of the query set.

    A probability that was fitted on these queries would look too good. Each fold of them is then scored by a fit of the
    same kind on the other folds. Weights of a fusion, one number per source, are not changed.

    Raises:
        ParameterError: a step was fitted on the test split.
        UserError: a step fails, or does not suit the catalog.
    """
    if is_fitted_on(head, query_set):
        if query_set.split == TEST:
            raise ParameterError(
                f"a step was fitted on the {query_set.split} split of dataset {query_set.dataset.name}, so its "
                f"figures would be too good; fit it on the tuning split with `ctxbench calibrate --split tuning`"
            )
        return rank_out_of_fold(head, query_set)
    selector = PipelineSelector("uncut", head, query_set.resources, query_set.memo if memo is None else memo)
    return FullRanking(*ask(selector, query_set), shared=count_fit_datasets(head, query_set))


def ask(selector: Selector, query_set: QuerySet) -> tuple[Query, Slice]:
    """The analysed requests and the answers of a selector to them; raises as `QuerySet.answers`."""
    answers = query_set.answers(selector)
    return Query.of_chunks(query_set.batch, answers.chunks), answers


def _is_step_fitted_on(step: Step, query_set: QuerySet) -> bool:
    """Whether the step was fitted on some of these queries; for weights, only on the test split.

    A fit of several datasets, such as the shipped one, counts on the test split only: one dataset is a small part of
    it, and there is no fit without that dataset.
    """
    datasets = _fit_datasets(step, query_set)
    return datasets == 1 or (datasets > 1 and query_set.split == TEST)


def _fit_datasets(step: Step, query_set: QuerySet) -> int:
    """How many datasets the step was fitted on, if these queries were among them; else 0."""
    kind, catalog = step.declared("calibrated"), query_set.dataset.catalog
    if kind not in (KINDS if query_set.split == TEST else (PROBABILITY, ABSTENTION)):
        return 0
    stored: Calibrations = step.call.calibrations  # type: ignore[attr-defined]
    try:
        fits = [stored.fit(kind, catalog)] if kind == PROBABILITY else stored.fits
    except ParameterError:  # there is none for this catalog; the step reports it when it runs
        return 0
    for fit in fits:
        names = fit.values.get("datasets", [fit.dataset])
        matches = kind == PROBABILITY or (fit.kind, fit.catalog) == (kind, catalog.hash)
        if matches and query_set.dataset.name in names and fit.split in query_set.fit_splits:
            return len(names)
    return 0


def count_fit_datasets(pipeline: Pipeline, query_set: QuerySet) -> int:
    """The number of datasets of a fit that has seen these queries among those of other datasets; 0 = there is none.

    Such a step looks slightly better here than on new data.
    """
    n_datasets = max((_fit_datasets(step, query_set) for step in all_steps(pipeline.refine)), default=0)
    return n_datasets if n_datasets > 1 else 0


def is_fitted_on(pipeline: Pipeline, query_set: QuerySet) -> bool:
    """Whether a step of the pipeline, or of a domain in it, was fitted on some of these queries.

    Weights of a fusion count on the test split only.
    """
    return any(_is_step_fitted_on(step, query_set) for step in all_steps(pipeline.refine))


def rank_out_of_fold(head: Pipeline, query_set: QuerySet, *, columns: Sequence[str] = ()) -> FullRanking:
    """Rank every query by fits on the other folds.

    The examples of a step depend on each query alone, so they are made once for all folds.

    Args:
        head: whose steps are refitted that were fitted on some of these queries.
        query_set: the queries.
        columns: refit every probability by these features, whatever it was fitted on.
    """
    fold = folds_of(query_set.groups, min(OUT_OF_FOLD, len(set(query_set.groups))))
    complete = query_set.dataset.judgments.complete
    if complete is not None:  # queries without complete labels are scored by a fit on all others
        groups = [group for group, is_complete in zip(query_set.groups, complete.tolist(), strict=True) if is_complete]
        fold = np.full(len(complete), -1, dtype=np.int64)
        fold[complete] = folds_of(groups, min(OUT_OF_FOLD, len(set(groups))))
    steps: list[Step | PerType] = []
    for step in head.refine:
        kind = step.declared("calibrated") if isinstance(step, Step) else None
        if isinstance(step, Step) and ((columns and kind == PROBABILITY) or _is_step_fitted_on(step, query_set)):
            before, features = replace(head, refine=tuple(steps)), columns
            if kind == PROBABILITY and not columns:
                features = step.call.model(query_set.dataset.catalog, query_set.resources).columns  # type: ignore[attr-defined]
            rows = make_examples(str(kind), query_set.dataset, before, query_set.resources, columns=features)
            step = replace(step, call=_fixed_step(step.call, out_of_fold(rows, fold)))
        steps.append(step)
    result = ask(PipelineSelector("uncut", replace(head, refine=tuple(steps)), query_set.resources), query_set)
    return FullRanking(*result, refitted=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Fixed(Logistic):
    """A fit with fixed probabilities of the rows, in the order of the examples."""

    fixed: FloatArray

    def probabilities(self, features: FloatArray, vectors: FloatArray | None = None) -> FloatArray:  # noqa: ARG002
        return self.fixed


def _fixed_step(call: Any, probability: FloatArray) -> Any:
    """A fitted step with fixed probabilities, which reads no feature."""
    none = np.empty(0)
    return call.with_model(
        _Fixed(columns=(), intercept=0.0, weights=none, low=none, high=none, scale=none, vector=none, fixed=probability)
    )
