"""Searches the settings of one selector on the tuning set: by an exact sweep where it can be, else by trials."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ctxbench.bench.metrics import Metric
from ctxbench.bench.stats import worth_of
from ctxbench.core.arrays import BoolArray, FloatArray
from ctxbench.selectors.parameters import Value
from ctxbench.tuning.limits import (
    MIN_KEPT,
    Policy,
    kept_measures,
    paired_measures,
    policy_measures,
    reach_ratio,
    rounding_error,
)
from ctxbench.tuning.optima import Optimum, distance
from ctxbench.tuning.policy_file import PolicyFile
from ctxbench.tuning.query_sets import FullRanking, QuerySet
from ctxbench.tuning.sweep.engine_runs import SettingRunner, draw_settings, setting_line
from ctxbench.tuning.sweep.expansions import ExpansionSweep, why_not_exact
from ctxbench.tuning.sweep.families import sweep
from ctxbench.tuning.sweep.measures import COMPLETENESS, TOKENS, Measure, Pairing, queries_by_type
from ctxbench.tuning.sweep.rankings import MeasuredRankings
from ctxbench.tuning.sweep.shared_budget import DomainPair
from ctxbench.tuning.sweep.threshold_lines import Collector, Front, ThresholdLine, show_lines
from ctxbench.tuning.tunables import FIRST_N, Tunable

MAX_REPEATS = 128  # whose sums are held to see whether they come again
TRIED_CUTS = 8  # settings of the front that are tried with what comes behind them
REPORTED = tuple(Measure(Metric(name)) for name in ("completeness", "recall", "tokens", "items"))


@dataclass(frozen=True, eq=False)
class Competitor:
    """A selector with its rankings of the tuning set of a dataset.

    Attributes:
        tunable: which.
        query_set: the split.
        full_ranking: what it finds there.
        rankings: the same, measured at every length.
    """

    tunable: Tunable
    query_set: QuerySet
    full_ranking: FullRanking
    rankings: MeasuredRankings

    @classmethod
    def of(
        cls,
        tunable: Tunable,
        query_set: QuerySet,
        policies: Sequence[Policy],
        chosen: Mapping[str, Value] | None = None,
    ) -> Competitor:
        """Rank with its defaults, or with what is chosen, and measure the rankings at every length.

        Raises:
            UserError: it fails, or its rankings lack scores.
        """
        full_ranking = tunable.rank(query_set, chosen)
        powers = {**policy_measures(policies), **dict.fromkeys(kept_measures(queries_by_type(query_set.labels)), 1)}
        failed = np.array(
            [query in full_ranking.answers.errors for query in full_ranking.answers.queries], dtype=np.bool_
        )
        rankings = MeasuredRankings.of(
            full_ranking.answers.candidates, query_set.labels, [*powers, *REPORTED], powers=powers, failed=failed
        )
        return cls(tunable, query_set, full_ranking, rankings)

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.tunable.name

    def with_base(self, base: Base) -> Competitor:
        """The same, with the base that differences are to."""
        return replace(self, rankings=self.rankings.with_base(base.pairing))

    def by_query(self, values: Mapping[str, Value]) -> dict[Measure, FloatArray]:
        """The values of all measures at one setting, by query."""
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
        """Runs settings that a sweep cannot evaluate.

        Raises:
            RuntimeError: its scores are out of fold, which no run of the whole selector gives; see `opening`.
        """
        if self.full_ranking.refitted or self.tunable.answers is not None:
            raise RuntimeError(f"selector {self.name!r} cannot be run on queries that it was fitted on")
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
        means: by measure, of those that apply to any query.
        pairing: its values by query, for what differences are taken of.
        queries_by_type: by item type of which something must be kept, the queries that require it, shape (n_queries,).
        reachable: the queries that the first items of its ranking make complete, shape (n_queries,).
        complete: completeness by query, shape (n_queries,); NaN where nothing is needed.
        effective_queries: how many independent queries in need its completeness is worth, as queries come in groups.
    """

    means: Mapping[Measure, float]
    pairing: Pairing
    queries_by_type: Mapping[str, BoolArray]
    reachable: BoolArray
    complete: FloatArray
    effective_queries: float

    @property
    def in_need(self) -> int:
        """How many queries need something."""
        return int((~np.isnan(self.complete)).sum())

    @property
    def worth(self) -> float:
        """How many independent queries a query is worth, in (0, 1]; see `Optimum`."""
        return self.effective_queries / self.in_need if self.in_need else 1.0

    @classmethod
    def of(cls, competitor: Competitor, policies: Sequence[Policy]) -> Base:
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
        competitor: which.
        optima: the best setting by policy name.
        fixed: the best fixed number of items by policy name.
        front: settings that no other beats in prompt tokens and completeness.
        settings: how many were evaluated exactly.
        tried: how many were run.
    """

    competitor: Competitor
    optima: Mapping[str, Optimum]
    fixed: Mapping[str, Optimum]
    front: Front
    settings: int
    tried: int

    def add_preset(self, values: Mapping[str, Value]) -> None:
        """Add a preset, unless a sweep has evaluated that setting."""
        tunable = self.competitor.tunable
        if self.settings and tunable.is_swept(values) and not tunable.entry.search:
            return
        if self.competitor.full_ranking.refitted and not tunable.is_swept(values):
            return  # it can only be run, and has seen these queries
        by_query = self.competitor.by_query(values)
        line = setting_line(tunable.values(values), by_query, pairing=self.competitor.rankings.pairing)
        show_lines([line], [*self.optima.values(), self.front])


def preset_search(competitor: Competitor, file: PolicyFile, *, base: Base) -> SearchResult:
    """The search of a selector that is not tuned, of which `add_preset` shows the presets."""
    return SearchResult(
        competitor=competitor,
        optima=optima_of(competitor, file, base=base),
        fixed=first_n(competitor, file, base=base),
        front=Front(cost=TOKENS, gain=COMPLETENESS),
        settings=0,
        tried=0,
    )


def search(competitor: Competitor, file: PolicyFile, *, base: Base, progress: Callable[[int], None]) -> SearchResult:
    """Search all settings of a selector.

    Args:
        competitor: which, with differences to the base.
        file: the policy file, with the policies that the labels can answer.
        base: the base on the same split.
        progress: called with how many settings have been evaluated.
    """
    best, front = optima_of(competitor, file, base=base), Front(cost=TOKENS, gain=COMPLETENESS)
    fixed = first_n(competitor, file, base=base)
    collectors: list[Collector[ThresholdLine]] = [*best.values(), front]
    settings, cuts = 0, front
    if competitor.tunable.family is not None:
        expands = competitor.tunable.has_expansion({})
        cuts = Front(cost=TOKENS, gain=COMPLETENESS) if expands else front
        repeat_filter = RepeatFilter([cuts] if expands else [*best.values(), front], competitor.tunable.values())
        n_settings = sweep(competitor.tunable.family, competitor.rankings, [repeat_filter], progress=progress)
        settings = 0 if expands else n_settings
    if competitor.domain_pair is not None:
        settings = _both_domains(competitor.domain_pair, file.policies, collectors, base=base)
    tried = 0
    if competitor.tunable.tried_values or competitor.tunable.has_expansion({}):
        for line in _run_settings(competitor, file, cuts):
            if line.axis:
                settings += len(line)
            for collector in collectors:
                collector.add(line)
        tried = competitor.runner.runs
    return SearchResult(competitor=competitor, optima=best, fixed=fixed, front=front, settings=settings, tried=tried)


class RepeatFilter:
    """Passes lines to collectors, except those that repeat an earlier one and are no nearer to the defaults.

    From some topK on a larger one offers nothing else, and such lines share their sums. Of equals an optimum keeps the
    one nearest to the defaults, then the first, and a front the first: so they miss nothing.
    """

    def __init__(self, collectors: Sequence[Optimum | Front], defaults: Mapping[str, Value]) -> None:
        self._collectors, self._defaults = collectors, defaults
        self._nearest: OrderedDict[int, tuple[object, float]] = OrderedDict()  # by identity, held so that it stays

    def add(self, line: ThresholdLine) -> None:
        """Show a line, or count its settings only."""
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
    """New optima that keep the best setting for each policy, by name of the policy."""
    reach = reach_ratio(base.reachable, competitor.rankings.reachable)
    defaults = competitor.tunable.values()
    return {
        policy.name: Optimum(
            policy, level=file.confidence, base=base.means, reach=reach, worth=base.worth, defaults=defaults
        )
        for policy in file.policies
    }


def first_n(competitor: Competitor, file: PolicyFile, *, base: Base) -> dict[str, Optimum]:
    """The best fixed number of items of its ranking, by name of the policy."""
    fixed = optima_of(competitor, file, base=base)
    sweep(FIRST_N, competitor.rankings, list(fixed.values()))
    return fixed


def _both_domains(
    domain_pair: DomainPair, policies: Sequence[Policy], collectors: Sequence[Collector[ThresholdLine]], *, base: Base
) -> int:
    """Show collectors what no pair of the domains' settings beats, in whatever a policy wants kept or gained.

    The optimum of a policy with one such measure is among these, since what is held against it rises with them; of
    pairs with equal sums one is shown. Where types must keep their completeness, also what nothing beats of those
    pairs that keep it.
    """
    settings = 0
    gains = {COMPLETENESS, *(measure for measure in policy_measures(policies) if measure.metric == COMPLETENESS.metric)}
    typed = [measure for measure in base.means if measure.required_type and not measure.counts]
    floors = {
        measure: MIN_KEPT * base.means[measure] * float(base.queries_by_type[measure.required_type].sum())
        for measure in typed
    }
    for gain in sorted(gains):
        for lower_bounds in ({}, floors) if floors else ({},):
            front = domain_pair.front(gain, TOKENS, floors=lower_bounds)
            settings = max(settings, front.settings)
            show_lines(domain_pair.lines(front), collectors)
    return settings


def _run_settings(competitor: Competitor, file: PolicyFile, cuts: Front) -> Iterator[ThresholdLine]:
    """Run settings, as lines: values that the file lists behind cuts of the front, or settings drawn from all.

    What an expansion of one pass adds is swept exactly over its threshold and topN from one run.
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
                expansion = ExpansionSweep.of(
                    runner, setting, labels=competitor.query_set.labels, measures=competitor.rankings.measures
                )
                yield from expansion.lines()
