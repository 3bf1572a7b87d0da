"""Tuning end to end on a made dataset: what is recommended is what running it gives, and the test split waits."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.io.console import silent
from ctxbench.report.tuning_document import write_report
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.tuning import inputs
from ctxbench.tuning.inputs import Choice, choose, open_tuning
from ctxbench.tuning.policy import read_policies
from ctxbench.tuning.results import DEFAULTS, EVERYTHING, FIXED, PRESET, RECOMMENDED, TEST, TUNING, QuerySet
from ctxbench.tuning.tuner import DatasetTuner, tune

COMPLETE, TOKENS = parse_metric("completeness"), parse_metric("tokens")
SMALL = {"contextTopK": [20, 50], "contextTopN": [0, 1, 3, 5]}
SEMANTIC = {"selector": "semantic", "search": SMALL}
DOMAINS = {"selector": "semantic-domains", "search": {"contextTopK": [50], "toolsTopN": [0, 2], "rulesTopN": [0, 1]}}
EXPANDED = {
    "selector": "semantic",
    "name": "expanded",
    "set": {"contextExpansionEnabled": True},
    "search": {**SMALL, "contextExpansionDepth": [1, 2]},
}
BM25 = {"selector": "bm25", "search": {"b": [0.1, 0.9]}}
POLICIES = {
    "aggressive": {
        "minimise": "tokens",
        "constraints": [{"metric": "completeness", "at_least": 0.8, "of": "base"}],
    },
    "within": {"maximise": "completeness", "constraints": [{"metric": "tokens", "at_most": 0.6, "of": "base"}]},
}


def run(tunable, values, query_set):
    """Completeness and tokens by query of a selector as an experiment would run it."""
    answers = query_set.answers(PipelineSelector("run", tunable.pipeline(values), query_set.resources))
    return evaluate([COMPLETE, TOKENS], query_set.labels.evidence(answers))


@pytest.fixture
def chosen(ready):
    """Choose on the one dataset among the settings of the selectors alone; returns the tuner."""

    def made(*selectors, **given):
        one = replace(ready(*selectors, **{"policies": POLICIES, "labels": "split", **given}), shipped=())
        tuner = DatasetTuner(one, one.datasets[0], silent)
        tuner.choose()
        return tuner

    return made


# -------------------------------------------------------------------------------------------------- what is recommended


@pytest.mark.parametrize("entry", [SEMANTIC, DOMAINS, EXPANDED, "dense", BM25])
def test_what_is_recommended_has_what_the_search_said(chosen, entry):
    tuner = chosen(entry)
    query_set = tuner.dataset.query_sets[TUNING]
    for policy, choice in tuner.choices.items():
        assert choice.setting is not None, policy
        tunable = tuner.searches[choice.selector].competitor.tunable
        values = run(tunable, choice.setting.rounded, query_set)
        by_name = {str(measure): mean for measure, mean in choice.setting.means.items() if not measure.reachable}
        n = int((~np.isnan(values[COMPLETE])).sum())
        assert round(by_name["completeness"] * n) == np.nansum(values[COMPLETE])
        assert by_name["tokens"] == pytest.approx(np.nanmean(values[TOKENS]), rel=1e-12)


def test_the_fewest_items_that_meet_the_policy_are_found(chosen):
    """By hand: every n is run, and the paired difference by group held against eight tenths of the default's."""
    tuner = chosen("dense")
    query_set, (tunable,) = tuner.dataset.query_sets[TUNING], tuner.inputs.tunables
    base = run(tunable, {}, query_set)[COMPLETE]
    known = ~np.isnan(base)
    group = np.unique(query_set.group[known], return_inverse=True)[1]
    sizes = np.bincount(group)

    def meets(n):
        sums = np.bincount(group, (run(tunable, {"n": n}, query_set)[COMPLETE] - base)[known])
        mean = sums.sum() / sizes.sum()
        spread = ((sums - mean * sizes) ** 2).sum() * len(sums) / (len(sums) - 1) + 2 * sizes.mean() ** 2
        own = base[known].mean()
        return own + mean - 2.6 * spread**0.5 / sizes.sum() >= 0.8 * own - 0.02

    first = next(n for n in range(101) if meets(n))
    assert 0 < first < 20
    assert tuner.choices["aggressive"].setting.values == {"n": first}


