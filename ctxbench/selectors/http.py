"""An HTTP endpoint as a selector, with its limits, headers and key.

Requests are posted in batches as JSON to one URL. Answers are cached by single request: an endpoint that looks across
the requests of a POST must be asked with `batch` 1.
"""

from __future__ import annotations

import math
import os
import re
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from typing import Any

import httpx

from ctxbench.io.errors import Message, ParameterError, SelectorError, raise_first
from ctxbench.io.http import (
    BODY_LIMIT,
    Connection,
    LogFilter,
    Response,
    TooLongError,
    certificates,
    environment_fault,
    is_this_machine,
    seconds_asked,
)
from ctxbench.io.secrets import HIDDEN, Secrets, secrets_in_url, shown_url
from ctxbench.model.items import Catalog
from ctxbench.model.requests import Batch
from ctxbench.selectors.protocol import (
    ANSWER_KEYS,
    LONGEST_WAIT_S,
    VERSION,
    CircuitBreaker,
    HttpOptions,
    MalformedError,
    RawAnswer,
    Source,
    by_catalog,
    catalog_hash,
    catalog_message,
    dumps,
    loads,
    quoted,
    request_body,
)

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def environment_value(option: str, name: str) -> str:
    """The value of an environment variable that an option names.

    Raises:
        ParameterError: it is not set.
    """
    value = os.environ.get(name, "")
    raise_first(
        (not value, f"{option} names the variable {name!r}, which is not set or empty; set it"),
        (
            not (value.isascii() and value.isprintable()),
            f"the value of the variable {name!r} cannot stand in a header or URL; expected printable ASCII",
        ),
    )
    return value


_TRY_AGAIN = (429, 503)
_NOT_FROM_IT = (429, 502, 503, 504)  # a proxy in front of a selector says so where it does not answer
_NAMES = (*ANSWER_KEYS, "id", "score")


class _FailedError(Exception):
    """A POST or GET brought no JSON; the message goes into the errors of its queries."""


class _SilentError(_FailedError):
    """There was no response from the selector itself."""


