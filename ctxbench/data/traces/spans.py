"""Traces as OpenTelemetry GenAI spans: model calls and what belongs to them, linked by trace, parent and call id.

Source: the GenAI semantic conventions (https://opentelemetry.io/docs/specs/semconv/gen-ai/), which are not stable yet:
read are the attributes of 1.37 and later (`gen_ai.input.messages`, `gen_ai.tool.definitions`), the events before them
(`gen_ai.user.message`, `gen_ai.choice`, on spans and as log records) and the numbered attributes before those
(`gen_ai.prompt.0.role`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctxbench.data.traces.chat_messages import (
    ChatMessage,
    read_messages,
    result_status,
    same_tool,
    set_summary,
    summarise_messages,
)
from ctxbench.data.traces.otlp import Event, Span
from ctxbench.data.traces.records import Call, Interner, LogFindings, NestedCall, Record, get
from ctxbench.sources.names import named

_OPERATIONS = {
    "chat": "chat", "text_completion": "chat", "generate_content": "chat",
    "execute_tool": "tool", "invoke_agent": "agent",
}  # fmt: skip
_SPOKEN = re.compile(r"gen_ai\.(system|user|assistant|tool)\.message$")
_DETAILS = ("gen_ai.client.inference.operation.details", "gen_ai.client.operation.exception")


@dataclass(slots=True, kw_only=True)
class Node:
    """What is kept of a span.

    Attributes:
        kind: `chat`, `tool`, `agent`, or empty for spans that only link others.
        record: of a model call or an agent.
        call: of a tool's execution.
    """

    trace: str
    id: str
    parent: str
    place: int
    start: float | None
    kind: str = ""
    conversation: str | None = None
    user: str | None = None
    record: Record | None = None
    call: Call | None = None
    said: list[Event] = field(default_factory=list)


class SpanReader:
    """Takes spans one by one, keeps what is needed of each, and makes records of them at the end."""

    def __init__(self, findings: LogFindings, interner: Interner, *, history: int) -> None:
        self._findings = findings
        self._interner = interner
        self._history = history
        self._traces: dict[str, dict[str, Node]] = {}
        self._logged: dict[tuple[str, str], list[Event]] = {}

    def add(self, span: Span, place: int) -> None:
        """Take a span or a log record.

        Raises:
            TypeError, ValueError: its messages or tools are not built as the conventions have them.
        """
        if span.is_log:
            self._logged.setdefault((span.trace, span.id), []).extend(span.events)
            return
        self._findings.counts["spans"] += 1
        nodes = self._traces.setdefault(span.trace, {})
        if span.id in nodes:
            self._findings.counts["spans_twice"] += 1
            return
        nodes[span.id] = self._node(span, place)

    def records(self) -> Iterator[Record]:
        """The records of all traces, each trace by time."""
        for (trace, span_id), events in self._logged.items():
            node = self._traces.get(trace, {}).get(span_id)
            if node is None:
                self._findings.counts["logs_without_span"] += len(events)
            elif node.record is not None and not node.record.users:
                self._read_events(node.record, [*node.said, *events])
        for trace, nodes in self._traces.items():
            yield from _Trace(trace, nodes, self._findings).records()

    def _node(self, span: Span, place: int) -> Node:
        attributes = span.attributes
        node = Node(trace=span.trace, id=span.id, parent=span.parent, place=place, start=span.start)
        node.kind = _kind(attributes)
        self._findings.counts["spans_other"] += not node.kind
        conversation = get(attributes, "gen_ai.conversation.id", "session.id", "gen_ai.thread.id")
        user = get(attributes, "user.id", "enduser.id")
        node.conversation = None if conversation is None else str(conversation)
        node.user = None if user is None else str(user)
        if node.kind == "tool":
            node.call = _executed(span)
        elif node.kind:
            node.record = Record(place=place, time=span.start, cumulative=True)
            node.record.offered = self._tools(attributes, span.events)
            self._read_chat(node.record, span)
            if not node.record.users:
                node.said = [event for event in span.events if event.name.startswith("gen_ai.")]
        return node

    def _tools(self, attributes: Mapping[str, Any], events: Iterable[Event]) -> tuple[str, ...] | None:
        given = attributes.get("gen_ai.tool.definitions")
        if given is None:
            given = next(
                (e.data["gen_ai.tool.definitions"] for e in events if "gen_ai.tool.definitions" in e.data), None
            )
        if given is None:
            given = _numbered(attributes, "llm.request.functions.") or None
        if isinstance(given, str):
            given = json.loads(given)
        if given is None:
            return None
        entries = given if isinstance(given, list) else [given]
        parsed = (json.loads(e) if isinstance(e, str) and e.startswith("{") else e for e in entries)
        return self._interner.names(tuple(named(entry) for entry in parsed))

    def _read_chat(self, record: Record, span: Span) -> None:
        attributes = span.attributes
        for event in span.events:
            if event.name in _DETAILS:
                attributes = {**attributes, **event.data}
        given = attributes.get("gen_ai.input.messages")
        if given is not None:
            said, answers = read_messages(given), read_messages(attributes.get("gen_ai.output.messages") or [])
        elif "gen_ai.prompt.0.role" in attributes or "gen_ai.prompt.0.content" in attributes:
            said = read_messages(_numbered(attributes, "gen_ai.prompt."))
            answers = read_messages(_numbered(attributes, "gen_ai.completion."))
        else:
            self._read_events(record, span.events)
            return
        self._take(record, said, answers)

    def _read_events(self, record: Record, events: Iterable[Event]) -> None:
        """Messages of the older, event-based forms."""
        said: list[ChatMessage] = []
        answers: list[ChatMessage] = []
        for event in events:
            spoken = _SPOKEN.match(event.name)
            if spoken:
                said += read_messages([{"role": spoken.group(1), **event.data}])
            elif event.name == "gen_ai.choice" and str(event.data.get("index", 0)) == "0":
                message = event.data.get("message")
                message = json.loads(message) if isinstance(message, str) and message.startswith("{") else message
                inner = message if isinstance(message, dict) else {"content": message}
                answers += read_messages([{**event.data, **inner, "role": "assistant"}])
            elif event.name == "gen_ai.content.prompt":
                said += read_messages(event.data.get("gen_ai.prompt") or [])
            elif event.name == "gen_ai.content.completion":
                answers += read_messages(event.data.get("gen_ai.completion") or [])
        self._take(record, said, answers)

    def _take(self, record: Record, said: list[ChatMessage], answers: list[ChatMessage]) -> None:
        answers = [ChatMessage("assistant", one.text, one.calls, one.results) for one in answers]
        set_summary(record, summarise_messages([*said, *answers], history=self._history), self._interner)
        record.continued = bool(said) and said[-1].role != "user"


class _Trace:
    """The spans of one trace: who belongs to whom."""

    def __init__(self, trace: str, nodes: dict[str, Node], findings: LogFindings) -> None:
        self._trace = trace
        self._nodes = nodes
        self._findings = findings
        self._above = {node.id: self._chain(node) for node in nodes.values()}

    def records(self) -> Iterator[Record]:
        """The model calls that the user's messages led to, with what was called for each."""
        for node in self._nodes.values():
            self._check(node)
        order = sorted(self._nodes.values(), key=lambda node: (self._begin(node), node.place))
        mains = self._mains(order)
        for node in order:
            record = node.record
            if node.kind == "chat" and record is not None and node.id not in mains:
                main = self._main_of(node, mains)
                if main is None:
                    self._findings.counts["spans_without_content"] += 1
                else:
                    main.nested = (*main.nested, NestedCall(record.offered, record.calls))
        self._attach_calls(order, mains)
        for node_id, record in mains.items():
            self._name(record, self._nodes[node_id])
            yield record

    def _mains(self, order: list[Node]) -> dict[str, Record]:
        """The model calls of the outermost agents (or of none), in order; an agent's own record where it has none."""
        mains: dict[str, Record] = {}
        users: dict[str, int] = {}
        said: set[tuple[str, int]] = set()
        texts: set[tuple[str, str | None]] = set()
        outer = self._outer(order)
        helpers = helpers_of(outer, self._executing(order, outer))
        for node, record, agent in outer:
            unit = agent.id if agent is not None else ""
            if node.id in helpers:
                self._findings.counts["model_calls_of_helpers"] += 1
                continue
            fewer = agent is not None and record.users <= users.get(unit, 0) and (unit, record.key) not in said
            if fewer and (unit, record.text) in texts:
                continue  # the same request, from a window of messages that has moved on
            texts.add((unit, record.text))
            said.add((unit, record.key))
            users[unit] = max(record.users, users.get(unit, 0))
            record.unit = f"{self._trace}/{unit}"
            mains[node.id] = record
            if agent is not None and agent.record is not None and record.offered is None:
                record.offered = agent.record.offered
        for node in order:
            outermost = node.kind == "agent" and not any(a.kind in ("agent", "tool") for a in self._above[node.id])
            if outermost and node.record is not None and node.record.text is not None and node.id not in users:
                node.record.unit = f"{self._trace}/{node.id}"
                mains[node.id] = node.record
        return mains

    def _main_of(self, node: Node, mains: Mapping[str, Record]) -> Record | None:
        """The record that something further down belongs to: above it, of the same agent, or the latest before it."""
        above = self._main_above(node, mains)
        if above is not None:
            return above
        agents = [above.id for above in self._above[node.id] if above.kind == "agent"]
        unit = f"{self._trace}/{agents[0] if agents else ''}"
        same = [record for record in mains.values() if record.unit == unit] or list(mains.values())
        before = [record for record in same if record.time is None or record.time <= self._begin(node)]
        return before[-1] if before else same[0] if same else None

    def _main_above(self, node: Node, mains: Mapping[str, Record]) -> Record | None:
        """The record of the nearest model call above, or the one that this model call belongs to."""
        for above in reversed(self._above[node.id]):
            if above.id in mains:
                return mains[above.id]
            if above.kind == "chat":
                return self._main_of(above, mains)
        return None

    def _outer(self, order: list[Node]) -> list[tuple[Node, Record, Node | None]]:
        """The model calls below no other agent, tool or model call, each with its agent."""
        out: list[tuple[Node, Record, Node | None]] = []
        for node in order:
            agents = [above for above in self._above[node.id] if above.kind == "agent"]
            nested = len(agents) > 1 or any(above.kind in ("tool", "chat") for above in self._above[node.id])
            if node.kind == "chat" and node.record is not None and not nested and node.record.text is not None:
                out.append((node, node.record, agents[0] if agents else None))
        return out

    def _executing(self, order: list[Node], outer: list[tuple[Node, Record, Node | None]]) -> set[str]:
        """The model calls that a tool's span is below of, or follows within the same agent."""
        agents = {node.id: agent.id if agent is not None else "" for node, _, agent in outer}
        latest: dict[str, str] = {}
        found: set[str] = set()
        for node in order:
            if node.id in agents:
                latest[agents[node.id]] = node.id
            elif node.call is not None:
                chats = [above.id for above in self._above[node.id] if above.id in agents]
                around = [above.id for above in self._above[node.id] if above.kind == "agent"]
                found.add(chats[-1] if chats else latest.get(around[0] if around else "", ""))
        return found

    @staticmethod
    def _by_id(call: Call, mains: Mapping[str, Record], begin: float) -> Record | None:
        """The record whose messages hold a call's id: under its name, and the latest before it, where several do."""
        holds = [
            (
                not any(same_tool(one.name, call.name) for one in same),
                (record.time or 0.0) > begin,
                -(record.time or 0.0),
                i,
            )
            for i, record in enumerate(mains.values())
            if (same := [one for one in record.calls if one.id == call.id])
        ]
        return list(mains.values())[min(holds)[-1]] if call.id is not None and holds else None

    def _attach_calls(self, order: list[Node], mains: Mapping[str, Record]) -> None:
        for node in order:
            if node.call is None:
                continue
            if any(above.call is not None and above.call.name == node.call.name for above in self._above[node.id]):
                self._findings.counts["calls_twice"] += 1  # the same call, by the agent and by its client of the server
                continue
            record = self._main_above(node, mains)
            record = record or self._by_id(node.call, mains, self._begin(node)) or self._main_of(node, mains)
            if record is None:
                self._findings.counts["calls_without_request"] += 1
            else:
                record.executed = (*record.executed, node.call)

    def _name(self, record: Record, node: Node) -> None:
        """Say whose the record is: what the span says, those above it, or any of the trace."""
        near = [node, *reversed(self._above[node.id]), *self._nodes.values()]
        record.conversation = next((n.conversation for n in near if n.conversation), self._trace or None)
        record.user = next((n.user for n in near if n.user), None)

    def _check(self, node: Node) -> None:
        if node.parent and node.parent not in self._nodes:
            self._findings.counts["spans_without_parent"] += 1
        parent = self._nodes.get(node.parent)
        if parent is not None and None not in (parent.start, node.start):
            early = (parent.start or 0.0) - (node.start or 0.0)
            if early > 0:
                self._findings.count_skew(early)

    def _begin(self, node: Node) -> float:
        """When a span began: by its own clock, but not before what it is part of."""
        return max((n.start for n in (*self._above[node.id], node) if n.start is not None), default=0.0)

    def _chain(self, node: Node) -> tuple[Node, ...]:
        """What a span is part of, outermost first; a circle ends where it would begin again."""
        chain: list[Node] = []
        seen = {node.id}
        above = self._nodes.get(node.parent)
        while above is not None and above.id not in seen:
            seen.add(above.id)
            chain.append(above)
            above = self._nodes.get(above.parent)
        return tuple(reversed(chain))


