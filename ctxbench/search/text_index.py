"""Full-text search with trigrams, in SQLite FTS5 or PostgreSQL.

Trigrams are those of pg_trgm: each word with two blanks before and one after. Source: PostgreSQL, contrib/pg_trgm
(`similarity`, `word_similarity`), which the tests compare with.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import sqlite3
import threading
import weakref
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from ctxbench.io.errors import Message, check_choice, install_command
from ctxbench.model.arrays import BoolArray, FloatArray, IntArray
from ctxbench.model.items import Item
from ctxbench.search.words import MEASURES, PATH_WEIGHT, TextIndexError, above, composed, cut, phrases, separated

if TYPE_CHECKING:
    import psycopg


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
    return np.asarray(np.append(rising, -1)[np.searchsorted(rising, some)] == some)


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
        rows = np.flatnonzero(self._paths.shared(distinct, limit=np.inf) > threshold * self._paths.size).tolist()
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


TOKENIZER = "tokenize = \"porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'\""
_KEPT_STEMS = 1_000_000  # words whose stems are known; then it starts anew
_LETTERS = 32_000_000  # of these words together
_FOREIGN = re.compile(r"(?<= )[^ \x00-\x7f]|(?<= )[!-~]+[^ \x00-\x7f]")  # a word in which FTS5 may change any letter


class StemMarks:
    """Marks words of equal stem.

    Only what begins like a wanted stem is looked at, and FTS5, which would split whole texts, is asked for the stem of
    each such word once. Usable from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        weakref.finalize(self, self._db.close).atexit = False  # a thread that is late may be in it then
        self._db.execute(f"CREATE VIRTUAL TABLE said USING fts5(word, {TOKENIZER})")
        self._db.execute("CREATE VIRTUAL TABLE stems USING fts5vocab(said, instance)")
        self._stem: dict[str, str] = {}
        self._n_letters = 0
        self._asked = list[tuple[str, ...]]()  # the last words, and below the texts in which they were marked
        self._marked = dict[str, list[tuple[int, int]]]()

    def marks(self, texts: Sequence[str], words: Sequence[str]) -> list[list[tuple[int, int]]]:
        """See `TextIndex.marks`; a word of several adjacent parts is marked as one."""
        query_phrases = phrases(words)
        with self._lock:
            if self._asked != query_phrases:  # one request marks the same excerpts for their prices and for the prompt
                self._asked, self._marked = query_phrases, {}
            if len(self._stem) > _KEPT_STEMS or self._n_letters > _LETTERS:
                self._stem.clear()
                self._n_letters = 0
            self._learn({word for phrase in query_phrases for word in phrase})
            stemmed_phrases = [stems for phrase in query_phrases if all(stems := [self._stem[word] for word in phrase])]
            for text in texts:
                if text not in self._marked:
                    self._marked[text] = list(self._of_text(f" {separated(text)} ", stemmed_phrases))
            return [list(self._marked[text]) for text in texts]

    def stems(self, phrase: Sequence[str]) -> tuple[str, ...]:
        """The stems of some words; a word without a stem in FTS5 is its own stem."""
        with self._lock:
            self._learn(phrase)
            return tuple(self._stem[word] or word for word in phrase)

    def _of_text(self, text: str, phrase_stems: Sequence[Sequence[str]]) -> Iterator[tuple[int, int]]:
        """The marks in a separated text between blanks, without the first of these; those that share a word are one."""
        by_first: dict[str, list[Sequence[str]]] = {}
        for phrase in phrase_stems:
            by_first.setdefault(phrase[0], []).append(phrase)
        starts = {match.start() for match in _FOREIGN.finditer(text)} if not text.isascii() else set[int]()
        for beginning in {f" {_prefix(stem)}" for stem in by_first}:
            at = text.find(beginning)
            while at >= 0:
                starts.add(at + 1)
                at = text.find(beginning, at + 1)
        words = {start: text[start : text.index(" ", start)] for start in starts}
        self._learn(set(words.values()))
        first = last = 0
        for start in sorted(start for start, word in words.items() if self._stem[word] in by_first):
            word = words[start]
            end = max([self._end(text, start + len(word), phrase[1:]) for phrase in by_first[self._stem[word]]])
            if end and start >= last:
                if last:
                    yield first - 1, last - 1
                first = start
            last = max(last, end)
        if last:
            yield first - 1, last - 1

    def _end(self, text: str, end: int, stems: Sequence[str]) -> int:
        """Where words of some stems end that follow a word which ends at `end`; 0 = others do."""
        for stem in stems:
            start = end
            while text[start : start + 1] == " ":
                start += 1
            end = text.find(" ", start)
            self._learn([word := text[start:end]])
            if self._stem[word] != stem:
                return 0
        return end

    def _learn(self, words: Iterable[str]) -> None:
        """Ask for the stems of words that are not known."""
        new = [word for word in words if word not in self._stem]
        if not new:
            return
        self._db.execute("BEGIN")
        try:
            self._db.executemany("INSERT INTO said (rowid, word) VALUES (?, ?)", enumerate(cut(new)))
            stems = self._db.execute("SELECT doc, term FROM stems ORDER BY doc, offset").fetchall()
        finally:
            self._db.execute("ROLLBACK")
        of_word: list[list[str]] = [[] for _ in new]
        for row, stem in stems:
            of_word[row].append(stem or "")  # none of an accent by itself
        self._stem.update(zip(new, map(" ".join, of_word), strict=True))
        self._n_letters += sum(map(len, new))


