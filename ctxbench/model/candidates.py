"""Candidates: one row per item and request, with scores, exclusion rules and token counts.

A rule is a code with values. Its words are a template that the strategy declares:

    rule_words: ClassVar[Mapping[str, str]] = {"first": "beyond the first n={n}"}

A code without a template is shown with its values in brackets.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache, cached_property, lru_cache
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ctxbench.io.errors import CtxbenchError, ParameterError, SelectorError
from ctxbench.model import registry
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray, firsts, frozen, owners, starts
from ctxbench.model.items import Catalog, Item

KINDS = ("late", "failed", "fell back")


@dataclass(frozen=True, slots=True)
class Note:
    """A note that a step was late, failed, or fell back, so that the answer lacks its part.

    A strategy leaves one with what it returns: `replace(query, notes=(*query.notes, note))` from an analysis,
    `candidates.noted(note)` from any step behind.

    Attributes:
        step: which, for example `retrieve.words`.
        kind: one of `KINDS`.
        message: what happened and what was done instead, in a sentence.
        query: the id of the query that it is of; empty = of all that were asked together.
    """

    step: str
    kind: str
    message: str
    query: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(f"a note is of kind {', '.join(KINDS)}, got {self.kind!r}")

    def as_dict(self) -> dict[str, Any]:
        """The note as JSON, without empty values."""
        row = {"step": self.step, "kind": self.kind, "message": self.message}
        return {**row, "query": self.query} if self.query else row

    def __str__(self) -> str:
        return f"{self.step} {'was late' if self.kind == 'late' else self.kind}: {self.message}"


Value: TypeAlias = int | float | str

TEXT = "text"  # the code of a rule that was stored as a sentence, before rules were codes
NOT_CHOSEN, AS_MANY_AS, SHOWN_TOO_LITTLE = "not_chosen", "as_many_as", "shown_too_little"
BY_FUNCTION = "function"
"""The code of the rule that excludes what a function from Python does not offer."""
_WITHOUT_A_STEP = {
    TEXT: "{text}",
    NOT_CHOSEN: "ranked by the selector, not chosen",
    SHOWN_TOO_LITTLE: "only a part of it is shown, without what the query needs",
    AS_MANY_AS: "beyond as many items as {selector} offers",
    BY_FUNCTION: "left out by {function}",
}
"""The words of rules that no registered step makes."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Why a row is out.

    Attributes:
        code: which rule it is, such as `topK`; never empty.
        values: what it was compared with, by name and in the order of names; a value that is a parameter of the step
            has the parameter's name. Numbers are finite.

    Written as text, it is a sentence for a person.
    """

    code: str
    values: tuple[tuple[str, Value], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.code, str) or not self.code:
            raise ParameterError(f"a rule that keeps rows out needs a code that says which, got {self.code!r}")
        plain = tuple(sorted((name, _plain(self.code, name, value)) for name, value in dict(self.values).items()))
        if len(plain) < len(self.values):
            raise ParameterError(f"rule {self.code!r} has a value twice: {self.values!r}")
        object.__setattr__(self, "values", plain)

    @classmethod
    def of(cls, code: str, /, **values: Value) -> Rule:
        """A rule with its values by name."""
        return cls(code, tuple(values.items()))

    @classmethod
    def read(cls, stored: Any) -> Rule:
        """The rule that `as_dict` wrote; a sentence, as it was stored before, is a rule with the code `text`.

        Raises:
            ParameterError: it is neither.
        """
        if isinstance(stored, str) and stored:
            return cls.of(TEXT, text=stored)
        values = stored.get("values", {}) if isinstance(stored, Mapping) else None
        if not isinstance(values, Mapping) or stored.keys() - {"code", "values"}:
            raise ParameterError(f"a rule is an object with code and values, got {stored!r}")
        return cls(stored.get("code", ""), tuple(values.items()))

    def as_dict(self) -> dict[str, Any]:
        """As JSON: code and values."""
        return {"code": self.code, "values": dict(self.values)}

    def value(self, name: str) -> Value | None:
        """One of the values by its name; None if there is none."""
        return dict(self.values).get(name)

    def __str__(self) -> str:
        return in_words(self)


def _plain(code: str, name: Any, value: Any) -> Value:
    """A value as a Python number or text, also if it was a numpy number."""
    if isinstance(name, str) and name:
        if isinstance(value, str):
            return str(value)
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real) and math.isfinite(value):
            return float(value)
    raise ParameterError(
        f"rule {code!r}: a value must be a finite number or a text with a name, got {name!r}: {value!r}"
    )


def in_words(rule: Rule) -> str:
    """A rule as a sentence for a person: the template of its code with the values in it.

    Where no template is known, or it does not suit the values: `code (name=value, ...)`.
    """
    template = _WITHOUT_A_STEP.get(rule.code) or _built_in(rule.code) or _learned.get(rule.code)
    if template is None:  # of a plugin's step
        kinds = registry.REFINE_KINDS
        template = _declared(rule.code, [(kind, name) for kind in kinds for name in registry.names(kind)])
    if template is not None:
        # another version of the step, or a plugin's slip
        with suppress(ArithmeticError, LookupError, ValueError, AttributeError, TypeError):
            return template.format_map(dict(rule.values))
    values = ", ".join(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
                       for name, value in rule.values)  # fmt: skip
    return f"{rule.code} ({values})" if values else rule.code


_learned: dict[str, str] = {}


def register_templates(words: Mapping[str, str]) -> None:
    """Take the templates of a strategy that no name is registered for, as long as this process lives."""
    _learned.update(words)


@cache
def _built_in(code: str) -> str | None:
    """The template that a step of this package declares for a code; None where none does."""
    steps = [(kind, name) for kind in registry.REFINE_KINDS for name in registry.built_in(kind)]
    # What made the rule is most often imported already, and the others need not be.
    return _declared(code, sorted(steps, key=lambda step: not registry.imported(*step)))


def _declared(code: str, steps: Iterable[tuple[str, str]]) -> str | None:
    """The template of the first step that declares the code."""
    return next((words[code] for step in steps if code in (words := _words_of(*step))), None)


def _words_of(kind: str, name: str) -> Mapping[str, str]:
    """The templates that a step declares; none where it cannot be imported."""
    try:
        declared = getattr(registry.find(kind, name), "rule_words", None)
    except CtxbenchError:
        return {}
    texts = declared.items() if isinstance(declared, Mapping) else ()
    return {code: template for code, template in texts if isinstance(code, str) and isinstance(template, str)}


SHOWN = ("shown_from", "shown_to", "tokens")  # the row arrays that say what is shown of an item, and its price
SEARCHED = "searched"  # column: the score that the search gave to a row which an expansion took over
BEYOND_CHUNKS = "topK"
"""The code of the rule that excludes items without a chunk among the best chunk matches."""

MARGIN = 1e-5  # scores closer than this may change places between machines; BLAS is not trusted below it


class Mode(IntEnum):
    """How an item came into the request context."""

    ALWAYS = 0
    MANUAL = 1
    AGENT = 2
    EXPANSION = 3
    EXPLICIT = 4


class Origin(IntEnum):
    """The source of a row; expansion pass n is `EXPANSION + n - 1`."""

    SESSION = 0
    SEARCH = 1
    EXPANSION = 2


RANKED = 1  # tier of what was found, and of all that a rank step has ordered


def order(request: IntArray, tier: IntArray, score: FloatArray, item: IntArray) -> IntArray:
    """The one order: by request, then tier, then score descending, then catalog position.

    Args:
        request, tier, score, item: shape (n,). A NaN score (session items have none) sorts last.

    Returns:
        The permutation that sorts the rows, shape (n,). Empty in, empty out.
    """
    return np.lexsort((item, -score, tier, request)).astype(np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidates:
    """Rows by request (CSR), each an item with its score, its origin, and the rule that excludes it.

    Attributes:
        start: shape (n_requests + 1,); row i's candidates are `[start[i], start[i + 1])`.
        item: catalog position, shape (n,); an item is there at most once in a request.
        score: shape (n,); NaN for session items only.
        chunk_rank: 0-based place of the item's best chunk among all chunk matches of the request; -1 = none.
        origin: `Origin`, where the row comes from; no later step changes it.
        tier: 0 = of the session, `RANKED` = found or ordered by a rank step, 1 + n = added by pass n of an
            expansion and not ranked since. With `score` and `item` it gives the order of rows within a request.
        mode: `Mode`.
        out: 0 = chosen, else the index into `rules` of the rule that keeps the row out.
        query_chunk, item_chunk: the winning pair: 0-based within the request, or within `via_item` where one led
            here, and within the item; -1 = none.
        via_item: catalog position of the item that led here; -1 = none.
        shown_from, shown_to: the part of the item's prompt text that the model is sent, in characters; 0 and -1 = all.
        tokens: what that costs; -1 = what the whole prompt text does (`prices`).
        rules: rules[0] is None; the others say why rows are out, each once.
        columns: further scores, one a source or feature, each of shape (n,); NaN = not from this source.
        notes: what steps could not do as they were asked to.
    """

    start: IntArray
    item: IntArray
    score: FloatArray
    chunk_rank: IntArray
    origin: IntArray
    tier: IntArray
    mode: IntArray
    out: IntArray
    query_chunk: IntArray
    item_chunk: IntArray
    via_item: IntArray
    shown_from: IntArray
    shown_to: IntArray
    tokens: IntArray
    rules: tuple[Rule | None, ...] = (None,)
    columns: Mapping[str, FloatArray] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        n, arrays = len(self.item), {name: _read_only(getattr(self, name)) for name in (*ROW_ARRAYS, "start")}
        for name, array in arrays.items():
            object.__setattr__(self, name, array)
        object.__setattr__(self, "columns", {name: _read_only(column) for name, column in self.columns.items()})
        start = arrays.pop("start")
        for name, array in (*arrays.items(), *self.columns.items()):
            if array.shape != (n,):
                raise SelectorError(f"candidates: {name} has shape {array.shape}, expected ({n},)")
        if start[0] != 0 or start[-1] != n or (start[1:] < start[:-1]).any():
            raise SelectorError(f"candidates: start must rise from 0 to {n}")
        if not n:
            return
        nan, in_session = np.isnan(self.score), self.origin == Origin.SESSION
        self._check_rows(nan & ~in_session, "has a NaN score")
        self._check_rows((self.tier == 0) != in_session, "has the wrong tier")
        self._check_rows((self.shown_to < 0) & (self.shown_from != 0), "shows a part without an end")
        self._check_rows(~self.shows_all & (self.tokens < 0), "shows a part without tokens")
        self._check_rows(self._repeated(), "is there twice")
        self._check_rows(self._out_of_order(nan), "is out of order")

    def _check_rows(self, wrong: BoolArray, reason: str) -> None:
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            where = f"item {int(self.item[row])} of request {int(self.request[row])}"
            raise SelectorError(f"candidates: {where} {reason}")

    def _repeated(self) -> BoolArray:
        """True for a row whose item is already in its request."""
        keys = self.request * (1 + int(self.item.max(initial=0))) + self.item
        if np.any(keys[1:] <= keys[:-1]):  # else they are in the order of the catalog, as a whole catalog is
            keys = np.sort(keys)
        if not np.any(keys[1:] == keys[:-1]):  # as good as always; which row it is takes a slower sort
            return np.zeros(len(self.item), dtype=np.bool_)
        by_item = np.lexsort((self.item, self.request))
        repeated = np.empty(len(self.item), dtype=np.bool_)
        repeated[by_item] = ~firsts(self.item[by_item], self.request[by_item])
        return repeated

    def _out_of_order(self, nan: BoolArray) -> BoolArray:
        """True for a row that comes before the previous one by `order`."""
        keys = (self.tier, np.where(nan, np.inf, -self.score), self.item)
        later = np.zeros(max(len(self) - 1, 0), dtype=np.bool_)
        equal = self.request[1:] == self.request[:-1]
        for key in keys:
            later |= equal & (key[1:] < key[:-1])
            equal &= key[1:] == key[:-1]
        return np.concatenate([np.zeros(min(len(self), 1), dtype=np.bool_), later])

    def __len__(self) -> int:
        return len(self.item)

    @property
    def n_requests(self) -> int:
        """The number of requests, those without candidates included."""
        return len(self.start) - 1

    @cached_property
    def request(self) -> IntArray:
        """The request of every row, shape (n,)."""
        return owners(self.start)

    @cached_property
    def chosen(self) -> BoolArray:
        """True where a row is chosen, shape (n,)."""
        return np.equal(self.out, 0)

    @cached_property
    def ranked(self) -> BoolArray:
        """True for the rows that a cut compares: retrieved, or ordered by a rank step; shape (n,)."""
        return np.equal(self.tier, RANKED)

    @cached_property
    def shows_all(self) -> BoolArray:
        """True for the rows that show all of their item, shape (n,)."""
        return np.less(self.shown_to, 0)

    def prices(self, item_tokens: IntArray) -> IntArray:
        """Prompt tokens of the shown part of each row, shape (n,).

        Args:
            item_tokens: of whole prompt texts, of the items here at least, shape (n_items,); see `Resources.tokens`.
        """
        full_tokens: IntArray = item_tokens[self.item]
        return np.where(self.tokens >= 0, self.tokens, full_tokens) if (self.tokens >= 0).any() else full_tokens

    def showing(self, rows: BoolArray, shown_from: IntArray, shown_to: IntArray, tokens: IntArray) -> Candidates:
        """Show a part of the items of some rows.

        Args:
            rows: which, shape (n,).
            shown_from, shown_to: the parts of their prompt texts, `[from, to)` in characters, shape (rows.sum(),).
            tokens: of those parts as they are sent (`text_shown`), >= 0, shape (rows.sum(),).
        """
        changed = {}
        for name, values in zip(SHOWN, (shown_from, shown_to, tokens), strict=True):
            changed[name] = getattr(self, name).copy()
            changed[name][rows] = values
        return replace(self, **changed)

    @classmethod
    def build(
        cls, n_requests: int, request: IntArray, item: IntArray, **columns: npt.NDArray[np.generic]
    ) -> Candidates:
        """Make a table from rows in any order; missing columns get their empty value; rows are put in order.

        Without `tier` each row has that of its origin.

        Args:
            n_requests: how many requests there are, those without rows included.
            request, item: shape (n,).
            **given: any of the row arrays of the class (a missing score is an error unless there are no rows).
        """
        if unknown := set(columns) - set(ROW_ARRAYS):
            raise ParameterError(f"candidates have no column {', '.join(sorted(unknown))}")
        return cls(start=starts_by_request(request, n_requests), **in_order(request, _filled(item, columns), {}))

    @classmethod
    @lru_cache
    def empty(cls, n_requests: int) -> Candidates:
        """A table without rows."""
        none = np.empty(0, dtype=np.int64)
        return cls.build(n_requests, none, none)

    def reordered(self, **changes: npt.NDArray[np.generic]) -> Candidates:
        """Replace row arrays (for example `score`) and put the rows back in order."""
        arrays = {name: np.asarray(changes.get(name, getattr(self, name))) for name in ROW_ARRAYS}
        return replace(self, **in_order(self.request, arrays, self.columns))

    def with_columns(self, **columns: FloatArray) -> Candidates:
        """Add score columns, or replace those of the same name."""
        return replace(self, columns={**self.columns, **columns})

    def exclude(self, rows: BoolArray, rule: Rule | str) -> Candidates:
        """Exclude rows by `rule`; a row that is already excluded keeps its first rule.

        Session items are never marked: what the session holds is not a selector's to take away.

        Args:
            rows: shape (n,).
            rule: a rule without values may be given by its code.
        """
        if isinstance(rule, str):
            rule = Rule(rule)
        rules = self.rules if rule in self.rules else (*self.rules, rule)
        new = np.where(rows & (self.out == 0) & (self.origin != Origin.SESSION), rules.index(rule), self.out)
        return replace(self, out=new.astype(np.int64), rules=rules)

    def noted(self, *notes: Note) -> Candidates:
        """A copy with further notes."""
        return replace(self, notes=tuple(dict.fromkeys((*self.notes, *notes)))) if notes else self

    def notes_of(self, query: str) -> tuple[Note, ...]:
        """The notes of one query, by its id, and those of all."""
        return tuple(note for note in self.notes if note.query in ("", query))

    def promoted(self, rows: BoolArray) -> Candidates:
        """Choose rows that a rule had excluded; for cuts that declare `promotes = True`."""
        return replace(self, out=np.where(rows, 0, self.out).astype(np.int64))

    def ranking(self) -> tuple[IntArray, IntArray]:
        """The ranking that metrics read: all rows in order, also excluded ones, without those of the session.

        Returns:
            CSR starts, shape (n_requests + 1,), and the items, best first.
        """
        rows = self.tier > 0
        return self.starts_of(rows), self.item[rows]

    def select_rows(self, rows: BoolArray) -> Candidates:
        """The rows where `rows` is True, as a table over the same requests; for combinators only."""
        arrays = {name: getattr(self, name)[rows] for name in ROW_ARRAYS}
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Candidates(start=self.starts_of(rows), rules=self.rules, columns=columns, notes=self.notes, **arrays)

    @staticmethod
    def row_arrays() -> tuple[str, ...]:
        """The names of the arrays that hold one value a row, `score` among them."""
        return ROW_ARRAYS

    def starts_of(self, rows: BoolArray) -> IntArray:
        """CSR starts by request of the rows where `rows` is True, shape (n_requests + 1,)."""
        return starts_by_request(self.request[rows], self.n_requests)

    def by_request(self, rows: BoolArray) -> dict[int, IntArray]:
        """The places of the rows where `rows` is True, rising, by request; requests without are left out."""
        positions = np.flatnonzero(rows)
        requests, first = np.unique(self.request[positions], return_index=True)
        return dict(zip(requests.tolist(), np.split(positions, first)[1:], strict=True))

    def rows(self, request: int) -> slice:
        """The rows of one request."""
        return slice(int(self.start[request]), int(self.start[request + 1]))


ROW_ARRAYS = (
    "item",
    "score",
    "chunk_rank",
    "origin",
    "tier",
    "mode",
    "out",
    "query_chunk",
    "item_chunk",
    "via_item",
    *SHOWN,
)
# what is not given; -1 in other columns
_EMPTY = {"origin": int(Origin.SEARCH), "mode": int(Mode.AGENT), "out": 0, "shown_from": 0}


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only view of an array; the caller's array is not changed."""
    return frozen(array.view()) if array.flags.writeable else array


