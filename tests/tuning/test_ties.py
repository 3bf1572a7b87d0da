"""Ties between selectors go to the selector of the base, on the tuning set and on the evaluation set."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from ctxbench.tuning.held_out import HeldOut, with_stricter
from ctxbench.tuning.inputs import Choice, choose
from ctxbench.tuning.measures import COMPLETENESS, TOKENS, Measure
from ctxbench.tuning.policy import SAFETY_ERRORS, Constraint, Policy, Ties, mean_gain
from ctxbench.tuning.results import DEFAULTS
from ctxbench.tuning.search import DEFAULT, BestSetting, Optimum, labels_to_confirm
from ctxbench.tuning.setting_lines import ThresholdLine
from ctxbench.tuning.tuner import tune

N = 200
WITHIN = Policy.of(
    "within",
    maximise=COMPLETENESS.metric,
    constraints=(Constraint(metric=TOKENS.metric, at_most=100),),
)
CHEAPEST = Policy.of(
    "cheapest",
    minimise=TOKENS.metric,
    constraints=(Constraint(metric=COMPLETENESS.metric, at_least=0.5),),
)
GROUP = np.arange(N)


def values(complete: int, tokens: float) -> dict[Measure, np.ndarray]:
    """A setting that makes the first queries complete."""
    return {COMPLETENESS: (np.arange(N) < complete).astype(float), TOKENS: np.full(N, tokens)}


def line(by_query) -> ThresholdLine:
    sums, squares, cubes = ({m: np.array([np.sum(v**k)]) for m, v in by_query.items()} for k in (1, 2, 3))
    n = dict.fromkeys(by_query, N)
    return ThresholdLine(
        values={}, axis="threshold", thresholds=np.array([1.0]), sums=sums, squares=squares, cubes=cubes, n=n
    )


def chosen(policy, default, **settings):
    """The choice of the settings of several selectors, the first of which is the base's; None = it has no setting."""
    means = {measure: float(row.mean()) for measure, row in default.items()}
    optima = {name: Optimum(policy, base=means) for name in settings}
    for name, setting in settings.items():
        if setting is not None:
            optima[name].limits = tuple(  # a line by hand has no differences to the default
                limit for limit in optima[name].limits if limit.by != "paired" and math.isnan(limit.complete)
            )
            optima[name].add(line(setting))
    base = next(iter(settings))

    def gain(policy, *compared):
        rows = [
            (settings[name] if chosen_values else default)[Measure(policy.objective)]
            for name, chosen_values in compared
        ]
        return mean_gain(policy, [(*rows, GROUP)])

    return choose(policy, optima, Ties(base, gain))


class TestTuningSet:
    def test_a_selector_that_is_better_by_chance_loses_to_that_of_the_base(self):
        choice = chosen(WITHIN, values(100, 50), learned=values(150, 60), semantic=values(152, 40))
        assert (choice.selector, choice.tied_with) == ("learned", "semantic")
        assert choice.setting.means[COMPLETENESS] == 150 / N

    def test_an_equal_objective_for_fewer_tokens_is_a_tie(self):
        choice = chosen(WITHIN, values(100, 50), learned=values(150, 60), semantic=values(150, 40))
        assert (choice.selector, choice.tied_with) == ("learned", "semantic")

    def test_a_selector_that_is_significantly_better_is_chosen(self):
        choice = chosen(WITHIN, values(100, 50), learned=values(150, 60), semantic=values(170, 40))
        assert (choice.selector, choice.tied_with) == ("semantic", "")
        assert choice.base.means[COMPLETENESS] == 150 / N

    def test_fewer_tokens_count_as_better_where_they_are_minimised(self):
        choice = chosen(CHEAPEST, values(150, 90), learned=values(150, 60), semantic=values(150, 40))
        assert choice.selector == "semantic"
        choice = chosen(CHEAPEST, values(150, 90), learned=values(150, 60), semantic=values(150, 59.9))
        assert (choice.selector, choice.tied_with) == ("learned", "semantic")

    def test_without_a_setting_of_the_base_the_default_must_be_beaten_where_the_objective_is_maximised(self):
        choice = chosen(WITHIN, values(150, 50), learned=None, semantic=values(153, 40))
        assert (choice.setting, choice.tied_with, choice.reason.code) == (None, "semantic", "CTX5713")
        assert choice.needed[0] > 0
        choice = chosen(CHEAPEST, values(150, 90), learned=None, semantic=values(150, 89.9))
        assert (choice.selector, choice.base) == ("semantic", None)  # the limits of the policy are enough
        choice = chosen(WITHIN, values(150, 50), learned=None, semantic=values(175, 40))
        assert (choice.selector, choice.base) == ("semantic", DEFAULT)

    def test_a_default_that_misses_the_policy_is_no_rival(self):
        choice = chosen(WITHIN, values(150, 500), learned=None, semantic=values(151, 40))
        assert (choice.selector, choice.base) == ("semantic", None)

    def test_a_base_that_does_not_compete_is_no_rival(self):
        """One setting for several datasets is chosen among the selectors that can be swept."""
        means = {measure: float(row.mean()) for measure, row in values(100, 50).items()}
        optimum = Optimum(WITHIN, base=means)
        optimum.limits = ()
        optimum.add(line(values(150, 60)))
        choice = choose(WITHIN, {"semantic": optimum}, Ties("learned", lambda *_: (0.0, 1.0)))
        assert (choice.selector, choice.base) == ("semantic", None)

    def test_of_two_others_the_better_is_compared(self):
        settings = {"learned": values(150, 60), "bm25": values(151, 60), "semantic": values(152, 40)}
        choice = chosen(WITHIN, values(100, 50), **settings)
        assert (choice.selector, choice.tied_with) == ("learned", "semantic")


