"""An inverted index of item words, kept on disk, and BM25 scores from it.

The words of a catalog's items by one rule are a sealed file in `words-1` of the cache folder. It is named after the
smallest digest of its items and looked up under the smallest few, so a catalog in which some items changed still finds
it, and only new items are split into words.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import unicodedata
from abc import ABC, abstractmethod
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nsmallest
from itertools import chain, compress, count
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from ctxbench.io.cache import SEAL_BYTES, map_sealed, write_sealed
from ctxbench.io.files import cache_dir
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray, firsts, owners, ranges, starts
from ctxbench.model.items import TEXT_FIELDS, Catalog, Item
from ctxbench.model.resources import Resources, index_over
from ctxbench.search.chunking import searched
from ctxbench.search.words import WordRule, field_words, name_words, weighted_words

SmallInts = npt.NDArray[np.int32]  # a catalog of code has some millions of rows
FieldInts = npt.NDArray[np.int8]
Rows: TypeAlias = tuple[npt.NDArray[np.integer[Any]], FieldInts, SmallInts]  # items, fields and counts


def new_numbers() -> defaultdict[str, int]:
    """Numbers of words: each word gets the next one when it is first looked up."""
    return defaultdict(count().__next__)


@dataclass(frozen=True, eq=False)
class Occurrences:
    """How often each word occurs in each item: by word, then by item, then by field.

    Attributes:
        word: the number of every word, from 0 on without gaps, in this order.
        start: CSR starts by word, shape (n_words + 1,).
        item: catalog position, shape (n_rows,).
        field: which field of the item, shape (n_rows,).
        count: how often it occurs there, shape (n_rows,), >= 1.
    """

    word: Mapping[str, int]
    start: IntArray
    item: SmallInts
    field: FieldInts
    count: SmallInts

    @classmethod
    def of_texts(cls, texts: Iterable[Iterable[int]], number: Mapping[str, int], *, fields: int = 1) -> Occurrences:
        """The words of some texts, given by their numbers.

        Args:
            texts: the words of each field of the first item, then of the second ...; read one by one.
            number: of every word, when all texts are read.
            fields: how many each item has.
        """
        words, ends = array("i"), array("q", [0])
        for text in texts:
            words.extend(text)
            ends.append(len(words))
        n_texts = len(ends) - 1
        key = np.array(words, dtype=np.int64)
        key *= n_texts
        key += owners(np.array(ends, dtype=np.int64))
        key.sort()  # of as many millions as there are words, so what is made of it is small, or changes it in place
        first = np.flatnonzero(firsts(key))
        count = np.diff(first, append=len(key)).astype(np.int32)
        key = key[first]
        text_of = (key % max(n_texts, 1)).astype(np.int32)
        key //= max(n_texts, 1)
        start = starts(np.bincount(key, minlength=len(number)))
        return cls(dict(number), start, text_of // np.int32(fields), (text_of % fields).astype(np.int8), count)

    def extended(self, added: Occurrences) -> Occurrences:
        """These and those of further items; equal to `of_texts` over all texts."""
        number = dict(self.word)
        numbers = np.array([number.setdefault(word, len(number)) for word in added.word], dtype=np.int64)
        lengths = np.zeros(len(number), dtype=np.int64)
        lengths[: len(self.word)] = np.diff(self.start)
        ends = starts(lengths)[1:]  # those of a word that is new here are behind all
        word = numbers[owners(added.start)]
        order = np.argsort(word, kind="stable")
        position = ends[word[order]]
        lengths += np.bincount(word, minlength=len(number))
        item = np.insert(self.item, position, added.item[order])
        field = np.insert(self.field, position, added.field[order])
        return Occurrences(number, starts(lengths), item, field, np.insert(self.count, position, added.count[order]))

    def shifted_by(self, n: int) -> Occurrences:
        """The same of items that have `n` others before them."""
        return replace(self, item=self.item + np.int32(n))

    def renumbered(self, items: IntArray) -> Occurrences:
        """The same for other items, each of which holds what one here does; those not named are left out.

        Args:
            items: which one, distinct, shape (n_other_items,).
        """
        n_items = max(int(part.max(initial=-1)) for part in (items, self.item)) + 1  # the last may hold no word
        new_item = np.full(n_items, -1, dtype=np.int32)
        new_item[items] = np.arange(len(items), dtype=np.int32)
        row = np.flatnonzero(new_item[self.item] >= 0)
        word = np.repeat(np.arange(len(self.word), dtype=np.int32), np.diff(self.start))[row]
        size, fields = int(new_item.max(initial=0)) + 1, int(self.field.max(initial=0)) + 1
        key = (word.astype(np.int64) * size + new_item[self.item[row]]) * fields + self.field[row]
        row = row[np.argsort(key, kind="stable")]  # fast where runs are in order, as where a catalog changed
        start = starts(np.bincount(word, minlength=len(self.word)))
        return Occurrences(self.word, start, new_item[self.item[row]], self.field[row], self.count[row])

    def of(self, word: str) -> slice:
        """The rows of a word; none of one that no item holds."""
        number = self.word.get(word)
        return slice(0, 0) if number is None else slice(int(self.start[number]), int(self.start[number + 1]))


@dataclass(frozen=True, eq=False)
class TextHolders:
    """Items, and which text each holds: the rows of a word are put in their order when it is asked for, not before.

    Attributes:
        texts: how often words occur in texts.
        text: of each item, as a place in `texts`; several items may hold one. Shape (n_items,).
        item: of each its position, rising, shape (n_items,); None = from 0 on.
    """

    texts: Occurrences
    text: IntArray
    item: IntArray | None = None

    @property
    def positions(self) -> IntArray:
        """The position of each item, shape (n_items,)."""
        return np.arange(len(self.text), dtype=np.int64) if self.item is None else self.item

    def of(self, word: str) -> Rows:
        """Item, field and count of the rows of a word, shape (n_rows,) each, by text; items need not rise."""
        rows = self.texts.of(word)
        text, field, count = self.texts.item[rows], self.texts.field[rows], self.texts.count[rows]
        if self._in_place:
            return text, field, count
        start, items = self._by_text
        n_holding = start[text + 1] - start[text]
        row = np.repeat(np.arange(len(text), dtype=np.int64), n_holding)
        return items[ranges(start[text], n_holding)], field[row], count[row]

    def joined(self, added: TextHolders) -> TextHolders:
        """These and other items, over the texts of both."""
        before = max(int(self.text.max(initial=-1)) + 1, self._n_texts)
        text = np.concatenate([self.text, added.text + before])
        item = np.concatenate([self.positions, added.positions])
        order = np.argsort(item, kind="stable")
        return TextHolders(self.texts.extended(added.texts.shifted_by(before)), text[order], item[order])

    @cached_property
    def _in_place(self) -> bool:
        """Whether item i has text i, and there are no other texts."""
        n_items = len(self.text)
        return self.item is None and self._n_texts <= n_items and np.array_equal(self.text, np.arange(n_items))

    @cached_property
    def _n_texts(self) -> int:
        """As far as they have words."""
        return int(self.texts.item.max(initial=-1)) + 1

    @cached_property
    def _by_text(self) -> tuple[IntArray, IntArray]:
        """The items of each text, as CSR starts and items."""
        start = starts(np.bincount(self.text, minlength=self._n_texts))
        return start, self.positions[np.argsort(self.text, kind="stable")]


@dataclass(frozen=True, eq=False)
class CatalogWords:
    """How often words occur in the items of a catalog, which were read in parts.

    Attributes:
        parts: each item is in one of them.
    """

    parts: tuple[TextHolders, ...]

    def of(self, word: str) -> Rows:
        """Item, field and count of the rows of a word, shape (n_rows,) each: by item, then in the order of fields."""
        rows_by_part = [part.of(word) for part in self.parts]
        item, field, count = (
            rows_by_part[0] if len(rows_by_part) == 1 else map(np.concatenate, zip(*rows_by_part, strict=True))
        )
        if (item[1:] < item[:-1]).any():
            order = np.argsort(item, kind="stable")  # the fields of an item are in one part, in order
            item, field, count = item[order], field[order], count[order]
        return item, field, count

    def extended(self, added: CatalogWords, n_items: int) -> CatalogWords:
        """These and those of further items after the `n_items` here.

        Small parts are joined, so that there are few, and each row is copied a few times as a catalog grows.
        """
        parts = list(self.parts)
        for part in added.parts:
            parts.append(replace(part, item=part.positions + n_items))
            while len(parts) > 1 and len(parts[-2].texts.item) <= 2 * len(parts[-1].texts.item):
                parts[-2:] = [parts[-2].joined(parts[-1])]
        return CatalogWords(tuple(parts))


LEAST = 500_000
"""Characters that are worth a file: they take some 0.1 s to split, and 0.01 s to read
(tests/benchmarks/test_codebase.py)."""
EACH = 100
"""So many characters more a text counts for, as 5,000 paths take as long to split."""
MOST_FILES = 32
"""So many are kept, those used last; one has 0.2 to 0.6 bytes for each character of its catalog."""
_FORM = "4"  # goes up with whatever changes the words of an item, of which a test tells, or how they are written
_NAMES = 8  # smallest digests under which a file is looked for
_DIGEST = 32  # bytes
_HEADER = 1_000  # bytes that the line in front of the arrays has at most


@dataclass(frozen=True, kw_only=True)
class ItemReader:
    """How items are read as words.

    Attributes:
        rule: what words depend on beside the source; of equal rules equal sources have equal words.
        n_fields: that each item has.
        source: what the words of an item are made of.
        numbered: makes of the numbers of words, which grow when a word is looked up, a function that gives the words of
            each field of an item by their numbers.
    """

    rule: str
    n_fields: int
    source: Callable[[Item], str]
    numbered: Callable[[Mapping[str, int]], Callable[[Item], Iterable[Iterable[int]]]]

    def split(self, items: Sequence[Item]) -> tuple[Occurrences, FloatArray]:
        """The words of items, as `read_words` gives them."""
        numbers = new_numbers()
        fields = chain.from_iterable(map(self.numbered(numbers), items))
        occurrences = Occurrences.of_texts(fields, numbers, fields=self.n_fields)
        row = occurrences.field.astype(np.int64) * len(items) + occurrences.item
        length = np.bincount(row, occurrences.count, self.n_fields * len(items)).astype(np.float64)
        return occurrences, length.reshape(self.n_fields, len(items))


@dataclass(frozen=True, eq=False)
class KeptWords:
    """The words of some texts.

    Attributes:
        digests: of the texts, distinct.
        occurrences: of words; items are texts, by their places.
        length: words in each field of each text, shape (n_fields, n_texts).
    """

    digests: tuple[bytes, ...]
    occurrences: Occurrences
    length: FloatArray

    def packed(self) -> list[bytes | memoryview]:
        """The bytes that `unpacked` reads, in parts: a line that describes the arrays, and the arrays.

        Words that no text holds any more are left out, so that they do not gather. In a sealed file every array begins
        at a multiple of the size of its numbers: those of larger numbers are in front.
        """
        occurrences, rows = self.occurrences, np.diff(self.occurrences.start)
        words = "\n".join(compress(occurrences.word, rows.tolist()))  # no word holds white space
        parts = (b"".join(self.digests), words.encode("utf-8", "surrogatepass"))
        texts = [np.frombuffer(part, dtype=np.uint8) for part in parts]
        numbers = [self.length, starts(rows[rows > 0]), occurrences.item, occurrences.count, occurrences.field]
        arrays: list[npt.NDArray[Any]] = [np.ascontiguousarray(array) for array in (*numbers, *texts)]
        header = json.dumps([(array.dtype.str, array.shape) for array in arrays])
        size = SEAL_BYTES + len(header) + 1
        return [f"{header}{' ' * (-size % 8)}\n".encode(), *(array.data for array in arrays)]

    @classmethod
    def unpacked(cls, data: bytes | memoryview) -> KeptWords:
        """What `packed` made these bytes of; arrays stay in them."""
        header, _, _ = bytes(data[:_HEADER]).partition(b"\n")
        at = len(header) + 1
        arrays: list[npt.NDArray[Any]] = []
        for dtype, shape in json.loads(header):
            arrays.append(np.frombuffer(data, np.dtype(dtype), math.prod(shape), at).reshape(shape))
            at += arrays[-1].nbytes
        length, start, item, count, field, digests, words = arrays
        text, digest_bytes = words.tobytes().decode("utf-8", "surrogatepass"), digests.tobytes()
        number = {word: row for row, word in enumerate(text.split("\n") if text else ())}
        parts = tuple(
            digest_bytes[start_byte : start_byte + _DIGEST] for start_byte in range(0, len(digest_bytes), _DIGEST)
        )
        return cls(parts, Occurrences(number, start, item, field, count), length)

    @cached_property
    def row_of(self) -> Mapping[bytes, int]:
        """The place of each text by its digest."""
        return {digest: row for row, digest in enumerate(self.digests)}

    def extended(self, added: KeptWords) -> KeptWords:
        """These, and those of texts that are not here."""
        occurrences = self.occurrences.extended(added.occurrences.shifted_by(len(self.digests)))
        length = np.concatenate([self.length, added.length], axis=1)
        return KeptWords((*self.digests, *added.digests), occurrences, length)

    def select_texts(self, digests: Sequence[bytes]) -> KeptWords:
        """Those of the texts with these digests, in this order; all are here."""
        rows = np.array([self.row_of[digest] for digest in digests], dtype=np.int64)
        return KeptWords(tuple(digests), self.occurrences.renumbered(rows), self.length[:, rows])


def read_words(items: Sequence[Item], reader: ItemReader) -> tuple[CatalogWords, FloatArray]:
    """The words of items, from the disk where they are kept; nothing but the time is changed by that.

    Only what is new is split, and kept once it is worth it (`LEAST`); less is not looked for at all. Nothing is
    kept of what was said or remembered, or is one user's, so that it can be forgotten. A file that is damaged, or
    cannot be written, is done without.

    Returns:
        The words, items numbered from 0 on, and how many each field has, shape (n_fields, n_items).
    """
    digests: list[bytes | None] = []
    sizes = array("q")
    for item in items:
        source = reader.source(item) if _public(item) else ""
        digests.append(_digest(item, source) if source else None)
        sizes.append(len(source) + EACH if source else 0)
    if sum(sizes) < LEAST:
        return _joined(len(items), reader, [_split(items, range(len(items)), reader)])
    texts: dict[bytes, int] = {}  # the first item that holds each
    for position, digest in enumerate(digests):
        if digest is not None:
            texts.setdefault(digest, position)
    folder, names = cache_dir() / "words-1", _names(reader.rule, texts)
    path = next((path for name in names if os.path.exists(path := folder / name)), None)  # noqa: PTH110 - never raises
    data = None if path is None else map_sealed(path)
    stored = None if data is None else KeptWords.unpacked(data)
    new = {position: digest for digest, position in texts.items() if stored is None or digest not in stored.row_of}
    added = KeptWords(tuple(new.values()), *reader.split([items[position] for position in new]))
    if sum(sizes[position] for position in new) >= LEAST:
        merged = added if stored is None else stored.extended(added)
        _keep(folder / names[0], merged if len(merged.digests) <= 2 * len(texts) else merged.select_texts([*texts]))
    elif path is not None:
        with suppress(OSError):
            os.utime(path)
    if stored is not None and len(stored.digests) > 2 * len(texts):  # the index need not hold all of them
        stored = stored.select_texts([digest for digest in texts if digest in stored.row_of])
    private = [position for position, digest in enumerate(digests) if digest is None]
    parts = [_holders(words, digests) for words in (added, stored) if words is not None]
    return _joined(len(items), reader, [*parts, _split(items, private, reader)])


_Read = tuple[TextHolders, FloatArray]


def _split(items: Sequence[Item], positions: Sequence[int], reader: ItemReader) -> _Read:
    """The words of the items at some positions, and their lengths; each item is one text."""
    occurrences, length = reader.split([items[position] for position in positions])
    return TextHolders(occurrences, np.arange(len(positions)), np.array(positions, dtype=np.int64)), length


def _holders(words: KeptWords, digests: Sequence[bytes | None]) -> _Read:
    """The words of the items whose texts are known, by the digests of items; None for what is not kept."""
    row = np.fromiter((-1 if digest is None else words.row_of.get(digest, -1) for digest in digests), dtype=np.int64)
    item = np.flatnonzero(row >= 0)
    return TextHolders(words.occurrences, row[item], item), words.length[:, row[item]]


def _joined(n_items: int, reader: ItemReader, parts: Sequence[_Read]) -> tuple[CatalogWords, FloatArray]:
    """The words of all items, and their lengths in the order of items."""
    length = np.zeros((reader.n_fields, n_items))
    for holders, of_part in parts:
        length[:, holders.item] = of_part
    with_texts = [holders for holders, _ in parts if len(holders.text)] or [parts[0][0]]
    return CatalogWords((replace(with_texts[0], item=None),) if len(with_texts) == 1 else tuple(with_texts)), length


def _digest(item: Item, source: str) -> bytes:
    """SHA-256 of a source in UTF-8, which of most long ones is the text of the item."""
    return item.text_digest if source is item.text else hashlib.sha256(source.encode("utf-8", "surrogatepass")).digest()


def _public(item: Item) -> bool:
    of_a_store = not item.user is item.workspace is item.conversation is None  # which forgets
    return not of_a_store and (item.type not in ("message", "memory") or item.kind == "commit")


def _names(rule: str, digests: Iterable[bytes]) -> list[str]:
    """What a file may be called, by what the words were made by and some digest of its texts."""
    made_by = hashlib.sha256(f"{_FORM}\0{unicodedata.unidata_version}\0{rule}".encode()).hexdigest()
    return [f"{made_by[:16]}-{digest.hex()[:32]}" for digest in nsmallest(_NAMES, digests)]


def _keep(path: Path, words: KeptWords) -> None:
    """Write a file, and take out those that were not used for the longest time."""
    write_sealed(path, *words.packed())
    with suppress(OSError):  # another process may take them out, too
        for old in sorted(path.parent.iterdir(), key=lambda file: -file.stat().st_mtime)[MOST_FILES:]:
            old.unlink()


@dataclass(frozen=True, eq=False)
class Statistics:
    """What a score depends on besides the item: over which items words are counted, and their lengths.

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
        item: the items that hold it, rising, shape (n,); perhaps a view of the index.
        value: what it adds to each, shape (n,), >= 0.
        absent: what it adds to every item, >= 0.
    """

    item: npt.NDArray[np.integer[Any]]
    value: FloatArray
    absent: float = 0.0


class WordIndex(ABC):
    """Scores of a catalog's items as sums over words, each by how often it occurs in the item and how rare it is.

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
            np.add.at(out, added.item, added.value if weight == 1.0 else weight * added.value)
            absent += weight * added.absent
        return np.add(out, absent, out=out) if absent else out

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
    def _weighed(self, rows: Rows, statistics: Statistics) -> Added:
        """The score of a word by items and fields and how often it occurs in them, at least one row."""

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
            item, field, count = self._words.of(word)
            if statistics.counted is not None:
                is_counted = statistics.counted[item]
                item, field, count = item[is_counted], field[is_counted], count[is_counted]
            added = self._weighed((item, field, count), statistics) if len(item) else Added(item, np.zeros(0))
            statistics.added[word] = added
        return added


