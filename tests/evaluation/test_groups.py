"""Intervals where queries come in groups: by hand, against those of single queries, and what they cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ctxbench.evaluation.comparisons import (
    by_group,
    compare_metric,
    estimates,
    grouped_compare,
    grouped_estimate,
    worth,
    worth_of,
)
from ctxbench.evaluation.metrics import parse_metrics
from ctxbench.evaluation.statistics import amount_interval, compare, estimate, sign_flip, wilson, wilson_bounds
from ctxbench.io.errors import ParameterError

NAN = math.nan
SCALES = ("yes/no", "share", "amount")
PAIRS = np.repeat(np.arange(4), 2)  # four groups of two


def ends(interval):
    return interval.low, interval.high


# ------------------------------------------------------------------------------------------------- worth


def test_worth_by_hand():
    """Groups of 2 with 2, 1, 1 and 0 complete: mean 1/2, n 8, away 1 + 0 + 0 + 1, times 4/3, and 1/4 added."""
    assert worth([2, 1, 1, 0], [2, 2, 2, 2]) == pytest.approx(64 * (1 / 4) / (8 / 3 + 1 / 4))  # 5.49
    assert worth_of([1, 1, 0, 1, 1, 0, 0, 0], PAIRS) == pytest.approx(16 / (8 / 3 + 1 / 4))


def test_groups_that_answer_as_one_are_worth_n_squared_over_the_sum_of_squared_sizes():
    assert worth([3, 3, 0, 0], [3, 3, 3, 3]) == pytest.approx(4)  # 12^2 / (4 x 9)
    assert worth([6, 0, 0], [6, 2, 1]) == pytest.approx(81 / 41)
    assert worth([0, 0, 0], [6, 2, 1]) == worth([6, 2, 1], [6, 2, 1]) == pytest.approx(81 / 41)  # all the same
    assert worth([2], [5]) == 1  # one group says nothing of what groups have in common


def test_groups_that_differ_less_than_chance_are_worth_no_more_than_their_queries():
    assert worth([1, 1, 1, 1], [2, 2, 2, 2]) == 8


def test_many_samples_at_once_are_those_one_by_one():
    found = np.array([[2, 1, 0], [3, 0, 0], [3, 2, 1]])
    assert worth(found, [3, 2, 1]).tolist() == [float(worth(one, [3, 2, 1])) for one in found]


def test_without_known_values_nothing_is_known():
    assert worth_of([], []) == 0
    assert worth_of([NAN, NAN], ["a", "b"]) == 0
    assert worth_of([NAN, 1, 0], ["a", "a", "b"]) == 2


# ------------------------------------------------------------------------------------------- one value a group


def test_one_value_a_group_by_hand():
    """Mean 4, of 2 groups and 3 values: 4 + 2/3 x ((2 - 4) + (3 - 4)) and 4 + 2/3 x (7 - 4)."""
    assert by_group(np.array([2.0, 3, 7]), np.array([0, 0, 1])).tolist() == [2.0, 6.0]


def test_values_of_groups_keep_the_mean_and_those_of_single_queries_are_their_own():
    values = np.array([1.0, 5, 9, 2, 2])
    assert by_group(values, np.array([1, 1, 1, 0, 2])).mean() == pytest.approx(values.mean())
    assert by_group(values, np.arange(5)) == pytest.approx(values)


# ------------------------------------------------------------------------------------------------- estimates


def drawn(scale, n=60, seed=0):
    rng = np.random.default_rng(seed)
    if scale == "yes/no":
        return (rng.random(n) < 0.7).astype(float)
    return rng.integers(0, 4, n) / 3 if scale == "share" else rng.lognormal(5, 1, n)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("n", [0, 1, 2, 60])
def test_with_every_query_alone_it_is_the_estimate_by_query(scale, n):
    values = np.concatenate([drawn(scale, n), [NAN]])
    groups = [f"g{i}" for i in range(n)] + ["g0"]  # the one that is left out makes no group
    assert repr(grouped_estimate(values, groups, scale=scale)) == repr(estimate(values, scale=scale))


def test_yes_and_no_by_hand():
    """Wilson's interval at 5.49 answers with the mean of the queries."""
    found = grouped_estimate([1, 1, 0, 1, 1, 0, 0, 0, NAN], [*PAIRS, 3], scale="yes/no")
    low, high = wilson_bounds(0.5, 16 / (8 / 3 + 1 / 4))
    assert ends(found.interval) == pytest.approx((float(low), float(high)))
    assert (found.value, found.n, found.left_out) == (0.5, 8, 1)
    assert found.interval.method == "Wilson, by group"
    assert not found.interval.holds  # fewer than 10 groups


