"""Replies out of stored conversations and logs."""

from __future__ import annotations

import json

import pytest

from ctxbench.core.errors import InputError, ParameterError, StorageError
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Message
from ctxbench.data.usage import read_replies
from ctxbench.session import ConversationStore, Exchange
from ctxbench.session.exchange import Held

FETCH = ItemKey("tool", "web", "fetch")


@pytest.fixture
def store(tmp_path):
    made = ConversationStore(tmp_path / "c.jsonl")
    context = (Held(FETCH, "agent", 0.5, ""), Held(ItemKey("rule", None, "tone"), "always", None, ""))
    made.append(Exchange(conversation="c1", text="One?", reply="Yes.", context=context, calls=("web__fetch",)))
    history = (Message("user", "One?"), Message("assistant", "Yes."))
    made.append(Exchange(conversation="c1", text="Two?", reply="No.", context=context, history=history, calls=("x",)))
    return made


TURN = {
    "conversation": "k",
    "messages": [
        {"role": "user", "content": "Read it"},
        {"role": "assistant", "content": "Reading.", "tool_calls": [{"id": "1", "function": {"name": "fetch"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "text"},
        {"role": "assistant", "content": "It says api-v2."},
    ],
    "offered": ["fetch", "send"],
}


@pytest.mark.parametrize("with_catalog", [False, True])
def test_stored_conversations(store, catalog, with_catalog):
    first, second = read_replies([store.path], catalog if with_catalog else None).replies
    assert first.offered == {FETCH: "agent", ItemKey("rule", None, "tone"): "always"}
    assert first.called == (FETCH,)
    assert (first.user_messages, first.text, first.where) == (("One?",), "Yes.", f"{store.path}, line 1")
    assert second.user_messages == ("One?", "Two?")
    assert (second.called, second.unknown) == ((), ("x",))
    assert first.conversation == second.conversation


def test_logs(write, catalog):
    (reply,) = read_replies([write("log.jsonl", TURN)], catalog).replies
    assert reply.offered == {FETCH: "", ItemKey("tool", "mail", "send"): ""}
    assert reply.called == (FETCH,)
    assert reply.user_messages == ("Read it",)
    assert "It says api-v2." in reply.text
    assert reply.where.endswith("log.jsonl, conversation k, turn 1")


def test_a_turn_is_named_by_the_logs_own_number(write, catalog):
    (reply,) = read_replies([write("log.jsonl", {**TURN, "turn": 7})], catalog).replies
    assert reply.where.endswith("log.jsonl, conversation k, turn 7")


def test_logs_without_a_catalog_name_tools(write):
    found = read_replies([write("log.jsonl", TURN)])
    assert found.catalog.ids == ("tool:fetch", "tool:send")
    assert found.replies[0].called == (ItemKey("tool", None, "fetch"),)


def test_what_a_log_says_of_the_session_is_offered(write, catalog):
    row = {**TURN, "session": [{"id": "rule:tone", "mode": "always"}]}
    (reply,) = read_replies([write("log.jsonl", row)], catalog).replies
    assert reply.offered[ItemKey("rule", None, "tone")] == "always"


def test_a_log_that_does_not_say_what_was_offered(write, catalog):
    (reply,) = read_replies([write("log.jsonl", {k: v for k, v in TURN.items() if k != "offered"})], catalog).replies
    assert reply.offered is None


def test_a_log_that_says_everything_was_offered_needs_a_catalog(write, catalog):
    path = write("log.jsonl", {**TURN, "offered": "*"})
    (reply,) = read_replies([path], catalog).replies
    assert set(reply.offered) == {item.key for item in catalog}
    with pytest.raises(ParameterError, match="says that everything was offered; name the items with --catalog"):
        read_replies([path])


def test_everything_is_everything_that_was_available(write, catalog):
    row = {**TURN, "offered": "*"}
    (reply,) = read_replies([write("log.jsonl", {**row, "available": ["send"]})], catalog).replies
    assert set(reply.offered) == {ItemKey("tool", "mail", "send")}
    (reply,) = read_replies([write("log.jsonl", {**row, "scope": "mine"})], catalog).replies
    assert reply.offered is None  # which items a scope has stands in a dataset


def test_replies_that_name_nothing_of_the_catalog_are_refused(write):
    other = Catalog([Item(type="tool", name="other", description="x")])
    with pytest.raises(
        ParameterError, match=r"names of the replies is in the catalog: .*; the catalog holds 'tool:other'\. Is"
    ):
        read_replies([write("log.jsonl", TURN)], other)


def test_the_same_conversation_in_two_files_is_two(store, tmp_path):
    other = tmp_path / "d.jsonl"
    other.write_bytes(store.path.read_bytes())
    assert len({reply.conversation for reply in read_replies([store.path, other]).replies}) == 2


def test_a_faulty_line_of_a_store_stops_and_one_of_a_log_is_counted(store, write, catalog):
    with store.path.open("a") as stream:
        stream.write("{}\n")
    with pytest.raises(InputError, match=r"c\.jsonl, line 3"):
        read_replies([store.path])
    found = read_replies([write("log.jsonl", TURN, {**TURN, "conversation": "l"}, "{")], catalog)
    assert len(found.replies) == 2
    assert [fault.line for fault in found.faults] == [3]


def test_files_without_a_reply_are_refused(write, tmp_path):
    with pytest.raises(ParameterError, match=r"no reply in .*empty\.jsonl: expected stored conversations or a log"):
        read_replies([write("empty.jsonl")])
    with pytest.raises(InputError, match="neither a turn"):
        read_replies([write("other.jsonl", {"a": 1})])
    with pytest.raises(StorageError, match="cannot read"):
        read_replies([tmp_path / "none.jsonl"])


def test_a_conversation_of_no_offers_is_read(tmp_path):
    row = {"conversation": "c", "text": "hi", "reply": "yes", "requestContext": {"items": []}}
    path = tmp_path / "c.jsonl"
    path.write_text(json.dumps(row))
    assert read_replies([path]).replies[0].offered == {}


def test_conversations_of_two_workspaces_are_never_mixed_whatever_they_are_called(write):
    def line(place, text, turn):
        said = [{"role": "user", "content": text}, {"role": "assistant", "content": "ok"}]
        return {"conversation": "1", "workspace": place, "turn": turn, "messages": said, "offered": ["alpha"]}

    places = ("north", "south")
    path = write("log.jsonl", *(line(place, f"{turn} of {place}", turn) for turn in (0, 1) for place in places))
    assert [reply.user_messages for reply in read_replies([path]).replies] == [
        ("0 of north",), ("0 of north", "1 of north"), ("0 of south",), ("0 of south", "1 of south"),
    ]  # fmt: skip
    assert len({reply.conversation for reply in read_replies([path]).replies}) == 2


def test_requests_that_hold_the_messages_before_them_are_one_conversation(write):
    said = [{"role": role, "content": text} for role, text in (("user", "One?"), ("assistant", "Yes."))]
    more = [*said, {"role": "user", "content": "Two?"}, {"role": "assistant", "content": "No."}]
    other = [{"role": "user", "content": "Else?"}, {"role": "assistant", "content": "Maybe."}]
    path = write("log.jsonl", *({"messages": messages, "offered": ["alpha"]} for messages in (said, other, more)))
    replies = read_replies([path]).replies
    assert [reply.text for reply in replies] == ["Yes.", "No.", "Maybe."]
    assert [reply.conversation == replies[0].conversation for reply in replies] == [True, True, False]
    assert [reply.where.rpartition("log.jsonl, ")[2] for reply in replies] == [
        "conversation at 1, turn 1", "conversation at 1, turn 2", "conversation at 2, turn 1",
    ]  # fmt: skip
