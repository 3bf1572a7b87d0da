"""Bodies of requests to a model's API as turns, and conversations of logs that name none."""

from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import InputError
from ctxbench.labelling.trace_import import LogFiles, TraceSettings, TraceSource, import_traces
from ctxbench.labelling.trace_messages import LogFindings
from ctxbench.labelling.trace_turns import conversations, find_request
from ctxbench.model.items import Catalog, Item

CATALOG = Catalog([Item(type="tool", name=name, description=name) for name in ("refund", "cancel", "search")])
CHAT = {
    "model": "m",
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "refund 17"}],
    "tools": [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("refund", "search")],
}
CALLED = {"choices": [{"message": {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "refund"}}]}}]}
ANTHROPIC = {
    "system": "S",
    "messages": [{"role": "user", "content": "refund 17"}],
    "tools": [{"name": "refund", "input_schema": {}}, {"name": "search", "input_schema": {}}],
}
USED = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "refund", "input": {}}]}
RESPONSES = {
    "input": [{"role": "user", "content": [{"type": "input_text", "text": "refund 17"}]}],
    "tools": [{"type": "function", "name": "refund"}, {"type": "function", "name": "search"}, {"type": "web_search"}],
}
OUTPUT = {
    "created_at": 1772442000,
    "output": [{"type": "reasoning"}, {"type": "function_call", "name": "refund", "call_id": "1"}],
}


def read(tmp_path, rows, history=20):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    reader = LogFiles(TraceSource(logs=(path,), catalog=Catalog([])), history=history)
    list(reader.read())
    return reader.records(), reader.findings


@pytest.mark.parametrize(
    ("request_", "response"),
    [(CHAT, CALLED), (ANTHROPIC, USED), (RESPONSES, OUTPUT)],
    ids=["chat", "messages", "responses"],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_request_with_its_response_says_what_was_offered_and_called(tmp_path, request_, response, wrapped):
    line = (
        {"request": {"body": request_}, "response": {"body": response}}
        if wrapped
        else {"request": request_, "response": response}
    )
    (record,), findings = read(tmp_path, [{**line, "timestamp": "2026-03-02T09:00:00Z", "latency_ms": 7}])
    assert record.text == "refund 17"
    assert record.offered == ("refund", "search")
    assert [(call.name, call.id) for call in record.calls] == [("refund", "1")]
    assert record.time == 1772442000.0
    assert findings.faults == []


def test_a_body_alone_says_what_was_offered_and_a_call_stands_in_the_next(tmp_path):
    after = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "refund"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "done"},
    ]
    records, _ = read(tmp_path, [CHAT, {**CHAT, "messages": [*CHAT["messages"], *after]}])
    ((turn,),) = conversations(records, LogFindings(), history=20)
    assert [(call.name, call.status) for call in turn.calls] == [("refund", "ok")]
    assert {record.offered for record in turn.records} == {("refund", "search")}


def test_pairs_of_one_turn_are_one_turn_and_those_of_another_user_are_not(tmp_path):
    done = {"role": "tool", "tool_call_id": "1", "content": "done"}
    whole = [*CHAT["messages"], CALLED["choices"][0]["message"], done]
    said = {"choices": [{"message": {"role": "assistant", "content": "Refunded."}}]}
    other = json.loads(json.dumps(CALLED).replace('"1"', '"2"'))
    lines = [
        {"request": CHAT, "response": CALLED},
        {"request": CHAT, "response": other},
        {"request": {**CHAT, "messages": whole}, "response": said},
    ]
    records, _ = read(tmp_path, lines)
    first, second = conversations(records, LogFindings(), history=20)
    assert [[record.position for record in turn.records] for turn in (*first, *second)] == [[1, 3], [2]]


def test_what_came_between_in_openais_responses_is_read(tmp_path):
    more = [
        {"type": "function_call", "call_id": "1", "name": "refund", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "Error: no such order"},
    ]
    (record,), _ = read(tmp_path, [{"request": {**RESPONSES, "input": [*RESPONSES["input"], *more]}, "response": {}}])
    assert [(call.name, call.status) for call in record.calls] == [("refund", "error")]
    (plain,), _ = read(tmp_path, [{"request": {**RESPONSES, "input": "refund 17"}, "response": OUTPUT}])
    assert plain.text == "refund 17"


def test_a_request_without_tools_was_offered_none(tmp_path):
    (record,), _ = read(tmp_path, [{"request": {"messages": CHAT["messages"]}, "response": {"choices": []}}])
    assert record.offered == ()


@pytest.mark.parametrize(
    "data",
    [
        {"messages": [], "offered": ["a"]},
        {"messages": []},
        {"text": "a", "tools": []},
        {"request": "GET /", "response": {}},
        {"request": {"path": "/"}, "response": {}},
        {"traceId": "1", "spanId": "2"},
        {},
    ],
)
def test_other_lines_are_left_as_they_are(data):
    assert find_request(data) is None


def said(*texts):
    """A request that holds all that was said before: the user's texts, with answers between."""
    out = []
    for number, text in enumerate(texts):
        out += [{"role": "assistant", "content": f"answer {number}"}] if number else []
        out.append({"role": "user", "content": text})
    return {"messages": out, "offered": "*"}


def places(tmp_path, *lines):
    """Of each line, by which line its conversation begins."""
    records, _ = read(tmp_path, lines)
    found = conversations(records, LogFindings(), history=20)
    by_line = {
        record.position: turns[0].records[0].position for turns in found for turn in turns for record in turn.records
    }
    return [by_line[place] for place in sorted(by_line)]


def test_a_history_that_is_sent_again_is_one_conversation(tmp_path):
    texts = [f"message {n}" for n in range(38)]
    lines = [said(*texts[: n + 1]) for n in range(38)]
    assert places(tmp_path, *lines) == [1] * 38
    records, _ = read(tmp_path, lines)
    (turns,) = conversations(records, LogFindings(), history=20)
    assert [turn.text for turn in turns] == texts


def test_conversations_that_begin_alike_stay_two(tmp_path):
    lines = [said("hi"), {**said("hi"), "answer": "x"}, said("hi", "a"), said("hi", "b"), said("hi", "a", "c")]
    assert places(tmp_path, *lines) == [1, 2, 2, 1, 2]


def test_other_users_and_named_conversations_are_not_gone_on_with(tmp_path):
    lines = [{**said("hi"), "user": "a"}, {**said("hi", "x"), "user": "b"}, {**said("hi", "y"), "conversation": "c"}]
    assert places(tmp_path, *lines) == [1, 2, 3]


def test_equal_faults_are_one_with_a_count(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"level": "info"}\n' * 1 + "".join(f'{{"level": "info", "n": {n}}}\n' for n in range(40)), "utf-8")
    with pytest.raises(InputError) as error:
        import_traces(TraceSource(logs=(path,), catalog=CATALOG), TraceSettings(name="mine"), redact=None)
    assert len(error.value.faults) == 2
    assert error.value.faults[1].line == 2
    assert error.value.faults[1].message.endswith("; the same in 39 more lines")
