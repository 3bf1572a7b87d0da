"""Retrieve candidates by vectors with pooling, words, fuzzy names, or from the request."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from ctxbench.io.errors import ParameterError, check_choice, check_range, number_within, suggest
from ctxbench.model.arrays import FactCodes, Float32Array, FloatArray, IntArray, Masks, owners, ranges, starts
from ctxbench.model.candidates import MARGIN, Candidates, Mode
from ctxbench.model.items import ITEM_TYPES, TEXT_FIELDS, Catalog
from ctxbench.model.requests import Batch, Query
from ctxbench.model.resources import EMBEDDER, INDEX, Embed, Resources, index_over, row_over
from ctxbench.model.strategies import FirstN, Strategy, later
from ctxbench.search.chunking import DOCUMENTS, ItemChunking, chunk_rule
from ctxbench.search.dense import (
    DEPTH,
    Hits,
    by_best_pair,
    dense_index,
    first_places,
    places_in,
    products,
    query_vectors,
    ranked_by,
)
from ctxbench.search.embedders import embedder_text
from ctxbench.search.vector_files import ChunkMatrix, Proposer, row_dots
from ctxbench.search.word_index import VARIANTS, Bm25fIndex, Bm25Index, WordIndex, bm25_index, query_words
from ctxbench.search.words import FIELDS, FUZZY_FIELDS, FuzzyIndex, WordRule

Pool: TypeAlias = Literal["max", "mean", "top"]


@dataclass(frozen=True)
class Pooling:
    """How similarities become a score: for each query chunk over the item's chunks, then over query chunks.

    Attributes:
        over_chunks: `max`, `mean`, or `top`: the mean of the best `top` (of all there are, if fewer).
        over_queries: likewise over the query chunks, each of which first counts times its weight: `max` and `top` of
            the weighted values; `mean` is their sum over the sum of weights.
        top: how many `top` takes, >= 1.
    """

    over_chunks: Pool = "max"
    over_queries: Pool = "max"
    top: int = 1

    @property
    def by_best_pair(self) -> bool:
        """Whether an item scores as its best pair, which `search` is made for."""
        return self.over_chunks == self.over_queries == "max"

    def search(
        self,
        queries: Float32Array,
        start: IntArray,
        eligible: Masks,
        matrix: ChunkMatrix,
        *,
        depth: int,
        weight: FloatArray,
    ) -> Iterator[Hits]:
        """Find the best items of each request by a pooled score: one hit an item.

        Args:
            queries: vectors of all query chunks, shape (n_query_chunks, n_dimensions).
            start: CSR starts by request, shape (n_requests + 1,).
            eligible: what each request may get.
            matrix: the chunks to search.
            depth: items found a request.
            weight: shape (n_query_chunks,).

        Yields:
            The items of each request, best first, ties in catalog order; row and query chunk are those of the item's
            best pair. None for a request without chunks or without eligible items.

        Raises:
            EmbeddingError: a query vector holds NaN or infinity.
        """
        for request, parts in itertools.groupby(products(queries, start, matrix), key=itemgetter(0)):
            pieces = [product for *_, product in parts]
            scores = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
            mine = slice(int(start[request]), int(start[request + 1]))
            allowed = np.flatnonzero(eligible[request][matrix.item[matrix.first]])
            yield self._exact(queries[mine], scores, matrix, allowed=allowed, depth=depth, weight=weight[mine])

    def _exact(
        self,
        queries: Float32Array,
        scores: Float32Array,
        matrix: ChunkMatrix,
        *,
        allowed: IntArray,
        depth: int,
        weight: FloatArray,
    ) -> Hits:
        """Turn the proposed products of one request, shape (n_query_chunks, n_chunks), into exact hits, one an item.

        Args:
            allowed: positions in `matrix.first` of the items that may be found, rising.
        """
        if len(scores) == 0 or len(allowed) == 0:
            none = np.empty(0, dtype=np.int64)
            return Hits(none, none, np.empty(0, dtype=np.float64))
        size = np.diff(np.append(matrix.first, len(matrix.item)))
        if len(allowed) > depth:
            rows, of_item = _rows(matrix.first[allowed], size[allowed])
            proposed = _pooled(scores[:, rows].astype(np.float64), of_item, len(allowed), weight, self)
            margin = MARGIN * max(1.0, float(weight.max()))
            limit = np.partition(proposed, len(proposed) - depth)[len(proposed) - depth] - margin
            allowed = allowed[proposed >= limit]
        rows, of_item = _rows(matrix.first[allowed], size[allowed])
        vectors = matrix.vectors[rows]
        table = np.stack([row_dots(np.repeat(query[None], len(rows), axis=0), vectors) for query in queries])
        score = _pooled(table, of_item, len(allowed), weight, self)
        best = np.argsort(-score, kind="stable")[:depth]
        query, row = _best_pairs(table * weight[:, None], rows, of_item, len(allowed))
        return Hits(row[best], query[best], score[best])


def _rows(first: IntArray, size: IntArray) -> tuple[IntArray, IntArray]:
    """The rows of some items' chunks, one item behind the other, and the place of the item of each."""
    return ranges(first, size), np.repeat(np.arange(len(first), dtype=np.int64), size)


