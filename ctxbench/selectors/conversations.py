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
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import ConfigDict, Field

from ctxbench.io.documents import YamlPath, dump_json, parse_json
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, StorageError, UserError, raise_faults
from ctxbench.io.files import exclusive, read_text, readable, write_atomic
from ctxbench.io.rows import read_text_value
from ctxbench.model.candidates import MARGIN
from ctxbench.model.formats import (
    FileModel,
    NullAs,
    Source,
    Texts,
    field_names,
    field_path,
    parsed,
    validate,
    validate_partly,
)
from ctxbench.model.items import Item, ItemKey
from ctxbench.model.requests import Message as ChatMessage, Request, SessionItem
from ctxbench.model.resources import Resources
from ctxbench.model.selection import Prompt
from ctxbench.pipelines.pipeline import PipelineError
from ctxbench.selectors.session import Agent, RequestContext, Session, why_absent

FORMAT = 1
_DIGITS = 16  # of a hash of a text; 64 bits


@dataclass(frozen=True, slots=True)
class Held:
    """One item of a stored request context.

    Attributes:
        key: which item.
        mode: `always`, `manual`, `agent`, `expansion` or `explicit`.
        score: None for what the session held.
        content: hash of the texts of the item when it was sent.
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


def _read_key(value: Any) -> ItemKey:
    """An item's key from its id."""
    if not isinstance(value, str):
        raise ParameterError(Message("selectors.item-id-malformed", value=value))
    return ItemKey.parse(value)


def _read_time(value: Any) -> Any:
    """A time, checked."""
    if isinstance(value, str) and not _is_time(value):
        raise ParameterError(Message("selectors.time-malformed", got=value))
    return value


Key: TypeAlias = Annotated[ItemKey, parsed(_read_key, str)]
Filled: TypeAlias = Annotated[str, Field(min_length=1)]
T = TypeVar("T")
Text: TypeAlias = Annotated[str, NullAs("")]
Rows: TypeAlias = Annotated[Texts[T], NullAs(())]
Values: TypeAlias = Annotated[dict[str, Any], NullAs({})]


class MessageRow(FileModel):
    """A message of a conversation."""

    noun = "a message"
    role: Literal["system", "developer", "user", "assistant", "tool", "function"] = Field(description="Who wrote it.")
    content: str = Field(description="Its text.")

    def message(self) -> ChatMessage:
        """The message."""
        return ChatMessage(self.role, self.content)


class ToolResultRow(FileModel):
    """The result of a tool."""

    noun = "a tool result"
    tool: str = Field(description="The tool.")
    text: str = Field(description="What it returned.")


class ContextItemRow(FileModel):
    """An item of a stored request context; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")
    noun = "an item of a context"
    type: str = Field(description="The type of the item.")
    name: str = Field(description="Its name.")
    serverName: str | None = Field(None, description="The server of a tool.")
    includeMode: Literal["always", "manual", "agent", "expansion", "explicit"] = Field(
        description="How it came into the context."
    )
    similarityScore: float | None = Field(None, description="Its score, if it was searched for.")
    shown: Annotated[tuple[int, int], Field(strict=False)] | None = Field(
        None, description="The part of its prompt text that was sent: two positions; by default all."
    )

    @property
    def key(self) -> ItemKey:
        """The key of the item."""
        return ItemKey(self.type, self.serverName, self.name)


class ContextRow(FileModel):
    """A stored request context; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")
    noun = "a request context"
    items: Rows[ContextItemRow] = Field((), description="Its items, in order.")


class ExchangeRow(FileModel):
    """A line of a conversation store."""

    noun = "an exchange"
    format: int = Field(FORMAT, description="The version of the format.")
    conversation: Filled = Field(description="The id of the conversation.")
    time: Annotated[str | None, parsed(_read_time, str)] = Field(None, description="The time of the reply, ISO 8601.")
    text: Text = Field("", description="What the user asked.")
    reply: Text = Field("", description="What the assistant said.")
    calls: Rows[str] = Field((), description="The tools that it called, in order.")
    requestContext: Annotated[ContextRow, NullAs(ContextRow())] = Field(description="What the request was given.")
    content: Values = Field({}, description="By the id of an item, a hash of its texts.")
    removed: Rows[Key] = Field((), description="Ids of items that were removed from the session.")
    history: Rows[str | MessageRow] = Field((), description="Earlier messages; a hash names one of this conversation.")
    tool_results: Rows[ToolResultRow] = Field((), description="Results of tools that the request came with.")
    selector: Text = Field("", description="The name of the selector.")
    settings: Values = Field({}, description="Values of all its parameters.")
    system: Text = Field("", description="A hash of the system prompt.")
    sent: Text = Field("", description="A hash of the messages and tools that were sent.")
    warnings: Rows[str] = Field((), description="What was missing, a sentence each.")
    workspace: Filled | None = Field(None, description="The workspace of the chat.")
    user: Filled | None = Field(None, description="The user of the chat.")

    def faults(self, context: Any) -> Iterator[tuple[YamlPath, str]]:
        """Check that the conversation holds the messages that hashes name, and the hashes of the items' texts."""
        for index, entry in enumerate(self.history):
            if isinstance(entry, str) and entry not in context:
                yield ("history", index), Message("selectors.message-unknown", hash=entry)
        for item in self.requestContext.items:
            if not isinstance(value := self.content.get(item.key.id, ""), str):
                where = ("content", item.key.id)
                yield where, Message("model.wrong-value", field=field_path(where), expected="a text", value=value)


FIELDS = field_names(ExchangeRow)


