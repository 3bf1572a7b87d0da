"""Tuning on one dataset: choices on the tuning split first, then what they come to on both splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ctxbench.evaluation.stats import Comparison, Estimate, grouped_estimate
from ctxbench.evaluation.tuning.around import first_trace, front_trace, heats, slices
from ctxbench.evaluation.tuning.choosing import Choice, PolicyError, choose
from ctxbench.evaluation.tuning.contending import Arena, Measured, asked_metrics, compared, of_kind
from ctxbench.evaluation.tuning.first_items import at_own_tokens, first_items_curve
from ctxbench.evaluation.tuning.folds import Nested, nested
from ctxbench.evaluation.tuning.opening import Opened, Ready
from ctxbench.evaluation.tuning.optima import TOKENS, Optimum
from ctxbench.evaluation.tuning.policies import Policy
from ctxbench.evaluation.tuning.results import DEFAULTS, FIXED, PRESET, RECOMMENDED, DatasetTuning, Outcome
from ctxbench.evaluation.tuning.searching import Base, Rival, Searched, first_n, search
from ctxbench.evaluation.tuning.sides import COMPLETE, TEST, TUNING, Side, Told
from ctxbench.evaluation.tuning.tunables import Tunable
from ctxbench.selectors.parameters import Value
from ctxbench.yamlio import line_of

FEW = 200  # queries in need on the tuning split, below which nested cross-validation says what choosing is worth
READ_ONCE = "The test split was read once, for the figures here, when all values were fixed."


@dataclass(frozen=True, eq=False, kw_only=True)
class _Chosen:
    """What is recommended for a policy, and the fixed numbers of items beside it.

    Attributes:
        searched: the competitor.
        values: its setting.
        fixed, fixed_own: how many items of the base's and of its own ranking meet the policy; None = no number does.
    """

    searched: Searched
    values: Mapping[str, Value]
    fixed: int | None
    fixed_own: int | None


class Work:
    """Tuning on one dataset.

    Attributes:
        name: of the dataset.
        base: the first selector with its defaults, on the tuning split; None before `choose`.
        searched: what was found, by name of the competitor.
        choices: by policy.
    """

    def __init__(self, ready: Ready, opened: Opened, progress: Told) -> None:
        self.ready, self.opened, self._progress = ready, opened, progress
        self.file = ready.file
        self.name = opened.dataset.name
        self.base: Base | None = None
        self.searched: dict[str, Searched] = {}
        self.choices: dict[str, Choice] = {}
        self._nested: Mapping[str, Nested] = {}

    # ------------------------------------------------------------------------------------------ the tuning split

    @property
    def _base(self) -> Tunable:
        return self.ready.tunables[0]

    def choose(self) -> None:
        """Look at the tuning split and choose for every policy.

        Raises:
            PolicyError: no setting can meet a policy; all such policies.
        """
        side = self.opened.sides[TUNING]
        for place, tunable in enumerate(self.ready.tunables):
            self._say(f"{tunable.name}, ranking", place, len(self.ready.tunables))
            rival = Rival.of(tunable, side, self.file.policies)
            base = self.base = self.base or Base.of(rival)

            def told(settings: int, name: str = tunable.name, done: int = place) -> None:
                self._say(f"{name}, {settings:,} settings", done, len(self.ready.tunables))

            self.searched[tunable.name] = search(rival, self.file, base=base, progress=told)
        wrong = []
        for policy in self.file.policies:
            try:
                optima = {name: one.optima[policy.name] for name, one in self.searched.items()}
                self.choices[policy.name] = choose(policy, optima)
            except PolicyError as error:
                line = line_of(self.file.lines, ("policies", policy.name))
                wrong.append(f"{error} ({self.file.path}, line {line})")
        if wrong:
            raise PolicyError("\n".join(wrong))
        self._nested = self._cross_validated()

    def _cross_validated(self) -> Mapping[str, Nested]:
        """What choosing comes to on queries that it was not done on, by policy; empty where there are enough queries.

        Without it, too, there are the test split's figures; but a small test split says little.
        """
        side, base = self.opened.sides[TUNING], self.searched[self._base.name].rival
        values = {one.metric: found for one, found in base.by_query({}).items() if not one.reachable}
        if (~np.isnan(values[COMPLETE])).sum() >= FEW or len(set(side.groups)) < 2:
            return {}
        self._say("cross-validation", 0, self.file.folds)
        return nested(
            self.file.policies,
            {name: one.contestant(self.file.policies) for name, one in self.searched.items()},
            groups=side.groups,
            folds=self.file.folds,
            level=self.file.confidence,
            worth=1.0 if self.base is None else self.base.worth,
            base=values,
        )

    def _say(self, what: str, done: int, total: int) -> None:
        self._progress(f"{self.name}, {what}; done", done, total)

    def _recommended(self, policy: Policy) -> _Chosen | None:
        choice = self.choices[policy.name]
        if choice.found is None:
            return None
        searched = self.searched[choice.selector]
        first = self.searched[self._base.name].fixed[policy.name].found
        own = self._first_n(searched, choice.found.short)[policy.name].found
        return _Chosen(
            searched=searched,
            values=choice.found.short,
            fixed=None if first is None else int(first.values["n"]),
            fixed_own=None if own is None else int(own.values["n"]),
        )

    def _first_n(self, searched: Searched, values: Mapping[str, Value]) -> Mapping[str, Optimum]:
        """The best fixed numbers of items of the ranking that a setting cuts, be it the one of the defaults or not."""
        tunable = searched.rival.tunable
        if tunable.answers is not None or tunable.swept_at(values) or self.base is None:
            return searched.fixed
        heads = [tunable.head(tunable.pipeline(one)).describe() for one in ({}, values)]
        if heads[0] == heads[1]:
            return searched.fixed
        other = Rival.of(tunable, self.opened.sides[TUNING], self.file.policies, values)
        return first_n(other, self.file, base=self.base)

    # ------------------------------------------------------------------------------------------ both splits

    @cached_property
    def arena(self) -> Arena:
        """Where settings are measured; reads the test split."""
        made = Arena(self.opened.sides, asked_metrics(self.file.policies), self.file.confidence)
        for one in self.searched.values():
            made.know(one.rival.tunable, one.rival.uncut)
        return made

    @cached_property
    def defaults(self) -> Measured:
        """The base with its defaults, on both splits."""
        base = self.ready.tunables[0]
        return self.arena.setting(base, {}, name=defaults_name(base), role=DEFAULTS)

    def _at_own_tokens(
        self, outcomes: tuple[Outcome, ...], measured: Mapping[str, Mapping[str, Measured]]
    ) -> tuple[Outcome, ...]:
        """The outcomes, each with what is chosen against the first n items of the base's ranking at equal tokens."""
        test = self.opened.sides[TEST]
        curve = first_items_curve(self.arena.uncut(self.ready.tunables[0], {}, TEST), test)
        chosen = {policy: found["chosen"] for policy, found in measured.items()}
        found = at_own_tokens(chosen, curve, test, seed=self.file.seed)
        return tuple(replace(one, at_tokens=found.get(one.policy.name)) for one in outcomes)

    def result(self) -> DatasetTuning:
        """Measure what is recommended and what it is held against on both splits."""
        opened, file, arena, defaults = self.opened, self.file, self.arena, self.defaults
        self._say("measuring on both splits", 0, len(file.policies))
        others = [*self._presets(arena), arena.everything()]
        measured: dict[str, dict[str, Measured]] = {}
        for policy in file.policies:
            chosen = self._recommended(policy)
            if chosen is not None:
                measured[policy.name] = self._measured(arena, policy, chosen)
        pairs = {}
        for name, found in measured.items():
            pairs[name, "defaults"] = (defaults, found["chosen"])
            for kind in ("fixed", "fixed_own"):
                if kind in found:
                    pairs[name, kind] = (found[kind], found["chosen"])
            if "fixed" in found and "fixed_own" in found:
                pairs[name, "ranking"] = (found["fixed"], found["fixed_own"])
        comparisons = compared(pairs, opened.sides[TEST], seed=file.seed)
        outcomes = tuple(self._outcome(arena, policy, measured, comparisons, defaults) for policy in file.policies)
        outcomes = self._at_own_tokens(outcomes, measured)
        unique = {
            one.name: one for one in [defaults, *others, *(m for each in measured.values() for m in each.values())]
        }
        level = file.confidence
        traces = [front_trace(one, level=level) for one in self.searched.values() if one.settings or one.tried]
        traces += [first_trace(one.rival, level=level) for one in self.searched.values()]
        return DatasetTuning(
            dataset=self.name,
            version=opened.dataset.version,
            hash=opened.dataset.hash,
            items=len(opened.dataset.catalog),
            queries={split: len(side) for split, side in opened.sides.items()},
            of=opened.of,
            tokens=self.ready.counter.name,
            contenders=tuple(arena.contender(one) for one in unique.values()),
            traces=tuple(traces),
            outcomes=outcomes,
            notes=tuple(self._notes()),
        )

    def _presets(self, arena: Arena) -> list[Measured]:
        """The presets that the base comes with, but for any that is its defaults."""
        base, found = self._base, []
        for preset, values in base.definition.presets.items():
            own = {name: value for name, value in values.items() if name not in base.entry.set}
            if base.in_force(own) != base.in_force({}):
                found.append(arena.setting(base, own, name=f"{base.name}/{preset}", role=PRESET))
        return found

    def _measured(self, arena: Arena, policy: Policy, chosen: _Chosen) -> dict[str, Measured]:
        """What is recommended, and the tuned fixed numbers of items."""
        tunable = chosen.searched.rival.tunable
        found = {"chosen": arena.setting(tunable, chosen.values, name=policy.name, role=RECOMMENDED)}
        if chosen.fixed is not None:
            name = f"{self._base.name}, first {chosen.fixed}"
            found["fixed"] = arena.first(self._base, {}, chosen.fixed, name=name, role=FIXED)
        if chosen.fixed_own is not None:
            name = f"{tunable.name}, first {chosen.fixed_own}"
            found["fixed_own"] = arena.first(tunable, chosen.values, chosen.fixed_own, name=name, role=FIXED)
        return found

    def _outcome(
        self,
        arena: Arena,
        policy: Policy,
        measured: Mapping[str, Mapping[str, Measured]],
        comparisons: Mapping[tuple[str, str, str], Comparison],
        defaults: Measured,
    ) -> Outcome:
        choice, found = self.choices[policy.name], measured.get(policy.name)
        tried = sum(one.tried for one in self.searched.values())
        outcome = Outcome(policy=policy, chosen=None, settings=choice.settings, tried=tried)
        if choice.found is None or found is None:
            return replace(outcome, reason=choice.reason, needed=choice.needed)
        test, chosen = self.opened.sides[TEST], found["chosen"]
        rival, level = self.searched[choice.selector].rival, self.file.confidence
        by_kind = {kind: of_kind(comparisons, policy.name, kind) for kind in ("defaults", "fixed", "fixed_own")}
        apart = self._nested.get(policy.name)
        return replace(
            outcome,
            nested={} if apart is None else _estimates(apart, self.opened.sides[TUNING], level),
            chosen=arena.contender(chosen),
            bounds=choice.found.bounds,
            met=arena.met(policy, chosen, defaults),
            fixed=arena.contender(found["fixed"]) if "fixed" in found else None,
            fixed_own=arena.contender(found["fixed_own"]) if "fixed_own" in found else None,
            against={kind: one for kind, one in by_kind.items() if one},
            ranking=of_kind(comparisons, policy.name, "ranking"),
            heats=heats(rival, choice.found.short),
            slices=slices(rival, choice.found.short, level=level),
            worst_scope=test.worst_scope(chosen.by_query[TEST]),
            worst_server=test.worst_server(chosen.by_query[TEST]),
            worse=test.made_worse(
                defaults.by_query[TEST][COMPLETE], chosen.by_query[TEST][COMPLETE], chosen.answers[TEST]
            ),
        )

    def _dear_note(self, policy: Policy) -> str:
        """Why a preset that may keep less than the base costs more than it; empty where none does."""
        found, base = self.choices[policy.name].found, self.base
        held = [one for one in policy.constraints if one.of == "base" and one.by == "bound"]
        held = [one for one in held if one.at_least is not None and one.at_least <= 1]
        if found is None or base is None or policy.objective != TOKENS.metric or not held:
            return ""
        spent, own = found.means[TOKENS], base.means[TOKENS.metric]
        if spent <= own:
            return ""
        return (
            f"{policy.name} costs {spent:,.0f} prompt tokens on the tuning split and the base {own:,.0f}: with so few "
            f"queries the low end of an interval lies far below its mean, and it is the low end that must reach "
            f"{held[0]}. More queries, or `by: mean` in the policy, cost less."
        )

    def _notes(self) -> list[str]:
        """What a reader must know."""
        notes = [READ_ONCE]
        for split, n in self.opened.of.items():
            if len(self.opened.sides[split]) < n:
                notes.append(f"Of {n:,} queries of the {split} split {len(self.opened.sides[split]):,} were drawn.")
        if self.base is not None:
            notes += _grouped_note(self.base, self.opened.sides[TUNING])
        if self._nested:
            notes.append(
                f"With fewer than {FEW} queries in need on the tuning split, choosing was tried by nested "
                f"cross-validation in {self.file.folds} folds, among fewer values of topK and topN."
            )
            tried = [name for name, one in self.searched.items() if one.tried]
            if tried:
                notes.append(
                    f"Of the settings that were run ({', '.join(tried)}), cross-validation chose among the front over "
                    "all queries of the tuning split, those of the fold held out included, which flatters them."
                )
        notes += [note for policy in self.file.policies if (note := self._dear_note(policy))]
        for policy, apart in self._nested.items():
            notes += [f"{policy}, nested cross-validation: {apart.note}."] if apart.note else []
        for name, one in self.searched.items():
            if one.rival.uncut.refitted:
                notes.append(
                    f"{name}: its fit has seen the tuning split, so that every query there is scored by a fit on the "
                    "other folds; the test split is scored by the fit itself."
                )
            if one.tried:
                notes.append(_run_note(name, one))
        return notes


