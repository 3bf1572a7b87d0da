"""A report as blocks, which Markdown and HTML render alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Cell: TypeAlias = str | tuple[str, ...]
"""A text, or several below each other."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of level 2 or below."""

    level: int
    text: str


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


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts.

    Attributes:
        title: what it is, for those who do not see it.
        head: one heading a column.
        rows: as many cells each.
        numbers: columns whose cells are numbers.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numbers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure.

    Attributes:
        name: of its file, without folder and ending; unique in the report.
        title: in few words.
        caption: what to see in it, as sentences.
        svg: the text of its file.
    """

    name: str
    title: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that are shown on demand."""

    title: str
    blocks: tuple[Table | Text | Bullets | Drawing, ...]


Block: TypeAlias = Heading | Text | Bullets | Code | Table | Drawing | Details


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A report.

    Attributes:
        title: of the whole.
        about: one sentence or none.
        blocks: in order.
        answer: what was found, in one sentence.
    """

    title: str
    about: str
    blocks: tuple[Block, ...]
    answer: str = ""

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """All figures in order."""
        inner = [part for block in self.blocks for part in (block.blocks if isinstance(block, Details) else (block,))]
        return tuple(part for part in inner if isinstance(part, Drawing))
