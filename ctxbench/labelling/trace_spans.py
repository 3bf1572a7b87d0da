"""Spans in one form, how they are linked in a trace, and the records of their model calls."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ctxbench.datasets.queries import group_pairs
from ctxbench.labelling.record_files import named
from ctxbench.labelling.trace_messages import (
    Call,
    Interner,
    LogFindings,
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
            apart = [n for n, (_, record) in enumerate(members) if agent and linked.isdisjoint(record.user_hashes)]
            first.doubtful |= min(ranks)[0] and any(not all(ranks[n][1:]) for n in apart)
            helpers |= {members[n][0] for n in apart}
        return helpers

    def _record_above(self, node: Span) -> Record | None:
        """The record of the nearest main model call among the ancestors, else that of the outermost model call."""
        above = next((above for above in reversed(self._ancestors[node.id]) if above.id in self._mains), None)
        outermost = next((above for above in self._ancestors[node.id] if above.kind == "chat"), None)
        return self._mains[above.id] if above else self._latest_record(outermost) if outermost else None

    def _latest_record(self, node: Span) -> Record | None:
        """The latest record before a span, of the same agent if it has one."""
        unit = f"{self._trace}/{self._agent(node)}"
        records, times = self._units.get(unit) or self._units.get(None) or ([], [])
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
