"""Read bodies of requests to OpenAI and Anthropic, alone or with their responses, as turns.

A body is recognised by its fields: `tools` and `messages`, or an `input` (OpenAI's responses). Its tools are what the
model was offered. A line may be a body, or hold a request and its response under one of the names below (`req` and
`res` are pino's, `input` and `output` those of most traces), each also inside a `body` or as JSON text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ctxbench.data.importers.formats.eval_fields import is_eval
from ctxbench.data.traces.records import seconds
from ctxbench.data.traces.responses import (
    call_names,
    holds_calls,
    input_messages,
    is_stream,
    parsed,
    read_response,
)
from ctxbench.data.traces.turn_rows import TURN_FIELDS

REQUESTS = ("request", "req", "input_body", "requestBody", "request_body", "body", "payload", "input")
RESPONSES = ("response", "resp", "res", "completion", "responseBody", "response_body", "output", "result")
_TEXTS = ("response", "completion", "output")  # of these a text is the answer
_TIMES = ("time", "timestamp", "ts", "created_at", "createdAt", "created", "startTime", "start_time")
_CONVERSATIONS = (
    *("conversation", "conversation_id", "conversationId", "session_id", "sessionId"),
    *("thread_id", "threadId", "chat_id", "chatId"),
)
_USERS = ("user", "user_id", "userId")
_OF_SPANS = ("spanId", "span_id", "traceId", "trace_id")  # of a log record of OpenTelemetry, which has a `body`
_SHOWN = 5  # fields of a response that a message names
_HOSTED = ("provider", "provider-defined")  # the AI SDK's types of tools that the model's provider runs


@dataclass(frozen=True, slots=True)
class BodyTurn:
    """A line that holds a request to a model.

    Attributes:
        turn: the line as a turn.
        passed_over: fields of the line that nothing reads.
        response: `read`; `unread` where one is there that does not say what was called; `missing` where none is
            beside the request; empty for a body alone, whose answer stands in the next one.
        unread: the fields of a response that was not read.
    """

    turn: dict[str, Any]
    passed_over: tuple[str, ...] = ()
    response: str = ""
    unread: tuple[str, ...] = ()


def as_turn(data: Mapping[str, Any]) -> BodyTurn | None:
    """Convert a body, or a request with its response, into a turn; None if the line is neither."""
    name = _request_field(data)
    if name is not None:
        return _pair(data, name)
    if _is_turn(data) or not _is_body(data) or not any(name in data for name in ("tools", "functions")):
        return None
    if is_eval(data):  # with `input`, and names of tools for what is expected
        return None
    return BodyTurn(_turn(data, offered=offered_tools(data), sources=(data,))[0])


def unread_responses(data: Mapping[str, Any], *, has_tools: bool) -> list[str]:
    """The fields of a turn that hold responses or calls, which are not read in addition to the turn's fields.

    Args:
        data: the turn.
        has_tools: it says which tools the model had, so that an answer that is a text alone called none of them.
    """
    responses = [name for name in RESPONSES if data.get(name) not in (None, "", {}, [])]
    texts = [name for name in responses if isinstance(text := parsed(data[name]), str) and not is_stream(text)]
    calls = [name for name in data if name not in TURN_FIELDS and holds_calls(name, data[name])]
    return list(dict.fromkeys([*(name for name in responses if name not in texts or not has_tools), *calls]))


def unread_request(data: Mapping[str, Any]) -> str:
    """Describe a line that is no turn; empty if its kind is unknown."""
    if isinstance(data.get("run_type"), str) and "inputs" in data:
        return (
            "; it looks like a run of LangSmith, whose exports are not read: send the same traces as OpenTelemetry "
            "spans, or write its inputs as messages"
        )
    if is_eval(data):
        return "; it looks like a hand-written eval: `ctxbench data import golden` takes a file of these"
    name = next((name for name in REQUESTS if isinstance(_inner(data.get(name)), dict)), None)
    if name is None:
        return ""
    fields = ", ".join(map(repr, list(_inner(data[name]))[:5]))
    return f"; {name!r} is no body of a request, with messages or input: it has {fields or 'no fields'}"


def _request_field(data: Mapping[str, Any]) -> str | None:
    """The field of a line that holds a request."""
    if "messages" in data:
        return "messages" if not _is_turn(data) and _is_body(data) and _has_response(data) else None
    is_log_record = any(name in data for name in _OF_SPANS) and not _has_response(data)
    for name in REQUESTS:
        value = _inner(data.get(name))
        if isinstance(value, dict) and _is_body(value) and not (name == "body" and is_log_record):
            return name
        if name == "input" and isinstance(value, list) and read_response(value) and _has_response(data):
            return name
    return None


def _is_turn(data: Mapping[str, Any]) -> bool:
    return "offered" in data or "called" in data or isinstance(data.get("text"), str)


def _has_response(data: Mapping[str, Any]) -> bool:
    return any(data.get(name) is not None for name in RESPONSES)


def _pair(data: Mapping[str, Any], name: str) -> BodyTurn:
    """The turn of the request in a field, or of the line as a request, and of its response."""
    value = data if name == "messages" else _inner(data[name])
    request = value if isinstance(value, dict) else {"input": value}
    fields = [field for field in RESPONSES if field != name and data.get(field) not in (None, "", {}, [])]
    answers = {field: _answers(field, _inner(data[field])) for field in fields}
    field = next((field for field in fields if answers[field] is not None), None)
    offered = offered_tools(request)
    if offered is None:
        offered = offered_tools(data)
    is_whole = "model" in request or name not in ("input", "messages")
    if offered is None and field is not None and is_whole:
        offered = []  # a body without tools
    response = _inner(data[field]) if field is not None else None
    sources = (data, response if isinstance(response, dict) else {}, request)
    turn, used = _turn(request, (answers[field] if field else None) or (), offered=offered, sources=sources)
    read = {name, *([field] if field else fields), *used, "tools", "functions"}
    # a text says what was called only where the line says which tools the model had
    is_text_alone = isinstance(response, str) and offered is None
    state = "missing" if not fields else "unread" if field is None or is_text_alone else "read"
    unread = [part for field in fields for part in _parts(field, _inner(data[field]))] if state == "unread" else []
    return BodyTurn(turn, tuple(field for field in data if field not in read), state, tuple(unread))


def _parts(field: str, response: Any) -> list[str]:
    """A response's fields, `result.steps`; those alone that hold calls, if any does."""
    if not isinstance(response, dict):
        return [field]
    names = [name for name, value in response.items() if call_names({name: value})] or list(response)[:_SHOWN]
    return [f"{field}.{name}" for name in names]


