"""The output of a server other than answers: standard error, garbage, HTTP errors; and the meaning of exceptions."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TextIO

from ctxbench.io.visible import one_line
from ctxbench.net.http_limits import compression
from ctxbench.sources.tools import unusable
from ctxbench.text.secrets import Secrets

_TAIL = 8192  # bytes of standard error that are kept while a server runs
_READS = 16  # chunks of it that are taken at a time; a server that never stops must not hold the others up
_LINES = 5  # lines of it that are reported
_WIDTH = 300  # characters of a line that are reported
_FRAME = re.compile(r"\s+at \S")  # of a stack, as Node prints it
_ERROR = re.compile(r"\s*(?:\w+: )?\w*(?:Error|Exception)\b")
_INPUT = re.compile(r"input_value=.*, input_type=\w+", re.DOTALL)  # in pydantic's words; it is cut, so half a secret
_LOGGERS = ("mcp", "client")  # those of the SDK

_current: ContextVar[Watch | None] = ContextVar("ctxbench_mcp_watch", default=None)


class ListingError(Exception):
    """A server lists its tools in a way that has no end or no sense; the message says how."""


class Watch:
    """Watches the output of one server; everything that it returns is free of secrets.

    Attributes:
        started: ids of the processes that were started for it.
        logged: warnings of the SDK; not free of secrets.
    """

    def __init__(self, secrets: Secrets, *, limit: int) -> None:
        """Nothing is heard yet; a server that sends more than `limit` bytes in all is stopped."""
        self._secrets = secrets
        self._left = limit
        self._too_much = f"it sent more than {limit / 2**20:,.0f} MiB"
        self._tail = b""
        self._cut = False
        self._garbage = 0
        self._first_garbage = ""
        self._status = 0
        self._given_up = ""
        self._end: Callable[[], None] = lambda: None
        self.started: list[int] = []
        self.logged: list[str] = []
        _current.set(self)

    async def message(self, message: Any) -> None:
        """The SDK's handler: counts what is no message of MCP."""
        if isinstance(message, Exception):
            self._garbage += 1
            value = _input_of(message)
            if self._garbage == 1:
                self._first_garbage = value
            answer = _answer(value)
            if answer is not None:
                why = "; ".join(unusable(answer)) or _problem(message)
                self._give_up(f"it gave an answer that cannot be read: {why}")

    def count(self, size: int) -> None:
        """Count bytes that were received."""
        self._left -= size
        if self._left < 0:
            self._give_up(self._too_much)

    def _give_up(self, why: str) -> None:
        self._given_up = self._given_up or why
        self._end()

    @contextmanager
    def until_given_up(self) -> Iterator[None]:
        """End the block when the server sends something invalid; the SDK would wait until the time is up.

        Raises:
            ListingError: one came.
        """
        import anyio

        with anyio.CancelScope() as scope:
            self._end = scope.cancel
            yield
        if scope.cancelled_caught:
            raise ListingError(self._given_up)

    async def response(self, response: Any) -> None:
        """The HTTP client's hook: keeps the last status that is an error, and refuses what is compressed.

        Raises:
            ListingError: it is.
        """
        if response.status_code >= 400:
            self._status = response.status_code
        if named := compression(response.headers):
            self._give_up(f"it sent a body in the encoding {named!r:.80}, which it was not asked for")
            raise ListingError(self._given_up)

    @contextmanager
    def stderr(self) -> Iterator[TextIO]:
        """A stream for a server's standard error; its last bytes are kept, and no more."""
        loop = asyncio.get_running_loop()
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        with os.fdopen(writing, "w") as stream:
            try:
                loop.add_reader(reading, self._read, reading)
            except NotImplementedError:  # Windows: a pipe cannot be waited for
                with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - no path
                    os.close(reading)
                    yield nowhere
                return
            try:
                yield stream
            finally:
                self._read(reading)
                loop.remove_reader(reading)
                os.close(reading)

    def _read(self, reading: int) -> None:
        with suppress(BlockingIOError):
            for _ in range(_READS):
                data = os.read(reading, 65536)
                if not data:
                    break
                self._cut = self._cut or len(self._tail) + len(data) > _TAIL
                self._tail = (self._tail + data)[-_TAIL:]
            else:
                return
            asyncio.get_running_loop().remove_reader(reading)  # at its end it would be ready for ever

    def notes(self) -> list[str]:
        """The notes on a server that answered."""
        notes = [self._hide(line) for line in self.logged]
        return [*notes, self._about_garbage()] if self._garbage else notes

    def explain(self, error: BaseException, *, step: str) -> str:
        """Say in one or several lines what went wrong, with what the server said last."""
        leaves = list(_leaves(error))
        reason = self._given_up or next(filter(None, (_reason(leaf) for leaf in leaves)), "")
        if not reason:
            leaf = leaves[0]
            words = _INPUT.sub("", str(leaf)).replace(" [type=json_invalid, ]", "")
            reason = f"it failed while {step}: {words or type(leaf).__name__}"
        if self._status:
            reason += f" (HTTP status {self._status}{_MEANING.get(self._status, '')})"
        return self.error_text(reason)

    def error_text(self, reason: str) -> str:
        """A reason with the other output of the server."""
        parts = [self._hide(" ".join(reason.split()))]
        if self._garbage:
            parts.append(self._about_garbage())
        text = "; ".join(parts)
        lines = self._last_lines()
        if lines:
            text += "; its last lines on standard error:"
            text += "".join(f"\n  | {one_line(self._hide(line))[:_WIDTH]}" for line in lines)
        return text

    def _last_lines(self) -> list[str]:
        """Of standard error, the one that names an error among them.

        A line whose start is lost is left out, for half a secret would not be recognised; so are a stack's frames.
        """
        whole_lines = self._tail.partition(b"\n")[2] if self._cut else self._tail
        lines = [line for line in whole_lines.decode("utf-8", "replace").splitlines() if line.strip()]
        lines = [line for line in lines if not _FRAME.match(line)] or lines
        last, errors = lines[-_LINES:], [line for line in lines if _ERROR.match(line)]
        if errors and not any(map(_ERROR.match, last)):
            last[0] = errors[-1]
        return last or (["(a line that is too long to be shown)"] if self._cut else [])

    def _about_garbage(self) -> str:
        count = f"{self._garbage:,} line{'' if self._garbage == 1 else 's'}"
        sample = one_line(self._hide(self._first_garbage))[:80]
        return f"it wrote {count} on standard output that are no messages of MCP, the first: {sample!r}"

    def _hide(self, text: str) -> str:
        return self._secrets.hide(text)


