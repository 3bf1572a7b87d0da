"""Logs whose responses cannot be read are refused; logs without any are requests to label; counts are true."""

from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import InputError, ParameterError
from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_traces
from ctxbench.labelling.trace_messages import call_names, is_stream, read_messages, read_response
from ctxbench.model.items import Catalog, Item

CATALOG = Catalog([Item(type="tool", server="shop", name=name, description=name) for name in ("refund", "cancel")])
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("refund", "cancel")]
ASK = [{"role": "user", "content": "refund 17"}]
REQUEST = {"messages": ASK, "tools": TOOLS}
CALL = {"type": "tool-call", "toolCallId": "1", "toolName": "refund", "input": {"order": 17}}
STEPS = [{"content": [CALL], "response": {"messages": [{"role": "assistant", "content": [CALL]}]}}, {"content": []}]
CHUNK = {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"name": "refund"}}]}}]}
EVENTS = f"data: {json.dumps(CHUNK)}\n\ndata: [DONE]\n\n"
READ = {"choices": [{"message": {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "refund"}}]}}]}
SAID = {"choices": [{"message": {"role": "assistant", "content": "Hello."}}]}

STARTED = f"data: {json.dumps(CHUNK)}\n\n"
ENDED = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}

UNREAD = {
    "events without an end": ({"request": REQUEST, "response": STARTED}, "response"),
    "chunks a line": ({"request": REQUEST, "response": f"{json.dumps(CHUNK)}\n{json.dumps(CHUNK)}"}, "response"),
    "a list of chunks": ({"request": REQUEST, "response": [CHUNK, CHUNK]}, "response"),
    "a data stream": ({"request": REQUEST, "response": '0:"Do"\n9:{"toolCallId":"1"}\n'}, "response"),
    "a table of traces": ({"id": "t", "input": json.dumps({"messages": ASK}), "output": "Done."}, "output"),
    "a response of a turn": ({"messages": ASK, "offered": "*", "response": READ}, "response"),
    "uses of tools": ({"messages": ASK, "tool_uses": [{"name": "refund", "input": {}}]}, "tool_uses"),
    "labels of an eval": ({"messages": ASK, "expected_tools": ["refund"]}, "expected_tools"),
    "labels of a body": ({"request": REQUEST, "mustInclude": ["refund"]}, "mustInclude"),
    "calls of a turn": ({"text": "refund 17", "tool_calls": ["refund"]}, "tool_calls"),
}


@pytest.fixture
def log(tmp_path):
    def write(*rows, name="log.jsonl"):
        lines = [
            row if isinstance(row, bytes) else (row if isinstance(row, str) else json.dumps(row)).encode()
            for row in rows
        ]
        (tmp_path / name).write_bytes(b"\n".join(lines) + b"\n")
        return tmp_path / name

    return write


def imported(*paths):
    return import_traces(TraceSource(logs=paths, catalog=CATALOG), TraceSettings(name="mine"), redact=None)


def numbered(row, n=3):
    return [{**row, "conversation": f"c{number}"} for number in range(n)]


@pytest.mark.parametrize(("row", "field"), UNREAD.values(), ids=UNREAD)
def test_responses_of_which_none_can_be_read_are_refused_with_their_fields(log, row, field):
    path = log(*numbered(row))
    with pytest.raises(ParameterError, match=rf"'{field}' \(3\)"):
        import_traces(TraceSource(logs=(path,), catalog=CATALOG), TraceSettings(name="mine"), redact=None)


@pytest.mark.parametrize("row", [row for row, _ in UNREAD.values()], ids=UNREAD)
def test_where_others_can_be_read_what_could_not_is_no_label_and_not_complete(log, row):
    made = imported(log(*numbered(row), {"request": REQUEST, "response": READ, "conversation": "good"}))
    counts = made.report.counts
    assert (counts["lines"], counts["turns"], counts["calls_ok"]) == (4, 4, 1)
    assert counts["labels_full"] + counts["labels_partial"] == 1
    assert len(made.dataset.unlabelled) == 3


def test_unread_responses_are_counted_one_by_one(log):
    rows = [row for row, _ in list(UNREAD.values())[:5]]
    made = imported(log(*rows, {"request": REQUEST, "response": READ}, {"request": REQUEST}))
    assert (made.report.counts["responses_unread"], made.report.counts["responses_missing"]) == (5, 1)


@pytest.mark.parametrize(
    "row",
    [
        {"messages": ASK, "tools": ["refund"], "result": {"steps": STEPS}},
        {"request": REQUEST, "result": {"text": "Done.", "steps": STEPS}},
        {"prompt": "refund 17", "text": "Done.", "steps": STEPS, "finishReason": "stop"},
        {"request": REQUEST, "response": EVENTS},
        {"request": REQUEST, "stream": [CHUNK, ENDED]},
        {"request": REQUEST, "toolCalls": [{"toolName": "refund"}]},
    ],
)
def test_answers_in_steps_and_streams_are_read(log, row):
    made = imported(log(row))
    assert [label.item.name for label in made.dataset.labels] == ["refund"]
    assert made.report.counts["responses_unread"] == 0


