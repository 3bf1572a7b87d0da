"""Answers of selectors outside ctxbench: what they may say, and how they become candidates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from ctxbench.candidates import Candidates, Origin, concatenated
from ctxbench.errors import SelectorError, suggest
from ctxbench.items import Catalog, ItemKey
from ctxbench.requests import Batch
from ctxbench.selectors.protocol import VERSION, Reply, quoted

NOT_CHOSEN = "ranked by the selector, not chosen"

_KEYS = ("ctxbench", "query", "items", "ranking", "error", "build", "metadata")


@dataclass(frozen=True, slots=True)
class Answer:
    """A checked answer.

    Attributes:
        item: catalog positions of all rows, ranked or chosen, in the order given; none of them in the session.
        score: by row, finite; None where the selector gave only an order (or nothing).
        chosen: the positions that are offered; a subset of `item`.
        ranked: the selector gave a ranking, be it empty.
        build: what the selector says answered, or None.
        held: how many items it offered that the session holds already; they are not counted twice.
    """

    item: tuple[int, ...]
    score: tuple[float, ...] | None
    chosen: frozenset[int]
    ranked: bool
    build: str | None
    held: int


class AnswerReader:
    """Checks the answers for one batch.

    A selector outside ctxbench decides for itself what it offers: any enabled item that is available to the
    request, of whatever include mode.
    """

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._names = _Names(batch.catalog)
        self._scopes: dict[tuple[ItemKey, ...], frozenset[int]] = {}

    def read(self, row: int, reply: Reply) -> Answer:
        """Check what came back for one request of the batch.

        Raises:
            SelectorError: there is no answer, or it is none; says the query, what is wrong and what was expected.
        """
        try:
            return self._read(row, reply)
        except SelectorError as error:
            place = f" ({reply.where})" if reply.where else ""
            raise SelectorError(f"query {self._batch.requests[row].id!r}: {error}{place}") from error

    def _read(self, row: int, reply: Reply) -> Answer:
        if reply.error:
            raise SelectorError(reply.error)
        answer = reply.answer
        self._check_shape(row, answer)
        available = self._available(row)
        held = self._held(row)
        items = _Rows.read("items", answer["items"], self._names, available)
        ranking = answer.get("ranking")
        if ranking is None:
            rows = items.without(held)
            chosen = rows.item
        else:
            ranked = _Rows.read("ranking", ranking, self._names, available)
            rows = ranked.without(held)
            chosen = items.without(held).item
            self._check_chosen(items.without(held), rows)
        return Answer(
            item=rows.item,
            score=rows.score,
            chosen=frozenset(chosen),
            ranked=ranking is not None,
            build=answer.get("build"),
            held=len(items.item) - len(chosen),
        )

    def _check_shape(self, row: int, answer: Any) -> None:
        if not isinstance(answer, Mapping):
            raise SelectorError(f"an answer must be an object with query and items, got {quoted(answer)}")
        unknown = [key for key in answer if key not in _KEYS]
        if unknown:
            raise SelectorError(f"an answer has no key {quoted(unknown[0])}{suggest(str(unknown[0]), _KEYS)}")
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
        place = {item: row for row, item in enumerate(ranking.item)}
        for row, item in enumerate(items.item):
            name = self._batch.catalog.ids[item]
            if item not in place:
                raise SelectorError(f"item {name!r} is chosen but is not in ranking; a ranking holds all chosen items")
            if items.score is None:
                continue
            if ranking.score is None:
                raise SelectorError("items have scores and ranking has none; give ranking the scores too")
            if items.score[row] != ranking.score[place[item]]:
                raise SelectorError(
                    f"item {name!r} has score {items.score[row]!r} in items and {ranking.score[place[item]]!r} in "
                    "ranking; expected the same"
                )

    def _held(self, row: int) -> frozenset[int]:
        start = self._batch.session_start
        return frozenset(self._batch.session_item[start[row] : start[row + 1]].tolist())

    def _available(self, row: int) -> frozenset[int] | None:
        keys = self._batch.requests[row].available
        if keys is None:
            return None
        if keys not in self._scopes:
            self._scopes[keys] = frozenset(self._batch.catalog.position(key) for key in keys)
        return self._scopes[keys]


class _Names:
    """Positions by id, and the id that a wrong one probably means."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.position = {name: position for position, name in enumerate(catalog.ids)}

    def find(self, name: str, what: str) -> int:
        position = self.position.get(name)
        if position is None:
            raise SelectorError(f"{what} has id {quoted(name)}, which the catalog does not hold{self._hint(name)}")
        return position

    def _hint(self, name: str) -> str:
        meant = self._by_name.get(name.casefold())
        if meant:
            return f"; did you mean {meant!r}?"
        return f"; ids look like {self.catalog.ids[0]!r}" if self.catalog.ids else "; it is empty"

    @cached_property
    def _by_name(self) -> dict[str, str]:
        """Ids by the forms that people write instead: the name, server:name, and the id not encoded."""
        forms: dict[str, str] = {}
        for item in self.catalog:
            plain = ":".join(part for part in item.key if part is not None)
            for form in (item.name, f"{item.server}:{item.name}", f"{item.server}.{item.name}", plain, item.id):
                forms.setdefault(form.casefold(), item.id)
        return forms


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of `items` or `ranking`: positions and scores, in the order given."""

    item: tuple[int, ...]
    score: tuple[float, ...] | None

    @classmethod
    def read(cls, what: str, rows: Any, names: _Names, available: frozenset[int] | None) -> _Rows:
        if not isinstance(rows, Sequence) or isinstance(rows, str | bytes):
            raise SelectorError(f"{what} must be a list of {{id, score}}, got {quoted(rows)}")
        if len(rows) > len(names.catalog):
            raise SelectorError(f"{what} has {len(rows)} rows, but the catalog has {len(names.catalog)} items")
        seen: dict[int, int] = {}
        scores: list[float] = []
        for place, row in enumerate(rows):
            where = f"{what}[{place}]"
            position = _offerable(where, row, names, available)
            first = seen.setdefault(position, place)
            if first != place:
                raise SelectorError(f"{what}[{first}] and {where} are the same item {row['id']!r}; name an item once")
            if "score" in row:
                scores.append(_score(f"{where} ({row['id']!r})", row["score"]))
            if len(scores) not in (0, place + 1):
                raise SelectorError(
                    f"{what} mixes rows with and without a score ({what}[0] and {where}); give all of them one, or none"
                )
        return cls(tuple(seen), tuple(scores) if scores else None)

    def without(self, held: frozenset[int]) -> _Rows:
        if held.isdisjoint(self.item):
            return self
        keep = [row for row, item in enumerate(self.item) if item not in held]
        score = None if self.score is None else tuple(self.score[row] for row in keep)
        return _Rows(tuple(self.item[row] for row in keep), score or None)


def _offerable(where: str, row: Any, names: _Names, available: frozenset[int] | None) -> int:
    """The position of the item that a row names, which the request may get."""
    if not isinstance(row, Mapping):
        raise SelectorError(f"{where} must be an object with id, and score if there is one, got {quoted(row)}")
    unknown = [key for key in row if key not in ("id", "score")]
    if unknown:
        raise SelectorError(f"{where} has an unknown key{suggest(str(unknown[0]), ('id', 'score'))}")
    if not isinstance(row.get("id"), str):
        raise SelectorError(f"{where} needs the id of an item, got {quoted(row.get('id'))}")
    position = names.find(row["id"], where)
    if not names.catalog[position].enabled:
        raise SelectorError(f"{where} names {row['id']!r}, which is not enabled; it cannot be offered")
    if available is not None and position not in available:
        raise SelectorError(
            f"{where} names {row['id']!r}, which is not available to this request; offer only what its "
            "available list holds"
        )
    return position


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
        the selector's, or -1, -2, ... in the order given; equal scores stand in catalog order.
    """
    rows = [(row, answer) for row, answer in sorted(answers.items()) if answer.item]
    request = np.repeat(
        np.array([row for row, _ in rows], dtype=np.int64),
        np.array([len(answer.item) for _, answer in rows], dtype=np.int64),
    )
    item = np.array([position for _, answer in rows for position in answer.item], dtype=np.int64)
    score = np.array([score for _, answer in rows for score in _scores(answer)], dtype=np.float64)
    left = np.array([position not in answer.chosen for _, answer in rows for position in answer.item], dtype=np.int64)
    owner = np.repeat(np.arange(len(batch), dtype=np.int64), np.diff(batch.session_start))
    session = Candidates.build(
        len(batch),
        owner,
        batch.session_item,
        origin=np.full(len(owner), Origin.SESSION, dtype=np.int64),
        mode=batch.session_mode,
    )
    found = Candidates.build(len(batch), request, item, score=score, out=left)
    return concatenated([session, replace(found, rules=("", NOT_CHOSEN))])


def _scores(answer: Answer) -> Sequence[float]:
    if answer.score is not None:
        return answer.score
    return [-float(place) for place in range(1, len(answer.item) + 1)]
