"""Metrics judged by size and evidence, and what could have been told."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from ctxbench.evaluation.comparisons import (
    POWER,
    agreeing,
    compare_metric,
    detectable,
    gain_loss_interval,
    grouped_compare,
)
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.evaluation.statistics import compare, holm
from ctxbench.gate.results import MetricPair, Verdict, judge_metrics
from ctxbench.gate.settings import CheckSettings, Tolerance
from tests.gate.gate_cases import snapshot

COMPLETENESS, RECALL, TOKENS = map(parse_metric, ("completeness", "recall", "tokens"))


def made(n, groups=None, **metrics):
    """A snapshot of n queries with the values given by metric name."""
    queries = {f"q{i}": {"group": str(groups[i])} for i in range(n)} if groups is not None else None
    values = {parse_metric(name): np.asarray(column, dtype=np.float64) for name, column in metrics.items()}
    return snapshot({f"q{i}": [] for i in range(n)}, queries=queries, metrics=values)


def pair(base, head, **given):
    return MetricPair(base=base, head=head, queries=tuple(head.queries), **given)


def settings(*names, **given):
    return CheckSettings(metrics=tuple(map(parse_metric, names)), **given)


def judged(base, head, *names, **given):
    same = given.pop("same", ())
    return judge_metrics([pair(base, head, swaps=same)], settings(*names, **given))[0]


def ones(n, zeros=0):
    return [0.0] * zeros + [1.0] * (n - zeros)


@pytest.mark.parametrize(
    ("base", "head", "verdict"),
    [
        (0, 0, Verdict.SAME),
        (0, 2, Verdict.SAME),  # 2 of 200: 0.01, as much as is tolerated
        (0, 3, Verdict.INCONCLUSIVE),  # 0.015, p = 2 / 2^3
        (0, 5, Verdict.INCONCLUSIVE),  # p = 2 / 2^5 = 0.0625
        (0, 6, Verdict.WORSE),  # p = 2 / 2^6 = 0.03
        (6, 0, Verdict.BETTER),
        (5, 0, Verdict.SAME),  # for the better, by 0.025, p = 0.0625: no reason to ask for more
    ],
)
def test_worse_needs_size_and_evidence(base, head, verdict):
    (one,) = judged(made(200, completeness=ones(200, base)), made(200, completeness=ones(200, head)), "completeness")
    assert one.verdict is verdict
    assert one.comparison.difference == pytest.approx((base - head) / 200)
    assert (one.base.value, one.head.value) == (1 - base / 200, 1 - head / 200)
    assert one.tolerance == 0.01


@pytest.mark.parametrize(
    ("base", "head"),
    [
        ({"completeness": ones(200)}, {"completeness": ones(200, 6)}),
        ({"completeness": ones(20)}, {"completeness": ones(20, 6)}),
        ({"recall": [1.0] * 40}, {"recall": [0.5] * 6 + [1.0] * 34}),
        ({"tokens": [100.0] * 50}, {"tokens": [106.0] * 50}),
        ({"tokens": [10.0, 1000.0] * 25}, {"tokens": [80.0, 1070.0] * 25}),
        (
            {"completeness": ones(60), "recall": ones(60), "tokens": [100.0] * 60},
            {"completeness": ones(60, 8), "recall": ones(60, 8), "tokens": [120.0, 90.0, 130.0] * 20},
        ),
    ],
)
def test_a_loss_that_was_judged_worse_is_detectable(base, head):
    n = len(next(iter(base.values())))
    worse = [one for one in judged(made(n, **base), made(n, **head), *base) if one.verdict is Verdict.WORSE]
    assert worse
    for one in worse:
        assert one.detectable is not None
        assert 0 < one.detectable <= abs(one.comparison.difference)


def test_more_tokens_are_worse_beyond_a_share_of_the_bases_mean():
    base = made(50, tokens=[100.0] * 50)
    verdicts = {more: judged(base, made(50, tokens=[100.0 + more] * 50), "tokens")[0] for more in (-6, -5, 0, 5, 6)}
    assert [one.verdict.value for one in verdicts.values()] == ["better", "same", "same", "same", "worse"]
    assert verdicts[6].tolerance == 5.0


def test_a_tolerance_can_be_given():
    base, head = made(200, completeness=ones(200)), made(200, completeness=ones(200, 6))
    assert judged(base, head, "completeness", tolerances={COMPLETENESS: Tolerance(0.03)})[0].verdict is Verdict.SAME
    none = {COMPLETENESS: Tolerance(0.0)}
    assert judged(base, base, "completeness", tolerances=none)[0].verdict is Verdict.SAME


def test_nothing_to_judge_is_the_same_without_a_warning():
    nan = made(3, completeness=[np.nan] * 3)
    (one,) = judged(nan, nan, "completeness")
    assert (one.verdict, one.comparison.n, one.detectable) == (Verdict.SAME, 0, None)
    assert judged(made(0, completeness=[]), made(0, completeness=[]), "completeness")[0].verdict is Verdict.SAME


def test_a_single_query_is_inconclusive():
    (one,) = judged(made(1, completeness=[1]), made(1, completeness=[0]), "completeness")
    assert (one.verdict, one.detectable) == (Verdict.INCONCLUSIVE, None)


def test_metrics_that_a_side_lacks_are_left_out():
    full, half = made(2, recall=[1, 1], tokens=[1, 2]), made(2, recall=[1, 1])
    assert [one.metric for one in judged(full, half, "tokens", "recall", "nDCG@10")] == ["recall"]


def test_queries_are_paired_by_id_not_by_place():
    base = made(3, tokens=[1, 2, 3])
    head = snapshot({"q2": [], "q0": [], "q1": []}, metrics={TOKENS: np.array([3.0, 1.0, 2.0])})
    (one,) = judged(base, head, "tokens")
    assert (one.comparison.equal, one.comparison.n) == (3, 3)


def test_only_the_queries_compared_are_judged():
    base, head = made(3, tokens=[1, 2, 3]), made(3, tokens=[1, 2, 9])
    (one,) = judge_metrics([MetricPair(base=base, head=head, queries=("q0", "q1"))], settings("tokens"))[0]
    assert (one.comparison.n, one.comparison.difference, one.head.value) == (2, 0.0, 1.5)


def test_swaps_count_as_equal_whatever_their_values():
    base, head = made(40, recall=ones(40)), made(40, recall=ones(40, 20))
    same = tuple(f"q{i}" for i in range(20))
    (one,) = judged(base, head, "recall", same=same)
    assert (one.verdict, one.comparison.equal, one.head.value) == (Verdict.SAME, 40, 1.0)


def test_p_values_are_corrected_over_all_metrics_and_pairs():
    base = made(200, completeness=ones(200), recall=ones(200))
    heads = [made(200, completeness=ones(200, n), recall=ones(200, n)) for n in (6, 8)]
    found = judge_metrics([pair(base, head) for head in heads], settings("completeness", "recall"))
    plain = [
        compare_metric(metric, base.metrics, head.metrics, groups=np.arange(200)).p
        for head in heads
        for metric in (COMPLETENESS, RECALL)
    ]
    assert [one.comparison.p_holm for row in found for one in row] == pytest.approx(holm(plain))
    assert [one.verdict.value for row in found for one in row] == ["inconclusive"] * 2 + ["worse"] * 2
    assert judge_metrics([pair(base, heads[0])], settings("completeness"))[0][0].verdict is Verdict.WORSE


def test_confidence_is_that_of_tests_and_intervals():
    base, head = made(200, completeness=ones(200)), made(200, completeness=ones(200, 6))
    (one,) = judged(base, head, "completeness", confidence=0.99)
    assert (one.verdict, one.comparison.alpha, one.base.interval.level) == (Verdict.INCONCLUSIVE, 0.01, 0.99)


def test_queries_of_one_group_are_no_independent_evidence():
    groups = [i // 4 for i in range(80)]
    base, head = made(80, groups, completeness=ones(80)), made(80, groups, completeness=ones(80, 8))
    (one,) = judged(base, head, "completeness")
    plain = grouped_compare(ones(80), ones(80, 8), groups, scale="yes/no")
    interval = gain_loss_interval(ones(80), ones(80, 8), groups, scale="yes/no")
    assert one.comparison == agreeing(replace(plain, interval=interval, p_holm=one.comparison.p_holm))
    assert one.verdict is Verdict.INCONCLUSIVE  # two groups
    assert judged(made(80, completeness=ones(80)), made(80, completeness=ones(80, 8)), "completeness")[0].verdict is (
        Verdict.WORSE
    )


def test_means_over_repeats_are_judged_as_shares():
    base = replace(made(60, completeness=[1.0] * 60), repeats=3)
    head = replace(made(60, completeness=[2 / 3] * 60), repeats=3)
    (one,) = judged(base, head, "completeness")
    assert (one.verdict, one.comparison.test) == (Verdict.WORSE, "sign flips")
    assert one.head.value == pytest.approx(2 / 3)
    assert judged(made(60, completeness=[1.0] * 60), head, "completeness")[0].verdict is Verdict.WORSE


def test_bits_over_random_are_compared_by_their_success():
    success = {"Success@1": ones(40), "Chance@1": [0.1] * 40}
    base, head = made(40, **success), made(40, **{**success, "Success@1": ones(40, 20)})
    (one,) = judged(base, head, "BoR@1")
    assert (one.metric, one.verdict) == ("BoR@1", Verdict.WORSE)
    assert (one.base.value, one.head.value) == (pytest.approx(math.log2(10)), pytest.approx(math.log2(5)))
    assert one.comparison.difference == -0.5


def test_the_order_of_queries_decides_nothing():
    rng = np.random.default_rng(5)
    values = {"tokens": rng.lognormal(5, 1, 60), "recall": rng.random(60)}
    groups = [str(i // 3) for i in range(60)]
    other = {name: np.clip(column * rng.choice([1.0, 0.9], 60), 0, None) for name, column in values.items()}
    turned = rng.permutation(60)

    def shuffled(columns):
        made = {parse_metric(name): np.asarray(column)[turned] for name, column in columns.items()}
        queries = {f"q{i}": {"group": groups[i]} for i in turned}
        return snapshot({f"q{i}": [] for i in turned}, queries=queries, metrics=made)

    names = ("tokens", "recall")
    assert judged(made(60, groups, **values), made(60, groups, **other), *names) == judged(
        shuffled(values), shuffled(other), *names
    )


def test_swapping_the_sides_mirrors_better_and_worse():
    base, head = made(200, completeness=ones(200)), made(200, completeness=ones(200, 9))
    (there,), (back,) = judged(base, head, "completeness"), judged(head, base, "completeness")
    assert (there.verdict, back.verdict) == (Verdict.WORSE, Verdict.BETTER)
    assert there.comparison.p_holm == back.comparison.p_holm


def test_chance_alone_is_called_worse_no_more_often_than_is_said():
    """Simulation: nothing is better or worse, no tolerance; worse for any of four in at most half of alpha.

    Of 200 checks 2.5% are 5 (sd 2.2): 12 would be 3 sd above.
    """
    rng = np.random.default_rng(3)
    none = {COMPLETENESS: Tolerance(0.0), TOKENS: Tolerance(0.0)}
    worse = better = 0
    for _ in range(200):
        pairs = []
        for _selector in range(2):
            yes = (rng.random((2, 40)) < 0.7).astype(float)
            cost = rng.lognormal(5, 0.5, 40) * np.where(rng.random((2, 40)) < 0.4, 1.3, 1.0)
            sides = [made(40, completeness=yes[side], tokens=cost[side]) for side in (0, 1)]
            pairs.append(pair(*sides))
        found = judge_metrics(pairs, settings("completeness", "tokens", tolerances=none))
        verdicts = {one.verdict for row in found for one in row}
        worse += Verdict.WORSE in verdicts
        better += Verdict.BETTER in verdicts
    assert worse <= 12
    assert better <= 12


# ---------------------------------------------------------------------------------------------- what could be told


def yes_no(n, zeros=0, *, family=1, tolerance=0.0, higher=True, groups=None):
    comparison = compare(ones(n, zeros), ones(n, zeros), scale="yes/no")
    good = (n - zeros) / max(n, 1)
    room = good if higher else 1.0 - good
    number = n if groups is None else groups
    return detectable(comparison, groups=number, tolerance=tolerance, family=family, size=1.0, room=room)


def at_least(k, n, q):
    return sum(math.comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(k, n + 1))


@pytest.mark.parametrize(
    ("n", "family", "tolerance", "k"),
    [
        (100, 1, 0.01, 6),  # 2 / 2^6 <= 0.05 < 2 / 2^5
        (100, 6, 0.01, 8),  # 2 / 2^8 <= 0.05 / 6 < 2 / 2^7
        (300, 1, 0.03, 10),  # more than 9 of 300
        (6, 1, 0.0, 6),
    ],
)
def test_yes_or_no_is_told_by_the_exact_test(n, family, tolerance, k):
    found = yes_no(n, family=family, tolerance=tolerance)
    assert at_least(k, n, found) == pytest.approx(POWER, abs=1e-9)


def test_too_few_queries_tell_nothing():
    assert yes_no(5) is None
    assert yes_no(0) is None


def test_no_more_can_get_worse_than_is_good():
    assert yes_no(100, zeros=95) is None  # 5 are good, 6 would have to get worse
    assert yes_no(100, zeros=95, higher=False) is not None


def test_a_group_counts_as_one_query():
    assert yes_no(100, groups=25, tolerance=0.01) == yes_no(25, tolerance=0.01)


def test_without_a_size_and_a_difference_nothing_is_known():
    comparison = compare([5.0] * 50, [5.0] * 50, scale="amount")
    assert detectable(comparison, groups=50, tolerance=1.0, family=1, size=0.0) is None


def test_where_all_get_worse_alike_the_spread_of_the_differences_decides():
    away = np.tile([2.0, -2.0], 50)
    comparison = compare(np.full(100, 10.0), 10.0 + away, scale="amount")  # mean 0, sd 2, n 100: se 0.2
    told = detectable(comparison, groups=100, tolerance=0.0, family=1, size=0.0)
    assert told == pytest.approx((1.959964 + 0.841621) * 0.2, abs=1e-6)
    tolerant = detectable(comparison, groups=100, tolerance=1.0, family=1, size=0.0)
    assert tolerant == pytest.approx(1.0 + 0.841621 * 0.2, abs=1e-6)


def test_where_nothing_differs_a_size_decides_with_the_binomial_law():
    equal = compare([100.0] * 60, [100.0] * 60, scale="amount")
    found = detectable(equal, groups=60, tolerance=5.0, family=1, size=50.0)
    assert at_least(7, 60, found / 50.0) == pytest.approx(POWER, abs=1e-9)  # 6 times 50 is 5 times 60: within
    assert detectable(equal, groups=60, tolerance=0.0, family=1, size=50.0) == pytest.approx(50.0 * yes_no(60))


def test_differences_that_are_there_already_hide_some():
    plain = detectable(
        compare([100.0] * 60, [100.0] * 60, scale="amount"), groups=60, tolerance=0.0, family=1, size=9.0
    )
    noisy = compare(np.full(60, 100.0), 100.0 + np.tile([3.0, -3.0], 30), scale="amount")
    se = 3.0 / math.sqrt(60)
    expected = (plain + math.sqrt(plain**2 + 4 * ((1.959964 + 0.841621) * se) ** 2)) / 2
    assert detectable(noisy, groups=60, tolerance=0.0, family=1, size=9.0) == pytest.approx(expected, rel=1e-6)


def test_a_number_is_named_for_every_metric_though_nothing_differs():
    amounts = np.tile([100.0, 300.0], 50)  # sd 100
    shares = np.tile([0.0, 0.5, 0.5, 1.0], 25)  # those that have any have 2/3
    same = made(100, completeness=ones(100, 40), recall=shares, tokens=amounts)
    found = {one.metric: one.detectable for one in judged(same, same, "completeness", "recall", "tokens")}
    chance = yes_no(100, family=3)
    assert found["completeness"] == pytest.approx(chance)
    assert found["recall"] == pytest.approx(chance * 2 / 3)
    assert at_least(11, 100, found["tokens"] / 100.0) == pytest.approx(POWER, abs=1e-9)  # 10 are 5% of 200
    assert judged(made(100, tokens=[7.0] * 100), made(100, tokens=[7.0] * 100), "tokens")[0].detectable is None


def test_intervals_hold_where_few_queries_differ_and_agree_with_the_p_value():
    base = made(60, tokens=np.tile([1000.0, 3000.0], 30))
    for many in (0, 3, 5, 6, 12):
        head = made(60, tokens=np.tile([1000.0, 3000.0], 30) + np.repeat([40.0, 0.0], [many, 60 - many]))
        (one,) = judged(base, head, "tokens")
        low, high = one.comparison.interval.low, one.comparison.interval.high
        assert (low >= 0) is (one.comparison.p <= 0.05) is (many >= 6)
        assert high > 1000 * 2 / 60  # two more queries may cost 1000 more
        assert one.comparison.interval.holds is (many >= 10)


def test_what_is_detectable_is_found_as_often_as_is_said():
    """Simulation: of 400 draws with just that change about 80% are judged worse (sd 2%)."""
    rng = np.random.default_rng(11)
    n, q = 200, yes_no(200, tolerance=0.01)
    heads = (rng.random((400, n)) >= q).astype(float)
    base = made(n, completeness=ones(n))
    worse = [
        judged(base, made(n, completeness=head), "completeness")[0].verdict is Verdict.WORSE for head in heads[:150]
    ]
    assert np.mean(worse) == pytest.approx(POWER, abs=0.09)
    exact = [(n - head.sum()) >= 6 for head in heads]
    assert np.mean(exact) == pytest.approx(POWER, abs=0.06)


def test_detectable_amounts_are_found_as_often_as_is_said():
    """Simulation: 300 draws, about 80% judged worse (sd 2.3%)."""
    rng = np.random.default_rng(12)
    amounts = np.tile([100.0, 300.0], 50)
    base = made(100, tokens=amounts)
    change = judged(base, base, "tokens")[0].detectable
    heads = amounts + 100.0 * (rng.random((300, 100)) < change / 100.0)
    found = [judged(base, made(100, tokens=head), "tokens")[0].verdict is Verdict.WORSE for head in heads]
    assert np.mean(found) == pytest.approx(POWER, abs=0.07)
