"""The lexical index over fields: BM25F, whose fields have a weight and a length normalisation each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.arrays import BoolArray, FloatArray, IntArray, starts
from ctxbench.index.fields import field_words, name_words
from ctxbench.items import Catalog


@dataclass(frozen=True, eq=False)
class Postings:
    """What each word adds to the score of each item that holds it.

    Attributes:
        word: the number of every word that counts.
        start: CSR starts by word, shape (n_words + 1,).
        item: catalog position, shape (n_postings,), rising within a word.
        value: shape (n_postings,), > 0.
    """

    word: Mapping[str, int]
    start: IntArray
    item: IntArray
    value: FloatArray

    def of(self, word: str) -> slice:
        """The postings of a word; none of one that no item holds."""
        number = self.word.get(word)
        return slice(0, 0) if number is None else slice(int(self.start[number]), int(self.start[number + 1]))


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
        self._n_items = len(catalog)
        fields = [field_words(item) for item in catalog]
        counts: dict[str, dict[int, float]] = {}
        for name, weight in weights.items():
            if weight > 0:
                _count(counts, [row[name] for row in fields], weight=weight, b=b[name])
        self._postings = _postings(counts, n_items=self._n_items, k1=k1)

    def scores(self, words: Mapping[str, float]) -> FloatArray:
        """Score every item for the words of a query with their weights, shape (n_items,), >= 0."""
        scores = np.zeros(self._n_items, dtype=np.float64)
        for word, weight in words.items():
            rows = self._postings.of(word)
            scores[self._postings.item[rows]] += weight * self._postings.value[rows]
        return scores

    def shares_word(self, words: Mapping[str, float]) -> BoolArray:
        """Which items hold a word of the query, shape (n_items,)."""
        shares = np.zeros(self._n_items, dtype=np.bool_)
        for word in words:
            shares[self._postings.item[self._postings.of(word)]] = True
        return shares


def query_words(chunks: Sequence[str], weights: Sequence[float]) -> dict[str, float]:
    """How often each word stands in the chunks of a request, a chunk's weight for every time.

    Identifiers are split as in names; in the order of first appearance, so that sums have one order.
    """
    found: dict[str, float] = {}
    for chunk, weight in zip(chunks, weights, strict=True):
        for word in name_words(chunk):
            found[word] = found.get(word, 0.0) + weight
    return found


def _count(counts: dict[str, dict[int, float]], field: Sequence[Sequence[str]], *, weight: float, b: float) -> None:
    """Add the weighted, normalised counts of one field, given as each item's words, to those of the others."""
    lengths = [len(words) for words in field if words]
    if not lengths:
        return
    mean = sum(lengths) / len(lengths)
    for position, words in enumerate(field):
        share = weight / (1.0 - b + b * len(words) / mean) if words else 0.0
        for word, times in Counter(words).items():
            held = counts.setdefault(word, {})
            held[position] = held.get(position, 0.0) + share * times


def _postings(counts: Mapping[str, Mapping[int, float]], *, n_items: int, k1: float) -> Postings:
    start = starts([len(held) for held in counts.values()])
    pairs = [pair for held in counts.values() for pair in sorted(held.items())]
    item = np.array([position for position, _ in pairs], dtype=np.int64)
    count = np.array([value for _, value in pairs], dtype=np.float64)
    n = np.diff(start)
    idf = np.log(1.0 + (n_items - n + 0.5) / (n + 0.5))
    value = np.repeat(idf, n) * (count / (k1 + count))
    return Postings({word: number for number, word in enumerate(counts)}, start, item, value)
