"""Statistics against published values, closed forms and scipy, and the coverage of every interval."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ctxbench.evaluation import statistics
from ctxbench.evaluation.comparisons import compare_metric, estimates
from ctxbench.evaluation.metrics import Metric, evaluate, parse_metrics
from ctxbench.evaluation.statistics import (
    RESAMPLES,
    amount_interval,
    bootstrap_interval,
    compare,
    correct,
    critical,
    difference_interval,
    estimate,
    holm,
    mcnemar_exact,
    moment_bounds,
    power_fit,
    share_bounds,
    share_interval,
    sign_flip,
    sign_flip_floor,
    standardised_difference,
    student_critical,
    wilson,
    wilson_bounds,
)
from ctxbench.io.errors import ParameterError

NAN = math.nan


def ends(interval):
    return interval.low, interval.high


def covers(interval, truth):
    return interval.low - 1e-12 <= truth <= interval.high + 1e-12


# Wilson


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [  # Newcombe, Two-sided confidence intervals for the single proportion, Stat. Med. 17, 1998, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_published_values(successes, n, low, high):
    assert ends(wilson(successes, n)) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_wilson_equals_scipy(level):
    for n in (1, 7, 50, 1053):
        for successes in {0, 1, n // 3, n - 1, n}:
            theirs = scipy_stats.binomtest(successes, n).proportion_ci(level, method="wilson")
            assert ends(wilson(successes, n, level=level)) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize(
    ("n", "p", "coverage"),
    [  # the sum of binomial chances of the counts whose interval holds p, intervals by scipy 1.17 binomtest
        (50, 0.5, 0.9351),
        (50, 0.9, 0.9703),
        (50, 0.98, 0.9216),
        (100, 0.5, 0.9431),
        (100, 0.9, 0.9364),
        (100, 0.98, 0.9492),
        (300, 0.5, 0.9434),
        (300, 0.9, 0.9575),
        (300, 0.98, 0.9424),
    ],
)
def test_wilson_s_exact_coverage(n, p, coverage):
    counts = np.arange(n + 1)
    low, high = wilson_bounds(counts / n, n)
    chance = scipy_stats.binom.pmf(counts, n, p)
    assert chance[(low <= p) & (p <= high)].sum() == pytest.approx(coverage, abs=1e-4)


def test_wilson_s_mean_coverage_is_nominal():
    p = (np.arange(2000) + 0.5) / 2000
    for n in (10, 30, 100):
        counts = np.arange(n + 1)
        low, high = wilson_bounds(counts / n, n)
        chance = scipy_stats.binom.pmf(counts[:, None], n, p)
        mean = (chance * ((low[:, None] <= p) & (p <= high[:, None]))).sum(axis=0).mean()
        assert mean == pytest.approx(0.95, abs=0.01)


def test_a_percentile_bootstrap_covers_63_percent_where_wilson_covers_92():
    # It is [1, 1] when all 50 succeed, so it covers at most 1 - 0.98^50 = 0.636.
    n, p, rng = 50, 0.98, np.random.default_rng(0)
    coverage = 0.0
    for failures in range(8):
        draws = 1 - rng.binomial(n, failures / n, 4000) / n
        low, high = np.quantile(draws, [0.025, 0.975])
        coverage += scipy_stats.binom.pmf(n - failures, n, p) * (low <= p <= high)
    assert coverage == pytest.approx(0.635, abs=0.01)


def test_wilson_without_trials_says_nothing():
    assert ends(wilson(0, 0)) == (0.0, 1.0)
    assert not wilson(0, 0).holds
    assert wilson(10, 10).holds
    with pytest.raises(ParameterError, match="successes must be 0 to 3, got 4"):
        wilson(4, 3)


# Quantiles


def test_critical_values():
    assert critical(0.95) == pytest.approx(1.959963984540054, abs=1e-12)
    for level in (0.0, 1.0, NAN):
        with pytest.raises(ParameterError, match="level must be above 0 and below 1"):
            critical(level)


@pytest.mark.parametrize(("df", "within"), [(4, 2e-3), (9, 1e-4), (19, 1e-5), (99, 1e-7), (5000, 1e-9)])
def test_student_s_t_is_near_the_exact_quantile(df, within):
    assert student_critical(0.95, df) == pytest.approx(scipy_stats.t.ppf(0.975, df), abs=within)


# Shares and amounts


def test_a_share_of_zeros_and_ones_has_wilson_s_interval():
    for successes, n in itertools.product((0, 1, 9, 20), (20, 50)):
        values = np.arange(n) < successes
        assert ends(share_interval(values)) == pytest.approx(ends(wilson(successes, n)), abs=1e-12)


def test_a_share_with_less_spread_has_a_narrower_interval():
    # 20 values of 0.5 +- 0.1: squares 20 * 0.01, and one observation's worth of 0.5 * 0.5
    values = [0.4, 0.6] * 10
    size = 20 * (20 * 0.25) / (20 * 0.01 + 0.25)
    low, high = wilson_bounds(0.5, size)
    assert ends(share_interval(values)) == pytest.approx((float(low), float(high)))


def mixture(values, chances):
    return lambda rng, shape: rng.choice(values, p=chances, size=shape), float(np.dot(values, chances))


SHARES = {
    "recall .98": mixture([1, 0.5, 0], [0.97, 0.02, 0.01]),
    "recall .9": mixture([1, 0.5, 1 / 3, 0], [0.8, 0.12, 0.06, 0.02]),
    "RR .5": mixture([1, 0.5, 1 / 3, 0.25, 0.1, 0], [0.35, 0.18, 0.13, 0.1, 0.12, 0.12]),
    "precision .2": mixture([0, 0.1, 0.2, 0.25, 0.5, 1], [0.15, 0.15, 0.5, 0.1, 0.08, 0.02]),
    "nDCG .8": (lambda rng, shape: rng.beta(8, 2, shape), 0.8),
}


@pytest.mark.parametrize("n", [20, 50, 300])
@pytest.mark.parametrize("name", sorted(SHARES))
def test_share_intervals_cover(name, n):
    draw, truth = SHARES[name]
    samples = draw(np.random.default_rng(n), (1500, n))
    share = np.mean([covers(share_interval(sample), truth) for sample in samples])
    assert 0.93 <= share <= (0.99 if n < 50 else 0.98)


AMOUNTS = {
    "items, at least 5": (
        lambda rng, shape: np.maximum(5, rng.poisson(5, shape) * (rng.random(shape) < 0.5)).astype(float),
        # E max(5, B N) with B a coin and N Poisson(5)
        0.5 * 5 + 0.5 * float(np.maximum(5, np.arange(60)) @ scipy_stats.poisson.pmf(np.arange(60), 5)),
    ),
    "tokens, lognormal .5": (lambda rng, shape: rng.lognormal(0, 0.5, shape), math.exp(0.125)),
    "tokens, lognormal 1": (lambda rng, shape: rng.lognormal(0, 1, shape), math.exp(0.5)),
    "siblings, one in five": (lambda rng, shape: rng.poisson(0.25, shape).astype(float), 0.25),
}


@pytest.mark.parametrize("n", [50, 300])
@pytest.mark.parametrize("name", sorted(AMOUNTS))
def test_amount_intervals_cover_where_they_say_that_they_hold(name, n):
    draw, truth = AMOUNTS[name]
    intervals = [amount_interval(sample) for sample in draw(np.random.default_rng(n), (1500, n))]
    held = [covers(interval, truth) for interval in intervals if interval.holds]
    assert len(held) > 300
    assert 0.915 <= np.mean(held) <= 0.98


def test_an_amount_interval_does_not_hold_where_few_values_differ():
    assert not amount_interval([0.0] * 95 + [3.0] * 5).holds
    assert amount_interval([0.0] * 85 + [1.0, 2.0, 3.0] * 5).holds
    assert not amount_interval(np.arange(19)).holds


def test_hall_s_correction_is_student_s_t_without_skew():
    values = np.arange(1.0, 31.0)
    theirs = scipy_stats.t.interval(0.95, 29, loc=15.5, scale=scipy_stats.sem(values))
    assert ends(amount_interval(values)) == pytest.approx(theirs, abs=1e-4)


def test_the_ends_invert_hall_s_transformation():
    # g(w) = w + skew w^2 / 3 + skew^2 w^3 / 27 + skew / (6 n), w = (mean - truth) / sd; sqrt(n) g is +-t at the ends
    values = np.random.default_rng(12).lognormal(0, 0.8, 40)
    mean, sd = values.mean(), values.std(ddof=1)
    skew = ((values - mean) ** 3).mean() / sd**3
    for end, expected in zip(ends(amount_interval(values)), (1, -1), strict=True):
        w = (mean - end) / sd
        g = w + skew * w**2 / 3 + skew**2 * w**3 / 27 + skew / (6 * 40)
        assert math.sqrt(40) * g == pytest.approx(expected * student_critical(0.95, 39))


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_many_intervals_at_once_are_those_of_each(level):
    rng = np.random.default_rng(13)
    samples = [rng.integers(0, 5, n) / 4 for n in (2, 9, 30, 200)] + [np.full(25, 0.5), np.ones(25), np.zeros(3)]
    mean, variance, third = (
        np.array([(sample if power == 1 else (sample - sample.mean()) ** power).mean() for sample in samples])
        for power in (1, 2, 3)
    )
    n = np.array([len(sample) for sample in samples])
    low, high = share_bounds(mean, variance, n, level=level)
    for place, sample in enumerate(samples):
        assert (low[place], high[place]) == pytest.approx(ends(share_interval(sample, level=level)), abs=1e-12)
    low, high = moment_bounds(mean, variance, third, n, level=level)
    for place, sample in enumerate(samples):
        mine = (max(low[place], 0.0), high[place])  # an amount is never below 0
        assert mine == pytest.approx(ends(amount_interval(sample, level=level)), abs=1e-12)
    assert student_critical(level, n) == pytest.approx([float(student_critical(level, one)) for one in n])


def test_a_size_need_not_be_whole():
    (low, high), (below, _), (above, _) = (moment_bounds(5, 4, 3, n) for n in (30.5, 30, 31))
    assert below < low < above < 5 < high
    assert share_bounds(0.5, 0.1, 0) == (0, 1)


def test_hall_s_correction_leans_to_the_long_tail():
    values = [1.0] * 20 + [2.0] * 10 + [20.0] * 2
    interval = amount_interval(values)
    mean = np.mean(values)
    assert interval.high - mean > 1.5 * (mean - interval.low)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], (0, math.inf)), ([3.0], (0, math.inf)), ([3.0] * 30, (3, 3)), ([0.0] * 30, (0, 0))],
)
def test_amounts_that_say_nothing_of_their_spread_do_not_hold(values, expected):
    interval = amount_interval(values)
    assert ends(interval) == expected
    assert not interval.holds


# Estimates


def test_estimates_leave_nan_out_and_count_it():
    yes = estimate([1, 0, NAN, 1, 1], scale="yes/no")
    assert (yes.value, yes.n, yes.left_out) == (0.75, 4, 1)
    assert ends(yes.interval) == ends(wilson(3, 4))
    none = estimate([NAN, NAN], scale="amount")
    assert math.isnan(none.value)
    assert (none.n, none.left_out, none.interval.holds) == (0, 2, False)
    assert ends(estimate([], scale="share").interval) == (0, 1)


@pytest.mark.parametrize("scale", ["yes/no", "share", "amount"])
def test_estimates_and_comparisons_do_not_depend_on_order(scale):
    rng = np.random.default_rng(1)
    base = {"yes/no": rng.integers(0, 2, 200), "share": rng.random(200), "amount": rng.lognormal(3, 1, 200)}[scale]
    other = base[rng.permutation(200)]
    mixed = rng.permutation(200)
    assert estimate(base, scale=scale) == estimate(base[mixed], scale=scale)
    assert compare(base, other, scale=scale) == compare(base[mixed], other[mixed], scale=scale)


@pytest.mark.parametrize(
    ("values", "scale", "message"),
    [
        ([0.5], "yes/no", "values on the scale 'yes/no' must be 0 or 1, got 0.5"),
        ([1.1], "share", "values on the scale 'share' must be 0 to 1, got 1.1"),
        ([-1], "amount", "values on the scale 'amount' must be at least 0, got -1.0"),
        ([0.5], "percent", "scale must be one of yes/no, share, amount, got 'percent'"),
        ([math.inf], "amount", "must be at least 0, got inf"),
    ],
)
def test_values_outside_their_scale_are_refused(values, scale, message):
    with pytest.raises(ParameterError, match=message):
        estimate(values, scale=scale)


def test_rounding_in_another_program_is_not_a_fault():
    assert estimate([1 + 1e-12, -1e-12], scale="share").value == 0.5


# Bootstrap


def test_bootstrap_of_a_mean_is_near_the_normal_interval():
    values = np.random.default_rng(2).normal(10, 2, 400)
    interval = bootstrap_interval(values[:, None], lambda means: means[:, 0], resamples=4000)
    half = 1.96 * values.std() / 20
    assert ends(interval) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.02)
    assert interval.holds


def test_bootstrap_of_a_variance_equals_scipy_s():
    # a statistic with bias and skewness, so that both corrections show: scipy's percentile interval is
    # 0.278 to 0.978, its BCa 0.346 to 1.263
    values = np.random.default_rng(13).exponential(1, 40)
    rows = np.column_stack([values, values**2])
    ours = bootstrap_interval(rows, lambda means: means[:, 1] - means[:, 0] ** 2, resamples=20_000)
    theirs = scipy_stats.bootstrap((values,), np.var, n_resamples=20_000, rng=1).confidence_interval
    assert ends(ours) == pytest.approx((theirs.low, theirs.high), rel=0.03)


def test_bootstrap_of_a_ratio_covers():
    rng = np.random.default_rng(3)
    hits = []
    for _ in range(200):
        rows = np.column_stack([rng.random(80) < 0.7, rng.uniform(0.05, 0.15, 80)]).astype(float)
        interval = bootstrap_interval(rows, lambda means: np.log2(means[:, 0] / means[:, 1]), resamples=400)
        hits.append(covers(interval, math.log2(7)))
    assert 0.90 <= np.mean(hits) <= 0.99


def test_bootstrap_depends_on_the_seed_and_not_on_the_order():
    rows = np.random.default_rng(4).random((30, 2))
    once = bootstrap_interval(rows, lambda means: means.sum(axis=1))
    assert bootstrap_interval(rows[::-1].copy(), lambda means: means.sum(axis=1)) == once
    assert bootstrap_interval(rows, lambda means: means.sum(axis=1), seed=1) != once


def test_bootstrap_of_too_little_does_not_hold():
    def first(means):
        return means[:, 0]

    assert ends(bootstrap_interval(np.ones((1, 1)), first)) == (-math.inf, math.inf)
    equal = bootstrap_interval(np.ones((50, 1)), first)
    assert ends(equal) == (1, 1)
    assert not equal.holds
    with pytest.raises(ParameterError, match="the rows must be finite"):
        bootstrap_interval(np.array([[1.0], [NAN]]), first)
    with pytest.raises(ParameterError, match="resamples must be at least 100, got 5"):
        bootstrap_interval(np.ones((3, 1)), first, resamples=5)


# McNemar and sign flips


def test_mcnemar_gives_the_binomial_tail():
    # 2 (1 + 5) / 2^5 with one of five against; 2 / 2^6 with none of six
    assert mcnemar_exact(1, 4) == pytest.approx(2 * (1 + 5) / 32)
    assert mcnemar_exact(0, 6) == pytest.approx(2 / 64)
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(3, 3) == 1.0


def test_mcnemar_equals_scipy_and_is_symmetric():
    for b, c in [(1, 0), (2, 9), (30, 55), (400, 480), (499, 501), (900, 1100), (5200, 5000), (0, 1500)]:
        expected = scipy_stats.binomtest(b, b + c, 0.5).pvalue
        assert mcnemar_exact(b, c) == pytest.approx(expected, rel=1e-9)
        assert mcnemar_exact(c, b) == mcnemar_exact(b, c)
    with pytest.raises(ParameterError, match="counts must be at least 0"):
        mcnemar_exact(-1, 2)


def test_sign_flips_of_yes_no_differences_are_mcnemar_s_test():
    for b, c in [(0, 5), (1, 7), (4, 9), (10, 10), (2, 18)]:
        assert sign_flip([-1.0] * b + [1.0] * c + [0.0] * 30) == pytest.approx(mcnemar_exact(b, c))


def test_sign_flips_are_all_tried_when_few():
    # Of the 8 sign patterns of 0.1, 0.2, 0.3 two reach |sum| 0.6; for 0.1, 0.2, -0.3 (sum 0) all do.
    assert sign_flip([0.1, 0.2, 0.3]) == 2 / 8
    assert sign_flip([0.1, 0.2, -0.3]) == 1.0
    # 0.1 + 0.2 and 0.3 are equal in exact arithmetic: |sum| >= 0.4 for +-(1+2+3), +-(-1+2+3)
    assert sign_flip([-0.1, 0.2, 0.3]) == 4 / 8


def test_sign_flips_equal_scipy():
    differences = np.random.default_rng(6).normal(0.4, 1, 12)
    theirs = scipy_stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip(differences) == pytest.approx(theirs.pvalue)


def test_random_sign_flips_are_near_the_exact_test():
    differences = np.array([-1.0] * 12 + [1.0] * 25)
    exact = mcnemar_exact(12, 25)
    drawn = sign_flip(differences)
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 9999))


def test_where_no_random_flip_is_as_extreme_a_bound_of_the_exact_test_is_told():
    rng = np.random.default_rng(3)
    for n in (21, 24, 30, 60, 400):
        assert mcnemar_exact(0, n) <= sign_flip([1.0] * n) < 1e-3
    spread = rng.lognormal(0, 1, 21)
    halves = (
        np.array(list(itertools.product((-1, 1), repeat=len(half)))) @ half for half in (spread[:10], spread[10:])
    )
    exact = np.mean(np.abs(np.add.outer(*halves)) >= spread.sum() - 1e-9)
    assert exact <= sign_flip(spread) <= 1 / (1 + RESAMPLES)
    assert sign_flip([1.0] * 60) < sign_flip([1.0] * 40) < 1 / (1 + RESAMPLES), "large effects differ"
    assert sign_flip([1.0] * 5000) > 0.0
    assert sign_flip([1.0] * 40, resamples=999) == sign_flip([1.0] * 40)


@pytest.mark.parametrize("differences", [[], [0.0], [0.0] * 40, [1.0], [-2.0]])
def test_sign_flips_of_next_to_nothing_tell_nothing(differences):
    assert sign_flip(differences) == 1.0


def test_false_alarms_stay_below_alpha():
    rng = np.random.default_rng(7)
    shares = (rng.choice([0, 0.5, 1], size=(2, 600, 60)),)[0]
    alarms = [sign_flip(b - a, resamples=499, seed=i) <= 0.05 for i, (a, b) in enumerate(zip(*shares, strict=True))]
    assert 0.02 <= np.mean(alarms) <= 0.075


# Interval of a difference


def test_the_interval_of_yes_no_differences_is_bonett_and_price_s():
    # 5 losses, 12 gains of 60: p = 6/62 and 13/62
    lost, won = 6 / 62, 13 / 62
    half = 1.959963984540054 * math.sqrt((lost + won - (won - lost) ** 2) / 62)
    interval = difference_interval([-1.0] * 5 + [1.0] * 12 + [0.0] * 43, scale="yes/no")
    assert ends(interval) == pytest.approx((won - lost - half, won - lost + half))


def test_no_difference_seen_is_not_proof_of_none():
    # sqrt(2 / 52 / 52) = 0.02720 with one gain and one loss added to 50 ties
    assert ends(difference_interval([0.0] * 50, scale="yes/no")) == pytest.approx((-0.0533, 0.0533), abs=5e-5)
    assert ends(difference_interval([0.0] * 50, scale="amount")) == (0, 0)
    assert not difference_interval([0.0] * 50, scale="amount").holds
    assert ends(difference_interval([], scale="share")) == (-1, 1)
    assert ends(difference_interval([], scale="amount")) == (-math.inf, math.inf)
    # one gain: p = 1/3 lost and 2/3 won
    low = 1 / 3 - 1.959963984540054 * math.sqrt((1 - 1 / 9) / 3)
    assert ends(difference_interval([1.0], scale="yes/no")) == pytest.approx((low, 1))


def test_the_interval_scales_with_the_unit_of_an_amount():
    differences = np.random.default_rng(8).normal(3, 5, 40)
    low, high = ends(difference_interval(differences, scale="amount"))
    assert ends(difference_interval(differences * 1000, scale="amount")) == pytest.approx((low * 1000, high * 1000))


@pytest.mark.parametrize("n", [20, 50])
def test_intervals_of_yes_no_differences_cover(n):
    # Exact, over all counts (lost, won) that are not next to impossible.
    cells = np.array([(b, c) for b in range(n + 1) for c in range(n + 1 - b)])
    intervals = {}
    for lost, won, at_least in [(0.02, 0.02, 0.99), (0.0, 0.1, 0.95), (0.05, 0.1, 0.96), (0.3, 0.3, 0.94)]:
        rates = [lost, won, 1 - lost - won]
        chance = scipy_stats.multinomial.pmf(np.column_stack([cells, n - cells.sum(axis=1)]), n, rates)
        coverage = 0.0
        likely = chance > 1e-5
        for (b, c), weight in zip(cells[likely].tolist(), chance[likely].tolist(), strict=True):
            if (b, c) not in intervals:
                differences = np.repeat([-1.0, 1.0, 0.0], [b, c, n - b - c])
                intervals[b, c] = difference_interval(differences, scale="yes/no")
            coverage += weight * covers(intervals[b, c], won - lost)
        assert coverage >= at_least - 0.005, (lost, won)


DIFFERENCES = {
    "share, one in twenty": ("share", *mixture([0, 1, 0.5, -0.5, -1], [0.95, 0.02, 0.02, 0.005, 0.005])),
    "share, half": ("share", *mixture([0, 0.5, -0.5], [0.5, 0.3, 0.2])),
    "share, small and dense": ("share", lambda rng, shape: rng.normal(0.02, 0.05, shape).clip(-1, 1), 0.02),
    "amount, dense": ("amount", lambda rng, shape: rng.poisson(3, shape) - 5.0, -2.0),
    "amount, skew": (
        "amount",
        lambda rng, shape: rng.lognormal(5, 0.8, shape) - rng.lognormal(4.5, 0.8, shape),
        math.exp(5.32) - math.exp(4.82),
    ),
}


@pytest.mark.parametrize("n", [20, 50, 300])
@pytest.mark.parametrize("name", sorted(DIFFERENCES))
def test_intervals_of_differences_cover(name, n):
    scale, draw, truth = DIFFERENCES[name]
    samples = draw(np.random.default_rng(n), (2000, n))
    share = np.mean([covers(difference_interval(sample, scale=scale), truth) for sample in samples])
    assert share >= (0.90 if scale == "amount" and n == 20 else 0.92)


@pytest.mark.parametrize(
    ("sigma", "n", "coverage"),
    [(0.5, 20, 0.84), (0.5, 50, 0.92), (0.5, 100, 0.93), (1, 20, 0.70), (1, 50, 0.81), (1, 100, 0.85), (1, 200, 0.88)],
)
def test_intervals_of_amounts_that_seldom_differ_cover_what_their_docstring_says(sigma, n, coverage):
    rng = np.random.default_rng(n)
    samples = (rng.random((4000, n)) < 0.1) * rng.lognormal(0, sigma, (4000, n))
    truth = 0.1 * math.exp(sigma**2 / 2)
    share = np.mean([covers(difference_interval(sample, scale="amount"), truth) for sample in samples])
    assert share == pytest.approx(coverage, abs=0.02)  # below the nominal 0.95, by as much as is said


def test_intervals_of_rare_amounts_say_that_they_do_not_hold():
    assert not difference_interval([0.0] * 91 + [100.0] * 9, scale="amount").holds
    assert difference_interval([0.0] * 90 + [100.0] * 10, scale="amount").holds
    assert not difference_interval([0.5] * 19, scale="share").holds


# Holm


def test_holm_by_hand():
    # sorted: 0.01 * 4, 0.02 * 3, 0.03 * 2 -> kept at 0.06, 0.6 * 1
    assert holm([0.03, 0.01, 0.6, 0.02]).tolist() == pytest.approx([0.06, 0.04, 0.6, 0.06])


def test_holm_edges():
    assert holm([]).tolist() == []
    assert holm([0.2]).tolist() == [0.2]
    assert holm([0.5, 0.5]).tolist() == [1.0, 1.0]
    assert holm([0.01, NAN, 0.04]).tolist() == pytest.approx([0.02, NAN, 0.04], nan_ok=True)
    with pytest.raises(ParameterError, match=r"p-values must be 0 to 1, got 1\.5"):
        holm([1.5])


# Comparisons


def test_a_comparison_by_hand():
    base = [1, 1, 0, 0, 0, 0, 0, 0, 0, NAN]
    other = [1, 0, 1, 1, 1, 1, 1, 1, NAN, 1]
    result = compare(base, other, scale="yes/no")
    assert (result.n, result.left_out) == (8, 2)
    assert (result.base, result.other, result.difference) == (2 / 8, 7 / 8, 5 / 8)
    assert (result.higher, result.lower, result.equal) == (6, 1, 1)
    assert result.p == result.p_holm == pytest.approx(2 * (1 + 7) / 128)
    assert result.standardised == pytest.approx(0.625 / np.std([0, -1, 1, 1, 1, 1, 1, 1], ddof=1))
    assert not result.significant


def test_swapping_the_sides_mirrors_the_comparison():
    rng = np.random.default_rng(9)
    a, b = rng.random((2, 40))
    there, back = compare(a, b, scale="share"), compare(b, a, scale="share")
    assert back.difference == -there.difference
    assert ends(back.interval) == pytest.approx((-there.interval.high, -there.interval.low))
    assert (back.higher, back.lower) == (there.lower, there.higher)
    assert (back.p, back.needed) == (there.p, there.needed)


@pytest.mark.parametrize("scale", ["yes/no", "share", "amount"])
def test_comparing_nothing_or_the_same_tells_nothing_apart(scale):
    nothing = compare([], [], scale=scale)
    assert math.isnan(nothing.difference)
    assert (nothing.n, nothing.p, nothing.needed, nothing.significant) == (0, 1.0, None, False)
    single = compare([0.0], [1.0], scale=scale)
    assert (single.difference, single.p, single.significant) == (1.0, 1.0, False)
    assert math.isnan(single.standardised)
    same = compare([0.0, 1.0] * 20, [0.0, 1.0] * 20, scale=scale)
    assert (same.difference, same.p, same.standardised, same.needed) == (0.0, 1.0, 0.0, None)
    assert not same.significant


def test_comparisons_read_together_are_corrected():
    base = np.zeros(40)
    some, more = base.copy(), base.copy()
    some[:6], more[:12] = 1, 1
    corrected = correct({"some": compare(base, some, scale="yes/no"), "more": compare(base, more, scale="yes/no")})
    assert list(corrected) == ["some", "more"]
    assert corrected["some"].p_holm == 2 / 2**6  # the larger p-value stands for itself
    assert corrected["more"].p_holm == 2 * (2 / 2**12)
    assert corrected["some"].p == 2 / 2**6
    assert correct({}) == {}


def test_a_p_value_that_no_random_flip_reached_is_known_as_a_bound():
    base, up = np.zeros(60), np.ones(60)
    found = compare(base, up * 3, scale="amount")
    assert found.p < found.p_floor == 1 / (1 + RESAMPLES)
    assert found.p_at_floor
    assert found.p_holm_at_floor
    mixed = compare(base, np.where(np.arange(60) < 38, 1.0, -1.0), scale="amount")
    assert (mixed.p_floor, mixed.p_at_floor) == (1 / (1 + RESAMPLES), False)
    few = compare(base[:20], up[:20], scale="amount")
    assert (few.p, few.p_floor, few.p_at_floor) == (2 / 2**20, 0.0, False), "all flips were tried"
    exact = compare(base, up, scale="yes/no")
    assert (exact.p_floor, exact.p_at_floor) == (0.0, False)
    corrected = correct({"amount": found, "exact": exact, "mixed": mixed})
    assert {name: one.p_holm_at_floor for name, one in corrected.items()} == {
        "amount": True,
        "exact": False,
        "mixed": False,
    }
    assert corrected["amount"].p_holm == pytest.approx(2 * found.p)


@pytest.mark.parametrize("resamples", [199, 4999])
def test_the_floor_follows_the_number_of_resamples(resamples):
    differences = np.concatenate([np.ones(40), -np.ones(20)])
    assert sign_flip(differences, resamples=resamples) > sign_flip_floor(differences, resamples=resamples)
    assert sign_flip_floor(differences, resamples=resamples) == 1 / (1 + resamples)


def test_how_many_queries_would_tell_is_said_for_the_comparisons_read_together():
    base = np.zeros(400)
    rises = {name: base.copy() for name in range(10)}
    for values in rises.values():
        values[:10], values[10:12] = 1, -1  # 10 higher, 2 lower of 400: p = 2 (1 + 12 + 66) / 2^12 = 0.0386
    alone = {name: compare(base, values, scale="share") for name, values in rises.items()}
    assert alone[0].significant
    corrected = correct(alone)[0]
    assert not corrected.significant  # p_holm = 0.386
    differences = rises[0] - base
    assert alone[0].needed == needed_n(differences) == 587  # ((1.960 sqrt .03 + .8416 sqrt .0296) / .02)^2
    assert corrected.needed == needed_n(differences, alpha=0.05 / 10) == 996  # with 2.807 in place of 1.960


@pytest.mark.parametrize("scale", ["yes/no", "share", "amount"])
@pytest.mark.parametrize("family", [1, 3, 12])
def test_what_is_not_told_apart_never_needs_as_few_as_were_asked(scale, family):
    rng = np.random.default_rng(8)
    named = 0
    for n in [5, 8, 12, 30, 100] * 12:
        base = np.zeros(n)
        other = (rng.random(n) < rng.random()) * (1.0 if scale == "yes/no" else rng.random(n) ** 3)
        for one in correct({i: compare(base, other, scale=scale) for i in range(family)}).values():
            if not one.significant and one.needed is not None:
                assert one.needed > n
                named += 1
    assert named > 10


@pytest.mark.parametrize(
    ("base", "other", "message"),
    [
        ([1.0], [1.0, 0.0], "paired values need equal lengths"),
        ([0.5], [1.0], "values on the scale 'yes/no' must be 0 or 1"),
        ([math.inf], [1.0], "values on the scale 'yes/no' must be 0 or 1"),
    ],
)
def test_faulty_pairs_are_refused(base, other, message):
    with pytest.raises(ParameterError, match=message):
        compare(base, other, scale="yes/no")

    with pytest.raises(ParameterError, match="scale must be one of yes/no, share, amount, got 'foo'"):
        compare([0.5], [1.0], scale="foo")


def test_differences_outside_their_scale_are_refused():
    with pytest.raises(ParameterError, match="differences on the scale 'share' must be -1 to 1, got 2"):
        compare([0.0], [2.0], scale="share")
    with pytest.raises(ParameterError, match="differences must be finite"):
        compare([0.0], [math.inf], scale="amount")


def test_standardised_difference_edges():
    assert standardised_difference([0.5, 0.5]) == math.inf
    assert standardised_difference([-0.5, -0.5]) == -math.inf
    assert standardised_difference([1.0, 3.0]) == pytest.approx(2 / math.sqrt(2))


# How many queries would be needed


def needed_n(differences, *, alpha=0.05):
    away = np.asarray(differences, dtype=np.float64)
    if not away.any():
        return None
    return statistics.needed_n(away.mean(), (away**2).mean(), np.count_nonzero(away) / len(away), alpha)


def test_needed_n_is_connor_s_formula():
    # 15% gained, 5% lost: (1.96 sqrt(0.2) + 0.8416 sqrt(0.2 - 0.01))^2 / 0.01 = 154.3
    differences = [1.0] * 15 + [-1.0] * 5 + [0.0] * 80
    expected = (1.959964 * math.sqrt(0.2) + 0.841621 * math.sqrt(0.19)) ** 2 / 0.01
    assert needed_n(differences) == math.ceil(expected) == 155


def test_needed_n_leaves_the_exact_test_enough_differences():
    # Every tenth query better: (1.96 sqrt(0.1) + 0.8416 sqrt(0.09))^2 / 0.01 = 76.1, more than the 60 that six need.
    assert needed_n([1.0] * 5 + [0.0] * 45) == 77
    # Every query better: Connor asks for 1.96^2 = 3.84, but 2 / 2^5 > 0.05 >= 2 / 2^6.
    assert needed_n([1.0] * 5) == 6


@pytest.mark.parametrize("differences", [[], [0.0], [0.0] * 9, [1.0, -1.0], [0.1, 0.2, -0.3]])
def test_no_number_of_queries_tells_equal_means_apart(differences):
    assert needed_n(differences) is None


def test_needed_n_reaches_its_power():
    rng = np.random.default_rng(10)
    n = needed_n([1.0] * 15 + [-1.0] * 5 + [0.0] * 80)
    told = [mcnemar_exact(lost, won) <= 0.05 for won, lost, _ in rng.multinomial(n, [0.15, 0.05, 0.8], size=3000)]
    assert 0.74 <= np.mean(told) <= 0.84  # the exact test keeps below its alpha, which costs a few points

    n = needed_n([0.3] * 40 + [-0.2] * 40 + [0.0] * 20)
    draws = rng.choice([0.3, -0.2, 0.0], p=[0.4, 0.4, 0.2], size=(300, n))
    told = [sign_flip(draw, resamples=499, seed=i) <= 0.05 for i, draw in enumerate(draws)]
    assert 0.72 <= np.mean(told) <= 0.88


def test_a_planned_difference_is_needed_at_the_spread_of_the_observed_ones():
    """That the pilot's mean differs much from the planned one does not change how many queries are needed."""
    rng = np.random.default_rng(12)
    spread = np.where(rng.random(400) < 0.4, 0.0, rng.normal(0, 0.3, 400))
    spread -= spread.mean()
    pilots = [compare(np.zeros(400), spread + mean, scale="amount") for mean in (0.01, 0.05, 0.2)]
    needed = {correct({"": pilot}, planned=0.05)[""].needed for pilot in pilots}
    assert needed == {pilots[1].needed}
    (n,) = needed
    draws = rng.choice(spread, size=(400, n)) + 0.05
    told = [sign_flip(draw, resamples=499, seed=i) <= 0.05 for i, draw in enumerate(draws)]
    assert 0.74 <= np.mean(told) <= 0.86


