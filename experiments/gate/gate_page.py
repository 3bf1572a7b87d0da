"""Tables and paragraphs of the page as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence


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


def bold(shown: str, *, unless: bool) -> str:
    """What is outside its bar is bold."""
    return shown if unless else f"**{shown}**"


def share(value: float) -> str:
    """A share as percent."""
    return f"{100 * value:.1f}%"
