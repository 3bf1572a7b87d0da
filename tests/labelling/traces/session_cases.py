"""Lines of sessions, and what an import of them found."""

from __future__ import annotations

import json

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


TOOLS_ALONE = Catalog(item for item in CATALOG if item.type == "tool")


INIT = {"type": "system", "subtype": "init", "session_id": "s1"}


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
