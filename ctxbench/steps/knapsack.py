"""Fit by relevance for its price: what is worth most within a budget of tokens, greedily or exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.candidates import Candidates, Origin, place_among
from ctxbench.core.errors import ParameterError, check_range
from ctxbench.core.query import Query
from ctxbench.core.rules import Rule
from ctxbench.core.stages import FORMAT, Resources
from ctxbench.core.strategy import Strategy
from ctxbench.text.prompt_budget import cut_to_fit, prompt_tokens, row_prices

NO_RELEVANCE, NO_ROOM, WORTH_LESS, TYPE_SHARE, ENOUGH = (
    *("no_relevance", "no_room", "worth_less", "type_share", "enough"),
)
_WORDS = {
    NO_RELEVANCE: "its score is not above 0, so it adds nothing",
    NO_ROOM: "does not fit into tokens={tokens} less reserved={reserved}",
    WORTH_LESS: "others are worth more together within tokens={tokens} less reserved={reserved}",
    TYPE_SHARE: "its type has more than type_share={type_share} of what is chosen",
    ENOUGH: "stop_items={stop_items} or more items fill stop_share={stop_share} of the budget",
}
_SCALE = 40  # scores are compared to 2 ** -40 of the highest, as whole numbers, so that sums do not round


@dataclass(frozen=True)
class _Filling(Strategy):
    """What the two have in common: the prices, and the budget as it is rendered.

    What is chosen by prices is counted whole; where that is too much, the room shrinks by what is over, and is filled
    anew.
    """

    tokens: int = 4000
    reserved: int = 500
    uses: ClassVar[tuple[str, ...]] = ("tokens", FORMAT)
    rule_words: ClassVar[Mapping[str, str]] = _WORDS

    def __post_init__(self) -> None:
        check_range("tokens", self.tokens, 0)
        check_range("reserved", self.reserved, 0)
        if self.reserved >= self.tokens:
            raise ParameterError(
                f"reserved ({self.reserved}) must be less than tokens ({self.tokens}); nothing is left for items"
            )

    @property
    def _rules(self) -> tuple[Rule, ...]:
        """Why a row is out: those that `_filled` counts from 1."""
        raise NotImplementedError

    def _filled(self, score: FloatArray, price: IntArray, kind: IntArray, room: int) -> IntArray:
        """Which items of a request are chosen.

        Args:
            score: in the one order, above 0, shape (n,).
            price: tokens of each, >= 0.
            kind: a number for the type of each.
            room: tokens of all that are chosen; below 0 nothing is.

        Returns:
            Shape (n,): 0 = chosen, else which of `_rules` keeps it out, from 1.
        """
        raise NotImplementedError

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Mark what is not chosen, and show a part of the best where nothing fits."""
        rows = candidates.chosen & (candidates.origin != Origin.SESSION)
        useful = rows & (candidates.score > 0)
        table = candidates.exclude(rows & ~useful, NO_RELEVANCE)
        frame = prompt_tokens(query, Candidates.empty(table.n_requests), resources)
        limit = frame + (self.tokens - self.reserved)
        price, joint, base_cost = row_prices(query, table, resources, useful)
        kind, room = query.batch.catalog.facts.type.code[table.item], limit - base_cost + joint
        cost = np.maximum(price + joint[table.request], 0)
        why, chosen = np.zeros(len(table), dtype=np.int64), np.zeros(len(table), dtype=np.bool_)
        left = np.diff(table.starts_of(useful)) > 0
        while left.any():
            for request in np.flatnonzero(left).tolist():
                members = np.flatnonzero(useful[table.rows(request)]) + table.start[request]
                why[members] = self._filled(table.score[members], cost[members], kind[members], int(room[request]))
            chosen = useful & (why == 0)
            over = prompt_tokens(query, table.exclude(useful & ~chosen, NO_ROOM), resources) - limit
            left &= (over > 0) & (np.diff(table.starts_of(chosen)) > 0)
            room = np.where(left, room - over, room)
        nothing = useful & (np.diff(table.starts_of(chosen)) == 0)[table.request]
        single = nothing & (price <= (limit - base_cost)[table.request])  # what is counted alone is counted exactly
        why = np.where(place_among(table, single) == 0, 0, why)
        nothing &= (np.diff(table.starts_of(single)) == 0)[table.request]
        first = place_among(table, nothing) == 0
        for number, rule in enumerate(self._rules, 1):
            table = table.exclude(useful & (why == number) & ~first, rule)
        if not first.any():
            return table
        table, cut = cut_to_fit(query, table, resources, first, limit)
        return table.exclude(first & ~cut, self._rules[0])


