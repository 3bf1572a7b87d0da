"""Progress listeners of long work; by default nothing is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Notify: TypeAlias = Callable[[str], None]


Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the progress of a run: (text, done, total), where `done` of `total` parts of `text` are done."""


def silent(text: str, done: int, total: int) -> None:
    """Ignore how far a run is."""


def nothing_said(_message: str) -> None:
    """Ignore a message."""