def test_labels_that_would_confirm_a_gain_follow_from_its_error():
    fewest, most = labels_to_confirm(0.02, 0.01, 100)
    assert fewest == math.ceil(100 * (SAFETY_ERRORS / 2) ** 2) - 100
    assert most == math.ceil(100 * (SAFETY_ERRORS / 1.5) ** 2) - 100
    assert labels_to_confirm(0.0, 0.01, 100) is None
    assert labels_to_confirm(0.001, 0.01, 100) is None  # 676 times as many


def test_a_gain_on_several_datasets_is_that_of_their_means_and_of_tokens_of_their_logarithms():
    parts = [(values(150, 50)[m], values(100, 100)[m], GROUP) for m in (COMPLETENESS, TOKENS)]
    gain, error = mean_gain(WITHIN, [parts[0]])
    assert mean_gain(WITHIN, [parts[0]] * 4) == (pytest.approx(gain), pytest.approx(error / 2))
    assert mean_gain(CHEAPEST, [parts[1]])[0] == pytest.approx(50)
    assert mean_gain(CHEAPEST, [parts[1]] * 2)[0] == pytest.approx(math.log(101 / 51))


def test_a_setting_of_a_stricter_policy_replaces_that_of_the_base_only_if_it_is_better():
    stricter = Policy.of("stricter", maximise=WITHIN.maximise, constraints=WITHIN.constraints)

    def best(complete):
        return BestSetting(values={}, rounded={}, means={COMPLETENESS: complete}, n={}, bounds={})

    choices = {
        "within": Choice(selector="learned", setting=best(0.75)),
        "stricter": Choice(selector="semantic", setting=best(0.76), base=best(0.7)),
    }
    base, to_beat = SimpleNamespace(means={}), {"within": 0.5, "stricter": 0.5}
    for error, selector in ((0.001, "semantic"), (0.01, "learned")):
        ties = Ties("learned", lambda *_, error=error: (0.01, error))
        result = with_stricter([WITHIN, stricter], choices, base=base, to_beat=to_beat, ties=ties)["within"]
        assert result.selector == selector
    taken = with_stricter([WITHIN, stricter], choices, base=base, to_beat=to_beat, ties=Ties("learned", _gain_of(1.0)))
    assert taken["within"].base is choices["within"].setting


def _gain_of(gain):
    return lambda *_: (gain, 0.01)


