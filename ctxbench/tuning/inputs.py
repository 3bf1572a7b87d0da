"""Open and check the inputs of tuning, choose the best setting, and compute traces and heat maps around it."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
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
from ctxbench.evaluation.statistics import Estimate
from ctxbench.io.console import nothing_said
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, UserError, check_known
from ctxbench.io.files import cache_dir
from ctxbench.io.rows import YamlForm
from ctxbench.io.workers import OptionalPool
from ctxbench.model.arrays import Evidence, FloatArray, IntArray, OfferedItems
from ctxbench.pipelines.pipeline import Pipeline, PipelineError
from ctxbench.search.embedders import Embedder, open_embedder, open_vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import TokenCounter, open_counter
from ctxbench.selectors.definitions import find_definition, is_file, shipped as shipped_names
from ctxbench.selectors.external import external_from_config
from ctxbench.selectors.selector import Parameter, Value
from ctxbench.tuning.domains import DomainPair
from ctxbench.tuning.fit_examples import ALL
from ctxbench.tuning.measures import COMPLETENESS, TOKENS, Measure
from ctxbench.tuning.policy import Policy, PolicyFile, SelectorEntry, Ties, policy_measures
from ctxbench.tuning.rankings import publish, published
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
from ctxbench.tuning.search import (
    DEFAULT,
    MIN_QUERIES,
    REPORTED,
    BestSetting,
    Competitor,
    Optimum,
    SearchResult,
    Setting,
    labels_to_confirm,
)
from ctxbench.tuning.tunables import FIRST_N, ExternalRankings, ShippedPreset, Tunable, setting_text, unfit_scores


@dataclass(frozen=True, eq=False, kw_only=True)
class Choice:
    """The choice for a policy: a setting, or the reason to keep the default.

    Attributes:
        selector: the name of the chosen selector; empty if the default is kept.
        setting: the chosen setting; None if the default is kept.
        reason: why the default is kept, without a full stop; empty if a setting is chosen.
        needed: about how many more labels of the same kinds would allow a choice, from and to; None = more are unlikely
            to help, or a setting is chosen.
        answered: whether the metrics of the policy apply to any label.
        settings: how many settings were compared.
        taken_from: the stricter policy whose setting it is; empty if it is the best by the limits of this policy.
        tied_with: the selector that is better by the objective, but not significantly, so that the base's selector is
            chosen, or its default kept; empty if there is none.
        base: what the base's selector has for the policy, if another one is chosen: its best setting, or its default
            (no values); None if it has nothing that keeps the policy.
    """

    selector: str = ""
    setting: BestSetting | None = None
    reason: str = ""
    needed: tuple[int, int] | None = None
    answered: bool = True
    settings: int = 0
    taken_from: str = ""
    tied_with: str = ""
    base: BestSetting | None = None


def unanswerable(policies: Collection[Policy], labels: Labels) -> dict[str, str]:
    """Find policies with a metric that applies to no query.

    Args:
        policies: to check.
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
    first = {
        policy.name: next((metric for metric in (*policy.metrics, COMPLETENESS.metric) if metric in missing), None)
        for policy in policies
    }
    return {
        name: Message("tuning.metric-applies-nowhere", metric=metric, queries=len(labels.dataset))
        for name, metric in first.items()
        if metric is not None
    }


def choose(policy: Policy, optima: Mapping[str, Optimum], ties: Ties[Setting] | None = None) -> Choice:
    """Choose the best setting of all selectors; of equal settings, that of the first selector.

    If another selector than the base's has the best setting, but its objective is not significantly better than that of
    the best setting of the base's selector, this is chosen. If there is none, the default is kept in its place where
    the objective is maximised. (Where it is minimised, this made nothing safer, and with 25 labels halved what was
    saved.)

    The default is kept if no setting keeps all limits significantly, or if a measure of the policy applies to fewer
    than `MIN_QUERIES` queries. The choice then says how many more labels are needed.

    Args:
        policy: the policy of all optima.
        optima: by name of the selector, in order; each has seen all settings of its selector.
        ties: compares the settings of two selectors; None = only equal ones are ties.
    """
    settings = sum(optimum.settings for optimum in optima.values())
    met = {name: best for name, optimum in optima.items() if (best := optimum.best) is not None}
    reasons = {name: _few_reason(optima[name], best) for name, best in met.items()}
    if enough := {name: optima[name] for name, reason in reasons.items() if not reason}:
        name = _best(enough)
        choice = Choice(selector=name, setting=met[name], settings=settings)
        return choice if ties is None or name == ties.base else _without_tie(policy, choice, optima, ties)
    if met:
        name = _best({name: optima[name] for name in met})
        return Choice(reason=reasons[name], needed=optima[name].labels_needed(), settings=settings)
    near = {name: nearest for name, optimum in optima.items() if (nearest := optimum.nearest) is not None}
    if near and not _is_unreachable(optima):
        name = min(near, key=lambda selector: optima[selector].shortage)
        reason = _unsure_reason(optima[name], near[name], name)
        return Choice(reason=reason, needed=optima[name].labels_needed(), settings=settings)
    return Choice(reason=_unreachable_reason(policy, optima), settings=settings)


