"""Imports of Go and Java, whose files say which package they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ctxbench.index.code.source_tree import SourceTree, folder_of

_GO_IGNORED = re.compile(r"^//(?:go:build|\s*\+build) ignore\s*$", re.MULTILINE)
_GO_MODULE = re.compile(r"^[^\S\n]*module\s+\"?([^\s\"]+)", re.MULTILINE)


def go_imports(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """All (file, file it imports) of Go: a package is every file of its folder that is neither a test nor left out.

    The folder is told by the module path in the nearest `go.mod`. Source: Go Modules Reference, "Module paths".
    """
    modules: dict[str, str] = {}
    for path in tree.named("go.mod"):
        match = _GO_MODULE.search(tree.contents[path])
        if match:
            modules.setdefault(match[1], folder_of(path))
    packages: dict[str, list[str]] = {}
    for path, _ in tree.of("go"):
        if not path.endswith("_test.go") and not _is_left_out(tree.contents[path]):
            packages.setdefault(folder_of(path), []).append(path)
    for path, facts in tree.of("go"):
        for statement in facts.imports:
            owner = max(
                (name for name in modules if f"{statement.target}/".startswith(f"{name}/")), key=len, default=None
            )
            if owner is not None:
                folder = f"{modules[owner]}{statement.target[len(owner) :]}".removeprefix("/")
                yield from ((path, file) for file in packages.get(folder, ()))


def _is_left_out(content: str) -> bool:
    """Whether a file says that it is part of no build."""
    return _GO_IGNORED.search(content.partition("\npackage ")[0]) is not None


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
