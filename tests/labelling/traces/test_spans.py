"""OpenTelemetry GenAI spans: links, forms of messages, offered tools, calls and how they ended."""

from __future__ import annotations

import json

import pytest

from ctxbench.io.errors import InputError
from ctxbench.labelling.trace_exports import holds_spans, read_spans
from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_traces
from ctxbench.model.items import Catalog, Item

NAMES = ("create_issue", "list_runs", "deploy")
TOOLS = Catalog([Item(type="tool", server="s", name=name) for name in NAMES])
SECOND = 10**9
START = 1772323200 * SECOND


def value(one):
    """A value as OTLP/JSON has it."""
    if isinstance(one, bool):
        return {"boolValue": one}
    if isinstance(one, int):
        return {"intValue": str(one)}
    if isinstance(one, list):
        return {"arrayValue": {"values": [value(v) for v in one]}}
    if isinstance(one, dict):
        return {"kvlistValue": {"values": [{"key": k, "value": value(v)} for k, v in one.items()]}}
    return {"stringValue": one}


def attributes(data):
    return [{"key": k, "value": value(v)} for k, v in data.items()]


def span(span_id, operation=None, *, parent="", at=0, trace="t1", events=(), status=None, name="", **data):
    """A span of OTLP/JSON; `_` in the names of attributes stands for a dot after gen_ai."""
    named = {"gen_ai." + k.replace("__", "."): v for k, v in data.items()}
    if operation:
        named["gen_ai.operation.name"] = operation
    out = {
        "traceId": trace,
        "spanId": span_id,
        "parentSpanId": parent,
        "name": name or operation or "span",
        "startTimeUnixNano": str(START + at * SECOND),
        "attributes": attributes(named),
        "events": [{"name": n, "attributes": attributes(d)} for n, d in events],
    }
    return out | ({"status": status} if status else {})


def export(*spans, **resource):
    scope = [{"scope": {"name": "x"}, "spans": list(spans)}]
    return {"resourceSpans": [{"resource": {"attributes": attributes(resource)}, "scopeSpans": scope}]}


def user(text):
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def calls(*named):
    parts = [{"type": "tool_call", "id": i, "name": n, "arguments": {}} for i, n in named]
    return {"role": "assistant", "parts": parts}


def response(call_id, text):
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": text}]}


def chat(span_id, messages, *answers, offered=NAMES, **more):
    """A model call in the current conventions, its content as JSON text."""
    tools = None if offered is None else json.dumps([{"type": "function", "name": n} for n in offered])
    extra = {} if tools is None else {"tool__definitions": tools}
    return span(
        span_id, "chat", input__messages=json.dumps(messages), output__messages=json.dumps(answers), **extra, **more
    )


def tool(span_id, name, call_id=None, **more):
    extra = {} if call_id is None else {"tool__call__id": call_id}
    return span(span_id, "execute_tool", tool__name=name, **extra, **more)


@pytest.fixture
def made(tmp_path):
    """Import documents, one a line (or a text, as the file)."""

    def run(*documents):
        path = tmp_path / "spans.jsonl"
        lines = [d if isinstance(d, str) else json.dumps(d) for d in documents]
        path.write_text("\n".join(lines))
        return import_traces(TraceSource(logs=(path,), catalog=TOOLS), TraceSettings(name="mine"), redact=None)

    return run


def labels(made):
    return {q.id: [i.item.name for i in made.dataset.labels_of(q.id)] for q in made.dataset.queries}


ASK = user("Deploy it.")
FIRST = chat("c1", [ASK], calls(("1", "s__deploy")), parent="a", at=1)
SECOND_CALL = chat("c2", [ASK, calls(("1", "s__deploy")), response("1", "ok")], parent="a", at=3)
AGENT = span("a", "invoke_agent", conversation__id="conv", at=0)


