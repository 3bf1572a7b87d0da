"""What a dataset's card says of the rebases that made it: notes, followed renames, and items that labels went with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from ctxbench.core.items import ItemKey
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.layout import DROPPED, RENAMES


def dropped_items(dataset: Dataset) -> Mapping[str, int]:
    """Ids of items that were gone, and how many labels earlier rebases dropped with each, as the card says."""
    return dataset.about.get(DROPPED) or {}


def recorded(dataset: Dataset, note: str, *, renames: Mapping[ItemKey, ItemKey], dropped: Mapping[str, int]) -> Dataset:
    """The dataset with what a rebase did in its card.

    Args:
        dataset: over the new catalog.
        note: one more of its notes.
        renames: that were followed; with earlier ones they end at the ids of now.
        dropped: how many labels were lost with each item that is gone, by id; of those and of earlier ones the card
            names what is not there again.
    """
    notes = dataset.about.get("notes") or []
    about = {**dataset.about, "notes": [*(notes if isinstance(notes, list) else [notes]), note]}
    followed = {old: renames.get(new, new) for old, new in dataset.renames.items()} | dict(renames)
    if renamed := {old.id: new.id for old, new in followed.items() if old != new}:
        about[RENAMES] = renamed
    else:
        about.pop(RENAMES, None)
    counts = Counter(dropped) + Counter(dropped_items(dataset))
    if left := {item: n for item, n in sorted(counts.items()) if dataset.catalog.find(ItemKey.parse(item)) is None}:
        about[DROPPED] = left
    else:
        about.pop(DROPPED, None)
    return replace(dataset, about=about)
