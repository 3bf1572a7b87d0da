"""The SQLite store, and the import of memories from JSON lines.

Several processes may use the file. It has a write-ahead log, so readers and a writer do not wait for each other, and
every change is one transaction: after a kill the file has what was committed.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Self

from ctxbench.catalogs.agent_file import other_kind
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    StorageError,
    UnknownNameError,
    merge_equal_faults,
    raise_faults,
)
from ctxbench.io.files import folder_fault, make_private_file, readable
from ctxbench.io.rows import Row, jsonl_rows, read_text_value
from ctxbench.memory.memories import (
    SUFFICIENT,
    Event,
    Forget,
    Memory,
    Relationship,
    checked,
    checked_name,
    stored_metadata,
    things_of,
    time_named,
    unknown,
)
from ctxbench.memory.stores import MemoryStore
from ctxbench.model.items import ITEM_TYPES, Item, ItemKey

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


class SqliteStore(MemoryStore):
    """A store in a file. Deleted memories are in neither the file nor its log afterwards.

    A deletion rewrites the file, so delete many memories at once.

    Args:
        path: the file, in a folder that is there.
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
        self.path = Path(path)
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
        """Close the store; the next use opens it again. A `ParameterError` inside `together`."""
        self._check_outside("close")
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
        """Make all inserts, updates and relationships of this thread inside it one transaction.

        A `ParameterError` or `InputError` that is caught inside undoes only its own call. After a failure of SQLite
        nothing is kept, and every later call inside raises a `StorageError`. `delete` and `close` are not allowed.
        """
        with self._transaction():
            yield

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
        if self._process != os.getpid():
            # SQLite forbids the use, and closing, of a connection that was inherited by a fork.
            self._inherited, self._connection = self._connection, None
            self._process = os.getpid()
            if self._inside:  # the transaction of the parent process is not ours
                self._inside, self._kept = False, {}
        if self._connection is None:
            path = readable(self.path, repeatedly=True)
            if why := folder_fault(path.parent):
                raise StorageError(f"cannot open {path}: {path.parent}: {why}; create that folder, or name another")
            if path.is_dir() or not (self._create or path.exists()):
                why = "it is a folder" if path.is_dir() else "no such file"
                raise StorageError(f"cannot open {path}: {why}; expected a database of memories")
            if self._create and not path.exists():
                make_private_file(path)
            try:
                db = sqlite3.connect(path.absolute(), timeout=self._busy, isolation_level=None, check_same_thread=False)
                self._connection = db
                with self._telling():
                    self._prepare(db)
            except BaseException as error:
                self.close()
                if isinstance(error, sqlite3.Error):
                    raise self._fault(error) from error
                raise
        return self._connection

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
        rows = []
        for seq, id_, type_, *plain, metadata in self._sql(_VERSIONS + where, *values):
            columns = dict(
                zip(_COLUMNS, (*plain, {} if metadata == "{}" else stored_metadata(metadata, id_)), strict=True)
            )
            rows.append((seq, Memory(workspace=workspace, id=id_, type=type_, **columns)))
        return rows

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


_SAID = ("content", "kind", "confidence", "conversation", "user", "metadata")  # fields that a version can change
_version = attrgetter("created", *_SAID)
_version_of_item = attrgetter("created", "text", *_SAID[1:])
_FIELDS = (
    {name: name for name in ("id", *_SAID, "created", "until", "workspace", "relationships", "links", "enabled")}
    | {f"{name}_id": name for name in ("conversation", "user", "workspace")}  # as in the memory document, and `type`
    | {"_id": "id", "text": "content", "type": "kind", "created_at": "created"}  # the first two of a corpus.jsonl
    | {"version": "version"}  # not read: versions are counted by their times
)
_OF_ITEMS = {spec.name for spec in fields(Item)} - _FIELDS.keys()  # fields of a corpus.jsonl that memories lack
_LINK = '{"type": ..., "target": memory id}'


@dataclass(frozen=True)
class ImportedMemories:
    """The counts of an import.

    Attributes:
        new: new memories.
        versions: new versions of existing memories.
        same: rows that change nothing.
        relationships: relationships in the rows.
        elsewhere: ignored rows of other workspaces.
    """

    new: int
    versions: int
    same: int
    relationships: int
    elsewhere: int


