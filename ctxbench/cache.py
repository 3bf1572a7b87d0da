"""Where ctxbench keeps what it can make again: vectors, imported datasets, checked models."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the root folder of all caches; it need not exist.

    The environment variable `CTXBENCH_CACHE` if it is set and not empty, else the platform's cache folder for the
    user (`~/.cache/ctxbench` on Linux). It is read at each call, so that a test can move it.
    """
    chosen = os.environ.get("CTXBENCH_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("ctxbench"))
