"""What an external selector is told of items that a request may not see: nothing, whatever the way in."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ctxbench.io.errors import SelectorError
from ctxbench.model.items import Catalog, Item, ItemKey, Link
from ctxbench.model.requests import Batch, Request
from ctxbench.selectors.callable import CallableSource
from ctxbench.selectors.external import External, external_from_config
from ctxbench.selectors.protocol import AnswerReader, RawAnswer, by_catalog, catalog_message, request_messages


def memory(name, **about):
    return Item(type="memory", name=name, text=f"text of {name}", **about)


CATALOG = Catalog(
    [
        memory(
            "all",
            links=(Link("follows", ItemKey("memory", None, "ada")), Link("follows", ItemKey("memory", None, "w"))),
        ),
        memory("w", workspace="w"),
        memory("other", workspace="v"),
        memory("ada", workspace="w", user="ada"),
        memory("ben", workspace="w", user="ben"),
        memory("later", workspace="w", created="2026-05-01T00:00:00Z"),
        memory("ended", workspace="w", until="2026-02-01T00:00:00Z"),
    ]
)
AT = "2026-03-01T00:00:00Z"
ADA = Request(id="ada", text="x", workspace="w", user="ada", time=AT)
BEN = Request(id="ben", text="x", workspace="w", user="ben", time=AT)
AGAIN = Request(id="again", text="y", workspace="w", user="ada", time=AT)
BATCH = Batch.of(CATALOG, [ADA, BEN, AGAIN])
SEEN = {"ada": ["all", "w", "ada"], "ben": ["all", "w", "ben"], "again": ["all", "w", "ada"]}

COMMAND = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "query" not in message:
        told = message
    else:
        assert told["catalog"] == message["catalog"]
        names = [{"id": row["_id"] if isinstance(row, dict) else row} for row in told.get("items", told.get("ids"))]
        print(json.dumps({"query": message["query"], "items": names}), flush=True)
"""


def offered(made):
    assert made.errors == {}
    rows = {one.id: [] for one in BATCH.requests}
    for row, item in zip(made.candidates.request, made.candidates.item, strict=True):
        rows[BATCH.ids[row]].append(CATALOG[item].name)
    return rows


@pytest.mark.parametrize("batch", [False, True])
def test_a_callable_is_given_what_the_request_may_see(batch):
    given = []

    def everything(request, items):
        given.append((request, items))
        found = [item["_id"] for item in items]
        return [found] * len(request) if batch else found

    with External(CallableSource(everything, batch=batch), name="mine") as selector:
        assert offered(selector.select(BATCH)) == SEEN
    if not batch:
        assert [request["id"] for request, _ in given] == ["ada", "again", "ben"]
        assert given[0][1] is given[1][1]  # so that an index of it can be kept


@pytest.mark.parametrize("options", [{}, {"in_flight": 3}, {"concurrency": 2}, {"send": "ids"}])
def test_a_command_is_told_the_catalog_of_its_request(tmp_path, options):
    with external_from_config({"command": [sys.executable, "-c", COMMAND], **options}, base=tmp_path) as selector:
        assert offered(selector.select(BATCH)) == SEEN


def test_a_post_holds_requests_that_see_the_same_and_nothing_of_others():
    posts, known = [], {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.say(404, {})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            posts.append(body)
            known.setdefault(body["catalog"], body.get("items"))
            items = known[body["catalog"]] or known.pop(body["catalog"])
            named = [{"id": item["_id"]} for item in items or ()]
            rows = [{"query": one["query"], "items": named} for one in body["requests"]]
            self.say(200, {"answers": rows} if items else {"need": "catalog"})

        def say(self, status, value):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/"
        with external_from_config({"url": url, "batch": 8}, base=None) as selector:
            assert offered(selector.select(BATCH)) == SEEN
    finally:
        server.shutdown()
        server.server_close()
    sent = [([one["query"] for one in body["requests"]], json.dumps(body)) for body in posts]
    assert [queries for queries, _ in sent] == [["ada", "again"]] * 2 + [["ben"]] * 2
    for queries, text in sent:
        for name in {"other", "later", "ended", "ada", "ben"} - set(SEEN[queries[0]]):
            assert f"memory:{name}" not in text
            assert f"text of {name}" not in text


def test_links_and_what_is_available_name_nothing_unseen():
    keys = tuple(item.key for item in CATALOG)
    batch = Batch.of(CATALOG, [Request(id="q", text="", workspace="w", user="ben", time=AT, available=keys)])
    (first, *_) = catalog_message(batch, 0, "items")["items"]
    assert first["links"] == [{"type": "follows", "item": "memory:w"}]
    ((_, message),) = request_messages(batch, [0], "items")
    assert message["request"]["available"] == ["memory:all", "memory:w", "memory:ben"]


def test_where_no_catalog_is_sent_the_request_says_what_it_may_see():
    sent = {row: message["request"].get("available") for row, message in request_messages(BATCH, [1], "nothing")}
    assert sent == {1: ["memory:all", "memory:w", "memory:ben"]}
    plain = Batch.of(Catalog([memory("all")]), [Request(id="q", text="")])
    assert [message["request"] for _, message in request_messages(plain, [0], "nothing")] == [{"id": "q", "text": ""}]


def test_the_catalog_of_what_sees_everything_has_its_hash():
    plain = Batch.of(Catalog([memory("all")]), [Request(id="q", text="", time=AT)])
    assert list(by_catalog(plain, [0])) == [plain.catalog.hash]
    assert [len(rows) for rows in by_catalog(BATCH, [0, 1, 2]).values()] == [2, 1]
    assert CATALOG.hash not in by_catalog(BATCH, [0, 1, 2])


@pytest.mark.parametrize(
    ("name", "request_", "why"),
    [
        ("other", ADA, "its workspace is 'v', that of the query is 'w'"),
        ("ben", ADA, "its user is 'ben', that of the query is 'ada'"),
        ("ben", Request(id="q", text="", workspace="w", time=AT), "its user is 'ben', that of the query is None"),
        ("later", ADA, f"it was created later (2026-05-01T00:00:00Z; the query is of {AT})"),
        ("ended", ADA, f"it had ended (2026-02-01T00:00:00Z; the query is of {AT})"),
        (
            "ended",
            Request(id="q", text="", workspace="w"),
            "it ends (2026-02-01T00:00:00Z), and a query without a time sees only items without an end",
        ),
    ],
)
def test_an_item_that_the_query_may_not_see_is_an_error_that_says_why(name, request_, why):
    reader = AnswerReader(Batch.of(CATALOG, [request_]))
    with pytest.raises(SelectorError) as caught:
        reader.read(0, RawAnswer(answer={"query": request_.id, "items": [{"id": f"memory:{name}"}]}))
    said = f"items[0] names 'memory:{name}', which this query may not see: {why}"
    assert str(caught.value) == f"query {request_.id!r}: {said}"
