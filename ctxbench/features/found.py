"""What features are made of: the rows that a search found, by request, and the labelled requests of a fit."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from ctxbench.core.candidates import MARGIN, SEARCHED, Candidates
from ctxbench.core.errors import ParameterError, UserError
from ctxbench.core.items import Catalog, ItemKey
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.features.item_words import ItemWords, item_words
from ctxbench.index.dense import BLOCK, ChunkMatrix, dense_index
from ctxbench.index.products import multiply, parts_of, row_dots

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
        return [list(row) for row in zip(self.ids, self.groups, self.texts, map(list, self.items), strict=True)]

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
        similarity: FloatArray = np.maximum(row_dots(vector, labelled), 0.0)
        similarity[self._blank] = 0.0
        if (position := self._position_of.get(query)) is not None:
            similarity[self._group == self._group[position]] = 0.0
        return similarity

    @cached_property
    def _position_of(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.ids)}

    @cached_property
    def _group(self) -> IntArray:
        return np.array(self.groups, dtype=np.int64)

    @cached_property
    def _blank(self) -> BoolArray:
        return np.array([not text.strip() for text in self.texts], dtype=np.bool_)

    def needed_by(self, catalog: Catalog) -> dict[int, IntArray]:
        """Which requests need an item, rising, by its catalog position; items that the catalog lacks are left out."""
        by_item: dict[int, list[int]] = {}
        for request, items in enumerate(self.items):
            for item in dict.fromkeys(items):
                if (position := catalog.find(item)) is not None:
                    by_item.setdefault(position, []).append(request)
        return {item: np.array(requests, dtype=np.int64) for item, requests in by_item.items()}


def _is_row(row: Any) -> bool:
    """Whether it is an id, a number, a text and a list of ids of items."""
    if not isinstance(row, list) or [type(cell) for cell in row] != [str, int, str, list]:
        return False
    try:
        return all(isinstance(item, str) and bool(ItemKey.parse(item)) for item in row[3])
    except UserError:
        return False


def needed_columns(
    similarity: FloatArray, request: IntArray, item: IntArray, required_by_item: Mapping[int, IntArray]
) -> FloatArray:
    """What labelled requests say of candidates: the columns `LABELLED`.

    Args:
        similarity: of requests to labelled ones, shape (n_requests, n_labelled), >= 0.
        request: a row of `similarity` for each candidate, shape (n,).
        item: the catalog position of each candidate, shape (n,).
        required_by_item: by item, the labelled requests that need it.

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
    for position, rows in _rows_by_item(item):
        if position in required_by_item:
            cells = (request[rows][:, None], required_by_item[position][None, :])
            out[rows, 0] = similarity[cells].max(axis=1)
            out[rows, 1] = np.add.reduce(share[cells], axis=1)
    return out


def _rows_by_item(item: IntArray) -> Sequence[tuple[int, IntArray]]:
    """The items that there are, each with its places in `item`, rising."""
    by_item = np.argsort(item, kind="stable")
    distinct, first = np.unique(item[by_item], return_index=True)
    return list(zip(distinct.tolist(), np.split(by_item, first[1:]), strict=True)) if len(item) else []


RETRIEVED = "retrieved.score"
"""Column: the score of retrieval, where a rank step has put another one in its place."""


