"""Makes causes from two snapshots: an item's own text, the items in its way, and what moved all scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property

from ctxbench.core.candidates import MARGIN
from ctxbench.gate.flat_steps import FlatStep
from ctxbench.gate.input_differences import SettingDifference, edit_text
from ctxbench.gate.model import Cause, CauseKind, Change
from ctxbench.gate.snapshot_pair import QueryCandidates, SnapshotPair
from ctxbench.steps.fit import BUDGET

_FRONT, _BEST, _ROOM, _AMONG = "in front", "with the best score", "with more tokens", "among the candidates"
_ALL, _CHUNKS = "in the catalog", "with more chunks"
WAYS = {
    _FRONT: ("came in front", "stood in front before"),
    _BEST: ("raised the best score", "had the best score before"),
    _ROOM: ("filled the budget", "filled the budget before"),
    _AMONG: ("changed the choice", "changed the choice"),  # by diversity, or a gap
    _CHUNKS: ("took up more of the topK chunks", "took up more of the topK chunks before"),
    _ALL: ("moved the scores of others", "moved the scores of others"),  # by fusion, or how rare words are
}
_ITEM_CHANGES = ("new", "enabled", "edited", "renamed", "gone", "disabled")  # what may have been done to an item
_MAX_NAMED = 5  # subjects that are named where the catalog as a whole is the cause
_BULK_EDIT = 10  # so many edited items, at least half of the catalog, are one edit
_NOTHING = "nothing that is under test differs: the selector is not deterministic"


class CauseFinder:
    """Makes causes for the changes of one selector on one dataset."""

    def __init__(self, pair: SnapshotPair) -> None:
        self.pair = pair
        self.inputs = pair.inputs

    @cached_property
    def common_cause(self) -> Cause | None:
        """What moved the scores of unchanged items; None where the catalog did, or nothing that is known."""
        own = tuple(one for one in self.inputs.scoring if not one.code)
        if self.inputs.embedder is not None:
            return _setting_cause(CauseKind.MODEL, own)
        if own:
            return _setting_cause(CauseKind.PARAMETER, own)
        if self.pair.weighs_the_catalog and self.inputs.catalog:
            return None
        return _setting_cause(CauseKind.CODE, self.inputs.code) if self.inputs.code else None

    def nondeterminism(self) -> Cause:
        """The cause where all known inputs are the same: the selector is not deterministic."""
        return Cause(kind=CauseKind.UNKNOWN, detail=_NOTHING)

    def setting_cause(self, settings: Sequence[SettingDifference]) -> Cause:
        """The cause where settings of the user differ."""
        return _setting_cause(CauseKind.PARAMETER, settings)

    def own_cause(self, change: Change) -> Cause:
        """The cause where the item's own score decided, or its number of tokens."""
        item = self.pair.head_id(change.item)
        old = self.pair.base_ids.get(item, item)
        before, after = self.pair.base.items.get(old), self.pair.head.items.get(item)
        if cause := self._counter_cause(change):
            return cause
        if item in self.inputs.edited:
            total, edited = len(self.pair.head.items), len(self.inputs.edited)
            if edited >= _BULK_EDIT and 2 * edited >= total:
                return Cause(kind=CauseKind.EDITED, detail=f"{edited} of {total} items edited")
            return Cause(kind=CauseKind.EDITED, subjects=(item,), detail=edit_text(before, after))
        if item != old:
            return Cause(kind=CauseKind.RENAMED, subjects=(item,), detail=f"was {old}")
        return self._catalog_cause(change)

    def rival_cause(self, change: Change) -> Cause:
        """The cause where rivals decided: items that came in front of a lost item, or left the place in front of it."""
        found, way = self.blockers(change)
        if cause := self._counter_cause(change):
            return cause
        if not found:
            return self._catalog_cause(change)
        return self._crowd_cause(found, way, change)

    def _crowd_cause(self, subjects: tuple[str, ...], way: str, change: Change, *, named: bool = True) -> Cause:
        """The cause where other items are in the way; `named` False gives only their number."""
        detail = crowd_text(subjects, self.pair, way, lost=change.lost)
        kind = CauseKind.CROWDED if change.lost else CauseKind.FREED
        return Cause(kind=kind, subjects=subjects if named else (), detail=detail, way=way if named else "")

    def blockers(self, change: Change) -> tuple[tuple[str, ...], str]:
        """The changed items that keep an item out on the side where it is out, and how: a key of `WAYS`.

        Sorted by id, that at the base for items that are gone; none where no changed item is in the way.
        """
        item = self.pair.head_id(change.item)
        sides = self.pair.candidates(change.query)
        here, there = (sides[1], sides[0]) if change.lost else sides  # where it is out, where it is in
        row = here.rows.get(item)
        by_chunks = row is not None and row.beyond_chunks
        types = () if by_chunks else self.pair.rival_types(item)
        suited = {
            name
            for name in here.found
            if name in self.pair.changed_items and (not types or name.partition(":")[0] in types)
        }
        if row is not None and row.rule is not None and row.rule.value("margin") is not None:
            best = max(here.found, key=here.score, default="")
            if best in suited and here.score(best) > max(map(there.score, there.found), default=-math.inf) + MARGIN:
                return (best,), _BEST
        ahead = {name for name in suited if here.score(name) >= here.score(item)}
        if _is_out_by_budget(here, item):
            heavier = {name for name in ahead if name in here.offered and _tokens(here, name) > _tokens(there, name)}
            if heavier:
                return tuple(sorted(heavier)), _ROOM
        if found := {name for name in ahead if there.score(name) < there.score(item)}:
            return tuple(sorted(found)), _FRONT
        if ahead and by_chunks:  # in front on both sides, by other texts
            return tuple(sorted(ahead)), _CHUNKS
        return tuple(sorted(name for name in suited & set(here.offered) if name not in there.offered)), _FRONT

    def _counter_cause(self, change: Change) -> Cause | None:
        """The token counter as the cause, where it is another one and a budget keeps the item out; else None."""
        side = self.pair.candidates(change.query)[1 if change.lost else 0]
        if self.inputs.tokens is None or not _is_out_by_budget(side, self.pair.head_id(change.item)):
            return None
        return self.setting_cause([self.inputs.tokens])

    def _catalog_cause(self, change: Change) -> Cause:
        """The cause where a choice depends on all candidates, or scores on the whole catalog (BM25, fusion).

        Of several items that were touched, scores do not tell which one moved those of the others: they are one cause.
        """
        if not self.inputs.catalog:
            return self._fallback_cause()
        if not self.pair.weighs_the_catalog and (found := self._changed_candidates(change)):
            return self._crowd_cause(found, _AMONG, change)
        changed = tuple(sorted(self.pair.changed_items))
        return self._crowd_cause(changed, _ALL, change, named=len(changed) <= _MAX_NAMED)

    def _changed_candidates(self, change: Change) -> tuple[str, ...]:
        """The changed items among the candidates: those that went in or out, else those in front, else all."""
        before, after = self.pair.candidates(change.query)
        own = self.pair.head_id(change.item)
        there = self.pair.changed_items & {*before.found, *after.found} - {own}
        moved = {name for name in there if abs(_score_difference(before.score(name), after.score(name))) > MARGIN}
        in_or_out = {name for name in moved if (name in before.offered) != (name in after.offered)}
        ahead = {
            name for name in moved if before.score(name) > before.score(own) or after.score(name) > after.score(own)
        }
        return tuple(sorted(in_or_out or ahead or moved))

    def _fallback_cause(self) -> Cause:
        """The cause where no other fits: code, else unknown."""
        if self.inputs.code:
            return _setting_cause(CauseKind.CODE, self.inputs.code)
        if not self.inputs:
            return self.nondeterminism()
        return Cause(kind=CauseKind.UNKNOWN, detail=f"cannot be told from scores; what differs: {self.inputs}")

    def cause_by_evidence(self, change: Change, *, moved: bool = False) -> Cause:
        """The cause without a replay: by edits, by the rule that keeps the item out, and by the items in front."""
        item = self.pair.head_id(change.item)
        before, after = self.pair.candidates(change.query)
        touched = item in self.pair.changed_items
        if touched and self._own_moved(before, after, item, lost=change.lost):
            return self.own_cause(change)
        if moved and self.common_cause is not None:
            return self.common_cause
        cutting = self.inputs.cutting
        row = (after if change.lost else before).rows.get(item)
        held = {} if row is None or row.rule is None else dict(row.rule.values)
        named = [one for one in cutting if one.parameter in held]
        if named:
            return self.setting_cause(named)
        if self.blockers(change)[0]:
            return self.rival_cause(change)
        if cutting:
            return self.setting_cause(cutting)
        if touched:
            return self.own_cause(change)
        if self.common_cause is not None and self.common_cause.kind != CauseKind.CODE:
            return self.common_cause
        return (
            self._catalog_cause(change)
            if self.pair.weighs_the_catalog or self._changed_candidates(change)
            else self._fallback_cause()
        )

    def _own_moved(self, before: QueryCandidates, after: QueryCandidates, item: str, *, lost: bool) -> bool:
        """Whether its score moved in the direction of the change; where one side has none, it may have."""
        rows = before.rows.get(item), after.rows.get(item)
        was, now = (None if row is None else row.score for row in rows)
        if was is None or now is None:
            return True
        return was - now > MARGIN if lost else now - was > MARGIN

    def outside_cause(self, moved: bool, change: Change) -> Cause:
        """The cause for a selector of the user, of which it is not known how it decides."""
        told = self.inputs.outside or self.inputs.settings
        answers = {one.path for one in told} <= {"answers", "sha256"}  # another file of answers says nothing of why
        still = not moved and bool(self.pair.score_moves(change.query))
        if told and not answers and not still:
            return _setting_cause(CauseKind.OUTSIDE, told)
        if self.pair.head_id(change.item) in self.pair.changed_items:
            return self.own_cause(change)
        if self.blockers(change)[0]:
            return self.rival_cause(change)
        if told:
            return _setting_cause(CauseKind.OUTSIDE, told)
        if self.inputs.catalog:
            what = "neither this item nor what came in front of it was touched, and what the selector says of itself"
            return Cause(kind=CauseKind.UNKNOWN, detail=f"{what} is the same")
        return self.nondeterminism()

    def expansion_cause(self, change: Change, via: str | None) -> Cause:
        """The cause for an item that an expansion brought in, where the item that led to it is offered as before."""
        item = self.pair.head_id(change.item)
        before, after = self.pair.candidates(change.query)
        steps = self.pair.steps[1 if change.lost else 0] or ()
        score = (before if change.lost else after).rows[item].score
        settings = [one for one in self.inputs.cutting if self._is_expansion_setting(one)]
        if settings and _expansion_excludes([one for one in steps if one.kind == "expand"], score):
            return self.setting_cause(settings)
        leader = self.pair.head_id(via or "")
        for name in (item, leader):
            if name in self.inputs.edited:
                rows = self.pair.base.items.get(name), self.pair.head.items.get(name)
                return Cause(kind=CauseKind.EDITED, subjects=(name,), detail=edit_text(*rows))
        if self.pair.scores_moved(change.query) and self.common_cause is not None:
            return self.common_cause
        here, there = (after, before) if change.lost else (before, after)
        rivals = [name for name, one in here.offered.items() if one.origin == "expansion" and name not in there.offered]
        if found := tuple(sorted(set(rivals) & self.pair.changed_items)):
            return self._crowd_cause(found, _FRONT, change)
        return self.setting_cause(settings) if settings else self.cause_by_evidence(change)

    def _is_expansion_setting(self, setting: SettingDifference) -> bool:
        return any(setting.step == one.path for steps in self.pair.steps for one in steps or () if one.kind == "expand")