def _without_tie(policy: Policy, choice: Choice, optima: Mapping[str, Optimum], ties: Ties[Setting]) -> Choice:
    """The choice of another selector than the base's, or that of the base's if they are tied."""
    optimum = optima.get(ties.base)
    if optimum is None or choice.setting is None:
        return choice
    best = optimum.best
    if best is not None and _few_reason(optimum, best):
        best = None
    if best is None and (policy.minimise or math.isnan(optimum.to_beat)):
        return choice
    settings = (choice.selector, choice.setting.rounded), (ties.base, (best or DEFAULT).rounded)
    choice = replace(choice, base=best or DEFAULT)
    if ties.is_better(policy, *settings):
        return choice
    n_labels = labels_to_confirm(*ties.gain(policy, *settings), optima[choice.selector].queries)
    return tied_choice(policy, replace(choice, needed=n_labels), ties.base)


def tied_choice(policy: Policy, choice: Choice, base: str) -> Choice:
    """The choice of the base's selector in place of another one that is not significantly better.

    Args:
        policy: the policy.
        choice: the other one, with what the base's selector has.
        base: the name of the base's selector.
    """
    tied = Choice(settings=choice.settings, tied_with=choice.selector)
    if choice.base is not DEFAULT:
        return replace(tied, selector=base, setting=choice.base)
    text = setting_text(choice.selector, {} if choice.setting is None else choice.setting.rounded)
    reason = Message("tuning.tied-with-default", setting=text, objective=policy.objective)
    return replace(tied, reason=reason, needed=choice.needed)


def _is_unreachable(optima: Mapping[str, Optimum]) -> bool:
    """Whether no setting keeps some constraint even by its mean, so more labels would not help."""
    limits = next(iter(optima.values())).limits
    reached = [_reach(optima, index, with_others=False) for index, limit in enumerate(limits) if limit.from_policy]
    return any(reach is None or not reach[2] for reach in reached)


def _best(optima: Mapping[str, Optimum]) -> str:
    """The selector with the best setting; of equal settings, the first."""
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


def _unreachable_reason(policy: Policy, optima: Mapping[str, Optimum]) -> str:
    """Which constraint no setting meets even by its mean, or which constraints exclude each other."""
    limits = next(iter(optima.values())).limits
    for with_others in (False, True):
        for index, limit in enumerate(limits[: len(policy.constraints)]):
            best = _reach(optima, index, with_others=with_others)
            if best is None and not with_others:
                return Message("tuning.limit-without-queries", limit=limit.text, measure=limit.measure)
            if best is not None and not best[2]:
                values = {"limit": limit.text, "value": four_digits(best[0]), "setting": best[1]}
                if not with_others:
                    return Message("tuning.limit-out-of-reach", **values)
                rest = [compared.text for compared in limits if compared != limit]
                return Message("tuning.limits-out-of-reach", **values, rest=rest)
    return Message("tuning.no-better-setting", objective=policy.objective, limits=[limit.text for limit in limits])