def _pooled(table: FloatArray, of_item: IntArray, n_items: int, weight: FloatArray, pooling: Pooling) -> FloatArray:
    """Scores of items, shape (n_items,), from products, shape (n_query_chunks, n_chunks)."""
    by_query = np.stack([_pool(row, of_item, n_items, pooling.over_chunks, pooling.top) for row in table])
    weighted = by_query * weight[:, None]
    group = np.tile(np.arange(n_items, dtype=np.int64), len(weighted))
    if pooling.over_queries == "mean":  # added in order, so that the bits depend on the item's values alone
        total = np.bincount(np.zeros(len(weight), dtype=np.int64), weight)
        return np.divide(np.bincount(group, weighted.reshape(-1), n_items), total)
    return _pool(weighted.reshape(-1), group, n_items, pooling.over_queries, pooling.top)


def _pool(values: FloatArray, group: IntArray, n_groups: int, how: Pool, top: int) -> FloatArray:
    """Pool values by group, each of which has at least one, shape (n_groups,); sums are made in order."""
    if how == "max":
        best = np.full(n_groups, -np.inf)
        np.maximum.at(best, group, values)
        return best
    if how == "top":
        by_value = np.lexsort((-values, group))
        values, group = values[by_value], group[by_value]
        count = np.bincount(group, minlength=n_groups)
        rank = np.arange(len(group)) - np.repeat(np.cumsum(count) - count, count)
        values, group = values[rank < top], group[rank < top]
    return np.divide(np.bincount(group, values, n_groups), np.bincount(group, minlength=n_groups))


def _best_pairs(weighted: FloatArray, rows: IntArray, of_item: IntArray, n_items: int) -> tuple[IntArray, IntArray]:
    """Query chunk and row of the best pair of each item; of equals the first chunk, then the first query chunk."""
    query = weighted.argmax(axis=0)
    best = weighted[query, np.arange(len(rows))]
    by_item = np.lexsort((rows, -best, of_item))
    chosen = by_item[np.searchsorted(of_item[by_item], np.arange(n_items))]
    return query[chosen].astype(np.int64), rows[chosen]


