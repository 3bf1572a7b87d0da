"""One setting for several datasets: the same on all of them, and figures that weigh every dataset the same."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.evaluation.statistics import wilson
from ctxbench.selectors.definitions import read_presets
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.tuning.policy import Constraint, Policy
from ctxbench.tuning.preset_files import write_presets_of
from ctxbench.tuning.results import TEST, TOGETHER, TUNING
from ctxbench.tuning.tuner import READING, CommonSetting, _join_values, _values, tune

COMPLETE, TOKENS = parse_metric("completeness"), parse_metric("tokens")
SMALL = {"contextTopK": [20], "contextTopN": [0, 1, 3]}
POLICIES = {
    "aggressive": {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.8, "of": "base"}]},
    "most": {"maximise": "completeness", "constraints": [{"metric": "tokens", "at_most": 0.7, "of": "base"}]},
}


@pytest.fixture(scope="module")
def tuned():
    """What was tuned, by selectors and datasets: one tuning is enough for all that read it."""
    return {}


@pytest.fixture
def found(ready, shop, other, tuned):
    """Tuned on two datasets, and together."""

    def made(*selectors, datasets=(), **given):
        selectors = selectors or ({"selector": "semantic", "search": SMALL},)
        datasets = datasets or [shop, other]
        key = repr((selectors, datasets, given))
        if key not in tuned:
            one = ready(*selectors, datasets=datasets, policies=POLICIES, together=True, **given)
            tuned[key] = one, tune(one, command="x")
        return tuned[key]

    return made


def run(tunable, values, query_set):
    answers = query_set.answers(PipelineSelector("run", tunable.pipeline(values), query_set.resources))
    return evaluate([COMPLETE, TOKENS], query_set.labels.evidence(answers))


def test_every_figure_is_the_mean_of_the_datasets_means(found):
    one, tuning = found()
    assert [each.dataset for each in tuning.datasets] == ["shop", "other", TOGETHER]
    together = tuning.datasets[-1]
    for outcome in together.outcomes:
        for split, figures in ((TUNING, outcome.chosen.tuning), (TEST, outcome.chosen.test)):
            runs = [run(one.tunables[0], outcome.chosen.values, opened.query_sets[split]) for opened in one.datasets]
            for metric in (COMPLETE, TOKENS):
                means = [np.nanmean(each[metric]) for each in runs]
                assert figures[str(metric)].value == pytest.approx(np.mean(means), rel=1e-12)
    assert together.queries == {TUNING: 200, TEST: 200}
    base = together.default.tuning["completeness"].value
    assert together.outcomes[0].bounds["completeness >= 0.8 times the base's"] >= 0.8 - 0.02 / base


def test_one_setting_costs_no_less_than_one_for_each(found):
    _, tuning = found()
    apart = [each.outcomes[0].chosen.tuning["tokens"].value for each in tuning.datasets[:2]]
    assert tuning.datasets[-1].outcomes[0].chosen.tuning["tokens"].value >= 0.9 * np.mean(apart)


def test_the_order_of_datasets_does_not_matter(found, shop, other):
    one, turned = (found(datasets=pair)[1].datasets[-1] for pair in ([shop, other], [other, shop]))
    for left, right in zip(one.outcomes, turned.outcomes, strict=True):
        assert dict(left.chosen.values) == dict(right.chosen.values)
        assert left.chosen.test["tokens"].value == pytest.approx(right.chosen.test["tokens"].value, rel=1e-12)
        assert [(one.text, one.status) for one in left.verdicts] == [(one.text, one.status) for one in right.verdicts]


def test_what_has_to_be_tried_does_not_compete(found):
    expanded = {
        "selector": "semantic",
        "name": "expanded",
        "set": {"contextExpansionEnabled": True},
        "search": {**SMALL, "contextExpansionDepth": [1]},
    }
    _, tuning = found({"selector": "semantic", "search": SMALL}, expanded, trials=2)
    assert {outcome.chosen.selector for outcome in tuning.datasets[-1].outcomes} == {"semantic"}


def test_one_dataset_is_not_tuned_together(found, shop):
    _, tuning = found(datasets=[shop])
    assert [each.dataset for each in tuning.datasets] == ["shop"]


def test_the_presets_for_all_are_read_back(found, tmp_path):
    one, tuning = found()
    path = tmp_path / "presets" / "together.yaml"
    assert write_presets_of(tuning.datasets[-1], one, path)
    file = read_presets(path)
    assert dict(file.presets["aggressive"].set) == dict(tuning.datasets[-1].outcomes[0].chosen.values)
    assert file.tuned["dataset"] == TOGETHER


class _Rows:
    """Values of one setting on a dataset."""

    def __init__(self, *values):
        self.by_query = {TEST: {COMPLETE: np.array(values, dtype=float)}}
        self.splits = (TEST,)


def test_values_are_scaled_so_that_every_dataset_weighs_the_same():
    small, large, none = _Rows(1, 0), _Rows(1, 1, 1, 1, 1, np.nan), _Rows(np.nan)
    pooled = _join_values([small, large], COMPLETE)
    assert np.nanmean(pooled) == pytest.approx((0.5 + 1.0) / 2)
    assert np.nanmean(_join_values([small, none], COMPLETE)) == 0.5
    assert np.isnan(_join_values([none], COMPLETE)).all()


def test_shares_of_all_datasets_lie_between_none_and_all():
    sizes, complete = (26, 58), (26, 55)
    rows = [_Rows(*(np.arange(n) < k)) for n, k in zip(sizes, complete, strict=True)]
    every = CommonSetting.__new__(CommonSetting)
    every._tuners = [
        SimpleNamespace(dataset=SimpleNamespace(query_sets={TEST: SimpleNamespace(group=np.arange(n))})) for n in sizes
    ]
    found = every._estimate(_values(rows, COMPLETE, READING), COMPLETE, READING, 0.95)
    ends = [wilson(k, n) for k, n in zip(complete, sizes, strict=True)]
    means = [k / n for k, n in zip(complete, sizes, strict=True)]
    assert (found.value, found.n) == (pytest.approx(np.mean(means)), 84)
    for end, sign in (("low", -1), ("high", 1)):
        distance = sum((getattr(each, end) - mean) ** 2 for each, mean in zip(ends, means, strict=True)) ** 0.5
        assert getattr(found.interval, end) == pytest.approx(found.value + sign * distance / 2)
    assert 0 <= found.interval.low <= found.value <= found.interval.high <= 1


def test_a_constraint_that_no_test_query_can_answer_is_neither_met_nor_missed():
    rows = _Rows(1, 1, 1)
    rows.by_query[TEST][TOKENS] = np.full(3, np.nan)
    rows.reachable = {TEST: np.ones(3, dtype=bool)}
    opened = SimpleNamespace(query_sets={TEST: SimpleNamespace(group=np.arange(3))})
    every = CommonSetting.__new__(CommonSetting)
    every._tuners = [SimpleNamespace(defaults=rows, dataset=opened)]
    every._file = SimpleNamespace(confidence=0.95)
    told, base, alone = (
        Constraint(metric=COMPLETE, at_least=0.5),
        Constraint(metric=TOKENS, at_most=1.0, of="base"),
        Constraint(metric=TOKENS, at_most=100.0),
    )
    policy = Policy.of("p", maximise=COMPLETE, constraints=(told, base, alone))
    (found,) = every._verdicts(policy, [rows])
    assert (found.text, found.status, found.n) == (str(told), "too few to say", 3)
