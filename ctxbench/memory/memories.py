"""Memories, events, their checks, and the rows that they are imported from."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from itertools import islice, product
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from ctxbench.catalogs.agent_file import other_kind
from ctxbench.io.errors import (
    Fault,
    InputError,
    Message,
    ParameterError,
    UnknownNameError,
    check_choice,
    merge_equal_faults,
    number_within,
    raise_faults,
    suggest,
)
from ctxbench.io.rows import Row, in_utc, jsonl_rows, read_text_value
from ctxbench.model.items import ITEM_TYPES, Catalog, Item, ItemKey, Link

LONGEST = 1_000_000  # characters of a content
DEEPEST = 64  # levels of metadata, itself the first
_log = logging.getLogger(__name__)

Forget: TypeAlias = Callable[[Sequence[str]], None]
Progress: TypeAlias = Callable[[int, int], None]
Taken: TypeAlias = Callable[[str, Sequence[str]], Collection[str]]
"""From a workspace and ids to the existing ids; raises a `ParameterError` for an unknown workspace."""

STORED = ("memory", "file", "message")
_FACTS = ("workspace", "user", "kind", "conversation", "created", "until", "confidence", "metadata")  # of items, too
_SUGGESTED = 1_000  # ids among which a suggestion is searched
CHANGEABLE = ("content", "kind", "confidence", "conversation", "user", "metadata")  # by a later version
# Control characters and lone surrogates, which SQLite, prompts or terminals change.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_UNFIT_NAME = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A stored memory, file or message.

    The store checks it on insertion, so that the faults of many memories are reported at once.

    Attributes:
        id: unique in its workspace, and not blank: the path of a file. Without "@", except for files.
        workspace: the workspace that it belongs to; others do not see it.
        content: not blank, at most 1,000,000 characters, no control characters except tabs and line ends.
        type: `memory`, `file` or `message`; cannot change.
        kind: the kind of memory, such as "fact" or "decision"; the content type of a file, the role of a message.
        confidence: how certain it is, 0 to 1.
        created: when this version began, ISO 8601, by default in UTC. None = when it is inserted.
        conversation: the conversation that it comes from.
        user: the user who sees it; None = all users of the workspace.
        metadata: other data, as JSON; never searched.
        version: from 1; set by the store.
        until: when a later version replaced it, None = it is current; set by the store.
    """

    id: str
    workspace: str
    content: str
    type: str = "memory"
    kind: str = "note"
    confidence: float = 1.0
    created: str | None = None
    conversation: str | None = None
    user: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    until: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Relationship:
    """A typed relationship between two memories of a workspace, by their ids."""

    workspace: str
    source: str
    target: str
    type: str


def checked_name(noun: str, name: object) -> str:
    """Check that a text can be a name, and return it.

    Raises:
        ParameterError: it is blank, not a text, or has control characters or lone surrogates.
    """
    if not isinstance(name, str) or not name.strip():
        raise ParameterError(f"{noun} must be a text that is not blank, got {name!r:.60}")
    if match := _UNFIT_NAME.search(name):
        kind = "half" if _is_half(match[0]) else "control"
        raise ParameterError(f"{noun} must not have {kind} characters, got {match[0]!r} in {name!r:.60}")
    return name


def _is_half(character: str) -> bool:
    """Whether a character is a lone surrogate."""
    return "\ud800" <= character <= "\udfff"


def checked(memory: Memory, faults: list[str]) -> Memory:
    """Check a memory, and return it in its stored form: `created` in UTC, `metadata` as JSON has it.

    Args:
        memory: as passed by the caller.
        faults: faults are added here; then the returned memory is invalid.
    """
    fields: dict[str, Any] = {}
    values = _values(memory)
    for (name, read), value in zip(_READ.items(), values, strict=True):
        try:
            fields[name] = read(name, value)
        except ParameterError as error:
            faults.append(str(error))
    if memory.type != "file" and "@" in str(memory.id):
        faults.append(Message("memory.id-with-at"))
    if (memory.version, memory.until) != (1, None):
        faults.append(Message("memory.version-set"))
    as_kept = (*fields.values(),) == values and (type(memory.confidence), type(memory.metadata)) == (float, dict)
    return memory if faults or as_kept else Memory(**fields)


