"""Does fusing dense and lexical search pay? Makes reports/hybrid.md and reports/hybrid.svg.

Run with the public datasets imported: `python experiments/strategies/hybrid.py`. Weights are fitted on the tuning
split; on the test split nothing is chosen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ctxbench.cli.common import run_script
from ctxbench.datasets.dataset import Dataset, draw_sample
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.evaluation.statistics import Comparison, compare, correct, holm, sign_flip
from ctxbench.io.files import cache_dir, write_atomic
from ctxbench.model.arrays import Evidence, FloatArray, IntArray, OfferedItems, Rankings
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.requests import Batch, Query
from ctxbench.model.selection import stacked
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.rank import NORMALISE, Rrf, Weighted
from ctxbench.report.charts import colours
from ctxbench.report.pages import axes_at, svg, write_parted
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.tuning.fit_examples import METRIC, N_ERRORS, FusionWeights, fit_weights

APART = ("Test split", "Tuning split", "Server first, then tool")
ROOT = Path(__file__).parents[2]
BAR = ("livemcpbench", "metatool-single", "metatool-multi", "toollens", "locomo", "bfcl-live", "datasets/workbench")
DATASETS = (*BAR, "datasets/freight")
WITH_SERVERS = ("livemcpbench", "workbench", "freight")
TEXT_1 = "bm25f, text 1"
SOURCES: dict[str, Any] = {name: name for name in ("dense", "bm25", "bm25f", "fuzzy")}
TWO, FIELDS, FOUR = ("dense", "bm25"), ("dense", "bm25f"), tuple(SOURCES)
SOURCES[TEXT_1] = {"bm25f": {"weights": {"text": 1.0}}}
TUNED = {"tuned": TWO, "tuned, fields": FIELDS, "tuned, text 1": ("dense", TEXT_1), "tuned, four": FOUR}
SHARP = "rrf, k 3"
METHODS = (*SOURCES, "rrf", SHARP, "0.7 dense", "tuned", "tuned, fields", "tuned, text 1", "rrf, four", "tuned, four")
SHOWN = ("dense", "bm25", "rrf", "tuned", "tuned, four")
LOWEST = {"dense": -1.0, "bm25": 0.0}  # what each can give at least, for `normalise: theoretical`
SERVERS: list[dict[str, Any]] = [
    {"servers": n, **pool} for n in (1, 2, 3, 5, 8) for pool in ({}, {"pool": "top", "top": 3})
]
DIFFERENCE = ("difference", "p", "verdict")
BLOCK, DRAWN = 512, 2000
ALPHA = 0.05


@dataclass(frozen=True, eq=False)
class Measured:
    """One dataset: nDCG@10 of every test query by method, and what was fitted and seen on the tuning split.

    `group` numbers the group of every test query: its paraphrases, its conversation, the queries of its functions.
    """

    name: str
    version: str
    tuning: str
    test: Mapping[str, FloatArray]
    group: IntArray
    tuned: Mapping[str, FusionWeights]
    servers: Mapping[str, float]

    def cells(self, values: Iterable[str]) -> str:
        """A row of a table: the dataset, how many test queries need anything, and values."""
        return " | ".join([self.name, f"{int((~np.isnan(self.test['tuned'])).sum()):,}", *values])

    def mean(self, method: str) -> float:
        """The mean over test queries that need anything."""
        return float(np.nanmean(self.test[method]))

    @property
    def best(self) -> str:
        """The better of dense and BM25 on the test split."""
        return max(TWO, key=self.mean)

    @property
    def best_servers(self) -> str:
        """The best way to choose servers on the tuning split."""
        return max(list(self.servers)[1:], key=self.servers.__getitem__)


def retrieved(dataset: Dataset, retrieve: object, resources: LocalResources) -> Candidates:
    """What a retriever finds for all queries, a block of them at a time."""
    pipeline, requests = Pipeline.of({"analyse": "whole", "retrieve": retrieve}), dataset.requests()
    batches = [Batch.of(dataset.catalog, requests[n : n + BLOCK]) for n in range(0, len(requests), BLOCK)]
    return stacked([pipeline.run(batch, resources).candidates for batch in batches])


def only(table: Candidates, sources: Sequence[str]) -> Candidates:
    """What a merge of these sources alone would have found."""
    columns = {name: table.columns[name] for name in sources}
    found = ~np.all([np.isnan(column) for column in columns.values()], axis=0)
    kept = replace(table, columns=columns).select_rows(found | (table.origin == Origin.SESSION))
    return kept.reordered(score=np.fmax.reduce(list(kept.columns.values())))


def values(dataset: Dataset, table: Candidates) -> FloatArray:
    """nDCG@10 of every query; NaN where it needs nothing."""
    start, item = table.ranking()
    held = table.origin == Origin.SESSION
    offered = OfferedItems(start=table.starts_of(held), item=table.item[held], origin=table.origin[held])
    evidence = Evidence(judgments=dataset.judgments, offered=offered, rankings=Rankings(start=start, item=item))
    return evaluate([metric := parse_metric(METRIC)], evidence)[metric]


def measure(name: str, resources: LocalResources) -> Measured:
    """Tune on the tuning split, measure on the test split."""
    dataset = open_dataset(ROOT / name if "/" in name else name).judged()
    whole, test = dataset.split("tuning"), dataset.split("test")
    tuning = draw_sample(whole, DRAWN, seed=0)
    tuned_on, tested_on = (retrieved(part, {"merge": SOURCES}, resources) for part in (tuning, test))
    query = Query.of_chunks(Batch.of(dataset.catalog, []), [])  # fusion does not look at it

    def fused(sources: Sequence[str], step: Rrf | Weighted) -> FloatArray:
        return values(test, step(query, only(tested_on, sources), resources))

    found = {source: values(test, only(tested_on, [source])) for source in SOURCES}
    found |= {"rrf": fused(TWO, Rrf()), SHARP: fused(TWO, Rrf(k=3)), "rrf, four": fused(FOUR, Rrf())}
    found["0.7 dense"] = fused(TWO, Weighted(weights={"dense": 0.7, "bm25": 0.3}))
    fits = {}
    for label, sources, how in [*((*pair, "min_max") for pair in TUNED.items()), *((h, TWO, h) for h in NORMALISE[1:])]:
        lowest = LOWEST if how == "theoretical" else {}
        fits[label] = fit_weights(tuning, only(tuned_on, sources), normalise=how, lowest=lowest)
        found[label] = fused(sources, Weighted(weights=fits[label].weights, normalise=how, lowest=lowest))
    ways = {f"{one['servers']} by {'mean of best 3' if 'top' in one else 'best tool'}": one for one in SERVERS}
    servers = {}
    if dataset.name in WITH_SERVERS:
        specs = {"dense": "dense", **{label: {"servers": one} for label, one in ways.items()}}
        servers = {
            label: float(np.nanmean(values(tuning, retrieved(tuning, s, resources)))) for label, s in specs.items()
        }
    group = np.unique([one.group or one.id for one in test.queries], return_inverse=True)[1].astype(np.int64)
    made = Measured(dataset.name, dataset.version, f"{len(tuning):,} of {len(whole):,}", found, group, fits, servers)
    if servers:
        found["servers"] = values(test, retrieved(test, {"servers": ways[made.best_servers]}, resources))
    return made


def compared(rows: Sequence[Measured], base: str, other: str) -> dict[str, Comparison]:
    """One method against another on test, corrected over the datasets; `best` is the better of dense and BM25."""
    pairs = {row.name: (row.test[row.best if base == "best" else base], row.test[other]) for row in rows}
    return correct({name: compare(*pair, scale="share") for name, pair in pairs.items()})


def by_group(rows: Sequence[Measured]) -> dict[str, tuple[int, float]]:
    """How many groups of test queries there are, and p of `tuned` against the better source by group, corrected."""
    groups, p = [], []
    for row in rows:
        away = row.test["tuned"] - row.test[row.best]
        known = ~np.isnan(away)
        own = np.unique(row.group[known], return_inverse=True)[1]
        groups.append(int(own.max()) + 1)
        p.append(sign_flip(np.bincount(own, weights=away[known])))
    return dict(zip([row.name for row in rows], zip(groups, holm(p).tolist(), strict=True), strict=True))


def verdict(one: Comparison) -> str:
    """What a comparison says."""
    return ("better" if one.difference > 0 else "worse") if one.significant else "not significant"


def listed(comparisons: Mapping[str, Comparison], wanted: str) -> str:
    """How many datasets have a verdict, and which."""
    names = [name for name, one in comparisons.items() if verdict(one) == wanted]
    return f"{len(names)} of {len(comparisons)}" + (f" ({', '.join(names)})" if names else "")


def shown(one: Comparison) -> str:
    """A difference with its interval, corrected p-value and verdict, as cells."""
    between = f"{one.interval.low:+.3f} to {one.interval.high:+.3f}"
    p = f"{'<= ' * one.p_holm_at_floor}{one.p_holm:.4f}"
    return f"{one.difference:+.3f} ({between}) | {p} | {verdict(one)}"


def told(groups: int, p: float) -> str:
    """Groups and their corrected p-value, as a cell."""
    return f"{p:.4f} ({groups:,})"


def fitted(fit: FusionWeights) -> str:
    """The mean that a fit reached, and its weights that are not 0."""
    held = [f"{name.replace(TEXT_1, 'bm25f')} {weight:g}" for name, weight in fit.weights.items() if weight]
    return f"{fit.value:.3f} ({', '.join(held)})"


def table(head: Sequence[str], rows: Sequence[str]) -> str:
    """A table in Markdown."""
    return "\n".join([f"| {' | '.join(head)} |", "|" + " --- |" * len(head), *(f"| {row} |" for row in rows)])


def tallied(rows: Sequence[Measured], pairs: Mapping[str, tuple[str, str]]) -> str:
    """How many datasets each comparison is better and worse on, as a table."""
    found = {label: compared(rows, *pair) for label, pair in pairs.items()}
    return table(
        ["method", "better", "worse"],
        [f"{label} | {listed(one, 'better')} | {listed(one, 'worse')}" for label, one in found.items()],
    )


def page(rows: Sequence[Measured], embedder: str) -> str:
    """The report."""
    bar = [row for row in rows if row.name in BAR or f"datasets/{row.name}" in BAR]
    first = compared(bar, "best", "tuned")
    said = [verdict(one) for one in first.values()]
    holds = "holds" if "worse" not in said and said.count("better") >= 2 else "does not hold"
    grouped = by_group(bar)
    sure = [name for name, (_, p) in grouped.items() if p < ALPHA and verdict(first[name]) == "better"]
    same = sum(row.tuned["tuned"].single == row.best for row in bar)
    served = [row for row in rows if row.servers]
    by_server = correct({row.name: compare(row.test["dense"], row.test["servers"], scale="share") for row in served})
    against_best = {
        "`tuned`": ("best", "tuned"),
        "`0.7 dense`: 0.7 dense + 0.3 BM25 everywhere": ("best", "0.7 dense"),
        "`rrf`: plain reciprocal rank fusion (k 60)": ("best", "rrf"),
        f"`{SHARP}`: as `hybrid` with `ranks: true` fuses": ("best", SHARP),
        "`tuned, fields`: dense and BM25F": ("best", "tuned, fields"),
        "`tuned, four`: dense, BM25, BM25F and fuzzy": ("best", "tuned, four"),
    }
    beside = {
        "`tuned` over `rrf`": ("rrf", "tuned"),
        f"`tuned` over `{SHARP}`": (SHARP, "tuned"),
        "`tuned, fields` over `tuned`": ("tuned", "tuned, fields"),
        "`tuned, four` over `tuned`": ("tuned", "tuned, four"),
        "`tuned, four` over `rrf, four`": ("rrf, four", "tuned, four"),
        "BM25F over BM25, each alone": ("bm25", "bm25f"),
        "`normalise: z` over `min_max`": ("tuned", "z"),
        "`normalise: theoretical` over `min_max`": ("tuned", "theoretical"),
    }
    labels = ("tuned", *NORMALISE[1:], *list(TUNED)[1:])
    figures = [row.cells(f"{row.mean(method):.3f}" for method in METHODS) for row in rows]
    gains = [
        f"{row.name} | {row.best} {row.mean(row.best):.3f} | {shown(first[row.name])} | {told(*grouped[row.name])}"
        for row in bar
    ]
    fits = [" | ".join([row.name, row.tuning, *(fitted(row.tuned[label]) for label in labels)]) for row in rows]
    ways = [" | ".join([way, *(f"{row.servers[way]:.3f}" for row in served)]) for way in served[0].servers]
    chosen = [f"{row.name} | {row.best_servers} | {shown(by_server[row.name])}" for row in served]
    plain = compared(bar, "best", "rrf")
    return f"""# Fusing a search by meaning and one by words

