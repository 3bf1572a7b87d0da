"""A run on the console: for each dataset what every selector offered, and how it compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING

from ctxbench.bench.metrics import Metric
from ctxbench.bench.summary import RunSummary
from ctxbench.io.console import is_plain, show_tables
from ctxbench.report import wording
from ctxbench.report.column_words import column_words
from ctxbench.report.run_tables import Column, ComparisonTable, SelectorRow, comparison_table, table_notes
from ctxbench.report.table_parts import dim_notes, empty_table
from ctxbench.report.wording import said

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
    """What `print_summary` prints: for each dataset a heading, two tables and notes; then the notes common to all.

    Args:
        summary: of the run.
        console: where it is going; columns that do not fit its width are left out and named, and where its
            encoding is not Unicode, signs are plain.
    """
    plain = is_plain(console.encoding)
    tables, dropped = [], []
    for dataset in summary.datasets:
        table = comparison_table(summary, dataset)
        columns, others = _fitting(table, console, plain)
        notes = table_notes(summary, dataset, columns) if others else table.notes
        tables.append(replace(table, columns=tuple(columns), notes=notes))
        dropped.append(others)
    common = [note for note in tables[0].notes if all(note in table.notes for table in tables)] if tables else []
    parts: list[RenderableType] = []
    shown: dict[tuple[str, Metric], None] = {}
    for table, others in zip(tables, dropped, strict=True):
        parts += _dataset(table, others, console=console, common=set(common))
        shown |= {(column.title, column.metric): None for column in table.columns}
    words = column_words(shown)
    return [*parts, *dim_notes([*([words] if words else []), *common, _OUTSIDE], plain=plain)]


def _dataset(
    table: ComparisonTable, dropped: Sequence[Column], *, console: Console, common: set[str]
) -> list[RenderableType]:
    from rich.text import Text

    plain = is_plain(console.encoding)
    parts: list[RenderableType] = [
        Text(said(table.heading, plain), style="bold"),
        _figures(table, table.columns, plain),
    ]
    if table.compared:
        heading = Text(said(f"Against {table.base} {_BASELINE}, on the same queries", plain), style="bold")
        parts += [Text(), heading, _differences(table, plain, stacked=console.width < _WIDE)]
    notes = [note for note in table.notes if note not in common]
    if dropped:
        titles = wording.listed([column.title for column in dropped])
        notes.append(f"Left out at this width, and on the page: {titles}.")
    return [*parts, Text(), *dim_notes(notes, plain=plain), *([Text()] if notes else [])]


def _fitting(table: ComparisonTable, console: Console, plain: bool) -> tuple[list[Column], list[Column]]:
    """The columns that fit the width, and those that do not."""
    from rich.measure import Measurement

    columns = list(table.columns)
    order = [c for name in _DROPPED_FIRST for c in columns if name in (c.key, c.metric.name)]
    for column in dict.fromkeys([*order, *columns[:0:-1]]):
        options = console.options.update(width=10_000)
        if Measurement.get(console, options, _figures(table, columns, plain, marked=False)).maximum <= console.width:
            break
        columns.remove(column)
    return columns, [column for column in table.columns if column not in columns]


def _figures(table: ComparisonTable, columns: Sequence[Column], plain: bool, *, marked: bool = True) -> Table:
    """The table; not `marked`, as wide as it is where the mark of the baseline goes to a line of its own."""
    made = empty_table()
    _add_names(made, table)
    for column in columns:
        made.add_column(_heading(column), justify="left" if column.interval else "right", no_wrap=True)
    errors = any(row.errors for row in table.rows)
    if errors:
        made.add_column("errors", justify="right", style="bold red")
    for row in table.rows:
        cells = [_text(f"{row.selector} {_BASELINE}" if row.is_base and marked else row.selector, plain)]
        cells += [_figure(table, row, column, plain) for column in columns]
        if errors:
            cells.append(_text(f"{row.errors:,}", plain))
        made.add_row(*cells, style="bold" if row.is_base else "")
    return made


def _add_names(made: Table, table: ComparisonTable) -> None:
    """The column of the selectors' names, which are broken where it is narrow, but never gone; the mark is whole."""
    longest = max((len(row.selector) for row in table.rows), default=0)
    mark = max((len(_BASELINE) for row in table.rows if row.is_base), default=0)
    made.add_column("selector", overflow="fold", min_width=max(min(longest, _NAME), mark))


def _figure(table: ComparisonTable, row: SelectorRow, column: Column, plain: bool) -> Text:
    """A value, and behind it its interval; values stand right-aligned among those of the column."""
    cell = row.cells[column.key]
    if not column.interval:
        return _text(cell.value, plain)
    width = max(len(other.cells[column.key].value) for other in table.rows)
    text = _text(cell.value.rjust(width), plain)
    text.append(f"  {said(cell.interval, plain)}" if cell.interval else "", style="not bold dim")
    return text


def _differences(table: ComparisonTable, plain: bool, *, stacked: bool) -> Table:
    from rich.text import Text

    made = empty_table()
    _add_names(made, table)
    for metric in table.compared:
        title = "completeness, points" if metric.name == "completeness" else f"prompt {wording.points(metric)}"
        made.add_column(title, overflow="fold")
    for row in table.rows:
        if row.is_base:
            continue
        cells = [_text(row.selector, plain)]
        for metric in table.compared:
            found = row.differences.get(str(metric))
            told = [] if found is None else [f"{found.value}  ({found.interval})", found.verdict, found.needed]
            parts = [_text(part, plain) for part in told if part] or [_text(wording.NONE, plain)]
            cells.append(Text("\n" if stacked else "  ").join(parts))
        made.add_row(*cells)
    return made


def _heading(column: Column) -> str:
    """A heading in short lines; a share says that it is in per cent."""
    words = column.title.replace("empty when nothing needed", "empty when\nnone needed")
    words = words.replace("wrong siblings", "wrong\nsiblings").replace("forbidden offered", "forbidden\noffered")
    return f"{words} %" if column.unit == "%" else words


def _text(cell: str, plain: bool) -> Text:
    """A cell as text."""
    from rich.text import Text

    return Text(said(cell, plain))
