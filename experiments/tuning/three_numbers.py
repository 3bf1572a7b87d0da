"""Which topK, topN and includeScore? Measures reports/three-numbers.md (part of `make numbers`).

The exact sweep chooses presets of `semantic` on the tuning splits of all labelled datasets here, each family weighing
the same. Test splits measure them; no preset has seen the family on which it is measured.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "learned"))

import numpy as np
import pandas as pd
from pages import Page, Picture, Tables, run_page
from pooled import fit_examples
from world import FAMILIES, ROOT, SAMPLE, TEST, TUNING, Half, cut, halves, mean, resources

from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.comparisons import LENGTHS, Curve, at_equal_tokens
from ctxbench.evaluation.statistics import Comparison, compare
from ctxbench.io.console import say
from ctxbench.model.arrays import FloatArray, IntArray
from ctxbench.pipelines.features import Logistic
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.report.charts import COLOURS, PointLabel, ink, place_labels
from ctxbench.report.pages import axes_at
from ctxbench.selectors.definitions import definition
from ctxbench.tuning.cut_families import StandardMargin
from ctxbench.tuning.measures import COMPLETENESS, TOKENS
from ctxbench.tuning.query_fits import fit_with_prior
from ctxbench.tuning.rankings import MeasuredRankings, count_at_least
from ctxbench.tuning.results import rank_with_pipeline
from ctxbench.tuning.setting_lines import Counts, ThresholdSpan
from ctxbench.tuning.tuner import first_items_curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "three-numbers"
TOP_K, TOP_N, INCLUDE = np.arange(1, 51), np.arange(31), np.round(np.arange(100, -1, -1) / 100, 2)
OFF = 1.0  # an includeScore that no item reaches
MARGINS = np.round(np.arange(101) / 100, 2)
LIMITS = np.round(np.arange(0.3, 2.05, 0.1), 2)  # of the front, times the tokens of the defaults
N_LABELS, DRAWS = 100, 3
Z = 1.959964  # of a 95% interval


class Setting(NamedTuple):
    """The three numbers."""

    top_k: int
    top_n: int
    include: float


SPEC = Setting(20, 5, 0.7)
FREE = {
    "topN": (SPEC.top_k, OFF),
    "topN and includeScore": (SPEC.top_k, None),
    "topK, topN and includeScore": (None, None),
}
"""Which numbers may differ, from few to many: the topK and the includeScore of all others; None = every value."""


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What a preset is for.

    Attributes:
        tokens: the most that it may cost, in tokens of the specification's defaults. Of the settings that cost no more
            the most complete is chosen.
        keeps: the share of the defaults' completeness that it must have; above 0, the setting with the fewest tokens is
            chosen.
    """

    tokens: float = np.inf
    keeps: float = 0.0


AIMS = {"aggressive": Aim(tokens=2 / 3), "normal": Aim(keeps=0.98), "conservative": Aim(tokens=2.0)}


