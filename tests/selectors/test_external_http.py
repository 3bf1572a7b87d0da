"""An HTTP endpoint as a selector: batches, retries, secrets, build ids, and every way in which one can fail."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import socket
import threading
import tracemalloc
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from ctxbench.io.errors import ParameterError, SelectorError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request
from ctxbench.selectors.external import External, external_from_config
from ctxbench.selectors.http import HttpOptions, HttpSource
from ctxbench.selectors.protocol import schema

CATALOG = Catalog([Item(type="tool", name="a"), Item(type="tool", name="b"), Item(type="tool", name="c")])
A, B, C = CATALOG.ids


def batch_of(*texts):
    return Batch.of(CATALOG, [Request(id=f"q{i}", text=text) for i, text in enumerate(texts)])


def chosen(made):
    rows = [[] for _ in made.query.batch.requests]
    for row, item in zip(made.candidates.request, made.candidates.item, strict=True):
        rows[row].append(CATALOG.ids[item])
    return rows


def answers(body, **more):
    """Each request is answered with the item that its text names."""
    rows = [{"query": r["query"], "items": [{"id": f"tool:{r['request']['text']}"}]} for r in body["requests"]]
    return 200, {"answers": rows, **more}


class Endpoint:
    """A server whose responses a test writes; remembers what it was sent."""

    def __init__(self):
        self.posts, self.gets, self.headers = [], 0, []
        self.post = answers
        self.get = lambda: (404, {})
        self.released = threading.Event()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                endpoint.gets += 1
                self.respond(endpoint.get())

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.posts.append(body)
                endpoint.headers.append(dict(self.headers))
                self.respond(endpoint.post(body))

            def respond(self, response):
                if response is None:  # drop the connection
                    self.close_connection = True
                    self.connection.close()
                    return
                status, value, *headers = response
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                for name, text in headers:
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_):
                pass  # a client that gave up is what some tests are about

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/select"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def slowly(self, body):
        self.released.wait(10)
        return answers(body)

    def stop(self):
        self.released.set()
        self.server.shutdown()
        self.thread.join(timeout=60)
        self.server.server_close()


@pytest.fixture
def endpoint():
    made = Endpoint()
    yield made
    made.stop()


@pytest.fixture
def ask(endpoint):
    """Make selectors of the endpoint that are closed at the end."""
    made = []

    def one(url=None, **options):
        options = {"timeout": 1.0, "backoff": 0.0, **options}
        cache = options.pop("cache", None)
        repeats = options.pop("repeats", 1)
        source = HttpSource(url or endpoint.url, options=HttpOptions(**options))
        made.append(External(source, name="mine", cache=cache, repeats=repeats))
        return made[-1]

    yield one
    for selector in made:
        selector.close()


def test_requests_are_posted_one_by_one_and_timed(endpoint, ask):
    made = ask().select(batch_of("a", "b"))
    assert (chosen(made), made.errors) == ([[A], [B]], {})
    assert [[r["query"] for r in post["requests"]] for post in endpoint.posts] == [["q0"], ["q1"]]
    assert endpoint.posts[0] == {
        "ctxbench": 1,
        "catalog": CATALOG.hash,
        "requests": [{"query": "q0", "request": {"id": "q0", "text": "a"}}],
    }
    assert (made.seconds > 0).all()
    assert endpoint.gets == 0
    assert endpoint.headers[0]["Content-Type"] == "application/json"
    assert "Authorization" not in endpoint.headers[0]


def test_requests_are_posted_in_batches_and_answered_in_any_order(endpoint, ask):
    def backwards(body):
        status, value = answers(body)
        return status, {"answers": value["answers"][::-1]}

    endpoint.post = backwards
    made = ask(batch=2).select(batch_of("a", "b", "c"))
    assert chosen(made) == [[A], [B], [C]]
    assert [len(post["requests"]) for post in endpoint.posts] == [2, 1]
    assert np.isnan(made.seconds).tolist() == [True, True, False]


def test_posts_side_by_side_answer_alike(endpoint, ask):
    texts = ["a", "b", "c"] * 4
    assert chosen(ask(concurrency=4).select(batch_of(*texts))) == [[f"tool:{text}"] for text in texts]


def test_the_catalog_is_sent_only_to_an_endpoint_that_asks_for_it(endpoint, ask):
    known = {}

    def need(body):
        if "items" in body:
            known[body["catalog"]] = [row["_id"] for row in body["items"]]
        if body["catalog"] not in known:
            return 200, {"need": "catalog"}
        return answers(body)

    endpoint.post = need
    selector = ask()
    assert chosen(selector.select(batch_of("a", "b"))) == [[A], [B]]
    assert [sorted(set(post) - {"ctxbench", "catalog"}) for post in endpoint.posts] == [
        ["requests"],
        ["items", "requests"],
        ["requests"],
    ]
    assert known == {CATALOG.hash: [A, B, C]}
    whole = schema()
    for post in endpoint.posts:
        jsonschema.validate(post, {"$ref": "#/$defs/post", "$defs": whole["$defs"]})


def test_an_endpoint_that_cannot_have_what_it_needs_is_an_error(endpoint, ask):
    endpoint.post = lambda body: (200, {"need": "catalog"})
    error = ask(send="nothing").select(batch_of("a")).errors[0]
    assert error == f"query 'q0': {endpoint.url} needs 'catalog', which it is not sent (send is 'nothing')"
    again = ask(send="ids").select(batch_of("a")).errors[0]
    assert again == f"query 'q0': {endpoint.url} needs 'catalog' again, which it was sent"
    assert endpoint.posts[-1]["ids"] == [A, B, C]
    endpoint.post = lambda body: (200, {"need": "money"})
    assert "needs 'money', which it is not sent" in ask().select(batch_of("a")).errors[0]


def test_a_slow_endpoint_is_a_time_out_and_not_tried_again(endpoint, ask):
    endpoint.post = endpoint.slowly
    made = ask(timeout=0.2).select(batch_of("a"))
    assert made.errors == {0: f"query 'q0': no answer from {endpoint.url} within 0.2 s"}
    assert len(endpoint.posts) == 1


def test_after_five_time_outs_in_a_row_nothing_more_is_posted(endpoint, ask):
    endpoint.post = endpoint.slowly
    selector = ask(timeout=0.1)
    made = selector.select(batch_of(*"abcabca"))
    late = f"no answer from {endpoint.url} within 0.1 s"
    assert made.errors == {
        **{row: f"query 'q{row}': {late}" for row in range(5)},
        **{row: f"query 'q{row}': not asked: 5 queries in a row had no answer; the last: {late}" for row in (5, 6)},
    }
    assert "not asked" in selector.select(batch_of("a"), time=1).errors[0], "the next batch and the next time, too"
    assert len(endpoint.posts) == 5
    endpoint.post = answers
    assert not selector.select(Batch.of(Catalog([CATALOG[0]]), [Request(id="q0", text="a")])).errors
    selector.close()
    assert not selector.select(batch_of("a")).errors, "closed, it begins anew"


@pytest.mark.parametrize("heard", [answers, lambda body: (500, b""), lambda body: (200, b"junk")])
def test_whatever_an_endpoint_says_breaks_the_row(endpoint, ask, heard):
    endpoint.post = lambda body: heard(body) if len(endpoint.posts) == 5 else (504, b"")
    made = ask().select(batch_of(*"a" * 11))
    assert [row for row, error in made.errors.items() if "status 504" in error and "not asked" not in error] == [
        *range(4),
        *range(5, 10),
    ]
    assert [row for row, error in made.errors.items() if "not asked" in error] == [10]
    assert len(endpoint.posts) == 10


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_status_that_says_that_the_selector_did_not_answer_counts_as_none(endpoint, ask, status):
    endpoint.post = lambda body: (status, b"busy")
    made = ask(retries=0).select(batch_of(*"a" * 6))
    said = f"status {status} from {endpoint.url}: 'busy'"
    assert made.errors[4] == f"query 'q4': {said}"
    assert made.errors[5] == f"query 'q5': not asked: 5 queries in a row had no answer; the last: {said}"


def test_errors_that_come_at_once_do_not_end_the_asking(endpoint, ask):
    endpoint.post = lambda body: (500, b"no")
    assert len(ask().select(batch_of(*"a" * 8)).errors) == len(endpoint.posts) == 8


def test_without_a_connection_five_queries_are_tried(ask):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
    selector = ask(url)
    made = selector.select(batch_of(*"a" * 9))
    assert ["not asked: 5 queries in a row" in made.errors[row] for row in range(9)] == [False] * 5 + [True] * 4
    assert f"no connection to {url} (3 tries)" in made.errors[8]
    assert selector.notes["tried_again"] == 10


def test_with_several_at_a_time_as_many_rows_are_waited_for(endpoint, ask):
    endpoint.post = endpoint.slowly
    made = ask(timeout=0.2, concurrency=2, batch=2).select(batch_of(*"a" * 40))
    given_up = [error for error in made.errors.values() if "not asked: 10 POSTs in a row had no answer" in error]
    assert len(made.errors) == 40
    assert len(endpoint.posts) in (10, 11)  # one may be under way when the tenth is given up
    assert len(given_up) == 40 - 2 * len(endpoint.posts)


def test_queries_that_were_not_asked_are_not_kept(endpoint, ask, tmp_path):
    endpoint.get = lambda: (200, {"build": "b1"})
    endpoint.post = lambda body: (504, b"")
    assert len(ask(cache=tmp_path).select(batch_of(*"a" * 7)).errors) == 7
    endpoint.post = answers
    again = ask(cache=tmp_path)
    assert not again.select(batch_of(*"a" * 7)).errors
    assert "from_cache" not in again.notes


def test_a_dripping_body_is_a_time_out():
    ready = threading.Event()

    class Drip(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200)
            self.end_headers()
            while not ready.wait(0.05):
                try:
                    self.wfile.write(b" ")
                except OSError:
                    return

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Drip)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/"
    try:
        with External(HttpSource(url, options=HttpOptions(timeout=0.3)), name="mine") as selector:
            assert selector.select(batch_of("a")).errors == {0: f"query 'q0': no answer from {url} within 0.3 s"}
    finally:
        ready.set()
        server.shutdown()
        thread.join(timeout=60)
        server.server_close()


@pytest.fixture
def dripping():
    """The URL of a server that sends a header every 50 ms, for 1.5 s, and then an empty body."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip():
            connection, _ = listening.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                for number in range(30):
                    if done.wait(0.05):
                        return
                    connection.sendall(b"X-%d: 1\r\n" % number)
                connection.sendall(b"Content-Length: 0\r\n\r\n")

        thread = threading.Thread(target=drip)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
        done.set()
        thread.join(timeout=60)


