"""Which items hold a word, and how often: what search by words is made of."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
            held = Counter(text)
            word.extend([number.setdefault(one, len(number)) for one in held])
            count.extend(held.values())
            rows.append(len(held))
        text_of = owners(starts(np.array(rows, dtype=np.int64))).astype(np.int32)
        item, field = text_of // fields, (text_of % fields).astype(np.int8)
        return cls._ordered(number, np.array(word, dtype=np.int32), item, field, np.array(count, dtype=np.int32))

    @classmethod
    def _ordered(
        cls, number: Mapping[str, int], word: SmallInts, item: SmallInts, field: FieldInts, count: SmallInts
    ) -> Occurrences:
        size, fields = (int(one.max(initial=0)) + 1 for one in (item, field))
        key = word.astype(np.int64)
        for more, part in ((size, item), (fields, field)):
            key *= more
            key += part
        order = np.argsort(key, kind="stable")  # fast where runs are in order, as those of a catalog that changed are
        start = starts(np.bincount(word, minlength=len(number)))
        return cls(number, start, item[order], field[order], count[order])

    def extended(self, more: Occurrences) -> Occurrences:
        """These, and those of items that stand behind all items here; equal to what `of_texts` makes of all texts."""
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
        field = np.insert(self.field, place, more.field[order])
        return Occurrences(number, starts(lengths), item, field, np.insert(self.count, place, more.count[order]))

    def behind(self, n: int) -> Occurrences:
        """The same of items that have `n` others before them."""
        return replace(self, item=self.item + np.int32(n))

    def taken(self, items: IntArray) -> Occurrences:
        """The same for other items, each of which holds what one here does.

        Args:
            items: which one, shape (n_other_items,); one may be taken several times, or not at all.
        """
        size = max(int(part.max(initial=-1)) + 1 for part in (items, self.item))
        times = np.bincount(items, minlength=size)
        if times.max(initial=0) > 1:
            first, by_item = starts(times)[:-1], np.argsort(items, kind="stable").astype(np.int32)
            copies = times[self.item]
            row = np.repeat(np.arange(len(copies), dtype=np.int32), copies)
            item = by_item[ranges(first[self.item], copies)]
        else:
            place = np.full(size, -1, dtype=np.int32)
            place[items] = np.arange(len(items), dtype=np.int32)
            item = place[self.item]
            if len(items) == size and (np.diff(items) == 1).all():
                return replace(self, item=item)
            row = np.flatnonzero(item >= 0).astype(np.int32)
            item = item[row]
        word = np.repeat(np.arange(len(self.word), dtype=np.int32), np.diff(self.start))[row]
        return self._ordered(self.word, word, item, self.field[row], self.count[row])

    def of(self, word: str) -> slice:
        """The rows of a word; none of one that no item holds."""
        number = self.word.get(word)
        return slice(0, 0) if number is None else slice(int(self.start[number]), int(self.start[number + 1]))