def test_an_agents_turn_is_one_query_with_all_its_calls(made):
    one = made(export(AGENT, FIRST, tool("x1", "deploy", "1", parent="a", at=2), SECOND_CALL))
    (query,) = one.dataset.queries
    assert (query.id, query.request.text, query.request.conversation) == ("conv-0", "Deploy it.", "conv")
    assert query.request.time == "2026-03-01T00:00:01+00:00"
    assert labels(one) == {"conv-0": ["deploy"]}
    assert not query.partly_labelled
    assert one.report.counts["calls_ok"] == 1
    assert one.report.counts["spans"] == 4


@pytest.mark.parametrize("is_reversed", [False, True])
def test_spans_that_link_others_lead_to_the_request_above_in_any_number_and_order(made, is_reversed):
    chain = [span(f"s{n}", parent=f"s{n - 1}" if n else "c1", at=2) for n in range(3000)]
    spans = [AGENT, FIRST, *chain, tool("x1", "deploy", "1", parent="s2999", at=1), chat("c2", [user("List.")], at=4)]
    imported = made(export(*(reversed(spans) if is_reversed else spans)))
    assert labels(imported) == {"conv-0": ["deploy"], "conv-1": []}


def test_spans_one_a_line_and_in_one_indented_file_give_the_same(made):
    spans = [AGENT, FIRST, tool("x1", "deploy", "1", parent="a", at=2), SECOND_CALL]
    expected = made(export(*spans)).dataset.hash
    assert made(*spans).dataset.hash == expected
    assert made(json.dumps(export(*spans), indent=2)).dataset.hash == expected
    assert made(json.dumps(spans)).dataset.hash == expected
    assert made(*(json.dumps(one, indent=1) for one in spans)).dataset.hash == expected


def test_spans_in_any_order_give_the_same(made):
    spans = [AGENT, FIRST, tool("x1", "deploy", "1", parent="a", at=2), SECOND_CALL]
    assert made(export(*reversed(spans))).dataset.hash == made(export(*spans)).dataset.hash


def test_spans_as_the_python_sdk_prints_them(made):
    def printed(span_id, parent, seconds, **data):
        return {
            "name": "x",
            "context": {"trace_id": "0xab", "span_id": span_id, "trace_state": "[]"},
            "parent_id": parent,
            "start_time": f"2026-03-01T00:00:0{seconds}.000000Z",
            "status": {"status_code": "UNSET"},
            "attributes": {"gen_ai." + k.replace("__", "."): v for k, v in data.items()},
            "events": [],
        }

    one = made(
        printed("0x1", None, 0, operation__name="chat", input__messages=json.dumps([ASK])),
        printed("0x2", "0x1", 1, operation__name="execute_tool", tool__name="deploy"),
    )
    assert labels(one) == {"ab-0": ["deploy"]}


def test_structured_content_is_read_as_json_text_is(made):
    given = span("c", "chat", input__messages=[ASK], output__messages=[calls(("1", "deploy"))],
                 tool__definitions=[{"type": "function", "name": n} for n in NAMES])  # fmt: skip
    assert labels(made(export(given))) == {"t1-0": ["deploy"]}


@pytest.mark.parametrize(
    ("status", "more", "expected"),
    [
        (None, {}, "calls_ok"),
        ({"code": "STATUS_CODE_OK"}, {}, "calls_ok"),
        ({"code": 2, "message": "timeout"}, {}, "calls_error"),
        ({"code": "STATUS_CODE_ERROR"}, {}, "calls_error"),
        ({"code": 2, "message": "Unknown tool: deploy"}, {}, "calls_error"),  # it was offered, so there was one
    ],
)
def test_the_span_of_a_call_says_how_it_ended(made, status, more, expected):
    one = made(export(AGENT, FIRST, tool("x", "deploy", "1", parent="a", at=2, status=status, **more)))
    assert {name: n for name, n in one.report.counts.items() if name.startswith("calls_") and n} == {expected: 1}


