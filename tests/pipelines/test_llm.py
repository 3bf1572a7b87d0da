"""The step that asks a language model, against a server on this machine."""

from __future__ import annotations

import json
import math
import re
import threading
import time

import pytest

import ctxbench
from ctxbench.api.selectors import Selected
from ctxbench.io.cache import read_sealed, write_sealed
from ctxbench.io.errors import ParameterError, UserError
from ctxbench.io.http import RefusedError, ServerError
from ctxbench.model.requests import Batch, Message, Request
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.rank import PROMPT, Llm, named_in
from ctxbench.search.resources import AT_ONCE, ChatModel
from ctxbench.testing import check_step, mock_resources
from tests.local_server import Server

CHEAP = {"embedder": "hashing", "counter": "chars/4"}
TOOLS = [
    {"name": "area", "description": "The area of a triangle"},
    {"name": "circle", "description": "The area of a circle"},
    {"name": "mail", "description": "Sends a mail"},
    {"name": "weather", "description": "Weather of tomorrow"},
]


def reply(content, **usage):
    told = {"usage": {"prompt_tokens": 100, "completion_tokens": 7, **usage}}
    return 200, {"choices": [{"message": {"role": "assistant", "content": content}}], **told}


def parts(body):
    """What a server was asked: the request, and the items by their numbers."""
    text = body["messages"][1]["content"]
    request = text.split("Request:\n", 1)[1].split("\n\nItems:\n")[0]
    return request, dict(re.findall(r"^(\d+)\. (.*)$", text.split("\n\nItems:\n", 1)[1], re.MULTILINE))


def by_words(body):
    """Names the items that share a word with the request, most first."""
    request, items = parts(body)
    words = set(re.findall(r"\w{4,}", request.lower()))
    shared = {number: len(words & set(re.findall(r"\w{4,}", text.lower()))) for number, text in items.items()}
    best = sorted((n for n in items if shared[n]), key=lambda n: (-shared[n], items[n]))
    return reply(json.dumps({"needed": [int(n) for n in best]}))


