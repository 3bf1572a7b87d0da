"""Candidates and scores of a query in both snapshots, and causes found from them.

Token counts of an edited item are part of a score if the selector has the step `price`, and of a budget.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ctxbench.catalogs.agent_file import AgentFile, read_agent
from ctxbench.gate.baseline_rows import rounded
from ctxbench.gate.comparability import items_of
from ctxbench.gate.inputs import (
    Candidate,
    InputDifferences,
    ReplayCase,
    SettingDifference,
    can_replay,
    deciding_cut,
    edit_text,
    replay_cuts,
    with_changes,
)
from ctxbench.gate.results import Cause, CauseKind, Change, phrase_cause
from ctxbench.gate.snapshots import AnswerFact, FlatStep, SelectorSnapshot, first_few, flat_steps, has_all_candidates
from ctxbench.io.errors import Message, UserError
from ctxbench.io.git import Repository
from ctxbench.model.candidates import MARGIN, Rule
from ctxbench.model.items import ITEM_TYPES
from ctxbench.model.selection import Offered
from ctxbench.search.tokens import BUDGET


@dataclass(frozen=True, eq=False)
class QueryCandidates:
    """The candidates of a query on one side: at the base, or at the head.

    Attributes:
        rows: all that are known, by the id at the head. Where the selector gave no scores, the scores here are made up
            of its order.
        offered: those that were offered, by the id at the head.
        complete: whether all candidates are known; a baseline keeps the nearest `NEAR` of those that stayed out.
    """

    rows: Mapping[str, Candidate]
    offered: Mapping[str, Offered]
    complete: bool

    @cached_property
    def lowest_score(self) -> float:
        """The lowest known score of what the search found; a candidate that is not known has this score or less."""
        return min((row.score for row in self.searched.values() if row.score is not None), default=math.inf)

    @cached_property
    def searched(self) -> Mapping[str, Candidate]:
        """What the search found, by id."""
        return {name: row for name, row in self.rows.items() if row.origin == "search" and row.score is not None}

    @cached_property
    def bar(self) -> float:
        """The best score among the candidates that have no chunk among the best chunk matches."""
        beyond = [name for name, row in self.searched.items() if row.beyond_chunks]
        return max(map(self.score, beyond), default=-math.inf)

    def rule(self, name: str) -> Rule | None:
        """The rule that keeps an item out; None where it is offered, or no candidate."""
        row = self.rows.get(name)
        return None if row is None else row.rule

    def score(self, name: str) -> float:
        """The score of an item that the search found; minus infinity if the search is not known to have found it."""
        row = self.searched.get(name)
        return -math.inf if row is None or row.score is None else row.score


@dataclass(frozen=True, eq=False)
class ChangeContext:
    """A change with the candidates of its query on both sides.

    Attributes:
        query: id of the query.
        lost: whether the item went out; else it came in.
        item: the id of the item at the head; the id at the base if it is gone.
        base, head: the candidates.
    """

    query: str
    lost: bool
    item: str
    base: QueryCandidates
    head: QueryCandidates

    @property
    def offering(self) -> QueryCandidates:
        """The side on which the item is offered."""
        return self.base if self.lost else self.head

    @property
    def excluding(self) -> QueryCandidates:
        """The side on which it is out."""
        return self.head if self.lost else self.base


class SnapshotPair:
    """Two snapshots of one selector on one dataset, to explain what they offer differently.

    Attributes:
        base, head: the snapshots.
        inputs: what differs in items, parameters, model and code.
        renamed: the id at the head by the id at the base, of items that were renamed.
        base_ids: the reverse.
        changed_items: ids at the head of all items that are edited, new or renamed, and ids of those that are gone.
    """

    def __init__(self, base: SelectorSnapshot, head: SelectorSnapshot, inputs: InputDifferences) -> None:
        self.base, self.head, self.inputs = base, head, inputs
        self.renamed = inputs.renamed
        self.base_ids = {new: old for old, new in self.renamed.items()}
        gone = [name for name in base.items if name not in head.items]
        self._positions = {name: position for position, name in enumerate([*head.items, *gone])}
        self.changed_items = {*inputs.edited, *inputs.new, *self.renamed.values(), *inputs.gone}
        self._candidates: dict[str, tuple[QueryCandidates, QueryCandidates]] = {}
        self._moves: dict[str, Mapping[str, float]] = {}

    @cached_property
    def successors(self) -> dict[str, str]:
        """The likely new ids of items that are gone, old to new; each new item is used once."""
        gone = items_of(self.base.items[name] for name in self.inputs.gone if name not in self.head.disabled)
        new = items_of(self.head.items[name] for name in self.inputs.new)
        from ctxbench.labelling.rebase import likely_successors  # takes 20 ms, and an unchanged check does not need it

        return {successor.old.id: successor.new.id for successor in likely_successors(gone, new)}

    @cached_property
    def steps(self) -> tuple[tuple[FlatStep, ...] | None, tuple[FlatStep, ...] | None]:
        """The steps of the selector at the base and at the head; None for one that is no pipeline of ctxbench."""
        return flat_steps(self.base.identity.selector), flat_steps(self.head.identity.selector)

    @cached_property
    def accepted_files(self) -> tuple[AgentFile, Path, str, Collection[str]] | None:
        """What git has of the files at the last commit that changed the baseline; None where there is none.

        The agent of the dataset, the root of the repository, the commit, and the paths of its files from the root.
        """
        if (agent := None if self.head.judged is None else self.head.judged.about.get("agent")) is None:
            return None
        baseline = Path(self.base.source)
        try:
            repository = Repository.around(baseline)
            commits = [] if repository is None else repository.commits(baseline, limit=1)
            if repository is None or not commits:
                return None
            return (
                read_agent(Path(agent)),
                repository.root,
                commits[0].short,
                repository.files(commits[0], repository.root),
            )
        except UserError:
            return None

    @cached_property
    def query_places(self) -> Mapping[str, int]:
        """The position of every query in the order of the head."""
        return {query: position for position, query in enumerate(self.head.queries)}

    @cached_property
    def weighs_the_catalog(self) -> bool:
        """Whether an item's score depends on what else is in the catalog, so that scores are no similarities."""
        return any(
            step.kind == "rank" or (step.kind == "retrieve" and not step.built.declared("independent"))
            for step in self.steps[1] or ()
        )

    def head_id(self, item: str) -> str:
        """The id at the head of an item of either side; the id at the base if the item is gone."""
        return item if item in self.head.items else self.renamed.get(item, item)

    def candidates(self, query: str) -> tuple[QueryCandidates, QueryCandidates]:
        """The candidates of a query at the base and at the head."""
        if query not in self._candidates:
            self._candidates[query] = (
                self._query_candidates(self.base, query),
                self._query_candidates(self.head, query),
            )
        return self._candidates[query]

    def context(self, change: Change) -> ChangeContext:
        """A change with the candidates of its query."""
        return ChangeContext(change.query, change.lost, self.head_id(change.item), *self.candidates(change.query))

    def _query_candidates(self, snapshot: SelectorSnapshot, query: str) -> QueryCandidates:
        rows = {}
        answer = snapshot.answers[query]
        orders = _order_scores(answer)
        for candidate in (*answer.offered, *answer.near):
            name = self.head_id(candidate.id)
            fact = snapshot.items.get(candidate.id)
            rows[name] = Candidate(
                id=name,
                position=self._positions.get(name, len(self._positions)),
                score=orders.get(candidate.id, rounded(candidate.score)),  # as a baseline has it
                origin=candidate.origin,
                chunk=-1 if candidate.pair is None else candidate.pair.query_chunk,
                tokens=0 if fact is None else fact.tokens,
                rule=candidate.rule,
            )
        return QueryCandidates(
            rows=rows,
            offered={self.head_id(candidate.id): candidate for candidate in answer.offered},
            complete=has_all_candidates(snapshot.answers, query),
        )

    def score_moves(self, query: str) -> Mapping[str, float]:
        """How far the scores of unchanged items moved, by id; of items whose score is known on both sides."""
        if query not in self._moves:
            before, after = self.candidates(query)
            shared = [name for name in after.searched if name in before.searched and name not in self.changed_items]
            self._moves[query] = {name: after.score(name) - before.score(name) for name in shared}
        return self._moves[query]

    def scores_moved(self, query: str) -> bool:
        """Whether scores of unchanged items moved in a query; where none is known, whether any did in another query."""
        moves = self.score_moves(query)
        return any(abs(move) > MARGIN for move in moves.values()) if moves else self.moved_anywhere

    @cached_property
    def moved_anywhere(self) -> bool:
        """Whether the score of an unchanged item moved in any query."""
        shared = [query for query in self.head.answers if query in self.base.answers]
        return any(abs(move) > MARGIN for query in shared for move in self.score_moves(query).values())

    def expected_score(self, query: str, score: float) -> float:
        """What a score of the base would be at the head if it had moved as those of unchanged items did.

        By quantiles: the k-th best of those scores becomes the k-th best. Between them a line, beyond them the line
        through the ends; where fewer than two are known, the score stays as it was.
        """
        sides, shared = self.candidates(query), list(self.score_moves(query))
        if len(shared) < 2:
            return score
        before, after = (sorted(map(side.score, shared)) for side in sides)
        low, high = before[0], before[-1]
        if low < score < high:
            return float(np.interp(score, before, after))
        slope = (after[-1] - after[0]) / (high - low) if high > low else 1.0
        end = 0 if score <= low else -1
        return after[end] + slope * (score - before[end])

    def largest_deviation(self, query: str) -> float:
        """The largest distance of an unchanged item's score from its `expected_score`; 0 where none is known."""
        before, after = self.candidates(query)
        missed = [
            abs(after.score(name) - self.expected_score(query, before.score(name))) for name in self.score_moves(query)
        ]
        return max(missed, default=0.0)

    def rival_types(self, item: str) -> tuple[str, ...]:
        """The item types that compete with an item in a cut: those of its domain."""
        kind = item.partition(":")[0]
        steps = [
            step for step in self.steps[1] or () if not step.scores and step.kind != "expand" and kind in step.types
        ]
        return min((step.types for step in steps), key=len, default=ITEM_TYPES)


