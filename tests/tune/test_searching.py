"""Searching: lines that repeat others are passed over, and nothing else comes of it."""

from __future__ import annotations

import pytest

from ctxbench.tune import searching
from ctxbench.tune.limits import COMPLETENESS, TOKENS
from ctxbench.tune.searching import Base, Goal, Repeats, Rival, optima_of
from ctxbench.tune.sides import TUNING
from ctxbench.tune.sweep.keepers import Front
from ctxbench.tune.sweep.sweeping import sweep

SEARCH = {"contextTopK": [*range(1, 100, 4), 20], "contextTopN": [0, 1, 2, 4, 50]}
POLICIES = {
    "some": {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.8, "of": "base"}]},
    "most": {"maximise": "completeness", "constraints": [{"metric": "tokens", "at_most": 0.5, "of": "base"}]},
    "hard": {"minimise": "items", "constraints": [{"metric": "precision", "at_least": 0.99}]},
    "near": {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.97}]},
}


@pytest.mark.parametrize("few", [False, True])
def test_passing_over_repeats_changes_nothing(ready, few, monkeypatch):
    if few:
        monkeypatch.setattr(searching, "LINES", 2)
    one = ready({"selector": "semantic", "search": SEARCH}, policies=POLICIES)
    side = one.datasets[0].sides[TUNING]
    rival = Rival.of(one.tunables[0], side, one.file.policies)
    base = Base.of(rival, one.file.policies)
    rival, goal = rival.against(base), Goal.of(one.file, one.file.policies)
    defaults = one.tunables[0].values()

    def kept(through):
        optima = optima_of(rival, goal, base=base)
        front, looked = Front(cost=TOKENS, gain=COMPLETENESS), []
        for keeper in optima.values():
            take = keeper.take
            monkeypatch.setattr(keeper, "take", lambda line, take=take: looked.append(line.values) or take(line))
        keepers = [*optima.values(), front]
        settings = sweep(rival.tunable.family, rival.ladders, through(keepers))
        found = [(each.settings, told(each.found), told(each.nearest), each.needed()) for each in optima.values()]
        reach = [told(each) for optimum in optima.values() for each in optimum.reach(0)]
        return (settings, front.settings, front.values, found, reach), len(looked)

    every, looked_at_all = kept(lambda keepers: keepers)
    fewer, looked = kept(lambda keepers: [Repeats(keepers, defaults)])
    assert fewer == every
    assert every[3][0][1] is not None
    assert every[3][2][1] is None
    assert looked == looked_at_all if few else looked < 0.9 * looked_at_all


def told(found):
    return None if found is None else (dict(found.values), dict(found.short), dict(found.means), dict(found.bounds))
