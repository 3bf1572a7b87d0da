"""One exchange: what the user asked, what was replied, and the request context that the reply came from.

It holds names and hashes, not copies of items, so that it says when an item has changed since.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from ctxbench.core.candidates import Mode
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Item, ItemKey
from ctxbench.core.requests import Message, SessionItem
from ctxbench.core.selection import Prompt
from ctxbench.io.rows import Row, read_key, read_text_value
from ctxbench.session.session import RequestContext

FORMAT = 1
FIELDS = (
    *("format", "conversation", "time", "text", "reply", "calls", "requestContext", "content", "removed", "history"),
    *("tool_results", "selector", "settings", "system", "sent", "warnings", "workspace", "user"),
)
_MODES = tuple(mode.name.lower() for mode in Mode)
_TIME = "such as 2026-03-23T09:30:00+00:00"
_DIGITS = 16  # of a hash that tells one text from another; 64 bits


@dataclass(frozen=True, slots=True)
class Held:
    """One item of a stored request context.

    Attributes:
        key: which item.
        mode: `always`, `manual`, `agent`, `expansion` or `explicit`.
        score: None for what the session held.
        content: hash of what the item said when it was sent.
        shown: the part of its prompt text that was sent; None = all.
    """

    key: ItemKey
    mode: str
    score: float | None
    content: str
    shown: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A request and its reply, as stored.

    Attributes:
        conversation: the session's id.
        text: what the user asked.
        reply: what the assistant said; may be empty where it only called tools.
        calls: tools that it called, by item id or by the name in the log, in order, repeats included.
        context: the request context, in its order.
        removed: what was removed from the session then.
        history: the earlier messages that were sent.
        tool_results: (tool, text) that the request came with.
        selector: its name.
        settings: values of all its parameters.
        system: hash of the system prompt.
        sent: hash of the messages and tools that were sent.
        warnings: what could not be had.
        time: of the reply, ISO 8601, or None.
        workspace, user: whose chat it was, or None.
    """

    conversation: str
    text: str
    reply: str = ""
    calls: tuple[str, ...] = ()
    context: tuple[Held, ...] = ()
    removed: tuple[ItemKey, ...] = ()
    history: tuple[Message, ...] = ()
    tool_results: tuple[tuple[str, str], ...] = ()
    selector: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    system: str = ""
    sent: str = ""
    warnings: tuple[str, ...] = ()
    time: str | None = None
    workspace: str | None = None
    user: str | None = None

    def __post_init__(self) -> None:
        if not self.conversation:
            raise ParameterError("an exchange needs the id of its conversation, got an empty text")
        if self.time is not None and not _is_time(self.time):
            raise ParameterError(f"time must be ISO 8601, {_TIME}, got {self.time!r}")
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    @classmethod
    def of(cls, context: RequestContext, reply: str, *, calls: Iterable[str] = (), time: str | None = None) -> Exchange:
        """The exchange to store with a reply.

        Args:
            context: what the request was given.
            reply: what the assistant said.
            calls: the tools that it called.
            time: of the reply, ISO 8601.
        """
        session, request = context.session, context.request
        catalog = session.agent.catalog
        items = [(offered, catalog[catalog.position(offered.id)]) for offered in context.selection.chosen]
        return cls(
            conversation=session.id,
            text=request.text,
            reply=reply,
            calls=tuple(calls),
            context=tuple(
                Held(item.key, offered.mode, offered.score, content_hash(item), offered.span) for offered, item in items
            ),
            removed=session.removed,
            history=request.history,
            tool_results=request.tool_results,
            selector=session.agent.selector.name,
            settings=session.settings,
            system=text_hash(session.agent.messages.system),
            sent=prompt_hash(context.prompt),
            warnings=context.warnings,
            time=time,
            workspace=session.workspace,
            user=session.user,
        )

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages that the exchange adds to the conversation; an empty reply adds none."""
        messages = (Message("user", self.text), Message("assistant", self.reply))
        return messages if self.reply else messages[:1]

    @property
    def session_items(self) -> tuple[SessionItem, ...]:
        """The items that the session held then."""
        return tuple(
            SessionItem(context_item.key, context_item.mode)
            for context_item in self.context
            if context_item.mode in ("always", "manual")
        )

    def as_row(self, stored: Iterable[Message] = ()) -> dict[str, Any]:
        """The exchange as a line of a conversation store; what is empty is left out, but text and reply.

        Args:
            stored: messages that the conversation holds before; those of the history among them are named by hash.
        """
        stored_messages = set(stored)
        row: dict[str, Any] = {
            "format": FORMAT,
            "conversation": self.conversation,
            "time": self.time,
            "text": self.text,
            "reply": self.reply,
            "calls": list(self.calls),
            "requestContext": {"items": [_context_row(context_item) for context_item in self.context]},
            "content": {context_item.key.id: context_item.content for context_item in self.context},
            "removed": [key.id for key in self.removed],
            "history": [
                message_hash(message)
                if message in stored_messages
                else {"role": message.role, "content": message.content}
                for message in self.history
            ],
            "tool_results": [{"tool": tool, "text": text} for tool, text in self.tool_results],
            "selector": self.selector,
            "settings": dict(self.settings),
            "system": self.system,
            "sent": self.sent,
            "warnings": list(self.warnings),
            "workspace": self.workspace,
            "user": self.user,
        }
        row_fields = ("conversation", "text", "reply", "requestContext")
        return {name: value for name, value in row.items() if value or name in row_fields}


def read_exchange(row: Row, stored: Mapping[str, Message]) -> Exchange:
    """Read a line of a conversation store; a wrong field is added to the row's faults and counts as absent.

    Args:
        row: the line.
        stored: earlier messages of its conversation by hash.
    """
    if not is_format(row, FORMAT):
        return Exchange(conversation="?", text="")
    row.refuse_unknown(FIELDS)

    def message(value: Any) -> Message:
        if isinstance(value, str):
            if value not in stored:
                raise ParameterError(f"names message {value!r}, which the conversation does not hold before this line")
            return stored[value]
        return read_message(value)

    if "requestContext" not in row.data:
        row.fault("field 'requestContext' is missing; expected {\"items\": [...]}")
    context = Row(row.take("requestContext", dict, {}), row.faults, row.path, row.line)
    content = row.take("content", dict, {})
    time = row.optional("time", str)
    if time is not None and not _is_time(time):
        row.fault(f"field 'time' must be ISO 8601, {_TIME}, got {time!r}")
        time = None
    return Exchange(
        conversation=row.take("conversation", str, "", required=True) or "?",
        text=row.take("text", str, ""),
        reply=row.take("reply", str, ""),
        calls=row.read_list("calls", read_text_value, expected="a text"),
        context=context.read_list(
            "items", lambda value: _read_held(value, content), expected='{"type", "name", "includeMode"}'
        ),
        removed=row.read_list("removed", read_key, expected="an item id"),
        history=row.read_list("history", message, expected='the hash of an earlier message, or {"role", "content"}'),
        tool_results=row.read_list(
            "tool_results", lambda value: _two_texts(value, "tool", "text"), expected='{"tool", "text"}, both texts'
        ),
        selector=row.take("selector", str, ""),
        settings=row.take("settings", dict, {}),
        system=row.take("system", str, ""),
        sent=row.take("sent", str, ""),
        warnings=row.read_list("warnings", read_text_value, expected="a text"),
        time=time,
        workspace=row.filled("workspace"),
        user=row.filled("user"),
    )


def is_format(row: Row, supported: int) -> bool:
    """Whether a row has the supported format, which is the default; if not, that is its only fault."""
    version = row.data.get("format", supported)
    if type(version) is int and version == supported:
        return True
    row.fault(
        f"its format is {version!r}, this version reads {supported}; read it with the version that wrote it",
        at="format",
    )
    return False


def read_message(value: Any) -> Message:
    """A message from `{"role", "content"}`.

    Raises:
        TypeError: it is none.
    """
    return Message(*_two_texts(value, "role", "content"))


def content_hash(item: Item) -> str:
    """A hash of an item's texts, for the model and for a search."""
    return text_hash(json.dumps([item.prompt_text, item.search_text, *filter(None, [item.body])]))