def _order_scores(answer: AnswerFact) -> Mapping[str, float]:
    """Scores -1, -2, ... by id for the order of a selector without scores; empty for one that has scores."""
    candidates = [candidate for candidate in (*answer.offered, *answer.near) if candidate.origin == "search"]
    if any(candidate.score is not None for candidate in candidates):
        return {}
    return {candidate.id: -float(position) for position, candidate in enumerate(candidates, start=1)}


class GrownPrice(NamedTuple):
    """The token count that excludes an edited item.

    Attributes:
        before, after: prompt tokens.
        enough: whether the item would be offered with its old token count.
    """

    before: int
    after: int
    enough: bool


def grown_price(change: ChangeContext, pair: SnapshotPair) -> GrownPrice | None:
    """The token count of an edited item if it excludes the item: with the old count it would be offered.

    With its old score it must be excluded at the new count. None if the count did not grow, if the cuts cannot be
    replayed, and for external selectors.
    """
    before, after = pair.base.items.get(pair.base_ids.get(change.item, change.item)), pair.head.items.get(change.item)
    head_row, base_row = change.head.rows.get(change.item), change.base.rows.get(change.item)
    if before is None or after is None or after.tokens <= before.tokens or pair.head.identity.external:
        return None
    steps = pair.steps[1] or ()
    enough = head_row is not None and is_kept(_at_price(head_row, before.tokens, change, steps), change, steps)
    fits = base_row is not None and is_kept(_at_price(base_row, before.tokens, change, steps), change, steps)
    alone = fits and not is_found_again(change, pair)
    return GrownPrice(before.tokens, after.tokens, enough) if enough or alone else None