# By metric


def test_each_metric_gets_the_statistic_of_its_scale():
    metrics = parse_metrics(["completeness", "recall", "tokens", "BoR@5", "RR"])
    rng = np.random.default_rng(11)
    values = {
        Metric("completeness"): rng.integers(0, 2, 30).astype(float),
        Metric("recall"): rng.random(30),
        Metric("tokens"): rng.lognormal(5, 1, 30),
        Metric("Success", 5): np.append(rng.integers(0, 2, 29).astype(float), NAN),
        Metric("Chance", 5): np.append(np.full(29, 0.1), NAN),
    }
    found = estimates(metrics, values)
    assert {str(metric): result.interval.method for metric, result in found.items()} == {
        "completeness": "Wilson",
        "recall": "Wilson, effective n",
        "tokens": "Hall's t",
        "BoR@5": "BCa bootstrap",
    }
    bits = found[Metric("BoR", 5)]
    assert (bits.n, bits.left_out) == (29, 1)
    assert bits.value == pytest.approx(math.log2(values[Metric("Success", 5)][:29].mean() / 0.1))
    assert bits.interval.low < bits.value < bits.interval.high
    other = {metric: array[::-1].copy() for metric, array in values.items()}
    assert compare_metric(Metric("BoR", 5), values, other).test == "exact McNemar"
    assert compare_metric(Metric("recall"), values, other).test == "sign flips"
    with pytest.raises(ParameterError, match="RR cannot be compared: one side has no values of RR"):
        compare_metric(Metric("RR"), values, other)