@dataclass(frozen=True)
class Dense(Strategy):
    """Cosine similarity of query chunks and item chunks; an item scores as its best pair, or as a mean of pairs.

    Attributes:
        depth: how many items are found for a request, >= 1. A cut's `topK` counts chunk matches exactly up to
            this number.
        original: answer as the specification's engine does where `semantic` knows better: a blank request has the
            items indexed all the same, a chunk that cannot be embedded is left out in silence, and two tools
            are one where `server:name` reads the same. It knows no other chunks and no other pooling.
        chunks: how items are split, a rule by name or `{name: parameters}`: `paragraphs` (that of the specification),
            `marked`, `sentences`, `clauses`, `windows`, `whole`.
        split_tools: whether that rule splits tools, too; else a tool is one chunk.
        bodies: whether the body of a skill is searched, too, which the model loads on demand.
        embedder: the name of another embedder than the run's, such as `st:intfloat/e5-small-v2`, or a mapping of `name`
            and options (`prompts`, `batch_size`, `device`, `dtype`); empty = the run's. It is this search's alone:
            other steps go on with the run's.
        over_queries: how the scores of the request's chunks become one: `max`, `mean` (weighted by the chunks'
            weights), or `top`, the mean of the best `top` (of all there are, if fewer).
        over_chunks: likewise over the item's chunks, which comes first, for each of the request's chunks.
        top: how many `top` takes, >= 1; given where one of the two is `top`, and only there.

    Items are indexed just in time: only those that a request with a chunk may get, each once. A request without
    chunks, or that may get nothing, has no candidates and embeds nothing. Of equal scores the first in the
    catalog is first. The winning pair is an item's best one, whatever the pooling. With max over both, `chunk_rank`
    counts chunk matches; an item that is pooled otherwise is one match, and `chunk_rank` its place among items, so
    that a cut's `topK` limits items. Cost: one product of query chunks and item chunks; pooling adds a pass over it.
    Source: the specification, "Search Implementation" and "Query Chunking" (max pooling); mean of the best m as in
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
    embedder: str | Mapping[str, Any] = later("")
    independent: ClassVar[bool] = True
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"depth": (1, math.inf), "top": (1, math.inf)}

    def __post_init__(self) -> None:
        super().__post_init__()
        takes_top = "top" in (self.over_queries, self.over_chunks)
        if takes_top and self.top is None:
            raise ParameterError(
                "top, how many of the best the mean is of, must be given for over_queries or over_chunks: top"
            )
        if self.top is not None and not takes_top:
            raise ParameterError("top is given, but neither over_queries nor over_chunks is top; leave it out")
        chunking = self.chunking  # made now, so that a wrong rule is an error now, as is a wrong option
        embedder_text(self.embedder)
        if self.original and (chunking != DOCUMENTS or not self.pooling.by_best_pair or self.embedder):
            raise ParameterError(
                "original answers as the specification's engine does, which splits items into paragraphs and pools by "
                "max; leave chunks, split_tools, bodies, over_queries, over_chunks and embedder out"
            )

    @property
    def uses(self) -> tuple[str, ...]:
        """The embedder, then the index where it may be an approximate one: where items score as their best pairs."""
        embedder = f"{EMBEDDER}:{embedder_text(self.embedder)}" if self.embedder else EMBEDDER
        return (embedder, INDEX) if self.pooling.by_best_pair and not self.original else (embedder,)

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that the embedder is known.

        Raises:
            UserError: there is none of that name.
        """
        resources.identity(self.uses[0])

    @cached_property
    def chunking(self) -> ItemChunking:
        """How items are split."""
        return ItemChunking(chunk_rule(self.chunks, parameter="chunks"), self.split_tools, self.bodies)

    @cached_property
    def pooling(self) -> Pooling:
        """How similarities become a score."""
        return Pooling(self.over_chunks, self.over_queries, self.top or 1)

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Find the nearest items of every request."""
        batch = query.batch
        asking = np.diff(query.start) > 0
        mask = batch.eligible.any(asking | self.original)
        embedder, *proposers = self.uses
        searching = resources.get(INDEX) if proposers else None
        if searching is not None and searching.approximate and mask.any():  # of all items, whichever are needed first
            mask = np.ones(len(batch.catalog), dtype=np.bool_)
        embed: Embed = resources.get(embedder) if self.embedder else resources.vectors
        index = dense_index(batch.catalog, resources, chunking=self.chunking, original=self.original, embedder=embedder)
        matrix = index.matrix(mask, embed, skip_failed=self.original)
        if matrix is None or not asking.any() or not mask.any():
            return Candidates.empty(len(batch))
        hits = self._search(query, embed, matrix, None if searching is None else searching.proposer(index))
        group = joined_keys(batch.catalog) if self.original else np.arange(len(batch.catalog), dtype=np.int64)
        return best_of_items(list(hits), matrix, group=group, depth=self.depth)

    def _search(self, query: Query, embed: Embed, matrix: ChunkMatrix, proposer: Proposer | None) -> Iterator[Hits]:
        if self.pooling.by_best_pair:
            return by_best_pair(query, embed, matrix, depth=self.depth, proposer=proposer)
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
    start = starts(np.array([len(hit.row) for hit in hits], dtype=np.int64))
    row, request = np.concatenate([hit.row for hit in hits]), owners(start)
    best = np.flatnonzero(first_places(request, group[matrix.item[row]]))
    best = best[places_in(request[best]) < depth]
    return Candidates.build(
        len(hits),
        request[best],
        matrix.item[row[best]],
        score=np.concatenate([hit.score for hit in hits])[best],
        chunk_rank=best - start[request[best]],
        query_chunk=np.concatenate([hit.query_chunk for hit in hits])[best],
        item_chunk=matrix.ordinal[row[best]],
    )


@dataclass(frozen=True)
class Everything(Strategy):
    """Every item that a request may get, each with score 0: the upper bound of completeness and of tokens.

    There is no ranking. A comparator. A request that may get nothing has no candidates. Cost: linear in the eligible
    items. Source: ours.
    """

    ranks: ClassVar[bool] = False
    independent: ClassVar[bool] = True

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Offer all eligible items."""
        items = [np.flatnonzero(row) for row in query.batch.eligible]
        request = np.repeat(np.arange(len(items), dtype=np.int64), [len(row) for row in items])
        item = np.concatenate([np.empty(0, dtype=np.int64), *items])
        return Candidates.build(len(query.batch), request, item, score=np.zeros(len(item), dtype=np.float64))


