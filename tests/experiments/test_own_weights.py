"""Weights of one repository: a made one in which the shipped weights find nothing and heavier paths find all."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from own_weights import EXACT, NEAREST, SHIPPED, advice, own_weights

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import write_dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request

WORDS = ["".join(pair) for pair in itertools.product(("bral", "drum", "fesk", "glin", "mork", "plat"), repeat=2)]
OFTEN = 10  # times that a word stands in each of the notes


def file(path, words):
    return Item(type="file", name=path, title=path, text=f"{path}\n\n{' '.join(words)}", created="2026-01-01")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Each request says a word of the path it needs; twelve notes say all words more often, and fill the first ten."""
    notes = [file(f"notes/n{n:02d}.txt", WORDS * OFTEN) for n in range(12)]
    needed = [file(f"src/{word}.py", ["filler"] * OFTEN * len(WORDS)) for word in WORDS]
    queries, labels = [], []
    for n, (word, item) in enumerate(zip(WORDS, needed, strict=True)):
        request = Request(id=f"q{n}", text=word, time="2026-02-01")
        queries.append(DatasetQuery(request=request, split="tuning" if n < 26 else "test", group=f"g{n}"))
        labels.append(Label(query=f"q{n}", item=item.key, grade=2))
    made = Dataset(
        name="made-files",
        version="1",
        catalog=Catalog([*notes, *needed]),
        queries=tuple(queries),
        labels=tuple(labels),
        about={"licence": "ours", "source": "made", "labelling": "made"},
    )
    folder = tmp_path_factory.mktemp("own") / "made-files"
    write_dataset(made, folder)
    return folder


@pytest.fixture(scope="module")
def found(repository):
    return own_weights(repository)


def test_weights_that_pay_are_recommended_and_measured_on_the_newer_requests(found):
    assert found.recommended
    assert {name: values.tolist() for name, values in found.found.items()} == {
        SHIPPED: [0.0] * 10,
        NEAREST: [1.0] * 10,
        EXACT: [1.0] * 10,
    }
    assert found.advised.tolist() == [1.0] * 10


def test_the_advice_says_what_it_changes(found):
    rows = advice([found], lambda base, other: {"difference": float(np.mean(other[0] - base[0]))})
    assert [row["difference"] for row in rows] == [1.0, 1.0, 1.0]
    assert "for 1 of 1" in rows[0]["weights"]