@dataclass(frozen=True, eq=False)
class Ranked:
    """A split of a dataset, ranked by `semantic`, with nothing cut."""

    half: Half

    @cached_property
    def rankings(self) -> MeasuredRankings:
        """Completeness and tokens of every length."""
        return measured_rankings(definition("semantic").pipeline(definition("semantic").values()), self.half)

    @cached_property
    def first_n(self) -> Curve:
        """Of topN alone."""
        return self._curve([np.full(len(self.half.side), n) for n in LENGTHS])

    @cached_property
    def margins(self) -> Curve:
        """Of a margin to the best score alone."""
        family = replace(cut_family([SPEC.top_k], [SPEC.top_k], OFF), margin=ThresholdSpan("margin", 0.0, 1.0))
        fixed = {"topK": SPEC.top_k, "topN": SPEC.top_k}
        lengths = [family.offered_prefix(self.rankings, {**fixed, "margin": margin})[1] for margin in MARGINS]
        return self._curve([np.zeros(len(self.half.side), dtype=np.int64), *lengths])

    def _curve(self, lengths: Sequence[FloatArray]) -> Curve:
        values = [[self.rankings.values(measure, n) for n in lengths] for measure in (COMPLETENESS, TOKENS)]
        return Curve(*(np.stack(arrays) for arrays in values))

    @cached_property
    def sweep(self) -> FloatArray:
        """Mean completeness, and tokens relative to the defaults', by topK, topN and includeScore.

        Shape (2, n_topK, n_topN, n_includeScore); NaN where topN is above topK.
        """
        out = np.full((2, len(TOP_K), len(TOP_N), len(INCLUDE)), np.nan)
        for line in cut_family(TOP_K, TOP_N).lines(self.rankings):
            top_k, top_n = int(line.values["topK"]), int(line.values["topN"])
            if top_n <= top_k:
                rows = np.maximum(count_at_least(line.thresholds, INCLUDE) - 1, 0)
                out[0, top_k - TOP_K[0], top_n] = line.means(COMPLETENESS, rows)
                out[1, top_k - TOP_K[0], top_n] = line.means(TOKENS, rows) / self.half.default_tokens
        return out

    def offers(self, setting: Setting) -> tuple[FloatArray, FloatArray]:
        """Completeness and tokens of a setting by query."""
        rankings, lengths = self.prefix(setting)
        return rankings.values(COMPLETENESS, lengths), rankings.values(TOKENS, lengths)

    def prefix(self, setting: Setting) -> tuple[MeasuredRankings, IntArray]:
        """Rankings and how many of their first items a setting offers."""
        family = cut_family([setting.top_k], [setting.top_n], setting.include)
        return family.offered_prefix(self.rankings, {"topK": setting.top_k, "topN": setting.top_n})


def measured_rankings(pipeline: Pipeline, half: Half) -> MeasuredRankings:
    """What a pipeline ranks without its steps, measured at every length."""
    answers = rank_with_pipeline(replace(pipeline, refine=()), half.side).answers
    return MeasuredRankings.of(answers.candidates, half.side.labels, (COMPLETENESS, TOKENS))


def cut_family(top_k: Sequence[int], top_n: Sequence[int], include: float | None = None) -> StandardMargin:
    """The specification's cut at some values; of every includeScore if none is given."""
    span = ThresholdSpan("includeScore", 0.0, 1.0) if include is None else ThresholdSpan.fixed("", include)
    return StandardMargin(topK=Counts("topK", tuple(top_k)), topN=Counts("topN", tuple(top_n)), includeScore=span)


def weights(sides: Sequence[Ranked]) -> FloatArray:
    """Of each dataset, so that every family weighs the same; their sum is 1."""
    members = Counter(side.half.family for side in sides)
    share = np.array([1 / members[side.half.family] for side in sides])
    return share / share.sum()


def choose(sides: Sequence[Ranked], aim: Aim, free: tuple[int | None, float | None]) -> Setting:
    """The setting of an aim on some datasets; of equals the one with the fewest tokens, then the first."""
    weight, sweeps = weights(sides), np.stack([side.sweep for side in sides])
    complete = np.tensordot(weight, sweeps[:, 0], 1)
    with np.errstate(divide="ignore"):
        tokens = np.exp(np.tensordot(weight, np.log(sweeps[:, 1]), 1))
    allowed = (tokens <= aim.tokens) & ~np.isnan(complete)
    allowed &= complete >= aim.keeps * float(weight @ [mean(side.half.default[0]) for side in sides])
    top_k, include = free
    if top_k is not None:
        allowed &= (top_k == TOP_K)[:, None, None]
    if include is not None:
        allowed &= include == INCLUDE
    rows = np.flatnonzero(allowed)
    keys = (-complete.flat[rows], tokens.flat[rows])
    k, n, s = np.unravel_index(rows[np.lexsort(keys if aim.keeps else keys[::-1])[0]], complete.shape)
    return Setting(int(TOP_K[k]), int(TOP_N[n]), float(INCLUDE[s]))


