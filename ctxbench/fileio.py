"""Reading files whole or by line, and writing them so that nothing is ever half-written.

Lines end at a line feed (a carriage return before it is dropped), never at U+2028 or a form feed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ctxbench.errors import Fault, InputError, StorageError

UTF16 = "the file is UTF-16; save it as UTF-8"
_BOM = b"\xef\xbb\xbf"
_TRIES = 100  # of putting a folder in its place while others do the same
_POLL = 0.1  # seconds between two looks at a lock that another process holds
_TEMPORARY, _ASIDE = ".tmp", ".old"  # a file or folder being made; a whole folder that makes room for another
_ABANDONED = 86_400.0  # seconds after which nobody is taken to be filling a temporary folder any more
_LONGEST = 200  # bytes of a name that stay in the names beside it; most file systems take 255 in all
_GIVEN = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
_SPECIAL = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


def special(path: Path | str) -> str:
    """What stands at a path that is neither a file nor a folder, such as `a pipe`; else empty."""
    try:
        return _SPECIAL.get(stat.S_IFMT(_usable(path).stat().st_mode), "")
    except OSError:
        return ""  # opening it says what is wrong


def readable(path: Path | str, *, again: bool = False) -> Path:
    """The path, to be opened for reading; nothing need stand there.

    Args:
        path: of a file. Who reads a pipe or a device may wait for ever; but what the process itself was given may be
            read: /dev/stdin, and what a shell makes of `<(command)`.
        again: it is read more than once, which none of those can be.

    Raises:
        StorageError: it can be no path, or what stands there is neither a file nor a folder.
    """
    found = special(path)
    if found and (again or not str(path).startswith(_GIVEN)):
        more = ", which can be read more than once" if again else ""
        raise StorageError(f"cannot read {path}: it is {found}; expected a file{more}")
    return _usable(path)


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


def is_utf16(data: bytes) -> bool:
    """Whether a text starts as one in UTF-16 does: with its byte order mark, or half an ASCII character of it."""
    return data[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in data[:2]


def read_text(path: Path | str) -> str:
    """Read a UTF-8 file whole.

    Raises:
        StorageError: it is missing or cannot be read.
        InputError: it is not UTF-8; all lines that are not are listed.
    """
    data = read_bytes(path)
    if is_utf16(data):
        raise InputError([Fault(UTF16, path, 1)])
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
    """
    try:
        with readable(path).open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                if number == 1 and is_utf16(raw):
                    faults.append(Fault(UTF16, path, 1))
                    return
                line = raw.removeprefix(_BOM) if number == 1 else raw
                text = _decoded(line.removesuffix(b"\n").removesuffix(b"\r"), path, number, faults)
                if text is not None:
                    yield number, text
    except OSError as error:
        raise _unreadable(path, error) from error


def write_atomic(path: Path | str, data: bytes | str, *, durable: bool = True) -> None:
    """Write a file whole or not at all: a temporary file beside it, flushed to disk, then renamed over it.

    Missing folders are made. A link is followed, so that it stays a link. A file that is there keeps its mode.

    Args:
        path: the file.
        data: its content; text is written as UTF-8.
        durable: False leaves the flushing to the system, which is much faster: still whole or not there if the
            process is killed, but not if the power fails.

    Raises:
        StorageError: the disk is full, or the place cannot be written; what was there before is unchanged.
    """
    target = Path(os.path.realpath(_usable(path)))
    temporary = _beside(target, _TEMPORARY)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as stream:
                _keep_mode(temporary, target)
                stream.write(data.encode("utf-8") if isinstance(data, str) else data)
                if durable:
                    stream.flush()
                    os.fsync(stream.fileno())
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        if durable:
            _sync_folder(target.parent)
    except OSError as error:
        raise _unwritable(path, error) from error


