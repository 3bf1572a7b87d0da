"""Choosing by a policy among competing selectors: what is recommended, or why nothing is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ctxbench.errors import Fault, ParameterError
from ctxbench.evaluation.evidence import Labels
from ctxbench.evaluation.metrics import Evidence, Metric, Offered, evaluate
from ctxbench.evaluation.sweep.lines import REACH, Measure
from ctxbench.evaluation.tuning.optima import FEWEST, Found, Optimum, measures_of
from ctxbench.evaluation.tuning.policies import Policy
from ctxbench.evaluation.tuning.policy_file import PolicyFile
from ctxbench.selectors.parameters import Value, shown
from ctxbench.yamlio import YamlPath, line_of


class PolicyError(ParameterError):
    """No setting can meet a policy; the message says the best that can be reached."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Choice:
    """What a policy came to.

    Attributes:
        selector: the name of the selector that is recommended; empty where nothing is.
        found: its setting; None where nothing is recommended.
        reason: why nothing is recommended, as a sentence; empty where something is.
        needed: how many queries of the same kinds would be needed; None = none would do, or something is recommended.
        settings: how many were compared.
    """

    selector: str
    found: Found | None
    reason: str
    needed: int | None
    settings: int


def unmeasurable(file: PolicyFile, labels: Labels) -> list[Fault]:
    """What a policy file asks for that the labels of a split cannot answer: a metric that applies to no query.

    Args:
        file: as read.
        labels: of the split that is tuned on.

    Returns:
        A fault for every place in the file, in the order of the file.
    """
    asked = dict.fromkeys(measure.metric for measure in measures_of(file.policies))
    nothing = np.zeros(0, dtype=np.int64)
    start = np.zeros(len(labels.dataset) + 1, dtype=np.int64)
    evidence = Evidence(
        judgments=labels.dataset.judgments,
        offered=Offered(start=start, item=nothing, origin=nothing),
        rankings=None,
        item_tokens=labels.item_tokens,
        kinship=labels.kinship,
        pool=labels.pool,
    )
    lacking = {metric for metric, values in evaluate(asked, evidence).items() if np.isnan(values).all()}
    faults = []
    for policy in file.policies:
        places: list[tuple[Metric, YamlPath]] = [(policy.objective, ("minimise" if policy.minimise else "maximise",))]
        places += [(one.metric, ("constraints", place, "metric")) for place, one in enumerate(policy.constraints)]
        for metric, where in places:
            if metric in lacking:
                what = f"policy {policy.name!r} needs {metric}, which applies to none of the {len(labels.dataset)} "
                what += f"queries of dataset {labels.dataset.name} that are tuned on: {metric.declaration.empty}"
                faults.append(Fault(what, file.path, line_of(file.lines, ("policies", policy.name, *where))))
    return sorted(faults, key=lambda fault: fault.line)


def choose(policy: Policy, optima: Mapping[str, Optimum]) -> Choice:
    """The best of what competing selectors reach; of equals that of the earlier selector.

    Nothing is recommended where no interval reaches its target but some mean does, and where a measure of the policy
    applies to fewer than `FEWEST` queries: then it is said how many queries would be needed.

    Args:
        policy: what all optima were kept by.
        optima: by name of the selector, in order; every one has seen all settings of its selector.

    Raises:
        PolicyError: no setting meets the policy even by its means; the message names the best reachable.
    """
    settings = sum(optimum.settings for optimum in optima.values())
    met = {name: optimum for name, optimum in optima.items() if optimum.found is not None}
    enough = {name: optimum for name, optimum in met.items() if not _few(optimum)}
    if enough:
        name = _best(enough)
        return Choice(selector=name, found=enough[name].found, reason="", needed=None, settings=settings)
    near = {name: optimum for name, optimum in optima.items() if optimum.nearest is not None}
    if met:
        name = _best(met)
        reason = _few_queries(met[name])
    elif near:
        name = min(near, key=lambda one: near[one].shortage)
        reason = _wide(near[name], name)
    else:
        raise PolicyError(f"policy {policy.name!r}: {_unreachable(optima)}")
    needed = optima[name].needed()
    reason = f"{reason}; {_more(needed, optima[name].queries)}"
    return Choice(selector="", found=None, reason=reason, needed=needed, settings=settings)


