"""Documents made of blocks, on the console and as Markdown; numbers, verdicts and units in words.

The console, Markdown and pages render the same blocks. Markdown escapes text from others: it is never markup, mentions
nobody and links nowhere. Sources: "GitHub Flavored Markdown Spec"; GitHub's "Basic writing and formatting syntax",
"Autolinked references and URLs", "Writing mathematical expressions" and "Workflow commands for GitHub Actions" (size of
step summaries); actions/runner issue 4337 (a summary slightly below the limit may be dropped without a message).
"""

from __future__ import annotations

import math
import re
import shutil
import textwrap
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import IntEnum
from functools import partial
from html import escape
from typing import TypeAlias

from ctxbench.evaluation.metrics import Metric, parse_metric
from ctxbench.evaluation.statistics import Comparison, Estimate, Interval
from ctxbench.io.console import is_plain, is_terminal, say, show_tables
from ctxbench.io.errors import first_few, one_line
from ctxbench.model.items import ITEM_TYPES

MINUS, DASH = "\u2212", "\u2013"
NONE = "-"  # stands where there is no value
LOOSE = "~"  # stands behind an interval that does not hold
LOOSE_LEGEND = f"{LOOSE} marks an interval that too few values carry"
NOT_SIGNIFICANT = "not significant"
P_WORDS = "p: how often chance alone would give such a difference"
RAISED = (
    "It is raised because many comparisons are made, so a difference may not count though its interval leaves out 0."
)
SIZE_WORDS = "n: how many queries"
_MANY = 1_000_000
_LOOSE_END = re.compile(rf"[\d\u221e]{LOOSE}(?=\)|$)")
_PLAIN = str.maketrans({MINUS: "-", DASH: "-", "\u221e": "inf"})


def number(metric: Metric, value: float, *, min_decimals: int = 0) -> str:
    """A metric's mean: a share in per cent without the sign, tokens whole, other amounts to two decimals.

    `min_decimals` asks for more decimals.
    """
    if not math.isfinite(value):
        return NONE
    decimals = max(min_decimals, _decimals(metric, value))
    return _minus(f"{value * _factor(metric):,.{decimals}f}")


def with_unit(metric: Metric, value: float, *, min_decimals: int = 0) -> str:
    """A mean with the sign of per cent if it is a share: `27.5%`, `2,366`."""
    return f"{number(metric, value, min_decimals=min_decimals)}{'%' * (unit(metric) == '%')}"


def mean(metric: Metric, estimate: Estimate, *, min_decimals: int = 0) -> str:
    """A mean with its interval, if it has one: `93.1 (90.2-95.5)`; `min_decimals` asks for more decimals."""
    interval = estimate_interval(metric, estimate)
    return f"{number(metric, estimate.value, min_decimals=min_decimals)}{f' ({interval})' if interval else ''}"


def signed(metric: Metric, value: float) -> str:
    """A difference with its sign; 0 has none. Shares are in percentage points."""
    if not math.isfinite(value):
        return NONE
    text = f"{value * _factor(metric):+,.{_decimals(metric, value)}f}"
    return text[1:] if not any(digit in text for digit in "123456789") else _minus(text)


def unit(metric: Metric) -> str:
    """What the numbers of a metric count: `%`, `tokens`, `items` or nothing."""
    return "%" if metric.declaration.scale in ("yes/no", "share") else metric.declaration.unit


def axis_title(metric: Metric) -> str:
    """A metric and what its numbers count, as on axes: `completeness, %`, `tokens per query`, `BoR@5`."""
    counted = unit(metric)
    return f"{metric}, %" if counted == "%" else f"{metric} per query" if counted else str(metric)


def points(metric: Metric) -> str:
    """What differences of a metric count."""
    return "points" if unit(metric) == "%" else unit(metric)


