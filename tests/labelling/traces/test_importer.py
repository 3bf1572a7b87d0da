"""Datasets from logs of turns: queries, labels, exposure, order, and every kind of bad input."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest

from ctxbench.cli.data import label_notes
from ctxbench.datasets.dataset import split_of
from ctxbench.datasets.files import read_dataset, validate, write_dataset
from ctxbench.datasets.layout import EXPOSURE, read_exposures
from ctxbench.datasets.queries import Label
from ctxbench.io.errors import InputError, ParameterError, StorageError, message_code
from ctxbench.labelling.trace_import import (
    TraceSettings,
    TraceSource,
    import_traces,
    redactor_for,
    refuse_overwriting,
    scopes_of,
    write_import,
)
from ctxbench.labelling.trace_turns import meant_field
from ctxbench.model.items import Catalog, Item, ItemKey
from ctxbench.model.requests import Message

NAMES = ("create_issue", "search_issues", "list_runs", "deploy")
TOOLS = Catalog([Item(type="tool", server="s", name=name) for name in NAMES])
CREATE, SEARCH, RUNS, DEPLOY = (ItemKey("tool", "s", name) for name in NAMES)
ALL = list(NAMES)


def row(text="Do it.", *, conversation="c", turn=0, **fields):
    messages = [{"role": "user", "content": text}]
    out = {"conversation": conversation, "turn": turn, "messages": messages, "offered": ALL, "called": []}
    return {name: value for name, value in (out | fields).items() if value is not None}


@pytest.fixture
def log(tmp_path):
    """Write a log; rows are objects, or lines as text or bytes."""

    def write(*rows, name="log.jsonl"):
        lines = [r if isinstance(r, bytes) else (r if isinstance(r, str) else json.dumps(r)).encode() for r in rows]
        (tmp_path / name).write_bytes(b"\n".join(lines) + b"\n")
        return tmp_path / name

    return write


@pytest.fixture
def made(log):
    """Import rows over the four tools, or another catalog."""

    def run(*rows, catalog=TOOLS, scopes=None, redact=True, **settings):
        source = TraceSource(logs=(log(*rows),), catalog=catalog, scopes=scopes or {})
        redactor = redactor_for(catalog) if redact else None
        return import_traces(source, TraceSettings(name="mine", **settings), redact=redactor)

    return run


def state(made, query=0):
    """(labels, state) of one query."""
    row = made.dataset.queries[query]
    labels = [label.item.name for label in made.dataset.labels_of(row.id)]
    if row.needs_nothing:
        return labels, "nothing"
    return labels, "partly" if row.partly_labelled else "wholly" if labels else "unlabelled"


# ------------------------------------------------------------------------------------------------ labels


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"called": ["deploy"]}, (["deploy"], "wholly")),
        ({"called": ["deploy", {"tool": "s.list_runs", "status": "ok"}]}, (["list_runs", "deploy"], "wholly")),
        ({"called": ["deploy"], "offered": "*"}, (["deploy"], "wholly")),
        ({"called": ["deploy"], "offered": ["*"]}, (["deploy"], "wholly")),
        ({"called": ["deploy"], "offered": None, "exposure": "full"}, (["deploy"], "wholly")),
        ({"called": ["deploy"], "offered": ["deploy", "list_runs"]}, (["deploy"], "partly")),
        ({"called": ["deploy"], "offered": None}, (["deploy"], "partly")),
        ({"called": ["deploy"], "offered": []}, (["deploy"], "partly")),
        ({"called": []}, ([], "unlabelled")),
        ({"called": [], "offered": None}, ([], "unlabelled")),
        ({"called": [], "needs": "nothing"}, ([], "nothing")),
        ({"called": [{"tool": "deploy", "status": "error"}]}, ([], "unlabelled")),
        ({"called": ["list_runs", {"tool": "deploy", "status": "error"}]}, (["list_runs"], "partly")),
        ({"called": [{"tool": "deploy", "status": "error"}, "deploy"]}, (["deploy"], "wholly")),
        ({"called": ["deploy", {"tool": "undeploy", "status": "unknown_tool"}]}, (["deploy"], "partly")),
        ({"called": ["deploy", "send_mail"]}, (["deploy"], "partly")),
        ({"called": ["deploy"], "available": ["deploy", "list_runs"], "offered": ["list_runs", "deploy"]},
         (["deploy"], "wholly")),
        ({"called": ["deploy"], "available": ["deploy", "list_runs"], "offered": ["deploy"]}, (["deploy"], "partly")),
        ({"called": ["deploy", "list_runs"], "available": ["deploy"], "offered": "*"}, (["deploy"], "partly")),
    ],
)  # fmt: skip
def test_what_is_labelled_depends_on_exposure_and_calls(made, fields, expected):
    assert state(made(row(**fields))) == expected


def test_labels_say_that_they_come_from_a_trace(made):
    assert made(row(called=["deploy"])).dataset.labels == (Label("c-0", DEPLOY, 2, source="trace"),)


def test_exposure_is_the_union_over_the_calls_of_a_turn(made):
    one = made(row(offered=ALL[:2], called=["create_issue"]), row(offered=ALL[2:], called=["deploy"]))
    assert one.exposures[0].offered == (CREATE, SEARCH, RUNS, DEPLOY)


def test_exposure_is_full_only_if_each_model_call_that_could_call_was_offered_everything(made):
    halves = made(row(offered=ALL[:2], called=["create_issue"]), row(offered=ALL[2:], called=["deploy"]))
    assert (state(halves), halves.exposures[0].full) == ((["create_issue", "deploy"], "partly"), False)
    silent = made(row(called=["create_issue"]), row(offered=None, called=["deploy"]))
    assert state(silent) == (["create_issue", "deploy"], "partly")
    answering = made(row(called=["create_issue"]), row(offered=[], called=[]), row(offered=None, called=[]))
    assert state(answering) == (["create_issue"], "wholly")


def test_a_disabled_or_manual_item_cannot_be_required(made):
    items = [*TOOLS, Item(type="tool", name="old", enabled=False), Item(type="tool", name="by_hand", include="manual")]
    one = made(row(called=["deploy", "old", "by_hand"], offered=ALL), catalog=Catalog(items))
    assert state(one) == (["deploy"], "partly")  # neither has to be offered for exposure to be full
    assert one.exposures[0].full
    assert one.report.counts["calls_not_available"] == 2


def test_a_manual_item_that_the_session_holds_can_be_required(made):
    items = Catalog([*TOOLS, Item(type="tool", name="by_hand", include="manual")])
    one = made(row(called=["by_hand"], session=[{"name": "by_hand", "mode": "manual"}, "nowhere"]), catalog=items)
    assert state(one) == (["by_hand"], "wholly")
    assert one.report.counts["session_not_available"] == 1


def test_where_rules_may_be_needed_no_log_labels_wholly(made):
    items = Catalog([*TOOLS, Item(type="reference", name="keys", text="x")])
    one = made(row(called=["deploy"], offered="*"), catalog=items)
    assert state(one) == (["deploy"], "partly")
    assert one.exposures[0].full
    assert one.report.counts["full_but_not_all_tools"] == 1
    always = Catalog([*TOOLS, Item(type="rule", name="english", text="x", include="always")])
    assert state(made(row(called=["deploy"]), catalog=always)) == (["deploy"], "wholly")


def test_a_scope_of_the_catalog_is_what_the_request_may_get(made):
    scopes = {"ops": (RUNS, DEPLOY), "other": (CREATE,)}
    one = made(
        row(called=["deploy"], offered=["deploy", "list_runs"], scope="ops"),
        row("x", called=["deploy"], turn=1, scope="none"),
        scopes=scopes,
    )
    assert state(one) == (["deploy"], "wholly")
    assert one.dataset.queries[0].scope == "ops"
    assert one.dataset.scopes == {"ops": (RUNS, DEPLOY)}
    assert one.report.counts["scopes_unknown"] == 1


def test_all_offered_counts_turns_without_a_list_as_full(made):
    rows = [row(called=["deploy"], offered=None), row("b", turn=1, called=["deploy"], offered=["deploy"])]
    one = made(*rows, assume_full=True)
    assert [state(one, i)[1] for i in (0, 1)] == ["wholly", "partly"]
    assert (one.report.counts["turns_assumed_full"], one.report.counts["turns_without_offered"]) == (1, 0)
    assert made(*rows).report.counts["turns_without_offered"] == 1


def test_a_log_that_says_partial_is_partial_whatever_it_lists(made):
    assert state(made(row(called=["deploy"], exposure="partial"))) == (["deploy"], "partly")


def test_half_a_character_in_names_can_be_written(made, tmp_path):
    one = made(row("a \ud800", conversation="c\ud800", called=["deploy", "x\ud800"], **{"f\ud800": 1}))
    write_import(one, tmp_path / "out")
    assert [q.id for q in read_dataset(tmp_path / "out").queries] == ["c?-0"]


def test_a_call_of_what_the_list_lacks_is_a_label_and_counted(made):
    one = made(row(offered=["deploy"], called=["list_runs"]))
    assert state(one) == (["list_runs"], "partly")
    assert one.report.counts["calls_not_offered"] == 1


# ------------------------------------------------------------------------------------------------ signals


@pytest.mark.parametrize(
    ("called", "expected", "wanted"),
    [
        ([{"tool": "undeploy", "status": "unknown_tool"}], ("unknown-tool",), ()),
        ([{"tool": "deploy", "status": "unknown_tool"}], ("unknown-tool",), (DEPLOY,)),
        (["tool_search", "tool_search"], ("searched-again",), ()),
        (["mcp__hub__search_tools", "tool_search_tool_regex_20251119"], ("searched-again",), ()),
        (["tool_search"], (), ()),
        (["bash"], ("shell-instead",), ()),
        (["mcp__desktop__run_command"], ("shell-instead",), ()),
        (["deploy"], (), ()),
        (["deploy", "push_shell_script"], (), ()),
    ],
)
def test_signals_of_one_turn(made, called, expected, wanted):
    (exposure,) = made(row(offered=["deploy", "list_runs"], called=called)).exposures
    assert (exposure.signals, exposure.wanted) == (expected, wanted)


def test_a_shell_of_the_catalog_is_no_signal(made):
    one = made(row(called=["bash"]), catalog=Catalog([*TOOLS, Item(type="tool", name="bash")]))
    assert one.exposures[0].signals == ()


@pytest.mark.parametrize(
    ("following", "again"),
    [
        ("No, the builds of main.", True),
        ("I meant the failed builds", True),
        ("Show the failed builds, please.", True),
        ("Now close the ticket.", False),
        ("Thanks!", False),
        ("show", False),
    ],
)
def test_a_user_who_asks_again_is_a_signal_of_the_turn_before(made, following, again):
    one = made(row("Show the failed builds.", called=["deploy"]), row(following, turn=1))
    assert one.exposures[0].signals == (("asked-again",) if again else ())
    assert one.exposures[1].signals == ()
    assert state(one) == (["deploy"], "partly" if again else "wholly")


# ------------------------------------------------------------------------------------------------ turns and order


def test_history_is_that_of_the_messages_or_of_earlier_turns(made):
    own = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Earlier?"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "And now?"},
    ]
    one = made(row("One.", answer="Done."), row("Two.", turn=1), row(turn=2, messages=own))
    histories = [[(m.role, m.content) for m in query.request.history] for query in one.dataset.queries]
    assert histories == [
        [],
        [("user", "One."), ("assistant", "Done.")],
        [("user", "Earlier?"), ("assistant", "Yes.")],
    ]
    short = made(row("One.", answer="Done."), row("Two.", turn=1), history=1)
    assert short.dataset.queries[1].request.history == (Message("assistant", "Done."),)
    none = made(row("One.", answer="Done."), row("Two.", turn=1), history=0)
    assert none.dataset.queries[1].request.history == ()


def test_a_conversation_is_a_group_and_in_one_split(made):
    one = made(*(row(f"text {i}", conversation=f"c{i % 7}", turn=i // 7) for i in range(28)))
    for query in one.dataset.queries:
        assert query.group == query.request.conversation
        assert query.split == split_of(query.request.conversation)
    assert [q.id for q in one.dataset.queries[:4]] == ["c0-0", "c0-1", "c0-2", "c0-3"]


def test_a_line_without_a_conversation_stands_alone(made):
    one = made(row("a", conversation=None), row("b", conversation=None))
    assert [(q.id, q.group) for q in one.dataset.queries] == [("line-1", None), ("line-2", None)]


def test_conversations_that_share_a_text_are_a_group_and_in_one_split(made):
    texts = {
        "c0": ("Deploy it now", "yes"),
        "c1": ("Show the log", " deploy  IT now"),
        "c2": ("Show the log", "Next one please"),
    }
    texts |= {"c3": ("Close the issue", "yes"), "c4": ("yes",), "c5": ("Yes",)}
    rows = [row(text, conversation=c, turn=i) for c, turns in texts.items() for i, text in enumerate(turns)]
    groups = {q.id: q.group for q in made(*rows).dataset.queries}
    assert groups == {
        f"c{c}-{i}": name
        for c, i, name in [
            *((c, i, "c0") for c in range(3) for i in range(2)),
            (3, 0, "c3"),
            (3, 1, "c3"),
            (4, 0, "c4"),
            (5, 0, "c4"),
        ]
    }  # a reply of one word connects nothing, a request of one word does
    assert all(q.split == split_of(q.group) for q in made(*rows).dataset.queries)


def test_turns_of_a_conversation_without_a_name_are_a_group_and_in_one_split(made):
    def requests(i):  # a request to a model has all messages before it
        texts = [f"request {i} {n}" for n in range(4)]
        return [{"messages": [{"role": "user", "content": text} for text in texts[: n + 1]]} for n in range(4)]

    queries = made(*(record for i in range(3) for record in requests(i))).dataset.queries
    assert [q.request.turn for q in queries] == [0, 1, 2, 3] * 3
    names = [f"line-{line}" for line in (1, 5, 9) for _ in range(4)]
    assert [(q.group, q.split) for q in queries] == [(name, split_of(name)) for name in names]


def test_turn_numbers_win_over_clocks(made):
    times = ["2026-03-01T10:00:00Z", "2026-03-01T09:59:00Z", "2026-03-01T10:01:00Z"]
    rows = [row(f"text {i}", turn=i, time=times[i]) for i in (2, 0, 1)]
    one = made(*rows)
    assert [q.request.text for q in one.dataset.queries] == ["text 0", "text 1", "text 2"]
    assert one.dataset.queries[1].request.time == "2026-03-01T09:59:00+00:00"


def test_without_numbers_the_growing_messages_are_the_order_else_time_else_the_log(made):
    def grown(n):
        return [{"role": "user", "content": f"text {i}"} for i in range(n + 1)]

    by_messages = made(*(row(turn=None, messages=grown(i), time=1000.0 - i) for i in (1, 2, 0)))
    assert [q.request.text for q in by_messages.dataset.queries] == ["text 0", "text 1", "text 2"]
    assert [q.request.turn for q in by_messages.dataset.queries] == [0, 1, 2]
    by_time = made(row("b", turn=None, time=2), row("a", turn=None, time=1))
    assert [q.request.text for q in by_time.dataset.queries] == ["a", "b"]
    by_log = made(row("b", turn=None, time=2), row("a", turn=None))
    assert [q.request.text for q in by_log.dataset.queries] == ["b", "a"]


def test_model_calls_that_go_on_from_the_same_message_are_one_turn(made):
    ask = {"role": "user", "content": "Do it."}
    called = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "deploy"}}]}
    result = {"role": "tool", "tool_call_id": "1", "content": "fine"}
    done = {"role": "assistant", "content": "Done."}
    first = row(turn=None, messages=[ask, called], called=None)
    second = row(turn=None, messages=[ask, called, result, done], called=None)
    one = made(first, second)
    assert len(one.dataset) == 1
    assert state(one) == (["deploy"], "wholly")
    assert one.report.counts["calls_ok"] == 1
    again = made(second, second | {"time": 5})  # both are finished: the user has asked twice
    assert len(again.dataset) == 2
    assert again.exposures[0].signals == ("asked-again",)


def test_a_turn_number_under_which_two_things_are_said_is_two_turns(made):
    one = made(row("a", called=["deploy"]), row("b", called=["list_runs"]))
    assert [(q.id, q.request.text) for q in one.dataset.queries] == [("c-0", "a"), ("c-0.2", "b")]


def test_numbers_on_some_lines_only_are_not_used(made):
    one = made(row("a", turn=7), row("b", turn=None))
    assert [q.request.turn for q in one.dataset.queries] == [0, 1]


def test_the_same_logs_give_the_same_dataset(made):
    rows = [row(f"t{i} a{i}@x.example", conversation=f"c{i}", called=["deploy"]) for i in range(5)]
    assert made(*rows).dataset.hash == made(*rows).dataset.hash


# ------------------------------------------------------------------------------------------------ bad input


def test_half_a_conversation_is_kept(made):
    one = made(
        row("third", turn=3, called=["deploy"]),
        row("sixth", turn=6),
        row("whole", conversation="d", turn=1),
        row(conversation="e", messages=[{"role": "assistant", "content": "Hm"}], called=["deploy", "list_runs"]),
    )
    assert [q.id for q in one.dataset.queries] == ["c-3", "c-6", "d-1"]
    counts = one.report.counts
    assert (counts["records_without_request"], counts["calls_without_request"]) == (1, 2)


def test_a_line_without_a_user_goes_to_the_turn_before(made):
    lines = [row("Do it.", turn=None), row(turn=None, messages=[{"role": "tool", "content": "x"}], called=["deploy"])]
    one = made(*lines)
    assert len(one.dataset) == 1
    assert state(one) == (["deploy"], "wholly")


def test_invalid_utf8_costs_one_line(made):
    one = made(row("a"), b'{"messages": "\xff"}', row("b", turn=1))
    assert len(one.dataset) == 2
    assert one.report.counts["lines_unreadable"] == 1
    assert "invalid UTF-8" in one.report.examples[0]
    assert "line 2" in one.report.examples[0]


def test_lines_and_calls_that_stand_there_twice_count_once(made):
    line = row("a", called=[{"tool": "deploy", "call": "1"}, {"tool": "deploy", "call": "1"}])
    one = made(line, line, row("b", turn=1))
    assert len(one.dataset) == 2
    assert (one.report.counts["lines_twice"], one.report.counts["calls_ok"]) == (1, 1)
    assert one.report.counts["lines"] == 3


def test_a_line_again_in_another_file_counts_once(log):
    paths = (log(row("a", called=["deploy"]), name="one.jsonl"), log(row("a", called=["deploy"]), name="two.jsonl"))
    source = TraceSource(logs=paths, catalog=TOOLS)
    one = import_traces(source, TraceSettings(name="mine"), redact=None)
    assert len(one.dataset) == 1
    assert one.report.counts["lines_twice"] == 1


def test_a_log_of_another_catalog_is_refused(made):
    with pytest.raises(ParameterError) as caught:
        made(row(offered=["x", "y"], called=["x"]))
    text = str(caught.value)
    for part in ("none of the 2 names", "'x' and 'y'", "'tool:s:create_issue'", "Check that this is the catalog"):
        assert part in text


def test_a_log_that_names_nothing_gives_unlabelled_queries(made):
    one = made(row(offered=None, called=None))
    assert state(one) == ([], "unlabelled")


def test_names_that_are_not_found_are_counted_and_listed(made):
    catalog = Catalog([*TOOLS, Item(type="tool", server="t", name="deploy")])
    one = made(row(offered=ALL, called=["deploy", "list_runs", "mail", "mail"]), catalog=catalog)
    assert one.report.unknown == {"mail": 2}
    assert one.report.ambiguous == {"deploy": 2}
    assert (one.report.counts["calls_outside_catalog"], one.report.counts["calls_ambiguous"]) == (2, 1)
    assert state(one) == (["list_runs"], "partly")
    names = one.report.as_dict()["names"]
    assert (names["unknown"], names["ambiguous"]) == ({"mail": 2}, {"deploy": 2})
    assert "names not in the catalog: 'mail' (2); pass --renames FILE for renamed items" in one.report.lines()


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"turn": -1}, "'turn' must be a whole number"),
        ({"turn": True}, "'turn' must be a whole number"),
        ({"time": "noon"}, "'time' must be ISO 8601"),
        ({"user": ["a"]}, "'user' must be a text"),
        ({"messages": [3]}, "expected a list of messages"),
        ({"offered": "deploy"}, "'offered' must be a list"),
        ({"offered": [3]}, "'offered', entry 1"),
        ({"exposure": "some"}, "'exposure' must be full or partial"),
        ({"called": "deploy"}, "'called' must be a list"),
        ({"called": [{"tool": "deploy", "status": "fine"}]}, "status must be one of ok, error, unknown_tool"),
        ({"called": [{"status": "ok"}]}, "'called', entry 1"),
        ({"offered": "*", "exposure": "partial"}, "is partial, but 'offered' is '*'"),
        ({"time": "0001-01-01T00:00:00+05:00"}, "'time' must be ISO 8601"),
        ({"messages": [{"role": "user", "content": json.loads("[" * 400 + "]" * 400)}] * 2, "turn": -1}, "'turn'"),
        ({"needs": "something"}, "'needs' must be 'nothing'"),
        ({"needs": "nothing", "called": ["deploy"]}, "but something was called"),
        ({"scope": 3}, "'scope' must be a text"),
        ({"scope": "a", "available": []}, "exclude each other"),
        ({"session": [{"name": "deploy", "mode": "agent"}]}, "always or manual"),
        ({"tool_results": ["x"]}, "'tool_results', entry 1"),
    ],
)
def test_a_line_that_is_wrong_is_left_out_and_named(made, fields, fault):
    one = made(row("good", called=["deploy"]), row("bad", turn=1) | fields)
    assert [q.request.text for q in one.dataset.queries] == ["good"]
    assert fault in one.report.examples[0]
    assert "line 2" in one.report.examples[0]


def test_a_file_of_another_kind_is_an_error_that_lists_its_lines(made):
    with pytest.raises(InputError) as caught:
        made(row("a"), "not json", '{"level": "info", "msg": "started"}', "[1, 2]")
    text = str(caught.value)
    assert "3 lines cannot be read, 1 can" in text
    assert "neither a turn" in text
    assert "'level', 'msg'" in text


@pytest.mark.parametrize("lines", [[], [""], [row(messages=[], called=["deploy"])]])
def test_a_log_without_turns_is_an_error(made, lines):
    with pytest.raises(ParameterError, match="no turn in"):
        made(*lines)


def test_a_missing_log_is_an_error(tmp_path):
    source = TraceSource(logs=(tmp_path / "none.jsonl",), catalog=TOOLS)
    with pytest.raises(StorageError, match="cannot read"):
        import_traces(source, TraceSettings(name="mine"), redact=None)
    with pytest.raises(ParameterError, match="at least one log"):
        TraceSource(logs=(), catalog=TOOLS)
    with pytest.raises(ParameterError, match="history"):
        TraceSettings(name="mine", history=-1)


def test_fields_that_nothing_reads_are_named(made):
    one = made(row("a", model="m", conversation_id="x"), row("b", turn=1, model="m"))
    assert one.report.ignored == {"model": 2, "conversation_id": 1}
    hint = "; did you mean 'conversation' by 'conversation_id'?"
    assert f"ignored fields: 'model' (2), 'conversation_id' (1){hint}" in one.report.lines()


# ------------------------------------------------------------------------------------------------ redaction


def test_every_text_is_redacted_and_the_same_secret_alike(made):
    mail = "anna@corp.example"
    one = made(
        row(f"Write to {mail}.", user=mail, workspace="corp", answer=f"Sent to {mail}.", conversation=f"c {mail}"),
        row("And bob@corp.example?", user="U77X", conversation=f"c {mail}", turn=1,
            tool_results=[{"tool": "deploy", "text": f"{mail} asked U77X"}]),
    )  # fmt: skip
    first, second = (query.request for query in one.dataset.queries)
    assert (first.text, first.user, first.workspace) == ("Write to <mail-1>.", "<mail-1>", "<workspace-1>")
    assert second.text == "And <mail-2>?"
    assert [m.content for m in second.history] == ["Write to <mail-1>.", "Sent to <mail-1>."]
    assert second.tool_results == (("deploy", "<mail-1> asked <user-1>"),)
    assert second.user == "<user-1>"
    assert first.conversation == "c_mail-1"
    everything = repr(one.dataset.queries) + repr(one.dataset.card) + repr(one.exposures)
    assert "corp" not in everything
    assert "U77X" not in everything
    assert one.report.as_dict()["redaction"]["mail"]["distinct"] == 2


def test_names_of_the_catalog_are_never_redacted(made):
    catalog = Catalog([*TOOLS, Item(type="tool", server="Linear", name="k9Xz2LmZ7tRb4WvY1cNd8HsJ3gPxQ6e0A")])
    text = "Hi Linear, run k9Xz2LmZ7tRb4WvY1cNd8HsJ3gPxQ6e0A"
    assert made(row(text), catalog=catalog).dataset.queries[0].request.text == text


def test_redaction_can_be_off_and_the_report_says_so(made):
    one = made(row("Write to anna@corp.example."), redact=False)
    assert one.dataset.queries[0].request.text == "Write to anna@corp.example."
    assert one.report.as_dict()["redaction"] == "off"
    assert any("redaction was off" in line for line in one.report.lines())


# ------------------------------------------------------------------------------------------------ files


def test_an_import_is_written_as_a_dataset_that_validates(made, tmp_path):
    one = made(row("a", called=["deploy"]), row("b", turn=1, offered=["deploy"], called=["deploy"]))
    write_import(one, tmp_path / "out")
    assert validate(tmp_path / "out") == []
    dataset = read_dataset(tmp_path / "out")
    assert dataset.hash == one.dataset.hash
    assert dataset.labels == one.dataset.labels
    assert list(read_exposures(tmp_path / "out").values()) == list(one.exposures)
    assert dataset.about["notes"]["traces"]["labels"] == {"labels_full": 1, "labels_partial": 1, "share_full": 0.5}
    assert "50% of them from turns that were offered everything" in dataset.about["labelling"]
    assert dataset.unlabelled == ("c-1",)


def test_the_card_has_the_counts_of_the_dataset(made):
    calls = [{"called": ["deploy"]}, {"offered": ["deploy"], "called": ["deploy"]}, {}, {}, {"needs": "nothing"}]
    dataset = made(*(row(f"text {i}", conversation=f"c{i}", **fields) for i, fields in enumerate(calls))).dataset
    assert (len(dataset), dataset.counts["unlabelled"], dataset.counts["partly_labelled"]) == (5, 3, 1)
    text = dataset.about["labelling"]
    assert re.findall(r"[0-9]+", text.partition("Of ")[2]) == ["5", "2", "1", "2", "1"]  # in full, in part, not at all


def test_the_note_on_a_catalog_counts_all_of_its_items():
    items = [
        *TOOLS,
        Item(type="rule", name="tone", include="always"),
        Item(type="rule", name="style", text="Be brief."),
    ]
    (note, _) = label_notes(SimpleNamespace(family="log"), None, Catalog(items))
    assert sum(map(int, re.findall(r"[0-9]+", note))) == len(items)


def test_an_earlier_import_is_replaced_with_its_exposures(made, tmp_path):
    write_import(made(row("a", called=["deploy"]), row("b", turn=1)), tmp_path / "out")
    write_import(made(row("c", called=["deploy"])), tmp_path / "out")
    assert list(read_exposures(tmp_path / "out")) == ["c-0"]


def test_labels_by_a_person_are_not_lost(made, tmp_path):
    one = made(row("a", called=["deploy"]))
    write_import(one, tmp_path / "out")
    labelled = one.dataset.take(["c-0"])
    object.__setattr__(labelled, "labels", (*labelled.labels, Label("c-0", RUNS, 2, source="person")))
    write_dataset(labelled, tmp_path / "out")
    with pytest.raises(ParameterError, match="labels by person, which would be lost"):
        write_import(one, tmp_path / "out")
    assert (tmp_path / "out" / EXPOSURE).exists()


def test_a_frozen_import_keeps_its_exposures(made, tmp_path):
    one = made(row("a", called=["deploy"]))
    write_import(one, tmp_path / "out")
    card = tmp_path / "out" / "dataset.yaml"
    card.write_text(card.read_text() + f"frozen: {one.dataset.hash}\n")
    with pytest.raises(ParameterError, match="a frozen dataset"):
        write_import(made(row("b", called=["deploy"])), tmp_path / "out")
    assert list(read_exposures(tmp_path / "out")) == ["c-0"]


def test_another_dataset_is_not_replaced(made, tmp_path):
    one = made(row("a", called=["deploy"]))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "dataset.yaml").write_text("name: other\n")
    with pytest.raises(ParameterError, match="another dataset"):
        write_import(one, tmp_path / "out")
    refuse_overwriting(tmp_path / "new")


def test_the_scopes_of_a_dataset_come_with_its_catalog(tmp_path):
    assert scopes_of(tmp_path) == {}
    (tmp_path / "dataset.yaml").write_text("scopes: {ops: [tool:s:deploy]}\n")
    assert scopes_of(tmp_path) == {"ops": (DEPLOY,)}


def test_progress_is_told_in_bytes_and_turns(log):
    told = []
    source = TraceSource(logs=(log(*(row(f"t{i}", turn=i) for i in range(3))),), catalog=TOOLS)
    import_traces(source, TraceSettings(name="mine"), redact=None, progress=lambda *args: told.append(args))
    assert told[-1] == ("labelling turns", 3, 3)
    size = source.logs[0].stat().st_size
    assert [(done <= total, total) for what, done, total in told if "bytes" in what] == [(True, size)] * 3


def test_counts_add_up_for_every_turn(made):
    rows = [row(f"text {i}", turn=i, offered=ALL[: 1 + i % 4], called=[ALL[0]] * (i % 3)) for i in range(24)]
    counts = made(*rows).report.counts
    assert counts["turns"] == 24 == counts["turns_full"] + counts["turns_partial"]
    states = ("complete", "partly", "unlabelled", "nothing")
    assert sum(counts[f"queries_{name}"] for name in states) == 24


# ------------------------------------------------------------------------------------------------ what is doubtful


def asked(text="Do it."):
    return {"role": "user", "content": text}


def said(*named, text=None):
    """A message of the assistant's with calls: (id, name)."""
    calls = [{"id": i, "function": {"name": n}} for i, n in named]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def gave(call_id, text="fine"):
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def listed(*messages, **fields):
    """A line whose calls stand in its messages."""
    return {"conversation": "c", "messages": list(messages), "offered": ALL} | fields


