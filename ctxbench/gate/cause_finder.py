"""Finds causes in two snapshots: the text of the item, the items in its way, and what moved all scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from ctxbench.core.candidates import MARGIN
from ctxbench.gate.cause_texts import phrase_cause
from ctxbench.gate.flat_steps import FlatStep
from ctxbench.gate.item_edit_texts import edit_text
from ctxbench.gate.model import Cause, CauseKind
from ctxbench.gate.setting_differences import SettingDifference
from ctxbench.gate.snapshot_pair import ChangeContext, QueryCandidates, SnapshotPair
from ctxbench.gate.value_texts import first_few
from ctxbench.text.prompt_budget import BUDGET

_FRONT, _BEST, _ROOM, _AMONG = "in front", "with the best score", "with more tokens", "among the candidates"
_ALL, _CHUNKS = "in the catalog", "with more chunks"
_STOOD, _MAYBE, _CHOICE = "in front, by its ranking", "anywhere in its ranking", "in its choice"
MECHANISMS = {
    _FRONT: ("came in front", "stood in front before"),
    _BEST: ("raised the best score", "had the best score before"),
    _ROOM: ("filled the budget", "filled the budget before"),
    _AMONG: ("changed the choice", "changed the choice"),  # by diversity, or a gap
    _CHUNKS: ("took up more of the topK chunks", "took up more of the topK chunks before"),
    _ALL: ("moved the scores of others", "moved the scores of others"),  # by fusion, or how rare words are
    _STOOD: ("stood in front in its ranking", "stood in front in its ranking"),
    _MAYBE: ("may have moved the scores of others", "may have moved the scores of others"),
    _CHOICE: ("may have changed the choice", "may have changed the choice"),  # where no score moved
}
_ITEM_CHANGES = ("new", "enabled", "edited", "renamed", "gone", "disabled")  # what may have been done to an item
_MAX_NAMED = 5  # subjects that are named where the catalog as a whole is the cause
_BULK_EDIT = 10  # so many edited items, at least half of the catalog, are one edit
_UNSEEN = "something changed that ctxbench does not follow, such as data that it reads, its environment or a service"


def unseen_cause(pair: SnapshotPair) -> Cause:
    """The cause where all known inputs are the same; one that answered alike each time is deterministic."""
    why = _UNSEEN if is_steady(pair) else f"the selector is not deterministic, or {_UNSEEN}"
    return Cause(kind=CauseKind.UNKNOWN, detail=f"nothing that is under test differs: {why}")


def is_steady(pair: SnapshotPair) -> bool:
    """Whether both sides were asked repeatedly, and answered alike each time."""
    return all(side.repeats > 1 and not side.unsteady for side in (pair.base, pair.head))


class CauseFinder:
    """Makes causes for the changes of one selector on one dataset."""

    def __init__(self, pair: SnapshotPair) -> None:
        self.pair = pair
        self.inputs = pair.inputs

    @cached_property
    def common_cause(self) -> Cause | None:
        """The cause that moved the scores of unchanged items; None where the catalog did, or none is known."""
        settings = tuple(difference for difference in self.inputs.scoring if not difference.code)
        if self.inputs.embedder is not None:
            return setting_cause(settings, CauseKind.MODEL)
        if settings:
            return setting_cause(settings)
        if self.inputs.code and not (self.pair.weighs_the_catalog and self.inputs.catalog):
            return setting_cause(self.inputs.code, CauseKind.CODE)
        return None

    def own_cause(self, change: ChangeContext) -> Cause:
        """The cause where the score of the item decided, or its token count."""
        item = change.item
        old = self.pair.base_ids.get(item, item)
        if cause := self._counter_cause(change):
            return cause
        if item in self.inputs.edited:
            total, edited = len(self.pair.head.items), len(self.inputs.edited)
            if edited >= _BULK_EDIT and 2 * edited >= total:
                return Cause(kind=CauseKind.EDITED, detail=f"{edited} of {total} items edited")
            return self._edit_cause(item)
        if item != old:
            return Cause(kind=CauseKind.RENAMED, subjects=(item,), detail=f"was {old}")
        return self._catalog_cause(change)

    def _edit_cause(self, item: str) -> Cause:
        before = self.pair.base.items.get(self.pair.base_ids.get(item, item))
        detail = edit_text(before, self.pair.head.items.get(item))
        return Cause(kind=CauseKind.EDITED, subjects=(item,), detail=detail)

    def rival_cause(self, change: ChangeContext) -> Cause:
        """The cause where rivals decided: items that came in front of a lost item, or are no longer in front of it."""
        if cause := self._counter_cause(change):
            return cause
        blockers, mechanism = self.blockers(change)
        return self._crowd_cause(blockers, mechanism, change) if blockers else self._catalog_cause(change)

    def _crowd_cause(
        self, subjects: tuple[str, ...], mechanism: str, change: ChangeContext, *, named: bool = True
    ) -> Cause:
        """The cause where other items are in the way; `named` False gives only their number."""
        detail = crowd_text(subjects, self.pair, mechanism, lost=change.lost)
        kind = CauseKind.CROWDED if change.lost else CauseKind.FREED
        return Cause(kind=kind, subjects=subjects if named else (), detail=detail, mechanism=mechanism if named else "")

    def blockers(self, change: ChangeContext) -> tuple[tuple[str, ...], str]:
        """The changed items that keep an item out on the side where it is out, and how: a key of `MECHANISMS`.

        Sorted by id, that at the base for items that are gone; none where no changed item is in the way.
        """
        item, without_item, with_item = change.item, change.excluding, change.offering
        row, rule = without_item.rows.get(item), without_item.rule(item)
        by_chunks = row is not None and row.beyond_chunks
        types = () if by_chunks else self.pair.rival_types(item)
        suited = {
            name
            for name in without_item.searched
            if name in self.pair.changed_items and (not types or name.partition(":")[0] in types)
        }
        if rule is not None and rule.value("margin") is not None:
            best = max(without_item.searched, key=without_item.score, default="")
            if (
                best in suited
                and without_item.score(best) > max(map(with_item.score, with_item.searched), default=-math.inf) + MARGIN
            ):
                return (best,), _BEST
        ahead = {name for name in suited if without_item.score(name) >= without_item.score(item)}
        if _is_out_by_budget(without_item, item):
            heavier = {
                name
                for name in ahead
                if name in without_item.offered and _tokens(without_item, name) > _tokens(with_item, name)
            }
            if heavier:
                return tuple(sorted(heavier)), _ROOM
        if overtaking := {name for name in ahead if with_item.score(name) < with_item.score(item)}:
            return tuple(sorted(overtaking)), _FRONT
        if ahead and by_chunks:  # in front on both sides, by other texts
            return tuple(sorted(ahead)), _CHUNKS
        return tuple(
            sorted(name for name in suited & set(without_item.offered) if name not in with_item.offered)
        ), _FRONT

    def _counter_cause(self, change: ChangeContext) -> Cause | None:
        """The token counter as the cause, where it changed and a budget keeps the item out; else None."""
        if self.inputs.tokens is None or not _is_out_by_budget(change.excluding, change.item):
            return None
        return setting_cause([self.inputs.tokens])

    def _catalog_cause(self, change: ChangeContext) -> Cause:
        """The cause where a choice depends on all candidates, or scores on the whole catalog (BM25, fusion).

        Scores do not show which of several changed items moved the scores of the rest: they are one cause.
        """
        if not self.inputs.catalog:
            return self._fallback_cause()
        if not self.pair.weighs_the_catalog and (candidates := self._changed_candidates(change)):
            return self._crowd_cause(candidates, _AMONG, change)
        changed = tuple(sorted(self.pair.changed_items))
        return self._crowd_cause(changed, _ALL, change, named=len(changed) <= _MAX_NAMED)

    def _changed_candidates(self, change: ChangeContext) -> tuple[str, ...]:
        """The changed items among the candidates: those that went in or out, else those in front, else all."""
        before, after, item = change.base, change.head, change.item
        candidates = self.pair.changed_items & {*before.searched, *after.searched} - {item}
        # the difference is no number where neither side has the item
        moved = {name for name in candidates if abs(after.score(name) - before.score(name)) > MARGIN}
        in_or_out = {name for name in moved if (name in before.offered) != (name in after.offered)}
        ahead = {
            name for name in moved if before.score(name) > before.score(item) or after.score(name) > after.score(item)
        }
        return tuple(sorted(in_or_out or ahead or moved))

    def _fallback_cause(self) -> Cause:
        """The cause where no other fits: code, else unknown."""
        if self.inputs.code:
            return setting_cause(self.inputs.code, CauseKind.CODE)
        if not self.inputs:
            return unseen_cause(self.pair)
        return Cause(kind=CauseKind.UNKNOWN, detail=f"cannot be told from scores; what differs: {self.inputs}")

    def cause_by_evidence(self, change: ChangeContext, *, moved: bool = False) -> Cause:
        """The cause without a replay: by edits, by the rule that keeps the item out, and by the items in front."""
        touched = change.item in self.pair.changed_items
        if touched and self._own_moved(change):
            return self.own_cause(change)
        if moved and self.common_cause is not None:
            return self.common_cause
        cutting = self.inputs.cutting
        rule = change.excluding.rule(change.item)
        named = (
            [] if rule is None else [difference for difference in cutting if difference.parameter in dict(rule.values)]
        )
        if named:
            return setting_cause(named)
        if self.blockers(change)[0]:
            return self.rival_cause(change)
        if cutting:
            return setting_cause(cutting)
        if touched:
            return self.own_cause(change)
        if self.common_cause is not None and self.common_cause.kind != CauseKind.CODE:
            return self.common_cause
        return (
            self._catalog_cause(change)
            if self.pair.weighs_the_catalog or self._changed_candidates(change)
            else self._fallback_cause()
        )

    def _own_moved(self, change: ChangeContext) -> bool:
        """Whether its score moved in the direction of the change; where one side has none, it may have."""
        rows = change.base.rows.get(change.item), change.head.rows.get(change.item)
        was, current = (None if row is None else row.score for row in rows)
        if was is None or current is None:
            return True
        return was - current > MARGIN if change.lost else current - was > MARGIN

    def outside_cause(self, moved: bool, change: ChangeContext) -> Cause:
        """The cause for an external selector, of which it is not known how it decides."""
        differences = self.inputs.outside or self.inputs.settings
        direct, adjacent = (
            [difference for difference in differences if difference.adjacent is lies] for lies in (False, True)
        )
        answers = {difference.path for difference in differences} <= {
            "answers",
            "sha256",
        }  # another file of answers says nothing of why
        unmoved = not moved and bool(self.pair.score_moves(change.query))
        touched = change.item in self.pair.changed_items
        by_items = touched or bool(self.blockers(change)[0])
        if differences and not by_items and (answers or not self.inputs.catalog):
            return setting_cause(differences, CauseKind.OUTSIDE)
        ours = () if answers or not direct else (setting_cause(direct, CauseKind.OUTSIDE),)
        if not ours or touched or (by_items and unmoved):
            result = self._items_cause(change)
            either = "".join(phrase_cause(cause, cause.detail) for cause in ours)
        else:
            (result,), either = ours, self._items_text()
        return replace(
            result, either=either, also=", ".join(str(difference) for difference in adjacent if difference.files)
        )

    def _items_cause(self, change: ChangeContext) -> Cause:
        """The cause for an external selector by changes of items alone."""
        if change.item in self.pair.changed_items:
            return self.own_cause(change)
        if self.blockers(change)[0]:
            return self.rival_cause(change)
        return self._own_choice_cause(change) if self.inputs.catalog else unseen_cause(self.pair)

    def _items_text(self) -> str:
        """Changes of items as a cause that is as likely as an edit of the selector; empty where there are none.

        It is the same for all changes, so that all changes by the edit of the selector are one group.
        """
        changed = tuple(sorted(self.pair.changed_items))
        if not changed:
            return ""
        return f"{crowd_text(changed, self.pair, _MAYBE, lost=True)} ({first_few(changed)})"

    def _own_choice_cause(self, change: ChangeContext) -> Cause:
        """The cause where an external selector chose otherwise over a changed catalog, without giving a reason.

        What is known is which changed items stood in front in its own ranking, before or now; else only that such
        items may move the scores of others, as they do where rare words count for more.
        """
        ahead = {
            name
            for side in (change.base, change.head)
            for name in side.searched
            if name in self.pair.changed_items and side.score(name) >= side.score(change.item) > -math.inf
        }
        subjects = tuple(sorted(ahead or self.pair.changed_items))
        unmoved = self.pair.score_moves(change.query) and not self.pair.scores_moved(change.query)
        mechanism = _STOOD if ahead else _CHOICE if unmoved else _MAYBE
        text = crowd_text(subjects, self.pair, mechanism, lost=change.lost)
        named = subjects if ahead or len(subjects) <= _MAX_NAMED else ()
        return Cause(kind=CauseKind.UNKNOWN, subjects=named, detail=f"{text}; only your selector knows why")

    def expansion_cause(self, change: ChangeContext, via: str | None) -> Cause:
        """The cause for an expanded item, where the item that led to it is offered as before."""
        steps = self.pair.steps[1 if change.lost else 0] or ()
        score = change.offering.rows[change.item].score
        expanding = {step.path for side in self.pair.steps for step in side or () if step.kind == "expand"}
        settings = [difference for difference in self.inputs.cutting if difference.step in expanding]
        if settings and _expansion_excludes([step for step in steps if step.kind == "expand"], score):
            return setting_cause(settings)
        for name in (change.item, self.pair.head_id(via or "")):
            if name in self.inputs.edited:
                return self._edit_cause(name)
        if self.pair.scores_moved(change.query) and self.common_cause is not None:
            return self.common_cause
        came = {name for name, candidate in change.excluding.offered.items() if candidate.origin == "expansion"}
        if expanded := tuple(sorted((came - change.offering.offered.keys()) & self.pair.changed_items)):
            return self._crowd_cause(expanded, _FRONT, change)
        return setting_cause(settings) if settings else self.cause_by_evidence(change)


def _expansion_excludes(steps: Sequence[FlatStep], score: float | None) -> bool:
    """Whether expansions with these settings add nothing of this similarity."""
    on = [step.values for step in steps if step.values.get("enabled", True)]
    lowest = [
        float(values.get("graph_threshold" if values.get("by") == "graph" else "threshold", -math.inf)) for values in on
    ]
    return not on or (score is not None and score < min(lowest))


def setting_cause(settings: Sequence[SettingDifference], kind: CauseKind = CauseKind.PARAMETER) -> Cause:
    """The cause where settings differ: parameters, a model, or code.

    Files that are only in the folder of a command (`adjacent`) are its subjects where nothing else is.
    """
    detail = ", ".join(dict.fromkeys(map(str, settings)))
    likely = [difference for difference in settings if not difference.adjacent] or settings
    return Cause(kind=kind, subjects=tuple(sorted({difference.name for difference in likely})), detail=detail)


def crowd_text(subjects: Sequence[str], pair: SnapshotPair, mechanism: str, *, lost: bool) -> str:
    """Which items are in the way: `1 new and 2 edited items came in front`; the same text for the same subjects.

    Args:
        subjects: item ids, those of the head where an item is on both sides.
        pair: the snapshots between which they changed.
        mechanism: a key of `MECHANISMS`.
        lost: whether the change is a loss.
    """
    done = [item_change(name, pair) for name in subjects]
    parts = [f"{done.count(change)} {change}" for change in _ITEM_CHANGES if change in done]
    text = " and ".join([*([", ".join(parts[:-1])] if parts[:-1] else []), *parts[-1:]])
    verb = MECHANISMS[mechanism][0 if lost else 1]
    together = " together" if mechanism == _ALL and len(subjects) > 1 else ""
    return f"{text} item{'s' if len(subjects) != 1 else ''}{together} {verb}"


def item_change(item: str, pair: SnapshotPair) -> str:
    """The change of an item, in a word: new, enabled, edited, renamed, gone or disabled."""
    base, head, inputs = pair.base, pair.head, pair.inputs
    if item in inputs.edited:
        return "edited"
    if item in pair.base_ids:
        return "renamed"
    if item in head.items and item not in inputs.gone:
        return "enabled" if item in base.disabled else "new"
    return "disabled" if item in head.disabled else "gone"


def _is_out_by_budget(side: QueryCandidates, item: str) -> bool:
    """Whether a budget keeps an item out."""
    rule = side.rule(item)
    return rule is not None and rule.code == BUDGET


def _tokens(side: QueryCandidates, name: str) -> int:
    row = side.rows.get(name)
    return 0 if row is None else row.tokens