def helpers_of(outer: Iterable[tuple[Node, Record, Node | None]], executing: Collection[str]) -> set[str]:
    """The model calls of agents that are no part of the conversation, such as one that finds a title for it.

    Where an agent's own messages are recorded, those are of it whose messages hold its user's. Else, where some of an
    agent's model calls have tools or call them, a model call with neither that shares no message of the user's with
    those is a helper; where two that share none have tools, the first that calls some is the agent's, and `doubtful`.

    Args:
        outer: model calls in order, each with its agent; those without an agent are no helpers.
        executing: model calls that spans of tools follow.
    """
    units: dict[str, list[tuple[Node, Record, Node]]] = {}
    for node, record, agent in outer:
        if agent is not None:
            units.setdefault(agent.id, []).append((node, record, agent))
    found: set[str] = set()
    for members in units.values():
        own = members[0][2].record
        asked = set(own.asked[-1:]) if own is not None else set()
        first = [m for m in members if asked & set(m[1].asked)]
        if not first:
            tooled = [m for m in members if m[1].offered or m[1].calls or m[0].id in executing]
            calling = [m for m in members if m[1].calls] or [m for m in members if m[0].id in executing]
            first = calling[:1] or tooled[:1] or members[:1]
            linked = {a for _, record, _ in _linked(members, first) for a in record.asked}
            first[0][1].doubtful = any(not linked & set(record.asked) for _, record, _ in tooled)
        kept = {node.id for node, _, _ in _linked(members, first)}
        found |= {node.id for node, _, _ in members if node.id not in kept}
    return found


