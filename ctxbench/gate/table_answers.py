"""Answers of a run by query, kept as columns: an `AnswerFact` is made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from ctxbench.core.candidates import Candidates
from ctxbench.core.items import Catalog
from ctxbench.core.selection import Offered, offered_rows
from ctxbench.gate.snapshots import NEAR, AnswerFact

if TYPE_CHECKING:
    from ctxbench.bench.slices import Slice


class TableAnswers(Mapping[str, AnswerFact]):
    """What a selector answered on a dataset, every candidate of it.

    Most queries are the same on both sides of a check, and of those only the ids offered are looked at. Where the
    selector gave an order and no scores, there are none here either: those of the table (`Answers.scored`) are made up.
    """

    def __init__(self, catalog: Catalog, answers: Slice, *, errors: Mapping[str, str]) -> None:
        """Hold the answers of a run.

        Args:
            catalog: what the candidates' positions are positions in.
            answers: for every query.
            errors: what went wrong, by query id.
        """
        self.errors = dict(errors)
        self._catalog = catalog
        self._table: Candidates = answers.candidates
        self._scored = answers.scored
        self._row = {query: row for row, query in enumerate(answers.queries)}
        self._made: dict[str, AnswerFact] = {}
        chosen = self._table.chosen
        self._start = self._table.starts_of(chosen).tolist()
        self._ids = [catalog.ids[item] for item in self._table.item[chosen].tolist()]

    def __getitem__(self, query: str) -> AnswerFact:
        if query not in self._made:
            rows = self._table.rows(self._row[query])
            offered = offered_rows(self._catalog, self._table, rows, chosen=True)
            near = offered_rows(self._catalog, self._table, rows, chosen=False)
            if not self._scored and _are_order_scores((*offered, *near)):
                offered, near = (tuple([replace(one, score=None) for one in side]) for side in (offered, near))
            self._made[query] = AnswerFact(query=query, offered=offered, near=near, error=self.errors.get(query, ""))
        return self._made[query]

    def __iter__(self) -> Iterator[str]:
        return iter(self._row)

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, query: object) -> bool:
        return query in self._row

    def offered_ids(self, query: str) -> list[str]:
        """The ids of the items that a query was offered, best first."""
        row = self._row[query]
        return self._ids[self._start[row] : self._start[row + 1]]

    def only(self, queries: Iterable[str]) -> TableAnswers:
        """The answers to some of the queries; what was made of them so far is shared."""
        row = {query: self._row[query] for query in queries}
        errors = {query: text for query, text in self.errors.items() if query in row}
        few = copy(self)
        vars(few).update(_row=row, errors=errors)
        return few


def _are_order_scores(rows: Iterable[Offered]) -> bool:
    """Whether the scores of one request are -1, -2, ..., as `answers.table` writes an order without scores."""
    scores = sorted((one.score for one in rows if one.score is not None), reverse=True)
    return scores == [-float(place) for place in range(1, len(scores) + 1)]


def offered_ids(answers: Mapping[str, AnswerFact], query: str) -> list[str]:
    """The ids of the items that a query was offered, best first."""
    if isinstance(answers, TableAnswers):
        return answers.offered_ids(query)
    return [one.id for one in answers[query].offered]


def has_all_candidates(answers: Mapping[str, AnswerFact], query: str) -> bool:
    """Whether all candidates of a query are known, and not only the nearest of those that stayed out."""
    return isinstance(answers, TableAnswers) or len(answers[query].near) < NEAR


def failures(answers: Mapping[str, AnswerFact]) -> dict[str, str]:
    """The errors of queries that the selector failed on, by query id, in order."""
    if isinstance(answers, TableAnswers):
        return answers.errors
    return {query: fact.error for query, fact in answers.items() if fact.error}
