"""Interrupted runs end as if nothing had happened."""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
from pathlib import Path

import pytest

from ctxbench.evaluation import run_folder, runner
from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.run_folder import RunFolder
from ctxbench.evaluation.runner import run
from ctxbench.io.errors import StorageError
from ctxbench.search.embedders import HashingEmbedder
from tests.evaluation.runs.run_files import SELECTORS, StopError, counted, experiment, interrupted, run_file, snapshot


@pytest.mark.rest
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("stop_at", [1, 2, 5, 6, 11, 17, 20])
def test_interrupted_in_any_slice_the_same_call_ends_the_same(stop_at, fresh, tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    answered = counted(runner.answered, stop_at, KeyboardInterrupt(), after=bool(stop_at % 2))
    assert interrupted(path, tmp_path / "run", monkeypatch.context(), runner, "answered", answered)
    assert not (tmp_path / "run" / "manifest.json").exists()
    asked = []
    again = runner.answered
    monkeypatch.setattr(runner, "answered", lambda s, b, **k: asked.append((s.name, b.ids)) or again(s, b, **k))
    run_file(path, tmp_path / "run", fresh=fresh)
    assert snapshot(tmp_path / "run") == whole
    assert len(asked) == 20 if fresh else len(asked) == 20 - (stop_at - 1)


@pytest.mark.rest
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("stop_at", [1, 2, 9, 25, 26, 28, 29, 30, 31, 32])
def test_interrupted_at_any_file_the_same_call_ends_the_same(stop_at, after, tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    replace = counted(Path.replace, stop_at, StopError(), after=after)
    assert interrupted(path, tmp_path / "run", monkeypatch.context(), Path, "replace", replace)
    report = run_file(path, tmp_path / "run")
    assert report.embedded == 0
    assert snapshot(tmp_path / "run") == whole


@pytest.mark.rest
@pytest.mark.parametrize("stop_at", [1, 2, 3, 8, 15])
@pytest.mark.parametrize("after", [False, True])
def test_interrupted_at_a_file_of_a_part_the_same_call_ends_the_same(stop_at, after, tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    writing = counted(run_folder.writing, stop_at, StopError(), after=after)
    assert interrupted(path, tmp_path / "run", monkeypatch.context(), run_folder, "writing", writing)
    assert run_file(path, tmp_path / "run").embedded == 0
    assert snapshot(tmp_path / "run") == whole


@pytest.mark.parametrize("seed", range(3))
def test_interrupted_many_times_it_still_ends_the_same(seed, tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    chance = random.Random(seed)
    for _ in range(8):
        stop_at = chance.randint(1, 12)
        replace = counted(Path.replace, stop_at, StopError(), after=chance.random() < 0.5)
        interrupted(path, tmp_path / "run", monkeypatch.context(), Path, "replace", replace)
    run_file(path, tmp_path / "run")
    assert snapshot(tmp_path / "run") == whole


def test_slices_of_an_older_experiment_are_not_taken(tmp_path, monkeypatch, data):
    old = experiment(tmp_path, data=data)
    answered = counted(runner.answered, 12, KeyboardInterrupt())
    assert interrupted(old, tmp_path / "run", monkeypatch.context(), runner, "answered", answered)
    lines = (data / "queries.jsonl").read_text("utf-8").splitlines()
    (data / "queries.jsonl").write_text("\n".join([*lines[3:], *lines[:3]]) + "\n", "utf-8")
    path = experiment(tmp_path, SELECTORS.replace("n: 2", "n: 1"), data=data)
    run_file(path, tmp_path / "run")
    run_file(path, tmp_path / "whole")
    assert snapshot(tmp_path / "run") == snapshot(tmp_path / "whole")


def test_a_damaged_slice_is_made_again(tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    answered = counted(runner.answered, 18, KeyboardInterrupt())
    assert interrupted(path, tmp_path / "run", monkeypatch.context(), runner, "answered", answered)
    slices = sorted((tmp_path / "run" / "tiny").glob("*+partial/*.slice"))
    assert len(slices) == 17
    for place, one in enumerate(slices):
        one.write_bytes(b"" if place % 2 else one.read_bytes()[: 100 * place])
    run_file(path, tmp_path / "run")
    assert snapshot(tmp_path / "run") == whole


def test_slices_that_are_left_beside_a_finished_part_are_removed(tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    drop_slices = counted(RunFolder.drop_slices, 2, StopError())
    assert interrupted(path, tmp_path / "run", monkeypatch.context(), RunFolder, "drop_slices", drop_slices)
    run_file(path, tmp_path / "run")
    assert snapshot(tmp_path / "run") == whole


def test_an_interrupted_change_leaves_no_manifest_that_would_mix_two_runs(tmp_path, monkeypatch, ran):
    path = experiment(tmp_path, metrics="[completeness, tokens]")
    saved = counted(RunFolder.save, 3, KeyboardInterrupt())
    assert interrupted(path, ran, monkeypatch.context(), RunFolder, "save", saved)
    with pytest.raises(StorageError, match="expected the folder of a finished run"):
        RunFolder(ran).read("manifest.json")
    run_file(path, ran)
    run_file(path, tmp_path / "whole")
    assert snapshot(ran) == snapshot(tmp_path / "whole")


@pytest.mark.parametrize("fails_at", [1, 2, 7, 25, 26, 30, 31, 32])
def test_a_full_disk_is_one_error_and_a_later_run_goes_on(fails_at, tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", counted(Path.replace, fails_at, full))
        with pytest.raises(StorageError, match=r"cannot write .*: No space left on device"):
            run_file(path, tmp_path / "run")
    assert not list((tmp_path / "run").rglob("*.tmp"))
    run_file(path, tmp_path / "run")
    assert snapshot(tmp_path / "run") == whole


@pytest.mark.parametrize("fails_at", [1, 5])
def test_a_disk_that_is_full_in_the_midst_of_a_part_is_one_error(fails_at, tmp_path, monkeypatch, whole):
    path = experiment(tmp_path)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patched:
        patched.setattr(run_folder, "write_blocks", counted(run_folder.write_blocks, fails_at, full, after=True))
        with pytest.raises(StorageError, match=r"cannot write .*answers\.zip.*: No space left on device"):
            run_file(path, tmp_path / "run")
    assert sorted(one.name for one in (tmp_path / "run").rglob("answers.zip")) == ["answers.zip"] * (fails_at - 1)
    run_file(path, tmp_path / "run")
    assert snapshot(tmp_path / "run") == whole


def test_a_selector_of_ours_that_fails_stops_the_run_and_leaves_no_empty_folder(tmp_path, monkeypatch):
    def embed(*_, **__):
        raise StorageError("the model is gone")

    monkeypatch.setattr(HashingEmbedder, "embed", embed)
    with pytest.raises(StorageError, match="the model is gone"):
        run_file(experiment(tmp_path), tmp_path / "runs" / "run")
    assert not (tmp_path / "runs" / "run").exists()


def _run_in_process(path, folder, barrier):
    runner.SLICE = 3
    prepared = open_experiment(path)
    barrier.wait(60)
    run(prepared, folder)


def test_two_processes_that_run_into_one_folder_both_end_well(tmp_path, whole):
    path = experiment(tmp_path)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(3)
    processes = [context.Process(target=_run_in_process, args=(path, tmp_path / "run", barrier)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert snapshot(tmp_path / "run") == whole
