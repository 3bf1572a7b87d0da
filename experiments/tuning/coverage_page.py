"""Tables and figures of `coverage.py` as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from coverage_exact import CELLS, HIGH, LOW

TEST_SPLIT, TUNING_SPLIT = "Test split of what was chosen", "Tuning split of what was chosen"
CONSTRAINTS = "Constraints that are taken for met"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was found of one kind of interval.

    Attributes:
        of: which.
        within: how many cells are within the bar; empty = there is no bar.
        between: the least and the most.
        note: in sentences.
    """

    of: str
    between: str
    within: str = ""
    note: str = ""


def answer(found: Sequence[Verdict]) -> str:
    """Whether intervals hold after choosing, as one sentence."""
    of = {one.of: one.between for one in found}
    return (
        "**Where `ctxbench tune` has chosen a setting, the 95% interval that it prints for the test split holds the "
        f"truth {of[TEST_SPLIT]} of the time, and that for the tuning split, which the choice was made on, "
        f"{of[TUNING_SPLIT]}; a constraint that it takes for met is met in truth {of[CONSTRAINTS]} of the time.**"
    )


def verdicts(found: Sequence[Verdict]) -> Iterator[str]:
    """What was found, as a table."""
    rows = [[one.of, one.within or "-", one.between, one.note] for one in found]
    yield from table(["of what", "within the bar", "how often, of all cells", "remarks"], rows)


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
