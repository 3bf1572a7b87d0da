"""Calls and results of sessions: ids, late results, skills and files by their folders, and linear time."""

from __future__ import annotations

import json
import time

import pytest

from ctxbench.model.items import Catalog, Item
from tests.labelling.traces.session_cases import CATALOG, CLAUDE, REFUND, TRACK, assistant, labels, result, use, user

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


def test_a_notice_of_an_interruption_beside_results_is_no_request(read):
    content = [{"type": "tool_result", "tool_use_id": "c1", "content": "in transit"}]
    notice = {"type": "text", "text": "[Request interrupted by user for tool use]"}
    calls = [use("mcp__shop__track_order"), use("mcp__shop__refund_order", "c2")]
    assert labels(read([user("Go."), assistant(*calls), user([*content, notice])])) == {"Go.": [TRACK]}


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


def test_a_file_of_a_library_is_no_label_where_the_working_folder_is_unknown(read):
    def turn(path):
        call = {"id": path, "function": {"name": "read_file", "arguments": json.dumps({"path": path})}}
        yield from ({"role": "user", "content": path}, {"role": "assistant", "content": "", "tool_calls": [call]})

    lines = [*turn("/w/app/docs/refunds.md"), *turn("/w/app/vendor/lib/docs/refunds.md")]
    assert [len(items) for items in labels(read(lines)).values()] == [1, 0]


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
