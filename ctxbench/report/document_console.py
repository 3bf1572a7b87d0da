"""A document on the console."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from ctxbench.report.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Details,
    Document,
    Drawing,
    Quoted,
    Subheading,
    Table,
    Text,
)
from ctxbench.report.wording import printable

_NARROWEST = 40
_GAP = "  "
_FIXED = "\xa0"  # stands for a blank at which no line is broken


def console_text(document: Document, *, width: int = 100, plain: bool = False) -> str:
    """A document as text; ends with a line feed.

    Args:
        document: what is shown; figures by title and caption.
        width: columns; a word that is longer stands out.
        plain: whether the terminal lacks Unicode, so that signs must be plain.
    """
    width = max(width, _NARROWEST)
    lines = _wrapped(document.title, 0, 2, width)
    for block in (*(Text(text) for text in (document.answer, document.about) if text), *document.opening):
        lines += ["", *_rendered(block, document, width, titled=False)]
    for section in document.sections:
        lines += ["", *_wrapped(section.title, 0, 2, width)]
        for index, block in enumerate(section.blocks):
            lines += [*([""] if index else []), *_rendered(block, document, width, titled=document.table_titles)]
    for block in document.closing:
        lines += [*([] if isinstance(block, Code) else [""]), *_rendered(block, document, width, titled=True)]
    return "".join(f"{printable(line.rstrip(), plain)}\n" for line in lines)


def _rendered(block: Block, document: Document, width: int, *, titled: bool) -> list[str]:
    match block:
        case Text() | Subheading():
            return _wrapped(block.text, 0, 0, width)
        case Bullets():
            return [line for text in block.texts for line in _wrapped(f"- {text}", 2, 4, width)]
        case Code():
            return [f"  {_line(block.text)}"]
        case Table():
            return [*(_wrapped(block.title, 2, 4, width) if titled else []), *_table(block, document, width)]
        case Drawing():
            return [*_wrapped(block.title, 2, 4, width), *_wrapped(block.caption, 4, 4, width)]
        case Details():
            inner = [_rendered(part, document, width, titled=False) for part in block.blocks]
            return [*_wrapped(block.title, 2, 4, width), *(line for lines in inner for line in lines)]


def _table(table: Table, document: Document, width: int) -> list[str]:
    rows = table.rows[: table.n_shown or None]
    cells = [[_cell(cell) for cell in row] for row in rows]
    lines = [] if table.stacked else _columns(table, cells)
    if table.stacked or any(len(line) > width for line in lines):
        lines = [line for row in cells for line in _stacked(table, row, width)]
    hidden = len(table.rows) - len(rows)
    where = f" (all of them: {' or '.join(document.whole_in)})" if document.whole_in else ""
    return [*lines, *([f"    and {hidden:,} more{where}"] if hidden else [])]


def _columns(table: Table, rows: Sequence[Sequence[str]]) -> list[str]:
    """One line a row, the headings above."""
    widths = [max(map(len, column)) for column in zip(table.head, *rows, strict=True)]
    lines = []
    for row in (table.head, *rows):
        padded = [
            cell.rjust(wide) if index in table.numbers else cell.ljust(wide)
            for index, (cell, wide) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"    {_GAP.join(padded)}")
    return lines


def _stacked(table: Table, row: Sequence[str], width: int) -> Iterator[str]:
    """The key cells of a row on one line, its other non-empty cells below with their headings."""
    yield from _wrapped(_GAP.join(row[: table.key]), 4, 8, width)
    texts = [
        _keep_together(f"{name} {cell}", width) if table.joined and index in table.numbers else f"{name}: {cell}"
        for index, (name, cell) in enumerate(zip(table.head, row, strict=True))
        if index >= table.key and cell
    ]
    for text in ["; ".join(texts)] if table.joined else texts:
        yield from _wrapped(text, 8, 10 - 2 * table.joined, width)


def _keep_together(text: str, width: int) -> str:
    """A heading and its number on one line, unless they are longer than any line."""
    return text.replace(" ", _FIXED) if len(text) < width - 8 else text


def _cell(cell: Cell) -> str:
    """A cell on one line; the text after an id is in quotes."""
    first, *rest = (cell,) if isinstance(cell, str) else cell
    if rest and not isinstance(first, Quoted):
        return _line(", ".join(cell))
    return " ".join([_line(first), *(f'"{_line(part)}"' for part in rest)])


def _line(text: str) -> str:
    return " ".join(text.split())


def _wrapped(text: str, first: int, rest: int, width: int) -> list[str]:
    """Lines broken at blanks only, so that ids and options can be copied."""
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=" " * first,
        subsequent_indent=" " * rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_FIXED, " ") for line in lines] or [""]