def test_groups_that_answer_as_one_have_the_interval_of_one_query_each():
    values = np.repeat([1.0] * 13 + [0.0] * 7, 3)
    found = grouped_estimate(values, np.repeat(np.arange(20), 3), scale="yes/no")
    assert ends(found.interval) == pytest.approx(ends(wilson(13, 20)))
    assert found.interval.holds
    assert found.n == 60
    amounts = np.repeat(drawn("amount", 25), 4)
    found = grouped_estimate(amounts, np.repeat(np.arange(25), 4), scale="amount")
    assert ends(found.interval) == pytest.approx(ends(amount_interval(drawn("amount", 25))))


def test_shares_by_hand():
    """Sums of groups of two 1, 1, 1.5 and 0.5, so a mean of 1/2: away 1/2 x 4/3, and 1/4 added.

    64 x 1/4 / (2/3 + 1/4) = 17.5, but by query no more than 8 x max(1, 2 / (1 + 1/4)) = 12.8.
    """
    values = [0.0, 1, 0.5, 0.5, 0.75, 0.75, 0.5, 0]
    spread = sum((one - 0.5) ** 2 for one in values)
    found = grouped_estimate(values, PAIRS, scale="share")
    assert spread == 0.875
    low, high = wilson_bounds(0.5, min(16 / (2 / 3 + 1 / 4), 8 * 2 / (spread + 0.25)))
    assert ends(found.interval) == pytest.approx((float(low), float(high)))
    together = grouped_estimate(sorted(values), PAIRS, scale="share")  # 0, 1; 1, 1.25; 1.5 and 1.75
    sums = [0.0, 1.0, 1.25, 1.75]
    away = sum((one - 1) ** 2 for one in sums) * 4 / 3
    low, high = wilson_bounds(0.5, 16 / (away + 1 / 4))
    assert ends(together.interval) == pytest.approx((float(low), float(high)))


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=40))
def test_shares_that_are_all_0_or_1_have_the_interval_of_yes_and_no(rows):
    groups, values = zip(*rows, strict=True)
    as_share, as_yes = (grouped_estimate(np.array(values, float), groups, scale=scale) for scale in ("share", "yes/no"))
    assert ends(as_share.interval) == pytest.approx(ends(as_yes.interval), abs=1e-12)


@pytest.mark.parametrize("scale", SCALES)
def test_neither_the_order_of_queries_nor_names_of_groups_matter(scale):
    rng = np.random.default_rng(1)
    values, groups = drawn(scale), rng.integers(0, 15, 60)
    expected = grouped_estimate(values, groups, scale=scale)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(60)
        names = np.random.default_rng(seed).permutation(15)
        assert grouped_estimate(values[order], groups[order], scale=scale) == expected
        renamed = grouped_estimate(values, [f"name {names[group]}" for group in groups], scale=scale)
        assert ends(renamed.interval) == pytest.approx(ends(expected.interval), rel=1e-12)


@pytest.mark.parametrize("scale", ["yes/no", "share"])
@pytest.mark.parametrize("seed", range(4))
def test_an_interval_by_group_is_never_narrower_than_one_by_query(scale, seed):
    values, groups = drawn(scale, seed=seed), np.random.default_rng(seed).integers(0, 20, 60)
    apart, grouped = estimate(values, scale=scale).interval, grouped_estimate(values, groups, scale=scale).interval
    assert grouped.low <= apart.low
    assert grouped.high >= apart.high