def test_calls_of_several_tools_under_one_id_are_all_labels_and_doubtful(made):
    one = made(
        listed(asked(), said(("call_0", "deploy")), gave("call_0"), said(("call_0", "list_runs")), gave("call_0"))
    )
    assert state(one) == (["list_runs", "deploy"], "partly")


def test_calls_of_one_tool_under_one_id_are_as_many_as_there_are(made):
    once = [said(("call_0", "deploy")), gave("call_0")]
    one = made(listed(asked(), *once, *once), listed(asked(), *once))
    assert state(one) == (["deploy"], "wholly")
    assert one.report.counts["calls_ok"] == 2


def test_an_empty_id_is_none(made):
    one = made(listed(asked(), said(("", "deploy"), ("", "list_runs")), gave(""), gave("", "Error: quota")))
    assert state(one) == (["deploy"], "partly")
    assert (one.report.counts["calls_ok"], one.report.counts["calls_error"]) == (1, 1)
    named = made(row(called=[{"tool": "deploy", "call": ""}, {"tool": "list_runs", "call": ""}]))
    assert state(named) == (["list_runs", "deploy"], "wholly")


def test_a_call_without_an_id_failed_if_a_later_line_says_so(made):
    first = said((None, "deploy"))
    assert state(made(listed(asked(), first), listed(asked(), first, gave(None, "Error: quota")))) == ([], "unlabelled")


