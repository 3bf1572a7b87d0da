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
            "What a request did not call counts as unknown, and no request is labelled wholly: the catalog holds "
            "nothing that a search may offer (all is disabled, always there, or added by hand)."
        )
        return [said]
    if tools_alone(found):
        said = (
            "What a request did not call counts as not needed where it was offered all that it may get: of what "
            f"is searched, the catalog holds tools alone ({len(found):,}), so such a request can be labelled wholly."
        )
        return [said, "Elsewhere it counts as unknown, and the request is labelled partly or not at all."]
    tools = [item for item in found if item.type == "tool"]
    others = _counted([item for item in found if item.type != "tool"])
    said = (
        f"What a request did not call counts as unknown, not as not needed: the catalog holds {others} "
        f"{f'beside {_counted(tools)}' if tools else 'and no tools'}, and no log shows when what is no tool is needed."
    )
    if not tools:
        return [said]
    return [
        said,
        "Only requests that may get tools alone can be labelled wholly, as all may in a catalog of tools alone.",
    ]


def _counted(items: Sequence[Item]) -> str:
    """How many items there are of each type: `12 tools`, `3 rules and 1 skill`."""
    counts = Counter(item.type for item in items)
    named = [f"{n:,} {one if n == 1 else _PLURALS.get(one, f'{one}s')}" for one in ITEM_TYPES if (n := counts[one])]
    return f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else "".join(named)
