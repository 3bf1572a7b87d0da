"""Search: lines that repeat others are passed over, and nothing else comes of it."""

from __future__ import annotations

import numpy as np
import pytest

from ctxbench.tuning import search as module
from ctxbench.tuning.cut_families import sweep
from ctxbench.tuning.measures import COMPLETENESS, TOKENS
from ctxbench.tuning.results import TUNING
from ctxbench.tuning.search import TRIED_CUTS, Base, Competitor, RepeatFilter, optima_of
from ctxbench.tuning.setting_lines import Front

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
        monkeypatch.setattr(module, "MAX_REPEATS", 2)
    one = ready({"selector": "semantic", "search": SEARCH}, policies=POLICIES)
    query_set = one.datasets[0].query_sets[TUNING]
    competitor = Competitor.of(one.tunables[0], query_set, one.file.policies.values())
    base = Base.of(competitor, one.file.policies.values())
    competitor, file = competitor.with_base(base), one.file
    defaults = one.tunables[0].values()

    def kept(through):
        optima = optima_of(competitor, file, base=base)
        front, looked = Front(cost=TOKENS, gain=COMPLETENESS), []
        for collector in optima.values():
            add = collector.add
            monkeypatch.setattr(collector, "add", lambda line, add=add: looked.append(line.values) or add(line))
        collectors = [*optima.values(), front]
        settings = sweep(competitor.tunable.family, competitor.rankings, through(collectors))
        found = [(each.settings, told(each.best), told(each.nearest), each.labels_needed()) for each in optima.values()]
        reach = [told(each) for optimum in optima.values() for each in optimum.best_means(0)]
        return (settings, front.settings, front.values, found, reach), len(looked)

    every, looked_at_all = kept(lambda collectors: collectors)
    fewer, looked = kept(lambda collectors: [RepeatFilter(collectors, defaults)])
    assert fewer == every
    assert every[3][0][1] is not None
    assert every[3][2][1] is None
    assert looked == looked_at_all if few else looked < 0.9 * looked_at_all


def told(found):
    return None if found is None else (dict(found.values), dict(found.rounded), dict(found.means), dict(found.bounds))


def grid(ready, **entry):
    """A competitor on a small dataset, with what competes to be the base."""
    one = ready({"selector": "semantic", **entry}, policies=POLICIES)
    query_set = one.datasets[0].query_sets[TUNING]
    competitor = Competitor.of(one.tunables[0], query_set, one.file.policies.values())
    return competitor, one.file


def test_a_token_budget_is_swept_as_the_selector_runs(ready):
    search = {"contextTopK": [20], "contextTopN": [2, 20], "contextTokenBudget": [1, 150, 400, 5000]}
    competitor, _ = grid(ready, set={"contextTokenBudgetEnabled": True}, search=search)
    tokens = set()
    for line in competitor.tunable.family.lines(competitor.rankings):
        for place in {0, len(line) // 2, len(line) - 1}:
            values = line.values_at(place)
            assert competitor.tunable.is_swept(values)
            swept, ran = competitor.by_query(values), competitor.runner.values(competitor.tunable.values(values))
            for measure, found in ran.items():
                np.testing.assert_array_equal(swept[measure], found, err_msg=str(measure))
            assert np.nanmax(swept[TOKENS], initial=0) <= values["contextTokenBudget"]
            tokens.add(float(np.nansum(swept[TOKENS])))
    assert len(tokens) > 5


def test_a_grid_over_depth_has_depth_0_among_what_is_tried(ready):
    search = {**SEARCH, "contextExpansionDepth": [0, 1, 2]}
    competitor, file = grid(ready, set={"contextExpansionEnabled": True}, search=search)
    base = Base.of(competitor, file.policies.values())
    competitor = competitor.with_base(base)
    seen = []
    front = Front(cost=TOKENS, gain=COMPLETENESS)
    front.add(next(competitor.tunable.family.lines(competitor.rankings)))
    file = file.model_copy(update={"trials": 3 * TRIED_CUTS})
    for line in module._run_settings(competitor, file, front):
        seen.append((line.values["contextExpansionDepth"], line.axis))
    assert {depth for depth, _ in seen} == {0, 1, 2}
    assert {axis for depth, axis in seen if depth != 1} == {""}
    assert {axis for depth, axis in seen if depth == 1} == {"contextExpansionThreshold"}
    off = dict(competitor.tunable.values({"contextExpansionDepth": 0}))
    for measure, found in competitor.by_query(off).items():
        cut = competitor.tunable.family.by_query(competitor.rankings, off)
        np.testing.assert_array_equal(found, cut[measure], err_msg=str(measure))
