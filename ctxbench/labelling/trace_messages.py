"""Records of a log, and chat messages in the formats of providers and libraries.

Sources: OpenAI's chat completions (`choices`) and responses (`output`), `function_call` of OpenAI's first tools,
streams of OpenAI and Anthropic (https://platform.openai.com/docs/api-reference/chat-streaming,
https://docs.anthropic.com/en/docs/build-with-claude/streaming), Anthropic's messages (`content`), Gemini (`candidates`,
`functionCall`), Bedrock's Converse (`toolUse`), LangChain's messages as objects and as constructors (`lc`;
https://python.langchain.com/api_reference/core/messages.html), OpenInference's messages; the AI SDK's
`ModelMessage` (https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message), `UIMessage`
(https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message; `toolInvocations` before version 5) and results of
`generateText` (https://ai-sdk.dev/docs/reference/ai-sdk-core/generate-text).
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import groupby, pairwise
from typing import Any, TypeGuard, TypeVar

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


@dataclass(slots=True, kw_only=True)
class MessageSummary:
    """Summary of a list of messages, divided at the last message of the user.

    Attributes:
        text: the last user message; None if there is none.
        history, after: messages of user and assistant before and after it, oldest first.
        users: the number of user messages.
        key: a hash of the messages up to the last user message.
        continued: messages follow the last user message, so this is not the first call of its turn.
        finished: the last message is an answer without a call.
        calls: the calls after the last user message; all calls if there is none.
        unread: the number of unreadable calls after the last user message.
        earlier: the number of calls before the last user message.
        failed: the calls of the turn before, of which the messages have a failed result.
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
    failed: tuple[Call, ...] = ()
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
        exposure: `full` or `partial`, if the log has a mark that everything was offered, or that not all was.
        available: names of the items available to the request; None if they are not in the log.
        scope: the name of a scope of the dataset of the catalog.
        needs: `nothing`, if the log has a mark that the request needs nothing.
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
    exposure: str | None = None
    available: tuple[str, ...] | None = None
    scope: str | None = None
    needs: str | None = None
    session: tuple[tuple[str, str], ...] | None = None
    explicit: tuple[str, ...] = ()
    tool_results: tuple[tuple[str, str], ...] = ()
    cumulative: bool = False
    executed: tuple[Call, ...] = ()
    unit: str | None = None
    nested: tuple[Record, ...] = ()
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
        outside: counts of calls of a coding agent's tools, which no catalog has.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    ignored: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    span_names: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)


T = TypeVar("T")


class Interner:
    """Stores equal values as one object: a log repeats the messages of a conversation in each line.

    Attributes:
        history: how many earlier messages a record keeps at most.
        responses: the records of responses by the ids of these.
    """

    def __init__(self, *, history: int = 0) -> None:
        self.history = history
        self._values: dict[Any, Any] = {}
        self.responses: dict[str, Record] = {}

    def first(self, key: Any, value: T) -> T:
        """The first value of a key: `value` if it is new."""
        first: T = self._values.setdefault(key, value)
        return first

    def messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages, each as the first equal object."""
        return tuple(self.first(message, message) for message in messages)

    def names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The names, as the first equal object."""
        return self.first(names, names)


def seconds(value: Any) -> float | None:
    """Convert a time of a log into seconds since 1970; None if it is not a time.

    Numbers (also as texts) are seconds, milli-, micro- or nanoseconds, by their size; pairs are seconds and
    nanoseconds; other texts are ISO 8601, by default in UTC.
    """
    if isinstance(value, list) and len(value) == 2 and all(isinstance(part, int) for part in value):
        value = value[0]
    if isinstance(value, str):
        try:
            moment = None if value.isdecimal() else datetime.fromisoformat(value)
            aware = moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
            value = int(value) if aware is None else aware.timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e21:
        return None
    while value >= 1e11:  # in seconds that would be the year 5138
        value /= 1000
    return float(value)


