"""Takes for a policy what a stricter one of the file came to, where its own limits came to less.

Constraints of the base are held by paired differences, others by intervals, so that few labels may be enough for the
one and not for the other. What is kept beyond doubt of a higher target is kept of a lower one, whichever way it was
shown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ctxbench.tuning.limits import Constraint, Policy, rounding_error
from ctxbench.tuning.recommendation import Choice
from ctxbench.tuning.search import Base
from ctxbench.tuning.sweep.measures import Measure


def with_stricter(
    policies: Sequence[Policy], choices: Mapping[str, Choice], *, base: Base, to_beat: Mapping[str, float]
) -> dict[str, Choice]:
    """The choices, each replaced by that of a stricter policy which does better by the same objective.

    Args:
        policies: those that the labels can answer.
        choices: by policy, what its own limits came to; those of other policies stay.
        base: whose means turn targets of it into numbers.
        to_beat: by policy the base's objective, which must be bettered; NaN = none must.
    """
    found = dict(choices)
    for policy in policies:
        sign, aim = 1 if policy.minimise else -1, Measure(policy.objective)
        own = choices[policy.name]
        best = sign * (to_beat[policy.name] if own.setting is None else own.setting.means[aim])
        best = math.inf if math.isnan(best) else best
        for other in policies:
            setting = choices[other.name].setting
            if setting is None or not own.answered or not is_stricter(other, policy, base):
                continue
            value = sign * setting.means[aim]
            if value < best - rounding_error(best if math.isfinite(best) else 0.0):
                best = value
                found[policy.name] = replace(choices[other.name], taken_from=other.name, settings=own.settings)
    return found


def is_stricter(one: Policy, other: Policy, base: Base) -> bool:
    """Whether a policy with the same objective asks no less than another one of all that this asks."""
    if one.name == other.name or (one.objective, one.minimise) != (other.objective, other.minimise):
        return False
    return all(any(_asks_no_less(mine, theirs, base) for mine in one.constraints) for theirs in other.constraints)


def _asks_no_less(one: Constraint, other: Constraint, base: Base) -> bool:
    """Whether a constraint has no lower target for the same mean; False where a target is not known."""
    if one.metric != other.metric or (one.at_least is None) != (other.at_least is None):
        return False
    mine, theirs = _target(one, base), _target(other, base)
    room = rounding_error(theirs)
    return mine >= theirs - room if one.at_least is not None else mine <= theirs + room


def _target(one: Constraint, base: Base) -> float:
    """The mean over all queries that a constraint asks for; NaN where the base has none."""
    bound = one.at_least if one.at_least is not None else one.at_most
    unit = 1.0
    if one.of == "base":
        unit = base.means.get(Measure(one.metric), math.nan)
    elif one.of == "reachable":
        unit = float(base.reachable[~np.isnan(base.complete)].mean()) if base.in_need else math.nan
    return math.nan if bound is None else bound * unit
