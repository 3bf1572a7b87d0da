"""Records of a log, and chat messages in the formats of providers and libraries.

Sources: OpenAI's chat completions (`choices`) and responses (`output`), `function_call` of OpenAI's first tools,
Anthropic's messages (`content`), Gemini (`candidates`, `functionCall`), Bedrock's Converse (`toolUse`); the AI SDK's
`ModelMessage` (https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message), `UIMessage`
(https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message; `toolInvocations` before version 5) and results of
`generateText` (https://ai-sdk.dev/docs/reference/ai-sdk-core/generate-text).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from ctxbench.io.errors import Fault
from ctxbench.model.requests import Message

STATUSES = ("ok", "error", "unknown_tool")


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call.

    Attributes:
        name: as in the log.
        status: `ok`, `error` (the call failed) or `unknown_tool` (there was no such tool).
        id: of the call, to find repeated ones; None if the log has none.
        guessed: the status was guessed from the text of a result.
    """

    name: str
    status: str = "ok"
    id: str | None = None
    guessed: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class NestedCall:
    """A model call of a sub-agent or a helper: the offered items (None: not in the log) and the calls."""

    offered: tuple[str, ...] | None
    calls: tuple[Call, ...]


@dataclass(slots=True, kw_only=True)
class MessageSummary:
    """Summary of a list of messages, divided at the last message of the user.

    Attributes:
        text: the last user message; None if there is none.
        history, after: messages of user and assistant before and after it, oldest first.
        users: the number of user messages.
        key: a hash of the messages up to the last user message, valid within one process.
        continued: messages follow the last user message, so this is not the first call of its turn.
        finished: the last message is an answer without a call.
        calls: the calls after the last user message; all calls if there is none.
        unread: the number of unreadable calls after the last user message.
        earlier: the number of calls before the last user message.
        user_hashes: a hash of each user message, oldest first.
    """

    text: str | None = None
    history: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    users: int = 0
    key: int = 0
    continued: bool = False
    finished: bool = False
    calls: tuple[Call, ...] = ()
    unread: int = 0
    earlier: int = 0
    user_hashes: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class Record(MessageSummary):
    """One line of a log, or one model call, with the summary of its messages.

    Attributes:
        position: 1-based position in the log, over all files.
        conversation: None if it is not in the log.
        turn: the number of the turn, if it is in the log.
        time: seconds since 1970, if it is in the log.
        offered: names of offered items; None if they are not in the log.
        all_offered: the log has a mark that everything was offered.
        partly_offered: the log has a mark that not everything was offered.
        available: names of the items available to the request; None if they are not in the log.
        scope: the name of a scope of the dataset of the catalog.
        needs_nothing: the log has a mark that the request needs nothing.
        session, explicit: names of items, with modes for the session; None and empty if they are not in the log.
        tool_results: (tool, text) pairs of the request.
        cumulative: `calls` come from messages, which later records of the turn repeat.
        executed: calls from the spans of their execution.
        unit: records of one unit (a trace, an invocation of an agent) with the same `key` are of one turn.
        nested: model calls of sub-agents and helpers that belong to this one.
        doubtful: it is uncertain which text is the user's, or which records belong to it.
    """

    position: int
    conversation: str | None = None
    turn: int | None = None
    time: float | None = None
    user: str | None = None
    workspace: str | None = None
    offered: tuple[str, ...] | None = None
    all_offered: bool = False
    partly_offered: bool = False
    available: tuple[str, ...] | None = None
    scope: str | None = None
    needs_nothing: bool = False
    session: tuple[tuple[str, str], ...] | None = None
    explicit: tuple[str, ...] = ()
    tool_results: tuple[tuple[str, str], ...] = ()
    cumulative: bool = False
    executed: tuple[Call, ...] = ()
    unit: str | None = None
    nested: tuple[NestedCall, ...] = ()
    doubtful: bool = False


