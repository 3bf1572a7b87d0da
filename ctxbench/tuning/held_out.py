"""Measure settings on the tuning and evaluation sets, and adopt results of stricter policies.

A setting that keeps a stricter policy also keeps the looser one. Constraints of the base are tested by paired
differences, others by intervals, so few labels may be enough for the stricter policy and not for the looser one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.queries import group_pairs
from ctxbench.evaluation.answers import Slice
from ctxbench.evaluation.comparisons import grouped_compare, grouped_estimate
from ctxbench.evaluation.metrics import Metric, mean, parse_metric
from ctxbench.evaluation.statistics import Comparison, Estimate, Scale, correct, critical
from ctxbench.io.console import ProgressListener, silent
from ctxbench.io.errors import Message, UserError
from ctxbench.io.files import cache_dir
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.search.embedders import Embedder, ModelError, open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.selector import PipelineSelector, Value
from ctxbench.tuning.fit_examples import ALL, groups_of, labelled_queries
from ctxbench.tuning.inputs import Choice, TuningDataset, choose, tied_choice
from ctxbench.tuning.measures import REACH, Measure, Pairing
from ctxbench.tuning.policy import SAFETY_ERRORS, Constraint, Limit, Policy, Ties, reach_ratio, rounding_error
from ctxbench.tuning.query_fits import columns_of
from ctxbench.tuning.results import (
    COMPLETE,
    DEFAULTS,
    EVERYTHING,
    FIXED,
    RECOMMENDED,
    TEST,
    TUNING,
    ConstraintVerdict,
    FullRanking,
    PolicyOutcome,
    QuerySet,
    SettingResult,
    Status,
    fall_short,
    rank_out_of_fold,
)
from ctxbench.tuning.search import MAX_FACTOR, MIN_QUERIES, Base, BestSetting, Optimum, Setting
from ctxbench.tuning.tunables import ShippedPreset, Tunable

T = TypeVar("T")


def with_stricter(
    policies: Sequence[Policy],
    choices: Mapping[str, Choice],
    *,
    base: Base,
    to_beat: Mapping[str, float],
    ties: Ties[Setting] | None = None,
) -> dict[str, Choice]:
    """Replace each choice by that of a stricter policy with a better value of the same objective.

    Args:
        policies: those that the labels can answer.
        choices: by policy; those of other policies are not changed.
        base: gives targets that are multiples of it.
        to_beat: by policy, the base's objective, which a setting must improve on; NaN = no such condition.
        ties: a setting of the base's selector is replaced only by its own, or by one that is significantly better.
    """
    result = dict(choices)
    for policy in policies:
        sign, aim = 1 if policy.minimise else -1, Measure(policy.objective)
        choice = choices[policy.name]
        best = sign * (to_beat[policy.name] if choice.setting is None else choice.setting.means[aim])
        best = math.inf if math.isnan(best) else best
        for stricter in policies:
            setting = choices[stricter.name].setting
            if setting is None or not choice.answered or not is_stricter(stricter, policy, base):
                continue
            value = sign * setting.means[aim]
            if value < best - rounding_error(best if math.isfinite(best) else 0.0) and not (
                ties is not None and _is_tied(policy, choices[stricter.name], result[policy.name], ties)
            ):
                best, copied = (
                    value,
                    replace(choices[stricter.name], taken_from=stricter.name, settings=choice.settings),
                )
                if ties is not None and copied.base is not None:
                    of_base = choice.setting if choice.selector == ties.base else choice.base
                    copied = replace(copied, base=of_base or copied.base)
                result[policy.name] = copied
    return result


def _is_tied(policy: Policy, choice: Choice, compared: Choice, ties: Ties[Setting]) -> bool:
    """Whether a choice of another selector is tied with one of the base's selector."""
    if choice.setting is None or compared.setting is None or not choice.selector != ties.base == compared.selector:
        return False
    settings = (choice.selector, choice.setting.rounded), (compared.selector, compared.setting.rounded)
    return not ties.is_better(policy, *settings)


def is_stricter(policy: Policy, compared: Policy, base: Base) -> bool:
    """Whether a policy has the same objective as another, and constraints that are at least as strict."""
    if policy.name == compared.name or (policy.objective, policy.minimise) != (compared.objective, compared.minimise):
        return False
    return all(any(_asks_no_less(mine, theirs, base) for mine in policy.constraints) for theirs in compared.constraints)


