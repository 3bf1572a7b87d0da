"""A document as Markdown of a limited size; quoted text never becomes markup, a mention or a link.

Source: "GitHub Flavored Markdown Spec", and for what GitHub adds "Basic writing and formatting syntax", "Autolinked
references and URLs" and "Writing mathematical expressions"; for the room of the summary of a workflow's step "Workflow
commands for GitHub Actions", and actions/runner issue 4337: what is little shorter than the limit may be dropped, and
nothing says so.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape

from ctxbench.core.items import ITEM_TYPES
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
    Weight,
)
from ctxbench.report.wording import on_one_line, without_surrogates

LIMIT = (1 << 20) - (1 << 10)  # bytes: GitHub shows nothing of more than 1 MiB a step, nor of little less
_IDS = rf"(?<!\w)(?:{'|'.join(ITEM_TYPES)}):(?:[\w%~.:-]*[\w%~-])"  # percent-encoded
_APART = re.compile(rf"({_IDS}|\$)")  # what is written otherwise: ids, as code; a dollar, which may begin a formula
# Mentions, issues, addresses; emoji, which are seen within words, too, as in tool:calendar:add.
_LINKED = re.compile(r"[@#](?=[\w-])|:(?=//|[\w+\\-]+:)|(?i:www(?=\.)|gh(?=-\d))")
_FIRST = re.compile(r"(?:\d+(?=[.)])|(?=[-#+=>]))")  # after this, what would begin a heading, a list or a quotation
_SPECIAL = re.compile(r"([\\`*\[\]|~$]|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])|(?<!\w)_|_(?!\w))")
_LONGEST_ID = 300


@dataclass(frozen=True)
class _Part:
    """A block: lines that stay, and rows that may be left out from the end."""

    head: str
    rows: Sequence[str] = ()
    weight: Weight = Weight.VERDICT

    def text(self, rows: int, note: str) -> str:
        """The text with at most `rows` rows; the note follows the number of those left out."""
        left = len(self.rows) - rows
        cut = f"\n\n{left:,} more rows {note}" if left > 0 else ""
        return "\n".join([*filter(None, [self.head]), *self.rows[:rows]]) + cut


def markdown(document: Document, *, limit: int | None = LIMIT, figures: str = "") -> str:
    """Render a document.

    Where it would be too long, rows are left out by their weight: details first, then the least costly of those that
    cost something, then whole sections, the last ones first, and then the others; how many is said.

    Args:
        document: what is shown.
        limit: bytes, 2,000 at least; the title alone may be longer than less. None = as long as it comes.
        figures: what stands before the names of its figures in links, for example `figures/`.

    Returns:
        Text of at most so many bytes; ends with a line feed.
    """
    level, parts_of = document.level, partial(_parts, level=document.level + 2, figures=figures)
    opening = [*_title(document), *parts_of(document.opening, titled=False)]
    sections = [
        [_heading(level + 1, section.title), *parts_of(section.blocks, titled=document.table_titles)]
        for section in document.sections
    ]
    closing = list(parts_of(document.closing, titled=True))
    longest = max((len(part.rows) for parts in (opening, *sections) for part in parts), default=0)
    left_out = f"left out: no room here{f'; `{document.whole_in[0]}` has them' if document.whole_in else ''}."

    def render(n_sections: int, rows: dict[Weight, int]) -> str:
        left = len(sections) - n_sections
        note = [_Part(f"{left:,} more {document.unit} {left_out}")] if left else []
        parts = [*opening, *(part for section in sections[:n_sections] for part in section), *note, *closing]
        return without_surrogates("\n\n".join(part.text(rows[part.weight], left_out) for part in parts) + "\n")

    def fits(text: str) -> bool:
        return limit is None or len(text.encode()) <= limit

    rows, n_sections = dict.fromkeys(Weight, longest), len(sections)

    def cut(weight: Weight) -> None:
        if not fits(render(n_sections, rows)):
            rows[weight] = _largest(longest, lambda n: fits(render(n_sections, {**rows, weight: n})))

    cut(Weight.DETAIL)
    cut(Weight.COST)
    if not fits(render(n_sections, rows)):
        n_sections = _largest(n_sections, lambda n: fits(render(n, rows)))
    cut(Weight.VERDICT)
    text = render(n_sections, rows)
    return text if fits(text) else without_surrogates(f"{opening[0].head}\n")


def escaped(text: str) -> str:
    """A text on one line in which nothing is markup; it may still mention and link."""
    return _SPECIAL.sub(r"\\\1", on_one_line(text))


def _largest(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 0 to `limit` that fits; 0 where none does."""
    return bisect_left(range(1, limit + 1), True, key=lambda n: not fits(n))


