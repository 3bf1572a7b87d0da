"""How folders and private files are made, and temporary ones beside the place that they are for.

Whoever fills one holds a lock on it, which the system lets go of when the process ends, however that comes: what is
there and not held is a leftover of a killed process.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

from ctxbench.core.errors import ParameterError

TEMPORARY, ASIDE = ".tmp", ".old"  # what is being made; a whole folder that makes room for another
_TRIES = 100  # of making a folder that nobody takes for a leftover before it is held
_ABANDONED = 86_400.0  # seconds after which, where there are no locks, nobody is taken to be filling it any more
_LONGEST = 200  # bytes of a name that stay in the names beside it; most file systems take 255 in all
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF)
_NO_HANDLE = -1  # Windows opens no folders


def temporary_path(target: Path, ending: str) -> Path:
    """A hidden name that nobody else has, in the folder of `target` and so on the same disk."""
    return target.with_name(f".{_short(target.name)}.{os.getpid()}-{secrets.token_hex(4)}{ending}")


def left(target: Path, ending: str) -> list[Path]:
    """What stands beside `target` under names of `beside`, held or not."""
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
    chosen = os.environ.get("CTXBENCH_CACHE")
    if chosen:
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
        message = f"{variable} is {path!r}, but that home folder is not known; write the folder's full path"
        raise ParameterError(message) from error


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
    """Make a temporary folder beside `target`, with its missing parents; it and what `let_go` is to be given.

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
            continue  # another process found it before it was held
        if try_lock(handle) is not False and path.exists():
            return path, handle
        os.close(handle)
    raise OSError(errno.EAGAIN, "other processes remove what is made there")


def let_go(handle: int) -> None:
    """End the hold on a folder."""
    if handle != _NO_HANDLE:
        os.close(handle)


def sweep(target: Path) -> None:
    """Remove the temporary files and folders beside `target` that nobody fills any more."""
    for path in left(target, TEMPORARY):
        _remove_unheld(path)


def sweep_folder(folder: Path) -> None:
    """Remove those that stand in a folder and that nobody fills any more, whatever they are for."""
    name = re.compile(r"\..+\.\d+-[0-9a-f]{8}" + re.escape(TEMPORARY))
    with suppress(OSError), os.scandir(folder) as entries:
        leftovers = [Path(entry.path) for entry in entries if name.fullmatch(entry.name)]
        for path in leftovers:
            _remove_unheld(path)


def _remove_unheld(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        handle = _NO_HANDLE
    try:
        free = None if handle == _NO_HANDLE else try_lock(handle)
        if free or (free is None and time.time() - modified(path) > _ABANDONED):
            remove(path)  # while it is held, so that nobody begins to fill it
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
