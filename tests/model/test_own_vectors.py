"""Requests that bring their own vector: it stands for the text in every search by similarity."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.datasets.queries import DatasetQuery, read_query
from ctxbench.io.errors import ParameterError
from ctxbench.io.rows import Row
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request, whole_texts, with_own_vectors
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.testing.contract import answer_rows

TEXTS = ("Ann likes green tea.", "The parcel was late. It was paid.", "Refunds take a week.", "Call her on Monday.")
CATALOG = Catalog(Item(type="memory", name=f"m{place}", text=text) for place, text in enumerate(TEXTS))
ASKED = ("What tea does Ann like? And her parcel?", "When are refunds paid?")
PIPELINES = (
    {"retrieve": "dense", "refine": [{"first": {"n": 2}}]},
    {"retrieve": {"dense": {"over_queries": "mean"}}},
    {"retrieve": "servers"},
    {"retrieve": {"merge": ["dense", "bm25"]}, "refine": ["features", "weighted"]},
    {"retrieve": "dense", "refine": [{"first": {"n": 1}}, {"expansion": {"threshold": 0.0, "query_weight": 0.5}}]},
    {
        "retrieve": "bm25",
        "refine": [{"first": {"n": 1}}, {"expansion": {"by": "graph", "graph_threshold": 0.0, "query_weight": 0.5}}],
    },
)
RESOURCES = testing.mock_resources()
VECTORS = RESOURCES.vectors(ASKED)


def answers(requests, spec, catalog: Catalog = CATALOG) -> list:
    pipeline = Pipeline.of({"analyse": "whole", **spec})
    outcome = pipeline.run(Batch.of(catalog, requests), RESOURCES)
    return answer_rows(outcome.query, outcome.candidates)


@pytest.mark.parametrize("spec", PIPELINES, ids=str)
def test_a_search_by_the_vector_of_a_text_is_one_by_the_text(spec):
    by_text = answers([Request(id=text, text=text) for text in ASKED], spec)
    pairs = list(zip(ASKED, VECTORS, strict=True))
    by_vector = answers([Request(id=text, text=text, vector=vector) for text, vector in pairs], spec)
    assert by_text == by_vector
    assert any(row for answer in by_text for row in answer["rows"])


@pytest.mark.parametrize("analyse", ["sentences", ["whole", "history"]], ids=str)
@pytest.mark.parametrize("spec", PIPELINES, ids=str)
def test_a_batch_answers_as_its_requests_one_by_one(spec, analyse):
    requests = [
        Request(id="text", text=ASKED[0]),
        Request(id="vector", text=ASKED[0], vector=VECTORS[1]),
        Request(id="long", text=ASKED[0], vector=3 * VECTORS[1]),
        Request(id="empty", text="", vector=VECTORS[0]),
        Request(id="neither", text=" "),
        Request(id="other", text=ASKED[1], vector=VECTORS[0]),
    ]
    spec = {**spec, "analyse": analyse}
    assert answers(requests, spec) == [one for request in requests for one in answers([request], spec)]


def test_the_text_is_one_chunk_whatever_the_analysis_says():
    requests = [
        Request(id="a", text="One. Two."),
        Request(id="b", text="One. Two.", vector=(1, 0)),
        Request(id="c", text=""),
    ]
    batch = Batch.of(CATALOG, [*requests, Request(id="d", text="", vector=(0, 1))])
    query = Query.of_chunks(batch, [["One", "Two"], ["One", "Two"], [], []], weights=[[1, 0.5], [1, 0.5], [], []])
    held = with_own_vectors(query)
    assert [held.chunks(row) for row in range(4)] == [("One", "Two"), ("One. Two.",), (), ("",)]
    assert held.weight.tolist() == [1, 0.5, 1, 1]
    assert held.kind.tolist() == [0] * 4
    assert [whole_texts(batch).chunks(row) for row in range(4)] == [("One. Two.",), ("One. Two.",), (), ("",)]


def test_only_what_has_no_vector_is_embedded():
    asked: list[str] = []

    def embed(texts):
        asked.extend(texts)
        return np.full((len(texts), 2), math.sqrt(0.5), dtype=np.float32)

    requests = [Request(id="a", text="x"), Request(id="b", text="y", vector=(0, -7)), Request(id="c", text="z")]
    query = whole_texts(Batch.of(CATALOG, requests))
    assert query.vectors(embed) == pytest.approx(np.array([[0.5**0.5] * 2, [0, -1], [0.5**0.5] * 2]))
    assert asked == ["x", "z"]
    assert query.vectors(embed, [1]).tolist() == [[0, -1]]
    assert {one: own.shape for one, own in query.vectors_by_request(embed, [2, 1]).items()} == {2: (1, 2), 1: (1, 2)}
    assert query.vectors_by_request(embed, []) == {}
    assert asked == ["x", "z", "z"]


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1.0, 1e200])
def test_a_vector_may_have_any_length(scale):
    query = whole_texts(Batch.of(CATALOG, [Request(id="a", text="", vector=(3 * scale, -4 * scale))]))
    assert query.vectors(lambda texts: np.empty((0, 2), np.float32)) == pytest.approx(np.array([[0.6, -0.8]]), rel=1e-6)


@pytest.mark.parametrize(
    ("vector", "said"),
    [
        ((1.0, math.nan), "query 'q7': its vector of 2 numbers holds NaN or infinity"),
        ((1.0, math.inf, 0.0), "query 'q7': its vector of 3 numbers holds NaN or infinity"),
        ((0.0, 0.0), "query 'q7': its vector of 2 numbers has no length; all are 0"),
        ((), "query 'q7': its vector of 0 numbers has no length"),
        (("a",), "query 'q7': vector must be a list of numbers"),
        (3, "query 'q7': vector must be a list of numbers"),
    ],
)
def test_what_is_no_vector_names_the_query(vector, said):
    with pytest.raises(ParameterError, match=said):
        Request(id="q7", text="x", vector=vector)


@pytest.mark.parametrize("spec", PIPELINES, ids=str)
@pytest.mark.parametrize("others", [0, 1])
def test_a_vector_of_another_size_names_the_query_and_both_sizes(spec, others):
    requests = [Request(id=f"q{place}", text=text) for place, text in enumerate(ASKED[:others])]
    size = VECTORS.shape[1]
    with pytest.raises(ParameterError, match=f"query 'q7': its vector has 3 numbers, .* have {size};"):
        answers([*requests, Request(id="q7", text=ASKED[0], vector=(1, 2, 3))], spec)


def test_requests_with_different_vectors_are_different():
    keys = {Batch.of(CATALOG, [Request(id="q", text="x", vector=one)]).key for one in (None, (1, 2), (2, 1))}
    assert len(keys) == 3
    memo: dict = {}
    pipeline = Pipeline.of({"retrieve": "dense"})
    for vector in VECTORS:
        batch = Batch.of(CATALOG, [Request(id="q", text="x", vector=vector)])
        found = pipeline.run(batch, RESOURCES, memo=memo).candidates
        assert found.score.tobytes() == pipeline.run(batch, RESOURCES).candidates.score.tobytes()


def test_a_query_of_a_dataset_may_have_a_vector():
    row = DatasetQuery(request=Request(id="q", text="", vector=(0.5, -2)), split="test").as_row()
    faults: list = []
    assert row["vector"] == [0.5, -2.0]
    read = read_query(Row(row, faults, Path("queries.jsonl"), 1), {})
    assert (faults, None if read is None else read.request.vector) == ([], (0.5, -2.0))
    for wrong in ([0, 0], "x", [None]):
        read_query(Row({**row, "vector": wrong}, faults, Path("queries.jsonl"), 1), {})
    assert [str(fault.message).split(";")[0] for fault in faults] == [
        "field 'vector': query 'q': its vector of 2 numbers has no length",
        "field 'vector' must be a list, got 'x'",
        "field 'vector': query 'q': vector must be a list of numbers, got [None]",
    ]
