"""Tables and figures of `coverage.py` as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from coverage_exact import CELLS, HIGH, LOW


def text(*sentences: str, after: str = "") -> Iterator[str]:
    """A paragraph, and a blank line; `after` stands before all lines but the first."""
    words = " ".join(" ".join(sentences).split())
    yield from textwrap.wrap(words, 120, subsequent_indent=after, break_long_words=False, break_on_hyphens=False)
    yield ""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table, and a blank line."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def inside(value: float) -> bool:
    """Whether a coverage is within the bar."""
    return LOW <= value <= HIGH


def percent(value: float, *, digits: int = 1) -> str:
    """A coverage, bold outside the bar."""
    shown = f"{100 * value:.{digits}f}"
    return shown if inside(value) else f"**{shown}**"


def counted(values: Sequence[float]) -> str:
    """How many are within the bar."""
    return f"{sum(map(inside, values))} of {len(values)}"


def span(values: Sequence[float]) -> str:
    """Least and greatest coverage."""
    return f"from {100 * min(values):.1f} to {100 * max(values):.1f}%"


def cells() -> list[str]:
    """Headings of the nine cells."""
    return [f"{n}, {p:g}" for n, p in CELLS]
