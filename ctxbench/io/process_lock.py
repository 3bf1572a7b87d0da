"""A lock that does not outlive its threads: in a child of a fork, those of the parent are not there to let go of it."""

from __future__ import annotations

import os
from threading import RLock
from weakref import WeakSet


class ProcessLock:
    """A reentrant lock, `with lock:`. A forked child has it free, unless the thread that forked holds it."""

    def __init__(self) -> None:
        self._lock = RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Take a new lock, unless this thread may have the one there is."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = RLock()


_LOCKS: WeakSet[ProcessLock] = WeakSet()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock.renew()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_renew_all)
