"""Turns from rows and API bodies, and their conversations.

A line is a body, or has a request and its response in fields of common loggers (`req` and `res` of pino, `input` and
`output`), each also inside a `body` or as JSON text. A response may be a stream. Bodies are of OpenAI
(https://platform.openai.com/docs/api-reference), also examples for fine-tuning and for preferences
(https://platform.openai.com/docs/guides/direct-preference-optimization), of Anthropic
(https://docs.anthropic.com/en/api/messages), Gemini and Bedrock. Results of the AI SDK have the request in their first
step, or in `prompt` or `messages` of the same line (https://ai-sdk.dev/docs/reference/ai-sdk-core/generate-text).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any

from ctxbench.catalogs.tool_lists import describes_item
from ctxbench.datasets.queries import group_pairs
from ctxbench.io.errors import Fault, Message, ParameterError
from ctxbench.io.rows import Row
from ctxbench.labelling.record_files import is_eval, named
from ctxbench.labelling.trace_messages import (
    STATUSES,
    Call,
    Interner,
    LogFindings,
    Record,
    all_objects,
    get,
    holds_calls,
    is_stream,
    parsed,
    read_messages,
    read_request,
    read_response,
    same_tool,
    seconds,
    set_exchange,
    set_summary,
    summarise_messages,
    summarise_turns,
    text_or_none,
)
from ctxbench.model.requests import Message as ChatTurn

TURN_FIELDS = (
    *("conversation", "turn", "time", "user", "workspace", "messages", "text", "offered", "exposure", "called"),
    *("available", "scope", "needs", "session", "explicit", "tool_results", "answer"),
)


LOG_FIELDS = ("conversation", "time", "user", "workspace", "turn")  # that may be mapped


def meant_field(name: str) -> str:
    """A suggestion for a field whose name is close to the name of a field of a turn; empty if there is none."""
    close = [] if name in TURN_FIELDS else get_close_matches(name.lower(), TURN_FIELDS, n=1, cutoff=0.7)
    return Message("labelling.meant-field", name=name, field=close[0]) if close else ""


def read_turn(
    data: dict[str, Any], position: int, at: Fault, *, findings: LogFindings, interner: Interner
) -> list[Record]:
    """The record of one row of JSON lines; empty, and a fault, if it is wrong."""
    findings.ignored.update(name for name in data if name not in TURN_FIELDS)
    faults: list[Fault] = []
    row, record = Row(data, faults, Path(at.path or ""), at.line), Record(position=position)
    for name, (read, _, expected) in _IDENTITY.items():
        setattr(record, name, read(data.get(name)))
        if data.get(name) not in (None, "") and getattr(record, name) is None:
            row.fault(Message("labelling.field-choice", name=name, choices=expected, got=data[name]))
    _read_messages(record, row, interner)
    if data.get("called") is not None:  # else the calls in messages after the last user message
        record.calls = row.read_list("called", _call, expected="{tool, status}")
    _read_items(record, row, interner)
    if data.get("called") is None:
        texts = {name for name in RESPONSES if isinstance(text := parsed(data.get(name)), str) and not is_stream(text)}
        answers = {name for name in RESPONSES if data.get(name) not in _EMPTY}
        answers -= texts if record.offered is not None else set()  # texts have no calls if the tools are listed
        findings.unread.update(
            answers | {name for name in data if name not in TURN_FIELDS and holds_calls(name, data[name])}
        )
    findings.faults += faults
    return [] if faults else [record]


def _read_messages(record: Record, row: Row, interner: Interner) -> None:
    """Set the messages of a turn in its record."""
    messages, text, answer = (row.data.get(name) for name in ("messages", "text", "answer"))
    if messages is None:
        messages = [["user", text]] if isinstance(text, str) else []
    try:
        parsed = read_messages(messages)
        parsed += [] if answer is None else read_messages([{"role": "assistant", "content": answer}])
    except (TypeError, ValueError, RecursionError):
        row.fault(Message("labelling.messages-form"))
    else:
        set_summary(record, summarise_messages(parsed, history=interner.history), interner)
        record.cumulative = row.data.get("called") is None


def _read_items(record: Record, row: Row, interner: Interner) -> None:
    """Set the offered, available and loaded items of a turn, and its other results of tools."""
    offered, session = row.data.get("offered"), row.data.get("session")
    names = {
        field: interner.names(row.read_list(field, named, expected="the name of an item"))
        for field in ("offered", "available", "session", "explicit")
        if not (field == "offered" and offered == "*") and row.optional(field, list) is not None
    }
    listed = names.get("offered")
    everything = offered == "*" or "*" in (listed or ())
    record.exposure = record.exposure or ("full" if everything else None)
    record.offered = listed if listed is None else interner.names(tuple(name for name in listed if name != "*"))
    record.available, record.explicit = names.get("available"), names.get("explicit", ())
    record.scope = row.optional("scope", str)
    modes = [entry.get("mode", "manual") if isinstance(entry, dict) else "manual" for entry in session or ()]
    if len(modes) == len(names.get("session", ())) and session is not None:
        record.session = tuple(zip(names["session"], modes, strict=True))
    record.tool_results = row.read_list(
        "tool_results", lambda result: (str(result["tool"]), str(result["text"])), expected='{"tool", "text"}'
    )
    called = any(call.status == "ok" for call in record.calls)
    checks = (
        (record.exposure == "partial" and everything, Message("labelling.exposure-conflict")),
        (record.scope is not None and record.available is not None, Message("labelling.scope-and-available")),
        (record.needs is not None and called, Message("labelling.needs-conflict")),
        *((mode not in ("always", "manual"), Message("labelling.session-mode", got=mode)) for mode in modes),
    )
    for fault in (fault for is_wrong, fault in checks if is_wrong):
        row.fault(fault)


def _call(entry: Any) -> Call:
    status = entry.get("status") or "ok" if isinstance(entry, dict) else "ok"
    name = named(entry)
    if describes_item({field: value for field, value in entry.items() if value} if isinstance(entry, dict) else entry):
        raise ParameterError("has a description or a schema, so it was offered; expected a name, or {tool, status}")
    if status not in STATUSES:
        raise ParameterError(f"status must be one of {', '.join(STATUSES)}, got {status!r:.60}")
    return Call(name, status, text_or_none(get(entry, "call", "call_id")) if isinstance(entry, dict) else None)


REQUESTS = ("request", "req", "input_body", "requestBody", "request_body", "body", "payload", "input", "inputs")
RESPONSES = (
    *("response", "resp", "res", "completion", "responseBody", "response_body", "preferred_output"),
    *("output", "outputs", "result"),
)
_TEXTS = ("response", "completion", "output")  # fields in which a text is the answer
_OF_LINES = ("messages", "contents", "prompt", "input")  # fields of a request that is the whole line
_OPTIONS = ("model_parameters", "invocation_params", "parameters", "options")  # fields that may have the tools
_TOOLS = ("tools", "functions", "toolConfig")
_OF_AI_SDK = ("steps", "content", "toolCalls", "toolResults", "text")  # fields with the answers of the AI SDK
_TIMES = ("startedDateTime", "time", "timestamp", "ts", "created_at", "createdAt", "created", "startTime", "start_time")
_CONVERSATIONS = (
    *("conversation", "conversation_id", "conversationId", "session_id", "sessionId"),
    *("thread_id", "threadId", "chat_id", "chatId"),
)
_USERS = ("user", "user_id", "userId")
_OF_SPANS = ("spanId", "span_id", "traceId", "trace_id")  # fields of log records of OpenTelemetry, which have a `body`
_SHOWN = 5  # fields that a message names
_HOSTED = ("provider", "provider-defined")  # types of the AI SDK for tools that the provider runs
_EMPTY: tuple[Any, ...] = (None, "", {}, [])


def read_exchange(data: Mapping[str, Any], position: int, *, findings: LogFindings, interner: Interner) -> list[Record]:
    """The record of a line with a request to a model, and perhaps with its response; empty for other lines.

    An example for fine-tuning ends with the answer; each user message has a record, unless an earlier line has it.

    Raises:
        TypeError, ValueError: its messages or tools are in an unknown form.
    """
    if (located := find_request(data)) is None:
        return []
    field, request, responses = located
    is_line = request is data
    texts = [name for name, text in responses.items() if isinstance(text, str) and not is_stream(text)]
    answers = {name: read_response(responses[name]) for name in responses if name not in texts or name in _TEXTS}
    name = next((name for name in answers if answers[name] is not None), "")
    response = responses.get(name)
    options = (response, *map(data.get, _OPTIONS))  # a response of OpenAI repeats the tools of its request
    sources = (request, data, *(source for source in options if isinstance(source, dict)))
    offered = next((tools for source in sources if (tools := offered_tools(source)) is not None), None)
    offered = [] if offered is None and name and ("model" in request or field not in _OF_LINES) else offered
    # the calls of a text answer are known only if the line lists the tools of the model
    unread = responses if not name or (name in texts and offered is None) else {}
    identity = _identities((data, response if isinstance(response, dict) else {}, request))
    record = Record(position=position, **identity, cumulative=True, doubtful=bool(unread))
    record.offered = None if offered is None else interner.names(tuple(map(named, offered)))
    messages = read_request(request) or []
    set_exchange(record, messages, answers.get(name) or [], interner)
    who = (name for read, names, _ in _IDENTITY.values() for name in names if read(data.get(name)) is not None)
    read = {field, *([name] if name else responses), *who, *_TOOLS, *(_OF_AI_SDK if name in _OF_AI_SDK else ())}
    passed_over = [field for field in data if field not in read] if responses or not is_line else []
    findings.ignored.update(passed_over)
    findings.unread.update([*unread, *(name for name in passed_over if holds_calls(name, data[name]))])
    findings.counts["responses_unread"] += bool(unread)
    findings.counts["responses_missing"] += not responses and request is not data
    if (earlier := interner.responses.get(str(request.get("previous_response_id")))) is not None:
        earlier.conversation = record.conversation = earlier.conversation or f"response {earlier.position}"
    if isinstance(response, dict) and "id" in response:
        interner.responses[str(response["id"])] = record
    is_example = is_line and not responses and bool(messages) and messages[-1].role == "assistant"
    summaries = list(summarise_turns(messages, history=interner.history))[:-1] if is_example else []
    answered = [summary for summary in summaries if summary.continued]
    records = [*(replace(record) for _ in answered), record]
    for part, summary in zip(records, answered, strict=False):
        set_summary(part, summary, interner)
    return [part for part in records if interner.first((part.key, part.calls), part) is part or part is record]


def unread_line(data: Any) -> Message:
    """The fault of a line that is neither a turn nor a span."""
    if not isinstance(data, dict):
        return Message("labelling.json-object-per-line")
    if is_eval(data):
        return Message("labelling.eval-in-log")
    if any(isinstance(part, dict | list) and read_response(part) is not None for part in _responses(data).values()):
        return Message("labelling.answer-alone")
    fields = ", ".join(map(repr, list(data)[:_SHOWN])) or "no fields"
    return Message("labelling.not-a-turn", fields=fields, hint="".join(map(meant_field, data)), known=TURN_FIELDS)


def find_request(data: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], dict[str, Any]] | None:
    """The field of a line with the request, its body, and the responses by field, likeliest first.

    Returns:
        None if the line has no request. The body is the line if its fields are those of a request. A result of the
        AI SDK has the request of its first step.
    """
    if "offered" in data or "called" in data or (isinstance(data.get("text"), str) and not is_answer(data)):
        return None  # a turn
    listed = _responses(data)
    has_tools = any(name in data for name in _TOOLS) and not is_eval(data)
    for name in ("messages", "contents"):
        if name in data:
            return (name, data, listed) if (listed or has_tools) and isinstance(data[name], list) else None
    is_log_record = any(name in data for name in _OF_SPANS) and not listed
    steps = data.get("steps")
    step = {"steps": steps[0].get("request")} if all_objects(steps) else {}
    for name, value in {**{name: data[name] for name in (*REQUESTS, *_OF_LINES) if name in data}, **step}.items():
        value = _inner(value)
        responses = {field: response for field, response in listed.items() if field != name or name == "steps"}
        structured = [response for response in responses.values() if isinstance(response, dict | list)]
        if (
            (isinstance(value, dict) and _is_body(value) and not (name == "body" and is_log_record))
            or (isinstance(value, list) and name == "input" and responses and read_response(value))
            or (isinstance(value, str) and name in ("prompt", "input") and any(map(read_response, structured)))
        ):
            return name, value if isinstance(value, dict) else data, responses
    return ("input", data, {}) if has_tools and _is_body(data) else None


def is_answer(data: Mapping[str, Any]) -> bool:
    """Whether a line is an answer of the AI SDK, in which `text` is the text of the answer."""
    return any(name in data for name in ("steps", "toolCalls", "finishReason"))


def _responses(data: Mapping[str, Any]) -> dict[str, Any]:
    """The responses in a line by field, likeliest first."""
    sdk = {name: data[name] for name in ("text", "content", "toolCalls", "toolResults") if name in data}
    first = {"steps": {"steps": data["steps"]}} if all_objects(data.get("steps")) else {}
    first |= {"content": sdk} if is_answer(data) and isinstance(data.get("content"), list) else {}
    has_answer = isinstance(data.get("toolCalls"), list) or isinstance(data.get("text"), str)
    last = {"toolCalls": sdk} if is_answer(data) and has_answer else {}
    listed = {name: _inner(data[name]) for name in RESPONSES if data.get(name) not in _EMPTY}
    streams = {name: data[name] for name in ("stream", "chunks") if isinstance(data.get(name), list | str)}
    listed |= {name: {"stream": events} for name, events in streams.items()}
    return {**first, **listed, **last}


def _inner(value: Any) -> Any:
    """A body without its enclosing object or JSON text."""
    value = parsed(value)
    if not isinstance(value, dict):
        return value
    part = get(value, "postData", "content")  # of a HAR file
    inner = parsed(part.get("text") if isinstance(part, dict) and "mimeType" in part else value.get("body"))
    return inner if isinstance(inner, dict | list) or (isinstance(inner, str) and is_stream(inner)) else value


def _is_body(value: Mapping[str, Any]) -> bool:
    has_messages = isinstance(value.get("messages"), list) or isinstance(value.get("contents"), list)
    has_prompt = isinstance(value.get("prompt"), str) and any(name in value for name in ("model", *_TOOLS))
    has_text = isinstance(value.get("input"), str | list) or has_prompt
    return has_messages or (has_text and not isinstance(value.get("type"), str))


def _identity(value: Any) -> str | None:
    return str(value) or None if isinstance(value, str | int) and not isinstance(value, bool) else None


_IDENTITY: dict[str, tuple[Callable[[Any], Any], tuple[str, ...], str]] = {
    "time": (seconds, _TIMES, "ISO 8601 or seconds since 1970"),
    "conversation": (_identity, _CONVERSATIONS, "a text"),
    "user": (_identity, _USERS, "a text"),
    "workspace": (_identity, ("workspace",), "a text"),
    "turn": (
        lambda value: value if _identity(value) and isinstance(value, int) and value >= 0 else None,
        ("turn",),
        "a whole number of 0 or more",
    ),
    "exposure": (lambda value: value if value in ("full", "partial") else None, (), "full or partial"),
    "needs": (lambda value: value if value == "nothing" else None, (), "'nothing' or absent"),
}
"""Fields of a turn: how they are read, their names in logs, what is expected."""


def _identities(sources: tuple[Mapping[str, Any], ...]) -> dict[str, Any]:
    """Who sent a request and when, by the line, the response (the time alone) and the body of the request."""
    identity: dict[str, Any] = {}
    for key, (read, names, _) in _IDENTITY.items():
        of_key = sources if key == "time" else (sources[0], sources[-1])
        values = (read(source.get(name)) for source in of_key for name in names)
        identity[key] = next((value for value in values if value is not None), None)
    return identity


def offered_tools(request: Mapping[str, Any]) -> list[Any] | None:
    """The `tools` (or `functions`) of a request, without those that the provider runs; None if it has neither."""
    config = request.get("toolConfig")
    tools = get({**(config if isinstance(config, dict) else {}), **request}, "tools", "functions")
    if isinstance(tools, dict):  # by name, as in the AI SDK
        return [name for name, tool in tools.items() if not (isinstance(tool, dict) and tool.get("type") in _HOSTED)]
    return (
        [declaration for tool in tools for declaration in _declared(tool) if not _is_hosted(declaration)]
        if isinstance(tools, list)
        else None
    )


def recorded_tools(value: Any) -> list[Any]:
    """The tools of a model call, each an object or its JSON text, without those that the provider runs.

    Raises:
        TypeError: it is not a list or an object.
    """
    tools = parsed(value)
    if not isinstance(tools, list | dict):
        raise TypeError
    tools = [parsed(tool) for tool in tools] if isinstance(tools, list) else tools
    return offered_tools({"tools": tools if isinstance(tools, list) else [tools] if "name" in tools else tools}) or []


def _declared(tool: Any) -> list[Any]:
    """The tools in an entry: itself, or the declarations in it of Gemini, Bedrock or OpenInference."""
    for name in ("functionDeclarations", "function_declarations", "toolSpec", "tool", "json_schema"):
        inner = parsed(tool[name]) if isinstance(tool, dict) and name in tool else None
        if isinstance(inner, list | dict):
            return list(inner) if isinstance(inner, list) else _declared(inner)
    return [tool]


def _is_hosted(tool: Any) -> bool:
    """Whether the provider of the model runs a tool, so that it is not an item of a catalog."""
    return isinstance(tool, dict) and (
        tool.get("type") in _HOSTED or ("name" not in tool and not isinstance(tool.get("function"), dict))
    )


_WORDS = re.compile(r"\w+")
_AGAIN = re.compile(
    r"\s*(?!(?:no|again)[,.! ]+(?:thanks|thank you|problem|worries|need|rush|hurry|more|further|questions?|that is all"
    r"|that's all|idea|doubt)\b)"
    r"(?:no[,.! ]|nope|wrong|that(?:'s| is| was) (?:not|wrong)|not what i|i meant|i said|as i said|again[,:. ]"
    r"|try again|still (?:not|no|does|wrong)|you (?:did not|didn't|should have)"
    r"|it (?:did not|didn't|does not|doesn't) work)",
    re.IGNORECASE,
)
_ALIKE = 0.6  # least share of common words in all words of a repeated question


@dataclass(slots=True, kw_only=True)
class Turn:
    """A user message with the records up to the next one.

    Attributes:
        records: in order; the first has the message.
        number: position in the conversation.
        history: the messages before, oldest first.
        asked_again: the next user message repeats the question.
    """

    records: list[Record]
    number: int = 0
    history: tuple[ChatTurn, ...] = ()
    asked_again: bool = False
    calls: tuple[Call, ...] = field(default=())

    @property
    def text(self) -> str:
        """The user message."""
        return self.records[0].text or ""

    @property
    def time(self) -> float | None:
        """The first time in the records of the turn."""
        return next((record.time for record in self.records if record.time is not None), None)


def conversations(records: Iterable[Record], findings: LogFindings, *, history: int) -> Iterator[list[Turn]]:
    """Group records into the turns of conversations, in order of their first records.

    A record without a conversation continues the conversation with the same messages, or begins one. A name in two
    workspaces is two conversations. A conversation may have several users. Conversations without a user message are
    counted and ignored.

    Args:
        records: the records of all files, in any order.
        findings: where issues are counted.
        history: the largest number of earlier messages of a turn.
    """
    latest: dict[tuple[object, ...], list[tuple[int, Record]]] = {}
    named = group_pairs((record.conversation or (None, _first_position(record, latest)), record) for record in records)
    groups = [group for members in named.values() for group in _by_workspace(members)]
    for members in sorted(groups, key=lambda members: min(record.position for record in members)):
        if turns := _turns(members, findings):
            findings.counts["conversations"] += 1
            _complete(turns, findings, history=history)
            yield turns


def _first_position(record: Record, latest: dict[tuple[object, ...], list[tuple[int, Record]]]) -> int:
    """The position of the first record of an unnamed conversation; the position of `record` if it begins one.

    Each request has all messages before it. `latest` has the last records so far, by their user messages.
    """
    who, user_hashes, position = (record.workspace, record.user), record.user_hashes, record.position
    for n in range(len(user_hashes), 0, -1):
        before = latest.get((*who, *user_hashes[:n]), [])
        last = next(
            (earlier for earlier in reversed(before) if n < len(user_hashes) or _is_next_call(record, earlier[1])), None
        )
        if last is not None:
            position = last[0]
            before.remove(last)  # only this record continues it
            break
    latest.setdefault((*who, *user_hashes), []).append((position, record))
    return position


def _is_next_call(record: Record, before: Record) -> bool:
    """Whether a model call continues a turn: its messages have the calls of the one before it."""
    first, current = ([(call.id, call.name) for call in turn.calls] for turn in (before, record))
    return current[: len(first)] == first and (len(current) > len(first) or any(call_id for call_id, _ in first))


def _by_workspace(records: list[Record]) -> Iterable[list[Record]]:
    """Records of one name of a conversation by workspace; one group unless there are several workspaces."""
    groups = group_pairs((record.workspace, record) for record in records)
    return groups.values() if len(groups.keys() - {None}) > 1 else [records]


def merge_calls(records: Sequence[Record]) -> tuple[Call, ...]:
    """Merge the calls of a turn, so that each occurs once.

    A call is identified by its id, its name and its number among calls with both in the same messages, as some models
    reuse ids. A call in the messages of several records failed if it failed in one of them. The span of its execution
    has the final status; a span without an id belongs to the next call with its name.
    """
    merged: dict[tuple[str | None, str, int], Call] = {}
    nested = (part.calls for record in records for part in record.nested)
    separate = [call for record in records if not record.cumulative for call in record.calls]
    for calls in (*(record.calls for record in records if record.cumulative), *nested, separate):
        n_calls = Counter(key[:2] for key in merged if calls is separate)
        for call in calls:
            pair = call.id, call.name
            key = (*pair, n_calls[pair] if calls is not separate or call.id is None else 0)
            n_calls[pair] += 1
            if key not in merged or call.status != "ok":
                merged[key] = call
    return _with_outcomes(merged, [call for record in records for call in record.executed])


def _with_outcomes(calls: dict[tuple[str | None, str, int], Call], executed: list[Call]) -> tuple[Call, ...]:
    """Calls with the status of the spans of their execution, and calls that only spans have."""
    matched: set[tuple[str | None, str, int]] = set()
    for call in executed:
        same_name = [key for key in calls if same_tool(key[1], call.name)]
        same_id = [key for key in same_name if key[0] == call.id]
        free = [key for key in (*same_id, *same_name) if key not in matched]
        key = next((key for key in free if key in same_id or None in (key[0], call.id)), None)
        repeats = [key for key in same_id if key in matched and call.id is not None]
        if key is None and not repeats:
            key = call.id, call.name, len(calls)
            calls[key] = call
        for target in repeats if key is None else [key]:
            if call.status != "ok" or calls[target].status == "ok":
                calls[target] = replace(call, name=target[1])
        matched |= set() if key is None else {key}
    return tuple(calls.values())


def reuses_ids(calls: Iterable[Call]) -> bool:
    """Whether calls of several tools have the same id, so that their results may be mixed up."""
    names: dict[str, str] = {}
    return any(call.id is not None and names.setdefault(call.id, call.name) != call.name for call in calls)


def asks_again(text: str, following: str) -> bool:
    """Whether a message repeats the question before it: it complains, or shares 60% of its words."""
    if _AGAIN.match(following):
        return True
    first, second = (set(_WORDS.findall(t.casefold())) for t in (text, following))
    return len(first & second) >= 2 and len(first & second) >= _ALIKE * len(first | second)


def _turns(members: list[Record], findings: LogFindings) -> list[Turn]:
    timed = all(record.time is not None for record in members)
    numbered = sum(record.turn is not None for record in members)
    members = sorted(members, key=lambda record: ((record.time or 0.0) if timed else 0.0, record.position))
    members = [replace(record, turn=None) for record in members] if 0 < numbered < len(members) else members
    turns = []
    for group in _by_messages(sorted(members, key=lambda record: record.turn or 0)):
        first = next((i for i, record in enumerate(group) if record.text is not None), None)
        if first is None:
            findings.counts["records_without_request"] += len(group)
            findings.counts["calls_without_request"] += len(merge_calls(group))
        else:
            turns.append(Turn(records=[group[first], *group[:first], *group[first + 1 :]]))
    return turns


def _by_messages(members: list[Record]) -> list[list[Record]]:
    """Records grouped by number and text, or by the messages up to the last user message.

    Records without a user message join the turn before.
    """
    groups: list[list[Record]] = []
    latest: dict[object, list[Record]] = {}
    for record in members:
        key = record.key if record.turn is None else (record.turn, record.text)
        candidates = [*filter(None, [latest.get(key)]), *groups[-1:]]
        group = next((group for group in candidates if _continues(record, group)), None)
        if group is None:
            group = []
            groups.append(group)
        group.append(record)
        if record.text is not None:
            latest[key] = group
    users = [next((record.users for record in group if record.text is not None), 0) for group in groups]
    return (
        [groups[i] for i in sorted(range(len(groups)), key=users.__getitem__)]
        if members[0].turn is None and len(groups) > 1 and min(users) > 0 and len(set(users)) == len(users)
        else groups
    )


def _continues(record: Record, group: list[Record]) -> bool:
    """Whether a record belongs to a turn: it has its number and text, the same messages, or a later window of them."""
    if record.turn is not None:
        texts = {earlier.text for earlier in group} - {None}
        return record.turn == group[0].turn and (record.text is None or texts <= {record.text})
    if record.text is None:
        return True
    is_open = record.continued and not group[-1].finished
    if any(record.key == earlier.key for earlier in group):  # else the same words again, a second message of the user
        return is_open or record.users > 1 or (record.unit is not None and record.unit == group[0].unit)
    ids = {(call.id, call.name) for earlier in group for call in earlier.calls if call.id is not None}
    return is_open and record.text == group[0].text and any((call.id, call.name) in ids for call in record.calls)


def _complete(turns: list[Turn], findings: LogFindings, *, history: int) -> None:
    """Set number, history, calls and `asked_again` of turns."""
    users = [turn.records[0].users for turn in turns]
    grows = all(before < after for before, after in pairwise(users))
    messages: list[ChatTurn] = []
    n_calls = n_lost = 0
    for i, turn in enumerate(turns):
        first = turn.records[0]
        turn.number = first.turn if first.turn is not None else users[i] - 1 if grows else i
        turn.history = first.history or (tuple(messages[-history:]) if history else ())
        following = [record for after in turns[i + 1 : i + 2] for record in after.records]
        failed = {(call.id, call.name): call for record in following for call in record.failed}
        calls = merge_calls(turn.records)
        turn.calls = tuple(failed.get((call.id, call.name), call) if call.id else call for call in calls)
        n_lost += max(max(record.earlier for record in turn.records) - n_calls - n_lost, 0)
        n_calls += len(turn.calls)
        turn.asked_again = i + 1 < len(turns) and asks_again(turn.text, turns[i + 1].text)
        answers = max((record.after for record in turn.records), key=len)
        messages += [*([ChatTurn("user", turn.text)] if turn.text else []), *answers]
        del messages[: -history or None]
    findings.counts["calls_of_earlier_turns"] += n_lost
    findings.counts["requests_of_earlier_turns"] += max(max(users) - len(turns), 0) if n_lost else 0
