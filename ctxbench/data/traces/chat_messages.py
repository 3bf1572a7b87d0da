"""Read chat messages in the forms of OpenAI, Anthropic and OpenTelemetry: roles, texts, calls and their results.

`message_forms` brings those of other libraries into these forms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ctxbench.core.requests import Message
from ctxbench.data.traces.message_forms import plain_messages
from ctxbench.data.traces.records import Call, Interner, MessageSummary, Record, get, text_or_none
from ctxbench.data.traces.responses import HOSTED, LIKE_CALLS

_UNKNOWN_TOOL = re.compile(
    r"(?:unknown|no such|unrecogni[sz]ed|undefined|non-?existent) (?:tool|function)"
    r"|(?:tool|function)\b.{0,100}?\b(?:not found|does not exist|doesn't exist|is not (?:available|defined|known))"
    r"|is not a (?:known|valid) (?:tool|function)|Tool_?Not_?Found",
    re.IGNORECASE | re.DOTALL,
)
_ERROR = re.compile(
    r"\W*(?:traceback \(most|an (?:error|exception) (?:occurred|was)"
    r"|(?:\w+\.)*\w*(?:error|exception)[\"']?(?!\s*:\s*(?:null|false|0|\[\]|\"\"))\s*(?:[:!\])(]|$|\d|[-–—]\s|(?:code|occurred|in|at|while|when|with|from)\b|\w+ing\b)"
    r"|fatal\s*(?:[:!]|error|$)|failed\s*(?:[:!]|$|[-–—]\s|(?:to|with|while|when)\b))",
    re.IGNORECASE,
)
_EXCEPTION_NAME = re.compile(
    r"Tool_?Not_?Found"
)  # the name of an exception, which says it without the name of the tool
_MEMBERS = ("error", "errors", "exception", "isError", "is_error")  # of a result that is an object: an error if true
_ERROR_LENGTH = 400  # characters at the start of a result in which an error is looked for
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool"}
_CALLS = ("tool_call", "tool_use", "function_call", "mcp_tool_use")  # types of parts
_RESULTS = ("tool_call_response", "tool_result", "mcp_tool_result")
_NO_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a chat.

    Attributes:
        role: `user`, `assistant`, `system` or `tool`; a user's message that holds results is `tool`, since what
            stands beside them is the client's.
        text: all that is text in it.
        calls: (call id or None, name).
        results: of calls.
        unread: how many calls it has that cannot be read.
    """

    role: str
    text: str
    calls: tuple[tuple[str | None, str], ...] = ()
    results: tuple[Result, ...] = ()
    unread: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call.

    Attributes:
        call: its id, or None.
        text: of the result.
        failed: the message says that it is an error; None if it says nothing.
    """

    call: str | None
    text: str
    failed: bool | None = None


def read_messages(value: Any) -> list[ChatMessage]:
    """Read messages from a list, or from its JSON text; a text that is no JSON is a message of the user's.

    Raises:
        TypeError: something in it is no message.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return [ChatMessage("user", value)]
        if not isinstance(value, list | dict):
            return [ChatMessage("user", str(value))]
    if isinstance(value, dict):
        value = value.get("messages", [value])
    if not isinstance(value, list):
        raise TypeError
    if not all(isinstance(entry, dict) for entry in value):
        raise TypeError
    return [_message(plain) for entry in value for plain in plain_messages(entry)]


def summarise_messages(messages: Sequence[ChatMessage], *, history: int) -> MessageSummary:
    """Summarise a list of messages, divided at the last message of the user.

    Args:
        messages: oldest first.
        history: how many of the latest messages before it the summary has; 0 = none.
    """
    user_positions = [i for i, message in enumerate(messages) if message.role == "user"]
    last = user_positions[-1] if user_positions else -1
    after = messages[last + 1 :]
    return MessageSummary(
        text=messages[last].text if user_positions else None,
        history=_dialogue(messages[: max(last, 0)])[-history:] if history else (),
        after=_dialogue(after),
        users=len(user_positions),
        key=hash(tuple((message.role, message.text) for message in messages[: last + 1] if message.role != "system")),
        continued=bool(after) and bool(user_positions),
        finished=bool(after) and after[-1].role == "assistant" and not after[-1].calls,
        calls=calls_of(after),
        unread=sum(message.unread for message in after),
        earlier=sum(len(message.calls) for message in messages[: last + 1]),
        user_hashes=tuple(hash(messages[i].text) for i in user_positions),
    )


def set_summary(record: Record, messages: Sequence[ChatMessage], interner: Interner) -> None:
    """Set the fields of a record that its messages give."""
    summary = summarise_messages(messages, history=interner.history)
    for attribute in fields(summary):
        setattr(record, attribute.name, getattr(summary, attribute.name))
    record.history, record.after = interner.messages(summary.history), interner.messages(summary.after)


def calls_of(messages: Iterable[ChatMessage]) -> tuple[Call, ...]:
    """The calls in messages, with their status by the results among the messages; `ok` where there is no result.

    A result without an id is that of the oldest call that has none yet.
    """
    calls: list[Call] = []
    waiting: list[int] = []
    for message in messages:
        for call_id, name in message.calls:
            waiting.append(len(calls))
            calls.append(Call(name, "ok", call_id))
        for result in message.results:
            index = next((i for i in waiting if result.call is None or calls[i].id == result.call), None)
            if index is not None:
                waiting.remove(index)
                status = result_status(result.text, calls[index].name, failed=result.failed)
                calls[index] = Call(calls[index].name, status, calls[index].id, guessed=True)
    return tuple(calls)


