"""Latency as a table on the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ctxbench.bench.latency import Quantiles
from ctxbench.io.console import show_tables
from ctxbench.io.visible import one_line
from ctxbench.report.table_parts import dim_notes, empty_table

if TYPE_CHECKING:
    from rich.console import RenderableType


def print_latency(times: Mapping[str, Quantiles], embedding: Quantiles | None) -> None:
    """Print the quantiles of requests by selector, and of embedding a text; None where no selector embeds any."""
    show_tables(lambda _: _parts(times, embedding))


def _parts(times: Mapping[str, Quantiles], embedding: Quantiles | None) -> list[RenderableType]:
    from rich.text import Text

    table = empty_table()
    table.add_column("ms", overflow="fold")
    for heading in ("n", "p50", "p95", "p99"):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = [*times.items(), *([("embedding a text", embedding)] if embedding else [])]
    for name, quantiles in rows:
        milliseconds = (f"{1000 * value:,.2f}" for value in (quantiles.p50, quantiles.p95, quantiles.p99))
        table.add_row(Text(one_line(name)), f"{quantiles.n:,}", *milliseconds)
    note = "Vectors are stored: a request whose text is new takes longer by the embedding of each of its chunks."
    return [table, *dim_notes([note] if embedding else [])]
