"""Messages in the forms of OpenAI, Anthropic and OpenTelemetry."""

from __future__ import annotations

import pytest

from ctxbench.labelling.trace_messages import (
    Call,
    plain_text,
    read_messages,
    result_status,
    seconds,
    summarise_messages,
    summarise_turns,
)
from ctxbench.model.requests import Message

OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Old?"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": [{"type": "text", "text": "New?"}, {"type": "image_url", "image_url": {"url": "x"}}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}},
            {"id": "2", "type": "function", "function": {"name": "b", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "2", "content": "Error: quota"},
    {"role": "tool", "tool_call_id": "1", "content": "fine"},
]
ANTHROPIC = [
    {"role": "user", "content": "Old?"},
    {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]},
    {"role": "user", "content": [{"type": "text", "text": "New?"}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "a", "input": {}}]},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "2", "name": "b", "input": {}}]},
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "fine"}]},
            {"type": "tool_result", "tool_use_id": "2", "content": "quota", "is_error": True},
        ],
    },
]
OTEL = [
    {"role": "user", "parts": [{"type": "text", "content": "Old?"}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "Yes."}]},
    {"role": "user", "parts": [{"type": "text", "content": "New?"}]},
    {
        "role": "assistant",
        "parts": [
            {"type": "tool_call", "id": "1", "name": "a", "arguments": {}},
            {"type": "tool_call", "id": "2", "name": "b", "arguments": {}},
        ],
    },
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": {"rows": 3}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "2", "response": "Error: quota"}]},
]


@pytest.mark.parametrize("messages", [OPENAI, ANTHROPIC, OTEL])
def test_three_forms_say_the_same(messages):
    found = summarise_messages(read_messages(messages), history=9)
    assert found.text == "New?"
    assert found.history == (Message("user", "Old?"), Message("assistant", "Yes."))
    assert found.calls == (Call("a", "ok", "1"), Call("b", "error", "2"))
    assert (found.users, found.continued, found.finished) == (2, True, False)


def test_the_same_beginning_has_the_same_key_whatever_follows():
    whole, start = read_messages(OPENAI), read_messages(OPENAI[:4])
    assert summarise_messages(whole, history=0).key == summarise_messages(start, history=0).key
    assert summarise_messages(whole, history=0).key != summarise_messages(read_messages(OPENAI[:2]), history=0).key


@pytest.mark.parametrize(("history", "kept"), [(0, 0), (1, 1), (2, 2), (9, 2)])
def test_history_is_cut_at_its_beginning(history, kept):
    assert (
        summarise_messages(read_messages(OPENAI), history=history).history
        == (
            Message("user", "Old?"),
            Message("assistant", "Yes."),
        )[2 - kept :]
    )


def test_messages_may_be_json_text_or_a_text():
    assert summarise_messages(read_messages('[{"role": "user", "content": "a"}]'), history=0).text == "a"
    assert summarise_messages(read_messages("just text"), history=0).text == "just text"
    assert summarise_messages(read_messages([]), history=0).text is None


def test_a_call_without_ids_gets_the_next_result():
    calls = [{"role": "assistant", "tool_calls": [{"function": {"name": n}} for n in ("a", "b")]}]
    results = [{"role": "tool", "content": text} for text in ("fine", "Exception: no")]
    found = summarise_messages(read_messages([{"role": "user", "content": "x"}, *calls, *results]), history=0)
    assert [(call.name, call.status) for call in found.calls] == [("a", "ok"), ("b", "error")]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("3 errors found in the log", "ok"),
        ("", "ok"),
        ("Error: quota exceeded", "error"),
        ("Traceback (most recent call last)", "error"),
        ("Unknown tool: list_runs", "unknown_tool"),
        ("Error: tool 'list_runs' not found", "unknown_tool"),
        ("No such tool available: list_runs", "unknown_tool"),
        ('{"error": null, "data": [1]}', "ok"),
        ('{"failed": 0, "errors": [], "passed": 12}', "ok"),
        ('{"error": {"code": 404}}', "error"),
        ('{"success": false}', "error"),
        ('[{"error": "of a row"}]', "ok"),
        ('{"error": "cut off...', "error"),
        ("Failed builds: 3", "ok"),
        ("Failed to connect", "error"),
        ('{"status": "failed", "reason": "no permission"}', "error"),
        ('{"status": "cancelled", "order": 5}', "ok"),
        ("403 Forbidden", "error"),
        ("HTTP 503", "error"),
        ("403 orders were shipped", "ok"),
        ("Tool execution was denied by the user", "error"),
        ("Permission to use mcp__shop__cancel.order has been denied.", "error"),
        ("Operation blocked by hook: not allowed", "error"),
        ("Two requests were denied last week", "ok"),
        ("Error budget: 99.9%", "ok"),
        ("Exception list is empty", "ok"),
        ("requests.exceptions.HTTPError: 404", "error"),
        ("[error] quota", "error"),
        ("function foo: 3 usages not found elsewhere", "ok"),
        ("No such tool in the shed", "ok"),
        ("Unknown tool: other_tool", "ok"),
        ("Error: function other is not defined", "error"),
        ("ToolNotFoundError: no list", "unknown_tool"),
        ("the document says: unknown tool. " + "x" * 500, "ok"),
    ],
)
def test_a_result_says_how_its_call_ended(text, status):
    assert result_status(text, "list_runs") == status


