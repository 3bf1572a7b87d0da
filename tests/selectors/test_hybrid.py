"""The selector `hybrid`: a weighted sum of similarities and BM25, or reciprocal ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.requests import Batch
from ctxbench.pipelines.feature_families import FUSION
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.selectors.definitions import definition
from ctxbench.testing import mock_catalog, mock_requests, mock_resources

HYBRID = definition("hybrid")
BATCH = Batch.of(mock_catalog(), mock_requests())
SOURCES = {"dense": "dense", "bm25": {"bm25": {"bodies": True, "parameters": True}}}
WEIGHTS = {"words": "fields.bm25_share", "name": "fields.name", "description": "fields.description"}


def run(**values: Any) -> Candidates:
    return HYBRID.pipeline(HYBRID.values(None, values)).run(BATCH, mock_resources()).candidates


def run_refine(*refine: Any) -> Candidates:
    spec = {"analyse": "sentences", "retrieve": {"merge": SOURCES}, "refine": list(refine)}
    return Pipeline.of(spec).run(BATCH, mock_resources()).candidates


def assert_same_answers(one: Candidates, other: Candidates) -> None:
    for name in ("request", "item", "score", "chunk_rank", "chosen"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("values", [{}, {"words": 2.0, "name": 0.0, "description": 0.25, "n": 2}])
def test_it_ranks_by_the_weighted_sum(values):
    table = run_refine({"features": {"columns": ["similarity.score", *WEIGHTS.values()]}})
    weights = {column: values.get(parameter, 0.5) for parameter, column in WEIGHTS.items()}
    expected = {
        (request, item): sum(
            (weight * table.columns[column][row] for column, weight in weights.items()),
            start=table.columns["similarity.score"][row],
        )
        for row, (request, item) in enumerate(zip(table.request.tolist(), table.item.tolist(), strict=True))
        if table.origin[row] == Origin.SEARCH
    }
    after = run(**values)
    searched = np.flatnonzero(after.origin == Origin.SEARCH)
    assert len(searched) == len(expected) > 20
    for row in searched.tolist():
        assert after.score[row] == pytest.approx(expected[after.request[row], after.item[row]], abs=1e-12)
    for request in range(len(BATCH)):
        rows = searched[after.request[searched] == request]
        assert (np.diff(after.score[rows]) <= 0).all()
        assert after.chosen[rows].tolist() == [place < values.get("n", 5) for place in range(len(rows))]


def test_its_defaults_are_the_weights_of_the_feature():
    """The fit of `learned` reads `fusion.score`."""
    values = HYBRID.values()
    assert {"similarity.score": 1.0, **{column: values[name] for name, column in WEIGHTS.items()}} == FUSION
    table = run()
    with_fusion = run_refine({"features": {"columns": ["fusion.score"]}})
    score = dict(
        zip(
            zip(with_fusion.request.tolist(), with_fusion.item.tolist(), strict=True),
            with_fusion.columns["fusion.score"].tolist(),
            strict=True,
        )
    )
    for row in np.flatnonzero(table.origin == Origin.SEARCH).tolist():
        assert table.score[row] == pytest.approx(score[table.request[row], table.item[row]], abs=1e-12)


@pytest.mark.parametrize("k", [3, 60])
def test_with_ranks_it_is_reciprocal_rank_fusion(k):
    assert_same_answers(run(ranks=True, k=k, n=3), run_refine({"rrf": {"k": k}}, {"first": {"n": 3}}))


def test_ranks_are_another_order_than_sums():
    assert run(ranks=True).item.tolist() != run().item.tolist()


def test_k_has_no_effect_without_ranks():
    values = HYBRID.values()
    assert HYBRID.idle("k", values)
    assert not HYBRID.idle("k", {**values, "ranks": True})


@pytest.mark.parametrize("name", ["words", "name", "description"])
def test_a_weight_has_no_effect_with_ranks(name):
    values = HYBRID.values()
    assert not HYBRID.idle(name, values)
    assert HYBRID.idle(name, {**values, "ranks": True})
    other = HYBRID.pipeline({**values, "ranks": True, name: 2.0}).run(BATCH, mock_resources()).candidates
    assert_same_answers(run(ranks=True), other)


@pytest.mark.parametrize("name", ["words", "name", "description"])
@pytest.mark.parametrize("value", [-0.5, 11.0, "high"])
def test_a_weight_out_of_range_is_refused(name, value):
    with pytest.raises(ParameterError, match=f"{name} must be"):
        HYBRID.values(None, {name: value})
