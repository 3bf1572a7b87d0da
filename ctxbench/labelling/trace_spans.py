"""Turns from OpenTelemetry spans, the AI SDK and Langfuse.

Sources: OTLP's JSON mapping (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding), `to_json` of the Python
SDK's `ReadableSpan`, and the output of the JavaScript SDK's `ConsoleSpanExporter`.

GenAI semantic conventions (https://opentelemetry.io/docs/specs/semconv/gen-ai/): attributes of 1.37 and later
(`gen_ai.input.messages`, `gen_ai.tool.definitions`), earlier events (`gen_ai.user.message`, `gen_ai.choice`, on spans
and as log records) and still earlier numbered attributes (`gen_ai.prompt.0.role`).

AI SDK (https://ai-sdk.dev/docs/ai-sdk-core/telemetry): `ai.generateText` and `ai.streamText` hold a whole request;
`.doGenerate` and `.doStream` below them are model calls; `ai.toolCall` is the execution of a tool. Version 7 follows
the GenAI conventions.

Langfuse: the export of the observations table and the API (`traceId`, `sessionId`;
https://langfuse.com/docs/api-and-data-platform/features/export-from-ui) and the export to a storage (`trace_id`,
`session_id`; https://langfuse.com/docs/api-and-data-platform/features/blob-storage-export-fields). Tools are in the
input or in the metadata, depending on the recorder (https://github.com/orgs/langfuse/discussions/14826).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ctxbench.datasets.queries import group_pairs
from ctxbench.labelling.record_files import named
from ctxbench.labelling.trace_messages import (
    Call,
    ChatMessage,
    Interner,
    LogFindings,
    NestedCall,
    Record,
    get,
    parsed,
    read_messages,
    read_response,
    result_status,
    same_tool,
    seconds,
    set_summary,
    text_or_none,
)
from ctxbench.labelling.trace_turns import offered_tools

TURN_MARKS = ("messages", "text", "called", "offered")
"""Fields of a turn: a line with any of them is a turn."""

_OTLP_FIELDS = ("attributes", "parentSpanId", "parent_span_id", "parent_id", "startTimeUnixNano", "start_time", "body")


@dataclass(slots=True, kw_only=True)
class SpanEvent:
    """An event of a span, or a log record: its name and its data."""

    name: str
    data: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Span:
    """A span; or, with `is_log`, a log record that belongs to one.

    Attributes:
        trace, id, parent: in hexadecimal; empty if missing.
        start: seconds since 1970, or None.
        failed: the status is an error.
        message: the message of the status.
        answer_unread: the answer of the model is in an unknown form.
    """

    trace: str
    id: str
    parent: str = ""
    name: str = ""
    start: float | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[SpanEvent] = field(default_factory=list)
    failed: bool = False
    message: str = ""
    is_log: bool = False
    answer_unread: bool = False


def holds_spans(data: Mapping[str, Any]) -> bool:
    """Whether a JSON object is an export, a span or a log record rather than a turn.

    A turn may have the id of a trace, and an object called `context`. An object with a field of a turn is a span only
    if it also has the id and another field of a span.
    """
    if any(name in data for name in ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")):
        return True
    context = data.get("context")
    inner = context if isinstance(context, dict) else {}
    span_id = get(data, "spanId", "span_id") or get(inner, "spanId", "span_id")
    if any(name in data for name in TURN_MARKS) and not (span_id and any(name in data for name in _OTLP_FIELDS)):
        return False
    return bool(span_id) or get(data, "traceId", "trace_id") is not None or get(inner, "trace_id") is not None


def read_spans(data: Mapping[str, Any]) -> Iterator[Span]:
    """Read the spans and log records of an export, or a single one.

    Raises:
        TypeError, AttributeError: it does not follow the specification.
    """
    groups = get(data, "resourceSpans", "resource_spans")
    logs = get(data, "resourceLogs", "resource_logs")
    if groups is None and logs is None:
        yield _otlp_span(data) if "body" not in data else _log(data)
        return
    for group in groups or ():
        shared = _attributes((group.get("resource") or {}).get("attributes"))
        for scope in get(group, "scopeSpans", "scope_spans", "instrumentationLibrarySpans") or ():
            for entry in scope.get("spans") or ():
                span = _otlp_span(entry)
                span.attributes = {**shared, **span.attributes}
                yield span
    for group in logs or ():
        for scope in get(group, "scopeLogs", "scope_logs") or ():
            yield from map(_log, get(scope, "logRecords", "log_records") or ())


def _otlp_span(data: Mapping[str, Any]) -> Span:
    context = data.get("context") or {}
    status = data.get("status") or {}
    code = get(status, "code", "status_code") if isinstance(status, dict) else status
    message = str(get(status, "message", "description") or "") if isinstance(status, dict) else ""
    above = data.get("parentSpanContext") or {}
    return Span(
        trace=_hex(get(data, "traceId", "trace_id") or context.get("trace_id")),
        id=_hex(get(data, "spanId", "span_id") or context.get("span_id") or data.get("id")),
        parent=_hex(get(data, "parentSpanId", "parent_span_id", "parent_id", "parentId") or above.get("spanId")),
        name=str(data.get("name") or ""),
        start=seconds(get(data, "startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "timestamp")),
        attributes=_attributes(data.get("attributes")),
        events=[
            SpanEvent(name=str(entry.get("name") or ""), data=_attributes(entry.get("attributes")))
            for entry in data.get("events") or ()
        ],
        failed=code in (2, "2", "ERROR", "STATUS_CODE_ERROR"),
        message=message,
    )


def _log(data: Mapping[str, Any]) -> Span:
    attributes = _attributes(data.get("attributes"))
    body = _value(data.get("body"))
    name = str(get(data, "eventName", "event_name") or attributes.get("event.name") or "")
    content = {**attributes, **body} if isinstance(body, dict) else {**attributes, "content": body}
    return Span(
        trace=_hex(get(data, "traceId", "trace_id")),
        id=_hex(get(data, "spanId", "span_id")),
        start=seconds(get(data, "timeUnixNano", "observedTimeUnixNano", "timestamp")),
        events=[SpanEvent(name=name, data=content)],
        is_log=True,
    )


def _attributes(value: Any) -> dict[str, Any]:
    """Attributes as an object, from OTLP's list of keys and values or an object."""
    if isinstance(value, list):
        return {str(entry["key"]): _value(entry.get("value")) for entry in value if "key" in entry}
    return dict(value) if isinstance(value, dict) else {}


