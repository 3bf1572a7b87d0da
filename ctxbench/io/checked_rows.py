"""Rows of the cache that are checked when they are read: one SQLite file, from keys to values.

A row has a checksum over its key and its value, so that one that was altered, or stands under another's key, is not
given out: it is taken out and said, and whoever asked makes it again. A file that is damaged as a whole, or holds
other tables, is set aside and made anew; so rows of another form need another file name.

SQLite with its rollback journal, and every batch one transaction: a process may be killed at any moment and the
file holds all batches that were committed and nothing of the one that was not. Not the write-ahead log, which cannot
be read in a folder that cannot be written. Processes that write take turns by a lock of our own: SQLite's does not
keep one from moving a damaged file away while another writes it, whose journal would then pass for the new file's.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar
from zlib import crc32

from ctxbench.core.errors import StorageError
from ctxbench.io.files import exclusive
from ctxbench.io.leftovers import make_folder

_ASIDE = ".aside"  # behind the name of a file that was set aside; the next one takes its place
_JOURNAL = "-journal"
_BUSY_SECONDS = 60.0  # how long to wait for another process's transaction, which takes some milliseconds
_LOOK_UP = 500  # keys a statement, below SQLite's oldest limit of 999 variables
_PAGE = 16384  # bytes; ten vectors of 384 numbers on a page and little left over
_DAMAGE = (  # kinds of error that come of what the file holds
    *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA),
    *(sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_FORMAT),
)
_NOT_PERMITTED = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY)

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_FAULTS = (sqlite3.Error, UnicodeDecodeError)  # the latter where SQLite's message quotes what is damaged


class CheckedRows:
    """Rows in a file, which is opened at the first use and made at the first write. May be used from several threads.

    Where nothing can be read or written there are no rows, and `writable` is False: it is a cache.

    Args:
        path: the file.
        table: what its rows are called.
        maker: what made the values; rows that another made do not fit.
    """

    def __init__(self, path: Path, table: str, *, maker: str = "") -> None:
        self._process = 0
        self.path = path
        self._table = table
        self._seed = crc32(f"{table}\n{maker}".encode())
        self._schema = (
            f"CREATE TABLE {table} (key BLOB NOT NULL UNIQUE, value BLOB NOT NULL, checksum INTEGER NOT NULL)"
        )
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._inherited: sqlite3.Connection | None = None
        self._opened: os.stat_result | None = None
        self._writable = True
        self._given_up = False
        self._said = False

    @property
    def writable(self) -> bool:
        """Whether `put` can store anything. A file in a read-only place can still be read.

        Raises:
            StorageError: as for `put`.
        """
        return bool(self._used(lambda _: self._writable, make=True, action="opened"))

    def get(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """The values that are there and fit their checksums, by key.

        Raises:
            StorageError: the file stays locked, or the disk fails.
        """
        asked = dict.fromkeys(keys)
        return self._used(lambda connection: self._found(connection, asked), action="read") or {}

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

        def add(connection: sqlite3.Connection) -> None:
            with self._alone(), _transaction(connection):
                connection.executemany(f"INSERT OR IGNORE INTO {self._table} VALUES (?, ?, ?)", marked)  # noqa: S608

        self._used(add, make=True, action="written")

    def remove(self, keys: Iterable[bytes]) -> None:
        """Take rows out for good, by writing the file anew: afterwards no file holds them. Keys may be unknown.

        Raises:
            StorageError: the place cannot be written, or the file stays locked; then they are still there.
        """
        gone = [(key,) for key in keys]

        def take(connection: sqlite3.Connection) -> None:
            if not self._writable:
                raise StorageError(f"{self.path} cannot be written, so that nothing can be taken out; free its folder")
            with self._alone():
                with _transaction(connection):
                    connection.executemany(f"DELETE FROM {self._table} WHERE key = ?", gone)  # noqa: S608
                connection.execute("VACUUM")
                self.path.with_name(self.path.name + _ASIDE).unlink(missing_ok=True)

        self._used(take, action="written")

    def __len__(self) -> int:
        return self._used(self._count, action="read") or 0

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    # ---- rows

    def _found(self, connection: sqlite3.Connection, asked: Mapping[bytes, None]) -> dict[bytes, bytes]:
        keys = list(asked)
        found: dict[bytes, bytes] = {}
        failed = 0
        for start in range(0, len(keys), _LOOK_UP):
            part = keys[start : start + _LOOK_UP]
            marks = ",".join("?" * len(part))
            query = f"SELECT key, value, checksum FROM {self._table} WHERE key IN ({marks})"  # noqa: S608
            for key, value, checksum in connection.execute(query, part):
                if self._fits(key, value, checksum) and key in asked:
                    found[key] = value
                else:
                    failed += 1
        if failed:
            self._take_out(connection, failed)
        return found

    def _fits(self, key: object, value: object, checksum: object) -> bool:
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            return False
        return crc32(value, crc32(key, self._seed)) == checksum

    def _take_out(self, connection: sqlite3.Connection, failed: int) -> None:
        """Take all rows out that do not fit, so that they are said once; `failed` of those asked for did not."""
        if not self._writable:
            if not self._said:
                what = f"{failed:,} or more rows of {self.path} do not fit their checksums"
                _log.warning("%s and cannot be taken out; what they held is made again each time", what)
            self._said = True
            return
        with self._alone(), _transaction(connection):
            total = self._count(connection)
            rows = connection.execute(f"SELECT rowid, key, value, checksum FROM {self._table}")  # noqa: S608
            unfit = [row[:1] for row in rows if not self._fits(*row[1:])]
            connection.executemany(f"DELETE FROM {self._table} WHERE rowid = ?", unfit)  # noqa: S608
            connection.execute("REINDEX")  # that a key leads to another's row is the index's fault
        count = f"{max(failed, len(unfit)):,} of {total:,} rows of {self.path}"
        _log.warning("%s did not fit their checksums; what they held is made again", count)

    def _count(self, connection: sqlite3.Connection) -> int:
        return int(connection.execute(f"SELECT count(*) FROM {self._table}").fetchone()[0])  # noqa: S608

    # ---- the file

    def _used(self, use: Callable[[sqlite3.Connection], _T], *, make: bool = False, action: str) -> _T | None:
        """What `use` makes of the file, after another try if it is damaged; None where there is no file to use."""
        with self._lock:
            for last in (False, False, True):  # other processes may be at it as well
                try:
                    connection = self._open(make=make)
                    return None if connection is None else use(connection)
                except _FAULTS as error:
                    if not last and self._is_damage(error):
                        self._set_aside(error)
                    else:
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
        if self._connection is None and not self._given_up and (make or os.access(self.path, os.F_OK)):
            self._connection = self._connect()
            if self._connection is not None and not self._prepared(self._connection):
                self.close()
        return self._connection

    def _connect(self) -> sqlite3.Connection | None:
        folder = self.path.parent
        try:
            make_folder(folder)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise StorageError(f"the folder {folder} cannot be made: {error.strerror}") from error
        self._opened = _status(self.path)
        places = [folder] if self._opened is None else [folder, self.path]
        self._writable = all(os.access(place, os.W_OK) for place in places)
        if not self._writable and self._opened is None:
            return None
        target = self.path.absolute().as_uri() + ("" if self._writable else "?mode=ro")
        before = _status(self.path)  # what is put there while it is opened is not what was opened
        connection = sqlite3.connect(
            target,
            uri=True,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=_Unopened,
        )
        connection.__class__ = _Opened
        connection.text_factory = bytes  # damage may make a text of a value, which need not be UTF-8
        if before is None:  # it was made just now, and is empty still
            with contextlib.suppress(OSError):
                self.path.chmod(0o600)
        self._opened = before or _status(self.path)
        return connection

    def _prepared(self, connection: sqlite3.Connection) -> bool:
        """Make the table where there is none; whether there is one then.

        Raises:
            sqlite3.DatabaseError: the file holds something else.
        """
        tables = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
        found = connection.execute(tables).fetchall()
        if not found and self._writable:  # a new file, or one of a process that was killed while it made it
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            with self._alone(), _transaction(connection):
                connection.execute(self._schema.replace("TABLE", "TABLE IF NOT EXISTS", 1))
            found = connection.execute(tables).fetchall()
        if found and found != [(self._schema.encode(),)]:
            raise _OtherTablesError("it holds other tables than expected")
        return bool(found)

    # ---- what goes wrong

    def _is_damage(self, error: Exception) -> bool:
        """Whether an error comes of what the file holds, or of another having taken its place."""
        if isinstance(error, UnicodeDecodeError | _OtherTablesError) or not self._in_place():
            return True
        code = getattr(error, "sqlite_errorcode", 0)
        if code == sqlite3.SQLITE_READONLY:
            return self._writable  # then the file says so itself
        if code & 0xFF == sqlite3.SQLITE_IOERR:  # another may be moving the journal away, and the file next
            with self._alone():
                if not self._in_place():
                    return True
        return (
            code == sqlite3.SQLITE_IOERR_SHORT_READ or code & 0xFF in _DAMAGE
        )  # the low byte is the kind, the rest detail

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from writing the file, and from moving it.

        Raises:
            StorageError: another process does so for long; or as for `exclusive`.
        """
        until = time.monotonic() + _BUSY_SECONDS

        def wait() -> None:
            if time.monotonic() > until:
                raise StorageError(self._kept_locked())

        return exclusive(self.path.with_name(f".{self.path.name}.lock"), waiting=wait)

    def _kept_locked(self) -> str:
        return (
            f"{self.path} was kept locked by another process for {_BUSY_SECONDS:.0f} s; "
            "end that process, or choose another cache folder (CTXBENCH_CACHE)"
        )

    def _in_place(self) -> bool:
        """Whether the file that was opened stands there still."""
        now = _status(self.path)
        return self._opened is not None and now is not None and os.path.samestat(self._opened, now)

    def _set_aside(self, error: Exception) -> None:
        """Move the damaged file away, unless another process has done so already."""
        why = f"{self.path} cannot be used ({str(error)!a})"
        if not self._writable:
            self._give_up(f"{why} nor replaced: nothing is kept there")
            return
        aside = self.path.with_name(self.path.name + _ASIDE)
        try:
            with self._alone():
                mine = self._in_place()  # as long as it is open, no other file has its number
                self.close()
                if not mine:
                    return
                for ending in (_JOURNAL, ""):
                    with contextlib.suppress(FileNotFoundError):
                        self.path.with_name(self.path.name + ending).replace(aside.with_name(aside.name + ending))
        except (OSError, StorageError) as fault:
            self._give_up(f"{why} nor moved away ({fault}): nothing is kept there")
            return
        _log.warning("%s: it was set aside as %s, and what it held is made again", why, aside.name)

    def _without(self, error: Exception, action: str) -> None:
        """Do without the file from now on, where it cannot be opened.

        Raises:
            StorageError: it can be; says what SQLite's error means for the user.
        """
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL:
            message = f"no room in {self.path}: {error}. Free some and run again; what was stored is kept"
        elif code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            message = self._kept_locked()
        elif not self._writable and self.path.with_name(self.path.name + _JOURNAL).exists():
            message = (
                f"{self.path} holds half a batch of a process that was killed, which cannot be undone without "
                "writing. Open it once where it can be written, or choose another cache folder (CTXBENCH_CACHE)"
            )
        elif code in _NOT_PERMITTED and action != "written":
            self._give_up(f"{self.path} cannot be opened ({error}): nothing is kept there")
            return
        else:
            message = (
                f"{self.path} could not be {action}: {error}. Check its folder, "
                "or choose another cache folder (CTXBENCH_CACHE)"
            )
        self.close()
        raise StorageError(message) from error

    def _give_up(self, why: str) -> None:
        self.close()
        self._given_up, self._writable = True, False
        _log.warning("%s", why)


class _Unopened(sqlite3.Connection):
    """A connection that may fail to open, and then is not to be closed."""


class _Opened(_Unopened):
    """One that closes itself when it is collected, without a line of Python in which Ctrl-C would be lost."""

    __del__ = sqlite3.Connection.close


class _OtherTablesError(sqlite3.DatabaseError):
    """A database of something else."""


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Take the write lock at once, commit at the end, roll back on any error."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself rolls back on some errors
            connection.execute("ROLLBACK")
        raise


def _status(path: Path) -> os.stat_result | None:
    """What the file system says of a file; None where there is none, or it may not be known."""
    with contextlib.suppress(OSError):
        return path.stat()
    return None
