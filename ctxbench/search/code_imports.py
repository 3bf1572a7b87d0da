"""Resolve imports to files for Python, JavaScript, TypeScript, Go, Java and Rust.

Python: a root is the folder of a top-level package or module. A file sees the folder above its topmost package (its
folder, if that is no package), the folders of each `conftest.py` above it, the roots that a project's manifest
declares, and every project's folder with its `src` and `lib`. Source: "The import system" of the language reference,
PEP 420, and pytest's import mode `prepend`.
"""

from __future__ import annotations

import configparser
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from ctxbench.io.documents import plain_json
from ctxbench.search.code_facts import all_code_facts
from ctxbench.search.code_grammars import CodeFacts, Import, grammar_name


class SourceTree:
    """Contents and code facts by path. Paths have `/` between folders; the root folder is the empty path."""

    def __init__(self, contents: Mapping[str, str], facts: Mapping[str, CodeFacts]) -> None:
        """Take the contents of all files, manifests included, and the facts of those that have some."""
        self.contents, self.facts = contents, facts
        self._json: dict[str, dict[str, Any]] = {}

    @cached_property
    def folders(self) -> frozenset[str]:
        """All folders that hold a file, at any depth; the root too."""
        return frozenset(folder for path in self.contents for folder in above(path))

    def of(self, *languages: str) -> Iterator[tuple[str, CodeFacts]]:
        """The files of some languages that have facts."""
        return ((path, facts) for path, facts in self.facts.items() if facts.language in languages)

    def named(self, *names: str) -> list[str]:
        """The files of some names, in any folder: those nearest the root first."""
        paths = [path for path in self.contents if path.rpartition("/")[2] in names]
        return sorted(paths, key=lambda path: (path.count("/"), path))

    def first(self, *paths: str | None) -> str | None:
        """The first of some paths that is a file here."""
        return next((path for path in paths if path is not None and path in self.contents), None)

    def toml(self, path: str) -> dict[str, Any]:
        """What a TOML file says; nothing where it is missing or broken."""
        try:
            return tomllib.loads(self.contents.get(path, ""))
        except (tomllib.TOMLDecodeError, RecursionError):
            return {}

    def json(self, path: str) -> dict[str, Any]:
        """What a JSON file says, comments allowed; nothing where it is missing, broken or no object."""
        if path not in self._json:
            try:
                content = json.loads(plain_json(self.contents.get(path, "")))
            except (ValueError, RecursionError):
                content = {}
            self._json[path] = content if isinstance(content, dict) else {}
        return self._json[path]


def folder_of(path: str) -> str:
    """The folder that holds a file or folder."""
    return path.rpartition("/")[0]


def above(path: str) -> Iterator[str]:
    """The folders around a path, from the nearest to the root."""
    while path:
        path = folder_of(path)
        yield path