def read_exchange(
    data: Mapping[str, Any], source: Source, stored: Mapping[str, ChatMessage]
) -> tuple[Exchange | None, list[Fault]]:
    """Read a line of a conversation store; None if anything is wrong, with all faults.

    Args:
        data: the line.
        source: where it is from.
        stored: earlier messages of its conversation by hash.
    """
    if faults := _other_format(data, source):
        return None, faults
    row, faults = validate(ExchangeRow, data, source, context=stored)
    if row is None:
        return None, faults
    keys = ("conversation", "text", "reply", "calls", "removed", "selector", "settings", "system", "sent", "warnings")
    exchange = Exchange(
        context=tuple(
            Held(item.key, item.includeMode, item.similarityScore, row.content.get(item.key.id, ""), item.shown)
            for item in row.requestContext.items
        ),
        history=tuple(stored[entry] if isinstance(entry, str) else entry.message() for entry in row.history),
        tool_results=tuple((result.tool, result.text) for result in row.tool_results),
        **{name: getattr(row, name) for name in (*keys, "time", "workspace", "user")},
    )
    return exchange, []


def _other_format(data: Mapping[str, Any], source: Source) -> list[Fault]:
    """The only fault of data in another format; none if its format is the supported one, which is the default."""
    version = data.get("format", FORMAT)
    if type(version) is int and version == FORMAT:
        return []
    return [source.fault(Message("selectors.other-format", got=version, supported=FORMAT), "format")]


def read_message(value: Any) -> ChatMessage:
    """A message from `{"role", "content"}`.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, dict) or set(value) != {"role", "content"}:
        raise TypeError
    return ChatMessage(read_text_value(value["role"]), read_text_value(value["content"]))


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


_BOM = b"\xef\xbb\xbf"
_LAST = 64  # bytes at the end of what was read; if they differ at the next look, the file is another one


class SessionItemRow(FileModel):
    """An item of a session."""

    noun = "an item of a session"
    id: Key = Field(description="The id of the item.")
    mode: str = Field("manual", description="How it came into the session: `always` or `manual`.")


class SessionFile(FileModel):
    """A session file."""

    noun = "a session"
    format: int = Field(FORMAT, description="The version of the format.")
    id: Annotated[Filled, NullAs("")] = Field(
        "", description="The id of the conversation; by default the name of the file."
    )
    selector: str | None = Field(None, description="The name of the agent's selector.")
    items: Texts[SessionItemRow] | None = Field(
        None, description="The items of the session; by default those that the agent always includes."
    )
    removed: Rows[Key] = Field((), description="Ids of items that were removed from the session.")
    settings: Values = Field({}, description="Values of the selector's parameters.")
    workspace: Filled | None = Field(None, description="The workspace of the chat.")
    user: Filled | None = Field(None, description="The user of the chat.")


def write_session(session: Session, path: Path | str) -> None:
    """Write a session, whole or not at all.

    Raises:
        StorageError: the place cannot be written.
    """
    write_atomic(path, dump_json({"format": FORMAT, **session.as_dict()}, indent=2))


def read_session(path: Path | str, agent: Agent, text: str | None = None) -> Session:
    """Read a session of the agent. Building a request warns of items that the agent lacks.

    A file without `items` starts a new session: with the agent's `always` items, but those it removes. With `text`
    nothing is read: that is the session, and the path its name.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is no session, or one of another selector, with file and line.
    """
    file, text = Path(path), read_text(path) if text is None else text
    data = parse_json(text, path=file)
    if not isinstance(data, dict):
        raise InputError([Fault(f'expected a session, {{"items": [{{"id", "mode"}}]}}, got {data!r:.40}', file, 1)])
    source = Source(file, {(): 1, **{(name,): _line_of(name, text) for name in data}})
    raise_faults(_other_format(data, source))
    content, faults = validate_partly(SessionFile, data, source)
    if content.selector not in (None, agent.selector.name):
        values = {"got": content.selector, "selector": agent.selector.name}
        faults.append(source.fault(Message("selectors.session-of-other-selector", **values), "selector"))
    raise_faults(faults)
    owner: dict[str, Any] = {"workspace": content.workspace, "user": content.user}
    name = content.id or file.stem
    try:
        if content.items is None:
            fresh = Session.start(agent, name, **owner)
            items = tuple(item for item in fresh.items if item.key not in content.removed)
        else:
            items = tuple(SessionItem(item.id, item.mode) for item in content.items)
        return Session(id=name, agent=agent, items=items, removed=content.removed, settings=content.settings, **owner)
    except UserError as error:  # each names what is wrong
        of_settings = isinstance(error, PipelineError) or any(key in str(error) for key in content.settings)
        raise InputError([source.fault(str(error), "settings" if of_settings else "items")]) from error


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
            if (exchange := self._exchange(self._tail, self._line + 1, faults)) is None:
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
            if gone := {line for exchange, line in self.numbered() if exchange.conversation == conversation}:
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
        exchange, row_faults = read_exchange(data, Source(self.path, line=number), messages)
        faults += row_faults
        return exchange


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
        edited: ids of items whose texts have changed, for the model or for searches.
        gone: ids of items that the agent no longer has; they are not in the prompt.
        disabled: ids of items that are no longer enabled; they are in the prompt, as they were sent.
        system_changed: whether the system prompt has changed.
        same: whether the prompt is the one that was sent.
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
    """One item that the selector would treat differently today.

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
    if (item := agent.item(id_)) is None or not item.enabled:
        return why_absent(item)
    if item.include == "agent":
        return Message("selectors.item-not-retrieved")
    return Message("selectors.item-not-searched", mode=item.include)
