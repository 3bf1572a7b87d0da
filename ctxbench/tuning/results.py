"""Tuning results as data, and query sets with their answers and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from ctxbench.model.arrays import FloatArray, IntArray, owners
from ctxbench.model.labels import Grade
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
TUNED = "tuned"  # what was chosen of the tuned settings, and a shipped preset beats
LEARNED_NORMAL = "learned/normal"  # what ships for those who tune nothing
# what the base is called behind the selector's name, or in place of it
SPEC_DEFAULTS, WITH_DEFAULTS, OF_ITS_RANKING = "specification's defaults", ", defaults", " of its ranking"
# what a trace is called behind the selector's name; of one that is not tuned the front is of its shipped presets
FRONT, PRESETS, FIRST_ITEMS = ": front", ": presets", ": first n"
Status: TypeAlias = Literal["holds", "holds within 2 points", "open", "missed", "too few to say"]
TOGETHER = "together"
"""What the setting for all datasets is called, in the place of a dataset."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SettingResult:
    """One setting of one selector, measured by running it.

    Attributes:
        name: the name in tables, unique in its dataset: a policy's name for what is recommended for it,
            `specification's defaults`, `semantic/normal`, `semantic, first 4`, `everything`.
        role: one of the roles above.
        selector: as the policy file calls it.
        values: by parameter name, those that have an effect.
        tuning: estimates by metric name on the tuning set: the tuning split, or all labels.
        test: those on the test split; empty where all labels decide.
    """

    name: str
    role: str
    selector: str
    values: Mapping[str, Value]
    tuning: Mapping[str, Estimate]
    test: Mapping[str, Estimate]

    @property
    def figures(self) -> Mapping[str, Estimate]:
        """The figures that count: those of the test split, or of all labels where these decide."""
        return self.test or self.tuning


