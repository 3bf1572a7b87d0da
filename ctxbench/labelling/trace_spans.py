"""Spans in one form, how they are linked in a trace, and the records of their model calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ctxbench.datasets.queries import group_pairs
from ctxbench.labelling.record_files import named
from ctxbench.labelling.trace_messages import (
    Call,
    Interner,
    LogFindings,
    NestedCall,
    Record,
    parsed,
    plain_text,
    read_request,
    read_response,
    result_status,
    same_tool,
    set_exchange,
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
        self._trace = trace
        self._nodes = nodes
        self._findings = findings
        self._ancestors = {node.id: self._path(node) for node in nodes.values()}
        chats = [node for node in nodes.values() if node.kind == "chat" and node.record is not None]
        asked = {user_hash for chat in chats if chat.record is not None for user_hash in chat.record.user_hashes}
        last = {node.id: set(node.record.user_hashes[-1:]) for node in nodes.values() if node.record is not None}
        for node in nodes.values():
            if node.kind == "chain":
                is_root = bool(last[node.id]) and not self._ancestors[node.id]
                node.kind = "agent" if is_root and (not asked or last[node.id] & asked) else ""
        self._wrappers: set[str] = set()  # agents around another, with its request or none
        paths = [[above.id for above in self._ancestors[chat.id] if above.kind == "agent"] for chat in chats]
        for path in paths:
            self._wrappers |= {agent for agent in path[:-1] if last[agent] <= asked}
        self._wrappers -= {path[-1] for path in paths if path}
        self._order = sorted(nodes.values(), key=lambda node: (self._start(node), node.position))
        self._mains: dict[str, Record] = {}

    def records(self) -> Iterator[Record]:
        """The model calls that answer user messages, each with its tool calls."""
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
        conversation = next((n.conversation for n in self._nodes.values() if n.conversation), self._trace or None)
        user = next((n.user for n in self._nodes.values() if n.user), None)
        for node_id, record in self._mains.items():
            near = [self._nodes[node_id], *reversed(self._ancestors[node_id])]
            record.conversation = next((n.conversation for n in near if n.conversation), conversation)
            record.user = next((n.user for n in near if n.user), user)
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
        answered = {above.id for main_id in self._mains for above in self._ancestors[main_id]}
        for node in self._order:
            outermost = node.kind == "agent" and not any(a.kind in ("agent", "tool") for a in self._ancestors[node.id])
            if outermost and node.record is not None and node.record.text is not None and node.id not in answered:
                node.record.unit = f"{self._trace}/{node.id}"
                self._mains[node.id] = node.record

    def _main_record_of(self, node: Span) -> Record | None:
        """The record that a nested span belongs to: of an ancestor, of the same agent, or the latest before it."""
        return self._main_record_above(node) or self._latest_record(node)

    def _main_record_above(self, node: Span) -> Record | None:
        """The record of the nearest main model call among the ancestors, else that of the outermost model call."""
        above = next((above for above in reversed(self._ancestors[node.id]) if above.id in self._mains), None)
        if above is not None:
            return self._mains[above.id]
        outermost = next((above for above in self._ancestors[node.id] if above.kind == "chat"), None)
        return None if outermost is None else self._latest_record(outermost)

    def _latest_record(self, node: Span) -> Record | None:
        """The latest record before a span, of the same agent if it has one."""
        unit = f"{self._trace}/{next(iter(self._agents(node)), '')}"
        same_unit = [record for record in self._mains.values() if record.unit == unit] or list(self._mains.values())
        before = [record for record in same_unit if record.time is None or record.time <= self._start(node)]
        return before[-1] if before else same_unit[0] if same_unit else None

    def _outermost_calls(self) -> list[tuple[Span, Record, Span | None]]:
        """The model calls outside of nested agents, tools and model calls, each with its agent."""
        out: list[tuple[Span, Record, Span | None]] = []
        for node in self._order:
            agents = self._agents(node)
            nested = len(agents) > 1 or any(above.kind in ("tool", "chat") for above in self._ancestors[node.id])
            if node.kind == "chat" and node.record is not None and not nested and node.record.text is not None:
                out.append((node, node.record, self._nodes[agents[0]] if agents else None))
        return out

    def _calls_with_tools(self, outer: list[tuple[Span, Record, Span | None]]) -> set[str]:
        """The model calls that tool spans are descendants of, or follow within the same agent."""
        agents = {node.id: agent.id if agent is not None else "" for node, _, agent in outer}
        latest: dict[str, str] = {}
        model_calls: set[str] = set()
        for node in self._order:
            if node.id in agents:
                latest[agents[node.id]] = node.id
            elif node.called is not None:
                above = [above.id for above in self._ancestors[node.id] if above.id in agents]
                model_calls.add(above[-1] if above else latest.get(next(iter(self._agents(node)), ""), ""))
        return model_calls

    def _agents(self, node: Span) -> list[str]:
        """Ids of the agents that a span is part of, outermost first."""
        agents = [above.id for above in self._ancestors[node.id] if above.kind == "agent"]
        return [agent for agent in agents if agent not in self._wrappers]

    def _attach_calls(self) -> None:
        """Add the calls of tool spans to the records of the model calls that they belong to."""
        records = self._mains.values()
        holders = group_pairs((call.id, record) for record in records for call in record.calls if call.id is not None)
        for node in self._order:
            if node.called is None:
                continue
            if any(
                above.called is not None and above.called.name == node.called.name for above in self._ancestors[node.id]
            ):
                continue  # logged by the agent and by its MCP client
            record = (
                self._main_record_above(node)
                or _record_with_call(node.called, self._start(node), holders.get(node.called.id or "", []))
                or self._main_record_of(node)
            )
            if record is None:
                self._findings.counts["calls_without_request"] += 1
            else:
                record.executed = (*record.executed, node.called)

    def _start(self, node: Span) -> float:
        """The start of a span, but not before the start of its ancestors."""
        return max((n.start for n in (*self._ancestors[node.id], node) if n.start is not None), default=0.0)

    def _path(self, node: Span) -> tuple[Span, ...]:
        """The ancestors of a span, outermost first; stops at a circle."""
        path = {node.id: node}
        above = self._nodes.get(node.parent)
        while above is not None and above.id not in path:
            path[above.id] = above
            above = self._nodes.get(above.parent)
        return tuple(reversed(path.values()))[:-1]


def _record_with_call(call: Call, begin: float, holders: list[Record]) -> Record | None:
    """Of the records whose messages have the id of a call, that with its name, then the latest before its begin."""

    def order(record: Record) -> tuple[bool, bool, float]:
        names = [holder.name for holder in record.calls if holder.id == call.id]
        time = record.time or 0.0
        return not any(same_tool(name, call.name) for name in names), time > begin, -time

    return min(holders, key=order, default=None)


def helpers_of(outer: Iterable[tuple[Span, Record, Span | None]], with_tools: Collection[str]) -> set[str]:
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
    members: list[tuple[Span, Record, Span]], first: list[tuple[Span, Record, Span]]
) -> list[tuple[Span, Record, Span]]:
    """The model calls that share user messages with the first ones, directly or through other calls."""
    user_hashes = {user_hash for _, record, _ in first for user_hash in record.user_hashes}
    for _, record, _ in [*members, *reversed(members)] * 2:
        user_hashes |= set(record.user_hashes) if user_hashes & set(record.user_hashes) else set()
    return [member for member in members if user_hashes & set(member[1].user_hashes)]


class SpanReader:
    """Collects spans one by one, and converts them into records at the end."""

    def __init__(self, findings: LogFindings, interner: Interner) -> None:
        self._findings = findings
        self._interner = interner
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
            node = self._traces.get(trace, {}).get(span_id)
            if node is None:
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
    name = span.name.removeprefix("execute_tool").strip()
    if not name:
        return None
    response = parsed(span.response)
    results = [result for message in read_response(response) or () for result in message.results]
    output = response.get("output", response) if isinstance(response, dict) else response
    text = results[0].text if results else plain_text(output)
    failed = span.failed or (results[0].failed if results else None)
    status = result_status(f"{span.message} {text}" if span.failed else text, name, failed=failed or None)
    return Call(name, status, span.call or (results[0].call if results else None), guessed=True)