def chosen_rows(tuning: Sequence[Ranked], test: Sequence[Ranked]) -> Iterator[dict[str, Any]]:
    """Settings by aim and free numbers, chosen on all datasets (no dataset), and without the family of each.

    With their gains over topN alone at equal tokens on both splits of the dataset.
    """
    for name, aim in AIMS.items():
        for free, values in FREE.items():
            every = {"preset": name, "free": free}
            yield every | {"dataset": "", "family": ""} | choose(tuning, aim, values)._asdict()
            for family in FAMILIES:
                setting = choose([side for side in tuning if side.half.family != family], aim, values)
                for pair in zip(tuning, test, strict=True):
                    if pair[0].half.family != family:
                        continue
                    row = {"dataset": pair[1].half.name, "family": family, **setting._asdict()}
                    for split, side in zip((TUNING, TEST), pair, strict=True):
                        gain = at_equal_tokens(*side.offers(setting), side.first_n).comparison
                        row |= {f"{split}_{key}": value for key, value in gained(gain).items()}
                    yield every | row


def gained(comparison: Comparison | None) -> dict[str, float]:
    """A difference in completeness with its interval, in points; NaN if there is none."""
    if comparison is None:
        return dict.fromkeys(("gain", "low", "high"), np.nan)
    values = comparison.difference, comparison.interval.low, comparison.interval.high
    return dict(zip(("gain", "low", "high"), (100 * value for value in values), strict=True))


def free_numbers(choices: pd.DataFrame) -> dict[str, str]:
    """By preset the numbers that may differ: more than topN only if that is significantly more complete.

    At equal tokens, on tuning splits of families that the setting was not chosen on.
    """
    out = {}
    for (name, free), rows in choices[choices.dataset != ""].groupby(["preset", "free"], sort=False):
        if name not in out or pool(rows, "tuning_", by_family=True)[1] > 0:
            out[name] = free
    return out


def pool(rows: pd.DataFrame, prefix: str = "", *, by_family: bool = False) -> tuple[float, float, float]:
    """The mean of gains over datasets, each weighing the same, or each family, with its 95% interval."""
    rows = rows[rows[f"{prefix}gain"].notna()]
    size = rows.groupby("family").family.transform("size") if by_family else pd.Series(1.0, rows.index)
    weight = 1 / size / (1 / size).sum()
    error = (rows[f"{prefix}high"] - rows[f"{prefix}low"]) / (2 * Z)
    middle, half = float((weight * rows[f"{prefix}gain"]).sum()), Z * float(np.sqrt((weight * error).pow(2).sum()))
    return middle, middle - half, middle + half


