"""Observations that Langfuse exported: every form of the export, where tools stand, calls, who asked."""

from __future__ import annotations

import json

import pytest

from ctxbench.labelling.trace_exports import holds_spans, read_spans
from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_traces
from ctxbench.model.items import Catalog, Item

NAMES = ("checkIsbn", "orderBook")
CATALOG = Catalog([Item(type="tool", name=name, description=name) for name in NAMES])
MESSAGES = [{"role": "system", "content": "Sell books."}, {"role": "user", "content": "Is 978-3 right?"}]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in NAMES]
ANSWER = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "checkIsbn"}}]}
WHO = {"sessionId": "s1", "userId": "anna"}


def generation(own_id="o1", trace="t1", **more):
    one = {
        "id": own_id,
        "traceId": trace,
        "type": "GENERATION",
        "name": "OpenAI-generation",
        "startTime": "2026-03-02T09:00:00.000Z",
        "model": "m",
        "input": {"messages": MESSAGES, "tools": TOOLS},
        "output": ANSWER,
        "level": "DEFAULT",
        "metadata": {},
        **WHO,
        **more,
    }
    return {name: value for name, value in one.items() if value is not ...}


def imported(tmp_path, text, name="langfuse.jsonl"):
    (tmp_path / name).write_text(text, "utf-8")
    source = TraceSource(logs=(tmp_path / name,), catalog=CATALOG)
    return import_traces(source, TraceSettings(name="mine"), redact=None)


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_generation_is_a_query_with_what_was_offered_and_called(tmp_path):
    made = imported(tmp_path, lines(generation()))
    (query,) = made.dataset.queries
    assert (query.request.text, query.request.user, query.group) == ("Is 978-3 right?", "anna", "s1")
    assert query.request.time == "2026-03-02T09:00:00+00:00"
    assert [label.item.name for label in made.dataset.labels] == ["checkIsbn"]
    assert [key.name for key in made.exposures[0].offered] == list(NAMES)
    assert not query.partly_labelled


STORED = {
    **generation(traceId=..., startTime=..., sessionId=..., userId=...),
    "trace_id": "t1",
    "start_time": "2026-03-02 09:00:00.000000",
    "session_id": "s1",
    "user_id": "anna",
    "input": json.dumps({"messages": MESSAGES, "tools": TOOLS}),
    "output": json.dumps(ANSWER),
}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([generation(), generation("o2", "t2")]),
        json.dumps([generation(), generation("o2", "t2")], indent=2),
        lines(generation(), generation("o2", "t2")),
        json.dumps({"data": [generation(), generation("o2", "t2")], "meta": {"cursor": None}}),
        json.dumps({"id": "t1", **WHO, "observations": [generation("o1", sessionId=None), generation("o2", "t2")]}),
        json.dumps({"trace": {"id": "t1", **WHO}, "observations": [generation(sessionId=...), generation("o2", "t2")]}),
        lines(STORED, {**STORED, "id": "o2", "trace_id": "t2"}),
    ],
    ids=["array", "array over lines", "lines", "page", "trace", "trace of the page", "storage"],
)
def test_every_export_is_read(tmp_path, text):
    made = imported(tmp_path, text, "langfuse.json")
    assert [(query.group, query.request.user) for query in made.dataset.queries] == [("s1", "anna")] * 2
    assert [label.item.name for label in made.dataset.labels] == ["checkIsbn"] * 2
    assert all(exposure.full for exposure in made.exposures)


@pytest.mark.parametrize(
    ("more", "offered"),
    [
        ({"input": MESSAGES}, None),
        ({"input": MESSAGES, "metadata": {"tools": TOOLS}}, NAMES),
        ({"input": MESSAGES, "metadata": json.dumps({"tools": TOOLS})}, NAMES),
        ({"input": {"messages": MESSAGES, "tools": {name: {"description": "d"} for name in NAMES}}}, NAMES),
        ({"input": MESSAGES, "tool_definitions": dict.fromkeys(NAMES, "{}")}, NAMES),
        (
            {
                "input": MESSAGES,
                "metadata": {
                    "attributes": {
                        "ai.operationId": "ai.generateText.doGenerate",
                        "ai.prompt.tools": [json.dumps({"type": "function", "name": name}) for name in NAMES],
                    }
                },
            },
            NAMES,
        ),
    ],
)
def test_tools_are_read_where_they_were_recorded(tmp_path, more, offered):
    made = imported(tmp_path, lines(generation(**more)))
    assert made.report.counts["turns_without_offered"] == (offered is None)
    assert tuple(key.name for key in made.exposures[0].offered) == (offered or ())


@pytest.mark.parametrize(
    "output",
    [
        ANSWER,
        [ANSWER],
        {"choices": [{"message": ANSWER}]},
        {"text": "", "toolCalls": [{"toolCallId": "c1", "toolName": "checkIsbn", "args": {}}]},
        [{"toolCallId": "c1", "toolName": "checkIsbn", "input": "{}"}],
    ],
)
def test_every_form_of_an_output_is_read(tmp_path, output):
    made = imported(tmp_path, lines(generation(output=output)))
    assert [label.item.name for label in made.dataset.labels] == ["checkIsbn"]


def test_an_output_in_no_known_form_is_counted_and_leaves_doubt(tmp_path):
    called = [*MESSAGES, ANSWER, {"role": "tool", "tool_call_id": "c1", "content": "fine"}]
    more = {"input": {"messages": called, "tools": TOOLS}, "output": {"kind": "odd"}}
    made = imported(tmp_path, lines(generation(), generation("o2", startTime="2026-03-02T09:01:00Z", **more)))
    assert made.report.counts["responses_unread"] == 1
    assert made.report.counts["full_but_doubtful"] == 1
    assert [query.partly_labelled for query in made.dataset.queries] == [True]


def test_tools_and_spans_of_a_trace_belong_to_its_request(tmp_path):
    rows = [
        {"id": "a", "traceId": "t1", "type": "SPAN", "name": "POST /chat", "startTime": "2026-03-02T08:59:00Z"},
        generation(parentObservationId="a"),
        {
            "id": "b",
            "traceId": "t1",
            "type": "TOOL",
            "name": "checkIsbn",
            "parentObservationId": "a",
            "startTime": "2026-03-02T09:00:05Z",
            "level": "ERROR",
            "statusMessage": "timeout",
        },
    ]
    made = imported(tmp_path, json.dumps(rows), "langfuse.json")
    counts = made.report.counts
    assert [counts[name] for name in ("turns", "calls_error", "labels_full")] == [1, 1, 0]


def test_texts_and_missing_ids_are_read():
    (span,) = read_spans({"type": "GENERATION", "input": "Hi", "output": "Ho"}, 7)
    assert (span.trace, span.id) == ("7", "7")
    assert (span.kind, span.request, span.response) == ("chat", "Hi", "Ho")


@pytest.mark.parametrize(
    "data",
    [
        {"type": "event", "input": {}, "output": {}},
        {"observations": [1], "data": "x"},
        {"data": [{"id": "gpt", "object": "model"}]},
        {},
    ],
)
def test_other_objects_hold_no_observations(data):
    assert not holds_spans(data)
