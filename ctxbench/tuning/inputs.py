"""Open the inputs of a tuning, and recommend one of the best settings."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.catalogs.agent_file import LEARNED, is_agent_file, read_agent
from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.comparisons import grouped_estimate
from ctxbench.evaluation.inputs import StepChecks
from ctxbench.evaluation.metrics import evaluate, mean
from ctxbench.io.console import nothing_said
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, UnknownNameError, UserError
from ctxbench.io.files import cache_dir
from ctxbench.io.rows import YamlForm
from ctxbench.model.arrays import FloatArray
from ctxbench.model.labels import Evidence, OfferedItems
from ctxbench.pipelines.pipeline import Pipeline, PipelineError
from ctxbench.search.embedders import Embedder, open_embedder, open_vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import TokenCounter, open_counter
from ctxbench.selectors.definitions import find_definition, is_file
from ctxbench.selectors.definitions import shipped as shipped_names
from ctxbench.selectors.external import external_from_config
from ctxbench.selectors.selector import Parameter, Value, value_text
from ctxbench.tuning.fit_examples import ALL
from ctxbench.tuning.measures import COMPLETENESS, Measure
from ctxbench.tuning.policy import Policy, PolicyFile, SelectorEntry, policy_measures
from ctxbench.tuning.results import (
    EVERYTHING,
    FIRST_ITEMS,
    FRONT,
    PRESETS,
    TEST,
    TOGETHER,
    TUNING,
    MeanGrid,
    QuerySet,
    Trace,
    is_fitted_on,
)
from ctxbench.tuning.search import MIN_QUERIES, REPORTED, BestSetting, Competitor, Optimum, SearchResult
from ctxbench.tuning.tunables import (
    EXTERNAL_CUT,
    FIRST_N,
    ExternalRankings,
    ShippedPreset,
    Tunable,
    searched_scores,
    unfit_scores,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Choice:
    """The choice for a policy: a setting, or why the default is kept.

    Attributes:
        selector: the name of the selector that is recommended; empty where the default is kept.
        setting: its setting; None where the default is kept.
        reason: why the default is kept, as a sentence without its end; empty where something is recommended.
        needed: about how many more labels of the same kinds would do, from and to; None = more are unlikely to help,
            or something is recommended.
        answered: whether the labels can say anything of the policy at all.
        settings: how many were compared.
        taken_from: the stricter policy whose setting it is; empty where it is of this policy's own limits.
    """

    selector: str = ""
    setting: BestSetting | None = None
    reason: str = ""
    needed: tuple[int, int] | None = None
    answered: bool = True
    settings: int = 0
    taken_from: str = ""


def unanswerable(policies: Collection[Policy], labels: Labels) -> dict[str, str]:
    """Find policies that the labels cannot answer, since a metric of theirs applies to no query.

    Args:
        policies: as read.
        labels: of the tuning set.

    Returns:
        What is wrong, by name of the policy; policies that can be answered are left out.
    """
    metrics = dict.fromkeys(measure.metric for measure in policy_measures(policies))
    nothing = np.zeros(0, dtype=np.int64)
    evidence = Evidence(
        judgments=labels.dataset.judgments,
        offered=OfferedItems(start=np.zeros(len(labels.dataset) + 1, dtype=np.int64), item=nothing, origin=nothing),
        rankings=None,
        item_tokens=labels.item_tokens,
        body_tokens=labels.body_tokens,
        kinship=labels.kinship,
        pool=labels.pool,
    )
    missing = {metric for metric, values in evaluate(metrics, evidence).items() if np.isnan(values).all()}
    reasons: dict[str, str] = {}
    for policy in policies:
        for metric in (*policy.metrics, COMPLETENESS.metric):
            if metric in missing:
                message = Message("tuning.metric-applies-nowhere", metric=metric, queries=len(labels.dataset))
                reasons.setdefault(policy.name, message)
    return reasons


def choose(policy: Policy, optima: Mapping[str, Optimum]) -> Choice:
    """Choose the best setting of all selectors; of equal settings, that of the first selector.

    The default is kept if no setting keeps all limits significantly, or if a measure of the policy applies to fewer
    than `MIN_QUERIES` queries. The choice then says how many more labels are needed.

    Args:
        policy: the policy of all optima.
        optima: by name of the selector, in order; each has seen all settings of its selector.
    """
    settings = sum(optimum.settings for optimum in optima.values())
    met = {name: best for name, optimum in optima.items() if (best := optimum.best) is not None}
    reasons = {name: _few_reason(optima[name], best) for name, best in met.items()}
    if enough := {name: optima[name] for name, reason in reasons.items() if not reason}:
        name = _best(enough)
        return Choice(selector=name, setting=met[name], settings=settings)
    if met:
        name = _best({name: optima[name] for name in met})
        return Choice(reason=reasons[name], needed=optima[name].labels_needed(), settings=settings)
    near = {name: nearest for name, optimum in optima.items() if (nearest := optimum.nearest) is not None}
    if near and not _is_unreachable(optima):
        name = min(near, key=lambda selector: optima[selector].shortage)
        reason = _unsure_reason(optima[name], near[name], name)
        return Choice(reason=reason, needed=optima[name].labels_needed(), settings=settings)
    return Choice(reason=_unreachable_reason(policy, optima), settings=settings)


def _is_unreachable(optima: Mapping[str, Optimum]) -> bool:
    """Whether some constraint is kept by no setting even by its mean, so that no number of labels would help."""
    limits = next(iter(optima.values())).limits
    reached = [_reach(optima, index, with_others=False) for index, limit in enumerate(limits) if limit.from_policy]
    return any(reach is None or not reach.enough for reach in reached)


def setting_text(selector: str, values: Mapping[str, Value]) -> str:
    """A setting as in messages: `semantic with contextTopK 20, contextTopN 5`."""
    listed = ", ".join(f"{name} {value_text(value)}" for name, value in values.items())
    return f"{selector} with {listed}" if listed else selector


def _best(optima: Mapping[str, Optimum]) -> str:
    """The selector with the best setting; of equals the first."""
    return reduce(lambda best, name: name if optima[name].beats(optima[best]) else best, optima)


def _few_reason(optimum: Optimum, best: BestSetting) -> str:
    """Which measure applies to too few queries; empty if none does."""
    for measure in optimum.measures:
        if (n := best.n[measure]) < MIN_QUERIES:
            return Message("tuning.too-few-queries", measure=measure, n=n, queries=optimum.queries, needed=MIN_QUERIES)
    return ""


def four_digits(value: float) -> str:
    """A number with four significant digits, without decimals from 1,000 on: `0.2667`, `28,310`."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _unsure_reason(optimum: Optimum, setting: BestSetting, selector: str) -> str:
    """Which limits the closest setting keeps by its mean, but not significantly."""
    missed = []
    for limit in (optimum.limits[index] for index in setting.missed):
        mean = limit.in_text_unit(setting.means[limit.measure])
        bound = setting.bounds.get(limit.text, math.nan)  # of the policy's constraints only
        n = setting.n[limit.measure]
        missed.append(
            Message("tuning.missed-limit", limit=limit.text, mean=four_digits(mean), bound=four_digits(bound), n=n)
            if limit.from_policy
            else limit.text
        )
    return Message("tuning.not-significant", setting=setting_text(selector, setting.rounded), limits=missed)


