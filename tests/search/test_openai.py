"""A model behind an OpenAI-compatible address, here on this machine: batches, tries, and every way to fail."""

from __future__ import annotations

import base64
import gzip
import json
import logging
import re
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from ctxbench.io import http as server_module
from ctxbench.io.errors import EmbeddingError, ParameterError
from ctxbench.search.embedders import ModelError, Vectors, VectorStore, open_embedder
from ctxbench.search.embedding_models import OpenAIEmbedder
from tests.local_server import Server

KEY = "sk-tEst0123456789abcdefghijklmnop"  # no key of anybody
TEXTS = [f"text {number}" for number in range(150)]


def vector_of(text):
    """Four numbers that tell texts apart, of no particular length."""
    return [len(text) + 1.0, float(sum(map(ord, text)) % 101), float(ord(text[0])), 2.0]


def expected(texts):
    rows = np.array([vector_of(text) for text in texts])
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def entries(body):
    return [
        {"object": "embedding", "index": index, "embedding": vector_of(text)}
        for index, text in enumerate(body["input"])
    ]


def good(body):
    return 200, {"object": "list", "data": entries(body), "model": body["model"]}


def sizes(server):
    return [len(post["input"]) for post in server.posts]


@pytest.fixture
def server(monkeypatch):
    made = Server(good)
    monkeypatch.setenv("OPENAI_BASE_URL", made.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    yield made
    made.stop()


def embedder(**options):
    return OpenAIEmbedder("small", **{"timeout": 20, "tries": 3, "pause": 0.01, **options})


@pytest.fixture
def known(server):
    """An embedder that has learned the length of its vectors; the server has forgotten that."""
    made = embedder()
    assert made.identity.dimensions == 4
    server.posts.clear()
    return made


def fails(server, *responses):
    """Let the server answer with these first, and then well."""
    left = list(responses)
    server.post = lambda body: left.pop(0) if left else good(body)


# Texts and vectors


def test_vectors_are_of_unit_length_in_the_order_of_texts(server):
    vectors = embedder().embed(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, expected(TEXTS))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_what_is_sent(server, known):
    known.embed(["a", "b"])
    assert server.posts == [{"model": "small", "input": ["a", "b"], "encoding_format": "float"}]
    assert server.paths[-1] == "/v1/embeddings"
    assert server.headers[-1]["Authorization"] == f"Bearer {KEY}"
    assert server.headers[-1]["Accept-Encoding"] == "identity"


def test_a_request_holds_at_most_64_texts(server, known):
    known.embed(TEXTS)
    assert sizes(server) == [64, 64, 22]
    assert [text for post in server.posts for text in post["input"]] == TEXTS


def test_a_batch_size_and_prompts_by_kind(server):
    asked = embedder(batch_size=3, prompts={"query": "q: "})
    asked.embed(TEXTS[:4], kind="query")
    asked.embed(["", "a"], kind="item")
    sent = [post["input"] for post in server.posts[1:]]  # the first learns the length of vectors
    assert sent == [[f"q: {text}" for text in TEXTS[:3]], [f"q: {TEXTS[3]}"], [" ", "a"]]
    assert (asked.identity.query_prompt, asked.identity.item_prompt) == ("q: ", "")


def test_a_request_holds_a_bounded_number_of_characters(server, known):
    texts = ["a" * 40_000, "b" * 20_000, "c", "d" * 70_000, "e" * 60_000, "f"]
    np.testing.assert_array_equal(known.embed(texts), expected(texts))
    assert sizes(server) == [2, 1, 1, 1, 1]


def test_rows_are_put_in_order_by_their_index(server):
    server.post = lambda body: (200, {"data": entries(body)[::-1]})
    np.testing.assert_array_equal(embedder().embed(TEXTS[:9]), expected(TEXTS[:9]))


def test_rows_without_an_index_are_in_order(server):
    server.post = lambda body: (200, {"data": [{"embedding": vector_of(text)} for text in body["input"]]})
    np.testing.assert_array_equal(embedder().embed(TEXTS[:9]), expected(TEXTS[:9]))


def test_vectors_may_come_in_base64(server):
    def post(body):
        packed = [np.array(vector_of(text), dtype="<f4").tobytes() for text in body["input"]]
        return 200, {
            "data": [{"index": i, "embedding": base64.b64encode(row).decode()} for i, row in enumerate(packed)]
        }

    server.post = post
    np.testing.assert_array_equal(embedder().embed(TEXTS[:9]), expected(TEXTS[:9]))


@pytest.mark.parametrize("scale", [1e-200, 1e200, 3])
def test_very_long_and_very_short_vectors(server, scale):
    server.post = lambda body: (200, {"data": [{"embedding": [3 * scale, 4 * scale]} for _ in body["input"]]})
    np.testing.assert_allclose(embedder().embed(["a"]), [[0.6, 0.8]], rtol=1e-6)


def test_texts_that_are_hard_to_send(server, known):
    texts = ["", " ", "half \ud83d", "\ud83d\ude00", "NUL \x00", "\u2028", "Grüße"]
    vectors = known.embed(texts)
    assert server.posts[0]["input"] == [" ", " ", "half \ufffd", "\U0001f600", "NUL \x00", "\u2028", "Grüße"]
    np.testing.assert_array_equal(vectors[0], vectors[1])


def test_on_done_is_called_as_each_batch_comes(server, known):
    rows, batches = {}, []

    def on_done(position, row):
        rows[position] = row
        batches.append(len(server.posts))

    vectors = known.embed(TEXTS, on_done=on_done)
    np.testing.assert_array_equal(np.array([rows[position] for position in range(150)]), vectors)
    assert batches == [1] * 64 + [2] * 64 + [3] * 22


def test_vectors_that_came_before_a_failure_are_stored(server, known):
    server.post = lambda body: good(body) if len(server.posts) < 2 else (403, {})
    with VectorStore(known.identity) as store:
        with pytest.raises(ModelError, match="status 403"):
            Vectors(known, store).get(TEXTS)
        assert len(store) == 64
        server.post = good
        server.posts.clear()
        np.testing.assert_array_equal(Vectors(known, store).get(TEXTS), expected(TEXTS))
    assert sizes(server) == [64, 22]


def test_a_server_that_takes_fewer_texts_is_sent_fewer(server, known):
    server.post = lambda body: (
        good(body) if len(body["input"]) <= 20 else (422, {"error": "batch size 64 > maximum allowed batch size 20"})
    )
    np.testing.assert_array_equal(known.embed(TEXTS[:50]), expected(TEXTS[:50]))
    assert sizes(server) == [50, 25, 12, 12, 12, 12, 2]


# Identity


def test_the_length_of_vectors_is_learned_once(server):
    identity = embedder().identity
    assert (identity.model, identity.dimensions) == ("small", 4)
    assert embedder().identity == identity
    assert server.posts == [{"model": "small", "input": ["dimensions"], "encoding_format": "float"}]


def test_no_texts_send_nothing_once_the_length_is_known(server, known):
    assert embedder().embed([]).shape == (0, 4)
    assert server.posts == []


def test_stored_vectors_need_no_server(server, known):
    with VectorStore(known.identity) as store:
        vectors = Vectors(known, store).get(TEXTS[:5])
        server.posts.clear()
        again = Vectors(embedder(), store)
        np.testing.assert_array_equal(again.get(TEXTS[:5]), vectors)
    assert again.stats.embedded == 0
    assert server.posts == []


def test_models_and_addresses_are_told_apart(server, monkeypatch):
    keys = {embedder().identity.key, OpenAIEmbedder("large").identity.key}
    for path in ("/v2", "/v1/other", "/V1"):
        monkeypatch.setenv("OPENAI_BASE_URL", server.url.replace("/v1", path))
        keys.add(embedder().identity.key)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url.replace("127.0.0.1", "localhost"))
    keys.add(embedder().identity.key)
    assert len(keys) == 6
    assert len(server.posts) == 6


