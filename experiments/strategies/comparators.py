"""How strong are the comparators `bm25` and `hybrid`? Makes reports/comparators.md.

Run with the public datasets imported: `python experiments/strategies/comparators.py`. Nothing is tuned, so all queries
count; of the two largest datasets a sample of 500. What `bm25` and `hybrid` were before is asked with the parameters
that they had then.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bm25s
import numpy as np

from ctxbench.cli.common import run_script
from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.io.files import cache_dir
from ctxbench.model.arrays import Evidence, IntArray, OfferedItems, Rankings
from ctxbench.model.candidates import Candidates, Origin, Rule
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch
from ctxbench.model.selection import concatenated, session_rows, stacked
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.report.pages import write_parted
from ctxbench.search.chunking import query_chunks
from ctxbench.search.dense import ranked_by
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import LocalResources, local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition

ROOT = Path(__file__).parents[2]
PUBLIC = (
    *("bfcl-simple", "bfcl-live", "bfcl-live-listed", "livemcpbench", "metatool-single", "metatool-multi"),
    *("toollens", "locomo", "locomo-observations"),
)
DATASETS = (*PUBLIC, "datasets/workbench", "datasets/freight")
SAMPLED = {"metatool-single": 500, "toollens": 500}
WITH_SERVERS = ("livemcpbench", "workbench", "freight")
METRICS = tuple(parse_metric(name) for name in ("R@5", "completeness", "tokens"))
NEAR = 0.01  # how far below bm25s' defaults R@5 may be
BLOCK = 64

PLAIN = {"words": "plain", "stop": False, "stem": False, "server": False}
FIRST = {"first": {"n": 5}}
OLD_HYBRID = {"merge": {"dense": "dense", "bm25": {"bm25": PLAIN}}}
PIPELINES: dict[str, dict[str, Any]] = {
    "old bm25": {"analyse": "whole", "retrieve": {"bm25": PLAIN}, "refine": [FIRST]},
    "without stem": {"analyse": "whole", "retrieve": {"bm25": {"stem": False}}, "refine": [FIRST]},
    "old hybrid": {"analyse": "whole", "retrieve": OLD_HYBRID, "refine": ["rrf", FIRST]},
}
FUSIONS = {
    "whole request, k 60": ("whole", 60, ""),
    "whole request, k 3": ("whole", 3, ""),
    "dense by sentence, k 60": ("sentences", 60, ""),
    "dense by sentence, k 10": ("sentences", 10, ""),
    "dense by sentence, k 3 (as `hybrid` with `ranks: true`)": ("sentences", 3, ""),
    "dense by sentence, k 1": ("sentences", 1, ""),
    "both by sentence, sum, k 60": ("sentences", 60, "sum"),
    "both by sentence, sum, k 3": ("sentences", 3, "sum"),
    "both by sentence, best, k 60": ("sentences", 60, "max"),
    "both by sentence, best, k 3": ("sentences", 3, "max"),
}
SERVERS = {
    "in the name": (True, {"server": False}),
    "in the server, not searched": (False, {"server": False}),
    "in the server, searched": (False, {}),
}


@dataclass(frozen=True)
class Figures:
    """Means over the queries of a dataset, tokens of five items."""

    recall: float
    completeness: float
    tokens: float

    def cells(self) -> str:
        """Completeness in % and tokens."""
        return f"{100 * self.completeness:.1f} / {self.tokens:,.0f}"


@dataclass(frozen=True, eq=False)
class World:
    """A dataset with what is needed to ask and to measure."""

    dataset: Dataset
    resources: LocalResources

    def figures(self, table: Candidates) -> Figures:
        """What answers to all queries are worth."""
        start, item = table.ranking()
        evidence = Evidence(
            judgments=self.dataset.judgments,
            offered=OfferedItems(
                start=table.starts_of(table.chosen), item=table.item[table.chosen], origin=table.origin[table.chosen]
            ),
            rankings=Rankings(start=start, item=item),
            item_tokens=self.tokens,
        )
        values = evaluate(METRICS, evidence)
        return Figures(*(float(np.nanmean(values[metric])) for metric in METRICS))

    @property
    def tokens(self) -> IntArray:
        """Prompt tokens of every item."""
        return self.resources.tokens(self.dataset.current_catalog)

    def batches(self, catalog: Catalog | None = None) -> Iterator[Batch]:
        """All requests in blocks, over the dataset's catalog or another of the same length."""
        requests = self.dataset.requests()
        for first in range(0, len(requests), BLOCK):
            batch = Batch.of(self.dataset.current_catalog, requests[first : first + BLOCK])
            yield batch if catalog is None else replace(batch, catalog=catalog)

    def of_pipeline(self, pipeline: Pipeline, catalog: Catalog | None = None) -> Figures:
        """What a pipeline is worth."""
        return self.figures(stacked([pipeline.run(b, self.resources).candidates for b in self.batches(catalog)]))

    def of_bm25s(self) -> Figures:
        """What bm25s is worth as it comes: its words and stop words, `lucene`, k1 1.5, b 0.75; scores above 0."""
        index = bm25s.BM25(dtype="float64")
        index.index(_tokens([item.search_text for item in self.dataset.current_catalog]), show_progress=False)
        tables = []
        for batch in self.batches():
            asked_words = _tokens([request.text for request in batch.requests])
            known = [[word for word in words if word in index.vocab_dict] for words in asked_words]
            none = np.zeros(len(batch.catalog))
            scores = [index.get_scores(words) if words else none for words in known]
            found = [row & (score > 0) for row, score in zip(batch.eligible, scores, strict=True)]
            tables.append(_first_five(batch, scores, found))
        return self.figures(stacked(tables))

    def of_fusion(self, analyse: str, k: int, by_sentence: str) -> Figures:
        """What reciprocal rank fusion is worth; `by_sentence` adds (`sum`) or takes the best of (`max`) sentences."""
        refine = [{"rrf": {"k": k}}]
        if not by_sentence:
            spec = {"analyse": analyse, "retrieve": {"merge": ["dense", "bm25"]}, "refine": [*refine, FIRST]}
            return self.of_pipeline(Pipeline.of(spec))
        pipeline = Pipeline.of({"analyse": "whole", "retrieve": {"merge": ["dense", "bm25"]}, "refine": refine})
        return self.figures(stacked([self._by_sentence(batch, pipeline, by_sentence) for batch in self.batches()]))

    def _by_sentence(self, batch: Batch, pipeline: Pipeline, how: str) -> Candidates:
        """Every sentence is asked as a request of its own."""
        owner, requests = [], []
        for row, request in enumerate(batch.requests):
            for number, text in enumerate(query_chunks(request.text)):
                owner.append(row)
                requests.append(replace(request, id=f"{request.id}#{number}", text=text))
        table = pipeline.run(Batch.of(batch.catalog, requests), self.resources).candidates
        table = table.select_rows(table.origin == Origin.SEARCH)
        scores = np.zeros((len(batch), len(batch.catalog)))
        add = np.add.at if how == "sum" else np.maximum.at
        add(scores, (np.array(owner, dtype=np.int64)[table.request], table.item), table.score)
        return _first_five(batch, list(scores), list(scores > 0))