def _prefix(stem: str) -> str:
    """What every word of a stem begins with: Porter's rules change the last letter that they leave, of `-ble` two."""
    return (stem[:-2] if stem.endswith(("bl", "ble")) else stem[:-1]) or stem[:1]


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
            raise TextIndexError(
                f"text_index:fts5: SQLite {sqlite3.sqlite_version} of this Python was built without FTS5 ({error}); "
                f"use another Python, or text_index:postgres"
            ) from None
        self._row: dict[tuple[str, str], int] = {}
        self._texts: list[tuple[str, str]] = []
        self._length = np.empty(0, dtype=np.int64)  # words of each row
        self._postings: OrderedDict[tuple[str, ...], _Held] = OrderedDict()
        self._n_rows = 0
        self._trigrams, self._stems = TrigramIndex(), StemMarks()

    def rows(self, items: Sequence[Item]) -> IntArray:
        """See `TextIndex.rows`."""
        texts = [(item.path, item.text) for item in items]
        with self._lock:
            first = len(self._texts)
            new = [text for text in dict.fromkeys(texts) if text not in self._row]
            with self._db:  # all or nothing: what is interrupted leaves no row behind
                self._db.execute("BEGIN")
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

    def _hold_common(self) -> None:
        """Look up, before anybody waits for it, the words that many rows hold: each takes as long as ten others."""
        common = "SELECT term FROM terms WHERE doc >= ?"
        for (term,) in self._db.execute(common, (_COMMON * len(self._length),)).fetchall():
            if term and self._stems.stems([term]) == (term,):  # some stems have another stem in turn
                self._holding((term,))

    def _holding(self, phrase: tuple[str, ...]) -> _Held:
        """The rows that hold a phrase, or one of the same stems."""
        none, key = np.empty(0, dtype=np.int32), self._stems.stems(phrase)
        posting = self._postings.pop(key, _Held(0, none, none))
        self._n_rows -= len(posting.row)
        n_rows = len(self._length)
        if posting.n_rows < n_rows:
            arguments = (-_WHOLE, PATH_WEIGHT, _quoted(phrase), posting.n_rows)
            rows, scores = self._db.execute(_ONE_WORD, arguments).fetchone()
            if rows:
                row, score = (np.array(column.split(), dtype=np.int64) for column in (rows, scores))
                count = self._counts(row, score / _WHOLE, len(posting.row) + len(row))
                posting = _Held(n_rows, np.append(posting.row, row.astype(np.int32)), np.append(posting.often, count))
            posting = posting._replace(n_rows=n_rows)
        self._postings[key] = posting
        self._n_rows += len(posting.row)
        while self._n_rows > _KEPT and len(self._postings) > 1:
            self._n_rows -= len(self._postings.popitem(last=False)[1].row)
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


