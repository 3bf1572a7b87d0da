"""The lexical index over fields: BM25F, whose fields have a weight and a length normalisation each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.items import Catalog
from ctxbench.index.fields import field_words
from ctxbench.index.postings import counted, logarithms
from ctxbench.index.words import name_words, weighted_words


class Bm25fIndex:
    """BM25F scores of one catalog.

    A word that stands tf times in a field of weight w adds w tf / L to the item's count of it, with
    L = 1 - b + b * words in the field / their mean over the items that have the field. Of the counts summed over
    fields, c, comes the score: the sum over the query's words of idf * c / (k1 + c), with
    idf = ln(1 + (N - n + 0.5) / (n + 0.5)), N items and n of them with the word in any field of weight above 0.
    With one field of weight 1 this is BM25 as Lucene has it.

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009, section 3.6.
    """

    def __init__(self, catalog: Catalog, *, weights: Mapping[str, float], b: Mapping[str, float], k1: float) -> None:
        fields = [field_words(item) for item in catalog]
        texts: list[Sequence[str]] = []
        held: list[IntArray] = [np.empty(0, dtype=np.int64)]
        shares: list[FloatArray] = [np.empty(0, dtype=np.float64)]
        for name, weight in weights.items():
            if weight > 0:
                own = np.array([place for place, row in enumerate(fields) if row[name]], dtype=np.int64)
                texts += [fields[place][name] for place in own.tolist()]
                held.append(own)
                shares.append(weight / _norm([len(fields[place][name]) for place in own.tolist()], b=b[name]))
        counts = counted(texts, item=np.concatenate(held), weight=np.concatenate(shares), n_items=len(catalog))
        n = counts.held()
        idf = counts.by_posting(logarithms(1.0 + (len(catalog) - n + 0.5) / (n + 0.5)))
        self._postings = replace(counts, value=idf * (counts.value / (k1 + counts.value)))

    def scores(self, words: Mapping[str, float]) -> FloatArray:
        """Score every item for the words of a query with their weights, shape (n_items,), >= 0."""
        return self._postings.scores(words)

    def shares_word(self, words: Mapping[str, float]) -> BoolArray:
        """Which items hold a word of the query, shape (n_items,)."""
        return self._postings.shares_word(words)


def _norm(lengths: Sequence[int], *, b: float) -> FloatArray:
    """The length normalisation of the texts of a field, by their words; the mean is over them."""
    length = np.array(lengths, dtype=np.float64)
    return 1.0 - b + b * length / (length.sum() / len(length)) if len(length) else length


def query_words(chunks: Sequence[str], weights: Sequence[float]) -> dict[str, float]:
    """How often each word stands in the chunks of a request, a chunk's weight for every time.

    Identifiers are split as in names, and count whole too.
    """
    return weighted_words([name_words(chunk) for chunk in chunks], weights)