def test_one_address_written_otherwise_is_one(server, monkeypatch):
    identity = embedder().identity
    for url in (f"{server.url}/", f" {server.url}//\n", server.url.upper().replace("/V1", "/v1")):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        assert embedder().identity == identity
    assert len(server.posts) == 1


def test_an_identity_names_host_and_path(server):
    identity = embedder().identity
    assert identity.backend == f"openai-compatible {server.place}"
    assert KEY not in json.dumps(identity.as_dict())


def test_a_key_in_the_path_is_not_shown_and_tells_addresses_apart(server, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    identities = []
    for key in ("a1B2c3D4e5F6g7H8i9J0", "b1B2c3D4e5F6g7H8i9J0"):
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/{key}")
        identities.append(embedder().identity)
    assert identities[0].backend == identities[1].backend == f"openai-compatible {server.place}/<hidden>"
    assert identities[0] != identities[1]
    assert server.paths == ["/v1/a1B2c3D4e5F6g7H8i9J0/embeddings", "/v1/b1B2c3D4e5F6g7H8i9J0/embeddings"]
    server.post = lambda body: (418, f"no route to {server.paths[-1]}".encode())
    with pytest.raises(ModelError, match="no route to /v1/<hidden>/embeddings"):
        embedder().embed(["a"])
    logged = [record.getMessage() for record in caplog.records if record.name == "httpx"]
    assert sum(text.startswith("HTTP Request:") for text in logged) == 3  # older versions tell of certificates, too
    assert "1B2c3D4e5F6g7H8i9J0" not in " ".join(logged)


def test_a_damaged_memory_is_learned_anew(server, cache):
    identity = embedder().identity
    (file,) = (cache / "openai").iterdir()
    file.write_bytes(b"nonsense")
    assert embedder().identity == identity
    assert len(server.posts) == 2


def test_a_cache_that_cannot_be_written_is_done_without(server, cache):
    cache.write_text("a file where a folder should be")
    np.testing.assert_array_equal(embedder().embed(["a"]), expected(["a"]))
    assert sizes(server) == [1, 1]


def test_another_model_behind_the_name_is_noticed_by_its_length(server, known, cache):
    server.post = lambda body: (200, {"data": [{"embedding": [1, 2, 3]} for _ in body["input"]]})
    with pytest.raises(ModelError, match=r"returned vectors of 3 numbers; expected 4.*delete .*\.json to begin anew"):
        embedder().embed(["a"])
    (file,) = (cache / "openai").iterdir()
    file.unlink()
    assert embedder().identity.dimensions == 3


# Tries


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_what_fails_for_the_moment_is_tried_again(server, known, status, caplog):
    fails(server, (status, b"busy"), (status, b"busy"))
    np.testing.assert_array_equal(known.embed(["a"]), expected(["a"]))
    assert len(server.posts) == 3
    (warning,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warning == f"model 'small' at {server.url}: status {status}: busy; trying again in 0.01 s"


def test_a_dropped_connection_is_tried_again(server, known):
    fails(server, None)
    np.testing.assert_array_equal(known.embed(["a"]), expected(["a"]))
    assert len(server.posts) == 2


def test_the_number_of_tries_is_limited(server, known):
    server.post = lambda body: (503, {"error": {"message": "the model is loading"}})
    with pytest.raises(ModelError, match="no vectors in 3 tries; the last one: status 503: the model is loading"):
        known.embed(["a"])
    assert len(server.posts) == 3


def test_pauses_double_and_a_retry_after_goes_before_them(server, known, monkeypatch):
    pauses = []
    monkeypatch.setattr(server_module.time, "sleep", pauses.append)
    fails(server, *[(500, b"")] * 2, (429, b"", ("Retry-After", "7")), (500, b""), (429, b"", ("Retry-After", "soon")))
    np.testing.assert_array_equal(embedder(tries=6, pause=0.5).embed(["a"]), expected(["a"]))
    assert pauses == [0.5, 1, 7, 4, 8]


def test_a_pause_of_more_than_a_minute_is_an_error(server, known):
    server.post = lambda body: (429, {"error": {"message": "requests of a day"}}, ("Retry-After", "3600"))
    with pytest.raises(ModelError, match=r"asks for a pause of 3600 s \(status 429: requests of a day\)"):
        known.embed(["a"])
    assert len(server.posts) == 1


def test_an_account_with_nothing_left_is_not_tried_again(server, known):
    server.post = lambda body: (429, {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}})
    with pytest.raises(ModelError, match="refused \\(status 429\\): You exceeded your quota"):
        known.embed(["a"])
    assert len(server.posts) == 1


def test_nobody_listens(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{free.getsockname()[1]}/v1")
        with pytest.raises(
            ModelError, match=r"in 3 tries; the last one: no connection: ConnectError .*OPENAI_BASE_URL"
        ):
            _ = embedder().identity


def test_an_exchange_has_a_time_limit(server, known):
    server.post = lambda body: server.released.wait(10) and None
    began = time.monotonic()
    with pytest.raises(ModelError, match=r"no vectors in 2 tries; the last one: no answer within 0\.2 s"):
        embedder(timeout=0.2, tries=2).embed(["a"])
    assert time.monotonic() - began < 8
    assert len(server.posts) == 2


def test_a_body_that_drips_is_ended_by_the_time_limit(server, known, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        ended = threading.Event()

        def drip():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
                try:
                    while not ended.wait(0.05):
                        connection.sendall(b" ")
                except OSError:
                    pass

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        with pytest.raises(ModelError, match=r"no answer within 0\.4 s"):
            _ = embedder(timeout=0.4, tries=1).identity
        ended.set()
        thread.join(timeout=20)
        assert not thread.is_alive()


# What a server refuses


def test_a_key_that_is_refused(server):
    server.post = lambda body: (401, {"error": {"message": f"Incorrect API key provided: {KEY[:8]}***{KEY[-4:]}"}})
    with pytest.raises(ModelError) as caught:
        _ = embedder().identity
    message = str(caught.value)
    assert message == (
        f"model 'small' at {server.url} refused the value of OPENAI_API_KEY (status 401); set OPENAI_API_KEY to a key "
        "that may use this model, and OPENAI_BASE_URL to the address that the key is for"
    )
    assert len(server.posts) == 1


@pytest.mark.parametrize("value", [None, "", " "])
def test_no_key_is_sent_where_there_is_none(server, monkeypatch, value):
    monkeypatch.delenv("OPENAI_API_KEY") if value is None else monkeypatch.setenv("OPENAI_API_KEY", value)
    assert embedder().identity.dimensions == 4
    assert "Authorization" not in server.headers[0]
    server.post = lambda body: (403, b"")
    with pytest.raises(ModelError, match=r"a request without a key \(status 403\); OPENAI_API_KEY is not set"):
        embedder().embed(["a"])


@pytest.mark.parametrize("value", ["schlüssel", "two\nlines", "a\x00b"])
def test_a_key_that_no_header_takes(server, monkeypatch, value):
    monkeypatch.setattr(server_module.os, "environ", {**server_module.os.environ, "OPENAI_API_KEY": value})
    with pytest.raises(ModelError, match="the value of OPENAI_API_KEY cannot be sent in a header") as caught:
        _ = embedder().identity
    assert value not in str(caught.value)


def test_a_model_that_is_not_there(server):
    server.post = lambda body: (404, {"error": {"message": 'model "small" not found, try pulling it first'}})
    with pytest.raises(
        ModelError, match=r"there is no model 'small' at http://127.*try pulling it first.*OPENAI_BASE_URL"
    ):
        _ = embedder().identity


def test_a_redirect_is_not_followed(server):
    server.post = lambda body: (307, b"", ("Location", "http://127.0.0.1:9/"))
    with pytest.raises(ModelError, match=r"status 307.*redirects are not followed"):
        _ = embedder().identity
    assert len(server.posts) == 1


def test_a_model_that_cannot_embed_at_all(server):
    server.post = lambda body: (400, {"error": {"message": "small is a chat model"}})
    with pytest.raises(ModelError, match=r"refused \(status 400\): small is a chat model"):
        _ = embedder().identity


def test_a_text_that_is_refused_is_named_and_the_others_are_stored(server, known):
    server.post = lambda body: (
        (400, {"error": {"message": "maximum context length"}}) if "text 77" in body["input"] else good(body)
    )
    with VectorStore(known.identity) as store:
        with pytest.raises(EmbeddingError, match=r"text 'text 77', number 78 of 150.*maximum context length"):
            Vectors(known, store).get(TEXTS)
        assert len(store) >= 77


# What a server returns


def returned(server, value):
    """What is said of a response to one text."""
    server.post = lambda body: (200, value)
    with pytest.raises(EmbeddingError) as caught:
        embedder().embed(["a"])
    return caught.value


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "returned 0 vectors for 1 texts; expected one for each"),
        ([{"embedding": [1, 2, 3, 4]}] * 2, "returned 2 vectors for 1 texts"),
        ([{"index": 1, "embedding": [1, 2, 3, 4]}], "a vector with the index 1; expected each of 0 to 0 once"),
        ([{"index": -1, "embedding": [1, 2, 3, 4]}], "the index -1"),
        ([{"index": "0", "embedding": [1, 2, 3, 4]}], "the index '0'"),
        ([{"index": False, "embedding": [1, 2, 3, 4]}], "the index False"),
        ([{"embedding": []}], r"no vector in row 0; expected numbers, or float32 in base64, got a list from"),
        ([{}], "no vector in row 0; .*got None"),
        ([{"embedding": [[1, 2, 3, 4]]}], r"got a list from \[\[1, 2, 3, 4\]\]"),
        ([{"embedding": ["1", "2"]}], r"got a list from \['1', '2'\]"),
        ([{"embedding": [True, 1]}], r"got a list from \[True, 1\]"),
        ([{"embedding": "AAAA"}], "got 'AAAA'"),
        ([{"embedding": "no base64"}], "got 'no base64'"),
        ([{"embedding": ""}], "got ''"),
        ([{"embedding": [10**400]}], "no vector in row 0"),
        ([1], r"no list of embeddings; expected \{data: \[...\]\}, got"),
        ({"a": 1}, "no list of embeddings"),
    ],
)
def test_what_is_no_list_of_vectors(server, known, data, said):
    error = returned(server, {"data": data})
    assert isinstance(error, ModelError)
    assert f"model 'small' at {server.url} returned" in str(error)
    assert re.search(said, str(error))


