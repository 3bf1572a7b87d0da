"""Tune on every dataset, and then read each test split once."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial

import numpy as np

from ctxbench.evaluation.answers import Labels
from ctxbench.evaluation.comparisons import (
    LENGTHS,
    AtTokens,
    Curve,
    at_equal_tokens,
    compare_metric,
    grouped_compare,
    grouped_estimate,
)
from ctxbench.evaluation.metrics import Metric, mean
from ctxbench.evaluation.statistics import Comparison, Estimate, Scale, correct, critical, mean_estimate
from ctxbench.io.console import ProgressListener, silent
from ctxbench.io.errors import Message, UserError, count
from ctxbench.io.workers import OptionalPool
from ctxbench.model.arrays import FloatArray, IntArray
from ctxbench.model.candidates import Candidates
from ctxbench.selectors.external import all_empty
from ctxbench.selectors.selector import Value
from ctxbench.tuning.cut_families import CutFamily, sweep_common
from ctxbench.tuning.fit_examples import ALL
from ctxbench.tuning.held_out import (
    HeldOut,
    SettingEvaluator,
    SettingValues,
    VerdictQueries,
    compare_all,
    constraint_verdicts,
    fixed_reason,
    metrics_of,
    policy_outcome,
    verdict,
    with_stricter,
)
from ctxbench.tuning.inputs import (
    Choice,
    TuningDataset,
    TuningInputs,
    choose,
    first_trace,
    front_traces,
    heat_maps,
    parameter_traces,
)
from ctxbench.tuning.measures import COMPLETENESS, TOKENS, Measure
from ctxbench.tuning.policy import Constraint, Limit, Policy, PolicyFile, Ties, mean_gain, reach_ratio
from ctxbench.tuning.rankings import MeasuredRankings, Sweep, run_sweeps, seconds_of
from ctxbench.tuning.results import (
    AS_RETURNED,
    COMPLETE,
    DEFAULTS,
    OF_ITS_RANKING,
    PRESET,
    RECOMMENDED,
    SPEC_DEFAULTS,
    TEST,
    TOGETHER,
    TUNED,
    TUNING,
    WITH_DEFAULTS,
    ConstraintVerdict,
    DatasetTuning,
    PolicyOutcome,
    QuerySet,
    SettingResult,
    Tuning,
)
from ctxbench.tuning.search import (
    MIN_QUERIES,
    Base,
    BestSetting,
    Competitor,
    Optimum,
    Search,
    SearchResult,
    Setting,
    first_n,
    preset_search,
    run_searches,
)
from ctxbench.tuning.tunables import FIRST_N, Tunable


class DatasetTuner:
    """Chooses settings on one dataset, and measures them.

    Attributes:
        name: of the dataset.
        policies: those that the labels can answer.
        shipped: the shipped presets that compete.
        left_out: by name of a selector, why it does not compete.
        base: the first selector with its defaults, on the tuning set; None before `choose`.
        searches: results of the search, by name of the selector.
        choices: by policy.
    """

    def __init__(
        self, inputs: TuningInputs, dataset: TuningDataset, progress: ProgressListener, pool: OptionalPool | None = None
    ) -> None:
        self.inputs, self.dataset, self._progress = inputs, dataset, progress
        self._pool = pool or OptionalPool()
        self.file, self._base = inputs.file, inputs.tunables[0]
        self.name = dataset.dataset.name
        self.tunables = tuple(tunable for tunable in inputs.tunables if tunable.name not in dataset.left_out)
        self.policies = tuple(policy for policy in self.file.policies.values() if policy.name not in dataset.unanswered)
        self.left_out = dict(dataset.left_out)
        self.shipped = tuple(preset for preset in inputs.shipped if preset.tunable.name not in dataset.left_out)
        self.base: Base | None = None
        self.searches: dict[str, SearchResult] = {}
        self.choices: dict[str, Choice] = {}

    def rank(self) -> list[Search]:
        """Rank with every selector; the searches through their settings, which have not begun."""
        query_set, file, searches = self.dataset.tuning_set, self.file.with_policies(self.policies), list[Search]()
        for index, tunable in enumerate(self.tunables):
            self._say(f"{tunable.name}, ranking", index, len(self.tunables))
            competitor = Competitor.of(tunable, query_set, self.policies)
            base = self.base = self.base or Base.of(competitor, self.policies)

            def report_settings(settings: int, name: str = tunable.name, done: int = index) -> None:
                self._say(f"{name}, {count(settings, 'setting')}", done, len(self.tunables))

            searches.append(Search(competitor.with_base(base), file, base, report_settings))
        return searches

    def choose(self, results: Sequence[SearchResult] | None = None) -> None:
        """Choose a setting for every policy, on the tuning set alone.

        Args:
            results: of the searches of `rank`; by default they are run.
        """
        if results is None:
            results = run_searches(self.rank(), self._pool)
        self.searches = {result.competitor.name: result for result in results}
        if self.base is not None:
            self._add_presets(self.file.with_policies(self.policies), self.base)
        one_group = self._one_group_reason()
        ties = Ties[Setting](self._base.name, lambda *of: mean_gain(of[0], [self.gain_parts(*of)]))
        for policy in self.file.policies.values():
            if reason := self.dataset.unanswered.get(policy.name, one_group):
                self.choices[policy.name] = Choice(reason=reason, answered=False)
            else:
                optima = {name: result.optima[policy.name] for name, result in self.searches.items()}
                self.choices[policy.name] = self._with_lacking_labels(choose(policy, optima, ties))
        if self.base is not None:
            to_beat = {name: result.to_beat for name, result in self.searches[self._base.name].optima.items()}
            self.choices = with_stricter(self.policies, self.choices, base=self.base, to_beat=to_beat, ties=ties)

    def _add_presets(self, file: PolicyFile, base: Base) -> None:
        """Add shipped presets that no sweep evaluates; they are the only settings of a selector that is not tuned."""
        for preset in self.shipped:
            name = preset.tunable.name
            if name not in self.searches and name not in self.left_out:
                self._say(f"{name}, ranking", len(self.tunables), len(self.tunables))
                try:
                    competitor = Competitor.of(preset.tunable, self.dataset.tuning_set, self.policies)
                except UserError as error:  # the file does not name it: the report gives the reason
                    self.left_out[name] = str(error)
                    continue
                self.searches[name] = preset_search(competitor.with_base(base), file, base=base)
            if name in self.searches:
                self.searches[name].add_preset(preset.values)
        self.shipped = tuple(preset for preset in self.shipped if preset.tunable.name in self.searches)

    def _with_lacking_labels(self, choice: Choice) -> Choice:
        """The same choice, with how many more labels are needed if there are too few for any recommendation."""
        missing = 0 if self.base is None else MIN_QUERIES - self.base.in_need
        if choice.setting is not None or choice.needed is not None or missing <= 0:
            return choice
        return replace(choice, needed=(missing, missing))

    def _one_group_reason(self) -> str:
        """Why nothing is significant if all queries are of one group; empty if they are not."""
        if self.base is None or len(np.unique(self.dataset.tuning_set.group[~np.isnan(self.base.complete)])) > 1:
            return ""
        return Message("tuning.one-group", queries=self.base.in_need)

    def gain_parts(self, policy: Policy, *settings: Setting) -> tuple[FloatArray, FloatArray, IntArray]:
        """Two settings on the tuning set; see `mean_gain`."""
        measure = Measure(policy.objective)
        values, compared = (self.searches[name].competitor.by_query(values)[measure] for name, values in settings)
        return values, compared, self.dataset.tuning_set.group

    def held_out_parts(self, policy: Policy, *settings: SettingValues) -> tuple[FloatArray, FloatArray, IntArray]:
        """Two settings on the evaluation set; see `mean_gain`."""
        query_set = self.dataset.evaluation_set
        values, compared = (setting.by_query[query_set.split][policy.objective] for setting in settings)
        return values, compared, query_set.group

    def _say(self, activity: str, done: int, total: int) -> None:
        self._progress(f"{self.name}, {activity}; done", done, total)

    def _first_n(self, searched: SearchResult, values: Mapping[str, Value]) -> Mapping[str, Optimum]:
        """The best fixed number of items of the ranking of a setting, by policy."""
        tunable = searched.competitor.tunable
        if tunable.is_swept(values) or self.base is None or tunable.head_key({}) == tunable.head_key(values):
            return searched.fixed
        competitor = Competitor.of(tunable, self.dataset.tuning_set, self.policies, values).with_base(self.base)
        return first_n(competitor, self.file.with_policies(self.policies), base=self.base)

    @cached_property
    def evaluator(self) -> SettingEvaluator:
        """Measures settings. It reads the test split, if there is one."""
        evaluator = SettingEvaluator(self.dataset, metrics_of(self.file.policies.values()), self.file.confidence)
        for result in self.searches.values():
            evaluator.keep_ranking(result.competitor.tunable, result.competitor.full_ranking)
        return evaluator

    @cached_property
    def defaults(self) -> SettingValues:
        """The base with its defaults. Of an external selector: the first items of its ranking, or all without one."""
        base = self._base
        if not base.entry.set and not base.start and base.source == "semantic":
            name = SPEC_DEFAULTS
        elif base.answers is not None and base.answers.lists:
            name = f"{base.name}{AS_RETURNED}"
        elif base.answers is not None:
            name = f"{base.name}, first {base.values()['topN']}{OF_ITS_RANKING}"
        else:
            name = f"{base.name}{WITH_DEFAULTS}"
        return self.evaluator.setting(base, {}, name=name, role=DEFAULTS)

    def _with_equal_tokens(
        self, outcomes: tuple[PolicyOutcome, ...], measured: Mapping[str, Mapping[str, SettingValues]]
    ) -> tuple[PolicyOutcome, ...]:
        """The outcomes with a comparison of the chosen setting with the base's first n items at equal tokens."""
        query_set = self.dataset.evaluation_set
        ranking = self.evaluator.full_ranking(self._base, {}, query_set.split)
        curve = first_items_curve(ranking.answers.candidates, query_set.labels)
        chosen = {policy: settings["chosen"] for policy, settings in measured.items()}
        comparisons = compare_at_tokens(chosen, curve, query_set, seed=self.file.seed)
        return tuple(replace(outcome, at_tokens=comparisons.get(outcome.policy.name)) for outcome in outcomes)

    def result(self) -> DatasetTuning:
        """Measure the chosen settings, and the settings that they are compared with."""
        dataset, file, defaults = self.dataset, self.file, self.defaults
        self._say("measuring", 0, len(file.policies))
        shipped = self.shipped_values
        own_presets = [setting for setting in self._presets() if setting.name not in shipped]
        compared = [
            *own_presets,
            *(setting for setting in shipped.values() if setting is not defaults),
            self.evaluator.everything(),
        ]
        measured = {policy.name: settings for policy in file.policies.values() if (settings := self._chosen(policy))}
        measured |= self._replaced(measured)
        chosen = {policy: settings for policy, settings in measured.items() if "chosen" in settings}
        comparisons = compare_all(defaults, chosen, self._compare, file.policies.values())
        all_settings = [
            defaults,
            *compared,
            *(setting for settings in measured.values() for setting in settings.values()),
        ]
        results = {setting.name: self.evaluator.result(setting) for setting in all_settings}
        outcomes = tuple(
            self._outcome(policy, measured.get(policy.name, {}), results, comparisons)
            for policy in file.policies.values()
        )
        level, searched = file.confidence, [result for result in self.searches.values() if result.front]
        return DatasetTuning(
            dataset=self.name,
            version=dataset.dataset.version,
            hash=dataset.dataset.hash,
            items=len(dataset.dataset.catalog),
            queries={split: len(query_set) for split, query_set in dataset.query_sets.items()},
            of=dataset.of,
            tokens=self.inputs.counter.name,
            results=tuple(results.values()),
            traces=(
                *front_traces(searched, level=level, pool=self._pool),
                *(first_trace(self.searches[tunable.name].competitor, level=level) for tunable in self.tunables),
            ),
            outcomes=self._with_equal_tokens(outcomes, chosen),
            notes=tuple(self._notes()),
            shipped={name: results[setting.name] for name, setting in shipped.items()},
        )

    def _compare(self, base: SettingValues, compared: SettingValues, metric: Metric) -> Comparison | None:
        """A paired comparison on the evaluation set, by group of queries."""
        query_set = self.dataset.evaluation_set
        before, after = (setting.by_query[query_set.split] for setting in (base, compared))
        comparison = compare_metric(metric, before, after, seed=self.file.seed, groups=query_set.group)
        return comparison if comparison.n else None

    @cached_property
    def shipped_values(self) -> dict[str, SettingValues]:
        """The values of the shipped presets, by name; those of the defaults if a preset equals them."""
        return {
            preset.name: self.defaults
            if preset.is_setting_of(self._base, {})
            else self.evaluator.setting(preset.tunable, preset.values, name=preset.name, role=PRESET)
            for preset in self.shipped
        }

    def _replaced(self, measured: Mapping[str, dict[str, SettingValues]]) -> dict[str, dict[str, SettingValues]]:
        """By policy, what replaces a setting, and that setting: what it is tied with, or a preset that beats it."""
        held_out = HeldOut(
            ties=Ties(
                self._base.name,
                lambda *of: mean_gain(of[0], [self.held_out_parts(*of)]),
                critical(self.file.confidence),
            ),
            shipped=self.shipped,
            presets=self.shipped_values,
            first=lambda setting: setting,
            of_base=self.of_base,
            verdicts=lambda policy, setting: self.evaluator.verdicts(policy, setting, self.defaults),
            means=lambda setting: setting.evaluation_means,
            is_unread=TEST in self.dataset.query_sets,
        )
        replaced = {}
        for policy, choice in held_out.replacements(self.policies, self.choices, measured):
            self.choices[policy.name] = choice
            tuned = replace(measured[policy.name]["chosen"], name=f"{policy.name}, as tuned", role=TUNED)
            replaced[policy.name] = {**self._chosen(policy), "replaced": tuned}
        return replaced

    def of_base(self, setting: BestSetting) -> SettingValues:
        """A setting of the base's selector, measured."""
        return self.evaluator.setting(self._base, setting.rounded, name=self._base.name, role=RECOMMENDED)

    def _presets(self) -> Iterator[SettingValues]:
        """The presets of the base's definition, without those that equal its defaults."""
        base = self._base
        for preset, values in base.definition.presets.items():
            free_values = {name: value for name, value in values.items() if name not in base.entry.set}
            if base.in_force(free_values) != base.in_force({}):
                yield self.evaluator.setting(base, free_values, name=f"{base.name}/{preset}", role=PRESET)

    def _chosen(self, policy: Policy) -> dict[str, SettingValues]:
        """The chosen setting, and the fixed numbers of items that meet the policy; empty if the default is kept."""
        choice = self.choices[policy.name]
        if choice.setting is None:
            return {}
        result, values = self.searches[choice.selector], choice.setting.rounded
        tunable = result.competitor.tunable
        optima, base = self._first_n(result, values), self.searches[self._base.name].fixed
        first = {
            "fixed": (self._base, {}, base[policy.name].n),
            "fixed_of_selector": (tunable, values, optima[policy.name].n),
        }
        return self.evaluator.chosen(policy, tunable, values, first)

    def _outcome(
        self,
        policy: Policy,
        settings: Mapping[str, SettingValues],
        results: Mapping[str, SettingResult],
        comparisons: Mapping[tuple[str, str, str], Comparison],
    ) -> PolicyOutcome:
        choice = self.choices[policy.name]
        verdicts = self.evaluator.verdicts(policy, settings["chosen"], self.defaults) if "chosen" in settings else ()
        by_kind = {kind: results[setting.name] for kind, setting in settings.items()}
        outcome = replace(
            policy_outcome(policy, choice, by_kind, comparisons, verdicts),
            tried=sum(result.tried for result in self.searches.values() if not result.competitor.tunable.tried_heads),
        )
        if choice.setting is None or "chosen" not in settings:
            return outcome
        query_set, chosen = self.dataset.evaluation_set, settings["chosen"]
        values = choice.setting.rounded
        competitor = self.searches[choice.selector].competitor.at(values)
        before, after = (setting.by_query[query_set.split] for setting in (self.defaults, chosen))
        return replace(
            outcome,
            fixed_reason=fixed_reason(policy, self._base.name, self.searches[self._base.name].fixed[policy.name]),
            shipped=next(
                (preset.name for preset in self.shipped if preset.is_setting_of(competitor.tunable, values)), ""
            ),
            heat_maps=heat_maps(competitor, values),
            slices=parameter_traces(competitor, values, level=self.file.confidence),
            worst_scope=query_set.worst_scope(after),
            worst_server=query_set.worst_server(after),
            worse=query_set.made_worse(before[COMPLETE], after[COMPLETE], chosen.answers[query_set.split]),
        )

    def _notes(self) -> Iterator[str]:
        """Notes for the reader of a report."""
        query_sets = self.dataset.query_sets
        yield Message("tuning.test-read-once" if TEST in query_sets else "tuning.all-labels-decide")
        for split, n in self.dataset.of.items():
            if len(query_sets[split]) < n:
                yield Message("tuning.sample-drawn", n=len(query_sets[split]), queries=n, split=split)
        for name, reason in self.left_out.items():
            yield Message("tuning.left-out", selector=name, reason=reason)
        for name in self.dataset.empty:
            sentence = all_empty(name, self.name)
            yield f"{sentence[0].upper()}{sentence[1:]}."
        if self.base is not None:
            yield from _group_notes(self.base, self.dataset.tuning_set)
        for name, result in self.searches.items():
            tunable, ranking = result.competitor.tunable, result.competitor.full_ranking
            if ranking.refitted:
                yield Message("tuning.scored-out-of-fold", selector=name)
            if ranking.shared:
                yield Message("tuning.fit-has-seen-dataset", selector=name, datasets=ranking.shared)
            if tunable.answers is not None and "n" in tunable.definition.parameters:
                yield Message("tuning.only-first-n", selector=name)
            for setting, reason in result.failed.items():
                yield Message("tuning.left-out", selector=setting, reason=reason)
            if result.tried:
                unswept = [*tunable.tried_values, *["expansion"] * tunable.has_expansion({})]
                key = "tuning.heads-tried" if tunable.tried_heads else "tuning.not-swept"
                yield Message(key, selector=name, parameters=unswept, settings=result.tried)


