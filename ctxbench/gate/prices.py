"""Prices in prompt tokens: computes what offers cost, and finds items whose price changed."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from ctxbench.bench.metrics import parse_metric
from ctxbench.gate.check_settings import PRICES
from ctxbench.gate.comparability import Comparability
from ctxbench.gate.model import Cause, CauseGroup, CauseKind, PriceChange
from ctxbench.gate.snapshots import AnswerFact, SelectorSnapshot, offered_ids


def with_prices(side: SelectorSnapshot) -> SelectorSnapshot:
    """Add to a snapshot what its offers cost, if it lacks that: an older baseline, or a run of other metrics.

    One that was asked repeatedly stays as it is: its values are means, and its answers those of one time.
    """
    lacking = [metric for metric in map(parse_metric, PRICES) if metric not in side.metrics]
    if not lacking or side.repeats > 1:
        return side
    answers = [side.answers.get(query) for query in side.queries]
    added = {
        metric: np.array(
            [_offer_tokens(one, side, session=metric.name == "total_tokens") for one in answers], dtype=np.float64
        )
        for metric in lacking
    }
    return replace(side, metrics={**side.metrics, **added})


def _offer_tokens(answer: AnswerFact | None, side: SelectorSnapshot, *, session: bool) -> float:
    """The prompt tokens of an answer; NaN where there is none."""
    if answer is None or answer.error:
        return math.nan
    there = [one.id for one in answer.offered if session or one.origin != "session"]
    return float(sum(side.items[one].tokens for one in there if one in side.items))


def price_changes(
    base: SelectorSnapshot, head: SelectorSnapshot, comparability: Comparability, *, passed_over: Collection[str] = ()
) -> tuple[PriceChange, ...]:
    """Find items whose price changed, among those that are offered on both sides or held by the session.

    Args:
        base, head: the two.
        comparability: the queries to compare, and renamed items.
        passed_over: ids of queries that count as equal on both sides.

    Returns:
        What adds most tokens first, what saves most last, ties by id. Empty where tokens are counted otherwise.
    """
    if head.items is base.items or base.identity.tokens != head.identity.tokens:
        return ()
    new = comparability.renamed
    here = {new.get(name, name): fact for name, fact in base.items.items()}
    other = {name for name, fact in head.items.items() if name in here and here[name].tokens != fact.tokens}
    if not other:
        return ()
    held: dict[str, list[str]] = {}
    for query in comparability.queries:
        if query in passed_over:
            continue
        before = {new.get(one, one) for one in offered_ids(base.answers, query)}
        for item in offered_ids(head.answers, query):
            if item in other and item in before:
                held.setdefault(item, []).append(query)
    from ctxbench.gate.input_differences import edit_text  # most checks find no other price

    found = [
        PriceChange(
            item=item,
            base=here[item].tokens,
            head=head.items[item].tokens,
            queries=tuple(queries),
            why=edit_text(here[item], head.items[item])
            if here[item].hash != head.items[item].hash
            else "counted otherwise",
        )
        for item, queries in held.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.tokens, one.item)))


def price_causes(prices: Sequence[PriceChange], head: SelectorSnapshot) -> tuple[CauseGroup, ...]:
    """Group price changes: items that became dearer as one cause, those that became cheaper as another.

    Args:
        prices: as `price_changes` gives them.
        head: whose queries they are of.
    """
    place = {query: n for n, query in enumerate(head.queries)}
    found = []
    for kind, word, held in (
        (CauseKind.DEARER, "more", [one for one in prices if one.tokens > 0]),
        (CauseKind.CHEAPER, "less", [one for one in reversed(prices) if one.tokens < 0]),
    ):
        if not held:
            continue
        queries = sorted({query for one in held for query in one.queries}, key=place.__getitem__)
        what = f"{len(held)} items cost {word} prompt tokens"
        if len(held) == 1:
            what = f"{held[0].base:,} -> {held[0].head:,} prompt tokens, {held[0].why}"
        found.append(
            CauseGroup(
                cause=Cause(kind=kind, subjects=tuple(one.item for one in held), detail=what),
                lost=0,
                gained=0,
                others=0,
                tokens=sum(one.tokens for one in held),
                queries=tuple(queries),
            )
        )
    return tuple(found)
