"""HTTP requests with limits on time and size, and servers that speak OpenAI's interface.

A time limit covers a whole exchange. Compressed bodies are neither asked for nor accepted: a few kilobytes may expand
for gigabytes.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from ctxbench.io.errors import Message, ParameterError, UserError, one_line, raise_first
from ctxbench.io.secrets import Secrets, secrets_in_url, shown_text, shown_url

if TYPE_CHECKING:
    import ssl


BODY_LIMIT = 64 * 2**20  # bytes of a body that is kept in memory
AS_IT_IS = {"Accept-Encoding": "identity"}  # the header that asks for bodies that are not compressed


def compression(headers: Mapping[str, str]) -> str:
    """How a body is compressed, in the server's words, such as `gzip`; empty if it is not."""
    named = headers.get("content-encoding", "")
    return named if any(encoding.strip().lower() not in ("", "identity") for encoding in named.split(",")) else ""


class Deadline:
    """Ends exchanges that take too long, by shutting down the connection that they wait for.

    A client's own limits are for each read, so a byte a minute would keep it waiting. It learns of connections from the
    client's events (`extensions={"trace": deadline.trace}`), and knows the last one: the client must hold no more.

    Attributes:
        late: whether the last exchange was ended.
    """

    def __init__(self, seconds: float) -> None:
        """Nothing runs yet; `seconds` are those of one exchange, from here on or from the last `again`."""
        self._seconds = seconds
        self._end = 0.0
        self._socket: socket.socket | None = None
        self.late = False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Hold one exchange, the block, to the seconds."""
        self.late = False
        self.restart()
        done = threading.Event()
        watchdog = threading.Thread(target=self._watch, args=(done,), daemon=True)
        watchdog.start()
        try:
            yield
        finally:
            done.set()
            watchdog.join()

    def restart(self) -> None:
        """Give the exchange that is running the seconds anew."""
        self._end = time.monotonic() + self._seconds

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Learn the socket of a new connection, from httpcore's events."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")
            if self.late:
                self._break()

    def _watch(self, done: threading.Event) -> None:
        while (left := self._end - time.monotonic()) > 0:
            if done.wait(left):
                return
        self._break()

    def _break(self) -> None:
        """End the connection: closing alone would not wake who reads from it."""
        self.late = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class TooLongError(Exception):
    """A body of more than `BODY_LIMIT` bytes."""


@dataclass(frozen=True, slots=True)
class Response:
    """What came back.

    Attributes:
        status: of HTTP.
        body: its bytes; none of one that is compressed.
        compression: how the body is, although that was not asked for; empty if it is not.
        retry_after: the header of that name; empty if there is none.
        seconds: how long this one exchange took.
    """

    status: int
    body: bytes
    compression: str
    retry_after: str
    seconds: float


class Connection:
    """Sends one request at a time, over a connection that is kept open; for one thread."""

    def __init__(self, *, timeout: float, headers: Mapping[str, str], context: ssl.SSLContext, proxies: bool) -> None:
        """Nothing is contacted yet.

        Args:
            timeout: seconds for an exchange, from the first byte sent to the last received.
            headers: sent with every request, as well as the one that asks for uncompressed bodies.
            context: checks the endpoint's certificate.
            proxies: whether those of the environment are used.
        """
        import httpx

        self._client = httpx.Client(
            headers={**headers, **AS_IT_IS},
            timeout=timeout,
            follow_redirects=False,
            trust_env=proxies,
            verify=context,
            limits=httpx.Limits(max_connections=1),
        )
        self._deadline = Deadline(timeout)

    def send(self, method: str, url: str, content: bytes | None) -> Response:
        """One exchange.

        Raises:
            httpx.TimeoutException: it is not over in time, however its headers or body drip.
            httpx.HTTPError: there is no connection, or what came back cannot be read.
            TooLongError: the body is too long.
        """
        import httpx

        began = time.perf_counter()
        extensions = {"trace": self._deadline.trace}
        try:
            with (
                self._deadline.running(),
                self._client.stream(method, url, content=content, extensions=extensions) as response,
            ):
                compressed = compression(response.headers)
                body = bytearray()
                for part in () if compressed else response.iter_raw():
                    body += part
                    if len(body) > BODY_LIMIT:
                        raise TooLongError
            seconds = time.perf_counter() - began
        except httpx.HTTPError as error:
            if self._deadline.late:
                raise httpx.ReadTimeout("the exchange took too long") from error
            raise
        except UnicodeError as error:  # of a Location that names a host which cannot be
            raise httpx.RemoteProtocolError(str(error)) from error
        if self._deadline.late:  # a body that ends with its connection ended by us
            raise httpx.ReadTimeout("the exchange took too long")
        return Response(response.status_code, bytes(body), compressed, response.headers.get("retry-after", ""), seconds)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def certificates(scheme: str, *, proxies: bool) -> ssl.SSLContext:
    """What checks the certificates of an endpoint whose URL has this scheme, and of proxies if there may be any.

    Reading the certificates that are trusted takes a tenth of a second, so none are where nothing can be encrypted; a
    connection that were all the same would be refused.

    Raises:
        OSError: those that the environment names cannot be read.
    """
    import ssl

    import httpx

    if scheme == "http" and not proxies:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.create_ssl_context(trust_env=proxies)


def seconds_asked(retry_after: str, otherwise: float) -> float:
    """The seconds to wait by a header Retry-After, a number or a date; `otherwise` without a valid one."""
    text = retry_after.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return otherwise


class LogFilter(logging.Filter):
    """Keeps a URL out of httpx's log, which names that of every exchange."""

    def __init__(self, url: str, shown_url: str) -> None:
        super().__init__()
        self._url, self._shown_url = url, shown_url

    def begin(self) -> None:
        """Filter from now on."""
        logging.getLogger("httpx").addFilter(self)  # a second time it changes nothing

    def end(self) -> None:
        """Filter no more; may be called twice."""
        logging.getLogger("httpx").removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Put what may be shown in place of the URL; every record is kept."""
        if isinstance(record.args, tuple):
            record.args = tuple(self._shown_url if str(argument) == self._url else argument for argument in record.args)
        return True


def environment_fault(error: Exception) -> str:
    """What to say where proxies or certificates of the environment cannot be used; a proxy may hold a password."""
    import httpx

    quotes = isinstance(error, ValueError | httpx.InvalidURL)
    return Message("io.network-settings", why=Message("io.proxy-url") if quotes else error)


def is_this_machine(host: str) -> bool:
    """Whether a host is this machine, which no proxy leads to."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def offline() -> bool:
    """Whether the environment forbids the network: `CTXBENCH_OFFLINE` or `HF_HUB_OFFLINE` is set, not to 0 or false."""
    values = (os.environ.get(name, "") for name in ("CTXBENCH_OFFLINE", "HF_HUB_OFFLINE"))
    return any(value.strip().lower() not in ("", "0", "false", "no", "off") for value in values)