def test_a_name_of_what_the_request_may_get_that_the_catalog_does_not_have_leaves_exposure_partial(made):
    one = made(row(called=["deploy"], available=["deploy", "undeploy"], offered="*"))
    assert (state(one), one.exposures[0].full) == ((["deploy"], "partly"), False)
    assert one.report.counts["available_unknown"] == 1


@pytest.mark.parametrize(
    "fields", [{"available": []}, {"available": ["undeploy"], "called": ["deploy"]}, {"scope": "nowhere"}]
)
def test_where_nobody_knows_what_the_request_may_get_exposure_is_partial(made, fields):
    assert not made(row(offered="*", **fields)).exposures[0].full


@pytest.mark.parametrize("fields", [{"trace_id": "t1"}, {"context": {"page": 3}}, {"span_id": "s1", "trace_id": "t1"}])
def test_a_turn_may_name_its_trace_and_hold_a_context(made, fields):
    assert state(made(row(called=["deploy"], **fields))) == (["deploy"], "wholly")


def test_a_message_with_a_result_is_no_message_of_the_users(made):
    result = {"type": "tool_result", "tool_use_id": "k", "content": "fine"}
    messages = [
        asked("Open it."),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "k", "name": "deploy", "input": {}}]},
        {"role": "user", "content": [result, {"type": "text", "text": "<reminder>The list is empty.</reminder>"}]},
        {"role": "assistant", "content": "Done."},
    ]
    one = made(listed(*messages))
    assert [query.request.text for query in one.dataset.queries] == ["Open it."]
    assert state(one) == (["deploy"], "wholly")


