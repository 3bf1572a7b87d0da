"""Lines and bands cut to their axes, and round ends of axes: worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxbench.reporting.line_chart import Scale
from ctxbench.reporting.tuning.geometry import amounts, band_inside, line_inside, order, shares, upper

X, Y = Scale("x", 0.0, 10.0), Scale("y", 0.0, 10.0)
EMPTY = np.zeros(0)


def line(xs, ys):
    found = line_inside((np.array(xs, dtype=float), np.array(ys, dtype=float)), X, Y)
    return list(zip(*(part.tolist() for part in found), strict=True))


def test_a_line_within_its_axes_stays_as_it_is():
    assert line([0, 4, 10], [0, 10, 5]) == [(0, 0), (4, 10), (10, 5)]
    assert line([3], [4]) == [(3, 4)]
    assert line([], []) == []


def test_a_line_gets_points_where_it_passes_the_ends_of_its_axes():
    # down to -10 at x = 0 from 10 at x = 10: it crosses 0 in the middle
    assert line([0, 10], [-10, 10]) == [(0, -10), (5, 0), (10, 10)]
    # from (-10, 5) to (20, 5), through 0 and 10
    assert line([-10, 20], [5, 5]) == [(-10, 5), (0, 5), (10, 5), (20, 5)]
    # up to 20 and back: through 10 twice
    assert line([0, 5, 10], [0, 20, 0]) == [(0, 0), (2.5, 10), (5, 20), (7.5, 10), (10, 0)]


def test_a_band_that_comes_from_below_begins_where_it_enters():
    # highs rise from -10 to 10, lows from -20 to 0: the highs enter in the middle
    xs, lows, highs = band_inside((np.array([0.0, 10.0]), np.array([-20.0, 0.0]), np.array([-10.0, 10.0])), X, Y)
    assert xs.tolist() == [5.0, 10.0]
    assert lows.tolist() == [-10.0, 0.0]
    assert highs.tolist() == [0.0, 10.0]
    assert band_inside((EMPTY, EMPTY, EMPTY), X, Y)[0].tolist() == []


def test_a_band_without_end_reaches_beyond_the_axes():
    xs, lows, highs = band_inside((np.array([0.0, 10.0]), np.full(2, -math.inf), np.full(2, math.inf)), X, Y)
    assert xs.tolist() == [0.0, 10.0]
    assert max(lows) < 0
    assert min(highs) > 10


@given(
    st.lists(st.tuples(st.integers(-80, 80), st.integers(-80, 80)), min_size=1, max_size=12, unique_by=lambda p: p[0])
)
def test_points_that_come_in_lie_on_the_line(points):
    xs, ys = np.array(sorted(points)).T / 4.0
    found = line_inside((xs, ys), X, Y)
    assert np.all(np.diff(found[0]) >= 0)
    assert np.interp(found[0], xs, ys) == pytest.approx(found[1], abs=1e-6)
    assert set(xs.tolist()) <= set(found[0].tolist())


def test_points_go_from_left_to_right_without_those_that_are_not_known():
    assert order(np.array([3.0, math.nan, 1.0, 3.0])).tolist() == [2, 0, 3]
    many = order(np.arange(5000.0))
    assert len(many) == 240
    assert (many[0], many[-1]) == (0, 4999)


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([83.0, 98.0], (80.0, 100.0)),  # steps of 5: 16.6 - 0.2 down, 19.6 + 0.2 up
        ([20.0, 40.0], (15.0, 45.0)),
        ([0.0, 100.0], (0.0, 100.0)),
        ([100.0], (99.5, 100.0)),  # steps of a quarter of 2
        ([0.0], (0.0, 0.5)),
    ],
)
def test_an_axis_of_shares_has_room_around_its_values(values, ends):
    found = shares("t", values)
    assert (found.low, found.high) == pytest.approx(ends)


def test_what_is_below_half_of_the_best_needs_no_room():
    assert upper([10.0, 49.0, 50.0, 100.0]) == [50.0, 100.0]
    assert upper([]) == []
    assert upper([0.0]) == [0.0]


def test_an_axis_of_amounts_is_logarithmic_where_they_spread_more_than_twenty_times():
    assert amounts("t", [5.0, 100.0, math.nan, 0.0]) == Scale("t", 0.0, 106.0)
    assert amounts("t", [4.0, 100.0]) == Scale("t, logarithmic", 0.85 * 4, 1.15 * 100, log=True)
    assert amounts("t", []) == amounts("t", [0.0]) == Scale("t", 0.0, 1.0)
