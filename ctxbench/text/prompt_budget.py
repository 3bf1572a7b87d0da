"""What fits into a budget of tokens, where only the whole text tells: counts of parts do not add up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ctxbench.core.arrays import BoolArray, IntArray, starts
from ctxbench.core.candidates import Candidates, place_among
from ctxbench.core.items import Item
from ctxbench.core.query import Query
from ctxbench.core.shown import between_characters, part_of, text_shown
from ctxbench.core.stages import FORMAT, Resources
from ctxbench.text.chunking.sentences import sentences

BUDGET = "budget"  # the code of the rule that keeps out what does not fit
BUDGET_WORDS = "beyond the budget of tokens={tokens}"


def prompt_tokens(query: Query, table: Candidates, resources: Resources) -> IntArray:
    """Tokens of each request's prompt as the pipeline's format renders a table, shape (n_requests,)."""
    texts = [prompt.texts for prompt in resources.get(FORMAT)(query, table)]
    counts = resources.text_tokens([text for parts in texts for text in parts])
    owner = np.repeat(np.arange(len(texts)), [len(parts) for parts in texts])
    return np.bincount(owner, weights=counts, minlength=len(texts)).astype(np.int64)


class RowPrices(NamedTuple):
    """What some rows add to the prompts of their requests: k of them cost about their prices and k - 1 times `joint`.

    Attributes:
        alone: of each row if it is the only one, >= 0, and 0 for other rows; shape (n,).
        joint: what two rows cost more than each alone, by request: a separator, less a header; shape (n_requests,).
        base_tokens: tokens of each request's prompt without these rows, shape (n_requests,).
    """

    alone: IntArray
    joint: IntArray
    base_tokens: IntArray


def row_prices(query: Query, table: Candidates, resources: Resources, rows: BoolArray) -> RowPrices:
    """The prices of some rows as the pipeline's format renders them; what else is chosen stays in the prompt.

    Args:
        query, table, resources: what is asked, found and used.
        rows: which, shape (n,).
    """
    n = table.n_requests
    stays = [
        np.flatnonzero(table.chosen[table.rows(request)] & ~rows[table.rows(request)]) + table.start[request]
        for request in range(n)
    ]
    priced = [np.flatnonzero(rows[table.rows(request)]) + table.start[request] for request in range(n)]
    # of each request one prompt without these rows, one with each of them, and one with the first two
    added = [[rows_of_request[:0], *rows_of_request[:, None], rows_of_request[:2]] for rows_of_request in priced]
    owner = np.repeat(np.arange(n), [len(variants) for variants in added])
    prompts = [
        np.sort(np.append(stays[request], variant)) for request, variants in enumerate(added) for variant in variants
    ]
    prompt_rows = np.concatenate([np.zeros(0, dtype=np.int64), *prompts])
    one_each = Candidates(
        start=starts([len(prompt) for prompt in prompts]),
        rules=table.rules,
        columns={name: column[prompt_rows] for name, column in table.columns.items()},
        **{name: getattr(table, name)[prompt_rows] for name in table.row_arrays()},
    )
    tokens = prompt_tokens(query.select_requests(owner), one_each, resources)
    first = starts([len(variants) for variants in added])[:-1]
    alone, at = np.zeros(len(table), dtype=np.int64), first[table.request[rows]]
    alone[rows] = np.maximum(tokens[at + 1 + place_among(table, rows)[rows]] - tokens[at], 0)
    joint = np.zeros(n, dtype=np.int64)
    for request in np.flatnonzero([len(request_rows) > 1 for request_rows in priced]).tolist():
        none, first_only, second_only, pair = (
            int(tokens[first[request] + at]) for at in (0, 1, 2, len(priced[request]) + 1)
        )
        joint[request] = pair + none - first_only - second_only
    return RowPrices(alone, joint, tokens[first])


def rendered_fit(
    query: Query, table: Candidates, resources: Resources, rows: BoolArray, *, budget: IntArray, skip: bool = False
) -> BoolArray:
    """True for those of `rows` that fit with all before them, or (skip) with those before them that did.

    Whether they do is told by the prompt of their request as the pipeline's format renders it. What is kept fits; the
    next row would not.

    Args:
        query, table, resources: what is asked, found and used.
        rows: which may be kept, shape (n,); others stay as they are.
        most: tokens that the prompt of each request may have, shape (n_requests,).
        skip: see above.
    """

    def within(offered: BoolArray) -> BoolArray:
        """Whether each request's prompt is within the budget with those of `rows` that are `offered`."""
        return prompt_tokens(query, table.exclude(rows & ~offered, BUDGET), resources) <= budget

    position = place_among(table, rows)
    longest = int(position.max(initial=-1)) + 1
    if skip:
        fits = np.zeros(len(rows), dtype=np.bool_)
        for n in range(longest):
            extended = fits | (position == n)
            fits = np.where(within(extended)[table.request], extended, fits)
        return fits & rows
    low = np.zeros(table.n_requests, dtype=np.int64)
    high = np.full(table.n_requests, longest, dtype=np.int64)
    while (low < high).any():  # the prompts of all requests at once
        middle = np.minimum((low + high + 1) // 2, 2 * low + 1)  # what is far too much is not rendered
        fitting = within(rows & (position < middle[table.request]))
        low, high = np.where(fitting, middle, low), np.where(fitting, high, middle - 1)
    return rows & (position < low[table.request])


def cut_to_fit(
    query: Query, table: Candidates, resources: Resources, rows: BoolArray, budget: IntArray
) -> tuple[Candidates, BoolArray]:
    """Show the longest beginning of some rows with which the prompt of their request has at most `most` tokens.

    Args:
        query, table, resources: what is asked, found and used.
        rows: at most one a request, shape (n,).
        most: shape (n_requests,).

    Returns:
        The table, and which rows are cut; of the others not one character fits.
    """
    at = np.flatnonzero(rows)
    items: list[Item] = [query.batch.catalog[item] for item in table.item[at].tolist()]
    parts = [part_of(table, row) or (0, len(item.prompt_text)) for row, item in zip(at.tolist(), items, strict=True)]
    start = np.array([part[0] for part in parts], dtype=np.int64)
    cut_positions = [
        iter(([], [], [])) if item.type == "tool" else cut_places(item.prompt_text, *part, sentence=True)
        for item, part in zip(items, parts, strict=True)
    ]
    end = np.zeros(len(at), dtype=np.int64)
    for _ in range(3):  # sentences, words, characters
        ends = [
            np.array([] if is_whole else next(cuts), dtype=np.int64)
            for cuts, is_whole in zip(cut_positions, end, strict=True)
        ]
        low, high = np.zeros(len(at), dtype=np.int64), np.array([len(cuts) for cuts in ends], dtype=np.int64)
        while (trying := low < high).any():  # the prompts of all requests at once
            middle = np.minimum((low + high + 1) // 2, 2 * low + 64)  # what is far too long is not counted
            tried = np.array([ends[i][middle[i] - 1] for i in np.flatnonzero(trying)], dtype=np.int64)
            is_tried = np.isin(np.arange(len(rows)), at[trying])
            attempt = table.exclude(rows & ~is_tried, BUDGET).showing(
                is_tried, start[trying], tried, np.zeros_like(tried)
            )
            fits = (prompt_tokens(query, attempt, resources) <= budget)[table.request[at]]
            low, high = np.where(trying & fits, middle, low), np.where(trying & ~fits, middle - 1, high)
        end = np.array([cuts[n - 1] if n else old for cuts, n, old in zip(ends, low, end, strict=True)], dtype=np.int64)
    cut = np.isin(np.arange(len(rows)), at[end > 0])
    texts = [text_shown(items[i], (int(start[i]), int(end[i]))) for i in np.flatnonzero(end)]
    return table.showing(cut, start[end > 0], end[end > 0], resources.text_tokens(texts)), cut


def cut_places(text: str, start: int, end: int, *, sentence: bool) -> Iterator[list[int]]:
    """Where a part of a text may be cut short: places that rise, in lists of which the later are for need.

    Ends of sentences (if asked for), ends of words, ends of the characters of the first word. Each list is made when
    it is asked for.
    """
    if sentence:
        ends = [stop for _, stop in sentences(text, start, end)]
        yield [n for n in ends if start < n < end and between_characters(text, n)]
    words = [n for n in range(start + 1, end) if text[n].isspace() and not text[n - 1].isspace()]
    words = [n for n in words if between_characters(text, n)]
    yield words
    first = words[0] if words else end
    yield [n for n in range(start + 1, first) if between_characters(text, n)]
