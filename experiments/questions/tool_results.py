"""What tool results, and rules from tool to tool, add in follow-ups: reports/tool-results.md (`make questions`).

`datasets/followups` has short messages right after a tool has answered; its tags say where the message alone says what
is needed. Rules are written from the tuning split, so everything is read on the test split.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import pandas as pd
from dots import dot_picture, gain_cell
from pages import Page, Tables, run_page

import ctxbench
from ctxbench.datasets.dataset import Dataset
from ctxbench.model.arrays import Grade
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.selectors.definitions import find_definition

DATA = Path(__file__).parents[2] / "datasets" / "followups"
BASE, WITH_RESULT = "dense, message", "dense, both"
FIRST = [{"first": {"n": 5}}]
BOTH = ["sentences", "tool_results"]
TAGS = ("says-nothing", "request-says")
AT_LEAST = 1  # follow-ups of the tuning split that need a tool after another one, for a rule


def selectors(rules: dict[str, list[str]]) -> dict[str, Pipeline]:
    """What is compared, by name: searches over the message, with the result, and with rules."""
    by_rules = {"tool_rules": {"rules": rules, "when": "result"}}
    definition, preset = find_definition("learned/normal")
    learned = definition.pipeline(definition.values(preset, {}))
    both = ctxbench.pipeline(analyse=BOTH, retrieve="dense").analyse
    return {
        BASE: ctxbench.pipeline(analyse="sentences", retrieve="dense", refine=FIRST),
        "dense, result": ctxbench.pipeline(analyse="tool_results", retrieve="dense", refine=FIRST),
        WITH_RESULT: ctxbench.pipeline(analyse=BOTH, retrieve="dense", refine=FIRST),
        "dense, message, rules": ctxbench.pipeline(analyse="sentences", retrieve="dense", refine=[*FIRST, by_rules]),
        "dense, both, rules": ctxbench.pipeline(analyse=BOTH, retrieve="dense", refine=[*FIRST, by_rules]),
        "bm25, message": ctxbench.pipeline(analyse="sentences", retrieve="bm25", refine=FIRST),
        "bm25, both": ctxbench.pipeline(analyse=BOTH, retrieve="bm25", refine=FIRST),
        "hybrid, both": ctxbench.pipeline(analyse=BOTH, retrieve={"merge": ["dense", "bm25"]}, refine=["rrf", *FIRST]),
        "learned, message": learned,
        "learned, both": replace(learned, analyse=both),
    }


def rules_of(dataset: Dataset) -> dict[str, list[str]]:
    """From the tool of a result to the tools that its follow-ups of the tuning split need."""
    needs: dict[str, Counter[str]] = defaultdict(Counter)
    queries = {query.id: query for query in dataset.queries if query.split == "tuning"}
    for label in dataset.labels:
        if label.query in queries and label.grade == Grade.REQUIRED and label.item.type == "tool":
            for tool, _ in queries[label.query].request.tool_results:
                needs[tool][label.item.name] += 1
    return {
        tool: sorted(name for name, n in counts.items() if n >= AT_LEAST and name != tool)
        for tool, counts in sorted(needs.items())
    }


def measure() -> Tables:
    """Shares of every selector by tag, and the difference in completeness to the search by message alone."""
    loaded = ctxbench.load(DATA)
    rules = {tool: names for tool, names in rules_of(loaded.dataset).items() if names}
    compared = selectors(rules)
    results = ctxbench.evaluate(
        loaded, compared, baseline=BASE, split="test", metrics=["completeness", "tokens", "recall"]
    )
    tags = {query.id: query.tags[0] for query in loaded.dataset.queries}
    by_query = results.per_query()
    by_query["tag"] = by_query["query"].map(tags)
    means = by_query.groupby(["selector", "tag"])[["recall", "completeness"]].mean()
    counts = Counter(tags[query.id] for query in loaded.dataset.queries if query.split == "test")
    rows = []
    for name in compared:
        row = {"selector": name, "rules": len(rules) if "rules" in name else 0}
        for tag in TAGS:
            row |= {f"{tag}_recall": means.recall[name, tag], f"{tag}_complete": means.completeness[name, tag]}
            row[f"{tag}_queries"] = counts[tag]
        row |= {"queries": counts.total(), "tokens": by_query.loc[by_query["selector"] == name, "tokens"].mean()}
        if name != BASE:
            compared_with = results.compare(name, BASE)
            gain = compared_with[compared_with["metric"] == "completeness"].iloc[0]
            row |= {column: gain[column] for column in ("difference", "low", "high", "significant")}
        rows.append(row)
    return {"": pd.DataFrame(rows)}


def page(tables: Tables) -> Page:
    """The page of these shares."""
    shares = tables[""].set_index("selector")
    silent, telling = TAGS
    before, after = shares.loc[BASE], shares.loc[WITH_RESULT]
    lost = 100 * (before[f"{telling}_recall"] - after[f"{telling}_recall"])
    return Page(
        title="Should results of tools be searched with?",
        answer=(
            f"Yes. Where the message does not say what is needed, recall is {after[f'{silent}_recall']:.0%} with the "
            f"result and {before[f'{silent}_recall']:.0%} without; elsewhere {lost:.0f} points are lost."
        ),
        picture=dot_picture(
            {name: {"completeness": row} for name, row in shares.drop(index=BASE).iterrows()},
            x=f"points of completeness above “{BASE}”",
            alt="Completeness of each selector above a search by the message alone, with 95% intervals",
        ),
        table=[
            {
                "searched with": name,
                "recall, message silent": f"{row[f'{silent}_recall']:.1%}",
                "complete, silent": f"{row[f'{silent}_complete']:.1%}",
                "recall, message says it": f"{row[f'{telling}_recall']:.1%}",
                "complete, says it": f"{row[f'{telling}_complete']:.1%}",
                "prompt tokens": f"{row['tokens']:,.0f}",
                "difference, points": gain_cell(row),
            }
            for name, row in shares.iterrows()
        ],
        notes=(
            (
                "All but `learned` offer five items. `rules` adds, for the tool whose result is at hand, the tools "
                f"that its follow-ups of the tuning split needed ({shares['rules'].max()} rules); they gain little "
                "from so few labels. Differences are paired by query, with 95% intervals, over all messages."
            ),
            "To use results, name `tool_results` with `sentences` in `analyse`.",
        ),
        made=(
            f"`make questions`: test split of `datasets/followups`, {before['queries']:.0f} messages, of which "
            f"{before[f'{silent}_queries']:.0f} say nothing of what is needed, {before[f'{telling}_queries']:.0f} say "
            "it, and the rest need nothing. A language model wrote messages, results and labels to ask this question: "
            "they do not show how often messages say nothing."
        ),
    )


if __name__ == "__main__":
    run_page("tool-results", measure, page, about=__doc__.splitlines()[0])
