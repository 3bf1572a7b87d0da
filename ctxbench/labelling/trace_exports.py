"""Spans in the forms of the programs that export them, their links in a trace, and the kinds of logs.

One table of attributes and one of fields serve all programs:

* OpenTelemetry: OTLP's JSON mapping (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding), `to_json` of
  the Python SDK, and the JavaScript SDK's `ReadableSpan` as `JSON.stringify` writes it; the GenAI conventions
  (https://opentelemetry.io/docs/specs/semconv/gen-ai/) with attributes, with events, and with numbered attributes.
* AI SDK (https://ai-sdk.dev/docs/ai-sdk-core/telemetry).
* OpenInference (https://github.com/Arize-ai/openinference/tree/main/spec), flat or nested; rows of Phoenix
  (https://arize.com/docs/phoenix/tracing/how-to-tracing/importing-and-exporting-traces/extract-data-from-spans).
* Langfuse: observations of the UI, the API and the export to a storage
  (https://langfuse.com/docs/api-and-data-platform/features/export-from-ui). Tools are in the input or in the metadata
  (https://github.com/orgs/langfuse/discussions/14826).
* LangSmith: runs (https://docs.langchain.com/langsmith/run-data-format), also of the bulk export.
* Braintrust: spans (https://www.braintrust.dev/docs/reference/api/logs).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ctxbench.catalogs.tool_lists import describes_item
from ctxbench.datasets.queries import group_pairs
from ctxbench.io.errors import Fault, Message
from ctxbench.labelling.record_files import is_eval, named, names_items
from ctxbench.labelling.sources import make_kinds
from ctxbench.labelling.trace_messages import (
    Call,
    Interner,
    LogFindings,
    Record,
    all_objects,
    field_of,
    first_of,
    get,
    object_of,
    parsed,
    plain_text,
    read_request,
    read_response,
    result_status,
    same_tool,
    seconds,
    set_exchange,
    text_or_none,
)
from ctxbench.labelling.trace_turns import (
    RESPONSES,
    find_request,
    is_answer,
    read_exchange,
    read_turn,
    recorded_tools,
    unread_line,
)


@dataclass(slots=True, kw_only=True)
class Span:
    """A span of any program; or, with `is_log`, a log record that belongs to one.

    Attributes:
        trace, id, parent: empty if missing.
        kind: `chat`, `tool`, `agent`, `chain` (perhaps an agent), or empty for spans that only link others.
        start: seconds since 1970, or None.
        conversation, user: None if the span does not have them.
        request, response: as they were recorded, in any form.
        tools: the offered items, as objects or names; None if they are not recorded.
        call: the id of the call of a tool.
        failed: the status is an error.
        message: the message of the status.
        position: the position of its document in the log.
        record: the record of a model call or an agent.
        called: the call whose execution it is.
    """

    trace: str
    id: str
    parent: str = ""
    name: str = ""
    kind: str = ""
    start: float | None = None
    conversation: str | None = None
    user: str | None = None
    request: Any = None
    response: Any = None
    tools: list[Any] | None = None
    call: str | None = None
    failed: bool = False
    message: str = ""
    is_log: bool = False
    position: int = 0
    record: Record | None = None
    called: Call | None = None


class SpanTree:
    """The spans of one trace, linked to their ancestors.

    The record of a model call that answers a user message is a main record; other model calls are nested in one.
    """

    def __init__(self, trace: str, nodes: dict[str, Span], findings: LogFindings) -> None:
        self._trace, self._nodes, self._findings = trace, nodes, findings
        self._records = {node.id: node.record for node in nodes.values() if node.record is not None}
        chats = [node for node in nodes.values() if node.kind == "chat"]
        request_hashes = {user_hash for chat in chats for user_hash in self._records[chat.id].user_hashes}
        last = {span_id: set(record.user_hashes[-1:]) for span_id, record in self._records.items()}
        for node in nodes.values():
            if node.kind == "chain":
                is_root = bool(last[node.id]) and nodes.get(node.parent, node) is node
                node.kind = "agent" if is_root and (not request_hashes or last[node.id] & request_hashes) else ""
        self._ancestors: dict[str, tuple[Span, ...]] = {}  # those that may matter, outermost first
        self._starts: dict[str, float] = {}  # not before those of the ancestors
        self._link()
        self._order = sorted(nodes.values(), key=lambda node: (self._starts[node.id], node.position))
        self._mains: dict[str, Record] = {}
        self._units: dict[str | None, tuple[list[Record], list[float]]] = {}  # main records with their times, sorted
        self._chats = [node for node in self._order if node.kind == "chat"]
        paths = {node.id: [n.id for n in self._ancestors[node.id] if n.kind == "agent"] for node in self._order}
        of_chats = [paths[chat.id] for chat in self._chats]
        wrappers = {agent for path in of_chats for agent in path[:-1] if last[agent] <= request_hashes}
        wrappers -= {path[-1] for path in of_chats if path}  # agents around another, with its request or none
        self._agents = {span_id: [agent for agent in path if agent not in wrappers] for span_id, path in paths.items()}

    def records(self) -> Iterator[Record]:
        """The model calls that answer user messages, each with its tool calls."""
        self._find_main_records()
        mains = sorted(self._mains.values(), key=lambda record: record.time or 0.0)
        for unit, members in group_pairs((unit, main) for main in mains for unit in (main.unit, None)).items():
            self._units[unit] = members, [main.time or 0.0 for main in members]
        for node in self._chats:
            if node.id not in self._mains:
                main, record = self._record_above(node) or self._latest_record(node), self._records[node.id]
                if main is None:
                    self._findings.counts["spans_without_content"] += 1
                else:
                    main.nested = (*main.nested, record)
                    main.unread += record.unread
        self._attach_calls()
        conversation = next((n.conversation for n in self._nodes.values() if n.conversation), self._trace or None)
        user = next((n.user for n in self._nodes.values() if n.user), None)
        for node_id, record in self._mains.items():
            near = [self._nodes[node_id], *reversed(self._ancestors[node_id])]
            record.conversation = next((n.conversation for n in near if n.conversation), conversation)
            record.user = next((n.user for n in near if n.user), user)
            yield record

    def _find_main_records(self) -> None:
        """Find the model calls of the outermost agents (or of no agent); the record of an agent without model calls."""
        outer = [
            chat
            for chat in self._chats
            if self._records[chat.id].text is not None
            and len(self._agents[chat.id]) < 2
            and not any(above.kind in ("tool", "chat") for above in self._ancestors[chat.id])
        ]
        helpers = self._helpers(outer)
        users: dict[str, int] = {}
        earlier: set[tuple[str, int | str | None]] = set()
        for node in outer:
            record, agent = self._records[node.id], self._agent(node)
            if node.id in helpers:
                self._findings.counts["model_calls_of_helpers"] += 1
                continue
            fewer = bool(agent) and record.users <= users.get(agent, 0) and (agent, record.key) not in earlier
            if fewer and (agent, record.text) in earlier:
                continue  # the same request with a later window of messages
            earlier |= {(agent, record.text), (agent, record.key)}
            users[agent] = max(record.users, users.get(agent, 0))
            self._add_main(node)
            if agent and record.offered is None:
                record.offered = self._records[agent].offered
        answered = {above.id for main_id in self._mains for above in self._ancestors[main_id]}
        for node in self._order:
            nested = node.id in answered or any(a.kind in ("agent", "tool") for a in self._ancestors[node.id])
            if node.kind == "agent" and not nested and self._records[node.id].text is not None:
                self._add_main(node)

    def _add_main(self, node: Span) -> None:
        record = self._mains[node.id] = self._records[node.id]
        record.unit = f"{self._trace}/{node.id if node.kind == 'agent' else self._agent(node)}"

    def _agent(self, node: Span) -> str:
        """The id of the outermost agent that a span is part of; empty if there is none."""
        return next(iter(self._agents[node.id]), "")

    def _helpers(self, outer: list[Span]) -> set[str]:
        """The model calls of agents that are not part of the conversation, such as a call that finds its title.

        Part of it is the first model call with the user message of the agent, else the first one that calls tools, else
        that tools follow, else that has tools; and those that share a user message with it, also through other calls.
        If the agent has no message, and other model calls have tools, the record is `doubtful`.
        """
        latest: dict[str, str] = {}
        with_tools: set[str] = set()  # model calls that tool spans are descendants of, or follow within the same agent
        ids = {node.id for node in outer}
        for node in self._order:
            if node.id in ids:
                latest[self._agent(node)] = node.id
            elif node.called is not None:
                above = [above.id for above in self._ancestors[node.id] if above.id in ids]
                with_tools.add(above[-1] if above else latest.get(self._agent(node), ""))
        helpers: set[str] = set()
        for agent, members in group_pairs(
            (self._agent(node), (node.id, self._records[node.id])) for node in outer
        ).items():
            agent_hashes = set(self._records[agent].user_hashes[-1:]) if agent else set()
            ranks = [
                (
                    agent_hashes.isdisjoint(record.user_hashes),
                    not record.calls,
                    span_id not in with_tools,
                    not record.offered,
                )
                for span_id, record in members
            ]
            first = members[ranks.index(min(ranks))][1]
            linked = set(first.user_hashes)
            for _, record in [*members, *reversed(members)] * 2:
                linked |= set() if linked.isdisjoint(record.user_hashes) else set(record.user_hashes)
            separate = [n for n, (_, record) in enumerate(members) if agent and linked.isdisjoint(record.user_hashes)]
            first.doubtful |= min(ranks)[0] and any(not all(ranks[n][1:]) for n in separate)
            helpers |= {members[n][0] for n in separate}
        return helpers

    def _record_above(self, node: Span) -> Record | None:
        """The record of the nearest main model call among the ancestors, else that of the outermost model call."""
        above = next((above for above in reversed(self._ancestors[node.id]) if above.id in self._mains), None)
        outermost = next((above for above in self._ancestors[node.id] if above.kind == "chat"), None)
        return self._mains[above.id] if above else self._latest_record(outermost) if outermost else None

    def _latest_record(self, node: Span) -> Record | None:
        """The latest record before a span, of the same agent if it has one."""
        records, times = self._units.get(f"{self._trace}/{self._agent(node)}") or self._units.get(None) or ([], [])
        return records[max(bisect_right(times, self._starts[node.id]) - 1, 0)] if records else None

    def _attach_calls(self) -> None:
        """Add the calls of tool spans to the records of the model calls that they belong to."""
        records = self._mains.values()
        holders = group_pairs((call.id, record) for record in records for call in record.calls if call.id is not None)
        for node in self._order:
            call, above = node.called, self._ancestors[node.id]
            if call is None or any(a.called is not None and a.called.name == call.name for a in above):
                continue  # also logged by the client of a server
            with_call = _record_with_call(call, self._starts[node.id], holders.get(call.id or "", []))
            record = self._record_above(node) or with_call or self._latest_record(node)
            if record is None:
                self._findings.counts["calls_without_request"] += 1
            else:
                record.executed = (*record.executed, call)

    def _link(self) -> None:
        """Find the ancestors and the start of each span; stops at a circle."""
        for node in self._nodes.values():
            path: dict[str, Span] = {}
            above: Span | None = node
            while above is not None and above.id not in path and above.id not in self._ancestors:
                path[above.id] = above
                above = self._nodes.get(above.parent)
            for span in reversed(path.values()):
                parent = self._nodes[span.parent] if span.parent in self._ancestors else None
                ancestors = self._ancestors.get(span.parent, ())
                matters = parent if parent and (parent.kind or parent.conversation or parent.user) else None
                self._ancestors[span.id] = (*ancestors, matters) if matters else ancestors
                self._starts[span.id] = max(self._starts.get(span.parent, 0.0), span.start or 0.0)


def _record_with_call(call: Call, begin: float, holders: list[Record]) -> Record | None:
    """Of the records whose messages have the id of a call, that with its name, then the latest before its begin."""

    def order(record: Record) -> tuple[bool, bool, float]:
        has_name = any(holder.id == call.id and same_tool(holder.name, call.name) for holder in record.calls)
        return not has_name, (record.time or 0.0) > begin, -(record.time or 0.0)

    return min(holders, key=order, default=None)


class SpanReader:
    """Collects spans one by one, and converts them into records at the end."""

    def __init__(self, findings: LogFindings, interner: Interner) -> None:
        self._findings, self._interner = findings, interner
        self._traces: dict[str, dict[str, Span]] = {}
        self._logged: dict[tuple[str, str], list[Span]] = {}

    def add(self, span: Span, position: int) -> None:
        """Add a span or a log record.

        Raises:
            TypeError, ValueError: its messages or tools are not in a form of its program.
        """
        if span.is_log:
            self._logged.setdefault((span.trace, span.id), []).append(span)
            return
        self._findings.counts["spans"] += 1
        self._findings.span_names[span.name or "without a name"] += 1
        nodes = self._traces.setdefault(span.trace, {})
        if span.id in nodes:
            self._findings.counts["spans_twice"] += 1
            return
        span.position = position
        if span.kind == "tool":
            span.called = _tool_call(span)
        elif span.kind:
            tools = None if span.tools is None else self._interner.names(tuple(map(named, span.tools)))
            record = Record(position=position, time=span.start, cumulative=True, offered=tools)
            self._read(record, span)
            span.record = record
        if span.record is None or span.record.users:
            span.request = span.response = span.tools = None
        nodes[span.id] = span

    def records(self) -> Iterator[Record]:
        """The records of all traces, each trace by time.

        Model calls without a conversation that repeat a call of a request are in the conversation of that request.
        """
        for (trace, span_id), logs in self._logged.items():
            if (node := self._traces.get(trace, {}).get(span_id)) is None:
                self._findings.counts["logs_without_span"] += len(logs)
            elif node.record is not None and not node.record.users:
                for name in ("request", "response"):
                    lists = [value for part in (node, *logs) if isinstance(value := parsed(getattr(part, name)), list)]
                    setattr(node, name, [message for messages in lists for message in messages])
                self._read(node.record, node)
        first: dict[tuple[int, str], str | None] = {}  # conversations by request and call
        for trace, nodes in self._traces.items():
            for record in SpanTree(trace, nodes, self._findings).records():
                calls = [(record.key, call.id) for call in record.calls if call.id is not None]
                if record.conversation == trace:  # perhaps the next model call of a request in an earlier trace
                    record.conversation = next((first[call] for call in calls if call in first), trace)
                first |= dict.fromkeys(calls, record.conversation)
                yield record

    def _read(self, record: Record, span: Span) -> None:
        """Read the messages of a span into its record."""
        try:
            request = read_request(span.request)
        except TypeError:
            if span.kind == "chat":
                raise
            request = None
        answer = parsed(span.response)
        answers = read_response(answer)
        if answers is None and span.kind == "chat" and isinstance(answer, list | dict | str) and answer:
            record.doubtful = True
            self._findings.counts["responses_unread"] += 1
            self._findings.unread["output"] += 1
        set_exchange(record, request or [], answers or [], self._interner)


def _tool_call(span: Span) -> Call | None:
    """The call whose execution a span is, with its status by the status and the output of the span."""
    if not (name := span.name.removeprefix("execute_tool").strip()):
        return None
    response = parsed(span.response)
    results = [result for message in read_response(response) or () for result in message.results]
    output = response.get("output", response) if isinstance(response, dict) else response
    text = results[0].text if results else plain_text(output)
    failed = span.failed or (results[0].failed if results else None)
    status = result_status(f"{span.message} {text}" if span.failed else text, name, failed=failed or None)
    return Call(name, status, span.call or (results[0].call if results else None), guessed=True)


TURN_MARKS = ("messages", "text", "called", "offered")
"""Fields of a turn: a line with any of them is a turn."""

_METADATA = "ai.telemetry.metadata."
_SESSIONS = ("sessionId", "session_id", "conversationId", "conversation_id", "threadId", "thread_id", "chatId")
_USERS = ("userId", "user_id", "user")
_DEFINITIONS = ("tools", "functions", "tool_definitions", "toolDefinitions")
_FIELDS: dict[str, tuple[str, ...]] = {
    "trace": (
        *("traceId", "trace_id", "root_span_id", "context.trace_id", "spanContext.traceId", "_spanContext.traceId"),
        "traceID",
    ),
    "id": ("spanId", "span_id", "context.span_id", "spanContext.spanId", "_spanContext.spanId", "spanID", "id"),
    "parent": (
        *("parentSpanId", "parent_span_id", "parentSpanContext.spanId", "parentObservationId", "parentId"),
        *("parent_observation_id", "parent_run_id", "parent_id", "span_parents.0", "references.0.spanID"),
    ),
    "start": (
        *("startTimeUnixNano", "start_time_unix_nano", "startTime", "start_time", "metrics.start", "timestamp"),
        "created",
    ),
    "kind": (
        *("ai.operationId", "operation.name", "gen_ai.operation.name", "openinference.span.kind"),
        *("langfuse.observation.type", "traceloop.span.kind", "span_attributes.type", "run_type", "span_kind", "type"),
    ),
    "name": ("span_attributes.name", "name", "operationName", "type"),
    "tool": ("gen_ai.tool.name", "ai.toolCall.name", "tool.name"),
    "call": ("gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id", "tool.id"),
    "request": (
        *("gen_ai.input.messages", "gen_ai.prompt", "ai.prompt.messages", "ai.prompt", "llm.input_messages"),
        *("input.value", "langfuse.observation.input", "inputs", "input"),
    ),
    "response": (
        *("gen_ai.output.messages", "gen_ai.completion", "llm.output_messages", "output.value"),
        *("langfuse.observation.output", "outputs", "output", "gen_ai.tool.call.result", "ai.toolCall.result"),
    ),
    "text": ("ai.response.text", "ai.result.text", "ai.response.object"),
    "calls": ("ai.response.toolCalls", "ai.result.toolCalls"),
    "tools": ("gen_ai.tool.definitions", "ai.prompt.tools", "llm.tools", "llm.request.functions", *_DEFINITIONS[2:]),
    "conversation": (
        *(_METADATA + name for name in _SESSIONS),
        *("gen_ai.conversation.id", "session.id", "gen_ai.thread.id", "langfuse.session.id", *_SESSIONS[:2]),
    ),
    "user": (*(_METADATA + name for name in _USERS), "user.id", "enduser.id", "langfuse.user.id", *_USERS[:2]),
    "status": ("status.code", "status.status_code", "status_code", "level", "status"),
    "message": ("status.message", "status.description", "statusMessage", "status_message"),
    "error": ("error", "error.type"),
}
"""The fields and attributes of spans by their meaning; a dot leads into an object."""
_CALLS = ("ai.generatetext", "ai.streamtext", "ai.generateobject", "ai.streamobject")
_KINDS = {
    **dict.fromkeys(("chat", "text_completion", "generate_content", "llm", "generation"), "chat"),
    **dict.fromkeys((f"{name}.{step}" for name in _CALLS for step in ("dogenerate", "dostream")), "chat"),
    **dict.fromkeys(("execute_tool", "tool", "ai.toolcall"), "tool"),
    **dict.fromkeys(("invoke_agent", "agent", *_CALLS), "agent"),
    **dict.fromkeys(("chain", "task"), "chain"),
}
"""Kinds of spans by the names that programs give them, in lower case."""
_GROUPS = ("observations", "data", "traces", "runs", "events", "spans", "child_runs")  # lists of spans in an object
_EXPORTS = (
    ("resourceSpans", "scopeSpans", "spans"),
    ("resource_spans", "scope_spans", "spans"),
    ("resourceLogs", "scopeLogs", "logRecords"),
    ("resource_logs", "scope_logs", "log_records"),
)
_OF_SPANS = ("attributes", "parentSpanId", "parent_span_id", "parent_id", "startTimeUnixNano", "start_time", "body")
_OBSERVATIONS = (
    *("GENERATION", "TOOL", "AGENT", "SPAN", "EVENT", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING", "GUARDRAIL"),
)
_OF_OBSERVATIONS = ("traceId", "trace_id", "parentObservationId", "parent_observation_id")
_OF_TRACES = frozenset(("bookmarked", "htmlPath", "observationCount", "release", "totalCost", "scores"))
"""Fields of Langfuse's table of traces."""
_OF_LINES = frozenset((*TURN_MARKS, "type", "request", "response", "tools"))  # fields that no row of that table has
_INHERITED = ("sessionId", "session_id", "userId", "user_id")  # fields of a trace that are its observations', too
_LISTS = re.compile(
    r"gen_ai\.(?:prompt|completion)\.\d+\.|llm\.(?:input_messages|output_messages|tools|request\.functions)(?:\.|$)"
)
_MESSAGE = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message$")
_SCALARS = ("stringvalue", "boolvalue", "doublevalue", "bytesvalue")
_DETAILS = (
    *("gen_ai.client.inference.operation.details", "gen_ai.client.operation.exception"),
    *("gen_ai.content.prompt", "gen_ai.content.completion"),
)
"""Events whose attributes are those of their span."""
_FAILED = ("2", "error", "status_code_error")


