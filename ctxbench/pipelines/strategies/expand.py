"""Expand chosen items by similarity, stored links and tool rules."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from ctxbench.io.errors import Message, ParameterError, suggest
from ctxbench.io.files import read_bytes
from ctxbench.model.arrays import BoolArray, Facts, FloatArray, IntArray, firsts, ranges
from ctxbench.model.candidates import Candidates, Mode, Origin, add_expanded
from ctxbench.model.items import ITEM_TYPES, Catalog, check_item_types
from ctxbench.model.requests import Batch, Query
from ctxbench.model.resources import Resources, index_over
from ctxbench.model.selection import with_values
from ctxbench.model.strategies import Strategy, SweptExpansion
from ctxbench.search.dense import dense_index

if TYPE_CHECKING:
    from ctxbench.search.dense import Edges
    from ctxbench.search.graph import Graph, GraphSpec, QueryWeighting, Relatives


_UNUSED: Mapping[str, Mapping[str, Any]] = {
    "chunks": {"graph_threshold": 0.75, "graph_topN": 3, "similarity": "max", "graph": "", "neighbours": 100},
    "graph": {"threshold": 0.75, "topN": 3},
    "both": {},
}
"""By `by`, the parameters that do nothing there, with their defaults."""


@dataclass(frozen=True)
class Expansion(Strategy):
    """Add items that are similar to the chosen ones: by their chunks, by a relationship graph, or both.

    Attributes:
        enabled: False changes nothing.
        depth: passes, 0 to 5; 0 changes nothing, too. What a pass added leads in the next one.
        by: `chunks` compares chunks at each request; `graph` looks similar items up; `both` does both, and an item
            found twice has its higher score.
        threshold: `chunks`: least similarity of two chunks, 0 to 1.
        topN: `chunks`: at most so many items per pass, 1 to 20.
        graph_threshold: `graph`: least similarity of two items, 0 to 1.
        graph_topN: `graph`: at most so many items per pass, 1 to 20.
        similarity: `graph`: of two items, `max` (their best pair of chunks), `mean` (over all pairs) or `centroid`
            (cosine of their mean vectors).
        neighbours: `graph`: how many similar items of each item are known, >= 1. Those that a request may not get
            count too.
        graph: `graph`: a file made by `ctxbench graph`, relative to the experiment; empty = made in memory when it
            is first needed. It must be of the same catalog, model and similarity, its threshold no higher, its lists
            no shorter.
        session: items of the session lead in the first pass, too, where the request has a chunk.
        heads: compare only the first chunk of each item, which holds its name and description.
        query_weight: 0 to 1; candidates are ranked by (1 - query_weight) x similarity + query_weight x similarity
            with the query. Thresholds stay those of similarity alone.
        types: only items of these types are added; empty = of any.
        leads: only items of these types lead; empty = of any.

    Candidates are items that a search might offer, not chosen yet, whatever rule kept them out. Score is that of the
    best pair of chunks (max pooling), of equals the first in the catalog; each names the item that led to it, and the
    pair. The limit a pass is a hard cap. By `graph` with `max` the same comes out as by `chunks` with all chunks,
    unless lists were cut at `neighbours`. Within `by_domain` only what that domain chose (with `session` also what
    the session holds of its types) leads, and only its own items are added. Nothing chosen, nothing added.
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
    heads: bool = False
    query_weight: float = 0.0
    types: tuple[str, ...] = ()
    leads: tuple[str, ...] = ()
    adds_prefix: ClassVar[bool] = True
    uses: ClassVar[tuple[str, ...]] = ("embedder",)
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {
        "depth": (0, 5),
        "threshold": (0, 1),
        "topN": (1, 20),
        "graph_threshold": (0, 1),
        "graph_topN": (1, 20),
        "query_weight": (0, 1),
        "neighbours": (1, math.inf),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        check_item_types(self.types, where="types: ")
        check_item_types(self.leads, where="leads: ")
        for name, default in _UNUSED[self.by].items():
            if getattr(self, name) != default:
                raise ParameterError(f"{name} does nothing with by: {self.by}; leave it out, or write another `by`")

    @property
    def off(self) -> bool:
        """Whether the step does nothing."""
        return not self.enabled or self.depth == 0

    @property
    def passes(self) -> int:
        """How many times it expands."""
        return self.depth

    @property
    def expansion_sweep(self) -> SweptExpansion:
        """The threshold and the limit of `by`; one run is enough where an item is added for its similarity alone."""
        obstacles = {
            Message("pipelines.expansion-off"): self.off,
            Message("pipelines.expansion-passes", n=self.depth): self.depth > 1,
            Message("pipelines.expansion-two-rankings"): self.by == "both",
            Message("pipelines.expansion-query-weight"): self.query_weight > 0,
            Message("pipelines.expansion-graph-file"): bool(self.graph),
        }
        prefix = "graph_" if self.by == "graph" else ""
        obstacle = next((reason for reason, applies in obstacles.items() if applies), "")
        return SweptExpansion(f"{prefix}threshold", f"{prefix}topN", obstacle)

    @property
    def thresholds(self) -> dict[str, dict[str, float]]:
        """The least similarity at which an item is added; none if it is off, or if scores are mixed."""
        if self.off or self.query_weight:
            return {}
        names = {"chunks": ("threshold",), "graph": ("graph_threshold",), "both": ("threshold", "graph_threshold")}
        return {"expansion": {name: getattr(self, name) for name in names[self.by]}}

    @property
    def spec(self) -> GraphSpec:
        """The graph that is looked up."""
        from ctxbench.search.graph import GraphSpec

        return GraphSpec(
            similarity=self.similarity, threshold=self.graph_threshold, neighbours=self.neighbours, heads=self.heads
        )

    @property
    def content(self) -> str | None:
        """The identity of the graph file, if one is named: its inputs, and hashes of its lists and of the file."""
        if not self.graph:
            return None
        from ctxbench.search.graph import read_meta

        about = {**read_meta(self.graph), "file": hashlib.sha256(read_bytes(self.graph)).hexdigest()[:16]}
        return ", ".join(f"{name} {value}" for name, value in sorted(about.items()))

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that the graph in the file fits a catalog and the embedder's identity; no model is loaded.

        Raises:
            StorageError: it is missing or damaged.
            ParameterError: it does not fit.
        """
        if self.graph and not self.off:
            from ctxbench.search.graph import check_graph

            check_graph(self.graph, catalog, embedder=resources.identity("embedder"), spec=self.spec)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Add what the chosen items lead to, pass by pass."""
        if self.off:
            return candidates
        from ctxbench.search.dense import Edges

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
    """One call of `Expansion`: leading items, and items that may still be added, by request."""

    def __init__(self, step: Expansion, query: Query, candidates: Candidates, resources: Resources) -> None:
        self._step, self._query, self._resources = step, query, resources
        self._leading = _leading(step, query, candidates)
        chosen = candidates.chosen
        self._allowed: dict[int, BoolArray] = {}
        for request in self._leading:
            rows = candidates.rows(request)
            allowed = query.batch.eligible[request] & _of_types(query.batch.catalog, step.types)
            allowed[candidates.item[rows][chosen[rows]]] = False
            self._allowed[request] = allowed
        self._relatives = self._chunks() if step.by != "graph" or step.query_weight else None
        self._weightings: dict[int, QueryWeighting] = self._queries() if step.query_weight else {}
        self._graph = self._find_graph() if step.by != "chunks" and self._leading else None

    def next_pass(self) -> dict[int, Edges]:
        """The items found next, by request; they lead in the following pass. Requests without any are left out."""
        related = {request: self._related(request, items) for request, items in self._leading.items()}
        related = {request: edges for request, edges in related.items() if len(edges.item)}
        for request, edges in related.items():
            self._allowed[request][edges.item] = False
        leads = _of_types(self._query.batch.catalog, self._step.leads)
        self._leading = {request: np.sort(edges.item[leads[edges.item]]) for request, edges in related.items()}
        return related

    def _related(self, request: int, items: IntArray) -> Edges:
        from ctxbench.search.dense import Edges
        from ctxbench.search.graph import best_first, either, looked_up

        step, allowed, mixed = self._step, self._allowed[request], self._weightings.get(request)
        by_chunks = by_graph = Edges.joined([])
        if step.by != "graph" and self._relatives is not None:
            rows = self._relatives.chunks_of(items)
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
        from ctxbench.search.graph import QueryWeighting

        query, share, relatives = self._query, self._step.query_weight, self._relatives
        vectors = query.vectors_by_request(
            self._resources.vectors,
            self._leading,
            dimensions=None if relatives is None else relatives.matrix.vectors.shape[1],
        )
        return {
            request: QueryWeighting(chunk_vectors, query.weights(request), share)
            for request, chunk_vectors in vectors.items()
        }

    def _chunks(self) -> Relatives | None:
        """The chunks of all leading items and of those that may be found."""
        catalog = self._query.batch.catalog
        mask = np.zeros(len(catalog), dtype=np.bool_)
        for request, items in self._leading.items():
            mask |= self._allowed[request]
            mask[items] = True
        if not mask.any():
            return None
        from ctxbench.search.graph import Relatives

        index, only_heads = dense_index(catalog, self._resources), self._step.heads
        index.matrix(mask, self._resources.vectors)
        return index.get_or_compute(("relatives", only_heads), lambda matrix: Relatives(matrix, only_heads=only_heads))

    def _find_graph(self) -> Graph:
        from ctxbench.search.graph import kept_graph, stored_graph

        step, catalog, resources = self._step, self._query.batch.catalog, self._resources
        used = (catalog, resources, step.spec)
        return stored_graph(step.graph, *used) if step.graph else kept_graph(*used)


def _leading(step: Expansion, query: Query, candidates: Candidates) -> dict[int, IntArray]:
    """The items that lead in the first pass, rising, by request; requests without are left out."""
    leads = candidates.chosen & (candidates.origin != Origin.SESSION)
    if step.session:
        asking = np.diff(query.start) > 0
        leads |= (candidates.origin == Origin.SESSION) & asking[candidates.request]
    leads &= _of_types(query.batch.catalog, step.leads)[candidates.item]
    return {request: np.sort(candidates.item[rows]) for request, rows in candidates.by_request(leads).items()}


def _of_types(catalog: Catalog, types: tuple[str, ...]) -> BoolArray:
    """Which items are of some types, shape (n_items,); all if no type is named."""
    return catalog.facts.type.are_any(types or ITEM_TYPES)


DEPTH, TYPE = "link.depth", "link.type"
"""Columns of what was added: how many links away, and the link's type, a place in `Facts.link_types`."""


@dataclass(frozen=True)
class Links(Strategy):
    """Add what the chosen items are linked with, pass by pass, each item once, however the links run.

    Attributes:
        depth: how many links away, 0 to 5; 0 changes nothing.
        types: only links of these types are followed; empty = of any. A type that no link has leads nowhere.
        direction: `both` follows links to an item, too; `out` only those from it.

    Only items that a search might offer are added and lead further; what the session holds does not lead. Of
    several ways of one length the way from the best scored item counts, then from the first in the catalog, then along
    a link from it, then along the first. Score: that of the chosen item at the beginning of the way, so that what the
    best one leads to comes first; a rank step behind orders all anew. `via_item` is the item before, the columns
    `link.depth` and `link.type` hold the number of the pass and the link's type, a place in `Facts.link_types`.
    Nothing chosen, or no links: nothing added. Cost: linear in the links of what was reached; `both` sorts the
    catalog's links once. Source: document 004, "Relationship Expansion"; it asks for the relationships of a memory,
    whichever end it is, hence `both`.
    """

    depth: int = 1
    types: tuple[str, ...] = ()
    direction: Literal["both", "out"] = "both"
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"depth": (0, 5)}

    @property
    def off(self) -> bool:
        """Whether the step adds nothing."""
        return self.depth == 0

    @property
    def passes(self) -> int:
        """How many links away."""
        return self.depth

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Add what the chosen items lead to."""
        if self.off:
            return candidates
        n_items, leads = len(query.batch.catalog), candidates.chosen & (candidates.origin != Origin.SESSION)
        none = np.full(int(leads.sum()), -1, dtype=np.int64)
        front = _Reached(candidates.request[leads], candidates.item[leads], candidates.score[leads], none, none)
        present = (candidates.request * n_items + candidates.item)[candidates.chosen]
        passes = []
        for _ in range(self.depth):
            front = self._next(query.batch, front, present)
            present = np.concatenate([present, front.request * n_items + front.item])
            passes.append(front)
        reached = _Reached(*(np.concatenate(arrays) for arrays in zip(*passes, strict=True)))
        depth = np.repeat(np.arange(1, self.depth + 1), [len(step.item) for step in passes])
        table = add_expanded(
            candidates,
            reached.request,
            reached.item,
            score=reached.score,
            via_item=reached.via,
            origin=Origin.EXPANSION + depth - 1,
            mode=np.full(len(depth), Mode.EXPANSION, dtype=np.int64),
        )
        columns = {DEPTH: depth.astype(np.float64), TYPE: reached.type.astype(np.float64)}
        return with_values(table, reached.request, reached.item, columns)

    def _next(self, batch: Batch, front: _Reached, present: IntArray) -> _Reached:
        """The items that those reached so far lead to, without those `present`, each once per request."""
        facts = batch.catalog.facts
        owner, item, kind = _links(facts, front.item, incoming=self.direction == "both")
        followed = np.array([not self.types or name in self.types for name in facts.link_types], dtype=np.bool_)[kind]
        owner, item, kind = owner[followed], item[followed], kind[followed]
        request = front.request[owner]
        free = batch.eligible.cells(request, item) & ~np.isin(request * len(batch.catalog) + item, present)
        owner, item, kind, request = owner[free], item[free], kind[free], request[free]
        best = np.lexsort((front.item[owner], -front.score[owner], item, request))  # stable: then as the links stand
        best = best[firsts(item[best], request[best])]
        owner = owner[best]
        return _Reached(request[best], item[best], front.score[owner], front.item[owner], kind[best])


class _Reached(NamedTuple):
    """What one pass reached, an item per row: score, the item before and the link's type; arrays of shape (n,)."""

    request: IntArray
    item: IntArray
    score: FloatArray
    via: IntArray
    type: IntArray


