"""Groups changes by their cause, the costliest first, and items whose token count changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ctxbench.bench.metrics import parse_metric
from ctxbench.data.datasets.row_groups import connected_rows, group_pairs
from ctxbench.gate.answer_prices import answer_tokens, shown_tokens
from ctxbench.gate.check_settings import PRICES
from ctxbench.gate.comparability import Comparability
from ctxbench.gate.model import Cause, CauseGroup, CauseKind, Change, PriceChange, Remedy
from ctxbench.gate.snapshots import AnswerFact, SelectorSnapshot, offered_ids

if TYPE_CHECKING:
    from ctxbench.gate.snapshot_pair import SnapshotPair

_MERGED_KINDS = (CauseKind.CROWDED, CauseKind.FREED)


def group_changes(pair: SnapshotPair, changes: Sequence[Change]) -> tuple[CauseGroup, ...]:
    """Put changes of one cause together, over all queries.

    Where items crowd others out, each query has its own few of them in front; causes that share one of them, in the
    same way, are one, of them all. All items that are new and offered are one, too, and all that are gone.

    Args:
        pair: base and head.
        changes: explained, in the order of the queries.

    Returns:
        The costliest first: by required items lost net, none where as many or more are gained; then by required items
        lost, so that what both loses and gains is before what gains alone; then what gains less; then most changes of
        others; then by kind, detail and subjects.
    """
    merged = _merged_causes({change.cause for change in changes}, pair)
    groups = group_pairs((merged[change.cause], change) for change in changes)
    return tuple(sorted((_group(cause, members, pair) for cause, members in groups.items()), key=cost_key))


def cost_key(group: CauseGroup) -> tuple[int, int, int, int, str, str, tuple[str, ...]]:
    """The key that sorts groups, the costliest first; see `group_changes`."""
    cause, net = group.cause, max(0, group.lost - group.gained)
    return -net, -group.lost, group.gained, -group.others, cause.kind, cause.detail, cause.subjects


def _group(cause: Cause, changes: Sequence[Change], pair: SnapshotPair) -> CauseGroup:
    from ctxbench.gate.remedies import undo_inclusion  # slow to import; most checks find nothing to explain

    added = [-_price(change, pair.base) if change.lost else _price(change, pair.head) for change in changes]
    lost = {change.query for change in changes if change.lost and change.required}
    queries = sorted(
        {change.query for change in changes}, key=lambda query: (query not in lost, pair.query_places[query])
    )
    return CauseGroup(
        cause=cause,
        lost=sum(change.lost and change.required for change in changes),
        gained=sum(not change.lost and change.required for change in changes),
        others=sum(not change.required for change in changes),
        tokens=sum(added),
        queries=tuple(queries),
        remedy=_group_remedy([change.remedy for change in changes if change.lost and change.required])
        or undo_inclusion(cause, pair),
    )


def _price(change: Change, side: SelectorSnapshot) -> int:
    """The token count of the item of a change, on the side that offers it."""
    offered = (candidate for candidate in side.answers[change.query].offered if candidate.id == change.item)
    return next((shown_tokens(candidate, side) for candidate in offered), side.items[change.item].tokens)


def _group_remedy(all_remedies: Sequence[Remedy]) -> Remedy:
    """The remedy for most of the losses; of amounts for one setting, the one that is enough for all of them.

    The text that nothing is known to help is used only where that holds for all. Where a setting fixes only some of
    the losses, the text has their number.

    Args:
        all_remedies: of each required item that was lost; empty where there is none.
    """
    remedies = [remedy for remedy in all_remedies if remedy]
    if not remedies:
        return Remedy()
    remedies = [remedy for remedy in remedies if remedy.possible] or remedies
    numbers = group_pairs((replace(remedy, amount=None), remedy) for remedy in remedies if remedy.amount is not None)
    best, count = min(Counter(remedies).items(), key=lambda pair: (-pair[1], str(pair[0])))
    for stem, variants in sorted(numbers.items(), key=lambda pair: str(pair[0])):
        if len(variants) > count or (len(variants) == count and best in variants):
            widest = min if stem.lower else max
            best, count = widest(variants, key=lambda remedy: remedy.amount or 0.0), len(variants)
    mended = sum(_covers(best, remedy) for remedy in all_remedies)
    if mended < len(all_remedies) and best.amount is not None and best.phrase.startswith(("raise", "lower")):
        return replace(
            best, share=", ".join(filter(None, (f"which mends {mended} of {len(all_remedies)}", best.share)))
        )
    return best


def _covers(wide: Remedy, narrow: Remedy) -> bool:
    """Whether a remedy includes another one: the same, or wider values of the same parameters."""
    if wide == narrow:
        return True
    ours, theirs = ({(path, name): value for path, name, value in remedy.changed} for remedy in (wide, narrow))
    if not ours or ours.keys() != theirs.keys() or not all(isinstance(value, int | float) for value in theirs.values()):
        return False
    return all((theirs[key] - value) * (-1 if wide.lower else 1) <= 0 for key, value in ours.items())


def _merged_causes(causes: Collection[Cause], pair: SnapshotPair) -> dict[Cause, Cause]:
    """The cause of the group that each cause is in."""
    from ctxbench.gate.cause_finder import crowd_text  # slow to import; most checks find nothing to explain

    out = {cause: cause for cause in causes}
    for kind in (CauseKind.NEW, CauseKind.GONE):
        members = [cause for cause in causes if cause.kind == kind]
        items = sorted({item for cause in members for item in cause.subjects})
        if len(items) > 1:
            details = " or ".join(sorted({cause.detail for cause in members}, reverse=True))
            joint = Cause(kind=kind, subjects=tuple(items), detail=f"{len(items)} items {details}")
            out |= dict.fromkeys(members, joint)
    shared = group_pairs(
        ((cause.kind, cause.mechanism), cause) for cause in causes if cause.kind in _MERGED_KINDS and cause.mechanism
    )
    for (kind, mechanism), members in shared.items():
        for rows in connected_rows([cause.subjects for cause in members]):
            connected = [members[row] for row in rows]
            names = tuple(sorted({item for cause in connected for item in cause.subjects}))
            detail = crowd_text(names, pair, mechanism, lost=kind == CauseKind.CROWDED)
            joint = replace(connected[0], subjects=names, detail=detail)
            out |= dict.fromkeys(connected, joint)
    return out


def with_prices(side: SelectorSnapshot) -> SelectorSnapshot:
    """Add the token metrics to a snapshot that lacks them: an older baseline, or a run of other metrics.

    One that was asked repeatedly stays as it is: its values are means, and its answers those of one time.
    """
    missing = [metric for metric in map(parse_metric, PRICES) if metric not in side.metrics]
    if not missing or side.repeats > 1:
        return side
    answers = [side.answers.get(query) for query in side.queries]
    added = {
        metric: np.array(
            [_offer_tokens(answer, side, session=metric.name == "total_tokens") for answer in answers], dtype=np.float64
        )
        for metric in missing
    }
    return replace(side, metrics={**side.metrics, **added})


def _offer_tokens(answer: AnswerFact | None, side: SelectorSnapshot, *, session: bool) -> float:
    """The prompt tokens of an answer; NaN where there is none."""
    if answer is None or answer.error:
        return math.nan
    return float(answer_tokens(answer, side, session=session))


def price_changes(
    base: SelectorSnapshot, head: SelectorSnapshot, comparability: Comparability, *, passed_over: Collection[str] = ()
) -> tuple[PriceChange, ...]:
    """Find items whose token count changed, among those that are offered on both sides or in the session.

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
    base_items = {new.get(name, name): fact for name, fact in base.items.items()}
    changed = {
        name for name, fact in head.items.items() if name in base_items and base_items[name].tokens != fact.tokens
    }
    if not changed:
        return ()

    def offered_twice(query: str) -> set[str]:
        before = {new.get(name, name) for name in offered_ids(base.answers, query)}
        return changed.intersection(before, offered_ids(head.answers, query))

    queries = [query for query in comparability.queries if query not in passed_over]
    queries_by_item = group_pairs((item, query) for query in queries for item in offered_twice(query))
    from ctxbench.gate.item_edit_texts import edit_text  # most checks find no other price

    changes = [
        PriceChange(
            item=item,
            base=base_items[item].tokens,
            head=head.items[item].tokens,
            queries=tuple(queries),
            why=edit_text(base_items[item], head.items[item])
            if base_items[item].hash != head.items[item].hash
            else "counted otherwise",
        )
        for item, queries in queries_by_item.items()
    ]
    return tuple(sorted(changes, key=lambda change: (-change.tokens, change.item)))


def price_causes(prices: Sequence[PriceChange], head: SelectorSnapshot) -> tuple[CauseGroup, ...]:
    """Group price changes: items that cost more tokens are one cause, those that cost less another.

    Args:
        prices: as `price_changes` gives them.
        head: whose queries they are of.
    """
    position = {query: n for n, query in enumerate(head.queries)}
    groups = []
    for kind, word, changed in (
        (CauseKind.DEARER, "more", [change for change in prices if change.tokens > 0]),
        (CauseKind.CHEAPER, "less", [change for change in reversed(prices) if change.tokens < 0]),
    ):
        if not changed:
            continue
        queries = sorted({query for change in changed for query in change.queries}, key=position.__getitem__)
        detail = f"{len(changed)} items cost {word} prompt tokens"
        if len(changed) == 1:
            detail = f"{changed[0].base:,} -> {changed[0].head:,} prompt tokens, {changed[0].why}"
        groups.append(
            CauseGroup(
                cause=Cause(kind=kind, subjects=tuple(change.item for change in changed), detail=detail),
                lost=0,
                gained=0,
                others=0,
                tokens=sum(change.tokens for change in changed),
                queries=tuple(queries),
            )
        )
    return tuple(groups)
