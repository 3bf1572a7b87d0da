"""Looks at where a command will write, before it works: nothing that it reads is written over."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from ctxbench.core.errors import ParameterError, StorageError

_TEXTS = {"--csv": ".csv", "--markdown": ".md", "--junit": ".xml"}  # options whose files are never read again
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
        own: by option, whether the first line of a file that is there shows that the command wrote it; an empty file
            is replaced in any case. Options without one are looked at by the end of the name alone.

    Raises:
        ParameterError: an output is a folder, another output, one of the inputs or in one, is named as such files
            are, or holds what the command did not write.
        StorageError: it cannot be written.
    """
    paths = {option: path for option, path in outputs.items() if path is not None}
    for option, path in paths.items():
        if _kind(path) == "folder":
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
            ends = f"{option} {path} ends in {path.suffix}, as files that ctxbench reads do"
            raise ParameterError(f"{ends}; name a file that ends otherwise, such as in {_TEXTS[option]}")
        if may_replace and option in may_replace and _kind(path) == "file" and not _is_own(path, may_replace[option]):
            raise ParameterError(f"{option} {path} is there and is no earlier output of this command; name a new file")


def row_with(*keys: str) -> Callable[[str], bool]:
    """Tells lines that are a JSON object with all of these keys."""

    def is_row(line: str) -> bool:
        try:
            row: Any = json.loads(line)
        except (ValueError, RecursionError):
            return False
        return isinstance(row, dict) and row.keys() >= set(keys)

    return is_row


def line_from(start: str) -> Callable[[str], bool]:
    """Tells lines that begin so, such as the head of a table."""
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
    if (folder or parent != path) and _kind(parent) in ("file", "device"):
        if folder:
            raise StorageError(f"{parent} is a file; {folder} needs a folder, name another one")
        raise StorageError(f"cannot write {path}: {parent} is a file, no folder; name another place")
    home = parent if _kind(parent) == "folder" else _real(parent).parent
    for step in (path, *(home / name for name in path.relative_to(parent).parts)):
        try:
            step.stat()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror or error}; name another one") from error
    if _kind(path) == "device":
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
    return inside == container or container in inside.parents or _same_file(path, read)


def _same_file(path: Path, second: Path) -> bool:
    """Whether two names, which hard links give one file, are of the same."""
    try:
        return path.samefile(second)
    except OSError:
        return False


def _kind(path: Path) -> str:
    """What stands there: `file`, `folder` or `device`; empty where nothing does, or it may not be known."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return ""
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "device"


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
