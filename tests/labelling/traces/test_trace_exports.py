"""Exports of tools for traces, and bodies of providers: what is a request, a label and an offered tool in each form."""

from __future__ import annotations

import csv
import io
import json

import pytest

from ctxbench.io.errors import InputError
from ctxbench.labelling.trace_exports import KINDS, kind_of, read_spans
from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_traces
from ctxbench.model.items import Catalog, Item

NAMES = ("track_order", "refund_order")
CATALOG = Catalog([Item(type="tool", name=name, description=name) for name in NAMES])
ASK = "where is my parcel?"
USER = {"role": "user", "content": ASK}
TOOLS = [{"type": "function", "function": {"name": name, "description": "x", "parameters": {}}} for name in NAMES]
FLAT_TOOLS = [{"type": "function", "name": name, "parameters": {}} for name in NAMES]
SCHEMAS = [{"name": name, "input_schema": {"type": "object"}} for name in NAMES]
CALL = {"id": "c1", "type": "function", "function": {"name": "track_order", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
BODY = {"model": "m", "messages": [USER], "tools": TOOLS}
SDK_CALL = {"type": "tool-call", "toolCallId": "c1", "toolName": "track_order", "input": {}}
SDK_RESULT = {"type": "tool-result", "toolCallId": "c1", "toolName": "track_order", "output": {"status": "sent"}}
SDK_ANSWER = [{"role": "assistant", "content": [SDK_CALL]}, {"role": "tool", "content": [SDK_RESULT]}]
STEPS = [{"content": [SDK_CALL, SDK_RESULT], "request": {}, "response": {"messages": SDK_ANSWER}}]

OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": ASK,
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "track_order",
    **{f"llm.tools.{n}.tool.json_schema": json.dumps(tool) for n, tool in enumerate(TOOLS)},
}
NESTED = {
    "openinference": {"span": {"kind": "LLM"}},
    "llm": {
        "input_messages": [
            {"message": {"role": "user", "contents": [{"message_content": {"type": "text", "text": ASK}}]}}
        ],
        "output_messages": [{"message": {"role": "assistant", "tool_calls": [{"tool_call": CALL}]}}],
        "tools": [{"tool": {"json_schema": json.dumps(tool)}} for tool in TOOLS],
    },
}
COLUMNS = {
    "name": "ChatOpenAI",
    "span_kind": "LLM",
    "parent_id": None,
    "start_time": 1772442000000,
    "status_code": "OK",
    "context.span_id": "s1",
    "context.trace_id": "t1",
    "attributes.openinference.span.kind": "LLM",
    "attributes.llm.input_messages": [{"message.role": "user", "message.content": ASK}],
    "attributes.llm.output_messages": [
        {
            "message.role": "assistant",
            "message.tool_calls": [{"tool_call.id": "c1", "tool_call.function.name": "track_order"}],
        }
    ],
    "attributes.llm.tools": [{"tool.json_schema": json.dumps(tool)} for tool in TOOLS],
}
SDK_SPAN = {
    "ai.operationId": "ai.generateText.doGenerate",
    "ai.prompt.messages": json.dumps([USER]),
    "ai.prompt.tools": [json.dumps(tool) for tool in FLAT_TOOLS],
    "ai.response.toolCalls": json.dumps([{"toolCallId": "c1", "toolName": "track_order", "input": "{}"}]),
}
JS_SPAN = {
    "name": "ai.generateText.doGenerate",
    "_spanContext": {"traceId": "t1", "spanId": "s1"},
    "startTime": [1772442000, 5],
    "status": {"code": 0},
    "attributes": SDK_SPAN,
}
RUN = {
    "id": "s1",
    "trace_id": "t1",
    "name": "ChatOpenAI",
    "run_type": "llm",
    "session_id": "project",
    "parent_run_id": None,
}
CONSTRUCTED = [
    {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "HumanMessage"],
        "kwargs": {"content": ASK},
    }
]
AI_MESSAGE = {
    "content": "",
    "type": "ai",
    "tool_calls": [{"name": "track_order", "args": {}, "id": "c1", "type": "tool_call"}],
}
GENERATIONS = [[{"text": "", "message": {"lc": 1, "id": ["x", "AIMessage"], "kwargs": AI_MESSAGE}}]]
CHUNKS = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **CALL}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {}},
]
FUNCTION_CALL = {"type": "function_call", "call_id": "c1", "name": "track_order", "arguments": "{}"}
RESPONSE_EVENTS = [
    {"type": "response.created", "response": {"output": [], "tools": FLAT_TOOLS}},
    {"type": "response.output_item.done", "item": FUNCTION_CALL},
    {"type": "response.completed", "response": {"output": [FUNCTION_CALL], "tools": FLAT_TOOLS}},
]
TOOL_USE = {"type": "tool_use", "id": "c1", "name": "track_order", "input": {}}
MESSAGE_EVENTS = [
    {"type": "message_start", "message": {"role": "assistant", "content": []}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I look."}},
    {"type": "content_block_start", "index": 1, "content_block": TOOL_USE},
    {"type": "message_stop"},
]
CLAUDE = {"model": "m", "system": "S", "messages": [USER], "tools": SCHEMAS}
GEMINI = {
    "contents": [{"role": "user", "parts": [{"text": ASK}]}],
    "tools": [{"functionDeclarations": [{"name": name} for name in NAMES]}],
}
GEMINI_ANSWER = {"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "track_order"}}]}}]}


def otlp(attributes):
    listed = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    span = {
        "traceId": "t1",
        "spanId": "s1",
        "name": "x",
        "startTimeUnixNano": "1772442000000000000",
        "attributes": listed,
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def sse(events, end="data: [DONE]\n\n"):
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + end


def table(row):
    """A row as pandas writes it into CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, row)
    writer.writeheader()
    writer.writerow({name: "" if value is None else value for name, value in row.items()})
    return out.getvalue()


FORMS = {
    "openinference in OTLP": ("openinference", otlp(OPENINFERENCE)),
    "phoenix": ("openinference", {"context": {"trace_id": "t1", "span_id": "s1"}, "attributes": OPENINFERENCE}),
    "phoenix, nested": ("openinference", {"context": {"trace_id": "t1", "span_id": "s1"}, "attributes": NESTED}),
    "phoenix, columns": ("openinference", COLUMNS),
    "phoenix, CSV": ("openinference", table(COLUMNS)),
    "phoenix, columns by id": ("openinference", {name: {"s1": value} for name, value in COLUMNS.items()}),
    "openinference, bodies alone": (
        "openinference",
        otlp(
            {
                "openinference.span.kind": "LLM",
                "input.value": json.dumps(BODY),
                "output.value": json.dumps(
                    {"choices": [{"index": 0, "finish_reason": "tool_calls", "message": CALLED}]}
                ),
            }
        ),
    ),
    "javascript": ("otel", JS_SPAN),
    "langfuse attributes": (
        "otel",
        otlp(
            {
                "langfuse.observation.type": "generation",
                "langfuse.observation.input": json.dumps(BODY),
                "langfuse.observation.output": json.dumps(CALLED),
            }
        ),
    ),
    "langsmith": ("langsmith", {**RUN, "inputs": BODY, "outputs": {"choices": [{"index": 0, "message": CALLED}]}}),
    "langsmith, langchain": (
        "langsmith",
        {
            **RUN,
            "inputs": {"messages": [CONSTRUCTED]},
            "outputs": {"generations": GENERATIONS},
            "extra": {"invocation_params": {"tools": TOOLS}},
        },
    ),
    "langsmith, texts": (
        "langsmith",
        {**RUN, "parent_run_id": "", "inputs": json.dumps(BODY), "outputs": json.dumps({"output": AI_MESSAGE})},
    ),
    "langsmith, page": ("langsmith", {"runs": [{**RUN, "inputs": BODY, "outputs": CALLED}], "cursors": {}}),
    "braintrust": (
        "braintrust",
        {
            "id": "r1",
            "span_id": "s1",
            "root_span_id": "t1",
            "span_parents": None,
            "created": "2026-03-02T09:00:00Z",
            "span_attributes": {"name": "Chat Completion", "type": "llm"},
            "metadata": {"model": "m", "tools": TOOLS},
            "input": [USER],
            "output": [{"index": 0, "message": CALLED, "finish_reason": "tool_calls"}],
        },
    ),
    "langfuse, langchain": (
        "langfuse",
        {
            "id": "s1",
            "traceId": "t1",
            "type": "GENERATION",
            "name": "ChatOpenAI",
            "input": [USER, *({"role": "tool", "content": tool} for tool in TOOLS)],
            "output": CALLED,
        },
    ),
    "jaeger": (
        "otel",
        {
            "data": [
                {
                    "traceID": "t1",
                    "spans": [
                        {
                            "traceID": "t1",
                            "spanID": "s1",
                            "operationName": "chat m",
                            "references": [],
                            "startTime": 1772442000000000,
                            "tags": [
                                {"key": "gen_ai.operation.name", "type": "string", "value": "chat"},
                                {"key": "gen_ai.input.messages", "type": "string", "value": json.dumps([USER])},
                                {"key": "gen_ai.output.messages", "type": "string", "value": json.dumps([CALLED])},
                                {"key": "gen_ai.tool.definitions", "type": "string", "value": json.dumps(TOOLS)},
                            ],
                        }
                    ],
                }
            ]
        },
    ),
    "parameters of a gateway": (
        "openai",
        {
            "messages": [USER],
            "model": "m",
            "model_parameters": {"tools": TOOLS},
            "response": {"choices": [{"message": CALLED}]},
        },
    ),
    "inputs and outputs": ("openai", {"inputs": BODY, "outputs": {"choices": [{"message": CALLED}]}}),
    "body of a stream": ("openai", {"request": {"body": BODY}, "response": {"status": 200, "body": sse(CHUNKS)}}),
    "openai, chunks": ("openai", {"request": BODY, "response": CHUNKS}),
    "openai, tools of the response": (
        "openai",
        {"request": {"model": "m", "input": ASK}, "response": {"output": [FUNCTION_CALL], "tools": FLAT_TOOLS}},
    ),
    "ai sdk, flat": (
        "ai-sdk",
        {"prompt": ASK, "tools": list(NAMES), "text": "", "toolCalls": [SDK_CALL], "toolResults": [SDK_RESULT]},
    ),
    "bedrock": (
        "anthropic",
        {
            "request": {
                "messages": [{"role": "user", "content": [{"text": ASK}]}],
                "toolConfig": {"tools": [{"toolSpec": {"name": name, "inputSchema": {}}} for name in NAMES]},
            },
            "response": {
                "output": {
                    "message": {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": NAMES[0]}}]}
                },
                "stopReason": "tool_use",
            },
        },
    ),
    "openai, stream": ("openai", {"request": BODY, "stream": CHUNKS}),
    "openai, text of a stream": ("openai", {"request": BODY, "response": sse(CHUNKS)}),
    "openai, responses": (
        "openai",
        {"request": {"model": "m", "input": ASK, "tools": FLAT_TOOLS}, "response": RESPONSE_EVENTS},
    ),
    "anthropic": ("anthropic", {"request": CLAUDE, "response": {"role": "assistant", "content": [TOOL_USE]}}),
    "anthropic, events": ("anthropic", {"request": CLAUDE, "response": sse(MESSAGE_EVENTS, "")}),
    "anthropic, conversation": (
        "anthropic",
        {**CLAUDE, "messages": [USER, {"role": "assistant", "content": [TOOL_USE]}]},
    ),
    "gemini": ("openai", {"request": GEMINI, "response": GEMINI_ANSWER}),
    "fine-tuning": ("fine-tuning", {"messages": [USER, CALLED], "tools": TOOLS, "parallel_tool_calls": False}),
    "preferences": (
        "fine-tuning",
        {
            "input": {"messages": [USER], "tools": TOOLS},
            "preferred_output": [CALLED],
            "non_preferred_output": [{"role": "assistant", "content": "No idea."}],
        },
    ),
    "ai sdk, steps": ("ai-sdk", {"prompt": ASK, "tools": list(NAMES), "text": "Sent.", "steps": STEPS}),
    "ai sdk, messages": ("ai-sdk", {"messages": [USER], "tools": list(NAMES), "response": {"messages": SDK_ANSWER}}),
    "ai sdk, result": ("ai-sdk", {"prompt": ASK, "tools": list(NAMES), "result": {"steps": STEPS}}),
    "ai sdk, request of the first step": ("ai-sdk", {"steps": [{**STEPS[0], "request": {"body": json.dumps(BODY)}}]}),
    "ai sdk, step": (
        "ai-sdk",
        {
            "content": [SDK_CALL, SDK_RESULT],
            "finishReason": "tool-calls",
            "request": {"body": BODY},
            "response": {"id": "r"},
        },
    ),
}


@pytest.fixture
def imported(tmp_path):
    def run(*documents):
        text = "\n".join(one if isinstance(one, str) else json.dumps(one) for one in documents)
        (tmp_path / "log").write_text(text, "utf-8")
        source = TraceSource(logs=(tmp_path / "log",), catalog=CATALOG)
        return import_traces(source, TraceSettings(name="mine"), redact=None)

    return run


def labels(made):
    queries = made.dataset.queries
    return {query.request.text: [label.item.name for label in made.dataset.labels_of(query.id)] for query in queries}


@pytest.mark.parametrize(("kind", "document"), FORMS.values(), ids=FORMS)
def test_each_form_gives_the_request_its_label_and_what_was_offered(imported, kind, document):
    made = imported(document)
    assert labels(made) == {ASK: ["track_order"]}
    assert [key.name for key in made.exposures[0].offered] == list(NAMES)
    assert made.exposures[0].full
    assert (made.report.counts["responses_unread"], made.report.counts["lines_unreadable"]) == (0, 0)


@pytest.mark.parametrize(("kind", "document"), [form for form in FORMS.values() if isinstance(form[1], dict)])
def test_each_form_is_recognised_by_its_content(kind, document):
    assert kind_of(document) == kind
    assert [entry.name for entry in KINDS if entry.matches([document])] == [kind]


@pytest.mark.parametrize(
    "value",
    [
        {"_id": "d1", "title": "t", "text": "a document"},
        {"_id": "q1", "text": "a query"},
        {"query": "a", "positive": "b", "negative": "c"},
        {"name": "track_order", "description": "d", "inputSchema": {}},
        {"input": "a", "expected_tools": [{"name": "track_order"}], "actual_output": "b"},
        {"user_input": "a", "response": "b", "retrieved_contexts": ["c"]},
        {"query": "a", "expected": ["track_order"]},
        {"role": "user", "content": "a"},
        {"tools": TOOLS},
        "a line",
        7,
        None,
    ],
)
def test_files_of_other_families_are_no_logs(value):
    assert kind_of(value) == ""


def test_examples_of_what_not_to_do_are_no_labels(imported):
    wrong = {"role": "assistant", "tool_calls": [{**CALL, "id": "c0", "function": {"name": "refund_order"}}]}
    messages = [USER, {**wrong, "weight": 0}, {"role": "tool", "tool_call_id": "c0", "content": "no"}, CALLED]
    assert labels(imported({"messages": messages, "tools": TOOLS})) == {ASK: ["track_order"]}


def test_the_requests_of_lines_that_repeat_a_conversation_are_read_once(imported):
    messages = [USER, {"role": "assistant", "content": "Which one?"}, {"role": "user", "content": "1042"}, CALLED]
    made = imported(*({"messages": messages[:n], "tools": TOOLS} for n in (2, 4)))
    assert labels(made) == {ASK: [], "1042": ["track_order"]}
    assert len(made.dataset) == 2


def test_calls_in_the_text_of_an_answer_are_labels(imported):
    text = '<tool_call>\n{"name": "track_order", "arguments": {"id": 1}}\n</tool_call>'
    prompt = {"role": "system", "content": text.replace("track", "refund")}
    made = imported({"messages": [prompt, USER, {"role": "assistant", "content": text}], "tools": TOOLS})
    assert labels(made) == {ASK: ["track_order"]}


def test_a_har_file_is_a_log_of_requests_with_responses(imported):
    chunk = {"choices": [{"index": 0, "finish_reason": "tool_calls", "delta": {"tool_calls": [{"index": 0, **CALL}]}}]}
    answer = {"mimeType": "text/event-stream", "text": f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n"}
    bodies = [{**BODY, "messages": [{"role": "user", "content": text}]} for text in ("first", "second")]
    page = {"request": {"method": "GET"}, "response": {"content": {"mimeType": "text/html", "text": "<html>"}}}
    entries = [
        {
            "startedDateTime": "2026-03-02T09:00:00.000Z",
            "time": 1812.2,
            "request": {"postData": {"mimeType": "application/json", "text": json.dumps(body)}},
            "response": {"status": 200, "content": answer},
        }
        for body in bodies
    ]
    archive = {"log": {"version": "1.2", "entries": [page, *entries]}}
    made = imported(archive)
    assert kind_of(archive) == "openai"
    assert labels(made) == {"first": ["track_order"], "second": ["track_order"]}
    assert (made.report.counts["lines"], made.report.counts["events_other"]) == (2, 1)
    assert made.dataset.queries[0].request.time.startswith("2026-03-02")


def test_each_message_of_the_user_in_an_example_has_its_calls(imported):
    example = [
        USER,
        CALLED,
        {"role": "tool", "tool_call_id": "c1", "content": "sent"},
        {"role": "assistant", "content": "Sent."},
    ]
    refund = {"role": "assistant", "tool_calls": [{"id": "c2", "function": {"name": "refund_order"}}]}
    made = imported({"messages": [*example, {"role": "user", "content": "money back"}, refund], "tools": TOOLS})
    assert labels(made) == {"where is my parcel?": ["track_order"], "money back": ["refund_order"]}


@pytest.mark.parametrize(
    "output",
    [
        {"messages": [USER, CALLED]},
        {"output": [USER, CALLED]},
        {"messages": [{"type": "human", "content": ASK, "id": "m1"}, AI_MESSAGE]},
    ],
)
def test_an_output_that_repeats_its_request_has_each_call_once(imported, output):
    old = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"id": "c0", "function": {"name": "refund_order"}}]},
    ]
    run = {**RUN, "run_type": "chain", "inputs": {"messages": [USER]}}
    for history in ([], old):
        ((field, messages),) = output.items()
        made = imported({**run, "outputs": {field: [*history, *messages]}})
        assert labels(made) == {ASK: ["track_order"]}
        assert made.report.counts["calls_ok"] == 1


def test_model_calls_below_a_chain_with_its_request_are_one_query(imported):
    chain = {**RUN, "id": "root", "run_type": "chain", "inputs": {"messages": [USER]}, "outputs": {}}
    model = {**RUN, "parent_run_id": "root", "inputs": BODY, "outputs": CALLED, "start_time": "2026-03-02T09:00:01"}
    title = {**model, "id": "s2", "inputs": {"messages": [{"role": "user", "content": "Find a title."}]}, "outputs": {}}
    made = imported(chain, model, title)
    assert labels(made) == {ASK: ["track_order"]}
    assert made.report.counts["model_calls_of_helpers"] == 1
    apart = imported({**chain, "inputs": {"question": 7}}, model)
    assert labels(apart) == {ASK: ["track_order"]}


@pytest.mark.parametrize(
    ("tool", "counted"),
    [
        (
            {"outputs": {"output": {"type": "tool", "tool_call_id": "c1", "status": "error", "content": "no"}}},
            "calls_error",
        ),
        ({"outputs": {"output": "Error: no such order"}}, "calls_error"),
        ({"outputs": None, "error": "Traceback"}, "calls_error"),
        ({"outputs": {"output": "sent"}}, "calls_ok"),
    ],
)
def test_a_tool_run_says_how_its_call_ended(imported, tool, counted):
    run = {
        **RUN,
        "id": "s2",
        "name": "track_order",
        "run_type": "tool",
        "parent_run_id": "s1",
        "inputs": {"input": "{}"},
    }
    made = imported({**RUN, "inputs": BODY, "outputs": CALLED}, {**run, **tool})
    assert labels(made) == {ASK: ["track_order"] if counted == "calls_ok" else []}
    assert made.report.counts[counted] == 1


def test_a_span_without_an_error_does_not_overrule_a_result_that_failed(imported):
    failed = {"role": "tool", "tool_call_id": "c1", "content": "Error: no such order", "is_error": True}
    body = {**BODY, "messages": [USER, CALLED, failed]}
    tool = {**RUN, "id": "s2", "name": "track_order", "run_type": "tool", "parent_run_id": "s1", "inputs": {}}
    made = imported({**RUN, "inputs": body, "outputs": {"role": "assistant", "content": "No."}}, tool)
    assert labels(made) == {ASK: []}


def test_results_in_steps_that_failed_are_no_labels(imported):
    failed = {"type": "tool-error", "toolCallId": "c1", "toolName": "track_order", "error": "gone"}
    made = imported(
        {"prompt": ASK, "tools": list(NAMES), "steps": [{"content": [SDK_CALL, failed]}]},
        {"prompt": "money back", "tools": list(NAMES), "steps": STEPS},
    )
    assert labels(made) == {ASK: [], "money back": ["track_order"]}


def test_definitions_and_calls_of_the_provider_are_no_labels(imported):
    hosted = {**SDK_CALL, "toolName": "refund_order", "providerExecuted": True}
    answer = {"role": "assistant", "content": [hosted], "tool_calls": TOOLS, "tools": TOOLS}
    assert labels(imported({"request": BODY, "response": answer})) == {ASK: []}


def test_calls_that_a_message_lists_twice_are_one_call(imported):
    message = {"role": "assistant", "content": [TOOL_USE], "tool_calls": [CALL]}
    assert imported({"request": BODY, "response": message}).report.counts["calls_ok"] == 1


def test_of_several_generations_the_first_is_read(imported):
    second = {"text": "", "message": {**AI_MESSAGE, "tool_calls": [{"name": "refund_order", "id": "c2"}]}}
    outputs = {"generations": [[*GENERATIONS[0], second]]}
    assert labels(imported({**RUN, "inputs": BODY, "outputs": outputs})) == {ASK: ["track_order"]}


def test_of_a_stream_with_several_answers_the_first_is_read(imported):
    other = {"index": 1, "delta": {"tool_calls": [{"index": 0, "id": "c2", "function": {"name": "refund_order"}}]}}
    made = imported(
        {"request": BODY, "response": [{"choices": [other]}, *CHUNKS]}, {"request": BODY, "response": CHUNKS}
    )
    assert set(map(tuple, labels(made).values())) == {("track_order",)}


def test_model_calls_of_one_request_in_several_traces_are_one_query(imported):
    result = {"role": "tool", "tool_call_id": "c1", "content": "sent"}
    later = {"id": "c2", "function": {"name": "refund_order"}}
    second = {**BODY, "messages": [USER, CALLED, result]}
    rows = [
        {**RUN, "inputs": BODY, "outputs": CALLED, "start_time": "2026-03-02T09:00:00"},
        {**RUN, "id": "s2", "trace_id": "t2", "inputs": second, "outputs": {"role": "assistant", "tool_calls": [later]},
         "start_time": "2026-03-02T09:00:01"},
    ]  # fmt: skip
    for ordered in (rows, rows[::-1]):
        made = imported(*ordered)
        assert len(made.dataset) == 1
        assert {name: set(items) for name, items in labels(made).items()} == {ASK: {"track_order", "refund_order"}}


@pytest.mark.parametrize(
    ("document", "advice"),
    [
        ({"id": "t", "timestamp": "2026-03-02", "bookmarked": False, "input": {"messages": [USER]}, "output": CALLED},
         "export the observations"),
        ({"data": [{"id": "t", "timestamp": "2026-03-02", "htmlPath": "/", "observations": ["o"]}], "meta": {}},
         "export the observations"),
        ({"steps": STEPS}, "without its request"),
        ({"text": "Sent.", "toolCalls": [], "steps": STEPS, "finishReason": "stop"}, "without its request"),
        ({"custom_id": "1", "response": {"body": {"choices": [{"message": CALLED}]}}}, "without its request"),
        (sse(CHUNKS), "without its request"),
        ("{\n  resource: {\n    attributes: {}\n  },\n  traceId: '632b61f15eb9a700',\n}\n", "JSON.stringify"),
    ],
)  # fmt: skip
def test_what_has_no_request_is_refused_with_what_to_do(imported, document, advice):
    with pytest.raises(InputError, match=advice):
        imported(document)


def test_an_agent_around_another_is_not_another_agent(imported):
    def agent(own_id, parent, **inputs):
        return {**RUN, "id": own_id, "name": own_id, "run_type": "agent", "parent_run_id": parent, "inputs": inputs}

    rows = [
        agent("workflow", None),
        agent("shop", "workflow"),
        {**RUN, "parent_run_id": "shop", "inputs": BODY, "outputs": CALLED},
    ]
    assert labels(imported(*rows)) == {ASK: ["track_order"]}
    with_request = [agent("workflow", None, messages=[USER]), *rows[1:]]
    assert labels(imported(*with_request)) == {ASK: ["track_order"]}
    assert len(imported(*with_request).dataset) == 1
    planned = [agent("workflow", None, messages=[{"role": "user", "content": "money back"}]), *rows[1:]]
    assert labels(imported(*planned)) == {"money back": ["track_order"]}


def test_the_events_of_a_batch_of_langfuse_are_one_observation(imported):
    body = {"id": "s1", "traceId": "t1", "name": "chat", "input": BODY}
    events = [
        {"id": "e0", "type": "trace-create", "body": {"id": "t1"}},
        {"id": "e1", "type": "generation-create", "body": body},
        {
            "id": "e2",
            "type": "generation-update",
            "body": {"id": "s1", "traceId": "t1", "input": None, "output": CALLED},
        },
    ]
    assert labels(imported({"batch": events, "metadata": {}})) == {ASK: ["track_order"]}


def test_the_messages_of_a_state_of_langgraph_are_read(imported):
    state = {"values": {"messages": [{"type": "human", "content": ASK}, AI_MESSAGE]}, "next": [], "config": {}}
    assert kind_of(state) == "turns"
    assert labels(imported(state)) == {ASK: ["track_order"]}


def test_messages_without_a_role_are_no_requests(imported):
    with pytest.raises(InputError, match="list of messages"):
        imported({"messages": [{"info": {"role": "user"}, "parts": [{"type": "text", "text": ASK}]}]})


def test_spans_far_below_each_other_are_read(imported):
    attributes = {"gen_ai.operation.name": "chat"}
    chain = [
        {"traceId": "t", "spanId": f"s{n}", "parentSpanId": f"s{n - 1}", "name": "chat", "attributes": attributes}
        for n in range(1500)
    ]
    request = {**attributes, "gen_ai.input.messages": [USER], "gen_ai.output.messages": [CALLED]}
    made = imported(*chain, {"traceId": "t", "spanId": "u", "name": "chat", "attributes": request})
    assert labels(made) == {ASK: ["track_order"]}
    document = chain[0]
    for _ in range(100):
        document = {"data": [document]}
    assert kind_of(document) == "otel"


def test_a_span_has_who_asked_and_when():
    data = {**JS_SPAN, "attributes": {**SDK_SPAN, "ai.telemetry.metadata.sessionId": "s", "user.id": "anna"}}
    (span,) = read_spans({**data, "parentSpanContext": {"spanId": "s0"}})
    assert (span.trace, span.id, span.parent, span.conversation, span.user) == ("t1", "s1", "s0", "s", "anna")
    assert span.start == 1772442000.0
    thread = {"extra": {"metadata": {"thread_id": "th", "user_id": "ben"}}}
    (run,) = read_spans({**RUN, **thread, "inputs": BODY, "outputs": CALLED})
    assert (run.conversation, run.user) == ("th", "ben")


def test_a_response_that_continues_another_is_of_its_request(imported):
    request = {"model": "m", "tools": FLAT_TOOLS}
    output = {"type": "function_call_output", "call_id": "c1", "output": "sent"}
    later = {"type": "function_call", "call_id": "c2", "name": "refund_order"}
    made = imported(
        {"request": {**request, "input": ASK}, "response": {"id": "r1", "output": [FUNCTION_CALL]}},
        {"request": {**request, "input": "hi"}, "response": {"id": "r9", "output": []}},
        {
            "request": {**request, "input": [output], "previous_response_id": "r1"},
            "response": {"id": "r2", "output": [later]},
        },
        {
            "request": {**request, "input": "and now?", "previous_response_id": "r2"},
            "response": {"id": "r3", "output": []},
        },
    )
    found = {text: sorted(names) for text, names in labels(made).items()}
    assert found == {ASK: ["refund_order", "track_order"], "and now?": [], "hi": []}
