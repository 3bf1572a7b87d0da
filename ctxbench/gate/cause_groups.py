"""Groups changes by their cause, the costliest first, and items whose price in prompt tokens changed."""

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
    merged = _merged_causes({one.cause for one in changes}, pair)
    held = group_pairs((merged[one.cause], one) for one in changes)
    return tuple(sorted((_group(cause, members, pair) for cause, members in held.items()), key=cost_key))


def cost_key(group: CauseGroup) -> tuple[int, int, int, int, str, str, tuple[str, ...]]:
    """The key that sorts groups, the costliest first; see `group_changes`."""
    cause, net = group.cause, max(0, group.lost - group.gained)
    return -net, -group.lost, group.gained, -group.others, cause.kind, cause.detail, cause.subjects


def _group(cause: Cause, changes: Sequence[Change], pair: SnapshotPair) -> CauseGroup:
    from ctxbench.gate.remedies import undo_inclusion  # slow to import; most checks find nothing to explain

    added = [-_price(one, pair.base) if one.lost else _price(one, pair.head) for one in changes]
    lost = {one.query for one in changes if one.lost and one.required}
    queries = sorted({one.query for one in changes}, key=lambda query: (query not in lost, pair.query_places[query]))
    return CauseGroup(
        cause=cause,
        lost=sum(one.lost and one.required for one in changes),
        gained=sum(not one.lost and one.required for one in changes),
        others=sum(not one.required for one in changes),
        tokens=sum(added),
        queries=tuple(queries),
        remedy=_group_remedy([one.remedy for one in changes if one.lost and one.required])
        or undo_inclusion(cause, pair),
    )


def _price(change: Change, side: SelectorSnapshot) -> int:
    """What the item of a change costs its query on the side that offers it."""
    offered = (one for one in side.answers[change.query].offered if one.id == change.item)
    return next((shown_tokens(one, side) for one in offered), side.items[change.item].tokens)


def _group_remedy(given: Sequence[Remedy]) -> Remedy:
    """The remedy for most of the losses; of amounts for one setting, the one that is enough for all of them.

    That nothing is known to help is said only where it is so of all. Where a setting mends a part of the losses, it
    says of how many.

    Args:
        given: of each required item that was lost; empty remedies where nothing can be said.
    """
    remedies = [one for one in given if one]
    if not remedies:
        return Remedy()
    remedies = [one for one in remedies if one.possible] or remedies
    numbers = group_pairs((replace(one, amount=None), one) for one in remedies if one.amount is not None)
    best, most = min(Counter(remedies).items(), key=lambda pair: (-pair[1], str(pair[0])))
    for stem, held in sorted(numbers.items(), key=lambda pair: str(pair[0])):
        if len(held) > most or (len(held) == most and best in held):
            widest = min if stem.lower else max
            best, most = widest(held, key=lambda one: one.amount or 0.0), len(held)
    mended = sum(_covers(best, one) for one in given)
    if mended < len(given) and best.amount is not None and best.phrase.startswith(("raise", "lower")):
        return replace(best, share=", ".join(filter(None, (f"which mends {mended} of {len(given)}", best.share))))
    return best


def _covers(wide: Remedy, other: Remedy) -> bool:
    """Whether a remedy does what another one does: the same, or wider values of the same parameters."""
    if wide == other:
        return True
    ours, theirs = ({(path, name): value for path, name, value in one.changed} for one in (wide, other))
    if not ours or ours.keys() != theirs.keys() or not all(isinstance(one, int | float) for one in theirs.values()):
        return False
    return all((theirs[key] - value) * (-1 if wide.lower else 1) <= 0 for key, value in ours.items())


def _merged_causes(causes: Collection[Cause], pair: SnapshotPair) -> dict[Cause, Cause]:
    """The cause of the group that each cause is in."""
    from ctxbench.gate.cause_finder import crowd_text  # slow to import; most checks find nothing to explain

    out = {one: one for one in causes}
    for kind in (CauseKind.NEW, CauseKind.GONE):
        members = [one for one in causes if one.kind == kind]
        held = sorted({item for one in members for item in one.subjects})
        if len(held) > 1:
            what = " or ".join(sorted({one.detail for one in members}, reverse=True))
            joint = Cause(kind=kind, subjects=tuple(held), detail=f"{len(held)} items {what}")
            out |= dict.fromkeys(members, joint)
    shared = group_pairs(((one.kind, one.way), one) for one in causes if one.kind in _MERGED_KINDS and one.way)
    for (kind, way), members in shared.items():
        for places in connected_rows([one.subjects for one in members]):
            own = [members[place] for place in places]
            names = tuple(sorted({item for one in own for item in one.subjects}))
            detail = crowd_text(names, pair, way, lost=kind == CauseKind.CROWDED)
            joint = replace(own[0], subjects=names, detail=detail)
            out |= dict.fromkeys(own, joint)
    return out


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
    return float(answer_tokens(answer, side, session=session))


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

    def offered_twice(query: str) -> set[str]:
        before = {new.get(one, one) for one in offered_ids(base.answers, query)}
        return other.intersection(before, offered_ids(head.answers, query))

    asked = [query for query in comparability.queries if query not in passed_over]
    held = group_pairs((item, query) for query in asked for item in offered_twice(query))
    from ctxbench.gate.item_edit_texts import edit_text  # most checks find no other price

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