@dataclass(frozen=True, eq=False, kw_only=True)
class Trace:
    """Settings along which one thing rises, with means and intervals on the tuning set: a line of a figure.

    Attributes:
        name: what rises, as a legend says it: `semantic: front`, `semantic: first n`, or a parameter's name.
        settings: the values of each point, as a table or a tooltip shows them, length n_points.
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
    """Means over two parameters, all others as recommended: a heat map.

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
    """A request that the defaults made complete and what is recommended does not.

    Attributes:
        query: its id.
        text: of the request, shortened.
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
        status: `holds`: the unfavourable end of what is likely is at the target or better; `holds within 2 points`: it
            is within the room of a share, which is less where the base is complete on fewer than a fifth; `missed`: the
            favourable end is below the target; `open`: neither; `too few to say`: fewer than 20 queries.
        value, low, high: the mean and what is likely, as the constraint counts.
        n: how many queries it is about.
        needed: about how many more would settle it; None = it is settled, or more are unlikely to.
        falls_short: whether the mean itself is beyond the room.
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
        """Whether it holds; None = it cannot be said."""
        return {"holds": True, "holds within 2 points": True, "missed": False}.get(self.status)


def fall_short(verdicts: Iterable[ConstraintVerdict]) -> bool:
    """Whether some constraint is missed, so that the default is kept."""
    return any(verdict.falls_short or verdict.met is False for verdict in verdicts)


@dataclass(frozen=True, eq=False, kw_only=True)
class PolicyOutcome:
    """What one policy came to on a dataset. All but `bounds` is of the test split, or of all labels where these decide.

    Attributes:
        policy: as read.
        chosen: what was found better than the default; None where nothing was.
        reason: why the default is kept, as a sentence without its end; empty where something is recommended.
        needed: about how many more labels would do to recommend something, from and to; None = more are unlikely to
            help, or something is recommended.
        answered: whether the labels can say anything of the policy at all.
        taken_from: the stricter policy whose setting `chosen` is; empty where this policy's own limits came to it.
        shipped: the shipped preset that `chosen` is, as `learned/normal`; empty where it is none.
        replaced: the tuned setting that a shipped preset, or the default as it ships, beats in completeness and prompt
            tokens, and that is therefore not recommended.
        settings: how many settings were compared exactly for this policy.
        tried: how many were run because a parameter of theirs breaks the prefix rule.
        bounds: on the tuning set, by text of each constraint the bound that was compared with its target.
        verdicts: of the constraints, without those whose metric applies to no query.
        fixed: the first k items of the base selector's ranking, k tuned by the same policy; None = no k keeps all
            limits (see `limits`, some hold for every policy) and betters the default.
        fixed_reason: why there is no such k, as a sentence without its end; empty where there is one.
        fixed_of_selector: the same of the chosen selector's ranking.
        against: paired comparisons of `chosen` with "defaults", "fixed" and "fixed_of_selector", by that
            key and metric name (completeness, tokens, items, the objective), Holm-corrected over the dataset.
        at_tokens: `chosen` compared with the first n items of the base's ranking at its own prompt tokens;
            None where queries failed.
        ranking: gain by a better ranking: `fixed_of_selector` compared with `fixed`, by metric name.
        heat_maps: around what is chosen.
        slices: sensitivity: one trace per parameter, all others as chosen.
        worst_scope, worst_server: of at least 10 queries each; None where there are fewer than two.
        worse: requests made worse, in order of the dataset.
    """

    policy: Policy
    chosen: SettingResult | None
    reason: str = ""
    needed: tuple[int, int] | None = None
    answered: bool = True
    taken_from: str = ""
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
        """What is recommended: what was found better, unless the queries that are read say that it falls short."""
        return None if fall_short(self.verdicts) else self.chosen


@dataclass(frozen=True, eq=False, kw_only=True)
class DatasetTuning:
    """What tuning found on one dataset.

    Attributes:
        dataset, version, hash: which one.
        items: in the catalog.
        queries: by split, how many were measured: `tuning` and `test`, or `all` where all labels decide.
        of: by split, how many could have been; more where a sample was.
        tokens: name of the token counter.
        results: references and recommendations, measured on all that was asked: the specification's defaults, shipped
            presets, tuned fixed k, everything, and what is recommended.
        traces: fronts and first-n curves of every selector on the tuning set.
        shipped: the shipped presets that competed, by name; the default itself where it is one of them.
        outcomes: one per policy, in the order of the file.
        notes: what a reader must know, as sentences: which parameters broke the prefix rule and how many settings
            were tried instead, that the test split was read once, samples.
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
        """Whether all labels decide, so that no unread split is left."""
        return "test" not in self.queries

    @property
    def default(self) -> SettingResult | None:
        """The setting that is kept where nothing is recommended."""
        return next((result for result in self.results if result.role == DEFAULTS), None)

    def advised(self, outcome: PolicyOutcome) -> SettingResult | None:
        """The advice for a policy: what is recommended, or the default."""
        return outcome.recommended or self.default

    def shortfall(self, outcome: PolicyOutcome) -> float:
        """By how much what is advised is less complete than `learned/normal`, as a share; 0 where it is not, or NaN."""
        advised, reference = self.advised(outcome), self.shipped.get(LEARNED_NORMAL)
        if advised is None or reference is None:
            return 0.0
        completeness = [result.figures.get("completeness") for result in (reference, advised)]
        if completeness[0] is None or completeness[1] is None:
            return 0.0
        gap = completeness[0].value - completeness[1].value
        return gap if gap > SAME else 0.0

    def same_advice(self) -> tuple[tuple[PolicyOutcome, ...], ...]:
        """The outcomes, with those of policies that come to the same advice together, in the order of the first."""

        def advice(outcome: PolicyOutcome) -> object:
            chosen = outcome.chosen
            return outcome.recommended is None, chosen and (chosen.selector, tuple(chosen.values.items()))

        return tuple(map(tuple, group_pairs((advice(outcome), outcome) for outcome in self.outcomes).values()))


@dataclass(frozen=True, eq=False, kw_only=True)
class Tuning:
    """The results of a `ctxbench tune` on all datasets.

    Attributes:
        name, about: of the policy file.
        command: the line that repeats it.
        seed: of random search, resampling and folds.
        embedder: its identity in words.
        datasets: one each; where the file says `together`, the last one is called `together` and has the same values
            for all datasets.
    """

    name: str
    about: str
    command: str
    seed: int
    embedder: str
    datasets: tuple[DatasetTuning, ...]


COMPLETE = parse_metric("completeness")
TUNING, TEST = "tuning", "test"
_SHOWN = 100  # characters of a request in a report


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
        matches = kind == PROBABILITY or (fit.kind, fit.catalog) == (kind, catalog.hash)
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
        return self.fixed


def _fixed_step(call: Any, probability: FloatArray) -> Any:
    """A fitted step with fixed probabilities, which reads no feature."""
    none = np.empty(0)
    return call.with_model(
        _Fixed(columns=(), intercept=0.0, weights=none, low=none, high=none, scale=none, vector=none, fixed=probability)
    )
