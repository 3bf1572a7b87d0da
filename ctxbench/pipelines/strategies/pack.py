"""Pack items into a token budget: greedy, knapsack, truncated, excerpts or outlines."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

import numpy as np

from ctxbench.io.errors import ParameterError, check_choice, check_range
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.model.candidates import (
    Candidates,
    Mode,
    Origin,
    Rule,
    add_expanded,
    between_characters,
    place_among,
    text_shown,
)
from ctxbench.model.items import ITEM_TYPES, Catalog, Item
from ctxbench.model.requests import Query
from ctxbench.model.resources import FORMAT, Resources
from ctxbench.model.selection import with_values
from ctxbench.model.strategies import Strategy
from ctxbench.search.code_index import item_paths
from ctxbench.search.tokens import BUDGET, BUDGET_WORDS, cut_places, cut_to_fit, prompt_tokens, rendered_fit, row_prices
from ctxbench.search.words import asked_words, stem

TOO_LONG = "too_long"  # the code of the rule for an item of which no part fits


@dataclass(frozen=True)
class Budget(Strategy):
    """Offer items in order as long as their shown text fits into a token budget.

    Attributes:
        tokens: of all items offered for a request together, >= 0; never exceeded by what is added.
        skip: True: an item that does not fit is left out and smaller ones after it may still be offered; False: it
            ends the list.
        session: whether what the session holds is counted too. It is never left out: a session beyond the budget
            leaves nothing for others.
        frame: whether the whole prompt is counted, as the pipeline's format renders it: system prompt, earlier
            messages, what the session holds and the user's message, too. Where these alone are beyond the budget,
            nothing is added.

    Items that a search found and that an expansion added count alike. Tokens are those of the counter that the
    run's tables name. Empty in, empty out. Cost: linear in the candidates, and
    counting the tokens of the catalog once; with `frame` the prompt is rendered for the logarithm of the candidates,
    with `skip` for each of them. Source: the specification, "Context Window Management"; first fit in the
    order given (greedy; no search for the best filling).
    """

    tokens: int = 2000
    skip: bool = False
    session: bool = False
    frame: bool = False
    swept: ClassVar[Mapping[str, tuple[float, float]]] = {"tokens": (1, 20_000)}
    rule_words: ClassVar[Mapping[str, str]] = {BUDGET: BUDGET_WORDS}

    def __post_init__(self) -> None:
        check_range("tokens", self.tokens, 0)
        if self.frame and self.session:
            raise ParameterError("frame counts what the session holds, too; leave session out")

    @property
    def uses(self) -> tuple[str, ...]:
        """The token counts, and the pipeline's format where the whole prompt is counted."""
        return ("tokens", FORMAT) if self.frame else ("tokens",)

    @property
    def replay(self) -> str:
        """What a prompt costs with its frame is not stored."""
        return "" if self.frame else "rank"

    @classmethod
    def family_behind(cls, before: Any, written: Mapping[str, Any], reader: Any) -> Any | None:
        """Every budget, if it ends the list at the first item that does not fit and counts nothing else."""
        if any(reader.value(written.get(name)) for name in ("skip", "session", "frame")):
            return None
        return reader.within_budget(before, written.get("tokens", cls.tokens))

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude what does not fit."""
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

    Tools are sent whole or not at all, so they are unchanged, as is what another step shows a part of. Of a
    text whose first word is too long its first characters are shown; where not one fits, the item stays out. Each item
    is cut alike for every request, so the step may be anywhere. What the session holds is cut, too. Empty in, empty
    out. Cost: the tokens of some ten beginnings an item that is too long. Source: the specification, "Token Optimizer".
    """

    tokens: int = 400
    uses: ClassVar[tuple[str, ...]] = ("tokens",)
    itemwise: ClassVar[bool] = True
    rule_words: ClassVar[Mapping[str, str]] = {TOO_LONG: "not one character of it fits into tokens={tokens}"}
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {"tokens": (1, math.inf)}

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Show the beginnings of items that are too long."""
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

    @cache
    def tokens_to(end: int) -> int:
        return int(resources.text_tokens([text_shown(item, (0, end))])[0])

    for ends in cut_places(item.prompt_text, 0, len(item.prompt_text), sentence=False):
        if n_fitting := bisect_right(ends, limit, key=tokens_to):
            return ends[n_fitting - 1], tokens_to(ends[n_fitting - 1])
    return 0, 0


def _prefix(table: Candidates, rows: BoolArray, cost: IntArray, left: IntArray) -> BoolArray:
    """True for those of `rows` that, with all earlier rows of their request, fit into `left` tokens."""
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
class _Filling(Strategy, ABC):
    """What `Greedy` and `Knapsack` share: token counts, and the budget of the rendered prompt.

    What is chosen by prices is counted whole; where that is too much, the room shrinks by what is over, and is filled
    anew.
    """

    tokens: int = 4000
    reserved: int = 500
    uses: ClassVar[tuple[str, ...]] = ("tokens", FORMAT)
    rule_words: ClassVar[Mapping[str, str]] = _WORDS
    limits: ClassVar[Mapping[str, tuple[float, float]]] = dict.fromkeys(("tokens", "reserved"), (0, math.inf))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reserved >= self.tokens:
            raise ParameterError(
                f"reserved ({self.reserved}) must be less than tokens ({self.tokens}); nothing is left for items"
            )

    @property
    @abstractmethod
    def _rules(self) -> tuple[Rule, ...]:
        """Why a row is out: those that `_filled` counts from 1."""

    @abstractmethod
    def _filled(self, score: FloatArray, price: IntArray, kind: IntArray, room: int) -> IntArray:
        """Which items of a request are chosen.

        Args:
            score: in the one order, above 0, shape (n,).
            price: tokens of each, >= 0.
            kind: a number for the type of each.
            room: tokens of all that are chosen; below 0 nothing is.

        Returns:
            Shape (n,): 0 = chosen, else which of `_rules` excludes it, from 1.
        """

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude items that are not chosen; if none fits, show a part of the best."""
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
        return cut_to_fit(query, table, resources, first, limit, self._rules[0])


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
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {
        **_Filling.limits,
        "type_share": (0, 1),
        "stop_share": (0, 1),
        "after": (0, math.inf),
        "stop_items": (1, math.inf),
    }

    @property
    def _rules(self) -> tuple[Rule, ...]:
        type_share, stop_share = (1.0 if share is None else share for share in (self.type_share, self.stop_share))
        return (
            Rule.of(NO_ROOM, tokens=self.tokens, reserved=self.reserved),
            Rule.of(TYPE_SHARE, type_share=type_share),
            Rule.of(ENOUGH, stop_share=stop_share, stop_items=self.stop_items),
        )

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