def prompt_hash(prompt: Prompt) -> str:
    """A hash of a prompt: its messages and tools, in order."""
    return text_hash(json.dumps([[list(message) for message in prompt.messages], list(prompt.tools)]))


def message_hash(message: Message) -> str:
    """A hash of a message."""
    return text_hash(json.dumps([message.role, message.content]))


def text_hash(text: str) -> str:
    """The first 64 bits of SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _context_row(context_item: Held) -> dict[str, Any]:
    row = {
        "type": context_item.key.type,
        "name": context_item.key.name,
        "serverName": context_item.key.server,
        "includeMode": context_item.mode,
        "similarityScore": context_item.score,
        "shown": None if context_item.shown is None else list(context_item.shown),
    }
    return {name: value for name, value in row.items() if value is not None}


def _read_held(value: Any, content: Mapping[str, Any]) -> Held:
    if not isinstance(value, dict) or not {"type", "name", "includeMode"} <= set(value):
        raise TypeError
    if value["includeMode"] not in _MODES:
        raise ParameterError(f"includeMode must be one of {', '.join(_MODES)}, got {value['includeMode']!r}")
    score = value.get("similarityScore")
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float)):
        raise ParameterError(f"similarityScore must be a number, got {score!r}")
    server = value.get("serverName")
    kind, name = read_text_value(value["type"]), read_text_value(value["name"])
    key = ItemKey(kind, None if server is None else read_text_value(server), name)
    content_value, span = read_text_value(content.get(key.id, "")), value.get("shown")
    if span is not None and not (isinstance(span, list) and [type(end) for end in span] == [int, int]):
        raise ParameterError(f"shown must be two places in the prompt text, [from, to], got {span!r}")
    part = None if span is None else (span[0], span[1])
    return Held(key, value["includeMode"], None if score is None else float(score), content_value, part)


def _two_texts(value: Any, first: str, second: str) -> tuple[str, str]:
    """The two texts of an object with exactly these two fields."""
    if not isinstance(value, dict) or set(value) != {first, second}:
        raise TypeError
    return read_text_value(value[first]), read_text_value(value[second])
