"""The lines that git leaves in a file where it could not merge."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ctxbench.core.errors import Fault

MERGED = "a merge conflict: keep what is right of both sides, and delete the lines <<<<<<<, ======= and >>>>>>>"
_MARK = re.compile(r"^(?:<{7}|\|{7}|>{7})(?: .*)?\r?$|^={7}\r?$", re.MULTILINE)


def without_marks(lines: Iterable[tuple[int, str]], path: Path | str, faults: list[Fault]) -> Iterator[tuple[int, str]]:
    """Pass over the lines that git leaves where it could not merge, and add a fault for each such place."""
    inside = False
    for number, text in lines:
        if not _MARK.fullmatch(text):
            yield number, text
            continue
        if not inside or text.startswith("<"):
            faults.append(Fault(MERGED, path, number))
        inside = not text.startswith(">")


def conflicts(text: str) -> list[int]:
    """The 1-based lines at which conflicts start that git left in a text; of marks that are left over, the first."""
    marks = [(text.count("\n", 0, mark.start()) + 1, mark.group()) for mark in _MARK.finditer(text)]
    return [line for line, mark in marks if mark.startswith("<")] or [line for line, _ in marks[:1]]
