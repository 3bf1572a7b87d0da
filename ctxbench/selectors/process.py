"""A child process that reads and writes lines; nothing it does, or fails to do, blocks the caller."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_LINE_LIMIT = 64 * 2**20  # bytes; a longer line arrives in pieces, none of which is an answer
_STDERR_LINES = 40
_LAST_LINES = 3  # of standard error, which a message quotes
_ERROR = re.compile(r"^\s*(Uncaught )?[\w.]*(Error|Exception)\b")  # of many runtimes, Node first: before the stack
_GRACE_S = 1.0  # how long a process may take to end once its standard input is closed


@dataclass(frozen=True, slots=True)
class OutputLine:
    """A line of a process without its end, or None for the end of its standard output; `at` is `perf_counter`."""

    process: LineProcess
    line: bytes | None
    at: float


class LineProcess:
    """A running command: lines in by `write`, lines out as `OutputLine`s in a queue that several processes may share.

    Three threads do the reading and writing, so a process that never reads, never writes or floods its output is
    only ever waited for with a time limit. It leads a new process group, and the whole group is ended.
    """

    def __init__(self, argv: Sequence[str], *, cwd: Path, events: queue.Queue[OutputLine]) -> None:
        """Start the command, without a shell.

        Raises:
            OSError: it cannot be started.
        """
        # A Python selector that forgets to flush would else look as if it hung.
        environment = {"PYTHONUNBUFFERED": "1", **os.environ}
        self._process = subprocess.Popen(  # noqa: S603 - running the user's own command is what this is for
            list(argv),
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._events = events
        self._ending = threading.Event()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._threads = [
            threading.Thread(target=work, args=(stream,), daemon=True)
            for work, stream in (
                (self._write, self._process.stdin),
                (self._read, self._process.stdout),
                (self._keep, self._process.stderr),
            )
        ]
        for thread in self._threads:
            thread.start()

    def write(self, line: str) -> None:
        """Queue a line for the process; returns at once."""
        self._lines.put(line.encode("ascii") + b"\n")

    def close(self) -> None:
        """Close its input, give it a second to end, and end it."""
        self._ending.set()
        self._lines.put(None)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        self.kill()

    def kill(self) -> None:
        """End the process and all that it started, at once. May be called twice."""
        self._ending.set()
        self._lines.put(None)
        if sys.platform == "win32":
            self._process.kill()
        else:
            with suppress(ProcessLookupError, PermissionError):  # the group is gone (macOS says the latter)
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for thread in self._threads:
            thread.join(_GRACE_S)

    def fate(self) -> str:
        """How it ended, with the last lines of its standard error; waits for the end a moment, then ends it."""
        try:
            code = self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return f"the process closed its standard output{self.last_words()}"
        self.kill()
        how = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
        return f"the process {how}{self.last_words()}"

    def last_words(self) -> str:
        """The last three lines of its standard error, to be put behind a message; empty if there are none.

        Before them the first of its last lines that names an error, where none of the three does: a stack, or what a
        runtime adds, may follow it.
        """
        lines = [line for line in list(self._stderr) if line.strip()]
        end = lines[-_LAST_LINES:]
        error_line = next(filter(_ERROR.match, lines), None) or next((line for line in lines if "Error" in line), None)
        first = "" if error_line is None or any("Error" in line for line in end) else f" says: {error_line.strip()}; it"
        return f"; its standard error{first} ends: {' | '.join(end)}" if lines else ""

    def _write(self, stream: IO[bytes]) -> None:
        # A process that is gone, or reads no more, is found out by its standard output and its time limit.
        with suppress(OSError, ValueError):
            while (line := self._lines.get()) is not None:
                stream.write(line)
                stream.flush()
        with suppress(OSError, ValueError):
            stream.close()

    def _read(self, stream: IO[bytes]) -> None:
        with stream:
            while line := stream.readline(_LINE_LIMIT):
                self._put(OutputLine(self, line.rstrip(b"\r\n"), time.perf_counter()))
        self._put(OutputLine(self, None, time.perf_counter()))

    def _put(self, event: OutputLine) -> None:
        """Hand an event on; a flood waits here, so that it fills the pipe and not the memory."""
        while not self._ending.is_set():
            with suppress(queue.Full):
                self._events.put(event, timeout=0.05)
                return

    def _keep(self, stream: IO[bytes]) -> None:
        with stream:
            while line := stream.readline(4096):
                self._stderr.append(line.decode("utf-8", "replace").rstrip()[:200])