def stable_hash(*texts: str) -> int:
    """A hash of texts that is the same in every process."""
    return int.from_bytes(blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).digest())


def text_or_none(value: Any) -> str | None:
    """An id as text; None if it is empty."""
    return None if value is None else str(value) or None


def get(data: Mapping[str, Any], *names: str) -> Any:
    """The first value of some fields that is not null."""
    return next((data[name] for name in names if data.get(name) is not None), None)


_LISTS = ("tool_calls", "toolCalls")
_NO_ANSWERS = (*_LISTS, "request", "input", "arguments", "args", "tools", "parameters")  # without calls of an answer
_FIRST_ALONE = ("choices", "candidates", "generations")  # only the first answer is read
_OF_MESSAGES = ("content", "parts", "tool_calls", "toolCalls", "function_call")
_REQUESTS = ("messages", "input", "contents", "prompt", "args")  # fields of a body with the messages of a request
LIKE_CALLS = re.compile(r"(?:\w+[-_])?(?:tool|function|mcp)[-_]?(?:call|use|invocation)s?", re.IGNORECASE)
_UI_CALL = re.compile(r"tool-(?!(?:approval|call|error|input|invocation|output|result)\b)(.+)")  # a type of UI messages
_TEXT_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)  # of Hermes, Qwen
_LIKE_RESULTS = re.compile(r"(?:mcp_|custom_)?(?:tool|function)[-_](?:call[-_])?(?:result|response|error|output)")
_INSERTED = re.compile(r"<(system-reminder|environment_details)>.*?(?:</\1>|\Z)", re.DOTALL)  # by a client
_HOSTED = "server_tool_use"  # a call of a tool that the provider runs
_WRAPPERS = ("tool_call", "function", "functionCall", "function_call", "toolUse", "toolInvocation")
_RESULT_WRAPPERS = ("functionResponse", "function_response", "toolResult")
_NAMES = ("name", "toolName", "tool_name")
_IDS = ("tool_call_id", "toolCallId", "tool_use_id", "toolUseId", "call_id", "id")
_VALUES = ("output", "result", "response", "content", "errorText", "error")
_FAILED_STATES = ("output-error", "output-denied")  # states of a part of a UI message
_DONE = ("output-available", "result", *_FAILED_STATES)
_FAILED_VALUES = ("error-text", "error-json", "execution-denied")  # types of results of the AI SDK
_OF_CALLS = re.compile(
    r"call|invo[ck]|tools?_?use[sd]?|expected|forbidden|must_?(?:not_?)?(?:use|include)", re.IGNORECASE
)
_PYTHON = re.compile(r"\s*[\[{]+\s*'")
_ROLES = {
    "human": "user", "ai": "assistant", "model": "assistant", "developer": "system", "function": "tool",
    "user": "user", "assistant": "assistant", "system": "system", "tool": "tool",
}  # fmt: skip
_OF_TYPES = re.compile(r"message(?:chunk)?$")  # the end of the names of LangChain's types of messages


def parsed(value: Any) -> Any:
    """An object or a list from its text in JSON or in Python's syntax; other values are unchanged."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return ast.literal_eval(value.strip()) if _PYTHON.match(value) else json.loads(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return value


def object_of(value: Any) -> dict[str, Any]:
    """An object, also from its JSON text; empty for other values."""
    value = parsed(value)
    return value if isinstance(value, dict) else {}


def first_of(value: Any) -> Any:
    """The first entry of a list; None if it is empty or no list."""
    return value[0] if isinstance(value, list) and value else None


def field_of(data: Mapping[str, Any], *names: str) -> Any:
    """The first value of some fields that is not null; dots lead into objects and lists."""
    for name in names:
        if (value := data.get(name)) is None and "." in name:
            value = data
            for part in name.split("."):
                value = parsed(value)
                value = dict(enumerate(value)) if isinstance(value, list) else value
                value = value.get(int(part) if part.isdecimal() else part) if isinstance(value, dict) else None
        if value is not None and value != "":
            return value
    return None


def all_objects(value: Any) -> TypeGuard[list[dict[str, Any]]]:
    """Whether a value is a list of objects, and not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def _first_alone(answers: Any) -> Any:
    """The first of several answers, also of the first request of a batch; other values are unchanged."""
    return (
        (answers[0] if isinstance(first_of(answers), list) else answers)[:1] if isinstance(answers, list) else answers
    )