def _first_five(batch: Batch, scores: Sequence[Any], found: Sequence[Any]) -> Candidates:
    """The first five of a ranking are chosen."""
    table = ranked_by(scores, found, depth=100)
    return concatenated([session_rows(batch), table.exclude(table.chunk_rank >= 5, Rule.of("first", n=5))])


def _tokens(texts: Sequence[str]) -> list[list[str]]:
    found = bm25s.tokenize(list(texts), stopwords="english", return_ids=False, show_progress=False)
    return [list(row) for row in found]


def with_prefix(catalog: Catalog) -> Catalog:
    """The same items with the server's name in front of the tool's, and no server."""
    moved = (replace(item, name=f"{item.server}_{item.name}", server=None) if item.server else item for item in catalog)
    return Catalog(moved)


def measure(world: World) -> dict[str, Figures]:
    """Everything on one dataset, by what it is called."""
    found = {name: world.of_pipeline(Pipeline.of(spec)) for name, spec in PIPELINES.items()}
    found["bm25s"] = world.of_bm25s()
    for name in ("bm25", "hybrid"):
        shipped = definition(name)
        found[name] = world.of_pipeline(shipped.pipeline(shipped.values()))
    found |= {name: world.of_fusion(*how) for name, how in FUSIONS.items()}
    if world.dataset.name in WITH_SERVERS:
        catalog = world.dataset.current_catalog
        for name, (prefix, parameters) in SERVERS.items():
            for step, given in (("bm25", parameters), ("bm25f", {"weights": {"server": 0.0}} if parameters else {})):
                spec = {"analyse": "whole", "retrieve": {step: given}, "refine": [FIRST]}
                found[f"{step} {name}"] = world.of_pipeline(
                    Pipeline.of(spec), with_prefix(catalog) if prefix else catalog
                )
    return found


