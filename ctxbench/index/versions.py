"""Indexes by the texts that they are over: shared by catalogs that differ in nothing else, carried on as one grows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from ctxbench.core.arrays import frozen
from ctxbench.core.items import Catalog, Item
from ctxbench.core.stages import Resources

T = TypeVar("T")
S = TypeVar("S", bound=np.generic)

KEPT = 4
"""How many indexes of a catalog and of those that extend it are kept; the one unused the longest goes first."""


class _Versions(Generic[T]):
    """The indexes of one kind, by the hash of their texts.

    Those of a catalog and of what extends it are one line, of which `KEPT` stay. Catalogs that have nothing to do with
    each other are lines of their own, and stay.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[T, list[str]]] = {}
        self._lock = threading.RLock()  # retrievers may run side by side

    def of(
        self, catalog: Catalog, over: Sequence[str], make: Callable[[], T], extend: Callable[[T], T] | None = None
    ) -> T:
        """The index of a catalog; see `index_over`."""
        key = catalog.hash_of(*over)
        with self._lock:
            if key in self._held:
                found, line = self._held[key]
            else:
                before = next((one for _, one in catalog.prefixes(*over) if one in self._held), None)
                old, line = (None, []) if before is None else self._held[before]
                found = make() if extend is None or old is None else extend(old)
                self._held[key] = found, line
                if before is not None:
                    _used(line, before)
            _used(line, key)
            while len(line) > KEPT:
                del self._held[line.pop(0)]
            return found


def _used(line: list[str], key: str) -> None:
    if line and line[-1] == key:
        return
    if key in line:
        line.remove(key)
    line.append(key)


def index_over(
    catalog: Catalog,
    resources: Resources,
    name: Hashable,
    *,
    over: Sequence[str],
    make: Callable[[], T],
    extend: Callable[[T], T] | None = None,
) -> T:
    """The index of a catalog, kept with the resources by the hash of what it is over.

    Args:
        catalog: the items.
        resources: where it is kept.
        name: what index it is, with its settings.
        over: the attributes of `Item` that it depends on, and nothing else.
        make: makes it from all items.
        extend: makes it from the index of a catalog that this one extends, which must stay as it is; must give what
            `make` gives. None: it is made anew, and takes the place of the oldest.

    Returns:
        The same object for catalogs of equal texts, as long as it is kept (`KEPT`).
    """
    versions: _Versions[Any] = resources.kept(("index", name), _Versions)
    found: T = versions.of(catalog, over, make, extend)
    return found


def row_over(
    catalog: Catalog,
    resources: Resources,
    name: Hashable,
    *,
    over: Sequence[str],
    make: Callable[[Sequence[Item]], npt.NDArray[S]],
) -> npt.NDArray[S]:
    """One value for each item of a catalog, kept likewise; those of items before are not made again.

    Args:
        catalog, resources, name, over: as of `index_over`.
        make: the values of some items, shape (n_those_items,), each by its item alone.

    Returns:
        Shape (n_items,), read-only.
    """

    def extended(old: npt.NDArray[S]) -> npt.NDArray[S]:
        return frozen(np.concatenate([old, make(catalog[len(old) :])]))

    return index_over(catalog, resources, name, over=over, make=lambda: frozen(make(tuple(catalog))), extend=extended)
