"""Which kinds of items deserve their context: reports/item-kinds.md (`make questions`).

For each type of item: what offering it costs, how much of it is needed, and what a needed item costs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).parents[1]))

import pandas as pd
from pages import Page, Picture, Tables, constrained_axes, run_page

import ctxbench
from ctxbench.datasets.dataset import Dataset
from ctxbench.model.arrays import Grade
from ctxbench.search.tokens import open_counter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASETS = ("workbench", "freight")
SELECTORS = {"semantic/spec": "specification's defaults", "learned/normal": "learned/normal"}
COUNTER = "o200k"


def measure() -> Tables:
    """Sums over the queries of a dataset, by selector and type of item."""
    results = ctxbench.evaluate(
        list(DATASETS), list(SELECTORS), split="test", metrics=["completeness", "tokens"], counter=COUNTER
    )
    return {
        "": pd.DataFrame(row for name in DATASETS for selector in SELECTORS for row in sums(results, name, selector))
    }


def sums(results: ctxbench.Results, name: str, selector: str) -> Iterator[dict[str, object]]:
    """A row for each type of item.

    Items of the session are left out: nobody searched for them. An alternative counts as needed.
    """
    dataset: Dataset = results.datasets[name]
    items, ids = list(dataset.catalog), dataset.catalog.ids
    tokens = dict(
        zip(ids, open_counter(COUNTER).count(ids, [item.prompt_text for item in items]).tolist(), strict=True)
    )
    keys = dict(zip((item.key for item in items), ids, strict=True))
    queries = {query.id for query in dataset.queries if query.split == "test"}
    selected = [(row["query"], item) for row in selections(results, name, selector) for item in row["items"]]
    session = {(query, item["id"]) for query, item in selected if item["origin"] == "session"}
    offered = {(query, item["id"]) for query, item in selected} - session
    needed = {
        (label.query, keys[label.item])
        for label in dataset.labels
        if label.grade == Grade.REQUIRED and label.query in queries
    } - session
    for type_ in dict.fromkeys(item.type for item in items):
        members = {item.id for item in items if item.type == type_}
        offered_type, needed_type = ({pair for pair in pairs if pair[1] in members} for pairs in (offered, needed))
        yield {
            "dataset": name,
            "selector": selector,
            "type": type_,
            "queries": len(queries),
            "offered": len(offered_type),
            "tokens": sum(tokens[item] for _, item in offered_type),
            "needed": len(needed_type),
            "needed_offered": len(needed_type & offered_type),
        }


def selections(results: ctxbench.Results, dataset: str, selector: str) -> Iterator[dict]:
    """What was offered for each query, as the run stored it."""
    path = results.folder / dataset / selector.replace("/", "~") / "selections.jsonl"
    yield from map(json.loads, path.read_text("utf-8").splitlines())


def page(tables: Tables) -> Page:
    """The page of these sums: both datasets together."""
    by_type = both_datasets(tables[""])
    costs = by_type["cost"].unstack("type").loc[list(SELECTORS)]
    spec, shipped = (costs.loc[selector] for selector in SELECTORS)
    return Page(
        title="Which kinds of items deserve their context?",
        answer=(
            f"Tools first: a needed tool costs {shipped['tool']:,.0f} tokens, wrong offers counted; a rule "
            f"{shipped['rule']:,.0f}, a reference {shipped['reference']:,.0f} (the specification's defaults: "
            f"{spec['reference']:,.0f})."
        ),
        picture=Picture(
            draw=partial(draw, costs),
            alt="Prompt tokens for each needed item that was offered, by type",
            width=520,
            height=280,
        ),
        table=[
            {
                "type": type_,
                "selector": SELECTORS[selector],
                "tokens per query": f"{row['tokens'] / row['queries']:,.0f}",
                "needed items offered": f"{row['needed_offered']:,.0f} of {row['needed']:,.0f} "
                f"({row['needed_offered'] / row['needed']:.0%})",
                "offered items needed": f"{row['needed_offered'] / row['offered']:.0%}",
                "tokens per needed item": f"{row['cost']:,.0f}",
            }
            for (type_, selector), row in by_type.iterrows()
        ],
        notes=(
            (
                "Tokens per needed item: prompt tokens of all offers of a type, for each needed item among them. Where "
                "one type costs far more than the others, cut it alone ([presets-domains](presets-domains.md)), "
                "shorten its texts, or offer it by name and let the model load it (type `skill`). A costly type may "
                "still be worth more: a missed rule can do more harm than a missed tool."
            ),
        ),
        made=(
            "`make questions`: test splits of `workbench` and `freight` together, whose catalogs hold tools, rules and "
            "references; tokens by o200k. What the session holds is left out. Both datasets were written and labelled "
            "by a language model."
        ),
    )


def both_datasets(rows: pd.DataFrame) -> pd.DataFrame:
    """Sums over the datasets by type and selector, types that are needed only, with `cost` for each needed item."""
    columns = ["queries", "offered", "tokens", "needed", "needed_offered"]
    total = rows.groupby(["type", "selector"])[columns].sum()
    total = total[total["needed"] > 0]
    total = total.assign(cost=total["tokens"] / total["needed_offered"])
    return total.sort_values(["cost"]).sort_index(level="type", sort_remaining=False, ascending=False)


def draw(costs: pd.DataFrame, figure: Figure) -> None:
    """Bars by type, a colour for each selector."""
    axes = constrained_axes(figure)
    types = ["tool", "rule", "reference"]
    for index, (selector, colour) in enumerate(zip(SELECTORS, ("0.7", "C0"), strict=True)):
        heights = [row + 0.4 * index for row in range(len(types))]
        values = costs.loc[selector, types]
        axes.barh(heights, values, 0.36, color=colour, label=SELECTORS[selector])
        for height, value in zip(heights, values, strict=True):
            axes.annotate(f"{value:,.0f}", (value, height), (4, 0), textcoords="offset points", va="center")
    axes.set_yticks([row + 0.2 for row in range(len(types))], types)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * costs.max().max())
    axes.set_xlabel("prompt tokens per needed item")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(visible=False, axis="y")
    axes.legend(frameon=False, loc="upper right")


if __name__ == "__main__":
    run_page("item-kinds", measure, page, about=__doc__.splitlines()[0])
