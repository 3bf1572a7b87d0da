"""Candidates: one columnar table that every step takes and returns. Rows are marked, never dropped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ctxbench.arrays import BoolArray, FloatArray, IntArray, frozen, owners, starts
from ctxbench.errors import ParameterError, SelectorError

MARGIN = 1e-5  # scores closer than this may change places between machines; BLAS is not trusted below it


class Mode(IntEnum):
    """How an item came into the request context."""

    ALWAYS = 0
    MANUAL = 1
    AGENT = 2
    EXPANSION = 3
    EXPLICIT = 4


class Origin(IntEnum):
    """Where a row comes from; expansion pass n is `EXPANSION + n - 1`. First key of the one order."""

    SESSION = 0
    SEARCH = 1
    EXPANSION = 2


def order(request: IntArray, origin: IntArray, score: FloatArray, item: IntArray) -> IntArray:
    """The one order: by request, then origin, then score descending, then catalog position.

    Args:
        request, origin, score, item: shape (n,). A NaN score (session items have none) sorts last.

    Returns:
        The permutation that sorts the rows, shape (n,). Empty in, empty out.
    """
    return np.lexsort((item, -score, origin, request)).astype(np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidates:
    """Rows by request (CSR), each an item with its score, provenance, and the rule that keeps it out.

    Attributes:
        start: shape (n_requests + 1,); row i's candidates are `[start[i], start[i + 1])`.
        item: catalog position, shape (n,); an item stands at most once in a request.
        score: shape (n,); NaN for session items only.
        chunk_rank: 0-based place of the item's best chunk among all chunk matches of the request; -1 = none.
        origin: `Origin`; with `score` and `item` it gives the order of rows within a request.
        mode: `Mode`.
        out: 0 = chosen, else the index into `rules` of the rule that keeps the row out.
        query_chunk, item_chunk: the winning pair: 0-based within the request and within the item; -1 = none.
        via_item: catalog position of the item that led here; -1 = none.
        rules: rules[0] is empty; the others are sentences for a person.
        columns: further scores, one a source or feature, each of shape (n,); NaN = not from this source.
    """

    start: IntArray
    item: IntArray
    score: FloatArray
    chunk_rank: IntArray
    origin: IntArray
    mode: IntArray
    out: IntArray
    query_chunk: IntArray
    item_chunk: IntArray
    via_item: IntArray
    rules: tuple[str, ...] = ("",)
    columns: Mapping[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.item)
        arrays = {name: getattr(self, name) for name in _ROW_ARRAYS} | dict(self.columns)
        for name, array in arrays.items():
            if array.shape != (n,):
                raise SelectorError(f"candidates: {name} has shape {array.shape}, expected ({n},)")
            frozen(array)
        if self.start[0] != 0 or self.start[-1] != n or np.any(np.diff(self.start) < 0):
            raise SelectorError(f"candidates: start must rise from 0 to {n}")
        if np.any(np.isnan(self.score) & (self.origin != Origin.SESSION)):
            row = int(np.flatnonzero(np.isnan(self.score) & (self.origin != Origin.SESSION))[0])
            raise SelectorError(
                f"candidates: NaN score for item {int(self.item[row])} of request {int(self.request[row])}; "
                "a score must be a number"
            )
        frozen(self.start)

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
        chosen: BoolArray = self.out == 0
        return chosen

    @classmethod
    def build(cls, n_requests: int, request: IntArray, item: IntArray, **given: npt.NDArray[np.generic]) -> Candidates:
        """Make a table from rows in any order; missing columns get their empty value; rows are put in order.

        Args:
            n_requests: how many requests there are, those without rows included.
            request, item: shape (n,).
            **given: any of the row arrays of the class (a missing score is an error unless there are no rows).
        """
        unknown = set(given) - set(_ROW_ARRAYS)
        if unknown:
            raise ParameterError(f"candidates have no column {', '.join(sorted(unknown))}")
        n = len(item)
        defaults = {"origin": Origin.SEARCH, "mode": Mode.AGENT, "out": 0}
        rows: dict[str, npt.NDArray[np.generic]] = {"item": np.asarray(item, dtype=np.int64)}
        rows["score"] = np.asarray(given.pop("score", np.full(n, np.nan)), dtype=np.float64)
        for name in _ROW_ARRAYS:
            if name not in rows:
                value = given.get(name)
                rows[name] = (
                    np.full(n, int(defaults.get(name, -1)), dtype=np.int64)
                    if value is None
                    else np.asarray(value, dtype=np.int64)
                )
        permutation = order(request, rows["origin"], rows["score"], rows["item"])  # type: ignore[arg-type]
        start = _counted(request, n_requests)
        return cls(start=start, **{name: array[permutation] for name, array in rows.items()})  # type: ignore[arg-type]

    @classmethod
    def empty(cls, n_requests: int) -> Candidates:
        """A table without rows."""
        none = np.empty(0, dtype=np.int64)
        return cls.build(n_requests, none, none)

    def reordered(self, **changes: npt.NDArray[np.generic]) -> Candidates:
        """Replace row arrays (for example `score`) and put the rows back in order."""
        table = replace(self, **changes)  # type: ignore[arg-type]
        permutation = order(table.request, table.origin, table.score, table.item)
        arrays = {name: getattr(table, name)[permutation] for name in _ROW_ARRAYS}
        columns = {name: column[permutation] for name, column in table.columns.items()}
        return replace(table, columns=columns, **arrays)

    def with_columns(self, **columns: FloatArray) -> Candidates:
        """Add score columns, or replace those of the same name."""
        return replace(self, columns={**self.columns, **columns})

    def marked(self, rows: BoolArray, rule: str) -> Candidates:
        """Mark rows as out by `rule`; a row that is out already keeps the rule that met it first.

        Session items are never marked: what the session holds is not a selector's to take away.
        """
        if not rule:
            raise ParameterError("a rule that keeps rows out needs a text that says why")
        if rule in self.rules:
            code, rules = self.rules.index(rule), self.rules
        else:
            code, rules = len(self.rules), (*self.rules, rule)
        new = np.where(rows & (self.out == 0) & (self.origin != Origin.SESSION), code, self.out)
        return replace(self, out=new.astype(np.int64), rules=rules)

    def taken(self, rows: BoolArray) -> Candidates:
        """The rows where `rows` is True, as a table over the same requests; for combinators only."""
        arrays = {name: getattr(self, name)[rows] for name in _ROW_ARRAYS}
        columns = {name: column[rows] for name, column in self.columns.items()}
        return Candidates(start=self.starts_of(rows), rules=self.rules, columns=columns, **arrays)

    @staticmethod
    def row_arrays() -> tuple[str, ...]:
        """The names of the arrays that hold one value a row, `score` among them."""
        return _ROW_ARRAYS

    def starts_of(self, rows: BoolArray) -> IntArray:
        """CSR starts by request of the rows where `rows` is True, shape (n_requests + 1,)."""
        return _counted(self.request[rows], self.n_requests)

    def rows(self, request: int) -> slice:
        """The rows of one request."""
        return slice(int(self.start[request]), int(self.start[request + 1]))


_ROW_ARRAYS = (
    "item",
    "score",
    "chunk_rank",
    "origin",
    "mode",
    "out",
    "query_chunk",
    "item_chunk",
    "via_item",
)


def concatenated(tables: Sequence[Candidates]) -> Candidates:
    """Put the rows of several tables over the same requests into one, in the one order.

    The rules of all are kept; a column that a table lacks is NaN in its rows. No item may stand in two tables
    of one request (join them first where it may).
    """
    first = tables[0]
    if any(table.n_requests != first.n_requests for table in tables):
        raise SelectorError("candidates of different requests cannot be put together")
    rules, out = _joint_rules(tables)
    arrays: dict[str, npt.NDArray[np.generic]] = {
        name: np.concatenate([getattr(table, name) for table in tables]) for name in _ROW_ARRAYS
    }
    arrays["out"] = out
    names = sorted({name for table in tables for name in table.columns})
    columns = {
        name: np.concatenate(
            [table.columns.get(name, np.full(len(table), np.nan, dtype=np.float64)) for table in tables]
        )
        for name in names
    }
    request = np.concatenate([table.request for table in tables])
    permutation = order(request, arrays["origin"], arrays["score"], arrays["item"])  # type: ignore[arg-type]
    start = _counted(request[permutation], first.n_requests)
    return Candidates(
        start=start,
        rules=rules,
        columns={name: column[permutation] for name, column in columns.items()},
        **{name: array[permutation] for name, array in arrays.items()},  # type: ignore[arg-type]
    )


def joined(tables: Mapping[str, Candidates]) -> Candidates:
    """Outer join by (request, item): a column a source holds its scores, NaN where it did not find the item.

    A source's own columns become `source.column`. Everything else of a row is that of the first source, in order,
    that has the row's best score.
    """
    names = list(tables)
    parts = list(tables.values())
    request = np.concatenate([table.request for table in parts])
    item = np.concatenate([table.item for table in parts])
    score = np.concatenate([table.score for table in parts])
    source = np.concatenate([np.full(len(t), i, dtype=np.int64) for i, t in enumerate(parts)])
    best = np.lexsort((source, -score, item, request))
    request, item, source = request[best], item[best], source[best]
    new = np.ones(len(item), dtype=np.bool_)
    new[1:] = (item[1:] != item[:-1]) | (request[1:] != request[:-1])
    row = np.cumsum(new) - 1
    columns = {name: np.full(int(new.sum()), np.nan, dtype=np.float64) for name in names}
    for place, name in enumerate(names):
        columns[name][row[source == place]] = score[best][source == place]
    for name, table in tables.items():
        for column, values in table.columns.items():
            own = np.concatenate([values if one is table else np.full(len(one), np.nan) for one in parts])[best]
            joint = columns.setdefault(f"{name}.{column}", np.full(int(new.sum()), np.nan, dtype=np.float64))
            joint[row[source == names.index(name)]] = own[source == names.index(name)]
    arrays = {name: np.concatenate([getattr(table, name) for table in parts])[best][new] for name in _ROW_ARRAYS}
    rules, out = _joint_rules(parts)
    arrays["out"] = out[best][new]
    start = _counted(request[new], parts[0].n_requests)
    return Candidates(start=start, rules=rules, columns=columns, **arrays).reordered()


def _joint_rules(tables: Sequence[Candidates]) -> tuple[tuple[str, ...], IntArray]:
    """The rules of all tables, and the `out` of all their rows, one table behind the other, as indexes into them."""
    rules = tuple(dict.fromkeys(["", *(rule for table in tables for rule in table.rules)]))
    out = [np.array([rules.index(rule) for rule in table.rules], dtype=np.int64)[table.out] for table in tables]
    return rules, np.concatenate([np.empty(0, dtype=np.int64), *out])


def _counted(request: IntArray, n_requests: int) -> IntArray:
    """CSR starts of rows that are in the order of their requests."""
    return starts(np.bincount(request, minlength=n_requests))


def stacked(tables: Sequence[Candidates]) -> Candidates:
    """Put the requests of several tables one behind the other; their rules are joined, their columns must agree."""
    rules, out = _joint_rules(tables)
    arrays: dict[str, npt.NDArray[np.generic]] = {
        name: np.concatenate([np.empty(0, dtype=np.int64), *(getattr(table, name) for table in tables)])
        for name in _ROW_ARRAYS
    }
    arrays["score"] = np.concatenate([np.empty(0, dtype=np.float64), *(table.score for table in tables)])
    arrays["out"] = out
    names = sorted({name for table in tables for name in table.columns})
    columns = {
        name: np.concatenate([table.columns.get(name, np.full(len(table), np.nan)) for table in tables])
        for name in names
    }
    lengths = [np.diff(table.start) for table in tables]
    start = starts(np.concatenate([np.empty(0, dtype=np.int64), *lengths]))
    return Candidates(start=start, rules=rules, columns=columns, **arrays)  # type: ignore[arg-type]
