"""What a file holds in place of UTF-8 text, told by its first bytes."""

from __future__ import annotations

import shlex
from pathlib import Path

UTF16 = "the file is UTF-16; save it as UTF-8"
_GZIP = b"\x1f\x8b"


def is_utf16(data: bytes) -> bool:
    """Whether a text starts as one in UTF-16 does: with its byte order mark, or with ASCII characters of it."""
    halves = [set(data[:4][start::2]) for start in (0, 1)] if len(data[:4]) % 2 == 0 else []
    return data[:2] in (b"\xff\xfe", b"\xfe\xff") or ({0} in halves and halves[0] != halves[1])


def gzip_fault(data: bytes, path: Path | str) -> str:
    """What to do about a file that gzip compressed; empty if it did not."""
    if not data.startswith(_GZIP):
        return ""
    return f"it is compressed with gzip; unpack it first (gunzip -k {shlex.quote(str(path))})"
