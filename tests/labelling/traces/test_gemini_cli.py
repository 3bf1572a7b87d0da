"""Sessions of Gemini CLI: messages that are written anew, and names of servers."""

from __future__ import annotations

import json

from ctxbench.model.items import Catalog, Item
from tests.labelling.traces.session_cases import TRACK, assistant, labels, use, user


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
