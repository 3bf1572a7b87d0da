"""Looks through the settings of one selector on the tuning split: exactly where a sweep can, else by trials."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ctxbench.arrays import BoolArray, FloatArray
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.stats import worth_of
from ctxbench.evaluation.sweep.expansions import Expansions, why_not_exact
from ctxbench.evaluation.sweep.keepers import Front
from ctxbench.evaluation.sweep.ladders import Ladders
from ctxbench.evaluation.sweep.lines import Keeper, Line, Measure
from ctxbench.evaluation.sweep.reuse import Reused, drawn
from ctxbench.evaluation.sweep.shared import Shared
from ctxbench.evaluation.sweep.sweeping import sweep
from ctxbench.evaluation.tuning.folds import Contestant, Swept, Tried
from ctxbench.evaluation.tuning.optima import COMPLETENESS, TOKENS, Optimum, measures_of, reach_of
from ctxbench.evaluation.tuning.policies import Policy
from ctxbench.evaluation.tuning.policy_file import PolicyFile
from ctxbench.evaluation.tuning.sides import Side
from ctxbench.evaluation.tuning.ties import away, slack
from ctxbench.evaluation.tuning.tunables import Tunable, coarse
from ctxbench.evaluation.tuning.uncut import Uncut
from ctxbench.selectors.parameters import Value

LINES = 128  # whose sums are held to see whether they come again
CUTS = 8  # settings of the front that are tried with what comes behind them
Counted = Callable[[int], None]
SHOWN = tuple(Measure(Metric(name)) for name in ("completeness", "recall", "tokens", "items"))


@dataclass(frozen=True, eq=False)
class Rival:
    """A competitor on the tuning split of a dataset.

    Attributes:
        tunable: which.
        side: the split.
        uncut: what it finds there.
        ladders: the same, measured at every length.
    """

    tunable: Tunable
    side: Side
    uncut: Uncut
    ladders: Ladders

    @classmethod
    def of(
        cls, tunable: Tunable, side: Side, policies: Sequence[Policy], chosen: Mapping[str, Value] | None = None
    ) -> Rival:
        """Ask it once, with its defaults or with what is chosen, and measure its rankings at every length.

        Raises:
            UserError: it fails, or its rankings lack scores.
        """
        uncut = tunable.finds(side, chosen)
        powers = measures_of(policies)
        failed = np.array([query in uncut.answers.errors for query in uncut.answers.queries], dtype=np.bool_)
        measures = tuple(dict.fromkeys([*powers, *SHOWN]))
        ladders = Ladders.of(uncut.answers.candidates, side.labels, measures, powers=powers, failed=failed)
        return cls(tunable, side, uncut, ladders)

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.tunable.name

    def by_query(self, values: Mapping[str, Value]) -> dict[Measure, FloatArray]:
        """The values of all measures at one setting, by query."""
        if self.tunable.swept_at(values):
            if self.tunable.family is not None:
                return self.tunable.family.by_query(self.ladders, self.tunable.values(values))
            if self.shared is not None:
                return self.shared.at(self.tunable.values(values))
        return dict(self.reused.values(self.tunable.values(values)))

    @cached_property
    def shared(self) -> Shared | None:
        """Both domains of a selector that has two."""
        return Shared(self.ladders, self.tunable.domains) if self.tunable.domains else None

    @cached_property
    def reused(self) -> Reused:
        """Runs settings that a sweep cannot evaluate.

        Raises:
            RuntimeError: its scores are out of fold, which no run of the whole selector gives; see `opening`.
        """
        if self.uncut.refitted or self.tunable.answers is not None:
            raise RuntimeError(f"selector {self.name!r} cannot be run on queries that it was fitted on")
        return Reused(
            self.tunable.definition,
            self.side.batch,
            resources=self.side.resources,
            labels=self.side.labels,
            measures=self.ladders.measures,
        )


@dataclass(frozen=True, eq=False)
class Base:
    """What constraints relate to: the first selector of the file with its defaults.

    Attributes:
        means: by metric.
        within: the queries that the first items of its ranking make complete, shape (n_queries,).
        complete: completeness by query, shape (n_queries,); NaN where nothing is needed.
        answers: how many independent queries in need its completeness is worth, as queries come in groups.
    """

    means: Mapping[Metric, float]
    within: BoolArray
    complete: FloatArray
    answers: float

    @property
    def in_need(self) -> int:
        """How many queries need something."""
        return int((~np.isnan(self.complete)).sum())

    @property
    def worth(self) -> float:
        """How many independent queries a query is worth, in (0, 1]; see `Optimum`."""
        return self.answers / self.in_need if self.in_need else 1.0

    @classmethod
    def of(cls, rival: Rival) -> Base:
        """Measure it."""
        values = {one.metric: found for one, found in rival.by_query({}).items() if not one.reachable}
        known = {metric: found for metric, found in values.items() if not np.isnan(found).all()}
        complete = values[COMPLETENESS.metric]
        return cls(
            means={metric: float(np.nanmean(found)) for metric, found in known.items()},
            within=rival.ladders.reachable,
            complete=complete,
            answers=worth_of(complete, rival.side.group),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Searched:
    """What was found for one competitor.

    Attributes:
        rival: which.
        optima: the best setting by policy name.
        fixed: the best fixed number of items by policy name.
        front: settings that no other beats in prompt tokens and completeness.
        settings: how many were evaluated exactly.
        tried: how many were run.
    """

    rival: Rival
    optima: Mapping[str, Optimum]
    fixed: Mapping[str, Optimum]
    front: Front
    settings: int
    tried: int

    def contestant(self, policies: Sequence[Policy]) -> Contestant:
        """Its settings, for choosing on some of the queries.

        Of those that were run, the front; of topK and topN fewer values than all, since cross-validation sweeps once
        for every fold, and what choosing is worth hardly depends on how densely it looks.
        """
        rival = self.rival
        if self.tried:
            settings = [(values, rival.by_query(values)) for values in self.front.values]
            return Tried(settings, rival.ladders.reachable, rival.tunable.values())
        if rival.tunable.family is not None:
            return Swept(coarse(rival.tunable.family), rival.ladders, rival.tunable.values())
        return _Paired(rival, policies)


@dataclass(frozen=True, eq=False)
class _Paired:
    """A selector with two domains."""

    rival: Rival
    policies: Sequence[Policy]

    @property
    def defaults(self) -> Mapping[str, Value]:
        """Those of the selector."""
        return self.rival.tunable.values()

    @property
    def within(self) -> BoolArray:
        """What its ranking reaches."""
        return self.rival.ladders.reachable

    def look(self, queries: BoolArray, keepers: Sequence[Keeper]) -> None:
        """Compare every pair of the domains' settings."""
        _both_domains(Shared(self.rival.ladders.only(queries), self.rival.tunable.domains), self.policies, keepers)

    def by_query(self, values: Mapping[str, Value]) -> Mapping[Measure, FloatArray]:
        """At one setting."""
        return self.rival.by_query(values)