def _asks_no_less(constraint: Constraint, compared: Constraint, base: Base) -> bool:
    """Whether a constraint has at least the target of another for the same mean; False if a target is not known."""
    if constraint.metric != compared.metric or (constraint.at_least is None) != (compared.at_least is None):
        return False
    mine, theirs = _target(constraint, base), _target(compared, base)
    room = rounding_error(theirs)
    return mine >= theirs - room if constraint.at_least is not None else mine <= theirs + room


def _target(constraint: Constraint, base: Base) -> float:
    """The mean over all queries that a constraint requires; NaN where the base has none."""
    if constraint.of == "base":
        return constraint.target * base.means.get(Measure(constraint.metric), math.nan)
    if constraint.of == "reachable":
        share = float(base.reachable[~np.isnan(base.complete)].mean()) if base.in_need else math.nan
        return constraint.target * share
    return constraint.target


@dataclass(frozen=True, eq=False, kw_only=True)
class VerdictQueries:
    """The queries of a verdict.

    Attributes:
        group: of each query, numbers from 0 on, shape (n_queries,).
        level: of the intervals.
        chosen_here: whether the setting was chosen on these queries, so it looks better than it is.
    """

    group: IntArray
    level: float
    chosen_here: bool


def verdict(
    limit: Limit, measured: FloatArray, base: FloatArray, ground: VerdictQueries, *, estimate: Estimate
) -> ConstraintVerdict | None:
    """Judge a constraint by measured values.

    Args:
        limit: the constraint, with its target on these queries.
        measured, base: values by query, shape (n_queries,); NaN if the metric does not apply.
        ground: the queries.
        estimate: the mean of the measured values with its interval.

    Returns:
        None if the metric applies to no query.
    """
    n = estimate.n
    if not n:
        return None
    value, low, high = _interval(limit, measured, base, ground, estimate)
    worse, better = (low, high) if limit.sign > 0 else (high, low)
    status: Status
    if n < MIN_QUERIES:
        status = "too few to say"
    elif limit.sign * (worse - limit.target) >= -rounding_error(limit.target):
        status = "holds"
    elif limit.is_near(worse):
        status = "holds within 2 points"
    elif limit.sign * (better - limit.target) < 0:
        status = "missed"
    else:
        status = "open"
    labels_needed = _labels_needed(limit, n, value, worse, better) if status in ("open", "too few to say") else None
    values = [limit.in_text_unit(number) for number in (value, low, high)]
    return ConstraintVerdict(
        text=limit.text,
        status=status,
        value=values[0],
        low=values[1],
        high=values[2],
        n=n,
        needed=labels_needed,
        falls_short=not limit.is_near(value),
    )


def _interval(
    limit: Limit, measured: FloatArray, base: FloatArray, ground: VerdictQueries, estimate: Estimate
) -> tuple[float, float, float]:
    """The mean and the ends of its interval; of a constraint of the base, by paired differences."""
    if limit.by != "paired":
        return estimate.value, estimate.interval.low, estimate.interval.high
    pairing = Pairing(base={limit.measure: base}, group=ground.group)
    mean, error = pairing.differences({limit.measure: measured})[limit.measure].errors()
    distance = (SAFETY_ERRORS if ground.chosen_here else critical(ground.level)) * float(error[0])
    value = limit.base + float(mean[0])
    return value, value - distance, value + distance


def _labels_needed(limit: Limit, n: int, value: float, worse: float, better: float) -> int | None:
    """How many more queries would decide a constraint, as intervals narrow with the square root of their number."""
    edge = limit.target - limit.sign * limit.room
    distance, room = (
        (abs(value - worse), abs(value - edge))
        if limit.is_near(value)
        else (abs(value - better), abs(value - limit.target))
    )
    if not math.isfinite(distance) or room <= rounding_error(limit.target) or (distance / room) ** 2 > MAX_FACTOR:
        return max(MIN_QUERIES - n, 0) or None
    return max(math.ceil(n * (distance / room) ** 2), MIN_QUERIES) - n or None


