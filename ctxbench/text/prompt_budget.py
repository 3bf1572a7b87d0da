"""What fits into a budget of tokens, where only the whole text tells: counts of parts do not add up."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ctxbench.core.arrays import BoolArray, IntArray
from ctxbench.core.candidates import Candidates, place_among
from ctxbench.core.query import Query
from ctxbench.core.shown import between_characters
from ctxbench.core.stages import FORMAT, Resources
from ctxbench.text.chunking.sentences import sentences

BUDGET = "budget"  # the code of the rule that keeps out what does not fit
BUDGET_WORDS = "beyond the budget of tokens={tokens}"


def prompt_tokens(query: Query, table: Candidates, resources: Resources) -> IntArray:
    """Tokens of each request's prompt as the pipeline's format renders a table, shape (n_requests,)."""
    texts = [prompt.texts for prompt in resources.get(FORMAT)(query, table)]
    counts = resources.text_tokens([text for one in texts for text in one])
    owner = np.repeat(np.arange(len(texts)), [len(one) for one in texts])
    return np.bincount(owner, weights=counts, minlength=len(texts)).astype(np.int64)


def rendered_fit(
    query: Query, table: Candidates, resources: Resources, rows: BoolArray, *, most: IntArray, skip: bool = False
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

    def within(kept: BoolArray) -> BoolArray:
        """Whether each request's prompt is within the budget with those of `rows` that are `kept`."""
        return prompt_tokens(query, table.marked(rows & ~kept, BUDGET), resources) <= most

    place = place_among(table, rows)
    longest = int(place.max(initial=-1)) + 1
    if skip:
        fits = np.zeros(len(rows), dtype=np.bool_)
        for n in range(longest):
            more = fits | (place == n)
            fits = np.where(within(more)[table.request], more, fits)
        return fits & rows
    low = np.zeros(table.n_requests, dtype=np.int64)
    high = np.full(table.n_requests, longest, dtype=np.int64)
    while (low < high).any():  # the prompts of all requests at once
        middle = np.minimum((low + high + 1) // 2, 2 * low + 1)  # what is far too much is not rendered
        fitting = within(rows & (place < middle[table.request]))
        low, high = np.where(fitting, middle, low), np.where(fitting, high, middle - 1)
    return rows & (place < low[table.request])


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
