"""Sessions of coding agents and transcripts: requests, labels, what is inserted, subagents, compaction and damage."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from ctxbench.io.errors import CtxbenchError, ParameterError, message_code
from ctxbench.labelling.agent_sessions import KINDS
from ctxbench.labelling.trace_import import LogFiles, TraceSettings, TraceSource, import_traces, redactor_for
from ctxbench.model.items import Catalog, Item

CATALOG = Catalog(
    [
        *(Item(type="tool", server="shop", name=name) for name in ("track_order", "refund_order")),
        Item(type="skill", name="pdf", text="Make PDFs", metadata={"path": ".claude/skills/pdf/SKILL.md"}),
        Item(type="skill", name="kit:review", text="Review", metadata={"path": "SKILL.md"}),
        Item(type="rule", name="CLAUDE.md", text="Be brief"),
        Item(type="rule", name="web/CLAUDE.md", text="No jQuery"),
        Item(type="rule", name=".cursor/rules/api.mdc", text="REST"),
        Item(type="reference", name="docs/refunds.md", text="30 days"),
    ]
)
TRACK, REFUND = "tool:shop:track_order", "tool:shop:refund_order"
CLAUDE = {"sessionId": "s1", "cwd": "/w/app", "isSidechain": False}


def user(text, **fields):
    return {**CLAUDE, "type": "user", "message": {"role": "user", "content": text}, **fields}


def assistant(*parts, **fields):
    content = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {**CLAUDE, "type": "assistant", "message": {"role": "assistant", "content": content}, **fields}


def use(name, call="c1", **arguments):
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def result(text="done", call="c1", **fields):
    return user([{"type": "tool_result", "tool_use_id": call, "content": text, **fields}])


def codex(kind, **payload):
    return {"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload}


def said(text, role="user"):
    return codex("response_item", type="message", role=role, content=[{"type": "input_text", "text": text}])


def ran(name, call="c1", output="done", **arguments):
    yield codex("response_item", type="function_call", name=name, call_id=call, arguments=json.dumps(arguments))
    yield codex("response_item", type="function_call_output", call_id=call, output=output)


@pytest.fixture
def read(tmp_path):
    """Import sessions, each a list of lines or the text of a file."""

    def run(*files, catalog=CATALOG, **settings):
        paths = [tmp_path / f"log-{number}.jsonl" for number in range(len(files))]
        for path, lines in zip(paths, files, strict=True):
            path.write_text(lines if isinstance(lines, str) else "\n".join(map(json.dumps, lines)), "utf-8")
        source = TraceSource(logs=tuple(paths), catalog=catalog)
        return import_traces(source, TraceSettings(name="mine", **settings), redact=redactor_for(catalog))

    return run


def labels(imported):
    """The required items by the text of the request, in the order of the requests."""
    ids = {query.request.id: query.request.text for query in imported.dataset.queries}
    assert len(set(ids.values())) == len(ids)
    required = {text: [] for text in ids.values()}
    for label in imported.dataset.labels:
        required[ids[label.query]].append(label.item.id)
    return required


def requests(imported):
    return [query.request.text for query in imported.dataset.queries]


def test_what_was_called_up_to_the_next_message_is_what_a_request_needed(read):
    imported = read(
        [
            user("Where is my parcel?"),
            assistant("I look.", use("mcp__shop__track_order"), use("Bash", "c2", command="ls")),
            result("in transit"),
            result("a.py", "c2"),
            assistant("In transit."),
            user([{"type": "text", "text": "And my money?"}]),
            assistant(use("mcp__shop__refund_order", "c3")),
            result("no such order", "c3", is_error=True),
        ]
    )
    assert labels(imported) == {"Where is my parcel?": [TRACK], "And my money?": []}
    _, second = imported.dataset.queries
    assert [(m.role, m.content) for m in second.request.history] == [
        ("user", "Where is my parcel?"),
        ("assistant", "In transit."),
    ]
    assert second.request.tool_results == (("mcp__shop__track_order", "in transit"), ("Bash", "a.py"))
    assert (second.request.conversation, second.request.turn) == ("s1", 1)
    assert (imported.report.outside, imported.report.unknown) == ({"Bash": 1}, {})
    assert imported.report.counts["signal_shell-instead"] == 0


@pytest.mark.parametrize(
    ("call", "item"),
    [
        (use("Skill", skill="pdf"), "skill:pdf"),
        (use("Skill", skill="office:pdf"), "skill:pdf"),
        (use("Skill", skill="kit:review"), "skill:kit%3Areview"),
        (use("SlashCommand", command="/pdf all pages"), "skill:pdf"),
        (use("Read", file_path="/home/u/.claude/skills/pdf/SKILL.md"), "skill:pdf"),
        (use("Read", file_path="/w/app/CLAUDE.md"), "rule:CLAUDE.md"),
        (use("Read", file_path="/w/app/web/CLAUDE.md"), "rule:web%2FCLAUDE.md"),
        (use("Read", file_path="/w/app/.cursor/rules/api.mdc"), "rule:.cursor%2Frules%2Fapi.mdc"),
        (use("Read", file_path="docs/refunds.md"), "reference:docs%2Frefunds.md"),
        (use("read_file", path=r"C:\w\app\docs\refunds.md"), "reference:docs%2Frefunds.md"),
        (use("view", path="/w/app/docs/refunds.md"), "reference:docs%2Frefunds.md"),
        (use("Bash", command="cd docs && cat refunds.md | head -5"), "reference:docs%2Frefunds.md"),
        (use("shell", command=["bash", "-lc", "sed -n '1,80p' /w/app/CLAUDE.md"]), "rule:CLAUDE.md"),
        (use("exec_command", cmd="cat CLAUDE.md", workdir="/w/app/web"), "rule:web%2FCLAUDE.md"),
    ],
)
def test_skills_that_are_loaded_and_files_that_are_read_are_labels(read, call, item):
    assert labels(read([user("Go."), assistant(call), result()])) == {"Go.": [item]}


@pytest.mark.parametrize(
    "call",
    [
        use("Read", file_path="/w/app/api/CLAUDE.md"),  # another file of that name
        use("Read", file_path="/w/app/refunds.md"),
        use("Edit", file_path="/w/app/docs/refunds.md"),
        use("Write", file_path="/w/app/CLAUDE.md", content="x"),
        use("Bash", command="cat > CLAUDE.md"),
        use("Bash", command="sed -i s/a/b/ CLAUDE.md"),
        use("Bash", command="rm docs/refunds.md && git add CLAUDE.md"),
        use("Bash", command='echo "unclosed'),
        use("Bash", command=None),
        use("Read", file_path=["a", 3, None]),
        use("Grep", pattern="x", path="/w/app/CLAUDE.md"),
    ],
)
def test_what_is_written_or_only_alike_is_no_label(read, call):
    imported = read([user("Go."), assistant(call), result()])
    assert labels(imported) == {"Go.": []}
    assert imported.report.outside == {call["name"]: 1}


def test_a_skill_that_the_catalog_does_not_have_is_listed(read):
    imported = read([user("Go."), assistant(use("Skill", skill="docx"), use("mcp__shop__track_order", "c2"))])
    assert labels(imported) == {"Go.": [TRACK]}
    assert imported.report.unknown == {"skill:docx": 1}


@pytest.mark.parametrize(
    "line",
    [
        user("Base text of a skill", isMeta=True),
        user("<system-reminder>Be brief.</system-reminder>"),
        user([{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
        user("<local-command-stdout>ok</local-command-stdout>"),
        user("<task-notification>done</task-notification>"),
        user("API Error: 529 overloaded"),
        user("done", origin={"kind": "task-notification"}),
        user("Go."),  # repeated at once
        {"type": "summary", "summary": "Parcels", "leafUuid": "x"},
        {**CLAUDE, "type": "attachment", "attachment": {"type": "todo_reminder"}},
        {**CLAUDE, "type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        {**CLAUDE, "type": "assistant", "message": {"role": "assistant", "model": "<synthetic>", "content": "No."}},
        {**CLAUDE, "type": "progress", "data": {"type": "agent_progress", "prompt": "Find it."}},
    ],
)
def test_what_the_program_inserts_is_no_request(read, line):
    imported = read([user("Go."), line, assistant(use("mcp__shop__track_order")), result()])
    assert labels(imported) == {"Go.": [TRACK]}


def test_a_file_of_a_skill_is_of_the_skill_that_its_folder_names(read):
    imported = read([user("Go."), assistant(use("Read", file_path="/w/app/SKILL.md"))])
    assert labels(imported) == {"Go.": []}
    assert imported.report.unknown == {"skill:app": 1}


def test_a_session_that_used_nothing_of_the_catalog_is_so_many_requests_to_label(read):
    imported = read([user("Go."), assistant(use("Bash"), use("mcp__mail__send", "c2"))])
    assert [query.partly_labelled for query in imported.dataset.queries] == [False]
    assert imported.dataset.labels == ()
    assert imported.report.counts["queries_unlabelled"] == 1
    assert (imported.report.unknown, imported.report.outside) == ({"mcp__mail__send": 1}, {"Bash": 1})


def test_a_reminder_is_cut_from_a_request(read):
    text = "<system-reminder>Be brief.</system-reminder>\nGo.\n<system-reminder>x</system-reminder>"
    assert requests(read([user(text), assistant("Yes.")])) == ["Go."]


def test_a_slash_command_is_a_request_with_an_explicit_item(read):
    imported = read(
        [
            user(
                "<command-message>pdf</command-message>\n<command-name>/pdf</command-name>\n<command-args>a.md</command-args>"
            ),
            user("Base text of the skill", isMeta=True),
            assistant(use("mcp__shop__track_order")),
        ]
    )
    assert labels(imported) == {"/pdf a.md": [TRACK]}
    assert [key.id for key in imported.dataset.queries[0].request.explicit] == ["skill:pdf"]


def test_a_command_that_the_model_does_not_answer_is_no_request(read):
    lines = [
        user("<command-name>/clear</command-name>"),
        user("<local-command-stdout></local-command-stdout>"),
        {**CLAUDE, "type": "assistant", "message": {"role": "assistant", "model": "<synthetic>", "content": "No."}},
    ]
    assert requests(read([*lines, user("Go."), assistant("Yes."), *lines])) == ["Go."]


def test_subagents_and_compaction_are_conversations_of_their_own(read):
    side = {"isSidechain": True}
    imported = read(
        [
            user("Go."),
            assistant(use("Task", prompt="Find the order.")),
            user("Find the order.", **side, uuid="a"),
            assistant(use("mcp__shop__track_order", "c2"), **side, uuid="b", parentUuid="a"),
            user("Find more.", agentId="x", isSidechain=True),
            result("found"),
            {**CLAUDE, "type": "system", "subtype": "compact_boundary"},
            user("This session is being continued from a previous conversation.", isCompactSummary=True),
            assistant(use("mcp__shop__refund_order", "c3")),
            user("And now?"),
            assistant(use("mcp__shop__refund_order", "c4")),
        ]
    )
    assert labels(imported) == {"Go.": [], "Find the order.": [TRACK], "Find more.": [], "And now?": [REFUND]}
    names = {q.request.text: (q.request.conversation, q.request.turn) for q in imported.dataset.queries}
    assert names["And now?"] == ("s1-part-2", 0)
    assert len({conversation for conversation, _ in names.values()}) == 4
    assert imported.report.counts["calls_without_request"] == 1


def test_a_resumed_session_is_read_once(read):
    first = [user("Go.", uuid="1"), assistant(use("mcp__shop__track_order"), uuid="2")]
    imported = read(first, [*first, user("More.", uuid="3"), assistant(use("mcp__shop__refund_order", "c2"), uuid="4")])
    assert labels(imported) == {"Go.": [TRACK], "More.": [REFUND]}
    assert imported.report.counts["lines_twice"] == 2


TOOLS_ALONE = Catalog(item for item in CATALOG if item.type == "tool")
INIT = {"type": "system", "subtype": "init", "session_id": "s1"}


@pytest.mark.parametrize(
    ("tools", "complete"),
    [
        (["Bash", "mcp__shop__track_order", "mcp__shop__refund_order"], True),
        (["Bash", "mcp__shop__track_order"], False),
        (None, False),
    ],
)
def test_tools_that_are_listed_were_offered(read, tools, complete):
    lines = [
        {**INIT, "tools": tools, "skills": ["pdf"]},
        {"type": "user", "session_id": "s1", "message": {"role": "user", "content": "Go."}},
        {"type": "assistant", "session_id": "s1", "message": {"role": "assistant", "content": [use("Bash", "c0")]}},
        {
            "type": "assistant",
            "session_id": "s1",
            "message": {"role": "assistant", "content": [use("mcp__shop__track_order")]},
        },
    ]
    imported = read(lines, catalog=TOOLS_ALONE)
    assert [query.partly_labelled for query in imported.dataset.queries] == [not complete]
    assert len(imported.exposures[0].offered) == len(tools or ["Bash"]) - 1


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


CHAT_REQUEST = {
    "requestId": "r1",
    "message": {"text": "Where is it?", "parts": []},
    "timestamp": 1767225600000,
    "response": [
        {"kind": "toolInvocationSerialized", "toolId": "mcp_shop_track_order", "toolCallId": "t1"},
        {"value": "It comes."},
    ],
    "result": {
        "metadata": {
            "toolCallRounds": [
                {"response": "", "toolCalls": [{"id": "t1", "name": "mcp_shop_track_order", "arguments": "{}"}]},
                {
                    "response": "",
                    "toolCalls": [{"id": "t2", "name": "read_file", "arguments": '{"filePath": "/w/docs/refunds.md"}'}],
                },
            ],
            "toolCallResults": {"t1": {"content": [{"value": "in transit"}]}},
        }
    },
}
BARE_REQUEST = {key: value for key, value in CHAT_REQUEST.items() if key != "result"} | {
    "requestId": "r2",
    "message": "Again?",
}


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


def test_gemini_cli(read):
    call = {
        "id": "g1",
        "name": "track_order",
        "args": {},
        "status": "success",
        "result": [{"functionResponse": {"id": "g1", "name": "track_order", "response": {"output": "in transit"}}}],
    }
    wrong = {
        "id": "g2",
        "name": "refund_order",
        "args": {},
        "status": "error",
        "result": [{"functionResponse": {"id": "g2", "response": {"error": "no"}}}],
    }
    session = {
        "sessionId": "g",
        "projectHash": "h",
        "messages": [
            {"id": "1", "type": "user", "content": [{"text": "Go."}]},
            {"id": "2", "type": "gemini", "content": "Done.", "toolCalls": [call, wrong]},
            {"id": "3", "type": "info", "content": "Request cancelled."},
        ],
    }
    imported = read(json.dumps(session, indent=1))
    assert labels(imported) == {"Go.": [TRACK]}
    assert imported.dataset.queries[0].request.conversation == "g"


TAGS = "<server_name>shop</server_name>\n<tool_name>track_order</tool_name>"


def test_gemini_cli_writes_messages_anew_and_names_servers_with_one_underscore(read):
    def said(number, kind, **fields):
        return {"id": f"{number:032}", "timestamp": f"2026-01-01T00:00:{number:02}Z", "type": kind, **fields}

    def call(number, name):
        return said(number, "gemini", toolCalls=[{"id": f"c{number}", "name": name, "status": "success", "result": []}])

    first = [
        said(1, "user", content=[{"text": "<session_context>x</session_context>"}]),
        said(2, "user", content=[{"text": "Go."}]),
        said(3, "gemini", content=""),
        call(3, "mcp_shop_track_order"),
    ]
    second = [said(4, "user", content=[{"text": "More."}]), call(5, "mcp_shop_refund_order")]
    imported = read(
        [
            {"sessionId": "g", "projectHash": "h", "startTime": "x"},
            *first,
            {"$set": {"lastUpdated": "x"}},
            *second,
            {"$set": {"messages": [*first, *second]}},
            said(6, "user", content=[{"text": "Bye."}]),
        ],
        catalog=Catalog([Item(type="tool", name=name) for name in ("track_order", "refund_order")]),
    )
    assert labels(imported) == {"Go.": ["tool:track_order"], "More.": ["tool:refund_order"], "Bye.": []}
    assert {query.request.conversation for query in imported.dataset.queries} == {"g"}


def test_the_name_of_a_server_is_passed_over_only_in_a_catalog_without_servers(read):
    lines = [user("Go."), assistant(use("mcp__other__track_order"), use("mcp_other_refund_order", "c2"))]
    assert labels(read(lines)) == {"Go.": []}


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


OWN_NAMES = [
    {"call": "k1", "n": 1, "who": "system", "said": "Help the desk.", "does": None},
    {"call": "k1", "n": 2, "who": "clerk", "said": "Where is the parcel of desk 4?", "does": None},
    {"call": "k1", "n": 3, "who": "bot", "said": None, "does": [{"op": "track_order", "state": "done", "got": "x"}]},
    {"call": "k1", "n": 4, "who": "bot", "said": "It is in transit.", "does": []},
    {"call": "k2", "n": 1, "who": "clerk", "said": "Pay 20 euro back to her.", "does": None},
    {"call": "k2", "n": 2, "who": "bot", "said": None, "does": [{"op": "refund_order", "state": "failed"}]},
    {"call": "k2", "n": 3, "who": "clerk", "said": "Then where is it now?", "does": None},
    {
        "call": "k2",
        "n": 4,
        "who": "bot",
        "said": "There.",
        "does": [{"op": "track_order", "state": "done"}, {"op": "refund_order", "state": "failed"}, {"op": "z"}],
    },
]
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


def test_long_results_are_cut_and_counted(read):
    calls = [use("Bash", f"c{n}") for n in range(7)]
    imported = read(
        [user("Go."), assistant(*calls), *(result("x" * (996 + n), f"c{n}") for n in range(7)), user("More.")]
    )
    results = imported.dataset.queries[1].request.tool_results
    assert [len(text) for _, text in results] == [998, 999, 1000, 1000, 1000]
    assert imported.report.counts["results_cut"] == 2


def test_results_are_redacted(read):
    key = "sk-ant-api03-" + "a1B2" * 20
    imported = read([user("Go."), assistant(use("Bash", command="env")), result(f"KEY={key}"), user("More.")])
    ((_, text),) = imported.dataset.queries[1].request.tool_results
    assert key not in text


@pytest.mark.parametrize(
    "rows",
    [
        [{"query": "Go.", "expected": ["track_order"], "role": "user"}],
        [{"messages": [{"role": "user", "content": "Go."}], "offered": []}],
        [{"_id": "1", "text": "A document", "title": "T"}],
        [{"id": "o", "traceId": "t", "type": "AGENT", "input": "x"}],
        [{"input": "Go.", "history": [{"role": "user", "content": "x"}], "expected_tools": ["a"]}],
        [{"name": "track_order", "description": "x", "inputSchema": {}}],
        [{"id": "r", "run_type": "llm", "inputs": {}, "session_id": "s"}],
        ["plain text", "user"],
        [{"_id": "1", "text": "A document", "source": "user"}, {"_id": "2", "text": "Another", "source": "user"}],
        [{"name": "Ann", "role": "user"}, {"name": "Ben", "role": "admin"}],
        [{"requests": [3], "x": 1}, {"conversations": [1]}],
    ],
)
def test_other_files_are_no_sessions(rows):
    assert [kind.name for kind in KINDS if kind.matches(rows)] == []


SESSIONS = {
    "claude-code": [user("Go.", uuid="1"), assistant(use("Skill", skill="pdf")), result()],
    "codex": [codex("session_meta", id="x"), said("Go."), *ran("shop__track_order")],
    "copilot": [{"version": 3, "sessionId": "v", "requests": [CHAT_REQUEST, BARE_REQUEST]}],
    "gemini-cli": [
        {
            "sessionId": "g",
            "projectHash": "h",
            "messages": [
                {"type": "user", "content": "Go."},
                {"type": "gemini", "toolCalls": [{"name": "a", "result": [1]}]},
            ],
        }
    ],
    "transcript": [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "a"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
    ],
}
DAMAGED = {**SESSIONS, "own names": OWN_NAMES}


@pytest.mark.parametrize("name", SESSIONS)
def test_kinds_are_recognised_by_content(name):
    assert next(kind.name for kind in KINDS if kind.matches(SESSIONS[name])) == name


def mutated(value, draw):
    """A value with some parts of it replaced by others."""
    if draw.random() < 0.06:
        return draw.choice([None, 0, -1, "", "x", [], {}, [None], {"a": 1}, True, 1e300, [[]], "\ud800"])
    if isinstance(value, dict):
        return {
            key if draw.random() > 0.03 else draw.choice(["type", "content", ""]): mutated(part, draw)
            for key, part in value.items()
        }
    return [mutated(part, draw) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_sessions_end_without_a_traceback(read, name):
    draw = random.Random(name)
    for _ in range(60):
        lines = [mutated(line, draw) for line in DAMAGED[name]]
        try:
            read([user("Go."), *lines] if draw.random() < 0.5 else lines)
        except CtxbenchError:
            continue


STOPPED = """
import os, signal, sys
from pathlib import Path
from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_traces
from ctxbench.model.items import Catalog, Item