def joined(folder: str, path: str) -> str | None:
    """A relative path from a folder, `.` and `..` taken out; None where it leads out of the tree."""
    parts = folder.split("/") if folder else []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def at(value: object, *keys: str) -> Any:
    """What nested tables hold under some keys; None where one is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def texts(value: object) -> list[str]:
    """The strings of a value that should be a list of such, or one."""
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]


_GO_IGNORED = re.compile(r"^//(?:go:build|\s*\+build) ignore\s*$", re.MULTILINE)
_GO_MODULE = re.compile(r"^[^\S\n]*module\s+\"?([^\s\"]+)", re.MULTILINE)


def go_imports(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """All (file, file it imports) of Go: a package is every file of its folder that is neither a test nor left out.

    The module path in the nearest `go.mod` names the folder. Source: Go Modules Reference, "Module paths".
    """
    modules: dict[str, str] = {}
    for path in tree.named("go.mod"):
        if match := _GO_MODULE.search(tree.contents[path]):
            modules.setdefault(match[1], folder_of(path))
    packages: dict[str, list[str]] = {}
    for path, _ in tree.of("go"):
        if not path.endswith("_test.go") and not _GO_IGNORED.search(tree.contents[path].partition("\npackage ")[0]):
            packages.setdefault(folder_of(path), []).append(path)
    for path, facts in tree.of("go"):
        for statement in facts.imports:
            owner = max(
                (name for name in modules if f"{statement.target}/".startswith(f"{name}/")), key=len, default=None
            )
            if owner is not None:
                folder = f"{modules[owner]}{statement.target[len(owner) :]}".removeprefix("/")
                yield from ((path, file) for file in packages.get(folder, ()))


def java_imports(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """All (file, file it imports) of Java: the file of a class, or of the class around it; all of a package for `*`.

    A file is found by the package that it declares. Where several source roots have a class of that name, the one
    nearest to the importing file is meant. What is used of the same package without an import is none.
    Source: The Java Language Specification, 7.5.
    """
    classes: dict[str, list[str]] = {}
    packages: dict[str, list[str]] = {}
    for path, facts in tree.of("java"):
        stem = path.rpartition("/")[2].removesuffix(".java")
        if stem not in ("package-info", "module-info"):
            classes.setdefault(f"{facts.package}.{stem}".lstrip("."), []).append(path)
            packages.setdefault(facts.package, []).append(path)
    for path, facts in tree.of("java"):
        for statement in facts.imports:
            if statement.names and statement.kind == "import" and statement.target in packages:
                yield from ((path, file) for file in packages[statement.target])
                continue
            name = statement.target
            while name and name not in classes:
                name = name.rpartition(".")[0]
            if name:
                yield path, max(classes[name], key=lambda file: (_shared(path, file), file))


def _shared(left: str, right: str) -> int:
    """How many folders two paths begin with together."""
    pairs = zip(left.split("/")[:-1], right.split("/")[:-1], strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(left.count("/"), right.count("/")))


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
        facts = None if module is None else self._tree.facts.get(module)
        defined = {definition.name for definition in facts.definitions} if facts is not None else ()
        has_submodules = module is None or module.rpartition("/")[2].startswith("__init__.")
        for name in names:
            inner = self._file(base, [*parts, name]) if has_submodules else None
            if inner is not None:
                yield inner
            if module is not None and (inner is None or name in defined):
                yield module

    def _file(self, base: str, parts: list[str]) -> str | None:
        module = "/".join([*filter(None, [base]), *parts])
        inside = f"{module}/" if module else ""
        names = [f"{inside}__init__.py", f"{inside}__init__.pyi"]
        return self._tree.first(*names, *([f"{module}.py", f"{module}.pyi"] if parts else []))

    def _is_top(self, root: str, name: str, folder: str) -> bool:
        """Whether a root has a top-level module or package of a name, which the standard library does not hide."""
        if name in sys.stdlib_module_names:  # only what lies beside a script comes before it
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


def _project_roots(tree: SourceTree) -> list[str]:
    """The roots of all projects of a tree: as declared, then the usual ones."""
    roots = []
    folders = dict.fromkeys(["", *(folder_of(path) for path in tree.named("pyproject.toml", "setup.py", "setup.cfg"))])
    for folder in folders:
        manifest = f"{folder}/" if folder else ""
        declared = [*_declared(tree.toml(f"{manifest}pyproject.toml")), *_configured(tree, f"{manifest}setup.cfg")]
        sources = [*declared, "", "src", "lib", "python"]
        roots += [root for source in sources if (root := joined(folder, source)) is not None]
    return [root for root in dict.fromkeys(roots) if root in tree.folders]


def _declared(manifest: object) -> Iterator[str]:
    """The folders of packages that a `pyproject.toml` declares."""
    setuptools, pytest = at(manifest, "tool", "setuptools"), at(manifest, "tool", "pytest")
    yield from texts(at(setuptools, "packages", "find", "where"))
    yield from texts(at(setuptools, "package-dir", ""))
    yield from texts(at(pytest, "ini_options", "pythonpath"))
    for entry in at(manifest, "tool", "poetry", "packages") or ():
        yield from texts(at(entry, "from"))
    yield from map(folder_of, texts(at(manifest, "tool", "hatch", "build", "targets", "wheel", "packages")))


def _configured(tree: SourceTree, path: str) -> Iterator[str]:
    """The folders of packages that a `setup.cfg` declares."""
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


_TARGETS = re.compile(r"(?:src/(?:lib|main)|build|(?:src/bin|examples|tests|benches)/(?:[^/]+|[^/]+/main))\.rs")
_MOST_STEPS = 50  # of `use` that lead to others
_DEPENDENCIES = ("dependencies", "dev-dependencies", "build-dependencies")

_Module = tuple[str, tuple[str, ...]]  # the file of the crate's root, and the names down to the module


def rust_imports(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """All (file, file it imports) of Rust, some more than once.

    `mod a;` is the module's file. A path (`use crate::a::B`, or `crate::a::f()` in code) is the file of the last
    module on it, by `crate`, `self`, `super`, a module beside it, or a crate of the tree that `Cargo.toml` depends on
    by its path; or a module that a `use` imports, under whatever name. Source: The Rust Reference, "Modules" and
    "Paths"; The Cargo Book, "Cargo Targets". What no `mod` declares is the module that its path below `src` says.
    """
    crates = _Crates(tree)
    yield from crates.declared
    for path, facts in tree.of("rust"):
        importer = crates.module_of.get(path)
        for statement in facts.imports:
            if statement.kind in ("use", "code"):
                parts = statement.target.split("::")
                file = crates.resolved(importer, parts) if importer else None
                if file is None or (importer and file == importer[0]):  # no module, or the crate's root
                    file = _by_location(tree, path, parts) or file
                if file is not None:
                    yield path, file


def _by_location(tree: SourceTree, path: str, parts: Sequence[str]) -> str | None:
    """The file that `crate::a::b` names by its place below the `src` of a file, as far as it is there, else None."""
    above, within, _ = f"/{path}".rpartition("/src/")
    ends = range(len(parts), 1, -1) if within and parts[0] == "crate" else ()
    names = ("/".join((f"{above}/src"[1:], *parts[1:end])) for end in ends)
    return next((file for name in names if (file := tree.first(f"{name}.rs", f"{name}/mod.rs"))), None)


class _Crates:
    """The crates of a tree, and the modules of each.

    Attributes:
        file_of: the file of each module; of an inline one the file that contains it.
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
        self._root_files: dict[str, dict[str, str]] = {}  # by Cargo.toml, root files by the name that they are used by
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
        edition = at(self._manifests.get(self._package[root]), "package", "edition")
        # in the edition 2015 paths of `use` begin at the crate's root
        return (self._inner((root, ()), first, steps) if edition in (None, "2015") else None), names

    def _inner(self, module: _Module, name: str, steps: int) -> _Module | None:
        """The module that a name is in another: its own, or one that a `use` imports."""
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
                if (file := self._declared(path, statement, is_root=path == root)) is not None:
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
        yield from (joined(folder, file) or "" for file in texts(declared) if self._tree.first(joined(folder, file)))
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
        if path in self._root_files:
            return self._root_files[path]
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
                    libraries[(library_name or name).replace("-", "_")] = self._library(dependency_manifest)
        package_name: Any = at(manifest, "lib", "name") or at(manifest, "package", "name")
        if isinstance(package_name, str):
            libraries[package_name.replace("-", "_")] = self._library(path)
        self._root_files[path] = {name: file for name, file in libraries.items() if file is not None}
        return self._root_files[path]

    def _of_workspace(self, path: str, name: str) -> tuple[str, Any]:
        """The folder of the workspace around a package, and the path that it gives a dependency."""
        for folder in above(path):
            manifest = self._manifests.get(f"{folder}/Cargo.toml" if folder else "Cargo.toml")
            if at(manifest, "workspace") is not None:
                return folder, at(manifest, "workspace", "dependencies", name, "path")
        return "", None


