"""What the system refuses, which is a fault of the user's files and not of the program, in words."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ctxbench.core.errors import StorageError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM)
_WANTED = {
    errno.EROFS: "name a place that can be written",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ELOOP: "expected no link that leads back to itself",
    errno.ENOTDIR: "expected a folder before the last slash",
    errno.EISDIR: "expected a file, not a folder",
    errno.ENOTEMPTY: "expected an empty folder",
    errno.EIO: "look at the disk",
    errno.EMFILE: "let the process open more files (ulimit -n)",
}


def system_fault(error: OSError) -> StorageError | None:
    """What to tell of an error that no room has told of; None where it is none of the user's files: a bug.

    Args:
        error: as the system gave it.
    """
    message = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        return StorageError(f"cannot write {error.filename or 'the output'}: {message}; make room and try again")
    if _working_folder_is_gone():
        return StorageError("the folder that you are in is gone; go to another one and try again")
    if error.filename is None:
        return None
    path = Path(os.fsdecode(error.filename))
    if error.errno in _DENIED:
        for folder in reversed(path.parents):
            if folder.is_dir() and not os.access(folder, os.X_OK):
                return StorageError(f"cannot read {folder}: {message}; expected a folder that can be read")
        kind = "folder" if path.is_dir() else "file"
        return StorageError(f"cannot use {path}: {message}; expected a {kind} that can be read and written")
    if error.errno in _WANTED:
        return StorageError(f"cannot use {path}: {message}; {_WANTED[error.errno]}")
    return None


def _working_folder_is_gone() -> bool:
    try:
        Path.cwd()
    except OSError:
        return True
    return False