def test_a_searched_parameter_of_the_ranking_is_measured_by_its_own_ranking(chosen):
    tuner = chosen(BM25)
    (searched,) = tuner.searches.values()
    query_set = tuner.dataset.query_sets[TUNING]
    for values in ({"n": 3, "b": 0.1}, {"n": 3, "b": 0.9}, {"n": 3}):
        expected = run(searched.competitor.tunable, values, query_set)
        found = {str(one): each for one, each in searched.competitor.by_query(values).items()}
        np.testing.assert_array_equal(found["completeness"], expected[COMPLETE])
        np.testing.assert_array_equal(found["tokens"], expected[TOKENS])
    assert searched.tried > 0


def test_the_best_of_several_selectors_wins(chosen):
    tuner = chosen(SEMANTIC, "dense", DOMAINS)
    tokens = {
        name: next(mean for one, mean in found.optima["aggressive"].best.means.items() if str(one) == "tokens")
        for name, found in tuner.searches.items()
    }
    assert tuner.choices["aggressive"].selector == min(tokens, key=tokens.get)
    assert list(tokens) == ["semantic", "dense", "semantic-domains"]


@pytest.mark.essential
def test_figures_are_those_of_runs_on_either_split(ready):
    one = ready(SEMANTIC, "dense", policies=POLICIES, labels="split")
    (found,) = tune(one, command="x").datasets
    (opened,) = one.datasets
    by_name = {tunable.name: tunable for tunable in one.tunables}
    for outcome in found.outcomes:
        assert outcome.chosen.name == outcome.policy.name
        for split, figures in ((TUNING, outcome.chosen.tuning), (TEST, outcome.chosen.test)):
            values = run(by_name[outcome.chosen.selector], outcome.chosen.values, opened.query_sets[split])
            assert figures["completeness"].value == pytest.approx(np.nanmean(values[COMPLETE]), rel=1e-12)
            assert figures["tokens"].value == pytest.approx(np.nanmean(values[TOKENS]), rel=1e-12)
    roles = {result.name: result.role for result in found.results}
    assert roles["specification's defaults"] == DEFAULTS
    assert roles["semantic/aggressive"] == PRESET
    assert roles[EVERYTHING] == EVERYTHING
    assert roles["aggressive"] == roles["within"] == RECOMMENDED
    assert FIXED in roles.values()
    assert "semantic/spec" not in roles, "these are the defaults"
    assert {result.name for result in found.results if not result.test} == set()


# ------------------------------------------------------------------------------------------------------- the test split


class _Poison:
    """Of which nothing may be asked."""

    def __getattribute__(self, name):
        raise AssertionError(f"the test split was asked for {name}")


@pytest.mark.essential
def test_no_choice_looks_at_the_test_split(ready, fitted):
    one = ready(SEMANTIC, EXPANDED, fitted(), policies=POLICIES, labels="split")
    (opened,) = one.datasets
    query_sets = {TUNING: opened.query_sets[TUNING], TEST: _Poison()}
    tuner = DatasetTuner(one, replace(opened, query_sets=query_sets), silent)
    tuner.choose()
    assert all(choice.setting is not None for choice in tuner.choices.values())
    with pytest.raises(AssertionError, match="the test split was asked for"):
        tuner.result()


def test_all_choices_on_all_datasets_come_first(ready, shop, other, monkeypatch):
    asked = []
    answers = QuerySet.answers
    monkeypatch.setattr(
        QuerySet,
        "answers",
        lambda self, selector: asked.append((self.dataset.name, self.split)) or answers(self, selector),
    )
    one = ready(SEMANTIC, datasets=[shop, other], policies=POLICIES, together=True, labels="split")
    asked.clear()
    tune(one, command="x")
    first = asked.index(("shop", TEST))
    assert {name for name, split in asked[:first] if split == TUNING} == {"shop", "other"}
    assert all(split == TUNING for _, split in asked[:first])


def test_other_labels_of_the_test_split_change_no_choice(ready, shop, tmp_path):
    from ctxbench.datasets.files import read_dataset, write_dataset

    dataset = read_dataset(shop)
    test = {query.id for query in dataset.queries if query.split == "test"}
    held = [item.key for item in dataset.catalog]
    labels = tuple(
        replace(label, item=held[(held.index(label.item) + 7) % 52]) if label.query in test else label
        for label in dataset.labels
    )
    write_dataset(replace(dataset, labels=labels), tmp_path / "turned")
    found = [
        tune(replace(ready(SEMANTIC, datasets=[folder], policies=POLICIES, labels="split"), shipped=()), command="x")
        for folder in (shop, tmp_path / "turned")
    ]
    one, turned = ([outcome.chosen for outcome in each.datasets[0].outcomes] for each in found)
    assert [dict(each.values) for each in one] == [dict(each.values) for each in turned]
    assert one[0].tuning == turned[0].tuning
    assert one[0].test["completeness"].value > turned[0].test["completeness"].value + 0.3


