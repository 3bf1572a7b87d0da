"""What a check of `workbench` costs as a process, beside one that imports numpy; nothing has changed in it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gate_world import HERE

ROUNDS, WARM_UP = 10, 2
_GATE = """
name: workbench
datasets: [{dataset}]
selectors:
  - {{selector: semantic, preset: normal}}
"""
_PEAK = """
import atexit, sys
def peak():
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), file=sys.stderr)
atexit.register(peak)
from ctxbench.cli.app import main
main(["check"])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What it costs.

    Attributes:
        check, numpy: seconds of a process, medians.
        ratio: the median of the ratios of single rounds.
        megabytes: peak memory of the check.
        load: of the machine meanwhile.
    """

    check: float
    numpy: float
    ratio: float
    megabytes: float
    load: float


def price() -> Price:
    """Accept with vectors, then check and import numpy in turns, with compiled modules and no vectors but those."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "gate.yaml").write_text(_GATE.format(dataset=HERE.parents[1] / "datasets" / "workbench"))
        place = {**os.environ, "PYTHONPYCACHEPREFIX": str(Path(folder) / "compiled")}
        place.pop("PYTHONDONTWRITEBYTECODE", None)
        _run(folder, place, ["-m", "ctxbench", "check", "--accept", "--vectors"])
        place["CTXBENCH_CACHE"] = str(Path(folder) / "cache")
        taken = []
        for _ in range(WARM_UP + ROUNDS):
            check, _ = _run(folder, place, ["-m", "ctxbench", "check"])
            numpy, _ = _run(folder, place, ["-c", "import numpy"])
            taken.append((check, numpy))
        _, told = _run(folder, place, ["-c", _PEAK])
    checks, numpys = zip(*taken[WARM_UP:], strict=True)
    return Price(
        check=statistics.median(checks),
        numpy=statistics.median(numpys),
        ratio=statistics.median(a / b for a, b in zip(checks, numpys, strict=True)),
        megabytes=int(told.split()[-1]) * 1024 / 1e6,
        load=os.getloadavg()[0],
    )


def _run(folder: str, place: dict[str, str], arguments: Sequence[str]) -> tuple[float, str]:
    began = time.perf_counter()
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=place, capture_output=True, text=True, check=True)  # noqa: S603
    return time.perf_counter() - began, done.stderr
