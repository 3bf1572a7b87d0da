"""The text index of this process: SQLite's FTS5 in memory, asked for one word at a time."""

from __future__ import annotations

import math
import sqlite3
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.items import Item
from ctxbench.index.stem_marks import TOKENIZER, StemMarks
from ctxbench.index.text_index import PATH_WEIGHT, TextIndexError
from ctxbench.index.trigrams import TrigramIndex
from ctxbench.index.words import composed, phrases

_K1, _B = 1.2, 0.75  # those of FTS5
_KEPT = 4_000_000  # rows of words that are kept for the next request; 8 bytes each
_MANY, _COMMON = 1000, 0.2  # rows from which on the words are looked up that this share of them holds
_WHOLE = 1e17  # scores are taken as whole numbers of its parts: short to write, and the highest are below 2 ** 63
# All rows as one: at each the module takes the interpreter's lock anew, and waits 5 ms for it if other threads run.
_ONE_WORD = """
    SELECT group_concat(row, ' '), group_concat(score, ' ') FROM (
        SELECT rowid AS row, CAST(? * bm25(files, ?, 1.0) AS INTEGER) AS score
        FROM files WHERE files MATCH ? AND rowid >= ? LIMIT -1  -- a limit, or `bm25` would be asked of the group
    )"""


class _Held(NamedTuple):
    """The rows that hold a phrase, rising, of the first `n_rows`, and how often; the path counts `PATH_WEIGHT`."""

    n_rows: int
    row: npt.NDArray[np.int32]
    often: npt.NDArray[np.int32]


