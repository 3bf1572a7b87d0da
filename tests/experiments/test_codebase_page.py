"""The page on `codebase`: short, with its answer first, and the targets of document 003 as they were measured."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def measure():
    spec = importlib.util.spec_from_file_location("measure_codebase", ROOT / "experiments/codebase/measure.py")
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)  # `assembly` has a `measure`, too
    spec.loader.exec_module(module)
    return module


def figures(measure, *more, **shipped):
    """Two repositories of two requests, in which every selector finds half, within 1,000 tokens."""
    without = [f"without {name}" for name in measure.without()]
    names = [
        "bm25",
        measure.BEHIND,
        "codebase",
        "shipped",
        *without,
        *measure.added(),
        *measure.at_budgets("files"),
        *more,
    ]
    half = {metric: np.array([0.0, 1.0]) for metric in measure.METRICS} | {"tokens": np.array([500.0, 1500.0])}
    values = dict.fromkeys(names, half) | {"shipped": half | {k: np.array(v) for k, v in shipped.items()}}
    tags = [("deletes only", "go"), ("names a file", "go")]
    return [measure.Figures(name, n, tags, values) for name, n in (("small", 9), ("large", 90))]


def aider(measure):
    return ["aider", *(f"aider{kind} {tokens}" for kind in ("", " names") for tokens in measure.BUDGETS)]


def test_the_page_is_short_and_opens_with_its_answer(measure):
    every = figures(measure, *aider(measure))
    lines = measure.page((every, every), ([], []), 2.0).splitlines()
    assert len(lines) <= 100  # what `own_weights` adds has seven
    answer = "\n".join(lines).split("\n\n")[1]
    assert answer.startswith("**")
    assert answer.endswith("**")
    assert "| 8,000 | 50.0 | 50.0 | 50.0 | 50.0 | 50.0 |" in lines


def test_repositories_that_it_was_made_on_are_a_line_beside_others(measure):
    shown, made = figures(measure), figures(measure)[:1]
    lines = measure.page((shown, shown), (made, made), 2.0).splitlines()
    same = "no request changed | no request changed |"
    assert f"| mean of 1 that it was made on | 9 | 2 | 0.500 | 0.500 | 0.500 | {same}" in lines
    assert f"| mean of 2 | - | 4 | 0.500 | 0.500 | 0.500 | {same}" in lines
    assert any("nothing was chosen on them" in line for line in lines)


def test_of_some_repositories_only_the_first_table_is_measured(measure):
    small, large = figures(measure)
    few = {name: large.values[name] for name in ("bm25", measure.BEHIND, "codebase")}
    files = [small, measure.Figures("large", 90, large.tags, few)]
    lines = measure.page((files, [small]), ([], []), 2.0).splitlines()
    assert [line.split(" | ")[2] for line in lines if "mean of" in line] == ["4", "2"]
    assert any("tables from here on are of small." in line for line in lines)


def test_requests_without_tags_have_their_own_line(measure):
    every = figures(measure)
    lines = measure.page((every, every), ([], []), 2.0).splitlines()
    assert (
        "| without tagged changes | - | 2 | 1.000 | 1.000 | 1.000 | no request changed | no request changed |" in lines
    )
    assert [one.recall("codebase", measure.UNNAMED).tolist() for one in every] == [[0.0], [0.0]]


def test_without_aider_it_is_said(measure):
    assert "is given no AIDER" in measure.page((figures(measure), figures(measure)), ([], []), 2.0)


def test_targets_are_met_or_not_by_what_was_measured(measure):
    lacking = measure.targets(figures(measure), 3.5).splitlines()
    assert [line.split(" | ")[1] for line in lacking] == ["50%", "50%", "3%", "3.5 s", "0"]
    assert [line.split(" | ")[2].replace(";", ":").split(":")[0].rstrip(" |") for line in lacking] == [
        *("out of reach", "not met", "met", "not met", "met")
    ]
    assert "on large, 90 files" in lacking[3]
    met = figures(measure, precision=[1.0, 1.0], completeness=[1.0, 1.0], tokens=[20_000.0, 14_000.0])
    said = [
        line.split(" | ")[2].replace(";", ":").split(":")[0].rstrip(" |")
        for line in measure.targets(met, 2.9).splitlines()
    ]
    assert said == ["met", "met", "not met", "met", "met"]