def holds_spans(data: Mapping[str, Any]) -> bool:
    """Whether a JSON object is an export, a span or a log record rather than a turn."""
    return any(name in data for name, *_ in _EXPORTS) or any(True for _ in _entries(data))


def is_trace_row(data: Mapping[str, Any]) -> bool:
    """Whether an object is of Langfuse's table of traces, without their observations."""
    row = entry if isinstance(entry := first_of(data.get("data")), dict) else data
    is_row = {"id", "timestamp"} <= row.keys() and not _OF_TRACES.isdisjoint(row) and _OF_LINES.isdisjoint(row)
    return is_row and not all_objects(row.get("observations"))


def read_spans(data: Mapping[str, Any], position: int = 0) -> Iterator[Span]:
    """Read the spans and log records of an export, or a single one.

    Args:
        data: an object for which `holds_spans` is true.
        position: the position in the log, for spans without an id.

    Raises:
        TypeError, ValueError, AttributeError: it does not follow the specification.
    """
    yield from (
        _span(entry, shared, f"{position}-{number}" if number else str(position))
        for number, (entry, shared) in enumerate(_entries(data))
    )


def _entries(data: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], dict[str, Any]]]:
    """The spans in an object with the attributes of their resource: itself, in lists, or in columns of pandas."""
    if _is_span(data):
        yield data, {}
    for groups, scopes, entries in _EXPORTS:
        for group in data.get(groups) or ():
            shared = _attributes((group.get("resource") or {}).get("attributes"))
            yield from (
                (entry, shared)
                for scope in get(group, scopes, "instrumentationLibrarySpans") or ()
                for entry in scope.get(entries) or ()
            )
    labels, trace = data.get("context.trace_id"), data.get("trace")
    above = {**data, **(trace if isinstance(trace, dict) else {})}
    inherited = {name: above[name] for name in _INHERITED if above.get(name) is not None}
    bodies: dict[str, dict[str, Any]] = {}  # of a batch of Langfuse: events that make or change observations
    for event in data["batch"] if all_objects(data.get("batch")) else ():
        body = {name: value for name, value in object_of(event.get("body")).items() if value is not None}
        kind = {"type": str(event.get("type")).partition("-")[0].upper()}
        bodies[str(body.get("id"))] = {**bodies.get(str(body.get("id")), {}), **kind, **body}
    rows = [{name: object_of(column).get(label) for name, column in data.items()} for label in object_of(labels)]
    for row in (
        *rows,
        *bodies.values(),
        *(row for name in _GROUPS if all_objects(data.get(name)) for row in data[name]),
    ):
        yield from _entries({**inherited, **{name: value for name, value in row.items() if value is not None}})