T = TypeVar("T")
_ADDRESS = "CTXBENCH_POSTGRES"
_OLDEST = 12  # the first with generated columns
_SECONDS = 10  # for a connection, where the address does not say
_LONGEST = 500  # characters of a word that is searched; PostgreSQL takes 2,047 bytes, also of blanks
_SAFE = 300_000  # bytes of text whose tsvector is below PostgreSQL's limit of 1 MB, whatever they are
_LIMIT = 1_000_000  # bytes of a tsvector, some less than that limit
_WORD = 8  # bytes that a word takes beside its letters: two of its length, two of how many places, two a place


_START, _STOP = "\x01", "\x02"  # round a match; no separated text holds them
_MARKED = re.compile(f"{_START}[^{_STOP}]*{_STOP}")
# a configuration of our own takes off English endings as `english` does, and keeps function words, so that a phrase can
# hold some; they are left out of what is asked
_SETUP = """
CREATE TEXT SEARCH DICTIONARY ctxbench.stem (TEMPLATE = snowball, LANGUAGE = english);
CREATE TEXT SEARCH CONFIGURATION ctxbench.words (PARSER = default);
ALTER TEXT SEARCH CONFIGURATION ctxbench.words
    ADD MAPPING FOR asciiword, word, numword, int, uint, float, sfloat WITH ctxbench.stem;
CREATE AGGREGATE ctxbench.any_of (tsquery) (SFUNC = tsquery_or, STYPE = tsquery);
CREATE AGGREGATE ctxbench.every_of (tsquery) (SFUNC = tsquery_and, STYPE = tsquery);
CREATE TABLE ctxbench.files (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash bytea NOT NULL UNIQUE,
    path text NOT NULL,
    content text NOT NULL,
    searched text,
    words tsvector NOT NULL GENERATED ALWAYS AS (
        setweight(to_tsvector('ctxbench.words', path), 'A')
        || setweight(to_tsvector('ctxbench.words', coalesce(searched, content)), 'D')
    ) STORED,
    trigrams integer NOT NULL GENERATED ALWAYS AS (cardinality(show_trgm(content))) STORED
);
CREATE INDEX ON ctxbench.files USING gin (words);
"""
_TRIGRAMS = "CREATE EXTENSION pg_trgm SCHEMA ctxbench"
_QUERY = (
    "(SELECT ctxbench.{}_of(phraseto_tsquery('ctxbench.words', word)) FROM unnest(%s::text[]) AS word) AS given (query)"
)
_AMONG = "ctxbench.files WHERE id = ANY (%s)"


