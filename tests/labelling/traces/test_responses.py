"""Requests and responses under other names: what is read, what the report names, and what cannot be read."""

from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import InputError
from ctxbench.labelling.record_files import EXPECTED, FORBIDDEN, OTHERWISE, QUERY
from ctxbench.labelling.trace_import import LogFiles, TraceSource
from ctxbench.labelling.trace_messages import read_response
from ctxbench.labelling.trace_turns import find_request
from ctxbench.model.items import Catalog

MESSAGES = [{"role": "system", "content": "S"}, {"role": "user", "content": "refund 17"}]
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("refund", "search")]
BODY = {"model": "m", "messages": MESSAGES, "tools": TOOLS}
ANSWER = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "refund"}}]}
ITEMS_FIELDS = [*sorted({*EXPECTED, *FORBIDDEN} - {"include"}), "mustUse"]  # requests to models have `include`
RESPONSE = {"id": "r", "choices": [{"message": ANSWER}]}


def read(tmp_path, *rows):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    reader = LogFiles(TraceSource(logs=(path,), catalog=Catalog([])), history=20)
    list(reader.read())
    return reader.records(), reader.findings


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        ({"req": BODY}, {"res": RESPONSE}),
        ({"req": {"method": "POST", "body": BODY}}, {"res": {"statusCode": 200, "body": RESPONSE}}),
        ({"req": {"body": json.dumps(BODY)}}, {"res": {"body": json.dumps(RESPONSE)}}),
        ({"input": BODY}, {"output": ANSWER}),
        ({"input": {"messages": MESSAGES, "tools": TOOLS}}, {"output": RESPONSE}),
        ({"input": MESSAGES, "tools": TOOLS}, {"output": [ANSWER]}),
        ({"body": BODY}, {"response": RESPONSE}),
        ({"request": {"url": "/", "method": "POST"}, "body": BODY}, {"response": RESPONSE}),
        ({"traceId": "t", "spanId": "s", "body": BODY}, {"response": RESPONSE}),
        ({"requestBody": BODY}, {"responseBody": RESPONSE}),
        (BODY, {"response": RESPONSE}),
        ({"req": {**BODY, "tools": {"refund": {"description": "R"}, "search": {}}}}, {"res": RESPONSE}),
    ],
)
def test_bodies_are_read_wherever_a_line_keeps_them(tmp_path, request_, response):
    (record,), findings = read(tmp_path, {"level": 30, **request_, **response})
    assert (record.text, record.offered) == ("refund 17", ("refund", "search"))
    assert [(call.name, call.id) for call in record.calls] == [("refund", "1")]
    assert not record.doubtful
    assert "level" in findings.ignored
    assert not {"req", "res", "input", "output", "body", "response", "messages"} & set(findings.ignored)
    assert (findings.counts["responses_unread"], findings.counts["responses_missing"]) == (0, 0)


@pytest.mark.parametrize("conversation", ["sessionId", "session_id", "conversationId", "threadId", "conversation"])
@pytest.mark.parametrize("user", ["userId", "user_id", "user"])
@pytest.mark.parametrize("time", ["ts", "time", "timestamp", "startTime", "createdAt"])
def test_conversation_user_and_time_stand_beside_the_bodies(tmp_path, conversation, user, time):
    own = {conversation: "s1", user: "anna", time: "2026-03-02T09:00:00Z", "requestId": "r1", "latencyMs": 7}
    (record,), findings = read(tmp_path, {**own, "request": BODY, "response": RESPONSE})
    assert (record.conversation, record.user, record.time) == ("s1", "anna", 1772442000.0)
    assert dict(findings.ignored) == {"requestId": 1, "latencyMs": 1}


def test_a_time_that_is_none_is_named_and_another_is_taken(tmp_path):
    line = {"time": "noon", "ts": 1772442000000, "turn": 2, "workspace": "w", "request": BODY, "response": RESPONSE}
    (record,), findings = read(tmp_path, line)
    assert (record.time, record.turn, record.workspace) == (1772442000.0, 2, "w")
    assert dict(findings.ignored) == {"time": 1}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (RESPONSE, ["refund"]),
        ({"content": [{"type": "tool_use", "id": "1", "name": "refund"}], "role": "assistant"}, ["refund"]),
        ({"output": [{"type": "custom_tool_call", "call_id": "1", "name": "refund"}]}, ["refund"]),
        ({"output": [{"type": "mcp_call", "id": "1", "name": "refund", "output": "x"}]}, ["refund"]),
        ({"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "refund"}}]}}]}, ["refund"]),
        ({"text": "", "toolCalls": [{"toolCallId": "1", "toolName": "refund", "args": {}}]}, ["refund"]),
        ({"text": "x", "response": {"messages": [ANSWER]}}, ["refund"]),
        ([{"toolCallId": "1", "toolName": "refund", "input": {}}], ["refund"]),
        ([{"type": "text", "text": "x"}, {"type": "tool-call", "toolCallId": "1", "toolName": "refund"}], ["refund"]),
        ({"message": ANSWER}, ["refund"]),
        ({"text": "Refunded."}, []),
        ({"choices": [{"text": "Refunded."}]}, []),
        ({"choices": []}, []),
        ({"error": {"message": "overloaded"}}, []),
    ],
)
def test_every_form_of_a_response_is_read(tmp_path, response, expected):
    (record,), findings = read(tmp_path, {"request": BODY, "response": response})
    assert [call.name for call in record.calls] == expected
    assert findings.counts["responses_unread"] == 0


