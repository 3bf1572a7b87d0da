"""Progress on stderr, for whatever takes over a second: a line that is rewritten on a terminal, few lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ctxbench.io.console import is_terminal, say, write_own
from ctxbench.io.visible import joined

AFTER = 1.0  # seconds of silence first
EVERY_TERMINAL = 0.1
EVERY_FILE = 10.0


class Progress:
    """Shows progress; nothing in the first second."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._last_shown = 0.0
        self._width = 0
        self._terminal = is_terminal(err=True)

    def __call__(self, text: str, done: int, total: int) -> None:
        """Show that `done` of `total` of what `text` names are done."""
        current = time.monotonic()
        interval = EVERY_TERMINAL if self._terminal else EVERY_FILE
        if current - self._begin < AFTER or current - self._last_shown < interval:
            return
        self._last_shown = current
        line = joined([f"{text}: {done:,} of {total:,}"])
        if self._terminal:
            write_own("\r" + line.ljust(self._width), err=True)
            self._width = len(line)
        else:
            say(line, err=True)

    def say(self, text: str) -> None:
        """Print one line that stays."""
        self.close()
        say(text, err=True)

    def close(self) -> None:
        """Clear the line."""
        if self._terminal and self._width:
            write_own("\r" + " " * self._width + "\r", err=True)
            self._width = 0


@contextmanager
def progress() -> Iterator[Progress]:
    """Progress that is cleared at the end."""
    bar = Progress()
    try:
        yield bar
    finally:
        bar.close()


@contextmanager
def embedding_progress() -> Iterator[Callable[[int, int], None]]:
    """Progress of texts being embedded."""
    with progress() as bar:
        yield lambda done, total: bar("embedding texts", done, total)
