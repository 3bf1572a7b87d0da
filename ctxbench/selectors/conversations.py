"""Exchanges of a conversation, their files, and stored contexts compared with today's.

An exchange holds names and hashes, not copies of items, so it shows when an item has changed since. A session is one
JSON object of names. Conversations are JSON lines, one exchange per line, which several processes and threads may use.
A line is on disk before `append` returns. After a crash the last line may be cut short: readers skip it, and the next
`append` removes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ctxbench.io.documents import dump_json, parse_json
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, StorageError, UserError
from ctxbench.io.files import exclusive, read_text, readable, write_atomic
from ctxbench.io.rows import Row, read_text_value
from ctxbench.model.candidates import MARGIN, Mode
from ctxbench.model.items import Item, ItemKey, read_key
from ctxbench.model.requests import Message as ChatMessage
from ctxbench.model.requests import Request, SessionItem
from ctxbench.model.resources import Resources
from ctxbench.model.selection import Prompt
from ctxbench.pipelines.pipeline import PipelineError
from ctxbench.selectors.session import Agent, RequestContext, Session, why_absent

FORMAT = 1
FIELDS = (
    *("format", "conversation", "time", "text", "reply", "calls", "requestContext", "content", "removed", "history"),
    *("tool_results", "selector", "settings", "system", "sent", "warnings", "workspace", "user"),
)
_MODES = tuple(mode.name.lower() for mode in Mode)
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
    history: tuple[ChatMessage, ...] = ()
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
            raise ParameterError(Message("selectors.time-malformed", got=self.time))
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
    def messages(self) -> tuple[ChatMessage, ...]:
        """The messages that the exchange adds to the conversation; an empty reply adds none."""
        messages = (ChatMessage("user", self.text), ChatMessage("assistant", self.reply))
        return messages if self.reply else messages[:1]

    @property
    def session_items(self) -> tuple[SessionItem, ...]:
        """The items that the session held then."""
        return tuple(
            SessionItem(context_item.key, context_item.mode)
            for context_item in self.context
            if context_item.mode in ("always", "manual")
        )

    def as_row(self, stored: Iterable[ChatMessage] = ()) -> dict[str, Any]:
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


def read_exchange(row: Row, stored: Mapping[str, ChatMessage]) -> Exchange:
    """Read a line of a conversation store; a wrong field is added to the row's faults and counts as absent.

    Args:
        row: the line.
        stored: earlier messages of its conversation by hash.
    """
    if not is_format(row, FORMAT):
        return Exchange(conversation="?", text="")
    row.refuse_unknown(FIELDS)

    def message(value: Any) -> ChatMessage:
        if isinstance(value, str):
            if value not in stored:
                raise ParameterError(f"names message {value!r}, which the conversation does not hold before this line")
            return stored[value]
        return read_message(value)

    context = Row(row.take("requestContext", dict, {}, required=True), row.faults, row.path, row.line)
    content = row.take("content", dict, {})
    time = row.optional("time", str)
    if time is not None and not _is_time(time):
        row.fault(Message("selectors.time-malformed", got=time))
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
        history=row.read_list("history", message, expected='a hash, or {"role", "content"}'),
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
    row.fault(Message("selectors.other-format", got=version, supported=supported), at="format")
    return False


def read_message(value: Any) -> ChatMessage:
    """A message from `{"role", "content"}`.

    Raises:
        TypeError: it is none.
    """
    return ChatMessage(*_two_texts(value, "role", "content"))


def content_hash(item: Item) -> str:
    """A hash of an item's texts, for the model and for a search."""
    return text_hash(json.dumps([item.prompt_text, item.search_text, *filter(None, [item.body])]))


def prompt_hash(prompt: Prompt) -> str:
    """A hash of a prompt: its messages and tools, in order."""
    return text_hash(json.dumps([[list(message) for message in prompt.messages], list(prompt.tools)]))


def message_hash(message: ChatMessage) -> str:
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


_BOM = b"\xef\xbb\xbf"
_LAST = 64  # bytes of what was read that must still stand where they stood, or the file is another one
_FIELDS = ("format", "id", "selector", "items", "removed", "settings", "workspace", "user")


def write_session(session: Session, path: Path | str) -> None:
    """Write a session, whole or not at all.

    Raises:
        StorageError: the place cannot be written.
    """
    write_atomic(path, dump_json({"format": FORMAT, **session.as_dict()}, indent=2))


