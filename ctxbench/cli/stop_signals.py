"""Signals that end a command and its children as Ctrl-C does, each with an exit code."""

from __future__ import annotations

import os
import signal
from types import FrameType

_NAMES = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
_got: list[int] = []


def catch() -> None:
    """Do from now on as at Ctrl-C. A signal that is ignored, as by `nohup`, or handled by another stays so."""
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _stop)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_let_go)


def exit_code() -> int:
    """What a command that was stopped ends with: 128 and the number of the signal, 130 of Ctrl-C."""
    return 128 + (_got[0] if _got else signal.SIGINT)


def _stop(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C would do now; where that is ignored, as of a job in the background, raise all the same."""
    _got.append(number)
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(number, frame)
    raise KeyboardInterrupt


def _let_go() -> None:
    """A process that code of others forks off ends by the signal, as its parent expects."""
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is _stop:
            signal.signal(number, signal.SIG_DFL)