@dataclass(frozen=True)
class Nothing(Strategy):
    """No item at all, as with search switched off: only the items of the session are offered.

    Nothing is embedded, indexed or counted. Cost: none. Source: document 000, "Per-Agent Configuration".
    """

    searches: ClassVar[bool] = False

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Find nothing."""
        return Candidates.empty(len(query.batch))


@dataclass(frozen=True)
class Random(Strategy):
    """A random ranking of the items that a request may get: a baseline that any selector must beat.

    Attributes:
        seed: another seed gives another ranking.
        depth: how many items are found for a request, >= 1.

    An item's score depends on the seed, the request id and the item id alone, so neither the order of items nor
    the other requests change it. A request that may get nothing has no candidates. Cost: a hash an item, once a
    catalog, and a sort per request. Source: ours, over the finalizer of SplitMix64 (Steele et al., 2014).
    """

    seed: int = 0
    depth: int = DEPTH
    independent: ClassVar[bool] = True
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"depth": (1, math.inf)}

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
    independent: ClassVar[bool] = True
    uses: ClassVar[tuple[str, ...]] = ("embedder",)
    limits: ClassVar[Mapping[str, tuple[float, float]]] = dict.fromkeys(("servers", "depth", "top"), (1, math.inf))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("pool", self.pool, ("max", "mean", "top"))
        if (self.pool == "top") != (self.top is not None):
            raise ParameterError("top, how many of the best tools the mean is of, belongs to pool: top, and only there")

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
        of_best = [self._hits_of_best(hit, matrix, server) for hit in hits]
        return best_of_items(of_best, matrix, group=np.arange(len(server), dtype=np.int64), depth=self.depth)

    def _hits_of_best(self, hits: Hits, matrix: ChunkMatrix, server: IntArray) -> Hits:
        """A request's hits on the best servers, best first."""
        item = matrix.item[hits.row]
        first = np.flatnonzero(first_places(np.zeros_like(item), item))
        best = best_servers(server[item[first]], hits.score[first], servers=self.servers, pool=self.pool, top=self.top)
        of_item = server[item]
        mask = (of_item < 0) | np.isin(of_item, best)
        return Hits(hits.row[mask], hits.query_chunk[mask], hits.score[mask])


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


_TOGETHER = 256  # requests whose words are compared with the catalog's at once, to bound memory


