"""Does `ctxbench data overlap` tell without labels which items requests will miss: reports/overlap.md (`make overlap`).

For each dataset: how often a search puts a required item first, of the items that come first in a search for their own
description, and of those for which another item does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
import pandas as pd
from dots import dot_picture
from pages import Page, Tables, each, run_page

from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.statistics import wilson
from ctxbench.labelling.overlap import overlap
from ctxbench.model.arrays import Float32Array, Grade
from ctxbench.search.chunking import query_chunks
from ctxbench.search.dense import chunks_of
from ctxbench.search.embedders import open_embedder, open_vectors
from ctxbench.search.tokens import open_counter

DATASETS = ("bfcl-simple", "bfcl-live", "metatool-single", "livemcpbench", "toollens", "workbench", "freight")
SAMPLE = 500  # requests of a dataset at most
CLEAR, CONFUSED = "clear", "confused"


def measure() -> Tables:
    """Counts of every dataset."""
    return {"": pd.DataFrame(each(counts_of, DATASETS))}


def counts_of(name: str) -> dict[str, object]:
    """Counts of a dataset, by the vectors of the default embedder."""
    return counts(open_dataset(name), open_vectors(open_embedder("minilm")).get)


def counts(dataset: Dataset, embed: Callable[[Sequence[str]], Float32Array]) -> dict[str, object]:
    """Count the required items that the search puts first among those of their type, by request.

    An item is confused with another by `overlap`, which reads no request. Items without a description are left out.
    """
    report = overlap(dataset.catalog, embed, open_counter("o200k"), changed=0)
    confused = {item.item for pair in report.pairs for item in pair.asked if item.place > 1}
    described = set(dataset.catalog.ids) - set(report.mute)
    items = list(dataset.catalog)
    types = np.array([item.type for item in items])
    chunks = [chunks_of(item) for item in items]
    vectors = embed([text for row in chunks for text in row])
    first = np.cumsum([0, *(len(row) for row in chunks[:-1])])
    pairs = {name: [0, 0] for name in (CLEAR, CONFUSED)}
    for query in select_queries(dataset, sample=SAMPLE, seed=0).queries:
        sentences = query_chunks(query.request.text)
        if not sentences:
            continue
        score = np.maximum.reduceat((embed(sentences) @ vectors.T).max(axis=0), first)
        for label in dataset.labels_of(query.id):
            if label.grade == Grade.REQUIRED and label.item.id in described:
                position = dataset.catalog.ids.index(label.item.id)
                rivals = score[types == types[position]]
                pair = pairs[CONFUSED if label.item.id in confused else CLEAR]
                pair[0] += int((rivals > score[position] + 1e-6).sum() == 0)
                pair[1] += 1
    row = {"dataset": dataset.name, "items": len(items), "confused": len(confused)}
    return row | {f"{name}_{part}": n for name, pair in pairs.items() for part, n in zip(PARTS, pair, strict=True)}


PARTS = ("first", "pairs")  # of pairs of a request and an item that it requires: those in which the item comes first


def page(tables: Tables) -> Page:
    """The page of these counts."""
    rows = tables[""]
    both = rows[rows["confused_pairs"] > 0]
    total = both.sum(numeric_only=True)
    share = {name: total[f"{name}_first"] / total[f"{name}_pairs"] for name in (CLEAR, CONFUSED)}
    lower = both["confused_first"] / both["confused_pairs"] < both["clear_first"] / both["clear_pairs"]
    return Page(
        title="Does `ctxbench data overlap` tell without labels which items requests will miss?",
        answer=(
            f"{'Yes' if lower.all() else 'Not everywhere'}, on {lower.sum()} of {len(both)} datasets: confused items "
            f"come first for {share[CONFUSED]:.0%} of the requests that need them, the others for {share[CLEAR]:.0%}."
        ),
        picture=dot_picture(
            {
                row.dataset: {
                    "confused": _dot(row.confused_first, row.confused_pairs),
                    "others": _dot(row.clear_first, row.clear_pairs),
                }
                for row in both.itertuples(index=False)
            },
            x="% of the requests that need an item for which it comes first",
            alt="How often a required item comes first: confused items and the others",
            value="share",
        ),
        table=[
            {
                "dataset": row.dataset,
                "items": f"{row.items:,}",
                "confused": f"{row.confused:,}",
                "others come first": _share(row.clear_first, row.clear_pairs),
                "confused come first": _share(row.confused_first, row.confused_pairs),
            }
            for row in rows.itertuples(index=False)
        ],
        notes=(
            (
                "An item is confused if another of its type comes first in a search for the first sentence of its own "
                "description; no request and no label is read for that. `ctxbench data overlap CATALOG` lists these "
                "items and what merging or renaming would change: fix them before you label or tune. Most of what "
                "requests miss is missed for other reasons ([misses](misses.md))."
            ),
        ),
        made=(
            f"`make overlap`: dense search, at most {SAMPLE} requests of each dataset, all splits. Pairs of a request "
            "and an item that it requires; 95% intervals (Wilson) take pairs for independent."
        ),
    )


def _share(hits: int, pairs: int) -> str:
    """A share with its counts; a dash where there are none."""
    return f"{hits / pairs:.0%} ({hits:,} of {pairs:,})" if pairs else "-"


def _dot(hits: int, pairs: int) -> dict[str, float]:
    """A share with its interval by Wilson."""
    bounds = wilson(int(hits), int(pairs))
    return {"share": hits / pairs, "low": bounds.low, "high": bounds.high}


if __name__ == "__main__":
    run_page("overlap", measure, page, about=__doc__.splitlines()[0])
