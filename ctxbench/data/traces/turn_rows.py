"""Traces as JSON lines: one turn, or one model call, a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault
from ctxbench.data.traces.chat_messages import exchange, fill, read_messages
from ctxbench.data.traces.records import STATUSES, Call, Record, Shared, Tally, get, seconds
from ctxbench.sources.names import named

TURN_FIELDS = (
    *("conversation", "turn", "time", "user", "workspace", "messages", "text", "offered", "exposure", "called"),
    *("available", "scope", "needs", "session", "explicit", "tool_results", "answer"),
)


class TurnReader:
    """Reads rows of JSON lines; what a row says wrongly is a fault, and the row is left out."""

    def __init__(self, tally: Tally, shared: Shared, *, history: int) -> None:
        self._tally = tally
        self._shared = shared
        self._history = history

    def read(self, data: dict[str, Any], place: int, path: Path | str, line: int) -> Record | None:
        """The record of one row, or None if something in it is wrong."""
        self._tally.ignored.update(name for name in data if name not in TURN_FIELDS)
        wrong: list[str] = []
        record = Record(place=place)
        self._who(record, data, wrong)
        self._said(record, data, wrong)
        self._offered(record, data, wrong)
        record.calls = self._called(record, data, wrong)
        self._rest(record, data, wrong)
        self._tally.faults += [Fault(message, path, line) for message in wrong]
        return None if wrong else record

    def names(self, data: dict[str, Any], field: str, wrong: list[str]) -> tuple[str, ...] | None:
        """The names of a list; equal lists of a log are one object."""
        entries = data.get(field)
        if entries is None:
            return None
        if not isinstance(entries, list):
            wrong.append(f"field {field!r} must be a list, got {entries!r:.60}")
            return None
        out = []
        for number, entry in enumerate(entries, start=1):
            try:
                out.append(named(entry))
            except TypeError:
                wrong.append(f"field {field!r}, entry {number}: expected the name of an item, got {entry!r:.60}")
        return self._shared.names(tuple(out))

    def _who(self, record: Record, data: dict[str, Any], wrong: list[str]) -> None:
        for name in ("conversation", "user", "workspace"):
            value = data.get(name)
            if isinstance(value, str | int) and not isinstance(value, bool):
                setattr(record, name, str(value) or None)
            elif value is not None:
                wrong.append(f"field {name!r} must be a text, got {value!r:.60}")
        turn = data.get("turn")
        if isinstance(turn, int) and not isinstance(turn, bool) and turn >= 0:
            record.turn = turn
        elif turn is not None:
            wrong.append(f"field 'turn' must be a whole number of 0 or more, got {turn!r:.60}")
        time = data.get("time")
        record.time = seconds(time)
        if time is not None and record.time is None:
            wrong.append(f"field 'time' must be ISO 8601 or seconds since 1970, got {time!r:.60}")

    def _said(self, record: Record, data: dict[str, Any], wrong: list[str]) -> None:
        given = data.get("messages")
        text = data.get("text")
        if given is None and isinstance(text, str):
            given = [{"role": "user", "content": text}]
        given = [] if given is None else given
        answer = data.get("answer")
        try:
            messages = read_messages(given)
            if answer is not None:
                messages += read_messages([{"role": "assistant", "content": answer}])
        except (TypeError, ValueError, RecursionError):
            wrong.append("field 'messages' must be a list of messages with role and content")
            return
        fill(record, exchange(messages, history=self._history), self._shared)
        record.cumulative = data.get("called") is None

    def _offered(self, record: Record, data: dict[str, Any], wrong: list[str]) -> None:
        exposure = data.get("exposure")
        if exposure not in (None, "full", "partial"):
            wrong.append(f"field 'exposure' must be full or partial, got {exposure!r:.60}")
        offered = data.get("offered")
        record.everything = exposure == "full" or offered == "*" or (isinstance(offered, list) and "*" in offered)
        record.partial = exposure == "partial"
        if record.partial and record.everything:
            wrong.append("field 'exposure' says partial, but 'offered' is '*'")
        if offered != "*":
            names = self.names(data, "offered", wrong)
            record.offered = names if names is None or "*" not in names else tuple(i for i in names if i != "*")
        record.available = self.names(data, "available", wrong)
        scope = data.get("scope")
        if scope is not None and not isinstance(scope, str):
            wrong.append(f"field 'scope' must be the name of a scope, got {scope!r:.60}")
        else:
            record.scope = scope
        if record.scope is not None and record.available is not None:
            wrong.append("fields 'available' and 'scope' exclude each other")

    @staticmethod
    def _called(record: Record, data: dict[str, Any], wrong: list[str]) -> tuple[Call, ...]:
        """The calls that the field `called` names, or else those in the messages after the user's last one."""
        entries = data.get("called")
        if entries is None:
            return record.calls
        if not isinstance(entries, list):
            wrong.append(f"field 'called' must be a list, got {entries!r:.60}")
            return ()
        calls = []
        for number, entry in enumerate(entries, start=1):
            status = entry.get("status") or "ok" if isinstance(entry, dict) else "ok"
            try:
                name = named(entry)
            except TypeError:
                wrong.append(f"field 'called', entry {number}: expected {{tool, status}}, got {entry!r:.60}")
                continue
            if status not in STATUSES:
                wrong.append(
                    f"field 'called', entry {number}: status must be one of {', '.join(STATUSES)}, got {status!r:.60}"
                )
                continue
            call_id = get(entry, "call", "call_id") if isinstance(entry, dict) else None
            calls.append(Call(name, status, None if call_id is None else str(call_id) or None))
        return tuple(calls)

    def _rest(self, record: Record, data: dict[str, Any], wrong: list[str]) -> None:
        needs = data.get("needs")
        if needs not in (None, "nothing"):
            wrong.append(f"field 'needs' must be 'nothing' or absent, got {needs!r:.60}")
        record.needs_nothing = needs == "nothing"
        if record.needs_nothing and any(call.status == "ok" for call in record.calls):
            wrong.append("field 'needs' says nothing, but something was called")
        session = data.get("session")
        names = self.names(data, "session", wrong)
        if isinstance(session, list) and names is not None and len(names) == len(session):
            modes = [entry.get("mode", "manual") if isinstance(entry, dict) else "manual" for entry in session]
            wrong += [
                f"a session item's mode is always or manual, got {m!r}" for m in modes if m not in ("always", "manual")
            ]
            record.session = tuple(zip(names, modes, strict=True))
        record.explicit = self.names(data, "explicit", wrong) or ()
        results = data.get("tool_results") or []
        try:
            record.tool_results = tuple((str(result["tool"]), str(result["text"])) for result in results)
        except (TypeError, KeyError):
            wrong.append('field \'tool_results\' must be a list of {"tool", "text"}')