@contextmanager
def exclusive(path: Path | str, *, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock file while the block runs, so that processes take turns. It is made, and removed at the end.

    The system lets go of the lock when its process ends, however that comes; a file left behind holds nobody up.
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
    """Open and lock the file; whoever held it before may have removed it, and then it is made anew."""
    missed = 0
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            missed += 1
            if isinstance(error, FileNotFoundError) and missed < _TRIES:
                continue  # the folder has just been removed
            raise _unwritable(path, error) from error
        try:
            while not _try_lock(handle):
                waiting()
                time.sleep(_POLL)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), path.stat()):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _NO_LOCKS
    return True


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
    temporary = _beside(target, _TEMPORARY)
    try:
        _tidy(target)
        temporary.mkdir(parents=True)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        yield temporary
        try:
            _put_folder(temporary, target, keep=keep)
        except OSError as error:
            raise _unwritable(path, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        _tidy(target)


def recover_folder(path: Path | str) -> None:
    """Bring a folder of `atomic_folder` back whose writer was killed between moving it aside and putting the new one.

    For readers, before they say that the folder is missing; writers do it themselves. Nothing happens where the
    folder is there, where nothing of it was left, or where the place cannot be written.

    Raises:
        StorageError: no file system takes the path.
    """
    target = Path(os.path.realpath(_usable(path)))
    if not os.path.lexists(target):
        for aside in sorted(_left(target, _ASIDE), key=_modified, reverse=True):
            with suppress(OSError):  # its writer, or another reader, was faster
                aside.rename(target)
                return


def _put_folder(temporary: Path, target: Path, *, keep: bool) -> None:
    """Rename `temporary` to `target`; what stands there goes aside, from where `_tidy` brings it back or removes it."""
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
            target.rename(_beside(target, _ASIDE))
    _sync_folder(target.parent)


def _tidy(target: Path) -> None:
    """Bring a folder back that was left aside, and remove what has been replaced or abandoned."""
    asides = _left(target, _ASIDE)  # looked up first: if a folder stands there afterwards, it came after all of these
    recover_folder(target)
    if os.path.lexists(target):
        for aside in asides:
            garbage = _beside(target, _TEMPORARY)  # so that nobody brings back a folder that is half removed
            with suppress(OSError):
                aside.rename(garbage)
                shutil.rmtree(garbage, ignore_errors=True)
    for temporary in _left(target, _TEMPORARY):
        if time.time() - _modified(temporary) > _ABANDONED:
            shutil.rmtree(temporary, ignore_errors=True)


def _left(target: Path, ending: str) -> list[Path]:
    """What stands beside `target` under names of `_beside`."""
    name = re.compile(re.escape(f".{_short(target.name)}.") + r"\d+-[0-9a-f]{8}" + re.escape(ending))
    try:
        return [path for path in target.parent.iterdir() if name.fullmatch(path.name)]
    except OSError:
        return []  # no such folder, or not to be listed


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()  # its owner has just removed it


def _beside(target: Path, ending: str) -> Path:
    """A hidden name that nobody else has, in the folder of `target` and so on the same disk."""
    return target.with_name(f".{_short(target.name)}.{os.getpid()}-{secrets.token_hex(4)}{ending}")


def _short(name: str) -> str:
    """A name that leaves room for more; a long one is cut and ends in its hash, so that no two become the same."""
    data = os.fsencode(name)
    if len(data) <= _LONGEST:
        return name
    return f"{data[: _LONGEST - 20].decode('utf-8', 'ignore')}~{hashlib.sha256(data).hexdigest()[:16]}"


def _keep_mode(new: Path, old: Path) -> None:
    """Give `new` the permissions of `old`, if that is there: what was private stays private."""
    with suppress(FileNotFoundError):
        new.chmod(stat.S_IMODE(old.stat().st_mode))


def _usable(path: Path | str) -> Path:
    """The path, if it is one.

    Raises:
        StorageError: it holds NUL, or characters that the file system's encoding does not have.
    """
    try:
        if b"\0" not in os.fsencode(path):
            return Path(path)
    except UnicodeEncodeError:
        pass
    raise StorageError(f"{str(path)!r} can be no path: it holds NUL or half a character; expected the path of a file")


def _sync_folder(folder: Path) -> None:
    """Flush a rename to disk, where the system lets a folder be opened (Windows does not)."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _unreadable(path: Path | str, error: OSError) -> StorageError:
    return StorageError(f"cannot read {path}: {error.strerror or error}; expected a readable file")


def _unwritable(path: Path | str, error: OSError) -> StorageError:
    return StorageError(f"cannot write {path}: {error.strerror or error}; nothing was changed there")


def _decoded(line: bytes, path: Path | str, number: int, faults: list[Fault]) -> str | None:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(line[: error.start].decode("utf-8")) + 1
        byte = f"byte 0x{line[error.start]:02x}"
        faults.append(Fault(f"invalid UTF-8: {error.reason} at {byte}; save the file as UTF-8", path, number, column))
        return None
