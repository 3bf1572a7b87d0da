"""Texts of issues and pull requests that replace the messages of the commits that close them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from ctxbench.core.errors import Fault, raise_faults
from ctxbench.io.rows import Row, jsonl_rows
from ctxbench.sources.repository.git_reader import LineCommit

_K = TypeVar("_K", str, int)
_HASH = re.compile(r"[0-9a-f]{7,64}")
_CLOSED = (  # the most certain first
    re.compile(r"\(#(\d{1,9})\)\s*$"),
    re.compile(r"^Merge(?:d|s)? (?:pull[- ]request|pr) #(\d{1,9})\b", re.IGNORECASE),
    re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+(?:#|gh-)(\d{1,9})\b", re.IGNORECASE),
    re.compile(r"\(#(\d{1,9})\)"),
)


@dataclass(frozen=True, slots=True)
class QueryTexts:
    """Texts that replace commit messages.

    Attributes:
        commits: by the hash of a commit, or its first 7 digits or more.
        numbers: by the number of an issue or pull request.
    """

    commits: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[int, str] = field(default_factory=dict)

    def used(self, line: Iterable[LineCommit]) -> int:
        """How many of the texts belong to commits of a line."""
        matched: set[str | int] = set()
        for commit in line:
            matched.update(start for start in self.commits if commit.sha.startswith(start))
            matched.update(number for number in _closed(commit.message) if number in self.numbers)
        return len(matched)

    def __len__(self) -> int:
        return len(self.commits) + len(self.numbers)

    def of(self, commit: LineCommit) -> str | None:
        """The text of a commit, else of the first issue or pull request that its message closes; None = there is none.

        Those are `(#12)` at the end of the first line, `Merge pull request #12`, `Fixes #12`, and `(#12)` elsewhere.
        """
        text = next((text for start, text in self.commits.items() if commit.sha.startswith(start)), None)
        return text if text is not None else next(filter(None, map(self.numbers.get, _closed(commit.message))), None)


def _closed(message: str) -> Iterator[int]:
    """The numbers that a message closes, the most certain first."""
    first = message.split("\n", maxsplit=1)[0]
    for index, pattern in enumerate(_CLOSED):
        for match in pattern.finditer(message if index > 1 else first):
            yield int(match[1])


def read_query_texts(path: Path) -> QueryTexts:
    """Read rows `{"commit": HASH, "text": ...}` and `{"number": 12, "text": ...}`.

    Raises:
        StorageError: the file cannot be read.
        InputError: rows are malformed, or two belong to the same: all faults, with their lines.
    """
    faults: list[Fault] = []
    commits: dict[str, str] = {}
    numbers: dict[int, str] = {}
    for row in jsonl_rows(path, faults):
        row.refuse_unknown(("commit", "number", "text"))
        text = row.take("text", str, "", required=True)
        if ("commit" in row.data) == ("number" in row.data):
            row.fault("expected one of the fields 'commit' (a hash) and 'number' (of an issue or pull request)")
        elif "commit" in row.data:
            _add(row, commits, _hash(row), text)
        else:
            _add(row, numbers, row.take("number", int, 0, required=True), text)
    for prefix, sha in pairwise(sorted(commits)):
        if sha.startswith(prefix):
            faults.append(Fault(f"{prefix} and {sha} begin alike; expected one row for a commit", path))
    raise_faults(faults, subject=str(path))
    return QueryTexts(commits, numbers)


def _hash(row: Row) -> str:
    value = row.take("commit", str, "", required=True).lower()
    if value and not _HASH.fullmatch(value):
        row.fault(f"field 'commit' must be a hash of 7 hex digits or more, got {value!r:.60}", at="commit")
    return value


def _add(row: Row, texts: dict[_K, str], key: _K, text: str) -> None:
    if key in texts:
        row.fault(f"{key} occurs twice; expected one row each")
    texts[key] = text
