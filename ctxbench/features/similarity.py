"""Features of similarity: of the request as a whole, and of each of its sentences on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ctxbench.core.arrays import FloatArray
from ctxbench.features.found import Found, log1p, places

RANK = 60  # k of reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009)


@dataclass(frozen=True)
class Similarity:
    """Cosine similarity of the request's best chunk and the item's best chunk.

    * `score`: in [-1, 1]; `margin`: how far below the best of the request, >= 0; `rank`: log(1 + how many are better).

    All 0 for a request without chunks. Source: the documents, "Search Implementation" (max pooling).
    """

    columns: ClassVar[tuple[str, ...]] = ("score", "margin", "rank")
    uses: ClassVar[tuple[str, ...]] = ("embedder",)

    def __call__(self, found: Found) -> FloatArray:
        """The columns, shape (n_found, 3)."""
        out = np.zeros((len(found), len(self.columns)), dtype=np.float64)
        for request, span in found.spans():
            if request in found.similarity:
                out[span] = standing(found.similarity[request].max(axis=0))
        return out


@dataclass(frozen=True)
class Retrieved:
    """The score of retrieval.

    * `score`: as it is; `margin`: how far below the best of the request, >= 0; `rank`: log(1 + how many are better).
    """

    columns: ClassVar[tuple[str, ...]] = ("score", "margin", "rank")
    uses: ClassVar[tuple[str, ...]] = ()

    def __call__(self, found: Found) -> FloatArray:
        """The columns, shape (n_found, 3)."""
        out = np.zeros((len(found), len(self.columns)), dtype=np.float64)
        for _, span in found.spans():
            out[span] = standing(found.score[span])
        return out


def standing(score: FloatArray) -> FloatArray:
    """Score, margin to the best and log rank of the items of one request, shape (n_items, 3)."""
    return np.stack([score, score.max() - score, log1p(places(score))], axis=1)


@dataclass(frozen=True)
class Sentence:
    """How the item stands for the sentence (chunk) of the request that it suits best, among what was found.

    * `margin`: the smallest distance to a sentence's best similarity, >= 0.
    * `rank`: log(1 + the best place by similarity).
    * `bm25_share`: the largest share of a sentence's best BM25, in [0, 1].
    * `bm25_rank`: log(1 + the best place by BM25); an item that shares no word with a sentence has the last one.
    * `fusion`: the largest over sentences of 61 / (60 + rank) by similarity and, where a word is shared, the same by
      BM25, added up; in (0, 2].

    All 0 for a request without chunks. Source: reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009).
    """

    columns: ClassVar[tuple[str, ...]] = ("margin", "rank", "bm25_share", "bm25_rank", "fusion")
    uses: ClassVar[tuple[str, ...]] = ("embedder",)

    def __call__(self, found: Found) -> FloatArray:
        """The columns, shape (n_found, 5)."""
        out = np.zeros((len(found), len(self.columns)), dtype=np.float64)
        for request, span in found.spans():
            if request in found.similarity:
                parts = np.stack([by_sentence(*part) for part in found.sentences(request, span)])
                out[span] = np.where(_LEAST, parts.min(axis=0), parts.max(axis=0))
        return out


_LEAST = np.array([True, True, False, True, False])  # which columns of `Sentence` are the least over sentences


def by_sentence(similarity: FloatArray, bm25: FloatArray) -> FloatArray:
    """The columns of `Sentence` over some sentences of one request, shape (n_items, 5), from (n_sentences, n_items)."""
    near, shares = similarity.max(axis=1, keepdims=True) - similarity, bm25 > 0
    most = bm25.max(axis=1, keepdims=True)
    share = np.divide(bm25, most, out=np.zeros_like(bm25), where=most > 0)
    place, word_place = places(similarity), places(bm25)
    last = np.where(shares, word_place, bm25.shape[1])
    fusion = (RANK + 1.0) / (RANK + 1 + place) + np.where(shares, (RANK + 1.0) / (RANK + 1 + word_place), 0.0)
    columns = [near.min(axis=0), log1p(place.min(axis=0)), share.max(axis=0), log1p(last.min(axis=0))]
    return np.stack([*columns, fusion.max(axis=0)], axis=1)