def _is_span(data: Mapping[str, Any]) -> bool:
    """Whether an object is a span.

    A turn may have the id of a trace, and an object called `context`. An object with a field of a turn is a span only
    if it also has the id and another field of a span.
    """
    span_id, trace = field_of(data, *_FIELDS["id"][:-1]), field_of(data, *_FIELDS["trace"])
    is_turn = any(name in data for name in TURN_MARKS) and not (span_id and any(name in data for name in _OF_SPANS))
    has_id = any(isinstance(identity, str | int) for identity in (span_id, trace))
    return not is_turn and (has_id or _is_observation(data) or _is_run(data))


def _is_observation(data: Mapping[str, Any]) -> bool:
    """Whether an object is an observation of Langfuse."""
    kind = str(data.get("type")).upper()
    has_body = kind == "GENERATION" and ("input" in data or "output" in data)
    is_other = kind not in _OBSERVATIONS or any(name in data for name in ("spanId", "span_id", "attributes"))
    return not is_other and (has_body or any(name in data for name in _OF_OBSERVATIONS))


def _is_run(data: Mapping[str, Any]) -> bool:
    """Whether an object is a run of LangSmith or a span of Braintrust."""
    return (isinstance(data.get("run_type"), str) and "inputs" in data) or "span_attributes" in data