_ENDINGS = (".ts", ".tsx", ".d.ts", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json", ".vue", ".svelte")
_WRITTEN_AS = {".js": (".ts", ".tsx", ".d.ts"), ".jsx": (".tsx",), ".mjs": (".mts",), ".cjs": (".cts",)}
_LEVELS = 8  # files of `extends` that are followed
_PACKAGE = re.compile(r"(@[^/]+/[^/]+|[^/]+)(?:/(.*))?")


def script_imports(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """All (file, file it imports) of JavaScript and TypeScript: `import`, `export from`, `require` and `import()`.

    Source: TypeScript's handbook, "Modules: reference" (`paths`, `baseUrl`, endings); Node.js, "Modules".
    """
    finder = _Scripts(tree)
    for path, facts in tree.of("javascript", "typescript"):
        for statement in facts.imports:
            if (imported := finder.file_of(folder_of(path), statement.target.partition("?")[0])) is not None:
                yield path, imported


class _Scripts:
    """Where the modules of a tree are."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._configs: dict[str, dict[str, Any]] = {}  # by folder
        self._packages = _workspace_packages(tree)

    def file_of(self, folder: str, target: str) -> str | None:
        """The file that a target means in a folder; None for what is outside the tree."""
        if target.startswith("."):
            return self._file(joined(folder, target), inside=target.endswith(("/", ".")))
        if mapped := next(filter(None, map(self._file, _mapped(target, self._config(folder)))), None):
            return mapped
        matched = _PACKAGE.fullmatch(target)
        if matched is None or matched[1] not in self._packages:
            return None
        package = self._packages[matched[1]]
        return self._entry(package) if not matched[2] else self._sub(package, matched[2])

    def _file(self, path: str | None, *, inside: bool = False) -> str | None:
        """The file that a path without an ending means, or the folder's of that path."""
        if path is None:
            return None
        stem, dot, ending = path.rpartition(".")
        sources = [f"{stem}{suffix}" for suffix in _WRITTEN_AS.get(f"{dot}{ending}", ())] if stem else []
        files = [] if inside or not path else [path, *(f"{path}{suffix}" for suffix in _ENDINGS), *sources]
        return self._tree.first(*files) or (self._entry(path) if path in self._tree.folders else None)

    def _entry(self, folder: str) -> str | None:
        """What a folder is when it is imported: its package's main file, else its index."""
        package = self._tree.json(f"{folder}/package.json" if folder else "package.json")
        exported = package.get("exports")
        exported = at(exported, ".") or exported
        mains = [*_leaves(exported), *texts([package.get(key) for key in ("source", "types", "module", "main")])]
        paths = [joined(folder, main) for main in mains]
        paths += [joined(folder, f"{below}index") for below in ("", "src/") if not below or package]
        files = (
            f"{path}{suffix}" for path in paths if path not in (None, folder) for suffix in ("", *_ENDINGS, "/index.js")
        )
        return self._tree.first(*files)

    def _sub(self, package: str, below: str) -> str | None:
        """A path below a package, as its `exports` map it, else as files lie."""
        exported = self._tree.json(f"{package}/package.json" if package else "package.json").get("exports")
        paths = [*_leaves(at(exported, f"./{below}")), below, f"src/{below}"]
        return next(filter(None, (self._file(joined(package, path)) for path in paths)), None)

    def _config(self, folder: str) -> dict[str, Any]:
        """What the nearest configuration says of a folder: `base`, a folder, and `paths`, patterns to places."""
        if folder not in self._configs:
            start = f"{folder}/" if folder else ""
            file = self._tree.first(f"{start}tsconfig.json", f"{start}jsconfig.json")
            around = self._config(folder_of(folder)) if folder and file is None else {}
            self._configs[folder] = self._read_config(file, _LEVELS) if file is not None else around
        return self._configs[folder]

    def _read_config(self, path: str, levels: int) -> dict[str, Any]:
        config, folder = self._tree.json(path), folder_of(path)
        read: dict[str, Any] = {}
        includes = [*texts(config.get("extends"))]
        if at(config, "compilerOptions", "paths") is None:  # one that only refers to those of its parts
            includes += texts(
                [at(reference, "path") for reference in config.get("references") or () if isinstance(reference, dict)]
            )
        for include in includes if levels else ():
            include_path = joined(folder, include) if include.startswith(".") else None
            file = (
                self._tree.first(include_path, f"{include_path}.json", f"{include_path}/tsconfig.json")
                if include_path is not None
                else None
            )
            if file is not None:
                read |= self._read_config(file, levels - 1)
        base = at(config, "compilerOptions", "baseUrl")
        if isinstance(base, str):
            read["base"] = joined(folder, base)
        paths = at(config, "compilerOptions", "paths")
        if isinstance(paths, dict):
            start = read.get("base", folder)
            read["paths"] = {key: [joined(start or "", text) for text in texts(value)] for key, value in paths.items()}
        return read


def _mapped(target: str, config: dict[str, Any]) -> Iterator[str]:
    """Where a configuration says that a target may lie: by its longest pattern, then from its base."""
    paths: dict[str, list[str | None]] = config.get("paths", {})
    fitting = []
    for pattern in paths:
        start, star, end = pattern.partition("*")
        if target == pattern or (star and target.startswith(start) and target.endswith(end)):
            fitting.append((len(start) if star else len(target) + 1, pattern))
    if fitting:
        pattern = max(fitting)[1]
        start, _, end = pattern.partition("*")
        middle = target[len(start) : len(target) - len(end)]
        yield from (path.replace("*", middle, 1) for path in paths[pattern] if path is not None)
    if (base := config.get("base")) is not None:
        yield f"{base}/{target}" if base else target


def _leaves(exported: object) -> list[str]:
    """The paths that an entry of `exports` names, whatever its conditions."""
    if isinstance(exported, dict):
        return [leaf for key, value in exported.items() if not key.startswith("./") for leaf in _leaves(value)]
    return texts(exported) if exported is not None else []


def _workspace_packages(tree: SourceTree) -> dict[str, str]:
    """The folders of the packages that a workspace of the tree lists, by name; without a workspace none."""
    patterns: list[tuple[str, str]] = []
    for path in tree.named("package.json"):
        listed = tree.json(path).get("workspaces")
        listed = listed.get("packages") if isinstance(listed, dict) else listed
        patterns += [(folder_of(path), pattern) for pattern in texts(listed)]
    for path in tree.named("pnpm-workspace.yaml"):
        listed = re.findall(r"^\s*-\s*[\"']?([^\"'#\s]+)", tree.contents[path], re.MULTILINE)
        patterns += [(folder_of(path), pattern) for pattern in listed]
    packages: dict[str, str] = {}
    for path in tree.named("package.json"):
        name, folder = tree.json(path).get("name"), folder_of(path)
        if isinstance(name, str) and _is_listed(folder, patterns):
            packages.setdefault(name, folder)
    return packages


def _is_listed(folder: str, patterns: list[tuple[str, str]]) -> bool:
    listed = False
    for root, pattern in patterns:
        location = joined(root, pattern.removeprefix("!"))
        levels = location is not None and ("**" in location or location.count("/") == folder.count("/"))
        if location is not None and levels and fnmatchcase(folder, location.replace("**", "*")):
            listed = not pattern.startswith("!")
    return listed


def import_edges(contents: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    """The files of a tree that each of its files imports. Nothing is run, and nothing outside the tree is looked at.

    Args:
        contents: all files of the tree by path, with the manifests that rules read: `pyproject.toml`, `setup.cfg`,
            `Cargo.toml`, `tsconfig.json`, `package.json`, `pnpm-workspace.yaml`, `go.mod`.

    Returns:
        Paths imported by path, sorted, for each file that imports one; itself never. Cycles stay. Imports
        of what is no file of the tree (standard libraries, packages installed) are left out.
    """
    tree = SourceTree(contents, all_code_facts({path: contents[path] for path in contents if grammar_name(path)}))
    edges: dict[str, set[str]] = {}
    for rule in (python_imports, rust_imports, script_imports, go_imports, java_imports):
        for path, imported in rule(tree):
            if imported != path:
                edges.setdefault(path, set()).add(imported)
    return {path: tuple(sorted(edges[path])) for path in contents if path in edges}
