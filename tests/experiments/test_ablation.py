"""Ablations from the run to the page: standings, what is recommended, the report, and the script as one command."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import ablation_report as ablation_report_module
import numpy as np
import pytest
from ablation import Ablation, Standing, ablate, recommended, verdict
from ablation_report import ablation_report, answer, change, long_sections, verdict_text
from overview import overview

from ctxbench.evaluation.comparisons import AtTokens
from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.evaluation.runner import run
from ctxbench.evaluation.statistics import compare
from ctxbench.io.errors import ParameterError, StorageError
from ctxbench.model.registry import StoredPipeline
from ctxbench.pipelines.fits import read_calibrations
from ctxbench.report.pages import parted, titles
from ctxbench.report.run_tables import stage_text

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "experiments" / "strategies" / "ablations.py"
SELECTORS = """
  - {selector: semantic, preset: spec}
  - {name: analysis/whole, pipeline: {analyse: whole, retrieve: dense, refine: [standard]}}
  - {name: retrieval/bm25, pipeline: {retrieve: bm25, refine: [{first: {n: 5}}]}}
  - {name: retrieval/rrf, pipeline: {retrieve: {merge: [dense, bm25]}, refine: [rrf, {first: {n: 3}}]}}
  - {name: size/everything, pipeline: {retrieve: everything}}
