"""A logistic regression over named columns: read, clipped, and the same bits whatever stands around a row."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import ParameterError
from ctxbench.pipelines.features import VERSION, Logistic

VALUES = {
    "features": VERSION,
    "intercept": -1.0,
    "columns": {"words.bm25": [2.0, 0.0, 3.0, 0.5], "item.tool": [1.0, 0.0, 1.0, 1.0]},
    "vector": [0.5, -0.25],
}
PROPERTY = settings(max_examples=100, deadline=None, database=None, derandomize=True)


def odds(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def model(*weights: float, intercept: float = 0.0, ends: float = 1e6) -> Logistic:
    n = len(weights)
    return Logistic(
        columns=tuple(f"c{place}" for place in range(n)),
        intercept=intercept,
        weights=np.array(weights),
        low=np.full(n, -ends),
        high=np.full(n, ends),
        scale=np.ones(n),
        vector=np.empty(0),
    )


class TestReading:
    def test_columns_stand_in_the_order_of_the_file(self):
        read = Logistic.read(VALUES)
        assert read.columns == ("words.bm25", "item.tool")
        assert (read.intercept, read.weights.tolist(), read.scale.tolist()) == (-1.0, [2.0, 1.0], [0.5, 1.0])
        assert (read.low.tolist(), read.high.tolist(), read.vector.tolist()) == ([0.0, 0.0], [3.0, 1.0], [0.5, -0.25])

    def test_a_vector_may_be_missing_and_numbers_may_be_whole(self):
        columns = {"words.bm25": [2, 0, 3, 1]}
        read = Logistic.read({"features": VERSION, "intercept": 0, "columns": columns})
        assert (read.vector.tolist(), read.weights.dtype) == ([], np.float64)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"features": 7}, f"its features are of version 7, and this is {VERSION}"),
            ({"features": None}, f"its features are of version None, and this is {VERSION}"),
            ({"columns": None}, r"expected `columns`, by name \[weight, low, high, scale\]"),
            ({"columns": {}}, "expected `columns`"),
            ({"columns": [1.0]}, "expected `columns`"),
            ({"vector": 3}, "`vector` as a list"),
            ({"columns": {"words.bm25": 2.0}}, r"column words\.bm25: expected four finite numbers"),
            ({"columns": {"words.bm25": [2.0, 0.0, 3.0]}}, r"column words\.bm25: expected four finite numbers"),
            ({"columns": {"words.bm25": ["2", 0.0, 3.0, 1.0]}}, "expected four finite numbers"),
            ({"columns": {"words.bm25": [math.nan, 0.0, 3.0, 1.0]}}, "expected four finite numbers"),
            ({"columns": {"words.bm25": [True, 0.0, 3.0, 1.0]}}, "expected four finite numbers"),
            ({"columns": {"words.bm25": [2.0, 0.0, 3.0, 0.0]}}, "and a scale > 0"),
            ({"intercept": None}, "no finite number"),
            ({"vector": [True]}, "no finite number"),
            ({"vector": [math.inf]}, "no finite number"),
        ],
    )
    def test_values_that_are_none_are_refused(self, change, message):
        with pytest.raises(ParameterError, match=message):
            Logistic.read({**VALUES, **change})

    def test_values_of_before_are_refused_by_their_version(self):
        with pytest.raises(ParameterError, match=f"of version 2, and this is {VERSION}"):
            Logistic.read({"features": 2, "intercept": 0.0, "weights": {"score": 1.0}})


class TestProbabilities:
    def test_worked_by_hand(self):
        features = np.array([[0.5, 1.0], [0.25, 0.0]])
        assert Logistic.read(VALUES).probabilities(features).tolist() == pytest.approx([odds(1.0), odds(-0.5)])

    def test_a_vector_counts_where_it_is_given(self):
        features, vectors = np.array([[0.5, 1.0]]), np.array([[2.0, 4.0]])
        assert Logistic.read(VALUES).probabilities(features, vectors).tolist() == pytest.approx([odds(1.0)])
        assert Logistic.read(VALUES).probabilities(features, vectors * [1, 0]).tolist() == pytest.approx([odds(2.0)])
        assert Logistic.read(VALUES).probabilities(features, np.zeros((1, 0))).tolist() == pytest.approx([odds(1.0)])

    def test_values_beyond_what_was_fitted_count_as_its_ends(self):
        features = np.array([[-9.0, 0.0], [0.0, 0.0], [3.0, 0.0], [100.0, 7.0], [3.0, 1.0]])
        below, low, high, beyond, both = Logistic.read(VALUES).probabilities(features)
        assert below == low == pytest.approx(odds(-1.0))
        assert high == pytest.approx(odds(5.0))
        assert beyond == both == pytest.approx(odds(6.0))

    def test_large_odds_do_not_overflow(self):
        assert model(1.0).probabilities(np.array([[-1e4], [0.0], [1e4]])).tolist() == [0.0, 0.5, 1.0]

    def test_no_row_has_none(self):
        assert model(1.0).probabilities(np.zeros((0, 1))).shape == (0,)

    @PROPERTY
    @given(st.integers(1, 40), st.integers(1, 20), st.integers(0, 2**32 - 1))
    def test_a_row_has_the_same_bits_whatever_stands_around_it(self, n_columns, n, seed):
        drawn = np.random.default_rng(seed)
        own = model(*(drawn.normal(size=n_columns) * 3).tolist(), intercept=0.1)
        features = drawn.normal(size=(n, n_columns))
        alone = [own.probabilities(row[None])[0] for row in features]
        assert own.probabilities(features).tolist() == alone
        assert own.probabilities(np.asfortranarray(features)).tolist() == alone, "however it lies in memory"


class TestOutside:
    def test_a_tenth_of_the_range_is_near_enough(self):
        # words.bm25 from 0 to 3: up to 0.3 beyond; item.tool from 0 to 1: up to 0.1
        rows = [[3.29, 0.0], [3.31, 0.0], [-0.29, 1.09], [-0.31, 1.0], [1.0, 1.11], [1.0, 0.5]]
        assert Logistic.read(VALUES).outside(np.array(rows)).tolist() == [False, True, False, True, True, False]

    def test_of_a_feature_that_never_varied_any_other_value_is_outside(self):
        same = Logistic.read({**VALUES, "columns": {"words.bm25": [1.0, 2.0, 2.0, 1.0]}})
        assert same.outside(np.array([[2.0], [2.1]])).tolist() == [False, True]

    def test_no_row(self):
        assert model(1.0).outside(np.zeros((0, 1))).tolist() == []
