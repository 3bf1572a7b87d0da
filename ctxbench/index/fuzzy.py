"""The fuzzy index: how much of an item's name or description stands in a request, typing errors allowed for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ctxbench.core.arrays import Float32Array, FloatArray, IntArray, starts
from ctxbench.core.items import Catalog, Item
from ctxbench.index.words import name_parts, words

FIELDS = ("name", "description")


class FuzzyIndex:
    """Similarity of every item of a catalog to a request, by words and the letters that they share.

    A text of an item is as similar as its words are on average, each by its nearest word of the request. Two words
    are as near as rapidfuzz's `ratio` says: 2 x letters in common, in their order / letters of both; below `near`
    they are strangers, 0. A name is read as its parts and as one word; of all readings the most similar counts.

    Source: rapidfuzz (normalised indel similarity); the greater of several fields as in the documents.
    """

    def __init__(self, catalog: Catalog, *, fields: Sequence[str], near: float) -> None:
        self._fields = tuple(fields)
        self._near = near
        self._number: dict[str, int] = {}
        self._vocabulary: list[str] = []
        self._word: IntArray = np.empty(0, dtype=np.int64)
        self._reading: IntArray = starts([])
        self._item: IntArray = starts([])
        self._add(catalog)

    def extended(self, catalog: Catalog) -> FuzzyIndex:
        """The index of a catalog that begins with the items of this one; only what was added is split into words."""
        index = FuzzyIndex(Catalog(()), fields=self._fields, near=self._near)
        index._number, index._word = self._number, self._word
        index._reading, index._item = self._reading, self._item
        index._add(catalog[len(self._item) - 1 :])
        return index

    def _add(self, items: Sequence[Item]) -> None:
        """Put items behind those that are there; what is held is replaced, never changed."""
        readings = [_readings(item, self._fields) for item in items]
        flat = [reading for row in readings for reading in row]
        number = self._number.copy()
        ids = [number.setdefault(word, len(number)) for reading in flat for word in reading]
        self._number, self._vocabulary = number, list(number)
        self._word = np.concatenate([self._word, np.array(ids, dtype=np.int64)])
        self._reading = _append_rows(self._reading, [len(reading) for reading in flat])
        self._item = _append_rows(self._item, [len(row) for row in readings])

    def scores(self, requests: Sequence[Mapping[str, float]]) -> list[FloatArray]:
        """Score every item for some requests, each given as its words with their weights.

        Returns:
            One array a request, shape (n_items,), in [0, 1] where all weights are 1; 0 for an item without words.
        """
        query_words = list(dict.fromkeys(word for request in requests for word in request))
        row_of = {word: row for row, word in enumerate(query_words)}
        near = self._nearness(query_words)
        return [self._score(near[[row_of[word] for word in request]], list(request.values())) for request in requests]

    def _nearness(self, query_words: Sequence[str]) -> Float32Array:
        """How near each word asked and each word of the catalog are, shape (n_asked, n_words); 0 for strangers."""
        if not query_words or not self._vocabulary:
            return np.zeros((len(query_words), len(self._vocabulary)), dtype=np.float32)
        from rapidfuzz.fuzz import ratio
        from rapidfuzz.process import cdist

        cutoff = self._near * 100.0
        ratios = cdist(query_words, self._vocabulary, scorer=ratio, score_cutoff=cutoff, dtype=np.float32, workers=1)
        return np.asarray(ratios, dtype=np.float32)

    def _score(self, near: Float32Array, weights: Sequence[float]) -> FloatArray:
        """Score every item by the nearness of a request's words to those of the catalog, in hundredths."""
        scores = np.zeros(len(self._item) - 1, dtype=np.float64)
        if not len(near) or not len(self._word):
            return scores
        best = (near.astype(np.float64) * (np.array(weights, dtype=np.float64) / 100.0)[:, None]).max(axis=0)
        lengths = np.diff(self._reading)
        similar = np.add.reduceat(best[self._word], self._reading[:-1]) / lengths
        has_readings = np.flatnonzero(np.diff(self._item) > 0)
        scores[has_readings] = np.maximum.reduceat(similar, self._item[has_readings])
        return scores


def _append_rows(start: IntArray, lengths: Sequence[int]) -> IntArray:
    """CSR starts with further rows."""
    return np.concatenate([start, start[-1] + starts(lengths)[1:]])


def _readings(item: Item, fields: Sequence[str]) -> list[tuple[str, ...]]:
    """The texts of an item as words, each once; none is empty, and what is searched by its text alone has none."""
    if item.by_text:
        return []
    readings: list[tuple[str, ...]] = []
    if "name" in fields:
        parts = name_parts(item.name)
        readings += [tuple(dict.fromkeys(parts)), ("".join(parts),)] if parts else []
    if "description" in fields:
        readings.append(tuple(dict.fromkeys(words(item.description))))
    return [reading for reading in readings if reading]
