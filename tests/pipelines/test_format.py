from __future__ import annotations

import numpy as np

from ctxbench import testing
from ctxbench.model.candidates import Candidates, Origin
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Message, Query, Request
from ctxbench.pipelines.strategies.format import Messages

SCHEMA = {"type": "object"}
CATALOG = Catalog(
    [
        Item(type="rule", name="r1", text="first rule"),
        Item(type="tool", server="s", name="t1", description="d", schema=SCHEMA),
        Item(type="reference", name="e1", text="first reference"),
        Item(type="file", name="f", text="a file"),
        Item(type="rule", name="r2", text="second rule"),
        Item(type="tool", name="t2"),
        Item(type="reference", name="e2", text="second reference"),
    ]
)
HISTORY = (Message("system", "old system"), Message("user", "before"), Message("assistant", "answer"))


def prompts(step: Messages, rows: list[tuple[int, int]], **request):
    """Prompts of two requests; rows are (request, item), scored in the order given."""
    batch = Batch.of(CATALOG, [Request(id="0", text="ask", **request), Request(id="1", text="")])
    table = Candidates.build(
        2,
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        score=1.0 - np.arange(len(rows)) / 100,
    )
    return step(Query.of_chunks(batch, [["ask"], []]), table.exclude(table.item == 4, "out"), testing.mock_resources())


def test_references_come_before_rules_and_the_users_message_last():
    (prompt, _) = prompts(Messages(), [(0, item) for item in (0, 3, 6, 1, 2, 5)])
    assert prompt.messages == [
        ("user", "Reference: second reference"),
        ("user", "Reference: first reference"),
        ("user", "a file"),
        ("user", "Rule: first rule"),
        ("user", "ask"),
    ]


def test_tools_are_those_of_the_request_context_in_its_order():
    (prompt, _) = prompts(Messages(), [(0, 5), (0, 0), (0, 1)])
    assert prompt.tools == [
        {"name": "t2", "description": "", "inputSchema": {}},
        {"name": "t1", "description": "d", "inputSchema": SCHEMA},
    ]
    assert prompt.tools[1]["inputSchema"] is not SCHEMA


def test_earlier_messages_stand_between_system_prompt_and_items():
    (prompt, _) = prompts(Messages(system="be kind"), [(0, 0)], history=HISTORY)
    assert prompt.messages == [
        ("system", "be kind"),
        ("user", "before"),
        ("assistant", "answer"),
        ("user", "Rule: first rule"),
        ("user", "ask"),
    ]


def test_what_was_left_out_is_not_sent():
    (prompt, _) = prompts(Messages(), [(0, 4)])
    assert prompt.messages == [("user", "ask")]


def test_a_request_without_items_is_its_message():
    (_, prompt) = prompts(Messages(), [(0, 0)])
    assert (prompt.messages, prompt.tools) == ([("user", "")], [])


def test_no_request_has_no_prompt():
    batch = Batch.of(CATALOG, [])
    assert list(Messages()(Query.of_chunks(batch, []), Candidates.empty(0), testing.mock_resources())) == []


def test_session_items_are_sent_too():
    batch = Batch.of(CATALOG, [Request(id="0", text="ask")])
    table = Candidates.build(1, np.array([0]), np.array([0]), origin=np.array([Origin.SESSION]))
    (prompt,) = Messages()(Query.of_chunks(batch, [["ask"]]), table, testing.mock_resources())
    assert prompt.messages[0] == ("user", "Rule: first rule")


def test_a_prompt_may_be_changed_without_changing_the_catalog():
    item = Item(type="tool", name="t", schema={"properties": {"a": {}}})
    prompt = Messages().prompt(Request(id="q", text="ask"), [item])
    prompt.tools[0]["inputSchema"]["properties"]["new"] = 1
    assert item.schema == {"properties": {"a": {}}}
