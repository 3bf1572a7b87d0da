"""Check that the parts of a dataset fit each other: ids, names and labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from ctxbench.core.errors import Fault, suggest
from ctxbench.core.item_suggestions import suggest_items
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Request
from ctxbench.core.shown import quoted
from ctxbench.core.times import instant
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.sources.absent_servers import AbsentServer

Place: TypeAlias = tuple[Path | None, int]
_REMEDY = (
    "correct the id, or put the item back, or drop what names it (`ctxbench data rebase`), or follow an item that has "
    "another name now (the same with --renames FILE, which holds `old id: new id`, or --accept-renames)"
)
_AGENT_REMEDY = (
    "correct the id, or put the item back, or drop what names it (`ctxbench data rebase DATASET --in-place`); where it "
    "has another name now, add --renames FILE, which holds `old id: new id`"
)
_PLAIN_REMEDY = "correct the id, or put the item back; `ctxbench data rebase` moves labels to a catalog that changed"
_SHOWN_LINES = 5  # lines of a file that a message names
_LISTS = {
    "session": "session",
    "removed": "list of removed items",
    "explicit": "list of items named by the user",
    "recent": "list of files opened last",
    "uses": "list of items found useful",
    "available": "list of available items",
}  # where a query names items, and what that is called
_SUGGESTIONS = 50  # faults that name the closest known name: a search among thousands takes a tenth of a second


def no_place(_key: int | str) -> Place:
    """The location of a part that did not come from a file."""
    return None, 0


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The parts of a dataset, and the location of each in its files.

    Attributes:
        items: by key.
        scopes: named sets of items.
        queries, labels: in the order of their files.
        items_complete, queries_complete, scopes_complete: False if a row could not be read at all; what is not
            known may then stand in that row, so that it is no fault of its own.
        place_query, place_label: path and 1-based line by position.
        place_scope: path and 1-based line by name.
        former_ids: where the catalog was edited by hand, ids of the items that it had; None = it was not. Labels may
            require those although no selector could offer them any more: disabled, by hand only, or in no scope.
        gone: those of them that stand among the items, disabled, only because labels, scopes or lists of available
            items name them. Nothing else may.
        catalog: the file that the items come from, for messages.
        absent_servers: of the agent whose items they are, those that its catalog has nothing of; by name.
    """

    items: Mapping[ItemKey, Item]
    scopes: Mapping[str, Sequence[ItemKey]]
    queries: Sequence[DatasetQuery]
    labels: Sequence[Label]
    items_complete: bool = True
    queries_complete: bool = True
    scopes_complete: bool = True
    place_query: Callable[[int], Place] = no_place
    place_label: Callable[[int], Place] = no_place
    place_scope: Callable[[str], Place] = no_place
    former_ids: Collection[str] | None = None
    gone: Collection[ItemKey] = ()
    catalog: str = "corpus.jsonl"
    absent_servers: Mapping[str, AbsentServer] = field(default_factory=dict)


def check_contents(contents: Contents) -> list[Fault]:
    """Check that the parts fit each other: faults of scopes first, then queries, then labels, each in order."""
    checker = _Checker(contents)
    return [*checker.scope_faults(), *checker.query_faults(), *checker.label_faults()]


