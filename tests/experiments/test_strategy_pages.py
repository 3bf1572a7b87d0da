"""The pages on strategies: what they measure on small data, and that each is what its kept tables give."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import ablations
import comparators
import dots
import embedders
import expansion
import multi_topic
import pages
import pandas as pd
import pytest
import yaml

import ctxbench
from ctxbench.pipelines.fits import read_calibrations
from ctxbench.search.embedders import HashingEmbedder, Vectors, VectorStore, embedder_text
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import open_counter
from tests.experiment_files import read_experiment

ROOT = Path(__file__).parents[2]
DATASETS = f"datasets: [{ROOT}/datasets/smoke, {ROOT}/tests/fixtures/tiny]"
SELECTORS = """
  - {selector: semantic, preset: spec}
  - {name: analysis/whole, pipeline: {analyse: whole, retrieve: dense, refine: [standard]}}
  - {name: retrieval/bm25, pipeline: {retrieve: bm25, refine: [{first: {n: 5}}]}}
  - {name: size/everything, pipeline: {retrieve: everything}}
"""


@pytest.fixture(autouse=True, scope="module")
def small_world(tmp_path_factory):
    """A cache of its own, hashed vectors, and no network."""

    def hashing(tokens: str = "chars/4"):
        embedder, counter = HashingEmbedder(), open_counter("chars/4")
        return LocalResources(Vectors(embedder, VectorStore(embedder.identity)), counter), counter

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("CTXBENCH_OFFLINE", "1")
        for script in (comparators, expansion, multi_topic):
            patch.setattr(script, "local", hashing)
        yield


def write_experiment(folder, selectors=SELECTORS, metrics="[completeness, tokens]", base="semantic/spec"):
    path = folder / "small.yaml"
    lines = ["name: small", DATASETS, "embedder: hashing", "tokens: chars/4", f"metrics: {metrics}"]
    path.write_text("\n".join([*lines, f"selectors:{selectors}", f"compare_to: {base}"]), "utf-8")
    return path


@pytest.mark.parametrize("name", ["ablations", "abstention", "comparators", "embedders", "expansion", "multi-topic"])
def test_a_page_is_what_its_kept_tables_give(name, monkeypatch, tmp_path):
    for path in pages._tables(name):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(pages, "REPORTS", tmp_path)
    script = importlib.import_module(name.replace("-", "_"))
    pages.write_page(name, script.page(pages.kept_tables(name)))
    kept = (ROOT / "reports" / f"{name}.md").read_text("utf-8")
    assert (tmp_path / f"{name}.md").read_text("utf-8") == kept, f"run experiments/strategies/{name}.py --page"


@pytest.fixture(scope="module")
def ablation_tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ablations")
    return ablations.measure(write_experiment(folder), out=folder / "run", timed="smoke", rounds=1)


class TestAblations:
    def test_every_strategy_is_compared_on_every_dataset_and_timed(self, ablation_tables):
        strategies = ["analysis/whole", "retrieval/bm25", "size/everything"]
        keys = list(zip(ablation_tables[""]["dataset"], ablation_tables[""]["strategy"], strict=True))
        assert keys == [(dataset, name) for dataset in ("smoke", "tiny") for name in strategies]
        assert ablation_tables["time"]["strategy"].tolist() == ["semantic/spec", *strategies]
        assert (ablation_tables["time"]["ms"] > 0).all()

    def test_a_gain_is_over_the_base_at_the_strategys_tokens(self, ablation_tables):
        for row in ablation_tables[""].dropna(subset=["difference"]).itertuples():
            assert row.difference == pytest.approx(row.completeness - row.base)
            assert row.low <= row.difference <= row.high

    def test_a_row_counts_datasets_with_significant_gains(self, ablation_tables):
        significant = ablation_tables[""].assign(significant=True, difference=[0.1, -0.2, 0.0, 0.3, -0.1, 0.0])
        lines = {line["strategy"]: line for line in ablations.page({**ablation_tables, "": significant}).table}
        assert [lines[f"`{name}`"]["better on"] for name in ("analysis/whole", "retrieval/bm25")] == ["2", "0"]
        assert lines["`retrieval/bm25`"]["worse on"] == "2"
        assert lines["`analysis/whole`"]["points, mean"].startswith("+20.0 (")


class TestDots:
    def test_the_mean_of_gains_counts_each_dataset_once(self):
        gains = pd.DataFrame({"difference": [0.1, 0.3, None], "low": [0.0, 0.2, None], "high": [0.2, 0.4, None]})
        mean = dots.mean_gain(gains)
        assert mean["difference"] == pytest.approx(0.2)
        assert mean["high"] - mean["difference"] == pytest.approx(0.1 / 2**0.5)

    def test_a_gain_is_bold_where_significant_and_a_dash_where_there_is_none(self):
        gain = {"difference": 0.045, "low": -0.004, "high": 0.093}
        assert dots.gain_cell(gain) == "+4.5 (−0.4 to +9.3)"
        assert dots.gain_cell({**gain, "significant": True}) == "**+4.5 (−0.4 to +9.3)**"
        assert dots.gain_cell({"difference": float("nan")}) == "–"


def test_recalls_are_those_of_an_evaluation():
    tables = comparators.measure(["datasets/smoke"])
    recalls = tables[""].set_index("selector")["R@5"]
    results = ctxbench.evaluate(
        str(ROOT / "datasets" / "smoke"), ["bm25", "dense", "hybrid"], metrics=["R@5"], embedder="hashing"
    )
    for name, value in results.to_frame()["R@5"].items():
        assert recalls[name] == pytest.approx(value)
    gains = tables["gains"].set_index("gain")["difference"]
    better = max(recalls["bm25"], recalls["dense"])
    assert gains["hybrid over the better"] == pytest.approx(recalls["hybrid"] - better)


@pytest.fixture
def smoke():
    return ctxbench.load(str(ROOT / "datasets" / "smoke")).dataset.judged()


def test_an_expansion_is_compared_with_the_search_alone_of_as_many_tokens(smoke):
    resources, counter = expansion.local()
    trial = expansion.Trial(smoke, resources, counter)
    plain, expanded = expansion.Arm(3), expansion.Arm(2, expansion={"threshold": 0.0, "topN": 2})
    at = expansion.gain([(trial, plain)], expansion.COMPLETE, expansion.BEST)
    assert at.comparison.difference == pytest.approx(0.0)
    at = expansion.gain([(trial, expanded)], expansion.COMPLETE, expansion.MEAN)
    assert at.tokens == pytest.approx(trial.values(expanded)[expansion.TOKENS].mean())
    assert at.comparison.difference == pytest.approx(at.complete - at.base)
    assert trial.values(expanded)[expansion.ITEMS].mean() > 2


@pytest.mark.parametrize(("gain", "word"), [(0.1, "On."), (-0.1, "Off.")])
def test_expansion_is_on_where_it_pays_over_the_better_search(gain, word):
    tables = pages.kept_tables("expansion")
    page = expansion.page({**tables, "": tables[""].assign(difference=gain, significant=True)})
    assert page.answer.split()[0] == word
    page = expansion.page({**tables, "": tables[""].assign(difference=gain, significant=False)})
    assert page.answer.split()[0] == "Off."


def test_a_way_of_splitting_is_compared_with_sentences_and_a_pooling_with_its_own_splitting(smoke):
    resources, counter = multi_topic.local()
    trial = multi_topic.Trial(smoke, resources, counter)
    whole, pooled = multi_topic.Arm("whole"), multi_topic.Arm("whole", "mean")
    assert (whole.base.name, pooled.base.name) == ("sentences", "whole")
    at = trial.against_base(pooled, multi_topic.COMPLETE)
    assert at.comparison.difference == pytest.approx(0.0)  # of one chunk the mean is the best
    rows = list(multi_topic._rows({"smoke": trial}, [whole, pooled]))
    assert [(row["arm"], row["base"], row["metric"]) for row in rows] == [
        (arm, base, metric)
        for arm, base in (("whole", "sentences"), ("whole, mean", "whole"))
        for metric in ("completeness", "recall")
    ]


class TestEmbedders:
    def test_figures_are_those_of_the_frame(self, tmp_path):
        step = "pipeline: {{analyse: whole, retrieve: {{dense: {{embedder: {0}}}}}, refine: [{{first: {{n: 5}}}}]}}"
        names = ("wordllama", "hashing")
        selectors = "".join(f"\n  - {{name: {name}, {step.format(name)}}}" for name in names)
        path = write_experiment(tmp_path, selectors, "[R@5, completeness, tokens]", "wordllama")
        tables = embedders.measure(path, out=tmp_path / "run", rounds=2, seconds=0.0)
        frame = ctxbench.run(path, out=tmp_path / "run").to_frame(intervals=True)
        for row in tables[""].to_dict("records"):
            expected = frame.loc[(row["dataset"], row["embedder"])]
            assert [row["R@5"], row["low"], row["tokens"]] == [expected[name] for name in ("R@5", "R@5 low", "tokens")]
        speed = tables["speed"].set_index("embedder")
        assert speed["dimensions"].tolist() == [256, 256]
        assert [round(size) for size in speed["weights_mb"]] == [16, 0]
        assert (speed["low"] <= speed["texts_per_second"]).all()
        assert (speed["texts_per_second"] <= speed["high"]).all()

    def test_the_experiment_that_ships_has_selectors_of_the_names_of_their_embedders(self):
        path = ROOT / "experiments" / "embedders.yaml"
        assert read_experiment(path).compare_to == "minilm"
        for selector in yaml.safe_load(path.read_text("utf-8"))["selectors"]:
            name = embedder_text(selector["pipeline"]["retrieve"]["dense"]["embedder"])
            assert name == embedders.EMBEDDERS.get(selector["name"], selector["name"])


def test_what_is_fitted_is_fitted_on_the_tuning_split_once_a_catalog(tmp_path):
    script, out = ROOT / "experiments" / "strategies" / "fit.py", tmp_path / "calibrations.json"
    command = [sys.executable, str(script), "--experiment", str(write_experiment(tmp_path)), "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    fits = [(each.kind, each.dataset, each.split) for each in read_calibrations(out).fits]
    assert fits == [
        (kind, name, "tuning") for kind in ("probability", "abstention", "weights") for name in ("smoke", "tiny")
    ]