@pytest.mark.parametrize(
    ("status", "more", "expected"),
    [
        ({"code": 2, "message": "Unknown tool: deploy"}, {}, "calls_unknown_tool"),
        ({"code": 2, "message": "Unknown tool: other"}, {}, "calls_error"),
        (
            {"code": 2},
            {"events": [("exception", {"exception.message": "Tool deploy not found"})]},
            "calls_unknown_tool",
        ),
    ],
)
def test_a_call_of_what_was_not_offered_may_be_of_an_unknown_tool(made, status, more, expected):
    first = chat("c1", [ASK], calls(("1", "deploy")), parent="a", at=1, offered=["list_runs"])
    one = made(export(AGENT, first, tool("x", "deploy", "1", parent="a", at=2, status=status, **more)))
    assert {name: n for name, n in one.report.counts.items() if name.startswith("calls_") and n} == {expected: 1}


def test_the_next_model_call_says_how_a_call_ended_where_no_span_does(made):
    failed = chat("c2", [ASK, calls(("1", "deploy")), response("1", "Error: quota")], calls(("2", "list_runs")), at=2)
    one = made(export(chat("c1", [ASK], calls(("1", "deploy"))), failed))
    assert labels(one) == {"t1-0": ["list_runs"]}
    assert one.dataset.queries[0].partly_labelled
    assert (one.report.counts["calls_error"], one.report.counts["calls_ok"]) == (1, 1)


def test_calls_without_ids_in_messages_and_spans_are_the_same_calls(made):
    said = {"role": "assistant", "parts": [{"type": "tool_call", "name": "deploy"}] * 2}
    spans = [tool("x1", "deploy", parent="c", at=2), tool("x2", "deploy", parent="c", at=3)]
    one = made(export(chat("c", [ASK], said, at=1), *spans))
    assert one.report.counts["calls_ok"] == 2


def test_the_calls_of_a_sub_agent_are_calls_of_the_request_and_its_messages_are_not(made):
    one = made(
        export(
            AGENT,
            chat("c1", [ASK], calls(("1", "helper")), parent="a", at=1, offered=("helper", "create_issue")),
            tool("x1", "helper", "1", parent="a", at=2),
            span("b", "invoke_agent", parent="x1", at=3),
            chat("c2", [user("You are to look at runs.")], calls(("2", "list_runs")), parent="b", at=4, offered=NAMES),
            tool("x2", "list_runs", "2", parent="b", at=5),
        )
    )
    assert [q.request.text for q in one.dataset.queries] == ["Deploy it."]
    assert labels(one) == {"conv-0": ["list_runs"]}
    assert [key.name for key in one.exposures[0].offered] == list(NAMES)


def test_a_helper_call_of_the_same_agent_is_no_turn(made):
    one = made(
        export(
            AGENT,
            chat("c1", [ASK], calls(("1", "deploy")), parent="a", at=1),
            chat("c2", [user("Give this a title: Deploy it.")], parent="a", at=2, offered=None),
        )
    )
    assert [q.request.text for q in one.dataset.queries] == ["Deploy it."]


def test_the_turns_of_a_conversation_come_from_several_traces(made):
    second = [ASK, {"role": "assistant", "parts": [{"type": "text", "content": "Done."}]}, user("And the runs?")]
    one = made(
        export(chat("c2", second, calls(("2", "list_runs")), trace="t2", at=9, conversation__id="conv")),
        export(chat("c1", [ASK], calls(("1", "deploy")), trace="t1", at=1, conversation__id="conv")),
    )
    assert labels(one) == {"conv-0": ["deploy"], "conv-1": ["list_runs"]}
    assert [m.content for m in one.dataset.queries[1].request.history] == ["Deploy it.", "Done."]


