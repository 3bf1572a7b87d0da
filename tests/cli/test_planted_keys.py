"""Keys planted in what is captured, imported or asked: none is shown or kept in any output."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.planted import GITHUB, KEYS, PEM, STRIPE, holds, places

FAKE = str(Path(__file__).parents[1] / "catalogs" / "mcp" / "fake_stdio.py")


@pytest.fixture
def project(place):
    """A project whose rules, references and list of tools hold every key, and a configuration of servers."""
    (place / "shop" / "docs").mkdir(parents=True)
    (place / "shop" / "AGENTS.md").write_text("# Keys\n\n" + "\n\n".join(KEYS))
    (place / "shop" / "docs" / "api.md").write_text(f"---\ndescription: by {GITHUB}\n---\n\n# {STRIPE}\n\n{PEM}\n")
    tool = {"name": "a", "description": f"By {GITHUB}.", "inputSchema": {"default": [STRIPE, PEM]}, "sent": {"x": PEM}}
    (place / "tools.json").write_text(json.dumps([tool]))
    server = {"command": sys.executable, "args": [FAKE, "encodes"], "env": {"SECRET": GITHUB}}
    ends = {"command": sys.executable, "args": [FAKE, "decodes", STRIPE], "env": {"LOGIN": "Basic bWU6cHc="}}
    (place / "mcp.json").write_text(json.dumps({"mcpServers": {"leaks": server, "ends": ends}}))
    return ["--mcp-config", "mcp.json", "--rules", "shop", "--references", "shop/docs"]


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_captured_keys_are_told_and_never_shown(project, cli, place, form):
    done = cli("data", "capture", *project, "--out", "kept", *form)
    assert done.code == 1, done.err  # the server that ends
    assert [key for key in KEYS if holds(done.out + done.err, key)] == []
    assert [key for key in KEYS if holds((place / "kept/capture.yaml").read_bytes(), key)] == []
    for where in ("AGENTS.md, line 3 (ghp_", "AGENTS.md, line 17 (-----BEGIN", "api.md, line 5 (sk_l"):
        assert where in done.out
    assert "hide them with --hide-keys" in done.out


def test_captured_keys_that_are_to_be_hidden_are_in_no_file(project, cli, place):
    done = cli("data", "capture", *project, "--out", "kept", "--hide-keys", "--partial")
    assert done.code == 1, done.err
    assert cli("data", "import", "tools.json", "--out", "tools", "--hide-keys").code == 0
    for folder in ("kept", "tools"):
        assert [one for key in KEYS for one in places(place / folder, key)] == []
        assert "<key-1>" in (place / folder / "corpus.jsonl").read_text()
    assert "keys in it were hidden: AGENTS.md, line 3 (ghp_" in done.out
    chosen = cli("select", "keys", "--catalog", "kept", "--embedder", "hashing", "--json", "--messages")
    assert [key for key in KEYS if holds(chosen.out + chosen.err, key)] == []


def test_imported_tools_with_keys_are_told(project, cli):
    done = cli("data", "import", "tools.json", "--out", "tools")
    assert done.code == 0
    assert "tool:a, its description (ghp_…, 40 characters); tool:a, its schema (sk_l…, 32 characters)" in done.out
    assert [key for key in KEYS if holds(done.out + done.err, key)] == []


def test_a_log_that_is_imported_keeps_no_key_and_says_none(cli, place, tiny):
    turn = {"conversation": "c1", "turn": 1, "text": "Try " + " or ".join(KEYS), "called": [], "user": "anna"}
    (place / "log.jsonl").write_text(json.dumps(turn) + "\n")
    done = cli("data", "import", "traces", "log.jsonl", "--catalog", tiny, "--out", "mine")
    assert done.code == 0, done.err
    assert [one for key in KEYS for one in places(place / "mine", key)] == []
    (place / "log.jsonl").write_text(json.dumps({**turn, "turn": GITHUB}) + f"\n{{{GITHUB}\n")
    wrong = cli("data", "import", "traces", "log.jsonl", "--catalog", tiny, "--out", "other")
    assert wrong.code == 2
    assert not holds(wrong.out + wrong.err, GITHUB)


# -- an endpoint whose URL holds keys --------------------------------------------------------------------------------

SECRETS = (GITHUB, "tiger-42", "aB/c+1d", "aB%2Fc%2B1d", STRIPE)


class Endpoint(BaseHTTPRequestHandler):
    """Offers nothing, or fails, and repeats what it was asked by wherever it can."""

    fails = True

    def do_GET(self):
        self.respond(200, {"build": f"1 of {self.path}"})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        (query,) = (one["query"] for one in body["requests"])
        url = f"http://{self.headers['Host']}{self.path}"
        echo = {"asked": url, "sent": self.headers["Authorization"], url: quote(url, safe="")}
        row = {"query": query, "items": [], "metadata": echo}
        ways = {
            "q01": (404, f"Cannot POST {self.path} as {echo}"),
            "q02": (307, f"Moved to {url}"),
            "q03": (200, {"answers": [{"query": query, "error": f"no {echo}"}]}),
            "q04": (200, {"answers": [{"query": query, "items": [{"id": url}]}]}),
        }
        self.respond(*(ways if self.fails else {}).get(query, (200, {"answers": [row]})))

    def respond(self, status, body):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Location", self.path)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def keyed(monkeypatch):
    """The URL of an endpoint, with keys in its path and query; the authorisation is one more."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv("MY_TOKEN", f"Bearer {STRIPE}")
    yield f"http://127.0.0.1:{server.server_port}/t/{GITHUB}?k=20&api_key=tiger-42&sig=aB%2Fc%2B1d"
    server.shutdown()
    thread.join(60)
    server.server_close()


