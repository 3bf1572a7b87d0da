"""Rank by what a file is for: documentation, what programs write, and tests beside the code itself."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.core.arrays import IntArray
from ctxbench.core.candidates import Candidates, rescored
from ctxbench.core.errors import ParameterError, check_range
from ctxbench.core.items import TEXT_FIELDS, Item
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy
from ctxbench.index.code.path_kinds import is_document_path, is_made_file, is_made_text, is_test_path
from ctxbench.index.item_paths import file_path, item_paths
from ctxbench.index.path_names import named_paths
from ctxbench.index.versions import row_over

_CODE, _DOCUMENT, _MADE, _TEST = range(4)
_ASKS_DOCUMENTS = re.compile(
    r"\b(?:docs|documentation|document(?:s|ed|ing)?|readmes?|changelogs?|tutorials?|guides?)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class FileKinds(Strategy):
    """Multiply the score of files, and of definitions in them, by a factor for what the file is for.

    Attributes:
        documents: the factor of what people alone read: documentation, changelogs, the licence; 0 to 10. It is 1 for a
            request that speaks of documentation.
        made: that of what a program writes: lock files and generated ones, 0 to 10.
        tests: that of tests and what they read, 0 to 10.

    What a file is for, its path tells, of generated files their first lines, too. A file of several kinds is `made`
    before `documents` before `tests`. A file that the request names, and what is no file, stay as they are. Behind
    scores >= 0; another is an error. `chunk_rank` becomes the place in the new order. Empty in, empty out. Cost: linear
    in the rows. Source: ours.
    """

    documents: float = 1.0
    made: float = 1.0
    tests: float = 1.0

    def __post_init__(self) -> None:
        for name in ("documents", "made", "tests"):
            check_range(name, getattr(self, name), 0.0, 10.0)

    @property
    def off(self) -> bool:
        """Whether every factor is 1."""
        return self.documents == self.made == self.tests == 1.0

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Order anew.

        Raises:
            ParameterError: a score is below 0.
        """
        if self.off:
            return candidates
        searched = candidates.tier > 0
        if bool((candidates.score[searched] < 0).any()):
            lowest = float(candidates.score[searched].min())
            raise ParameterError(f"file_kinds needs scores of 0 or more, got {lowest:g}; put `weighted` in front of it")
        batch = query.batch
        item = candidates.item
        over = TEXT_FIELDS  # more than kinds need, but their hash is made for tokens, too
        kind = row_over(batch.catalog, resources, "kinds of files", over=over, make=_kinds_of, items=item)[item]
        factor = np.array([1.0, self.documents, self.made, self.tests])[kind]
        paths = item_paths(batch.catalog, resources)
        for at, request in enumerate(batch.requests):
            rows = candidates.rows(at)
            if _ASKS_DOCUMENTS.search(request.text):
                factor[rows][kind[rows] == _DOCUMENT] = 1.0
            named = np.zeros(len(paths.path.names), dtype=np.float64)
            named[named_paths(request.text, paths.ends, paths.visible_paths(batch.visible[at]))] = 1.0
            factor[rows][paths.by_item(named)[candidates.item[rows]] > 0] = 1.0
        return rescored(candidates, candidates.score * factor)


def _kinds_of(items: Sequence[Item]) -> IntArray:
    return np.array([_kind_of(item) for item in items], dtype=np.int64)


def _kind_of(item: Item) -> int:
    path = file_path(item)
    if path is None:
        return _CODE
    return _MADE if is_made_text(item.text) else _kind_of_path(path)


@functools.lru_cache(maxsize=1 << 16)  # a file has a hundred definitions
def _kind_of_path(path: str) -> int:
    if is_made_file(path):
        return _MADE
    return _DOCUMENT if is_document_path(path) else _TEST if is_test_path(path) else _CODE
