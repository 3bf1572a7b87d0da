"""Queries: what analysis makes of a batch of requests, and what every later step reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray, frozen, owners, starts
from ctxbench.core.notes import Note
from ctxbench.core.requests import Batch


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
        notes: what the analysis could not do as it was asked to.
    """

    batch: Batch
    start: IntArray
    text: tuple[str, ...]
    weight: FloatArray
    kind: IntArray
    keywords: tuple[tuple[str, ...], ...]
    intent: tuple[Mapping[str, Any] | None, ...]
    plan: tuple[Mapping[str, Any] | None, ...]
    notes: tuple[Note, ...] = ()

    @classmethod
    def of_chunks(
        cls,
        batch: Batch,
        chunks: Sequence[Sequence[str]],
        *,
        weights: Sequence[Sequence[float]] | None = None,
        kind: ChunkKind = ChunkKind.TEXT,
    ) -> Query:
        """Make a query of chunks of one kind, one sequence a request; of weight 1 unless `weights` says otherwise."""
        texts = tuple(text for row in chunks for text in row)
        start = starts([len(row) for row in chunks])
        weight = np.array([1.0] * len(texts) if weights is None else [w for row in weights for w in row], np.float64)
        kinds = np.full(len(texts), kind, dtype=np.int64)
        none = (None,) * len(batch)
        return cls(batch, frozen(start), texts, frozen(weight), frozen(kinds), ((),) * len(batch), none, none)

    @cached_property
    def distinct(self) -> tuple[Query, IntArray]:
        """The query without chunks that repeat an earlier one of their request at the same weight.

        A search by the best pair finds the same with it, however often a request says the same.

        Returns:
            The query, and the place that each of its chunks has within its request here, shape (n_chunks,).
        """
        request, seen = owners(self.start).tolist(), set()
        kept = np.zeros(len(self.text), dtype=np.bool_)
        for chunk, one in enumerate(zip(request, self.text, self.weight.tolist(), strict=True)):
            if one not in seen:
                seen.add(one)
                kept[chunk] = True
        rows = np.flatnonzero(kept)
        place = rows - self.start[owners(self.start)[rows]]
        if kept.all():
            return self, place
        start = np.append(0, np.cumsum(kept))[self.start].astype(np.int64)
        text = tuple(self.text[row] for row in rows.tolist())
        return replace(self, start=start, text=text, weight=self.weight[rows], kind=self.kind[rows]), place

    def chunks(self, request: int) -> tuple[str, ...]:
        """The chunks of one request."""
        return self.text[self.start[request] : self.start[request + 1]]


def together(queries: Sequence[Query]) -> Query:
    """Put the chunks of several analyses of one batch together, by request, in the order of the analyses.

    Keywords are joined without repeats; of intent and plan the first that is there counts.
    """
    first = queries[0]
    n = len(first.batch)
    request = np.concatenate([owners(query.start) for query in queries])
    by_request = np.argsort(request, kind="stable")
    text = [chunk for query in queries for chunk in query.text]
    start = starts(np.bincount(request, minlength=n))
    weight = np.concatenate([query.weight for query in queries])[by_request]
    kind = np.concatenate([query.kind for query in queries])[by_request]
    return Query(
        batch=first.batch,
        start=frozen(start),
        text=tuple(text[place] for place in by_request.tolist()),
        weight=frozen(weight),
        kind=frozen(kind),
        keywords=tuple(tuple(dict.fromkeys(w for q in queries for w in q.keywords[row])) for row in range(n)),
        intent=tuple(next((q.intent[row] for q in queries if q.intent[row] is not None), None) for row in range(n)),
        plan=tuple(next((q.plan[row] for q in queries if q.plan[row] is not None), None) for row in range(n)),
        notes=tuple(dict.fromkeys(note for query in queries for note in query.notes)),
    )
