"""Edges of imports by a language's own tool, compared with `import_edges`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from ctxbench.io.errors import ParameterError, StorageError
from ctxbench.search.code_imports import import_edges

Edge = tuple[str, str]


def found_edges(folder: Path, *patterns: str, files: Iterable[str]) -> set[Edge]:
    """Our edges in a folder, of those between files that the tool has read.

    Args:
        folder: the tree.
        patterns: of the names of files that are read: of code and of manifests.
        files: what the tool has read, by path in the folder.
    """
    read = set(files)
    paths = [path for pattern in patterns for path in folder.rglob(pattern)]
    contents = {path.relative_to(folder).as_posix(): path.read_text("utf-8", errors="replace") for path in paths}
    found = import_edges(contents)
    return {(one, other) for one in read for other in found.get(one, ()) if other in read}


def tell(compared: Callable[..., tuple[set[Edge], set[Edge]]]) -> int:
    """Compare the folder that the command line names, and print what differs and both figures.

    `+` is an edge that we alone find, `-` one that the tool alone finds.

    Args:
        compared: from a folder, and the words behind it, the tool's edges and ours.

    Raises:
        ParameterError: no folder is named.
        StorageError: there is no such folder.
    """
    if len(sys.argv) < 2:
        raise ParameterError(f"name the folder whose imports are compared: python {sys.argv[0]} FOLDER")
    folder = Path(sys.argv[1]).resolve()
    if not folder.is_dir():
        raise StorageError(f"there is no folder {sys.argv[1]}")
    expected, got = compared(folder, *sys.argv[2:])
    for sign, edges in (("+", got - expected), ("-", expected - got)):
        sys.stdout.writelines(f"{sign} {one} -> {other}\n" for one, other in sorted(edges))
    both = len(got & expected)
    precision, recall = both / max(len(got), 1), both / max(len(expected), 1)
    sys.stdout.write(f"{len(expected)} edges; precision {precision:.3f}, recall {recall:.3f}\n")
    return 0
