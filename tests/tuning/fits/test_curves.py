"""Curves and areas: values worked by hand, and those of scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.metrics import roc_auc_score

from ctxbench.io.errors import ParameterError
from ctxbench.tuning.query_fits import (
    CutCurve,
    abstention_point,
    cut_point,
    request_probability,
    roc_area,
    roc_area_interval,
    threshold_by_loss,
)
from tests.tuning.fits.fit_cases import EXAMPLES, SCORES, made

PROPERTY = settings(max_examples=100, deadline=None, database=None, derandomize=True)


class TestCut:
    def test_every_threshold(self):
        curve = CutCurve.of(EXAMPLES, SCORES)
        assert curve.threshold.tolist() == [math.inf, 0.9, 0.8, 0.6, 0.4, 0.2]
        assert curve.items == pytest.approx([0, 1 / 3, 2 / 3, 1, 4 / 3, 5 / 3])
        assert curve.recall == pytest.approx([0, 0.25, 0.25, 0.5, 0.75, 0.75])

    def test_a_threshold_for_so_many_items(self):
        curve = CutCurve.of(EXAMPLES, SCORES)
        assert [curve.threshold_for_items(items) for items in (0.1, 1.0, 1.2, 9.0)] == [math.inf, 0.6, 0.6, 0.2]

    def test_a_point_of_one_threshold_and_of_one_a_query(self):
        point = cut_point(EXAMPLES, SCORES, 0.5)
        assert (point.recall.value, point.recall.n) == (0.5, 2)  # 1 and 0
        assert (point.items.value, point.items.n) == (1.0, 3)  # 2, 1, 0
        own = cut_point(EXAMPLES, SCORES, np.array([0.9, 0.0, 0.0]))
        assert own.recall.value == 0.5  # a half each
        assert own.items.value == 1.0  # 1, 2, 0

    def test_nothing_found_is_nothing_offered(self):
        none = made([], [], needed=[(0, [])], n=1)
        curve = CutCurve.of(none, np.empty(0))
        assert (curve.items.tolist(), curve.recall.tolist()) == ([0.0], [0.0])

    @PROPERTY
    @given(st.lists(st.sampled_from([0.1, 0.3, 0.5, 0.9]), min_size=5, max_size=5))
    def test_the_curve_is_that_of_its_points(self, scores):
        scores = np.array(scores)
        curve = CutCurve.of(EXAMPLES, scores)
        for threshold, items, recall in zip(curve.threshold, curve.items, curve.recall, strict=True):
            point = cut_point(EXAMPLES, scores, threshold)
            assert (point.items.value, point.recall.value) == pytest.approx((items, recall))


class TestSilence:
    NEEDS = np.array([True, True, True, False, False])
    SAID = np.array([0.9, 0.3, 0.5, 0.4, 0.1])

    def test_who_falls_silent_below_a_threshold(self):
        lost, spared = abstention_point(self.NEEDS, self.SAID, 0.45)
        assert (lost.value, spared.value) == (pytest.approx(1 / 3), 1.0)
        assert (lost.n, spared.n) == (3, 2)

    def test_the_threshold_that_loses_so_many(self):
        assert [threshold_by_loss(self.NEEDS, self.SAID, share) for share in (0.0, 0.3, 1 / 3, 1.0)] == [
            0.3,
            0.3,
            0.5,
            0.9,
        ]
        with pytest.raises(ParameterError, match="no query needs anything"):
            threshold_by_loss(np.zeros(2, dtype=bool), np.zeros(2), 0.1)

    def test_a_query_without_a_row_has_probability_0(self):
        assert request_probability(EXAMPLES, SCORES)[2] == 0.0


class TestArea:
    @PROPERTY
    @given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=30))
    def test_it_is_scikit_learn_s(self, rows):
        label, score = np.array([one for one, _ in rows]), np.array([float(two) for _, two in rows])
        if label.all() or not label.any():
            assert math.isnan(roc_area(label, score))
        else:
            assert roc_area(label, score) == pytest.approx(roc_auc_score(label, score))

    def test_no_rows_have_no_area(self):
        assert math.isnan(roc_area(np.zeros(0, dtype=bool), np.zeros(0)))

    def test_the_interval_is_wider_where_rows_come_in_groups(self):
        rng = np.random.default_rng(1)
        label = np.repeat(rng.random(60) < 0.5, 10)
        score = np.repeat(rng.random(60), 10) + np.where(label, 0.3, 0.0)
        alone = roc_area_interval(label, score, [str(n) for n in range(600)])
        grouped = roc_area_interval(label, score, [str(n // 10) for n in range(600)])
        assert alone.low <= roc_area(label, score) <= alone.high
        assert grouped.high - grouped.low > 2 * (alone.high - alone.low)
        assert grouped.holds

    def test_few_groups_hold_no_interval(self):
        label, score = np.array([True, False]), np.array([0.9, 0.1])
        assert not roc_area_interval(label, score, ["a", "b"]).holds
        assert roc_area_interval(label, score, ["a", "a"]).low == 1.0  # the one group, drawn each time