def _title(document: Document) -> Iterator[_Part]:
    """The title, the answer and what the document is about."""
    yield _heading(document.level, document.title, f"{document.kicker}: " if document.level > 1 else "")
    if document.answer:
        yield _Part(f"**{_sentence(document.answer)}**")
    if document.about:
        yield _Part(_paragraph(document.about))


def _heading(level: int, text: str, before: str = "") -> _Part:
    return _Part(f"{'#' * level} {before}{_sentence(text)}")


def _parts(blocks: Iterable[Block], *, titled: bool, level: int, figures: str) -> Iterator[_Part]:
    """The parts of blocks; blank lines go between them. Headings are of the level."""
    for block in blocks:
        match block:
            case Subheading():
                yield _heading(level, block.text)
            case Text():
                yield _Part(_paragraph(block.text))
            case Bullets():
                yield _Part("", tuple(f"* {_paragraph(text)}" for text in block.texts))
            case Code():
                yield _Part(_fenced(block.text))
            case Table(weight=Weight.DETAIL):
                yield from _folded(block.title, [_table(block, titled=False)])
            case Table():
                yield _table(block, titled=titled)
            case Drawing():
                yield _Part(f"![{_sentence(block.title)}]({figures}{block.name}.svg)")
                yield _Part(_paragraph(block.caption))
            case Details():
                yield from _folded(block.title, _parts(block.blocks, titled=False, level=level, figures=figures))


def _folded(title: str, parts: Iterable[_Part]) -> Iterator[_Part]:
    """Parts that are shown on demand."""
    yield _Part(f"<details><summary>{escape(on_one_line(title), quote=False)}</summary>")
    yield from parts
    yield _Part("</details>")


def _table(table: Table, *, titled: bool) -> _Part:
    rules = ["---:" if index in table.numbers else "---" for index in range(len(table.head))]
    head = f"{_row(map(_sentence, table.head))}\n{_row(rules)}"
    title = f"**{_sentence(table.title)}**\n\n" if titled else ""
    return _Part(f"{title}{head}", tuple(_row(map(_cell, row)) for row in table.rows), table.weight)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    """A text, or its parts: an id and its text on two lines, other parts on one."""
    if isinstance(cell, str):
        return _inline(cell)
    return "<br>".join(map(_inline, cell)) if isinstance(cell[0], Quoted) else _sentence(", ".join(cell))


def _inline(text: str) -> str:
    return _code(text) if isinstance(text, Quoted) else _sentence(text)


def _paragraph(text: str) -> str:
    """A sentence that begins no heading, list or quotation."""
    line = _sentence(text)
    start = _FIRST.match(line)
    return f"{line[: start.end()]}\\{line[start.end() :]}" if start else line


def _sentence(text: str) -> str:
    """A text on one line without markup, mentions and links; ids are code."""
    parts = _APART.split(" ".join(text.split()))
    return "".join(_special(part) if index % 2 else _plain(part) for index, part in enumerate(parts))


def _special(part: str) -> str:
    return "<span>$</span>" if part == "$" else _code(part)


def _plain(part: str) -> str:
    """Between two signs that mean nothing, which keep its blanks and what it begins and ends with as they are."""
    return _LINKED.sub(_unlinked, escaped(f".{part}."))[1:-1] if part else ""


def _unlinked(match: re.Match[str]) -> str:
    """Disable a link: a backslash before an address's colon, a zero-width space after other signs."""
    return r"\:" if match[0] == ":" and match.string.startswith("//", match.end()) else f"{match[0]}&#8203;"


def _code(text: str) -> str:
    """What someone else wrote, as code: no markup, no mention and no link in it, and no end of a cell."""
    line = on_one_line(text)
    line = line if len(line) <= _LONGEST_ID else f"{line[:_LONGEST_ID]}..."
    if not line:
        return ""
    if "\\|" in line:  # which no code in a table can hold
        entities = re.sub("[^A-Za-z0-9 ]", lambda match: f"&#{ord(match[0])};", line)
        return f"<code>{entities.replace('&#64;', '&#64;&#8203;')}</code>"  # else an address of mail would be linked
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{space}{line.replace('|', chr(92) + '|')}{space}{fence}"


def _fenced(text: str) -> str:
    """A block of code whose fence is longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}sh\n{on_one_line(text)}\n{fence}"
