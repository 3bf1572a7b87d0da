"""Read records from OpenTelemetry GenAI spans: model calls, linked to tool calls by trace, parent and call id.

Source: the GenAI semantic conventions (https://opentelemetry.io/docs/specs/semconv/gen-ai/), which are not stable yet:
read are the attributes of 1.37 and later (`gen_ai.input.messages`, `gen_ai.tool.definitions`), the events before them
(`gen_ai.user.message`, `gen_ai.choice`, on spans and as log records) and the numbered attributes before those
(`gen_ai.prompt.0.role`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from ctxbench.data.traces.ai_sdk_spans import as_gen_ai, operation
from ctxbench.data.traces.chat_messages import (
    ChatMessage,
    read_messages,
    result_status,
    set_summary,
)
from ctxbench.data.traces.otlp import Span, SpanEvent
from ctxbench.data.traces.records import Call, Interner, LogFindings, Record, get, text_or_none
from ctxbench.data.traces.span_tree import Node, SpanTree
from ctxbench.sources.name_resolver import named

_OPERATIONS = {
    "chat": "chat", "text_completion": "chat", "generate_content": "chat",
    "execute_tool": "tool", "invoke_agent": "agent",
}  # fmt: skip
_TOOLS = "gen_ai.tool.definitions"
_MESSAGE = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message$")
_DETAILS = ("gen_ai.client.inference.operation.details", "gen_ai.client.operation.exception")


class SpanReader:
    """Takes spans one by one, and makes records of them at the end."""

    def __init__(self, findings: LogFindings, interner: Interner) -> None:
        self._findings = findings
        self._interner = interner
        self._traces: dict[str, dict[str, Node]] = {}
        self._logged: dict[tuple[str, str], list[SpanEvent]] = {}

    def add(self, span: Span, position: int) -> None:
        """Add a span or a log record.

        Raises:
            TypeError, ValueError: its messages or tools are not built as the conventions have them.
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
            offered = self._tools(attributes, span.events)
            node.record = Record(position=position, time=span.start, cumulative=True, offered=offered)
            self._read_chat(node.record, span)
            if not node.record.users:
                node.events = [event for event in span.events if event.name.startswith("gen_ai.")]
            node.record.doubtful = span.answer_unread
            self._findings.counts["responses_unread"] += span.answer_unread
            self._findings.unread.update(["output"] * span.answer_unread)
        return node

    def _tools(self, attributes: Mapping[str, Any], events: Iterable[SpanEvent]) -> tuple[str, ...] | None:
        sources = (attributes, *(event.data for event in events))
        definitions = next((data[_TOOLS] for data in sources if data.get(_TOOLS) is not None), None)
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
            if event.name in _DETAILS:
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
            match = _MESSAGE.match(event.name)
            if match:
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
    operation = attributes.get("gen_ai.operation.name")
    if operation is not None:
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
    error_text = f"{error or ''} {span.message} {thrown}"
    status = result_status(error_text, name, failed=True) if span.failed or error else "ok"
    return Call(name, status, text_or_none(span.attributes.get("gen_ai.tool.call.id")), guessed=True)


def _numbered_objects(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Build objects from numbered attributes, such as `gen_ai.prompt.0.role`; `tool_calls.0.name` as lists within."""
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