"""


def experiment(
    folder, name, *, split="", selectors=SELECTORS, metrics="[completeness, recall, tokens, items, nDCG@10]"
):
    path = folder / f"{name}.yaml"
    lines = [
        f"name: {name}",
        "about: A small ablation.",
        f"datasets: [{ROOT / 'datasets' / 'smoke'}, {ROOT / 'tests' / 'fixtures' / 'tiny'}]",
        "embedder: hashing",
        "tokens: chars/4",
        f"metrics: {metrics}",
        "sample: 25",
        *([f"split: {split}"] if split else []),
        f"selectors:{selectors}",
    ]
    path.write_text("\n".join(lines), "utf-8")
    return path


@pytest.fixture(autouse=True, scope="module")
def a_cache_of_its_own(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(tmp_path_factory.getbasetemp() / "ablation-cache"))
        patch.setenv("CTXBENCH_OFFLINE", "1")
        yield


def made(folder, name="small", **given):
    prepared = open_experiment(experiment(folder, name, **given))
    run(prepared, folder / "runs" / name)
    return prepared, ablate(RunFolder(folder / "runs" / name), prepared)


@pytest.fixture(scope="module")
def small_made(a_cache_of_its_own, tmp_path_factory):
    """A folder with a run, what was run, and its ablation; only read."""
    folder = tmp_path_factory.mktemp("small")
    return folder, *made(folder)


@pytest.fixture
def small(small_made):
    return small_made[2]


# --------------------------------------------------------------------------------------------------------- the figures


def test_every_strategy_is_held_against_the_base_on_every_dataset(small):
    assert small.base == "semantic/spec"
    assert small.strategies == ("analysis/whole", "retrieval/bm25", "retrieval/rrf", "size/everything")
    for dataset in small.datasets:
        assert tuple(dataset.at_tokens) == small.strategies
        values = {one.selector: one.estimates for one in dataset.summary.selectors}
        for name, found in dataset.at_tokens.items():
            assert found.tokens == pytest.approx(values[name]["tokens"].value)
            assert found.complete == pytest.approx(values[name]["completeness"].value)
            if found.comparison is not None:
                assert found.comparison.difference == pytest.approx(found.complete - found.base)


def test_the_base_stands_on_its_own_curve(small):
    for dataset in small.datasets:
        base = dataset.summary.selectors[0].estimates
        tokens, complete = dataset.curve.means()
        [at] = np.unique(complete[np.isclose(tokens, base["tokens"].value)])
        assert at == pytest.approx(base["completeness"].value)


def test_p_values_are_corrected_over_the_strategies_of_a_dataset(small):
    for dataset in small.datasets:
        found = [one.comparison for one in dataset.at_tokens.values() if one.comparison is not None]
        least = min(found, key=lambda one: one.p)
        assert least.p_holm == pytest.approx(min(1.0, least.p * len(found)))


def test_a_run_of_another_experiment_or_dataset_is_refused(small_made):
    folder, prepared, _ = small_made
    other = replace(prepared, experiment=replace(prepared.experiment, name="other"))
    with pytest.raises(ParameterError, match="the run is of experiment 'small', not of 'other'"):
        ablate(RunFolder(folder / "runs" / "small"), other)
    changed = replace(prepared, datasets={"smoke": prepared.datasets["smoke"], "tiny": prepared.datasets["smoke"]})
    with pytest.raises(ParameterError, match="dataset tiny of the run is not the experiment's"):
        ablate(RunFolder(folder / "runs" / "small"), changed)
    with pytest.raises(StorageError, match="holds no manifest"):
        ablate(RunFolder(folder / "runs" / "none"), prepared)


def test_a_base_without_a_curve_and_a_run_without_tokens_are_refused(tmp_path):
    with pytest.raises(ParameterError, match="one standard cut"):
        made(tmp_path, "a", selectors="\n  - {name: bm25, pipeline: {retrieve: bm25}}\n  - everything")
    with pytest.raises(ParameterError, match="needs the metric tokens"):
        made(tmp_path, "b", metrics="[completeness]")


# ------------------------------------------------------------------------------------------------------------ standings


def at(difference, n=200):
    values = np.full(n, difference)
    values[::2] *= 0.5
    return AtTokens(tokens=1.0, complete=1.0, base=1.0, comparison=compare(np.zeros(n), values, scale="amount"))


BEYOND = AtTokens(tokens=1.0, complete=1.0, base=np.nan, comparison=None)


def test_a_verdict_needs_evidence_and_a_comparison():
    assert [verdict(one) for one in (at(0.2), at(-0.2), at(0.0), BEYOND)] == ["better", "worse", "untold", "beyond"]


def stands(name, better=0, worse=0, difference=0.0, beyond=0):
    def names(n):
        return tuple(f"d{i}" for i in range(n))

    return Standing(
        strategy=name, better=names(better), worse=names(worse), untold=(), beyond=names(beyond), difference=difference
    )


def test_standings_are_sorted_by_better_less_worse_then_by_the_mean():
    found = [
        stands("e/a", 1, 1, 0.9),
        stands("d/a", difference=np.nan, beyond=3),
        stands("c/a", 0, 0, 0.1),
        stands("b/a", 2, 1, 0.0),
        stands("a/b", 0, 0, 0.1),
        stands("a/a", 0, 1, 0.5),
    ]
    assert [one.strategy for one in sorted(found, key=lambda one: one.key)] == [
        "b/a",
        "e/a",
        "a/b",
        "c/a",
        "d/a",
        "a/a",
    ]


def test_the_best_of_a_family_and_what_is_broadly_better_go_on():
    found = [
        stands("cut/a", 5, 1),  # the best of its family
        stands("cut/b", 4, 0),  # better on a third, worse on none
        stands("cut/c", 3, 0),  # better on less than a third
        stands("rank/a", 1, 0),  # the best of its family
        stands("fit/a", 1, 1),  # the best of its family, no better than worse
        stands("fit/b", 1, 2),
    ]
    assert recommended(found, datasets=10) == ("cut/a", "cut/b", "rank/a")
    assert recommended([], datasets=10) == ()


def test_a_verdict_that_groups_do_not_bear_out_is_marked(small):
    told = {**small.datasets[0].at_tokens, "analysis/whole": replace(at(0.2), p_groups=0.5)}
    sure = {**small.datasets[1].at_tokens, "analysis/whole": replace(at(0.2), p_groups=0.01)}
    changed = tuple(replace(d, at_tokens=t) for d, t in zip(small.datasets, (told, sure), strict=True))
    ablation = replace(small, datasets=changed)
    [standing] = [one for one in ablation.standings() if one.strategy == "analysis/whole"]
    assert (standing.better, standing.loose) == (("smoke", "tiny"), ("smoke",))
    assert "| smoke\u2020, tiny |" in ablation_report(ablation, None, figure="f.svg")


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        (stands("a"), "at equal tokens not significant on any dataset"),
        (stands("a", 3, 1), "at equal tokens better on 3 and worse on 1 of 9"),
        (stands("a", 0, 1, beyond=2), "at equal tokens worse on 1 of 9; spends more than the base's whole curve on 2"),
    ],
)
def test_a_verdict_in_words(standing, said):
    assert verdict_text(standing, 9) == said


# ------------------------------------------------------------------------------------------------------------- the page


def test_what_a_strategy_changes_is_read_off_its_steps(small):
    assert change(small, "analysis/whole") == "analyse whole"
    assert change(small, "retrieval/bm25") == "retrieve bm25; refine first"
    assert change(small, "retrieval/rrf") == "retrieve dense beside bm25; refine rrf, first (n 3)"
    assert change(small, "size/everything") == "retrieve everything; refine nothing"


def test_steps_are_written_without_their_defaults():
    cut = {"step": "cut:standard", "version": 1, "topK": 20, "topN": 7, "includeScore": 0.7}
    domains = {"step": "by_domain", "domains": [["tool", [cut]], ["*", []]]}
    gone = {"step": "cut:gone", "version": 1, "some": {"x": {"y": 1}}, "on": True}
    merge = {"step": "merge", "sources": [["a", cut], ["standard", cut]]}
    told = StoredPipeline.of({"pipeline": {"retrieve": merge, "refine": [cut, domains, gone]}})
    assert [stage_text(one) for one in (told.refine[:1], *told.refine[1:], told.retrieve)] == [
        "standard (topN 7)",
        "tool: standard (topN 7); *: nothing",
        "gone (some (x (y 1)), on true)",
        "a: standard (topN 7) beside standard (topN 7)",
    ]


def test_the_page_says_what_it_was_measured_on_and_every_figure(small):
    page = ablation_report(small, None, figure="f.svg")
    assert page == ablation_report(small, None, figure="f.svg")
    assert "| smoke | " in page
    assert re.search(r"\| smoke \| \d+ of 30 \|", page), "n of N"
    assert "At most 25 queries a dataset" in page
    assert "![difference in completeness at equal tokens, by strategy and dataset](f.svg)" in page
    for name in small.strategies:
        assert page.count(f"| {name} |") == 1 + len(small.datasets)
    assert page.count("| **semantic/spec** |") == len(small.datasets)
    assert "## Test split" not in page


def test_the_answer_names_the_best_and_the_best_that_is_fitted_to_nothing(small, monkeypatch):
    rows = (stands("rank/fitted", 2, 0, 0.125), stands("retrieval/rrf", 1, 0, 0.05), stands("cut/gap", 0, 1, -0.1))
    monkeypatch.setattr(Ablation, "standings", lambda _: rows)
    monkeypatch.setattr(ablation_report_module, "reads_a_fit", lambda one: one == "fit")
    described = {one.strategy: {"description": "fit" if "fitted" in one.strategy else ""} for one in rows}
    manifest = {**small.run.manifest, "selectors": described}
    assert answer(replace(small, run=replace(small.run, manifest=manifest))) == (
        "**Of 3 changes to the specification's defaults, each compared with them at as many prompt tokens, "
        "`rank/fitted` pays most: it makes more requests complete on 2 of 2 datasets and fewer on none, +12.5 points "
        "on average; of the changes that are fitted to no labels, `retrieval/rrf` (add up the ranks of a search by "
        "meaning and of one by words): more requests complete on 1 of 2 datasets and fewer on none, +5.0 points on "
        "average.**"
    )
    monkeypatch.setattr(Ablation, "standings", lambda _: ())
    assert answer(small) == "**Nothing was compared with the specification's defaults.**"


def test_the_page_is_short_where_all_else_lies_apart(small):
    report = ablation_report(small, small, also=[small], figure="f.svg")
    page = parted(report, long_sections(report), name="ablations").page
    assert titles(page) == [
        "Test split",
        "What goes on to the test split",
        "What the words mean",
        "How it was made",
        "What this does not say",
    ]
    assert page.splitlines()[2] == answer(small)
    alone = ablation_report(small, None, figure="f.svg")
    assert long_sections(alone) == ["Every figure, tuning split"]


def test_the_drawing_is_well_formed_and_has_a_cell_a_strategy_and_dataset(small):
    drawing = overview(small)
    assert drawing == overview(small)
    texts = [one.text for one in ET.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")]
    assert set(small.strategies) | {"smoke", "tiny"} <= set(texts)
    assert len(texts) == len(small.strategies) * (len(small.datasets) + 1) + len(small.datasets) + 4


def test_an_ablation_of_nothing_but_the_base_is_an_empty_table(tmp_path):
    _, alone = made(tmp_path, selectors="\n  - {selector: semantic, preset: spec}")
    assert isinstance(alone, Ablation)
    assert alone.standings() == ()
    assert "Nothing does." in ablation_report(alone, None, figure="f.svg")
    ET.fromstring(overview(alone))


def test_one_command_makes_all_pages_the_same_again(tmp_path):
    tuning, test = experiment(tmp_path, "tuning", split="tuning"), experiment(tmp_path, "test", split="test")
    for path in (tuning, test):
        run(open_experiment(path), tmp_path / "runs" / path.stem)
    command = [
        sys.executable,
        str(SCRIPT),
        "--tuning",
        str(tuning),
        "--test",
        str(test),
        "--runs",
        str(tmp_path / "runs"),
    ]

    def written(folder, *more):
        subprocess.run(
            [*command, "--reports", str(tmp_path / folder), *more], check=True, capture_output=True, timeout=120
        )
        return {path.name: path.read_bytes() for path in (tmp_path / folder).iterdir()}

    first = written("one", "--latency", "smoke", "--requests", "3", "--seconds", "0")
    latency = first.pop("ablations-latency.md").decode()
    assert set(first) == {"ablations.md", "ablations-tables.md", "ablations.svg"}
    assert written("two") == first
    assert "## Test split" in first["ablations.md"].decode()
    assert "### smoke, test" in first["ablations-tables.md"].decode()
    assert "### smoke" not in first["ablations.md"].decode()
    assert latency.splitlines()[2].startswith("**Of 5 strategies, a request of `smoke` takes ")
    assert "3 requests of `smoke`, asked one at a time, over and over (n = 1 a strategy)" in latency
    for name in ("**semantic/spec**", "analysis/whole", "retrieval/bm25", "retrieval/rrf", "size/everything"):
        assert f"| {name} | " in latency


def test_what_is_fitted_is_fitted_on_the_tuning_split_once_a_catalog(tmp_path):
    path = experiment(tmp_path, "fitted")
    out = tmp_path / "calibrations.json"
    command = [sys.executable, str(SCRIPT.with_name("fit.py")), "--experiment", str(path), "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    first = out.read_bytes()
    found = [(one.kind, one.dataset, one.split) for one in read_calibrations(out).fits]
    assert found == [
        (what, name, "tuning") for what in ("probability", "abstention", "weights") for name in ("smoke", "tiny")
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    assert out.read_bytes() == first
