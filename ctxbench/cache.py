"""Where ctxbench keeps what it can make again: vectors, imported datasets, checked models."""

from __future__ import annotations

import os
from pathlib import Path

from ctxbench.errors import ParameterError


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
