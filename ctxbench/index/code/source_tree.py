"""The files of a tree as import rules ask for them: by path, by folder, and what its manifests say."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from ctxbench.index.code.code_records import CodeFacts
from ctxbench.io.jsonc import plain_json


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
    values = value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str)]