def _reach(optima: Mapping[str, Optimum], index: int, *, with_others: bool) -> tuple[float, str, bool] | None:
    """The best mean of a constraint over all selectors; of equal means, that of the first.

    Args:
        optima: by name of the selector.
        index: of the constraint.
        with_others: only of settings that keep the other limits.

    Returns:
        The mean in the unit of the constraint, the setting, and whether it is enough; None if there is no mean.
    """
    best: tuple[float, str, bool] | None = None
    for name, optimum in optima.items():
        limit, setting = optimum.limits[index], optimum.best_means(index)[1 if with_others else 0]
        if setting is not None:
            mean = setting.means[limit.measure]
            value = limit.in_text_unit(mean)
            if best is None or limit.sign * value > limit.sign * best[0]:
                best = value, setting_text(name, setting.rounded), bool(limit.is_reached(np.array([mean]))[0])
    return best


POINTS = 40  # most points of a trace over one parameter
RUNS = 6  # most points of a trace if settings have to be run
MAP_CELLS = 12  # most cells of a heat map along one axis
_CHUNK = 32  # settings of a front that a worker takes at once
MAPS = 6  # most heat maps; with more pairs of parameters, only neighbours are paired
FIRST = (*range(21), 25, 30, 40, 50)  # numbers of items of the first-n curve


def front_traces(results: Sequence[SearchResult], *, level: float, pool: OptionalPool) -> list[Trace]:
    """The settings of each search that no other beats in prompt tokens and completeness; charts draw fewer of them."""
    traces: list[Trace] = []
    for result in results:
        competitor, values = result.competitor, result.front.values
        name = f"{competitor.name}{FRONT if result.settings or result.tried else PRESETS}"
        tunable, opened = competitor.tunable, pool.for_work(0.0)
        if opened is None or tunable.tried_heads or not all(map(tunable.is_swept, values)):
            traces.append(trace(competitor, name, values, level=level))
            continue
        family = tunable.family
        swept = (
            (competitor.domain_pair, DomainPair.by_query) if family is None else (competitor.rankings, family.by_query)
        )
        estimates = partial(
            _published_estimates, publish(swept[0], opened), swept[1], competitor.query_set.group, level
        )
        settings = [*map(tunable.values, values)]
        parts = pool.map(estimates, [settings[start : start + _CHUNK] for start in range(0, len(values), _CHUNK)])
        traces.append(_trace_of(name, values, [row for part in parts for row in part]))
    return traces


def _published_estimates(
    key: str,
    by_query: Callable[[Any, Mapping[str, Value]], Mapping[Measure, FloatArray]],
    group: IntArray,
    level: float,
    settings: Sequence[Mapping[str, Value]],
) -> list[list[Estimate]]:
    """In a worker: `_estimates` of settings, with values of all parameters."""
    return [_estimates(by_query(published(key), values), group, level) for values in settings]


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
    """How means change with each parameter, with the chosen values of all others."""
    return tuple(
        trace(competitor, parameter.name, [{**chosen, parameter.name: value} for value in values], level=level)
        for parameter, values in _varied_values(
            competitor, chosen, POINTS if competitor.tunable.is_swept(chosen) else RUNS
        )
    )


def heat_maps(competitor: Competitor, chosen: Mapping[str, Value]) -> tuple[MeanGrid, ...]:
    """Heat maps over pairs of swept parameters; none if settings would have to be run."""
    if not competitor.tunable.is_swept(chosen):
        return ()
    varied = [
        pair
        for pair in _varied_values(competitor, chosen, MAP_CELLS)
        if pair[0].name in competitor.tunable.swept_parameters
    ]
    all_pairs = list(itertools.combinations(varied, 2))
    pairs = all_pairs if len(all_pairs) <= MAPS else list(itertools.pairwise(varied))[:MAPS]
    maps = []
    for (y, ys), (x, xs) in pairs:
        rows = [[competitor.by_query({**chosen, x.name: at, y.name: of}) for at in xs] for of in ys]
        means = {
            str(measure): np.array([[mean(cell[measure]).value for cell in row] for row in rows])
            for measure in (COMPLETENESS, TOKENS)
        }
        maps.append(MeanGrid(x=x.name, y=y.name, xs=xs, ys=ys, means=means))
    return tuple(maps)


