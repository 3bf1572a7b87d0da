"""The command line from outside: in this process where that will do, in a fresh one where it matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from ctxbench.cli.app import main

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests" / "fixtures" / "tiny"
_HOOK = """
import atexit, os, sys
atexit.register(lambda: print(*sys.modules, sep="\\n", file=open(os.environ["CTXBENCH_TEST_MODULES"], "w")))
"""


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A working folder, a cache and a temporary folder of its own; no network, and no model but an installed one."""
    for name in ("work", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "no-hub"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("CTXBENCH_MODEL", raising=False)
    return tmp_path / "work"


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def cli(capfd):
    """Run a command in this process."""

    def run(*arguments):
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Done(ended.value.code or 0, out, err)

    return run


@pytest.fixture
def process(tmp_path):
    """Run a command in a fresh process; `start` is code that runs before it, `env` is added to the environment."""

    def run(*arguments, start="", env=None, **options):
        code = f"{start}\nimport sys\nfrom ctxbench.cli.app import main\nmain(sys.argv[1:])"
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, arguments)],
            check=False,
            **{"capture_output": True, "text": True, "timeout": 120, **options},
            env={**os.environ, **(env or {})},
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def modules(tmp_path, process):
    """The modules that a fresh process has loaded when a command ends."""
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(_HOOK)

    def loaded(*arguments):
        listed = tmp_path / "modules.txt"
        path = os.pathsep.join(filter(None, (str(hook), os.environ.get("PYTHONPATH"))))
        done = process(*arguments, env={"PYTHONPATH": path, "CTXBENCH_TEST_MODULES": str(listed)})
        assert done.code == 0, done.err
        return set(listed.read_text().split()), done

    return loaded


@pytest.fixture
def tiny():
    return TINY


@pytest.fixture
def experiment(place):
    """Write an experiment over the tiny dataset; returns its path."""

    def write(name="small", *, selectors=("{selector: semantic, preset: spec}", "{selector: bm25, set: {n: 2}}")):
        lines = [f"name: {name}", f"datasets: [{TINY}]", "embedder: hashing", "selectors:"]
        path = place / f"{name}.yaml"
        path.write_text("\n".join([*lines, *(f"  - {one}" for one in selectors), ""]))
        return path

    return write


@pytest.fixture
def snapshot(tmp_path):
    """What stands in the folders of a test: every path, with the bytes of files; but the cache, which may fill."""

    def take():
        return {
            str(path.relative_to(tmp_path)): path.read_bytes() if path.is_file() else None
            for path in sorted(tmp_path.rglob("*"))
            if not {"hook", "cache"} & set(path.parts)
        }

    return take
