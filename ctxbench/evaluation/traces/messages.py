"""Messages as logs have them (OpenAI, Anthropic, OpenTelemetry): who said what, called what, and got what back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ctxbench.evaluation.traces.records import Call, get
from ctxbench.requests import Message

_UNKNOWN_TOOL = re.compile(
    r"(?:unknown|no such|unrecogni[sz]ed|undefined|non-?existent) (?:tool|function)"
    r"|(?:tool|function)\b.{0,100}?\b(?:not found|does not exist|doesn't exist|is not (?:available|defined|known))"
    r"|is not a (?:known|valid) (?:tool|function)|Tool_?Not_?Found",
    re.IGNORECASE | re.DOTALL,
)
_ERROR = re.compile(r"\W*(?:error|exception|traceback|fatal|failed)\b", re.IGNORECASE)
_LOOKED_AT = 400  # characters at the start of a result in which an error is looked for


@dataclass(frozen=True, slots=True)
class Said:
    """One message.

    Attributes:
        role: `user`, `assistant`, `system` or `tool`; a user's message that only holds results is `tool`.
        text: all that is text in it.
        calls: (call id or None, name).
        results: (call id or None, status).
    """

    role: str
    text: str
    calls: tuple[tuple[str | None, str], ...] = ()
    results: tuple[tuple[str | None, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Exchange:
    """A list of messages, taken apart at the user's last one.

    Attributes:
        text: the user's last message; None if there is none.
        history, after: what user and assistant said before and after it.
        users: how many messages are the user's.
        key: tells what was said up to the user's last message from anything else, within one process.
        continued: something comes after it.
        finished: the last message is an answer, without a call.
        calls: those after it; before it nothing is of this turn. All of them if there is no user's message.
    """

    text: str | None
    history: tuple[Message, ...]
    after: tuple[Message, ...]
    users: int
    key: int
    continued: bool
    finished: bool
    calls: tuple[Call, ...]


def read_messages(value: Any) -> list[Said]:
    """The messages of a list, or of JSON text that holds one; a text that is no JSON is a message of the user's.

    Raises:
        TypeError: something in it is no message.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return [Said("user", value)]
        if not isinstance(value, list | dict):
            return [Said("user", str(value))]
    if isinstance(value, dict):
        value = value.get("messages", [value])
    if not isinstance(value, list):
        raise TypeError
    return [_said(entry) for entry in value]


def exchange(messages: Sequence[Said], *, history: int) -> Exchange:
    """Take a list of messages apart.

    Args:
        messages: oldest first.
        history: how many messages of the history are kept, the latest; 0 keeps none.
    """
    places = [i for i, said in enumerate(messages) if said.role == "user"]
    last = places[-1] if places else -1
    after = messages[last + 1 :]
    return Exchange(
        text=messages[last].text if places else None,
        history=_spoken(messages[: max(last, 0)])[-history:] if history else (),
        after=_spoken(after),
        users=len(places),
        key=hash(tuple((said.role, said.text) for said in messages[: last + 1] if said.role != "system")),
        continued=bool(after) and bool(places),
        finished=bool(after) and after[-1].role == "assistant" and not after[-1].calls,
        calls=calls_of(after),
    )


def calls_of(messages: Iterable[Said]) -> tuple[Call, ...]:
    """The calls that messages hold, with the status that the results among them show; `ok` where there is none.

    A result without an id is that of the oldest call that has none yet.
    """
    calls: list[Call] = []
    waiting: list[int] = []
    for said in messages:
        for call_id, name in said.calls:
            waiting.append(len(calls))
            calls.append(Call(name, "ok", call_id))
        for call_id, status in said.results:
            place = next((i for i in waiting if call_id is None or calls[i].id == call_id), None)
            if place is not None:
                waiting.remove(place)
                calls[place] = Call(calls[place].name, status, calls[place].id)
    return tuple(calls)


def error_status(text: str) -> str:
    """`unknown_tool` or `error`, for a call that failed with this message."""
    return "unknown_tool" if _UNKNOWN_TOOL.search(text[:_LOOKED_AT]) else "error"


def result_status(text: str) -> str:
    """The status of a call that ended with this result: an error says so in its first word."""
    head = text[:_LOOKED_AT].lstrip()
    if len(text) < _LOOKED_AT and _UNKNOWN_TOOL.search(head):
        return "unknown_tool"
    return error_status(head) if _ERROR.match(head) else "ok"


def plain_text(value: Any) -> str:
    """The text of what may be a text, parts of a message, or any JSON."""
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


def _spoken(messages: Iterable[Said]) -> tuple[Message, ...]:
    return tuple(Message(i.role, i.text) for i in messages if i.role in ("user", "assistant") and i.text)


def _said(entry: Any) -> Said:
    if not isinstance(entry, dict):
        raise TypeError
    content = get(entry, "parts", "content")
    if content is not None and not isinstance(content, str | list | dict):
        raise TypeError
    parts = [part for part in (content if isinstance(content, list) else []) if isinstance(part, dict)]
    calls = [_call(part) for part in parts if part.get("type") in ("tool_call", "tool_use", "function_call")]
    given = entry.get("tool_calls")
    if isinstance(given, str):  # in attributes of spans
        given = json.loads(given) if given.strip().startswith("[") else None
    calls += [_call(call) for call in given or () if isinstance(call, dict)]
    results = [_result(part) for part in parts if part.get("type") in ("tool_call_response", "tool_result")]
    role = str(entry.get("role") or "user").casefold()
    text = plain_text(content)
    if role in ("tool", "function") and not results:
        results = [(_text_or_none(get(entry, "tool_call_id", "id")), result_status(text))]
    if role == "user" and results and not text:
        role = "tool"
    role = {"human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool"}.get(
        role, role
    )
    return Said(role, text, tuple(call for call in calls if call[1]), tuple(results))


def _call(part: Mapping[str, Any]) -> tuple[str | None, str]:
    function = part.get("function")
    name = get(function if isinstance(function, dict) else part, "name", "tool_name")
    return _text_or_none(get(part, "id", "call_id")), str(name or "")


def _result(part: Mapping[str, Any]) -> tuple[str | None, str]:
    text = plain_text(get(part, "response", "result", "content") or "")
    call_id = _text_or_none(get(part, "id", "tool_use_id", "tool_call_id"))
    return call_id, error_status(text) if part.get("is_error") is True else result_status(text)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)
