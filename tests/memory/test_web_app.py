"""The HTTP interface: answers, who asks, limits, and every error in one form."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import pytest
from jsonschema import Draft202012Validator

from ctxbench.io.errors import StorageError
from ctxbench.memory.memories import Memory, Relationship
from ctxbench.memory.web_app import UserTokens
from tests.memory.service_world import WORKSPACE, filled, service_over

TestClient = pytest.importorskip("starlette.testclient").TestClient
from ctxbench.memory.web_app import Access, web_app  # noqa: E402 - needs the extra

TOKENS = {"ana": "a" * 16, "ben": "b" * 16, None: "f" * 16}
JSON = {"content-type": "application/json"}


def client(service=None, *, base="http://127.0.0.1:8377", **access):
    service = service or service_over(filled())
    made = TestClient(web_app(service, Access(**access)), base_url=base, raise_server_exceptions=False)
    made.service = service
    return made


def with_tokens(**access):
    return client(tokens=UserTokens({token: user for user, token in TOKENS.items()}), **access)


def bearer(user):
    return {"Authorization": f"Bearer {TOKENS[user]}"}


def problem(response, status):
    """What a response says is wrong, once its form is right."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    told = response.json()
    assert set(told) == {"type", "title", "status", "detail"}
    assert (told["status"], told["title"]) == (status, HTTPStatus(status).phrase)
    assert "Traceback" not in response.text
    return told["detail"]


def test_a_build_answers_data_and_meta_and_a_preview_the_same():
    asked = {"message": "flat tyre?", "threadId": "t"}
    one = client()
    preview, build = (one.post(f"/context/{what}", json=asked) for what in ("preview", "build"))
    assert (preview.status_code, build.status_code) == (200, 200)
    assert preview.json() == build.json()
    assert build.json()["data"]["items"][0]["id"] == "memory:tyre%401"
    assert build.json()["meta"]["sourceCount"] == 4


CODE = {
    "header": "# Context\n",
    "memoryFormat": "## {{type}}\n{{content}}",
    "separator": "\n\n",
    "name": "code-focused",
}


def test_a_context_is_written_by_the_template_of_the_request_within_its_budget():
    one = client()

    def build(**body):
        return one.post("/context/build", json={"message": "flat tyre?", **body}).json()["data"]

    short = build(template="summary", tokenBudget=30)
    assert short["context"].startswith("Key information:\nAna's front tyre went flat on the canal path.")
    assert (short["template"], short["truncated"], short["totalTokens"] <= 30) == ("summary", True, True)
    own = build(template=CODE)
    assert own["context"].startswith("# Context\n## note\nAna's front tyre")
    assert (own["template"], own["truncated"]) == ("code-focused", False)
    plain = build()
    assert (plain["template"], plain["context"]) == ("chat", build(template="chat", tokenBudget=2000)["context"])
    assert len({short["id"], own["id"], plain["id"]}) == 3
    assert build(template="summary", tokenBudget=30) == short  # another request between them changes nothing


