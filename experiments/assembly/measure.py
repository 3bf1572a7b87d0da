"""What the selector `assembly` finds, what each of its parts pays, and how long it takes: reports/assembly.md.

    python experiments/assembly/measure.py [--page]

Parts are compared on the tuning split of `threads`, what is recommended on its test split. Where CTXBENCH_POSTGRES
names a PostgreSQL server, its text index is measured, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from latency import LIMIT, latencies
from pages import Page, Picture, Tables, run_page
from replay import replayed

import ctxbench
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.comparisons import grouped_estimate
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.statistics import LEVEL
from ctxbench.model.registry import build
from ctxbench.model.strategies import Merge, Step
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import open_embedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import definition
from ctxbench.tuning.fit_examples import labelled_queries
from ctxbench.tuning.linear_fits import LinearExamples, WeightFigures, linear_index

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASET = "datasets/threads"
METRICS = ("completeness", "tokens", "items")
OBJECTIVE, FOLDS = parse_metric("nDCG@10"), 8
BUDGETS = (500, 1000, 2000, 3500)
RESERVED = 500
SOURCES = ("full_text", "keywords", "similar", "thread", "recent")
LENGTHS = (250, 500, 1000, 2000, 4000)
COLUMNS = ("assembly.tfidf", "assembly.keywords", "assembly.recency", "assembly.source", "assembly.uses")
WEIGHTS = ("text", "matched", "recency", "source", "uses")
SPEC, WEIGHTED, PLAIN, EMBEDDINGS = "assembly/spec", "its weights", "assembly", "assembly/embeddings"
DOCUMENTS = (0.35, 0.25, 0.15, 0.15, 0.1)
TEXT = {"TF": "assembly.tf", "BM25": "words.bm25", "dense": "similarity.score"}


def figures(
    selectors: Mapping[str, Any], split: str, *, base: str = "", bases: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Selectors on the queries of one split: completeness in per cent with its interval, tokens and items, as means.

    Args:
        selectors: by name.
        split: `tuning` or `test`.
        base: the selector that all others are compared with; empty = none.
        bases: what single selectors are compared with.

    Returns:
        One row per selector; requests of a thread count together. `points` is the difference of completeness, `changed`
        how many requests it is made of.
    """
    sys.stderr.write(f"{split}: {', '.join(selectors)}\n")
    results = ctxbench.evaluate(ctxbench.load(DATASET), dict(selectors), split=split, metrics=METRICS)
    frame = results.per_query()
    failed = frame[frame["error"] != ""]
    if len(failed):
        raise SystemExit(f"{failed.iloc[0]['selector']}: {failed.iloc[0]['error']}")
    threads = {query.id: str(query.group) for query in open_dataset(DATASET).queries}
    compared = dict.fromkeys(name for name in selectors if name != base) if base else {}
    compared = {**dict.fromkeys(compared, base), **(bases or {})}
    rows = []
    for name in selectors:
        offers = frame[frame["selector"] == name]
        needing = offers[offers["completeness"].notna()]
        groups = np.unique([threads[query] for query in needing["query"]], return_inverse=True)[1]
        interval = grouped_estimate(needing["completeness"].to_numpy(), groups, scale="yes/no", level=LEVEL).interval
        share, tokens, items = (float(offers[metric].mean()) for metric in METRICS)
        row = {"selector": name, "requests": len(needing), "threads": len(set(groups.tolist()))}
        row |= {"complete": 100 * share, "low": 100 * interval.low, "high": 100 * interval.high}
        row |= {"tokens": tokens, "items": items}
        if name in compared:
            change = results.compare(name, compared[name], metrics=["completeness"], by_group=True).iloc[0]
            parts = {"points": "difference", "points low": "low", "points high": "high"}
            row |= {part: 100 * float(change[column]) for part, column in parts.items()}
            row["changed"] = int(change["higher"] + change["lower"])
        rows.append(row)
    return pd.DataFrame(rows)


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


