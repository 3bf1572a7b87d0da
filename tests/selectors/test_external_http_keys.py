"""Keys in the URL of an endpoint: in no error, description, name, note, log or stored answer."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from urllib.parse import quote

import pytest

from ctxbench.io.errors import ParameterError, SelectorError
from ctxbench.selectors.external import External, external_from_config
from ctxbench.selectors.http import HttpOptions, HttpSource
from tests.planted import GITHUB, holds, places
from tests.selectors.test_external_http import Endpoint, answers, batch_of, chosen

A, B = "tool:a", "tool:b"
KEYED = f"t/{GITHUB}/select?k=20&api_key=tiger-42&sig=aB%2Fc%2B1d"  # its secrets, as they are and decoded:
SECRETS = (GITHUB, "tiger-42", "aB%2Fc%2B1d", "aB/c+1d")


@pytest.fixture
def endpoint():
    made = Endpoint()
    yield made
    made.stop()


@pytest.fixture
def keyed(endpoint):
    return endpoint.url.replace("select", KEYED)


@pytest.fixture
def ask():
    """Make selectors of a URL that are closed at the end."""
    made = []

    def one(url, **options):
        source = HttpSource(url, options=HttpOptions(**{"timeout": 1.0, "backoff": 0.0, **options}))
        made.append(External(source, name="mine"))
        return made[-1]

    yield one
    for selector in made:
        selector.close()


def holding(*shown):
    """The secrets of the URL that something shows."""
    return [secret for secret in SECRETS for one in shown if holds(one if isinstance(one, str) else str(one), secret)]


def failing(url):
    """Responses in which an endpoint repeats the URL that it was asked by, in many ways."""
    pair = base64.b64encode(b"me:tiger-42").decode()
    return [
        lambda body: (404, f"Cannot POST {url}".encode()),
        lambda body: (404, f"<a href='{quote(url)}'>{url.encode().hex()} {pair}".encode()),
        lambda body: (307, f"moved to {url}&x=1".encode(), ("Location", f"{url}&x=1")),
        lambda body: (503, url.encode()),
        lambda body: (200, url.encode()),
        lambda body: (200, {"need": url}),
        lambda body: (200, {"need": [["x" * 150, url]]}),
        lambda body: (200, {"answers": [], url: 1}),
        lambda body: (200, {"answers": [{"query": "q0", "error": f"no {url}"}]}),
        lambda body: (200, {"answers": [{"query": "q0", "items": [{"id": url}]}]}),
        lambda body: (200, {"answers": [{"query": "q0", url: []}]}),
        lambda body: (200, {"answers": [{"query": url}]}),
        lambda body: (200, f"{url}".encode(), ("Content-Encoding", "gzip")),
    ]


@pytest.mark.parametrize("number", range(len(failing(""))))
def test_keys_of_the_url_are_in_no_error(endpoint, ask, keyed, number):
    endpoint.post = failing(keyed)[number]
    (error,) = ask(keyed, retries=0).select(batch_of("a")).errors.values()
    assert holding(error) == []
    assert "/t/<hidden>/select" in error or "<hidden>" in error


def test_keys_of_the_url_are_in_no_error_without_an_answer(endpoint, ask, keyed):
    endpoint.post = endpoint.slowly
    late = ask(keyed, timeout=0.1).select(batch_of("a")).errors
    endpoint.stop()
    gone = ask(keyed, retries=0)
    with pytest.raises(SelectorError) as told:
        gone.describe()
    assert holding(*late.values(), *gone.select(batch_of("a")).errors.values(), told.value) == []


def test_keys_of_the_url_are_in_no_description_note_name_or_kept_answer(endpoint, keyed, tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))
    endpoint.get = lambda: (200, {"build": f"1 of {keyed}"})

    def echo(body):
        status, value = answers(body)
        value["answers"][0] |= {"metadata": {"asked": keyed, keyed: [quote(keyed, safe="")]}, "build": f"1 of {keyed}"}
        return status, value

    endpoint.post = echo
    with external_from_config({"url": keyed}, base=Path()) as selector:
        made = selector.select(batch_of("a", "b"))
        assert (chosen(made), made.errors) == ([[A], [B]], {})
        described = selector.describe()
        assert described["url"] == endpoint.url.replace("select", "t/<hidden>/select")
        assert {"url_path_sha256", "url_query_sha256"} < set(described)
        assert selector.name == endpoint.url.split("/")[2]
        assert holding(described, selector.notes, selector.name) == []
    assert [one for secret in SECRETS for one in places(tmp_path, secret)] == []
    assert [path.name for path in (tmp_path / "answers").iterdir()]
    with external_from_config({"url": keyed}, base=Path()) as again:
        assert chosen(again.select(batch_of("a", "b"))) == [[A], [B]]
        assert again.notes["from_cache"] == 2


def test_another_key_in_the_url_is_another_identity(endpoint, ask, keyed):
    other = keyed.replace(GITHUB, GITHUB[:-1] + "0"), keyed.replace("tiger-42", "tiger-43")
    described = [ask(url).describe() for url in (keyed, keyed, *other)]
    assert described[0] == described[1]
    assert described[0] not in described[2:]


def test_settings_of_the_url_that_are_no_secrets_stay_in_errors(endpoint, ask):
    url = f"{endpoint.url}?model=small&k=20&path=context-selector-v2"
    endpoint.post = lambda body: (400, b"model small has no k 20 in context-selector-v2")
    (error,) = ask(url).select(batch_of("a")).errors.values()
    assert error.endswith("'model small has no k 20 in context-selector-v2'")


def test_httpx_logs_no_key_of_the_url(endpoint, ask, keyed, caplog):
    caplog.set_level("DEBUG")
    selector = ask(keyed)
    selector.select(batch_of("a"))
    assert "/t/<hidden>/select" in caplog.text
    assert holding(caplog.text) == []
    selector.close()
    assert not logging.getLogger("httpx").filters


def test_the_name_of_an_endpoint_is_its_host(endpoint):
    host = endpoint.url.split("/")[2]
    for url in (f"http://{host}?api_key=tiger-42", f"http://{host}#tiger-42", f"http://{host}/x"):
        with external_from_config({"url": url}, base=Path()) as selector:
            assert selector.name == host


@pytest.mark.parametrize(
    "url",
    [
        "htp://me:tiger-42@host/x", "http://me:ti/ger-42@host/x", "me:tiger-42@host", "http:///x?key=tiger-42",
        "http://me:tiger-42@host:port/x", "http://host:99999999/?key=tiger-42", "http://ho st/x\x00?key=tiger-42",
        "http://me:tiger-42@host/", "ftp://host/?token=tiger-42#tiger-42", "http://[tiger-42@x",
    ],
)  # fmt: skip
def test_a_wrong_url_is_shown_without_its_secrets(url):
    with pytest.raises(ParameterError, match="url") as caught:
        HttpSource(url)
    assert "ger-42" not in str(caught.value)


@pytest.mark.parametrize("proxy", ["foo://me:tiger-42@127.0.0.1:1", "http://me:tiger-42/x@127.0.0.1:1"])
def test_a_proxy_that_is_none_is_an_error_that_does_not_show_it(ask, monkeypatch, proxy):
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.setenv("http_proxy", proxy)
    (error,) = ask("http://endpoint.example/").select(batch_of("a")).errors.values()
    assert error.endswith("cannot be used: a proxy is not a URL such as http://host:8080")
    assert "tiger" not in error