@dataclass(frozen=True)
class _MemoryRow:
    """A row: the memory in its stored form, its end and links; `dated` if the row has a creation time."""

    row: Row
    memory: Memory
    dated: bool
    until: str | None
    links: tuple[tuple[str, str], ...]

    def is_among(self, versions: Sequence[tuple[Any, ...]], *, last: bool) -> bool:
        """Whether a version equals the row; for a row about the present, whether the current version does.

        A row is about the present if it has no time, or is the last row of its memory and has no end.
        """
        own_version = _version(self.memory)
        if self.dated and (self.until or not last):
            return own_version in versions
        return own_version[1:] in [
            version[1:] for version in versions[-1:] if not self.dated or own_version[0] <= version[0]
        ]

    def begins(self, versions: Sequence[tuple[Any, ...]]) -> str | None:
        """The time from which the row is the current version; None = now, as when an edit is undone."""
        version = _version(self.memory)
        return None if not self.dated or (version in versions and version[0] <= versions[-1][0]) else version[0]


@dataclass(frozen=True)
class MemoryFile:
    """The rows of a workspace in a file, in order of time, and the number of other rows."""

    path: Path
    workspace: str
    rows: Sequence[_MemoryRow]
    elsewhere: int


def read_memories(path: Path, workspace: str) -> MemoryFile:
    """Read JSON lines; rows of other workspaces, and rows that end when they begin, are ignored.

    Raises:
        InputError: rows are wrong: all faults that can be found without the store.
        ParameterError: there is no row.
        UnknownNameError: no row is of the workspace.
    """
    faults: list[Fault] = []
    rows: list[_MemoryRow] = []
    elsewhere: Counter[str] = Counter()
    read_rows = list(jsonl_rows(path, faults))
    if not any("content" in row.data for row in read_rows) and (kind := other_kind(path)):
        raise InputError([Fault(f"nothing was imported: {kind}; memories have an id and content", path)])
    for row in read_rows:
        row, before = replace(row, data=_of_memory(row.data)), len(faults)
        row.refuse_unknown(tuple(_FIELDS))
        named = [name for name, value in row.data.items() if name in _FIELDS and value is not None]
        values = {_FIELDS[name]: row.data[name] for name in named}
        if twice := [name for name in named if [_FIELDS[field_name] for field_name in named].count(_FIELDS[name]) > 1]:
            row.fault(Message("memory.fields-alike", fields=" and ".join(map(repr, twice))))
        if (row_workspace := values.get("workspace", workspace)) != workspace:
            elsewhere[str(row_workspace)] += 1
        elif len(faults) == before:
            memory_row = _memory_row(row, values, workspace)
            if len(faults) == before and memory_row.until != memory_row.memory.created:
                rows.append(memory_row)
    rows.sort(key=attrgetter("memory.created"))
    _check_order(rows)
    raise_faults(merge_equal_faults(faults), subject=_subject(path))
    if not rows and elsewhere:
        raise UnknownNameError("workspace", workspace, elsewhere, where=f": no row of {path} has it")
    if not rows:
        raise ParameterError(f"{path} has no memory; expected one per line, such as {{'id': ..., 'content': ...}}")
    return MemoryFile(path, workspace, rows, sum(elsewhere.values()))


def import_memories(
    store: SqliteStore, file: MemoryFile, *, progress: Callable[[int, int], None] | None = None
) -> ImportedMemories:
    """Import a file into its workspace, which is created if it does not exist.

    Rows are imported in order of time. A row with an existing id is a later version of that memory, unless a version
    is equal to it: importing a file again changes nothing. The last row of a memory is its current state: if it equals
    an earlier version, and another version is current, it becomes a version from now on. A later version has the values
    of its row, and defaults for missing fields. Relationships are added; nothing is deleted.

    Args:
        store: where to.
        file: from `read_memories`.
        progress: called with (memories stored, memories to store).

    Raises:
        InputError: rows contradict stored memories; nothing was stored.
    """
    rows, workspace = file.rows, file.workspace
    with store.together():
        store.create_workspace(workspace)
        stored: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)  # versions by id, oldest first
        for item in store.catalog(workspace):
            stored[item.name.rpartition("@")[0]].append(_version_of_item(item))
        new: list[Memory] = []
        later: list[tuple[_MemoryRow, str | None]] = []  # and since when
        last = {row.memory.id: row for row in rows}
        for memory_row in rows:
            versions = stored[memory_row.memory.id]
            if not memory_row.is_among(versions, last=last[memory_row.memory.id] is memory_row):
                later += [(memory_row, memory_row.begins(versions))] if versions else []
                new += [] if versions else [memory_row.memory]
                versions.append(_version(memory_row.memory))
        store.insert_many(new, progress=progress)
        for memory_row, begin in later:
            with _faults_of(memory_row.row):
                store.update(
                    workspace,
                    memory_row.memory.id,
                    at=begin,
                    **{name: getattr(memory_row.memory, name) for name in _SAID},
                )
        _check_ends(rows, stored)
        links = {(row.memory.id, *link): row.row for row in rows for link in row.links}
        for (source, kind, target), row in links.items():
            with _faults_of(row):
                store.relate(Relationship(workspace=workspace, source=source, target=target, type=kind))
        raise_faults(sorted(rows[0].row.faults, key=attrgetter("line")), subject=_subject(file.path))
    return ImportedMemories(len(new), len(later), len(rows) - len(new) - len(later), len(links), file.elsewhere)