@pytest.mark.parametrize("history", [0, 2, 9])
def test_summaries_of_turns_are_those_of_the_messages_up_to_their_ends(history):
    messages = read_messages([{"role": "system", "content": "Hi."}, *OPENAI, *ANTHROPIC, *ANTHROPIC[:1]])
    users = [i for i, message in enumerate(messages) if message.role == "user"]
    ends = [*users[1:], len(messages)]
    assert list(summarise_turns(messages, history=history)) == [
        summarise_messages(messages[:end], history=history) for end in ends
    ]


def test_what_is_typed_beside_results_is_a_request_of_its_own():
    typed, inserted = ({"type": "text", "text": text} for text in ("Close it.", "<system-reminder>x</system-reminder>"))
    messages = [*ANTHROPIC[:-1], {"role": "user", "content": [*ANTHROPIC[-1]["content"], inserted, typed]}]
    summary = summarise_messages(read_messages(messages), history=9)
    assert (summary.text, summary.users, summary.calls, summary.earlier) == ("Close it.", 3, (), 2)
    assert summary.failed == (Call("b", "error", "2"),)
    messages[-1]["content"].pop()
    assert summarise_messages(read_messages(messages), history=9).text == "New?"


@pytest.mark.parametrize(("end", "names"), [("", ("b",)), (" is what I could call, but will not.", ())])
def test_a_call_in_a_text_is_read_at_its_end_alone(end, names):
    text = '<tool_call>{"name": "b", "arguments": {}}</tool_call>' + end
    (message,) = read_messages([{"role": "assistant", "content": text}])
    assert tuple(name for _, name in message.calls) == names
    (message,) = read_messages([{"role": "assistant", "content": text, "tool_calls": [{"function": {"name": "a"}}]}])
    assert [name for _, name in message.calls] == ["a"]


def test_a_result_after_the_next_message_is_of_the_turn_of_its_call():
    messages = [*OPENAI[3:5], {"role": "user", "content": "Wait."}, *OPENAI[5:], {"role": "user", "content": "Go on."}]
    assert [message.role for message in read_messages(messages)] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "user",
    ]


@pytest.mark.parametrize("value", [3, [3], ["a"], {"messages": 3}, [{"role": "user", "content": 3}], None])
def test_what_is_no_message_is_an_error(value):
    with pytest.raises(TypeError):
        read_messages(value)


def test_parts_that_are_no_text_are_left_out():
    assert plain_text([{"type": "text", "text": "a"}, {"type": "reasoning", "content": "hm"}, "b"]) == "a\nb"


@pytest.mark.parametrize(
    "value",
    [
        "2026-03-01T00:00:00+00:00",
        "2026-03-01T01:00:00+01:00",
        "2026-03-01T00:00:00Z",
        "2026-03-01",
        1772323200,
        1772323200000,
        "1772323200000000000",
        1772323200000000,
    ],
)
def test_times_have_many_forms(value):
    assert seconds(value) == 1772323200.0


@pytest.mark.parametrize("value", ["yesterday", True, None, -1, [], 0, 1e30, float("nan")])
def test_other_values_are_no_times(value):
    assert seconds(value) is None
