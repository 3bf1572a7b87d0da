"""Lexical indexes: which items hold a word, and scores made of that, BM25 over search texts and BM25F over fields."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray, firsts, owners, starts
from ctxbench.core.items import Catalog, Item
from ctxbench.core.stages import Resources
from ctxbench.index.versions import index_over
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


class Bm25fIndex:
    """BM25F scores of one catalog.

    A word that stands tf times in a field of weight w adds w tf / L to the item's count of it, with
    L = 1 - b + b * words in the field / their mean over the items that have the field. Of the counts summed over
    fields, c, comes the score: the sum over the query's words of idf * c / (k1 + c), with
    idf = ln(1 + (N - n + 0.5) / (n + 0.5)), N items and n of them with the word in any field of weight above 0.
    With one field of weight 1 this is BM25 as Lucene has it.

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009, section 3.6.
    """

    def __init__(self, catalog: Catalog, *, weights: Mapping[str, float], b: Mapping[str, float], k1: float) -> None:
        self._weights, self._b, self._k1 = weights, b, k1
        self._score(*self._read(catalog, first=0))

    def extended(self, catalog: Catalog) -> Bm25fIndex:
        """The index of a catalog that begins with the items of this one; only what was added is split into words.

        The values of all words are computed again, as they depend on how many items there are, and how long.
        """
        whole = Bm25fIndex(Catalog(()), weights=self._weights, b=self._b, k1=self._k1)
        before = self._lengths.shape[1]
        occurrences, lengths = whole._read(catalog[before:], first=before)
        whole._score(self._occurrences.extended(occurrences), np.concatenate([self._lengths, lengths], axis=1))
        return whole

    def _read(self, items: Sequence[Item], *, first: int) -> tuple[Occurrences, FloatArray]:
        """The words of some items, the first of them at position `first`, and how many each field has of them.

        Fields without a weight are left out; lengths have the shape (n_fields, n_items).
        """
        names = [name for name, weight in self._weights.items() if weight > 0]
        texts = [[words[name] for name in names] for words in map(field_words, items)]
        place = np.arange(len(texts) * len(names), dtype=np.int64)
        occurrences = Occurrences.of(
            [text for row in texts for text in row], item=first + place // len(names), field=place % len(names)
        )
        lengths = np.array([len(text) for row in texts for text in row], dtype=np.float64)
        return occurrences, np.ascontiguousarray(lengths.reshape(len(texts), len(names)).T)

    def _score(self, occurrences: Occurrences, lengths: FloatArray) -> None:
        """Turn the words of all items and how long each field is into what each word adds to each score."""
        self._occurrences, self._lengths = occurrences, lengths
        shares = np.zeros(lengths.shape, dtype=np.float64)
        named = [(name, weight) for name, weight in self._weights.items() if weight > 0]
        for share, length, (name, weight) in zip(shares, lengths, named, strict=True):
            held = length > 0
            words, b = length[held], self._b[name]
            share[held] = weight / (1.0 - b + b * words / (words.sum() / max(len(words), 1)))
        counts = occurrences.postings(shares)
        n = np.diff(counts.start)
        idf = logarithms(1.0 + (counts.n_items - n + 0.5) / (n + 0.5))[owners(counts.start)]
        self._postings = replace(counts, value=idf * (counts.value / (self._k1 + counts.value)))

    def scores(self, words: Mapping[str, float]) -> FloatArray:
        """Score every item for the words of a query with their weights, shape (n_items,), >= 0."""
        return self._postings.scores(words)

    def shares_word(self, words: Mapping[str, float]) -> BoolArray:
        """Which items hold a word of the query, shape (n_items,)."""
        return self._postings.shares_word(words)


def query_words(chunks: Sequence[str], weights: Sequence[float]) -> dict[str, float]:
    """How often each word stands in the chunks of a request, a chunk's weight for every time.

    Identifiers are split as in names, and count whole too.
    """
    return weighted_words([name_words(chunk) for chunk in chunks], weights)


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
