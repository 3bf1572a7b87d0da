"""Imports of Python: which file a module is, from source roots and packages.

A root is the folder that a top-level package or module stands in. A file sees: the folder above its own topmost
package (its own folder, if that is no package), those of `conftest.py` above it, the roots that a project's manifest
declares, and every project's folder with its `src` and `lib`. Source: "The import system" of the language reference,
PEP 420, and pytest's import mode `prepend`.
"""

from __future__ import annotations

import configparser
import sys
from collections.abc import Iterator

from ctxbench.index.code.code_records import CodeFacts, Import
from ctxbench.index.code.source_tree import SourceTree, above, at, folder_of, joined, texts

_PROJECTS = ("pyproject.toml", "setup.py", "setup.cfg")
_USUAL = ("", "src", "lib", "python")  # folders of a project that packages stand in
_STANDARD = sys.stdlib_module_names


def python_imports(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """All (file, file it imports) of Python, some more than once.

    `import a.b` is `a/b.py` or `a/b/__init__.py`, or of the packages on the way the last that is there. `from a import
    b` is the submodule `a/b`, else `a`; both where the package has a `b` of its own, too.
    """
    modules = _PythonModules(tree)
    for path, facts in tree.of("python"):
        for statement in facts.imports:
            yield from ((path, file) for file in modules.imported(path, statement))


class _PythonModules:
    """Where the modules of a tree are."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._projects = _project_roots(tree)
        self._roots: dict[str, tuple[str, ...]] = {}

    def imported(self, path: str, statement: Import) -> Iterator[str]:
        """The files that an import of a file means."""
        folder, parts = folder_of(path), statement.target.split(".") if statement.target else []
        if statement.level:
            bases = [folder, *above(folder)][statement.level - 1 : statement.level]
        else:
            bases = [root for root in self._seen_from(path) if self._is_top(root, parts[0], folder)][:1]
        for base in bases:
            if statement.kind == "import":
                files = (self._file(base, parts[:end]) for end in range(len(parts), 0, -1))
                yield from [file for file in files if file][:1]
            else:
                yield from self._from_import(base, parts, statement.names)

    def _from_import(self, base: str, parts: list[str], names: tuple[str, ...]) -> Iterator[str]:
        """What `from PARTS import NAMES` means."""
        module = self._file(base, parts)
        if module is None and "/".join([*filter(None, [base]), *parts]) not in self._tree.folders:
            return
        bound = _bound(self._tree.facts.get(module)) if module is not None else set()
        for name in names:
            inner = self._file(base, [*parts, name]) if module is None or _is_package(module) else None
            if inner is not None:
                yield inner
            if module is not None and (inner is None or name in bound):
                yield module

    def _file(self, base: str, parts: list[str]) -> str | None:
        module = "/".join([*filter(None, [base]), *parts])
        inside = f"{module}/" if module else ""
        names = [f"{inside}__init__.py", f"{inside}__init__.pyi"]
        return self._tree.first(*names, *([f"{module}.py", f"{module}.pyi"] if parts else []))

    def _is_top(self, root: str, name: str, folder: str) -> bool:
        """Whether a root has a top-level module or package of a name, which the standard library does not hide."""
        if name in _STANDARD:  # only what lies beside a script comes before it
            return root == folder and self._file(root, [name]) is not None
        module = f"{root}/{name}" if root else name
        return self._file(root, [name]) is not None or module in self._tree.folders

    def _seen_from(self, path: str) -> tuple[str, ...]:
        """The roots that a file sees, in the order in which they are looked through."""
        folder = folder_of(path)
        if folder not in self._roots:
            top = folder
            while top and self._file(top, []) is not None:
                top = folder_of(top)
            around = [folder, *above(folder)]
            tests = [
                ancestor
                for ancestor in around
                if self._tree.first(f"{ancestor}/conftest.py" if ancestor else "conftest.py")
            ]
            tests = [ancestor for ancestor in tests if self._file(ancestor, []) is None]
            near = [project for project in self._projects if project in around or folder_of(project) in around]
            near.sort(key=len, reverse=True)
            self._roots[folder] = tuple(dict.fromkeys([top, *tests, *near, *self._projects]))
        return self._roots[folder]


def _is_package(path: str) -> bool:
    return path.rpartition("/")[2].startswith("__init__.")


def _bound(facts: CodeFacts | None) -> set[str]:
    """The names that a module defines itself."""
    return {definition.name for definition in facts.definitions} if facts else set()


def _project_roots(tree: SourceTree) -> list[str]:
    """The roots of all projects of a tree: as declared, then the usual ones."""
    roots = []
    folders = dict.fromkeys(["", *(folder_of(path) for path in tree.named(*_PROJECTS))])
    for folder in folders:
        manifest = f"{folder}/" if folder else ""
        declared = [*_declared(tree.toml(f"{manifest}pyproject.toml")), *_configured(tree, f"{manifest}setup.cfg")]
        roots += [root for source in [*declared, *_USUAL] if (root := joined(folder, source)) is not None]
    return [root for root in dict.fromkeys(roots) if root in tree.folders]


def _declared(manifest: object) -> Iterator[str]:
    """The folders that a `pyproject.toml` says packages stand in."""
    setuptools, pytest = at(manifest, "tool", "setuptools"), at(manifest, "tool", "pytest")
    yield from texts(at(setuptools, "packages", "find", "where"))
    yield from texts(at(setuptools, "package-dir", ""))
    yield from texts(at(pytest, "ini_options", "pythonpath"))
    for entry in at(manifest, "tool", "poetry", "packages") or ():
        yield from texts(at(entry, "from"))
    for package in texts(at(manifest, "tool", "hatch", "build", "targets", "wheel", "packages")):
        yield folder_of(package)


def _configured(tree: SourceTree, path: str) -> Iterator[str]:
    """The folders that a `setup.cfg` says packages stand in."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(tree.contents.get(path, ""))
    except configparser.Error:
        return
    yield from parser.get("options.packages.find", "where", fallback="").split()
    for line in parser.get("options", "package_dir", fallback="").splitlines():
        name, equals, folder = line.partition("=")
        if equals and not name.strip():
            yield folder.strip()