def _answers(field: str, response: Any) -> list[Any] | None:
    if isinstance(response, str):
        is_answer = field in _TEXTS and not is_stream(response)
        return [{"role": "assistant", "content": response}] if is_answer else None
    return read_response(response)


def _inner(value: Any) -> Any:
    """A body without its enclosing object or text."""
    value = parsed(value)
    inner = parsed(value.get("body")) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict | list) else value


def _is_body(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("messages"), list) or isinstance(value.get("input"), str | list)


def _turn(
    request: Mapping[str, Any],
    answers: Collection[Any] = (),
    *,
    offered: list[Any] | None,
    sources: tuple[Mapping[str, Any], ...],
) -> tuple[dict[str, Any], set[str]]:
    """A request with its answers as a turn, and the fields of the line, the first of the sources, that it has."""
    messages = request["messages"] if isinstance(request.get("messages"), list) else input_messages(request["input"])
    turn: dict[str, Any] = {"messages": [*messages, *answers]}
    if offered is not None:
        turn["offered"] = offered
    used: set[str] = set()
    readers: tuple[tuple[str, tuple[str, ...], Callable[[Any], Any]], ...] = (
        ("time", _TIMES, seconds),
        ("conversation", _CONVERSATIONS, _identity),
        ("user", _USERS, _identity),
        ("workspace", ("workspace",), _identity),
        ("turn", ("turn",), _number),
    )
    for field, names, read in readers:
        searched = sources if field == "time" else (sources[0], sources[-1])
        matches = ((source, name) for source in searched for name in names if read(source.get(name)) is not None)
        source, name = next(matches, (None, ""))
        if source is not None:
            turn[field] = source[name]
            used |= {name} if source is sources[0] else set()
    return turn, used


def _identity(value: Any) -> str | None:
    return str(value) or None if isinstance(value, str | int) and not isinstance(value, bool) else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def offered_tools(request: Mapping[str, Any]) -> list[Any] | None:
    """The `tools` (or `functions`) of a request, those that the provider runs left out; None if it has neither."""
    tools = request.get("tools") if request.get("tools") is not None else request.get("functions")
    if isinstance(tools, dict):  # by name, as the AI SDK has them
        return [name for name, tool in tools.items() if not (isinstance(tool, dict) and tool.get("type") in _HOSTED)]
    if not isinstance(tools, list):
        return None
    return [declaration for tool in tools for declaration in _declared(tool) if not _is_hosted(declaration)]


def _declared(tool: Any) -> list[Any]:
    """The tools in an entry: itself, or several that Gemini is sent in one."""
    for name in ("functionDeclarations", "function_declarations"):
        if isinstance(tool, dict) and isinstance(tool.get(name), list):
            return list(tool[name])
    return [tool]


def _is_hosted(tool: Any) -> bool:
    """Whether a tool is run by the model's provider, and so no item of a catalog."""
    if not isinstance(tool, dict):
        return False
    return tool.get("type") in _HOSTED or ("name" not in tool and not isinstance(tool.get("function"), dict))
