"""The analyses of requests about code, and models that plan: against a server on this machine."""

from __future__ import annotations

import json
import socket

import pytest

import ctxbench
from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.code_requests import PROMPT, code_vocabulary
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.files import DEFAULT_MODEL, CodeWords, Intent, Plan
from ctxbench.search.resources import OllamaServer
from ctxbench.testing import check_step, mock_resources
from tests.local_server import Server

FILES = [Item(type="file", name=name, text=name) for name in ("src/auth.py", "src/user.py", "main.py")]
PLAN = {
    "keywords": ["auth"],
    "symbols_to_find": ["User"],
    "file_patterns": ["auth"],
    "include_tests": False,
    "max_depth": 1,
    "strategy": {"name": "focused", "symbols": ["User"]},
}


def said(content, **more):
    return 200, {"message": {"role": "assistant", "content": content}, "done": True, **more}


@pytest.fixture
def server(monkeypatch, tmp_path):
    made = Server(lambda _body: said(json.dumps(PLAN), prompt_eval_count=90, eval_count=8))
    monkeypatch.setenv("OLLAMA_HOST", made.url.removesuffix("/v1"))
    monkeypatch.delenv("OLLAMA_MODEL", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", made.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CTXBENCH_OFFLINE", "1")
    yield made
    made.stop()


def planned(*texts: str, step: Plan | None = None, resources=None) -> Query:
    batch = Batch.of(Catalog(FILES), [Request(id=f"q{n}", text=text) for n, text in enumerate(texts)])
    return (step or Plan("ollama", seconds=30))(batch, resources or mock_resources())


def fell_back(query: Query) -> str:
    """The one note, of a request that was planned by its words."""
    (note,) = query.notes
    assert (note.step, note.kind, note.query) == ("analyse.plan", "fell back", "q0")
    assert query.plan[0]["planner"] == "heuristic"
    return note.message


def test_the_intent_of_each_request_stands_in_the_query_and_makes_no_chunks():
    batch = Batch.of(Catalog([]), [Request(id="a", text="Fix the parser in a.py"), Request(id="b", text=" ")])
    query = Intent()(batch, mock_resources())
    assert query.intent == (
        {
            "action": "debug",
            "scope": "focused",
            "complexity": "medium",
            "keywords": ["parser", "a.py"],
            "entities": ["a.py"],
        },
        None,
    )
    assert (query.keywords, query.text, query.plan) == ((("parser", "a.py"), ()), (), (None, None))


def test_the_heuristic_plan_names_files_that_the_request_sees():
    query = planned("fix auth.py and gone.py", step=Plan())
    assert query.plan[0]["strategy"] == {"name": "entry_points", "entry_files": ["src/auth.py"]}
    (note,) = query.notes
    assert note.message == "the plan names gone.py, which the request does not see; ignored"


def test_a_name_stands_for_the_path_that_is_it_or_else_for_those_that_end_so():
    items = [
        Item(type="file", name=f"v{n}", title=path) for n, path in enumerate(("src/a.py", "src/a.py", "b/src/a.py"))
    ]
    batch = Batch.of(Catalog(items), [Request(id=name, text=f"fix {name}") for name in ("a.py", "./src/a.py", "ba.py")])
    query = Plan()(batch, mock_resources())
    files = [plan["strategy"]["entry_files"] for plan in query.plan]
    assert files == [["b/src/a.py", "src/a.py"], ["src/a.py"], []]


def test_a_file_that_is_no_more_is_not_seen():
    files = [Item(type="file", name="a.py", until="2024-01-01T00:00:00Z")]
    requests = [Request(id=time, text="fix a.py", time=f"{time}-06-01T00:00:00Z") for time in ("2023", "2024")]
    query = Plan()(Batch.of(Catalog(files), requests), mock_resources())
    assert [one["strategy"]["entry_files"] for one in query.plan] == [["a.py"], []]


def test_a_scan_has_no_plan_and_so_has_a_request_that_says_nothing():
    assert planned("fix auth", step=Plan("scan")).plan == (None,)
    query = planned("do it", step=Plan())
    assert query.plan == (None,)
    assert str(query.notes[0]) == (
        "analyse.plan fell back: the request names nothing to look for; everything is searched, without a plan"
    )


def test_ollama_is_asked_for_a_plan_by_its_schema(server):
    query = planned("add a login")
    assert query.plan == ({**PLAN, "planner": f"ollama:{DEFAULT_MODEL}"},)
    assert (query.notes, server.paths) == ((), ["/api/chat"])
    (post,) = server.posts
    assert (post["model"], post["stream"], post["options"]) == ("qwen2.5-coder:7b", False, {"temperature": 0})
    assert post["format"]["required"] == list(PLAN)
    assert post["messages"] == [{"role": "system", "content": PROMPT}, {"role": "user", "content": "add a login"}]
    assert "Authorization" not in server.headers[0]  # the key is that of another server


