"""`ctxbench serve AGENT | CATALOG`: the bytes of `select --json`, changed files, users, limits, and how it stops."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import yaml

from ctxbench.catalogs.git_history import GitRepository
from ctxbench.cli.memory import SelectService, ServeRequest, select_question
from ctxbench.datasets.lookup import find_catalog
from ctxbench.io.errors import StorageError
from ctxbench.search.embedders import vectors_stored
from ctxbench.selectors.definition import TunedPreset, definition_hash, parameter_texts
from ctxbench.selectors.definitions import definition, shipped, write_presets
from tests.checkout import written
from tests.children import child
from tests.cli.conftest import TINY

pytest.importorskip("uvicorn")
TestClient = pytest.importorskip("starlette.testclient").TestClient
from ctxbench.memory.web_app import Access, UserTokens, web_app  # noqa: E402 - needs the extra

ITEMS = [
    {"_id": "tool:alpha", "description": "beta gamma"},
    {"_id": "tool:delta", "description": "epsilon"},
    {"_id": "rule:zeta", "text": "Eta theta.", "include": "always"},
]
PRIVATE = [
    {"_id": "memory:hers", "text": "alpha beta", "user": "ana"},
    {"_id": "memory:his", "text": "alpha beta", "user": "ben"},
    {"_id": "memory:shared", "text": "alpha gamma"},
]
TOOLS = [{"name": "track_parcel", "description": "Where a parcel is now"}, {"name": "pay", "description": "Pay"}]
AGENT = {"name": "support", "sources": {"tools": "tools.json", "rules": "."}, "include": {"otherwise": "agent"}}
RULE = "---\ndescription: How refunds are approved\n---\nAsk finance.\n"
TOKENS = {"ana": "a" * 16, "ben": "b" * 16}
HISTORY = [{"role": "user", "content": "I sent beta"}, {"role": "assistant", "content": "Thanks."}]


def health_of(http):
    """The answer of /healthz without its digest."""
    health = http.get("/healthz").json()
    assert re.fullmatch("[0-9a-f]{12}", health.pop("digest"))
    return health


def write_rows(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def write_preset(path, name="few", selector="bm25", **values):
    """A presets file with one preset, a selector with these values."""
    chosen = definition(selector)
    preset = TunedPreset(
        about="",
        selector=selector,
        definition=definition_hash(chosen),
        set=chosen.in_force(chosen.with_defaults(values)),
        parameters=parameter_texts(chosen),
    )
    write_presets(path, tuned={"dataset": "mine"}, presets={name: preset}, test_split="")


@pytest.fixture
def files(place):
    """An agent with a rule and a list of tools, catalogs, presets, and a repository."""
    (place / ".cursor" / "rules").mkdir(parents=True)
    (place / ".cursor" / "rules" / "refunds.mdc").write_text(RULE)
    (place / "tools.json").write_text(json.dumps(TOOLS))
    (place / "agent.yaml").write_text(yaml.safe_dump({**AGENT, "selector": "bm25", "settings": {"n": 1}}))
    write_rows(place / "items.jsonl", ITEMS)
    write_rows(place / "private.jsonl", PRIVATE)
    shutil.copytree(TINY, place / "tiny")
    write_preset(place / "presets.yaml", n=1)
    written(place / "repo", [("Begin", {"src/mail.py": "def send():\n    return 1\n", "area.py": "AREA = 2\n"})])
    return place


def service(source="items.jsonl", *, workspace=None, users=(None,), user=None, **options):
    fields = {"selector": None, "preset": None, "presets": None, "tokens": None, "host": "", "port": 0, **options}
    request = ServeRequest(source=str(source), workspace=workspace, embedder="hashing", user=user, **fields)
    return SelectService(select_question(request), workspace=workspace, users=users)


def client(made, **access):
    app = web_app(made, Access(**access))
    return TestClient(app, base_url="http://127.0.0.1:8377", raise_server_exceptions=False)


def problem(response, status):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert (body["status"], body["title"]) == (status, HTTPStatus(status).phrase)
    return body["detail"]


def offered(http, text="alpha", **body):
    response = http.post("/select", json={"text": text, **body})
    assert response.status_code == 200, response.text
    return [item["id"] for item in response.json()["items"]]


SESSION = {"id": "c1", "items": [{"id": "tool:delta", "mode": "manual"}], "removed": ["rule:zeta"]}
CASES = {
    "default": ("items.jsonl", {}, {}, ()),
    "preset": ("items.jsonl", {"selector": "semantic", "preset": "spec"}, {}, ()),
    "other preset": (
        "items.jsonl",
        {"selector": "learned", "preset": "normal"},
        {"preset": "aggressive"},
        ("--selector", "learned", "--preset", "aggressive"),
    ),
    "presets file": ("items.jsonl", {"presets": Path("presets.yaml"), "preset": "few"}, {}, ()),
    "dataset": ("tiny", {"selector": "bm25"}, {"near": 2}, ("--near", "2")),
    "values": ("tiny", {"selector": "bm25"}, {"set": {"n": 2}}, ("--set", "n=2")),
    "agent": ("agent.yaml", {}, {}, ()),
    "agent, other selector": ("agent.yaml", {"selector": "semantic"}, {"near": 0}, ("--near", "0")),
    "repository": ("repo", {}, {}, ()),
    "history": ("items.jsonl", {}, {"history": HISTORY}, ("--history", json.dumps(HISTORY))),
    "session": ("items.jsonl", {}, {"session": SESSION}, ("--session", "c1.json")),
    "session of the agent": ("agent.yaml", {}, {"session": {"id": "c2"}}, ("--session", "c2.json")),
    "add and remove": (
        "items.jsonl",
        {},
        {"add": ["tool:delta"], "remove": ["rule:zeta"]},
        ("--add", "tool:delta", "--remove", "rule:zeta"),
    ),
    "tool result": (
        "items.jsonl",
        {},
        {"tool_results": [{"tool": "delta", "text": "epsilon"}]},
        ("--tool-result", "delta=result.txt"),
    ),
    "private": ("private.jsonl", {"user": "ana", "selector": "bm25"}, {}, ("--user", "ana")),
    "time": ("private.jsonl", {"selector": "bm25"}, {"time": "2026-03-01"}, ("--time", "2026-03-01")),
}


@pytest.mark.essential
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_answer_has_the_bytes_of_the_command(files, cli, case):
    source, options, body, words = case
    (files / "c1.json").write_text(json.dumps(SESSION))
    (files / "c2.json").write_text(json.dumps({"id": "c2"}))
    (files / "result.txt").write_text("epsilon")
    if not {"--selector", "--preset"} & set(words):
        words += tuple(word for name, value in options.items() if name != "user" for word in (f"--{name}", value))
    where = "--agent" if source == "agent.yaml" else "--catalog"
    http = client(service(source, **options), user=options.get("user"))
    for text in ("alpha beta gamma", "Wo ist „das Paket“? send a refund \u202e", ""):
        done = cli("select", text, where, source, "--embedder", "hashing", "--json", *words)
        response = http.post("/select", json={"text": text, **body})
        assert (response.status_code, done.code) == (200, 0), done.err
        assert response.content == done.out.encode()
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "must be JSON"),
        (b"\xff", 400, "must be JSON in UTF-8"),
        (b'{"text": "\\ud800"}', 400, "must be JSON in UTF-8"),
        (b'{"text": "a", "near": NaN}', 400, "NaN"),
        (b"[]", 422, "the body must be a mapping"),
        (b"{}", 422, "'text'"),
        (b'{"text": 7}', 422, "text must be a text"),
        (b'{"text": "a", "near": -1}', 422, "near must be 0 or more"),
        (b'{"text": "a", "user": "ana"}', 422, "no field 'user'"),
        (b'{"text": "a", "preset": "none"}', 422, "unknown preset 'none'"),
        (b'{"text": "a", "set": {"m": 1}}', 422, "no parameter 'm'"),
        (b'{"text": "a", "set": {"n": -1}}', 422, "n "),
        (b'{"text": "a", "set": {"n": [1]}}', 422, "set.n must be"),
        (b'{"text": "a", "add": ["tool:no"]}', 422, "no item 'tool:no'"),
        (b'{"text": "a", "session": {"items": [{"id": "x"}]}}', 422, "items[0].id"),
        (b'{"text": "a", "session": {"user": "ana"}}', 422, "user must be that of the request"),
        (b'{"text": "a", "history": [{"role": "user"}]}', 422, "'content'"),
        (b'{"text": "a", "history": null}', 422, "history"),
        (b'{"text": "a", "time": "noon"}', 422, "time must be ISO 8601"),
        (b'{"text": "a", "history": [], "time": "2026-03-01"}', 422, "time"),
        pytest.param(b'{"text": "' + b"x" * 80_001 + b'"}', 422, "text must be at most 80000 long", id="long text"),
        pytest.param(b'{"text": "' + b"x" * 1_000_000 + b'"}', 413, "more than 1,000,000 bytes", id="long body"),
    ],
)
def test_a_bad_body_is_refused(files, body, status, said):
    http = client(service(selector="bm25"))
    response = http.post("/select", content=body, headers={"content-type": "application/json"})
    assert said in problem(response, status)


def test_other_addresses_methods_types_and_hosts_are_refused(files):
    http = client(service(selector="bm25"))
    problem(http.get("/select"), 405)
    problem(http.post("/context/build", json={"message": "a"}), 404)
    problem(http.post("/select", content=b'{"text": "a"}', headers={"content-type": "text/plain"}), 415)
    for path in ("/healthz", "/metrics"):
        problem(http.get(path, headers={"Host": "evil.example"}), 421)
    problem(http.post("/select", json={"text": "a"}, headers={"Host": "evil.example"}), 421)
    assert problem(http.post("/select", json={"text": None}), 422) == "text must be a text, got null"


CHANGES = {  # source, options, the file, its new content, and what is offered then
    "agent": ("agent.yaml", {}, "agent.yaml", yaml.safe_dump({**AGENT, "selector": "bm25"}), "tool:pay"),
    "tools": ("agent.yaml", {}, "tools.json", json.dumps([*TOOLS, {"name": "alpha"}]), "tool:alpha"),
    "rule": (
        "agent.yaml",
        {},
        ".cursor/rules/refunds.mdc",
        "---\ndescription: alpha\n---\nx\n",
        "rule:.cursor%2Frules%2Frefunds.mdc",
    ),
    "new rule": (
        "agent.yaml",
        {},
        ".cursor/rules/new.mdc",
        "---\ndescription: alpha\n---\nx\n",
        "rule:.cursor%2Frules%2Fnew.mdc",
    ),
    "catalog": ("items.jsonl", {"selector": "bm25"}, "items.jsonl", '{"_id": "tool:new.alpha"}\n', "tool:new.alpha"),
    "dataset": ("tiny", {"selector": "bm25"}, "tiny/corpus.jsonl", '{"_id": "tool:alpha"}\n', "tool:alpha"),
    "presets": ("items.jsonl", {"presets": Path("presets.yaml"), "preset": "few"}, "presets.yaml", "", "tool:delta"),
    "repository": ("repo", {}, "repo/src/alpha.py", "def alpha():\n    return 3\n", "file:src%2Falpha.py"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_next_request_sees_changed_files(files, change):
    source, options, name, content, item = change
    made = service(source, **options)
    http = client(made)
    text = {"tool:pay": "where is a parcel now pay", "tool:delta": "alpha beta epsilon"}.get(item, "alpha")
    assert item not in offered(http, text)
    before = made.health()["digest"]
    if name == "presets.yaml":
        write_preset(files / name, n=2)
    else:
        (files / name).write_text(content)
    assert item in offered(http, text)
    assert before != made.health()["digest"] == service(source, **options).health()["digest"]
    assert made.metrics.value("reloads") == 1
    offered(http, text)
    assert made.metrics.value("reloads") == 1


def git(folder, *words):
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.example", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def test_new_files_of_a_working_tree_are_seen_wherever_they_are(files):
    tree = files / "repo"
    (tree / ".gitignore").write_text("build/\n*.pyc\n")
    for folder in ("build/old", "empty", "cache"):
        (tree / folder).mkdir(parents=True)
    for path in ("cache/a.pyc", "build/old/a.py"):
        (tree / path).touch()
    made = service("repo", selector="bm25")
    http = client(made)
    folders = {"zebra": "", "otter": "empty", "heron": "cache", "lynx": "new", "crane": "new/deep", "ibex": "src/new"}
    for animal, folder in folders.items():
        (tree / folder).mkdir(exist_ok=True)
        assert offered(http, animal) == []  # the folder is noted while it is empty
        (tree / folder / f"{animal}.py").write_text(f"{animal} = 1\n")
        assert offered(http, animal) == [f"file:{quote(f'{folder}/{animal}.py'.lstrip('/'), safe='')}"], folder
    reloads = made.metrics.value("reloads")
    (tree / "build" / "old" / "gnu.py").write_text("gnu = 1\n")
    assert (offered(http, "gnu"), made.metrics.value("reloads")) == ([], reloads)
    (tree / ".git" / "info" / "exclude").write_text("zebra.py\n")
    assert offered(http, "zebra") == []


def test_a_commit_in_a_linked_working_tree_is_seen(files):
    git(files / "repo", "worktree", "add", "-q", str(files / "linked"))
    made = service("linked", selector="bm25")
    before = json.loads(made.select({"text": "zebra"}, None))["left_out"]
    git(files / "linked", "commit", "-q", "--allow-empty", "-m", "Explain the zebra")
    made.select({"text": "zebra"}, None)
    assert (before, made.metrics.value("reloads")) == ([], 1)


@pytest.mark.parametrize(("source", "name"), [("repo", "src/zebra.py"), ("agent.yaml", "docs/zebra/AGENTS.md")])
def test_a_file_that_is_made_while_others_are_listed_is_seen(files, monkeypatch, source, name):
    path = files / source.removesuffix("agent.yaml") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    scan = os.walk

    def late(top, **options):
        for folder in scan(top, **options):
            if Path(folder[0]).name == "zebra":  # is listed by now
                path.write_text("zebra\n")
            yield folder

    def listed(repository):
        names = list_files(repository)
        path.write_text("zebra\n")
        return names

    list_files = GitRepository.working_files
    with monkeypatch.context() as patch:
        patch.setattr(GitRepository, "working_files", listed)
        patch.setattr("ctxbench.catalogs.instructions.os.walk", late)
        made = service(source, selector="bm25")
    assert path.exists()
    assert path.name in made.select({"text": "zebra"}, None)
    assert made.metrics.value("reloads") == 1


def test_a_faulty_file_leaves_what_was_there_and_is_logged_once(files, caplog):
    made = service("agent.yaml")
    http = client(made)
    text, before = "where is my parcel", ["tool:track_parcel"]
    assert offered(http, text) == before
    (files / "agent.yaml").write_text("sources: {tools: gone.json}\n")
    for _ in range(3):
        assert offered(http, text) == before
    health = http.get("/healthz").json()
    assert (health["status"], health["items"]) == ("stale", 3)
    assert "gone.json" in health["fault"]
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert (len(errors), made.metrics.value("reload_failures")) == (1, 1)
    (files / "gone.json").write_text(json.dumps([{"name": "find_parcel", "description": "Where a parcel is"}]))
    assert offered(http, text) == ["tool:find_parcel"]
    assert health_of(http) == {"status": "ok", "selector": "agent", "items": 1}
    (files / "gone.json").write_text("[{")
    assert ": 1 fault: malformed JSON" in http.get("/healthz").json()["fault"]


LOST = {  # what becomes of a rule that is always offered
    "not UTF-8": b"\xff\xfe\xfa",
    "empty": b"",
    "no front matter": b"Be brief.\n",
    "faulty front matter": b"---\nalwaysApply: [\n---\nBe brief.\n",
    "misspelt field": b"---\nalwaysAply: true\n---\nBe brief.\n",
}


@pytest.mark.parametrize("content", LOST.values(), ids=LOST)
def test_a_rule_that_becomes_faulty_stays_as_it_was(files, caplog, content):
    rule, name = files / ".cursor" / "rules" / "always.mdc", "rule:.cursor%2Frules%2Falways.mdc"
    rule.write_text("---\nalwaysApply: true\n---\nBe brief.\n")
    made = service("agent.yaml")
    http = client(made)
    text, before = "where is my parcel", [name, "tool:track_parcel"]
    assert offered(http, text) == before
    rule.write_bytes(content)
    for _ in range(2):
        assert offered(http, text) == before
    health = http.get("/healthz").json()
    assert (health["status"], health["items"]) == ("stale", 4)
    assert ".cursor/rules/always.mdc" in health["fault"]
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert ".cursor/rules/always.mdc" in errors[0]
    (files / "tools.json").write_text(json.dumps([*TOOLS, {"name": "alpha"}]))
    assert offered(http, "alpha") == [name]  # still as before
    rule.unlink()  # a real change
    assert offered(http, "alpha") == ["tool:alpha"]
    assert health_of(http) == {"status": "ok", "selector": "agent", "items": 4}


def test_faulty_rules_are_logged_by_file_and_do_not_stop_others(files, caplog):
    rules = files / ".cursor" / "rules"
    for name in ("one", "two"):
        (rules / f"{name}.mdc").touch()
    made = service("agent.yaml")
    assert [name for name in ("one", "two") if f"{name}.mdc" in caplog.text] == ["one", "two"]
    (rules / "three.mdc").touch()  # was never there
    assert client(made).get("/healthz").json()["status"] == "ok"
    assert [record.getMessage().count("three.mdc") for record in caplog.records if "three" in record.getMessage()] == [
        1
    ]


def test_a_link_to_a_file_that_is_read_already_is_a_real_change(files):
    (files / "AGENTS.md").write_text("Be brief.")
    (files / "CLAUDE.md").write_text("Be brief, too.")
    made = service("agent.yaml")
    http = client(made)
    assert http.get("/healthz").json()["items"] == 5
    (files / "CLAUDE.md").unlink()
    (files / "CLAUDE.md").symlink_to("AGENTS.md")
    assert health_of(http) == {"status": "ok", "selector": "agent", "items": 4}


def test_a_failure_that_passes_is_tried_again(files, caplog, monkeypatch):
    made = service("items.jsonl", selector="bm25")
    failures = [StorageError("git: index.lock exists")] * 2

    def failing(name):
        if failures:
            raise failures.pop()
        return find_catalog(name)

    monkeypatch.setattr("ctxbench.cli.memory.find_catalog", failing)
    write_rows(files / "items.jsonl", [{"_id": "tool:new"}])
    assert made.health()["status"] == "stale"
    assert (made.health()["items"], len(failures)) == (3, 1)  # not at once
    monkeypatch.setattr("ctxbench.cli.memory.RETRY", 0.0)
    made._retry = 0.0
    assert made.health()["status"] == "stale"
    time.sleep(0.01)
    assert health_of(client(made)) == {"status": "ok", "selector": "bm25", "items": 1}
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
    assert (made.metrics.value("reload_failures"), made.metrics.value("reloads")) == (1, 1)


def test_vectors_of_requests_are_not_stored_while_or_after_files_are_read(files):
    made = service("items.jsonl", selector="semantic")
    stored = made._vectors._store.look_up
    with vectors_stored(), ThreadPoolExecutor(1) as other_thread:
        made._resources.vectors(["of an item"])
        other_thread.submit(made._resources.vectors, ["private, meanwhile"]).result()
    (files / "items.jsonl").write_text("{")
    made.select({"text": "private, after a failure"}, None)
    texts = ["of an item", "private, meanwhile", "private, after a failure"]
    assert stored(texts)[0].tolist() == [True, False, False]


def test_what_is_private_is_for_its_user(files):
    made = service("private.jsonl", selector="bm25", users=("ana", "ben"))
    http = client(made, tokens=UserTokens({token: user for user, token in TOKENS.items()} | {"f" * 16: None}))
    for user, item in (("ana", "memory:hers"), ("ben", "memory:his")):
        headers = {"Authorization": f"Bearer {TOKENS[user]}"}
        answer = http.post("/select", json={"text": "alpha beta"}, headers=headers).json()
        assert [entry["id"] for entry in answer["items"]] == [item, "memory:shared"]
        chat = http.post("/select", json={"text": "alpha beta", "history": []}, headers=headers).json()
        assert chat["session"]["user"] == user
        other = {"text": "a", "session": {"user": "eve"}}
        problem(http.post("/select", json=other, headers=headers), 422)
        hidden = http.post("/select", json={"text": "a", "add": ["memory:his", "memory:hers"]}, headers=headers)
        assert "no item 'memory:h" in problem(hidden, 422)
    problem(http.post("/select", json={"text": "a"}), 401)
    problem(http.post("/select", json={"text": "a"}, headers={"Authorization": f"Bearer {'f' * 16}"}), 403)
    (files / "private.jsonl").write_text("{")
    assert health_of(http) == {"status": "stale", "selector": "bm25"}


HIS = {
    "_id": "memory:secret",
    "text": "Beta of the merger; alpha alpha.",
    "user": "ben",
    "created": "2026-02-01T00:00:00Z",
}


@pytest.mark.parametrize("selector", shipped())
def test_a_private_item_of_one_user_changes_no_byte_of_the_answers_to_another(files, selector):
    rows = [*ITEMS, *PRIVATE, {"_id": "file:src%2Falpha.py", "title": "src/alpha.py", "text": "def beta(): pass"}]

    def answers(*more, users=("ana", "ben")):
        write_rows(files / "private.jsonl", [*rows, *more])
        made = service("private.jsonl", selector=selector, users=users)
        texts, chats = ("alpha beta", "the merger of gamma", ""), ({}, {"history": []})
        return [
            made.select({"text": text, "near": 20, **chat}, "ana")
            for text in texts
            for chat in chats[: 1 + (selector != "assembly")]
        ]

    expected = answers()
    assert ("memory:hers" in expected[0]) == (selector != "assembly")  # which offers files and messages, in no chat
    assert answers(HIS) == expected == answers(HIS, users=("ana",))


def test_the_service_reads_private_items_again_and_suggests_none_of_others(files):
    made = service("private.jsonl", selector="bm25", users=("ana", "ben"))
    http = client(made, tokens=UserTokens({token: user for user, token in TOKENS.items()}))
    headers = {"Authorization": f"Bearer {TOKENS['ana']}"}
    answer = http.post("/select", json={"text": "merger"}, headers=headers)
    write_rows(files / "private.jsonl", [*PRIVATE, HIS])
    assert http.post("/select", json={"text": "merger"}, headers=headers).content == answer.content
    refused = http.post("/select", json={"text": "a", "add": ["memory:secre"]}, headers=headers)
    assert "memory:secret" not in problem(refused, 422)
    write_rows(files / "private.jsonl", [*PRIVATE, HIS | {"user": "ana"}])
    read_again = http.post("/select", json={"text": "merger"}, headers=headers).json()
    assert [item["id"] for item in read_again["items"]] == ["memory:secret"]


def test_a_private_item_of_one_user_changes_no_score_of_another(files):
    def score(rows):
        write_rows(files / "private.jsonl", rows)
        made = service("private.jsonl", selector="bm25", users=("ana", "ben"))
        return [(item["id"], item["score"]) for item in json.loads(made.select({"text": "alpha beta"}, "ana"))["items"]]

    assert score(PRIVATE) == score([PRIVATE[0], {**PRIVATE[1], "text": "beta beta beta"}, PRIVATE[2]])


def test_ten_clients_get_the_answers_of_one_while_files_change(files):
    made = service("items.jsonl", selector="bm25")
    wanted = {text: made.select({"text": text}, None) for text in ("alpha", "epsilon", "gamma beta", "nothing")}
    stop = threading.Event()

    def rewrite():
        for n in range(200):
            if stop.wait(0.01):
                return
            rows = [*ITEMS, {"_id": "tool:omega", "description": "omega"}] if n % 2 else ITEMS
            new = files / "new"
            write_rows(new, rows)
            new.replace(files / "items.jsonl")

    def ask(n):
        text = [*wanted][n % len(wanted)]
        return text, made.select({"text": text, "near": 0}, None)

    with ThreadPoolExecutor(11) as pool:
        writer = pool.submit(rewrite)
        answers = list(pool.map(ask, range(400)))
        stop.set()
        writer.result()
    for text, answer in answers:
        ids = [item["id"] for item in json.loads(answer)["items"]]
        assert ids == [item["id"] for item in json.loads(wanted[text])["items"]], text
    assert made.metrics.value("reloads") > 1
    assert made.metrics.value("reload_failures") == 0


def test_drawn_requests_find_nothing(files):
    """What schemathesis draws from the specification is answered, or refused as the specification says."""
    pytest.importorskip("schemathesis")
    from tests.memory.test_schema import failures

    app = web_app(service(selector="bm25"), Access())
    found, statuses = failures(app, {})
    assert [line for line in found if "positive_data_acceptance" not in line] == []  # drawn items are not there
    assert {200, 422} <= statuses["POST /select"]
    assert statuses["GET /healthz"] >= {200}


@contextmanager
def serving(*words):
    """A process that listens, its address, and what it said of it."""
    command = [sys.executable, "-m", "ctxbench", "serve", *words, "--embedder", "hashing", "--port", 0]
    with child(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = []
            while not lines or " at http" not in lines[-1]:
                lines.append(process.stderr.readline())
                assert lines[-1], lines
            yield process, re.search(r"at (http://\S+) ", lines[-1])[1], lines[-1]
        finally:
            process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it_and_the_log_has_no_text(files, number, code):
    with serving("agent.yaml") as (process, url, said):
        assert httpx.post(f"{url}/select", json={"text": "where is my parcel"}).status_code == 200
        process.send_signal(number)
        answer, ended = process.stderr.read().splitlines()
        assert process.wait(timeout=60) == code
    assert said.startswith("agent.yaml by agent at http://127.0.0.1:")
    assert re.search(r"INFO select user=- selector=agent: 1 items, \d+ tokens, [\d.]+ ms$", answer)
    assert ended.endswith(" INFO stopped")


def test_no_answer_waits_for_the_client_to_acknowledge_its_head(files):
    with serving("items.jsonl", "--selector", "bm25") as (_, url, _said), httpx.Client() as http:
        seconds = []
        for _ in range(50):
            begin = time.perf_counter()
            assert http.post(f"{url}/select", json={"text": "alpha"}).status_code == 200
            seconds.append(time.perf_counter() - begin)
    assert min(seconds) < 0.035  # else all of them take 40 ms more


REFUSED = {
    "preset": (["items.jsonl", "--selector", "learned", "--preset", "no"], "unknown preset 'no'"),
    "presets without preset": (["items.jsonl", "--presets", "presets.yaml"], "--presets needs --preset"),
    "presets and selector": (
        ["items.jsonl", "--presets", "presets.yaml", "--selector", "bm25"],
        "leave --selector out",
    ),
    "selector": (["items.jsonl", "--selector", "larned"], "unknown selector 'larned'"),
    "external": (["external.yaml"], "a command of your own"),
    "empty": (["empty.jsonl"], "empty.jsonl"),
    "catalog": (["itms.jsonl"], "no catalog 'itms.jsonl'"),
    "host": (["items.jsonl", "--host", "0.0.0.0"], "without --tokens the host must be"),
    "workspace of a database": (["gone.db"], "gone.db"),
    "preset of a database": (["gone.db", "-w", "home", "--preset", "normal"], "--selector NAME/PRESET"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_what_does_not_suit_is_refused(files, cli, case):
    words, said = case
    (files / "empty.jsonl").touch()
    (files / "external.yaml").write_text(yaml.safe_dump({**AGENT, "selector": {"command": ["node", "mine.js"]}}))
    done = cli("serve", *words, "--embedder", "hashing", "--port", "0")
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err
    assert not (files / "gone.db").exists()


def test_a_port_in_use_is_one_clear_error(files, cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli("serve", "items.jsonl", "--embedder", "hashing", "--port", port)
    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert f"cannot serve at 127.0.0.1, port {port}: " in done.err


def test_vectors_of_requests_are_not_stored(files, cache):
    def size():
        return sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())

    made = service("items.jsonl", selector="semantic")
    before = size()
    for n in range(200):
        made.select({"text": f"request number {n}"}, None)
    assert size() == before
    rows = [*ITEMS, {"_id": "tool:new", "description": "another text"}]
    write_rows(files / "items.jsonl", rows)
    assert "tool:new" in made.select({"text": "another text"}, None)


ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "experiments" / "guide"
TSC = ROOT / ".venv" / "servers" / "node" / "node_modules" / ".bin" / "tsc"
DRIVER = """
import { select, SelectError } from "./select.%s";
const url = process.argv[2];
const ask = (request) => select(request, url, "", 30000);
const answer = await ask({ text: "alpha beta", near: 1 });
const chat = await ask({ text: "gamma", session: answer.session, history: [{ role: "user", content: "hi" }] });
const failed = await ask({ text: "a", preset: "none" }).catch((error) => error);
if (!(failed instanceof SelectError)) throw failed;
const late = await select({ text: "alpha" }, url, "", 0).catch((error) => error.name);
console.log(JSON.stringify([answer, chat.items.length, failed.status, failed.message, late]));
"""


def node_version():
    """The version of Node as numbers; 0, 0 = it is not installed."""
    if shutil.which("node") is None:
        return 0, 0
    done = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True, timeout=60)
    return tuple(int(number) for number in done.stdout.strip().lstrip("v").split(".")[:2])


def runnable_client(folder):
    """The words that run a program with the client in a folder: Node takes types off from 22.6 on, or tsc does."""
    if node_version() >= (22, 6):
        shutil.copy(GUIDE / "select.ts", folder)
        (folder / "main.mjs").write_text(DRIVER % "ts")
        return ["node", "--experimental-strip-types", "--no-warnings", "main.mjs"]
    if node_version() < (18, 0) or not TSC.exists():
        pytest.skip("needs Node 22.6, or Node 18 and the compiler of tests/servers/package.json (make test-all)")
    (folder / "package.json").write_text('{"type": "module"}')
    options = ("--strict", "--target", "es2022", "--module", "es2022", "--lib", "es2022,dom")
    subprocess.run([TSC, *options, "--outDir", folder, GUIDE / "select.ts"], check=True, timeout=120)
    (folder / "main.mjs").write_text(DRIVER % "js")
    return ["node", "main.mjs"]


def test_the_typescript_client_gets_the_answer(files, tmp_path):
    command = runnable_client(tmp_path)
    with serving("items.jsonl", "--selector", "bm25") as (_, url, _said):
        done = subprocess.run([*command, url], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        answer, n, status, message, late = json.loads(done.stdout)
        assert answer == httpx.post(f"{url}/select", json={"text": "alpha beta", "near": 1}).json()
    assert (answer["items"][0]["id"], n, status) == ("rule:zeta", 2, 422)
    assert "unknown preset 'none'" in message
    assert late == "TimeoutError"


@pytest.mark.skipif(node_version() < (18, 0), reason="needs Node 18")
def test_the_program_of_the_page_ends_with_the_tools_of_the_call(files):
    (program,) = re.findall(r"```js\n(.*?)```", (GUIDE / "serve.md").read_text("utf-8"), re.DOTALL)
    more = """
