"""Retrieval: candidates for each request. Dense, by server first, and the comparators everything and random."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import ParameterError, check_choice, check_range
from ctxbench.core.facts import FactCodes
from ctxbench.core.items import Catalog
from ctxbench.core.query import Query
from ctxbench.core.registry import foreign_code
from ctxbench.core.stages import EMBEDDER, Resources
from ctxbench.core.strategy import Strategy, later
from ctxbench.index.dense import ChunkMatrix, Embed, Hits, by_best_pair, dense_index, query_vectors
from ctxbench.index.pooling import Pooling
from ctxbench.index.ranked import DEPTH, of_hits, ranked_by
from ctxbench.index.versions import row_over
from ctxbench.text.chunking.chunk_rules import chunk_rule
from ctxbench.text.chunking.item_chunks import DOCUMENTS, ItemChunking


@dataclass(frozen=True)
class Dense(Strategy):
    """Cosine similarity of query chunks and item chunks; an item scores as its best pair, or as a mean of pairs.

    Attributes:
        depth: how many items are found for a request, >= 1. A cut's `topK` counts chunk matches exactly up to
            this number.
        original: answer as the documents' engine does where `semantic` knows better: a blank request has the
            items indexed all the same, a chunk that cannot be embedded is left out in silence, and two tools
            are one where `server:name` reads the same. It knows no other chunks and no other pooling.
        chunks: how items are split, a rule by name or `{name: parameters}`: `paragraphs` (the documents'), `marked`,
            `sentences`, `clauses`, `windows`, `whole`.
        split_tools: whether that rule splits tools, too; else a tool is one chunk.
        bodies: whether the body of a skill is searched, too, which the model loads on demand.
        embedder: the name of another embedder than the run's, such as `st:intfloat/e5-small-v2`; empty = the run's. It
            is this search's alone: other steps go on with the run's.
        over_queries: how the scores of the request's chunks become one: `max`, `mean` (weighted by the chunks'
            weights), or `top`, the mean of the best `top` (of all there are, if fewer).
        over_chunks: likewise over the item's chunks, which comes first, for each of the request's chunks.
        top: how many `top` takes, >= 1; given where one of the two is `top`, and only there.

    Items are indexed just in time: only those that a request with a chunk may get, each once. A request without
    chunks, or that may get nothing, has no candidates and embeds nothing. Of equal scores the first in the
    catalog is first. The winning pair is an item's best one, whatever the pooling. With max over both, `chunk_rank`
    counts chunk matches; an item that is pooled otherwise is one match, and `chunk_rank` its place among items, so
    that a cut's `topK` limits items. Cost: one product of query chunks and item chunks; pooling adds a pass over it.
    Source: the documents, "Search Implementation" and "Query Chunking" (max pooling); mean of the best m as in
    Bendersky and Kurland, "Utilizing passage-based language models", ECIR 2008.
    """

    depth: int = DEPTH
    original: bool = False
    chunks: str | Mapping[str, Any] = "paragraphs"
    split_tools: bool = False
    over_queries: Literal["max", "mean", "top"] = "max"
    over_chunks: Literal["max", "mean", "top"] = "max"
    top: int | None = None
    bodies: bool = later(False)
    embedder: str = later("")

    def __post_init__(self) -> None:
        check_range("depth", self.depth, 1)
        takes_top = "top" in (self.over_queries, self.over_chunks)
        if takes_top and self.top is None:
            raise ParameterError(
                "top, how many of the best the mean is of, must be given for over_queries or over_chunks: top"
            )
        if self.top is not None and not takes_top:
            raise ParameterError("top is given, but neither over_queries nor over_chunks is top; leave it out")
        if self.top is not None and self.top < 1:
            raise ParameterError(f"top must be 1 or more, got {self.top}")
        chunking = self.chunking  # made now, so that what is wrong with the rule is said now
        if self.original and (chunking != DOCUMENTS or not self.pooling.by_best_pair or self.embedder):
            raise ParameterError(
                "original answers as the documents' engine does, which splits items into paragraphs and pools by max; "
                "leave chunks, split_tools, bodies, over_queries, over_chunks and embedder out"
            )

    @property
    def uses(self) -> tuple[str, ...]:
        """The embedder."""
        return (f"{EMBEDDER}:{self.embedder}" if self.embedder else EMBEDDER,)

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that the embedder is known.

        Raises:
            UserError: there is none of that name.
        """
        resources.identity(*self.uses)

    @cached_property
    def chunking(self) -> ItemChunking:
        """How items are split."""
        return ItemChunking(chunk_rule(self.chunks, parameter="chunks"), self.split_tools, self.bodies)

    @cached_property
    def pooling(self) -> Pooling:
        """How similarities become a score."""
        return Pooling(self.over_chunks, self.over_queries, self.top or 1)

    @property
    def code(self) -> str | None:
        """Module, class and source of a chunking rule that is not ours, which its name does not tell."""
        return foreign_code(type(self.chunking.rule))

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Find the nearest items of every request."""
        batch = query.batch
        asking = np.diff(query.start) > 0
        mask = batch.eligible.any(asking | self.original)
        (embedder,) = self.uses
        embed: Embed = resources.get(embedder) if self.embedder else resources.vectors
        index = dense_index(batch.catalog, resources, chunking=self.chunking, original=self.original, embedder=embedder)
        matrix = index.matrix(mask, embed, skip_failed=self.original)
        if matrix is None or not asking.any() or not mask.any():
            return Candidates.empty(len(batch))
        hits = self._search(query, embed, matrix)
        group = joined_keys(batch.catalog) if self.original else np.arange(len(batch.catalog), dtype=np.int64)
        return best_of_items(list(hits), matrix, group=group, depth=self.depth)

    def _search(self, query: Query, embed: Embed, matrix: ChunkMatrix) -> Iterator[Hits]:
        if self.pooling.by_best_pair:
            return by_best_pair(query, embed, matrix, depth=self.depth)
        queries = query_vectors(query, embed, matrix)
        eligible, weight = query.batch.eligible, query.weight
        return self.pooling.search(queries, query.start, eligible, matrix, depth=self.depth, weight=weight)


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
    first = [np.unique(group[matrix.item[hit.row]], return_index=True)[1] for hit in hits]
    return of_hits(hits, [np.sort(positions)[:depth].astype(np.int64) for positions in first], matrix)


@dataclass(frozen=True)
class Everything(Strategy):
    """Every item that a request may get, each with score 0: the upper end of completeness, and of the price.

    There is no ranking. A comparator. A request that may get nothing has no candidates. Cost: linear in the eligible
    items. Source: ours.
    """

    ranks: ClassVar[bool] = False

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Offer all eligible items."""
        items = [np.flatnonzero(row) for row in query.batch.eligible]
        request = np.repeat(np.arange(len(items), dtype=np.int64), [len(row) for row in items])
        item = np.concatenate([np.empty(0, dtype=np.int64), *items])
        return Candidates.build(len(query.batch), request, item, score=np.zeros(len(item), dtype=np.float64))


