"""Memories, feedback events, the protocol of stores, and datasets from feedback."""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice, product
from operator import attrgetter
from typing import Any, Protocol, TypeAlias

from ctxbench.datasets.dataset import Dataset, split_of
from ctxbench.datasets.layout import NOT_SUFFICIENT, Exposure
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.io.errors import Fault, Message, ParameterError, check_choice, number_within, raise_faults, suggest
from ctxbench.io.rows import in_utc
from ctxbench.model.items import Catalog, Item, ItemKey, Link
from ctxbench.model.requests import Request

LONGEST = 1_000_000  # characters of a content
DEEPEST = 64  # levels of metadata, itself the first
_log = logging.getLogger(__name__)

Forget: TypeAlias = Callable[[Sequence[str]], None]
Progress: TypeAlias = Callable[[int, int], None]
Taken: TypeAlias = Callable[[str, Sequence[str]], Collection[str]]
"""Which of some ids are taken in a workspace; a `ParameterError` where that is unknown."""

_FACTS = ("workspace", "user", "kind", "conversation", "created", "until", "confidence", "metadata")  # of items, too
_SUGGESTED = 1_000  # ids that are looked through for one that was misspelt
_CHANGEABLE = ("content", "kind", "confidence", "conversation", "user", "metadata")
# What SQLite, a prompt or a terminal would not give back as it came: control characters and half characters.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_UNFIT_NAME = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A stored memory, file or message.

    A store checks it when it is given, so that many can be refused at once.

    Attributes:
        id: unique in its workspace, and not blank: of a file its path. Of what is no file it holds no "@".
        workspace: whose it is; no other one sees it.
        content: not blank, at most 1,000,000 characters, no control characters but tabs and line ends.
        type: `memory`, `file` or `message`; stays what it is.
        kind: what sort of memory, such as "fact" or "decision"; of a file its content type, of a message its role.
        confidence: how sure it is, 0 to 1.
        created: when this version began, ISO 8601; without an offset UTC. None = when it is inserted.
        conversation: where it was said.
        user: whose it is within the workspace; None = everybody's there.
        metadata: anything else, as JSON; never searched.
        version: counted from 1; set by the store.
        until: when a later version took its place, None = it did not; set by the store.
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
    """A typed relationship of one memory to another of its workspace, both by id."""

    workspace: str
    source: str
    target: str
    type: str


def checked_name(noun: str, name: object) -> str:
    """Check that a text can be a name, and return it.

    Raises:
        ParameterError: it is blank, no text, or holds what a line or a database would not give back as it came.
    """
    if not isinstance(name, str) or not name.strip():
        raise ParameterError(f"{noun} must be a text that is not blank, got {name!r:.60}")
    if match := _UNFIT_NAME.search(name):
        kind = "half" if _is_half(match[0]) else "control"
        raise ParameterError(f"{noun} must hold no {kind} characters, got {match[0]!r} in {name!r:.60}")
    return name


def _is_half(character: str) -> bool:
    """Whether it is a lone surrogate, half of a character."""
    return "\ud800" <= character <= "\udfff"


def checked(memory: Memory, faults: list[str]) -> Memory:
    """Check a memory, and return it in its stored form: `created` in UTC, `metadata` as JSON has it.

    Args:
        memory: as it was given.
        faults: where everything goes that is wrong with it; then what is returned is not to be used.
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
    """As `checked_name`, for a value that may be None."""
    return None if value is None else checked_name(name, value)


def _content(name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ParameterError(f"{name} must be a text that is not blank, got {value!r:.60}")
    if len(value) > LONGEST:
        raise ParameterError(f"{name} must have at most {LONGEST:,} characters, got {len(value):,}; store it in parts")
    if match := _UNFIT.search(value):
        kind = "half characters" if _is_half(match[0]) else "control characters"
        raise ParameterError(
            f"{name} must hold no {kind}, got {match[0]!r} at character {match.start() + 1:,}; take it out, or leave "
            "out what is no text"
        )
    return value


def _type(name: str, value: Any) -> str:
    check_choice(name, value, ("memory", "file", "message"))
    return str(value)


def time_named(name: str, text: object) -> str:
    """As `in_utc`, for a value of any type; the `ParameterError` has its name."""
    if text is not None and not isinstance(text, str):
        raise ParameterError(f"{name} must be ISO 8601 as a text, got {text!r:.60}")
    try:
        return in_utc(text)
    except ParameterError as error:
        raise ParameterError(f"{name} {error}") from None


def checked_metadata(name: str, value: object) -> dict[str, Any]:
    """A copy of a mapping in JSON's types; a `ParameterError` if JSON cannot hold it, or it nests too deep."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ParameterError(f"{name} must be a mapping from texts, got {value!r:.60}")
    if not value or all(map(_is_plain, value.values())):
        return dict(value)
    if _too_deep(value):  # what reads or writes JSON goes as deep as it does
        raise ParameterError(f"{name} must nest at most {DEEPEST} deep; put what is deeper into a text")
    try:
        return dict(json.loads(_JSON.encode(dict(value))))
    except (TypeError, ValueError, RecursionError) as error:
        raise ParameterError(f"{name} must be JSON: {error}") from None


