"""Takes the setting of a stricter policy of the file for a policy whose own limits gave a worse one.

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
    result = dict(choices)
    for policy in policies:
        sign, aim = 1 if policy.minimise else -1, Measure(policy.objective)
        choice = choices[policy.name]
        best = sign * (to_beat[policy.name] if choice.setting is None else choice.setting.means[aim])
        best = math.inf if math.isnan(best) else best
        for stricter in policies:
            setting = choices[stricter.name].setting
            if setting is None or not choice.answered or not is_stricter(stricter, policy, base):
                continue
            value = sign * setting.means[aim]
            if value < best - rounding_error(best if math.isfinite(best) else 0.0):
                best = value
                result[policy.name] = replace(
                    choices[stricter.name], taken_from=stricter.name, settings=choice.settings
                )
    return result


def is_stricter(policy: Policy, compared: Policy, base: Base) -> bool:
    """Whether a policy has the same objective as another, and constraints that are at least as strict."""
    if policy.name == compared.name or (policy.objective, policy.minimise) != (compared.objective, compared.minimise):
        return False
    return all(any(_asks_no_less(mine, theirs, base) for mine in policy.constraints) for theirs in compared.constraints)


def _asks_no_less(constraint: Constraint, compared: Constraint, base: Base) -> bool:
    """Whether a constraint has no lower target for the same mean; False where a target is not known."""
    if constraint.metric != compared.metric or (constraint.at_least is None) != (compared.at_least is None):
        return False
    mine, theirs = _target(constraint, base), _target(compared, base)
    room = rounding_error(theirs)
    return mine >= theirs - room if constraint.at_least is not None else mine <= theirs + room


def _target(constraint: Constraint, base: Base) -> float:
    """The mean over all queries that a constraint asks for; NaN where the base has none."""
    bound = constraint.at_least if constraint.at_least is not None else constraint.at_most
    unit = 1.0
    if constraint.of == "base":
        unit = base.means.get(Measure(constraint.metric), math.nan)
    elif constraint.of == "reachable":
        unit = float(base.reachable[~np.isnan(base.complete)].mean()) if base.in_need else math.nan
    return math.nan if bound is None else bound * unit