METRICS = tuple(map(parse_metric, ("completeness", "recall", "tokens", "items", "abstention")))
COMPARED = tuple(map(parse_metric, ("completeness", "tokens", "items")))
WITHIN = parse_metric(f"Comp@{REACH}")
OF_REACHABLE = f"{COMPLETE} of reachable"


@dataclass(frozen=True, eq=False, kw_only=True)
class SettingValues:
    """The values of a setting by query, on the tuning and the evaluation set.

    Attributes:
        name, role, selector, values: as `SettingResult`.
        answers: by split, what was offered.
        by_query: by split, metrics by query.
        reachable: by split, the queries that the first items of its ranking make complete, shape (n_queries,).
    """

    name: str
    role: str
    selector: str
    values: Mapping[str, Value]
    answers: Mapping[str, Slice]
    by_query: Mapping[str, Mapping[Metric, FloatArray]]
    reachable: Mapping[str, BoolArray]

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that it was measured on: the tuning set first, the evaluation set last."""
        return tuple(self.by_query)

    @property
    def evaluation_means(self) -> dict[Metric, float]:
        """Means by metric on the evaluation set; NaN if a metric applies to no query."""
        return {metric: mean(values).value for metric, values in self.by_query[self.splits[-1]].items()}

    def of_reachable(self, split: str, metric: Metric) -> FloatArray:
        """A metric of the queries within reach; NaN for the others."""
        return np.where(self.reachable[split], self.by_query[split][metric], np.nan)


@dataclass(frozen=True, eq=False)
class SettingEvaluator:
    """Measures settings on all query sets of a dataset.

    Attributes:
        dataset: the dataset.
        metrics: the measured metrics, in order.
        level: of the intervals.
    """

    dataset: TuningDataset
    metrics: tuple[Metric, ...]
    level: float
    _full_rankings: dict[tuple[str, str, str], FullRanking] = field(default_factory=dict)

    def keep_ranking(self, tunable: Tunable, full_ranking: FullRanking) -> None:
        """Store the ranking of a selector with its defaults on the tuning set, to avoid computing it again."""
        self._full_rankings[self._key(tunable, {}, self.dataset.tuning_set.split)] = full_ranking

    def _key(self, tunable: Tunable, values: Mapping[str, Value], split: str) -> tuple[str, str, str]:
        return tunable.name, tunable.head_key(values), split

    def full_ranking(self, tunable: Tunable, values: Mapping[str, Value], split: str) -> FullRanking:
        """The ranking of a selector, computed once for all settings that differ only in their cuts."""
        key = self._key(tunable, values, split)
        if key not in self._full_rankings:
            self._full_rankings[key] = tunable.rank(self.dataset.query_sets[split], values)
        return self._full_rankings[key]

    def setting(
        self, tunable: Tunable, values: Mapping[str, Value], *, name: str, role: str, first: int | None = None
    ) -> SettingValues:
        """Measure a setting of a selector; with `first`, that many items of its ranking instead of its cuts."""
        query_sets = self.dataset.query_sets.items()
        rankings = {split: self.full_ranking(tunable, values, split) for split, _ in query_sets}
        answers = {
            split: tunable.cut(rankings[split], values, query_set)
            if first is None
            else tunable.first_items(rankings[split], first, query_set)
            for split, query_set in query_sets
        }
        ranked = {split: ranking.answers for split, ranking in rankings.items()}
        in_force = tunable.in_force(values) if first is None else {"n": first}
        return self._values(answers, ranked, name=name, role=role, of=(tunable.name, in_force))

    def chosen(
        self,
        policy: Policy,
        tunable: Tunable,
        values: Mapping[str, Value],
        first: Mapping[str, tuple[Tunable, Mapping[str, Value], int | None]],
    ) -> dict[str, SettingValues]:
        """Measure the setting chosen for a policy, and fixed numbers of items.

        Args:
            policy: the policy.
            tunable, values: the chosen setting.
            first: by kind of comparison, a selector, values, and how many items of its ranking; None = no number.

        Returns:
            `chosen`, and by kind the fixed numbers of items.
        """
        fixed = {
            kind: self.setting(competitor, settings, name=f"{competitor.name}, first {n}", role=FIXED, first=n)
            for kind, (competitor, settings, n) in first.items()
            if n is not None
        }
        return {"chosen": self.setting(tunable, values, name=policy.name, role=RECOMMENDED), **fixed}

    def everything(self) -> SettingValues:
        """Measure offering all items that a request may get."""
        pipeline = definition(EVERYTHING).pipeline({})
        answers = {
            split: query_set.answers(PipelineSelector(EVERYTHING, pipeline, query_set.resources))
            for split, query_set in self.dataset.query_sets.items()
        }
        return self._values(answers, {}, name=EVERYTHING, role=EVERYTHING, of=(EVERYTHING, {}))

    def _values(
        self,
        answers: Mapping[str, Slice],
        ranked: Mapping[str, Slice],
        *,
        name: str,
        role: str,
        of: tuple[str, Mapping[str, Value]],
    ) -> SettingValues:
        query_sets, (selector, values) = self.dataset.query_sets, of
        return SettingValues(
            name=name,
            role=role,
            selector=selector,
            values=values,
            answers=answers,
            by_query={split: query_set.values(answers[split], self.metrics) for split, query_set in query_sets.items()},
            reachable={
                split: query_sets[split].values(ranking, [WITHIN])[WITHIN] == 1 for split, ranking in ranked.items()
            },
        )

    def result(self, setting: SettingValues) -> SettingResult:
        """The estimates of a setting, for the report."""
        estimates: dict[str, dict[str, Any]] = {}
        for split, query_set in self.dataset.query_sets.items():
            estimates[split] = dict(query_set.estimates(setting.by_query[split], level=self.level))
            if split in setting.reachable and setting.reachable[split].any():
                estimates[split][OF_REACHABLE] = grouped_estimate(
                    setting.of_reachable(split, COMPLETE), query_set.group, scale="yes/no", level=self.level
                )
        return SettingResult(
            name=setting.name,
            role=setting.role,
            selector=setting.selector,
            values=setting.values,
            tuning=estimates[self.dataset.tuning_set.split],
            test=estimates.get(TEST, {}),
        )

    def verdicts(self, policy: Policy, chosen: SettingValues, base: SettingValues) -> tuple[ConstraintVerdict, ...]:
        """Verdicts of the constraints on the evaluation set.

        Constraints are left out if their metric, or its mean for the base, applies to no query.
        """
        query_set, split = self.dataset.evaluation_set, self.dataset.evaluation_set.split
        means = {Measure(m): float(np.nanmean(v)) for m, v in base.by_query[split].items() if not np.isnan(v).all()}
        reach = reach_ratio(base.reachable[split], chosen.reachable[split])
        ground = VerdictQueries(
            group=query_set.group, level=self.level, chosen_here=query_set is self.dataset.tuning_set
        )

        def judge(limit: Limit, constraint: Constraint) -> ConstraintVerdict | None:
            metric = constraint.metric
            reachable = constraint.of == "reachable"
            values = chosen.of_reachable(split, metric) if reachable else chosen.by_query[split][metric]
            scale: Scale = metric.declaration.scale  # type: ignore[assignment]
            estimate = grouped_estimate(values, query_set.group, scale=scale, level=self.level)
            return verdict(limit, values, base.by_query[split][metric], ground, estimate=estimate)

        return constraint_verdicts(policy, means, reach, judge)


def constraint_verdicts(
    policy: Policy,
    means: Mapping[Measure, float],
    reach: float,
    judge: Callable[[Limit, Constraint], ConstraintVerdict | None],
) -> tuple[ConstraintVerdict, ...]:
    """Verdicts of the constraints of a policy, without multiples of a mean that the base does not have.

    Args:
        policy: the policy.
        means: of the base, by measure.
        reach: see `reach_ratio`.
        judge: gives the verdict; None if the metric applies to no query.
    """
    applicable = [
        constraint
        for constraint in policy.constraints
        if constraint.of != "base" or Measure(constraint.metric) in means
    ]
    verdicts = [judge(Limit.of(constraint, means, reach=reach), constraint) for constraint in applicable]
    return tuple(verdict for verdict in verdicts if verdict is not None)


def policy_outcome(
    policy: Policy,
    choice: Choice,
    results: Mapping[str, SettingResult],
    comparisons: Mapping[Key, Comparison],
    verdicts: tuple[ConstraintVerdict, ...],
) -> PolicyOutcome:
    """The outcome of a policy: why the default is kept, or the chosen setting and its comparisons.

    Args:
        policy, choice: the policy and its choice.
        results: `chosen`, and if present `fixed`, `fixed_of_selector` and `replaced`; without `chosen` the default is
            kept.
        comparisons: by policy, kind and metric name.
        verdicts: of the constraints.
    """
    outcome = PolicyOutcome(
        policy=policy,
        chosen=None,
        settings=choice.settings,
        replaced=results.get("replaced"),
        tied_with=choice.tied_with,
    )
    if choice.setting is None or "chosen" not in results:
        return replace(outcome, reason=choice.reason, needed=choice.needed, answered=choice.answered)
    pairs = (
        (kind, (metric, comparison)) for (name, kind, metric), comparison in comparisons.items() if name == policy.name
    )
    by_kind = {kind: dict(members) for kind, members in group_pairs(pairs).items()}
    return replace(
        outcome,
        chosen=results["chosen"],
        taken_from=choice.taken_from,
        bounds=choice.setting.bounds,
        verdicts=verdicts,
        fixed=results.get("fixed"),
        fixed_of_selector=results.get("fixed_of_selector"),
        ranking=by_kind.pop("ranking", {}),
        against=by_kind,
    )


def fixed_reason(policy: Policy, name: str, first: Optimum | None) -> str:
    """Why there is no fixed number of items to compare with; empty if there is one.

    Args:
        policy: the policy.
        name: of the base selector.
        first: the optimum over the first n items of the base's ranking; None if it was not swept.
    """
    if first is None:
        return Message("tuning.ranking-not-swept", selector=name)
    return "" if first.n is not None else choose(policy, {name: first}).reason


def beats(policy: Policy, means: Mapping[Metric, float], reference: Mapping[Metric, float]) -> bool:
    """Whether a setting is at least as complete as another for no more tokens, better in one, and no worse by a policy.

    Args:
        policy: its objective must be no worse.
        means, reference: of completeness, prompt tokens and the objective, on the same queries.
    """

    def gain(metric: Metric) -> float:
        sign = 1 if metric.declaration.better == "higher" else -1
        difference = sign * (means[metric] - reference[metric])
        return 0.0 if abs(difference) <= rounding_error(reference[metric]) else difference

    gains = [gain(metric) for metric in COMPARED[:2]]
    return all(value >= 0 for value in (*gains, gain(policy.objective))) and any(value > 0 for value in gains)


def best_preset(
    policy: Policy, chosen: Mapping[Metric, float], presets: Mapping[str, Mapping[Metric, float]]
) -> str | None:
    """The shipped preset that replaces a chosen setting; None if no preset beats it.

    Args:
        policy: the policy.
        chosen: means of the chosen setting.
        presets: means by name of the presets that keep the policy on the same queries.
    """
    better = {name: means for name, means in presets.items() if beats(policy, means, chosen)}
    best = [name for name in better if not any(beats(policy, means, better[name]) for means in better.values())]
    sign = 1 if policy.minimise else -1
    return min(best, key=lambda name: sign * better[name][policy.objective], default=None)


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldOut(Generic[T]):
    """What the evaluation set has to say about choices. A setting is measured as `T`, on one dataset or on several.

    A choice looks better than it is on the queries that it was made on, and a preset does not, so the evaluation set
    decides.

    Attributes:
        ties: compares on the evaluation set.
        shipped: the shipped presets, and `presets`, what was measured, by name.
        first: what was measured on the (first) dataset.
        of_base: measures a setting of the base's selector.
        verdicts: of the constraints of a policy, for a setting.
        means: of a setting.
        is_unread: whether the choices were made on other queries.
    """

    ties: Ties[T]
    shipped: Sequence[ShippedPreset]
    presets: Mapping[str, T]
    first: Callable[[T], SettingValues]
    of_base: Callable[[BestSetting], T]
    verdicts: Callable[[Policy, T], Sequence[ConstraintVerdict]]
    means: Callable[[T], Mapping[Metric, float]]
    is_unread: bool

    def replacements(
        self, policies: Sequence[Policy], choices: Mapping[str, Choice], measured: Mapping[str, Mapping[str, T]]
    ) -> Iterator[tuple[Policy, Choice]]:
        """The policies with another choice, and this: the base's selector, or a shipped preset.

        Args:
            policies: those that the labels can answer.
            choices: by policy.
            measured: by policy, the setting that was `chosen`.
        """
        for policy in policies:
            chosen, choice = measured.get(policy.name, {}).get("chosen"), choices[policy.name]
            if chosen is None:
                continue
            if self.is_unread and choice.base is not None:
                base = self.of_base(choice.base)
                if self._meets(policy, base) and not self.ties.is_better(policy, chosen, base):
                    chosen, choice = base, tied_choice(policy, choice, self.ties.base)
            if choice.setting is not None and self._meets(policy, chosen):
                passing = {name: self.means(row) for name, row in self.presets.items() if self._meets(policy, row)}
                passing = {name: means for name, means in passing.items() if not self._is_tied(policy, name, chosen)}
                if name := best_preset(policy, self.means(chosen), passing):
                    preset = next(shipped for shipped in self.shipped if shipped.name == name)
                    is_default = self.first(self.presets[name]).role == DEFAULTS
                    tied_with = choice.tied_with
                    choice = replace(replacing_choice(preset, choice, is_default=is_default), tied_with=tied_with)
            if choice is not choices[policy.name]:
                yield policy, choice

    def _meets(self, policy: Policy, setting: T) -> bool:
        return not fall_short(self.verdicts(policy, setting))

    def _is_tied(self, policy: Policy, preset: str, chosen: T) -> bool:
        """Whether a preset of another selector is tied with a setting of the base's selector."""
        selectors = [self.first(setting).selector for setting in (self.presets[preset], chosen)]
        is_rival = selectors[0] != self.ties.base == selectors[1]
        return is_rival and not self.ties.is_better(policy, self.presets[preset], chosen)