def stop(step, done, total):
    if done * 2 > total:
        os.kill(os.getpid(), signal.SIGINT)

catalog = Catalog([Item(type="tool", server="shop", name="track_order")])
source = TraceSource(logs=tuple(map(Path, sys.argv[1:])), catalog=catalog)
import_traces(source, TraceSettings(name="mine"), redact=None, progress=stop)
"""


@pytest.mark.parametrize("form", ["lines", "list", "sessions"])
def test_ctrl_c_keeps_what_was_read_and_the_same_import_goes_on(tmp_path, monkeypatch, form):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    answer = {"role": "assistant", "content": [use("track_order", "c")]}
    messages = [[{"role": "user", "content": f"{'Go.' * 500} {n}"}, answer] for n in range(2000)]
    if form == "sessions":
        rows = [{"session_id": f"s{n // 30}", **line} for n, pair in enumerate(messages) for line in pair]
    else:
        rows = [
            {"messages": [*messages[n - n % 3], *messages[n]][-4:], "offered": ["track_order"]} for n in range(2000)
        ]
    paths = (tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    for path, part in zip(paths, (rows[:500], rows[500:]), strict=True):
        path.write_text(json.dumps(part) if form == "list" else "\n".join(map(json.dumps, part)), "utf-8")
    catalog = Catalog([Item(type="tool", server="shop", name="track_order")])
    source, settings = TraceSource(logs=paths, catalog=catalog), TraceSettings(name="mine")
    whole = import_traces(source, settings, redact=None)
    process = subprocess.run(
        [sys.executable, "-c", STOPPED, *map(str, paths)], capture_output=True, text=True, check=False, timeout=120
    )
    assert process.returncode in (-signal.SIGINT, 130)
    assert process.stderr.endswith("continues\n")
    assert len(list((tmp_path / "cache" / "imports").iterdir())) == 1
    read = []
    monkeypatch.setattr(LogFiles, "_read_document", counted(read, LogFiles._read_document))
    resumed = import_traces(source, settings, redact=None)
    assert 0 < len(read) < len(rows) * 0.6
    assert resumed.dataset.hash == whole.dataset.hash
    assert resumed.report == whole.report
    assert list((tmp_path / "cache" / "imports").iterdir()) == []


@pytest.mark.parametrize("is_session", [True, False])
def test_ctrl_c_at_the_last_document_and_a_reading_of_the_file_lose_nothing(tmp_path, monkeypatch, is_session):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    turn = {"text": "Go.", "offered": ["track_order"], "called": ["track_order"]}
    lines = [user("Go."), assistant(use("track_order", "c"))] if is_session else [turn]
    (path := tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    source = TraceSource(logs=(path,), catalog=Catalog([Item(type="tool", name="track_order")]))
    whole = import_traces(source, TraceSettings(name="mine"), redact=None)
    read = []
    monkeypatch.setattr(LogFiles, "_read_document", counted(read, LogFiles._read_document, stop_at=len(lines)))
    with pytest.raises(KeyboardInterrupt):
        import_traces(source, TraceSettings(name="mine"), redact=None)
    os.utime(path, ns=(path.stat().st_atime_ns + 10**12, path.stat().st_mtime_ns))  # as another program reads it
    resumed = import_traces(source, TraceSettings(name="mine"), redact=None)
    assert len(read) == len(lines)
    assert (resumed.dataset.hash, resumed.report) == (whole.dataset.hash, whole.report)


def test_the_second_ctrl_c_stops_a_document(tmp_path, monkeypatch):
    def pressed_twice(*_, **__):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("not stopped")

    (tmp_path / "log.jsonl").write_text('{"text": "Go."}')
    source = TraceSource(logs=(tmp_path / "log.jsonl",), catalog=Catalog([Item(type="tool", name="t")]))
    monkeypatch.setattr(LogFiles, "_read_document", pressed_twice)
    with pytest.raises(KeyboardInterrupt):
        import_traces(source, TraceSettings(name="mine"), redact=None)


def counted(calls, function, stop_at=None):
    def run(self, document, **settings):
        calls.append(document)
        if len(calls) == stop_at:
            signal.raise_signal(signal.SIGINT)
        return function(self, document, **settings)

    return run


def test_states_of_interrupted_imports_are_removed_after_a_day(read, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    states = [tmp_path / "cache" / "imports" / f"{name}.pickle" for name in ("old", "new")]
    states[0].parent.mkdir(parents=True)
    for state, days in zip(states, (1.1, 0.9), strict=True):
        state.write_bytes(b"texts of another log")
        os.utime(state, (time.time() - days * 24 * 60 * 60,) * 2)
    read([user("Go."), assistant("Yes.")])
    assert list(states[0].parent.iterdir()) == [states[1]]


def test_a_damaged_state_of_an_import_is_read_anew(read, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("pathlib.Path.read_bytes", lambda _: b"\x80damaged")
    assert requests(read([user("Go."), assistant("Yes.")])) == ["Go."]


QUEUED = {
    **CLAUDE,
    "type": "attachment",
    "attachment": {"type": "queued_command", "prompt": "Wait, find mine.", "commandMode": "prompt"},
}


@pytest.mark.parametrize("follow_up", [user("Wait, find mine."), QUEUED])
def test_a_result_that_comes_after_the_next_message_is_of_its_call(read, follow_up):
    imported = read(
        [
            user("Cancel it."),
            assistant(use("mcp__shop__refund_order")),
            follow_up,
            result("The user doesn't want to proceed with this tool use.", is_error=True),
            assistant(use("mcp__shop__track_order", "c2")),
            result("in transit", "c2"),
        ]
    )
    assert labels(imported) == {"Cancel it.": [], "Wait, find mine.": [TRACK]}
    assert imported.report.counts["calls_error"] == 1


@pytest.mark.parametrize(
    ("calls", "items"),
    [
        ([("track_order", "in transit"), ("refund_order", "paid")], [TRACK, REFUND]),
        ([("track_order", "Error: not allowed"), ("refund_order", "paid")], [REFUND]),
        ([("Bash", "a b"), ("refund_order", "Error: not allowed")], []),
        ([("track_order", "Error: not allowed"), ("track_order", "in transit")], [TRACK]),
        ([("track_order", "Error: not allowed"), ("track_order", None)], []),  # an event that repeats the call
        ([("track_order", None), ("refund_order", "Error: not allowed")], [TRACK]),
    ],
)
def test_a_call_may_have_the_id_of_an_earlier_one(read, calls, items):
    lines = [{"role": "user", "content": "Go."}]
    for name, output in calls:
        call = {"id": "call_0", "function": {"name": name, "arguments": "{}"}}
        lines.append({"role": "assistant", "content": "", "tool_calls": [call]})
        lines += [{"role": "tool", "tool_call_id": "call_0", "content": output}] if output else []
    assert labels(read(lines)) == {"Go.": items}


def test_ids_that_begin_anew_in_each_turn_are_of_their_turn(read):
    def turn(text, name, output=None):
        call = {"id": "1", "function": {"name": name, "arguments": "{}"}}
        yield from ({"role": "user", "content": text}, {"role": "assistant", "content": "", "tool_calls": [call]})
        yield from [{"role": "tool", "tool_call_id": "1", "content": output}] if output else []

    lines = [
        *turn("Go.", "track_order"),
        *turn("More.", "track_order", "Error: not allowed"),
        *turn("Last.", "track_order"),
    ]
    assert labels(read(lines)) == {"Go.": [TRACK], "More.": [], "Last.": [TRACK]}


def test_a_text_beside_results_is_a_request(read):
    content = [{"type": "tool_result", "tool_use_id": "c1", "content": "in transit"}]
    reminder, text = ({"type": "text", "text": text} for text in ("<system-reminder>x</system-reminder>", "Refund it."))
    imported = read(
        [
            user("Where is it?"),
            assistant(use("mcp__shop__track_order")),
            user([*content, reminder, text]),
            assistant(use("mcp__shop__refund_order", "c2")),
            user([{**content[0], "tool_use_id": "c2"}, reminder]),
        ]
    )
    assert labels(imported) == {"Where is it?": [TRACK], "Refund it.": [REFUND]}
    assert imported.dataset.queries[1].request.tool_results == (("mcp__shop__track_order", "in transit"),)


@pytest.mark.parametrize("fields", [{"parentId": None}, {"type": "message"}])
def test_ids_that_begin_anew_in_each_file_are_of_their_file(read, fields):
    def lines(name):
        call = {"id": "c1", "function": {"name": name, "arguments": "{}"}}
        yield {"id": "m1", "role": "user", "content": "Go.", **fields}
        yield {"id": "m2", "role": "assistant", "content": "", "tool_calls": [call], **fields}

    imported = read(list(lines("track_order")), list(lines("refund_order")))
    assert [label.item.id for label in imported.dataset.labels] == [TRACK, REFUND]
    assert imported.report.counts["lines_twice"] == 0


@pytest.mark.parametrize(
    ("call", "items"),
    [
        (use("Skill", skill="p2:refunds"), ["skill:p2%2Frefunds%2FSKILL.md"]),
        (use("Skill", skill="p1:refunds"), ["skill:refunds"]),
        (use("Skill", skill="refunds"), []),
        (use("Skill", skill="p3:refunds"), []),
        (use("Read", file_path="/w/app/p2/refunds/SKILL.md"), ["skill:p2%2Frefunds%2FSKILL.md"]),
    ],
)
def test_a_skill_whose_name_several_have_is_of_the_folder_that_its_plugin_names(read, call, items):
    paths = {"refunds": "p1/refunds/SKILL.md", "p2/refunds/SKILL.md": "p2/refunds/SKILL.md"}
    skills = [Item(type="skill", name=name, text=path, metadata={"path": path}) for name, path in paths.items()]
    imported = read([user("Go."), assistant(call), result()], catalog=Catalog(skills))
    assert labels(imported) == {"Go.": items}
    assert sum(imported.report.unknown.values()) == (not items)


@pytest.mark.parametrize(
    ("call", "output", "items"),
    [
        (use("Read", file_path="/w/app/vendor/lib/docs/refunds.md"), "text", []),
        (use("Read", file_path="/other/docs/refunds.md"), "text", []),
        (use("Read", file_path="/w/docs/refunds.md"), "text", ["reference:docs%2Frefunds.md"]),  # the session is below
        (use("Read", file_path="/w/app/src/../docs/refunds.md"), "text", ["reference:docs%2Frefunds.md"]),
        (use("str_replace_editor", command="create", path="/w/app/docs/refunds.md"), "text", []),
        (
            use("str_replace_editor", command="view", path="/w/app/docs/refunds.md"),
            "x",
            ["reference:docs%2Frefunds.md"],
        ),
        (
            use("Bash", command="sed 1p docs/refunds.md"),
            "sed: can't read docs/refunds.md: No such file or directory",
            [],
        ),
        (use("Read", file_path="/w/app/guide/returns.md"), "text", ["reference:returns.md"]),
        (use("Read", file_path="/w/app/returns.md"), "text", []),
    ],
)
def test_files_that_are_read_are_below_the_folder_of_the_catalog(read, call, output, items):
    guide = Item(type="reference", name="returns.md", text="Free", metadata={"folder": "guide"})
    imported = read([user("Go."), assistant(call), result(output)], catalog=Catalog([*CATALOG, guide]))
    assert labels(imported) == {"Go.": items}


@pytest.mark.parametrize(
    ("text", "calls", "items"),
    [
        ("I could call {} but I will not.", [], []),
        ("I call {}", [], [REFUND]),
        ("{}\n{}", [], [REFUND]),
        ("I could call {}", ["track_order"], [TRACK]),
    ],
)
def test_a_call_that_a_text_quotes_is_no_label(read, text, calls, items):
    tag = '<tool_call>{"name": "refund_order", "arguments": {}}</tool_call>'
    listed = [{"id": name, "function": {"name": name, "arguments": "{}"}} for name in calls]
    answer = {"role": "assistant", "content": text.format(tag, tag), "tool_calls": listed}
    lines = [{"role": "user", "content": "Go."}, answer, {"role": "assistant", "content": "", "tool_calls": []}]
    lines += [{"role": "user", "content": "More."}, assistant(use("track_order"))["message"]]
    assert labels(read(lines)) == {"Go.": items, "More.": [TRACK]}


@pytest.mark.parametrize(
    "text", ["<task>" * 20_000, "<a>" + " " * 100_000 + "<b>", "<skill " * 20_000, "<tool_call>" * 20_000]
)
def test_a_message_with_many_tags_is_read_in_linear_time(read, text):
    start = time.process_time()
    read([user("Go."), assistant(text), user(text), assistant(use("mcp__shop__track_order")), result()])
    assert time.process_time() - start < 3


def test_results_without_ids_are_read_in_linear_time(read):
    call = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "track_order", "arguments": "{}"}}],
    }
    start = time.process_time()
    imported = read([{"role": "user", "content": "Go."}, *[call, {"role": "tool", "content": "sent"}] * 5000])
    assert labels(imported) == {"Go.": [TRACK]}
    assert time.process_time() - start < 8
