"""The states of the queries of a pool, from the dataset and the answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache

from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.labelling.answer_log import (
    PERSON,
    KeyPress,
    State,
    active,
    after,
    in_catalog,
    state_before,
    state_of,
)
from ctxbench.data.labelling.estimate import Known
from ctxbench.data.labelling.pool import Pool

TRACE = "trace"  # the source of labels that a log gave


class States:
    """The states of queries, updated with each answer.

    Where the dataset's labels were changed by other means, or an item of an answer is no longer in the catalog, the
    dataset's state counts, not that of the answers.

    Attributes:
        left: the queries whose answers do not count.
        entries: of the log, by query.
        before: gives what was known of a query before its first answer.
        through_before: gives whether its needs were known then.
    """

    def __init__(self, pool: Pool, answers: Iterable[KeyPress], *, left: Iterable[str] = ()) -> None:
        self.pool = pool
        self.left = set(left)
        self.entries = group_pairs((answer.query, answer) for answer in answers)
        self.before = cache(self._find_before)
        self.through_before = cache(self._find_through_before)
        self._now: dict[str, State] = {}
        self._answered: set[str] = set()
        self._known: dict[str, Known | None] = {}  # these two are asked for all queries after every answer
        self._through: dict[str, bool] = {}
        for query_id in self.entries:
            self._refresh(query_id)

    def add(self, answer: KeyPress) -> None:
        """Add an entry of the log."""
        self.entries.setdefault(answer.query, []).append(answer)
        self._refresh(answer.query)

    def _refresh(self, query_id: str) -> None:
        if query_id not in self.pool.row:
            return
        standing = active(self.entries[query_id])
        state = after(self.before(query_id), standing)
        if query_id in self.left or not in_catalog(state, self.pool.dataset):
            self.left.add(query_id)
            state = replace(self._of_dataset(query_id), judged=state.judged, unsure=state.unsure)
        self._now[query_id] = state
        (self._answered.add if standing else self._answered.discard)(query_id)
        self._known.pop(query_id, None)
        self._through.pop(query_id, None)

    def _of_dataset(self, query_id: str) -> State:
        dataset = self.pool.dataset
        return state_of(dataset, dataset.queries[self.pool.row[query_id]])

    # ------------------------------------------------------------------------------------------ states

    @property
    def touched(self) -> tuple[str, ...]:
        """The queries of the dataset with an answer, withdrawn or not."""
        return tuple(self._now)

    def current(self, query_id: str) -> State:
        """The current state of a query."""
        return self._now.get(query_id) or self.before(query_id)

    def _find_before(self, query_id: str) -> State:
        """The state of a query before its first answer, with the labels of items that still exist."""
        first = next(iter(self.entries.get(query_id, ())), None)
        return self._of_dataset(query_id) if first is None or first.before is None else state_before(first)

    # ------------------------------------------------------------------------------------------ known or not

    def through(self, query_id: str) -> bool:
        """Whether the needs of a query are known, as far as they decide the figures.

        That is: nothing is open by its labels, and of a query that a log or a session labelled, no selector offers an
        item in place of a needed one which it resembles without someone having said whether it would do.
        """
        if query_id not in self._through:
            by_person = query_id in self._answered
            self._through[query_id] = self._settled(query_id, self.current(query_id), by_person=by_person)
        return self._through[query_id]

    def _find_through_before(self, query_id: str) -> bool:
        """The same before its first answer: answers do not decide whether a query belongs to the sample."""
        state, find = self.before(query_id), self.pool.dataset.catalog.find
        labels = tuple(label for label in state.labels if find(label.item) is not None)
        return self._settled(query_id, replace(state, labels=labels), by_person=False)

    def _settled(self, query_id: str, state: State, *, by_person: bool) -> bool:
        if _unknown(state):
            return False
        strict = not by_person and not any(label.source == TRACE for label in state.required)
        return strict or self.undecided(query_id, state, include_unsure=True) is None

    def waits(self, query_id: str) -> bool:
        """Whether a query has open questions that were not skipped."""
        if query_id in self.left or self.through(query_id):
            return False
        state = self.current(query_id)
        return not state.skipped if _unknown(state) else self.undecided(query_id, state) is not None

    def completeness(self, query_id: str) -> Known | None:
        """The completeness of a query, with what is in doubt; None while questions about it are open."""
        if query_id not in self._known:
            self._known[query_id] = self._find_known(query_id)
        return self._known[query_id]

    def _find_known(self, query_id: str) -> Known | None:
        state = self.current(query_id)
        row, groups = self.pool.row[query_id], self.pool.groups(state.labels)
        if self.through(query_id):
            return Known(needs=bool(groups), complete=self.pool.complete(row, groups))
        if query_id not in self._answered:
            return None
        if not _unknown(state):
            return _in_doubt(self.pool.complete(row, groups), self.pool.complete(row, self._granted(groups, state)))
        if not (state.skipped or query_id in self.left):
            return None
        label_groups = self.pool.groups([label for label in state.required if label.source == PERSON])
        return _in_doubt((False,) * len(self.pool.offers), self.pool.complete(row, self._granted(label_groups, state)))

    def nothing_sure(self) -> Known:
        """The completeness of a query with everything in doubt."""
        n = len(self.pool.offers)
        return _in_doubt((False,) * n, (True,) * n)

    def _granted(self, groups: Sequence[tuple[int, ...]], state: State) -> list[tuple[int, ...]]:
        """The groups, as if all similar items that were not judged were alternatives."""
        asked_items = self._judged_items(state)
        return [
            (*group, *(item for of in group for item in self.pool.likenesses.of(of) if item not in asked_items))
            for group in groups
        ]

    # ------------------------------------------------------------------------------------------ alternatives

    def undecided(self, query_id: str, state: State, *, include_unsure: bool = False) -> tuple[int, int] | None:
        """An item that some selector offers instead of a needed one that it resembles, and the needed one.

        Args:
            query_id: of the query.
            state: of it.
            include_unsure: whether what was skipped is among the open questions.
        """
        return next(self.open_pairs(query_id, state, deciding=True, include_unsure=include_unsure), None)

    def open_pairs(
        self, query_id: str, state: State, *, deciding: bool, include_unsure: bool = False
    ) -> Iterator[tuple[int, int]]:
        """Such pairs that nobody was asked about; all of them, or only those that decide the figures."""
        row, catalog = self.pool.row[query_id], self.pool.dataset.catalog
        groups = self.pool.groups(state.labels)
        required_items = {item for group in groups for item in group}
        settled = self._judged_items(state).union(
            () if include_unsure else self.pool.positions(item for item, _ in state.unsure)
        )
        always_offered = self.pool.always_offered(row)
        for group in groups:
            if not always_offered.isdisjoint(group):
                continue  # met in every prompt, whatever else would do
            met = [any(item in offers.offered[row] for item in group) for offers in self.pool.offers]
            offered = [offers.offered[row] for offers, done in zip(self.pool.offers, met, strict=True) if not done]
            for of in group:
                for item in self.pool.likenesses.of(of):
                    if item in required_items or item in settled:
                        continue
                    if any(item in items for items in offered) if deciding else catalog[item].enabled:
                        yield item, of

    def _judged_items(self, state: State) -> set[int]:
        return set(self.pool.positions([*(item for item, _ in state.judged), *(label.item for label in state.labels)]))


def _unknown(state: State) -> bool:
    """Whether more may be needed than the labels say, or they say nothing at all."""
    return state.partly or not (state.nothing or state.required)


def _in_doubt(complete: tuple[bool, ...], upper_bound: tuple[bool, ...]) -> Known:
    return Known(needs=True, complete=complete, upper_bound=upper_bound if upper_bound != complete else None)