def result_status(text: str, name: str, *, failed: bool | None = None) -> str:
    """The status of a call of a tool that ended with this result.

    A result that is JSON says so by a member that is true; any other by how it begins. That there is no such tool is
    only taken from a result that names the tool: others may be about something else that is missing.

    Args:
        text: of the result.
        name: of the tool.
        failed: the log says that it failed, or did not; None if it says nothing.
    """
    head = text[:_ERROR_LENGTH].lstrip()
    wrong = _is_error(text) if failed is None else failed
    if wrong and _EXCEPTION_NAME.search(head):
        return "unknown_tool"
    if (wrong or len(text) < _ERROR_LENGTH) and _UNKNOWN_TOOL.search(head) and _names(head, name):
        return "unknown_tool"
    return "error" if wrong else "ok"


def same_tool(tool: str, second_tool: str) -> bool:
    """Whether two names may be of one tool: they are equal, or one has a server in front of the other."""
    first, second = (_NO_LETTERS.sub("_", name.casefold()).strip("_") for name in (tool, second_tool))
    return first == second or first.endswith(f"_{second}") or second.endswith(f"_{first}")


def _is_error(text: str) -> bool:
    plain = text.strip()
    try:
        value = json.loads(plain) if plain[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        denied = value.get("success") is False or value.get("ok") is False or value.get("status") == "error"
        return denied or any(value.get(name) for name in _MEMBERS)
    return value is None and bool(_ERROR.match(plain[:_ERROR_LENGTH]))


def _names(text: str, name: str) -> bool:
    """Whether a text holds the name of a tool, with or without the server in front of it."""
    words = f"_{_NO_LETTERS.sub('_', text.casefold())}_"
    parts = _NO_LETTERS.sub("_", name.casefold()).strip("_")
    last = re.split(r"__+|[./:]+", name.casefold().strip("_"))[-1]
    return bool(parts) and (f"_{parts}_" in words or f"_{_NO_LETTERS.sub('_', last).strip('_') or parts}_" in words)


def plain_text(value: Any) -> str:
    """The text in a content: a text, parts of a message, or any JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = (plain_text(part) for part in value if not isinstance(part, dict) or _is_text(part))
        return "\n".join(filter(None, parts))
    if isinstance(value, dict) and _is_text(value):
        return plain_text(get(value, "text", "content") or "")
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _is_text(part: Mapping[str, Any]) -> bool:
    return part.get("type", "text") in ("text", "input_text", "output_text") and ("text" in part or "content" in part)


def _dialogue(messages: Iterable[ChatMessage]) -> tuple[Message, ...]:
    return tuple(Message(i.role, i.text) for i in messages if i.role in ("user", "assistant") and i.text)


def _message(entry: Mapping[str, Any]) -> ChatMessage:
    """A message in the plain form."""
    content = entry.get("content")
    if content is not None and not isinstance(content, str | list | dict):
        raise TypeError
    parts = [part for part in (content if isinstance(content, list) else []) if isinstance(part, dict)]
    calls, unread = _calls(entry.get("tool_calls"))
    calls = [*(_call(part) for part in parts if part.get("type") in _CALLS), *calls]
    unread += sum(part.get("type") not in (*_CALLS, HOSTED) and _is_like_call(part) for part in parts)
    results = [_result(part) for part in parts if part.get("type") in _RESULTS]
    role = str(entry.get("role") or "user").casefold()
    text = plain_text(content)
    if role in ("tool", "function") and not results:
        failed = entry.get("is_error")
        call_id = text_or_none(get(entry, "tool_call_id", "id"))
        results = [Result(call_id, text, failed if isinstance(failed, bool) else None)]
    role = "tool" if role == "user" and results else _ROLES.get(role, role)
    named = tuple(call for call in calls if call[1])
    return ChatMessage(role, text, named, tuple(results), unread + len(calls) - len(named))


def _calls(value: Any) -> tuple[list[tuple[str | None, str]], int]:
    """The calls of a message's own list, and how many entries are none."""
    if isinstance(value, str):  # in attributes of spans
        value = json.loads(value) if value.strip().startswith("[") else [value] if value.strip() else None
    entries = value if isinstance(value, list) else [] if value is None else [value]
    calls = [_call(call) for call in entries if isinstance(call, dict)]
    return calls, len(entries) - len(calls)


def _is_like_call(part: Mapping[str, Any]) -> bool:
    """Whether a part may be a call in an unknown form."""
    kind = part.get("type")
    return isinstance(kind, str) and bool(LIKE_CALLS.fullmatch(kind))


def _call(part: Mapping[str, Any]) -> tuple[str | None, str]:
    function = part.get("function")
    name = get(function if isinstance(function, dict) else part, "name", "tool_name")
    return text_or_none(get(part, "id", "call_id")), str(name or "")


def _result(part: Mapping[str, Any]) -> Result:
    text = plain_text(get(part, "response", "result", "content") or "")
    call_id = text_or_none(get(part, "tool_use_id", "tool_call_id", "id"))
    return Result(call_id, text, True if part.get("is_error") is True else None)
