"""HTML pages: templates, SVG drawings, and long reports in two files.

The page and its long tables lie in one folder, so that relative links work in both. Drawings have the same bytes for
the same data.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from markupsafe import Markup, escape

from ctxbench.io.errors import StorageError, count, first_few, visible
from ctxbench.io.files import read_bytes, read_text, write_atomic
from ctxbench.report.document import Document, on_one_line, without_surrogates

if TYPE_CHECKING:
    from jinja2 import Template
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INK, PAPER = "#1c1f23", "#ffffff"  # of a file; what else is black or white is nearly so, as a page has its own
TOOLTIP = "told:"  # begins the `gid` of what has a tooltip; the text of it follows
_FONTS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", Arial, sans-serif'
_STYLE: dict[str, Any] = {
    "svg.hashsalt": "ctxbench",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 13.0,
    "xtick.labelsize": 11.0,
    "ytick.labelsize": 11.0,
    "axes.labelsize": 11.5,
    "axes.titlesize": 11.5,
    "axes.facecolor": "none",
    "figure.facecolor": PAPER,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.13,
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), INK),
    "grid.color": INK,
    "xtick.major.pad": 6.0,
    "ytick.major.pad": 5.0,
    **{f"{axis}tick.{kind}.size": 0.0 for axis in "xy" for kind in ("major", "minor")},  # lines of the grid do
}
_HALO = f"paint-order: stroke; stroke: {PAPER}; stroke-width: 3px; stroke-linejoin: round"
_GROUND = f'<rect width="100%" height="100%" style="fill: {PAPER}" />'
_COLOUR = re.compile(f'(?<=: )({INK}|{PAPER})(?=[;"][^<>]*>)')
_SPARE = re.compile(r"(\.\d\d)\d+|\s*\b([MLCQz])\s*")  # of numbers and of paths
_XLINK = "{http://www.w3.org/1999/xlink}href"


def svg(draw: Callable[[Figure], None], *, width: float, height: float, name: str, label: str) -> str:
    """Draw on a figure, whatever the user's settings of matplotlib are, and give it back as the text of a file.

    Args:
        draw: draws on the figure that it is given.
        width, height: in pixels; so are sizes of letters.
        name: begins the names inside; unlike those of other drawings on the same page.
        label: what it is, for those who do not see it.
    """
    out = StringIO()
    with _drawn(draw, width, height) as figure:
        figure.patch.set_visible(False)
        for text in [text for ax in figure.axes for text in ax.texts if text.get_path_effects()]:
            text.set(path_effects=[], gid="halo")  # effects would turn letters into shapes
        figure.savefig(out, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    root = ET.fromstring(visible(out.getvalue()))  # noqa: S314 - matplotlib wrote it
    body = "".join(ET.tostring(_tidied(part, name), encoding="unicode") for part in root[1:])
    role = "group" if "<title>" in body else "img"
    head = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "class": "chart", "role": role})
    head.attrib |= {"aria-label": visible(label), "viewBox": f"0 0 {width:g} {height:g}"}
    head.attrib |= {"width": f"{width:g}", "height": f"{height:g}", "font-family": _FONTS}
    head.attrib["style"] = f"max-width: {width:g}px; min-width: {0.9 * width:g}px"
    opened = ET.tostring(head, encoding="unicode").removesuffix(" />")
    return f'{opened} stroke-linejoin="round" stroke-linecap="butt">\n{_GROUND}\n{body}</svg>\n'


def png(draw: Callable[[Figure], None], *, width: float, height: float) -> bytes:
    """Draw on a figure as `svg` does, and give it back as a PNG file with two pixels for each of the drawing's."""
    out = BytesIO()
    with _drawn(draw, width, height) as figure:
        figure.savefig(out, format="png", dpi=2 * 72.0, metadata={"Software": None})
    return out.getvalue()


