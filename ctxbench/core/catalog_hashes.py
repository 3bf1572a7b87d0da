"""Hashes of catalogs, carried on as one grows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple


class CatalogPrefix(NamedTuple):
    """The first items of a catalog, as far as one that it extends went: how many, and the hash of their fields."""

    n_items: int
    hash: str
    before: CatalogPrefix | None


class TextDigest:
    """The digest of what has a text: made when it is first asked for, and known from then on."""

    __slots__ = ("_text_digest",)
    text: str
    _text_digest: bytes

    @property
    def text_digest(self) -> bytes:
        """SHA-256 of the text in UTF-8."""
        try:
            return self._text_digest
        except AttributeError:
            digest = hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).digest()
            object.__setattr__(self, "_text_digest", digest)  # it may be frozen
            return digest


_LONG = 1_000  # characters of a text that goes in by its digest
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
    of = attrgetter("text", *names)
    for item in items:
        if names:
            # `repr` is four times as fast, and its hash is kept nowhere. A schema's order is sent, so that it counts.
            text, *row = of(item)
            if len(text) >= _LONG:  # no attribute is a tuple of one digest
                row = [(item.text_digest,) if value == text else value for value in row]
            line = repr(row)
        else:
            line = _COMPACT.encode(item.as_row())
        digest.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return digest, CatalogPrefix(n_items, digest.hexdigest(), before)
