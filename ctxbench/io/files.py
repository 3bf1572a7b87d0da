"""Read files with faults by line; write files and folders atomically.

Lines end at a line feed, never at U+2028 or a form feed; a carriage return before it is dropped. A temporary file or
folder is locked while it is written, and the system releases the lock when the process ends. An unlocked one is a
leftover of a killed process and is removed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shlex
import shutil
import stat
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Self
from urllib.parse import quote

from ctxbench.io.errors import Fault, InputError, Message, ParameterError, StorageError

TEMPORARY, ASIDE = ".tmp", ".old"  # what is being made; a whole folder that makes room for another
_TRIES = 100  # attempts to make and lock a folder before another process removes it as a leftover
_ABANDONED = 86_400.0  # seconds after which, where there are no locks, it counts as abandoned
_LONGEST = 200  # bytes of a name that stay in the names beside it; most file systems take 255 in all
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF)
_NO_HANDLE = -1  # Windows opens no folders


def temporary_path(target: Path, ending: str) -> Path:
    """A unique hidden name in the folder of `target`, and so on the same disk."""
    return target.with_name(f".{_short(target.name)}.{os.getpid()}-{secrets.token_hex(4)}{ending}")


def left(target: Path, ending: str) -> list[Path]:
    """The temporary files and folders next to `target`, locked or not."""
    start = f".{_short(target.name)}."
    name = re.compile(re.escape(start) + r"\d+-[0-9a-f]{8}" + re.escape(ending))
    try:
        with os.scandir(target.parent) as entries:
            return [
                Path(entry.path) for entry in entries if entry.name.startswith(start) and name.fullmatch(entry.name)
            ]
    except OSError:
        return []  # no such folder, or not to be listed


def cache_dir() -> Path:
    """Return the root folder of all caches; it need not exist.

    The environment variable `CTXBENCH_CACHE` if it is set and not empty, else the platform's cache folder for the
    user (`~/.cache/ctxbench` on Linux). It is read at each call, so that a test can move it.

    Raises:
        ParameterError: the variable starts with `~name`, and there is no such user.
    """
    if chosen := os.environ.get("CTXBENCH_CACHE"):
        return expanded(chosen, "CTXBENCH_CACHE")
    import platformdirs

    return Path(platformdirs.user_cache_dir("ctxbench"))


def expanded(path: str, variable: str) -> Path:
    """The path that an environment variable holds, `~` replaced by the home folder.

    Raises:
        ParameterError: there is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ParameterError(f"{variable} is {path!r}, but that home folder is unknown; write the full path") from error


def make_folder(path: Path) -> None:
    """Make a folder where there is none, with its parents; the root of all caches is made for its owner alone.

    Raises:
        OSError: the place cannot be written.
    """
    if not path.is_dir():
        with suppress(ParameterError):  # there is no such root
            root = Path(os.path.realpath(cache_dir()))
            if Path(os.path.realpath(path)).is_relative_to(root) and not root.is_dir():
                root.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileExistsError):
                    root.mkdir(0o700)
    path.mkdir(parents=True, exist_ok=True)