@pytest.mark.parametrize("form", ["## {{type}}\n{{content}}", "{{content}}", "{{contnt}}{{content}}", "{{type}}"])
def test_the_published_schema_takes_the_templates_that_the_service_takes(form):
    body = {"message": "flat tyre?", "template": {**CODE, "memoryFormat": form}}
    one = client()
    paths = one.get("/openapi.json").json()["paths"]
    schema = paths["/context/build"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    is_taken = one.post("/context/build", json=body).status_code == 200
    assert Draft202012Validator(schema).is_valid(body) == is_taken == ("{{content}}" in form and "contnt" not in form)


DATES = {
    "2026-01-31": True,
    "2024-02-29": True,
    "2026-02-29": False,
    "2026-04-31": False,
    "2026-03-01T09:30": True,
    "2026-11-29T19:39:33.123Z": True,
    "2026-11-28 10:00:00+02:00": True,
    "2026-03-01T25:00": False,
    "0001-01-01T00:00:00+23:00": False,
}


@pytest.mark.parametrize(("created", "is_date"), DATES.items())
def test_the_published_schema_takes_the_dates_that_the_service_takes(created, is_date):
    body = {"items": [{"id": "a", "type": "memory", "content": "x", "created": created}]}
    one = client()
    paths = one.get("/openapi.json").json()["paths"]
    schema = paths["/context/import"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    is_taken = one.post("/context/import", json=body).status_code == 200
    assert Draft202012Validator(schema).is_valid(body) == is_taken == is_date


def test_related_memories_are_in_the_context_if_the_request_asks_for_them():
    store = filled()
    for number in range(10):
        store.insert(Memory(id=f"flat-{number}", workspace=WORKSPACE, content=f"Flat tyre, number {number}."))
    store.relate(Relationship(workspace=WORKSPACE, source="flat-1", target="tea", type="about"))
    store.relate(Relationship(workspace=WORKSPACE, source="tea", target="bread", type="about"))
    one = client(service_over(store))

    def ids(**body):
        data = one.post("/context/build", json={"message": "flat tyre number?", **body}).json()["data"]
        return {item["id"].removesuffix("%401").removeprefix("memory:") for item in data["items"]} - {"tyre", "pump"}

    assert not ids() & {"tea", "bread"}
    assert ids(includeRelationships=True) - ids() == {"tea"}
    assert ids(includeRelationships=True, relationshipDepth=2) - ids() == {"tea", "bread"}


BAD_WRITING = {
    "name": ({"template": "chta"}, "unknown template 'chta'; did you mean 'chat'"),
    "variable": ({"template": {"memoryFormat": "{{contnt}}"}}, "no variable is called 'contnt'"),
    "field": ({"template": {**CODE, "heder": "x"}}, "template: 'heder' is unknown"),
    "type": ({"template": 1}, "template must be a text or an object"),
    "no budget": ({"tokenBudget": 0}, "tokenBudget must be 1 to 1000000, got 0"),
    "budget": ({"tokenBudget": "9"}, "tokenBudget must be a whole number"),
    "depth without": ({"relationshipDepth": 2}, "relationshipDepth needs includeRelationships"),
    "depth of none": ({"includeRelationships": False, "relationshipDepth": 2}, "needs includeRelationships: true"),
    "depth": ({"includeRelationships": True, "relationshipDepth": 6}, "relationshipDepth must be 0 to 5, got 6"),
}


@pytest.mark.parametrize(("writing", "said"), BAD_WRITING.values(), ids=BAD_WRITING)
def test_bad_templates_and_budgets_are_refused(writing, said):
    assert said in problem(client().post("/context/build", json={"message": "tyre", **writing}), 422)


def test_a_selector_that_writes_its_own_context_refuses_a_template():
    one = client(service_over(filled(), selector="assembly"))
    assert "template" not in one.post("/context/build", json={"message": "tyre"}).json()["data"]
    said = problem(one.post("/context/build", json={"message": "tyre", "template": "chat"}), 422)
    assert "assembly writes its own context" in said


def test_feedback_is_recorded():
    one = client(user="ana")
    context = one.post("/context/build", json={"message": "flat tyre?"}).json()["data"]
    asked = {"contextItemId": context["items"][0]["id"], "useful": True, "contextId": context["id"]}
    response = one.post("/context/feedback", json=asked)
    assert (response.status_code, response.json()) == (200, {"success": True})
    (event,) = one.service._store.events(WORKSPACE)
    assert (event.id, event.user, event.useful) == ("tyre", "ana", True)


def test_whether_a_context_was_sufficient_is_recorded():
    one = client(user="ana")
    context = one.post("/context/build", json={"message": "flat tyre?"}).json()["data"]
    response = one.post("/context/sufficient", json={"contextId": context["id"], "sufficient": False})
    assert (response.status_code, response.json()) == (200, {"success": True})
    (event,) = one.service._store.events(WORKSPACE)
    assert (event.kind, event.id, event.user, event.useful) == ("sufficient", context["id"], "ana", False)
    assert "'gone'" in problem(one.post("/context/sufficient", json={"contextId": "gone", "sufficient": True}), 404)
    problem(one.post("/context/sufficient", json={"contextId": context["id"], "sufficient": "yes"}), 422)
    problem(one.post("/context/sufficient", json={"sufficient": True}), 422)


def test_an_unknown_thread_has_an_empty_history():
    data = client().post("/context/build", json={"message": "flat tyre?", "threadId": "never seen"}).json()["data"]
    assert data["stats"]["historyCount"] == 0


def test_feedback_on_something_unknown_is_404_and_names_it():
    response = client().post("/context/feedback", json={"contextItemId": "memory:gone%401", "useful": True})
    assert "'memory:gone%401'" in problem(response, 404)
    response = client().post("/context/feedback", json={"contextItemId": "x", "useful": True, "contextId": "gone"})
    assert "'gone'" in problem(response, 404)


def test_the_token_says_who_asks():
    one = with_tokens()
    one.service._store.insert(
        Memory(id="secret", workspace=WORKSPACE, content="Ben's tyre is flat.", user="ben", created="2026-03-05")
    )
    found = {}
    for user in ("ana", "ben"):
        data = one.post("/context/build", json={"message": "flat"}, headers=bearer(user)).json()["data"]
        found[user] = [item["id"] for item in data["items"]]
    assert ("memory:secret%401" in found["ana"], "memory:secret%401" in found["ben"]) == (False, True)
    response = one.post(
        "/context/feedback", json={"contextItemId": "memory:secret%401", "useful": True}, headers=bearer("ana")
    )
    problem(response, 404)


def test_who_asks_is_never_taken_from_the_body():
    for name in ("userId", "user"):
        response = with_tokens().post("/context/build", json={"message": "x", name: "ben"}, headers=bearer("ana"))
        assert f"unknown field '{name}'" in problem(response, 422)


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer x", f"Basic {'a' * 16}", "a" * 16, f"Bearer {'a' * 15}"]
)
def test_without_a_token_that_is_known_nothing_is_answered(header):
    one = with_tokens()
    headers = {} if header is None else {"Authorization": header}
    for method, path in (
        ("POST", "/context/build"),
        ("POST", "/context/preview"),
        ("POST", "/context/feedback"),
        ("POST", "/context/sufficient"),
        ("GET", "/metrics"),
    ):
        response = one.request(method, path, headers=headers)
        problem(response, 401)
        assert response.headers["www-authenticate"].startswith("Bearer")
    assert one.get("/openapi.json").status_code == 200


def test_figures_of_all_users_are_for_their_own_token():
    one = with_tokens()
    assert "ctxbench_context_builds_total 0" in one.get("/metrics", headers=bearer(None)).text
    problem(one.get("/metrics", headers=bearer("ana")), 403)
    problem(one.post("/context/build", json={"message": "x"}, headers=bearer(None)), 403)
    assert client().get("/metrics").headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_health_is_answered_without_a_token():
    health = {"status": "ok", "selector": "memory"}
    assert with_tokens().get("/healthz").json() == health
    assert client().get("/healthz").json() == health | {"items": 4}


@pytest.mark.parametrize("base", ["http://evil.example", "http://127.0.0.1.evil.example:8377", "http://10.0.0.1"])
def test_without_tokens_another_host_is_refused(base):
    problem(client(base=base).post("/context/build", json={"message": "x"}), 421)
    for path in ("/healthz", "/metrics"):
        problem(client(base=base).get(path), 421)


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:8377"])
def test_without_tokens_this_machine_is_answered(host):
    given = {"json": {"message": "x"}, "headers": {"Host": host}}  # older test clients take no such address
    assert client().post("/context/build", **given).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"", 400, "must be JSON"),
        (b"{", 400, "must be JSON"),
        (b"\xff", 400, "must be JSON in UTF-8"),
        (b'{"message": NaN}', 400, "NaN is not a JSON number"),
        (b'{"message": "\\ud800"}', 400, "must be JSON in UTF-8"),
        (b"[" * 100_000, 400, "must be JSON"),
        (b'{"message": ' + b"9" * 5_000 + b"}", 400, "must be JSON"),
        (b"[]", 422, "the body must be an object"),
        (b"{}", 422, "message is missing"),
        (b'{"message": null}', 422, "message must be a text"),
        (b'{"message": " \\n"}', 422, "message must not be blank"),
        (b'{"message": ""}', 422, "message must have 1 to 80,000 characters, got 0"),
        (b'{"message": "x", "threadId": 7}', 422, "threadId must be a text"),
        (b'{"message": "x", "threadId": "a\\u0000"}', 422, "threadId must not be blank, nor have control characters"),
        (
            b'{"message": "x", "threadId": "' + b"t" * 201 + b'"}',
            422,
            "threadId must have 1 to 200 characters, got 201",
        ),
        (b'{"message": "' + b"x" * 80_001 + b'"}', 422, "message must have 1 to 80,000 characters"),
        (b'{"message": "' + b"x" * 1_000_000 + b'"}', 413, "more than 1,000,000 bytes"),
    ],
)
def test_bad_bodies_are_refused_in_words(body, status, said):
    response = client().post("/context/build", content=body, headers=JSON)
    assert said in problem(response, status)


