"""What is found wrong before anything runs: steps against datasets; and samples, from the file to the report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ctxbench.datasets.files import read_dataset
from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.run_folder import RunFolder, summarise_run
from ctxbench.evaluation.runner import run
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.model import registry
from ctxbench.model.candidates import Candidates
from ctxbench.model.requests import Query
from ctxbench.report.run_tables import comparison_table
from ctxbench.report.run_text import markdown_report

ROOT = Path(__file__).parents[2]
FOLDERS = {"tiny": ROOT / "tests" / "fixtures" / "tiny", "smoke": ROOT / "datasets" / "smoke"}


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")


@dataclass(frozen=True)
class Picky:
    """A cut that can say no before it runs."""

    limit: int = 0

    def check(self, catalog, resources):
        asked.append((self.limit, len(catalog)))
        if len(catalog) > self.limit:
            raise ParameterError(f"the catalog has {len(catalog)} items, limit is {self.limit}")

    def __call__(self, query, candidates, resources):
        return candidates


@dataclass(frozen=True)
class Silent:
    """An analysis that makes no chunk."""

    def __call__(self, batch, resources):
        return Query.of_chunks(batch, [[] for _ in batch.requests])


@dataclass(frozen=True)
class PickySource:
    """A retriever that can say no before it runs."""

    def check(self, catalog, resources):
        raise ParameterError("no index of this catalog")

    def __call__(self, query, resources):
        return Candidates.empty(len(query.batch))


asked: list[tuple[int, int]] = []


@pytest.fixture(autouse=True)
def strategies_that_check(monkeypatch):
    asked.clear()
    for kind, name, made in (
        ("cut", "picky", Picky),
        ("analyse", "silent", Silent),
        ("retrieve", "picky_source", PickySource),
    ):
        monkeypatch.setitem(registry._BUILT_IN[kind], name, f"{__name__}:{made.__name__}")


def experiment(tmp_path, *selectors, rest=""):
    path = tmp_path / "e.yaml"
    lines = [
        f"datasets: [{FOLDERS['tiny']}, {FOLDERS['smoke']}]",
        "embedder: hashing",
        "tokens: chars/4",
        rest,
        "selectors:",
    ]
    path.write_text("\n".join([*lines, *(f"  - {one}" for one in selectors)]), "utf-8")
    return path


def messages(path):
    with pytest.raises(InputError) as caught:
        open_experiment(path)
    assert all(fault.path == path for fault in caught.value.faults)
    return [(fault.line, fault.message) for fault in caught.value.faults]


def test_every_step_of_every_pipeline_is_asked_about_every_dataset_and_all_faults_are_told_at_once(tmp_path):
    tiny, smoke = (len(read_dataset(folder).catalog) for folder in FOLDERS.values())
    path = experiment(
        tmp_path,
        "{name: one, pipeline: {analyse: whole, retrieve: bm25, refine: [{picky: {limit: 0}}]}}",
        "{name: two, pipeline: {retrieve: {merge: [bm25, picky_source]}, refine: [{by_domain: {'*': [picky]}}]}}",
        "{name: three, pipeline: {retrieve: bm25, refine: [{picky: {limit: 1000}}]}}",
    )
    wrong = "picky: the catalog has {} items, limit is 0"
    assert messages(path) == [
        (6, f"selector 'one' on dataset tiny: {wrong.format(tiny)}"),
        (6, f"selector 'one' on dataset smoke: {wrong.format(smoke)}"),
        (7, "selector 'two' on dataset tiny: picky_source: no index of this catalog"),
        (7, f"selector 'two' on dataset tiny: {wrong.format(tiny)}"),
        (7, "selector 'two' on dataset smoke: picky_source: no index of this catalog"),
        (7, f"selector 'two' on dataset smoke: {wrong.format(smoke)}"),
    ]
    assert sorted(asked) == sorted((limit, n) for limit in (0, 1000) for n in (tiny, smoke)), "each is asked once"


def test_a_graph_that_is_missing_is_told_with_all_else_at_its_line(tmp_path):
    graph = "{retrieve: bm25, refine: [{expansion: {by: graph, graph: none.npz}}]}"
    path = experiment(tmp_path, "semantc", f"{{name: graph, pipeline: {graph}}}", "{selector: bm25, set: {n: -1}}")
    told = messages(path)
    assert [line for line, _ in told] == [6, 7, 8]
    assert told[1][1].startswith(f"selector 'graph': there is no relationship graph {tmp_path / 'none.npz'}; make it")


def test_lines_are_right_where_a_selector_before_is_faulty(tmp_path):
    picky = "{name: picky, pipeline: {retrieve: bm25, refine: [{picky: {limit: 0}}]}}"
    path = experiment(tmp_path, "semantc", "{selector: bm25, vary: {n: [1, 2, 3]}}", picky)
    assert [line for line, _ in messages(path)] == [6, 8, 8]


def test_an_analysis_that_makes_no_chunk_of_any_request_is_a_fault(tmp_path):
    path = experiment(tmp_path, "{name: mute, pipeline: {analyse: silent, retrieve: bm25}}")
    told = messages(path)
    assert [line for line, _ in told] == [6, 6]
    assert told[0][1].startswith("selector 'mute' on dataset tiny: the analysis (silent) makes no chunk of any of the ")


def test_an_analysis_beside_one_that_makes_chunks_may_make_none(tmp_path):
    path = experiment(tmp_path, "{name: both, pipeline: {analyse: [silent, whole], retrieve: bm25}}")
    assert open_experiment(path).experiment.selectors[0].name == "both"


def test_faults_of_steps_come_with_all_others(tmp_path):
    path = experiment(
        tmp_path,
        "{name: one, pipeline: {retrieve: bm25, refine: [picky]}}",
        rest="metrics: [complteness]",
    )
    assert [line for line, _ in messages(path)] == [4, 6, 6]


# ---------------------------------------------------------------------------------------------------------- samples


@pytest.mark.parametrize("sample", ["0", "-1", "1.5", "true", "all"])
def test_a_sample_that_is_no_number_of_queries_is_a_fault(tmp_path, sample):
    path = experiment(tmp_path, "bm25", rest=f"sample: {sample}")
    [(line, message)] = messages(path)
    assert line == 4
    assert message.startswith("sample must be ")


def test_a_sample_is_asked_and_said_everywhere(tmp_path):
    whole = open_experiment(experiment(tmp_path, "bm25"))
    n = {name: len(dataset.judged()) for name, dataset in whole.datasets.items()}
    prepared = open_experiment(experiment(tmp_path, "bm25", rest="sample: 4"))
    run(prepared, tmp_path / "run")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text("utf-8"))
    assert manifest["experiment"]["sample"] == 4
    told = {name: (about["queries"], about["of"]) for name, about in manifest["datasets"].items()}
    asked = {name: len(dataset.judged()) for name, dataset in prepared.datasets.items()}
    assert asked["tiny"] == 4, "tiny has no groups; those of smoke are drawn whole"
    assert 1 <= asked["smoke"] <= 4
    assert told == {name: (asked[name], n[name]) for name in n}
    summary = summarise_run(RunFolder(tmp_path / "run"))
    for one in summary.datasets:
        heading = comparison_table(summary, one).heading
        assert heading.startswith(f"{one.dataset}: a sample of {asked[one.dataset]} of {n[one.dataset]} queries, ")
        assert (one.queries, one.of) == (asked[one.dataset], n[one.dataset])
    assert "* Sample: at most 4 queries a dataset, groups whole, drawn by hash with seed 0;" in markdown_report(
        summary, prepared.datasets
    )


def test_another_sample_is_asked_again_and_the_same_one_is_not(tmp_path):
    def made(rest):
        report = run(open_experiment(experiment(tmp_path, "bm25", rest=rest)), tmp_path / "run")
        return report.made, report.reused

    assert made("sample: 4") == (2, 0)
    assert made("sample: 4") == (0, 2)
    assert made("sample: 5") == (2, 0)
    assert made("sample: 5\nseed: 1") == (2, 0)
    assert np.all([len(one.judged()) <= 5 for one in open_experiment(tmp_path / "e.yaml").datasets.values()])