def by_item(item: npt.NDArray[np.integer[Any]], weight: FloatArray) -> tuple[npt.NDArray[np.integer[Any]], FloatArray]:
    """The sums of weights of the same item, in their order.

    Args:
        item: rising, shape (n,).
        weight: shape (n,).

    Returns:
        The distinct items, and the sum of each, shape (n_distinct,).
    """
    new = firsts(item)
    return item[new], np.bincount(np.cumsum(new) - 1, weight).astype(np.float64)


VARIANTS = ("lucene", "robertson", "bm25+")  # as bm25s names them
PLAIN = WordRule()


class Bm25Settings(NamedTuple):
    """How a catalog is indexed.

    Attributes:
        k1, b: saturation, and share of length normalisation.
        variant: one of `VARIANTS`.
        rule: which words count; those of a plain text by default.
        server: whether the words of a tool's server are in front of its text.
        bodies: whether the body of a skill is read, too.
        parameters: whether names and descriptions of the parameters of a tool are read, too.
    """

    k1: float
    b: float
    variant: str = VARIANTS[0]
    rule: WordRule = PLAIN
    server: bool = False
    bodies: bool = False
    parameters: bool = False


class Bm25Index(WordIndex):
    """BM25 scores of one catalog's search texts.

    With N items, n of them with the term, tf times in an item, and L = 1 - b + b * length / mean length, a term adds

    * `lucene`: ln(1 + (N - n + 0.5) / (n + 0.5)) * tf / (tf + k1 L);
    * `robertson`: ln((N - n + 0.5) / (n + 0.5)), at least 0, * tf / (tf + k1 L). Times k1 + 1 it is BM25Okapi of
      rank-bm25, which gives words that occur in half of the items or more another floor;
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
        """How often each word occurs in the chunks of a request, weighted by chunk."""
        return weighted_words(self._settings.rule.of_chunks(chunks), weights)

    def words_by_chunk(self, chunks: Sequence[str]) -> list[dict[str, float]]:
        """How often each word occurs in each chunk; which words count is decided for all chunks together."""
        return [weighted_words([row], [1.0]) for row in self._settings.rule.of_chunks(chunks)]

    def _query_words(self, words: str | Mapping[str, float]) -> Mapping[str, float]:
        return self.words([words], [1.0]) if isinstance(words, str) else words

    def _reader(self) -> ItemReader:
        settings, rule = self._settings, self._settings.rule

        def source(item: Item) -> str:
            text = searched(item, bodies=settings.bodies, parameters=settings.parameters)
            return f"{item.server} {text}" if settings.server and item.server else text

        def numbered(numbers: Mapping[str, int]) -> Callable[[Item], Iterable[Iterable[int]]]:
            of_text = rule.numbered(numbers)
            return lambda item: [of_text(source(item))]

        return ItemReader(rule=f"bm25 {rule}", n_fields=1, source=source, numbered=numbered)

    def _mean_length(self, length: FloatArray) -> FloatArray:
        return np.asarray(length.sum(axis=1) / max(length.shape[1], 1))

    def _weighed(self, rows: Rows, statistics: Statistics) -> Added:
        item, _, count = rows
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
        over=TEXT_FIELDS if settings.bodies or settings.parameters else ("server", "search_text"),
        make=lambda: Bm25Index(catalog, **options),
        extend=lambda old: old.extended(catalog),
    )
    return index


class Bm25fIndex(WordIndex):
    """BM25F scores of one catalog.

    A word that occurs tf times in a field of weight w adds w tf / L to the item's count of it, with
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
            numbered=lambda numbers: lambda item: [map(numbers.__getitem__, row) for row in words(item)],
        )

    def _mean_length(self, length: FloatArray) -> FloatArray:
        return np.asarray(length.sum(axis=1) / np.maximum(np.count_nonzero(length, axis=1), 1))

    def _weighed(self, rows: Rows, statistics: Statistics) -> Added:
        item, field, count = rows
        item, field = np.repeat(item, count), np.repeat(field, count)  # added one by one, as the sums always were
        b = self._b[field]
        share = self._weights[field] / (1.0 - b + b * self._length[field, item] / statistics.mean_length[field])
        item, total = by_item(item, share)
        n = len(item)
        return Added(item, math.log(1.0 + (statistics.n_items - n + 0.5) / (n + 0.5)) * (total / (self._k1 + total)))


def query_words(chunks: Sequence[str], weights: Sequence[float]) -> dict[str, float]:
    """How often each word occurs in the chunks of a request, weighted by chunk.

    Identifiers are split as in names, and count whole too.
    """
    return weighted_words([name_words(chunk) for chunk in chunks], weights)
