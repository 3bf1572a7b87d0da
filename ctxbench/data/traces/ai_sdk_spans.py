"""Convert spans of the AI SDK's telemetry to the GenAI conventions.

Source: https://ai-sdk.dev/docs/ai-sdk-core/telemetry. `ai.generateText` and `ai.streamText` hold a request as a whole,
and so are agents; `.doGenerate` and `.doStream` below them are the calls of the model; `ai.toolCall` is a tool's
execution. The telemetry of version 7 follows the GenAI conventions itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ctxbench.data.traces.bodies import offered_tools
from ctxbench.data.traces.otlp import Span
from ctxbench.data.traces.records import get
from ctxbench.data.traces.responses import parsed

_AGENTS = ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject")
_STEPS = ("doGenerate", "doStream")
_METADATA = "ai.telemetry.metadata."
_CONVERSATIONS = ("sessionId", "session_id", "conversationId", "conversation_id", "threadId", "thread_id", "chatId")
_USERS = ("userId", "user_id", "user")


def operation(attributes: Mapping[str, Any]) -> str:
    """The SDK's operation that a span is of, such as `ai.toolCall`; empty if it is none of the SDK's."""
    named = get(attributes, "ai.operationId", "operation.name")
    name = named.split(" ")[0] if isinstance(named, str) else ""  # the second word is the application's own
    return name if name.startswith("ai.") else ""


def as_gen_ai(span: Span) -> Span:
    """A span with the attributes of the GenAI conventions; one that is not the SDK's is returned as it is.

    Raises:
        ValueError, TypeError: its messages or tools are not built as the SDK has them.
    """
    name = operation(span.attributes)
    if not name:
        return span
    converted: dict[str, Any] = {}
    if name == "ai.toolCall":
        converted = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": span.attributes.get("ai.toolCall.name"),
            "gen_ai.tool.call.id": span.attributes.get("ai.toolCall.id"),
        }
    elif name in _AGENTS:
        converted = {"gen_ai.operation.name": "invoke_agent", **_messages(span.attributes, "ai.prompt")}
    elif name.rpartition(".")[2] in _STEPS:
        converted = {"gen_ai.operation.name": "chat", **_messages(span.attributes, "ai.prompt.messages")}
        if span.attributes.get("ai.prompt.tools") is not None:
            converted["gen_ai.tool.definitions"] = recorded_tools(span.attributes["ai.prompt.tools"])
    identity = {
        "gen_ai.conversation.id": get(span.attributes, *(_METADATA + name for name in _CONVERSATIONS)),
        "user.id": get(span.attributes, *(_METADATA + name for name in _USERS)),
    }
    fields = {name: value for name, value in {**identity, **converted}.items() if value is not None}
    return replace(span, attributes={**span.attributes, **fields})


def _messages(attributes: Mapping[str, Any], field: str) -> dict[str, Any]:
    """The request and response of a model call; empty if the request was not recorded."""
    prompt = parsed(attributes.get(field))
    if isinstance(prompt, dict):
        prompt_messages = prompt.get("messages")
        prompt = prompt_messages if prompt_messages is not None else prompt.get("prompt")
    if isinstance(prompt, str) and prompt:
        prompt = [{"role": "user", "content": prompt}]
    if not isinstance(prompt, list):
        return {}
    text = get(attributes, "ai.response.text", "ai.result.text", "ai.response.object")
    calls = parsed(get(attributes, "ai.response.toolCalls", "ai.result.toolCalls"))
    answer = {"role": "assistant", "content": text if isinstance(text, str) else None, "toolCalls": calls}
    return {
        "gen_ai.input.messages": prompt,
        "gen_ai.output.messages": [answer] if text is not None or calls is not None else [],
    }


def recorded_tools(value: Any) -> list[Any]:
    """The tools of a model call, each an object or its JSON text; those that the provider runs are left out."""
    tools = parsed(value)
    tools = tools if isinstance(tools, list | dict) else [tools]
    return offered_tools({"tools": [parsed(tool) for tool in tools] if isinstance(tools, list) else tools}) or []