@contextmanager
def _drawn(draw: Callable[[Figure], None], width: float, height: float) -> Iterator[Figure]:
    """A figure that was drawn on, whatever the user's settings of matplotlib are, while it is saved."""
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(["default", _STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the reader's fonts have it
        figure = Figure(figsize=(width / 72.0, height / 72.0))
        draw(figure)
        yield figure


def inline(text: str) -> Markup:
    """An SVG file's text as part of a page: in the page's colours, in a box that scrolls."""
    coloured = _COLOUR.sub(
        lambda match: {INK: "currentColor", PAPER: "var(--paper)"}[match[1]], text.replace(_GROUND, "")
    )
    label = re.findall('aria-label="[^"]*"', text)[0]
    return Markup(f'<div class="drawing" tabindex="0" role="region" {label}>{coloured}</div>')  # noqa: S704 - texts are escaped


def axes_at(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes with their upper left corner at `left` and `top` of the figure, all in pixels."""
    wide, high = figure.get_size_inches() * 72.0
    return figure.add_axes((left / wide, 1.0 - (top + height) / high, width / wide, height / high))


def _tidied(part: ET.Element, name: str) -> ET.Element:
    """Prefix or drop ids, add tooltips and halos, and round numbers to a hundredth."""
    for element in part.iter():
        element.tag = element.tag.rpartition("}")[2]
        element_id = element.attrib.pop("id", "")
        if element.tag == "g" and element_id.startswith(TOOLTIP):
            element.set("role", "img")
            element.insert(0, ET.Element("title"))
            element[0].text = element_id.removeprefix(TOOLTIP)
        elif element.tag != "g" and element_id:
            element.set("id", f"{name}-{element_id}")
        if _XLINK in element.attrib:
            element.set("href", f"#{name}-{element.attrib.pop(_XLINK)[1:]}")
        if "clip-path" in element.attrib:
            element.set("clip-path", element.attrib["clip-path"].replace("#", f"#{name}-"))
        for key in {"d", "x", "y", "transform"} & element.attrib.keys():
            element.set(key, _SPARE.sub(r"\1\2", element.attrib[key]))
        if element.get("transform", "").startswith("rotate(-0 "):
            del element.attrib["transform"]
        if element.tag == "text":
            element.set("style", re.sub(r" ?font-family:[^;]*;?", "", element.get("style", "")))
        if element_id == "halo":
            element.set("style", _HALO)
        element.text = element.text if element.tag in ("text", "title", "tspan") else None
        element.tail = "\n" if element.tag == "g" else None
    return part


_FOLDER = Path(__file__).parent / "templates"


def page_template(name: str, **filters: Callable[[Any], Any]) -> Template:
    """A template by the name of its file: what it shows is escaped, and a name that it does not know is an error.

    Args:
        name: of the file.
        filters: what the template may apply to a value, besides what all pages apply.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": count, "breakable": _breakable, "inline": inline, **filters}
    return environment.get_template(name)


def report_title(datasets: Sequence[str], date: str) -> str:
    """The title of a page: what was measured on, and when: `bfcl-simple · 2026-11-29`; the date may be empty."""
    return " \u00b7 ".join(filter(None, [first_few(datasets, 3), date]))


def stylesheet(*names: str) -> Markup:
    """Style sheets of the templates folder, concatenated in order."""
    return Markup(read_parts(*names))  # noqa: S704 - files of ours


def read_parts(*names: str) -> str:
    """Files of the templates folder, concatenated in order."""
    return "\n".join(read_text(_FOLDER / name) for name in names)


def _breakable(name: str) -> Markup:
    """A name as markup: it may break after its separators, and turns no text around it the other way."""
    parts = (str(escape(part)) for part in re.split(r"(?<=[._/:-])(?=.)", name))
    return Markup(f"<bdi>{'<wbr>'.join(parts)}</bdi>")  # noqa: S704 - each part is escaped


def page(document: Document) -> str:
    """Render a document; the same document gives the same page."""
    template = page_template(
        "document.html.j2",
        line=on_one_line,
        unbroken=lambda text: re.sub(r"\(.*?\)", lambda match: match[0].replace(" ", "\u00a0"), text),  # in brackets
        kind=lambda block: type(block).__name__,
    )
    return without_surrogates(template.render(document=document, style=stylesheet("report.css", "document.css")))


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
