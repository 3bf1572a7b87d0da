"""Transcripts of any agent: forms of programs, names of fields that a file chooses, and files without requests."""

from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import ParameterError, message_code
from ctxbench.labelling.agent_sessions import KINDS
from ctxbench.labelling.sources import recognise
from tests.labelling.traces.session_cases import (
    INIT,
    OWN_NAMES,
    REFUND,
    TOOLS_ALONE,
    TRACK,
    assistant,
    codex,
    labels,
    ran,
    result,
    use,
)

TAGS = "<server_name>shop</server_name>\n<tool_name>track_order</tool_name>"


@pytest.mark.parametrize(
    "call",
    [
        {"role": "assistant", "content": [use("track_order")]},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "track_order", "arguments": "{}"}}]},
        {"role": "assistant", "content": None, "function_call": {"name": "track_order", "arguments": "{}"}},
        {"role": "model", "parts": [{"functionCall": {"name": "track_order", "args": {}}}]},
        {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "track_order", "arguments": {}}]},
        {"type": "message", "message": {"role": "assistant", "content": [use("track_order")]}},
        {"type": "tool_call", "tool": "track_order", "args": {}},
        {"event": "tool_call", "name": "track_order", "arguments": "{}"},
        {"type": "tool_call", "server": "shop", "tool": "track_order"},
        {"type": "function_call", "name": "track_order", "call_id": "c", "arguments": "{}"},
        {
            "role": "assistant",
            "content": f"<use_mcp_tool>\n{TAGS}\n<arguments>{{}}</arguments>\n</use_mcp_tool>",
        },
    ],
)
def test_transcripts_with_and_without_an_id_of_the_session(read, call):
    lines = [
        {"role": "user", "content": "Go."},
        call,
        {"role": "user", "content": "Yes."},
        {"role": "user", "content": "Yes, all."},
    ]
    assert labels(read(lines)) == {"Go.": [TRACK], "Yes.": [], "Yes, all.": []}
    assert labels(read(json.dumps(lines, indent=1))) == {"Go.": [TRACK], "Yes.": [], "Yes, all.": []}
    mixed = [
        {"session_id": name, **line, "content": f"{line['content']} {name}"}
        if line.get("role") == "user"
        else {"session_id": name, **line}
        for line in lines
        for name in ("a", "b")
    ]
    found = labels(read(mixed))
    assert {text: items for text, items in found.items() if items} == {"Go. a": [TRACK], "Go. b": [TRACK]}


GOOSE = [
    {"working_dir": "/w", "description": "d"},
    {"role": "user", "created": 1767225600, "content": [{"type": "text", "text": "Go."}]},
    {
        "role": "assistant",
        "content": [
            {
                "type": "toolRequest",
                "id": "c",
                "toolCall": {"status": "success", "value": {"name": "shop__track_order", "arguments": {}}},
            }
        ],
    },
    {
        "role": "user",
        "content": [{"type": "toolResponse", "id": "c", "toolResult": {"status": "success", "value": [{"text": "x"}]}}],
    },
]


QWEN = [
    {"sessionId": "q", "type": "user", "uuid": "1", "message": {"role": "user", "parts": [{"text": "Go."}]}},
    {
        "sessionId": "q",
        "type": "assistant",
        "uuid": "2",
        "message": {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "track_order", "args": {}}}]},
    },
    {
        "sessionId": "q",
        "type": "tool_result",
        "uuid": "3",
        "message": {"role": "user", "parts": [{"functionResponse": {"id": "c", "response": {"output": "x"}}}]},
    },
]


PI = [
    {"type": "session", "id": "p", "cwd": "/w"},
    {"type": "message", "id": "1", "parentId": None, "message": {"role": "user", "content": "Go."}},
    {
        "type": "message",
        "id": "2",
        "parentId": "1",
        "message": {"role": "assistant", "content": [{"type": "toolCall", "id": "c", "name": "track_order"}]},
    },
    {
        "type": "message",
        "id": "3",
        "parentId": "2",
        "message": {"role": "toolResult", "toolCallId": "c", "toolName": "track_order", "content": [{"text": "x"}]},
    },
]


