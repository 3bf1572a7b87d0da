"""The log of labelling answers, and the state of each query.

`labelling/answers.jsonl` has one answer per line and is only appended to. Undoing an answer is an entry, too. Labels
of a query follow from its labels before the first answer (stored in that entry) and from the entries. So applying the
log again changes nothing. A query whose labels were changed elsewhere is reported and not changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from pathlib import Path
from typing import Any

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label, graded, group_pairs, standing_in
from ctxbench.io.documents import dump_json, parse_json
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, StorageError, raise_faults
from ctxbench.io.files import read_bytes, write_atomic
from ctxbench.labelling.pools import Pool
from ctxbench.labelling.sampling import Known
from ctxbench.model.items import ItemKey

PERSON = "person"
KINDS = ("needed", "wrong", "helpful", "done", "nothing", "alternative", "skip", "undo")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPress:
    """One key pressed.

    Attributes:
        number: 1, 2 ... in the order of the log.
        kind: `needed`, `wrong` (a called or labelled item is not needed), `helpful`, `done` (nothing more is needed),
            `nothing` (nothing is needed), `alternative` (whether `item` is an alternative of `of`), `skip` (unknown),
            `undo` (withdraws the answer with the number `takes_back`).
        query: the id of the query.
        item: the item of the question, or None.
        of: for an alternative, the item that it may replace.
        yes: for an alternative, the answer; None = unknown.
        seconds: the time until the answer.
        at: when, ISO 8601.
        stratum: the stratum of the query in the queue; -1 if it was not drawn.
        takes_back: the number of the withdrawn answer, 0 = none.
        before: for the first answer of a query, its state from `state_of`.
    """

    number: int
    kind: str
    query: str
    item: ItemKey | None = None
    of: ItemKey | None = None
    yes: bool | None = None
    seconds: float = 0.0
    at: str = ""
    stratum: int = -1
    takes_back: int = 0
    before: Mapping[str, Any] | None = None

    def as_row(self) -> dict[str, Any]:
        """The answer as a line of the log, without empty fields."""
        row = {
            "n": self.number,
            "kind": self.kind,
            "query": self.query,
            "item": self.item and self.item.id,
            "of": self.of and self.of.id,
            "yes": self.yes,
            "takes_back": self.takes_back or None,
            "seconds": round(self.seconds, 3),
            "at": self.at,
            "stratum": self.stratum,
            "before": self.before,
        }
        return {name: value for name, value in row.items() if value is not None}

    @classmethod
    def from_row(cls, row: Any) -> KeyPress:
        """Read a line back.

        Raises:
            ParameterError: it is not an answer.
        """
        if not isinstance(row, Mapping):
            raise ParameterError("expected a JSON object on each line")
        try:
            if row["kind"] not in KINDS:
                raise ParameterError(f"kind must be one of {', '.join(KINDS)}, got {row['kind']!r}")
            return cls(
                number=int(row["n"]),
                kind=row["kind"],
                query=str(row["query"]),
                item=ItemKey.parse(row["item"]) if "item" in row else None,
                of=ItemKey.parse(row["of"]) if "of" in row else None,
                yes=row.get("yes"),
                seconds=float(row.get("seconds", 0.0)),
                at=str(row.get("at", "")),
                stratum=int(row.get("stratum", -1)),
                takes_back=int(row.get("takes_back", 0)),
                before=row.get("before"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ParameterError(f"not an answer of a labelling session ({error})") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The labels and open questions of one query.

    Attributes:
        labels: in any order.
        partly: more items may be needed.
        nothing: it needs nothing.
        finished: a person answered that nothing more is needed.
        skipped: a person skipped the query, and has not answered since.
        judged: answered pairs (item, item that it might replace).
        unsure: skipped pairs.
    """

    labels: tuple[Label, ...] = ()
    partly: bool = True
    nothing: bool = False
    finished: bool = False
    skipped: bool = False
    judged: frozenset[tuple[ItemKey, ItemKey]] = field(default_factory=frozenset)
    unsure: frozenset[tuple[ItemKey, ItemKey]] = field(default_factory=frozenset)

    @property
    def required(self) -> tuple[Label, ...]:
        """The labels of required items."""
        return tuple(label for label in self.labels if label.grade == 2)

    def as_row(self) -> dict[str, Any]:
        """The part that is stored in a dataset, as JSON."""
        rows = [
            [i.item.id, i.grade, i.via, i.alternatives, i.source, *filter(None, [i.quote])]
            for i in sorted(self.labels, key=lambda label: label.item.id)
        ]
        return {"labels": rows, "partly": self.partly, "nothing": self.nothing}


