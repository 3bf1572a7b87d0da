"""Find leakage: queries that name an item they require, so that no search is needed to find it.

A query names an item if it holds the item's name as written (case aside; at least three characters, and no letter or
digit before or behind), or the words of a name of two words or more one behind the other: `create_issue`,
`createIssue` and `create-issue` are all named by "please create issue 7". A name that is one ordinary word, such as
`search`, counts as well: whoever reads the list must judge it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.index.words import words

RULE = "the name as written (3 characters or more), or all words of a name of two or more, side by side"
_SHORTEST = 3
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True, slots=True)
class Leak:
    """A query that names an item it requires.

    Attributes:
        query: the query id.
        item: the item's id.
        how: `as written`, `by its words`, or `server` where only the item's server is named.
    """

    query: str
    item: str
    how: str


def find_leaks(dataset: Dataset) -> tuple[Leak, ...]:
    """The required items that their queries name, in the order of the labels; history is not read."""
    leaks = []
    for query in dataset.queries:
        required = [label.item for label in dataset.labels_of(query.id) if label.grade == Grade.REQUIRED]
        if required:
            text = _Text(query.request.text)
            for key in required:
                how = text.names(key.name) or ("server" if key.server and text.names(key.server) else "")
                if how:
                    leaks.append(Leak(query.id, key.id, how))
    return tuple(leaks)


class _Text:
    """A query's text, folded once for all its items."""

    def __init__(self, text: str) -> None:
        self._folded = text.casefold()
        self._words = f" {' '.join(words(text))} "
        self._apart = f" {' '.join(words(_HUMP.sub(' ', text)))} "

    def names(self, name: str) -> str:
        """How a name is named; empty if it is not."""
        if len(name) >= _SHORTEST and any(self._stands_alone(name.casefold())):
            return "as written"
        parts = words(_HUMP.sub(" ", name))
        run = f" {' '.join(parts)} "
        return "by its words" if len(parts) > 1 and (run in self._words or run in self._apart) else ""

    def _stands_alone(self, name: str) -> Iterator[bool]:
        start = self._folded.find(name)
        while start >= 0:
            end = start + len(name)
            before, after = self._folded[start - 1 : start], self._folded[end : end + 1]
            if not (before.isalnum() and name[0].isalnum()) and not (after.isalnum() and name[-1].isalnum()):
                yield True
            start = self._folded.find(name, start + 1)
