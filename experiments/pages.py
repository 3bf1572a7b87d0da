"""Pages under reports/: each has the answer, a picture, one table, and how it was made.

A script measures tables once and keeps them as CSV files beside its page; `--page` writes the page again from these
files, without measuring. `make reports` measures everything, `make pages` writes every page again.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pandas as pd

from ctxbench.cli.common import run_script
from ctxbench.evaluation.experiment import versions
from ctxbench.io.files import write_atomic
from ctxbench.io.workers import OptionalPool, Workers
from ctxbench.report.pages import svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REPORTS = Path(__file__).parents[1] / "reports"
ANSWER_WORDS, COLUMNS, LINES = 25, 8, 80
OPTIONS = argparse.Namespace(jobs=None, page=False)  # of the command line
U = TypeVar("U")
R = TypeVar("R")

Tables: TypeAlias = Mapping[str, pd.DataFrame]
"""Tables by name; that of the name "" is NAME.csv, each other NAME-OTHER.csv."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure: `draw` draws on an empty figure of `width` times `height` pixels; `alt` says what it shows."""

    draw: Callable[[Figure], None]
    alt: str
    width: float = 760.0
    height: float = 420.0


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page as Markdown.

    Attributes:
        title: what was asked, in a few words.
        answer: at most 25 words.
        picture: below the answer.
        table: rows of texts by column, at most 8 columns; every row has the same columns.
        notes: paragraphs below the table: what the columns mean, and what else was found.
        made: how it was made, in sentences: the command, data, splits, limits.
    """

    title: str
    answer: str
    picture: Picture
    table: Sequence[Mapping[str, str]]
    notes: Sequence[str] = ()
    made: str


def run_page(name: str, measure: Callable[[], Tables], page: Callable[[Tables], Page], *, about: str) -> None:
    """The command line of a page's script: measure and keep the tables, then write the page.

    Args:
        name: of reports/NAME.md.
        measure: gives all tables; not called with `--page`, which reads the kept ones.
        page: the page of these tables.
        about: what `--help` says.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--jobs", type=int, help="processes; default: as many as have work for 2 seconds each")
    parser.add_argument(
        "--page", action="store_true", help="write the page again from the kept tables, without measuring"
    )
    parser.parse_args(namespace=OPTIONS)

    def main() -> None:
        if not OPTIONS.page:
            keep_tables(name, measure())
        write_page(name, page(kept_tables(name)))

    run_script(main)


def each(function: Callable[[U], R], units: Sequence[U]) -> Iterator[R]:
    """Yield what a function measures of each unit, such as a dataset, in order, in as many processes as `--jobs` says.

    Args:
        function: of a script or module; it opens what it needs, such as vectors.
        units: its arguments, picklable.
    """
    with OptionalPool(Workers(jobs=OPTIONS.jobs), versions) as pool:
        yield from pool.map(function, units)


def keep_tables(name: str, tables: Tables) -> None:
    """Write the tables of a page as CSV files, in place of those that were there."""
    for path in _tables(name):
        path.unlink()
    for part, table in tables.items():
        write_atomic(
            REPORTS / f"{'-'.join(filter(None, (name, part)))}.csv",
            table.to_csv(index=False, float_format="%.6g", na_rep="nan"),
        )


def kept_tables(name: str) -> dict[str, pd.DataFrame]:
    """The tables of a page as they were kept; an empty cell of a text column is an empty text.

    Raises:
        FileNotFoundError: nothing was measured.
    """
    paths = _tables(name)
    if not paths:
        raise FileNotFoundError(f"reports/{name}.csv is missing: run the script without --page")
    return {
        path.stem.removeprefix(name).removeprefix("-"): pd.read_csv(path, keep_default_na=False, na_values=["nan"])
        for path in paths
    }


def _tables(name: str) -> list[Path]:
    """The CSV files of a page. Names of pages may begin alike, so a longer name that has a page takes its own."""
    pages = {path.stem for path in REPORTS.glob("*.md")} - {name}
    longer = [page for page in pages if page.startswith(f"{name}-")]
    paths = [*REPORTS.glob(f"{name}.csv"), *REPORTS.glob(f"{name}-*.csv")]
    return sorted(
        path for path in paths if not any(path.stem == page or path.stem.startswith(f"{page}-") for page in longer)
    )


def write_page(name: str, page: Page) -> None:
    """Write reports/NAME.md and its picture reports/NAME.svg.

    Raises:
        ValueError: the answer, the table or the page is too long.
    """
    columns = list(page.table[0])
    text = "\n".join(_lines(name, page, columns))
    for size, limit, what in (
        (len(page.answer.split()), ANSWER_WORDS, "words of the answer"),
        (len(columns), COLUMNS, "columns"),
        (text.count("\n"), LINES, "lines"),
    ):
        if size > limit:
            raise ValueError(f"reports/{name}.md: {size} {what}, at most {limit}")
    picture = page.picture
    drawing = svg(picture.draw, width=picture.width, height=picture.height, name=name, label=picture.alt)
    write_atomic(REPORTS / f"{name}.svg", drawing)
    write_atomic(REPORTS / f"{name}.md", text)


def _lines(name: str, page: Page, columns: Sequence[str]) -> list[str]:
    rows = [f"| {' | '.join(row[column] for column in columns)} |" for row in page.table]
    files = ", ".join(f"[{path.name}]({path.name})" for path in _tables(name))
    more = f" All figures: {files}." if files else ""
    return [
        *(f"# {page.title}", "", f"**{page.answer}**", "", f"![{page.picture.alt}]({name}.svg)", ""),
        *(f"| {' | '.join(columns)} |", f"| {' | '.join('---' for _ in columns)} |", *rows, ""),
        *(line for note in page.notes for line in (_joined(note), "")),
        *("## How it was made", "", _joined(page.made) + more, ""),
    ]


def _joined(text: str) -> str:
    """A paragraph, or each item of a list, on one line, however it was broken."""
    return "\n".join(" ".join(part.split()) for part in re.split(r"\n(?=\* )", text))


def constrained_axes(figure: Figure) -> Axes:
    """Axes that leave room for long names of rows."""
    figure.set_layout_engine("constrained")
    axes: Axes = figure.subplots()
    return axes
