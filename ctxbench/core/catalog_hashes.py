"""Hashes of catalogs, carried on as one grows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple


class CatalogPrefix(NamedTuple):
    """The first items of a catalog, as far as one that it extends went: how many, and the hash of their fields."""

    n_items: int
    hash: str
    before: CatalogPrefix | None


_COMPACT = json.JSONEncoder(separators=(",", ":"))  # `json.dumps` would make one for each item


def hashed(
    items: Sequence[Any], names: tuple[str, ...], digest: Any, *, n_items: int, before: CatalogPrefix | None
) -> tuple[Any, CatalogPrefix]:
    """Go on with a digest over more items, by some attributes or (none named) by all fields.

    Args:
        items: those that are added, `Item`s.
        names: of the attributes.
        digest: over the items before; is changed.
        n_items: how many there are then.
        before: those before.
    """
    for item in items:
        row = [getattr(item, name) for name in names] if names else item.as_row()
        # `repr` is four times as fast, and its hash is kept nowhere. A schema's order is sent, so that it counts.
        text = repr(row) if names else _COMPACT.encode(row)
        digest.update(text.encode("utf-8", "surrogatepass") + b"\n")
    return digest, CatalogPrefix(n_items, digest.hexdigest(), before)
