"""What becomes of a query's labels when one of them is graded otherwise, or an item may stand for another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ctxbench.core.items import ItemKey
from ctxbench.data.datasets.query_labels import Label

Labels = Mapping[ItemKey, Label]  # of one query, by item


def graded(labels: Labels, query: str, item: ItemKey, grade: int, *, source: str) -> dict[ItemKey, Label]:
    """The labels with an item at a grade. What was required and stays so remains in its group of alternatives.

    What of the item was quoted stays quoted, unless it is irrelevant now.
    """
    old = labels.get(item)
    via = old.via if old is not None else "direct"
    group = old.alternatives if old is not None and old.grade == grade == 2 else ""
    quote = old.quote if old is not None and grade else ""
    return _without_lonely({**labels, item: Label(query, item, grade, via, group, source, quote)})


def standing_in(labels: Labels, query: str, item: ItemKey, of: ItemKey, *, source: str) -> dict[ItemKey, Label]:
    """The labels with an item as an alternative of another one, which must be required."""
    other = labels[of]
    group = other.alternatives or f"like {of.id}"
    new = Label(query, item, 2, other.via, group, source)
    return _without_lonely({**labels, of: replace(other, alternatives=group), item: new})


def _without_lonely(labels: Labels) -> dict[ItemKey, Label]:
    """A group of alternatives of which one is left is none any more."""
    sizes = Counter(label.alternatives for label in labels.values())
    return {key: replace(i, alternatives="") if sizes[i.alternatives] == 1 else i for key, i in labels.items()}
