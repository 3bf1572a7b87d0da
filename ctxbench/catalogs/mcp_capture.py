"""Start MCP servers and list their tools, with time limits and errors by server."""

from __future__ import annotations

import asyncio
import importlib.metadata
import inspect
import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO, TypeAlias

import anyio
import pydantic

from ctxbench.catalogs.mcp_config import ServerSpec, read_mcp_config, server_digests
from ctxbench.catalogs.snapshots import SERVER, SnapshotPart, Source
from ctxbench.catalogs.tool_lists import read_definition, unusable
from ctxbench.io.errors import Message, ParameterError, install_command, one_line
from ctxbench.io.http import AS_IT_IS, compression
from ctxbench.io.secrets import Secrets
from ctxbench.model.items import Item

_TAIL = 8192  # bytes of standard error that are kept while a server runs
_READS = 16  # chunks of it that are taken at a time; a server that never stops must not hold the others up
_LINES = 5  # lines of it that are reported
_WIDTH = 300  # characters of a line's start, and of its end, that are reported: the end often holds the remedy
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
        self._hide = secrets.hide
        self._left = limit
        self._too_much = Message("catalogs.server-too-much", limit=limit / 2**20)
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
            value, problem = _line_and_problem(message)
            if self._garbage == 1:
                self._first_garbage = value
            if (answer := _answer(value)) is not None:
                why = "; ".join(unusable(answer)) or problem
                self._give_up(Message("catalogs.server-unreadable-answer", why=why))

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
            self._give_up(Message("catalogs.server-encoding", encoding=named))
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
                if not (data := os.read(reading, 65536)):
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
            reason = Message("catalogs.server-failed", step=step, why=words or type(leaf).__name__)
        if self._status:
            reason += f" (HTTP status {self._status}{_MEANING.get(self._status, '')})"
        return self.error_text(reason)

    def error_text(self, reason: str) -> str:
        """A reason with the other output of the server."""
        parts = [self._hide(" ".join(reason.split()))]
        if self._garbage:
            parts.append(self._about_garbage())
        text = "; ".join(parts)
        if lines := self._last_lines():
            excerpt = "".join(f"\n  | {_without_middle(one_line(self._hide(line)))}" for line in lines)
            return Message("catalogs.server-stderr", text=text, lines=excerpt)
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
        return last or (["(one very long line)"] if self._cut else [])

    def _about_garbage(self) -> str:
        sample = one_line(self._hide(self._first_garbage))[:80]
        return Message("catalogs.server-garbage", n=self._garbage, sample=sample)


def _without_middle(line: str) -> str:
    return line if len(line) <= 2 * _WIDTH else f"{line[:_WIDTH]} ... {line[-_WIDTH:]}"


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
        if (watch := _current.get()) is not None:
            watch.started.append(transport.get_pid())
            _counted(protocol, "pipe_data_received", watch)
        return transport, protocol

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        """Connect as the loop does."""
        transport, protocol = await super().create_connection(*args, **options)
        if (watch := _current.get()) is not None:
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
        if (watch := _current.get()) is not None and record.getMessage().startswith("dropping tool"):
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
    from mcp.types import CONNECTION_CLOSED, REQUEST_TIMEOUT

    code = getattr(error, "code", None)
    if code == CONNECTION_CLOSED and str(error) == _CLOSED:  # servers give this code to errors of their own
        return Message("catalogs.server-closed")
    if code == REQUEST_TIMEOUT:
        return "it did not answer"
    if isinstance(error, UnicodeDecodeError):
        return Message("catalogs.server-utf8", byte=error.object[error.start])
    if isinstance(error, pydantic.ValidationError):
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        ending = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        return Message("catalogs.server-invalid-answer", where=where, why=f"{first['msg']}{ending}")
    if isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError):
        return Message("catalogs.server-start", why=error.strerror, file=error.filename)
    return str(error) if isinstance(error, ListingError) else ""