def stored_metadata(text: str, id_: str) -> dict[str, Any]:
    """Metadata of a stored memory; empty, with a warning, if it nests deeper than is accepted today."""
    if text.count("[") + text.count("{") > DEEPEST:
        with suppress(RecursionError):
            value: dict[str, Any] = json.loads(text)
            if not _too_deep(value):
                return value
        _log.warning(Message("memory.deep-metadata", name=id_, depth=DEEPEST))
        return {}
    return dict(json.loads(text))


def _too_deep(value: object) -> bool:
    """Whether mappings and lists nest more than `DEEPEST` deep, as one that contains itself does."""
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
    """Whether JSON can hold a value: no number that is too long to be written."""
    return type(value) in (str, bool, type(None)) or (type(value) is int and -_LONG < value < _LONG)


_JSON = json.JSONEncoder(allow_nan=False)  # `json.dumps` would make one for each memory
_LONG = 2**63
_READ: Mapping[str, Callable[[str, Any], Any]] = (  # what is kept of each field, given its name and value
    {"id": checked_name, "workspace": checked_name, "type": _type, "kind": checked_name}
    | {"conversation": name_if_any, "user": name_if_any}
    | {"content": _content, "confidence": lambda name, value: number_within(name, value, 0, 1)}
    | {"created": time_named, "metadata": checked_metadata}
)
_values = attrgetter(*_READ)


def accepted(memories: Iterable[Memory], existing: Taken) -> list[Memory]:
    """Check memories, and return them in their stored form.

    Raises:
        InputError: some are refused; all faults are listed, each with the number of its memory, counted from 1.
    """
    rows, faults = _looked_at(memories, existing)
    named = [
        Fault(Message("memory.memory-fault", number=number, name=rows[number - 1].id, fault=fault))
        for number, fault in faults
    ]
    raise_faults(named, subject="memories to insert (none stored)")
    return rows


def accepted_one(memory: Memory, existing: Taken) -> Memory:
    """As `accepted`, for one memory; the `ParameterError` names all its faults."""
    rows, faults = _looked_at([memory], existing)
    if faults:
        raise ParameterError(f"memory {memory.id!r:.60}: {'; '.join(message for _, message in faults)}")
    return rows[0]


def _looked_at(memories: Iterable[Memory], existing: Taken) -> tuple[list[Memory], list[tuple[int, str]]]:
    """The memories in their stored form, and their faults as (number from 1, fault), in order."""
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
            for id_ in existing(workspace, list(numbers)):
                faults.append((numbers[id_], Message("memory.id-exists", workspace=workspace)))
        except ParameterError as error:
            faults.append((min(numbers.values()), str(error)))
    return rows, sorted(faults)


def successor(current: Memory, at: str | None, changes: Mapping[str, Any]) -> tuple[Memory, Memory]:
    """The current version of a memory with its end, and the version that replaces it.

    Raises:
        ParameterError: nothing is to be changed, or not to this, or before the current version began.
    """
    where = f"memory {current.id!r}: "
    for name in changes:
        if name not in _CHANGEABLE:
            raise ParameterError(f"{where}a version cannot change {name!r}{suggest(name, _CHANGEABLE)}")
    if not changes:
        raise ParameterError(f"{where}an update must change something: {', '.join(_CHANGEABLE)}")
    moment = time_named(f"{where}at", at)
    begun = str(current.created)
    if moment < begun:
        raise ParameterError(
            f"{where}at ({moment}) is before its version {current.version} was created ({begun}); a later version "
            "begins after the one before"
        )
    faults: list[str] = []
    new = checked(replace(current, **changes, created=moment, version=1, until=None), faults)
    if faults:
        raise ParameterError(where + "; ".join(faults))
    return replace(current, until=moment), replace(new, version=current.version + 1)


