"""Two snapshots of a selector: the candidates of each query on both sides, and how far scores moved between them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ctxbench.core.candidates import MARGIN
from ctxbench.core.errors import UserError
from ctxbench.core.items import ITEM_TYPES
from ctxbench.core.rules import Rule
from ctxbench.core.selection import Offered
from ctxbench.gate.baseline_rows import rounded
from ctxbench.gate.flat_steps import FlatStep, flat_steps
from ctxbench.gate.input_differences import InputDifferences
from ctxbench.gate.model import Change
from ctxbench.gate.replay import Candidate
from ctxbench.gate.snapshots import AnswerFact, SelectorSnapshot, has_all_candidates

if TYPE_CHECKING:
    from ctxbench.sources.agent_file import AgentFile

_INDEPENDENT = (
    "dense",
    "servers",
    "everything",
    "random",
)  # retrievers that score an item whatever else is in the catalog


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
        """The best score among the candidates that have no chunk among the best topK."""
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
    def steps(self) -> tuple[tuple[FlatStep, ...] | None, tuple[FlatStep, ...] | None]:
        """The steps of the selector at the base and at the head; None for one that is no pipeline of ctxbench."""
        return flat_steps(self.base.identity.selector), flat_steps(self.head.identity.selector)

    @cached_property
    def accepted_files(self) -> tuple[AgentFile, Path, str, Collection[str]] | None:
        """What git has of the files at the last commit that changed the baseline; None where there is none.

        The agent of the dataset, the root of the repository, the commit, and the paths of its files from the root.
        """
        agent = None if self.head.judged is None else self.head.judged.about.get("agent")
        if agent is None:
            return None
        from ctxbench.io.git import Repository  # most checks find nothing to restore
        from ctxbench.sources.agent_file import read_agent

        baseline = Path(self.base.source)
        try:
            repository = Repository.around(baseline)
            commits = [] if repository is None else repository.commits(baseline, limit=1)
            if repository is None or not commits:
                return None
            files = repository.files(commits[0], repository.root)
            return read_agent(Path(agent)), repository.root, commits[0].short, files
        except UserError:
            return None

    @cached_property
    def query_places(self) -> Mapping[str, int]:
        """The position of every query in the order of the head."""
        return {query: position for position, query in enumerate(self.head.queries)}

    @cached_property
    def weighs_the_catalog(self) -> bool:
        """Whether an item's score depends on what else is in the catalog, so that scores are no similarities."""
        steps = self.steps[1] or ()
        return any(step.kind == "rank" or (step.kind == "retrieve" and step.name not in _INDEPENDENT) for step in steps)

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