MATCHES = "excerpts.matches"
"""Column: how many times a word of the request occurs in what a row shows."""


@dataclass(frozen=True)
class Excerpts(Strategy):
    """Show of long items one window: the one with the most of the request's words.

    Attributes:
        characters: of a window, at most; 1 or more.
        index: how words match: `fts5` or `postgres` (`ctxbench/search/words.py`).
        types: of which items an excerpt may be shown; a tool is always sent whole.

    The words are the request's keywords where the analysis makes any, else those of its text without common English
    ones. The window with the most different words is shown, of equal ones that with the most matches, then the
    earliest; what is left of it lies evenly around the matches. It begins and ends between words, or between characters
    where a word is longer. Without a match the first `characters` are shown. The column `excerpts.matches` says how
    many matches what is shown holds, of short items, too. What another step shows a part of, and what is left out,
    stays unchanged. What the session holds is cut, too. Empty in, empty out. Cost: the matches of each text. Source:
    document 002 (`ts_headline`, else the first 500 characters); the choice of the window is ours.
    """

    characters: int = 500
    index: Literal["fts5", "postgres"] = "fts5"
    types: tuple[str, ...] = ("file",)

    def __post_init__(self) -> None:
        check_range("characters", self.characters, 1)
        for kind in self.types:
            check_choice("types", kind, [item_type for item_type in ITEM_TYPES if item_type != "tool"])

    @property
    def uses(self) -> tuple[str, ...]:
        """The token counts, and the text index that finds matches."""
        return "tokens", f"text_index:{self.index}"

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Show windows of items that are too long."""
        catalog = query.batch.catalog
        of_types = catalog.facts.type.are_any(self.types)[candidates.item]
        rows = np.flatnonzero(candidates.chosen & candidates.shows_all & of_types)
        items: list[Item] = [catalog[item] for item in candidates.item[rows].tolist()]
        matches, windows = np.full(len(candidates), np.nan), {}
        for row, item, marks in zip(rows.tolist(), items, self._marks(query, candidates, rows, resources), strict=True):
            text = item.prompt_text
            part = (0, len(text)) if len(text) <= self.characters else window(text, marks, self.characters)
            matches[row] = sum(part[0] <= start and end <= part[1] for start, end in marks)
            if part != (0, len(text)):
                windows[row] = part
        cut: BoolArray = np.isin(np.arange(len(candidates)), list(windows))
        spans = np.array(list(windows.values()), dtype=np.int64).reshape(-1, 2)
        texts = [text_shown(catalog[int(candidates.item[row])], part) for row, part in windows.items()]
        tokens = resources.text_tokens(texts) if texts else np.zeros(0, dtype=np.int64)
        return candidates.showing(cut, spans[:, 0], spans[:, 1], tokens).with_columns(**{MATCHES: matches})

    def _marks(
        self, query: Query, table: Candidates, rows: IntArray, resources: Resources
    ) -> Iterator[list[tuple[int, int]]]:
        """Where the words of their requests occur in the texts of some rows, which rise."""
        index = resources.get(f"text_index:{self.index}")
        for request in range(table.n_requests):
            request_rows = rows[
                np.searchsorted(rows, table.start[request]) : np.searchsorted(rows, table.start[request + 1])
            ]
            texts = [query.batch.catalog[item].prompt_text for item in table.item[request_rows].tolist()]
            yield from index.marks(texts, asked_words(query, request)) if texts else ()


def window(text: str, marks: Sequence[tuple[int, int]], size: int) -> tuple[int, int]:
    """The part of a text with the most different marked words, then the most marks, then the earliest.

    Args:
        text: longer than `size`.
        marks: where words match, `[from, to)`, rising; words of one stem count as one.
        size: characters of the part, at most.

    Returns:
        `[from, to)`, as close to `size` as words allow; the beginning where no mark fits. All of the text where it
        cannot be cut: its first character, as a reader sees it, is longer than that.
    """
    word = [stem(text[start:end].casefold()) for start, end in marks]
    best, counts, last = (0, 0), Counter[str](), 0
    first, end = 0, 0  # what the best window must hold
    for index, (start, _) in enumerate(marks):
        while last < len(marks) and marks[last][1] - start <= size:
            counts[word[last]] += 1
            last += 1
        if last <= index:  # a mark longer than the window
            last = index + 1
            continue
        if (matches := (len(counts), last - index)) > best:
            best, first, end = matches, start, marks[last - 1][1]
        counts[word[index]] -= 1
        if not counts[word[index]]:
            del counts[word[index]]
    start = min(max(first - (size - (end - first)) // 2, 0), len(text) - size) if end else 0
    return _between_words(text, start, size, (first, end) if end else (size, 0))


def _between_words(text: str, start: int, size: int, span: tuple[int, int]) -> tuple[int, int]:
    """A part from `start` or later that begins and ends between words, else between characters, and includes `span`."""
    low = next((n for n in range(start, span[0] + 1) if not start or _begins(text, n)), None)
    if low is None:
        low = next((n for n in range(start, start + size) if between_characters(text, n)), start + size)
    end = min(low + size, len(text))
    high = next((n for n in range(end, max(span[1] - 1, low), -1) if n == len(text) or _ends(text, n)), None)
    if high is None:
        high = next((n for n in range(end, low, -1) if between_characters(text, n)), low)
    return (low, high) if low < high else (0, len(text))


def _begins(text: str, n: int) -> bool:
    """Whether a word begins there."""
    return text[n - 1].isspace() and not text[n].isspace() and between_characters(text, n)


def _ends(text: str, n: int) -> bool:
    """Whether a word ends there."""
    return text[n].isspace() and not text[n - 1].isspace() and between_characters(text, n)


SHARE = "whole_file.share"
"""Column of what was added: how much of its file's definitions, by tokens, was chosen before it."""
OUTLINED = "outlined"  # the code of the rule for an item that its file's outline stands for