OPENCODE = [
    {
        "info": {"id": "o", "title": "t"},
        "messages": [
            {"info": {"id": "1", "role": "user"}, "parts": [{"type": "text", "text": "Go."}]},
            {
                "info": {"id": "2", "role": "assistant"},
                "parts": [
                    {
                        "type": "tool",
                        "callID": "c",
                        "tool": "shop_track_order",
                        "state": {"status": "completed", "input": {}, "output": "x"},
                    }
                ],
            },
        ],
    }
]


HOOKS = [
    {"session_id": "h", "hook_event_name": "UserPromptSubmit", "prompt": "Go."},
    {"session_id": "h", "hook_event_name": "PreToolUse", "tool_name": "mcp__shop__track_order", "tool_input": {}},
    {"session_id": "h", "hook_event_name": "Stop"},
]


EVENTS = [
    {"ts": 1767225600, "event": "user_message", "text": "Go."},
    {"ts": 1767225601, "event": "tool_called", "tool": "track_order", "args": {}},
    {"ts": 1767225602, "event": "tool_completed", "tool": "track_order", "output": "x"},
    {"ts": 1767225603, "event": "bot", "text": "It comes."},
]


CLAUDE_AI = [
    {
        "uuid": name,
        "chat_messages": [
            {"uuid": f"{name}1", "sender": "human", "text": text},
            {"uuid": f"{name}2", "sender": "assistant", "content": [{"type": "tool_use", "name": tool}]},
        ],
    }
    for name, text, tool in (("a", "Go.", "track_order"), ("b", "No.", "web"))
]


UI_MESSAGES = [
    {"id": "1", "role": "user", "parts": [{"type": "text", "text": "Go."}]},
    {
        "id": "2",
        "role": "assistant",
        "parts": [
            {"type": "step-start"},
            {"type": "tool-track_order", "toolCallId": "c", "state": "output-available", "input": {}, "output": "x"},
            {"type": "dynamic-tool", "toolName": "refund_order", "toolCallId": "d", "state": "output-error"},
        ],
    },
]


HERMES = [
    {
        "id": "h",
        "conversations": [
            {"from": "human", "value": "Go."},
            {"from": "gpt", "value": '<tool_call>\n{"name": "track_order", "arguments": {}}\n</tool_call>'},
        ],
    }
]


LANGGRAPH = [
    {
        "values": {
            "messages": [
                {"type": "human", "content": "Go."},
                {"type": "ai", "content": "", "tool_calls": [{"name": "track_order", "args": {}, "id": "c"}]},
            ]
        },
        "next": [],
    }
]


CONTINUE = [
    {
        "sessionId": "s",
        "history": [
            {"message": {"role": "user", "content": "Go."}},
            {"message": {"role": "assistant", "toolCalls": [{"id": "c", "function": {"name": "track_order"}}]}},
            {"message": {"role": "tool", "content": "x", "toolCallId": "c"}},
        ],
    }
]


CURSOR = [
    {**INIT, "model": "m"},
    {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "Go."}]}, "session_id": "s1"},
    *(
        {
            "type": "tool_call",
            "subtype": subtype,
            "call_id": f"{name}1",
            "tool_call": {name: {"args": arguments, **result}},
            "session_id": "s1",
        }
        for name, arguments in (
            (
                "mcpToolCall",
                {"name": "shop-track_order", "args": {}, "providerIdentifier": "shop", "toolName": "track_order"},
            ),
            ("shellToolCall", {"command": "ls"}),
        )
        for subtype, result in (("started", {}), ("completed", {"result": {"success": {"content": "x"}}}))
    ),
    {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "session_id": "s1"},
]


ATIF = [
    {
        "schema_version": "ATIF-v1.4",
        "session_id": "a",
        "steps": [
            {"step_id": 1, "source": "user", "message": "Go."},
            {
                "step_id": 2,
                "source": "agent",
                "message": "",
                "tool_calls": [{"tool_call_id": "c", "function_name": "track_order", "arguments": {}}],
            },
        ],
    }
]


TABLE = [
    {"session": "t", "role": "user", "content": "Go.", "tool_calls": ""},
    {
        "session": "t",
        "role": "assistant",
        "content": "",
        "tool_calls": '[{"id": "c", "function": {"name": "track_order"}}]',
    },
]