def own(url, **more):
    return json.dumps({"url": url, "authorization_env": "MY_TOKEN", **more})


def leaks(place, done, *but):
    """What an output or a file of this test shows, but for those that the test wrote itself."""
    found = [secret for secret in SECRETS if holds(done.out + done.err, secret)]
    files = [one for secret in SECRETS for one in places(place.parent, secret)]
    return found + [one for one in files if Path(one).name not in but]


def test_a_run_of_an_endpoint_shows_and_keeps_none_of_its_keys(cli, place, experiment, keyed):
    path = experiment(selectors=(own(keyed, name="mine"), own(keyed, repeats=2), "bm25"))
    done = cli("run", path)
    assert done.code == 0, done.err
    assert leaks(place, done, path.name) == []
    (folder,) = (one.parent for one in place.rglob("manifest.json"))
    rows = [json.loads(line) for line in (folder / "tiny/mine/selections.jsonl").read_text().splitlines()]
    assert sum(bool(row.get("error")) for row in rows) == 4
    assert "/t/<hidden>" in (folder / "manifest.json").read_text()
    for form in ([], ["--json"], ["--markdown", "out.md"]):
        shown = cli("report", folder, *form)
        assert leaks(place, shown, path.name) == []


def test_a_gate_over_an_endpoint_shows_and_keeps_none_of_its_keys(cli, place, tiny, keyed, monkeypatch):
    gate = place / "gate.yaml"
    head = f"datasets: [{tiny}]\nembedder: hashing\ntokens: chars/4\nselectors:\n"
    gate.write_text(f"{head}  - {own(keyed, name='mine')}\n")
    monkeypatch.setattr(Endpoint, "fails", False)
    done = cli("check", "gate.yaml", "--accept")
    assert done.code == 0, done.err
    assert leaks(place, done, gate.name) == []
    assert any("t/<hidden>" in path.read_text("utf-8", "replace") for path in place.rglob("*") if path.is_file())
    outputs = ["--markdown", "out.md", "--junit", "out.xml", "--output-format", "github"]
    wrong = (keyed.replace("http:", "htp:"), keyed.replace("//", "//me:tiger-42@"))
    for fails, url in (
        (False, keyed),
        (False, keyed.replace("k=20", "k=21")),
        (True, keyed),
        *((True, u) for u in wrong),
    ):
        monkeypatch.setattr(Endpoint, "fails", fails)
        gate.write_text(f"{head}  - {own(url, name='mine', cache=False)}\n")
        for form in (outputs, ["--output-format", "json"]):
            done = cli("check", "gate.yaml", *form)
            assert done.code == (2 if fails else 0), done.out
            assert leaks(place, done, gate.name) == []


@pytest.mark.parametrize("entry", ["{}", "{{url: [{}]}}", "{{url: 3, name: '{}'}}", "{{selector: {}}}", "{{{}: 1}}"])
def test_a_url_at_the_wrong_place_is_shown_without_its_keys(cli, place, experiment, entry):
    url = f"https://me:tiger-42@host/t/{GITHUB}?api_key=tiger-42&k=20"
    done = cli("run", experiment(selectors=(entry.format(json.dumps(url)),)))
    assert done.code == 2
    assert [secret for secret in SECRETS if holds(done.out + done.err, secret)] == []