def _value(value: Any) -> Any:
    """A value without the wrapper of OTLP, if it has one."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    match kind.replace("_", "").casefold():
        case "stringvalue" | "boolvalue" | "doublevalue" | "bytesvalue":
            return inner
        case "intvalue":
            return int(inner)
        case "arrayvalue":
            return [_value(entry) for entry in (inner or {}).get("values") or ()]
        case "kvlistvalue":
            return _attributes((inner or {}).get("values") or [])
    return value


def _hex(value: Any) -> str:
    return str(value or "").removeprefix("0x").casefold()


@dataclass(slots=True, kw_only=True)
class Node(Span):
    """A span without its attributes, with the data for records.

    Attributes:
        events: GenAI events, if the span itself has no user message.
        kind: `chat`, `tool`, `agent`, or empty for spans that only link others.
        record: the record of a model call or an agent.
        call: the call of a tool execution.
    """

    position: int
    kind: str = ""
    conversation: str | None = None
    user: str | None = None
    record: Record | None = None
    call: Call | None = None


class SpanTree:
    """The spans of one trace, linked to their ancestors.

    The record of a model call that answers a user message is a main record; other model calls are nested in one.
    """

    def __init__(self, trace: str, nodes: dict[str, Node], findings: LogFindings) -> None:
        self._trace = trace
        self._nodes = nodes
        self._findings = findings
        self._ancestors = {node.id: self._path(node) for node in nodes.values()}
        self._order = sorted(nodes.values(), key=lambda node: (self._start(node), node.position))
        self._mains: dict[str, Record] = {}

    def records(self) -> Iterator[Record]:
        """The model calls that answer user messages, each with its tool calls."""
        for node in self._nodes.values():
            self._count_issues(node)
        self._find_main_records()
        for node in self._order:
            record = node.record
            if node.kind == "chat" and record is not None and node.id not in self._mains:
                main = self._main_record_of(node)
                if main is None:
                    self._findings.counts["spans_without_content"] += 1
                else:
                    main.nested = (*main.nested, NestedCall(record.offered, record.calls))
                    main.unread += record.unread
        self._attach_calls()
        for node_id, record in self._mains.items():
            near = [self._nodes[node_id], *reversed(self._ancestors[node_id]), *self._nodes.values()]
            record.conversation = next((n.conversation for n in near if n.conversation), self._trace or None)
            record.user = next((n.user for n in near if n.user), None)
            yield record

    def _find_main_records(self) -> None:
        """Find the model calls of the outermost agents (or of no agent); the record of an agent without model calls."""
        users: dict[str, int] = {}
        keys: set[tuple[str, int]] = set()
        texts: set[tuple[str, str | None]] = set()
        outer = self._outermost_calls()
        helpers = helpers_of(outer, self._calls_with_tools(outer))
        for node, record, agent in outer:
            unit = agent.id if agent is not None else ""
            if node.id in helpers:
                self._findings.counts["model_calls_of_helpers"] += 1
                continue
            fewer = agent is not None and record.users <= users.get(unit, 0) and (unit, record.key) not in keys
            if fewer and (unit, record.text) in texts:
                continue  # the same request with a later window of messages
            texts.add((unit, record.text))
            keys.add((unit, record.key))
            users[unit] = max(record.users, users.get(unit, 0))
            record.unit = f"{self._trace}/{unit}"
            self._mains[node.id] = record
            if agent is not None and agent.record is not None and record.offered is None:
                record.offered = agent.record.offered
        for node in self._order:
            outermost = node.kind == "agent" and not any(a.kind in ("agent", "tool") for a in self._ancestors[node.id])
            if outermost and node.record is not None and node.record.text is not None and node.id not in users:
                node.record.unit = f"{self._trace}/{node.id}"
                self._mains[node.id] = node.record

    def _main_record_of(self, node: Node) -> Record | None:
        """The record that a nested span belongs to: of an ancestor, of the same agent, or the latest before it."""
        if (main := self._main_record_above(node)) is not None:
            return main
        unit = f"{self._trace}/{next(iter(self._agents(node)), '')}"
        same_unit = [record for record in self._mains.values() if record.unit == unit] or list(self._mains.values())
        before = [record for record in same_unit if record.time is None or record.time <= self._start(node)]
        return before[-1] if before else same_unit[0] if same_unit else None

    def _main_record_above(self, node: Node) -> Record | None:
        """The record of the nearest model call among the ancestors, or the main record of that call."""
        for above in reversed(self._ancestors[node.id]):
            if above.id in self._mains:
                return self._mains[above.id]
            if above.kind == "chat":
                return self._main_record_of(above)
        return None

    def _outermost_calls(self) -> list[tuple[Node, Record, Node | None]]:
        """The model calls outside of nested agents, tools and model calls, each with its agent."""
        out: list[tuple[Node, Record, Node | None]] = []
        for node in self._order:
            agents = self._agents(node)
            nested = len(agents) > 1 or any(above.kind in ("tool", "chat") for above in self._ancestors[node.id])
            if node.kind == "chat" and node.record is not None and not nested and node.record.text is not None:
                out.append((node, node.record, self._nodes[agents[0]] if agents else None))
        return out

    def _calls_with_tools(self, outer: list[tuple[Node, Record, Node | None]]) -> set[str]:
        """The model calls that tool spans are descendants of, or follow within the same agent."""
        agents = {node.id: agent.id if agent is not None else "" for node, _, agent in outer}
        latest: dict[str, str] = {}
        model_calls: set[str] = set()
        for node in self._order:
            if node.id in agents:
                latest[agents[node.id]] = node.id
            elif node.call is not None:
                above = [above.id for above in self._ancestors[node.id] if above.id in agents]
                model_calls.add(above[-1] if above else latest.get(next(iter(self._agents(node)), ""), ""))
        return model_calls

    def _agents(self, node: Node) -> list[str]:
        """Ids of the agents that a span is part of, outermost first."""
        return [above.id for above in self._ancestors[node.id] if above.kind == "agent"]

    def _record_with_call(self, call: Call, begin: float) -> Record | None:
        """The record whose messages have the id of a call; of several the one with its name, then the latest."""
        names = [
            (record, [record_call.name for record_call in record.calls if record_call.id == call.id])
            for record in self._mains.values()
        ]
        holders = [(record, matches) for record, matches in names if matches and call.id is not None]

        def order(holder: tuple[Record, list[str]]) -> tuple[bool, bool, float]:
            time = holder[0].time or 0.0
            return not any(same_tool(name, call.name) for name in holder[1]), time > begin, -time

        return min(holders, key=order)[0] if holders else None

    def _attach_calls(self) -> None:
        for node in self._order:
            if node.call is None:
                continue
            if any(above.call is not None and above.call.name == node.call.name for above in self._ancestors[node.id]):
                self._findings.counts["calls_twice"] += 1  # logged by the agent and by its MCP client
                continue
            record = (
                self._main_record_above(node)
                or self._record_with_call(node.call, self._start(node))
                or self._main_record_of(node)
            )
            if record is None:
                self._findings.counts["calls_without_request"] += 1
            else:
                record.executed = (*record.executed, node.call)

    def _count_issues(self, node: Node) -> None:
        parent = self._nodes.get(node.parent)
        if parent is None:
            self._findings.counts["spans_without_parent"] += bool(node.parent)
        elif parent.start is not None and node.start is not None and parent.start > node.start:
            self._findings.count_skew(parent.start - node.start)

    def _start(self, node: Node) -> float:
        """The start of a span, but not before the start of its ancestors."""
        return max((n.start for n in (*self._ancestors[node.id], node) if n.start is not None), default=0.0)

    def _path(self, node: Node) -> tuple[Node, ...]:
        """The ancestors of a span, outermost first; stops at a circle."""
        path = {node.id: node}
        above = self._nodes.get(node.parent)
        while above is not None and above.id not in path:
            path[above.id] = above
            above = self._nodes.get(above.parent)
        return tuple(reversed(path.values()))[:-1]


def helpers_of(outer: Iterable[tuple[Node, Record, Node | None]], with_tools: Collection[str]) -> set[str]:
    """The model calls of agents that are not part of the conversation, such as a call that finds its title.

    If the messages of an agent are recorded, model calls that do not have its user message are helpers. Otherwise
    model calls that share no user message with the first call that calls tools (else has tools, else the first call)
    are helpers. If several of these have tools, the record is `doubtful`.

    Args:
        outer: model calls in order, each with its agent; calls without an agent are not helpers.
        with_tools: ids of model calls that are followed by spans of tools.
    """
    by_agent = group_pairs((agent.id, (node, record, agent)) for node, record, agent in outer if agent is not None)
    helpers: set[str] = set()
    for members in by_agent.values():
        agent_record = members[0][2].record
        user_hashes = set(agent_record.user_hashes[-1:]) if agent_record is not None else set()
        first = [m for m in members if user_hashes & set(m[1].user_hashes)]
        if not first:
            tooled = [m for m in members if m[1].offered or m[1].calls or m[0].id in with_tools]
            calling = [m for m in members if m[1].calls] or [m for m in members if m[0].id in with_tools]
            first = calling[:1] or tooled[:1] or members[:1]
            linked = {a for _, record, _ in _linked(members, first) for a in record.user_hashes}
            first[0][1].doubtful |= any(not linked & set(record.user_hashes) for _, record, _ in tooled)
        linked_ids = {node.id for node, _, _ in _linked(members, first)}
        helpers |= {node.id for node, _, _ in members} - linked_ids
    return helpers


def _linked(
    members: list[tuple[Node, Record, Node]], first: list[tuple[Node, Record, Node]]
) -> list[tuple[Node, Record, Node]]:
    """The model calls that share user messages with the first ones, directly or through other calls."""
    user_hashes = {user_hash for _, record, _ in first for user_hash in record.user_hashes}
    while True:
        linked = [member for member in members if user_hashes & set(member[1].user_hashes)]
        linked_hashes = {user_hash for _, record, _ in linked for user_hash in record.user_hashes}
        if linked_hashes <= user_hashes:
            return linked
        user_hashes |= linked_hashes


_STEPS = ("doGenerate", "doStream")
_METADATA = "ai.telemetry.metadata."
_CONVERSATIONS = ("sessionId", "session_id", "conversationId", "conversation_id", "threadId", "thread_id", "chatId")
_USERS = ("userId", "user_id", "user")


def operation(attributes: Mapping[str, Any]) -> str:
    """The operation of the AI SDK, such as `ai.toolCall`; empty for other spans."""
    named = get(attributes, "ai.operationId", "operation.name")
    name = named.split(" ")[0] if isinstance(named, str) else ""  # the second word is chosen by the application
    return name if name.startswith("ai.") else ""


def as_gen_ai(span: Span) -> Span:
    """A span of the AI SDK with the attributes of the GenAI conventions; other spans are unchanged.

    Raises:
        ValueError, TypeError: its messages or tools are not in the form of the SDK.
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
    elif name in ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"):
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
    """The tools of a model call, each an object or its JSON text, without those that the provider runs."""
    tools = parsed(value)
    tools = tools if isinstance(tools, list | dict) else [tools]
    return offered_tools({"tools": [parsed(tool) for tool in tools] if isinstance(tools, list) else tools}) or []


