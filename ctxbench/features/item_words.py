"""The words of a catalog's items by field: which items hold a word, and what a word weighs.

Source: ours; overlap of words weighted by inverse document frequency, the usual evidence of text retrieval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.items import TEXT_FIELDS, Catalog, Item
from ctxbench.core.stages import Resources
from ctxbench.index.bm25 import Bm25Index, bm25_index
from ctxbench.index.versions import index_over
from ctxbench.index.words import STOP_WORDS, WordRule, field_words, name_parts, stem

RULE = WordRule(split=True, stop=True, stem=True)
"""Which words count: parts of identifiers, without common English words, stemmed."""


class ItemWords:
    """The words of a catalog's items by field, as an index from word to items.

    Attributes:
        bm25: the index of all their words.
    """

    fields = ("name", "description", "body", "item")

    def __init__(self, catalog: Catalog, bm25: Bm25Index) -> None:
        self._words: list[dict[str, list[str]]] = []
        self._items: dict[str, dict[str, IntArray]] = {field: {} for field in self.fields}
        self._add(catalog, bm25)

    def extended(self, catalog: Catalog, bm25: Bm25Index) -> ItemWords:
        """The words of a catalog that begins with the items of this one; only what was added is split into words."""
        words = ItemWords(Catalog(()), bm25)
        words._words, words._items = self._words, self._items
        words._add(catalog[len(self._words) :], bm25)
        return words

    def _add(self, items: Sequence[Item], bm25: Bm25Index) -> None:
        """Put items behind those that are there; what is held is replaced, never changed. All weights are made anew."""
        first, added = len(self._words), [_fields(item) for item in items]
        by_word: dict[str, dict[str, list[int]]] = {field: {} for field in self.fields}
        for position, words_by_field in enumerate(added, first):
            for field in self.fields:
                for word in words_by_field[field]:
                    by_word[field].setdefault(word, []).append(position)
        self._words = self._words + added
        self._items = {
            field: self._items[field]
            | {word: np.array([*self._items[field].get(word, ()), *new], dtype=np.int64) for word, new in index.items()}
            for field, index in by_word.items()
        }
        n = len(self._words)
        self._unknown = _idf(n, 0)
        self._weight = {word: _idf(n, len(items)) for word, items in self._items["item"].items()}
        self._total = {
            field: np.array(
                [math.fsum(self._weight[word] for word in words_by_field[field]) for words_by_field in self._words]
            )
            for field in self.fields
        }
        self.bm25 = bm25

    def knows(self, word: str) -> bool:
        """Whether any item has the word."""
        return word in self._weight

    def overlaps(self, words: Sequence[str]) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
        """How much of `words` each field of each item holds, and how much of each field `words` hold.

        Words count by inverse document frequency.

        Args:
            words: distinct, sorted.

        Returns:
            Two mappings from field to shares in [0, 1], shape (n_items,); 0 where there is no word.
        """
        query_weight = math.fsum(self._weight.get(word, self._unknown) for word in words)
        of_query, of_field = {}, {}
        for field in self.fields:
            shared = np.zeros(len(self._words), dtype=np.float64)
            for word in words:
                if word in self._items[field]:
                    shared[self._items[field][word]] += self._weight[word]
            total = self._total[field]
            of_query[field] = shared / query_weight if query_weight > 0 else shared
            of_field[field] = np.divide(shared, total, out=np.zeros_like(shared), where=total > 0)
        return of_query, of_field


def item_bm25(catalog: Catalog, resources: Resources) -> Bm25Index:
    """The index of the default step `bm25` over a catalog, kept with the resources."""
    return bm25_index(catalog, resources, k1=1.5, b=0.75, rule=RULE, server=True)


def item_words(catalog: Catalog, resources: Resources) -> ItemWords:
    """The words of a catalog, kept with the resources; BM25 is that of the default step `bm25`."""
    bm25 = item_bm25(catalog, resources)
    words: ItemWords = index_over(
        catalog,
        resources,
        "item words",
        over=TEXT_FIELDS,
        make=lambda: ItemWords(catalog, bm25),
        extend=lambda old: old.extended(catalog, bm25),
    )
    return words


def _fields(item: Item) -> dict[str, list[str]]:
    """The distinct stems of an item's fields, sorted; its body is its parameters and text, `item` all of it."""
    words = field_words(item)
    stems_by_field = {
        "name": set(stems(words["name"])),
        "description": set(stems(words["description"])),
        "body": set(stems([*words["parameters"], *words["text"]])),
    }
    stems_by_field["item"] = set().union(*stems_by_field.values())
    return {field: sorted(stems) for field, stems in stems_by_field.items()}


def stems(words: Sequence[str]) -> list[str]:
    """Words without the common ones, stemmed."""
    return [stem(word) for word in words if word not in STOP_WORDS]


def query_stems(text: str) -> list[str]:
    """The distinct stems of a request's words, sorted."""
    return sorted(set(stems(name_parts(text))))


def _idf(n: int, n_holding: int) -> float:
    """Inverse document frequency of a word that `n_holding` of `n` items have; above 0. Source: BM25 of Lucene."""
    return math.log1p((n - n_holding + 0.5) / (n_holding + 0.5))
