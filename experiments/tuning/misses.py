"""Why are required items not offered? Measures reports/misses.md (part of `make numbers`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "learned"))

import numpy as np
import pandas as pd
from pages import Page, Picture, Tables, run_page
from three_numbers import SPEC, Ranked, both_splits, left_out, measured_rankings
from world import FAMILIES, SAMPLE, Half, cut

from ctxbench.model.arrays import BoolArray, IntArray
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.report.charts import COLOURS
from ctxbench.report.pages import axes_at
from ctxbench.selectors.definitions import definition
from ctxbench.tuning.measures import COMPLETENESS, REACH, TOKENS, Requirements
from ctxbench.tuning.rankings import MeasuredRankings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "misses"
SEMANTIC, LEARNED = "specification's defaults", "learned/normal"
CAUSES = {
    "over_20": f"ranked below {REACH} or not found",
    "cut": f"ranked among the first {REACH}, cut",
    "excluded": "excluded by a rule",
}
REASONS = {
    "livemcpbench": "a task takes several steps, and its text names some of them (not that a file is written)",
    "toollens": "a request describes a situation, not what its tools do (a journey: airports, places to stay)",
}
"""What reading requests of a dataset shows."""
FEW = 1 / 3  # complete requests, below which a dataset is explained


def measure() -> Tables:
    """All tables."""
    tuning, test = both_splits()
    rows, types = [], []
    for family in FAMILIES:
        shipped = left_out(family, tuning)
        for side in (side for side in test if side.half.family == family):
            table = side.half.ranked(shipped)
            preset = definition("learned").values("normal")
            offered = cut(table, side.half, threshold=preset["threshold"], at_most=preset["at_most"])
            learned = MeasuredRankings.of(table, side.half.side.labels, (COMPLETENESS, TOKENS))
            lengths = np.diff(offered.starts_of(offered.chosen & offered.ranked))
            rows.append(missed(SEMANTIC, side, side.rankings, side.prefix(SPEC)[1]))
            rows.append(missed(LEARNED, side, learned, lengths))
            types += missed_types(side)
    return {"": pd.DataFrame(rows), "types": pd.DataFrame(types)}


def missed(selector: str, side: Ranked, rankings: MeasuredRankings, lengths: IntArray) -> dict[str, Any]:
    """The requirements that a prefix of a ranking leaves open, by cause; each has one."""
    needs = Requirements.of(rankings.items)
    rank = needs.met_from(rankings.items)
    open_ = rank > lengths[needs.query]
    excluded = open_ & ~_may_be_offered(side.half)
    causes = {"over_20": open_ & ~excluded & (rank > REACH), "cut": open_ & ~excluded & (rank <= REACH)}
    total = max(int(open_.sum()), 1)
    complete = rankings.values(COMPLETENESS, lengths)
    return {
        "dataset": side.half.name,
        "selector": selector,
        "requests": int((needs.counts > 0).sum()),
        "complete": float(np.nanmean(complete)),
        "complete_at_20": float(np.nanmean(rankings.values(COMPLETENESS, np.full(len(lengths), REACH)))),
        "required": len(rank),
        "misses": int(open_.sum()),
        **{name: float(rows.sum() / total) for name, rows in {**causes, "excluded": excluded}.items()},
        "dependencies": float((open_ & ~needs.direct).sum() / total),
        "need_more": float(np.mean(needs.counts[needs.counts > 0] > SPEC.top_n)),
    }


def _may_be_offered(half: Half) -> BoolArray:
    """Whether the session or a search may meet each requirement."""
    everything = measured_rankings(Pipeline.of({"retrieve": "everything"}), half).items
    return Requirements.of(everything).met_from(everything) <= np.diff(everything.start).max(initial=0)


def missed_types(side: Ranked) -> Iterator[dict[str, Any]]:
    """By type of item: requirements, and the share that the specification's defaults leave open."""
    items = side.rankings.items
    needs, catalog = Requirements.of(items), side.half.side.dataset.catalog
    open_ = needs.met_from(items) > side.prefix(SPEC)[1][needs.query]
    offered = items.position < side.prefix(SPEC)[1][items.owner]
    types = np.array([item.type for item in catalog], dtype=object)
    for name in sorted(set(types)):
        of_type = needs.of_type(name)
        yield {
            "dataset": side.half.name,
            "type": name,
            "required": int(of_type.sum()),
            "missed": float(open_[of_type].mean()) if of_type.any() else np.nan,
            "offered": float((types[items.item[offered]] == name).mean()),
        }


