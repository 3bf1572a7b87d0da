"""The base class of stores, the store in memory, the import of rows, and datasets from feedback."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache, partial
from operator import attrgetter
from typing import Any

import numpy as np

from ctxbench.datasets.dataset import Dataset, split_of
from ctxbench.datasets.layout import NOT_SUFFICIENT, Exposure
from ctxbench.datasets.queries import DatasetQuery, Label, group_pairs
from ctxbench.io.cache import ProcessLock
from ctxbench.io.errors import Message, ParameterError, merge_equal_faults, raise_faults
from ctxbench.io.rows import in_utc
from ctxbench.memory.memories import (
    ASKED,
    CHANGEABLE,
    SUFFICIENT,
    Event,
    Forget,
    Memory,
    MemoryRow,
    Progress,
    Relationship,
    StoreRows,
    accepted,
    accepted_one,
    check_order,
    check_relationship,
    checked_event,
    checked_name,
    faults_of,
    item_key,
    memory_catalog,
    referred_to,
    subject_of,
    successor,
    things_of,
    time_named,
    unknown,
    version_at,
    version_of,
)
from ctxbench.model.arrays import BoolArray
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Request

BATCH = 1_000  # memories per transaction
RECENT = 100  # recently opened files in a request
KEPT = 64  # workspaces whose last catalog is kept: a catalog that grew is extended and keeps its indexes


class MemoryStore(ABC):
    """Stores memories by workspace. Each call uses one workspace only.

    Stores may be used from several threads. A failure to read or write is a `StorageError`. A wrong argument, such as
    an unknown workspace or memory, is a `ParameterError`. After an error nothing has changed. The abstract private
    methods are called inside a transaction only.

    Args:
        forget: called by `delete` with the texts that no memory has any more, to delete their vectors.
    """

    def __init__(self, forget: Forget | None) -> None:
        self._forget = forget
        self._kept: dict[str, tuple[int, int, Catalog]] = {}  # by workspace: revision, mark, catalog; last used last
        self._lock = ProcessLock()

    def create_workspace(self, name: str) -> None:
        """Create a workspace, unless it exists."""
        checked_name("the name of a workspace", name)
        with self._transaction():
            self._make(name)

    def insert(self, memory: Memory) -> Memory:
        """Add a memory with a new id; returns the stored memory."""
        with self._transaction():
            row = accepted_one(memory, self._existing_ids)
            self._add([row])
        return row

    def insert_many(self, memories: Iterable[Memory], *, progress: Progress | None = None) -> int:
        """Add many memories, a thousand per transaction; returns how many.

        All are checked before the first is written. Where a later transaction fails, those before it stay.

        Args:
            memories: of one workspace or several, with ids that are new there.
            progress: called with (memories stored, memories to store) after each transaction.

        Raises:
            InputError: some are refused; all faults are listed, each with the number of its memory.
        """
        new = list(memories)
        with self._transaction(reads=True):
            rows = accepted(new, self._existing_ids)
        for start in range(0, len(rows), BATCH):
            with self._transaction():
                self._add(rows[start : start + BATCH])
            if progress is not None:
                progress(min(start + BATCH, len(rows)), len(rows))
        return len(rows)

    def update(self, workspace: str, id: str, *, at: str | None = None, **changes: Any) -> Memory:  # noqa: A002
        """Add a version with changed fields, which replaces the current one; returns it.

        Args:
            workspace, id: the workspace and the id of the memory.
            at: the begin of the new version, not before that of the current one; None = now.
            changes: one or more of `content`, `kind`, `confidence`, `conversation`, `user`, `metadata`.
        """
        with self._transaction():
            ended, new = successor(self._versions(workspace, id)[-1], at, changes)
            self._succeed(ended, new)
        return new

    def get(self, workspace: str, id: str, *, at: str | None = None) -> Memory:  # noqa: A002
        """The current version, or the version at a time."""
        with self._transaction(reads=True):
            return version_at(self._versions(workspace, id), at)

    def has(self, workspace: str, id: str) -> bool:  # noqa: A002
        """Whether there is a memory with this id."""
        with self._transaction(reads=True):
            return bool(self._existing_ids(workspace, [id]))

    def relate(self, relationship: Relationship) -> None:
        """Add a relationship between two existing memories, unless it exists. Circles are allowed."""
        check_relationship(relationship)
        with self._transaction():
            self._relate(relationship, exists=True)

    def unrelate(self, relationship: Relationship) -> None:
        """Remove an existing relationship."""
        check_relationship(relationship)
        with self._transaction():
            if not self._relate(relationship, exists=False):
                raise unknown("no such relationship:", relationship)

    def relationships(self, workspace: str, id: str) -> tuple[Relationship, ...]:  # noqa: A002
        """The relationships from and to a memory, in order of addition."""
        with self._transaction(reads=True):
            return tuple(self._links(workspace, id))

    def catalog(self, workspace: str) -> Catalog:
        """All versions as items `<type>:<id>@<version>`, in order of addition.

        The title of a file is its path. The catalog is the same object until memories or relationships change. After
        inserts, and updates of memories without relationships, it extends the earlier catalog, to keep its indexes.
        """
        with self._transaction(reads=True):
            revision, altered = self._state(workspace)
            last, mark, catalog = self._kept.pop(workspace, (-1, 0, Catalog(())))
            anew = last < altered or not mark
            if not anew and last < revision:
                rows, mark = self._added(workspace, mark)
                anew = any(row.version > 1 and self._links(workspace, row.id) for row in rows)
                catalog = catalog if anew else memory_catalog(rows, before=catalog)
            if anew:
                rows, mark = self._added(workspace, 0)
                catalog = memory_catalog(rows, self._links(workspace))
            self._kept[workspace] = revision, mark, catalog
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
            return catalog

    def record(self, event: Event, *events: Event) -> None:
        """Record events, all or none; a `ParameterError` if the user did not see an item at the time of its event."""
        rows = [checked_event(new_event) for new_event in (event, *events)]
        with self._transaction():
            for new_event in rows:
                self._state(new_event.workspace)  # checks the workspace, as a context may be empty
                for id_ in things_of(new_event):
                    if self._visible_key(new_event.workspace, new_event.user, new_event.at, id_) is None:
                        raise ParameterError(  # without a hint, which could name items of other users
                            f"{new_event.kind}: workspace {new_event.workspace!r} has no {id_!r:.60} that user "
                            f"{new_event.user!r:.60} sees at {new_event.at}; expected the id of an item"
                        )
            self._record(rows)

    def events(self, workspace: str, **of: str | None) -> tuple[Event, ...]:
        """The events of a workspace with these values of fields, in order of time, then of recording."""
        with self._transaction(reads=True):
            return tuple(self._events(workspace, **of))[::-1]

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
            workspace, text, user, conversation, id: fields of the request.
            time: the time of the request, which ignores later events; None = now.

        Returns:
            A request with visible items in their versions at its time: `explicit` has the references of the
            conversation, `recent` the last `RECENT` files that the user opened, `uses` counts of useful items.
        """
        moment = None if time is None else time_named("time", time)
        with self._transaction(reads=True):
            key = cache(partial(self._visible_key, workspace, user, moment))

            def before(**of: str | None) -> Iterator[Event]:
                return (event for event in self._events(workspace, **of) if moment is None or str(event.at) <= moment)

            turns = [] if conversation is None else before(conversation=conversation)
            referred = referred_to(turn for turn in turns if turn.user in (None, user))
            recent: dict[ItemKey, None] = {}
            for event in before(kind="access", user=user):
                if (file := key(event.id)) and file.type == "file":
                    recent.setdefault(file)
                if len(recent) == RECENT:
                    break
            counts = Counter(event.id for event in before(kind="feedback", user=user) if event.useful)
            return Request(
                id=id,
                text=text,
                explicit=tuple(item_key_ for id_ in referred if (item_key_ := key(id_))),
                recent=tuple(recent),
                uses=tuple((item_key_, count) for id_, count in sorted(counts.items()) if (item_key_ := key(id_))),
                user=user,
                workspace=workspace,
                conversation=conversation,
                time=time,
            )

    def _visible_key(self, workspace: str, user: str | None, at: str | None, id_: str) -> ItemKey | None:
        """The key of the version of a memory at a time; None if there is none, or this user does not see it."""
        if not self._existing_ids(workspace, [id_]):
            return None
        versions = self._versions(workspace, id_)
        if at is not None and at < str(versions[0].created):
            return None
        version = version_at(versions, at)
        return item_key(version) if version.user in (None, user) else None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make all inserts, updates, relationships and events of this thread inside it, or none.

        A `ParameterError` or `InputError` that is caught inside undoes only its own call. After a failure to write
        nothing is kept, and every later call inside raises a `StorageError`. `delete` and `close` are not allowed.
        """
        with self._transaction():
            yield

    def revision(self, workspace: str) -> int:
        """A number that increases with each write to a workspace."""
        with self._transaction(reads=True):
            return self._state(workspace)[0]

    @abstractmethod
    def workspaces(self) -> tuple[str, ...]:
        """The names of all workspaces, in the order of their creation."""

    @abstractmethod
    def delete(self, workspace: str, id: str, *ids: str) -> None:  # noqa: A002
        """Delete memories, all versions, with their relationships and events, from all files."""

    @abstractmethod
    def close(self) -> None:
        """Close the store; the next use opens it again."""

    @abstractmethod
    def _transaction(self, *, reads: bool = False) -> AbstractContextManager[object]:
        """Make all changes inside it or none, isolated from other writers. Nested ones are one transaction."""

    @abstractmethod
    def _make(self, workspace: str) -> None:
        """Create a workspace unless it exists."""

    @abstractmethod
    def _existing_ids(self, workspace: str, ids: Sequence[str]) -> list[str]:
        """The ids that exist already."""

    @abstractmethod
    def _add(self, rows: Sequence[Memory]) -> None:
        """Add new memories."""

    @abstractmethod
    def _versions(self, workspace: str, id_: str) -> list[Memory]:
        """All versions of a memory, oldest first; a `ParameterError` if there is none."""

    @abstractmethod
    def _succeed(self, ended: Memory, new: Memory) -> None:
        """End the current version of a memory, and add the next."""

    @abstractmethod
    def _relate(self, relationship: Relationship, *, exists: bool) -> bool:
        """Add or remove a relationship; returns whether that changed anything."""

    @abstractmethod
    def _links(self, workspace: str, id_: str | None = None) -> list[Relationship]:
        """The relationships of a workspace, or of one of its memories."""

    @abstractmethod
    def _state(self, workspace: str) -> tuple[int, int]:
        """The revision of a workspace, and its revision at the last deletion or change of relationships."""

    @abstractmethod
    def _added(self, workspace: str, mark: int) -> tuple[list[Memory], int]:
        """The versions added after a mark (0 = all), in order of addition, and the new mark."""

    @abstractmethod
    def _record(self, events: Sequence[Event]) -> None:
        """Add events about existing items."""

    @abstractmethod
    def _events(self, workspace: str, **of: str | None) -> Iterator[Event]:
        """Events with these values of fields, latest first; at equal times the last recorded first."""


def feedback_dataset(store: MemoryStore, workspace: str, *, name: str) -> tuple[Dataset, tuple[Exposure, ...]]:
    """Make a dataset of feedback: one query per context, over all items of the workspace.

    Useful items are required (2), others are irrelevant (0). A query is labelled in full if its context was judged as
    sufficient and each of its items was judged; it needs nothing if no item was useful. Other queries are labelled in
    part. Items that were not offered get no label. A query has the time, references and uses of its context, before
    the first judgement, as a label must not count as a use. Queries of one thread, or of one user, are a group.

    Args:
        store: where the feedback is.
        workspace: the workspace.
        name: name of the dataset.

    Returns:
        The dataset, and the offers of each context that was judged as a whole, with the signal `NOT_SUFFICIENT` if it
        was not sufficient, which `ctxbench data label` uses.

    Raises:
        ParameterError: there is no feedback with a context, or no such workspace.
    """
    events = [event for event in store.events(workspace) if event.kind in ("feedback", SUFFICIENT)]
    by_context = group_pairs((event.metadata[ASKED]["context"], event) for event in events if event.metadata.get(ASKED))
    if not by_context:
        feedback = f"{len(events)} judgements without a context" if events else "no feedback"
        raise ParameterError(f"workspace {workspace!r} has {feedback}; labels need feedback with a `contextId`")
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
    """The judgements of one context, the last of each item; items in the order of the catalog.

    Attributes:
        enough: whether the context was sufficient; None = not judged.
        offered: the items of the context, if it was judged.
        grades: grades of judged items that are still in the catalog.
    """

    enough: bool | None
    offered: tuple[ItemKey, ...]
    grades: tuple[tuple[ItemKey, int], ...]

    @classmethod
    def of(cls, events: Sequence[Event], catalog: Catalog) -> _Judged:
        """The judgements in all events of a context, in order."""
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
            offered=tuple(sorted(offered, key=catalog.position)),
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


@dataclass(frozen=True)
class Imported:
    """The counts of an import.

    Attributes:
        new: new memories, files and messages.
        versions: new versions of existing ones.
        same: rows that change nothing.
        relationships: relationships in the rows.
        events: new events.
        elsewhere: ignored rows of other workspaces.
    """

    new: int
    versions: int
    same: int
    relationships: int
    events: int
    elsewhere: int


def import_rows(store: MemoryStore, read: StoreRows, *, progress: Progress | None = None) -> Imported:
    """Import rows into their workspace, which is created if it does not exist.

    Rows are imported in order of time. A row with an existing id is a later version of that memory, unless a version
    is equal to it: importing a file again changes nothing. The last row of a memory is its current state: if it equals
    an earlier version, and another version is current, it becomes a version from now on. A later version has the values
    of its row, and defaults for missing fields. Relationships are added; nothing is deleted. Events come after all
    items; one that equals a recorded event is ignored.

    Args:
        store: where to.
        read: from `read_rows`.
        progress: called with (memories stored, memories to store).

    Raises:
        InputError: rows contradict what is stored; nothing was stored.
    """
    rows, workspace = read.rows, read.workspace
    check_order(read)
    raise_faults(merge_equal_faults(read.faults), subject=subject_of(read.source))
    with store.together():
        store.create_workspace(workspace)
        stored: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)  # versions by id, oldest first
        types: dict[str, str] = {}
        for item in store.catalog(workspace):
            id_ = item.name.rpartition("@")[0]
            types[id_] = item.type
            stored[id_].append(_version_of_item(item))
        new: list[Memory] = []
        later: list[tuple[MemoryRow, str | None]] = []  # and since when
        last = {row.memory.id: row for row in rows}
        for memory_row in rows:
            id_ = memory_row.memory.id
            versions, type_ = stored[id_], types.setdefault(id_, memory_row.memory.type)
            if type_ != memory_row.memory.type:
                memory_row.row.fault(Message("memory.type-changed", name=memory_row.name, type=type_))
            elif not memory_row.is_among(versions, last=last[id_] is memory_row):
                later += [(memory_row, memory_row.begins(versions))] if versions else []
                new += [] if versions else [memory_row.memory]
                versions.append(version_of(memory_row.memory))
        store.insert_many(new, progress=progress)
        for memory_row, begin in later:
            with faults_of(memory_row.row):
                changes = {name: getattr(memory_row.memory, name) for name in CHANGEABLE}
                store.update(workspace, memory_row.memory.id, at=begin, **changes)
        _check_ends(rows, stored)
        links = {(row.memory.id, *link): row.row for row in rows for link in row.links}
        for (source, kind, target), row in links.items():
            with faults_of(row):
                store.relate(Relationship(workspace=workspace, source=source, target=target, type=kind))
        events = _record_new(store, read)
        raise_faults(sorted(read.faults, key=attrgetter("line")), subject=subject_of(read.source))
    n_unchanged = len(rows) - len(new) - len(later) + len(read.events) - events
    return Imported(len(new), len(later), n_unchanged, len(links), events, sum(read.elsewhere.values()))


def _record_new(store: MemoryStore, read: StoreRows) -> int:
    """Record the events that are not recorded yet; returns their number."""
    recorded = {
        _event_of(event)
        for kind, user, at in {(event.kind, event.user, event.at) for _, event in read.events}
        for event in store.events(read.workspace, kind=kind, user=user, at=at)
    }
    new = {_event_of(event): (row, event) for row, event in read.events if _event_of(event) not in recorded}
    for row, event in new.values():
        with faults_of(row):
            store.record(event)
    return len(new)


_event_of = attrgetter("kind", "id", "user", "conversation", "at", "useful")
_version_of_item = attrgetter("created", "text", *CHANGEABLE[1:])


def _check_ends(rows: Sequence[MemoryRow], stored: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
    """Add a fault for an end at which no version begins: a version ends when the next replaces it."""
    for memory_row in rows:
        if memory_row.until and all(created != memory_row.until for created, *_ in stored[memory_row.memory.id]):
            values = {"until": memory_row.until, "name": memory_row.name}
            memory_row.row.fault(Message("memory.end-without-successor", **values))


USERS = 256  # users with private items whose catalogs are kept
USERS_BYTES = 64_000_000  # size of these catalogs, without shared parts
BYTES_AN_ITEM = 200  # per item of a catalog that extends another


class UserCatalogs:
    """The catalogs of users: public items, then private items of the user.

    Steps get nothing else, so that they cannot use private items of other users. A catalog stays the same object until
    a visible item changes; added items extend it. Catalogs of users extend the public catalog, so that hashes, facts
    and indexes of public items are made once.

    Attributes:
        public: the public items at the last call of `of`.
    """

    def __init__(self, workspace: str | None) -> None:
        self._workspace = workspace
        self._source: Catalog | None = None  # the source of `public`
        self.public = Catalog(())
        self._user_catalogs: dict[str | None, Catalog] = {}  # each extends `public`; last used last
        self._lock = threading.Lock()

    def of(self, catalog: Catalog, user: str | None) -> Catalog:
        """The items of a catalog that a user sees."""
        with self._lock:
            everybodys = catalog.facts.open_to(self._workspace, None)
            if self._source is not catalog:
                self._take_public(_linked_among(_items_at(catalog, everybodys), Catalog(())))
                self._source = catalog
            public, before = self.public, self._user_catalogs.pop(user, None)
            own_items = _items_at(catalog, catalog.facts.open_to(self._workspace, user) & ~everybodys)
            if not own_items:
                return public
            own_items = _linked_among(own_items, public)
            visible = None if before is None else _carried_on(before, len(public), own_items)
            if visible is None:
                _ = public.facts, public.ids  # compute them before the extension
                visible = public.extended(own_items, shares=True)
            self._user_catalogs[user] = visible
            self._drop()
            return visible

    def _take_public(self, items: list[Item]) -> None:
        """Extend the public catalog, or replace it and drop the catalogs of users."""
        if (public := _carried_on(self.public, 0, items)) is not self.public:
            self.public = Catalog(items) if public is None else public
            self._user_catalogs.clear()

    def _drop(self) -> None:
        """Drop the least recently used catalogs above the limits."""
        size = sum(map(self._unshared_bytes, self._user_catalogs.values()))
        while len(self._user_catalogs) > 1 and (len(self._user_catalogs) > USERS or size > USERS_BYTES):
            size -= self._unshared_bytes(self._user_catalogs.pop(next(iter(self._user_catalogs))))

    def _unshared_bytes(self, catalog: Catalog) -> int:
        """The approximate size of the catalog of a user, without the public one."""
        return BYTES_AN_ITEM * len(catalog) + 1_000 * (len(catalog) - len(self.public))


def _items_at(catalog: Catalog, where: BoolArray) -> list[Item]:
    return [catalog[position] for position in np.flatnonzero(where).tolist()]


def _linked_among(items: list[Item], public: Catalog) -> list[Item]:
    """The items without links to other items than these and public ones."""
    if not any(item.links for item in items):
        return items
    keys = {item.key for item in items}
    links = [
        tuple(link for link in item.links if link.item in keys or public.find(link.item) is not None) for item in items
    ]
    return [
        item if item.links == links_left else replace(item, links=links_left)
        for item, links_left in zip(items, links, strict=True)
    ]


def _carried_on(before: Catalog, first: int, items: list[Item]) -> Catalog | None:
    """The catalog extended to these items from a position on; None if it has other items there."""
    n_before = len(before) - first
    if n_before > len(items):
        return None
    ends: dict[int, str] = {}
    for position, (old, new) in enumerate(zip(before[first:], items, strict=False), first):
        if old is new or old == new:
            continue
        if new.until is None or replace(old, until=new.until) != new:
            return None
        ends[position] = new.until
    return before.extended(items[n_before:], ends=ends)