@pytest.mark.parametrize(
    ("embedding", "said"),
    [
        ("[0, 0, 0, 0]", "a vector of zeros only"),
        ("[1, NaN, 0, 0]", "a vector with NaN or infinite numbers"),
        ("[1, Infinity, 0, 0]", "a vector with NaN or infinite numbers"),
        ("[1, 1e999, 0, 0]", "a vector with NaN or infinite numbers"),
        ('"AACAfwAAgD8AAIA/AACAPw=="', "a vector with NaN or infinite numbers"),
    ],
)
def test_vectors_without_a_direction(server, known, embedding, said):
    error = returned(server, f'{{"data": [{{"embedding": {embedding}}}]}}'.encode())
    assert said in str(error)


def test_the_text_of_a_vector_without_a_direction_is_named(server, known):
    server.post = lambda body: (
        200,
        {"data": [{"embedding": [0.0] * 4 if text == "text 3" else vector_of(text)} for text in body["input"]]},
    )
    with pytest.raises(EmbeddingError, match=r"text 'text 3', number 4 of 9 .*a vector of zeros only"):
        Vectors(known, None).get(TEXTS[:9])


def test_vectors_of_different_lengths(server, known):
    server.post = lambda body: (200, {"data": [{"embedding": [1.0] * (4 + i)} for i in range(len(body["input"]))]})
    with pytest.raises(ModelError, match="returned vectors of different lengths: 4, 5, 6"):
        known.embed(["a", "b", "c"])


