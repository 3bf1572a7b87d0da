"""Sources asked side by side, each with a time limit."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from ctxbench.core.notes import Note

T = TypeVar("T")


_IDLE_S = 1.0  # a thread that does not compute for so long waits for something, and may wait for ever
_LONGEST_S = 10.0  # that the end of the process is held up


class _Threads:
    """Threads that stay for the next call: to start one takes as long as a search. A process ends without them."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._free = 0  # threads that wait, less the calls that wait for one
        self._busy: set[threading.Thread] = set()

    def call(self, function: Callable[[], None]) -> None:
        """Call a function, which raises nothing, in a thread of its own."""
        with self._lock:
            self._free -= 1
            if new := self._free < 0:
                self._free = 0
        self._calls.put(function)
        if new:
            threading.Thread(target=self._work, name="ctxbench source", daemon=True).start()

    def stop(self) -> None:
        """Stop the calls that are still running, at the end of the process.

        Python ends a thread that comes back from compiled code once it has begun to shut down. Where that code is C++,
        the whole process is aborted (SIGABRT). So an exception is raised in the thread, and while it computes it is
        waited for; one that waits for something else is left alone.
        """
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None  # where a callback drops it, Python would say so
        end = time.monotonic() + _LONGEST_S
        computing = {thread: (_cpu_seconds(thread), time.monotonic()) for thread in list(self._busy)}
        while computing and time.monotonic() < end:
            for thread in computing:
                _raise_exit(thread)  # again, as a callback of compiled code may have dropped it
            time.sleep(0.02)
            for thread, (spent, since) in list(computing.items()):
                time_now, spent_now = time.monotonic(), _cpu_seconds(thread)
                if thread not in self._busy or (spent_now == spent and time_now - since > _IDLE_S):
                    del computing[thread]
                elif spent_now != spent:
                    computing[thread] = spent_now, time_now
        sys.unraisablehook = hook

    def _work(self) -> None:
        while True:
            with contextlib.suppress(SystemExit):  # of `stop`: a thread that ended could not be asked what it computes
                self._serve()

    def _serve(self) -> None:
        thread = threading.current_thread()
        while True:
            call = self._calls.get()
            self._busy.add(thread)
            try:
                call()
            finally:
                self._busy.discard(thread)
            with self._lock:
                self._free += 1


def _raise_exit(thread: threading.Thread) -> None:
    """Raise SystemExit in a thread, where it next runs Python."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


def _cpu_seconds(thread: threading.Thread) -> float:
    """How long a thread has computed; 0 where the system does not say."""
    if not thread.is_alive():
        return 0.0
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread.ident or 0))
    except (AttributeError, OSError):
        return 0.0


_threads = _Threads()
atexit.register(_threads.stop)
if hasattr(os, "register_at_fork"):  # a forked process has none of the threads
    os.register_at_fork(after_in_child=_threads.__init__)  # type: ignore[misc]


def side_by_side(calls: Mapping[str, Callable[[], T]], *, seconds: float) -> tuple[dict[str, T], tuple[Note, ...]]:
    """Make several calls at once, each in a thread, and leave out those that fail or take too long.

    A thread cannot be ended: one that is late goes on, and what it returns is dropped. At the end of the process
    SystemExit is raised in it, and as long as it still computes, for at most 10 s, the process waits.

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
            message = " ".join(str(error).split()) or type(error).__name__
            notes[name] = Note(f"retrieve.{name}", "failed", message)
    for name in calls:
        if name not in returned and name not in notes:
            notes[name] = Note(f"retrieve.{name}", "late", f"it had {seconds:g} s")
    return {name: returned[name] for name in calls if name in returned}, tuple(notes[n] for n in calls if n in notes)
