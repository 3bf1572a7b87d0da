"""Figures of dense ranking that others measured with these weights on this data; each within two queries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ctxbench.evaluation.inputs import prepare
from ctxbench.evaluation.run_folder import RunFolder, RunSummary, summarise_run
from ctxbench.evaluation.runner import run
from tests.experiment_files import read_experiment

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    folder = tmp_path_factory.mktemp("measured")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(folder / "cache"))
        experiment = read_experiment(ROOT / "experiments" / "dense.yaml")
        dense = tuple(one for one in experiment.selectors if one.name == "dense")  # nobody measured the others
        run(prepare(replace(experiment, selectors=dense)), folder / "run")
    return summarise_run(RunFolder(folder / "run"))


@pytest.mark.parametrize(
    ("dataset", "metric", "expected", "queries"),
    [
        ("bfcl-simple", "R@5", 0.960, 400),
        ("bfcl-simple", "R@7", 0.985, 400),
        ("bfcl-live", "R@5", 0.897, 1053),
    ],
)
def test_dense_ranking_over_name_and_description(
    summary: RunSummary, dataset: str, metric: str, expected: float, queries: int
) -> None:
    (found,) = [one for one in summary.datasets if one.dataset == dataset]
    (dense,) = [one for one in found.selectors if one.selector == "dense"]
    assert found.queries == queries
    assert abs(dense.estimates[metric].value - expected) <= 2 / queries + 0.0005