def estimate_interval(metric: Metric, estimate: Estimate) -> str:
    """The interval of a mean as `93.6-97.5` (with an en dash); a `~` after it means that it does not hold.

    Empty without a mean, and where the interval has no width: all values are equal, and say nothing of others.
    """
    if not math.isfinite(estimate.value) or estimate.interval.low == estimate.interval.high:
        return ""
    low, high = (_end(number(metric, end), end) for end in (estimate.interval.low, estimate.interval.high))
    joint = DASH if estimate.interval.low >= 0 else " to "
    return f"{low}{joint}{high}{_loose(estimate.interval)}"


def difference_interval(metric: Metric, comparison: Comparison) -> str:
    """The interval of a difference as `-6.0 to -1.9`; a `~` after it means that it does not hold."""
    if not math.isfinite(comparison.difference):
        return ""
    low, high = (_end(signed(metric, end), end) for end in (comparison.interval.low, comparison.interval.high))
    return f"{low} to {high}{_loose(comparison.interval)}"


def has_loose(text: str) -> bool:
    """Whether a text has an interval that does not hold, so that its sign must be explained."""
    return _LOOSE_END.search(text) is not None


def with_loose_legend(text: str) -> str:
    """A text, with an explanation of the sign after an interval if it has one."""
    return f"{text} ({LOOSE_LEGEND})" if has_loose(text) else text


def verdict(comparison: Comparison) -> str:
    """`p=0.0003` of a significant difference, else the words for one that is not.

    A p-value that random flips bound but do not know is `p <= 0.0003`.
    """
    if not comparison.significant:
        return NOT_SIGNIFICANT
    p = p_text(comparison.p_holm, at_floor=comparison.p_holm_at_floor)
    return f"p {p}" if comparison.p_holm_at_floor else f"p{p}" if p.startswith("<") else f"p={p}"


def p_text(p: float, *, at_floor: bool = False) -> str:
    """A p-value to two digits or so: `<0.0001`, `0.0031`, `0.041`, `1`; `<= 0.0002` of one that is at its floor."""
    if at_floor:
        return f"<= {p:.2g}" if p < 0.0001 else f"<= {p_text(p)}"
    return "<0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}" if p < 1 else "1"


def queries_needed(comparison: Comparison) -> str:
    """How many queries would make the difference significant; empty where it is, or where that is unknown."""
    if comparison.significant or comparison.needed is None:
        return ""
    if comparison.needed > _MANY:
        return "more than a million queries would tell"
    return f"about {two_digits(comparison.needed):,} queries would tell"


@dataclass(frozen=True, slots=True)
class Means:
    """Two means of one metric over the same queries.

    Attributes:
        value: of what a sentence is about.
        compared: of what it is compared with.
        significant: whether the difference is.
        low, high: the ends of the interval of value - compared.
    """

    value: float
    compared: float
    significant: bool
    low: float
    high: float

    @classmethod
    def of(cls, comparison: Comparison | None) -> Means | None:
        """The means of a comparison: its other side compared with its base; None without a pair."""
        if comparison is None or not comparison.n:
            return None
        interval = comparison.interval
        return cls(comparison.other, comparison.base, bool(comparison.significant), interval.low, interval.high)

    @property
    def swapped(self) -> Means:
        """The same comparison from the other side."""
        return Means(self.compared, self.value, self.significant, -self.high, -self.low)


