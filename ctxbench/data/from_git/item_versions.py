"""Versions of files, and commits, as the items of one catalog: a query sees those of its time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from ctxbench.core.items import Catalog, Item, ItemKey, Link
from ctxbench.index.commit_history import RENAMED
from ctxbench.sources.repository.commit_links import commit_links
from ctxbench.sources.repository.git_reader import Hunks
from ctxbench.sources.repository.tree_items import iso_time
from ctxbench.sources.repository.tree_stretches import TouchedFile, TreeStretch

FileView: TypeAlias = Callable[[str, str | None], Sequence[Item]]
"""The items of a file by path and text, with versions in their names; of a file that no item can hold (None) none."""

CommitView: TypeAlias = Callable[[int, Sequence[ItemKey]], Item | None]
"""The item of a commit by its position in the line, and what it changed; None of one that changed no file."""

LineView: TypeAlias = Callable[[str, str | None], Sequence[str]]
"""The definition around each line of a file by path and text, see `definition_lines`."""

SeenItems: TypeAlias = Mapping[str, ItemKey]
"""The items of one file that a query sees, by their names without the version."""


class ItemVersions:
    """Begins and ends items along a history."""

    def __init__(self, file: FileView, commit: CommitView, lines: LineView = lambda *_: ()) -> None:
        self._file = file
        self._commit = commit
        self._line_view = lines
        self._items: list[Item] = []
        self._ends: dict[int, str] = {}
        self._live: dict[str, dict[str, int]] = {}  # by path, positions in the items by name
        self._lines: dict[str, Sequence[str]] = {}  # of the files that are there
        self._n_versions: Counter[str] = Counter()

    def follow(
        self,
        stretches: Sequence[TreeStretch],
        texts: Iterator[str | None],
        query_paths: Sequence[Iterable[str]],
        hunks: Hunks,
    ) -> list[Mapping[str, SeenItems]]:
        """Go through a history.

        Args:
            stretches: one for each query.
            texts: of the files that come in them, in their order.
            query_paths: by query, the paths whose items are looked up.
            hunks: of the changes of all commits, for links to definitions.

        Returns:
            By query, the items that it sees at each of these paths.
        """
        visible: list[Mapping[str, SeenItems]] = []
        for stretch, paths in zip(stretches, query_paths, strict=True):
            gone = (touched_file.path for touched in stretch.touched for touched_file in touched if touched_file.gone)
            start = {path: self._visible(path) for path in {*gone, *stretch.renamed.values()}}
            for path in stretch.gone:
                self._become(path, (), stretch, {})
            for path, _ in stretch.come:
                text = next(texts)
                self._lines[path] = self._line_view(path, text)
                self._become(path, self._file(path, text), stretch, start)
            links = commit_links(stretch, hunks, self._lines.__getitem__, partial(self._at, start))
            commits = (self._commit(position, changed) for position, changed in enumerate(links, stretch.first))
            self._items += [item for item in commits if item is not None]
            visible.append({path: self._visible(path) for path in paths})
        return visible

    def catalog(self) -> Catalog:
        """All items, in the order in which they appear in the history."""
        return Catalog(replace(item, until=self._ends.get(at)) for at, item in enumerate(self._items))

    def _become(self, path: str, items: Sequence[Item], stretch: TreeStretch, start: Mapping[str, SeenItems]) -> None:
        """Replace the items of a path; those that exist already go on."""
        before, current = self._live.pop(path, {}), dict[str, int]()
        old = stretch.renamed.get(path, "")
        was = start.get(old, {}).get(old)
        for item in items:
            at = before.pop(item.name, None)
            links = (Link(RENAMED, was),) if was and item.type == "file" else ()
            current[item.name] = (
                self._begin(replace(item, links=links), stretch.brought.get(path)) if at is None else at
            )
        self._ends |= {at: iso_time(stretch.ended[path]) for at in before.values()}
        if current:
            self._live[path] = current

    def _begin(self, item: Item, time: int | None) -> int:
        """Add an item; one that had ended and comes back becomes a new one, `NAME.2`."""
        self._n_versions[item.id] += 1
        n = self._n_versions[item.id]
        name = item.name if n == 1 else f"{item.name}.{n}"
        self._items.append(replace(item, name=name, created=None if time is None else iso_time(time)))
        return len(self._items) - 1

    def _at(self, start: Mapping[str, SeenItems], touched_file: TouchedFile) -> SeenItems:
        return start[touched_file.path] if touched_file.gone else self._visible(touched_file.path)

    def _visible(self, path: str) -> SeenItems:
        return {name.rpartition("@")[0]: self._items[at].key for name, at in self._live.get(path, {}).items()}
