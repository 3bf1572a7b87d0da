"""Search of files by their words and trigrams, in a text index: candidates are the best of what matches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import ParameterError, check_range, suggest
from ctxbench.core.items import ITEM_TYPES, Catalog
from ctxbench.core.query import Query
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy
from ctxbench.index.ranked import ranked_by
from ctxbench.index.text_index import TextIndex, rows_of


@dataclass(frozen=True, kw_only=True)
class _InTextIndex(Strategy):
    """What both searches have: a text index, and the types of items that they find."""

    n: int
    index: Literal["fts5", "postgres"] = "fts5"
    types: tuple[str, ...] = ("file",)

    def __post_init__(self) -> None:
        check_range("n", self.n, 0)
        if not self.types:
            raise ParameterError("types must name at least one type of item, for example file")
        for item_type in self.types:
            if item_type not in ITEM_TYPES:
                raise ParameterError(f"no item type is called {item_type!r}{suggest(item_type, ITEM_TYPES)}")

    @property
    def uses(self) -> tuple[str, ...]:
        """The text index."""
        return (f"text_index:{self.index}",)

    @property
    def depth(self) -> int:
        """How many are found."""
        return self.n

    def check(self, catalog: Catalog, resources: Resources) -> None:
        """Open the index, so that an error is raised before anything runs.

        Raises:
            TextIndexError: it cannot be had.
        """
        resources.get(*self.uses)

    def _search(
        self, query: Query, resources: Resources, score: Callable[[TextIndex, int, IntArray], FloatArray]
    ) -> Candidates:
        """The best of what a request may be offered, by scores among all that it may see."""
        batch = query.batch
        if not self.n:
            return Candidates.empty(len(batch))
        rows, index = rows_of(batch.catalog, resources, self.uses[0], self.types), resources.get(*self.uses)
        typed = batch.catalog.facts.type.are_any(self.types)
        scores, masks = [], []
        for request, (visible, eligible) in enumerate(zip(batch.visible, batch.eligible, strict=True)):
            mask: BoolArray = visible & typed
            row = np.zeros(len(batch.catalog))
            row[mask] = score(index, request, rows[mask])
            scores.append(row)
            masks.append(eligible & (row > 0))
        return ranked_by(scores, masks, depth=self.n)


@dataclass(frozen=True, kw_only=True)
class FullText(_InTextIndex):
    """Full-text search: files that hold words of a request in path or content, English endings taken off.

    Attributes:
        n: how many items are found for a request; 0 = none.
        words: `any`, an item must hold one of them, or `all`.
        of: which words, those of the request's chunks, `text`, or the `keywords` that the analysis found.
        index: `fts5`, of SQLite, in memory, or `postgres`, in the database that `CTXBENCH_POSTGRES` names (extra
            `postgres`; version 12 or newer, with pg_trgm).
        types: of the items that are searched.

    Words are split at whatever is no letter, digit or mark; a word of several parts, such as `config.yaml`, is found
    where these stand side by side. English function words are left out, so a request of these alone finds nothing. By
    `fts5` the score is BM25, in which a word in the path counts ten times, by `postgres` `ts_rank`, in which it weighs
    1.0 to 0.1. Only items that a request may see are counted, so that no others move a score. The path is the title,
    else the name. Each item counts as one chunk. Cost: linear in the items that hold a word, which `fts5` keeps for the
    words asked last; an item is indexed once. Source: document 002, `searchContent` and `searchByKeywords`.
    """

    n: int = 10
    words: Literal["any", "all"] = "any"
    of: Literal["text", "keywords"] = "text"

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Search for the words of every request."""

        def score(index: TextIndex, request: int, rows: IntArray) -> FloatArray:
            words = query.keywords[request] if self.of == "keywords" else " ".join(query.chunks(request)).split()
            return index.scores(words, rows, match_all=self.words == "all")

        return self._search(query, resources, score)


@dataclass(frozen=True, kw_only=True)
class Similar(_InTextIndex):
    """Fuzzy search: files whose path or content shares many trigrams with a request's text.

    Attributes:
        n: how many items are found for a request; 0 = none.
        threshold: only items that are more similar than this are found, 0 to 1.
        measure: of the path, `similarity`, the share of trigrams that both have of those that either has; or
            `word_similarity`, that of the path to the part of the text that is most like it. For contents it is always
            the first.
        index: `fts5`, which counts trigrams in this process, or `postgres`, by pg_trgm; as of `full_text`.
        types: of the items that are searched.

    The greater similarity of path and content is the score. A sentence is seldom similar to a path, and a long
    content never to a short text: one of more than |text| / threshold trigrams is not compared. A request without a
    word finds nothing. The path is the title, else the name. Each item counts as one chunk. Cost: linear in the
    trigrams of paths and of contents up to 2,000 characters; `postgres` reads every path. Source: document 002,
    `fuzzySearch`; pg_trgm.
    """

    n: int = 5
    threshold: float = 0.3
    measure: Literal["similarity", "word_similarity"] = "similarity"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("threshold", self.threshold, 0, 1)

    def __call__(self, query: Query, resources: Resources) -> Candidates:
        """Compare the chunks of every request, put together, with the items."""

        def score(index: TextIndex, request: int, rows: IntArray) -> FloatArray:
            text = " ".join(query.chunks(request))
            return index.similar(text, rows, measure=self.measure, threshold=self.threshold)

        return self._search(query, resources, score)
