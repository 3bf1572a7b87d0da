"""Intervals of differences that few queries carry: by hand, beside a plain transcription, and how often they hold."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chi2

from ctxbench.evaluation.comparisons import agreeing, chi_square, gain_loss_interval
from ctxbench.evaluation.statistics import compare
from ctxbench.io.errors import ParameterError

Z = 1.959963984540054


def interval(differences, *, base=None, groups=None, scale="yes/no", level=0.95):
    away = np.asarray(differences, dtype=np.float64)
    left = np.where(away < 0, -away, 0.0) if base is None else np.asarray(base, dtype=np.float64)
    own = np.arange(len(away)) if groups is None else groups
    return gain_loss_interval(left, left + away, own, scale=scale, level=level)


@pytest.mark.parametrize("df", [1, 2, 3, 8, 20, 100, 1000])
def test_chi_square_is_near_scipys(df):
    assert chi_square(df, Z) == pytest.approx(chi2.ppf(0.975, df), rel=0.02)
    low = chi_square(df, -Z)
    assert low == pytest.approx(chi2.ppf(0.025, df), rel=0.03) if df >= 8 else low <= chi2.ppf(0.025, df)


def test_one_loss_of_a_hundred_by_hand():
    # Losses: 1 seen; chi-square of 2 at 2.5%, halved: low. Half of one more: 1.5 worth 2 x 1.5^2 / 1.5 = 3 degrees.
    low, high = chi_square(2.0, -Z) / 2, chi_square(3.0, Z) / 2
    none = chi_square(1.0, Z) / 2  # gains: none seen, half of one more: 0.5 worth 1 degree
    drawn = math.sqrt((0.99**2 + 99 * 0.01**2 + 1) / (1 + 1))  # about the mean of -0.01, beside about 0
    found = interval([-1.0] + [0.0] * 99)
    assert found.low == pytest.approx(-0.01 - drawn * math.hypot(high - 1, 0.0 - 0.0) / 100)
    assert found.high == pytest.approx(-0.01 + drawn * math.hypot(none, 1 - low) / 100)
    assert (found.method, found.level, found.holds) == ("gains and losses", 0.95, True)


def test_equal_losses_are_told_from_none_from_four_on_and_with_the_test_from_six():
    for losses in range(1, 12):
        found = interval([-1.0] * losses + [0.0] * (1000 - losses))
        assert (found.high < 0) is (losses >= 4)
        head = [0.0] * losses + [1.0] * (1000 - losses)
        mine = agreeing(replace(compare([1.0] * 1000, head, scale="yes/no"), interval=found))
        assert (mine.interval.high < 0) is (losses >= 6)  # 2 / 2^6 <= 0.05 < 2 / 2^5
        assert mine.interval.high <= 0 or losses < 4


def plain(base, other, groups, scale, level=0.95):
    """The same, written down query by query, with scipy's chi-square as the program's own."""
    z = -Z if level == 0.95 else None
    sums, sizes = Counter(), Counter()
    for left, right, group in zip(base, other, groups, strict=True):
        sums[group] += right - left
        sizes[group] += 1
    n = len(base)
    one = math.sqrt((np.var(base) + np.var(other)) / 2) if scale == "amount" else 1.0
    more = max([one, *(abs(each) for each in sums.values())])
    reach = {}
    for sign in (1, -1):
        side = [sign * each for each in sums.values() if sign * each > 0]
        y, v = sum(side), sum(each**2 for each in side)
        low = v / (2 * y) * chi_square(2 * y * y / v, z) if side else 0.0
        y_more, v_more = y + more / 2, v + more**2 / 2
        reach[sign] = y - low, v_more / (2 * y_more) * chi_square(2 * y_more**2 / v_more, -z) - y
    mean = sum(sums.values()) / n
    square = sum(each**2 for each in sums.values()) + more**2
    apart = sum((sums[g] - sizes[g] * mean) ** 2 for g in sums) + more**2
    drawn = min(1.0, math.sqrt(apart / square)) / n
    return (
        mean - drawn * math.hypot(reach[1][0], reach[-1][1]),
        mean + drawn * math.hypot(reach[1][1], reach[-1][0]),
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scale", ["yes/no", "share", "amount"])
def test_is_what_is_written_down(scale, seed):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 25, 60)
    if scale == "amount":
        base = rng.lognormal(5, 0.5, 60)
        other = base + rng.normal(20, 90, 60) * (rng.random(60) < 0.3)
    else:
        steps = 1 if scale == "yes/no" else 3
        base, other = rng.integers(0, steps + 1, (2, 60)) / steps
        other = np.where(rng.random(60) < 0.3, other, base)
    found = gain_loss_interval(base, other, groups, scale=scale)
    assert (found.low, found.high) == pytest.approx(plain(base, other, groups, scale), rel=1e-9)


values = st.lists(
    st.tuples(st.sampled_from([0.0, 1 / 3, 0.5, 1.0]), st.sampled_from([0.0, 1 / 3, 0.5, 1.0]), st.integers(0, 5)),
    min_size=1,
    max_size=40,
)


@given(values, st.randoms(use_true_random=False), st.sampled_from(["share", "amount"]))
def test_holds_the_difference_mirrors_and_depends_on_no_order(rows, random, scale):
    base, other, groups = (np.array(column) for column in zip(*rows, strict=True))
    found = gain_loss_interval(base, other, groups, scale=scale)
    assert found.low <= np.mean(other - base) + 1e-12
    assert found.high >= np.mean(other - base) - 1e-12
    back = gain_loss_interval(other, base, groups, scale=scale)
    assert (back.low, back.high) == pytest.approx((-found.high, -found.low), abs=1e-12)
    shuffled = random.sample(rows, len(rows))
    base, other, groups = (np.array(column) for column in zip(*shuffled, strict=True))
    assert gain_loss_interval(base, other, 7 - groups, scale=scale) == found


def test_nothing_that_differs_still_leaves_something_that_may():
    found = interval([0.0] * 300)
    assert (found.low, found.high) == pytest.approx((-found.high, 2.464 / 300), rel=1e-3)  # of a chi-square of 1
    spread = interval([0.0] * 4, base=[100.0, 300.0] * 2, scale="amount")  # sd 100
    assert spread.high == pytest.approx(100 * 2.464 / 4, rel=1e-3)
    equal = interval([0.0] * 30, base=[100.0] * 30, scale="amount")
    assert (equal.low, equal.high, equal.holds) == (0.0, 0.0, False)


def test_without_a_pair_anything_may_be():
    none = gain_loss_interval([], [], [], scale="share")
    assert (none.low, none.high, none.holds) == (-1.0, 1.0, False)
    unknown = gain_loss_interval([1.0, np.nan], [np.nan, 2.0], [0, 1], scale="amount")
    assert (unknown.low, unknown.high) == (-math.inf, math.inf)


def test_a_single_pair_says_next_to_nothing():
    found = interval([-1.0])
    assert (found.low, found.holds) == (-1.0, False)
    assert found.high > 0.5


def test_too_few_groups_or_amounts_that_differ_do_not_hold():
    base = [100.0 * (i % 7) for i in range(40)]  # sd 200
    few, enough = ([5.0] * k + [0.0] * (40 - k) for k in (9, 10))
    assert not interval(few, base=base, scale="amount").holds
    assert interval(enough, base=base, scale="amount").holds
    assert not interval([50.0] * 10 + [0.0] * 30, base=base, scale="amount").holds  # not small beside 200
    larger = [50.0] * 59 + [0.0] * 30, [50.0] * 60 + [0.0] * 30
    assert [
        interval(each, base=[100.0 * (i % 7) for i in range(len(each))], scale="amount").holds for each in larger
    ] == [
        False,
        True,
    ]
    pairs = np.arange(40) // 2
    assert not interval([5.0] * 18 + [0.0] * 22, base=base, groups=pairs, scale="amount").holds  # 9 groups
    assert not interval([0.0] * 40, groups=np.arange(40) % 19).holds
    assert interval([0.0] * 40, groups=np.arange(40) % 20).holds


def test_groups_that_change_as_one_widen_it():
    losses = [-1.0] * 40 + [0.0] * 160
    alone, together = interval(losses), interval(losses, groups=np.arange(200) // 4)
    assert together.high - together.low > 1.5 * (alone.high - alone.low)  # about sqrt(4)


def test_unequal_lengths_are_refused():
    with pytest.raises(ParameterError, match=r"equal lengths, got shapes \(2,\), \(1,\) and \(2,\)"):
        gain_loss_interval([1.0, 2.0], [1.0], [0, 1], scale="amount")


# ---------------------------------------------------------------------------------------------- agreement with p


def test_an_interval_lies_on_one_side_of_nothing_exactly_if_its_p_value_tells():
    rng = np.random.default_rng(8)
    moved = 0
    for draw in range(300):
        base = rng.lognormal(7, 0.5, 40)
        other = base + rng.lognormal(4, 1, 40) * (rng.random(40) < 0.25) * rng.choice([1, 1, 1, -1], 40)
        found = compare(base, other, scale="amount", seed=draw)
        mine = agreeing(found)
        one_side = mine.interval.low >= 0 or mine.interval.high <= 0
        assert one_side is (mine.p <= mine.alpha) or found.difference == 0
        assert mine.interval.low <= found.difference <= mine.interval.high
        moved += mine != found
    assert moved


def test_nothing_compared_agrees_with_itself():
    assert agreeing(compare([], [], scale="share")).n == 0


# ---------------------------------------------------------------------------------------------- how often they hold


def covered(n, share, sizes, *, up=1.0, spread=3.0, draws=400):
    """Coverage where a share of queries differs by random sizes of mean 1, `up` of them to the better."""
    rng = np.random.default_rng([n, round(1000 * share), round(10 * up)])
    truth, hits = share * (2 * up - 1), 0
    for _ in range(draws):
        away = np.where(rng.random(n) < share, sizes(rng, n) * np.where(rng.random(n) < up, 1.0, -1.0), 0.0)
        found = interval(away, base=rng.normal(100.0, spread, n), scale="amount")
        hits += found.low <= truth <= found.high
    return hits / draws


def lognormal(rng, n):
    return rng.lognormal(-0.5, 1.0, n)


@pytest.mark.parametrize("n", [30, 100, 300])
@pytest.mark.parametrize("share", [0.02, 0.1, 0.35])
@pytest.mark.parametrize("up", [1.0, 0.5])
def test_amounts_that_few_queries_carry_are_covered(n, share, up):
    assert covered(n, share, lognormal, up=up) >= 0.93 - 0.03  # 400 draws: sd 1.3%


def test_where_all_differ_it_is_no_wider_than_it_must_be():
    assert covered(100, 1.0, lambda rng, n: rng.lognormal(-0.125, 0.5, n), spread=1.0) == pytest.approx(0.96, abs=0.03)
