"""The search for an item during a labelling session: what it finds, what of that is known, and which one is meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ctxbench.cli.key_input import Keys
from ctxbench.cli.label_screen import item_line, item_name, number_of, tell

if TYPE_CHECKING:
    from ctxbench.core.items import Item
    from ctxbench.data.labelling.labelling_session import LabellingSession

SHOWN = 9  # items with a number
_MARKED = {2: "needed", 1: "marked helpful", 0: "marked not needed"}


class ItemSearch:
    """Finds items by parts of their names or descriptions."""

    def __init__(self, session: LabellingSession, keys: Keys) -> None:
        """Search the catalog of a session."""
        self._session = session
        self._catalog = session.pool.dataset.catalog
        self._keys = keys
        self._told: tuple[str, int] | None = None  # the query and the item that the last search found marked already

    def ask(self, query: str) -> int | None:
        """The item that a typed search means; None if none is, which the screen says.

        What has a mark for this query already is said to have it, and is no answer: only what is marked helpful or not
        needed can be marked needed, by the same search once more.
        """
        told, self._told = self._told, None
        found = self._found()
        if not found:
            return None
        marked = {item: grade for item in found if (grade := self._session.grade_of(query, item)) is not None}
        if len(found) == 1 and marked:
            (item, grade), self._told = (found[0], marked[found[0]]), (query, found[0])
            if grade != 2 and told == self._told:
                return item
            more = "" if grade == 2 else "; the same search once more marks it needed"
            tell(f"already {_MARKED[grade]}: {item_name(self._catalog[item].key)}; nothing was changed{more}")
            return None
        for item, grade in list(marked.items())[:SHOWN]:
            tell(f"  already {_MARKED[grade]}: {self._line(item, beside=len(_MARKED[grade]) + 13)}")
        new = [item for item in found if item not in marked and self._session.can_need(query, item)]
        if new:
            return self._chosen(new) if marked or len(new) > 1 else new[0]
        if not marked:
            named = ", ".join(item_name(self._catalog[item].key) for item in found[:3]) + ", ..." * (len(found) > 3)
            tell(f"this query cannot get {named} (not available to it, disabled, or added by hand only)")
        return None

    def _found(self) -> Sequence[int]:
        """Items that hold all words that are typed, or the one that is called just so."""
        typed = " ".join(self._keys.text("search: ").lower().split())
        words = typed.split()
        found = [i for i, item in enumerate(self._catalog) if words and all(word in _searched(item) for word in words)]
        if not found:
            tell("no item holds all these words in its name or description" if words else "no words to search for")
        exact = [i for i in found if typed in _called(self._catalog[i])]
        return exact if len(exact) == 1 else found

    def _chosen(self, found: Sequence[int]) -> int | None:
        """Which of several is meant; a key that is no digit is left for the question."""
        for number, item in enumerate(found[:SHOWN], start=1):
            tell(f"  {number} {self._line(item)}")
        if len(found) > SHOWN:
            tell(f"  and {len(found) - SHOWN} more; search with more words")
        tell("its number? (0 none of them)")
        key = self._keys.key()
        number = number_of(key)
        if 1 <= number <= min(len(found), SHOWN):
            return found[number - 1]
        if key == "0" or number:
            tell("none of them" if key == "0" else f"no item has the number {number}; nothing was chosen")
        else:
            self._keys.back(key)
        return None

    def _line(self, item: int, *, beside: int = 14) -> str:
        return item_line(self._catalog[item], beside=beside)


def _searched(item: Item) -> str:
    return f"{item.id} {item_name(item.key)} {item.search_text}".lower()


def _called(item: Item) -> tuple[str, ...]:
    """What names one item alone: its id, its name with the type, and that of its server before its own."""
    return item.id.lower(), item_name(item.key).lower(), f"{item.server} / {item.name}".lower() if item.server else ""
