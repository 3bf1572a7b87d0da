"""The source files that others import, found by name: relative imports of JavaScript and TypeScript, modules of Python.

Nothing is run, and paths that a program makes itself, or a build maps, are not found: it says which files a command
is likely made of, not that it is made of no others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path

_LARGEST = 1_000_000  # bytes of a file that is looked into; longer ones are bundles
_SCRIPTS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
_RELATIVE = re.compile(r"""(?:\bfrom|\bimport|\brequire)\s*\(?\s*["'](\.{1,2}/[^"'\n]+)["']""")
_FROM = re.compile(r"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\n#]*))", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*import[ \t]+([\w., \t]+)", re.MULTILINE)


def imported_files(first: Sequence[Path], candidates: Collection[Path] | None, base: Path) -> set[Path]:
    """The files that some files import, and those that these import.

    Args:
        first: files to begin with; those of other languages import nothing that is known.
        candidates: files that count; None = all that exist.
        base: the folder that Python may find modules in, as well as the folder of each of `first`.

    Returns:
        A part of `among`, without `first`.
    """
    allowed = None if candidates is None else {Path(path) for path in candidates}
    result: set[Path] = set()
    roots = list(dict.fromkeys([*(path.parent for path in first), base]))
    waiting = list(first)
    while waiting:
        path = waiting.pop()
        for name in _candidates(path, roots):
            if name in result or name in first:
                continue
            if name.is_file() if allowed is None else name in allowed:
                result.add(name)
                waiting.append(name)
    return result


def _candidates(path: Path, roots: Sequence[Path]) -> Iterator[Path]:
    """The paths that the imports of a file may mean."""
    if path.suffix not in (".py", *_SCRIPTS):
        return
    try:
        if path.stat().st_size > _LARGEST:
            return
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    if path.suffix == ".py":
        for dots, module in _python_modules(text):
            starts = [path.parents[dots - 1]] if 0 < dots <= len(path.parents) else roots if not dots else []
            for start in starts:
                target = start.joinpath(*module.split("."))
                yield from (target.with_name(f"{target.name}.py"), target / "__init__.py")
        return
    for match in _RELATIVE.finditer(text):
        target = path.parent
        for part in match[1].split("/"):
            target = target.parent if part == ".." else target / part if part != "." else target
        yield target
        stem = target.with_suffix("") if target.suffix in _SCRIPTS else target  # `./a.js` may be written as `a.ts`
        yield from (stem.with_name(f"{stem.name}{ending}") for ending in _SCRIPTS if stem.name)
        yield from (target / f"index{ending}" for ending in _SCRIPTS)


def _python_modules(text: str) -> Iterator[tuple[int, str]]:
    """The modules that a text imports, each with the dots in front; what is imported from one may be a module, too."""
    for match in _FROM.finditer(text):
        dots, module = len(match[1]), match[2]
        if module:
            yield dots, module
        for name in re.findall(r"(\w+)(?:[ \t]+as[ \t]+\w+)?", match[3] or match[4] or ""):
            yield dots, f"{module}.{name}" if module else name
    names = chain.from_iterable(match[1].split(",") for match in _IMPORT.finditer(text))
    for name in (words[0] for entry in names if (words := entry.split())):
        parts = name.split(".")
        yield from ((0, ".".join(parts[:end])) for end in range(1, len(parts) + 1))
