"""Trigrams of words as pg_trgm takes them: of each word with two blanks before and one behind.

Source: PostgreSQL, contrib/pg_trgm (`similarity`, `word_similarity`), against which the tests hold it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.index.text_index import above
from ctxbench.index.words import composed

_BITS = 21  # of a character
_BEGINNING = 2000  # characters of a text, which mostly tell that it has too many trigrams to be similar


def trigrams(text: str) -> IntArray:
    """Every trigram of a text as a number, in order, with repeats, shape (n,); empty where it has no word."""
    words = composed(text).split()
    if not words:
        return np.empty(0, dtype=np.int64)
    one = np.frombuffer(f"  {'  '.join(words)} ".encode("utf-32-le"), dtype=np.uint32).astype(np.int64)
    blank = one == ord(" ")
    across = blank[1:-1] & blank[2:]  # from one word to the next
    numbers: IntArray = (one[:-2] << 2 * _BITS) | (one[1:-1] << _BITS) | one[2:]
    return np.compress(~across, numbers)


class TrigramSets:
    """The distinct trigrams of some texts, to which more are added; those of a long one are taken when they are needed.

    Attributes:
        size: how many each has, shape (n_texts,); of a long one at least.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._sets: list[IntArray | None] = []
        self.size = np.empty(0, dtype=np.int64)

    def add(self, texts: Sequence[str]) -> None:
        """Add some texts behind those here."""
        sets = [np.unique(trigrams(text[:_BEGINNING])) for text in texts]
        whole = [len(text) <= _BEGINNING for text in texts]
        # the last word of a beginning may be cut, and end in a trigram that the text does not have
        least = [len(one) - (not all_of_it) for one, all_of_it in zip(sets, whole, strict=True)]
        self.size = np.append(self.size, np.array(least, dtype=np.int64))
        self._texts += texts
        self._sets += [one if all_of_it else None for one, all_of_it in zip(sets, whole, strict=True)]

    def shared(self, asked: IntArray, *, most: float) -> IntArray:
        """How many of some distinct trigrams each text has, shape (n_texts,); 0 of one with more than `most`."""
        for row in np.flatnonzero(self.size <= most).tolist():
            if self._sets[row] is None:
                own = np.unique(trigrams(self._texts[row]))
                self._sets[row], self.size[row] = own, len(own)
        rows = np.flatnonzero(self.size <= most)
        held = np.concatenate([np.empty(0, np.int64), *(one for row in rows if (one := self._sets[row]) is not None)])
        found = np.zeros(len(held), dtype=np.bool_)
        if len(asked):
            found = asked[np.minimum(np.searchsorted(asked, held), len(asked) - 1)] == held
        return np.bincount(np.repeat(rows, self.size[rows])[found], minlength=len(self.size))


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
        asked = np.unique(ordered)
        # at most all that are asked about are shared, so that a text of many more is not above the threshold
        most = len(asked) / threshold if threshold else np.inf
        by_content = _similarity(self._contents, asked, most)
        if measure == "similarity":
            return above(np.maximum(by_content, _similarity(self._paths, asked, most)), threshold)
        by_path = np.zeros_like(by_content)
        likely = self._paths.shared(asked, most=np.inf) > threshold * self._paths.size
        for row in np.flatnonzero(likely).tolist():
            by_path[row] = word_similarity(trigrams(texts[row][0]), ordered)
        return above(np.maximum(by_content, by_path), threshold)


def _similarity(sets: TrigramSets, asked: IntArray, most: float) -> npt.NDArray[np.float32]:
    """The share of trigrams that each text and those asked about have of those that either has, shape (n_texts,)."""
    shared = sets.shared(asked, most=most)
    share: FloatArray = shared / np.maximum(sets.size + len(asked) - shared, 1)
    return share.astype(np.float32)


def word_similarity(part: IntArray, whole: IntArray) -> float:
    """The greatest similarity of one text's trigrams to those of a stretch of another text, 0 to 1.

    A stretch ends at a trigram of the first text. From one end to the next it keeps the beginning that was best, as
    pg_trgm does; so it is not always the best of all stretches.

    Args:
        part: trigrams of the first text; order and repeats do not matter.
        whole: trigrams of the second, in order.
    """
    wanted = set(part.tolist())
    found: list[bool] = [one in wanted for one in whole.tolist()]
    last: dict[int, int] = {}  # where each trigram of the stretch stands last
    best, first, distinct, common = 0.0, -1, 0, 0
    for end, trigram in enumerate(whole.tolist()):
        if first < 0 and not found[end]:
            continue
        if trigram not in last:
            distinct += 1
            common += found[end]
        last[trigram] = end
        if not found[end]:
            continue
        first = end if first < 0 else first
        current = common / (len(wanted) + distinct - common)
        begun, left, held = first, distinct, common
        for place in range(begun, end + 1):
            if (ratio := held / (len(wanted) + left - held)) > current:
                current, first, distinct, common = ratio, place, left, held
            one = int(whole[place])
            if last[one] == place:
                left -= 1
                held -= found[place]
        best = max(best, current)
        for place in range(begun, first):
            if last.get(int(whole[place])) == place:
                del last[int(whole[place])]
    return best
