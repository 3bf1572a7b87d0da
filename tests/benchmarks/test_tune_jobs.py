"""`ctxbench tune` in two processes beside one, on datasets that come with ctxbench. Run with `--benchmark-only -s`.

Both take turns, from stored vectors, and write the same report. On two quiet cores the aim is 1.4 times the speed of
one process with its BLAS threads.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROUNDS = 3


def tuned(jobs: int, out: Path) -> float:
    """Seconds of one tuning."""
    datasets = [str(ROOT / "datasets" / name) for name in ("workbench", "freight")]
    policy = ["--policy", "experiments/tuning/presets.yaml", "--out", str(out), "--jobs", str(jobs)]
    command = [sys.executable, "-m", "ctxbench", "tune", *datasets, *policy]
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=7200)
    return time.perf_counter() - start


def test_two_processes(benchmark, tmp_path):
    tuned(1, tmp_path / "first")  # embeds what is new
    ratios = []
    for number in range(ROUNDS):
        one = tuned(1, tmp_path / f"{number}-1")
        ratios.append(one / tuned(2, tmp_path / f"{number}-2"))
        print(f"\none process {one:.1f} s; two are {ratios[-1]:.2f} times as fast")  # noqa: T201
    benchmark.extra_info["ratio"] = statistics.median(ratios)
    benchmark.pedantic(lambda: None)
    reports = [(tmp_path / f"0-{jobs}" / "report.html").read_bytes() for jobs in (1, 2)]
    assert reports[0] == reports[1]
