from __future__ import annotations

import math

import numpy as np
import pytest

from ctxbench.evaluation.statistics import student_critical
from ctxbench.labelling.sampling import Tally, difference, labels_to_halve_interval, share


def tally(size, n, plus, minus, *, guess=0.5, **known):
    arrays = [np.array(column, dtype=np.float64) for column in (size, n, plus, minus)]
    guesses = np.full(len(size), guess)
    return Tally(
        size=arrays[0],
        n=arrays[1],
        plus=arrays[2],
        minus=arrays[3],
        guess_plus=guesses,
        guess_minus=1.0 - guesses,
        **known,
    )


def test_one_stratum_gives_the_ends_of_a_score_interval_with_a_finite_population():
    figure = share("a", tally([200], [40], [30], [10]))
    t, left = student_critical(0.95, 39), 160 / 200
    assert figure.value == 0.75
    for end in (figure.low, figure.high):
        assert abs(end - 0.75) == pytest.approx(t * math.sqrt(left * end * (1 - end) / 40), abs=1e-9)


def test_strata_and_what_is_known_add_up():
    # known: 10 complete, 10 not; strata of 100 and 300 with 3 of 4 and 1 of 4: 75 + 75; (10 + 150) / 420
    figure = share("a", tally([100, 300], [4, 4], [3, 1], [1, 3], n_known=20, known_plus=10, known_minus=10))
    assert figure.value == pytest.approx(160 / 420)
    assert (figure.known, figure.sampled, figure.open) == (20, 8, 400)


def test_queries_that_need_nothing_count_on_neither_side():
    figure = share("a", tally([100], [10], [4], [4], n_known=2, known_plus=1, known_minus=1))
    assert figure.value == pytest.approx((1 + 40) / (2 + 80))


def test_all_answered_is_exact_and_none_answered_says_nothing():
    exact = share("a", tally([10, 5], [10, 5], [7, 5], [3, 0]))
    assert (exact.low, exact.value, exact.high) == (0.8, 0.8, 0.8)
    nothing = share("a", tally([10], [0], [0], [0], guess=0.7))
    assert (nothing.low, nothing.value, nothing.high) == pytest.approx((0.0, 0.7, 1.0))
    assert share("a", tally([], [], [], [])).width == 1.0


def test_a_stratum_without_an_error_still_has_a_spread():
    figure = share("a", tally([500, 500], [20, 20], [20, 10], [0, 10]))
    alone = share("a", tally([500, 500], [20, 500], [20, 250], [0, 250]))
    assert figure.width > alone.width > 0.02
    assert alone.high == pytest.approx(0.75)  # it cannot be more than all
    assert alone.low < 0.72


def test_a_difference_is_of_the_queries_that_need_something():
    figure = difference("a - b", tally([100], [20], [5], [1], n_with_requirements=200))
    assert figure.value == pytest.approx((25 - 5) / 200)
    assert figure.low < figure.value < figure.high
    same = difference("a - b", tally([0], [0], [0], [0], n_with_requirements=200))
    assert (same.low, same.value, same.high) == (0, 0, 0)


def test_halving_counts_the_queries_that_the_queue_asks_next():
    now = tally([1000], [25], [15], [10])
    more = labels_to_halve_interval(now, [0] * 975, kind="share")
    then = tally([1000], [25 + more], [0.6 * (25 + more)], [0.4 * (25 + more)])
    assert 60 <= more <= 90  # about three times as many, less what a finite population and Student's quantile save
    assert share("a", then).width == pytest.approx(share("a", now).width / 2, rel=0.03)
    assert labels_to_halve_interval(now, [0] * 5, kind="share") is None
    assert labels_to_halve_interval(tally([10], [10], [7], [3]), [], kind="share") == 0


CASES = {  # sizes, true shares, guessed shares, answered
    "one stratum": ([1700], [0.75], [0.5], [50]),
    "mixed": ([300, 200, 400, 800], [0.05, 0.4, 0.7, 0.97], [0.1, 0.5, 0.8, 0.9], [8, 12, 15, 15]),
    "guessed wrong": ([300, 200, 400, 800], [0.3, 0.2, 0.45, 0.85], [0.02, 0.5, 0.9, 0.98], [8, 12, 15, 15]),
    "near one": ([400, 400, 400, 500], [0.97, 0.98, 0.99, 0.98], [0.9, 0.95, 0.95, 0.98], [20, 15, 15, 15]),
    "small strata": ([40, 40, 60, 80, 100, 500], [0.5, 0.9, 0.2, 0.8, 0.6, 0.9], [0.5] * 6, [4, 4, 5, 6, 6, 20]),
}


@pytest.mark.parametrize("case", CASES)
def test_intervals_cover_the_truth(case):
    size, true, guess, n = (np.array(column) for column in CASES[case])
    rng = np.random.default_rng(7)
    covered, draws = 0, 400
    for _ in range(draws):
        complete = rng.binomial(size, true)
        plus = rng.hypergeometric(complete, size - complete, n)
        arrays = [np.asarray(column, dtype=np.float64) for column in (size, n, plus, n - plus)]
        given = Tally(
            size=arrays[0], n=arrays[1], plus=arrays[2], minus=arrays[3], guess_plus=guess, guess_minus=1.0 - guess
        )
        figure = share("a", given)
        covered += figure.low <= complete.sum() / size.sum() <= figure.high
    assert covered / draws >= 0.92  # nominal 0.95, less two standard errors of 400 draws and one point of method
