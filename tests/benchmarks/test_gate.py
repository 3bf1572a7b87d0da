"""A whole `ctxbench check` beside a process that imports numpy. Run with `--benchmark-only -s`.

Bars: at most 6 times as long, and under 300 MB, on `workbench` unchanged with vectors in the baseline. Both take turns
in one test, since machines change their speed within a minute; the test prints and stores figures, and asserts only
that each did its work. The vectors are made up: a check without a model costs the same whatever they say.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ctxbench.embedding.minilm import MiniLM
from ctxbench.embedding.store import VectorStore
from ctxbench.evaluation.gate.taking import take
from ctxbench.evaluation.preparing import open_experiment
from ctxbench.index.resources import LocalResources

ROOT = Path(__file__).parents[2]
ROUNDS = 20
WARM_UP = 2
GATE = f"""
name: workbench
datasets: [{ROOT / "datasets" / "workbench"}]
metrics: [completeness, recall, tokens]
selectors:
  - {{selector: semantic, preset: normal}}
"""
PEAK = """
import atexit, sys
status = "/proc/self/status"
def peak():
    print(next(line.split()[1] for line in open(status) if line.startswith("VmHWM")), file=sys.stderr)
atexit.register(peak)
from ctxbench.cli.app import main
main(["check"])
"""


@pytest.fixture(autouse=True)
def asked_for(request):
    if not request.config.getoption("benchmark_only"):
        pytest.skip("timings are taken with --benchmark-only")


@pytest.fixture(autouse=True)
def place(monkeypatch, tmp_path):
    """A folder and a cache of its own, no network, and compiled modules, as an installed program has them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "compiled"))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)


@pytest.fixture
def accepted(tmp_path):
    """A gate file and its baseline, with made-up vectors for every text of the dataset."""
    gate = tmp_path / "gate.yaml"
    gate.write_text(GATE)
    ready = open_experiment(gate)
    texts = {}
    resources = ready.resources()

    class Recording(LocalResources):
        def __init__(self):
            vars(self).update(vars(resources))

        def vectors(self, asked):
            return np.stack([texts.setdefault(text, _made_up(text)) for text in asked])

    take(ready, resources=Recording())
    store = VectorStore(MiniLM().identity)
    store.add(list(texts), np.stack(list(texts.values())))
    store.close()
    run("-m", "ctxbench", "check", "--accept", "--vectors")
    return gate


def _made_up(text):
    vector = np.random.default_rng(list(text.encode()[:64])).standard_normal(384).astype(np.float32)
    return vector / np.linalg.norm(vector)


def run(*arguments):
    """Seconds of a process, and what it printed."""
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - begin, done


def test_check_beside_importing_numpy(benchmark, accepted, monkeypatch, tmp_path):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "another"))  # all vectors come from the baseline
    commands = {"check": ("-m", "ctxbench", "check"), "numpy": ("-c", "import numpy; print(1)")}
    taken = {name: [] for name in commands}
    rounds = iter(range(-WARM_UP, ROUNDS))

    def turn():
        number = next(rounds)
        for name, arguments in commands.items():
            seconds, done = run(*arguments)
            assert done.stdout
            if number >= 0:
                taken[name].append(seconds)

    for _ in range(WARM_UP):
        turn()
    benchmark.pedantic(turn, rounds=ROUNDS, iterations=1)
    _, done = run("-c", PEAK)
    ours, theirs = taken.values()
    figures = {
        "check s": round(statistics.median(ours), 3),
        "import numpy s": round(statistics.median(theirs), 3),
        "ratio (bar 6)": round(statistics.median(ours) / statistics.median(theirs), 2),
        "median ratio of a round": round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 2),
        "peak MB (bar 300)": round(int(done.stderr.split()[-1]) * 1024 / 1e6),
        "load": round(os.getloadavg()[0], 1),
    }
    benchmark.extra_info.update(figures)
    print("", *(f"{name}: {value}" for name, value in figures.items()), sep="\n  ")  # noqa: T201  for who runs it
    assert done.stdout.startswith("same")