{answer(first, plain, sure=len(sure))}

![nDCG@10 on the test split by dataset and method](hybrid.svg)

*Dense* is a search by meaning, *BM25* one by words; each ranks the items. {METRIC} of a ranking is higher the nearer
to its top the required items stand. `tuned` adds up the scores of both, weighted as fits requests of the same dataset
that are not among these. *Better* and *worse* are significant.

## In words

The bar (worse nowhere, better on at least two datasets) {holds}:
`tuned` is significantly worse than whichever of dense and BM25 is better on the test split on
{listed(first, "worse")}, significantly better on {listed(first, "better")}.
Tested by group, it is significantly better on {len(sure)} of {len(bar)} ({", ".join(sure) or "none"}).
What is better on the tuning split is better on test, too, on {same} of {len(bar)}.

Against the better of dense and BM25 on test:

{tallied(bar, against_best)}

One hybrid, or one source, against another:

{tallied(bar, beside)}

## Against the better source

`tuned` on the test split, {METRIC}:

{table(["dataset", "better source", *DIFFERENCE, "p by group (groups)"], gains)}

## How it was made

* `python experiments/strategies/hybrid.py` (`make hybrid`) makes this page and its figure.
* {METRIC} of the ranking; higher is better. Requests are searched whole (`analyse: whole`), every source finds 100
  items. Embeddings: {embedder}.
