"""Settings measured on what decides and what is read of a dataset, and held against each other on what is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ctxbench.bench.metrics import Metric, parse_metric
from ctxbench.bench.slices import Slice
from ctxbench.bench.stats import Comparison, compare_metric, correct, grouped_estimate
from ctxbench.core.arrays import BoolArray, FloatArray
from ctxbench.io.json_files import dump_json
from ctxbench.selectors.definitions import definition
from ctxbench.selectors.parameters import Value
from ctxbench.selectors.pipelines import PipelineSelector
from ctxbench.tuning.limits import Limit, reach_of
from ctxbench.tuning.policies import Policy
from ctxbench.tuning.results import EVERYTHING, Contender
from ctxbench.tuning.split_answers import COMPLETE, TEST, Side
from ctxbench.tuning.sweep.measures import REACH, Measure
from ctxbench.tuning.tunables import Tunable
from ctxbench.tuning.uncut_rankings import Uncut
from ctxbench.tuning.verdicts import Ground, Verdict, verdict

METRICS = tuple(map(parse_metric, ("completeness", "recall", "tokens", "items", "abstention")))
COMPARED = tuple(map(parse_metric, ("completeness", "tokens", "items")))
WITHIN = parse_metric(f"Comp@{REACH}")
OF_REACHABLE = f"{COMPLETE} of reachable"


@dataclass(frozen=True, eq=False, kw_only=True)
class Measured:
    """A setting on all that is measured.

    Attributes:
        name, role, selector, values: as `Contender`.
        answers: by split, what was offered.
        by_query: by split, metrics by query.
        within: by split, the queries that the first items of its ranking make complete, shape (n_queries,).
    """

    name: str
    role: str
    selector: str
    values: Mapping[str, Value]
    answers: Mapping[str, Slice]
    by_query: Mapping[str, Mapping[Metric, FloatArray]]
    within: Mapping[str, BoolArray]

    @property
    def splits(self) -> tuple[str, ...]:
        """What it was measured on: first what decides, last what is read."""
        return tuple(self.by_query)

    def reachable(self, split: str, metric: Metric) -> FloatArray:
        """A metric among the queries within reach, NaN elsewhere."""
        return np.where(self.within[split], self.by_query[split][metric], np.nan)


@dataclass(frozen=True, eq=False)
class Arena:
    """Where settings are measured: both splits of a dataset, or all its labels in one.

    Attributes:
        sides: by split; the first decides, the last is read.
        metrics: what is measured, in order.
        level: of the intervals.
    """

    sides: Mapping[str, Side]
    metrics: tuple[Metric, ...]
    level: float
    _uncut: dict[tuple[str, str, str], Uncut] = field(default_factory=dict)

    @property
    def deciding(self) -> Side:
        """The queries that settings are chosen on."""
        return next(iter(self.sides.values()))

    @property
    def reading(self) -> Side:
        """The queries that figures are read from."""
        return list(self.sides.values())[-1]

    def know(self, tunable: Tunable, uncut: Uncut) -> None:
        """Take over what a competitor with its defaults found on the queries that decide."""
        self._uncut[self._key(tunable, {}, self.deciding.split)] = uncut

    def _key(self, tunable: Tunable, values: Mapping[str, Value], split: str) -> tuple[str, str, str]:
        head = "" if tunable.answers is not None else dump_json(tunable.head(tunable.pipeline(values)).describe())
        return tunable.name, head, split

    def uncut(self, tunable: Tunable, values: Mapping[str, Value], split: str) -> Uncut:
        """What a competitor finds, asked once for all settings that differ in how they cut only."""
        key = self._key(tunable, values, split)
        if key not in self._uncut:
            self._uncut[key] = tunable.finds(self.sides[split], values)
        return self._uncut[key]

    def setting(self, tunable: Tunable, values: Mapping[str, Value], *, name: str, role: str) -> Measured:
        """A setting of a competitor."""
        found = {split: self.uncut(tunable, values, split) for split in self.sides}
        answers = {split: tunable.cut(found[split], values, side) for split, side in self.sides.items()}
        ranked = {split: one.answers for split, one in found.items()}
        return self._measured(answers, ranked, name=name, role=role, of=(tunable.name, tunable.in_force(values)))

    def first(self, tunable: Tunable, values: Mapping[str, Value], n: int, *, name: str, role: str) -> Measured:
        """The first n items that a competitor finds with some values."""
        found = {split: self.uncut(tunable, values, split) for split in self.sides}
        answers = {split: tunable.first(found[split], n, side) for split, side in self.sides.items()}
        ranked = {split: one.answers for split, one in found.items()}
        return self._measured(answers, ranked, name=name, role=role, of=(tunable.name, {"n": n}))

    def everything(self) -> Measured:
        """All items that a request may get."""
        pipeline = definition(EVERYTHING).pipeline({})
        answers = {
            split: side.answers(PipelineSelector(EVERYTHING, pipeline, side.resources))
            for split, side in self.sides.items()
        }
        return self._measured(answers, {}, name=EVERYTHING, role=EVERYTHING, of=(EVERYTHING, {}))

    def _measured(
        self,
        answers: Mapping[str, Slice],
        ranked: Mapping[str, Slice],
        *,
        name: str,
        role: str,
        of: tuple[str, Mapping[str, Value]],
    ) -> Measured:
        sides, (selector, values) = self.sides, of
        return Measured(
            name=name,
            role=role,
            selector=selector,
            values=values,
            answers=answers,
            by_query={split: side.values(answers[split], self.metrics) for split, side in sides.items()},
            within={split: sides[split].values(one, [WITHIN])[WITHIN] == 1 for split, one in ranked.items()},
        )

    def contender(self, one: Measured) -> Contender:
        """A setting as the report has it."""
        found: dict[str, dict[str, Any]] = {}
        for split, side in self.sides.items():
            found[split] = dict(side.estimates(one.by_query[split], level=self.level))
            if split in one.within and one.within[split].any():
                share = grouped_estimate(one.reachable(split, COMPLETE), side.group, scale="yes/no", level=self.level)
                found[split][OF_REACHABLE] = share
        return Contender(
            name=one.name,
            role=one.role,
            selector=one.selector,
            values=one.values,
            tuning=found[self.deciding.split],
            test=found.get(TEST, {}),
        )

    def verdicts(self, policy: Policy, chosen: Measured, base: Measured) -> tuple[Verdict, ...]:
        """What is read says of the constraints.

        Without those whose metric applies to no query there, or that are multiples of what the base lacks there.
        """
        side, split = self.reading, self.reading.split
        means = {Measure(m): float(np.nanmean(v)) for m, v in base.by_query[split].items() if not np.isnan(v).all()}
        reach = reach_of(base.within[split], chosen.within[split])
        ground = Ground(group=side.group, level=self.level, chosen_here=side is self.deciding)
        none = np.full(len(side), np.nan)
        out = []
        for one in policy.constraints:
            if one.of == "base" and Measure(one.metric) not in means:
                continue
            own, before = (which.by_query[split].get(one.metric, none) for which in (chosen, base))
            own = chosen.reachable(split, one.metric) if one.of == "reachable" else own
            limit, scale = Limit.of(one, means, reach=reach), one.metric.declaration.scale
            out.append(verdict(limit, own, before, ground, scale=scale))  # type: ignore[arg-type]
        return tuple(one for one in out if one is not None)


Key = tuple[str, str, str]


def compared(
    pairs: Mapping[tuple[str, str], tuple[Measured, Measured]], side: Side, *, seed: int
) -> dict[Key, Comparison]:
    """Paired comparisons on what is read, corrected together.

    Args:
        pairs: base and other by policy and kind of comparison.
        side: what is read, whose groups of queries are witnesses as a whole.
        seed: of the sign flips.

    Returns:
        By policy, kind and metric name, for the metrics of `COMPARED`.
    """
    found: dict[Key, Comparison] = {}
    for (policy, kind), (base, other) in pairs.items():
        for metric in COMPARED:
            one = compare_metric(
                metric, base.by_query[side.split], other.by_query[side.split], seed=seed, groups=side.group
            )
            if one.n:
                found[policy, kind, str(metric)] = one
    return correct(found)


def of_kind(found: Mapping[Key, Comparison], policy: str, kind: str) -> dict[str, Comparison]:
    """The comparisons of one policy and kind, by metric name."""
    return {metric: one for (whose, which, metric), one in found.items() if (whose, which) == (policy, kind)}


def asked_metrics(policies: Sequence[Policy]) -> tuple[Metric, ...]:
    """What is measured of every contender: the usual metrics, and those of the policies."""
    own = [metric for policy in policies for metric in (policy.objective, *(one.metric for one in policy.constraints))]
    return tuple(dict.fromkeys([*METRICS, *own]))
