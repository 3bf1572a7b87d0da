"""A cache of contexts: the outputs of their steps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ctxbench.core.errors import check_range


@dataclass(eq=False)
class KeptContext:
    """The outputs of one request's steps.

    Attributes:
        catalog: the hash of the catalog that it is over.
        thread, user: whose request it is.
        outputs: a pipeline's memo: what holds is for the pipeline's own keys to say.
        answer: what was made of the outputs, good as long as no step runs anew.
        lock: held while the request is answered, so that who asks the same meanwhile waits and takes that.
    """

    catalog: str
    thread: str | None
    user: str | None
    outputs: dict[str, Any] = field(default_factory=dict)
    answer: Any = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    used: float = 0.0


class ContextCache:
    """Keeps the contexts used last by the key of their request (`batch_key`), for a time from their last use.

    A key holds the catalog and all of the request, so nothing has to be taken out after a write: what was asked of an
    earlier catalog is not found any more, and goes as soon as there is something of a later one. May be used from
    several threads.

    Args:
        size: how many are kept, 0 or more; the one used longest ago goes first.
        seconds: how long one is kept after its last use, 0 or more.
        clock: tells seconds; for tests.
    """

    def __init__(self, size: int = 100, seconds: float = 30.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        check_range("size", size, 0)
        check_range("seconds", seconds, 0)
        self._size, self._seconds, self._clock = size, seconds, clock
        self._kept: dict[str, KeptContext] = {}  # last used last
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            self._drop_old()
            return len(self._kept)

    def __contains__(self, key: str) -> bool:
        with self._lock:
            self._drop_old()
            return key in self._kept

    def entry(self, key: str, *, catalog: str, thread: str | None, user: str | None) -> KeptContext:
        """The entry of a key, which counts as used now; empty if there is none."""
        with self._lock:
            self._drop_old()
            entry = self._kept.pop(key, None)
            if entry is None:
                entry = KeptContext(catalog, thread, user)
                # a catalog takes megabytes, and does not come back; each user has one
                self._keep_only(lambda entry: entry.user != user or entry.catalog == catalog)
            entry.used = self._clock()
            self._kept[key] = entry
            while len(self._kept) > self._size:
                del self._kept[next(iter(self._kept))]
            return entry

    def forget(self, *, thread: str | None = None, user: str | None = None) -> int:
        """Remove the contexts of a thread, of a user, or of both; without either all. Returns how many."""
        with self._lock:
            before = len(self._kept)
            self._keep_only(
                lambda entry: (
                    (thread is not None and entry.thread != thread) or (user is not None and entry.user != user)
                )
            )
            return before - len(self._kept)

    def _drop_old(self) -> None:
        end = self._clock() - self._seconds
        for key in [key for key, entry in self._kept.items() if entry.used <= end]:
            del self._kept[key]

    def _keep_only(self, is_kept: Callable[[KeptContext], bool]) -> None:
        self._kept = {key: entry for key, entry in self._kept.items() if is_kept(entry)}
