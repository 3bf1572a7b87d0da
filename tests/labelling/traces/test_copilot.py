"""Sessions of Copilot CLI and chats of VS Code: calls, denied ones, and interrupted turns."""

from __future__ import annotations

import json

import pytest

from tests.labelling.traces.session_cases import (
    BARE_REQUEST,
    CHAT_REQUEST,
    CLAUDE,
    REFUND,
    TRACK,
    assistant,
    labels,
    result,
    use,
    user,
)


def test_events_of_copilot(read):
    def event(kind, number, **data):
        return {"type": kind, "id": f"e{number}", "parentId": None, "timestamp": "2026-01-01T00:00:00Z", "data": data}

    request = {"toolCallId": "t1", "name": "shop-track", "mcpServerName": "shop", "mcpToolName": "track_order"}
    imported = read(
        [
            event("session.start", 1, sessionId="p1", version=1, context={"cwd": "/w/app"}),
            event("user.message", 2, content="Go.", transformedContent="<current_datetime>x</current_datetime> Go."),
            event("assistant.turn_start", 3, turnId="0"),
            event("assistant.message", 4, messageId="m", content="", toolRequests=[{**request, "arguments": {}}]),
            event(
                "tool.execution_start",
                5,
                toolCallId="t1",
                toolName="shop-track",
                mcpServerName="shop",
                mcpToolName="track_order",
            ),
            event("tool.execution_complete", 6, toolCallId="t1", success=True, result={"content": "in transit"}),
            event("skill.invoked", 7, name="pdf", path="/x/SKILL.md", content="", trigger="agent-invoked"),
            event("user.message", 8, content="The skill", source="skill-pdf"),
            event(
                "tool.execution_start",
                9,
                toolCallId="t2",
                toolName="view",
                arguments={"path": "/w/app/docs/refunds.md"},
            ),
            event("tool.execution_complete", 10, toolCallId="t2", success=False, error={"message": "denied"}),
            event("assistant.message", 11, messageId="n", content="It comes.", toolRequests=[]),
            event("user.message", 12, content="Thanks."),
            event(
                "assistant.message",
                13,
                content="",
                toolRequests=[
                    {"toolCallId": "t3", "name": "shop-track_order", "mcpServerName": "shop"},
                    {"toolCallId": "t4", "name": "shop-refund", "toolTitle": "refund_order"},
                ],
            ),
            event("tool.execution_start", 14, toolCallId="t4", mcpServerName="shop", mcpToolName="refund_order"),
            event("tool.execution_complete", 15, toolCallId="t3", success=True, result={"content": "in transit"}),
            event("tool.execution_complete", 16, toolCallId="t4", success=True, result={"content": "paid"}),
        ]
    )
    assert labels(imported) == {"Go.": [TRACK, "skill:pdf"], "Thanks.": [TRACK, REFUND]}
    assert imported.report.outside == {}
    assert imported.dataset.queries[1].request.tool_results == (("shop__track_order", "in transit"), ("view", "denied"))
    assert imported.dataset.queries[1].request.conversation == "p1"


def test_chats_of_vs_code(read):
    chat = {
        "version": 3,
        "sessionId": "v1",
        "responderUsername": "GitHub Copilot",
        "requests": [CHAT_REQUEST, BARE_REQUEST],
    }
    expected = {"Where is it?": [TRACK, "reference:docs%2Frefunds.md"], "Again?": [TRACK]}
    assert labels(read(json.dumps(chat, indent=2))) == expected
    changes = [
        {"kind": 0, "v": {**chat, "requests": []}},
        {"kind": 2, "k": ["requests"], "v": [CHAT_REQUEST, {**CHAT_REQUEST, "message": {"text": "old"}}]},
        {"kind": 2, "k": ["requests"], "v": [BARE_REQUEST], "i": 1},
        {"kind": 1, "k": ["requests", 1, "message"], "v": {"text": "Again?"}},
        {"kind": 3, "k": ["responderUsername"]},
    ]
    assert labels(read(changes)) == expected
    assert read([*changes, {"kind": 1, "k": ["requests", 7, "x"], "v": 1}]).report.counts["lines_unreadable"] == 1


@pytest.mark.parametrize(
    "mark",
    [
        {"isConfirmed": {"type": 0}},
        {"isConfirmed": {"type": 5}},
        {"isConfirmed": False},
        {"isComplete": False},
        {"resultDetails": {"input": "{}", "output": [], "isError": True}},
    ],
)
def test_a_call_of_vs_code_that_was_denied_or_failed_is_no_label(read, mark):
    parts = [
        {"kind": "toolInvocationSerialized", "toolId": f"mcp_shop_{name}", "toolCallId": f"of the window {n}", **marks}
        for n, (name, marks) in enumerate([("track_order", mark), ("refund_order", mark), ("track_order", {})])
    ]
    calls = [{"id": f"c{n}", "name": part["toolId"], "arguments": "{}"} for n, part in enumerate(parts)]
    metadata = {
        "toolCallRounds": [{"response": "", "toolCalls": [call]} for call in calls],
        "toolCallResults": {call["id"]: {"content": [{"value": "no answer"}]} for call in calls},
    }
    request = {"message": {"text": "Go."}, "response": parts, "result": {"metadata": metadata}}
    for answer in (request, {**request, "result": {}}):
        assert labels(read(json.dumps({"sessionId": "v1", "requests": [answer]}))) == {"Go.": [TRACK]}


@pytest.mark.parametrize(
    "end",
    [
        [user([{"type": "text", "text": "[Request interrupted by user for tool use]"}])],
        [{**CLAUDE, "type": "abort", "data": {"reason": "user_initiated"}}],
        [],
    ],
)
def test_a_call_without_a_result_of_an_interrupted_turn_is_no_label(read, end):
    calls = assistant(use("mcp__shop__track_order"), use("mcp__shop__refund_order", "c2"))
    imported = read([user("Go."), calls, result("in transit"), *end, user("More."), assistant("Yes.")])
    assert labels(imported) == {"Go.": [TRACK] if end else [TRACK, REFUND], "More.": []}
    request = {**CHAT_REQUEST, "isCanceled": bool(end)}
    expected = [TRACK] if end else [TRACK, "reference:docs%2Frefunds.md"]
    assert labels(read(json.dumps({"sessionId": "v1", "requests": [request]}))) == {"Where is it?": expected}
