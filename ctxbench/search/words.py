"""Split texts into words, count documents by word, match names fuzzily; protocol of text indexes."""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

from ctxbench.io.errors import UserError
from ctxbench.model.arrays import BoolArray, Float32Array, FloatArray, IntArray, frozen, starts
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Query
from ctxbench.model.resources import Resources, index_over, row_over
from ctxbench.search.chunking import ItemChunking, has_longer_piece, parameters_of

LONGEST_WORD = 4_000
"""Bytes of UTF-8 that a word has at most; no index is given more of it, as FTS5 cuts at 32,768 within a character."""
_SPACED = "".join(chr(code) if chr(code).isalnum() else " " for code in range(128))  # by ASCII character
_PART = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")  # the first: `URLs`
_COMMON = (
    "a about also am an and any are as at be but by can could did do does for from get give had has have he "
    "hello hi how i if in into is it its just let me my need no not of on or our out please she so some tell "
    "than that the their then there these they this those to up want was we were what when where which who will "
    "with would you your"
)
STOP_WORDS = frozenset(_COMMON.split())
"""Common English words of requests and descriptions, case-folded."""
_LEFT_OUT = STOP_WORDS | frozenset(string.ascii_lowercase + string.digits)  # one ideograph is a word
_FUNCTION = (
    "i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers "
    "herself it its itself they them their theirs themselves what which who whom this that these those am is are "
    "was were be been being have has had having do does did doing a an the and but if or because as until while of "
    "at by for with about against between into through during before after above below to from up down in out on "
    "off over under again further then once here there when where why how all any both each few more most other "
    "some such no nor not only own same so than too very s t can will just don should now"
)
FUNCTION_WORDS = frozenset(_FUNCTION.split())
"""What no text index searches for: the English stop words of PostgreSQL, of Snowball."""
ENDINGS = ("ations", "ation", "ings", "ing", "ers", "ies", "es", "ed", "er", "ly", "s", "e", "y")
"""English endings, in the order in which they are tried."""


def words(text: str) -> list[str]:
    """Runs of letters, digits and the marks on them, case-folded: `create_issue` is two words.

    Text is composed first (NFC), so that both spellings of é are one. Nothing is stemmed or stopped.
    """
    if text.isascii():
        return cut(text.lower().translate(_SPACED).split())
    folded = unicodedata.normalize("NFC", text.casefold())
    return cut("".join(c if c.isalnum() or unicodedata.category(c)[0] == "M" else " " for c in folded).split())


def cut(words: list[str]) -> list[str]:
    """Words with those cut that are longer than `LONGEST_WORD`, each behind its last whole character."""
    if max(map(len, words), default=0) * 4 <= LONGEST_WORD:  # a character has four bytes at most
        return words
    return [word if len(word) * 4 <= LONGEST_WORD else _beginning(word) for word in words]


def _beginning(word: str) -> str:
    data = word.encode("utf-8", "surrogatepass")
    end = min(LONGEST_WORD, len(data))
    while end < len(data) and data[end] & 0b1100_0000 == 0b1000_0000:  # within a character
        end -= 1
    return data[:end].decode("utf-8", "surrogatepass")


