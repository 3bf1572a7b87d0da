"""Runs on the tiny dataset, in slices of three queries."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ctxbench.evaluation import runner
from tests.evaluation.runs.run_files import TINY, experiment, run_file, snapshot


@pytest.fixture(autouse=True)
def small_slices_and_a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")
    monkeypatch.setattr(runner, "SLICE", 3)  # the tiny dataset has ten queries: four slices


@pytest.fixture
def data(tmp_path):
    """A copy of the tiny dataset, to be changed."""
    return Path(shutil.copytree(TINY, tmp_path / "data" / "tiny"))


@pytest.fixture(scope="package")
def run_once(tmp_path_factory):
    """A folder with a finished run of `experiment` in slices of three, and the cache that it filled; only read."""
    folder = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CTXBENCH_CACHE", str(folder / "cache"))
        patch.setenv("CTXBENCH_OFFLINE", "1")
        patch.setattr(runner, "SLICE", 3)
        run_file(experiment(folder), folder / "run")
    return folder, snapshot(folder / "run")


@pytest.fixture
def whole(run_once, tmp_path):
    """The files of a run that nothing disturbed; what it left in the cache is in the test's own."""
    folder, files = run_once
    shutil.copytree(folder / "cache", tmp_path / "cache")
    return files


@pytest.fixture
def ran(run_once, whole, tmp_path):
    """A test's own copy of a finished run, with its cache; the folder."""
    return Path(shutil.copytree(run_once[0] / "run", tmp_path / "run"))