@dataclass(frozen=True)
class WholeFile(Strategy):
    """Offer items as long as they fit, and the rest of a file once enough of its definitions is chosen.

    Attributes:
        tokens: of all items offered for a request together, those of the session aside, >= 0; never exceeded.
        share: once so much of a file's definitions is chosen, by tokens, the rest of them come in; above 0, to 1, which
            brings nothing in.
        per_token: items are taken in the order of score / tokens ** per_token, 0 to 1: with 0 in the one order, with 1
            by score for each token. What has no score above 0 comes last.

    What does not fit is left out, and smaller items after it may still be offered. Definitions are the chunks of a
    path; the rest of a file comes in all together, behind the one with which the share is reached (`via_item`), or not
    at all where it does not fit then. It may hold what no search found, or a cut left out. Its score is that of the one
    before it, the column `whole_file.share` the share that was reached. Scores and order stay unchanged. In a catalog
    of whole files nothing is added. Empty in, empty out. Cost: a sort of the candidates and of the chunks that a
    request sees. Source: document 003, "Token Budget Manager" and "Minimal Expansion"; the share is ours.
    """

    tokens: int = 8000
    share: float = 0.5
    per_token: float = 0.0
    uses: ClassVar[tuple[str, ...]] = ("tokens",)
    expands: ClassVar[bool] = True
    rule_words: ClassVar[Mapping[str, str]] = {BUDGET: BUDGET_WORDS}

    def __post_init__(self) -> None:
        check_range("tokens", self.tokens, 0)
        check_range("per_token", self.per_token, 0.0, 1.0)
        if not 0 < self.share <= 1:
            raise ParameterError(f"share must be above 0, to 1, got {self.share}")

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Exclude what does not fit, and add the rest of files."""
        catalog = query.batch.catalog
        path = item_paths(catalog, resources).path.code
        price = _prices(catalog, path, candidates, resources, with_siblings=self.share < 1)
        chunk, walks, shares = catalog.facts.type.are("chunk") & (path >= 0), [], []
        for walk in _walks(self, candidates, price):
            eligible, completed = query.batch.eligible[walk.request], set[int]()
            bodies = np.flatnonzero(chunk & query.batch.visible[walk.request])
            codes = path[bodies]
            for row, item in walk.rows():
                file = int(path[item])
                if not walk.take([item], row) or not chunk[item] or file in completed or self.share == 1:
                    continue
                definitions = bodies[codes == file].tolist()
                offered = [body for body in definitions if walk.offers(body)]
                reached = int(price[offered].sum()) / max(int(price[definitions].sum()), 1)
                if reached >= self.share:
                    completed.add(file)  # what does not fit now does not later
                    before = len(walk.added)
                    walk.take([body for body in definitions if eligible[body] and not walk.offers(body)], row)
                    shares += [reached] * (len(walk.added) - before)
            walks.append(walk)
        table = candidates.exclude(~_kept_rows(candidates, walks), Rule.of(BUDGET, tokens=self.tokens))
        return _with_added(table, walks, {SHARE: np.array(shares, dtype=np.float64)})


@dataclass(frozen=True)
class Outline(Strategy):
    """Offer the best items whole, and the outline of the file for lower items and those that do not fit.

    Attributes:
        tokens: of all that is offered for a request, that of the session aside, >= 0; never exceeded.
        n: so many items may be whole, >= 0.
        per_token: as of `whole_file`; the places of `n` are in that order.

    The outline of a chunk is the item of type `file` at its path, where the request sees one: it comes in for the first
    chunk that it stands for (`via_item`), with its score, once per file. Of a whole file the head is shown: what stands
    before its first definition, such as path, documentation and imports. What has no outline, as outlines themselves,
    stays whole, if it fits; what a step before shows a part of stays so. What neither itself nor as an outline fits is
    left out, and smaller items after it may still be offered. Scores and order stay unchanged. Empty in, empty out.
    Cost: a sort; whole files that are cut are parsed once. Source: document 003, `summarize_if_needed`.
    """

    tokens: int = 8000
    n: int = 20
    per_token: float = 0.0
    uses: ClassVar[tuple[str, ...]] = ("tokens",)
    expands: ClassVar[bool] = True
    rule_words: ClassVar[Mapping[str, str]] = {
        BUDGET: BUDGET_WORDS,
        OUTLINED: "its file's outline stands for it, as it is beyond the first n={n}, or too long for tokens={tokens}",
    }
    limits: ClassVar[Mapping[str, tuple[float, float]]] = {
        "tokens": (0, math.inf),
        "n": (0, math.inf),
        "per_token": (0.0, 1.0),
    }

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Offer whole items and outlines as far as they fit."""
        catalog = query.batch.catalog
        paths = item_paths(catalog, resources).path
        price = _prices(catalog, paths.code, candidates, resources)
        file, chunk = (catalog.facts.type.are(kind) & (paths.code >= 0) for kind in ("file", "chunk"))
        outlined, heads, walks = np.zeros(len(candidates), dtype=np.bool_), dict[int, tuple[int, int]](), []

        @cache
        def head_of(item: int) -> tuple[int, int]:
            """Where the head of a whole file ends, and what it costs; 0, 0 = it has none."""
            end = _head_end(catalog[item], paths.names[paths.code[item]])
            return (end, int(resources.text_tokens([text_shown(catalog[item], (0, end))])[0])) if end else (0, 0)

        for walk in _walks(self, candidates, price):
            visible, eligible = query.batch.visible[walk.request], query.batch.eligible[walk.request]
            outlines = {int(paths.code[index]): index for index in np.flatnonzero(file & visible).tolist()}
            parted = set(np.unique(paths.code[chunk & visible]).tolist())
            for rank, (row, item) in enumerate(walk.rows()):
                path = int(paths.code[item])
                outline = outlines.get(path, -1) if chunk[item] else -1
                is_whole = file[item] and path not in parted and bool(candidates.shows_all[row])
                if (rank < self.n or not (outline >= 0 or (is_whole and head_of(item)[0]))) and walk.take([item], row):
                    continue
                if outline >= 0:
                    outlined[row] = walk.offers(outline) or (bool(eligible[outline]) and walk.take([outline], row))
                elif is_whole and head_of(item)[0] and walk.take([item], row, tokens=head_of(item)[1]):
                    heads[row] = head_of(item)
            walks.append(walk)
        table = candidates.exclude(outlined, Rule.of(OUTLINED, n=self.n, tokens=self.tokens))
        table = table.exclude(~_kept_rows(candidates, walks), Rule.of(BUDGET, tokens=self.tokens))
        head_spans = np.array([heads[row] for row in sorted(heads)], dtype=np.int64).reshape(-1, 2)
        headed = np.isin(np.arange(len(table)), list(heads))
        table = table.showing(headed, np.zeros(len(head_spans), dtype=np.int64), head_spans[:, 0], head_spans[:, 1])
        return _with_added(table, walks, {})


