"""What the pages on datasets and pipelines show is valid and whole."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from ctxbench.catalogs.snapshots import ItemRow
from ctxbench.datasets.dataset import split_of
from ctxbench.datasets.files import read_dataset, validate
from ctxbench.datasets.layout import QRELS_HEADER, DatasetCard
from ctxbench.datasets.queries import QueryRow
from ctxbench.evaluation.metrics import evaluate, parse_metrics
from ctxbench.model.arrays import Evidence, OfferedItems
from ctxbench.pipelines.pipeline import Pipeline

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
PAGE = (ROOT / "datasets" / "format.md").read_text("utf-8")


def section(page, title):
    return page.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(text):
    """The rows of a section's first table, as cells."""
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The dataset of the page as a folder: each fenced block under the file name that stands before it."""
    folder = tmp_path_factory.mktemp("desk")
    text = section(PAGE, "An example")
    blocks = re.findall(r"^`([^`\n]+)`\n\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == text.count("\n```") // 2 == 5
    for name, text in blocks:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def test_the_example_of_the_page_is_valid(example):
    assert [str(fault) for fault in validate(example)] == []


def test_the_splits_of_the_example_are_those_of_the_rule(example):
    queries = read_dataset(example).queries
    assert [query.split for query in queries] == [split_of(query.group or query.id) for query in queries]


def test_the_example_has_the_unlabelled_query_that_the_page_names(example):
    dataset = read_dataset(example)
    assert dataset.unlabelled == ("q6",)
    assert [query.id for query in dataset.queries if query.needs_nothing] == ["q5"]


def test_the_table_of_alternatives_is_what_the_metrics_say(example):
    dataset = read_dataset(example).take(["q1"])
    table = rows(section(PAGE, "`qrels/<split>.tsv`").split("**`alternatives`**")[1])
    assert len(table) == 3
    for offered, complete, recall in table:
        items = [dataset.catalog.position(key) for key in re.findall(r"`([^`]+)`", offered)]
        evidence = Evidence(
            judgments=dataset.judgments,
            offered=OfferedItems(
                start=np.array([0, len(items)]), item=np.array(items), origin=np.ones(len(items), int)
            ),
        )
        met, _, of = recall.partition(" of ")
        assert [value.tolist() for value in evaluate(parse_metrics(["completeness", "recall"]), evidence).values()] == [
            [1.0 if complete == "yes" else 0.0],
            [int(met) / int(of)],
        ]


@pytest.mark.parametrize(
    ("title", "fields"),
    [
        ("`dataset.yaml`", DatasetCard.__annotations__),
        ("`corpus.jsonl`", ItemRow.__annotations__),
        ("`queries.jsonl`", QueryRow.__annotations__),
        ("`qrels/<split>.tsv`", QRELS_HEADER),
    ],
)
def test_each_table_of_the_page_has_every_field_and_no_other(title, fields):
    named = [name for row in rows(section(PAGE, title)) for name in re.findall(r"`([^`]+)`", row[0])]
    assert sorted(named) == sorted(fields)


def test_the_readme_names_the_combinators_and_shows_forms_that_can_be_built():
    text = section((ROOT / "experiments" / "README.md").read_text("utf-8"), "Steps of a pipeline")
    (first,) = re.findall(r"`- (first: .*?)`", text)
    (merge,) = re.findall(r"`(merge: \[.*?)`", text)
    (domains,) = re.findall(r"`(by_domain: \{.*?)`", text)
    refine = [yaml.safe_load(first), yaml.safe_load(domains)]
    pipeline = Pipeline.of({"retrieve": yaml.safe_load(merge), "refine": refine})
    assert [step["step"] for step in pipeline.describe()["refine"]] == ["cut:first", "by_domain"]


def test_the_readme_links_the_page():
    assert "(datasets/README.md)" in section(README, "More")
