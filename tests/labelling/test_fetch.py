"""Fetching from a server on this machine: whole files only, gone on with after a cut, and every way to fail."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ctxbench.datasets.lookup import SourceFile
from ctxbench.io.errors import ParameterError, StorageError, UnknownNameError
from ctxbench.io.files import exclusive
from ctxbench.labelling.benchmarks import MetaTool
from ctxbench.labelling.published import fetch, source_of, sources
from tests.children import child

BODIES = {"a.csv": b"0123456789" * 20_000, "deep/b.json": b'{"a": 1}'}
COMMIT = "c" * 40


class Server:
    """Serves `BODIES` under `/owner/data/<commit>/up/`; `script` holds what the next requests get instead."""

    def __init__(self):
        self.asked = []  # (path, Range)
        self.script = []
        self.bodies = {f"/owner/data/{COMMIT}/up/{name}": body for name, body in BODIES.items()}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                outer.asked.append((self.path.rsplit("/", 1)[1], self.headers.get("Range")))
                outer.answer(self)

            def log_message(self, *_arguments):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.host = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join(timeout=60)

    def answer(self, handler):
        step = self.script.pop(0) if self.script else {}
        body = step.get("body", self.bodies.get(handler.path, b""))
        status = step.get("status", 200 if handler.path in self.bodies else 404)
        wanted = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range") or "")
        headers = dict(step.get("headers", {}))
        if status == 200 and wanted and not step.get("whole"):
            first = int(wanted[1])
            status = 206
            headers.setdefault("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
            body = body[first:]
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            handler.send_header(name, value)
        if step.get("drip") == "headers":
            handler.flush_headers()
        else:
            handler.end_headers()
        if "drip" in step:
            with contextlib.suppress(OSError):
                for _ in range(60):
                    time.sleep(0.05)
                    handler.wfile.write(body[:1] if step["drip"] == "body" else b"X: 1\r\n")
            handler.close_connection = True
            return
        for number in range(step.get("pieces", 0)):
            time.sleep(0.5)
            size = len(body) // step["pieces"]
            handler.wfile.write(body[number * size : (number + 1) * size])
        if "pieces" in step:
            return
        cut = step.get("cut")
        handler.wfile.write(body if cut is None else body[:cut])
        handler.wfile.flush()
        if "hold" in step:
            step["hold"].wait(20)
        if cut is not None:
            handler.close_connection = True


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("CTXBENCH_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


@pytest.fixture
def source():
    files = tuple(
        SourceFile(path=name, published=f"up/{name}", size=len(body), sha256=hashlib.sha256(body).hexdigest())
        for name, body in BODIES.items()
    )
    return dataclasses.replace(MetaTool.source, name="made-up", repository="owner/data", commit=COMMIT, files=files)


@pytest.fixture
def get(server, source):
    def run(**options):
        return fetch(source, host=server.host, **{"pause": 0, **options})

    return run


def standing(source):
    """Every file below the source's folder, with its bytes."""
    return {str(p.relative_to(source.folder)): p.read_bytes() for p in source.folder.rglob("*") if p.is_file()}


def test_files_come_whole_with_progress_and_only_once(get, server, source):
    seen = []
    first = get(show=lambda text, done, total: seen.append((text, done, total)))
    assert standing(source) == BODIES
    assert [(f.path, f.size, f.fresh) for f in first] == [
        (source.folder / name, len(body), True) for name, body in BODIES.items()
    ]
    assert seen[-1] == ("fetching deep/b.json, bytes", 8, 8)
    assert [done for text, done, _ in seen if "a.csv" in text][-1] == 200_000
    assert server.asked == [("a.csv", None), ("b.json", None)]
    assert [file.fresh for file in get()] == [False, False]
    assert len(server.asked) == 2


def test_a_cut_connection_is_gone_on_with(get, server, source):
    server.script = [{"cut": 70_000}, {"cut": 30_000}]
    get()
    assert server.asked == [("a.csv", None), ("a.csv", "bytes=70000-"), ("a.csv", "bytes=100000-"), ("b.json", None)]
    assert standing(source) == BODIES


def test_what_came_before_a_failure_is_kept_for_the_next_time(get, server, source):
    server.script = [{"cut": 70_000}, *[{"status": 503, "body": b"later"}] * 3]
    with pytest.raises(StorageError) as caught:
        get()
    message = "answers 503 Service Unavailable; 70,000 of 200,000 bytes are kept; run the same command"
    assert message in str(caught.value)
    assert standing(source) == {".a.csv.part": BODIES["a.csv"][:70_000]}
    get()
    assert server.asked[4] == ("a.csv", "bytes=70000-")
    assert standing(source) == BODIES


