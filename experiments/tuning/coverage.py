"""Do the 95% intervals that `tune` prints hold the truth 95 times in 100? Writes reports/tuning-coverage.md.

Run from the project's folder: `python experiments/tuning/coverage.py`. Yes/no metrics are enumerated; all else is
simulated from populations whose means are known, with fixed seeds, so that the page is the same bytes every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from coverage_choice import ARMS, FAMILIES, POLICIES, SAMPLES, STRICT, Choice, choices, population
from coverage_drawn import (
    AMOUNTS,
    DRAWS,
    PAIRS,
    REQUIRED,
    SWITCHES,
    TOGETHER,
    amount_tally,
    pair_tally,
    share_tally,
    switch_coverage,
)
from coverage_exact import CELLS, GRID_N, LOW, METHODS, NS, PS, Overall, coverage, overall, possible
from coverage_groups_page import groups
from coverage_page import (
    CONSTRAINTS,
    TEST_SPLIT,
    TUNING_SPLIT,
    Verdict,
    answer,
    cells,
    counted,
    inside,
    percent,
    span,
    table,
    text,
    verdicts,
)

from ctxbench.cli.common import run_script
from ctxbench.evaluation.statistics import LEVEL
from ctxbench.report.pages import titles, write_parted

ROOT = Path(__file__).parents[2]
SEED = 5


def main() -> None:
    """Make the page."""
    verdict: list[Verdict] = []
    parts = {part: "\n".join(part(verdict)).rstrip() for part in (yes_no, shares, amounts, differences, chosen)}
    in_groups = "\n".join(groups(verdict, ROOT / "datasets", seed=SEED)).rstrip()
    after_choosing = parts.pop(chosen)
    page = page_text(verdict, after_choosing=after_choosing, apart=[*parts.values(), in_groups])
    write_parted(ROOT / "reports" / "tuning-coverage.md", page, [one for one in titles(page) if one not in READ])


def page_text(verdict: Sequence[Verdict], *, after_choosing: str, apart: Sequence[str]) -> str:
    """The page: the answer, what was found, the section on what was chosen, and the others."""
    found = "\n".join(["# Do the intervals of `tune` hold?", "", answer(verdict), "", *verdicts(verdict), *text(WORDS)])
    return "\n\n".join([found.rstrip(), after_choosing, METHOD, *apart]) + "\n"


# ------------------------------------------------------------------------------------------------------ sections


def yes_no(verdict: list[Verdict]) -> Iterator[str]:
    """The nine cells of the bar."""
    made = {name: {n: method(n) for n in NS} for name, method in METHODS.items()}
    found = {name: [coverage(bounds[n], p) for n, p in CELLS] for name, bounds in made.items()}
    missed = [cell for cell, value in zip(CELLS, found["Wilson"], strict=True) if not inside(value)]
    can = {cell: possible(*cell) for cell in CELLS}
    yield "## Yes/no metrics: completeness, and completeness of what is reachable"
    yield ""
    yield from text(
        "Exact: the chances of all counts, added up. What is printed is Wilson's interval; the others are beside it."
    )
    verdict.append(
        Verdict(
            of="Yes/no metrics (completeness)",
            within=f"{counted(found['Wilson'])} cells",
            between=span(found["Wilson"]),
            note="Not at "
            + " and ".join(
                f"n = {n}, p = {p:g} ({100 * found['Wilson'][CELLS.index((n, p))]:.2f}%"
                f"{', where no interval made from the count can be' if not can[n, p].ranges else ''})"
                for n, p in missed
            )
            + ".",
        )
    )
    rows = [[name, *(percent(value, digits=2) for value in values), counted(values)] for name, values in found.items()]
    yield from table(["n, p", *cells(), "within"], rows)
    yield from text(
        "An interval that is made from the count alone, and whose ends do not fall as the count rises, holds p for a "
        "range of counts; so its coverage is the chance of a range. How many ranges have a chance within the bar, and "
        "the chances next to it:"
    )
    rows = [
        ["ranges within the bar", *(str(can[cell].ranges) for cell in CELLS)],
        ["next below", *(f"{100 * can[cell].below:.2f}" for cell in CELLS)],
        ["next above", *(f"{100 * can[cell].above:.2f}" for cell in CELLS)],
    ]
    yield from table(["n, p", *cells()], rows)
    for n, p in (cell for cell in CELLS if not can[cell].ranges):
        yield from text(f"At n = {n}, p = {p:g} there is none: **no such interval can be within the bar there.**")
    yield from text(
        f"Over n = {GRID_N[0]} to {GRID_N[-1]} and p = 0.5 to 0.9975 (below 0.5 all is the mirror image). `too high` "
        "is the chance that the low end lies above p, so that a constraint `at_least` is taken for met and is not; "
        "nominally 2.5%."
    )
    head = ["method", "mean coverage", "least", "of the grid within the bar", "width", "too high", "at most"]
    yield from table(head, [_overall_row(name, overall(method)) for name, method in METHODS.items()])
    yield from text(YES_NO)


def _overall_row(name: str, one: Overall) -> list[str]:
    shares = [f"{100 * one.mean:.2f}", f"{100 * one.least:.1f}", f"{100 * one.inside:.1f}%", f"{one.width:.4f}"]
    return [name, *shares, f"{100 * one.above:.2f}", f"{100 * one.most_above:.2f}"]


def shares(verdict: list[Verdict]) -> Iterator[str]:
    """Recall at the nine cells."""
    spread = ", ".join(f"{100 * share:.0f}%" for share in REQUIRED)
    yield "## Shares: recall"
    yield ""
    yield from text(
        f"Mean recall p; {spread} of the queries need 1, 2, 3, 4 items, which are found independently, or with "
        f"correlation {TOGETHER:g} within a query. {DRAWS:,} samples a cell."
    )
    found = {
        name: [share_tally(n, p, together=together, draws=DRAWS, seed=SEED).covered for n, p in CELLS]
        for name, together in (("independent", 0.0), ("together", TOGETHER))
    }
    rows = [[name, *map(percent, values), counted(values)] for name, values in found.items()]
    yield from table(["n, p", *cells(), "within"], rows)
    values = [value for one in found.values() for value in one]
    verdict.append(Verdict(of="Recall", within=f"{counted(values)} cells", between=span(values)))


def amounts(verdict: list[Verdict]) -> Iterator[str]:
    """Tokens."""
    yield "## Amounts: prompt tokens, items"
    yield ""
    yield from text(
        f"Sums of lognormal sizes; {DRAWS:,} samples a cell. In brackets how often the interval lies wholly below the "
        "truth, so that a budget `at_most` is taken for met and is not; nominally 2.5%."
    )
    rows, good, values = [], [], []
    for name, amount in AMOUNTS.items():
        found = [amount_tally(name, n, draws=DRAWS, seed=SEED) for n in NS]
        values += [one.covered for one in found]
        good += [name] * all(inside(one.covered) for one in found)
        covered = [f"{percent(one.covered)} ({100 * one.below:.1f})" for one in found]
        width = f"{100 * found[0].width:.0f}% of the mean"
        rows.append([name, f"{amount.about}; sigma {amount.sigma:g}", *covered, width])
    yield from table(["tokens of", "what", *(f"n = {n}" for n in NS), "width at n = 50"], rows)
    bad = ", ".join(f"`{name}` ({amount.about})" for name, amount in AMOUNTS.items() if name not in good)
    within, note = f"{counted(values)} cells", f"Not everywhere for {bad}." if bad else ""
    verdict.append(Verdict(of="Prompt tokens", within=within, between=span(values), note=note))


def differences(verdict: list[Verdict]) -> Iterator[str]:
    """Paired comparisons."""
    yield "## Paired differences"
    yield ""
    yield from text(
        "Completeness; exact, over all counts of queries lost and won. Where few switch, the interval is wider than it "
        "need be: one loss and one win are added, so that it is not [0, 0] where nothing was seen to differ."
    )
    switches = {(lost, won): [switch_coverage(n, lost, won) for n in NS] for lost, won in SWITCHES}
    rows = [[f"{100 * lost:g}%, {100 * won:g}%", *map(percent, found)] for (lost, won), found in switches.items()]
    yield from table(["lost, won", *(f"n = {n}" for n in NS)], rows)
    values = [value for found in switches.values() for value in found]
    note = "Too wide where few queries switch, never too narrow." if min(values) >= LOW else ""
    within = f"{counted(values)} cells"
    verdict.append(Verdict(of="Differences in completeness", within=within, between=span(values), note=note))
    yield from text(
        f"Recall and tokens; {DRAWS:,} samples a cell. `says it holds`: how often the interval does not itself say, at "
        "these n, that there are too few queries to rely on it."
    )
    rows, values = [], []
    for name, pair in PAIRS.items():
        found = [pair_tally(name, n, draws=DRAWS, seed=SEED) for n in NS]
        values += [one.covered for one in found]
        says = ", ".join(f"{100 * one.held:.0f}%" for one in found)
        rows.append([name, pair.about, *(percent(one.covered) for one in found), says])
    yield from table(["difference", "what", *(f"n = {n}" for n in NS), "says it holds"], rows)
    verdict.append(
        Verdict(
            of="Differences in recall and tokens",
            within=f"{counted(values)} cells",
            between=span(values),
            note="Too narrow where most queries are the same on both sides and the others all differ to one side.",
        )
    )


def chosen(verdict: list[Verdict]) -> Iterator[str]:
    """What was chosen, on either split."""
    whole = population(SEED)
    yield "## After choosing"
    yield ""
    yield from text(AFTER_CHOOSING)
    yield from (f"* `{policy.name}`: {policy.about}" for policy in POLICIES)
    yield ""
    found = {
        (name, n): choices(whole, families, n, samples=SAMPLES, seed=SEED)
        for name, families in FAMILIES.items()
        for n in NS
    }
    rows = []
    for name in FAMILIES:
        for place, (policy, level) in enumerate(ARMS):
            if name == "all" or level == LEVEL:
                for n in NS:
                    rows.append([name, policy.name, f"{level:g}", str(n), *_choice_cells(found[name, n][place])])
    yield from table(["settings", "policy", "confidence", "n", *CHOICE_HEAD], rows)
    verdict += _choice_verdict({n: found["all", n] for n in NS})


def _choice_cells(arm: Sequence[Choice | None]) -> Iterator[str]:
    """How often something was chosen, the constraint held in truth, and intervals covered."""
    kept = [one for one in arm if one is not None]
    yield f"{100 * len(kept) / len(arm):.0f}%"
    if not kept:
        yield from [""] * (len(CHOICE_HEAD) - 1)
        return
    true = met(kept)
    yield f"{100 * true:.1f}" if true >= LEVEL else f"**{100 * true:.1f}**"
    for which in (0, 1):
        tuning, test = (_side(kept, side, which) for side in ("tuning", "test"))
        yield from (tuning[0], test[0], tuning[1])
    objective = float(np.mean([one.objective for one in kept]))
    yield f"{objective:,.0f}" if objective > 1 else f"{100 * objective:.1f}%"


def _choice_verdict(found: Mapping[int, Sequence[Sequence[Choice | None]]]) -> Iterator[Verdict]:
    """What the policies came to, over all settings."""
    kept = {
        level: [
            [one for one in arm if one is not None]
            for n in NS
            for (_, own), arm in zip(ARMS, found[n], strict=True)
            if own == level
        ]
        for level in (LEVEL, STRICT)
    }
    sides = {
        side: [covered(arm, side, which) for arm in kept[LEVEL] for which in (0, 1)] for side in ("tuning", "test")
    }
    yield Verdict(
        of=TEST_SPLIT,
        within=f"{counted(sides['test'])} cells",
        between=span(sides["test"]),
        note=f"{CHANCE}. {ALL_SETTINGS}",
    )
    off = [
        optimism([one for one in arm if one is not None], "tuning", 0)
        for n in NS
        for (policy, level), arm in zip(ARMS, found[n], strict=True)
        if level == LEVEL and policy.minimise
    ]
    yield Verdict(
        of=TUNING_SPLIT,
        within=f"{counted(sides['tuning'])} cells",
        between=span(sides["tuning"]),
        note=f"{CHANCE}. {ALL_SETTINGS} The completeness that is constrained is too high by {100 * min(off):.1f} to "
        f"{100 * max(off):.1f} points on average: what holds on other queries is said by the test split.",
    )
    true = {level: [met(arm) for arm in arms] for level, arms in kept.items()}
    yield Verdict(
        of=CONSTRAINTS,
        between=span(true[LEVEL]),
        note=f"Met in truth at what was chosen from all settings, where 95% were hoped for; with `confidence: "
        f"{STRICT:g}` {span(true[STRICT])}.",
    )


def error(samples: int) -> float:
    """Standard error of a coverage of 95%, in points."""
    return 100 * float(np.sqrt(0.95 * 0.05 / samples))


def met(kept: Sequence[Choice]) -> float:
    """How often the constraint holds in truth."""
    return float(np.mean([one.met for one in kept]))


def covered(kept: Sequence[Choice], side: str, which: int) -> float:
    """Coverage on a side, of the constraint's mean (0) or the objective (1)."""
    return float(np.mean([one.said[side][which].covered for one in kept]))


