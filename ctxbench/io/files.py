"""Reading files whole or by line, and writing them so that nothing is ever half-written.

Lines end at a line feed (a carriage return before it is dropped), never at U+2028 or a form feed.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from ctxbench.core.errors import Fault, InputError, StorageError
from ctxbench.io.leftovers import (
    ASIDE,
    TEMPORARY,
    held_folder,
    left,
    let_go,
    make_folder,
    modified,
    remove,
    sweep,
    temporary_path,
    try_lock,
)
from ctxbench.io.near_files import suggest_file
from ctxbench.io.other_forms import UTF16, gzip_fault, is_utf16

_BOM = b"\xef\xbb\xbf"
_TRIES = 100  # of putting a folder in its place while others do the same
_POLL = 0.1  # seconds between two looks at a lock that another process holds
_GIVEN = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
_SPECIAL = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def special(path: Path | str) -> str:
    """What stands at a path that is neither a file nor a folder, such as `a pipe`; else empty."""
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
        return "it is a file, and a folder is wanted"
    except OSError as error:
        return error.strerror or str(error)


def readable(path: Path | str, *, repeatedly: bool = False) -> Path:
    """The path, to be opened for reading; nothing need stand there.

    Args:
        path: of a file. Who reads a pipe or a device may wait for ever; but what the process itself was given may be
            read: /dev/stdin, and what a shell makes of `<(command)`.
        again: it is read more than once, which none of those can be.

    Raises:
        StorageError: it can be no path, or what stands there is neither a file nor a folder.
    """
    kind = special(path)
    if kind and (repeatedly or not str(path).startswith(_GIVEN)):
        suffix = ", which can be read more than once" if repeatedly else ""
        raise StorageError(f"cannot read {path}: it is {kind}; expected a file{suffix}")
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
        raise InputError([Fault(UTF16, path, 1)])
    if (before := data.find(b"\0")) >= 0:
        message = "the file holds a NUL byte, which no text has; take it out, or name another file"
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
            for number, raw in enumerate(stream, start=1):
                if number == 1 and (packed := gzip_fault(raw, path)):
                    raise InputError([Fault(packed, path)])
                if number == 1 and is_utf16(raw):
                    faults.append(Fault(UTF16, path, 1))
                    return
                line = raw.removeprefix(_BOM) if number == 1 else raw
                text = _decoded(line.removesuffix(b"\n").removesuffix(b"\r"), path, number, faults)
                if text is not None:
                    yield number, text
    except OSError as error:
        raise _unreadable(path, error) from error


def write_atomic(path: Path | str, data: bytes | str, *, durable: bool = True, private: bool = False) -> None:
    """Write a file whole or not at all: a temporary file beside it, flushed to disk, then renamed over it.

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
        if durable:  # others come by the hundred into one folder: whoever has it to himself looks through it once
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
    """Write a temporary file beside `target`, and rename it over it."""
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
    """Give a folder for this user alone, hidden beside `place`, that is gone when the block ends.

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
    """Mend what killed writers of `atomic_folder` left: the folder itself where it was moved aside, and the leftovers.

    For readers, before they say that the folder is missing; writers do it themselves. Nothing happens where nothing
    was left, or where the place cannot be written.

    Raises:
        StorageError: no file system takes the path.
    """
    target = Path(os.path.realpath(_usable(path)))
    asides = left(target, ASIDE)  # looked up first: if a folder stands there afterwards, it came after all of these
    if not os.path.lexists(target):
        for aside in sorted(asides, key=modified, reverse=True):
            with suppress(OSError):  # its writer, or another reader, was faster
                aside.rename(target)
                break
    if os.path.lexists(target):
        for aside in asides:
            garbage = temporary_path(target, TEMPORARY)  # so that nobody brings back a folder that is half removed
            with suppress(OSError):
                aside.rename(garbage)
                remove(garbage)
    sweep(target)


def _put_folder(temporary: Path, target: Path, *, keep: bool) -> None:
    """Rename `temporary` to `target`; what stands there goes aside, from where `recover_folder` takes it."""
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
        why = f"the locale's encoding ({code}) has no {character!a}; set LC_ALL=C.UTF-8 or PYTHONUTF8=1"
        why = "it holds half a character" if "\ud800" <= character <= "\udfff" else why
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
    return StorageError(f"cannot read {path}: {error.strerror or error}; expected a readable file{suggestion}")


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


def file_name(name: str) -> str:
    """A file name for any name, another one for each: `/` becomes `~`, what might be trouble is percent-encoded."""
    plain = "~".join(quote(part, safe=" =,").replace("~", "%7E") for part in name.split("/"))
    return f"%2E{plain[1:]}" if plain.startswith(".") else plain
