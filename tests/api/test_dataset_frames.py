"""Datasets of frames and rows: what is given is read as a file's rows are, and every fault names its row."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ctxbench
from ctxbench.datasets.files import read_dataset
from ctxbench.io.errors import InputError, ParameterError, UserError

SMOKE = Path(__file__).parents[2] / "datasets" / "smoke"
ITEMS = [{"name": "area", "description": "Area of a triangle"}, {"name": "root", "server": "math"}]
QUERIES = [{"query": "q1", "text": "the area"}, {"query": "q2", "text": "hello", "needs": "nothing"}]
LABELS = [{"query": "q1", "item": "area"}]


def test_frames_hold_what_the_files_hold():
    found, files = ctxbench.load(SMOKE), read_dataset(SMOKE)
    assert found.dataset.hash == files.hash
    assert found.items["id"].tolist() == list(files.catalog.ids)
    assert found.items["description"].fillna("").tolist() == [item.description for item in files.catalog]
    assert found.queries["query"].tolist() == [query.id for query in files.queries]
    assert found.queries["text"].tolist() == [query.request.text for query in files.queries]
    told = [(label.query, label.item.id, label.grade, label.via, label.alternatives) for label in files.labels]
    assert list(found.labels.drop(columns="quote").itertuples(index=False, name=None)) == told
    assert repr(found) == "Dataset('smoke', '1', queries=30, items=24)"


def test_a_dataset_made_of_its_own_frames_is_the_same():
    files = ctxbench.load(SMOKE)
    queries = files.queries.drop(columns="scope").assign(available=available(files.dataset))
    again = ctxbench.dataset(files.items, queries, files.labels.replace("", None), name="smoke")
    assert again.dataset.catalog.hash == files.dataset.catalog.hash
    assert again.dataset.labels == tuple(plain(label) for label in files.dataset.labels)
    assert [query.request for query in again.dataset.queries] == [query.request for query in files.dataset.queries]


def available(dataset):
    return [None if one is None else [key.id for key in one] for one in (r.available for r in dataset.requests())]


def plain(label):
    from dataclasses import replace

    return replace(label, source="")


@pytest.mark.parametrize("form", [list, pd.DataFrame])
def test_rows_and_frames_are_as_good_as_files(form):
    made = ctxbench.dataset(form(ITEMS), form(QUERIES), form(LABELS))
    assert made.items["id"].tolist() == ["tool:area", "tool:math:root"]
    assert made.labels.to_dict("records") == [
        {"query": "q1", "item": "tool:area", "grade": 2, "via": "direct", "alternatives": "", "quote": ""}
    ]
    assert [query.needs_nothing for query in made.dataset.queries] == [False, True]
    assert [query.split for query in made.dataset.queries] == ["test", "test"]


def test_an_item_is_named_by_its_id_too_and_its_values_may_be_numpys():
    rows = pd.DataFrame(
        {"id": ["rule:R1", "rule:R2"], "priority": [np.int64(10), np.nan], "text": ["a", "b"], "name": ["R1", "R2"]}
    )
    made = ctxbench.catalog(rows)
    assert [(item.id, item.priority, item.text) for item in made] == [("rule:R1", 10, "a"), ("rule:R2", None, "b")]
    (named,) = ctxbench.catalog([{"name": "a", "schema": {"type": "object"}, "include": "always"}])
    assert (dict(named.schema), named.include) == ({"type": "object"}, "always")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"nam": "a"}], r"items, row 0.*'name' is missing|'name' is missing \(items, row 0\)"),
        ([{"name": "a", "descriptoin": "b"}], r"unknown field 'descriptoin'; did you mean 'description'\?"),
        ([{"name": "a"}, {"name": "a"}], r"item 'tool:a' occurs twice; identities must differ \(items, row 1\)"),
        ([{"name": "a", "type": "tol"}], r"item type must be one of|'_id'"),
        ([{"name": "a", "created": "2026-02-01", "until": "2026-01-01"}], r"until .* is before created"),
    ],
)
def test_what_is_no_item_is_said_with_its_row(rows, message):
    with pytest.raises(InputError, match=message):
        ctxbench.catalog(rows)


def test_a_column_that_a_frame_lacks_is_named():
    with pytest.raises(InputError, match="queries: column 'text' is missing; the columns are query, txt"):
        ctxbench.dataset(ITEMS, pd.DataFrame([{"query": "q1", "txt": "a"}]), LABELS)
    with pytest.raises(InputError, match=r"'query' is missing \(labels, row 1\)"):
        ctxbench.dataset(
            ITEMS, QUERIES, pd.DataFrame([{"query": "q1", "item": "area"}, {"query": np.nan, "item": "area"}])
        )


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([{"query": "q1", "item": "ara"}], r"no item has the id or name 'ara' \(query 'q1'\); did you mean 'area' or"),
        ([{"query": "q9", "item": "area"}], "q9"),
        ([{"query": "q1", "item": "area", "grade": 3}], "has score 3; expected 0 irrelevant"),
        ([{"query": "q1", "item": "area", "score": 1}], "unknown field 'score'"),
        ([{"query": "q1", "item": "area", "quote": "Volume"}], "Volume"),
    ],
)
def test_what_is_no_label_is_said_with_its_query(labels, message):
    with pytest.raises(UserError, match=message):
        ctxbench.dataset(ITEMS, QUERIES, labels)


def test_one_name_of_two_items_is_told_apart_by_the_id():
    twins = [{"name": "read", "server": "a"}, {"name": "read", "server": "b"}]
    with pytest.raises(InputError, match=r"2 items have the name 'read' \(query 'q1'\); give the id"):
        ctxbench.dataset(twins, QUERIES, [{"query": "q1", "item": "read"}])
    assert ctxbench.dataset(twins, QUERIES, [{"query": "q1", "item": "tool:b:read"}]).labels["item"].tolist() == [
        "tool:b:read"
    ]


@pytest.mark.parametrize("rows", ["area", {"name": "area"}, 3, ["area"]])
def test_what_is_no_table_is_refused(rows):
    with pytest.raises(ParameterError, match="must be a"):
        ctxbench.catalog(rows)


def test_what_was_given_is_left_as_it_was():
    frames = [pd.DataFrame(rows) for rows in (ITEMS, QUERIES, LABELS)]
    before = json.dumps([frame.to_dict("records") for frame in frames], default=str)
    ctxbench.dataset(*frames)
    assert json.dumps([frame.to_dict("records") for frame in frames], default=str) == before


@pytest.mark.parametrize("given", [None, 7, "abc", {"a": "b"}, [5], [("a", 1)], [("a",)], ["ab"]])
def test_results_of_tools_are_pairs_of_texts(given):
    tools = ctxbench.catalog([{"name": "area"}])
    with pytest.raises(ParameterError, match=r"tool_results.*\(tool name, text\)"):
        ctxbench.select("x", tools, selector="bm25", counter="chars/4", tool_results=given)


def test_what_is_computed_of_a_catalog_is_kept_with_it():
    told = []

    def embed(texts):
        told.extend(texts)
        return [[len(text), 1.0, 2.0] for text in texts]

    tools = ctxbench.catalog([{"name": name, "description": "of " + name} for name in ("area", "mail")])
    search = ctxbench.pipeline(retrieve={"dense": {"embedder": embed}}, refine=["first"])
    for text in ("one", "two"):
        assert len(ctxbench.select(text, tools, selector=search, counter="chars/4").ids) == 2
    (resources,) = tools.cache.values()
    assert [text for text in told if text.startswith("of") or ":" in text] == ["area: of area", "mail: of mail"]
    more = tools.extended(ctxbench.catalog([{"name": "wiki"}]))
    ctxbench.select("three", more, selector=search, counter="chars/4")
    assert list(more.cache.values()) == [resources]
    ctxbench.select("three", more, selector="bm25", embedder="hashing", counter="chars/4")
    assert len(more.cache) == 2
