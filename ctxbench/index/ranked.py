"""Candidates from a score for every item: what retrievers that score a whole catalog end with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray
from ctxbench.core.candidates import Candidates

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
