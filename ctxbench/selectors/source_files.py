"""Finds the source files of a command, as far as possible: an edit makes it another selector."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Container, Sequence
from pathlib import Path

from ctxbench.core.errors import ParameterError
from ctxbench.selectors.protocol import shown_path
from ctxbench.sources.imported_files import imported_files

MOST = 200
"""So many files are hashed one by one; more count as one, by the name of their folder."""

_MOST_SEEN = 20_000  # source files and folders; a home folder may hold more
_CODE = frozenset(
    (
        *(".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".py", ".rb", ".go", ".rs", ".java", ".kt"),
        *(".scala", ".cs", ".fs", ".php", ".pl", ".lua", ".ex", ".exs", ".erl", ".clj", ".swift", ".c", ".h", ".cc"),
        *(".cpp", ".hpp", ".sh", ".bash", ".ps1", ".wasm"),
    )
)
_SETTINGS = frozenset({"package.json", "tsconfig.json", "pyproject.toml", "Cargo.toml", "go.mod"})
_PASSED_OVER = frozenset({"node_modules", "venv", "__pycache__", "runs", "target", "site-packages"})


def code_of(source: Sequence[str] | str | None, base: Path) -> list[Path]:
    """The files and folders that a user says hold the code of a command; none where nothing is said.

    Raises:
        ParameterError: one is not there.
    """
    named = [source] if isinstance(source, str) else source or ()
    if missing := [name for name in named if not (base / name).exists()]:
        raise ParameterError(f"source: there is no {missing[0]!r}; name files and folders of its code")
    return [base / name for name in named]


def source_files(
    argv_files: Sequence[Path], base: Path, source: Sequence[Path] = ()
) -> tuple[dict[str, str], list[str]]:
    """The SHA-256 of the files of a command, by name, and which of them are known to be its own.

    These are the files that it names, and the source code in the folder that it runs in and below, or, of a file that
    lies elsewhere, in that file's folder and below; where `source` says what its code is, that in place of the folders.
    Hidden folders, `node_modules` and the like are ignored, and so are data: what else a command reads is not
    known here.

    Args:
        argv_files: that the command names; they are there.
        base: the folder that the command runs in.
        source: files and folders that hold its code; none = not said.

    Returns:
        Names relative to `base` where they lie below it, else to the folder that was searched; one hash for files of
        one name. Where there are more than `MOST` that are not named, one hash for all those that are in no folder of
        a named file, and where even these are more, for all. Behind it the names of its own files, sorted: those that
        it names, and that these import; all where it names no source code, or `source` does.
    """
    hashes: dict[str, str] = {}
    named = dict.fromkeys((*argv_files, *(path for path in source if not path.is_dir())))
    for path in named:
        _add(hashes, shown_path(path, base), _sha256(path))
    own_folders = dict.fromkeys(path.parent for path in named if path.suffix in _CODE)
    own_names = {shown_path(path, base) for path in named}
    folders = [path for path in source if path.is_dir()] if source else [*(own_folders or [base])]
    for folder in dict.fromkeys(base if path.is_relative_to(base) and not source else path for path in folders):
        top = "" if folder == base else f"{shown_path(folder, base)}/"
        nearby = {path: f"{top}{path.relative_to(folder).as_posix()}" for path in _code_below(folder, named)}
        near = {path for path in nearby if any(path.is_relative_to(parent) for parent in own_folders)}
        separate = nearby if len(nearby) <= MOST else near if len(near) <= MOST else ()
        for path in separate:
            _add(hashes, nearby[path], _sha256(path))
        if rest := [path for path in nearby if path not in separate]:
            _add(hashes, top or "./", _joined(*(nearby[path] for path in rest), *map(_sha256, rest)))
        own_names |= {nearby[path] for path in imported_files([*named], separate, base)}
    return hashes, sorted(own_names if own_folders and not source else hashes)


def _add(hashes: dict[str, str], name: str, sha256: str) -> None:
    hashes[name] = _joined(hashes[name], sha256) if name in hashes else sha256


def _joined(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogateescape")).hexdigest()


def _code_below(folder: Path, named: Container[Path]) -> list[Path]:
    """The source files of a folder and those below it, sorted, without the named, as far as it is looked through."""
    paths: list[Path] = []
    n_seen = 0
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not (name.startswith(".") or name in _PASSED_OVER))
        code = sorted(name for name in files if name in _SETTINGS or os.path.splitext(name)[1] in _CODE)  # noqa: PTH122 - of thousands
        paths += [path for name in code if (path := Path(root, name)) not in named and os.path.isfile(path)]  # noqa: PTH113 - False where it cannot be looked at
        n_seen += 1 + len(code)
        if n_seen >= _MOST_SEEN:
            break
    return paths


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return "unreadable"
