"""The step `features`: which columns it adds, and that scores and order stay."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.io.errors import ParameterError, UnknownNameError
from ctxbench.model.registry import build
from ctxbench.model.requests import Batch
from ctxbench.pipelines.features import LABELLED, TEXT, column_names
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.rank import Features

BATCH = Batch.of(testing.mock_catalog(), testing.mock_requests())
PLAIN = [name for name in column_names() if name not in LABELLED]  # the others need a fit
HYBRID = {"merge": ["dense", "bm25"]}


def run(*refine):
    return Pipeline.of({"retrieve": HYBRID, "refine": list(refine)}).run(BATCH, testing.mock_resources()).candidates


def test_by_default_it_adds_those_that_carry_over():
    bare, after = run(), run("features")
    assert Features() == Features(TEXT)
    assert list(after.columns) == [*bare.columns, *TEXT]
    for name in ("start", "item", "score", "chunk_rank", "origin", "out"):
        np.testing.assert_array_equal(getattr(after, name), getattr(bare, name))


def test_session_items_have_none():
    after = run({"features": {"columns": ["words.bm25"]}})
    session = after.origin == 0
    assert session.any()
    np.testing.assert_array_equal(np.isnan(after.columns["words.bm25"]), session)


def test_a_fit_behind_it_reads_what_it_made():
    together, apart = run("probability"), run("features", "probability")
    np.testing.assert_array_equal(apart.score, together.score)
    assert apart.item.tolist() == together.item.tolist()


def test_behind_other_scores_it_sees_the_same_rows():
    one, other = run("features"), run("rrf", "features")
    key = [f"{request} {item}" for request, item in zip(one.request, one.item, strict=True)]
    of_other = [f"{request} {item}" for request, item in zip(other.request, other.item, strict=True)]
    assert sorted(key) == sorted(of_other)
    for name in TEXT:
        values = dict(zip(of_other, other.columns[name].tolist(), strict=True))
        np.testing.assert_array_equal([values[row] for row in key], one.columns[name])


def test_its_resources_are_those_of_its_columns():
    assert Features().uses == ("embedder",)
    assert Features(("words.bm25", "item.tool")).uses == ()


def test_a_list_from_a_file_is_taken():
    assert build("rank", "features", {"columns": ["item.tool"]}) == Features(("item.tool",))


@pytest.mark.parametrize(
    ("columns", "kind", "message"),
    [
        ((), ParameterError, "columns must name one or more features, got none"),
        (("words.bm26",), UnknownNameError, r"unknown feature 'words\.bm26'; did you mean 'words\.bm25'"),
        (("score",), UnknownNameError, "unknown feature 'score'"),
        (("words.bm25", "labelled.share"), ParameterError, r"labelled\.share, .* only a fit holds such requests"),
    ],
)
def test_what_is_no_feature_is_refused_when_it_is_built(columns, kind, message):
    with pytest.raises(kind, match=message):
        Features(columns)


@pytest.mark.parametrize("retrieve", ["dense", HYBRID])
def test_it_conforms_with_every_column(retrieve):
    testing.check_step("rank", "features", {"columns": PLAIN}, retrieve=retrieve, processes=0)