def _group_notes(base: Base, query_set: QuerySet) -> Iterator[str]:
    """A note on how groups of queries change intervals; none if each query in need is a group."""
    groups = len(np.unique(query_set.group[~np.isnan(base.complete)]))
    if groups != base.in_need:
        yield Message(
            "tuning.grouped-queries",
            queries=base.in_need,
            groups=groups,
            effective=base.effective_queries,
            share=base.worth,
        )


def first_items_curve(table: Candidates, labels: Labels) -> Curve:
    """Completeness and tokens of the first n items on every query, for n from 0 to 100.

    Args:
        table: a ranking without cuts, in the order of the queries of `labels`.
        labels: of the queries.
    """
    rankings = MeasuredRankings.of(table, labels, (COMPLETENESS, TOKENS))
    values = [
        [rankings.values(measure, np.minimum(rankings.sizes, n)) for n in LENGTHS] for measure in (COMPLETENESS, TOKENS)
    ]
    return Curve(*(np.stack(arrays) for arrays in values))


def compare_at_tokens(
    chosen: Mapping[str, SettingValues], curve: Curve, query_set: QuerySet, *, seed: int
) -> dict[str, AtTokens]:
    """Compare chosen settings with the curve, each at its mean tokens; Holm-corrected together.

    The p-value is by groups of paraphrases, the interval by queries.

    Args:
        chosen: by policy, measured on the split of `query_set`.
        curve: on the same queries.
        query_set: the split.
        seed: of the sign flips.

    Returns:
        By policy; settings that failed on a query, which then has no tokens, are left out.
    """
    results: dict[str, AtTokens] = {}
    for policy, setting in chosen.items():
        complete, tokens = (setting.by_query[query_set.split][measure.metric] for measure in (COMPLETENESS, TOKENS))
        if not np.isnan(tokens).any():
            results[policy] = at_equal_tokens(complete, tokens, curve, groups=query_set.group, seed=seed)
    corrected = correct(
        {
            policy: replace(result.comparison, p=result.p_groups)
            for policy, result in results.items()
            if result.comparison is not None
        }
    )
    return {policy: replace(result, comparison=corrected.get(policy)) for policy, result in results.items()}


