"""A check as blocks: what the console and Markdown both render, so that they say the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias

BRIEF_ROWS = 3
MORE = "Metrics, and every item lost and gained with its cause: --verbose, or --markdown FILE."


class Quoted(str):
    """What someone else wrote: an id, or the text of a request. Nothing in it is markup."""

    __slots__ = ()


Cell: TypeAlias = str | tuple[str, ...]
"""A text, or several behind each other; some of them `Quoted`."""


class Weight(IntEnum):
    """How much a row matters: where there is no room, the rows of the highest number go first."""

    VERDICT = 0
    COST = 1
    DETAIL = 2


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; a note explains what tables hold."""

    text: str
    note: bool = False


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """A line to be copied as it is."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts.

    Attributes:
        title: what it is.
        head: one heading a column.
        rows: as many cells each, what matters most first.
        numbers: columns whose cells are numbers.
        weight: how much its rows matter.
        shown: rows that a console shows; 0 = all.
        key: so many columns say what a row is about; where a table is too wide, the others stand below them.
        stacked: too wide for any console.
        joined: where columns stand below each other, they share a paragraph.
        brief: whether it stands in the short form, too: with its first rows.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numbers: frozenset[int] = frozenset()
    weight: Weight = Weight.COST
    shown: int = 0
    key: int = 1
    stacked: bool = False
    joined: bool = False
    brief: bool = False


Block: TypeAlias = Text | Bullets | Code | Table


@dataclass(frozen=True, slots=True)
class Section:
    """What belongs together under a heading."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The report of a check, as blocks.

    Attributes:
        title: the verdict on the whole.
        opening: what concerns all.
        sections: one for each selector on each dataset, what is worst first.
        closing: what to do next.
    """

    title: str
    opening: tuple[Block, ...]
    sections: tuple[Section, ...]
    closing: tuple[Block, ...]

    def brief(self) -> Document:
        """The document without what only explains: of sections their sentences, and the first rows of brief tables."""
        sections = tuple(Section(one.title, tuple(_brief(one.blocks))) for one in self.sections)
        sections = tuple(one for one in sections if one.blocks)
        if sections == self.sections:
            return self
        kept = (one for one in self.closing if not (isinstance(one, Text) and one.note))
        return replace(self, sections=sections, closing=(Text(MORE), *kept))


def _brief(blocks: tuple[Block, ...]) -> Iterator[Block]:
    for block in blocks:
        if not isinstance(block, Table):
            yield block
        elif block.brief:
            yield replace(block, shown=min(block.shown or BRIEF_ROWS, BRIEF_ROWS))
