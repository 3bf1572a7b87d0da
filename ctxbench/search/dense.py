"""Dense search: vectors of item chunks, exact matrix products, similar pairs, and candidates from scores.

BLAS proposes and float64 decides. A float32 product of another shape or thread count can give equal vectors unequal
scores. So all scores within `MARGIN` of a result are computed again by a row-wise float64 dot product, which depends on
the two vectors only. The most similar pairs of items and chunks are found in the same way. Where BLAS is given vectors
in fewer bytes than float32, the margin grows by what these may be wrong by.
"""

from __future__ import annotations

import hashlib
import itertools
import threading
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from ctxbench.io.errors import EmbeddingError
from ctxbench.model.arrays import BoolArray, Float32Array, FloatArray, IntArray, Masks, firsts, owners, ranges, starts
from ctxbench.model.candidates import MARGIN, Candidates
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Query
from ctxbench.model.resources import EMBEDDER, Embed, Resources, index_over
from ctxbench.search.chunking import DOCUMENTS, ItemChunking
from ctxbench.search.embedders import ModelError, text_hash
from ctxbench.search.vector_files import (
    FEW,
    PART,
    WHOLE,
    ChunkMatrix,
    Proposer,
    Room,
    VectorFiles,
    blocks,
    parts_of,
    row_dots,
)

GROUP = 16  # values of which the greatest is looked at first
_LOWEST = np.finfo(np.float32).min  # any score is higher, but for -inf
SMALL = 50_000_000  # multiplications below which a second BLAS thread costs more than it gives


def multiply(left: Float32Array, right: Float32Array) -> Float32Array:
    """`left @ right.T`, with one BLAS thread where the product is small."""
    if left.shape[0] * right.shape[0] * left.shape[1] > SMALL:
        return left @ right.T
    with _blas().limit(limits=1, user_api="blas"):
        return left @ right.T


def reached_by(values: Float32Array, n: int) -> Float32Array:
    """For each row a value that at least `n` of its values reach, nearly the greatest; the lowest where it has fewer.

    Args:
        values: shape (n_rows, n_values).
        n: 1 or more.

    Returns:
        Shape (n_rows,): the `n`-th greatest value, or of many values the `n`-th greatest of the highest of each group.
    """
    groups = values.shape[1] // GROUP
    if groups > n:
        values = values[:, : groups * GROUP].reshape(len(values), GROUP, groups).max(axis=1)
    position = values.shape[1] - n
    if position < 0:
        return np.full(len(values), _LOWEST)
    return np.maximum(np.partition(values, position, axis=1)[:, position], _LOWEST)


@cache
def _blas() -> Any:
    """The controller of BLAS threads; finding the libraries costs milliseconds, so it is done once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


T = TypeVar("T")
BLOCK = 4_000_000  # cells of a product held at once: 16 MB
MASKS = 64_000_000  # bytes of what the requests that are searched together may get


def chunks_of(item: Item) -> tuple[str, ...]:
    """The chunks of an item's search text by the specification's rule; a tool is one chunk, never trimmed."""
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

    That of a catalog that extends another carries the other's vectors on. That of `original` is separate: it may lack
    chunks that could not be embedded.
    """
    index: DenseIndex = index_over(
        catalog,
        resources,
        ("dense", chunking, original, embedder),
        over=chunking.over,
        make=lambda: DenseIndex(
            catalog, chunker=chunking, files=None if original else resources.vector_files(embedder)
        ),
        extend=lambda old: old.extended(catalog),
    )
    return index


class _Embedded(NamedTuple):
    """The embedded items of a dense index. It is replaced as a whole, so that readers need no lock.

    Attributes:
        is_embedded: shape (n_items,), never changed.
        matrix, room: their vectors, and the room of these; None where no item has a chunk.
    """

    is_embedded: BoolArray
    matrix: ChunkMatrix | None = None
    room: Room | None = None