def dataset_rows(
    tuning: Ranked, test: Ranked, presets: Mapping[str, Setting], shipped: Logistic
) -> Iterator[dict[str, Any]]:
    """One dataset: the presets, what others offer for the same tokens, and the numbers tuned on its tuning split."""
    half, default = test.half, test.half.default
    about = {"dataset": half.name, "family": half.family, "queries": len(half.side)}

    def row(selector: str, preset: str, values: tuple[FloatArray, FloatArray], **rest: Any) -> dict[str, Any]:
        complete, tokens = mean(values[0]), mean(values[1]) / half.default_tokens
        return about | {"selector": selector, "preset": preset, "tokens": tokens, "complete": complete, **rest}

    def against_default(values: tuple[FloatArray, FloatArray]) -> dict[str, Any]:
        return {"compared_with": "defaults"} | gained(compare(default[0], values[0], scale="yes/no"))

    yield row("defaults", "", default, **SPEC._asdict(), compared_with="")
    hybrid = first_items_curve(
        rank_with_pipeline(_without_cut("hybrid"), half.side).answers.candidates, half.side.labels
    )
    table, fits = half.ranked(shipped), [half.ranked(fit) for fit in own_fits(tuning.half, shipped)]
    for name, setting in presets.items():
        offered = test.offers(setting)
        yield row("three numbers", name, offered, **setting._asdict(), **against_default(offered))
        for selector, curve in (("margin", test.margins), ("hybrid", hybrid)):
            result = at_equal_tokens(*offered, curve)
            complete, gain = result.base, gained(result.comparison)
            gain = {"gain": -gain["gain"], "low": -gain["high"], "high": -gain["low"]}
            yield row(selector, name, offered, compared_with="preset", **gain) | {"complete": complete}
        within = [half.within(ranked, mean(offered[1])) for ranked in (table, *fits)]
        labelled = tuple(np.mean(parts, axis=0) for parts in zip(*within[1:], strict=True))
        for selector, values in (("learned", within[0]), (f"learned, {N_LABELS} labels", labelled)):
            gain = compare(offered[0], values[0], scale="share")
            yield row(selector, name, values, compared_with="preset", **gained(gain))
        preset = definition("learned").values(name)
        offered = half.measured(cut(table, half, threshold=preset["threshold"], at_most=preset["at_most"]))
        yield row("learned preset", name, offered, **against_default(offered))
        own = choose([tuning], AIMS[name], FREE["topK, topN and includeScore"])
        offered = test.offers(own)
        yield row("tuned here", name, offered, **own._asdict(), **against_default(offered))
        gain = at_equal_tokens(*offered, test.first_n).comparison
        yield row("tuned here", name, offered, **own._asdict(), compared_with="first n", **gained(gain))


def _without_cut(name: str) -> Pipeline:
    """A comparator up to its first cut."""
    pipeline = definition(name).pipeline(definition(name).values())
    return replace(pipeline, refine=tuple(step for step in pipeline.refine if step.kind == "rank"))


def own_fits(tuning: Half, shipped: Logistic) -> list[Logistic]:
    """Fits around the shipped one on labels drawn from a tuning split, by draw; on all if there are fewer."""
    fits = []
    for draw in range(DRAWS):
        rows = np.zeros(tuning.labelled.n_queries, dtype=np.bool_)
        rows[np.random.default_rng(draw).permutation(len(rows))[:N_LABELS]] = True
        fits.append(Logistic.read(fit_with_prior(tuning.labelled.select_queries(rows), shipped)))
    return fits


def left_out(family: str, tuning: Sequence[Ranked]) -> Logistic:
    """The ranking of `learned` fitted without a family."""
    others = [side.half for side in tuning if side.half.family != family]
    return Logistic.read(fit_examples([half.made for half in others], [half.family for half in others]))


def front_rows(tuning: Sequence[Ranked], test: Sequence[Ranked]) -> Iterator[dict[str, Any]]:
    """Means over the test splits: of the first n items, and of the most complete settings chosen without the family."""
    for n in range(1, 16):
        yield _front_row("topN alone", n, [(side, Setting(SPEC.top_k, n, OFF)) for side in test])
    curves = [
        first_items_curve(
            rank_with_pipeline(_without_cut("hybrid"), side.half.side).answers.candidates, side.half.side.labels
        )
        for side in test
    ]
    for n in range(1, 13):
        means = [tuple(values[n] for values in curve.means()) for curve in curves]
        tokens = [spent / side.half.default_tokens for (spent, _), side in zip(means, test, strict=True)]
        yield {"line": "hybrid, first n", "value": n} | _means(tokens, [complete for _, complete in means])
    for limit in LIMITS:
        settings = {
            family: choose([side for side in tuning if side.half.family != family], Aim(tokens=limit), (None, None))
            for family in FAMILIES
        }
        yield _front_row("all three tuned", limit, [(side, settings[side.half.family]) for side in test])


