"""The history of a baseline: tables for a console, CSV, JSON, and the data of the chart."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from ctxbench.bench.metrics import Metric
from ctxbench.gate.baseline import AcceptedFigures
from ctxbench.gate.history import FIGURES, GONE, BaselineHistory, PastBaseline
from ctxbench.io.console import is_plain, show_tables
from ctxbench.report import wording
from ctxbench.report.charts.over_commits import CommitMark, CommitSeries, history_picture
from ctxbench.report.table_parts import dim_notes, empty_table
from ctxbench.report.wording import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

HEADINGS = ("date", "commit", "message", "dataset", "selector", "queries", *map(str, FIGURES), "note")
_DAY = 10  # characters of a date


def print_history(history: BaselineHistory, file: IO[str] | None = None, *, width: int | None = None) -> None:
    """Print a table for each selector on each dataset, a commit a line, and notes.

    Args:
        history: of a baseline.
        file: standard output if None.
        width: columns; None asks the terminal (80 where there is none).

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    show_tables(lambda console: _parts(history, console), file=file, width=width)


def history_json(history: BaselineHistory) -> dict[str, Any]:
    """All of it as JSON: figures that a baseline does not have are null."""
    return {
        "baseline": str(history.folder),
        "older_left_out": history.older,
        "shallow": history.shallow,
        "commits": [_commit_json(at) for at in history.accepted],
    }


def history_csv(history: BaselineHistory) -> str:
    """One row per commit, dataset and selector; of a baseline that cannot be read one row, with the reason in `note`.

    Completeness is a share, 0 to 1; figures have ten digits, and those that are not there are empty.
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, HEADINGS, restval="", lineterminator="\n")
    writer.writeheader()
    for at in history.accepted:
        about = {"date": at.commit.date, "commit": at.commit.hash, "message": at.commit.message, "note": at.fault}
        for accepted in at.worth:
            figures = {str(metric): _number(accepted, metric) for metric in FIGURES}
            writer.writerow(
                {
                    **about,
                    "dataset": accepted.dataset,
                    "selector": accepted.selector,
                    "queries": accepted.queries,
                    **figures,
                }
            )
        if at.fault:
            writer.writerow(about)
    return out.getvalue()


def history_chart(history: BaselineHistory, form: str) -> bytes:
    """Completeness and prompt tokens over commits as a picture, `png` or `svg`."""
    commits = [
        CommitMark(
            label=f"{at.commit.short}\n{at.commit.date[:_DAY]}",
            title=f"{at.commit.date[:_DAY]} {at.commit.short} {at.commit.message}",
            broken=bool(at.fault),
        )
        for at in history.accepted
    ]
    lines = [
        CommitSeries(
            name=_title(history, pair),
            values={metric: [_value(_find(at, pair), metric) for at in history.accepted] for metric in FIGURES},
        )
        for pair in history.pairs
    ]
    return history_picture(commits, lines, FIGURES, form=form)


def _commit_json(at: PastBaseline) -> dict[str, Any]:
    figures = [
        {
            "dataset": accepted.dataset,
            "selector": accepted.selector,
            "queries": accepted.queries,
            **{str(metric): _finite(_value(accepted, metric)) for metric in FIGURES},
        }
        for accepted in at.worth
    ]
    commit = at.commit
    about = {"commit": commit.hash, "short": commit.short, "date": commit.date, "message": commit.message}
    return {**about, "error": at.fault or None, "figures": figures}


def _parts(history: BaselineHistory, console: Console) -> Iterator[RenderableType]:
    from rich.text import Text

    plain = is_plain(console.encoding)
    for pair in history.pairs or (None,):
        title = f"accepted in {history.folder}" if pair is None else _title(history, pair)
        yield Text(printable(title, plain), style="bold")
        yield _table(history, pair, plain)
        yield Text()
    yield from dim_notes(_notes(history), plain=plain)


def _table(history: BaselineHistory, pair: tuple[str, str] | None, plain: bool) -> Table:
    from rich.text import Text

    table = empty_table()
    for heading in ("date", "commit"):
        table.add_column(heading, no_wrap=True)
    for heading in ("queries", "completeness %", "prompt tokens"):
        table.add_column(heading, justify="right", min_width=max(map(len, heading.split())))
    table.add_column("message", min_width=8)  # which gives way where the terminal is narrow
    for at in history.accepted:
        accepted = None if pair is None else _find(at, pair)
        state = wording.NONE if not at.fault else "removed" if at.fault == GONE else "unreadable"
        figures = (
            [state, wording.NONE] if accepted is None else [wording.number(m, _value(accepted, m)) for m in FIGURES]
        )
        queries = wording.NONE if accepted is None else f"{accepted.queries:,}"
        cells = [Text(printable(cell, plain)) for cell in (at.commit.date[:_DAY], at.commit.short, queries, *figures)]
        message = Text(printable(at.commit.message, plain), no_wrap=True, overflow="crop" if plain else "ellipsis")
        table.add_row(*cells, message)
    return table


def _notes(history: BaselineHistory) -> Iterator[str]:
    for at in history.accepted:
        if at.fault and at.fault != GONE:
            yield f"{at.commit.short} cannot be read: {at.fault}"
    if history.older:
        yield "Older commits are left out (--limit)."
    if history.shallow:
        yield "This clone is shallow, so older commits may be missing: `git fetch --unshallow` brings them."


def _find(at: PastBaseline, pair: tuple[str, str]) -> AcceptedFigures | None:
    return next((accepted for accepted in at.worth if (accepted.dataset, accepted.selector) == pair), None)


def _value(accepted: AcceptedFigures | None, metric: Metric) -> float:
    """A figure; NaN where there is none."""
    return math.nan if accepted is None else accepted.metrics.get(metric, math.nan)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _number(accepted: AcceptedFigures, metric: Metric) -> str:
    value = _value(accepted, metric)
    return f"{value:.10g}" if math.isfinite(value) else ""


def _title(history: BaselineHistory, pair: tuple[str, str]) -> str:
    """A selector with its dataset, named as it was accepted last."""
    dataset, selector = pair
    accepted = next(accepted for at in reversed(history.accepted) if (accepted := _find(at, pair)) is not None)
    return f"{wording.selector_title(selector, accepted.shipped)} on {dataset}"
