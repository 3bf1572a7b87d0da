"""Notes: what did not go as it was asked for, and what was done instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ctxbench.core.errors import ParameterError

KINDS = ("late", "failed", "fell back")


@dataclass(frozen=True, slots=True)
class Note:
    """That a step was late, failed, or fell back to something else; the answer goes without it.

    A strategy leaves one with what it returns: `replace(query, notes=(*query.notes, note))` from an analysis,
    `candidates.noted(note)` from any step behind.

    Attributes:
        step: which, for example `retrieve.words`.
        kind: one of `KINDS`.
        message: what happened and what was done instead, in a sentence.
        query: the id of the query that it is of; empty = of all that were asked together.
    """

    step: str
    kind: str
    message: str
    query: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(f"a note is of kind {', '.join(KINDS)}, got {self.kind!r}")

    def as_dict(self) -> dict[str, Any]:
        """The note as JSON; what is empty is left out."""
        row = {"step": self.step, "kind": self.kind, "message": self.message}
        return {**row, "query": self.query} if self.query else row

    def __str__(self) -> str:
        return f"{self.step} {'was late' if self.kind == 'late' else self.kind}: {self.message}"
