"""Links: items that stored links lead to from the chosen ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray, firsts, ranges
from ctxbench.core.candidate_tables import with_values
from ctxbench.core.candidates import Candidates, Mode, Origin, add_expanded
from ctxbench.core.errors import check_range
from ctxbench.core.facts import Facts
from ctxbench.core.query import Query
from ctxbench.core.requests import Batch
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy

DEPTH, TYPE = "link.depth", "link.type"
"""Columns of what was brought in: how many links away, and the link's type, a place in `Facts.link_types`."""


@dataclass(frozen=True)
class Links(Strategy):
    """Bring in what the chosen items are linked with, pass by pass, each item once, however the links run.

    Attributes:
        depth: how many links away, 0 to 5; 0 leaves everything as it is.
        types: only links of these types are followed; empty = of any. A type that no link has leads nowhere.
        direction: `both` follows links to an item, too; `out` only those from it.

    Only items that a search might offer are brought in and lead further; what the session holds does not lead. Of
    several ways of one length the way from the best scored item counts, then from the first in the catalog, then along
    a link from it, then along the first. Score: that of the chosen item at the beginning of the way, so that what the
    best one leads to comes first; a rank step behind orders all anew. `via_item` is the item before, the columns
    `link.depth` and `link.type` hold the number of the pass and the link's type, a place in `Facts.link_types`.
    Nothing chosen, or no links: nothing brought in. Cost: linear in the links of what was reached; `both` sorts the
    catalog's links once. Source: document 004, "Relationship Expansion"; it asks for the relationships of a memory,
    whichever end it is, hence `both`.
    """

    depth: int = 1
    types: tuple[str, ...] = ()
    direction: Literal["both", "out"] = "both"

    def __post_init__(self) -> None:
        check_range("depth", self.depth, 0, 5)

    @property
    def off(self) -> bool:
        """Whether nothing is brought in."""
        return self.depth == 0

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Bring in what the chosen items lead to."""
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
        """What the items reached so far lead to, without what is `present`, each once per request."""
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
    """What one pass reached, an item a row: score, the item before and the link's type; arrays of shape (n,)."""

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