def _line_and_problem(error: Exception) -> tuple[str, str]:
    """The line that could not be read, out of pydantic's error, and what is wrong with it."""
    if not isinstance(error, pydantic.ValidationError):
        return str(error), str(error)
    first = error.errors(include_url=False, include_context=False)[0]
    line = first.get("input")
    return line if isinstance(line, str) else first["msg"], first["msg"]


def _answer(text: str) -> dict[str, Any] | None:
    """A line that is meant to answer a request; Python reads more JSON than the SDK does, such as half characters."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_answer = isinstance(data, dict) and data.get("id") is not None and ("result" in data or "error" in data)
    return data if is_answer else None


_GRACE = 2.0  # seconds that what a server leaves behind gets to end by SIGTERM, and then by SIGKILL
_POLL = 0.02  # seconds between two looks at it
_UNDECLARED = 2.0  # seconds for the tools of a server that declares none; it need not answer at all


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the capture of a server.

    Attributes:
        timeout: seconds for starting a server and listing all its tools, > 0; stopping it comes on top.
        pages: pages of a listing, > 0.
        tools: tools of a server, > 0.
        size: bytes that a server sends in all, > 0; as objects they may take a hundred times as much memory.
    """

    timeout: float = 30.0
    pages: int = 10_000
    tools: int = 100_000
    size: int = 32 * 2**20

    def __post_init__(self) -> None:
        if not 0 < self.timeout < float("inf") or min(self.pages, self.tools, self.size) < 1:
            raise ParameterError(f"limits must be greater than 0 and finite, got {self}")


@dataclass
class ServerListing:
    """The answers of a server so far.

    Attributes:
        tools: definitions in MCP's form, in the order of the server.
        name, version: as the server calls itself; empty if it does not say.
        protocol: the version of MCP that was agreed on.
        step: what is being done, for errors: `it was starting`, `reading tools, page 2` ...
        complete: whether all tools are there.
    """

    tools: list[dict[str, Any]] = field(default_factory=list)
    name: str = ""
    version: str = ""
    protocol: str = ""
    step: str = "it was starting"
    complete: bool = False


async def list_tools(spec: ServerSpec, limits: Limits, watch: Watch, listing: ServerListing) -> None:
    """Connect to a server and fill `listing`; the server is stopped or left before this returns.

    One that declares no tools and gives none soon has none.

    Raises:
        ListingError: the listing has no end, is too long, or has a name twice.
        Exception: whatever the SDK raises; `Watch.explain` says what it means.
    """
    from mcp import Client

    async with _transport(spec, limits, watch) as transport:
        client = Client(transport, cache=None, client_info=_client_info(), message_handler=watch.message)
        with watch.until_given_up():
            async with client:
                info = client.server_info
                listing.name, listing.version = (info.name, info.version) if info else ("", "")
                listing.protocol = client.protocol_version
                declared = client.server_capabilities.tools is not None
                with anyio.move_on_after(None if declared else _UNDECLARED):
                    await _all_pages(client, limits, listing, hide=spec.secrets.hide)
                listing.complete = True


async def _all_pages(client: Any, limits: Limits, listing: ServerListing, *, hide: Callable[[str], str]) -> None:
    from mcp import MCPError
    from mcp.types import METHOD_NOT_FOUND

    cursor: str | None = None
    cursors: set[str] = set()
    page_of: dict[str, int] = {}
    for page in range(1, limits.pages + 1):
        listing.step = f"reading tools, page {page}"
        try:
            result = await client.list_tools(cursor=cursor)
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND and page == 1:
                return  # a server of resources or prompts only
            raise
        for tool in result.tools:
            if tool.name in page_of:
                raise ListingError(
                    f"it lists the tool {hide(tool.name)!r:.100} twice, on page {page_of[tool.name]} and on page "
                    f"{page}; names must differ"
                )
            page_of[tool.name] = page
            listing.tools.append(tool.model_dump(by_alias=True, exclude_unset=True))  # as JSON, NaN would become null
        if len(listing.tools) > limits.tools:
            raise ListingError(f"it lists more than {limits.tools:,} tools")
        if (cursor := result.next_cursor) is None:
            return
        if cursor in cursors:
            raise ListingError(f"its list of tools has no end: page {page} leads back to a page that was read before")
        cursors.add(cursor)
    raise ListingError(f"its list of tools has no end: it was cut after {limits.pages:,} pages")


