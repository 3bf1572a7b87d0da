"""How often a check calls what is the same better or worse, and how often its intervals hold the truth.

Two snapshots of selectors that answer as the shipped ones, but leave every required item out of an answer with the same
chance each time that they are asked. Queries are drawn in whole groups, with replacement, so that the dataset is a
population whose means are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from gate_world import shipped

from ctxbench.evaluation.metrics import Metric, parse_metric
from ctxbench.gate.results import MetricPair, Verdict, judge_metrics
from ctxbench.gate.settings import METRICS, CheckSettings
from ctxbench.gate.snapshots import Identity, QueryFact, SelectorSnapshot
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray

NS = (30, 100, 300)
SIMULATED = 1000
CHANCE, OTHER = 0.1, 0.2  # that a required item is left out; at the head where the two are to differ
COMPLETENESS, RECALL, TOKENS = map(parse_metric, METRICS[:3])  # with the session's, tokens differ alike
Values = Mapping[Metric, FloatArray]


@dataclass(frozen=True, eq=False, kw_only=True)
class Population:
    """A selector's answers to a dataset: what each query needs and gets.

    Attributes:
        selector: its name.
        groups: of queries, by row.
        need: requirements, shape (n_queries,); NaN where no metric of them applies.
        in_session: of these, met by what the session holds, which nobody leaves out; shape (n_queries,).
        tokens: of all that is offered, shape (n_queries,).
        item_query, item_tokens: of each required item that is offered, shape (n_items,).
        pair_item, pair_met: which item meets which requirement, shape (n_pairs,).
        met_query: of each requirement that is met, shape (n_met,).
    """

    selector: str
    groups: Sequence[IntArray]
    need: FloatArray
    in_session: FloatArray
    tokens: FloatArray
    item_query: IntArray
    item_tokens: FloatArray
    pair_item: IntArray
    pair_met: IntArray
    met_query: IntArray

    @classmethod
    def of(cls, snapshot: SelectorSnapshot) -> Population:
        """Read them off a snapshot."""
        groups: dict[str, list[int]] = {}
        items: list[tuple[int, float]] = []
        pairs: list[tuple[int, int]] = []
        met: list[int] = []
        in_session: list[int] = []
        for row, (query, fact) in enumerate(snapshot.queries.items()):
            groups.setdefault(fact.group, []).append(row)
            session = {each.id for each in snapshot.answers[query].offered if each.origin == "session"}
            offered = {each.id for each in snapshot.answers[query].offered} - session
            needed = sorted({item for group in fact.required for item in group} & offered)
            index = {item: len(items) + k for k, item in enumerate(needed)}
            items += [(row, float(snapshot.items[item].tokens)) for item in needed]
            in_session.append(sum(not session.isdisjoint(group) for group in fact.required))
            for group in fact.required:
                if session.isdisjoint(group) and any(item in index for item in group):
                    pairs += [(index[item], len(met)) for item in group if item in index]
                    met.append(row)
        need = [float(len(fact.required)) if fact.required else np.nan for fact in snapshot.queries.values()]
        return cls(
            selector=snapshot.selector,
            groups=[np.array(rows) for rows in groups.values()],
            need=np.array(need),
            in_session=np.array(in_session, dtype=np.float64),
            tokens=snapshot.metrics[TOKENS],
            item_query=np.array([row for row, _ in items], dtype=np.int64),
            item_tokens=np.array([tokens for _, tokens in items]),
            pair_item=np.array([item for item, _ in pairs], dtype=np.int64),
            pair_met=np.array([number for _, number in pairs], dtype=np.int64),
            met_query=np.array(met, dtype=np.int64),
        )

    def met_requirements(self, kept: BoolArray) -> FloatArray:
        """Requirements met by what is kept, shape (n_queries,)."""
        met = np.bincount(self.pair_met, kept[self.pair_item], minlength=len(self.met_query)) > 0
        return np.asarray(
            self.in_session + np.bincount(self.met_query, met, minlength=len(self.need)), dtype=np.float64
        )

    def values(self, kept: BoolArray) -> dict[Metric, FloatArray]:
        """The metrics of answers without what is not kept."""
        reached = self.met_requirements(kept)
        lost = np.bincount(self.item_query, ~kept * self.item_tokens, minlength=len(self.need))
        complete = np.where(np.isnan(self.need), np.nan, reached == self.need)
        return {COMPLETENESS: complete, RECALL: reached / self.need, TOKENS: self.tokens - lost}

    def truth(self, chance: float) -> dict[Metric, float]:
        """The means over all queries that are to be expected."""
        several = np.bincount(self.pair_met, minlength=len(self.met_query))
        each = 1.0 - chance**several
        reached = self.in_session + np.bincount(self.met_query, each, minlength=len(self.need))
        whole = self.in_session + np.bincount(self.met_query, minlength=len(self.need)) == self.need
        all_met = np.exp(np.bincount(self.met_query, np.log(each), minlength=len(self.need)))
        lost = np.bincount(self.item_query, chance * self.item_tokens, minlength=len(self.need))
        applies = ~np.isnan(self.need)
        return {
            COMPLETENESS: float((whole * all_met)[applies].mean()),
            RECALL: float((reached / self.need)[applies].mean()),
            TOKENS: float((self.tokens - lost).mean()),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Queries drawn.

    Attributes:
        rows: of the population, shape (n,).
        group: which each is of, shape (n,).
        copy: how many times its group was drawn before, shape (n,).
    """

    rows: IntArray
    group: IntArray
    copy: IntArray


