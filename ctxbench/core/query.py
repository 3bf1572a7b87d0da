"""Queries: what analysis makes of a batch of requests, and what every later step reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from ctxbench.core.arrays import Float32Array, FloatArray, IntArray, frozen, owners, ranges, starts
from ctxbench.core.errors import ParameterError
from ctxbench.core.notes import Note
from ctxbench.core.requests import Batch

_ROUNDING = 1e-6  # how far the length of a unit vector in float32 may be from 1


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
        request, seen_chunks = owners(self.start).tolist(), set()
        is_first = np.zeros(len(self.text), dtype=np.bool_)
        for chunk, key in enumerate(zip(request, self.text, self.weight.tolist(), strict=True)):
            if key not in seen_chunks:
                seen_chunks.add(key)
                is_first[chunk] = True
        rows = np.flatnonzero(is_first)
        position = rows - self.start[owners(self.start)[rows]]
        if is_first.all():
            return self, position
        start = np.append(0, np.cumsum(is_first))[self.start].astype(np.int64)
        text = tuple(self.text[row] for row in rows.tolist())
        return replace(self, start=start, text=text, weight=self.weight[rows], kind=self.kind[rows]), position

    def select_requests(self, requests: IntArray) -> Query:
        """The query of some of its requests, shape (n,), in their order; one may stand several times."""
        batch, indices = self.batch, requests.tolist()
        session_length, length = np.diff(batch.session_start)[requests], np.diff(self.start)[requests]
        session, chunks = ranges(batch.session_start[requests], session_length), ranges(self.start[requests], length)
        by_request = {
            name: tuple(getattr(self, name)[index] for index in indices) for name in ("keywords", "intent", "plan")
        }
        return replace(
            self,
            batch=replace(
                batch,
                requests=tuple(batch.requests[index] for index in indices),
                visible=batch.visible.select_requests(requests),
                eligible=batch.eligible.select_requests(requests),
                session_start=frozen(starts(session_length)),
                session_item=frozen(batch.session_item[session]),
                session_mode=frozen(batch.session_mode[session]),
            ),
            start=frozen(starts(length)),
            text=tuple(self.text[chunk] for chunk in chunks.tolist()),
            weight=frozen(self.weight[chunks]),
            kind=frozen(self.kind[chunks]),
            **by_request,
        )

    def chunks(self, request: int) -> tuple[str, ...]:
        """The chunks of one request."""
        return self.text[self.start[request] : self.start[request + 1]]

    def vectors(
        self,
        embed: Callable[[Sequence[str]], Float32Array],
        requests: Iterable[int] | None = None,
        *,
        dimensions: int | None = None,
    ) -> Float32Array:
        """Unit vectors of chunks, shape (n, n_dimensions): that of its request where it brings one, else of the text.

        Args:
            embed: from texts to their unit vectors.
            requests: whose chunks, one request behind the other; None = all.
            dimensions: what the vectors are compared with has this many; None = as many as they have.

        Raises:
            ParameterError: the vector of a request has another size than the others; names the query.
        """
        owned = [
            (text, self.batch.requests[request])
            for request in (range(len(self.batch)) if requests is None else requests)
            for text in self.chunks(request)
        ]
        missing = [index for index, (_, request) in enumerate(owned) if request.vector is None]
        if len(missing) == len(owned):
            return embed([text for text, _ in owned])
        embedded = embed([owned[index][0] for index in missing]) if missing else None
        supplied = {
            index: _unit(request.vector) for index, (_, request) in enumerate(owned) if request.vector is not None
        }
        size = dimensions or len(next(iter(supplied.values())) if embedded is None else embedded[0])
        out: Float32Array = np.empty((len(owned), size), dtype=np.float32)
        if embedded is not None:
            out[missing] = embedded
        for index, vector in supplied.items():
            if len(vector) != size:
                message = f"its vector has {len(vector)} numbers, and those that it is compared with have {size}"
                raise ParameterError(f"query {owned[index][1].id!r}: {message}; both must be of one embedder")
            out[index] = vector
        return out

    def vectors_by_request(
        self,
        embed: Callable[[Sequence[str]], Float32Array],
        requests: Iterable[int],
        *,
        dimensions: int | None = None,
    ) -> dict[int, Float32Array]:
        """The same for each of some requests, shape (n_its_chunks, n_dimensions); all are embedded in one go."""
        requests = list(requests)
        vectors = self.vectors(embed, requests, dimensions=dimensions)
        ends = np.cumsum([len(self.chunks(request)) for request in requests], dtype=np.int64)
        return dict(zip(requests, np.split(vectors, ends[:-1]), strict=True)) if requests else {}


def _unit(vector: Sequence[float]) -> FloatArray:
    """A vector at length 1, shape (n_dimensions,); one that an embedder made keeps its bits."""
    array = np.array(vector, dtype=np.float64)
    if abs(math.hypot(*vector) - 1.0) <= _ROUNDING:
        return array
    array /= np.abs(array).max()  # so that no square is too large or too small for a number
    return np.divide(array, np.linalg.norm(array))


def with_own_vectors(query: Query) -> Query:
    """The query with one chunk, its text, for each request that brings its vector: that is not to be taken apart."""
    has_vector = np.array([request.vector is not None for request in query.batch.requests], dtype=np.bool_)
    if not has_vector.any():
        return query
    mine = has_vector[owners(query.start)]  # chunks that give way
    chunk_index = np.concatenate([np.flatnonzero(~mine), np.full(int(has_vector.sum()), -1)])
    request = np.concatenate([owners(query.start)[~mine], np.flatnonzero(has_vector)])
    by_request = np.argsort(request, kind="stable")
    rows = list(zip(request[by_request].tolist(), chunk_index[by_request].tolist(), strict=True))
    return replace(
        query,
        start=frozen(starts(np.where(has_vector, 1, np.diff(query.start)))),
        text=tuple(query.batch.requests[request].text if chunk < 0 else query.text[chunk] for request, chunk in rows),
        weight=frozen(np.array([1.0 if chunk < 0 else query.weight[chunk] for _, chunk in rows], dtype=np.float64)),
        kind=frozen(np.array([ChunkKind.TEXT if chunk < 0 else query.kind[chunk] for _, chunk in rows], np.int64)),
    )


def whole_texts(batch: Batch) -> Query:
    """Every request's text as one chunk; a blank one has none, unless the request brings its vector."""
    texts = [[request.text] if request.text.strip() else [] for request in batch.requests]
    return with_own_vectors(Query.of_chunks(batch, texts))


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
        text=tuple(text[index] for index in by_request.tolist()),
        weight=frozen(weight),
        kind=frozen(kind),
        keywords=tuple(tuple(dict.fromkeys(w for q in queries for w in q.keywords[row])) for row in range(n)),
        intent=tuple(next((q.intent[row] for q in queries if q.intent[row] is not None), None) for row in range(n)),
        plan=tuple(next((q.plan[row] for q in queries if q.plan[row] is not None), None) for row in range(n)),
        notes=tuple(dict.fromkeys(note for query in queries for note in query.notes)),
    )