def test_a_body_of_exactly_the_limit_is_read():
    body = json.dumps({"message": "x"}).encode().ljust(1_000_000)
    assert client().post("/context/build", content=body, headers=JSON).status_code == 200


@pytest.mark.parametrize("useful", ["yes", 1, None])
def test_useful_is_true_or_false(useful):
    response = client().post("/context/feedback", json={"contextItemId": "x", "useful": useful})
    assert problem(response, 422) == "useful must be true or false"


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"])
def test_a_body_that_is_not_said_to_be_json_is_refused(kind):
    headers = {} if kind is None else {"content-type": kind}
    problem(client().post("/context/build", content=b'{"message": "x"}', headers=headers), 415)


def test_json_may_name_its_charset():
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert client().post("/context/build", content=b'{"message": "x"}', headers=headers).status_code == 200


def test_other_addresses_and_methods_are_told_apart():
    one = client()
    for path in ("/", "/context", "/context/build/", "/context/build/x", "/openapi"):
        assert "/openapi.json" in problem(one.post(path, json={"message": "x"}), 404)
    response = one.get("/context/build")
    problem(response, 405)
    assert response.headers["allow"] == "POST"
    problem(one.delete("/metrics"), 405)


def test_an_answer_that_takes_too_long_is_given_up():
    one = client(seconds=0.2)
    build = one.service.build
    one.service.build = lambda *asked, **more: (time.sleep(1), build(*asked, **more))[1]
    assert "no answer within 0.2 s" in problem(one.post("/context/build", json={"message": "x"}), 503)
    assert one.post("/context/preview", json={"message": "x"}).status_code == 200


