"""Spans of the AI SDK's telemetry: what was offered and called, how calls ended, who asked, what is missing."""

from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import InputError, ParameterError
from ctxbench.labelling.trace_exports import read_spans
from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_traces
from ctxbench.labelling.trace_turns import recorded_tools
from ctxbench.model.items import Catalog, Item

NAMES = ("checkIsbn", "orderBook")
CATALOG = Catalog([Item(type="tool", name=name, description=name) for name in NAMES])
USER = {"role": "user", "content": [{"type": "text", "text": "Is 978-3 right?"}]}
CALL = {"type": "tool-call", "toolCallId": "c1", "toolName": "checkIsbn", "args": {"isbn": "978-3"}}
RESULT = {"type": "tool-result", "toolCallId": "c1", "toolName": "checkIsbn", "result": {"valid": True}}
TOOLS = [json.dumps({"type": "function", "name": name, "description": name, "parameters": {}}) for name in NAMES]
WHO = {"ai.telemetry.metadata.sessionId": "s1", "ai.telemetry.metadata.userId": "anna"}


def otlp(value):
    if isinstance(value, list):
        return {"arrayValue": {"values": [{"stringValue": one} for one in value]}}
    return {"stringValue": value}


def span(span_id, name, parent="", at=0, failed=False, **attributes):
    """A span as the OTLP exporter of Node writes it; names of attributes have `__` for a dot."""
    data = {"ai.operationId": name, "operation.name": f"{name} shop", **WHO}
    data |= {key.replace("__", "."): value for key, value in attributes.items()}
    return {
        "traceId": "a" * 32,
        "spanId": span_id,
        "parentSpanId": parent,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(1772442000_000000000 + at * 10**9),
        "attributes": [{"key": key, "value": otlp(value)} for key, value in data.items()],
        "status": {"code": 2 if failed else 0},
    }


def request(kind="generateText", step="doGenerate", tools=TOOLS, failed=False):
    """A request with two calls of the model and one of a tool."""
    asked = [{"role": "system", "content": "Sell books."}, USER]
    later = [*asked, {"role": "assistant", "content": [CALL]}, {"role": "tool", "content": [RESULT]}]
    one, two = (json.dumps(messages) for messages in (asked, later))
    calls = json.dumps([{"toolCallType": "function", "toolCallId": "c1", "toolName": "checkIsbn", "args": "{}"}])
    offered = {} if tools is None else {"ai__prompt__tools": tools}
    name = f"ai.{kind}.{step}"
    return [
        span("01", f"ai.{kind}", ai__prompt=json.dumps({"system": "Sell books.", "messages": [USER]})),
        span("02", name, "01", 1, ai__prompt__messages=one, ai__response__toolCalls=calls, **offered),
        span("03", "ai.toolCall", "01", 2, failed, ai__toolCall__name="checkIsbn", ai__toolCall__id="c1"),
        span("04", name, "01", 3, ai__prompt__messages=two, ai__response__text="It is.", **offered),
    ]


def imported(tmp_path, spans):
    path = tmp_path / "spans.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}), "utf-8")
    return import_traces(TraceSource(logs=(path,), catalog=CATALOG), TraceSettings(name="mine"), redact=None)


@pytest.mark.parametrize(("kind", "step"), [("generateText", "doGenerate"), ("streamText", "doStream")])
def test_a_request_is_a_query_with_what_was_offered_and_called(tmp_path, kind, step):
    made = imported(tmp_path, request(kind, step))
    (query,) = made.dataset.queries
    assert (query.request.text, query.request.user, query.group) == ("Is 978-3 right?", "anna", "s1")
    assert query.request.time == "2026-03-02T09:00:01+00:00"
    assert [label.item.id for label in made.dataset.labels] == ["tool:checkIsbn"]
    (exposure,) = made.exposures
    assert [key.name for key in exposure.offered] == list(NAMES)
    assert exposure.full
    assert not query.partly_labelled
    counts = made.report.counts
    assert [counts[name] for name in ("spans", "calls_ok")] == [4, 1]