@asynccontextmanager
async def _transport(spec: ServerSpec, limits: Limits, watch: Watch) -> AsyncIterator[AbstractAsyncContextManager[Any]]:
    """The SDK's transport for a server, not yet entered."""
    if spec.transport == "stdio":
        from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(command=spec.command, args=list(spec.args), env=dict(spec.env), cwd=spec.cwd)
        with watch.stderr() as stream:
            try:
                yield stdio_client(parameters, errlog=stream)
            finally:
                await _end_sessions(watch.started)
    elif spec.transport == "sse":
        from mcp.client.sse import sse_client

        yield sse_client(
            spec.url,
            headers=dict(spec.headers),
            timeout=limits.timeout,
            sse_read_timeout=limits.timeout,
            httpx_client_factory=partial(_http_client, watch),
        )
    else:
        from mcp.client.streamable_http import streamable_http_client

        sized = "max_sse_event_size" in inspect.signature(streamable_http_client).parameters  # since 2.3
        # the SDK's 1 MiB is too little for thousands of tools
        size: dict[str, Any] = {"max_sse_event_size": limits.size} if sized else {}
        async with _http_client(watch, headers=dict(spec.headers), timeout=limits.timeout) as client:
            yield streamable_http_client(spec.url, http_client=client, **size)


def _http_client(watch: Watch, headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:
    """A client whose responses the watch sees, before their bodies."""
    import httpx2

    client = httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, event_hooks={"response": [watch.response]})
    client.headers.update(AS_IT_IS)
    return client


async def _end_sessions(processes: Collection[int]) -> None:
    """End the processes that servers left behind when they exited; the SDK ends servers that did not exit.

    The SDK makes each server the leader of a session, so that its children are in its process group. A child that
    opens a new session is not reached.
    """
    if not processes:  # as always on Windows, which has no such groups
        return
    with anyio.CancelScope(shield=True):
        for number in (signal.SIGTERM, signal.SIGKILL):
            left = [process for process in processes if _signal(process, number)]
            with anyio.move_on_after(_GRACE):
                while left := [process for process in left if _signal(process, 0)]:
                    await anyio.sleep(_POLL)
            if not left:
                return