@dataclass(frozen=True)
class Bm25(Strategy):
    """BM25 over search texts (name, description, text), with the name of a tool's server in front.

    Attributes:
        k1: saturation of term frequency, >= 0.
        b: share of length normalisation, 0 to 1.
        variant: `lucene`, `robertson` or `bm25+`.
        depth: how many items are found for a request, >= 1.
        words: `split`, identifiers count by their parts (`createIssue` and `create_issue` as `create issue`), or
            `plain`, words are runs of letters and digits.
        stop: whether common English words and single letters and digits are left out, unless nothing else is there.
        stem: whether English endings are taken off.
        server: whether a tool's server is searched.
        bodies: whether the body of a skill is searched, too, which the model loads on demand.
        parameters: whether the names and descriptions of a tool's parameters are searched, too.
        statistics: over which items it is counted how rare a word and how long a text is, `catalog`, all, or `scope`,
            those that the request may see, of its user and at its time, and any search may offer. Then nothing else
            moves a score.

    Items that share no word with the request are no candidates; a blank request has none. Each item counts as
    one chunk; a word counts as often as it occurs in the request's chunks, each time by the chunk's weight. The
    defaults were measured over eleven datasets (reports/comparators.md). Cost: linear in the items that share a word.
    Source: Robertson et al. 1994; bm25s, rank-bm25.
    """

    k1: float = 1.5
    b: float = 0.75
    depth: int = DEPTH
    variant: str = VARIANTS[0]
    words: Literal["plain", "split"] = "split"
    stop: bool = True
    stem: bool = True
    server: bool = True
    bodies: bool = later(False)
    parameters: bool = later(False)
    statistics: Literal["catalog", "scope"] = later("catalog")
    version: ClassVar[int] = 3  # 3: `URLs` is one word, `class` keeps its s

    def __post_init__(self) -> None:
        check_choice("variant", self.variant, VARIANTS)
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise ParameterError(f"k1 must be 0 or more and b 0 to 1, got k1 {self.k1} and b {self.b}")
        check_range("depth", self.depth, 1)

    @property
    def word_rule(self) -> WordRule:
        """How texts are split into words."""
        return WordRule(split=self.words == "split", stop=self.stop, stem=self.stem)

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Score every request's chunks, taken together."""
        batch, index = query.batch, self._index(query.batch.catalog, resources)
        words_by_request = [index.words(query.chunks(row), query.weights(row).tolist()) for row in range(len(batch))]
        scores = _scores(index, words_by_request, query, self.statistics)
        if self.variant == "bm25+":  # it adds something to every score
            scores = (score * index.shares_word(words) for score, words in zip(scores, words_by_request, strict=True))
        return ranked_by(
            (np.where(row & (score > 0), score, -np.inf) for row, score in zip(batch.eligible, scores, strict=True)),
            depth=self.depth,
        )

    def _index(self, catalog: Catalog, resources: Resources) -> Bm25Index:
        names = ("k1", "b", "variant", "server", "bodies", "parameters")
        return bm25_index(catalog, resources, **{name: getattr(self, name) for name in names}, rule=self.word_rule)

    def word_parts(
        self, query: Query, request: int, items: IntArray, resources: Resources
    ) -> list[Mapping[str, float]]:
        """What each word adds to the score of each item, under the word as the request first spells it."""
        index, chunks = self._index(query.batch.catalog, resources), query.chunks(request)
        weights = index.words(chunks, query.weights(request).tolist())
        spelled: dict[str, str] = {}
        plain_rule = replace(self.word_rule, stem=False)
        for stems, plain in zip(self.word_rule.of_chunks(chunks), plain_rule.of_chunks(chunks), strict=True):
            spelled = {**dict(zip(stems, plain, strict=True)), **spelled}
        single = query.select_requests(np.array([request]))
        rows = [next(_scores(index, [{word: weight}], single, self.statistics)) for word, weight in weights.items()]
        parts = [row[items] for row in rows]
        return [dict(zip([spelled[word] for word in weights], row, strict=True)) for row in np.array(parts).T.tolist()]


def _scores(
    index: WordIndex, words_by_request: Sequence[Mapping[str, float]], query: Query, statistics: str
) -> Iterator[FloatArray]:
    """The scores of all items for the words of each request, shape (n_items,) each, one request at a time."""
    if statistics == "catalog":
        return (index.scores(words) for words in words_by_request)
    counted = query.batch.visible.within(query.batch.catalog.facts.searchable)  # masks that requests share stay shared
    return (index.scores(words, counted=row) for words, row in zip(words_by_request, counted, strict=True))


_WEIGHTS = MappingProxyType({"server": 3.0, "name": 3.0, "description": 1.0, "parameters": 1.0, "text": 0.25})
_B = MappingProxyType({"server": 0.3, "name": 0.3, "description": 0.75, "parameters": 0.75, "text": 0.75})