def replacing_choice(preset: ShippedPreset, beaten: Choice, *, is_default: bool) -> Choice:
    """The choice of a shipped preset in place of a setting that it beats, or of the default if it is the preset."""
    if is_default:
        return Choice(reason=Message("tuning.default-as-good", preset=preset.name), settings=beaten.settings)
    setting = BestSetting(values=preset.values, rounded=preset.values, means={}, n={}, bounds={})
    return Choice(selector=preset.tunable.name, setting=setting, settings=beaten.settings)


Key = tuple[str, str, str]


def comparison_pairs(defaults: T, settings: Mapping[str, T]) -> dict[str, tuple[T, T]]:
    """The pairs of settings that are compared for a policy, by kind of comparison.

    Args:
        defaults: the base with its defaults.
        settings: `chosen`, and if present `fixed` and `fixed_of_selector`.
    """
    compared = {"defaults": defaults, **settings}
    kinds = [(kind, kind, "chosen") for kind in ("defaults", "fixed", "fixed_of_selector")]
    kinds.append(("ranking", "fixed", "fixed_of_selector"))
    return {name: (compared[base], compared[to]) for name, base, to in kinds if {base, to} <= compared.keys()}


def compare_all(
    defaults: T,
    measured: Mapping[str, Mapping[str, T]],
    compare: Callable[[T, T, Metric], Comparison | None],
    policies: Collection[Policy],
) -> dict[Key, Comparison]:
    """Paired comparisons for all policies, corrected together.

    Args:
        defaults: the base with its defaults.
        measured: by policy, the settings for `comparison_pairs`.
        compare: compares two settings by a metric; None = it applies to no query.
        policies: those of `measured`, possibly more.

    Returns:
        By policy, kind and metric name, for the metrics of `COMPARED` and the policy's objective.
    """
    aims = {policy.name: policy.objective for policy in policies}
    comparisons = {
        (policy, kind, str(metric)): compare(base, compared, metric)
        for policy, rows in measured.items()
        for kind, (base, compared) in comparison_pairs(defaults, rows).items()
        for metric in dict.fromkeys((*COMPARED, aims[policy]))
    }
    return correct({key: comparison for key, comparison in comparisons.items() if comparison is not None})