def test_the_environment_names_the_model_and_a_host_without_scheme(server, monkeypatch):
    monkeypatch.setenv("OLLAMA_MODEL", "tiny")
    monkeypatch.setenv("OLLAMA_HOST", server.place.removesuffix("/v1"))
    assert planned("add a login").plan[0]["planner"] == "ollama:tiny"
    assert planned("add a login", step=Plan("ollama", "other")).plan[0]["planner"] == "ollama:other"


@pytest.mark.parametrize(
    ("said", "base"),
    [
        ("", "http://localhost:11434"),
        ("box", "http://box:11434"),
        ("box:80/", "http://box:80"),
        ("https://box/ollama", "https://box/ollama"),
    ],
)
def test_a_host_is_read_as_ollama_reads_it(monkeypatch, said, base):
    monkeypatch.setenv("OLLAMA_HOST", said)
    assert OllamaServer.base() == base


def test_a_plan_is_kept_by_text_and_model(server, monkeypatch):
    first = planned("add a login", "add a login", "add a logout")
    again = planned("add a logout", "add a login")
    assert len(server.posts) == 2
    assert again.plan == first.plan[1:]
    monkeypatch.setattr("ctxbench.pipelines.code_requests.PROMPT", "another")
    planned("add a login")
    planned("add a login", step=Plan("ollama", "other"))
    assert len(server.posts) == 4


@pytest.mark.parametrize("content", ["```json\n{}\n```", "Here it is:\n```\n{}\n```\nDone.", "Sure! {} Enjoy."])
def test_json_within_markdown_is_taken(server, content):
    server.post = lambda _body: said(content.replace("{}", json.dumps(PLAN)))
    query = planned("add a login")
    assert (query.plan[0]["keywords"], query.notes) == (["auth"], ())


def test_a_reply_that_is_no_plan_is_answered_once_and_the_second_one_counts(server):
    answers = iter(['{"keywords": ["au', json.dumps(PLAN)])
    server.post = lambda _body: said(next(answers))
    assert planned("add a login").plan[0]["keywords"] == ["auth"]
    told = server.posts[1]["messages"]
    assert [one["role"] for one in told] == ["system", "user", "assistant", "user"]
    assert 'the reply is not a JSON object: \'{"keywords": ["au\'' in told[3]["content"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"keywords": ["au', "the reply is not a JSON object"),
        ("[" * 100_000, "the reply is not a JSON object"),
        (json.dumps({**PLAN, "strategy": {"name": "wide"}}), "the reply has another form: strategy must be an object"),
        ("", "the reply is not a JSON object: ''"),
    ],
)
def test_after_two_replies_that_are_no_plan_the_words_of_the_request_plan(server, content, why):
    server.post = lambda _body: said(content)
    message = fell_back(planned("add a login"))
    assert message.startswith(why)
    assert message.endswith("; planned by the words of the request")
    assert len(server.posts) == 2


def test_without_a_server_every_request_is_planned_by_its_words(server, monkeypatch):
    with socket.socket() as free:  # bound, and nobody listens
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("OLLAMA_HOST", f"http://127.0.0.1:{free.getsockname()[1]}")
        assert "no connection" in fell_back(planned("add a login"))
        query = planned(*(f"add part{n}" for n in range(9)))
    assert {plan["planner"] for plan in query.plan} == {"heuristic"}
    assert [note.query for note in query.notes] == [f"q{n}" for n in range(9)]


def test_a_server_that_is_slow_is_tried_twice_and_not_waited_for(server):
    server.post = lambda _body: server.released.wait(60) and None
    message = fell_back(planned("add a login", step=Plan("ollama", seconds=0.2)))
    assert "gave no replies in 2 tries; the last one: no answer within 0.2 s" in message
    assert len(server.posts) == 2


def test_a_request_that_fails_fails_no_other(server):
    plan = server.post
    server.post = lambda body: (400, {"error": "too long"}) if "logout" in str(body) else plan(body)
    query = planned("add a logout", "add a login")
    assert [one["planner"] for one in query.plan] == ["heuristic", f"ollama:{DEFAULT_MODEL}"]
    assert ["too long" in note.message for note in query.notes] == [True]


def test_a_response_cut_short_or_without_a_message_is_a_fallback(server):
    for answer in ((200, b'{"message": {"content": "{'), (200, {"done": True}), (404, {"error": "no such model"})):
        server.post = lambda _body, answer=answer: answer
        fell_back(planned(f"add {answer[1]!s:.9}"))


