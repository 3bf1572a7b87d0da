"""The line of a rule file that was edited: of a field of its front matter, or of its text."""

from __future__ import annotations

from collections.abc import Collection
from itertools import zip_longest
from pathlib import Path

from ctxbench.core.errors import UserError
from ctxbench.io.files import read_text
from ctxbench.sources.frontmatter import Page, read_page, truth

_ENDINGS = (".md", ".mdc", ".markdown")
_FLAGS = ("alwaysApply", "disable-model-invocation")
_GLOBS = ("globs", "paths", "applyTo")


def edited_line(path: Path, line: int, edited: Collection[str], former: str | None = None) -> int:
    """The first line of a rule file that differs from before.

    Args:
        path: of the file.
        line: in which the text of the rule begins, 1-based.
        edited: fields of the item that differ.
        former: the text that the rule had; None = not known.

    Returns:
        The first line of the front matter that gave one of the fields, or of the text that differs; `line` where
        neither is known, or where the file is of another kind.
    """
    if not edited or path.suffix not in _ENDINGS:
        return line
    try:
        page = read_page(read_text(path))
    except UserError:
        return line
    lines = []
    for item_field in edited:
        names = [name for name in _sources(item_field, page, edited) if name in page.lines]
        lines += [page.lines[name] for name in names[:1]]
    if "text" in edited and former is not None:
        lines.append(page.line + differing_line(former, page.text) - 1)
    return min(lines, default=line)


def differing_line(was: str, new: str) -> int:
    """The first line of a text that differs from what it was, 1-based; the last one where only its end is gone."""
    lines = new.split("\n")
    pairs = enumerate(zip_longest(was.split("\n"), lines), 1)
    return min(next((number for number, (before, after) in pairs if before != after), 1), len(lines))


def _sources(item_field: str, page: Page, edited: Collection[str]) -> tuple[str, ...]:
    """The fields of front matter that may have given a field of an item, the likelier first."""
    if item_field == "include":
        on = any(truth(page.fields.get(name)) for name in _FLAGS)
        return (*_FLAGS, *_GLOBS) if on else (*_GLOBS, *_FLAGS)
    if item_field == "metadata":  # patterns; it says why the mode is what it is, too
        return () if "include" in edited else _GLOBS
    return {"description": ("description",), "title": ("name", "title"), "name": ("name",)}.get(item_field, ())