class _Separated(dict[int, str]):
    """The replacement of each character in `separated`, computed on demand."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if not (char.isalnum() or unicodedata.category(char)[0] == "M"):
            small = " "
        else:
            base = unicodedata.normalize("NFD", char)[0]
            small = (base if base.isascii() else char).lower()
        self[code] = small if len(small) == 1 else char
        return self[code]


_SEPARATED = _Separated()


def separated(text: str) -> str:
    """A text of the same length with blanks between its words, in small letters, Latin ones without accents.

    A word is as in `words`: `Config_v2.yaml` is `config v2 yaml`. What both text indexes are given, so that they split
    alike, whatever their own rules make of hosts, files, numbers and hyphens.
    """
    return text.translate(_SEPARATED)


def composed(text: str) -> str:
    """The same of both spellings of a letter with an accent; words are cut (`LONGEST_WORD`), so it may be shorter."""
    blank_separated = separated(unicodedata.normalize("NFC", text))
    may_be_cut = has_longer_piece(blank_separated, " ", LONGEST_WORD // 4)
    return " ".join(cut(blank_separated.split(" "))) if may_be_cut else blank_separated


def phrases(words: Iterable[str]) -> list[tuple[str, ...]]:
    """What text indexes search for: the parts of each word, in their order; those of `FUNCTION_WORDS` alone left out.

    `config.yaml` is (`config`, `yaml`), which must be next to each other. Repeats are left out.
    """
    distinct = dict.fromkeys(tuple(composed(word).split()) for word in words)
    return [phrase for phrase in distinct if not FUNCTION_WORDS.issuperset(phrase)]


def name_words(text: str) -> list[str]:
    """The words of a name: its parts, and behind those of a piece that was split the whole piece.

    `createIssue` and `create_issue` are `create issue createissue`; `HTTPServer2` is `http server 2 httpserver2`.
    A plain sentence has the words of `words`, and for an identifier in it those of its parts too.
    """
    parts_in_order: list[str] = []
    for piece in text.split():
        parts = name_parts(piece)
        parts_in_order += parts
        if len(parts) > 1:
            parts_in_order += cut(["".join(parts)])
    return parts_in_order


def name_parts(text: str) -> list[str]:
    """The parts of a name, case-folded: split at blanks, punctuation, changes of case, and digits."""
    if text.isascii():
        return cut([part.lower() for part in _PART.findall(text)])
    return [part for piece in text.split() for part in _piece_parts(piece)]


def _piece_parts(piece: str) -> list[str]:
    """The parts of a text without blanks; what is not ASCII has no pattern for its case."""
    if piece.isascii():
        return name_parts(piece)
    # a blank before every capital that follows a small letter
    spaced = "".join(f" {c}" if i and c.isupper() and not piece[i - 1].isupper() else c for i, c in enumerate(piece))
    return [part for run in words(spaced) for part in (name_parts(run) if run.isascii() else [run])]


@lru_cache(maxsize=1 << 16)  # a catalog says the same few thousand words again and again
def stem(word: str) -> str:
    """A word without an English ending that leaves at least three letters: `issues`, `issuing` and `issue` are `issu`.

    Source: ours, one ending of `ENDINGS` and the longest that fits; lighter than Porter's, with no table of exceptions.
    What keeps its s is as in the S-stemmer (Harman, How effective is suffixing?, 1991), and `is` likewise.
    """
    if word.endswith(("ss", "us", "is")):  # `class`, `status`, `analysis`
        return word
    ending = next((end for end in ENDINGS if word.endswith(end) and len(word) - len(end) >= 3), "")
    return word.removesuffix(ending)


@dataclass(frozen=True)
class WordRule:
    """Which words of a text count in BM25.

    Attributes:
        split: identifiers count by their parts (`name_parts`); else a word is a run of letters and digits (`words`).
        stop: `STOP_WORDS` and single Latin letters and digits are left out, unless nothing else is there.
        stem: English endings are taken off (`stem`).
    """

    split: bool = False
    stop: bool = False
    stem: bool = False

    def words(self, text: str) -> list[str]:
        """The words of a text in order, with repeats."""
        return self.of_chunks([text])[0]

    def of_chunks(self, chunks: Sequence[str]) -> list[list[str]]:
        """The words of each chunk of a text; what `stop` leaves out counts where nothing is left of all of them."""
        words_by_chunk = [self._split(chunk) for chunk in chunks]
        if self.stop:
            content_words = [[word for word in row if word not in _LEFT_OUT] for row in words_by_chunk]
            words_by_chunk = content_words if any(content_words) else words_by_chunk
        return [[stem(word) for word in row] for row in words_by_chunk] if self.stem else words_by_chunk

    def numbered(self, numbers: Mapping[str, int]) -> Callable[[str], list[int]]:
        """A function that gives the words of a text as `words` does, but as their numbers."""
        left_out: Container[str] = _LEFT_OUT if self.stop else ()
        ending = stem if self.stem else str

        @lru_cache(maxsize=1 << 18)  # a catalog repeats most of its pieces
        def of_piece(piece: str) -> list[int]:
            return [numbers[ending(word)] for word in self._split(piece) if word not in left_out]

        def of_text(text: str) -> list[int]:
            row = list(chain.from_iterable(map(of_piece, pieces(text))))
            return row or [numbers[word] for word in self.words(text)]

        return of_text

    def _split(self, text: str) -> list[str]:
        return name_parts(text) if self.split else words(text)


def pieces(text: str) -> list[str]:
    """Parts of a text whose words are those of the text, whatever splits it: `words`, or `name_parts`.

    Runs of letters and digits where all is ASCII, else what is between white space.
    """
    return text.translate(_SPACED).split() if text.isascii() else text.split()


def weighted_words(chunks: Sequence[Sequence[str]], weights: Sequence[float]) -> dict[str, float]:
    """How often each word occurs in the chunks of a request, weighted by chunk.

    Args:
        chunks: the words of each chunk.
        weights: one a chunk.

    Returns:
        Words in the order of first appearance, so that sums have one order.
    """
    totals: dict[str, float] = {}
    for chunk, weight in zip(chunks, weights, strict=True):
        for word in chunk:
            totals[word] = totals.get(word, 0.0) + weight
    return totals


def keywords(text: str) -> tuple[str, ...]:
    """The words of more than three letters between white space, in small letters, without `STOP_WORDS`; each once.

    What is no letter or digit is taken off at either end, so that `invoice?` is `invoice`.
    """
    bare = cut([_bare(word) for word in text.lower().split()])
    return tuple(dict.fromkeys(word for word in bare if len(word) > 3 and word not in STOP_WORDS))


def _bare(word: str) -> str:
    """A word without what is no letter or digit at either end; a pattern for the end would take quadratic time."""
    first = next((index for index, character in enumerate(word) if character.isalnum()), len(word))
    last = next((index for index in range(len(word), first, -1) if word[index - 1].isalnum()), first)
    return word[first:last]


def asked_words(query: Query, request: int) -> tuple[str, ...]:
    """The words that a request is about: its keywords, else those of its text without `STOP_WORDS`; each once."""
    content_words = (word for word in words(query.batch.requests[request].text) if word not in STOP_WORDS)
    return query.keywords[request] or tuple(dict.fromkeys(content_words))


FIELDS = ("server", "name", "description", "parameters", "text")


def field_words(item: Item) -> Mapping[str, list[str]]:
    """The words of each field of an item; fields that it does not have are empty.

    Those of a tool's text are left out, as in its search text, and of what is searched by its text alone name and
    description. The name of a file is its path, which is left out where its text begins with it. Parameters are the
    names and descriptions in the input schema, at every depth.
    """
    return {
        "server": name_words(item.server or ""),
        "name": name_words(item.path if item.is_file else "" if item.by_text else item.name),
        "description": [] if item.by_text else words(item.description),
        "parameters": [word for name, text in parameters_of(item.schema) for word in (*name_words(name), *words(text))],
        "text": [] if item.type == "tool" else words(item.text.removeprefix(item.path) if item.is_file else item.text),
    }


@dataclass(frozen=True)
class FieldText(ItemChunking):
    """One field of an item as its only chunk: the parts of its name, or its description.

    What is searched by its text alone, and an item without the field, has no chunk.
    """

    field: Literal["name", "description"] = "name"

    def __call__(self, item: Item) -> tuple[str, ...]:
        """The text of the field, if there is any."""
        if item.by_text:
            return ()
        name = item.path if item.is_file else item.name
        text = " ".join(name_parts(name)) if self.field == "name" else item.description
        return (text,) if text.strip() else ()

    @property
    def over(self) -> tuple[str, ...]:
        """The attributes of an item that its chunk depends on, and what names it where it cannot be embedded."""
        return ("type", "server", "name", "title", "description", "text")


FUZZY_FIELDS = ("name", "description")


class FuzzyIndex:
    """Similarity of every item of a catalog to a request, by words and the letters that they share.

    A text of an item is as similar as its words are on average, each by its nearest word of the request. Two words
    are as near as rapidfuzz's `ratio` says: 2 x letters in common, in their order / letters of both; below `near`
    they are strangers, 0. A name is read as its parts and as one word; of all readings the most similar counts.

    Source: rapidfuzz (normalised indel similarity); the greater of several fields as in the specification.
    """

    def __init__(self, catalog: Catalog, *, fields: Sequence[str], near: float) -> None:
        self._fields, self._near = tuple(fields), near
        self._number: dict[str, int] = {}
        self._word: IntArray = np.empty(0, dtype=np.int64)
        self._reading = self._item = starts([])
        self._add(catalog)

    def extended(self, catalog: Catalog) -> FuzzyIndex:
        """The index of a catalog that begins with the items of this one; only what was added is split into words."""
        return copy(self)._add(catalog[len(self._item) - 1 :])  # noqa: SLF001 - of this class

    def _add(self, items: Sequence[Item]) -> Self:
        """Put items behind those that are there; what is held is replaced, never changed."""
        readings = [_readings(item, self._fields) for item in items]
        flat = [reading for row in readings for reading in row]
        number = self._number.copy()
        ids = [number.setdefault(word, len(number)) for reading in flat for word in reading]
        self._number = number
        self._word = np.concatenate([self._word, np.array(ids, dtype=np.int64)])
        self._reading = _append_rows(self._reading, [len(reading) for reading in flat])
        self._item = _append_rows(self._item, [len(row) for row in readings])
        return self

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
        if not query_words or not self._number:
            return np.zeros((len(query_words), len(self._number)), dtype=np.float32)
        from rapidfuzz.fuzz import ratio
        from rapidfuzz.process import cdist

        cutoff = self._near * 100.0
        ratios = cdist(query_words, list(self._number), scorer=ratio, score_cutoff=cutoff, dtype=np.float32, workers=1)
        return np.asarray(ratios, dtype=np.float32)

    def _score(self, near: Float32Array, weights: Sequence[float]) -> FloatArray:
        """Score every item by the nearness of a request's words to those of the catalog, in hundredths."""
        scores = np.zeros(len(self._item) - 1, dtype=np.float64)
        if not len(near) or not len(self._word):
            return scores
        best = (near.astype(np.float64) * (np.array(weights, dtype=np.float64) / 100.0)[:, None]).max(axis=0)
        similar = np.add.reduceat(best[self._word], self._reading[:-1]) / np.diff(self._reading)
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
    parts = name_parts(item.name) if "name" in fields else []
    described = words(item.description) if "description" in fields else []
    readings = (tuple(dict.fromkeys(parts)), ("".join(parts),) if parts else (), tuple(dict.fromkeys(described)))
    return [reading for reading in readings if reading]


