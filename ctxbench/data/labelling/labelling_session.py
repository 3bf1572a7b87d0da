"""A labelling session: the next question, the answers, and the figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import combinations

from ctxbench.core.errors import ParameterError
from ctxbench.data.labelling.answer_log import AnswerLog, KeyPress, State, active
from ctxbench.data.labelling.estimate import Figure, Known, Sample
from ctxbench.data.labelling.pool import Pool
from ctxbench.data.labelling.predict import Predictor, pairs
from ctxbench.data.labelling.queue import Queue
from ctxbench.data.labelling.states import States

LONG = 120.0  # seconds from which an answer counts as a break


@dataclass(frozen=True, kw_only=True)
class LikelyItem:
    """An item that may be needed.

    Attributes:
        item: catalog position.
        offered_by: the selectors that offer it.
        called: the log has it called.
        like: catalog position of an item on the list of what is needed that it resembles, or None.
    """

    item: int
    offered_by: tuple[str, ...]
    called: bool
    like: int | None


@dataclass(frozen=True, kw_only=True)
class LabelPrompt:
    """One question, answered with one key.

    Attributes:
        query: its id.
        kind: `needed` (what is needed beside what is known to be?), or `alternative` (would `item` do as well as
            `of`?).
        known: positions of what is known to be needed.
        candidates: what may be needed, the likeliest first; empty for an alternative.
        item, of: of an alternative.
        signals: what the log says of a likely miss.
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
    """An answer to a prompt: a kind of `answers.KINDS`, the item where it has one, and yes, no or None (unknown)."""

    kind: str
    item: int = -1
    yes: bool | None = None