* `dense` and `bm25` are the shipped comparators. `{SHARP}` fuses as `hybrid` with `ranks: true` does, which searches
  dense by sentence (`reports/comparators.md`); its k was chosen over all queries of eleven datasets, test splits
  included.
* `tuned` merges dense and BM25 and ranks by `weighted` (`normalise: min_max`)
  with the weight fitted on the tuning split, at most {DRAWN:,} queries of it (groups whole, drawn by hash): of 21
  weights the one whose gain over the better source, less {N_ERRORS} standard errors, is highest; one source alone where
  no gain is sure. The other hybrids are tuned likewise, in tenths.
* Figures and p-values are of the test split, on which nothing else was chosen; earlier versions of this page read it,
  with a weaker BM25. Tests are sign flips on the same queries; p is Holm-corrected over the datasets, for each pair of
  methods on its own; an interval is that of its difference alone. `freight` is shown beside the bar's seven datasets.
* Queries of one group (paraphrases, questions of one conversation, requests of one set of functions) are not
  independent, so that p by query may be too small. The bar's comparison is therefore tested by group, too: sign flips
  of the sums by group. With the few conversations of `locomo` no p by group can be small.
* Versions: {", ".join(f"{row.name} {row.version}" for row in rows)}.

## What does not hold

* Plain RRF is worse than the better source on {listed(compared(bar, "best", "rrf"), "worse")}, with k 3 on
  {listed(compared(bar, "best", SHARP), "worse")}, one weight for all catalogs on
  {listed(compared(bar, "best", "0.7 dense"), "worse")}. A fitted weight belongs to its sources, normalisation, catalog
  and embedder.