def _subject(path: Path) -> str:
    return f"{path}: nothing was imported"


def _check_order(rows: Sequence[_MemoryRow]) -> None:
    """Add a fault for rows of one memory that differ but have no times, or the same time."""
    first: dict[tuple[str, str | None], _MemoryRow] = {}
    for row in rows:
        before = first.setdefault((row.memory.id, row.memory.created if row.dated else None), row)
        if _version(before.memory)[1:] != _version(row.memory)[1:]:
            when = " at the same time" * row.dated
            row.row.fault(Message("memory.row-conflict", line=before.row.line, name=row.memory.id, when=when))


def _memory_row(row: Row, values: Mapping[str, Any], workspace: str) -> _MemoryRow:
    """Read one row; adds to its faults."""
    stated = {name: values[name] for name in (*_SAID, "created") if name in values}
    problems: list[str] = []
    id_, until = values.get("id"), values.get("until")
    try:
        id_ = _memory_id(id_) if "_id" in row.data and isinstance(id_, str) else id_
        until = until and time_named("until", str(until))
    except ParameterError as error:
        problems.append(str(error))
    memory = checked(Memory(**{"content": None, **stated, "id": id_, "workspace": workspace}), problems)
    if until and not problems and until < str(memory.created):
        problems.append(Message("memory.until-before-created", until=until, created=memory.created))
    if values.get("enabled", True) is not True:
        problems.append(Message("memory.not-enabled"))
    field_names = {_FIELDS[name]: name for name in row.data if name in _FIELDS}
    for message in problems:
        name, blank, rest = message.partition(" ")
        row.fault(f"{field_names.get(name, name)}{blank}{rest}")  # with the field name of the row
    links = row.read_list("relationships", _link, expected=_LINK)
    links += tuple(
        link for link in row.read_list("links", _link, expected=_LINK) if link[1] != id_
    )  # to another version
    return _MemoryRow(row, memory, "created" in values, until, links)


def _of_memory(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a row; of an item of a corpus.jsonl only those of memories."""
    if "_id" not in data:
        return data
    item = _OF_ITEMS | {"type"} if data.get("type") in ITEM_TYPES else _OF_ITEMS
    return {name: value for name, value in data.items() if name not in item}


def _memory_id(text: str) -> str:
    """The id of a memory from that of an item, `memory:<id>@<version>`."""
    key = ItemKey.parse(text)
    if key.type != "memory":
        raise ParameterError(f"{text!r} is not a memory; only memories can be imported")
    return key.name.partition("@")[0]


def _link(entry: Any) -> tuple[str, str]:
    target = entry["target"] if "target" in entry else _memory_id(read_text_value(entry["item"]))
    return read_text_value(entry["type"]), read_text_value(target)


@contextmanager
def _faults_of(row: Row) -> Iterator[None]:
    """Turn errors of the store inside it into faults of the row."""
    try:
        yield
    except ParameterError as error:
        row.fault(str(error))


def _check_ends(rows: Sequence[_MemoryRow], stored: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
    """Add a fault for an end at which no version begins: a version ends when the next replaces it."""
    for memory_row in rows:
        if memory_row.until and all(created != memory_row.until for created, *_ in stored[memory_row.memory.id]):
            values = {"until": memory_row.until, "name": memory_row.memory.id}
            memory_row.row.fault(Message("memory.end-without-successor", **values))
