"""Events: users refer to memories, open them, and judge whether they were useful, or a context sufficient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ctxbench.core.errors import ParameterError, check_choice
from ctxbench.core.items import ItemKey
from ctxbench.stores.memories import checked_metadata, checked_name, name_if_any, time_named

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
            expected = f"{ASKED!r} with context (its id), text, time, and items, a list of ids of items"
            raise ParameterError(f"{where}metadata: expected {expected}")
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


def useful_counts(events: Iterable[Event]) -> Counter[str]:
    """How often each id was judged useful, from feedback events; ids that never were are left out."""
    return Counter(event.id for event in events if event.useful)
