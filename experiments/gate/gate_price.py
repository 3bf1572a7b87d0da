"""What a check of `workbench` costs as a process, compared with one that imports numpy.

Once with nothing changed, where no selector is asked, and once with another byte in the file of queries, where all are.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gate_world import HERE

ROUNDS, WARM_UP = 10, 2
_NAMES = ("unchanged", "touched")
_GATE = """
name: workbench
datasets: [DATA]
baseline: gate.baseline
selectors:
  - {selector: semantic, preset: normal}
"""
_PEAK = """
import atexit, sys
def peak():
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
atexit.register(peak)
from ctxbench.cli.app import main
main(["check", "NAME.yaml"])
"""


def price() -> list[dict[str, Any]]:
    """Accept with vectors, then check and import numpy in turns, with compiled modules and no vectors but those.

    Returns:
        A row for each process: median seconds, the median of its ratios to importing numpy, peak memory, and the load.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in _NAMES:
            shutil.copytree(HERE.parents[1] / "datasets" / "workbench", Path(folder) / name)
            (Path(folder) / f"{name}.yaml").write_text(_GATE.replace("DATA", name))
        with (Path(folder) / "touched" / "queries.jsonl").open("a") as queries:
            queries.write("\n")
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        _run(folder, environment, ["-m", "ctxbench", "check", "unchanged.yaml", "--accept", "--vectors"])
        environment["CTXBENCH_CACHE"] = str(Path(folder) / "cache")
        taken: dict[str, list[float]] = {name: [] for name in (*_NAMES, "numpy")}
        for number in range(WARM_UP + ROUNDS):
            for name, seconds in taken.items():
                arguments = ["-c", "import numpy"] if name == "numpy" else ["-m", "ctxbench", "check", f"{name}.yaml"]
                spent, _ = _run(folder, environment, arguments)
                if number >= WARM_UP:
                    seconds.append(spent)
        peaks = {name: _run(folder, environment, ["-c", _PEAK.replace("NAME", name)])[1] for name in _NAMES}
    return [
        {
            "process": name,
            "seconds": statistics.median(seconds),
            "ratio": statistics.median(a / b for a, b in zip(seconds, taken["numpy"], strict=True)),
            "megabytes": int(peaks[name].split()[-1]) * 1024 / 1e6 if name in peaks else math.nan,
            "load": os.getloadavg()[0],
        }
        for name, seconds in taken.items()
    ]


def _run(folder: str, environment: dict[str, str], arguments: Sequence[str]) -> tuple[float, str]:
    began = time.perf_counter()
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    return time.perf_counter() - began, done.stderr
