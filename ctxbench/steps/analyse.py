"""Analysis: what a request is searched with."""

from __future__ import annotations

from dataclasses import dataclass

from ctxbench.errors import ParameterError
from ctxbench.pipeline import Resources
from ctxbench.query import Query
from ctxbench.requests import Batch
from ctxbench.text import CHUNK_LIMIT, js_trim, query_chunks


@dataclass(frozen=True)
class Sentences:
    """One chunk a sentence, by the original engine's rule (`ctxbench.text.query_chunks`).

    Attributes:
        limit: UTF-16 units after which a sentence is cut, >= 1.

    A blank request has no chunk. Cost: linear in the text. Source: the documents, "Query Chunking".
    """

    limit: int = CHUNK_LIMIT

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ParameterError(f"limit must be 1 or more, got {self.limit}")

    def __call__(self, batch: Batch, resources: Resources) -> Query:
        """Chunk the text of every request."""
        return Query.of_chunks(batch, [query_chunks(request.text, limit=self.limit) for request in batch.requests])


@dataclass(frozen=True)
class Whole:
    """The whole text as one chunk; what an embedding model cannot read of it is the model's to cut.

    A blank request has no chunk. Source: the usual practice of dense retrieval.
    """

    def __call__(self, batch: Batch, resources: Resources) -> Query:
        """Take the text of every request."""
        return Query.of_chunks(batch, [[r.text] if js_trim(r.text) else [] for r in batch.requests])
