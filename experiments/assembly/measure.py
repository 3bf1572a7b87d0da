"""What the selector `assembly` finds, and what each of its parts pays: reports/assembly.md (`make assembly`).

Parts are compared on the tuning split of `threads`, what is recommended on its test split. Where CTXBENCH_POSTGRES
names a PostgreSQL server, its text index is measured, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from replay import Figures, replayed

import ctxbench
from ctxbench.cli.common import run_script
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.comparisons import grouped_estimate
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.statistics import LEVEL
from ctxbench.io.files import write_atomic
from ctxbench.model.registry import build
from ctxbench.model.strategies import Merge, Step
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from ctxbench.tuning.fit_examples import labelled_queries
from ctxbench.tuning.linear_fits import LinearExamples, WeightFigures, linear_index

ROOT = Path(__file__).parents[2]
DATASET = "datasets/threads"
METRICS = ("completeness", "tokens", "items")
OBJECTIVE, FOLDS = parse_metric("nDCG@10"), 8
BUDGETS = (500, 1000, 2000, 3500)
RESERVED = 500
SOURCES = ("full_text", "keywords", "similar", "thread", "recent")
LENGTHS = (250, 500, 1000, 2000, 4000)
COLUMNS = ("assembly.tfidf", "assembly.keywords", "assembly.recency", "assembly.source", "assembly.uses")
WEIGHTS = ("text", "matched", "recency", "source", "uses")
EMBEDDINGS = "`assembly/embeddings`"
DOCUMENTS = (0.35, 0.25, 0.15, 0.15, 0.1)
TEXT = {"TF": "assembly.tf", "BM25": "words.bm25", "dense": "similarity.score"}


@dataclass(frozen=True)
class Row:
    """Completeness in per cent with its interval (requests of a thread count together), tokens and items, as means."""

    complete: float
    low: float
    high: float
    tokens: float
    items: float

    def __str__(self) -> str:
        return f"{self.complete:.1f} ({self.low:.1f} to {self.high:.1f}) | {self.tokens:,.0f} | {self.items:.1f}"


@dataclass(frozen=True)
class Change:
    """A difference of completeness in points, with its interval over threads, and how many requests it is made of."""

    points: float
    low: float
    high: float
    changed: int

    def __str__(self) -> str:
        if not self.changed:
            return "no request changed"
        return f"{self.points:+.1f} ({self.low:+.1f} to {self.high:+.1f})"


class Table:
    """Selectors on the queries of one split."""

    def __init__(self, selectors: Mapping[str, Any], split: str) -> None:
        sys.stderr.write(f"{split}: {', '.join(selectors)}\n")
        self._found = ctxbench.evaluate(ctxbench.load(DATASET), dict(selectors), split=split, metrics=METRICS)
        frame = self._found.per_query()
        failed = frame[frame["error"] != ""]
        if len(failed):
            raise SystemExit(f"{failed.iloc[0]['selector']}: {failed.iloc[0]['error']}")
        threads = {query.id: str(query.group) for query in open_dataset(DATASET).queries}
        asked = frame[frame["completeness"].notna()]
        named = {threads[query] for query in asked["query"]}
        self.requests = f"{asked['query'].nunique()} requests of {len(named)} threads that need something"
        self.rows: dict[str, Row] = {}
        for name in selectors:
            own = frame[frame["selector"] == name]
            asked = own[own["completeness"].notna()]
            groups = np.unique([threads[query] for query in asked["query"]], return_inverse=True)[1]
            one = grouped_estimate(asked["completeness"].to_numpy(), groups, scale="yes/no", level=LEVEL)
            share, tokens, items = (float(own[metric].mean()) for metric in METRICS)
            self.rows[name] = Row(100 * share, 100 * one.interval.low, 100 * one.interval.high, tokens, items)

    def change(self, name: str, base: str) -> Change:
        """How much more complete one is than another."""
        found = self._found.compare(name, base, metrics=["completeness"], by_group=True).iloc[0]
        figures = (100 * float(found[part]) for part in ("difference", "low", "high"))
        return Change(*figures, changed=int(found["higher"] + found["lower"]))

    def lines(self, *, base: str = "") -> str:
        """Rows of a Markdown table; with a base, each with its difference to that."""
        ends = {
            name: f" | {self.change(name, base)}" if base and name != base else " |" * bool(base) for name in self.rows
        }
        return "\n".join(f"| {name} | {row}{ends[name]} |" for name, row in self.rows.items())


def assembly(**values: Any) -> dict[str, Any]:
    """The shipped selector with other values."""
    return {"selector": "assembly", "set": values}


def searched(retriever: Mapping[str, Any]) -> Pipeline:
    """The shipped pipeline with another search of files in the place of its first one."""
    pipeline = shipped()
    if not isinstance(pipeline.retrieve, Merge):
        raise TypeError("assembly has lost its merge")
    (name, values), *_ = retriever.items()
    sources = {**pipeline.retrieve.sources, "full_text": Step("retrieve", name, build("retrieve", name, values))}
    return replace(pipeline, retrieve=replace(pipeline.retrieve, sources=sources))


def shipped() -> Pipeline:
    """The pipeline of the shipped selector."""
    found = definition("assembly")
    return found.pipeline(found.values())


def filled(name: str, tokens: int, **values: Any) -> Pipeline:
    """The shipped pipeline with one other fit at its end."""
    step = Step("pack", name, build("pack", name, {"tokens": tokens, "reserved": RESERVED, **values}))
    pipeline = shipped()
    return replace(pipeline, refine=(*pipeline.refine[:-1], step))


def examples(columns: tuple[str, ...]) -> LinearExamples:
    """What weights of some columns are fitted on."""
    resources = local_resources(open_embedder("minilm"), open_counter("o200k"))
    pipeline = shipped()
    place = linear_index(pipeline) or 0
    steps = list(pipeline.refine)
    steps[place] = Step("rank", "linear", build("rank", "linear", {"weights": dict.fromkeys(columns, 1.0)}))
    queries = labelled_queries(open_dataset(DATASET).judged(), "tuning")
    return LinearExamples.of(queries, replace(pipeline, refine=tuple(steps)), resources)


def fitted(columns: tuple[str, ...]) -> tuple[dict[str, float], WeightFigures]:
    """The best weights of some columns, and what such weights are worth on threads they were not fitted on."""
    sys.stderr.write(f"weights of {', '.join(columns)}\n")
    world = examples(columns)
    weights: dict[str, float] = world.fit(OBJECTIVE)["weights"]
    return weights, world.measure(OBJECTIVE, FOLDS)


def at_budgets(make: Callable[[int], Mapping[str, Any]], budgets: Sequence[int] = BUDGETS) -> Mapping[str, Any]:
    """Selectors at each budget."""
    return {f"{name}, {tokens:,} tokens": one for tokens in budgets for name, one in make(tokens + RESERVED).items()}


def documents(tokens: int) -> dict[str, Any]:
    """The document's own selector at a budget."""
    return {"selector": "assembly", "preset": "spec", "set": {"tokens": tokens}}


