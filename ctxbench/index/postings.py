"""Postings: which items hold a word, and what it adds to the score of each. Lexical indexes score by them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray, owners, starts


@dataclass(frozen=True, eq=False)
class Postings:
    """A value for every word and item that holds it.

    Attributes:
        n_items: of the catalog.
        word: the number of every word.
        start: CSR starts by word, shape (n_words + 1,).
        item: catalog position, shape (n_postings,), rising within a word.
        value: shape (n_postings,).
    """

    n_items: int
    word: Mapping[str, int]
    start: IntArray
    item: IntArray
    value: FloatArray

    def of(self, word: str) -> slice:
        """The postings of a word; none of one that no item holds."""
        number = self.word.get(word)
        return slice(0, 0) if number is None else slice(int(self.start[number]), int(self.start[number + 1]))

    def scores(self, words: Mapping[str, float]) -> FloatArray:
        """The sum over words of weight times value, shape (n_items,); words are added in their order."""
        scores: FloatArray = np.zeros(self.n_items, dtype=np.float64)
        for word, weight in words.items():
            rows = self.of(word)
            scores[self.item[rows]] += weight * self.value[rows]
        return scores

    def shares_word(self, words: Mapping[str, float]) -> BoolArray:
        """Which items hold any of the words, shape (n_items,)."""
        shares = np.zeros(self.n_items, dtype=np.bool_)
        for word in words:
            shares[self.item[self.of(word)]] = True
        return shares

    def held(self) -> IntArray:
        """How many items hold each word, shape (n_words,)."""
        return np.diff(self.start)

    def by_posting(self, by_word: FloatArray) -> FloatArray:
        """A value a word, shape (n_words,), for each of its postings, shape (n_postings,)."""
        return by_word[owners(self.start)]


def counted(texts: Sequence[Sequence[str]], *, item: IntArray, weight: FloatArray, n_items: int) -> Postings:
    """Postings whose value is how often a word stands in an item, each time by the weight of the text it stands in.

    Args:
        texts: the words of each text.
        item: whose text each is, shape (n_texts,), rising among the texts of one field.
        weight: of every word of each text, shape (n_texts,).
        n_items: of the catalog.
    """
    number: dict[str, int] = {}
    word = np.array([number.setdefault(one, len(number)) for text in texts for one in text], dtype=np.int64)
    text = owners(starts([len(text) for text in texts]))
    key, place = np.unique(word * n_items + item[text], return_inverse=True)
    value = np.zeros(len(key), dtype=np.float64)
    np.add.at(value, place.reshape(-1), weight[text])  # in the order of texts, so that sums have one order
    start = np.searchsorted(key, np.arange(len(number) + 1, dtype=np.int64) * n_items).astype(np.int64)
    return Postings(n_items, number, start, (key % max(n_items, 1)).astype(np.int64), value)


def logarithms(values: FloatArray) -> FloatArray:
    """Natural logarithms, shape (n,), each by itself: a vectorised one may differ in the last bit by its place."""
    distinct, place = np.unique(values, return_inverse=True)
    found: FloatArray = np.array([math.log(value) for value in distinct.tolist()], dtype=np.float64)[place.reshape(-1)]
    return found
