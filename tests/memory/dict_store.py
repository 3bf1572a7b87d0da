"""A store of dicts, simple enough to be read: what the SQLite store must agree with."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from ctxbench.memory.memories import Event, Forget, Memory, Progress, Relationship, things_of, unknown
from ctxbench.memory.stores import MemoryStore

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

    def copied(self) -> _Workspace:
        versions, newest, links = dict(self.versions), dict(self.newest), dict(self.links)
        return replace(self, versions=versions, newest=newest, links=links, events=list(self.events))

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

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make all changes inside it, or none."""
        with self._lock:
            before, catalogs = {name: room.copied() for name, room in self._all.items()}, dict(self._kept)
            try:
                yield
            except BaseException:
                self._all, self._kept = before, catalogs
                raise

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

    def _transaction(self, *, reads: bool = False) -> AbstractContextManager[object]:
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
