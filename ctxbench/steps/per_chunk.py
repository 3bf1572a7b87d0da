"""Minimum per query chunk: a request of several topics gets something for each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ctxbench.core.arrays import BoolArray, IntArray, firsts
from ctxbench.core.candidates import Candidates
from ctxbench.core.errors import ParameterError, check_range
from ctxbench.core.query import Query
from ctxbench.core.rules import Rule
from ctxbench.core.stages import Resources
from ctxbench.core.strategy import Strategy


@dataclass(frozen=True)
class PerChunk(Strategy):
    """Promote the best items of each query chunk until `minimum` are offered for it.

    Attributes:
        minimum: items offered for each query chunk, >= 0, as far as it has so many.
        above: only items that score more than this are promoted; any number.
        displace: True: what is promoted displaces the last of the ranking, so that as many items are offered as
            before; False: it is offered beyond them.

    An item counts for the query chunk that gave its best score. It is promoted whichever rule had kept it out, so this
    step stands behind the cut that it corrects, and in front of an abstention. To displace never leaves another
    chunk below its minimum; where there is nothing left to displace no more is promoted, the chunks with the fewest
    items first. Only what the search found counts, is promoted and displaced; items without a query chunk (those of
    lexical retrievers) are never promoted, and displaced first from the end of the ranking like any other. Empty in,
    empty out. Cost: a sort of the candidates. Source: the documents, "Query Chunking" (minimum per query chunk).
    """

    minimum: int = 1
    above: float = 0.0
    displace: bool = False
    promotes: ClassVar[bool] = True
    rule_words: ClassVar[Mapping[str, str]] = {
        "displaced": "displaced by items that bring each query chunk to minimum={minimum}"
    }

    def __post_init__(self) -> None:
        check_range("minimum", self.minimum, 0)
        if not math.isfinite(self.above):
            raise ParameterError(f"above must be a finite number, got {self.above}")

    @property
    def thresholds(self) -> dict[str, dict[str, float]]:
        """The score above which an item may be promoted; 0, which the usual cuts have too, is not worth a line."""
        return {"score": {"above": self.above}} if self.above > 0 else {}

    def __call__(self, query: Query, candidates: Candidates, resources: Resources) -> Candidates:
        """Promote, and mark what is displaced."""
        found = candidates.ranked
        own = candidates.via_item < 0  # else the chunk is one of the item that led here, not of the request
        of_chunk = found & own & (candidates.query_chunk >= 0)
        held, waiting = of_chunk & candidates.chosen, of_chunk & ~candidates.chosen & (candidates.score > self.above)
        has = _counts(candidates, held)
        level = np.where(waiting, has + _place_in_chunk(candidates, waiting), np.iinfo(np.int64).max)
        promoted = waiting & (level < self.minimum)
        if not self.displace:
            return candidates.promoted(promoted)
        spare = found & candidates.chosen & (~of_chunk | (_place_in_chunk(candidates, held) >= self.minimum))
        n_promoted, n_spare = (np.bincount(candidates.request[rows], minlength=candidates.n_requests)
                               for rows in (promoted, spare))  # fmt: skip
        n = np.minimum(n_promoted, n_spare)
        promoted &= _rank(candidates, promoted, level) < n[candidates.request]
        last = np.arange(len(candidates), dtype=np.int64)[::-1].copy()
        displaced = spare & (_rank(candidates, spare, last) < n[candidates.request])
        return candidates.promoted(promoted).marked(displaced, Rule.of("displaced", minimum=self.minimum))


def _counts(table: Candidates, rows: BoolArray) -> IntArray:
    """For every row, how many of `rows` its request has for its query chunk; 0 without a query chunk."""
    code, n = _codes(table)
    counts = np.bincount(code[rows], minlength=n).astype(np.int64)
    return np.where(code >= 0, counts[code], 0) if n else np.zeros(len(table), dtype=np.int64)


def _place_in_chunk(table: Candidates, rows: BoolArray) -> IntArray:
    """The 0-based place of each of `rows` among those of its request and query chunk, in the one order; else -1."""
    code, _ = _codes(table)
    at = np.flatnonzero(rows)
    return _places(at, code[at], at, len(table))


def _rank(table: Candidates, rows: BoolArray, key: IntArray) -> IntArray:
    """The 0-based place of each of `rows` among those of its request by rising `key`, then the one order; else -1."""
    at = np.flatnonzero(rows)
    return _places(at, table.request[at], key[at], len(table))


def _places(at: IntArray, group: IntArray, key: IntArray, n: int) -> IntArray:
    by_key = np.lexsort((at, key, group))
    at, group = at[by_key], group[by_key]
    place = np.arange(len(at), dtype=np.int64)
    out = np.full(n, -1, dtype=np.int64)
    out[at] = place - np.maximum.accumulate(np.where(firsts(group), place, 0))
    return out


def _codes(table: Candidates) -> tuple[IntArray, int]:
    """A number for every request and query chunk, -1 without a query chunk; and how many numbers there are."""
    width = int(table.query_chunk.max(initial=-1)) + 1
    code = np.where(table.query_chunk >= 0, table.request * width + table.query_chunk, -1)
    return code, width * table.n_requests