@dataclass
class LogFindings:
    """Counts and faults of logs; `datasets/traces.md` has a table of the counts.

    Attributes:
        counts: by name.
        faults: unreadable lines and spans, with file and line.
        ignored: counts of ignored fields.
        unread: counts of unreadable fields with responses or calls.
        span_names: counts of names of spans.
        roles: roles of messages, of lines and model calls without a user message.
        outside: counts of calls of a coding agent's tools, which no catalog has.
        skew: the largest step back between two times that should follow each other, in seconds.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    span_names: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)
    skew: float = 0.0

    def count_skew(self, seconds: float) -> None:
        """Count a time that is before the previous one."""
        self.counts["clock_skew"] += 1
        self.skew = max(self.skew, seconds)


class Interner:
    """Stores equal values as one object: a log repeats the messages of a conversation in each line.

    Attributes:
        history: how many earlier messages a record keeps at most.
    """

    def __init__(self, *, history: int = 0) -> None:
        self.history = history
        self._messages: dict[Message, Message] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages, each as the first equal object."""
        return tuple(self._messages.setdefault(message, message) for message in messages)

    def names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names, as the first equal object."""
        return self._names.setdefault(names, names)


def seconds(value: Any) -> float | None:
    """Convert a time of a log into seconds since 1970; None if it is not a time.

    Numbers (also as texts) are seconds, milli-, micro- or nanoseconds, by their size; other texts are ISO 8601, by
    default in UTC.
    """
    if isinstance(value, str):
        try:
            value = int(value)
        except ValueError:
            return _iso(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e21:
        return None
    while value >= 1e11:  # in seconds that would be the year 5138
        value /= 1000
    return float(value)


def _iso(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    timestamp = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return timestamp if timestamp > 0 else None


def text_or_none(value: Any) -> str | None:
    """An id as text; None if it is empty."""
    return None if value is None else str(value) or None


def get(data: Mapping[str, Any], *names: str) -> Any:
    """The first value of some fields that is not null."""
    return next((data[name] for name in names if data.get(name) is not None), None)


_OF_MESSAGES = ("role", "content", "tool_calls", "toolCalls", "function_call", "parts")
_CALL_ITEMS = ("function_call", "custom_tool_call")  # types of items of OpenAI's responses
_FIRST_ALONE = ("choices", "candidates")  # only the first answer is read
_NO_ANSWERS = ("request", "input", "arguments", "args", "tools", "parameters")  # fields that hold no calls of an answer
LIKE_CALLS = re.compile(r"(?:\w+[-_])?(?:tool|function)[-_]?(?:call|use|invocation)s?", re.IGNORECASE)
"""Types of parts that may be calls."""
HOSTED = "server_tool_use"  # a call of a tool that the provider runs
_OF_CALLS = re.compile(
    r"call|invo[ck]|tools?_?use[sd]?|expected|forbidden|must_?(?:not_?)?(?:use|include)", re.IGNORECASE
)
_STREAM = re.compile(r"\s*(?:data:\s*[\[{]|event:[^\n]*\n|[0-9a-f]:[\[{\"]|\{[^\n]*\}\s*\n\s*\{)")


def parsed(value: Any) -> Any:
    """An object or a list from its JSON text; other values are unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def is_stream(text: str) -> bool:
    """Whether a text is a streamed response (events, or one object per line)."""
    return _STREAM.match(text) is not None


def call_names(value: Any) -> set[str]:
    """The names of all possible calls in a response."""
    if isinstance(value, list):
        return {name for entry in value for name in call_names(entry)}
    if not isinstance(value, dict):
        return set()
    names: set[str] = set()
    for key, inner in value.items():
        if key in ("tool_calls", "toolCalls") and isinstance(inner, list):
            names |= {name for call in inner if (name := _called(call))}
        elif key in ("function_call", "functionCall", "toolUse") and (name := _called(inner)):
            names.add(name)
        elif key not in _NO_ANSWERS:
            names |= call_names(inner[:1] if key in _FIRST_ALONE and isinstance(inner, list) else inner)
    kind = value.get("type")
    if isinstance(kind, str) and kind != HOSTED and LIKE_CALLS.fullmatch(kind) and (name := _called(value)):
        names.add(name)
    return names


def holds_calls(field: str, value: Any) -> bool:
    """Whether an unread field seems to have calls or labels, by its name or content."""
    value = parsed(value)
    return (
        isinstance(value, list | dict) and bool(value) and bool(_OF_CALLS.search(field) or call_names({field: value}))
    )