messages.push({ role: "assistant", content: [{ type: "tool_use", id: "k", name: "track_parcel", input: {} }] });
messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: "k", content: "Here." }] });
messages.push({ role: "assistant", content: "It is here." }, { role: "user", content: "Then pay it." });
console.log(JSON.stringify((await toolsFor(messages, session)).tools));
"""
    with serving("agent.yaml") as (_, url, _said):
        (files / "agent.mjs").write_text(program.replace("http://127.0.0.1:8377", url) + more)
        done = subprocess.run(["node", "agent.mjs"], cwd=files, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == TOOLS[:1]
    assert TOOLS[1] in second


def test_the_page_lists_the_metrics_of_the_service(files):
    listed = re.findall(
        r"^\| `(ctxbench_select_\w+)` \| (?:(histogram): )?", (GUIDE / "serve.md").read_text(), re.MULTILINE
    )
    figures = client(service(selector="bm25")).get("/metrics").text
    kinds = re.findall(r"^# TYPE (\w+) (\w+)$", figures, re.MULTILINE)
    assert kinds == [(name, kind or "counter") for name, kind in listed]


def test_items_have_type_and_name(files):
    write_rows(files / "items.jsonl", [{"_id": "tool:a%3Ab:del%2Fta", "description": "epsilon"}])
    (item,) = client(service(selector="bm25")).post("/select", json={"text": "epsilon"}).json()["items"]
    assert (item["id"], item["type"], item["name"]) == ("tool:a%3Ab:del%2Fta", "tool", "del/ta")


def test_the_lines_of_the_page_run(files, monkeypatch):
    """Its commands over small stand-ins, and its requests to the first of them."""
    page = (GUIDE / "serve.md").read_text("utf-8")
    commands, curls = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    presets = files / "runs" / "tune-policies-evals" / "presets"  # as `tune` names it
    presets.mkdir(parents=True)
    write_preset(presets / "evals.yaml", "normal", "learned", at_most=3)
    shutil.copytree(TINY, files / "bfcl-simple")
    for line in commands.splitlines():
        words = shlex.split(line, comments=True)
        assert words[:2] == ["ctxbench", "serve"]
        with serving(*words[2:]) as (_, url, _said):
            assert httpx.get(f"{url}/healthz").json()["status"] == "ok"
            for curl in curls.splitlines() if "learned/normal" in line else ():
                words = shlex.split(curl)
                body = words[words.index("-d") + 1] if "-d" in words else None
                address = words[2].replace("http://127.0.0.1:8377", url)
                headers = {"Content-Type": "application/json"} if "-H" in words else {}
                method = "GET" if body is None else "POST"
                assert httpx.request(method, address, content=body, headers=headers).status_code == 200
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.setattr(httpx, "Client", lambda **_: client(service(selector="bm25")))
    exec(code, names := {})
    assert names["answer"]["selector"] == "bm25"
