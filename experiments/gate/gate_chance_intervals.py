"""Are the intervals of differences, what is detectable, and how many queries would tell, what a check says of them?

Run from the project's folder: `python experiments/gate/gate_chance_intervals.py` writes reports/gate-intervals.md and
its tables, some ten minutes on two cores; with words behind it, it prints the tables whose titles have them. Selectors
are those of gate_chance.py: they answer as the shipped ones, and leave required items out by chance. `before`:
intervals as `grouped_compare` gives them; `after`: as a check prints them (`gain_loss_interval`, `agreeing`).
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from gate_chance import COMPLETENESS, RECALL, TOKENS, Asked, Sample, Values, drawn, pair_of, populations
from gate_intervals_page import COVERAGE, DETECTABLE, HEADS, MADE_UP, NEEDED, NS, Rows, page
from gate_page import table
from gate_world import HERE
from threadpoolctl import threadpool_limits

from ctxbench.cli.common import run_script
from ctxbench.evaluation.comparisons import agreeing, gain_loss_interval, grouped_compare
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.statistics import Comparison, Interval, Scale, correct
from ctxbench.gate.results import MetricVerdict, Verdict, judge_metrics
from ctxbench.gate.settings import CheckSettings
from ctxbench.model.arrays import FloatArray, IntArray
from ctxbench.report.pages import write_parted

PAGE = HERE.parents[1] / "reports" / "gate-intervals.md"
DATASETS = ("workbench", "freight")
SIMULATED = 400
JUDGED = (COMPLETENESS, RECALL, TOKENS)
CHANCES = ((0.1, 0.1), (0.1, 0.2), (0.0, 0.1), (0.0, 0.3))  # that base and head leave a required item out
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0)  # of the queries that differ, where amounts are made up
SPREADS = (1.0, 2.0, 3.0, 6.0)  # of amounts among queries, in mean sizes of a difference


def intervals(dataset: str, n: int, repeats: int, chances: tuple[float, float]) -> Rows:
    """Coverage and width of intervals before and after, coverage of those without a mark, and p-values <= 0.05."""
    one, rng = populations(dataset)[0], np.random.default_rng([n, repeats, *(round(100 * each) for each in chances)])
    truth = [one.truth(each) for each in chances]
    seen: dict[Metric, list[tuple[Comparison, Comparison]]] = {metric: [] for metric in JUDGED}
    for _ in range(SIMULATED):
        sample = drawn(one, n, rng)
        base, head = (Asked.of(one, sample, chance=each, repeats=repeats, rng=rng).values for each in chances)
        for metric in JUDGED:
            seen[metric].append(_compared(base[metric], head[metric], sample.group, _scale(metric, repeats)))
    found = []
    for metric, both in seen.items():
        true = truth[1][metric] - truth[0][metric]
        before, after = ([each[side].interval for each in both] for side in (0, 1))
        unmarked = [each for each in after if each.holds]
        wider = _width(after) / _width(before)
        told = np.mean([each.p <= each.alpha for each, _ in both])
        asked = f"{chances[0]:g} -> {chances[1]:g}"
        cells = [dataset, str(metric), str(n), f"{repeats}x", asked, _covered(before, true), _covered(after, true)]
        found.append([*cells, _covered(unmarked, true), f"{wider:.2f}", f"{told:.1%}"])
    return found


def made_up(kind: str, n: int, spread: float) -> Rows:
    """Coverage where a share of the queries costs more or less by random sizes, the least over shares and signs."""
    rng, sizes = np.random.default_rng([n, round(10 * spread), len(kind)]), _sizes(kind)
    few: list[float] = []
    many: list[float] = []
    old: list[float] = []
    unmarked: list[float] = []
    for share, up in product(SHARES, (1.0, 0.8, 0.5)):
        true, before, after = share * (2 * up - 1), [], []
        for _ in range(SIMULATED // 2):
            away = np.where(rng.random(n) < share, sizes(rng, n) * np.where(rng.random(n) < up, 1.0, -1.0), 0.0)
            base = rng.normal(100.0, spread, n)
            one, other = _compared(base, base + away, np.arange(n), "amount", p_value=False)
            before.append(one.interval)
            after.append(other.interval)
        (few if share * n < 10 else many).append(_share(after, true))
        old.append(_share(before, true))
        if len(sure := [each for each in after if each.holds]) >= len(after) / 4:
            unmarked.append(_share(sure, true))
    least = [f"{min(each):.1%}" if each else "-" for each in (old, few, many, unmarked)]
    return [[kind, str(n), f"{spread:g}", *least]]


def detectable(dataset: str, n: int, noise: float, what: str) -> Rows:
    """How often a change as large as what is said to be detectable is judged worse."""
    one, rng = populations(dataset)[0], np.random.default_rng([n, round(100 * noise), len(what)])
    metric = next(each for each in JUDGED if str(each) == what.partition(":")[0])
    sizes, worse = [], []
    for _ in range(SIMULATED // 2):
        sample = drawn(one, n, rng)
        base, same, head = (Asked.of(one, sample, chance=noise, repeats=1, rng=rng).values for _ in range(3))
        named = _judged(base, same, sample)[metric].detectable
        if named is None:
            continue
        changed = _changed(what, head[metric], named, rng)
        if changed is not None:
            sizes.append(named)
            worse.append(_judged(base, {**head, metric: changed}, sample)[metric].verdict is Verdict.WORSE)
    asked = SIMULATED // 2
    size = "-" if not sizes else f"{np.median(sizes):.3g}"
    power = "-" if len(worse) < asked / 10 else f"{np.mean(worse):.1%}"
    return [[dataset, what, str(n), f"{noise:g}", f"{len(sizes) / asked:.0%}", size, power]]


def needed(dataset: str, metric: Metric, chances: tuple[float, float], family: int) -> Rows:
    """How often as many queries as would tell do, where the formula is given the truth, and where 100 queries."""
    one, rng = populations(dataset)[0], np.random.default_rng([family, *(round(100 * each) for each in chances)])

    def compared(n: int) -> Comparison:
        sample = drawn(one, n, rng)
        base, head = (Asked.of(one, sample, chance=each, repeats=1, rng=rng).values for each in chances)
        scale = _scale(metric, 1)
        return grouped_compare(base[metric], head[metric], sample.group, scale=scale, alpha=0.05 / family)

    large = compared(2_000)  # for how the differences spread; their mean is known
    true = one.truth(chances[1])[metric] - one.truth(chances[0])[metric]
    enough, applies = correct({"": replace(large, difference=true)})[""], large.n / 2_000
    if enough.needed is None:
        return []
    power = np.mean([compared(round(enough.needed / applies)).significant for _ in range(SIMULATED // 5)])
    pilots = [each.needed for each in (compared(100) for _ in range(SIMULATED // 5)) if not each.significant]
    guesses = [np.inf if each is None else float(each) for each in pilots]
    quarters = np.quantile(guesses, [0.25, 0.5, 0.75], method="inverted_cdf").tolist() if guesses else []
    cells = [dataset, str(metric), f"{chances[0]:g} -> {chances[1]:g}", str(family), str(enough.needed), f"{power:.1%}"]
    return [[*cells, " / ".join(f"{each:.0f}" for each in quarters) or "-"]]


def _compared(
    base: FloatArray, head: FloatArray, group: IntArray, scale: Scale, *, p_value: bool = True
) -> tuple[Comparison, Comparison]:
    """With the interval as before, and as a check prints it; without p-values these do not agree with any."""
    found = grouped_compare(base, head, group, scale=scale)
    mine = replace(found, interval=gain_loss_interval(base, head, group, scale=scale))
    return found, agreeing(mine) if p_value else mine


def _scale(metric: Metric, repeats: int) -> Scale:
    """Of values by query, which are means over repeats."""
    if metric is COMPLETENESS:
        return "yes/no" if repeats == 1 else "share"
    return "share" if metric is RECALL else "amount"


def _judged(base: Values, head: Values, sample: Sample) -> dict[Metric, MetricVerdict]:
    """As a check of one selector judges them, every metric of three corrected for the others."""
    found = judge_metrics([pair_of("made", "made", (base, head), sample.group, 1)], CheckSettings())
    return dict(zip(JUDGED, found[0], strict=True))


def _changed(what: str, values: FloatArray, change: float, rng: np.random.Generator) -> FloatArray | None:
    """Values that are worse by `change` on average; None where that is more than can be."""
    if what.startswith("tokens"):
        n, spread = len(values), float(values.std())
        chance = change / (spread if what.endswith("by the spread") else spread / 2.0)
        size = spread if what.endswith("by the spread") else rng.lognormal(-0.5, 1.0, n) * spread / 2.0
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


def _share(found: Sequence[Interval], true: float) -> float:
    return float(np.mean([each.low <= true <= each.high for each in found]))


def _covered(found: Sequence[Interval], true: float) -> str:
    return f"{_share(found, true):.1%}" if len(found) >= SIMULATED / 10 else "-"


def _width(found: Sequence[Interval]) -> float:
    return float(np.mean([each.high - each.low for each in found]))


WHATS = ("completeness: lost", "recall: all lost", "tokens: some by the spread", "tokens: some, lognormal")
PARTS: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    COVERAGE: (intervals, list(product(DATASETS, NS, (1, 3), CHANCES))),
    MADE_UP: (made_up, list(product(("equal", "lognormal 0.5", "lognormal 1", "items of workbench"), NS, SPREADS))),
    DETECTABLE: (detectable, list(product(DATASETS, NS, (0.0, 0.1), WHATS))),
    NEEDED: (needed, list(product(DATASETS, JUDGED, CHANCES[1:], (1, 6)))),
}


def main() -> None:
    """Write the page, or print the tables whose title has the words that are given."""
    words, found = sys.argv[1:], dict[str, Rows]()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context, initializer=threadpool_limits, initargs=(1,)) as pool:
        for title, (function, tasks) in PARTS.items():
            if all(word in title for word in words):
                print(title, file=sys.stderr, flush=True)  # noqa: T201
                found[title] = [row for some in pool.map(function, *zip(*tasks, strict=True)) for row in some]
    if words:
        for title, rows in found.items():
            sys.stdout.write("\n".join([f"## {title}", "", *table(HEADS[title], rows)]))
    else:
        write_parted(PAGE, page(found, draws=SIMULATED), list(HEADS))


if __name__ == "__main__":
    run_script(main)
