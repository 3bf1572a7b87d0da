"""Which items hold a word, and how often: what search by words is made of."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import IntArray, owners, ranges, starts

SmallInts = npt.NDArray[np.int32]  # a catalog of code has some millions of rows
FieldInts = npt.NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Occurrences:
    """How often each word stands in each item: by word, then by item, then in the order of its fields.

    Attributes:
        word: the number of every word, from 0 on without gaps, in this order.
        start: CSR starts by word, shape (n_words + 1,).
        item: catalog position, shape (n_rows,).
        field: which field of the item, shape (n_rows,).
        count: how often it stands there, shape (n_rows,), >= 1.
    """

    word: Mapping[str, int]
    start: IntArray
    item: SmallInts
    field: FieldInts
    count: SmallInts

    @classmethod
    def of_texts(cls, texts: Sequence[Sequence[str]], *, fields: int = 1) -> Occurrences:
        """The words of some texts, numbered in the order of first appearance.

        Args:
            texts: the words of each field of the first item, then of the second ...
            fields: how many each has.
        """
        number: dict[str, int] = {}
        word, count, rows = array("i"), array("i"), array("i")
        for text in texts:
            counts = Counter(text)
            word.extend([number.setdefault(token, len(number)) for token in counts])
            count.extend(counts.values())
            rows.append(len(counts))
        text_of = owners(starts(np.array(rows, dtype=np.int64))).astype(np.int32)
        item, field = text_of // fields, (text_of % fields).astype(np.int8)
        return cls._ordered(number, np.array(word, dtype=np.int32), item, field, np.array(count, dtype=np.int32))

    @classmethod
    def _ordered(
        cls, number: Mapping[str, int], word: SmallInts, item: SmallInts, field: FieldInts, count: SmallInts
    ) -> Occurrences:
        size, fields = (int(column.max(initial=0)) + 1 for column in (item, field))
        key = word.astype(np.int64)
        for factor, part in ((size, item), (fields, field)):
            key *= factor
            key += part
        order = np.argsort(key, kind="stable")  # fast where runs are in order, as those of a catalog that changed are
        start = starts(np.bincount(word, minlength=len(number)))
        return cls(number, start, item[order], field[order], count[order])

    def extended(self, added: Occurrences) -> Occurrences:
        """These, and those of items that stand behind all items here; equal to what `of_texts` makes of all texts."""
        number = dict(self.word)
        numbers = np.array([number.setdefault(word, len(number)) for word in added.word], dtype=np.int64)
        lengths = np.zeros(len(number), dtype=np.int64)
        lengths[: len(self.word)] = np.diff(self.start)
        ends = starts(lengths)[1:]  # those of a word that is new here stand behind all
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
        return self._ordered(self.word, word, new_item[self.item][row], self.field[row], self.count[row])

    def of(self, word: str) -> slice:
        """The rows of a word; none of one that no item holds."""
        number = self.word.get(word)
        return slice(0, 0) if number is None else slice(int(self.start[number]), int(self.start[number + 1]))


@dataclass(frozen=True, eq=False)
class TextHolders:
    """Items, and which text each holds: the rows of a word are put in their order when it is asked for, not before.

    Attributes:
        texts: how often words stand in texts.
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

    def of(self, word: str) -> tuple[IntArray, FieldInts, SmallInts]:
        """Item, field and count of the rows of a word, shape (n_rows,) each, by text; items need not rise."""
        rows = self.texts.of(word)
        text, field, count = self.texts.item[rows].astype(np.int64), self.texts.field[rows], self.texts.count[rows]
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
        """Whether every item holds the text of its own place, and there are no others."""
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
    """How often words stand in the items of a catalog, which were read in parts.

    Attributes:
        parts: each item is in one of them.
    """

    parts: tuple[TextHolders, ...]

    def of(self, word: str) -> tuple[IntArray, FieldInts, SmallInts]:
        """Item, field and count of the rows of a word, shape (n_rows,) each: by item, then in the order of fields."""
        rows_by_part = [part.of(word) for part in self.parts]
        item, field, count = (
            rows_by_part[0] if len(rows_by_part) == 1 else map(np.concatenate, zip(*rows_by_part, strict=True))
        )
        if (item[1:] < item[:-1]).any():
            order = np.argsort(item, kind="stable")  # the fields of an item stand in one part, in their order
            item, field, count = item[order], field[order], count[order]
        return item, field, count

    def extended(self, added: CatalogWords, n_items: int) -> CatalogWords:
        """These, and those of items that stand behind the `n_items` here.

        Small parts are joined, so that there are few, and each row is copied a few times as a catalog grows.
        """
        parts = list(self.parts)
        for part in added.parts:
            parts.append(replace(part, item=part.positions + n_items))
            while len(parts) > 1 and len(parts[-2].texts.item) <= 2 * len(parts[-1].texts.item):
                parts[-2:] = [parts[-2].joined(parts[-1])]
        return CatalogWords(tuple(parts))
