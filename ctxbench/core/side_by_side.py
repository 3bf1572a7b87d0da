"""Sources asked side by side, each with a time limit."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from ctxbench.core.notes import Note

T = TypeVar("T")


class _Threads:
    """Threads that stay for the next call: to start one takes as long as a search. A process ends without them."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._free = 0  # threads that wait, less the calls that wait for one

    def call(self, function: Callable[[], None]) -> None:
        """Call a function, which raises nothing, in a thread of its own."""
        with self._lock:
            self._free -= 1
            if new := self._free < 0:
                self._free = 0
        self._calls.put(function)
        if new:
            threading.Thread(target=self._work, name="ctxbench source", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._calls.get()()
            with self._lock:
                self._free += 1


_threads = _Threads()
if hasattr(os, "register_at_fork"):  # a forked process has none of the threads
    os.register_at_fork(after_in_child=_threads.__init__)  # type: ignore[misc]


def side_by_side(calls: Mapping[str, Callable[[], T]], *, seconds: float) -> tuple[dict[str, T], tuple[Note, ...]]:
    """Make several calls at once, each in a thread, and leave out those that fail or take too long.

    A thread cannot be ended: one that is late goes on, without holding up the end of the process, and what it returns
    is dropped.

    Args:
        calls: by name.
        seconds: how long they are waited for.

    Returns:
        What they returned, by name in their order, and a note for each that did not.
    """
    done: queue.SimpleQueue[tuple[str, T | None, BaseException | None]] = queue.SimpleQueue()

    def make(name: str, call: Callable[[], T]) -> None:
        try:
            done.put((name, call(), None))
        except BaseException as error:  # noqa: BLE001 - whatever it is, even an exit, the other sources answer
            done.put((name, None, error))

    for name, call in calls.items():
        _threads.call(partial(make, name, call))
    end = time.monotonic() + seconds
    returned: dict[str, T] = {}
    notes: dict[str, Note] = {}
    while len(returned) + len(notes) < len(calls):
        try:
            name, value, error = done.get(timeout=max(end - time.monotonic(), 0.0))
        except queue.Empty:
            break
        if error is None:
            returned[name] = value  # type: ignore[assignment]
        else:
            what = " ".join(str(error).split()) or type(error).__name__
            notes[name] = Note(f"retrieve.{name}", "failed", what)
    for name in calls:
        if name not in returned and name not in notes:
            notes[name] = Note(f"retrieve.{name}", "late", f"it had {seconds:g} s")
    return {name: returned[name] for name in calls if name in returned}, tuple(notes[n] for n in calls if n in notes)
