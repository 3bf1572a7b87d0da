"""The machine that times were taken on."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Processor, cores, memory, system, and `load`: processes that ran or waited over the last minute.

    What the system does not provide is None.
    """
    affinity, average = (getattr(os, name, None) for name in ("sched_getaffinity", "getloadavg"))  # where it has them
    memory = _field(Path("/proc/meminfo"), "MemTotal")
    return {
        "processor": _field(Path("/proc/cpuinfo"), "model name") or platform.processor() or None,
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "usable_cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_mib": None if memory is None else int(memory.split()[0]) // 1024,
        "system": f"{platform.system()} {platform.release()}",
        "load": round(float(average()[0]), 2) if average else None,
    }


def blas() -> list[dict[str, Any]]:
    """The BLAS and OpenMP libraries that this process has loaded, with their threads."""
    from threadpoolctl import threadpool_info

    keys = ("user_api", "internal_api", "version", "num_threads")
    return [{key: library.get(key) for key in keys} for library in threadpool_info()]


def _field(path: Path, name: str) -> str | None:
    """The value of the first `name: value` of one of the kernel's files; None where it has none."""
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        key, colon, value = line.partition(":")
        if colon and key.strip() == name:
            return value.strip()
    return None
