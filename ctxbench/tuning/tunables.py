"""Selectors that can be tuned: ranking, cut, expansion and swept parameters.

One pass of expansion at a fixed cut adds a prefix of one ranking per request: the first topN items that reach the
threshold. So it runs once, with the lowest threshold and the largest topN, and every other setting is a shorter prefix.
Several passes cannot be swept.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ctxbench.evaluation.answers import Labels, Slice
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, UserError, raise_first
from ctxbench.model import registry
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.model.candidates import RANKED, SEARCHED, Candidates, Origin, place_among, uncut
from ctxbench.model.strategies import PerType, Step
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.selectors.definition import WHEN, Definition, switched_steps, used_names
from ctxbench.selectors.external import External
from ctxbench.selectors.selector import EXTERNAL_KINDS, Parameter, PipelineSelector, Selector, Value, value_text
from ctxbench.tuning.cut_families import TOP_K, TOP_N, CutFamily, FixedK
from ctxbench.tuning.domains import (
    CutReader,
    Domain,
    domains_of,
    fixed_names,
    parameter_name,
    refining_strategy,
    step_name,
)
from ctxbench.tuning.measures import DifferenceSums, Measure, Pairing
from ctxbench.tuning.policy import SelectorEntry
from ctxbench.tuning.results import FullRanking, QuerySet, ask, rank_with_pipeline
from ctxbench.tuning.setting_lines import (
    MEMORY,
    Counts,
    OutputCache,
    SettingRunner,
    ThresholdLine,
    ThresholdSpan,
    measure_answers,
    tried_parameter,
    value_range,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpansionParameters:
    """The parameters of a selector's expansion that are swept.

    Attributes:
        threshold: name of the parameter of the lowest similarity.
        topN: name of the parameter of the highest number of items per pass; empty if the pipeline fixes it.
        low, high: the range of the threshold.
        topNs: the possible values of topN, rising; one if the pipeline fixes it.
    """

    threshold: str
    topN: str
    low: float
    high: float
    topNs: tuple[int, ...]


def why_not_exact(definition: Definition, values: Mapping[str, Value]) -> str:
    """Why the threshold and topN of a selector's expansion cannot be swept from one run; empty if they can.

    Args:
        definition: of the selector.
        values: checked values that replace its defaults.
    """
    refine = definition.pipeline(definition.with_defaults(values)).refine
    last = refine[-1] if refine else None
    sweep = last.declared("expansion_sweep") if isinstance(last, Step) and last.kind == "expand" else None
    if sweep is None:
        return Message("tuning.expansion-not-last")
    if any(step.expands for step in refine[:-1]):
        return Message("tuning.expansion-twice")
    if sweep.obstacle or parameter_name(_spec_of(definition, values).get(sweep.threshold)):
        return str(sweep.obstacle)
    return Message("tuning.expansion-threshold-fixed", parameter=sweep.threshold)


def _spec_of(definition: Definition, values: Mapping[str, Value]) -> Mapping[str, Any]:
    """The parameters of the expansion as in the definition."""
    return step_name(definition.refining(definition.with_defaults(values))[-1])[1]


def _parameters_of(definition: Definition, values: Mapping[str, Value], call: Any) -> ExpansionParameters:
    spec, sweep = _spec_of(definition, values), call.expansion_sweep
    reader = CutReader(definition=definition, values=definition.with_defaults(values), fixed=(), search={})
    span, counts = reader.span(spec[sweep.threshold]), reader.counts(spec.get(sweep.limit, getattr(call, sweep.limit)))
    return ExpansionParameters(threshold=span.name, topN=counts.name, low=span.low, high=span.high, topNs=counts.values)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExpansionSweep:
    """One setting of a cut, with every setting of the expansion behind it.

    Attributes:
        values: of all fixed parameters, by name.
        parameters: the two swept parameters.
        score: of the added items, best first, shape (n_queries, max_added); minus infinity in the padding.
        values_by_length: by measure, its values with the first 0, 1, ... added items, shape (max_added + 1, n_queries);
            NaN if it does not apply.
        pairing: the base of paired differences; None = no differences.
    """

    values: Mapping[str, Value]
    parameters: ExpansionParameters
    score: FloatArray
    values_by_length: Mapping[Measure, FloatArray]
    pairing: Pairing | None = None

    @classmethod
    def of(
        cls, runner: SettingRunner, values: Mapping[str, Value], *, labels: Labels, measures: Sequence[Measure]
    ) -> ExpansionSweep:
        """Run the selector once, with the lowest threshold and the largest topN.

        Args:
            runner: runs the selector on a batch; runs share their first steps.
            values: checked values that replace the defaults; those of the threshold and topN are ignored.
            labels: of the batch.
            measures: to compute.

        Raises:
            ParameterError: one run is not enough (`why_not_exact`).
        """
        definition = runner.definition
        if reason := why_not_exact(definition, values):
            raise ParameterError(f"selector {definition.name!r}: expansion cannot be swept from one run: {reason}")
        step: Any = definition.pipeline(definition.with_defaults(values)).refine[-1]
        parameters = _parameters_of(definition, values, step.call)
        widest: dict[str, Value] = {parameters.threshold: float(parameters.low)}
        if parameters.topN:
            widest[parameters.topN] = parameters.topNs[-1]
        table = runner.outcome({**values, **widest}).candidates
        position = place_among(table, table.chosen & (table.origin >= Origin.EXPANSION))
        fixed = {name: value for name, value in values.items() if name not in (parameters.threshold, parameters.topN)}
        return cls(
            values=fixed,
            parameters=parameters,
            score=_scores(table, position),
            values_by_length=_by_length(table, position, labels=labels, measures=measures),
            pairing=runner.pairing,
        )

    def lines(self) -> Iterator[ThresholdLine]:
        """Every threshold for each topN, rising."""
        return map(self._line, self.parameters.topNs)

    def _within(self, threshold: float, limit: int) -> IntArray:
        return np.asarray(np.minimum((self.score >= threshold).sum(axis=1), limit).astype(np.int64))

    def _line(self, limit: int) -> ThresholdLine:
        """Sums at the highest threshold, and the changes by every item in order of falling score."""
        parameters, scores = self.parameters, self.score[:, :limit]
        first = self._within(parameters.high, limit)
        query, position = np.nonzero((scores >= parameters.low) & (scores < parameters.high))
        score = scores[query, position]
        by_score = np.argsort(-score, kind="stable")
        query, position, score = query[by_score], position[by_score], score[by_score]
        last = np.flatnonzero(np.append(score[1:] != score[:-1], True)) if len(score) else np.empty(0, np.int64)
        everyone = np.arange(len(self.score))

        def summed(values: FloatArray) -> FloatArray:
            added = np.cumsum(values[position + 1, query] - values[position, query])[last]
            return np.asarray(values[first, everyone].sum() + np.concatenate([[0.0], added]), dtype=np.float64)

        applies = {measure: (~np.isnan(values)).astype(np.float64) for measure, values in self.values_by_length.items()}
        known_values = {measure: np.nan_to_num(values) for measure, values in self.values_by_length.items()}
        amounts = {
            measure: values for measure, values in known_values.items() if measure.metric.declaration.scale != "yes/no"
        }
        above = scores[scores >= parameters.high]

        def paired(measure: Measure, pairing: Pairing) -> DifferenceSums:
            values = self.values_by_length[measure]
            return pairing.line_differences(
                measure,
                values[first, everyone],
                owner=query,
                gain=np.nan_to_num(values[position + 1, query] - values[position, query]),
                stops=last + 1,
            )

        pairs = (
            []
            if self.pairing is None
            else [(measure, self.pairing) for measure in self.pairing.base if measure in applies]
        )
        return ThresholdLine(
            values={**self.values, **({parameters.topN: limit} if parameters.topN else {})},
            axis=parameters.threshold,
            thresholds=np.concatenate([[float(parameters.high)], score[last]]),
            sums={measure: summed(values) for measure, values in known_values.items()},
            n={measure: int(values.any(axis=0).sum()) for measure, values in applies.items()},
            squares={measure: summed(values**2) for measure, values in amounts.items()},
            cubes={measure: summed(values**3) for measure, values in amounts.items()},
            applies={measure: summed(values) for measure, values in applies.items() if (values != values[0]).any()},
            differences={measure: paired(measure, pairing) for measure, pairing in pairs},
            span=(float(parameters.low), float(parameters.high)),
            beyond=(float(above.min()) if len(above) else np.inf, -np.inf),
        )


def _scores(table: Candidates, position: IntArray) -> FloatArray:
    scores = np.full((table.n_requests, int(position.max(initial=-1)) + 1), -np.inf)
    rows = position >= 0
    scores[table.request[rows], position[rows]] = table.score[rows]
    return scores


def _by_length(
    table: Candidates, position: IntArray, *, labels: Labels, measures: Sequence[Measure]
) -> dict[Measure, FloatArray]:
    """The measures with the first 0, 1, ... added items."""
    by_measure: dict[Measure, list[FloatArray]] = {measure: [] for measure in measures}
    ranking = any(measure.reachable for measure in measures)
    for length in range(int(position.max(initial=-1)) + 2):
        shorter = (
            remove_added(table, position >= length)
            if ranking
            else table.select_rows(table.chosen & (position < length))
        )
        for measure, values in measure_answers(shorter, labels, measures).items():
            by_measure[measure].append(values)
    return {measure: np.stack(values) for measure, values in by_measure.items()}


def remove_added(table: Candidates, rows: BoolArray) -> Candidates:
    """The table without some rows of an expansion; those that the search found return to their rank, excluded."""
    before = table.columns.get(SEARCHED, np.full(len(table), np.nan))
    back = rows & ~np.isnan(before)
    reduced = table.exclude(back, "not_expanded").select_rows(~rows | back)
    back, before = back[~rows | back], before[~rows | back]
    return reduced.reordered(
        score=np.where(back, before, reduced.score),
        origin=np.where(back, Origin.SEARCH, reduced.origin),
        tier=np.where(back, RANKED, reduced.tier),
    )


EXTERNAL_CUT = (
    Definition(  # of an external ranking; the range of includeScore depends on its scores, see `with_range_of`
        name="answers",
        about="a ranking of your own, cut by us",
        parameters={
            "topN": Parameter(name="topN", default=5, low=0, high=50),
            "includeScore": Parameter(name="includeScore", default=1.0, low=0.0, high=1.0),
            "margin": Parameter(name="margin", default=1.0, low=0.0, high=1.0),
        },
        spec={
            "retrieve": "everything",
            "refine": [
                {"standard": {"topK": 100, "topN": "$topN", "includeScore": "$includeScore"}},
                {"margin": {"margin": "$margin", "of": "ratio", "at_least": 0, "at_most": 100}},
            ],
        },
        presets={},
        abouts={},
        written={},
    )
)
CUT_NAMES = ("n", *EXTERNAL_CUT.parameters)  # of all cuts of external rankings
_CALLED = {"url": "endpoint"}  # names in messages
MAX_NONPOSITIVE = 0.9  # the highest share of scores of answers that are 0 or less
MAX_LENGTH = 51  # numbers of items of a list that are tried, from 0 on


class ExternalRankings:
    """An external selector whose rankings are cut. It is asked once per query set, since answers may take long.

    The list that a function returns without a ranking counts as its ranking; without scores, by the order alone.

    Attributes:
        name: the name in tables.
        title: the name in messages, with the kind of selector.
        selector: the selector.
        parameters: of its function, by name; empty for a selector that is no function.
        lists: whether an answer had no ranking, so that its list was taken.
    """

    def __init__(
        self,
        selector: Selector,
        written: Collection[str] = ("answers",),
        parameters: Mapping[str, Parameter] | None = None,
    ) -> None:
        """Make an empty store of rankings.

        Args:
            selector: the selector; its processes and connections are closed when it has answered.
            written: the keys of its block in a file; one of them is its kind. Empty for an object of Python.
            parameters: of its function.
        """
        self.name = getattr(selector, "name", type(selector).__name__)
        self._kind = next((kind for kind in EXTERNAL_KINDS if kind in written), "selector")
        self.title = f"{_CALLED.get(self._kind, self._kind)} {self.name!r}"
        self.selector, self.parameters, self.lists = selector, dict(parameters or {}), False
        self._defaults: dict[str, Any] = {name: parameter.default for name, parameter in self.parameters.items()}
        self._rankings: dict[str, FullRanking] = {}
        self._tried = OutputCache(MEMORY)

    def head(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """The values that its function gets; values that are not there are the defaults."""
        return {name: values.get(name, default) for name, default in self._defaults.items()}

    def at(self, values: Mapping[str, Value]) -> Selector:
        """The selector with values of its function's parameters."""
        return self.selector.bound(self.head(values)) if isinstance(self.selector, External) else self.selector

    def of(self, query_set: QuerySet, values: Mapping[str, Value] | None = None) -> FullRanking:
        """Its rankings of a query set, with values of its function's parameters; by default with their defaults.

        Raises:
            InputError: it gives no ranking, or no scores, or fails on queries.
        """
        head = self.head(values or {})
        rankings = self._rankings if head == self.head({}) else self._tried
        key = repr((query_set.dataset.hash, query_set.batch.ids, head))
        if key not in rankings:
            selector = self.at(head)
            with selector if isinstance(selector, External) else nullcontext():
                query, answers = ask(selector, query_set)
            may_list = self._kind in ("callable", "selector")
            if answers.errors or not (may_list or (answers.ranked and answers.scored)):
                source = f"{setting_text(self.title, head)}, {query_set.title}"
                raise InputError([Fault(_why_unusable(source, answers, getattr(selector, "first_unranked", "")))])
            self.lists |= not answers.ranked
            rankings[key] = FullRanking(query, replace(answers, candidates=uncut(answers.candidates), ranked=True))
        return rankings[key]


