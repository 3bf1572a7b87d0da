"""Locations that reports name: lines of the gate file, of items, queries and labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ctxbench.gate.model import Cause, CauseKind, SelectorCheck

_NOWHERE = ("", 0)
_CONFIGURED = (CauseKind.PARAMETER, CauseKind.CODE, CauseKind.OUTSIDE)  # causes that lie in a selector, not in an item

Location: TypeAlias = tuple[str, int]
"""A file, relative to the repository, and its 1-based line; 0 = all of the file, ("", 0) = not known."""


def _nowhere(*_names: str) -> Location:
    return _NOWHERE


def _no_file(_name: str) -> str:
    return ""


def _not_gone(_file: str) -> bool:
    return False


def unknown_location() -> Location:
    """The location of what has no known location."""
    return _NOWHERE


@dataclass(frozen=True, kw_only=True)
class Locations:
    """Looks up the locations of what a check is about.

    Attributes:
        gate: the gate file; empty where there is none.
        selectors: lines of the gate file by the names of selectors.
        files: locations of selectors that stand in a file of their own, such as an agent file, likewise.
        external_file: the file that an external selector names, relative to the repository; empty where there is none.
        embedder: the line of the gate file that names the model; 0 = none does.
        gone: whether a file of a location is no longer there.
        item: the location of an item by dataset and id.
        query: that of a query, likewise.
        labels: that of a query's label of an item, or of its first one, by dataset, query and, if wanted, item.
    """

    gate: str = ""
    selectors: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, Location] = field(default_factory=dict)
    external_file: Callable[[str], str] = _no_file
    embedder: int = 0
    gone: Callable[[str], bool] = _not_gone
    item: Callable[[str, str], Location] = _nowhere
    query: Callable[[str, str], Location] = _nowhere
    labels: Callable[..., Location] = _nowhere

    def text(self, location: Location) -> str:
        """A location as `datasets/desk/corpus.jsonl:12`; the file alone where no line is known, which may be gone.

        Empty where no file is known.
        """
        file, line = location
        if file and not line and self.gone(file):
            return f"{file}, file is gone"
        return f"{file}:{line}" if file and line else file

    def in_gate(self, line: int) -> Location:
        """A line of the gate file; 0 = the file."""
        return (self.gate, line) if self.gate else _NOWHERE

    def of_cause(self, cause: Cause, dataset: str, selectors: Sequence[str]) -> Location:
        """The location of a cause: an edited file, a selector, the model, or the first item with a line or a file."""
        if cause.kind is CauseKind.MODEL:
            return self.in_gate(self.embedder)
        if cause.kind is CauseKind.OUTSIDE and (
            edited := next(filter(None, map(self.external_file, cause.subjects)), "")
        ):
            return edited, 0
        if cause.kind in _CONFIGURED:
            location = next((self.files[name] for name in selectors if name in self.files), _NOWHERE)
            line = next((self.selectors[name] for name in selectors if name in self.selectors), 0)
            return location if location[0] else self.in_gate(line)
        return self.of_items(cause.subjects or ([""] if cause.kind is not CauseKind.UNKNOWN else []), dataset)

    def of_items(self, items: Sequence[str], dataset: str) -> Location:
        """The location of the first of some items that has a line; else their file."""
        location = _NOWHERE
        for item in items:
            location = self.item(dataset, item)
            if location[1]:
                break
        return location

    def of_queries(self, check: SelectorCheck) -> Location:
        """The location of the first query that is relabelled, changed or removed."""
        for why, locate in (("relabelled", self.labels), ("changed", self.query), ("removed", self.query)):
            for query in check.left_out.get(why, ())[:1]:
                return locate(check.dataset, query)
        return _NOWHERE
