"""Queries in groups: what a setting is chosen by, and what is printed, are intervals by group."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ctxbench.evaluation.comparisons import grouped_compare, grouped_estimate, worth
from ctxbench.evaluation.statistics import estimate, wilson_bounds
from ctxbench.io.console import silent
from ctxbench.tuning.cut_families import CommonLine, sweep_common
from ctxbench.tuning.measures import COMPLETENESS, TOKENS, Pairing
from ctxbench.tuning.policy import Constraint, Policy
from ctxbench.tuning.results import TEST, TUNING
from ctxbench.tuning.search import Optimum
from ctxbench.tuning.setting_lines import ThresholdLine
from ctxbench.tuning.tuner import DatasetTuner, tune

COMPLETE, COST = COMPLETENESS.metric, TOKENS.metric
POLICIES = {
    "aggressive": {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.8, "of": "base"}]},
    "within": {"maximise": "completeness", "constraints": [{"metric": "tokens", "at_most": 0.6, "of": "base"}]},
}


def policy(at_least=None, *, at_most=None):
    metric = COMPLETE if at_most is None else COST
    constraint = Constraint(metric=metric, at_least=at_least, at_most=at_most)
    return Policy.of("p", minimise=COST, constraints=(constraint,))


def line(complete, tokens, **given):
    """Settings from values by query, each of shape (n_settings, n_queries)."""
    by_query = {COMPLETENESS: np.asarray(complete, dtype=float), TOKENS: np.asarray(tokens, dtype=float)}
    sums, squares, cubes = ({m: (v**k).sum(axis=1) for m, v in by_query.items()} for k in (1, 2, 3))
    n = {m: v.shape[1] for m, v in by_query.items()}
    keys = np.arange(len(complete), 0.0, -1.0)
    return ThresholdLine(
        **{"values": {"topN": 0}, "axis": "score", "thresholds": keys, "span": (0.0, 9.0), **given},
        sums=sums,
        squares=squares,
        cubes=cubes,
        n=n,
    )


def shares(*counts, n):
    return np.array([np.arange(n) < count for count in counts]).astype(float)


# -------------------------------------------------------------------------------------------- constraints


def test_a_constraint_is_met_by_the_bound_of_what_the_queries_are_worth():
    """Of 120 queries worth 60: 84 complete reach 0.6 by query (0.613), but not by group (0.575)."""
    one = line(shares(84, 90, 120, n=120), [[1.0] * 120, [2.0] * 120, [9.0] * 120])
    for factor, count in [(1.0, 84), (0.5, 90)]:
        optimum = Optimum(policy(0.6), worth=factor)
        optimum.add(one)
        assert optimum.best.means[COMPLETENESS] == count / 120
        low, _ = wilson_bounds(count / 120, 120 * factor)
        assert optimum.best.bounds["completeness >= 0.6"] == pytest.approx(float(low))
        assert optimum.best.n[COMPLETENESS] == 120  # queries are counted as they are


def test_an_amount_too():
    values = np.random.default_rng(0).lognormal(4, 1, 90)
    ends = []
    for factor in (1.0, 0.5):
        optimum = Optimum(policy(at_most=200), worth=factor)
        optimum.add(line(shares(90, n=90), [values]))
        ends.append(optimum.best.bounds["tokens <= 200"])
    assert ends[0] == pytest.approx(estimate(values, scale="amount").interval.high)
    assert ends[1] > ends[0]


@pytest.mark.parametrize("factor", [1.0, 0.7])
def test_the_number_of_queries_that_are_needed_accounts_for_groups(factor):
    optimum = Optimum(policy(0.8), worth=factor)
    optimum.add(line(shares(51, n=60), [[5.0] * 60]))
    assert optimum.best is None
    needed = 60 + optimum.labels_needed()[0]
    low = [float(wilson_bounds(0.85, queries * factor)[0]) for queries in (needed - 1, needed)]
    assert low[0] < 0.8 <= low[1]
    assert needed == math.ceil(1.959964**2 * 0.8 * 0.2 / 0.05**2 / factor)  # 246 independent ones


def test_past_ten_times_as_many_no_number_is_named():
    optimum = Optimum(policy(0.8), worth=0.25)  # 984 of 60
    optimum.add(line(shares(51, n=60), [[5.0] * 60]))
    assert optimum.labels_needed() is None


# --------------------------------------------------------------------------------------------- all datasets


def test_every_dataset_has_its_own_factor():
    lines = [line(shares(count, n=n), [[3.0] * n]) for count, n in [(40, 50), (60, 100)]]
    common = CommonLine.of(lines, worth=[1.0, 0.5])
    for settings in (common, common.select_setting(0)):
        low, high = settings.bounds(COMPLETENESS, np.array([0]), level=0.95)
        apart = [wilson_bounds(share, size) for share, size in [(0.8, 50), (0.6, 50)]]
        for end, place in ((low, 0), (high, 1)):
            distance = [abs(float(each[place]) - share) / 2 for each, share in zip(apart, (0.8, 0.6), strict=True)]
            assert abs(float(end[0]) - 0.7) == pytest.approx(math.hypot(*distance))
    twice, _ = common.bounds(COMPLETENESS, np.array([0]), level=0.95, times=2.0)
    assert twice[0] > low[0]


class Made:
    """A family of one line, whose rankings are values by query."""

    def lines(self, rankings):
        yield line(*rankings)


def test_a_sweep_over_datasets_takes_their_factors():
    sets = [(shares(40, n=50), [[3.0] * 50]), (shares(60, n=100), [[3.0] * 100])]
    bounds = []
    for factors in (None, [1.0, 0.5]):
        optimum = Optimum(policy(0.5))
        sweep_common(Made(), sets, [optimum], worth=factors)
        bounds.append(optimum.best.bounds["completeness >= 0.5"])
    expected, _ = CommonLine.of([line(*one) for one in sets], worth=[1.0, 0.5]).bounds(
        COMPLETENESS, np.array([0]), level=0.95
    )
    assert bounds[1] == pytest.approx(float(expected[0]))
    assert bounds[1] < bounds[0]


# ---------------------------------------------------------------------------------------------- a whole tuning


@pytest.fixture
def opened(ready):
    """Tuning over the made dataset, a third of whose queries are in groups of two."""
    small = {"contextTopK": [20, 50], "contextTopN": [0, 1, 3, 5]}
    return ready({"selector": "semantic", "search": small}, policies=POLICIES, labels="split")


def test_the_base_says_what_its_queries_are_worth(opened):
    work = DatasetTuner(opened, opened.datasets[0], silent)
    work.choose()
    query_set, base = opened.datasets[0].query_sets[TUNING], work.base
    known = ~np.isnan(base.complete)
    _, group = np.unique(np.array(query_set.groups)[known], return_inverse=True)
    answers = float(worth(np.bincount(group, base.complete[known]), np.bincount(group)))
    assert known.sum() == base.in_need
    assert base.effective_queries == pytest.approx(answers)
    assert base.worth == pytest.approx(answers / base.in_need)
    assert 0.5 < base.worth < 1
    found = work.choices["aggressive"].setting
    own = work.searches["semantic"].competitor.by_query(found.rounded)[COMPLETENESS] - base.complete
    sums, sizes = (np.bincount(group, each) for each in (own[known], np.ones(known.sum())))
    mean = sums.sum() / sizes.sum()
    spread = ((sums - mean * sizes) ** 2).sum() * len(sums) / (len(sums) - 1) + 2 * sizes.mean()
    low = base.means[COMPLETENESS] + mean - 2.6 * math.sqrt(spread) / sizes.sum()
    bound = found.bounds["completeness >= 0.8 times the base's"]
    assert bound == pytest.approx(low / base.means[COMPLETENESS])
    assert low >= 0.8 * base.means[COMPLETENESS] - 0.02 - 1e-12


def test_what_is_printed_is_by_group_and_a_note_says_so(opened):
    (found,) = tune(opened, command="x").datasets
    query_sets = opened.datasets[0].query_sets
    work = DatasetTuner(opened, opened.datasets[0], silent)
    work.choose()
    for outcome in found.outcomes:
        values = outcome.chosen.values
        one = work.evaluator.setting(opened.tunables[0], values, name="again", role="")
        for split, figures in ((TUNING, outcome.chosen.tuning), (TEST, outcome.chosen.test)):
            for metric, scale in ((COMPLETE, "yes/no"), (COST, "amount")):
                mine = grouped_estimate(one.by_query[split][metric], query_sets[split].group, scale=scale)
                assert figures[str(metric)] == mine
        defaults = work.defaults.by_query[TEST]
        for metric, scale in ((COMPLETE, "yes/no"), (COST, "amount")):
            mine = grouped_compare(defaults[metric], one.by_query[TEST][metric], query_sets[TEST].group, scale=scale)
            shown = outcome.against["defaults"][str(metric)]
            assert (shown.p, shown.interval, shown.worth) == (mine.p, mine.interval, mine.worth)
    base = work.base
    (note,) = [note for note in found.notes if "groups" in note and "independent" in note]
    groups = len(
        {group for group, value in zip(query_sets[TUNING].groups, base.complete, strict=True) if value == value}
    )
    counts = {"queries": base.in_need, "groups": groups}
    assert note.values == {**counts, "effective": base.effective_queries, "share": base.worth}
    assert groups < base.in_need


def test_where_every_query_is_alone_nothing_is_said(opened, monkeypatch):
    query_set = opened.datasets[0].query_sets[TUNING]
    monkeypatch.setattr(
        type(query_set), "groups", property(lambda self: tuple(query.id for query in self.dataset.queries))
    )
    work = DatasetTuner(opened, opened.datasets[0], silent)
    work.choose()
    assert work.base.worth == 1
    assert not any("groups" in note for note in work.result().notes)


def test_a_metric_that_no_query_needs_leaves_the_factor_at_one():
    from ctxbench.tuning.search import Base

    nothing = Pairing(base={}, group=np.arange(3))
    within, complete = np.ones(3, dtype=bool), np.full(3, np.nan)
    base = Base(
        means={TOKENS: 1.0},
        pairing=nothing,
        queries_by_type={},
        reachable=within,
        complete=complete,
        effective_queries=0.0,
    )
    assert (base.in_need, base.worth) == (0, 1.0)
