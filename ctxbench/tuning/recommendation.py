"""Chooses among the best settings of several selectors, or says why none is; and how means change near a setting."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from ctxbench.bench.labels import Labels
from ctxbench.bench.metrics import Evidence, OfferedItems, evaluate, mean
from ctxbench.bench.stats import grouped_estimate
from ctxbench.core.arrays import FloatArray
from ctxbench.selectors.parameters import Parameter, Value, value_text
from ctxbench.tuning.limits import Policy, policy_measures
from ctxbench.tuning.optima import MIN_QUERIES, BestSetting, Optimum
from ctxbench.tuning.search import REPORTED, Competitor, SearchResult
from ctxbench.tuning.sweep.measures import COMPLETENESS, REACH, Measure
from ctxbench.tuning.tunables import FIRST_N
from ctxbench.tuning.tuning_results import FIRST_ITEMS, FRONT, PRESETS, MeanGrid, Trace


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


def unanswerable(policies: Sequence[Policy], labels: Labels) -> dict[str, str]:
    """Find policies that the labels cannot answer, since a metric of theirs applies to no query.

    Args:
        policies: as read.
        labels: of the tuning set.

    Returns:
        By name of the policy what is wrong, as a sentence without its end; those that can be answered are left out.
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
    reasons = {}
    for policy in policies:
        for metric in dict.fromkeys(
            [policy.objective, *(constraint.metric for constraint in policy.constraints), COMPLETENESS.metric]
        ):
            if metric in missing and policy.name not in reasons:
                reasons[policy.name] = (
                    f"the labels cannot say: {metric} applies to none of {len(labels.dataset)} queries"
                )
    return reasons


def choose(policy: Policy, optima: Mapping[str, Optimum], *, noun: str = "setting") -> Choice:
    """Choose the best setting of all selectors; of equals that of the earlier selector.

    The default is kept where no setting keeps all limits beyond doubt, and where a measure of the policy applies to
    fewer than `MIN_QUERIES` queries: then the choice says how many more labels are needed.

    Args:
        policy: what all optima were kept by.
        optima: by name of the selector, in order; every one has seen all settings of its selector.
        noun: what reasons call a setting.
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
    return Choice(reason=_unreachable_reason(policy, optima, noun), settings=settings)


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
    """Which measure applies to too few queries; empty where none does."""
    for measure in optimum.measures:
        if best.n[measure] < MIN_QUERIES:
            applies = f"{measure} applies to {best.n[measure]} of {optimum.queries} queries"
            return f"{applies}, and nothing is recommended on fewer than {MIN_QUERIES}"
    return ""


def four_digits(value: float) -> str:
    """A figure as sentences have it: `0.2667`, `28,310`; of four digits, and whole from 1,000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _unsure_reason(optimum: Optimum, setting: BestSetting, selector: str) -> str:
    """What the nearest setting keeps by its means alone."""
    missed = []
    for limit in (optimum.limits[index] for index in setting.missed):
        if not limit.from_policy:
            missed.append(f"too few queries to be sure of: {limit.text}")
            continue
        mean, end = limit.in_text_unit(setting.means[limit.measure]), "low" if limit.sign > 0 else "high"
        clause = f"{limit.text} is met by the mean, {four_digits(mean)}, but the {end} end of what is likely is"
        missed.append(f"{clause} {four_digits(setting.bounds[limit.text])}, over {setting.n[limit.measure]} queries")
    return f"the nearest is {setting_text(selector, setting.rounded)}: {'; '.join(missed)}"


@dataclass(frozen=True, slots=True)
class _Reach:
    """The best mean of a constraint over all selectors, in the unit of the constraint, and the setting that has it."""

    value: float
    by: str
    enough: bool


def _unreachable_reason(policy: Policy, optima: Mapping[str, Optimum], noun: str) -> str:
    """Which constraint nothing meets even by its mean, or which do not go together."""
    limits = next(iter(optima.values())).limits[: len(policy.constraints)]
    for index, limit in enumerate(limits):
        best = _reach(optima, index, with_others=False)
        if best is None:
            where = f" among the first {REACH} items of any ranking" if limit.measure.reachable else ""
            return f"{limit.text} cannot be judged: {limit.measure} applies to no query{where}"
        if not best.enough:
            return f"no {noun} reaches {limit.text}: the best reachable is {four_digits(best.value)}, by {best.by}"
    general = [limit.text for limit in next(iter(optima.values())).limits if not limit.from_policy]
    for index, limit in enumerate(limits):
        best = _reach(optima, index, with_others=True)
        if best is not None and not best.enough:
            rest = ", ".join([*(constraint.text for constraint in limits if constraint != limit), *general])
            best_text = f"{limit.measure} comes to {four_digits(best.value)} at best, by {best.by}"
            return f"no {noun} reaches {limit.text} beside the rest: where that is kept ({rest}), {best_text}"
    of_every_policy = [f"and those of every policy ({', '.join(general)})"] if general else []
    limits_text = ", ".join([*(limit.text for limit in limits), *of_every_policy])
    aim = f"{'fewer' if policy.minimise else 'more'} {policy.objective}"
    return f"no {noun} keeps all of these limits with {aim} than the default: {limits_text}"


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
        means = {
            str(measure): np.array([[mean(cell[measure]).value for cell in row] for row in rows])
            for measure in REPORTED
            if str(measure) in HEAT_METRICS
        }
        maps.append(MeanGrid(x=x.name, y=y.name, xs=xs, ys=ys, means=means))
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