def make_private_file(path: Path) -> None:
    """Make an empty file that its owner alone may read and write, where there is none and that can be done."""
    with suppress(OSError):
        # one that is there is not opened: closing it would end the locks that this process's SQLite has on it
        os.close(os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def held_folder(target: Path, *, mode: int = 0o777) -> tuple[Path, int]:
    """Make a temporary folder next to `target`, with missing parents; return it and its lock for `let_go`.

    Raises:
        OSError: the place cannot be written.
    """
    for _ in range(_TRIES):
        path = temporary_path(target, TEMPORARY)
        make_folder(path.parent)
        path.mkdir(mode)
        try:
            handle = os.open(path, os.O_RDONLY)
        except OSError:
            if path.exists():
                return path, _NO_HANDLE
            continue  # another process removed it before it was locked
        if try_lock(handle) is not False and path.exists():
            return path, handle
        os.close(handle)
    raise OSError(errno.EAGAIN, "other processes remove what is made there")


def let_go(handle: int) -> None:
    """End the hold on a folder."""
    if handle != _NO_HANDLE:
        os.close(handle)


def sweep(target: Path) -> None:
    """Remove the temporary files and folders next to `target` that no process has locked."""
    for path in left(target, TEMPORARY):
        _remove_unheld(path)


def sweep_folder(folder: Path) -> None:
    """Remove all temporary files and folders in a folder that no process has locked."""
    name = re.compile(r"\..+\.\d+-[0-9a-f]{8}" + re.escape(TEMPORARY))
    with suppress(OSError), os.scandir(folder) as entries:
        for path in [Path(entry.path) for entry in entries if name.fullmatch(entry.name)]:
            _remove_unheld(path)


def _remove_unheld(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        handle = _NO_HANDLE
    try:
        free = None if handle == _NO_HANDLE else try_lock(handle)
        if free or (free is None and time.time() - modified(path) > _ABANDONED):
            remove(path)  # while it is locked, so that no process begins to fill it
    finally:
        let_go(handle)


def remove(path: Path) -> None:
    """Remove a file or a folder with all in it, as far as that can be done."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        if path.exists():  # a folder in it may not be written in
            _open_up(path)
            shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _open_up(folder: Path) -> None:
    """Let its owner write in a folder and in those below it."""
    with suppress(OSError):
        folder.chmod(0o700)
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                _open_up(path)


def try_lock(handle: int) -> bool | None:
    """Lock an open file or folder until it is closed; False if another holds it, None where there are no locks."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return None if error.errno in _NO_LOCKS else False
    return True


def modified(path: Path) -> float:
    """When it was changed last; now, if its owner has just removed it."""
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


def _short(name: str) -> str:
    """A name that leaves room for more; a long one is cut and ends in its hash, so that no two become the same."""
    data = os.fsencode(name)
    if len(data) <= _LONGEST:
        return name
    return f"{data[: _LONGEST - 20].decode('utf-8', 'ignore')}~{hashlib.sha256(data).hexdigest()[:16]}"


_ENDINGS = (".yaml", ".yml", ".json", ".jsonl")
_CLOSE = 0.8


def suggest_file(missing: Path) -> str:
    """'; did you mean ...?' for a file in the same folder with a similar name; empty if there is none.

    Endings do not count, since many files share them: `gate.yml` is near `gate.yaml`, `a.yaml` is not near `b.yaml`.
    """
    try:
        names = [
            path.name
            for path in missing.parent.iterdir()
            if path.suffix in (*_ENDINGS, missing.suffix) and path != missing
        ]
    except (OSError, ValueError):
        return ""
    stems = {Path(name).stem: name for name in sorted(names, key=lambda name: name.endswith(missing.suffix))}
    close = get_close_matches(missing.stem, stems, n=1, cutoff=_CLOSE)
    return Message("io.did-you-mean", names=repr(str(missing.with_name(stems[close[0]])))) if close else ""


_GZIP = b"\x1f\x8b"


def is_utf16(data: bytes) -> bool:
    """Whether a text starts as one in UTF-16 does: with its byte order mark, or with ASCII characters of it."""
    halves = [set(data[:4][start::2]) for start in (0, 1)] if len(data[:4]) % 2 == 0 else []
    return data[:2] in (b"\xff\xfe", b"\xfe\xff") or ({0} in halves and halves[0] != halves[1])


def gzip_fault(data: bytes, path: Path | str) -> str:
    """What to do about a file that gzip compressed; empty if it did not."""
    return Message("io.gzip", path=shlex.quote(str(path))) if data.startswith(_GZIP) else ""


_BOM = b"\xef\xbb\xbf"


_POLL = 0.1  # seconds between two looks at a lock that another process holds
_GIVEN = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
_SPECIAL = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def special(path: Path | str) -> str:
    """The kind of a path that is neither file nor folder, such as `a pipe`; else empty."""
    try:
        return _SPECIAL.get(stat.S_IFMT(_usable(path).stat().st_mode), "")
    except OSError:
        return ""  # opening it says what is wrong


def folder_fault(path: Path | str) -> str:
    """Why the folder at a path cannot be listed, such as `no such folder`; empty if it can."""
    try:
        with os.scandir(_usable(path)):
            return ""
    except FileNotFoundError:
        return "no such folder"
    except NotADirectoryError:
        return "it is a file"
    except OSError as error:
        return error.strerror or str(error)


def readable(path: Path | str, *, repeatedly: bool = False) -> Path:
    """The path, checked for reading; it may be missing.

    Args:
        path: of a file. Who reads a pipe or a device may wait for ever; but what the process itself was given may be
            read: /dev/stdin, and what a shell makes of `<(command)`.
        again: it is read more than once, which none of those can be.

    Raises:
        StorageError: it is not a valid path, or neither a file nor a folder.
    """
    if (kind := special(path)) and (repeatedly or not str(path).startswith(_GIVEN)):
        raise StorageError(f"cannot read {path}: it is {kind}; expected a file")
    note_read(path)
    return _usable(path)


class Closing(ABC):
    """A context manager that closes itself at the end."""

    @abstractmethod
    def close(self) -> None:
        """End it; a second time it does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FilesRead:
    """The files and folders that are read within a `with` block, and whether they have changed since.

    What tells a change is the time of the last one, the size and the file itself. It is taken just before the file is
    read, so that a change while it is read is one. What other threads read is not noted.

    Attributes:
        odd: what is odd in the files, as (path, text); the path is empty if the file can be used as it is.
    """

    FEW = 2_000  # are compared at every call, which takes 4 ms; more of them once a second

    def __init__(self) -> None:
        self._states: dict[str, tuple[int, int, int] | None] = {}
        self.odd: dict[tuple[str, str], None] = {}
        self._next = 0.0  # when they are compared again

    def __enter__(self) -> Self:
        self._token: Token[FilesRead | None] = _READ.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _READ.reset(self._token)

    def add(self, *paths: str) -> None:
        """Note paths as they are now, unless they are noted already."""
        for path in paths:
            self._states.setdefault(path, _state(path))

    def add_all(self, files: FilesRead) -> None:
        """Note what was noted before, as it is now."""
        self.add(*files._states)

    def new_faults(self, before: FilesRead) -> list[str]:
        """The faults of files that were there `before` without them."""
        return [text for path, text in self.odd if before._states.get(path) and (path, text) not in before.odd]

    def changed(self) -> bool:
        """Whether any of them is another one than it was, is gone, or is there now."""
        if time.monotonic() < self._next:
            return False
        is_changed = any(_state(path) != state for path, state in self._states.items())
        self._next = time.monotonic() + (len(self._states) > self.FEW)
        return is_changed


_READ: ContextVar[FilesRead | None] = ContextVar("files read", default=None)


def note_read(*paths: Path | str) -> bool:
    """Note that files or folders are about to be read; whether within a `with` block of `FilesRead`."""
    if (files := _READ.get()) is not None:
        files.add(*map(os.path.abspath, paths))  # a link that leads elsewhere is a change
    return files is not None


def note_folders(top: Path, skips: Callable[[Path], bool]) -> None:
    """Note a folder, all folders below it and their `.gitignore` files, each before it is read.

    Links are not followed, nor is a folder that is to be skipped.
    """
    note_read(top)
    for current, folders, files in os.walk(top):
        paths = [Path(current, name) for name in folders]
        folders[:] = [path.name for path in paths if not (path.is_symlink() or skips(path))]
        note_read(*(Path(current, name) for name in (*folders, *{".gitignore"}.intersection(files))))


def note_odd(*texts: str, path: Path | str = "") -> bool:
    """Note what is odd in a file, which `path` names if that makes it faulty; whether within a block of `FilesRead`."""
    if (files := _READ.get()) is None:
        return False
    files.odd |= dict.fromkeys((os.path.abspath(path) if path else "", text) for text in texts)  # noqa: PTH100 - as above
    return True


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - twice as fast, for thousands
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def read_bytes(path: Path | str) -> bytes:
    """Read a file whole, without the byte order mark it may start with.

    Raises:
        StorageError: it is missing, no file, or cannot be read.
    """
    try:
        data = readable(path).read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    return data.removeprefix(_BOM)


def read_text(path: Path | str) -> str:
    """Read a UTF-8 file whole.

    Raises:
        StorageError: it is missing or cannot be read.
        InputError: it is not UTF-8, all lines that are not are listed; it is compressed, or holds a NUL byte.
    """
    data = read_bytes(path)
    if packed := gzip_fault(data, path):
        raise InputError([Fault(packed, path)])
    if is_utf16(data):
        raise InputError([Fault(Message("io.utf16"), path, 1)])
    if (before := data.find(b"\0")) >= 0:
        message = Message("io.nul-byte")
        column = len(data[data.rfind(b"\n", 0, before) + 1 : before].decode("utf-8", "replace")) + 1
        raise InputError([Fault(message, path, data.count(b"\n", 0, before) + 1, column)])
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        faults: list[Fault] = []
        for number, line in enumerate(data.split(b"\n"), start=1):
            _decoded(line, path, number, faults)
        raise InputError(faults) from error


def iter_lines(path: Path | str, faults: list[Fault]) -> Iterator[tuple[int, str]]:
    """Yield (1-based line number, text without its line end) of a UTF-8 file, one line at a time.

    A line that is not UTF-8 is added to `faults` and passed over, and so is a whole file in UTF-16. An empty file
    yields nothing.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is compressed, so that it has no lines.
    """
    try:
        with readable(path).open("rb") as stream:
            head = stream.peek(4)[:4]
            if packed := gzip_fault(head, path):
                raise InputError([Fault(packed, path)])
            if is_utf16(head):
                faults.append(Fault(Message("io.utf16"), path, 1))
                return
            yield from decoded_lines(stream, path, faults)
    except OSError as error:
        raise _unreadable(path, error) from error


def decoded_lines(lines: Iterable[bytes], path: Path | str, faults: list[Fault]) -> Iterator[tuple[int, str]]:
    """Yield (1-based line number, text without its line end) of lines of UTF-8; those that are not are faults."""
    for number, raw in enumerate(lines, start=1):
        line = raw.removeprefix(_BOM) if number == 1 else raw
        if (text := _decoded(line.removesuffix(b"\n").removesuffix(b"\r"), path, number, faults)) is not None:
            yield number, text


def open_unpacked(path: Path | str) -> tuple[BinaryIO, BinaryIO]:
    """Open a file, and unpack what gzip compressed; text in UTF-16 becomes UTF-8.

    Returns:
        The content as UTF-8, and the file itself, whose position says how much was read; close the file in the end.

    Raises:
        StorageError: it is missing, no file, or cannot be read.
    """
    import gzip
    import io

    try:
        file = readable(path, repeatedly=True).open("rb")
        head = file.read(4)
        file.seek(0)
        content: Any = gzip.GzipFile(fileobj=file) if head.startswith(_GZIP) else file
        if is_utf16(head):
            order = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-16-be" if not head[0] else "utf-16-le"
            content = io.BytesIO(file.read().decode(order, "replace").encode())
    except OSError as error:
        raise _unreadable(path, error) from error
    return content, file


def write_atomic(path: Path | str, data: bytes | str, *, durable: bool = True, private: bool = False) -> None:
    """Write a file whole or not at all: a temporary file next to it, flushed to disk, then renamed over it.

    Missing folders are made. A link is followed, so that it stays a link. A file that is there keeps its mode.

    Args:
        path: the file.
        data: its content; text is written as UTF-8.
        durable: False leaves the flushing to the system, which is much faster: still whole or not there if the
            process is killed, but not if the power fails.
        private: a new file is for its owner alone.

    Raises:
        StorageError: the disk is full, or the place cannot be written; what was there before is unchanged.
    """
    target = Path(os.path.realpath(_usable(path)))
    try:
        make_folder(target.parent)
        if durable:  # others come by the hundred into one folder: the process that locks it sweeps it once
            sweep(target)
        content = data.encode("utf-8") if isinstance(data, str) else data
        for attempt in range(_TRIES):
            try:
                _replace(target, content, durable=durable, private=private)
                break
            except FileNotFoundError:  # another process took the temporary file for a leftover
                if attempt == _TRIES - 1:
                    raise
        if durable:
            _sync_folder(target.parent)
    except OSError as error:
        raise _unwritable(path, error) from error


def _replace(target: Path, content: bytes, *, durable: bool, private: bool) -> None:
    """Write a temporary file next to `target`, and rename it over it."""
    temporary = temporary_path(target, TEMPORARY)
    try:
        opener = partial(os.open, mode=0o600 if private else 0o666)
        with open(temporary, "xb", opener=opener) as stream:
            try_lock(stream.fileno())
            _keep_mode(temporary, target)
            stream.write(content)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


@contextmanager
def writing(path: Path | str) -> Iterator[BinaryIO]:
    """Write a new file piece by piece, flushed to disk at the end; for files in the folder of `atomic_folder`.

    Raises:
        StorageError: the disk is full, or the place cannot be written.
    """
    try:
        with Path(path).open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise _unwritable(path, error) from error


@contextmanager
def exclusive(path: Path | str, *, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock file while the block runs, so that processes take turns. It is made, and removed at the end.

    The system lets go of the lock when its process ends, for any reason; a lock file that is left over blocks nothing.
    A file system without locks is used without.

    Args:
        path: the lock file; missing folders are made.
        waiting: called every tenth of a second while another process holds the lock.

    Raises:
        StorageError: the place cannot be written.
    """
    handle = _locked(_usable(path), waiting)
    try:
        yield
    finally:
        with suppress(OSError):
            Path(path).unlink()
        os.close(handle)


def _locked(path: Path, waiting: Callable[[], None]) -> int:
    """Open and lock the file; the process that held the lock may have removed it, and then it is made again."""
    missed = 0
    while True:
        try:
            make_folder(path.parent)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            missed += 1
            if isinstance(error, FileNotFoundError | FileExistsError) and missed < _TRIES:
                continue  # the folder has just been removed, or was while it was looked at
            raise _unwritable(path, error) from error
        try:
            while try_lock(handle) is False:
                waiting()
                time.sleep(_POLL)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


@contextmanager
def atomic_folder(path: Path | str, *, keep: bool = False) -> Iterator[Path]:
    """Give a temporary folder to fill; at the end of the block it takes the place of `path` as a whole.

    An error in the block leaves what was there before. Two processes may write the same folder; one wins.

    Args:
        path: the folder to make; missing parents are made.
        keep: if `path` is there by the end of the block, keep it and drop what was written.

    Raises:
        StorageError: the place cannot be written.
    """
    target = Path(os.path.realpath(_usable(path)))
    try:
        recover_folder(target)
        temporary, handle = held_folder(target)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        yield temporary
        try:
            _put_folder(temporary, target, keep=keep)
        except OSError as error:
            raise _unwritable(path, error) from error
    finally:
        remove(temporary)
        let_go(handle)
        recover_folder(target)


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """A private folder, hidden next to `place`, that is removed when the block ends.

    Raises:
        OSError: it cannot be made there.
    """
    sweep(parent)
    folder, handle = held_folder(parent, mode=0o700)
    try:
        yield folder
    finally:
        remove(folder)
        let_go(handle)


def recover_folder(path: Path | str) -> None:
    """Clean up after killed writers of `atomic_folder`: restore the folder if it was moved aside, remove leftovers.

    For readers, before they say that the folder is missing; writers do it themselves. Nothing happens where nothing
    was left, or where the place cannot be written.

    Raises:
        StorageError: no file system takes the path.
    """
    target = Path(os.path.realpath(_usable(path)))
    asides = left(target, ASIDE)  # looked up first: a folder that is there afterwards is newer than all of these
    if not os.path.lexists(target):
        for aside in sorted(asides, key=modified, reverse=True):
            with suppress(OSError):  # its writer, or another reader, was faster
                aside.rename(target)
                break
    if os.path.lexists(target):
        for aside in asides:
            garbage = temporary_path(target, TEMPORARY)  # so that no process restores a folder that is half removed
            with suppress(OSError):
                aside.rename(garbage)
                remove(garbage)
    sweep(target)


def _put_folder(temporary: Path, target: Path, *, keep: bool) -> None:
    """Rename `temporary` to `target`; an existing folder is moved aside, where `recover_folder` finds it."""
    _keep_mode(temporary, target)
    for attempt in range(_TRIES):
        try:
            temporary.rename(target)  # replaces an empty folder, fails on any other
            break
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or attempt == _TRIES - 1:
                raise
        if keep:
            return
        with suppress(FileNotFoundError):  # another process has just put it aside
            target.rename(temporary_path(target, ASIDE))
    _sync_folder(target.parent)


def _keep_mode(new: Path, old: Path) -> None:
    """Give `new` the permissions of `old`, if that is there: what was private stays private."""
    with suppress(FileNotFoundError):
        new.chmod(stat.S_IMODE(old.stat().st_mode))


def _usable(path: Path | str) -> Path:
    """The path, if it is one.

    Raises:
        StorageError: it holds NUL, or characters that the file system's encoding does not have.
    """
    why = "it holds NUL"
    try:
        if b"\0" not in os.fsencode(path):
            return Path(path)
    except UnicodeEncodeError as error:
        character, code = error.object[error.start], sys.getfilesystemencoding()
        is_half = "\ud800" <= character <= "\udfff"
        why = "it holds half a character" if is_half else Message("io.locale", encoding=code, character=character)
    raise StorageError(f"{str(path)!r} can be no path: {why}; expected the path of a file")


def _sync_folder(folder: Path) -> None:
    """Flush a rename to disk, where the system lets a folder be opened (Windows does not)."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _unreadable(path: Path | str, error: OSError) -> StorageError:
    suggestion = suggest_file(Path(path)) if isinstance(error, FileNotFoundError) else ""
    why = "it is a folder" if isinstance(error, IsADirectoryError) else error.strerror or error
    return StorageError(Message("io.unreadable", path=path, why=why, hint=suggestion))


def _unwritable(path: Path | str, error: OSError) -> StorageError:
    return StorageError(Message("io.unwritable", path=path, why=error.strerror or error))


def _decoded(line: bytes, path: Path | str, number: int, faults: list[Fault]) -> str | None:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(line[: error.start].decode("utf-8")) + 1
        message = Message("io.invalid-utf8", why=error.reason, byte=line[error.start])
        faults.append(Fault(message, path, number, column))
        return None


def file_name(name: str) -> str:
    """A file name for any name, another one for each: `/` becomes `~`, what might be trouble is percent-encoded."""
    plain = "~".join(quote(part, safe=" =,").replace("~", "%7E") for part in name.split("/"))
    return f"%2E{plain[1:]}" if plain.startswith(".") else plain
