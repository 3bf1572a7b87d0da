"""Where the command starts, each time in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STOPPED = "stopped: nothing is half-written\n"
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def test_the_script_and_the_module_start_at_the_same_place():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert scripts == {"ctxbench": "ctxbench.__main__:main"}
    done = subprocess.run(
        [sys.executable, "-m", "ctxbench", "--version"], check=False, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, "ctxbench", "")


def test_nothing_is_imported_before_ctrl_c_is_seen_to():
    code = "import sys\nbefore = {*sys.modules}\nimport ctxbench.__main__\nprint(*({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=120)
    assert sorted(done.stdout.split()) == ["ctxbench", "ctxbench.__main__"]


@posix
@pytest.mark.parametrize("module", ["signal", "typer", "ctxbench.cli.common"])
def test_ctrl_c_while_the_command_is_imported_ends_it_without_a_traceback(module):
    """It comes when a module is looked for: `signal` by raising, the others by the handler."""
    code = f"""
import os, sys, _signal
sys.modules.pop("signal", None)
class Press:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), _signal.SIGINT)
sys.meta_path.insert(0, Press())
from ctxbench.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", STOPPED)


@posix
def test_ctrl_c_inside_a_text_that_is_executed_ends_with_our_code_and_not_by_the_signal(place):
    (place / "mine.py").write_text("exec('raise KeyboardInterrupt')\n")
    tiny = ROOT / "tests" / "fixtures" / "tiny"
    (place / "e.yaml").write_text(f"datasets: [{tiny}]\nselectors: [{{name: mine, callable: 'mine.py:f'}}]\n")
    command = [sys.executable, "-m", "ctxbench", "run", "e.yaml"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    said = "stopped: nothing is half-written, and mine.py was being imported (mine.py, line 1)"
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", said)
