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
        rounded: the same settings with short decimals that select the same.
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
        first_indices: by gain, for each of its quadrants the first setting at which it counts, 0 to m (never).
        settings: how many the whole line has.
    """

    line: ThresholdLine
    start: FloatArray
    end: FloatArray
    costs: Mapping[Measure, FloatArray]
    first_indices: Mapping[Measure, IntArray]
    settings: int

    def values_at(self, index: int, *, short: bool) -> dict[str, Value]:
        """The values of one setting."""
        line = replace(
            self.line,
            thresholds=self.line.thresholds[index : index + 1],
            beyond=(float(self.start[index]), float(self.end[index])),
        )
        return line.rounded_values(0) if short else line.values_at(0)


class _CheapestPairs:
    """The cheapest pair of settings for every gain, of those seen so far."""

    def __init__(self, max_gain: int) -> None:
        self.cost = np.full(max_gain + 1, np.inf)
        self.at_least = self.cost
        self.where: dict[int, tuple[_DomainLine, int, _DomainLine, int]] = {}

    def add(self, cost: FloatArray, gain: IntArray, first: _DomainLine, second: _DomainLine) -> None:
        """Keep the pairs that are cheaper than all that gain as much; of equals the first stays."""
        rows, columns = np.nonzero(cost < self.at_least[gain])
        if not len(rows):
            return
        costs, gains = cost[rows, columns], gain[rows, columns]
        cheap_first = np.lexsort((np.arange(len(rows)), costs, -gains))
        lowest = np.minimum.accumulate(costs[cheap_first])
        falls = np.append(True, lowest[1:] < lowest[:-1])
        for index in cheap_first[falls].tolist():
            gained = int(gains[index])
            if costs[index] < self.cost[gained]:
                self.cost[gained] = costs[index]
                self.where[gained] = (first, int(rows[index]), second, int(columns[index]))
        self.at_least = np.minimum.accumulate(self.cost[::-1])[::-1]


class DomainPair:
    """The two domains of a selector, and every pair of their settings.

    Args:
        rankings: the rankings before the domains' cuts, both domains together, with the measures needed.
        domains: two; parameters of the same name have the same value in both.

    Raises:
        ParameterError: there are not two domains, or an item of a ranking belongs to neither.
    """

    def __init__(self, rankings: MeasuredRankings, domains: Sequence[Domain]) -> None:
        if len(domains) != 2:
            raise ParameterError(f"a budget is shared by two domains, got {len(domains)}")
        members = domain_items(rankings.items.labels.dataset.catalog, [domain.types for domain in domains])
        if not (members[0] | members[1])[rankings.items.item].all():
            raise ParameterError("an item of a ranking belongs to neither domain; add its type, or '*'")
        self.rankings = rankings
        self.domains = tuple(domains)
        self._parts = tuple(rankings.select_items(is_member[rankings.items.item]) for is_member in members)
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
        counted = [measure for measure in dict.fromkeys((gain, *limits)) if measure.metric.name in DOMAIN_METRICS]
        added = [measure for measure in dict.fromkeys((cost, *limits)) if measure.metric.name in ADDITIVE]
        best: _CheapestPairs | None = None
        scale, settings = 1, 0
        for cuts in self._by_shared():
            for first, second, gains in self._pairs(cuts, counted, added):
                if best is None:
                    scale = gains[gain].scale
                    best = _CheapestPairs(gains[gain].applies * scale)  # where every query has 1
                settings += first.settings * second.settings
                price = self._price(cost, first, second)
                tables = {name: _table(quadrants, name, first, second) for name, quadrants in gains.items()}
                beyond = np.zeros(price.shape, dtype=np.bool_)
                for limit, lower in (floors or {}).items():
                    beyond |= tables[limit] < lower * gains[limit].scale * (1.0 - _SAME)
                for limit, upper in (budgets or {}).items():
                    spent = tables[limit] if limit in tables else self._price(limit, first, second)
                    beyond |= spent > upper + _SAME * abs(upper)
                best.add(np.where(beyond, np.inf, price) if limits else price, tables[gain], first, second)
        return _front(best, scale, settings)

    def by_query(self, values: Mapping[str, Value]) -> dict[Measure, FloatArray]:
        """By measure, the values of every query at one setting, shape (n_queries,); NaN = does not apply."""
        pairs = zip(self.domains, self._parts, strict=True)
        rankings, prefixes = self.rankings, [domain.family.offered_prefix(part, values) for domain, part in pairs]
        evidence = _offered_items(rankings.items, prefixes).evidence()
        return values_of_measures(
            rankings.measures,
            evaluate(list(dict.fromkeys(measure.metric for measure in rankings.measures)), evidence),
            evidence,
            rankings.items.labels.dataset.catalog,
            by_type=rankings.queries_by_type,
            reachable=rankings.reachable,
        )

    def lines(self, front: PairFront) -> Iterator[ThresholdLine]:
        """The settings of a front, each as a separate line, for collectors that look at intervals.

        Each is the cheapest by its sum. Where the end of a cost's interval is compared with a bound, another
        setting with the same gain, a higher sum and less spread might keep to it, too, and is not among these.
        """
        for values in front.rounded:
            yield setting_line(values, self.by_query(values), pairing=self.rankings.pairing)

    def _check(
        self, gain: Measure, cost: Measure, floors: Mapping[Measure, float], budgets: Mapping[Measure, float]
    ) -> None:
        unwanted = {"false_inclusion", "forbidden_offered"}
        counts = DOMAIN_METRICS - unwanted
        for role, measures, allowed in (
            ("gain", [gain], _GAINS),
            ("cost", [cost], ADDITIVE),
            ("floor", floors, counts),
            ("budget", budgets, ADDITIVE | unwanted),
        ):
            for measure in measures:
                if measure.metric.name not in allowed:
                    names = ", ".join(sorted(allowed))
                    raise ParameterError(f"{measure} cannot be a {role} over two domains at once; {names} can")
                if measure not in self.rankings.measures:
                    raise ParameterError(f"{measure} was not measured on these rankings")

    def _by_shared(self) -> Iterator[tuple[list[Cut], list[Cut]]]:
        """The cuts of both domains, together where shared parameters have the same value."""
        cuts = [list(domain.family.cuts(part)) for domain, part in zip(self.domains, self._parts, strict=True)]
        names = [{name for cut in side for name in (*cut.values, *_axis_name(cut))} for side in cuts]
        shared = sorted(names[0] & names[1])
        if moves := sorted({name for side in cuts for cut in side for name in _axis_name(cut)} & set(shared)):
            raise ParameterError(
                f"{', '.join(moves)}: a threshold that both domains share cannot be swept in each; give each its own"
            )
        for key in dict.fromkeys(tuple(cut.values.get(name) for name in shared) for cut in cuts[0]):
            first, second = (
                [cut for cut in side if tuple(cut.values.get(name) for name in shared) == key] for side in cuts
            )
            if first and second:
                yield first, second

    def _pairs(
        self, cuts: tuple[list[Cut], list[Cut]], counted: Sequence[Measure], added: Sequence[Measure]
    ) -> Iterator[tuple[_DomainLine, _DomainLine, Mapping[Measure, Gain]]]:
        """All pairs of lines, with the gains of the rankings that both cut; of other topKs these may be others."""

        @cache
        def gains(*rankings: MeasuredRankings) -> dict[Measure, Gain]:
            return {measure: domain_gain(measure, self._required, rankings) for measure in counted}

        @cache
        def side(cut: Cut, index: int, *rankings: MeasuredRankings) -> _DomainLine:
            return _side(cut, gains(*rankings), added, index)

        for first, second in product(*cuts):
            rankings = (first.rankings, second.rankings)
            yield side(first, 0, *rankings), side(second, 1, *rankings), gains(*rankings)

    def _price(self, cost: Measure, first: _DomainLine, second: _DomainLine) -> FloatArray:
        """Sums of a cost at all pairs of settings; what the session costs is in both, and counts once."""
        bare = float(np.nansum(self.rankings.values(cost, np.zeros(self.rankings.n_queries, dtype=np.int64))))
        return first.costs[cost][:, None] + (second.costs[cost] - bare)[None, :]


def _axis_name(cut: Cut) -> tuple[str, ...]:
    return () if cut.axis is None else (cut.axis[0].name,)


def _side(cut: Cut, gains: Mapping[Measure, Gain], costs: Sequence[Measure], index: int) -> _DomainLine:
    """A line at the settings from which on some quadrant counts, and at its first."""
    line = cut.line()
    first_settings = {measure: _settings(cut, line, gain.query, gain.lengths[index]) for measure, gain in gains.items()}
    all_settings = np.concatenate([np.zeros(1, dtype=np.int64), *first_settings.values()])
    matter = np.unique(all_settings[all_settings < len(line)])
    start, end = line.thresholds[matter].copy(), np.append(line.thresholds[1:], line.beyond[1])[matter]
    start[0] = line.beyond[0]
    return _DomainLine(
        line=ThresholdLine(
            values=line.values, axis=line.axis, thresholds=line.thresholds[matter], sums={}, n={}, span=line.span
        ),
        start=start,
        end=end,
        costs={measure: np.asarray(line.sums[measure], dtype=np.float64)[matter] for measure in costs},
        first_indices={measure: np.searchsorted(matter, settings) for measure, settings in first_settings.items()},
        settings=len(line),
    )


def _settings(cut: Cut, line: ThresholdLine, query: IntArray, length: IntArray) -> IntArray:
    """The first setting of a line at which each query is offered a length; as many as there are = never."""
    first = np.where(length <= cut.low[query], 0, len(line)).astype(np.int64)
    moves = np.flatnonzero((length > cut.low[query]) & (length <= cut.high[query]))
    if cut.axis is None or not len(moves):
        return first
    rankings, rises = cut.rankings, cut.axis[0].rises
    last = rankings.items.start[query[moves]] + length[moves] - 1
    key = rankings.score[last]
    if rises:
        key = -fallen(key, rankings.score[rankings.items.start[query[moves]]], "ratio")
    first[moves] = np.searchsorted(line.thresholds if rises else -line.thresholds, -key, side="left")
    return first


def _table(gain: Gain, name: Measure, first: _DomainLine, second: _DomainLine) -> IntArray:
    """Sums of a gain at all pairs of settings."""
    shape = (len(first.line) + 1, len(second.line) + 1)
    at = first.first_indices[name] * shape[1] + second.first_indices[name]
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
    gains = [gain for gain in sorted(best.where) if best.cost[gain] < above[gain]]
    pairs = [best.where[gain] for gain in gains]
    values, rounded = (
        tuple(
            {**first.values_at(row, short=short), **second.values_at(column, short=short)}
            for first, row, second, column in pairs
        )
        for short in (False, True)
    )
    return PairFront(
        cost=best.cost[gains],
        gain=np.array(gains, dtype=np.float64) / scale,
        values=values,
        rounded=rounded,
        settings=settings,
    )


def _offered_items(items: RankedItems, offered: Sequence[tuple[MeasuredRankings, IntArray]]) -> RankedItems:
    """The items that the first `lengths` of either domain's rankings come to, as rankings without any other."""
    first, second = (
        part.items.select_items(part.items.position < lengths[part.items.owner]) for part, lengths in offered
    )
    by_owner = np.argsort(np.concatenate([first.owner, second.owner]), kind="stable")
    return replace(
        items,
        start=first.start + second.start,
        item=np.concatenate([first.item, second.item])[by_owner],
        tokens=np.concatenate([first.tokens, second.tokens])[by_owner],
        enough=np.concatenate([first.enough, second.enough])[by_owner],
    )