@dataclass(frozen=True, slots=True)
class _Reach:
    """The best mean of a constraint over all selectors, in the unit of the constraint, and the setting that has it."""

    value: float
    by: str
    enough: bool


def _unreachable_reason(policy: Policy, optima: Mapping[str, Optimum]) -> str:
    """Which constraint no setting meets even by its mean, or which constraints exclude each other."""
    limits = next(iter(optima.values())).limits
    for with_others in (False, True):
        for index, limit in enumerate(limits[: len(policy.constraints)]):
            best = _reach(optima, index, with_others=with_others)
            if best is None and not with_others:
                return Message("tuning.limit-without-queries", limit=limit.text, measure=limit.measure)
            if best is not None and not best.enough:
                value = four_digits(best.value)
                if not with_others:
                    return Message("tuning.limit-out-of-reach", limit=limit.text, value=value, setting=best.by)
                rest = [other.text for other in limits if other != limit]
                return Message("tuning.limits-out-of-reach", limit=limit.text, rest=rest, value=value, setting=best.by)
    return Message("tuning.no-better-setting", objective=policy.objective, limits=[limit.text for limit in limits])


def _reach(optima: Mapping[str, Optimum], index: int, *, with_others: bool) -> _Reach | None:
    """The best mean over all selectors, of equals that of the first; None if there is none."""
    best: _Reach | None = None
    for name, optimum in optima.items():
        limit, setting = optimum.limits[index], optimum.best_means(index)[1 if with_others else 0]
        if setting is not None:
            mean = setting.means[limit.measure]
            value = limit.in_text_unit(mean)
            if best is None or limit.sign * value > limit.sign * best.value:
                best = _Reach(value, setting_text(name, setting.rounded), bool(limit.is_reached(np.array([mean]))[0]))
    return best