_KINDS = {"GENERATION": "chat", "TOOL": "execute_tool", "AGENT": "invoke_agent"}
_OTHERS = ("SPAN", "EVENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL")
_MARKS = ("traceId", "trace_id", "parentObservationId", "parent_observation_id")
_SPAN_FIELDS = ("spanId", "span_id", "attributes")  # which observations do not have
_LISTS = ("observations", "data")  # of a trace, and of an answer of the API
_SHARED = ("sessionId", "session_id", "userId", "user_id")
_TOOL_FIELDS = ("tool_definitions", "toolDefinitions")


def holds_observations(data: Mapping[str, Any]) -> bool:
    """Whether a JSON object is an observation, a trace with observations, or a page of them."""
    return _is_observation(data) or any(True for _ in _listed(data))


def read_observations(data: Mapping[str, Any], position: int) -> Iterator[Span]:
    """The spans of an observation, or of all those in a trace or a page.

    Args:
        data: an object for which `holds_observations` is true.
        position: the position in the log, for observations without an id.
    """
    if _is_observation(data):
        yield _langfuse_span(data, str(position))
        return
    trace = data.get("trace")
    shared = {**data, **trace} if isinstance(trace, dict) else data
    above = {name: shared[name] for name in _SHARED if shared.get(name) is not None}
    for number, observation in enumerate(_listed(data)):
        fields = {name: value for name, value in observation.items() if value is not None}
        yield _langfuse_span({**above, **fields}, f"{position}-{number}")