def _grouped_note(base: Base, side: Side) -> list[str]:
    """What groups of queries do to intervals; nothing where every query in need is alone."""
    groups = len(np.unique(side.group[~np.isnan(base.complete)]))
    if groups == base.in_need:
        return []
    note = (
        f"The tuning split's {base.in_need:,} queries in need come in {groups:,} groups, such as paraphrases of one "
        f"request, and are worth {base.answers:,.0f} independent ones by the base's completeness. Intervals "
        "and paired comparisons, but for those at equal tokens, are made by group, and constraints are met by bounds "
        f"for {base.worth:.0%} as many queries."
    )
    return [note]


def _run_note(name: str, found: Searched) -> str:
    """What breaks the prefix rule, and what was done instead."""
    searched = found.rival.tunable.searched
    what = " and ".join([", ".join(searched)] * bool(searched) + ["expansion"] * found.rival.tunable.beyond({}))
    return (
        f"{name}: no exact sweep over {what}, which change more than how much of one ranking is offered; "
        f"{found.tried:,} settings were run on what the steps before had found, and the best of them need not be the "
        "best there is."
    )


def _estimates(found: Nested, side: Side, level: float) -> dict[str, Estimate]:
    """Means with their intervals by groups of queries, by what is measured."""
    return {
        str(measure): grouped_estimate(values, side.group, scale=measure.metric.declaration.scale, level=level)  # type: ignore[arg-type]
        for measure, values in found.values.items()
        if not np.isnan(values).all()
    }


def defaults_name(base: Tunable) -> str:
    """What the defaults of the base are called."""
    own = not base.entry.set and base.source == "semantic"
    return "documents' defaults" if own else f"{base.name}, defaults"