def test_files_that_a_model_makes_up_are_left_out_with_a_note(server):
    told = {**PLAN, "file_patterns": ["auth", "user.py", "src/made_up.py"]}
    told["strategy"] = {"name": "entry_points", "entry_files": ["main.py", "app.py"]}
    server.post = lambda _body: said(json.dumps(told))
    query = planned("add a login")
    assert query.plan[0]["file_patterns"] == ["auth", "src/user.py"]
    assert query.plan[0]["strategy"]["entry_files"] == ["main.py"]
    (note,) = query.notes
    assert (note.kind, note.query) == ("failed", "q0")
    assert note.message == "the plan names src/made_up.py, app.py, which the request does not see; ignored"


def test_an_openai_compatible_server_is_asked_likewise(server):
    server.post = lambda _body: (200, {"choices": [{"message": {"content": json.dumps(PLAN)}}]})
    query = planned("add a login", step=Plan("openai", "tiny"))
    assert (query.plan[0]["planner"], server.paths) == ("openai:tiny", ["/v1/chat/completions"])
    assert (server.headers[0]["Authorization"], "format" in server.posts[0]) == ("Bearer sk-nobody", False)


def test_what_was_asked_is_counted(server):
    resources = mock_resources()
    planned("add a login", "add a logout", "add a login", resources=resources)
    notes = resources.get(f"ollama:{DEFAULT_MODEL}").take_notes()
    assert {name: notes[name] for name in ("model_requests", "model_tokens_sent", "model_tokens_received")} == {
        "model_requests": 2,
        "model_tokens_sent": 180,
        "model_tokens_received": 16,
    }


def test_a_blank_request_is_not_asked_for(server):
    assert planned(" ").plan == (None,)
    assert server.posts == []


def test_a_fallback_stands_in_the_answer_of_select(server):
    server.post = lambda _body: (400, {"error": "no"})
    made = ctxbench.pipeline("bm25", analyse=["whole", "intent", {"plan": {"planner": "ollama"}}])
    found = ctxbench.select("auth", ctxbench.catalog([]), selector=made, embedder="hashing", counter="chars/4")
    assert any("analyse.plan fell back" in note for note in found.notes)


@pytest.mark.parametrize(
    ("parameters", "fault"),
    [
        ({"seconds": 0}, "seconds must be above 0, got 0"),
        ({"planner": "openai"}, "model must not be empty for the planner openai"),
        ({"model": "tiny"}, "model is for the planners ollama and openai, and this one is heuristic"),
    ],
)
def test_parameters_that_cannot_be_are_refused(parameters, fault):
    with pytest.raises(ParameterError, match=fault):
        Plan(**parameters)


def test_an_unknown_planner_is_refused():
    with pytest.raises(ctxbench.UserError, match="planner"):
        Pipeline.of({"analyse": {"plan": {"planner": "magic"}}, "retrieve": "nothing"})


def test_a_plan_by_a_model_conforms(server):
    check_step("analyse", "plan", {"planner": "ollama"}, processes=1)
    assert server.posts


@pytest.mark.parametrize(
    ("word", "forms"),
    [("authentication", "auth"), ("auth", "authentication"), ("configured", "config"), ("cfg", "configuration")],
)
def test_code_spells_a_word_in_other_forms(word, forms):
    assert forms in code_vocabulary([word])[0]


def test_what_is_related_comes_apart_and_nothing_twice():
    forms, related = code_vocabulary(["authentication", "auth"])
    assert related == ("login", "session", "user", "token")
    assert not {"authentication", "auth"} & {*forms, *related}
    assert code_vocabulary(["quux"]) == ((), ())


def chunks_of(text, **weights):
    batch = Batch.of(Catalog([]), [Request(id="q", text=text)])
    query = CodeWords(**weights)(batch, mock_resources())
    return {" ".join(chunk.split()): weight for chunk, weight in zip(query.text, query.weight.tolist(), strict=True)}


def test_words_of_the_work_and_of_code_are_lighter_chunks():
    chunks = chunks_of("Fix login of add_user", forms=0.5, related=0.25)
    assert chunks == {"login of add_user": 1.0, "Fix": 0.1, "usr": 0.5, "auth session account profile": 0.25}


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("", {}),
        ("fix", {"fix": 1.0}),  # there is nothing else
        ("Implement authentication", {"authentication": 1.0}),  # about a whole codebase
        ("Round prices", {"Round prices": 1.0}),
    ],
)
def test_what_has_no_other_words_is_one_chunk(text, chunks):
    assert chunks_of(text, forms=0.0, related=0.0) == chunks
