"""What users do with what is kept: refer to it in a conversation, open it, find it useful or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ctxbench.core.errors import ParameterError, check_choice
from ctxbench.stores.memories import checked_metadata, checked_name, name_if_any, time_named

ASKED = "asked"
"""Key of a feedback's metadata where a service keeps what was asked: `context` and `item` (ids), `text`, `time`."""
_OF_ASKED = ("context", "item", "text", "time")
EVENTS = ("reference", "unreference", "access", "feedback")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """That something was done with a file, message or memory. A store checks it when it is given.

    Attributes:
        kind: `reference` (a conversation refers to it from now on), `unreference` (and from now on no more), `access`
            (it was opened) or `feedback` (it was useful in an answer, or was not).
        workspace, id: of what it was done with.
        user: who did it; None = nobody in particular. Opened and useful it was to this user alone; a reference of
            nobody's holds for everybody in the conversation.
        conversation: where; references need one.
        at: when, ISO 8601, without an offset UTC; not before it was there. None = when it is recorded.
        useful: of feedback, which needs it, and of nothing else.
        metadata: anything else, as JSON; see `ASKED`.
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
    """An event in the form in which it is kept: `at` in UTC, `metadata` as JSON has it.

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
    if event.kind == "feedback" and not isinstance(event.useful, bool):
        raise ParameterError(f"{where}useful must be true or false, got {event.useful!r:.60}")
    if event.kind != "feedback" and event.useful is not None:
        raise ParameterError(f"{where}useful belongs to feedback; leave it out")
    metadata = checked_metadata(f"{where}metadata", event.metadata)
    if ASKED in metadata:
        asked = metadata[ASKED]
        if not isinstance(asked, dict) or not all(isinstance(asked.get(name), str) for name in _OF_ASKED):
            raise ParameterError(f"{where}metadata: {ASKED!r} is what a service keeps there; take another name")
    return replace(event, at=time_named(f"{where}at", event.at), metadata=metadata)


def referred_to(events: Iterable[Event]) -> list[str]:
    """What a conversation refers to after some references, the latest first: ids, in the order of their reference."""
    standing: dict[str, None] = {}
    for event in reversed(list(events)):
        if event.kind == "reference":
            standing.setdefault(event.id)
        elif event.kind == "unreference":
            standing.pop(event.id, None)
    return list(standing)


def useful_counts(events: Iterable[Event]) -> Counter[str]:
    """How often each thing was found useful, by id; what never was is not in it."""
    return Counter(event.id for event in events if event.useful)
