from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.io.errors import ParameterError
from ctxbench.model.candidates import SEARCHED, Candidates, Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query
from ctxbench.model.selection import concatenated, joined
from ctxbench.pipelines.fits import Fit, write_calibrations
from ctxbench.pipelines.strategies.rank import Rrf, Weighted, normalised

QUERY = Query.of_chunks(Batch.of(Catalog([]), []), [])  # the step does not look at the query


def found(*requests: dict[int, float]) -> Candidates:
    """Each request's items with their scores."""
    request = np.repeat(np.arange(len(requests)), [len(scores) for scores in requests])
    item = np.array([i for scores in requests for i in scores], dtype=np.int64)
    score = np.array([s for scores in requests for s in scores.values()], dtype=np.float64)
    return Candidates.build(len(requests), request, item, score=score)


def ranked(step: Rrf | Weighted, candidates: Candidates) -> list[list[tuple[int, float]]]:
    after = step(QUERY, candidates, testing.mock_resources())
    rows = [after.rows(request) for request in range(after.n_requests)]
    return [list(zip(after.item[row].tolist(), after.score[row].tolist(), strict=True)) for row in rows]


@pytest.mark.parametrize(
    "step", [Rrf(), Weighted(), Weighted(weights={"dense": 3.0, "bm25": 1.0}, normalise="min_max")], ids=repr
)
def test_the_parts_of_a_score_add_up_to_it(step):
    table = joined({"dense": found({0: 0.9, 1: 0.8, 2: 0.1}), "bm25": found({2: 12.0, 0: 3.0})})
    after = step(QUERY, table, testing.mock_resources())
    parts = step.score_parts(after)
    assert set(parts) == {"dense", "bm25"}
    assert np.add(*parts.values()) == pytest.approx(after.score)
    assert parts["bm25"][after.item == 1] == 0.0  # that source did not find it


def test_an_item_scores_the_sum_of_its_reciprocal_ranks():
    table = joined({"dense": found({0: 0.9, 1: 0.8, 2: 0.1}), "bm25": found({2: 12.0, 0: 3.0})})
    # item 0: ranks 1 and 2; item 2: ranks 3 and 1; item 1: rank 2 in one
    [row] = ranked(Rrf(k=60), table)
    assert row == [
        (0, pytest.approx(1 / 61 + 1 / 62, rel=1e-15)),
        (2, pytest.approx(1 / 63 + 1 / 61, rel=1e-15)),
        (1, pytest.approx(1 / 62, rel=1e-15)),
    ]


def test_ties_in_a_source_share_the_best_rank_and_keep_catalog_order():
    table = joined({"dense": found({3: 0.5, 1: 0.5, 2: 0.4})})
    [row] = ranked(Rrf(k=0), table)
    assert row == [(1, 1.0), (3, 1.0), (2, 1 / 3)]


def test_requests_are_ranked_each_on_its_own_and_an_empty_one_stays_empty():
    table = joined({"dense": found({0: 0.1}, {}, {1: 0.9, 0: 0.2}), "bm25": found({}, {}, {0: 1.0})})
    assert ranked(Rrf(k=1), table) == [[(0, 0.5)], [], [(0, pytest.approx(1 / 3 + 1 / 2)), (1, 0.5)]]


def test_no_request_and_a_single_source_without_columns():
    assert ranked(Rrf(), joined({"dense": found()})) == []
    assert ranked(Rrf(k=0), found({4: 0.2, 2: 0.7})) == [[(2, 1.0), (4, 0.5)]]


def test_chunk_rank_is_the_place_in_the_new_order():
    table = joined({"dense": found({0: 0.9, 1: 0.8, 2: 0.7}), "bm25": found({2: 5.0, 1: 4.0})})
    after = Rrf(k=0)(QUERY, table, testing.mock_resources())
    assert after.item.tolist() == [2, 0, 1]  # 1/3 + 1, 1, 1/2 + 1/2: the tie goes to the first in the catalog
    assert after.chunk_rank.tolist() == [0, 1, 2]


def test_session_items_stay_first_and_without_a_score():
    session = Candidates.build(1, np.array([0]), np.array([7]), origin=np.array([Origin.SESSION]), mode=np.array([0]))
    after = Rrf()(QUERY, concatenated([session, joined({"dense": found({1: 0.3})})]), testing.mock_resources())
    assert after.item.tolist() == [7, 1]
    assert np.isnan(after.score[0])
    assert after.chunk_rank.tolist() == [-1, 0]


