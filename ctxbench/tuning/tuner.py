"""Tunes on all datasets: every choice is made on the tuning sets, and then test splits are read, once."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ctxbench.bench.metrics import Metric, mean
from ctxbench.bench.stats import Comparison, Estimate, grouped_compare, grouped_estimate
from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.selectors.parameters import Value
from ctxbench.tuning.dataset_tuning import ALL_DECIDE, READ_ONCE, DatasetTuner
from ctxbench.tuning.fits.examples import ALL
from ctxbench.tuning.held_out_figures import (
    SettingValues,
    VerdictQueries,
    best_preset,
    compare_all,
    constraint_verdicts,
    fixed_reason,
    policy_outcome,
    replacing_choice,
    verdict,
)
from ctxbench.tuning.limits import Constraint, Limit, Policy, reach_ratio
from ctxbench.tuning.opened_inputs import TuningInputs
from ctxbench.tuning.optima import Optimum
from ctxbench.tuning.query_sets import TEST, TUNING, Progress
from ctxbench.tuning.recommendation import Choice, choose
from ctxbench.tuning.sweep.families import CutFamily
from ctxbench.tuning.sweep.measures import Measure
from ctxbench.tuning.swept_settings import sweep_common
from ctxbench.tuning.tunables import FIRST_N
from ctxbench.tuning.tuning_results import (
    DEFAULTS,
    TOGETHER,
    TUNED,
    ConstraintVerdict,
    DatasetTuning,
    SettingResult,
    Tuning,
    fall_short,
)


def no_progress(text: str, done: int, total: int) -> None:
    """Report no progress."""


def tune(inputs: TuningInputs, *, command: str, progress: Progress = no_progress) -> Tuning:
    """Tune on every dataset.

    All choices on all datasets are made before the test split of any is read.

    Args:
        inputs: what is tuned.
        command: the line that repeats this, for the report.
        progress: called with how far tuning is.

    Raises:
        UserError: a selector fails.
    """
    tuners = [DatasetTuner(inputs, dataset, progress) for dataset in inputs.datasets]
    for tuner in tuners:
        tuner.choose()
    common = CommonSetting(tuners) if inputs.file.together and len(tuners) > 1 else None
    if common is not None:
        common.choose(progress)
    return Tuning(
        name=inputs.file.name,
        about=inputs.file.about,
        command=command,
        seed=inputs.file.seed,
        embedder=inputs.embedder.identity.key,
        datasets=(*(tuner.result() for tuner in tuners), *([common.result()] if common is not None else [])),
    )


DECIDING, READING = 0, -1  # of the splits that a dataset is measured on


class CommonSetting:
    """Chooses one setting for all datasets, and measures it.

    Selectors that are swept exactly compete; what has to be tried does not.
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

    def choose(self, progress: Progress) -> None:
        """Choose for every policy; every dataset has been looked at on its own before."""
        policies = self._policies
        optima: dict[str, dict[str, Optimum]] = {policy.name: {} for policy in policies}
        for tunable in self._tunables:
            tuned = [self._optimum(policy, tunable.name, tunable.values()) for policy in policies]
            fixed = [self._optimum(policy, tunable.name, {}) for policy in policies]
            if tunable.family is not None:
                self._sweep(tunable.family, tunable.name, tuned, progress)
            self._sweep(FIRST_N, tunable.name, fixed, progress)
            for policy, optimum, first in zip(policies, tuned, fixed, strict=True):
                optima[policy.name][tunable.name] = optimum
                self._fixed[policy.name, tunable.name] = first
        none = Choice(reason="the labels of some dataset cannot say, or no selector suits all")
        for policy in self._file.policies:
            self._choices[policy.name] = choose(policy, optima[policy.name]) if policy in policies else none

    def _sweep(self, family: CutFamily, name: str, optima: Sequence[Optimum], progress: Progress) -> None:
        sweep_common(
            family,
            [tuner.searches[name].competitor.rankings for tuner in self._tuners],
            optima,
            worth=[tuner.base.worth if tuner.base else 1.0 for tuner in self._tuners],
            progress=lambda n: progress(f"{TOGETHER}, {name}, {n:,} {'setting' if n == 1 else 'settings'}", 0, 1),
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
        reach = float(np.mean([reach_ratio(base.reachable, reachable) for base, reachable in bases]))
        optimum = Optimum(policy, level=self._file.confidence, base=means, reach=reach, defaults=defaults)
        aim = Measure(policy.objective)
        if aim.metric.declaration.scale == "amount" and not math.isnan(optimum.to_beat):
            optimum.to_beat = math.expm1(float(np.mean([math.log1p(base.means[aim]) for base, _ in bases])))
        return optimum

    # ------------------------------------------------------------------------------------------ both splits

    def result(self) -> DatasetTuning:
        """Measure what is recommended on every dataset, and average over datasets."""
        level, all_rows = self._file.confidence, [[tuner.defaults for tuner in self._tuners]]
        measured = {
            policy.name: by_kind
            for policy in self._file.policies
            if (by_kind := self._chosen(policy, self._choices[policy.name]))
        }
        shipped = self._shipped()
        measured |= self._replaced(measured, shipped)
        chosen = {policy: by_kind for policy, by_kind in measured.items() if "chosen" in by_kind}
        all_rows += [rows for rows in shipped.values() if rows[0].role != DEFAULTS]
        all_rows += [rows for by_kind in measured.values() for rows in by_kind.values()]
        comparisons = compare_all(all_rows[0], chosen, self._compare, self._file.policies)
        results = {rows[0].name: self._result(rows, level) for rows in all_rows}
        outcomes = []
        for policy in self._file.policies:
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
        names = ", ".join(tuner.name for tuner in self._tuners)
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
            notes=(
                f"One setting for all of {names}; every figure is the mean over datasets, each weighing the same.",
                "The objective is the geometric mean over datasets where it is an amount, such as prompt tokens.",
                *self._split_notes(),
            ),
            shipped={name: results[rows[0].name] for name, rows in shipped.items()},
        )

    def _shipped(self) -> dict[str, list[SettingValues]]:
        """The shipped presets that compete on every dataset, measured on each."""
        presets = [tuner.shipped_values for tuner in self._tuners]
        return {
            name: [values[name] for values in presets]
            for name in presets[0]
            if all(name in values for values in presets)
        }

    def _replaced(
        self, measured: Mapping[str, dict[str, list[SettingValues]]], shipped: Mapping[str, list[SettingValues]]
    ) -> dict[str, dict[str, list[SettingValues]]]:
        """By policy, what takes the place of a setting that a shipped preset beats on the evaluation sets."""

        def means(rows: Sequence[SettingValues]) -> dict[Metric, float]:
            metrics = rows[0].by_query[rows[0].splits[READING]]
            return {metric: mean(_join_values(rows, metric, READING)).value for metric in metrics}

        replaced = {}
        for policy in self._policies:
            chosen = measured.get(policy.name, {}).get("chosen")
            if chosen is None or fall_short(self._verdicts(policy, chosen)):
                continue
            passing = {name: rows for name, rows in shipped.items() if not fall_short(self._verdicts(policy, rows))}
            name = best_preset(policy, means(chosen), {name: means(rows) for name, rows in passing.items()})
            if name is not None:
                preset = next(preset for preset in self._tuners[0].shipped if preset.name == name)
                is_default = shipped[name][0].role == DEFAULTS
                self._choices[policy.name] = replacing_choice(preset, self._choices[policy.name], is_default=is_default)
                beaten = [replace(setting, name=f"{policy.name}, as tuned", role=TUNED) for setting in chosen]
                replaced[policy.name] = {**self._chosen(policy, self._choices[policy.name]), "replaced": beaten}
        return replaced

    def _preset_name(self, choice: Choice) -> str:
        """The shipped preset that a choice is; empty where it is none."""
        if choice.setting is None:
            return ""
        tunable, values = self._tuners[0].inputs.tunable(choice.selector), choice.setting.rounded
        return next((preset.name for preset in self._tuners[0].shipped if preset.is_setting_of(tunable, values)), "")

    def _split_notes(self) -> Iterator[str]:
        """Which labels decided, and which figures are of."""
        decided = [tuner.name for tuner in self._tuners if TEST not in tuner.dataset.query_sets]
        if len(decided) < len(self._tuners):
            yield READ_ONCE
        if decided:
            yield f"On {', '.join(decided)} all labels decided, and figures are of the same labels. {ALL_DECIDE}"

    def _chosen(self, policy: Policy, choice: Choice) -> dict[str, list[SettingValues]]:
        """What is recommended, and fixed numbers of items, on every dataset; nothing, if the default is kept."""
        if choice.setting is None:
            return {}
        base, values = self._tuners[0].inputs.tunables[0], choice.setting.rounded
        tunable = self._tuners[0].inputs.tunable(choice.selector)
        first = {selector.name: self._fixed.get((policy.name, selector.name)) for selector in (base, tunable)}
        n = {name: None if optimum is None else optimum.n for name, optimum in first.items()}
        fixed = {"fixed": (base, {}, n[base.name]), "fixed_own": (tunable, values, n[tunable.name])}
        rows = [tuner.evaluator.chosen(policy, tunable, values, fixed) for tuner in self._tuners]
        return {kind: [row[kind] for row in rows] for kind in rows[0]}

    def _verdicts(self, policy: Policy, chosen: Sequence[SettingValues]) -> tuple[ConstraintVerdict, ...]:
        """Verdicts of the constraints on the evaluation sets of all datasets.

        Without those whose metric applies to no query there, or that are multiples of what the base lacks there.
        """
        defaults, group = [tuner.defaults for tuner in self._tuners], self._group(READING)
        pooled = {
            Measure(metric): mean(_join_values(defaults, metric, READING)).value
            for metric in defaults[0].by_query[defaults[0].splits[READING]]
        }
        means = {measure: value for measure, value in pooled.items() if not np.isnan(value)}
        pairs = zip(defaults, chosen, strict=True)
        reach = float(
            np.mean(
                [
                    reach_ratio(base.reachable[base.splits[-1]], setting.reachable[setting.splits[-1]])
                    for base, setting in pairs
                ]
            )
        )
        all_read = all(TEST in tuner.dataset.query_sets for tuner in self._tuners)
        ground = VerdictQueries(group=group, level=self._file.confidence, chosen_here=not all_read)

        def judge(limit: Limit, constraint: Constraint) -> ConstraintVerdict | None:
            values = _join_values(chosen, constraint.metric, READING, reachable=constraint.of == "reachable")
            return verdict(limit, values, _join_values(defaults, constraint.metric, READING), ground, scale="amount")

        return constraint_verdicts(policy, means, reach, judge)

    def _compare(self, base: list[SettingValues], compared: list[SettingValues], metric: Metric) -> Comparison:
        left, right = _join_values(base, metric, READING), _join_values(compared, metric, READING)
        return grouped_compare(left, right, self._group(READING), scale="amount", seed=self._file.seed)

    def _result(self, rows: Sequence[SettingValues], level: float) -> SettingResult:
        """The mean of a setting's figures over datasets."""
        first = rows[0]

        def means(split_index: int) -> dict[str, Estimate]:
            group = self._group(split_index)
            estimates = {
                str(metric): grouped_estimate(
                    _join_values(rows, metric, split_index), group, scale="amount", level=level
                )
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

    def _group(self, split_index: int) -> IntArray:
        """The group of every query of all datasets, none shared between two."""
        groups = [list(tuner.dataset.query_sets.values())[split_index].group for tuner in self._tuners]
        return np.concatenate([group + sum(map(len, groups[:index])) for index, group in enumerate(groups)])


def _join_values(
    rows: Sequence[SettingValues], metric: Metric, split_index: int, *, reachable: bool = False
) -> FloatArray:
    """Join values by query of all datasets, scaled so that their mean is the mean of the datasets' means.

    A dataset that the metric applies to on no query has no part in it, and NaN for all of its queries.

    Args:
        rows: one per dataset.
        metric: one that is measured on all.
        split_index: `DECIDING` or `READING`.
        reachable: among the queries within reach only.
    """
    pairs = list(zip(rows, [row.splits[split_index] for row in rows], strict=True))
    parts = [row.of_reachable(split, metric) if reachable else row.by_query[split][metric] for row, split in pairs]
    counts = [int((~np.isnan(part)).sum()) for part in parts]
    total, n_datasets = sum(counts), sum(n > 0 for n in counts)
    return np.concatenate(
        [part * (total / (n_datasets * n)) if n else part for part, n in zip(parts, counts, strict=True)]
    )


def _sum_counts(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Counts by split over datasets; those of a dataset where all labels decide count for both splits."""
    if not any(TEST in sizes for sizes in counts):
        return {ALL: sum(sum(sizes.values()) for sizes in counts)}
    return {split: sum(sizes[split] if split in sizes else sizes[ALL] for sizes in counts) for split in (TUNING, TEST)}
