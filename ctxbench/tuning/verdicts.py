"""Verdicts on constraints: whether a setting keeps them, or how many labels would tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ctxbench.bench.stats import Scale, critical, grouped_estimate
from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.tuning.limits import SAFETY_ERRORS, Limit
from ctxbench.tuning.optima import MAX_FACTOR, MIN_QUERIES
from ctxbench.tuning.sweep.measures import Pairing
from ctxbench.tuning.swept_settings import rounding_error

Status: TypeAlias = Literal["holds", "holds within 2 points", "open", "missed", "too few to say"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintVerdict:
    """Whether a constraint holds on some queries.

    Attributes:
        text: the constraint.
        said: `holds`: the unfavourable end of what is likely is at the target or better; `holds within 2 points`: it is
            within the room of a share, which is less where the base is complete on fewer than a fifth; `missed`: the
            favourable end is below the target; `open`: neither; `too few to say`: fewer than 20 queries.
        value, low, high: the mean and what is likely, as the constraint counts.
        n: how many queries it is about.
        needed: about how many more would settle it; None = it is settled, or more are unlikely to.
        short: whether the mean itself is beyond the room.
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


@dataclass(frozen=True, eq=False, kw_only=True)
class VerdictQueries:
    """The queries that a verdict is about.

    Attributes:
        group: of each, numbers from 0 on, shape (n_queries,).
        level: of the intervals.
        chosen_here: whether the setting was chosen on these very queries, so that it looks better than it is.
    """

    group: IntArray
    level: float
    chosen_here: bool


def verdict(
    limit: Limit, own: FloatArray, base: FloatArray, ground: VerdictQueries, *, scale: Scale
) -> ConstraintVerdict | None:
    """Judge a constraint by measured values.

    Args:
        limit: the constraint, with its target on these queries.
        own, base: values by query, shape (n_queries,); NaN where the metric does not apply.
        ground: the queries.
        scale: of the values.

    Returns:
        None where the metric applies to no query.
    """
    n = int((~np.isnan(own)).sum())
    if not n:
        return None
    value, low, high = _interval(limit, own, base, ground, scale)
    worse, better = (low, high) if limit.sign > 0 else (high, low)
    status: Status
    if n < MIN_QUERIES:
        status = "too few to say"
    elif limit.sign * (worse - limit.target) >= -rounding_error(limit.target):
        status = "holds"
    elif limit.is_near(worse):
        status = "holds within 2 points"
    elif limit.sign * (better - limit.target) < 0:
        status = "missed"
    else:
        status = "open"
    needed = _labels_needed(limit, n, value, worse, better) if status in ("open", "too few to say") else None
    values = [limit.in_text_unit(one) for one in (value, low, high)]
    falls_short = not limit.is_near(value)
    return ConstraintVerdict(
        text=limit.text,
        status=status,
        value=values[0],
        low=values[1],
        high=values[2],
        n=n,
        needed=needed,
        falls_short=falls_short,
    )


def _interval(
    limit: Limit, own: FloatArray, base: FloatArray, ground: VerdictQueries, scale: Scale
) -> tuple[float, float, float]:
    """The mean, and the ends of what is likely: paired where the constraint is of the base."""
    if limit.by != "paired":
        found = grouped_estimate(own, ground.group, scale=scale, level=ground.level)
        return found.value, found.interval.low, found.interval.high
    pairing = Pairing(base={limit.measure: base}, group=ground.group)
    mean, error = pairing.differences({limit.measure: own})[limit.measure].errors()
    distance = (SAFETY_ERRORS if ground.chosen_here else critical(ground.level)) * float(error[0])
    value = limit.base + float(mean[0])
    return value, value - distance, value + distance


def _labels_needed(limit: Limit, n: int, value: float, worse: float, better: float) -> int | None:
    """How many more queries would settle a constraint, as intervals narrow with the root of their number."""
    edge = limit.target - limit.sign * limit.room
    distance, room = (
        (abs(value - worse), abs(value - edge))
        if limit.is_near(value)
        else (abs(value - better), abs(value - limit.target))
    )
    if not math.isfinite(distance) or room <= rounding_error(limit.target) or (distance / room) ** 2 > MAX_FACTOR:
        return max(MIN_QUERIES - n, 0) or None
    return max(math.ceil(n * (distance / room) ** 2), MIN_QUERIES) - n or None
