"""What an item that is gone may be called now: new items of its type with a name or a description like its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ctxbench.core.item_suggestions import name_likeness
from ctxbench.core.items import Item, ItemKey
from ctxbench.data.curation.renames import Rename

_MOST_PAIRS = 100_000  # that are compared; where a whole catalog was exchanged, nobody reads guesses
_LIKE = 0.7  # of names, and
_SHARED = 0.4  # the share of words that two descriptions have in common, from which one may be the other
_ALIKE = "much the same {}"
_ALONE = "the only {} that is gone, and the only new one"


def likely_successors(gone: Sequence[Item], new: Sequence[Item], *, alone: bool = True) -> tuple[Rename, ...]:
    """For items that are gone the new ones that they may go on as, each new one once, likeliest pairs first taken.

    Args:
        gone: what is gone; of an agent's item no more than the name is known.
        new: what may have taken its place.
        alone: where one item of a type is gone and one is new, they may be the same however they are called.

    Returns:
        The pairs, in the order of `gone`; how they are alike stands in `how`. Empty where none is, or where there are
        more than 100,000 pairs to compare.
    """
    if len(gone) * len(new) > _MOST_PAIRS:
        return ()
    n_gone, n_new = (Counter(item.type for item in items) for items in (gone, new))
    pairs = []
    for old in gone:
        for candidate in new:
            if candidate.type != old.type:
                continue
            names, words = name_likeness(old.name, candidate.name), _word_likeness(old, candidate)
            if names >= _LIKE or words >= _SHARED:
                reason = "name" if names >= _LIKE else "description"
                pairs.append((-max(names, words), old, candidate, _ALIKE.format(reason)))
            elif alone and n_gone[old.type] == n_new[old.type] == 1:
                pairs.append((0.0, old, candidate, _ALONE.format(old.type)))
    renames: dict[ItemKey, Rename] = {}
    taken_keys: set[ItemKey] = set()
    for _, old, successor, how in sorted(pairs, key=lambda pair: (pair[0], pair[1].id, pair[2].id)):
        if old.key not in renames and successor.key not in taken_keys:
            renames[old.key] = Rename(old.key, successor.key, how)
            taken_keys.add(successor.key)
    return tuple(renames[old.key] for old in gone if old.key in renames)


def _word_likeness(item: Item, second_item: Item) -> float:
    """The share of the words of two descriptions, and texts, that both have."""
    first, second = (
        set(re.findall(r"\w{3,}", f"{item.description} {item.text or ''}".lower())) for item in (item, second_item)
    )
    return len(first & second) / len(first | second) if first and second else 0.0