def read_session(path: Path | str, agent: Agent) -> Session:
    """Read a session, over the agent as it is now; building a request warns of items that the agent lacks.

    A file without `items` starts a new session: with the agent's `always` items, but those it removes.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is no session, or one of another selector, with file and line.
    """
    file, text = Path(path), read_text(path)
    data = parse_json(text, path=file)
    if not isinstance(data, dict):
        raise InputError([Fault(f'expected a session, {{"items": [{{"id", "mode"}}]}}, got {data!r:.40}', file, 1)])
    faults: list[Fault] = []
    row = Row(data, faults, file, 1, {(name,): _line_of(name, text) for name in data})
    if not is_format(row, FORMAT):
        raise InputError(faults)
    row.refuse_unknown(_FIELDS)
    selector = row.take("selector", str, agent.selector.name)
    if selector != agent.selector.name:
        message = Message("selectors.session-of-other-selector", got=selector, selector=agent.selector.name)
        row.fault(message, at="selector")
    name = row.filled("id") or file.stem
    items = row.read_list("items", _item, expected='{"id", "mode"}')
    removed = row.read_list("removed", read_key, expected="an item id")
    workspace, user = row.filled("workspace"), row.filled("user")
    if data.get("items") is None:
        fresh = Session.start(agent, name, workspace=workspace, user=user)
        items = tuple(item for item in fresh.items if item.key not in removed)
    settings = row.take("settings", dict, {})
    if not faults:
        try:
            return Session(
                id=name,
                agent=agent,
                items=items,
                removed=removed,
                settings=settings,
                workspace=workspace,
                user=user,
            )
        except UserError as error:  # each names what is wrong
            of_settings = isinstance(error, PipelineError) or any(key in str(error) for key in settings)
            row.fault(str(error), at="settings" if of_settings else "items")
    raise InputError(faults)


def _item(value: Any) -> SessionItem:
    if not isinstance(value, dict) or not {"id"} <= set(value) <= {"id", "mode"}:
        raise TypeError
    return SessionItem(read_key(value["id"]), read_text_value(value.get("mode", "manual")))


def _line_of(name: str, text: str) -> int:
    """The 1-based line in which a field's name first occurs before a colon."""
    match = re.search(rf"{re.escape(dump_json(name))}\s*:", text)
    return 1 if match is None else text.count("\n", 0, match.start()) + 1