def add_expanded(table: Candidates, request: IntArray, item: IntArray, **values: npt.NDArray[np.generic]) -> Candidates:
    """Add the rows that an expansion found, as chosen; an excluded row of the same item is replaced.

    Args:
        table: the candidates so far.
        request, item: shape (n,), each pair at most once, none of them chosen in `table`.
        **given: row arrays of the new rows (`score`, `origin`, `mode`, `via_item`, `query_chunk`, `item_chunk`).
            They are behind all that is ranked, pass by pass.

    Returns:
        The table with the new rows and the column `SEARCHED`, whether or not there are any, so that the columns of a
        request do not depend on the others. A row taken over keeps its chunk rank, and the score that it was found
        with in that column.
    """
    if not len(item):
        return table if SEARCHED in table.columns else table.with_columns(**{SEARCHED: np.full(len(table), np.nan)})
    n_items = 1 + max(int(item.max()), int(table.item.max(initial=-1)))
    keys = request * n_items + item
    stays = ~np.isin(table.request * n_items + table.item, keys)
    new = _filled(item, {"score": np.full(len(item), -1.0), **values})
    columns = {name: np.full(len(item), np.nan) for name in (*table.columns, SEARCHED)}
    old = np.flatnonzero(~stays)
    if len(old):
        by_key = np.argsort(keys)
        row = by_key[np.searchsorted(keys, table.request[old] * n_items + table.item[old], sorter=by_key)]
        new["chunk_rank"][row] = table.chunk_rank[old]
        if "shown_to" not in values:
            for name in SHOWN:
                new[name][row] = getattr(table, name)[old]
        for name, column in table.columns.items():
            columns[name][row] = column[old]
        searched = table.ranked[old]
        columns[SEARCHED][row[searched]] = table.score[old][searched]
    rows = np.concatenate([table.request[stays], request])
    arrays = {name: np.concatenate([getattr(table, name)[stays], new[name]]) for name in ROW_ARRAYS}
    before = {name: table.columns.get(name, np.full(len(table), np.nan))[stays] for name in columns}
    joint = {name: np.concatenate([before[name], column]) for name, column in columns.items()}
    shared: Any = {"rules": table.rules, "notes": table.notes, **in_order(rows, arrays, joint)}
    return Candidates(start=starts_by_request(rows, table.n_requests), **shared)


