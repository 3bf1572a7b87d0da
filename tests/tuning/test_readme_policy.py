"""The policy file of the guide runs on any labelled folder."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from ctxbench.datasets.files import write_dataset
from ctxbench.model.items import Catalog
from ctxbench.report.tuning_document import write_report
from ctxbench.report.tuning_tables import console_table
from ctxbench.tuning.policy import read_policies
from ctxbench.tuning.preset_files import open_fitted
from ctxbench.tuning.tuner import tune

ROOT = Path(__file__).parents[2]


ENDS = {  # ends of the ranges of the selectors in the block, as far as the defaults go with them, and a value between
    "learned": {"at_least": [0, 1, 5], "at_most": [5, 10, 50]},
    "semantic": {"contextTopK": [1, 20, 100], "contextTopN": [0, 5, 50]},
}


@pytest.fixture
def policy(tmp_path):
    """The block of the guide, with an embedder and a counter that need no model."""
    text = (ROOT / "experiments" / "guide" / "guide.md").read_text("utf-8")
    section = text[text.index("## 6. Tune") :]
    block = re.search(r"```yaml\n(selectors:.*?)```", section, re.DOTALL)
    path = tmp_path / "policies.yaml"
    path.write_text(f"{block[1]}embedder: hashing\ntokens: chars/4\n", "utf-8")
    return path


@pytest.fixture
def fewer(policy):
    """The same with few settings."""
    data = yaml.safe_load(policy.read_text("utf-8"))
    entries = [{"selector": one} if isinstance(one, str) else one for one in data["selectors"]]
    data["selectors"] = [{**one, "search": ENDS[one["selector"]]} for one in entries]
    path = policy.with_name("fewer.yaml")
    path.write_text(yaml.safe_dump(data, sort_keys=False), "utf-8")
    return path


def some(dataset, n, **changes):
    """Its first queries, of one split."""
    part = dataset.take([query.id for query in dataset.queries[:n]])
    return replace(part, queries=tuple(replace(query, split="dev", **changes) for query in part.queries))


def only(dataset, kind):
    """The items of one type, and the queries that need nothing else."""
    kept = [item for item in dataset.catalog if item.type == kind]
    names = {item.key for item in kept}
    ids = [query.id for query in dataset.queries if all(one.item in names for one in dataset.labels_of(query.id))]
    return replace(some(dataset.take(ids), 30), catalog=Catalog(kept))


MADE = {
    "five": lambda made: some(made(), 5),
    "twenty": lambda made: some(made(), 20),
    "groups only": lambda made: some(made(), 24, group="one"),
    "tools only": lambda made: only(made(), "tool"),
    "rules only": lambda made: only(made(), "rule"),
    "two splits": lambda made: made(n=40),
    "nothing needed": lambda made: some(made(), 1),
}


@pytest.mark.parametrize("kind", MADE)
def test_it_runs_on_any_folder(fewer, dataset, tmp_path, kind):
    folder = tmp_path / "folder"
    write_dataset(replace(MADE[kind](dataset), name="folder"), folder)
    found = tuned(fewer, folder, tmp_path)
    if kind in ("five", "groups only", "nothing needed"):
        assert all(outcome.chosen is None for outcome in found.outcomes), "of which nothing can be said beyond doubt"


def test_it_runs_as_it_stands(policy, tmp_path):
    tuned(policy, ROOT / "datasets" / "smoke", tmp_path)


def tuned(file, folder, tmp_path):
    """Tune and report; returns what was found."""
    ready = open_fitted(read_policies(file), [str(folder)], tmp_path / "presets")
    tuning = tune(ready, command="x")
    write_report(tuning, tmp_path / "report")
    assert console_table(tuning).startswith("normal")
    (found,) = tuning.datasets
    assert found.all_decide
    assert [outcome.policy.name for outcome in found.outcomes] == ["normal", "conservative", "within-4000"]
    for outcome in found.outcomes:
        assert (outcome.chosen is None) == bool(outcome.reason)
    return found
