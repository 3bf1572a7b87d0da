"""Sources asked side by side, each with a time limit."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from ctxbench.core.notes import Note

T = TypeVar("T")


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
        threading.Thread(target=make, args=(name, call), name=name, daemon=True).start()
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
