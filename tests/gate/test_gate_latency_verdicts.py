"""Times judged: size and ranks, few requests, several selectors at once, and how it joins a check."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from ctxbench.core.errors import ParameterError
from ctxbench.gate.check_settings import CheckSettings
from ctxbench.gate.model import Check, SelectorCheck, Verdict
from ctxbench.gate.warm_latency import LatencySamples, hodges_lehmann, join_latency, judge_latency, rank_test


def samples(ratios, *, base=0.002, rounds=3, **given):
    """Requests that take `base` seconds at the base and as many times that at the head, the same in every round."""
    before = np.full((len(ratios), rounds), base)
    names = tuple(f"q{place}" for place in range(len(ratios)))
    return LatencySamples(queries=names, base=before, head=before * np.array(ratios)[:, None], **given)


def judge(ratios, **settings):
    (found,) = judge_latency([samples(ratios)], CheckSettings(**settings))
    return found


# ------------------------------------------------------------------------------------------------------------ verdicts


def test_longer_by_half_on_ten_requests_is_worse():
    found = judge([1.5] * 10)
    assert found.verdict is Verdict.WORSE
    assert found.ratio == pytest.approx(1.5)
    assert (found.base_s, found.head_s) == pytest.approx((0.002, 0.003))
    assert found.p == found.p_holm == pytest.approx(2 / 2**10)
    assert np.shape(found.base) == np.shape(found.head) == (10, 3)


def test_shorter_by_as_much_is_better():
    found = judge([1 / 1.5] * 10)
    assert (found.verdict, found.ratio) == (Verdict.BETTER, pytest.approx(1 / 1.5))


@pytest.mark.parametrize("ratio", [1.25, 1 / 1.25, 1.2, 1.0])
def test_within_the_tolerance_is_the_same_whatever_the_ranks_say(ratio):
    assert judge([ratio] * 20).verdict is Verdict.SAME
    assert judge([ratio]).verdict is Verdict.SAME


def test_the_tolerance_is_that_of_the_settings():
    assert judge([1.25] * 10, latency_tolerance=0.2).verdict is Verdict.WORSE
    assert judge([1.9] * 10, latency_tolerance=1.0).verdict is Verdict.SAME
    assert judge([1.01] * 10, latency_tolerance=0.0).verdict is Verdict.WORSE


def test_nothing_that_differs_is_no_evidence():
    found = judge([1.0] * 8, latency_tolerance=0.0)
    assert (found.verdict, found.ratio, found.p) == (Verdict.SAME, 1.0, 1.0)


def test_large_but_of_both_signs_cannot_be_told():
    found = judge([4, 3, 2.5, 2, 1.5, 1 / 3.5, 1 / 2.2])
    assert found.ratio > 1.25
    assert found.p > 0.05
    assert found.verdict is Verdict.CANNOT_TELL


def test_five_requests_tell_nothing_and_six_do():
    assert (judge([9.0] * 5).verdict, judge([9.0] * 6).verdict) == (Verdict.CANNOT_TELL, Verdict.WORSE)
    few = judge([9.0] * 5, confidence=0.9)  # p is 2 / 2^5 = 0.0625, which 0.1 would allow
    assert (few.verdict, few.p) == (Verdict.CANNOT_TELL, 0.0625)
    assert (few.low, few.high) == pytest.approx((9.0, 9.0))
    assert (judge([9.0]).low, judge([9.0]).high) == (0.0, math.inf)


def test_faster_without_evidence_is_the_same_and_says_so():
    few = judge([0.5] * 5)
    assert (few.verdict, judge([0.5] * 6).verdict) == (Verdict.SAME, Verdict.BETTER)
    (reason,) = join_latency(checked(), {("d", "s"): few}).selectors[0].reasons[-1:]
    what = "a request takes 0.50 times as long as at the base: for the better by more than the 25% tolerated"
    assert reason == f"{what}, but not told apart from chance on 5 requests (p = 0.062)"


def test_a_round_that_was_disturbed_does_not_count():
    one = samples([1.0] * 10)
    one.head[:, 1] *= 50
    assert judge_latency([one], CheckSettings())[0].verdict is Verdict.SAME


def test_all_selectors_of_a_check_are_corrected_together():
    alone, both = (
        judge_latency([samples([2.0] * 6)], CheckSettings()),
        judge_latency([samples([2.0] * 6)] * 2, CheckSettings()),
    )
    assert [one.verdict for one in alone] == [Verdict.WORSE]
    assert [(one.verdict, one.p, one.p_holm) for one in both] == [(Verdict.CANNOT_TELL, 0.03125, 0.0625)] * 2
    assert judge_latency([], CheckSettings()) == []


def test_the_order_of_requests_changes_nothing():
    rng = np.random.default_rng(3)
    ratios = rng.lognormal(0.3, 0.2, 15)
    first, other = judge(ratios), judge(rng.permutation(ratios))
    for name in ("verdict", "ratio", "low", "high", "p", "base_s", "head_s"):
        assert getattr(first, name) == getattr(other, name)


@pytest.mark.parametrize(
    ("base", "head", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 2)), "shape"),
        (np.ones((3, 3)), np.ones((3, 3)), "shape"),
        (np.ones((2, 0)), np.ones((2, 0)), "shape"),
        (np.ones((2, 1)), np.zeros((2, 1)), "above 0"),
        (np.ones((2, 1)), np.full((2, 1), np.nan), "above 0"),
    ],
)
def test_times_that_are_none_are_refused(base, head, message):
    with pytest.raises(ParameterError, match=message):
        LatencySamples(queries=("a", "b"), base=base, head=head)


# ----------------------------------------------------------------------------------------------------------- statistics


def test_centre_and_interval_by_hand():
    # 1, 2, 4: means of two, each with itself, are 1, 1.5, 2, 2.5, 3, 4; three differences carry no interval of 0.95
    assert hodges_lehmann(np.array([4.0, 1.0, 2.0]), alpha=0.05) == (2.25, -math.inf, math.inf)
    # P(W <= 0) = 1 / 64 <= 0.025 < P(W <= 1) = 2 / 64: from the lowest mean to the highest
    assert hodges_lehmann(np.array([1.0, 2, 3, 4, 5, 6]), alpha=0.05) == (3.5, 1.0, 6.0)
    # 10 differences: 8 is the critical value of tables for 0.05, two-sided, so the 9th mean from either end
    ten = np.arange(1.0, 11.0) ** 2
    means = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(ten, 2))
    assert hodges_lehmann(ten, alpha=0.05)[1:] == (means[8], means[-9])


@settings(deadline=None, database=None, derandomize=True)  # the first example imports what the tests of ranks take
@given(some.lists(some.floats(-2, 2), min_size=6, max_size=12, unique_by=abs), some.sampled_from([0.05, 0.1, 0.01]))
def test_the_interval_leaves_out_0_where_the_rank_test_tells(values, alpha):
    differences = np.array(values)
    walsh = [a + b for a, b in itertools.combinations_with_replacement(values, 2)]
    if min(map(abs, walsh)) < 1e-9:
        return  # a tie at 0 itself
    _, low, high = hodges_lehmann(differences, alpha=alpha)
    assert (not low <= 0 <= high) == (rank_test(differences) <= alpha)


@pytest.mark.parametrize("draw", ["normal", "standard_cauchy"])
@pytest.mark.parametrize("n", [6, 12, 40])
def test_where_nothing_is_true_it_is_told_apart_as_seldom_as_is_said(draw, n):
    rng = np.random.default_rng([1, n, len(draw)])
    times, settings = 500, CheckSettings(latency_tolerance=0.0)
    logs = [0.1 * getattr(rng, draw)(size=n) for _ in range(times)]
    found = [judge_latency([samples(np.exp(np.clip(one, -20, 20)))], settings)[0] for one in logs]
    told = sum(one.verdict in (Verdict.WORSE, Verdict.BETTER) for one in found)
    covered = sum(one.low <= 1.0 <= one.high for one in found)
    three_errors = 3 * math.sqrt(times * 0.05 * 0.95)
    assert told <= 0.05 * times + three_errors
    assert covered >= 0.95 * times - three_errors


def test_over_four_selectors_together_it_is_still_as_seldom():
    rng = np.random.default_rng(5)
    times, settings = 300, CheckSettings(latency_tolerance=0.0)
    wrong = 0
    for _ in range(times):
        found = judge_latency([samples(rng.lognormal(0.0, 0.1, 20)) for _ in range(4)], settings)
        wrong += any(one.verdict in (Verdict.WORSE, Verdict.BETTER) for one in found)
    assert wrong <= 0.05 * times + 3 * math.sqrt(times * 0.05 * 0.95)


# -------------------------------------------------------------------------------------------------- joined to a check


def checked(verdict=Verdict.SAME):
    one = SelectorCheck(dataset="d", selector="s", verdict=verdict, reasons=("as before",), notices=("first",))
    return Check(name="g", base="b", head="h", selectors=(one,))


@pytest.mark.parametrize(
    ("before", "ratio", "verdict", "reasons"),
    [
        (Verdict.SAME, 2.0, Verdict.WORSE, ["takes 2.00 times"]),
        (Verdict.SAME, 1.0, Verdict.SAME, ["as before", "takes 1.00 times"]),
        (Verdict.SAME, 0.5, Verdict.BETTER, ["takes 0.50 times"]),
        (Verdict.WORSE, 2.0, Verdict.WORSE, ["as before", "takes 2.00 times"]),
        (Verdict.WORSE, 0.5, Verdict.WORSE, ["as before"]),
        (Verdict.CANNOT_TELL, 0.5, Verdict.CANNOT_TELL, ["as before"]),
        (Verdict.BETTER, 1.0, Verdict.BETTER, ["as before"]),
        (Verdict.BETTER, 2.0, Verdict.WORSE, ["takes 2.00 times"]),
    ],
)
def test_the_worse_of_both_verdicts_holds_with_its_reasons(before, ratio, verdict, reasons):
    found = join_latency(checked(before), {("d", "s"): judge([ratio] * 10)})
    (one,) = found.selectors
    assert found.verdict is one.verdict is verdict
    assert len(one.reasons) == len(reasons)
    assert all(part in told for part, told in zip(reasons, one.reasons, strict=True))


def test_what_could_not_be_timed_is_said_and_judged_by_the_rest():
    (one,) = join_latency(checked(), {("d", "s"): "it is not one pipeline"}).selectors
    assert (one.verdict, one.latency) == (Verdict.SAME, None)
    assert one.notices == ("first", "latency was not timed: it is not one pipeline")
    assert join_latency(checked(), {}).selectors[0].notices == ("first",)


def test_reasons_say_how_sure_it_is():
    few = join_latency(checked(), {("d", "s"): judge([2.0] * 5)}).selectors[0].reasons[0]
    assert "beyond the 25% tolerated, but not told apart from chance on 5 requests (p = 0.062)" in few
    many = join_latency(checked(), {("d", "s"): judge([2.0] * 10)}).selectors[0].reasons[0]
    assert "beyond the 25% tolerated, p = 0.002 on 10 requests" in many