POINTS = 40  # of a trace over one parameter, at most
RUNS = 6  # of a trace whose settings have to be run
MAP_CELLS = 12  # of a heat map along either axis, at most
MAPS = 6  # pairs of parameters that heat maps are drawn of; of more parameters only neighbours are paired
FIRST = (*range(21), 25, 30, 40, 50)  # items of the curve of a fixed number of items
HEAT_METRICS = ("completeness", "tokens")


def front_trace(result: SearchResult, *, level: float) -> Trace:
    """All settings that no other beats in prompt tokens and completeness; charts draw fewer of them."""
    kind = FRONT if result.settings or result.tried else PRESETS
    return trace(result.competitor, f"{result.competitor.name}{kind}", result.front.values, level=level)


def first_trace(competitor: Competitor, *, level: float) -> Trace:
    """Means and intervals of the first n items of the ranking."""
    return trace(
        competitor,
        f"{competitor.name}{FIRST_ITEMS}",
        [{"n": n} for n in FIRST],
        level=level,
        by_query=partial(FIRST_N.by_query, competitor.rankings),
    )


def parameter_traces(competitor: Competitor, chosen: Mapping[str, Value], *, level: float) -> tuple[Trace, ...]:
    """How means change with one parameter, all others as chosen."""
    return tuple(
        trace(competitor, parameter.name, [{**chosen, parameter.name: value} for value in values], level=level)
        for parameter, values in _varied_values(
            competitor, chosen, POINTS if competitor.tunable.is_swept(chosen) else RUNS
        )
    )


def heat_maps(competitor: Competitor, chosen: Mapping[str, Value]) -> tuple[MeanGrid, ...]:
    """Heat maps over pairs of swept parameters; none where settings would have to be run."""
    varied = [
        pair
        for pair in _varied_values(competitor, chosen, MAP_CELLS)
        if pair[0].name in competitor.tunable.swept_parameters
    ]
    if not competitor.tunable.is_swept(chosen):
        return ()
    pairs = list(itertools.combinations(varied, 2))
    if len(pairs) > MAPS:
        pairs = list(itertools.pairwise(varied))[:MAPS]
    maps = []
    for (y, ys), (x, xs) in pairs:
        rows = [[competitor.by_query({**chosen, x.name: at, y.name: of}) for at in xs] for of in ys]
        maps.append(
            MeanGrid(
                x=x.name,
                y=y.name,
                xs=xs,
                ys=ys,
                means={
                    str(measure): np.array([[mean(cell[measure]).value for cell in row] for row in rows])
                    for measure in REPORTED
                    if str(measure) in HEAT_METRICS
                },
            )
        )
    return tuple(maps)


