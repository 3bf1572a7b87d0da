"""Asking MCP servers for their tools, through the official SDK (`mcp`, 2.x), over stdio and streamable HTTP."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ctxbench.core.errors import ParameterError
from ctxbench.core.installation import install_command
from ctxbench.net.http_limits import AS_IT_IS
from ctxbench.sources.mcp.server_config import ServerSpec
from ctxbench.sources.mcp.watching import ListingError, Watch

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
        step: what is being done, for errors: `it was being started`, `page 2 of its tools was being read` ...
        complete: whether all tools are there.
    """

    tools: list[dict[str, Any]] = field(default_factory=list)
    name: str = ""
    version: str = ""
    protocol: str = ""
    step: str = "it was being started"
    complete: bool = False


async def list_tools(spec: ServerSpec, limits: Limits, watch: Watch, listing: ServerListing) -> None:
    """Connect to a server and fill `listing`; the server is stopped or left before this returns.

    One that declares no tools and gives none soon has none.

    Raises:
        ListingError: the listing has no end, is too long, or has a name twice.
        Exception: whatever the SDK raises; `Watch.explain` says what it means.
    """
    import anyio
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
        listing.step = f"page {page} of its tools was being read"
        try:
            result = await client.list_tools(cursor=cursor)
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND and page == 1:
                return  # a server of resources or prompts only
            raise
        for tool in result.tools:
            if tool.name in page_of:
                where = f"on page {page_of[tool.name]} and on page {page}"
                raise ListingError(f"it lists the tool {hide(tool.name)!r:.100} twice, {where}; names must differ")
            page_of[tool.name] = page
            listing.tools.append(tool.model_dump(by_alias=True, exclude_unset=True))  # as JSON, NaN would become null
        if len(listing.tools) > limits.tools:
            raise ListingError(f"it lists more than {limits.tools:,} tools")
        cursor = result.next_cursor
        if cursor is None:
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

    hooks = {"response": [watch.response]}
    client = httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, event_hooks=hooks)
    client.headers.update(AS_IT_IS)
    return client


async def _end_sessions(processes: Collection[int]) -> None:
    """End the processes that servers left behind when they exited; the SDK ends servers that did not exit.

    The SDK makes each server the leader of a session, so that its children are in its process group. A child that
    opens a new session is not reached.
    """
    import anyio

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
    from importlib.metadata import version

    from mcp.types import Implementation

    return Implementation(name="ctxbench", version=version("ctxbench"))


def check_sdk() -> None:
    """Check that a supported version of the SDK is installed, and load it (about a second).

    Raises:
        ParameterError: it is not.
    """
    from importlib.metadata import PackageNotFoundError, version

    install = f"install it with: {install_command('mcp')}"
    try:
        installed = version("mcp")
    except PackageNotFoundError as error:
        raise ParameterError(f"servers are asked through the MCP SDK, which is not installed; {install}") from error
    if installed.split(".")[0] != "2":
        raise ParameterError(f"the MCP SDK is version {installed}, and 2.x is expected; {install}")
    import mcp  # noqa: F401 - before the time of any server runs