def state_of(dataset: Dataset, query: DatasetQuery) -> State:
    """The state of a query in the dataset."""
    return State(labels=dataset.labels_of(query.id), partly=query.partly_labelled, nothing=query.needs_nothing)


def state_before(answer: KeyPress) -> State:
    """The state of a query before its first answer, from the entry of that answer."""
    try:
        row = dict(answer.before or {})
        rows = row.get("labels", [])
        labels = tuple(Label(answer.query, ItemKey.parse(i), g, v, a, s, *quote) for i, g, v, a, s, *quote in rows)
        return State(labels=labels, partly=bool(row.get("partly", True)), nothing=bool(row.get("nothing", False)))
    except (TypeError, ValueError) as error:
        raise ParameterError(f"answer {answer.number} of query {answer.query!r} has no readable `before`") from error


def active(answers: Iterable[KeyPress]) -> list[KeyPress]:
    """The answers that were not withdrawn, in order."""
    by_id: dict[int, KeyPress] = {}
    for answer in answers:
        if answer.kind == "undo":
            by_id.pop(answer.takes_back, None)
        else:
            by_id[answer.number] = answer
    return list(by_id.values())


def after(before: State, answers: Iterable[KeyPress]) -> State:
    """The state of a query after its (active) answers."""
    return reduce(_step, answers, before)


def _step(state: State, answer: KeyPress) -> State:
    labels = {label.item: label for label in state.labels}
    kind, item = answer.kind, answer.item
    if kind == "skip":
        return replace(state, skipped=True)
    if kind == "done":
        confirmed = tuple(replace(i, source=PERSON) if i.grade == 2 else i for i in labels.values())
        return replace(state, labels=confirmed, partly=False, nothing=False, finished=True, skipped=False)
    if kind == "nothing":
        struck = tuple(replace(i, grade=0, alternatives="", source=PERSON) if i.grade == 2 else i for i in state.labels)
        return replace(state, labels=struck, partly=False, nothing=True, finished=True, skipped=False)
    if item is None:
        return state
    if kind == "alternative":
        return _judged(state, labels, answer)
    grade = {"needed": 2, "helpful": 1, "wrong": 0}[kind]
    label = graded(labels, answer.query, item, grade, source=PERSON)
    nothing = state.nothing and grade != 2
    is_complete = not state.partly and (nothing or bool(state.required)) and kind == "helpful"
    return replace(state, labels=tuple(label.values()), nothing=nothing, partly=not is_complete)


def _judged(state: State, labels: dict[ItemKey, Label], answer: KeyPress) -> State:
    """Apply the answer whether one item is an alternative of another."""
    item, of = answer.item, answer.of
    if item is None or of is None:
        return state
    if answer.yes is None:
        return replace(state, unsure=state.unsure | {(item, of)})
    state = replace(state, judged=state.judged | {(item, of)}, unsure=state.unsure - {(item, of)})
    label = labels.get(of)
    return (
        replace(state, labels=tuple(standing_in(labels, answer.query, item, of, source=PERSON).values()))
        if answer.yes and label is not None and label.grade == 2
        else state
    )


@dataclass(frozen=True, kw_only=True)
class Applied:
    """A dataset with a log applied.

    Attributes:
        dataset: the result.
        changed: changed queries.
        left: queries whose answers were not applied: their labels were changed elsewhere, or an item is no longer in
            the catalog.
        gone: answered queries that are not in the dataset.
    """

    dataset: Dataset
    changed: tuple[str, ...]
    left: tuple[str, ...]
    gone: tuple[str, ...]


