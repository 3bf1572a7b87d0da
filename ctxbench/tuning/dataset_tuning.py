"""Tuning on one dataset: settings are chosen on the tuning set first, and then measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from ctxbench.bench.stats import Comparison
from ctxbench.selectors.parameters import Value
from ctxbench.tuning.first_items import compare_at_tokens, first_items_curve
from ctxbench.tuning.held_out_figures import (
    SettingEvaluator,
    SettingValues,
    compare_pairs,
    comparison_pairs,
    metrics_of,
    select_comparisons,
)
from ctxbench.tuning.opened_inputs import TuningDataset, TuningInputs
from ctxbench.tuning.optima import MIN_QUERIES, Optimum
from ctxbench.tuning.policies import Policy
from ctxbench.tuning.query_sets import COMPLETE, TEST, TUNING, Progress, QuerySet
from ctxbench.tuning.recommendation import Choice, choose
from ctxbench.tuning.search import Base, Competitor, SearchResult, first_n, search
from ctxbench.tuning.sensitivity import first_trace, front_trace, heat_maps, parameter_traces
from ctxbench.tuning.tunables import Tunable
from ctxbench.tuning.tuning_results import DEFAULTS, PRESET, DatasetTuning, PolicyOutcome

ALL_DECIDE = (
    "All labels decided, so that no unread split is left: every figure here is of the labels that the values were "
    "chosen on. What is recommended was held to its policy with room for that; new labels would confirm it."
)
READ_ONCE = "The test split was read once, for the figures here, when all values were fixed."


class DatasetTuner:
    """Chooses settings on one dataset, and measures them.

    Attributes:
        name: of the dataset.
        policies: those that the labels can answer.
        base: the first selector with its defaults, on the tuning set; None before `choose`.
        searches: what was found, by name of the selector.
        choices: by policy.
    """

    def __init__(self, inputs: TuningInputs, dataset: TuningDataset, progress: Progress) -> None:
        self.inputs, self.dataset, self._progress = inputs, dataset, progress
        self.file = inputs.file
        self.name = dataset.dataset.name
        self.tunables = tuple(one for one in inputs.tunables if one.name not in dataset.left_out)
        self.policies = tuple(one for one in inputs.file.policies if one.name not in dataset.unanswered)
        self.base: Base | None = None
        self.searches: dict[str, SearchResult] = {}
        self.choices: dict[str, Choice] = {}

    # ------------------------------------------------------------------------------------------ what decides

    @property
    def _base(self) -> Tunable:
        return self.inputs.tunables[0]

    def choose(self) -> None:
        """Choose a setting for every policy, on the tuning set alone."""
        query_set, file = self.dataset.tuning_set, replace(self.file, policies=self.policies)
        for place, tunable in enumerate(self.tunables):
            self._say(f"{tunable.name}, ranking", place, len(self.tunables))
            competitor = Competitor.of(tunable, query_set, self.policies)
            base = self.base = self.base or Base.of(competitor, self.policies)

            def report_settings(settings: int, name: str = tunable.name, done: int = place) -> None:
                self._say(
                    f"{name}, {settings:,} {'setting' if settings == 1 else 'settings'}", done, len(self.tunables)
                )

            self.searches[tunable.name] = search(competitor.with_base(base), file, base=base, progress=report_settings)
        one_group = self._one_group_reason()
        for policy in self.file.policies:
            if policy.name in self.dataset.unanswered:
                self.choices[policy.name] = Choice(reason=self.dataset.unanswered[policy.name], answered=False)
            elif one_group:
                self.choices[policy.name] = Choice(reason=one_group, answered=False)
            else:
                optima = {name: one.optima[policy.name] for name, one in self.searches.items()}
                self.choices[policy.name] = self._with_lacking_labels(choose(policy, optima))

    def _with_lacking_labels(self, choice: Choice) -> Choice:
        """The same choice; with too few labels for any, how many more are needed."""
        lacking = 0 if self.base is None else MIN_QUERIES - self.base.in_need
        if choice.setting is not None or choice.needed is not None or lacking <= 0:
            return choice
        return replace(choice, needed=(lacking, lacking))

    def _one_group_reason(self) -> str:
        """Why nothing can be said beyond doubt where all queries answer as one; empty where they do not."""
        query_set = self.dataset.tuning_set
        if self.base is None or len(np.unique(query_set.group[~np.isnan(self.base.complete)])) > 1:
            return ""
        return (
            f"the {self.base.in_need:,} labels in need are all of one group, which answers as one, so that "
            "nothing says how far others would differ; label requests of other groups"
        )

    def _say(self, what: str, done: int, total: int) -> None:
        self._progress(f"{self.name}, {what}; done", done, total)

    def _first_n(self, searched: SearchResult, values: Mapping[str, Value]) -> Mapping[str, Optimum]:
        """The best fixed numbers of items of the ranking that a setting cuts, by policy."""
        tunable = searched.competitor.tunable
        if tunable.answers is not None or tunable.is_swept(values) or self.base is None:
            return searched.fixed
        heads = [tunable.head(tunable.pipeline(one)).describe() for one in ({}, values)]
        if heads[0] == heads[1]:
            return searched.fixed
        other = Competitor.of(tunable, self.dataset.tuning_set, self.policies, values).with_base(self.base)
        return first_n(other, replace(self.file, policies=self.policies), base=self.base)

    # ------------------------------------------------------------------------------------------ what is read

    @cached_property
    def evaluator(self) -> SettingEvaluator:
        """Measures settings; reads the test split, if there is one."""
        evaluator = SettingEvaluator(self.dataset, metrics_of(self.file.policies), self.file.confidence)
        for one in self.searches.values():
            evaluator.keep_ranking(one.competitor.tunable, one.competitor.full_ranking)
        return evaluator

    @cached_property
    def defaults(self) -> SettingValues:
        """The base with its defaults."""
        return self.evaluator.setting(self._base, {}, name=defaults_name(self._base), role=DEFAULTS)

    def _with_equal_tokens(
        self, outcomes: tuple[PolicyOutcome, ...], measured: Mapping[str, Mapping[str, SettingValues]]
    ) -> tuple[PolicyOutcome, ...]:
        """The outcomes, each with what is chosen against the first n items of the base's ranking at equal tokens."""
        query_set = self.dataset.evaluation_set
        ranking = self.evaluator.full_ranking(self._base, {}, query_set.split)
        curve = first_items_curve(ranking.answers.candidates, query_set.labels)
        chosen = {policy: found["chosen"] for policy, found in measured.items()}
        found = compare_at_tokens(chosen, curve, query_set, seed=self.file.seed)
        return tuple(replace(one, at_tokens=found.get(one.policy.name)) for one in outcomes)

    def result(self) -> DatasetTuning:
        """Measure what is recommended and what it is compared with."""
        dataset, file, defaults = self.dataset, self.file, self.defaults
        self._say("measuring", 0, len(file.policies))
        others = [*self._presets(), self.evaluator.everything()]
        measured = {policy.name: self._chosen(policy, self.choices[policy.name]) for policy in file.policies}
        measured = {name: found for name, found in measured.items() if found}
        pairs = {
            (name, kind): pair
            for name, found in measured.items()
            for kind, pair in comparison_pairs(defaults, found).items()
        }
        comparisons = compare_pairs(pairs, dataset.evaluation_set, seed=file.seed)
        outcomes = tuple(self._outcome(policy, measured, comparisons) for policy in file.policies)
        outcomes = self._with_equal_tokens(outcomes, measured)
        unique = {
            one.name: one for one in [defaults, *others, *(m for each in measured.values() for m in each.values())]
        }
        level = file.confidence
        traces = [front_trace(one, level=level) for one in self.searches.values() if one.settings or one.tried]
        traces += [first_trace(one.competitor, level=level) for one in self.searches.values()]
        return DatasetTuning(
            dataset=self.name,
            version=dataset.dataset.version,
            hash=dataset.dataset.hash,
            items=len(dataset.dataset.catalog),
            queries={split: len(query_set) for split, query_set in dataset.query_sets.items()},
            of=dataset.of,
            tokens=self.inputs.counter.name,
            results=tuple(self.evaluator.result(one) for one in unique.values()),
            traces=tuple(traces),
            outcomes=outcomes,
            notes=tuple(self._notes()),
        )

    def _presets(self) -> list[SettingValues]:
        """The presets of the base, without any that equals its defaults."""
        base, found = self._base, []
        for preset, values in base.definition.presets.items():
            own = {name: value for name, value in values.items() if name not in base.entry.set}
            if base.in_force(own) != base.in_force({}):
                found.append(self.evaluator.setting(base, own, name=f"{base.name}/{preset}", role=PRESET))
        return found

    def _chosen(self, policy: Policy, choice: Choice) -> dict[str, SettingValues]:
        """What is recommended, and the fixed numbers of items that meet the policy; nothing, if the default is kept."""
        if choice.setting is None:
            return {}
        found, values = self.searches[choice.selector], choice.setting.rounded
        tunable = found.competitor.tunable
        own, base = self._first_n(found, values), self.searches[self._base.name].fixed
        first = {"fixed": (self._base, {}, base[policy.name].n), "fixed_own": (tunable, values, own[policy.name].n)}
        return self.evaluator.chosen(policy, tunable, values, first)

    def _outcome(
        self,
        policy: Policy,
        measured: Mapping[str, Mapping[str, SettingValues]],
        comparisons: Mapping[tuple[str, str, str], Comparison],
    ) -> PolicyOutcome:
        choice, found = self.choices[policy.name], measured.get(policy.name)
        tried = sum(one.tried for one in self.searches.values())
        outcome = PolicyOutcome(policy=policy, chosen=None, settings=choice.settings, tried=tried)
        if choice.setting is None or found is None:
            return replace(outcome, reason=choice.reason, needed=choice.needed, answered=choice.answered)
        query_set, chosen = self.dataset.evaluation_set, found["chosen"]
        competitor, level = self.searches[choice.selector].competitor, self.file.confidence
        by_kind = {
            kind: select_comparisons(comparisons, policy.name, kind) for kind in ("defaults", "fixed", "fixed_own")
        }
        before, after = (one.by_query[query_set.split] for one in (self.defaults, chosen))
        return replace(
            outcome,
            chosen=self.evaluator.result(chosen),
            bounds=choice.setting.bounds,
            verdicts=self.evaluator.verdicts(policy, chosen, self.defaults),
            fixed=self.evaluator.result(found["fixed"]) if "fixed" in found else None,
            fixed_own=self.evaluator.result(found["fixed_own"]) if "fixed_own" in found else None,
            against={kind: one for kind, one in by_kind.items() if one},
            ranking=select_comparisons(comparisons, policy.name, "ranking"),
            heat_maps=heat_maps(competitor, choice.setting.rounded),
            slices=parameter_traces(competitor, choice.setting.rounded, level=level),
            worst_scope=query_set.worst_scope(after),
            worst_server=query_set.worst_server(after),
            worse=query_set.made_worse(before[COMPLETE], after[COMPLETE], chosen.answers[query_set.split]),
        )

    def _notes(self) -> list[str]:
        """What a reader must know."""
        query_sets = self.dataset.query_sets
        notes = [READ_ONCE if TEST in query_sets else ALL_DECIDE]
        for split, n in self.dataset.of.items():
            if len(query_sets[split]) < n:
                of = f"of the {split} split " if split in (TUNING, TEST) else ""
                notes.append(f"Of {n:,} queries {of}{len(query_sets[split]):,} were drawn.")
        notes += [f"{name} was left out: {reason}." for name, reason in self.dataset.left_out.items()]
        if self.base is not None:
            notes += _group_notes(self.base, self.dataset.tuning_set)
        for name, one in self.searches.items():
            if one.competitor.full_ranking.refitted:
                notes.append(
                    f"{name}: its fit has seen queries that decide, so that each of these is scored by a fit on the "
                    "other folds; a test split is scored by the fit itself."
                )
            if one.competitor.full_ranking.shared:
                notes.append(
                    f"{name}: its fit has seen queries that decide, among those of "
                    f"{one.competitor.full_ranking.shared} datasets, "
                    "so that it looks a little better here than on a dataset of your own."
                )
            if one.tried:
                notes.append(_run_note(name, one))
        return notes


