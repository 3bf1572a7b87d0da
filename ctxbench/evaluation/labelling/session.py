"""A labelling session: what is asked next, what an answer makes of it, and what the figures are by then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from ctxbench.errors import ParameterError
from ctxbench.evaluation.labelling.answers import Answer, AnswerLog, State, active, after, state_before, state_of
from ctxbench.evaluation.labelling.estimate import Figure, Known, Sample, halving
from ctxbench.evaluation.labelling.pool import Pool
from ctxbench.evaluation.labelling.predict import Guess, Predictor, pairs
from ctxbench.evaluation.labelling.queue import Queue
from ctxbench.items import ItemKey

TRACE = "trace"  # the source of labels that a log gave
LONG = 120.0  # seconds from which an answer counts as a break


@dataclass(frozen=True, kw_only=True)
class Candidate:
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
class Prompt:
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
    candidates: tuple[Candidate, ...] = ()
    item: int = -1
    of: int = -1
    signals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a prompt: a kind of `answers.KINDS`, the item where it has one, and yes or no."""

    kind: str
    item: int = -1
    yes: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """Where the figures stand.

    Attributes:
        completeness: one a selector.
        differences: one a pair of selectors.
        halving: by figure name, how many more answers bring its width down to half; None = even all do not.
        answers: pressed so far, taken back ones not counted.
        queries: labelled through by them.
        minutes_per_answer: median, breaks left out; NaN before the first.
        answers_per_query: so far, or as guessed before the first.
    """

    completeness: tuple[Figure, ...]
    differences: tuple[Figure, ...]
    halving: Mapping[str, int | None]
    answers: int
    queries: int
    minutes_per_answer: float
    answers_per_query: float