def winner_sentence(
    name: str, compared: str, complete: Sequence[Means], tokens: Sequence[Means], *, unit: str = ""
) -> str:
    """What a selector offers and what that costs, then the same of another; without its end.

    `a offers all that is needed for 97.0% of requests at 365 tokens; b for 96.0% at 541 (tokens: not significant)`.
    Means of several datasets become ranges, with on how many they are significant. Equal figures are a tie.

    Args:
        name, compared: of the selector, and of the other.
        complete, tokens: means by dataset.
        unit: of the tokens, `tokens in all`. With it more is said of significance; without it the figures are of a
            tuning, which says what its constraints hold.
    """
    share, other = (_span("completeness", means) for means in _sides(complete))
    cost, other_cost = (f" at {_span('tokens', means)}" if tokens else "" for means in _sides(tokens))
    sides = {"completeness": complete, "tokens": tokens}
    flags = {title: [m.significant for m in pairs if m.value != m.compared] for title, pairs in sides.items()}
    doubts = [title for title, significant in flags.items() if not all(significant)]
    loss = -complete[0].low if unit and "completeness" in doubts and complete[0].value < complete[0].compared else 0.0
    excluded = f"; a loss of up to {100 * loss:.1f} points is not excluded" if 0 < loss < math.inf else ""
    certain = "".join(f"; {title}: significant" for title in flags if unit and flags[title] and title not in doubts)
    end = f" ({' and '.join(doubts)}: {NOT_SIGNIFICANT}{excluded}{certain})" if doubts else ""
    if (n := len(complete)) > 1:
        texts = [f"{title}: significant on {sum(values)} of {n}" for title, values in flags.items() if values]
        end = f" ({'; '.join(texts)})" if unit and doubts else ""
    unit, unmeasured = (f" {unit or 'tokens'}", "") if tokens else ("", "; tokens were not measured")
    tied = len(complete) == 1 and (share, cost) == (other, other_cost)
    name, rest = (f"{name} and {compared} tie: each", "") if tied else (name, f"; {compared} for {other}{other_cost}")
    return f"{name} offers all that is needed for {share} of requests{cost}{unit}{rest}{end}{unmeasured}"


def session_tokens(estimates: Mapping[str, Estimate]) -> float:
    """The mean tokens of what sessions hold, such as items that are always offered; 0 if they were not measured."""
    total, added = (estimates.get(name) for name in ("total_tokens", "tokens"))
    held = total.value - added.value if total and added else 0.0
    return held if held >= 0.5 else 0.0  # less is rounding


def _sides(pairs: Sequence[Means]) -> tuple[list[float], list[float]]:
    return [means.value for means in pairs], [means.compared for means in pairs]


def _span(metric: str, values: Sequence[float]) -> str:
    """A mean, or the lowest and the highest of several."""
    return " to ".join(dict.fromkeys(with_unit(parse_metric(metric), value) for value in (min(values), max(values))))


