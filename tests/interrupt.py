"""A function that another thread interrupts, for tests of what threads share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

SECONDS = 0.5  # that an interrupted call waits for the other thread, which may wait for that call


class Interrupted:
    """Calls a function; in the first call that matches, another thread does something first.

    That thread ends before the call goes on, unless it waits for a lock that the caller holds.

    Args:
        function: what is called.
        meanwhile: what the other thread does.
        when: which calls match, by their arguments; all by default.
    """

    def __init__(
        self, function: Callable[..., Any], meanwhile: Callable[[], Any], *, when: Callable[..., bool] = lambda *_: True
    ) -> None:
        self._function, self._meanwhile, self._when = function, meanwhile, when
        self._thread: threading.Thread | None = None
        self._result: Any = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self._thread is None and self._when(*arguments):
            self._thread = threading.Thread(target=self._run)
            self._thread.start()
            self._thread.join(SECONDS)
        return self._function(*arguments, **named)

    def __get__(self, owner: Any, _: type) -> Callable[..., Any]:
        return lambda *arguments: self(owner, *arguments)

    def result(self) -> Any:
        """What the other thread returned, once it has ended; there must have been one."""
        assert self._thread is not None
        self._thread.join(timeout=60)
        return self._result

    def _run(self) -> None:
        self._result = self._meanwhile()