def embeddings(tokens: int) -> dict[str, Any]:
    """The shipped preset that ranks by embeddings, too, at a budget."""
    return {"selector": "assembly", "preset": "embeddings", "set": {"tokens": tokens}}


def reweighted(tokens: int) -> dict[str, Any]:
    """The shipped selector at a budget with the document's weights."""
    return assembly(tokens=tokens, **dict(zip(WEIGHTS, DOCUMENTS, strict=True)))


def weight_lines() -> tuple[str, str, str]:
    """The table of columns, and the weights found, with dense and without."""
    best, all_five = fitted(COLUMNS)
    rows = [f"| all five | {all_five.compared.other:.3f} | |"]
    for column in COLUMNS:
        _, one = fitted(tuple(name for name in COLUMNS if name != column))
        rows.append(
            f"| without `{column}` | {one.compared.other:.3f} | {one.compared.other - all_five.compared.other:+.3f} |"
        )
    for name, column in TEXT.items():
        _, one = fitted((column, *COLUMNS[1:]))
        rows.append(_held_out(f"{name} in the place of TF-IDF", one, all_five))
    dense, one = fitted((*COLUMNS, TEXT["dense"]))
    rows.append(
        f"| dense beside all five | {one.compared.other:.3f} | {one.compared.other - all_five.compared.other:+.3f} |"
    )
    return "\n".join(rows), _told(best), _told(dense)


