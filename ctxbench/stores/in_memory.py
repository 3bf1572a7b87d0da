"""Memories in a process, for tests and for what need not be kept; what a store on disk is held against."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from ctxbench.stores.base_store import BaseStore
from ctxbench.stores.events import Event, things_of
from ctxbench.stores.memories import Forget, Memory, Progress, Relationship, unknown

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
        """As of `MemoryStore`."""
        return tuple(self._all)

    def insert_many(self, memories: Iterable[Memory], *, progress: Progress | None = None) -> int:
        """As of `MemoryStore`."""
        with self._lock:  # no table would refuse what another thread inserts meanwhile
            return super().insert_many(memories, progress=progress)

    def delete(self, workspace: str, id: str, *more: str) -> None:  # noqa: A002
        """As of `MemoryStore`."""
        with self._lock:
            gone = {id_: self._versions(workspace, id_) for id_ in (id, *more)}
            room = self._all[workspace]
            kept = {key: one for key, one in room.versions.items() if key[0] not in gone}
            if self._forget is not None:
                others = [other.versions for other in self._all.values() if other is not room]
                texts = {one.content for versions in (kept, *others) for one in versions.values()}
                old = dict.fromkeys(one.content for versions in gone.values() for one in versions)
                self._forget([text for text in old if text not in texts])
            room.versions = kept
            room.newest = {id_: version for id_, version in room.newest.items() if id_ not in gone}
            room.links = {one: None for one in room.links if one.source not in gone and one.target not in gone}
            room.events = [one for one in room.events if gone.keys().isdisjoint(things_of(one))]
            room.alter()

    def close(self) -> None:
        """As of `MemoryStore`; nothing is open."""

    def _transaction(self, *, reads: bool = False) -> AbstractContextManager[object]:  # noqa: ARG002
        return self._lock  # all that can fail does so before the first change

    def _room(self, workspace: str) -> _Workspace:
        if workspace not in self._all:
            raise unknown("unknown workspace", workspace, self._all)
        return self._all[workspace]

    def _make(self, workspace: str) -> None:
        self._all.setdefault(workspace, _Workspace())

    def _taken(self, workspace: str, ids: Sequence[str]) -> list[str]:
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

    def _relate(self, relationship: Relationship, *, there: bool) -> bool:
        for end in (relationship.source, relationship.target):
            self._versions(relationship.workspace, end)
        room = self._all[relationship.workspace]
        if (relationship in room.links) == there:
            return False
        if there:
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
        return [one for one in links if id_ in (one.source, one.target)]

    def _state(self, workspace: str) -> tuple[int, int]:
        room = self._room(workspace)
        return room.revision, room.altered

    def _added(self, workspace: str, mark: int) -> tuple[list[Memory], int]:
        versions = self._all[workspace].versions
        return [_copied(one) for one in islice(versions.values(), mark, None)], len(versions)

    def _record(self, events: Sequence[Event]) -> None:
        for one in events:
            self._all[one.workspace].events.append(one)
            self._all[one.workspace].revision += 1

    def _events(self, workspace: str, **of: str | None) -> Iterator[Event]:
        found = sorted(self._room(workspace).events, key=lambda one: str(one.at))[::-1]  # equal times stay in order
        found = [one for one in found if all(getattr(one, name) == value for name, value in of.items())]
        return (_copied(one) for one in found)


def _copied(memory: Kept) -> Kept:
    """One whose metadata can be changed without changing what is kept."""
    return replace(memory, metadata=copy.deepcopy(memory.metadata))