def _why_unusable(source: str, answers: Slice, unranked: str) -> Message:
    """Why answers cannot be tuned on; `unranked` is the first query whose answer has no ranking."""
    if answers.errors:
        query, error = next(iter(answers.errors.items()))
        counts = {"failed": len(answers.errors), "queries": len(answers.queries)}
        reason = error.removeprefix(f"query {query!r}: ")
        return Message("tuning.answers-failed", answers=source, query=query, reason=reason, **counts)
    if not answers.ranked:
        return Message("tuning.answers-without-ranking", answers=source, query=unranked)
    query = answers.queries[_first_unscored(answers.candidates)]
    return Message("tuning.answers-without-scores", answers=source, query=query)


def _first_unscored(table: Candidates) -> int:
    """The index of the first request without scores; its items have the scores -1, -2, ... in order of the ranking."""
    rows = table.ranked
    scored = table.request[rows & (table.score != -1.0 - place_among(table, rows))]
    return int(np.setdiff1d(table.request[rows], scored)[0])


def setting_text(selector: str, values: Mapping[str, Value]) -> str:
    """A setting in messages: `semantic with contextTopK 20, contextTopN 5`."""
    listed = ", ".join(f"{name} {value_text(value)}" for name, value in values.items())
    return f"{selector} with {listed}" if listed else selector