def test_an_index_that_comes_twice(server, known):
    server.post = lambda body: (200, {"data": [{"index": 1, "embedding": [1, 2, 3, 4]}] * 2})
    with pytest.raises(ModelError, match="the index 1; expected each of 0 to 1 once"):
        known.embed(["a", "b"])


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json(server, known, body, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # garbage may be collected at the deepest point
    assert "no JSON" in str(returned(server, body))


@pytest.mark.parametrize("body", [[], 7, None, {"error": {"message": "out of memory"}}, {"error": "out of memory"}])
def test_a_body_without_data(server, known, body):
    message = str(returned(server, body))
    assert "returned no list of embeddings" in message
    assert "out of memory" in message or not isinstance(body, dict)


def test_a_compressed_body(server, known):
    server.post = lambda body: (200, gzip.compress(b"{}"), ("Content-Encoding", "gzip"))
    with pytest.raises(ModelError, match=r"in the encoding gzip; expected the body as it is.*turn compression off"):
        known.embed(["a"])
    server.post = lambda body: (400, gzip.compress(b"{}"), ("Content-Encoding", "gzip"))
    with pytest.raises(EmbeddingError, match=r"status 400.*in the encoding gzip, which cannot be read"):
        known.embed(["a"])


def test_a_body_that_is_too_long(server, known, monkeypatch):
    monkeypatch.setattr("ctxbench.io.http.BODY_LIMIT", 1 << 20)
    server.post = lambda body: (200, b" " * (2 << 20))
    with pytest.raises(ModelError, match="returned more than 1 MiB"):
        known.embed(["a"])


# The key


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 418, 429, 500])
def test_a_key_is_shown_nowhere(server, known, status, caplog, capfd, cache):
    caplog.set_level(logging.DEBUG)
    told = f"bad key {KEY} {base64.b64encode(KEY.encode()).decode()} in Bearer {KEY}"
    server.post = lambda body: (status, {"error": {"message": told}})
    with pytest.raises(EmbeddingError) as caught:
        known.embed(["a"])
    shown = [str(caught.value), repr(known), *capfd.readouterr()]
    shown += [record.getMessage() for record in caplog.records]
    shown += [path.read_bytes().decode("utf-8", "replace") for path in cache.rglob("*") if path.is_file()]
    assert KEY not in "\n".join(shown)
    assert KEY[3:20] not in "\n".join(shown)
    assert base64.b64encode(KEY.encode()).decode()[:20] not in "\n".join(shown)


