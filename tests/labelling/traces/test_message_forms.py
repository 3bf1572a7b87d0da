"""Messages of the AI SDK, Gemini, Bedrock and OpenAI's first tools: calls, their results, and what cannot be read."""

from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import message_code
from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_traces
from ctxbench.labelling.trace_messages import calls_of, read_messages, summarise_messages
from ctxbench.model.items import Catalog, Item

USER = {"role": "user", "content": [{"type": "text", "text": "Is 978-3 right?"}]}


def calls(*messages):
    return [(call.name, call.status, call.id) for call in calls_of(read_messages([USER, *messages]))]


def called(name="checkIsbn", **more):
    return {"type": "tool-call", "toolCallId": "c1", "toolName": name, **more}


def result(**more):
    return {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "toolName": "checkIsbn", **more}]}


@pytest.mark.parametrize("arguments", [{"args": {"isbn": "9"}}, {"input": {"isbn": "9"}}, {"input": "{}"}])
def test_parts_of_the_ai_sdk_are_calls(arguments):
    said = {"role": "assistant", "content": [{"type": "text", "text": "I look."}, called(**arguments)]}
    assert calls(said) == [("checkIsbn", "ok", "c1")]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ({"result": {"valid": True}}, "ok"),
        ({"result": "No such book", "isError": True}, "error"),
        ({"output": {"type": "json", "value": {"valid": True}}}, "ok"),
        ({"output": {"type": "text", "value": "fine"}}, "ok"),
        ({"output": {"type": "error-text", "value": "gone"}}, "error"),
        ({"output": {"type": "error-json", "value": {"code": 7}}}, "error"),
        ({"output": {"type": "execution-denied", "reason": "no"}}, "error"),
        ({"output": {"type": "json", "value": {"error": "gone"}}}, "error"),
        ({"type": "tool-error", "error": "gone"}, "error"),
    ],
)
def test_results_of_the_ai_sdk_say_how_a_call_ended(outcome, status):
    assert calls({"role": "assistant", "content": [called()]}, result(**outcome)) == [("checkIsbn", status, "c1")]


@pytest.mark.parametrize(
    ("part", "call"),
    [
        ({"type": "tool-check-isbn", "state": "output-available", "output": {"ok": True}}, ("check-isbn", "ok", "c1")),
        ({"type": "tool-checkIsbn", "state": "input-available", "input": {}}, ("checkIsbn", "ok", "c1")),
        ({"type": "tool-checkIsbn", "state": "output-error", "errorText": "gone"}, ("checkIsbn", "error", "c1")),
        ({"type": "tool-checkIsbn", "state": "output-denied"}, ("checkIsbn", "error", "c1")),
        ({"type": "dynamic-tool", "toolName": "find", "state": "output-available"}, ("find", "ok", "c1")),
    ],
)
def test_parts_of_use_chat_are_calls_with_their_results(part, call):
    message = {"id": "m", "role": "assistant", "parts": [{"type": "step-start"}, {"toolCallId": "c1", **part}]}
    assert calls(message) == [call]


def test_a_ui_message_has_the_calls_and_results_of_its_steps():
    parts = [
        {"type": "step-start"},
        {"type": "text", "text": "I look."},
        {"type": "tool-checkIsbn", "toolCallId": "c1", "state": "output-available", "output": "Error: gone"},
        {"type": "step-start"},
        {"type": "text", "text": "It is right."},
    ]
    messages = read_messages(
        [{"id": "u", "role": "user", "parts": USER["content"]}, {"role": "assistant", "parts": parts}]
    )
    assert [(m.role, m.text, len(m.calls), len(m.results)) for m in messages] == [
        ("user", "Is 978-3 right?", 0, 0),
        ("assistant", "I look.\nIt is right.", 1, 1),
    ]
    summary = summarise_messages(messages, history=5)
    assert (summary.text, summary.finished, summary.unread) == ("Is 978-3 right?", True, 0)
    assert [(call.name, call.status) for call in summary.calls] == [("checkIsbn", "error")]


def test_invocations_of_earlier_versions_are_calls():
    one = {"state": "result", "toolCallId": "c1", "toolName": "checkIsbn", "args": {}, "result": "fine"}
    assert calls({"role": "assistant", "content": "", "toolInvocations": [one]}) == [("checkIsbn", "ok", "c1")]
    both = {"parts": [{"type": "tool-invocation", "toolInvocation": one}], "toolInvocations": [one]}
    assert calls({"role": "assistant", "content": "", **both}) == [("checkIsbn", "ok", "c1")]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (
            [
                {"role": "model", "parts": [{"functionCall": {"name": "find", "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "find", "response": {"error": "x"}}}]},
            ],
            [("find", "error", None)],
        ),
        (
            [
                {"role": "assistant", "content": [{"toolUse": {"toolUseId": "1", "name": "find", "input": {}}}]},
                {"role": "user", "content": [{"toolResult": {"toolUseId": "1", "content": [], "status": "error"}}]},
            ],
            [("find", "error", "1")],
        ),
        ([{"role": "assistant", "content": None, "function_call": {"name": "find"}}], [("find", "ok", None)]),
        (
            [{"role": "assistant", "content": [{"type": "mcp_tool_use", "id": "1", "name": "find"}]}],
            [("find", "ok", "1")],
        ),
    ],
    ids=["gemini", "bedrock", "function_call", "mcp"],
)
def test_calls_of_other_libraries_are_read(messages, expected):
    assert calls(*messages) == expected


@pytest.mark.parametrize(
    ("message", "unread"),
    [
        ({"content": [{"type": "toolCall", "what": "find"}]}, 1),
        ({"content": [{"type": "tool_use", "id": "1"}]}, 1),
        ({"content": "", "tool_calls": ["find", {"id": "1"}]}, 2),
        ({"content": "", "tool_calls": "find()"}, 1),
        ({"content": [{"type": "tool-invocation", "toolInvocation": "find"}]}, 1),
        ({"content": [{"type": "server_tool_use", "name": "web_search"}, {"type": "web_search_tool_result"}]}, 0),
        ({"content": [{"type": "image"}, {"type": "reasoning", "text": "x"}], "tool_calls": None}, 0),
        ({"parts": [{"type": "tool-approval-request", "toolCallId": "1"}]}, 0),
    ],
)
def test_what_looks_like_a_call_and_cannot_be_read_is_counted(message, unread):
    summary = summarise_messages(read_messages([USER, {"role": "assistant", **message}]), history=5)
    assert (summary.unread, summary.calls) == (unread, ())


def test_a_query_with_a_call_that_cannot_be_read_is_not_labelled_wholly(tmp_path):
    catalog = Catalog([Item(type="tool", name="find", description="Find."), Item(type="tool", name="checkIsbn")])
    said = [{"type": "tool_use", "id": "1", "name": "find"}, {"type": "toolCall", "tool": "checkIsbn"}]
    (tmp_path / "log.jsonl").write_text(
        json.dumps({"messages": [USER, {"role": "assistant", "content": said}], "offered": "*"}), "utf-8"
    )
    source = TraceSource(logs=(tmp_path / "log.jsonl",), catalog=catalog)
    made = import_traces(source, TraceSettings(name="mine"), redact=None)
    assert made.report.counts["calls_unread"] == 1
    assert made.dataset.queries[0].partly_labelled
    assert any(message_code(line) and line.key == "labelling.calls-unread" for line in made.report.lines())