@dataclass(frozen=True)
class Bm25f(Strategy):
    """BM25 over fields: server, name, description, parameters (names and descriptions in the schema) and text.

    Attributes:
        weights: by field, >= 0 and not all 0; a field that is not named keeps its default.
        b: share of length normalisation by field, 0 to 1; likewise.
        k1: saturation of the weighted term frequency, >= 0.
        depth: how many items are found for a request, >= 1.
        statistics: `catalog` or `scope`, as of `bm25`.

    Names, and identifiers in a request, are split at case, digits and punctuation, and count whole too:
    `createIssue` and `create_issue` are found by "create an issue". The defaults were chosen on the tuning splits of
    LiveMCPBench, MetaTool (multi), bfcl-live, workbench and freight; for a catalog of texts alone a weight of 1 for
    `text` is better (LoCoMo). Items that share no word with the request are no candidates; a blank request has none.
    Each item counts as one chunk. Cost: linear in the items that share a word. Source: Robertson and Zaragoza, The
    Probabilistic Relevance Framework, 2009 (simple BM25F).
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    b: Mapping[str, float] = field(default_factory=dict)
    k1: float = 1.5
    depth: int = DEPTH
    statistics: Literal["catalog", "scope"] = later("catalog")
    version: ClassVar[int] = 3  # 3: `URLs` is one word

    def __post_init__(self) -> None:
        weights = _by_field("weights", self.weights, _WEIGHTS, high=math.inf)
        if not any(weights.values()):
            raise ParameterError("weights must not all be 0")
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "b", _by_field("b", self.b, _B, high=1.0))
        check_range("k1", self.k1, 0)
        check_range("depth", self.depth, 1)

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Score every request's chunks, taken together."""
        batch = query.batch
        index: Bm25fIndex = index_over(
            batch.catalog,
            resources,
            ("bm25f", tuple(self.weights.items()), tuple(self.b.items()), self.k1),
            over=TEXT_FIELDS,
            make=lambda: Bm25fIndex(batch.catalog, weights=self.weights, b=self.b, k1=self.k1),
            extend=lambda old: old.extended(batch.catalog),
        )
        words_by_request = [query_words(query.chunks(row), query.weights(row).tolist()) for row in range(len(batch))]
        masks = (row & index.shares_word(words) for row, words in zip(batch.eligible, words_by_request, strict=True))
        return ranked_by(_scores(index, words_by_request, query, self.statistics), masks, depth=self.depth)


def _by_field(name: str, values: Mapping[str, float], default: Mapping[str, float], *, high: float) -> dict[str, float]:
    """A value for every field, in the order of `FIELDS`.

    Raises:
        ParameterError: a field is unknown, or a value is no number from 0 to `high`.
    """
    for key, value in values.items():
        if key not in FIELDS:
            raise ParameterError(f"{name}: no field is called {key!r}{suggest(str(key), FIELDS)}")
        number_within(f"{name}: {key}", value, 0.0, high)
    return {key: float(values.get(key, default[key])) for key in FIELDS}


@dataclass(frozen=True)
class Fuzzy(Strategy):
    """Likeness of names (and descriptions) to the words of a request, typing errors allowed for.

    Attributes:
        threshold: only items that are more similar than this are found, 0 to 1.
        near: two words that are less alike than this are strangers, 0 to 1.
        fields: `name`, `description` or both; the greater similarity counts.
        depth: how many items are found for a request, >= 1.

    A name scores the mean over its words of the likeness to the nearest word of the request; `creat isue` finds
    `create_issue`. A blank request finds nothing. Each item counts as one chunk; a word of a chunk counts by the
    chunk's weight. Cost: one comparison for each pair of a word of the request and a word of the catalog. Source:
    the specification, "Fuzzy Search" (similarity above 0.3); rapidfuzz's ratio of words.
    """

    threshold: float = 0.3
    near: float = 0.8
    fields: tuple[str, ...] = ("name",)
    depth: int = DEPTH
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"threshold": (0, 1), "near": (0, 1), "depth": (1, math.inf)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.fields or not set(self.fields) <= set(FUZZY_FIELDS):
            raise ParameterError(f"fields must be some of {', '.join(FUZZY_FIELDS)}, got {list(self.fields)}")

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Compare the words of every request with those of the items."""
        batch = query.batch
        index: FuzzyIndex = index_over(
            batch.catalog,
            resources,
            ("fuzzy", self.fields, self.near),
            over=TEXT_FIELDS,
            make=lambda: FuzzyIndex(batch.catalog, fields=self.fields, near=self.near),
            extend=lambda old: old.extended(batch.catalog),
        )
        words_by_request = [_heaviest(query, row) for row in range(len(batch))]
        scores = [
            score
            for first in range(0, len(words_by_request), _TOGETHER)
            for score in index.scores(words_by_request[first : first + _TOGETHER])
        ]
        masks = [row & (score > self.threshold) for row, score in zip(batch.eligible, scores, strict=True)]
        return ranked_by(scores, masks, depth=self.depth)


def _heaviest(query: Query, request: int) -> dict[str, float]:
    """The words of a request, each with the greatest weight of the chunks that contain it."""
    weights: dict[str, float] = {}
    for chunk, weight in zip(query.chunks(request), query.weights(request).tolist(), strict=True):
        for word in query_words([chunk], [1.0]):
            weights[word] = max(weights.get(word, 0.0), weight)
    return weights


@dataclass(frozen=True)
class Explicit(Strategy):
    """The items that the request names explicitly, in mode `explicit`, in their order: the nth has score 1 / n.

    It alone offers items of include mode `manual`. Of what is named it offers what the request sees and may get, that
    is enabled, not `always`, not removed and not in the session (`Batch.named`); what a search is restricted to
    (`only`) does not count. A request that names nothing has no candidates. Cost: linear in what is named. Source:
    document 002, `getExplicitReferences`; the score is ours.
    """

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Offer what every request names."""
        batch = query.batch
        return _in_order(batch, [batch.named(row) for row in range(len(batch))], mode=Mode.EXPLICIT)