def weight_rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What each feature pays on threads that the weights were not fitted on, and the weights found."""
    best, all_five = fitted(COLUMNS)
    tried = {f"without {name}": tuple(other for other in COLUMNS if other != name) for name in COLUMNS}
    tried |= {f"{name} in place of TF-IDF": (column, *COLUMNS[1:]) for name, column in TEXT.items()}
    tried["dense beside all five"] = (*COLUMNS, TEXT["dense"])
    results = {name: fitted(columns) for name, columns in tried.items()}
    measured = {"all five": all_five, **{name: result for name, (_, result) in results.items()}}
    base = all_five.compared.other
    columns = [
        {"features": name, "nDCG@10": result.compared.other, "change": result.compared.other - base}
        for name, result in measured.items()
    ]
    weights = {"all five": best, "with dense": results["dense beside all five"][0]}
    return columns, [{"weights": name, **found} for name, found in weights.items()]


def text_indexes() -> Mapping[str, Any]:
    """The shipped selector over each text index and BM25."""
    found = {"full_text in SQLite": assembly(), "bm25 in its place": searched({"bm25": {"depth": 20}})}
    if os.environ.get("CTXBENCH_POSTGRES"):
        found["full_text in PostgreSQL"] = assembly(index="postgres")
    return {**found, "dense in its place": searched({"dense": {"depth": 20}})}


def measure() -> Tables:
    """All figures."""
    columns, weights = weight_rows()
    sources = {"all six": assembly(), **{f"without {name}": assembly(**{name: 0}) for name in SOURCES}}
    sources["without references"] = _without_references()
    packs = at_budgets(
        lambda tokens: {
            "knapsack": assembly(tokens=tokens),
            "greedy, the specification's rules": filled("greedy", tokens),
            "greedy, by density alone": filled("greedy", tokens, type_share=None, stop_share=None),
        },
        (BUDGETS[1], BUDGETS[-1]),
    )
    final = at_budgets(
        lambda tokens: {
            SPEC: documents(tokens),
            WEIGHTED: reweighted(tokens),
            PLAIN: assembly(tokens=tokens),
            EMBEDDINGS: embeddings(tokens),
        }
    )
    bases = {f"{PLAIN}, {n:,} tokens": f"{WEIGHTED}, {n:,} tokens" for n in BUDGETS}
    bases |= {f"{EMBEDDINGS}, {n:,} tokens": f"{PLAIN}, {n:,} tokens" for n in BUDGETS}
    return {
        "": figures({**final, "bm25, 5 whole items": "bm25", "hybrid, 5 whole items": "hybrid"}, "test", bases=bases),
        "sources": figures(sources, "tuning", base="all six"),
        "features": pd.DataFrame(columns),
        "weights": pd.DataFrame(weights),
        "excerpts": figures({f"{n:,} characters": assembly(characters=n) for n in LENGTHS}, "tuning"),
        "packs": figures(packs, "tuning"),
        "indexes": figures(text_indexes(), "tuning", base="full_text in SQLite"),
        "cache": pd.DataFrame([asdict(replayed())]),
        "latency": pd.DataFrame(latencies()),
    }


def _without_references() -> Pipeline:
    """The shipped pipeline without what the thread refers to."""
    pipeline = shipped()
    if not isinstance(pipeline.retrieve, Merge):
        raise TypeError("assembly has lost its merge")
    steps = {name: step for name, step in pipeline.retrieve.sources.items() if name != "references"}
    return replace(pipeline, retrieve=replace(pipeline.retrieve, sources=steps))


SERIES = (EMBEDDINGS, PLAIN, SPEC)


def draw(rows: pd.DataFrame, figure: Figure) -> None:
    """Completeness with its interval against tokens, at each budget."""
    axes = figure.subplots()
    for n, name in enumerate(SERIES):
        line = rows.loc[[f"{name}, {budget:,} tokens" for budget in BUDGETS]]
        spread = [line["complete"] - line["low"], line["high"] - line["complete"]]
        axes.errorbar(line["tokens"], line["complete"], spread, fmt="o-", color=f"C{n}", capsize=3, label=name)
    axes.set_xlabel("tokens of the context")
    axes.set_ylabel("complete %")
    axes.set_xlim(0, 3200)
    axes.set_ylim(0, 70)
    axes.legend(frameon=False, loc="lower right")
    figure.tight_layout()


def page(tables: Tables) -> Page:
    """The report."""
    rows, latency = tables[""].set_index("selector"), tables["latency"]
    best, own, spec = (rows.loc[f"{name}, {BUDGETS[-2]:,} tokens"] for name in SERIES)
    slowest, clock = latency.groupby(["items", "selector"])["p95"].max(), latency["p95"].max()
    small, large = latency["items"].min(), latency["items"].max()
    whole, cache = rows.loc["hybrid, 5 whole items"], tables["cache"].iloc[0]
    sources = pd.to_numeric(tables["sources"].set_index("selector")["points"])
    speed = "below" if clock < LIMIT else "above"
    values = {
        "requests": int(best["requests"]),
        "threads": int(best["threads"]),
        "own": own["complete"],
        "whole": f"{whole['complete']:.0f}% at {whole['tokens']:,.0f} tokens",
        "full_text": sources["without full_text"],
        "thread": sources["without thread"],
        "recent": sources["without recent"],
        "small": f"{small:,}",
        "large": f"{large:,}",
        "times": " and ".join(
            f"{slowest[small, name]:.0f} and {slowest[large, name]:.0f} ms by `{name}`" for name in (PLAIN, EMBEDDINGS)
        ),
        "processor": latency["p95 cpu"].max(),
        "hits": cache["hits"] / cache["asked"],
        "wrong": int(cache["document_wrong"]),
        "document_hits": int(cache["document_hits"]),
    }
    return Page(
        title="Which files and messages does a thread need?",
        answer=f"Take `{EMBEDDINGS}`: within 2,000 tokens complete for {best['complete']:.0f}% of requests, the "
        f"specification's settings for {spec['complete']:.0f}%. A build takes {clock:.0f} ms (p95), "
        f"{speed} its {LIMIT}.",
        picture=Picture(draw=lambda figure: draw(rows, figure), alt=" ".join(ALT.split())),
        table=[
            {
                "budget": f"{budget:,}",
                **{name: share(rows.loc[f"{name}, {budget:,} tokens"]) for name in (SPEC, WEIGHTED, PLAIN, EMBEDDINGS)},
                "points of embeddings": points(rows.loc[f"{EMBEDDINGS}, {budget:,} tokens"]),
            }
            for budget in BUDGETS
        ],
        notes=[" ".join(note.split()) for note in NOTES.format(**values).split("\n\n")],
        made=" ".join(MADE.split()),
    )


def share(row: pd.Series) -> str:
    """Completeness with its interval."""
    return f"{row['complete']:.0f}% ({row['low']:.0f} to {row['high']:.0f}), {row['tokens']:,.0f} tokens"


def points(row: pd.Series) -> str:
    """A difference with its interval."""
    difference, low, high = (float(row[part]) for part in ("points", "points low", "points high"))
    return f"{difference:+.1f} ({low:+.1f} to {high:+.1f})"


ALT = """Completeness against tokens of the context at budgets of 500 to 3,500 tokens: assembly/embeddings is above
assembly and the specification's settings from 2,000 tokens on; the intervals overlap"""
NOTES = """Complete is a context that shows all that a request needs: of each required file or message the words that
the label quotes. 95% intervals, over {requests} requests of {threads} threads that nothing was chosen on; those of a
thread count together. *Specification*: preset `spec`, its weights, excerpts of 500 characters and greedy rules. *Its
weights*: in `assembly` as shipped. Five whole items of `hybrid`: {whole}.

The differences between the weights are not significant, nor is that of embeddings: more threads would have to say
whether a model pays. Without one, take `assembly` ({own:.0f}% within 2,000 tokens).

Points of completeness without a source, on the tuning split: full text {full_text:+.1f}, the thread {thread:+.1f},
files opened last {recent:+.1f}; the others change no request.

**300 ms.** The specification asks for a response within 300 ms and names no size. p95 of a build without the cache,
half of them after a write, over {small} items (the dataset and what was written) and {large}: {times}, on a machine
with other work; of the processor at most {processor:.0f} ms. Vectors must have been computed, by `ctxbench context
import --embedder minilm`; otherwise the first request that finds a file embeds it, which takes seconds.

The cache answers {hits:.0%} of requests (the specification asks for 30%) and is never wrong; one by thread alone, as
specified, would be wrong in {wrong} of {document_hits} answers."""
MADE = """`make assembly` (`experiments/assembly/measure.py`) on `threads`. Sources, lengths and weights were chosen
on its tuning split. One model wrote threads and labels over one project's files: weigh what you log instead, by
`ctxbench data from-feedback` and `ctxbench calibrate weights DATASET --selector assembly --metric nDCG@10`. A label
quotes one place that answers; another one may do as well and counts as missing. Nothing abstains."""


if __name__ == "__main__":
    run_page("assembly", measure, page, about=__doc__ or "")
