"""Sessions of Codex: requests, and calls that failed."""

from __future__ import annotations

import json

import pytest

from tests.labelling.traces.session_cases import TRACK, codex, labels, ran, said


def test_codex(read):
    imported = read(
        [
            codex("session_meta", id="x1", cwd="/w/app", dynamic_tools=[{"name": "track_order", "inputSchema": {}}]),
            codex("turn_context", cwd="/w/app"),
            said("# AGENTS.md instructions for /w/app\n\n<INSTRUCTIONS>x</INSTRUCTIONS>"),
            said("<environment_context>\n<cwd>/w/app</cwd>\n</environment_context>"),
            said("<permissions instructions>x</permissions instructions>", "developer"),
            said("# Context from my IDE setup:\n\n## My request for Codex:\nWhere is it? $pdf"),
            codex("event_msg", type="user_message", message="Where is it? $pdf"),
            said("<skill>\n<name>pdf</name>\n<path>x</path>\nMake PDFs\n</skill>"),
            codex("event_msg", type="token_count", info=None),
            codex("response_item", type="reasoning", summary=[]),
            *ran("shop__track_order"),
            *ran("exec_command", "c2", "Process exited with code 1\nno such file", cmd="cat docs/refunds.md"),
            *ran(
                "shell",
                "c3",
                json.dumps({"output": "30 days", "metadata": {"exit_code": 0}}),
                command=["cat", "CLAUDE.md"],
            ),
            said("It comes.", "assistant"),
            codex("event_msg", type="agent_message", message="It comes."),
            codex("compacted", message="summary"),
            said("Pay me."),
            codex("response_item", type="function_call", name="refund_order", namespace="mcp__shop__", call_id="c4"),
            codex("event_msg", type="turn_aborted", reason="interrupted"),
            said("<turn_aborted>\nx\n</turn_aborted>"),
        ]
    )
    assert labels(imported) == {"Where is it? $pdf": [TRACK, "rule:CLAUDE.md"], "Pay me.": []}
    assert [key.id for key in imported.dataset.queries[0].request.explicit] == ["skill:pdf"]
    assert [q.request.conversation for q in imported.dataset.queries] == ["x1", "x1-part-2"]


@pytest.mark.parametrize(
    "lines",
    [
        ran("shop__refund_order", output=json.dumps([{"type": "text", "text": '{"error": "no such order"}'}])),
        ran("shop__refund_order", output="user rejected MCP tool call"),
        [
            next(ran("shop__refund_order")),
            codex(
                "event_msg",
                type="mcp_tool_call_end",
                call_id="c1",
                invocation={"server": "shop", "tool": "refund_order"},
                result={"Ok": {"content": [{"type": "text", "text": "closed"}], "isError": True}},
            ),
            [*ran("shop__refund_order", output="closed")][1],
        ],
    ],
    ids=["content of MCP", "rejected", "marked in an event alone"],
)
def test_a_call_of_codex_that_failed_is_no_label(read, lines):
    assert labels(read([codex("session_meta", id="x1"), said("Pay me."), *lines])) == {"Pay me.": []}