def place_among(table: Candidates, rows: BoolArray) -> IntArray:
    """The 0-based place of every row among the `rows` of its request, shape (n,); -1 where `rows` is False."""
    count = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(rows, dtype=np.int64)])
    position = count[:-1] - count[table.start[:-1]][table.request]
    return np.where(rows, position, -1)


def reranked(candidates: Candidates, score: FloatArray) -> Candidates:
    """Candidates ordered anew by scores of shape (n,), those of the session aside.

    What an expansion added is among the rest from here on. `chunk_rank` becomes the place in the new order.
    """
    mine = candidates.tier > 0
    tier = np.where(mine, RANKED, candidates.tier)
    table = candidates.reordered(score=np.where(mine, score, candidates.score), tier=tier)
    return replace(table, chunk_rank=place_among(table, table.ranked))


def uncut(table: Candidates) -> Candidates:
    """The table with all of its rows chosen."""
    return replace(table, out=np.zeros(len(table), dtype=np.int64))


def in_order(
    request: IntArray, arrays: Mapping[str, npt.NDArray[Any]], columns: Mapping[str, FloatArray]
) -> dict[str, Any]:
    """Row arrays and columns, put in the one order, as arguments of `Candidates`."""
    permutation = order(request, arrays["tier"], arrays["score"], arrays["item"])
    if np.all(permutation[1:] > permutation[:-1]):  # they are in order; copied, as they may be the caller's own
        return {
            **{name: array.copy() for name, array in arrays.items()},
            "columns": {name: column.copy() for name, column in columns.items()},
        }
    return {
        **{name: array[permutation] for name, array in arrays.items()},
        "columns": {name: column[permutation] for name, column in columns.items()},
    }