class HttpSource(Source):
    """Posts requests to a URL and reads answers.

    Redirects are not followed and no other URL is contacted; proxies of the environment are used, but not for this
    machine. GET of the URL may report a build id (`{"build": "..."}`); any other response to GET means none.
    """

    def __init__(self, url: str, *, options: HttpOptions | None = None) -> None:
        """Check the URL and find the authorisation; nothing is contacted yet.

        Args:
            url: `${NAME}` in it is the value of that environment variable, which is never shown.
            options: how it is asked.

        Raises:
            ParameterError: it is no http or https URL, holds credentials, or the environment variable is not set.
        """
        self._options = options or HttpOptions.model_validate({})
        self._label = shown_url(url)
        values = {name: environment_value("url", name) for name in _VARIABLE.findall(url)}
        url = _VARIABLE.sub(lambda match: values[match[1]], url)
        try:
            url.encode()
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ParameterError(f"url {self._label!r} cannot be read; expected http:// and a host") from error
        raise_first(
            (
                parsed.scheme not in ("http", "https") or not parsed.host,
                f"url must start with http:// or https:// and name a host, got {self._label!r}",
            ),
            (
                parsed.port is not None and not 1 <= parsed.port <= 65535,
                f"url has port {parsed.port}; expected 1 to 65535",
            ),
            (parsed.userinfo, "url must hold no user or password; put them in authorization_env's variable"),
        )
        self._url = parsed.copy_with(fragment=None)
        variable = self._options.authorization_env
        self._secret = environment_value("authorization_env", variable) if variable is not None else ""
        hidden = [*secrets_in_url(str(self._url)), *values.items()]
        hidden += [("Authorization", self._secret)] if self._secret else []
        self._secrets = Secrets(hidden) if hidden else None
        self._log = LogFilter(str(self._url), self._label)
        self._context: ssl.SSLContext | None = None
        self._local = threading.local()
        self._connections: list[Connection] = []
        self._pool: ThreadPoolExecutor | None = None
        self._build: tuple[str | None] | None = None
        self._tried_again = 0
        self._lock = threading.Lock()
        self._breaker = CircuitBreaker(
            noun="queries" if self._options.batch == 1 else "POSTs", at_a_time=self._options.concurrency
        )

    def describe(self) -> dict[str, Any]:
        """The URL as it may be shown, the SHA-256 of what is not, the build id, and options that decide an answer.

        Asks the endpoint for its build id at the first call.

        Raises:
            SelectorError: it cannot be reached.
        """
        varies = _VARIABLE.search(self._label) is not None
        path = self._url.raw_path.partition(b"?")[0] if varies or HIDDEN in self._label else b""
        host = self._url.netloc if varies else b""
        parts = {"url_host_sha256": host, "url_path_sha256": path, "url_query_sha256": self._url.query}
        return {
            "url": self._label,
            **{name: sha256(part).hexdigest() for name, part in parts.items() if part},
            "build": self.build(),
            "authorization_env": self._options.authorization_env,
            "send": self._options.send,
            "timeout": self._options.timeout,
        }

    def kept_under(self) -> str | None:
        """URL, authorisation, `send` and build id, to be hashed; None if the endpoint reports no build id."""
        build = self.build()
        return None if build is None else f"{self._url}\n{self._secret}\n{self._options.send}\n{build}"

    def build(self) -> str | None:
        """The build id that GET reports, asked once; None if it reports none.

        Raises:
            SelectorError: the endpoint cannot be reached.
        """
        if self._build is None:
            try:
                response = self._tried("GET", None)
                if response.status == 200:
                    self._refuse_compressed(response)
            except _FailedError as error:
                raise SelectorError(
                    f"{self._label} cannot be asked for its build id (GET; status 404 means none): {error}"
                ) from error
            build = _build_of(response)
            self._build = (build and self._unsecret(build),)
        return self._build[0]

    def notes(self) -> dict[str, Any]:
        """How often a request was retried."""
        return {"tried_again": self._tried_again} if self._tried_again else {}

    def forget_notes(self) -> None:
        """Reset `notes`."""
        self._tried_again = 0

    def close(self) -> None:
        """Close the connections."""
        self._log.end()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            connections, self._connections, self._local = self._connections, [], threading.local()
        for connection in connections:
            connection.close()
        self._pool = None
        self._breaker.reset()

    def ask(self, batch: Batch, rows: Sequence[int]) -> list[RawAnswer]:
        """Post the requests; a POST that fails makes each of its queries an error, until `CircuitBreaker` ends."""
        self._breaker.begin(batch.catalog.hash)
        size = self._options.batch
        parts = [
            catalog_rows[first : first + size]
            for catalog_rows in by_catalog(batch, rows).values()
            for first in range(0, len(catalog_rows), size)
        ]
        if self._options.concurrency == 1:
            posted = [self._post(batch, part) for part in parts]
        else:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._options.concurrency, thread_name_prefix="ctxbench-http")
            try:
                posted = list(self._pool.map(lambda part: self._post(batch, part), parts))
            except BaseException:
                self.close()
                raise
        replies = {
            row: reply for part, got in zip(parts, posted, strict=True) for row, reply in zip(part, got, strict=True)
        }
        return [replies[row] for row in rows]

    def _post(self, batch: Batch, rows: Sequence[int]) -> list[RawAnswer]:
        """Post requests that see the same items."""
        if self._breaker.refusal:
            return [RawAnswer(error=self._breaker.refusal)] * len(rows)
        send = self._options.send
        requests = [{"query": batch.requests[row].id, "request": request_body(batch, row, send)} for row in rows]
        message: dict[str, Any] = {"ctxbench": VERSION, "catalog": catalog_hash(batch, rows[0]), "requests": requests}
        try:
            body, seconds = self._exchange(message)
            if "answers" not in body:
                message |= self._catalog_for(body["need"], batch, rows[0])
                body, seconds = self._exchange(message)
            answers = self._answers([batch.requests[row].id for row in rows], body)
        except _FailedError as error:
            if isinstance(error, _SilentError):
                self._breaker.failed(str(error))
            else:
                self._breaker.succeeded()
            return [RawAnswer(error=str(error))] * len(rows)
        self._breaker.succeeded()
        timed = seconds if len(rows) == 1 else math.nan
        return [self._reply(answers[batch.requests[row].id], timed, batch.catalog) for row in rows]

    def _catalog_for(self, need: Any, batch: Batch, row: int) -> dict[str, Any]:
        """The catalog for a POST, where the endpoint has asked for it."""
        message = catalog_message(batch, row, self._options.send)
        if need != "catalog" or message is None:
            raise _FailedError(
                f"{self._label} needs {self._shown_value(need)}, which it is not sent (send is {self._options.send!r})"
            )
        return message

    def _exchange(self, message: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """The body of the response, and the seconds of the exchange that brought it."""
        response = self._tried("POST", dumps(message).encode("ascii"))
        text = self._shown_value(response.body.decode("utf-8", "replace"))
        if not 200 <= response.status < 300:
            hint = "; redirects are not followed" if 300 <= response.status < 400 else ""
            hint += "; compressed body not read" if response.compression else ""
            failed = _SilentError if response.status in _NOT_FROM_IT else _FailedError
            raise failed(f"status {response.status} from {self._label}{hint}: {text}")
        self._refuse_compressed(response)
        try:
            body = loads(response.body)
        except MalformedError as error:
            raise _FailedError(f"{self._label} returned a body that is {self._unsecret(str(error))}: {text}") from error
        needs = isinstance(body, dict) and "need" in body and "answers" not in body
        if not isinstance(body, dict) or not (needs or isinstance(body.get("answers"), list)):
            raise _FailedError(f"{self._label} returned no answers; expected {{answers: [...]}}, got {text}")
        return body, response.seconds

    def _refuse_compressed(self, response: Response) -> None:
        if response.compression:
            raise _FailedError(
                f"{self._label} returned a body in the encoding {self._shown_value(response.compression)}; expected it "
                "as it is, as it was asked for (Accept-Encoding: identity): turn compression off"
            )

    def _answers(self, queries: Sequence[str], body: Mapping[str, Any]) -> dict[str, list[Any]]:
        """The answers by query; answers without a build id get that of the body."""
        if "answers" not in body:
            raise _FailedError(f"{self._label} needs {self._shown_value(body['need'])} again, which it was sent")
        if unknown := [key for key in body if key not in ("ctxbench", "answers", "build")]:
            raise _FailedError(f"{self._label} returned an object with the unknown key {self._shown_value(unknown[0])}")
        by_query: dict[str, list[Any]] = {query: [] for query in queries}
        for answer in body["answers"]:
            query = answer.get("query") if isinstance(answer, dict) else None
            if not isinstance(query, str) or query not in by_query:
                raise _FailedError(
                    f"{self._label} returned an answer to no query of this POST: {self._shown_value(repr(answer))}"
                )
            if body.get("build") is not None:
                answer = {"build": body["build"], **answer}
            by_query[query].append(answer)
        return by_query

    def _reply(self, answers: Sequence[Any], seconds: float, catalog: Catalog) -> RawAnswer:
        if len(answers) != 1:
            return RawAnswer(error=Message("selectors.answers-per-query", url=self._label, n=len(answers)))
        try:
            answer = self._without_secret(answers[0], catalog) if self._secrets else answers[0]
        except RecursionError:
            return RawAnswer(error=Message("selectors.answer-nested-too-deep", url=self._label))
        promised = self._build[0] if self._build is not None else None
        build = answer.get("build")
        if promised is not None and build is not None and build != promised:
            got = self._shown_value(build)
            return RawAnswer(error=Message("selectors.build-changed", got=got, promised=promised))
        return RawAnswer(answer=answer, seconds=seconds)

    def _tried(self, method: str, content: bytes | None) -> Response:
        """Send, and retry where that may help.

        Raises:
            _FailedError: there is no response, after all tries.
        """
        wait = self._options.backoff
        left = self._options.retries
        while True:
            try:
                response = self._connection().send(method, str(self._url), content)
                if response.status not in _TRY_AGAIN or not left:
                    return response
                wait = seconds_asked(response.retry_after, wait)
            except httpx.TimeoutException as error:
                raise _SilentError(f"no answer from {self._label} within {self._options.timeout:g} s") from error
            except httpx.TransportError as error:
                if not left:
                    lost = "no connection to" if isinstance(error, httpx.ConnectError) else "no whole answer from"
                    raise _SilentError(
                        f"{lost} {self._label} ({self._options.retries + 1} tries): {type(error).__name__} "
                        f"{self._shown_value(str(error))}"
                    ) from error
            except TooLongError as error:
                raise _FailedError(f"{self._label} returned more than {BODY_LIMIT // 2**20} MiB") from error
            left -= 1
            with self._lock:
                self._tried_again += 1
            time.sleep(min(wait, LONGEST_WAIT_S))
            wait *= 2

    def _connection(self) -> Connection:
        """The connection of this thread.

        Raises:
            _FailedError: the environment names proxies or certificates that cannot be used.
        """
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            headers = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "ctxbench"}
            if self._secret:
                headers["Authorization"] = self._secret
            self._log.begin()
            proxies = not is_this_machine(self._url.host)
            with self._lock:
                try:
                    if self._context is None:  # it takes long to make
                        self._context = certificates(self._url.scheme, proxies=proxies)
                    connection = Connection(
                        timeout=self._options.timeout, headers=headers, context=self._context, proxies=proxies
                    )
                except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
                    raise _FailedError(environment_fault(error)) from error
                self._connections.append(connection)
            self._local.connection = connection
        return connection

    def _shown_value(self, value: object) -> str:
        """`quoted`, without the authorisation and keys of the URL, should the endpoint echo them."""
        return quoted(value, hide=self._unsecret)

    def _without_secret(self, value: Any, catalog: Catalog, key: str = "") -> Any:
        """An answer without secrets in its free texts; ids and the query may hold the same characters."""
        if isinstance(value, str):
            redacted = value if key == "query" else self._unsecret(value)
            return value if redacted == value or value in catalog.ids else redacted
        if isinstance(value, list):
            return [self._without_secret(entry, catalog) for entry in value]
        if isinstance(value, dict):
            return {
                (name if name in _NAMES else self._unsecret(name)): self._without_secret(entry, catalog, name)
                for name, entry in value.items()
            }
        return value

    def _unsecret(self, text: str) -> str:
        return self._secrets.hide(text) if self._secrets else text


def _build_of(response: Response) -> str | None:
    if response.status != 200:
        return None
    try:
        body = loads(response.body)
    except MalformedError:
        return None
    build = body.get("build") if isinstance(body, dict) else None
    return build if isinstance(build, str) and build else None