def is_found_again(change: ChangeContext, pair: SnapshotPair) -> bool:
    """Whether an edited item would be offered with its old score and its new token count.

    False if its old score is not known, and if the cuts cannot be replayed.
    """
    row, after = change.base.rows.get(change.item), pair.head.items.get(change.item)
    steps = pair.steps[1] or ()
    return row is not None and after is not None and is_kept(_at_price(row, after.tokens, change, steps), change, steps)


def _at_price(row: Candidate, tokens: int, change: ChangeContext, steps: Sequence[FlatStep]) -> Candidate:
    """The item of a change as this candidate, with these tokens and its score at them among its rivals at the head."""
    if row.score is None:
        return replace(row, tokens=tokens)
    score = row.score
    for step in steps:
        if step.kind == "rank" and row.type in step.types:
            rivals = [
                (rival.score, rival.tokens)
                for name, rival in change.head.rows.items()
                if name != change.item and rival.score is not None and rival.type in step.types
            ]
            score = step.built.declared("score_at")(score, row.tokens, tokens, rivals)
    return replace(row, tokens=tokens, score=score)


def is_kept(
    candidate: Candidate | None,
    change: ChangeContext,
    steps: Sequence[FlatStep],
    changed: Sequence[tuple[str, str, Any]] = (),
) -> bool:
    """Whether the cuts of the head keep the item of a change as this candidate; False where they cannot be replayed.

    Args:
        candidate: the item; None where it is none.
        change: the change, with the item's rivals at the head.
        steps: of the head.
        changed: parameters of them to change, as in `Fix`.
    """
    rivals = [row for name, row in change.head.rows.items() if name != change.item]
    case = ReplayCase(candidate=candidate, rivals=rivals, bar=change.head.bar)
    return can_replay(steps) and replay_cuts(with_changes(steps, changed), [case])[0]