def test_what_a_server_says_is_shown_in_short_on_one_line(server, known):
    server.post = lambda body: (418, f"first\n\x1b[31msecond {'x' * 999}".encode())
    with pytest.raises(ModelError) as caught:
        known.embed(["a"])
    message = str(caught.value)
    assert "first \ufffd[31msecond xxx" in message
    assert len(message) < 400


# The address


def test_the_default_address_is_that_of_openai(monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    for key in ("", KEY):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with pytest.raises(
            ModelError, match=r"model 'small' at https://api\.openai\.com/v1 cannot be asked: .*OFFLINE"
        ):
            _ = embedder().identity


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("api.openai.com/v1", "must start with http:// or https:// and name a host, got 'api.openai.com/v1'"),
        ("ftp://host/v1", "must start with http://"),
        ("https:///v1", "and name a host"),
        ("https://a host/v1", "and name a host"),
        ("https://host:99999/v1", "'https://host:99999/v1' cannot be read; expected a URL such as https://api"),
        ("https://[::1/v1", "cannot be read"),
        (f"https://me:{KEY}@host/v1", "must hold no user or password; put the key into OPENAI_API_KEY"),
        (f"https://{KEY}@host/v1", "must hold no user or password"),
        (f"https://host/v1?key={KEY}", "must hold no query or fragment .* after 'https://host/v1'"),
        ("https://host/v1#top", "must hold no query or fragment"),
    ],
)
def test_an_address_that_is_none(monkeypatch, url, said):
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ParameterError, match=f"OPENAI_BASE_URL.*{said}") as caught:
        open_embedder("openai:small")
    assert KEY not in str(caught.value)


