"""The best setting by a policy, kept while lines of settings go by; and until there is one what comes nearest.

An optimum keeps a handful of settings, however many it looks at. Rules:

* A constraint is met if the end of the interval on the target's side reaches the target (or the mean, `by: mean`).
  Where queries come in groups all intervals are those of the fewer independent queries that they are worth.
  Sums that differ in the last digits only (1e-12) are the same, so that no order of adding decides.
* Of the settings that meet all constraints the best objective wins; of equals the one with more completeness, then
  the one with fewer tokens, then in a line the one whose threshold is furthest from any that gives other means, or
  else offers least; then the one nearest to the defaults, then that of the earlier line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.arrays import BoolArray, FloatArray, IntArray
from ctxbench.errors import ParameterError
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.stats import LEVEL
from ctxbench.evaluation.sweep.lines import Line, Measure
from ctxbench.evaluation.tuning.policies import Constraint, Policy
from ctxbench.evaluation.tuning.settings import POWERS, LineSettings, Settings
from ctxbench.evaluation.tuning.ties import SAME, away, precedes, slack, steadiest
from ctxbench.selectors.parameters import Value

COMPLETENESS, TOKENS = Measure(Metric("completeness")), Measure(Metric("tokens"))
FEWEST = 20  # queries that every measure of a policy must apply to, below which nothing is recommended
_MOST = 10**9  # queries past which no number is said to be needed


def measure_of(constraint: Constraint) -> Measure:
    """The mean that a constraint is about."""
    return Measure(constraint.metric, constraint.of == "reachable")


def measures_of(policies: Sequence[Policy]) -> dict[Measure, int]:
    """What must be measured to choose by some policies, and up to which power its values must be summed.

    Completeness and tokens come first and are always there: ties are broken by them. 1 = the sum is enough; 2 and 3:
    an interval for a share needs squares, one for an amount squares and cubes.
    """
    found = {COMPLETENESS: 1, TOKENS: 1}
    for policy in policies:
        found.setdefault(Measure(policy.objective), 1)
        for one in policy.constraints:
            measure = measure_of(one)
            powers = POWERS[one.metric.declaration.scale] if one.by == "bound" else 1
            found[measure] = max(found.get(measure, 1), powers)
    return found


def reach_of(base: BoolArray, own: BoolArray) -> float:
    """How many times as many queries the base's ranking makes complete within reach as a competitor's own.

    What is reachable is what the base reaches, so that all competitors have the same target. It is held against the
    queries that the competitor's own ranking reaches, since none of the others can be won by its cut: their share
    must be higher where it reaches less than the base, and may be lower where it reaches more.

    Args:
        base, own: the queries that the first items of either ranking make complete, shape (n_queries,).
    """
    reached = int(own.sum())
    return int(base.sum()) / reached if reached else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A constraint with its target as a number.

    Attributes:
        constraint: as the policy has it.
        measure: what it is about.
        sign: 1 for at_least, -1 for at_most.
        target: in the unit of the measure.
        unit: what the constraint counts in, in that of the measure: the base's mean, or how many times as much the base
            reaches; 1 where the constraint is about the mean itself.
    """

    constraint: Constraint
    measure: Measure
    sign: int
    target: float
    unit: float = 1.0

    @classmethod
    def of(cls, constraint: Constraint, base: Mapping[Metric, float], *, reach: float = 1.0) -> Limit:
        """Take a constraint's target, as a multiple of the base's mean where it is one.

        Args:
            constraint: as the policy has it.
            base: means of the base.
            reach: see `reach_of`; the target of what is reachable is multiplied by it.

        Raises:
            ParameterError: the base has no mean of the metric.
        """
        unit = 1.0
        if constraint.of == "base":
            unit = base.get(constraint.metric, math.nan)
            if math.isnan(unit):
                raise ParameterError(
                    f"{constraint}: the base has no {constraint.metric} that it could be a multiple of"
                )
        elif constraint.of == "reachable":
            unit = reach
        given = constraint.at_least if constraint.at_least is not None else constraint.at_most
        target = float(given if given is not None else math.nan) * unit
        sign = 1 if constraint.at_least is not None else -1
        return cls(constraint=constraint, measure=measure_of(constraint), sign=sign, target=target, unit=unit)

    def told(self, value: float) -> float:
        """A mean, or an end of its interval, as the constraint counts."""
        if self.unit == 0:
            return 0.0 if value == 0 else math.inf
        return value / self.unit

    @property
    def end(self) -> float:
        """The target, with room for rounding."""
        return self.target - self.sign * slack(self.target)

    def reached(self, values: FloatArray) -> BoolArray:
        """Whether means, or ends of intervals, reach the target; NaN does not."""
        return self.sign * values >= self.sign * self.end

    def ends(self, settings: Settings, places: IntArray, *, level: float, times: float = 1.0) -> FloatArray:
        """What is held against the target at some places."""
        if self.constraint.by == "mean":
            return settings.means(self.measure, places)
        low, high = settings.bounds(self.measure, places, level=level, times=times)
        return low if self.sign > 0 else high


