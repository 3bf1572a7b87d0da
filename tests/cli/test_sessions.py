"""`ctxbench select` with a session and a history."""

from __future__ import annotations

import json

import pytest

from ctxbench.cli.select import read_history
from ctxbench.io.errors import InputError
from ctxbench.model.items import ItemKey
from ctxbench.model.requests import Message
from ctxbench.selectors.conversations import ConversationStore, Exchange, Held

ROWS = [
    {"_id": "tool:alpha", "description": "beta gamma"},
    {"_id": "tool:delta", "description": "epsilon"},
    {"_id": "rule:zeta", "text": "Eta theta.", "include": "always"},
    {"_id": "rule:iota", "text": "Kappa lambda.", "include": "manual"},
]


@pytest.fixture
def catalog(place):
    path = place / "items.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return path


@pytest.fixture
def select(cli, catalog):
    def run(text, *arguments):
        return cli("select", text, "--catalog", catalog, "--embedder", "hashing", *arguments)

    return run


@pytest.fixture
def write(place):
    def made(name, text):
        (place / name).write_text(text)
        return name

    return made


@pytest.fixture
def store(place):
    """Eight conversations of five replies: alpha is called in one reply of each, zeta never cited."""
    made = ConversationStore(place / "chats.jsonl")
    context = (
        Held(ItemKey("rule", None, "zeta"), "always", None, ""),
        Held(ItemKey("tool", None, "alpha"), "agent", 0.5, ""),
        Held(ItemKey("tool", None, "delta"), "agent", 0.4, ""),
    )
    for i in range(8):
        for j in range(5):
            calls = ("alpha",) if j == 0 else ()
            made.append(Exchange(conversation=f"c{i}", text="Go.", reply="Done.", context=context, calls=calls))
    return made


def test_a_session_says_what_is_in_and_what_may_be_found(select, write):
    text = '{"items": [{"id": "rule:iota"}], "removed": ["tool:delta"], "settings": {"contextTopN": 1}}'
    done = select("beta", "--session", write("s.json", text))
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("semantic: 1 of 1 item offered beside 1 in the session, ")
    assert lines[1] == "not searched: removed from the session: tool:delta; include mode always: rule:zeta"
    assert [line.split()[-1] for line in lines[3:5]] == ["rule:iota", "tool:alpha"]


def test_items_are_added_and_removed_for_this_request_and_no_file_is_changed(select, write, place):
    write("s.json", "{}")
    done = select("epsilon", "--session", "s.json", "--add", "rule:iota", "--remove", "rule:zeta", "--json")
    session = done.json["session"]
    assert session.pop("settings").items() >= done.json["parameters"].items()
    assert session == {
        "id": "s",
        "selector": "semantic",
        "items": [{"id": "rule:iota", "mode": "manual"}],
        "removed": ["rule:zeta"],
    }
    assert done.json["request_context"]["items"][0] == {"type": "rule", "name": "iota", "includeMode": "manual"}
    assert (place / "s.json").read_text() == "{}"
    assert sorted(path.name for path in place.iterdir()) == ["items.jsonl", "s.json"]


def test_without_a_session_a_new_one_is_changed(select):
    assert "manual" in select("epsilon", "--add", "rule:iota").out
    assert "always" not in select("epsilon", "--remove", "rule:zeta").out


def test_a_setting_goes_over_the_session_s(select, write):
    session = write("s.json", '{"settings": {"contextTopN": 1, "contextIncludeScore": 1.0}}')
    done = select("epsilon", "--session", session, "--set", "contextTopN=2", "--json")
    assert done.json["parameters"]["contextTopN"] == 2
    assert done.json["parameters"]["contextIncludeScore"] == 1.0


def test_what_the_catalog_lacks_is_a_warning(select, write):
    done = select("epsilon", "--session", write("s.json", '{"items": [{"id": "rule:gone"}]}'))
    assert done.code == 0
    assert done.err == ("warning: session 's' holds 'rule:gone', which is left out: the agent no longer has it\n")


