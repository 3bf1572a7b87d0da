"""Capturing the tools of the servers of a configuration: all at once, each with a time limit, none left running."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Item
from ctxbench.sources.catalog_snapshots import SERVER, SnapshotPart, Source
from ctxbench.sources.mcp.client import Limits, ServerListing, check_sdk, list_tools
from ctxbench.sources.mcp.server_config import ServerSpec, read_mcp_config
from ctxbench.sources.mcp.server_files import server_digests
from ctxbench.sources.mcp.watching import Watch, WatchingLoop, quiet_sdk
from ctxbench.sources.tools import read_definition

_log = logging.getLogger(__name__)

Progress: TypeAlias = Callable[[int, int], None]
_AT_ONCE = 4  # servers that are asked side by side
_SILENCE = 2.0  # seconds of one step until it is said that it is waited for
_PROBE = 10  # seconds that the SDK gives a server to answer `server/discover`, before it asks as of old
_PASSED_OVER = (
    "an older server may leave the first question, `server/discover`, unanswered: that is harmless, it is asked in "
    f"the old way after {_PROBE} s"
)
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
        captured = capture_servers(specs, limits=limits, progress=progress)
        return [
            replace(part, details={**part.details, **digests[part.name]}) if part.state == "captured" else part
            for part in captured
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
        import anyio

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
    import anyio

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
        trouble = watch.error_text(f"it did not answer within {limits.timeout:g} s: {listing.step}")
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
        notes.append("its tools hold values of 'env' or 'headers', which are hidden in the snapshot")
    return SnapshotPart(name=spec.name, kind=SERVER, items=items, details=details, notes=tuple(notes))


async def _tell_waiting(name: str, listing: ServerListing, limits: Limits) -> None:
    """Log once per step what is waited for, and for how long at most; runs until it is cancelled."""
    import anyio

    reported = ""
    while True:
        step = listing.step
        await anyio.sleep(_SILENCE)
        if step == listing.step != reported:
            reported = step
            first = step == ServerListing().step
            why = f"; {_PASSED_OVER}" if first else ""
            limit = f"it is given {limits.timeout:g} s in all"
            _log.warning("server %s has not answered for %g s (%s); %s%s", name, _SILENCE, step, limit, why)


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
        secret = spec.secrets.in_names(tool)
        if secret is not None:
            reason = f"{spec.secrets.hide(secret)!r:.100} is a name in it and holds a secret of the configuration"
            raise ParameterError(f"its tool {name!r:.100} cannot be used: {reason}, and names are kept as they are")
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
            handler = signal.getsignal(number)
            if handler == signal.SIG_IGN:
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