def test_what_says_nothing_of_an_amount():
    one = grouped_estimate([3.0, 5.0], ["a", "a"], scale="amount")
    assert ends(one.interval) == (0, math.inf)
    assert one.value == 4
    assert not one.interval.holds
    equal = grouped_estimate([0.1] * 30, np.arange(30) // 3, scale="amount").interval
    assert ends(equal) == (0.1, 0.1)
    assert not equal.holds


def test_an_amount_holds_by_the_number_of_groups_that_differ():
    for groups, differing, holds in [(20, 10, True), (19, 10, False), (20, 9, False)]:
        values = np.full(3 * groups, 7.0)
        values[: 3 * differing : 3] = np.arange(differing) + 10.0  # one query of a group
        found = grouped_estimate(values, np.repeat(np.arange(groups), 3), scale="amount").interval
        assert found.holds == holds


def test_no_amount_is_below_0():
    values = np.concatenate([np.zeros(40), [500.0, 400.0]])
    assert grouped_estimate(values, [*range(40), 0, 0], scale="amount").interval.low == 0


def test_what_is_no_value_of_the_scale_or_without_a_group_is_an_error():
    with pytest.raises(ParameterError, match=r"must be 0 to 1, got 1\.5"):
        grouped_estimate([0.5, 1.5], [0, 0], scale="share")
    with pytest.raises(ParameterError, match=r"every value needs a group: got shapes \(2,\) and \(1,\)"):
        grouped_estimate([0.5, 0.5], [0], scale="share")
    slightly = grouped_estimate([1 + 1e-12, 1.0, 0.5], [0, 0, 1], scale="share")
    assert slightly.interval == grouped_estimate([1.0, 1.0, 0.5], [0, 0, 1], scale="share").interval


def test_estimates_of_metrics_take_groups():
    complete, tokens = parse_metrics(["completeness", "tokens"])
    values = {complete: drawn("yes/no"), tokens: drawn("amount")}
    groups = np.arange(60) // 3
    found = estimates([complete, tokens], values, groups=groups)
    assert found[complete] == grouped_estimate(values[complete], groups, scale="yes/no")
    assert found[tokens] == grouped_estimate(values[tokens], groups, scale="amount")
    assert estimates([tokens], values)[tokens] == estimate(values[tokens], scale="amount")


# -------------------------------------------------------------------------------------------------- coverage


@pytest.mark.parametrize(("scale", "by_query"), [("yes/no", 0.87), ("share", 0.87), ("amount", 0.88)])
def test_it_covers_where_queries_have_much_in_common_and_an_interval_by_query_does_not(scale, by_query):
    """40 groups of 3, correlation about 0.5; 600 samples, so that a coverage has a standard error of 0.9 points."""
    rng, groups = np.random.default_rng(5), np.repeat(np.arange(40), 3)
    covered = np.zeros(2)
    for _ in range(600):
        chance = rng.beta(0.6, 0.4, 40)[groups]  # mean 0.6, correlation 1 / (1 + 1)
        if scale == "amount":
            values, truth = np.exp(rng.normal(0, 0.5, 40)[groups] + rng.normal(0, 0.5, 120)), math.exp(0.25)
        else:
            needed = 1 if scale == "yes/no" else rng.integers(1, 4, 120)
            values, truth = rng.binomial(needed, chance) / needed, 0.6
        both = estimate(values, scale=scale), grouped_estimate(values, groups, scale=scale)
        covered += [one.interval.low <= truth <= one.interval.high for one in both]
    apart, grouped = covered / 600
    assert 0.92 <= grouped <= 0.98
    assert apart < by_query


# ----------------------------------------------------------------------------------------------- comparisons


def pairs(scale, n=60, seed=0):
    rng = np.random.default_rng(seed)
    if scale == "amount":
        return rng.integers(1, 300, (2, n)).astype(float)
    return (rng.random((2, n)) < [[0.6], [0.7]]).astype(float)


@pytest.mark.parametrize("scale", SCALES)
def test_with_every_query_alone_a_comparison_is_that_by_query(scale):
    left, right = pairs(scale)
    left[3] = NAN
    expected = compare(left, right, scale=scale)
    assert grouped_compare(left, right, np.arange(60), scale=scale) == expected
    assert expected.worth == 1


def test_groups_that_differ_as_one_are_compared_as_one_query_each():
    left, right = (np.repeat(side, 3) for side in pairs("yes/no", 40))
    found = grouped_compare(left, right, np.repeat(np.arange(40), 3), scale="yes/no")
    alone = compare(*pairs("yes/no", 40), scale="yes/no")
    assert found.p == pytest.approx(sign_flip(pairs("yes/no", 40)[1] - pairs("yes/no", 40)[0]))
    assert found.test == "sign flips of groups"
    assert found.worth == pytest.approx(1 / 3)
    assert ends(found.interval) == pytest.approx(ends(alone.interval))
    assert (found.n, found.higher, found.lower) == (120, 3 * alone.higher, 3 * alone.lower)
    assert found.needed == pytest.approx(3 * alone.needed, abs=3)


def test_the_test_flips_sums_of_groups():
    """Groups gain 3, 2 and 1: of 8 signs 2 are as extreme."""
    left = np.zeros(6)
    found = grouped_compare(left, np.array([3.0, 0, 1, 1, 0, 1]), [0, 0, 1, 1, 2, 2], scale="amount")
    assert found.p == 2 / 8
    assert not found.interval.holds


def test_a_comparison_of_amounts_is_hall_s_of_one_value_a_group():
    left, right = (np.repeat(side, 2) for side in pairs("amount", 30))
    found = grouped_compare(left, right, np.repeat(np.arange(30), 2), scale="amount")
    alone = compare(*pairs("amount", 30), scale="amount")
    assert ends(found.interval) == pytest.approx(ends(alone.interval))
    assert found.interval.method == "Hall's t, by group"
    assert found.interval.holds


@pytest.mark.parametrize("scale", SCALES)
def test_the_order_of_queries_does_not_matter_to_a_comparison(scale):
    left, right = pairs(scale)
    groups = np.random.default_rng(1).integers(0, 25, 60)
    expected = grouped_compare(left, right, groups, scale=scale)
    order = np.random.default_rng(2).permutation(60)
    assert grouped_compare(left[order], right[order], groups[order], scale=scale) == expected


def test_equal_sides_and_single_groups():
    same = grouped_compare(np.ones(30), np.ones(30), np.arange(30) // 3, scale="yes/no")
    assert (same.p, same.difference, same.needed) == (1, 0, None)
    assert same.interval.low < 0 < same.interval.high
    one = grouped_compare([1.0, 1, 0], [0.0, 0, 0], [0, 0, 0], scale="yes/no")
    assert (one.p, one.worth) == (1, pytest.approx(1 / 3))
    assert not one.interval.holds


def test_a_comparison_of_metrics_takes_groups():
    (complete,) = parse_metrics(["completeness"])
    left, right = pairs("yes/no")
    groups = np.arange(60) // 3
    found = compare_metric(complete, {complete: left}, {complete: right}, groups=groups)
    assert found == grouped_compare(left, right, groups, scale="yes/no")


def test_it_tells_apart_what_does_not_differ_as_seldom_as_it_says_and_by_query_far_too_often():
    """40 groups of 3 that gain or lose as one; 400 samples, so that 5% has a standard error of 1.1 points."""
    rng, groups = np.random.default_rng(6), np.repeat(np.arange(40), 3)
    told, covered = np.zeros(2), np.zeros(2)
    for _ in range(400):
        side = rng.choice([-1, 0, 1], 40, p=[0.2, 0.6, 0.2])[groups]
        left, right = (side < 0).astype(float), (side > 0).astype(float)
        both = compare(left, right, scale="yes/no"), grouped_compare(left, right, groups, scale="yes/no")
        told += [one.p <= 0.05 for one in both]
        covered += [one.interval.low <= 0 <= one.interval.high for one in both]
    by_query, grouped = told / 400
    assert grouped <= 0.08
    assert by_query > 0.15
    assert covered[1] / 400 >= 0.93
    assert covered[0] / 400 < 0.85
