"""Hashes of catalogs, carried on as one grows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import MutableMapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple


class CatalogPrefix(NamedTuple):
    """The first items of a catalog, as far as one that it extends went: how many, and the hash of their fields."""

    n_items: int
    hash: str
    before: CatalogPrefix | None


_LONG = 1_000  # characters of a text that goes in by its own hash, which is made once
_COMPACT = json.JSONEncoder(separators=(",", ":"))  # `json.dumps` would make one for each item


def hashed(
    items: Sequence[Any],
    names: tuple[str, ...],
    digest: Any,
    *,
    n_items: int,
    before: CatalogPrefix | None,
    texts: MutableMapping[str, str],
) -> tuple[Any, CatalogPrefix]:
    """Go on with a digest over more items, by some attributes or (none named) by all fields.

    Args:
        items: those that are added, `Item`s.
        names: of the attributes.
        digest: over the items before; is changed.
        n_items: how many there are then.
        before: those before.
        texts: hashes of long texts of items that are known; those that are made are added.
    """
    of = attrgetter("text", *names)
    for item in items:
        if names:
            # `repr` is four times as fast, and its hash is kept nowhere. A schema's order is sent, so that it counts.
            text, *row = of(item)
            line = repr(row if len(text) < _LONG else [_short(value, text, texts) for value in row])
        else:
            line = _COMPACT.encode(item.as_row())
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return digest, CatalogPrefix(n_items, digest.hexdigest(), before)


def _short(value: Any, text: str, texts: MutableMapping[str, str]) -> Any:
    """What stands for an attribute of a long text; most of those that are long are the text itself."""
    if value != text:
        return value
    if text not in texts:
        texts[text] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return (texts[text],)  # no attribute is a tuple of one text
