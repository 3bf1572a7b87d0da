"""Both sides of a query as far as snapshots know them: candidates by their id at the head, and how scores moved."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ctxbench.core.candidates import MARGIN
from ctxbench.core.items import ITEM_TYPES
from ctxbench.core.selection import Offered
from ctxbench.gate.baseline_rows import rounded
from ctxbench.gate.flat_steps import FlatStep, flat_steps
from ctxbench.gate.input_differences import InputDifferences
from ctxbench.gate.replay import Candidate
from ctxbench.gate.snapshots import NEAR, AnswerFact, Snapshot
from ctxbench.gate.table_answers import TableAnswers

_INDEPENDENT = (
    "dense",
    "servers",
    "everything",
    "random",
)  # retrievers that score an item whatever else is in the catalog


@dataclass(frozen=True, eq=False)
class QueryCandidates:
    """The candidates of a query on one side.

    Attributes:
        rows: by the id at the head; where the selector gave no scores, those here only order them.
        offered: those that were offered, likewise.
        whole: whether all candidates are known; a baseline keeps the nearest `NEAR` of those that stayed out.
    """

    rows: Mapping[str, Candidate]
    offered: Mapping[str, Offered]
    whole: bool

    @cached_property
    def floor(self) -> float:
        """The lowest score that is known of what the search found; what is not known has this or less."""
        return min((row.score for row in self.found.values() if row.score is not None), default=math.inf)

    @cached_property
    def found(self) -> Mapping[str, Candidate]:
        """What the search found, by id."""
        return {name: row for name, row in self.rows.items() if row.origin == "search" and row.score is not None}

    @cached_property
    def bar(self) -> float:
        """The best score of what has no chunk among the best topK."""
        beyond = [name for name, row in self.found.items() if row.beyond_chunks]
        return max(map(self.score, beyond), default=-math.inf)

    def score(self, name: str) -> float:
        """Of an item that the search found; minus infinity if it is not known to have."""
        row = self.found.get(name)
        return -math.inf if row is None or row.score is None else row.score


class SnapshotPair:
    """Two snapshots, what was altered, and their queries side by side.

    Attributes:
        base, head: before and after.
        altered: what differs of items, parameters, model, code.
        steps: of both selectors, where they are pipelines of ctxbench.
    """

    def __init__(self, base: Snapshot, head: Snapshot, altered: InputDifferences) -> None:
        self.base, self.head, self.altered = base, head, altered
        self.renamed = altered.renamed
        self.old_name = {new: old for old, new in self.renamed.items()}
        gone = [name for name in base.items if name not in head.items]
        self._place = {name: place for place, name in enumerate([*head.items, *gone])}
        self.changed = {*altered.edited, *altered.new, *self.renamed.values(), *altered.gone}
        self._sides: dict[str, tuple[QueryCandidates, QueryCandidates]] = {}
        self._moves: dict[str, Mapping[str, float]] = {}

    @cached_property
    def steps(self) -> tuple[tuple[FlatStep, ...] | None, tuple[FlatStep, ...] | None]:
        """The steps of both selectors."""
        return flat_steps(self.base.identity.selector), flat_steps(self.head.identity.selector)

    @cached_property
    def weighs_the_catalog(self) -> bool:
        """Whether an item's score depends on what else is in the catalog; such scores are no similarities."""
        steps = self.steps[1] or ()
        return any(one.kind == "rank" or (one.kind == "retrieve" and one.name not in _INDEPENDENT) for one in steps)

    def name(self, item: str) -> str:
        """An id of either side as the id at the head; of an item that is gone, as it was."""
        return item if item in self.head.items else self.renamed.get(item, item)

    def sides(self, query: str) -> tuple[QueryCandidates, QueryCandidates]:
        """A query at the base and at the head."""
        if query not in self._sides:
            self._sides[query] = (
                self._side(self.base, self.base.answers[query], whole=_all_known(self.base, query)),
                self._side(self.head, self.head.answers[query], whole=_all_known(self.head, query)),
            )
        return self._sides[query]

    def _side(self, snapshot: Snapshot, answer: AnswerFact, *, whole: bool) -> QueryCandidates:
        rows = {}
        orders = _order_scores(answer)
        for one in (*answer.offered, *answer.near):
            name = self.name(one.id)
            fact = snapshot.items.get(one.id)
            rows[name] = Candidate(
                id=name,
                place=self._place.get(name, len(self._place)),
                score=orders.get(one.id, rounded(one.score)),  # as a baseline has it
                origin=one.origin,
                chunk=-1 if one.pair is None else one.pair.query_chunk,
                tokens=0 if fact is None else fact.tokens,
                rule=one.rule,
            )
        return QueryCandidates(rows=rows, offered={self.name(one.id): one for one in answer.offered}, whole=whole)

    def moves(self, query: str) -> Mapping[str, float]:
        """By how much the scores of items moved that nobody has touched; of those known on both sides."""
        if query not in self._moves:
            before, after = self.sides(query)
            both = [name for name in after.found if name in before.found and name not in self.changed]
            self._moves[query] = {name: after.score(name) - before.score(name) for name in both}
        return self._moves[query]

    def moved(self, query: str) -> bool:
        """Whether scores of items moved that nobody has touched; where none is known, whether any did elsewhere."""
        moves = self.moves(query)
        return any(abs(one) > MARGIN for one in moves.values()) if moves else self.moved_anywhere

    @cached_property
    def moved_anywhere(self) -> bool:
        """Whether the score of an item that nobody has touched moved in any query."""
        both = [query for query in self.head.answers if query in self.base.answers]
        return any(abs(one) > MARGIN for query in both for one in self.moves(query).values())

    def carried(self, query: str, score: float) -> float:
        """What a score of the base would be at the head, had it moved as those did that nobody has touched.

        By quantiles: the k-th best of those becomes the k-th best. Between them a line, beyond them the line through
        the ends; where fewer than two are known, as it was.
        """
        pair = self._quantiles(query)
        if pair is None:
            return score
        before, after = pair
        low, high = before[0], before[-1]
        if low < score < high:
            return float(np.interp(score, before, after))
        slope = (after[-1] - after[0]) / (high - low) if high > low else 1.0
        end = 0 if score <= low else -1
        return after[end] + slope * (score - before[end])

    def _quantiles(self, query: str) -> tuple[list[float], list[float]] | None:
        before, after = self.sides(query)
        both = list(self.moves(query))
        if len(both) < 2:
            return None
        return sorted(map(before.score, both)), sorted(map(after.score, both))

    def furthest(self, query: str) -> float:
        """The most by which one that nobody has touched ends elsewhere than `carried` says; 0 where none is known."""
        before, after = self.sides(query)
        missed = [abs(after.score(one) - self.carried(query, before.score(one))) for one in self.moves(query)]
        return max(missed, default=0.0)

    def rivals(self, item: str) -> tuple[str, ...]:
        """The item types that a cut weighs against an item: those of its domain."""
        kind = item.partition(":")[0]
        steps = [one for one in self.steps[1] or () if not one.scores and one.kind != "expand" and kind in one.types]
        return min((one.types for one in steps), key=len, default=ITEM_TYPES)


def _order_scores(answer: AnswerFact) -> Mapping[str, float]:
    """Of a selector that gives no scores, -1, -2, ... by id: whoever has a higher one stands in front."""
    found = [one for one in (*answer.offered, *answer.near) if one.origin == "search"]
    if any(one.score is not None for one in found):
        return {}
    return {one.id: -float(place) for place, one in enumerate(found, start=1)}


def _all_known(snapshot: Snapshot, query: str) -> bool:
    """Whether all candidates of a query are known."""
    return isinstance(snapshot.answers, TableAnswers) or len(snapshot.answers[query].near) < NEAR
