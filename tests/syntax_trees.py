"""The syntax trees of the package's files, for tests of its shape: each file is parsed once in a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a Python file, which callers must not change."""
    return ast.parse(path.read_text("utf-8"))
