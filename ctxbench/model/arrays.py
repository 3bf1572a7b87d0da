"""Array types, facts about items, masks of available items, and labels and rankings of many queries as arrays.

Tables of many queries are lists by query (CSR) over one catalog, joined by key before: row i of each table is the same
query.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from ctxbench.io.errors import Fault, Message, ParameterError, raise_faults
from ctxbench.io.rows import instant

FloatArray: TypeAlias = npt.NDArray[np.float64]
Float32Array: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


def starts(lengths: npt.ArrayLike) -> IntArray:
    """Turn lengths, shape (n,), into CSR starts, shape (n + 1,): row i is `[starts[i], starts[i + 1])`."""
    lengths = np.asarray(lengths, dtype=np.int64)
    out = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=out[1:])
    return out


def owners(start: IntArray) -> IntArray:
    """Turn CSR starts, shape (n + 1,), into the row of every entry, shape (start[-1],)."""
    return np.repeat(np.arange(len(start) - 1, dtype=np.int64), np.diff(start))


def ranges(first: IntArray, length: IntArray) -> IntArray:
    """Concatenated ranges of consecutive numbers: `length[i]` of them from `first[i]` on."""
    start = starts(length)
    return np.arange(int(start[-1]), dtype=np.int64) + np.repeat(first - start[:-1], length)


def firsts(*keys: npt.NDArray[np.generic]) -> BoolArray:
    """True where a row differs from the one before it in any of the keys, shape (n,) each; so for the first."""
    new = np.zeros(len(keys[0]), dtype=np.bool_)
    new[:1] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return new


def falling(scores: FloatArray) -> FloatArray:
    """Scores of a ranking, best first, that fall strictly also as 32-bit numbers, which trec_eval compares.

    A score below the one before it stays as it is. Any other becomes the next 32-bit number below the one before it.

    Args:
        scores: in the order of the ranking, finite, shape (n,). Empty in, empty out.
    """
    bits = np.clip(scores, -3e38, 3e38).astype(np.float32).view(np.int32).astype(np.int64)
    key, position = np.where(bits < 0, -(2**31) - bits, bits), np.arange(len(scores))  # keys rise as scores do
    lowered = np.minimum.accumulate(key + position) - position
    values = np.where(lowered < 0, -(2**31) - lowered, lowered).astype(np.int32).view(np.float32)
    return np.where(lowered == key, scores, values.astype(np.float64))


def frozen(array: npt.NDArray[T]) -> npt.NDArray[T]:
    """The array itself, made read-only, so that no step can change the input of another."""
    array.flags.writeable = False
    return array


def shared(array: npt.NDArray[T]) -> npt.NDArray[T]:
    """The array, read-only; one whose values have the same bits takes the room of one value."""
    bits = array.view(np.int64)
    return np.broadcast_to(array[0], array.shape) if len(bits) and (bits == bits[0]).all() else frozen(array)


EARLIEST, LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_ABSENT = -2  # code of a text that no item has
_NONE = -1  # code of an item without a workspace, user, conversation or kind
_CODED = ("type", "workspace", "user", "conversation", "kind")  # what is held as codes, by its name in an item


@dataclass(frozen=True, eq=False, kw_only=True)
class FactCodes:
    """One text of every item, such as its workspace, as codes; or another value that may be missing.

    Attributes:
        code: shape (n_items,), a place in `names`; -1 = none.
        names: distinct.
    """

    code: IntArray
    names: tuple[Any, ...]

    @classmethod
    def of(cls, texts: Iterable[Hashable]) -> FactCodes:
        """Number distinct texts in order of first appearance."""
        codes: dict[Hashable, int] = {}
        code = (_NONE if text is None else codes.setdefault(text, len(codes)) for text in texts)
        return cls(code=shared(np.fromiter(code, dtype=np.int64)), names=tuple(codes))

    @cached_property
    def _code_of(self) -> dict[Any, int]:
        return {name: code for code, name in enumerate(self.names)}

    def extended(self, added: FactCodes) -> FactCodes:
        """These codes and those of further items; equal to `of` over all texts."""
        codes = self._code_of.copy()
        new_codes = np.array([*(codes.setdefault(name, len(codes)) for name in added.names), _NONE], dtype=np.int64)
        code = np.concatenate([self.code, new_codes[added.code]])  # -1 is the last
        return FactCodes(code=frozen(code), names=tuple(codes))

    def are(self, text: str | None) -> BoolArray:
        """True for the items with this very text; of none, all False."""
        return np.equal(self.code, self._code_of.get(text, _ABSENT))

    def open_to(self, text: str | None) -> BoolArray:
        """True for the items that have no such text, or this one."""
        return np.equal(self.code, _NONE) | self.are(text) if self.names else np.ones(len(self.code), dtype=np.bool_)

    def are_any(self, texts: Iterable[str]) -> BoolArray:
        """True for the items with one of these texts."""
        is_listed = np.array([*(name in texts for name in self.names), False], dtype=np.bool_)
        return np.asarray(is_listed[self.code])  # -1 is the last


@dataclass(frozen=True, eq=False, kw_only=True)
class Facts:
    """Facts about the items of a catalog, without their texts: owner, time, kind, links.

    Attributes:
        searchable, always_offered: enabled items of include mode `agent` and of `always`, shape (n_items,).
        type: of every item.
        workspace, user, conversation, kind: whose, from where, and of what sort; none = everybody's, and not said.
        created, until: microseconds since 1970, shape (n_items,); `EARLIEST` and `LATEST` where an item has none. An
            item is there from the one on and before the other.
        confidence: shape (n_items,), 0 to 1; NaN = not said.
        link_start: CSR starts of links by item, shape (n_items + 1,).
        link_item: the position that each link leads to.
        link_type: its type, a place in `link_types`.
    """

    searchable: BoolArray
    always_offered: BoolArray
    type: FactCodes
    workspace: FactCodes
    user: FactCodes
    conversation: FactCodes
    kind: FactCodes
    created: IntArray
    until: IntArray
    confidence: FloatArray
    link_start: IntArray
    link_item: IntArray
    link_type: IntArray
    link_types: tuple[str, ...]

    @classmethod
    def of(cls, items: Sequence[Any], find: Callable[[Any], int | None]) -> Facts:
        """Read them off the items of a catalog.

        Args:
            items: each an `Item`; they are told by what they have, since a catalog holds its facts.
            find: the position of an item by its key, or None.

        Raises:
            InputError: links lead to nothing; all of them are named.
        """
        ends, faults = [], []
        for item in items:
            for link in item.links:
                if (position := find(link.item)) is None:
                    message = Message("model.link-to-nothing", item=item.id, type=link.type, target=link.item.id)
                    faults.append(Fault(message))
                ends.append(-1 if position is None else position)
        raise_faults(faults, subject="catalog")
        types = FactCodes.of(link.type for item in items for link in item.links)
        created = (EARLIEST if item.created is None else instant(item.created) for item in items)
        until = (LATEST if item.until is None else instant(item.until) for item in items)
        confidence = (np.nan if item.confidence is None else item.confidence for item in items)
        return cls(
            searchable=frozen(np.array([item.enabled and item.include == "agent" for item in items], dtype=np.bool_)),
            always_offered=frozen(
                np.array([item.enabled and item.include == "always" for item in items], dtype=np.bool_)
            ),
            **{name: FactCodes.of(getattr(item, name) for item in items) for name in _CODED},
            created=shared(np.fromiter(created, dtype=np.int64)),
            until=shared(np.fromiter(until, dtype=np.int64)),
            confidence=shared(np.fromiter(confidence, dtype=np.float64)),
            link_start=frozen(starts([len(item.links) for item in items])),
            link_item=frozen(np.array(ends, dtype=np.int64)),
            link_type=types.code,
            link_types=types.names,
        )

    def __len__(self) -> int:
        return len(self.searchable)

    def extended(self, items: Sequence[Any], find: Callable[[Any], int | None]) -> Facts:
        """These facts and those of further items; equal to `of` over all items.

        Args:
            items: what is added.
            find: the position of an item by its key among all of them, or None.

        Raises:
            InputError: links of what is added lead to nothing; all of them are named.
        """
        added = Facts.of(items, find)
        types = FactCodes(code=self.link_type, names=self.link_types).extended(
            FactCodes(code=added.link_type, names=added.link_types)
        )
        arrays = {
            name: np.concatenate([getattr(self, name), getattr(added, name)])
            for name in ("searchable", "always_offered", "created", "until", "confidence", "link_item")
        }
        arrays["link_start"] = np.concatenate([self.link_start, self.link_start[-1] + added.link_start[1:]])
        codes = {name: getattr(self, name).extended(getattr(added, name)) for name in _CODED}
        columns: dict[str, Any] = {name: frozen(array) for name, array in arrays.items()}
        return Facts(link_type=types.code, link_types=types.names, **codes, **columns)

    def ended(self, ends: Mapping[int, str]) -> Facts:
        """The same, but for the ends of some items, by position; of items that are not here none is taken."""
        until = self.until.copy()
        for position, end in ends.items():
            until[position : position + 1] = instant(end)
        return replace(self, until=frozen(until)) if ends else self

    @cached_property
    def always_items(self) -> IntArray:
        """The positions of the items of `always`, rising."""
        return frozen(np.flatnonzero(self.always_offered))

    @cached_property
    def private(self) -> bool:
        """Whether any item is not everybody's."""
        return bool(self.workspace.names or self.user.names)

    @cached_property
    def timed(self) -> bool:
        """Whether any item is not there at all times."""
        return bool((self.created != EARLIEST).any() or (self.until != LATEST).any())

    @property
    def hidden(self) -> bool:
        """Whether there are items that some request may not see."""
        return self.private or self.timed

    def open_to(self, workspace: str | None, user: str | None) -> BoolArray:
        """True for the items of this workspace and user, or of nobody, shape (n_items,)."""
        return self.workspace.open_to(workspace) & self.user.open_to(user)

    def at(self, time: int | IntArray, item: IntArray | slice = slice(None)) -> BoolArray:
        """True for the items that exist at a time, shape (n_items,); for some items, each at another time.

        `LATEST`, the time of a request that has none, is after all that was created and before nothing's end: what has
        an end is gone.
        """
        created, until = self.created[item], self.until[item]
        if isinstance(time, int):  # of all items, mostly; the half of the work
            return np.equal(until, LATEST) if time == LATEST else (created <= time) & (time < until)
        return np.where(np.equal(time, LATEST), until == LATEST, (created <= time) & (time < until))

    def linked(self, item: int) -> Sequence[tuple[str, int]]:
        """The links of an item: type and position."""
        rows = slice(int(self.link_start[item]), int(self.link_start[item + 1]))
        ends = zip(self.link_type[rows].tolist(), self.link_item[rows].tolist(), strict=True)
        return [(self.link_types[kind], end) for kind, end in ends]

    @cached_property
    def incoming(self) -> tuple[IntArray, IntArray, IntArray]:
        """The links by the item that they lead to: CSR starts, the items that they come from, rising, and types."""
        by_end = np.argsort(self.link_item, kind="stable")
        start = starts(np.bincount(self.link_item, minlength=len(self)))
        return frozen(start), frozen(owners(self.link_start)[by_end]), frozen(self.link_type[by_end])


