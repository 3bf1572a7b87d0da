"""Scripts under experiments/ take hours, so few of them run in tests: what they import from the package exists."""

from __future__ import annotations

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]


def exists(module: str, name: str) -> bool:
    return hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}") is not None


def test_what_scripts_import_from_the_package_exists():
    imports = {
        (path.relative_to(ROOT).as_posix(), node.module, alias.name)
        for path in ROOT.glob("experiments/**/*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ctxbench")
        for alias in node.names
    }
    assert len(imports) > 100
    assert [row for row in sorted(imports) if not exists(*row[1:])] == []