@dataclass(frozen=True, eq=False)
class FeatureInput:
    """The rows that features are made of.

    Attributes:
        query: the analysed requests.
        table: the candidates.
        resources: as of the pipeline.
        rows: of the table, by request and score of retrieval, best first, ties in catalog order; shape (n_found,).
        item: their catalog positions, shape (n_found,).
        score: what retrieval gave each, shape (n_found,).
        start: where each request's rows start in `rows`, shape (n_requests + 1,).
        labelled: the labelled requests of the fit that the features are for; None = there is no fit.
    """

    query: Query
    table: Candidates
    resources: Resources
    rows: IntArray
    item: IntArray
    score: FloatArray
    start: IntArray
    labelled: LabelledRequests | None = None

    @classmethod
    def of(
        cls,
        query: Query,
        table: Candidates,
        resources: Resources,
        *,
        expanded: bool = True,
        labelled: LabelledRequests | None = None,
    ) -> FeatureInput:
        """Take the rows of a table but for those of the session.

        Args:
            query, table, resources: as of the step.
            expanded: False leaves out what an expansion brought in, if no rank step has ordered it since.
            labelled: the labelled requests of the fit that the features are for.
        """
        score = np.where(table.ranked | (expanded & (table.tier > 0)), table.score, np.nan)
        for column in (SEARCHED, RETRIEVED):
            before = table.columns.get(column, np.full(len(table), np.nan))
            score = np.where(np.isnan(before), score, before)
        rows = np.flatnonzero(~np.isnan(score))
        rows = rows[np.lexsort((table.item[rows], -score[rows], table.request[rows]))]
        start = np.searchsorted(table.request[rows], np.arange(table.n_requests + 1)).astype(np.int64)
        return cls(query, table, resources, rows, table.item[rows], score[rows], start, labelled)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def asking(self) -> IntArray:
        """The requests for which anything was found, rising."""
        return np.flatnonzero(np.diff(self.start) > 0)

    def spans(self) -> Iterator[tuple[int, slice]]:
        """Every request for which anything was found, and its rows as a slice of `rows`."""
        for request in self.asking.tolist():
            yield request, slice(int(self.start[request]), int(self.start[request + 1]))

    @cached_property
    def words(self) -> ItemWords:
        """The words of the catalog's items."""
        return item_words(self.query.batch.catalog, self.resources)

    @cached_property
    def similarity(self) -> dict[int, FloatArray]:
        """Cosine similarity of each distinct chunk of a request to each of its items, by request.

        That of an item is that of its best chunk; each is a float64 dot product of the two vectors times the query
        chunk's weight, the same bits whatever stands around it. Shape (n_distinct, n_rows); a request without chunks
        is left out.
        """
        query = self.query.distinct[0]
        catalog = query.batch.catalog
        is_candidate = np.isin(np.arange(len(catalog)), self.item)
        matrix = dense_index(catalog, self.resources).matrix(is_candidate, self.resources.vectors)
        asking = {request: span for request, span in self.spans() if query.chunks(request)}
        if matrix is None or not asking:
            return {}
        return {
            request: best_of_chunks(vectors, matrix, self.item[asking[request]])
            * query.weight[query.start[request] : query.start[request + 1], None]
            for request, vectors in query.vectors_by_request(
                self.resources.vectors, asking, dimensions=matrix.vectors.shape[1]
            ).items()
        }

    def sentences(self, request: int, span: slice) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Similarity and BM25 of the distinct chunks of a request for each of its items, a few chunks at a time.

        Args:
            request: one that `similarity` has.
            span: its rows, as of `spans`.

        Yields:
            Two arrays of shape (n_those_chunks, n_rows).
        """
        similarity, item = self.similarity[request], self.item[span]
        by_chunk = self.words.bm25.words_by_chunk(self.query.distinct[0].chunks(request))
        for part in parts_of(0, len(similarity), max(1, BLOCK // (8 * max(len(item), 1)))):
            yield similarity[part], np.stack([self.words.bm25.scores(words)[item] for words in by_chunk[part]])


class RequestFamily(ABC):
    """Columns of the items of each request, made request by request.

    Attributes:
        columns: their names, without that of the family.
        uses: the resources whose identity decides them.
    """

    columns: ClassVar[tuple[str, ...]]
    uses: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def of_request(self, inputs: FeatureInput, request: int, span: slice) -> npt.ArrayLike:
        """The columns of the rows of a request, in a shape that broadcasts to (n_rows, n_columns)."""

    def __call__(self, inputs: FeatureInput) -> FloatArray:
        """The columns, shape (n_found, n_columns)."""
        out = np.zeros((len(inputs), len(self.columns)), dtype=np.float64)
        for request, span in inputs.spans():
            out[span] = self.of_request(inputs, request, span)
        return out


def best_of_chunks(queries: np.ndarray, matrix: ChunkMatrix, item: IntArray) -> FloatArray:
    """The similarity of each item's best chunk to each query vector, in float64.

    BLAS proposes, and what lies within `MARGIN` of an item's best is multiplied again row by row.

    Args:
        queries: unit vectors, shape (n_queries, n_dimensions).
        matrix: holds all chunks of the items.
        item: catalog positions, shape (n_items,), each at most once.

    Returns:
        Shape (n_queries, n_items).
    """
    position = np.searchsorted(matrix.item[matrix.first], item)
    ends = np.append(matrix.first, len(matrix.item))
    size = ends[position + 1] - ends[position]
    owner = np.repeat(np.arange(len(item)), size)
    first = np.cumsum(size) - size
    rows = np.arange(int(size.sum())) - np.repeat(first - ends[position], size)
    vectors = matrix.vectors[rows]
    out = np.full((len(queries), len(item)), -np.inf)
    cells = max(len(rows), len(item) * queries.shape[1], 1)  # of the products, and of what is multiplied again
    for part in parts_of(0, len(queries), max(1, BLOCK // cells)):
        block = np.ascontiguousarray(queries[part])
        proposed = multiply(block, vectors)
        best = np.maximum.reduceat(proposed, first, axis=1)
        query, near = np.nonzero(proposed >= best[:, owner] - np.float32(MARGIN))
        np.maximum.at(out[part], (query, owner[near]), row_dots(block[query].astype(np.float64), vectors[near]))
    return out


def ranks_of(values: FloatArray) -> IntArray:
    """How many values of the same row are higher, shape of `values` (n,) or (m, n); ties share the best place."""
    if values.ndim == 1:
        return np.searchsorted(np.sort(-values), -values, side="left").astype(np.int64)
    return np.stack([ranks_of(row) for row in values]) if len(values) else values.astype(np.int64)


def log1p(values: FloatArray | IntArray) -> FloatArray:
    """log(1 + value), each by itself: vectorised logarithms may differ in the last bit by where a value stands."""
    return np.array([math.log1p(value) for value in values.ravel().tolist()], dtype=np.float64).reshape(values.shape)