def _varied_values(
    competitor: Competitor, chosen: Mapping[str, Value], max_values: int
) -> list[tuple[Parameter, tuple[Value, ...]]]:
    """The numeric parameters that tuning varies with an effect at a setting, with at most so many values each."""
    values, varied = competitor.tunable.values(chosen), []
    for name in competitor.tunable.varied_parameters(chosen):
        value = values[name]
        if not isinstance(value, bool | str):
            parameter, listed = (
                competitor.tunable.definition.parameters[name],
                competitor.tunable.entry.search.get(name),
            )
            tried = _spaced_values(parameter, value, max_values) if listed is None else tuple(sorted({*listed, value}))
            varied.append((parameter, tuple(at for at in tried if competitor.tunable.is_valid({**chosen, name: at}))))
    return varied


def _spaced_values(parameter: Parameter, value: float, max_values: int) -> tuple[Value, ...]:
    """Values over the range of a parameter, denser below, where more changes; that which is chosen among them."""
    low, high = parameter.low, parameter.high
    steps = low + (high - low) * np.linspace(0.0, 1.0, max_values - 1) ** 2
    if isinstance(parameter.checked(value), int):
        return tuple(sorted({*np.rint(steps).astype(np.int64).tolist(), int(value)}))
    return tuple(sorted({*np.round(steps, 4).tolist(), float(value)}))


def trace(
    competitor: Competitor,
    name: str,
    settings: Sequence[Mapping[str, Value]],
    *,
    level: float,
    by_query: Callable[[Mapping[str, Value]], Mapping[Measure, FloatArray]] | None = None,
) -> Trace:
    """Means and intervals of some settings on the tuning split; `by_query` gives values in place of the competitor."""
    group, values_by_setting = competitor.query_set.group, list(map(by_query or competitor.by_query, settings))
    estimates = {
        str(measure): [
            grouped_estimate(values[measure], group, scale=measure.metric.declaration.scale, level=level)  # type: ignore[arg-type]
            for values in values_by_setting
        ]
        for measure in REPORTED
    }
    return Trace(
        name=name,
        settings=tuple(dict(values) for values in settings),
        means={metric: np.array([estimate.value for estimate in row]) for metric, row in estimates.items()},
        low={metric: np.array([estimate.interval.low for estimate in row]) for metric, row in estimates.items()},
        high={metric: np.array([estimate.interval.high for estimate in row]) for metric, row in estimates.items()},
    )


def read_tunables(
    file: PolicyFile, rankings: Mapping[str, ExternalRankings] | None = None
) -> tuple[tuple[Tunable, ...], list[Fault]]:
    """Read the selectors of a policy file.

    Args:
        file: as read.
        rankings: by name, the rankings of external selectors that were opened before and are not asked again.

    Returns:
        The selectors that can be tuned, and what is wrong with the others, by line.
    """
    form = YamlForm(file.path, file.source.lines, [])
    tunables = [
        form.attempt(partial(_read_checked, entry, file, rankings or {}), "selectors", index)
        for index, entry in enumerate(file.selectors)
    ]
    return tuple(tunable for tunable in tunables if tunable is not None), form.faults


def _read(entry: SelectorEntry, base: Path, rankings: Mapping[str, ExternalRankings]) -> Tunable:
    external, folder = entry.external, base
    if entry.selector and is_agent_file(base / entry.selector):
        external, folder = read_agent(base / entry.selector).external, (base / entry.selector).parent
    if external:
        earlier = rankings.get(entry.name)
        answers = earlier or ExternalRankings(
            external_from_config({**external, "name": entry.name}, base=folder), external
        )
        return Tunable(entry=entry, source=entry.name, definition=EXTERNAL_CUT, answers=answers)
    definition, preset = find_definition(entry.selector, base=base)
    if preset is not None and preset not in definition.presets:
        raise UnknownNameError("preset", preset, definition.presets, where=f" of selector {definition.name!r}")
    source = entry.selector if preset is None else entry.selector.removesuffix(f"/{preset}")
    return Tunable(
        entry=entry,
        source=source,
        definition=definition,
        start=definition.presets[preset] if preset is not None else {},
    )


