"""Do the 95% intervals that `ctxbench tune` prints hold: reports/tuning-coverage.md (`make coverage`).

Yes/no metrics are enumerated; all else is simulated from populations whose means are known, with fixed seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from coverage_choice import ARMS, FAMILIES, NS, SAMPLES, STRICT, Choice, choices, population
from coverage_drawn import (
    AMOUNTS,
    DRAWS,
    PAIRS,
    SWITCHES,
    TOGETHER,
    amount_coverage,
    count_coverage,
    pair_coverage,
    share_coverage,
    switch_coverage,
)
from coverage_groups import (
    RHOS,
    SIZE,
    group_sizes,
    grouped_coverage,
    grouped_differences,
    grouped_recall,
    grouped_tokens,
    uneven_sizes,
)
from pages import Page, Picture, Tables, constrained_axes, run_page

from ctxbench.evaluation.statistics import LEVEL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PS = (0.5, 0.9, 0.98)
SEED = 5
FEWER, COMPARED = 4000, 500  # samples where queries come in groups: of recall and tokens, of comparisons
GROUPED_SWITCHES = ((0.05, 0.05), (0.1, 0.02))  # shares of queries lost and won
Row = dict[str, Any]

DIFFERENCES = "differences in completeness"
GROUPED = f"completeness, groups of {SIZE}"
SIGNIFICANT = "equal sides that differ significantly"
TUNING, TEST = "tuning split of what was chosen", "test split of what was chosen"
MET = "constraints met by what was chosen"


def measure() -> Tables:
    """How often intervals hold the truth, by kind, case and number of queries; and what was chosen."""
    chosen = pd.DataFrame(choice_rows())
    return {"": pd.DataFrame([*alone(), *grouped(), *grouped_comparisons()]), "choices": chosen}


def alone() -> Iterator[Row]:
    """Queries that are independent."""
    for n, p in product(NS, PS):
        yield {"kind": "completeness", "case": f"p = {p:g}", "n": n, "covered": count_coverage(n, p)}
    for together, n, p in product((0.0, TOGETHER), NS, PS):
        covered = share_coverage(n, p, together=together, draws=DRAWS, seed=SEED)
        yield {"kind": "recall", "case": f"p = {p:g}, correlation {together:g}", "n": n, "covered": covered}
    for name, n in product(AMOUNTS, NS):
        covered = amount_coverage(name, n, draws=DRAWS, seed=SEED)
        yield {"kind": "prompt tokens", "case": AMOUNTS[name].about, "n": n, "covered": covered}
    for (lost, won), n in product(SWITCHES, NS):
        case = f"{100 * lost:g}% lost, {100 * won:g}% won"
        yield {"kind": DIFFERENCES, "case": case, "n": n, "covered": switch_coverage(n, lost, won)}
    for name, n in product(PAIRS, NS):
        covered = pair_coverage(name, n, draws=DRAWS, seed=SEED)
        yield {"kind": "differences in recall and tokens", "case": name, "n": n, "covered": covered}


def grouped() -> Iterator[Row]:
    """Queries in groups with correlated answers, by group as printed, and by query as it would be without."""
    sizes = [(group_sizes(n), f"groups of {SIZE}") for n in NS]
    every = [*sizes, (uneven_sizes(NS[-1]), "uneven groups")]
    for rho, (groups, name) in product(RHOS, every):
        n = int(groups.sum())
        for p in PS:
            by_query, by_group = grouped_coverage(groups, p, rho=rho, draws=DRAWS, seed=SEED)
            yield _grouped_row(f"completeness, {name}", rho, n, by_query, by_group, p=p)
        by_query, by_group = grouped_recall(groups, 0.9, rho=rho, draws=FEWER, seed=SEED)
        yield _grouped_row(f"recall, {name}", rho, n, by_query, by_group, p=0.9)
        by_query, by_group = grouped_tokens(groups, rho=rho, draws=FEWER, seed=SEED)
        yield _grouped_row(f"prompt tokens, {name}", rho, n, by_query, by_group)


def _grouped_row(kind: str, rho: float, n: int, by_query: float, by_group: float, *, p: float | None = None) -> Row:
    case = f"correlation {rho:g}" + (f", p = {p:g}" if p else "")
    return {"kind": kind, "case": case, "n": n, "covered": by_group, "by_query": by_query}


def grouped_comparisons() -> Iterator[Row]:
    """Comparisons of completeness where queries come in groups."""
    every = [*((group_sizes(n), f"groups of {SIZE}") for n in NS), (uneven_sizes(NS[-1]), "uneven groups")]
    for (lost, won), rho, (groups, name) in product(GROUPED_SWITCHES, RHOS, every):
        (query_covered, query_differs), (covered, differs) = grouped_differences(
            groups, lost, won, rho=rho, draws=COMPARED, seed=SEED
        )
        n, case = int(groups.sum()), f"{100 * lost:g}% lost, {100 * won:g}% won, correlation {rho:g}"
        yield {"kind": f"{DIFFERENCES}, {name}", "case": case, "n": n, "covered": covered, "by_query": query_covered}
        if lost == won:
            yield {
                "kind": SIGNIFICANT,
                "case": f"{name}, {case}",
                "n": n,
                "covered": differs,
                "by_query": query_differs,
            }


def choice_rows() -> Iterator[Row]:
    """What each policy chooses, among few settings or all, and how often intervals of it hold."""
    whole = population(SEED)
    for (name, families), n in product(FAMILIES.items(), NS):
        arms = choices(whole, families, n, samples=SAMPLES, seed=SEED)
        for (policy, level), arm in zip(ARMS, arms, strict=True):
            if name == "all" or level == LEVEL:
                yield {"settings": name, "policy": policy.name, "confidence": level, "n": n, **_sums(arm)}


def _sums(arm: Sequence[Choice | None]) -> Row:
    """Shares over the samples in which something was chosen; `optimism` is that of the constraint's mean."""
    kept = [choice for choice in arm if choice is not None]
    row: Row = {"chosen": len(kept) / len(arm), "met": np.mean([choice.met for choice in kept])}
    for side, (index, mean) in product(("tuning", "test"), enumerate(("constraint", "objective"))):
        row[f"{mean}_{side}"] = np.mean([choice.said[side][index].covered for choice in kept])
    return row | {"optimism": np.mean([choice.said["tuning"][0].optimism for choice in kept])}