def _filled(item: IntArray, columns: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, npt.NDArray[Any]]:
    """The row arrays of new rows; missing arrays get their empty value, and the tier is that of the origin."""
    rows: dict[str, npt.NDArray[Any]] = {"item": np.asarray(item, dtype=np.int64)}
    for name in ROW_ARRAYS[1:]:
        value = columns.get(name, np.full(len(item), np.nan if name == "score" else _EMPTY.get(name, -1)))
        rows[name] = np.array(value, dtype=np.float64 if name == "score" else np.int64)
    return rows if "tier" in columns else {**rows, "tier": rows["origin"]}


def starts_by_request(request: IntArray, n_requests: int) -> IntArray:
    """CSR starts of rows by the request of each, which must be 0 to n_requests - 1."""
    if len(request) and not 0 <= int(request.min()) <= int(request.max()) < n_requests:
        raise SelectorError(f"candidates: a row is of request {int(request.max())}, but there are {n_requests}")
    return starts(np.bincount(request, minlength=n_requests))


MARK = "…"
"""Stands where a text was cut, apart by a blank; it is sent and counted with the part."""

_JOINER = "\u200d"  # zero-width: makes one character of those beside it
_SELECTORS = range(0xFE00, 0xFE10)  # variation selectors belong to the character before
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_FLAGS = range(0x1F1E6, 0x1F200)  # regional indicators: two of them are one flag


