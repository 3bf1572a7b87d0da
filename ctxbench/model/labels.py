"""Grades, labels, offered items and rankings of many queries as arrays.

All tables are lists by query (CSR) over one catalog, joined by key before: row i of each table is the same query.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ctxbench.io.errors import ParameterError
from ctxbench.model.arrays import BoolArray, FactCodes, FloatArray, IntArray, frozen, owners

DEPTH = 100  # how far down a ranking is read


class Grade(IntEnum):
    """How much a query needs an item. An item without a label is another state than irrelevant."""

    IRRELEVANT = 0
    HELPFUL = 1
    REQUIRED = 2


class Via(IntEnum):
    """Whether an item is needed for itself or because another needed item depends on it."""

    DIRECT = 0
    DEPENDENCY = 1


SESSION = 0  # the origin of an item that the session held before the selector was asked; any other was offered


@dataclass(frozen=True, eq=False, kw_only=True)
class Judgments:
    """The labels of all queries; an item that is not listed for a query is not labelled.

    Attributes:
        start: shape (n_queries + 1,); the labels of query i are `[start[i], start[i + 1])`, in any order.
        item: catalog position, shape (n_labels,); an item is labelled at most once for a query.
        grade: `Grade`, shape (n_labels,).
        group: alternatives group within the query, >= 0 for required items and -1 for all others, shape
            (n_labels,). `[[a, b], [c]]`, "(a or b) and c", is a: 0, b: 0, c: 1. Any numbers will do.
        via: `Via`, shape (n_labels,); direct where not given.
        complete: False where not all required items of the query are known, shape (n_queries,): only metrics that are
            declared `partial` apply to it. None = all are known.

    Raises:
        ParameterError: shapes differ, a grade is unknown, a required item has no group, another has one, or an
            item is labelled twice for a query.
    """

    start: IntArray
    item: IntArray
    grade: IntArray
    group: IntArray
    via: IntArray | None = None
    complete: BoolArray | None = None

    def __post_init__(self) -> None:
        _validate(self, "judgments", "item", "grade", "group", "via")
        if self.complete is not None and self.complete.shape != (self.n_queries,):
            raise ParameterError(f"judgments: complete has shape {self.complete.shape}, expected ({self.n_queries},)")
        wrong = (self.grade < Grade.IRRELEVANT) | (self.grade > Grade.REQUIRED)
        _check_rows(self, "judgments", wrong, "has an unknown grade")
        wrong = (self.grade == Grade.REQUIRED) != (self.group >= 0)
        _check_rows(self, "judgments", wrong, "has the wrong group")

    @property
    def n_queries(self) -> int:
        """The number of queries, those without labels included."""
        return len(self.start) - 1

    def of(self, queries: slice) -> Judgments:
        """The labels of some queries that follow each other."""
        start = self.start[queries.start : queries.stop + 1]
        rows = slice(int(start[0]), int(start[-1]))
        return Judgments(
            start=start - start[0],
            item=self.item[rows],
            grade=self.grade[rows],
            group=self.group[rows],
            via=None if self.via is None else self.via[rows],
            complete=None if self.complete is None else self.complete[queries],
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class OfferedItems:
    """The items in the prompt of each query: the session's items and those that the selector added.

    Attributes:
        start: shape (n_queries + 1,).
        item: catalog position in the order offered, shape (n_rows,); at most once in a query.
        origin: 0 = held by the session, 1 = found by search, 2 and above = by expansion; shape (n_rows,).
        tokens: of what is shown of each item, >= 0, shape (n_rows,); None = of the whole prompt texts.
        enough: False where so little of an item is shown that it is worth nothing to its query, shape (n_rows,); None =
            all are shown whole.
    """

    start: IntArray
    item: IntArray
    origin: IntArray
    tokens: IntArray | None = None
    enough: BoolArray | None = None

    def __post_init__(self) -> None:
        _validate(self, "offered", "item", "origin", "tokens", "enough")


@dataclass(frozen=True, eq=False, kw_only=True)
class Rankings:
    """The ranking of each query before the cut, best first, in the one order; ties are already broken.

    Attributes:
        start: shape (n_queries + 1,).
        item: catalog position, shape (n_rows,); at most once in a query. Items held by the session are passed
            over, and rows past `DEPTH` of the others are not read.
        given: shape (n_queries,), False where the selector returned no ranking: its ranking metrics are NaN. An
            empty ranking that was given scores 0. None = all given.
        enough: as in `OfferedItems`.
    """

    start: IntArray
    item: IntArray
    given: BoolArray | None = None
    enough: BoolArray | None = None

    def __post_init__(self) -> None:
        _validate(self, "rankings", "item", "enough")
        if self.given is not None and self.given.shape != (len(self.start) - 1,):
            raise ParameterError(f"rankings: given has shape {self.given.shape}, expected ({len(self.start) - 1},)")


@dataclass(frozen=True, eq=False)
class Kinship:
    """Which items of a catalog are easily confused: of one server, or with similar names.

    Attributes:
        codes: shape (n_relations, n_items); two items are siblings if they share a code >= 0 in any relation.
            -1 = no sibling in this relation.
    """

    codes: IntArray

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        *,
        servers: Sequence[str],
        types: Sequence[str],
        near: npt.ArrayLike | None = None,
    ) -> Kinship:
        """Siblings by server and by the stem of the name, both within a type of item, and by near-duplicate texts.

        The stem counts whatever the server: `create_issue` on two servers is mistaken for itself.

        Args:
            names, servers, types: shape (n_items,) each. No server is the empty string. If all items that have a
                server have the same, it makes no siblings.
            near: near-duplicate group of each item, -1 = none, shape (n_items,).
        """
        if not len(names) == len(servers) == len(types):
            raise ParameterError(f"{len(names)} names, {len(servers)} servers and {len(types)} types; expected as many")
        telling = len(set(servers) - {""}) > 1
        rows = [
            FactCodes.of((t, s) if s and telling else None for t, s in zip(types, servers, strict=True)).code,
            FactCodes.of((t, name_stem(n)) for n, t in zip(names, types, strict=True)).code,
        ]
        if near is not None:
            rows.append(np.asarray(near, dtype=np.int64))
            if rows[-1].shape != (len(names),):
                raise ParameterError(f"near has shape {rows[-1].shape}, expected ({len(names)},)")
        return cls(np.stack(rows))


@dataclass(frozen=True, eq=False, kw_only=True)
class Evidence:
    """Everything that metrics are computed from; a field that is None makes some metrics unavailable, never 0.

    Attributes:
        judgments: the labels.
        offered: what stood in the prompts.
        rankings: None where the selector returns no ranking.
        item_tokens: tokens of each catalog item's prompt text, >= 0, shape (n_items,).
        kinship: which items are siblings.
        body_tokens: tokens of what the model loads of each item on demand (the body of a skill), shape (n_items,).
        pool: from how many items the ranking of each query was made, shape (n_queries,).
        model_use: tokens and seconds of a language model that the selector itself asked, shape (2, n_queries).
    """

    judgments: Judgments
    offered: OfferedItems
    rankings: Rankings | None = None
    item_tokens: FloatArray | IntArray | None = None
    body_tokens: IntArray | None = None
    kinship: Kinship | None = None
    pool: IntArray | None = None
    model_use: FloatArray | None = None

    def __post_init__(self) -> None:
        n = self.judgments.n_queries
        lengths = {
            "offered": len(self.offered.start) - 1,
            "rankings": None if self.rankings is None else len(self.rankings.start) - 1,
            "pool": None if self.pool is None else len(self.pool),
            "model_use": None if self.model_use is None else self.model_use.shape[1],
        }
        for name, length in lengths.items():
            if length not in (n, None):
                raise ParameterError(f"{name}: {length} queries, but the judgments have {n}; join them by query id")
        highest = max((int(part.item.max()) for part in (self.offered, self.judgments) if len(part.item)), default=-1)
        catalogs = {
            "item_tokens": None if self.item_tokens is None else len(self.item_tokens),
            "body_tokens": None if self.body_tokens is None else len(self.body_tokens),
            "kinship": None if self.kinship is None else self.kinship.codes.shape[1],
        }
        for name, size in catalogs.items():
            if size is not None and highest >= size:
                raise ParameterError(f"{name}: {size} items, but item {highest} is labelled or offered")


def name_stem(name: str) -> str:
    """The part of a name that siblings share.

    A qualified name (`a.b.c`, `a::b`, `a/b`) gives its parent (`a.b`, `a`, `a`). Any other gives its first two
    words in lower case, split at blanks, `_`, `-` and camel humps: `get_weather`, `get_weather_by_city` and
    `getWeatherHourly` all give `get weather`. A name of one word is its own stem.
    """
    if parent := re.match(r"(.+)(?:\.|::|/)[^./:]+$", name):
        return parent[1].lower()
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+", name)
    return " ".join(words[:2]).lower() or name


def _validate(table: Judgments | OfferedItems | Rankings, table_name: str, *columns: str) -> None:
    """Turn the columns of a new table into read-only int64 and check shapes, starts, and that no item is twice."""
    n = len(table.item)
    for name in ("start", *columns):
        if (value := getattr(table, name)) is not None:
            array = np.array(value, dtype=np.bool_ if name == "enough" else np.int64)
            if name != "start" and array.shape != (n,):
                raise ParameterError(f"{table_name}: {name} has shape {array.shape}, expected ({n},)")
            object.__setattr__(table, name, frozen(array))
    start = table.start
    if start.ndim != 1 or not len(start) or start[0] != 0 or start[-1] != n or np.any(np.diff(start) < 0):
        raise ParameterError(f"{table_name}: start must rise from 0 to {n}")
    if n == 0:
        return
    _check_rows(table, table_name, table.item < 0, "is no catalog position")
    key = owners(start) * (int(table.item.max()) + 1) + table.item
    by_key = np.argsort(key, kind="stable")
    twice = np.zeros(n, dtype=np.bool_)
    twice[by_key[1:]] = key[by_key[1:]] == key[by_key[:-1]]
    _check_rows(table, table_name, twice, "is listed twice")


def _check_rows(table: Judgments | OfferedItems | Rankings, table_name: str, wrong: BoolArray, why: str) -> None:
    """Raise for the first row that is marked wrong."""
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        query = int(np.searchsorted(table.start, row, side="right")) - 1
        raise ParameterError(f"{table_name}: item {int(table.item[row])} of query {query} {why}")