def apply_answers(dataset: Dataset, answers: Sequence[KeyPress]) -> Applied:
    """The dataset with the answers of a log; some of them may be applied already."""
    by_query = group_pairs((answer.query, answer) for answer in answers)
    queries = {query.id: query for query in dataset.queries}
    states: dict[str, State] = {}
    changed, left = [], []
    for query_id, entries in by_query.items():
        if query_id not in queries:
            continue
        current = state_of(dataset, queries[query_id])
        before = state_before(entries[0])
        history = [after(before, active(entries[:n])).as_row() for n in range(len(entries) + 1)]
        states[query_id] = after(before, active(entries))
        if current.as_row() not in history or not in_catalog(states[query_id], dataset):
            left.append(query_id)
            continue
        if states[query_id].as_row() != current.as_row():
            changed.append(query_id)
    gone = tuple(query_id for query_id in by_query if query_id not in queries)
    labelled = _with_states(dataset, {query_id: states[query_id] for query_id in changed})
    return Applied(dataset=labelled, changed=tuple(changed), left=tuple(left), gone=gone)


def in_catalog(state: State, dataset: Dataset) -> bool:
    """Whether all items with labels are still in the dataset's catalog."""
    return all(dataset.catalog.find(label.item) is not None for label in state.labels)


def _with_states(dataset: Dataset, states: Mapping[str, State]) -> Dataset:
    if not states:
        return dataset
    queries = tuple(
        replace(query, partly_labelled=states[query.id].partly, needs_nothing=states[query.id].nothing)
        if query.id in states
        else query
        for query in dataset.queries
    )
    unchanged = (label for label in dataset.labels if label.query not in states)
    labels = (*unchanged, *(label for state in states.values() for label in state.labels))
    return replace(dataset, queries=queries, labels=labels)