def text_shown(item: Item, span: tuple[int, int] | None) -> str:
    """What the model is sent of an item.

    Args:
        item: the item.
        shown: the part of its prompt text, `[from, to)` in characters; None = all.

    Returns:
        The prompt text, or the part with `MARK` at each end that was cut.

    Raises:
        ParameterError: there is no such part; see `validate_span`.
    """
    text = item.prompt_text
    if span is None:
        return text
    validate_span(item, span)
    start, end = span
    return f"{MARK + ' ' if start else ''}{text[start:end]}{' ' + MARK if end < len(text) else ''}"


def validate_span(item: Item, span: tuple[int, int]) -> None:
    """Reject a part that an item's prompt text does not have.

    Raises:
        ParameterError: the part is empty, ends outside the text or within a character, or is of a tool, whose
            definition is sent whole or not at all.
    """
    text, (start, end) = item.prompt_text, span
    if not 0 <= start < end <= len(text):
        raise ParameterError(f"shows characters {start} to {end} of {item.id}, whose prompt text has {len(text):,}")
    if item.type == "tool" and (start, end) != (0, len(text)):
        raise ParameterError(f"shows characters {start} to {end} of {item.id}; a tool is sent whole, or not at all")
    for position in (start, end):
        if not between_characters(text, position):
            where = f"within the character {text[max(position - 1, 0) : position + 1]!r}"
            raise ParameterError(f"shows {item.id} from {start} to {end}, but {position} lies {where}; end between two")


