"""Examples and a dataset that fits are tried on."""

from __future__ import annotations

import numpy as np

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.tuning.fit_examples import Examples

PIPELINE = Pipeline.of({"retrieve": "dense"})
WORDS = ("area", "wheat", "piano", "river", "invoice", "garden", "rocket", "kitten")
CATALOG = Catalog([Item(type="tool", name=f"get_{word}", description=f"All about the {word}.") for word in WORDS])


def query(name: str, text: str, **given) -> DatasetQuery:
    return DatasetQuery(request=Request(id=name, text=text), split="tuning", **given)


def dataset(queries: list[DatasetQuery], labels: list[Label]) -> Dataset:
    return Dataset(name="made", version="1", catalog=CATALOG, queries=tuple(queries), labels=tuple(labels))


def made(query: list[int], label: list[bool], *, needed: list[tuple[int, list[int]]], n: int) -> Examples:
    needs = np.zeros(n, dtype=bool)
    needs[[one for one, _ in needed]] = True
    return Examples(
        what="probability",
        names=("score",),
        features=np.zeros((len(query), 1)),
        vectors=np.zeros((len(query), 0)),
        label=np.array(label),
        query=np.array(query),
        ids=tuple(map(str, range(n))),
        groups=tuple(map(str, range(n))),
        needed=np.array([one for one, _ in needed]),
        required_rows=tuple(np.array(rows, dtype=np.int64) for _, rows in needed),
        needs=needs,
    )


# Two queries with three and two candidates, and one with none. Query 0 needs its rows 0 and (1 or 2), query 1 its row 4
# and an item that was not found.
EXAMPLES = made(
    [0, 0, 0, 1, 1], [True, True, True, False, True], needed=[(0, [0]), (0, [1, 2]), (1, [4]), (1, [])], n=3
)
SCORES = np.array([0.9, 0.2, 0.6, 0.8, 0.4])


def words_dataset() -> Dataset:
    """For each word two queries that need its tool, in one group, and one about nothing that there is."""
    queries, labels = [], []
    for place, word in enumerate(WORDS):
        for n in range(2):
            queries.append(query(f"{word}{n}", f"Tell me {'more ' * n}about the {word}", group=word))
            labels.append(Label(f"{word}{n}", CATALOG[place].key, 2))
        queries.append(query(f"none{place}", f"Nice day number {place}, thanks", needs_nothing=True))
    return dataset(queries, labels)
