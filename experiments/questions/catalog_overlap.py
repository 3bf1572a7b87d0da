"""Does `ctxbench data overlap` tell without labels which items requests will miss: reports/overlap.md (`make overlap`).

For each dataset: how often a search puts a required item first, of the items that are found first in their own words,
and of those for which another item is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ctxbench.cli.common import run_script
from ctxbench.datasets.dataset import Dataset, select_queries
from ctxbench.datasets.lookup import open_dataset
from ctxbench.evaluation.statistics import wilson
from ctxbench.io.files import write_atomic
from ctxbench.labelling.overlap import overlap
from ctxbench.model.arrays import Float32Array, Grade
from ctxbench.search.chunking import query_chunks
from ctxbench.search.dense import chunks_of
from ctxbench.search.embedders import open_embedder, open_vectors
from ctxbench.search.tokens import open_counter

ROOT = Path(__file__).parents[2]
DATASETS = ("bfcl-simple", "bfcl-live", "metatool-single", "livemcpbench", "toollens", "workbench", "freight")
SAMPLE = 500  # requests of a dataset at most


class Row(NamedTuple):
    """One dataset: how many pairs of a request and an item it requires are found first, and of how many.

    Pairs whose item another is taken for stand apart.
    """

    dataset: str
    items: int
    taken: int
    told: tuple[int, int]
    missed: tuple[int, int]


def main() -> None:
    """Search, count and write the page."""
    vectors = open_vectors(open_embedder("minilm"))
    rows = [counted(open_dataset(name), vectors.get) for name in DATASETS]
    write_atomic(ROOT / "reports" / "overlap.md", page(rows))


def counted(dataset: Dataset, embed: Callable[[Sequence[str]], Float32Array]) -> Row:
    """Count the required items that the search puts first among those of their type, by request.

    An item is taken for another by `overlap`, which sees no request. Items without a description are left out.
    """
    found = overlap(dataset.catalog, embed, open_counter("o200k"), changed=0)
    taken = {one.item for pair in found.pairs for one in pair.asked if one.place > 1}
    described = set(dataset.catalog.ids) - set(found.mute)
    items = list(dataset.catalog)
    types = np.array([item.type for item in items])
    chunks = [chunks_of(item) for item in items]
    vectors = embed([text for row in chunks for text in row])
    first = np.cumsum([0, *(len(row) for row in chunks[:-1])])
    counts = {True: [0, 0], False: [0, 0]}
    for query in select_queries(dataset, sample=SAMPLE, seed=0).queries:
        sentences = query_chunks(query.request.text)
        if not sentences:
            continue
        score = np.maximum.reduceat((embed(sentences) @ vectors.T).max(axis=0), first)
        for label in dataset.labels_of(query.id):
            if label.grade == Grade.REQUIRED and label.item.id in described:
                position = dataset.catalog.ids.index(label.item.id)
                rivals = score[types == types[position]]
                count = counts[label.item.id in taken]
                count[0] += int((rivals > score[position] + 1e-6).sum() == 0)
                count[1] += 1
    told, missed = ((hits, n) for hits, n in (counts[False], counts[True]))
    return Row(dataset.name, len(items), len(taken), told, missed)


def page(rows: Sequence[Row]) -> str:
    """The page: the answer, the table, how it was made."""
    held = [row for row in rows if row.missed[1]]
    lower = [row for row in held if share(row.missed) < share(row.told)]
    told, missed = (tuple(map(sum, zip(*part, strict=True))) for part in zip(*(row[3:] for row in held), strict=True))
    answer = (
        f"Yes: on {len(lower)} of {len(held)} datasets that have such items, a required item for which another is "
        f"found first in its own words is found first by fewer of the requests that need it than the other items are: "
        f"{100 * share(missed):.0f}% against {100 * share(told):.0f}% over all of them."
    )
    lines = [
        "# Does `ctxbench data overlap` tell without labels which items requests will miss?",
        "",
        f"**{answer}**",
        "",
        "| dataset | items | another is taken for | the others, found first | these, found first |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(f"| {row.dataset} | {row.items:,} | {row.taken:,} | {said(row.told)} | {said(row.missed)} |" for row in rows),
    ]
    return "\n".join([*lines, "", ABOUT, ""])


def share(counts: Sequence[int]) -> float:
    """The share of pairs of a request and an item it requires in which the search puts the item first."""
    return counts[0] / counts[1]


def said(counts: tuple[int, int]) -> str:
    """A share with its 95% interval (Wilson) and its counts."""
    if not counts[1]:
        return "-"
    bounds = wilson(*counts)
    return (
        f"{100 * share(counts):.0f}% ({100 * bounds.low:.0f}–{100 * bounds.high:.0f}; {counts[0]:,} of {counts[1]:,})"
    )


ABOUT = """`another is taken for`: items for which another of their type comes first in a search for the first sentence
of their own description; no request and no label is read for that. `found first`: pairs of a request and an item that
it requires (of at most 500 requests a dataset, all splits), in which dense search puts the item first among those of
its type; 95% intervals (Wilson) of pairs, which take the required items of one request for independent.

Made by `make overlap`.

**What to do.** `ctxbench data overlap CATALOG` lists these items, with what merging two of them or another name would
change. Fix the descriptions before you label or tune.

**What this does not say.** That the others are found: most of what requests miss is missed for other reasons, as the
column beside shows. That a merge or a new name which helps here helps requests as much."""

if __name__ == "__main__":
    run_script(main)