@dataclass(frozen=True)
class ConversationMessages(FirstN):
    """The last messages of the request's conversation, the latest first: the nth from the end has score 1 / n.

    Attributes:
        n: how many at most, 0 = none.

    Messages are items of type `message` with the request's `conversation`; the later was created later, and of one
    moment is further down in the catalog. A request without a conversation has no candidates. Cost: linear in the
    catalog. Source: document 002, `getThreadHistory`; the score is ours.
    """

    n: int = 20

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Find the messages of every request's conversation."""
        batch, facts = query.batch, query.batch.catalog.facts
        message = facts.type.are_any(["message"])
        positions: list[list[int]] = []
        for request, eligible in zip(batch.requests, batch.eligible, strict=True):
            messages = np.empty(0, dtype=np.int64)
            if request.conversation is not None:
                messages = np.flatnonzero(message & eligible & facts.conversation.are(request.conversation))
            latest = messages[np.lexsort((messages, facts.created[messages]))[::-1]]
            positions.append(latest[: self.n].tolist())
        return _in_order(batch, positions)


@dataclass(frozen=True)
class RecentFiles(FirstN):
    """The files that the request's user opened last (`recent` of a request): the nth has score 1 / n.

    Attributes:
        n: how many at most, 0 = none.
        types: of which item types; empty = any.

    What the request may not get is passed over, so that the next ones come in. A request that knows of none has no
    candidates. Cost: linear in what was opened. Source: document 002, `getRecentlyAccessed`; the score is ours.
    """

    n: int = 5
    types: tuple[str, ...] = ("file",)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.types:
            check_choice("each of types", name, ITEM_TYPES)

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Find what every request's user opened last."""
        batch, positions = query.batch, []
        for row, request in enumerate(batch.requests):
            files = [key for key in dict.fromkeys(request.recent) if not self.types or key.type in self.types]
            candidates = np.array([batch.catalog.position(key) for key in files], dtype=np.int64)
            positions.append(
                candidates[batch.eligible.cells(np.full(len(candidates), row), candidates)][: self.n].tolist()
            )
        return _in_order(batch, positions)


def _in_order(batch: Batch, positions: Sequence[Sequence[int]], *, mode: Mode = Mode.AGENT) -> Candidates:
    """Candidates from positions in the catalog, by request and best first: the nth has score 1 / n."""
    rank = np.array([n for row in positions for n in range(len(row))], dtype=np.int64)
    return Candidates.build(
        len(batch),
        np.repeat(np.arange(len(batch), dtype=np.int64), [len(row) for row in positions]),
        np.array([item for row in positions for item in row], dtype=np.int64),
        score=1.0 / (1.0 + rank),
        chunk_rank=rank,
        mode=np.full(len(rank), mode, dtype=np.int64),
    )