def _expansion_excludes(steps: Sequence[FlatStep], score: float | None) -> bool:
    """Whether expansions with these settings bring in nothing of this similarity."""
    on = [one.values for one in steps if one.values.get("enabled", True)]
    lowest = [
        float(values.get("graph_threshold" if values.get("by") == "graph" else "threshold", -math.inf)) for values in on
    ]
    return not on or (score is not None and score < min(lowest))


def _setting_cause(kind: CauseKind, settings: Iterable[SettingDifference]) -> Cause:
    settings = list(settings)
    said = ", ".join(dict.fromkeys(map(str, settings)))
    return Cause(kind=kind, subjects=tuple(sorted({one.name for one in settings})), detail=said)


def crowd_text(subjects: Sequence[str], pair: SnapshotPair, way: str, *, lost: bool) -> str:
    """Say which items are in the way: `1 new and 2 edited items came in front`; the same text for the same subjects.

    Args:
        subjects: item ids, those of the head where an item is on both sides.
        pair: the snapshots between which they changed.
        way: how they are in the way.
        lost: whether it is of what went out.
    """
    done = [item_change(one, pair) for one in subjects]
    parts = [f"{done.count(what)} {what}" for what in _ITEM_CHANGES if what in done]
    said = " and ".join([*([", ".join(parts[:-1])] if parts[:-1] else []), *parts[-1:]])
    verb = WAYS[way][0 if lost else 1]
    together = " together" if way == _ALL and len(subjects) > 1 else ""
    return f"{said} item{'s' if len(subjects) != 1 else ''}{together} {verb}"


def item_change(item: str, pair: SnapshotPair) -> str:
    """What was done to an item, in a word: new, enabled, edited, renamed, gone or disabled."""
    base, head, inputs = pair.base, pair.head, pair.inputs
    if item in inputs.edited:
        return "edited"
    if item in pair.base_ids:
        return "renamed"
    if item in head.items and item not in inputs.gone:
        return "enabled" if item in base.disabled else "new"
    return "disabled" if item in head.disabled else "gone"


def _score_difference(before: float, after: float) -> float:
    """The difference of two scores, either of which may be minus infinity: 0 where both are."""
    return 0.0 if before == after else after - before


def _is_out_by_budget(side: QueryCandidates, item: str) -> bool:
    """Whether a budget keeps an item out."""
    row = side.rows.get(item)
    return row is not None and row.rule is not None and row.rule.code == BUDGET


def _tokens(side: QueryCandidates, name: str) -> int:
    row = side.rows.get(name)
    return 0 if row is None else row.tokens