class _Walk:
    """The items offered to one request while its chosen rows are walked down, and the rest of the budget.

    Attributes:
        request: which.
        added: items without a chosen row, and the row that each came in behind.
        kept: rows that are offered.
    """

    def __init__(self, table: Candidates, request: int, rows: list[int], *, cost: IntArray, price: IntArray) -> None:
        span = table.rows(request)
        self.request, self.added, self.kept, self.left = request, list[tuple[int, int]](), set[int](), 0
        self._rows, self._free, self._cost, self._price = rows, set(rows), cost, price
        self._row = dict(zip(table.item[span].tolist(), range(span.start, span.stop), strict=True))
        self._offered = set(table.item[span][table.origin[span] == Origin.SESSION].tolist())
        self._items = table.item

    def rows(self) -> Iterator[tuple[int, int]]:
        """Each row that is not offered yet when its turn comes, and its item."""
        yield from ((row, int(self._items[row])) for row in self._rows if row not in self.kept)

    def offers(self, item: int) -> bool:
        """Whether an item is offered, or held by the session."""
        return item in self._offered

    def take(self, items: Sequence[int], row: int, *, tokens: int | None = None) -> bool:
        """Offer items behind a row, all together, if they fit; whether they do.

        Args:
            items: not offered yet.
            row: the one that leads to them.
            tokens: what they cost, in place of their prices.
        """
        rows = [self._row.get(item, -1) for item in items]
        costs = [self._cost[at] if at >= 0 else self._price[item] for item, at in zip(items, rows, strict=True)]
        spent = int(sum(costs)) if tokens is None else tokens
        if spent > self.left:
            return False
        self.left -= spent
        self._offered.update(items)
        self.kept.update(at for at in rows if at in self._free)
        self.added += [(item, row) for item, at in zip(items, rows, strict=True) if at not in self._free]
        return True


