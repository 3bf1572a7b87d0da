"""What must hold between the parts of a dataset: ids, names and labels that fit each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ctxbench.core.errors import Fault, suggest
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Request
from ctxbench.core.shown import quoted
from ctxbench.core.times import instant
from ctxbench.data.datasets.query_labels import DatasetQuery, Label

Place: TypeAlias = tuple[Path | None, int]
_MEND = (
    "correct the id, or put the item back, or drop what names it (`ctxbench data rebase`), or follow an item that has "
    "another name now (the same with --accept-renames)"
)
_LINES = 5  # lines of a file that are named
_LISTS = {
    "session": "session",
    "removed": "list of removed items",
    "explicit": "list of items named by the user",
    "available": "list of available items",
}  # where a query names items, and what that is called
_SUGGESTED = 50  # faults that name the closest known name: among thousands of names a search takes a tenth of a second


def nowhere(_index: int) -> Place:
    """The place of what did not come from a file."""
    return None, 0


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The parts of a dataset, and where each stands.

    Attributes:
        items: by key.
        scopes: named sets of items.
        queries, labels: in the order of their files.
        items_complete, queries_complete, scopes_complete: False if a row could not be read at all; what is not
            known may then stand in that row, so that it is no fault of its own.
        place_query, place_label: path and 1-based line by position.
        place_scope: path and 1-based line by name.
        before: where the catalog was edited by hand, ids of the items that it had; None = it was not. Labels may
            require those although no selector could offer them any more: disabled, by hand only, or in no scope.
        gone: those of them that stand among the items, disabled, only because labels, scopes or lists of available
            items name them. Nothing else may.
    """

    items: Mapping[ItemKey, Item]
    scopes: Mapping[str, Sequence[ItemKey]]
    queries: Sequence[DatasetQuery]
    labels: Sequence[Label]
    items_complete: bool = True
    queries_complete: bool = True
    scopes_complete: bool = True
    place_query: Callable[[int], Place] = nowhere
    place_label: Callable[[int], Place] = nowhere
    place_scope: Callable[[str], Place] = field(default=lambda _name: (None, 0))
    before: Collection[str] | None = None
    gone: Collection[ItemKey] = ()


def check_contents(contents: Contents) -> list[Fault]:
    """Everything that does not fit: scopes first, then queries, then labels, each in order."""
    mentions = _Mentions(contents)
    return [fault for part in (_Scopes, _Queries, _Labels) for fault in part(contents, mentions).faults()]