def with_range_of(tunable: Tunable, query_sets: Sequence[QuerySet]) -> Tunable:
    """The same selector; for answers, the range of includeScore ends above all scores, so that it can include nothing.

    Args:
        tunable: a selector.
        query_sets: of all datasets.
    """
    if tunable.answers is None:
        return tunable
    scores = [searched_scores(tunable.answers.of(query_set).answers) for query_set in query_sets]
    highest = max([float(score.max()) for score in scores if len(score)], default=0.0)
    if highest < 1:
        return tunable
    above = float(math.floor(highest) + 1)
    wider = replace(EXTERNAL_CUT.parameters["includeScore"], default=above, high=above)
    return replace(tunable, definition=replace(EXTERNAL_CUT, parameters={**EXTERNAL_CUT.parameters, wider.name: wider}))


def _unsuitable(tunable: Tunable) -> Iterator[tuple[str, Sequence[str | int]]]:
    """What is wrong with each value that the file gives a selector, taken alone."""
    written: dict[tuple[str | int, ...], Any] = {("set", name): value for name, value in tunable.entry.set.items()}
    for name, values in tunable.entry.search.items():
        written |= {("search", name, index): value for index, value in enumerate(values)}
    reported = set()
    for where, value in written.items():
        try:
            tunable.definition.checked(str(where[1]), value)
        except ParameterError as error:
            if (where[:2], str(error)) not in reported:  # of an unknown parameter every value would be wrong
                yield str(error), where
            reported.add((where[:2], str(error)))


def _read_checked(entry: SelectorEntry, file: PolicyFile, rankings: Mapping[str, ExternalRankings]) -> Tunable:
    """A selector with values as its parameters keep them: 1 is 1.0 where decimals are allowed.

    Raises:
        UserError: it is unknown or broken, or a value of it is wrong or without effect.
    """
    tunable = _read(entry, file.base, rankings)
    if wrong := list(_unsuitable(tunable)) or list(_without_effect(tunable)):
        raise InputError([file.entry_fault(entry.name, message, *where) for message, where in wrong])
    check = tunable.definition.checked
    written = {name: check(name, value) for name, value in tunable.entry.set.items()}
    search = {name: tuple(check(name, value) for value in values) for name, values in tunable.entry.search.items()}
    return replace(tunable, entry=tunable.entry.model_copy(update={"set": written, "search": search}))


def _without_effect(tunable: Tunable) -> Iterator[tuple[str, Sequence[str | int]]]:
    """Values that the file gives a selector and that have no effect."""
    for name in tunable.entry.search:
        if name in tunable.swept_thresholds:
            yield Message("tuning.swept-anyway", parameter=name), ("search", name)
        for index, value in enumerate(tunable.entry.search[name]):
            try:
                tunable.pipeline({name: value})
            except PipelineError as error:
                yield from ((fault.message, ("search", name, index)) for fault in error.faults)
    for name, value in tunable.entry.set.items():
        if idle := tunable.definition.idle(name, tunable.values()):
            yield f"{name} {value!r}: {idle}", ("set", name)


MIN_LABELS = 400  # queries in need over both splits, below which all labels decide


@dataclass(frozen=True, eq=False, kw_only=True)
class TuningDataset:
    """A dataset that is tuned on.

    Attributes:
        dataset: whole.
        query_sets: by split, the queries that policies are about, or a sample of them: `tuning` and `test`, or `all`
            where all labels decide.
        of: by split, how many there are to sample from.
        left_out: by name of a competitor why it cannot compete here, as a sentence without its end.
        unanswered: by name of a policy what the labels cannot say, likewise.
        empty: names of competitors outside ctxbench that rank nothing for any query.
        named: the name or folder that opens it.
    """

    dataset: Dataset
    query_sets: Mapping[str, QuerySet]
    of: Mapping[str, int]
    left_out: Mapping[str, str] = field(default_factory=dict)
    unanswered: Mapping[str, str] = field(default_factory=dict)
    empty: tuple[str, ...] = ()
    named: str = ""

    @property
    def tuning_set(self) -> QuerySet:
        """The queries that settings are chosen on."""
        return self.query_sets.get(ALL) or self.query_sets[TUNING]

    @property
    def evaluation_set(self) -> QuerySet:
        """The queries that figures are of: the test split, or the tuning set where all labels decide."""
        return self.query_sets.get(ALL) or self.query_sets[TEST]


