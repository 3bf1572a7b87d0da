"""Parts of tables on the console, which all look alike: the empty table, and the notes below it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ctxbench.report.wording import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


def empty_table() -> Table:
    """A table without columns, ruled below its headings only."""
    from rich import box
    from rich.table import Table

    return Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim", show_edge=False)


def dim_notes(notes: Iterable[str], *, plain: bool = False) -> list[RenderableType]:
    """Notes below a table, each a paragraph; without signs that the terminal lacks where it is plain."""
    from rich.padding import Padding
    from rich.text import Text

    return [Padding(Text(printable(note, plain), style="dim"), (0, 0, 0, 2)) for note in notes]
