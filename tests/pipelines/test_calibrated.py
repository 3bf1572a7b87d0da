"""Calibrated strategies: probabilities worked by hand, what they keep, and what they refuse."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ctxbench import testing
from ctxbench.io.errors import InputError, ParameterError, StorageError, UnknownNameError
from ctxbench.model.candidates import Candidates, Origin, Rule
from ctxbench.model.items import Catalog, Item
from ctxbench.model.registry import build
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.features import RETRIEVED, TEXT, VERSION
from ctxbench.pipelines.fits import SHIPPED, Fit, read_calibrations, write_calibrations
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.cut import Abstain, AtLeast
from ctxbench.pipelines.strategies.rank import Probability

RESOURCES = testing.mock_resources()
CATALOG = Catalog([Item(type="tool", name=name) for name in ("one", "two", "three")])
VALUES = {
    "probability": {
        "features": VERSION,
        "intercept": -1.0,
        "columns": {"retrieved.score": [2.0, -10.0, 10.0, 1.0], "request.question": [1.0, 0.0, 1.0, 1.0]},
    },
    "abstention": {
        "features": VERSION,
        "intercept": -1.0,
        "columns": {"best.retrieved.score": [2.0, -10.0, 10.0, 1.0]},
    },
}


def values(**columns: list[float]) -> dict[str, object]:
    """Values of a fit without an intercept; columns by name, with `__` for a dot."""
    named = {name.replace("__", "."): row for name, row in columns.items()}
    return {"features": VERSION, "intercept": 0.0, "columns": named}


def odds(value: float) -> float:
    return 1 / (1 + math.exp(-value))


@pytest.fixture
def write(tmp_path):
    """Write fits for some catalogs, and return the path of the file."""

    def written(*catalogs, name="fits.json", **changes):
        fits = [
            replace(
                Fit(kind=what, dataset="d", dataset_hash="", catalog=catalog.hash, split="tuning", queries=1, behind={},
                    embedder=RESOURCES.identity("embedder"), values=values),
                **changes,
            )
            for what, values in VALUES.items()
            for catalog in catalogs
        ]  # fmt: skip
        write_calibrations(tmp_path / name, {(fit.kind, fit.catalog): fit for fit in fits}.values())
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
        path = write(CATALOG, kind="probability", values=values(retrieved__score=[-1.0, -10, 10, 1]))
        after = Probability(path)(asked("x"), table([0.9, 0.5, 0.5]), RESOURCES)
        assert after.item.tolist() == [1, 2, 0]  # ties in catalog order
        assert after.score[0] == pytest.approx(odds(-0.5), abs=1e-15)

    def test_values_beyond_what_was_fitted_count_as_its_ends(self, write):
        path = write(CATALOG, kind="probability", values=values(retrieved__score=[2.0, 0.25, 0.5, 1]))
        after = Probability(path)(asked("x"), table([9.0, 0.5, 0.25], [-7.0]), RESOURCES)
        assert after.score.tolist() == pytest.approx([odds(1.0), odds(1.0), odds(0.5), odds(0.5)], abs=1e-15)
        assert after.columns[RETRIEVED].tolist() == [9.0, 0.5, 0.25, -7.0]

    def test_columns_that_a_step_before_has_made_are_read_as_they_stand(self, write):
        path = write(CATALOG, kind="probability", values=values(item__tool=[1.0, -10, 10, 1]))
        before = table([0.9, 0.5]).with_columns(**{"item.tool": np.array([-2.0, 3.0])})  # made it would be 1
        after = Probability(path)(asked("x"), before, RESOURCES)
        assert after.item.tolist() == [1, 0]
        assert after.score.tolist() == pytest.approx([odds(3.0), odds(-2.0)], abs=1e-15)

    def test_columns_that_are_lacking_are_made_and_not_kept(self, path):
        after = Probability(path)(asked("x?"), table([0.5]), RESOURCES)
        assert after.score.tolist() == pytest.approx([odds(1.0)], abs=1e-15)
        assert list(after.columns) == [RETRIEVED]

    def test_columns_that_were_not_kept_are_not_outside_of_the_fit(self, path):
        step = Probability(path)
        after = step(asked("x?"), table([0.5]), RESOURCES)
        assert step.outside(after, CATALOG, RESOURCES) == 0.0

    def test_all_but_the_session_is_scored_again(self, path):
        before = table([0.9, 0.5, 0.3], origin=np.array([0, 1, 2]))
        after = Probability(path)(asked("x"), before, RESOURCES)
        assert (after.score[0], after.tier.tolist()) == (0.9, [0, 1, 1])
        assert ((after.score[1:] > 0) & (after.score[1:] < 1)).all()
        assert np.isnan(after.columns[RETRIEVED]).tolist() == [True, False, False]

    def test_nothing_found_is_nothing_scored(self, path):
        assert offered(Probability(path)(asked("x"), table([]), RESOURCES)) == [[]]

    def test_twice_is_once(self, path):
        once = Probability(path)(asked("x"), table([0.9, 0.5]), RESOURCES)
        assert Probability(path)(asked("x"), once, RESOURCES).score.tolist() == once.score.tolist()

    def test_another_catalog_carries_over_with_a_notice(self, write, path):
        carried = Probability(write(Catalog([]), name="other.json"))
        carried.check(CATALOG, RESOURCES)
        one, other = (step(asked("x?"), table([0.5, 0.25]), RESOURCES) for step in (carried, Probability(path)))
        assert one.score.tolist() == other.score.tolist()
        (notice,) = carried.notices(CATALOG, RESOURCES)
        assert notice == (
            f"the fit of d was made for another catalog ({Catalog([]).hash[:12]}, this is {CATALOG.hash[:12]}); fit it "
            f"again to be sure: {carried.calibrations.command('probability')}"
        )
        assert list(Probability(path).notices(CATALOG, RESOURCES)) == []

    def test_another_embedder_is_a_notice_that_names_both(self, write):
        step = Probability(write(CATALOG, embedder="another"))
        step.check(CATALOG, RESOURCES)
        (notice,) = step.notices(CATALOG, RESOURCES)
        assert "the fit of d was made with the embedder another, and this is " in notice
        assert RESOURCES.identity("embedder") in notice
        assert "; fit it to your labels: `ctxbench calibrate probability" in notice

    def test_a_fit_of_several_catalogs_says_nothing_of_the_catalog(self, write):
        step = Probability(write(CATALOG, kind="probability", catalog=""))
        assert list(step.notices(CATALOG, RESOURCES)) == []

    def test_of_several_fits_that_for_the_catalog_counts_then_the_pooled_one(self, tmp_path, write):
        path = Path(write(Catalog([]), CATALOG))
        (fit, *_) = read_calibrations(path).fits
        pooled = replace(fit, dataset="all", catalog="", values=values(retrieved__score=[1.0, -10, 10, 1]))
        write_calibrations(path, [pooled])
        own = Probability(str(path))(asked("x"), table([0.5]), RESOURCES)
        assert own.score.tolist() == pytest.approx([odds(0.0)], abs=1e-15)
        small = Catalog(list(CATALOG)[:1])
        batch = Batch.of(small, [Request(id="0", text="x")])
        after = Probability(str(path))(Query.of_chunks(batch, [["x"]]), table([0.5]), RESOURCES)
        assert after.score.tolist() == pytest.approx([odds(0.5)], abs=1e-15)

    def test_several_fits_and_none_for_the_catalog_is_an_error_that_names_them(self, write):
        others = Catalog([]), Catalog(list(CATALOG)[:2])
        step = Probability(write(*others))
        for ask in (
            lambda: step.check(CATALOG, RESOURCES),
            lambda: step(asked("x"), table([0.5]), RESOURCES),
            lambda: list(step.notices(CATALOG, RESOURCES)),
        ):
            with pytest.raises(ParameterError, match="no probability fit for this catalog of 3 items") as error:
                ask()
            assert all(f"d ({one.hash[:12]})" in str(error.value) for one in others)

    def test_an_unknown_column_is_refused_before_it_runs(self, write):
        step = Probability(write(CATALOG, kind="probability", values=values(words__bm26=[1.0, 0, 1, 1])))
        with pytest.raises(UnknownNameError, match=r"unknown feature 'words\.bm26'; did you mean 'words\.bm25'"):
            step.check(CATALOG, RESOURCES)

    def test_values_that_are_none_say_which_fit_it_is(self, write):
        path = write(CATALOG, kind="probability", values={"features": 0})
        with pytest.raises(ParameterError, match=r"fit of probability of d .* fit again with `ctxbench calibrate"):
            Probability(path).check(CATALOG, RESOURCES)

    def test_a_missing_file_is_refused_when_it_is_built(self, tmp_path):
        with pytest.raises(StorageError, match="ctxbench calibrate"):
            Probability(str(tmp_path / "none.json"))

    def test_a_file_of_other_fits_is_refused_when_it_is_built(self, path):
        data = json.loads(Path(path).read_text("utf-8"))
        data["fits"] = [fit for fit in data["fits"] if fit["kind"] == "abstention"]
        Path(path).write_text(json.dumps(data), encoding="utf-8")
        with pytest.raises(ParameterError, match="holds fits of abstention, none of probability"):
            Probability(path)

    def test_the_content_is_the_file_s(self, write):
        one, same = Probability(write(CATALOG)), Probability(write(CATALOG, name="copy.json"))
        other = Probability(write(CATALOG, name="other.json", queries=2))
        assert one.content == same.content != other.content


class TestShipped:
    def test_it_is_what_is_used_without_a_file(self):
        step = Probability()
        assert (step.calibration, str(step.calibrations.path)) == (SHIPPED, "shipped")
        assert build("rank", "probability", {}) == step
        (fit,) = step.calibrations.fits
        assert (fit.kind, fit.catalog) == ("probability", "")
        assert set(step.model(CATALOG, RESOURCES).columns) <= set(TEXT)
        assert step.uses == ("embedder",)

    def test_only_the_embedder_of_the_tests_is_noticed(self):
        (notice,) = Probability().notices(CATALOG, RESOURCES)
        assert f"and this is {RESOURCES.identity('embedder')}; fit it to your labels" in notice

    def test_what_shares_the_words_of_the_request_is_likelier(self):
        batch = Batch.of(testing.mock_catalog(), [Request(id="0", text="close issue")])
        pipeline = Pipeline.of({"retrieve": {"merge": ["dense", "bm25"]}, "refine": ["probability"]})
        table = pipeline.run(batch, testing.mock_resources()).candidates
        found = table.origin == Origin.SEARCH
        assert testing.mock_catalog()[table.item[found][0]].name == "close_issue"
        assert ((table.score > 0) & (table.score < 1))[found].all()


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
            ({"threshold": 1.5}, []),
            ({"threshold": 0.0, "at_most": 0}, []),
        ],
    )
    def test_a_prefix_is_offered(self, parameters, kept):
        after = AtLeast(**parameters)(asked("x"), table([0.9, 0.5, 0.4]), RESOURCES)
        assert offered(after) == [kept]

    @pytest.mark.parametrize(
        ("parameters", "kept"),
        [
            ({"threshold": -7.5}, [0, 1]),  # at least, not above
            ({"threshold": -7.0}, [0]),
            ({"threshold": -7.0, "at_least": 3}, [0, 1, 2]),
            ({"threshold": 0.0, "at_least": 1}, [0]),
            ({"threshold": 0.0}, []),
            ({"threshold": -20.0, "at_most": 2}, [0, 1]),
            ({"threshold": -20.0}, [0, 1, 2, 3]),
        ],
    )
    def test_scores_below_0_are_cut_likewise(self, parameters, kept):
        after = AtLeast(**parameters)(asked("x"), table([-3.0, -7.5, -9.0, -20.0]), RESOURCES)
        assert offered(after) == [kept]
        out = {str(after.rules[rule]) for rule in after.out if rule}
        assert out <= {f"its score is below threshold={parameters['threshold']:g}", "beyond the first at_most=2"}

    @pytest.mark.parametrize(("score", "threshold"), [(-7.0, -7.001), (-7.1234, -7.124), (-0.0004, -0.001)])
    def test_a_lower_threshold_lets_in_what_scores_below_0(self, score, threshold):
        wider = AtLeast(threshold=-0.0001).wider(rank=2, score=score, best=0.5)
        assert wider == {"threshold": threshold}
        assert offered(AtLeast(**wider)(asked("x"), table([0.5, score]), RESOURCES)) == [[0, 1]]

    def test_the_rules_say_why(self):
        after = AtLeast(threshold=0.5, at_most=1)(asked("x"), table([0.9, 0.6, 0.4]), RESOURCES)
        assert [str(after.rules[out] or "") for out in after.out] == [
            "", "beyond the first at_most=1", "its score is below threshold=0.5"
        ]  # fmt: skip

    def test_what_was_out_does_not_count(self):
        before = table([0.9, 0.8, 0.3]).exclude(np.array([True, False, False]), "why")
        assert offered(AtLeast(threshold=0.5, at_least=2)(asked("x"), before, RESOURCES)) == [[1, 2]]

    def test_no_rows_no_change(self):
        assert offered(AtLeast(threshold=0.5)(asked("x"), table([]), RESOURCES)) == [[]]

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"threshold": float("nan")}, "threshold must be a number, got nan"),
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
        assert after.rules[1:] == (Rule.of("abstain", probability=0.44, threshold=0.5),)

    def test_requests_with_other_probabilities_have_other_rules(self, path):
        after = Abstain(path, threshold=0.6)(asked("x", "x", "x"), table([0.5], [0.375], [0.5]), RESOURCES)
        assert [after.rules[out].value("probability") for out in after.out] == [0.5, 0.44, 0.5]

    def test_the_session_stays_and_a_first_rule_is_kept(self, path):
        before = table([0.9, 0.1, 0.05], origin=np.array([0, 1, 1])).exclude(np.array([0, 0, 1], bool), "first")
        after = Abstain(path, threshold=1.0)(asked("x"), before, RESOURCES)
        assert after.chosen.tolist() == [True, False, False]
        assert str(after.rules[after.out[2]] or "") == "first"

    def test_what_a_cut_left_out_is_looked_at_all_the_same(self, path):
        before = table([0.5, 0.25]).exclude(np.array([True, False]), "cut")
        assert offered(Abstain(path, threshold=0.5)(asked("x"), before, RESOURCES)) == [[1]]

    def test_behind_a_probability_it_reads_the_score_of_retrieval(self, path):
        scored = Probability(path)(asked("x"), table([0.9]), RESOURCES)  # odds(0.8) = 0.69
        rule = "that anything is needed has a probability of 0.69, below threshold=0.7"
        assert rule in map(str, Abstain(path, threshold=0.7)(asked("x"), scored, RESOURCES).rules)

    def test_threshold_0_never_abstains(self, path):
        assert offered(Abstain(path, threshold=0.0)(asked("x"), table([-9.0]), RESOURCES)) == [[0]]

    def test_the_vector_of_the_request_counts(self, write):
        vector = (RESOURCES.vectors(["x"])[0].astype(float) * 100).tolist()
        columns = {"best.item.tool": [0.0, 0.0, 1.0, 1.0]}
        own = {"features": VERSION, "intercept": -50.0, "columns": columns, "vector": vector}
        step = Abstain(write(CATALOG, kind="abstention", values=own), threshold=0.5)
        assert offered(step(asked("x", "y"), table([0.5], [0.5]), RESOURCES)) == [[0], []]

    def test_a_request_without_candidates_is_left_as_it_is(self, path):
        empty = table([], [])
        assert Abstain(path)(asked("x", ""), empty, RESOURCES) is empty

    def test_another_catalog_and_another_embedder_are_refused(self, write):
        with pytest.raises(ParameterError, match="no abstention fit for this catalog of 3 items"):
            Abstain(write(Catalog([]))).check(CATALOG, RESOURCES)
        with pytest.raises(ParameterError, match="made with the embedder another, and this is"):
            Abstain(write(CATALOG, embedder="another")).check(CATALOG, RESOURCES)

    def test_features_of_a_candidate_are_none_of_a_request(self, write):
        own = values(retrieved__score=[1.0, 0, 1, 1], best__retrieved__score=[1.0, 0, 1, 1])
        with pytest.raises(ParameterError, match=r"abstention knows no feature retrieved\.score"):
            Abstain(write(CATALOG, kind="abstention", values=own)).check(CATALOG, RESOURCES)

    def test_a_threshold_out_of_range_is_refused(self, path):
        with pytest.raises(ParameterError, match=r"threshold must be 0 to 1, got 1\.5"):
            Abstain(path, threshold=1.5)

    def test_a_damaged_file_is_refused_when_it_is_built(self, tmp_path):
        (tmp_path / "f.json").write_text("{", encoding="utf-8")
        with pytest.raises(InputError, match="malformed JSON"):
            Abstain(str(tmp_path / "f.json"))


@pytest.fixture
def for_mocks(write):
    """Fits for every catalog of the conformance suite: all items, one, none, and all shuffled as it shuffles them."""
    whole = testing.mock_catalog()
    one = next(item for item in whole if item.enabled and item.include == "agent")
    mixed = [Catalog(random.Random(seed).sample(list(whole), len(whole))) for seed in (0, 1)]
    return write(whole, Catalog([one]), Catalog([]), *mixed)


@pytest.mark.parametrize("retrieve", ["dense", {"merge": ["dense", "bm25"]}])
def test_probability_conforms(for_mocks, retrieve):
    testing.check_step("rank", "probability", {"calibration": for_mocks}, retrieve=retrieve, processes=1)


def test_the_shipped_probability_conforms():
    testing.check_step("rank", "probability", retrieve={"merge": ["dense", "bm25"]}, processes=0)


def test_abstain_conforms(for_mocks):
    testing.check_step("cut", "abstain", {"calibration": for_mocks, "threshold": 0.4}, processes=1)


@pytest.mark.parametrize(
    "parameters", [{"threshold": 0.3}, {"threshold": 0.3, "at_least": 1, "at_most": 2}, {"threshold": -0.3}]
)
def test_at_least_conforms(parameters):
    testing.check_step("cut", "at_least", parameters, processes=0)


def test_all_three_in_one_pipeline(for_mocks):
    refine = [{"probability": {"calibration": for_mocks}}, {"at_least": {"threshold": 0.35}},
              {"abstain": {"calibration": for_mocks, "threshold": 0.35}}]  # fmt: skip
    pipeline = Pipeline.of({"retrieve": "dense", "refine": refine})
    batch = Batch.of(testing.mock_catalog(), testing.mock_requests())
    table = pipeline.run(batch, testing.mock_resources()).candidates
    found = table.origin == Origin.SEARCH
    assert ((table.score >= 0.35) >= table.chosen)[found].all()
    assert {rule.code for rule in table.rules[1:]} == {"threshold", "abstain"}
    assert (
        pipeline.describe()["refine"][0]["content"] == build("rank", "probability", {"calibration": for_mocks}).content
    )
