"""Queries and labels of a dataset, checks that they agree, and rows grouped by key."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Required, TypeAlias, TypeVar

from annotated_types import Ge, MinLen
from typing_extensions import TypedDict

from ctxbench.catalogs.agent_file import AbsentServer
from ctxbench.io.errors import Fault, Message, ParameterError, count, suggest
from ctxbench.io.rows import Row, instant, read_text_value
from ctxbench.model import requests
from ctxbench.model.arrays import Grade
from ctxbench.model.candidates import quoted
from ctxbench.model.items import Catalog, Item, ItemKey, read_key, suggest_items
from ctxbench.model.requests import Filter, Request, SessionItem, check_uses, checked_vector

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def group_pairs(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key, keys and values in the order of the pairs."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def connected_rows(row_keys: Iterable[Iterable[Hashable]]) -> list[list[int]]:
    """Group the rows that share a key, directly or over other rows.

    Args:
        row_keys: the keys of each row; a row without keys is a group alone.

    Returns:
        Positions of rows, ascending in each group; groups in the order of their first row.
    """
    parents: list[int] = []
    first_row: dict[Hashable, int] = {}

    def root(row: int) -> int:
        while parents[row] != row:
            parents[row] = parents[parents[row]]
            row = parents[row]
        return row

    for row, keys in enumerate(row_keys):
        parents.append(row)
        for key in keys:
            first, second = root(first_row.setdefault(key, row)), root(row)
            parents[max(first, second)] = min(first, second)
    return list(group_pairs((root(row), row) for row in range(len(parents))).values())


T = TypeVar("T", bound=Hashable)


class MessageRow(TypedDict):
    """An earlier message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    """Who wrote it."""
    content: str
    """Its text."""


class SessionRow(TypedDict, total=False):
    """An item in the session."""

    id: Required[str]
    """The item id."""
    mode: Literal["always", "manual"]
    """How it was added: `always`, or by hand (`manual`, the default)."""


class ToolResultRow(TypedDict):
    """The result of a tool that was called for the request."""

    tool: str
    """The name of the tool."""
    text: str
    """What it returned."""


class FilterRow(TypedDict, total=False):
    """Restrictions of the search. An item without the fact in question is excluded."""

    types: list[str] | None
    """Item types; empty = any."""
    kinds: list[str] | None
    """Kinds of items, such as `fact` or `decision`; empty = any."""
    since: str | None
    """The earliest time of creation, ISO 8601."""
    before: str | None
    """The time before which items were created, ISO 8601."""
    confidence: float | None
    """The least confidence, 0 to 1."""
    conversation: str | None
    """The conversation that items are of."""


