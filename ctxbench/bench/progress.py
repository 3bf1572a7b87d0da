"""Who is told how far a long piece of work is: nobody, unless asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

Notify: TypeAlias = Callable[[str], None]


class Progress(Protocol):
    """Told how far a run is; on a terminal a progress bar."""

    def __call__(self, text: str, done: int, total: int) -> None:
        """`done` of `total` queries of the dataset and selector in `text` are answered."""
        ...


def silent(text: str, done: int, total: int) -> None:
    """Tell nobody."""


def nothing_said(_message: str) -> None:
    """Say nothing."""