def test_an_address_that_only_the_client_finds_wrong(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://xn--\u00fc-.localhost/v1")
    with pytest.raises(ModelError, match="OPENAI_BASE_URL"):
        _ = embedder(tries=1).identity


def test_an_address_in_numbers(server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://[::1]:80/v1/")
    made = embedder()._server.address
    assert (made.url, made.host, made.endpoint) == ("http://[::1]/v1/embeddings", "::1", "[::1]/v1")


def test_a_proxy_that_is_none(monkeypatch):
    monkeypatch.setenv("CTXBENCH_OFFLINE", "")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://models.invalid/v1")
    monkeypatch.setenv("HTTP_PROXY", f"foo://me:{KEY}@host:1")
    monkeypatch.setenv("http_proxy", f"foo://me:{KEY}@host:1")
    with pytest.raises(ModelError, match="the network settings of the environment") as caught:
        _ = embedder().identity
    assert KEY not in str(caught.value)


# As a name


def test_a_name_may_hold_colons_and_slashes(server):
    made = open_embedder("openai:owner/nomic-embed:latest")
    assert isinstance(made, OpenAIEmbedder)
    assert made.identity.model == "owner/nomic-embed:latest"
    assert server.posts[0]["model"] == "owner/nomic-embed:latest"


def test_opening_asks_nobody_and_imports_no_client(server):
    script = (
        "import sys; from ctxbench.search.embedders import open_embedder; open_embedder('openai:small');"
        "print('httpx' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"
    assert server.posts == []


def test_a_command_says_in_one_line_what_is_wrong(server, tmp_path):
    (tmp_path / "items.jsonl").write_text('{"_id": "tool:a", "type": "tool", "name": "a", "text": "first"}\n')
    server.post = lambda body: (401, {"error": {"message": f"Incorrect API key provided: {KEY}"}})
    command = [
        sys.executable,
        "-m",
        "ctxbench",
        "select",
        "x",
        "--catalog",
        "items.jsonl",
        "--embedder",
        "openai:small",
    ]
    done = subprocess.run(
        [*command, "--selector", "semantic"], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: model 'small' at {server.url} refused the value of OPENAI_API_KEY")
    assert done.stderr.count("\n") == 1
    assert KEY not in done.stderr + done.stdout