# How items exclude another or make room for it: the message for a lost item, and for a gained one.
_FRONT = ("causes.items-above", "causes.items-no-longer-above")
_BEST = ("causes.best-score-raised", "causes.best-score-lowered")
_ROOM = ("causes.budget-filled", "causes.budget-freed")
_AMONG = ("causes.choice-changed",) * 2  # by diversity, or a gap
_ALL = ("causes.scores-changed",) * 2  # by fusion, or how rare words are
_STOOD = ("causes.external-items-above",) * 2
_MAYBE = ("causes.external-scores-changed",) * 2
_CHOICE = ("causes.external-choice-changed",) * 2  # where no score moved
_SETTINGS = {
    CauseKind.PARAMETER: "causes.parameter-changed",
    CauseKind.MODEL: "causes.model-changed",
    CauseKind.CODE: "causes.code-changed",
    CauseKind.EXTERNAL: "causes.external-selector-changed",
}
_ITEM_CHANGES = ("new", "enabled", "edited", "renamed", "gone", "disabled")
_MAX_NAMED_SUBJECTS = 5  # subjects that are named where the catalog as a whole is the cause
_BULK_EDIT = 10  # so many edited items, at least half of the catalog, are one edit


def unseen_cause(pair: SnapshotPair) -> Cause:
    """The cause where all recorded inputs are the same; with agreeing repeats the selector is deterministic."""
    detail = Message("causes.unrecorded-input" if is_steady(pair) else "causes.unrecorded-input-or-nondeterministic")
    return Cause(kind=CauseKind.UNKNOWN, detail=detail)