@dataclass(frozen=True, eq=False, kw_only=True)
class Found:
    """A setting that an optimum keeps.

    Attributes:
        values: its parameters, the threshold among them.
        short: the same with a threshold of few digits that selects the same (see `Line.short`).
        means: by measure.
        n: by measure, how many queries it applies to.
        bounds: by text of the constraint, what was held against its target, as the constraint counts.
        missed: places, among the policy's constraints, of those that are not met.
    """

    values: Mapping[str, Value]
    short: Mapping[str, Value]
    means: Mapping[Measure, float]
    n: Mapping[Measure, int]
    bounds: Mapping[str, float]
    missed: tuple[int, ...] = ()


class Optimum:
    """Keeps the best setting that meets a policy, and until there is one what comes nearest; a keeper of sweeps.

    Attributes:
        policy: what is chosen by.
        limits: its constraints with their targets as numbers.
        settings: how many were looked at.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        level: float = LEVEL,
        base: Mapping[Metric, float] | None = None,
        reach: float = 1.0,
        worth: float = 1.0,
        defaults: Mapping[str, Value] | None = None,
    ) -> None:
        """Begin with no setting.

        Args:
            policy: what is chosen by.
            level: of the intervals.
            base: means of the base, for constraints `of: base`.
            reach: see `reach_of`, for constraints `of: reachable`.
            worth: how many independent queries a query is worth, above 0: below 1 where queries of one group answer
                alike (see `stats.worth`). One factor for all measures and settings, so that sweeps need no groups.
            defaults: values of the selector's parameters, to which the setting that is chosen of equals is nearest:
                the differences, each as a share of the default or of 1 if that is more, are added up.

        Raises:
            ParameterError: the base lacks a metric.
        """
        self.policy = policy
        self.limits = tuple(Limit.of(one, base or {}, reach=reach) for one in policy.constraints)
        self.settings = 0
        self._level, self._worth = level, worth
        self._defaults = defaults or {}
        self._aims = [(Measure(policy.objective), 1 if policy.minimise else -1), (COMPLETENESS, -1), (TOKENS, 1)]
        self._best: Settings | None = None
        self._key: tuple[float, ...] = ()
        self._near: Settings | None = None
        self._short = math.inf  # how many times as many queries the nearest would need, roughly
        self._alone: list[Settings | None] = [None] * len(self.limits)
        self._beside: list[Settings | None] = [None] * len(self.limits)

    def take(self, line: Line) -> None:
        """Look at the settings of a line."""
        self.consider(LineSettings(line))

    def consider(self, settings: Settings) -> None:
        """Look at settings along one threshold."""
        self.settings += len(settings.thresholds)
        reached = [settings.within(limit.measure, limit.sign, limit.end) for limit in self.limits]
        if self._best is None:
            self._note_reach(settings, reached)
        else:
            measure, sign = self._aims[0]
            reached.append(settings.aimed(measure, -sign, sign * (self._key[0] + slack(self._key[0]))))
        places = np.flatnonzero(_all(reached, len(settings.thresholds)))
        if len(places):
            self._choose(settings, places)

    def _choose(self, settings: Settings, places: IntArray) -> None:
        """Keep the best of these places if it beats what is kept; all meet the constraints by their means."""
        met = np.ones(len(places), dtype=np.bool_)
        short = np.ones(len(places))
        for limit in self.limits:
            if limit.constraint.by == "bound":
                ends = limit.ends(settings, places, level=self._level, times=self._worth)
                met &= limit.reached(ends)
                if self._best is None:
                    short = np.maximum(short, _shortness(limit, settings.means(limit.measure, places), ends))
        if met.any():
            place = self._first(settings, places[met])
            here = np.array([place])
            key = tuple(sign * float(settings.aims(measure, here)[0]) for measure, sign in self._aims)
            key = (*key, away(settings.at(place), self._defaults))
            if self._best is None or precedes(key, self._key):
                self._best, self._key = settings.pick(place), key
        elif self._best is None:
            nearest = int(short.argmin())
            if self._near is None or short[nearest] < self._short:
                self._near, self._short = settings.pick(int(places[nearest])), float(short[nearest])

    def _first(self, settings: Settings, places: IntArray) -> int:
        """The best of these places by the rules at the top."""
        for measure, sign in self._aims:
            values = sign * settings.aims(measure, places)
            best = float(values.min())
            if not math.isnan(best):
                places = places[values <= best + slack(best)]
        return steadiest(settings.thresholds, places)

    def _note_reach(self, settings: Settings, reached: Sequence[BoolArray]) -> None:
        """Keep the best mean of every constraint, and the best among those that meet the other constraints."""
        for which in range(len(self.limits)):
            others = [each for other, each in enumerate(reached) if other != which]
            self._keep_reach(self._alone, which, settings, None)
            if others:
                self._keep_reach(self._beside, which, settings, _all(others, len(settings.thresholds)))

    def _keep_reach(self, kept: list[Settings | None], which: int, settings: Settings, among: BoolArray | None) -> None:
        limit, old = self.limits[which], kept[which]
        place = settings.furthest(limit.measure, limit.sign, among)
        if place is None:
            return
        mean = float(settings.means(limit.measure, np.array([place]))[0])
        if old is None or limit.sign * mean > limit.sign * float(old.means(limit.measure)[0]):
            kept[which] = settings.pick(place)

    # ------------------------------------------------------------------------------------------ what was found

    @property
    def found(self) -> Found | None:
        """The best setting that meets all constraints; None if none does."""
        return None if self._best is None else self._found(self._best)

    def beats(self, other: Optimum) -> bool:
        """Whether the best of this one goes before that of another one of the same policy; equals do not."""
        aims = len(self._aims)
        return precedes(self._key[:aims], other._key[:aims])

    @property
    def nearest(self) -> Found | None:
        """Of the settings that meet all constraints by their means alone the one that would need the fewest queries.

        None if there is no such setting, or one that meets the constraints.
        """
        return None if self._best is not None or self._near is None else self._found(self._near)

    @property
    def shortage(self) -> float:
        """About how many times as many queries the nearest would need; infinite if there is no such setting."""
        return self._short

    def needed(self) -> int | None:
        """How many queries of the same kinds as those of the split it would take to recommend a setting.

        With the means, variances and skewness that were seen, and each query worth as much, the smallest number at
        which the best setting, or else the nearest, meets all constraints by its intervals and every measure applies to
        `FEWEST` queries. None if no number does: there is no such setting, its mean is on the target, or a measure
        applies to no query.
        """
        kept = self._best or self._near
        if kept is None or not all(kept.n(measure) for measure in self.concerned):
            return None
        low = high = self._queries(kept)
        while not self._enough(kept, high / low):
            high *= 2
            if high > _MOST:
                return None
        now, low = low, high // 2 if high > low else low - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._enough(kept, middle / now) else (middle, high)
        return high

    @property
    def concerned(self) -> tuple[Measure, ...]:
        """The measures of objective and constraints."""
        return tuple(dict.fromkeys([self._aims[0][0], *(limit.measure for limit in self.limits)]))

    @property
    def queries(self) -> int:
        """How many queries were measured; 0 before any line."""
        kept = self._best or self._near or next((one for one in self._alone if one is not None), None)
        return 0 if kept is None else self._queries(kept)

    def reach(self, which: int) -> tuple[Found | None, Found | None]:
        """The best mean of one constraint: among all settings, and among those whose means meet all the others."""
        alone, beside = self._alone[which], self._beside[which]
        return (
            None if alone is None else self._found(alone),
            None if beside is None else self._found(beside),
        )

    def _queries(self, settings: Settings) -> int:
        return max(settings.n(measure) for measure in (COMPLETENESS, TOKENS, *self.concerned))

    def _enough(self, kept: Settings, times: float) -> bool:
        here = np.zeros(1, dtype=np.int64)
        return all(kept.n(measure) * times >= FEWEST - SAME * FEWEST for measure in self.concerned) and all(
            limit.reached(limit.ends(kept, here, level=self._level, times=times * self._worth))[0]
            for limit in self.limits
        )

    def _found(self, one: Settings) -> Found:
        here = np.zeros(1, dtype=np.int64)
        measures = tuple(dict.fromkeys([COMPLETENESS, TOKENS, *self.concerned]))
        ends = [limit.ends(one, here, level=self._level, times=self._worth) for limit in self.limits]
        return Found(
            values=one.at(0),
            short=one.shortly(0),
            means={measure: float(one.means(measure)[0]) for measure in measures},
            n={measure: one.n(measure) for measure in measures},
            bounds={
                str(limit.constraint): limit.told(float(end[0])) for limit, end in zip(self.limits, ends, strict=True)
            },
            missed=tuple(place for place, end in enumerate(ends) if not self.limits[place].reached(end)[0]),
        )


def _all(masks: Sequence[BoolArray], n: int) -> BoolArray:
    """Where all masks hold, shape (n,)."""
    out = np.ones(n, dtype=np.bool_)
    for mask in masks:
        out &= mask
    return out


def _shortness(limit: Limit, means: FloatArray, ends: FloatArray) -> FloatArray:
    """About how many times as many queries it would take for an interval's end to reach the target.

    Intervals narrow with the root of n, so that it is ((mean - end) / (mean - target))^2; infinite on the target.
    """
    room = np.abs(means - limit.target)
    out = np.full(len(means), math.inf)
    np.divide(np.abs(means - ends), room, out=out, where=room > 0)
    return out**2
