"""reports/comparators.md (`make comparators`): how strong `bm25`, `dense` and `hybrid` are, and what a hybrid gives."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))

from dots import dot_picture, gain_cell, local, mean_gain, points
from pages import Page, Tables, run_page

from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.comparisons import grouped_compare, grouped_estimate
from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.evaluation.statistics import correct
from ctxbench.model.arrays import Evidence, FloatArray, OfferedItems, Rankings
from ctxbench.model.candidates import Candidates
from ctxbench.model.requests import Batch
from ctxbench.model.resources import Resources
from ctxbench.model.selection import concatenated, session_rows, stacked
from ctxbench.search.dense import ranked_by
from ctxbench.selectors.definitions import definition

ROOT = Path(__file__).parents[2]
PUBLIC = (
    *("bfcl-simple", "bfcl-live", "bfcl-live-listed", "livemcpbench", "metatool-single", "metatool-multi"),
    *("toollens", "locomo", "locomo-observations"),
)
DATASETS = (*PUBLIC, "datasets/workbench", "datasets/freight")
SAMPLED = {"metatool-single": 500, "toollens": 500}
BLOCK = 64
RECALL = parse_metric("R@5")
SHIPPED: dict[str, tuple[str, dict[str, Any]]] = {
    "bm25": ("bm25", {}),
    "dense": ("dense", {}),
    "ranks, k 60": ("hybrid", {"ranks": True, "k": 60}),
    "ranks, k 3": ("hybrid", {"ranks": True, "k": 3}),
    "hybrid": ("hybrid", {}),
}
PAIRS = {"bm25 over bm25s": ("bm25s", "bm25"), "hybrid over the better": ("better", "hybrid")}


def measure(datasets: Sequence[str] = DATASETS) -> Tables:
    """R@5 of each comparator by dataset, and the paired gains, corrected over the datasets."""
    resources, _ = local()
    recalls: list[dict[str, Any]] = []
    compared: dict[tuple[str, str], Any] = {}
    for path in datasets:
        whole = open_dataset(ROOT / path if "/" in path else path)
        dataset = select_queries(whole, sample=SAMPLED.get(path, 0), seed=0).judged()
        groups = np.unique([query.group or query.id for query in dataset.queries], return_inverse=True)[1]
        values = recalls_of(dataset, resources)
        for name, by_query in values.items():
            estimate = grouped_estimate(by_query, groups, scale="share")
            ends = {"R@5": estimate.value, "low": estimate.interval.low, "high": estimate.interval.high}
            recalls.append({"dataset": dataset.name, "queries": len(dataset), "selector": name, **ends})
        values["better"] = max(values["bm25"], values["dense"], key=np.nanmean)
        for pair, (base, other) in PAIRS.items():
            compared[pair, dataset.name] = grouped_compare(values[base], values[other], groups, scale="share")
    gains = [
        {"gain": pair, "dataset": dataset, "difference": gain.difference, "low": gain.interval.low,
         "high": gain.interval.high, "p": gain.p_holm, "significant": gain.significant}
        for name in PAIRS
        for (pair, dataset), gain in correct({key: gain for key, gain in compared.items() if key[0] == name}).items()
    ]  # fmt: skip
    return {"": pd.DataFrame(recalls), "gains": pd.DataFrame(gains)}


def recalls_of(dataset: Dataset, resources: Resources) -> dict[str, FloatArray]:
    """R@5 by query of bm25s and of what ships."""
    requests = dataset.requests()
    batches = [
        Batch.of(dataset.current_catalog, requests[first : first + BLOCK]) for first in range(0, len(requests), BLOCK)
    ]
    values = {"bm25s": recall(dataset, stacked(list(_bm25s(dataset, batches))))}
    for name, (selector, changes) in SHIPPED.items():
        shipped = definition(selector)
        pipeline = shipped.pipeline(shipped.values(None, changes))
        values[name] = recall(dataset, stacked([pipeline.run(batch, resources).candidates for batch in batches]))
    return values


def recall(dataset: Dataset, table: Candidates) -> FloatArray:
    """R@5 of the answers to all queries; NaN where nothing is required."""
    start, item = table.ranking()
    chosen = OfferedItems(
        start=table.starts_of(table.chosen), item=table.item[table.chosen], origin=table.origin[table.chosen]
    )
    evidence = Evidence(judgments=dataset.judgments, offered=chosen, rankings=Rankings(start=start, item=item))
    return evaluate([RECALL], evidence)[RECALL]


def _bm25s(dataset: Dataset, batches: Sequence[Batch]) -> Iterator[Candidates]:
    """bm25s as it comes: its words and stop words, `lucene`, k1 1.5, b 0.75; scores above 0."""
    index = bm25s.BM25(dtype="float64")
    index.index(_words([item.search_text for item in dataset.current_catalog]), show_progress=False)
    for batch in batches:
        indexed = [
            [word for word in words if word in index.vocab_dict]
            for words in _words([request.text for request in batch.requests])
        ]
        scores = [index.get_scores(words) if words else np.zeros(len(batch.catalog)) for words in indexed]
        positive = [row & (score > 0) for row, score in zip(batch.eligible, scores, strict=True)]
        yield concatenated([session_rows(batch), ranked_by(scores, positive, depth=100)])


def _words(texts: Sequence[str]) -> list[list[str]]:
    tokens = bm25s.tokenize(list(texts), stopwords="english", return_ids=False, show_progress=False)
    return [list(row) for row in tokens]


def page(tables: Tables) -> Page:
    """A row a dataset."""
    recalls, gains = tables[""], tables["gains"]
    selectors = list(dict.fromkeys(recalls["selector"]))
    value = recalls.set_index(["dataset", "selector"])["R@5"]
    by_pair = {pair: rows.set_index("dataset") for pair, rows in gains.groupby("gain")}
    names = list(dict.fromkeys(recalls["dataset"]))
    lead = by_pair["bm25 over bm25s"].loc[[name for name in names if name in PUBLIC], "difference"]
    hybrid = by_pair["hybrid over the better"]
    worse = int((hybrid["significant"] & (hybrid["difference"] < 0)).sum())
    better = int((hybrid["significant"] & (hybrid["difference"] > 0)).sum())
    at_least = "at least" if lead.min() >= 0 else "nearly"

    def cells(selector_values: Mapping[str, float]) -> dict[str, str]:
        return {name: f"{100 * selector_values[name]:.1f}" for name in selectors}

    rows = [
        {"R@5, %": name, **cells(value[name]), "hybrid over the better": gain_cell(hybrid.loc[name])} for name in names
    ]
    mean = value.groupby("selector").mean()
    return Page(
        title="How strong the comparators are",
        answer=f"`bm25` finds {at_least} as much as bm25s; `hybrid` beats the better of its two searches on "
        f"{better} of {len(names)} datasets and loses on {worse or 'none'}.",
        picture=dot_picture(
            {name: _dots(recalls, name) for name in names},
            x="R@5 in %, the share of required items among the first five",
            alt="R@5 of bm25s, bm25, dense and hybrid by dataset, with intervals",
            value="R@5",
            limits=(0, 100),
        ),
        table=[*rows, {"R@5, %": "mean", **cells(mean), "hybrid over the better": gain_cell(mean_gain(hybrid))}],
        notes=(
            (
                "R@5 is the share of the required items that is among the first five. `ranks` fuses the ranks of "
                "`dense` by sentence and `bm25` (`hybrid` with `ranks: true`); `hybrid` adds up their scores. The last "
                "column is the gain over `bm25` or `dense`, whichever is better there, in points; bold is significant."
            ),
            (
                f"`bm25` against bm25s: {points(lead.min())} points at least ({lead.idxmin()}), {points(lead.max())} "
                "at most, on the public datasets."
            ),
        ),
        made=f"`make comparators`. All queries, as nothing is tuned; 500 of {' and of '.join(SAMPLED)}. bm25s has "
        "its own defaults: its tokenizer and English stop words, `lucene`, k1 1.5, b 0.75. Intervals and p by group "
        "of queries; p is Holm-corrected over the datasets. That the better search is chosen by the same queries "
        "counts against `hybrid`.",
    )


def _dots(recalls: pd.DataFrame, dataset: str) -> dict[str, Mapping[str, float]]:
    rows = recalls[recalls["dataset"] == dataset].set_index("selector")
    return {name: rows.loc[name] for name in ("bm25s", "bm25", "dense", "hybrid")}


if __name__ == "__main__":
    run_page("comparators", measure, page, about=__doc__)
