"""Retrieval: candidates for each request. Dense, BM25, and the comparators everything and random."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ctxbench.arrays import BoolArray, FloatArray, IntArray, owners
from ctxbench.candidates import Candidates
from ctxbench.errors import ParameterError
from ctxbench.index.dense import ChunkMatrix, DenseIndex, Hits, search
from ctxbench.index.lexical import VARIANTS, Bm25Index
from ctxbench.items import Catalog
from ctxbench.pipeline import Resources
from ctxbench.query import Query

DEPTH = 100


@dataclass(frozen=True)
class Dense:
    """Cosine similarity of query chunks and item chunks; an item scores as its best pair.

    Attributes:
        depth: how many items are found for a request, >= 1. A cut's `topK` counts chunk matches exactly up to
            this number.
        original: answer as the documents' engine does where `semantic` knows better: a blank request has the
            items indexed all the same, a chunk that cannot be embedded is left out in silence, and two tools
            are one where `server:name` reads the same.

    Items are indexed just in time: only those that a request with a chunk may get, each once. A request without
    chunks, or that may get nothing, has no candidates and embeds nothing. Of equal scores the first in the
    catalog is first. Cost: one product of query chunks and item chunks. Source: the documents, "Search
    Implementation" and "Query Chunking" (max pooling).
    """

    depth: int = DEPTH
    original: bool = False
    uses: ClassVar[tuple[str, ...]] = ("embedder",)
    ranks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ParameterError(f"depth must be 1 or more, got {self.depth}")

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Find the nearest items of every request."""
        batch = query.batch
        asking = np.diff(query.start) > 0
        needed: BoolArray = np.asarray(batch.eligible[asking | self.original].any(axis=0))
        index = dense_index(batch.catalog, resources, original=self.original)
        matrix = index.matrix(needed, resources.vectors, skip_failed=self.original)
        if matrix is None or not asking.any() or not needed.any():
            return Candidates.empty(len(batch))
        may_get: BoolArray = np.asarray(batch.eligible.any(axis=1))
        served = np.flatnonzero(may_get[owners(query.start)])
        queries = np.zeros((len(query.text), matrix.vectors.shape[1]), dtype=np.float32)
        queries[served] = resources.vectors([query.text[chunk] for chunk in served])
        hits = search(queries, query.start, batch.eligible, matrix, depth=self.depth, weight=query.weight)
        group = joined_keys(batch.catalog) if self.original else np.arange(len(batch.catalog), dtype=np.int64)
        return best_of_items(list(hits), matrix, group=group, depth=self.depth)


def dense_index(catalog: Catalog, resources: Resources, *, original: bool = False) -> DenseIndex:
    """The dense index of a catalog, kept with the resources; that of `original` may lack chunks that failed."""
    return resources.kept(("dense", catalog.hash, original), lambda: DenseIndex(catalog))


def joined_keys(catalog: Catalog) -> IntArray:
    """For each item the first position with the same type, server and name joined by colons, shape (n_items,)."""
    first: dict[str, int] = {}
    joined = (":".join((item.type, item.server or "", item.name)) for item in catalog)
    return np.array([first.setdefault(key, position) for position, key in enumerate(joined)], dtype=np.int64)


def best_of_items(hits: Sequence[Hits], matrix: ChunkMatrix, *, group: IntArray, depth: int) -> Candidates:
    """Keep the best chunk of each item, and the first `depth` items of each request.

    Args:
        hits: of each request, best first.
        matrix: the chunks that were searched.
        group: shape (n_items,); of the items with the same number only the best is kept.
        depth: items kept a request.
    """
    request: list[IntArray] = []
    place: list[IntArray] = []
    for row, hit in enumerate(hits):
        _, first = np.unique(group[matrix.item[hit.row]], return_index=True)
        kept = np.sort(first)[:depth].astype(np.int64)
        place.append(kept)
        request.append(np.full(len(kept), row, dtype=np.int64))

    def gather(values: Sequence[FloatArray] | Sequence[IntArray]) -> FloatArray:
        return np.concatenate([value[kept] for value, kept in zip(values, place, strict=True)])

    chunk = gather([hit.row for hit in hits]).astype(np.int64)
    return Candidates.build(
        len(hits),
        np.concatenate(request),
        matrix.item[chunk],
        score=gather([hit.score for hit in hits]),
        chunk_rank=np.concatenate(place),
        query_chunk=gather([hit.query_chunk for hit in hits]),
        item_chunk=matrix.ordinal[chunk],
    )