@pytest.fixture
def server(monkeypatch, tmp_path):
    made = Server(by_words)
    monkeypatch.setenv("OPENAI_BASE_URL", made.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")
    yield made
    made.stop()


def pipeline(*before, retrieve="everything", **parameters):
    return ctxbench.pipeline(retrieve, refine=[*before, {"llm": {"model": "tiny", **parameters}}])


def select(text, made, **given) -> Selected:
    return ctxbench.select(text, ctxbench.catalog(TOOLS), selector=made, **CHEAP, **given)


def data():
    queries = [
        {"query": "q1", "text": "the area of a triangle"},
        {"query": "q2", "text": "mail the weather of tomorrow to Ann"},
        {"query": "q3", "text": "hello", "needs": "nothing"},
    ]
    labels = [{"query": "q1", "item": "area"}, {"query": "q2", "item": "mail"}, {"query": "q2", "item": "weather"}]
    return ctxbench.dataset(TOOLS, queries, labels)


def test_what_the_model_names_is_offered_in_its_order(server):
    server.post = lambda _body: reply('{"needed": [4, 1]}')
    found = select("a triangle", pipeline())
    assert found.ids == ["tool:weather", "tool:area"]
    frame = found.to_frame(near=9).set_index("item")
    assert frame.loc["tool:mail", "rule"] == "the language model tiny did not name it"
    assert frame["score"].tolist() == [1.0, 0.5, -1.0, -1.0]  # named, then the others, which everything finds alike
    (post,) = server.posts
    assert server.paths == ["/v1/chat/completions"]
    assert server.headers[0]["Authorization"] == "Bearer sk-nobody"
    assert post["model"] == "tiny"
    assert post["messages"][0] == {"role": "system", "content": PROMPT}
    assert parts(post) == (
        "a triangle",
        {
            "1": "tool area: The area of a triangle",
            "2": "tool circle: The area of a circle",
            "3": "tool mail: Sends a mail",
            "4": "tool weather: Weather of tomorrow",
        },
    )


def test_behind_a_retriever_it_is_shown_what_is_still_offered_and_leaves_some_out(server):
    found = select("area of a triangle", pipeline({"first": {"n": 1}}, retrieve="bm25"))
    assert list(parts(server.posts[0])[1].values()) == ["tool area: The area of a triangle"]
    rules = found.to_frame(near=9).set_index("item")["rule"]
    assert rules["tool:circle"] == "beyond the first n=1"
    server.post = lambda _body: reply('{"needed": []}')
    assert select("the area of a circle", pipeline(retrieve="bm25")).ids == []


def test_it_is_shown_the_conversation_and_told_the_instructions(server):
    history = [{"role": "user", "content": f"message {n}"} for n in range(9)]
    select("mail it", pipeline(history=2, instructions="Rules never apply."), history=history)
    text = server.posts[0]["messages"][1]["content"]
    assert text.startswith("Earlier messages:\nuser: message 7\nuser: message 8\n\nRequest:\nmail it\n")
    assert server.posts[0]["messages"][0]["content"] == f"{PROMPT}\n\nRules never apply."
    select("mail it", pipeline(history=0), history=history)
    assert "Earlier" not in server.posts[1]["messages"][1]["content"]


def test_texts_are_cut_where_they_are_long(server):
    select("mail it", pipeline(characters=9))
    assert parts(server.posts[0])[1]["3"] == "tool mail: Sen..."


def test_it_is_measured_as_any_selector_and_its_cost_counts(server):
    metrics = ["completeness", "tokens", "model_tokens", "model_seconds", "R@1"]
    made = {"all": "everything", "llm": pipeline(), "two": pipeline({"first": {"n": 2}}, retrieve="bm25")}
    res = ctxbench.evaluate(data(), made, baseline="all", metrics=metrics, **CHEAP)
    frame = res.to_frame()
    assert frame["completeness"].tolist() == [1.0, 1.0, 1.0]
    assert frame.loc["llm", "tokens"] < frame.loc["all", "tokens"]
    assert frame.loc["llm", "R@1"] == 0.75  # a ranking of its own; of q2's two items one is first
    assert frame["R@1"].isna().tolist() == [True, False, False]
    assert frame["model_tokens"].isna().tolist() == [True, False, False]
    assert frame.loc["llm", "model_tokens"] == 107.0
    assert frame.loc["two", "model_tokens"] == pytest.approx(107.0 * 2 / 3)  # nothing was found for q3, or asked
    assert frame.loc["llm", "model_seconds"] > 0
    assert len(server.posts) == 5


def test_replies_are_kept_and_cost_what_they_did(server):
    metrics = ["completeness", "model_tokens", "model_seconds"]
    first = ctxbench.evaluate(data(), {"llm": pipeline()}, metrics=metrics, **CHEAP).to_frame()
    asked = len(server.posts)
    server.stop()
    again = ctxbench.evaluate(data(), {"llm": pipeline()}, metrics=metrics, **CHEAP).to_frame()
    assert again.loc["llm"].tolist() == first.loc["llm"].tolist()
    assert asked == len(server.posts) == 3


def test_two_such_steps_cost_both(server):
    two = pipeline({"llm": {"model": "smaller"}})
    frame = ctxbench.evaluate(data(), {"llm": two}, metrics=["completeness", "model_tokens"], **CHEAP).to_frame()
    assert frame.loc["llm", "model_tokens"] == pytest.approx((2 * 214 + 107) / 3)  # q3: the first names nothing


def test_a_server_that_counts_no_tokens_gives_no_figure(server):
    server.post = lambda _body: (200, {"choices": [{"message": {"content": '{"needed": [1]}'}}]})
    frame = ctxbench.evaluate(
        data(), {"llm": pipeline()}, metrics=["completeness", "model_tokens", "model_seconds"], **CHEAP
    ).to_frame()
    assert frame["model_tokens"].isna().all()
    assert frame.loc["llm", "model_seconds"] > 0


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _body: reply("I would take the first one."), "the reply names no items as JSON: 'I would take"),
        (lambda _body: reply(None), "the reply names no items as JSON: ''"),
        (lambda _body: reply('{"needed": [17]}'), "the reply names no items as JSON"),
        (lambda _body: (400, {"error": {"message": "context too long"}}), r"refused \(status 400\): context too long"),
    ],
)
def test_without_a_usable_reply_what_was_found_stays_and_a_note_says_so(server, answer, said):
    server.post = answer
    found = select("area of a circle", pipeline({"first": {"n": 2}}, retrieve="bm25"))
    assert found.ids == ["tool:circle", "tool:area"]
    (note,) = found.notes
    assert note.startswith("rank.llm fell back: ")
    assert re.search(said, note)
    assert note.endswith("the order stays unchanged")
    assert "fell back" in found._repr_html_()


