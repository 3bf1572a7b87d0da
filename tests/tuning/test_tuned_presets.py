"""Presets files from tuning: what they hold, that they are read back, and when there is none."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ctxbench.evaluation.metrics import evaluate, parse_metric
from ctxbench.io.errors import ParameterError, StorageError
from ctxbench.selectors.definitions import read_presets
from ctxbench.selectors.selector import PipelineSelector
from ctxbench.tuning.policy import Constraint, Policy
from ctxbench.tuning.preset_files import policy_block, write_presets_of
from ctxbench.tuning.results import TEST, TUNING
from ctxbench.tuning.tuner import tune

COMPLETE, TOKENS = parse_metric("completeness"), parse_metric("tokens")
SMALL = {"contextTopK": [50], "contextTopN": [0, 1, 3]}
DOMAINS = {"selector": "semantic-domains", "search": {"contextTopK": [50], "toolsTopN": [0, 2], "rulesTopN": [0, 1]}}
EXPANDED = {"selector": "semantic", "set": {"contextExpansionEnabled": True}, "search": SMALL}


@pytest.fixture
def written(ready, tmp_path):
    """Tune and write; returns what was opened and the file as it is read back."""

    def made(*selectors, **given):
        one = ready(*selectors, **given)
        (found,) = tune(one, command="x").datasets
        path = tmp_path / "out" / "presets" / "shop.yaml"
        assert write_presets_of(found, one, path)
        return one, found, read_presets(path)

    return made


@pytest.mark.parametrize("entry", [{"selector": "semantic", "search": SMALL}, DOMAINS, EXPANDED, "bm25"])
def test_a_preset_run_on_either_split_has_the_figures_of_the_file(written, entry):
    one, _, file = written(entry, trials=2)
    preset, (opened,) = file.presets["aggressive"], one.datasets
    definition = file.definition("aggressive")
    pipeline = definition.pipeline(definition.values("aggressive"))
    for split, figures in ((TUNING, preset.tuning), (TEST, preset.test)):
        query_set = opened.query_sets[split]
        answers = query_set.answers(PipelineSelector("run", pipeline, query_set.resources))
        values = evaluate([COMPLETE, TOKENS], query_set.labels.evidence(answers))
        for metric in (COMPLETE, TOKENS):
            known = values[metric][~np.isnan(values[metric])]
            assert figures[str(metric)]["value"] == float(f"{known.mean():.6g}")
            assert figures[str(metric)]["n"] == len(known)


def test_a_fitted_selector_is_named_relative_to_the_file(written, fitted, tmp_path):
    one, _, file = written(fitted())
    preset = file.presets["aggressive"]
    assert preset.selector == str(tmp_path / "probability.yaml")
    text = (tmp_path / "out" / "presets" / "shop.yaml").read_text()
    assert "selector: ../../probability.yaml" in text
    (opened,) = one.datasets
    query_set = opened.query_sets[TEST]
    definition = file.definition("aggressive")
    pipeline = definition.pipeline(definition.values("aggressive"))
    values = evaluate(
        [TOKENS], query_set.labels.evidence(query_set.answers(PipelineSelector("run", pipeline, query_set.resources)))
    )
    assert preset.test["tokens"]["value"] == float(f"{values[TOKENS].mean():.6g}")


def test_where_it_comes_from_is_said(written):
    one, found, file = written({"selector": "semantic", "search": SMALL}, sample=100, seed=5)
    assert file.tuned["dataset"] == "shop"
    assert file.tuned["hash"] == found.hash == one.datasets[0].dataset.hash
    assert file.tuned["queries"] == dict(found.queries)
    assert file.tuned["of"] == {TUNING: 120, TEST: 120}
    assert (file.tuned["seed"], file.tuned["tokens"], file.tuned["confidence"]) == (5, "chars/4", 0.95)
    assert file.tuned["embedder"] == one.embedder.identity.as_dict()
    assert file.tuned["policies"] == one.file.hash
    assert file.test_split == "read once, for the figures below, when all values were fixed"


def test_a_policy_is_kept_as_its_file_says_it():
    policy = Policy.of(
        "x",
        minimise=TOKENS,
        constraints=(
            Constraint(metric=COMPLETE, at_least=0.0, of="reachable"),
            Constraint(metric=parse_metric("items"), at_most=4.0),
        ),
    )
    assert policy_block(policy) == {
        "minimise": "tokens",
        "constraints": [
            {"metric": "completeness", "at_least": 0.0, "of": "reachable"},
            {"metric": "items", "at_most": 4.0},
        ],
    }


def test_of_answers_the_cut_is_kept(ready, written, tmp_path):
    one = ready("dense")
    lines = []
    for query_set in one.datasets[0].query_sets.values():
        table = one.tunables[0].rank(query_set).answers.candidates
        for place, query in enumerate(query_set.dataset.queries):
            own = np.flatnonzero(table.request == place)[:30]
            ranking = [{"id": query_set.dataset.catalog[int(table.item[r])].id, "score": table.score[r]} for r in own]
            lines.append({"query": query.id, "items": ranking[:1], "ranking": ranking})
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    policy = {"minimise": "tokens", "constraints": [{"metric": "completeness", "at_least": 0.4}]}
    _, _, file = written({"answers": "mine.jsonl"}, policies={"aggressive": policy})
    preset = file.presets["aggressive"]
    assert (preset.answers, preset.selector) == ("mine", "")
    assert set(preset.set) == {"topN", "includeScore", "margin"}
    with pytest.raises(ParameterError, match="tuned on your own selector's answers 'mine'"):
        file.definition("aggressive")


def test_what_misses_its_target_on_the_test_split_is_in_no_file(ready, tmp_path):
    one = ready({"selector": "semantic", "search": SMALL})
    (found,) = tune(one, command="x").datasets
    (outcome,) = found.outcomes
    path = tmp_path / "presets" / "shop.yaml"
    assert write_presets_of(found, one, path)
    missed = replace(outcome, verdicts=tuple(replace(each, status="missed") for each in outcome.verdicts))
    assert not write_presets_of(replace(found, outcomes=(missed,)), one, path)
    assert not path.exists()


def test_verdicts_stand_with_a_preset(ready, tmp_path):
    one = ready({"selector": "semantic", "search": SMALL}, labels="all")
    (found,) = tune(one, command="x").datasets
    path = tmp_path / "presets" / "shop.yaml"
    assert write_presets_of(found, one, path)
    file = read_presets(path)
    (row,) = file.presets["aggressive"].policy["verdicts"]
    assert (row["constraint"], row["met"]) == ("completeness >= 0.8 times the base's", True)
    assert row["verdict"] in ("holds", "holds within 2 points")
    assert file.test_split == ""
    assert file.presets["aggressive"].test == {}


def test_without_a_recommendation_there_is_no_file(ready, small, tmp_path):
    one = ready({"selector": "semantic", "search": SMALL}, datasets=[small])
    (found,) = tune(one, command="x").datasets
    path = tmp_path / "presets" / "small.yaml"
    assert not write_presets_of(found, one, path)
    assert not path.parent.exists()
    path.parent.mkdir()
    path.write_text("of another policy")
    assert not write_presets_of(found, one, path)
    assert not path.exists()


def test_an_older_file_that_cannot_go_is_an_error(ready, small, tmp_path):
    one = ready({"selector": "semantic", "search": SMALL}, datasets=[small])
    (found,) = tune(one, command="x").datasets
    path = tmp_path / "presets" / "small.yaml"
    path.mkdir(parents=True)
    with pytest.raises(StorageError, match=r"cannot remove the earlier presets file .*small\.yaml"):
        write_presets_of(found, one, path)