def listed(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return first_few(names, len(names))


def selector_title(name: str, shipped: str) -> str:
    """A selector's name for people: `agent (= learned/normal, shipped)` where an agent has a shipped one.

    Args:
        name: as data has it.
        shipped: the shipped selector that it is; empty for others.
    """
    return f"{name} (= {shipped}, shipped)" if shipped and shipped != name else name


def recall(value: float | None) -> str:
    """The recall of an approximate index, 0 to 1, rounded down to three digits: 1.000 is said of no other."""
    return NONE if value is None else f"{math.floor(1000 * value + 1e-9) / 1000:.3f}"


def named(name: str) -> str:
    """A name for use inside a sentence: U+FFFD for what would break the line or turn the sentence around."""
    return one_line(name)


def on_one_line(text: str) -> str:
    """A text of any number of lines on one line, made fit as `named` does."""
    return named(" ".join(text.split()))


def _factor(metric: Metric) -> float:
    return 100.0 if unit(metric) == "%" else 1.0


def _decimals(metric: Metric, value: float) -> int:
    """One decimal for per cent, none for tokens from 10 on, two for the rest (one from 100 on)."""
    if unit(metric) == "%":
        return 1
    if metric.declaration.unit == "tokens":
        return 0 if abs(value) >= 10 else 1
    return 2 if abs(value) < 100 else 0


def _end(text: str, value: float) -> str:
    return ("\u221e" if value > 0 else f"{MINUS}\u221e") if math.isinf(value) else text


def _loose(interval: Interval) -> str:
    return "" if interval.holds else LOOSE


def _minus(text: str) -> str:
    return text.replace("-", MINUS)


def two_digits(value: int) -> int:
    """Rounded up to two significant digits: a size that is estimated from an estimate deserves no more."""
    step: int = 10 ** max(len(str(value)) - 2, 0)
    return -(-value // step) * step


def printable(text: str, plain: bool) -> str:
    """A text on one line without terminal control characters; `plain` replaces signs outside ASCII."""
    text = one_line(text)
    return text.translate(_PLAIN).encode("ascii", "replace").decode("ascii") if plain else text


def without_surrogates(text: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot hold, replaced by U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


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
class Text:
    """A paragraph; a console shows `n_lines` lines of it at most, 0 = all."""

    text: str
    n_lines: int = 0


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences; a console shows `n_lines` lines of each of their lines at most, 0 = all."""

    texts: tuple[str, ...]
    n_lines: int = 0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure.

    Attributes:
        name: of its file, without folder and ending; unique in the document.
        title: in few words.
        caption: what to see in it, as sentences.
        svg: the text of its file.
        narrow: what a page shows in its place where it is narrow; may be empty.
    """

    name: str
    title: str
    caption: str
    svg: str
    narrow: str = ""


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that are shown on demand."""

    title: str
    blocks: tuple[Table | Text | Bullets | Drawing, ...]


Block: TypeAlias = Text | Bullets | Code | Table | Drawing | Details


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
        n_unfolded: how many sections Markdown shows; the rest and `closing` are folded. None = nothing is folded.
        kicker: what made it, for example `ctxbench check`.
        level: of its title in Markdown: 1 on a page of its own; deeper, the kicker stands before the title.
        table_titles: whether sections show the titles of tables; else these are for those who do not see the table.
        whole_in: options that give all of it where a writer leaves rows out, the shortest answer first.
        unit: what a section is about, in the plural.
        n_lines: how many lines of its title a console shows at most, and one of `about`; 0 = all of both.
        style: of its title on a terminal, such as `bold red`.
    """

    title: str
    answer: str = ""
    about: str = ""
    opening: tuple[Block, ...] = ()
    sections: tuple[Section, ...] = ()
    closing: tuple[Block, ...] = ()
    n_unfolded: int | None = None
    kicker: str = "ctxbench"
    level: int = 1
    table_titles: bool = True
    whole_in: tuple[str, ...] = ()
    unit: str = "sections"
    n_lines: int = 0
    style: str = "bold"

    def blocks(self) -> Iterator[Block]:
        """All blocks in order; those inside of details come after them."""
        yield from each_block(
            (*self.opening, *(part for section in self.sections for part in section.blocks), *self.closing)
        )


def each_block(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks in order; those inside of details come after them."""
    for block in blocks:
        yield block
        if isinstance(block, Details):
            yield from each_block(block.blocks)


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
    lines = [line for line, _ in _styled_lines(document, max(width, _NARROWEST))]
    return "".join(f"{printable(line, plain)}\n" for line in lines)


def print_document(document: Document) -> None:
    """Print a document on standard output, on a terminal with colours unless `NO_COLOR` is set.

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    width = max(shutil.get_terminal_size((100, 24)).columns, _NARROWEST)
    lines = [(printable(line, is_plain()), style) for line, style in _styled_lines(document, width)]
    if not is_terminal():
        say(*(line for line, _ in lines))
        return
    from rich.text import Text as Line  # a check without a terminal starts faster without it

    show_tables(lambda _: [Line(line, style=style, overflow="ignore", no_wrap=True) for line, style in lines])


def _styled_lines(document: Document, width: int) -> Iterator[tuple[str, str]]:
    """The lines of a document, each with the style that it has on a terminal: the title and the headings have one."""
    lines = [(line, document.style) for line in _wrapped(document.title, 0, 2, width, document.n_lines)]
    about = Text(document.about, min(document.n_lines, 1))
    for block in (*(text for text in (Text(document.answer), about) if text.text), *document.opening):
        lines += _unstyled(["", *_rendered(block, document, width, titled=False)])
    for section in document.sections:
        lines += [("", ""), *((line, "bold") for line in _wrapped(section.title, 0, 2, width))]
        for index, block in enumerate(section.blocks):
            gap = [""] if index and not isinstance(block, Code) else []
            lines += _unstyled([*gap, *_rendered(block, document, width, titled=document.table_titles)])
    for block in document.closing:
        gap = [] if isinstance(block, Code) else [""]
        lines += _unstyled([*gap, *_rendered(block, document, width, titled=True)])
    yield from ((line.rstrip(), style) for line, style in lines)


def _unstyled(lines: Iterable[str]) -> list[tuple[str, str]]:
    return [(line, "") for line in lines]


def _rendered(block: Block, document: Document, width: int, *, titled: bool) -> list[str]:
    match block:
        case Text():
            return _wrapped(block.text, 0, 0, width, block.n_lines)
        case Bullets():
            return [line for text in block.texts for line in _bullet(text, width, block.n_lines)]
        case Code():
            return [f"  {_line(block.text)}"]
        case Table():
            return [*(_wrapped(block.title, 2, 4, width) if titled else []), *_console_table(block, document, width)]
        case Drawing():
            return [*_wrapped(block.title, 2, 4, width), *_wrapped(block.caption, 4, 4, width)]
        case Details():
            inner = [_rendered(part, document, width, titled=False) for part in block.blocks]
            return [*_wrapped(block.title, 2, 4, width), *(line for lines in inner for line in lines)]


def _console_table(table: Table, document: Document, width: int) -> list[str]:
    rows = table.rows[: table.n_shown or None]
    cells = [[_console_cell(cell) for cell in row] for row in rows]
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


def _console_cell(cell: Cell) -> str:
    """A cell on one line; the text after an id is in quotes."""
    first, *rest = (cell,) if isinstance(cell, str) else cell
    if rest and not isinstance(first, Quoted):
        return _line(", ".join(cell))
    return " ".join([_line(first), *(f'"{_line(part)}"' for part in rest)])


def _line(text: str) -> str:
    return " ".join(text.split())


def _bullet(text: str, width: int, n_lines: int) -> Iterator[str]:
    """The lines of an entry of a list; those after its first line stand below it."""
    first, *following = text.split("\n")
    yield from _wrapped(f"- {first}", 2, 4, width, n_lines)
    for line in following:
        yield from _wrapped(line, 4, 4, width, n_lines)


def _wrapped(text: str, first: int, rest: int, width: int, n_lines: int = 0) -> list[str]:
    """Lines broken at blanks only, so that ids and options can be copied; at most `n_lines` if it is not 0."""
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=" " * first,
        subsequent_indent=" " * rest,
        break_long_words=False,
        break_on_hyphens=False,
        max_lines=n_lines or None,
        placeholder=" ...",
    )
    return [line.replace(_FIXED, " ") for line in lines] or [""]


LIMIT = (1 << 20) - (1 << 10)  # bytes: GitHub shows nothing of more than 1 MiB a step, nor of little less
_IDS = rf"(?<!\w)(?:{'|'.join(ITEM_TYPES)}):(?:[\w%~.:-]*[\w%~-])"  # percent-encoded
_LINES = r"(?<![\w/:.%~-])[\w./%~-]+\.\w+:\d+(?!\w)"  # such as data/corpus.jsonl:12
_COMMANDS = r"(?<!`)`(?![`\s])[^`|\\]*(?<!\s)`(?!`)"  # what a message has between backticks
# What is written otherwise: commands, ids and lines of files, as code; a dollar, which may begin a formula.
_APART = re.compile(rf"({_COMMANDS}|{_IDS}|{_LINES}|\$)")
# Mentions, issues, addresses; emoji, which are seen within words, too, as in tool:calendar:add.
_LINKED = re.compile(r"[@#](?=[\w-])|:(?=//|[\w+\\-]+:)|(?i:www(?=\.)|gh(?=-\d))")
_FIRST = re.compile(r"(?:\d+(?=[.)])|(?=[-#+=>]))")  # after this, what would begin a heading, a list or a quotation
_SPECIAL = re.compile(r"[\\`*\[\]|~$]|<(?=[A-Za-z/!?])|&(?=[#A-Za-z])|(?<!\w)_+|_+(?!\w)")
_LONGEST_ID = 300
_DETAILS = "Details"  # of a document: verdicts, figures and all changes


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
    level, parts_of = document.level, partial(_parts, figures=figures)
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
        unfolded = [part for section in sections[:n_sections][: document.n_unfolded] for part in section]
        n_first = len(sections) if document.n_unfolded is None else document.n_unfolded
        rest = [*(part for section in sections[n_first:n_sections] for part in section), *note, *closing]
        folds = document.n_unfolded is not None and rest
        parts = [*opening, *unfolded, *(_folded(_DETAILS, rest) if folds else rest)]
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
    return _SPECIAL.sub(lambda match: "".join(f"\\{sign}" for sign in match[0]), on_one_line(text))


def _largest(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number from 0 to `limit` that fits; 0 where none does."""
    return bisect_left(range(1, limit + 1), True, key=lambda n: not fits(n))


def _title(document: Document) -> Iterator[_Part]:
    """The title, the answer and what the document is about."""
    yield _heading(document.level, document.title, f"{_sentence(document.kicker)}: " if document.level > 1 else "")
    if document.answer:
        yield _Part(f"**{_sentence(document.answer)}**")
    if document.about:
        yield _Part(paragraph(document.about))


def _heading(level: int, text: str, before: str = "") -> _Part:
    return _Part(f"{'#' * level} {before}{_sentence(text)}")


def _parts(blocks: Iterable[Block], *, titled: bool, figures: str) -> Iterator[_Part]:
    """The parts of blocks; blank lines go between them."""
    for block in blocks:
        match block:
            case Text():
                yield _Part(paragraph(block.text))
            case Bullets():
                yield _Part("", tuple(f"* {'<br>'.join(map(paragraph, text.splitlines()))}" for text in block.texts))
            case Code():
                yield _Part(_fenced(block.text))
            case Table(weight=Weight.DETAIL):
                yield from _folded(block.title, [_markdown_table(block, titled=False)])
            case Table():
                yield _markdown_table(block, titled=titled)
            case Drawing():
                yield _Part(f"![{_sentence(block.title)}]({figures}{block.name}.svg)")
                yield _Part(paragraph(block.caption))
            case Details():
                yield from _folded(block.title, _parts(block.blocks, titled=False, figures=figures))


def _folded(title: str, parts: Iterable[_Part]) -> Iterator[_Part]:
    """Parts that are shown on demand."""
    yield _Part(f"<details><summary>{escape(on_one_line(title), quote=False)}</summary>")
    yield from parts
    yield _Part("</details>")


def _markdown_table(table: Table, *, titled: bool) -> _Part:
    rules = ["---:" if index in table.numbers else "---" for index in range(len(table.head))]
    head = f"{_row(map(_sentence, table.head))}\n{_row(rules)}"
    title = f"**{_sentence(table.title)}**\n\n" if titled else ""
    return _Part(f"{title}{head}", tuple(_row(map(_markdown_cell, row)) for row in table.rows), table.weight)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    """A text, or its parts: an id and its text on two lines, other parts on one."""
    if isinstance(cell, str):
        return inline(cell)
    return "<br>".join(map(inline, cell)) if isinstance(cell[0], Quoted) else _sentence(", ".join(cell))


def inline(text: str) -> str:
    """A text within a line of Markdown: a `Quoted` one is code; another has no markup, mentions and links."""
    return _code(text) if isinstance(text, Quoted) else _sentence(text)


def paragraph(text: str) -> str:
    """A sentence that begins no heading, list or quotation."""
    line = _sentence(text)
    start = _FIRST.match(line)
    return f"{line[: start.end()]}\\{line[start.end() :]}" if start else line


def _sentence(text: str) -> str:
    """A text on one line without markup, mentions and links; commands, ids and lines of files are code."""
    return "".join(
        ("<span>$</span>" if part == "$" else _code(part.strip("`"))) if index % 2 else _plain(part)
        for index, part in enumerate(_APART.split(" ".join(text.split())))
    )


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