@pytest.mark.parametrize(
    "row",
    [
        {"text": "refund 17"},
        {"messages": ASK, "offered": "*", "called": []},
        {"request": REQUEST},
        {"request": REQUEST, "response": SAID},
        {"request": REQUEST, "response": "Hello."},
        {"messages": [*ASK, {"role": "assistant", "content": "Hello."}]},
        {"messages": ASK, "offered": "*", "called": [{"tool": "refund", "status": "error"}]},
        {"messages": ASK, "offered": ["refund"], "called": ["bash"]},
    ],
)
def test_a_log_without_calls_is_so_many_requests_to_label(log, row):
    made = imported(log(*numbered(row)))
    assert made.report.counts["queries_unlabelled"] == 3
    assert made.dataset.labels == ()
    assert len(made.dataset) == 3


def test_a_turn_that_needs_nothing_is_a_label(log):
    made = imported(
        log({"text": "a", "offered": "*", "needs": "nothing"}, {"text": "b", "offered": ["refund"], "called": ["push"]})
    )
    assert made.report.counts["queries_nothing"] == 1
    assert "labelling.queries-nothing" in [line.key for line in made.report.lines()]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"text": "a", "offered": ["refund"], "called": ["push"]}], r"'push' \(1\)"),
        ([{"text": "a", "called": [{"tool": "refund", "status": "fine"}]}, {"text": "b"}], r"'called' \(1\)"),
        ([{"ts": 1, "result": {"steps": STEPS}}, {"text": "b"}], r"'result' \(1\)"),
        ([{"messages": [*ASK, {"role": "assistant", "content": [{"type": "my-tool-call"}]}]}], "unknown form: 1;"),
        (
            [{"conversation": "a", "offered": "*", "called": ["refund"]}, {"text": "b"}],
            "user message before: 1;",
        ),
    ],
)
def test_calls_that_give_no_label_are_named(log, rows, said):
    with pytest.raises(ParameterError, match=said):
        imported(log(*rows))


def test_definitions_are_no_calls(log):
    definition = {"name": "refund", "description": "Refund.", "inputSchema": {"type": "object"}}
    with pytest.raises(InputError, match="a description or a schema"):
        imported(log({"text": "refund 17", "called": [definition]}))
    made = imported(
        log({"text": "refund 17", "offered": [definition], "called": [{"name": "refund", "parameters": {}}]})
    )
    assert [label.item.name for label in made.dataset.labels] == ["refund"]


def test_lines_are_counted_one_by_one_wherever_they_stand(log):
    good = {"text": "refund 17", "called": ["refund"]}
    rows = [{**good, "turn": n, "conversation": "c"} for n in range(3)]
    bad = [{**rows[0], "turn": -n} for n in range(1, 3)]
    listed = json.dumps([*rows, rows[0], *bad])  # all of them stand in line 1
    read = {"lines": 6, "lines_twice": 1, "lines_unreadable": 2, "turns": 3}
    assert {name: imported(log(listed)).report.counts[name] for name in read} == read
    with pytest.raises(InputError, match="4 lines cannot be read, 3 can"):
        imported(log(json.dumps([*rows, *bad, {**rows[0], "turn": -3}, {"level": "info"}])))
    made = imported(log(*rows, rows[0], b'{"text": "\xff"}', *bad[:1], b"\xfe"))
    read = {"lines": 7, "lines_twice": 1, "lines_unreadable": 3, "turns": 3}
    assert {name: made.report.counts[name] for name in read} == read


def test_a_span_that_cannot_be_read_costs_no_line(log):
    def span(number, **attributes):
        data = {"gen_ai.operation.name": "chat", **attributes}
        return {"traceId": f"t{number}", "spanId": f"s{number}", "name": "chat", "attributes": data}

    answer = [{"role": "assistant", "content": [{"type": "tool_call", "id": "1", "name": "refund"}]}]
    good = {"gen_ai.input.messages": ASK, "gen_ai.output.messages": answer}
    spans = [span(1, **good), span(2, **{**good, "gen_ai.input.messages": [7]}), span(3, **good)]
    export = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
    counts = imported(log(json.dumps(export, indent=1), name="spans.json")).report.counts
    names = ("lines", "lines_unreadable", "spans", "spans_unreadable", "turns", "calls_ok")
    assert [counts[name] for name in names] == [1, 0, 3, 1, 2, 2]


def test_of_several_answers_the_first_is_read_and_hosted_calls_are_none():
    two = {"choices": [{"message": {"role": "assistant", "content": "a"}}, READ["choices"][0]]}
    assert read_response(two) == read_messages([{"role": "assistant", "content": "a"}])
    hosted = {"role": "assistant", "content": [{"type": "server_tool_use", "name": "web_search", "input": {}}]}
    assert (call_names(hosted), read_response(hosted)) == (set(), read_messages([hosted]))
    history = {"text": "Done.", "toolCalls": [], "request": {"body": {"messages": READ["choices"]}}}
    assert read_response(history) is not None


@pytest.mark.parametrize("text", ["Done.", '{"answer": 5}', "[link](https://a.example)", "data: three rows", "1: a"])
def test_an_answer_is_no_stream(text):
    assert not is_stream(text)