def test_k_below_zero_is_refused():
    with pytest.raises(ParameterError, match="k must be 0 or more, got -1"):
        Rrf(k=-1)


def test_the_score_before_an_expansion_is_no_source():
    table = joined({"dense": found({0: 0.9, 1: 0.8}), "bm25": found({1: 3.0})})
    searched = table.with_columns(**{SEARCHED: np.array([9.0, 1.0])})
    for step in (Rrf(), Weighted()):
        assert ranked(step, searched) == ranked(step, table)


class TestWeighted:
    TABLE = joined({"dense": found({0: 0.9, 1: 0.7, 2: 0.5}), "bm25": found({2: 12.0, 1: 6.0, 3: 4.0})})

    def test_an_item_scores_the_weighted_mean_of_its_shares_of_the_best(self):
        # dense: 1, 0.5, 0 and not found; bm25: not found, 0.25, 1, 0
        [row] = ranked(Weighted(weights={"dense": 3, "bm25": 1}), self.TABLE)
        expected = [(0, 0.75), (1, 0.75 * 0.5 + 0.25 * 0.25), (2, 0.25), (3, 0.0)]
        assert row == [(item, pytest.approx(score, rel=1e-12)) for item, score in expected]

    def test_without_weights_all_sources_count_the_same(self):
        assert ranked(Weighted(), self.TABLE) == ranked(Weighted(weights={"dense": 2.0, "bm25": 2.0}), self.TABLE)

    def test_a_weight_of_0_leaves_the_order_of_the_other_source(self):
        [row] = ranked(Weighted(weights={"dense": 0, "bm25": 1}), self.TABLE)
        assert [item for item, _ in row] == [2, 1, 0, 3]  # what bm25 ranks last and what it did not find are both 0

    def test_z_scores_are_standard_deviations_from_the_mean_of_the_request(self):
        # dense: mean 0.7, deviation sqrt(0.08 / 3); what bm25 did not find has its lowest, that of item 3
        dense = {0: 0.2 / math.sqrt(0.08 / 3), 1: 0.0, 2: -0.2 / math.sqrt(0.08 / 3)}
        mean, deviation = 22 / 3, math.sqrt(sum((s - 22 / 3) ** 2 for s in (12, 6, 4)) / 3)
        bm25 = {item: (s - mean) / deviation for item, s in ((2, 12), (1, 6), (3, 4))}
        values = normalised(self.TABLE, "z")
        item = self.TABLE.item.tolist()
        assert dict(zip(item, values["dense"], strict=True)) == pytest.approx({**dense, 3: dense[2]})
        assert dict(zip(item, values["bm25"], strict=True)) == pytest.approx({**bm25, 0: bm25[3]})

    def test_theoretical_shares_count_from_the_lowest_that_a_source_can_give(self):
        values = normalised(self.TABLE, "theoretical", lowest={"dense": -1, "bm25": 0})
        item = self.TABLE.item.tolist()
        assert dict(zip(item, values["dense"], strict=True)) == pytest.approx({0: 1, 1: 1.7 / 1.9, 2: 1.5 / 1.9, 3: 0})
        assert dict(zip(item, values["bm25"], strict=True)) == pytest.approx({2: 1, 1: 0.5, 3: 1 / 3, 0: 0})

    @pytest.mark.parametrize(("normalise", "held", "other"), [("min_max", 1, 0), ("theoretical", 1, 0), ("z", 0, -1)])
    def test_what_a_source_alone_found_or_scores_all_equal_stands_above_the_rest(self, normalise, held, other):
        table = joined({"dense": found({0: 0.5, 1: 0.5}, {0: 0.5}), "bm25": found({2: 1.0, 3: 2.0}, {1: 3.0})})
        lowest = {"dense": 0.5, "bm25": 0.0} if normalise == "theoretical" else {}
        dense = normalised(table, normalise, lowest=lowest)["dense"]
        where = dict(zip(zip(table.request.tolist(), table.item.tolist(), strict=True), dense, strict=True))
        assert where == {(0, 0): held, (0, 1): held, (0, 2): other, (0, 3): other, (1, 0): held, (1, 1): other}

    def test_a_score_below_its_bound_by_rounding_alone_is_no_error(self):
        table = joined({"dense": found({0: 0.5, 1: -1.0000001}), "bm25": found({0: 1.0})})
        dense = normalised(table, "theoretical", lowest={"dense": -1, "bm25": 0})["dense"]
        assert dense.tolist() == pytest.approx([1, 0], abs=1e-6)

    def test_three_equal_scores_have_no_spread_though_their_mean_is_rounded(self):
        table = joined({"dense": found({0: 0.1, 1: 0.1, 2: 0.1}), "bm25": found({0: 1.0})})
        assert normalised(table, "z")["dense"].tolist() == [0, 0, 0]

    @pytest.mark.parametrize("normalise", ["min_max", "z"])
    def test_a_source_that_found_nothing_for_a_request_changes_nothing_there(self, normalise):
        table = joined({"dense": found({0: 0.9, 1: 0.8}, {0: 0.3}), "bm25": found({}, {1: 2.0})})
        step = Weighted(normalise=normalise)
        assert [item for item, _ in ranked(step, table)[0]] == [0, 1]
        assert all(math.isfinite(score) for row in ranked(step, table) for _, score in row)

    def test_items_that_come_out_equal_keep_catalog_order(self):
        table = joined({"dense": found({5: 0.9, 2: 0.1}), "bm25": found({2: 7.0, 5: 1.0})})
        assert ranked(Weighted(), table) == [[(2, 0.5), (5, 0.5)]]

    def test_requests_are_normalised_each_on_its_own_and_an_empty_one_stays_empty(self):
        one, two = {0: 0.9, 1: 0.1}, {0: 0.5, 1: 0.4, 2: 0.3}
        bm25 = {1: 3.0}, {2: 8.0, 0: 1.0}
        rows = ranked(Weighted(), joined({"dense": found(one, {}, two), "bm25": found(bm25[0], {}, bm25[1])}))
        assert rows[1] == []
        assert [rows[0]] == ranked(Weighted(), joined({"dense": found(one), "bm25": found(bm25[0])}))
        assert [rows[2]] == ranked(Weighted(), joined({"dense": found(two), "bm25": found(bm25[1])}))

    def test_no_request_and_a_single_retriever(self):
        assert ranked(Weighted(), joined({"dense": found(), "bm25": found()})) == []
        alone = found({4: 0.2, 2: 0.7})
        assert ranked(Weighted(weights={"dense": 1.0}), alone) == ranked_as_is(alone)

    def test_chunk_rank_is_the_place_in_the_new_order_and_session_items_stay(self):
        mode, origin = np.array([0]), np.array([Origin.SESSION])
        session = Candidates.build(1, np.array([0]), np.array([7]), origin=origin, mode=mode)
        after = Weighted()(QUERY, concatenated([session, self.TABLE]), testing.mock_resources())
        assert after.item.tolist() == [7, 0, 2, 1, 3]  # 0.5 twice, 0.375, 0
        assert after.chunk_rank.tolist() == [-1, 0, 1, 2, 3]
        assert np.isnan(after.score[0])

    @settings(max_examples=60, deadline=None)
    @given(
        scores=st.lists(
            st.tuples(st.none() | st.floats(-1, 1, width=16), st.none() | st.floats(0, 30, width=16)), max_size=8
        ),
        weight=st.floats(0, 1),
        normalise=st.sampled_from(["min_max", "z"]),
    )
    def test_scores_equal_those_computed_item_by_item(self, scores, weight, normalise):
        sources = [{i: row[k] for i, row in enumerate(scores) if row[k] is not None} for k in (0, 1)]
        table = joined({"dense": found(sources[0]), "bm25": found(sources[1])})
        [row] = ranked(Weighted(weights={"dense": weight, "bm25": 1.0}, normalise=normalise), table)
        assert dict(row) == pytest.approx(
            {
                i: (weight * one_value(sources[0], i, normalise) + one_value(sources[1], i, normalise)) / (weight + 1)
                for i in sources[0].keys() | sources[1].keys()
            },
            abs=1e-6,
        )

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"weights": {"dense": 0, "bm25": 0.0}}, "weights must not all be 0"),
            ({"weights": {"dense": -1}}, "weights: dense must be 0 or more, got -1"),
            ({"weights": {"dense": "1"}}, "weights: dense must be 0 or more, got '1'"),
            ({"weights": {"dense": float("inf")}}, "weights: dense must be 0 or more, got inf"),
            ({"normalise": "max"}, "normalise must be one of min_max, z, theoretical, got 'max'"),
            ({"lowest": {"dense": -1}}, "lowest is for normalise: theoretical, got it with min_max"),
            ({"normalise": "theoretical", "lowest": {"dense": None}}, "lowest: dense must be a number, got None"),
        ],
    )
    def test_parameters_out_of_range_are_errors(self, given, said):
        with pytest.raises(ParameterError, match=said):
            Weighted(**given)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"weights": {"dense": 1}}, "weights name dense; the sources are bm25, dense"),
            ({"weights": {"dense": 1, "bm52": 1}}, "weights name bm52, dense; the sources are bm25, dense"),
            ({"normalise": "theoretical", "lowest": {"dense": -1}}, "needs the lowest score that bm25 can give"),
            (
                {"normalise": "theoretical", "lowest": {"dense": -1, "bm25": 0, "bm52": 0}},
                "lowest names bm25, bm52, dense; the sources are bm25, dense",
            ),
            ({"normalise": "theoretical", "lowest": {"dense": 0.8, "bm25": 0}}, "dense gives at least 0.8, got 0.5"),
        ],
    )
    def test_sources_that_do_not_fit_are_errors(self, given, said):
        with pytest.raises(ParameterError, match=said):
            ranked(Weighted(**given), self.TABLE)


