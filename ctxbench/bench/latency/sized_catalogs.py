"""Catalogs of any size made from a given one, the same each time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ctxbench.core.errors import ParameterError, check_range
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Request

_PARTS = re.compile(r"(\s+)")


def grown(catalog: Catalog, size: int) -> Catalog:
    """Return a catalog of `size` items.

    The first items are the catalog's own, in order. Past its size come variations: position p is made from item
    p mod n and, in round k = p div n, the item k places further. The name gets the suffix `_v<k>` (with more
    underscores where that name is taken), and every second word of description and text is one of the other item's.
    So identities are unique, search texts differ, lengths and word statistics stay close to the real ones, and the
    vectors spread. Nothing is random.

    Args:
        catalog: at least one item.
        size: items wanted, >= 1.

    Raises:
        ParameterError: the catalog is empty, or `size` is below 1.
    """
    if not len(catalog):
        raise ParameterError("the catalog is empty; latency needs at least one item")
    check_range("a catalog's size", size, 1)
    items = list(catalog[:size])
    taken = {item.key for item in catalog}
    n = len(catalog)
    for position in range(n, size):
        turn = position // n
        item = _variation(catalog[position % n], catalog[(position + turn) % n], turn, taken)
        taken.add(item.key)
        items.append(item)
    return Catalog(items)


def requests_like(catalog: Catalog, n: int = 101) -> tuple[Request, ...]:
    """Make requests for a catalog that comes without any: descriptions of its items, spread over the catalog.

    Their lengths and words are a catalog's and not a user's, so times are good for a first look. Texts differ; there
    are at most as many as there are different descriptions (an item without one lends its name).

    Args:
        catalog: may be empty, which gives none.
        n: requests wanted at most, >= 0.
    """
    texts = list(dict.fromkeys(item.description or item.name for item in catalog))
    n = min(n, len(texts))
    return tuple(Request(id=f"like-{place}", text=texts[place * len(texts) // n]) for place in range(n))


def _variation(item: Item, other: Item, turn: int, taken: set[ItemKey]) -> Item:
    name = f"{item.name}_v{turn}"
    while item.key._replace(name=name) in taken:
        name = name.replace(f"_v{turn}", f"__v{turn}")
    words = f"{other.description} {other.text}".split()
    return replace(
        item, name=name, title="", description=_mixed(item.description, words), text=_mixed(item.text, words)
    )


def _mixed(text: str, words: Sequence[str]) -> str:
    """Put `words`, over and over, in the place of every second word of `text`; what parts the words stays."""
    if not words:
        return text
    parts = _PARTS.split(text)
    for number, place in enumerate(range(2, len(parts), 4)):
        if parts[place]:
            parts[place] = words[number % len(words)]
    return "".join(parts)