def tune(
    inputs: TuningInputs, *, command: str, progress: ProgressListener = silent, pool: OptionalPool | None = None
) -> Tuning:
    """Tune on every dataset.

    All choices on all datasets are made before the test split of any is read.

    Args:
        inputs: the opened inputs.
        command: the command that repeats this, for the report.
        progress: called with how far tuning is.
        pool: sweeps settings; None = this process.

    Raises:
        UserError: a selector fails.
    """
    pool = pool or OptionalPool()
    pool.for_work(0.0)  # processes whose number is given start while the selectors rank
    tuners = [DatasetTuner(inputs, dataset, progress, pool) for dataset in inputs.datasets]
    searches = [tuner.rank() for tuner in tuners]
    results = iter(run_searches(list(itertools.chain(*searches)), pool))
    for tuner, of_dataset in zip(tuners, searches, strict=True):
        tuner.choose(list(itertools.islice(results, len(of_dataset))))
    common = CommonSetting(tuners) if inputs.file.together and len(tuners) > 1 else None
    if common is not None:
        common.choose(progress, pool)
    return Tuning(
        name=inputs.file.name,
        about=inputs.file.about,
        command=command,
        seed=inputs.file.seed,
        embedder=inputs.embedder.identity.key,
        datasets=(*(tuner.result() for tuner in tuners), *([common.result()] if common is not None else [])),
        date=datetime.now(UTC).date().isoformat(),
    )


