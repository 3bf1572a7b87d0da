"""Fit: what is offered is brought within a budget of prompt tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ctxbench.core.arrays import BoolArray, IntArray
from ctxbench.core.candidates import Candidates, Origin
from ctxbench.core.errors import ParameterError, check_range
from ctxbench.core.items import Item
from ctxbench.core.query import Query
from ctxbench.core.rules import Rule
from ctxbench.core.shown import text_shown
from ctxbench.core.stages import FORMAT, Resources
from ctxbench.core.strategy import Strategy
from ctxbench.text.prompt_budget import BUDGET, BUDGET_WORDS, cut_places, rendered_fit

TOO_LONG = "too_long"  # the code of the rule for an item of which no part fits


@dataclass(frozen=True)
class Budget(Strategy):
    """Offer items in the one order as long as what is shown of them fits into a budget of tokens.

    Attributes:
        tokens: of all items offered for a request together, >= 0; never exceeded by what is added.
        skip: True: an item that does not fit is left out and smaller ones after it may still be offered; False: it
            ends the list.
        session: whether what the session holds is counted too. It is never left out: a session beyond the budget
            leaves nothing for others.
        frame: whether the whole prompt is counted, as the pipeline's format renders it: system prompt, earlier
            messages, what the session holds and the user's message, too. Where these alone are beyond the budget,
            nothing is added.

    Items that a search found and that an expansion brought in count alike. Tokens are those of the counter that the
    run's tables name. Empty in, empty out. Cost: linear in the candidates, and
    counting the tokens of the catalog once; with `frame` the prompt is rendered for the logarithm of the candidates,
    with `skip` for each of them. Source: the documents, "Context Window Management"; first fit in the
    order given (greedy; no search for the best filling).
    """

    tokens: int = 2000
    skip: bool = False
    session: bool = False
    frame: bool = False
    rule_words: ClassVar[Mapping[str, str]] = {BUDGET: BUDGET_WORDS}

    def __post_init__(self) -> None:
        check_range("tokens", self.tokens, 0)
        if self.frame and self.session:
            raise ParameterError("frame counts what the session holds, too; leave session out")

    @property
    def uses(self) -> tuple[str, ...]:
        """The token counts, and the pipeline's format where the whole prompt is counted."""
        return ("tokens", FORMAT) if self.frame else ("tokens",)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark what does not fit."""
        in_session = candidates.origin == Origin.SESSION
        rows = candidates.chosen & ~in_session
        if self.frame:
            limit = np.full(candidates.n_requests, self.tokens, dtype=np.int64)
            fits = rendered_fit(query, candidates, resources, rows, budget=limit, skip=self.skip)
            return candidates.exclude(rows & ~fits, Rule.of(BUDGET, tokens=self.tokens))
        priced = candidates.item[candidates.chosen | in_session]
        cost = candidates.prices(resources.tokens(query.batch.catalog, priced))
        left = np.full(candidates.n_requests, self.tokens, dtype=np.int64)
        if self.session:
            np.subtract.at(left, candidates.request[in_session], cost[in_session])
        fits = _first_fit(candidates, rows, cost, left) if self.skip else _prefix(candidates, rows, cost, left)
        return candidates.exclude(rows & ~fits, Rule.of(BUDGET, tokens=self.tokens))


@dataclass(frozen=True)
class Truncate(Strategy):
    """Show the beginning of items that are longer than some tokens, up to the end of a word.

    Attributes:
        tokens: of what is shown of one item, the mark at its end counted; 1 or more.

    Tools are sent whole or not at all, so they are left as they are, as is what another step shows a part of. Of a
    text whose first word is too long its first characters are shown; where not one fits, the item stays out. Each item
    is cut alike for every request, so the step may stand anywhere. What the session holds is cut, too. Empty in, empty
    out. Cost: the tokens of some ten beginnings an item that is too long. Source: the documents, "Token Optimizer".
    """

    tokens: int = 400
    uses: ClassVar[tuple[str, ...]] = ("tokens",)
    rule_words: ClassVar[Mapping[str, str]] = {TOO_LONG: "not one character of it fits into tokens={tokens}"}

    def __post_init__(self) -> None:
        check_range("tokens", self.tokens, 1)

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Show the beginnings of what is too long."""
        catalog = query.batch.catalog
        cost = candidates.prices(resources.tokens(catalog, candidates.item))
        items = np.unique(candidates.item[candidates.shows_all & (cost > self.tokens)]).tolist()
        cut = {
            item: _beginning(catalog[item], self.tokens, resources) for item in items if catalog[item].type != "tool"
        }
        rows = candidates.shows_all & (cost > self.tokens) & np.isin(candidates.item, list(cut))
        ends = [cut[item] for item in candidates.item[rows].tolist()]
        fits = rows.copy()
        fits[rows] = [end > 0 for end, _ in ends]
        spans = np.array([span for span in ends if span[0] > 0], dtype=np.int64).reshape(-1, 2)
        table = candidates.showing(fits, np.zeros(len(spans), dtype=np.int64), spans[:, 0], spans[:, 1])
        return table.exclude(rows & ~fits, Rule.of(TOO_LONG, tokens=self.tokens))


def _beginning(item: Item, limit: int, resources: Resources) -> tuple[int, int]:
    """Where the longest beginning of an item's prompt text within the limit ends, and its tokens; 0 = none."""
    for ends in cut_places(item.prompt_text, 0, len(item.prompt_text), sentence=False):
        end, tokens = _longest(item, ends, limit, resources)
        if end:
            return end, tokens
    return 0, 0


def _longest(item: Item, ends: list[int], limit: int, resources: Resources) -> tuple[int, int]:
    """The last of the rising `ends` up to which the text is within the limit, and its tokens; 0, 0 if none is."""
    low, high, best = 0, len(ends), (0, 0)
    while low < high:
        middle = (low + high) // 2
        tokens = int(resources.text_tokens([text_shown(item, (0, ends[middle]))])[0])
        if tokens <= limit:
            low, best = middle + 1, (ends[middle], tokens)
        else:
            high = middle
    return best


def _prefix(table: Candidates, rows: BoolArray, cost: IntArray, left: IntArray) -> BoolArray:
    """True for those of `rows` that lie, with all before them in their request, within what is `left`."""
    spent = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.where(rows, cost, 0))])
    used = spent[1:] - spent[table.start[:-1]][table.request]
    return np.asarray(used <= left[table.request])


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