# ---------------------------------------------------------------------------------------------------- the page


def page(tables: Tables) -> Page:
    """The page of these tables."""
    rows = by_kind(tables)
    spans = rows.groupby(["kind", "n"], sort=False)["covered"].agg(["min", "max"])
    choices_made = tables["choices"]
    strict = choices_made[choices_made["confidence"] == STRICT]["met"]
    by_query = rows[rows["kind"] == GROUPED]["by_query"]
    return Page(
        title="Do the intervals of `ctxbench tune` hold?",
        answer=(
            f"Mostly. After a choice, intervals of the test split hold {_span(spans.loc[TEST])} of the time, those of "
            f"the tuning split {_span(spans.loc[TUNING])}."
        ),
        picture=Picture(
            draw=partial(draw, spans),
            alt="How often 95% intervals hold the truth, the least and the most, by kind",
            width=600,
            height=440,
        ),
        table=[
            {"kind": kind, **{f"n = {n}": _cell(spans, kind, n) for n in NS}} for kind in spans.index.unique("kind")
        ],
        notes=(
            """How often a 95% interval holds the truth, in percent, the least and the most over cases; n: queries.
            Most should lie between 93 and 97. Differences are
            too wide where few queries differ.""",
            f"""Paraphrases: a sample with groups of correlated queries is worth fewer. Intervals by group, as printed,
            hold as the table says; by query they would hold {_span_of(by_query)}, and equal sides would differ
            significantly in up to {100 * rows[rows["kind"] == SIGNIFICANT]["by_query"].max():.1f}% of comparisons.""",
            f"""A constraint that is taken for met is met in truth {_span(spans.loc[MET])} of the time where 95% are
            hoped for; with `confidence: {STRICT:g}` {_span_of(strict)}. On the tuning split, the completeness of what
            was chosen is too high by {_points(choices_made, "min")} to {_points(choices_made, "max")} points.""",
        ),
        made=f"""`make coverage`: completeness exactly, by enumeration; the rest from {DRAWS:,} samples of made-up
        populations with known means ({FEWER:,} of recall and tokens in groups, {COMPARED} of comparisons). Choices: the
        exact sweep over up to 110,000 settings by three policies, {SAMPLES} samples of n queries to tune on and n to
        test on, so that a coverage has a standard error of {100 * np.sqrt(0.95 * 0.05 / SAMPLES):.1f} points.""",
    )


def by_kind(tables: Tables) -> pd.DataFrame:
    """All coverages in one column, with those of what was chosen from all settings by the usual confidence."""
    chosen = tables["choices"]
    chosen = chosen[(chosen["settings"] == "all") & (chosen["confidence"] == LEVEL)]
    parts = [tables[""]]
    for kind, columns in (
        (TEST, ["constraint_test", "objective_test"]),
        (TUNING, ["constraint_tuning", "objective_tuning"]),
        (MET, ["met"]),
    ):
        parts += [chosen[["n"]].assign(kind=kind, covered=chosen[column]) for column in columns]
    return pd.concat(parts, ignore_index=True)


def _cell(spans: pd.DataFrame, kind: str, n: int) -> str:
    return _span(spans.loc[[(kind, n)]]) if (kind, n) in spans.index else "-"


def _points(choices_made: pd.DataFrame, end: str) -> str:
    chosen = choices_made[(choices_made["settings"] == "all") & (choices_made["confidence"] == LEVEL)]
    return f"{100 * chosen[chosen['policy'] != 'budget']['optimism'].agg(end):.1f}"


def _span(spans: pd.DataFrame) -> str:
    return _span_of([spans["min"].min(), spans["max"].max()])


def _span_of(values: Sequence[float]) -> str:
    return f"{100 * min(values):.1f} to {100 * max(values):.1f}%"


def draw(spans: pd.DataFrame, figure: Figure) -> None:
    """A bar from the least to the most for each kind and number of queries."""
    axes = constrained_axes(figure)
    kinds = [kind for kind in spans.index.unique("kind") if kind not in (MET, SIGNIFICANT)]
    for index, (n, colour) in enumerate(zip(NS, ("0.75", "#7fb2d9", "C0"), strict=True)):
        for height, kind in enumerate(kinds):
            if (kind, n) in spans.index:
                least, most = 100 * spans.loc[(kind, n)]
                label = f"{n} queries" if height == 0 else None
                y = height + 0.25 * (index - 1)
                axes.plot([least, max(most, least + 0.3)], [y, y], color=colour, linewidth=4, label=label)
    axes.axvline(100 * LEVEL, color="0.4", linestyle="--", zorder=0)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.invert_yaxis()
    axes.set_xlabel("% of intervals that hold the truth")
    axes.grid(visible=False, axis="y")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)


if __name__ == "__main__":
    run_page("tuning-coverage", measure, page, about=__doc__.splitlines()[0])
