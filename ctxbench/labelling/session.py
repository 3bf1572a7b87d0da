"""A labelling session and the folder that it is stored in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import read_dataset, write_dataset
from ctxbench.datasets.layout import CARD, FOLDER, LOG, QUEUE, near_folder, write_weights
from ctxbench.datasets.lookup import importers
from ctxbench.io.errors import Message, ParameterError
from ctxbench.io.files import exclusive
from ctxbench.labelling.answer_log import AnswerLog, Applied, KeyPress, State, States, active, apply_answers
from ctxbench.labelling.pools import Pool, Predictor, candidates, pairs
from ctxbench.labelling.review import patched
from ctxbench.labelling.sampling import Figure, Known, Queue, Sample, extended, make_queue

LONG = 120.0  # seconds; longer answers are breaks


@dataclass(frozen=True, kw_only=True)
class LikelyItem:
    """An item that may be required.

    Attributes:
        item: catalog position.
        offered_by: the selectors that offer it.
        called: it was called, by the log.
        like: the catalog position of a similar required item, or None.
    """

    item: int
    offered_by: tuple[str, ...]
    called: bool
    like: int | None


@dataclass(frozen=True, kw_only=True)
class LabelPrompt:
    """One question, answered with one key.

    Attributes:
        query: the id of the query.
        kind: `needed` (which other items are required?), or `alternative` (is `item` an alternative of `of`?).
        known: positions of required items.
        candidates: items that may be required, likeliest first; empty for an alternative.
        item, of: for an alternative.
        signals: signals of a miss in the log.
    """

    query: str
    kind: str
    known: tuple[int, ...]
    candidates: tuple[LikelyItem, ...] = ()
    item: int = -1
    of: int = -1
    signals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptAnswer:
    """An answer to a prompt: a kind of `KINDS`, perhaps an item, and yes, no or None (unknown)."""

    kind: str
    item: int = -1
    yes: bool | None = None


class LabellingSession:
    """Asks questions, stores answers, and estimates figures. A new session over the same log continues.

    Attributes:
        state: returns the present state of a query.
        through: returns whether the required items of a query are known (`States.through`).
    """

    def __init__(
        self,
        predictor: Predictor,
        queue: Queue,
        log: AnswerLog,
        *,
        left: Iterable[str] = (),
        clock: Callable[[], str] | None = None,
    ):
        """Start or continue a session.

        Args:
            predictor: makes guesses over the pool.
            queue: the sample.
            log: the log of answers.
            left: queries whose answers are not used (`Applied.left`).
            clock: returns the time in ISO 8601.
        """
        self.predictor = predictor
        self.pool: Pool = predictor.pool
        self.queue, self.log = queue, log
        self._clock = clock or (lambda: datetime.now(UTC).isoformat(timespec="seconds"))
        self._stratum = queue.stratum_of()
        self._states = States(self.pool, log.answers, left=left)
        self.state, self.through = self._states.current, self._states.through
        self._turns = queue.turns()
        self._cursor = 0  # earlier turns are done
        self._passed = [0] * len(queue.strata)
        self._given_up: set[str] = set()  # skipped again at the end

    def unsettled(self) -> list[str]:
        """The queries with unknown required items, in order, for a queue."""
        return [query.id for query in self.pool.dataset.queries if not self.through(query.id)]

    # ------------------------------------------------------------------------------------------ asking

    def next(self) -> LabelPrompt | None:
        """The next question; None if there is none. Skipped questions are asked again once, at the end."""
        while self._cursor < len(self._turns):
            stratum = self._turns[self._cursor]
            queries, position = self.queue.strata[stratum].queries, self._passed[stratum]
            while position < len(queries) and not self._drawn(queries[position]):
                position += 1
            self._passed[stratum] = position
            if position < len(queries) and self._states.waits(queries[position]):
                return self._prompt(queries[position])
            self._passed[stratum] += 1
            self._cursor += 1
        for query_id in self._states.touched:
            state = self.state(query_id)
            doubtful = state.skipped or state.unsure or self._states.waits(query_id)
            if doubtful and not (query_id in self._states.left | self._given_up or self.through(query_id)):
                return self._prompt(query_id)
        return next(self._rest(), None)

    def _drawn(self, query_id: str) -> bool:
        """Whether a query of the queue is asked: not if it is gone, was skipped, or was labelled elsewhere."""
        if query_id not in self.pool.row:
            return False
        return (
            not self.state(query_id).skipped or self.through(query_id)
            if query_id in self._states.touched
            else not self.through(query_id)
        )

    def _prompt(self, query_id: str) -> LabelPrompt:
        state = self.state(query_id)
        exposure = self.pool.exposures.get(query_id)
        signals = tuple(exposure.signals) if exposure else ()
        required = self.pool.positions(label.item for label in state.required)
        undecided = partial(self._states.undecided, query_id, state)
        if state.required and not state.partly and (pair := undecided() or undecided(include_unsure=True)):
            return LabelPrompt(
                query=query_id, kind="alternative", known=required, item=pair[0], of=pair[1], signals=signals
            )
        return LabelPrompt(
            query=query_id,
            kind="needed",
            known=required,
            candidates=tuple(self._candidates(query_id, state, required)),
            signals=signals,
        )

    def _candidates(self, query_id: str, state: State, required: Sequence[int]) -> Iterator[LikelyItem]:
        row, guess = self.pool.row[query_id], self.predictor.guess(query_id)
        passed_over = {*self.pool.positions(label.item for label in state.labels), *self.pool.always_offered(row)}
        like = {alike: item for item in reversed(required) for alike in self.pool.likenesses.of(item)}
        for item in dict.fromkeys([*guess.called, *guess.ranked(), *candidates(self.pool, row)]):
            if item not in passed_over:
                offered_by = tuple(offers.name for offers in self.pool.offers if item in offers.offered[row])
                yield LikelyItem(item=item, offered_by=offered_by, called=item in guess.called, like=like.get(item))

    def _rest(self) -> Iterator[LabelPrompt]:
        """After the last query: possible alternatives of required items."""
        for query_id in self._states.touched:
            state = self.state(query_id)
            if state.required and not state.partly and query_id not in self._states.left:
                for item, of in self._states.open_pairs(query_id, state, deciding=False):
                    required = self.pool.positions(label.item for label in state.required)
                    yield LabelPrompt(query=query_id, kind="alternative", known=required, item=item, of=of)

    # ------------------------------------------------------------------------------------------ answering

    def answer(self, prompt: LabelPrompt, reply: PromptAnswer, *, seconds: float = 0.0) -> KeyPress:
        """Write the answer to a prompt to disk.

        Raises:
            ParameterError: the reply does not fit the prompt.
        """
        allowed = ("alternative", "skip") if prompt.kind == "alternative" else (
            "needed", "wrong", "helpful", "done", "nothing", "skip"
        )  # fmt: skip
        if reply.kind not in allowed:
            raise ParameterError(f"this question takes {', '.join(allowed)}; got {reply.kind!r}")
        # a skipped alternative is neither yes nor no
        reply = PromptAnswer("alternative") if prompt.kind == "alternative" and reply.kind == "skip" else reply
        catalog = self.pool.dataset.catalog
        item = prompt.item if reply.kind == "alternative" else reply.item
        if reply.kind in ("needed", "wrong", "helpful") and not 0 <= item < len(catalog):
            raise ParameterError(f"{reply.kind!r} needs an item of the catalog, got position {item}")
        if reply.kind == "needed" and not self.can_need(prompt.query, item):
            raise ParameterError(
                f"query {prompt.query!r} cannot need {catalog.ids[item]!r}, which is not available or not enabled"
            )
        state = self.state(prompt.query)
        reply = PromptAnswer("nothing") if reply.kind == "done" and not state.required else reply
        skipped = reply.kind == "skip" or (reply.kind == "alternative" and reply.yes is None)
        if skipped and self._cursor >= len(self._turns):
            self._given_up.add(prompt.query)
        entry = KeyPress(
            number=self.log.next_number,
            kind=reply.kind,
            query=prompt.query,
            item=catalog[item].key if item >= 0 and reply.kind not in ("done", "nothing", "skip") else None,
            of=catalog[prompt.of].key if reply.kind == "alternative" else None,
            yes=reply.yes,
            seconds=seconds,
            at=self._clock(),
            stratum=self._stratum.get(prompt.query, -1),
            before=None if prompt.query in self._states.entries else state.as_row(),
        )
        self._add(entry)
        return entry

    def can_need(self, query_id: str, item: int) -> bool:
        """Whether a query may get an item: it is enabled, available, and not manual."""
        request = self.pool.dataset.queries[self.pool.row[query_id]].request
        candidate = self.pool.dataset.catalog[item]
        in_session = any(session_item.key == candidate.key for session_item in request.session or ())
        is_available = request.available is None or candidate.key in request.available
        return candidate.enabled and (in_session or (candidate.include != "manual" and is_available))

    def grade_of(self, query_id: str, item: int) -> int | None:
        """The grade of an item for a query: 2 needed, 1 helpful, 0 not needed; None = not marked."""
        key = self.pool.dataset.catalog[item].key
        return next((label.grade for label in self.state(query_id).labels if label.item == key), None)

    def undo(self) -> KeyPress | None:
        """Withdraw the last answer, of any session; returns it, or None if there is none."""
        if not (standing := active(self.log.answers)):
            return None
        last = standing[-1]
        entry = KeyPress(
            number=self.log.next_number, kind="undo", query=last.query, takes_back=last.number, at=self._clock()
        )
        self._add(entry)
        self._cursor = 0
        self._passed = [0] * len(self.queue.strata)
        self._given_up.clear()
        return last

    def _add(self, answer: KeyPress) -> None:
        self.log.add(answer)
        self._states.add(answer)

    @property
    def answers(self) -> int:
        """The number of answers that were not withdrawn."""
        return len(active(self.log.answers))

    # ------------------------------------------------------------------------------------------ figures

    @cached_property
    def _equal_offers(self) -> list[frozenset[str]]:
        """By pair of selectors, the queries of the queue with equal offers."""
        rows = {query: self.pool.row[query] for query in self._stratum if query in self.pool.row}
        return [
            frozenset(query for query, row in rows.items() if first.offered[row] == second.offered[row])
            for first, second in combinations(self.pool.offers, 2)
        ]

    def sample(self) -> Sample:
        """All queries as data for the estimate.

        Whether a query is in the sample depends on its state before the first answer and on the present selectors, but
        not on answers.
        """
        census: list[Known] = []
        strata: list[list[str]] = [[] for _ in self.queue.strata]
        answered: dict[str, Known] = {}
        for query in self.pool.dataset.queries:
            stratum, completeness = self._stratum.get(query.id), self._states.completeness(query.id)
            settled = self._states.through_before(query.id)
            if stratum is not None and not settled:
                strata[stratum].append(query.id)
                if completeness is not None:
                    answered[query.id] = completeness
            elif completeness is not None or settled:
                census.append(completeness or self._states.nothing_sure())
        return Sample(
            selectors=self.pool.names,
            census=census,
            strata=strata,
            answered=answered,
            equal_offers=self._equal_offers,
            guesses=self._guesses(),
        )

    def _guesses(self) -> list[tuple[Sequence[float], Sequence[float], Sequence[float]]]:
        """The guesses by stratum; new ones if the queue was drawn for other selectors."""
        return (
            [(stratum.complete, stratum.first, stratum.second) for stratum in self.queue.strata]
            if self.pool.names == self.queue.selectors
            else [self._guess_anew(stratum.queries) for stratum in self.queue.strata]
        )

    def _guess_anew(self, queries: Iterable[str]) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
        """The guessed shares of the existing queries of a stratum; even chances if there are none."""
        if not (present := [query for query in queries if query in self.pool.row]):
            n = len(self.pool.offers)
            return (0.5,) * n, (0.25,) * len(pairs(n)), (0.25,) * len(pairs(n))
        guesses = self.predictor.guesses(present)
        complete, first, second = (table.mean(axis=0) for table in (guesses.complete, guesses.first, guesses.second))
        return complete.tolist(), first.tolist(), second.tolist()

    def report(self) -> Report:
        """The current figures."""
        return report_on(self.sample(), self.queue, self.log.answers)


@dataclass(frozen=True, kw_only=True)
class Report:
    """The current figures.

    Attributes:
        completeness: one per selector.
        differences: one per pair of selectors.
        labels_to_halve_interval: by figure, the number of further answers that halve its interval; None = not enough.
        answers: the number of answers that were not withdrawn.
        queries: the number of decided queries.
        unsure: the number of undecided queries.
        minutes_per_answer: the median without breaks; NaN before the first answer.
        answers_per_query: the mean so far, or the guess before the first answer.
    """

    completeness: tuple[Figure, ...]
    differences: tuple[Figure, ...]
    labels_to_halve_interval: Mapping[str, int | None]
    answers: int
    queries: int
    unsure: int
    minutes_per_answer: float
    answers_per_query: float


def report_on(sample: Sample, queue: Queue, answers: Sequence[KeyPress]) -> Report:
    """Estimate every figure.

    Args:
        sample: the present sample.
        queue: its queue.
        answers: the log.
    """
    n = len(sample.selectors)
    complete = tuple(sample.complete(i) for i in range(n))
    ahead = tuple(sample.ahead(k, i, j) for k, (i, j) in enumerate(pairs(n)))
    to_come = _turns_to_come(sample, queue)
    standing = active(answers)
    per_query = len(standing) / len(sample.answered) if sample.answered else _guessed_answers(queue)
    gaps = [
        *(sample.labels_to_halve_of(i, to_come) for i in range(n)),
        *(sample.labels_to_halve_between(k, i, j, to_come) for k, (i, j) in enumerate(pairs(n))),
    ]
    names = (figure.name for figure in (*complete, *ahead))
    times = sorted(answer.seconds for answer in standing if 0 < answer.seconds < LONG)
    return Report(
        completeness=complete,
        differences=ahead,
        labels_to_halve_interval={
            name: None if queries is None else round(queries * per_query + 0.499)
            for name, queries in zip(names, gaps, strict=True)
        },
        answers=len(standing),
        queries=sum(answer.sure for answer in sample.answered.values()),
        unsure=sample.unsure,
        minutes_per_answer=times[len(times) // 2] / 60.0 if times else float("nan"),
        answers_per_query=per_query,
    )


def _turns_to_come(sample: Sample, queue: Queue) -> list[int]:
    left = [sum(query in sample.answered for query in queries) for queries in sample.strata]
    to_come = []
    for stratum in queue.turns():
        if left[stratum] > 0:
            left[stratum] -= 1
        else:
            to_come.append(stratum)
    return to_come


def _guessed_answers(queue: Queue) -> float:
    total = sum(len(stratum.queries) for stratum in queue.strata)
    return sum(len(stratum.queries) * stratum.answers for stratum in queue.strata) / total if total else 1.0


_MARK = "Since then people have labelled: "
UNNAMED = "as the card says"  # for labels without a source


@dataclass(eq=False)
class LabelFolder:
    """The folder of a dataset with its log of answers; made by `opened`.

    Attributes:
        path: the folder.
        dataset: the dataset with all answers of the log.
        log: the log of answers.
        notes: notes on opening, one line each.
        left: queries whose answers are not used, as their labels were changed elsewhere.
        writes: whether files are written.
    """

    path: Path
    dataset: Dataset
    log: AnswerLog
    notes: list[str]
    left: tuple[str, ...] = ()
    writes: bool = True

    def session(self, predictor: Predictor, *, seed: int = 0, focus: tuple[str, ...] = ()) -> LabellingSession:
        """A session that continues the last one; the first one draws the sample.

        Args:
            predictor: makes guesses over the dataset of this folder.
            seed: the seed of the sample; for the first session only.
            focus: the figures to estimate; for the first session only.

        Raises:
            ParameterError: the sample was drawn for other figures, or it is lost.
        """
        path = self.path / FOLDER / QUEUE
        if (queue := Queue.read(path)) is not None and focus and set(focus) != set(queue.focus):
            drawn = ", ".join(queue.focus) or "all figures"
            raise ParameterError(f"the sample in {path} was drawn for {drawn}; remove --figure")
        if queue is None and any(answer.stratum >= 0 for answer in active(self.log.answers)):
            raise ParameterError(
                f"{path} is missing, so that the answers in {self.log.path} have no weights; restore a copy. To draw a "
                "new sample, move the answers away: their labels stay in the dataset, but bias the figures"
            )
        none = Queue(selectors=predictor.pool.names, seed=seed, strata=())
        open_ = LabellingSession(predictor, none, self.log, left=self.left).unsettled()
        if queue is None:
            new_queue = make_queue(predictor, open_, seed=seed, focus=focus)
        else:
            answered = {answer.query for answer in self.log.answers}
            new_queue = extended(queue, predictor, [query for query in open_ if query not in answered])
        if new_queue is not queue and self.writes:
            new_queue.write(path)
        return LabellingSession(predictor, new_queue, self.log, left=self.left)

    def save(self, session: LabellingSession | None = None) -> Applied:
        """Write the answers into the files of the dataset, counts by source to its card, and the weights.

        Raises:
            ParameterError: the dataset was frozen meanwhile.
            StorageError: the folder cannot be written; the log is safe.
        """
        # read again, to keep changes since it was opened
        dataset = read_dataset(self.path)
        refuse_frozen(dataset, self.path)
        applied = apply_answers(dataset, self.log.answers)
        self.writes = self.writes or bool(applied.changed)
        labelled = with_sources(applied.dataset) if self.log.answers else applied.dataset
        if labelled is not dataset and self.writes:
            write_dataset(labelled, self.path)
        self.dataset, self.left = labelled, applied.left
        if session is not None and self.writes:
            weights = {query: round(weight, 6) for query, weight in session.sample().weights().items()}
            write_weights(self.path, weights, session.queue.stratum_of())
        return applied

    def correct(self, patch: Path) -> int:
        """Apply a patch of `data review` to the files of the dataset; returns the number of changed labels.

        Raises:
            InputError: the patch is invalid or outdated; nothing is applied.
            StorageError: a file cannot be read or written.
        """
        corrected, changed = patched(self.dataset, patch)
        self.dataset = with_sources(corrected)
        write_dataset(self.dataset, self.path)
        return changed


@contextmanager
def opened(path: Path, *, writes: bool = True) -> Iterator[LabelFolder]:
    """Open and lock the folder of a dataset to label it. Pending answers are written into its files.

    Args:
        path: the folder.
        writes: False = write no files, unless there are pending answers.

    Raises:
        ParameterError: it is frozen, not the folder of a dataset, or open in another session.
        InputError: the dataset or the log is invalid.
    """
    if not (path / CARD).is_file():
        name = path if str(path) in importers() else "NAME"
        raise ParameterError(
            f"{path} is not the folder of a dataset; copy a named dataset with `ctxbench data import {name} --out "
            f"FOLDER`, or import a log with `ctxbench data import`{near_folder(path)}"
        )
    lock = path.resolve().with_name(f".{path.resolve().name}.labelling.lock")

    def check_state() -> None:
        raise ParameterError(f"{path} is being labelled by another session; wait for its end")

    with exclusive(lock, waiting=check_state):
        dataset = read_dataset(path)
        refuse_frozen(dataset, path)
        log = AnswerLog(path / FOLDER / LOG)
        notes = [log.repaired] if log.repaired else []
        folder = LabelFolder(path=path, dataset=dataset, log=log, notes=notes, writes=writes)
        applied = folder.save()
        if applied.changed:
            notes.append(Message("labelling.answers-saved", n=len(applied.changed)))
        if applied.left:
            names = ", ".join(applied.left[:3]) + (", ..." if len(applied.left) > 3 else "")
            notes.append(Message("labelling.answers-left", n=len(applied.left), names=names))
        if applied.gone:
            notes.append(Message("labelling.answers-gone", n=len(applied.gone)))
        yield folder


def refuse_frozen(dataset: Dataset, path: Path) -> None:
    """Raise if a dataset is frozen.

    Raises:
        ParameterError: it is frozen.
    """
    if dataset.about.get("frozen"):
        raise ParameterError(
            f"dataset {path} is frozen; copy the folder, remove `frozen` from its card, give it a new version, and use "
            "the copy"
        )


def with_sources(dataset: Dataset) -> Dataset:
    """The dataset with counts and shares of its labels by source in its card.

    The last sentence of `labelling` is replaced, and `notes`, unless they are a text, get `label_sources`.
    """
    counts = Counter(label.source or UNNAMED for label in dataset.labels)
    by_source = {name: {"labels": n, "share": round(n / counts.total(), 4)} for name, n in sorted(counts.items())}
    about = dict(dataset.about)
    if isinstance(about.get("labelling"), str):
        about["labelling"] = _describe_labelling(about["labelling"], dataset, counts)
    if (notes := about.get("notes")) is None or isinstance(notes, Mapping):
        about["notes"] = {**(notes or {}), "label_sources": by_source}
    return dataset if about == dict(dataset.about) else replace(dataset, about=about)


def _describe_labelling(labelling: str, dataset: Dataset, counts: Counter[str]) -> str:
    start = labelling.split(_MARK, maxsplit=1)[0].replace(Message("labelling.not-reviewed"), "").rstrip()
    total = counts.total()
    shares = ", ".join(
        f"{n:,} {name} ({n / total:.1%})" for name, n in sorted(counts.items(), key=lambda pair: -pair[1])
    )
    queries = dataset.queries
    partly = sum(query.partly_labelled for query in queries)
    message = Message(
        "labelling.card-sources",
        total=total,
        shares=shares or "none",
        queries=len(queries),
        judged=len(dataset.judged().queries),
        nothing=sum(query.needs_nothing for query in queries),
        partly=partly,
    )
    return f"{start} {_MARK}{message}".lstrip()