def search(rival: Rival, file: PolicyFile, *, base: Base, progress: Counted) -> Searched:
    """Look through all settings of a competitor.

    Args:
        rival: which.
        file: policies, confidence, seed and the number of trials.
        base: the base on the same split.
        progress: told how many settings have been looked at.
    """
    best, front = optima_of(rival, file, base=base), Front(cost=TOKENS, gain=COMPLETENESS)
    fixed = first_n(rival, file, base=base)
    keepers: list[Keeper] = [*best.values(), front]
    settings, cuts = 0, front
    if rival.tunable.family is not None:
        always = rival.tunable.beyond({})
        cuts = Front(cost=TOKENS, gain=COMPLETENESS) if always else front
        shown = Repeats([cuts] if always else [*best.values(), front], rival.tunable.values())
        seen = sweep(rival.tunable.family, rival.ladders, [shown], progress=progress)
        settings = 0 if always else seen
    if rival.shared is not None:
        settings = _both_domains(rival.shared, file.policies, keepers)
    tried = 0
    if rival.tunable.searched or rival.tunable.beyond({}):
        for line in _tried(rival, file, cuts):
            if line.axis:
                settings += len(line)
            for keeper in keepers:
                keeper.take(line)
        tried = rival.reused.runs
    return Searched(rival=rival, optima=best, fixed=fixed, front=front, settings=settings, tried=tried)


