"""`ctxbench tune` with a budget in place of a policy: which options go together, and what is not overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctxbench.cli.tune import Budgeted, catalog_name, checked_budget, tune_to_budget
from ctxbench.io.errors import ParameterError

POLICY = Path("policy.yaml")


def budget(*, policy=None, unlabelled=None, tokens=None, selector=None, datasets=("shop",), **others):
    return checked_budget(datasets, policy, unlabelled, tokens, selector, None, options=others)


def test_a_policy_has_no_budget():
    assert budget(policy=POLICY) is None


def test_a_budget_is_set_on_the_default_selector_unless_another_is_named():
    assert budget(unlabelled="r.txt", tokens=300.0).selector == "learned"
    assert budget(unlabelled="r.txt", tokens=300.0, selector="mine.yaml").selector == "mine.yaml"


@pytest.mark.parametrize(
    ("catalog", "tokens", "name"),
    [
        ("shop", 400.0, "within-400-shop.yaml"),
        ("lists/mill.json", 1e7, "within-10000000-mill.yaml"),
        ("mill/corpus.jsonl", 0.5, "within-0.5-mill.yaml"),
    ],
)
def test_presets_of_each_catalog_have_a_file_of_their_own(catalog, tokens, name):
    assert budget(unlabelled="r.txt", tokens=tokens, datasets=(catalog,)).out == Path("runs") / name


def test_a_folder_without_a_name_is_called_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert catalog_name(".") == tmp_path.name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "tune needs --policy FILE, or --unlabelled REQUESTS --tokens N"),
        ({"policy": POLICY, "tokens": 300.0}, "--policy needs labels"),
        ({"policy": POLICY, "selector": "learned"}, "--selector goes with --unlabelled"),
        ({"unlabelled": "r.txt"}, "--unlabelled REQUESTS and --tokens N go together"),
        ({"unlabelled": "r.txt", "tokens": 3.0, "datasets": ("shop", "mill")}, "one catalog is tuned, got 2"),
        ({"unlabelled": "r.txt", "tokens": 3.0, "--no-text": True}, "--no-text goes with --policy"),
        ({"unlabelled": "r.txt", "tokens": 3.0, "--no-text": True, "--markdown": True}, "--no-text and --markdown"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        budget(**given)


def test_a_file_of_something_else_is_not_overwritten(tmp_path):
    out = tmp_path / "mine.yaml"
    out.write_text("a: 1\n", encoding="utf-8")
    asked = Budgeted(catalog="shop", requests="r.txt", tokens=300.0, selector="learned", out=out)
    with pytest.raises(ParameterError, match="is there and is no presets file"):
        tune_to_budget(asked, as_json=False)
    assert out.read_text(encoding="utf-8") == "a: 1\n"


def agent(place, selector, name="agent.yaml"):
    (place / "tools.json").write_text('{"tools": [{"name": "one", "description": "freeze dates of releases"}]}')
    (place / name).write_text(f"name: desk\nsources: {{tools: tools.json}}\nselector: {selector}\n")
    return name


def test_a_budget_is_set_on_the_agents_own_selector(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = budget(unlabelled="r.txt", tokens=300.0, datasets=(agent(tmp_path, "learned/normal"),))
    assert (asked.selector, asked.note) == ("agent.yaml", "")
    named = budget(unlabelled="r.txt", tokens=300.0, datasets=("agent.yaml",), selector="learned")
    assert (named.selector, named.note) == ("learned", "")


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ("{command: [python, mine.py]}", "the selector of agent.yaml is a command of your own, on which no budget can"),
        (
            "bm25",
            "a budget needs a selector that ends with the cut `at_least`",
        ),
    ],
)
def test_that_it_is_not_the_agents_own_is_said(tmp_path, monkeypatch, selector, why):
    monkeypatch.chdir(tmp_path)
    asked = budget(unlabelled="r.txt", tokens=300.0, datasets=(agent(tmp_path, selector),))
    assert asked.selector == "learned"
    assert asked.note.startswith(why)
    assert asked.note.endswith("; it is set on learned")