class LabellingSession:
    """Asks, takes answers, estimates. The state is in the log: a new session over the same log continues.

    Attributes:
        state: gives what is known of a query by now.
        through: says whether the needs of a query are known, as far as they decide the figures (`States.through`).
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
        """Start, or continue.

        Args:
            predictor: over the pool.
            queue: the sample.
            log: of answers.
            left: queries whose answers do not count, since their labels were changed by other means (`Applied.left`).
            clock: what time it is, ISO 8601.
        """
        self.predictor = predictor
        self.pool: Pool = predictor.pool
        self.queue = queue
        self.log = log
        self._clock = clock or (lambda: datetime.now(UTC).isoformat(timespec="seconds"))
        self._stratum = queue.stratum_of()
        self._states = States(self.pool, log.answers, left=left)
        self.state, self.through = self._states.current, self._states.through
        self._turns = queue.turns()
        self._cursor = 0  # turns before this one are answered through
        self._passed = [0] * len(queue.strata)
        self._given_up: set[str] = set()  # skipped again at the end

    def unsettled(self) -> list[str]:
        """The queries whose required items are not known, in order, for a queue."""
        return [query.id for query in self.pool.dataset.queries if not self.through(query.id)]

    # ------------------------------------------------------------------------------------------ asking

    def next(self) -> LabelPrompt | None:
        """The next question; None if there is none. Skipped ones are asked again once, at the end."""
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
            done = query_id in self._states.left or self.through(query_id) or query_id in self._given_up
            if doubtful and not done:
                return self._prompt(query_id)
        return next(self._rest(), None)

    def _drawn(self, query_id: str) -> bool:
        """Whether a query of the queue takes its turn: not if it is gone, was skipped, or got labels elsewhere."""
        if query_id not in self.pool.row:
            return False
        if query_id in self._states.touched:
            return not self.state(query_id).skipped or self.through(query_id)
        return not self.through(query_id)

    def _prompt(self, query_id: str) -> LabelPrompt:
        state = self.state(query_id)
        exposure = self.pool.exposures.get(query_id)
        signals = tuple(exposure.signals) if exposure else ()
        required = self.pool.positions(label.item for label in state.required)
        if state.required and not state.partly:
            pair = self._states.undecided(query_id, state) or self._states.undecided(
                query_id, state, include_unsure=True
            )
            if pair is not None:
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
        for item in dict.fromkeys([*guess.called, *guess.ranked()]):
            if item not in passed_over:
                offered_by = tuple(offers.name for offers in self.pool.offers if item in offers.offered[row])
                yield LikelyItem(item=item, offered_by=offered_by, called=item in guess.called, like=like.get(item))

    def _rest(self) -> Iterator[LabelPrompt]:
        """After the last query: other items that may be alternatives of required ones."""
        for query_id in self._states.touched:
            state = self.state(query_id)
            if state.required and not state.partly and query_id not in self._states.left:
                for item, of in self._states.open_pairs(query_id, state, deciding=False):
                    required = self.pool.positions(label.item for label in state.required)
                    yield LabelPrompt(query=query_id, kind="alternative", known=required, item=item, of=of)

    # ------------------------------------------------------------------------------------------ answering

    def answer(self, prompt: LabelPrompt, reply: PromptAnswer, *, seconds: float = 0.0) -> KeyPress:
        """Store the answer to a prompt; it is on disk when this returns.

        Raises:
            ParameterError: the reply does not fit the prompt.
        """
        allowed = ("alternative", "skip") if prompt.kind == "alternative" else (
            "needed", "wrong", "helpful", "done", "nothing", "skip"
        )  # fmt: skip
        if reply.kind not in allowed:
            raise ParameterError(f"this question takes {', '.join(allowed)}; got {reply.kind!r}")
        if prompt.kind == "alternative" and reply.kind == "skip":
            reply = PromptAnswer("alternative")  # neither yes nor no
        catalog = self.pool.dataset.catalog
        item = prompt.item if reply.kind == "alternative" else reply.item
        if reply.kind in ("needed", "wrong", "helpful") and not 0 <= item < len(catalog):
            raise ParameterError(f"{reply.kind!r} needs an item of the catalog, got position {item}")
        if reply.kind == "needed" and not self.can_need(prompt.query, item):
            raise ParameterError(
                f"query {prompt.query!r} cannot need {catalog.ids[item]!r}: it may not get it, or it is not enabled"
            )
        state = self.state(prompt.query)
        if reply.kind == "done" and not state.required:
            reply = PromptAnswer("nothing")  # nothing more than nothing
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
        """Whether a query may get an item at all: it is enabled, available, and not by hand only."""
        request, found_item = (
            self.pool.dataset.queries[self.pool.row[query_id]].request,
            self.pool.dataset.catalog[item],
        )
        is_held = any(held_item.key == found_item.key for held_item in request.session or ())
        offered = found_item.include != "manual" and (request.available is None or found_item.key in request.available)
        return found_item.enabled and (is_held or offered)

    def grade_of(self, query_id: str, item: int) -> int | None:
        """The grade of an item for a query: 2 needed, 1 helpful, 0 not needed; None = not marked."""
        key = self.pool.dataset.catalog[item].key
        return next((label.grade for label in self.state(query_id).labels if label.item == key), None)

    def undo(self) -> KeyPress | None:
        """Withdraw the last answer, of any session; returns it, or None if there is none."""
        standing = active(self.log.answers)
        if not standing:
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
        """By pair of selectors, the queries of the queue for which the two offer the same."""
        rows = {query: self.pool.row[query] for query in self._stratum if query in self.pool.row}
        return [
            frozenset(query for query, row in rows.items() if first.offered[row] == second.offered[row])
            for first, second in combinations(self.pool.offers, 2)
        ]

    def sample(self) -> Sample:
        """All queries as the estimate sees them.

        Whether a query belongs to the sample is decided by what was known of it before its first answer, and by the
        selectors of now, so that it does not depend on what was answered.
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
        """The guesses by stratum; made anew for selectors that the queue was not made for."""
        if self.pool.names == self.queue.selectors:
            return [(stratum.complete, stratum.first, stratum.second) for stratum in self.queue.strata]
        return [self._guess_anew(stratum.queries) for stratum in self.queue.strata]

    def _guess_anew(self, queries: Iterable[str]) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
        """The guessed shares of a stratum's queries that still exist; even chances if there are none."""
        present = [query for query in queries if query in self.pool.row]
        if not present:
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
        completeness: one a selector.
        differences: one a pair of selectors.
        halving: by figure name, how many more answers bring its width down to half; None = even all do not.
        answers: pressed so far, taken back ones not counted.
        queries: labelled through by them.
        unsure: queries in doubt: skipped, or not asked what would do as well.
        minutes_per_answer: median, breaks left out; NaN before the first.
        answers_per_query: so far, or as guessed before the first.
    """

    completeness: tuple[Figure, ...]
    differences: tuple[Figure, ...]
    halving: Mapping[str, int | None]
    answers: int
    queries: int
    unsure: int
    minutes_per_answer: float
    answers_per_query: float


def report_on(sample: Sample, queue: Queue, answers: Sequence[KeyPress]) -> Report:
    """Estimate every figure.

    Args:
        sample: of now.
        queue: that it was drawn by.
        answers: the log.
    """
    n = len(sample.selectors)
    complete = tuple(sample.complete(i) for i in range(n))
    ahead = tuple(sample.ahead(k, i, j) for k, (i, j) in enumerate(pairs(n)))
    to_come = _turns_to_come(sample, queue)
    standing = active(answers)
    per_query = len(standing) / len(sample.answered) if sample.answered else _guessed_answers(queue)
    gaps = [
        *(sample.halving_of(i, to_come) for i in range(n)),
        *(sample.halving_between(k, i, j, to_come) for k, (i, j) in enumerate(pairs(n))),
    ]
    names = (figure.name for figure in (*complete, *ahead))
    times = sorted(answer.seconds for answer in standing if 0 < answer.seconds < LONG)
    return Report(
        completeness=complete,
        differences=ahead,
        halving={
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
