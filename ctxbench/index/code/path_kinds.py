"""What a file is for, by its path and its first lines."""

from __future__ import annotations

import re

_TEST_FOLDERS = {"test", "tests", "testing", "__tests__", "spec", "specs", "testdata", "fixtures"}
_TEST_NAME = re.compile(
    r"^(?:tests?|conftest)\.(?!in$|txt$|toml$|ini$|cfg$)[a-z]+$|^test_|[._-](?:test|tests|spec)\.[a-z]+$"
    r"|^\w+Tests?\.(?:java|kt|cs)$"
)
_DOCUMENT_ENDINGS = {".md", ".mdx", ".rst", ".adoc", ".markdown", ".textile", ".pod", ".org"}
_DOCUMENT_NAME = re.compile(
    r"^(?:readme|licen[cs]e|copying|contributing|authors|contributors|maintainers|notice|security|code_of_conduct"
    r"|change(?:s|log)|history|news|releases?|release[_-]notes|upgrading|todo)(?:[._-].*)?$",
    re.IGNORECASE,
)
_CODE_NAME = re.compile(r"\.(?:py|rs|go|[jt]sx?|java|c|h|cc|cpp|rb|sh|toml)$", re.IGNORECASE)  # `history.py` is none
_DOCUMENT_FOLDERS = {"doc", "docs"}
_FRAGMENT_FOLDERS = {"changelog", "changelog.d", "changes", "news", "newsfragments", ".changeset"}
_PLAIN_ENDINGS = {".txt", ""}
_LOCK_NAMES = {
    *("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "bun.lockb", "go.sum", "gradle.lockfile"),
    *("pipfile.lock", "packages.lock.json"),
}
_GENERATED_NAME = re.compile(r"\.min\.(?:js|css)$|\.(?:map|snap)$|_pb2(?:_grpc)?\.pyi?$|\.pb\.go$|[._]generated\.\w+$")
_GENERATED_FOLDERS = {"generated", "__generated__", "__snapshots__", "dist"}
_GENERATED_MARK = re.compile(
    r"@generated\b|\bgenerated (?:by|from) .*do not edit|do not edit.*\bgenerated", re.IGNORECASE
)
_HEAD = 1_000  # characters in which a generated file says so


def is_test_path(path: str) -> bool:
    """Whether a file is of the tests, or what they read."""
    folders, name, _ = _split(path)
    return bool(_TEST_FOLDERS & folders or _TEST_NAME.search(name))


def is_document_path(path: str) -> bool:
    """Whether a file is read by people alone: documentation, changelogs and their fragments, the licence."""
    folders, name, ending = _split(path)
    if _CODE_NAME.search(path):
        return False
    if _DOCUMENT_FOLDERS & folders or (ending in _PLAIN_ENDINGS and _FRAGMENT_FOLDERS & folders):
        return True
    return ending in _DOCUMENT_ENDINGS or _DOCUMENT_NAME.match(name) is not None


def is_made_file(path: str, text: str = "") -> bool:
    """Whether a program writes a file, so that nobody edits it: a lock file, or one that is generated.

    Args:
        path: of the file.
        text: of the file; empty = only the path tells.
    """
    folders, name, ending = _split(path)
    name = name.lower()
    if name in _LOCK_NAMES or ending == ".lock" or _GENERATED_NAME.search(name) or _GENERATED_FOLDERS & folders:
        return True
    return is_made_text(text)


def is_made_text(text: str) -> bool:
    """Whether a file says at its head that a program writes it.

    Args:
        text: of the file.
    """
    head = text[:_HEAD]
    return "generated" in head.lower() and _GENERATED_MARK.search(head) is not None  # few heads have the word


def is_side_file(path: str, text: str = "") -> bool:
    """Whether a change takes a file along rather than being about it: for people alone, or written by a program."""
    return is_document_path(path) or is_made_file(path, text)


def _split(path: str) -> tuple[set[str], str, str]:
    """Folders in small letters, name, and its ending, likewise and with the dot; as `pathlib` has them, but faster."""
    *folders, name = path.split("/")
    dot = name.rfind(".")
    return {part.lower() for part in folders}, name, name[dot:].lower() if 0 < dot < len(name) - 1 else ""