def _linked(
    members: list[tuple[Node, Record, Node]], first: list[tuple[Node, Record, Node]]
) -> list[tuple[Node, Record, Node]]:
    """The model calls that share messages of the user's with the first ones, or with others that do."""
    asked = {one for _, record, _ in first for one in record.asked}
    while True:
        kept = [member for member in members if asked & set(member[1].asked)]
        more = {one for _, record, _ in kept for one in record.asked}
        if more <= asked:
            return kept
        asked |= more


def _kind(attributes: Mapping[str, Any]) -> str:
    operation = attributes.get("gen_ai.operation.name")
    if operation is not None:
        return _OPERATIONS.get(str(operation), "")
    if "gen_ai.tool.name" in attributes:
        return "tool"
    spoken = any(
        name in attributes for name in ("gen_ai.input.messages", "gen_ai.request.model", "gen_ai.prompt.0.role")
    )
    return "chat" if spoken else ""


def _executed(span: Span) -> Call | None:
    name = str(get(span.attributes, "gen_ai.tool.name") or span.name.removeprefix("execute_tool").strip())
    if not name:
        return None
    call_id = span.attributes.get("gen_ai.tool.call.id")
    error = span.attributes.get("error.type")
    thrown = " ".join(str(e.data.get("exception.message") or "") for e in span.events if e.name == "exception")
    failed = bool(span.failed or error)
    status = result_status(f"{error or ''} {span.message} {thrown}", name, failed=True) if failed else "ok"
    return Call(name, status, None if call_id is None else str(call_id) or None, guessed=True)


def _numbered(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Objects out of numbered attributes, such as `gen_ai.prompt.0.role`; `tool_calls.0.name` as lists within."""
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
    for number, found in calls.items():
        rows[number]["tool_calls"] = [found[i] for i in sorted(found)]
    return [rows[number] for number in sorted(rows)]