def cache(found: Figures) -> str:
    """The section on the cache."""
    own, document = found.hits / found.asked, found.document_hits / found.asked
    return f"""
## The cache of `ctxbench serve`

The requests of `threads` in order of time, each previewed and then built, one in ten built again; before one build in
three something is written (`experiments/assembly/replay.py`).

| | ours | by thread alone, as documented |
|---|---:|---:|
| asked | {found.asked} | {found.asked} |
| answered from the cache | {found.hits} ({own:.0%}) | {found.document_hits} ({document:.0%}) |
| of these wrong | {found.wrong} | {found.document_wrong} |

Of {found.unchanged} builds since whose preview nothing was written {found.unchanged_hits} come from the cache, of
{found.written} after a write {found.written - found.written_misses}. The document asks for 30%.
"""


def _sure(told_apart: bool) -> str:
    """Whether the first two figures of the answer differ significantly."""
    if told_apart:
        return "The first two figures differ significantly."
    return "The first two figures do not differ significantly: more threads would have to say whether a model pays."


def _held_out(name: str, one: WeightFigures, base: WeightFigures) -> str:
    return f"| {name} | {one.compared.other:.3f} | {one.compared.other - base.compared.other:+.3f} |"


def _told(weights: Mapping[str, float]) -> str:
    return ", ".join(f"`{name}` {round(weight, 2) + 0.0:g}" for name, weight in weights.items())


def text_indexes() -> Mapping[str, Any]:
    """The shipped selector over each text index and BM25."""
    found = {"`full_text` in SQLite": assembly(), "`bm25` in its place": searched({"bm25": {"depth": 20}})}
    if os.environ.get("CTXBENCH_POSTGRES"):
        found["`full_text` in PostgreSQL"] = assembly(index="postgres")
    return {**found, "`dense` in its place": searched({"dense": {"depth": 20}})}


def main() -> int:
    """Measure and write the page."""
    columns, weights, with_dense = weight_lines()
    sources = Table(
        {
            "all six": assembly(),
            **{f"without `{name}`": assembly(**{name: 0}) for name in SOURCES},
            "without `references`": _without_references(),
        },
        "tuning",
    )
    lengths = Table({f"{one:,} characters": assembly(characters=one) for one in LENGTHS}, "tuning")
    fits = Table(
        at_budgets(
            lambda tokens: {
                "`knapsack`": assembly(tokens=tokens),
                "`greedy`, the document's rules": filled("greedy", tokens),
                "`greedy`, by density alone": filled("greedy", tokens, type_share=None, stop_share=None),
            },
            (BUDGETS[1], BUDGETS[-1]),
        ),
        "tuning",
    )
    indexes = Table(text_indexes(), "tuning")
    final = Table(
        {
            **at_budgets(
                lambda tokens: {
                    "the document": documents(tokens),
                    "the document's weights": reweighted(tokens),
                    "`assembly`": assembly(tokens=tokens),
                    EMBEDDINGS: embeddings(tokens),
                }
            ),
            "`bm25`, 5 whole items": "bm25",
            "`hybrid`, 5 whole items": "hybrid",
        },
        "test",
    )
    text = page((columns, weights, with_dense), sources, lengths, fits, indexes, final)
    write_atomic(ROOT / "reports" / "assembly.md", text + cache(replayed()))
    return 0


def _without_references() -> Pipeline:
    """The shipped pipeline without what the thread refers to."""
    pipeline = shipped()
    if not isinstance(pipeline.retrieve, Merge):
        raise TypeError("assembly has lost its merge")
    steps = {name: step for name, step in pipeline.retrieve.sources.items() if name != "references"}
    return replace(pipeline, retrieve=replace(pipeline.retrieve, sources=steps))


