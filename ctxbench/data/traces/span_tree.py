"""Link the spans of one trace: model calls that answer the user, calls of helpers, and tool calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.traces.chat_messages import same_tool
from ctxbench.data.traces.otlp import Span
from ctxbench.data.traces.records import Call, LogFindings, NestedCall, Record


@dataclass(slots=True, kw_only=True)
class Node(Span):
    """A span without its attributes, with the data for records.

    Attributes:
        events: those of GenAI, where the span itself has no message of a user's.
        kind: `chat`, `tool`, `agent`, or empty for spans that only link others.
        record: of a model call or an agent.
        call: of a tool's execution.
    """

    position: int
    kind: str = ""
    conversation: str | None = None
    user: str | None = None
    record: Record | None = None
    call: Call | None = None


class SpanTree:
    """The spans of one trace, linked to those that they are part of.

    A main record is that of a model call that answers a message of the user's; other model calls are nested in one.
    """

    def __init__(self, trace: str, nodes: dict[str, Node], findings: LogFindings) -> None:
        self._trace = trace
        self._nodes = nodes
        self._findings = findings
        self._ancestors = {node.id: self._path(node) for node in nodes.values()}
        self._order = sorted(nodes.values(), key=lambda node: (self._start(node), node.position))
        self._mains: dict[str, Record] = {}

    def records(self) -> Iterator[Record]:
        """The model calls that answer messages of the user's, each with its tool calls."""
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
            self._set_identity(record, self._nodes[node_id])
            yield record

    def _find_main_records(self) -> None:
        """Find the model calls of the outermost agents (or of none); an agent's own record where it has none."""
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
                continue  # the same request, from a window of messages that has moved on
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
        """The record that a nested span belongs to: that of an ancestor, of the same agent, or the latest before it."""
        main = self._main_record_above(node)
        if main is not None:
            return main
        unit = f"{self._trace}/{next(iter(self._agents(node)), '')}"
        same_unit = [record for record in self._mains.values() if record.unit == unit] or list(self._mains.values())
        before = [record for record in same_unit if record.time is None or record.time <= self._start(node)]
        return before[-1] if before else same_unit[0] if same_unit else None

    def _main_record_above(self, node: Node) -> Record | None:
        """The record of the nearest model call above, or the one that this model call belongs to."""
        for above in reversed(self._ancestors[node.id]):
            if above.id in self._mains:
                return self._mains[above.id]
            if above.kind == "chat":
                return self._main_record_of(above)
        return None

    def _outermost_calls(self) -> list[tuple[Node, Record, Node | None]]:
        """The model calls below no other agent, tool or model call, each with its agent."""
        out: list[tuple[Node, Record, Node | None]] = []
        for node in self._order:
            agents = self._agents(node)
            nested = len(agents) > 1 or any(above.kind in ("tool", "chat") for above in self._ancestors[node.id])
            if node.kind == "chat" and node.record is not None and not nested and node.record.text is not None:
                out.append((node, node.record, self._nodes[agents[0]] if agents else None))
        return out

    def _calls_with_tools(self, outer: list[tuple[Node, Record, Node | None]]) -> set[str]:
        """The model calls that a tool's span is below of, or follows within the same agent."""
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
        """The record whose messages hold a call's id: under its name, and the latest before it, where several do."""
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
                self._findings.counts["calls_twice"] += 1  # the same call, by the agent and by its client of the server
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

    def _set_identity(self, record: Record, node: Node) -> None:
        """Set conversation and user: those of the span, of its ancestors, or of any span of the trace."""
        near = [node, *reversed(self._ancestors[node.id]), *self._nodes.values()]
        record.conversation = next((n.conversation for n in near if n.conversation), self._trace or None)
        record.user = next((n.user for n in near if n.user), None)

    def _count_issues(self, node: Node) -> None:
        parent = self._nodes.get(node.parent)
        if parent is None:
            self._findings.counts["spans_without_parent"] += bool(node.parent)
        elif parent.start is not None and node.start is not None and parent.start > node.start:
            self._findings.count_skew(parent.start - node.start)

    def _start(self, node: Node) -> float:
        """The start of a span by its own clock, but not before the spans that it is part of."""
        return max((n.start for n in (*self._ancestors[node.id], node) if n.start is not None), default=0.0)

    def _path(self, node: Node) -> tuple[Node, ...]:
        """The spans that a span is part of, outermost first; a circle ends where it would begin again."""
        path = {node.id: node}
        above = self._nodes.get(node.parent)
        while above is not None and above.id not in path:
            path[above.id] = above
            above = self._nodes.get(above.parent)
        return tuple(reversed(path.values()))[:-1]


def helpers_of(outer: Iterable[tuple[Node, Record, Node | None]], with_tools: Collection[str]) -> set[str]:
    """The model calls of agents that are no part of the conversation, such as one that finds a title for it.

    Where an agent's own messages are recorded, those are of it whose messages hold its user's. Else, where some of an
    agent's model calls have tools or call them, a model call with neither that shares no message of the user's with
    those is a helper; where two that share none have tools, the first that calls some is the agent's, and `doubtful`.

    Args:
        outer: model calls in order, each with its agent; those without an agent are no helpers.
        with_tools: model calls that spans of tools follow.
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
    """The model calls that share messages of the user's with the first ones, or with others that do."""
    user_hashes = {user_hash for _, record, _ in first for user_hash in record.user_hashes}
    while True:
        linked = [member for member in members if user_hashes & set(member[1].user_hashes)]
        linked_hashes = {user_hash for _, record, _ in linked for user_hash in record.user_hashes}
        if linked_hashes <= user_hashes:
            return linked
        user_hashes |= linked_hashes