def _called(call: Any) -> str:
    if not isinstance(call, dict):
        return ""
    function = call.get("function")
    source = function if isinstance(function, dict) else call
    return next((source[key] for key in ("name", "toolName", "tool_name") if isinstance(source.get(key), str)), "")


def read_response(response: Any) -> list[Any] | None:
    """The messages of a response; empty for an error.

    Returns:
        None if the form is unknown, or if the response has calls that its messages do not have.
    """
    messages = _messages_of(response)
    return None if messages is not None and call_names(response) - call_names(messages) else messages


def _messages_of(response: Any) -> list[Any] | None:
    if isinstance(response, list):
        return _read_list(response)
    if not isinstance(response, dict):
        return None
    choices, candidates = response.get("choices"), response.get("candidates")
    if isinstance(choices, list):
        return _first_choice(choices[0]) if choices else []
    if isinstance(candidates, list):
        return [
            candidate["content"]
            for candidate in candidates[:1]
            if isinstance(candidate, dict) and "content" in candidate
        ]
    for source, name in ((response, "output"), (response, "messages"), (response.get("response"), "messages")):
        items = source.get(name) if isinstance(source, dict) else None
        if isinstance(items, list):
            return list(input_messages(items))
    if isinstance(response.get("message"), dict):
        return read_response(response["message"])
    if any(response.get(name) is not None for name in _OF_MESSAGES) and "text" not in response:
        return [{"role": "assistant", **response}]
    if any(isinstance(response.get(name), str | list) for name in ("text", "toolCalls", "tool_calls")):
        return [{"role": "assistant", "content": response.get("text"), **_calls_of(response)}]
    return [] if response.get("error") else None


def input_messages(value: Any) -> Iterator[Any]:
    """The items of OpenAI responses as messages, without reasoning and tools that the provider ran."""
    if isinstance(value, str):
        yield {"role": "user", "content": value}
        return
    for item in value:
        kind = (item.get("type") or "message") if isinstance(item, dict) else "message"
        if kind in _CALL_ITEMS:
            yield _call_message(item.get("call_id") or item.get("id"), item)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
        elif kind == "mcp_call":
            yield _call_message(item.get("id"), item)
            failed = {"is_error": True} if item.get("error") else {}
            yield {"role": "tool", "tool_call_id": item.get("id"), "content": item.get("output"), **failed}
        elif kind == "message" or "role" in item:
            yield item


def _call_message(call: Any, item: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [{"id": call, "function": {"name": item.get("name")}}]}


def _calls_of(response: Mapping[str, Any]) -> dict[str, Any]:
    return {name: response[name] for name in ("toolCalls", "tool_calls") if response.get(name) is not None}


def _first_choice(choice: Any) -> list[Any] | None:
    """The message of a choice, or its text; None for a part of a stream."""
    if isinstance(choice, dict) and isinstance(choice.get("message"), dict):
        return [choice["message"]]
    if isinstance(choice, dict) and isinstance(choice.get("text"), str):
        return [{"role": "assistant", "content": choice["text"]}]
    return None


def _read_list(response: list[Any]) -> list[Any] | None:
    """The messages of a list of messages, parts of an answer, or calls."""
    if not response or not all(isinstance(entry, dict) for entry in response):
        return None if response else []
    if all("role" in entry or str(entry.get("type", "")).endswith(("_call", "_output")) for entry in response):
        return list(input_messages(response))
    if all("toolName" in entry and "type" not in entry for entry in response):
        return [{"role": "assistant", "content": "", "toolCalls": response}]
    if all(isinstance(entry.get("type"), str) for entry in response):
        is_known = any(entry["type"] == "text" or "tool" in entry["type"] for entry in response)
        return [{"role": "assistant", "content": response}] if is_known else None
    return None


_FAILED = ("output-error", "output-denied")  # states of a part of a UI message
_DONE = ("output-available", "result", *_FAILED)


