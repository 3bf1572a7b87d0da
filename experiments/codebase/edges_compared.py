"""Edges of imports by a language's own tool, held against `import_edges`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from ctxbench.index.code.import_edges import import_edges

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


def tell(expected: set[Edge], got: set[Edge]) -> None:
    """Print what differs, `+` found by us alone and `-` by the tool alone, and both figures."""
    for sign, edges in (("+", got - expected), ("-", expected - got)):
        sys.stdout.writelines(f"{sign} {one} -> {other}\n" for one, other in sorted(edges))
    both = len(got & expected)
    precision, recall = both / max(len(got), 1), both / max(len(expected), 1)
    sys.stdout.write(f"{len(expected)} edges; precision {precision:.3f}, recall {recall:.3f}\n")
