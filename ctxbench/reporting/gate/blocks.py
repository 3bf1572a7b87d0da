"""A check as blocks: what the console and Markdown both render, so that they say the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias


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
    """A paragraph."""

    text: str


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


Block: TypeAlias = Text | Bullets | Code | Table


@dataclass(frozen=True, slots=True)
class Section:
    """What belongs together under a heading."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A check, told.

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