def optimism(kept: Sequence[Choice], side: str, which: int) -> float:
    """Mean optimism on a side, likewise."""
    return float(np.mean([one.said[side][which].optimism for one in kept]))


def _side(kept: Sequence[Choice], side: str, which: int) -> tuple[str, str]:
    """Coverage on a side, and the mean optimism in points or percent."""
    if not kept:
        return "", ""
    return percent(covered(kept, side, which)), f"{100 * optimism(kept, side, which):+.1f}"


# -------------------------------------------------------------------------------------------------------- texts

ALL_SETTINGS = f"Chosen from all settings, with confidence {LEVEL:g}."
CHANCE = f"Standard error {100 * float(np.sqrt(0.95 * 0.05 / SAMPLES)):.1f} points"
CHOICE_HEAD = (
    *("chosen", "constraint true", "constraint: tuning", "test", "optimism"),
    *("objective: tuning", "test", "optimism", "true objective"),
)
READ = ("After choosing", "How it was made")
WORDS = f"""`ctxbench tune` prints means with 95% intervals, and meets constraints by their ends. Such an interval
should hold the truth 95 times in 100. A cell is one kind of sample, of n queries whose true mean is p. The bar is 93
to 97%, at n = {", ".join(map(str, NS))} and p = {", ".join(f"{p:g}" for p in PS)}."""
METHOD = f"""## How it was made

`python experiments/tuning/coverage.py` (`make coverage`) makes this page, which takes some minutes.

* **Bold** figures are outside the bar. Coverage is how often an interval holds the truth, in percent.
* A coverage simulated from {DRAWS:,} samples has a standard error of 0.2 points. Where there are fewer samples, a true
  coverage of 95% may well be shown outside the bar.
* Queries are independent in all sections but that on queries in groups. Intervals by group, which are those that are
  printed, are those by query where every query is alone."""
YES_NO = """No method is within the bar in all nine cells, and none could be. The posterior under the prior
beta(3/4, 3/4), which was found by looking for one that does well in these very cells, is within it in one cell more
than Wilson's interval, which is above it there by 0.03 points; over the grid it is within the bar a little less often.
Wilson's interval stays: it is within the bar on more of the grid than any other here, and its closed form lets the
constraints of a million settings be checked."""
AFTER_CHOOSING = f"""A made-up population in which all means are known; {SAMPLES} samples of n queries to tune on and n
to test on, so that a coverage
has a standard error of {error(SAMPLES):.1f} points. What is chosen is what `tune` chooses, by the exact
sweep: of the first k items, k = 1 to 30 (`first k`), or also of topN 1 to 20 with every includeScore or every margin
(`all`: some 17,000 settings at n = 50, 110,000 at n = 300). `constraint true`: how often the constraint holds in truth
at what was chosen; bold below 95%. `tuning`, `test`: coverage of the 95% interval on either split, for the mean that is
constrained and for the objective. `optimism`: tuning split less truth, in points of completeness or percent of tokens.
`confidence`: the level of the bounds that constraints are met by; {STRICT:g} is a stricter one."""
if __name__ == "__main__":
    run_script(main)