def version_at(versions: Sequence[Memory], at: str | None) -> Memory:
    """The version that is current, or was at a time, of a memory's versions, which are in order.

    Raises:
        ParameterError: it is no time, or before the first version began.
    """
    if at is None:
        return versions[-1]
    first = versions[0]
    moment = time_named("at", at)
    created = [version for version in versions if str(version.created) <= moment]
    if not created:
        raise ParameterError(f"memory {first.id!r} was not there at {moment}; it was created at {first.created}")
    return created[-1]


def check_relationship(relationship: Relationship) -> None:
    """Raise a `ParameterError` for a relationship of a memory to itself, or without a type."""
    checked_name("the type of a relationship", relationship.type)
    if relationship.source == relationship.target:
        raise ParameterError(
            f"a relationship leads from one memory to another one, got {relationship.source!r} twice "
            f"({relationship.type!r})"
        )


def unknown(noun: str, name: object, candidates: Iterable[str] = ()) -> ParameterError:
    """The error for an unknown name; suggests one of the first 1,000 names of `known`."""
    names = tuple(islice(candidates, _SUGGESTED))
    return ParameterError(f"{noun} {name!r:.60}{suggest(str(name), names) if names else ''}")


def item_key(memory: Memory) -> ItemKey:
    """The key of a version's item, `<type>:<id>@<version>`; the version follows the last "@"."""
    return ItemKey(memory.type, None, f"{memory.id}@{memory.version}")


def memory_catalog(
    memories: Iterable[Memory], relationships: Iterable[Relationship] = (), *, before: Catalog | None = None
) -> Catalog:
    """The catalog of a workspace: every version an item `<type>:<id>@<version>`, with links to those of its time.

    Two related memories are linked in every two versions that were there together, so that as of any time those are
    that were there then.

    Args:
        memories: versions in the order in which they were added.
        relationships: between them.
        before: a catalog to extend; nothing but the ends of succeeded versions may have changed since.
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
            title=row.id if row.type == "file" else "",
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


ASKED = "asked"
"""Key of the metadata where a service keeps what was asked: `context` (its id), `text`, `time`, and of a feedback
`item`, of what is `sufficient` all `items` (ids)."""
SUFFICIENT = "sufficient"
EVENTS = ("reference", "unreference", "access", "feedback", SUFFICIENT)
_JUDGED = ("feedback", SUFFICIENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An action of a user on a file, message, memory or context. A store checks it when it is recorded.

    Attributes:
        kind: `reference` (a conversation refers to it from now on), `unreference` (and from now on no more), `access`
            (it was opened), `feedback` (it was useful in an answer, or was not) or `sufficient` (a whole context was
            enough for an answer, or lacked something).
        workspace, id: of what it was done with: of a file, message or memory, or of the context.
        user: who did it; None = nobody in particular. Opened and useful it was to this user alone; a reference of
            nobody's holds for everybody in the conversation.
        conversation: where; references need one.
        at: when, ISO 8601, without an offset UTC; not before it was there. None = when it is recorded.
        useful: whether it was useful, or enough: of these two kinds, which need it, and of no other.
        metadata: anything else, as JSON; see `ASKED`, which a `sufficient` needs.
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
        ParameterError: it is none.
    """
    check_choice("the kind of an event", event.kind, EVENTS)
    where = f"{event.kind} of {event.id!r:.60}: "
    checked_name("workspace", event.workspace)
    checked_name("id", event.id)
    name_if_any("user", event.user)
    name_if_any("conversation", event.conversation)
    if event.conversation is None and event.kind in ("reference", "unreference"):
        raise ParameterError(f"{where}say in which conversation")
    if event.kind in _JUDGED and not isinstance(event.useful, bool):
        raise ParameterError(f"{where}useful must be true or false, got {event.useful!r:.60}")
    if event.kind not in _JUDGED and event.useful is not None:
        raise ParameterError(f"{where}useful belongs to {', '.join(_JUDGED)}; leave it out")
    metadata = checked_metadata(f"{where}metadata", event.metadata)
    if (ASKED in metadata or event.kind == SUFFICIENT) and not _is_asked(event, metadata.get(ASKED)):
        if event.kind == SUFFICIENT:
            raise ParameterError(
                f"{where}metadata: expected {ASKED!r} with context (its id), text, time, and items, a list of ids of "
                "items"
            )
        raise ParameterError(f"{where}metadata: {ASKED!r} is what a service keeps there; take another name")
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
    """The ids of the files, messages and memories that an event is about: one, or those of a context.

    An event goes with any of them that is deleted.

    Raises:
        ParameterError: an item of a context has no id that a catalog of a store could have.
    """
    if event.kind != SUFFICIENT:
        return (event.id,)
    keys = [ItemKey.parse(id_) for id_ in event.metadata[ASKED]["items"]]
    return tuple(dict.fromkeys(key.name.rpartition("@")[0] for key in keys))


