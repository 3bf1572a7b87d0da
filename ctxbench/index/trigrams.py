"""Trigrams of words as pg_trgm takes them: of each word with two blanks before and one behind.

Source: PostgreSQL, contrib/pg_trgm (`similarity`, `word_similarity`), against which the tests hold it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import BoolArray, FloatArray, IntArray
from ctxbench.index.text_index import above
from ctxbench.index.words import composed

_BITS = 21  # of a character
_TOGETHER = 500  # stretches that are compared at once
_HELD = 200_000  # trigrams of a text, once a path, that are compared at once
_BEGINNING = 2000  # characters of a text, which mostly tell that it has too many trigrams to be similar


def trigrams(text: str) -> IntArray:
    """Every trigram of a text as a number, in order, with repeats, shape (n,); empty where it has no word."""
    words = composed(text).split()
    if not words:
        return np.empty(0, dtype=np.int64)
    code = np.frombuffer(f"  {'  '.join(words)} ".encode("utf-32-le"), dtype=np.uint32).astype(np.int64)
    blank = code == ord(" ")
    across = blank[1:-1] & blank[2:]  # from one word to the next
    numbers: IntArray = (code[:-2] << 2 * _BITS) | (code[1:-1] << _BITS) | code[2:]
    return np.compress(~across, numbers)


class TrigramSets:
    """The distinct trigrams of some texts, to which more are added; those of a long one are taken when they are needed.

    Attributes:
        size: how many each has, shape (n_texts,); of a long one at least.
    """

    def __init__(self) -> None:
        self.size = np.empty(0, dtype=np.int64)
        self._sets: list[IntArray | None] = []
        self._long: dict[int, str] = {}
        self._owners: dict[int, array[int]] = {}  # by trigram the short texts that have it

    def add(self, texts: Sequence[str]) -> None:
        """Add some texts behind those here."""
        first, size = len(self._sets), []
        for row, text in enumerate(texts, first):
            distinct = np.unique(trigrams(text[:_BEGINNING]))
            if len(text) <= _BEGINNING:
                for trigram in distinct.tolist():
                    self._owners.setdefault(trigram, array("q")).append(row)
                self._sets.append(distinct)
            else:  # its last word may be cut, and end in a trigram that the text does not have
                self._long[row], distinct = text, distinct[1:]
                self._sets.append(None)
            size.append(len(distinct))
        self.size = np.append(self.size, np.array(size, dtype=np.int64))

    def of(self, row: int) -> IntArray:
        """Those of a text, rising."""
        stored = self._sets[row]
        if stored is None:
            self._sets[row] = stored = np.unique(trigrams(self._long[row]))
            self.size[row] = len(stored)
        return stored

    def shared(self, trigrams: IntArray, *, limit: float) -> IntArray:
        """How many of the trigrams each text has, shape (n_texts,); 0 of a long text with more than `limit`."""
        owners = [self._owners[trigram] for trigram in trigrams.tolist() if trigram in self._owners]
        shared = np.bincount(np.concatenate([np.empty(0, np.int64), *owners]), minlength=len(self.size))
        candidates = np.flatnonzero(self.size <= limit).tolist() if self._long else []
        long_texts = {
            row: distinct for row in candidates if row in self._long and len(distinct := self.of(row)) <= limit
        }
        if long_texts:
            owner = np.repeat(list(long_texts), [len(distinct) for distinct in long_texts.values()])
            shared += np.bincount(
                owner[_within(np.concatenate([*long_texts.values()]), trigrams)], minlength=len(shared)
            )
        return shared


def _within(some: IntArray, rising: IntArray) -> BoolArray:
    """Which of some trigrams are among others; where those rise this takes a tenth of the time of `np.isin`."""
    is_member: BoolArray = np.append(rising, -1)[np.searchsorted(rising, some)] == some
    return is_member


class TrigramIndex:
    """Similarity of a text to the paths and contents of rows, to which more are added; for one thread at a time."""

    def __init__(self) -> None:
        self._paths, self._contents = TrigramSets(), TrigramSets()

    def similar(self, texts: Sequence[tuple[str, str]], text: str, *, measure: str, threshold: float) -> FloatArray:
        """The greater of the similarities of a text to each path and content, shape (n,); see `TextIndex.similar`.

        Args:
            texts: path and content of every row; those of an earlier call, and more behind them.
            text, measure, threshold: as there.
        """
        new = texts[len(self._paths.size) :]
        self._paths.add([path for path, _ in new])
        self._contents.add([content for _, content in new])
        ordered = trigrams(text)
        distinct = np.unique(ordered)
        # at most all that are asked about are shared, so that a text of many more is not above the threshold
        limit = len(distinct) / threshold if threshold else np.inf
        by_content = _similarity(self._contents, distinct, limit)
        if measure == "similarity":
            return above(np.maximum(by_content, _similarity(self._paths, distinct, limit)), threshold)
        by_path = np.zeros_like(by_content)
        stretches = Stretches(ordered)
        likely = self._paths.shared(distinct, limit=np.inf) > threshold * self._paths.size
        rows = np.flatnonzero(likely).tolist()
        at_once = max(_HELD // max(len(ordered), 1), 1)
        for first in range(0, len(rows), at_once):
            block = rows[first : first + at_once]
            by_path[block] = stretches.similarities([self._paths.of(row) for row in block], threshold)
        return above(np.maximum(by_content, by_path), threshold)


def _similarity(sets: TrigramSets, distinct: IntArray, limit: float) -> npt.NDArray[np.float32]:
    """The share of trigrams that each text and those asked about have of those that either has, shape (n_texts,)."""
    shared = sets.shared(distinct, limit=limit)
    share: FloatArray = shared / np.maximum(sets.size + len(distinct) - shared, 1)
    return share.astype(np.float32)


class Stretches:
    """The stretches of a text, as trigrams in order, with repeats: what word similarity is of."""

    def __init__(self, text: IntArray) -> None:
        self._distinct, self._number = np.unique(text, return_inverse=True)
        order = np.argsort(self._number, kind="stable")
        repeats = self._number[order[1:]] == self._number[order[:-1]]
        self._before = np.full(len(text) + 1, -1)  # where the same trigram stood last
        self._before[-1] = len(text)  # behind the text nothing is new
        self._before[order[1:][repeats]] = order[:-1][repeats]

    def similarities(self, parts: Sequence[IntArray], threshold: float) -> FloatArray:
        """The greatest similarity of each part, distinct trigrams, to those of any stretch, 0 to 1, shape (n_parts,).

        Where it is not above the threshold, it may be less. Stretches of more trigrams than the part has / threshold
        are passed over, which without repeats are below it; below a threshold of 0.1 those of ten times as many.
        pg_trgm, which never takes back a beginning, overlooks the best stretch now and then: of 9,000 pairs of a path
        and a line of text 8 differed, by at most 0.005.
        """
        size = np.array([len(part) for part in parts], dtype=np.int64)
        some = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        column = np.searchsorted(self._distinct, some)
        is_present = np.append(self._distinct, -1)[column] == some
        is_member = np.zeros((len(parts), len(self._distinct)), dtype=np.bool_)
        is_member[np.repeat(np.arange(len(parts)), size)[is_present], column[is_present]] = True
        is_shared = np.append(is_member[:, self._number], np.zeros((len(parts), 1), dtype=np.bool_), axis=1)
        longest = (size / max(threshold, 0.1)).astype(np.int64) + 1
        owner, first = np.nonzero(is_shared)  # the best stretch begins and ends where one is
        until = np.arange(len(owner)) + (threshold * size).astype(np.int64)[owner]
        last = np.minimum(until, len(owner) - 1)
        near = (until == last) & (owner[last] == owner) & (first[last] - first < longest[owner])
        owner, first, best = owner[near], first[near], np.zeros(len(parts))
        for at in range(0, len(owner), _TOGETHER):
            part, begin = owner[at : at + _TOGETHER], first[at : at + _TOGETHER, None]
            along = np.arange(longest[part].max())
            column = np.minimum(begin + along, is_shared.shape[1] - 1)
            new = self._before[column] < begin
            distinct, common = np.cumsum(new, axis=1), np.cumsum(new & is_shared[part[:, None], column], axis=1)
            share = common / (size[part, None] + distinct - common)
            np.maximum.at(best, part, np.where(along < longest[part, None], share, 0.0).max(axis=1))
        return best