@dataclass(frozen=True, eq=False, kw_only=True)
class Masks:
    """Which items each request may get: a bool per request and item, whose rows are computed on demand.

    `masks[request]` is a row, shape (n_items,), read-only; `masks[3:9]` are rows, shape (6, n_items); `masks[requests,
    items]`, two equally long arrays, are single cells. Iterating gives the rows.

    Attributes:
        scope: the place in `shared` of each request's mask, shape (n_requests,).
        shared: masks of shape (n_items,), each of all requests with the same scope.
        start, without: what a request may not get beside that, CSR by request: starts, shape (n_requests + 1,), and
            positions.
        time: of each request, shape (n_requests,); compared with the items' `created` and `until`.
        n_items: of the catalog.
        facts: of the catalog; None where no item begins or ends.
    """

    n_items: int
    scope: IntArray
    shared: Sequence[BoolArray]
    start: IntArray
    without: IntArray
    time: IntArray
    facts: Facts | None = None
    _last: dict[int, BoolArray] = field(default_factory=dict, init=False, repr=False)  # the row that was made last

    def __post_init__(self) -> None:
        for array in (self.scope, *self.shared, self.start, self.without, self.time):
            frozen(array)

    def __len__(self) -> int:
        return len(self.scope)

    @property
    def shape(self) -> tuple[int, int]:
        """(n_requests, n_items)."""
        return len(self), self.n_items

    def __iter__(self) -> Iterator[BoolArray]:
        return (self.row(request) for request in range(len(self)))

    def __getitem__(self, key: Any) -> Any:  # the type follows the key, as of an array
        if isinstance(key, tuple):
            return self.cells(*key)
        if isinstance(key, slice):
            rows = [self.row(request) for request in range(*key.indices(len(self)))]
            return np.array(rows, dtype=np.bool_).reshape(len(rows), self.n_items)
        return self.row(range(len(self))[key])

    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """All rows at once: for small batches, where the short way is good enough."""
        return np.asarray(self[:], dtype=dtype)

    def row(self, request: int) -> BoolArray:
        """What one request may get, shape (n_items,), read-only."""
        mask: BoolArray = self.shared[self.scope[request]]
        without = self.without[self.start[request] : self.start[request + 1]]
        if not len(without) and self.facts is None:
            return mask
        if (cached := self._last.get(request)) is not None:
            return cached
        row: BoolArray = mask & self.facts.at(int(self.time[request])) if self.facts is not None else mask.copy()
        row[without] = False
        self._last.clear()
        self._last[request] = frozen(row)
        return row

    def cells(self, request: Any, item: Any) -> Any:
        """Whether each request may get the item at the same index: a bool for two numbers, an array for arrays."""
        requests, items = np.broadcast_arrays(np.asarray(request), np.asarray(item))
        of, at = requests.ravel().astype(np.int64), items.ravel().astype(np.int64)
        flat = self._of_scope(of, at)
        if self.facts is not None:
            flat &= self.facts.at(self.time[of], at)
        flat &= ~np.isin(of * self.n_items + at, owners(self.start) * self.n_items + self.without)
        return flat.reshape(requests.shape) if requests.shape else bool(flat[0])

    def _of_scope(self, request: IntArray, item: IntArray) -> BoolArray:
        """Whether the scope of each request has the item at the same index, shape (n,)."""
        out, scope = np.zeros(len(request), dtype=np.bool_), self.scope[request]
        for scope_index in np.flatnonzero(
            np.bincount(scope)
        ).tolist():  # np.unique would load numpy.ma, 15 ms of a check
            rows = scope == scope_index
            out[rows] = self.shared[scope_index][item[rows]]
        return out

    def any(self, requests: BoolArray | None = None) -> BoolArray:
        """What at least one request may get, shape (n_items,).

        Args:
            requests: only of these, shape (n_requests,); None = all.
        """
        rows = np.arange(len(self)) if requests is None else np.flatnonzero(requests)
        out = np.zeros(self.n_items, dtype=np.bool_)
        has_exceptions = np.diff(self.start)[rows] > 0 if self.facts is None else np.ones(len(rows), dtype=np.bool_)
        scopes = np.flatnonzero(np.bincount(self.scope[rows[~has_exceptions]]))
        for scope in scopes.tolist():
            out |= self.shared[scope]
        for request in rows[has_exceptions & ~np.isin(self.scope[rows], scopes)].tolist():
            out |= self.row(request)
        return out

    def counts(self) -> IntArray:
        """How many items each request may get, shape (n_requests,)."""
        if self.facts is not None:
            return np.array([np.count_nonzero(row) for row in self], dtype=np.int64)
        totals = np.array([np.count_nonzero(mask) for mask in self.shared], dtype=np.int64)[self.scope]
        owner = owners(self.start)
        return np.subtract(totals, np.bincount(owner[self._of_scope(owner, self.without)], minlength=len(self)))

    def select_requests(self, requests: IntArray) -> Masks:
        """The masks of some requests, shape (n,), in their order, with repeats."""
        length = np.diff(self.start)[requests]
        without = self.without[ranges(self.start[requests], length)]
        scope, time = self.scope[requests], self.time[requests]
        return replace(self, scope=scope, start=starts(length), without=without, time=time)

    def within(self, items: BoolArray) -> Masks:
        """The same for some items alone, shape (n_items,)."""
        return replace(self, shared=[mask & items for mask in self.shared])


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
        gain: of each label in nDCG, shape (n_labels,), where labels are judged as trec_eval does. None = the grade,
            where they are judged as ctxbench does.

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
    gain: IntArray | None = None

    def __post_init__(self) -> None:
        _validate(self, "judgments", "item", "grade", "group", "via", "gain")
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
            gain=None if self.gain is None else self.gain[rows],
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
            over.
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
            FactCodes.of(f"{t}\0{s}" if s and telling else None for t, s in zip(types, servers, strict=True)).code,
            FactCodes.of(f"{t}\0{name_stem(n)}" for n, t in zip(names, types, strict=True)).code,
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
        groups: by the name of a grouping, the number of the group that each catalog item is in, shape (n_items,).
    """

    judgments: Judgments
    offered: OfferedItems
    rankings: Rankings | None = None
    item_tokens: FloatArray | IntArray | None = None
    body_tokens: IntArray | None = None
    kinship: Kinship | None = None
    pool: IntArray | None = None
    model_use: FloatArray | None = None
    groups: Mapping[str, IntArray] = field(default_factory=dict)

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
    return " ".join(re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+", name)[:2]).lower() or name


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