def _varied_values(
    competitor: Competitor, chosen: Mapping[str, Value], max_values: int
) -> list[tuple[Parameter, tuple[Value, ...]]]:
    """The numeric parameters that tuning varies and that have an effect, with at most `max_values` values each."""
    tunable, varied = competitor.tunable, []
    values = tunable.values(chosen)
    for name in tunable.varied_parameters(chosen):
        if not isinstance(value := values[name], bool | str):
            parameter, listed = tunable.definition.parameters[name], tunable.entry.search.get(name)
            if listed is not None and name in tunable.tried_heads:
                listed = listed[:: math.ceil(len(listed) / RUNS)]
            tried = _spaced_values(parameter, value, max_values) if listed is None else sorted({*listed, value})
            varied.append((parameter, tuple(at for at in tried if tunable.is_valid({**chosen, name: at}))))
    return varied


def _spaced_values(parameter: Parameter, value: float, max_values: int) -> tuple[Value, ...]:
    """Values over the range of a parameter, denser at its lower end, with the given value among them."""
    steps = parameter.low + (parameter.high - parameter.low) * np.linspace(0.0, 1.0, max_values - 1) ** 2
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
    """Means and intervals of settings on the tuning set, without those that a function fails at.

    `by_query` computes values in place of the competitor.
    """
    group, heads = competitor.query_set.group, competitor.tunable.tried_heads
    by_head = sorted(range(len(settings)), key=lambda index: str([settings[index].get(name) for name in heads]))
    measured: dict[int, Mapping[Measure, FloatArray]] = {}
    for index in by_head:  # so that each head ranks once
        with suppress(UserError):
            measured[index] = (by_query or competitor.by_query)(settings[index])
    rows = [_estimates(measured[index], group, level) for index in sorted(measured)]
    return _trace_of(name, [settings[index] for index in sorted(measured)], rows)


def _estimates(by_query: Mapping[Measure, FloatArray], group: IntArray, level: float) -> list[Estimate]:
    """The means of `REPORTED` at one setting."""
    return [
        grouped_estimate(by_query[measure], group, scale=measure.metric.declaration.scale, level=level)  # type: ignore[arg-type]
        for measure in REPORTED
    ]


def _trace_of(name: str, settings: Sequence[Mapping[str, Value]], rows: Sequence[Sequence[Estimate]]) -> Trace:
    """A trace of settings with their estimates of `REPORTED`."""
    estimates = {str(measure): [row[index] for row in rows] for index, measure in enumerate(REPORTED)}
    return Trace(
        name=name,
        settings=tuple(map(dict, settings)),
        means={metric: np.array([estimate.value for estimate in row]) for metric, row in estimates.items()},
        low={metric: np.array([estimate.interval.low for estimate in row]) for metric, row in estimates.items()},
        high={metric: np.array([estimate.interval.high for estimate in row]) for metric, row in estimates.items()},
    )


def read_tunables(
    file: PolicyFile, opened: Mapping[str, Tunable] | None = None
) -> tuple[tuple[Tunable, ...], list[Fault]]:
    """Read the selectors of a policy file.

    Args:
        file: the policy file.
        opened: by name, selectors that are used as they are: made in Python, or opened before.

    Returns:
        The selectors that can be tuned, and the faults of the others.
    """
    form = YamlForm(file.path, file.source.lines, [])
    tunables = [
        form.attempt(partial(_read_checked, entry, file, opened or {}), "selectors", index)
        for index, entry in enumerate(file.selectors)
    ]
    return tuple(tunable for tunable in tunables if tunable is not None), form.faults


def _read(entry: SelectorEntry, base: Path, opened: Mapping[str, Tunable]) -> Tunable:
    if entry.name in opened:
        return replace(opened[entry.name], entry=entry)
    external, folder = entry.external, base
    if entry.selector and is_agent_file(base / entry.selector):
        external, folder = read_agent(base / entry.selector).external, (base / entry.selector).parent
    if external:
        selector, tried = external_from_config({**external, "name": entry.name}, base=folder), entry.search.items()
        return Tunable.of_external(selector, entry, {name: list(values) for name, values in tried}, written=external)
    definition, preset = find_definition(entry.selector, base=base)
    if preset is None:
        return Tunable(entry=entry, source=entry.selector, definition=definition, start={})
    check_known("preset", preset, definition.presets, where=f" of selector {definition.name!r}")
    source = entry.selector.removesuffix(f"/{preset}")
    return Tunable(entry=entry, source=source, definition=definition, start=definition.presets[preset])


