"""Groups changes by their cause, the costliest group first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ctxbench.gate.cause_finder import crowd_text
from ctxbench.gate.model import Cause, CauseGroup, CauseKind, Change, Remedy
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
    held: dict[Cause, list[Change]] = {}
    for one in changes:
        held.setdefault(merged[one.cause], []).append(one)
    return tuple(sorted((_group(cause, members, pair) for cause, members in held.items()), key=cost_key))


def cost_key(group: CauseGroup) -> tuple[int, int, int, int, str, str, tuple[str, ...]]:
    """The key that sorts groups, the costliest first; see `group_changes`."""
    cause, net = group.cause, max(0, group.lost - group.gained)
    return -net, -group.lost, group.gained, -group.others, cause.kind, cause.detail, cause.subjects


def _group(cause: Cause, changes: Sequence[Change], pair: SnapshotPair) -> CauseGroup:
    tokens = 0
    for one in changes:
        fact = (pair.base if one.lost else pair.head).items.get(one.item)
        tokens += 0 if fact is None else -fact.tokens if one.lost else fact.tokens
    lost = {one.query for one in changes if one.lost and one.required}
    queries = sorted({one.query for one in changes}, key=lambda query: (query not in lost, pair.query_places[query]))
    return CauseGroup(
        cause=cause,
        lost=sum(one.lost and one.required for one in changes),
        gained=sum(not one.lost and one.required for one in changes),
        others=sum(not one.required for one in changes),
        tokens=tokens,
        queries=tuple(queries),
        remedy=_group_remedy([one.remedy for one in changes if one.remedy]),
    )


def _group_remedy(remedies: Sequence[Remedy]) -> Remedy:
    """The remedy for most changes; of amounts for one setting, the one that is enough for at least half of them."""
    if not remedies:
        return Remedy()
    numbers: dict[Remedy, list[Remedy]] = {}
    for one in remedies:
        if one.amount is not None:
            numbers.setdefault(replace(one, amount=None), []).append(one)
    counts = Counter(remedies)
    best, most = min(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
    for stem, held in sorted(numbers.items(), key=lambda pair: str(pair[0])):
        if len(held) > most or (len(held) == most and best in held):
            in_order = sorted(held, key=lambda one: one.amount or 0.0, reverse=stem.lower)
            best, most = in_order[(len(held) - 1) // 2], len(held)
    return best


def _merged_causes(causes: Iterable[Cause], pair: SnapshotPair) -> dict[Cause, Cause]:
    """The cause of the group that each cause is in."""
    causes = list(causes)
    out = {one: one for one in causes}
    for kind in (CauseKind.NEW, CauseKind.GONE):
        members = [one for one in causes if one.kind == kind]
        held = sorted({item for one in members for item in one.subjects})
        if len(held) > 1:
            what = " or ".join(sorted({one.detail for one in members}, reverse=True))
            joint = Cause(kind=kind, subjects=tuple(held), detail=f"{len(held)} items {what}")
            out |= dict.fromkeys(members, joint)
    shared: dict[tuple[CauseKind, str], list[Cause]] = {}
    for one in causes:
        if one.kind in _MERGED_KINDS and one.way:
            shared.setdefault((one.kind, one.way), []).append(one)
    for (kind, way), members in shared.items():
        for subjects in _components([set(one.subjects) for one in members]):
            own = [one for one in members if subjects.issuperset(one.subjects)]
            names = tuple(sorted(subjects))
            detail = crowd_text(names, pair, way, lost=kind == CauseKind.CROWDED)
            joint = replace(own[0], subjects=names, detail=detail)
            out |= dict.fromkeys(own, joint)
    return out


def _components(sets: Sequence[set[str]]) -> list[set[str]]:
    """Sets that share a member, directly or through others, as one."""
    found: list[set[str]] = []
    for one in sets:
        apart = [other for other in found if not other & one]
        found = [*apart, one.union(*(other for other in found if other & one))]
    return found
