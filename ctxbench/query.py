"""Queries: what analysis makes of a batch of requests, and what every later step reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ctxbench.arrays import FloatArray, IntArray, frozen, starts
from ctxbench.requests import Batch


class ChunkKind(IntEnum):
    """What a query chunk was made from."""

    TEXT = 0
    HISTORY = 1
    TOOL_RESULT = 2


@dataclass(frozen=True, eq=False)
class Query:
    """An analysed batch.

    Attributes:
        batch: the requests.
        start: CSR starts of chunks by request, shape (n_requests + 1,).
        text: the chunks; a request may have none.
        weight: shape (n_chunks,), > 0; 1 unless a strategy says otherwise.
        kind: shape (n_chunks,), `ChunkKind`.
        keywords: by request; empty unless the analysis finds keywords.
        intent, plan: by request, as JSON; None unless the analysis makes them.
    """

    batch: Batch
    start: IntArray
    text: tuple[str, ...]
    weight: FloatArray
    kind: IntArray
    keywords: tuple[tuple[str, ...], ...]
    intent: tuple[Mapping[str, Any] | None, ...]
    plan: tuple[Mapping[str, Any] | None, ...]

    @classmethod
    def of_chunks(cls, batch: Batch, chunks: Sequence[Sequence[str]]) -> Query:
        """Make a query of text chunks of weight 1, one sequence a request."""
        texts = tuple(text for row in chunks for text in row)
        start = starts([len(row) for row in chunks])
        weight = np.ones(len(texts), dtype=np.float64)
        kind = np.full(len(texts), ChunkKind.TEXT, dtype=np.int64)
        for array in (start, weight, kind):
            frozen(array)
        none = (None,) * len(batch)
        return cls(batch, start, texts, weight, kind, ((),) * len(batch), none, none)

    def chunks(self, request: int) -> tuple[str, ...]:
        """The chunks of one request."""
        return self.text[self.start[request] : self.start[request + 1]]