class TestEvaluationSet:
    """Choices of `semantic` by the tuning set, with a setting of the base's selector or its default as the rival."""

    def replaced(self, gain, *, base=DEFAULT, selector="semantic", is_unread=True, falls_short=(), presets=()):
        def measured(name, complete, tokens, role=""):
            means = {COMPLETENESS.metric: complete, TOKENS.metric: tokens}
            return SimpleNamespace(selector=name, role=role, means=means)

        shipped = [
            SimpleNamespace(name=name, values={"n": 3}, tunable=SimpleNamespace(name=name.partition("/")[0]))
            for name in presets
        ]
        held_out = HeldOut(
            ties=Ties("learned", _gain_of(gain), 1.96),
            shipped=shipped,
            presets={preset.name: measured(preset.tunable.name, 0.9, 40) for preset in shipped},
            first=lambda row: row,
            of_base=lambda setting: measured("learned", 0.8, 60, DEFAULTS if setting is DEFAULT else ""),
            verdicts=lambda _, row: [SimpleNamespace(falls_short=row.selector in falls_short, met=None)],
            means=lambda row: row.means,
            is_unread=is_unread,
        )
        setting = BestSetting(values={"n": 2}, rounded={"n": 2}, means={}, n={}, bounds={})
        choices = {"within": Choice(selector=selector, setting=setting, base=base if selector == "semantic" else None)}
        chosen = {"within": {"chosen": measured(selector, 0.8, 50)}}
        return {policy.name: choice for policy, choice in held_out.replacements([WITHIN], choices, chosen)}

    def test_a_tie_goes_to_the_setting_of_the_base(self):
        best = BestSetting(values={"n": 4}, rounded={"n": 4}, means={}, n={}, bounds={})
        choice = self.replaced(0.01, base=best)["within"]
        assert (choice.selector, choice.setting, choice.tied_with) == ("learned", best, "semantic")

    def test_or_to_the_default_without_one(self):
        choice = self.replaced(0.01)["within"]
        assert (choice.setting, choice.tied_with, choice.reason.code) == (None, "semantic", "CTX5713")

    def test_a_significant_gain_is_no_tie(self):
        assert self.replaced(0.03) == {}

    def test_queries_that_the_choice_was_made_on_are_not_asked_again(self):
        assert self.replaced(0.01, is_unread=False) == {}

    def test_a_base_that_misses_the_policy_there_wins_no_tie(self):
        assert self.replaced(0.01, falls_short=("learned",)) == {}

    def test_a_preset_of_another_selector_replaces_that_of_the_base_only_if_it_is_better(self):
        assert self.replaced(0.01, selector="learned", presets=["semantic/normal"]) == {}
        choice = self.replaced(0.03, selector="learned", presets=["semantic/normal"])["within"]
        assert choice.selector == "semantic"
        assert self.replaced(0.01, selector="learned", presets=["learned/normal"])["within"].selector == "learned"

    def test_a_preset_may_replace_the_setting_of_the_base_that_won_a_tie(self):
        best = BestSetting(values={"n": 4}, rounded={"n": 4}, means={}, n={}, bounds={})
        choice = self.replaced(0.01, base=best, presets=["learned/normal"])["within"]
        assert (choice.selector, choice.setting.values, choice.tied_with) == ("learned", {"n": 3}, "semantic")


def test_a_copy_of_the_base_that_ranks_one_request_better_is_not_recommended(ready, tmp_path):
    """The whole way: the copy is the best of all settings on the tuning split, and tied there."""
    policies = {"within": {"maximise": "completeness", "constraints": [{"metric": "tokens", "at_most": 120}]}}
    inputs = ready("dense", policies=policies)
    (tunable,), (opened,) = inputs.tunables, inputs.datasets
    lines = []
    for query_set in opened.query_sets.values():
        table = tunable.rank(query_set).answers.candidates
        catalog, repaired = query_set.dataset.catalog, 0
        for number, query in enumerate(query_set.dataset.queries):
            rows = np.flatnonzero(table.request == number)
            scores = {catalog[int(table.item[row])].id: float(table.score[row]) for row in rows}
            required = [label.item.id for label in query_set.dataset.labels if label.query == query.id]
            if repaired < 2 and required and list(scores).index(required[0]) > 8:
                scores[required[0]], repaired = max(scores.values()) + 1, repaired + 1
            ranking = [{"id": item, "score": score} for item, score in sorted(scores.items(), key=lambda x: -x[1])]
            lines.append({"query": query.id, "items": ranking[:1], "ranking": ranking})
    (tmp_path / "copy.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    (result,) = tune(ready("dense", {"answers": "copy.jsonl"}, policies=policies), command="x").datasets
    (outcome,) = result.outcomes
    assert outcome.tied_with == "copy"
    assert outcome.chosen.selector == "dense"
