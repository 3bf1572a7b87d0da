"""Calibrated strategies: probabilities worked by hand, what they keep, and what they refuse."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctxbench import testing
from ctxbench.calibrations import Fit, write_calibrations
from ctxbench.candidates import Candidates, Origin
from ctxbench.errors import InputError, ParameterError, StorageError
from ctxbench.index.features import RETRIEVED, VERSION
from ctxbench.items import Catalog, Item
from ctxbench.pipeline import Pipeline
from ctxbench.query import Query
from ctxbench.registry import build
from ctxbench.requests import Batch, Request
from ctxbench.steps.calibrated import Abstain, AtLeast, Logistic, Probability

RESOURCES = testing.mock_resources()
CATALOG = Catalog([Item(type="tool", name=name) for name in ("one", "two", "three")])
VALUES = {
    "probability": {"features": VERSION, "intercept": -1.0, "weights": {"score": 2.0, "question": 1.0}},
    "abstention": {"features": VERSION, "intercept": -1.0, "weights": {"best.score": 2.0}},
}
PROPERTY = settings(max_examples=100, deadline=None, database=None, derandomize=True)


def odds(value: float) -> float:
    return 1 / (1 + math.exp(-value))


@pytest.fixture
def write(tmp_path):
    """Write fits for some catalogs, and return the path of the file."""

    def written(*catalogs, name="fits.json", **changes):
        fits = [
            replace(
                Fit(what=what, dataset="d", dataset_hash="", catalog=catalog.hash, split="tuning", queries=1, behind={},
                    embedder=RESOURCES.identity("embedder"), values=values),
                **changes,
            )
            for what, values in VALUES.items()
            for catalog in catalogs
        ]  # fmt: skip
        write_calibrations(tmp_path / name, {(fit.what, fit.catalog): fit for fit in fits}.values())
        return str(tmp_path / name)

    return written


@pytest.fixture
def path(write):
    return write(CATALOG)


def asked(*texts: str) -> Query:
    batch = Batch.of(CATALOG, [Request(id=str(i), text=text) for i, text in enumerate(texts)])
    return Query.of_chunks(batch, [[text] if text else [] for text in texts])


def table(*scores: list[float], **given: np.ndarray) -> Candidates:
    request = np.repeat(np.arange(len(scores)), [len(own) for own in scores])
    item = np.concatenate([np.empty(0), *(np.arange(len(own)) for own in scores)]).astype(np.int64)
    score = np.concatenate([np.empty(0), *scores])
    return Candidates.build(len(scores), request, item, score=score, **given)


def offered(candidates: Candidates) -> list[list[int]]:
    rows = [candidates.rows(request) for request in range(candidates.n_requests)]
    return [candidates.item[row][candidates.chosen[row]].tolist() for row in rows]


class TestProbability:
    def test_the_score_becomes_the_probability(self, path):
        after = Probability(path)(asked("x", "x?"), table([0.5, 0.25], [0.5]), RESOURCES)
        assert after.score.tolist() == pytest.approx([odds(0.0), odds(-0.5), odds(1.0)], abs=1e-15)
        assert after.columns[RETRIEVED].tolist() == [0.5, 0.25, 0.5]
        assert after.chunk_rank.tolist() == [0, 1, 0]

    def test_another_order_is_put_in_order(self, write):
        values = {"features": VERSION, "intercept": 0.0, "weights": {"score": -1.0}}
        path = write(CATALOG, what="probability", values=values)
        after = Probability(path)(asked("x"), table([0.9, 0.5, 0.5]), RESOURCES)
        assert after.item.tolist() == [1, 2, 0]  # ties in catalog order
        assert after.score[0] == pytest.approx(odds(-0.5), abs=1e-15)

    def test_only_what_the_search_found_is_scored_again(self, path):
        before = table([0.9, 0.5, 0.3], origin=np.array([0, 1, 2]))
        after = Probability(path)(asked("x"), before, RESOURCES)
        assert after.score.tolist() == [0.9, odds(0.0), 0.3]
        assert np.isnan(after.columns[RETRIEVED]).tolist() == [True, False, True]

    def test_nothing_found_needs_no_fit(self, write):
        step = Probability(write(Catalog([])))
        assert offered(step(asked("x"), table([]), RESOURCES)) == [[]]

    def test_twice_is_once(self, path):
        once = Probability(path)(asked("x"), table([0.9, 0.5]), RESOURCES)
        assert Probability(path)(asked("x"), once, RESOURCES).score.tolist() == once.score.tolist()

    def test_another_catalog_is_refused_before_and_while_it_runs(self, write):
        step = Probability(write(Catalog([])))
        with pytest.raises(ParameterError, match="no probability fit for this catalog of 3 items"):
            step.check(CATALOG, RESOURCES)
        with pytest.raises(ParameterError, match="no probability fit for this catalog"):
            step(asked("x"), table([0.5]), RESOURCES)

    def test_a_missing_file_is_refused_when_it_is_built(self, tmp_path):
        with pytest.raises(StorageError, match="ctxbench calibrate"):
            Probability(str(tmp_path / "none.json"))

    def test_a_file_of_other_fits_is_refused_when_it_is_built(self, path):
        data = json.loads(Path(path).read_text("utf-8"))
        data["fits"] = [fit for fit in data["fits"] if fit["what"] == "abstention"]
        Path(path).write_text(json.dumps(data), encoding="utf-8")
        with pytest.raises(ParameterError, match="holds fits of abstention, none of probability"):
            Probability(path)

    def test_the_content_is_the_file_s(self, write):
        one, same = Probability(write(CATALOG)), Probability(write(CATALOG, name="copy.json"))
        other = Probability(write(CATALOG, name="other.json", queries=2))
        assert one.content == same.content != other.content


class TestLogistic:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"features": 7}, f"its features are of version 7, and this is {VERSION}"),
            ({"weights": {"luck": 1.0}}, "`weights` by feature, of score"),
            ({"weights": None}, "`weights` by feature"),
            ({"vector": 3}, "expected `vector` as a list"),
            ({"intercept": None}, "no finite number"),
            ({"weights": {"score": "1"}}, "no finite number"),
            ({"vector": [True]}, "no finite number"),
        ],
    )
    def test_values_that_are_none_are_refused(self, change, message):
        with pytest.raises(ParameterError, match=message):
            Logistic.read({**VALUES["probability"], **change}, ("score", "question"))

    def test_the_step_says_which_fit_it_is(self, write):
        path = write(CATALOG, what="probability", values={"features": 0})
        with pytest.raises(ParameterError, match=r"fit of probability of d .* fit again with `ctxbench calibrate"):
            Probability(path).check(CATALOG, RESOURCES)

    def test_large_odds_do_not_overflow(self):
        model = Logistic(0.0, np.array([1.0]), np.empty(0))
        assert model.probabilities(np.array([[-1e4], [0.0], [1e4]])).tolist() == [0.0, 0.5, 1.0]

    @PROPERTY
    @given(st.lists(st.lists(st.floats(-5, 5), min_size=4, max_size=4), min_size=1, max_size=20))
    def test_a_row_has_the_same_bits_whatever_stands_around_it(self, rows):
        model = Logistic(0.1, np.array([0.3, -1.7, 0.9, 2.1]), np.empty(0))
        features = np.array(rows)
        assert model.probabilities(features).tolist() == [model.probabilities(row[None])[0] for row in features]


class TestAtLeast:
    @pytest.mark.parametrize(
        ("parameters", "kept"),
        [
            ({"threshold": 0.5}, [0, 1]),  # at least, not above
            ({"threshold": 0.5, "at_least": 3}, [0, 1, 2]),
            ({"threshold": 0.5, "at_most": 1}, [0]),
            ({"threshold": 0.95, "at_least": 1, "at_most": 2}, [0]),
            ({"threshold": 0.0}, [0, 1, 2]),
            ({"threshold": 1.0}, []),
            ({"threshold": 0.0, "at_most": 0}, []),
        ],
    )
    def test_a_prefix_is_offered(self, parameters, kept):
        after = AtLeast(**parameters)(asked("x"), table([0.9, 0.5, 0.4]), RESOURCES)
        assert offered(after) == [kept]

    def test_the_rules_say_why(self):
        after = AtLeast(threshold=0.5, at_most=1)(asked("x"), table([0.9, 0.6, 0.4]), RESOURCES)
        assert [after.rules[out] for out in after.out] == [
            "", "beyond the first at_most=1", "its score is below threshold=0.5"
        ]  # fmt: skip

    def test_what_was_out_does_not_count(self):
        before = table([0.9, 0.8, 0.3]).marked(np.array([True, False, False]), "why")
        assert offered(AtLeast(threshold=0.5, at_least=2)(asked("x"), before, RESOURCES)) == [[1, 2]]

    def test_no_rows_no_change(self):
        assert offered(AtLeast(threshold=0.5)(asked("x"), table([]), RESOURCES)) == [[]]

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"threshold": 1.5}, "threshold must be 0 to 1, got 1.5"),
            ({"threshold": -0.1}, "threshold must be 0 to 1"),
            ({"threshold": 0.5, "at_least": -1}, "at_least must be 0 or more, got -1"),
            ({"threshold": 0.5, "at_least": 2, "at_most": 1}, "at_most must be at_least or more, which is 2, got 1"),
        ],
    )
    def test_what_is_out_of_range_is_refused(self, parameters, message):
        with pytest.raises(ParameterError, match=message):
            AtLeast(**parameters)


class TestAbstain:
    def test_nothing_is_offered_below_the_threshold(self, path):
        step = Abstain(path, threshold=0.5)
        after = step(asked("x", "x"), table([0.5, 0.25], [0.375, 0.25]), RESOURCES)
        assert offered(after) == [[0, 1], []]  # 0.5 is not below 0.5
        assert after.rules[1:] == ("that anything is needed has a probability of 0.44, below threshold=0.5",)

    def test_requests_with_other_probabilities_have_other_rules(self, path):
        after = Abstain(path, threshold=0.6)(asked("x", "x", "x"), table([0.5], [0.375], [0.5]), RESOURCES)
        assert [after.rules[out].split(",")[0][-4:] for out in after.out] == ["0.50", "0.44", "0.50"]

    def test_the_session_stays_and_a_first_rule_is_kept(self, path):
        before = table([0.9, 0.1, 0.05], origin=np.array([0, 1, 1])).marked(np.array([0, 0, 1], bool), "first")
        after = Abstain(path, threshold=1.0)(asked("x"), before, RESOURCES)
        assert after.chosen.tolist() == [True, False, False]
        assert after.rules[after.out[2]] == "first"

    def test_what_a_cut_left_out_is_looked_at_all_the_same(self, path):
        before = table([0.5, 0.25]).marked(np.array([True, False]), "cut")
        assert offered(Abstain(path, threshold=0.5)(asked("x"), before, RESOURCES)) == [[1]]

    def test_behind_a_probability_it_reads_the_score_of_retrieval(self, path):
        scored = Probability(path)(asked("x"), table([0.9]), RESOURCES)  # odds(0.8) = 0.69
        rule = "that anything is needed has a probability of 0.69, below threshold=0.7"
        assert rule in Abstain(path, threshold=0.7)(asked("x"), scored, RESOURCES).rules

    def test_threshold_0_never_abstains(self, path):
        assert offered(Abstain(path, threshold=0.0)(asked("x"), table([-9.0]), RESOURCES)) == [[0]]

    def test_the_vector_of_the_request_counts(self, write):
        vector = (RESOURCES.vectors(["x"])[0].astype(float) * 100).tolist()
        values = {"features": VERSION, "intercept": -50.0, "weights": {}, "vector": vector}
        step = Abstain(write(CATALOG, what="abstention", values=values), threshold=0.5)
        assert offered(step(asked("x", "y"), table([0.5], [0.5]), RESOURCES)) == [[0], []]

    def test_a_request_without_candidates_is_left_as_it_is(self, path):
        empty = table([], [])
        assert Abstain(path)(asked("x", ""), empty, RESOURCES) is empty

    def test_a_threshold_out_of_range_is_refused(self, path):
        with pytest.raises(ParameterError, match=r"threshold must be 0 to 1, got 1\.5"):
            Abstain(path, threshold=1.5)

    def test_a_damaged_file_is_refused_when_it_is_built(self, tmp_path):
        (tmp_path / "f.json").write_text("{", encoding="utf-8")
        with pytest.raises(InputError, match="malformed JSON"):
            Abstain(str(tmp_path / "f.json"))


@pytest.fixture
def for_mocks(write):
    """Fits for every catalog of the conformance suite: all items, one, and both shuffled as it shuffles them."""
    whole = testing.mock_catalog()
    one = next(item for item in whole if item.enabled and item.include == "agent")
    mixed = [Catalog(random.Random(seed).sample(list(whole), len(whole))) for seed in (0, 1)]
    return write(whole, Catalog([one]), *mixed)


@pytest.mark.parametrize("retrieve", ["dense", {"merge": ["dense", "bm25"]}])
def test_probability_conforms(for_mocks, retrieve):
    testing.check_step("rank", "probability", {"calibration": for_mocks}, retrieve=retrieve)


def test_abstain_conforms(for_mocks):
    testing.check_step("cut", "abstain", {"calibration": for_mocks, "threshold": 0.4})


@pytest.mark.parametrize("parameters", [{"threshold": 0.3}, {"threshold": 0.3, "at_least": 1, "at_most": 2}])
def test_at_least_conforms(parameters):
    testing.check_step("cut", "at_least", parameters)


def test_all_three_in_one_pipeline(for_mocks):
    refine = [{"probability": {"calibration": for_mocks}}, {"at_least": {"threshold": 0.35}},
              {"abstain": {"calibration": for_mocks, "threshold": 0.35}}]  # fmt: skip
    pipeline = Pipeline.of({"retrieve": "dense", "refine": refine})
    batch = Batch.of(testing.mock_catalog(), testing.mock_requests())
    table = pipeline.run(batch, testing.mock_resources()).candidates
    found = table.origin == Origin.SEARCH
    assert ((table.score >= 0.35) >= table.chosen)[found].all()
    assert {rule.split(" ")[0] for rule in table.rules} == {"", "its", "that"}
    assert (
        pipeline.describe()["refine"][0]["content"] == build("rank", "probability", {"calibration": for_mocks}).content
    )
