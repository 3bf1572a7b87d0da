"""Which items hold a word, and scores of items as sums over the words that are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray, firsts, owners, starts
from ctxbench.core.items import Catalog, Item


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
    def of_texts(cls, texts: Sequence[Sequence[str]], *, item: IntArray, field: IntArray) -> Occurrences:
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
        """These, and those of items that stand behind all items here; equal to what `of_texts` makes of all texts."""
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

    def of(self, word: str) -> slice:
        """The occurrences of a word; none of one that no item holds."""
        number = self.word.get(word)
        return slice(0, 0) if number is None else slice(int(self.start[number]), int(self.start[number + 1]))


@dataclass(frozen=True, eq=False)
class Statistics:
    """What a score depends on beside the item: over which items words are counted, and how long these are.

    Attributes:
        n_items: how many items are counted.
        mean_length: words of each field, on average over these, shape (n_fields,); 0 where there are none.
        counted: which items these are, shape (n_items_of_catalog,); None = all.
        added: by word, what was made of it already.
    """

    n_items: int
    mean_length: FloatArray
    counted: BoolArray | None = None
    added: dict[str, Added] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Added:
    """What a word adds to scores.

    Attributes:
        item: the items that hold it, rising, shape (n,).
        value: what it adds to each, shape (n,), >= 0.
        absent: what it adds to every item, >= 0.
    """

    item: IntArray
    value: FloatArray
    absent: float = 0.0


class WordIndex(ABC):
    """Scores of a catalog's items as sums over words, each by how often it stands in the item and how rare it is.

    How rare a word is, and how long an item is beside the others, is counted over all items, or over those that a
    request may see. What a word adds is made when it is first asked for, and kept for the items that were counted last.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._put(*self._read(catalog, first=0))

    def extended(self, catalog: Catalog) -> Self:
        """The index of a catalog that begins with the items of this one; only what was added is split into words."""
        before = self._length.shape[1]
        occurrences, length = self._read(catalog[before:], first=before)
        length = np.concatenate([self._length, length], axis=1)
        return copy(self)._put(self._occurrences.extended(occurrences), length)  # noqa: SLF001 - of this class

    def scores(self, words: Mapping[str, float], *, counted: BoolArray | None = None) -> FloatArray:
        """Score every item for words with their weights.

        Args:
            words: weights by word; added in their order.
            counted: the items that words are counted over, shape (n_items,), never changed afterwards; None = all.
                The scores of others are of no use then.

        Returns:
            Shape (n_items,), >= 0.
        """
        statistics, absent = self._statistics(counted), 0.0
        out: FloatArray = np.zeros(self._length.shape[1], dtype=np.float64)
        for word, weight in words.items():
            added = self._added(word, statistics)
            out[added.item] += weight * added.value
            absent += weight * added.absent
        return np.add(out, absent)

    def shares_word(self, words: Mapping[str, float]) -> BoolArray:
        """Which items hold any of the words, shape (n_items,)."""
        out = np.zeros(self._length.shape[1], dtype=np.bool_)
        for word in words:
            out[self._occurrences.item[self._occurrences.of(word)]] = True
        return out

    @abstractmethod
    def _read(self, items: Sequence[Item], *, first: int) -> tuple[Occurrences, FloatArray]:
        """The words of some items, the first of them at position `first`, and how many each field of each has.

        Lengths have the shape (n_fields, n_items).
        """

    @abstractmethod
    def _mean_length(self, length: FloatArray) -> FloatArray:
        """The mean length of each field of some items, shape (n_fields,)."""

    @abstractmethod
    def _weighed(self, item: IntArray, field: IntArray, statistics: Statistics) -> Added:
        """What a word adds, by the items and fields that it stands in, shape (n_occurrences,) >= 1."""

    def _put(self, occurrences: Occurrences, length: FloatArray) -> Self:
        self._occurrences, self._length = occurrences, length
        self._over_all = self._over_last = Statistics(length.shape[1], self._mean_length(length))
        return self

    def _statistics(self, counted: BoolArray | None) -> Statistics:
        if counted is None:
            return self._over_all
        last = self._over_last
        if last.counted is not counted:  # by identity: the requests of a batch share their masks
            length = self._length[:, counted]
            self._over_last = last = Statistics(length.shape[1], self._mean_length(length), counted)
        return last

    def _added(self, word: str, statistics: Statistics) -> Added:
        if (known := statistics.added.get(word)) is None:
            rows = self._occurrences.of(word)
            item, field = self._occurrences.item[rows], self._occurrences.field[rows]
            if statistics.counted is not None:
                kept = statistics.counted[item]
                item, field = item[kept], field[kept]
            known = self._weighed(item, field, statistics) if len(item) else Added(item, np.zeros(0))
            statistics.added[word] = known
        return known


def by_item(item: IntArray, weight: FloatArray) -> tuple[IntArray, FloatArray]:
    """The sums of weights of the same item, in their order.

    Args:
        item: rising, shape (n,).
        weight: shape (n,).

    Returns:
        The distinct items, and the sum of each, shape (n_distinct,).
    """
    new = firsts(item)
    return item[new], np.bincount(np.cumsum(new) - 1, weight).astype(np.float64)
