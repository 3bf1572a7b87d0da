"""Sessions of Claude Code: requests, labels, what is inserted, subagents, compaction and offered tools."""

from __future__ import annotations

import pytest

from tests.labelling.traces.session_cases import (
    CLAUDE,
    INIT,
    REFUND,
    TOOLS_ALONE,
    TRACK,
    assistant,
    labels,
    requests,
    result,
    use,
    user,
)


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