def _is_observation(data: Mapping[str, Any]) -> bool:
    kind = data.get("type")
    if not isinstance(kind, str) or kind.upper() not in (*_KINDS, *_OTHERS) or any(n in data for n in _SPAN_FIELDS):
        return False
    has_body = kind.upper() == "GENERATION" and ("input" in data or "output" in data)
    return has_body or any(name in data for name in _MARKS)


def _listed(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name in _LISTS:
        entries = data.get(name)
        if isinstance(entries, list):
            yield from (entry for entry in entries if isinstance(entry, dict) and _is_observation(entry))


def _langfuse_span(data: Mapping[str, Any], default_id: str) -> Span:
    own_id = str(data.get("id") or default_id)
    metadata = parsed(data.get("metadata"))
    metadata = metadata if isinstance(metadata, dict) else {}
    recorded = parsed(metadata.get("attributes"))
    attributes = dict(recorded) if isinstance(recorded, dict) else {}
    for name, fields in (("gen_ai.conversation.id", _SHARED[:2]), ("user.id", _SHARED[2:])):
        if (value := get(data, *fields) or get(metadata, *fields)) is not None:
            attributes[name] = value
    output = parsed(data.get("output"))
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
        answer_unread=kind == "chat" and isinstance(output, list | dict) and read_response(output) is None,
    )


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
    tools = tools if tools is not None else get({**attributes, **data}, "ai.prompt.tools", *_TOOL_FIELDS)
    if tools is not None:
        bodies["gen_ai.tool.definitions"] = recorded_tools(tools)
    return bodies


