"""Intervals of many means at once, from sums of powers: those that `estimate` gives of the values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.statistics import estimate
from ctxbench.tuning.cut_families import LineSettings, best_index, bounds
from ctxbench.tuning.measures import Measure
from ctxbench.tuning.setting_lines import ThresholdLine

COMPLETENESS, TOKENS, RECALL, PRECISION = map(Measure, map(Metric, ("completeness", "tokens", "recall", "precision")))
NAN = math.nan


def moments(values):
    return [np.array([math.fsum(float(v) ** k for v in values)]) for k in (1, 2, 3)]


def agree(measure, values, level, rel=1e-9):
    low, high = bounds(measure, moments(values), len(values), level=level)
    interval = estimate(values, scale=measure.metric.declaration.scale, level=level).interval
    assert float(low[0]) == pytest.approx(interval.low, rel=rel, abs=rel)
    assert float(high[0]) == pytest.approx(interval.high, rel=rel, abs=rel)


LEVELS = st.sampled_from([0.8, 0.95, 0.99])


@given(st.integers(0, 60), st.integers(0, 60), LEVELS)
def test_bounds_of_yes_and_no_are_those_of_estimate_to_the_bit(yes, no, level):
    values = [1.0] * yes + [0.0] * no
    low, high = bounds(COMPLETENESS, moments(values)[:1], len(values), level=level)
    interval = estimate(values, scale="yes/no", level=level).interval
    assert (float(low[0]), float(high[0])) == (interval.low, interval.high)


@given(st.lists(st.integers(0, 12).map(lambda part: part / 12), max_size=50), LEVELS)
def test_bounds_of_shares_are_those_of_estimate(values, level):
    agree(RECALL, values, level)


@given(st.lists(st.integers(0, 1000), max_size=50), LEVELS)
def test_bounds_of_amounts_are_those_of_estimate(values, level):
    agree(TOKENS, values, level)


@pytest.mark.parametrize("values", [[], [7], [7, 7, 7], [0, 0], [100_000] * 40, [0] * 39 + [100_000]])
def test_bounds_of_amounts_that_hardly_differ_are_those_of_estimate(values):
    agree(TOKENS, values, 0.95)


def test_bounds_of_amounts_lose_digits_where_these_hardly_differ_for_their_size():
    agree(TOKENS, [99_999] * 40 + [100_000], 0.95, rel=1e-5)


def test_bounds_are_of_all_settings_at_once():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3000, (20, 64)).astype(float)
    low, high = bounds(TOKENS, [(values**k).sum(axis=1) for k in (1, 2, 3)], 64)
    for row, one in enumerate(values):
        interval = estimate(one, scale="amount").interval
        assert (low[row], high[row]) == pytest.approx((interval.low, interval.high), rel=1e-9)


def test_bounds_at_another_size_are_those_of_the_same_values_as_often():
    values = [0, 3, 5, 9, 30]
    low, high = bounds(TOKENS, moments(values), 5, times=4)
    often = estimate(values * 4, scale="amount").interval
    assert (float(low[0]), float(high[0])) == pytest.approx((often.low, often.high), rel=1e-9)


def test_settings_may_apply_to_different_numbers_of_queries():
    # nothing added where the session holds all: precision applies to 0, then to 2, then to 4 queries
    values = [[NAN] * 4, [1, NAN, 0.5, NAN], [1, 0.5, 0.25, 0.25]]
    line = ThresholdLine(
        values={},
        axis="score",
        thresholds=np.array([3.0, 2.0, 1.0]),
        sums={PRECISION: np.array([0, 1.5, 2])},
        squares={PRECISION: np.array([0, 1.25, 1.375])},
        n={PRECISION: 4},
        applies={PRECISION: np.array([0.0, 2.0, 4.0])},
    )
    settings = LineSettings(line)
    assert settings.n(PRECISION) == 4
    assert np.array_equal(settings.means(PRECISION), [NAN, 0.75, 0.5], equal_nan=True)
    assert settings.mean_reaches(PRECISION, 1, 0.6).tolist() == [False, True, False]
    assert settings.mean_reaches(PRECISION, -1, 0.6).tolist() == [False, False, True]
    assert (settings.best_index(PRECISION, 1), settings.best_index(PRECISION, -1)) == (1, 2)
    low, high = settings.bounds(PRECISION, np.arange(3), level=0.95)
    for place, row in enumerate(values):
        interval = estimate(row, scale="share").interval
        assert (low[place], high[place]) == pytest.approx((interval.low, interval.high))
        alone = settings.select_setting(place)
        assert alone.n(PRECISION) == int(line.applies[PRECISION][place])
        assert np.array_equal(alone.means(PRECISION), settings.means(PRECISION, np.array([place])), equal_nan=True)


def test_a_setting_picked_out_has_the_same_values_and_the_same_short_threshold():
    line = ThresholdLine(
        values={"topN": 3},
        axis="score",
        thresholds=np.array([1.0, 0.71234567, 0.5]),
        sums={TOKENS: np.array([5.0, 7.0, 9.0])},
        n={TOKENS: 2},
        span=(0.0, 1.0),
        beyond=(1.2, 0.41),
    )
    for place in range(3):
        alone = LineSettings(line).select_setting(place)
        assert alone.values_at(0) == line.values_at(place)
        assert alone.rounded_values(0) == line.rounded_values(place)
        assert alone.means(TOKENS).tolist() == [line.sums[TOKENS][place] / 2]


def test_the_furthest_passes_over_what_is_not_known():
    means = np.array([NAN, 0.5, 0.9, 0.9, 0.1])
    assert (best_index(means, 1), best_index(means, -1)) == (2, 4)
    among = np.array([True, True, False, False, False])
    assert (best_index(means, 1, among), best_index(means, -1, among)) == (1, 1)
    assert best_index(means, 1, ~np.ones(5, dtype=bool)) is None
    assert best_index(means[:1], 1) is None
