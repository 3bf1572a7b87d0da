"""Masks: which items each request of a batch may get, without an array of all requests by all items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ctxbench.core.arrays import BoolArray, IntArray, frozen, owners, ranges, starts
from ctxbench.core.facts import Facts


@dataclass(frozen=True, eq=False, kw_only=True)
class Masks:
    """Which items each request may get: a bool for every request and item, made by rows when they are asked for.

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
        """Whether each request may get the item beside it: for two numbers a bool, for arrays one."""
        requests, items = np.broadcast_arrays(np.asarray(request), np.asarray(item))
        of, at = requests.ravel().astype(np.int64), items.ravel().astype(np.int64)
        flat = self._of_scope(of, at)
        if self.facts is not None:
            flat &= self.facts.at(self.time[of], at)
        flat &= ~np.isin(of * self.n_items + at, owners(self.start) * self.n_items + self.without)
        return flat.reshape(requests.shape) if requests.shape else bool(flat[0])

    def _of_scope(self, request: IntArray, item: IntArray) -> BoolArray:
        """Whether the scope of each request has the item beside it, shape (n,)."""
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
        removed = np.bincount(owner[self._of_scope(owner, self.without)], minlength=len(self))
        return np.subtract(totals, removed)

    def select_requests(self, requests: IntArray) -> Masks:
        """Those of some requests, shape (n,), in their order; one may stand several times."""
        length = np.diff(self.start)[requests]
        without = self.without[ranges(self.start[requests], length)]
        scope, time = self.scope[requests], self.time[requests]
        return replace(self, scope=scope, start=starts(length), without=without, time=time)

    def within(self, items: BoolArray) -> Masks:
        """The same for some items alone, shape (n_items,)."""
        return replace(self, shared=[mask & items for mask in self.shared])