_OPERATIONS = {
    "chat": "chat", "text_completion": "chat", "generate_content": "chat",
    "execute_tool": "tool", "invoke_agent": "agent",
}  # fmt: skip
_TOOLS_ATTRIBUTE = "gen_ai.tool.definitions"
_MESSAGE = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message$")


class SpanReader:
    """Collects spans one by one, and converts them into records at the end."""

    def __init__(self, findings: LogFindings, interner: Interner) -> None:
        self._findings = findings
        self._interner = interner
        self._traces: dict[str, dict[str, Node]] = {}
        self._logged: dict[tuple[str, str], list[SpanEvent]] = {}

    def add(self, span: Span, position: int) -> None:
        """Add a span or a log record.

        Raises:
            TypeError, ValueError: its messages or tools do not follow the conventions.
        """
        if span.is_log:
            self._logged.setdefault((span.trace, span.id), []).extend(span.events)
            return
        self._findings.counts["spans"] += 1
        self._findings.span_names[operation(span.attributes) or span.name or "without a name"] += 1
        nodes = self._traces.setdefault(span.trace, {})
        if span.id in nodes:
            self._findings.counts["spans_twice"] += 1
            return
        nodes[span.id] = self._node(as_gen_ai(span), position)

    def records(self) -> Iterator[Record]:
        """The records of all traces, each trace by time."""
        for (trace, span_id), events in self._logged.items():
            node = self._traces.get(trace, {}).get(span_id)
            if node is None:
                self._findings.counts["logs_without_span"] += len(events)
            elif node.record is not None and not node.record.users:
                self._read_events(node.record, [*node.events, *events])
        for trace, nodes in self._traces.items():
            yield from SpanTree(trace, nodes, self._findings).records()

    def _node(self, span: Span, position: int) -> Node:
        attributes = span.attributes
        node = Node(
            trace=span.trace,
            id=span.id,
            parent=span.parent,
            position=position,
            start=span.start,
            kind=_kind(attributes),
            conversation=text_or_none(get(attributes, "gen_ai.conversation.id", "session.id", "gen_ai.thread.id")),
            user=text_or_none(get(attributes, "user.id", "enduser.id")),
        )
        self._findings.counts["spans_other"] += not node.kind
        if node.kind == "tool":
            node.call = _tool_call(span)
        elif node.kind:
            node.record = Record(
                position=position, time=span.start, cumulative=True, offered=self._tools(attributes, span.events)
            )
            self._read_chat(node.record, span)
            if not node.record.users:
                node.events = [event for event in span.events if event.name.startswith("gen_ai.")]
            node.record.doubtful = span.answer_unread
            self._findings.counts["responses_unread"] += span.answer_unread
            self._findings.unread.update(["output"] * span.answer_unread)
        return node

    def _tools(self, attributes: Mapping[str, Any], events: Iterable[SpanEvent]) -> tuple[str, ...] | None:
        sources = (attributes, *(event.data for event in events))
        definitions = next((data[_TOOLS_ATTRIBUTE] for data in sources if data.get(_TOOLS_ATTRIBUTE) is not None), None)
        if definitions is None:
            definitions = _numbered_objects(attributes, "llm.request.functions.") or None
        if isinstance(definitions, str):
            definitions = json.loads(definitions)
        if definitions is None:
            return None
        entries = definitions if isinstance(definitions, list) else [definitions]
        parsed = (json.loads(e) if isinstance(e, str) and e.startswith("{") else e for e in entries)
        return self._interner.names(tuple(named(entry) for entry in parsed))

    def _read_chat(self, record: Record, span: Span) -> None:
        attributes = span.attributes
        for event in span.events:
            if event.name in ("gen_ai.client.inference.operation.details", "gen_ai.client.operation.exception"):
                attributes = {**attributes, **event.data}
        messages, answers = attributes.get("gen_ai.input.messages"), attributes.get("gen_ai.output.messages") or []
        if messages is None and ("gen_ai.prompt.0.role" in attributes or "gen_ai.prompt.0.content" in attributes):
            messages = _numbered_objects(attributes, "gen_ai.prompt.")
            answers = _numbered_objects(attributes, "gen_ai.completion.")
        if messages is None:
            self._read_events(record, span.events)
        else:
            self._set_messages(record, read_messages(messages), read_messages(answers))

    def _read_events(self, record: Record, events: Iterable[SpanEvent]) -> None:
        """Read messages of the older, event-based forms."""
        messages: list[ChatMessage] = []
        answers: list[ChatMessage] = []
        for event in events:
            if match := _MESSAGE.match(event.name):
                messages += read_messages([{"role": match[1], **event.data}])
            elif event.name == "gen_ai.choice" and str(event.data.get("index", 0)) == "0":
                message = event.data.get("message")
                message = json.loads(message) if isinstance(message, str) and message.startswith("{") else message
                inner = message if isinstance(message, dict) else {"content": message}
                answers += read_messages([{**event.data, **inner, "role": "assistant"}])
            elif event.name == "gen_ai.content.prompt":
                messages += read_messages(event.data.get("gen_ai.prompt") or [])
            elif event.name == "gen_ai.content.completion":
                answers += read_messages(event.data.get("gen_ai.completion") or [])
        self._set_messages(record, messages, answers)

    def _set_messages(self, record: Record, messages: list[ChatMessage], answers: list[ChatMessage]) -> None:
        answers = [replace(answer, role="assistant") for answer in answers]
        set_summary(record, [*messages, *answers], self._interner)
        if record.text is None:
            self._findings.roles.update(message.role for message in messages)
        record.continued = bool(messages) and messages[-1].role != "user"