def setting_text(selector: str, values: Mapping[str, Value]) -> str:
    """A setting as messages say it: `semantic with contextTopK 20, contextTopN 5`."""
    listed = ", ".join(f"{name} {shown(value)}" for name, value in values.items())
    return f"{selector} with {listed}" if listed else selector


def _best(optima: Mapping[str, Optimum]) -> str:
    """The first name of those whose best is beaten by none."""
    names = list(optima)
    best = names[0]
    for name in names[1:]:
        if optima[name].beats(optima[best]):
            best = name
    return best


def _few(optimum: Optimum) -> list[Measure]:
    """The measures that apply to too few queries."""
    found = optimum.found
    return [] if found is None else [one for one in optimum.concerned if found.n[one] < FEWEST]


def _few_queries(optimum: Optimum) -> str:
    measure = _few(optimum)[0]
    n = optimum.found.n[measure] if optimum.found is not None else 0
    return f"{measure} applies to {n} of {optimum.queries} queries, and nothing is recommended on fewer than {FEWEST}"


def _wide(optimum: Optimum, selector: str) -> str:
    """What the intervals of the nearest setting miss."""
    found = optimum.nearest
    if found is None:
        return ""
    missed = []
    for limit in (optimum.limits[place] for place in found.missed):
        mean, side = limit.told(found.means[limit.measure]), "low" if limit.sign > 0 else "high"
        what = f"{limit.constraint} is met by the mean, {mean:.4g}, but not by the {side} end of its interval"
        missed.append(f"{what}, {found.bounds[str(limit.constraint)]:.4g}, over {found.n[limit.measure]} queries")
    return f"the nearest is {setting_text(selector, found.short)}: {'; '.join(missed)}"


def _more(needed: int | None, queries: int) -> str:
    if needed is None:
        return "no number of queries would do, since a mean is on its target"
    return f"about {needed} queries of the same kinds would be needed, there are {queries}"


@dataclass(frozen=True, slots=True)
class _Reached:
    """The best that competitors come to on one constraint: its mean as the constraint counts, and by what."""

    told: float
    by: str
    enough: bool


def _unreachable(optima: Mapping[str, Optimum]) -> str:
    """Which constraint nothing meets even by its mean, or which do not go together."""
    limits = next(iter(optima.values())).limits
    for which, limit in enumerate(limits):
        best = _reached(optima, which, beside=False)
        if best is None:
            where = f" among the first {REACH} items of any ranking" if limit.measure.reachable else ""
            return f"{limit.constraint} cannot be judged: {limit.measure} applies to no query{where}"
        if not best.enough:
            return (
                f"no setting reaches {limit.constraint}: the best reachable is {best.told:.4g}, by {best.by}; give a "
                "target that can be reached"
            )
    together = " and ".join(str(limit.constraint) for limit in limits)
    for which, limit in enumerate(limits):
        best = _reached(optima, which, beside=True)
        if best is not None:
            return (
                f"no setting reaches {together} at once: where the rest is met, {limit.measure} comes to "
                f"{best.told:.4g} at best, by {best.by}; loosen one of them"
            )
    return f"no setting reaches {together} at once, nor all but one of them; loosen some"


def _reached(optima: Mapping[str, Optimum], which: int, *, beside: bool) -> _Reached | None:
    """The best of all competitors, of equals that of the first; None if there is none."""
    best: _Reached | None = None
    for name, optimum in optima.items():
        limit, found = optimum.limits[which], optimum.reach(which)[1 if beside else 0]
        if found is None:
            continue
        mean = found.means[limit.measure]
        told = limit.told(mean)
        if best is None or limit.sign * told > limit.sign * best.told:
            best = _Reached(told, setting_text(name, found.short), bool(limit.reached(np.array([mean]))[0]))
    return best