def is_steady(pair: SnapshotPair) -> bool:
    """Whether both sides have repeats, and all repeats agree."""
    return all(side.repeats > 1 and not side.nondeterministic for side in (pair.base, pair.head))


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
            return (
                Cause(kind=CauseKind.EDITED, detail=Message("causes.many-items-edited", edited=edited, total=total))
                if edited >= _BULK_EDIT and 2 * edited >= total
                else self._edit_cause(item)
            )
        if item != old:
            return Cause(kind=CauseKind.RENAMED, subjects=(item,), detail=Message("causes.item-renamed", old=old))
        return self._catalog_cause(change)

    def _edit_cause(self, item: str) -> Cause:
        before = self.pair.base.items.get(self.pair.base_ids.get(item, item))
        return Cause(kind=CauseKind.EDITED, subjects=(item,), detail=edit_text(before, self.pair.head.items.get(item)))

    def rival_cause(self, change: ChangeContext) -> Cause:
        """The cause where rivals decided: items that came in front of a lost item, or are no longer in front of it."""
        if cause := self._counter_cause(change):
            return cause
        blockers, keys = self.blockers(change)
        return self._crowd_cause(blockers, keys, change) if blockers else self._catalog_cause(change)

    def _crowd_cause(
        self, subjects: tuple[str, ...], keys: tuple[str, str], change: ChangeContext, *, named: bool = True
    ) -> Cause:
        """The cause where other items are in the way; `named` False gives only their number."""
        return Cause(
            kind=CauseKind.CROWDED if change.lost else CauseKind.FREED,
            subjects=subjects if named else (),
            detail=self._crowd_message(subjects, keys, change),
        )

    def _crowd_message(self, subjects: Sequence[str], keys: tuple[str, str], change: ChangeContext) -> Message:
        return Message(keys[0 if change.lost else 1], items=item_changes_text(subjects, self.pair))

    def blockers(self, change: ChangeContext) -> tuple[tuple[str, ...], tuple[str, str]]:
        """The changed items that exclude an item on the side where it is out, and the messages that say how.

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
        cut = None if row is None else deciding_cut(self.pair.steps[1 if change.lost else 0] or (), row)
        if rule is not None and cut is not None and rule.code in cut.built.declared("relative_rules"):
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
            return tuple(sorted(ahead)), ("causes.chunks-filled", "causes.chunks-freed")
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
        return self._crowd_cause(changed, _ALL, change, named=len(changed) <= _MAX_NAMED_SUBJECTS)

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
        return Cause(kind=CauseKind.UNKNOWN, detail=Message("causes.several-changes", changes=str(self.inputs)))

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
        return was is None or current is None or (was - current if change.lost else current - was) > MARGIN

    def external_cause(self, moved: bool, change: ChangeContext) -> Cause:
        """The cause for an external selector, whose decisions cannot be replayed."""
        differences = self.inputs.external or self.inputs.settings
        direct, adjacent = (
            [difference for difference in differences if difference.adjacent is lies] for lies in (False, True)
        )
        answers = {difference.path for difference in differences} <= {
            "answers",
            "sha256",
        }  # another file of answers does not explain a change
        unmoved = not moved and bool(self.pair.score_moves(change.query))
        touched = change.item in self.pair.changed_items
        by_items = touched or bool(self.blockers(change)[0])
        if differences and not by_items and (answers or not self.inputs.catalog):
            return setting_cause(differences, CauseKind.EXTERNAL)
        ours = () if answers or not direct else (setting_cause(direct, CauseKind.EXTERNAL),)
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
        items = item_changes_text(changed, self.pair)
        return Message("causes.items-may-change-scores", items=items, names=first_few(changed)) if changed else ""

    def _own_choice_cause(self, change: ChangeContext) -> Cause:
        """The cause where an external selector chose other items from a changed catalog, without giving a reason.

        Known is which changed items it ranked above the item, before or now; else only that changed items may change
        the scores of others, as where rare words count for more.
        """
        ahead = {
            name
            for side in (change.base, change.head)
            for name in side.searched
            if name in self.pair.changed_items and side.score(name) >= side.score(change.item) > -math.inf
        }
        subjects = tuple(sorted(ahead or self.pair.changed_items))
        unmoved = self.pair.score_moves(change.query) and not self.pair.scores_moved(change.query)
        return Cause(
            kind=CauseKind.UNKNOWN,
            subjects=subjects if ahead or len(subjects) <= _MAX_NAMED_SUBJECTS else (),
            detail=self._crowd_message(subjects, _STOOD if ahead else _CHOICE if unmoved else _MAYBE, change),
        )

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
    thresholds = [
        min(step.built.declared("thresholds").get("expansion", {}).values(), default=-math.inf)
        for step in steps
        if not step.built.off
    ]
    return not thresholds or (score is not None and score < min(thresholds))


def setting_cause(settings: Sequence[SettingDifference], kind: CauseKind = CauseKind.PARAMETER) -> Cause:
    """The cause where settings differ: parameters, a model, or code.

    Files that are only in the folder of a command (`adjacent`) are its subjects if no other file differs.
    """
    likely = [difference for difference in settings if not difference.adjacent] or settings
    return Cause(
        kind=kind,
        subjects=tuple(sorted({difference.name for difference in likely})),
        detail=Message(_SETTINGS[kind], changes=", ".join(dict.fromkeys(map(str, settings)))),
    )


def item_changes_text(items: Sequence[str], pair: SnapshotPair) -> str:
    """The changes of some items: `2 new, 1 edited and 1 renamed items`."""
    changes = [item_change(name, pair) for name in items]
    parts = [f"{changes.count(change)} {change}" for change in _ITEM_CHANGES if change in changes]
    text = " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
    return f"{text} item{'s' if len(items) != 1 else ''}"


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