class DocumentFrequency:
    """The distinct words of every item's prompt text, and over how many items a word was counted last.

    The requests of a service see nearly the same, each with a time of its own: counts are carried on from the last
    ones by the items that came or went. They are whole numbers, so they are the same whatever was asked before.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        self._number: dict[str, int] = {}  # only ever added to; shared with what extends this
        self._rows: list[npt.NDArray[np.int32]] = []
        self._last = np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int64)
        self._add(items)

    def extended(self, catalog: Catalog) -> DocumentFrequency:
        """That of a catalog that begins with the items of this one; only what was added is split into words."""
        return copy(self)._add(catalog[len(self._rows) :])  # noqa: SLF001 - of this class

    def _add(self, items: Sequence[Item]) -> Self:
        number = self._number
        rows = ([number.setdefault(word, len(number)) for word in set(words(item.prompt_text))] for item in items)
        self._rows = [*self._rows, *(np.array(row, dtype=np.int32) for row in rows)]
        return self

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
        if not (positions := np.flatnonzero(items).tolist()):
            return counts
        changes = np.bincount(np.concatenate([self._rows[position] for position in positions]), minlength=len(counts))
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


PATH_WEIGHT = 10.0  # a word in the path counts as often as this in the content, as PostgreSQL's A beside its D
MEASURES = ("similarity", "word_similarity")


class TextIndexError(UserError):
    """A text index cannot be had: it is not installed, not reached, too old, or lacks something."""


class TextIndex(Protocol):
    """An index of items by path (`Item.path`) and text, which only grows; usable from several threads.

    Words are split as `phrases` does, so that none is query syntax. English endings are taken off.
    """

    def rows(self, items: Sequence[Item]) -> IntArray:
        """The rows of items in the index's table, shape (n,); what is not there yet is added.

        Items of equal path and text share a row. No row is ever changed.
        """

    def scores(self, words: Sequence[str], table_rows: IntArray, *, match_all: bool) -> FloatArray:
        """How well rows match any word, or every one.

        Args:
            words: at least one that is no function word, or nothing matches.
            table_rows: shape (n,), repeats allowed; nothing else is counted, so that no other row moves a score.
            match_all: whether a row must hold all of them.

        Returns:
            Shape (n,), > 0 where a row matches, else 0.
        """

    def similar(self, text: str, table_rows: IntArray, *, measure: str, threshold: float) -> FloatArray:
        """The trigram similarity of a text to paths and to contents, the greater of the two.

        Args:
            text: compared as pg_trgm does (`ctxbench.search.text_index.trigrams`).
            table_rows: shape (n,).
            measure: of the path: `similarity`, or `word_similarity` to the part of the text that is most like it.
                That of contents is always `similarity`.
            threshold: 0 to 1.

        Returns:
            Shape (n,), 0 to 1; 0 where it is not above the threshold.
        """

    def marks(self, texts: Sequence[str], words: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Where the words match in each text, `[from, to)` in characters, rising and apart."""


def rows_of(catalog: Catalog, resources: Resources, name: str, types: Sequence[str]) -> IntArray:
    """The rows of a catalog's items of some types in the text index of a name, shape (n_items,); -1 of others.

    Those known before stay.
    """
    index: TextIndex = resources.get(name)

    def rows(items: Sequence[Item]) -> IntArray:
        out = np.full(len(items), -1, dtype=np.int64)
        typed = [position for position, item in enumerate(items) if item.type in types]
        out[typed] = index.rows([items[position] for position in typed]) if typed else -1
        return out

    return row_over(catalog, resources, (name, *types), over=("type", "name", "title", "text"), make=rows)


def above(similarity: npt.NDArray[np.float32], threshold: float) -> FloatArray:
    """Similarities as numbers, 0 where one is not above the threshold; compared in float32, as PostgreSQL has them."""
    return np.where(similarity > np.float32(threshold), similarity, np.float32(0.0)).astype(np.float64)
