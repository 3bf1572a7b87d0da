from __future__ import annotations

import math

import numpy as np
import pytest

from ctxbench.evaluation.statistics import student_critical
from ctxbench.labelling.sampling import Known, Sample, Tally, difference


def tally(size, n, plus, minus, *, guess, n_with_requirements):
    arrays = [np.array(column, dtype=np.float64) for column in (size, n, plus, minus, *guess)]
    return Tally(
        size=arrays[0],
        n=arrays[1],
        plus=arrays[2],
        minus=arrays[3],
        guess_plus=arrays[4],
        guess_minus=arrays[5],
        n_with_requirements=n_with_requirements,
    )


def test_one_answer_for_one_selector_proves_nothing():
    figure = difference("a - b", tally([500], [60], [1], [0], guess=([0.018], [0.018]), n_with_requirements=450))
    assert figure.value == pytest.approx(500 / 60 / 450)
    assert figure.low < 0 < figure.high
    nothing = difference("a - b", tally([500], [60], [0], [0], guess=([0.018], [0.018]), n_with_requirements=450))
    assert nothing.low < 0 < nothing.high
    assert nothing.low == pytest.approx(-nothing.high)


def test_one_stratum_gives_the_ends_of_a_score_interval_whose_discordant_share_does_not_shrink():
    # no query differs from the guess: 12 + 6 discordant of 60, guessed 0.2 + 0.1
    figure = difference("a - b", tally([500], [60], [12], [6], guess=([0.2], [0.1]), n_with_requirements=500))
    t, left = student_critical(0.95, 59), 440 / 500
    for end in (figure.low, figure.high):
        assert abs(end - 0.1) == pytest.approx(t * math.sqrt(left * (max(0.3, abs(end)) - end**2) / 60), abs=1e-9)


CASES = {  # sizes, shares of plus, shares of minus, share that needs something, answered, factor on the guess
    "2% and 2%": ([500], [0.02], [0.02], 0.9, [60], 1.0),
    "5% and 0": ([500], [0.05], [0.0], 0.9, [60], 1.0),
    "5% and 0, not guessed": ([500], [0.05], [0.0], 0.9, [60], 0.1),
    "30% and 20%": ([500], [0.3], [0.2], 0.9, [60], 1.0),
    "15% and 10%": ([500], [0.15], [0.1], 0.9, [60], 1.0),
    "half": ([500], [0.5], [0.02], 1.0, [60], 1.0),
    "all strata alike": ([150, 150, 200], [0.05] * 3, [0.03] * 3, 0.9, [20, 20, 20], 1.0),
    "mixed strata": ([100, 200, 400, 1000], [0.4, 0.2, 0.05, 0.01], [0.3, 0.05, 0.05, 0.01], 0.9, [16] * 4, 1.0),
    "guessed too high": ([100, 400, 1000], [0.3, 0.05, 0.01], [0.1, 0.1, 0.02], 0.9, [20, 20, 20], 2.0),
}


@pytest.mark.parametrize("case", CASES)
def test_intervals_cover_the_truth(case):
    size, plus, minus, n_with_requirements, n, factor = CASES[case]
    rng = np.random.default_rng(11)
    guess = (factor * n_with_requirements * np.array(plus), factor * n_with_requirements * np.array(minus))
    covered, draws = 0, 400
    for _ in range(draws):
        rows, total, need = [], 0.0, 0.0
        answered_needing = 0.0
        for i in range(len(size)):
            kinds = [
                plus[i] * n_with_requirements,
                minus[i] * n_with_requirements,
                (1 - plus[i] - minus[i]) * n_with_requirements,
                1 - n_with_requirements,
            ]
            population = rng.multinomial(size[i], kinds)
            found = rng.multivariate_hypergeometric(population, n[i])
            rows.append(found[:2])
            total += population[0] - population[1]
            need += size[i] - population[3]
            answered_needing += size[i] * (n[i] - found[3]) / n[i]
        p, m = np.array(rows).T
        figure = difference("a - b", tally(size, n, p, m, guess=guess, n_with_requirements=answered_needing))
        covered += figure.low <= total / need <= figure.high
    assert covered / draws >= 0.93  # nominal 0.95, less two standard errors of 400 draws


def sample(**known):
    return Sample(
        selectors=("a", "b"),
        census=(),
        strata=[[f"q{i}" for i in range(40)]],
        answered=known,
        equal_offers=[frozenset()],
        guesses=[((0.5, 0.5), (0.25,), (0.25,))],
    )


def test_queries_in_doubt_count_both_ways():
    answers = {f"q{i}": Known(needs=True, complete=(i % 2 == 0, False)) for i in range(20)}
    alone = sample(**answers)
    doubt = {f"q{i}": Known(needs=True, complete=(False, False), upper_bound=(True, True)) for i in range(20, 30)}
    both = sample(**answers, **doubt)
    worst = sample(**answers, **{query: Known(needs=True, complete=(False, False)) for query in doubt})
    best = sample(**answers, **{query: Known(needs=True, complete=(True, True)) for query in doubt})
    figure = both.complete(0)
    assert figure.value == alone.complete(0).value == 0.5
    assert (figure.low, figure.high) == (worst.complete(0).low, best.complete(0).high)
    assert (figure.unsure, alone.complete(0).unsure) == (10, 0)
    gap = both.ahead(0, 0, 1)
    assert gap.value == 0.5
    assert gap.low < alone.ahead(0, 0, 1).low
    assert gap.high > alone.ahead(0, 0, 1).high
    assert both.weights() == dict.fromkeys(answers, 2.0)