DECIDING, READING = 0, -1  # of the splits that a dataset is measured on


class CommonSetting:
    """Chooses one setting for all datasets, and measures it.

    Only selectors that are swept exactly compete.
    """

    def __init__(self, tuners: Sequence[DatasetTuner]) -> None:
        self._tuners = tuners
        self._file = tuners[0].file
        shared = [
            tunable for tunable in tuners[0].inputs.tunables if all(tunable in tuner.tunables for tuner in tuners)
        ]
        self._tunables = [tunable for tunable in shared if tunable.family is not None and not tunable.has_expansion({})]
        answered = [policy for policy in tuners[0].policies if all(policy in tuner.policies for tuner in tuners)]
        self._policies = answered if self._tunables else []
        self._choices: dict[str, Choice] = {}
        self._fixed: dict[tuple[str, str], Optimum] = {}

    def choose(self, progress: ProgressListener, pool: OptionalPool) -> None:
        """Choose for every policy, after every dataset has been tuned alone."""
        policies, sweeps = self._policies, list[Sweep]()
        optima: dict[str, dict[str, Optimum]] = {policy.name: {} for policy in policies}
        for tunable in self._tunables:
            tuned = [self._optimum(policy, tunable.name, tunable.values()) for policy in policies]
            fixed = [self._optimum(policy, tunable.name, {}) for policy in policies]
            if tunable.family is not None:
                sweeps.append(self._sweep(tunable.family, tunable, tuned, progress))
            sweeps.append(self._sweep(FIRST_N, tunable, fixed, progress))
            for policy, optimum, first in zip(policies, tuned, fixed, strict=True):
                optima[policy.name][tunable.name] = optimum
                self._fixed[policy.name, tunable.name] = first
        run_sweeps(sweeps, pool)
        none = Choice(reason=Message("tuning.no-common-setting"))
        base = self._tuners[0].inputs.tunables[0].name
        ties = Ties[Setting](base, lambda *of: mean_gain(of[0], [tuner.gain_parts(*of) for tuner in self._tuners]))
        self._choices |= {
            policy.name: choose(policy, optima[policy.name], ties) if policy in policies else none
            for policy in self._file.policies.values()
        }

    def _sweep(
        self, family: CutFamily, tunable: Tunable, optima: Sequence[Optimum], progress: ProgressListener
    ) -> Sweep:
        """The sweep of a selector's cuts, or of the first n items of its rankings."""
        rankings = [tuner.searches[tunable.name].competitor.rankings for tuner in self._tuners]
        worth = [tuner.base.worth if tuner.base else 1.0 for tuner in self._tuners]
        return Sweep(
            source=rankings,
            parts=lambda n: [partial(sweep_common, part, worth=worth) for part in family.parts(n)],
            collectors=optima,
            seconds=seconds_of(0 if family is FIRST_N else tunable.n_lines, *rankings),
            progress=lambda n: progress(f"{TOGETHER}, {tunable.name}, {count(n, 'setting')}", 0, 1),
        )

    def _optimum(self, policy: Policy, name: str, defaults: Mapping[str, Value]) -> Optimum:
        bases = [
            (tuner.base, tuner.searches[name].competitor.rankings.reachable) for tuner in self._tuners if tuner.base
        ]
        measures = [
            measure
            for measure in bases[0][0].means
            if not measure.required_type and all(measure in base.means for base, _ in bases)
        ]
        means = {measure: float(np.mean([base.means[measure] for base, _ in bases])) for measure in measures}
        optimum = Optimum(
            policy,
            level=self._file.confidence,
            base=means,
            reach=float(np.mean([reach_ratio(base.reachable, reachable) for base, reachable in bases])),
            defaults=defaults,
        )
        aim = Measure(policy.objective)
        if aim.metric.declaration.scale == "amount" and not math.isnan(optimum.to_beat):
            optimum.to_beat = math.expm1(float(np.mean([math.log1p(base.means[aim]) for base, _ in bases])))
        return optimum

    def result(self) -> DatasetTuning:
        """Measure the chosen setting on every dataset, and average over datasets."""
        level, all_rows = self._file.confidence, [[tuner.defaults for tuner in self._tuners]]
        measured = {
            policy.name: by_kind for policy in self._file.policies.values() if (by_kind := self._chosen(policy))
        }
        shipped = self._shipped()
        measured |= self._replaced(measured, shipped)
        chosen = {policy: by_kind for policy, by_kind in measured.items() if "chosen" in by_kind}
        all_rows += [rows for rows in shipped.values() if rows[0].role != DEFAULTS]
        all_rows += [rows for by_kind in measured.values() for rows in by_kind.values()]
        comparisons = compare_all(all_rows[0], chosen, self._compare, self._file.policies.values())
        results = {rows[0].name: self._result(rows, level) for rows in all_rows}
        outcomes = []
        for policy in self._file.policies.values():
            by_kind = measured.get(policy.name, {})
            verdicts = self._verdicts(policy, by_kind["chosen"]) if "chosen" in by_kind else ()
            kind_results = {kind: results[rows[0].name] for kind, rows in by_kind.items()}
            outcome = policy_outcome(policy, self._choices[policy.name], kind_results, comparisons, verdicts)
            if outcome.chosen is not None:
                base = self._tuners[0].inputs.tunables[0].name
                outcome = replace(
                    outcome, fixed_reason=fixed_reason(policy, base, self._fixed.get((policy.name, base)))
                )
            outcomes.append(replace(outcome, shipped=self._preset_name(self._choices[policy.name])))
        datasets = [tuner.dataset for tuner in self._tuners]
        names = [tuner.name for tuner in self._tuners]
        return DatasetTuning(
            dataset=TOGETHER,
            version="",
            hash=hashlib.sha256(" ".join(dataset.dataset.hash for dataset in datasets).encode()).hexdigest(),
            items=sum(len(dataset.dataset.catalog) for dataset in datasets),
            queries=_sum_counts(
                [{split: len(query_set) for split, query_set in dataset.query_sets.items()} for dataset in datasets]
            ),
            of=_sum_counts([dataset.of for dataset in datasets]),
            tokens=self._tuners[0].inputs.counter.name,
            results=tuple(results.values()),
            traces=(),
            outcomes=tuple(outcomes),
            notes=(Message("tuning.common-setting", datasets=names), *self._split_notes()),
            shipped={name: results[rows[0].name] for name, rows in shipped.items()},
        )

    def _shipped(self) -> dict[str, list[SettingValues]]:
        """The values of the shipped presets that compete on every dataset, by name."""
        presets = [tuner.shipped_values for tuner in self._tuners]
        return {
            name: [values[name] for values in presets]
            for name in presets[0]
            if all(name in values for values in presets)
        }

    def _replaced(
        self, measured: Mapping[str, dict[str, list[SettingValues]]], shipped: Mapping[str, list[SettingValues]]
    ) -> dict[str, dict[str, list[SettingValues]]]:
        """By policy, the shipped preset that replaces a setting which it beats, and that setting."""
        held_out = HeldOut(
            ties=Ties(self._tuners[0].inputs.tunables[0].name, self._held_out_gain, critical(self._file.confidence)),
            shipped=self._tuners[0].shipped,
            presets=shipped,
            first=lambda rows: rows[0],
            of_base=lambda setting: [tuner.of_base(setting) for tuner in self._tuners],
            verdicts=self._verdicts,
            means=_joined_means,
            is_unread=any(TEST in tuner.dataset.query_sets for tuner in self._tuners),
        )
        replaced = {}
        for policy, choice in held_out.replacements(self._policies, self._choices, measured):
            self._choices[policy.name] = choice
            chosen = measured[policy.name]["chosen"]
            tuned = [replace(setting, name=f"{policy.name}, as tuned", role=TUNED) for setting in chosen]
            replaced[policy.name] = {**self._chosen(policy), "replaced": tuned}
        return replaced

    def _held_out_gain(self, policy: Policy, *settings: Sequence[SettingValues]) -> tuple[float, float]:
        """The gain of one setting over another on the evaluation sets."""
        pairs = zip(self._tuners, *settings, strict=True)
        return mean_gain(policy, [tuner.held_out_parts(policy, *pair) for tuner, *pair in pairs])

    def _preset_name(self, choice: Choice) -> str:
        """The name of the shipped preset that a choice equals; empty if there is none."""
        if choice.setting is None:
            return ""
        tunable, values = self._tuners[0].inputs.tunable(choice.selector), choice.setting.rounded
        return next((preset.name for preset in self._tuners[0].shipped if preset.is_setting_of(tunable, values)), "")

    def _split_notes(self) -> Iterator[str]:
        """Which labels decided, and on which labels figures were measured."""
        decided = [tuner.name for tuner in self._tuners if TEST not in tuner.dataset.query_sets]
        if len(decided) < len(self._tuners):
            yield Message("tuning.test-read-once")
        if decided:
            yield Message("tuning.all-labels-decide-on", datasets=decided)

    def _chosen(self, policy: Policy) -> dict[str, list[SettingValues]]:
        """The chosen setting and fixed numbers of items on every dataset; empty if the default is kept."""
        choice = self._choices[policy.name]
        if choice.setting is None:
            return {}
        base, values = self._tuners[0].inputs.tunables[0], choice.setting.rounded
        tunable = self._tuners[0].inputs.tunable(choice.selector)
        first = {selector.name: self._fixed.get((policy.name, selector.name)) for selector in (base, tunable)}
        n = {name: None if optimum is None else optimum.n for name, optimum in first.items()}
        fixed = {"fixed": (base, {}, n[base.name]), "fixed_of_selector": (tunable, values, n[tunable.name])}
        rows = [tuner.evaluator.chosen(policy, tunable, values, fixed) for tuner in self._tuners]
        return {kind: [row[kind] for row in rows] for kind in rows[0]}

    def _verdicts(self, policy: Policy, chosen: Sequence[SettingValues]) -> tuple[ConstraintVerdict, ...]:
        """Verdicts of the constraints on the evaluation sets of all datasets.

        Constraints are left out if their metric, or its mean for the base, applies to no query.
        """
        defaults = [tuner.defaults for tuner in self._tuners]
        means = {Measure(metric): value for metric, value in _joined_means(defaults).items() if not np.isnan(value)}
        reaches = [
            reach_ratio(base.reachable[base.splits[READING]], setting.reachable[setting.splits[READING]])
            for base, setting in zip(defaults, chosen, strict=True)
        ]
        reach = float(np.mean(reaches))
        all_read = all(TEST in tuner.dataset.query_sets for tuner in self._tuners)
        ground = VerdictQueries(group=self._group, level=self._file.confidence, chosen_here=not all_read)

        def judge(limit: Limit, constraint: Constraint) -> ConstraintVerdict | None:
            metric = constraint.metric
            parts = _values(chosen, metric, READING, reachable=constraint.of == "reachable")
            estimate = self._estimate(parts, metric, READING, ground.level)
            return verdict(limit, _join(parts), _join_values(defaults, metric), ground, estimate=estimate)

        return constraint_verdicts(policy, means, reach, judge)

    def _compare(self, base: list[SettingValues], compared: list[SettingValues], metric: Metric) -> Comparison:
        left, right = (_join_values(rows, metric) for rows in (base, compared))
        return grouped_compare(left, right, self._group, scale="amount", seed=self._file.seed)

    def _result(self, rows: Sequence[SettingValues], level: float) -> SettingResult:
        """The mean of a setting's figures over datasets."""
        first = rows[0]

        def means(split_index: int) -> dict[str, Estimate]:
            estimates = {
                str(metric): self._estimate(_values(rows, metric, split_index), metric, split_index, level)
                for metric in first.by_query[first.splits[split_index]]
            }
            return {metric: estimate for metric, estimate in estimates.items() if estimate.n}

        return SettingResult(
            name=first.name,
            role=first.role,
            selector=first.selector,
            values=first.values,
            tuning=means(DECIDING),
            test=means(READING) if any(TEST in row.splits for row in rows) else {},
        )

    def _estimate(self, parts: Sequence[FloatArray], metric: Metric, split_index: int, level: float) -> Estimate:
        """The mean of a metric's means over datasets, from its values by query on each; see `mean_estimate`."""
        scale: Scale = metric.declaration.scale  # type: ignore[assignment]
        pairs = zip(parts, self._groups(split_index), strict=True)
        return mean_estimate([grouped_estimate(part, group, scale=scale, level=level) for part, group in pairs])

    def _groups(self, split_index: int) -> list[IntArray]:
        """The group of every query, by dataset."""
        return [list(tuner.dataset.query_sets.values())[split_index].group for tuner in self._tuners]

    @property
    def _group(self) -> IntArray:
        """The group of every query of all datasets on `READING`, none shared between two."""
        groups = self._groups(READING)
        return np.concatenate([group + sum(map(len, groups[:index])) for index, group in enumerate(groups)])