def between_characters(text: str, position: int) -> bool:
    """Whether a text may be cut before `text[place]`: no character, as a reader sees them, lies on both sides.

    Accents and vowel signs, joined emoji, skin tones, flags and `CR LF` stay whole. The two ends are fine.
    """
    if not 0 < position < len(text):
        return True
    before, after = text[position - 1], text[position]
    if before.isascii() and after.isascii():
        return (before, after) != ("\r", "\n")
    is_mark = unicodedata.category(after).startswith("M") or ord(after) in _SELECTORS or ord(after) in _SKIN_TONES
    if is_mark or _JOINER in (before, after):
        return False
    if ord(before) in _FLAGS and ord(after) in _FLAGS:
        first = position - 1
        while first > 0 and ord(text[first - 1]) in _FLAGS:
            first -= 1
        return (position - first) % 2 == 0
    return True


def part_of(table: Candidates, row: int) -> tuple[int, int] | None:
    """The shown part of the item's prompt text, `[from, to)`; None = all."""
    end = int(table.shown_to[row])
    return None if end < 0 else (int(table.shown_from[row]), end)


def part_text(item: Item, part: tuple[int, int] | None) -> str:
    """A part of an item's prompt text by itself, without `MARK`; None = all."""
    return item.prompt_text if part is None else item.prompt_text[slice(*part)]


