"""Logs which query of a selector has not been answered for long, so that a user does not wait without knowing why."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ctxbench.selectors.protocol import Source, quoted

_SILENCE = 15.0  # seconds without an answer until it is said
_AGAIN = 60.0  # seconds until it is said once more, also of another query: a slow selector would fill the screen
_LOOK = 1.0  # seconds between two looks

_log = logging.getLogger(__name__)


class Patience:
    """Watches what a source waits for, and logs it at most once per minute."""

    def __init__(self, name: str, source: Source) -> None:
        """Watch a source.

        Args:
            name: what the selector is called.
            source: whose `waiting_for` is looked at, from another thread.
        """
        self._name = name
        self._source = source
        self._logged_at = -math.inf

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Log what is waited for while the block runs."""
        done = threading.Event()
        thread = threading.Thread(target=self._watch, args=(done,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()

    def _watch(self, done: threading.Event) -> None:
        while not done.wait(min(_LOOK, _SILENCE)):
            waits = self._source.waiting_for()
            current = time.perf_counter()
            if waits is None or current - waits.since < _SILENCE or current - self._logged_at < _AGAIN:
                continue
            self._logged_at = current
            message = "waiting for %s: query %s has not been answered for %.0f s; %s"
            _log.warning(message, quoted(self._name), quoted(waits.query), current - waits.since, waits.limit)