def call_names(value: Any) -> set[str]:
    """The names of all possible calls in a response."""
    if isinstance(value, list):
        return set().union(*map(call_names, value))
    if not isinstance(value, dict):
        return set()
    listed = [entry for name in _LISTS if isinstance(value.get(name), list) for entry in value[name]]
    calls = [_call(value), *(_call(entry, certain=True) for entry in listed)]
    inner = [
        _first_alone(part) if name in _FIRST_ALONE else part for name, part in value.items() if name not in _NO_ANSWERS
    ]
    return {call[1] for call in calls if call is not None and call[1]} | call_names(inner)


def holds_calls(field: str, value: Any) -> bool:
    """Whether an unread field seems to have calls or labels, by its name or content."""
    value = parsed(value)
    return (
        isinstance(value, list | dict) and bool(value) and bool(_OF_CALLS.search(field) or call_names({field: value}))
    )


def read_request(value: Any) -> list[ChatMessage] | None:
    """The messages of a request: of a text, a message, a list of messages, or a body with one of `_REQUESTS`.

    Returns:
        None if it is none of them. Of a batch, the messages of its first request.

    Raises:
        TypeError: an entry of a list is not a message.
    """
    for _ in range(len(_REQUESTS)):
        value = parsed(value)
        if isinstance(value, dict):
            value = [value] if "content" in value and _role(value) else get(value, *_REQUESTS)
        elif isinstance(value, list) and isinstance(first_of(value), list) and not _is_pair(value[0]):
            value = value[0]
    return read_messages(value) if isinstance(value, list) or (isinstance(value, str) and value) else None


def read_response(response: Any) -> list[ChatMessage] | None:
    """The messages of a response: of a text, an object, a list or a stream; empty for an error.

    Returns:
        None if the form is unknown, or if the response has calls that its messages do not have.
    """
    response = parsed(response)
    if isinstance(response, str) and response:
        if not is_stream(response):
            return [ChatMessage("assistant", response)]
        response = stream_events(response) or None
    try:
        messages = _answers(response)
    except TypeError:
        return None
    read = {name for message in messages or () for _, name in message.calls}
    return None if messages is not None and call_names(response) - read else messages


def _answers(response: Any) -> list[ChatMessage] | None:
    """The messages of an object or a list in one of the forms of responses."""
    if isinstance(response, list):
        if not all_objects(response):
            return _answers(response[0]) if isinstance(first_of(response), list) else None if response else []
        if (final := assembled(response)) is not None:
            return _answers(final)
        if all(isinstance(entry.get("message"), dict) and "index" in entry for entry in response):
            response = response[:1]  # choices
        return read_messages(response, "assistant") if _are_messages(response) else None
    if not isinstance(response, dict):
        return None
    if all_objects(steps := response.get("steps")):
        parts = ("content", "text", "toolCalls", "toolResults")
        read = [_answers({name: step[name] for name in parts if name in step}) for step in steps]
        return None if None in read else [message for messages in read for message in messages or ()]
    content, text, inner = (response.get(name) for name in ("content", "text", "response"))
    if not isinstance(content, list):
        fields = {**response, "response": inner.get("messages") if isinstance(inner, dict) else None}
        names = (*_FIRST_ALONE, "stream", "output", "messages", "response", "message")
        if name := next((name for name in names if isinstance(fields.get(name), list | dict)), ""):
            return _answers(_first_alone(fields[name]) if name in _FIRST_ALONE else fields[name])
    message = _unwrapped(response)
    if isinstance(content, list) or (text is None and (_role(message) or any(map(message.get, _OF_MESSAGES)))):
        return read_messages([{**message, "role": _role(message) or "assistant"}])
    calls = get(response, "toolCalls", "tool_calls")
    if isinstance(text, str) or isinstance(calls, list):
        results = response.get("toolResults")
        results = [{"type": "tool-result", **result} for result in results] if all_objects(results) else []
        return read_messages([{"role": "assistant", "content": text, "tool_calls": calls}, *results], "tool")
    return [] if response.get("error") else None


