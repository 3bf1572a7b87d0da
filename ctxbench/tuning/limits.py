"""Limits that a recommended setting must keep: the constraints of a policy, and some that hold for every policy.

* A constraint `of: base` is checked by paired differences to the base: the mean difference less `SAFETY_ERRORS`
  standard errors must reach the target. So many since the best of many settings looks better than it is. Other
  constraints are checked by the unfavourable end of their interval. Both have the same `room`, where they are about
  shares; `USED_ROOM` of it is used.
* What a policy maximises is no worse than the base's, likewise, if it is a share and the base keeps the policy.
* Prompt tokens are at most `MAX_TOKENS` times the base's, unless the setting is more complete beyond doubt.
* Of the completeness of the base, and of that of the queries which need an item type, `MIN_KEPT` is kept; of a type
  that fewer than `FEW_LABELS` queries need, as much of the required items of this type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ctxbench.bench.metrics import Metric
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.errors import ParameterError
from ctxbench.tuning.sweep.measures import COMPLETENESS, TOKENS, Measure
from ctxbench.tuning.swept_settings import POWERS, SweptSettings

Of: TypeAlias = Literal["", "reachable", "base"]
FILLED = ("completeness", "recall", "direct_recall", "dependency_recall")  # best where everything is offered


SAME = 1e-12
"""Relative difference up to which two means are equal: the order of adding up may change them so far."""


def rounding_error(value: float) -> float:
    """How much two values that are equal up to rounding may differ."""
    return SAME * max(1.0, abs(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A bound that a mean must reach or stay below.

    Attributes:
        metric: a set metric.
        at_least, at_most: the target; exactly one is given.
        of: empty: the mean itself; `reachable`: a share of what the first 20 items of the base's ranking make complete,
            compared with the queries that the first 20 of a selector's own ranking do; `base`: a multiple of what
            the base, the first selector of the file, has with its defaults.
    """

    metric: Metric
    at_least: float | None = None
    at_most: float | None = None
    of: Of = ""

    def __str__(self) -> str:
        sign, target = (">=", self.at_least) if self.at_least is not None else ("<=", self.at_most)
        suffix = {"": "", "reachable": " of what is reachable at 20 items", "base": " x the base's"}[self.of]
        return f"{self.metric} {sign} {target:g}{suffix}"

    @property
    def met_by_nothing(self) -> bool:
        """Whether offering nothing meets it."""
        return self.at_most is not None or self.at_least == 0 or self.metric.name == "abstention"

    @property
    def met_by_everything(self) -> bool:
        """Whether offering everything meets it, or comes as near as anything does."""
        filled = self.metric.name in FILLED or self.metric.declaration.scale == "amount"
        return self.at_least is not None and filled


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """An objective under constraints.

    Attributes:
        name: what the preset is called, for example `aggressive`.
        about: one line.
        objective: a set metric.
        minimise: whether less of it is better.
        constraints: all must be met.
    """

    name: str
    about: str
    objective: Metric
    minimise: bool
    constraints: tuple[Constraint, ...] = ()


SAFETY_ERRORS = 2.6  # standard errors of a paired difference
MAX_TOKENS, MIN_KEPT, FEW_LABELS = 1.5, 0.75, 10
_ROOM, _ROOM_OF_BASE = 0.02, 0.1  # points, and share of the base's completeness: the lesser one is the room
USED_ROOM = 0.75  # of the room, when choosing: what is chosen by few labels is worse than it looks (reports/regret.md)


def measure_of(constraint: Constraint) -> Measure:
    """The mean that a constraint is about."""
    return Measure(constraint.metric, constraint.of == "reachable")


def policy_measures(policies: Sequence[Policy]) -> dict[Measure, int]:
    """What must be measured to choose by some policies, and up to which power its values must be summed.

    Completeness and tokens come first and are always there: ties are broken by them. 1 = the sum is enough; 2 and 3:
    an interval for a share needs squares, one for an amount squares and cubes. Differences to the base need none.
    """
    measures = {COMPLETENESS: 1, TOKENS: 1}
    for policy in policies:
        measures.setdefault(Measure(policy.objective), 1)
        for constraint in policy.constraints:
            measure = measure_of(constraint)
            powers = 1 if constraint.of == "base" else POWERS[constraint.metric.declaration.scale]
            measures[measure] = max(measures.get(measure, 1), powers)
    return measures


