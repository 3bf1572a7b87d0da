"""Runs that cannot be: what is wrong is told at once, and nothing is made."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ctxbench.evaluation.experiment import examine
from ctxbench.evaluation.inputs import open_experiment, prepare
from ctxbench.io.errors import InputError
from ctxbench.search.embedders import HashingEmbedder
from tests.evaluation.runs.run_files import experiment


def test_everything_wrong_is_reported_at_once_and_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(HashingEmbedder, "embed", lambda *_, **__: pytest.fail("the embedder was asked"))
    path = tmp_path / "e.yaml"
    path.write_text(
        "datasets: [bfcl-smple, /none]\n"
        "metrics:\n"
        "  - completenes\n"
        "  - R@0\n"
        "  - tokens\n"
        "selectors:\n"
        "  - {selector: semantik}\n"
        "embedder: minilmm\n"
        "tokens: o201k\n"
        "seed: -1\n",
        encoding="utf-8",
    )
    with pytest.raises(InputError) as caught:
        open_experiment(path)
    found = [(fault.line, fault.message) for fault in caught.value.faults]
    assert [line for line, _ in found] == [1, 1, 3, 4, 7, 8, 9, 10]
    for (_, message), part in zip(
        found,
        ["did you mean 'bfcl-simple'", "/none", "did you mean 'completeness'", "must be 1 to 1000, got 0",
         "did you mean 'semantic'", "did you mean 'minilm'", "did you mean 'o200k'", "seed must be"],
        strict=True,
    ):  # fmt: skip
        assert part in message
    assert caught.value.exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["e.yaml"]


def test_faults_of_a_dataset_come_with_those_of_the_experiment(tmp_path, data):
    lines = (data / "queries.jsonl").read_text("utf-8").splitlines()
    (data / "queries.jsonl").write_text("\n".join([*lines, lines[0]]), "utf-8")
    path = experiment(tmp_path, data=data, seed="x")
    with pytest.raises(InputError) as caught:
        open_experiment(path)
    own, other = caught.value.faults[0], caught.value.faults[1:]
    assert (own.path, own.line) == (path, 4)
    assert any(fault.path == data / "queries.jsonl" and fault.line == 11 for fault in other)


def test_an_experiment_can_be_prepared_apart_from_its_file(tmp_path):
    experiment_, faults = examine(experiment(tmp_path))
    assert faults == []
    assert [str(metric) for metric in prepare(experiment_).metrics][:2] == ["completeness", "tokens"]
    assert list(prepare(experiment_).datasets) == ["tiny"]


def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "ctxbench", "run", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr.strip().split("\n")


def test_on_the_command_line_a_fault_is_exit_2_and_makes_no_folder(tmp_path):
    path = experiment(tmp_path, "\n  - semantik\n", seed="x")
    code, said = command(path, "--out", tmp_path / "run")
    assert code == 2
    assert said[0] == "error: 2 faults"
    assert [f"{path}, line {line})" in text for line, text in zip((4, 6), said[1:], strict=True)] == [True, True]
    assert not (tmp_path / "run").exists()


def test_on_the_command_line_a_run_folder_that_cannot_be_made_is_exit_2(tmp_path):
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    code, said = command(experiment(tmp_path), "--out", tmp_path / "taken" / "run")
    assert code == 2
    assert len(said) == 1
    assert said[0] == f"error: {tmp_path / 'taken'} is a file; a run needs a folder, name another one"