def test_a_call_that_fails_in_the_messages_of_the_next_turn_is_no_label(made):
    first = [asked("Deploy it."), said(("k", "deploy"))]
    result = {"type": "tool_result", "tool_use_id": "k", "content": "no", "is_error": True}
    denied = {"role": "user", "content": [result, {"type": "text", "text": "List the runs first."}]}
    imported = made(listed(*first), listed(*first, denied, said(("l", "list_runs")), gave("l")))
    assert [query.request.text for query in imported.dataset.queries] == ["Deploy it.", "List the runs first."]
    assert [state(imported, query) for query in (0, 1)] == [([], "unlabelled"), (["list_runs"], "wholly")]


def test_calls_of_earlier_turns_that_have_no_line_are_counted(made):
    first = [asked("One."), said(("1", "deploy")), gave("1"), {"role": "assistant", "content": "Done."}]
    second = [asked("Two."), said(("2", "list_runs")), gave("2")]
    whole = made(listed(*first, *second))
    assert (len(whole.dataset), state(whole)) == (1, (["list_runs"], "wholly"))
    assert whole.report.counts["calls_of_earlier_turns"] == whole.report.counts["requests_of_earlier_turns"] == 1
    assert [message_code(line) for line in whole.report.lines()].count("CTX6182") == 1
    assert made(listed(*first), listed(*first, *second)).report.counts["calls_of_earlier_turns"] == 0


