"""One connection to an HTTP endpoint, with one time limit over a whole exchange."""

from __future__ import annotations

import ipaddress
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from ctxbench.net.http_limits import AS_IT_IS, BODY_LIMIT, Deadline, compression

if TYPE_CHECKING:
    import ssl


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
            headers: sent with every request, beside the one that asks for bodies as they are.
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
    """The seconds that a header Retry-After asks to wait, by a number or a date; `otherwise` where it tells neither."""
    text = retry_after.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        return max(until.timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return otherwise


class LogFilter(logging.Filter):
    """Keeps a URL out of httpx's log, which names that of every exchange."""

    def __init__(self, url: str, shown_url: str) -> None:
        super().__init__()
        self._url, self._shown = url, shown_url

    def begin(self) -> None:
        """Filter from now on."""
        logging.getLogger("httpx").addFilter(self)  # a second time it changes nothing

    def end(self) -> None:
        """Filter no more; may be called twice."""
        logging.getLogger("httpx").removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Put what may be shown in place of the URL; every record is kept."""
        if isinstance(record.args, tuple):
            record.args = tuple(self._shown if str(argument) == self._url else argument for argument in record.args)
        return True


def environment_fault(error: Exception) -> str:
    """What to say where proxies or certificates of the environment cannot be used; a proxy may hold a password."""
    import httpx

    quotes = isinstance(error, ValueError | httpx.InvalidURL)
    why = "a proxy is no URL such as http://host:8080" if quotes else str(error)
    return f"cannot use the network as the environment says (HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE ...): {why}"


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