def _kind(attributes: Mapping[str, Any]) -> str:
    if (operation := attributes.get("gen_ai.operation.name")) is not None:
        return _OPERATIONS.get(str(operation), "")
    if "gen_ai.tool.name" in attributes:
        return "tool"
    marks = ("gen_ai.input.messages", "gen_ai.request.model", "gen_ai.prompt.0.role")
    return "chat" if any(name in attributes for name in marks) else ""


def _tool_call(span: Span) -> Call | None:
    name = str(get(span.attributes, "gen_ai.tool.name") or span.name.removeprefix("execute_tool").strip())
    if not name:
        return None
    error = span.attributes.get("error.type")
    thrown = " ".join(str(e.data.get("exception.message") or "") for e in span.events if e.name == "exception")
    status = (
        result_status(f"{error or ''} {span.message} {thrown}", name, failed=True) if span.failed or error else "ok"
    )
    return Call(name, status, text_or_none(span.attributes.get("gen_ai.tool.call.id")), guessed=True)


def _numbered_objects(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Build objects from numbered attributes, such as `gen_ai.prompt.0.role`."""
    rows: dict[int, dict[str, Any]] = {}
    calls: dict[int, dict[int, dict[str, Any]]] = {}
    for name, value in attributes.items():
        parts = name.removeprefix(prefix).split(".") if name.startswith(prefix) else []
        if len(parts) < 2 or not parts[0].isdecimal():
            continue
        row = rows.setdefault(int(parts[0]), {})
        if parts[1] == "tool_calls" and len(parts) == 4 and parts[2].isdecimal():
            calls.setdefault(int(parts[0]), {}).setdefault(int(parts[2]), {})[parts[3]] = value
        elif len(parts) == 2:
            row[parts[1]] = value
    for number, by_index in calls.items():
        rows[number]["tool_calls"] = [by_index[index] for index in sorted(by_index)]
    return [rows[number] for number in sorted(rows)]
