"""Fit: what is offered is brought within a budget of prompt tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ctxbench.core.arrays import BoolArray, IntArray
from ctxbench.core.candidates import Candidates, Origin
from ctxbench.core.errors import ParameterError
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy


@dataclass(frozen=True)
class Budget(Strategy):
    """Offer items in the one order as long as their prompt texts fit into a budget of tokens.

    Attributes:
        tokens: of all items offered for a request together, >= 0; never exceeded by what is added.
        skip: True: an item that does not fit is left out and smaller ones after it may still be offered; False: it
            ends the list.
        session: whether what the session holds is counted too. It is never left out: a session beyond the budget
            leaves nothing for others.

    Items that a search found and that an expansion brought in count alike. Tokens are those of the counter that the
    run's tables name. Empty in, empty out. Cost: linear in the candidates, and
    counting the tokens of the catalog once. Source: the documents, "Context Window Management"; first fit in the
    order given (greedy; no search for the best filling).
    """

    tokens: int = 2000
    skip: bool = False
    session: bool = False
    uses: ClassVar[tuple[str, ...]] = ("tokens",)

    def __post_init__(self) -> None:
        if self.tokens < 0:
            raise ParameterError(f"tokens must be 0 or more, got {self.tokens}")

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark what does not fit."""
        cost = resources.tokens(query.batch.catalog)[candidates.item]
        held = candidates.origin == Origin.SESSION
        left = np.full(candidates.n_requests, self.tokens, dtype=np.int64)
        if self.session:
            np.subtract.at(left, candidates.request[held], cost[held])
        rows = candidates.chosen & ~held
        fits = _first_fit(candidates, rows, cost, left) if self.skip else _prefix(candidates, rows, cost, left)
        return candidates.marked(rows & ~fits, f"beyond the budget of tokens={self.tokens}")


def _prefix(table: Candidates, rows: BoolArray, cost: IntArray, left: IntArray) -> BoolArray:
    """True for those of `rows` that lie, with all before them in their request, within what is `left`."""
    spent = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.where(rows, cost, 0))])
    here = spent[1:] - spent[table.start[:-1]][table.request]
    within: BoolArray = here <= left[table.request]
    return within


def _first_fit(table: Candidates, rows: BoolArray, cost: IntArray, left: IntArray) -> BoolArray:
    """True for those of `rows` that fit into what those before them have left."""
    fits = np.zeros(len(table), dtype=np.bool_)
    remaining = left.tolist()
    for row in np.flatnonzero(rows).tolist():
        request, price = table.request[row], int(cost[row])
        if price <= remaining[request]:
            remaining[request] -= price
            fits[row] = True
    return fits
