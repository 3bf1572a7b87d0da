"""Read bodies of requests to OpenAI and Anthropic, alone or with their responses, as turns.

A body is known by its fields: `tools` beside `messages`, or an `input` (OpenAI's responses). Its tools are what the
model was offered. A line may be a body, or `{"request": body, "response": body}`, each also inside a `body`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_REQUEST = ("request", "req", "input_body")
_RESPONSE = ("response", "resp", "completion")
_TIMES = ("time", "timestamp", "ts", "created_at", "created", "startTime")
_CONVERSATIONS = ("conversation", "conversation_id", "session_id", "thread_id")


def as_turn(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Convert a body, or a pair of bodies, into a turn; None if the line is neither."""
    request = next((_body(data[name]) for name in _REQUEST if isinstance(data.get(name), dict)), None)
    if request is not None and "messages" not in data:
        response = next((_body(data[name]) for name in _RESPONSE if isinstance(data.get(name), dict)), {})
        return _turn(request, response, data) if _is_body(request) else None
    is_turn = any(name in data for name in ("offered", "called", "text"))
    return None if is_turn or not _is_body(data) or "tools" not in data else _turn(data, {}, data)


def _body(value: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = value.get("body")
    return inner if isinstance(inner, dict) else value


def _is_body(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("messages"), list) or isinstance(value.get("input"), str | list)


def _turn(request: Mapping[str, Any], response: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    messages = request["messages"] if isinstance(request.get("messages"), list) else _items(request["input"])
    turn: dict[str, Any] = {"messages": [*messages, *_answers(response)]}
    if request.get("tools") is not None or response:
        turn["offered"] = [tool for tool in request.get("tools") or () if not _is_hosted(tool)]
    for field, names in (("time", _TIMES), ("conversation", _CONVERSATIONS), ("user", ("user",))):
        sources = (line, response, request) if field == "time" else (line, request)
        value = next(
            (one[name] for one in sources for name in names if isinstance(one.get(name), str | int | float)), None
        )
        if value is not None:
            turn[field] = value
    return turn


def _is_hosted(tool: Any) -> bool:
    """Whether a tool is run by the model's provider, and so no item of a catalog."""
    return isinstance(tool, dict) and "name" not in tool and not isinstance(tool.get("function"), dict)


def _answers(response: Mapping[str, Any]) -> Iterator[Any]:
    """The messages of a response: of chat completions the first choice, of the other two forms its content."""
    choices = response.get("choices")
    if isinstance(choices, list):
        yield from (
            one["message"] for one in choices[:1] if isinstance(one, dict) and isinstance(one.get("message"), dict)
        )
    elif isinstance(response.get("output"), list):
        yield from _items(response["output"])
    elif "content" in response:
        yield {"role": response.get("role", "assistant"), "content": response["content"]}


def _items(value: Any) -> Iterator[Any]:
    """The items of OpenAI's responses as messages; reasoning and what the provider ran are passed over."""
    if isinstance(value, str):
        yield {"role": "user", "content": value}
        return
    for item in value:
        kind = item.get("type", "message") if isinstance(item, dict) else "message"
        if kind == "function_call":
            call = {"id": item.get("call_id") or item.get("id"), "function": {"name": item.get("name")}}
            yield {"role": "assistant", "content": "", "tool_calls": [call]}
        elif kind == "function_call_output":
            yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
        elif kind == "message":
            yield item
