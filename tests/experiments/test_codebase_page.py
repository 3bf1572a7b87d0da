"""The page on `codebase`: short, with its answer first, and the figures of document 003 as they were measured."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from own_weights import EXACT, NEAREST, SHIPPED, OwnWeights
from pages import write_page

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def measure():
    spec = importlib.util.spec_from_file_location("measure_codebase", ROOT / "experiments/codebase/measure.py")
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)  # `assembly` has a `measure`, too
    spec.loader.exec_module(module)
    return module


def results(measure, *more, **shipped):
    """Two detailed repositories of two requests, in which every selector finds half, and one of the first table."""
    without = [f"without {name}" for name in measure.without()]
    few = ["bm25", measure.BEHIND, "codebase", "focused", "shipped"]
    names = [*few, *without, *measure.added(), *measure.at_budgets("files"), *more]
    half = {metric: np.array([0.0, 1.0]) for metric in measure.METRICS} | {"tokens": np.array([500.0, 1500.0])}
    values = dict.fromkeys(names, half) | {"shipped": half | {k: np.array(v) for k, v in shipped.items()}}
    values |= {"bm25": half | {"recall": np.array([0.0, 0.5])}}
    tags = [("deletes only", "go"), ("names a file", "go")]
    weights = OwnWeights(
        "small-files", recommended=True, found=dict.fromkeys((SHIPPED, NEAREST, EXACT), half["recall"])
    )
    detailed = [measure.Figures(name, n, tags, values) for name, n in (("small", 9), ("large", 900))]
    first = measure.Figures("first", 90, tags, {name: values[name] for name in few})
    return [*((figures, figures, weights) for figures in detailed), (first, None, None)]


@pytest.fixture(scope="module")
def tables(measure):
    return measure.tables_of(results(measure), 2.0)


def test_the_page_is_written_from_its_tables_within_its_limits(measure, tables, tmp_path, monkeypatch):
    monkeypatch.setattr("pages.REPORTS", tmp_path)
    write_page("codebase", measure.page(tables))  # raises where it is too long
    text = (tmp_path / "codebase.md").read_text("utf-8")
    assert text.split("\n\n")[1].startswith("**Take `codebase`: ten files hold 50.0%")
    assert "| large | 900 | 2 | 0.250 | 0.500 | 0.500 |" in text


def test_means_are_over_all_repositories_and_over_those_that_are_measured_in_detail(tables):
    rows = tables[""].set_index("repository")
    assert rows["requests"].to_dict() == {
        "small": 2,
        "large": 2,
        "first": 2,
        "mean of 3": 6,
        "without tagged changes": 3,
        "naming no changed file": 3,
        "mean of the 2 detailed": 4,
        "mean of 1 over 400 files": 2,
    }
    assert rows["codebase"]["without tagged changes"] == 1.0
    assert rows["codebase"]["naming no changed file"] == 0.0
    assert rows["over_bm25_difference"]["mean of 3"] == pytest.approx(0.25)


def test_each_part_is_compared_with_the_whole(measure, tables):
    parts = tables["parts"]
    assert set(parts["part"]) == {
        *(f"without {name}" for name in measure.without()),
        *(f"with {name}" for name in measure.added()),
    }
    assert not parts["difference"].any()


def test_of_budgets_both_views_are_kept(tables):
    assert len(tables["budgets"]) == 2 * 2 * 6
    assert set(tables["budgets"]["complete"]) == {0.5}


def test_figures_of_the_targets_are_those_of_the_shipped_settings(measure):
    facts = measure.tables_of(results(measure, completeness=[1.0, 1.0], tokens=[20_000.0, 14_000.0]), 3.5)["facts"]
    assert dict(zip(facts["fact"], facts["value"], strict=True)) == {
        "requests that lack a file": 0.0,
        "tokens offered": 17_000.0,
        "seconds": 3.5,
        "detailed repositories": 2.0,
    }


def test_maps_of_aider_are_told_where_they_were_measured(measure):
    aider = ["aider", *(f"aider {tokens}" for tokens in measure.BUDGETS)]
    tables = measure.tables_of(results(measure, *aider), 2.0)
    assert "aider" in set(tables["budgets"]["selector"])
    assert measure.page(tables).notes[-1] == "aider's repo map: its first ten files hold 50.0% of the changed files."


def test_without_clones_nothing_is_measured_and_nothing_is_written(measure, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["measure.py"])
    monkeypatch.setattr(measure, "keep_tables", pytest.fail)
    monkeypatch.setattr(measure, "write_page", pytest.fail)
    measure.main()
    assert capsys.readouterr().out.startswith("skipped: ")