def _signal(process: int, number: int) -> bool:
    """Send a signal to a process group; False if nothing is left of it."""
    try:
        os.killpg(process, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so of a zombie
        pass
    return True


def _client_info() -> Any:
    from mcp.types import Implementation

    return Implementation(name="ctxbench", version=importlib.metadata.version("ctxbench"))


def check_sdk() -> None:
    """Check that a supported version of the SDK is installed, and load it (about a second).

    Raises:
        ParameterError: it is not.
    """
    install = f"install it with: {install_command('mcp')}"
    try:
        installed = importlib.metadata.version("mcp")
    except importlib.metadata.PackageNotFoundError as error:
        raise ParameterError(f"servers are asked through the MCP SDK, which is not installed; {install}") from error
    if installed.split(".")[0] != "2":
        raise ParameterError(f"the MCP SDK is version {installed}, and 2.x is expected; {install}")
    import mcp  # noqa: F401 - before the time of any server runs


_log = logging.getLogger(__name__)

Progress: TypeAlias = Callable[[int, int], None]
_AT_ONCE = 4  # servers that are asked side by side
_SILENCE = 2.0  # seconds of one step until it is said that it is waited for
_PROBE = 10  # seconds that the SDK gives a server to answer `server/discover`, before it asks as of old

_SIGNALS = [sig for sig in signal.Signals if sig.name in ("SIGHUP", "SIGINT", "SIGTERM")]  # Windows has no SIGHUP


def mcp_servers(
    path: Path | str,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Source:
    """A source for `capture`: the servers of one configuration, see `read_mcp_config` and `capture_servers`.

    The configuration is read at once, so that its faults come before anything is started.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is no configuration, or a server in it cannot be used as it is.
    """
    specs = read_mcp_config(path, only=only, skip=skip)
    digests = server_digests(Path(path))  # of the files as they are when the servers start

    def parts() -> list[SnapshotPart]:
        return [
            replace(part, details={**part.details, **digests[part.name]}) if part.state == "captured" else part
            for part in capture_servers(specs, limits=limits, progress=progress)
        ]

    return parts


def capture_servers(
    specs: Sequence[ServerSpec], *, limits: Limits | None = None, progress: Progress | None = None
) -> tuple[SnapshotPart, ...]:
    """Ask servers for their tools.

    A server that cannot be started, hangs, exits, writes garbage or lists nonsense becomes a failed part that says so;
    the others are kept. Nothing of `env` and headers is in the parts. When this returns or raises, the servers that
    it started have been stopped. Ctrl-C stops them and raises; further ones are ignored meanwhile (some seconds).

    Args:
        specs: the servers; four are asked side by side.
        limits: of each server; None = the defaults.
        progress: called with the servers done and those in all.

    Returns:
        A part for each server, in their order; tools by name, so that the order in which a server lists them does not
        matter.

    Raises:
        ParameterError: the MCP SDK is not installed, or not of a version that is known.
        KeyboardInterrupt: Ctrl-C.
    """
    check_sdk()
    with quiet_sdk():
        return _run(_Capture(specs, limits or Limits(), progress or _silent))


class _Capture:
    """One capture of several servers."""

    def __init__(self, specs: Sequence[ServerSpec], limits: Limits, progress: Progress) -> None:
        self.specs, self.limits, self.progress = specs, limits, progress
        self.parts: dict[str, SnapshotPart] = {}
        self.stopped: int | None = None  # the signal that ended it
        self.cancel: Callable[[], None] = lambda: None

    async def all(self) -> tuple[SnapshotPart, ...]:
        turns = anyio.Semaphore(_AT_ONCE)

        async def capture(spec: ServerSpec) -> None:
            async with turns:
                self.parts[spec.name] = await _server(spec, self.limits)
            self.progress(len(self.parts), len(self.specs))

        with _on_signals(self._stop):  # until every server has been stopped
            async with anyio.create_task_group() as group:
                self.cancel = group.cancel_scope.cancel
                for spec in self.specs:
                    group.start_soon(capture, spec)
        return tuple(self.parts[spec.name] for spec in self.specs if spec.name in self.parts)

    def _stop(self, number: int) -> None:
        if self.stopped is None:
            self.stopped = number
            self.cancel()


async def _server(spec: ServerSpec, limits: Limits) -> SnapshotPart:
    """Ask one server; its errors are in the part."""
    if spec.disabled:
        return SnapshotPart(name=spec.name, kind=SERVER, state="disabled")
    watch, listing = Watch(spec.secrets, limit=limits.size), ServerListing()
    trouble = ""
    try:
        with anyio.fail_after(limits.timeout):
            async with anyio.create_task_group() as group:
                group.start_soon(_tell_waiting, spec.name, listing, limits)
                await list_tools(spec, limits, watch, listing)
                group.cancel_scope.cancel()
    except TimeoutError:
        trouble = watch.error_text(Message("catalogs.server-timeout", limit=limits.timeout, step=listing.step))
    except Exception as error:  # noqa: BLE001 - servers fail in as many ways as there are; the part says how
        trouble = watch.explain(error, step=listing.step)
    details = _details(spec, listing)
    if not listing.complete:
        return SnapshotPart(name=spec.name, kind=SERVER, state="failed", details=details, error=trouble)
    try:
        items = _items(spec, listing)
    except ParameterError as error:
        return SnapshotPart(
            name=spec.name, kind=SERVER, state="failed", details=details, error=watch.error_text(str(error))
        )
    notes = [*watch.notes(), *(["it lists no tools"] if not items else [])]
    if any(tool != spec.secrets.hide_in(tool) for tool in listing.tools):
        notes.append(Message("catalogs.server-secrets"))
    return SnapshotPart(name=spec.name, kind=SERVER, items=items, details=details, notes=tuple(notes))


async def _tell_waiting(name: str, listing: ServerListing, limits: Limits) -> None:
    """Log once per step what is waited for, and for how long at most; runs until it is cancelled."""
    reported = ""
    while True:
        step = listing.step
        await anyio.sleep(_SILENCE)
        if step == listing.step != reported:
            reported = step
            hint = Message("catalogs.server-old-protocol", n=_PROBE) if step == ServerListing().step else ""
            about = {"server": name, "n": _SILENCE, "step": step, "limit": limits.timeout, "hint": hint}
            _log.warning("%s", Message("catalogs.server-silent", **about))


def _items(spec: ServerSpec, listing: ServerListing) -> tuple[Item, ...]:
    """The tools of a server, by name.

    Raises:
        ParameterError: a definition cannot be used.
    """
    about = {"server_name": listing.name, "server_version": listing.version, "protocol_version": listing.protocol}
    metadata = spec.secrets.hide_in({key: value for key, value in about.items() if value})
    items = []
    for tool in listing.tools:
        name = spec.secrets.hide(tool["name"])
        if (secret := spec.secrets.in_names(tool)) is not None:
            raise ParameterError(
                f"its tool {name!r:.100} cannot be used: {spec.secrets.hide(secret)!r:.100} is a name in it and holds "
                "a secret of the configuration, and names are kept as they are"
            )
        try:
            definition = read_definition({**spec.secrets.hide_in(tool), "name": tool["name"]})
            items.append(definition.item(spec.name, metadata))
        except ParameterError as error:
            raise ParameterError(f"its tool {name!r:.100} cannot be used: {error}") from error
    return tuple(sorted(items, key=lambda item: item.name))


def _details(spec: ServerSpec, listing: ServerListing) -> dict[str, Any]:
    """The details of a server, without possible secrets."""
    details: dict[str, Any] = {"transport": spec.transport}
    if spec.origin:
        details["url"] = spec.origin
    if listing.name:
        details["server"] = spec.secrets.hide_in({"name": listing.name, "version": listing.version})
    if listing.protocol:
        details["protocol"] = listing.protocol
    return details


def _run(work: _Capture) -> tuple[SnapshotPart, ...]:
    """Run a capture to its end, from a notebook too, where an event loop runs already.

    Raises:
        KeyboardInterrupt: Ctrl-C, once every server has been stopped.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        parts = _in_new_loop(work)
    else:
        with ThreadPoolExecutor(1) as thread:
            parts = thread.submit(_in_new_loop, work).result()
    if work.stopped == signal.SIGINT:
        raise KeyboardInterrupt
    if work.stopped is not None:
        signal.raise_signal(work.stopped)
    return parts


def _in_new_loop(work: _Capture) -> tuple[SnapshotPart, ...]:
    with asyncio.Runner(loop_factory=None if sys.platform == "win32" else WatchingLoop) as runner:
        return runner.run(work.all())


@contextmanager
def _on_signals(stop: Callable[[int], None]) -> Iterator[None]:
    """Call `stop` for Ctrl-C, SIGTERM and the end of the terminal (SIGHUP), while the block runs.

    A signal that is ignored, as by `nohup`, stays so. Only the main thread gets signals; elsewhere, and on Windows,
    what is there stays.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}
    try:
        for number in _SIGNALS:
            if (handler := signal.getsignal(number)) == signal.SIG_IGN:
                continue
            with suppress(NotImplementedError):
                loop.add_signal_handler(number, stop, number)
                before[number] = handler
        yield
    finally:
        for caught, handler in before.items():
            loop.remove_signal_handler(caught)
            signal.signal(caught, handler)


def _silent(_done: int, _total: int) -> None:
    """Say nothing."""