def test_dripping_headers_are_a_time_out(dripping):
    with External(HttpSource(dripping, options=HttpOptions(timeout=0.3, retries=0)), name="mine") as selector:
        assert selector.select(batch_of("a")).errors == {0: f"query 'q0': no answer from {dripping} within 0.3 s"}


def test_only_the_last_exchange_is_timed(endpoint, ask):
    endpoint.post = lambda body: (503, b"", ("Retry-After", "1")) if len(endpoint.posts) == 1 else answers(body)
    made = ask().select(batch_of("a"))
    assert chosen(made) == [[A]]
    assert 0 < made.seconds[0] < 1  # a second was waited, as the endpoint asked


def test_a_status_is_the_error_of_the_queries_of_its_post_and_quoted(endpoint, ask):
    def fail_b(body):
        if any(r["request"]["text"] == "b" for r in body["requests"]):
            return 500, b"<html>Internal error " + b"x" * 300
        return answers(body)

    endpoint.post = fail_b
    made = ask(batch=2).select(batch_of("a", "b", "c"))
    assert chosen(made) == [[], [], [C]]
    text = f"<html>Internal error {'x' * 179}"
    expected = f"status 500 from {endpoint.url}: '{text}' and 121 characters more"
    assert made.errors == {0: f"query 'q0': {expected}", 1: f"query 'q1': {expected}"}
    assert len(endpoint.posts) == 2  # a status 500 is not tried again


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"<html>hello</html>", "returned a body that is not JSON: Expecting value: '<html>hello</html>'"),
        (b"", "returned a body that is not JSON: Expecting value: ''"),
        ([], "returned no answers; expected {answers: [...]}, got '[]'"),
        ({"answers": {}}, "returned no answers; expected {answers: [...]}, got '{\"answers\": {}}'"),
        ({"answers": [], "other": 1}, "returned an object with the unknown key 'other'"),
        ({"answers": []}, "returned 0 answers to this query; expected one"),
        ({"answers": [{"query": "q0", "items": []}] * 2}, "returned 2 answers to this query; expected one"),
        ({"answers": [{"query": "q9", "items": []}]}, "returned an answer to no query of this POST: "),
        ({"answers": ["x"]}, "returned an answer to no query of this POST: "),
    ],
)
def test_what_is_no_answer_is_an_error(endpoint, ask, value, message):
    endpoint.post = lambda body: (200, value)
    assert ask().select(batch_of("a")).errors[0].startswith(f"query 'q0': {endpoint.url} {message}")


