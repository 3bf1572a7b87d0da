"""The log of labelling answers, and the state of each query.

`labelling/answers.jsonl` is only appended to, one answer per line, on disk before the next question. Undoing an answer
is an entry, too. The labels of a query are a function of its labels before the first answer (stored in that entry) and
of the entries. So applying the log again changes nothing, and a query whose labels were changed elsewhere is left alone
and reported.
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
        kind: `needed` (the item is), `wrong` (the item was called, or labelled, and is not needed), `helpful`,
            `done` (nothing more is needed), `nothing` (nothing is), `alternative` (whether `item` would do as well as
            `of`), `skip` (cannot say), `undo` (takes back the answer numbered `takes_back`).
        query: its id; of an undo, that of the answer taken back.
        item: the item asked about, or None.
        of: of an alternative, the item that it may replace.
        yes: of an alternative, the answer; None if it cannot be said.
        seconds: how long the question stood there.
        at: when, ISO 8601.
        stratum: of the query in the queue; -1 for one that was not drawn.
        takes_back: the number of the answer taken back, 0 = none.
        before: of the first answer of a query, its state as `state_of` has it.
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
        """The answer as a line of the log; what is empty is left out."""
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
            ParameterError: it is no answer.
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
            raise ParameterError(f"this is no answer of a labelling session ({error})") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The labels and doubts of one query.

    Attributes:
        labels: in any order.
        partly: more may be needed.
        nothing: it needs nothing.
        finished: a person said that this is all, or that nothing is needed.
        skipped: a person could not say what is needed, and has not said it since.
        judged: pairs (item, item it might stand for) that were asked about.
        unsure: such pairs of which a person could not say.
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
        """The part that a dataset holds, as JSON."""
        rows = [
            [i.item.id, i.grade, i.via, i.alternatives, i.source, *filter(None, [i.quote])]
            for i in sorted(self.labels, key=lambda label: label.item.id)
        ]
        return {"labels": rows, "partly": self.partly, "nothing": self.nothing}


def state_of(dataset: Dataset, query: DatasetQuery) -> State:
    """The state of a query in the dataset."""
    return State(labels=dataset.labels_of(query.id), partly=query.partly_labelled, nothing=query.needs_nothing)


def state_before(answer: KeyPress) -> State:
    """The state of a query before its first answer, which that answer's entry holds."""
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
    """Apply whether one item would do as well as another: if so, they become alternatives."""
    item, of = answer.item, answer.of
    if item is None or of is None:
        return state
    if answer.yes is None:
        return replace(state, unsure=state.unsure | {(item, of)})
    state = replace(state, judged=state.judged | {(item, of)}, unsure=state.unsure - {(item, of)})
    label = labels.get(of)
    if not answer.yes or label is None or label.grade != 2:
        return state
    return replace(state, labels=tuple(standing_in(labels, answer.query, item, of, source=PERSON).values()))


@dataclass(frozen=True, kw_only=True)
class Applied:
    """A dataset with a log applied.

    Attributes:
        dataset: the result.
        changed: queries that are otherwise than they were.
        left: queries whose labels were changed by other means since they were answered, or whose answers name an item
            that is no longer in the catalog; their answers are not in.
        gone: queries that the log answers and the dataset does not hold.
    """

    dataset: Dataset
    changed: tuple[str, ...]
    left: tuple[str, ...]
    gone: tuple[str, ...]


def apply_answers(dataset: Dataset, answers: Sequence[KeyPress]) -> Applied:
    """The dataset with the answers of a log, of which it may hold a part already."""
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
    """The log of one dataset: read whole, added to line by line."""

    def __init__(self, path: Path) -> None:
        """Read the log; an incomplete last line is removed, and `repaired` is set.

        Raises:
            InputError: a line is no answer; all such lines.
            StorageError: it cannot be read.
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
        """Put an answer on disk.

        Raises:
            StorageError: the disk is full, or the place cannot be written.
        """
        line = (dump_json(answer.as_row()) + "\n").encode("utf-8")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as stream:
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror or error}; make room and go on") from error
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
            self._through[query_id] = self._settled(
                query_id, self.current(query_id), by_person=query_id in self._answered
            )
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
