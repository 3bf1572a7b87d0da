"""Which kinds of items deserve their context: reports/item-kinds.md (`make questions`).

For each type of item: what offering it costs, how much of it is needed, and what a needed item costs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

import ctxbench
from ctxbench.datasets.dataset import Dataset
from ctxbench.io.files import write_atomic
from ctxbench.model.arrays import Grade
from ctxbench.search.tokens import open_counter

ROOT = Path(__file__).parents[2]
DATASETS = ("workbench", "freight")
SELECTORS = ("semantic/spec", "learned/normal")
COUNTER = "o200k"


class Row(NamedTuple):
    """What a selector did with the items of one type on one dataset: sums over the queries."""

    dataset: str
    selector: str
    type: str
    queries: int
    offered: int
    tokens: int
    needed: int
    found: int

    @property
    def price(self) -> float:
        """Tokens offered for each needed item that was found; infinite where none was."""
        return self.tokens / self.found if self.found else float("inf")


def main() -> None:
    """Ask, count and write the page."""
    res = ctxbench.evaluate(
        list(DATASETS), list(SELECTORS), split="test", metrics=["completeness", "tokens"], counter=COUNTER
    )
    rows = [row for dataset in DATASETS for name in SELECTORS for row in counted(res, dataset, name)]
    write_atomic(ROOT / "reports" / "item-kinds.md", page(rows))


def counted(res: ctxbench.Results, dataset: str, selector: str) -> Iterator[Row]:
    """One row a type, and one for all of them.

    Items of the session are left out: nobody searched for them. An alternative counts as needed.
    """
    data: Dataset = res.datasets[dataset]
    counter = open_counter(COUNTER)
    items = list(data.catalog)
    counts = counter.count(data.catalog.ids, [item.prompt_text for item in items])
    tokens = dict(zip(data.catalog.ids, counts.tolist(), strict=True))
    types = dict(zip(data.catalog.ids, (item.type for item in items), strict=True))
    ids = dict(zip((item.key for item in items), data.catalog.ids, strict=True))
    asked = {query.id for query in data.queries if query.split == "test"}
    rows = [(row["query"], item) for row in selections(res, dataset, selector) for item in row["items"]]
    held = {(query, item["id"]) for query, item in rows if item["origin"] == "session"}
    offered = {(query, item["id"]) for query, item in rows} - held
    needed = {
        (label.query, ids[label.item])
        for label in data.labels
        if label.grade == Grade.REQUIRED and label.query in asked
    } - held
    for kind in [*dict.fromkeys(types.values()), "all"]:
        of_kind = {one for one, its in types.items() if kind in (its, "all")}
        mine = [pair for pair in offered if pair[1] in of_kind]
        want = {pair for pair in needed if pair[1] in of_kind}
        spent = sum(tokens[item] for _, item in mine)
        yield Row(dataset, selector, kind, len(asked), len(mine), spent, len(want), len(want & set(mine)))


def selections(res: ctxbench.Results, dataset: str, selector: str) -> Iterator[dict]:
    """What was offered for each query, as the run stored it."""
    path = res.folder / dataset / selector.replace("/", "~") / "selections.jsonl"
    yield from map(json.loads, path.read_text("utf-8").splitlines())


def page(rows: list[Row]) -> str:
    """The page: the answer, the table, how it was made."""
    frame = pd.DataFrame([{**row._asdict(), "price": row.price} for row in rows])
    frame = frame[(frame.needed > 0) & (frame.type != "all")]
    sums = frame.groupby(["selector", "type"])[["tokens", "found"]].sum()
    price = (sums.tokens / sums.found).unstack("type").round()
    share = 100 * sums / sums.groupby("selector").sum()
    dear = price.loc[SELECTORS[0]].idxmax()
    told = [
        ", ".join(f"{value:,.0f} for a {kind}" for kind, value in price.loc[name].sort_values().items())
        for name in SELECTORS
    ]
    answer = (
        f"A needed item that is found costs, in prompt tokens of all offers of its kind, with the shipped ranking "
        f"{told[1]}; with the specification's defaults {told[0]}. "
        f"There, {dear}s take {share.tokens[SELECTORS[0], dear]:.0f}% of the tokens and "
        f"are {share.found[SELECTORS[0], dear]:.0f}% of what is found."
    )
    lines = [
        "# Which kinds of items deserve their context",
        "",
        f"**{answer}**",
        "",
        "| dataset | selector | type | offered a query | tokens a query | needed, found | offered, needed | price |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        if not row.needed and not row.offered:
            continue
        found = (
            f"{row.found:,} of {row.needed:,} ({100 * row.found / row.needed:.0f}%)" if row.needed else "none needed"
        )
        share = f"{100 * row.found / row.offered:.1f}%" if row.offered else "-"
        price = f"{row.price:,.0f}" if row.found else "-"
        cells = (
            row.dataset,
            row.selector,
            row.type,
            f"{row.offered / row.queries:.2f}",
            f"{row.tokens / row.queries:,.0f}",
            found,
            share,
            price,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", ABOUT, ""])


ABOUT = """`needed, found`: of the needed items, how many were offered. `offered, needed`: of the offered items, how
many are needed. `price`: prompt tokens of all offers of the kind, for each needed item among them.

Made by `make questions`. Test splits of workbench and freight, whose catalogs hold tools, rules and
references; prompt tokens by o200k. An item is needed where a label requires it; of alternatives each counts. What the
session holds is left out: nobody searched for it.

**What to do.** The price of a kind is what its items cost times how seldom they are right. Where one kind costs far
more than the others, give it a cut of its own (`by_domain`; `presets-domains.md` says which), shorten its texts, or
offer it by name and description and let the model load it (type `skill`).

**What this does not say.** That a costly kind is worth less: a rule that is missing may cost more than a tool. Both
datasets were written and labelled by a language model."""

if __name__ == "__main__":
    main()
