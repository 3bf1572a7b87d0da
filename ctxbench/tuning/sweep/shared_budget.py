"""Two domains under one budget: the best of all pairs of their settings, exactly.

Costs add up over domains. Whether a query is complete does not: it is, where what the two offer meets all its
requirements together. Along a line of one domain's settings a query is offered a given length from some setting on. So
for a pair of lines the number of complete queries is a cumulative histogram, in two dimensions, of the settings from
which on it is complete. Between two of these nothing is gained, and no cost falls along a line: so only these are
compared, and what is cheapest among them is cheapest among all thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np

from ctxbench.bench.metrics import evaluate
from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.errors import ParameterError
from ctxbench.selectors.parameters import Value
from ctxbench.steps.cut import fallen
from ctxbench.tuning.sweep.domains import DOMAIN_METRICS, Domain, Gain, domain_gain, domain_items
from ctxbench.tuning.sweep.engine_runs import setting_line
from ctxbench.tuning.sweep.families import Cut
from ctxbench.tuning.sweep.measures import Measure, Requirements, values_of_measures
from ctxbench.tuning.sweep.metric_values import ADDITIVE, RankedItems
from ctxbench.tuning.sweep.rankings import MeasuredRankings
from ctxbench.tuning.sweep.threshold_lines import ThresholdLine

_GAINS = {"completeness", "recall", "direct_recall", "dependency_recall"}
_SAME = 1e-12  # relative difference up to which two sums are the same


@dataclass(frozen=True, eq=False, kw_only=True)
class PairFront:
    """Pairs of settings that nothing beats: no other costs as little and gains as much, or more.

    Attributes:
        cost: sums over queries, rising, shape (n,).
        gain: sums over queries, rising, shape (n,).
        values: the settings, with exact thresholds.
        shown: the same settings with short decimals that select the same.
        settings: how many pairs of settings there were, all thresholds counted.
    """

    cost: FloatArray
    gain: FloatArray
    values: tuple[Mapping[str, Value], ...]
    rounded: tuple[Mapping[str, Value], ...]
    settings: int

    def __len__(self) -> int:
        return len(self.cost)


@dataclass(frozen=True, eq=False, kw_only=True)
class _DomainLine:
    """A line of one domain, at the settings at which a gain changes.

    Attributes:
        line: these settings, from what offers fewest, m of them, without sums.
        start, end: the values between which a threshold selects the same, shape (m,) each; see `ThresholdLine.beyond`.
        costs: by measure, sums over queries, shape (m,).
        places: by gain, for each of its quadrants the first setting at which it counts, 0 to m (never).
        settings: how many the whole line has.
    """

    line: ThresholdLine
    start: FloatArray
    end: FloatArray
    costs: Mapping[Measure, FloatArray]
    places: Mapping[Measure, IntArray]
    settings: int

    def values_at(self, place: int, *, short: bool) -> dict[str, Value]:
        """The values of one setting."""
        line = replace(
            self.line,
            thresholds=self.line.thresholds[place : place + 1],
            beyond=(float(self.start[place]), float(self.end[place])),
        )
        return line.rounded_values(0) if short else line.values_at(0)


class _CheapestPairs:
    """The cheapest pair of settings for every gain, of those seen so far."""

    def __init__(self, most: int) -> None:
        self.cost = np.full(most + 1, np.inf)
        self.at_least = self.cost
        self.where: dict[int, tuple[_DomainLine, int, _DomainLine, int]] = {}

    def add(self, cost: FloatArray, gain: IntArray, one: _DomainLine, other: _DomainLine) -> None:
        """Keep the pairs that are cheaper than all that gain as much; of equals the first stays."""
        rows, columns = np.nonzero(cost < self.at_least[gain])
        if not len(rows):
            return
        costs, gains = cost[rows, columns], gain[rows, columns]
        cheap_first = np.lexsort((np.arange(len(rows)), costs, -gains))
        lowest = np.minimum.accumulate(costs[cheap_first])
        falls = np.append(True, lowest[1:] < lowest[:-1])
        for place in cheap_first[falls].tolist():
            gained = int(gains[place])
            if costs[place] < self.cost[gained]:
                self.cost[gained] = costs[place]
                self.where[gained] = (one, int(rows[place]), other, int(columns[place]))
        self.at_least = np.minimum.accumulate(self.cost[::-1])[::-1]


class DomainPair:
    """The two domains of a selector, and every pair of their settings.

    Args:
        rankings: what stands in front of the domains' cuts, both domains together, with the measures wanted.
        domains: two; parameters of the same name have the same value in both.

    Raises:
        ParameterError: there are not two domains, or an item of a ranking belongs to neither.
    """

    def __init__(self, rankings: MeasuredRankings, domains: Sequence[Domain]) -> None:
        if len(domains) != 2:
            raise ParameterError(f"a budget is shared by two domains, got {len(domains)}")
        held = domain_items(rankings.items.labels.dataset.catalog, [domain.types for domain in domains])
        if not (held[0] | held[1])[rankings.items.item].all():
            raise ParameterError("an item of a ranking belongs to neither domain; add its type, or '*'")
        self.rankings = rankings
        self.domains = tuple(domains)
        self._parts = tuple(rankings.select_items(one[rankings.items.item]) for one in held)
        self._required = Requirements.of(rankings.items)

    def front(
        self,
        gain: Measure,
        cost: Measure,
        *,
        floors: Mapping[Measure, float] | None = None,
        budgets: Mapping[Measure, float] | None = None,
    ) -> PairFront:
        """The best gain for every cost, over every topK, every topN and every threshold of both domains.

        Args:
            gain: completeness or a recall, of all queries or of those within reach.
            cost: a measure that adds up over items, such as tokens.
            floors: by measure, the least sum over queries that is allowed: of completeness, recalls or abstention.
            budgets: by measure, the largest sum that is allowed: of what adds up over items, false_inclusion or
                forbidden_offered.

        Returns:
            None but settings that are not beaten, the cheapest first; of settings with the same cost and gain that of
            the earlier line, then the one that offers less in the first domain, then in the second. Empty if none
            keeps to floors and budgets.

        Raises:
            ParameterError: a measure is not of these kinds (precision is none), or was not measured, or a threshold
                is that of both domains.
        """
        limits = {**(floors or {}), **(budgets or {})}
        self._check(gain, cost, floors or {}, budgets or {})
        counted = [one for one in dict.fromkeys((gain, *limits)) if one.metric.name in DOMAIN_METRICS]
        added = [one for one in dict.fromkeys((cost, *limits)) if one.metric.name in ADDITIVE]
        best: _CheapestPairs | None = None
        scale, settings = 1, 0
        for cuts in self._by_shared():
            for one, other, gains in self._pairs(cuts, counted, added):
                if best is None:
                    scale = gains[gain].scale
                    best = _CheapestPairs(gains[gain].applies * scale)  # where every query has 1
                settings += one.settings * other.settings
                price = self._price(cost, one, other)
                tables = {name: _table(found, name, one, other) for name, found in gains.items()}
                beyond = np.zeros(price.shape, dtype=np.bool_)
                for limit, least in (floors or {}).items():
                    beyond |= tables[limit] < least * gains[limit].scale * (1.0 - _SAME)
                for limit, most in (budgets or {}).items():
                    spent = tables[limit] if limit in tables else self._price(limit, one, other)
                    beyond |= spent > most + _SAME * abs(most)
                best.add(np.where(beyond, np.inf, price) if limits else price, tables[gain], one, other)
        return _front(best, scale, settings)

    def by_query(self, values: Mapping[str, Value]) -> dict[Measure, FloatArray]:
        """By measure, the values of every query at one setting, shape (n_queries,); NaN = does not apply."""
        pairs = zip(self.domains, self._parts, strict=True)
        whole, prefixes = self.rankings, [domain.family.offered_prefix(part, values) for domain, part in pairs]
        evidence = _offered_items(whole.items, prefixes).evidence()
        return values_of_measures(
            whole.measures,
            evaluate(list(dict.fromkeys(one.metric for one in whole.measures)), evidence),
            evidence,
            whole.items.labels.dataset.catalog,
            by_type=whole.queries_by_type,
            reachable=whole.reachable,
        )

    def lines(self, front: PairFront) -> Iterator[ThresholdLine]:
        """The settings of a front, each as a line of its own, for collectors that look at intervals.

        Each is the cheapest by its sum. Where a cost is held against a bound by the end of its interval, another
        setting with the same gain, a higher sum and less spread might keep to it, too, and is not among these.
        """
        for values in front.rounded:
            yield setting_line(values, self.by_query(values), pairing=self.rankings.pairing)

    def _check(
        self, gain: Measure, cost: Measure, floors: Mapping[Measure, float], budgets: Mapping[Measure, float]
    ) -> None:
        unwanted = {"false_inclusion", "forbidden_offered"}
        counts = DOMAIN_METRICS - unwanted
        for what, measures, allowed in (
            ("gain", [gain], _GAINS),
            ("cost", [cost], ADDITIVE),
            ("floor", floors, counts),
            ("budget", budgets, ADDITIVE | unwanted),
        ):
            for one in measures:
                if one.metric.name not in allowed:
                    known = ", ".join(sorted(allowed))
                    raise ParameterError(f"{one} cannot be a {what} over two domains at once; {known} can")
                if one not in self.rankings.measures:
                    raise ParameterError(f"{one} was not measured on these rankings")

    def _by_shared(self) -> Iterator[tuple[list[Cut], list[Cut]]]:
        """The cuts of both domains, together where shared parameters have the same value."""
        cuts = [list(domain.family.cuts(own)) for domain, own in zip(self.domains, self._parts, strict=True)]
        names = [{name for cut in own for name in (*cut.values, *_axis_name(cut))} for own in cuts]
        both = sorted(names[0] & names[1])
        if moves := sorted({name for own in cuts for cut in own for name in _axis_name(cut)} & set(both)):
            raise ParameterError(
                f"{', '.join(moves)}: a threshold that both domains share cannot be swept in each; give each its own"
            )
        for key in dict.fromkeys(tuple(cut.values.get(name) for name in both) for cut in cuts[0]):
            one, other = ([cut for cut in own if tuple(cut.values.get(name) for name in both) == key] for own in cuts)
            if one and other:
                yield one, other

    def _pairs(
        self, cuts: tuple[list[Cut], list[Cut]], counted: Sequence[Measure], added: Sequence[Measure]
    ) -> Iterator[tuple[_DomainLine, _DomainLine, Mapping[Measure, Gain]]]:
        """All pairs of lines, with the gains of the rankings that both cut; of other topKs these may be others."""

        @cache
        def gains(*both: MeasuredRankings) -> dict[Measure, Gain]:
            return {one: domain_gain(one, self._required, both) for one in counted}

        @cache
        def side(cut: Cut, which: int, *both: MeasuredRankings) -> _DomainLine:
            return _side(cut, gains(*both), added, which)

        for one, other in product(*cuts):
            both = (one.rankings, other.rankings)
            yield side(one, 0, *both), side(other, 1, *both), gains(*both)

    def _price(self, cost: Measure, one: _DomainLine, other: _DomainLine) -> FloatArray:
        """Sums of a cost at all pairs of settings; what the session costs is in both, and counts once."""
        bare = float(np.nansum(self.rankings.values(cost, np.zeros(self.rankings.n_queries, dtype=np.int64))))
        return one.costs[cost][:, None] + (other.costs[cost] - bare)[None, :]


def _axis_name(cut: Cut) -> tuple[str, ...]:
    return () if cut.axis is None else (cut.axis[0].name,)


def _side(cut: Cut, gains: Mapping[Measure, Gain], costs: Sequence[Measure], which: int) -> _DomainLine:
    """A line at the settings from which on some quadrant counts, and at its first."""
    line = cut.line()
    found = {one: _settings(cut, line, gain.query, gain.lengths[which]) for one, gain in gains.items()}
    every = np.concatenate([np.zeros(1, dtype=np.int64), *found.values()])
    matter = np.unique(every[every < len(line)])
    start, end = line.thresholds[matter].copy(), np.append(line.thresholds[1:], line.beyond[1])[matter]
    start[0] = line.beyond[0]
    return _DomainLine(
        line=ThresholdLine(
            values=line.values, axis=line.axis, thresholds=line.thresholds[matter], sums={}, n={}, span=line.span
        ),
        start=start,
        end=end,
        costs={one: np.asarray(line.sums[one], dtype=np.float64)[matter] for one in costs},
        places={one: np.searchsorted(matter, settings) for one, settings in found.items()},
        settings=len(line),
    )


def _settings(cut: Cut, line: ThresholdLine, query: IntArray, length: IntArray) -> IntArray:
    """The first setting of a line at which each query is offered a length; as many as there are = never."""
    first = np.where(length <= cut.low[query], 0, len(line)).astype(np.int64)
    moves = np.flatnonzero((length > cut.low[query]) & (length <= cut.high[query]))
    if cut.axis is None or not len(moves):
        return first
    own, rises = cut.rankings, cut.axis[0].rises
    last = own.items.start[query[moves]] + length[moves] - 1
    key = own.score[last]
    if rises:
        key = -fallen(key, own.score[own.items.start[query[moves]]], "ratio")
    first[moves] = np.searchsorted(line.thresholds if rises else -line.thresholds, -key, side="left")
    return first


def _table(gain: Gain, name: Measure, one: _DomainLine, other: _DomainLine) -> IntArray:
    """Sums of a gain at all pairs of settings."""
    shape = (len(one.line) + 1, len(other.line) + 1)
    at = one.places[name] * shape[1] + other.places[name]
    table = np.bincount(at, weights=gain.weight, minlength=shape[0] * shape[1]).reshape(shape)[:-1, :-1]
    np.cumsum(table, axis=0, out=table)
    np.cumsum(table, axis=1, out=table)
    table += gain.constant
    return table.astype(np.int64)


def _front(best: _CheapestPairs | None, scale: int, settings: int) -> PairFront:
    """What is cheaper than all that gains more, the cheapest first."""
    if best is None:
        return PairFront(cost=np.empty(0), gain=np.empty(0), values=(), rounded=(), settings=settings)
    above = np.append(best.at_least[1:], np.inf)
    kept = [gain for gain in sorted(best.where) if best.cost[gain] < above[gain]]
    pairs = [best.where[gain] for gain in kept]
    values, rounded = (
        tuple(
            {**one.values_at(row, short=short), **other.values_at(column, short=short)}
            for one, row, other, column in pairs
        )
        for short in (False, True)
    )
    return PairFront(
        cost=best.cost[kept],
        gain=np.array(kept, dtype=np.float64) / scale,
        values=values,
        rounded=rounded,
        settings=settings,
    )


def _offered_items(items: RankedItems, offered: Sequence[tuple[MeasuredRankings, IntArray]]) -> RankedItems:
    """The items that the first `lengths` of either domain's rankings come to, as rankings without any other."""
    one, other = (part.items.select_items(part.items.place < lengths[part.items.owner]) for part, lengths in offered)
    by_owner = np.argsort(np.concatenate([one.owner, other.owner]), kind="stable")
    return replace(
        items,
        start=one.start + other.start,
        item=np.concatenate([one.item, other.item])[by_owner],
        tokens=np.concatenate([one.tokens, other.tokens])[by_owner],
        enough=np.concatenate([one.enough, other.enough])[by_owner],
    )