@pytest.mark.parametrize("above", [lambda one: {"parentId": one}, lambda one: {"parentSpanContext": {"spanId": one}}])
def test_spans_as_the_javascript_sdk_prints_them_are_read(tmp_path, above):
    rows = []
    for one in request():
        data = {entry["key"]: next(iter(entry["value"].values())) for entry in one["attributes"]}
        data |= {"ai.prompt.tools": TOOLS} if "ai.prompt.tools" in data else {}
        ids = {
            "traceId": one["traceId"],
            "id": one["spanId"],
            **(above(one["parentSpanId"]) if one["parentSpanId"] else {}),
        }
        rows.append(
            {**ids, "name": one["name"], "timestamp": int(one["startTimeUnixNano"]) // 1000, "attributes": data}
        )
    (tmp_path / "spans.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    source = TraceSource(logs=(tmp_path / "spans.jsonl",), catalog=CATALOG)
    made = import_traces(source, TraceSettings(name="mine"), redact=None)
    assert [label.item.name for label in made.dataset.labels] == ["checkIsbn"]
    assert made.dataset.queries[0].request.time == "2026-03-02T09:00:01+00:00"
    assert made.exposures[0].full
    assert made.report.counts["spans_twice"] == 0


def test_a_tool_that_threw_is_no_label(tmp_path):
    made = imported(tmp_path, request(failed=True))
    assert (made.report.counts["calls_error"], made.dataset.labels) == (1, ())


def test_without_tools_the_log_does_not_say_what_was_offered(tmp_path):
    made = imported(tmp_path, request(tools=None))
    assert made.report.counts["turns_without_offered"] == 1
    assert made.dataset.queries[0].partly_labelled


def test_a_request_whose_model_calls_are_not_in_the_log_is_read_of_its_own_span(tmp_path):
    calls = json.dumps([{"toolCallId": "c1", "toolName": "checkIsbn", "input": {}}])
    one = span("01", "ai.generateText", ai__prompt='{"prompt": "Is it?"}', ai__response__toolCalls=calls)
    made = imported(tmp_path, [one])
    assert [query.request.text for query in made.dataset.queries] == ["Is it?"]
    assert [label.item.name for label in made.dataset.labels] == ["checkIsbn"]


def test_tools_are_objects_or_their_text_and_those_of_the_provider_are_left_out():
    hosted = json.dumps({"type": "provider-defined", "id": "openai.web", "name": "web"})
    assert [tool["name"] for tool in recorded_tools([*TOOLS, hosted])] == list(NAMES)
    assert [tool["name"] for tool in recorded_tools(json.dumps([json.loads(tool) for tool in TOOLS]))] == list(NAMES)


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"http.method": "GET"}, ""),
        ({"operation.name": "http.request"}, ""),
        ({"operation.name": "ai.toolCall shop", "ai.toolCall.name": "checkIsbn"}, "tool"),
    ],
)
def test_the_operation_of_a_span_says_its_kind(attributes, kind):
    (span,) = read_spans({"traceId": "t", "spanId": "1", "name": "GET /", "attributes": attributes})
    assert (span.kind, span.name) == (kind, "checkIsbn" if kind else "GET /")


def test_a_log_without_messages_says_which_spans_it_holds(tmp_path):
    silent = [span("01", "ai.generateText"), *(span(f"1{n}", "ai.generateText.doGenerate", "01") for n in range(3))]
    with pytest.raises(ParameterError) as error:
        imported(tmp_path, silent)
    message = str(error.value)
    assert (
        "spans: 4 ('ai.generateText.doGenerate' (3), 'ai.generateText' (1)), model calls without messages: 3" in message
    )
    with pytest.raises(ParameterError, match=r"spans: 2 \('ai.embed' \(2\)\), model calls without messages: none"):
        imported(tmp_path, [span("01", "ai.embed"), span("02", "ai.embed")])


def test_messages_without_one_of_the_user_are_refused(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"messages": [{"role": "assistant", "content": "Hi"}]}\n', "utf-8")
    with pytest.raises(ParameterError, match=r"lines: 1"):
        import_traces(TraceSource(logs=(path,), catalog=CATALOG), TraceSettings(name="mine"), redact=None)


def test_messages_that_are_none_are_a_fault_of_the_span(tmp_path):
    broken = span("01", "ai.generateText.doGenerate", ai__prompt__messages='["a", 7]')
    with pytest.raises(InputError, match="span '01': "):
        imported(tmp_path, [broken])
