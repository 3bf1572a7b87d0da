"""What the kinds of items of a catalog mean for labels from a log: is an item that was not called not needed?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ctxbench.core.items import ITEM_TYPES, Item

_PLURALS = {"memory": "memories"}


def is_searchable(item: Item) -> bool:
    """Whether a search may offer an item, so that a request without it was not offered everything."""
    return item.enabled and item.include == "agent"


def tools_alone(items: Iterable[Item]) -> bool:
    """Whether all items can be called, so that a log shows when one is needed."""
    return all(item.type == "tool" for item in items)


def kind_lines(catalog: Iterable[Item]) -> list[str]:
    """What a catalog means for the labels of an import, in one or two sentences, one a line."""
    found = [item for item in catalog if is_searchable(item)]
    if not found:
        said = (
            "The catalog holds nothing that a search may offer (all is disabled, always there, or added by hand), so "
            "no request is labelled wholly: whether an item that was not called was needed is unknown."
        )
        return [said]
    if tools_alone(found):
        said = (
            f"The catalog holds {_counted(found)} and nothing else to search for, so a request that was offered all "
            "that it may get can be labelled wholly: a tool that it did not call is not needed."
        )
        return [said, "Of any other request that is unknown: it is labelled partly, or not at all."]
    others = [item for item in found if item.type != "tool"]
    tools = [item for item in found if item.type == "tool"]
    said = (
        f"The catalog holds {_counted(others)}{f' beside {_counted(tools)}' if tools else ' and no tools'}, and no log "
        "shows when something that is no tool is needed, so no request that may get such an item is labelled wholly: "
        "what it did not call is unknown, not unneeded."
    )
    return [said, "For whole labels import with a catalog of the tools alone."] if tools else [said]


def _counted(items: Sequence[Item]) -> str:
    """How many items there are of each type: `12 tools`, `3 rules and 1 skill`."""
    counts = Counter(item.type for item in items)
    named = [f"{n:,} {one if n == 1 else _PLURALS.get(one, f'{one}s')}" for one in ITEM_TYPES if (n := counts[one])]
    return f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else "".join(named)