class PostgresIndex:
    """See `TextIndex`. Scores are `ts_rank`, which knows no other row.

    The database is the one of the connection string in `CTXBENCH_POSTGRES`; what is needed is made in its schema
    `ctxbench` if it is not there. Every call is one transaction. A connection that was lost is made anew once.

    Of a content whose distinct words take over 1 MB the first that fit are searched; of one of over 300,000 bytes all
    are, but behind these without order and number, so that a phrase is not found there. Words of over 500 characters
    are not searched.

    Raises:
        TextIndexError: psycopg or the address is missing, the server away or older than 12, pg_trgm not to be had.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._open: psycopg.Connection[Any] | None = None
        self._run(lambda _: None)

    def rows(self, items: Sequence[Item]) -> IntArray:
        """See `TextIndex.rows`; all that is added, or nothing."""
        texts = [(item.path, item.text) for item in items]
        digests = [hashlib.sha256(repr(text).encode("utf-8", "surrogatepass")).digest() for text in texts]
        by_hash = dict(zip(digests, texts, strict=True))

        def added(connection: psycopg.Connection[Any]) -> dict[bytes, int]:
            query, hashes = "SELECT hash, id FROM ctxbench.files WHERE hash = ANY(%s)", list(by_hash)
            row_of = dict(connection.execute(query, (hashes,)).fetchall())
            if missing := [digest for digest in hashes if digest not in row_of]:
                add = (
                    "INSERT INTO ctxbench.files (hash, path, content, searched) VALUES (%s, %s, %s, %s) "
                    "ON CONFLICT (hash) DO NOTHING"
                )
                for first in range(0, len(missing), _TOGETHER):
                    some = missing[first : first + _TOGETHER]
                    connection.cursor().executemany(add, ((digest, *_stored(*by_hash[digest])) for digest in some))
                row_of.update(connection.execute(query, (missing,)).fetchall())
            return row_of

        row = self._run(added)
        return np.array([row[digest] for digest in digests], dtype=np.int64)

    def scores(self, words: Sequence[str], table_rows: IntArray, *, match_all: bool) -> FloatArray:
        """See `TextIndex.scores`."""
        if not (query_phrases := _query_phrases(words)):
            return np.zeros(len(table_rows))
        query = _QUERY.format("every" if match_all else "any")
        # words far from each other can have a rank of 0
        ranked = f"SELECT id, greatest(ts_rank(words, query), 1e-20) FROM {query}, {_AMONG} AND words @@ query"  # noqa: S608 - of constants
        return self._by_row(ranked, (query_phrases,), table_rows)

    def similar(self, text: str, table_rows: IntArray, *, measure: str, threshold: float) -> FloatArray:
        """See `TextIndex.similar`."""
        check_choice("measure", measure, MEASURES)
        # of n trigrams at most those of the text are shared, so that with too many no content is above the threshold
        statement = (
            f"SELECT id, greatest({measure}(path, asked), CASE WHEN trigrams * %s <= cardinality(show_trgm(asked)) "  # noqa: S608
            f"THEN similarity(content, asked) ELSE 0 END) FROM (SELECT %s AS asked) AS given, {_AMONG}"
        )
        return above(self._by_row(statement, (threshold, composed(text)), table_rows).astype(np.float32), threshold)

    def marks(self, texts: Sequence[str], words: Sequence[str]) -> list[list[tuple[int, int]]]:
        """See `TextIndex.marks`; each part of a word is marked wherever it occurs, as by ts_headline."""
        if not (query_phrases := _query_phrases(words)):
            return [[] for _ in texts]
        query = (
            "SELECT ts_headline('ctxbench.words', text, query, %s) "  # noqa: S608
            f"FROM {_QUERY.format('any')}, unnest(%s::text[]) WITH ORDINALITY AS texts (text, place) ORDER BY place"
        )
        texts_sent = [_Sent(text) for text in texts]
        how = f'StartSel="{_START}", StopSel="{_STOP}", HighlightAll=true'
        sent = (how, query_phrases, [sent_text.text for sent_text in texts_sent])
        marked = self._run(lambda connection: connection.execute(query, sent).fetchall())
        return [sent_text.original(_spans(text)) for sent_text, (text,) in zip(texts_sent, marked, strict=True)]

    def _by_row(self, query: str, arguments: tuple[Any, ...], table_rows: IntArray) -> FloatArray:
        """What a query says of some rows, shape (n,), 0 where it says nothing."""
        distinct, position = np.unique(table_rows, return_inverse=True)
        rows = self._run(lambda connection: connection.execute(query, (*arguments, distinct.tolist())).fetchall())
        out = np.zeros(len(distinct))
        if rows:
            row, value = np.array(rows, dtype=np.float64).T
            out[np.searchsorted(distinct, row.astype(np.int64))] = value
        return out[position]

    def _run(self, work: Callable[[psycopg.Connection[Any]], T], *, retry: bool = True) -> T:
        """Do something in a transaction; once more (`again`) where the connection was lost meanwhile.

        Raises:
            TextIndexError: it cannot be done; nothing of it is.
        """
        with self._lock:
            try:
                if self._open is None:
                    self._open = _opened()
                    weakref.finalize(self, self._open.close)
                with self._open.transaction():
                    return work(self._open)
            except _psycopg().Error as error:
                if self._open is not None and self._open.closed:
                    self._open = None
                    if retry:
                        return self._run(work, retry=False)
                _refuse(Message("search.database-failed", error=_first_line(error)))


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        _refuse(Message("search.no-psycopg", command=install_command("postgres")))
    return psycopg


def _opened() -> psycopg.Connection[Any]:
    """A new connection to a database that has all that is needed.

    Raises:
        TextIndexError: there is none.
    """
    psycopg = _psycopg()
    from psycopg.conninfo import conninfo_to_dict

    address = os.environ.get(_ADDRESS)
    if not address:
        _refuse(Message("search.no-address", variable=_ADDRESS, example="postgresql://user@localhost/name"))
    try:
        options = {"connect_timeout": _SECONDS, **conninfo_to_dict(address), "client_encoding": "utf8"}
    except psycopg.ProgrammingError:  # its message may hold a password
        _refuse(Message("search.address-form", variable=_ADDRESS))
    try:
        connection = psycopg.connect(**options, autocommit=True)
    except psycopg.OperationalError as error:
        _refuse(Message("search.server-silent", variable=_ADDRESS, error=_first_line(error)))
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection  # type: ignore[no-any-return]


def _prepare(connection: psycopg.Connection[Any]) -> None:
    """Make what is needed in the database, where it is not there: all of it or nothing."""
    from psycopg import sql

    psycopg = _psycopg()
    version = connection.info.server_version // 10_000
    if version < _OLDEST:
        _refuse(Message("search.old-postgres", version=version, oldest=_OLDEST))
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        _refuse(Message("search.database-encoding", encoding=encoding))
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('ctxbench'))")  # two processes may come first
        statement = "SELECT to_regnamespace('ctxbench') IS NOT NULL, to_regclass('ctxbench.files') IS NOT NULL"
        ((schema, table),) = connection.execute(statement).fetchall()
        try:
            if not schema:
                connection.execute("CREATE SCHEMA ctxbench")
            where = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'pg_trgm'"
            if not (schemas := connection.execute(where).fetchall()):
                with connection.transaction():
                    connection.execute(_TRIGRAMS)
                schemas = [("ctxbench",)]
            path = sql.SQL("SET search_path = {}").format(sql.SQL(schemas[0][0]))  # as it is quoted already
            connection.execute(path)
            if not table:
                connection.execute(_SETUP)
        except psycopg.Error as error:
            _refuse(Message("search.database-not-prepared", error=_first_line(error)))


def _refuse(problem: Message) -> NoReturn:
    raise TextIndexError(f"text_index:postgres: {problem}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _query_phrases(words: Sequence[str]) -> list[str]:
    """The phrases to search for, each with blanks between its parts, which are no syntax."""
    return [" ".join(phrase) for phrase in phrases(words) if max(map(len, phrase)) <= _LONGEST]


class _Sent:
    """A text as it is sent for marking, words separated by blanks, with the positions of the words in the text."""

    def __init__(self, text: str) -> None:
        words = [word for word in re.finditer("[^ ]+", separated(text)) if len(word[0]) <= _LONGEST]
        self.text = " ".join(word[0] for word in words)
        self._original = [word.start() for word in words]
        self._sent = list(accumulate((len(word[0]) + 1 for word in words), initial=0))

    def original(self, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The positions in the text of parts of the sent words."""
        rows = [bisect_right(self._sent, first) - 1 for first, _ in spans]
        shifts = [self._original[row] - self._sent[row] for row in rows]
        return [(first + shift, end + shift) for (first, end), shift in zip(spans, shifts, strict=True)]


def _spans(marked: str) -> list[tuple[int, int]]:
    """The positions of the parts between `_START` and `_STOP` in the text without these."""
    return [(match.start() - 2 * n, match.end() - 2 - 2 * n) for n, match in enumerate(_MARKED.finditer(marked))]


def _stored(path: str, content: str) -> tuple[str, str, str | None]:
    """Path and content as they are stored, and what is searched in place of a content that is too long."""
    words = [word for word in composed(content).split() if len(word) <= _LONGEST]
    path, content = " ".join(word for word in composed(path).split() if len(word) <= _LONGEST), " ".join(words)
    if len(content.encode()) <= _SAFE:
        return path, content, None
    head = content.encode()[:_SAFE].decode(errors="ignore").split()[:-1]
    return path, content, " ".join((*head, *_fitting(words[len(head) :], set(head))))


def _fitting(words: Sequence[str], indexed: set[str]) -> Iterator[str]:
    """Words that are not held yet, as many as a tsvector has room for."""
    left = _LIMIT - 2 * _SAFE
    for word in dict.fromkeys(words):
        left -= 0 if word in indexed else len(word.encode()) + _WORD
        if left < 0:
            return
        if word not in indexed:
            yield word
