"""The section of `coverage.py` about queries that come in groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from coverage_drawn import DRAWS
from coverage_exact import CELLS, NS, PS
from coverage_groups import (
    FIRST,
    RHOS,
    SIGMA,
    SIZE,
    group_sizes,
    grouped_coverage,
    grouped_recall,
    grouped_switches,
    grouped_tokens,
    observed,
    uneven_sizes,
)
from coverage_page import Verdict, cells, counted, percent, span, table, text

from ctxbench.datasets.files import read_dataset
from ctxbench.model.arrays import IntArray

FEWER = 4000
COMPARED = 500  # samples a comparison
RECALL = 0.9
SWITCHES = ((0.05, 0.05), (0.1, 0.02))  # shares of queries lost and won
DATASETS = ("workbench", "freight")
NAMES = ("by query", "by group")


def groups(verdict: list[Verdict], datasets: Path, *, seed: int) -> Iterator[str]:
    """Queries in groups."""
    yield "## Queries in groups"
    yield ""
    yield from text(
        f"Completeness where queries come in groups of {SIZE} (a request and its paraphrases) with correlated answers; "
        f"the truth is that of all groups there could be. {DRAWS:,} samples a cell. `by query` is Wilson's interval as "
        "above. `by group`, which is printed, is Wilson's at the number of independent answers that the sample is "
        "worth by Kish's variance (`worth` in `ctxbench/evaluation/comparisons.py`). Constraints are met by bounds "
        "for the share of the queries that the completeness of the base with its defaults is worth."
    )
    rows, apart = [], {name: [0.0] * 0 for name in NAMES}
    for rho in RHOS:
        both = [grouped_coverage(group_sizes(n), p, rho=rho, draws=DRAWS, seed=seed) for n, p in CELLS]
        for name, found in zip(NAMES, zip(*both, strict=True), strict=True):
            rows.append([f"{rho:g}, {name}", *map(percent, found), counted(found)])
            apart[name] += found if rho else ()
    yield from table(["correlation", *cells(), "within"], rows)
    sizes = uneven_sizes(NS[-1])
    yield from text(
        f"With {NS[-1]} queries in {len(sizes)} uneven groups ({', '.join(map(str, sizes[:5]))}, ... queries), as "
        "`bfcl-live` has them:"
    )
    both = {rho: [grouped_coverage(sizes, p, rho=rho, draws=DRAWS, seed=seed) for p in PS] for rho in RHOS}
    yield from table(["correlation", *(f"p = {p:g}" for p in PS)], _rows(both))
    uneven = [cell for rho, found in both.items() if rho for cell in found]
    verdict.append(
        Verdict(
            of=f"Queries in groups of {SIZE} with correlated answers, by group, as printed",
            within=f"{counted(apart['by group'])} cells",
            between=span(apart["by group"]),
            note=f"By query {counted(apart['by query'])}, {span(apart['by query'])}. In uneven groups, some of which "
            f"are large, {span([one for _, one in uneven])}, by query {span([one for one, _ in uneven])}.",
        )
    )
    yield from text(
        f"Recall {RECALL:g}, items found with a chance that a group shares, and prompt tokens, lognormal, sigma "
        f"{SIGMA:g}, with correlated logarithms; {FEWER:,} samples a cell. `by group`, which is printed, is for recall "
        "Wilson's interval at the size that the groups' sums are worth, for tokens that of one value a group in place "
        "of one a query."
    )
    every = (*map(group_sizes, NS), sizes)
    recall = {rho: [grouped_recall(one, RECALL, rho=rho, draws=FEWER, seed=seed) for one in every] for rho in RHOS}
    tokens = {rho: [grouped_tokens(one, rho=rho, draws=FEWER, seed=seed) for one in every] for rho in RHOS}
    head = [*(f"n = {n}" for n in NS), f"n = {NS[-1]}, uneven"]
    yield from table(["recall: correlation", *head], _rows(recall))
    yield from table(["tokens: correlation", *head], _rows(tokens))
    yield from _comparisons(verdict, every, head, seed=seed)
    yield from text(
        f"What the datasets that ship have (tuning split, the first {', '.join(map(str, FIRST))} items of `semantic`):"
    )
    shown = []
    for row in [row for name in DATASETS for row in observed(read_dataset(datasets / name))]:
        worth = f"{row.worth:.0f} ({100 * row.worth / row.queries:.0f}%)"
        about = [row.dataset, str(row.first), str(row.queries), str(row.groups), f"{100 * row.mean:.1f}%"]
        shown.append([*about, f"{row.correlation:.2f}", worth, f"{row.tokens:.2f}"])
    columns = ["dataset", "items", "queries", "groups", "complete", "correlation", "worth", "correlation of tokens"]
    yield from table(columns, shown)


def _comparisons(verdict: list[Verdict], every: Sequence[IntArray], head: Sequence[str], *, seed: int) -> Iterator[str]:
    """Paired comparisons of completeness."""
    error = 100 * math.sqrt(0.95 * 0.05 / COMPARED)
    yield from text(
        f"Paired comparisons of completeness, {COMPARED:,} samples a cell, so that a coverage has a standard error of "
        f"{error:.1f} points. `by group`, which is printed, flips the signs of the groups' sums of differences, and "
        "its interval is that of the number of independent pairs that their variance is worth. In brackets how often "
        "the two sides differ significantly at 5%."
    )
    rows, told = [], {name: [0.0] * 0 for name in NAMES}
    for lost, won in SWITCHES:
        for rho in RHOS:
            both = [grouped_switches(one, lost, won, rho=rho, draws=COMPARED, seed=seed) for one in every]
            for name, found in zip(NAMES, zip(*both, strict=True), strict=True):
                shown = [f"{percent(one.covered)} ({100 * one.told:.1f})" for one in found]
                rows.append([f"{100 * lost:g}%, {100 * won:g}%; {rho:g}, {name}", *shown])
                told[name] += [one.told for one in found] if lost == won and rho else []
    yield from table(["lost, won; correlation", *head], rows)
    verdict.append(
        Verdict(
            of="Comparisons where queries come in groups: how often equal sides differ significantly at 5%",
            between=span(told["by group"]),
            note=f"By group, as printed; {span(told['by query'])} by query.",
        )
    )


def _rows(found: Mapping[float, Sequence[tuple[float, float]]]) -> list[list[str]]:
    """A line for each correlation, by query and by group."""
    return [
        [f"{rho:g}, {name}", *map(percent, values)]
        for rho, both in found.items()
        for name, values in zip(NAMES, zip(*both, strict=True), strict=True)
    ]
