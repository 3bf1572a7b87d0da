"""Server first, then tool: only what belongs to the best servers is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import ParameterError, check_choice, check_range
from ctxbench.core.facts import FactCodes
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy
from ctxbench.index.dense import ChunkMatrix, Hits, by_best_pair, dense_index
from ctxbench.index.ranked import DEPTH, of_hits


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
        needed = batch.eligible.any(asking)
        matrix = dense_index(batch.catalog, resources).matrix(needed, resources.vectors)
        if matrix is None or not asking.any() or not needed.any():
            return Candidates.empty(len(batch))
        server = FactCodes.of(item.server for item in batch.catalog).code
        hits = by_best_pair(query, resources.vectors, matrix, depth=len(batch.catalog))
        kept, places = zip(*(self._kept(one, matrix, server) for one in hits), strict=True)
        return of_hits(kept, places, matrix)

    def _kept(self, hits: Hits, matrix: ChunkMatrix, server: IntArray) -> tuple[Hits, IntArray]:
        """What the best servers hold of a request's hits, best first, and the first hit of each item to be found."""
        item = matrix.item[hits.row]
        first = _firsts(item)
        best = best_servers(server[item[first]], hits.score[first], servers=self.servers, pool=self.pool, top=self.top)
        of_item = server[item]
        held = (of_item < 0) | np.isin(of_item, best)
        kept = Hits(hits.row[held], hits.query_chunk[held], hits.score[held])
        return kept, _firsts(item[held])[: self.depth]


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
    place = np.flatnonzero(server >= 0)
    number, which = np.unique(server[place], return_inverse=True)
    if len(number) <= servers:
        return number
    by_server = np.argsort(which, kind="stable")  # scores stay falling within a server
    which, value = which[by_server], score[place][by_server]
    nth = np.arange(len(which)) - np.searchsorted(which, which)
    limit = {"max": 1, "mean": len(which), "top": top or 1}[pool]
    which, value = which[nth < limit], value[nth < limit]
    pooled = np.bincount(which, value, len(number)) / np.bincount(which, minlength=len(number))
    last = np.partition(pooled, len(pooled) - servers)[len(pooled) - servers]
    return np.asarray(number[pooled >= last])


def _firsts(item: IntArray) -> IntArray:
    """Where each item stands for the first time, rising."""
    return np.sort(np.unique(item, return_index=True)[1]).astype(np.int64)
