"""Errors that ctxbench raises, and lists of everything that is wrong in an input.

`UserError` and its subclasses are faults in what the user gave: the command line prints them in one line and
exits with their `exit_code`. Any other exception is a bug of ours and keeps its traceback.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ctxbench.io.visible import one_line

SHOWN = 50  # faults that a message lists; a file of the wrong kind has thousands

_EXAMPLES = 5  # names that stand for many


class CtxbenchError(Exception):
    """Base of every error that ctxbench raises on purpose."""


class UserError(CtxbenchError):
    """A fault in what the user gave: says what was wrong, where, what was expected, what to do."""

    exit_code = 2


class ParameterError(UserError, ValueError):
    """A parameter is out of range, of the wrong type, or unknown."""


class UnknownNameError(UserError, LookupError):
    """A name that nothing is registered or stored under; the message lists the closest known ones.

    A `hint` says what was meant where something else than the known names was.
    """

    def __init__(self, kind: str, name: str, names: Iterable[str], *, where: str = "", hint: str = "") -> None:
        self.what, self.name, self.known = kind, name, tuple(names)
        super().__init__(f"unknown {kind} {name!r}{where}{hint or suggest(name, self.known)}")


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

    @property
    def location(self) -> str:
        """Where it stands, such as `gate.yaml, line 3, column 7`, as far as that is known; empty if it is not."""
        line = f", line {self.line}" if self.line else ""
        column = f", column {self.column}" if self.line and self.column else ""
        return "" if self.path is None else f"{self.path}{line}{column}"

    def __str__(self) -> str:
        return f"{self.message} ({self.location})" if self.location else self.message


class InputError(UserError):
    """Everything that is wrong in one input, reported at once.

    The message lists the first 50, a line each whatever they quote, and says how many more there are.

    Attributes:
        faults: all faults, in file order; never empty.
    """

    def __init__(self, faults: Sequence[Fault], *, subject: str = "") -> None:
        if not faults:
            raise ValueError("an InputError needs at least one fault")
        self.faults = tuple(faults)
        self.subject = subject
        if len(self.faults) == 1 and not subject:
            super().__init__(one_line(str(self.faults[0])))
        else:
            count = f"{len(self.faults)} fault{'s' if len(self.faults) > 1 else ''}"
            head = f"{subject}: {count}" if subject else count
            rest = [f"  and {len(self.faults) - SHOWN} more"] if len(self.faults) > SHOWN else []
            super().__init__("\n".join([head, *(f"  {one_line(str(fault))}" for fault in self.faults[:SHOWN]), *rest]))


def merge_equal_faults(faults: Sequence[Fault]) -> list[Fault]:
    """One fault for those of a file with equal messages, at the first line, with the number of the other lines."""
    groups: dict[tuple[str, Path | str | None], list[Fault]] = {}
    for fault in faults:
        groups.setdefault((fault.message, fault.path), []).append(fault)
    return [
        replace(first, message=f"{first.message}; so are {len(repeats):,} more lines" if repeats else first.message)
        for first, *repeats in groups.values()
    ]


def raise_faults(faults: Sequence[Fault], *, subject: str = "") -> None:
    """Raise all faults at once; do nothing where there is none.

    Raises:
        InputError: there are faults.
    """
    if faults:
        raise InputError(faults, subject=subject)


def check_range(name: str, value: float, low: float, high: float = math.inf) -> None:
    """Hold a number to a range, ends included.

    Raises:
        ParameterError: it lies outside, or is NaN.
    """
    if not low <= value <= high:
        expected = f"{low} or more" if high == math.inf else f"{low} to {high}"
        raise ParameterError(f"{name} must be {expected}, got {value}")


def number_within(name: str, value: object, low: float, high: float = math.inf) -> float:
    """A value of a mapping as a finite number within a range, ends included.

    Raises:
        ParameterError: it is none, or lies outside.
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not low <= value <= high
        or abs(value) == math.inf  # not by isfinite, to which a whole number can be too large
    ):
        expected = "a number" if math.isinf(low) else f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"
        raise ParameterError(f"{name} must be {expected}, got {value!r}")
    return float(value)


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Hold a value to the names that it may have.

    Raises:
        ParameterError: it is none of them.
    """
    if value not in choices:
        raise ParameterError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def faults_of(error: Exception) -> tuple[Fault, ...]:
    """What is wrong, one by one: an error that is no `InputError` is one fault, whose place is not known."""
    return error.faults if isinstance(error, InputError) else (Fault(str(error)),)


def none_found(names: Sequence[str], kind: str, where: str, existing: Sequence[str]) -> str:
    """That two inputs do not belong together: nothing that the one names is in the other; some of both are shown."""
    listing = _some(existing) if existing else "nothing"
    return f"none of the {len(names):,} {kind} is in {where}: {_some(names)}; {where} holds {listing}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_EXAMPLES])) + (", ..." if len(names) > _EXAMPLES else "")


def suggest(name: str, candidates: Iterable[str], *, listed: bool = True) -> str:
    """Return '; did you mean ...? Known: ...' for an unknown `name`, to be put behind a message.

    Without `listed`, what is known is not listed: for all but the first of several messages about the same names.
    """
    names = sorted(candidates)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
    if not listed:
        return hint
    if not names:
        return f"{hint}; none are known"
    listing = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"{hint or ';'} Known: {listing}"
