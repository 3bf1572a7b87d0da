"""Candidates from a score for every item, or from the chunks that were found: what retrievers end with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.candidates import Candidates
from ctxbench.index.dense import ChunkMatrix, Hits

DEPTH = 100  # items that a retriever finds for a request, unless told otherwise


def ranked_by(scores: Sequence[FloatArray], masks: Iterable[BoolArray], *, depth: int) -> Candidates:
    """Candidates from a score for every item: the best `depth` of the items in its mask, one chunk each.

    Args:
        scores: by request, shape (n_items,).
        masks: by request, shape (n_items,); only these are candidates.
        depth: items kept a request.
    """
    items, ranks = [], []
    for score, mask in zip(scores, masks, strict=True):
        items_allowed = np.flatnonzero(mask)
        if 0 < depth < len(items_allowed):  # the rest need not be put in order
            items_allowed = items_allowed[
                score[items_allowed]
                >= np.partition(score[items_allowed], len(items_allowed) - depth)[len(items_allowed) - depth]
            ]
        best = items_allowed[np.lexsort((items_allowed, -score[items_allowed]))][:depth]
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


def of_hits(hits: Sequence[Hits], positions: Sequence[IntArray], matrix: ChunkMatrix) -> Candidates:
    """Candidates of some hits of each request, by their positions, best first, one per item."""
    selected = list(zip(hits, positions, strict=True))
    row = np.concatenate([hit.row[rows] for hit, rows in selected])
    return Candidates.build(
        len(hits),
        np.repeat(np.arange(len(hits), dtype=np.int64), [len(rows) for rows in positions]),
        matrix.item[row],
        score=np.concatenate([hit.score[rows] for hit, rows in selected]),
        chunk_rank=np.concatenate(positions),
        query_chunk=np.concatenate([hit.query_chunk[rows] for hit, rows in selected]),
        item_chunk=matrix.ordinal[row],
    )