def test_a_fault_of_ours_tells_nothing_of_itself():
    one = client()

    def fails(*_, **__):
        raise RuntimeError("the secret of Ben")

    one.service.build = fails
    detail = problem(one.post("/context/build", json={"message": "x"}), 500)
    assert detail == "the server failed; its log has the error"


def test_a_fault_of_what_is_behind_the_service_is_for_its_log_alone(monkeypatch, caplog):
    one = client()

    def fails(*_, **__):
        raise StorageError("no answer from db.internal, user joe")

    monkeypatch.setattr(one.service, "build", fails)
    detail = problem(one.post("/context/build", json={"message": "x"}), 500)
    assert detail == "the server failed; its log has the error"
    assert caplog.messages == ["refused user=-: 500, no answer from db.internal, user joe"]


def test_a_refused_request_is_one_line_of_the_log_without_its_texts_and_counted(caplog):
    one = with_tokens()
    ask = {"url": "/context/build", "json": {"message": "tyre"}}
    one.post(**ask)
    one.post(**ask, headers={"Authorization": "Bearer wrong-secret-token"})
    one.post("/context/build", content=b"{", headers=bearer("ana") | JSON)
    one.post("/context/build", json={"secret": "words"}, headers=bearer("ana"))
    one.post("/context/build", json={"message": " \t"}, headers=bearer("ana"))
    one.get("/secret")
    one.post("/context/build", content=b"{}", headers=bearer("ana") | {"content-type": "text/secret"})
    client(one.service, base="http://secret.example").get("/healthz")
    lines = [line.removeprefix("refused user=") for line in caplog.messages]
    assert [line.partition(", ")[0] for line in lines] == [
        *("-: 401", "-: 401", "'ana': 400", "'ana': 422", "'ana': 422", "-: 404", "'ana': 415", "-: 421")
    ]
    assert lines[1].startswith("-: 401, unknown token; ")
    assert lines[3].partition(", ")[2] == HTTPStatus(422).phrase
    assert "secret" not in caplog.text
    assert one.service.metrics.value("failures") == 8