class Fts5Index:
    """See `TextIndex`. Scores are BM25 as of FTS5, but over the rows that are asked about.

    FTS5 itself counts over its whole table, so that others' files would move a score. It is asked for the score of each
    word alone, from which how often a row holds the word follows. That is kept for the words that were asked last, and
    carried on where rows were added.

    Raises:
        TextIndexError: this Python's SQLite lacks FTS5.
    """

    def __init__(self) -> None:
        self._lock, self._comparing = threading.RLock(), threading.Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        weakref.finalize(self, self._db.close).atexit = False  # a thread that is late may be in it then
        try:
            self._db.execute(f"CREATE VIRTUAL TABLE files USING fts5(path, content, content = '', {TOKENIZER})")
            self._db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(files, row)")
        except sqlite3.OperationalError as error:
            fault = f"text_index:fts5: SQLite {sqlite3.sqlite_version} of this Python was built without FTS5 ({error})"
            raise TextIndexError(f"{fault}; use another Python, or text_index:postgres") from None
        self._row: dict[tuple[str, str], int] = {}
        self._texts: list[tuple[str, str]] = []
        self._length = np.empty(0, dtype=np.int64)  # words of each row
        self._held: OrderedDict[tuple[str, ...], _Held] = OrderedDict()
        self._n_held = 0
        self._trigrams, self._stems = TrigramIndex(), StemMarks()

    def rows(self, items: Sequence[Item]) -> IntArray:
        """See `TextIndex.rows`."""
        texts = [(item.path, item.text) for item in items]
        with self._lock:
            first = len(self._texts)
            new = [text for text in dict.fromkeys(texts) if text not in self._row]
            with self._transaction():
                records = ((row, composed(path), composed(text)) for row, (path, text) in enumerate(new, first))
                self._db.executemany("INSERT INTO files (rowid, path, content) VALUES (?, ?, ?)", records)
                sizes = self._db.execute("SELECT sz FROM files_docsize WHERE id >= ? ORDER BY id", (first,))
                lengths = np.array([_words_of(size) for (size,) in sizes], dtype=np.int64)
            self._length = np.concatenate([self._length, lengths])
            self._texts += new
            self._row.update((text, row) for row, text in enumerate(new, first))
            if len(new) > max(first, _MANY):
                self._hold_common()
            return np.array([self._row[text] for text in texts], dtype=np.int64)

    def scores(self, words: Sequence[str], table_rows: IntArray, *, match_all: bool) -> FloatArray:
        """See `TextIndex.scores`."""
        query_phrases = phrases(words)
        if not len(table_rows):
            return np.zeros(0)
        with self._lock:
            postings, length = [self._holding(phrase) for phrase in query_phrases], self._length
        norm = _K1 * (1 - _B + _B * length / max(float(length[table_rows].mean()), 1.0))
        repeats = np.bincount(table_rows, minlength=len(length))
        score, matched = np.zeros(len(length)), np.zeros(len(length), dtype=np.int64)
        for row, often in ((posting.row, posting.often) for posting in postings):
            n_holding = int(repeats[row].sum())
            rarity = math.log(1 + (len(table_rows) - n_holding + 0.5) / (n_holding + 0.5))
            score[row] += rarity * often * (_K1 + 1) / (often + norm[row])
            matched[row] += 1
        return np.where(matched == len(query_phrases), score, 0.0)[table_rows] if match_all else score[table_rows]

    def similar(self, text: str, table_rows: IntArray, *, measure: str, threshold: float) -> FloatArray:
        """See `TextIndex.similar`."""
        with self._comparing:  # apart from words, which need not wait for a long text to be compared
            return self._trigrams.similar(self._texts, text, measure=measure, threshold=threshold)[table_rows]

    def marks(self, texts: Sequence[str], words: Sequence[str]) -> list[list[tuple[int, int]]]:
        """See `TextIndex.marks`."""
        return self._stems.marks(texts, words)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing: what is interrupted leaves no row behind."""
        self._db.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _hold_common(self) -> None:
        """Look up, before anybody waits for it, the words that many rows hold: each takes as long as ten others."""
        common = "SELECT term FROM terms WHERE doc >= ?"
        for (term,) in self._db.execute(common, (_COMMON * len(self._length),)).fetchall():
            if term and self._stems.stems([term]) == (term,):  # some stems have another stem in turn
                self._holding((term,))

    def _holding(self, phrase: tuple[str, ...]) -> _Held:
        """The rows that hold a phrase, or one of the same stems."""
        none, key = np.empty(0, dtype=np.int32), self._stems.stems(phrase)
        posting = self._held.pop(key, _Held(0, none, none))
        self._n_held -= len(posting.row)
        n_rows = len(self._length)
        if posting.n_rows < n_rows:
            arguments = (-_WHOLE, PATH_WEIGHT, _quoted(phrase), posting.n_rows)
            rows, scores = self._db.execute(_ONE_WORD, arguments).fetchone()
            if rows:
                row, score = (np.array(column.split(), dtype=np.int64) for column in (rows, scores))
                count = self._counts(row, score / _WHOLE, len(posting.row) + len(row))
                posting = _Held(n_rows, np.append(posting.row, row.astype(np.int32)), np.append(posting.often, count))
            posting = posting._replace(n_rows=n_rows)
        self._held[key] = posting
        self._n_held += len(posting.row)
        while self._n_held > _KEPT and len(self._held) > 1:
            self._n_held -= len(self._held.popitem(last=False)[1].row)
        return posting

    def _counts(self, row: IntArray, score: FloatArray, n_holding: int) -> npt.NDArray[np.int32]:
        """How often rows hold a phrase, by the score that FTS5 gives each for it, shape (n,).

        Source: FTS5's `bm25()`, `rarity * f * (k1 + 1) / (f + k1 * (1 - b + b * length / mean length))`, in which
        rarity is log((N - n + 0.5) / (n + 0.5)), or 1e-6 where that is not above 0.
        """
        n_rows = len(self._length)
        rarity = math.log((n_rows - n_holding + 0.5) / (n_holding + 0.5))
        share = score / (rarity if rarity > 0 else 1e-6)
        norm = _K1 * (1 - _B + _B * self._length[row] * n_rows / int(self._length.sum()))
        return np.rint(share * norm / (_K1 + 1 - share)).astype(np.int32)


def _quoted(phrase: Sequence[str]) -> str:
    """A phrase as a string of FTS5, in which nothing is syntax."""
    return f'"{" ".join(phrase)}"'


def _words_of(sizes: bytes) -> int:
    """The sum of numbers of variable length: seven bits a byte, the last below 128."""
    total = number = 0
    for byte in sizes:
        number = number << 7 | byte & 127
        if byte < 128:
            total, number = total + number, 0
    return total