@dataclass(frozen=True, eq=False, kw_only=True)
class TuningInputs:
    """The checked inputs of tuning; nothing is embedded yet and no model is loaded.

    Attributes:
        file: the policies.
        tunables: the competitors; the first is the base.
        shipped: the presets of `learned`, and of the shipped selectors that compete.
        datasets: in order.
        embedder, counter: not loaded yet.
    """

    file: PolicyFile
    tunables: tuple[Tunable, ...]
    datasets: tuple[TuningDataset, ...]
    embedder: Embedder
    counter: TokenCounter
    shipped: tuple[ShippedPreset, ...] = ()

    def tunable(self, name: str) -> Tunable:
        """The selector of a name that results use: one of the file, or one whose presets compete."""
        competitors = (*self.tunables, *(preset.tunable for preset in self.shipped))
        return next(tunable for tunable in competitors if tunable.name == name)


def open_tuning(
    file: PolicyFile,
    datasets: Sequence[str],
    *,
    notify: Callable[[str], None] = nothing_said,
    progress: Callable[[int, int], None] | None = None,
    open_one: Callable[..., Dataset] = open_dataset,
    rankings: Mapping[str, ExternalRankings] | None = None,
) -> TuningInputs:
    """Open everything that tuning needs.

    Args:
        file: as read.
        datasets: names or folders.
        notify: called with a message about what takes a moment.
        progress: called with how many of how many texts are embedded, later.
        open_one: opens a dataset, called as `open_dataset(name, base=..., notify=...)`.
        rankings: as for `read_tunables`.

    Raises:
        InputError: a dataset, selector, embedder or token counter is unknown or broken, no query of a dataset is
            labelled, the base does not suit one, a step has seen its test split, or answers have no ranking with
            scores; all faults at once.
    """
    tunables, faults = read_tunables(file, rankings)
    shipped = tuple(_shipped_presets(file, tunables))
    in_file, elsewhere = YamlForm(file.path, file.source.lines, faults), YamlForm(None, {}, faults)
    embedder = in_file.attempt(lambda: open_embedder(file.embedder), "embedder")
    counter = in_file.attempt(lambda: open_counter(file.tokens, cache=cache_dir()), "tokens")
    resources = None
    if embedder is not None and counter is not None:  # one for all, as datasets share catalogs
        resources = LocalResources(open_vectors(embedder, progress=progress), counter)
    by_name: dict[str, TuningDataset] = {}
    for reference in datasets:
        dataset = elsewhere.attempt(partial(open_one, reference, base=Path(), notify=notify))
        if dataset is None or resources is None:
            continue
        if dataset.name in by_name:
            elsewhere.fault(Message("tuning.dataset-twice", dataset=dataset.name))
            continue
        opened = elsewhere.attempt(partial(_opened, dataset, file, resources, named=reference))
        if opened is not None:
            left_out, wrong = _check_suited(file, tunables, opened)
            left_out |= _unsuited_presets(file, tunables, shipped, opened)
            by_name[dataset.name] = replace(
                opened,
                left_out=left_out,
                unanswered=unanswerable(file.policies.values(), opened.tuning_set.labels),
                empty=() if wrong else tuple(_ranks_nothing(tunables, opened)),
            )
            faults += wrong
    faults += _check_names(file, tunables, by_name)
    if faults or embedder is None or counter is None:
        file_faults = sorted((fault for fault in faults if fault.path == file.path), key=lambda fault: fault.line)
        raise InputError([*dict.fromkeys([*file_faults, *(fault for fault in faults if fault.path != file.path)])])
    query_sets = [query_set for opened in by_name.values() for query_set in opened.query_sets.values()]
    tunables = tuple(with_range_of(tunable, query_sets) for tunable in tunables)
    return TuningInputs(
        file=file,
        tunables=tunables,
        datasets=tuple(by_name.values()),
        embedder=embedder,
        counter=counter,
        shipped=shipped,
    )


