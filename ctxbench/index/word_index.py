"""Which items hold a word, and scores of items as sums over the words that are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray, firsts
from ctxbench.core.items import Catalog
from ctxbench.index.kept_words import ItemReader, read_words
from ctxbench.index.occurrences import CatalogWords


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
        self._put(*read_words(catalog, self._reader()))

    def extended(self, catalog: Catalog) -> Self:
        """The index of a catalog that begins with the items of this one; only what was added is split into words."""
        before = self._length.shape[1]
        words, length = read_words(catalog[before:], self._reader())
        return copy(self)._put(self._words.extended(words, before), np.concatenate([self._length, length], axis=1))  # noqa: SLF001 - of this class

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
            out[self._words.of(word)[0]] = True
        return out

    @abstractmethod
    def _reader(self) -> ItemReader:
        """How items are read as words."""

    @abstractmethod
    def _mean_length(self, length: FloatArray) -> FloatArray:
        """The mean length of each field of some items, shape (n_fields,)."""

    @abstractmethod
    def _weighed(self, item: IntArray, field: IntArray, count: IntArray, statistics: Statistics) -> Added:
        """What a word adds, by the items and fields that it stands in and how often, shape (n_rows,), n_rows >= 1."""

    def _put(self, words: CatalogWords, length: FloatArray) -> Self:
        self._words, self._length = words, length
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
        if (added := statistics.added.get(word)) is None:
            item, field, count = (part.astype(np.int64) for part in self._words.of(word))
            if statistics.counted is not None:
                is_counted = statistics.counted[item]
                item, field, count = item[is_counted], field[is_counted], count[is_counted]
            added = self._weighed(item, field, count, statistics) if len(item) else Added(item, np.zeros(0))
            statistics.added[word] = added
        return added


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
