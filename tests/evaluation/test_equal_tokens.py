"""Completeness at equal tokens: the base's curve, the comparison on it, and how often it is wrong by chance."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench.evaluation.comparisons import Curve, at_equal_tokens, refining
from ctxbench.io.errors import ParameterError
from ctxbench.model.registry import StoredPipeline

NAN = np.nan

# Two settings besides nothing, four queries: 10 tokens buy half of them, 30 buy three quarters.
CURVE = Curve(
    complete=np.array([[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]], dtype=np.float64),
    tokens=np.array([[0, 0, 0, 0], [10, 10, 10, 10], [30, 30, 30, 30]], dtype=np.float64),
)


def values(*numbers):
    return np.array(numbers, dtype=np.float64)


def test_between_two_settings_the_base_is_the_one_or_the_other_by_lot():
    found = at_equal_tokens(values(1, 1, 1, 1), values(15, 15, 15, 15), CURVE)
    assert found.base == pytest.approx(0.75 * 2 / 4 + 0.25 * 3 / 4)
    assert (found.tokens, found.complete) == (15.0, 1.0)
    assert found.comparison.difference == pytest.approx(1.0 - 0.5625)


def test_a_setting_of_the_base_itself_is_no_different_from_it():
    for setting in range(3):
        found = at_equal_tokens(CURVE.complete[setting], CURVE.tokens[setting], CURVE)
        assert found.comparison.difference == 0.0
        assert found.comparison.p == 1.0


def test_a_strategy_between_nothing_and_the_first_setting_is_compared_too():
    found = at_equal_tokens(values(1, 0, 0, 0), values(20, 0, 0, 0), CURVE)
    assert found.base == pytest.approx(0.25)
    assert found.comparison.difference == pytest.approx(0.0, abs=1e-12)


def test_more_tokens_than_the_whole_curve_are_not_compared():
    found = at_equal_tokens(values(1, 1, 1, 1), values(31, 30, 30, 30), CURVE)
    assert found.comparison is None
    assert np.isnan(found.base)
    assert at_equal_tokens(values(1, 1, 1, 1), values(30, 30, 30, 30), CURVE).comparison is not None


def test_groups_count_as_wholes():
    curve = Curve(complete=np.zeros((2, 40)), tokens=np.stack([np.zeros(40), np.full(40, 10.0)]))
    won = np.repeat([1.0, 0.0], [8, 32])
    found = at_equal_tokens(won, np.full(40, 10.0), curve, groups=np.repeat([0, 1], [8, 32]))
    assert found.comparison.p == pytest.approx(2 / 2**8), "eight queries of forty differ, all to one side"
    assert found.p_groups == 1.0, "but all eight are one group"
    alone = at_equal_tokens(won, np.full(40, 10.0), curve)
    assert alone.p_groups == alone.comparison.p == found.comparison.p


def test_what_needs_nothing_costs_tokens_and_counts_for_no_completeness():
    curve = Curve(
        complete=np.array([[0, 0, NAN, NAN], [1, 0, NAN, NAN]]),
        tokens=np.array([[0, 0, 0, 0], [10, 10, 10, 10]], dtype=np.float64),
    )
    found = at_equal_tokens(values(1, 0, NAN, NAN), values(10, 10, 0, 0), curve)
    assert found.tokens == 5.0
    assert found.base == pytest.approx(0.25), "the base has 5 tokens a query if it asks for half of the queries"
    assert found.comparison.difference == pytest.approx(0.25)


def test_without_a_query_that_needs_anything_nothing_is_told():
    curve = Curve(complete=np.full((2, 3), NAN), tokens=np.array([[0, 0, 0], [1, 1, 1]], dtype=np.float64))
    found = at_equal_tokens(values(NAN, NAN, NAN), values(1, 1, 1), curve)
    assert (found.comparison.n, found.comparison.significant) == (0, False)


def test_one_query_is_compared_and_tells_nothing():
    curve = Curve(complete=np.array([[0.0], [1.0]]), tokens=np.array([[0.0], [8.0]]))
    found = at_equal_tokens(values(1), values(4), curve)
    assert found.comparison.difference == pytest.approx(0.5)
    assert not found.comparison.significant


def test_the_order_of_the_queries_does_not_matter():
    rng = np.random.default_rng(5)
    complete, tokens = rng.integers(0, 2, 40).astype(float), rng.integers(5, 30, 40).astype(float)
    curve = Curve(complete=np.repeat(CURVE.complete, 10, axis=1), tokens=np.repeat(CURVE.tokens, 10, axis=1))
    shuffled = rng.permutation(40)
    one = at_equal_tokens(complete, tokens, curve).comparison
    other = at_equal_tokens(
        complete[shuffled], tokens[shuffled], Curve(curve.complete[:, shuffled], curve.tokens[:, shuffled])
    ).comparison
    assert (one.p, one.difference) == pytest.approx((other.p, other.difference), abs=1e-12)


@pytest.mark.parametrize(
    ("complete", "tokens", "message"),
    [
        (values(1, 1), values(1, 1), "the same queries"),
        (values(1, 1, 1, 1), values(1, 1, 1), "the same queries"),
        (values(1, 1, 1, 1), values(1, 1, 1, NAN), "failed has no tokens"),
    ],
)
def test_what_cannot_be_compared_is_refused(complete, tokens, message):
    with pytest.raises(ParameterError, match=message):
        at_equal_tokens(complete, tokens, CURVE)


def test_a_curve_has_two_settings_or_more_and_never_falls():
    with pytest.raises(ParameterError, match="two or more settings"):
        Curve(np.zeros((1, 3)), np.zeros((1, 3)))
    with pytest.raises(ParameterError, match="must not fall"):
        Curve(np.zeros((2, 2)), np.array([[0.0, 5.0], [1.0, 4.0]]))


def simulated(rng, n, gain=0.0, changed=1.0):
    """A base whose rankings hold one required item each, and another ranking of the same quality plus `gain`.

    Items cost 20 to 400 tokens, as those of a query are alike. The strategy offers a varying number of items, so that
    its tokens differ from the base's query by query. The ranking of a query is another one with the chance `changed`.
    """
    settings = np.arange(0, 21)
    cost = np.cumsum(rng.lognormal(4.5, 0.6, (n, 1)) * rng.uniform(0.5, 1.5, (n, 20)), axis=1)
    cost = np.concatenate([np.zeros((n, 1)), cost], axis=1)
    hard = rng.uniform(0.02, 0.5, n)
    base_rank, own_rank = rng.geometric(hard), rng.geometric(np.clip(hard + gain, 0, 1))
    curve = Curve((settings[:, None] >= base_rank).astype(float), cost.T)
    own_rank = np.where(rng.random(n) < changed, own_rank, base_rank)
    length = rng.integers(3, 8, n) if changed == 1.0 else np.full(n, 5)
    return (length >= own_rank).astype(float), cost[np.arange(n), length], curve


def test_a_strategy_that_is_no_better_is_seldom_told_apart_and_a_better_one_often():
    rng = np.random.default_rng(11)
    null = [at_equal_tokens(*simulated(rng, 120)).comparison for _ in range(300)]
    rate = np.mean([one.significant for one in null])
    covered = np.mean([one.interval.low <= 0 <= one.interval.high for one in null])
    assert 0.02 <= rate <= 0.09, rate
    assert 0.91 <= covered <= 0.985, covered
    sparse = [at_equal_tokens(*simulated(rng, 150, changed=0.1)).comparison for _ in range(300)]
    assert np.mean([one.significant for one in sparse]) <= 0.07
    assert np.mean([one.interval.low <= 0 <= one.interval.high for one in sparse]) >= 0.93
    better = [at_equal_tokens(*simulated(rng, 120, gain=0.2)).comparison for _ in range(50)]
    assert np.mean([one.significant and one.difference > 0 for one in better]) >= 0.9


STEP = {"step": "cut:standard", "version": 1, "topK": 9, "topN": 3, "includeScore": 0.5}
MARGIN = {"step": "cut:margin", "version": 1, "margin": 1.0, "of": "ratio", "at_least": 0, "at_most": 9}


def stored(*refine):
    return StoredPipeline.of({"pipeline": {"refine": list(refine)}})


def test_steps_that_are_switched_off_are_no_refining_steps():
    off = {"step": "expand:expansion", "version": 1, "enabled": False}
    on = {**off, "enabled": True}
    assert refining(stored(STEP, MARGIN, off, on).refine) == stored(STEP, on).refine
    domains = {"step": "by_domain", "domains": [["tool", [STEP, MARGIN]], ["*", [MARGIN, STEP, off]]]}
    assert (
        refining(stored(domains).refine)
        == stored({**domains, "domains": [["tool", [STEP]], ["*", [MARGIN, STEP]]]}).refine
    )
    assert refining(stored().refine) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"margin": 0.99},
        {"of": "difference"},  # a score may fall by more than 1 below the best
        {"at_most": 8},  # the standard cut may offer nine
        {"step": "cut:gap"},
    ],
)
def test_a_margin_that_may_leave_something_out_is_a_step(change):
    both = stored(STEP, {**MARGIN, **change})
    assert refining(both.refine) == both.refine


def test_a_margin_alone_is_a_step_also_where_it_is_of_the_whole_score():
    alone = stored(MARGIN)
    assert refining(alone.refine) == alone.refine, "without a standard cut before it, it leaves out negative scores"