def test_offered_tools_of_the_agent_are_those_of_its_calls(made):
    agent = span("a", "invoke_agent", tool__definitions=json.dumps([{"name": "deploy"}, {"name": "list_runs"}]))
    one = made(export(agent, chat("c", [ASK], calls(("1", "deploy")), parent="a", at=1, offered=None)))
    assert [key.name for key in one.exposures[0].offered] == ["list_runs", "deploy"]
    assert not one.exposures[0].full


def test_tool_definitions_may_be_a_list_of_json_texts(made):
    tools = [json.dumps({"type": "function", "name": name}) for name in NAMES]
    given = span("c", "chat", input__messages=json.dumps([ASK]), tool__definitions=tools)
    assert made(export(given)).exposures[0].full


def test_an_agent_that_alone_has_the_messages_is_the_request(made):
    agent = span("a", "invoke_agent", input__messages=json.dumps([ASK]), tool__definitions=json.dumps(list(NAMES)))
    one = made(export(agent, span("c", "chat", parent="a", at=1), tool("x", "deploy", parent="c", at=2)))
    assert labels(one) == {"t1-0": ["deploy"]}
    assert not one.dataset.queries[0].partly_labelled


def test_the_older_events_are_read_from_spans_and_from_log_records(made):
    events = [
        ("gen_ai.system.message", {"content": "Be brief."}),
        ("gen_ai.user.message", {"content": "Deploy it."}),
        ("gen_ai.choice", {"index": 0, "message": json.dumps({"tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "deploy"}}]})}),
    ]  # fmt: skip
    on_span = made(export(span("c", "chat", events=events)))
    assert labels(on_span) == {"t1-0": ["deploy"]}
    records = [
        {"traceId": "t1", "spanId": "c", "timeUnixNano": str(START), "eventName": name, "body": value(data)}
        for name, data in events
    ]
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    as_logs = made(logs, export(span("c", "chat")))
    assert labels(as_logs) == {"t1-0": ["deploy"]}
    assert as_logs.dataset.queries[0].request.text == "Deploy it."
    lost = made(logs, export(span("c", "chat", events=events, trace="t2")))
    assert lost.report.counts["logs_without_span"] == 3


def test_the_numbered_attributes_are_read(made):
    data = {
        "prompt__0__role": "user", "prompt__0__content": "Deploy it.",
        "completion__0__role": "assistant", "completion__0__tool_calls__0__name": "deploy",
        "completion__0__tool_calls__0__id": "1",
    }  # fmt: skip
    given = span("c", "chat", **data)
    given["attributes"] += attributes({f"llm.request.functions.{i}.name": n for i, n in enumerate(NAMES)})
    one = made(export(given))
    assert labels(one) == {"t1-0": ["deploy"]}
    assert one.exposures[0].full


def test_users_and_conversations_may_stand_on_resources_and_other_spans(made):
    one = made(export(FIRST, span("root", at=0), **{"user.id": "u1", "session.id": "sess"}))
    assert (one.dataset.queries[0].request.user, one.dataset.queries[0].request.conversation) == ("u1", "sess")


# ------------------------------------------------------------------------------------------------ bad input


def test_spans_that_stand_there_twice_count_once(made):
    x1 = tool("x1", "deploy", "1", parent="a", at=2)
    one = made(export(AGENT, FIRST, x1), export(x1, FIRST))
    assert (one.report.counts["spans_twice"], one.report.counts["calls_ok"]) == (2, 1)


def test_an_execution_inside_one_of_the_same_tool_is_the_same_call(made):
    inner = tool("x2", "deploy", parent="x1", at=3)
    one = made(export(AGENT, FIRST, tool("x1", "deploy", "1", parent="a", at=2), inner))
    assert one.report.counts["calls_ok"] == 1


def test_the_call_of_a_tool_whose_clock_runs_early_is_kept(made):
    first = chat("c1", [ASK], calls(("1", "deploy")), parent="a", at=10)
    one = made(export(span("a", "invoke_agent", at=9), first, tool("x", "list_runs", parent="c1", at=4)))
    assert labels(one) == {"t1-0": ["list_runs", "deploy"]}


def test_spans_without_their_parents_are_linked_by_call_id_or_time(made):
    one = made(
        export(
            chat("c1", [ASK], calls(("1", "deploy")), parent="gone", at=1),
            chat("c2", [ASK, user("And the runs?")], calls(("2", "list_runs")), parent="gone2", at=5),
            tool("x1", "deploy", "1", parent="gone3", at=9, status={"code": 2}),
            tool("x3", "create_issue", parent="gone3", at=9),
        )
    )
    assert labels(one) == {"t1-0": [], "t1-1": ["create_issue", "list_runs"]}
    assert one.report.counts["calls_error"] == 1


def test_calls_and_model_calls_without_a_request_are_counted(made):
    one = made(
        export(tool("x", "deploy", trace="t9"), span("c", "chat", trace="t8"), {**FIRST, "traceId": "t1"}),
    )
    assert len(one.dataset) == 1
    assert (one.report.counts["calls_without_request"], one.report.counts["spans_without_content"]) == (1, 1)
    assert any("recording of content" in line for line in one.report.lines())


def test_spans_in_a_circle_end_where_they_began(made):
    one = made(export(chat("c", [ASK], calls(("1", "deploy")), parent="d"), span("d", parent="c")))
    assert len(one.dataset) == 1


@pytest.mark.parametrize(
    "bad",
    [
        span("z", "chat", input__messages="[3]", trace="t9"),
        span("z", "chat", input__messages=json.dumps([ASK]), tool__definitions="{", trace="t9"),
        {"resourceSpans": 3},
        {"traceId": "t9", "spanId": "z", "attributes": [3]},
        {"resourceSpans": [{"scopeSpans": [{"spans": ["x"]}]}]},
    ],
)
def test_a_span_that_is_wrong_is_left_out_and_named(made, bad):
    one = made(export(FIRST), bad)
    assert len(one.dataset) == 1
    assert "line 2" in one.report.examples[0]


def test_only_wrong_spans_are_an_error(made):
    with pytest.raises(InputError, match="in an unknown form"):
        made(span("z", "chat", input__messages="[3]"))


def test_what_holds_spans_is_told_from_turns():
    assert holds_spans(export())
    assert holds_spans({"traceId": "a"})
    assert holds_spans({"context": {"trace_id": "0x1"}})
    assert not holds_spans({"messages": [], "called": []})


def test_values_lose_otlps_wrapping():
    (one,) = read_spans(span("a", "chat", input__messages=[1, True, {"y": "z"}]))
    assert one.request == [1, True, {"y": "z"}]
    assert one.start == 1772323200.0


def test_a_tools_span_belongs_to_the_model_call_above_it_whoever_has_its_call_id(made):
    first = chat("c1", [user("One.")], calls(("1", "deploy")), conversation__id="conv", at=1)
    second = chat("c2", [user("One."), user("Two.")], calls(("2", "list_runs")), conversation__id="conv", at=5)
    one = made(export(first, second, tool("x", "create_issue", "1", parent="c2", at=6)))
    assert labels(one) == {"conv-0": ["deploy"], "conv-1": ["create_issue", "list_runs"]}


def test_a_tools_span_beside_the_model_calls_goes_by_its_call_id_and_name(made):
    first = chat("c1", [user("One.")], calls(("call_0", "deploy")), conversation__id="conv", at=1)
    second = chat("c2", [user("One."), user("Two.")], calls(("call_0", "list_runs")), conversation__id="conv", at=5)
    failed = tool("x", "deploy", "call_0", at=6, status={"code": 2})
    assert labels(made(export(first, second, failed))) == {"conv-0": [], "conv-1": ["list_runs"]}


def test_the_lists_of_a_sub_agent_do_not_make_exposure_full(made):
    main = chat("c1", [user("Do it.")], calls(("1", "create_issue")), parent="a", at=1, offered=["create_issue"])
    inner = chat("c2", [user("Sub task.")], parent="b", at=3, offered=["list_runs", "deploy"])
    one = made(export(AGENT, main, tool("x", "create_issue", "1", parent="a", at=2),
                      span("b", "invoke_agent", parent="x", at=2), inner))  # fmt: skip
    assert labels(one) == {"conv-0": ["create_issue"]}
    assert (one.exposures[0].full, len(one.exposures[0].offered)) == (False, 3)
    assert one.dataset.queries[0].partly_labelled


@pytest.mark.parametrize("at", [0, 5])
def test_a_model_call_of_an_agents_that_finds_a_title_is_no_query(made, at):
    title = chat("t", [user("Find a title for: Deploy it.")], {"role": "assistant", "parts": []}, parent="a", at=at,
                 offered=None)  # fmt: skip
    one = made(export(AGENT, title, FIRST, tool("x1", "deploy", "1", parent="a", at=2), SECOND_CALL))
    assert [query.request.text for query in one.dataset.queries] == ["Deploy it."]
    assert labels(one) == {"conv-0": ["deploy"]}
    assert not one.dataset.queries[0].partly_labelled
    assert one.report.counts["model_calls_of_helpers"] == 1


def test_two_requests_with_tools_in_one_agent_are_doubtful(made):
    other = chat("o", [user("Plan it.")], calls(("7", "list_runs")), parent="a", at=4)
    one = made(export(AGENT, FIRST, SECOND_CALL, other))
    assert [(query.request.text, query.partly_labelled) for query in one.dataset.queries] == [("Deploy it.", True)]


def test_the_messages_of_the_agent_say_which_request_is_the_users(made):
    agent = span("a", "invoke_agent", conversation__id="conv", input__messages=json.dumps([user("Deploy it.")]))
    plan = chat("o", [user("Plan it.")], calls(("7", "list_runs")), parent="a", at=0)
    one = made(export(agent, plan, FIRST, SECOND_CALL))
    assert [query.request.text for query in one.dataset.queries] == ["Deploy it."]


def test_spans_of_no_known_kind_link_spans_alone(made):
    below = [AGENT, span("h", parent="a", name="GET /"), {**FIRST, "parentSpanId": "h"}]
    assert labels(made(export(*below))) == labels(made(export(AGENT, FIRST)))


def test_a_window_of_messages_that_moves_on_within_an_agent_keeps_requests_apart(made):
    done = {"role": "assistant", "parts": [{"type": "text", "content": "Done."}]}
    second = chat("c3", [ASK, done, user("And the builds?")], calls(("2", "list_runs")), parent="a", at=5)
    moved = chat(
        "c4", [user("And the builds?"), calls(("2", "list_runs")), response("2", "ok")], done, parent="a", at=6
    )
    third = chat(
        "c5", [user("And the builds?"), done, user("A ticket.")], calls(("3", "create_issue")), parent="a", at=7
    )
    one = made(export(AGENT, FIRST, second, moved, third))
    assert [query.request.text for query in one.dataset.queries] == ["Deploy it.", "And the builds?", "A ticket."]
    assert list(labels(one).values()) == [["deploy"], ["list_runs"], ["create_issue"]]


def test_a_span_without_a_call_id_says_how_the_call_of_that_name_ended(made):
    one = made(export(AGENT, FIRST, tool("x", "deploy", parent="a", at=2, status={"code": 2})))
    assert labels(one) == {"conv-0": []}
    assert one.report.counts["calls_error"] == 1


def test_a_helper_that_has_tools_but_calls_none_is_no_query_and_leaves_a_doubt(made):
    title = chat("t", [user("Find a title for: Deploy it.")], parent="a", at=0)
    one = made(export(AGENT, title, FIRST, SECOND_CALL))
    assert [(query.request.text, query.partly_labelled) for query in one.dataset.queries] == [("Deploy it.", True)]
