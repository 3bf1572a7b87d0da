"""The base class of stores, the store in memory, and datasets from feedback."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import islice
from typing import Any, TypeVar

from ctxbench.datasets.dataset import Dataset, split_of
from ctxbench.datasets.layout import NOT_SUFFICIENT, Exposure
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.io.cache import ProcessLock
from ctxbench.io.errors import Message, ParameterError
from ctxbench.io.rows import in_utc
from ctxbench.memory.memories import (
    ASKED,
    SUFFICIENT,
    Event,
    Forget,
    Memory,
    Progress,
    Relationship,
    accepted,
    accepted_one,
    check_relationship,
    checked_event,
    checked_name,
    item_key,
    memory_catalog,
    referred_to,
    successor,
    things_of,
    time_named,
    unknown,
    version_at,
)
from ctxbench.model.items import Catalog, ItemKey
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

    def events(self, workspace: str) -> tuple[Event, ...]:
        """All events of a workspace in order of time, then of recording."""
        with self._transaction(reads=True):
            return tuple(self._events(workspace))[::-1]

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
        """Make all changes inside it or none, isolated from other writers."""

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


Kept = TypeVar("Kept", Memory, Event)


@dataclass
class _Workspace:
    """One workspace: versions by (id, version), in order of addition."""

    versions: dict[tuple[str, int], Memory] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)  # version by id
    links: dict[Relationship, None] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)  # as they were recorded
    revision: int = 0
    altered: int = 0  # revision at the last deletion or change of relationships

    def put(self, memory: Memory) -> None:
        self.versions[memory.id, memory.version] = _copied(memory)
        self.newest[memory.id] = memory.version

    def alter(self) -> None:
        self.revision += 1
        self.altered = self.revision


class DictStore(MemoryStore):
    """A store in memory; it ends with its process.

    Args:
        forget: as in `MemoryStore`.
    """

    def __init__(self, *, forget: Forget | None = None) -> None:
        super().__init__(forget)
        self._all: dict[str, _Workspace] = {}

    def workspaces(self) -> tuple[str, ...]:
        """The names of all workspaces, in order of creation."""
        return tuple(self._all)

    def insert_many(self, memories: Iterable[Memory], *, progress: Progress | None = None) -> int:
        """Add many memories; see `MemoryStore.insert_many`."""
        with self._lock:  # other threads may not insert the same ids meanwhile
            return super().insert_many(memories, progress=progress)

    def delete(self, workspace: str, id: str, *ids: str) -> None:  # noqa: A002
        """Delete memories, all versions, with their relationships and events."""
        with self._lock:
            gone = {id_: self._versions(workspace, id_) for id_ in (id, *ids)}
            room = self._all[workspace]
            remaining = {key: version for key, version in room.versions.items() if key[0] not in gone}
            if self._forget is not None:
                elsewhere = [other.versions for other in self._all.values() if other is not room]
                texts = {version.content for versions in (remaining, *elsewhere) for version in versions.values()}
                old = dict.fromkeys(version.content for versions in gone.values() for version in versions)
                self._forget([text for text in old if text not in texts])
            room.versions = remaining
            room.newest = {id_: version for id_, version in room.newest.items() if id_ not in gone}
            room.links = {link: None for link in room.links if link.source not in gone and link.target not in gone}
            room.events = [event for event in room.events if gone.keys().isdisjoint(things_of(event))]
            room.alter()

    def close(self) -> None:
        """Do nothing: no file is open."""

    def _transaction(self, *, reads: bool = False) -> AbstractContextManager[object]:  # noqa: ARG002
        return self._lock  # checks fail before the first change

    def _room(self, workspace: str) -> _Workspace:
        if workspace not in self._all:
            raise unknown("unknown workspace", workspace, self._all)
        return self._all[workspace]

    def _make(self, workspace: str) -> None:
        self._all.setdefault(workspace, _Workspace())

    def _existing_ids(self, workspace: str, ids: Sequence[str]) -> list[str]:
        newest = self._room(workspace).newest
        return [id_ for id_ in ids if id_ in newest]

    def _add(self, rows: Sequence[Memory]) -> None:
        for row in rows:
            room = self._all[row.workspace]
            room.put(row)
            room.revision += 1

    def _versions(self, workspace: str, id_: str) -> list[Memory]:
        room = self._room(workspace)
        if id_ not in room.newest:
            raise unknown(f"workspace {workspace!r} has no memory", id_, room.newest)
        return [_copied(room.versions[id_, version]) for version in range(1, room.newest[id_] + 1)]

    def _succeed(self, ended: Memory, new: Memory) -> None:
        room = self._all[new.workspace]
        room.put(ended)
        room.put(new)
        room.revision += 1

    def _relate(self, relationship: Relationship, *, exists: bool) -> bool:
        for end in (relationship.source, relationship.target):
            self._versions(relationship.workspace, end)
        room = self._all[relationship.workspace]
        if (relationship in room.links) == exists:
            return False
        others = {link: None for link in room.links if link != relationship}
        room.links = {**others, relationship: None} if exists else others
        room.alter()
        return True

    def _links(self, workspace: str, id_: str | None = None) -> list[Relationship]:
        links = self._room(workspace).links
        if id_ is None:
            return list(links)
        self._versions(workspace, id_)
        return [link for link in links if id_ in (link.source, link.target)]

    def _state(self, workspace: str) -> tuple[int, int]:
        room = self._room(workspace)
        return room.revision, room.altered

    def _added(self, workspace: str, mark: int) -> tuple[list[Memory], int]:
        versions = self._all[workspace].versions
        return [_copied(version) for version in islice(versions.values(), mark, None)], len(versions)

    def _record(self, events: Sequence[Event]) -> None:
        for event in events:
            self._all[event.workspace].events.append(event)
            self._all[event.workspace].revision += 1

    def _events(self, workspace: str, **of: str | None) -> Iterator[Event]:
        events = sorted(self._room(workspace).events, key=lambda event: str(event.at))[
            ::-1
        ]  # equal times stay in order
        events = [event for event in events if all(getattr(event, name) == value for name, value in of.items())]
        return (_copied(event) for event in events)


def _copied(memory: Kept) -> Kept:
    """A copy: changing its metadata does not change the stored memory."""
    return replace(memory, metadata=copy.deepcopy(memory.metadata))


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
    by_context: dict[str, list[Event]] = {}
    events = [event for event in store.events(workspace) if event.kind in ("feedback", SUFFICIENT)]
    for event in events:
        if served := event.metadata.get(ASKED):
            by_context.setdefault(served["context"], []).append(event)
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