def page(
    ranking: tuple[str, str, str], sources: Table, lengths: Table, fits: Table, indexes: Table, final: Table
) -> str:
    """The report."""
    columns, weights, with_dense = ranking
    middle = BUDGETS[-2]
    full = f"{BUDGETS[-1]:,} tokens"
    best, own, document = (
        final.rows[f"{one}, {middle:,} tokens"] for one in (EMBEDDINGS, "`assembly`", "the document")
    )
    whole = final.rows["`hybrid`, 5 whole items"]
    paid = {n: final.change(f"`assembly`, {n:,} tokens", f"the document's weights, {n:,} tokens") for n in BUDGETS}
    more = {n: final.change(f"{EMBEDDINGS}, {n:,} tokens", f"`assembly`, {n:,} tokens") for n in BUDGETS}
    changes = "\n".join(f"| {n:,} | {paid[n]} | {more[n]} |" for n in BUDGETS)
    answer = (
        f"**Take {EMBEDDINGS}: within {middle:,} tokens its context is complete for {best.complete:.0f}% of the "
        f"requests of unseen threads, at {best.tokens:,.0f} tokens; without a model of embeddings for "
        f"{own.complete:.0f}%, at {own.tokens:,.0f}, with the document's settings for {document.complete:.0f}%, at "
        f"{document.tokens:,.0f}, and with five whole items of `hybrid` for {whole.complete:.0f}%, at "
        f"{whole.tokens:,.0f}.**"
    )
    head = "| | complete % | tokens | items |\n|---|---:|---:|---:|"
    with_change = "| | complete % | tokens | items | change |\n|---|---:|---:|---:|---:|"
    return f"""# Which files and messages does a thread need?

{answer}

Complete is a context that shows all that a request needs: of each required file or message the words that the label
quotes, so an excerpt that leaves them out does not count. Intervals are of 95%, over {final.requests};
those of one thread count together. Tokens are those of what is shown, by `o200k_base`; heads with ids and sources,
about a sixth more, count in the budget, which is `tokens` less `reserved`.
{_sure(more[middle].low > 0)}

## On threads that nothing was chosen on

The test split. *The document* is document 002 as written (preset `spec`: its weights, excerpts of 500 characters,
ten files by full text, its greedy rules, which leave room unused); *the document's weights* are its weights in
`assembly` as shipped.

{head}
{final.lines()}

Points of completeness at equal tokens: what the fitted weights are worth, against the document's, and what the preset
`embeddings` adds, which also ranks by the similarity of embeddings and needs a model for it.

| tokens | fitted weights | embeddings beside them |
|---:|---:|---:|
{changes}

## What each source pays

From here on the tuning split. `references` is what the thread refers to, `full_text` any word, `keywords` all keywords,
`similar` trigrams, `thread` the last 20 messages, `recent` the files opened last; the change is to all six.

{with_change}
{sources.lines(base="all six")}

## What each column pays

{OBJECTIVE} of whole items on threads that the weights were not fitted on ({FOLDS} folds of threads). TF is the
document's cosine; dense is `similarity.score`, the cosine of embeddings.

| | {OBJECTIVE} | change |
|---|---:|---:|
{columns}

None of these differences has an interval, and those of `recency`, `source` and BM25 are as small as chance would make
them; the columns are the document's. The weights found, which `assembly` and its preset `embeddings` ship, rounded:
{weights}; with dense beside them {with_dense}.

## What an excerpt costs

The window with the most of the request's words, within {full} for all items. Short ones leave room unused, since no
more items are found; long ones leave room for few.

{head}
{lengths.lines()}

## Greedy or exact

{head}
{fits.lines()}

By density alone as many items are chosen; the document's two rules stop earlier, and leave room that would be of use.

## Which text index

{with_change}
{indexes.lines(base="`full_text` in SQLite")}

Both find the same files for a word (`tests/search`), so what differs is the order: `ts_rank` does not weigh rare words.

## How it was made, and what does not hold

* `make assembly`: `experiments/assembly/measure.py` on `threads`, version {open_dataset(DATASET).version}. Sources,
  lengths and weights were chosen on its tuning split; the test split was measured with what was chosen. The budget of
  the first sentence was chosen with its figures in view.
* One model wrote the threads and their labels, over one project's files: how developers ask, and how often they find
  something useful (`uses`), is its guess. Weigh what you log instead: `ctxbench data from-feedback`, then
  `ctxbench calibrate weights DATASET --selector assembly --metric nDCG@10`.
* A label quotes one place that answers; another one may do as well and counts as missing.
* Nothing here abstains: requests that need nothing get a full budget, too.
"""


if __name__ == "__main__":
    run_script(main)