def _group_notes(base: Base, query_set: QuerySet) -> list[str]:
    """What groups of queries do to intervals; nothing where every query in need is alone."""
    groups = len(np.unique(query_set.group[~np.isnan(base.complete)]))
    if groups == base.in_need:
        return []
    note = (
        f"The {base.in_need:,} queries in need that decide come in {groups:,} groups, such as paraphrases of one "
        f"request, and are worth {base.effective_queries:,.0f} independent ones by the base's completeness. Intervals "
        "and paired comparisons, but for those at equal tokens, are made by group, and constraints that are not of the "
        f"base are met by bounds for {base.worth:.0%} as many queries."
    )
    return [note]


def _run_note(name: str, found: SearchResult) -> str:
    """What breaks the prefix rule, and what was done instead."""
    searched = found.competitor.tunable.tried_values
    what = " and ".join(
        [", ".join(searched)] * bool(searched) + ["expansion"] * found.competitor.tunable.has_expansion({})
    )
    return (
        f"{name}: no exact sweep over {what}, which change more than how much of one ranking is offered; "
        f"{found.tried:,} settings were run on what the steps before had found, and the best of them need not be the "
        "best there is."
    )


def defaults_name(base: Tunable) -> str:
    """What the defaults of the base are called."""
    own = not base.entry.set and not base.start and base.source == "semantic"
    return "documents' defaults" if own else f"{base.name}, defaults"