class _Checker:
    """The checks of one dataset; an unknown item is reported once, with all locations."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._reported: set[ItemKey] = set()
        self._listed: set[str] = set()
        self._n_suggestions = 0
        self._told_servers: set[AbsentServer] = set()
        of_agent = contents.catalog != Contents.catalog
        edited = contents.former_ids is not None or of_agent
        self._remedy = f"; {_AGENT_REMEDY if of_agent else _REMEDY}" if edited else ""
        self._plain_remedy = "" if edited else f"; {_PLAIN_REMEDY}"
        self._queries = {query.id: query for query in reversed(contents.queries)}
        self._scopes = {name: frozenset(keys) for name, keys in contents.scopes.items()}
        self._in_a_scope = frozenset[ItemKey]().union(*self._scopes.values())

    # ------------------------------------------------------------------------------------------ unknown items

    def _is_unknown(self, key: ItemKey, *, or_gone: bool = False) -> bool:
        return key not in self._contents.items or (or_gone and key in self._contents.gone)

    def _unknown_items(self, keys: Iterable[ItemKey], kind: str, *, or_gone: bool = False) -> Iterable[str]:
        """A message for each key that the catalog does not hold; with `or_gone`, for those that are gone as well.

        An item is reported where it is named first, with all else that names it. The first message says what to do.
        """
        for key in keys:
            if not self._is_unknown(key, or_gone=or_gone) or key in self._reported or not self._contents.items_complete:
                continue
            self._reported.add(key)
            self._n_suggestions += 1
            closest = suggest_items(key.id, self._item_ids) if self._n_suggestions <= _SUGGESTIONS else ""
            mentions = self._other_mentions(key, kind)
            missing = f"which {self._contents.catalog} does not hold"
            if absent := self._contents.absent_servers.get(key.server or ""):  # its labels are right
                fix = "" if absent in self._told_servers else f"; {absent.fix}"
                self._told_servers.add(absent)
                yield f"names item {key.id!r}, {missing}{mentions}: {absent.why}{fix}"
                continue
            yield f"names item {key.id!r}, {missing}{mentions}{closest}{self._plain_remedy}{self._next_remedy()}"
            self._plain_remedy = ""

    def _other_mentions(self, key: ItemKey, kind: str) -> str:
        """All other mentions of an item, `, as do 2 more labels (test.tsv, lines 3 and 9) and 1 scope`."""
        parts = []
        for mention_kind, locations in group_pairs(self._mentions.get(key, ())).items():
            rest = locations[1:] if mention_kind == kind else locations
            if rest:
                extra = "more " if mention_kind == kind else ""
                parts.append(f"{len(rest):,} {extra}{mention_kind}{'' if len(rest) == 1 else 's'}{_lines_of(rest)}")
        several = len(parts) > 1 or (parts and not parts[0].startswith("1 "))
        return f", as do{'' if several else 'es'} {_enumeration(parts)}" if parts else ""

    @cached_property
    def _mentions(self) -> dict[ItemKey, list[tuple[str, Place]]]:
        """Mentions of unknown items, by item: the kind of the mention, and its location."""
        return group_pairs(self._unknown_mentions())

    def _unknown_mentions(self) -> Iterator[tuple[ItemKey, tuple[str, Place]]]:
        contents = self._contents
        for scope, keys in contents.scopes.items():
            location = contents.place_scope(scope)
            yield from ((key, ("scope", location)) for key in dict.fromkeys(keys) if self._is_unknown(key))
        for i, query in enumerate(contents.queries):
            for noun, keys in _lists(query).items():
                mention, or_gone = (_LISTS[noun], contents.place_query(i)), noun != "available"
                yield from ((key, mention) for key in dict.fromkeys(keys) if self._is_unknown(key, or_gone=or_gone))
        for i, label in enumerate(contents.labels):
            if self._is_unknown(label.item):
                yield label.item, ("label", contents.place_label(i))

    @cached_property
    def _item_ids(self) -> list[str]:
        return [key.id for key in self._contents.items if key not in self._contents.gone]

    def _next_remedy(self) -> str:
        """Advice about items that are gone from an edited catalog, for the first message; empty for all others."""
        remedy, self._remedy = self._remedy, ""
        return remedy

    def _suggest(self, noun: str, name: str, names: Iterable[str]) -> str:
        """The closest known names, for as many faults as a message lists; the first of a kind lists what is known."""
        self._n_suggestions += 1
        if self._n_suggestions > _SUGGESTIONS:
            return ""
        listed = noun not in self._listed
        self._listed.add(noun)
        return suggest(name, names, listed=listed)

    # ------------------------------------------------------------------------------------------ scopes and queries

    def scope_faults(self) -> Iterable[Fault]:
        """Faults of scopes."""
        for name, keys in self._contents.scopes.items():
            for message in (*self._unknown_items(keys, "scope"), *_repeated(keys)):
                yield Fault(f"scope {name!r} {message}", *self._contents.place_scope(name))

    def query_faults(self) -> Iterable[Fault]:
        """Faults of queries; the first suggestion of each kind lists the known names again."""
        self._listed = set()
        first: dict[str, int] = {}
        split_by: dict[tuple[str, str], tuple[str, str]] = {}
        for i, query in enumerate(self._contents.queries):
            messages = [*self._id(query, first, i), *_split_messages(query, split_by), *self._query_items(query)]
            if query.needs_nothing and query.partly_labelled:
                messages.append("needs nothing and is labelled partly; one of the two")
            for message in messages:
                yield Fault(f"query {query.id!r} {message}", *self._contents.place_query(i))

    def _id(self, query: DatasetQuery, first: dict[str, int], i: int) -> Iterable[str]:
        if not query.id or re.search(r"\s", query.id):
            yield "has an id that is empty or holds blanks; qrels and runs could not name it"
        j = first.setdefault(query.id, i)
        if j != i:
            path, line = self._contents.place_query(j)
            yield "occurs twice" + (f", first in line {line}" if path else "") + "; ids must differ"

    def _query_items(self, query: DatasetQuery) -> Iterable[str]:
        request, contents = query.request, self._contents
        if query.scope is not None:
            if query.scope not in contents.scopes:
                if contents.scopes_complete:
                    suggestion = self._suggest("scope", query.scope, contents.scopes)
                    yield f"has scope {query.scope!r}, which dataset.yaml does not define{suggestion}"
            elif request.available != tuple(contents.scopes[query.scope]):
                yield f"has scope {query.scope!r}, but is given other items than that scope"
        for noun, keys in _lists(query).items():
            named = noun != "available"
            items = [contents.items[key] for key in keys if named and key in contents.items]
            hidden = (f"names {item.id!r}, which {why}" for item in items for why in _hidden_because(request, item))
            for message in (*self._unknown_items(keys, _LISTS[noun], or_gone=named), *_repeated(keys), *hidden):
                yield f"({noun}) {message}"

    # ------------------------------------------------------------------------------------------ labels

    def label_faults(self) -> Iterable[Fault]:
        """Faults of labels; the first suggestion of each kind lists the known names again."""
        contents, self._listed = self._contents, set()
        first: dict[tuple[str, ItemKey], int] = {}
        for i, label in enumerate(contents.labels):
            messages = list(self._label_messages(label))
            if first.setdefault((label.query, label.item), i) != i:  # those of a file are reported where it is read
                messages.append("occurs twice")
            yield from (label_fault(label, message, contents.place_label(i)) for message in messages)
        required = (
            ((label.query, label.alternatives, None if label.alternatives else label.item), i)
            for i, label in enumerate(contents.labels)
            if label.grade == 2
        )
        for (query_id, group, _), rows in group_pairs(required).items():
            if group and len(rows) == 1:
                message = (
                    f"stands alone in its group of alternatives {group!r}; give the items that stand for each other "
                    "the same text, or leave it empty"
                )
                yield label_fault(contents.labels[rows[0]], message, contents.place_label(rows[0]))
            if query_id in self._queries:
                yield from self._reachable(self._queries[query_id], rows)

    def _label_messages(self, label: Label) -> Iterable[str]:
        if label.query not in self._queries and self._contents.queries_complete:
            yield f"is for a query that queries.jsonl does not hold{self._suggest('query', label.query, self._queries)}"
        yield from self._unknown_items([label.item], "label")
        if label.grade not in (0, 1, 2):
            yield f"has score {label.grade}; expected 0 irrelevant, 1 helpful or 2 required"
        if label.via not in ("direct", "dependency"):
            yield f"has via {label.via!r}; expected direct or dependency"
        if label.alternatives and label.grade != 2:
            yield f"has alternatives {label.alternatives!r}, but score {label.grade}; only required items (2) have any"
        for noun, text in (("alternatives", label.alternatives), ("a source", label.source), ("a quote", label.quote)):
            if text and re.search(r"[\t\r\n]", text):
                yield f"has {noun} with a tab or a line end, which qrels cannot hold"
        query, item = self._queries.get(label.query), self._contents.items.get(label.item)
        if label.quote and item is not None and not quoted(item.prompt_text, label.quote):
            yield f"quotes {label.quote!r:.100}, which the item's prompt text does not hold; quote it word for word"
        if query is not None and query.needs_nothing and label.grade == 2:
            yield "says required, but the query says `needs: nothing`"
        if item is None or query is None:
            return
        if label.grade != 2:  # what has ended may well be labelled as of no use any more; what was not there yet cannot
            yield from (f"is of an item that {why}" for why in _younger(query.request, item))
            return
        yield from (f"says required, but the item {why}" for why in _hidden_because(query.request, item))
        filters, session_keys = query.request.only, {session_item.key for session_item in query.request.session or ()}
        if filters is not None and item.key not in session_keys and not filters.of(Catalog([item]))[0]:
            yield "says required, but what the query's `only` asks for leaves the item out; no search may offer it"

    def _reachable(self, query: DatasetQuery, rows: Sequence[int]) -> Iterable[Fault]:
        """A fault if none of the items of a group of alternatives can ever be offered."""
        contents, request = self._contents, query.request
        labels = [contents.labels[row] for row in rows]
        items = {label.item: contents.items[label.item] for label in labels if label.item in contents.items}
        available = request.available if query.scope is None else self._scopes.get(query.scope)
        if any(label.item not in items for label in labels) or (query.scope is not None and available is None):
            return  # reported already
        lost = {item.id for item in items.values() if not item.enabled or item.include == "manual"}
        lost |= {key.id for key in items if query.scope is not None and key not in self._in_a_scope}
        if not lost.isdisjoint(contents.former_ids or ()):
            return  # a selector could, before the catalog was edited
        session = {item.key for item in request.session or ()}
        enabled = {key for key, item in items.items() if item.enabled}
        reachable = {key for key in enabled if available is None or key in available or key in session}
        if not any(items[key].include != "manual" or key in session for key in reachable):
            why = "is not among the items available to it" if enabled else "is not enabled"
            if reachable:
                why = "is included by hand only (manual), and its session does not hold it"
            names = " or ".join(repr(label.item.id) for label in labels)
            message = f"query {query.id!r} requires {names}, which {why}; no selector could offer it"
            yield Fault(message + self._next_remedy(), *contents.place_label(rows[0]))


def label_fault(label: Label, message: str, location: Place) -> Fault:
    """The fault of a label."""
    return Fault(f"label of {label.item.id!r} for query {label.query!r} {message}", *location)


def _repeated(keys: Sequence[ItemKey]) -> Iterable[str]:
    """A message for each key that is listed again."""
    keys_so_far: set[ItemKey] = set()
    for key in keys:
        if key in keys_so_far:
            yield f"names item {key.id!r} twice"
        keys_so_far.add(key)


def _split_messages(query: DatasetQuery, split_by: dict[tuple[str, str], tuple[str, str]]) -> Iterable[str]:
    if not query.split:
        return  # missing: the reader reports it
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", query.split):
        yield f"has split {query.split!r}; expected letters, digits, '-' and '_', such as tuning or test"
    for noun, name in (("group", query.group), ("conversation", query.request.conversation)):
        if name is not None:
            split, first_query = split_by.setdefault((noun, name), (query.split, query.id))
            if split != query.split:
                yield (
                    f"is in split {query.split!r}, but query {first_query!r} of the same {noun} {name!r} is in "
                    f"{split!r}; a {noun} stays in one split"
                )


def _lists(query: DatasetQuery) -> dict[str, Sequence[ItemKey]]:
    """The lists of items in a query, by name."""
    request = query.request
    lists: dict[str, Sequence[ItemKey]] = {
        "session": [item.key for item in request.session or ()],
        "removed": request.removed,
        "explicit": request.explicit,
        "recent": request.recent,
        "uses": [key for key, _ in request.uses],
        "available": request.available or (),
    }
    if query.scope is not None:
        del lists["available"]
    return lists


def _lines_of(locations: Iterable[Place]) -> str:
    """Files with their first few lines, in brackets; empty if the locations are in no file."""
    files = []
    for name, lines in group_pairs((path.name, str(line)) for path, line in locations if path and line).items():
        rest = len(lines) - _SHOWN_LINES
        listed = [*lines[:_SHOWN_LINES], f"{rest:,} more"] if rest > 1 else lines
        files.append(f"{name}, line{'' if len(lines) == 1 else 's'} {_enumeration(listed)}")
    return f" ({'; '.join(files)})" if files else ""


def _enumeration(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _hidden_because(request: Request, item: Item) -> Iterator[str]:
    """Reasons why a request does not see an item; none if it does (`Batch.visible`)."""
    for noun, required, actual in (("workspace", request.workspace, item.workspace), ("user", request.user, item.user)):
        if actual is not None and required != actual:
            queries = f"that of the query is {required!r}" if required is not None else "the query names none"
            yield f"is of {noun} {actual!r}, and {queries}; such a request never sees it"
    yield from _younger(request, item)
    time = None if request.time is None else instant(request.time)
    if item.until is not None and (time is None or time >= instant(item.until)):
        state = f"was asked at {request.time}" if time is not None else "has no time, so it is asked now"
        yield f"ended ({item.until}) and the query {state}"


def _younger(request: Request, item: Item) -> Iterator[str]:
    """Says that an item was not there yet when the request was made."""
    if None not in (request.time, item.created) and instant(str(item.created)) > instant(str(request.time)):
        yield f"was created ({item.created}) after the query was asked ({request.time})"
