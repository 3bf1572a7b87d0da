"""Memories in a process, for tests and for what need not be kept; what a store on disk is held against."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog
from ctxbench.stores.memories import (
    BATCH,
    Forget,
    KeptCatalogs,
    Memory,
    Progress,
    Relationship,
    accepted,
    accepted_one,
    check_relationship,
    name_fault,
    successor,
    unknown,
    version_at,
)


@dataclass
class _Workspace:
    """One workspace: versions in the order in which they were added, by (id, version)."""

    versions: dict[tuple[str, int], Memory] = field(default_factory=dict)
    newest: dict[str, int] = field(default_factory=dict)  # version by id
    relationships: dict[Relationship, None] = field(default_factory=dict)
    revision: int = 0
    altered: int = 0  # the revision at the last write that was no insert

    def alter(self) -> None:
        self.revision += 1
        self.altered = self.revision


class DictStore:
    """A `MemoryStore` that ends with its process.

    Args:
        forget: called by `delete` with the texts that no memory has any more, so that their vectors go, too.
    """

    def __init__(self, *, forget: Forget | None = None) -> None:
        self._all: dict[str, _Workspace] = {}
        self._forget = forget
        self._catalogs = KeptCatalogs()
        self._lock = threading.RLock()

    def create_workspace(self, name: str) -> None:
        """As of `MemoryStore`."""
        if fault := name_fault("the name of a workspace", name):
            raise ParameterError(fault)
        with self._lock:
            self._all.setdefault(name, _Workspace())

    def workspaces(self) -> tuple[str, ...]:
        """As of `MemoryStore`."""
        return tuple(self._all)

    def insert(self, memory: Memory) -> Memory:
        """As of `MemoryStore`."""
        with self._lock:
            row = accepted_one(memory, self._taken)
            self._add([row])
            return _copied(row)

    def insert_many(self, memories: Iterable[Memory], *, progress: Progress | None = None) -> int:
        """As of `MemoryStore`."""
        with self._lock:
            rows = accepted(memories, self._taken)
            for start in range(0, len(rows), BATCH):
                self._add(rows[start : start + BATCH])
                if progress is not None:
                    progress(min(start + BATCH, len(rows)), len(rows))
            return len(rows)

    def update(self, workspace: str, id: str, *, at: str | None = None, **changes: Any) -> Memory:  # noqa: A002
        """As of `MemoryStore`."""
        with self._lock:
            ended, new = successor(self._versions(workspace, id)[-1], at, changes)
            room = self._all[workspace]
            room.versions |= {(id, ended.version): ended, (id, new.version): new}
            room.newest[id] = new.version
            room.alter()
            return _copied(new)

    def delete(self, workspace: str, id: str, *more: str) -> None:  # noqa: A002
        """As of `MemoryStore`."""
        with self._lock:
            gone = {
                key: version
                for id_ in (id, *more)
                for version in self._versions(workspace, id_)
                if (key := (id_, version.version))
            }
            room = self._all[workspace]
            kept = {key: one for key, one in room.versions.items() if key not in gone}
            if self._forget is not None:
                others = [one for other in self._all.values() if other is not room for one in other.versions.values()]
                texts = {one.content for one in [*kept.values(), *others]}
                self._forget(
                    [text for text in dict.fromkeys(one.content for one in gone.values()) if text not in texts]
                )
            room.versions = kept
            for id_ in {id, *more}:
                del room.newest[id_]
                for one in self._of(room, id_):
                    del room.relationships[one]
            room.alter()

    def get(self, workspace: str, id: str, *, at: str | None = None) -> Memory:  # noqa: A002
        """As of `MemoryStore`."""
        with self._lock:
            return _copied(version_at(self._versions(workspace, id), at))

    def relate(self, relationship: Relationship) -> None:
        """As of `MemoryStore`."""
        with self._lock:
            room = self._ends(relationship)
            if relationship not in room.relationships:
                room.relationships[relationship] = None
                room.alter()

    def unrelate(self, relationship: Relationship) -> None:
        """As of `MemoryStore`."""
        with self._lock:
            room = self._ends(relationship)
            if relationship not in room.relationships:
                raise unknown("no such relationship is there:", relationship)
            del room.relationships[relationship]
            room.alter()

    def relationships(self, workspace: str, id: str) -> tuple[Relationship, ...]:  # noqa: A002
        """As of `MemoryStore`."""
        with self._lock:
            self._versions(workspace, id)
            return tuple(self._of(self._all[workspace], id))

    def catalog(self, workspace: str) -> Catalog:
        """As of `MemoryStore`."""
        with self._lock:
            room = self._room(workspace)

            def read(mark: int) -> tuple[list[Memory], list[Relationship], int]:
                return [*islice(room.versions.values(), mark, None)], [*room.relationships], len(room.versions)

            return self._catalogs.of(workspace, room.revision, room.altered, read)

    def revision(self, workspace: str) -> int:
        """As of `MemoryStore`."""
        return self._room(workspace).revision

    def close(self) -> None:
        """As of `MemoryStore`; nothing is open."""

    def _room(self, workspace: str) -> _Workspace:
        if workspace not in self._all:
            raise unknown("unknown workspace", workspace, self._all)
        return self._all[workspace]

    def _taken(self, workspace: str, ids: Sequence[str]) -> list[str]:
        newest = self._room(workspace).newest
        return [id_ for id_ in ids if id_ in newest]

    def _versions(self, workspace: str, id_: str) -> list[Memory]:
        room = self._room(workspace)
        if id_ not in room.newest:
            raise unknown(f"workspace {workspace!r} has no memory", id_, room.newest)
        return [room.versions[id_, version] for version in range(1, room.newest[id_] + 1)]

    def _add(self, rows: Sequence[Memory]) -> None:
        for row in rows:
            room = self._all[row.workspace]
            room.versions[row.id, 1] = row
            room.newest[row.id] = 1
            room.revision += 1

    def _ends(self, relationship: Relationship) -> _Workspace:
        check_relationship(relationship)
        for end in (relationship.source, relationship.target):
            self._versions(relationship.workspace, end)
        return self._all[relationship.workspace]

    def _of(self, room: _Workspace, id_: str) -> list[Relationship]:
        return [one for one in room.relationships if id_ in (one.source, one.target)]


def _copied(memory: Memory) -> Memory:
    """One whose metadata can be changed without changing what is kept."""
    return replace(memory, metadata=copy.deepcopy(memory.metadata))