def _are_messages(entries: list[dict[str, Any]]) -> bool:
    """Whether entries are messages, calls, results or texts; reasoning and the like may be among them."""
    entries = [_unwrapped(entry) for entry in entries]
    contents = [_role(entry) or _is_text(entry) or _call(entry) or _result(entry) for entry in entries]
    return any(contents) and all(map(lambda entry, read: read or "type" in entry, entries, contents))


def is_stream(text: str) -> bool:
    """Whether a text is a streamed response (events, or one object per line)."""
    return _STREAM.match(text) is not None


def stream_events(text: str) -> list[dict[str, Any]]:
    """The events of a streamed response, from its text: lines with `data:`, or one object per line."""
    lines = (line.strip().removeprefix("data:").strip() for line in text.splitlines())
    events = [event for line in lines if isinstance(event := parsed(line), dict)]
    return [*events, *([{"type": "message_stop"}] if text.rstrip().endswith("[DONE]") else [])]


def assembled(events: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The response whose stream has these events: chunks and events of OpenAI, or events of Anthropic.

    Returns:
        None if they are not the events of a stream, or its end is missing, since calls may be missing, too.
    """
    calls: dict[Any, Any] = {}
    texts: list[Any] = []
    is_complete = False
    for event in events:
        kind, complete, choice = event.get("type"), event.get("response"), first_of(event.get("choices"))
        if kind in ("response.completed", "response.incomplete") and isinstance(complete, dict):
            return complete
        choice = choice if isinstance(choice, dict) and choice.get("index", 0) == 0 else {}
        delta = get(choice, "delta") or event.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        texts.append(get(delta, "content", "text"))
        for call in delta["tool_calls"] if all_objects(delta.get("tool_calls")) else ():
            calls.setdefault(call.get("index"), {"type": "tool_call", **call})
        if kind == "content_block_start":
            calls[event.get("index")] = event.get("content_block")
        is_complete |= choice.get("finish_reason") is not None or kind == "message_stop"
    text = {"type": "text", "text": "".join(text for text in texts if isinstance(text, str))}
    return {"role": "assistant", "content": [text, *calls.values()]} if is_complete else None


_UNKNOWN_TOOL = re.compile(
    r"(?:unknown|no such|unrecogni[sz]ed|undefined|non-?existent) (?:tool|function)"
    r"|(?:tool|function)\b.{0,100}?\b(?:not found|does not exist|doesn't exist|is not (?:available|defined|known))"
    r"|is not a (?:known|valid) (?:tool|function)|Tool_?Not_?Found",
    re.IGNORECASE | re.DOTALL,
)
_ERROR = re.compile(
    r"\W*(?:traceback \(most|an (?:error|exception) (?:occurred|was)"
    r"|(?:\w+\.)*\w*(?:error|exception)[\"']?(?!\s*:\s*(?:null|false|0|\[\]|\"\"))\s*(?:[:!\])(]|$|\d|[-–—]\s|(?:code|occurred|in|at|while|when|with|from)\b|\w+ing\b)"
    r"|(?:the )?user (?:has |chose to )?(?:cancell?(?:ed)?|reject(?:ed)?|den(?:y|ied)|declined?|skip(?:ped)?)"
    r" (?:the |this |to )?(?:\w+ )?(?:tool|command|call|action|operation)|(?:the )?user doesn't want to proceed"
    r"|(?:aborted|rejected|cancell?ed) by (?:the )?user|tool (?:call|execution) (?:error|failed)\b"
    r"|permission to use [^\n]{0,100}?\b(?:denied|blocked)\b"
    r"|(?:tool|command|call|action|operation)\b[\w ]{0,40}? (?:denied|blocked)\b"
    r"|(?:HTTP/?[\d.]* |status:? )?[45]\d\d:? (?:bad (?:request|gateway)|unauthori[sz]ed|forbidden|not found|conflict"
    r"|method not|unprocessable|too many|internal server|service unavailable|gateway time)|HTTP/?[\d.]* [45]\d\d\b"
    r"|fatal\s*(?:[:!]|error|$)|failed\s*(?:[:!]|$|[-–—]\s|(?:to|with|while|when)\b))",
    re.IGNORECASE,
)
_EXCEPTION_NAME = re.compile(r"Tool_?Not_?Found")  # an exception that does not name the tool
_FAILURES = ("error", "failed", "failure", "denied", "forbidden", "timeout")  # `status` of results of calls
_MEMBERS = ("error", "errors", "exception", "isError", "is_error", "Err")  # members of results that mark an error
_ERROR_LENGTH = 400  # characters at the start of a result that are searched for an error
_STREAM = re.compile(r"\s*(?:data:\s*[\[{]|event:[^\n]*\n|[0-9a-f]:[\[{\"]|\{[^\n]*\}\s*\n\s*\{)")
_NO_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a chat.

    Attributes:
        role: `user`, `assistant`, `system` or `tool`; results in a user message are of a `tool` message before it.
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


def read_messages(value: Any, role: str = "user") -> list[ChatMessage]:
    """Read messages from a list, or from its JSON text; other text is one message.

    Args:
        value: messages, or parts of messages, of which those that follow each other are one message.
        role: the role of texts without one.

    Raises:
        TypeError: an entry is not a message.
    """
    value = parsed(value)
    if isinstance(value, str):
        return [ChatMessage(role, value)]
    value = value.get("messages", [value]) if isinstance(value, dict) else value
    if not isinstance(value, list):
        raise TypeError
    groups = ((is_part, list(entries)) for is_part, entries in groupby(value, _is_part))
    pairs = ((is_part, entry) for is_part, group in groups for entry in ([{"content": group}] if is_part else group))
    read = ((is_part, message) for is_part, entry in pairs for message in _messages(entry, role))
    messages = (message for is_part, message in read if not is_part or message != ChatMessage(role, ""))
    ordered: list[ChatMessage] = []
    for is_reply, run in groupby(messages, lambda message: message.role in ("user", "tool")):
        is_waiting = is_reply and bool(ordered and ordered[-1].calls)
        # a result that came after the user wrote is of the turn of its call
        ordered += sorted(run, key=lambda message: is_waiting and message.role == "user")
    return ordered


def summarise_messages(messages: Sequence[ChatMessage], *, history: int) -> MessageSummary:
    """Summarise a list of messages, divided at the last user message.

    Args:
        messages: oldest first.
        history: the number of messages to keep before the last user message.
    """
    return next(summarise_turns(messages, history=history, last_only=True))


def summarise_turns(
    messages: Sequence[ChatMessage], *, history: int, last_only: bool = False
) -> Iterator[MessageSummary]:
    """The summaries of the messages up to the end of each turn, or of the last one, in time linear in the messages."""
    users = [i for i, message in enumerate(messages) if message.role == "user"]
    hashed, hashes, dialogue, earlier = blake2b(digest_size=8), list[int](), list[Message](), 0
    for begin, (last, end) in zip([0, *users], pairwise([*(users or [-1]), len(messages)]), strict=False):
        before, after = messages[begin : max(last, 0)], messages[last + 1 : end]
        dialogue = [*dialogue, *_dialogue(before)][-history or len(messages) :]
        earlier += sum(len(message.calls) for message in before)
        hashes += [stable_hash(messages[last].text)] if users else []
        for message in messages[begin + bool(hashes[1:]) : last + 1]:
            if message.role != "system":
                hashed.update(f"{message.role} {message.text}\0".encode("utf-8", "surrogatepass"))
        if not last_only or end == len(messages):
            yield MessageSummary(
                text=messages[last].text if users else None,
                history=tuple(dialogue),
                after=_dialogue(after),
                users=len(hashes),
                key=int.from_bytes(hashed.digest()),
                continued=bool(after) and bool(users),
                finished=bool(after) and after[-1].role == "assistant" and _has_results(after[-1]),
                calls=calls_of(after),
                unread=sum(message.unread for message in after),
                earlier=earlier,
                failed=tuple(call for call in calls_of(before) if call.status != "ok"),
                user_hashes=tuple(hashes),
            )


def _has_results(message: ChatMessage) -> bool:
    """Whether a message waits for no result: it has no calls, or their results and a text."""
    return not message.calls or (bool(message.text) and len(message.calls) <= len(message.results))


def set_summary(record: Record, summary: MessageSummary, interner: Interner) -> None:
    """Set the fields of a record from the summary of its messages."""
    for attribute in fields(summary):
        setattr(record, attribute.name, getattr(summary, attribute.name))
    record.history, record.after = interner.messages(summary.history), interner.messages(summary.after)


def set_exchange(record: Record, request: list[ChatMessage], answers: list[ChatMessage], interner: Interner) -> None:
    """Set the fields of a record from a request and its answers, which may repeat the messages of the request."""
    users, repeated = ([i for i, message in enumerate(part) if message.role == "user"] for part in (request, answers))
    if users and repeated and request[users[-1]].text == answers[repeated[-1]].text:
        before = max(request[: users[-1]], answers[: repeated[-1]], key=len)
        messages = [*before, *answers[repeated[-1] :]]
    else:
        messages = [*request, *(replace(m, role="assistant") if m.role == "user" else m for m in answers)]
    set_summary(record, summarise_messages(messages, history=interner.history), interner)
    record.continued = bool(request) and request[-1].role != "user"


def calls_of(messages: Iterable[ChatMessage]) -> tuple[Call, ...]:
    """The calls in messages, with their status from the results; `ok` without a result.

    A result without an id belongs to the oldest call without a result.
    """
    calls: list[Call] = []
    for message in messages:
        calls += [Call(name, "ok", call_id) for call_id, name in message.calls]
        for result in message.results:
            waiting = (i for i, call in enumerate(calls) if not call.guessed and result.call in (None, call.id))
            if (index := next(waiting, None)) is not None:
                status = result_status(result.text, calls[index].name, failed=result.failed)
                calls[index] = replace(calls[index], status=status, guessed=True)
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
    is_unknown = (wrong or len(text) < _ERROR_LENGTH) and _UNKNOWN_TOOL.search(head) and _names(head, name)
    if is_unknown or (wrong and _EXCEPTION_NAME.search(head)):
        return "unknown_tool"
    return "error" if wrong else "ok"


def same_tool(tool: str, second_tool: str) -> bool:
    """Whether two names may be of one tool: they are equal, or differ by a server prefix."""
    first, second = (_NO_LETTERS.sub("_", name.casefold()).strip("_") for name in (tool, second_tool))
    return first == second or first.endswith(f"_{second}") or second.endswith(f"_{first}")


def _is_error(text: str) -> bool:
    value = parsed(text.strip())
    if isinstance(value, dict):
        denied = value.get("success") is False or value.get("ok") is False or value.get("status") in _FAILURES
        return denied or any(value.get(name) for name in _MEMBERS)
    part = first_of(value)
    return (
        _is_error(plain_text(value))
        if isinstance(part, dict) and part.get("type") == "text"  # contents of MCP
        else not isinstance(value, list) and bool(_ERROR.match(text.strip()[:_ERROR_LENGTH]))
    )


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
    try:
        if isinstance(value, list):
            parts = (plain_text(part) for part in value if not isinstance(part, dict) or _is_text(part))
            return "\n".join(filter(None, parts))
        if isinstance(value, dict) and _is_text(value):
            return plain_text(get(value, "text", "content") or "")
        return "" if value is None else json.dumps(value, ensure_ascii=False)
    except RecursionError:  # some hundred parts in parts are no text
        return ""


def _dialogue(messages: Iterable[ChatMessage]) -> tuple[Message, ...]:
    return tuple(Message(i.role, i.text) for i in messages if i.role in ("user", "assistant") and i.text)


def _is_text(part: Mapping[str, Any]) -> bool:
    return part.get("type", "text") in ("text", "input_text", "output_text") and ("text" in part or "content" in part)


def _is_pair(value: Any) -> bool:
    """Whether a value is a message of LangChain as a pair of role and text."""
    return isinstance(value, list) and len(value) == 2 and all(isinstance(text, str) for text in value)


def _role(entry: Mapping[str, Any]) -> str:
    """The role of a message, also by the type of LangChain's messages; empty if it has none."""
    role, kind = entry.get("role"), entry.get("type")
    if role:
        return _ROLES.get(str(role).casefold(), str(role).casefold())
    kind = _OF_TYPES.sub("", kind.casefold()) if isinstance(kind, str) else ""
    return "" if kind == "function" else _ROLES.get(kind, "")


def _is_part(entry: Any) -> bool:
    """Whether an entry of a list of messages is a part of a message, a call, or the result of a call."""
    return (
        isinstance(entry, dict)
        and not (_role(entry) or isinstance(entry.get("message"), dict) or "lc" in entry)
        and (entry.get("type", "message") != "message" or _call(entry) is not None or "text" in entry)
    )


def _unwrapped(entry: Any) -> dict[str, Any]:
    """A message from the objects around it: of LangChain, OpenInference, and answers of OpenAI and Gemini.

    Raises:
        TypeError: it is not an object.
    """
    if _is_pair(entry):
        return {"role": entry[0], "content": entry[1]}
    if not isinstance(entry, dict):
        raise TypeError
    names = ("message", *(["kwargs"] if "lc" in entry else []), *(["data"] if _role(entry) else []), "content")
    inner = next((entry[name] for name in names if isinstance(entry.get(name), dict)), None)
    if inner is None or "role" in entry or isinstance(entry.get("content"), str | list):
        return entry
    path = entry.get("id")
    return _unwrapped({"type": path[-1] if isinstance(path, list) and path else entry.get("type"), **inner})


def _messages(entry: Any, default_role: str) -> list[ChatMessage]:
    """A message in the plain form: one, or the results in a message of the user, and the text typed beside them."""
    entry = _unwrapped(entry)
    role, content = _role(entry), get(entry, "parts", "content", "contents")
    is_unknown = not role and default_role == "user" and "content" not in entry
    if is_unknown or (content is not None and not isinstance(content, str | list | dict)):
        raise TypeError
    parts = content if isinstance(content, list) else [{"text": plain_text(content)}] if content else []
    parts = [
        part["message_content"] if isinstance(part, dict) and "message_content" in part else part for part in parts
    ]
    invocations = entry.get("toolInvocations")
    if all_objects(invocations) and not any(isinstance(part, dict) and "toolInvocation" in part for part in parts):
        parts = [*({"toolInvocation": invocation} for invocation in invocations), *parts]
    text = plain_text(parts)
    calls = [call for part in parts if (call := _call(part)) is not None]
    calls += [call for call in _listed_calls(entry) if call[0] is None or call not in calls]
    is_written = role == "assistant" and not calls and text.rstrip().endswith("</tool_call>")  # else it is quoted
    written = map(parsed, _TEXT_CALL.findall(text) if is_written else ())
    calls += [call for part in written if (call := _call(part, certain=True)) is not None]
    calls = [] if entry.get("weight") == 0 else calls  # of OpenAI: an example of what not to do
    results = [result for part in parts if (result := _result(part)) is not None]
    if role == "tool" and not results:
        failed = entry.get("is_error", True if entry.get("status") == "error" else None)
        failed = failed if isinstance(failed, bool) else None
        results = [Result(text_or_none(get(entry, *_IDS)), plain_text(content), failed)]
    named = tuple(call for call in calls if call[1])
    role = role or ("assistant" if named else default_role)
    typed = _INSERTED.sub("", text).strip() if results and role == "user" else ""
    requests = [] if typed[:1] in ("", "<", "[") else [ChatMessage("user", typed)]
    role = "tool" if results and (role == "user" or not (text or named)) else role
    text = "" if requests else text
    return [ChatMessage(role, text, named, tuple(results), unread=len(calls) - len(named)), *requests]


def _listed_calls(entry: Mapping[str, Any]) -> list[tuple[str | None, str]]:
    """The calls in the list of a message, with empty names if they cannot be read."""
    extra = entry.get("additional_kwargs")
    value = get(entry, "tool_calls", "toolCalls") or (extra.get("tool_calls") if isinstance(extra, dict) else None)
    value = parsed(entry.get("function_call") if value is None else value)
    entries = value if isinstance(value, list) else [value] if value else []
    return [call for listed in entries if (call := _call(listed, certain=True)) is not None]


def _call(part: Any, *, certain: bool = False) -> tuple[str | None, str] | None:
    """The id and the name of a call, with an empty name if it cannot be read; None for anything else.

    Args:
        part: a part of a message, or an entry of a list of calls.
        certain: it is an entry of a list of calls.
    """
    if not isinstance(part, dict):
        return (None, "") if certain else None
    kind = str(part.get("type") or "")
    wrapper = next((part[name] for name in _WRAPPERS if isinstance(part.get(name), dict)), None)
    of_ui = _UI_CALL.fullmatch(kind) if "state" in part else None
    is_call = of_ui or LIKE_CALLS.fullmatch(kind) or (kind in ("", "dynamic-tool") and "toolName" in part)
    inner = part if wrapper is None else wrapper
    inner = inner["function"] if isinstance(inner.get("function"), dict) else inner
    is_hosted = kind == _HOSTED or part.get("providerExecuted") is True
    if is_hosted or "description" in inner or not (certain or is_call or wrapper is not None):
        return None  # with a description it is the definition of a tool
    name = of_ui[1] if of_ui else next((inner[key] for key in _NAMES if isinstance(inner.get(key), str)), "")
    return text_or_none(get({**(wrapper or {}), **part}, *_IDS)), name


def _result(part: Any) -> Result | None:
    """The result in a part of a message; None for other parts."""
    if not isinstance(part, dict):
        return None
    kind, invocation = str(part.get("type") or ""), part.get("toolInvocation")
    part = invocation if isinstance(invocation, dict) else part
    inner = next((part[name] for name in _RESULT_WRAPPERS if isinstance(part.get(name), dict)), None)
    state = part.get("state")
    if inner is None and not (_LIKE_RESULTS.fullmatch(kind) or state in _DONE or kind == "mcp_call"):
        return None
    inner = part if inner is None else inner
    value = get(inner, *_VALUES)
    typed = str(value["type"]) if kind.startswith("tool-") and isinstance(value, dict) and "type" in value else ""
    failed = (
        *(kind == "tool-error", state in _FAILED_STATES, typed in _FAILED_VALUES, inner.get("status") == "error"),
        *(inner.get(name) is True for name in ("isError", "is_error")),
        kind == "mcp_call" and bool(inner.get("error")),
    )
    text = plain_text(get(value, "value", "reason") if typed else value)
    return Result(text_or_none(get(inner, *_IDS)), text, True if any(failed) else None)
