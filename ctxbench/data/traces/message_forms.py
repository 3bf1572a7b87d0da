"""Messages of other libraries in the form that `chat_messages` reads: parts of type `text`, `tool_call`, `tool_result`.

Sources: the AI SDK's `ModelMessage` (parts `tool-call`, `tool-result`;
https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message) and `UIMessage` (parts `tool-NAME` and `dynamic-tool`,
which hold call and result; https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message; `toolInvocations` before version
5); `function_call` of OpenAI's first tools; `functionCall` of Gemini and `toolUse` of Bedrock's Converse, which name
the part by a field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ctxbench.data.traces.records import get

_CALL_FIELDS = ("functionCall", "function_call", "toolUse")
_RESULT_FIELDS = ("functionResponse", "function_response", "toolResult")
_FAILED = ("output-error", "output-denied")  # states of a part of a UI message
_DONE = ("output-available", "result", *_FAILED)
_APPROVALS = ("tool-approval-request", "tool-approval-response")


def plain_messages(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A message as one or several in the plain form; a UI message becomes its texts, calls and results."""
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
    """A list of calls with those of the AI SDK as parts; anything else as it is."""
    if not isinstance(calls, list):
        return calls
    return [
        _part({"type": "tool-call", **call}) if isinstance(call, dict) and "toolName" in call else call
        for call in calls
    ]


def _part(part: Any) -> Any:
    """A part in the plain form; a part in an unknown form stays as it is."""
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
        return _result(part["toolCallId"], value, failed=failed or inner == "execution-denied")
    for name in _CALL_FIELDS:
        if isinstance(part.get(name), dict):
            call = part[name]
            return {"type": "tool_call", "id": get(call, "id", "toolUseId"), "name": call.get("name")}
    for name in _RESULT_FIELDS:
        if isinstance(part.get(name), dict):
            result = part[name]
            failed = result.get("status") == "error"
            return _result(get(result, "id", "toolUseId"), get(result, "response", "content"), failed=failed)
    return part


def _result(call: Any, value: Any, *, failed: bool) -> dict[str, Any]:
    return {"type": "tool_result", "tool_call_id": call, "content": value} | ({"is_error": True} if failed else {})


def _has_invocations(parts: Any) -> bool:
    return isinstance(parts, list) and any(_invocation(part) is not None for part in parts)


def _invocation(part: Any) -> tuple[str, Mapping[str, Any]] | None:
    """The tool's name and the invocation of a part of a UI message; None if it is no invocation."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind in _APPROVALS:
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
            results.append(_result(call.get("toolCallId"), value, failed=state in _FAILED))
    if content:
        yield {"role": role, "content": content}
    if results:
        yield {"role": "tool", "content": results}
