"""The lexical index over fields: BM25F, whose fields have a weight and a length normalisation each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, owners
from ctxbench.core.items import Catalog, Item
from ctxbench.index.postings import Occurrences, logarithms
from ctxbench.index.words import field_words, name_words, weighted_words


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
        self._weights, self._b, self._k1 = weights, b, k1
        self._score(*self._read(catalog, first=0))

    def extended(self, catalog: Catalog) -> Bm25fIndex:
        """The index of a catalog that begins with the items of this one; only what was added is split into words.

        The values of all words are computed again, as they depend on how many items there are, and how long.
        """
        whole = Bm25fIndex(Catalog(()), weights=self._weights, b=self._b, k1=self._k1)
        before = self._lengths.shape[1]
        occurrences, lengths = whole._read(catalog[before:], first=before)
        whole._score(self._occurrences.extended(occurrences), np.concatenate([self._lengths, lengths], axis=1))
        return whole

    def _read(self, items: Sequence[Item], *, first: int) -> tuple[Occurrences, FloatArray]:
        """The words of some items, the first of them at position `first`, and how many each field has of them.

        Fields without a weight are left out; lengths have the shape (n_fields, n_items).
        """
        names = [name for name, weight in self._weights.items() if weight > 0]
        texts = [[words[name] for name in names] for words in map(field_words, items)]
        place = np.arange(len(texts) * len(names), dtype=np.int64)
        occurrences = Occurrences.of(
            [text for row in texts for text in row], item=first + place // len(names), field=place % len(names)
        )
        lengths = np.array([len(text) for row in texts for text in row], dtype=np.float64)
        return occurrences, np.ascontiguousarray(lengths.reshape(len(texts), len(names)).T)

    def _score(self, occurrences: Occurrences, lengths: FloatArray) -> None:
        """Turn the words of all items and how long each field is into what each word adds to each score."""
        self._occurrences, self._lengths = occurrences, lengths
        shares = np.zeros(lengths.shape, dtype=np.float64)
        named = [(name, weight) for name, weight in self._weights.items() if weight > 0]
        for share, length, (name, weight) in zip(shares, lengths, named, strict=True):
            held = length > 0
            words, b = length[held], self._b[name]
            share[held] = weight / (1.0 - b + b * words / (words.sum() / max(len(words), 1)))
        counts = occurrences.postings(shares)
        n = np.diff(counts.start)
        idf = logarithms(1.0 + (counts.n_items - n + 0.5) / (n + 0.5))[owners(counts.start)]
        self._postings = replace(counts, value=idf * (counts.value / (self._k1 + counts.value)))

    def scores(self, words: Mapping[str, float]) -> FloatArray:
        """Score every item for the words of a query with their weights, shape (n_items,), >= 0."""
        return self._postings.scores(words)

    def shares_word(self, words: Mapping[str, float]) -> BoolArray:
        """Which items hold a word of the query, shape (n_items,)."""
        return self._postings.shares_word(words)


def query_words(chunks: Sequence[str], weights: Sequence[float]) -> dict[str, float]:
    """How often each word stands in the chunks of a request, a chunk's weight for every time.

    Identifiers are split as in names, and count whole too.
    """
    return weighted_words([name_words(chunk) for chunk in chunks], weights)
