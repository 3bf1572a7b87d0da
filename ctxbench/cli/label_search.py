"""The search for an item during a labelling session."""

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
        self._last_marked: tuple[str, int] | None = None  # the query and the marked item that the last search found

    def ask(self, query: str) -> int | None:
        """The item that a typed search finds; None if there is none, which is printed.

        What has a mark for this query already is said to have it, and is no answer: only what is marked helpful or not
        needed can be marked needed, by the same search once more.
        """
        previous, self._last_marked = self._last_marked, None
        matches = self._search()
        if not matches:
            return None
        marked = {item: grade for item in matches if (grade := self._session.grade_of(query, item)) is not None}
        if len(matches) == 1 and marked:
            (item, grade), self._last_marked = (matches[0], marked[matches[0]]), (query, matches[0])
            if grade != 2 and previous == self._last_marked:
                return item
            hint = "" if grade == 2 else "; the same search once more marks it needed"
            tell(f"already {_MARKED[grade]}: {item_name(self._catalog[item].key)}; nothing was changed{hint}")
            return None
        for item, grade in list(marked.items())[:SHOWN]:
            tell(f"  already {_MARKED[grade]}: {self._line(item, reserved=len(_MARKED[grade]) + 13)}")
        new = [item for item in matches if item not in marked and self._session.can_need(query, item)]
        if new:
            return self._chosen(new) if marked or len(new) > 1 else new[0]
        if not marked:
            named = ", ".join(item_name(self._catalog[item].key) for item in matches[:3]) + ", ..." * (len(matches) > 3)
            tell(f"this query cannot get {named} (not available to it, disabled, or added by hand only)")
        return None

    def _search(self) -> Sequence[int]:
        """Items that hold all words that are typed, or the one that is called just so."""
        typed = " ".join(self._keys.text("search: ").lower().split())
        words = typed.split()
        matches = [
            i for i, item in enumerate(self._catalog) if words and all(word in _searched(item) for word in words)
        ]
        if not matches:
            tell("no item holds all these words in its name or description" if words else "no words to search for")
        exact = [i for i in matches if typed in _called(self._catalog[i])]
        return exact if len(exact) == 1 else matches

    def _chosen(self, matches: Sequence[int]) -> int | None:
        """The chosen one of several; a key that is no digit is left for the question."""
        for number, item in enumerate(matches[:SHOWN], start=1):
            tell(f"  {number} {self._line(item)}")
        if len(matches) > SHOWN:
            tell(f"  and {len(matches) - SHOWN} more; search with more words")
        tell("its number? (0 none of them)")
        key = self._keys.key()
        number = number_of(key)
        if 1 <= number <= min(len(matches), SHOWN):
            return matches[number - 1]
        if key == "0" or number:
            tell("none of them" if key == "0" else f"no item has the number {number}; nothing was chosen")
        else:
            self._keys.back(key)
        return None

    def _line(self, item: int, *, reserved: int = 14) -> str:
        return item_line(self._catalog[item], reserved=reserved)


def _searched(item: Item) -> str:
    return f"{item.id} {item_name(item.key)} {item.search_text}".lower()


def _called(item: Item) -> tuple[str, ...]:
    """What names one item alone: its id, its name with the type, and that of its server before its own."""
    return item.id.lower(), item_name(item.key).lower(), f"{item.server} / {item.name}".lower() if item.server else ""