def _cut_of(answers: Sequence[Slice], size: int, *, lists: bool) -> tuple[Definition, dict[str, tuple[Value, ...]]]:
    """The cut of external rankings, with ranges that suit them, and the numbers of items to try, if not all.

    A list is offered whole by default, and a ranking cut to its first 5 items. Without scores there is only `n`.

    Args:
        answers: on each set of queries.
        size: of the largest catalog: no list is longer.
        lists: whether an answer was a list of the items chosen.
    """
    sizes = [np.bincount(part.candidates.request[part.candidates.ranked]).max(initial=0) for part in answers]
    lengths = (*range(min(int(max(sizes)), MAX_LENGTH)), size)
    if not all(part.scored for part in answers):
        n = Parameter(name="n", default=size, low=0, high=size)
        spec = {"retrieve": "everything", "refine": [{"first": {"n": "$n"}, WHEN: "n"}]}
        return replace(EXTERNAL_CUT, parameters={"n": n}, spec=spec), {"n": lengths}
    scores = [_searched_scores(part) for part in answers]
    above = float(max(math.floor(max([score.max() for score in scores if len(score)], default=0.0)) + 1, 1))
    parameters = dict(EXTERNAL_CUT.parameters)
    parameters["includeScore"] = replace(parameters["includeScore"], default=above, high=above)
    if not lists:
        return replace(EXTERNAL_CUT, parameters=parameters), {}
    parameters["topN"] = replace(parameters["topN"], default=size, high=size)
    return replace(EXTERNAL_CUT, parameters=parameters), {"topN": lengths}


