from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ctxbench.labelling.pools import Case, Cases, Emulator, LogOddsCorrection, Predictor, corrected


def half_known(pool):
    """The pool with its first half fully labelled; the log offered the other half the best two of `wide`."""
    dataset = pool.dataset
    n = len(dataset) // 2
    queries = tuple(replace(query, partly_labelled=place >= n) for place, query in enumerate(dataset.queries))
    keys = [item.key for item in dataset.catalog]
    exposures = {
        query: replace(exposure, offered=tuple(keys) if int(query[1:]) < n else (keys[2], keys[3]))
        for query, exposure in pool.exposures.items()
    }
    exposures = {query: replace(one, full=int(query[1:]) < n) for query, one in exposures.items()}
    return replace(pool, dataset=replace(dataset, queries=queries), exposures=exposures)


def cases_of(pool, *, chance, groups, n=200):
    cases = tuple(Case(row=place % 60, called=(3,), offered=frozenset({2, 3}), groups=groups) for place in range(n))
    return Cases(pool=pool, cases=cases, sets=((0,),), chances=np.full((n, 1), chance))


def test_a_fully_labelled_query_is_shown_as_the_log_shows_the_open_ones(make_pool):
    cases = Emulator(half_known(make_pool(60))).cases()
    assert [case.row for case in cases] == list(range(30))
    assert {case.offered for case in cases} == {frozenset({2, 3})}
    assert {case.called for case in cases} == {(3,)}
    assert {case.groups for case in cases} == {((3,),)}
    assert sum(case.weight for case in cases) == 30


def test_queries_that_no_log_knows_are_taken_as_if_nothing_was_called(make_pool):
    cases = Emulator(replace(half_known(make_pool(60)), exposures={})).cases()
    assert len(cases) == 30
    assert {(case.called, case.offered) for case in cases} == {((), None)}


def test_without_fully_labelled_queries_guesses_stay_as_they_are(make_pool):
    cases = cases_of(make_pool(60), chance=0.3, groups=())
    none = replace(cases, cases=(), chances=np.empty((0, 1)))
    assert corrected(LogOddsCorrection.of(none), cases) == pytest.approx(0.3)


@pytest.mark.parametrize(("groups", "outcome"), [(((3,),), 1.0), (((3,), (4,)), 0.0)])
def test_many_of_them_outweigh_a_wrong_guess_and_few_do_not(make_pool, groups, outcome):
    pool = make_pool(60)
    many = cases_of(pool, chance=0.5, groups=groups)
    assert many.outcomes == pytest.approx(outcome)
    assert corrected(LogOddsCorrection.of(many), many)[0, 0] == pytest.approx(outcome, abs=0.1)
    few = cases_of(pool, chance=0.5, groups=groups, n=1)
    assert 0.05 < abs(corrected(LogOddsCorrection.of(few), many)[0, 0] - 0.5) < 0.4


def test_a_pair_is_complete_no_more_often_than_either(make_pool):
    guesses = Predictor(half_known(make_pool(60))).guesses([f"q{i}" for i in range(30, 60)])
    assert (guesses.first[:, 0] <= guesses.complete[:, 0] + 1e-12).all()
    assert (guesses.second[:, 0] <= guesses.complete[:, 1] + 1e-12).all()
    narrow = guesses.complete[:, 1]
    assert narrow[1::2].min() > 0.8 > 0.2 > narrow[::2].max()  # of even queries it lacks what was called


def test_a_ranking_that_is_longer_than_those_of_open_queries_is_read_as_far_as_they_go(make_pool):
    pool = half_known(make_pool(60))
    offers = [replace(one, ranking=[*one.ranking[:30], *(row[:2] for row in one.ranking[30:])]) for one in pool.offers]
    assert len(Emulator(replace(pool, offers=tuple(offers))).cases()) == 30
