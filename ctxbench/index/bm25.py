"""The lexical index: BM25 over search texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, owners
from ctxbench.core.items import Catalog, Item
from ctxbench.core.stages import Resources
from ctxbench.index.postings import Occurrences, Postings, logarithms
from ctxbench.index.versions import index_over
from ctxbench.index.words import WordRule, weighted_words
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


class Bm25Index:
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
        self._rule = self._settings.rule
        occurrences, length = self._read(catalog, first=0)
        self._score(occurrences, length)

    def extended(self, catalog: Catalog) -> Bm25Index:
        """The index of a catalog that begins with the items of this one; only what was added is split into words.

        The values of all words are computed again, as they depend on how many items there are, and how long.
        """
        whole = Bm25Index(Catalog(()), **self._settings._asdict())
        occurrences, length = whole._read(catalog[len(self._length) :], first=len(self._length))
        whole._score(self._occurrences.extended(occurrences), np.concatenate([self._length, length]))
        return whole

    def _read(self, items: Sequence[Item], *, first: int) -> tuple[Occurrences, FloatArray]:
        """The words of some items, the first of them at position `first`, and how many each has."""
        server, bodies = self._settings.server, self._settings.bodies
        texts = [self._rule.words(_text(item, server=server, bodies=bodies)) for item in items]
        position = np.arange(first, first + len(texts), dtype=np.int64)
        occurrences = Occurrences.of(texts, item=position, field=np.zeros(len(texts), dtype=np.int64))
        return occurrences, np.array([len(text) for text in texts], dtype=np.float64)

    def _score(self, occurrences: Occurrences, length: FloatArray) -> None:
        """Turn the words of all items and their lengths, shape (n_items,), into what each word adds to each score."""
        k1, b, variant = self._settings[:3]
        self._occurrences, self._length = occurrences, length
        n = len(length)
        counts = occurrences.postings(np.ones((1, n)))
        norm = k1 * (1.0 - b + b * length / (length.sum() / n)) if len(counts.item) else length
        idf = _idf(counts, variant)
        share = counts.value / (counts.value + norm[counts.item])
        if variant == "bm25+":
            share *= k1 + 1.0
        self._postings = replace(counts, value=idf[owners(counts.start)] * share)
        self._absent: list[float] = (idf if variant == "bm25+" else 0.0 * idf).tolist()  # of a word that is not there

    def words(self, chunks: Sequence[str], weights: Sequence[float]) -> dict[str, float]:
        """How often each word stands in the chunks of a request, each time by the weight of its chunk."""
        return weighted_words(self._rule.of_chunks(chunks), weights)

    def scores(self, asked: str | Mapping[str, float]) -> FloatArray:
        """Score every item for a text, or for words with their weights.

        Returns:
            Shape (n_items,), >= 0; the same for all that share no word with it.
        """
        words = self.words([asked], [1.0]) if isinstance(asked, str) else asked
        number = self._postings.word
        absent = sum(weight * self._absent[number[word]] for word, weight in words.items() if word in number)
        return np.add(self._postings.scores(words), absent)

    def words_by_chunk(self, chunks: Sequence[str]) -> list[dict[str, float]]:
        """How often each word stands in each chunk; which words count is decided for all of them together."""
        return [weighted_words([row], [1.0]) for row in self._rule.of_chunks(chunks)]

    def shares_word(self, asked: str | Mapping[str, float]) -> BoolArray:
        """Which items have a word of a text, or any of the words, that counts, shape (n_items,)."""
        return self._postings.shares_word(self.words([asked], [1.0]) if isinstance(asked, str) else asked)


def bm25_index(catalog: Catalog, resources: Resources, **given: Any) -> Bm25Index:
    """The index of a catalog by `Bm25Settings`, kept with the resources by servers and search texts."""
    settings = Bm25Settings(**given)
    index: Bm25Index = index_over(
        catalog,
        resources,
        ("bm25", settings),
        over=("server", "search_text", *(("body",) if settings.bodies else ())),
        make=lambda: Bm25Index(catalog, **given),
        extend=lambda old: old.extended(catalog),
    )
    return index


def _text(item: Item, *, server: bool, bodies: bool) -> str:
    text = searched(item, bodies=bodies)
    return f"{item.server} {text}" if server and item.server else text


def _idf(counts: Postings, variant: str) -> FloatArray:
    """The inverse document frequency of every word, shape (n_words,)."""
    n = np.diff(counts.start).astype(np.float64)
    if variant == "bm25+":
        return logarithms((counts.n_items + 1) / n)
    odds = (counts.n_items - n + 0.5) / (n + 0.5)
    return logarithms(1.0 + odds) if variant == "lucene" else np.maximum(logarithms(odds), 0.0)