def _unsuitable(tunable: Tunable) -> Iterator[tuple[str, Sequence[str | int]]]:
    """The faults of each value of a selector in the file, with their paths."""
    written: dict[tuple[str | int, ...], Any] = {("set", name): value for name, value in tunable.entry.set.items()}
    written |= {
        ("search", name, index): value
        for name, values in tunable.entry.search.items()
        for index, value in enumerate(values)
    }
    reported: dict[tuple[Sequence[str | int], str], Sequence[str | int]] = {}  # an unknown parameter once
    for where, value in written.items():
        try:
            tunable.definition.checked(str(where[1]), value)
        except ParameterError as error:
            reported.setdefault((where[:2], str(error)), where)
    yield from ((message, where) for (_, message), where in reported.items())


def _read_checked(entry: SelectorEntry, file: PolicyFile, opened: Mapping[str, Tunable]) -> Tunable:
    """A selector with values of the types of its parameters: 1 becomes 1.0 if decimals are allowed.

    Raises:
        UserError: it is unknown or faulty, or a value is wrong or has no effect.
    """
    tunable = _read(entry, file.base, opened)
    if wrong := list(_unsuitable(tunable)) or list(_without_effect(tunable)):
        raise InputError([file.entry_fault(entry.name, message, *where) for message, where in wrong])
    check = tunable.definition.checked
    written = {name: check(name, value) for name, value in tunable.entry.set.items()}
    search = {name: tuple(check(name, value) for value in values) for name, values in tunable.entry.search.items()}
    return replace(tunable, entry=tunable.entry.model_copy(update={"set": written, "search": search}))


def _without_effect(tunable: Tunable) -> Iterator[tuple[str, Sequence[str | int]]]:
    """The values of a selector in the file that have no effect, with their paths."""
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


MIN_LABELS = 400  # with fewer queries that need an item, over both splits, all labels decide


@dataclass(frozen=True, eq=False, kw_only=True)
class TuningDataset:
    """A dataset to tune on.

    Attributes:
        dataset: the whole dataset.
        query_sets: by split, the labelled queries or a sample of them: `tuning` and `test`, or `all` if all labels
            decide.
        of: by split, how many there are before sampling.
        left_out: by name of a competitor, why it cannot compete.
        unanswered: by name of a policy, why the labels cannot answer it.
        empty: names of external selectors that rank nothing for any query.
        named: the name or folder that opens the dataset.
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
        """The queries on which settings are chosen."""
        return self.query_sets.get(ALL) or self.query_sets[TUNING]

    @property
    def evaluation_set(self) -> QuerySet:
        """The queries on which settings are measured: the test split, or the tuning set if all labels decide."""
        return self.query_sets.get(ALL) or self.query_sets[TEST]


@dataclass(frozen=True, eq=False, kw_only=True)
class TuningInputs:
    """The checked inputs of tuning. Nothing is embedded yet, and no model is loaded.

    Attributes:
        file: the policy file.
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
        """The selector of a name in results: one of the file, or a shipped one whose presets compete."""
        competitors = (*self.tunables, *(preset.tunable for preset in self.shipped))
        return next(tunable for tunable in competitors if tunable.name == name)


def open_tuning(
    file: PolicyFile,
    datasets: Sequence[str],
    *,
    notify: Callable[[str], None] = nothing_said,
    progress: Callable[[int, int], None] | None = None,
    open_one: Callable[..., Dataset] = open_dataset,
    selectors: Mapping[str, Tunable] | None = None,
) -> TuningInputs:
    """Open everything that tuning needs.

    Args:
        file: the policy file.
        datasets: names or folders.
        notify: called with messages about slow work.
        progress: called with how many of how many texts are embedded, later.
        open_one: opens a dataset, called as `open_dataset(name, base=..., notify=...)`.
        selectors: as `opened` of `read_tunables`.

    Raises:
        InputError: a dataset, selector, embedder or token counter is unknown or faulty, a dataset has no labelled
            query, the base does not suit a dataset, a step was fitted on a test split, or an external selector gives no
            scores; all faults at once.
    """
    tunables, faults = read_tunables(file, selectors)
    shipped = tuple(_shipped_presets(file, tunables)) if file.shipped else ()
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
                empty=() if wrong else _ranks_nothing(tunables, opened),
            )
            faults += wrong
    faults += _check_names(file, tunables, by_name)
    if faults or embedder is None or counter is None:
        file_faults = sorted((fault for fault in faults if fault.path == file.path), key=lambda fault: fault.line)
        raise InputError([*dict.fromkeys([*file_faults, *(fault for fault in faults if fault.path != file.path)])])
    query_sets = [query_set for opened in by_name.values() for query_set in opened.query_sets.values()]
    tunables = tuple(tunable.with_ranges_of(query_sets) for tunable in tunables)
    return TuningInputs(
        file=file,
        tunables=tunables,
        datasets=tuple(by_name.values()),
        embedder=embedder,
        counter=counter,
        shipped=shipped,
    )


