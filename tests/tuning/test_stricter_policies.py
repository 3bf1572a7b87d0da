"""What a stricter policy came to is taken for a laxer one where its own limits came to less."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ctxbench.evaluation.metrics import Metric
from ctxbench.tuning.held_out import is_stricter, with_stricter
from ctxbench.tuning.inputs import Choice
from ctxbench.tuning.measures import COMPLETENESS, TOKENS, Pairing
from ctxbench.tuning.policy import Constraint, Policy
from ctxbench.tuning.search import Base, BestSetting

NOTHING = np.zeros(0, dtype=np.int64)
DEFAULT = Choice(reason="too few labels", needed=(3, 9), settings=7)


def base(complete=0.8, reachable=0.9, n=20):
    """A base that makes this share of 20 queries complete, and could make the other one."""
    rows = np.arange(n) / n
    return Base(
        means={COMPLETENESS: complete, TOKENS: 100.0},
        pairing=Pairing(base={}, group=NOTHING),
        queries_by_type={},
        reachable=rows < reachable,
        complete=(rows < complete).astype(float),
        effective_queries=float(n),
    )


def policy(name, *constraints, objective="tokens", minimise=True):
    aim = {"minimise" if minimise else "maximise": Metric(objective)}
    return Policy.of(name, constraints=constraints, **aim)


def at_least(share, of=""):
    return Constraint(metric=Metric("completeness"), at_least=share, of=of)


def setting(tokens):
    best = BestSetting(
        values={}, rounded={}, means={TOKENS: tokens, COMPLETENESS: 0.85}, n={}, bounds={"x": 0.8}, missed=()
    )
    return Choice(selector="mine", setting=best, settings=5)


AGGRESSIVE, CONSERVATIVE = (
    policy("aggressive", at_least(0.9, "base")),
    policy("conservative", at_least(0.9, "reachable")),
)


def chosen(aggressive, conservative, *, to_beat=100.0, one=None, policies=(AGGRESSIVE, CONSERVATIVE)):
    choices = {"aggressive": aggressive, "conservative": conservative}
    beaten = {"aggressive": to_beat, "conservative": math.nan}
    return with_stricter(policies, choices, base=one or base(), to_beat=beaten)


def test_what_a_stricter_policy_takes_for_fewer_tokens_is_taken_for_a_laxer_one():
    found = chosen(DEFAULT, setting(60.0))
    assert (found["aggressive"].setting.means[TOKENS], found["aggressive"].taken_from) == (60.0, "conservative")
    assert (found["aggressive"].settings, found["aggressive"].reason) == (7, "")
    assert found["conservative"].taken_from == ""
    assert chosen(setting(70.0), setting(60.0))["aggressive"].taken_from == "conservative"


@pytest.mark.parametrize(
    ("aggressive", "conservative", "more"),
    [
        (DEFAULT, setting(120.0), {}),  # more tokens than the default, which keeps what is asked
        (setting(50.0), setting(60.0), {}),  # its own is better
        (setting(60.0), setting(60.0), {}),  # of equals its own
        (DEFAULT, DEFAULT, {}),
        (DEFAULT, setting(60.0), {"one": base(complete=0.9, reachable=0.85)}),  # 0.9 of reachable asks less there
        (Choice(reason="cannot say", answered=False), setting(60.0), {}),
        (DEFAULT, setting(60.0), {"policies": (policy("aggressive"), policy("conservative", minimise=False))}),
    ],
)
def test_else_its_own_choice_stays(aggressive, conservative, more):
    assert chosen(aggressive, conservative, **more)["aggressive"] is aggressive


def test_where_the_base_misses_what_is_asked_more_tokens_are_taken_too():
    assert chosen(DEFAULT, setting(120.0), to_beat=math.nan)["aggressive"].taken_from == "conservative"


def test_a_policy_that_asks_for_something_else_besides_is_not_laxer():
    both = policy("both", at_least(0.9, "base"), Constraint(metric=Metric("items"), at_most=5))
    assert not is_stricter(CONSERVATIVE, both, base())
    assert is_stricter(both, AGGRESSIVE, base())
    fewer = policy("fewer", at_least(0.95, "base"), Constraint(metric=Metric("items"), at_most=4))
    assert is_stricter(fewer, both, base())
    assert not is_stricter(both, fewer, base())
    assert not is_stricter(AGGRESSIVE, AGGRESSIVE, base())
