"""Versions of files, and commits, as the items of one catalog: what each query sees is told by its time alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.data.from_git.tree_stretches import TouchedFile, TreeStretch
from ctxbench.sources.repository.tree_items import iso_time

FileView: TypeAlias = Callable[[str, str | None], Sequence[Item]]
"""The items of a file by path and text, with versions in their names; of a file that no item can hold (None) none."""

CommitView: TypeAlias = Callable[[int, Sequence[ItemKey]], Item]
"""The item of a commit by its place in the line, and what it changed."""

SeenItems: TypeAlias = Mapping[str, ItemKey]
"""The items of one file that a query sees, by their names without the version."""


class ItemVersions:
    """Begins and ends items along a history."""

    def __init__(self, file: FileView, commit: CommitView) -> None:
        self._file = file
        self._commit = commit
        self._items: list[Item] = []
        self._ends: dict[int, str] = {}
        self._live: dict[str, dict[str, int]] = {}  # by path, places in the items by name
        self._n_versions: Counter[str] = Counter()

    def follow(
        self, stretches: Sequence[TreeStretch], texts: Iterator[str | None], wanted: Sequence[Iterable[str]]
    ) -> list[Mapping[str, SeenItems]]:
        """Go through a history.

        Args:
            stretches: one for each query.
            texts: of the files that come in them, in their order.
            wanted: by query, the paths whose items are asked for.

        Returns:
            By query, the items that it sees at each of these paths.
        """
        seen: list[Mapping[str, SeenItems]] = []
        for stretch, paths in zip(stretches, wanted, strict=True):
            first_new = len(self._items)
            gone = {one.path: self._places(one.path) for here in stretch.touched for one in here if one.gone}
            for path in stretch.gone:
                self._become(path, (), stretch)
            for path, _ in stretch.come:
                self._become(path, self._file(path, next(texts)), stretch)
            first_new = first_new or len(self._items)  # the first tree is not what the commits before it made
            for place, touched in enumerate(stretch.touched, stretch.first):
                self._items.append(self._commit(place, self._changed(touched, gone, first_new)))
            seen.append({path: self._seen(path) for path in paths})
        return seen

    def catalog(self) -> Catalog:
        """All items, by when they were first seen, so that what comes later stands behind."""
        return Catalog(replace(one, until=self._ends.get(at)) for at, one in enumerate(self._items))

    def _become(self, path: str, items: Sequence[Item], stretch: TreeStretch) -> None:
        """Let these be the items of a path; those that are there already go on."""
        before, now = self._live.pop(path, {}), dict[str, int]()
        for item in items:
            at = before.pop(item.name, None)
            now[item.name] = self._begin(item, stretch.brought.get(path)) if at is None else at
        self._ends |= {at: iso_time(stretch.ended[path]) for at in before.values()}
        if now:
            self._live[path] = now

    def _begin(self, item: Item, time: int | None) -> int:
        """Add an item; one that had ended and comes back is another one, `NAME.2`."""
        self._n_versions[item.id] += 1
        n = self._n_versions[item.id]
        name = item.name if n == 1 else f"{item.name}.{n}"
        self._items.append(replace(item, name=name, created=None if time is None else iso_time(time)))
        return len(self._items) - 1

    def _changed(
        self, touched: Sequence[TouchedFile], gone: Mapping[str, Sequence[int]], first_new: int
    ) -> list[ItemKey]:
        """What a commit changed: the files that it touched, and all else at their paths that is new."""
        places = [at for one in touched for at in (gone[one.path] if one.gone else self._places(one.path))]
        here = ((at, self._items[at]) for at in dict.fromkeys(places))
        return [item.key for at, item in here if at >= first_new or item.type == "file"]

    def _places(self, path: str) -> Sequence[int]:
        return tuple(self._live.get(path, {}).values())

    def _seen(self, path: str) -> SeenItems:
        return {name.rpartition("@")[0]: self._items[at].key for name, at in self._live.get(path, {}).items()}