def paired_measures(policies: Sequence[Policy]) -> tuple[Measure, ...]:
    """The measures whose differences to the base are wanted: completeness, those of constraints, what is maximised."""
    from_policy = (
        measure_of(constraint) for policy in policies for constraint in policy.constraints if constraint.of == "base"
    )
    aims = (Measure(policy.objective) for policy in policies if not policy.minimise)
    return tuple(dict.fromkeys([COMPLETENESS, *from_policy, *aims]))


def kept_measures(types: Mapping[str, BoolArray]) -> tuple[Measure, ...]:
    """What must be kept of each item type: by the queries that need it, or of a rare one by its required items.

    A type that all queries in need require is left out, since what is kept of it is what is kept at all.

    Args:
        types: by item type, the queries that require an item of it, shape (n_queries,); see `queries_by_type`.
    """
    in_need = np.logical_or.reduce([*types.values()]) if types else np.empty(0, dtype=np.bool_)
    return tuple(
        Measure(Metric("items") if queries.sum() < FEW_LABELS else COMPLETENESS.metric, required_type=name)
        for name, queries in types.items()
        if 0 < queries.sum() < in_need.sum()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A bound on a mean, with its target as a number.

    Attributes:
        text: the limit in messages.
        measure: what it is about.
        sign: 1 for at least, -1 for at most.
        target: in the unit of the measure.
        unit: what the text counts in, in that of the measure: the base's mean, or how many times as much the base
            reaches; 1 where it is about the mean itself.
        room: how far beyond the target the unfavourable end lies at most where a constraint nearly holds.
        by: what is compared with the target: the `paired` difference to the base, an `interval`, or the `mean`.
        base: the base's mean, for paired differences.
        complete: the base's completeness, where more of it beyond doubt stands in for the target; NaN = it does not.
        from_policy: whether the policy sets it.
    """

    text: str
    measure: Measure
    sign: int
    target: float
    unit: float = 1.0
    room: float = 0.0
    by: Literal["paired", "interval", "mean"] = "interval"
    base: float = math.nan
    complete: float = math.nan
    from_policy: bool = True

    @classmethod
    def of(cls, constraint: Constraint, base: Mapping[Measure, float], *, reach: float = 1.0) -> Limit:
        """The limit of a constraint, with its target as a multiple of the base's mean where it is one.

        Args:
            constraint: as the policy has it.
            base: means of the base; without its completeness there is no room.
            reach: see `reach_ratio`; the target of what is reachable is multiplied by it.

        Raises:
            ParameterError: the base has no mean of the metric.
        """
        measure, unit = measure_of(constraint), 1.0
        base_mean = base.get(Measure(constraint.metric), math.nan)
        if constraint.of == "base":
            if math.isnan(base_mean):
                raise ParameterError(
                    f"{constraint}: the base has no {constraint.metric} that it could be a multiple of"
                )
            unit = base_mean
        elif constraint.of == "reachable":
            unit = reach
        bound = constraint.at_least if constraint.at_least is not None else constraint.at_most
        return cls(
            text=str(constraint),
            measure=measure,
            sign=1 if constraint.at_least is not None else -1,
            target=float(bound if bound is not None else math.nan) * unit,
            unit=unit,
            room=room_of(base) if constraint.metric.declaration.scale != "amount" else 0.0,
            by="paired" if constraint.of == "base" else "interval",
            base=base_mean,
        )

    def in_text_unit(self, value: float) -> float:
        """A mean, or an end of its interval, in the unit of the text."""
        if self.unit == 0:
            return 0.0 if value == 0 else math.copysign(math.inf, value)
        return value / self.unit

    @property
    def end(self) -> float:
        """The value that the unfavourable end must reach, with room for rounding."""
        return self.target - self.sign * (USED_ROOM * self.room + rounding_error(self.target))

    def is_near(self, value: float) -> bool:
        """Whether a value is no further beyond the target than the room; NaN is not."""
        return self.sign * (value - self.target) >= -(self.room + rounding_error(self.target))

    def is_reached(self, values: FloatArray) -> BoolArray:
        """Whether values reach the target less the used room; NaN does not."""
        return self.sign * values >= self.sign * self.end

    def mean_reaches(self, settings: SweptSettings) -> BoolArray:
        """Where the means reach the target, shape (n_settings,)."""
        reached = settings.mean_reaches(self.measure, self.sign, self.end)
        return reached if math.isnan(self.complete) else reached | settings.mean_reaches(COMPLETENESS, 1, self.complete)

    def ends(self, settings: SweptSettings, indices: IntArray, *, level: float, times: float = 1.0) -> FloatArray:
        """The values compared with the target at some indices, if there were `times` as many queries."""
        if self.by == "paired":
            mean, error = settings.differences(self.measure, indices, times=times)
            return self.base + mean - self.sign * SAFETY_ERRORS * error
        if self.by == "interval":
            low, high = settings.bounds(self.measure, indices, level=level, times=times)
            return low if self.sign > 0 else high
        means = settings.means(self.measure, indices)
        if math.isnan(self.complete):
            return means
        gain, error = settings.differences(COMPLETENESS, indices, times=times)
        return np.where(gain - SAFETY_ERRORS * error > 0, np.minimum(means, self.target), means)


def room_of(base: Mapping[Measure, float]) -> float:
    """How far beyond its target a share nearly holds it: 2 points, or a tenth of what the base has if that is less."""
    return min(_ROOM, _ROOM_OF_BASE * base.get(COMPLETENESS, 0.0))


def reach_ratio(base: BoolArray, competitor: BoolArray) -> float:
    """How many times as many queries the base's ranking makes complete within reach as another selector's.

    What is reachable is what the base reaches, so that all selectors have the same target. It is compared with the
    queries that the selector's own ranking reaches, since its cut can win no other query: their share must be
    higher where it reaches less than the base, and may be lower where it reaches more.

    Args:
        base, competitor: the queries that the first items of either ranking make complete, shape (n_queries,).
    """
    is_reached = int(competitor.sum())
    return int(base.sum()) / is_reached if is_reached else 1.0


def limits_of(policy: Policy, base: Mapping[Measure, float], *, reach: float = 1.0) -> tuple[Limit, ...]:
    """All that a setting must keep to be recommended for a policy, the policy's own constraints first.

    Args:
        policy: whose.
        base: means of the base by measure, those of `kept_measures` among them; what is missing sets no limit.
        reach: see `reach_ratio`.

    Raises:
        ParameterError: the base has no mean of a metric that a constraint relates to it.
    """
    from_policy = tuple(Limit.of(constraint, base, reach=reach) for constraint in policy.constraints)
    general_limits = [
        Limit(
            text=f"{measure} >= {MIN_KEPT:g} x the base's",
            measure=measure,
            sign=1,
            target=MIN_KEPT * mean,
            unit=mean,
            by="mean",
            from_policy=False,
        )
        for measure, mean in base.items()
        if (measure == COMPLETENESS or measure.required_type) and not math.isnan(mean)
    ]
    if TOKENS in base and COMPLETENESS in base:
        general_limits.append(
            Limit(
                text=f"tokens <= {MAX_TOKENS:g} x the base's, or more complete beyond doubt",
                measure=TOKENS,
                sign=-1,
                target=MAX_TOKENS * base[TOKENS],
                unit=base[TOKENS],
                by="mean",
                complete=base[COMPLETENESS],
                from_policy=False,
            )
        )
    return (*from_policy, *(limit for limit in general_limits if not _implied(limit, from_policy)))


def no_worse_limit(measure: Measure, base: Mapping[Measure, float]) -> Limit:
    """What is maximised must be no worse than the base's beyond doubt, but for the room, and not by its mean alone."""
    base_mean = base[measure]
    return Limit(
        text=f"{measure} >= the base's",
        measure=measure,
        sign=1,
        target=base_mean,
        unit=base_mean,
        room=room_of(base),
        by="paired",
        base=base_mean,
        from_policy=False,
    )


def _implied(limit: Limit, from_policy: Sequence[Limit]) -> bool:
    """Whether what the policy asks is no less than a limit on the same mean."""
    return any(
        (policy_limit.measure, policy_limit.sign, policy_limit.by) == (limit.measure, limit.sign, "paired")
        and limit.sign * policy_limit.end >= limit.sign * limit.target
        for policy_limit in from_policy
        if math.isnan(limit.complete)
    )