@dataclass(frozen=True, eq=False)
class Asked:
    """A selector asked about every query of a sample so many times; all arrays of shape (n,)."""

    values: Values
    first: FloatArray  # requirements met the first time
    nondeterministic: BoolArray

    @classmethod
    def of(
        cls, population: Population, sample: Sample, *, chance: float, repeats: int, rng: np.random.Generator
    ) -> Asked:
        """A group that was drawn twice is asked twice, with noise of its own."""
        copies, at = int(sample.copy.max()) + 1, (sample.copy, sample.rows)
        kept = rng.random((copies, repeats, len(population.item_query))) >= chance
        several = [[population.values(row) for row in asked] for asked in kept]
        differ = (kept != kept[:, :1]).any(axis=1)
        nondeterministic = [
            np.bincount(population.item_query, row, minlength=len(population.need)) > 0 for row in differ
        ]
        return cls(
            values={
                metric: np.array([np.mean([row[metric] for row in asked], axis=0) for asked in several])[at]
                for metric in several[0][0]
            },
            first=np.array([population.met_requirements(asked[0]) for asked in kept])[at],
            nondeterministic=np.array(nondeterministic)[at],
        )


@cache
def populations(dataset: str) -> tuple[Population, ...]:
    """Of both selectors."""
    return tuple(Population.of(snapshot) for snapshot in shipped(dataset)[1])


def drawn(population: Population, n: int, rng: np.random.Generator) -> Sample:
    """Draw n queries in whole groups, with replacement; a group that is too large for what is left is passed over."""
    chosen: list[int] = []
    copies: list[int] = []
    left = n
    while left:
        group = int(rng.integers(len(population.groups)))
        if len(population.groups[group]) <= left:
            copies.append(chosen.count(group))
            chosen.append(group)
            left -= len(population.groups[group])
    sizes = [len(population.groups[group]) for group in chosen]
    return Sample(
        rows=np.concatenate([population.groups[group] for group in chosen]),
        group=np.repeat(np.arange(len(chosen)), sizes),
        copy=np.repeat(copies, sizes),
    )


@dataclass
class _Tally:
    simulated: int = 0
    worse: int = 0
    better: int = 0
    single: dict[str, list[bool]] = field(default_factory=dict)
    covered: dict[str, list[bool]] = field(default_factory=dict)
    by_facts: list[bool] = field(default_factory=list)


def simulate(dataset: str, n: int, repeats: int, chance: float) -> list[dict[str, Any]]:
    """Check pairs of noisy selectors, summed up in one row.

    Args:
        dataset: whose queries are drawn.
        n: how many.
        repeats: how often each is asked on either side.
        chance: that the head leaves a required item out; that of the base is `CHANCE`.
    """
    several, settings, tally = populations(dataset), CheckSettings(), _Tally()
    truth = [
        {metric: other - population.truth(CHANCE)[metric] for metric, other in population.truth(chance).items()}
        for population in several
    ]
    rng = np.random.default_rng([n, repeats, round(100 * chance)])
    for _ in range(SIMULATED):
        sample = drawn(several[0], n, rng)
        pairs = []
        for population in several:
            base, head = (
                Asked.of(population, sample, chance=each, repeats=repeats, rng=rng) for each in (CHANCE, chance)
            )
            pairs.append(pair_of(dataset, population.selector, (base.values, head.values), sample.group, repeats))
            net = (base.first - head.first)[~(base.nondeterministic | head.nondeterministic)].sum()
            in_need = int((~np.isnan(population.need[sample.rows])).sum())
            tally.by_facts.append(bool(net > settings.allowed(in_need)))
        _count(tally, judge_metrics(pairs, settings), truth)
    return [
        {
            "n": n,
            "repeats": repeats,
            "base_chance": CHANCE,
            "head_chance": chance,
            "worse": tally.worse / SIMULATED,
            "better": tally.better / SIMULATED,
            **{f"{name}_differs": float(np.mean(seen)) for name, seen in tally.single.items()},
            **{f"{name}_covered": float(np.mean(seen)) for name, seen in tally.covered.items()},
            "loses_more_than_allowed": float(np.mean(tally.by_facts)),
        }
    ]


def _count(tally: _Tally, verdicts_of: Sequence[Sequence], truth: Sequence[Mapping[Metric, float]]) -> None:  # type: ignore[type-arg]
    verdicts = {metric.verdict for judged in verdicts_of for metric in judged}
    tally.worse += Verdict.WORSE in verdicts
    tally.better += Verdict.BETTER in verdicts
    for judged, true in zip(verdicts_of, truth, strict=True):
        for metric in judged:
            interval, expected = metric.comparison.interval, true[parse_metric(metric.metric)]
            tally.single.setdefault(metric.metric, []).append(metric.verdict in (Verdict.WORSE, Verdict.BETTER))
            tally.covered.setdefault(metric.metric, []).append(interval.low <= expected <= interval.high)


def pair_of(dataset: str, selector: str, sides: tuple[Values, Values], groups: IntArray, repeats: int) -> MetricPair:
    """Snapshots of base and head with these values, shape (n_queries,), to be judged."""
    ids = [str(index) for index in range(len(groups))]
    queries = {
        name: QueryFact(id=name, request_hash="", labelled="", group=str(group))
        for name, group in zip(ids, groups.tolist(), strict=True)
    }
    base, head = (
        SelectorSnapshot(
            dataset=dataset,
            selector=selector,
            items={},
            queries=queries,
            answers={},
            metrics=values,
            identity=Identity(selector={}, embedder="", tokens="", external=True),
            repeats=repeats,
        )
        for values in sides
    )
    return MetricPair(base=base, head=head, queries=ids)


def tasks(datasets: Sequence[str]) -> list[tuple[str, int, int, float]]:
    """Arguments of all simulations, what takes longest first."""
    same = [(name, n, repeats, CHANCE) for n in reversed(NS) for repeats in (3, 1) for name in datasets]
    return same + [(name, n, 1, OTHER) for n in reversed(NS) for name in datasets]
