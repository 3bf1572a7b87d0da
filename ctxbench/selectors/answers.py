"""Answers of external selectors: what they may say, and how they become candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from ctxbench.core.candidate_tables import concatenated, session_rows
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import SelectorError, suggest
from ctxbench.core.item_suggestions import suggest_items
from ctxbench.core.requests import Batch, Filter
from ctxbench.core.rules import NOT_CHOSEN, Rule
from ctxbench.core.times import instant
from ctxbench.selectors.protocol import ANSWER_KEYS, VERSION, RawAnswer, quoted


@dataclass(frozen=True, slots=True)
class Answer:
    """A checked answer.

    Attributes:
        item: catalog positions of all rows, ranked or chosen, in the order given; none of them in the session.
        score: by row, finite; None where the selector gave only an order (or nothing).
        chosen: the positions that are offered; a subset of `item`.
        ranked: the selector gave a ranking, be it empty.
        build: what the selector says answered, or None.
        n_in_session: how many items it offered that the session holds already; they are not counted twice.
    """

    item: tuple[int, ...]
    score: tuple[float, ...] | None
    chosen: frozenset[int]
    ranked: bool
    build: str | None
    n_in_session: int


class AnswerReader:
    """Checks the answers for one batch.

    A selector may offer what any search may (`Batch.eligible`): items of include mode `agent` that are enabled and
    available to the request. What the session holds may be named too; it is counted and offered once, by the session.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._position = {name: position for position, name in enumerate(batch.catalog.ids)}

    def read(self, row: int, reply: RawAnswer) -> Answer:
        """Check the answer to one request of the batch.

        Raises:
            SelectorError: there is no answer, or it is none; says the query, what is wrong and what was expected.
        """
        try:
            return self._read(row, reply)
        except SelectorError as error:
            location = f" ({reply.where})" if reply.where else ""
            raise SelectorError(f"query {self._batch.requests[row].id!r}: {error}{location}") from error

    def _read(self, row: int, reply: RawAnswer) -> Answer:
        if reply.error:
            raise SelectorError(reply.error)
        answer = reply.answer
        self._check_shape(row, answer)
        start = self._batch.session_start
        in_session = frozenset(self._batch.session_item[start[row] : start[row + 1]].tolist())
        items = self._rows("items", answer["items"], row, in_session)
        ranking = answer.get("ranking")
        if ranking is None:
            rows = items.without(in_session)
            chosen = rows.item
        else:
            ranked = self._rows("ranking", ranking, row, in_session)
            rows = ranked.without(in_session)
            chosen = items.without(in_session).item
            self._check_chosen(items.without(in_session), rows)
        return Answer(
            item=rows.item,
            score=rows.score,
            chosen=frozenset(chosen),
            ranked=ranking is not None,
            build=answer.get("build"),
            n_in_session=len(items.item) - len(chosen),
        )

    def _check_shape(self, row: int, answer: Any) -> None:
        if not isinstance(answer, Mapping):
            raise SelectorError(f"an answer must be an object with query and items, got {quoted(answer)}")
        unknown = [key for key in answer if key not in ANSWER_KEYS]
        if unknown:
            raise SelectorError(f"an answer has no key {quoted(unknown[0])}{suggest(str(unknown[0]), ANSWER_KEYS)}")
        version = answer.get("ctxbench", VERSION)
        if version != VERSION or isinstance(version, bool):
            raise SelectorError(f"ctxbench must be {VERSION}, the version of the protocol, got {quoted(version)}")
        if answer.get("query") != self._batch.requests[row].id:
            raise SelectorError(f"the answer is for query {quoted(answer.get('query'))}")
        for key in ("error", "build"):
            text = answer.get(key)
            if text is not None and not (isinstance(text, str) and text):
                raise SelectorError(f"{key} must be a text that is not empty, or be left out, got {quoted(text)}")
        if answer.get("error") is not None:
            raise SelectorError(f"the selector reported an error: {answer['error'][:1000]}")
        if "items" not in answer:
            raise SelectorError("the answer has no items; choose nothing with an empty list")

    def _check_chosen(self, items: _Rows, ranking: _Rows) -> None:
        ranked_row = {item: row for row, item in enumerate(ranking.item)}
        for row, item in enumerate(items.item):
            name = self._batch.catalog.ids[item]
            if item not in ranked_row:
                raise SelectorError(f"item {name!r} is chosen but is not in ranking; a ranking holds all chosen items")
            if items.score is None:
                continue
            if ranking.score is None:
                raise SelectorError("items have scores and ranking has none; give ranking the scores too")
            if items.score[row] != ranking.score[ranked_row[item]]:
                raise SelectorError(
                    f"item {name!r} has score {items.score[row]!r} in items and "
                    f"{ranking.score[ranked_row[item]]!r} in ranking; expected the same"
                )

    def _rows(self, key: str, rows: Any, row: int, in_session: frozenset[int]) -> _Rows:
        """Check the rows of `items` or `ranking` of one request."""
        if not isinstance(rows, Sequence) or isinstance(rows, str | bytes):
            raise SelectorError(f"{key} must be a list of {{id, score}}, got {quoted(rows)}")
        if len(rows) > len(self._batch.catalog):
            raise SelectorError(f"{key} has {len(rows)} rows, but the catalog has {len(self._batch.catalog)} items")
        positions: dict[int, int] = {}
        scores: list[float] = []
        for index, named in enumerate(rows):
            where = f"{key}[{index}]"
            position = self._position_of(where, named)
            if not self._batch.eligible[row, position] and position not in in_session:
                raise SelectorError(f"{where} names {self._why_not(row, position)}")
            first = positions.setdefault(position, index)
            if first != index:
                raise SelectorError(f"{key}[{first}] and {where} are the same item {named['id']!r}; name an item once")
            if "score" in named:
                scores.append(_score(f"{where} ({named['id']!r})", named["score"]))
            if len(scores) not in (0, index + 1):
                raise SelectorError(
                    f"{key} mixes rows with and without a score ({key}[0] and {where}); give all of them one, or none"
                )
        return _Rows(tuple(positions), tuple(scores) if scores else None)

    def _position_of(self, where: str, row: Any) -> int:
        """The position of the item that a row names."""
        if not isinstance(row, Mapping):
            raise SelectorError(f"{where} must be an object with id, and score if there is one, got {quoted(row)}")
        unknown = [key for key in row if key not in ("id", "score")]
        if unknown:
            raise SelectorError(f"{where} has an unknown key{suggest(str(unknown[0]), ('id', 'score'))}")
        name = row.get("id")
        if not isinstance(name, str):
            raise SelectorError(f"{where} needs the id of an item, got {quoted(name)}")
        position = self._position.get(name)
        if position is None:
            raise SelectorError(f"{where} has id {quoted(name)}, which the catalog does not hold{self._hint(name)}")
        return position

    def _why_not(self, row: int, position: int) -> str:
        """The id of an item that a search may not offer to a request, and why."""
        item, request = self._batch.catalog[position], self._batch.requests[row]
        available, mode = request.available, item.include
        listed = "`ctxbench data export DATASET --requests FILE --may-offer` lists what is"
        by_hand = "it is added by hand only; offer items of include mode agent"
        advice = "and which this session does not hold; offer items of include mode agent"
        allowed = (request.only or Filter()).of(self._batch.catalog)
        whys = (
            (self._unseen(row, position), not self._batch.visible[row, position]),
            ("which is not enabled; it cannot be offered", not item.enabled),
            (f"which is not available to this request; {listed}", available is not None and item.key not in available),
            ("which the user removed from the session; no selector brings it back", item.key in request.removed),
            (
                "which is outside of what this request restricts its search to; offer only what its `only` leaves",
                not allowed[position],
            ),
            (f"whose include mode is manual: {by_hand}", mode == "manual"),
            (f"whose include mode is {mode}, {advice}", True),
        )
        return f"{item.id!r}, {next(why for why, applies in whys if applies)}"

    def _unseen(self, row: int, position: int) -> str:
        """Why a request may not see an item."""
        item, request = self._batch.catalog[position], self._batch.requests[row]
        for attribute in ("workspace", "user"):
            its, of_request = getattr(item, attribute), getattr(request, attribute)
            if its not in (None, of_request):
                clause = f"is of another one, {of_request!r}" if of_request is not None else "names none"
                return f"which this query may not see: it is of {attribute} {its!r}, and the query {clause}"
        if request.time is None:
            return (
                f"which this query may not see: it ends ({item.until}), and a query without a time sees what does not"
            )
        if item.created is not None and instant(item.created) > instant(request.time):
            return (
                f"which this query may not see: it was created later ({item.created}; the query is of {request.time})"
            )
        return f"which this query may not see: it had ended ({item.until}; the query is of {request.time})"

    def _hint(self, name: str) -> str:
        """The id that was probably meant, or an example of an id."""
        catalog = self._batch.catalog
        if catalog.facts.hidden:  # a suggested name may be of an item that this request may not see
            return ""
        likely = self._by_name.get(name.casefold())
        if likely:
            return f"; did you mean {likely!r}?"
        if close := suggest_items(name, catalog.ids) if ":" in name else "":
            return close
        form = "ids look like" if ":" in name else "expected type:name or type:server:name, such as"
        return f"; {form} {catalog.ids[0]!r}" if catalog.ids else "; it is empty"

    @cached_property
    def _by_name(self) -> dict[str, str]:
        """Ids by other forms that people write: the name, server:name, and the id not encoded."""
        forms: dict[str, str] = {}
        for item in self._batch.catalog:
            plain = ":".join(part for part in item.key if part is not None)
            for form in (item.name, f"{item.server}:{item.name}", f"{item.server}.{item.name}", plain, item.id):
                forms.setdefault(form.casefold(), item.id)
        return forms


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of `items` or `ranking`: positions and scores, in the order given."""

    item: tuple[int, ...]
    score: tuple[float, ...] | None

    def without(self, in_session: frozenset[int]) -> _Rows:
        if in_session.isdisjoint(self.item):
            return self
        keep = [row for row, item in enumerate(self.item) if item not in in_session]
        score = None if self.score is None else tuple(self.score[row] for row in keep)
        return _Rows(tuple(self.item[row] for row in keep), score or None)


def _score(where: str, value: Any) -> float:
    if value is None:
        raise SelectorError(
            f"the score of {where} is null; expected a finite number, or no score (JavaScript writes NaN as null)"
        )
    if isinstance(value, bool) or not isinstance(value, Real):
        raise SelectorError(f"the score of {where} is {quoted(value)}; expected a finite number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SelectorError(f"the score of {where} is {number}; expected a finite number")
    return number


def table(batch: Batch, answers: Mapping[int, Answer]) -> Candidates:
    """Put answers into candidates, behind what the session holds.

    Args:
        batch: the requests.
        answers: by row of the batch; a request without one has its session rows only.

    Returns:
        Rows of origin search and mode agent; ranked rows that are not chosen are out by `NOT_CHOSEN`. The score is
        the selector's, or -1, -2, ... in the order given; equal scores are in catalog order.
    """
    rows = [(row, answer) for row, answer in sorted(answers.items()) if answer.item]
    request = np.repeat(
        np.array([row for row, _ in rows], dtype=np.int64),
        np.array([len(answer.item) for _, answer in rows], dtype=np.int64),
    )
    item = np.array([position for _, answer in rows for position in answer.item], dtype=np.int64)
    score = np.array([score for _, answer in rows for score in _scores(answer)], dtype=np.float64)
    left = np.array([position not in answer.chosen for _, answer in rows for position in answer.item], dtype=np.int64)
    candidates = Candidates.build(len(batch), request, item, score=score, out=left)
    return concatenated([session_rows(batch), replace(candidates, rules=(None, Rule.of(NOT_CHOSEN)))])


def _scores(answer: Answer) -> Sequence[float]:
    if answer.score is not None:
        return answer.score
    return [-float(rank) for rank in range(1, len(answer.item) + 1)]
