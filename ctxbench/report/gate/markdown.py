"""A check as Markdown for the summary of a workflow's step, within the room there is.

Source: "GitHub Flavored Markdown Spec", and for what GitHub adds "Basic writing and formatting syntax", "Autolinked
references and URLs" and "Writing mathematical expressions"; for the room "Workflow commands for GitHub Actions", and
actions/runner issue 4337: what is little shorter than the limit may be dropped, and nothing says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ctxbench.core.items import ITEM_TYPES
from ctxbench.report.drill import without_surrogates
from ctxbench.report.gate.blocks import Block, Bullets, Cell, Code, Document, Quoted, Table, Text, Weight
from ctxbench.report.tuning.markdown import escaped
from ctxbench.report.wording import named

LIMIT = (1 << 20) - (1 << 10)  # bytes: GitHub shows nothing of more than 1 MiB a step, nor of little less
_IDS = rf"(?<!\w)(?:{'|'.join(ITEM_TYPES)}):(?:[\w%~.:-]*[\w%~-])"  # percent-encoded
_APART = re.compile(rf"({_IDS}|\$)")  # what is written otherwise: ids, as code; a dollar, which may begin a formula
# Mentions, issues, addresses; emoji, which are seen within words, too, as in tool:calendar:add.
_LINKED = re.compile(r"[@#](?=[\w-])|:(?=//|[\w+\\-]+:)|(?i:www(?=\.)|gh(?=-\d))")
_FIRST = re.compile(r"(?:\d+(?=[.)])|(?=[-#+=>]))")  # after this, what would begin a heading, a list or a quotation
_LONGEST_ID = 300


@dataclass(frozen=True)
class _Part:
    """A block: lines that stay, rows that may be left out from the end, and lines behind them."""

    head: str
    rows: Sequence[str] = ()
    tail: str = ""
    weight: Weight = Weight.VERDICT

    def text(self, rows: int) -> str:
        """With so many rows at most, and how many are left out."""
        left = len(self.rows) - rows
        note = f"\n\n{left:,} more rows left out: no room here; `--json` has them." if left > 0 else ""
        return "\n".join([*filter(None, [self.head]), *self.rows[:rows]]) + note + self.tail


def markdown(document: Document, *, limit: int = LIMIT) -> str:
    """Render a check.

    Where it would be too long, first other items that went in or out are left out, then the least costly losses and
    causes, then whole sections, those of the best verdicts first; how many is said.

    Args:
        document: the check.
        limit: bytes, 2,000 at least; the title alone may be longer than less.

    Returns:
        Text of at most so many bytes; ends with a line feed.
    """
    sections = [
        [_Part(f"### {_sentence(section.title)}"), *(part for block in section.blocks for part in _parts(block))]
        for section in document.sections
    ]
    opening = [_Part(f"## ctxbench check: {_sentence(document.title)}")]
    opening += [part for block in document.opening for part in _parts(block, titled=False)]
    closing = [part for block in document.closing for part in _parts(block)]
    most = max((len(part.rows) for parts in (opening, *sections) for part in parts), default=0)

    def made(kept: int, rows: dict[Weight, int]) -> str:
        left = len(sections) - kept
        note = [_Part(f"{left:,} more selectors left out: no room here; `--json` has them.")] if left else []
        parts = [*opening, *(part for section in sections[:kept] for part in section), *note, *closing]
        return without_surrogates("\n\n".join(part.text(rows[part.weight]) for part in parts) + "\n")

    def fits(text: str) -> bool:
        return len(text.encode()) <= limit

    rows, kept = dict.fromkeys(Weight, most), len(sections)

    def cut(weight: Weight) -> None:
        if not fits(made(kept, rows)):
            rows[weight] = _largest(most, lambda n: fits(made(kept, {**rows, weight: n})))

    cut(Weight.DETAIL)
    cut(Weight.COST)
    if not fits(made(kept, rows)):
        kept = _largest(kept, lambda n: fits(made(n, rows)))
    cut(Weight.VERDICT)
    text = made(kept, rows)
    return text if fits(text) else without_surrogates(f"{opening[0].head}\n")


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 0 to `most` that fits; 0 where none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _parts(block: Block, *, titled: bool = True) -> list[_Part]:
    match block:
        case Text():
            return [_Part(_paragraph(block.text))]
        case Bullets():
            return [_Part("", tuple(f"* {_paragraph(text)}" for text in block.texts))]
        case Code():
            return [_Part(_fenced(block.text))]
        case Table():
            return [_table(block, titled=titled)]


def _table(table: Table, *, titled: bool) -> _Part:
    """What is for information is folded."""
    rules = ["---:" if place in table.numbers else "---" for place in range(len(table.head))]
    head = f"{_row(map(_sentence, table.head))}\n{_row(rules)}"
    rows = tuple(_row(map(_cell, row)) for row in table.rows)
    title = _sentence(table.title)
    if table.weight is Weight.DETAIL:
        return _Part(
            f"<details><summary>{_in_html(table.title)}</summary>\n\n{head}", rows, "\n\n</details>", table.weight
        )
    return _Part(f"**{title}**\n\n{head}" if titled else head, rows, weight=table.weight)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    return _said(cell) if isinstance(cell, str) else "<br>".join(map(_said, cell))


def _said(text: str) -> str:
    return _code(text) if isinstance(text, Quoted) else _sentence(text)


def _paragraph(text: str) -> str:
    """A sentence that begins no heading, list or quotation."""
    line = _sentence(text)
    start = _FIRST.match(line)
    return f"{line[: start.end()]}\\{line[start.end() :]}" if start else line


def _sentence(text: str) -> str:
    """A text on one line in which nothing is markup, nobody is mentioned and nothing is linked; ids stand as code."""
    parts = _APART.split(" ".join(text.split()))
    return "".join(_apart(part) if place % 2 else _plain(part) for place, part in enumerate(parts))


def _apart(part: str) -> str:
    return "<span>$</span>" if part == "$" else _code(part)


def _plain(part: str) -> str:
    """Between two signs that mean nothing, which keep its blanks and what it begins and ends with as they are."""
    return _LINKED.sub(_unlinked, escaped(f".{part}."))[1:-1] if part else ""


def _unlinked(found: re.Match[str]) -> str:
    """A backslash takes the meaning of an address's colon; an empty sign of no width stands behind the others."""
    return r"\:" if found[0] == ":" and found.string.startswith("//", found.end()) else f"{found[0]}&#8203;"


def _code(text: str) -> str:
    """What someone else wrote, as code: no markup, no mention and no link in it, and no end of a cell."""
    line = without_surrogates(named(" ".join(text.split())))
    line = line if len(line) <= _LONGEST_ID else f"{line[:_LONGEST_ID]}..."
    if not line:
        return ""
    if "\\|" in line:  # which no code in a table can hold
        told = re.sub("[^A-Za-z0-9 ]", lambda found: f"&#{ord(found[0])};", line)
        return f"<code>{told.replace('&#64;', '&#64;&#8203;')}</code>"  # else an address of mail would be linked
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{space}{line.replace('|', chr(92) + '|')}{space}{fence}"


def _fenced(text: str) -> str:
    """A block of code whose fence is longer than any run of backticks in it."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}sh\n{named(' '.join(text.split()))}\n{fence}"


def _in_html(text: str) -> str:
    from html import escape

    return escape(named(" ".join(text.split())), quote=False)
