"""Imports of JavaScript and TypeScript: relative ones, those that `tsconfig.json` maps, and packages of a workspace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from ctxbench.index.code.source_tree import SourceTree, at, folder_of, joined, texts

_ENDINGS = (".ts", ".tsx", ".d.ts", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json", ".vue", ".svelte")
_WRITTEN_AS = {".js": (".ts", ".tsx", ".d.ts"), ".jsx": (".tsx",), ".mjs": (".mts",), ".cjs": (".cts",)}
_CONFIGS = ("tsconfig.json", "jsconfig.json")
_LEVELS = 8  # files of `extends` that are followed
_PACKAGE = re.compile(r"(@[^/]+/[^/]+|[^/]+)(?:/(.*))?")


def script_imports(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """All (file, file it imports) of JavaScript and TypeScript: `import`, `export from`, `require` and `import()`.

    Source: TypeScript's handbook, "Modules: reference" (`paths`, `baseUrl`, endings); Node.js, "Modules".
    """
    finder = _Scripts(tree)
    for path, facts in tree.of("javascript", "typescript"):
        for statement in facts.imports:
            imported = finder.file_of(folder_of(path), re.split(r"[?]", statement.target, maxsplit=1)[0])
            if imported is not None:
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
        config = self._config(folder)
        for path in _mapped(target, config):
            file = self._file(path)
            if file is not None:
                return file
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
        start = f"{folder}/" if folder else ""
        package = self._tree.json(f"{start}package.json")
        exported = package.get("exports")
        exported = at(exported, ".") or exported
        mains = [*_leaves(exported), *texts([package.get(key) for key in ("source", "types", "module", "main")])]
        paths = [joined(folder, main) for main in mains]
        paths += [joined(folder, f"{below}index") for below in ("", "src/") if not below or package]
        for path in paths:
            if path is not None and path != folder:
                file = self._tree.first(path, *(f"{path}{suffix}" for suffix in _ENDINGS), f"{path}/index.js")
                if file is not None:
                    return file
        return None

    def _sub(self, package: str, below: str) -> str | None:
        """A path below a package, as its `exports` map it, else as files lie."""
        exported = self._tree.json(f"{package}/package.json" if package else "package.json").get("exports")
        for leaf in _leaves(at(exported, f"./{below}")):
            file = self._file(joined(package, leaf))
            if file is not None:
                return file
        return self._file(joined(package, below)) or self._file(joined(package, f"src/{below}"))

    def _config(self, folder: str) -> dict[str, Any]:
        """What the nearest configuration says of a folder: `base`, a folder, and `paths`, patterns to places."""
        if folder not in self._configs:
            file = self._tree.first(*(f"{folder}/{name}" if folder else name for name in _CONFIGS))
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
    base = config.get("base")
    if base is not None:
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