def _links(facts: Facts, items: IntArray, *, incoming: bool) -> tuple[IntArray, IntArray, IntArray]:
    """The links of some items, shape (n,): the place in `items`, the other end and the type of each; outgoing first."""
    directions = [(facts.link_start, facts.link_item, facts.link_type), *([facts.incoming] if incoming else [])]
    links = []
    for start, end, kind in directions:
        length = start[items + 1] - start[items]
        row = ranges(start[items], length)
        links.append((np.repeat(np.arange(len(items)), length), end[row], kind[row]))
    owner, end, kind = (np.concatenate(arrays) for arrays in zip(*links, strict=True))
    return owner, end, kind


@dataclass(frozen=True)
class ToolRules(Strategy):
    """Add the tools that a rule names for a chosen tool, or for a tool whose result the request has.

    Attributes:
        rules: for everyone: a tool, and the tools to add with it: `{read_file: [write_file, search_code]}`.
        agent: the agent's own. Where both name a tool, the agent's list holds; an empty list takes a rule back.
        when: `selected` (the tool was chosen for the request), `result` (the request has a result of it) or `either`.
        session: tools of the session count as chosen, too; not with `result`.

    A tool is named by its name, on whatever server, or as `server/name`; `server/*` are all of a server, and `*/name`
    is the same as `name`. Names that a catalog does not hold do nothing, so that several catalogs can share rules; but
    an experiment stops where a catalog holds none of them. Only items that a search might offer are added, each
    with score 1, in catalog order, and none leads further. Each names the tool that led to it, of several the first in
    the catalog; none where the result is of a tool that the catalog lacks. No rule fits: as it was. Cost: a look-up of
    names. Source: document 000, "Tool-specific expansion rules".
    """

    rules: Mapping[str, Any]
    agent: Mapping[str, Any] | None = None
    when: Literal["selected", "result", "either"] = "selected"
    session: bool = False
    reads_tool_results: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", _rules("rules", self.rules))
        if self.agent is not None:
            object.__setattr__(self, "agent", _rules("agent", self.agent))
        if self.session and self.when == "result":
            raise ParameterError("session does nothing with when: result; leave it out, or write another `when`")
        if not any(self.in_force.values()):
            raise ParameterError("rules must name a tool and the tools to bring in with it; there is no rule")

    @property
    def in_force(self) -> dict[str, tuple[str, ...]]:
        """The rules that hold, the agent's over those for everyone."""
        return {**self.rules, **(self.agent or {})}

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Check that a rule can add something over the catalog.

        Raises:
            ParameterError: no rule names a tool of it on both sides (with results, to add).
        """
        any_source = self.when != "selected"  # the tool of a result need not be in the catalog
        if any(
            (any_source or _tools(catalog, left)) and any(_tools(catalog, name) for name in right)
            for left, right in self.in_force.items()
        ):
            return
        named = sorted({name for left, right in self.in_force.items() for name in (left, *right)})
        missing = [name for name in named if not _tools(catalog, name)]
        tools = {item.name for item in catalog if item.type == "tool"}
        raise ParameterError(
            f"no rule fits the catalog, which has no tool called {missing[0]!r}{suggest(missing[0], tools)}; "
            "a tool is named as `name` or `server/name`"
        )

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Add what the rules name."""
        catalog = query.batch.catalog
        name = ("tool rules", repr(sorted(self.in_force.items())))
        led = index_over(
            catalog, resources, name, over=("type", "server", "name"), make=lambda: _Led(catalog, self.in_force)
        )
        rows: list[tuple[int, int, int]] = []
        chosen = candidates.chosen
        for request in range(len(query.batch)):
            span = candidates.rows(request)
            items = candidates.item[span][chosen[span]]
            leading = chosen[span] & ((candidates.origin[span] != Origin.SESSION) | self.session)
            sources = np.sort(candidates.item[span][leading]).tolist() if self.when != "result" else []
            results = query.batch.requests[request].tool_results if self.when != "selected" else ()
            allowed = query.batch.eligible[request].copy()
            allowed[items] = False
            via = led.to(sources, [tool for tool, _ in results])
            rows += [(request, item, via[item]) for item in sorted(via) if allowed[item]]
        brought = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return add_expanded(
            candidates,
            brought[0],
            brought[1],
            score=np.ones(len(rows), dtype=np.float64),
            via_item=brought[2],
            origin=np.full(len(rows), Origin.EXPANSION, dtype=np.int64),
            mode=np.full(len(rows), Mode.EXPANSION, dtype=np.int64),
        )