def _span(data: Mapping[str, Any], shared: Mapping[str, Any], default_id: str) -> Span:
    """A span of any program in the one form."""
    extra = object_of(data.get("extra"))
    metadata = object_of(data.get("metadata")) or object_of(extra.get("metadata"))
    columns = {name.removeprefix("attributes."): data[name] for name in data if name.startswith("attributes.")}
    listed = data["tags"] if all_objects(data.get("tags")) else data.get("attributes")  # of Jaeger: tags
    attributes = {**shared, **_attributes(listed), **columns, **object_of(metadata.get("attributes"))}
    logged = data["events"] if all_objects(data.get("events")) else ()
    events = [(str(event.get("name") or ""), _attributes(event.get("attributes"))) for event in logged]
    if "body" in data:
        content = _value(data["body"])
        content = {**attributes, **(content if isinstance(content, dict) else {"content": content})}
        events = [(str(get(data, "eventName", "event_name") or attributes.get("event.name") or ""), content)]
    attributes |= {key: value for name, details in events if name in _DETAILS for key, value in details.items()}
    flat = {**data, "span_attributes": object_of(data.get("span_attributes")), **_nested(attributes)}
    if "run_type" in data:
        flat["session_id"] = None  # of LangSmith: a project
    fields = {role: field_of(flat, *names) for role, names in _FIELDS.items()}
    messages, answers = _of_events(events)
    kind = _kind(flat)
    if fields["text"] is not None or fields["calls"] is not None:
        fields["response"] = {"text": fields["text"], "toolCalls": parsed(fields["calls"])}
    request = messages if fields["request"] is None else fields["request"]
    parameters = (flat.get("input.value"), flat.get("llm.invocation_parameters"), extra.get("invocation_params"))
    bodies = (get(body, *_DEFINITIONS) for body in map(object_of, (request, metadata, extra, *parameters)))
    tools = next((value for value in (fields["tools"], *bodies) if value is not None), None)
    entries = parsed(request)
    messages_of_tools = [entry for entry in entries if entry.get("role") == "tool"] if all_objects(entries) else []
    # LangChain's callback of Langfuse describes tools in messages
    if descriptions := [entry for entry in messages_of_tools if describes_item(entry.get("content"))]:
        tools = [entry["content"] for entry in descriptions]
        request = [entry for entry in entries if entry not in descriptions]
    thrown = [str(details.get("exception.message") or "") for name, details in events if name == "exception"]
    return Span(
        trace=_hex(fields["trace"] or fields["id"] or default_id),
        id=_hex(fields["id"] or default_id),
        parent=_hex(fields["parent"]),
        name=str((fields["tool"] if kind == "tool" else None) or fields["name"] or ""),
        kind=kind,
        start=seconds(fields["start"]),
        conversation=text_or_none(fields["conversation"] or get(metadata, *_SESSIONS)),
        user=text_or_none(fields["user"] or get(metadata, *_USERS)),
        request=request,
        response=fields["response"] if fields["response"] is not None else answers,
        tools=None if tools is None or not kind else recorded_tools(tools),
        call=text_or_none(fields["call"]),
        failed=bool(fields["error"]) or str(fields["status"]).casefold() in _FAILED,
        message=" ".join(filter(None, (*(str(fields[role] or "") for role in ("error", "message")), *thrown))),
        is_log="body" in data,
    )


