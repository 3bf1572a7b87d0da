"""Where ctxbench keeps what it can make again, and files of it that are checked when they are read.

A sealed file starts with a line of its own, the checksum of its name and of what follows. A sealed folder holds a
sealed file with the checksums of its other files. Rows are kept by `ctxbench.io.checked_rows`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from ctxbench.core.errors import StorageError
from ctxbench.io.files import read_bytes, readable, write_atomic
from ctxbench.io.leftovers import cache_dir, expanded, sweep

__all__ = ["altered", "cache_dir", "checksum", "expanded", "is_sealed", "read_sealed", "seal_folder", "write_sealed"]

_SEAL = ".checksums"  # in a sealed folder
_log = logging.getLogger(__name__)


def checksum(key: str, data: bytes) -> str:
    """CRC-32 of data and of what they are kept under, as 8 hexadecimal digits."""
    return f"{crc32(data, crc32(key.encode(errors='surrogateescape'))):08x}"


def write_sealed(path: Path, data: bytes) -> None:
    """Keep data in a file, whole or not at all; where nothing can be written, nothing is kept."""
    sweep(path)  # `write_atomic` leaves the leftovers of killed processes where it does not flush
    with suppress(StorageError):
        write_atomic(path, f"{checksum(path.name, data)}\n".encode() + data, durable=False, private=True)


def read_sealed(path: Path) -> bytes | None:
    """What was kept in a file; None if there is none. What cannot be read, or does not fit, is said and None, too."""
    try:
        data = _unsealed(path)
    except StorageError as error:
        if os.path.lexists(path):
            _log.warning("%s; what it held is made again", error)
        return None
    if data is None:
        _log.warning("%s does not fit its checksum; what it held is made again", path)
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


def _sum_of(folder: Path, name: str) -> str | None:
    with suppress(OSError, StorageError):
        return checksum(name, readable(folder / name).read_bytes())
    return None
