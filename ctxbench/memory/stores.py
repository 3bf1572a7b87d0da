"""The base class of stores, and the store in memory."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice
from typing import Any, TypeVar

from ctxbench.io.cache import ProcessLock
from ctxbench.io.errors import ParameterError
from ctxbench.memory.memories import (
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

BATCH = 1_000  # memories a transaction
RECENT = 100  # files that a request says were opened last
KEPT = 64  # workspaces whose last catalog is kept, so that one that grew is extended and keeps its indexes


class BaseStore(ABC):
    """A `MemoryStore` over a few reads and writes, which are asked for inside a transaction alone.

    Args:
        forget: called by `delete` with the texts that no memory has any more, so that their vectors go, too.
    """

    def __init__(self, forget: Forget | None) -> None:
        self._forget = forget
        self._kept: dict[str, tuple[int, int, Catalog]] = {}  # by workspace: revision, mark, catalog; last used last
        self._lock = ProcessLock()

    def create_workspace(self, name: str) -> None:
        """See `MemoryStore`."""
        checked_name("the name of a workspace", name)
        with self._transaction():
            self._make(name)

    def insert(self, memory: Memory) -> Memory:
        """See `MemoryStore`."""
        with self._transaction():
            row = accepted_one(memory, self._existing_ids)
            self._add([row])
        return row

    def insert_many(self, memories: Iterable[Memory], *, progress: Progress | None = None) -> int:
        """See `MemoryStore`."""
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
        """See `MemoryStore`."""
        with self._transaction():
            ended, new = successor(self._versions(workspace, id)[-1], at, changes)
            self._succeed(ended, new)
        return new

    def get(self, workspace: str, id: str, *, at: str | None = None) -> Memory:  # noqa: A002
        """See `MemoryStore`."""
        with self._transaction(reads=True):
            return version_at(self._versions(workspace, id), at)

    def relate(self, relationship: Relationship) -> None:
        """See `MemoryStore`."""
        check_relationship(relationship)
        with self._transaction():
            self._relate(relationship, exists=True)

    def unrelate(self, relationship: Relationship) -> None:
        """See `MemoryStore`."""
        check_relationship(relationship)
        with self._transaction():
            if not self._relate(relationship, exists=False):
                raise unknown("no such relationship is there:", relationship)

    def relationships(self, workspace: str, id: str) -> tuple[Relationship, ...]:  # noqa: A002
        """See `MemoryStore`."""
        with self._transaction(reads=True):
            return tuple(self._links(workspace, id))

    def catalog(self, workspace: str) -> Catalog:
        """See `MemoryStore`."""
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
        """As of `MemoryStore`; of several all are kept, or none."""
        rows = [checked_event(new_event) for new_event in (event, *events)]
        with self._transaction():
            for new_event in rows:
                self._state(new_event.workspace)  # which must be there, though a context may have held nothing
                for id_ in things_of(new_event):
                    if self._visible_key(new_event.workspace, new_event.user, new_event.at, id_) is None:
                        # the message holds nothing of another user
                        who = "everybody" if new_event.user is None else f"user {new_event.user!r:.60}"
                        raise ParameterError(
                            f"{new_event.kind}: there is no {id_!r:.60} in workspace {new_event.workspace!r} that "
                            f"{who} sees at {new_event.at}; expected the id of a file, message or memory"
                        )
            self._record(rows)

    def events(self, workspace: str) -> tuple[Event, ...]:
        """See `MemoryStore`."""
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
        """See `MemoryStore`."""
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
        """The version of a memory that was there at a time, if it was and this user sees it."""
        if not self._existing_ids(workspace, [id_]):
            return None
        versions = self._versions(workspace, id_)
        if at is not None and at < str(versions[0].created):
            return None
        version = version_at(versions, at)
        return item_key(version) if version.user in (None, user) else None

    def revision(self, workspace: str) -> int:
        """See `MemoryStore`."""
        with self._transaction(reads=True):
            return self._state(workspace)[0]

    @abstractmethod
    def _transaction(self, *, reads: bool = False) -> AbstractContextManager[object]:
        """What happens inside is all kept or nothing, and nobody else is seen to write meanwhile."""

    @abstractmethod
    def _make(self, workspace: str) -> None:
        """Make a workspace, unless it is there."""

    @abstractmethod
    def _existing_ids(self, workspace: str, ids: Sequence[str]) -> list[str]:
        """Those of some ids that are taken."""

    @abstractmethod
    def _add(self, rows: Sequence[Memory]) -> None:
        """Add memories that are new."""

    @abstractmethod
    def _versions(self, workspace: str, id_: str) -> list[Memory]:
        """All versions of a memory, the first one first; a `ParameterError` where there is none."""

    @abstractmethod
    def _succeed(self, ended: Memory, new: Memory) -> None:
        """End the current version of a memory, and add the one that takes its place."""

    @abstractmethod
    def _relate(self, relationship: Relationship, *, exists: bool) -> bool:
        """Put a relationship in, or take it out; says whether that changed anything."""

    @abstractmethod
    def _links(self, workspace: str, id_: str | None = None) -> list[Relationship]:
        """The relationships of a workspace, or of one memory of it."""

    @abstractmethod
    def _state(self, workspace: str) -> tuple[int, int]:
        """The revision of a workspace, and what it was when something was last deleted, related or unrelated."""

    @abstractmethod
    def _added(self, workspace: str, mark: int) -> tuple[list[Memory], int]:
        """The versions behind a mark, 0 at first, in the order in which they were added, and the mark behind them."""

    @abstractmethod
    def _record(self, events: Sequence[Event]) -> None:
        """Add events of what is there."""

    @abstractmethod
    def _events(self, workspace: str, **of: str | None) -> Iterator[Event]:
        """Events, the latest first, of one moment the last that was recorded; `of` says what their fields are."""


Kept = TypeVar("Kept", Memory, Event)


@dataclass
class _Workspace:
    """One workspace: versions in the order in which they were added, by (id, version)."""

    versions: dict[tuple[str, int], Memory] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)  # version by id
    links: dict[Relationship, None] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)  # as they were recorded
    revision: int = 0
    altered: int = 0  # the revision when something was last deleted, related or unrelated

    def put(self, memory: Memory) -> None:
        self.versions[memory.id, memory.version] = _copied(memory)
        self.newest[memory.id] = memory.version

    def alter(self) -> None:
        self.revision += 1
        self.altered = self.revision


class DictStore(BaseStore):
    """A `MemoryStore` that ends with its process.

    Args:
        forget: as of `BaseStore`.
    """

    def __init__(self, *, forget: Forget | None = None) -> None:
        super().__init__(forget)
        self._all: dict[str, _Workspace] = {}

    def workspaces(self) -> tuple[str, ...]:
        """See `MemoryStore`."""
        return tuple(self._all)

    def insert_many(self, memories: Iterable[Memory], *, progress: Progress | None = None) -> int:
        """See `MemoryStore`."""
        with self._lock:  # no table would refuse what another thread inserts meanwhile
            return super().insert_many(memories, progress=progress)

    def delete(self, workspace: str, id: str, *ids: str) -> None:  # noqa: A002
        """See `MemoryStore`."""
        with self._lock:
            gone = {id_: self._versions(workspace, id_) for id_ in (id, *ids)}
            room = self._all[workspace]
            remaining = {key: version for key, version in room.versions.items() if key[0] not in gone}
            if self._forget is not None:
                versions_elsewhere = [
                    room_elsewhere.versions for room_elsewhere in self._all.values() if room_elsewhere is not room
                ]
                texts = {
                    version.content for versions in (remaining, *versions_elsewhere) for version in versions.values()
                }
                old = dict.fromkeys(version.content for versions in gone.values() for version in versions)
                self._forget([text for text in old if text not in texts])
            room.versions = remaining
            room.newest = {id_: version for id_, version in room.newest.items() if id_ not in gone}
            room.links = {link: None for link in room.links if link.source not in gone and link.target not in gone}
            room.events = [event for event in room.events if gone.keys().isdisjoint(things_of(event))]
            room.alter()

    def close(self) -> None:
        """See `MemoryStore`; nothing is open."""

    def _transaction(self, *, reads: bool = False) -> AbstractContextManager[object]:  # noqa: ARG002
        return self._lock  # all that can fail does so before the first change

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
        if exists:
            room.links[relationship] = None
        else:
            del room.links[relationship]
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
