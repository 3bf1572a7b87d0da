"""The step `linear`: sums worked by hand, what it keeps, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.io.errors import ParameterError, UnknownNameError
from ctxbench.model.requests import Batch
from ctxbench.pipelines.features import VERSION
from ctxbench.pipelines.fits import LINEAR, Fit, write_calibrations
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.rank import MOST, Linear, linear_scores

CATALOG = testing.mock_catalog()
BATCH = Batch.of(CATALOG, testing.mock_requests())
WEIGHTS = {"similarity.score": 1.0, "words.bm25_share": -0.5}
HYBRID = {"merge": ["dense", "bm25"]}


def run(*refine, retrieve=HYBRID):
    return Pipeline.of({"retrieve": retrieve, "refine": list(refine)}).run(BATCH, testing.mock_resources()).candidates


def fit(**changed):
    values = {"features": VERSION, "weights": WEIGHTS}
    known = {"dataset": "d", "dataset_hash": "", "embedder": testing.mock_resources().identity("embedder")}
    known |= {"catalog": CATALOG.hash, "behind": {}, "split": "all", "queries": 3, "values": values}
    return Fit(kind=LINEAR, **{**known, **changed})


@pytest.fixture
def stored(tmp_path):
    def write(*fits):
        (tmp_path / "fits.json").unlink(missing_ok=True)
        write_calibrations(tmp_path / "fits.json", fits)
        return Linear(calibration=str(tmp_path / "fits.json"))

    return write


def test_a_score_is_the_weighted_sum_of_the_columns():
    after = run({"linear": {"weights": WEIGHTS}})
    found = after.tier > 0
    similarity, share = (after.columns[name] for name in WEIGHTS)
    np.testing.assert_array_equal(after.score[found], (similarity - 0.5 * share)[found])
    assert (np.diff(after.score[after.rows(0)][found[after.rows(0)]]) <= 0).all()


def test_without_weights_it_is_the_similarity_alone():
    assert Linear() == Linear({"similarity.score": 1.0})


def test_sums_are_added_in_the_order_of_the_columns():
    values = np.array([[1e16, 1.0, -1e16], [3.0, 2.0, 1.0]])
    assert linear_scores(values, np.ones(3)).tolist() == [0.0, 6.0]
    assert linear_scores(values[:, [0, 2, 1]], np.ones(3)).tolist() == [1.0, 6.0]
    assert linear_scores(values[:, :0], np.ones(0)).tolist() == [0.0, 0.0]


def test_a_sum_has_the_same_bits_whatever_stands_around_it():
    rng = np.random.default_rng(0)
    values, weights = rng.standard_normal((101, 9)), rng.standard_normal(9)
    whole = linear_scores(values, weights)
    alone = [linear_scores(values[row : row + 1], weights)[0] for row in range(101)]
    assert whole.tobytes() == np.array(alone).tobytes()
    assert linear_scores(np.asfortranarray(values), weights).tobytes() == whole.tobytes()


def test_columns_that_stand_there_are_kept_and_those_of_weight_0_not_made():
    bare = run({"linear": {"weights": {**WEIGHTS, "conversation.near": 0.0}}})
    assert "conversation.near" not in bare.columns
    assert Linear({**WEIGHTS, "conversation.near": 0.0}).uses == ("embedder",)
    assert Linear({"similarity.score": 0.0, "words.bm25": 1.0}).uses == ()
    behind = run("features", {"linear": {"weights": WEIGHTS}})
    np.testing.assert_array_equal(behind.score, bare.score)


def test_the_session_stays_and_the_score_of_retrieval_is_kept_in_a_column():
    bare, after = run(), run({"linear": {"weights": {"words.bm25": 1.0}}})
    session = after.origin == 0
    np.testing.assert_array_equal(after.item[session], bare.item[bare.origin == 0])
    assert np.isnan(after.score[session]).all()
    kept = {(r, i): s for r, i, s in zip(bare.request, bare.item, bare.score, strict=True)}
    for request, item, score in zip(after.request, after.item, after.columns["retrieved.score"], strict=True):
        np.testing.assert_equal(score, kept[request, item])
    again = run({"linear": {"weights": {"words.bm25": 1.0}}}, {"linear": {"weights": {"retrieved.score": 1.0}}})
    assert again.item.tolist() == bare.item.tolist()


def test_it_makes_an_order_of_its_own_behind_everything():
    after = run({"linear": {"weights": {"words.bm25": 1.0}}}, retrieve="everything")
    assert len(set(after.score[after.rows(0)].tolist())) > 2


def test_a_fit_is_used_like_weights_that_are_given(stored):
    step = stored(fit())
    assert (step.calibrated, step.uses[0], bool(step.content)) == (LINEAR, "embedder", True)
    given = run({"linear": {"weights": WEIGHTS}})
    read = run({"linear": {"calibration": step.calibration}})
    np.testing.assert_array_equal(read.score, given.score)
    assert not list(step.notices(CATALOG, testing.mock_resources()))


def test_a_fit_of_a_catalog_that_grew_is_used_with_a_notice(stored):
    step = stored(fit(catalog="another", embedder="x"))
    step.check(CATALOG, testing.mock_resources())
    embedder, catalog = step.notices(CATALOG, testing.mock_resources())
    assert "was made with the embedder x" in embedder
    assert "another catalog" in catalog


def test_a_fit_that_cannot_be_used_is_refused(stored, tmp_path):
    for values, message in [
        ({"features": 1, "weights": WEIGHTS}, "features are of version 1"),
        ({"features": VERSION}, "weights must name one or more columns"),
        ({"features": VERSION, "weights": {"words.bm25": "high"}}, r"weights: words\.bm25 must be"),
    ]:
        with pytest.raises(ParameterError, match=f"{message}.*fit again with `ctxbench calibrate"):
            stored(fit(values=values)).check(CATALOG, testing.mock_resources())
    with pytest.raises(ParameterError, match="has no linear fit for this catalog"):
        stored(fit(catalog="one"), fit(catalog="two", dataset="e"), fit(catalog="3", dataset="f")).check(CATALOG, None)
    write_calibrations(tmp_path / "other.json", [replace(fit(), kind="weights")])
    with pytest.raises(ParameterError, match="holds no fit of linear"):
        Linear(calibration=str(tmp_path / "other.json"))


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"weights": {"words.bm25": 0.0}}, ParameterError, "weights must not all be 0"),
        ({"weights": {"words.bm25": float("nan")}}, ParameterError, r"weights: words\.bm25 must be"),
        ({"weights": {"words.bm25": 10 * MOST}}, ParameterError, r"weights: words\.bm25 must be -1e\+100 to 1e\+100"),
        ({"weights": {"words.bm25": True}}, ParameterError, r"weights: words\.bm25 must be"),
        ({"weights": {"words.bm26": 1.0}}, UnknownNameError, r"did you mean 'words\.bm25'"),
        ({"weights": {"labelled.share": 1.0}}, ParameterError, r"labelled\.share, .* only `probability`"),
        ({"weights": WEIGHTS, "calibration": "x.json"}, ParameterError, "weights come from the calibration"),
    ],
)
def test_what_is_wrong_is_said_when_it_is_built(given, kind, message):
    with pytest.raises(kind, match=message):
        Linear(**given)