@dataclass(frozen=True)
class Bm25:
    """BM25 over search texts (name, description, text); words are runs of letters and digits.

    Attributes:
        k1: saturation of term frequency, >= 0.
        b: share of length normalisation, 0 to 1.
        variant: `lucene`, `robertson` or `bm25+`.
        depth: how many items are found for a request, >= 1.

    Items that share no word with the request are no candidates; a blank request has none. Each item counts as
    one chunk. Cost: linear in the items that share a word. Source: Robertson et al. 1994; bm25s.
    """

    k1: float = 1.5
    b: float = 0.75
    depth: int = DEPTH
    variant: str = VARIANTS[0]
    ranks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise ParameterError(f"variant must be one of {', '.join(VARIANTS)}, got {self.variant!r}")
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise ParameterError(f"k1 must be 0 or more and b 0 to 1, got k1 {self.k1} and b {self.b}")
        if self.depth < 1:
            raise ParameterError(f"depth must be 1 or more, got {self.depth}")

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Score every request's chunks, taken together."""
        batch = query.batch
        key = ("bm25", batch.catalog.hash, self.k1, self.b, self.variant)
        index = resources.kept(key, lambda: Bm25Index(batch.catalog, k1=self.k1, b=self.b, variant=self.variant))
        texts = [" ".join(query.chunks(row)) for row in range(len(batch))]
        scores = [index.scores(text) for text in texts]
        found = [
            row & (score > 0) & index.shares_word(text)
            for row, score, text in zip(batch.eligible, scores, texts, strict=True)
        ]
        return ranked_by(scores, found, depth=self.depth)


def ranked_by(scores: Sequence[FloatArray], found: Sequence[BoolArray], *, depth: int) -> Candidates:
    """Candidates from a score for every item: the best `depth` of those found, each one chunk.

    Args:
        scores: by request, shape (n_items,).
        found: by request, shape (n_items,); only these are candidates.
        depth: items kept a request.
    """
    items, ranks = [], []
    for score, mask in zip(scores, found, strict=True):
        held = np.flatnonzero(mask)
        best = held[np.lexsort((held, -score[held]))][:depth]
        items.append(best)
        ranks.append(np.arange(len(best), dtype=np.int64))
    if not items:
        return Candidates.empty(0)
    request = np.repeat(np.arange(len(items), dtype=np.int64), [len(row) for row in items])
    return Candidates.build(
        len(items),
        request,
        np.concatenate(items),
        score=np.concatenate([score[row] for score, row in zip(scores, items, strict=True)]),
        chunk_rank=np.concatenate(ranks),
        item_chunk=np.zeros(len(request), dtype=np.int64),
    )


@dataclass(frozen=True)
class Everything:
    """Every item that a request may get, each with score 0: the upper end of completeness, and of the price.

    There is no ranking. A comparator.
    """

    ranks: ClassVar[bool] = False

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Offer all eligible items."""
        request, item = np.nonzero(query.batch.eligible)
        return Candidates.build(len(query.batch), request, item, score=np.zeros(len(item), dtype=np.float64))


@dataclass(frozen=True)
class Random:
    """A random ranking of what a request may get: what any selector must beat. A comparator.

    Attributes:
        seed: another seed gives another ranking.
        depth: how many items are found for a request, >= 1.

    An item's score depends on the seed, the request id and the item id alone, so neither the order of items nor
    the other requests change it.
    """

    seed: int = 0
    depth: int = DEPTH
    ranks: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ParameterError(f"depth must be 1 or more, got {self.depth}")

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Rank by a hash of request and item."""
        batch = query.batch
        items = resources.kept(
            ("item hashes", batch.catalog.hash), lambda: np.array([_hash64(i) for i in batch.catalog.ids], np.uint64)
        )
        scores = [_uniform(items ^ np.uint64(_hash64(f"{self.seed}:{request.id}"))) for request in batch.requests]
        return ranked_by(scores, list(batch.eligible), depth=self.depth)


def _hash64(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")


def _uniform(bits: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> FloatArray:
    """Mix 64 bits into a number in (0, 1). Source: the finalizer of SplitMix64 (Steele et al., 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits = bits ^ (bits >> np.uint64(31))
    out: FloatArray = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53
    return out
