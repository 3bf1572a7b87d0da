"""A long report in two files: a page to be read, and its long tables.

Both files lie in one folder, so that relative links and images of either stay right as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ctxbench.core.errors import StorageError
from ctxbench.io.files import read_bytes, write_atomic

SUFFIX = "-tables"
_BELONGS = "The page that these belong to: "  # begins the third line of a file of tables
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_NO_WORD = re.compile(r"(?<!\\)</?span>|&#\d+;|[^\w\- ]")  # tags and signs of no width are none of a title's words
_ANCHOR = re.compile(r"\]\(#([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Parted:
    """A report in two Markdown texts.

    Attributes:
        page: what is read, with a line of links where sections moved.
        tables: the sections that moved, in order; empty = none did.
    """

    page: str
    tables: str


@dataclass(frozen=True, slots=True)
class _Line:
    """A line and its index in the text; level and title of a heading (else 0), and whether it is code."""

    index: int
    text: str
    level: int = 0
    title: str = ""
    code: bool = False


def titles(text: str) -> list[str]:
    """The titles of the `## ` sections of a Markdown text, in order."""
    return [line.title for line in _lines(text) if line.level == 2]


def parted(text: str, moved_titles: Collection[str], *, name: str) -> Parted:
    """Split a report into a page and its tables.

    Args:
        text: Markdown with a `# ` title.
        moved_titles: titles of the `## ` sections that move to the tables; all sections of one title do.
        name: of the page's file, without `.md`; that of the tables has `-tables` behind it.

    Raises:
        ValueError: no section has one of the titles.
    """
    if unknown := sorted(set(moved_titles).difference(titles(text))):
        raise ValueError(f"no section is called {', '.join(unknown)}; there are {', '.join(titles(text)) or 'none'}")
    if not moved_titles:
        return Parted(text, "")
    lines, page, tables = list(_lines(text)), f"{name}.md", f"{name}{SUFFIX}.md"
    title = next((line.title for line in lines if line.level == 1), name)
    head = _lines(f"# {title}: tables\n\n{_BELONGS}[{title}]({page}).\n\n", first=-len(text))
    gone = set(_gone(lines, moved_titles))
    moved = [*head, *(line for line in lines if line.index in gone)]
    old, in_tables = _anchors(lines), _anchors(moved)
    on_page = _anchors(line for line in lines if line.index not in gone)
    apart_at = {index: f"{tables}#{in_tables[index]}" for index in old if index in gone}
    from_page = {old[index]: apart_at.get(index) or f"#{on_page[index]}" for index in old}
    back = {old[index]: f"#{in_tables[index]}" if index in gone else f"{page}#{on_page[index]}" for index in old}
    return Parted(_text(_linked(lines, gone, apart_at), from_page), _text(moved, back))


def write_parted(path: Path, text: str, moved_titles: Collection[str] = ()) -> tuple[Path, ...]:
    """Write a report as its page and, where sections move, its tables, as split by `parted`.

    Where none moves, tables that lie there from before are removed.

    Returns:
        What was written.

    Raises:
        StorageError: a file that is none of ours has the name of the tables, or a file cannot be written.
    """
    report, tables = parted(text, moved_titles, name=path.stem), _tables_of(path)
    if report.tables:
        refuse_foreign_tables(path)
    write_atomic(path, report.page)
    if report.tables:
        write_atomic(tables, report.tables)
        return path, tables
    if _is_ours(tables):
        tables.unlink(missing_ok=True)
    return (path,)


def refuse_foreign_tables(path: Path) -> None:
    """Refuse to write over a file that has the name of a report's tables, and is none of ours.

    Args:
        path: of the report's page.

    Raises:
        StorageError: there is such a file.
    """
    if not _is_ours(tables := _tables_of(path)):
        problem = f"{tables} is no report of ctxbench, and long tables of {path.name} belong there"
        raise StorageError(f"{problem}; move it, or name another file for the report")


def _tables_of(page: Path) -> Path:
    return page.with_name(f"{page.stem}{SUFFIX}.md")


def _is_ours(tables: Path) -> bool:
    """Whether a file is one of tables, or none is there."""
    return not tables.exists() or read_bytes(tables).partition(b"\n\n")[2].startswith(_BELONGS.encode())


def _lines(text: str, *, first: int = 0) -> Iterator[_Line]:
    """The lines of a text; a line between code fences is never a heading."""
    fence = ""
    for index, line in enumerate(text.removesuffix("\n").split("\n"), first):
        mark, heading = _FENCE.match(line), _HEADING.match(line)
        opened = "" if mark is None or (mark[1][0] == "`" and "`" in mark[2]) else mark[1]
        if fence or opened or not heading:
            yield _Line(index, line, code=bool(fence or opened))
        else:
            yield _Line(index, line, len(heading[1]), heading[2])
        closes = fence and mark is not None and mark[1].startswith(fence) and not mark[2].strip()
        fence = "" if closes else fence or opened


def _gone(lines: Iterable[_Line], moved_titles: Collection[str]) -> Iterator[int]:
    """The indices of the lines of sections that move."""
    goes = False
    for line in lines:
        goes = line.title in moved_titles if line.level == 2 else goes and line.level != 1
        if goes:
            yield line.index


def _linked(lines: Iterable[_Line], gone: Collection[int], apart_at: Mapping[int, str]) -> Iterator[_Line]:
    """The lines that stay, and a line of links after each run of sections that moved."""
    run: list[str] = []
    for line in (*lines, _Line(-1, "")):
        if line.index in gone:
            run += [f"[{line.title}]({apart_at[line.index]})"] if line.level == 2 else []
            continue
        yield from (_Line(-1, f"More tables: {', '.join(run)}."), _Line(-1, "")) if run else ()
        yield line
        run = []


def _anchors(lines: Iterable[_Line]) -> dict[int, str]:
    """By line index of a heading the anchor that GitHub gives it: its words, and a number if they are repeated."""
    anchors, times = dict[int, str](), Counter[str]()
    for line in lines:
        if line.level:
            anchor = _NO_WORD.sub("", line.title.lower()).replace(" ", "-")
            anchors[line.index] = f"{anchor}-{times[anchor]}" if times[anchor] else anchor
            times[anchor] += 1
    return anchors


def _text(lines: Iterable[_Line], leads: Mapping[str, str]) -> str:
    """The lines as a text, in which links to headings lead to where these are now."""
    return (
        "\n".join(
            line.text if line.code else _ANCHOR.sub(lambda m: f"]({leads.get(m[1], '#' + m[1])})", line.text)
            for line in lines
        ).rstrip("\n")
        + "\n"
    )
