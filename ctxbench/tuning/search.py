"""The best setting for a policy, by exact sweep or by trials.

* A setting can be recommended if it keeps all limits (`ctxbench.tuning.policy`) and its objective is better than the
  base's. The second condition is dropped if the base misses the policy by its means. With grouped queries, differences
  are taken by group, and intervals are those of the equivalent number of independent queries. Sums that differ by less
  than 1e-12 are equal.
* The best objective wins; then more completeness; then fewer tokens; then, on one line, the threshold furthest from any
  with other means, or else the one that offers least; then the setting nearest to the defaults; then the first line.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from typing import Any, TypeAlias

import numpy as np

from ctxbench.evaluation.comparisons import worth_of
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.statistics import LEVEL
from ctxbench.io.errors import Message, ParameterError, UserError
from ctxbench.io.workers import OptionalPool
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.selectors.selector import Value
from ctxbench.tuning.cut_families import CutFamily, LineSettings, SweptSettings, sweep
from ctxbench.tuning.domains import DomainPair, pair_parts
from ctxbench.tuning.measures import COMPLETENESS, TOKENS, Measure, Pairing, queries_by_type
from ctxbench.tuning.policy import (
    SAFETY_ERRORS,
    SAME,
    Limit,
    Policy,
    PolicyFile,
    kept_measures,
    limits_of,
    no_worse_limit,
    paired_measures,
    policy_measures,
    reach_ratio,
    rounding_error,
)
from ctxbench.tuning.rankings import MeasuredRankings, Part, Sweep, run_sweeps, seconds_of
from ctxbench.tuning.results import FullRanking, QuerySet
from ctxbench.tuning.setting_lines import (
    Collector,
    Front,
    OutputCache,
    SettingRunner,
    ThresholdLine,
    distance,
    draw_settings,
    most_stable,
    setting_line,
    show_lines,
)
from ctxbench.tuning.tunables import FIRST_N, ExpansionSweep, Tunable, setting_text, why_not_exact

MIN_QUERIES = 20  # every measure of a policy must apply to as many queries, or nothing is recommended
MAX_FACTOR = 10  # if even this many times as many labels would not be enough, more are unlikely to help
_KNOWN = 50  # with fewer queries, `MAX_FACTOR` counts from this number, since the means are uncertain
_DOUBT = 0.5  # standard errors by which the mean is lowered, for the larger number of labels needed


@dataclass(frozen=True, eq=False, kw_only=True)
class BestSetting:
    """A setting that an optimum keeps.

    Attributes:
        values: of its parameters, with the threshold.
        rounded: the same with a threshold of few digits that selects the same (see `ThresholdLine.rounded_threshold`).
        means: by measure.
        n: by measure, how many queries it applies to.
        bounds: by text of each constraint, the value that was compared with its target, in the unit of the text.
        missed: indices of the limits that are not kept.
    """

    values: Mapping[str, Value]
    rounded: Mapping[str, Value]
    means: Mapping[Measure, float]
    n: Mapping[Measure, int]
    bounds: Mapping[str, float]
    missed: tuple[int, ...] = ()


DEFAULT = BestSetting(values={}, rounded={}, means={}, n={}, bounds={})
"""The defaults of a selector."""
Setting: TypeAlias = tuple[str, Mapping[str, Value]]
"""The name of a selector, and values of its parameters."""


class Optimum:
    """Keeps the best setting that meets a policy, or the nearest one as long as none does; a collector of sweeps.

    Attributes:
        policy: the policy.
        limits: all limits of a setting, the policy's constraints first.
        to_beat: the base's objective, which a setting must improve on; NaN = no such condition.
        settings: how many settings were added.
        shortage: about how many times as many queries the nearest setting would need; infinite if there is none.
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
        """Start without a setting.

        Args:
            policy: the policy.
            level: of the intervals.
            base: means of the base by measure; without it there are no comparisons with the base, and no room.
            reach: see `reach_ratio`, for constraints `of: reachable`.
            worth: how many independent queries a query is worth, above 0; below 1 if queries of one group have similar
                results (see `ctxbench.evaluation.comparisons.worth`). It is one factor for all measures and settings,
                so sweeps need no groups.
            defaults: values of the selector's parameters. Of equal settings, the one nearest to them is chosen; the
                distance is the sum of differences, each divided by the default or by 1 if that is more.

        Raises:
            ParameterError: the base lacks a metric.
        """
        self.policy = policy
        self.limits = limits_of(policy, base or {}, reach=reach)
        self.settings = 0
        self._level, self._worth = level, worth
        self._defaults = defaults or {}
        self._aims = [(Measure(policy.objective), 1 if policy.minimise else -1), (COMPLETENESS, -1), (TOKENS, 1)]
        means = base or {}  # the objective is to be beaten where the base keeps the constraints by its means
        is_met = all(
            limit.sign * (means.get(limit.measure, math.nan) - limit.target) >= -rounding_error(limit.target)
            for limit in self.limits
            if limit.from_policy
        )
        self.to_beat = means.get(self._aims[0][0], math.nan) if is_met else math.nan
        if not math.isnan(self.to_beat) and not policy.minimise and policy.objective.declaration.scale != "amount":
            self.limits += (no_worse_limit(Measure(policy.objective), base or {}),)
        self._best: SweptSettings | None = None
        self._key: tuple[float, ...] = ()
        self._nearest: SweptSettings | None = None
        self.shortage = math.inf
        self._means_alone: list[SweptSettings | None] = [None] * len(policy.constraints)
        self._means_constrained: list[SweptSettings | None] = [None] * len(policy.constraints)

    def merge(self, later: Optimum) -> None:
        """Take the settings of an optimum of the same policy into account that has seen later lines."""
        self.settings += later.settings
        if self._best is None:
            for index, limit in enumerate(self.limits[: len(self._means_alone)]):
                _keep_higher(self._means_alone, index, limit, later._means_alone[index])
                _keep_higher(self._means_constrained, index, limit, later._means_constrained[index])
            if later.shortage < self.shortage:
                self._nearest, self.shortage = later._nearest, later.shortage
        if later._best is not None and (self._best is None or precedes(later._key, self._key)):
            self._best, self._key = later._best, later._key

    def add(self, line: ThresholdLine | SweptSettings) -> None:
        """Take the settings of a line into account."""
        self.add_settings(line if isinstance(line, SweptSettings) else LineSettings(line))

    def add_settings(self, settings: SweptSettings) -> None:
        """Take settings along one threshold into account."""
        self.settings += len(settings)
        best = self._key[0] if self._best is not None else math.nan
        reached = [self._better(settings, best)] if not math.isnan(best) else []
        if not reached or reached[0].any():
            reached += [limit.mean_reaches(settings) for limit in self.limits]
            if self._best is None:
                self._keep_reaches(settings, reached)
                if not math.isnan(self.to_beat):
                    reached.append(self._better(settings, self._aims[0][1] * self.to_beat, strictly=True))
            indices = np.flatnonzero(_all(reached, len(settings)))
            if len(indices):
                self._keep_best(settings, indices)

    def _better(self, settings: SweptSettings, key: float, *, strictly: bool = False) -> BoolArray:
        """Where the objective, as the first part of a key has it, is at most a value, or below it."""
        measure, sign = self._aims[0]
        room = rounding_error(key) * (-1 if strictly else 1)
        return settings.objective_reaches(measure, -sign, sign * (key + room))

    def _keep_best(self, settings: SweptSettings, indices: IntArray) -> None:
        """Keep the best of these settings if it beats the best so far; all keep the limits by their means."""
        met = np.ones(len(indices), dtype=np.bool_)
        short = np.ones(len(indices))
        for limit in self.limits:
            ends = limit.ends(settings, indices, level=self._level, times=self._times(limit))
            is_kept = limit.is_reached(ends)
            met &= is_kept
            if self._best is None:
                nearer = _shortage_of(limit, settings.means(limit.measure, indices), ends)
                short = np.maximum(short, np.where(is_kept, 1.0, nearer))
            beaten = self._best is not None or (self._nearest is not None and (short >= self.shortage).all())
            if beaten and not met.any():
                return  # the other limits cannot change it
        if met.any():
            index = self._best_index(settings, indices[met])
            chosen = np.array([index])
            key = tuple(sign * float(settings.objective_means(measure, chosen)[0]) for measure, sign in self._aims)
            key = (*key, distance(settings.values_at(index), self._defaults))
            if self._best is None or precedes(key, self._key):
                self._best, self._key = settings.select_setting(index), key
        elif self._best is None:
            nearest = int(short.argmin())
            if self._nearest is None or short[nearest] < self.shortage:
                self._nearest, self.shortage = settings.select_setting(int(indices[nearest])), float(short[nearest])

    def _times(self, limit: Limit) -> float:
        """How many queries a query is worth for a limit; differences are already by group."""
        return self._worth if limit.by == "interval" else 1.0

    def _best_index(self, settings: SweptSettings, indices: IntArray) -> int:
        """The best of these indices by the rules of this module."""
        for measure, sign in self._aims:
            values = sign * settings.objective_means(measure, indices)
            best = float(values.min())
            if not math.isnan(best):
                indices = indices[values <= best + rounding_error(best)]
        return most_stable(settings.thresholds, indices)

    def _keep_reaches(self, settings: SweptSettings, reached: Sequence[BoolArray]) -> None:
        """Keep the best mean of every constraint, and the best among those that meet the other constraints."""
        for index, limit in enumerate(self.limits[: len(self._means_alone)]):
            rest = [mask for position, mask in enumerate(reached) if position != index]
            masks = [(self._means_alone, None)] + [(self._means_constrained, _all(rest, len(settings)))] * bool(rest)
            for best, mask in masks:
                if (position := settings.best_index(limit.measure, limit.sign, mask)) is not None:
                    _keep_higher(best, index, limit, settings, position)

    @property
    def best(self) -> BestSetting | None:
        """The best setting that keeps all limits; None if there is none."""
        return None if self._best is None else self._best_setting(self._best)

    @property
    def n(self) -> int | None:
        """The best fixed number of items, of an optimum over first-n settings; None if there is none."""
        return None if self.best is None else int(self.best.values["n"])

    def beats(self, optimum: Optimum) -> bool:
        """Whether the best setting is better than that of another optimum of the same policy; False if equal."""
        aims = len(self._aims)
        return precedes(self._key[:aims], optimum._key[:aims])

    @property
    def nearest(self) -> BestSetting | None:
        """Of the settings that keep all limits by their means alone, the one that would need the fewest queries.

        None if there is no such setting, or if a setting keeps all limits.
        """
        return None if self._best is not None or self._nearest is None else self._best_setting(self._nearest)

    def labels_needed(self) -> tuple[int, int] | None:
        """About how many more queries of the same kinds it would take to recommend a setting: the range from and to.

        The lower number is the smallest at which the best setting, or else the nearest, keeps all limits, and every
        measure of the policy applies to `MIN_QUERIES` queries, with the observed means and variances. The higher number
        is the same with means that are half a standard error less favourable. None if `MAX_FACTOR` times as many
        queries would not be enough.
        """
        settings = self._best or self._nearest
        if settings is None or not all(settings.n(measure) for measure in self.measures):
            return None
        queries = self._queries(settings)
        fewest, largest = (self._fewest_queries(settings, queries, doubt=doubt) for doubt in (0.0, _DOUBT))
        if fewest is None:
            return None
        return max(fewest - queries, 1), max(
            (MAX_FACTOR * max(queries, _KNOWN) if largest is None else largest) - queries, 1
        )

    def _fewest_queries(self, settings: SweptSettings, queries: int, *, doubt: float) -> int | None:
        """The smallest number of queries that is enough, from `queries` on; None above `MAX_FACTOR` times as many."""
        low, high = queries, MAX_FACTOR * max(queries, _KNOWN)
        if self._is_enough(settings, 1.0, doubt=doubt):
            return queries
        if not self._is_enough(settings, high / queries, doubt=doubt):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._is_enough(settings, middle / queries, doubt=doubt) else (middle, high)
        return high

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures of objective and constraints."""
        return tuple(dict.fromkeys([self._aims[0][0], *(limit.measure for limit in self.limits if limit.from_policy)]))

    @property
    def queries(self) -> int:
        """How many queries were measured; 0 before any line."""
        settings = next(filter(None, (self._best, self._nearest, *self._means_alone)), None)
        return 0 if settings is None else self._queries(settings)

    def best_means(self, index: int) -> tuple[BestSetting | None, BestSetting | None]:
        """The settings with the best mean of one constraint: of all, and of those whose means keep the other limits."""
        alone, constrained = self._means_alone[index], self._means_constrained[index]
        return (
            None if alone is None else self._best_setting(alone),
            None if constrained is None else self._best_setting(constrained),
        )

    def _queries(self, settings: SweptSettings) -> int:
        return max(settings.n(measure) for measure in (COMPLETENESS, TOKENS, *self.measures))

    def _is_enough(self, settings: SweptSettings, times: float, *, doubt: float) -> bool:
        first = np.zeros(1, dtype=np.int64)
        if any(settings.n(measure) * times < MIN_QUERIES - SAME * MIN_QUERIES for measure in self.measures):
            return False
        for limit in self.limits:
            current, projected = (
                limit.ends(settings, first, level=self._level, times=factor * self._times(limit))
                for factor in (1.0, times)
            )
            shift = (settings.means(limit.measure, first) - current) * doubt / SAFETY_ERRORS if doubt else 0.0
            if not limit.is_reached(projected - shift)[0]:
                return False
        return True

    def _best_setting(self, settings: SweptSettings) -> BestSetting:
        first = np.zeros(1, dtype=np.int64)
        measures = tuple(
            dict.fromkeys([COMPLETENESS, TOKENS, *self.measures, *(limit.measure for limit in self.limits)])
        )
        ends = [limit.ends(settings, first, level=self._level, times=self._times(limit)) for limit in self.limits]
        return BestSetting(
            values=settings.values_at(0),
            rounded=settings.rounded_values(0),
            means={measure: float(settings.means(measure)[0]) for measure in measures},
            n={measure: settings.n(measure) for measure in measures},
            bounds={
                limit.text: limit.in_text_unit(max(float(end[0]), 0.0))
                for limit, end in zip(self.limits, ends, strict=True)
                if limit.from_policy
            },
            missed=tuple(index for index, end in enumerate(ends) if not self.limits[index].is_reached(end)[0]),
        )


def _keep_higher(
    best: list[SweptSettings | None], index: int, limit: Limit, settings: SweptSettings | None, position: int = 0
) -> None:
    """Keep one of some settings at an index of a list, if it has a better mean of a limit than what is there."""
    if settings is not None:
        mean, old = float(settings.means(limit.measure, np.array([position]))[0]), best[index]
        if old is None or limit.sign * mean > limit.sign * float(old.means(limit.measure)[0]):
            best[index] = settings.select_setting(position)


def _all(masks: Sequence[BoolArray], n: int) -> BoolArray:
    """Where all masks hold, shape (n,)."""
    return reduce(np.logical_and, masks, np.ones(n, dtype=np.bool_))


def _shortage_of(limit: Limit, means: FloatArray, ends: FloatArray) -> FloatArray:
    """About how many times as many queries it would take for the end of an interval to reach the target.

    Intervals narrow with the square root of n, so it is ((mean - end) / (mean - target))^2; infinite on the target.
    """
    room = np.abs(means - limit.end)
    out = np.full(len(means), math.inf)
    np.divide(np.abs(means - ends), room, out=out, where=room > 0)
    return out**2


def labels_to_confirm(gain: float, error: float, queries: int) -> tuple[int, int] | None:
    """About how many more queries would make a gain significant, as of `Optimum.labels_needed`.

    Args:
        gain: the mean difference to what it is compared with, above 0 if it is better.
        error: its standard error.
        queries: how many queries were measured.
    """
    largest = MAX_FACTOR * max(queries, _KNOWN)
    means = (gain, gain - _DOUBT * error)
    sizes = [queries * (SAFETY_ERRORS * error / mean) ** 2 if mean > 0 else math.inf for mean in means]
    if not sizes[0] <= largest:
        return None
    fewest, at_most = (max(math.ceil(min(number, largest)) - queries, 1) for number in sizes)
    return fewest, at_most


def precedes(key: tuple[float, ...], other_key: tuple[float, ...]) -> bool:
    """Whether a key is less than another. Parts that are equal up to rounding, or NaN, are skipped."""
    for mine, theirs in zip(key, other_key, strict=True):
        if abs(mine - theirs) > rounding_error(theirs):
            return mine < theirs
    return False


MAX_REPEATS = 128  # sums that are stored to find repetitions
TRIED_CUTS = 8  # settings of the front that are run with the steps behind the cut
REPORTED = tuple(Measure(Metric(name)) for name in ("completeness", "recall", "tokens", "items"))


@dataclass(frozen=True, eq=False)
class Competitor:
    """A selector with its rankings of the tuning set of a dataset.

    Attributes:
        tunable: the selector.
        query_set: the tuning set.
        full_ranking: its ranking of the tuning set.
        rankings: the same, measured at every length.
        policies: what is measured.
    """

    tunable: Tunable
    query_set: QuerySet
    full_ranking: FullRanking
    rankings: MeasuredRankings
    policies: tuple[Policy, ...] = ()
    _memo: OutputCache = field(default_factory=OutputCache)
    _last: dict[str, Competitor] = field(default_factory=dict)  # what `at` gave last, by its key

    @classmethod
    def of(
        cls,
        tunable: Tunable,
        query_set: QuerySet,
        policies: Collection[Policy],
        chosen: Mapping[str, Value] | None = None,
        memo: MutableMapping[str, Any] | None = None,
    ) -> Competitor:
        """Rank with its defaults, or with chosen values, and measure the rankings at every length.

        Raises:
            UserError: it fails, or its rankings lack scores.
        """
        full_ranking = tunable.rank(query_set, chosen, memo)
        powers = {**policy_measures(policies), **dict.fromkeys(kept_measures(queries_by_type(query_set.labels)), 1)}
        failed = np.array(
            [query in full_ranking.answers.errors for query in full_ranking.answers.queries], dtype=np.bool_
        )
        rankings = MeasuredRankings.of(
            full_ranking.answers.candidates, query_set.labels, [*powers, *REPORTED], powers=powers, failed=failed
        )
        return cls(tunable, query_set, full_ranking, rankings, tuple(policies))

    def at(self, values: Mapping[str, Value]) -> Competitor:
        """The same selector at other values of the parameters in front of its cuts; itself if they are its values.

        Raises:
            UserError: it fails there, or ranks without scores there and with scores here.
        """
        tunable = self.tunable.at(values)
        if tunable.values() == self.tunable.values():
            return self
        if (key := tunable.head_key({})) not in self._last:
            chosen = Competitor.of(tunable, self.query_set, self.policies, memo=self._memo)
            tunable = tunable.with_ranges_of([self.query_set])
            if tunable.swept_parameters != self.tunable.swept_parameters:
                raise ParameterError(Message("tuning.scores-of-some", setting=setting_text(self.name, tunable.start)))
            self._last.clear()
            self._last[key] = replace(chosen, tunable=tunable, _memo=self._memo, _last=self._last)
        return replace(self._last[key], rankings=replace(self._last[key].rankings, pairing=self.rankings.pairing))

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.tunable.name

    def with_base(self, base: Base) -> Competitor:
        """The same competitor, with the base of paired differences."""
        return replace(self, rankings=self.rankings.with_base(base.pairing))

    def by_query(self, values: Mapping[str, Value]) -> dict[Measure, FloatArray]:
        """The values of all measures at one setting, by query."""
        if (competitor := self.at(values)) is not self:
            return competitor.by_query(values)
        if self.tunable.is_swept(values):
            if self.tunable.family is not None:
                return self.tunable.family.by_query(self.rankings, self.tunable.values(values))
            if self.domain_pair is not None:
                return self.domain_pair.by_query(self.tunable.values(values))
        return dict(self.runner.values(self.tunable.values(values)))

    @cached_property
    def domain_pair(self) -> DomainPair | None:
        """Both domains of a selector that has two."""
        return DomainPair(self.rankings, self.tunable.domains) if self.tunable.domains else None

    @cached_property
    def runner(self) -> SettingRunner:
        """Runs settings that a sweep cannot evaluate."""
        return SettingRunner(
            self.tunable.definition,
            self.query_set.batch,
            resources=self.query_set.resources,
            labels=self.query_set.labels,
            measures=self.rankings.measures,
            pairing=self.rankings.pairing,
        )


@dataclass(frozen=True, eq=False)
class Base:
    """The baseline of recommendations: the first selector of the file with its defaults.

    Attributes:
        means: by measure, for measures that apply to any query.
        pairing: its values by query, for paired differences.
        queries_by_type: by item type, the queries that require an item of it, shape (n_queries,).
        reachable: the queries that the first items of its ranking make complete, shape (n_queries,).
        complete: completeness by query, shape (n_queries,); NaN if a query needs nothing.
        effective_queries: to how many independent queries the queries that need an item, in groups, are equivalent.
    """

    means: Mapping[Measure, float]
    pairing: Pairing
    queries_by_type: Mapping[str, BoolArray]
    reachable: BoolArray
    complete: FloatArray
    effective_queries: float

    @property
    def in_need(self) -> int:
        """How many queries need an item."""
        return int((~np.isnan(self.complete)).sum())

    @property
    def worth(self) -> float:
        """How many independent queries a query is worth, in (0, 1]; see `Optimum`."""
        return self.effective_queries / self.in_need if self.in_need else 1.0

    @classmethod
    def of(cls, competitor: Competitor, policies: Collection[Policy]) -> Base:
        """Measure the base, for some policies."""
        values = competitor.by_query({})
        applicable = {measure: by_query for measure, by_query in values.items() if not np.isnan(by_query).all()}
        complete = values[COMPLETENESS]
        return cls(
            means={measure: float(np.nanmean(by_query)) for measure, by_query in applicable.items()},
            pairing=Pairing(
                base={measure: values[measure] for measure in paired_measures(policies)},
                group=competitor.query_set.group,
            ),
            queries_by_type=competitor.rankings.queries_by_type,
            reachable=competitor.rankings.reachable,
            complete=complete,
            effective_queries=worth_of(complete, competitor.query_set.group),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchResult:
    """The result of a search through the settings of one selector.

    Attributes:
        competitor: the selector.
        optima: the best setting, by policy name.
        fixed: the best fixed number of items, by policy name.
        front: settings that no other beats in prompt tokens and completeness.
        settings: how many settings were evaluated exactly.
        tried: how many settings were run, or of the parameters in front of the cuts, besides the defaults.
        failed: by setting in words, why it was left out.
    """

    competitor: Competitor
    optima: Mapping[str, Optimum]
    fixed: Mapping[str, Optimum]
    front: Front
    settings: int = 0
    tried: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)

    def add_preset(self, values: Mapping[str, Value]) -> None:
        """Add a preset, unless the sweep evaluated that setting."""
        tunable = self.competitor.tunable
        if self.settings and tunable.is_swept(values) and not tunable.entry.search:
            return
        if self.competitor.full_ranking.refitted and not tunable.is_swept(values):
            return  # it can only be run, and its fit has seen these queries
        by_query = self.competitor.by_query(values)
        line = setting_line(tunable.values(values), by_query, pairing=self.competitor.rankings.pairing)
        show_lines([line], [*self.optima.values(), self.front])


class Search:
    """A search through all settings of a selector.

    Args:
        competitor: the selector, with differences to the base.
        file: the policy file, with the policies that the labels can answer.
        base: the base on the same queries.
        progress: called with how many settings have been evaluated.
    """

    def __init__(
        self,
        competitor: Competitor,
        file: PolicyFile,
        base: Base,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.competitor = competitor
        self._file, self._base, self._progress = file, base, progress
        self._best, self._fixed = optima_of(competitor, file, base=base), first_n(competitor, file, base=base)
        self._front = self._cuts = Front(cost=TOKENS, gain=COMPLETENESS)
        self._expands = competitor.tunable.family is not None and competitor.tunable.has_expansion({})
        if self._expands:
            self._cuts = Front(cost=TOKENS, gain=COMPLETENESS)

    def sweeps(self) -> list[Sweep]:
        """What `result` needs first; at most one."""
        tunable, rankings, family = self.competitor.tunable, self.competitor.rankings, self.competitor.tunable.family
        source: Any = rankings
        collectors: list[Optimum | Front] = [*self._best.values(), self._front]
        parts: Callable[[int], list[Part]]
        if family is not None and not tunable.tried_heads:
            add_cuts = partial(_add_cuts, defaults=tunable.values())
            parts = lambda n: [partial(add_cuts, part) for part in family.parts(n)]  # noqa: E731 - it is an attribute
            collectors = [self._cuts] if self._expands else collectors
        elif (source := self.competitor.domain_pair) is not None:
            parts = partial(pair_parts, self._file.policies.values(), self._base.means, self._base.queries_by_type)
        else:
            return []
        seconds = seconds_of(tunable.n_lines, rankings)
        return [Sweep(source=source, parts=parts, collectors=collectors, seconds=seconds, progress=self._progress)]

    def result(self, counts: Sequence[int] = ()) -> SearchResult:
        """The best settings, once its sweep is done; settings that cannot be swept are run.

        Args:
            counts: the number of settings of each part of its sweep.
        """
        competitor, tunable = self.competitor, self.competitor.tunable
        collectors: list[Collector[ThresholdLine]] = [*self._best.values(), self._front]
        settings = 0 if self._expands else max(counts, default=0) if tunable.domains else sum(counts)
        tried, failed = 0, dict[str, str]()
        if tunable.family is not None and tunable.tried_heads:
            repeat_filter = RepeatFilter([*self._best.values(), self._front], tunable.values())
            settings, tried, failed = _sweep_heads(competitor, self._file, repeat_filter, progress=self._progress)
        elif tunable.tried_values or tunable.has_expansion({}):
            for line in _run_settings(competitor, self._file, self._cuts):
                if line.axis:
                    settings += len(line)
                for collector in collectors:
                    collector.add(line)
            tried = competitor.runner.runs
        return SearchResult(
            competitor=competitor,
            optima=self._best,
            fixed=self._fixed,
            front=self._front,
            settings=settings,
            tried=tried,
            failed=failed,
        )


def run_searches(searches: Sequence[Search], pool: OptionalPool) -> list[SearchResult]:
    """The results of searches, of which a pool may do the sweeps."""
    sweeps = [search.sweeps() for search in searches]
    counts = iter(run_sweeps([sweep for of_search in sweeps for sweep in of_search], pool))
    return [
        search.result(next(counts) if of_search else ()) for search, of_search in zip(searches, sweeps, strict=True)
    ]


def preset_search(competitor: Competitor, file: PolicyFile, *, base: Base) -> SearchResult:
    """The search of a selector that is not tuned; `add_preset` adds its presets."""
    return SearchResult(
        competitor=competitor,
        optima=optima_of(competitor, file, base=base),
        fixed=first_n(competitor, file, base=base),
        front=Front(cost=TOKENS, gain=COMPLETENESS),
    )


def _add_cuts(
    family: CutFamily,
    rankings: MeasuredRankings,
    collectors: Sequence[Optimum | Front],
    *,
    defaults: Mapping[str, Value],
    progress: Callable[[int], None],
) -> int:
    """Sweep a family without its repeats; the number of settings."""
    return sweep(family, rankings, [RepeatFilter(collectors, defaults)], progress=progress)


def _sweep_heads(
    competitor: Competitor, file: PolicyFile, collector: RepeatFilter, *, progress: Callable[[int], None]
) -> tuple[int, int, dict[str, str]]:
    """Sweep the cuts at the defaults, and at drawn settings, of the parameters in front of them.

    Returns:
        How many settings were evaluated, at how many drawn ones besides the defaults, and why others were left out.
    """
    tunable, settings, tried = competitor.tunable, 0, 0
    failed: dict[str, str] = {}
    drawn = draw_settings(
        tunable.definition, tunable.tried_values, fixed=tunable.entry.set, trials=file.trials, seed=file.seed
    )
    for chosen in ({}, *filter(tunable.is_valid, drawn)):
        try:
            head = competitor.at(chosen)
        except UserError as error:
            failed[setting_text(tunable.name, {name: chosen[name] for name in tunable.tried_heads})] = str(error)
            continue
        if (chosen and head is competitor) or head.tunable.family is None:
            continue
        values = {name: head.tunable.values()[name] for name in tunable.tried_heads}
        for line in head.tunable.family.lines(head.rankings):
            collector.add(replace(line, values={**values, **line.values}))
            settings += len(line)
            progress(settings)
        tried += bool(chosen)
    return settings, tried, failed


class RepeatFilter:
    """Passes lines to collectors, except those that repeat an earlier one and are no nearer to the defaults.

    Above some topK, a larger one offers the same, and such lines share their sums. Of equal settings an optimum keeps
    the nearest to the defaults, then the first; a front keeps the first. So the skipped lines change no result.
    """

    def __init__(self, collectors: Sequence[Optimum | Front], defaults: Mapping[str, Value]) -> None:
        self._collectors, self._defaults = collectors, defaults
        self._nearest: OrderedDict[int, tuple[object, float]] = OrderedDict()  # by identity, held so that it stays

    def add(self, line: ThresholdLine) -> None:
        """Pass a line on, or only count its settings."""
        from_defaults = distance(line.values, self._defaults)
        sums, nearest = self._nearest.get(id(line.sums), (None, 0.0))
        if sums is line.sums and from_defaults >= nearest - rounding_error(nearest):
            for collector in self._collectors:
                collector.settings += len(line)
        else:
            self._nearest[id(line.sums)] = (line.sums, from_defaults)
            while len(self._nearest) > MAX_REPEATS:
                self._nearest.popitem(last=False)
            show_lines([line], self._collectors)


def optima_of(competitor: Competitor, file: PolicyFile, *, base: Base) -> dict[str, Optimum]:
    """Empty optima by name of the policy."""
    reach = reach_ratio(base.reachable, competitor.rankings.reachable)
    defaults = competitor.tunable.values()
    return {
        policy.name: Optimum(
            policy, level=file.confidence, base=base.means, reach=reach, worth=base.worth, defaults=defaults
        )
        for policy in file.policies.values()
    }


def first_n(competitor: Competitor, file: PolicyFile, *, base: Base) -> dict[str, Optimum]:
    """The best fixed number of items of its ranking, by name of the policy."""
    fixed = optima_of(competitor, file, base=base)
    sweep(FIRST_N, competitor.rankings, list(fixed.values()))
    return fixed


def _run_settings(competitor: Competitor, file: PolicyFile, cuts: Front) -> Iterator[ThresholdLine]:
    """Run settings, as lines: values listed in the file behind cuts of the front, or settings drawn from all.

    An expansion of one pass is swept exactly over its threshold and topN, from one run.
    """
    tunable, runner = competitor.tunable, competitor.runner
    if tunable.family is None:
        settings = draw_settings(
            tunable.definition, tunable.tried_values, fixed=tunable.entry.set, trials=file.trials, seed=file.seed
        )
        yield from runner.lines([setting for setting in settings if tunable.is_valid(setting)])
        return
    tried_cuts = cuts.thinned(min(TRIED_CUTS, file.trials))
    for cut in tried_cuts:
        settings = draw_settings(
            tunable.definition,
            tunable.tried_values,
            fixed={**tunable.entry.set, **cut},
            trials=max(file.trials // len(tried_cuts), 1),
            seed=file.seed,
        )
        for setting in filter(tunable.is_valid, settings):
            if why_not_exact(tunable.definition, setting):
                yield from runner.lines([setting])
            else:
                yield from ExpansionSweep.of(
                    runner, setting, labels=competitor.query_set.labels, measures=competitor.rankings.measures
                ).lines()
