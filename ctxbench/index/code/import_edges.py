"""Which files import which, by each language's own rules."""

from __future__ import annotations

from collections.abc import Mapping

from ctxbench.index.code.code_facts import all_code_facts
from ctxbench.index.code.grammars import grammar_name
from ctxbench.index.code.package_imports import go_imports, java_imports
from ctxbench.index.code.python_imports import python_imports
from ctxbench.index.code.rust_imports import rust_imports
from ctxbench.index.code.script_imports import script_imports
from ctxbench.index.code.source_tree import SourceTree

_RULES = (python_imports, rust_imports, script_imports, go_imports, java_imports)


def import_edges(contents: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """The files of a tree that each of its files imports. Nothing is run, and nothing outside the tree is looked at.

    Args:
        contents: all files of the tree by path, with the manifests that rules read: `pyproject.toml`, `setup.cfg`,
            `Cargo.toml`, `tsconfig.json`, `package.json`, `pnpm-workspace.yaml`, `go.mod`.

    Returns:
        Paths imported by path, sorted, for each file that imports one; itself never. Cycles are as they are. Imports
        of what is no file of the tree (standard libraries, packages installed) are left out.
    """
    tree = SourceTree(contents, all_code_facts({path: contents[path] for path in contents if grammar_name(path)}))
    edges: dict[str, set[str]] = {}
    for rule in _RULES:
        for path, imported in rule(tree):
            if imported != path:
                edges.setdefault(path, set()).add(imported)
    return {path: tuple(sorted(edges[path])) for path in contents if path in edges}
