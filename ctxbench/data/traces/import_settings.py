"""Settings of an import of traces."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ctxbench.core.errors import ParameterError
from ctxbench.data.datasets.dataset import name_fault, name_of_path


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """Settings of an import of traces.

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

    @classmethod
    def of_folder(
        cls, out: Path, *, name: str | None, licence: str | None, history: int, all_offered: bool
    ) -> TraceSettings:
        """Settings of an import into a folder; without a name, the dataset has the name of the folder.

        Raises:
            ParameterError: the name is none for a dataset, or the history is negative.
        """
        if name is None:
            name = name_of_path(out, "traces")
        fault = name_fault(name)
        if fault:
            raise ParameterError(f"{fault} (--name)")
        settings = cls(name=name, history=history, assume_full=all_offered)
        return settings if licence is None else replace(settings, licence=licence)