def test_a_window_of_messages_that_moves_on_is_one_turn(made):
    old = [asked("Old."), {"role": "assistant", "content": "Yes."}]
    now = [asked("New."), said(("1", "deploy")), gave("1"), said(("2", "list_runs")), gave("2")]
    one = made(listed(*old, *now[:2]), listed(old[1], *now[:4]), listed(*now))
    assert [query.request.text for query in one.dataset.queries] == ["New."]
    assert state(one) == (["list_runs", "deploy"], "wholly")


def test_an_unknown_tool_is_one_that_was_not_offered(made):
    lines = asked(), said(("1", "deploy")), gave("1", "Unknown tool: deploy"), said(("2", "list_runs")), gave("2")
    assert made(listed(*lines)).dataset.queries[0].tags == ("full-exposure",)
    assert made(listed(*lines)).report.counts["calls_error"] == 1
    assert "unknown-tool" in made(listed(*lines, offered=["list_runs"])).dataset.queries[0].tags


def test_an_ambiguous_name_is_the_item_that_was_offered(made):
    twins = Catalog([Item(type="tool", server=server, name="search") for server in ("wiki", "tracker")])
    one = made(row(offered=["wiki.search"], called=["search"]), catalog=twins)
    assert [label.item.id for label in one.dataset.labels] == ["tool:wiki:search"]
    two = made(row(offered="*", called=["search"]), row(turn=1, called=["wiki.search"]), catalog=twins)
    assert [label.item.id for label in two.dataset.labels] == ["tool:wiki:search"]


