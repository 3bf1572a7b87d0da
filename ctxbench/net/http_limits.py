"""What an exchange with an HTTP server may cost: a time over all of it, and no bytes beyond those that were sent.

Compressed bodies are neither asked for nor taken: a few kilobytes may stand for gigabytes.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

BODY_LIMIT = 64 * 2**20  # bytes of a body that is held in memory
AS_IT_IS = {"Accept-Encoding": "identity"}  # the header that asks for bodies that are not compressed


def compression(headers: Mapping[str, str]) -> str:
    """How a body is compressed, in the server's words, such as `gzip`; empty if it is not."""
    named = headers.get("content-encoding", "")
    return named if any(encoding.strip().lower() not in ("", "identity") for encoding in named.split(",")) else ""


class Deadline:
    """Ends exchanges that take too long, by shutting the connection down under whoever waits for it.

    A client's own limits are for each read, so a byte a minute would keep it waiting. It is told of connections by the
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
