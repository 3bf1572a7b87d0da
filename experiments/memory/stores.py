"""What other stores of memories find among the same memories: reports/memory-stores.md.

    python experiments/memory/stores.py [--page]

Needs the packages of other-stores.txt, in an environment of their own (`make memory-stores`); without them nothing is
measured, and the page stays as it is.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from pages import Page, Picture, Tables, run_page

import ctxbench
from ctxbench.io.console import say

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXPERIMENT = Path(__file__).parent / "other-stores.yaml"
PACKAGES = ("mem0", "langgraph")
OURS, BASE, OTHERS = "memory", "memory (8)", ("mem0", "LangGraph")
SHOWN = {"completeness": 100, "tokens": 1, "R@5": 100, "nDCG@10": 100}


def measure() -> Tables:
    """Every selector on every dataset, and its differences from `memory` at as many tokens."""
    return {"": ctxbench.run(EXPERIMENT).to_frame(intervals=True).reset_index()}


def draw(rows: pd.DataFrame, figure: Figure) -> None:
    """Completeness with its interval, a panel for each dataset."""
    datasets = list(dict.fromkeys(rows["dataset"]))
    axes = figure.subplots(1, len(datasets), sharey=True)
    for dataset, panel in zip(datasets, axes, strict=True):
        part = rows[rows["dataset"] == dataset].iloc[::-1]
        share = 100 * part[["completeness", "completeness low", "completeness high"]].to_numpy()
        spread = [share[:, 0] - share[:, 1], share[:, 2] - share[:, 0]]
        colours = ["C3" if name in OTHERS else "C0" for name in part["selector"]]
        panel.barh(part["selector"], share[:, 0], xerr=spread, color=colours, capsize=3)
        panel.set_title(dataset, fontsize=10)
        panel.set_xlabel("complete %")
        panel.set_xlim(0, 100)
    figure.tight_layout()


def page(tables: Tables) -> Page:
    """The report."""
    rows = tables[""]
    by_name = rows.set_index(["dataset", "selector"])
    datasets = list(dict.fromkeys(rows["dataset"]))
    best = {dataset: max(100 * by_name.loc[(dataset, name), "completeness"] for name in OTHERS) for dataset in datasets}
    ours = {dataset: 100 * by_name.loc[(dataset, BASE), "completeness"] for dataset in datasets}
    shares = [f"{ours[dataset]:.0f}% ({dataset})" for dataset in datasets]
    others = [f"{best[dataset]:.0f}%" for dataset in datasets]
    return Page(
        title="What do other stores of memories find?",
        answer=f"Take `memory`: with eight memories complete for {' and '.join(shares)}; mem0 and LangGraph with ten "
        f"for {' and '.join(others)}.",
        picture=Picture(draw=lambda figure: draw(rows, figure), alt=" ".join(ALT.split()), height=300),
        table=[
            {
                "dataset": row["dataset"],
                "selector": f"`{row['selector']}`" if row["selector"] not in OTHERS else row["selector"],
                "complete % (95%)": f"{100 * row['completeness']:.1f} ({100 * row['completeness low']:.1f} to "
                f"{100 * row['completeness high']:.1f})",
                "tokens": f"{row['tokens']:,.0f}",
                "R@5": f"{100 * row['R@5']:.1f}",
                "nDCG@10": f"{100 * row['nDCG@10']:.1f}",
                f"points over `{BASE}`": points(row),
            }
            for _, row in rows.iterrows()
        ],
        notes=[" ".join(NOTES.split())],
        made=" ".join(MADE.split()),
    )


def points(row: pd.Series) -> str:
    """The difference of completeness; * marks a significant one."""
    if row["selector"] == BASE:
        return ""
    mark = "*" if float(row["completeness p"]) <= 0.05 else ""
    return f"{100 * float(row['completeness difference']):+.1f}{mark}"


ALT = """Completeness by selector on chats and notes: mem0 and LangGraph find as much as dense search, memory finds
more on chats that a model wrote"""
NOTES = """All search the same memories with the same vectors (`minilm`) and ten items each. Turns that `memory` finds
are longer; with eight of them, `memory (8)`, it costs fewer tokens than the others with ten. `*` marks a significant
difference of completeness. mem0 and LangGraph's store rank by cosine similarity, so their figures are those of
`dense`."""
MADE = """`make memory-stores` (`experiments/memory/stores.py`, `other-stores.yaml`): all queries of both datasets,
mem0 and LangGraph by `other_stores.py` in an environment of their own, without a language model. What a model then
makes of the memories is not measured."""


if __name__ == "__main__":
    if "--page" not in sys.argv and (missing := [name for name in PACKAGES if find_spec(name) is None]):
        say(f"skipped: {' and '.join(missing)} are not installed; `make memory-stores` makes their environment")
    else:
        run_page("memory-stores", measure, page, about=__doc__ or "")