class ConversationStore:
    """Exchanges by conversation, in the order in which they were stored.

    It follows the file: what other processes add is there at the next call. A file that is not there is empty.
    """

    def __init__(self, path: Path | str) -> None:
        """Name the file, which need not exist; nothing is read yet."""
        self.path = Path(path)
        self._one_thread = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._file: tuple[int, int] | None = None  # which file was read: device and inode
        self._read = self._line = 0  # whole lines read, in bytes and lines
        self._last = self._tail = b""  # the end of what was read, and what follows it without a line end
        self._rows: list[tuple[Exchange, int]] = []
        self._messages: dict[str, dict[str, ChatMessage]] = {}  # by conversation and hash

    def exchanges(self, conversation: str | None = None) -> tuple[Exchange, ...]:
        """All exchanges, or those of one conversation (none if there is no such one).

        Raises:
            StorageError: the file cannot be read.
            InputError: lines are no exchanges; all of them.
        """
        return tuple(exchange for exchange, _ in self.numbered() if conversation in (None, exchange.conversation))

    def numbered(self) -> tuple[tuple[Exchange, int], ...]:
        """All exchanges with their lines, from 1; raises as `exchanges`."""
        with self._one_thread:
            self._follow()
            if not _is_whole(self._tail):
                return tuple(self._rows)
            faults: list[Fault] = []
            exchange = self._exchange(self._tail, self._line + 1, faults)
            if exchange is None or faults:
                raise InputError(faults)
            return (*self._rows, (exchange, self._line + 1))

    def history(self, conversation: str) -> tuple[ChatMessage, ...]:
        """The messages of user and assistant so far, oldest first; raises as `exchanges`."""
        return tuple(message for exchange in self.exchanges(conversation) for message in exchange.messages)

    def append(self, exchange: Exchange) -> None:
        """Write an exchange to the file, whole or not at all.

        Raises:
            StorageError: the disk is full, or the place cannot be written.
            InputError: the file holds lines that are no exchanges.
        """
        with self._alone():
            self._follow()
            messages = self._messages.get(exchange.conversation, {}).values()
            line = (dump_json(exchange.as_row(messages)) + "\n").encode("utf-8")
            size = self._read
            if _is_whole(self._tail):  # written by hand, or cut short by nothing but its line end
                line, size = b"\n" + line, size + len(self._tail)
            try:
                with self.path.open("ab") as stream:
                    stream.truncate(size)
                    try:
                        stream.write(line)
                        stream.flush()
                        os.fsync(stream.fileno())
                    except OSError:
                        stream.truncate(size)
                        raise
            except OSError as error:
                raise StorageError(
                    f"cannot write {self.path}: {error.strerror or error}; the exchange was not stored"
                ) from error
            self._follow()

    def remove(self, conversation: str) -> int:
        """Remove a conversation from the file; returns how many exchanges it had.

        Raises:
            StorageError: the file cannot be read or written; nothing was changed.
            InputError: it holds lines that are no exchanges.
        """
        with self._alone():
            rows = self.numbered()
            gone = {line for exchange, line in rows if exchange.conversation == conversation}
            if gone:
                lines = self.path.read_bytes()[: self._read].split(b"\n")[:-1]
                lines += [self._tail] if _is_whole(self._tail) else []
                remaining = [text for number, text in enumerate(lines, start=1) if number not in gone]
                write_atomic(self.path, b"".join(text + b"\n" for text in remaining))
                self._forget()
            return len(gone)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the file and of this object."""
        with self._one_thread, exclusive(self.path.with_name(f".{self.path.name}.lock"), waiting=lambda: None):
            yield

    def _follow(self) -> None:
        """Read the lines added since the last call; a file that was replaced is read whole."""
        try:
            with readable(self.path).open("rb") as stream:
                at = os.fstat(stream.fileno())
                stream.seek(self._read - len(self._last))
                if self._file != (at.st_dev, at.st_ino) or stream.read(len(self._last)) != self._last:
                    self._forget()
                    self._file = at.st_dev, at.st_ino
                stream.seek(self._read)
                data = stream.read()
        except FileNotFoundError:
            self._forget()
            return
        except OSError as error:
            raise StorageError(f"cannot read {self.path}: {error.strerror or error}; expected a file") from error
        end = data.rfind(b"\n") + 1
        self._tail = data[end:]
        self._take(data[:end])

    def _take(self, data: bytes) -> None:
        """Read complete lines; if one is faulty, the next call reads the file whole."""
        faults: list[Fault] = []
        lines = data.split(b"\n")[:-1]
        for number, raw in enumerate(lines, start=self._line + 1):
            exchange = self._exchange(raw, number, faults) if raw.strip() else None
            if exchange is not None:
                self._rows.append((exchange, number))
                messages = self._messages.setdefault(exchange.conversation, {})
                messages |= {message_hash(message): message for message in (*exchange.history, *exchange.messages)}
        if faults:
            self._forget()
            raise InputError(faults)
        self._read += len(data)
        self._line += len(lines)
        self._last = (self._last + data)[-_LAST:]

    def _exchange(self, raw: bytes, number: int, faults: list[Fault]) -> Exchange | None:
        """The exchange of a line; faults are added to `faults`."""
        try:
            text = (raw.removeprefix(_BOM) if number == 1 else raw).decode("utf-8")
            data = parse_json(text, path=self.path, line=number)
        except UnicodeDecodeError:
            faults.append(Fault(Message("selectors.exchange-malformed"), self.path, number))
            return None
        except InputError as error:
            faults += error.faults
            return None
        if not isinstance(data, dict):
            faults.append(Fault(Message("selectors.exchange-malformed"), self.path, number))
            return None
        conversation = data.get("conversation")
        messages = self._messages.get(conversation, {}) if isinstance(conversation, str) else {}
        return read_exchange(Row(data, faults, self.path, number), messages)


def _is_whole(tail: bytes) -> bool:
    """Whether a last line without a line end is a complete JSON object."""
    try:
        return isinstance(json.loads(tail), dict)
    except (ValueError, RecursionError):
        return False


@dataclass(frozen=True, eq=False, kw_only=True)
class Rebuilt:
    """The messages of a stored request, with the items of its context as they are today.

    Attributes:
        prompt: the messages and tools, by the agent's format.
        edited: ids of items that say something else than they did (also to a search only).
        gone: ids of items that the agent no longer has; they are not in the prompt.
        disabled: ids of items that are not enabled any more; they are in the prompt, as they were sent.
        system_changed: the system prompt is another.
        same: the prompt is the one that was sent.
    """

    prompt: Prompt
    edited: tuple[str, ...]
    gone: tuple[str, ...]
    disabled: tuple[str, ...]
    system_changed: bool
    same: bool

    def as_dict(self) -> dict[str, Any]:
        """The differences as JSON."""
        return {
            "same": self.same,
            "edited": list(self.edited),
            "gone": list(self.gone),
            "disabled": list(self.disabled),
            "system_changed": self.system_changed,
        }


def rebuild(exchange: Exchange, agent: Agent) -> Rebuilt:
    """Build the messages of a stored exchange again, and list the items that changed since.

    With nothing changed they are the messages that were sent, to the character. Of an item that was edited all is sent,
    whatever part of it was.
    """
    pairs = [(context_item, agent.item(context_item.key)) for context_item in exchange.context]
    present = [(context_item, item) for context_item, item in pairs if item is not None]
    request = Request(id=exchange.conversation, text=exchange.text, history=exchange.history)
    spans = [
        context_item.shown if context_item.content == content_hash(item) else None for context_item, item in present
    ]
    prompt = agent.messages.prompt(request, [item for _, item in present], spans)
    return Rebuilt(
        prompt=prompt,
        edited=tuple(item.id for context_item, item in present if context_item.content != content_hash(item)),
        gone=tuple(context_item.key.id for context_item, item in pairs if item is None),
        disabled=tuple(item.id for _, item in present if not item.enabled),
        system_changed=exchange.system != text_hash(agent.messages.system),
        same=prompt_hash(prompt) == exchange.sent,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextChange:
    """One item that the selector would treat otherwise today.

    Attributes:
        id: which.
        before, now: (mode, score) then and today; None where it was, or would be, left out.
        why: of an item left out today, the reason; else empty.
    """

    id: str
    before: tuple[str, float | None] | None
    now: tuple[str, float | None] | None
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The change as JSON."""
        before, after = (None if at is None else {"mode": at[0], "score": at[1]} for at in (self.before, self.now))
        return {"id": self.id, "before": before, "now": after, **({"why": self.why} if self.why else {})}