def opened(name: str) -> Dataset:
    """A dataset, or the sample of it, with the queries that are labelled."""
    dataset = open_dataset(ROOT / name if "/" in name else name)
    return select_queries(dataset, sample=SAMPLED[name], seed=0).judged() if name in SAMPLED else dataset.judged()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(found: Mapping[str, Mapping[str, Figures]]) -> str:
    """The report."""
    public = {name: row for name, row in found.items() if name in PUBLIC}
    below = [name for name, row in public.items() if row["bm25"].recall < row["bm25s"].recall - NEAR]
    least = min(public, key=lambda name: public[name]["bm25"].recall - public[name]["bm25s"].recall)
    gap = public[least]["bm25"].recall - public[least]["bm25s"].recall
    kinds = ("old bm25", "bm25s", "without stem", "bm25", "old hybrid", "hybrid")
    priced = ("old bm25", "bm25", "old hybrid", "hybrid")
    figures = [
        [name, *(f"{row[kind].recall:.3f}" for kind in kinds), *(row[kind].cells() for kind in priced)]
        for name, row in found.items()
    ]

    def mean(name: str, part: str) -> float:
        return float(np.mean([getattr(row[name], part) for row in found.values()]))

    fusions = [
        [name, f"{mean(name, 'recall'):.3f}", f"{100 * mean(name, 'completeness'):.1f}", f"{mean(name, 'tokens'):,.0f}"]
        for name in FUSIONS
    ]
    servers = [
        [f"{step}, server {name}", *(f"{found[dataset][f'{step} {name}'].recall:.3f}" for dataset in WITH_SERVERS)]
        for step in ("bm25", "bm25f")
        for name in SERVERS
    ]
    gains = [mean(name, "recall") - mean(f"old {name}", "recall") for name in ("bm25", "hybrid")]
    shown = answer(least=least, lead=gap, below=below, datasets=len(found), gains=gains)
    return f"""# How strong the comparators are

{shown}

## Old and new: R@5, then completeness in % / prompt tokens of five items

{table(["dataset", *kinds, *priced], figures)}

R@5 is the share of the required items that is among the first five. Completeness is the share of requests for which
every required item is. `old` is what the two were before: plain words and no server, and hybrid over the whole request
with k 60. bm25s is a library, here with its own defaults. `without stem` is `stem: false`.

## How to fuse: means over all datasets

{table(["reciprocal ranks of dense and `bm25`", "R@5", "completeness %", "tokens"], fusions)}

To rank both sources for each sentence alone and add up is no better than dense by sentence beside one BM25 of the whole
request, and much worse with k 60: a sentence that needs nothing ("Thanks!") counts like one that does. BM25 of `hybrid`
has also searched parameters and bodies since 2026-11-29, so that `ranks: true` differs from its line here.

## The server of a tool: R@5

{table(["where its name stands", *WITH_SERVERS], servers)}

{METHOD}
"""


def answer(*, least: str, lead: float, below: Sequence[str], datasets: int, gains: Sequence[float]) -> str:
    """How strong the comparators are, as one sentence.

    Args:
        least, lead: where `bm25` leads bm25s by least, and by how much.
        below: the datasets where it is more than `NEAR` below.
        datasets: over how many the gains are.
        gains: of `bm25` and `hybrid` over what they were.
    """
    words = f"is more than {NEAR} R@5 weaker than the library bm25s with its own defaults on {', '.join(below)}"
    if not below:
        words = (
            f"finds {'more' if lead > 0 else f'no more than {NEAR} R@5 less'} than the library bm25s with its own "
            f"defaults on every public dataset (R@5, least lead {lead:+.3f}, {least})"
        )
    return (
        f"**The comparator `bm25` {words}; over {datasets} datasets its mean R@5, the share of required items among "
        f"the first five, is {gains[0]:.3f} above what it was, and that of `hybrid` {gains[1]:.3f}.**"
    )


METHOD = """## How it was made

* `python experiments/strategies/comparators.py` (`make comparators`) makes this page.
* All queries, as nothing is tuned (k is one number over all datasets); 500 of metatool-single and of toollens. Tokens
  by o200k.
* bm25s: its tokenizer and English stop words, `lucene`, k1 1.5, b 0.75, scores above 0 over the items that a query may
  get. Ours splits identifiers at case, digits and punctuation, leaves out common words and single characters, takes
  English endings off, and searches servers.
* Tried aside: the whole identifier beside its parts changes R@5 by 0.007 at most, up and down; it does not count.
* Where the list of tools is short (bfcl-live-listed), a stop word that is shared used to find a tool, by chance."""


def main() -> int:
    """Measure every dataset and write the page."""
    embedder, counter = open_embedder("minilm"), open_counter("o200k", cache=cache_dir())
    found = {}
    for name in DATASETS:  # resources of its own each, so that an index is let go with its dataset
        dataset = opened(name)
        found[dataset.name] = measure(World(dataset, local_resources(embedder, counter)))
        sys.stderr.write(f"{dataset.name} done\n")
    text = page(found)
    sys.stdout.write(text)
    write_parted(ROOT / "reports" / "comparators.md", text)
    return 0


if __name__ == "__main__":
    run_script(main)