def test_no_success_at_all_is_minus_infinity_with_an_interval():
    values = {Metric("Success", 1): np.zeros(30), Metric("Chance", 1): np.full(30, 0.1)}
    (found,) = estimates([Metric("BoR", 1)], values).values()
    assert found.value == -math.inf
    assert ends(found.interval) == (-math.inf, -math.inf)
    assert not found.interval.holds


def test_every_metric_can_be_estimated_from_no_queries():
    from ctxbench.evaluation.metrics import METRICS
    from ctxbench.model.arrays import Evidence, Judgments, Kinship, OfferedItems, Rankings

    metrics = [Metric(name, 5 if declared.cutoff == "required" else 0) for name, declared in METRICS.items()]
    none = np.array([], dtype=np.int64)
    evidence = Evidence(
        judgments=Judgments(start=[0], item=none, grade=none, group=none),
        offered=OfferedItems(start=[0], item=none, origin=none),
        rankings=Rankings(start=[0], item=none),
        item_tokens=none,
        body_tokens=none,
        kinship=Kinship.of([], servers=[], types=[]),
        pool=none,
        model_use=np.empty((2, 0)),
    )
    found = estimates(metrics, evaluate(metrics, evidence))
    assert set(found) == set(metrics)
    for metric, result in found.items():
        assert math.isnan(result.value), metric
        assert not result.interval.holds, metric


