"""Memories in one SQLite file, which several processes may use.

It has a write-ahead log, so that readers and a writer do not wait for each other, and every change is one transaction:
a process may be killed at any moment, and the file holds what was committed.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from ctxbench.core.errors import ParameterError, StorageError
from ctxbench.core.items import Catalog
from ctxbench.io.files import folder_fault, readable
from ctxbench.stores.memories import (
    BATCH,
    Forget,
    KeptCatalogs,
    Memory,
    Progress,
    Relationship,
    accepted,
    accepted_one,
    check_relationship,
    name_fault,
    successor,
    unknown,
    version_at,
)
from ctxbench.stores.sqlite_schema import APPLICATION, MIGRATIONS

_LOOK_UP = 500  # ids a statement, below SQLite's oldest limit of 999 variables
_COLUMNS = ("version", "content", "kind", "confidence", "created", "conversation", "user", "until", "metadata")
_PLAIN = attrgetter(*_COLUMNS[:-1])  # metadata is written as JSON
_ADD_MEMORY = "INSERT INTO memories (key, workspace, id) VALUES (?, ?, ?)"
_ADD_VERSION = f"INSERT INTO versions (workspace, memory, {', '.join(_COLUMNS)}) VALUES (?, ?{', ?' * 9})"  # noqa: S608
_VERSIONS = f"SELECT seq, id, {', '.join(_COLUMNS)} FROM versions JOIN memories ON key = memory "  # noqa: S608
_RELATIONSHIPS = (
    "SELECT one.id, other.id, type FROM relationships JOIN memories one ON one.key = source"
    " JOIN memories other ON other.key = target WHERE one.workspace = ? {} ORDER BY relationships.key"
)


class SqliteStore:
    """A `MemoryStore` in a file. What `delete` took out is in neither the file nor its log afterwards.

    That takes as long as writing the file anew, so delete many at once rather than one by one.

    Args:
        path: the file, in a folder that is there.
        create: make the file where there is none; False: that is an error.
        busy_seconds: how long to wait for another process's transaction before that is an error.
        forget: called by `delete` with the texts that no memory has any more, so that their vectors go, too. It is
            called first, so that a process that is killed in between leaves too little rather than too much.

    Raises:
        StorageError: the file cannot be opened or made, is no database of memories, or a newer version's.
    """

    def __init__(
        self, path: Path | str, *, create: bool = True, busy_seconds: float = 30.0, forget: Forget | None = None
    ) -> None:
        self.path = Path(path)
        self._create, self._busy, self._forget = create, busy_seconds, forget
        self._catalogs = KeptCatalogs()
        self._lock = threading.RLock()
        self._process = 0
        self._connection: sqlite3.Connection | None = None
        self._inherited: sqlite3.Connection | None = None
        self._open()

    def create_workspace(self, name: str) -> None:
        """As of `MemoryStore`."""
        if fault := name_fault("the name of a workspace", name):
            raise ParameterError(fault)
        with self._transaction() as db:
            db.execute("INSERT INTO workspaces (name) VALUES (?) ON CONFLICT DO NOTHING", (name,))

    def workspaces(self) -> tuple[str, ...]:
        """As of `MemoryStore`."""
        with self._transaction("DEFERRED") as db:
            return _names(db)

    def insert(self, memory: Memory) -> Memory:
        """As of `MemoryStore`."""
        with self._transaction() as db:
            row = accepted_one(memory, lambda *asked: _taken(db, *asked))
            _add(db, [row])
        return row

    def insert_many(self, memories: Iterable[Memory], *, progress: Progress | None = None) -> int:
        """As of `MemoryStore`."""

        def taken(workspace: str, ids: Sequence[str]) -> list[str]:
            with self._transaction("DEFERRED") as db:
                return _taken(db, workspace, ids)

        rows = accepted(memories, taken)
        for start in range(0, len(rows), BATCH):
            with self._transaction() as db:
                _add(db, rows[start : start + BATCH])
            if progress is not None:
                progress(min(start + BATCH, len(rows)), len(rows))
        return len(rows)

    def update(self, workspace: str, id: str, *, at: str | None = None, **changes: Any) -> Memory:  # noqa: A002
        """As of `MemoryStore`."""
        with self._transaction() as db:
            place, key = _place(db, workspace, id)
            ended, new = successor(_versions(db, workspace, "WHERE memory = ?", key)[-1][1], at, changes)
            ending = (ended.until, key, ended.version)
            db.execute("UPDATE versions SET until = ? WHERE memory = ? AND version = ?", ending)
            db.execute(_ADD_VERSION, _values(new, place, key))
            _altered(db, place)
        return new

    def delete(self, workspace: str, id: str, *more: str) -> None:  # noqa: A002
        """As of `MemoryStore`. Where another process reads all the time, it is an error that says what is left."""
        with self._transaction() as db:
            places = [_place(db, workspace, one) for one in dict.fromkeys((id, *more))]
            db.execute("CREATE TEMP TABLE IF NOT EXISTS gone (memory INTEGER PRIMARY KEY)")
            db.execute("DELETE FROM gone")
            db.executemany("INSERT INTO gone VALUES (?)", [(key,) for _, key in places])
            if self._forget is not None:
                texts = "SELECT content FROM versions WHERE memory {} IN gone"
                only = f"{texts.format('')} EXCEPT {texts.format('NOT')}"
                self._forget([text for (text,) in db.execute(only)])
            db.execute("DELETE FROM memories WHERE key IN gone")
            db.execute("INSERT INTO unscrubbed VALUES (datetime())")
            _altered(db, places[0][0])
        with self._lock:
            self._scrub(self._open())

    def get(self, workspace: str, id: str, *, at: str | None = None) -> Memory:  # noqa: A002
        """As of `MemoryStore`."""
        with self._transaction("DEFERRED") as db:
            _, key = _place(db, workspace, id)
            return version_at([row for _, row in _versions(db, workspace, "WHERE memory = ?", key)], at)

    def relate(self, relationship: Relationship) -> None:
        """As of `MemoryStore`."""
        with self._transaction() as db:
            place, ends = _ends(db, relationship)
            add = "INSERT INTO relationships (source, target, type) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
            if db.execute(add, ends).rowcount:
                _altered(db, place)

    def unrelate(self, relationship: Relationship) -> None:
        """As of `MemoryStore`."""
        with self._transaction() as db:
            place, ends = _ends(db, relationship)
            if not db.execute("DELETE FROM relationships WHERE (source, target, type) = (?, ?, ?)", ends).rowcount:
                raise unknown("no such relationship is there:", relationship)
            _altered(db, place)

    def relationships(self, workspace: str, id: str) -> tuple[Relationship, ...]:  # noqa: A002
        """As of `MemoryStore`."""
        with self._transaction("DEFERRED") as db:
            place, key = _place(db, workspace, id)
            return tuple(_relationships(db, workspace, place, key))

    def catalog(self, workspace: str) -> Catalog:
        """As of `MemoryStore`."""
        with self._lock:
            own = self._open().in_transaction  # what `together` has changed so far is kept for nobody else
        with self._transaction("DEFERRED") as db:
            place, revision, altered = _state(db, workspace)

            def read(mark: int) -> tuple[list[Memory], list[Relationship], int]:
                where = "WHERE versions.workspace = ? AND seq > ? ORDER BY seq"
                rows = _versions(db, workspace, where, place, mark)
                related = [] if mark else _relationships(db, workspace, place)
                return [row for _, row in rows], related, rows[-1][0] if rows else mark

            return (KeptCatalogs() if own else self._catalogs).of(workspace, revision, altered, read)

    def revision(self, workspace: str) -> int:
        """As of `MemoryStore`."""
        with self._transaction("DEFERRED") as db:
            return _state(db, workspace)[1]

    def close(self) -> None:
        """As of `MemoryStore`."""
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Inside, all that this thread inserts, updates and relates is one transaction: all of it is kept, or nothing.

        Nothing is deleted inside.
        """
        with self._transaction():
            yield

    # ---- the file

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Commit at the end, roll back on any error; IMMEDIATE takes the write lock at once, DEFERRED only reads.

        Inside of another one it is a part of that.
        """
        with self._lock:
            db = self._open()
            inside = db.in_transaction
            if inside:
                yield db
                return
            try:
                db.execute(f"BEGIN {kind}")
                yield db
                db.execute("COMMIT")
            except BaseException as error:
                if db.in_transaction:  # SQLite itself rolls back on some errors
                    db.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error | json.JSONDecodeError):
                    raise self._fault(error) from error
                raise

    def _open(self) -> sqlite3.Connection:
        """This process's connection."""
        if self._process != os.getpid():
            # SQLite forbids the use, and closing, of a connection that was inherited by a fork.
            self._inherited, self._connection = self._connection, None
            self._process = os.getpid()
        if self._connection is None:
            path = readable(self.path, again=True)
            if why := folder_fault(path.parent):
                raise StorageError(f"cannot open {path}: {path.parent}: {why}; expected a folder to list")
            if path.is_dir() or not (self._create or path.exists()):
                why = "it is a folder" if path.is_dir() else "no such file"
                raise StorageError(f"cannot open {path}: {why}; expected a database of memories")
            try:
                db = sqlite3.connect(path.absolute(), timeout=self._busy, isolation_level=None, check_same_thread=False)
                try:
                    self._prepare(db)
                except BaseException:
                    db.close()
                    raise
            except sqlite3.Error as error:
                raise self._fault(error) from error
            self._connection = db
        return self._connection

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Make the schema this version's, and make up for a deletion that was cut short."""
        version, newest = self._schema(db), len(MIGRATIONS)
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA secure_delete = ON")
        db.execute("PRAGMA journal_mode = WAL")
        if version < newest:
            db.execute("BEGIN IMMEDIATE")
            for statement in ";".join(MIGRATIONS[self._schema(db) :]).split(";"):
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION}")
            db.execute(f"PRAGMA user_version = {newest}")
            db.execute("COMMIT")
        db.execute("PRAGMA busy_timeout = 0")
        with suppress(StorageError):  # others are at work, or it cannot be written: whoever comes next does it
            self._scrub(db)
        db.execute(f"PRAGMA busy_timeout = {self._busy * 1000:.0f}")

    def _schema(self, db: sqlite3.Connection) -> int:
        """The version of the file's schema, 0 where there is none yet."""
        tables, version, application = (
            db.execute(query).fetchone()[0]
            for query in ("SELECT count(*) FROM sqlite_master", "PRAGMA user_version", "PRAGMA application_id")
        )
        if application != APPLICATION and (tables or version):
            raise StorageError(f"{self.path} is a database of something else; expected one of memories")
        if version > len(MIGRATIONS):
            known = f"schema {version}, and this version of ctxbench knows {len(MIGRATIONS)}"
            raise StorageError(f"{self.path} has {known}; update ctxbench. Nothing was changed there")
        return int(version)

    def _scrub(self, db: sqlite3.Connection) -> None:
        """Write the file anew and empty its log where something was deleted.

        `secure_delete` alone leaves copies of cells behind that moved to another page before they were deleted.
        """
        try:
            if not db.execute("SELECT count(*) FROM unscrubbed").fetchone()[0]:
                return
            db.execute("VACUUM")
            why = "another process reads it" if db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] else ""
            if not why:
                db.execute("DELETE FROM unscrubbed")
        except sqlite3.Error as error:
            why = str(error)
        if why:
            said = f"the memories are deleted, but their text may still be in {self.path} ({why})"
            raise StorageError(f"{said}; it goes when the file is next opened while no one else uses it")

    def _fault(self, error: Exception) -> StorageError:
        """What SQLite's error means for the user."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        said = {
            sqlite3.SQLITE_BUSY: f"kept locked by another process for {self._busy:g} s; end that process or try again",
            sqlite3.SQLITE_FULL: "no room on the disk; make some and try again. What was stored is kept",
            sqlite3.SQLITE_NOTADB: "it is no database; expected one of memories",
            sqlite3.SQLITE_READONLY: "it cannot be written; make the file and its folder writable",
            sqlite3.SQLITE_CANTOPEN: "it cannot be opened; make the file and its folder readable and writable",
            sqlite3.SQLITE_CONSTRAINT: "another process wrote the same at the same time; try again",
        }.get(code, f"{error}; look at the disk, or go back to a copy")
        return StorageError(f"cannot use {self.path}: {said}")


def _names(db: sqlite3.Connection) -> tuple[str, ...]:
    return tuple(name for (name,) in db.execute("SELECT name FROM workspaces ORDER BY key"))


def _state(db: sqlite3.Connection, workspace: str) -> tuple[int, int, int]:
    """The key of a workspace, its revision, and that at the last write that was no insert."""
    asked = (workspace if name_fault("", workspace) == "" else "",)  # what is no name is in no table
    found = db.execute("SELECT key, revision, altered FROM workspaces WHERE name = ?", asked).fetchone()
    if found is None:
        raise unknown("unknown workspace", workspace, _names(db))
    return found[0], found[1], found[2]


def _place(db: sqlite3.Connection, workspace: str, id_: str) -> tuple[int, int]:
    """The keys of a workspace and of a memory in it."""
    place, _, _ = _state(db, workspace)
    asked = (place, id_ if name_fault("", id_) == "" else "")
    found = db.execute("SELECT key FROM memories WHERE workspace = ? AND id = ?", asked).fetchone()
    if found is None:
        known = (one for (one,) in db.execute("SELECT id FROM memories WHERE workspace = ?", (place,)))
        raise unknown(f"workspace {workspace!r} has no memory", id_, known)
    return place, found[0]


def _taken(db: sqlite3.Connection, workspace: str, ids: Sequence[str]) -> list[str]:
    place, _, _ = _state(db, workspace)
    found: list[str] = []
    for start in range(0, len(ids), _LOOK_UP):
        part = ids[start : start + _LOOK_UP]
        query = f"SELECT id FROM memories WHERE workspace = ? AND id IN ({','.join('?' * len(part))})"  # noqa: S608
        found += [id_ for (id_,) in db.execute(query, (place, *part))]
    return found


def _ends(db: sqlite3.Connection, relationship: Relationship) -> tuple[int, tuple[int, int, str]]:
    """The key of the workspace, and the values of a row of relationships."""
    check_relationship(relationship)
    place, source = _place(db, relationship.workspace, relationship.source)
    return place, (source, _place(db, relationship.workspace, relationship.target)[1], relationship.type)


def _add(db: sqlite3.Connection, rows: Sequence[Memory]) -> None:
    """Insert memories that are new."""
    places = {name: _state(db, name)[0] for name in dict.fromkeys(row.workspace for row in rows)}
    first = db.execute("SELECT coalesce(max(key), 0) + 1 FROM memories").fetchone()[0]
    keyed = [(places[row.workspace], key, row) for key, row in enumerate(rows, first)]
    db.executemany(_ADD_MEMORY, [(key, place, row.id) for place, key, row in keyed])
    db.executemany(_ADD_VERSION, [_values(row, place, key) for place, key, row in keyed])
    changed = [(place,) for place in places.values()]
    db.executemany("UPDATE workspaces SET revision = revision + 1 WHERE key = ?", changed)


def _altered(db: sqlite3.Connection, place: int) -> None:
    """Note a write that was no insert."""
    db.execute("UPDATE workspaces SET revision = revision + 1, altered = revision + 1 WHERE key = ?", (place,))


def _values(row: Memory, place: int, key: int) -> tuple[Any, ...]:
    return (place, key, *_PLAIN(row), json.dumps(row.metadata) if row.metadata else "{}")


def _versions(db: sqlite3.Connection, workspace: str, where: str, *given: int) -> list[tuple[int, Memory]]:
    """Versions with their places in the order of additions."""
    rows = []
    for seq, id_, *plain, metadata in db.execute(_VERSIONS + where, given):
        said = dict(zip(_COLUMNS, (*plain, {} if metadata == "{}" else json.loads(metadata)), strict=True))
        rows.append((seq, Memory(workspace=workspace, id=id_, **said)))
    return rows


def _relationships(db: sqlite3.Connection, workspace: str, place: int, key: int | None = None) -> list[Relationship]:
    """Those of a workspace, or those of one memory of it."""
    asked = (place,) if key is None else (place, key, key)
    query = _RELATIONSHIPS.format("" if key is None else "AND (source = ? OR target = ?)")
    ends = db.execute(query, asked)
    return [Relationship(workspace=workspace, source=one, target=other, type=kind) for one, other, kind in ends]