class Repeats:
    """Shows lines to keepers, but for those that repeat what an earlier one shows with nothing nearer to the defaults.

    From some topK on a larger one offers nothing else, and such lines share their sums. Of equals an optimum keeps the
    one nearest to the defaults, then the first, and a front the first: so they miss nothing.
    """

    def __init__(self, keepers: Sequence[Optimum | Front], defaults: Mapping[str, Value]) -> None:
        self._keepers, self._defaults = keepers, defaults
        self._nearest: OrderedDict[int, tuple[object, float]] = OrderedDict()  # by identity, held so that it stays

    def take(self, line: Line) -> None:
        """Look at a line, or count its settings only."""
        far = away(line.values, self._defaults)
        sums, nearest = self._nearest.get(id(line.sums), (None, 0.0))
        if sums is line.sums and far >= nearest - slack(nearest):
            for keeper in self._keepers:
                keeper.settings += len(line)
            return
        self._nearest[id(line.sums)] = (line.sums, far)
        while len(self._nearest) > LINES:
            self._nearest.popitem(last=False)
        for keeper in self._keepers:
            keeper.take(line)


def optima_of(rival: Rival, file: PolicyFile, *, base: Base) -> dict[str, Optimum]:
    """Where the best setting for each policy will be kept, by name of the policy."""
    reach = reach_of(base.within, rival.ladders.reachable)
    defaults = rival.tunable.values()
    return {
        policy.name: Optimum(
            policy, level=file.confidence, base=base.means, reach=reach, worth=base.worth, defaults=defaults
        )
        for policy in file.policies
    }


def first_n(rival: Rival, file: PolicyFile, *, base: Base) -> dict[str, Optimum]:
    """The best fixed number of items of its ranking, by name of the policy."""
    fixed = optima_of(rival, file, base=base)
    sweep(rival.tunable.fixed, rival.ladders, list(fixed.values()))
    return fixed


def _both_domains(shared: Shared, policies: Sequence[Policy], keepers: Sequence[Keeper]) -> int:
    """Show keepers what no pair of the domains' settings beats, in whatever a policy wants kept or gained.

    The optimum of a policy with one such measure is among these, since intervals of shares rise with them.
    """
    settings = 0
    wanted = {COMPLETENESS, *(one for one in measures_of(policies) if one.metric == COMPLETENESS.metric)}
    for gain in sorted(wanted):
        front = shared.front(gain, TOKENS)
        settings = max(settings, front.settings)
        for line in shared.lines(front):
            for keeper in keepers:
                keeper.take(line)
    return settings


def _tried(rival: Rival, file: PolicyFile, cuts: Front) -> Iterator[Line]:
    """Settings that are run, as lines: values that the file lists behind cuts of the front, or drawn from all.

    What an expansion of one pass brings in is swept exactly over its threshold and topN from one run.
    """
    tunable, reused = rival.tunable, rival.reused
    if tunable.family is None:
        settings = drawn(
            tunable.definition, tunable.searched, given=tunable.entry.set, trials=file.trials, seed=file.seed
        )
        yield from reused.lines([setting for setting in settings if tunable.possible(setting)])
        return
    behind = cuts.thinned(min(CUTS, file.trials))
    for cut in behind:
        settings = drawn(
            tunable.definition,
            tunable.searched,
            given={**tunable.entry.set, **cut},
            trials=max(file.trials // len(behind), 1),
            seed=file.seed,
        )
        for setting in filter(tunable.possible, settings):
            if why_not_exact(tunable.definition, setting):
                yield from reused.lines([setting])
            else:
                own = Expansions.of(reused, setting, labels=rival.side.labels, measures=rival.ladders.measures)
                yield from own.lines()
