"""A report as a document made of blocks, which the console, Markdown and a page all render, so that they say the same.

Each form has one writer for any document: `document_console`, `document_markdown` and `document_page`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from enum import IntEnum
from typing import TypeAlias

BRIEF_ROWS = 3


class Quoted(str):
    """What someone else wrote: an id, or the text of a request. Nothing in it is markup."""

    __slots__ = ()


Cell: TypeAlias = str | tuple[str, ...]
"""A text, or several: an id with its text, both `Quoted`, or parts of one figure."""


class Weight(IntEnum):
    """How much a row matters: without room, the rows of the highest number are left out first."""

    VERDICT = 0
    COST = 1
    DETAIL = 2


@dataclass(frozen=True, slots=True)
class Subheading:
    """A heading inside a section."""

    text: str


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


@dataclass(frozen=True, slots=True)
class Table:
    """A table of texts.

    Attributes:
        title: what it is.
        head: one heading a column.
        rows: as many cells each, what matters most first.
        numbers: columns whose cells are numbers.
        weight: how much its rows matter; details are folded.
        n_shown: how many rows a console shows; 0 = all.
        key: so many columns say what a row is about; where a table is too wide, the others stand below them.
        stacked: too wide for any console.
        joined: where columns stand below each other, they share a paragraph.
        brief: whether it stands in the short form, too: with its first rows.
        skip_repeated: whether the short form leaves out rows whose first cell stands in an earlier section's table.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numbers: frozenset[int] = frozenset()
    _: KW_ONLY
    weight: Weight = Weight.COST
    n_shown: int = 0
    key: int = 1
    stacked: bool = False
    joined: bool = False
    brief: bool = False
    skip_repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure.

    Attributes:
        name: of its file, without folder and ending; unique in the document.
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


Block: TypeAlias = Subheading | Text | Bullets | Code | Table | Drawing | Details


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A report as blocks.

    Attributes:
        title: of the whole.
        answer: what was found, in one sentence; may be empty.
        about: what it is about, in one sentence; may be empty.
        opening: what concerns all.
        sections: the parts, what matters most first.
        closing: what to do next.
        kicker: what made it, for example `ctxbench check`.
        level: of its title in Markdown: 1 on a page of its own; deeper, the kicker stands before the title.
        table_titles: whether sections show the titles of tables; else these are for those who do not see the table.
        whole_in: options that give all of it where a writer leaves rows out, the shortest answer first.
        unit: what a section is about, in the plural.
    """

    title: str
    answer: str = ""
    about: str = ""
    opening: tuple[Block, ...] = ()
    sections: tuple[Section, ...] = ()
    closing: tuple[Block, ...] = ()
    kicker: str = "ctxbench"
    level: int = 1
    table_titles: bool = True
    whole_in: tuple[str, ...] = ()
    unit: str = "sections"

    def blocks(self) -> Iterator[Block]:
        """All blocks in order; those inside of details come after them."""
        yield from each_block(
            (*self.opening, *(part for section in self.sections for part in section.blocks), *self.closing)
        )

    def brief(self, hint: str) -> Document:
        """The short form: of sections their sentences and the first rows of brief tables, no notes.

        Args:
            hint: the sentence that says where the rest is; added if anything was left out.
        """
        listed: set[tuple[str, Cell]] = set()
        sections = tuple(Section(section.title, tuple(_brief(section.blocks, listed))) for section in self.sections)
        sections = tuple(section for section in sections if section.blocks)
        if sections == self.sections:
            return self
        closing = (block for block in self.closing if not (isinstance(block, Text) and block.note))
        return replace(self, sections=sections, closing=(Text(hint), *closing))


def each_block(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks in order; those inside of details come after them."""
    for block in blocks:
        yield block
        if isinstance(block, Details):
            yield from each_block(block.blocks)


def _brief(blocks: tuple[Block, ...], listed: set[tuple[str, Cell]]) -> Iterator[Block]:
    """The blocks of a section that the short form keeps; rows of tables with `skip_repeated` are added to `listed`."""
    for block in blocks:
        if not isinstance(block, Table):
            yield block
        elif block.brief:
            unlisted = [row for row in block.rows if not (block.skip_repeated and (block.head[0], row[0]) in listed)]
            limit = min(block.n_shown or BRIEF_ROWS, BRIEF_ROWS)
            fresh = sum(
                row in unlisted for row in block.rows[:limit]
            )  # what comes behind the first is not drawn forward
            n_shown = fresh or min(len(unlisted), 1)
            listed |= {(block.head[0], row[0]) for row in unlisted[:n_shown] if block.skip_repeated}
            above = len(block.rows) - len(unlisted)
            title = f"{block.title}, {above:,} of them above" if above else block.title
            if n_shown:
                yield replace(block, title=title, rows=tuple(unlisted), n_shown=n_shown)
