"""Expansion: items that the request does not name, but that chosen ones lead to."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from ctxbench.core.arrays import BoolArray, IntArray
from ctxbench.core.candidates import Candidates, Mode, Origin, add_expanded
from ctxbench.core.errors import ParameterError, check_range, suggest
from ctxbench.core.items import ITEM_TYPES, Catalog
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy
from ctxbench.index.dense import dense_index
from ctxbench.io.files import read_bytes

# imported where used: `semantic` names this step also where it is off, and starts with every `select`
if TYPE_CHECKING:
    from ctxbench.index.graph import Graph, GraphSpec
    from ctxbench.index.pairs import Edges
    from ctxbench.index.related import QueryWeighting, Relatives

_UNUSED: Mapping[str, Mapping[str, Any]] = {
    "chunks": {"graph_threshold": 0.75, "graph_topN": 3, "similarity": "max", "graph": "", "neighbours": 100},
    "graph": {"threshold": 0.75, "topN": 3, "lend": 0, "lend_above": None},
    "both": {},
}
"""By `by`, the parameters that do nothing there, with their defaults."""


@dataclass(frozen=True)
class Expansion(Strategy):
    """Bring in items that are similar to the chosen ones: by their chunks, by a relationship graph, or both.

    Attributes:
        enabled: False leaves everything as it is.
        depth: passes, 0 to 5; 0 leaves everything as it is, too. What a pass brought in leads in the next one.
        by: `chunks` compares chunks at each request; `graph` looks similar items up; `both` does both, and an item
            found twice has its higher score.
        threshold: `chunks`: least similarity of two chunks, 0 to 1.
        topN: `chunks`: at most so many items a pass, 1 to 20.
        graph_threshold: `graph`: least similarity of two items, 0 to 1.
        graph_topN: `graph`: at most so many items a pass, 1 to 20.
        similarity: `graph`: of two items, `max` (their best pair of chunks), `mean` (over all pairs) or `centroid`
            (cosine of their mean vectors).
        neighbours: `graph`: how many similar items of each item are known, >= 1. Those that a request may not get
            count too.
        graph: `graph`: a file made by `ctxbench graph`, relative to the experiment; empty = made in memory when it
            is first needed. It must be of the same catalog, model and similarity, its threshold no higher, its lists
            no shorter.
        session: items of the session lead in the first pass, too, where the request has a chunk.
        lend: `chunks`: only so many chunks of an item lead, those nearest to the query; 0 = all.
        lend_above: `chunks`: only chunks that score at least this with the query lead.
        heads: compare only the first chunk of each item, which holds its name and description.
        query_weight: 0 to 1; candidates are ranked by (1 - query_weight) x similarity + query_weight x similarity
            with the query. Thresholds stay those of similarity alone.
        types: only items of these types are brought in; empty = of any.
        leads: only items of these types lead; empty = of any.

    Candidates are items that a search might offer, not chosen yet, whatever rule kept them out. Score is that of the
    best pair of chunks (max pooling), of equals the first in the catalog; each names the item that led to it, and the
    pair. The limit a pass is a hard cap. By `graph` with `max` the same comes out as by `chunks` with all chunks,
    unless lists were cut at `neighbours`. Within `by_domain` only what that domain chose (with `session` also what
    the session holds of its types) leads, and only its own items are brought in. Nothing chosen, nothing brought in.
    Cost: a product of the leading items' chunks with all chunks, kept for the next request; a look-up by graph, which
    compares all items once. Source: document 000, "Context-Based Expansion Approach" and "Pre-computed Context
    Relationships"; `heads`, `query_weight`, `types` and `leads` are ours.
    """

    enabled: bool = True
    depth: int = 1
    by: Literal["chunks", "graph", "both"] = "chunks"
    threshold: float = 0.75
    topN: int = 3
    graph_threshold: float = 0.75
    graph_topN: int = 3
    similarity: Literal["max", "mean", "centroid"] = "max"
    neighbours: int = 100
    graph: str = ""
    session: bool = False
    lend: int = 0
    lend_above: float | None = None
    heads: bool = False
    query_weight: float = 0.0
    types: tuple[str, ...] = ()
    leads: tuple[str, ...] = ()
    uses: ClassVar[tuple[str, ...]] = ("embedder",)

    def __post_init__(self) -> None:
        ranges = (("depth", 0, 5), ("threshold", 0, 1), ("topN", 1, 20), ("graph_threshold", 0, 1))
        for name, low, high in (*ranges, ("graph_topN", 1, 20), ("query_weight", 0, 1)):
            check_range(name, getattr(self, name), low, high)
        if self.lend < 0:
            raise ParameterError(f"lend must be 0 (all chunks) or more, got {self.lend}")
        for name in ("types", "leads"):
            for kind in getattr(self, name):
                if kind not in ITEM_TYPES:
                    raise ParameterError(f"{name}: no item type is called {kind!r}{suggest(kind, ITEM_TYPES)}")
        check_range("neighbours", self.neighbours, 1)
        self._check_unused()

    def _check_unused(self) -> None:
        for name, default in _UNUSED[self.by].items():
            if getattr(self, name) != default:
                raise ParameterError(f"{name} does nothing with by: {self.by}; leave it out, or write another `by`")
        if self.lend and (self.heads or self.lend_above is not None):
            parameter = "heads" if self.heads else "lend_above"
            raise ParameterError(f"lend and {parameter} both choose which chunks lead; give one of them")

    @property
    def off(self) -> bool:
        """Whether the step does nothing."""
        return not self.enabled or self.depth == 0

    @property
    def thresholds(self) -> dict[str, dict[str, float]]:
        """The least similarity that brings an item in; none where it is off, or where scores are mixed ones."""
        if self.off or self.query_weight:
            return {}
        names = {"chunks": ("threshold",), "graph": ("graph_threshold",), "both": ("threshold", "graph_threshold")}
        return {"expansion": {name: getattr(self, name) for name in names[self.by]}}

    @property
    def spec(self) -> GraphSpec:
        """The graph that is looked up."""
        from ctxbench.index.graph import GraphSpec

        return GraphSpec(
            similarity=self.similarity, threshold=self.graph_threshold, neighbours=self.neighbours, heads=self.heads
        )

    @property
    def content(self) -> str | None:
        """What the graph in the file is, if one is named: what it was made of, and hashes of its lists and the file."""
        if not self.graph:
            return None
        from ctxbench.index.graph_store import read_meta

        about = {**read_meta(self.graph), "file": hashlib.sha256(read_bytes(self.graph)).hexdigest()[:16]}
        return ", ".join(f"{name} {value}" for name, value in sorted(about.items()))

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that the graph in the file fits a catalog and the embedder's identity; no model is loaded.

        Raises:
            StorageError: it is missing or damaged.
            ParameterError: it does not fit.
        """
        if self.graph and not self.off:
            from ctxbench.index.graph_store import check_graph

            check_graph(self.graph, catalog, embedder=resources.identity("embedder"), spec=self.spec)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Bring in what the chosen items lead to, pass by pass."""
        if self.off:
            return candidates
        from ctxbench.index.pairs import Edges

        work = _Work(self, query, candidates, resources)
        table = candidates
        for depth in range(self.depth):
            rows = work.next_pass()
            edges = Edges.joined(list(rows.values()))
            table = add_expanded(
                table,
                np.repeat(np.array(list(rows), dtype=np.int64), [len(row.item) for row in rows.values()]),
                edges.item,
                score=edges.score,
                via_item=edges.owner,
                query_chunk=edges.own_chunk,
                item_chunk=edges.other_chunk,
                origin=np.full(len(edges.item), Origin.EXPANSION + depth, dtype=np.int64),
                mode=np.full(len(edges.item), Mode.EXPANSION, dtype=np.int64),
            )
            if not rows:
                break
        return table


class _Work:
    """One call of `Expansion`: what leads and what may still be found, by request."""

    def __init__(self, step: Expansion, query: Query, candidates: Candidates, resources: Resources) -> None:
        self._step, self._query, self._resources = step, query, resources
        self._leading = dict(_leading(step, query, candidates))
        chosen = candidates.chosen
        self._allowed: dict[int, BoolArray] = {}
        for request in self._leading:
            rows = candidates.rows(request)
            allowed = query.batch.eligible[request] & _of_types(query.batch.catalog, step.types)
            allowed[candidates.item[rows][chosen[rows]]] = False
            self._allowed[request] = allowed
        asks = step.query_weight or step.lend or step.lend_above is not None
        self._relatives = self._chunks() if step.by != "graph" or step.query_weight else None
        self._asked: dict[int, QueryWeighting] = self._queries() if asks else {}
        self._graph = self._find_graph() if step.by != "chunks" and self._leading else None

    def next_pass(self) -> dict[int, Edges]:
        """What is found next, by request; it leads in the pass after. Requests without are left out."""
        related = {request: self._related(request, items) for request, items in self._leading.items()}
        related = {request: edges for request, edges in related.items() if len(edges.item)}
        for request, edges in related.items():
            self._allowed[request][edges.item] = False
        leads = _of_types(self._query.batch.catalog, self._step.leads)
        self._leading = {request: np.sort(edges.item[leads[edges.item]]) for request, edges in related.items()}
        return related

    def _related(self, request: int, items: IntArray) -> Edges:
        from ctxbench.index.pairs import Edges
        from ctxbench.index.related import best_first, either, looked_up

        step, allowed, query_chunks = self._step, self._allowed[request], self._asked.get(request)
        mixed = query_chunks if step.query_weight else None
        by_chunks = by_graph = Edges.joined([])
        if step.by != "graph" and self._relatives is not None:
            rows = self._relatives.lent(items, limit=step.lend, above=step.lend_above, query=query_chunks)
            by_chunks = self._relatives.near(rows, allowed, threshold=step.threshold, limit=step.topN, query=mixed)
        if self._graph is not None:
            by_graph = looked_up(
                self._graph, items, allowed, threshold=step.graph_threshold, neighbours=step.neighbours
            )
            limit = step.graph_topN
            if self._relatives is None:
                by_graph = best_first(by_graph, limit)
            else:
                by_graph = self._relatives.ranked(by_graph, limit, mixed)
        if step.by != "both":
            return by_chunks if step.by == "chunks" else by_graph
        return either(by_chunks, by_graph)

    def _queries(self) -> dict[int, QueryWeighting]:
        """The chunks of the requests that something leads from."""
        from ctxbench.index.related import QueryWeighting

        query, share = self._query, self._step.query_weight
        relatives = self._relatives
        vectors = query.vectors_by_request(
            self._resources.vectors,
            self._leading,
            dimensions=None if relatives is None else relatives.matrix.vectors.shape[1],
        )
        return {
            request: QueryWeighting(chunk_vectors, query.weight[query.start[request] : query.start[request + 1]], share)
            for request, chunk_vectors in vectors.items()
        }

    def _chunks(self) -> Relatives | None:
        """The chunks of everything that leads or may be found."""
        catalog = self._query.batch.catalog
        mask = np.zeros(len(catalog), dtype=np.bool_)
        for request, items in self._leading.items():
            mask |= self._allowed[request]
            mask[items] = True
        if not mask.any():
            return None
        from ctxbench.index.related import Relatives

        index, only_heads = dense_index(catalog, self._resources), self._step.heads
        index.matrix(mask, self._resources.vectors)
        return index.get_or_compute(("relatives", only_heads), lambda matrix: Relatives(matrix, only_heads=only_heads))

    def _find_graph(self) -> Graph:
        from ctxbench.index.graph_store import kept_graph, stored_graph

        step, catalog, resources = self._step, self._query.batch.catalog, self._resources
        if not step.graph:
            return kept_graph(catalog, resources, step.spec)
        return stored_graph(step.graph, catalog, resources, step.spec)


def _leading(step: Expansion, query: Query, candidates: Candidates) -> Iterator[tuple[int, IntArray]]:
    """The items that lead in the first pass, rising, by request; requests without are left out."""
    leads = candidates.chosen & (candidates.origin != Origin.SESSION)
    if step.session:
        asking = np.diff(query.start) > 0
        leads |= (candidates.origin == Origin.SESSION) & asking[candidates.request]
    leads &= _of_types(query.batch.catalog, step.leads)[candidates.item]
    for request in np.unique(candidates.request[leads]).tolist():
        rows = candidates.rows(request)
        yield request, np.sort(candidates.item[rows][leads[rows]])


def _of_types(catalog: Catalog, types: tuple[str, ...]) -> BoolArray:
    """Which items are of some types, shape (n_items,); all where none is named."""
    return catalog.facts.type.are_any(types or ITEM_TYPES)