@dataclass(frozen=True)
class Greedy(_Filling):
    """Offer items by relevance for each token that they cost, as long as they fit into a budget.

    Attributes:
        tokens: of all that the items add to the prompt, as the pipeline's format renders it, and of `reserved`; never
            exceeded. The system prompt, earlier messages and the user's are not counted; what the session holds is.
        reserved: tokens of them that are kept free, for a system prompt; less than `tokens`.
        type_share: once more than `after` items are chosen, none is added of a type that has more than this share of
            them, 0 to 1; null = off.
        after: see `type_share`; >= 0.
        stop_share: once `stop_items` or more fill more than this share of the room that the session leaves, no more
            are looked at, 0 to 1; null = off.
        stop_items: see `stop_share`; >= 1.

    The relevance is the score of the last ranking; what scores 0 or less is left out. Of equally dear ones the better
    ranked is first. What does not fit is left out, and smaller items after it may still be chosen. The type and stop
    rules lose relevance that would fit, 4 to 9% of it on drawn candidates; `knapsack` loses none. Counts of parts do
    not quite add up, so what is chosen is counted whole, and where that is too much, chosen again with so much less
    room. Where nothing fits, the beginning of the best ranked item is shown (document 002 offers all of it, beyond the
    budget). What the session holds is never left out, and does not count as chosen. Empty in, empty out. Cost: each
    item is rendered and counted alone, and what is chosen as a whole. Source: document 002, "Token Optimization
    Engine".
    """

    type_share: float | None = 0.7
    after: int = 5
    stop_share: float | None = 0.9
    stop_items: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("type_share", "stop_share"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 0, 1)
        check_range("after", self.after, 0)
        check_range("stop_items", self.stop_items, 1)

    @property
    def _rules(self) -> tuple[Rule, ...]:
        rules = [Rule.of(NO_ROOM, tokens=self.tokens, reserved=self.reserved)]
        rules.append(Rule.of(TYPE_SHARE, type_share=1.0 if self.type_share is None else self.type_share))
        stop = 1.0 if self.stop_share is None else self.stop_share
        return (*rules, Rule.of(ENOUGH, stop_share=stop, stop_items=self.stop_items))

    def _filled(self, score: FloatArray, price: IntArray, kind: IntArray, room: int) -> IntArray:
        """See `_Filling`."""
        out, spent, types = np.full(len(score), 3, dtype=np.int64), 0, Counter[int]()
        best_first = np.argsort(-(score / np.maximum(price, 1)), kind="stable").tolist()
        costs, kinds = price.tolist(), kind.tolist()
        for row in best_first:
            chosen, item_type = types.total(), kinds[row]
            if spent + costs[row] > room:
                out[row] = 1
            elif self.type_share is not None and chosen > self.after and types[item_type] / chosen > self.type_share:
                out[row] = 2
            else:
                out[row], spent = 0, spent + costs[row]
                types[item_type] += 1
                if self.stop_share is not None and chosen + 1 >= self.stop_items and spent > self.stop_share * room:
                    break
        return out


@dataclass(frozen=True)
class Knapsack(_Filling):
    """Offer the items that are worth most together among all that fit into a budget.

    Attributes:
        tokens: of all that the items add to the prompt, as the pipeline's format renders it, and of `reserved`; never
            exceeded. The system prompt, earlier messages and the user's are not counted; what the session holds is.
        reserved: tokens of them that are kept free, for a system prompt; less than `tokens`.

    The relevance is the score of the last ranking; what scores 0 or less is left out. No other choice has a higher sum
    of scores, by the prices of the items: what each costs alone, with a separator and without a header. Of equal sums
    that of fewer tokens is chosen, then the one that has the better ranked item. Counts of parts do not quite add up,
    so what is chosen is counted whole, and where that is too much, chosen again with so much less room. Where nothing
    fits, the beginning of the best ranked item is shown. What the session holds is never left out. Empty in, empty out.
    Cost: each item is rendered and counted alone; then items times tokens: 0.3 ms for 50 items and 3,500 tokens, 25 ms
    and 3 MB for 200 and 128,000. Source: document 002, "Alternative: Dynamic programming approach"; Bellman, 1957.
    """

    @property
    def _rules(self) -> tuple[Rule, ...]:
        values = {"tokens": self.tokens, "reserved": self.reserved}
        return Rule.of(NO_ROOM, **values), Rule.of(WORTH_LESS, **values)

    def _filled(self, score: FloatArray, price: IntArray, kind: IntArray, room: int) -> IntArray:
        """See `_Filling`."""
        return np.where(best_filling(score, price, room), 0, np.where(price > room, 1, 2))


def best_filling(score: FloatArray, price: IntArray, room: int) -> BoolArray:
    """The items with the highest sum of scores that fit together, by dynamic programming over tokens.

    Args:
        score: shape (n,), above 0 and finite; compared to 2 ** -40 of the highest.
        price: whole numbers >= 0, shape (n,).
        room: how much the prices may be together; below 0 nothing fits.

    Returns:
        True for what is chosen, shape (n,). Of equal sums that with the lowest price; of those again the one that has
        the first item in which they differ.
    """
    out = np.zeros(len(score), dtype=np.bool_)
    fitting = np.flatnonzero(price <= room)
    if not len(fitting):
        return out
    exponent = int(np.frexp(score[fitting].max())[1])
    value = np.maximum(np.rint(np.ldexp(score[fitting], _SCALE - exponent)).astype(np.int64), 1).tolist()
    cost = price[fitting].tolist()
    room = min(room, sum(cost))
    best: IntArray = np.zeros(room + 1, dtype=np.int64)  # the highest sum by the room that there is
    trial, decisions = np.empty_like(best), []
    for worth, tokens in zip(reversed(value), reversed(cost), strict=True):  # so that the first decides last
        added = np.add(best[: room + 1 - tokens], worth, out=trial[: room + 1 - tokens])
        decisions.append(np.packbits(added >= best[tokens:]))
        np.maximum(best[tokens:], added, out=best[tokens:])
    left = int(np.searchsorted(best, best[room]))
    for index, (tokens, bits) in enumerate(zip(cost, reversed(decisions), strict=True)):
        at = left - tokens
        if at >= 0 and bits[at >> 3] >> (7 - (at & 7)) & 1:
            out[fitting[index]], left = True, at
    return out