def draw(tables: Tables, figure: Figure) -> None:
    """Shares of required items that are not offered by cause, a pair of bars by dataset."""
    rows = tables[""]
    names = list(rows.dataset.unique())
    ax = axes_at(figure, 124.0, 12.0, 280.0, 28.0 * len(names))
    for offset, selector, alpha in ((-0.2, SEMANTIC, 1.0), (0.2, LEARNED, 0.5)):
        part, left = rows[rows.selector == selector], np.zeros(len(names))
        for (cause, label), colour in zip(CAUSES.items(), COLOURS, strict=False):
            share = 100 * part[cause].to_numpy() * part.misses.to_numpy() / part.required.to_numpy()
            if rows[cause].any():
                where = np.arange(len(names)) + offset
                ax.barh(where, share, 0.36, left=left, color=colour, alpha=alpha, label=f"{selector}: {label}")
            left = left + share
    ax.set(ylim=(len(names) - 0.5, -0.5), xlim=(0.0, 100.0))
    ax.set_yticks(range(len(names)), names)
    ax.set_xlabel("required items that are not offered, %")
    figure.legend(loc="lower left", bbox_to_anchor=(0.02, 0.0), ncols=1, frameon=False, fontsize=11.0)


def page(tables: Tables) -> Page:
    """The page of what was measured."""
    rows = tables[""]
    by_name = {name: part.set_index("selector") for name, part in rows.groupby("dataset", sort=False)}
    rule = 100 * float(rows.excluded.max())
    ruled = f"A rule (its mode, what a user removed) excludes at most {rule:.1f}%." if rule else "No rule excludes any."
    low = [name for name, part in by_name.items() if part.complete[SEMANTIC] < FEW]
    legend = (
        f"Complete: requests that are offered all that they require, in %. Below {REACH}: of the misses, those that "
        f"rank below {REACH} or are not found, in %; cut: those among the first {REACH} that topN, or the number and "
        f"the scores of `learned`, leave out. {ruled} With these, both columns make 100%."
    )
    below = [100 * by_name[name].over_20[SEMANTIC] for name in low]
    return Page(
        title="Why are required items not offered?",
        answer=f"Where fewest requests are complete, {min(below):.0f} to {max(below):.0f}% of the missed items rank "
        f"below {REACH}: they would be missing among {REACH} items, too.",
        picture=Picture(
            draw=partial(draw, tables),
            alt=f"Required items that are not offered, by cause: ranked below {REACH}, or cut",
            width=420.0,
            height=150.0 + 28.0 * len(by_name),
        ),
        table=[_cells(name, part) for name, part in by_name.items()],
        notes=[legend, "\n".join(_why(name, by_name[name], tables["types"]) for name in low)],
        made="`make numbers` (`python experiments/tuning/misses.py`): test splits, at most "
        f"{SAMPLE} requests each. An item that is required counts once; of alternatives the one that ranks first. "
        "`learned/normal` is fitted without the family that is measured.",
    )


def _cells(name: str, part: pd.DataFrame) -> dict[str, str]:
    cells = {"dataset": name, "required": f"{part.required[SEMANTIC] / part.requests[SEMANTIC]:.1f}"}
    for selector, title in ((SEMANTIC, "defaults"), (LEARNED, "learned")):
        row = part.loc[selector]
        cells[f"{title}: complete"] = f"{100 * row.complete:.1f}"
        cells[f"{title}: below {REACH}"] = f"{100 * row.over_20:.0f}" if row.misses else "no miss"
        cells[f"{title}: cut"] = f"{100 * row.cut:.0f}" if row.misses else ""
    return cells


def _why(name: str, part: pd.DataFrame, types: pd.DataFrame) -> str:
    """Figures that explain why few requests of a dataset are complete."""
    row = part.loc[SEMANTIC]
    need = row.required / row.requests
    facts = [f"{100 * row.misses / row.required:.0f}% of {need:.1f} items per request are missed"]
    facts.append(f"the first {REACH} would make {100 * row.complete_at_20:.0f}% complete")
    if row.dependencies:
        facts.append(f"{100 * row.dependencies:.0f}% of the misses are needed through another item, not by the request")
    by_type = types[(types.dataset == name) & (types.required > 0)]
    if len(by_type) > 1:
        facts.append(
            "by type "
            + ", ".join(
                f"{kind.type} {100 * kind.missed:.0f}% missed, {100 * kind.offered:.0f}% of the offered items"
                for _, kind in by_type.iterrows()
            )
        )
    facts += [REASONS[name]] if name in REASONS else []
    return f"* **{name}**, {100 * row.complete:.0f}% complete: {'; '.join(facts)}."


if __name__ == "__main__":
    run_page(NAME, measure, page, about=__doc__ or "")