class AnswerLog:
    """The log of one dataset."""

    def __init__(self, path: Path) -> None:
        """Read the log; an incomplete last line is removed, and described in `repaired`.

        Raises:
            InputError: lines are not answers; all of them.
            StorageError: the log cannot be read.
        """
        self.path = path
        self.repaired = ""
        self.answers: list[KeyPress] = []
        if path.exists():
            self._read()

    def _read(self) -> None:
        data = read_bytes(self.path)
        complete, torn = data[: data.rfind(b"\n") + 1], data[data.rfind(b"\n") + 1 :]
        if torn:
            self.repaired = Message("labelling.log-cut-short", path=self.path, got=torn[:80])
            write_atomic(self.path, complete)
        faults: list[Fault] = []
        for number, line in enumerate(complete.split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                self.answers.append(KeyPress.from_row(parse_json(line.decode("utf-8"), path=self.path, line=number)))
            except InputError as error:
                faults += error.faults
            except (ParameterError, UnicodeDecodeError) as error:
                faults.append(Fault(str(error), self.path, number))
        raise_faults(faults, subject="the log of answers")

    def add(self, answer: KeyPress) -> None:
        """Write an answer to disk.

        Raises:
            StorageError: the disk is full, or the file cannot be written.
        """
        line = (dump_json(answer.as_row()) + "\n").encode("utf-8")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as stream:
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise StorageError(
                f"cannot write {self.path}: {error.strerror or error}; free some space and continue"
            ) from error
        self.answers.append(answer)

    @property
    def next_number(self) -> int:
        """The number of the next answer."""
        return max((answer.number for answer in self.answers), default=0) + 1


class MemoryLog(AnswerLog):
    """A log in memory, for simulations."""

    def __init__(self) -> None:
        super().__init__(Path(os.devnull) / "none")

    def add(self, answer: KeyPress) -> None:
        """Keep the answer in memory."""
        self.answers.append(answer)


TRACE = "trace"  # the source of labels from a log


class States:
    """The states of queries, updated with each answer.

    If the labels of a query were changed elsewhere, or an item of an answer is no longer in the catalog, the state in
    the dataset is used.

    Attributes:
        left: the queries whose answers are not used.
        entries: the entries of the log, by query.
        before: returns the state of a query before its first answer.
        through_before: returns whether the required items were known then.
    """

    def __init__(self, pool: Pool, answers: Iterable[KeyPress], *, left: Iterable[str] = ()) -> None:
        self.pool = pool
        self.left = set(left)
        self.entries = group_pairs((answer.query, answer) for answer in answers)
        self.before = cache(self._find_before)
        self.through_before = cache(self._find_through_before)
        self._states: dict[str, State] = {}
        self._answered: set[str] = set()
        self._completeness: dict[str, Known | None] = {}  # both are needed for all queries after each answer
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
        self._states[query_id] = state
        (self._answered.add if standing else self._answered.discard)(query_id)
        self._completeness.pop(query_id, None)
        self._through.pop(query_id, None)

    def _of_dataset(self, query_id: str) -> State:
        dataset = self.pool.dataset
        return state_of(dataset, dataset.queries[self.pool.row[query_id]])

    # ------------------------------------------------------------------------------------------ states

    @property
    def touched(self) -> tuple[str, ...]:
        """The queries of the dataset with an answer, withdrawn or not."""
        return tuple(self._states)

    def current(self, query_id: str) -> State:
        """The current state of a query."""
        return self._states.get(query_id) or self.before(query_id)

    def _find_before(self, query_id: str) -> State:
        """The state of a query before its first answer, with the labels of items that still exist."""
        first = next(iter(self.entries.get(query_id, ())), None)
        return self._of_dataset(query_id) if first is None or first.before is None else state_before(first)

    # ------------------------------------------------------------------------------------------ known or not

    def through(self, query_id: str) -> bool:
        """Whether the required items of a query are known, as far as the figures depend on them.

        For a query labelled by a log or a session, this also needs an answer for each similar item that a selector
        offers instead of a required one.
        """
        if query_id not in self._through:
            self._through[query_id] = self._settled(
                query_id, self.current(query_id), by_person=query_id in self._answered
            )
        return self._through[query_id]

    def _find_through_before(self, query_id: str) -> bool:
        """Whether they were known before the first answer, which decides whether the query is in the sample."""
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
        """The completeness of a query, with its bounds; None while it has open questions."""
        if query_id not in self._completeness:
            self._completeness[query_id] = self._find_known(query_id)
        return self._completeness[query_id]

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
        """The completeness of a query that can be anything."""
        n = len(self.pool.offers)
        return _in_doubt((False,) * n, (True,) * n)

    def _granted(self, groups: Sequence[tuple[int, ...]], state: State) -> list[tuple[int, ...]]:
        """The groups with all similar items that were not judged as alternatives."""
        asked_items = self._judged_items(state)
        return [
            (*group, *(item for of in group for item in self.pool.likenesses.of(of) if item not in asked_items))
            for group in groups
        ]

    # ------------------------------------------------------------------------------------------ alternatives

    def undecided(self, query_id: str, state: State, *, include_unsure: bool = False) -> tuple[int, int] | None:
        """An item that a selector offers instead of a similar required one, and the required one.

        Args:
            query_id: the id of the query.
            state: its state.
            include_unsure: whether skipped pairs are open questions.
        """
        return next(self.open_pairs(query_id, state, deciding=True, include_unsure=include_unsure), None)

    def open_pairs(
        self, query_id: str, state: State, *, deciding: bool, include_unsure: bool = False
    ) -> Iterator[tuple[int, int]]:
        """Unanswered pairs of similar items; all of them, or only those that the figures depend on."""
        row, catalog = self.pool.row[query_id], self.pool.dataset.catalog
        groups = self.pool.groups(state.labels)
        required_items = {item for group in groups for item in group}
        settled = self._judged_items(state).union(
            () if include_unsure else self.pool.positions(item for item, _ in state.unsure)
        )
        always_offered = self.pool.always_offered(row)
        for group in groups:
            if not always_offered.isdisjoint(group):
                continue  # always offered
            met = [any(item in offers.offered[row] for item in group) for offers in self.pool.offers]
            offered = [offers.offered[row] for offers, done in zip(self.pool.offers, met, strict=True) if not done]
            for of in group:
                for item in self.pool.likenesses.of(of):
                    if (
                        item not in required_items
                        and item not in settled
                        and (any(item in items for items in offered) if deciding else catalog[item].enabled)
                    ):
                        yield item, of

    def _judged_items(self, state: State) -> set[int]:
        return set(self.pool.positions([*(item for item, _ in state.judged), *(label.item for label in state.labels)]))


def _unknown(state: State) -> bool:
    """Whether more items may be needed, or nothing is known."""
    return state.partly or not (state.nothing or state.required)


def _in_doubt(complete: tuple[bool, ...], upper_bound: tuple[bool, ...]) -> Known:
    return Known(needs=True, complete=complete, upper_bound=upper_bound if upper_bound != complete else None)
