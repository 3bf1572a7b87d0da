"""BM25 over search texts and BM25F over fields."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.core.items import TEXT_FIELDS, Catalog, Item
from ctxbench.core.stages import Resources
from ctxbench.index.kept_words import ItemReader
from ctxbench.index.versions import index_over
from ctxbench.index.word_index import Added, Statistics, WordIndex, by_item
from ctxbench.index.words import WordRule, field_words, name_words, weighted_words
from ctxbench.text.chunking.item_chunks import searched

VARIANTS = ("lucene", "robertson", "bm25+")  # as bm25s names them
PLAIN = WordRule()


class Bm25Settings(NamedTuple):
    """How a catalog is indexed.

    Attributes:
        k1, b: saturation, and share of length normalisation.
        variant: one of `VARIANTS`.
        rule: which words count; those of a plain text unless told otherwise.
        server: whether the words of a tool's server stand in front of its text.
        bodies: whether the body of a skill is read, too.
    """

    k1: float
    b: float
    variant: str = VARIANTS[0]
    rule: WordRule = PLAIN
    server: bool = False
    bodies: bool = False


class Bm25Index(WordIndex):
    """BM25 scores of one catalog's search texts.

    With N items, n of them with the term, tf times in an item, and L = 1 - b + b * length / mean length, a term adds

    * `lucene`: ln(1 + (N - n + 0.5) / (n + 0.5)) * tf / (tf + k1 L);
    * `robertson`: ln((N - n + 0.5) / (n + 0.5)), at least 0, * tf / (tf + k1 L). Times k1 + 1 it is BM25Okapi of
      rank-bm25, which gives words that stand in half of the items or more another floor;
    * `bm25+`: ln((N + 1) / n) * (1 + tf (k1 + 1) / (tf + k1 L)), BM25Plus of rank-bm25.

    Args:
        catalog: the items; a score depends on nothing else, and not on what else is asked.
        **settings: those of `Bm25Settings`.

    Source: Kamphuis et al., ECIR 2020.
    """

    def __init__(self, catalog: Catalog, **settings: Any) -> None:
        self._settings = Bm25Settings(**settings)
        super().__init__(catalog)

    def scores(self, words: str | Mapping[str, float], *, counted: BoolArray | None = None) -> FloatArray:
        """Score every item for a text, or for words with their weights; the same for all that share no word with it."""
        return super().scores(self._query_words(words), counted=counted)

    def shares_word(self, words: str | Mapping[str, float]) -> BoolArray:
        """Which items have a word of a text, or any of the words, that counts, shape (n_items,)."""
        return super().shares_word(self._query_words(words))

    def words(self, chunks: Sequence[str], weights: Sequence[float]) -> dict[str, float]:
        """How often each word stands in the chunks of a request, each time by the weight of its chunk."""
        return weighted_words(self._settings.rule.of_chunks(chunks), weights)

    def words_by_chunk(self, chunks: Sequence[str]) -> list[dict[str, float]]:
        """How often each word stands in each chunk; which words count is decided for all of them together."""
        return [weighted_words([row], [1.0]) for row in self._settings.rule.of_chunks(chunks)]

    def _query_words(self, words: str | Mapping[str, float]) -> Mapping[str, float]:
        return self.words([words], [1.0]) if isinstance(words, str) else words

    def _reader(self) -> ItemReader:
        server, bodies, rule = self._settings.server, self._settings.bodies, self._settings.rule

        def source(item: Item) -> str:
            text = searched(item, bodies=bodies)
            return f"{item.server} {text}" if server and item.server else text

        return ItemReader(rule=f"bm25 {rule}", n_fields=1, source=source, words=lambda item: [rule.words(source(item))])

    def _mean_length(self, length: FloatArray) -> FloatArray:
        return np.asarray(length.sum(axis=1) / max(length.shape[1], 1))

    def _weighed(self, item: IntArray, field: IntArray, count: IntArray, statistics: Statistics) -> Added:  # noqa: ARG002
        k1, b, variant = self._settings[:3]
        share = count / (count + k1 * (1.0 - b + b * self._length[0, item] / statistics.mean_length[0]))
        n, counted = len(item), statistics.n_items
        if variant == "bm25+":
            idf = math.log((counted + 1) / n)
            return Added(item, idf * (share * (k1 + 1.0)), absent=idf)
        odds = (counted - n + 0.5) / (n + 0.5)
        return Added(item, (math.log(1.0 + odds) if variant == "lucene" else max(math.log(odds), 0.0)) * share)


def bm25_index(catalog: Catalog, resources: Resources, **options: Any) -> Bm25Index:
    """The index of a catalog by `Bm25Settings`, kept with the resources by servers and search texts."""
    settings = Bm25Settings(**options)
    index: Bm25Index = index_over(
        catalog,
        resources,
        ("bm25", settings),
        over=("server", "search_text", *(("body",) if settings.bodies else ())),
        make=lambda: Bm25Index(catalog, **options),
        extend=lambda old: old.extended(catalog),
    )
    return index


class Bm25fIndex(WordIndex):
    """BM25F scores of one catalog.

    A word that stands tf times in a field of weight w adds w tf / L to the item's count of it, with
    L = 1 - b + b * words in the field / their mean over the items that have the field. Of the counts summed over
    fields, c, comes the score: the sum over the query's words of idf * c / (k1 + c), with
    idf = ln(1 + (N - n + 0.5) / (n + 0.5)), N items and n of them with the word in any field of weight above 0.
    With one field of weight 1 this is BM25 as Lucene has it.

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009, section 3.6.
    """

    def __init__(self, catalog: Catalog, *, weights: Mapping[str, float], b: Mapping[str, float], k1: float) -> None:
        self._names = [name for name, weight in weights.items() if weight > 0]
        self._weights, self._b = (np.array([row[name] for name in self._names], np.float64) for row in (weights, b))
        self._k1 = k1
        super().__init__(catalog)

    def _reader(self) -> ItemReader:
        def words(item: Item) -> list[list[str]]:
            words_by_field = field_words(item)
            return [words_by_field[name] for name in self._names]

        return ItemReader(
            rule=f"bm25f {self._names}",
            n_fields=len(self._names),
            source=lambda item: repr([getattr(item, name) for name in TEXT_FIELDS]),
            words=words,
        )

    def _mean_length(self, length: FloatArray) -> FloatArray:
        return np.asarray(length.sum(axis=1) / np.maximum(np.count_nonzero(length, axis=1), 1))

    def _weighed(self, item: IntArray, field: IntArray, count: IntArray, statistics: Statistics) -> Added:
        item, field = np.repeat(item, count), np.repeat(field, count)  # added one by one, as the sums always were
        b = self._b[field]
        share = self._weights[field] / (1.0 - b + b * self._length[field, item] / statistics.mean_length[field])
        item, total = by_item(item, share)
        n = len(item)
        return Added(item, math.log(1.0 + (statistics.n_items - n + 0.5) / (n + 0.5)) * (total / (self._k1 + total)))


def query_words(chunks: Sequence[str], weights: Sequence[float]) -> dict[str, float]:
    """How often each word stands in the chunks of a request, a chunk's weight for every time.

    Identifiers are split as in names, and count whole too.
    """
    return weighted_words([name_words(chunk) for chunk in chunks], weights)