class Session:
    """Asks, takes answers, estimates. All of it is in the log: a new session over the same log goes on."""

    def __init__(self, predictor: Predictor, queue: Queue, log: AnswerLog, *, clock: Callable[[], str] | None = None):
        self.predictor = predictor
        self.pool: Pool = predictor.pool
        self.queue = queue
        self.log = log
        self._clock = clock or (lambda: datetime.now(UTC).isoformat(timespec="seconds"))
        self._stratum = queue.stratum_of()
        self._before: dict[str, State] = {}
        self._state: dict[str, State] = {}
        self._entries: dict[str, list[Answer]] = {}
        self._active = 0
        for answer in log.answers:
            self._entries.setdefault(answer.query, []).append(answer)
        for query in self._entries:
            self._refresh(query)
        self._active = len(active(log.answers))
        self._turns = queue.turns()
        self._cursor = 0  # turns before this one are answered through
        self._passed = [0] * len(queue.strata)

    # ------------------------------------------------------------------------------------------ states

    def state(self, query_id: str) -> State:
        """What is known of a query by now."""
        return self._state.get(query_id) or self._first_state(query_id)

    def _first_state(self, query_id: str) -> State:
        if query_id not in self._before:
            entries = self._entries.get(query_id)
            if entries and entries[0].before is not None:
                self._before[query_id] = state_before(entries[0])
            else:
                row = self.pool.row[query_id]
                self._before[query_id] = state_of(self.pool.dataset, self.pool.dataset.queries[row])
        return self._before[query_id]

    @property
    def touched(self) -> tuple[str, ...]:
        """The queries that were answered at all, taken back or not."""
        return tuple(self._state)

    def unsettled(self) -> list[str]:
        """The queries whose needs are not known, in order: what a queue is made of."""
        return [query.id for query in self.pool.dataset.queries if not self.through(query.id)]

    def _refresh(self, query_id: str) -> None:
        if query_id in self.pool.row:
            self._state[query_id] = after(self._first_state(query_id), active(self._entries[query_id]))

    def through(self, query_id: str) -> bool:
        """Whether the needs of a query are known, as far as they decide the figures.

        That is: nothing is open by its labels, and of a query that a log or a session labelled, no selector offers an
        item in place of a needed one which it resembles without someone having said whether it would do.
        """
        state = self.state(query_id)
        if state.partly or not (state.nothing or state.required):
            return False
        strict = query_id not in self._state and not any(label.source == TRACE for label in state.required)
        return strict or self._undecided(query_id, state) is None

    # ------------------------------------------------------------------------------------------ asking

    def next(self) -> Prompt | None:
        """The next question; None when nothing is left to ask."""
        while self._cursor < len(self._turns):
            stratum = self._turns[self._cursor]
            queries, place = self.queue.strata[stratum].queries, self._passed[stratum]
            while place < len(queries) and not self._drawn(queries[place]):
                place += 1
            self._passed[stratum] = place
            if place < len(queries) and not self.through(queries[place]):
                return self._prompt(queries[place])
            self._passed[stratum] += 1
            self._cursor += 1
        return next(self._rest(), None)

    def _drawn(self, query_id: str) -> bool:
        """Whether a query of the queue takes its turn: not if it is gone, was skipped, or got labels elsewhere."""
        if query_id not in self.pool.row:
            return False
        state = self._state.get(query_id)
        if state is not None:
            return not state.skipped or self.through(query_id)
        return not self.through(query_id)

    def _prompt(self, query_id: str) -> Prompt:
        state = self.state(query_id)
        exposure = self.pool.exposures.get(query_id)
        signals = tuple(exposure.signals) if exposure else ()
        known = tuple(self._position(label.item) for label in state.required)
        if state.required and not state.partly:
            pair = self._undecided(query_id, state)
            if pair is not None:
                return Prompt(
                    query=query_id, kind="alternative", known=known, item=pair[0], of=pair[1], signals=signals
                )
        return Prompt(
            query=query_id,
            kind="needed",
            known=known,
            candidates=tuple(self._candidates(query_id, state, known)),
            signals=signals,
        )

    def _candidates(self, query_id: str, state: State, known: Sequence[int]) -> Iterator[Candidate]:
        row, guess = self.pool.row[query_id], self._guess(query_id)
        settled = {self._position(label.item) for label in state.labels}
        called = [item for item in guess.called if item not in settled]
        ranked = [item for item in guess.ranked() if item not in settled]
        like = {other: item for item in reversed(known) for other in self.pool.likenesses.of(item)}
        for item in dict.fromkeys([*called, *ranked]):
            offered_by = tuple(one.name for one in self.pool.offers if item in one.offered[row])
            yield Candidate(item=item, offered_by=offered_by, called=item in called, like=like.get(item))

    def _guess(self, query_id: str) -> Guess:
        return self.predictor.guess(query_id)

    def _position(self, key: ItemKey) -> int:
        return self.pool.dataset.catalog.position(key)

    def _undecided(self, query_id: str, state: State) -> tuple[int, int] | None:
        """An item that some selector offers instead of a needed one that it resembles, not asked about yet."""
        return next(self._open_pairs(query_id, state, deciding=True), None)

    def _open_pairs(self, query_id: str, state: State, *, deciding: bool) -> Iterator[tuple[int, int]]:
        row, catalog = self.pool.row[query_id], self.pool.dataset.catalog
        groups = self.pool.groups(state.labels)
        needed = {item for group in groups for item in group}
        asked = {self._position(item) for item, _ in state.judged}
        asked |= {self._position(label.item) for label in state.labels}
        for group in groups:
            met = [any(item in one.offered[row] for item in group) for one in self.pool.offers]
            offered = [one.offered[row] for one, done in zip(self.pool.offers, met, strict=True) if not done]
            for of in group:
                for item in self.pool.likenesses.of(of):
                    if item in needed or item in asked:
                        continue
                    if any(item in one for one in offered) if deciding else catalog[item].enabled:
                        yield item, of

    def _rest(self) -> Iterator[Prompt]:
        """When no query is left: other items that might stand for needed ones."""
        for query_id, state in self._state.items():
            if state.required and not state.partly:
                for item, of in self._open_pairs(query_id, state, deciding=False):
                    known = tuple(self._position(label.item) for label in state.required)
                    yield Prompt(query=query_id, kind="alternative", known=known, item=item, of=of)

    # ------------------------------------------------------------------------------------------ answering

    def answer(self, prompt: Prompt, reply: Reply, *, seconds: float = 0.0) -> Answer:
        """Take the answer to a prompt; it is on disk when this returns.

        Raises:
            ParameterError: the reply does not fit the prompt.
        """
        allowed = ("alternative", "skip") if prompt.kind == "alternative" else (
            "needed", "wrong", "helpful", "done", "nothing", "skip"
        )  # fmt: skip
        if reply.kind not in allowed:
            raise ParameterError(f"this question takes {', '.join(allowed)}; got {reply.kind!r}")
        item = prompt.item if reply.kind == "alternative" else reply.item
        if reply.kind in ("needed", "wrong", "helpful") and not 0 <= item < len(self.pool.dataset.catalog):
            raise ParameterError(f"{reply.kind!r} needs an item of the catalog, got position {item}")
        if reply.kind == "needed" and not self.can_need(prompt.query, item):
            named = self.pool.dataset.catalog.ids[item]
            raise ParameterError(
                f"query {prompt.query!r} cannot need {named!r}: it may not get it, or it is not enabled"
            )
        state = self.state(prompt.query)
        if reply.kind == "done" and not state.required:
            reply = Reply("nothing")  # nothing more than nothing
        if prompt.kind == "alternative" and reply.kind == "skip":
            reply = Reply("alternative", yes=False)  # cannot say: the label stays as strict as it is
        catalog = self.pool.dataset.catalog
        stratum = self._stratum.get(prompt.query, -1)
        made = Answer(
            number=self.log.next_number,
            kind=reply.kind,
            query=prompt.query,
            item=catalog[item].key if item >= 0 and reply.kind not in ("done", "nothing", "skip") else None,
            of=catalog[prompt.of].key if reply.kind == "alternative" else None,
            yes=reply.yes,
            seconds=seconds,
            at=self._clock(),
            stratum=stratum,
            weight=self._weight(prompt.query, stratum),
            before=None if prompt.query in self._entries else state.as_row(),
        )
        self._add(made)
        return made

    def can_need(self, query_id: str, item: int) -> bool:
        """Whether a query may get an item at all: it is enabled, available, and not by hand only."""
        request, found = self.pool.dataset.queries[self.pool.row[query_id]].request, self.pool.dataset.catalog[item]
        if not found.enabled:
            return False
        if any(held.key == found.key for held in request.session or ()):
            return True
        return found.include != "manual" and (request.available is None or found.key in request.available)

    def _weight(self, query_id: str, stratum: int) -> float:
        if stratum < 0:
            return 0.0
        queries = self.queue.strata[stratum].queries
        others = (query for query in self._state if query != query_id and self._stratum.get(query) == stratum)
        return len(queries) / (1 + sum(self.through(query) for query in others))

    def undo(self) -> Answer | None:
        """Take the last answer back, of whatever session; returns it, or None if there is none."""
        standing = active(self.log.answers)
        if not standing:
            return None
        last = standing[-1]
        made = Answer(
            number=self.log.next_number, kind="undo", query=last.query, takes_back=last.number, at=self._clock()
        )
        self._add(made)
        self._cursor = 0
        self._passed = [0] * len(self.queue.strata)
        return last

    def _add(self, answer: Answer) -> None:
        self.log.add(answer)
        self._entries.setdefault(answer.query, []).append(answer)
        self._refresh(answer.query)
        self._active += -1 if answer.kind == "undo" else 1

    @property
    def answers(self) -> int:
        """How many answers stand."""
        return self._active

    # ------------------------------------------------------------------------------------------ figures

    @cached_property
    def _same(self) -> list[frozenset[str]]:
        """By pair of selectors, the queries of the queue for which the two offer the same."""
        found = []
        for i, j in pairs(len(self.pool.offers)):
            first, second = self.pool.offers[i].offered, self.pool.offers[j].offered
            rows = ((query, self.pool.row.get(query)) for query in self._stratum)
            found.append(frozenset(q for q, row in rows if row is not None and first[row] == second[row]))
        return found

    def sample(self) -> Sample:
        """All queries as the estimate sees them."""
        census: list[Known] = []
        strata: list[list[str]] = [[] for _ in self.queue.strata]
        answered: dict[str, Known] = {}
        for query in self.pool.dataset.queries:
            stratum = self._stratum.get(query.id)
            known = self._known(query.id)
            if stratum is None:
                if known is not None:
                    census.append(known)
            elif known is None or query.id in self._state:
                strata[stratum].append(query.id)
                if known is not None:
                    answered[query.id] = known
            else:
                census.append(known)  # labelled by other means since the queue was made
        return Sample(
            selectors=self.pool.names,
            census=census,
            strata=strata,
            answered=answered,
            same=self._same,
            guesses=self._guesses(),
        )

    def _known(self, query_id: str) -> Known | None:
        if not self.through(query_id):
            return None
        groups = self.pool.groups(self.state(query_id).labels)
        return Known(needs=bool(groups), complete=self.pool.complete(self.pool.row[query_id], groups))

    def _guesses(self) -> list[tuple[Sequence[float], Sequence[float], Sequence[float]]]:
        """By stratum; even chances for selectors that the queue was not made for."""
        n = len(self.pool.offers)
        if self.pool.names == self.queue.selectors:
            return [(one.complete, one.first, one.second) for one in self.queue.strata]
        even = ((0.5,) * n, (0.25,) * len(pairs(n)), (0.25,) * len(pairs(n)))
        return [even] * len(self.queue.strata)

    def report(self) -> Report:
        """Where the figures stand."""
        sample = self.sample()
        n = len(self.pool.offers)
        complete = tuple(sample.complete(i) for i in range(n))
        ahead = tuple(sample.ahead(k, i, j) for k, (i, j) in enumerate(pairs(n)))
        to_come = self._turns_to_come(sample)
        through = len(sample.answered)
        standing = active(self.log.answers)
        per_query = len(standing) / through if through else self._guessed_answers()
        more: dict[str, int | None] = {}
        for i, figure in enumerate(complete):
            more[figure.name] = _answers(halving(sample.share_tally(i), to_come, kind="share"), per_query)
        for k, (i, j) in enumerate(pairs(n)):
            tally = sample.difference_tally(k, i, j)
            more[ahead[k].name] = _answers(halving(tally, to_come, kind="difference"), per_query)
        times = sorted(answer.seconds for answer in standing if 0 < answer.seconds < LONG)
        return Report(
            completeness=complete,
            differences=ahead,
            halving=more,
            answers=len(standing),
            queries=through,
            minutes_per_answer=times[len(times) // 2] / 60.0 if times else float("nan"),
            answers_per_query=per_query,
        )

    def _turns_to_come(self, sample: Sample) -> list[int]:
        left = [sum(query in sample.answered for query in queries) for queries in sample.strata]
        to_come = []
        for stratum in self._turns:
            if left[stratum] > 0:
                left[stratum] -= 1
            else:
                to_come.append(stratum)
        return to_come

    def _guessed_answers(self) -> float:
        sizes = [len(stratum.queries) for stratum in self.queue.strata]
        total = sum(sizes)
        expected = sum(n * stratum.answers for n, stratum in zip(sizes, self.queue.strata, strict=True))
        return expected / total if total else 1.0


def _answers(queries: int | None, per_query: float) -> int | None:
    return None if queries is None else round(queries * per_query + 0.499)