# ------------------------------------------------------------------------------------------------------- the same again


def test_the_same_again_gives_the_same_bytes(policies, shop, other, fitted, tmp_path):
    path = policies(
        {**SEMANTIC, "search": {"contextTopK": [20], "contextTopN": [1]}}, fitted(), policies=POLICIES, sample=80
    )

    def tuned(*datasets):
        return tune(open_tuning(read_policies(path), [str(one) for one in datasets]), command="x")

    def files(name, found):
        write_report(found, tmp_path / name)
        return {one.relative_to(tmp_path / name): one.read_bytes() for one in sorted((tmp_path / name).rglob("*.*"))}

    found = tuned(shop, other)
    one, again = files("a", found), files("b", tuned(shop, other))
    assert one == again
    assert len(one) > 3
    of, turned = ({one.dataset: one for one in each.datasets} for each in (found, tuned(other, shop)))
    for name in ("shop", "other"):
        assert repr_of(of[name]) == repr_of(turned[name])


def repr_of(found):
    return [
        (
            outcome.chosen.selector,
            dict(outcome.chosen.values),
            outcome.chosen.tuning,
            outcome.chosen.test,
            outcome.verdicts,
        )
        for outcome in found.outcomes
    ]


def test_what_is_chosen_is_compared_by_what_the_policy_betters(ready):
    policies = {"more": {"maximise": "recall", "constraints": [{"metric": "tokens", "at_most": 0.9, "of": "base"}]}}
    (found,) = tune(ready(SEMANTIC, policies=policies, labels="split"), command="x").datasets
    (outcome,) = found.outcomes
    recall, base = outcome.against["defaults"]["recall"], found.default
    assert list(outcome.against["defaults"]) == ["completeness", "tokens", "items", "recall"]
    assert recall.base == pytest.approx(base.test["recall"].value, rel=1e-12)
    assert recall.other == pytest.approx(outcome.chosen.test["recall"].value, rel=1e-12)


# ----------------------------------------------------------------------------------------------- what cannot be met


def test_what_nothing_can_meet_is_an_outcome_beside_the_others(ready, shop, other):
    policies = {
        "most": {"minimise": "tokens", "constraints": [{"metric": "precision", "at_least": 0.99}]},
        "both": {
            "maximise": "completeness",
            "constraints": [{"metric": "tokens", "at_most": 1}, {"metric": "recall", "at_least": 0.5}],
        },
        "fine": POLICIES["aggressive"],
    }
    one = ready(SEMANTIC, datasets=[shop, other], policies=policies, together=True)
    for found in tune(one, command="x").datasets:
        most, both, fine = found.outcomes
        assert most.reason.startswith("no setting reaches precision >= 0.99: the best value is 0.")
        assert both.reason.startswith("no setting reaches tokens <= 1")
        assert (most.chosen, both.chosen) == (None, None)
        assert fine.chosen is not None


def test_with_too_few_queries_nothing_is_recommended(ready, small):
    (found,) = tune(ready(SEMANTIC, datasets=[small], policies=POLICIES), command="x").datasets
    (aggressive, _) = found.outcomes
    assert aggressive.chosen is None
    assert aggressive.needed[0] > 0
    assert "16 queries" in aggressive.reason
    assert [one.name for one in found.traces] == ["semantic: front", "learned: presets", "semantic: first n"]
    assert len(found.traces[0].settings) > 3
    assert [one.role for one in found.results if one.role == RECOMMENDED] == [
        RECOMMENDED for outcome in found.outcomes if outcome.chosen is not None
    ]


# ------------------------------------------------------------------------------------------------- which labels decide


def test_few_labels_decide_all_together(ready):
    (found,) = tune(ready(SEMANTIC, policies=POLICIES, labels=""), command="x").datasets
    assert found.queries == {"all": 240}
    assert found.all_decide
    assert found.notes[0].key == "tuning.all-labels-decide"
    for outcome in found.outcomes:
        assert outcome.chosen.test == {}
        assert outcome.chosen.figures["completeness"].n == 220
        assert outcome.against["defaults"]["tokens"].n == 240
        assert all(one.n in (220, 240) for one in outcome.verdicts)


@pytest.mark.parametrize(("given", "few", "expected"), [("", 100, False), ("", 300, True), ("all", 100, True)])
def test_the_split_is_kept_from_enough_labels_on_unless_all_are_asked_for(ready, monkeypatch, given, few, expected):
    monkeypatch.setattr(inputs, "MIN_LABELS", few)
    (opened,) = ready(SEMANTIC, labels=given).datasets
    assert list(opened.query_sets) == (["all"] if expected else [TUNING, TEST])