def _prices(
    catalog: Catalog, path: IntArray, candidates: Candidates, resources: Resources, *, with_siblings: bool = True
) -> IntArray:
    """Prompt tokens of chosen items; with `with_siblings`, also of other items of their files; shape (n_items,)."""
    items = candidates.item[candidates.chosen]
    if with_siblings:
        in_files = np.zeros(int(path.max(initial=-1)) + 2, dtype=np.bool_)
        in_files[path[items]] = True
        in_files[-1] = False  # what is in no file
        items = np.concatenate([items, np.flatnonzero(in_files[path])])
    return resources.tokens(catalog, items)


def _walks(step: WholeFile | Outline, table: Candidates, price: IntArray) -> Iterator[_Walk]:
    """A walk for each request with chosen rows, those of the session aside, in the order of `per_token`."""
    cost, rows = table.prices(price), np.flatnonzero(table.chosen & (table.origin != Origin.SESSION))
    if step.per_token:
        # one by one: the same bits anywhere
        divisor = np.array([max(tokens, 1) ** step.per_token for tokens in cost[rows].tolist()], dtype=np.float64)
        value = np.where(table.score[rows] > 0, table.score[rows] / divisor, table.score[rows])
        rows = rows[np.lexsort((rows, -value, table.tier[rows], table.request[rows]))]
    request = table.request[rows]
    for number in np.unique(request).tolist():
        walk = _Walk(table, number, rows[request == number].tolist(), cost=cost, price=price)
        walk.left = step.tokens
        yield walk