def test_a_source_that_fails_is_named_without_what_it_said(monkeypatch, caplog):
    store = filled()
    store.insert(Memory(id="docs/tyre.md", workspace=WORKSPACE, content="Fix a flat tyre.", type="file"))
    service = service_over(store, selector="assembly")
    monkeypatch.setattr("ctxbench.pipelines.strategies.retrieve.RecentFiles.__call__", lambda *_: 1 / 0)
    (note,) = client(service).post("/context/build", json={"message": "flat tyre?"}).json()["data"]["notes"]
    assert note == {
        "step": "retrieve.recent",
        "kind": "failed",
        "message": "see the log of the server",
        "query": "request",
    }
    assert "retrieve.recent: failed, division by zero" in caplog.text


def test_texts_of_any_script_and_syntax_are_asked_as_they_are():
    for message in (
        "¿Dónde está?",
        "日本語 🚲",
        'a" OR 1=1 --',
        "NEAR(x y) AND *",
        "a\u0000b",
        "'; DROP TABLE x",
        "\u202e",
    ):
        response = client().post("/context/build", json={"message": message})
        assert response.status_code == 200, message


def test_one_user_cannot_have_any_number_of_requests_at_one_time(monkeypatch, caplog):
    monkeypatch.setattr("ctxbench.memory.web_app._WAITING", 1)
    begun, ends = threading.Event(), threading.Event()
    service = service_over(filled())
    build = service.build

    def slow(message, **given):
        begun.set()
        assert ends.wait(30)
        return build(message, **given)

    monkeypatch.setattr(service, "build", slow)
    app = web_app(service, Access(tokens=UserTokens({token: user for user, token in TOKENS.items()})))
    ask = {"url": "/context/build", "json": {"message": "tyre"}}
    with TestClient(app) as one, ThreadPoolExecutor(2) as pool:
        first = pool.submit(one.post, **ask, headers=bearer("ana"))
        assert begun.wait(30)
        second = one.post(**ask, headers=bearer("ana"))
        assert problem(second, 429)
        assert "refused user='ana': 429, 1 of your requests are open; try again later" in caplog.messages
        assert second.headers["retry-after"] == "1"
        other = pool.submit(one.post, **ask, headers=bearer("ben"))
        ends.set()
        assert (first.result().status_code, other.result().status_code) == (200, 200)
        assert one.post(**ask, headers=bearer("ana")).status_code == 200


def test_one_user_cannot_take_all_threads(monkeypatch):
    begun, ends = threading.Semaphore(0), threading.Event()
    service = service_over(filled())
    build = service.build

    def slow(message, user, **given):
        if user == "ana":
            begun.release()
            assert ends.wait(30)
        return build(message, user=user, **given)

    monkeypatch.setattr(service, "build", slow)
    tokens = UserTokens({token: user for user, token in TOKENS.items()})
    ask = {"url": "/context/build", "json": {"message": "tyre"}}
    with TestClient(web_app(service, Access(tokens=tokens, seconds=10))) as one, ThreadPoolExecutor(8) as pool:
        try:
            waiting = [pool.submit(one.post, **ask, headers=bearer("ana")) for _ in range(8)]
            assert sum(begun.acquire(timeout=0.3) for _ in range(8)) == 4
            assert one.post(**ask, headers=bearer("ben")).status_code == 200
        finally:
            ends.set()
        assert {request.result().status_code for request in waiting} == {200}


def test_a_body_that_nests_deep_is_the_clients_fault():
    deep = "[" * 5_000 + "]" * 5_000
    for body in (deep, f'{{"message": {deep}}}', f'{{"message": "tyre", "metadata": {deep}}}'):
        assert client().post("/context/build", content=body, headers=JSON).status_code in (400, 422)
    nested = "[" * 300 + "]" * 300
    assert client().post("/context/build", content=f'{{"message": {nested}}}', headers=JSON).status_code == 422