def holding(catalog: Catalog, table: Candidates, rows: IntArray, quotes: Sequence[str]) -> BoolArray:
    """Whether rows that show a part show enough of it.

    Args:
        catalog: that of the table.
        table: candidates.
        rows: places in it, shape (n,).
        quotes: for each what has to be shown; empty = the whole text.

    Returns:
        Shape (n,): True where the quote, or the whole text, lies within what is shown.
    """
    enough = np.ones(len(rows), dtype=np.bool_)
    for index, (row, quote) in enumerate(zip(rows.tolist(), quotes, strict=True)):
        if (part := part_of(table, row)) is not None:
            text = catalog[int(table.item[row])].prompt_text
            enough[index] = quoted(text[slice(*part)], quote) if quote else part == (0, len(text))
    return enough


def quoted(text: str, quote: str) -> bool:
    """Whether a text holds a quote, word for word; blanks and line ends are all one."""
    return re.search(r"\s+".join(map(re.escape, quote.split())), text) is not None


SENT, RECEIVED, SECONDS = "chat.sent", "chat.received", "chat.seconds"  # columns: what a request cost, on its rows


def sources_of(candidates: Candidates) -> dict[str, FloatArray]:
    """The scores of each source of a `merge`, NaN if it did not find the item; of one retriever the scores, unnamed."""
    merged = {name: column for name, column in candidates.columns.items() if "." not in name and name != SEARCHED}
    return merged or {"": candidates.score}