def _front_row(line: str, value: float, pairs: Sequence[tuple[Ranked, Setting]]) -> dict[str, Any]:
    offered = [(side, *side.offers(setting)) for side, setting in pairs]
    tokens = [mean(spent) / side.half.default_tokens for side, _, spent in offered]
    return {"line": line, "value": value} | _means(tokens, [mean(complete) for _, complete, _ in offered])


def _means(tokens: Sequence[float], complete: Sequence[float]) -> dict[str, float]:
    return {"tokens": float(np.exp(np.mean(np.log(tokens)))), "complete": float(np.mean(complete))}


def both_splits() -> tuple[list[Ranked], list[Ranked]]:
    """The tuning and the test split of every dataset."""
    opened = resources()
    told = partial(say, err=True)
    return tuple([Ranked(half) for half in halves(split, opened, told)] for split in (TUNING, TEST))


def measure() -> Tables:
    """All tables."""
    tuning, test = both_splits()
    choices = pd.DataFrame(chosen_rows(tuning, test))
    free = free_numbers(choices)
    rows: list[dict[str, Any]] = []
    for family in FAMILIES:
        others = [side for side in tuning if side.half.family != family]
        presets = {name: choose(others, aim, FREE[free[name]]) for name, aim in AIMS.items()}
        shipped = left_out(family, tuning)
        for pair in zip(tuning, test, strict=True):
            if pair[0].half.family == family:
                rows += dataset_rows(*pair, presets, shipped)
    names = [name for members in FAMILIES.values() for name in members]
    content = {name: open_dataset(name, base=ROOT).hash[:12] for name in names}
    data = [{"dataset": Path(name).name, "content": content[name]} for name in names]
    return {
        "": pd.DataFrame(rows),
        "choice": choices,
        "front": pd.DataFrame(front_rows(tuning, test)),
        "data": pd.DataFrame(data),
    }


LINES = {
    "topN alone": "topN alone",
    "all three tuned": "all three numbers tuned",
    "hybrid, first n": "`hybrid`, first n",
    "learned preset": "`learned`, its presets",
    f"learned, {N_LABELS} labels": f"`learned` with {N_LABELS} labels",
}


def means(rows: pd.DataFrame) -> dict[str, float]:
    """Tokens and completeness over datasets, each weighing the same."""
    return _means(rows.tokens.tolist(), rows.complete.tolist())


def draw(tables: Tables, figure: Figure) -> None:
    """Completeness against tokens, means over datasets."""
    rows, front = tables[""], tables["front"]
    ax = axes_at(figure, 52.0, 12.0, 356.0, 300.0)
    for index, (line, label) in enumerate(LINES.items()):
        if line in set(front.line):
            part = front[front.line == line]
            points = list(zip(part.tokens, part.complete, strict=True))
        else:
            points = [tuple(means(part).values()) for _, part in rows[rows.selector == line].groupby("preset")]
        xs, ys = np.array(sorted(points)).T
        style: dict[str, Any] = {"marker": "o", "markersize": 4.0} if line.startswith("learned") else {}
        dash = (0, (2.0, 1.2)) if line == "all three tuned" else "-"
        ax.plot(
            xs, 100 * ys, color=COLOURS[index], linestyle=dash, linewidth=1.8, label=label.replace("`", ""), **style
        )
    named = []
    for name, part in rows[rows.selector == "three numbers"].groupby("preset", sort=False):
        x, y = means(part).values()
        ax.plot(x, 100 * y, "o", color=COLOURS[0], markersize=8.0, zorder=4)
        top_n = int(part.top_n.iloc[0])
        named.append(PointLabel((x, 100 * y), f"{name}, topN {top_n}", (x, 100 * y, x, 100 * y)))
    x, y = means(rows[rows.selector == "defaults"]).values()
    ax.plot(x, 100 * y, "D", color=ink(ax), markersize=6.0, zorder=5, label="specification's defaults")
    place_labels(ax, named)
    ax.set(xlim=(0.35, 2.15), ylim=(40.0, 80.0))
    ax.set_xlabel("tokens, times those of the specification's defaults")
    ax.set_ylabel("complete requests, %")
    figure.legend(
        loc="lower left",
        bbox_to_anchor=(0.02, 0.0),
        ncols=2,
        frameon=False,
        fontsize=11.0,
        columnspacing=1.0,
        handlelength=1.6,
    )


