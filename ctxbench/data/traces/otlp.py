"""Read OpenTelemetry spans and log records, from OTLP/JSON and from what the SDKs print, in one form.

Sources: OTLP's JSON mapping (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding), `to_json` of the
Python SDK's `ReadableSpan`, and what `ConsoleSpanExporter` of the JavaScript SDK prints, as JSON (`id`, `timestamp`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctxbench.data.traces.records import get, seconds

TURN_MARKS = ("messages", "text", "called", "offered")
"""Fields of a line of which any makes it a turn."""

_OF_SPANS = ("attributes", "parentSpanId", "parent_span_id", "parent_id", "startTimeUnixNano", "start_time", "body")


@dataclass(slots=True, kw_only=True)
class SpanEvent:
    """An event of a span, or a log record: its name and its data."""

    name: str
    data: Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Span:
    """A span; or, with `is_log`, a log record that belongs to one.

    Attributes:
        trace, id, parent: in hexadecimal; empty where there is none.
        start: seconds since 1970, or None.
        failed: its status is an error.
        message: of the status.
        answer_unread: it holds an answer of a model's in a form that is not known.
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

    A turn may name the trace it comes from, and hold an object called `context`: what has a field of a turn and no
    span's id, or nothing else of a span's, is a turn.
    """
    if any(name in data for name in ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs")):
        return True
    context = data.get("context")
    inner = context if isinstance(context, dict) else {}
    span_id = get(data, "spanId", "span_id") or get(inner, "spanId", "span_id")
    if any(name in data for name in TURN_MARKS) and not (span_id and any(name in data for name in _OF_SPANS)):
        return False
    return bool(span_id) or get(data, "traceId", "trace_id") is not None or get(inner, "trace_id") is not None


def read_spans(data: Mapping[str, Any]) -> Iterator[Span]:
    """Read the spans and log records of an export, or a single one.

    Raises:
        TypeError, AttributeError: it is not built as the specification has it.
    """
    groups = get(data, "resourceSpans", "resource_spans")
    logs = get(data, "resourceLogs", "resource_logs")
    if groups is None and logs is None:
        yield _span(data) if "body" not in data else _log(data)
        return
    for group in groups or ():
        shared = _attributes((group.get("resource") or {}).get("attributes"))
        for scope in get(group, "scopeSpans", "scope_spans", "instrumentationLibrarySpans") or ():
            for entry in scope.get("spans") or ():
                span = _span(entry)
                span.attributes = {**shared, **span.attributes}
                yield span
    for group in logs or ():
        for scope in get(group, "scopeLogs", "scope_logs") or ():
            for entry in get(scope, "logRecords", "log_records") or ():
                yield _log(entry)


def _span(data: Mapping[str, Any]) -> Span:
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
    """A value without OTLP's wrapping; what is not wrapped is itself."""
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
