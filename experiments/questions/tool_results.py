"""What tool results, and rules from tool to tool, pay in follow-ups: reports/tool-results.md (`make questions`).

`datasets/followups` has short messages right after a tool has answered; its tags say where the message alone tells what
is needed. Rules are written from the tuning split, so everything is read on the test split.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import ctxbench
from ctxbench.datasets.dataset import Dataset
from ctxbench.io.files import write_atomic
from ctxbench.model.arrays import Grade
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.selectors.definitions import find_definition

ROOT = Path(__file__).parents[2]
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
        "dense, message": ctxbench.pipeline(analyse="sentences", retrieve="dense", refine=FIRST),
        "dense, result": ctxbench.pipeline(analyse="tool_results", retrieve="dense", refine=FIRST),
        "dense, both": ctxbench.pipeline(analyse=BOTH, retrieve="dense", refine=FIRST),
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
    found: dict[str, Counter[str]] = defaultdict(Counter)
    queries = {query.id: query for query in dataset.queries if query.split == "tuning"}
    for label in dataset.labels:
        if label.query in queries and label.grade == Grade.REQUIRED and label.item.type == "tool":
            for tool, _ in queries[label.query].request.tool_results:
                found[tool][label.item.name] += 1
    return {
        tool: sorted(name for name, n in counts.items() if n >= AT_LEAST and name != tool)
        for tool, counts in sorted(found.items())
    }


def main() -> None:
    """Ask, and write the page."""
    ds = ctxbench.load(ROOT / "datasets" / "followups")
    rules = {tool: names for tool, names in rules_of(ds.dataset).items() if names}
    compared = selectors(rules)
    res = ctxbench.evaluate(
        ds, compared, baseline="dense, message", split="test", metrics=["completeness", "tokens", "recall"]
    )
    write_atomic(ROOT / "reports" / "tool-results.md", page(res, ds.dataset, len(rules)))


def page(res: ctxbench.Results, dataset: Dataset, n_rules: int) -> str:
    """The page: the answer, the table, how it was made."""
    tags = {query.id: query.tags[0] for query in dataset.queries}
    by_query = res.per_query()
    by_query["tag"] = by_query["query"].map(tags)
    means = 100 * by_query.groupby(["selector", "tag"])[["completeness", "recall"]].mean()
    tokens = by_query.groupby("selector")["tokens"].mean()
    counts = Counter(tags[query.id] for query in dataset.queries if query.split == "test")
    silent, telling = TAGS
    before, after = (means.recall[name, silent] for name in ("dense, message", "dense, both"))
    cost = means.recall["dense, both", telling] - means.recall["dense, message", telling]
    answer = (
        f"Searching with the tool's result, too, finds {after:.0f}% of what a follow-up needs where the message says "
        f"nothing of it, {before:.0f}% without; where the message tells it, that changes {cost:+.0f} points."
    )
    return "\n".join(
        [
            "# What tool results pay",
            "",
            f"**{answer}**",
            "",
            "| | message says nothing | | message tells | | | all |",
            "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
            "| selector | found % | complete % | found % | complete % | prompt tokens | complete, against the first |",
            *_rows(res, means, tokens),
            "",
            ABOUT.format(rules=n_rules, test=sum(counts.values()), silent=counts[silent], telling=counts[telling]),
        ]
    )


def _rows(res: ctxbench.Results, means, tokens) -> Iterator[str]:
    base = res.summary.compare_to
    for name in res.selectors:
        cells = [f"{means[metric][name, tag]:.1f}" for tag in TAGS for metric in ("recall", "completeness")]
        told = "-"
        if name != base:
            frame = res.compare(name, base)
            one = frame[frame["metric"] == "completeness"].iloc[0]
            told = f"{100 * one['difference']:+.1f} ({100 * one['low']:+.1f} to {100 * one['high']:+.1f})"
        yield f"| {name} | {' | '.join(cells)} | {tokens[name]:,.0f} | {told} |"


ABOUT = """`message`, `result`, `both`: what is searched with. All but `learned` offer five items. `rules` adds, for
the tool whose result is at hand, the tools that its follow-ups of the tuning split needed ({rules} rules). Found: of
the required items, the share that was offered; complete: all of them. Differences are in points with 95% intervals,
paired by query.

Made by `make questions` over the test split of `datasets/followups`: {test} messages, of which {silent} say nothing of
what is needed, {telling} tell it, and the rest need nothing. The rules did not see them. A language model wrote
messages, results and labels.

**What to do.** Name `tool_results` beside `sentences` in `analyse` where requests come with a result. Rules from tool
to tool are worth writing where one tool often follows another.

**What this does not say.** How often messages say nothing: the set was written to ask what happens then.
"""

if __name__ == "__main__":
    main()
