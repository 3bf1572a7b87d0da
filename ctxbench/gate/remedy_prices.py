"""What remedies cost: the prompt tokens of all queries with the parameters that they set, by a replay of the cuts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ctxbench.bench.metrics import parse_metric
from ctxbench.gate.check_settings import PRICES
from ctxbench.gate.flat_steps import FlatStep
from ctxbench.gate.model import CauseGroup, MetricVerdict, Remedy
from ctxbench.gate.replay import Candidate, ReplayCase, can_replay, replay_offers, with_values
from ctxbench.gate.snapshot_pair import SnapshotPair
from ctxbench.gate.snapshots import has_all_candidates
from ctxbench.gate.value_texts import level, levels, size

_MOST_ROWS = 500_000  # candidates of all queries that are replayed; of more, no price is said


def with_remedy_prices(
    groups: Sequence[CauseGroup], pair: SnapshotPair, queries: Sequence[str], metrics: Sequence[MetricVerdict]
) -> tuple[CauseGroup, ...]:
    """Add to the remedies of causes what they cost.

    That is the mean of `tokens` over the queries, now and with the remedy, and whether the check would find that worse.
    Nothing is said of a remedy that changes no parameter of a cut, and where a replay does not give what is offered
    now: where steps need more than scores, or the candidates are not all known.

    Args:
        groups: with their remedies.
        pair: base and head.
        queries: ids of those compared.
        metrics: as they were judged; without `tokens` among them nothing is added.
    """
    judged = next((verdict for verdict in metrics if verdict.metric == PRICES[0]), None)
    if judged is None or not any(group.remedy.changed for group in groups):
        return tuple(groups)
    prices = _Prices(pair, queries, judged)
    return tuple(replace(group, remedy=prices.added(group.remedy)) for group in groups)


class _Prices:
    """Prices of remedies for one selector on one dataset."""

    def __init__(self, pair: SnapshotPair, queries: Sequence[str], judged: MetricVerdict) -> None:
        self.pair, self.queries, self.judged = pair, queries, judged
        self.steps = pair.steps[1] or ()

    def added(self, remedy: Remedy) -> Remedy:
        """The remedy with its price, where that can be known."""
        if not remedy.changed or not self.cases:
            return remedy
        values: dict[str, dict[str, Any]] = {path: {} for path, _, _ in remedy.changed}
        for path, name, value in remedy.changed:
            values[path][name] = value
        steps = [with_values(step, {**step.values, **values.get(step.path, {})}) for step in self.steps]
        metric, comparison = parse_metric(self.judged.metric), self.judged.comparison
        tokens = self._mean_tokens(steps)
        text = f"{levels(metric, comparison.other, tokens)} prompt tokens on average"
        if tokens - comparison.base > self.judged.tolerance:
            base = level(metric, comparison.base)
            text += f", which is worse: {size(metric, self.judged.tolerance)} over the baseline's {base} are tolerated"
        return replace(remedy, price=text)

    @cached_property
    def cases(self) -> tuple[ReplayCase, ...]:
        """The candidates of every query; none where a replay does not give what is offered now."""
        head = self.pair.head
        expands = any(step.kind == "expand" and step.values.get("enabled", True) for step in self.steps)
        if head.repeats > 1 or expands or not can_replay(self.steps):
            return ()
        cases, n = [], 0
        for query in self.queries:
            side = self.pair.candidates(query)[1]
            n += len(side.rows)
            if n > _MOST_ROWS or not has_all_candidates(head.answers, query):
                return ()
            cases.append(ReplayCase(candidate=None, rivals=[*side.rows.values()], bar=side.bar))
        offers = replay_offers(self.steps, cases)
        is_exact = all(
            {row.id for row in rows} == set(self.pair.candidates(query)[1].offered)
            for query, rows in zip(self.queries, offers, strict=True)
        )
        return tuple(cases) if is_exact else ()

    def _mean_tokens(self, steps: Sequence[FlatStep]) -> float:
        return sum(map(_added_tokens, replay_offers(steps, self.cases))) / len(self.cases)


def _added_tokens(rows: Sequence[Candidate]) -> int:
    """The tokens of what is offered, without the session."""
    return sum(row.tokens for row in rows if row.origin != "session")