@pytest.mark.parametrize(
    "lines",
    [
        CURSOR,
        ATIF,
        TABLE,
        UI_MESSAGES,
        HERMES,
        LANGGRAPH,
        CONTINUE,
        GOOSE,
        QWEN,
        PI,
        OPENCODE,
        HOOKS,
        EVENTS,
        CLAUDE_AI,
    ],
    ids=[
        "cursor",
        "atif",
        "table",
        "ui",
        "hermes",
        "langgraph",
        "continue",
        "goose",
        "qwen",
        "pi",
        "opencode",
        "hooks",
        "events",
        "claude.ai",
    ],
)
def test_what_looks_like_a_session_is_read_like_one(read, lines):
    imported = read(lines)
    assert labels(imported)["Go."] == [TRACK]
    assert len(imported.dataset.queries) == len({query.request.conversation for query in imported.dataset.queries})


def test_calls_in_messages_of_a_user_interface_and_in_texts_are_labels(read):
    def part(kind, state, **fields):
        return {"type": kind, "toolCallId": f"{kind}-{state}", "state": state, "input": {}, **fields}

    parts = [
        {"type": "step-start"},
        part("tool-refund_order", "output-error", errorText="gone"),
        part("dynamic-tool", "output-available", toolName="refund_order", output={"isError": True, "content": []}),
        part("tool-track_order", "output-available", output={"status": "sent"}),
    ]
    texts = ["Money back", '<tool_call>{"name": "refund_order", "arguments": {}}</tool_call>']
    lines = [
        {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Where is it?"}]},
        {"id": "m2", "role": "assistant", "parts": parts},
        *({"role": role, "content": text} for role, text in zip(("user", "assistant"), texts, strict=True)),
    ]
    assert labels(read(lines)) == {"Where is it?": [TRACK], "Money back": [REFUND]}


@pytest.mark.parametrize("as_text", [False, True])
def test_definitions_of_tools_beside_messages_were_offered(read, as_text):
    tools = [{"type": "function", "function": {"name": name}} for name in ("track_order", "refund_order", "ls")]
    lines = [{**HERMES[0], "tools": json.dumps(tools) if as_text else tools}]
    imported = read(lines, catalog=TOOLS_ALONE)
    assert [key.name for key in imported.exposures[0].offered] == ["track_order", "refund_order"]
    assert [query.partly_labelled for query in imported.dataset.queries] == [False]


def test_two_files_without_ids_of_sessions_are_two_conversations(read):
    lines = [
        {"test_id": "t1", "role": "user", "content": "Go."},
        {"test_id": "t1", "role": "assistant", "content": "Yes."},
    ]
    imported = read(lines, [{**line, "content": f"{line['content']}!"} for line in lines])
    assert len({query.request.conversation for query in imported.dataset.queries}) == 2
    assert [query.request.turn for query in imported.dataset.queries] == [0, 0]


def test_cline(read):
    lines = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<task>\nGo.\n</task>"},
                {"type": "text", "text": "<environment_details>x</environment_details>"},
            ],
        },
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "<read_file>\n<path>docs/refunds.md</path>\n</read_file>"}],
        },
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "[read_file for 'docs/refunds.md'] Result:"},
                {"type": "text", "text": "30 days"},
            ],
        },
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "[attempt_completion] Result:\n<feedback>\nMore.\n</feedback>"},
    ]
    imported = read(json.dumps(lines))
    assert labels(imported) == {"Go.": ["reference:docs%2Frefunds.md"], "More.": []}
    assert imported.dataset.queries[1].request.tool_results == (("read_file", "30 days"),)


@pytest.mark.parametrize(
    "lines",
    [
        [{**INIT, "tools": ["Bash"]}, assistant(use("Bash"), session_id="s1"), result()],
        [{"type": "thread.started", "thread_id": "t"}, {"type": "item.completed", "item": {"type": "agent_message"}}],
        [codex("session_meta", id="x"), *ran("shop__track_order")],
    ],
)
def test_a_session_without_a_message_of_the_user_is_refused(read, lines):
    with pytest.raises(ParameterError) as caught:
        read(lines)
    assert message_code(caught.value.args[0]) == "CTX6203"


MIXED_NAMES = [  # roles and texts under usual names, calls not
    {"role": "user", "content": "Where is it?"},
    {"role": "assistant", "content": "", "actions": [{"fn_id": "track_order", "in": {}}], "sources": [{"url": "x"}]},
    {"role": "assistant", "content": "There.", "sources": [{"url": "refund_order"}]},
]


LISTED = [
    {"role": "user", "content": "Where is it?"},
    {"role": "assistant", "content": "There.", "tools_used": ["track_order"]},
]