class DenseIndex:
    """Chunk vectors of one catalog. Nothing is embedded until an item is needed, and each item once.

    Threads may share an index: while one embeds, others that need further items wait for it.

    Args:
        catalog: the items.
        chunker: the chunks of an item.
        files: where the vectors are kept if they are many and most items are needed at once; None: in memory.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        chunker: Callable[[Item], Sequence[str]] = chunks_of,
        files: VectorFiles | None = None,
    ) -> None:
        self._catalog, self._chunker, self._files = catalog, chunker, files
        self._embedded = _Embedded(np.zeros(len(catalog), dtype=np.bool_))
        self._computed: dict[Hashable, tuple[ChunkMatrix, Any]] = {}
        self._lock = threading.Lock()

    def extended(self, catalog: Catalog) -> DenseIndex:
        """The index of a catalog that begins with the items of this one, with all vectors held here.

        Both share them: what either needs behind the last is added without a copy, as long as the other has not gone on
        there first. Vectors in files are not carried on: they are in the store.
        """
        index, embedded = DenseIndex(catalog, chunker=self._chunker, files=self._files), self._embedded
        if embedded.matrix is None or embedded.room is not None:
            added = np.zeros(len(catalog) - len(embedded.is_embedded), dtype=np.bool_)
            index._embedded = embedded._replace(is_embedded=np.append(embedded.is_embedded, added))
        return index

    def get_or_compute(self, name: Hashable, make: Callable[[ChunkMatrix], T]) -> T | None:
        """What `make` makes of the matrix as it is now, once; None where no item is held."""
        if (matrix := self._embedded.matrix) is None:
            return None
        computed = self._computed.get(name)
        if computed is None or computed[0] is not matrix:
            self._computed[name] = computed = matrix, make(matrix)
        return cast("T", computed[1])

    def matrix(self, required: BoolArray, embed: Embed, *, skip_failed: bool = False) -> ChunkMatrix | None:
        """The vectors of all items held, once those in `required`, shape (n_items,), are among them.

        Args:
            required: the items that a search is about to need.
            embed: makes vectors of texts, here of items, shape (n_texts, n_dimensions).
            skip_failed: leave a chunk that cannot be embedded out in silence, as the original engine does.

        Returns:
            None where no item is held.

        Raises:
            EmbeddingError: a chunk could not be embedded. Nothing of this call is kept here; vectors already
                made are in the store.
        """
        if (required & ~self._embedded.is_embedded).any():
            with self._lock:
                if len(missing := np.flatnonzero(required & ~self._embedded.is_embedded)):
                    self._embedded = self._with(missing, embed, skip_failed)
        return self._embedded.matrix

    def _with(self, positions: IntArray, embed: Embed, skip_failed: bool) -> _Embedded:
        """What is embedded once the items at some positions are, too, none of which is yet."""
        is_embedded = self._embedded.is_embedded.copy()
        is_embedded[positions] = True
        chunks, rows = self._chunks(positions.tolist()), list[tuple[int, int, str]]()
        if self._files is not None and 2 * len(positions) >= len(is_embedded):
            n_in_memory = self._files.n_in_memory
            if len(positions) <= n_in_memory:  # else it is likely that there are more chunks
                rows += itertools.islice(chunks, n_in_memory)
            if (
                len(rows) in (0, n_in_memory)
                and (matrix := self._in_files(self._files, embed, n_in_memory)) is not None
            ):
                return _Embedded(np.ones_like(is_embedded), matrix)
        rows += chunks
        rows_embedded, vectors = _embedded([text for _, _, text in rows], embed, skip_failed)
        if not rows_embedded:
            return self._embedded._replace(is_embedded=is_embedded)
        item, ordinal = (np.array([rows[k][part] for k in rows_embedded], dtype=np.int64) for part in (0, 1))
        self._require_finite(vectors, item, ordinal)
        return _Embedded(is_embedded, *self._put(item, ordinal, vectors))

    def _chunks(self, positions: Iterable[int]) -> Iterator[tuple[int, int, str]]:
        """Position of the item, place within it, and text of the chunks of some items."""
        return ((p, n, text) for p in positions for n, text in enumerate(self._chunker(self._catalog[p])))

    def _require_finite(self, vectors: Float32Array, item: IntArray, ordinal: IntArray) -> None:
        if len(broken := np.flatnonzero(~np.isfinite(vectors).all(axis=1))):
            where = self._catalog[int(item[broken[0]])].id
            raise EmbeddingError(f"the vector of chunk {int(ordinal[broken[0]])} of item {where} holds NaN or infinity")

    def _in_files(self, files: VectorFiles, embed: Embed, n_chunks: int) -> ChunkMatrix | None:
        """The vectors of all items in files; None if there are fewer than `least`, no room, or a text has no vector."""
        item, ordinal, key = array("q"), array("q"), hashlib.sha256(files.maker.encode())
        for position, number, text in self._chunks(range(len(self._catalog))):
            item.append(position)
            ordinal.append(number)
            key.update(text_hash(text))
        if len(item) < max(n_chunks, 1):
            return None
        item_of, ordinal_of = np.array(item, dtype=np.int64), np.array(ordinal, dtype=np.int64)

        def vectors() -> Iterator[Float32Array]:
            texts = (text for *_, text in self._chunks(range(len(self._catalog))))
            for rows in parts_of(0, len(item), PART):
                part = embed([*itertools.islice(texts, rows.stop - rows.start)], kind="item")
                self._require_finite(part, item_of[rows], ordinal_of[rows])
                yield part

        try:
            file = files.open(key.hexdigest()[:32], len(item), vectors)
        except EmbeddingError as error:
            if isinstance(error, ModelError):
                raise
            return None  # nobody may need that item
        if file is None:
            return None
        in_parts = files.vectors != "float32" or file.vectors.nbytes > WHOLE
        return replace(ChunkMatrix.of(file.vectors, item_of, ordinal_of), file=file if in_parts else None)

    def _put(self, item: IntArray, ordinal: IntArray, vectors: Float32Array) -> tuple[ChunkMatrix, Room]:
        """The matrix with further rows, which are in catalog order, and its room."""
        _, old, room = self._embedded
        if old is None or room is None:
            return (room := Room(len(item), vectors.shape[1])).add(item, ordinal, vectors), room
        if item[0] > old.item[-1] and (matrix := room.extended(old, item, ordinal, vectors)) is not None:
            return matrix, room
        room = Room(len(old.item) + len(item), vectors.shape[1])
        position = np.searchsorted(old.item, item) + np.arange(len(item))
        before = np.ones(len(old.item) + len(item), dtype=np.bool_)
        before[position] = False
        all_vectors = room.vectors[: len(before)]
        all_vectors[position], all_vectors[before] = vectors, old.vectors
        return room.add(_woven(before, old.item, item), _woven(before, old.ordinal, ordinal)), room


def _woven(before: BoolArray, old: IntArray, new: IntArray) -> IntArray:
    """The values of old rows (where `before`) and of new ones (elsewhere) in one array."""
    out: IntArray = np.empty(len(before), dtype=np.int64)
    out[before], out[~before] = old, new
    return out


def _embedded(texts: Sequence[str], embed: Embed, skip_failed: bool) -> tuple[list[int], Float32Array]:
    """Embed texts; with `skip_failed`, one at a time where one fails. Returns the places kept, and their vectors."""
    try:
        return list(range(len(texts))), embed(texts, kind="item")
    except EmbeddingError as error:
        if not skip_failed or isinstance(error, ModelError):  # without a model no text is at fault
            raise
    positions, vectors = [], []
    for position, text in enumerate(texts):
        with suppress(EmbeddingError):
            vectors.append(embed([text], kind="item")[0])
            positions.append(position)
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

    def of_rows(self, rows: IntArray) -> Hits:
        """Those of a matrix whose rows `rows` were searched."""
        return replace(self, row=rows[self.row])


def by_best_pair(
    query: Query, embed: Embed, matrix: ChunkMatrix, *, depth: int, proposer: Proposer | None = None
) -> Iterator[Hits]:
    """The chunks nearest to each request; chunks that a request repeats are embedded and searched once.

    With a `proposer` of the same matrix they are the nearest of those that it proposes.
    """
    distinct, chunk = query.distinct
    queries, eligible, weight = query_vectors(distinct, embed, matrix), distinct.batch.eligible, distinct.weight
    proposed: Iterable[IntArray | None] = itertools.repeat(None, len(eligible))
    if proposer is not None:
        require_finite(queries)
        proposed = proposer.rows(queries, distinct.start, eligible, depth=depth, weight=weight)
    rows_of = [*proposed]
    rest = np.array([request for request, rows in enumerate(rows_of) if rows is None], dtype=np.int64)
    searched = _search_all(distinct, queries, rest, matrix, depth=depth)
    for request, rows in enumerate(rows_of):
        mine = slice(int(distinct.start[request]), int(distinct.start[request + 1]))
        if rows is None:
            hits = next(searched)
        elif not len(rows):
            hits = Hits(_NONE, _NONE, np.empty(0, dtype=np.float64))
        else:
            block = _Block(queries[mine], weight[mine], np.array([0, mine.stop - mine.start]), depth)
            hits = next(block.hits(matrix.select_rows(rows), [_ANY])).of_rows(rows)
        yield replace(hits, query_chunk=chunk[mine.start + hits.query_chunk])


def _search_all(
    query: Query, queries: Float32Array, requests: IntArray, matrix: ChunkMatrix, *, depth: int
) -> Iterator[Hits]:
    """As `search` of some requests, over a copy of the chunks that any of them may get where these are few."""
    length = np.diff(query.start)[requests]
    chunks, eligible = ranges(query.start[requests], length), query.batch.eligible.select_requests(requests)
    required = matrix.by_chunk(eligible.any())
    is_sparse = np.count_nonzero(required) * FEW <= len(required)
    rows = np.flatnonzero(required) if is_sparse else _NONE
    searched = matrix.select_rows(rows) if is_sparse else matrix
    for hits in search(queries[chunks], starts(length), eligible, searched, depth=depth, weight=query.weight[chunks]):
        yield hits.of_rows(rows) if is_sparse else hits


def query_vectors(query: Query, embed: Embed, matrix: ChunkMatrix) -> Float32Array:
    """Vectors of the query chunks, shape (n_chunks, n_dimensions).

    Those of requests that may get nothing stay 0 and are not embedded.
    """
    may_get: BoolArray = query.batch.eligible.counts() > 0
    dimensions = matrix.vectors.shape[1]
    vectors = np.zeros((len(query.text), dimensions), dtype=np.float32)
    vectors[may_get[owners(query.start)]] = query.vectors(
        embed, np.flatnonzero(may_get).tolist(), dimensions=dimensions
    )
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
        below the first `depth` may be among them, if they score as high but for `MARGIN`.

    Raises:
        EmbeddingError: a query vector holds NaN or infinity.
    """
    require_finite(queries)
    n_rows = len(matrix.item) if depth >= len(matrix.first) else min(len(matrix.item), PART)
    size = max(1, min(BLOCK // max(n_rows, 1), MASKS // max(eligible.shape[1], 1)))
    for first, last in blocks(start, size):
        n_chunks = np.diff(start[first : last + 1])
        asking = np.flatnonzero(n_chunks) if len(matrix.item) else _NONE
        hits: Iterator[Hits] = iter(())
        if len(asking):
            chunks = slice(int(start[first]), int(start[last]))
            masks = [eligible[first + request] for request in asking.tolist()]
            hits = _Block(queries[chunks], weight[chunks], starts(n_chunks[asking]), depth).hits(matrix, masks)
        for n in n_chunks.tolist():
            yield next(hits) if n and len(asking) else Hits(_NONE, _NONE, np.empty(0, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of a query chunk and a row of the matrix, with what BLAS makes of them, times the weight; shape (n,)."""

    chunk: IntArray
    row: IntArray
    score: Float32Array

    @classmethod
    def joined(cls, parts: Sequence[_Pairs]) -> _Pairs:
        """Those of all parts, one or more, one behind the other."""
        return cls(*map(np.concatenate, zip(*((part.chunk, part.row, part.score) for part in parts), strict=True)))


@dataclass(frozen=True, eq=False)
class _Block:
    """Requests that are searched together, each with one query chunk or more.

    Attributes:
        queries, weight: of their chunks, as of `search`.
        start: CSR starts by request.
        depth: as of `search`.
    """

    queries: Float32Array
    weight: FloatArray
    start: IntArray
    depth: int

    @cached_property
    def owner(self) -> IntArray:
        """The request of each query chunk."""
        return owners(self.start)

    @cached_property
    def tolerance(self) -> FloatArray:
        """What float32's products may be wrong by and still be right, by request; it grows with the weight."""
        return MARGIN * np.maximum(np.maximum.reduceat(self.weight, self.start[:-1]), 1.0)

    def hits(self, matrix: ChunkMatrix, masks: Sequence[BoolArray]) -> Iterator[Hits]:
        """The hits of each request, exact.

        Args:
            matrix: the chunks to search, one or more.
            masks: the items that each request may get, each of shape (n_items,).
        """
        pairs = self._near_pairs(matrix, masks)
        exact = matrix.dots(self.queries, pairs.chunk, pairs.row) * self.weight[pairs.chunk]
        request, chunk, row = self.owner[pairs.chunk], pairs.chunk, pairs.row
        if len(self.owner) > len(self.start) - 1:  # the best pair of each row
            by_row = np.lexsort((chunk, -exact, row, request))
            best = by_row[firsts((request * len(matrix.item) + row)[by_row])]
            request, chunk, row, exact = request[best], chunk[best], row[best], exact[best]
        by_score = np.lexsort((row, -exact, request))
        request, chunk, row, exact = request[by_score], chunk[by_score], row[by_score], exact[by_score]
        first_of_item = first_places(request, matrix.item[row]) if matrix.has_parts else np.ones_like(request, np.bool_)
        last = np.flatnonzero(first_of_item)[places_in(request[first_of_item]) == self.depth - 1]
        limit = np.full(len(self.start) - 1, -np.inf)
        limit[request[last]] = exact[last] - self.tolerance[request[last]]
        high = exact >= limit[request]
        request, chunk, row, exact = request[high], chunk[high], row[high], exact[high]
        chunk = chunk - self.start[request]
        bounds = np.searchsorted(request, np.arange(len(self.start)))
        for begin, end in itertools.pairwise(bounds.tolist()):
            yield Hits(row[begin:end], chunk[begin:end], exact[begin:end])

    def _near_pairs(self, matrix: ChunkMatrix, masks: Sequence[BoolArray]) -> _Pairs:
        """All pairs that may be the best of one of the first `depth` items of a request, and few more."""
        weight = None if (self.weight == 1.0).all() else self.weight[:, None].astype(np.float32)
        wrong = matrix.error * np.maximum.reduceat(self.weight * np.linalg.norm(self.queries, axis=1), self.start[:-1])
        margin = 2 * (self.tolerance + wrong).astype(np.float32)  # two scores may both be wrong
        limited = self._limited(matrix, masks)
        limit, n_new = np.full(len(masks), _LOWEST), 0
        parts: list[_Pairs] = []
        for rows, vectors in matrix.parts(max(1, BLOCK // len(self.queries))):
            product = multiply(self.queries, vectors)
            if weight is not None:
                product *= weight
            for chunks, mask in limited:
                product[chunks] = np.where(mask[rows], product[chunks], -np.inf)
            if not parts:
                limit = self._reached(product, matrix, rows)
            elif n_new > 2 * self.depth * len(masks):
                limit, pairs = self._tightened(_Pairs.joined(parts), limit, margin, matrix)
                parts, n_new = [pairs], 0
            parts.append(self._high(product, limit, margin, rows.start))
            n_new += len(parts[-1].row)
        return parts[0] if len(parts) == 1 else self._tightened(_Pairs.joined(parts), limit, margin, matrix)[1]

    def _limited(self, matrix: ChunkMatrix, masks: Sequence[BoolArray]) -> list[tuple[IntArray, BoolArray]]:
        """Query chunks of requests that may not get everything, and the rows that these may find."""
        requests: dict[int, list[int]] = {}
        for request, mask in enumerate(masks):
            requests.setdefault(id(mask), []).append(request)
        groups = [(members, masks[members[0]]) for members in requests.values() if not masks[members[0]].all()]
        return [(np.flatnonzero(np.isin(self.owner, members)), matrix.by_chunk(mask)) for members, mask in groups]

    def _reached(self, product: Float32Array, matrix: ChunkMatrix, rows: slice) -> Float32Array:
        """For each request a score that `depth` items reach, from the products of some whole items."""
        first = matrix.first[slice(*np.searchsorted(matrix.first, (rows.start, rows.stop)))] - rows.start
        of_items = product if len(first) == product.shape[1] else np.maximum.reduceat(product, first, axis=1)
        return np.asarray(np.maximum.reduceat(reached_by(of_items, self.depth), self.start[:-1]))

    def _high(self, product: Float32Array, limit: Float32Array, margin: Float32Array, first: int) -> _Pairs:
        """The pairs of a product that reach both the limit of their request and the row's best, but for the margin."""
        width = product.shape[1]
        if len(product) == len(limit):
            cells = np.flatnonzero(product >= (limit - margin)[:, None])
        else:
            parts = []
            for begin, end, lowest, tolerated in zip(self.start, self.start[1:], limit - margin, margin, strict=False):
                scores = product[begin:end]
                high = scores >= np.maximum(scores.max(axis=0) - tolerated, lowest)
                parts.append(np.flatnonzero(high) + begin * width)
            cells = np.concatenate(parts)
        chunk, column = np.divmod(cells, width)
        return _Pairs(chunk, column + first, product.ravel()[cells])

    def _tightened(
        self, pairs: _Pairs, limit: Float32Array, margin: Float32Array, matrix: ChunkMatrix
    ) -> tuple[Float32Array, _Pairs]:
        """The limits by the pairs so far, and the pairs that reach them but for the margin."""
        request = self.owner[pairs.chunk]
        key = request * (int(matrix.item[-1]) + 1) + matrix.item[pairs.row]
        by_item = np.argsort(key, kind="stable")
        head = np.flatnonzero(firsts(key[by_item]))
        of_item = request[by_item[head]]
        places = places_in(of_item)
        if len(places) and int(places.max()) >= self.depth:
            table = np.full((len(limit), int(places.max()) + 1), -np.inf, dtype=np.float32)
            table[of_item, places] = np.maximum.reduceat(pairs.score[by_item], head)
            limit = np.maximum(limit, reached_by(table, self.depth))
        high = pairs.score >= (limit - margin)[request]
        return limit, _Pairs(pairs.chunk[high], pairs.row[high], pairs.score[high])


def places_in(group: IntArray) -> IntArray:
    """The 0-based place of each entry within its run of equal values, shape (n,)."""
    position = np.arange(len(group), dtype=np.int64)
    return position - np.maximum.accumulate(np.where(firsts(group), position, 0))


def first_places(request: IntArray, value: IntArray) -> BoolArray:
    """Whether an entry is the first of its request with its value, both >= 0, shape (n,)."""
    first = np.zeros(len(request), dtype=np.bool_)
    first[np.unique(request * (int(value.max(initial=0)) + 1) + value, return_index=True)[1]] = True
    return first


def require_finite(queries: Float32Array) -> None:
    """Refuse vectors of query chunks that cannot be compared.

    Raises:
        EmbeddingError: one holds NaN or infinity.
    """
    if len(broken := np.flatnonzero(~np.isfinite(queries).all(axis=1))):
        raise EmbeddingError(f"the vector of query chunk {int(broken[0])} holds NaN or infinity")


def products(queries: Float32Array, start: IntArray, matrix: ChunkMatrix) -> Iterator[tuple[int, slice, Float32Array]]:
    """The float32 products of every request's chunks with all chunks of the matrix, `BLOCK` cells at a time.

    Yields:
        The request, some of its chunks as a slice of `queries`, and their products, shape (n_those_chunks, n_chunks);
        several times in a row for a request that has too many chunks for one block.

    Raises:
        EmbeddingError: a query vector holds NaN or infinity.
    """
    require_finite(queries)
    size = max(1, BLOCK // max(len(matrix.item), 1))
    for first, last in blocks(start, size):
        for rows in parts_of(int(start[first]), int(start[last]), size):
            parts = [multiply(queries[rows], vectors) for _, vectors in matrix.parts(exact=True)]
            product = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
            for request in range(first, last):
                mine = slice(max(int(start[request]), rows.start), min(int(start[request + 1]), rows.stop))
                yield request, mine, product[mine.start - rows.start : mine.stop - rows.start]


_NONE = np.empty(0, dtype=np.int64)
_ANY = np.ones(1, dtype=np.bool_)  # the mask of a request that may get every chunk of a matrix


_ROWS_AT_ONCE = 8_192  # rows multiplied at once: 50 MB in float64 at 384 dimensions


class Edges(NamedTuple):
    """Items similar to others: to which, what, how much, and the pair of chunks that is the most alike.

    Attributes:
        owner, item: catalog positions, shape (n,): whose list an entry is of, or what led to an item; and the item.
        score: their similarity, or what `item` is ranked by, float64.
        own_chunk, other_chunk: the pair of chunks, as places within the two items.
    """

    owner: IntArray
    item: IntArray
    score: FloatArray
    own_chunk: IntArray
    other_chunk: IntArray

    def select_rows(self, rows: BoolArray | IntArray) -> Edges:
        """Some of them, in the order of `rows`."""
        return Edges._make(column[rows] for column in self)

    def sorted(self) -> Edges:
        """By owner, then score descending, then item."""
        return self.select_rows(np.lexsort((self.item, -self.score, self.owner)))

    def first(self, limit: int) -> Edges:
        """The first `limit` of each owner, of those in order."""
        return self.select_rows(places_in(self.owner) < limit)

    @classmethod
    def joined(cls, parts: Sequence[Edges]) -> Edges:
        """The entries of all parts, one behind the other."""
        none = cls(_NONE, _NONE, np.empty(0, dtype=np.float64), _NONE, _NONE)
        return cls(*map(np.concatenate, zip(none, *parts, strict=True)))


@dataclass(frozen=True, eq=False)
class BestPairs:
    """For each of some pairs of items (or of a request and an item) the pair of chunks that is the most alike.

    Attributes:
        score: float64 dot product, times the weight of the left chunk, shape (n,).
        left, right: rows of the winning chunks, shape (n,); of equals the first left one, then the first right one.
    """

    score: FloatArray
    left: IntArray
    right: IntArray


def heads(matrix: ChunkMatrix) -> ChunkMatrix:
    """The first chunk of every item alone: that which holds its name and description."""
    return matrix.select_rows(matrix.first)


def positions_in(sorted_items: IntArray, items: IntArray) -> IntArray:
    """The positions of items among sorted ones; items that are not among them are left out."""
    position = np.searchsorted(sorted_items, items)
    is_present = position < len(sorted_items)
    is_present[is_present] = sorted_items[position[is_present]] == items[is_present]
    return position[is_present].astype(np.int64)


def every_pair(left: IntArray, right: IntArray, left_span: IntArray, right_span: IntArray) -> tuple[IntArray, ...]:
    """All pairs of rows of two sides, for several pairs of groups of rows.

    Args:
        left, right: the groups, shape (n,): places in the spans.
        left_span, right_span: CSR starts of the rows of each group.

    Returns:
        (pair, left row, right row), each of shape (number of pairs of rows,), by pair, left row, right row.
    """
    n_right = right_span[right + 1] - right_span[right]
    start = starts((left_span[left + 1] - left_span[left]) * n_right)
    pair = owners(start)
    within = np.arange(int(start[-1]), dtype=np.int64) - start[pair]
    width = np.maximum(n_right, 1)[pair]
    return pair, left_span[left][pair] + within // width, right_span[right][pair] + within % width


def best_pairs(
    pairs: tuple[IntArray, ...],
    left: Float32Array,
    right: Float32Array,
    *,
    n: int,
    proposed: Float32Array | None = None,
    weight: FloatArray | None = None,
) -> BestPairs:
    """Find the best pair of rows of each of `n` groups of pairs, exactly.

    Args:
        pairs: (group, left row, right row), each of shape (n_pairs,); every group has at least one pair.
        left, right: vectors of all rows, float32.
        n: how many groups.
        proposed: float32 score of every pair, if it is known: those more than `MARGIN` below the best of their group
            are not looked at again.
        weight: of the left rows, > 0; None: 1 each.
    """
    group, row, right_row = pairs
    if proposed is None and weight is None and len(group) > _ROWS_AT_ONCE:
        proposed = _proposed(left, right, row, right_row)
    if proposed is not None:
        best = np.full(n, -np.inf, dtype=np.float32)
        np.maximum.at(best, group, proposed)
        margin = MARGIN if weight is None else MARGIN * max(1.0, float(weight.max(initial=1.0)))
        near = proposed >= best[group] - np.float32(margin)
        group, row, right_row = group[near], row[near], right_row[near]
    exact = dots(left, right, row, right_row)
    if weight is not None:
        exact = exact * weight[row]
    by_score = np.lexsort((right_row, row, -exact, group))
    group, row, right_row, exact = group[by_score], row[by_score], right_row[by_score], exact[by_score]
    winner = firsts(group)
    return BestPairs(exact[winner], row[winner], right_row[winner])


def dots(
    left: Float32Array | FloatArray, right: Float32Array | FloatArray, row: IntArray, right_row: IntArray
) -> FloatArray:
    """Exact dot products of rows of two sides, shape (n,), some thousands at a time; see `row_dots`."""
    return np.concatenate(
        [row_dots(left[row[part]], right[right_row[part]]) for part in parts_of(0, len(row), _ROWS_AT_ONCE)]
    )


def _proposed(left: Float32Array, right: Float32Array, row: IntArray, right_row: IntArray) -> Float32Array:
    """Dot products of rows in float32, which takes a quarter of the time."""
    return np.concatenate(
        [
            np.einsum("ij,ij->i", left[row[part]], right[right_row[part]])
            for part in parts_of(0, len(row), _ROWS_AT_ONCE)
        ]
    )


DEPTH = 100  # items that a retriever finds per request by default


def ranked_by(scores: Iterable[FloatArray], masks: Iterable[BoolArray] | None = None, *, depth: int) -> Candidates:
    """Candidates from a score for every item: the best `depth` of the items in its mask, one chunk each.

    Args:
        scores: by request, shape (n_items,); taken one by one. An item of minus infinity is no candidate.
        masks: by request, shape (n_items,); only these are candidates. None = all.
        depth: items kept a request.
    """
    items, values = [], []
    for score, mask in zip(scores, itertools.repeat(None) if masks is None else masks, strict=masks is not None):
        items.append(_best(score if mask is None else np.where(mask, score, -np.inf), depth))
        values.append(score[items[-1]])
    if not items:
        return Candidates.empty(0)
    length = np.array([len(row) for row in items], dtype=np.int64)
    rank = ranges(np.zeros_like(length), length)
    return Candidates.build(
        len(items),
        np.repeat(np.arange(len(items), dtype=np.int64), length),
        np.concatenate(items),
        score=np.concatenate(values),
        chunk_rank=rank,
        item_chunk=np.zeros_like(rank),
    )


def _best(score: FloatArray, depth: int) -> IntArray:
    """The positions of the greatest scores, the greatest first, ties in order of position."""
    size = max(len(score) // (16 * depth), 1) if depth else 1  # of groups, whose maxima give a lower limit
    maxima = score[: len(score) // size * size].reshape(size, -1).max(axis=0)
    limit = np.partition(maxima, -depth)[-depth] if 0 < depth < len(maxima) else -np.inf
    positions = np.flatnonzero(score >= limit if limit > -np.inf else score > limit)
    return positions[np.lexsort((positions, -score[positions]))][:depth]
