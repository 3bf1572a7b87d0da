"""Signals that end a command and its children as Ctrl-C does, each with an exit code."""

from __future__ import annotations

import os
import signal
from types import FrameType

_NAMES = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
_got: list[int] = []


def catch() -> None:
    """Handle SIGTERM and SIGHUP as Ctrl-C from now on, unless they are ignored (as by `nohup`) or already handled."""
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _stop)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_let_go)


def exit_code() -> int:
    """The exit code of a stopped command: 128 plus the number of the signal; 130 for Ctrl-C."""
    return 128 + (_got[0] if _got else signal.SIGINT)


def _stop(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C would do; if that is ignored, as in a background job, raise `KeyboardInterrupt`."""
    _got.append(number)
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(number, frame)
    raise KeyboardInterrupt


def _let_go() -> None:
    """Restore the default in a forked child, which its parent expects to end by the signal."""
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is _stop:
            signal.signal(number, signal.SIG_DFL)