@dataclass(frozen=True)
class Nothing(Strategy):
    """No item at all: what a selector is whose search is switched off. Only what the session holds is offered.

    Nothing is embedded, indexed or counted. Cost: none. Source: document 000, "Per-Agent Configuration".
    """

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Find nothing."""
        return Candidates.empty(len(query.batch))


@dataclass(frozen=True)
class Random(Strategy):
    """A random ranking of what a request may get: what any selector must beat. A comparator.

    Attributes:
        seed: another seed gives another ranking.
        depth: how many items are found for a request, >= 1.

    An item's score depends on the seed, the request id and the item id alone, so neither the order of items nor
    the other requests change it. A request that may get nothing has no candidates. Cost: a hash an item, once a
    catalog, and a sort a request. Source: ours, over the finalizer of SplitMix64 (Steele et al., 2014).
    """

    seed: int = 0
    depth: int = DEPTH

    def __post_init__(self) -> None:
        check_range("depth", self.depth, 1)

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Rank by a hash of request and item."""
        batch = query.batch
        items = row_over(
            batch.catalog,
            resources,
            "item hashes",
            over=("type", "server", "name"),
            make=lambda added: np.array([_hash64(item.id) for item in added], np.uint64),
        )
        scores = [_uniform(items ^ np.uint64(_hash64(f"{self.seed}:{request.id}"))) for request in batch.requests]
        return ranked_by(scores, batch.eligible, depth=self.depth)


