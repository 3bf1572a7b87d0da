"""When a selector outside is asked no more."""

from __future__ import annotations

import pytest

from ctxbench.selectors.protocol import CircuitBreaker


def told(breaker, events, why="nothing"):
    for event in events:
        breaker.succeeded() if event == "." else breaker.failed(why)
    return bool(breaker.refusal)


@pytest.mark.parametrize(
    ("at_a_time", "events", "given_up"),
    [
        (1, "", False),
        (1, "xxxx", False),
        (1, "xxxxx", True),
        (1, "xxxx.xxxx", False),
        (1, "xxxx.xxxxx", True),
        (1, "xxxxx.", True),  # what was under way comes too late to change it
        (2, "x" * 9, False),
        (2, "x" * 10, True),
    ],
)
def test_five_in_a_row_for_each_asked_at_a_time_are_too_many(at_a_time, events, given_up):
    assert told(CircuitBreaker(at_a_time=at_a_time), events) is given_up


def test_the_reason_is_that_of_the_first_that_was_too_many():
    breaker = CircuitBreaker(noun="POSTs")
    told(breaker, "xxxxx", "no answer within 3 s")
    told(breaker, "x", "another")
    assert breaker.refusal == "not asked: 5 POSTs in a row had no answer; the last: no answer within 3 s"


def test_it_is_counted_anew_over_another_catalog_and_once_forgotten():
    breaker = CircuitBreaker()
    breaker.begin("one")
    assert not told(breaker, "xxx")
    breaker.begin("one")
    assert told(breaker, "xx")
    breaker.begin("one")
    assert breaker.refusal
    breaker.begin("two")
    assert not told(breaker, "xxxx")
    breaker.reset()
    breaker.begin("two")
    assert not told(breaker, "xxxx")
