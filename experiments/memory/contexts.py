"""How many memories, which template, which budget and whether relationships: reports/memory-contexts.md.

    python experiments/memory/contexts.py [--page]

Each row is the pipeline of `ContextEngine.build` with other options, over all requests of `diary` and every memory that
they may see: whether the context has all that is required, and how many tokens the text takes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1]))

from pages import Page, Picture, Tables, constrained_axes, each, run_page

from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.comparisons import grouped_estimate
from ctxbench.evaluation.statistics import LEVEL
from ctxbench.memory.engine import links_step, rendered
from ctxbench.report.charts import PointLabel, place_labels
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEFAULT = {"limit": 10, "template": "chat", "budget": 2000, "depth": 0}
CHANGES: Mapping[str, tuple[Any, ...]] = {
    "limit": (3, 5, 20),
    "budget": (100, 200, 400),
    "template": ("detailed", "summary"),
    "depth": (1, 2),
}
NAMES = {"limit": "{} memories", "budget": "{} tokens", "template": "template {}", "depth": "relationships, depth {}"}
LINKED = "linked"


def measure() -> Tables:
    """Build the context of every request with each of the options."""
    options = [("", DEFAULT), *((name, {**DEFAULT, name: value}) for name in CHANGES for value in CHANGES[name])]
    measured = zip(options, each(figures, [values for _, values in options]), strict=True)
    return {"": pd.DataFrame([{"changed": name, **values, **row} for (name, values), row in measured])}


def figures(options: Mapping[str, Any]) -> dict[str, float]:
    """Completeness in per cent with its interval, that of linked requests, and mean tokens of all contexts."""
    dataset = open_dataset("diary").judged()
    resources = local_resources(open_embedder("minilm"), open_counter("o200k"))
    shipped = definition("memory")
    pipeline = shipped.pipeline(shipped.values(None, {"n": options["limit"]}))
    if options["depth"]:
        pipeline = replace(pipeline, refine=(*pipeline.refine, links_step(options["depth"])))
    pipeline = rendered(pipeline, options["template"], budget=options["budget"])
    outcome = pipeline.run(dataset.batch(), resources)
    table = outcome.candidates
    contexts = [prompt.context or "" for prompt in pipeline.prompts(outcome, resources)]
    offered = [set(table.item[table.chosen & (table.request == index)].tolist()) for index in range(len(contexts))]
    needing = [index for index, query in enumerate(dataset.queries) if not query.needs_nothing]
    complete = np.array([is_complete(dataset, index, offered[index]) for index in needing], dtype=np.float64)
    names = np.array([str(dataset.queries[index].group) for index in needing])
    groups = np.unique(names, return_inverse=True)[1]
    interval = grouped_estimate(complete, groups, scale="yes/no", level=LEVEL).interval
    linked = np.array([LINKED in dataset.queries[index].tags for index in needing])
    return {
        "requests": len(needing),
        "complete": 100 * float(complete.mean()),
        "low": 100 * interval.low,
        "high": 100 * interval.high,
        "linked": 100 * float(complete[linked].mean()),
        "tokens": float(resources.text_tokens(contexts).mean()),
    }


def is_complete(dataset: Any, index: int, offered: set[int]) -> bool:
    """Whether one of each set of alternatives stands in the context."""
    required = dataset.required[dataset.queries[index].id]
    return all(any(dataset.catalog.find(key) in offered for key in group) for group in required)


def label(row: Any) -> str:
    """What differs from the defaults."""
    return NAMES[row.changed].format(getattr(row, row.changed)) if row.changed else "the defaults"


SERIES = {"limit": "memories", "depth": "relationships, depth", "budget": "budget of tokens", "template": "template"}


def draw(rows: pd.DataFrame, figure: Figure) -> None:
    """Completeness with its interval against tokens, a series for each option that is changed."""
    axes = constrained_axes(figure)
    named: list[PointLabel] = []
    for n, (option, title) in enumerate(SERIES.items()):
        line = rows[(rows["changed"] == option) | ((rows["changed"] == "") & (option == "limit"))].sort_values("tokens")
        line = line[(line["budget"] != 400) & (line["template"] != "summary")]  # as the defaults
        spread = [line["complete"] - line["low"], line["high"] - line["complete"]]
        axes.errorbar(line["tokens"], line["complete"], spread, fmt="o-", color=f"C{n}", capsize=3, label=title)
        for row in line.itertuples():
            at, reach = (row.tokens, row.complete), (row.tokens, row.low, row.tokens, row.high)
            named.append(PointLabel(at, f"{getattr(row, option)}", reach))
    place_labels(axes, named)
    axes.set_xlabel("tokens of the context")
    axes.set_ylabel("complete %")
    axes.set_xlim(0, 520)
    axes.legend(frameon=False, loc="lower right")


def page(tables: Tables) -> Page:
    """The report."""
    rows = tables[""]
    default, linked, more, detailed = (
        rows[rows[name] == value].iloc[0]
        for name, value in (("changed", ""), ("depth", 1), ("limit", 20), ("template", "detailed"))
    )
    gains = [f"{row['complete'] - default['complete']:.1f}" for row in (linked, more)]
    costs = [f"{row['tokens'] - default['tokens']:.0f}" for row in (linked, more)]
    return Page(
        title="How many memories, which template, which budget?",
        answer=f"Keep ten memories in `chat`, and follow relationships: depth 1 adds {gains[0]} points of completeness "
        f"for {costs[0]} tokens, ten more memories {gains[1]} for {costs[1]}.",
        picture=Picture(draw=lambda figure: draw(rows, figure), alt=" ".join(ALT.split()), width=560, height=360),
        table=[
            {
                "context": "**10 memories, `chat`, 2,000 tokens, no relationships**" if not row.changed else label(row),
                "complete % (95%)": f"{row.complete:.1f} ({row.low:.1f} to {row.high:.1f})",
                "linked %": f"{row.linked:.1f}",
                "tokens": f"{row.tokens:,.0f}",
            }
            for row in rows.itertuples()
        ],
        notes=[
            " ".join(note.split())
            for note in NOTES.format(
                n=int(default["requests"]),
                tokens=default["tokens"],
                room=DEFAULT["budget"] / default["tokens"],
                wide=detailed["tokens"] / default["tokens"],
            ).split("\n\n")
        ],
        made="`make memory-contexts` (`experiments/memory/contexts.py`): the pipeline of `ContextEngine` with other "
        "options, embeddings by `minilm`, tokens of the rendered text by o200k.",
    )


ALT = """Completeness against tokens of the context for each change of the defaults: relationships of depth 1 gain
about as much as ten more memories for fewer tokens"""
NOTES = """Complete % is the share of requests whose context has all that is required, over the {n}
requests of `diary` that need something (requests about the same facts count together). *Linked*: requests whose
memories are joined by relationships. The default follows none: pass
`--relationships`.

A budget decides nothing before it is smaller than what ten memories take, {tokens:.0f} tokens here: the
specification's 2,000 leave room for memories {room:.1f} times as long. `detailed` writes type, confidence and time,
for {wide:.1f} times the tokens; its memories are the same.

Differences of neighbouring rows are small compared with the intervals, and a language model wrote `diary`: single
notes of a sentence or two, a quarter of them linked. Measure your own with `ctxbench memory preview`."""


if __name__ == "__main__":
    run_page("memory-contexts", measure, page, about=__doc__ or "")
