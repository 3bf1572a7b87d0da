"""Versions of files, and commits, as the items of one catalog: what each query sees is told by its time alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.data.from_git.tree_stretches import TouchedFile, TreeStretch
from ctxbench.sources.repository.git_reader import LineCommit
from ctxbench.sources.repository.tree_items import commit_item, iso_time

FileView: TypeAlias = Callable[[str, bytes], Sequence[Item]]
"""The items of a file, with versions in their names; none of a file that no catalog can hold."""

SeenItems: TypeAlias = Mapping[str, ItemKey]
"""The items of one file that a query sees, by their names without the version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCommit:
    """A commit with its time on the line, seconds since 1970, and its text as an item."""

    commit: LineCommit
    time: int
    text: str


@dataclass(frozen=True, kw_only=True)
class VersionedItems:
    """The items of a history.

    Attributes:
        catalog: in the order of their time, so that what is added later stands behind.
        seen: by query, the items that it sees at each path asked for.
    """

    catalog: Catalog
    seen: tuple[Mapping[str, SeenItems], ...]


class ItemVersions:
    """Begins and ends items along a history."""

    def __init__(self, view: FileView) -> None:
        self._view = view
        self._items: list[Item] = []
        self._ends: dict[int, str] = {}
        self._live: dict[str, dict[str, int]] = {}  # by path, places in the items by name
        self._n_versions: Counter[str] = Counter()

    def follow(
        self,
        line: Sequence[TimedCommit],
        stretches: Sequence[TreeStretch],
        contents: Iterator[bytes],
        wanted: Sequence[Iterable[str]],
    ) -> VersionedItems:
        """Make the items.

        Args:
            line: commits, oldest first.
            stretches: of them, one for each query.
            contents: of the files that come in them, in their order.
            wanted: by query, the paths whose items are asked for.
        """
        seen = []
        for stretch, paths in zip(stretches, wanted, strict=True):
            first_new = len(self._items)
            gone = {path: tuple(self._live.get(path, {}).values()) for path in stretch.gone}
            for path in stretch.gone:
                self._become(path, (), stretch)
            for path, _ in stretch.come:
                self._become(path, self._view(path, next(contents)), stretch)
            first_new = first_new or len(self._items)  # the first tree is not what the commits before it made
            for one, touched in zip(line[stretch.first :], stretch.touched, strict=False):
                changed = self._changed(touched, gone, first_new)
                self._items.append(commit_item(one.commit, text=one.text, created=iso_time(one.time), changed=changed))
            seen.append({path: self._seen(path) for path in paths})
        ended = (replace(one, until=self._ends.get(at)) for at, one in enumerate(self._items))
        return VersionedItems(catalog=Catalog(ended), seen=tuple(seen))

    def _become(self, path: str, items: Sequence[Item], stretch: TreeStretch) -> None:
        """Let these be the items of a path; those that are there already go on."""
        before, now = self._live.pop(path, {}), dict[str, int]()
        for item in items:
            at = before.pop(item.name, None)
            now[item.name] = self._begin(item, stretch.brought.get(path)) if at is None else at
        self._ends |= dict.fromkeys(before.values(), iso_time(stretch.ended[path]) if before else "")
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
        here = [at for one in touched for at in (gone.get(one.path, ()) if one.gone else self._places(one.path))]
        return [self._items[at].key for at in dict.fromkeys(here) if at >= first_new or self._items[at].type == "file"]

    def _places(self, path: str) -> Sequence[int]:
        return tuple(self._live.get(path, {}).values())

    def _seen(self, path: str) -> SeenItems:
        return {name.rpartition("@")[0]: self._items[at].key for name, at in self._live.get(path, {}).items()}
