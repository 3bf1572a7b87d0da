"""The items of a tree: one for each file (its text, or an outline with a chunk per definition) and each commit."""

from __future__ import annotations

import hashlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from ctxbench.core.items import Item, ItemKey, Link
from ctxbench.index.code.code_records import CodeDefinition, CodeFacts
from ctxbench.index.code.languages import LONGEST_LINE, is_minified, language_of
from ctxbench.sources.repository.git_reader import LineCommit

VIEWS = ("files", "definitions")
MOST_BYTES = 1_000_000
_LOOKED_AT = 8_192  # bytes in which git, too, looks for a NUL


def text_or_fault(data: bytes) -> tuple[str, str]:
    """The text of a file with line feeds at line ends, and a fault if no item can hold it: one of them is empty."""
    if b"\0" in data[:_LOOKED_AT]:
        return "", "binary"
    try:
        text = data.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError:
        return "", "not UTF-8"
    if "\r" in text:  # one letter is looked for ten times as fast as two
        text = text.replace("\r\n", "\n")
    if is_minified(text):
        return "", f"minified (a line over {LONGEST_LINE:,} characters)"
    return text, ""


def file_items(
    path: str,
    content: str,
    *,
    view: str = "files",
    versioned: bool = False,
    created: str | None = None,
    until: str | None = None,
) -> list[Item]:
    """The items of one file.

    Args:
        path: in the tree, with slashes; the title of each item.
        content: as `text_or_fault` gives it.
        view: `files`: one item with the whole text. `definitions`: an outline, and a chunk for each definition; a file
            without definitions, or whose language is not read, is whole.
        versioned: whether names end in `@` and 12 hex digits of the SHA-256 of the item's text, for a catalog that
            holds several versions of a file.
        created, until: of each item, see `Item`.

    Returns:
        The item of type `file` first, then `chunk` items by place, named `path::Class.method`.
    """
    language = language_of(path)
    texts = [("file", path, f"{path}\n\n{content}")]
    if view == "definitions" and (facts := facts_of({path: content})[path]).definitions:
        texts = [("file", path, _outline(path, facts))]
        texts += [
            ("chunk", f"{path}::{definition.name}", f"{path}\n\n{text}")
            for definition, text in _bodies(content, facts.definitions)
        ]
    return [
        Item(
            type=kind,
            name=f"{name}@{hashlib.sha256(text.encode()).hexdigest()[:12]}" if versioned else name,
            title=path,
            text=text,
            kind=language,
            created=created,
            until=until,
        )
        for kind, name, text in texts
    ]


def facts_of(contents: Mapping[str, str]) -> dict[str, CodeFacts]:
    """The code facts of files by path; cached by text, so ask for many files at once."""
    from ctxbench.index.code.code_facts import all_code_facts  # grammars wait until definitions are asked for

    return all_code_facts(contents)


def _outline(path: str, facts: CodeFacts) -> str:
    """The outline of a file: path, first line of its documentation, imports, and signatures by depth."""
    imports = ", ".join(
        "." * entry.level + entry.target + (f" ({', '.join(entry.names)})" if entry.names else "")
        for entry in facts.imports
    )
    signatures = "\n".join(
        "    " * definition.name.count(".") + definition.signature for definition in facts.definitions
    )
    return "\n\n".join(filter(None, (path, facts.doc, f"imports: {imports}" if imports else "", signatures)))


def _bodies(content: str, definitions: Sequence[CodeDefinition]) -> Iterator[tuple[CodeDefinition, str]]:
    """Each definition with its lines; those inside it are reduced to signatures, since they are separate items."""
    for index, definition in enumerate(definitions):
        line = content.rfind("\n", 0, definition.start) + 1
        parts, at = [], definition.start if content[line : definition.start].strip() else line
        for inner in definitions[index + 1 :]:
            if inner.start >= definition.end:
                break
            if inner.start >= at and inner.end <= definition.end:  # else it stands inside one that was passed over
                parts += [content[at : inner.start], inner.signature]
                at = inner.end
        yield definition, "".join([*parts, content[at : definition.end]])


@lru_cache(maxsize=1 << 14)  # files that one commit brought have one time
def iso_time(seconds: int) -> str:
    """Seconds since 1970 as ISO 8601 in UTC, as items have it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def commit_item(commit: LineCommit, *, text: str, created: str, changed: Iterable[ItemKey]) -> Item | None:
    """A commit as an item of type `message` and kind `commit`, which no search offers; None if it changed no file.

    Args:
        commit: its hash is taken, and how many files it changed, whether or not they are items.
        text: its message, cleaned.
        created: its time on the line, see `line_times`.
        changed: the items that it made, or ended without another version; the item links to them by `changes`.
    """
    if not commit.changes:
        return None
    return Item(
        type="message",
        name=f"commit-{commit.sha[:12]}",
        text=text,
        kind="commit",
        include="manual",
        created=created,
        metadata={"files": len(commit.changes)},
        links=tuple(Link("changes", key) for key in changed),
    )