def _searched_scores(answers: Slice) -> FloatArray:
    """The scores of all ranked items."""
    table = answers.candidates
    return np.asarray(table.score[table.ranked])


def unfit_scores(title: str, answers: Slice, query_set: QuerySet) -> tuple[Fault, ...]:
    """The fault that most scores of an external ranking are not positive; empty if there is none."""
    scores = _searched_scores(answers)
    if not answers.scored or not len(scores) or (scores <= 0).mean() <= MAX_NONPOSITIVE:
        return ()
    source, share = f"{title}, {query_set.title}", float((scores <= 0).mean())
    return (Fault(Message("tuning.scores-not-positive", answers=source, share=share)),)


FIRST_N = FixedK("n", range(101))
"""The first n items of a ranking, for every n."""


def _adds_prefix(name: str) -> bool:
    """Whether a refining step is an expansion that can be swept."""
    return bool(getattr(refining_strategy(name), "adds_prefix", False))


@dataclass(frozen=True, eq=False, kw_only=True)
class Tunable:
    """A selector that can be tuned.

    Attributes:
        entry: the entry in the policy file.
        source: the shipped name or the path of its definition; for an external selector, its name.
        definition: its parameters and pipeline; for an external selector, those of the cut of its rankings.
        answers: the rankings of an external selector; None for others.
        start: values of the preset in its name; they replace its defaults.
        size: of an external selector, the size of the largest catalog; 0 = it was not asked yet.
    """

    entry: SelectorEntry
    source: str
    definition: Definition
    answers: ExternalRankings | None = None
    start: Mapping[str, Value] = field(default_factory=dict)
    size: int = 0

    @classmethod
    def of_external(
        cls, selector: Selector, entry: SelectorEntry, tried: Mapping[str, Any], *, written: Collection[str] = ()
    ) -> Tunable:
        """An external selector, whose rankings are cut; with values of its function's parameters that are tried.

        Args:
            selector: of Python, or of a block in a file.
            entry: names it.
            tried: by parameter of its function, what `tried_parameter` takes.
            written: as of `ExternalRankings`.

        Raises:
            UserError: it is no function, the function does not take such a parameter, or its values are wrong.
        """
        function = selector.function if isinstance(selector, External) else None
        raise_first((tried and function is None, Message("tuning.no-function", selector=entry.name, names=[*tried])))
        defaults = {} if function is None else function.defaults(tried)
        pairs = {name: tried_parameter(name, values, defaults.get(name)) for name, values in tried.items()}
        parameters = {name: parameter for name, (parameter, _) in pairs.items()}
        raise_first(*((name in CUT_NAMES, Message("tuning.parameter-of-cut", name=name)) for name in tried))
        return cls(
            entry=entry.model_copy(update={"search": {name: values for name, (_, values) in pairs.items()}}),
            source=entry.name,
            definition=replace(EXTERNAL_CUT, parameters={**parameters, **EXTERNAL_CUT.parameters}),
            answers=ExternalRankings(selector, written, parameters),
        )

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.entry.name

    def values(self, chosen: Mapping[str, Value] | None = None) -> dict[str, Value]:
        """The values of all parameters; chosen values replace those of the file, the preset and the defaults."""
        return self.definition.with_defaults(self.start, self.entry.set, chosen or {})

    def in_force(self, chosen: Mapping[str, Value]) -> dict[str, Value]:
        """The values that have an effect."""
        return self.definition.in_force(self.values(chosen))

    def pipeline(self, chosen: Mapping[str, Value]) -> Pipeline:
        """The whole selector at one setting."""
        return self.definition.pipeline(self.values(chosen))

    def is_valid(self, chosen: Mapping[str, Value]) -> bool:
        """Whether its steps accept the values."""
        try:
            self.pipeline(chosen)
        except UserError:
            return False
        return True

    def at(self, chosen: Mapping[str, Value]) -> Tunable:
        """The same selector, with chosen values of the parameters that are tried in front of its cuts as defaults."""
        return replace(
            self, start={**self.start, **{name: chosen[name] for name in self.tried_heads if name in chosen}}
        )

    def cut_as(self, cut: Definition, values: Mapping[str, Value]) -> Tunable:
        """The same external selector, with the cut of a preset, and its values as defaults."""
        cut_parameters = {name: parameter for name, parameter in cut.parameters.items() if name in CUT_NAMES}
        definition = replace(cut, parameters={**self.definition.parameters, **cut_parameters})
        return replace(
            self, definition=definition, start={name: values[name] for name in cut_parameters if name in values}
        )

    def with_ranges_of(self, query_sets: Sequence[QuerySet]) -> Tunable:
        """The same selector; of an external one, with cuts that suit its rankings of some sets of queries.

        The range of `includeScore` ends above all scores.
        """
        if self.answers is None:
            return self
        rankings = [self.rank(query_set).answers for query_set in query_sets]
        size = self.size or max(len(query_set.dataset.catalog) for query_set in query_sets)
        cut, search = _cut_of(rankings, size, lists=self.answers.lists)
        tried = {name: values for name, values in self.entry.search.items() if name in self.answers.parameters}
        external_parameters = {name: self.definition.parameters[name] for name in self.answers.parameters}
        entry, parameters = (
            self.entry.model_copy(update={"search": {**tried, **search}}),
            {**external_parameters, **cut.parameters},
        )
        start = {name: value for name, value in self.start.items() if name in parameters}
        return replace(self, entry=entry, definition=replace(cut, parameters=parameters), size=size, start=start)

    def rank(
        self,
        query_set: QuerySet,
        chosen: Mapping[str, Value] | None = None,
        memo: MutableMapping[str, Any] | None = None,
    ) -> FullRanking:
        """Its ranking before any cut, with the default and chosen values.

        Args:
            query_set: the queries.
            chosen: values that replace the defaults.
            memo: outputs of steps that are used again; None = those of the query set.

        Raises:
            UserError: it fails, or its rankings lack scores.
        """
        if self.answers is not None:
            return self.answers.of(query_set, self.values(chosen))
        return rank_with_pipeline(self.head(self.pipeline(chosen or {})), query_set, memo)

    def head_key(self, chosen: Mapping[str, Value]) -> str:
        """What decides its ranking before any cut: equal keys mean equal rankings."""
        if self.answers is not None:
            return repr(self.answers.head(self.values(chosen)))
        return self.head(self.pipeline(chosen)).key

    def cut(self, full_ranking: FullRanking, chosen: Mapping[str, Value], query_set: QuerySet) -> Slice:
        """Its answers at one setting."""
        if self.answers is None and self.family is None and not (self.domains or self.first_cut):
            # all steps are behind the search, and may need the analysed request
            selector = PipelineSelector(self.name, self.pipeline(chosen), query_set.resources, query_set.memo)
            return ask(selector, query_set)[1]
        return full_ranking.cut(self.pipeline(chosen).refine[self.first_cut :], query_set)

    def first_items(self, full_ranking: FullRanking, n: int, query_set: QuerySet) -> Slice:
        """The first n items of its ranking."""
        return full_ranking.cut(
            Pipeline.of({"retrieve": "everything", "refine": [{"first": {"n": n}}]}).refine, query_set
        )

    def head(self, pipeline: Pipeline) -> Pipeline:
        """The part of its pipeline before the first cut."""
        return replace(pipeline, refine=pipeline.refine[: self.first_cut])

    @cached_property
    def first_cut(self) -> int:
        """The number of refining steps before the first cut.

        An expansion counts if a rank step orders the added items before the first cut.
        """
        steps, first = self.pipeline({}).refine, 0
        for index, step in enumerate(steps):
            if isinstance(step, PerType) or not (step.kind in ("rank", "expand") or step.declared("itemwise")):
                break
            if (step.kind != "expand" and first == index) or step.kind == "rank":
                first = index + 1
        return first

    @cached_property
    def family(self) -> CutFamily | None:
        """The cuts that are swept exactly; None if they do not offer a prefix of the ranking.

        It does not contain an expansion behind the cuts; see `has_expansion`.
        """
        steps = list(self._refining[self.first_cut :])
        adds_prefix = [_adds_prefix(step_name(step)[0]) for step in steps]
        last = (self.pipeline({}).refine or (None,))[-1]
        if any(adds_prefix[-2:]) and (adds_prefix[-1] or (isinstance(last, Step) and last.kind == "pack")):
            steps = [step for step, is_expansion in zip(steps, adds_prefix, strict=True) if not is_expansion]
        return self._reader.family(steps)

    @property
    def swept_thresholds(self) -> frozenset[str]:
        """The thresholds that are tried at every value at which selections change."""
        return frozenset(part.name for part in self._swept_parts if isinstance(part, ThresholdSpan) and part.swept)

    @cached_property
    def tried_values(self) -> dict[str, tuple[Value, ...]]:
        """The parameters whose settings are run, with their values; empty if there are none.

        With a family, these are the parameters under `search` that are not swept; else all `tuned` parameters that are
        not fixed.
        """
        if self.family is not None or self.domains:
            return {name: values for name, values in self.entry.search.items() if name not in self.swept_parameters}
        definition, values = self.definition, self.values()
        if not definition.searches(values) and definition.search_switch in self._fixed_names:
            return {}
        free = [parameter for name, parameter in definition.parameters.items() if name not in self._fixed_names]
        listed = self.entry.search
        return {
            parameter.name: listed.get(parameter.name, value_range(parameter))
            for parameter in free
            if parameter.name in listed or (parameter.tuned and parameter.name != definition.search_switch)
        }

    @cached_property
    def domains(self) -> tuple[Domain, ...]:
        """The two domains whose cuts are swept in pairs; empty if there are none."""
        if [step_name(step)[0] for step in self._refining[self.first_cut :]] != ["by_domain"]:
            return ()
        try:
            domains = domains_of(
                self.definition, topKs=TOP_K, topNs=TOP_N, fixed=self.entry.set, search=self.entry.search
            )
        except ParameterError:
            return ()  # its cuts cannot be swept, so settings are run
        return domains if len(domains) == 2 else ()

    @cached_property
    def tried_heads(self) -> tuple[str, ...]:
        """The tried parameters, if all of them decide the ranking in front of the cuts alone, and the cuts are swept.

        Then all cuts are swept for each of their settings. Empty if settings of all have to be run.
        """
        if self.family is None or self.has_expansion({}):
            return ()
        parameters, spec = self.definition.parameters, self.definition.spec
        later_names = used_names(self._refining[self.first_cut :]) | {self.definition.search_switch}
        later_names |= {str(name) for _, name in switched_steps(spec.get("refine"), ())}
        later_names |= {name for parameter in parameters.values() for name in parameter.needs}
        is_behind = any(name in later_names or parameters[name].sets for name in self.tried_values)
        return () if is_behind else tuple(self.tried_values)

    def has_expansion(self, chosen: Mapping[str, Value]) -> bool:
        """Whether an expansion adds items behind the prefix of the ranking at this setting."""
        values = self.values(chosen)
        for name, written in map(step_name, self.definition.refining(values)[self.first_cut :]):
            if _adds_prefix(name):
                parameters = {key: values.get(parameter_name(value), value) for key, value in written.items()}
                call = registry.StoredStep(kind="expand", name=name, values=parameters, about={}).build()
                if call is None or not call.off:
                    return True
        return False

    @property
    def _refining(self) -> list[Any]:
        """The refining steps with the values of the file, as in the definition; all cuts of an external selector."""
        return self.definition.refining(self.values()) if self.answers is None else [*self.definition.spec["refine"]]

    def varied_parameters(self, chosen: Mapping[str, Value]) -> tuple[str, ...]:
        """The parameters that tuning varies and that have an effect at a setting, in order."""
        names, values = {*self.swept_parameters, *self.tried_values}, self.values(chosen)
        if self.has_expansion(chosen):
            steps = map(step_name, self.definition.refining(values))
            names |= {
                parameter_name(value) for name, written in steps if _adds_prefix(name) for value in written.values()
            }
        in_force = self.definition.in_force(values, switches=True)
        return tuple(name for name in in_force if name in names and name not in self._fixed_names)

    @cached_property
    def swept_parameters(self) -> frozenset[str]:
        """The parameters of the exact sweep, with fixed ones; empty if there is no sweep."""
        return frozenset({part.name for part in self._swept_parts} - {""})

    @cached_property
    def _swept_parts(self) -> tuple[Counts | ThresholdSpan, ...]:
        """The parameters of the cuts that are swept, of all domains."""
        families = [self.family] if self.family is not None else [domain.family for domain in self.domains]
        return tuple(part for family in families for part in _parameters(family))

    @property
    def n_lines(self) -> int:
        """About how many lines of settings the exact sweep has."""
        counts = math.prod(len(part.values) for part in self._swept_parts if isinstance(part, Counts))
        return counts * max(len(self.swept_thresholds), 1)

    def is_swept(self, chosen: Mapping[str, Value]) -> bool:
        """Whether the exact sweep evaluates a setting: it changes swept parameters only."""
        if (self.family is None and not self.domains) or self.has_expansion(chosen):
            return False
        values, before = self.values(chosen), self.values()
        return all(
            values.get(name) == before.get(name)
            or (parameter.sets and self.swept_parameters.issuperset(parameter.sets))
            for name, parameter in self.definition.parameters.items()
            if name not in self.swept_parameters
        )

    @cached_property
    def _fixed_names(self) -> frozenset[str]:
        """The parameters whose value the file fixes, directly or by a choice."""
        return fixed_names(self.definition, self.entry.set)

    @cached_property
    def _reader(self) -> CutReader:
        return CutReader(
            definition=self.definition, values=self.values(), fixed=self._fixed_names, search=self.entry.search
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ShippedPreset:
    """A shipped preset that competes with tuned settings.

    Attributes:
        name: as in a file, such as `learned/normal`.
        tunable: its selector, without values of the policy file.
        values: of its parameters.
    """

    name: str
    tunable: Tunable
    values: Mapping[str, Value]

    def is_setting_of(self, tunable: Tunable, values: Mapping[str, Value]) -> bool:
        """Whether a selector at a setting is this preset."""
        return tunable.answers is None and tunable.pipeline(values).key == self.tunable.pipeline(self.values).key


def _parameters(family: CutFamily | None) -> Iterator[Counts | ThresholdSpan]:
    """The parameters of a family."""
    if isinstance(family, FixedK):
        yield Counts(family.n, tuple(family.values))
    for part in vars(family).values() if family is not None else ():
        if isinstance(part, Counts | ThresholdSpan):
            yield part
        elif isinstance(part, CutFamily):
            yield from _parameters(part)
