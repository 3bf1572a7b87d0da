"""Processes that tests start: none is waited for without end, and none outlives its test."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

LIMIT = 120.0  # seconds; many times what any takes, for a machine that has other work to do


@contextmanager
def child(command: Sequence[object], *, limit: float = LIMIT, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a process and wait for its end where the block ends.

    It is killed after `limit` seconds, whatever the test waits for then, and at once where the block fails.
    """
    process = subprocess.Popen([str(word) for word in command], **options)
    clock = threading.Timer(limit, process.kill)
    clock.daemon = True
    clock.start()
    try:
        with process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise
    finally:
        clock.cancel()
