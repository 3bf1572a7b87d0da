"""A made dataset with two splits, policy files over it, and fits: small, without a model, the same every time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import write_dataset
from ctxbench.datasets.lookup import open_dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.pipelines.fits import write_calibrations
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import Vectors, VectorStore, open_embedder
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from ctxbench.tuning.inputs import open_tuning
from ctxbench.tuning.policy import read_policies
from ctxbench.tuning.query_fits import fit

ABOUT = {"licence": "Apache-2.0", "source": "Drawn for a test.", "labelling": "As drawn."}
BEHIND = {"retrieve": {"dense": {"depth": 100}}}
PROBABILITY = """\
name: probability
parameters:
  threshold: {default: 0.1, range: [0.0, 1.0]}
  atLeast: {default: 0, range: [0, 3]}
pipeline:
  retrieve:
    dense: {depth: 100}
  refine:
    - probability: {calibration: fits.json}
    - at_least: {threshold: $threshold, at_least: $atLeast}
"""
AGGRESSIVE = {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.8, "of": "base"}]}
SMALL = {"contextTopK": [20, 50], "contextTopN": [0, 1, 3, 5]}
WORDS = [
    first + second for first in ("ba", "ke", "mo", "ru", "ti", "sa", "lo", "vi") for second in ("dan", "fil", "gor")
]


def catalog() -> Catalog:
    """Forty tools of four servers and twelve rules, each with four words that others share."""
    drawn = random.Random(7)
    items = []
    for number in range(52):
        words = drawn.sample(WORDS, 4)
        text = f"Works on {' '.join(words)}."
        if number < 40:
            schema = {"type": "object", "properties": {word: {"type": "string"} for word in words[: number % 4 + 1]}}
            items.append(
                Item(type="tool", name=f"do_{number}", server=f"s{number % 4}", description=text, schema=schema)
            )
        else:
            items.append(Item(type="rule", name=f"rule {number}", description=text, text="Always so. " * (number % 5)))
    return Catalog(items)


def made(name: str = "shop", n: int = 240, seed: int = 3) -> Dataset:
    """Requests with some words of what they require, and some of nothing."""
    drawn, held = random.Random(seed), catalog()
    queries, labels = [], []
    for number in range(n):
        nothing = number % 24 in (0, 18)  # one in each split
        needed = [] if nothing else drawn.sample(range(len(held)), 1 + (number % 5 == 0))
        words = [word for item in needed for word in drawn.sample(held[item].description[9:-1].split(), 3)]
        words += drawn.sample(WORDS, drawn.randint(0, 3))
        drawn.shuffle(words)
        queries.append(
            DatasetQuery(
                request=Request(id=f"q{number}", text=" ".join(words) or "hello"),
                split="tuning" if number % 4 < 2 else "test",
                group=f"g{number // 2}" if number // 2 % 3 == 0 else None,
                needs_nothing=nothing,
            )
        )
        labels += [Label(query=f"q{number}", item=held[item].key, grade=2) for item in needed]
    return Dataset(name=name, version="1", catalog=held, queries=tuple(queries), labels=tuple(labels), about=ABOUT)


@pytest.fixture(scope="session")
def cached(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def alone(cached, monkeypatch):
    """A cache of the tests' own; no network, no model."""
    monkeypatch.setenv("CTXBENCH_CACHE", str(cached))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")


@pytest.fixture(scope="session")
def dataset():
    """Makes such datasets."""
    return made


@pytest.fixture(scope="session")
def shop(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "shop"
    write_dataset(made(), folder)
    return folder


@pytest.fixture(scope="session")
def other(tmp_path_factory) -> Path:
    """Another dataset over the same catalog."""
    folder = tmp_path_factory.mktemp("data") / "other"
    write_dataset(made("other", n=160, seed=11), folder)
    return folder


@pytest.fixture
def small(tmp_path) -> Path:
    """A dataset with too few queries to recommend anything."""
    write_dataset(made("small", n=36), tmp_path / "small")
    return tmp_path / "small"


@pytest.fixture
def policies(tmp_path):
    """Write a policy file; returns its path."""

    def write(*selectors, name="file", **given):
        chosen = selectors or ({"selector": "semantic", "search": SMALL},)
        data = {"name": name, "selectors": list(chosen), "policies": {"aggressive": AGGRESSIVE}, "embedder": "hashing"}
        path = tmp_path / f"{name}.yaml"
        usual = {"tokens": "chars/4", "trials": 8, "labels": "split"}
        path.write_text(yaml.safe_dump({**data, **usual, **given}, sort_keys=False))
        return path

    return write


@pytest.fixture
def ready(policies, shop):
    """Open tuning over the made dataset, or others."""

    def opened(*selectors, datasets=(), **given):
        return open_tuning(read_policies(policies(*selectors, **given)), [str(one) for one in datasets or [shop]])

    return opened


@pytest.fixture
def fitted(tmp_path, shop):
    """Fit a probability on a split; returns the path of a selector that reads it."""

    def write(split="tuning", *, text=PROBABILITY, what="probability", dataset=shop):
        opened = open_dataset(str(dataset), base=Path())
        embedder = open_embedder("hashing")
        held = LocalResources(Vectors(embedder, VectorStore(embedder.identity)), open_counter("chars/4"))
        write_calibrations(tmp_path / "fits.json", [fit(what, opened, Pipeline.of(BEHIND), held, split=split)])
        path = tmp_path / f"{text.splitlines()[0].removeprefix('name: ')}.yaml"
        path.write_text(text)
        return path.name

    return write


@pytest.fixture
def selector(tmp_path):
    """Write a selector with a pipeline and parameters; returns its file name."""

    def write(refine, parameters=None, name="own", **stages):
        spec = {"retrieve": {"dense": {"depth": 100}}, **stages, "refine": refine}
        data = {"name": name, "parameters": parameters or {}, "pipeline": spec}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
        return f"{name}.yaml"

    return write