class _Led:
    """The rules over one catalog: which positions lead to which."""

    def __init__(self, catalog: Catalog, rules: Mapping[str, Sequence[str]]) -> None:
        self._catalog = catalog
        self._named = {left: _tools(catalog, left) for left in rules}
        self._targets = {
            left: [item for name in right for item in _tools(catalog, name)] for left, right in rules.items()
        }
        self._by_item: dict[int, list[int]] = {}
        for left, items in self._named.items():
            for item in items:
                self._by_item.setdefault(item, []).extend(self._targets[left])

    def to(self, sources: Sequence[int], results: Sequence[str]) -> dict[int, int]:
        """What some tools and the results of some lead to: item to the tool that led there, -1 if none is known."""
        via: dict[int, int] = {}
        called = {item for name in results for item in _tools(self._catalog, name)}
        for source in sorted({*sources, *called}):
            for item in self._by_item.get(source, ()):
                via.setdefault(item, source)
        for name in results:
            if name in self._targets and not _tools(self._catalog, name):
                for item in self._targets[name]:
                    via.setdefault(item, -1)
        return via


def _tools(catalog: Catalog, pattern: str) -> list[int]:
    """The positions of the tools that a name means."""
    return [
        position
        for position, item in enumerate(catalog)
        if item.type == "tool"
        and pattern in (item.name, f"*/{item.name}", f"{item.server}/{item.name}", f"{item.server}/*")
    ]


def _rules(parameter: str, rules: object) -> dict[str, tuple[str, ...]]:
    """Rules as written, with tuples for lists.

    Raises:
        ParameterError: they are no mapping from a tool's name to a list of names.
    """
    message = Message("pipelines.tool-rules-form", parameter=parameter)
    if not isinstance(rules, Mapping):
        raise ParameterError(f"{message}; got {rules!r}")
    for left, right in rules.items():
        names = [left, *right] if isinstance(right, list | tuple) else [None]
        if not all(isinstance(name, str) and name for name in names):
            raise ParameterError(f"{message}; got {left!r}: {right!r}")
    return {left: tuple(right) for left, right in rules.items()}