@pytest.mark.parametrize(
    "response",
    [
        {"statusCode": 200},
        {"choices": [{"delta": {"content": "x"}}]},
        [1, 2],
        [{"choices": [{"delta": {}}]}],
        [{"type": "response.created"}],
    ],
)
def test_a_response_in_no_known_form_is_counted_and_leaves_doubt(tmp_path, response):
    (record,), findings = read(tmp_path, {"req": BODY, "res": response})
    assert record.offered == ("refund", "search")
    assert record.doubtful
    assert (findings.counts["responses_unread"], findings.counts["responses_missing"]) == (1, 0)
    assert read_response(response) is None


def test_a_request_without_a_response_is_counted_and_other_fields_are_named(tmp_path):
    (record,), findings = read(tmp_path, {"req": BODY, "answered": RESPONSE})
    assert not record.doubtful
    assert (findings.counts["responses_unread"], findings.counts["responses_missing"]) == (0, 1)
    assert dict(findings.ignored) == {"answered": 1}


@pytest.mark.parametrize("text", ["Refunded.", "{Refunded}"])
def test_a_text_is_an_answer(tmp_path, text):
    (record,), _ = read(tmp_path, {"input": BODY, "output": text})
    assert [message.content for message in record.after] == [text]


def test_messages_alone_do_not_say_what_was_offered(tmp_path):
    records, _ = read(
        tmp_path, {"input": MESSAGES, "output": ANSWER}, {"input": {"messages": MESSAGES}, "output": ANSWER}
    )
    assert [record.offered for record in records] == [None, None]
    (record,), _ = read(tmp_path, {"req": {"messages": MESSAGES}, "res": ANSWER})
    assert record.offered == ()


def test_tools_of_the_provider_are_not_offered_and_geminis_are_unpacked(tmp_path):
    tools = [{"type": "provider", "id": "x", "name": "web"}, {"functionDeclarations": [{"name": "refund"}]}]
    (record,), _ = read(tmp_path, {"req": {**BODY, "tools": tools}, "res": RESPONSE})
    assert record.offered == ("refund",)


@pytest.mark.parametrize(
    "data",
    [
        {"input": "refund", "output": "done"},
        {"input": {"city": "Rome"}, "output": {"text": "x"}},
        {"body": {"messages": MESSAGES}, "spanId": "1", "traceId": "2"},
        {"req": {"method": "GET"}, "res": {"statusCode": 200}},
        {"messages": MESSAGES, "called": [], "response": RESPONSE},
    ],
)
def test_lines_without_a_body_are_left_as_they_are(data):
    assert find_request(data) is None


def test_the_fault_of_a_line_says_what_stands_in_place_of_a_request(tmp_path):
    with pytest.raises(InputError) as error:
        read(tmp_path, {"req": {"method": "GET", "url": "/"}, "res": {"statusCode": 200}})
    message = error.value.faults[0].message
    assert (message.key, message.values["fields"]) == ("labelling.not-a-turn", "'req', 'res'")


@pytest.mark.parametrize("items_field", ITEMS_FIELDS)
def test_a_hand_written_eval_is_named_whatever_its_fields_are_called(tmp_path, items_field):
    for request_field in (*QUERY, *OTHERWISE["query"], "userMessage", "Text"):
        with pytest.raises(InputError, match=r"a hand-written eval, .* `ctxbench data import FILE --as golden`"):
            read(tmp_path, {request_field: "refund order 17", items_field: ["refund_order"]})


@pytest.mark.parametrize(
    "beside", [{"called": ["refund"]}, {"offered": ["refund"]}, {"conversation": "c1"}, {"messages": MESSAGES}]
)
def test_a_turn_that_says_what_would_have_been_right_is_a_turn(tmp_path, beside):
    (record,), _ = read(tmp_path, {"text": "refund order 17", "expected": ["refund"], **beside})
    assert record.text
