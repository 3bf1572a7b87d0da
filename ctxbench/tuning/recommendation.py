"""Chooses among the best settings of several selectors: what is recommended, or why nothing is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.bench.labels import Labels
from ctxbench.bench.metrics import Evidence, OfferedItems, evaluate
from ctxbench.selectors.parameters import Value, shown
from ctxbench.tuning.limits import COMPLETENESS, policy_measures
from ctxbench.tuning.optima import MIN_QUERIES, BestSetting, Optimum
from ctxbench.tuning.policies import Policy
from ctxbench.tuning.sweep.threshold_lines import REACH, Measure


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
    """

    selector: str = ""
    setting: BestSetting | None = None
    reason: str = ""
    needed: tuple[int, int] | None = None
    answered: bool = True
    settings: int = 0


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
    start = np.zeros(len(labels.dataset) + 1, dtype=np.int64)
    evidence = Evidence(
        judgments=labels.dataset.judgments,
        offered=OfferedItems(start=start, item=nothing, origin=nothing),
        rankings=None,
        item_tokens=labels.item_tokens,
        body_tokens=labels.body_tokens,
        kinship=labels.kinship,
        pool=labels.pool,
    )
    lacking = {metric for metric, values in evaluate(metrics, evidence).items() if np.isnan(values).all()}
    found = {}
    for policy in policies:
        for metric in dict.fromkeys(
            [policy.objective, *(one.metric for one in policy.constraints), COMPLETENESS.metric]
        ):
            if metric in lacking and policy.name not in found:
                found[policy.name] = f"the labels cannot say: {metric} applies to none of {len(labels.dataset)} queries"
    return found


def choose(policy: Policy, optima: Mapping[str, Optimum]) -> Choice:
    """Choose the best setting of all selectors; of equals that of the earlier selector.

    The default is kept where no setting keeps all limits beyond doubt, and where a measure of the policy applies to
    fewer than `MIN_QUERIES` queries: then it is said how many more labels would do.

    Args:
        policy: what all optima were kept by.
        optima: by name of the selector, in order; every one has seen all settings of its selector.
    """
    settings = sum(optimum.settings for optimum in optima.values())
    met = {name: optimum for name, optimum in optima.items() if optimum.best is not None}
    enough = {name: optimum for name, optimum in met.items() if not _few_measures(optimum)}
    if enough:
        name = _best(enough)
        return Choice(selector=name, setting=enough[name].best, settings=settings)
    near = {name: optimum for name, optimum in optima.items() if optimum.nearest is not None}
    if met:
        name = _best(met)
        return Choice(reason=_few_reason(met[name]), needed=met[name].labels_needed(), settings=settings)
    if near and not _is_unreachable(optima):
        name = min(near, key=lambda one: near[one].shortage)
        return Choice(reason=_unsure_reason(near[name], name), needed=near[name].labels_needed(), settings=settings)
    return Choice(reason=_unreachable_reason(policy, optima), settings=settings)


def _is_unreachable(optima: Mapping[str, Optimum]) -> bool:
    """Whether some constraint is kept by no setting even by its mean, so that no number of labels would help."""
    limits = next(iter(optima.values())).limits
    reached = [_reach(optima, which, with_others=False) for which, limit in enumerate(limits) if limit.from_policy]
    return any(one is None or not one.enough for one in reached)


def setting_text(selector: str, values: Mapping[str, Value]) -> str:
    """A setting as messages say it: `semantic with contextTopK 20, contextTopN 5`."""
    listed = ", ".join(f"{name} {shown(value)}" for name, value in values.items())
    return f"{selector} with {listed}" if listed else selector


def _best(optima: Mapping[str, Optimum]) -> str:
    """The selector with the best setting; of equals the first."""
    names = list(optima)
    best = names[0]
    for name in names[1:]:
        if optima[name].beats(optima[best]):
            best = name
    return best


def _few_measures(optimum: Optimum) -> list[Measure]:
    """The measures that apply to too few queries."""
    found = optimum.best
    return [] if found is None else [one for one in optimum.measures if found.n[one] < MIN_QUERIES]


def _few_reason(optimum: Optimum) -> str:
    measure = _few_measures(optimum)[0]
    n = optimum.best.n[measure] if optimum.best is not None else 0
    return (
        f"{measure} applies to {n} of {optimum.queries} queries, and nothing is recommended on fewer than {MIN_QUERIES}"
    )


def _unsure_reason(optimum: Optimum, selector: str) -> str:
    """What the nearest setting keeps by its means alone."""
    found = optimum.nearest
    if found is None:
        return ""
    missed = []
    for limit in (optimum.limits[place] for place in found.missed):
        if not limit.from_policy:
            missed.append(f"too few queries to be sure of: {limit.text}")
            continue
        mean, query_set = limit.in_text_unit(found.means[limit.measure]), "low" if limit.sign > 0 else "high"
        what = f"{limit.text} is met by the mean, {mean:.4g}, but the {query_set} end of what is likely is"
        missed.append(f"{what} {found.bounds[limit.text]:.4g}, over {found.n[limit.measure]} queries")
    return f"the nearest is {setting_text(selector, found.rounded)}: {'; '.join(missed)}"


@dataclass(frozen=True, slots=True)
class _Reach:
    """The best mean of a constraint over all selectors, in the unit of the constraint, and the setting that has it."""

    value: float
    by: str
    enough: bool


def _unreachable_reason(policy: Policy, optima: Mapping[str, Optimum]) -> str:
    """Which constraint nothing meets even by its mean, or which do not go together."""
    limits = next(iter(optima.values())).limits[: len(policy.constraints)]
    for which, limit in enumerate(limits):
        best = _reach(optima, which, with_others=False)
        if best is None:
            where = f" among the first {REACH} items of any ranking" if limit.measure.reachable else ""
            return f"{limit.text} cannot be judged: {limit.measure} applies to no query{where}"
        if not best.enough:
            return f"no setting reaches {limit.text}: the best reachable is {best.value:.4g}, by {best.by}"
    kept = [limit.text for limit in next(iter(optima.values())).limits if not limit.from_policy]
    for which, limit in enumerate(limits):
        best = _reach(optima, which, with_others=True)
        if best is not None and not best.enough:
            rest = ", ".join([*(one.text for one in limits if one != limit), *kept])
            what = f"{limit.measure} comes to {best.value:.4g} at best, by {best.by}"
            return f"no setting reaches {limit.text} beside the rest: where that is kept ({rest}), {what}"
    limits_text = ", ".join([limit.text for limit in limits] + kept)
    aim = f"{'fewer' if policy.minimise else 'more'} {policy.objective}"
    return f"no setting keeps all of these limits with {aim} than the default: {limits_text}"


def _reach(optima: Mapping[str, Optimum], which: int, *, with_others: bool) -> _Reach | None:
    """The best mean over all selectors, of equals that of the first; None if there is none."""
    best: _Reach | None = None
    for name, optimum in optima.items():
        limit, found = optimum.limits[which], optimum.best_means(which)[1 if with_others else 0]
        if found is None:
            continue
        mean = found.means[limit.measure]
        value = limit.in_text_unit(mean)
        if best is None or limit.sign * value > limit.sign * best.value:
            best = _Reach(value, setting_text(name, found.rounded), bool(limit.is_reached(np.array([mean]))[0]))
    return best