BESIDE = ("margin", "hybrid", "learned", f"learned, {N_LABELS} labels")


def page(tables: Tables) -> Page:
    """The page of what was measured."""
    rows = tables[""]
    names = [*rows.dataset.unique(), ""]
    return Page(
        title="Which topK, topN and includeScore?",
        answer=answer(rows, chosen_on_all(tables["choice"])),
        picture=Picture(
            draw=partial(draw, tables),
            alt=f"Completeness against tokens, means over {len(names) - 1} datasets: of topN alone, all three numbers, "
            "hybrid and learned",
            width=420.0,
            height=430.0,
        ),
        table=[table_row(rows, name) for name in names],
        notes=list(notes(rows, tables["choice"])),
        made=f"`make numbers` (`python experiments/tuning/three_numbers.py`): {len(names) - 1} datasets of "
        f"{len(FAMILIES)} families, at most {SAMPLE} queries per split, o200k tokens. Presets are chosen by the exact "
        f"sweep on tuning splits (topK {TOP_K[0]} to {TOP_K[-1]}, topN {TOP_N[0]} to {TOP_N[-1]}, every hundredth of "
        "includeScore), families with equal weight, and measured on test splits of families that they were not chosen "
        "on; so is `learned`. topK and includeScore differ from 20 and off only where that is significant on tuning "
        "splits of left-out families. The weights of `hybrid` were chosen on tuning splits of all datasets. Own "
        f"labels: {N_LABELS} requests of the tuning split (all of livemcpbench's), {DRAWS} draws. Means: datasets "
        "weigh the same, geometric for tokens. The aims were set after a look at both splits.",
    )


def notes(rows: pd.DataFrame, choices: pd.DataFrame) -> Iterator[str]:
    """What the columns mean, and what else was found."""
    yield (
        f"Presets: tokens, times those of the specification's defaults (topK {SPEC.top_k}, topN {SPEC.top_n}, "
        f"includeScore {SPEC.include}), and points of completeness against these, with the 95% interval. Right of "
        "them: points against `normal` for the same tokens. A margin excludes what scores too far below the best."
    )
    yield "\n".join(
        f"* **`semantic/{name}`**: {setting_text(setting)}. {aim_text(AIMS[name])}; "
        f"{left_out_text(choices, name, setting)}. At the same tokens: "
        + ", ".join(f"{selector} {points(pool(picked(rows, selector, name)))}" for selector in BESIDE)
        + "."
        for name, setting in chosen_on_all(choices).items()
    )
    every = choices[(choices.free == "topK, topN and includeScore") & (choices.dataset != "")]
    kept = rows[(rows.selector == "tuned here") & (rows.compared_with == "defaults")]
    yield (
        f"**topK and includeScore {pay(every, 'test_')}.** All three numbers, chosen on the other families, against "
        f"topN alone at equal tokens: {by_preset(every, 'test_')}. More: [which includeScore](include-score.md), "
        "[why items are missed](misses.md)."
    )
    own = rows[rows.compared_with == "first n"]
    base = means(rows[rows.selector == "defaults"])["complete"]
    normal = means(picked(kept, "tuned here", "normal"))["complete"] / base
    yield (
        f"**One setting for all catalogs? Own settings {pay(own)}.** All three numbers, tuned on the tuning split of "
        f"the catalog, against topN alone at equal tokens: {by_preset(own)}. Its own `normal` keeps {normal:.2f} of "
        f"the defaults' completeness on the test split, where {AIMS['normal'].keeps:g} was asked for."
    )


