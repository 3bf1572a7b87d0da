"""Imports of Rust: which file a module is, from the crates of a tree and their `mod` declarations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ctxbench.index.code.code_records import Import
from ctxbench.index.code.source_tree import SourceTree, above, at, folder_of, joined, texts

_TARGETS = re.compile(r"(?:src/(?:lib|main)|build|(?:src/bin|examples|tests|benches)/(?:[^/]+|[^/]+/main))\.rs")
_MOST_STEPS = 50  # of `use` that lead to others
_DEPENDENCIES = ("dependencies", "dev-dependencies", "build-dependencies")

_Module = tuple[str, tuple[str, ...]]  # the file of the crate's root, and the names down to the module


def rust_imports(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """All (file, file it imports) of Rust, some more than once.

    `mod a;` is the module's file. A path (`use crate::a::B`, or `crate::a::f()` in code) is the file of the last
    module on it, by `crate`, `self`, `super`, a module beside it, or a crate of the tree that `Cargo.toml` depends on
    by its path; or a module that a `use` brings in, under whatever name. Source: The Rust Reference, "Modules" and
    "Paths"; The Cargo Book, "Cargo Targets".
    """
    crates = _Crates(tree)
    yield from crates.declared
    for path, facts in tree.of("rust"):
        importer = crates.module_of.get(path)
        for statement in facts.imports if importer else ():
            imported = (
                crates.resolved(importer, statement.target.split("::"))
                if importer and statement.kind in ("use", "code")
                else None
            )
            if imported is not None:
                yield path, imported


class _Crates:
    """The crates of a tree, and the modules of each.

    Attributes:
        file_of: the file of each module; of an inline one that which it stands in.
        module_of: the module that each file is; of two crates that share it, the first.
        declared: (file, file of a module that it declares).
    """

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self.file_of: dict[_Module, str] = {}
        self.module_of: dict[str, _Module] = {}
        self.declared: list[tuple[str, str]] = []
        self._used: dict[_Module, dict[str, list[str]]] = {}  # of each module, the path by the name that `use` gives it
        self._brought: dict[_Module, _Module | None] = {}  # what such a name in a module leads to, once looked for
        self._package: dict[str, str] = {}  # by root file, its Cargo.toml
        self._manifests = {path: tree.toml(path) for path in tree.named("Cargo.toml")}
        self._known: dict[str, dict[str, str]] = {}  # by Cargo.toml, root files by the name that they are used by
        for path in self._manifests:
            for root in self._roots(path):
                self._package.setdefault(root, path)
        for path, _ in tree.of("rust"):  # of no package: `src/lib.rs` without a Cargo.toml
            if path.endswith(("src/lib.rs", "src/main.rs")):
                self._package.setdefault(path, "")
        for root in self._package:
            self._add(root)

    def resolved(self, importer: _Module, parts: list[str]) -> str | None:
        """The file of the last module that a path names; None for what is of another crate, or of none."""
        target = self._followed(importer, parts, 0)
        return None if target is None else self.file_of.get(target[0])

    def _followed(self, importer: _Module, parts: list[str], steps: int) -> tuple[_Module, bool] | None:
        """The last module that a path names, and whether it is all of the path, after some steps of `use`."""
        module, names = self._begun(importer, parts, steps)
        if module is None:
            return None
        for name in names:
            inner = self._inner(module, name, steps)
            if inner is None:
                return module, False
            module = inner
        return module, True

    def _begun(self, importer: _Module, parts: list[str], steps: int) -> tuple[_Module | None, list[str]]:
        """The module that a path begins in, and the names that follow."""
        root, inside = importer
        first, *names = parts
        while first == "super" and inside:
            inside = inside[:-1]
            if not names or names[0] != "super":
                return (root, inside), names
            first, *names = names
        if first in ("crate", "self", "super"):
            return (root, () if first == "crate" else inside), names
        if inner := self._inner(importer, first, steps):
            return inner, names
        if first in (crates := self._crates_known(self._package[root])):
            return (crates[first], ()), names
        return (self._inner((root, ()), first, steps) if self._is_old(root) else None), names

    def _inner(self, module: _Module, name: str, steps: int) -> _Module | None:
        """The module that a name is in another: its own, or one that a `use` brings in."""
        submodule = (module[0], (*module[1], name))
        if submodule in self.file_of:
            return submodule
        path = self._used.get(module, {}).get(name)
        if path is None or steps == _MOST_STEPS:
            return None
        if submodule not in self._brought:
            self._brought[submodule] = None  # while it is looked for, as it may lead back here
            target = self._followed(module, path, steps + 1)
            self._brought[submodule] = target[0] if target and target[1] else None
        return self._brought[submodule]

    def _add(self, root: str) -> None:
        """Note the file of a crate's root, and those of all modules declared in it and below."""
        waiting: list[tuple[str, tuple[str, ...]]] = [(root, ())]
        visited = set()
        while waiting:
            path, inside = waiting.pop()
            facts = self._tree.facts.get(path)
            if facts is None or path in visited:
                continue
            visited.add(path)
            self.file_of.setdefault((root, inside), path)  # of two by `cfg`, the first
            self.module_of.setdefault(path, (root, inside))
            for inline in facts.definitions:
                if inline.kind == "module":
                    self.file_of.setdefault((root, (*inside, *inline.name.split("."))), path)
            used = self._used.setdefault((root, inside), {})
            for statement in facts.imports:
                if statement.kind == "use":
                    used.setdefault(statement.names[0], statement.target.split("::"))
                file = self._declared(path, statement, is_root=path == root)
                if file is not None:
                    self.declared.append((path, file))
                    waiting.append((file, (*inside, *statement.target.split("::"))))

    def _declared(self, path: str, statement: Import, *, is_root: bool) -> str | None:
        """The file of a module that a file declares; None for other imports."""
        folder, stem = folder_of(path), path.rpartition("/")[2].removesuffix(".rs")
        inner = folder if is_root or stem == "mod" else f"{folder}/{stem}"
        name = statement.target.replace("::", "/")
        if statement.kind == "mod":
            return self._tree.first(joined(inner, f"{name}.rs"), joined(inner, f"{name}/mod.rs"))
        if statement.kind == "path":
            return self._tree.first(joined(f"{inner}/{folder_of(name)}" if "/" in name else folder, statement.names[0]))
        return None

    def _roots(self, path: str) -> Iterator[str]:
        """The root files of a package's targets."""
        manifest, folder = self._manifests[path], folder_of(path)
        if at(manifest, "package") is None:
            return
        declared = [at(manifest, "lib", "path"), at(manifest, "package", "build")]
        for kind in ("bin", "example", "test", "bench"):
            declared += [at(entry, "path") for entry in manifest.get(kind) or () if isinstance(entry, dict)]
        for file in texts(declared):
            if self._tree.first(joined(folder, file)):
                yield joined(folder, file) or ""
        start = f"{folder}/" if folder else ""
        yield from (
            file
            for file, _ in self._tree.of("rust")
            if file.startswith(start) and _TARGETS.fullmatch(file[len(start) :])
        )

    def _library(self, path: str) -> str | None:
        """The root file of a package's library."""
        declared = at(self._manifests.get(path), "lib", "path")
        file = declared if isinstance(declared, str) else "src/lib.rs"
        return self._tree.first(joined(folder_of(path), file))

    def _crates_known(self, path: str) -> dict[str, str]:
        """The libraries of the tree that a package may name: its own, and those that it depends on by path."""
        if path in self._known:
            return self._known[path]
        manifest, folder = self._manifests.get(path, {}), folder_of(path)
        libraries: dict[str, str | None] = {}
        tables = [manifest, *(manifest.get("target") or {}).values()]
        for table in [entry.get(kind) for entry in tables if isinstance(entry, dict) for kind in _DEPENDENCIES]:
            for name, dependency in table.items() if isinstance(table, dict) else ():
                start, where = folder, at(dependency, "path")
                if at(dependency, "workspace") is True:
                    start, where = self._of_workspace(path, name)
                if isinstance(where, str) and (package_folder := joined(start, where)) is not None:
                    dependency_manifest = f"{package_folder}/Cargo.toml" if package_folder else "Cargo.toml"
                    library_name = (
                        at(self._manifests.get(dependency_manifest), "lib", "name")
                        if at(dependency, "package") is None
                        else None
                    )
                    libraries[_crate_name(library_name or name)] = self._library(dependency_manifest)
        package_name: Any = at(manifest, "lib", "name") or at(manifest, "package", "name")
        if isinstance(package_name, str):
            libraries[_crate_name(package_name)] = self._library(path)
        self._known[path] = {name: file for name, file in libraries.items() if file is not None}
        return self._known[path]

    def _of_workspace(self, path: str, name: str) -> tuple[str, Any]:
        """The folder of the workspace around a package, and the path that it gives a dependency."""
        for folder in above(path):
            manifest = self._manifests.get(f"{folder}/Cargo.toml" if folder else "Cargo.toml")
            if at(manifest, "workspace") is not None:
                return folder, at(manifest, "workspace", "dependencies", name, "path")
        return "", None

    def _is_old(self, root: str) -> bool:
        """Whether a crate is of the edition 2015, in which paths of `use` begin at the crate's root."""
        return at(self._manifests.get(self._package[root]), "package", "edition") in (None, "2015")


def _crate_name(name: str) -> str:
    return name.replace("-", "_")