def _shipped_presets(file: PolicyFile, tunables: Sequence[Tunable]) -> Iterator[ShippedPreset]:
    """The presets of the shipped selectors that are tuned, and of `learned`, each as it ships."""
    sources = {tunable: _shipped_source(tunable, file.base) for tunable in tunables}
    for source in dict.fromkeys([*filter(None, sources.values()), LEARNED]):
        shipped, _ = find_definition(source)
        name = f"{source} as shipped" if source in {tunable.name for tunable in tunables} else source
        as_shipped = Tunable(entry=SelectorEntry(name=name, selector=source), source=source, definition=shipped)
        tunable = next(
            (
                competitor
                for competitor in tunables
                if sources[competitor] == competitor.source == source
                and not (competitor.start or competitor.entry.set or competitor.entry.fit)
            ),
            as_shipped,
        )
        for preset, values in shipped.presets.items():
            yield ShippedPreset(name=f"{source}/{preset}", tunable=tunable, values=values)


def _shipped_source(tunable: Tunable, base: Path) -> str:
    """The shipped selector that a selector of the file is, itself or by an agent file; empty where it is none."""
    source = tunable.source
    if tunable.answers is None and is_file(source) and is_agent_file(base / source):
        agent = read_agent(base / source)
        source = "" if agent.presets is not None else agent.selector.partition("/")[0]
    return source if tunable.answers is None and source in shipped_names() else ""


def _unsuited_presets(
    file: PolicyFile, tunables: Sequence[Tunable], shipped: Sequence[ShippedPreset], opened: TuningDataset
) -> dict[str, str]:
    """Why shipped presets cannot compete on a dataset, by the name of their selector."""
    extra = dict.fromkeys(preset.tunable for preset in shipped if preset.tunable not in tunables)
    reasons = {}
    for tunable in extra:
        left_out, wrong = _check_suited(file, [tunable], opened)
        if messages := [*left_out.values(), *(fault.message for fault in wrong)]:
            reasons[tunable.name] = "; ".join(messages)
    return reasons


def _opened(dataset: Dataset, file: PolicyFile, resources: LocalResources, *, named: str) -> TuningDataset:
    """Both splits of a dataset, or all its labels in one where they are few, or where there are no two splits.

    Queries that have forbidden items and else no full labels are among them where a policy is about these.

    Args:
        dataset, file, resources: what is tuned.
        named: the name or folder that opens the dataset.

    Raises:
        InputError: no query is labelled, or a split that was asked for is not there.
    """
    judged = {split: dataset.split(split).judged() for split in (TUNING, TEST) if split in dataset.split_names}
    missing = [split for split in (TUNING, TEST) if not len(judged.get(split, ()))]
    if file.labels == "split" and missing:
        command = shlex.join(["ctxbench", "data", "split", named])
        message = Message("tuning.split-without-labels", dataset=dataset.name, splits=missing, command=command)
        raise InputError([file.fault(message, "labels")])
    in_need = sum(not query.needs_nothing for part in judged.values() for query in part.queries)
    if not missing and (file.labels == "split" or (not file.labels and in_need >= MIN_LABELS)):
        by_split = {split: dataset.split(split) for split in judged}
    else:
        splits = set(judged) if not missing else {None, *dataset.split_names}
        by_split = {ALL: dataset.take(query.id for query in dataset.queries if query.split in splits)}
    has_partial = any(measure.metric.declaration.partial for measure in policy_measures(file.policies.values()))
    parts = {split: part.measured() if has_partial else part.judged() for split, part in by_split.items()}
    item_tokens = resources.tokens(dataset.catalog)
    query_sets = {}
    for split, part in parts.items():
        if not len(part):
            command = shlex.join(["ctxbench", "data", "label", named])
            raise InputError([Fault(Message("tuning.dataset-unlabelled", dataset=dataset.name, command=command))])
        drawn = select_queries(part, sample=file.sample, seed=file.seed)
        query_sets[split] = QuerySet(drawn, split, item_tokens, resources)
    return TuningDataset(
        dataset=dataset, query_sets=query_sets, of={split: len(part) for split, part in parts.items()}, named=named
    )