@pytest.mark.parametrize(
    "step",
    [
        {"whole": True},  # a server that knows no ranges sends all
        {"status": 416, "body": b""},
        {"headers": {"Content-Range": "bytes 5-199999/200000"}},
        {"status": 206, "headers": {}},
    ],
)
def test_a_server_that_does_not_go_on_begins_again(get, server, source, step):
    server.script = [{"cut": 70_000}, step]
    get()
    assert standing(source) == BODIES


def test_a_kept_part_that_is_wrong_is_dropped_once(get, server, source):
    source.folder.mkdir(parents=True)
    (source.folder / ".a.csv.part").write_bytes(b"x" * 70_000)
    get()
    assert [asked for asked in server.asked if asked[0] == "a.csv"] == [("a.csv", "bytes=70000-"), ("a.csv", None)]
    assert standing(source) == BODIES


def test_a_kept_part_that_is_too_long_is_dropped(get, server, source):
    source.folder.mkdir(parents=True)
    (source.folder / ".a.csv.part").write_bytes(b"x" * 200_001)
    get()
    assert standing(source) == BODIES


def test_a_file_that_is_there_but_another_is_fetched_again(get, source):
    said = []
    source.folder.mkdir(parents=True)
    (source.folder / "a.csv").write_bytes(b"old")
    get(notify=said.append)
    digest = hashlib.sha256(b"old").hexdigest()
    assert said[0].startswith(f"{source.folder / 'a.csv'}: its SHA-256 is {digest}, expected ")
    assert standing(source) == BODIES


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"status": 404, "body": b"404: Not Found"}, "the server answers 404 Not Found; if it was moved"),
        ({"status": 403, "body": b"no"}, "answers 403 Forbidden"),
        ({"body": b"<html>log in</html>"}, r"is not the expected file: 19 bytes with SHA-256 \w{64}, expected 200,000"),
        ({"body": b"x" * 200_000}, r"200,000 bytes with SHA-256 \w{64}, expected 200,000 bytes with \w{64}; nothing"),
        ({"body": b"x" * 300_000}, "it has more than the 200,000 bytes expected; nothing was kept"),
        ({"body": b"", "status": 204}, "answers 204 No Content"),
    ],
)
def test_another_answer_is_an_error_and_leaves_nothing(get, server, source, step, message):
    server.script = [step]
    with pytest.raises(StorageError, match=message):
        get()
    assert standing(source) == {}
    get()
    assert standing(source) == BODIES


def test_redirects_are_followed_a_few_times(get, server, source):
    server.bodies["/moved"] = BODIES["a.csv"]
    server.script = [{"status": 302, "headers": {"Location": "/moved"}, "body": b""}]
    get()
    assert standing(source) == BODIES
    (source.folder / "a.csv").unlink()
    server.script = [{"status": 302, "headers": {"Location": "/moved"}, "body": b""}] * 10
    with pytest.raises(StorageError, match="more than 5 redirects"):
        get()
    server.script = [{"status": 302, "headers": {"Location": "file:///etc/hosts"}, "body": b""}]
    with pytest.raises(StorageError, match=r"unsupported protocol|missing an 'http"):
        get()
    assert set(standing(source)) == {"deep/b.json"}


def test_what_stands_in_a_redirect_is_not_read(get, server, source):
    packed = gzip.compress(bytes(2**26))
    to = {"Location": "/moved", "Content-Encoding": "gzip"}
    server.bodies["/moved"] = BODIES["a.csv"]
    server.script = [{"status": 302, "headers": to, "body": packed}]
    get()  # loads what it needs, and does as it should
    assert standing(source) == BODIES
    (source.folder / "a.csv").unlink()
    server.script = [{"status": 302, "headers": to, "body": packed}]
    tracemalloc.start()
    try:
        get()
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            {"headers": {"Content-Encoding": "gzip, gzip"}},
            r"the response is compressed \('gzip, gzip'\)",
        ),
        ({"status": 302, "headers": {"Location": "http://xn--a/"}}, "not allowed; 0 of 200,000 bytes"),
        ({"status": 206, "headers": {"Content-Range": f"bytes {'9' * 5000}-"}}, "to a request for bytes from 0"),
    ],
)
def test_what_no_server_should_say_is_an_error(get, server, source, step, message):
    server.script = [step] * 4
    with pytest.raises(StorageError, match=message):
        get()
    server.script = []
    get()
    assert standing(source) == BODIES


def test_no_server_is_an_error_that_names_the_address(source, server):
    server.close()
    with pytest.raises(StorageError, match=rf"cannot fetch {server.host}/owner/data/{COMMIT}/up/a\.csv: .*; 0 of 200"):
        fetch(source, host=server.host, pause=0)
    assert standing(source) == {}
    server.close = lambda: None


@pytest.mark.parametrize("name", ["CTXBENCH_OFFLINE", "HF_HUB_OFFLINE"])
def test_the_network_can_be_forbidden(get, server, monkeypatch, name):
    monkeypatch.setenv(name, "1")
    with pytest.raises(StorageError, match="forbids the network; unset it, or name a folder"):
        get()
    assert server.asked == []
    monkeypatch.delenv(name)
    get()
    monkeypatch.setenv(name, "1")
    assert [file.fresh for file in get()] == [False, False]  # what is there needs none