def metrics_of(policies: Collection[Policy]) -> tuple[Metric, ...]:
    """The metrics of every setting: the default ones, and those of the policies."""
    return tuple(dict.fromkeys([*METRICS, *(metric for policy in policies for metric in policy.metrics)]))


ENOUGH = 50  # labelled queries from which on a fit is proposed
MOST_QUERIES = 400  # that the gain is measured on: a sample of whole groups
MOST_CHARACTERS = 300_000  # of the catalog and of these queries: some 20 seconds to embed
FITTED = "learned"  # the selector that `ctxbench calibrate probability` fits by default


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """What to do with a dataset.

    Attributes:
        action: `calibrate`: fit a selector; `label`: label more queries; `run`: measure selectors.
        labelled, unlabelled: numbers of queries.
        split: whose queries a fit is made on; `all` = those of every split.
        gain, tokens: completeness and prompt tokens of the fitted selector compared with the shipped one, each query by
            a fit on others; None if it was not measured.
        why: why it was not measured; empty otherwise.
    """

    action: Literal["calibrate", "label", "run"]
    labelled: int
    unlabelled: int
    split: str = ALL
    gain: Comparison | None = None
    tokens: Comparison | None = None
    why: str = ""


def next_step(dataset: Dataset, *, embedder: str = "minilm", progress: ProgressListener = silent) -> NextStep:
    """Propose what to do with a dataset, with what a fit gains where there are `ENOUGH` labelled queries.

    The gain is measured in 5 folds of at most `MOST_QUERIES` queries: some 10 seconds, and the time to embed new texts.
    A fit without a significant gain is not proposed, nor one on a single group, of which nothing is held out. Nothing
    is raised: a gain that cannot be measured has the reason.

    Args:
        dataset: any, over a catalog.
        embedder: as of `open_embedder`.
        progress: called with the progress of embedding.
    """
    unlabelled = len(dataset.unlabelled)
    labelled = len(dataset) - unlabelled
    rest: Literal["label", "run"] = "label" if unlabelled else "run"
    if labelled < ENOUGH:
        return NextStep(action=rest, labelled=labelled, unlabelled=unlabelled)
    tuning = dataset.split(TUNING).judged().queries if TUNING in dataset.split_names else ()
    enough = len(tuning) >= ENOUGH and len(set(groups_of(tuning))) > 1
    if not enough and len(set(groups_of(dataset.judged().queries))) < 2:
        why = Message("tuning.gain-of-one-group", n=labelled)
        return NextStep(action=rest, labelled=labelled, unlabelled=unlabelled, why=why)
    step = NextStep(action="calibrate", labelled=labelled, unlabelled=unlabelled, split=TUNING if enough else ALL)
    length = sum(len(query.request.text) for query in dataset.queries) / len(dataset)
    room = MOST_CHARACTERS - sum(len(item.search_text) for item in dataset.catalog)
    if (sample := min(MOST_QUERIES, int(room / max(length, 1.0)))) < ENOUGH:
        return replace(step, why=Message("tuning.gain-of-long-texts", n=len(dataset.catalog)))
    try:
        part = select_queries(labelled_queries(dataset, step.split), sample=sample)
        gain, tokens = _gain(part, step.split, open_embedder(embedder), progress)
    except ModelError:
        return replace(step, why=Message("tuning.gain-without-model"))
    except UserError as error:
        return replace(step, why=str(error).partition("\n")[0])
    worth = gain.significant and gain.difference > 0
    return replace(step, action="calibrate" if worth else rest, gain=gain, tokens=tokens)


def _gain(part: Dataset, split: str, embedder: Embedder, progress: ProgressListener) -> tuple[Comparison, Comparison]:
    """Compare the fitted selector with the shipped one by completeness and prompt tokens."""
    resources = local_resources(
        embedder, open_counter("o200k", cache=cache_dir()), progress=partial(progress, "embedding texts")
    )
    query_set = QuerySet(part, split, resources.tokens(part.catalog), resources)
    pipeline = definition(FITTED).pipeline(definition(FITTED).values(None))
    before = query_set.answers(PipelineSelector(FITTED, pipeline, resources))
    after = rank_out_of_fold(pipeline, query_set, columns=columns_of(requests=True)).answers
    base, fitted = (query_set.values(answers, COMPARED[:2]) for answers in (before, after))
    complete, tokens = COMPARED[:2]
    gain = grouped_compare(base[complete], fitted[complete], query_set.group, scale="yes/no")
    return correct({"gain": gain})["gain"], grouped_compare(
        base[tokens], fitted[tokens], query_set.group, scale="amount"
    )
