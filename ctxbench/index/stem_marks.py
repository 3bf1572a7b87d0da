"""Where the words of a request stand in texts, by the stems that FTS5 gives them."""

from __future__ import annotations

import re
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence

from ctxbench.index.words import cut, phrases, separated

TOKENIZER = "tokenize = \"porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'\""
_KEPT = 1_000_000  # words whose stems are known; then it starts anew
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
        """See `TextIndex.marks`; a word of several parts is marked as one, where they stand side by side."""
        query_phrases = phrases(words)
        with self._lock:
            if self._asked != query_phrases:  # one request marks the same excerpts for their prices and for the prompt
                self._asked, self._marked = query_phrases, {}
            if len(self._stem) > _KEPT or self._n_letters > _LETTERS:
                self._stem.clear()
                self._n_letters = 0
            self._learn({word for phrase in query_phrases for word in phrase})
            stemmed_phrases = [stems for phrase in query_phrases if all(stems := [self._stem[word] for word in phrase])]
            for text in texts:
                if text not in self._marked:
                    self._marked[text] = list(self._of_text(f" {separated(text)} ", stemmed_phrases))
            return [list(self._marked[text]) for text in texts]

    def stems(self, phrase: Sequence[str]) -> tuple[str, ...]:
        """The stems of some words; a word that FTS5 has none for stands for itself."""
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