def referred_to(events: Iterable[Event]) -> list[str]:
    """The ids that a conversation refers to after references, in the order of these; the latest come first."""
    standing: dict[str, None] = {}
    for event in reversed(list(events)):
        if event.kind == "reference":
            standing.setdefault(event.id)
        elif event.kind == "unreference":
            standing.pop(event.id, None)
    return list(standing)


class MemoryStore(Protocol):
    """Stores memories by workspace. Every call names its workspace, and sees nothing of the others.

    May be used from several threads. What cannot be read or written is a `StorageError`, what is asked wrongly a
    `ParameterError` (an unknown workspace or memory, too, with the closest); either way nothing has changed.
    """

    def create_workspace(self, name: str) -> None:
        """Create a workspace; does nothing if it exists."""

    def workspaces(self) -> tuple[str, ...]:
        """The names of all workspaces, in the order of their creation."""

    def insert(self, memory: Memory) -> Memory:
        """Add a memory whose id is new in its workspace; returns the stored memory."""

    def insert_many(self, memories: Iterable[Memory], *, progress: Progress | None = None) -> int:
        """Add many memories, a thousand per transaction; returns how many.

        All are checked before the first is written. Where a later transaction fails, those before it stay.

        Args:
            memories: of one workspace or several, with ids that are new there.
            progress: called with (memories stored, memories to store) after each transaction.

        Raises:
            InputError: some are refused; all faults are listed, each with the number of its memory.
        """

    def update(self, workspace: str, id: str, *, at: str | None = None, **changes: Any) -> Memory:  # noqa: A002
        """Add a version with some fields changed, which replaces the current one; returns it.

        Args:
            workspace, id: of the memory.
            at: when the new version begins and the current one ends, not before that began; None = now.
            changes: `content`, `kind`, `confidence`, `conversation`, `user`, `metadata`; at least one.
        """

    def delete(self, workspace: str, id: str, *ids: str) -> None:  # noqa: A002
        """Delete memories, all versions, with their relationships, for good: no file holds them afterwards."""

    def get(self, workspace: str, id: str, *, at: str | None = None) -> Memory:  # noqa: A002
        """The current version, or the one that was current at a time."""

    def relate(self, relationship: Relationship) -> None:
        """Add a relationship between two existing memories; does nothing if it exists.

        Several may lead in a circle; none leads from a memory to itself.
        """

    def unrelate(self, relationship: Relationship) -> None:
        """Remove an existing relationship."""

    def relationships(self, workspace: str, id: str) -> tuple[Relationship, ...]:  # noqa: A002
        """The relationships from a memory and to it, in the order of their addition."""

    def catalog(self, workspace: str) -> Catalog:
        """Every version as an item `<type>:<id>@<version>`, in the order in which they were added.

        A file's title is its id, the path. The catalog is the same object until something but events is written there.
        After inserts, and updates of what has no relationships, it extends the one before, so that indexes are carried
        on.
        """

    def record(self, event: Event, *events: Event) -> None:
        """Record events; a `ParameterError` if an event is about a memory that its user did not see then."""

    def events(self, workspace: str) -> tuple[Event, ...]:
        """All events of a workspace in order of time, then as they were recorded."""

    def request(
        self,
        workspace: str,
        text: str,
        *,
        user: str | None = None,
        conversation: str | None = None,
        time: str | None = None,
        id: str = "request",  # noqa: A002
    ) -> Request:
        """A request over `catalog`, with the references and uses of its user and conversation up to its time.

        Args:
            workspace, text, user, conversation, id: of the request.
            time: what happened later does not count; None = now.

        Returns:
            One that names only what it sees, in the version of its time: `explicit` what the conversation refers to,
            `recent` the `RECENT` files that the user opened last, `uses` how often what was useful to the user. An
            unknown conversation or user has none.
        """

    def revision(self, workspace: str) -> int:
        """A number that grows with every write to a workspace."""

    def close(self) -> None:
        """Close the store; the next use opens it again."""


