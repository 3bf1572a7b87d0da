"""Rows of the cache that are checked when they are read: one SQLite file, from keys to values.

A row has a checksum over its key and its value. One that does not fit, because it was altered or stands under
another's key, is not returned; it is deleted, and the caller makes it again. A file that is damaged, or holds other
tables, is replaced; so rows of another form need another file name.

SQLite with its rollback journal, and every batch one transaction: a process may be killed at any moment and the
file holds all batches that were committed and nothing of the one that was not. Not the write-ahead log, which cannot
be read in a folder that cannot be written. Processes that write take turns by a lock of our own: SQLite's does not
keep one from replacing a damaged file while another writes it, whose journal would then pass for the new file's.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar
from zlib import crc32

from ctxbench.core.errors import StorageError
from ctxbench.io.files import exclusive
from ctxbench.io.leftovers import make_folder, make_private_file
from ctxbench.io.process_lock import ProcessLock

_BUSY_SECONDS = 60.0  # how long to wait for another process's transaction, which takes some milliseconds
_LOOK_UP = 500  # keys a statement, below SQLite's oldest limit of 999 variables
_PAGE = 16384  # bytes; ten vectors of 384 numbers on a page and little left over
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NOT_PERMITTED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY)
_DAMAGE = (  # kinds of error that come of what the file holds; its header may say that it is read-only
    *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA),
    *(sqlite3.SQLITE_FORMAT, sqlite3.SQLITE_READONLY),
)
_FAULTS = (sqlite3.Error, UnicodeDecodeError)  # the latter where SQLite's message quotes what is damaged

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class CheckedRows:
    """Rows in a file, which is opened at the first use and made at the first write. May be used from several threads.

    Where nothing can be read or written there are no rows, and `writable` is False: it is a cache.

    Args:
        path: the file.
        table: what its rows are called.
        maker: what made the values; rows that another made do not fit.
    """

    def __init__(self, path: Path, table: str, *, maker: str = "") -> None:
        self.path = path
        self._table = table
        self._seed = crc32(f"{table}\n{maker}".encode())
        self._schema = (
            f"CREATE TABLE {table} (key BLOB NOT NULL UNIQUE, value BLOB NOT NULL, checksum INTEGER NOT NULL)"
        )
        self._lock = ProcessLock()
        self._process = 0
        self._connection: sqlite3.Connection | None = None
        self._inherited: sqlite3.Connection | None = None
        self._given_up = False
        self._warned = False

    @property
    def writable(self) -> bool:
        """Whether `put` can store anything. A file in a read-only place can still be read.

        Raises:
            StorageError: as for `put`.
        """
        return bool(self._used(lambda _: self._may_write(), make=True, action="opened"))

    def get(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """The values that are there and fit their checksums, by key.

        Raises:
            StorageError: the file stays locked, or the disk fails.
        """
        unique_keys = dict.fromkeys(keys)
        return self._used(lambda connection: self._read_rows(connection, unique_keys), action="read") or {}

    def put(self, rows: Mapping[bytes, bytes]) -> None:
        """Add rows in one transaction: all of them or, whatever happens, none. Those that are there stay.

        Args:
            rows: values by key; all keys of a file are of one length, or the checksum could not tell where they end.

        Raises:
            StorageError: the disk is full, the place cannot be written, or the file stays locked.
        """
        if not self.writable:
            raise StorageError(
                f"{self.path} cannot be written; free its folder, or choose another cache folder (CTXBENCH_CACHE)"
            )
        marked = [(key, value, crc32(value, crc32(key, self._seed))) for key, value in rows.items()]
        insert = f"INSERT OR IGNORE INTO {self._table} VALUES (?, ?, ?)"  # noqa: S608
        self._used(lambda connection: self._write(connection, insert, marked), make=True, action="written")

    def remove(self, keys: Iterable[bytes]) -> None:
        """Take rows out for good, by writing the file anew: afterwards no file holds them. Keys may be unknown.

        Raises:
            StorageError: the place cannot be written, or the file stays locked; then they are still there.
        """
        gone = [(key,) for key in keys]

        def take(connection: sqlite3.Connection) -> None:
            if not self._may_write():
                raise StorageError(f"{self.path} cannot be written, so that nothing can be taken out; free its folder")
            self._write(connection, f"DELETE FROM {self._table} WHERE key = ?", gone)  # noqa: S608
            with self._alone():
                connection.execute("VACUUM")

        self._used(take, action="written")

    def __len__(self) -> int:
        count = f"SELECT count(*) FROM {self._table}"  # noqa: S608
        return self._used(lambda connection: int(connection.execute(count).fetchone()[0]), action="read") or 0

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    # ---- rows

    def _read_rows(self, connection: sqlite3.Connection, wanted_keys: Mapping[bytes, None]) -> dict[bytes, bytes]:
        keys = list(wanted_keys)
        values: dict[bytes, bytes] = {}
        unfit = False
        for start in range(0, len(keys), _LOOK_UP):
            part = keys[start : start + _LOOK_UP]
            marks = ",".join("?" * len(part))
            query = f"SELECT key, value, checksum FROM {self._table} WHERE key IN ({marks})"  # noqa: S608
            for key, value, checksum in connection.execute(query, part):
                if self._fits(key, value, checksum) and key in wanted_keys:
                    values[key] = value
                else:
                    unfit = True
        if unfit:
            if not self._warned:
                _log.warning("rows of %s do not fit their checksums; what they held is made again", self.path)
            self._warned = True
            if self._may_write():
                with self._alone():
                    connection.execute("REINDEX")  # that a key leads to another's row is the index's fault
                gone = [(key,) for key in keys if key not in values]
                self._write(connection, f"DELETE FROM {self._table} WHERE key = ?", gone)  # noqa: S608
        return values

    def _fits(self, key: object, value: object, checksum: object) -> bool:
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            return False
        return crc32(value, crc32(key, self._seed)) == checksum

    def _write(self, connection: sqlite3.Connection, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        """Execute a statement for each row, in one transaction."""
        with self._alone(), connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(statement, rows)

    # ---- the file

    def _used(self, use: Callable[[sqlite3.Connection], _T], *, make: bool = False, action: str) -> _T | None:
        """What `use` makes of the file, after another try if it was replaced; None where there is no file to use."""
        with self._lock:
            for last in (False, False, True):
                try:
                    connection = self._open(make=make)
                    return None if connection is None else use(connection)
                except _FAULTS as error:
                    self.close()
                    if last or not self._usable_again(error):
                        self._without(error, action)
                        break
                except BaseException:
                    self.close()  # nobody knows how far it got
                    raise
            return None

    def _open(self, *, make: bool) -> sqlite3.Connection | None:
        """This process's connection; the file is opened the first time, and made if asked for."""
        if self._process != os.getpid():
            # SQLite forbids the use, and closing, of a connection that was inherited by a fork.
            self._inherited, self._connection = self._connection, None
            self._process = os.getpid()
        if self._connection is None and not self._given_up:
            self._connection = self._connect(make=make)
        return self._connection

    def _connect(self, *, make: bool) -> sqlite3.Connection | None:
        """Open the file; None if there is none, or it has no table.

        Raises:
            sqlite3.DatabaseError: the file holds something else.
        """
        if make:
            self._make_folder()
        mode = "ro" if not self._may_write() else "rwc" if make else "rw"
        if mode == "rwc":
            make_private_file(self.path)
        elif not self.path.exists():
            return None
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=_Unopened,
        )
        connection.__class__ = _Opened
        connection.text_factory = bytes  # damage may make a text of a value, which need not be UTF-8
        tables = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
        rows = connection.execute(tables).fetchall()
        if not rows and mode == "rwc":  # a new file, or one of a process that was killed while it made it
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            self._write(connection, self._schema.replace("TABLE", "TABLE IF NOT EXISTS", 1), [()])
            rows = connection.execute(tables).fetchall()
        if rows and rows != [(self._schema.encode(),)]:
            raise sqlite3.DatabaseError("it holds other tables than expected")
        return connection if rows else None

    def _make_folder(self) -> None:
        try:
            make_folder(self.path.parent)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise StorageError(f"the folder {self.path.parent} cannot be made: {error.strerror}") from error

    def _may_write(self) -> bool:
        paths = [self.path.parent, self.path] if self.path.exists() else [self.path.parent]
        return all(os.access(path, os.W_OK) for path in paths)

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from writing the file, and from replacing it.

        Raises:
            StorageError: another process does so for long; or as for `exclusive`.
        """
        until = time.monotonic() + _BUSY_SECONDS

        def wait() -> None:
            if time.monotonic() > until:
                raise StorageError(self._kept_locked())

        return exclusive(self.path.with_name(f".{self.path.name}.lock"), waiting=wait)

    # ---- what goes wrong

    def _usable_again(self, error: Exception) -> bool:
        """Replace the file if it is damaged; whether another try may succeed, or do without the file."""
        if _kind(error) in (*_BUSY, sqlite3.SQLITE_FULL):
            return False
        why = f"{self.path} cannot be used ({str(error)!a})"
        if not self._may_write():
            self._give_up(f"{why} nor replaced: nothing is kept there")
            return True
        try:
            with self._alone():
                if self._is_damaged():  # or another process has replaced it
                    for ending in ("-journal", ""):
                        self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
                    _log.warning("%s: it was replaced, and what it held is made again", why)
        except (OSError, StorageError) as fault:
            self._give_up(f"{why} nor replaced ({fault}): nothing is kept there")
        return True

    def _is_damaged(self) -> bool:
        try:
            connection = self._connect(make=False)
            if connection is None:
                return False
            with contextlib.closing(connection):
                connection.execute("PRAGMA user_version = 0")  # a damaged header may forbid writing
                return bool(connection.execute("PRAGMA integrity_check(1)").fetchone() != (b"ok",))
        except _FAULTS as error:
            return _kind(error) in _DAMAGE or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHORT_READ

    def _without(self, error: Exception, action: str) -> None:
        """Do without the file from now on, where it cannot be opened.

        Raises:
            StorageError: it can be; says what SQLite's error means for the user.
        """
        kind = _kind(error)
        if kind == sqlite3.SQLITE_FULL:
            message = f"no room in {self.path}: {error}. Free some and run again; what was stored is kept"
        elif kind in _BUSY:
            message = self._kept_locked()
        elif kind in _NOT_PERMITTED and action != "written":
            self._give_up(f"{self.path} cannot be opened ({error}): nothing is kept there")
            return
        else:
            message = (
                f"{self.path} could not be {action}: {error}. Check its folder, "
                "or choose another cache folder (CTXBENCH_CACHE)"
            )
        raise StorageError(message) from error

    def _kept_locked(self) -> str:
        return (
            f"{self.path} was kept locked by another process for {_BUSY_SECONDS:.0f} s; "
            "end that process, or choose another cache folder (CTXBENCH_CACHE)"
        )

    def _give_up(self, why: str) -> None:
        self._given_up = True
        _log.warning("%s", why)


class OptionalRows(CheckedRows):
    """Rows that are done without, and a warning, where the file stays locked or the disk fails."""

    def get(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """The values that are there and fit their checksums, by key."""
        try:
            return super().get(keys)
        except StorageError as error:
            _log.warning("%s; what it held is made again", error)
            return {}

    def put(self, rows: Mapping[bytes, bytes]) -> None:
        """Add rows, all of them or none; where that is not permitted, nothing happens."""
        try:
            if rows and self.writable:
                super().put(rows)
        except StorageError as error:
            _log.warning("%s; what was made is not kept", error)


class _Unopened(sqlite3.Connection):
    """A connection that may fail to open, and then is not to be closed."""


class _Opened(_Unopened):
    """One that closes itself when it is collected, without a line of Python in which Ctrl-C would be lost."""

    __del__ = sqlite3.Connection.close


def _kind(error: Exception) -> int:
    """SQLite's code of an error without the detail; damage for errors that have none."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)) & 0xFF
