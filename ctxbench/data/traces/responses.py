"""Read what a model answered, and what was said to it, from bodies of APIs and results of libraries, as messages.

Sources: OpenAI's chat completions (`choices`) and responses (`output`), Anthropic's messages (`content`), Gemini
(`candidates`); the results of the AI SDK's `generateText` (`text`, `toolCalls`;
https://ai-sdk.dev/docs/reference/ai-sdk-core/generate-text).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_OF_MESSAGES = ("role", "content", "tool_calls", "toolCalls", "function_call", "parts")
_OF_RESULTS = ("text", "toolCalls", "tool_calls")
_CALLS = ("function_call", "custom_tool_call")  # types of items of OpenAI's responses
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


def parsed(value: Any) -> Any:
    """An object or a list that was written as JSON text; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def read_response(response: Any) -> list[Any] | None:
    """The messages of a response, none of one that is an error; None if it is in no form that is known."""
    if isinstance(response, list):
        return _read_list(response)
    if not isinstance(response, dict):
        return None
    choices, candidates = response.get("choices"), response.get("candidates")
    if isinstance(choices, list):
        return _first_choice(choices[0]) if choices else []
    if isinstance(candidates, list):
        return [one["content"] for one in candidates[:1] if isinstance(one, dict) and "content" in one]
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
        known = any(entry["type"] == "text" or "tool" in entry["type"] for entry in response)
        return [{"role": "assistant", "content": response}] if known else None
    return None
