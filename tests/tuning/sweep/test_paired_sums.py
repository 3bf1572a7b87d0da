"""Paired differences to a base: sums and errors by hand; `test_exactness` holds those along lines against runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ctxbench.evaluation.metrics import Metric
from ctxbench.tuning.measures import Measure, Pairing

COMPLETE, TOKENS = Measure(Metric("completeness")), Measure(Metric("tokens"))
NAN = math.nan


def differences(base, own, group=None, *, measure=COMPLETE):
    base, own = (np.array(values, dtype=float) for values in (base, own))
    pairing = Pairing(base={measure: base}, group=np.arange(len(base)) if group is None else np.array(group))
    return pairing.differences({measure: own})[measure]


def test_one_gain_and_one_loss_are_added_to_what_was_seen():
    """10 queries, 2 gained and 1 lost: squares about the mean 3 - 10 x 0.1^2, times 10 / 9, and 2 more."""
    found = differences([1, 0, 0, 1, 1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    mean, error = found.errors()
    assert mean[0] == pytest.approx(0.1)
    assert error[0] == pytest.approx(math.sqrt((3 - 0.1) * 10 / 9 + 2) / 10)
    _, fourfold = found.errors(times=4)
    assert fourfold[0] == pytest.approx(math.sqrt(4 * (3 - 0.1) * 10 / 9 + 2) / 40), "what is added stays one and one"


def test_where_nothing_differs_there_is_an_error_still():
    mean, error = differences([1, 0, 1, 1], [1, 0, 1, 1]).errors()
    assert (mean[0], error[0]) == (0, pytest.approx(math.sqrt(2) / 4))


def test_groups_gain_and_lose_as_a_whole():
    """Sums by group 2, 0 and -1 of sizes 2, 2 and 1: mean 1 / 5; apart 1.6, -.4 and -1.2; a group has 5 / 3 queries."""
    found = differences([0, 0, 1, 1, 1], [1, 1, 1, 1, 0], [7, 7, 3, 3, 5])
    mean, error = found.errors()
    assert (found.n, found.groups, found.sizes) == (5, 3, 9)
    assert mean[0] == pytest.approx(0.2)
    spread = (1.6**2 + 0.4**2 + 1.2**2) * 3 / 2 + 2 * 5 / 3
    assert error[0] == pytest.approx(math.sqrt(spread) / 5)


def test_of_one_group_nothing_is_known_and_of_no_query_not_even_a_mean():
    mean, error = differences([0, 1], [1, 1], [4, 4]).errors()
    assert (mean[0], error[0]) == (0.5, math.inf)
    mean, error = differences([NAN], [1]).errors()
    assert math.isnan(mean[0])
    assert error[0] == math.inf
    assert differences([], []).errors()[1][0] == math.inf


def test_queries_to_which_the_measure_does_not_apply_are_left_out():
    found = differences([1, NAN, 0, 1], [0, 1, NAN, 1])
    assert (found.n, found.total[0]) == (2, -1)


def test_of_an_amount_one_gain_is_as_much_as_the_base_has():
    found = differences([100, 300], [90, 280], measure=TOKENS)
    assert found.unit == 200
    mean, error = found.errors()
    assert mean[0] == -15
    assert error[0] == pytest.approx(math.sqrt((5**2 + 5**2) * 2 + 2 * 200**2) / 2)


def test_along_a_line_groups_add_up_as_they_change():
    """Two queries of a group gain one after the other: squares 0, 1, 4; then one of another group loses: 5."""
    pairing = Pairing(base={COMPLETE: np.array([0.0, 0.0, 1.0])}, group=np.array([0, 0, 1]))
    first, owner, gain = np.array([0.0, 0.0, 1.0]), np.array([1, 0, 2]), np.array([1.0, 1.0, -1.0])
    line = pairing.line_differences(COMPLETE, first, owner=owner, gain=gain, stops=np.array([1, 2, 3]))
    assert line.total.tolist() == [0, 1, 2, 1]
    assert line.squares.tolist() == [0, 1, 4, 5]
    assert line.weighted.tolist() == [0, 2, 4, 3]
    assert line.select(np.array([2])).squares.tolist() == [4]