def plain_messages(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A message as one or several in the plain form; a UI message is split into texts, calls and results."""
    parts = get(entry, "parts", "content")
    parts = [_part(part) for part in parts] if isinstance(parts, list) else parts
    if isinstance(entry.get("toolInvocations"), list) and not _has_invocations(parts):
        invocations = [
            {"type": "tool-invocation", "toolInvocation": invocation} for invocation in entry["toolInvocations"]
        ]
        content = parts if isinstance(parts, list) else [{"type": "text", "text": parts}] if parts else []
        parts = [*invocations, *content]
    if _has_invocations(parts):
        return list(_steps(entry, parts))
    calls = get(entry, "tool_calls", "toolCalls")
    legacy = entry.get("function_call")
    calls = [legacy] if calls is None and isinstance(legacy, dict) else calls
    plain = {name: value for name, value in entry.items() if name not in ("parts", "toolCalls", "toolInvocations")}
    return [{**plain, "content": parts, "tool_calls": plain_calls(calls)}]


def plain_calls(calls: Any) -> Any:
    """A list of calls, with calls of the AI SDK as parts; other values are unchanged."""
    if not isinstance(calls, list):
        return calls
    return [
        _part({"type": "tool-call", **call}) if isinstance(call, dict) and "toolName" in call else call
        for call in calls
    ]


def _part(part: Any) -> Any:
    """A part in the plain form; unchanged if its form is unknown."""
    if not isinstance(part, dict):
        return part
    kind = part.get("type")
    if kind == "tool-call" and "toolName" in part:
        return {"type": "tool_call", "id": part.get("toolCallId"), "name": part["toolName"]}
    if kind in ("tool-result", "tool-error") and "toolCallId" in part:
        output = get(part, "output", "result", "error")
        inner = str(output.get("type", "")) if isinstance(output, dict) and "type" in output else ""
        failed = kind == "tool-error" or part.get("isError") is True or inner in ("error-text", "error-json")
        value = get(output, "value", "reason") if inner else output
        return _result_part(part["toolCallId"], value, failed=failed or inner == "execution-denied")
    for name in ("functionCall", "function_call", "toolUse"):
        if isinstance(part.get(name), dict):
            call = part[name]
            return {"type": "tool_call", "id": get(call, "id", "toolUseId"), "name": call.get("name")}
    for name in ("functionResponse", "function_response", "toolResult"):
        if isinstance(part.get(name), dict):
            result = part[name]
            failed = result.get("status") == "error"
            return _result_part(get(result, "id", "toolUseId"), get(result, "response", "content"), failed=failed)
    return part


def _result_part(call: Any, value: Any, *, failed: bool) -> dict[str, Any]:
    return {"type": "tool_result", "tool_call_id": call, "content": value} | ({"is_error": True} if failed else {})


def _has_invocations(parts: Any) -> bool:
    return isinstance(parts, list) and any(_invocation(part) is not None for part in parts)


def _invocation(part: Any) -> tuple[str, Mapping[str, Any]] | None:
    """The name of the tool and the invocation in a part of a UI message; None for other parts."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind in ("tool-approval-request", "tool-approval-response"):
        return None
    inner = part.get("toolInvocation")
    if kind == "tool-invocation" and isinstance(inner, dict):
        return str(inner.get("toolName") or ""), inner
    if kind == "dynamic-tool":
        return str(part.get("toolName") or ""), part
    if kind.startswith("tool-") and ("state" in part or "toolCallId" in part):
        return kind.removeprefix("tool-"), part
    return None


def _steps(entry: Mapping[str, Any], parts: list[Any]) -> Iterator[dict[str, Any]]:
    """The steps of a UI message: a text with its calls, then their results, then the next text."""
    role = entry.get("role", "assistant")
    content: list[Any] = []
    results: list[dict[str, Any]] = []
    for part in parts:
        invocation = _invocation(part)
        if invocation is None:
            if results and isinstance(part, dict) and part.get("type") in ("text", "step-start"):
                yield {"role": role, "content": content}
                yield {"role": "tool", "content": results}
                content, results = [], []
            content.append(part)
            continue
        name, call = invocation
        content.append({"type": "tool_call", "id": call.get("toolCallId"), "name": name})
        state = call.get("state")
        if state in _DONE:
            value = get(call, "output", "result", "errorText")
            results.append(_result_part(call.get("toolCallId"), value, failed=state in _FAILED))
    if content:
        yield {"role": role, "content": content}
    if results:
        yield {"role": "tool", "content": results}


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
_EXCEPTION_NAME = re.compile(r"Tool_?Not_?Found")  # an exception that does not name the tool
_MEMBERS = ("error", "errors", "exception", "isError", "is_error")  # members of results that mark an error
_ERROR_LENGTH = 400  # characters at the start of a result that are searched for an error
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool"}
_CALL_PARTS = ("tool_call", "tool_use", "function_call", "mcp_tool_use")  # types of parts
_RESULTS = ("tool_call_response", "tool_result", "mcp_tool_result")
_NO_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a chat.

    Attributes:
        role: `user`, `assistant`, `system` or `tool`; a user message with results is `tool`, as its text is written by
            the client.
        text: all text parts.
        calls: (call id or None, name).
        results: results of calls.
        unread: the number of unreadable calls.
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
        call: the id of the call, or None.
        text: the text of the result.
        failed: whether it is marked as an error; None without a mark.
    """

    call: str | None
    text: str
    failed: bool | None = None


def read_messages(value: Any) -> list[ChatMessage]:
    """Read messages from a list, or from its JSON text; other text is a user message.

    Raises:
        TypeError: an entry is not a message.
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
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise TypeError
    return [_message(plain) for entry in value for plain in plain_messages(entry)]


def summarise_messages(messages: Sequence[ChatMessage], *, history: int) -> MessageSummary:
    """Summarise a list of messages, divided at the last user message.

    Args:
        messages: oldest first.
        history: the number of messages to keep before the last user message.
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
    """Set the fields of a record from its messages."""
    summary = summarise_messages(messages, history=interner.history)
    for attribute in fields(summary):
        setattr(record, attribute.name, getattr(summary, attribute.name))
    record.history, record.after = interner.messages(summary.history), interner.messages(summary.after)


def calls_of(messages: Iterable[ChatMessage]) -> tuple[Call, ...]:
    """The calls in messages, with their status from the results; `ok` without a result.

    A result without an id belongs to the oldest call without a result.
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
    """The status of a call, from its result.

    A JSON result is an error if it has a true member such as `error`; other results are errors by their first words.
    The status is `unknown_tool` only if the result names the tool, as something else could be missing.

    Args:
        text: the text of the result.
        name: the name of the tool.
        failed: whether the log marks the call as failed; None without a mark.
    """
    head = text[:_ERROR_LENGTH].lstrip()
    wrong = _is_error(text) if failed is None else failed
    if wrong and _EXCEPTION_NAME.search(head):
        return "unknown_tool"
    if (wrong or len(text) < _ERROR_LENGTH) and _UNKNOWN_TOOL.search(head) and _names(head, name):
        return "unknown_tool"
    return "error" if wrong else "ok"


def same_tool(tool: str, second_tool: str) -> bool:
    """Whether two names may be of one tool: they are equal, or differ by a server prefix."""
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
    """Whether a text has the name of a tool, with or without its server prefix."""
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
    calls = [*(_call(part) for part in parts if part.get("type") in _CALL_PARTS), *calls]
    others = [str(part.get("type")) for part in parts if part.get("type") not in (*_CALL_PARTS, HOSTED)]
    unread += sum(LIKE_CALLS.fullmatch(kind) is not None for kind in others)
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
    """The calls in the list of a message, and the number of other entries."""
    if isinstance(value, str):  # in attributes of spans
        value = json.loads(value) if value.strip().startswith("[") else [value] if value.strip() else None
    entries = value if isinstance(value, list) else [] if value is None else [value]
    calls = [_call(call) for call in entries if isinstance(call, dict)]
    return calls, len(entries) - len(calls)


def _call(part: Mapping[str, Any]) -> tuple[str | None, str]:
    function = part.get("function")
    name = get(function if isinstance(function, dict) else part, "name", "tool_name")
    return text_or_none(get(part, "id", "call_id")), str(name or "")


def _result(part: Mapping[str, Any]) -> Result:
    text = plain_text(get(part, "response", "result", "content") or "")
    call_id = text_or_none(get(part, "tool_use_id", "tool_call_id", "id"))
    return Result(call_id, text, True if part.get("is_error") is True else None)
