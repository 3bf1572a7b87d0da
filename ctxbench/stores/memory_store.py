"""The protocol of memory stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from ctxbench.core.items import Catalog
from ctxbench.core.requests import Request
from ctxbench.stores.events import Event
from ctxbench.stores.memories import Memory, Progress, Relationship


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
