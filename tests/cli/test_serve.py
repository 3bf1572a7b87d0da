"""`ctxbench serve` and `ctxbench data from-feedback`: the page's own lines, how it stops, and what it refuses."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import ctxbench
from ctxbench.cli.app import main
from ctxbench.io.errors import install_command
from ctxbench.memory.memories import Memory
from ctxbench.memory.sqlite_store import SqliteStore
from tests.children import LIMIT, child

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
ROOT = Path(ctxbench.__file__).parents[1]
PAGE = ROOT / "ctxbench" / "memory" / "serve.md"
CTXBENCH = [sys.executable, "-m", "ctxbench"]


@pytest.fixture
def place(tmp_path):
    with SqliteStore(tmp_path / "memories.db") as store:
        store.create_workspace("home")
        store.insert(Memory(id="tyre", workspace="home", content="The tyre is flat.", created="2026-03-01"))
    return tmp_path / "memories.db"


def run(capsys, *words):
    """Exit code, standard output and standard error of a command in this process."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    out = capsys.readouterr()
    return ended.value.code, out.out, out.err


@contextmanager
def serving(*words, cwd=None):
    """The process of a service that listens, and its address."""
    command = [*CTXBENCH, "serve", *words, "--embedder", "hashing", "--port", 0]
    with child(command, stderr=subprocess.PIPE, text=True, cwd=cwd) as process:
        try:
            said = process.stderr.readline()
            yield process, re.search(r"at (http://\S+) ", said)[1]
        finally:
            process.kill()