def feedback_dataset(store: MemoryStore, workspace: str, *, name: str) -> tuple[Dataset, tuple[Exposure, ...]]:
    """Make a dataset of the feedback that names its context: a query a context, over all that the workspace holds.

    What was useful is required (2), as what a log shows to have been called is, and what was not is irrelevant (0);
    more may be required. That a context was sufficient says that nothing else was required than what it had: a query of
    which each item was judged, too, is labelled in full, and needs nothing where none was useful. As long as some item
    was not judged nobody has said which were needed, and what was not offered gets no label: it may still be helpful,
    or do as well. A query whose context lacked something stays labelled in part. A query is asked as of its time, with
    the references and uses of then, and before anything was said of its context: the service rounds times up, and a
    label must not count as a use. Queries of one thread, or of one user where there is none, are one group.

    Args:
        store: where the feedback is.
        workspace: of it.
        name: of the dataset.

    Returns:
        The dataset, and what was offered in each context that was judged as a whole, with `NOT_SUFFICIENT` where it
        lacked something, by which `ctxbench data label` knows what is likely to be missed.

    Raises:
        ParameterError: there is no such feedback, or no such workspace.
    """
    by_context: dict[str, list[Event]] = {}  # by context
    events = [event for event in store.events(workspace) if event.kind in ("feedback", SUFFICIENT)]
    for event in events:
        if served := event.metadata.get(ASKED):
            by_context.setdefault(served["context"], []).append(event)
    if not by_context:
        feedback = f"{len(events)} judgements without a context" if events else "no feedback"
        raise ParameterError(f"workspace {workspace!r} has {feedback}; feedback that names `contextId` makes labels")
    catalog = store.catalog(workspace)
    queries, labels, exposures = [], [], []
    for context, of in by_context.items():
        judged = _Judged.of(of, catalog)
        served = of[0].metadata[ASKED]
        scope = {"user": of[0].user, "conversation": of[0].conversation}
        before = datetime.fromisoformat(str(of[0].at)) - timedelta(microseconds=1)
        request = store.request(
            workspace, served["text"], time=min(served["time"], before.isoformat(), key=in_utc), id=context, **scope
        )
        group = of[0].conversation or of[0].user or context
        queries.append(
            DatasetQuery(
                request=request,
                split=split_of(group),
                group=group,
                tags=() if judged.enough is None else ("sufficient" if judged.enough else NOT_SUFFICIENT,),
                needs_nothing=judged.is_complete and not judged.useful,
                partly_labelled=not judged.is_complete,
            )
        )
        labels += [Label(query=context, item=key, grade=grade, source="feedback") for key, grade in judged.grades]
        if judged.enough is not None:
            signals = () if judged.enough else (NOT_SUFFICIENT,)
            exposures.append(Exposure(query=context, offered=judged.offered, called=judged.useful, signals=signals))
    about = {
        "licence": "not stated; contains user texts",
        "source": f"feedback in workspace {workspace}",
        "labelling": str(Message("memory.card-feedback")),
    }
    return Dataset(
        name=name, version="1", catalog=catalog, queries=tuple(queries), labels=tuple(labels), about=about
    ), tuple(exposures)


@dataclass(frozen=True)
class _Judged:
    """The judgements of one context, the last one of each item; items in the order of the catalog.

    Attributes:
        enough: whether it was sufficient; None = not judged.
        offered: its items, if that was judged.
        grades: of the items that were judged and are still in the catalog.
    """

    enough: bool | None
    offered: tuple[ItemKey, ...]
    grades: tuple[tuple[ItemKey, int], ...]

    @classmethod
    def of(cls, events: Sequence[Event], catalog: Catalog) -> _Judged:
        """From all events of the context, in order."""
        grades = {
            ItemKey.parse(event.metadata[ASKED]["item"]): 2 if event.useful else 0
            for event in events
            if event.kind == "feedback"
        }
        in_catalog = {key: grade for key, grade in grades.items() if catalog.find(key) is not None}
        verdicts = [event for event in events if event.kind == SUFFICIENT]
        offered = map(ItemKey.parse, verdicts[-1].metadata[ASKED]["items"]) if verdicts else ()
        return cls(
            enough=verdicts[-1].useful if verdicts else None,
            offered=tuple(sorted(offered, key=catalog.position)),  # a context of what was deleted is gone with it
            grades=tuple((key, in_catalog[key]) for key in sorted(in_catalog, key=catalog.position)),
        )

    @property
    def useful(self) -> tuple[ItemKey, ...]:
        """The items that were useful."""
        return tuple(key for key, grade in self.grades if grade)

    @property
    def is_complete(self) -> bool:
        """Whether all required items are known."""
        return self.enough is True and {key for key, _ in self.grades}.issuperset(self.offered)