DEFAULT_ADDRESS = "https://api.openai.com/v1"
ADDRESS, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
_LONGEST_WAIT_S = 60.0
_TRY_AGAIN = (408, 409, 425, 429)  # and all from 500 on
_REFUSED = (400, 413, 422)  # what was sent, or so much at once
_SHOWN = 200  # characters of what a server says
_log = logging.getLogger(__name__)


class ServerError(UserError):
    """The server gives no answer, or one that cannot be read."""


class RefusedError(ServerError):
    """The server refuses what it was sent; it may take something else, or less at once."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is asked.

    Attributes:
        url: to which is posted.
        display: the base as a message may show it: without what looks like a key in its path.
        host: its host.
        endpoint: host, port and path, which identify a server.
    """

    url: str
    display: str
    host: str
    endpoint: str


class OpenAIServer:
    """Posts messages about one model to `<address>/<path>` and returns the JSON that comes back.

    The address is `OPENAI_BASE_URL` (https://api.openai.com/v1 by default), the key `OPENAI_API_KEY`, which a server of
    your own may not need. The key is sent to that address only; it is in no message, log or file. The
    environment's proxies are used for all but this machine. Where `CTXBENCH_OFFLINE` or `HF_HUB_OFFLINE` forbids the
    network, only a server on this machine is asked.

    What fails for the moment (408, 409, 425, 429, 5xx, no connection, no answer in time) is tried again, after a pause
    that doubles, or that the server asks for; where it asks for more than a minute, that is an error. Threads may post
    at the same time; each has a connection of its own.

    Args:
        model: as the server calls it.
        path: after the address, such as `embeddings`.
        returns: what it returns, in the plural, as a message names it.
        timeout: seconds for an exchange, from the first byte sent to the last received.
        tries: of a message, >= 1.
        pause: seconds before the second try, doubled each time.

    Attributes:
        variable, key, default: the environment's names for address and key, and the address without one; a server of
            another interface has others.
        kind, ends: what messages call such a server, and where its address ends.

    Raises:
        ParameterError: the address is none, or holds a user, a password or a query.
    """

    variable: ClassVar[str] = ADDRESS
    key: ClassVar[str] = KEY
    default: ClassVar[str] = DEFAULT_ADDRESS
    kind: ClassVar[str] = "an OpenAI-compatible server"
    ends: ClassVar[str] = "including its /v1"

    def __init__(self, model: str, path: str, *, returns: str, timeout: float, tries: int, pause: float) -> None:
        self._returns = returns
        self._timeout, self._tries, self._pause = timeout, tries, pause
        self.address = _address(self, path)
        self._path = path
        self.who = f"model {one_line(model)!r} at {self.address.display}"
        self._threads = threading.local()
        self._secrets: Secrets | None = None
        self._has_key = False

    @classmethod
    def base(cls) -> str:
        """The address that the environment names, or the default."""
        return os.environ.get(cls.variable, "").strip() or cls.default

    def post(self, message: Mapping[str, Any]) -> Any:
        """The JSON that the server answers with.

        Raises:
            RefusedError: it refuses what it was sent (400, 413, 422).
            ServerError: there is no answer, or it is no JSON.
        """
        response = self._exchange(json.dumps(message).encode("ascii"))
        if response.compression:
            raise ServerError(
                f"{self.who} answered in the encoding {self.quoted(response.compression)}; expected the body as it "
                "is, as it was asked for (Accept-Encoding: identity): turn compression off"
            )
        try:
            return json.loads(response.body)
        except (ValueError, RecursionError) as error:
            raise ServerError(
                f"{self.who} answered with what is no JSON: {self.quoted(response.body)}; is {self.variable} the "
                f"address of {self.kind}, {self.ends}?"
            ) from error

    def error_text(self, body: Any) -> str:
        """What a server says in a body that is not what was asked for: the error that it names, or all of it."""
        error = body.get("error") if isinstance(body, dict) else None
        message = error.get("message") if isinstance(error, dict) else error
        return self.quoted(message if isinstance(message, str) else body)

    def hide(self, text: str) -> str:
        """An answer that came from outside, without the key and what is secret in the address.

        A key of under four characters stays, and one that is a plain word is hidden as a whole word only: those given
        to a server that needs no key, such as `1` or `test`, stand in answers by chance, which are to be read.
        """
        return str(self._secrets.hide_in(text)) if self._secrets else text

    def quoted(self, message: Any) -> str:
        """The beginning of what came from outside, on one line, without the key."""
        if isinstance(message, bytes):
            text = message[:20_000].decode("utf-8", "replace")
        else:
            try:
                text = (message if isinstance(message, str) else json.dumps(message, ensure_ascii=False))[:20_000]
            except RecursionError:
                text = "a deeply nested value"
        text = shown_text(self._secrets.hide(text) if self._secrets else text)
        line = one_line(" ".join(text.split()))
        return "nothing" if not line else line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."

    def _exchange(self, content: bytes) -> Response:
        """Post, and try again where that may help; the response is a good one.

        Raises:
            ServerError: there is none.
            RefusedError: the server refuses what it was sent.
        """
        import httpx

        try:
            url = str(httpx.URL(self.address.url))
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ServerError(
                f"{self.variable} {self.address.display!r} cannot be read; expected a URL such as {self.default}"
            ) from error
        connection = self._connection()
        wait = self._pause
        log = LogFilter(url, f"{self.address.display}/{self._path}")
        for left in range(self._tries - 1, -1, -1):
            seconds = wait
            try:
                log.begin()
                response = connection.send("POST", url, content)
            except httpx.TimeoutException:
                why = f"no answer within {self._timeout:g} s"
            except httpx.TransportError as error:
                lost = "no connection" if isinstance(error, httpx.ConnectError) else "no whole answer"
                why = f"{lost}: {type(error).__name__} {self.quoted(str(error))}"
            except TooLongError as error:
                raise ServerError(f"{self.who} returned more than {BODY_LIMIT // 2**20} MiB") from error
            else:
                if 200 <= response.status < 300:
                    return response
                retry = response.status in _TRY_AGAIN or response.status >= 500
                spent = response.status == 429 and b'"insufficient_quota"' in response.body  # no waiting changes that
                if not retry or spent:
                    raise self._refusal(response)
                why = f"status {response.status}: {self._error_detail(response)}"
                if (seconds := seconds_asked(response.retry_after, wait)) > _LONGEST_WAIT_S:
                    raise ServerError(f"{self.who} asks for a pause of {seconds:.0f} s ({why}); try again after it")
            finally:
                log.end()
            if left:
                if left == self._tries - 1:
                    _log.warning("%s", Message("io.server-retry", server=self.who, why=why, n=seconds))
                time.sleep(seconds)
                wait *= 2
        raise ServerError(
            f"{self.who} gave no {self._returns} in {self._tries} tries; the last one: {why}. Check that the server is "
            f"there ({self.variable}), or try again later: the {self._returns} that it gave are kept"
        )

    def _refusal(self, response: Response) -> ServerError:
        """What to say of a status that another try would not change."""
        if (status := response.status) in (401, 403):  # what a server says of a key may hold a part of it
            name = "io.server-refused-key" if self._has_key else "io.server-needs-key"
            about = {"server": self.who, "status": status, "key": self.key, "variable": self.variable}
            return ServerError(Message(name, **about))
        detail = self._error_detail(response)
        if status == 404:
            about = {"server": self.who, "why": detail, "variable": self.variable, "ends": self.ends}
            return ServerError(Message("io.server-not-found", **about))
        message = Message("io.server-refused", server=self.who, status=status, why=detail)
        if status in _REFUSED:
            return RefusedError(message)
        redirect = Message("io.server-redirect", variable=self.variable) if 300 <= status < 400 else ""
        return ServerError(f"{message}{redirect}")

    def _connection(self) -> Connection:
        """The connection of this thread, made at first.

        Raises:
            ServerError: the network is forbidden, or key, proxies or certificates cannot be used.
        """
        connection: Connection | None = getattr(self._threads, "connection", None)
        if connection is not None:
            return connection
        import httpx

        is_local = is_this_machine(self.address.host)
        if offline() and not is_local:
            raise ServerError(
                f"{self.who} cannot be asked: CTXBENCH_OFFLINE or HF_HUB_OFFLINE forbids the network; unset it, or "
                f"set {self.variable} to a server on this machine"
            )
        key = os.environ.get(self.key, "").strip()
        if not (key.isascii() and key.isprintable()):
            raise ServerError(f"the value of {self.key} cannot be sent in a header; expected printable ASCII")
        headers = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "ctxbench"}
        hidden = secrets_in_url(self.address.url)
        if key:
            headers["Authorization"] = f"Bearer {key}"
            hidden.append(("Authorization", key))
        self._has_key, self._secrets = bool(key), Secrets(hidden)
        try:
            context = certificates(urlsplit(self.address.url).scheme, proxies=not is_local)
            connection = Connection(timeout=self._timeout, headers=headers, context=context, proxies=not is_local)
        except (ValueError, ImportError, OSError, httpx.InvalidURL) as error:
            raise ServerError(environment_fault(error)) from error
        weakref.finalize(self, connection.close)
        self._threads.connection = connection
        return connection

    def _error_detail(self, response: Response) -> str:
        """What a server says in its body, as a message may show it."""
        if response.compression:
            return Message("io.server-encoding", encoding=self.quoted(response.compression))
        try:
            return self.error_text(json.loads(response.body))
        except (ValueError, RecursionError):
            return self.quoted(response.body)


def _address(server: OpenAIServer, path: str) -> Address:
    """The address that a variable or the default names.

    Raises:
        ParameterError: it is none, or has parts that it must not have.
    """
    base, variable = server.base(), server.variable
    readable = one_line(shown_url(base)).rstrip("/")
    try:
        parts = urlsplit(base)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ParameterError(
            f"{variable} {readable!r} cannot be read; expected a URL such as {server.default}"
        ) from error
    raise_first(
        (
            parts.scheme not in ("http", "https") or not host or any(char.isspace() for char in base),
            f"{variable} must start with http:// or https:// and name a host, got {readable!r}",
        ),
        (
            parts.username is not None or parts.password is not None,
            f"{variable} must hold no user or password; put the key into {server.key}",
        ),
        (
            parts.query or parts.fragment,
            f"{variable} must hold no query or fragment (?... or #...), got one after {readable!r}",
        ),
    )
    below = parts.path.rstrip("/")
    if port == {"http": 80, "https": 443}[parts.scheme]:
        port = None
    named = f"[{host}]" if ":" in host else host
    location = f"{named}{'' if port is None else f':{port}'}{below}"
    url = f"{parts.scheme}://{location}"
    return Address(f"{url}/{path}", one_line(shown_url(url)), host, location)