def _shipped_presets(file: PolicyFile, tunables: Sequence[Tunable]) -> Iterator[ShippedPreset]:
    """The presets of the shipped selectors that are tuned, and those of `learned`, if they may compete."""
    sources = {tunable: _shipped_source(tunable, file.base) for tunable in tunables}
    unchanged = {
        source: tunable
        for tunable, source in reversed(sources.items())
        if source == tunable.source and not (tunable.start or tunable.entry.set or tunable.entry.fit)
    }
    for source in dict.fromkeys([*filter(None, sources.values()), LEARNED]):
        shipped, _ = find_definition(source)
        name = f"{source} as shipped" if source in {tunable.name for tunable in tunables} else source
        as_shipped = Tunable(entry=SelectorEntry(name=name, selector=source), source=source, definition=shipped)
        yield from (
            ShippedPreset(name=f"{source}/{preset}", tunable=unchanged.get(source, as_shipped), values=values)
            for preset, values in shipped.presets.items()
        )


def _shipped_source(tunable: Tunable, base: Path) -> str:
    """The name of the shipped selector that a selector of the file is, or that its agent file names; else empty."""
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
    faults = {tunable.name: _check_suited(file, [tunable], opened)[1] for tunable in extra}
    return {name: "; ".join(fault.message for fault in wrong) for name, wrong in faults.items() if wrong}


def _opened(dataset: Dataset, file: PolicyFile, resources: LocalResources, *, named: str) -> TuningDataset:
    """Both splits of a dataset, or all labels as one set if there are few, or if a split is missing.

    Queries with forbidden items but without complete labels are included if a policy has a metric of forbidden items.

    Args:
        dataset, file, resources: the inputs.
        named: the name or folder that opens the dataset.

    Raises:
        InputError: no query is labelled, or `labels: split` is set and a split is missing.
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
    if not all(map(len, parts.values())):
        command = shlex.join(["ctxbench", "data", "label", named])
        raise InputError([Fault(Message("tuning.dataset-unlabelled", dataset=dataset.name, command=command))])
    query_sets = {
        split: QuerySet(select_queries(part, sample=file.sample, seed=file.seed), split, item_tokens, resources)
        for split, part in parts.items()
    }
    return TuningDataset(
        dataset=dataset, query_sets=query_sets, of={split: len(part) for split, part in parts.items()}, named=named
    )


def _check_suited(
    file: PolicyFile, tunables: Sequence[Tunable], opened: TuningDataset
) -> tuple[dict[str, str], list[Fault]]:
    """Why selectors do not suit a dataset, by name; and the faults of the others.

    A base that does not suit the dataset is a fault, since all settings are compared with it.
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
        names = {"selector": tunable.name, "dataset": opened.dataset.name}
        faults += [
            file.entry_fault(tunable.name, Message("tuning.selector-unsuited", **names, reason=reason))
            for reason in wrong
        ]
    return left_out, faults


def _unusable(rankings: ExternalRankings, query_set: QuerySet) -> tuple[Fault, ...]:
    """The faults of external rankings. They are not compared with labels."""
    try:
        return unfit_scores(rankings.title, rankings.of(query_set).answers, query_set)
    except InputError as error:
        return error.faults


def _ranks_nothing(tunables: Sequence[Tunable], opened: TuningDataset) -> tuple[str, ...]:
    """The names of external selectors that rank nothing for any query; items that are always offered do not count."""
    query_sets = opened.query_sets.values()
    return tuple(
        tunable.name
        for tunable in tunables
        if tunable.answers is not None
        and not any(tunable.answers.of(query_set).answers.candidates.ranked.any() for query_set in query_sets)
    )


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
