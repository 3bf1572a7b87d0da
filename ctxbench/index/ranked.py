"""Candidates from a score for every item, or from the chunks that were found: what retrievers end with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.index.dense import ChunkMatrix, Hits

DEPTH = 100  # items that a retriever finds for a request, unless told otherwise


def ranked_by(scores: Sequence[FloatArray], found: Iterable[BoolArray], *, depth: int) -> Candidates:
    """Candidates from a score for every item: the best `depth` of those found, each one chunk.

    Args:
        scores: by request, shape (n_items,).
        found: by request, shape (n_items,); only these are candidates.
        depth: items kept a request.
    """
    items, ranks = [], []
    for score, mask in zip(scores, found, strict=True):
        held = np.flatnonzero(mask)
        if 0 < depth < len(held):  # the rest need not be put in order
            held = held[score[held] >= np.partition(score[held], len(held) - depth)[len(held) - depth]]
        best = held[np.lexsort((held, -score[held]))][:depth]
        items.append(best)
        ranks.append(np.arange(len(best), dtype=np.int64))
    if not items:
        return Candidates.empty(0)
    request = np.repeat(np.arange(len(items), dtype=np.int64), [len(row) for row in items])
    return Candidates.build(
        len(items),
        request,
        np.concatenate(items),
        score=np.concatenate([score[row] for score, row in zip(scores, items, strict=True)]),
        chunk_rank=np.concatenate(ranks),
        item_chunk=np.zeros(len(request), dtype=np.int64),
    )


def of_hits(hits: Sequence[Hits], places: Sequence[IntArray], matrix: ChunkMatrix) -> Candidates:
    """Candidates of some hits of each request, by their places, best first, one an item."""
    kept = list(zip(hits, places, strict=True))
    row = np.concatenate([hit.row[place] for hit, place in kept])
    return Candidates.build(
        len(hits),
        np.repeat(np.arange(len(hits), dtype=np.int64), [len(place) for place in places]),
        matrix.item[row],
        score=np.concatenate([hit.score[place] for hit, place in kept]),
        chunk_rank=np.concatenate(places),
        query_chunk=np.concatenate([hit.query_chunk[place] for hit, place in kept]),
        item_chunk=matrix.ordinal[row],
    )
