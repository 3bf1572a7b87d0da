"""Read the records of log files, whose documents are turns, bodies of requests or spans, with what cannot be read.

A turn is a row of JSON lines: one turn, or one model call, a line. A body of a request to OpenAI or Anthropic, alone or
with its response, becomes a turn. It is known by its fields: `tools` beside `messages`, or an `input` (OpenAI's
responses). Its tools are what the model was offered. A line may be a body, or `{"request": body, "response": body}`,
each also inside a `body`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ctxbench.bench.progress_listener import Progress, silent
from ctxbench.core.errors import Fault, InputError, ParameterError, StorageError
from ctxbench.data.datasets.row_groups import group_pairs
from ctxbench.data.traces.chat_messages import read_messages, set_summary
from ctxbench.data.traces.otlp import TURN_MARKS, holds_spans, read_spans
from ctxbench.data.traces.records import (
    STATUSES,
    Call,
    Interner,
    LogFindings,
    Record,
    get,
    seconds,
    text_or_none,
)
from ctxbench.data.traces.spans import SpanReader
from ctxbench.io.files import iter_lines, read_text, readable
from ctxbench.io.json_files import parse_json, values_with_lines
from ctxbench.io.rows import Row
from ctxbench.sources.name_resolver import named

_JSON_STARTS = ("{", "[", "[{")  # first lines of JSON that is spread over lines; JSON lines end theirs
TURN_FIELDS = (
    *("conversation", "turn", "time", "user", "workspace", "messages", "text", "offered", "exposure", "called"),
    *("available", "scope", "needs", "session", "explicit", "tool_results", "answer"),
)

_REQUEST = ("request", "req", "input_body")
_RESPONSE = ("response", "resp", "completion")
_TIMES = ("time", "timestamp", "ts", "created_at", "created", "startTime")
_CONVERSATIONS = ("conversation", "conversation_id", "session_id", "thread_id")


def read_records(
    paths: Sequence[Path], findings: LogFindings, *, history: int, progress: Progress = silent
) -> list[Record]:
    """Read the records of log files, in the order of the files and their lines; those of spans come last.

    A line that stands there again is counted and left out. What cannot be read is in `findings.faults`.

    Args:
        paths: JSON lines of turns, OTLP/JSON or spans, in any mixture.
        findings: where counts and faults go.
        history: how many earlier messages a record keeps at most.
        progress: called with the bytes that are read, and all there are.

    Raises:
        StorageError: a file is missing or cannot be read.
        InputError: more lines are wrong than right: all faults.
    """
    total = sum(_size(path) for path in paths)
    interner = Interner(history=history)
    spans = SpanReader(findings, interner)
    records: list[Record] = []
    line_hashes: set[bytes] = set()  # of lines, as hashes
    n_readable = place = done = 0
    for path in paths:
        for line, data, length in _documents(path, line_hashes, findings):
            done += length
            progress("reading traces, bytes", done, total)
            place += 1
            if data is None:
                continue
            n_faults = len(findings.faults)
            data = as_turn(data) or data
            if holds_spans(data):
                _read_spans(data, spans, place, findings, Fault("", path, line))
            elif any(name in data for name in TURN_MARKS):
                record = read_turn(data, place, path, line, findings=findings, interner=interner)
                records += [] if record is None else [record]
            else:
                fields = ", ".join(map(repr, list(data)[:5]))
                what = f"neither a turn (an object with messages; fields: {', '.join(TURN_FIELDS)}) nor a span"
                findings.faults.append(Fault(f"{what}, but {fields or 'an empty object'}", path, line))
            n_readable += len(findings.faults) == n_faults
    findings.counts["lines"] = place
    n_wrong = findings.counts["lines_unreadable"] = len({(fault.path, fault.line) for fault in findings.faults})
    if findings.faults and n_wrong > n_readable:
        raise InputError(
            merge_equal_faults(findings.faults), subject=f"traces: {n_wrong} lines cannot be read, {n_readable} can"
        )
    records += spans.records()
    return records


def merge_equal_faults(faults: Sequence[Fault]) -> list[Fault]:
    """One fault for those of a file with equal messages, at the first line, with the number of the other lines."""
    groups = group_pairs(((fault.message, fault.path), fault) for fault in faults)
    return [
        replace(first, message=f"{first.message}; so are {len(more):,} more lines" if more else first.message)
        for first, *more in groups.values()
    ]


def _read_spans(data: dict[str, Any], reader: SpanReader, place: int, findings: LogFindings, at: Fault) -> None:
    try:
        for span in read_spans(data):
            try:
                reader.add(span, place)
            except (TypeError, ValueError, AttributeError, RecursionError):
                what = f"span {span.id or span.name!r}: messages or tools are not as the GenAI conventions have them"
                findings.faults.append(Fault(what, at.path, at.line))
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError):
        findings.faults.append(Fault("no span as OTLP/JSON or the SDKs write it", at.path, at.line))


def _documents(
    path: Path, line_hashes: set[bytes], findings: LogFindings
) -> Iterator[tuple[int, dict[str, Any] | None, int]]:
    """Line, object and length of each document of a file; the object of a repeated or faulty line is None."""
    path = readable(path, again=True)
    first = next((text for _, text in iter_lines(path, []) if text.strip()), "")
    spread = first.strip() in _JSON_STARTS or first.lstrip().startswith("[")
    if spread and (objects := _json_objects(path)) is not None:
        yield from ((line, data, 0) for line, data in objects)
        return
    for line, text in iter_lines(path, findings.faults):
        plain = text.strip()
        if not plain:
            continue
        digest = blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if digest in line_hashes:
            findings.counts["lines_twice"] += 1
            yield line, None, len(text)
            continue
        line_hashes.add(digest)
        yield line, _line_object(plain, path, line, findings), len(text)


def _line_object(text: str, path: Path, line: int, findings: LogFindings) -> dict[str, Any] | None:
    """The JSON object of a line; anything else is a fault."""
    try:
        value = parse_json(text, path=path, line=line)
    except InputError as error:
        findings.faults += error.faults
        return None
    if isinstance(value, dict):
        return value
    findings.faults.append(Fault("expected a JSON object on each line", path, line))
    return None


def _json_objects(path: Path) -> list[tuple[int, dict[str, Any]]] | None:
    """The objects of a file whose JSON is spread over lines, one after the other or in a list; None if it is none."""
    try:
        values = list(values_with_lines(read_text(path)))
    except (ValueError, RecursionError):
        return None
    entries = [(line, entry) for line, value in values for entry in (value if isinstance(value, list) else [value])]
    return entries if all(isinstance(entry, dict) for _, entry in entries) else None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}; expected a log file") from error


# ---------------------------------------------------------------------------------------------- turns


def read_turn(
    data: dict[str, Any], place: int, path: Path, line: int, *, findings: LogFindings, interner: Interner
) -> Record | None:
    """The record of one row of JSON lines, or None if something in it is wrong, which is a fault."""
    findings.ignored.update(name for name in data if name not in TURN_FIELDS)
    faults: list[Fault] = []
    row, record = Row(data, faults, path, line), Record(place=place)
    _read_identity(record, row)
    _read_messages(record, row, interner)
    _read_offers(record, row, interner)
    if row.data.get("called") is not None:  # else the calls are those in the messages after the user's last one
        record.calls = row.each("called", _call, expected="{tool, status}")
    _read_other_fields(record, row, interner)
    findings.faults += faults
    return None if faults else record


def _names(row: Row, field: str, interner: Interner) -> tuple[str, ...] | None:
    """The names of a list, or None if there is no list; equal lists of a log are one object."""
    if row.optional(field, list) is None:
        return None
    return interner.names(row.each(field, named, expected="the name of an item"))


def _read_messages(record: Record, row: Row, interner: Interner) -> None:
    messages, text, answer = (row.data.get(name) for name in ("messages", "text", "answer"))
    if messages is None:
        messages = [{"role": "user", "content": text}] if isinstance(text, str) else []
    answers = [] if answer is None else [{"role": "assistant", "content": answer}]
    try:
        parsed = [*read_messages(messages), *read_messages(answers)]
    except (TypeError, ValueError, RecursionError):
        row.fault("field 'messages' must be a list of messages with role and content")
        return
    set_summary(record, parsed, interner)
    record.cumulative = row.data.get("called") is None


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
    if status not in STATUSES:
        raise ParameterError(f"status must be one of {', '.join(STATUSES)}, got {status!r:.60}")
    return Call(name, status, text_or_none(get(entry, "call", "call_id")) if isinstance(entry, dict) else None)


def as_turn(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Convert a body, or a pair of bodies, into a turn; None if the line is neither."""
    request = next((_inner_body(data[name]) for name in _REQUEST if isinstance(data.get(name), dict)), None)
    if request is not None and "messages" not in data:
        response = next((_inner_body(data[name]) for name in _RESPONSE if isinstance(data.get(name), dict)), {})
        return _turn(request, response, data) if _is_body(request) else None
    is_turn = any(name in data for name in ("offered", "called", "text"))
    return None if is_turn or not _is_body(data) or "tools" not in data else _turn(data, {}, data)


