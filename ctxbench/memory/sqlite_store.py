"""The SQLite store.

Several processes may use the file. It has a write-ahead log, so readers and a writer do not wait for each other, and
every change is one transaction: after a kill the file has what was committed.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

from ctxbench.io.errors import (
    Message,
    ParameterError,
    StorageError,
)
from ctxbench.io.files import Closing, folder_fault, make_private_file, readable
from ctxbench.memory.memories import (
    SUFFICIENT,
    Event,
    Forget,
    Memory,
    Relationship,
    checked_name,
    stored_metadata,
    things_of,
    unknown,
)
from ctxbench.memory.stores import MemoryStore

APPLICATION = 0x6378626D  # "cxbm", the mark of our databases
MIGRATIONS = (  # from each version of the schema to the next; released ones are never changed
    """
    CREATE TABLE workspaces (key INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
        revision INTEGER NOT NULL DEFAULT 0, altered INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE memories (key INTEGER PRIMARY KEY, workspace INTEGER NOT NULL REFERENCES workspaces,
        id TEXT NOT NULL, UNIQUE (workspace, id));
    CREATE TABLE versions (seq INTEGER PRIMARY KEY, workspace INTEGER NOT NULL REFERENCES workspaces,
        memory INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE, version INTEGER NOT NULL,
        content TEXT NOT NULL, kind TEXT NOT NULL, confidence REAL NOT NULL, created TEXT NOT NULL,
        conversation TEXT, user TEXT, until TEXT, metadata TEXT NOT NULL, UNIQUE (memory, version));
    CREATE INDEX versions_of_workspace ON versions (workspace);
    CREATE TABLE relationships (key INTEGER PRIMARY KEY, type TEXT NOT NULL,
        source INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE,
        target INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE, UNIQUE (source, target, type));
    CREATE INDEX relationships_to ON relationships (target);
    CREATE TABLE unscrubbed (since TEXT NOT NULL)
    """,  # unscrubbed has a row while deleted text may be in the file
    """
    ALTER TABLE memories ADD COLUMN type TEXT NOT NULL DEFAULT 'memory';
    CREATE TABLE events (key INTEGER PRIMARY KEY, workspace INTEGER NOT NULL REFERENCES workspaces,
        memory INTEGER NOT NULL REFERENCES memories ON DELETE CASCADE,
        kind TEXT NOT NULL, user TEXT, conversation TEXT, at TEXT NOT NULL, useful INTEGER,
        metadata TEXT NOT NULL);
    CREATE INDEX events_of_user ON events (workspace, kind, user, at);
    CREATE INDEX events_of_conversation ON events (workspace, conversation, at);
    CREATE INDEX events_of_memory ON events (memory)
    """,
    """
    CREATE TABLE all_events (key INTEGER PRIMARY KEY, workspace INTEGER NOT NULL REFERENCES workspaces,
        memory INTEGER REFERENCES memories ON DELETE CASCADE, context TEXT, things TEXT,
        kind TEXT NOT NULL, user TEXT, conversation TEXT, at TEXT NOT NULL, useful INTEGER,
        metadata TEXT NOT NULL, CHECK ((memory IS NULL) = (context IS NOT NULL AND things IS NOT NULL)));
    INSERT INTO all_events SELECT key, workspace, memory, NULL, NULL, kind, user, conversation, at, useful, metadata
        FROM events;
    DROP TABLE events;
    ALTER TABLE all_events RENAME TO events;
    CREATE INDEX events_of_user ON events (workspace, kind, user, at);
    CREATE INDEX events_of_conversation ON events (workspace, conversation, at);
    CREATE INDEX events_of_memory ON events (memory)
    """,  # an event is of a memory, or of a context that had the things whose ids are listed
)


_SILENCE = 3.0  # seconds to wait for another process before `waiting` is called
_SCHEMA = (
    "SELECT (SELECT count(*) FROM sqlite_master), user_version, application_id"
    " FROM pragma_user_version, pragma_application_id"
)
_COLUMNS = ("version", "content", "kind", "confidence", "created", "conversation", "user", "until", "metadata")
_PLAIN = attrgetter(*_COLUMNS[:-1])  # metadata is written as JSON
_ADD_MEMORY = "INSERT INTO memories (key, workspace, id, type) VALUES (?, ?, ?, ?)"
_ADD_VERSION = f"INSERT INTO versions (workspace, memory, {', '.join(_COLUMNS)}) VALUES (?, ?{', ?' * 9})"  # noqa: S608
_GROWN = "UPDATE workspaces SET revision = revision + 1 WHERE key = ?"
_VERSIONS = f"SELECT seq, id, type, {', '.join(_COLUMNS)} FROM versions JOIN memories ON key = memory "  # noqa: S608
_EVENT = ("kind", "user", "conversation", "at", "useful", "metadata")
_OF_WHAT = ("workspace", "memory", "context", "things")
_ADD_EVENT = f"INSERT INTO events ({', '.join((*_OF_WHAT, *_EVENT))}) VALUES (?{', ?' * 9})"  # noqa: S608
_EVENTS = (
    f"SELECT coalesce(id, context), {', '.join(f'events.{name}' for name in _EVENT)}"  # noqa: S608
    " FROM events LEFT JOIN memories ON memories.key = memory"
)
_RELATIONSHIPS = (
    "SELECT one.id, other.id, relationships.type FROM relationships JOIN memories one ON one.key = source"
    " JOIN memories other ON other.key = target WHERE one.workspace = ? {} ORDER BY relationships.key"
)


_SQLITE_FAULTS = {
    sqlite3.SQLITE_BUSY: "memory.sqlite-busy",
    sqlite3.SQLITE_FULL: "memory.sqlite-full",
    sqlite3.SQLITE_NOTADB: "memory.sqlite-no-database",
    sqlite3.SQLITE_READONLY: "memory.sqlite-read-only",
    sqlite3.SQLITE_CANTOPEN: "memory.sqlite-cannot-open",
    sqlite3.SQLITE_CONSTRAINT: "memory.sqlite-constraint",
}


class SqliteStore(MemoryStore, Closing):
    """A store in a file, or in memory. Deleted memories are in neither the file nor its log afterwards.

    A deletion rewrites the file, so delete many memories at once.

    Args:
        path: the file, in a folder that is there; `:memory:` is a store that ends with its process.
        create: create a missing file; False: a missing file is an error.
        busy_seconds: how long to wait for the transaction of another process.
        waiting: called with `busy_seconds`, in another thread, after three seconds of waiting for another process.
        forget: called by `delete` with the texts that no memory has any more, to delete their vectors. It is called
            before the memories are deleted.

    Raises:
        StorageError: the file cannot be opened or created, is not a database of memories, or is of a newer version.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        create: bool = True,
        busy_seconds: float = 30.0,
        waiting: Callable[[float], None] | None = None,
        forget: Forget | None = None,
    ) -> None:
        super().__init__(forget)
        self.path, self._in_memory = Path(path), str(path) == ":memory:"
        self._create, self._busy, self._waiting = create, busy_seconds, waiting
        self._process, self._inside = 0, False
        self._connection: sqlite3.Connection | None = None
        self._inherited: sqlite3.Connection | None = None
        self._open()

    def workspaces(self) -> tuple[str, ...]:
        """The names of all workspaces, in order of creation."""
        with self._transaction(reads=True):
            return tuple(name for (name,) in self._sql("SELECT name FROM workspaces ORDER BY key"))

    def delete(self, workspace: str, id: str, *other_ids: str) -> None:  # noqa: A002
        """Delete memories, all versions, with their relationships and events.

        Raises:
            StorageError: another process reads all the time, so that the deleted text is still in the file.
            ParameterError: a memory is unknown, or this is inside `together`.
        """
        self._check_outside("delete")
        with self._transaction():
            rows = [self._row_keys(workspace, memory_id) for memory_id in (id, *other_ids)]
            keys, gone = json.dumps([key for _, key in rows]), "IN (SELECT value FROM json_each(?))"
            if self._forget is not None:
                texts = "SELECT content FROM versions WHERE memory"
                self._forget([text for (text,) in self._sql(f"{texts} {gone} EXCEPT {texts} NOT {gone}", keys, keys)])
            self._sql(f"DELETE FROM memories WHERE key {gone}", keys)  # noqa: S608
            of_context = "EXISTS (SELECT 1 FROM json_each(things) WHERE value IN (SELECT value FROM json_each(?)))"
            ids = json.dumps([id, *other_ids])
            self._sql(f"DELETE FROM events WHERE workspace = ? AND {of_context}", rows[0][0], ids)  # noqa: S608
            self._sql("INSERT INTO unscrubbed VALUES (datetime())")
            self._alter(rows[0][0])
        with self._lock:
            self._scrub(self._open())

    def close(self) -> None:
        """Close the file; the next use opens it again. A `ParameterError` inside `together`."""
        self._check_outside("close")
        if self._in_memory:
            return
        with self._lock:
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    # ---- the file

    @contextmanager
    def _transaction(self, *, reads: bool = False) -> Iterator[None]:
        """Commit at the end, roll back on errors; a write locks the file at once. Nested ones are one transaction."""
        with self._lock:
            db, inside = self._open(), self._inside
            before = None if inside else dict(self._kept)
            try:
                if not inside:
                    with nullcontext() if reads else self._telling():
                        db.execute("BEGIN DEFERRED" if reads else "BEGIN IMMEDIATE")
                    self._inside = True
                self._check_open(db)
                yield
                self._check_open(db)
                if not inside:
                    db.execute("COMMIT")
            except BaseException as error:
                fault = self._fault(error) if isinstance(error, sqlite3.Error | json.JSONDecodeError) else None
                self._kept = (
                    self._kept if before is None else before
                )  # without catalogs of changes that were rolled back
                if (fault or not inside) and db.in_transaction:  # SQLite itself rolls back on some errors
                    db.execute("ROLLBACK")
                if fault:
                    raise fault from error
                raise
            finally:
                self._inside = inside

    def _check_open(self, db: sqlite3.Connection) -> None:
        """Raise if a failure has rolled back the transaction."""
        if not db.in_transaction:
            raise StorageError(f"{self.path}: an earlier failure undid all changes made together; make them again")

    def _check_outside(self, action: str) -> None:
        """Raise if a transaction is open."""
        with self._lock:
            if self._inside and self._process == os.getpid():
                raise ParameterError(f"{action} is not allowed inside `together`; call it afterwards")

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Call `waiting` if the block waits for another process."""
        if self._waiting is None:
            yield
            return
        timer = threading.Timer(_SILENCE, self._waiting, [self._busy])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _open(self) -> sqlite3.Connection:
        """This process's connection."""
        if self._process != os.getpid() and not (self._in_memory and self._connection):
            # SQLite forbids the use, and closing, of a connection that was inherited by a fork.
            self._inherited, self._connection = self._connection, None
            self._process = os.getpid()
            if self._inside:  # the transaction of the parent process is not ours
                self._inside, self._kept = False, {}
        if self._connection is None:
            address = ":memory:" if self._in_memory else str(self._checked_path().absolute())
            try:
                db = sqlite3.connect(address, timeout=self._busy, isolation_level=None, check_same_thread=False)
                self._connection = db
                if self._in_memory:  # nothing else closes it, and from Python 3.13 on that is a warning
                    weakref.finalize(self, db.close)
                with self._telling():
                    self._prepare(db)
            except BaseException as error:
                self.close()
                if isinstance(error, sqlite3.Error):
                    raise self._fault(error) from error
                raise
        return self._connection

    def _checked_path(self) -> Path:
        """The file, which exists."""
        path = readable(self.path, repeatedly=True)
        if why := folder_fault(path.parent):
            raise StorageError(f"cannot open {path}: {path.parent}: {why}; create that folder, or name another")
        if path.is_dir() or not (self._create or path.exists()):
            why = "it is a folder" if path.is_dir() else "no such file"
            raise StorageError(f"cannot open {path}: {why}; expected a database of memories")
        if self._create and not path.exists():
            make_private_file(path)
        return path

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Migrate the schema, and finish a deletion that was interrupted."""
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
        with suppress(StorageError):  # busy or read-only: the next process does it
            self._scrub(db)
        db.execute(f"PRAGMA busy_timeout = {self._busy * 1000:.0f}")

    def _schema(self, db: sqlite3.Connection) -> int:
        """The version of the file's schema; 0 for an empty file."""
        tables, version, application = db.execute(_SCHEMA).fetchone()
        if application != APPLICATION and (tables or version):
            raise StorageError(f"{self.path} is a database of another application; expected a database of memories")
        if version > len(MIGRATIONS):
            raise StorageError(
                f"{self.path} has schema {version}, but this version of ctxbench supports {len(MIGRATIONS)}; update "
                "ctxbench; nothing was changed"
            )
        return int(version)

    def _scrub(self, db: sqlite3.Connection) -> None:
        """Rewrite the file and empty its log after a deletion.

        `secure_delete` alone leaves copies of cells that moved to another page before their deletion.
        """
        try:
            if not db.execute("SELECT count(*) FROM unscrubbed").fetchone()[0]:
                return
            db.execute("VACUUM")
            if not db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                db.execute("DELETE FROM unscrubbed")
                return
            why = "another process reads it"
        except sqlite3.Error as error:
            why = str(error)
        raise StorageError(
            f"the memories are deleted, but their text may still be in {self.path} ({why}); it is removed when the "
            "file is next opened by one process alone"
        )

    def _fault(self, error: Exception) -> StorageError:
        """The `StorageError` for an error of SQLite."""
        key = _SQLITE_FAULTS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "memory.sqlite-error")
        return StorageError(f"cannot use {self.path}: {Message(key, error=error, seconds=self._busy)}")

    # ---- the tables

    def _sql(self, statement: str, *values: Any) -> sqlite3.Cursor:
        return self._open().execute(statement, values)

    def _room(self, workspace: str) -> tuple[int, int, int]:
        """The key of a workspace, its revision, and its revision at the last write that needs a new catalog."""
        row = self._sql("SELECT key, revision, altered FROM workspaces WHERE name = ?", _as_text(workspace)).fetchone()
        if row is None:
            raise unknown("unknown workspace", workspace, self.workspaces())
        return row[0], row[1], row[2]

    def _row_keys(self, workspace: str, id_: str) -> tuple[int, int]:
        """The keys of a workspace and of a memory in it."""
        room, _, _ = self._room(workspace)
        row = self._sql("SELECT key FROM memories WHERE workspace = ? AND id = ?", room, _as_text(id_)).fetchone()
        if row is None:
            ids = (memory_id for (memory_id,) in self._sql("SELECT id FROM memories WHERE workspace = ?", room))
            raise unknown(f"workspace {workspace!r} has no memory", id_, ids)
        return room, row[0]

    def _make(self, workspace: str) -> None:
        self._sql("INSERT INTO workspaces (name) VALUES (?) ON CONFLICT DO NOTHING", workspace)

    def _existing_ids(self, workspace: str, ids: Sequence[str]) -> list[str]:
        query = "SELECT id FROM memories WHERE workspace = ? AND id IN (SELECT value FROM json_each(?))"
        return [id_ for (id_,) in self._sql(query, self._room(workspace)[0], json.dumps(ids))]

    def _add(self, rows: Sequence[Memory]) -> None:
        rooms = {name: self._room(name)[0] for name in dict.fromkeys(row.workspace for row in rows)}
        first = self._sql("SELECT coalesce(max(key), 0) + 1 FROM memories").fetchone()[0]
        keyed = [(rooms[row.workspace], key, row) for key, row in enumerate(rows, first)]
        db = self._open()
        db.executemany(_ADD_MEMORY, [(key, room, row.id, row.type) for room, key, row in keyed])
        db.executemany(_ADD_VERSION, [_values(row, room, key) for room, key, row in keyed])
        db.executemany(_GROWN, [(room,) for room in rooms.values()])

    def _versions(self, workspace: str, id_: str) -> list[Memory]:
        _, key = self._row_keys(workspace, id_)
        return [row for _, row in self._rows(workspace, "WHERE memory = ?", key)]

    def _added(self, workspace: str, mark: int) -> tuple[list[Memory], int]:
        where = "WHERE versions.workspace = ? AND seq > ? ORDER BY seq"
        rows = self._rows(workspace, where, self._room(workspace)[0], mark)
        return [row for _, row in rows], rows[-1][0] if rows else mark

    def _rows(self, workspace: str, where: str, *values: int) -> list[tuple[int, Memory]]:
        """Versions with their position in the order of addition."""
        rows = (
            (seq, id_, type_, (*plain, {} if metadata == "{}" else stored_metadata(metadata, id_)))
            for seq, id_, type_, *plain, metadata in self._sql(_VERSIONS + where, *values)
        )
        return [
            (seq, Memory(workspace=workspace, id=id_, type=type_, **dict(zip(_COLUMNS, columns, strict=True))))
            for seq, id_, type_, columns in rows
        ]

    def _succeed(self, ended: Memory, new: Memory) -> None:
        room, key = self._row_keys(new.workspace, new.id)
        self._sql("UPDATE versions SET until = ? WHERE memory = ? AND version = ?", ended.until, key, ended.version)
        self._sql(_ADD_VERSION, *_values(new, room, key))
        self._sql(_GROWN, room)

    def _relate(self, relationship: Relationship, *, exists: bool) -> bool:
        room, source = self._row_keys(relationship.workspace, relationship.source)
        _, target = self._row_keys(relationship.workspace, relationship.target)
        add = "INSERT INTO relationships (source, target, type) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        take = "DELETE FROM relationships WHERE (source, target, type) = (?, ?, ?)"
        changed = self._sql(add if exists else take, source, target, relationship.type).rowcount > 0
        if changed:
            self._alter(room)
        return changed

    def _links(self, workspace: str, id_: str | None = None) -> list[Relationship]:
        if id_ is None:
            ends = self._sql(_RELATIONSHIPS.format(""), self._room(workspace)[0])
        else:
            room, key = self._row_keys(workspace, id_)
            ends = self._sql(_RELATIONSHIPS.format("AND (source = ? OR target = ?)"), room, key, key)
        return [Relationship(workspace=workspace, source=start, target=end, type=kind) for start, end, kind in ends]

    def _record(self, events: Sequence[Event]) -> None:
        for event in events:
            room, of = self._room(event.workspace)[0], (None, event.id, json.dumps(things_of(event)))
            if event.kind != SUFFICIENT:
                of = (self._row_keys(event.workspace, event.id)[1], None, None)  # type: ignore[assignment]
            self._sql(
                _ADD_EVENT, room, *of, *(getattr(event, name) for name in _EVENT[:-1]), json.dumps(event.metadata)
            )
            self._sql(_GROWN, room)

    def _events(self, workspace: str, **of: str | None) -> Iterator[Event]:
        where = "".join(f" AND events.{name} IS ?" for name in of)
        order = f"{_EVENTS} WHERE events.workspace = ?{where} ORDER BY at DESC, events.key DESC"
        for id_, *columns, useful, metadata in self._sql(order, self._room(workspace)[0], *of.values()):
            values = dict(zip(_EVENT[:4], columns, strict=True))
            useful, metadata = None if useful is None else bool(useful), json.loads(metadata)
            yield Event(workspace=workspace, id=id_, useful=useful, metadata=metadata, **values)

    def _state(self, workspace: str) -> tuple[int, int]:
        return self._room(workspace)[1:]

    def _alter(self, room: int) -> None:
        """Note a write that needs a new catalog."""
        self._sql("UPDATE workspaces SET revision = revision + 1, altered = revision + 1 WHERE key = ?", room)


def _as_text(name: str) -> str:
    """A name to look up; an invalid name becomes the empty text, which no table has."""
    try:
        return checked_name("", name)
    except ParameterError:
        return ""


def _values(row: Memory, room: int, key: int) -> tuple[Any, ...]:
    return (room, key, *_PLAIN(row), json.dumps(row.metadata) if row.metadata else "{}")
