"""A whole `ctxbench check` beside a process that imports numpy. Run with `--benchmark-only -s`.

Bars: at most 4 times as long, and under 300 MB, on `workbench` unchanged with vectors in the baseline. Beside it, what
it costs where a file of the dataset has changed, and every selector is asked: the same dataset with another line end.
All take turns in one test, since machines change their speed within a minute; the test prints and stores figures, and
asserts only that each did its work. The vectors are made up: a check without a model costs the same whatever they say.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ctxbench.evaluation.inputs import prepare
from ctxbench.gate.settings import read_gate
from ctxbench.gate.snapshot_sources import take
from ctxbench.search.embedders import VectorStore
from ctxbench.search.minilm import MiniLM
from ctxbench.search.resources import LocalResources

ROOT = Path(__file__).parents[2]
ROUNDS = 20
WARM_UP = 2
GATE = """
name: workbench
datasets: [DATA]
baseline: gate.baseline
metrics: [completeness, recall, tokens]
selectors:
  - {selector: semantic, preset: normal}
"""
PEAK = """
import atexit, sys
status = "/proc/self/status"
def peak():
    print(next(line.split()[1] for line in open(status) if line.startswith("VmHWM")), file=sys.stderr)
atexit.register(peak)
from ctxbench.cli.app import main
main(["check", GATE])
"""


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
    for folder in ("unchanged", "touched"):
        shutil.copytree(ROOT / "datasets" / "workbench", tmp_path / folder)
        (tmp_path / f"{folder}.yaml").write_text(GATE.replace("DATA", folder))
    with (tmp_path / "touched" / "queries.jsonl").open("a") as queries:
        queries.write("\n")
    gate = tmp_path / "unchanged.yaml"
    ready = prepare(read_gate(gate).experiment)
    texts = {}
    resources = ready.resources()

    class Recording(LocalResources):
        def __init__(self):
            vars(self).update(vars(resources))

        def vectors(self, asked, *, kind="query"):
            return np.stack([texts.setdefault(text, _made_up(text)) for text in asked])

    take(ready, resources=Recording())
    store = VectorStore(MiniLM().identity)
    store.add(list(texts), np.stack(list(texts.values())))
    store.close()
    run("-m", "ctxbench", "check", "--accept", "--vectors", "unchanged.yaml")
    return gate


def _made_up(text):
    vector = np.random.default_rng(list(text.encode()[:64])).standard_normal(384).astype(np.float32)
    return vector / np.linalg.norm(vector)


def run(*arguments):
    """Seconds of a process, and what it printed."""
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - begin, done


def test_check_beside_importing_numpy(benchmark, accepted, monkeypatch, tmp_path):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "another"))  # all vectors come from the baseline
    commands = {
        "unchanged": ("-m", "ctxbench", "check", "unchanged.yaml"),
        "touched": ("-m", "ctxbench", "check", "touched.yaml"),
        "numpy": ("-c", "import numpy; print(1)"),
    }
    taken = {name: [] for name in commands}
    rounds = iter(range(-WARM_UP, ROUNDS))

    def turn():
        number = next(rounds)
        for name, arguments in commands.items():
            seconds, done = run(*arguments)
            assert done.stdout.startswith("1" if name == "numpy" else "same")
            if number >= 0:
                taken[name].append(seconds)

    for _ in range(WARM_UP):
        turn()
    benchmark.pedantic(turn, rounds=ROUNDS, iterations=1)
    middle = {name: statistics.median(seconds) for name, seconds in taken.items()}
    figures = {f"{name} s": round(seconds, 3) for name, seconds in middle.items()}
    for name in ("unchanged", "touched"):
        pairs = [ours / theirs for ours, theirs in zip(taken[name], taken["numpy"], strict=True)]
        figures[f"{name}: times numpy"] = round(middle[name] / middle["numpy"], 2)
        figures[f"{name}: median times numpy of a round"] = round(statistics.median(pairs), 2)
        _, done = run("-c", PEAK.replace("GATE", repr(f"{name}.yaml")))
        figures[f"{name}: peak MB"] = round(int(done.stderr.split()[-1]) * 1024 / 1e6)
    figures["load"] = round(os.getloadavg()[0], 1)
    benchmark.extra_info.update(figures)
    print("", *(f"{name}: {value}" for name, value in figures.items()), sep="\n  ")  # noqa: T201  for who runs it