def _inner_body(value: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = value.get("body")
    return inner if isinstance(inner, dict) else value


def _is_body(value: Mapping[str, Any]) -> bool:
    return isinstance(value.get("messages"), list) or isinstance(value.get("input"), str | list)


def _turn(request: Mapping[str, Any], response: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    messages = request["messages"] if isinstance(request.get("messages"), list) else _messages_of(request["input"])
    turn: dict[str, Any] = {"messages": [*messages, *_answers(response)]}
    if request.get("tools") is not None or response:
        turn["offered"] = [tool for tool in request.get("tools") or () if not _is_hosted(tool)]
    for field, names in (("time", _TIMES), ("conversation", _CONVERSATIONS), ("user", ("user",))):
        sources = (line, response, request) if field == "time" else (line, request)
        value = next(
            (one[name] for one in sources for name in names if isinstance(one.get(name), str | int | float)), None
        )
        if value is not None:
            turn[field] = value
    return turn


def _is_hosted(tool: Any) -> bool:
    """Whether a tool is run by the model's provider, and so no item of a catalog."""
    return isinstance(tool, dict) and "name" not in tool and not isinstance(tool.get("function"), dict)


def _answers(response: Mapping[str, Any]) -> Iterator[Any]:
    """The messages of a response: of chat completions the first choice, of the other two forms its content."""
    choices = response.get("choices")
    if isinstance(choices, list):
        yield from (
            one["message"] for one in choices[:1] if isinstance(one, dict) and isinstance(one.get("message"), dict)
        )
    elif isinstance(response.get("output"), list):
        yield from _messages_of(response["output"])
    elif "content" in response:
        yield {"role": response.get("role", "assistant"), "content": response["content"]}


def _messages_of(value: Any) -> Iterator[Any]:
    """The items of OpenAI's responses as messages; reasoning and what the provider ran are passed over."""
    if isinstance(value, str):
        yield {"role": "user", "content": value}
        return
    for item in value:
        kind = item.get("type", "message") if isinstance(item, dict) else "message"
        if kind == "function_call":
            call = {"id": item.get("call_id") or item.get("id"), "function": {"name": item.get("name")}}
            yield {"role": "assistant", "content": "", "tool_calls": [call]}
        elif kind == "function_call_output":
            yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")}
        elif kind == "message":
            yield item