def test_the_statistics_load_neither_scipy_nor_pandas():
    code = "import sys, ctxbench.evaluation; print({'scipy', 'pandas'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout == "set()\n"


# Power laws


@pytest.mark.parametrize("exponent", [1.0, 0.5, 0.0, 1.7])
def test_a_power_law_is_recovered_exactly(exponent):
    x = np.array([10.0, 20, 40, 80, 160, 320])
    fit = power_fit(x, 0.003 * x**exponent)
    assert (fit.factor, fit.exponent) == pytest.approx((0.003, exponent))
    assert ends(fit.interval) == pytest.approx((exponent, exponent))
    assert fit.interval.holds


def test_the_interval_of_an_exponent_equals_scipy_and_covers():
    draw, x, covered = np.random.default_rng(5), np.geomspace(10, 640, 7), 0
    for _ in range(400):
        y = x**0.8 * np.exp(0.3 * draw.standard_normal(7))
        fit, theirs = power_fit(x, y), scipy_stats.linregress(np.log(x), np.log(y))
        margin = theirs.stderr * scipy_stats.t.ppf(0.975, 5)
        assert ends(fit.interval) == pytest.approx((theirs.slope - margin, theirs.slope + margin), rel=1e-3)
        covered += covers(fit.interval, 0.8)
    assert 0.92 <= covered / 400 <= 0.98