def pay(rows: pd.DataFrame, prefix: str = "") -> str:
    """Whether gains are significant for any preset."""
    lows = [pool(part, prefix)[1] for _, part in rows.groupby("preset")]
    return "pay" if max(lows) > 0 else "do not pay"


def by_preset(rows: pd.DataFrame, prefix: str = "") -> str:
    """Pooled gains of each preset."""
    return ", ".join(f"{name} {points(pool(part, prefix))}" for name, part in rows.groupby("preset", sort=False))


def chosen_on_all(choices: pd.DataFrame) -> dict[str, Setting]:
    """The presets, chosen on all families."""
    free = free_numbers(choices)
    rows = choices[choices.dataset == ""].set_index(["preset", "free"])
    chosen = {name: rows.loc[(name, free[name])] for name in AIMS}
    return {name: Setting(int(row.top_k), int(row.top_n), float(row.include)) for name, row in chosen.items()}


def answer(rows: pd.DataFrame, presets: Mapping[str, Setting]) -> str:
    """At most 25 words."""
    low = pool(picked(rows, "three numbers", "normal"))[1]
    learned = pool(picked(rows, "learned", "normal"))[1]
    numbers = [setting.top_n for setting in presets.values()]
    take = f"topK {SPEC.top_k}, includeScore off, topN {numbers[0]}, {numbers[1]} or {numbers[2]}"
    if {(setting.top_k, setting.include) for setting in presets.values()} != {(SPEC.top_k, OFF)}:
        take = "the settings below"
    beat = "they beat" if low > 0 else "they do not beat"
    also = "`learned` does" if (learned > 0) != (low > 0) else "nor does `learned`"
    return f"Take {take}. At equal tokens, on left-out families, {beat} the specification's defaults; {also}."


def picked(rows: pd.DataFrame, selector: str, preset: str) -> pd.DataFrame:
    """The rows of a selector at a preset."""
    return rows[(rows.selector == selector) & (rows.preset == preset)]


def table_row(rows: pd.DataFrame, dataset: str) -> dict[str, str]:
    """The cells of a dataset; an empty name is the mean."""
    part = rows[rows.dataset == dataset] if dataset else rows
    cells = {"dataset": dataset or "**mean**"}
    for name in AIMS:
        own = picked(part, "three numbers", name)
        cells[name] = f"{means(own)['tokens']:.2f} x, {points(pool(own))}"
    pooled = {selector: pool(picked(part, selector, "normal")) for selector in BESIDE}
    return cells | {name: points(gain) if not dataset else signed(gain[0]) for name, gain in pooled.items()}


def setting_text(setting: Setting) -> str:
    """A setting in words."""
    include = "off (1.0)" if setting.include == OFF else f"{setting.include:g}"
    return f"topK {setting.top_k}, topN {setting.top_n}, includeScore {include}"


def aim_text(aim: Aim) -> str:
    """An aim in words."""
    if aim.keeps:
        return f"The fewest tokens for {aim.keeps:g} of the defaults' completeness"
    return f"The most complete for at most {aim.tokens:.2g} x the tokens"


def left_out_text(choices: pd.DataFrame, name: str, setting: Setting) -> str:
    """Whether the same setting is chosen without each family."""
    rows = choices[(choices.preset == name) & (choices.free == free_numbers(choices)[name]) & (choices.dataset != "")]
    same = (rows[list(Setting._fields)] == list(setting)).all(axis=1).groupby(rows.family).first()
    if same.all():
        return "the same whichever family is left out"
    return f"the same with {int(same.sum())} of {len(same)} families left out"


def points(pooled: tuple[float, float, float]) -> str:
    """A difference with its interval."""
    middle, low, high = map(signed, pooled)
    return f"{middle} ({low} to {high})"


def signed(value: float) -> str:
    """A difference in points."""
    return f"{value + 0.0:+.1f}".replace("-", "−").replace("−0.0", "+0.0")


if __name__ == "__main__":
    run_page(NAME, measure, page, about=__doc__ or "")
