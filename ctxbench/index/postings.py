"""Postings: which items hold a word, and what it adds to the score of each. Lexical indexes score by them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray, firsts, owners, starts


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


@dataclass(frozen=True, eq=False)
class Occurrences:
    """Every time that a word stands in an item: by word, then by item, then in the order of its fields.

    Attributes:
        word: the number of every word, in the order of first appearance.
        start: CSR starts by word, shape (n_words + 1,).
        item: catalog position, shape (n_occurrences,).
        field: which field of the item, shape (n_occurrences,).
    """

    word: Mapping[str, int]
    start: IntArray
    item: IntArray
    field: IntArray

    @classmethod
    def of(cls, texts: Sequence[Sequence[str]], *, item: IntArray, field: IntArray) -> Occurrences:
        """The words of some texts.

        Args:
            texts: the words of each text.
            item, field: which item's text each is, and which field of it, shape (n_texts,).
        """
        number: dict[str, int] = {}
        word = np.array([number.setdefault(one, len(number)) for text in texts for one in text], dtype=np.int64)
        text = owners(starts([len(text) for text in texts]))
        order = np.lexsort((field[text], item[text], word))
        text = text[order]
        return cls(number, starts(np.bincount(word, minlength=len(number))), item[text], field[text])

    def extended(self, more: Occurrences) -> Occurrences:
        """These, and those of items that stand behind all items here; equal to what `of` makes of all texts."""
        number = dict(self.word)
        numbers = np.array([number.setdefault(word, len(number)) for word in more.word], dtype=np.int64)
        lengths = np.zeros(len(number), dtype=np.int64)
        lengths[: len(self.word)] = np.diff(self.start)
        ends = starts(lengths)[1:]  # those of a word that is new here stand behind all
        word = numbers[owners(more.start)]
        order = np.argsort(word, kind="stable")
        place = ends[word[order]]
        lengths += np.bincount(word, minlength=len(number))
        item = np.insert(self.item, place, more.item[order])
        return Occurrences(number, starts(lengths), item, np.insert(self.field, place, more.field[order]))

    def postings(self, weight: FloatArray) -> Postings:
        """Postings whose value is the sum over a word's occurrences in an item, in their order.

        Args:
            weight: of an occurrence by its field and item, shape (n_fields, n_items).
        """
        word = owners(self.start)
        new = firsts(word, self.item)
        start = starts(new)
        value = np.bincount(start[1:] - 1, weight[self.field, self.item], minlength=int(start[-1])).astype(np.float64)
        return Postings(weight.shape[1], self.word, start[self.start], self.item[new], value)


def logarithms(values: FloatArray) -> FloatArray:
    """Natural logarithms, shape (n,), each by itself: a vectorised one may differ in the last bit by its place."""
    distinct, place = np.unique(values, return_inverse=True)
    return np.array([math.log(value) for value in distinct.tolist()], dtype=np.float64)[place.reshape(-1)]
