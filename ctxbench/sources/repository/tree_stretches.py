"""How files change between the trees of consecutive queries, and which commits change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ctxbench.sources.repository.git_reader import LineCommit


class TouchedFile(NamedTuple):
    """A file that a commit touched, by its path in the tree at the end; in that at the start if the end lacks it.

    The blobs are those before and after the commit, None where it had none.
    """

    path: str
    gone: bool
    old_blob: str | None
    new_blob: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeStretch:
    """The commits after one query and before the next one.

    Attributes:
        first: the place of the first commit in its line; those at `first`, `first + 1` ... are in it.
        gone: files of the tree at the start that the one at the end lacks, by path.
        come: (path, blob) of files of the end that are new or changed, by path.
        ended: when each path of the start was first touched, seconds.
        brought: when each path of the end was last touched, seconds.
        touched: by commit, in order.
        renamed: files of the end, each with the path that it had at the start, where that is another.
    """

    first: int
    gone: tuple[str, ...]
    come: tuple[tuple[str, str], ...]
    ended: Mapping[str, int]
    brought: Mapping[str, int]
    touched: tuple[tuple[TouchedFile, ...], ...]
    renamed: Mapping[str, str]


def tree_stretches(
    line: Sequence[LineCommit], times: Sequence[int], queries: Sequence[int], tree: Mapping[str, str]
) -> list[TreeStretch]:
    """Cut a line of commits at its queries.

    What comes and goes between two queries is left out: only the trees that queries see are described. The first
    stretch leads from nothing to the tree of the first query.

    Args:
        line: commits, oldest first.
        times: theirs, rising, seconds.
        queries: places of the commits that are queries, rising. Each sees the tree before its commit.
        tree: what the first query sees, blobs by path.
    """
    stretches, start, first = list[TreeStretch](), dict[str, str](), 0
    for query in queries:
        end = _after(line[first:query], start) if stretches else dict(tree)
        stretches.append(_stretch(line[first:query], times[first:query], first, (start, end)))
        start, first = end, query
    return stretches


def _after(commits: Sequence[LineCommit], tree: Mapping[str, str]) -> dict[str, str]:
    """A tree after some commits."""
    after = dict(tree)
    for commit in commits:
        for change in commit.changes:
            if change.old_blob is not None:
                after.pop(change.old_path or change.path, None)
        after |= {change.path: change.new_blob for change in commit.changes if change.new_blob is not None}
    return after


def _stretch(
    commits: Sequence[LineCommit], times: Sequence[int], first: int, trees: tuple[Mapping[str, str], Mapping[str, str]]
) -> TreeStretch:
    """The changes from one tree to another, read from the end, where paths are known, back to the start."""
    start, end = trees
    later: dict[str, str | None] = {}  # a path at the commit: the path at the end; None = the file has gone by then
    ended: dict[str, int] = {}
    brought: dict[str, int] = {}
    touched: list[tuple[TouchedFile, ...]] = []
    for commit, time in zip(reversed(commits), reversed(times), strict=True):
        commit_files, before = [], dict[str, str | None]()
        for change in commit.changes:
            old = change.old_path or change.path
            target = None if change.new_blob is None else later.get(change.path, change.path)
            if target is not None and target in end:
                brought.setdefault(target, time)
                commit_files.append(TouchedFile(target, False, change.old_blob, change.new_blob))
            elif old in start:
                commit_files.append(TouchedFile(old, True, change.old_blob, change.new_blob))
            elif change.path in end:  # an older file of that path, which went before another one came
                commit_files.append(TouchedFile(change.path, False, change.old_blob, change.new_blob))
            if change.old_blob is not None:
                ended[old] = time
                before[old] = target
        later |= before
        touched.append(tuple(dict.fromkeys(commit_files)))
    return TreeStretch(
        first=first,
        gone=tuple(sorted(start.keys() - end.keys())),
        come=tuple(sorted((path, blob) for path, blob in end.items() if start.get(path) != blob)),
        ended=ended,
        brought=brought,
        touched=tuple(touched[::-1]),
        renamed={path: old for old, path in later.items() if path and path != old and path in end and old in start},
    )
