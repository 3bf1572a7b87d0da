"""The best setting by a policy, of all lines of settings that it is shown; without one the nearest to the policy.

An optimum keeps a handful of settings, however many it looks at. Rules:

* A setting is recommendable if it keeps all limits (see `limits`), and its objective is better than the base's, unless
  the base itself misses what the policy asks by its means.
  Where queries come in groups differences are taken by group, and intervals are those of the fewer independent
  queries that they are worth. Sums that differ in the last digits only (1e-12) are the same, so that no order of
  adding decides.
* Of these the best objective wins; of equals the one with more completeness, then
  the one with fewer tokens, then in a line the one whose threshold is furthest from any that gives other means, or
  else offers least; then the one nearest to the defaults, then that of the earlier line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ctxbench.bench.stats import LEVEL
from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.selectors.parameters import Value
from ctxbench.tuning.limits import SAFETY_ERRORS, SAME, Limit, Policy, limits_of, no_worse_limit, rounding_error
from ctxbench.tuning.sweep.measures import COMPLETENESS, TOKENS, Measure
from ctxbench.tuning.sweep.threshold_lines import ThresholdLine
from ctxbench.tuning.swept_settings import LineSettings, SweptSettings

MIN_QUERIES = 20  # queries that every measure of a policy must apply to, below which nothing is recommended
MAX_FACTOR = 10  # times as many labels, past which more are unlikely to help
_KNOWN = 50  # queries, below which that many are taken for it, since little is known of the means
_DOUBT = 0.5  # standard errors by which the mean may be lower than seen, for the larger number of labels needed


@dataclass(frozen=True, eq=False, kw_only=True)
class BestSetting:
    """A setting that an optimum keeps.

    Attributes:
        values: its parameters, the threshold among them.
        rounded: the same with a threshold of few digits that selects the same (see `ThresholdLine.rounded_threshold`).
        means: by measure.
        n: by measure, how many queries it applies to.
        bounds: by text of each of the policy's constraints, what was held against its target, as the text counts.
        missed: places, among the limits, of those that are not kept.
    """

    values: Mapping[str, Value]
    rounded: Mapping[str, Value]
    means: Mapping[Measure, float]
    n: Mapping[Measure, int]
    bounds: Mapping[str, float]
    missed: tuple[int, ...] = ()


class Optimum:
    """Keeps the best setting that meets a policy, and until there is one the nearest; a collector of sweeps.

    Attributes:
        policy: what is chosen by.
        limits: what a setting must keep, the policy's constraints first.
        beat: the base's objective, which must be bettered; NaN = none must.
        settings: how many were looked at.
        shortage: about how many times as many queries the nearest would need; infinite if there is none.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        level: float = LEVEL,
        base: Mapping[Measure, float] | None = None,
        reach: float = 1.0,
        worth: float = 1.0,
        defaults: Mapping[str, Value] | None = None,
    ) -> None:
        """Begin with no setting.

        Args:
            policy: what is chosen by.
            level: of the intervals.
            base: means of the base by measure; without, nothing is held against it, and there is no room.
            reach: see `reach_ratio`, for constraints `of: reachable`.
            worth: how many independent queries a query is worth, above 0: below 1 where queries of one group answer
                alike (see `stats.worth`). One factor for all measures and settings, so that sweeps need no groups.
            defaults: values of the selector's parameters, to which the setting that is chosen of equals is nearest:
                the differences, each as a share of the default or of 1 if that is more, are added up.

        Raises:
            ParameterError: the base lacks a metric.
        """
        self.policy = policy
        self.limits = limits_of(policy, base or {}, reach=reach)
        self.settings = 0
        self._level, self._worth = level, worth
        self._defaults = defaults or {}
        self._aims = [(Measure(policy.objective), 1 if policy.minimise else -1), (COMPLETENESS, -1), (TOKENS, 1)]
        self.to_beat = self._objective_to_beat(base or {})
        if not math.isnan(self.to_beat) and not policy.minimise and policy.objective.declaration.scale != "amount":
            self.limits += (no_worse_limit(Measure(policy.objective), base or {}),)
        self._best: SweptSettings | None = None
        self._key: tuple[float, ...] = ()
        self._nearest: SweptSettings | None = None
        self.shortage = math.inf
        self._means_alone: list[SweptSettings | None] = [None] * len(policy.constraints)
        self._means_beside: list[SweptSettings | None] = [None] * len(policy.constraints)

    def _objective_to_beat(self, base: Mapping[Measure, float]) -> float:
        """The base's objective, if it keeps by its means what the policy asks; NaN = it does not, or is not known."""
        kept = all(
            limit.sign * (base.get(limit.measure, math.nan) - limit.target) >= -rounding_error(limit.target)
            for limit in self.limits
            if limit.from_policy
        )
        return base.get(self._aims[0][0], math.nan) if kept else math.nan

    def add(self, line: ThresholdLine | SweptSettings) -> None:
        """See the settings of a line."""
        self.add_settings(line if isinstance(line, SweptSettings) else LineSettings(line))

    def add_settings(self, settings: SweptSettings) -> None:
        """See settings along one threshold."""
        self.settings += len(settings)
        best = self._key[0] if self._best is not None else math.nan
        reached = [self._better(settings, best)] if not math.isnan(best) else []
        if not reached or reached[0].any():
            reached += [limit.mean_reaches(settings) for limit in self.limits]
            if self._best is None:
                self._keep_reaches(settings, reached)
                if not math.isnan(self.to_beat):
                    reached.append(self._better(settings, self._aims[0][1] * self.to_beat, strictly=True))
            places = np.flatnonzero(_all(reached, len(settings)))
            if len(places):
                self._keep_best(settings, places)

    def _better(self, settings: SweptSettings, key: float, *, strictly: bool = False) -> BoolArray:
        """Where the objective, as the first part of a key has it, is at most a value, or below it."""
        measure, sign = self._aims[0]
        room = rounding_error(key) * (-1 if strictly else 1)
        return settings.objective_reaches(measure, -sign, sign * (key + room))

    def _keep_best(self, settings: SweptSettings, places: IntArray) -> None:
        """Keep the best of these places if it beats what is kept; all keep the limits by their means."""
        met = np.ones(len(places), dtype=np.bool_)
        short = np.ones(len(places))
        for limit in self.limits:
            ends = limit.ends(settings, places, level=self._level, times=self._times(limit))
            kept = limit.is_reached(ends)
            met &= kept
            if self._best is None:
                nearer = _shortage_of(limit, settings.means(limit.measure, places), ends)
                short = np.maximum(short, np.where(kept, 1.0, nearer))
            beaten = self._best is not None or (self._nearest is not None and (short >= self.shortage).all())
            if beaten and not met.any():
                return  # whatever the other limits say
        if met.any():
            place = self._best_place(settings, places[met])
            here = np.array([place])
            key = tuple(sign * float(settings.objective_means(measure, here)[0]) for measure, sign in self._aims)
            key = (*key, distance(settings.values_at(place), self._defaults))
            if self._best is None or precedes(key, self._key):
                self._best, self._key = settings.select_place(place), key
        elif self._best is None:
            nearest = int(short.argmin())
            if self._nearest is None or short[nearest] < self.shortage:
                self._nearest, self.shortage = settings.select_place(int(places[nearest])), float(short[nearest])

    def _times(self, limit: Limit) -> float:
        """How many queries a query is worth to a limit; differences are by group themselves."""
        return self._worth if limit.by == "interval" else 1.0

    def _best_place(self, settings: SweptSettings, places: IntArray) -> int:
        """The best of these places by the rules of this module."""
        for measure, sign in self._aims:
            values = sign * settings.objective_means(measure, places)
            best = float(values.min())
            if not math.isnan(best):
                places = places[values <= best + rounding_error(best)]
        return most_stable(settings.thresholds, places)

    def _keep_reaches(self, settings: SweptSettings, reached: Sequence[BoolArray]) -> None:
        """Keep the best mean of every constraint, and the best among those that meet the other constraints."""
        for which in range(len(self._means_alone)):
            others = [each for other, each in enumerate(reached) if other != which]
            self._keep_reach(self._means_alone, which, settings, None)
            if others:
                self._keep_reach(self._means_beside, which, settings, _all(others, len(settings)))

    def _keep_reach(
        self, kept: list[SweptSettings | None], which: int, settings: SweptSettings, among: BoolArray | None
    ) -> None:
        limit, old = self.limits[which], kept[which]
        place = settings.best_place(limit.measure, limit.sign, among)
        if place is None:
            return
        mean = float(settings.means(limit.measure, np.array([place]))[0])
        if old is None or limit.sign * mean > limit.sign * float(old.means(limit.measure)[0]):
            kept[which] = settings.select_place(place)

    # ------------------------------------------------------------------------------------------ what was found

    @property
    def best(self) -> BestSetting | None:
        """The best setting that meets all constraints; None if none does."""
        return None if self._best is None else self._best_setting(self._best)

    @property
    def n(self) -> int | None:
        """The best fixed number of items, of an optimum that has seen these only; None if none does."""
        return None if self.best is None else int(self.best.values["n"])

    def beats(self, other: Optimum) -> bool:
        """Whether the best of this one goes before that of another one of the same policy; equals do not."""
        aims = len(self._aims)
        return precedes(self._key[:aims], other._key[:aims])

    @property
    def nearest(self) -> BestSetting | None:
        """Of the settings that meet all constraints by their means alone the one that would need the fewest queries.

        None if there is no such setting, or one that meets the constraints.
        """
        return None if self._best is not None or self._nearest is None else self._best_setting(self._nearest)

    def labels_needed(self) -> tuple[int, int] | None:
        """About how many more queries of the same kinds as those measured it would take to recommend a setting.

        From the smallest number at which the best setting, or else the nearest, keeps all limits and every measure of
        the policy applies to `MIN_QUERIES` queries, with the means and variances that were seen, to the number at which
        it would if its mean were half a standard error less favourable. None if `MAX_FACTOR` times as many would not
        do.
        """
        kept = self._best or self._nearest
        if kept is None or not all(kept.n(measure) for measure in self.measures):
            return None
        now = self._queries(kept)
        fewest, most = (self._fewest_queries(kept, now, doubt=doubt) for doubt in (0.0, _DOUBT))
        if fewest is None:
            return None
        return max(fewest - now, 1), max((MAX_FACTOR * max(now, _KNOWN) if most is None else most) - now, 1)

    def _fewest_queries(self, kept: SweptSettings, now: int, *, doubt: float) -> int | None:
        """The smallest number of queries that is enough, from as many as there are; None above `MAX_FACTOR` times."""
        low, high = now, MAX_FACTOR * max(now, _KNOWN)
        if self._is_enough(kept, 1.0, doubt=doubt):
            return now
        if not self._is_enough(kept, high / now, doubt=doubt):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_enough(kept, middle / now, doubt=doubt) else (middle, high)
        return high

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of objective and constraints."""
        return tuple(dict.fromkeys([self._aims[0][0], *(one.measure for one in self.limits if one.from_policy)]))

    @property
    def queries(self) -> int:
        """How many queries were measured; 0 before any line."""
        kept = self._best or self._nearest or next((one for one in self._means_alone if one is not None), None)
        return 0 if kept is None else self._queries(kept)

    def best_means(self, which: int) -> tuple[BestSetting | None, BestSetting | None]:
        """The best mean of one constraint: among all settings, and among those whose means meet all the others."""
        alone, beside = self._means_alone[which], self._means_beside[which]
        return (
            None if alone is None else self._best_setting(alone),
            None if beside is None else self._best_setting(beside),
        )

    def _queries(self, settings: SweptSettings) -> int:
        return max(settings.n(measure) for measure in (COMPLETENESS, TOKENS, *self.measures))

    def _is_enough(self, kept: SweptSettings, times: float, *, doubt: float) -> bool:
        here = np.zeros(1, dtype=np.int64)
        if any(kept.n(measure) * times < MIN_QUERIES - SAME * MIN_QUERIES for measure in self.measures):
            return False
        for limit in self.limits:
            now, then = (
                limit.ends(kept, here, level=self._level, times=one * self._times(limit)) for one in (1.0, times)
            )
            shift = (kept.means(limit.measure, here) - now) * doubt / SAFETY_ERRORS if doubt else 0.0
            if not limit.is_reached(then - shift)[0]:
                return False
        return True

    def _best_setting(self, one: SweptSettings) -> BestSetting:
        here = np.zeros(1, dtype=np.int64)
        measures = tuple(dict.fromkeys([COMPLETENESS, TOKENS, *self.measures, *(each.measure for each in self.limits)]))
        ends = [limit.ends(one, here, level=self._level, times=self._times(limit)) for limit in self.limits]
        return BestSetting(
            values=one.values_at(0),
            rounded=one.rounded_values(0),
            means={measure: float(one.means(measure)[0]) for measure in measures},
            n={measure: one.n(measure) for measure in measures},
            bounds={
                limit.text: limit.in_text_unit(max(float(end[0]), 0.0))
                for limit, end in zip(self.limits, ends, strict=True)
                if limit.from_policy
            },
            missed=tuple(place for place, end in enumerate(ends) if not self.limits[place].is_reached(end)[0]),
        )


def _all(masks: Sequence[BoolArray], n: int) -> BoolArray:
    """Where all masks hold, shape (n,)."""
    return reduce(np.logical_and, masks, np.ones(n, dtype=np.bool_))


def _shortage_of(limit: Limit, means: FloatArray, ends: FloatArray) -> FloatArray:
    """About how many times as many queries it would take for an interval's end to reach the target.

    Intervals narrow with the root of n, so that it is ((mean - end) / (mean - target))^2; infinite on the target.
    """
    room = np.abs(means - limit.end)
    out = np.full(len(means), math.inf)
    np.divide(np.abs(means - ends), room, out=out, where=room > 0)
    return out**2


def precedes(key: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether a key is less than another, parts that are the same up to rounding, or NaN, passed over."""
    for mine, theirs in zip(key, other, strict=True):
        if abs(mine - theirs) > rounding_error(theirs):
            return mine < theirs
    return False


def distance(values: Mapping[str, Value], defaults: Mapping[str, Value]) -> float:
    """The distance of values from defaults, over the parameters that have one."""
    total = 0.0
    for name, default in defaults.items():
        value = values.get(name, default)
        if isinstance(value, str) or isinstance(default, str):
            total += value != default
        else:
            total += abs(value - default) / max(abs(default), 1)
    return total


def most_stable(thresholds: FloatArray, places: IntArray) -> int:
    """Of places with the same means the one with its threshold furthest from those of others; the first of equals."""
    if len(places) == 1:
        return int(places[0])
    others = np.sort(np.delete(thresholds, places))
    if not len(others):
        return int(places[0])
    own = thresholds[places]
    right = np.searchsorted(others, own)
    above = np.where(right < len(others), others[np.minimum(right, len(others) - 1)] - own, math.inf)
    below = np.where(right > 0, own - others[np.maximum(right - 1, 0)], math.inf)
    return int(places[np.minimum(above, below).argmax()])