def test_a_turn_without_text_is_never_wholly_labelled(made):
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    assert state(made(row(messages=[image], called=["deploy"]))) == (["deploy"], "partly")


@pytest.mark.parametrize(
    ("following", "again"),
    [
        ("No, the other one.", True),
        ("Nope", True),
        ("Again, please", True),
        ("No, thanks!", False),
        ("no problem, now list the builds", False),
        ("again, thank you", False),
    ],
)
def test_an_answer_that_begins_with_no_is_no_complaint_if_it_is_thanks(made, following, again):
    one = made(row("Open a bug.", called=["deploy"]), row(following, turn=1))
    assert ("asked-again" in one.dataset.queries[0].tags) is again


# ------------------------------------------------------------------------------------------------ writing


def test_exposures_and_queries_are_written_in_one_step(made, tmp_path, monkeypatch):
    write_import(made(row(called=["deploy"])), tmp_path / "out")
    (tmp_path / "out" / "notes.md").write_text("mine")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}

    def full(*_):
        raise StorageError("the disk is full")

    monkeypatch.setattr("ctxbench.labelling.trace_import.write_exposures", full)
    with pytest.raises(StorageError, match="full"):
        write_import(made(row("Other.", called=["list_runs"])), tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()} == before
    monkeypatch.undo()
    write_import(made(row("Other.", called=["list_runs"])), tmp_path / "out")
    assert read_dataset(tmp_path / "out").queries[0].request.text == "Other."
    assert read_exposures(tmp_path / "out")["c-0"].called == (RUNS,)
    assert (tmp_path / "out" / "notes.md").read_text() == "mine"


