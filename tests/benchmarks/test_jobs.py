"""A run in two processes beside the same run in one, which has both cores for its BLAS. Run with `--benchmark-only -s`.

Both take turns, since machines change their speed within a minute, and the best of each counts. They run from stored
vectors; the first, untimed run makes those that are missing.
"""

from __future__ import annotations

import os
import subprocess
import sys

import yaml

from ctxbench.datasets.lookup import list_datasets

DATASETS = (
    *("bfcl-simple", "bfcl-live", "livemcpbench", "metatool-single", "metatool-multi", "toollens", "locomo"),
    *("workbench", "freight"),
)
SELECTORS = [
    {"selector": "semantic", "preset": "spec"},
    *({"selector": "learned", "preset": preset} for preset in ("aggressive", "normal", "conservative")),
    {"selector": "hybrid", "set": {"n": 5}},
    {"selector": "bm25", "set": {"n": 5}},
    {"selector": "everything"},
    {"selector": "random", "like": "learned/normal"},
    {"selector": "oracle"},
]
ROUNDS = 3
SAMPLE = int(os.environ.get("CTXBENCH_BENCH_SAMPLE", "1000"))  # queries per dataset; 0 = all


SCRIPT = """
import sys, time
from pathlib import Path
from ctxbench.evaluation.inputs import open_experiment
from ctxbench.evaluation.runner import run
from ctxbench.io.workers import Workers

prepared = open_experiment(Path("jobs.yaml"))
begin = time.perf_counter()
run(prepared, Path("run"), fresh=True, workers=Workers(jobs=int(sys.argv[1])))
print(time.perf_counter() - begin)
"""


def test_two_processes_beside_one(benchmark, tmp_path):
    states = {entry.name: entry.state for entry in list_datasets()}
    names = [name for name in DATASETS if states.get(name) in ("cached", "importable")]
    file = {"datasets": names, "selectors": SELECTORS, **({"sample": SAMPLE} if SAMPLE else {})}
    (tmp_path / "jobs.yaml").write_text(yaml.safe_dump(file), "utf-8")
    seconds(tmp_path, 2)
    times = {jobs: [] for jobs in (1, 2)}

    def turn():
        for jobs, taken in times.items():
            taken.append(seconds(tmp_path, jobs))

    benchmark.pedantic(turn, rounds=ROUNDS, iterations=1)
    one, two = (min(taken) for taken in times.values())
    figures = {
        "datasets": ", ".join(names),
        "queries of each at most": SAMPLE or "all",
        "jobs=1 s": round(one, 1),
        "jobs=2 s": round(two, 1),
        "times as fast (bar 1.5)": round(one / two, 2),
        "load": round(os.getloadavg()[0], 1),
    }
    benchmark.extra_info.update(figures)
    print("", *(f"{name}: {value}" for name, value in figures.items()), sep="\n  ")  # noqa: T201  for who runs it


def seconds(folder, jobs):
    """How long the run takes in so many processes, once the datasets are open."""
    command = [sys.executable, "-c", SCRIPT, str(jobs)]
    return float(subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=7200).stdout)
