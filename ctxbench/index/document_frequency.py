"""In how many of the texts that a request may see each word stands."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import BoolArray, IntArray, frozen
from ctxbench.core.items import Catalog, Item
from ctxbench.core.stages import Resources
from ctxbench.index.versions import index_over
from ctxbench.index.words import words


class DocumentFrequency:
    """The distinct words of every item's prompt text, and over how many items a word was counted last.

    The requests of a service see nearly the same, each with a time of its own: counts are carried on from the last
    ones by the items that came or went. They are whole numbers, so they are the same whatever was asked before.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        self._number: dict[str, int] = {}  # only ever added to; shared with what extends this
        self._held: list[npt.NDArray[np.int32]] = []
        self._last = np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int64)
        self._add(items)

    def extended(self, catalog: Catalog) -> DocumentFrequency:
        """That of a catalog that begins with the items of this one; only what was added is split into words."""
        frequency = DocumentFrequency(())
        frequency._number, frequency._held, frequency._last = self._number, self._held.copy(), self._last
        frequency._add(catalog[len(self._held) :])
        return frequency

    def _add(self, items: Sequence[Item]) -> None:
        number = self._number
        for item in items:
            numbers = [number.setdefault(word, len(number)) for word in set(words(item.prompt_text))]
            self._held.append(np.array(numbers, dtype=np.int32))

    def weights(self, words: Iterable[str], visible: BoolArray) -> Mapping[str, float]:
        """Inverse document frequency of some words, ln((1 + N) / (1 + n)) + 1, by N visible items, n of them with it.

        Args:
            words: words as of `words`.
            visible: which items count, shape (n_items,), never changed afterwards.

        Source: scikit-learn, `TfidfTransformer` with `smooth_idf`, which never gives 0.
        """
        counts, n_items = self._counts(visible), int(np.count_nonzero(visible))
        words_in_order = list(words)
        number = np.array([self._number.get(word, len(counts)) for word in words_in_order], dtype=np.int64)
        n_holding, counted = np.zeros_like(number), number < len(counts)
        n_holding[counted] = counts[number[counted]]
        return {word: _weight(n_items, n) for word, n in zip(words_in_order, n_holding.tolist(), strict=True)}

    def _counts(self, visible: BoolArray) -> IntArray:
        before, counts = self._last
        if len(before) < len(visible):
            before = np.append(before, np.zeros(len(visible) - len(before), dtype=np.bool_))
        changed = before != visible
        if 2 * np.count_nonzero(changed) > np.count_nonzero(visible):
            before, counts, changed = np.zeros_like(visible), np.zeros(0, dtype=np.int64), visible
        counts = self._added(counts, changed & visible, 1)
        counts = self._added(counts, changed & ~visible, -1)
        self._last = visible, counts
        return counts

    def _added(self, counts: IntArray, items: BoolArray, by: int) -> IntArray:
        positions = np.flatnonzero(items).tolist()
        if not positions:
            return counts
        changes = np.bincount(np.concatenate([self._held[position] for position in positions]), minlength=len(counts))
        return frozen(np.append(counts, np.zeros(len(changes) - len(counts), dtype=np.int64)) + by * changes)


@lru_cache(maxsize=1 << 16)
def _weight(n_items: int, n_holding: int) -> float:
    return math.log((1 + n_items) / (1 + n_holding)) + 1.0


def document_frequency(catalog: Catalog, resources: Resources) -> DocumentFrequency:
    """That of a catalog, kept with the resources by its texts."""
    frequency: DocumentFrequency = index_over(
        catalog,
        resources,
        "document frequency",
        over=("prompt_text",),
        make=lambda: DocumentFrequency(tuple(catalog)),
        extend=lambda old: old.extended(catalog),
    )
    return frequency