def _kind(flat: Mapping[str, Any]) -> str:
    """The kind of a span, by its fields that name one, else by its attributes of the GenAI conventions."""
    values = [field_of(flat, name) for name in (*_FIELDS["kind"], "name")]
    values[-1] = values[-1] if str(values[-1]).startswith("ai.") else None
    names = [value.split(" ")[0].casefold() for value in values if isinstance(value, str)]
    is_model_call = field_of(flat, "gen_ai.input.messages", "gen_ai.request.model", "gen_ai.prompt") is not None
    by_attributes = "tool" if "gen_ai.tool.name" in flat else "chat" if is_model_call else ""
    default = by_attributes if flat.get("gen_ai.operation.name") is None else ""
    return next((_KINDS[name] for name in names if name in _KINDS), default)


def _of_events(events: list[tuple[str, dict[str, Any]]]) -> tuple[list[Any] | None, list[Any] | None]:
    """The messages of the request and of the answer in events and log records of the GenAI conventions."""
    messages = [{"role": match[1], **data} for name, data in events if (match := _MESSAGE.match(name))]
    choices = [data for name, data in events if name == "gen_ai.choice" and str(data.get("index", 0)) == "0"]
    contents = [(data, parsed(data.get("message"))) for data in choices]
    inner = [(data, content if isinstance(content, dict) else {"content": content}) for data, content in contents]
    answers = [{**data, "message": None, **content, "role": "assistant"} for data, content in inner]
    return messages or None, answers or None