def _join_values(rows: Sequence[SettingValues], metric: Metric) -> FloatArray:
    """The values of the evaluation sets, joined."""
    return _join(_values(rows, metric, READING))


def _join(parts: Sequence[FloatArray]) -> FloatArray:
    """Join values by query of all datasets, scaled so that their mean is the mean of the datasets' means.

    A dataset to which the metric does not apply is left out; its values are NaN.
    """
    counts = [int((~np.isnan(part)).sum()) for part in parts]
    total, n_datasets = sum(counts), sum(n > 0 for n in counts)
    return np.concatenate(
        [part * (total / (n_datasets * n)) if n else part for part, n in zip(parts, counts, strict=True)]
    )


def _joined_means(rows: Sequence[SettingValues]) -> dict[Metric, float]:
    """The mean of each metric on the evaluation sets of all datasets."""
    metrics = rows[0].by_query[rows[0].splits[READING]]
    return {metric: mean(_join_values(rows, metric)).value for metric in metrics}


def _values(rows: Sequence[SettingValues], metric: Metric, index: int, *, reachable: bool = False) -> list[FloatArray]:
    """A metric by query of each dataset, on `DECIDING` or `READING`; with `reachable` of queries within reach only."""
    pairs = [(row, row.splits[index]) for row in rows]
    return [row.of_reachable(split, metric) if reachable else row.by_query[split][metric] for row, split in pairs]


def _sum_counts(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Sums of counts by split; counts of a dataset on which all labels decide are added to both splits."""
    if not any(TEST in sizes for sizes in counts):
        return {ALL: sum(sum(sizes.values()) for sizes in counts)}
    return {split: sum(sizes[split] if split in sizes else sizes[ALL] for sizes in counts) for split in (TUNING, TEST)}
