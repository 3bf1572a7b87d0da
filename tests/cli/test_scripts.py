"""A script ends as the command does: one message where a dataset is missing, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ctxbench.cli.common import run_script
from ctxbench.io.errors import StorageError

SCRIPT = Path(__file__).parents[2] / "experiments" / "strategies" / "multi_topic.py"


def test_a_fault_of_the_user_is_one_message(capsys):
    def main(name):
        raise StorageError(f"dataset {name} is not in the cache")

    with pytest.raises(SystemExit) as ended:
        run_script(main, "tiny")
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: dataset tiny is not in the cache\n"


@pytest.mark.parametrize("code", [None, 0, 1])
def test_what_main_returns_is_the_exit_code(code):
    with pytest.raises(SystemExit) as ended:
        run_script(lambda: code)
    assert ended.value.code == code


def test_a_bug_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        run_script(lambda: 1 // 0)


def test_an_experiment_says_how_a_missing_dataset_is_fetched(tmp_path):
    env = {**os.environ, "CTXBENCH_CACHE": str(tmp_path), "CTXBENCH_OFFLINE": "1"}
    command = [sys.executable, str(SCRIPT)]
    ended = subprocess.run(command, check=False, env=env, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert "ctxbench data fetch metatool" in ended.stderr
    assert "Traceback" not in ended.stderr
