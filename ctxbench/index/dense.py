"""The dense index: vectors of item chunks, made just in time, and exact search over them.

BLAS proposes and float64 decides. A float32 product of one shape or thread count can give equal vectors unequal
scores and breaks ties its own way, so whatever lies within `MARGIN` of what is returned is scored again by a
row-wise float64 dot product, whose result depends on nothing but the two vectors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np

from ctxbench.core.arrays import BoolArray, Float32Array, FloatArray, IntArray, firsts, owners
from ctxbench.core.candidates import MARGIN
from ctxbench.core.errors import EmbeddingError
from ctxbench.core.items import Catalog, Item
from ctxbench.core.masks import Masks
from ctxbench.core.query import Query
from ctxbench.core.stages import EMBEDDER, Resources
from ctxbench.embedding.embedder import ModelError
from ctxbench.index.products import blocks, multiply, nth_greatest, parts_of, row_dots
from ctxbench.index.versions import index_over
from ctxbench.text.chunking.item_chunks import DOCUMENTS, ItemChunking

T = TypeVar("T")
Embed: TypeAlias = Callable[[Sequence[str]], Float32Array]
"""From texts to their unit vectors, shape (n_texts, n_dimensions)."""
FEW = 8  # where at most one chunk in so many may be found, these are copied, which is faster than a product of all
BLOCK = 4_000_000  # cells of a product held at once: 16 MB


def chunks_of(item: Item) -> tuple[str, ...]:
    """The chunks of an item's search text by the documents' rule; a tool is one chunk, never trimmed."""
    return DOCUMENTS(item)


def dense_index(
    catalog: Catalog,
    resources: Resources,
    *,
    chunking: ItemChunking = DOCUMENTS,
    original: bool = False,
    embedder: str = EMBEDDER,
) -> DenseIndex:
    """The dense index of a catalog by one chunking and embedder, kept with the resources by identities and texts.

    That of a catalog that extends another carries the other's vectors on. That of `original` stands apart: it may lack
    chunks that could not be embedded.
    """
    index: DenseIndex = index_over(
        catalog,
        resources,
        ("dense", chunking, original, embedder),
        over=chunking.over,
        make=lambda: DenseIndex(catalog, chunker=chunking),
        extend=lambda old: old.extended(catalog),
    )
    return index


@dataclass(frozen=True, eq=False)
class ChunkMatrix:
    """Vectors of the chunks of some items, in catalog order.

    Attributes:
        vectors: shape (n_chunks, n_dimensions), float32.
        item: catalog position of each chunk, shape (n_chunks,), rising.
        ordinal: place of each chunk within its item, shape (n_chunks,).
        first: row of the first chunk of each item that has any, shape (n_items_held,).
    """

    vectors: Float32Array
    item: IntArray
    ordinal: IntArray
    first: IntArray

    @classmethod
    def of(cls, vectors: Float32Array, item: IntArray, ordinal: IntArray) -> ChunkMatrix:
        """Take rows that are in catalog order."""
        return cls(np.ascontiguousarray(vectors, dtype=np.float32), item, ordinal, np.flatnonzero(firsts(item)))

    def select_rows(self, rows: IntArray) -> ChunkMatrix:
        """Some of the rows, rising."""
        return ChunkMatrix.of(self.vectors[rows], self.item[rows], self.ordinal[rows])

    def by_chunk(self, of_items: BoolArray) -> BoolArray:
        """What is said of every item of the catalog, shape (n_items,), said of every chunk, shape (n_chunks,)."""
        return of_items if len(self.first) == len(self.item) == len(of_items) else of_items[self.item]


class _Room:
    """The rows of a chunk matrix, with room for more behind them.

    What was handed out stays as it is: rows are only ever added behind the last. Matrices of several catalogs can be
    the first rows of one room, in which a single one, that of the most rows, may go on.
    """

    def __init__(self, rows: int, dimensions: int) -> None:
        size = rows + rows // 2 + 64  # memory that nobody has written to yet costs nothing
        self.vectors: Float32Array = np.empty((size, dimensions), dtype=np.float32)
        self._item: IntArray = np.empty(size, dtype=np.int64)
        self._ordinal: IntArray = np.empty(size, dtype=np.int64)
        self._first: IntArray = np.empty(size, dtype=np.int64)
        self._rows = self._items = 0

    def goes_on(self, matrix: ChunkMatrix, rows: int) -> bool:
        """Whether a matrix of this room is its last, and there is room for so many more rows."""
        return self._rows == len(matrix.item) and self._rows + rows <= len(self.vectors)

    def add(self, item: IntArray, ordinal: IntArray, vectors: Float32Array | None = None) -> ChunkMatrix:
        """Put rows behind the last, and return the matrix of all; None: their vectors are there already."""
        new = np.flatnonzero(firsts(item)) + self._rows
        rows = slice(self._rows, self._rows + len(item))
        items = slice(self._items, self._items + len(new))
        self._item[rows], self._ordinal[rows], self._first[items] = item, ordinal, new
        if vectors is not None:
            self.vectors[rows] = vectors
        self._rows, self._items = rows.stop, items.stop
        used = slice(rows.stop)
        return ChunkMatrix(self.vectors[used], self._item[used], self._ordinal[used], self._first[: items.stop])


class DenseIndex:
    """Chunk vectors of one catalog. Nothing is embedded until an item is needed, and each item once."""

    def __init__(self, catalog: Catalog, *, chunker: Callable[[Item], Sequence[str]] = chunks_of) -> None:
        self._catalog = catalog
        self._chunker = chunker
        self._held = np.zeros(len(catalog), dtype=np.bool_)
        self._matrix: ChunkMatrix | None = None
        self._room: _Room | None = None
        self._made: dict[Hashable, Any] = {}

    def extended(self, catalog: Catalog) -> DenseIndex:
        """The index of a catalog that begins with the items of this one, with all vectors held here.

        Both share them: what either needs behind the last is added without a copy, as long as the other has not gone on
        there first.
        """
        index = DenseIndex(catalog, chunker=self._chunker)
        index._held[: len(self._held)] = self._held
        index._matrix, index._room = self._matrix, self._room
        return index

    def get_or_compute(self, name: Hashable, make: Callable[[ChunkMatrix], T]) -> T | None:
        """What `make` makes of the matrix as it is now, once; None where no item is held."""
        if self._matrix is None:
            return None
        if name not in self._made:
            self._made[name] = make(self._matrix)
        return cast("T", self._made[name])

    def matrix(self, required: BoolArray, embed: Embed, *, skip_failed: bool = False) -> ChunkMatrix | None:
        """The vectors of all items held, once those in `required`, shape (n_items,), are among them.

        Args:
            required: the items that a search is about to need.
            embed: makes vectors of texts, shape (n_texts, n_dimensions).
            skip_failed: leave a chunk that cannot be embedded out in silence, as the original engine does.

        Returns:
            None where no item is held.

        Raises:
            EmbeddingError: a chunk could not be embedded. Nothing of this call is kept here; vectors already
                made are in the store.
        """
        missing = np.flatnonzero(required & ~self._held)
        if len(missing):
            self._add(missing, embed, skip_failed)
        return self._matrix

    def _add(self, positions: IntArray, embed: Embed, skip_failed: bool) -> None:
        rows = [(int(p), n, text) for p in positions for n, text in enumerate(self._chunker(self._catalog[int(p)]))]
        rows_embedded, vectors = _embedded([text for _, _, text in rows], embed, skip_failed)
        if not rows_embedded:
            self._held[positions] = True
            return
        item = np.array([rows[k][0] for k in rows_embedded], dtype=np.int64)
        ordinal = np.array([rows[k][1] for k in rows_embedded], dtype=np.int64)
        broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(broken):
            where = self._catalog[int(item[broken[0]])].id
            raise EmbeddingError(f"the vector of chunk {int(ordinal[broken[0]])} of item {where} holds NaN or infinity")
        self._put(item, ordinal, vectors)
        self._made.clear()
        self._held[positions] = True

    def _put(self, item: IntArray, ordinal: IntArray, vectors: Float32Array) -> None:
        """Take rows in, which are in catalog order; of items that are not held."""
        old = self._matrix
        if old is None or self._room is None:
            self._room = _Room(len(item), vectors.shape[1])
            self._matrix = self._room.add(item, ordinal, vectors)
            return
        if item[0] > old.item[-1] and self._room.goes_on(old, len(item)):
            self._matrix = self._room.add(item, ordinal, vectors)
            return
        room = _Room(len(old.item) + len(item), vectors.shape[1])
        position = np.searchsorted(old.item, item) + np.arange(len(item))
        before = np.ones(len(old.item) + len(item), dtype=np.bool_)
        before[position] = False
        all_vectors = room.vectors[: len(before)]
        all_vectors[position] = vectors
        all_vectors[before] = old.vectors
        self._matrix = room.add(_woven(before, old.item, item), _woven(before, old.ordinal, ordinal))
        self._room = room


def _woven(before: BoolArray, old: IntArray, new: IntArray) -> IntArray:
    """The values of old rows (where `before`) and of new ones (elsewhere) in one array."""
    out: IntArray = np.empty(len(before), dtype=np.int64)
    out[before], out[~before] = old, new
    return out


def _embedded(texts: Sequence[str], embed: Embed, skip_failed: bool) -> tuple[list[int], Float32Array]:
    """Embed texts; with `skip_failed`, one at a time where one fails. Returns the places kept, and their vectors."""
    try:
        return list(range(len(texts))), embed(texts)
    except EmbeddingError as error:
        if not skip_failed or isinstance(error, ModelError):  # without a model no text is at fault
            raise
    positions, vectors = [], []
    for position, text in enumerate(texts):
        try:
            vectors.append(embed([text])[0])
            positions.append(position)
        except EmbeddingError:
            continue
    return positions, np.array(vectors, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Hits:
    """The chunks nearest to one request, by score descending, then catalog order; exact.

    Attributes:
        row: row of the chunk matrix, shape (n_hits,).
        query_chunk: the request's chunk that gave the best score; of equals the first.
        score: float64 dot product, times the query chunk's weight.
    """

    row: IntArray
    query_chunk: IntArray
    score: FloatArray


def by_best_pair(query: Query, embed: Embed, matrix: ChunkMatrix, *, depth: int) -> Iterator[Hits]:
    """The chunks nearest to each request; chunks that a request repeats are embedded and searched once."""
    distinct, chunk = query.distinct
    eligible = distinct.batch.eligible
    required = matrix.by_chunk(eligible.any())
    is_sparse = np.count_nonzero(required) * FEW <= len(required)
    rows = np.flatnonzero(required) if is_sparse else _NONE
    searched = matrix.select_rows(rows) if is_sparse else matrix
    queries = query_vectors(distinct, embed, searched)
    results = search(queries, distinct.start, eligible, searched, depth=depth, weight=distinct.weight)
    for request, hits in enumerate(results):
        yield Hits(
            rows[hits.row] if is_sparse else hits.row, chunk[distinct.start[request] + hits.query_chunk], hits.score
        )


def query_vectors(query: Query, embed: Embed, matrix: ChunkMatrix) -> Float32Array:
    """Vectors of the query chunks, shape (n_chunks, n_dimensions).

    Those of requests that may get nothing stay 0 and are not embedded.
    """
    may_get: BoolArray = query.batch.eligible.counts() > 0
    dimensions = matrix.vectors.shape[1]
    vectors = np.zeros((len(query.text), dimensions), dtype=np.float32)
    served = np.flatnonzero(may_get).tolist()
    vectors[may_get[owners(query.start)]] = query.vectors(embed, served, dimensions=dimensions)
    return vectors


def search(
    queries: Float32Array, start: IntArray, eligible: Masks, matrix: ChunkMatrix, *, depth: int, weight: FloatArray
) -> Iterator[Hits]:
    """Find the nearest chunks of each request: max over its query chunks.

    Args:
        queries: vectors of all query chunks, shape (n_query_chunks, n_dimensions).
        start: CSR starts by request, shape (n_requests + 1,).
        eligible: what each request may get.
        matrix: the chunks to search.
        depth: every chunk that scores at least as high as the best chunk of the item in place `depth` is found.
        weight: shape (n_query_chunks,).

    Yields:
        The hits of each request, in order; none for a request without chunks or without eligible items. Items
        below the first `depth` may be among them.

    Raises:
        EmbeddingError: a query vector holds NaN or infinity.
    """
    for request, parts in itertools.groupby(products(queries, start, matrix), key=itemgetter(0)):
        best = np.full(len(matrix.item), -np.inf, dtype=np.float32)
        scores: Float32Array | None = None
        for index, (_, mine, product) in enumerate(parts):
            part = product * weight[mine, None].astype(np.float32)
            scores = part if index == 0 else None  # of a request in several parts they would be too many
            for row in part:
                np.maximum(best, row, out=best)
        chunks = slice(int(start[request]), int(start[request + 1]))
        allowed = matrix.by_chunk(eligible[request])
        if not allowed.all():
            best = np.where(allowed, best, np.float32(-np.inf))
        yield nearest(queries[chunks], best, matrix, depth=depth, weight=weight[chunks], scores=scores)


def products(queries: Float32Array, start: IntArray, matrix: ChunkMatrix) -> Iterator[tuple[int, slice, Float32Array]]:
    """The float32 products of every request's chunks with all chunks of the matrix, `BLOCK` cells at a time.

    Yields:
        The request, some of its chunks as a slice of `queries`, and their products, shape (n_those_chunks, n_chunks);
        several times in a row for a request that has too many chunks for one block.

    Raises:
        EmbeddingError: a query vector holds NaN or infinity.
    """
    broken = np.flatnonzero(~np.isfinite(queries).all(axis=1))
    if len(broken):
        raise EmbeddingError(f"the vector of query chunk {int(broken[0])} holds NaN or infinity")
    size = max(1, BLOCK // max(len(matrix.item), 1))
    for first, last in blocks(start, size):
        for rows in parts_of(int(start[first]), int(start[last]), size):
            product = multiply(queries[rows], matrix.vectors)
            for request in range(first, last):
                mine = slice(max(int(start[request]), rows.start), min(int(start[request + 1]), rows.stop))
                yield request, mine, product[mine.start - rows.start : mine.stop - rows.start]


def nearest(
    queries: Float32Array,
    best: Float32Array,
    matrix: ChunkMatrix,
    *,
    depth: int,
    weight: FloatArray,
    scores: Float32Array | None = None,
) -> Hits:
    """Turn what one request's best chunk proposes for each chunk of the matrix, shape (n_chunks,), into exact hits.

    Args:
        queries: vectors of the request's chunks, shape (n_query_chunks, n_dimensions).
        best: the highest product of a query chunk, times its weight; -inf for chunks that may not be found.
        matrix, depth: as of `search`.
        weight: shape (n_query_chunks,).
        scores: all products, weighted, shape (n_query_chunks, n_chunks); None = those that count are made again.
    """
    if len(queries) == 0 or len(matrix.item) == 0:
        return Hits(_NONE, _NONE, np.empty(0, dtype=np.float64))
    margin = np.float32(MARGIN * max(1.0, float(weight.max())))  # float32's error grows with the weight
    limit = np.finfo(np.float32).min  # any score, but not -inf
    if len(matrix.first) > depth:
        of_items = best if len(matrix.first) == len(best) else np.maximum.reduceat(best, matrix.first)
        limit = max(limit, nth_greatest(of_items, depth) - margin)
    near = np.flatnonzero(best >= limit)
    threshold = best[near] - margin
    if scores is None:
        query, row = _pairs(queries, weight, matrix.vectors, near, threshold)
    else:
        query, column = np.nonzero(scores[:, near] >= threshold)
        row = near[column]
    exact = row_dots(queries[query].astype(np.float64), matrix.vectors[row]) * weight[query]
    pairs = np.lexsort((query, -exact, row))
    row, query, exact = row[pairs], query[pairs], exact[pairs]
    winner = firsts(row)
    row, query, exact = row[winner], query[winner], exact[winner]
    by_score = np.lexsort((row, -exact))
    return Hits(row[by_score], query[by_score], exact[by_score])


def _pairs(
    queries: Float32Array, weight: FloatArray, vectors: Float32Array, near: IntArray, threshold: Float32Array
) -> tuple[IntArray, IntArray]:
    """The pairs of a query chunk and one of the rows `near` whose product, weighted, is at least that row's `least`."""
    near_vectors = vectors if len(near) == len(vectors) else vectors[near]
    query, column = [], []
    for part in parts_of(0, len(queries), max(1, BLOCK // max(len(near), 1))):
        scores = multiply(queries[part], near_vectors) * weight[part, None].astype(np.float32)
        cells = np.nonzero(scores >= threshold)
        query.append(cells[0] + part.start)
        column.append(cells[1])
    return np.concatenate(query), near[np.concatenate(column)]


_NONE = np.empty(0, dtype=np.int64)
