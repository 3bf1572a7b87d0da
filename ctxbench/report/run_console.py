"""A run on the console: for each dataset what every selector offered, and how it compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from ctxbench.bench.metrics import Metric
from ctxbench.bench.summary import HEADLINE, RunSummary
from ctxbench.io.console import is_plain, show_tables
from ctxbench.report import wording
from ctxbench.report.column_words import column_words
from ctxbench.report.run_tables import Column, ComparisonTable, SelectorRow, comparison_table, table_notes, with_titles
from ctxbench.report.table_parts import dim_notes, empty_table
from ctxbench.report.wording import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

_WIDE = 110  # from here on a comparison takes one line
_DROPPED_FIRST = ("Comp@1", "Comp@20", "wrong_siblings", "Comp", "items")  # where the terminal is narrow
_BASELINE = "(baseline)"
_NAME = 15  # columns that names of selectors have, however narrow it is
_OUTSIDE = "What a selector offers is measured; what the model then calls is outside."


def print_summary(summary: RunSummary, file: IO[str] | None = None, *, width: int | None = None) -> None:
    """Print the tables of a run, all at once: a reader that leaves is for the caller to deal with.

    Args:
        summary: of the run.
        file: standard output if None.
        width: columns; None asks the terminal (80 where there is none).
    """
    show_tables(lambda console: console_tables(summary, console=console), file=file, width=width)


def console_tables(summary: RunSummary, *, console: Console) -> list[RenderableType]:
    """What `print_summary` prints: for each dataset a heading, its tables and notes; then the notes common to all.

    Args:
        summary: of the run.
        console: where it is going. Columns that do not fit its width go to further tables where the user named the
            metrics; of the usual ones they are left out and named. Where its encoding is not Unicode, signs are plain.
    """
    plain = is_plain(console.encoding)
    summary = with_titles(summary)
    tables, dropped = [], []
    for dataset in summary.datasets:
        table, hidden = comparison_table(summary, dataset), []
        if not summary.metrics_named:
            columns = _fitting(table, _DROPPED_FIRST, console)
            hidden = [column for column in table.columns if column not in columns]
            notes = table_notes(summary, dataset, columns) if hidden else table.notes
            table = replace(table, columns=tuple(columns), notes=notes)
        tables.append(table)
        dropped.append(hidden)
    common = [note for note in tables[0].notes if all(note in table.notes for table in tables)] if tables else []
    parts: list[RenderableType] = []
    printed: dict[tuple[str, Metric], None] = {}
    for table, hidden in zip(tables, dropped, strict=True):
        parts += _dataset(table, hidden, console=console, common=set(common))
        printed |= {(column.title, column.metric): None for column in table.columns}
    words = column_words(printed)
    return [*parts, *dim_notes([*([words] if words else []), *common, _OUTSIDE], plain=plain)]


def _dataset(
    table: ComparisonTable, dropped: Sequence[Column], *, console: Console, common: set[str]
) -> list[RenderableType]:
    from rich.text import Text

    plain = is_plain(console.encoding)
    parts: list[RenderableType] = [Text(printable(table.heading, plain), style="bold")]
    columns = _fitting(table, (), console)
    parts.append(_figures(table, columns, plain))
    while rest := table.columns[len(columns) :]:
        further = _fitting(replace(table, columns=rest), (), console)
        parts += [Text(), _figures(table, further, plain, errors=False)]
        columns += further
    if table.compared:
        heading = Text(printable(f"Against {table.base} {_BASELINE}, on the same queries", plain), style="bold")
        parts += [Text(), heading, _differences(table, plain, console.width)]
    notes = [note for note in table.notes if note not in common]
    if dropped:
        titles = wording.listed([column.title for column in dropped])
        notes.append(f"Left out at this width, and on the page: {titles}.")
    return [*parts, Text(), *dim_notes(notes, plain=plain), *([Text()] if notes else [])]


def _fitting(table: ComparisonTable, dropped_first: Sequence[str], console: Console) -> list[Column]:
    """The columns that fit the width after the names, at least one; names are broken before a headline is dropped.

    Args:
        table: all of its columns.
        dropped_first: names of metrics whose columns go first; then those at the end.
        console: whose width it is.
    """
    columns = list(table.columns)
    order = [column for name in dropped_first for column in columns if name in (column.key, column.metric.name)]
    headline = [column for column in columns if column.metric.name in HEADLINE]
    for column in dict.fromkeys([*order, *columns[:0:-1]]):
        if _width(table, columns, console, broken=column in headline) <= console.width:
            break
        columns.remove(column)
    return columns


def _width(table: ComparisonTable, columns: Sequence[Column], console: Console, *, broken: bool) -> int:
    """The width of a table with the mark of the baseline on a separate line; `broken`: names are broken, too."""
    from rich.measure import Measurement

    figures = _figures(table, columns, is_plain(console.encoding), marked=False)
    if broken:
        figures.columns[0].width = figures.columns[0].min_width
    return Measurement.get(console, console.options.update(width=10_000), figures).maximum


def _figures(
    table: ComparisonTable, columns: Sequence[Column], plain: bool, *, marked: bool = True, errors: bool = True
) -> Table:
    """The table of some columns.

    Args:
        table: whose rows.
        columns: which.
        plain: whether signs must be plain.
        marked: whether the baseline is marked.
        errors: with the number of failed queries, where there are any.
    """
    figures = empty_table()
    _add_names(figures, table)
    for column in columns:
        no_wrap = len(columns) > 1  # a column that stands alone is broken, never cut
        figures.add_column(_heading(column), justify="left" if column.interval else "right", no_wrap=no_wrap)
    errors = errors and any(row.errors for row in table.rows)
    if errors:
        figures.add_column("errors", justify="right", style="bold red")
    for row in table.rows:
        cells = [_text(f"{row.selector} {_BASELINE}" if row.is_base and marked else row.selector, plain)]
        cells += [_figure(table, row, column, plain) for column in columns]
        if errors:
            cells.append(_text(f"{row.errors:,}", plain))
        figures.add_row(*cells, style="bold" if row.is_base else "")
    return figures


def _add_names(figures: Table, table: ComparisonTable) -> None:
    """Add the column of names, which are broken where it is narrow, but never left out; the mark is not broken."""
    longest = max((len(row.selector) for row in table.rows), default=0)
    mark = max((len(_BASELINE) for row in table.rows if row.is_base), default=0)
    figures.add_column("selector", overflow="fold", min_width=max(min(longest, _NAME), mark))


def _figure(table: ComparisonTable, row: SelectorRow, column: Column, plain: bool) -> Text:
    """A value and its interval; values are right-aligned in their column."""
    cell = row.cells[column.key]
    if not column.interval:
        return _text(cell.value, plain)
    width = max(len(peer.cells[column.key].value) for peer in table.rows)
    text = _text(cell.value.rjust(width), plain)
    text.append(f"  {printable(cell.interval, plain)}" if cell.interval else "", style="not bold dim")
    return text


def _differences(table: ComparisonTable, plain: bool, width: int) -> Table:
    from rich.text import Text

    differences, stacked = empty_table(), width < _WIDE
    differences.add_column("selector", overflow="fold", min_width=min(_NAME, width // 4))
    for metric in table.compared:
        title = "completeness, points" if metric.name == "completeness" else f"prompt {wording.points(metric)}"
        differences.add_column(title, overflow="fold")
    for row in table.rows:
        if row.is_base:
            continue
        cells = [_text(row.selector, plain)]
        for metric in table.compared:
            difference = row.differences.get(str(metric))
            lines = (
                []
                if difference is None
                else [f"{difference.value}  ({difference.interval})", difference.verdict, difference.queries_needed]
            )
            parts = [_text(part, plain) for part in lines if part] or [_text(wording.NONE, plain)]
            cells.append(Text("\n" if stacked else "  ").join(parts))
        differences.add_row(*cells)
    return differences


def _heading(column: Column) -> str:
    """A heading in short lines, with `%` for shares."""
    words = column.title.replace("empty when nothing needed", "empty when\nnone needed")
    words = words.replace("wrong siblings", "wrong\nsiblings").replace("forbidden offered", "forbidden\noffered")
    return f"{words} %" if column.unit == "%" else words


def _text(cell: str, plain: bool) -> Text:
    """A cell as text."""
    from rich.text import Text

    return Text(printable(cell, plain))
