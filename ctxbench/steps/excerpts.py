"""Excerpts: of a long text the window that says most about the request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ctxbench.core.arrays import BoolArray, IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import check_choice, check_range
from ctxbench.core.items import ITEM_TYPES, Item
from ctxbench.core.query import Query
from ctxbench.core.shown import between_characters, text_shown
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy
from ctxbench.index.words import asked_words, stem

MATCHES = "excerpts.matches"
"""Column: how many times a word of the request occurs in what a row shows."""


@dataclass(frozen=True)
class Excerpts(Strategy):
    """Show of long items one window: the one with the most of the request's words.

    Attributes:
        characters: of a window, at most; 1 or more.
        index: how words match: `fts5` or `postgres` (`ctxbench/index/text_index.py`).
        types: of which items an excerpt may be shown; a tool is always sent whole.

    The words are the request's keywords where the analysis makes any, else those of its text without common English
    ones. The window with the most different words is shown, of equal ones that with the most matches, then the
    earliest; what is left of it lies evenly around the matches. It begins and ends between words, or between characters
    where a word is longer. Without a match the first `characters` are shown. The column `excerpts.matches` says how
    many matches what is shown holds, of short items, too. What another step shows a part of, and what is left out,
    stays as it is. What the session holds is cut, too. Empty in, empty out. Cost: the matches of each text. Source:
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
        """The token counts, and the index that says what matches."""
        return "tokens", f"text_index:{self.index}"

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Show windows of what is too long."""
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
