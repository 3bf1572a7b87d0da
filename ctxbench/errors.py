"""Errors that ctxbench raises, and lists of everything that is wrong in an input.

`UserError` and its subclasses are faults in what the user gave: the command line prints them in one line and
exits with their `exit_code`. Any other exception is a bug of ours and keeps its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_SHOWN = 50  # faults that a message lists; a file of the wrong kind has thousands


class CtxbenchError(Exception):
    """Base of every error that ctxbench raises on purpose."""


class UserError(CtxbenchError):
    """A fault in what the user gave: says what was wrong, where, what was expected, what to do."""

    exit_code = 2


class ParameterError(UserError, ValueError):
    """A parameter is out of range, of the wrong type, or unknown."""


class UnknownNameError(UserError, LookupError):
    """A name that nothing is registered or stored under; the message lists the closest known ones."""

    def __init__(self, what: str, name: str, known: Iterable[str], *, where: str = "") -> None:
        self.what, self.name, self.known = what, name, tuple(known)
        super().__init__(f"unknown {what} {name!r}{where}{suggest(name, self.known)}")


class EmbeddingError(UserError):
    """A text could not be embedded, or no usable model was found."""


class StorageError(UserError):
    """A file or store could not be read or written: missing, locked, damaged, disk full."""


class SelectorError(UserError):
    """A selector failed, or answered something that is no answer."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong in an input.

    Attributes:
        message: what was wrong and what was expected.
        path: the file it stands in, if any.
        line: 1-based line, 0 if unknown.
        column: 1-based column, 0 if unknown.
    """

    message: str
    path: Path | str | None = None
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if self.path is None:
            return self.message
        place = str(self.path)
        if self.line:
            place += f", line {self.line}"
            if self.column:
                place += f", column {self.column}"
        return f"{self.message} ({place})"


class InputError(UserError):
    """Everything that is wrong in one input, reported at once.

    The message lists the first 50 and says how many more there are.

    Attributes:
        faults: all faults, in file order; never empty.
    """

    def __init__(self, faults: Sequence[Fault], *, subject: str = "") -> None:
        if not faults:
            raise ValueError("an InputError needs at least one fault")
        self.faults = tuple(faults)
        self.subject = subject
        if len(self.faults) == 1 and not subject:
            super().__init__(str(self.faults[0]))
        else:
            count = f"{len(self.faults)} fault{'s' if len(self.faults) > 1 else ''}"
            head = f"{subject}: {count}" if subject else count
            rest = [f"  and {len(self.faults) - _SHOWN} more"] if len(self.faults) > _SHOWN else []
            super().__init__("\n".join([head, *(f"  {fault}" for fault in self.faults[:_SHOWN]), *rest]))


def suggest(name: str, known: Iterable[str]) -> str:
    """Return '; did you mean ...? Known: ...' for an unknown `name`, to be put behind a message."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
    if not names:
        return f"{hint}; none are known"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"{hint or ';'} Known: {shown}"
