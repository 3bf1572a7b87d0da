"""How traces are imported."""

from __future__ import annotations

from dataclasses import dataclass

from ctxbench.core.errors import ParameterError


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """How traces are imported.

    Attributes:
        name: of the dataset.
        licence: of the log's texts, for the card.
        history: how many earlier messages a query keeps, >= 0.
        assume_full: where the log does not say what was offered, everything was.
    """

    name: str
    licence: str = "not stated: texts of users, not for publication"
    history: int = 20
    assume_full: bool = False

    def __post_init__(self) -> None:
        if self.history < 0:
            raise ParameterError(f"history must be 0 messages or more, got {self.history}")
