"""What the path of a file says: whether a text names it, a pattern fits, it is a test, or a program starts there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from ctxbench.core.arrays import BoolArray
from ctxbench.index.code.grammars import grammar_name
from ctxbench.index.code.path_kinds import is_test_path

_NAMED = re.compile(r"[\w@+.-]+(?:(?:[/\\]|::)[\w@+.-]+)*")
_BETWEEN = ("/", ".", "::")
_EXAMPLES = ("example", "examples", "sample", "samples", "demo", "demos", "fixtures", "benches", "benchmarks", "docs")
_TEST_NAME = re.compile(
    r"^tests?$|^conftest$|^tests?_|_tests?$|[.-](?:test|spec)$|_spec$|(?<=[a-z0-9])Tests?$|^Test(?=[A-Z])"
)
_UNCOUNTED = ("src", "cmd")
MOST_NAMED = 3
"""A name that more files have names none of them."""
_ENTRIES: Sequence[tuple[str, ...]] = (
    ("main", "__main__", "Main"),
    ("lib.rs", "app", "App", "Application", "cli", "server", "manage.py", "wsgi.py", "asgi.py"),
    ("index", "mod.rs", "__init__.py"),
)


def split_name(path: str) -> tuple[str, str, str]:
    """Folder (empty = the root), name without its last ending, and that ending without its dot."""
    folder, _, name = path.rpartition("/")
    bare, dot, ending = name.rpartition(".")
    return (folder, bare, ending) if dot and bare else (folder, name, "")


def subject_of(path: str) -> str:
    """What a test is a test of, by its name in small letters: `core` of `tests/test_core.py` and of `src/core.py`."""
    _, bare, _ = split_name(path)
    return (_TEST_NAME.sub("", bare) or bare).strip("_.-").lower()


def entry_score(path: str) -> float:
    """How much a file looks like one that a program starts from, in [0, 1]; 0 = not at all, or no code."""
    folder, bare, ending = split_name(path)
    above = [part for part in folder.split("/") if part]
    if grammar_name(path) is None or is_test_path(path) or any(part.lower() in _EXAMPLES for part in above):
        return 0.0
    kind = next((n for n, names in enumerate(_ENTRIES, 1) if bare in names or f"{bare}.{ending}" in names), 0)
    return 1.0 / kind / (1.0 + sum(part not in _UNCOUNTED for part in above)) if kind else 0.0


def fits_pattern(path: str, pattern: str) -> bool:
    """Whether a glob pattern, or a text that stands anywhere, fits a path; letters of either case."""
    path, pattern = path.lower(), pattern.lower().strip().removeprefix("./")
    if not any(sign in pattern for sign in "*?["):
        return bool(pattern) and pattern in path
    return any(fnmatchcase(path[at:], pattern) for at in _parts_from(path))


def _parts_from(path: str) -> Iterable[int]:
    """Where the parts of a path begin."""
    yield 0
    yield from (at + 1 for at, sign in enumerate(path) if sign == "/")


def ends_of(paths: Sequence[str]) -> dict[str, list[int]]:
    """The paths by each end of them that may name them, in small letters.

    `src/click/core.py` is named by itself, `click/core.py`, `core.py`, `src/click/core` and `click/core`.
    """
    by_end: dict[str, list[int]] = {}
    for position, path in enumerate(paths):
        low = path.lower()
        bare = low[: len(low) - len(split_name(low)[2]) - 1] if split_name(low)[2] else ""
        for at in _parts_from(low):
            by_end.setdefault(low[at:], []).append(position)
            if "/" in bare[at:]:
                by_end.setdefault(bare[at:], []).append(position)
    return by_end


def named_paths(text: str, ends: Mapping[str, Sequence[int]], visible: BoolArray) -> list[int]:
    """The paths that a text names by enough of their ends, rising.

    A path of somebody else's machine names the longest of its ends that stands here; a module, such as `click.core` or
    `click::core`, its file, also with the name of what is in it behind (`click.core.Context`). What has neither a `/`,
    nor a dot, nor `::` in it, or is the end of more than `MOST_NAMED` paths, names none.

    Args:
        text: any.
        ends: as of `ends_of`.
        visible: the paths that count, by position.
    """
    named: set[int] = set()
    for match in _NAMED.finditer(text):
        token = match.group().replace("\\", "/").rstrip(".").removeprefix("./").lower()
        if not any(sign in token for sign in _BETWEEN):
            continue
        for name in (*_ends_of(token), *_modules_of(token)):
            positions = [position for position in ends.get(name, ()) if visible[position]]
            if positions:
                named.update(positions if len(positions) <= MOST_NAMED else ())
                break
    return sorted(named)


def _ends_of(token: str) -> Iterable[str]:
    """A path, then what is left of it without its first folders; what is named in it, behind `::`, does not count."""
    path = token.partition("::")[0]
    parts = path.split("/") if "/" in path or "." in path else []
    return ("/".join(parts[first:]) for first in range(len(parts)))


def _modules_of(token: str) -> Iterable[str]:
    """The path of a module without an ending, then of those around it, but for the outermost."""
    parts = token.replace("::", ".").split(".") if "/" not in token else []
    return ("/".join(parts[:last]) for last in range(len(parts), 1, -1) if all(parts))