def test_numbers_of_no_item_are_passed_over_with_a_note(server):
    server.post = lambda _body: reply('{"needed": [2, 9]}')
    found = select("mail", pipeline())
    assert found.ids == ["tool:circle"]
    assert found.notes == ["rank.llm failed: the reply names 9, but items are numbered 1 to 4; these are ignored"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, {"error": {"message": "bad key sk-nobody"}}), "refused the value of OPENAI_API_KEY"),
        ((404, {"error": {"message": "no such model"}}), "there is no model 'tiny' at .*no such model"),
        ((200, {"data": []}), r"returned no message; expected \{choices"),
        ((200, {"choices": []}), "returned no message"),
        ((200, [1]), "returned no message"),
        ((200, b"<html>"), "answered with what is no JSON: <html>"),
    ],
)
def test_a_server_that_is_none_is_one_error(server, answer, said):
    server.post = lambda _body: answer
    with pytest.raises(ServerError, match=said) as found:
        select("mail", pipeline())
    assert "sk-nobody" not in str(found.value)
    assert isinstance(found.value, UserError)


def test_what_came_before_an_error_is_kept(server):
    def post(body):
        if parts(body)[0] != "hello":
            return by_words(body)
        time.sleep(0.5)  # the others are answered first
        return 403, {}

    server.post = post
    with pytest.raises(ServerError, match="status 403"):
        ctxbench.evaluate(data(), {"llm": pipeline()}, **CHEAP)
    server.post = by_words
    server.posts.clear()
    ctxbench.evaluate(data(), {"llm": pipeline()}, **CHEAP)
    assert [parts(post)[0] for post in server.posts] == ["hello"]


def test_a_blank_request_and_one_without_candidates_are_not_asked(server):
    catalog = ctxbench.catalog(TOOLS)
    made = Pipeline.of({"retrieve": "everything", "refine": [{"llm": {"model": "tiny"}}]})
    table = made.run(Batch.of(catalog, [Request(id="a", text=" \n")]), mock_resources()).candidates
    assert not table.chosen.any()
    assert str(table.rules[1]) == "the request is blank, so the language model was not asked"
    nothing = Batch.of(catalog, [Request(id="a", text="x", history=(Message("user", "y"),))])
    made = Pipeline.of({"retrieve": "nothing", "refine": [{"llm": {"model": "tiny"}}]})
    assert len(made.run(nothing, mock_resources()).candidates) == 0
    assert server.posts == []


def test_several_are_asked_at_one_time_and_each_gets_its_own_reply(server):
    at_once, most, lock = [0], [0], threading.Lock()

    def post(body):
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        time.sleep(0.05)
        with lock:
            at_once[0] -= 1
        return reply(body["messages"][0]["content"])

    server.post = post
    chat = ChatModel(mock_resources(), "tiny")
    said = [f"say {n}" for n in range(12)]
    replies = chat([[{"role": "user", "content": text}] for text in said])
    assert [one.text for one in replies] == said
    assert 1 < most[0] <= AT_ONCE
    notes = chat.take_notes()
    assert notes.pop("model_milliseconds") >= 12 * 50
    assert notes == {"model_requests": 12, "model_tokens_sent": 1200, "model_tokens_received": 84}
    assert chat.take_notes() == {}
    assert chat([]) == []


def test_equal_conversations_are_asked_once(server):
    server.post = lambda _body: reply(f"reply {len(server.posts)}")
    asked = [[{"role": "user", "content": text}] for text in ("x", "y", "x")]
    chat = ChatModel(mock_resources(), "tiny")
    first, _, again = chat(asked)
    assert first == again
    assert len(server.posts) == 2
    assert chat.take_notes()["model_replies_kept"] == 1
    assert [one.text for one in chat(asked)] == [one.text for one in (first, _, again)]


def test_models_and_addresses_do_not_share_replies(server, monkeypatch):
    server.post = lambda _body: reply("yes")
    asked = [[{"role": "user", "content": "x"}]]
    ChatModel(mock_resources(), "tiny")(asked)
    ChatModel(mock_resources(), "other")(asked)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/other")
    other = ChatModel(mock_resources(), "tiny")
    other(asked)
    assert len(server.posts) == 3
    assert other.identity != ChatModel(mock_resources(), "other").identity