def test_history_is_a_list_of_messages_or_a_stored_conversation(select, write, store):
    said = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "Done."}]
    listed = select("epsilon", "--history", write("h.json", json.dumps(said)), "--messages").json
    assert listed["messages"][:2] == said
    stored = select("epsilon", "--history", f"{store.path.name}#c3", "--messages").json
    assert stored["messages"][:10] == said * 5


def test_a_store_of_one_conversation_need_not_be_named(select, store):
    for i in range(1, 8):
        store.remove(f"c{i}")
    assert len(select("epsilon", "--history", store.path, "--messages").json["messages"]) == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--session", "none.json"], "cannot read none.json"),
        (["--session", "items.jsonl"], "malformed JSON: Extra data (items.jsonl, line 2, column 1)"),
        (["--session", "bad.json"], "a session has no field 'itms'; did you mean 'items'? Known: "),
        (["--session", "own.json", "--preset", "normal"], "own.json has settings of its own (contextTopN); leave"),
        (["--add", "rule:zeta"], "'rule:zeta' is in the session already (mode always); nothing to add"),
        (["--add", "rule:zet"], "no item 'rule:zet' in the catalog; did you mean 'rule:zeta'"),
        (["--remove", "rule:iota"], "'rule:iota' is not in the session, which has rule:zeta"),
        (["--add", "rule:iota", "--set", "contextExpansionDepth=2"], "contextExpansionDepth has no effect while "),
        (["--history", "none.json"], "cannot read none.json"),
        (["--history", "messages.json"], 'message 2: expected {"role", "content"}, both texts, got {\'role\': '),
        (["--history", "messages.json#c1"], "messages.json is a list of messages, not of conversations"),
        (["--history", "items.jsonl"], "expected the messages of one conversation, a JSON list"),
        (["--history", "message.json"], "messages must be a JSON list, "),
        (
            ["--history", "roles.json"],
            "message 2: a message's role is one of system, developer, user, assistant, tool, function, got 'usr'",
        ),
        (["--history", "chats.jsonl"], "chats.jsonl holds 8 conversations; name one, as chats.jsonl#c0; it holds"),
        (["--history", "chats.jsonl#c9"], "chats.jsonl holds no conversation 'c9'; it holds 'c0', 'c1'"),
    ],
)
def test_bad_input_is_one_message(select, write, store, arguments, message):
    write("bad.json", '{"itms": []}')
    write("own.json", '{"settings": {"contextTopN": 1}}')
    write("message.json", '{"role": "user", "content": "a"}')
    write("roles.json", '[{"role": "user", "content": "a"},\n {"role": "usr", "content": "a"}]')
    write("messages.json", '[{"role": "user", "content": "a"},\n {"role": "user"}]')
    done = select("epsilon", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert message in done.err


def test_a_message_that_is_none_has_its_line(select, write):
    done = select("epsilon", "--history", write("m.json", '[\n{"role": "user", "content": "a"},\n\n3]'))
    assert done.err.endswith("got 3 (m.json, line 4)\n")


def test_the_messages_of_a_stored_conversation_are_its_history(store):
    assert store.history("c0")[:2] == (Message("user", "Go."), Message("assistant", "Done."))


def test_a_session_without_search_offers_what_it_holds(select, write):
    write("s.json", '{"settings": {"contextSearchEnabled": false, "contextTopN": 3}}')
    done = select("alpha beta gamma", "--session", "s.json", "--json")
    assert [one["id"] for one in done.json["items"]] == ["rule:zeta"]
    assert done.json["parameters"] == {"contextSearchEnabled": False}
    assert done.json["not_searched"]["the search is off"] == 2
    on = select("alpha beta gamma", "--session", "s.json", "--set", "contextSearchEnabled=true", "--json")
    assert "tool:alpha" in [one["id"] for one in on.json["items"]]


def test_a_history_that_is_written_out_is_read_or_told_what_is_wrong_with_it():
    (message,) = read_history('[{"role": "user", "content": "a"}]')
    assert message.content == "a"
    with pytest.raises(InputError, match=r"malformed JSON: it ends too early.*--history, line 1"):
        read_history('[{"role": "user", "content": "a"')