def name_if_any(name: str, value: object) -> str | None:
    """Check a name that may be None, and return it."""
    return None if value is None else checked_name(name, value)


def _content(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ParameterError(f"{name} must be a text that is not blank, got {value!r:.60}")
    if len(value) > LONGEST:
        raise ParameterError(f"{name} must have at most {LONGEST:,} characters, got {len(value):,}; store it in parts")
    if match := _UNFIT.search(value):
        kind = "half characters" if _is_half(match[0]) else "control characters"
        raise ParameterError(
            f"{name} must not have {kind}, got {match[0]!r} at character {match.start() + 1:,}; remove it"
        )
    return value


def _type(name: str, value: Any) -> str:
    check_choice(name, value, STORED)
    return str(value)


def time_named(name: str, text: object) -> str:
    """A time in UTC; the `ParameterError` of a wrong one has its name."""
    if text is not None and not isinstance(text, str):
        raise ParameterError(f"{name} must be a text in ISO 8601, got {text!r:.60}")
    try:
        return in_utc(text)
    except ParameterError as error:
        raise ParameterError(f"{name} {error}") from None


def checked_metadata(name: str, value: object) -> dict[str, Any]:
    """A copy of a mapping with JSON types; a `ParameterError` if it is not JSON, or nests too deep."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ParameterError(f"{name} must be a mapping from texts, got {value!r:.60}")
    if not value or all(map(_is_plain, value.values())):
        return dict(value)
    if _too_deep(value):  # readers and writers of JSON are recursive
        raise ParameterError(f"{name} must have at most {DEEPEST} levels; put deeper ones into a text")
    try:
        return dict(json.loads(_JSON.encode(dict(value))))
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(f"{name} must be JSON: {error}") from None


def stored_metadata(text: str, id_: str) -> dict[str, Any]:
    """The metadata of a stored memory; empty, with a warning, if it has too many levels."""
    if text.count("[") + text.count("{") > DEEPEST:
        with suppress(RecursionError):
            value: dict[str, Any] = json.loads(text)
            if not _too_deep(value):
                return value
        _log.warning(Message("memory.deep-metadata", name=id_, depth=DEEPEST))
        return {}
    return dict(json.loads(text))


def _too_deep(value: object) -> bool:
    """Whether mappings and lists have more than `DEEPEST` levels, as one that contains itself does."""
    level: list[object] = [value]
    for _ in range(DEEPEST):
        level = list({id(inner): inner for outer in level for inner in _inside(outer)}.values())
        if not level:
            return False
    return any(isinstance(value, Mapping | list | tuple) for value in level)


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _is_plain(value: object) -> bool:
    """Whether a value is a scalar that JSON can represent."""
    return type(value) in (str, bool, type(None)) or (type(value) is int and -_LONG < value < _LONG)


_JSON = json.JSONEncoder(allow_nan=False)  # `json.dumps` would make one for each memory
_LONG = 2**63
_READ: Mapping[str, Callable[[str, Any], Any]] = (  # from the name and value of a field to its stored value
    {"id": checked_name, "workspace": checked_name, "type": _type, "kind": checked_name}
    | {"conversation": name_if_any, "user": name_if_any}
    | {"content": _content, "confidence": lambda name, value: number_within(name, value, 0, 1)}
    | {"created": time_named, "metadata": checked_metadata}
)
_values = attrgetter(*_READ)


def accepted(memories: Iterable[Memory], existing: Taken) -> list[Memory]:
    """Check memories, and return them in their stored form.

    Raises:
        InputError: memories are wrong: all faults, each with the number of its memory, from 1.
    """
    rows, faults = _check_all(memories, existing)
    named = [
        Fault(Message("memory.memory-fault", number=number, name=rows[number - 1].id, fault=fault))
        for number, fault in faults
    ]
    raise_faults(named, subject="memories to insert (none stored)")
    return rows


def accepted_one(memory: Memory, existing: Taken) -> Memory:
    """Check one memory, and return it in its stored form; the `ParameterError` names all faults."""
    rows, faults = _check_all([memory], existing)
    if faults:
        raise ParameterError(f"memory {memory.id!r:.60}: {'; '.join(message for _, message in faults)}")
    return rows[0]


def _check_all(memories: Iterable[Memory], existing: Taken) -> tuple[list[Memory], list[tuple[int, str]]]:
    """The memories in their stored form, and their faults with the numbers of memories, in order."""
    rows, faults = [], []
    first: dict[str, dict[str, int]] = {}  # by workspace, by id: the number of the first such memory
    for number, memory in enumerate(memories, start=1):
        problems: list[str] = []
        rows.append(checked(memory, problems))
        if not problems:
            before = first.setdefault(memory.workspace, {}).setdefault(memory.id, number)
            if before != number:
                problems.append(Message("memory.id-twice", number=before))
        faults += [(number, fault) for fault in problems]
    for workspace, numbers in first.items():
        try:
            faults += [
                (numbers[id_], Message("memory.id-exists", workspace=workspace))
                for id_ in existing(workspace, list(numbers))
            ]
        except ParameterError as error:
            faults.append((min(numbers.values()), str(error)))
    return rows, sorted(faults)


def successor(current: Memory, at: str | None, changes: Mapping[str, Any]) -> tuple[Memory, Memory]:
    """The current version of a memory with its end, and the version that replaces it.

    Raises:
        ParameterError: no or an unknown field is changed, a value is wrong, or the time is before the current version.
    """
    where = f"memory {current.id!r}: "
    for name in changes:
        if name not in CHANGEABLE:
            raise ParameterError(f"{where}a version cannot change {name!r}{suggest(name, CHANGEABLE)}")
    if not changes:
        raise ParameterError(f"{where}an update must change something: {', '.join(CHANGEABLE)}")
    moment = time_named(f"{where}at", at)
    begun = str(current.created)
    if moment < begun:
        raise ParameterError(
            f"{where}at ({moment}) is before version {current.version} began ({begun}); choose a later time"
        )
    faults: list[str] = []
    new = checked(replace(current, **changes, created=moment, version=1, until=None), faults)
    if faults:
        raise ParameterError(where + "; ".join(faults))
    return replace(current, until=moment), replace(new, version=current.version + 1)


def version_at(versions: Sequence[Memory], at: str | None) -> Memory:
    """The current version of a memory, or the version at a time; `versions` are in order.

    Raises:
        ParameterError: it is not a time, or before the first version.
    """
    if at is None:
        return versions[-1]
    first = versions[0]
    moment = time_named("at", at)
    created = [version for version in versions if str(version.created) <= moment]
    if not created:
        raise ParameterError(f"memory {first.id!r} did not exist at {moment}; it was created at {first.created}")
    return created[-1]


def check_relationship(relationship: Relationship) -> None:
    """Raise a `ParameterError` for a relationship of a memory to itself, or without a type."""
    checked_name("the type of a relationship", relationship.type)
    if relationship.source == relationship.target:
        raise ParameterError(
            f"a relationship must be between different memories, got {relationship.type!r} of {relationship.source!r} "
            "to itself"
        )


def unknown(noun: str, name: object, candidates: Iterable[str] = ()) -> ParameterError:
    """The error for an unknown name, with a suggestion from the first 1,000 candidates."""
    names = tuple(islice(candidates, _SUGGESTED))
    return ParameterError(f"{noun} {name!r:.60}{suggest(str(name), names) if names else ''}")


def item_key(memory: Memory) -> ItemKey:
    """The key of the item of a version: `<type>:<id>@<version>`."""
    return ItemKey(memory.type, None, f"{memory.id}@{memory.version}")


def memory_catalog(
    memories: Iterable[Memory], relationships: Iterable[Relationship] = (), *, before: Catalog | None = None
) -> Catalog:
    """The catalog of a workspace: every version an item `<type>:<id>@<version>`, with links to those of its time.

    Two related memories are linked in all versions that existed at the same time.

    Args:
        memories: versions in order of addition.
        relationships: between them.
        before: a catalog to extend; since then only ends of versions may have changed.
    """
    rows = tuple(memories)
    versions: dict[str, list[Memory]] = defaultdict(list)
    for row in rows:
        versions[row.id].append(row)
    links: dict[tuple[str, int], list[Link]] = defaultdict(list)
    for link in relationships:
        for source, target in product(versions[link.source], versions[link.target]):
            if max(str(source.created), str(target.created)) < min(
                source.until or "~", target.until or "~"
            ):  # "~": no end
                links[source.id, source.version].append(Link(link.type, item_key(target)))
    items = [
        Item(
            type=row.type,
            name=item_key(row).name,
            title=row.id.removeprefix(user_prefix(row.user)) if row.type == "file" else "",
            text=row.content,
            links=tuple(links[row.id, row.version]),
            **{name: getattr(row, name) for name in _FACTS},
        )
        for row in rows
    ]
    if before is None:
        return Catalog(items)
    succeeded = (row for row in rows if row.version > 1)
    ends = ((before.find(item_key(replace(row, version=row.version - 1))), str(row.created)) for row in succeeded)
    return before.extended(items, ends={position: end for position, end in ends if position is not None})


def user_prefix(user: str | None) -> str:
    """The beginning of the ids of items that a user sent, so that several users may have the same path."""
    return "" if user is None else f"~{quote(user, safe='')}/"


ASKED = "asked"
"""Key of the metadata of an event under which a service stores the request: `context` (its id), `text`, `time`, and
the `item` of a feedback, or all `items` (ids) of a `sufficient`."""
SUFFICIENT = "sufficient"
_IMPORTED_EVENTS = ("reference", "unreference", "access", "feedback")
EVENTS = (*_IMPORTED_EVENTS, SUFFICIENT)
_JUDGED = ("feedback", SUFFICIENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An action of a user on a file, message, memory or context. A store checks it when it is recorded.

    Attributes:
        kind: `reference` (a conversation refers to the item from now on), `unreference` (it no longer does), `access`
            (the item was opened), `feedback` (the item was useful in an answer, or not) or `sufficient` (a context was
            enough for an answer, or not).
        workspace, id: of the file, message, memory or context.
        user: the user; None = no particular user. A reference without a user is valid for all users.
        conversation: the conversation; required for references.
        at: when, ISO 8601, by default in UTC; not before the item was created. None = when it is recorded.
        useful: whether the item was useful, or the context sufficient; required for these two kinds only.
        metadata: other data, as JSON; see `ASKED`, which a `sufficient` needs.
    """

    kind: str
    workspace: str
    id: str
    user: str | None = None
    conversation: str | None = None
    at: str | None = None
    useful: bool | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def checked_event(event: Event) -> Event:
    """Check an event, and return it in its stored form: `at` in UTC, `metadata` as JSON has it.

    Raises:
        ParameterError: a field is missing or wrong.
    """
    check_choice("the kind of an event", event.kind, EVENTS)
    where = f"{event.kind} of {event.id!r:.60}: "
    checked_name("workspace", event.workspace)
    checked_name("id", event.id)
    name_if_any("user", event.user)
    name_if_any("conversation", event.conversation)
    if event.conversation is None and event.kind in ("reference", "unreference"):
        raise ParameterError(f"{where}conversation is missing")
    if event.kind in _JUDGED and not isinstance(event.useful, bool):
        raise ParameterError(f"{where}useful must be true or false, got {event.useful!r:.60}")
    if event.kind not in _JUDGED and event.useful is not None:
        raise ParameterError(f"{where}useful is for {', '.join(_JUDGED)} only; remove it")
    metadata = checked_metadata(f"{where}metadata", event.metadata)
    if (ASKED in metadata or event.kind == SUFFICIENT) and not _is_asked(event, metadata.get(ASKED)):
        if event.kind == SUFFICIENT:
            raise ParameterError(
                f"{where}metadata: expected {ASKED!r} with context (its id), text, time, and items (ids)"
            )
        raise ParameterError(f"{where}metadata: {ASKED!r} is reserved for the service; choose another name")
    checked = replace(event, at=time_named(f"{where}at", event.at), metadata=metadata)
    things_of(checked)
    return checked


def _is_asked(event: Event, record: Any) -> bool:
    """Whether a value is a valid `ASKED` record for an event of this kind."""
    if not isinstance(record, dict) or not all(
        isinstance(record.get(name), str) for name in ("context", "text", "time")
    ):
        return False
    if event.kind != SUFFICIENT:
        return isinstance(record.get("item"), str)
    items = record.get("items")
    return record["context"] == event.id and isinstance(items, list) and all(isinstance(item, str) for item in items)


def things_of(event: Event) -> tuple[str, ...]:
    """The ids of the files, messages and memories of an event: one, or those of a context.

    An event is deleted with any of them.

    Raises:
        ParameterError: an item of a context has an invalid id.
    """
    if event.kind != SUFFICIENT:
        return (event.id,)
    keys = [ItemKey.parse(id_) for id_ in event.metadata[ASKED]["items"]]
    return tuple(dict.fromkeys(key.name.rpartition("@")[0] for key in keys))


def referred_to(events: Iterable[Event]) -> list[str]:
    """The ids that a conversation refers to, from its references; latest first."""
    standing: dict[str, None] = {}
    for event in reversed(list(events)):
        if event.kind == "reference":
            standing.setdefault(event.id)
        elif event.kind == "unreference":
            standing.pop(event.id, None)
    return list(standing)


# ---- rows of files and of requests to a service

version_of = attrgetter("created", *CHANGEABLE)
"""What tells versions of a memory apart."""
_IDS = {f"{name}_id": name for name in ("conversation", "user", "workspace")}  # as in the memory document
_FIELDS = (
    {name: name for name in ("id", *CHANGEABLE, "created", "until", "workspace", "relationships", "links", "enabled")}
    | _IDS
    | {"_id": "id", "text": "content", "created_at": "created"}  # the first two of a corpus.jsonl
    | {"version": "version"}  # not read: versions are counted by their times
)
_FIELDS_OF_FORM = {  # what `type` is: the kind of a memory, as in the memory document, or the type of an item
    False: _FIELDS | {"type": "type"},
    True: _FIELDS | {"type": "kind"},
}
_EVENT_FIELDS = {name: name for name in ("event", "id", "user", "conversation", "workspace", "at", "useful")}
_EVENT_FIELDS |= _IDS | {"_id": "id"}
_OF_ITEMS = {spec.name for spec in fields(Item)} - _FIELDS.keys()  # fields of a corpus.jsonl that memories lack
_LINK = '{"type": ..., "target": memory id}'


@dataclass(frozen=True)
class MemoryRow:
    """A row: the memory in its stored form, its end and links; `dated` if the row has a creation time."""

    row: Row
    memory: Memory
    dated: bool
    until: str | None
    links: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """The id as the row has it, without the prefix of a user."""
        return str(self.row.data.get("id", self.memory.id))

    def is_among(self, versions: Sequence[tuple[Any, ...]], *, last: bool) -> bool:
        """Whether a version equals the row; for a row about the present, whether the current version does.

        A row is about the present if it has no time, or is the last row of its memory and has no end.
        """
        version = version_of(self.memory)
        return (
            version in versions
            if self.dated and (self.until or not last)
            else any(version[1:] == v[1:] and (not self.dated or version[0] <= v[0]) for v in versions[-1:])
        )

    def begins(self, versions: Sequence[tuple[Any, ...]]) -> str | None:
        """The time from which the row is the current version; None = now, as when an edit is undone."""
        version = version_of(self.memory)
        return None if not self.dated or (version in versions and version[0] <= versions[-1][0]) else version[0]


@dataclass(frozen=True)
class StoreRows:
    """The rows of a workspace.

    Attributes:
        source: where they are from, for errors.
        workspace: the workspace.
        rows: memories, files and messages in order of time.
        events: events in the order of the rows.
        elsewhere: the numbers of rows of other workspaces.
        faults: where faults of the rows go.
        unit: what the number of a row counts.
    """

    source: str
    workspace: str
    rows: Sequence[MemoryRow]
    events: Sequence[tuple[Row, Event]]
    elsewhere: Mapping[str, int]
    faults: list[Fault]
    unit: str = "line"


def read_file(path: Path, workspace: str, *, memories: bool) -> StoreRows:
    """Read a file of JSON lines; see `read_rows`.

    Raises:
        InputError: rows are wrong: all faults that can be found without the store.
        ParameterError: there is no row.
        UnknownNameError: no row is of the workspace.
    """
    faults: list[Fault] = []
    rows = list(jsonl_rows(path, faults))
    if not any("content" in row.data for row in rows) and (kind := other_kind(path)):
        raise InputError([Fault(f"nothing was imported: {kind}; memories have an id and content", path)])
    if memories and (other_rows := [row for row in rows if _is_other(row.data)]):
        raise InputError([Fault(Message("memory.other-rows", n=len(other_rows)), path, other_rows[0].line)])
    for row in rows:
        if "event" in row.data and row.data.get("at") is None:
            row.fault(Message("memory.event-time"))
    read = read_rows(rows, faults, f"{path}", workspace, memories=memories)
    if not read.rows and not read.events and read.elsewhere:
        raise UnknownNameError("workspace", workspace, read.elsewhere, where=f": no row of {path} has it")
    if not read.rows and not read.events:
        raise ParameterError(f"{path} has no memory; expected one per line, such as {{'id': ..., 'content': ...}}")
    return read


def read_rows(
    rows: Iterable[Row], faults: list[Fault], source: str, workspace: str, *, memories: bool = False
) -> StoreRows:
    """Read rows of memories, files, messages and events.

    Rows of other workspaces, and rows that end when they begin, are ignored.

    Args:
        rows: the rows.
        faults: their faults.
        source: where they are from.
        workspace: the workspace of rows that name none.
        memories: whether `type` is the kind of a memory; else it is `memory`, `file` or `message`.

    Raises:
        InputError: rows are wrong: all faults that can be found without the store.
    """
    read: list[MemoryRow] = []
    events: list[tuple[Row, Event]] = []
    elsewhere: Counter[str] = Counter()
    for row in sorted(rows, key=lambda row: "event" in row.data):  # an event without a time is after all items
        names = _EVENT_FIELDS if "event" in row.data else _FIELDS_OF_FORM[memories]
        fields_ = replace(row, data=_without_item_fields(row.data))
        before = len(faults)
        fields_.refuse_unknown(tuple(names))
        stated = [name for name, value in fields_.data.items() if name in names and value is not None]
        values = {names[name]: row.data[name] for name in stated}
        if twice := [name for name in stated if [names[stated_name] for stated_name in stated].count(names[name]) > 1]:
            row.fault(Message("memory.fields-alike", fields=" and ".join(map(repr, twice))))
        if (row_workspace := values.get("workspace", workspace)) != workspace:
            elsewhere[str(row_workspace)] += 1
        elif len(faults) == before and names is _EVENT_FIELDS:
            with faults_of(row):
                events.append((row, _read_event(row, values, workspace)))
        elif len(faults) == before:
            memory_row = _memory_row(row, {"type": "memory", **values} if memories else values, names, workspace)
            if len(faults) == before and memory_row.until != memory_row.memory.created:
                read.append(memory_row)
    read.sort(key=attrgetter("memory.created"))
    faults.sort(key=attrgetter("line"))
    raise_faults(merge_equal_faults(faults), subject=subject_of(source))
    return StoreRows(source, workspace, read, events, elsewhere, faults)


def subject_of(source: str) -> str:
    """The head of the faults of rows."""
    return f"{source}: nothing was imported"


def _is_other(data: Mapping[str, Any]) -> bool:
    """Whether a row is of a file, a message or an event."""
    of_item = str(data.get("_id", "")).partition(":")[0]
    return "event" in data or bool({of_item, data.get("type") if "_id" not in data else ""} & {"file", "message"})


def check_order(read: StoreRows) -> None:
    """Add a fault for rows of one memory that differ but have no times, or the same time."""
    first: dict[tuple[str, str | None], MemoryRow] = {}
    for row in read.rows:
        before = first.setdefault((row.memory.id, row.memory.created if row.dated else None), row)
        if version_of(before.memory)[1:] != version_of(row.memory)[1:]:
            row.row.fault(
                Message(
                    "memory.row-conflict",
                    unit=read.unit,
                    number=before.row.line,
                    name=row.name,
                    when=" at the same time" * row.dated,
                    field="created_at" if "created_at" in row.row.data else "created",
                )
            )


def _memory_row(row: Row, values: Mapping[str, Any], names: Mapping[str, str], workspace: str) -> MemoryRow:
    """Read one row; adds to its faults."""
    stated = {name: values[name] for name in (*CHANGEABLE, "created") if name in values}
    problems: list[str] = []
    id_, until, type_ = values.get("id"), values.get("until"), values.get("type")
    try:
        if "_id" in row.data and isinstance(id_, str):
            item_type, id_ = _stored_item(id_, row.data.get("title"))
            type_ = type_ or item_type
        until = until and time_named("until", str(until))
    except ParameterError as error:
        type_ = type_ or STORED[0]  # one fault is enough
        problems.append(str(error))
    memory = checked(Memory(**{"content": None, **stated, "id": id_, "type": type_, "workspace": workspace}), problems)
    if until and not problems and until < str(memory.created):
        problems.append(Message("memory.until-before-created", until=until, created=memory.created))
    if values.get("enabled", True) is not True:
        problems.append(Message("memory.not-enabled"))
    field_names = {names[name]: name for name in row.data if name in names}
    for message in problems:
        name, blank, rest = message.partition(" ")
        row.fault(f"{field_names.get(name, name)}{blank}{rest}")  # with the field name of the row
    links = row.read_list("relationships", _link, expected=_LINK)
    links += tuple(
        link for link in row.read_list("links", _link, expected=_LINK) if link[1] != id_
    )  # to another version
    return MemoryRow(row, memory, "created" in values, until, links)


def _read_event(row: Row, values: Mapping[str, Any], workspace: str) -> Event:
    """Read the event of one row; a `ParameterError` if it is wrong."""
    check_choice("event", values.get("event"), _IMPORTED_EVENTS)
    id_: Any = values.get("id")
    if "_id" in row.data and isinstance(id_, str):
        _, id_ = _stored_item(id_)
    about: Any = {name: values[name] for name in ("user", "conversation", "at", "useful") if name in values}
    return checked_event(Event(kind=values["event"], workspace=workspace, id=id_, **about))


def _without_item_fields(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a row; of an item of a corpus.jsonl only those of memories."""
    if "_id" not in data:
        return data
    item = _OF_ITEMS | {"type"} if data.get("type") in ITEM_TYPES else _OF_ITEMS
    return {name: value for name, value in data.items() if name not in item}


def _stored_item(text: str, title: object = None) -> tuple[str, str]:
    """The type and the id of a stored item, from that of a catalog, `memory:<id>@<version>`.

    The title of a file is its path, which tells a version from a path with "@".
    """
    key = ItemKey.parse(text)
    if key.type not in STORED:
        raise ParameterError(Message("memory.item-type", name=text, known=STORED))
    name, _, version = key.name.rpartition("@")
    is_path = key.type == "file" and title == key.name
    return key.type, name if name and version.isdigit() and not is_path else key.name


def _link(entry: Any) -> tuple[str, str]:
    target = entry["target"] if "target" in entry else _stored_item(read_text_value(entry["item"]))[1]
    return read_text_value(entry["type"]), read_text_value(target)


@contextmanager
def faults_of(row: Row) -> Iterator[None]:
    """Turn errors of the store inside it into faults of the row."""
    try:
        yield
    except ParameterError as error:
        row.fault(str(error))
