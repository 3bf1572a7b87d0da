"""The items that a commit links to: the files that it touched, and the definitions in which it changed lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ctxbench.core.items import ItemKey
from ctxbench.sources.repository.git_reader import Hunks, LineHunk
from ctxbench.sources.repository.tree_items import facts_of
from ctxbench.sources.repository.tree_stretches import TouchedFile, TreeStretch


def definition_lines(path: str, content: str) -> list[str]:
    """The name of the innermost definition around each line of a file, empty where there is none."""
    definitions = facts_of({path: content})[path].definitions
    lines = [""] * (content.count("\n") + 1 if definitions else 0)
    for definition in definitions:  # those inside it come behind it
        lines[definition.first_line - 1 : definition.last_line] = [definition.name] * (
            definition.last_line + 1 - definition.first_line
        )
    return lines


def commit_links(
    stretch: TreeStretch,
    hunks: Hunks,
    lines: Callable[[str], Sequence[str]],
    items: Callable[[TouchedFile], Mapping[str, ItemKey]],
) -> list[list[ItemKey]]:
    """The links of the commits of a stretch, in their order.

    That is the file which each change leads to in the tree at the end, whatever its path was then; and every definition
    of that tree that holds lines which the commit changed, added, or took away between lines of it. Lines are led back
    through the changes from the end, as `git log -L` does, so that no older file is parsed. Of a file that the end
    lacks it is the one at the start.

    Args:
        stretch: the commits.
        hunks: of their changes; where some are not told, older commits link to the file alone.
        lines: for a path of the end, what `definition_lines` gives.
        items: the items of a file of the end, or of one that is gone, by their names without a version.
    """
    names_by_path: dict[str, list[str]] = {}
    links = []
    for touched in reversed(stretch.touched):
        keys: dict[ItemKey, None] = {}
        for file in touched:
            items_of_file, names = items(file), [""]
            if not file.gone:
                if file.path not in names_by_path:
                    names_by_path[file.path] = list(lines(file.path))
                names += _changed_names(file, hunks, names_by_path[file.path])
            candidates = (
                items_of_file.get(f"{file.path}::{name}" if name else file.path) for name in dict.fromkeys(names)
            )
            keys |= dict.fromkeys(key for key in candidates if key is not None)
        links.append(list(keys))
    return links[::-1]


def _changed_names(file: TouchedFile, hunks: Hunks, lines: list[str]) -> list[str]:
    """The definitions that a change was made in; the lines become those of the file before it."""
    pair = file.old_blob or "", file.new_blob or ""
    names: list[str] = []
    if pair[0] == pair[1]:  # it was only renamed
        return names
    if pair not in hunks:
        names = [] if pair[0] else lines.copy()  # all are new
        lines.clear()
    for hunk in reversed(hunks.get(pair, ())):
        names += _lead_back(hunk, lines)
    return names


def _lead_back(hunk: LineHunk, lines: list[str]) -> list[str]:
    """Replace the newer lines of a hunk by the older ones; returns their definitions."""
    first = hunk.new - 1 if hunk.n_new else hunk.new
    names = lines[first : first + hunk.n_new]
    if not hunk.n_new:
        before, after = ["", *lines, ""][first : first + 2] if lines else ("", "")
        names = [before if before == after else ""]
    if lines:
        last = len(names) - 1
        lines[first : first + hunk.n_new] = [names[min(at, last)] for at in range(hunk.n_old)] if names else []
    return names
