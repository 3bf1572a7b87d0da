"""What ships competes in every tuning, and nothing is recommended that a shipped preset beats."""

from __future__ import annotations

import itertools

import pytest

from ctxbench.evaluation.metrics import parse_metric
from ctxbench.io.console import silent
from ctxbench.io.documents import load_yaml
from ctxbench.io.errors import ParameterError
from ctxbench.io.workers import OptionalPool
from ctxbench.selectors.definitions import definition
from ctxbench.tuning.held_out import beats, best_preset
from ctxbench.tuning.inputs import Choice
from ctxbench.tuning.policy import Policy
from ctxbench.tuning.preset_files import write_presets_of
from ctxbench.tuning.results import LEARNED_NORMAL, PRESET, TOGETHER, TUNED
from ctxbench.tuning.search import BestSetting, Competitor
from ctxbench.tuning.tuner import CommonSetting, DatasetTuner, tune

COMPLETE, TOKENS, RECALL = map(parse_metric, ("completeness", "tokens", "recall"))
NORMAL = Policy.of("normal", minimise=TOKENS)
LEARNED = [f"learned/{name}" for name in ("aggressive", "normal", "conservative")]
KEEP_MOST = {
    name: {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": share, "of": "base"}]}
    for name, share in (("aggressive", 0.8), ("normal", 0.98))
}
SEMANTIC = {"selector": "semantic", "search": {"contextTopK": [50], "contextTopN": [0, 3]}}
BM25 = {"selector": "bm25", "set": {"n": 3}}


def figures(complete, tokens, recall=0.5):
    return {COMPLETE: complete, TOKENS: tokens, RECALL: recall}


@pytest.mark.parametrize(
    ("preset", "chosen", "better"),
    [
        ((0.9, 100), (0.8, 100), True),
        ((0.9, 100), (0.9, 120), True),
        ((0.9, 100), (0.9, 100), False),
        ((0.9, 100), (0.9 + 1e-15, 100), False),
        ((0.9, 100), (0.8, 90), False),
        ((0.8, 90), (0.9, 100), False),
        ((float("nan"), 90), (0.9, 100), False),
    ],
)
def test_a_preset_beats_a_setting_in_both_figures(preset, chosen, better):
    assert beats(NORMAL, figures(*preset), figures(*chosen)) is better
    assert best_preset(NORMAL, figures(*chosen), {"p": figures(*preset)}) == ("p" if better else None)


def test_a_preset_that_serves_the_policy_worse_does_not_beat():
    policy = Policy.of("normal", maximise=RECALL)
    assert not beats(policy, figures(0.9, 100, 0.4), figures(0.8, 120, 0.5))
    assert beats(policy, figures(0.9, 100, 0.5), figures(0.8, 120, 0.5))


def test_of_several_presets_that_beat_a_setting_the_best_by_the_policy_is_taken():
    presets = {"a": figures(0.9, 90), "b": figures(0.85, 80), "c": figures(0.85, 85), "d": figures(0.7, 10)}
    assert best_preset(NORMAL, figures(0.8, 100), presets) == "b"
    most = Policy.of("normal", maximise=COMPLETE)
    assert best_preset(most, figures(0.8, 100), presets) == "a"


@pytest.fixture
def tuner(ready):
    def made(*selectors, **given):
        inputs = ready(*selectors, **{"policies": KEEP_MOST, "labels": "split", **given})
        return DatasetTuner(inputs, inputs.datasets[0], silent)

    return made


def poor(n):
    return BestSetting(values={"n": n}, rounded={"n": n}, means={}, n={}, bounds={})


@pytest.mark.parametrize(
    ("selectors", "names"),
    [
        (("bm25",), LEARNED),
        (("learned",), LEARNED),
        ((BM25, SEMANTIC), [*(f"semantic/{name}" for name in definition("semantic").presets), *LEARNED]),
    ],
)
def test_shipped_presets_are_measured_in_every_tuning(tuner, selectors, names):
    tuned = tuner(*selectors)
    tuned.choose()
    result = tuned.result()
    assert list(result.shipped) == names
    shown = {one.name for one in result.results}
    for name, one in result.shipped.items():
        assert one.name in shown
        assert one is result.default if selectors == ("learned",) and name == LEARNED_NORMAL else one.role == PRESET
    for outcome in result.outcomes:
        advised = result.advised(outcome).figures
        own = figures(advised["completeness"].value, advised["tokens"].value)
        for one in result.shipped.values():
            preset = figures(one.figures["completeness"].value, one.figures["tokens"].value)
            assert outcome.recommended is None or not beats(outcome.policy, preset, own)


def test_a_preset_is_recommended_where_it_keeps_the_policy_for_the_fewest_tokens(tuner):
    tuned = tuner({"selector": "bm25", "set": {"n": 5}})
    tuned.choose()
    choice = tuned.choices["aggressive"]
    assert choice.selector == "learned", "bm25 offers five items, and learned/aggressive keeps 0.8 of that with three"
    result = tuned.result()
    outcome = result.outcomes[0]
    assert outcome.shipped in LEARNED
    assert outcome.recommended.values == result.shipped[outcome.shipped].values


@pytest.mark.parametrize("together", [False, True])
def test_a_setting_that_a_shipped_preset_beats_is_not_recommended(ready, shop, other, together, tmp_path):
    datasets = [shop, other] if together else [shop]
    inputs = ready("random", policies=KEEP_MOST, labels="split", datasets=datasets, together=together)
    tuners = [DatasetTuner(inputs, dataset, silent) for dataset in inputs.datasets]
    for tuned in tuners:
        tuned.choose()
    one = CommonSetting(tuners) if together else tuners[0]
    if together:
        one.choose(silent, OptionalPool())
        choices = one._choices
    else:
        choices = one.choices
    for name in KEEP_MOST:
        choices[name] = Choice(selector="random", setting=poor(8))
    result = one.result()
    assert result.dataset == (TOGETHER if together else "shop")
    beaten = [outcome for outcome in result.outcomes if outcome.replaced is not None]
    assert beaten
    for outcome in beaten:
        assert outcome.replaced.values["n"] == 8
        assert outcome.replaced.role == TUNED
        preset, tuned = result.shipped[outcome.shipped], outcome.replaced
        assert outcome.recommended.values == preset.values
        assert preset.figures["completeness"].value >= tuned.figures["completeness"].value
        assert preset.figures["tokens"].value < tuned.figures["tokens"].value
    assert write_presets_of(result, inputs, tmp_path / "presets.yaml")
    written = load_yaml(tmp_path / "presets.yaml")[0]["presets"][beaten[0].policy.name]
    assert (written["selector"], written["set"]) == ("learned", dict(preset.values))


def test_the_default_is_kept_where_it_is_the_preset_that_beats(tuner):
    """BM25 that goes by the length of texts more than by their words is less complete for more tokens."""
    tuned = tuner("learned", {"selector": "bm25", "set": {"k1": 10.0, "b": 1.0}})
    tuned.choose()
    tuned.choices["normal"] = Choice(selector="bm25", setting=poor(5))
    outcome = next(one for one in tuned.result().outcomes if one.policy.name == "normal")
    assert outcome.recommended is None
    assert outcome.replaced.values["n"] == 5


def test_what_ships_and_cannot_rank_is_left_out_with_its_reason(tuner, monkeypatch):
    made = Competitor.of

    def refuse(tunable, *given):
        if tunable.name == "learned":
            raise ParameterError("no model")
        return made(tunable, *given)

    monkeypatch.setattr(Competitor, "of", staticmethod(refuse))
    tuned = tuner("bm25")
    tuned.choose()
    result = tuned.result()
    assert result.shipped == {}
    assert any("learned" in note and "no model" in note for note in result.notes)


def test_a_preset_is_what_ships_whatever_the_file_sets(tuner):
    entry = {"selector": "learned", "name": "learned", "set": {"at_most": 2}}
    tuned = tuner("bm25", entry)
    tuned.choose()
    values = tuned.shipped_values[LEARNED_NORMAL]
    assert values.values["at_most"] == 5
    assert values.selector != "learned", "that is the name of the selector with at_most 2"


def test_policies_that_come_to_the_same_are_grouped(ready):
    policies = {"one": KEEP_MOST["aggressive"], "two": KEEP_MOST["aggressive"], "three": KEEP_MOST["normal"]}
    (result,) = tune(ready("dense", policies=policies, labels="split"), command="x").datasets
    groups = [[outcome.policy.name for outcome in group] for group in result.same_advice()]
    assert ["one", "two"] in [group[:2] for group in groups]
    assert sorted(itertools.chain(*groups)) == sorted(policies)
