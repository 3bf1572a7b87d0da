"""Verdicts of constraints, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ctxbench.evaluation.comparisons import grouped_estimate
from ctxbench.evaluation.metrics import Metric
from ctxbench.evaluation.statistics import wilson
from ctxbench.tuning.held_out import VerdictQueries, verdict
from ctxbench.tuning.measures import COMPLETENESS, TOKENS, Measure
from ctxbench.tuning.policy import SAFETY_ERRORS, Constraint, Limit


def ground(n, *, chosen_here=False, size=1):
    return VerdictQueries(group=np.arange(n) // size, level=0.95, chosen_here=chosen_here)


def shares(complete, n):
    return (np.arange(n) < complete) * 1.0


def judged(limit, own, base, queries, *, scale):
    estimate = grouped_estimate(own, queries.group, scale=scale, level=queries.level)
    return verdict(limit, own, base, queries, estimate=estimate)


def kept(share, own, base, **given):
    """A share of the base's completeness."""
    limit = Limit.of(
        Constraint(metric=COMPLETENESS.metric, at_least=share, of="base"), {COMPLETENESS: float(base.mean())}
    )
    return judged(limit, own, base, ground(len(own), **given), scale="yes/no")


@pytest.mark.parametrize(
    ("complete", "said", "met"),
    [
        (360, "holds", True),
        (344, "holds within 2 points", True),
        (338, "open", None),
        (300, "missed", False),
    ],
)
def test_a_share_of_the_base_is_judged_by_the_paired_difference(complete, said, met):
    """Of 400 the base has 350 complete, so that 0.98 of it are 343; the room is 8 of 400."""
    found = kept(0.98, shares(complete, 400), shares(350, 400))
    assert (found.status, found.met) == (said, met)
    assert found.value == pytest.approx(complete / 350)
    distance = abs(complete - 350) / 400
    error = math.sqrt((400 * distance - 400 * distance**2) * 400 / 399 + 2) / 400
    assert found.high - found.low == pytest.approx(2 * 1.959964 * error / (350 / 400))


def test_a_preset_13_points_below_its_target_is_never_met():
    for n in (20, 40, 100, 1000):
        found = kept(1.0, shares(round(0.77 * n), n), shares(round(0.9 * n), n))
        assert found.met in (None, False)
    assert found.status == "missed"


def test_fewer_than_twenty_queries_say_nothing_whatever_they_are():
    found = kept(0.98, shares(19, 19), shares(10, 19))
    assert (found.status, found.met, found.needed) == ("too few to say", None, 1)


def test_on_the_labels_that_chose_more_is_asked_for():
    narrow, wide = (kept(0.9, shares(95, 100), shares(95, 100), chosen_here=here) for here in (False, True))
    assert (wide.high - wide.low) / (narrow.high - narrow.low) == pytest.approx(SAFETY_ERRORS / 1.959964, rel=1e-6)


def test_groups_that_answer_as_one_say_less():
    alone, grouped = (kept(0.9, shares(95, 100), shares(95, 100), size=size) for size in (1, 5))
    assert (grouped.high - grouped.low) / (alone.high - alone.low) == pytest.approx(5**0.5), (
        "20 groups of 5, of which as many queries gain and lose as a group has"
    )
    one = kept(0.5, shares(100, 100), shares(95, 100), size=100)
    assert (one.status, one.met) == ("open", None)


def test_what_is_not_of_the_base_is_judged_by_its_own_interval():
    limit = Limit.of(Constraint(metric=COMPLETENESS.metric, at_least=0.8), {COMPLETENESS: 0.9})
    found = judged(limit, shares(90, 100), shares(90, 100), ground(100), scale="yes/no")
    assert (found.status, found.low) == ("holds", wilson(90, 100).low)
    tokens = Limit.of(Constraint(metric=TOKENS.metric, at_most=50), {COMPLETENESS: 0.9})
    values = np.linspace(90, 110, 100)
    assert judged(tokens, values, values, ground(100), scale="amount").status == "missed"
    nothing = np.full(100, np.nan)
    assert judged(limit, nothing, nothing, ground(100), scale="yes/no") is None


def test_what_is_open_says_about_how_many_labels_would_settle_it():
    limit = Limit.of(Constraint(metric=COMPLETENESS.metric, at_least=0.87), {})
    found = judged(limit, shares(90, 100), shares(90, 100), ground(100), scale="yes/no")
    assert found.status == "open"
    # 90 +- 7.4 below; 3 points of room: 100 x (7.4 / 3)^2 queries
    assert found.needed == math.ceil(100 * ((0.9 - found.low) / 0.03) ** 2) - 100
    on = Limit.of(Constraint(metric=COMPLETENESS.metric, at_least=0.9), {})
    assert judged(on, shares(90, 100), shares(90, 100), ground(100), scale="yes/no").needed is None


def test_a_measure_of_a_type_has_a_name():
    assert str(Measure(Metric("completeness"), required_type="rule")) == "completeness of queries that need a rule"
    assert str(Measure(Metric("items"), required_type="rule")) == "required rule items"
