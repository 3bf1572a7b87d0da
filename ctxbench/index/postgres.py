"""The text index in PostgreSQL: a generated tsvector with a GIN index, ts_rank, ts_headline and pg_trgm."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from ctxbench.core.arrays import FloatArray, IntArray
from ctxbench.core.errors import check_choice
from ctxbench.core.installation import install_command
from ctxbench.core.items import Item
from ctxbench.index.text_index import MEASURES, TextIndexError, above
from ctxbench.index.words import composed, phrases, separated

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
_ADDRESS = "CTXBENCH_POSTGRES"
_OLDEST = 12  # the first with generated columns
_SECONDS = 10  # for a connection, where the address does not say
_LONGEST = 500  # characters of a word that is searched; PostgreSQL takes 2,047 bytes, also of blanks
_SAFE = 300_000  # bytes of text whose tsvector is below PostgreSQL's limit of 1 MB, whatever they are
_LIMIT = 1_000_000  # bytes of a tsvector, some less than that limit
_WORD = 8  # bytes that a word takes beside its letters: two of its length, two of how many places, two a place
_TOGETHER = 500  # texts that are sent at once
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
        """See `TextIndex.marks`; of a word of several parts each is marked, wherever it stands, as ts_headline does."""
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
                _refuse(f"the database failed: {_first_line(error)}", "see its log; nothing was changed by it")


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        _refuse("it needs psycopg, which is not installed", f"run: {install_command('postgres')}")
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
        example = "postgresql://user@localhost/name"
        _refuse(f"the environment variable {_ADDRESS} is not set", f"set it to a connection string such as {example}")
    try:
        options = {"connect_timeout": _SECONDS, **conninfo_to_dict(address), "client_encoding": "utf8"}
    except psycopg.ProgrammingError:  # its message may hold a password
        _refuse(
            f"{_ADDRESS} holds no connection string", "write it as postgresql://user@host/name or host=... dbname=..."
        )
    try:
        connection = psycopg.connect(**options, autocommit=True)
    except psycopg.OperationalError as error:
        _refuse(f"the server of {_ADDRESS} does not answer: {_first_line(error)}", "start it, or mend the address")
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
        _refuse(f"PostgreSQL {version} has no generated columns", f"use version {_OLDEST} or newer")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        _refuse(f"the database is encoded in {encoding}", "use one that was created with ENCODING 'UTF8'")
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
            missing = "" if "pg_trgm" not in str(error) else ", with pg_trgm of PostgreSQL's contrib"
            who = "have the schema ctxbench made by who may make it"
            _refuse(f"the database cannot be prepared: {_first_line(error)}", f"{who}{missing}")


def _refuse(problem: str, do: str) -> NoReturn:
    raise TextIndexError(f"text_index:postgres: {problem}; {do}") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _query_phrases(words: Sequence[str]) -> list[str]:
    """The phrases to search for, each with blanks between its parts, which are no syntax."""
    return [" ".join(phrase) for phrase in phrases(words) if max(map(len, phrase)) <= _LONGEST]


class _Sent:
    """A text as it is sent to be marked, its words with a blank between, and where these stand in the text."""

    def __init__(self, text: str) -> None:
        words = [word for word in re.finditer("[^ ]+", separated(text)) if len(word[0]) <= _LONGEST]
        self.text = " ".join(word[0] for word in words)
        self._original = [word.start() for word in words]
        self._sent = list(accumulate((len(word[0]) + 1 for word in words), initial=0))

    def original(self, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Where parts of words of what is sent stand in the text."""
        rows = [bisect_right(self._sent, first) - 1 for first, _ in spans]
        shifts = [self._original[row] - self._sent[row] for row in rows]
        return [(first + shift, end + shift) for (first, end), shift in zip(spans, shifts, strict=True)]


def _spans(marked: str) -> list[tuple[int, int]]:
    """Where the parts between `_START` and `_STOP` stand in a text without these."""
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