class _Mentions:
    """Where items are named that the catalog does not hold: each is told once, with all places."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._found: dict[ItemKey, dict[str, list[Place]]] | None = None
        self._said: set[ItemKey] = set()

    def first(self, key: ItemKey) -> bool:
        """Whether an item is told for the first time."""
        new = key not in self._said
        self._said.add(key)
        return new

    def others(self, key: ItemKey, kind: str) -> str:
        """What else names it, `, as do 2 more labels (test.tsv, lines 3 and 9) and 1 scope`, but for the first."""
        if self._found is None:
            self._found = self._all()
        told = []
        for other, places in self._found.get(key, {}).items():
            left = places[1:] if other == kind else places
            if left:
                more = "more " if other == kind else ""
                told.append(f"{len(left):,} {more}{other}{'' if len(left) == 1 else 's'}{_at(left)}")
        several = len(told) > 1 or (told and not told[0].startswith("1 "))
        return f", as do{'' if several else 'es'} {_listed(told)}" if told else ""

    def _all(self) -> dict[ItemKey, dict[str, list[Place]]]:
        found: dict[ItemKey, dict[str, list[Place]]] = {}
        contents = self._contents

        def name(kind: str, keys: Iterable[ItemKey], place: Place, *, there: bool = False) -> None:
            for key in dict.fromkeys(keys):
                if key not in contents.items or (there and key in contents.gone):
                    found.setdefault(key, {}).setdefault(kind, []).append(place)

        for scope, keys in contents.scopes.items():
            name("scope", keys, contents.place_scope(scope))
        for i, query in enumerate(contents.queries):
            for what, keys in _lists(query).items():
                name(_LISTS[what], keys, contents.place_query(i), there=what != "available")
        for i, label in enumerate(contents.labels):
            name("label", [label.item], contents.place_label(i))
        return found


def _lists(query: DatasetQuery) -> dict[str, Sequence[ItemKey]]:
    """The items that a query itself names."""
    request = query.request
    listed: dict[str, Sequence[ItemKey]] = {
        "session": [item.key for item in request.session or ()],
        "removed": request.removed,
        "explicit": request.explicit,
        "available": request.available or (),
    }
    if query.scope is not None:
        del listed["available"]
    return listed


def _at(places: Iterable[Place]) -> str:
    """Files with the first of their lines, in brackets; empty for what did not come from a file."""
    files: dict[str, list[str]] = {}
    for path, line in places:
        if path is not None and line:
            files.setdefault(path.name, []).append(str(line))
    told = []
    for name, lines in files.items():
        left = len(lines) - _LINES
        shown = [*lines[:_LINES], f"{left:,} more"] if left > 1 else lines
        told.append(f"{name}, line{'' if len(lines) == 1 else 's'} {_listed(shown)}")
    return f" ({'; '.join(told)})" if told else ""


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


class _Part:
    def __init__(self, contents: Contents, mentions: _Mentions) -> None:
        self.contents = contents
        self._mentions = mentions
        self._ids: list[str] | None = None
        self._suggested = 0
        self._listed: set[str] = set()

    def unknown_items(self, keys: Iterable[ItemKey], kind: str, *, there: bool = False) -> Iterable[str]:
        """A message for each key that the catalog does not hold; with `there`, for those that are gone as well.

        Each is told where it is named first, with what else names it. The first says what to do about all of them.
        """
        contents = self.contents
        if not contents.items_complete:
            return
        for key in keys:
            if (key not in contents.items or (there and key in contents.gone)) and self._mentions.first(key):
                self._ids = self._ids or [known.id for known in contents.items if known not in contents.gone]
                mend = "" if "item" in self._listed else self.mend
                closest = self.suggest("item", key.id, self._ids)
                others = self._mentions.others(key, kind)
                yield f"names item {key.id!r}, which corpus.jsonl does not hold{others}{closest}{mend}"

    @property
    def mend(self) -> str:
        """What to do about an item that is gone, where someone has edited the catalog."""
        return "" if self.contents.before is None else f"; {_MEND}"

    def suggest(self, what: str, name: str, known: Iterable[str]) -> str:
        """The closest known names, for as many faults as a message lists; the first of a kind lists what is known."""
        self._suggested += 1
        if self._suggested > _SUGGESTED:
            return ""
        listed = what not in self._listed
        self._listed.add(what)
        return suggest(name, known, listed=listed)

    @staticmethod
    def twice(keys: Sequence[ItemKey]) -> Iterable[str]:
        """A message for each key that is listed again."""
        seen: set[ItemKey] = set()
        for key in keys:
            if key in seen:
                yield f"names item {key.id!r} twice"
            seen.add(key)


class _Scopes(_Part):
    def faults(self) -> Iterable[Fault]:
        for name, keys in self.contents.scopes.items():
            for message in (*self.unknown_items(keys, "scope"), *self.twice(keys)):
                yield Fault(f"scope {name!r} {message}", *self.contents.place_scope(name))


class _Queries(_Part):
    def faults(self) -> Iterable[Fault]:
        first: dict[str, int] = {}
        split_by: dict[tuple[str, str], tuple[str, str]] = {}
        for i, query in enumerate(self.contents.queries):
            place = self.contents.place_query(i)
            messages = [*self._id(query, first, i), *self._split(query, split_by), *self._items(query)]
            if query.needs_nothing and query.partly_labelled:
                messages.append("needs nothing and is labelled partly; one of the two")
            for message in messages:
                yield Fault(f"query {query.id!r} {message}", *place)

    def _id(self, query: DatasetQuery, first: dict[str, int], i: int) -> Iterable[str]:
        if not query.id or re.search(r"\s", query.id):
            yield "has an id that is empty or holds blanks; qrels and runs could not name it"
        j = first.setdefault(query.id, i)
        if j != i:
            path, line = self.contents.place_query(j)
            yield "occurs twice" + (f", first in line {line}" if path else "") + "; ids must differ"

    @staticmethod
    def _split(query: DatasetQuery, split_by: dict[tuple[str, str], tuple[str, str]]) -> Iterable[str]:
        if not query.split:
            return  # missing; the reader has said so
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", query.split):
            yield f"has split {query.split!r}; expected letters, digits, '-' and '_', such as tuning or test"
        for what, name in (("group", query.group), ("conversation", query.request.conversation)):
            if name is not None:
                split, other = split_by.setdefault((what, name), (query.split, query.id))
                if split != query.split:
                    yield (
                        f"is in split {query.split!r}, but query {other!r} of the same {what} {name!r} is in "
                        f"{split!r}; a {what} stays in one split"
                    )

    def _items(self, query: DatasetQuery) -> Iterable[str]:
        request = query.request
        if query.scope is not None:
            if query.scope not in self.contents.scopes:
                if self.contents.scopes_complete:
                    known = self.suggest("scope", query.scope, self.contents.scopes)
                    yield f"has scope {query.scope!r}, which dataset.yaml does not define{known}"
            elif request.available != tuple(self.contents.scopes[query.scope]):
                yield f"has scope {query.scope!r}, but is given other items than that scope"
        for what, keys in _lists(query).items():
            there = what != "available"
            hidden = self._hidden(request, keys) if there else ()
            for message in (*self.unknown_items(keys, _LISTS[what], there=there), *self.twice(keys), *hidden):
                yield f"({what}) {message}"

    def _hidden(self, request: Request, keys: Iterable[ItemKey]) -> Iterable[str]:
        """What the query names and does not see."""
        for key in keys:
            item = self.contents.items.get(key)
            if item is not None:
                yield from (f"names {item.id!r}, which {why}" for why in unseen(request, item))


class _Labels(_Part):
    def __init__(self, contents: Contents, mentions: _Mentions) -> None:
        super().__init__(contents, mentions)
        self._mended = False
        self.query = {query.id: query for query in reversed(contents.queries)}
        self.scope = {name: frozenset(keys) for name, keys in contents.scopes.items()}
        self.in_a_scope = frozenset[ItemKey]().union(*self.scope.values())

    def faults(self) -> Iterable[Fault]:
        first: dict[tuple[str, ItemKey], int] = {}
        groups: dict[tuple[str, str, ItemKey | None], list[int]] = {}
        for i, label in enumerate(self.contents.labels):
            place = self.contents.place_label(i)
            for message in (
                *self._references(label),
                *self._values(label),
                *self._seen(label),
                *self._twice(label, first, i),
            ):
                yield Fault(f"label of {label.item.id!r} for query {label.query!r} {message}", *place)
            if label.grade == 2:
                alone = None if label.alternatives else label.item
                groups.setdefault((label.query, label.alternatives, alone), []).append(i)
        for (query_id, group, _), members in groups.items():
            query = self.query.get(query_id)
            if group and len(members) == 1:
                label = self.contents.labels[members[0]]
                message = (
                    f"label of {label.item.id!r} for query {label.query!r} stands alone in its group of alternatives "
                    f"{group!r}; give the items that stand for each other the same text, or leave it empty"
                )
                yield Fault(message, *self.contents.place_label(members[0]))
            if query is not None:
                yield from self._reachable(query, members)

    def _twice(self, label: Label, first: dict[tuple[str, ItemKey], int], i: int) -> Iterable[str]:
        if first.setdefault((label.query, label.item), i) != i:  # a file's are told where it is read
            yield "occurs twice"

    def _references(self, label: Label) -> Iterable[str]:
        contents = self.contents
        if label.query not in self.query and contents.queries_complete:
            yield f"is for a query that queries.jsonl does not hold{self.suggest('query', label.query, self.query)}"
        yield from self.unknown_items([label.item], "label")

    def _values(self, label: Label) -> Iterable[str]:
        if label.grade not in (0, 1, 2):
            yield f"has score {label.grade}; expected 0 irrelevant, 1 helpful or 2 required"
        if label.via not in ("direct", "dependency"):
            yield f"has via {label.via!r}; expected direct or dependency"
        if label.alternatives and label.grade != 2:
            yield f"has alternatives {label.alternatives!r}, but score {label.grade}; only required items (2) have any"
        for what, text in (("alternatives", label.alternatives), ("a source", label.source), ("a quote", label.quote)):
            if text and re.search(r"[\t\r\n]", text):
                yield f"has {what} with a tab or a line end, which qrels cannot hold"
        query, item = self.query.get(label.query), self.contents.items.get(label.item)
        if label.quote and item is not None and not quoted(item.prompt_text, label.quote):
            yield f"quotes {label.quote!r:.100}, which the item's prompt text does not hold; quote it word for word"
        if query is not None and query.needs_nothing and label.grade == 2:
            yield "says required, but the query says `needs: nothing`"

    def _seen(self, label: Label) -> Iterable[str]:
        """Why the query may not see an item that it requires."""
        item, query = self.contents.items.get(label.item), self.query.get(label.query)
        if item is None or query is None or label.grade != 2:
            return
        yield from (f"says required, but the item {why}" for why in unseen(query.request, item))
        held = {one.key for one in query.request.session or ()}
        if query.request.only is not None and item.key not in held and not query.request.only.of(Catalog([item]))[0]:
            yield "says required, but what the query's `only` asks for leaves the item out; no search may offer it"

    def _reachable(self, query: DatasetQuery, members: Sequence[int]) -> Iterable[Fault]:
        """A fault if none of the items that would meet a requirement can ever be offered."""
        labels = [self.contents.labels[i] for i in members]
        items = [self.contents.items.get(label.item) for label in labels]
        available: Container[ItemKey] | None = query.request.available
        if query.scope is not None:
            available = self.scope.get(query.scope)
        scope_unknown = query.scope is not None and query.scope not in self.contents.scopes
        if None in items or scope_unknown:
            return  # reported already
        before = self.contents.before or ()
        lost = {item.id for item in items if item is not None and not _searched(item)}
        if query.scope is not None:
            lost |= {label.item.id for label in labels if label.item not in self.in_a_scope}
        if not lost.isdisjoint(before):
            return  # a selector could, before the catalog was edited
        held = {item.key for item in query.request.session or ()}
        open_to = {label.item for label in labels if available is None or label.item in available} | held
        enabled = {item.key for item in items if item is not None and item.enabled}
        by_hand = {item.key for item in items if item is not None and item.include == "manual"} - held
        reachable = {label.item for label in labels if label.item in open_to and label.item in enabled}
        if not reachable - by_hand:
            names = " or ".join(repr(label.item.id) for label in labels)
            why = "is not among the items available to it" if enabled else "is not enabled"
            if reachable:
                why = "is included by hand only (manual), and its session does not hold it"
            message = f"query {query.id!r} requires {names}, which {why}; no selector could offer it"
            message += "" if self._mended else self.mend
            self._mended = True
            yield Fault(message, *self.contents.place_label(members[0]))


def unseen(request: Request, item: Item) -> Iterator[str]:
    """Why a request does not see an item; nothing if it does (`Batch.visible`)."""
    for what in ("workspace", "user"):
        own, other = getattr(request, what), getattr(item, what)
        if other is not None and own != other:
            of = f"that of the query is {own!r}" if own is not None else "the query names none"
            yield f"is of {what} {other!r}, and {of}; such a request never sees it"
    time = None if request.time is None else instant(request.time)
    if time is not None and item.created is not None and instant(item.created) > time:
        yield f"was created ({item.created}) after the query was asked ({request.time})"
    if item.until is not None and (time is None or time >= instant(item.until)):
        asked = f"was asked at {request.time}" if time is not None else "has no time, so it is asked now"
        yield f"ended ({item.until}) and the query {asked}"


def _searched(item: Item) -> bool:
    """Whether an item is there without anybody's doing."""
    return item.enabled and item.include != "manual"
