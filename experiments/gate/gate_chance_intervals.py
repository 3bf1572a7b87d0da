"""Do the intervals of differences that `ctxbench check` prints hold: reports/gate-intervals.md (`make gate-intervals`).

Selectors are those of gate_chance.py: they answer as a shipped one, and leave required items out by chance. Some ten
minutes on two cores.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from gate_chance import COMPLETENESS, NS, RECALL, TOKENS, Asked, Sample, Values, drawn, pair_of, populations
from pages import Page, Picture, Tables, constrained_axes, each, run_page

from ctxbench.evaluation.comparisons import agreeing, gain_loss_interval, grouped_compare
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.statistics import Comparison, Interval, Scale, correct
from ctxbench.gate.results import MetricVerdict, Verdict, judge_metrics
from ctxbench.gate.settings import CheckSettings
from ctxbench.model.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASETS = ("workbench", "freight")
SIMULATED = 400
JUDGED = (COMPLETENESS, RECALL, TOKENS)
CHANCES = ((0.1, 0.1), (0.1, 0.2), (0.0, 0.1), (0.0, 0.3))  # that base and head leave a required item out
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0)  # of the queries that differ, where amounts are made up
SPREADS = (1.0, 2.0, 3.0, 6.0)  # of amounts among queries, in mean sizes of a difference
CHANGES = ("completeness: lost", "recall: all lost", "tokens: some by the spread", "tokens: some, lognormal")
SIZES = ("equal", "lognormal 0.5", "lognormal 1", "items of workbench")
Rows = list[dict[str, Any]]


def intervals(name: str, n: int, repeats: int, chances: tuple[float, float]) -> Rows:
    """Coverage of all intervals and of those without the mark `~`, and how often p is at most 0.05, by metric."""
    population = populations(name)[0]
    rng = np.random.default_rng([n, repeats, *(round(100 * chance) for chance in chances)])
    truth = [population.truth(chance) for chance in chances]
    checks: dict[Metric, list[Comparison]] = {metric: [] for metric in JUDGED}
    for _ in range(SIMULATED):
        sample = drawn(population, n, rng)
        base, head = (
            Asked.of(population, sample, chance=chance, repeats=repeats, rng=rng).values for chance in chances
        )
        for metric in JUDGED:
            checks[metric].append(_compared(base[metric], head[metric], sample.group, _scale(metric, repeats)))
    rows = []
    for metric, comparisons in checks.items():
        true = truth[1][metric] - truth[0][metric]
        unmarked = [each.interval for each in comparisons if each.interval.holds]
        row = {"dataset": name, "metric": str(metric), "n": n, "repeats": repeats}
        row |= {"base_chance": chances[0], "head_chance": chances[1]}
        row |= {"covered": _share([each.interval for each in comparisons], true)}
        row |= {"covered_unmarked": _share(unmarked, true) if len(unmarked) >= SIMULATED / 10 else np.nan}
        rows.append({**row, "significant": np.mean([each.p <= each.alpha for each in comparisons])})
    return rows


def made_up(kind: str, n: int, spread: float) -> Rows:
    """Coverage where a share of the queries costs more or less by random sizes, the least over shares and signs."""
    rng, sizes = np.random.default_rng([n, round(10 * spread), len(kind)]), _sizes(kind)
    covered: list[float] = []
    unmarked: list[float] = []
    for share, up in product(SHARES, (1.0, 0.8, 0.5)):
        true, after = share * (2 * up - 1), []
        for _ in range(SIMULATED // 2):
            away = np.where(rng.random(n) < share, sizes(rng, n) * np.where(rng.random(n) < up, 1.0, -1.0), 0.0)
            base = rng.normal(100.0, spread, n)
            after.append(gain_loss_interval(base, base + away, np.arange(n), scale="amount"))
        covered.append(_share(after, true))
        sure = [interval for interval in after if interval.holds]
        if len(sure) >= len(after) / 4:
            unmarked.append(_share(sure, true))
    least = {"covered": min(covered), "covered_unmarked": min(unmarked, default=np.nan)}
    return [{"sizes": kind, "n": n, "spread": spread, **least}]


def detectable(name: str, n: int, noise: float, kind: str) -> Rows:
    """How often a change as large as what is said to be detectable is judged worse; NaN where few checks say it."""
    population, rng = populations(name)[0], np.random.default_rng([n, round(100 * noise), len(kind)])
    metric = next(metric for metric in JUDGED if str(metric) == kind.partition(":")[0])
    sizes: list[float] = []
    worse: list[bool] = []
    for _ in range(SIMULATED // 2):
        sample = drawn(population, n, rng)
        base, same, head = (Asked.of(population, sample, chance=noise, repeats=1, rng=rng).values for _ in range(3))
        size = _judged(base, same, sample)[metric].detectable
        if size is None:
            continue
        values = _changed(kind, head[metric], size, rng)
        if values is not None:
            sizes.append(size)
            worse.append(_judged(base, {**head, metric: values}, sample)[metric].verdict is Verdict.WORSE)
    power = np.mean(worse) if len(worse) >= SIMULATED / 20 else np.nan
    return [{"dataset": name, "change": kind, "n": n, "noise": noise, "checks": len(sizes), "judged_worse": power}]


def needed(name: str, metric: Metric, chances: tuple[float, float], family: int) -> Rows:
    """How often as many queries as are needed show a difference, by the formula with the true difference."""
    population = populations(name)[0]
    rng = np.random.default_rng([family, *(round(100 * chance) for chance in chances)])

    def compared(n: int) -> Comparison:
        sample = drawn(population, n, rng)
        base, head = (Asked.of(population, sample, chance=chance, repeats=1, rng=rng).values for chance in chances)
        scale = _scale(metric, 1)
        return grouped_compare(base[metric], head[metric], sample.group, scale=scale, alpha=0.05 / family)

    large = compared(2_000)  # for how the differences spread; their mean is known
    true = population.truth(chances[1])[metric] - population.truth(chances[0])[metric]
    enough, applies = correct({"": replace(large, difference=true)})[""], large.n / 2_000
    if enough.needed is None:
        return []
    power = np.mean([compared(round(enough.needed / applies)).significant for _ in range(SIMULATED // 5)])
    row = {"dataset": name, "metric": str(metric), "base_chance": chances[0], "head_chance": chances[1]}
    return [{**row, "comparisons": family, "n": enough.needed, "significant": power}]


def _compared(base: FloatArray, head: FloatArray, group: IntArray, scale: Scale) -> Comparison:
    """A comparison as a check prints it."""
    comparison = grouped_compare(base, head, group, scale=scale)
    return agreeing(replace(comparison, interval=gain_loss_interval(base, head, group, scale=scale)))


def _scale(metric: Metric, repeats: int) -> Scale:
    """Of values by query, which are means over repeats."""
    if metric is COMPLETENESS:
        return "yes/no" if repeats == 1 else "share"
    return "share" if metric is RECALL else "amount"


def _judged(base: Values, head: Values, sample: Sample) -> dict[Metric, MetricVerdict]:
    """As a check of one selector judges them, every metric of three corrected for the others."""
    verdicts = judge_metrics([pair_of("made", "made", (base, head), sample.group, 1)], CheckSettings())
    return dict(zip(JUDGED, verdicts[0], strict=True))


def _changed(kind: str, values: FloatArray, change: float, rng: np.random.Generator) -> FloatArray | None:
    """Values that are worse by `change` on average; None where that is more than can be."""
    if kind.startswith("tokens"):
        n, spread = len(values), float(values.std())
        chance = change / (spread if kind.endswith("by the spread") else spread / 2.0)
        size = spread if kind.endswith("by the spread") else rng.lognormal(-0.5, 1.0, n) * spread / 2.0
        return None if chance > 1.0 else np.asarray(values + np.where(rng.random(n) < chance, size, 0.0))
    chance = change / float(np.nanmean(values)) if np.nanmean(values) > 0 else np.inf
    return None if chance > 1.0 else np.asarray(np.where(rng.random(len(values)) < chance, 0.0 * values, values))


def _sizes(kind: str) -> Any:
    """Random sizes of mean 1."""
    if kind == "items of workbench":
        real = populations("workbench")[0].item_tokens
        return lambda rng, n: rng.choice(real, n) / real.mean()
    sigma = {"equal": 0.0, "lognormal 0.5": 0.5, "lognormal 1": 1.0}[kind]
    return lambda rng, n: rng.lognormal(-(sigma**2) / 2, sigma, n)


def _share(intervals: Sequence[Interval], true: float) -> float:
    return float(np.mean([interval.low <= true <= interval.high for interval in intervals]))


PARTS: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "": (intervals, list(product(DATASETS, NS, (1, 3), CHANCES))),
    "made-up": (made_up, list(product(SIZES, NS, SPREADS))),
    "detectable": (detectable, list(product(DATASETS, NS, (0.0, 0.1), CHANGES))),
    "needed": (needed, list(product(DATASETS, JUDGED, CHANCES[1:], (1, 6)))),
}


def measure() -> Tables:
    """All four tables."""
    tables = {}
    for name, (function, tasks) in PARTS.items():
        sys.stderr.write(f"{name or 'coverage'}\n")
        calls = [partial(function, *arguments) for arguments in tasks]
        tables[name] = pd.DataFrame(row for rows in each(operator.call, calls) for row in rows)
    return tables


# ---------------------------------------------------------------------------------------------------- the page


def page(tables: Tables) -> Page:
    """The page of these tables."""
    spans = spans_of(tables)
    metrics = spans.loc[[str(metric) for metric in JUDGED]]
    wild = spans.loc["made-up token counts, without ~"]
    return Page(
        title="Do the intervals of `ctxbench check` hold?",
        answer=(
            f"Yes: {metrics['least'].min():.1f} to {metrics['most'].max():.1f}% of its 95% intervals hold the truth; "
            f"with made-up, uneven token counts at least {wild['least'].min():.1f}% of those without `~`."
        ),
        picture=Picture(
            draw=partial(draw, spans),
            alt="How often intervals hold the true difference, the least and the most, by number of queries",
            width=560,
            height=340,
        ),
        table=[
            {
                "claim": name,
                "meant": "95%" if "judged" not in name else "80%",
                **{f"n = {n}": _cell(spans.loc[name], n) for n in NS},
            }
            for name in spans.index.unique("what")
        ],
        notes=(
            f"""How often it is so, the least and the most over datasets, repeats and chances; n: queries of a check.
            `~` marks an interval that too few values carry. A change as large as what a check calls detectable should
            be judged worse in 80% of checks. As many queries as a check says are needed show the difference in
            {_span(100 * tables["needed"]["significant"])} of cases; 80% are meant. Two equal selectors differ
            significantly in at most {100 * _alike(tables[""])["significant"].max():.1f}% of checks.""",
        ),
        made=f"""`make gate-intervals`: selectors answer as `semantic` with a tuned margin does on `workbench` and
        `freight`, and leave required items out by chance, each time that they are asked; queries are drawn in whole
        groups, with replacement, so that the truth is known. {SIMULATED} draws of each kind; a coverage has a standard
        error of {100 * np.sqrt(0.95 * 0.05 / SIMULATED):.1f} points.""",
    )


def _alike(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["base_chance"] == rows["head_chance"]]


def spans_of(tables: Tables) -> pd.DataFrame:
    """The least and the most, in percent, indexed by what is measured and the number of queries."""
    coverage = tables[""].assign(what=tables[""]["metric"])
    made = tables["made-up"]
    parts = [
        coverage[["what", "n", "covered"]],
        made.assign(what="made-up token counts")[["what", "n", "covered"]],
        made.assign(what="made-up token counts, without ~", covered=made["covered_unmarked"])[["what", "n", "covered"]],
        tables["detectable"].assign(
            what="detectable change judged worse", covered=tables["detectable"]["judged_worse"]
        )[["what", "n", "covered"]],
    ]
    grouped = pd.concat(parts).groupby(["what", "n"], sort=False)["covered"]
    return 100 * grouped.agg(least="min", most="max")


def _cell(spans: pd.DataFrame, n: int) -> str:
    return _span([spans.loc[n, "least"], spans.loc[n, "most"]]) if n in spans.index else "-"


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f}%"


def draw(spans: pd.DataFrame, figure: Figure) -> None:
    """A bar from the least to the most for each kind and number of queries."""
    axes = constrained_axes(figure)
    names = [name for name in spans.index.unique("what") if "judged" not in name]
    for index, (n, colour) in enumerate(zip(NS, ("0.75", "#7fb2d9", "C0"), strict=True)):
        rows = spans.xs(n, level="n").loc[names]
        heights = [row + 0.22 * (index - 1) for row in range(len(names))]
        ends = rows["most"].clip(lower=rows["least"] + 0.3)  # a bar of no width is not seen
        axes.hlines(heights, rows["least"], ends, color=colour, linewidth=6, label=f"{n} queries")
    axes.axvline(95, color="0.4", linestyle="--", zorder=0)
    axes.set_yticks(range(len(names)), [name.replace("counts, ", "counts,\n") for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("% of intervals that hold the true difference")
    axes.grid(visible=False, axis="y")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)


if __name__ == "__main__":
    run_page("gate-intervals", measure, page, about=__doc__.splitlines()[0])
