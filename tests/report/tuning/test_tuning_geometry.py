"""Which points of a line are drawn, and round ends of axes: worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ctxbench.report.charts import Scale
from ctxbench.report.tuning_document import STEP, along, amounts, order, shares, spread_out, upper


def test_points_go_from_left_to_right_without_those_that_are_not_known():
    assert order(np.array([3.0, math.nan, 1.0, 3.0])).tolist() == [2, 0, 3]


@pytest.mark.parametrize("seed", range(5))
def test_points_that_are_drawn_are_spread_evenly_over_both_axes(seed):
    rng = np.random.default_rng(seed)
    # nine in ten of the points lie in one corner
    across, up = (np.sort(np.concatenate([0.1 * rng.random(900), rng.random(100)])) for _ in range(2))
    keep = rng.integers(0, 1000, 5).tolist()
    drawn = spread_out(across, up, keep)
    assert {0, 999, *keep} <= set(drawn.tolist())
    assert (np.diff(drawn) > 0).all()
    assert len(drawn) <= 2 * 2 / STEP + 1 + 2 * len(keep), "no line is longer than both axes"
    steps = np.abs(np.diff(across)) + np.abs(np.diff(up))
    gaps = np.abs(np.diff(across[drawn])) + np.abs(np.diff(up[drawn]))
    alone = np.diff(drawn) == 1
    assert (gaps[~alone] <= STEP + 1e-12).all()
    assert gaps.max() <= max(STEP + 1e-12, steps.max())


def test_places_along_an_axis_end_with_it():
    assert along(Scale("t", 0.0, 4.0), np.array([-1.0, 1.0, 9.0])).tolist() == [0.0, 0.25, 1.0]
    assert along(Scale("t", 1.0, 100.0, log=True), np.array([0.0, 10.0])).tolist() == [0.0, 0.5]


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0.83, 0.98], (0.8, 1.0)),  # steps of 0.05: 16.6 - 0.2 down, 19.6 + 0.2 up
        ([0.2, 0.4], (0.15, 0.45)),
        ([0.0, 1.0], (0.0, 1.0)),
        ([1.0], (0.995, 1.0)),  # steps of a quarter of 0.02
        ([0.0], (0.0, 0.005)),
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
