"""Labelled requests, and what they say of the items of a request that is like them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ctxbench.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from ctxbench.core.errors import ParameterError, UserError
from ctxbench.core.items import Catalog, ItemKey
from ctxbench.index.dense import row_dots

NEIGHBOURS = 10
"""How many of the labelled requests most similar to a request count in its shares."""

LABELLED = ("labelled.nearest", "labelled.share")
"""The columns that are made of labelled requests."""


@dataclass(frozen=True, eq=False)
class LabelledRequests:
    """Labelled requests and what they need, as a fit keeps them.

    Attributes:
        ids: of the labelled queries, shape (n,).
        groups: a number each, the same for queries that are never told apart (paraphrases, one conversation).
        texts: of each request, shape (n,).
        items: the ids of the items that each needs, all alternatives among them, shape (n,); empty where it needs
            nothing.
    """

    ids: tuple[str, ...]
    groups: tuple[int, ...]
    texts: tuple[str, ...]
    items: tuple[tuple[str, ...], ...]

    @classmethod
    def read(cls, rows: Any) -> LabelledRequests:
        """Read what `as_rows` made.

        Raises:
            ParameterError: it is something else.
        """
        if not isinstance(rows, list) or not all(map(_is_row, rows)):
            raise ParameterError('expected `requests` as a list of ["id", group, "the request", ["item", ...]]')
        ids, groups, texts, items = zip(*rows, strict=True) if rows else ((), (), (), ())
        return cls(ids, groups, texts, tuple(map(tuple, items)))

    def as_rows(self) -> list[list[Any]]:
        """As JSON: id, group, text and a list of items each."""
        rows = zip(self.ids, self.groups, self.texts, self.items, strict=True)
        return [[name, group, text, list(items)] for name, group, text, items in rows]

    @cached_property
    def content(self) -> str:
        """SHA-256 over all of it."""
        return hashlib.sha256(repr(self.as_rows()).encode("utf-8", "surrogatepass")).hexdigest()

    def similarity(self, query: str, vector: Float32Array, labelled: Float32Array) -> FloatArray:
        """How much a request is like each labelled one, shape (n,): cosine similarity, at least 0.

        It is 0 to labelled requests without text, and to the query itself and those of its group: a query that is
        measured must not be told its own label.

        Args:
            query: the id of the request.
            vector: of its text, shape (n_dimensions,).
            labelled: vectors of `texts`, shape (n, n_dimensions).
        """
        found: FloatArray = np.maximum(row_dots(vector, labelled), 0.0)
        found[self._blank] = 0.0
        if (place := self._places.get(query)) is not None:
            found[self._group == self._group[place]] = 0.0
        return found

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.ids)}

    @cached_property
    def _group(self) -> IntArray:
        return np.array(self.groups, dtype=np.int64)

    @cached_property
    def _blank(self) -> BoolArray:
        return np.array([not text.strip() for text in self.texts], dtype=np.bool_)

    def needed_by(self, catalog: Catalog) -> dict[int, IntArray]:
        """Which requests need an item, rising, by its catalog position; items that the catalog lacks are left out."""
        found: dict[int, list[int]] = {}
        for request, items in enumerate(self.items):
            for item in dict.fromkeys(items):
                if (position := catalog.find(item)) is not None:
                    found.setdefault(position, []).append(request)
        return {item: np.array(requests, dtype=np.int64) for item, requests in found.items()}


def _is_row(row: Any) -> bool:
    """Whether it is an id, a number, a text and a list of ids of items."""
    if not isinstance(row, list) or [type(one) for one in row] != [str, int, str, list]:
        return False
    try:
        return all(isinstance(one, str) and bool(ItemKey.parse(one)) for one in row[3])
    except UserError:
        return False


def needed_columns(
    similarity: FloatArray, request: IntArray, item: IntArray, needed: Mapping[int, IntArray]
) -> FloatArray:
    """What labelled requests say of candidates: the columns `LABELLED`.

    Args:
        similarity: of requests to labelled ones, shape (n_requests, n_labelled), >= 0.
        request: a row of `similarity` for each candidate, shape (n,).
        item: the catalog position of each candidate, shape (n,).
        needed: by item, the labelled requests that need it.

    Returns:
        Shape (n, 2).
    """
    out = np.zeros((len(item), len(LABELLED)), dtype=np.float64)
    first = np.argsort(-similarity, axis=1, kind="stable")[:, :NEIGHBOURS]
    weight = np.take_along_axis(similarity, first, axis=1)
    for _ in range(3):
        weight = weight * weight  # three times squared: the 8th power
    total = np.add.reduce(weight, axis=1)
    share = np.zeros_like(similarity)
    np.put_along_axis(share, first, np.divide(weight, total[:, None], where=total[:, None] > 0, out=weight * 0), axis=1)
    for one, rows in _rows_by_item(item):
        if one in needed:
            cells = (request[rows][:, None], needed[one][None, :])
            out[rows, 0] = similarity[cells].max(axis=1)
            out[rows, 1] = np.add.reduce(share[cells], axis=1)
    return out


def _rows_by_item(item: IntArray) -> Sequence[tuple[int, IntArray]]:
    """The items that there are, each with its places in `item`, rising."""
    by_item = np.argsort(item, kind="stable")
    distinct, first = np.unique(item[by_item], return_index=True)
    return list(zip(distinct.tolist(), np.split(by_item, first[1:]), strict=True)) if len(item) else []
