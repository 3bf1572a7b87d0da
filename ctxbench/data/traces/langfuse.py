"""Read observations that Langfuse exported as spans of the GenAI conventions.

Sources: the export of the observations table and the API (`traceId`, `sessionId`;
https://langfuse.com/docs/api-and-data-platform/features/export-from-ui) and the export to a storage (`trace_id`,
`session_id`; https://langfuse.com/docs/api-and-data-platform/features/blob-storage-export-fields). Where a model's
tools stand depends on what recorded them (https://github.com/orgs/langfuse/discussions/14826): in the input beside the
messages (Langfuse's wrapper of OpenAI), or among the attributes in the metadata, as the AI SDK calls them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ctxbench.data.traces.ai_sdk_spans import operation, recorded_tools
from ctxbench.data.traces.otlp import Span
from ctxbench.data.traces.records import get, seconds
from ctxbench.data.traces.responses import parsed, read_response

_KINDS = {"GENERATION": "chat", "TOOL": "execute_tool", "AGENT": "invoke_agent"}
_OTHERS = ("SPAN", "EVENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL")
_MARKS = ("traceId", "trace_id", "parentObservationId", "parent_observation_id")
_OF_SPANS = ("spanId", "span_id", "attributes")  # which observations do not have
_LISTS = ("observations", "data")  # of a trace, and of an answer of the API
_SHARED = ("sessionId", "session_id", "userId", "user_id")
_TOOLS = ("tool_definitions", "toolDefinitions")


def holds_observations(data: Mapping[str, Any]) -> bool:
    """Whether a JSON object is an observation, a trace with observations, or a page of them."""
    return _is_observation(data) or any(True for _ in _listed(data))


def read_observations(data: Mapping[str, Any], position: int) -> Iterator[Span]:
    """The spans of an observation, or of all those in a trace or a page.

    Args:
        data: of which `holds_observations` is true.
        position: in the log, for observations without an id.
    """
    if _is_observation(data):
        yield _span(data, str(position))
        return
    trace = data.get("trace")
    shared = {**data, **trace} if isinstance(trace, dict) else data
    above = {name: shared[name] for name in _SHARED if shared.get(name) is not None}
    for number, observation in enumerate(_listed(data)):
        fields = {name: value for name, value in observation.items() if value is not None}
        yield _span({**above, **fields}, f"{position}-{number}")


def _is_observation(data: Mapping[str, Any]) -> bool:
    kind = data.get("type")
    if not isinstance(kind, str) or kind.upper() not in (*_KINDS, *_OTHERS) or any(n in data for n in _OF_SPANS):
        return False
    has_body = kind.upper() == "GENERATION" and ("input" in data or "output" in data)
    return has_body or any(name in data for name in _MARKS)


def _listed(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name in _LISTS:
        entries = data.get(name)
        if isinstance(entries, list):
            yield from (entry for entry in entries if isinstance(entry, dict) and _is_observation(entry))


def _span(data: Mapping[str, Any], default_id: str) -> Span:
    own_id = str(data.get("id") or default_id)
    metadata = parsed(data.get("metadata"))
    metadata = metadata if isinstance(metadata, dict) else {}
    recorded = parsed(metadata.get("attributes"))
    attributes = dict(recorded) if isinstance(recorded, dict) else {}
    attributes |= {name: value for name, value in _identity(data, metadata).items() if value is not None}
    kind = _KINDS.get(str(data["type"]).upper())
    if kind == "execute_tool" and not operation(attributes):
        attributes |= {"gen_ai.operation.name": kind, "gen_ai.tool.name": data.get("name")}
    elif kind is not None and not (kind == "invoke_agent" and operation(attributes)):
        attributes |= {"gen_ai.operation.name": kind, **_bodies(data, metadata, attributes)}
    return Span(
        trace=str(get(data, *_MARKS[:2]) or own_id),
        id=own_id,
        parent=str(get(data, *_MARKS[2:]) or ""),
        name=str(data.get("name") or data["type"]),
        start=seconds(get(data, "startTime", "start_time")),
        attributes=attributes,
        failed=data.get("level") == "ERROR",
        message=str(get(data, "statusMessage", "status_message") or ""),
        answer_unread=_is_unread(data),
    )


def _is_unread(data: Mapping[str, Any]) -> bool:
    """Whether a model's answer is in an unknown form."""
    output = parsed(data.get("output"))
    is_model_call = str(data["type"]).upper() == "GENERATION"
    return is_model_call and isinstance(output, list | dict) and read_response(output) is None


def _identity(data: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    def first(*names: str) -> Any:
        return get(data, *names) or get(metadata, *names)

    return {
        "gen_ai.conversation.id": first("sessionId", "session_id"),
        "user.id": first("userId", "user_id"),
    }


def _bodies(data: Mapping[str, Any], metadata: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Messages and tools of a model call."""
    request, answered = parsed(data.get("input")), parsed(data.get("output"))
    bodies: dict[str, Any] = {}
    messages = request.get("messages", request.get("input")) if isinstance(request, dict) else request
    if isinstance(messages, str) and messages:
        messages = [{"role": "user", "content": messages}]
    if isinstance(messages, list):
        text = [{"role": "assistant", "content": answered}] if isinstance(answered, str) else None
        bodies["gen_ai.input.messages"] = messages
        bodies["gen_ai.output.messages"] = text or read_response(answered) or []
    sources = (request if isinstance(request, dict) else {}, metadata)
    tools = next((source["tools"] for source in sources if source.get("tools") is not None), None)
    tools = tools if tools is not None else get({**attributes, **data}, "ai.prompt.tools", *_TOOLS)
    if tools is not None:
        bodies["gen_ai.tool.definitions"] = recorded_tools(tools)
    return bodies