def _hash64(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little")


def _uniform(bits: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> FloatArray:
    """Mix 64 bits into a number in (0, 1). Source: the finalizer of SplitMix64 (Steele et al., 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits = bits ^ (bits >> np.uint64(31))
    return np.divide((bits >> np.uint64(11)).astype(np.float64) + 0.5, 2.0**53)


@dataclass(frozen=True)
class Servers(Strategy):
    """Server first, then tool: the best MCP servers by cosine similarity of their tools, then the tools in them.

    Attributes:
        servers: how many servers may offer tools for a request, >= 1; those that score as much as the last one, too.
        pool: how the scores of a server's tools become its own: `max`, `mean`, or `top`, the mean of the best `top`
            (of all there are, if fewer).
        top: how many `top` takes, >= 1; given where `pool` is `top`, and only there.
        depth: how many items are found for a request, >= 1.

    A tool scores as in `dense` (its best pair), and a server by those of its tools that the request may get. Items
    without a server compete as in `dense`. A catalog holds no descriptions of servers, so that these count for
    nothing. A request without chunks, or that may get nothing, has no candidates. Cost: one product of query chunks
    and item chunks, and exact scores of all of them. Source: hierarchical routing of MCP-Zero (Fei et al., 2025),
    with tools in place of server descriptions.
    """

    servers: int = 3
    pool: Literal["max", "mean", "top"] = "max"
    top: int | None = None
    depth: int = DEPTH
    uses: ClassVar[tuple[str, ...]] = ("embedder",)

    def __post_init__(self) -> None:
        for name in ("servers", "depth"):
            check_range(name, getattr(self, name), 1)
        check_choice("pool", self.pool, ("max", "mean", "top"))
        if (self.pool == "top") != (self.top is not None):
            raise ParameterError("top, how many of the best tools the mean is of, belongs to pool: top, and only there")
        if self.top is not None and self.top < 1:
            raise ParameterError(f"top must be 1 or more, got {self.top}")

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Find the nearest items of every request among those of its best servers."""
        batch = query.batch
        asking = np.diff(query.start) > 0
        mask = batch.eligible.any(asking)
        matrix = dense_index(batch.catalog, resources).matrix(mask, resources.vectors)
        if matrix is None or not asking.any() or not mask.any():
            return Candidates.empty(len(batch))
        server = FactCodes.of(item.server for item in batch.catalog).code
        hits = by_best_pair(query, resources.vectors, matrix, depth=len(batch.catalog))
        top_hits, positions = zip(*(self._hits_of_best(hit, matrix, server) for hit in hits), strict=True)
        return of_hits(top_hits, positions, matrix)

    def _hits_of_best(self, hits: Hits, matrix: ChunkMatrix, server: IntArray) -> tuple[Hits, IntArray]:
        """What the best servers hold of a request's hits, best first, and the first hit of each item to be found."""
        item = matrix.item[hits.row]
        first = _firsts(item)
        best = best_servers(server[item[first]], hits.score[first], servers=self.servers, pool=self.pool, top=self.top)
        of_item = server[item]
        mask = (of_item < 0) | np.isin(of_item, best)
        top_hits = Hits(hits.row[mask], hits.query_chunk[mask], hits.score[mask])
        return top_hits, _firsts(item[mask])[: self.depth]


def best_servers(
    server: IntArray, score: FloatArray, *, servers: int, pool: str = "max", top: int | None = None
) -> IntArray:
    """The numbers of the best servers, in rising order; more than `servers` of them where some tie with the last.

    Args:
        server: of every item, shape (n_items,); -1 = none.
        score: of every item, shape (n_items,), falling.
        servers: how many are wanted.
        pool, top: as in `Servers`.
    """
    positions = np.flatnonzero(server >= 0)
    number, group = np.unique(server[positions], return_inverse=True)
    if len(number) <= servers:
        return number
    by_server = np.argsort(group, kind="stable")  # scores stay falling within a server
    group, value = group[by_server], score[positions][by_server]
    nth = np.arange(len(group)) - np.searchsorted(group, group)
    limit = {"max": 1, "mean": len(group), "top": top or 1}[pool]
    group, value = group[nth < limit], value[nth < limit]
    pooled = np.bincount(group, value, len(number)) / np.bincount(group, minlength=len(number))
    last = np.partition(pooled, len(pooled) - servers)[len(pooled) - servers]
    return np.asarray(number[pooled >= last])


def _firsts(item: IntArray) -> IntArray:
    """The first index of each item, rising."""
    return np.sort(np.unique(item, return_index=True)[1]).astype(np.int64)
