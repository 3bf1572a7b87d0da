"""What is shown: the part of an item's prompt text that the model is sent."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from ctxbench.core.arrays import BoolArray, IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog, Item

MARK = "…"
"""Stands where a text was cut, apart by a blank; it is sent and counted with the part."""

_JOINER = "\u200d"  # zero-width: makes one character of those beside it
_SELECTORS = range(0xFE00, 0xFE10)  # variation selectors belong to the character before
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_FLAGS = range(0x1F1E6, 0x1F200)  # regional indicators: two of them are one flag


def text_shown(item: Item, span: tuple[int, int] | None) -> str:
    """What the model is sent of an item.

    Args:
        item: the item.
        shown: the part of its prompt text, `[from, to)` in characters; None = all.

    Returns:
        The prompt text, or the part with `MARK` at each end that was cut.

    Raises:
        ParameterError: there is no such part; see `validate_span`.
    """
    text = item.prompt_text
    if span is None:
        return text
    validate_span(item, span)
    start, end = span
    return f"{MARK + ' ' if start else ''}{text[start:end]}{' ' + MARK if end < len(text) else ''}"


def validate_span(item: Item, span: tuple[int, int]) -> None:
    """Refuse a part that an item's prompt text does not have.

    Raises:
        ParameterError: the part is empty, ends outside the text or within a character, or is of a tool, whose
            definition is sent whole or not at all.
    """
    text, (start, end) = item.prompt_text, span
    if not 0 <= start < end <= len(text):
        raise ParameterError(f"shows characters {start} to {end} of {item.id}, whose prompt text has {len(text):,}")
    if item.type == "tool" and (start, end) != (0, len(text)):
        raise ParameterError(f"shows characters {start} to {end} of {item.id}; a tool is sent whole, or not at all")
    for position in (start, end):
        if not between_characters(text, position):
            where = f"within the character {text[max(position - 1, 0) : position + 1]!r}"
            raise ParameterError(f"shows {item.id} from {start} to {end}, but {position} lies {where}; end between two")


def between_characters(text: str, position: int) -> bool:
    """Whether a text may be cut before `text[place]`: no character, as a reader sees them, lies on both sides.

    Accents and vowel signs, joined emoji, skin tones, flags and `CR LF` stay whole. The two ends are fine.
    """
    if not 0 < position < len(text):
        return True
    before, after = text[position - 1], text[position]
    if before.isascii() and after.isascii():
        return (before, after) != ("\r", "\n")
    if unicodedata.category(after).startswith("M") or ord(after) in _SELECTORS or ord(after) in _SKIN_TONES:
        return False
    if _JOINER in (before, after):
        return False
    if ord(before) in _FLAGS and ord(after) in _FLAGS:
        first = position - 1
        while first > 0 and ord(text[first - 1]) in _FLAGS:
            first -= 1
        return (position - first) % 2 == 0
    return True


def part_of(table: Candidates, row: int) -> tuple[int, int] | None:
    """What a row shows of its item's prompt text, `[from, to)`; None = all."""
    end = int(table.shown_to[row])
    return None if end < 0 else (int(table.shown_from[row]), end)


def part_text(item: Item, part: tuple[int, int] | None) -> str:
    """A part of an item's prompt text by itself, without `MARK`; None = all."""
    return item.prompt_text if part is None else item.prompt_text[slice(*part)]


def holding(catalog: Catalog, table: Candidates, rows: IntArray, quotes: Sequence[str]) -> BoolArray:
    """Whether rows that show a part show enough of it.

    Args:
        catalog: that of the table.
        table: candidates.
        rows: places in it, shape (n,).
        quotes: for each what has to be shown; empty = the whole text.

    Returns:
        Shape (n,): True where the quote, or the whole text, lies within what is shown.
    """
    enough = np.ones(len(rows), dtype=np.bool_)
    for index, (row, quote) in enumerate(zip(rows.tolist(), quotes, strict=True)):
        part = part_of(table, row)
        if part is not None:
            text = catalog[int(table.item[row])].prompt_text
            enough[index] = quoted(text[slice(*part)], quote) if quote else part == (0, len(text))
    return enough


def quoted(text: str, quote: str) -> bool:
    """Whether a text holds a quote, word for word; blanks and line ends are all one."""
    return re.search(r"\s+".join(map(re.escape, quote.split())), text) is not None
