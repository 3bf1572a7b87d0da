"""Measures settings on the tuning and evaluation sets of a dataset, and compares them on the latter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ctxbench.bench.metrics import Metric, parse_metric
from ctxbench.bench.slices import Slice
from ctxbench.bench.stats import Comparison, compare_metric, correct, grouped_estimate
from ctxbench.core.arrays import BoolArray, FloatArray
from ctxbench.io.json_files import dump_json
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.parameters import Value
from ctxbench.selectors.pipelines import PipelineSelector
from ctxbench.tuning.limits import Limit, Policy, reach_ratio
from ctxbench.tuning.opened_inputs import TuningDataset
from ctxbench.tuning.query_sets import COMPLETE, TEST, FullRanking, QuerySet
from ctxbench.tuning.sweep.measures import REACH, Measure
from ctxbench.tuning.tunables import Tunable
from ctxbench.tuning.tuning_results import EVERYTHING, FIXED, RECOMMENDED, SettingResult
from ctxbench.tuning.verdicts import ConstraintVerdict, VerdictQueries, verdict

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
        """What it was measured on: the tuning set first, the evaluation set last."""
        return tuple(self.by_query)

    def of_reachable(self, split: str, metric: Metric) -> FloatArray:
        """A metric among the queries within reach, NaN elsewhere."""
        return np.where(self.reachable[split], self.by_query[split][metric], np.nan)


@dataclass(frozen=True, eq=False)
class SettingEvaluator:
    """Measures settings on all query sets of a dataset.

    Attributes:
        dataset: which.
        metrics: what is measured, in order.
        level: of the intervals.
    """

    dataset: TuningDataset
    metrics: tuple[Metric, ...]
    level: float
    _full_rankings: dict[tuple[str, str, str], FullRanking] = field(default_factory=dict)

    def keep_ranking(self, tunable: Tunable, full_ranking: FullRanking) -> None:
        """Keep the ranking of a selector with its defaults on the tuning set, which needs not be found again."""
        self._full_rankings[self._key(tunable, {}, self.dataset.tuning_set.split)] = full_ranking

    def _key(self, tunable: Tunable, values: Mapping[str, Value], split: str) -> tuple[str, str, str]:
        head = "" if tunable.answers is not None else dump_json(tunable.head(tunable.pipeline(values)).describe())
        return tunable.name, head, split

    def full_ranking(self, tunable: Tunable, values: Mapping[str, Value], split: str) -> FullRanking:
        """The ranking of a selector, found once for all settings that differ in how they cut only."""
        key = self._key(tunable, values, split)
        if key not in self._full_rankings:
            self._full_rankings[key] = tunable.rank(self.dataset.query_sets[split], values)
        return self._full_rankings[key]

    def setting(
        self, tunable: Tunable, values: Mapping[str, Value], *, name: str, role: str, first: int | None = None
    ) -> SettingValues:
        """Measure a setting of a selector; with `first` so many items of its ranking, whatever its cuts are."""
        query_sets = self.dataset.query_sets.items()
        found = {split: self.full_ranking(tunable, values, split) for split, _ in query_sets}
        answers = {
            split: tunable.cut(found[split], values, own)
            if first is None
            else tunable.first_items(found[split], first, own)
            for split, own in query_sets
        }
        ranked = {split: one.answers for split, one in found.items()}
        shown = tunable.in_force(values) if first is None else {"n": first}
        return self._values(answers, ranked, name=name, role=role, of=(tunable.name, shown))

    def chosen(
        self,
        policy: Policy,
        tunable: Tunable,
        values: Mapping[str, Value],
        first: Mapping[str, tuple[Tunable, Mapping[str, Value], int | None]],
    ) -> dict[str, SettingValues]:
        """Measure what is recommended for a policy, and fixed numbers of items.

        Args:
            policy: which.
            tunable, values: what is recommended.
            first: by kind of comparison, a selector, values, and how many items of its ranking; None = no number does.

        Returns:
            `chosen`, and by kind the fixed numbers that there are.
        """
        found = {"chosen": self.setting(tunable, values, name=policy.name, role=RECOMMENDED)}
        for kind, (one, own, n) in first.items():
            if n is not None:
                found[kind] = self.setting(one, own, name=f"{one.name}, first {n}", role=FIXED, first=n)
        return found

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
            reachable={split: query_sets[split].values(one, [WITHIN])[WITHIN] == 1 for split, one in ranked.items()},
        )

    def result(self, one: SettingValues) -> SettingResult:
        """The estimates of a setting, for the report."""
        found: dict[str, dict[str, Any]] = {}
        for split, query_set in self.dataset.query_sets.items():
            found[split] = dict(query_set.estimates(one.by_query[split], level=self.level))
            if split in one.reachable and one.reachable[split].any():
                share = grouped_estimate(
                    one.of_reachable(split, COMPLETE), query_set.group, scale="yes/no", level=self.level
                )
                found[split][OF_REACHABLE] = share
        return SettingResult(
            name=one.name,
            role=one.role,
            selector=one.selector,
            values=one.values,
            tuning=found[self.dataset.tuning_set.split],
            test=found.get(TEST, {}),
        )

    def verdicts(self, policy: Policy, chosen: SettingValues, base: SettingValues) -> tuple[ConstraintVerdict, ...]:
        """Verdicts of the constraints on the evaluation set.

        Without those whose metric applies to no query there, or that are multiples of what the base lacks there.
        """
        query_set, split = self.dataset.evaluation_set, self.dataset.evaluation_set.split
        means = {Measure(m): float(np.nanmean(v)) for m, v in base.by_query[split].items() if not np.isnan(v).all()}
        reach = reach_ratio(base.reachable[split], chosen.reachable[split])
        ground = VerdictQueries(
            group=query_set.group, level=self.level, chosen_here=query_set is self.dataset.tuning_set
        )
        none = np.full(len(query_set), np.nan)
        out = []
        for one in policy.constraints:
            if one.of == "base" and Measure(one.metric) not in means:
                continue
            own, before = (which.by_query[split].get(one.metric, none) for which in (chosen, base))
            own = chosen.of_reachable(split, one.metric) if one.of == "reachable" else own
            limit, scale = Limit.of(one, means, reach=reach), one.metric.declaration.scale
            out.append(verdict(limit, own, before, ground, scale=scale))  # type: ignore[arg-type]
        return tuple(one for one in out if one is not None)


Key = tuple[str, str, str]
T = TypeVar("T")


def comparison_pairs(defaults: T, found: Mapping[str, T]) -> dict[str, tuple[T, T]]:
    """What is compared for a policy: base and other by kind of comparison.

    Args:
        defaults: the base with its defaults.
        found: `chosen`, and where there are any `fixed` and `fixed_own`.
    """
    pairs = {"defaults": (defaults, found["chosen"])}
    pairs |= {kind: (found[kind], found["chosen"]) for kind in ("fixed", "fixed_own") if kind in found}
    if "fixed" in found and "fixed_own" in found:
        pairs["ranking"] = (found["fixed"], found["fixed_own"])
    return pairs


def compare_pairs(
    pairs: Mapping[tuple[str, str], tuple[SettingValues, SettingValues]], query_set: QuerySet, *, seed: int
) -> dict[Key, Comparison]:
    """Paired comparisons on the evaluation set, corrected together.

    Args:
        pairs: base and other by policy and kind of comparison.
        query_set: what is read, whose groups of queries are witnesses as a whole.
        seed: of the sign flips.

    Returns:
        By policy, kind and metric name, for the metrics of `COMPARED`.
    """
    found: dict[Key, Comparison] = {}
    for (policy, kind), (base, other) in pairs.items():
        for metric in COMPARED:
            one = compare_metric(
                metric,
                base.by_query[query_set.split],
                other.by_query[query_set.split],
                seed=seed,
                groups=query_set.group,
            )
            if one.n:
                found[policy, kind, str(metric)] = one
    return correct(found)


def select_comparisons(found: Mapping[Key, Comparison], policy: str, kind: str) -> dict[str, Comparison]:
    """The comparisons of one policy and kind, by metric name."""
    return {metric: one for (whose, which, metric), one in found.items() if (whose, which) == (policy, kind)}


def metrics_of(policies: Sequence[Policy]) -> tuple[Metric, ...]:
    """The metrics that every setting is measured by: the usual ones, and those of the policies."""
    own = [metric for policy in policies for metric in (policy.objective, *(one.metric for one in policy.constraints))]
    return tuple(dict.fromkeys([*METRICS, *own]))