def _attributes(value: Any) -> dict[str, Any]:
    """Attributes as an object, from OTLP's list of keys and values, an object, or its text."""
    if isinstance(value, list):
        return {str(entry["key"]): _value(entry.get("value")) for entry in value if "key" in entry}
    return dict(object_of(value))


def _value(value: Any) -> Any:
    """A value without the wrapper of OTLP, if it has one."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    ((kind, inner),) = value.items()
    if (kind := kind.replace("_", "").casefold()) in ("arrayvalue", "kvlistvalue"):
        inner = (inner or {}).get("values") or []
        return _attributes(inner) if kind == "kvlistvalue" else list(map(_value, inner))
    return int(inner) if kind == "intvalue" else inner if kind in _SCALARS else value


def _nested(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes with lists of objects in place of numbered ones, such as `gen_ai.prompt.0.role`."""
    lists = {name: parsed(value) for name, value in attributes.items() if _LISTS.match(name)}
    return {**{name: value for name, value in attributes.items() if name not in lists}, **_tree(lists)}


def _tree(value: Any) -> Any:
    """Objects whose names have dots as objects in objects; those with numbers alone as lists."""
    if isinstance(value, list):
        return [_tree(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    named = ((name.partition("."), inner) for name, inner in value.items())
    groups = group_pairs((first, (rest, inner)) for (first, _, rest), inner in named)
    tree = {name: _tree({rest: v for rest, v in pairs if rest} or pairs[0][1]) for name, pairs in groups.items()}
    return [tree[name] for name in sorted(tree, key=int)] if tree and all(n.isdecimal() for n in tree) else tree


def _hex(value: Any) -> str:
    return str(value or "").removeprefix("0x").casefold()


class LogReader:
    """Reads the documents of logs one by one: turns, requests with their responses, and spans."""

    def __init__(self, findings: LogFindings, *, history: int) -> None:
        self._findings = findings
        self._interner = Interner(history=history)
        self._spans = SpanReader(findings, self._interner)
        self._records: list[Record] = []

    def records(self) -> list[Record]:
        """All records read, spans last."""
        return [*self._records, *self._spans.records()]

    def read(self, value: Any, position: int, at: Fault) -> bool:
        """Read a document; adds its faults.

        Args:
            value: the document, in JSON types.
            position: its 1-based position in the log.
            at: its file and line, for faults.

        Returns:
            Whether a part of it could be read.
        """
        counts, faults = self._findings.counts, self._findings.faults
        n_faults, n_spans = len(faults), counts["spans"] - counts["spans_unreadable"]
        data = _plain(value)
        try:
            self._read(data, position, at)
        except (TypeError, ValueError, AttributeError, KeyError, RecursionError):
            is_export = isinstance(data, dict) and (any(name in data for name, *_ in _EXPORTS) or _is_span(data))
            key = "labelling.not-a-span" if is_export else "labelling.messages-form"
            faults.append(replace(at, message=Message(key)))
        is_read = len(faults) == n_faults or counts["spans"] - counts["spans_unreadable"] > n_spans
        if not is_read and isinstance(data, dict):
            self._findings.unread.update(name for name in (*RESPONSES, "called") if data.get(name))
        return is_read

    def _read(self, data: Any, position: int, at: Fault) -> None:
        faults = self._findings.faults
        if not isinstance(data, dict):
            faults.append(replace(at, message=unread_line(data)))
        elif requests := _har_requests(data):
            counts, first = self._findings.counts, self._findings.counts["lines"]
            counts.update(lines=len(requests) - 1, events_other=len(data["log"]["entries"]) - len(requests))
            for n, entry in enumerate(requests):
                self.read(entry, first + n, at)
        elif is_trace_row(data):
            faults.append(replace(at, message=Message("labelling.langfuse-traces")))
        elif not any(_is_observation(span) or _is_run(span) for span, _ in _entries(data)) and (
            records := read_exchange(data, position, findings=self._findings, interner=self._interner)
        ):
            self._records += records
        elif holds_spans(data):
            self._read_spans(read_spans(data, position), position, at)
        elif any(name in data for name in TURN_MARKS) and not is_eval(data) and not is_answer(data):
            self._records += read_turn(data, position, at, findings=self._findings, interner=self._interner)
        else:
            faults.append(replace(at, message=unread_line(data)))

    def _read_spans(self, spans: Iterator[Span], position: int, at: Fault) -> None:
        for span in spans:
            try:
                self._spans.add(span, position)
            except (TypeError, ValueError, AttributeError, RecursionError):
                self._findings.faults.append(replace(at, message=Message("labelling.span-form", name=span.id)))
                self._findings.counts["spans_unreadable"] += 1
                self._findings.unread[span.name or "span"] += 1


def _har_requests(value: Any) -> list[dict[str, Any]]:
    """The requests to models, with their responses, in a HAR file (http://www.softwareishard.com/blog/har-12-spec/)."""
    entries = field_of(value, "log.entries") if isinstance(value, dict) else None
    return [entry for entry in entries if find_request(entry)] if all_objects(entries) else []


def _plain(value: Any) -> Any:
    """A document; of a state of LangGraph its values, of a row of texts the objects in them."""
    if isinstance(value, dict) and isinstance(field_of(value, "values.messages"), list):
        return value["values"]
    is_row = isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    return {name: parsed(text) for name, text in value.items() if text} if is_row else value


def kind_of(value: Any) -> str:
    """The name of the kind of a document of a log; empty if it is none."""
    try:
        data = _plain(first_of(_har_requests(value)) or value)
        span = next((span for span, _ in _entries(data)), {}) if isinstance(data, dict) else {}
        if not isinstance(data, dict) or (
            not span and (names_items(data) and "called" not in data and "offered" not in data)
        ):
            return ""
        request = None if _is_observation(span) or _is_run(span) else find_request(data)
        return next((name for name, test in _TESTS.items() if test(data, span, request)), "")
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError):
        return ""


def _has(value: Any, *marks: str) -> bool:
    text = str(value)
    return any(mark in text for mark in marks)


_TESTS: dict[str, Callable[[dict[str, Any], Mapping[str, Any], Any], Any]] = {
    "langfuse": lambda data, span, _: is_trace_row(data) or _is_observation(span),
    "braintrust": lambda _, span, __: "span_attributes" in span,
    "langsmith": lambda _, span, __: _is_run(span),
    "openinference": lambda _, span, request: not request and _has(span, "openinference", "llm.input_messages"),
    "otel": lambda data, _, request: not request and holds_spans(data),
    "ai-sdk": lambda data, _, request: (
        is_answer(data) or (request and (request[0] in ("prompt", "steps") or _has(data, "toolCallId")))
    ),
    "anthropic": lambda data, _, request: request and _has(data, "'tool_use'", "'input_schema'", "'stop_reason'"),
    "fine-tuning": lambda data, _, request: (
        request and ((request[0] == "messages" and not request[2]) or "preferred_output" in data)
    ),
    "openai": lambda data, _, request: request or unread_line(data).key == "labelling.answer-alone",
    "turns": lambda data, _, __: not is_eval(data) and any(isinstance(data.get(name), list) for name in TURN_MARKS),
}
"""Kinds by what says that a document, its first span and its request are of them."""


def _is_first(name: str, values: Sequence[Any]) -> bool:
    """Whether the first document of any kind is of this one."""
    return next(filter(None, map(kind_of, values)), "") == name


KINDS = make_kinds({name: partial(_is_first, name) for name in _TESTS})
"""The kinds of logs, except the sessions of coding agents."""