* LiveMCPBench has few test queries: only a large difference can be told there.
* The weights of BM25F's fields were chosen on the tuning splits of LiveMCPBench, MetaTool multi, bfcl-live, workbench
  and freight, for tools, and rules beside tools. Alone it is worse than BM25 on
  {listed(compared(bar, "bm25", "bm25f"), "worse")}, with `text: 1` (the column `{TEXT_1}`) on
  {listed(compared(bar, "bm25", TEXT_1), "worse")}. They were chosen beside a weaker BM25.
* What a source did not find among its 100 counts as its lowest score. With `theoretical`, that is hard on items that
  dense ranks just below, so that it wants a greater depth in large catalogs.

## Test split

{table(["dataset", "n", *METHODS], figures)}

## Tuning split

Means with the weights fitted there, and the weights. `z` and `theoretical` are `tuned` in other units.

{table(["dataset", "queries", *labels], fits)}

## Server first, then tool

Tuning split, by how many servers are kept and what a server scores:

{table(["servers", *(row.name for row in served)], ways)}

The best of these on the tuning split against dense, on test:

{table(["dataset", "servers", *DIFFERENCE], chosen)}

It is better on {listed(by_server, "better")}, worse on {listed(by_server, "worse")}.
"""


def answer(tuned: Mapping[str, Comparison], plain: Mapping[str, Comparison], *, sure: int) -> str:
    """What fitted and plain fusion are worth against the better of both searches, as one sentence.

    Args:
        tuned, plain: by dataset.
        sure: datasets on which `tuned` is better also if groups of requests are tested as wholes.
    """

    def counts(found: Mapping[str, Comparison]) -> str:
        said = [verdict(one) for one in found.values()]
        return f"better than the better of the two on {said.count('better')} and worse on {said.count('worse')}"

    return (
        "**A search by meaning and one by words, added up with a weight that is fitted on other requests of the "
        f"dataset, rank {counts(tuned)} of {len(tuned)} datasets (better on {sure} if "
        f"groups of requests are tested as wholes); plain reciprocal rank fusion ranks {counts(plain)}.**"
    )


def figure(rows: Sequence[Measured]) -> str:
    """The methods as marks, a line a dataset, as SVG."""
    width, high = 790.0, 30.0 * len(rows)

    def draw(drawing: Any) -> None:
        ax = axes_at(drawing, 150.0, 40.0, width - 190.0, high)
        for (name, colour), mark in zip(colours(SHOWN).items(), "osD^v", strict=True):
            told = {"label": name, "color": colour, "markersize": 8.0}
            ax.plot([row.mean(name) for row in rows], range(len(rows)), mark, linestyle="none", **told)
        ax.set(xlim=(0.0, 1.0), ylim=(len(rows) - 0.5, -0.5))
        ax.set_yticks(range(len(rows)), [row.name for row in rows])
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(SHOWN), frameon=False)

    label = "nDCG@10 on the test split by dataset and method"
    return svg(draw, width=width, height=high + 76.0, name="hybrid", label=label)


def main() -> int:
    """Measure every dataset and write the page."""
    embedder, counter = open_embedder("minilm"), open_counter("chars/4", cache=cache_dir())
    rows = []
    for name in DATASETS:  # resources of its own each, so that an index is let go with its dataset
        resources = LocalResources(Vectors(embedder, VectorStore(embedder.identity)), counter)
        rows.append(measure(name, resources))
        sys.stderr.write(f"{rows[-1].name} done\n")
    write_parted(ROOT / "reports" / "hybrid.md", page(rows, embedder.identity.key), APART)
    write_atomic(ROOT / "reports" / "hybrid.svg", figure(rows))
    return 0


if __name__ == "__main__":
    run_script(main)