def _check_suited(
    file: PolicyFile, tunables: Sequence[Tunable], opened: TuningDataset
) -> tuple[dict[str, str], list[Fault]]:
    """Why selectors do not suit a dataset, by name; and what is wrong with those that do.

    A base that does not suit the dataset is a fault, since all others are compared with it.
    """
    checks = StepChecks(opened.tuning_set.resources)
    faults: list[Fault] = []
    left_out: dict[str, str] = {}
    for index, tunable in enumerate(tunables):
        if tunable.answers is not None:
            faults += [
                file.entry_fault(tunable.name, fault.message)
                for query_set in opened.query_sets.values()
                for fault in _unusable(tunable.answers, query_set)
            ]
            continue
        wrong: list[str] = []
        try:
            pipeline = tunable.pipeline({})
            messages = checks.faults(pipeline, opened.tuning_set.dataset)
            if not pipeline.ranks:
                wrong.append(Message("tuning.nothing-to-cut"))
            wrong += _leaks(tunable, pipeline, opened)
        except UserError as error:
            messages = [str(error)]
        if messages and index:
            left_out[tunable.name] = "; ".join(messages)
        else:
            wrong += messages
        dataset = opened.dataset.name
        faults += [
            file.entry_fault(
                tunable.name,
                Message("tuning.selector-unsuited", selector=tunable.name, dataset=dataset, reason=reason),
            )
            for reason in wrong
        ]
    return left_out, faults


def _unusable(rankings: ExternalRankings, query_set: QuerySet) -> tuple[Fault, ...]:
    """What is wrong with external rankings; they are only read, and compared with no label."""
    try:
        answers = rankings.of(query_set).answers
    except InputError as error:
        return error.faults
    return unfit_scores(rankings.title, answers, query_set)


def _ranks_nothing(tunables: Sequence[Tunable], opened: TuningDataset) -> Iterator[str]:
    """The names of external selectors that rank nothing for any query."""
    for tunable in tunables:
        rankings = tunable.answers
        tables = (
            []
            if rankings is None
            else [rankings.of(query_set).answers.candidates for query_set in opened.query_sets.values()]
        )
        if rankings is not None and not any(
            table.ranked.any() for table in tables
        ):  # what is always offered is none of its own
            yield tunable.name


def _leaks(tunable: Tunable, pipeline: Pipeline, opened: TuningDataset) -> Iterator[str]:
    """Steps that were fitted on the queries that they are measured on, so that figures would be too good."""
    tuning_set = opened.tuning_set
    if TEST in opened.query_sets and is_fitted_on(pipeline, opened.query_sets[TEST]):
        yield Message("tuning.fitted-on-test", arguments=shlex.join([opened.named, "--split", "tuning"]))
    elif is_fitted_on(replace(pipeline, refine=pipeline.refine[tunable.first_cut :]), tuning_set):
        yield Message("tuning.fitted-behind-cut")
    elif is_fitted_on(pipeline, tuning_set) and (tunable.tried_values or tunable.has_expansion({})):
        yield Message("tuning.fitted-and-run", parameters=tunable.tried_values or ["expansion"])


def _check_names(
    file: PolicyFile, tunables: Sequence[Tunable], datasets: Mapping[str, TuningDataset]
) -> Iterator[Fault]:
    """Names that reports use themselves, and `together` without a selector that can be swept."""
    if EVERYTHING in file.policies:
        yield file.fault(Message("tuning.reserved-policy-name", name=EVERYTHING), "policies", EVERYTHING)
    if file.together and len(datasets) > 1:
        if TOGETHER in datasets:
            yield file.fault(Message("tuning.reserved-dataset-name", name=TOGETHER), "together")
        if tunables and not any(tunable.family is not None and not tunable.has_expansion({}) for tunable in tunables):
            yield file.fault(Message("tuning.together-needs-sweep"), "together")
