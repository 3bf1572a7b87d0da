from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ctxbench.bench import machine


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux has /proc")
def test_a_small_child_of_a_large_process_reports_its_own_peak() -> None:
    large = b"x" * (200 * 2**20)
    code = "from ctxbench.bench.machine import peak_mib; print(peak_mib())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    own = machine.peak_mib()
    assert own is not None
    assert own > len(large) / 2**20
    assert 5 < float(done.stdout) < 150
