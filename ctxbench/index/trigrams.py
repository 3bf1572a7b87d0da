"""Trigrams of words as pg_trgm takes them: of each word with two blanks before and one behind.

Source: PostgreSQL, contrib/pg_trgm (`similarity`, `word_similarity`), against which the tests hold it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.index.text_index import above
from ctxbench.index.words import composed

_BITS = 21  # of a character
_PREFIX = 2000  # characters of a content from which is told at once that it has too many trigrams to be similar


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
    """The distinct trigrams of some texts, to which more are added.

    Attributes:
        size: how many each has, shape (n_texts,).
    """

    def __init__(self) -> None:
        self._number: dict[int, int] = {}
        self._trigram = np.empty(0, dtype=np.int64)
        self._owner = np.empty(0, dtype=np.int64)
        self.size = np.empty(0, dtype=np.int64)

    def add(self, texts: Iterable[str]) -> None:
        """Add some texts behind those here."""
        sets = [np.unique(trigrams(text)).tolist() for text in texts]
        numbers = [self._number.setdefault(one, len(self._number)) for row in sets for one in row]
        size = np.array([len(row) for row in sets], dtype=np.int64)
        owner = np.repeat(np.arange(len(sets), dtype=np.int64) + len(self.size), size)
        self._trigram = np.concatenate([self._trigram, np.array(numbers, dtype=np.int64)])
        self._owner = np.concatenate([self._owner, owner])
        self.size = np.concatenate([self.size, size])

    def shared(self, asked: IntArray) -> IntArray:
        """How many of some distinct trigrams each text has, shape (n_texts,)."""
        among = np.zeros(len(self._number), dtype=np.bool_)
        among[[self._number[one] for one in asked.tolist() if one in self._number]] = True
        return np.bincount(self._owner[among[self._trigram]], minlength=len(self.size))


class TrigramIndex:
    """Similarity of a text to the paths and contents of rows, to which more are added; for one thread at a time."""

    def __init__(self) -> None:
        self._texts: list[tuple[str, str]] = []
        self._paths, self._contents = TrigramSets(), TrigramSets()  # of a long content the beginning

    def similar(self, texts: Sequence[tuple[str, str]], text: str, *, measure: str, threshold: float) -> FloatArray:
        """The greater of the similarities of a text to each path and content, shape (n,); see `TextIndex.similar`.

        Args:
            texts: path and content of every row; those of an earlier call, and more behind them.
            text, measure, threshold: as there.
        """
        new = texts[len(self._paths.size) :]
        self._paths.add(path for path, _ in new)
        self._contents.add(content[:_PREFIX] for _, content in new)
        ordered = trigrams(text)
        asked = np.unique(ordered)
        shared = self._paths.shared(asked)
        by_path = _similarity(shared, self._paths.size, len(asked))
        if measure == "word_similarity":
            by_path = np.zeros_like(by_path)
            for row in np.flatnonzero(shared > threshold * self._paths.size).tolist():
                by_path[row] = word_similarity(trigrams(texts[row][0]), ordered)
        shared = self._contents.shared(asked)
        by_content = _similarity(shared, self._contents.size, len(asked))
        # of n trigrams at most len(asked) are shared, so that with too many no content is above the threshold
        for row in np.flatnonzero((self._contents.size * threshold <= len(asked)) & (shared > 0)).tolist():
            content = texts[row][1]
            if len(content) > _PREFIX:
                own = np.unique(trigrams(content))
                common = np.isin(asked, own, assume_unique=True).sum(keepdims=True)
                by_content[row] = _similarity(common, np.array([len(own)]), len(asked))[0]
        return above(np.maximum(by_path, by_content), threshold)


def _similarity(shared: IntArray, size: IntArray, n_asked: int) -> npt.NDArray[np.float32]:
    """How many trigrams two texts share of those that either has, shape (n,); 0 where neither has any."""
    either = size + n_asked - shared
    share = np.zeros(len(size))
    np.divide(shared, either, out=share, where=either > 0)
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
