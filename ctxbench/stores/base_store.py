"""What stores do alike, wherever they keep their rows: checks, versions, batches, and catalogs that grow."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache, partial
from typing import Any

from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog, ItemKey
from ctxbench.core.requests import Request
from ctxbench.io.process_lock import ProcessLock
from ctxbench.stores.events import Event, checked_event, referred_to, things_of, useful_counts
from ctxbench.stores.memories import (
    Forget,
    Memory,
    Progress,
    Relationship,
    accepted,
    accepted_one,
    check_relationship,
    checked_name,
    item_key,
    memory_catalog,
    successor,
    time_named,
    unknown,
    version_at,
)

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
        """As of `MemoryStore`."""
        checked_name("the name of a workspace", name)
        with self._transaction():
            self._make(name)

    def insert(self, memory: Memory) -> Memory:
        """As of `MemoryStore`."""
        with self._transaction():
            row = accepted_one(memory, self._taken)
            self._add([row])
        return row

    def insert_many(self, memories: Iterable[Memory], *, progress: Progress | None = None) -> int:
        """As of `MemoryStore`."""
        given = list(memories)
        with self._transaction(reads=True):
            rows = accepted(given, self._taken)
        for start in range(0, len(rows), BATCH):
            with self._transaction():
                self._add(rows[start : start + BATCH])
            if progress is not None:
                progress(min(start + BATCH, len(rows)), len(rows))
        return len(rows)

    def update(self, workspace: str, id: str, *, at: str | None = None, **changes: Any) -> Memory:  # noqa: A002
        """As of `MemoryStore`."""
        with self._transaction():
            ended, new = successor(self._versions(workspace, id)[-1], at, changes)
            self._succeed(ended, new)
        return new

    def get(self, workspace: str, id: str, *, at: str | None = None) -> Memory:  # noqa: A002
        """As of `MemoryStore`."""
        with self._transaction(reads=True):
            return version_at(self._versions(workspace, id), at)

    def relate(self, relationship: Relationship) -> None:
        """As of `MemoryStore`."""
        check_relationship(relationship)
        with self._transaction():
            self._relate(relationship, there=True)

    def unrelate(self, relationship: Relationship) -> None:
        """As of `MemoryStore`."""
        check_relationship(relationship)
        with self._transaction():
            if not self._relate(relationship, there=False):
                raise unknown("no such relationship is there:", relationship)

    def relationships(self, workspace: str, id: str) -> tuple[Relationship, ...]:  # noqa: A002
        """As of `MemoryStore`."""
        with self._transaction(reads=True):
            return tuple(self._links(workspace, id))

    def catalog(self, workspace: str) -> Catalog:
        """As of `MemoryStore`."""
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

    def record(self, event: Event, *more: Event) -> None:
        """As of `MemoryStore`; of several all are kept, or none."""
        rows = [checked_event(one) for one in (event, *more)]
        with self._transaction():
            for one in rows:
                self._state(one.workspace)  # which must be there, though a context may have held nothing
                for id_ in things_of(one):
                    if self._seen(one.workspace, one.user, one.at, id_) is None:
                        who = "everybody" if one.user is None else f"user {one.user!r:.60}"  # and nothing of another's
                        what = f"there is no {id_!r:.60} in workspace {one.workspace!r} that {who} sees at {one.at}"
                        raise ParameterError(f"{one.kind}: {what}; expected the id of a file, message or memory")
            self._record(rows)

    def events(self, workspace: str) -> tuple[Event, ...]:
        """As of `MemoryStore`."""
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
        """As of `MemoryStore`."""
        moment = None if time is None else time_named("time", time)
        with self._transaction(reads=True):
            key = cache(partial(self._seen, workspace, user, moment))

            def before(**of: str | None) -> Iterator[Event]:
                return (one for one in self._events(workspace, **of) if moment is None or str(one.at) <= moment)

            said = [] if conversation is None else before(conversation=conversation)
            referred = referred_to(one for one in said if one.user in (None, user))
            recent: dict[ItemKey, None] = {}
            for one in before(kind="access", user=user):
                if (file := key(one.id)) and file.type == "file":
                    recent.setdefault(file)
                if len(recent) == RECENT:
                    break
            counts = useful_counts(before(kind="feedback", user=user))
            return Request(
                id=id,
                text=text,
                explicit=tuple(found for one in referred if (found := key(one))),
                recent=tuple(recent),
                uses=tuple((found, count) for one, count in sorted(counts.items()) if (found := key(one))),
                user=user,
                workspace=workspace,
                conversation=conversation,
                time=time,
            )

    def _seen(self, workspace: str, user: str | None, at: str | None, id_: str) -> ItemKey | None:
        """The version of a memory that was there at a time, if it was and this user sees it."""
        if not self._taken(workspace, [id_]):
            return None
        versions = self._versions(workspace, id_)
        if at is not None and at < str(versions[0].created):
            return None
        found = version_at(versions, at)
        return item_key(found) if found.user in (None, user) else None

    def revision(self, workspace: str) -> int:
        """As of `MemoryStore`."""
        with self._transaction(reads=True):
            return self._state(workspace)[0]

    @abstractmethod
    def _transaction(self, *, reads: bool = False) -> AbstractContextManager[object]:
        """What happens inside is all kept or nothing, and nobody else is seen to write meanwhile."""

    @abstractmethod
    def _make(self, workspace: str) -> None:
        """Make a workspace, unless it is there."""

    @abstractmethod
    def _taken(self, workspace: str, ids: Sequence[str]) -> list[str]:
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
    def _relate(self, relationship: Relationship, *, there: bool) -> bool:
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
