"""The first n items of a ranking at the tokens of a recommended setting."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench.evaluation.comparisons import LENGTHS
from ctxbench.evaluation.metrics import parse_metric
from ctxbench.tuning.held_out import SettingValues
from ctxbench.tuning.results import TUNING
from ctxbench.tuning.search import Competitor
from ctxbench.tuning.tuner import compare_at_tokens, first_items_curve

COMPLETE, TOKENS = parse_metric("completeness"), parse_metric("tokens")


@pytest.fixture
def one(ready):
    """A competitor on the tuning split."""
    made = ready({"selector": "semantic"})
    return Competitor.of(made.tunables[0], made.datasets[0].query_sets[TUNING], made.file.policies.values())


def at(one, values, name="mine"):
    """A setting as it is measured, from values by query."""
    by_query = {one.query_set.split: values}
    return SettingValues(name=name, role="", selector="", values={}, answers={}, by_query=by_query, reachable={})


def test_the_curve_is_what_the_first_n_offer(one):
    curve = first_items_curve(one.full_ranking.answers.candidates, one.query_set.labels)
    assert len(curve.tokens) == len(LENGTHS)
    for n in (0, 3, 10):
        answers = one.tunable.first_items(one.full_ranking, n, one.query_set)
        values = one.query_set.values(answers, [COMPLETE, TOKENS])
        place = LENGTHS.index(n)
        np.testing.assert_array_equal(curve.tokens[place], values[TOKENS])
        np.testing.assert_array_equal(curve.complete[place], values[COMPLETE])


def test_what_is_the_first_n_itself_gains_nothing_at_its_tokens(one):
    curve = first_items_curve(one.full_ranking.answers.candidates, one.query_set.labels)
    place = LENGTHS.index(4)
    same = at(one, {COMPLETE: curve.complete[place], TOKENS: curve.tokens[place]})
    found = compare_at_tokens({"p": same}, curve, one.query_set, seed=0)["p"]
    assert found.comparison.difference == pytest.approx(0.0, abs=1e-12)
    assert found.comparison.p == 1.0
    assert found.complete == pytest.approx(found.base)


def test_a_setting_that_is_always_complete_for_as_many_tokens_gains_the_rest(one):
    curve = first_items_curve(one.full_ranking.answers.candidates, one.query_set.labels)
    place = LENGTHS.index(2)
    applies = ~np.isnan(curve.complete[place])
    best = at(one, {COMPLETE: np.where(applies, 1.0, np.nan), TOKENS: curve.tokens[place]})
    found = compare_at_tokens({"p": best}, curve, one.query_set, seed=0)["p"]
    assert found.comparison.difference == pytest.approx(1.0 - curve.complete[place][applies].mean())
    assert found.comparison.p == found.p_groups


def test_a_setting_that_failed_on_a_query_is_left_out(one):
    curve = first_items_curve(one.full_ranking.answers.candidates, one.query_set.labels)
    tokens = curve.tokens[3].copy()
    tokens[0] = np.nan
    failed = at(one, {COMPLETE: curve.complete[3], TOKENS: tokens})
    assert compare_at_tokens({"p": failed}, curve, one.query_set, seed=0) == {}