def bomb(mebibytes):
    """Zeros, packed by gzip twice over: a mebibyte becomes two bytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    once = b"".join(packer.compress(bytes(2**20)) for _ in range(mebibytes)) + packer.flush()
    return gzip.compress(once)


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "deflate", "br", "zstd", "GZIP", "identity, x-mine"])
def test_a_compressed_body_is_not_asked_for_and_not_read(endpoint, ask, encoding):
    endpoint.post = lambda body: (200, b"\0" * 100_000, ("Content-Encoding", encoding))
    assert ask().select(batch_of("a")).errors == {
        0: f"query 'q0': {endpoint.url} returned a body in the encoding '{encoding}'; expected it as it is, as it was "
        "asked for (Accept-Encoding: identity): turn compression off"
    }
    assert endpoint.headers[0]["Accept-Encoding"] == "identity"


def test_a_few_bytes_that_stand_for_gigabytes_take_no_memory(endpoint, ask):
    body = bomb(256)
    assert len(body) < 4096
    endpoint.post = lambda _: (200, body, ("Content-Encoding", "gzip, gzip"))
    endpoint.get = lambda: (200, body, ("Content-Encoding", "gzip, gzip"))
    selector = ask(timeout=10.0)
    tracemalloc.start()
    try:
        assert "in the encoding 'gzip, gzip'" in selector.select(batch_of("a")).errors[0]
        with pytest.raises(SelectorError, match=r"cannot be asked for its build id .* in the encoding 'gzip, gzip'"):
            selector.describe()
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_a_status_is_said_where_its_body_is_compressed(endpoint, ask):
    endpoint.post = lambda body: (500, gzip.compress(b"no"), ("Content-Encoding", "gzip"))
    endpoint.get = lambda: (404, gzip.compress(b"no"), ("Content-Encoding", "gzip"))
    selector = ask()
    said = f"query 'q0': status 500 from {endpoint.url}; compressed body not read: ''"
    assert selector.select(batch_of("a")).errors == {0: said}
    assert selector.describe()["build"] is None


def test_a_body_that_says_that_it_is_as_it_is_is_read(endpoint, ask):
    endpoint.post = lambda body: (*answers(body), ("Content-Encoding", "Identity"))
    assert chosen(ask().select(batch_of("a"))) == [[A]]


def test_faulty_answers_are_errors_as_from_any_selector(endpoint, ask):
    endpoint.post = lambda body: (200, b'{"answers": [{"query": "q0", "items": [{"id": "tool:a", "score": NaN}]}]}')
    assert ask().select(batch_of("a")).errors == {
        0: "query 'q0': the score of items[0] ('tool:a') is nan; expected a finite number"
    }


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_endpoint_is_asked_again(endpoint, ask, status):
    endpoint.post = lambda body: (status, b"busy", ("Retry-After", "0")) if len(endpoint.posts) < 3 else answers(body)
    selector = ask()
    assert chosen(selector.select(batch_of("a"))) == [[A]]
    assert len(endpoint.posts) == 3
    assert selector.notes["tried_again"] == 2


def test_tries_are_bounded(endpoint, ask):
    endpoint.post = lambda body: (429, b"busy")
    made = ask(retries=1).select(batch_of("a"))
    assert made.errors == {0: f"query 'q0': status 429 from {endpoint.url}: 'busy'"}
    assert len(endpoint.posts) == 2


def test_a_dropped_connection_is_tried_again(endpoint, ask):
    endpoint.post = lambda body: None if len(endpoint.posts) == 1 else answers(body)
    selector = ask()
    assert chosen(selector.select(batch_of("a"))) == [[A]]
    endpoint.post = lambda body: None
    made = selector.select(batch_of("b"))
    assert made.errors[0].startswith(f"query 'q0': no whole answer from {endpoint.url} (3 tries): RemoteProtocolError")


def test_an_endpoint_that_is_not_there_is_an_error(endpoint, ask):
    endpoint.stop()
    selector = ask(retries=1)
    assert f"no connection to {endpoint.url} (2 tries): ConnectError" in selector.select(batch_of("a")).errors[0]
    with pytest.raises(SelectorError, match=r"cannot be asked for its build id \(GET; status 404 means none\)"):
        selector.describe()


def test_redirects_are_not_followed(endpoint, ask):
    endpoint.post = lambda body: (307, b"", ("Location", f"{endpoint.url}/elsewhere"))
    made = ask().select(batch_of("a"))
    assert made.errors == {0: f"query 'q0': status 307 from {endpoint.url}; redirects are not followed: ''"}
    assert len(endpoint.posts) == 1


def test_a_redirect_to_a_host_that_cannot_be_is_an_error(endpoint, ask):
    endpoint.post = lambda body: (307, b"", ("Location", "http://xn--a/"))
    error = ask(retries=0).select(batch_of("a")).errors[0]
    assert error.startswith(f"query 'q0': no whole answer from {endpoint.url} (1 tries): RemoteProtocolError")


def test_proxies_of_the_environment_are_not_used_for_this_machine(endpoint, ask, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert chosen(ask().select(batch_of("a"))) == [[A]]


def test_the_authorisation_is_sent_and_never_shown(endpoint, ask, monkeypatch, tmp_path):
    monkeypatch.setenv("MY_TOKEN", "Bearer s3cr3t-value")
    endpoint.get = lambda: (200, {"build": "1"})

    def echo(body):
        sent = endpoint.headers[-1].get("Authorization", "")
        if body["requests"][0]["request"]["text"] == "fail":
            return 403, f"not allowed: {sent}".encode()
        query = body["requests"][0]["query"]
        return 200, {"answers": [{"query": query, "error": f"you are s3cr3t-value with {sent}"}]}

    endpoint.post = echo
    selector = ask(authorization_env="MY_TOKEN", cache=tmp_path)
    made = selector.select(batch_of("fail", "x"))
    assert endpoint.headers[0]["Authorization"] == "Bearer s3cr3t-value"
    assert made.errors == {
        0: f"query 'q0': status 403 from {endpoint.url}: 'not allowed: <hidden>'",
        1: "query 'q1': the selector reported an error: you are <hidden> with <hidden>",
    }
    assert selector.describe()["authorization_env"] == "MY_TOKEN"
    assert "s3cr3t" not in json.dumps([selector.describe(), selector.notes])
    endpoint.post = answers
    selector.select(batch_of("a"))
    kept = list(tmp_path.iterdir())
    assert len(kept) == 1
    assert "s3cr3t" not in kept[0].name + kept[0].read_text()


@pytest.mark.parametrize(
    ("token", "name"), [("Bearer run", "run tests"), ("Bearer tool", "x"), ("query", "items"), ("5", "x5")]
)
def test_an_authorisation_that_occurs_in_ids_and_scores_changes_none(endpoint, ask, monkeypatch, tmp_path, token, name):
    monkeypatch.setenv("MY_TOKEN", token)
    endpoint.get = lambda: (200, {"build": f"build {token}"})
    catalog = Catalog([Item(type="tool", name=name)])
    row = {"id": catalog.ids[0], "score": 0.5123}
    endpoint.post = lambda body: (
        200, {"answers": [{"query": token, "items": [row], "metadata": f"you are {token}"}], "build": f"build {token}"}
    )  # fmt: skip
    for _ in range(2):  # the second time from the cache
        selector = ask(authorization_env="MY_TOKEN", cache=tmp_path)
        made = selector.select(Batch.of(catalog, [Request(id=token, text="")]))
        assert (made.errors, made.candidates.item.tolist(), made.candidates.score.tolist()) == ({}, [0], [0.5123])
    assert f"you are {token}" not in next(tmp_path.iterdir()).read_text()


def test_an_authorisation_is_hidden_wherever_a_faulty_answer_is_quoted(endpoint, ask, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "Bearer s3'cr3t\\value")
    echo = "s3'cr3t\\value"
    faulty = [
        {"items": [{"id": echo}]}, {"items": [{"id": "tool:a", "score": echo}]}, {echo: []},
        {"items": echo}, {"items": [echo]}, {"items": [], "error": "x" * 990 + echo}, {"items": ["x" * 190 + echo]},
    ]  # fmt: skip
    endpoint.post = lambda body: (
        200,
        {"answers": [{"query": "q0", **faulty[int(body["requests"][0]["request"]["text"])]}]},
    )
    selector = ask(authorization_env="MY_TOKEN")
    for number in range(len(faulty)):
        (error,) = selector.select(batch_of(str(number))).errors.values()
        assert "s3" not in error
        assert "<hidden>" in error
    endpoint.post = lambda body: (200, b"", ("Content-Encoding", echo))
    (error,) = selector.select(batch_of("x")).errors.values()
    assert "in the encoding '<hidden>'" in error
    endpoint.post = lambda body: (200, json.dumps({echo: 1, "x": 2}).replace('"x"', json.dumps(echo)).encode())
    (error,) = selector.select(batch_of("x")).errors.values()
    assert 'holds the key "<hidden>" twice' in error
    for value in ({"need": echo}, {"answers": [], echo: 1}, {"answers": [echo]}, {"answers": echo}):
        endpoint.post = lambda body, value=value: (200, value)
        (error,) = selector.select(batch_of("x")).errors.values()
        assert "s3" not in error
        assert "<hidden>" in error


def test_an_answer_that_is_nested_deep_stops_no_other(endpoint, ask, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", "t")
    deep = b'{"answers": [{"query": "q0", "items": %s}]}' % (b"[" * 480 + b"]" * 480)
    endpoint.post = lambda body: (200, deep) if len(endpoint.posts) == 1 else answers(body)
    made = ask(authorization_env="MY_TOKEN").select(batch_of("a", "b"))
    assert (chosen(made), list(made.errors)) == ([[], [B]], [0])


def test_a_missing_authorisation_is_an_error_before_anything_is_asked(endpoint, monkeypatch):
    monkeypatch.delenv("NO_TOKEN", raising=False)
    config = {"url": endpoint.url, "authorization_env": "NO_TOKEN"}
    with pytest.raises(ParameterError, match="names the variable 'NO_TOKEN', which is not set or empty; set it"):
        external_from_config(config, base=Path())
    monkeypatch.setenv("BAD_TOKEN", "line\nbreak")
    with pytest.raises(ParameterError, match="'BAD_TOKEN' cannot stand in a header") as caught:
        external_from_config({**config, "authorization_env": "BAD_TOKEN"}, base=Path())
    assert "break" not in str(caught.value)


# -- build ids and the cache -----------------------------------------------------------------------------------------


def test_without_a_build_id_nothing_is_kept(endpoint, ask, tmp_path):
    for get in (
        lambda: (404, {}), lambda: (405, b"no"), lambda: (200, b"<html>"), lambda: (200, {"build": 3}),
        lambda: (200, []), lambda: (500, {"build": "x"}),
    ):  # fmt: skip
        endpoint.get = get
        selector = ask(cache=tmp_path / "cache")
        assert chosen(selector.select(batch_of("a"))) == [[A]]
        assert selector.describe()["build"] is None
    assert not (tmp_path / "cache").exists()
    assert len(endpoint.posts) == 6


def test_answers_are_kept_by_build_catalog_and_request(endpoint, ask, tmp_path):
    endpoint.get = lambda: (200, {"build": "v1"})
    first = ask(cache=tmp_path)
    before = first.select(batch_of("a", "b"))
    assert (endpoint.gets, len(endpoint.posts)) == (1, 2)
    second = ask(cache=tmp_path)
    after = second.select(batch_of("a", "b", "c"))
    assert [post["requests"][0]["query"] for post in endpoint.posts] == ["q0", "q1", "q2"]
    assert (chosen(before), chosen(after)) == ([[A], [B]], [[A], [B], [C]])
    assert second.notes["from_cache"] == 2
    assert np.isnan(after.seconds).tolist() == [True, True, False]
    other = Catalog([Item(type="tool", name="a")])
    second.select(Batch.of(other, [Request(id="q0", text="a")]))
    assert len(endpoint.posts) == 4
    endpoint.get = lambda: (200, {"build": "v2"})
    ask(cache=tmp_path).select(batch_of("a"))
    assert len(endpoint.posts) == 5
    assert len(list(tmp_path.iterdir())) == 2


def test_answers_made_from_texts_are_not_given_where_only_ids_are_sent(endpoint, ask, tmp_path):
    endpoint.get = lambda: (200, {"build": "v1"})

    def first_or_last(body):
        if "items" not in body and "ids" not in body:
            return 200, {"need": "catalog"}
        pick = body["items"][-1]["_id"] if "items" in body else body["ids"][0]
        return 200, {"answers": [{"query": "q0", "items": [{"id": pick}]}]}

    endpoint.post = first_or_last
    assert chosen(ask(cache=tmp_path, send="items").select(batch_of("x"))) == [[C]]
    assert chosen(ask(cache=tmp_path, send="ids").select(batch_of("x"))) == [[A]]


def test_failures_are_not_kept(endpoint, ask, tmp_path):
    endpoint.get = lambda: (200, {"build": "v1"})
    endpoint.post = lambda body: (500, b"")
    assert 0 in ask(cache=tmp_path).select(batch_of("a")).errors
    endpoint.post = lambda body: (200, {"answers": [{"query": "q0", "items": [{"id": "tool:zz"}]}]})
    assert 0 in ask(cache=tmp_path).select(batch_of("a")).errors
    endpoint.post = answers
    assert chosen(ask(cache=tmp_path).select(batch_of("a"))) == [[A]]


def test_a_spoilt_record_is_passed_over_and_the_next_is_kept(endpoint, ask, tmp_path):
    endpoint.get = lambda: (200, {"build": "v1"})
    ask(cache=tmp_path).select(batch_of("a", "b"))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-20])  # as a process that was killed leaves it
    selector = ask(cache=tmp_path)
    assert chosen(selector.select(batch_of("a", "b"))) == [[A], [B]]
    assert selector.notes["from_cache"] == 1
    last = ask(cache=tmp_path)
    last.select(batch_of("a", "b"))
    assert (last.notes["from_cache"], len(endpoint.posts)) == (2, 3)


def test_answers_that_are_not_what_was_kept_are_asked_for_again_and_said_once(endpoint, ask, tmp_path, caplog):
    endpoint.get = lambda: (200, {"build": "v1"})
    ask(cache=tmp_path).select(batch_of("a", "b", "c"))
    (path,) = tmp_path.iterdir()
    rows = [json.loads(line) for line in path.read_text().split()]
    for row, other in zip(rows, rows[1:] + rows[:1], strict=True):
        row["key"], row["answer"] = row["key"], other["answer"]
    path.write_text("".join(f"{json.dumps(row, separators=(',', ':'))}\n" for row in rows))
    for _ in range(2):
        assert chosen(ask(cache=tmp_path).select(batch_of("a", "b", "c"))) == [[A], [B], [C]]
    assert len(endpoint.posts) == 6
    assert [record.getMessage() for record in caplog.records] == [
        f"3 of 3 answers in {path} do not match their checksums; they are asked for again"
    ]


def test_answers_of_another_build_under_this_ones_name_are_not_given(endpoint, ask, tmp_path):
    endpoint.get = lambda: (200, {"build": "v1"})
    ask(cache=tmp_path).select(batch_of("a"))
    (first,) = tmp_path.iterdir()
    endpoint.get = lambda: (200, {"build": "v2"})
    ask(cache=tmp_path).select(batch_of("a"))
    (second,) = set(tmp_path.iterdir()) - {first}
    second.write_bytes(first.read_bytes())
    selector = ask(cache=tmp_path)
    selector.select(batch_of("a"))
    assert "from_cache" not in selector.notes


def test_a_cache_that_cannot_be_written_is_noted(endpoint, ask, tmp_path):
    endpoint.get = lambda: (200, {"build": "v1"})
    (tmp_path / "file").write_text("")
    selector = ask(cache=tmp_path / "file" / "cache")
    assert chosen(selector.select(batch_of("a"))) == [[A]]
    assert selector.notes["cache_not_written"] == "Not a directory"


def test_another_build_in_the_middle_is_an_error(endpoint, ask, tmp_path):
    endpoint.get = lambda: (200, {"build": "v1"})
    endpoint.post = lambda body: answers(body, build="v1" if body["requests"][0]["query"] == "q0" else "v2")
    selector = ask(cache=tmp_path)
    made = selector.select(batch_of("a", "b"))
    assert made.errors == {1: "query 'q1': build 'v2' answered, but GET reported build 'v1'; run it again"}
    assert selector.notes["builds"] == ["v1"]


def test_repeats_are_kept_one_by_one_and_compared(endpoint, ask, tmp_path):
    endpoint.get = lambda: (200, {"build": "v1"})

    def noisy(body):
        status, value = answers(body)
        if body["requests"][0]["request"]["text"] == "b" and len(endpoint.posts) > 2:
            value["answers"][0]["items"] = [{"id": C}]
        return status, value

    endpoint.post = noisy
    for number in range(2):  # the second time from the cache
        selector = ask(cache=tmp_path, repeats=3)
        assert chosen(selector.select(batch_of("a", "b"))) == [[A], [B]]
        notes = {key: selector.notes[key] for key in ("repeats", "unstable", "unstable_items")}
        assert notes == {"repeats": 3, "unstable": 1, "unstable_items": 1}
        assert len(endpoint.posts) == 6, number
    assert selector.describe()["repeats"] == 3


def test_the_description_hides_the_query_of_the_url(endpoint, ask):
    described = ask(f"{endpoint.url}?key=hidden#part").describe()
    assert described == {
        "protocol": 1,
        "url": endpoint.url,
        "url_query_sha256": hashlib.sha256(b"key=hidden").hexdigest(),
        "build": None,
        "authorization_env": None,
        "send": "items",
        "timeout": 1.0,
        "repeats": 1,
    }
    assert endpoint.gets == 1


@pytest.mark.parametrize("url", ["http://${SERVICE}/select", "${SERVICE_URL}"])
def test_variables_in_the_url_are_those_of_the_environment_and_never_shown(endpoint, monkeypatch, url):
    host = endpoint.url.split("/")[2]
    monkeypatch.setenv("SERVICE", host)
    monkeypatch.setenv("SERVICE_URL", endpoint.url)
    endpoint.get = lambda: (200, {"build": endpoint.url})
    with external_from_config({"url": url}, base=Path()) as selector:
        assert chosen(selector.select(batch_of("a"))) == [[A]]
        described = selector.describe()
        endpoint.post = lambda body: (400, endpoint.url.encode())
        errors = selector.select(batch_of("b")).errors
    assert described["url"] == url
    assert endpoint.url not in json.dumps([described, errors])
    assert errors[0].startswith(f"query 'q0': status 400 from {url}")
    monkeypatch.setenv("SERVICE", f"localhost:{host.partition(':')[2]}")
    monkeypatch.setenv("SERVICE_URL", endpoint.url.replace("127.0.0.1", "localhost"))
    with external_from_config({"url": url}, base=Path()) as selector:
        assert selector.describe() != described  # so that a run does not reuse answers of another host
    monkeypatch.delenv("SERVICE")
    monkeypatch.delenv("SERVICE_URL")
    with pytest.raises(ParameterError, match="url names the variable 'SERVICE"):
        external_from_config({"url": url}, base=Path())


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://host/x", "url must start with http:// or https:// and name a host, got 'ftp://host/x'"),
        ("localhost:80", "url must start with http:// or https://"),
        ("http://", "url must start with http:// or https:// and name a host"),
        ("http://user:word@host/", "url must hold no user or password"),
        ("http://host:99999999/", "url has port 99999999; expected 1 to 65535"),
        ("http://[::1", "cannot be read"),
    ],
)
def test_a_url_that_is_none_is_an_error(url, message):
    with pytest.raises(ParameterError, match=message) as caught:
        HttpSource(url)
    assert "word" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0.0}, "timeout must be above 0"),
        ({"batch": 0}, "batch must be 1 or more, got 0"),
        ({"concurrency": 65}, "concurrency must be at most 64, got 65"),
        ({"retries": 11}, "retries must be at most 10, got 11"),
        ({"backoff": -1.0}, "backoff must be 0 or more"),
        ({"send": "some"}, "send must be 'items' or 'ids' or 'nothing'"),
    ],
)
def test_options_out_of_range_are_errors(options, message):
    with pytest.raises(ParameterError, match=message):
        external_from_config({"url": "http://localhost:1", **options}, base=Path())