def test_a_server_that_says_nothing_is_given_up(get, server, source, monkeypatch):
    monkeypatch.setattr("ctxbench.labelling.published.TIMEOUT_S", 0.2)
    hold = threading.Event()
    server.script = [{"cut": 70_000, "hold": hold}] + [{"cut": 0, "hold": hold}] * 3
    with pytest.raises(StorageError, match=r"(timed out|fewer than .*); 70,000 of 200,000 bytes are kept"):
        get()
    hold.set()


@pytest.mark.parametrize("drip", ["headers", "body"])
def test_a_server_that_drips_is_given_up_and_the_part_kept(get, server, source, monkeypatch, drip):
    monkeypatch.setattr("ctxbench.labelling.published.TIMEOUT_S", 0.3)
    server.script = [{"cut": 70_000}, *[{"drip": drip}] * 3]
    with pytest.raises(
        StorageError, match=r"fewer than 30,000 bytes arrived in 30 s; 70,\d{3} of 200,000 bytes are kept"
    ):
        get()
    get()
    assert standing(source) == BODIES


def test_a_large_file_may_take_longer_than_the_time_of_a_part_of_it(get, server, source, monkeypatch):
    monkeypatch.setattr("ctxbench.labelling.published.TIMEOUT_S", 2.0)
    server.script = [{"pieces": 5}]  # a fifth of it each 0.5 seconds
    get()
    assert [asked for asked in server.asked if asked[0] == "a.csv"] == [("a.csv", None)]
    assert standing(source) == BODIES


@pytest.mark.parametrize(("name", "value"), [("ALL_PROXY", "foo://x"), ("SSL_CERT_FILE", "none.pem")])
def test_an_environment_that_cannot_be_used_is_said(get, server, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(StorageError, match=r"the network settings of the environment \(HTTPS_PROXY"):
        get()
    assert server.asked == []


RUN = """
import dataclasses, json, resource, sys
from ctxbench.labelling.published import fetch
from ctxbench.datasets.lookup import SourceFile
from ctxbench.labelling.benchmarks import MetaTool
host, files, limit = json.loads(sys.argv[1])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
files = tuple(SourceFile(**file) for file in files)
source = dataclasses.replace(MetaTool.source, name="made-up", repository="owner/data", commit="c" * 40, files=files)
try:
    fetch(source, host=host, pause=0)
except Exception as error:
    print(type(error).__name__, error)
except KeyboardInterrupt as stopped:
    print("stopped", *stopped.__notes__)
"""


def start(server, source, limit=0):
    arguments = json.dumps([server.host, [dataclasses.asdict(file) for file in source.files], limit])
    return child([sys.executable, "-c", RUN, arguments], stdout=subprocess.PIPE, text=True)


def test_a_full_disk_is_said_and_leaves_nothing(server, source):
    with start(server, source, limit=100_000) as process:  # bytes a file may have: as if there were no room for more
        out, _ = process.communicate(timeout=60)
    assert out.startswith(f"StorageError cannot write {source.folder / 'a.csv'}: File too large; nothing was changed")
    assert standing(source) == {}


def test_ctrl_c_keeps_what_has_come_and_nothing_half_written(server, source, get):
    hold = threading.Event()
    server.script = [{"cut": 70_000, "hold": hold}]
    with start(server, source) as process:
        part = source.folder / ".a.csv.part"
        until = time.monotonic() + 30
        while not (part.is_file() and part.stat().st_size) and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        hold.set()
    assert out == "stopped downloaded bytes are kept; run the same command to continue\n"
    assert not (source.folder / "a.csv").exists()
    get()
    assert standing(source) == BODIES


def test_processes_take_turns(get, server, source):
    said = []
    with exclusive(source.folder / ".lock", waiting=lambda: None):
        thread = threading.Thread(target=lambda: get(notify=said.append))
        thread.start()
        until = time.monotonic() + 30
        while not said and time.monotonic() < until:
            time.sleep(0.02)
        assert server.asked == []
    thread.join(30)
    assert said == ["made-up: another process is fetching it; waiting"]
    assert standing(source) == BODIES


def test_a_source_is_named_by_itself_or_by_its_datasets():
    assert source_of("metatool") is source_of("metatool-multi") is MetaTool.source
    assert list(sources()) == [
        *("livemcpbench", "locomo", "longmemeval-m", "longmemeval-oracle", "longmemeval-s", "metatool", "toollens"),
    ]
    with pytest.raises(UnknownNameError, match="did you mean 'metatool'"):
        source_of("metatol")
    with pytest.raises(ParameterError, match=r"smoke has no files to fetch; .*: pip install"):
        source_of("smoke")
