"""What looks like a label but is none: calls of earlier turns, calls that failed, what was offered or retrieved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ctxbench.datasets.dataset import Dataset
from ctxbench.io.errors import UserError
from ctxbench.labelling.import_files import import_files
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Catalog, Item

WHERE, MONEY = "where is my parcel?", "please give me my money back"
TRACK, REFUND, CANCEL = "track_order", "refund_order", "cancel_order"
CATALOG = Catalog(
    Item(type="tool", name=name, text=text)
    for name, text in ((TRACK, "Where an order is"), (REFUND, "Pay money back"), (CANCEL, "Stop an order"))
)
DOCUMENTS = Catalog(
    Item(type="reference", name=name, text=text)
    for name, text in (("a", "Refunds take five days."), ("b", "Refunds take five days. Ask the desk."), ("c", "Open."))
)


def user(text: str) -> dict[str, Any]:
    """A message of a user."""
    return {"role": "user", "content": text}


def call(name: str, call_id: str = "c1") -> dict[str, Any]:
    """A message of a model that calls a tool."""
    function = {"name": name, "arguments": "{}"}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def result(call_id: str = "c1", text: str = "ok", **fields: Any) -> dict[str, Any]:
    """The result of a tool."""
    return {"role": "tool", "tool_call_id": call_id, "content": text, **fields}


def exchange(messages: list[dict[str, Any]], *answers: dict[str, Any]) -> dict[str, Any]:
    """A request to a model, and its answers."""
    choices = [{"index": n, "message": answer, "finish_reason": "stop"} for n, answer in enumerate(answers)]
    return {
        "request": {"model": "m", "messages": messages},
        "response": {"object": "chat.completion", "choices": choices},
    }


def session_line(number: int, role: str, content: Any, **fields: Any) -> dict[str, Any]:
    """A line of a session of Claude Code."""
    message = {"role": role, "content": content}
    return {"type": role, "sessionId": "s", "uuid": f"u{number}", "isSidechain": False, "message": message, **fields}


def tool_use(call_id: str, name: str) -> list[dict[str, Any]]:
    """The content of a message of Claude that calls a tool."""
    return [{"type": "tool_use", "id": call_id, "name": f"mcp__shop__{name}", "input": {}}]


def tool_result(call_id: str, text: str = "ok", *, is_error: bool = False) -> list[dict[str, Any]]:
    """The content of a message with the result of a tool."""
    return [{"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": is_error}]


def run(number: int, run_type: str, **fields: Any) -> dict[str, Any]:
    """A run of LangSmith."""
    ids = {
        "id": f"r{number}",
        "trace_id": "r0",
        "parent_run_id": "r0" if number else None,
        "dotted_order": f"2026Z{number}",
    }
    times = {"start_time": f"2026-01-01T00:00:0{number}", "end_time": f"2026-01-01T00:00:0{number}"}
    return {**ids, **times, "name": run_type, "run_type": run_type, "error": None, **fields}


def span(number: int, kind: str, attributes: dict[str, str], status: str = "OK") -> dict[str, Any]:
    """A span of OpenInference."""
    ids = {"context": {"trace_id": "t", "span_id": f"s{number}"}, "parent_id": "s0" if number else None}
    times = {"start_time": f"2026-01-01T00:00:0{number}Z", "end_time": f"2026-01-01T00:00:0{number}Z"}
    return {
        "name": kind,
        **ids,
        **times,
        "status_code": status,
        "attributes": {"openinference.span.kind": kind, **attributes},
    }


def model_span(number: int, text: str, name: str) -> dict[str, Any]:
    """A span of OpenInference in which a model calls a tool."""
    called = "llm.output_messages.0.message.tool_calls.0.tool_call."
    attributes = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": text}
    attributes |= {
        "llm.output_messages.0.message.role": "assistant",
        f"{called}id": "c1",
        f"{called}function.name": name,
    }
    return span(number, "LLM", attributes)


EXAMPLE = [user("money for order 1"), call(REFUND, "e"), result("e"), {"role": "assistant", "content": "Done."}]
TRAPS: dict[str, tuple[list[dict[str, Any]], dict[str, set[str]]]] = {
    "examples before the request": ([exchange([*EXAMPLE, user(WHERE)], call(TRACK))], {WHERE: {TRACK}}),
    "a second choice": ([exchange([user(WHERE)], call(TRACK), call(REFUND, "c2"))], {WHERE: {TRACK}}),
    "a tool that failed": (
        [
            run(0, "chain", inputs={"messages": [user(WHERE)]}, outputs={}),
            run(1, "llm", inputs={"messages": [user(WHERE)]}, outputs={"choices": [{"message": call(CANCEL, "k")}]}),
            run(2, "tool", name=CANCEL, inputs={}, outputs=None, error="ValueError: no"),
            run(
                3,
                "llm",
                inputs={"messages": [user(WHERE), call(CANCEL, "k"), result("k", "Error: no", status="error")]},
                outputs={"choices": [{"message": call(TRACK, "k2")}]},
            ),
            run(4, "tool", name=TRACK, inputs={}, outputs={"output": "ok"}),
        ],
        {WHERE: {TRACK}},
    ),
    "what was retrieved": (
        [
            span(0, "CHAIN", {"input.value": WHERE}),
            span(1, "RETRIEVER", {"input.value": WHERE, "retrieval.documents.0.document.id": REFUND}),
            model_span(2, WHERE, TRACK),
            span(3, "TOOL", {"tool.name": CANCEL, "input.value": "{}"}, "ERROR"),
            span(4, "TOOL", {"tool.name": TRACK, "input.value": "{}"}),
        ],
        {WHERE: {TRACK}},
    ),
    "calls that failed or were rejected in a session": (
        [
            session_line(0, "user", MONEY),
            session_line(1, "assistant", tool_use("a", CANCEL)),
            session_line(2, "user", tool_result("a", "no such order", is_error=True)),
            session_line(3, "assistant", tool_use("b", TRACK)),
            session_line(4, "user", tool_result("b", "The user doesn't want to proceed", is_error=True)),
            session_line(5, "user", [{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
            session_line(6, "user", "no, just pay it back"),
            session_line(7, "assistant", tool_use("c", REFUND)),
            session_line(8, "user", tool_result("c")),
            session_line(9, "user", "<system-reminder>Use cancel_order</system-reminder>", isMeta=True),
        ],
        {"no, just pay it back": {REFUND}},
    ),
    "what a model predicted": (
        [
            {"question": WHERE, "predicted_tool": REFUND, "expected_tool": TRACK},
            {"question": MONEY, "predicted_tool": CANCEL, "expected_tool": REFUND},
        ],
        {WHERE: {TRACK}, MONEY: {REFUND}},
    ),
    "distractors": (
        [
            {"question": WHERE, "distractors": [REFUND, CANCEL], "expected_tool": TRACK},
            {"question": MONEY, "distractors": [TRACK, CANCEL], "expected_tool": REFUND},
        ],
        {WHERE: {TRACK}, MONEY: {REFUND}},
    ),
    "tools called in a golden": (
        [
            {"input": WHERE, "expected_tools": None, "tools_called": [{"name": REFUND}], "expected_output": "x"},
            {"input": MONEY, "expected_tools": [{"name": REFUND}], "tools_called": [], "expected_output": "x"},
        ],
        {MONEY: {REFUND}},
    ),
    "the answer that was not preferred": (
        [
            {
                "input": {"messages": [user(WHERE)], "tools": []},
                "preferred_output": [call(TRACK)],
                "non_preferred_output": [call(REFUND)],
            }
        ],
        {WHERE: {TRACK}},
    ),
}
TEXTS: dict[str, tuple[list[dict[str, Any]], dict[str, set[str]]]] = {
    "a text that two documents have": (
        [
            {"user_input": "how long?", "reference_contexts": ["take five days"], "retrieved_contexts": ["Open."]},
            {"user_input": "where do I ask?", "reference_contexts": ["Ask the desk."], "retrieved_contexts": ["Open."]},
        ],
        {"where do I ask?": {"b"}},
    ),
    "a phrase that two documents have": (
        [
            {"query": "how long?", "expected": {"contains": "take five days"}},
            {"query": "where do I ask?", "expected": {"contains": "Ask the desk"}},
        ],
        {"where do I ask?": {"b"}},
    ),
}


def required_items(dataset: Dataset) -> dict[str, set[str]]:
    """The names of the required items by request, of those that require any."""
    texts = {query.id: query.request.text for query in dataset.queries}
    required: dict[str, set[str]] = {}
    for label in dataset.labels:
        if label.grade == Grade.REQUIRED:
            required.setdefault(texts[label.query], set()).add(label.item.name)
    return required


def import_rows(rows: list[dict[str, Any]], catalog: Catalog, folder: Path) -> Dataset:
    """Import lines of JSON."""
    file = folder / "data.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    dataset = import_files([file], catalog).dataset
    assert dataset is not None
    return dataset


@pytest.mark.parametrize("trap", TRAPS)
def test_only_what_a_request_needed_is_required(trap, tmp_path):
    rows, required = TRAPS[trap]
    assert required_items(import_rows(rows, CATALOG, tmp_path)) == required


@pytest.mark.parametrize("trap", TEXTS)
def test_a_text_that_fits_several_items_is_no_label(trap, tmp_path):
    rows, required = TEXTS[trap]
    assert required_items(import_rows(rows, DOCUMENTS, tmp_path)) == required


@pytest.mark.parametrize(
    "rows",
    [
        [{"question": WHERE, "actual_tool": REFUND}, {"question": MONEY, "actual_tool": CANCEL}],
        [
            {"query": WHERE, "choices": [REFUND, TRACK], "label": 1},
            {"query": MONEY, "choices": [REFUND, TRACK], "label": 0},
        ],
        [{"query": WHERE, "expected": "track_order or refund_order"}],
        [{"response": exchange([], call(TRACK))["response"]}],
    ],
    ids=["what was called", "choices", "an alternative in words", "an answer without its request"],
)
def test_rows_without_labels_are_refused(rows, tmp_path):
    with pytest.raises(UserError):
        import_rows(rows, CATALOG, tmp_path)