def test_a_refusal_is_returned_and_not_kept(server):
    server.post = lambda _body: (413, {"error": "too long"})
    chat = ChatModel(mock_resources(), "tiny")
    (found,) = chat([[{"role": "user", "content": "x"}]])
    assert isinstance(found, RefusedError)
    server.post = lambda _body: reply([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    (found,) = chat([[{"role": "user", "content": "x"}]])
    assert found.text == "ab"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"needed": [3, 1]}', ([2, 0], "")),
        ("[2]", ([1], "")),
        ('{"needed": []}', ([], "")),
        ('Sure!\n```json\n{"needed": [1, 1, 2]}\n```', ([0, 1], "")),
        ('{"needed": [9]} no, rather {"needed": [2]}', ([1], "")),
        ('{"needed": ["2", 3]}', ([1, 2], "")),
        ('{"needed": [1, 4, 0, -1, true, 1.5, null]}', ([0], "4, 0, -1, True, 1.5")),
        ('{"needed": [4]}', None),
        ('{"needed": 1}', None),
        ('{"wanted": [1]}', None),
        ("nothing", None),
        ("", None),
    ],
)
def test_what_a_reply_names(text, expected):
    assert named_in(text, 3) == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": " "}, "model must not be empty"),
        ({"model": "x", "history": -1}, "history must be 0 or more, got -1"),
        ({"model": "x", "characters": 0}, "characters must be 1 or more, got 0"),
    ],
)
def test_parameters_out_of_range(given, said):
    with pytest.raises(ParameterError, match=said):
        Llm(**given)


def test_it_conforms(server):
    """Behind scores without ties: of items that a cut before it finds alike, the catalog's order says what it sees."""
    check_step("rank", "llm", {"model": "tiny", "history": 2, "characters": 40}, retrieve="random", processes=1)
    assert server.posts


HOSTILE = [
    '{"needed": ["' + "9" * 10_000 + '"]}',
    '{"needed": [' + "9" * 10_000 + "]}",
    '{"needed": [1e400, -1, NaN]}',
    "[" * 100_000,
    '{"needed": [' + "[" * 700 + "]" * 700 + "]}",
    "{" * 100_000 + "}",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_reply_that_cannot_be_read_is_a_note_and_is_asked_again(server, text):
    server.post = lambda _body: reply(text)
    found = select("area of a circle", pipeline())
    assert found.ids == [f"tool:{tool['name']}" for tool in TOOLS]
    assert [note.startswith("rank.llm fell back: ") for note in found.notes] == [True]
    server.post = by_words
    assert select("area of a circle", pipeline()).ids == ["tool:circle", "tool:area"]
    assert len(server.posts) == 2


def test_a_kept_reply_that_is_none_is_asked_again(server, tmp_path):
    select("area of a circle", pipeline())
    (kept,) = (tmp_path / "cache" / "chat").rglob("*.json")
    good = json.loads(read_sealed(kept))
    for bad in ({**good, "text": "9" * 5_000}, {**good, "sent": 10**400}, {**good, "text": None}, {}, [1], 7):
        write_sealed(kept, json.dumps(bad).encode())
        assert select("area of a circle", pipeline()).ids == ["tool:circle", "tool:area"]
    assert len(server.posts) == 7


@pytest.mark.parametrize("tokens", [10**400, 10**30, -1, True, "5", None])
def test_a_number_of_tokens_that_cannot_be_is_none(server, tokens):
    server.post = lambda _body: reply('{"needed": [2]}', prompt_tokens=tokens)
    chat = ChatModel(mock_resources(), "tiny")
    (found,) = chat([[{"role": "user", "content": "x"}]])
    assert math.isnan(found.sent)
    assert found.received == 7


@pytest.mark.parametrize("said", ["sk-nobody is your key", '{"needed": [1], "why": "sk-nobody"}'])
def test_a_key_that_a_server_sends_back_is_hidden(server, tmp_path, said):
    server.post = lambda _body: reply(said)
    found = select("area of a circle", pipeline())
    assert "sk-nobody" not in str(found.notes)
    for kept in (tmp_path / "cache").rglob("*.json"):
        assert b"sk-nobody" not in kept.read_bytes()


@pytest.mark.parametrize("key", ["1", "area", "test", "need"])
def test_a_key_that_is_none_spoils_no_reply(server, monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)  # as for a server of one's own, which asks for none
    server.post = lambda _body: reply('{"needed": [1, 2], "why": "tested"}')
    found = select("area of a circle", pipeline())
    assert (found.ids, found.notes) == (["tool:area", "tool:circle"], [])
