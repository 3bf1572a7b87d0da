"""Who is told how far a long piece of work is: nobody, unless asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Notify: TypeAlias = Callable[[str], None]


Progress: TypeAlias = Callable[[str, int, int], None]
"""Told how far a run is: (text, done, total), where `done` of `total` parts of what is in `text` are done."""


def silent(text: str, done: int, total: int) -> None:
    """Ignore how far a run is."""


def nothing_said(_message: str) -> None:
    """Ignore a message."""
