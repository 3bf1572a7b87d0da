"""How many memories, which template, which budget and whether relationships: reports/memory-contexts.md.

Each row is `ContextEngine.build` with other options, over all requests of `diary` and every memory that they may see:
whether all that is required stands in the context, at least in part, and how many tokens the text takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.cli.common import run_script
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.comparisons import grouped_estimate
from ctxbench.evaluation.statistics import LEVEL
from ctxbench.io.files import write_atomic
from ctxbench.model.registry import build
from ctxbench.model.strategies import Step
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition

ROOT = Path(__file__).parents[2]
DEFAULT = {"limit": 10, "template": "chat", "budget": 2000, "depth": 0, "metadata": True}
CHANGES: Mapping[str, tuple[Any, ...]] = {
    "limit": (3, 5, 20),
    "budget": (100, 200, 400),
    "template": ("detailed", "summary"),
    "depth": (1, 2),
}
NAMES = {"limit": "memories:", "budget": "tokens:", "template": "template", "depth": "relationships, steps:"}
LINKED = "linked"


@dataclass(frozen=True, eq=False)
class Measured:
    """Completeness of the requests that need something, all and those that test links, and tokens of all contexts."""

    complete: np.ndarray
    linked: np.ndarray
    groups: np.ndarray
    tokens: np.ndarray


def measure(options: Mapping[str, Any]) -> Measured:
    """Build the context of every request."""
    dataset = open_dataset("diary").judged()
    resources = local_resources(open_embedder("minilm"), open_counter("o200k"))
    shipped = definition("memory")
    pipeline = shipped.pipeline(shipped.values(None, {"n": options["limit"]}))
    steps = list(pipeline.refine)
    if options["depth"]:
        steps.append(Step("expand", "links", build("expand", "links", {"depth": options["depth"]})))
    steps.append(Step("pack", "rendered", build("pack", "rendered", {"tokens": options["budget"]})))
    form = build("format", "template", {"template": options["template"], "metadata": options["metadata"]})
    pipeline = replace(pipeline, refine=tuple(steps), format=Step("format", "template", form))
    outcome = pipeline.run(dataset.batch(), resources)
    found = outcome.candidates
    contexts = [prompt.context or "" for prompt in pipeline.prompts(outcome, resources)]
    offered = [set(found.item[found.chosen & (found.request == place)].tolist()) for place in range(len(contexts))]
    asked = [place for place, query in enumerate(dataset.queries) if not query.needs_nothing]
    complete = np.array([is_complete(dataset, place, offered[place]) for place in asked], dtype=np.float64)
    names = np.array([str(dataset.queries[place].group) for place in asked])
    return Measured(
        complete=complete,
        linked=np.array([LINKED in dataset.queries[place].tags for place in asked]),
        groups=np.unique(names, return_inverse=True)[1],
        tokens=resources.text_tokens(contexts),
    )


def is_complete(dataset: Any, place: int, offered: set[int]) -> bool:
    """Whether one of each set of alternatives stands in the context."""
    required = dataset.required[dataset.queries[place].id]
    return all(any(dataset.catalog.find(key) in offered for key in group) for group in required)


@dataclass(frozen=True)
class Row:
    """A row of the table: what differs from the defaults, completeness in per cent, of linked requests, and tokens."""

    what: str
    complete: float
    interval: tuple[float, float]
    linked: float
    tokens: float

    def __str__(self) -> str:
        low, high = self.interval
        figures = (f"{self.complete:.1f} ({low:.1f} to {high:.1f})", f"{self.linked:.1f}", f"{self.tokens:,.0f}")
        return f"| {' | '.join([self.what, *figures])} |"


def row(what: str, options: Mapping[str, Any]) -> Row:
    """Measure some options."""
    found = measure({**DEFAULT, **options})
    one = grouped_estimate(found.complete, found.groups, scale="yes/no", level=LEVEL)
    return Row(
        what=what,
        complete=100 * float(found.complete.mean()),
        interval=(100 * one.interval.low, 100 * one.interval.high),
        linked=100 * float(found.complete[found.linked].mean()),
        tokens=float(found.tokens.mean()),
    )


def page(default: Row, rows: Mapping[tuple[str, Any], Row], n: int) -> str:
    """The report."""
    linked, more, detailed = rows["depth", 1], rows["limit", 20], rows["template", "detailed"]
    gains = [f"{one.complete - default.complete:.1f}" for one in (linked, more)]
    costs = [f"{one.tokens - default.tokens:.0f}" for one in (linked, more)]
    room, wide = DEFAULT["budget"] / default.tokens, detailed.tokens / default.tokens
    answer = (
        "**Keep ten memories, the template `chat` and 2,000 tokens, and follow relationships where memories have them: "
        f"one step adds {gains[0]} points of completeness for {costs[0]} tokens, ten more memories {gains[1]} for "
        f"{costs[1]}.**"
    )
    return f"""# How many memories, which template, which budget?

{answer}

Completeness is the share of requests for which all that is required stands in the context, over the {n} requests of
`diary` that need something, with its 95% interval (requests about the same facts count together). *Linked* are those
whose memories are joined by relationships. Tokens are those of the rendered text, by `o200k_base`, over all requests.

| | complete % | linked % | tokens |
|---|---:|---:|---:|
{default}
{chr(10).join(map(str, rows.values()))}

* A budget decides nothing before it is smaller than what ten memories take, {default.tokens:.0f} tokens here: the
  document's 2,000 leave room for memories {room:.1f} times as long.
* `detailed` writes type, confidence and time beside each memory, for {wide:.1f} times the tokens; which memories stand
  there is the same, and whether a model makes more of it is outside.
* The differences between neighbouring rows are small beside the intervals, and `diary` was written by a language
  model: single notes of a sentence or two, a quarter of them linked. Measure your own: `ctxbench memory preview`.

Made by `make memory-contexts`: the pipeline of `ContextEngine` with other options. Embeddings:
{open_embedder("minilm").identity.key}.
"""


def main() -> int:
    """Measure and write the page."""
    default = row("10 memories, `chat`, 2,000 tokens, no relationships", {})
    rows = {(name, one): row(f"{NAMES[name]} {one}", {name: one}) for name, values in CHANGES.items() for one in values}
    n = sum(not query.needs_nothing for query in open_dataset("diary").judged().queries)
    write_atomic(ROOT / "reports" / "memory-contexts.md", page(default, rows, n))
    return 0


if __name__ == "__main__":
    run_script(main)
