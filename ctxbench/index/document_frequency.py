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
        whole = DocumentFrequency(())
        whole._number, whole._held, whole._last = self._number, self._held.copy(), self._last
        whole._add(catalog[len(self._held) :])
        return whole

    def _add(self, items: Sequence[Item]) -> None:
        number = self._number
        for item in items:
            own = [number.setdefault(word, len(number)) for word in set(words(item.prompt_text))]
            self._held.append(np.array(own, dtype=np.int32))

    def weights(self, wanted: Iterable[str], visible: BoolArray) -> Mapping[str, float]:
        """Inverse document frequency of some words, ln((1 + N) / (1 + n)) + 1, by N visible items, n of them with it.

        Args:
            wanted: words as of `words`.
            visible: which items count, shape (n_items,), never changed afterwards.

        Source: scikit-learn, `TfidfTransformer` with `smooth_idf`, which never gives 0.
        """
        counts, n_items = self._counts(visible), int(np.count_nonzero(visible))
        asked = list(wanted)
        number = np.array([self._number.get(word, len(counts)) for word in asked], dtype=np.int64)
        held, counted = np.zeros_like(number), number < len(counts)
        held[counted] = counts[number[counted]]
        return {word: _weight(n_items, n) for word, n in zip(asked, held.tolist(), strict=True)}

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
        places = np.flatnonzero(items).tolist()
        if not places:
            return counts
        found = np.bincount(np.concatenate([self._held[place] for place in places]), minlength=len(counts))
        return frozen(np.append(counts, np.zeros(len(found) - len(counts), dtype=np.int64)) + by * found)


@lru_cache(maxsize=1 << 16)
def _weight(n_items: int, held: int) -> float:
    return math.log((1 + n_items) / (1 + held)) + 1.0


def document_frequency(catalog: Catalog, resources: Resources) -> DocumentFrequency:
    """That of a catalog, kept with the resources by its texts."""
    found: DocumentFrequency = index_over(
        catalog,
        resources,
        "document frequency",
        over=("prompt_text",),
        make=lambda: DocumentFrequency(tuple(catalog)),
        extend=lambda old: old.extended(catalog),
    )
    return found