def test_an_import_with_answers_is_not_replaced(made, tmp_path):
    write_import(made(row(called=["deploy"])), tmp_path / "out")
    (tmp_path / "out" / "labelling").mkdir()
    (tmp_path / "out" / "labelling" / "answers.jsonl").write_text("")
    refuse_overwriting(tmp_path / "out")
    (tmp_path / "out" / "labelling" / "answers.jsonl").write_text("{}\n")
    with pytest.raises(ParameterError, match=r"answers of `data label`"):
        refuse_overwriting(tmp_path / "out")


def test_a_folder_of_something_else_is_not_replaced(made, tmp_path):
    (tmp_path / "notes.md").write_text("mine")
    with pytest.raises(ParameterError, match="is not a dataset"):
        write_import(made(row()), tmp_path)


def test_ids_of_traces_stay_and_numbers_of_people_do_not(made):
    trace, phone, user = "0" * 29 + "123", "491701234567", "1234567890123456789"
    imported = made(
        row("a", conversation=trace), row(f"{trace} b", conversation=phone), row("c", conversation=user, user=user)
    )
    requests = [query.request for query in imported.dataset.queries]
    assert requests[0].conversation == trace
    assert not {phone, user} & {request.conversation for request in requests}
    assert trace not in requests[1].text


def test_ids_of_users_leave_texts_and_the_ids_of_conversations(made):
    one = made(
        row("Ask annamueller and 424242.", conversation="chat_annamueller_1", user="annamueller", called=["deploy"]),
        row("Ok.", conversation="d", user="424242"),
        tools := row("Read.", conversation="e", tool_results=[{"tool": "of anna@x.example", "text": "ok"}]),
    )
    assert tools["conversation"] == "e"
    first, _, third = one.dataset.queries
    assert (first.id, first.request.text) == ("chat__user-1__1-0", "Ask <user-1> and <user-2>.")
    assert third.request.tool_results == (("of <mail-1>", "ok"),)


def test_fields_that_are_nearly_those_of_a_turn_are_said():
    assert [meant_field(name) for name in ("ofered", "call")] == [
        "; did you mean 'offered' by 'ofered'?",
        "; did you mean 'called' by 'call'?",
    ]
    assert [meant_field(name) for name in ("called", "model")] == ["", ""]


def test_a_call_of_an_item_that_did_not_exist_yet_makes_no_label(tmp_path):
    catalog = Catalog([Item(type="file", name="docs/a.md", text="a", created="2026-02-01T00:00:00+00:00")])
    (tmp_path / "log.jsonl").write_text(
        "".join(
            json.dumps(
                {"text": f"read it {month}", "time": f"2026-{month}-15T00:00:00Z", "called": ["file:docs%2Fa.md"]}
            )
            + "\n"
            for month in ("01", "03")
        )
    )
    source = TraceSource(logs=(tmp_path / "log.jsonl",), catalog=catalog)
    done = import_traces(source, TraceSettings(name="x"), redact=None)
    assert [label.query for label in done.dataset.labels] == [done.dataset.queries[1].id]
    assert done.report.counts["calls_not_available"] == 1
