"""Read messages from the requests and responses of APIs, and from results of libraries.

Sources: OpenAI's chat completions (`choices`) and responses (`output`), Anthropic's messages (`content`), Gemini
(`candidates`); the results of the AI SDK's `generateText` (`text`, `toolCalls`;
https://ai-sdk.dev/docs/reference/ai-sdk-core/generate-text).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_OF_MESSAGES = ("role", "content", "tool_calls", "toolCalls", "function_call", "parts")
_OF_RESULTS = ("text", "toolCalls", "tool_calls")
_CALLS = ("function_call", "custom_tool_call")  # types of items of OpenAI's responses
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_CALL_LISTS = ("tool_calls", "toolCalls")
_CALL_FIELDS = ("function_call", "functionCall", "toolUse")
_FIRST_ALONE = ("choices", "candidates")  # of several answers the first is read
_NO_ANSWERS = ("request", "input", "arguments", "args", "tools", "parameters")  # fields that hold no calls of an answer
LIKE_CALLS = re.compile(r"(?:\w+[-_])?(?:tool|function)[-_]?(?:call|use|invocation)s?", re.IGNORECASE)
"""Types of parts that may be calls."""
HOSTED = "server_tool_use"  # a call of what the provider runs itself
_OF_CALLS = re.compile(
    r"call|invo[ck]|tools?_?use[sd]?|expected|forbidden|must_?(?:not_?)?(?:use|include)", re.IGNORECASE
)
_STREAM = re.compile(r"\s*(?:data:\s*[\[{]|event:[^\n]*\n|[0-9a-f]:[\[{\"]|\{[^\n]*\}\s*\n\s*\{)")


def parsed(value: Any) -> Any:
    """An object or a list that was written as JSON text; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def is_stream(text: str) -> bool:
    """Whether a text is a streamed response (events, or an object a line) rather than a whole one."""
    return _STREAM.match(text) is not None


def call_names(value: Any) -> set[str]:
    """The names of everything in a response that looks like a call."""
    if isinstance(value, list):
        return {name for entry in value for name in call_names(entry)}
    if not isinstance(value, dict):
        return set()
    names: set[str] = set()
    for key, inner in value.items():
        if key in _CALL_LISTS and isinstance(inner, list):
            names |= {name for call in inner if (name := _called(call))}
        elif key in _CALL_FIELDS and (name := _called(inner)):
            names.add(name)
        elif key not in _NO_ANSWERS:
            names |= call_names(inner[:1] if key in _FIRST_ALONE and isinstance(inner, list) else inner)
    kind = value.get("type")
    if isinstance(kind, str) and kind != HOSTED and LIKE_CALLS.fullmatch(kind) and (name := _called(value)):
        names.add(name)
    return names


def holds_calls(field: str, value: Any) -> bool:
    """Whether an unread field of a line seems to hold calls or labels, by its name or its content."""
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
    """The messages of a response, none of one that is an error.

    Returns:
        None if it is in no form that is known, or holds calls that its messages do not have.
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
    inner = response.get("response")
    for source, name in ((response, "output"), (response, "messages"), (inner, "messages")):
        items = source.get(name) if isinstance(source, dict) else None
        if isinstance(items, list):
            return list(input_messages(items))
    if isinstance(response.get("message"), dict):
        return read_response(response["message"])
    if any(response.get(name) is not None for name in _OF_MESSAGES) and "text" not in response:
        return [{"role": "assistant", **response}]
    if any(isinstance(response.get(name), str | list) for name in _OF_RESULTS):
        return [{"role": "assistant", "content": response.get("text"), **_calls_of(response)}]
    return [] if response.get("error") else None


def input_messages(value: Any) -> Iterator[Any]:
    """The items of OpenAI's responses as messages; reasoning and what the provider ran are passed over."""
    if isinstance(value, str):
        yield {"role": "user", "content": value}
        return
    for item in value:
        kind = (item.get("type") or "message") if isinstance(item, dict) else "message"
        if kind in _CALLS:
            yield _call(item.get("call_id") or item.get("id"), item)
        elif kind in _OUTPUTS:
            yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
        elif kind == "mcp_call":
            yield _call(item.get("id"), item)
            failed = {"is_error": True} if item.get("error") else {}
            yield {"role": "tool", "tool_call_id": item.get("id"), "content": item.get("output"), **failed}
        elif kind == "message" or "role" in item:
            yield item


def _call(call: Any, item: Mapping[str, Any]) -> dict[str, Any]:
    tool_call = {"id": call, "function": {"name": item.get("name")}}
    return {"role": "assistant", "content": "", "tool_calls": [tool_call]}


def _calls_of(response: Mapping[str, Any]) -> dict[str, Any]:
    return {name: response[name] for name in ("toolCalls", "tool_calls") if response.get(name) is not None}


def _first_choice(choice: Any) -> list[Any] | None:
    """The message of a choice, or its text; None of one that was streamed, which holds a part of a message."""
    if isinstance(choice, dict) and isinstance(choice.get("message"), dict):
        return [choice["message"]]
    if isinstance(choice, dict) and isinstance(choice.get("text"), str):
        return [{"role": "assistant", "content": choice["text"]}]
    return None


def _read_list(response: list[Any]) -> list[Any] | None:
    """A list of messages, of an answer's parts, or of calls."""
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