ASKED = {"who": "caller", "line": "Where is it?"}


MARKED = [
    ASKED,
    {"who": "agent", "line": "", "done": [{"t": "refund_order", "ok": False}, {"t": "track_order", "ok": True}]},
]


NESTED = [{"cid": 7, "dialogue": [*MARKED, {"who": "agent", "line": "There."}]}]


NAMED = [ASKED, {"who": "agent", "line": "There.", "tool": "track_order"}]


OF_EVENTS = [
    ASKED,
    {"who": "agent", "kind": "tool_call", "tool": "refund_order", "arguments": {}},
    {"who": "agent", "kind": "tool_result", "tool": "refund_order", "output": "Error: closed"},
    {"who": "agent", "kind": "tool_call", "tool": "track_order", "arguments": {}},
    {"who": "agent", "kind": "tool_result", "tool": "track_order", "output": "in transit"},
    {"who": "agent", "line": "There."},
]


@pytest.mark.parametrize(
    "lines",
    [MIXED_NAMES, [MIXED_NAMES[0], *MIXED_NAMES[:0:-1]], LISTED, MARKED, NESTED, NAMED, OF_EVENTS],
    ids=["mixed names", "reversed", "listed", "marked", "nested", "one name", "events"],
)
def test_calls_are_read_from_fields_of_any_name_and_from_lists_of_names(read, lines):
    assert labels(read(lines)) == {"Where is it?": [TRACK]}


def test_a_transcript_under_names_of_its_own_is_read_by_what_its_fields_hold(read):
    imported = read(OWN_NAMES)
    expected = {
        "Where is the parcel of desk 4?": [TRACK],
        "Pay 20 euro back to her.": [],
        "Then where is it now?": [TRACK],
    }
    assert labels(imported) == expected
    assert [q.request.conversation for q in imported.dataset.queries] == ["k1", "k2", "k2"]
    assert imported.report.counts["calls_unread"] == 1
    words = [line | {"who": {"bot": "assistant", "clerk": "nurse"}.get(line["who"], line["who"])} for line in OWN_NAMES]
    greeting = {**words[0], "who": "assistant", "said": "Good day."}
    assert labels(read([words[0], greeting, *words[1:]])) == expected


@pytest.mark.parametrize(
    "rows",
    [
        [{"said": f"Find parcel {n}.", "sort": sort, "tools": [{"name": "a"}] * n} for n, sort in enumerate("abab")],
        [{**line, "who": "clerk"} for line in OWN_NAMES],
        [{**line, "who": "bot"} for line in OWN_NAMES],
        [{**line, "does": None} for line in OWN_NAMES],
        [{**line, "expected": "track_order"} for line in OWN_NAMES],
    ],
)
def test_rows_without_an_assistant_that_calls_are_no_transcript(rows):
    assert not any(kind.matches(rows) for kind in KINDS)


def conversation(name, *tools):
    """A line with a whole conversation in the form of Anthropic: a message of the user for each tool."""
    messages = []
    for n, tool in enumerate(tools):
        done = {"type": "tool_result", "tool_use_id": f"k{n}", "content": "Done."}
        messages += [
            {"role": "user", "content": f"{name}: request {n}"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": f"k{n}", "name": tool, "input": {}}]},
            {"role": "user", "content": [done]},
            {"role": "assistant", "content": f"Answer {n}."},
        ]
    return {"id": name, "messages": messages}


def kind_named_by(lines):
    return recognise(lines).name


def test_lines_with_whole_conversations_are_transcripts(read):
    lines = [conversation("a", "track_order", "refund_order"), conversation("b", "track_order")]
    assert kind_named_by(lines) == "transcript"
    imported = read(lines)
    assert labels(imported) == {"a: request 0": [TRACK], "a: request 1": [REFUND], "b: request 0": [TRACK]}
    assert [query.request.id for query in imported.dataset.queries] == ["a-0", "a-1", "b-0"]


@pytest.mark.parametrize("fields", [{}, {"offered": "*"}])
def test_lines_with_successive_turns_or_other_fields_of_turns_are_turns(fields):
    whole = conversation("a", "track_order", "refund_order") | fields
    first = {**whole, "messages": whole["messages"][:4]}
    assert kind_named_by([first, whole] if not fields else [whole]) == "turns"
    assert kind_named_by([conversation("a", "track_order"), conversation("b", "track_order")]) == "turns"
