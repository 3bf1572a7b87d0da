"""Read turns from rows of JSON lines: one turn, or one model call, a line."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, ParameterError
from ctxbench.data.traces.chat_messages import ChatMessage, read_messages, set_summary
from ctxbench.data.traces.records import STATUSES, Call, Interner, LogFindings, Record, get, seconds, text_or_none
from ctxbench.io.rows import Row
from ctxbench.sources.name_resolver import named
from ctxbench.sources.tools import describes_item

TURN_FIELDS = (
    *("conversation", "turn", "time", "user", "workspace", "messages", "text", "offered", "exposure", "called"),
    *("available", "scope", "needs", "session", "explicit", "tool_results", "answer"),
)


def meant_field(name: str) -> str:
    """`; 'mesages' may be meant for 'messages'` for a field with nearly the name of one that is read; else empty."""
    close = [] if name in TURN_FIELDS else get_close_matches(name.lower(), TURN_FIELDS, n=1, cutoff=0.7)
    return f"; {name!r} may be meant for {close[0]!r}" if close else ""


def read_turn(
    data: dict[str, Any], position: int, at: Fault, *, findings: LogFindings, interner: Interner
) -> Record | None:
    """The record of one row of JSON lines; None, with a fault, if it is wrong."""
    findings.ignored.update(name for name in data if name not in TURN_FIELDS)
    faults: list[Fault] = []
    row, record = Row(data, faults, Path(at.path or ""), at.line), Record(position=position)
    _read_identity(record, row)
    parsed = _read_messages(record, row, interner)
    if record.text is None:
        findings.roles.update(message.role for message in parsed)
    _read_offers(record, row, interner)
    if row.data.get("called") is not None:  # else the calls are those in the messages after the user's last one
        record.calls = row.read_list("called", _call, expected="{tool, status}")
    _read_other_fields(record, row, interner)
    findings.faults += faults
    return None if faults else record


def _names(row: Row, field: str, interner: Interner) -> tuple[str, ...] | None:
    """The names of a list, or None if there is no list; equal lists of a log are one object."""
    if row.optional(field, list) is None:
        return None
    return interner.names(row.read_list(field, named, expected="the name of an item"))


def _read_messages(record: Record, row: Row, interner: Interner) -> list[ChatMessage]:
    """The messages of a turn, which are set in its record."""
    messages, text, answer = (row.data.get(name) for name in ("messages", "text", "answer"))
    if messages is None:
        messages = [{"role": "user", "content": text}] if isinstance(text, str) else []
    answers = [] if answer is None else [{"role": "assistant", "content": answer}]
    try:
        parsed = [*read_messages(messages), *read_messages(answers)]
    except (TypeError, ValueError, RecursionError):
        row.fault("field 'messages' must be a list of messages with role and content")
        return []
    set_summary(record, parsed, interner)
    record.cumulative = row.data.get("called") is None
    return parsed


def _read_offers(record: Record, row: Row, interner: Interner) -> None:
    exposure, offered = row.data.get("exposure"), row.data.get("offered")
    if exposure not in (None, "full", "partial"):
        row.fault(f"field 'exposure' must be full or partial, got {exposure!r:.60}")
    record.all_offered = exposure == "full" or offered == "*" or (isinstance(offered, list) and "*" in offered)
    record.partly_offered = exposure == "partial"
    if record.partly_offered and record.all_offered:
        row.fault("field 'exposure' says partial, but 'offered' is '*'")
    if offered != "*":
        names = _names(row, "offered", interner)
        record.offered = names if names is None or "*" not in names else tuple(i for i in names if i != "*")
    record.available = _names(row, "available", interner)
    scope = row.data.get("scope")
    if scope is not None and not isinstance(scope, str):
        row.fault(f"field 'scope' must be the name of a scope, got {scope!r:.60}")
    else:
        record.scope = scope
    if record.scope is not None and record.available is not None:
        row.fault("fields 'available' and 'scope' exclude each other")


def _read_other_fields(record: Record, row: Row, interner: Interner) -> None:
    needs = row.data.get("needs")
    if needs not in (None, "nothing"):
        row.fault(f"field 'needs' must be 'nothing' or absent, got {needs!r:.60}")
    record.needs_nothing = needs == "nothing"
    if record.needs_nothing and any(call.status == "ok" for call in record.calls):
        row.fault("field 'needs' says nothing, but something was called")
    session, names = row.data.get("session"), _names(row, "session", interner)
    if isinstance(session, list) and names is not None and len(names) == len(session):
        modes = [entry.get("mode", "manual") if isinstance(entry, dict) else "manual" for entry in session]
        for mode in modes:
            if mode not in ("always", "manual"):
                row.fault(f"a session item's mode is always or manual, got {mode!r}")
        record.session = tuple(zip(names, modes, strict=True))
    record.explicit = _names(row, "explicit", interner) or ()
    results = row.data.get("tool_results") or []
    try:
        record.tool_results = tuple((str(result["tool"]), str(result["text"])) for result in results)
    except (TypeError, KeyError):
        row.fault('field \'tool_results\' must be a list of {"tool", "text"}')


def _read_identity(record: Record, row: Row) -> None:
    for name in ("conversation", "user", "workspace"):
        value = row.data.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool):
            setattr(record, name, str(value) or None)
        elif value is not None:
            row.fault(f"field {name!r} must be a text, got {value!r:.60}")
    turn, time = row.data.get("turn"), row.data.get("time")
    if isinstance(turn, int) and not isinstance(turn, bool) and turn >= 0:
        record.turn = turn
    elif turn is not None:
        row.fault(f"field 'turn' must be a whole number of 0 or more, got {turn!r:.60}")
    record.time = seconds(time)
    if time is not None and record.time is None:
        row.fault(f"field 'time' must be ISO 8601 or seconds since 1970, got {time!r:.60}")


def _call(entry: Any) -> Call:
    status = entry.get("status") or "ok" if isinstance(entry, dict) else "ok"
    name = named(entry)
    if describes_item({field: value for field, value in entry.items() if value} if isinstance(entry, dict) else entry):
        raise ParameterError("it has a description or a schema, so it was offered; expected a name, or {tool, status}")
    if status not in STATUSES:
        raise ParameterError(f"status must be one of {', '.join(STATUSES)}, got {status!r:.60}")
    return Call(name, status, text_or_none(get(entry, "call", "call_id")) if isinstance(entry, dict) else None)