class QueryRow(TypedDict, total=False):
    """A row of `queries.jsonl`: a request with its split, and what the selector gets with it."""

    _id: Required[Annotated[str, MinLen(1)]]
    """The query id; unique, without blanks."""
    text: Required[str | None]
    """What the user asked; it may be empty."""
    split: Required[Annotated[str, MinLen(1)]]
    """`tuning`, `test`, or another name of letters, digits, `-` and `_`."""
    group: str | None
    """Queries of one group, such as paraphrases, stay in one split."""
    tags: list[str] | None
    """Tags for tables by tag."""
    needs: Literal["nothing"] | None
    """`nothing`: someone judged that no item is required."""
    labelled: Literal["partly"] | None
    """`partly`: more items may be required than the labels say."""
    history: list[MessageRow] | None
    """Earlier messages, oldest first."""
    session: list[SessionRow] | None
    """The items in the session; none = a new session, with the enabled `always` items."""
    removed: list[str] | None
    """Ids of items that the user removed from the session."""
    explicit: list[str] | None
    """Ids of items that the user named."""
    recent: list[str] | None
    """Ids of files that the user had open, the last one first."""
    uses: dict[str, Annotated[int, Ge(0)]] | None
    """How often the user found an item useful, by item id."""
    available: list[str] | None
    """Ids of the items that this request may get; none = the whole catalog."""
    scope: str | None
    """The name of a scope of `dataset.yaml`, instead of `available`."""
    tool_results: list[ToolResultRow] | None
    """Results of tools that were called for this request."""
    conversation: str | None
    """The conversation that the request is part of."""
    turn: Annotated[int, Ge(0)] | None
    """The position in the conversation, from 0."""
    user: Annotated[str, MinLen(1)] | None
    """The user; only items of this user and of nobody are visible."""
    workspace: Annotated[str, MinLen(1)] | None
    """The workspace; only items of this workspace and of none are visible."""
    time: str | None
    """When it was asked, ISO 8601; none = now."""
    only: FilterRow | None
    """Restrictions of the search."""
    vector: list[float] | None
    """Stands for the text in searches by similarity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetQuery:
    """A query: a request with its split, group and tags.

    A query without a required item either needs nothing or was not labelled: only
    `needs_nothing` says the first, the second is `unlabelled` (see `Dataset.judged`).

    Attributes:
        request: what the selector is asked; its id is the query id, and holds no blanks.
        split: `tuning`, `test`, or another name of letters, digits, `-` and `_`.
        group: queries of one group (paraphrases, one conversation) stay in one split; None = a group of its own.
        tags: for tables by tag.
        scope: the named set of the dataset that `request.available` is; None = the whole catalog, or a list.
        needs_nothing: someone has judged that no item is required.
        partly_labelled: more items may be required than its labels say, for example because they come from a log of
            what was called among the few items that were offered.
    """

    request: Request
    split: str
    group: str | None = None
    tags: tuple[str, ...] = ()
    scope: str | None = None
    needs_nothing: bool = False
    partly_labelled: bool = False

    @property
    def id(self) -> str:
        """The query id."""
        return self.request.id

    def as_row(self) -> dict[str, Any]:
        """The query as a row of `queries.jsonl`: `_id`, text and split, then the fields that are not their defaults."""
        # a scope's items are in the card, and may be many
        rest = (self.request if self.scope is None else replace(self.request, available=None)).as_dict()
        fields = {
            "group": self.group,
            "tags": list(self.tags) or None,
            "needs": "nothing" if self.needs_nothing else None,
            "labelled": "partly" if self.partly_labelled else None,
            "scope": self.scope,
        }
        stated = {name: value for name, value in fields.items() if value is not None}
        return {"_id": rest.pop("id"), "text": rest.pop("text"), "split": self.split} | stated | rest


@dataclass(frozen=True, slots=True)
class Label:
    """A label says how much one query needs one item. An item without a label is a third state, not grade 0.

    Attributes:
        query: the query id.
        item: the item.
        grade: 2 required, 1 helpful, 0 irrelevant.
        via: `direct`, or `dependency` if it is needed because another needed item leans on it.
        alternatives: required items of one query with the same text here are alternatives: any one of them
            is enough. Empty = none; other grades have none.
        source: where the label comes from, such as `trace`, `person` or `publisher`; empty = as the card says. No
            part of the dataset's hash.
        quote: what of the item's prompt text the query needs, word for word: a selector that shows a part of the item
            meets the label if this is in it. Empty = all of the item.
    """

    query: str
    item: ItemKey
    grade: int
    via: str = "direct"
    alternatives: str = ""
    source: str = ""
    quote: str = ""

    def __str__(self) -> str:
        return f"label of {self.item.id!r} for query {self.query!r}"


# ---------------------------------------------------------------------------------------------- reading


def read_query(row: Row, scopes: Mapping[str, tuple[ItemKey, ...]]) -> DatasetQuery | None:
    """Turn a row of `queries.jsonl` into a query; None if it has no `_id`."""
    row.check(QueryRow)
    data = row.data
    if "_id" not in data:
        return None
    if (scope := data.get("scope")) is not None and "available" in data:
        row.fault(Message("datasets.query-available-and-scope"))
    available = None if scope is None else scopes.get(scope)
    if scope is None and "available" in data:
        available = row.read_list("available", read_key, expected="an item id")
    return DatasetQuery(
        request=_request(row, data["_id"], available),
        split=data.get("split", ""),
        group=data.get("group"),
        tags=row.read_list("tags", read_text_value, expected="a text"),
        scope=scope,
        needs_nothing="needs" in data,
        partly_labelled="labelled" in data,
    )


def _request(row: Row, query_id: str, available: tuple[ItemKey, ...] | None) -> Request:
    session, data = None, row.data
    if "session" in data:
        session = row.read_list("session", _session_item, expected='{"id", "mode"}')
    return Request(
        id=query_id,
        text=data.get("text", ""),
        history=row.read_list("history", _message, expected='{"role", "content"}, both texts'),
        session=session,
        removed=row.read_list("removed", read_key, expected="an item id"),
        explicit=row.read_list("explicit", read_key, expected="an item id"),
        recent=row.read_list("recent", read_key, expected="an item id"),
        uses=_attempt(row, "uses", lambda counts: _uses(counts, query_id)) or (),
        available=available,
        tool_results=row.read_list("tool_results", _tool_result, expected='{"tool", "text"}, both texts'),
        user=data.get("user"),
        workspace=data.get("workspace"),
        conversation=data.get("conversation"),
        turn=data.get("turn"),
        time=data["time"] if _attempt(row, "time", instant) is not None else None,
        only=_attempt(row, "only", lambda value: _read_filter(row.nested(value))),
        vector=_attempt(row, "vector", lambda values: checked_vector(values, query_id)),
    )


def _attempt(row: Row, name: str, read: Callable[[Any], V]) -> V | None:
    """What `read` makes of a field; None if it is absent or refused, which is a fault."""
    if name not in row.data:
        return None
    try:
        return read(row.data[name])
    except ParameterError as error:
        row.fault(f"field {name!r}: {error}")
        return None


def _read_filter(row: Row) -> Filter:
    """The restrictions of the search."""
    row.check(FilterRow)
    names = {name: value for name, value in row.data.items() if name not in ("types", "kinds")}
    return Filter(
        types=row.read_list("types", read_text_value, expected="an item type"),
        kinds=row.read_list("kinds", read_text_value, expected="a text"),
        **names,
    )


def _uses(counts: Mapping[str, int], query_id: str) -> tuple[tuple[ItemKey, int], ...]:
    uses = tuple((ItemKey.parse(name), count) for name, count in counts.items())
    check_uses(uses, query_id)
    return uses


def _fields(value: Any, *names: str, optional: str = "") -> Mapping[str, str]:
    """An object of texts with exactly these fields."""
    if not isinstance(value, dict) or not set(names) <= set(value) <= {*names, optional}:
        raise TypeError
    return {name: read_text_value(entry) for name, entry in value.items()}


def _message(value: Any) -> requests.Message:
    return requests.Message(**_fields(value, "role", "content"))


def _session_item(value: Any) -> SessionItem:
    fields = _fields(value, "id", optional="mode")
    return SessionItem(read_key(fields["id"]), fields.get("mode", "manual"))


def _tool_result(value: Any) -> tuple[str, str]:
    fields = _fields(value, "tool", "text")
    return fields["tool"], fields["text"]


# ---------------------------------------------------------------------------------------------- labels of a query


def minimal_groups(groups: Iterable[Sequence[T]]) -> tuple[list[list[T]], int, bool]:
    """Leave out the groups of alternatives that another group implies.

    Returns:
        The other groups, in order, each member once; how many groups were implied; and whether two of the other
        groups share a member.
    """
    distinct = [list(dict.fromkeys(group)) for group in groups if group]
    minimal = [
        group
        for i, group in enumerate(distinct)
        if not any(
            set(candidate) < set(group) or (set(candidate) == set(group) and j < i)
            for j, candidate in enumerate(distinct)
        )
    ]
    members = [member for group in minimal for member in group]
    return minimal, len(distinct) - len(minimal), len(members) != len(set(members))


def group_labels(
    query: str, groups: Iterable[Sequence[ItemKey]], *, name: str = "group", source: str = ""
) -> Iterator[Label]:
    """Labels for groups of items of which a query requires one each.

    Args:
        query: the query id.
        groups: of alternatives; one item alone has none, and an empty group has no label.
        name: what a group is called in `alternatives`, before its number from 1.
        source: of the labels.
    """
    for number, group in enumerate(groups, start=1):
        alternatives = f"{name} {number}" if len(group) > 1 else ""
        yield from (Label(query, key, Grade.REQUIRED, alternatives=alternatives, source=source) for key in group)


def graded(
    labels: Mapping[ItemKey, Label], query: str, item: ItemKey, grade: int, *, source: str
) -> dict[ItemKey, Label]:
    """The labels with an item at a grade. An item that stays required remains in its group of alternatives.

    What of the item was quoted stays quoted, unless it is irrelevant now.
    """
    old = labels.get(item)
    via = old.via if old is not None else "direct"
    group = old.alternatives if old is not None and old.grade == grade == 2 else ""
    quote = old.quote if old is not None and grade else ""
    return _without_lonely({**labels, item: Label(query, item, grade, via, group, source, quote)})


def standing_in(
    labels: Mapping[ItemKey, Label], query: str, item: ItemKey, of: ItemKey, *, source: str
) -> dict[ItemKey, Label]:
    """The labels with an item as an alternative of another one, which must be required."""
    label = labels[of]
    group = label.alternatives or f"like {of.id}"
    new = Label(query, item, 2, label.via, group, source)
    return _without_lonely({**labels, of: replace(label, alternatives=group), item: new})


def _without_lonely(labels: Mapping[ItemKey, Label]) -> dict[ItemKey, Label]:
    """Dissolve groups with a single alternative."""
    sizes = Counter(label.alternatives for label in labels.values())
    return {key: replace(i, alternatives="") if sizes[i.alternatives] == 1 else i for key, i in labels.items()}


def unlabelled_words(left_out: int, partly: int) -> str:
    """The words for the number of unlabelled queries, and of those among them that are labelled in part."""
    return f"{left_out:,} {'is' if left_out == 1 else 'are'} unlabelled{f' ({partly:,} in part)' if partly else ''}"


Place: TypeAlias = tuple[Path | None, int]

_SHOWN_LINES = 5  # lines of a file that a message names
_LISTS = {
    "session": "session",
    "removed": "list of removed items",
    "explicit": "list of explicit items",
    "recent": "list of recent files",
    "uses": "list of useful items",
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
            known may then be in that row, so it is not a fault.
        place_query, place_label: path and 1-based line by position.
        place_scope: path and 1-based line by name.
        former_ids: where the catalog was edited by hand, ids of the items that it had; None = it was not. Labels may
            require those although no selector could offer them any more: disabled, by hand only, or in no scope.
        gone: those of them that are among the items, disabled, only because labels, scopes or lists of available
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
        edited_fix = Message("datasets.fix-agent-item" if of_agent else "datasets.fix-edited-item")
        self._fix = edited_fix if edited else ""
        self._plain_fix = "" if edited else Message("datasets.fix-item")
        self._queries = {query.id: query for query in reversed(contents.queries)}
        self._scopes = {name: frozenset(keys) for name, keys in contents.scopes.items()}
        self._in_a_scope = frozenset[ItemKey]().union(*self._scopes.values())

    # ------------------------------------------------------------------------------------------ unknown items

    def _is_unknown(self, key: ItemKey, *, or_gone: bool = False) -> bool:
        return key not in self._contents.items or (or_gone and key in self._contents.gone)

    def _unknown_items(
        self, keys: Iterable[ItemKey], kind: str, subject: object, *, or_gone: bool = False
    ) -> Iterable[str]:
        """A message for each key that the catalog does not hold; with `or_gone`, for those that are gone as well.

        An item is reported where it is named first, with everything else that names it. The first message says what to
        do. `subject` is the part that names the items.
        """
        for key in keys:
            if not self._is_unknown(key, or_gone=or_gone) or key in self._reported or not self._contents.items_complete:
                continue
            self._reported.add(key)
            self._n_suggestions += 1
            closest = suggest_items(key.id, self._item_ids) if self._n_suggestions <= _SUGGESTIONS else ""
            mentions = self._other_mentions(key, kind)
            hint = f"{closest}{self._plain_fix}{self._next_fix()}"
            if absent := self._contents.absent_servers.get(key.server or ""):  # its labels are right
                hint = f": {absent.why}" + ("" if absent in self._told_servers else f"; {absent.fix}")
                self._told_servers.add(absent)
            else:
                self._plain_fix = ""
            catalog = self._contents.catalog
            yield Message(
                "datasets.unknown-item", subject=subject, item=key.id, catalog=catalog, mentions=mentions, hint=hint
            )

    def _other_mentions(self, key: ItemKey, kind: str) -> str:
        """All other mentions of an item, `; also named by 2 more labels (test.tsv, lines 3 and 9) and 1 scope`."""
        parts = []
        for mention_kind, locations in group_pairs(self._mentions.get(key, ())).items():
            rest = locations[1:] if mention_kind == kind else locations
            if rest:
                extra = "more " if mention_kind == kind else ""
                parts.append(f"{count(len(rest), f'{extra}{mention_kind}')}{_lines_of(rest)}")
        return f"; also named by {_enumeration(parts)}" if parts else ""

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
        yield from (
            (label.item, ("label", contents.place_label(i)))
            for i, label in enumerate(contents.labels)
            if self._is_unknown(label.item)
        )

    @cached_property
    def _item_ids(self) -> list[str]:
        return [key.id for key in self._contents.items if key not in self._contents.gone]

    def _next_fix(self) -> str:
        """Advice about items that are gone from an edited catalog, for the first message; empty for all others."""
        fix, self._fix = self._fix, ""
        return fix

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
            subject = f"scope {name!r}"
            yield from (
                Fault(message, *self._contents.place_scope(name))
                for message in (*self._unknown_items(keys, "scope", subject), *_repeated(keys, subject))
            )

    def query_faults(self) -> Iterable[Fault]:
        """Faults of queries; the first suggestion of each kind lists the known names again."""
        self._listed = set()
        first: dict[str, int] = {}
        split_by: dict[tuple[str, str], tuple[str, str]] = {}
        for i, query in enumerate(self._contents.queries):
            messages = [*self._id(query, first, i), *_split_messages(query, split_by), *self._query_items(query)]
            if query.needs_nothing and query.partly_labelled:
                messages.append(Message("datasets.query-nothing-and-partly", query=query.id))
            yield from (Fault(message, *self._contents.place_query(i)) for message in messages)

    def _id(self, query: DatasetQuery, first: dict[str, int], i: int) -> Iterable[str]:
        if not query.id or re.search(r"\s", query.id):
            yield Message("datasets.query-id", query=query.id)
        if (j := first.setdefault(query.id, i)) != i:
            path, line = self._contents.place_query(j)
            where = f", first in line {line}" if path else ""
            yield Message("datasets.query-id-repeated", query=query.id, where=where)

    def _query_items(self, query: DatasetQuery) -> Iterable[str]:
        request, contents = query.request, self._contents
        if query.scope is not None:
            if query.scope not in contents.scopes:
                if contents.scopes_complete:
                    hint = self._suggest("scope", query.scope, contents.scopes)
                    yield Message("datasets.unknown-scope", query=query.id, scope=query.scope, hint=hint)
            elif request.available != tuple(contents.scopes[query.scope]):
                yield Message("datasets.scope-differs", query=query.id, scope=query.scope)
        for noun, keys in _lists(query).items():
            subject, named = f"query {query.id!r} ({noun})", noun != "available"
            yield from self._unknown_items(keys, _LISTS[noun], subject, or_gone=named)
            yield from _repeated(keys, subject)
            for item in (contents.items[key] for key in keys if named and key in contents.items):
                yield from (
                    Message("datasets.hidden-item", subject=subject, item=item.id, why=why)
                    for why in _hidden_because(request, item)
                )

    # ------------------------------------------------------------------------------------------ labels

    def label_faults(self) -> Iterable[Fault]:
        """Faults of labels; the first suggestion of each kind lists the known names again."""
        contents, self._listed = self._contents, set()
        first: dict[tuple[str, ItemKey], int] = {}
        for i, label in enumerate(contents.labels):
            messages = list(self._label_messages(label))
            if first.setdefault((label.query, label.item), i) != i:  # those of a file are reported where it is read
                messages.append(f"{label} occurs twice")
            yield from (Fault(message, *contents.place_label(i)) for message in messages)
        required = (
            ((label.query, label.alternatives, None if label.alternatives else label.item), i)
            for i, label in enumerate(contents.labels)
            if label.grade == 2
        )
        for (query_id, group, _), rows in group_pairs(required).items():
            if group and len(rows) == 1:
                label = contents.labels[rows[0]]
                message = Message("datasets.label-alone", label=label, group=group)
                yield Fault(message, *contents.place_label(rows[0]))
            if query_id in self._queries:
                yield from self._reachable(self._queries[query_id], rows)

    def _label_messages(self, label: Label) -> Iterable[str]:
        if label.query not in self._queries and self._contents.queries_complete:
            hint = self._suggest("query", label.query, self._queries)
            yield Message("datasets.label-unknown-query", label=label, hint=hint)
        yield from self._unknown_items([label.item], "label", label)
        if label.grade not in (0, 1, 2):
            yield Message("datasets.label-score", label=label, got=label.grade)
        if label.via not in ("direct", "dependency"):
            yield Message("datasets.label-via", label=label, got=label.via)
        if label.alternatives and label.grade != 2:
            yield Message("datasets.label-alternatives", label=label, got=label.alternatives, score=label.grade)
        for column, text in (("alternatives", label.alternatives), ("source", label.source), ("quote", label.quote)):
            if text and re.search(r"[\t\r\n]", text):
                yield Message("datasets.label-tab", label=label, column=column)
        query, item = self._queries.get(label.query), self._contents.items.get(label.item)
        if label.quote and item is not None and not quoted(item.prompt_text, label.quote):
            yield Message("datasets.label-quote", label=label, quote=label.quote)
        if query is not None and query.needs_nothing and label.grade == 2:
            yield Message("datasets.label-needs-nothing", label=label)
        if item is None or query is None:
            return
        # an item that has ended may be irrelevant; one that was not created yet has no label
        reasons = (_hidden_because if label.grade == 2 else _younger)(query.request, item)
        yield from (Message("datasets.label-hidden-item", label=label, why=why) for why in reasons)
        filters, session_keys = query.request.only, {session_item.key for session_item in query.request.session or ()}
        filtered = label.grade == 2 and filters is not None and item.key not in session_keys
        if filtered and filters is not None and not filters.of(Catalog([item]))[0]:
            yield Message("datasets.label-filtered-out", label=label)

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
            without = "not available to it" if enabled else "not enabled"
            why = "manual and not in the session" if reachable else without
            names = " or ".join(repr(label.item.id) for label in labels)
            message = Message("datasets.unreachable-item", query=query.id, items=names, why=why, hint=self._next_fix())
            yield Fault(message, *contents.place_label(rows[0]))


def repeated_label_fault(label: Label, location: Place, first: Place) -> Fault:
    """The fault of a label that is in the files twice."""
    file = "" if first[0] is None else first[0].name
    return Fault(Message("datasets.label-repeated", label=label, file=file, line=first[1]), *location)


def _repeated(keys: Sequence[ItemKey], subject: str) -> Iterable[str]:
    """A message for each key that is listed again."""
    for key, n in Counter(keys).items():
        yield from [f"{subject} names item {key.id!r} twice"] * (n - 1)


def _split_messages(query: DatasetQuery, split_by: dict[tuple[str, str], tuple[str, str]]) -> Iterable[str]:
    if not query.split:
        return  # missing: the reader reports it
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", query.split):
        yield Message("datasets.split-name", query=query.id, got=query.split)
    for noun, name in (("group", query.group), ("conversation", query.request.conversation)):
        if name is not None:
            split, first_query = split_by.setdefault((noun, name), (query.split, query.id))
            if split != query.split:
                about = {"noun": noun, "name": name, "other_query": first_query, "other_split": split}
                yield Message("datasets.group-in-two-splits", query=query.id, split=query.split, **about)


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
            key = "datasets.hidden-without-scope" if required is None else "datasets.hidden-by-scope"
            yield Message(key, noun=noun, actual=actual, required=required)
    yield from _younger(request, item)
    time = None if request.time is None else instant(request.time)
    if item.until is not None and (time is None or time >= instant(item.until)):
        yield Message("datasets.hidden-ended", until=item.until, time=request.time or "now")


def _younger(request: Request, item: Item) -> Iterator[str]:
    """Says that an item was not there yet when the request was made."""
    if None not in (request.time, item.created) and instant(str(item.created)) > instant(str(request.time)):
        yield Message("datasets.hidden-younger", created=item.created, time=request.time)
