"""A report as Markdown, with links to its figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ctxbench.report import wording
from ctxbench.report.tuning.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Details,
    Document,
    Drawing,
    Heading,
    Table,
    Text,
)

_SPECIAL = re.compile(r"([\\`*\[\]|~$]|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])|(?<!\w)_|_(?!\w))")
_FIRST = re.compile(r"(?:\d+(?=[.)])|(?=#|[-+=>]))")  # after this, what would begin a heading, a list or a quotation


def markdown(document: Document, *, figures: str) -> str:
    """Render a report.

    Args:
        document: the report.
        figures: what stands before the names of its figures in links, for example `figures/`.
    """
    parts = [f"# {escaped(document.title)}"]
    if document.answer:
        parts.append(f"**{escaped(document.answer)}**")
    if document.about:
        parts.append(_paragraph(document.about))
    for block in document.blocks:
        parts += _render(block, figures)
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """A text on one line in which nothing is markup."""
    return _SPECIAL.sub(r"\\\1", wording.named(" ".join(text.split())))


def _render(block: Block, figures: str) -> Iterator[str]:
    """The parts of a block; blank lines go between them."""
    match block:
        case Heading():
            yield f"{'#' * block.level} {escaped(block.text)}"
        case Text():
            yield _paragraph(block.text)
        case Bullets():
            yield "\n".join(f"* {_paragraph(text)}" for text in block.texts)
        case Code():
            yield _code(block.text)
        case Table():
            yield _table(block)
        case Drawing():
            yield f"![{escaped(block.title)}]({figures}{block.name}.svg)"
            yield _paragraph(block.caption)
        case Details():
            yield f"<details><summary>{_escape_in_html(block.title)}</summary>"
            for part in block.blocks:
                yield from _render(part, figures)
            yield "</details>"


def _paragraph(text: str) -> str:
    """A text that begins no heading, list or quotation."""
    line = escaped(text)
    start = _FIRST.match(line)
    return f"{line[: start.end()]}\\{line[start.end() :]}" if start else line


def _table(table: Table) -> str:
    rules = ["---:" if place in table.numbers else "---" for place in range(len(table.head))]
    return "\n".join([_row(map(escaped, table.head)), _row(rules), *(_row(map(_cell, row)) for row in table.rows)])


def _cell(cell: Cell) -> str:
    return escaped(cell if isinstance(cell, str) else ", ".join(cell))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    """A block of code whose fence is longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}sh\n{wording.named(' '.join(text.split()))}\n{fence}"


def _escape_in_html(text: str) -> str:
    """A text inside a tag of HTML, where backslashes escape nothing."""
    from html import escape

    return escape(wording.named(" ".join(text.split())), quote=False)