@pytest.mark.essential
def test_the_lines_of_the_page_run(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    first, curls, last = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    load, serve = map(shlex.split, first.splitlines())
    assert run(capsys, *load[1:])[0] == 0
    assert serve[:2] == ["ctxbench", "serve"]
    answers, known = [], {}
    with serving(*serve[2:-2], cwd=tmp_path) as (process, url):
        for line in curls.splitlines():
            for name, value in known.items():
                line = line.replace(name, value)
            words = shlex.split(line)
            words[2] = words[2].replace("http://127.0.0.1:8377", url)
            body = words[words.index("-d") + 1] if "-d" in words else None
            headers = {"Content-Type": "application/json"} if "-H" in words else {}
            answers.append(httpx.request("GET" if body is None else "POST", words[2], content=body, headers=headers))
            assert answers[-1].status_code == 200, answers[-1].text
            if not known:
                data = answers[0].json()["data"]
                known = {"ITEM": data["items"][0]["id"], "CONTEXT": data["id"]}
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    assert any("eats fish" in item["content"] for item in answers[0].json()["data"]["items"])
    assert [one.json() for one in answers[2:4]] == [{"success": True}] * 2
    assert "ctxbench_context_builds_total 1\n" in answers[4].text
    assert answers[5].json()["openapi"] == "3.1.0"
    built = answers[6].json()["data"]
    assert built["context"].startswith("Relevant memories:\n\n[")
    assert "[preference] Joel eats fish again since March 2025" in built["context"]
    assert built["totalTokens"] <= 100
    counts = {"new": 1, "versions": 0, "same": 0, "relationships": 0, "events": 1, "elsewhere": 0}
    assert answers[7].json() == counts
    code, out, _ = run(capsys, *shlex.split(last)[1:])
    assert (code, out.splitlines()[0]) == (0, "labelled: 1 query, 1 item useful, 0 not")
    assert json.loads((tmp_path / "labelled" / "queries.jsonl").read_text())["text"] == "does Joel eat fish?"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_it_without_a_traceback(place, number, code):
    with serving(place, "-w", "home") as (process, url):
        assert httpx.post(f"{url}/context/build", json={"message": "tyre"}).status_code == 200
        process.send_signal(number)
        said = process.stderr.read()
        assert process.wait(timeout=60) == code
    context, ended = said.splitlines()
    assert " 1 items, " in context
    assert "tyre" not in context
    assert ended.endswith(" INFO stopped")


def test_requests_are_answered_where_nobody_reads_the_log(place):
    with serving(place, "-w", "home") as (process, url):
        process.stderr.close()
        for _ in range(2):
            assert httpx.post(f"{url}/context/build", json={"message": "tyre"}).status_code == 200


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_a_hangup_reads_the_token_file_again(place, tmp_path):
    path, tokens = tmp_path / "tokens.yaml", {"ana": "a" * 16, "ben": "b" * 16}
    path.touch(0o600)
    path.write_text(f"{tokens['ana']}: ana\n")

    def status(user):
        headers = {"Authorization": f"Bearer {tokens[user]}"}
        return httpx.post(f"{url}/context/preview", json={"message": "tyre"}, headers=headers).status_code

    with serving(place, "-w", "home", "--tokens", path) as (process, url):
        assert [status("ana"), status("ben")] == [200, 401]
        for text, wanted, said, health in (
            (f"{tokens['ben']}: ben\n", [401, 200], "read .* again: 1 user", "ok"),
            ("- nothing\n", [401, 200], "ERROR tokens not changed: .*tokens.yaml", "stale"),
            (None, [401, 200], "ERROR tokens not changed: .*tokens.yaml", "stale"),
            (f"{'m' * 16}: null\n{tokens['ana']}: ana\n", [200, 401], "read .* again: 1 user", "ok"),
        ):
            path.unlink(missing_ok=True)
            if text is not None:
                path.touch(0o600)
                path.write_text(text)
            process.send_signal(signal.SIGHUP)
            line = next(line for line in process.stderr if not re.search("INFO preview|refused", line))
            assert re.search(said, line)
            assert [status("ana"), status("ben")] == wanted
            assert httpx.get(f"{url}/healthz").json()["status"] == health
        figures = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {'m' * 16}"}).text
        assert "\nctxbench_context_reload_failures_total 2\n" in figures


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_a_hangup_while_figures_are_written_does_not_stop_the_service(tmp_path):
    program = f"""
import signal
from pathlib import Path
from ctxbench.cli.memory import _read_again_on_hangup
from ctxbench.memory.service import Metrics
from ctxbench.memory.web_app import UserTokens

class Service:
    metrics = Metrics()

class Counts(dict):
    def __getitem__(self, name):
        signal.raise_signal(signal.SIGHUP)
        return 0

_read_again_on_hangup(Path({str(tmp_path / "gone.yaml")!r}), UserTokens({{}}), Service())
Service.metrics._counts = Counts()
print(Service.metrics.text())
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "reload_failures_total 0" in process.stdout


def test_several_users_are_refused_a_pipeline_that_counts_over_the_whole_catalog(place, tmp_path, capsys):
    own, tokens = tmp_path / "own.yaml", tmp_path / "tokens.yaml"
    own.write_text("name: own\nabout: Mine.\nparameters: {}\npipeline: {analyse: whole, retrieve: bm25}\n")
    tokens.touch(0o600)
    tokens.write_text(f"{'a' * 16}: ana\n{'b' * 16}: ben\n")
    given = ("--selector", own, "--tokens", tokens, "--embedder", "hashing")
    code, _, err = run(capsys, "serve", place, "-w", "home", *given)
    assert (code, len(err.splitlines())) == (2, 1)
    assert all(word in err for word in ("own.yaml", "bm25", "statistics: scope"))


def test_a_port_in_use_is_one_clear_error(place, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, said = run(capsys, "serve", place, "-w", "home", "--embedder", "hashing", "--port", port)
    assert code == 2
    assert said.startswith(f"error: cannot serve at 127.0.0.1, port {port}: Address already in use")
    assert said.endswith("choose another --port or --host\n")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "0.0.0.0"], "without --tokens the host must be 127.0.0.1, got '0.0.0.0'"),
        (["--user", "ana", "--tokens", "t.yaml"], "--tokens and --user exclude each other"),
        (["--user", " "], "--user must be a text that is not blank"),
        (["--tokens", "none.yaml"], "none.yaml"),
        (["--selector", "memori"], "unknown selector 'memori'"),
        (["--embedder", "hashin"], "hashin"),
        (["--port", "70000"], "--port must be 0 to 65535, got 70000"),
        (["--port", "-1"], "--port must be 0 to 65535, got -1"),
        (["-w", "hone"], "has no workspace 'hone'; did you mean 'home'?"),
    ],
)
def test_what_does_not_suit_is_refused(place, capsys, words, said):
    code, _, told = run(capsys, "serve", place, "-w", "home", "--embedder", "hashing", *words)
    assert code == 2
    assert said in told
    assert "Traceback" not in told


def test_a_store_that_is_not_there_is_no_new_one(tmp_path, capsys):
    for command in (["serve"], ["data", "from-feedback", "--out", tmp_path / "x"]):
        assert run(capsys, *command, tmp_path / "gone.db", "-w", "home")[0] == 2
    assert [name for name in ("gone.db", "x") if (tmp_path / name).exists()] == []


def test_without_its_extra_it_says_what_to_install(place, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    code, _, said = run(capsys, "serve", place, "-w", "home")
    assert (code, said) == (2, f"error: serving needs the extra `server`: {install_command('server')}\n")


def test_other_commands_need_no_web_server():
    code = "import sys; sys.modules['starlette'] = sys.modules['uvicorn'] = None; import ctxbench.cli.memory"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT)


def test_labels_are_told_with_what_is_to_do_and_as_json(place, tmp_path, capsys):
    from ctxbench.memory.service import ContextService

    with SqliteStore(place) as store:
        service = ContextService(store, "home", embedder="hashing", counter="chars/4")
        context = service.build("tyre")
        service.feedback("memory:tyre%401", useful=False, context=context.id)
    code, out, _ = run(capsys, "data", "from-feedback", place, "-w", "home", "--out", tmp_path / "made", "--json")
    told = {"dataset": str(tmp_path / "made"), "queries": 1, "useful": 0, "notUseful": 1}
    assert (code, json.loads(out)) == (0, {**told, "sufficient": 0, "notSufficient": 0, "inPart": 1})
    code, out, _ = run(capsys, "data", "from-feedback", place, "-w", "home", "--out", tmp_path / "made")
    first, then = out.splitlines()
    assert (code, first) == (0, f"{tmp_path / 'made'}: 1 query, 0 items useful, 1 not")
    assert f"complete with `ctxbench data label {tmp_path / 'made'}`" in then


def test_what_was_said_of_whole_contexts_is_told_and_kept_beside_the_labels(place, tmp_path, capsys):
    from ctxbench.datasets.layout import NOT_SUFFICIENT, read_exposures
    from ctxbench.memory.service import ContextService

    made = tmp_path / "made"
    with SqliteStore(place) as store:
        service = ContextService(store, "home", embedder="hashing", counter="chars/4")
        full, lacking = service.build("tyre"), service.build("tea")
        for item in full.as_dict()["data"]["items"]:
            service.feedback(item["id"], useful=True, context=full.id)
        service.sufficient(full.id, True)
        service.sufficient(lacking.id, False)
    for _ in range(2):  # made anew in its place
        code, out, _ = run(capsys, "data", "from-feedback", place, "-w", "home", "--out", made)
        assert (code, out.splitlines()[1]) == (0, "1 context sufficient, 1 not")
        assert "1 query labelled in part" in out.splitlines()[2]
    exposures = read_exposures(made)
    assert {query: one.signals for query, one in exposures.items()} == {full.id: (), lacking.id: (NOT_SUFFICIENT,)}
    assert exposures[full.id].called == exposures[full.id].offered