def test_a_fit_is_scored_out_of_fold_where_all_labels_decide(ready, fitted):
    """The fit has seen the tuning split; each of its queries, and each other, is scored by fits on other folds."""
    tuner = DatasetTuner(one := ready(SEMANTIC, fitted(), policies=POLICIES, labels="all"), one.datasets[0], silent)
    tuner.choose()
    assert tuner.searches["probability"].competitor.full_ranking.refitted
    assert any("other folds" in note for note in tuner.result().notes)


# ------------------------------------------------------------------------------------------------- kinds of selectors


def test_expansion_is_tried_and_said(ready):
    (found,) = tune(ready(SEMANTIC, EXPANDED, policies=POLICIES), command="x").datasets
    (note,) = [note for note in found.notes if note.startswith("expanded: ")]
    assert [*note.values["parameters"]] == ["contextExpansionDepth", "expansion"]
    assert note.values["settings"] > 0
    assert all(outcome.tried > 0 for outcome in found.outcomes)


def test_an_expansion_alone_is_recommended_with_what_it_gives(ready):
    one = replace(ready(EXPANDED, policies={"aggressive": POLICIES["aggressive"]}), shipped=())
    (found,) = tune(one, command="x").datasets
    (outcome,) = found.outcomes
    assert outcome.chosen.values["contextExpansionEnabled"] is True
    assert "contextExpansionThreshold" in outcome.chosen.values
    assert {trace.name for trace in outcome.slices} >= {"contextTopN", "contextExpansionDepth"}
    assert outcome.heat_maps == ()


def test_two_domains_are_recommended_without_a_mode_that_says_nothing(ready):
    (found,) = tune(ready(DOMAINS, policies=POLICIES), command="x").datasets
    for outcome in found.outcomes:
        values = outcome.chosen.values
        assert {"toolsTopN", "toolsMargin", "rulesTopN", "rulesMargin", "contextTopK"} <= set(values)
        for mode in {"rulesMode", "toolsMode"} & set(values):
            assert values[mode] == "normal"


def test_answers_are_tuned_like_a_selector(ready, tmp_path):
    one = ready("dense")
    (tunable,), (opened,) = one.tunables, one.datasets
    lines = []
    for query_set in opened.query_sets.values():
        table = tunable.rank(query_set).answers.candidates
        for place, query in enumerate(query_set.dataset.queries):
            own = np.flatnonzero(table.request == place)
            ranking = [{"id": query_set.dataset.catalog[int(table.item[r])].id, "score": table.score[r]} for r in own]
            lines.append({"query": query.id, "items": ranking[:1], "ranking": ranking})
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (found,) = tune(ready("dense", {"answers": "mine.jsonl"}, policies=POLICIES), command="x").datasets
    (aggressive, _) = found.outcomes
    assert aggressive.chosen.selector == "mine", "a threshold on its scores costs less than a fixed number of items"
    assert set(aggressive.chosen.values) == {"topN", "includeScore", "margin"}
    fixed = {one.name: one for one in found.results}[aggressive.fixed.name]
    assert aggressive.chosen.tuning["tokens"].value < fixed.tuning["tokens"].value


def test_progress_names_dataset_and_selector(ready):
    told = []
    tune(ready(SEMANTIC, policies=POLICIES), command="x", progress=lambda *one: told.append(one))
    texts = [text for text, _, _ in told]
    assert texts[0] == "shop, semantic, ranking; done"
    assert any(text.startswith("shop, semantic, ") and text.endswith(" settings; done") for text in texts)
    assert all(done <= total for _, done, total in told)


def test_a_policy_whose_own_limits_came_to_nothing_takes_what_a_stricter_one_did(ready, monkeypatch):
    def unsure(policy, optima, ties):
        return Choice(reason="too few labels") if policy.name == "lax" else choose(policy, optima, ties)

    monkeypatch.setattr("ctxbench.tuning.tuner.choose", unsure)
    policies = {
        name: {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": share, "of": "base"}]}
        for name, share in (("lax", 0.7), ("strict", 0.8))
    }
    (found,) = tune(ready(BM25, policies=policies), command="x").datasets
    lax, strict = found.outcomes
    assert strict.recommended is not None
    assert lax.recommended.values == strict.recommended.values
    assert (lax.taken_from, strict.taken_from, lax.reason) == ("strict", "", "")