@dataclass(frozen=True, eq=False, kw_only=True)
class ContextComparison:
    """A stored request context compared with the one that the same request would get today.

    Attributes:
        came: would be offered today and was not.
        went: was offered and would not be today.
        moved: offered both times, with another mode, or a score that differs by more than 1e-5.
        context: that of today.
    """

    came: tuple[ContextChange, ...]
    went: tuple[ContextChange, ...]
    moved: tuple[ContextChange, ...]
    context: RequestContext

    @property
    def same(self) -> bool:
        """Whether the items, their modes and their scores are equal."""
        return not (self.came or self.went or self.moved)

    def as_dict(self) -> dict[str, Any]:
        """The comparison as JSON."""
        parts = {"came": self.came, "went": self.went, "moved": self.moved}
        return {"same": self.same, **{name: [change.as_dict() for change in part] for name, part in parts.items()}}


def compare(exchange: Exchange, agent: Agent, resources: Resources) -> ContextComparison:
    """Run the agent's selector again on a stored request: same text, session, removed items and settings.

    Raises:
        ParameterError: the exchange is of another selector.
        CtxbenchError: the search fails; here that is no warning.
    """
    if exchange.selector != agent.selector.name:
        raise ParameterError(
            f"the exchange was selected by {exchange.selector!r}, and the agent has {agent.selector.name!r}; compare "
            "with an agent of the same selector"
        )
    context = Session(
        id=exchange.conversation,
        agent=agent,
        items=exchange.session_items,
        removed=exchange.removed,
        settings=exchange.settings,
        workspace=exchange.workspace,
        user=exchange.user,
    ).request(exchange.text, resources, history=exchange.history, tool_results=exchange.tool_results)
    if context.failure is not None:
        raise context.failure
    before = {context_item.key.id: (context_item.mode, context_item.score) for context_item in exchange.context}
    after = {offered.id: (offered.mode, offered.score) for offered in context.selection.chosen}
    rules = {excluded.id: str(excluded.rule) for excluded in context.selection.left_out}
    return ContextComparison(
        came=tuple(ContextChange(id=id_, before=None, now=at) for id_, at in after.items() if id_ not in before),
        went=tuple(
            ContextChange(id=id_, before=at, now=None, why=rules.get(id_) or _why_out(id_, agent))
            for id_, at in before.items()
            if id_ not in after
        ),
        moved=tuple(
            ContextChange(id=id_, before=before[id_], now=at)
            for id_, at in after.items()
            if id_ in before and _differs(before[id_], at)
        ),
        context=context,
    )


def _differs(before: tuple[str, float | None], after: tuple[str, float | None]) -> bool:
    if before[0] != after[0] or before[1] is None or after[1] is None:
        return before != after
    return abs(before[1] - after[1]) > MARGIN


def _why_out(id_: str, agent: Agent) -> str:
    """Why an item without a rule is not offered."""
    item = agent.item(id_)
    if item is None or not item.enabled:
        return why_absent(item)
    if item.include == "agent":
        return Message("selectors.item-not-retrieved")
    return Message("selectors.item-not-searched", mode=item.include)
