"""`ctxbench usage`: what replies make use of, and what could be offered less."""

from __future__ import annotations

import json

import pytest

from ctxbench.core.items import ItemKey
from ctxbench.session import ConversationStore, Exchange
from ctxbench.session.exchange import Held

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


def test_counts_and_suggestions(cli, store, catalog):
    done = cli("usage", store.path.name, "--catalog", catalog, "--tokens", "chars/4")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "40 replies of 8 conversations: 3 items offered, 1 of them referenced"
    assert lines[2].split() == [
        *("offered", "referenced", "share,", "95%", "interval", "tokens", "unused", "item"),
    ]
    (alpha,) = [line.split() for line in lines if line.endswith("tool:alpha")]
    assert alpha[:4] == ["40", "8", "20.0", "%"]
    assert "last called: “alpha” (chats.jsonl, line 36)" in done.out
    assert "  rule:zeta: set its include mode to agent, 160 tokens" in lines  # 40 offers of "Rule: Eta theta."
    assert "    never called in 40 offers of 8 conversations" in lines
    assert lines[-1].startswith(
        "35 offers in 5 conversations without a single reference: then it is 95% sure that at most 10%"
    )
    assert "20.0 % (10.5 to 34.8 %)" in done.out


def test_json_says_all_of_it(cli, store, catalog):
    data = cli("usage", store.path, "-c", catalog, "--json", "--tokens", "chars/4").json
    assert {item["id"]: item["referenced"] for item in data["items"]} == {
        "rule:zeta": 0,
        "tool:alpha": 8,
        "tool:delta": 0,
    }
    assert sorted(one["id"] for one in data["suggestions"]) == ["rule:zeta", "tool:delta"]
    assert data["saved"] == sum(one["saved"] for one in data["suggestions"])
    assert data["tokens"] == "chars/4"


def test_without_a_catalog_only_tools_are_judged(cli, store):
    done = cli("usage", store.path)
    assert "tool:delta: set its include mode to manual\n" in done.out
    assert "rule:zeta: set" not in done.out
    assert "not judged, since without a text (--catalog) no quotation is seen: 1 item\n" in done.out
    assert "tokens" not in done.out


def test_too_few_offers_say_how_many_more(cli, store):
    done = cli("usage", store.path, "--share", "0.05")  # takes 73
    assert "no suggestion\n" in done.out
    assert "  tool:delta: needs 33 more offers\n" in done.out


def test_top_says_how_many_items_are_shown(cli, store):
    assert "and 2 more (--top, --json)" in cli("usage", store.path, "--top", "1").out


def test_a_log_counts_too_and_its_faulty_lines_are_named(cli, place, catalog):
    said = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "the zeta rule"}]
    turn = {"conversation": "k", "messages": said, "offered": ["alpha"], "session": [{"id": "rule:zeta"}]}
    other = {**turn, "conversation": "l"}
    (place / "log.jsonl").write_text(f"{json.dumps(turn)}\n{json.dumps(other)}\n{{\n")
    done = cli("usage", "log.jsonl", "--catalog", catalog)
    assert done.code == 0
    assert done.err.startswith("warning: 1 fault in logs passed over, the first: malformed JSON")
    assert "last name: “zeta rule” (log.jsonl, conversation l, turn 1)" in done.out


def test_nothing_offered_is_said(cli, place):
    row = {"conversation": "c", "text": "hi", "reply": "yes", "requestContext": {"items": []}}
    (place / "c.jsonl").write_text(json.dumps(row) + "\n")
    done = cli("usage", "c.jsonl")
    assert done.out.startswith("1 reply of 1 conversation: 0 items offered, 0 of them referenced\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.jsonl"], "cannot read none.jsonl"),
        (["empty.jsonl"], "no reply in empty.jsonl"),
        (["faulty.jsonl"], "field 'items', entry 1: expected"),
        (["chats.jsonl", "--catalog", "none"], "none"),
        (["chats.jsonl", "./chats.jsonl"], "chats.jsonl is named twice, so that its replies would count twice"),
        (["chats.jsonl", "--share", "1.5"], "share must lie between 0 and 1, got 1.5"),
        (["chats.jsonl", "-c", "items.jsonl", "--tokens", "words"], "words"),
    ],
)
def test_bad_input_is_one_message(cli, store, catalog, write, arguments, message):
    write("empty.jsonl", "")
    write("faulty.jsonl", '{"conversation": "c", "requestContext": {"items": [{}]}}\n')
    done = cli("usage", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert message in done.err
