"""The page of `gate_chance_intervals.py`: texts only, nothing is drawn or measured here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from gate_page import table, text

METRICS, NS = ("completeness", "recall", "tokens"), (30, 100, 300)
COVERAGE = "Coverage of 95% intervals of differences"
MADE_UP = "Made-up amounts: the least coverage over shares that differ and signs"
DETECTABLE = "Power at what is called detectable (80% is meant)"
NEEDED = "Power at the number of queries that would tell (80% is meant)"
HEADS = {
    COVERAGE: ["dataset", "metric", "n", "asked", "left out", "before", "after", "without ~", "width", "p <= 0.05"],
    MADE_UP: ["sizes", "n", "spread", "before", "after, under 10 differ", "after, 10 and more", "without ~"],
    DETECTABLE: ["dataset", "metric, change", "n", "noise", "named", "detectable", "judged worse"],
    NEEDED: ["dataset", "metric", "left out", "family", "by the truth", "significant", "by 100 queries, quartiles"],
}
Rows = list[list[str]]


def page(found: Mapping[str, Rows], *, draws: int) -> str:
    """The page, and behind it every row in sections that are called as `HEADS`.

    Args:
        found: rows by title.
        draws: how many a row of the first two tables.
    """
    lines = ["# Intervals of the gate", "", answer(found), "", *summary(found[COVERAGE])]
    lines += [*text(COLUMNS), "## Further questions", "", *text(FURTHER), *_further(found)]
    lines += ["## How it was made", "", *text(MADE, f"{draws} draws a row of the first two tables.")]
    for title, rows in found.items():
        lines += [f"## {title}", "", *table(HEADS[title], rows)]
    return "\n".join(lines).rstrip() + "\n"


def answer(found: Mapping[str, Rows]) -> str:
    """How often intervals hold the truth, as one sentence."""
    after, before = (_ends(found[COVERAGE], column) for column in (6, 5))
    wild, unmarked = _ends(found[MADE_UP], 4, 5), _ends(found[MADE_UP], 6)
    return (
        "**The 95% interval that `ctxbench check` prints beside a difference holds the true difference in "
        f"{after[0]} to {after[-1]} of simulated checks on the shipped datasets, where the intervals that it printed "
        f"at first held it in {before[0]} to {before[-1]}; with made-up token counts that differ much it holds it in "
        f"{wild[0]} at worst, and in {unmarked[0]} where it is not itself marked as carried by too few values.**"
    )


def summary(rows: Rows) -> Iterator[str]:
    """The least and the most of every metric and number of queries, over datasets, repeats and chances."""
    found = []
    for metric, n in product(METRICS, map(str, NS)):
        mine = [row for row in rows if row[1:3] == [metric, n]]
        spans = [_span(_ends(mine, column)) for column in (5, 6, 7)]
        alike = _span(_ends([row for row in mine if len(set(row[4].split(" -> "))) == 1], 9))
        found.append([metric, n, *spans, alike])
    yield from table(["metric", "n", "before", "after", "without ~", "p <= 0.05 where alike"], found)


def _further(found: Mapping[str, Rows]) -> Iterator[str]:
    wild = _ends(found[MADE_UP], 4, 5)
    rows = [
        ["does the interval hold the truth, where token counts are made up?", "95%", _span(wild)],
        ["... where it is not marked as carried by too few values?", "95%", _span(_ends(found[MADE_UP], 6))],
        ["... as it was at first?", "95%", _span(_ends(found[MADE_UP], 3))],
        ["is a change that is called detectable judged worse?", "80%", _span(_ends(found[DETECTABLE], 6))],
        ["do as many queries as would tell, tell?", "80%", _span(_ends(found[NEEDED], 5))],
    ]
    yield from table(["question", "meant", "how often, least to most over all rows"], rows)


def _ends(rows: Sequence[Sequence[str]], *columns: int) -> list[str]:
    """Percentages in order; what says nothing is left out."""
    shown = {row[column] for row in rows for column in columns} - {"-"}
    return sorted(shown, key=lambda one: float(one.rstrip("%"))) or ["-"]


def _span(shown: Sequence[str]) -> str:
    """`93.0% to 100.0%`."""
    return "-" if list(shown) == ["-"] else f"{shown[0]} to {shown[-1]}"


COLUMNS = """How often an interval holds the true difference, the least and the most over datasets, repeats and chances.
`n`: queries of a check. `before`: the intervals of `ctxbench run` and `compare`, which the gate had at first; `after`:
those that a check prints. `without ~`: those not marked as carried by too few values. `p <= 0.05 where alike`: how
often two equal selectors differ significantly, which should be 5% at most."""
FURTHER = """What a check says of a difference beside its verdict: the 95% interval, the smallest change that would be
detected, and how many queries would tell."""
MADE = """Made by `python experiments/gate/gate_chance_intervals.py`. Selectors answer as `semantic/normal` does, and
leave required items out by chance, each time that they are asked; queries are drawn in whole groups with replacement.
In the tables apart, `asked` says how many times a query is asked on either side, `left out` with which chance base and
head leave a required item out, and `width` how wide the interval is after, as a multiple of before."""