def _kept_rows(table: Candidates, walks: Sequence[_Walk]) -> BoolArray:
    """The rows that are offered, and those that no walk decides on."""
    mask: BoolArray = ~table.chosen | (table.origin == Origin.SESSION)
    mask[[row for walk in walks for row in walk.kept]] = True
    return mask


def _with_added(table: Candidates, walks: Sequence[_Walk], columns: Mapping[str, FloatArray]) -> Candidates:
    """The table with what the walks add, and columns of that."""
    rows = [(walk.request, item, row) for walk in walks for item, row in walk.added]
    request, item, row = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    constants = {"origin": Origin.EXPANSION, "mode": Mode.EXPANSION}
    filled = {name: np.full(len(item), int(value), dtype=np.int64) for name, value in constants.items()}
    extended = add_expanded(table, request, item, score=table.score[row], via_item=table.item[row], **filled)
    return with_values(extended, request, item, columns)


def _head_end(item: Item, path: str) -> int:
    """The start of a file's first definition in its prompt text; 0 without a definition, or if it comes first."""
    from ctxbench.search.code_facts import code_facts  # grammars wait until a head is asked for

    text, front = item.prompt_text, f"{path}\n\n"
    start = len(front) if text.startswith(front) else 0
    definitions = code_facts(path, text[start:]).definitions
    if not definitions:
        return 0
    end = text.rfind("\n", 0, start + definitions[0].start) + 1
    return end if text[start:end].strip() and between_characters(text, end) else 0
