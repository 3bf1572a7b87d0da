"""The paths of a catalog's files, found by their last parts."""

from __future__ import annotations

from collections.abc import Iterable

from ctxbench.core.arrays import BoolArray
from ctxbench.core.items import Catalog, Item
from ctxbench.core.stages import Resources
from ctxbench.index.versions import index_over

MOST_FOUND = 20  # files that one name stands for


class TreePaths:
    """Where each path stands in a catalog, by file name; a path may have several versions."""

    def __init__(self, items: Iterable[Item]) -> None:
        """Other items than files are passed over."""
        self._by_name: dict[str, list[tuple[str, int]]] = {}
        for place, item in enumerate(items):
            if item.type == "file":
                path = item.path
                self._by_name.setdefault(path.rpartition("/")[2], []).append((path, place))

    def called(self, name: str, visible: BoolArray) -> tuple[str, ...]:
        """The paths that a name stands for among what a request sees, itself or behind folders.

        Args:
            name: a path or its last parts.
            visible: shape (n_items,).

        Returns:
            The path that is called so, else those that end so, sorted, at most `MOST_FOUND`; none where there is none.
        """
        wanted = name.replace("\\", "/").removeprefix("./").strip("/")
        named = self._by_name.get(wanted.rpartition("/")[2], ())
        paths = sorted({path for path, place in named if visible[place] and f"/{path}".endswith(f"/{wanted}")})
        return (wanted,) if wanted in paths else tuple(paths[:MOST_FOUND])


def tree_paths(catalog: Catalog, resources: Resources) -> TreePaths:
    """Those of a catalog, kept with the resources."""
    return index_over(catalog, resources, "tree paths", over=("type", "title", "name"), make=lambda: TreePaths(catalog))