_CLOSED = "Connection closed"  # the SDK's own words
_MEANING = {401: ", unauthorised: check its headers", 403: ", forbidden: check its headers", 404: ", not found"}


@contextmanager
def quiet_sdk() -> Iterator[None]:
    """Keep the SDK's log off the terminal; its warnings go to the watch of the server."""
    handler = _Collect(logging.WARNING)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [(logger, logger.propagate) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagate in before:
            logger.removeHandler(handler)
            logger.propagate = propagate


class WatchingLoop(asyncio.SelectorEventLoop):
    """An event loop that reports the processes of a server, and how much it sends, to its watch."""

    async def subprocess_exec(self, *args: Any, **options: Any) -> Any:
        """Start a process as the loop does."""
        transport, protocol = await super().subprocess_exec(*args, **options)
        watch = _current.get()
        if watch is not None:
            watch.started.append(transport.get_pid())
            _counted(protocol, "pipe_data_received", watch)
        return transport, protocol

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        """Connect as the loop does."""
        transport, protocol = await super().create_connection(*args, **options)
        watch = _current.get()
        if watch is not None:
            _counted(protocol, "data_received", watch)
        return transport, protocol


def _counted(protocol: Any, method: str, watch: Watch) -> None:
    """Wrap a protocol's method so that a watch counts the bytes in its last argument."""
    receive = getattr(protocol, method)

    def counted(*args: Any) -> None:
        watch.count(len(args[-1]))
        receive(*args)

    setattr(protocol, method, counted)


class _Collect(logging.Handler):
    """Keeps warnings that a tool was dropped; everything else comes back as an exception or as garbage."""

    def emit(self, record: logging.LogRecord) -> None:
        watch = _current.get()
        if watch is not None and record.getMessage().startswith("dropping tool"):
            watch.logged.append(record.getMessage())


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions in a group, however deep, in order."""
    if isinstance(error, BaseExceptionGroup):
        for child in error.exceptions:
            yield from _leaves(child)
    else:
        yield error


def _reason(error: BaseException) -> str:
    """What an exception of the SDK means for the user; empty if only its own words can say."""
    import pydantic
    from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

    code = getattr(error, "code", None)
    if code == CONNECTION_CLOSED and str(error) == _CLOSED:  # servers give this code to errors of their own
        return "it closed the connection before it had answered"
    if code == REQUEST_TIMEOUT:
        return "it did not answer in time"
    if isinstance(error, UnicodeDecodeError):
        return f"it wrote bytes that are no UTF-8 (0x{error.object[error.start]:02x})"
    if isinstance(error, pydantic.ValidationError):
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        ending = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        return f"its answer is not valid by MCP: {where}: {first['msg']}{ending}"
    if isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError):
        return f"it cannot be started: {error.strerror}: {error.filename}; check 'command' and 'cwd'"
    if isinstance(error, ListingError):
        return str(error)
    return ""


def _input_of(error: Exception) -> str:
    """The line that could not be read, out of pydantic's error."""
    import pydantic

    if isinstance(error, pydantic.ValidationError):
        value = error.errors(include_url=False)[0].get("input")
        return value if isinstance(value, str) else str(error.errors(include_url=False)[0]["msg"])
    return str(error)


def _problem(error: Exception) -> str:
    """The fault of a line, without the line."""
    import pydantic

    if isinstance(error, pydantic.ValidationError):
        return str(error.errors(include_input=False, include_url=False, include_context=False)[0]["msg"])
    return str(error)


def _answer(text: str) -> dict[str, Any] | None:
    """A line that is meant to answer a request; Python reads more JSON than the SDK does, such as half characters."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_answer = isinstance(data, dict) and data.get("id") is not None and ("result" in data or "error" in data)
    return data if is_answer else None