def ranked_as_is(candidates: Candidates) -> list[list[tuple[int, float]]]:
    return [list(zip(candidates.item.tolist(), candidates.score.tolist(), strict=True))]


def one_value(source: dict[int, float], item: int, normalise: str) -> float:
    """The normalised score of one item, from the definition."""
    values = list(source.values())
    if not values:
        return 0.0
    if min(values) == max(values):
        return float(item in source) - (normalise == "z")
    score = source.get(item, min(values))
    if normalise == "min_max":
        return (score - min(values)) / (max(values) - min(values))
    return float((score - np.mean(values)) / np.std(values))


class TestCalibratedWeights:
    CATALOG = Catalog([Item(type="rule", name=name) for name in "abcd"])
    QUERY = Query.of_chunks(Batch.of(CATALOG, []), [])

    def written(self, path: Path, **values) -> str:
        resources = testing.mock_resources()
        fit = Fit(
            kind="weights",
            dataset="made",
            dataset_hash="0",
            catalog=self.CATALOG.hash,
            embedder=resources.identity("embedder"),
            behind={},
            split="tuning",
            queries=9,
            values={"weights": {"dense": 0.75, "bm25": 0.25}, "normalise": "min_max", "lowest": {}, **values},
        )
        write_calibrations(path, [fit])
        return str(path)

    def test_the_weights_of_the_catalog_are_used(self, tmp_path):
        step = Weighted(calibration=self.written(tmp_path / "w.json"))
        after = step(self.QUERY, TestWeighted.TABLE, testing.mock_resources())
        plain = Weighted(weights={"dense": 3, "bm25": 1})(self.QUERY, TestWeighted.TABLE, testing.mock_resources())
        assert np.array_equal(after.score, plain.score)
        assert step.uses == ("embedder",)
        assert step.calibrated == "weights"
        assert step.content

    def test_without_a_file_there_is_no_fit(self):
        step = Weighted()
        assert step.calibrated is None
        assert (step.uses, step.content, step.calibrations.fits) == ((), "", ())
        step.check(self.CATALOG, testing.mock_resources())

    def test_a_catalog_without_a_fit_is_refused_before_anything_runs(self, tmp_path):
        step = Weighted(calibration=self.written(tmp_path / "w.json"))
        with pytest.raises(ParameterError, match=r"has no weights fit for this catalog .* made"):
            step.check(Catalog([]), testing.mock_resources())

    @pytest.mark.parametrize(
        ("values", "said"),
        [
            (
                {"normalise": "z"},
                "the weights of made .* were fitted with .*'z'.*, and this step has .*'min_max'.*; they must be equal",
            ),
            ({"weights": {}}, "holds no weights; fit again"),
            ({"weights": {"dense": 0.0, "bm25": 0.0}}, "holds no weights; fit again"),
            ({"weights": {"dense": "much"}}, "weights: dense must be 0 or more, got 'much'"),
        ],
    )
    def test_a_fit_that_does_not_suit_is_refused(self, tmp_path, values, said):
        step = Weighted(calibration=self.written(tmp_path / "w.json", **values))
        with pytest.raises(ParameterError, match=said):
            step.check(self.CATALOG, testing.mock_resources())

    def test_no_weights_come_with_the_fits_that_ship(self):
        with pytest.raises(ParameterError, match="shipped holds no fit of weights; make one with `ctxbench calibrate"):
            Weighted(calibration="shipped")

    def test_weights_and_a_file_are_one_too_many(self, tmp_path):
        with pytest.raises(ParameterError, match="weights come from the calibration; leave one of the two out"):
            Weighted(weights={"dense": 1}, calibration=self.written(tmp_path / "w.json"))
