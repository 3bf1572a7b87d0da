"""What intervals that `tune` prints cover: exact where it can be; experiments/tuning has the larger form."""

from __future__ import annotations

import sys
from math import comb
from pathlib import Path

import numpy as np
import pytest

from ctxbench.evaluation.statistics import wilson, wilson_bounds

ROOT = Path(__file__).parents[2]
MODULES = ("coverage_drawn", "coverage_groups", "coverage_choice")
WILSON = {  # coverage in percent, by (n, p)
    (50, 0.5): 93.51,
    (50, 0.9): 97.03,  # above the bar of 93 to 97
    (50, 0.98): 92.16,  # below it
    (100, 0.5): 94.31,
    (100, 0.9): 93.64,
    (100, 0.98): 94.92,
    (300, 0.5): 94.34,
    (300, 0.9): 95.75,
    (300, 0.98): 94.24,
}


@pytest.fixture(scope="module")
def simulation():
    """The simulation's modules."""
    sys.path.insert(0, str(ROOT / "experiments" / "tuning"))
    try:
        import coverage_choice
        import coverage_drawn
        import coverage_groups
    finally:
        sys.path.remove(str(ROOT / "experiments" / "tuning"))
    yield coverage_drawn, coverage_groups, coverage_choice
    for name in MODULES:
        del sys.modules[name]


def chance(count, n, p):
    return comb(n, count) * p**count * (1 - p) ** (n - count)


def held(count, n, p):
    interval = wilson(count, n)
    return interval.low <= p <= interval.high


@pytest.mark.parametrize(("n", "p"), WILSON)
def test_coverage_of_a_share_of_queries_in_the_nine_cells(n, p):
    covered = sum(chance(count, n, p) for count in range(n + 1) if held(count, n, p))
    assert 100 * covered == pytest.approx(WILSON[n, p], abs=0.005)


def test_two_of_the_nine_cells_are_outside_the_bar():
    assert [cell for cell, covered in WILSON.items() if not 93 <= covered <= 97] == [(50, 0.9), (50, 0.98)]


def test_the_page_counts_them_exactly(simulation):
    drawn, *_ = simulation
    assert {cell: round(100 * drawn.count_coverage(*cell), 2) for cell in WILSON} == WILSON


# ------------------------------------------------------------------------------------------------ samples


def test_intervals_of_recall_and_tokens_cover(simulation):
    drawn, *_ = simulation
    for together in (0.0, 0.5):
        assert 0.93 <= drawn.share_coverage(100, 0.9, together=together, draws=2000, seed=1) <= 0.97
    for name in ("first 5", "at least 5", "margin"):
        assert 0.93 <= drawn.amount_coverage(name, 100, draws=2000, seed=1) <= 0.97
    assert drawn.amount_coverage("seldom many", 50, draws=2000, seed=1) < 0.93


def test_the_populations_have_the_means_that_they_say(simulation):
    drawn, *_ = simulation
    rng = np.random.default_rng(0)
    for name, amount in drawn.AMOUNTS.items():
        assert amount.tokens(rng, (200, 1000)).mean() == pytest.approx(amount.truth, rel=0.02), name
    for name, pair in drawn.PAIRS.items():
        assert pair.differences(rng, (200, 1000)).mean() == pytest.approx(pair.truth, rel=0.05), name
    assert drawn.recalls(rng, (200, 1000), 0.9, together=0.5).mean() == pytest.approx(0.9, abs=0.005)


def test_coverage_of_a_difference_in_completeness_is_exact(simulation):
    """n = 2, nothing won: 0, 1 or 2 queries are lost."""
    from ctxbench.evaluation.statistics import difference_interval

    drawn, *_ = simulation
    lost = 0.3
    ways = {0: 0.49, 1: 0.42, 2: 0.09}
    intervals = {k: difference_interval([-1.0] * k + [0.0] * (2 - k), scale="yes/no") for k in ways}
    covered = sum(weight * (intervals[k].low <= -lost <= intervals[k].high) for k, weight in ways.items())
    assert drawn.switch_coverage(2, lost, 0.0) == pytest.approx(covered)


# ------------------------------------------------------------------------------------------------- groups


def test_by_query_the_interval_of_such_groups_covers_too_seldom():
    n, p = 33, 0.9
    ends = {size: wilson_bounds(np.arange(n + 1) / n, size) for size in (n, 3 * n)}
    covered = {
        size: sum(chance(count, n, p) for count in range(n + 1) if low[count] <= p <= high[count])
        for size, (low, high) in ends.items()
    }
    assert covered[n] > 0.93
    assert covered[3 * n] < 0.76


def test_by_group_all_that_is_printed_covers_and_by_query_it_does_not(simulation):
    """34 groups of 3 and less, correlation 0.5."""
    _, groups, _ = simulation
    sizes = groups.group_sizes(100)
    by_query, by_group = groups.grouped_coverage(sizes, 0.5, rho=0.5, draws=2000, seed=1)
    assert by_query < 0.87 < 0.93 < by_group < 0.97
    by_query, by_group = groups.grouped_recall(sizes, 0.9, rho=0.5, draws=300, seed=1)
    assert by_query < 0.87 < by_group
    by_query, by_group = groups.grouped_tokens(sizes, rho=0.5, draws=500, seed=1)
    assert by_query < 0.88 < 0.92 < by_group
    by_query, by_group = groups.grouped_differences(sizes, 0.1, 0.1, rho=0.5, draws=150, seed=1)
    assert by_query[0] < 0.92 < by_group[0]
    assert by_query[1] > by_group[1]  # significant though the sides are equal


def test_sizes_of_groups_add_up(simulation):
    _, groups, _ = simulation
    for n in (1, 2, 3, 50, 300):
        assert groups.group_sizes(n).sum() == n
        assert groups.uneven_sizes(n).sum() == n


# --------------------------------------------------------------------------------------------- after choosing


def test_the_test_split_tells_the_truth_of_what_was_chosen_and_the_tuning_split_flatters_it(simulation, monkeypatch):
    *_, choice = simulation
    monkeypatch.setattr(choice, "QUERIES", 4000)
    whole = choice.population(3)
    arms = choice.choices(whole, choice.FAMILIES["all"], 50, samples=40, seed=1)
    enough = next(
        [one for one in arm if one is not None]
        for (policy, level), arm in zip(choice.ARMS, arms, strict=True)
        if policy is choice.ENOUGH and level == 0.95
    )
    assert len(enough) > 25
    tuning, test = ([one.said[query_set][0] for one in enough] for query_set in ("tuning", "test"))
    assert np.mean([one.covered for one in test]) > 0.85
    assert abs(np.mean([one.optimism for one in test])) < 0.03
    assert np.mean([one.optimism for one in tuning]) > 0.02
    assert np.mean([one.met for one in enough]) > 0.8
    again = choice.choices(whole, choice.FAMILIES["all"], 50, samples=2, seed=1)
    assert [arm[:2] for arm in arms] == again
