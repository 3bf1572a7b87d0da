"""A command as a selector: a process of any language that reads requests and writes answers, a JSON line each."""

from __future__ import annotations

import hashlib
import math
import os
import queue
import time
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctxbench.core.errors import ParameterError, check_choice, check_range
from ctxbench.core.requests import Batch
from ctxbench.selectors.command_words import checked_words
from ctxbench.selectors.output_lines import malformed_line, queryless_line
from ctxbench.selectors.process import LineProcess, OutputLine
from ctxbench.selectors.protocol import (
    NOT_AWAITED,
    SENDS,
    CircuitBreaker,
    MalformedError,
    RawAnswer,
    Source,
    Waiting,
    catalog_message,
    dumps,
    loads,
    quoted,
    request_messages,
    shown_path,
)
from ctxbench.selectors.source_files import code_of, source_files
from ctxbench.text.secrets import shown_arguments

_ASKED_AT_MOST = 2  # a query during which the process ends is asked once more, of a new process
_EVENTS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOptions:
    """How a command is asked.

    Attributes:
        send: what the catalog line holds: `items`, `ids`, or `nothing` (no such line).
        timeout: seconds for an answer, > 0; a process that takes longer is ended, and a new one started.
        start_timeout: seconds more until the first answer of a process, which may have a model to load, >= 0.
        concurrency: processes side by side, 1 to 64.
        in_flight: requests that a process is sent before it has answered, 1 to 1000.
        source: the files and folders of its code; None = what `source_files` finds.
    """

    send: str = "items"
    timeout: float = 60.0
    start_timeout: float = 60.0
    concurrency: int = 1
    in_flight: int = 1
    source: list[str] | str | None = None

    def __post_init__(self) -> None:
        check_choice("send", self.send, SENDS)
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise ParameterError(f"timeout must be more than 0 seconds, got {self.timeout}")
        if not (math.isfinite(self.start_timeout) and self.start_timeout >= 0):
            raise ParameterError(f"start_timeout must be 0 seconds or more, got {self.start_timeout}")
        for name, value, maximum in (("concurrency", self.concurrency, 64), ("in_flight", self.in_flight, 1000)):
            check_range(name, value, 1, maximum)


@dataclass(slots=True, eq=False)
class _PendingRequest:
    """A request of a call: how often a process ended while it was in flight, and its time limit."""

    row: int
    query: str
    catalog: str
    line: str
    ended: int = 0
    sent: float = 0.0
    timed: bool = False
    deadline: float = 0.0


@dataclass(slots=True, eq=False)
class _Slot:
    """A slot for one process at a time.

    Attributes:
        process: the running process, or None.
        catalog: hash of the catalog that it was sent.
        in_flight: what it was asked and has not answered, oldest first.
        given_up: queries that are errors already and whose answer may still come.
        fresh: it has not answered yet.
        used: a process was started here before.
        last: the query that was answered last; empty before the first answer.
    """

    process: LineProcess | None = None
    catalog: str = ""
    in_flight: dict[str, _PendingRequest] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)
    fresh: bool = True
    used: bool = False
    last: str = ""

    def forget(self) -> None:
        self.process, self.catalog, self.fresh = None, "", True
        self.in_flight.clear()
        self.given_up.clear()


class CommandSource(Source):
    """Asks a command over its standard input and output.

    A process is started at the first request and kept. Requests in flight are answered in any order; an answer
    belongs to the request whose query id it repeats. A line that is no answer to a request in flight makes the
    oldest request in flight an error that quotes the line, and the process is asked on.
    """

    def __init__(
        self, command: Sequence[str] | str, *, options: CommandOptions | None = None, base: Path | None = None
    ) -> None:
        """Check that the command exists; nothing is started yet.

        Args:
            command: the program and its arguments; a single text is split as a shell would, but no shell runs it.
            options: time limits and how many at once.
            base: the folder that the command runs in, and that its paths are relative to.

        Raises:
            ParameterError: it is empty, or there is no such program, or no such script for it to run.
        """
        self._options = options or CommandOptions()
        self._base = Path.cwd() if base is None else base
        argv, program = checked_words(command, self._base)
        self._argv = [program, *argv[1:]]
        self._description = _describe(argv, self._base, self._options.source)
        self._events: queue.Queue[OutputLine] = queue.Queue(_EVENTS)
        self._slots = [_Slot() for _ in range(self._options.concurrency)]
        self._catalog_cache: tuple[str, str] = ("", "")
        self._counts = {"restarts": 0, "late_answers": 0, "stray_lines": 0}
        self._breaker = CircuitBreaker(at_a_time=self._options.concurrency)
        self._finalizer = weakref.finalize(self, _kill, self._slots)

    def describe(self) -> dict[str, Any]:
        """The arguments, the SHA-256 of its source files, and the options that can decide an answer."""
        return {
            **self._description,
            "send": self._options.send,
            "timeout": self._options.timeout,
            "start_timeout": self._options.start_timeout,
        }

    def waiting_for(self) -> Waiting | None:
        """As of `Source`."""
        waiting = [(request.sent, request, slot) for slot in self._slots for request in list(slot.in_flight.values())]
        if not waiting:
            return None
        _, first, slot = min(waiting, key=lambda entry: entry[0])
        limit = f"it is given {first.deadline - first.sent:g} s"
        if slot.fresh:
            limit += f", {self._options.start_timeout:g} s of them (start_timeout) for the start of the command"
        return Waiting(first.query, first.sent, limit)

    def notes(self) -> dict[str, Any]:
        """Processes started again, answers that came after their query had become an error, lines of nobody."""
        return {name: count for name, count in self._counts.items() if count}

    def forget_notes(self) -> None:
        """Reset `notes`."""
        self._counts = dict.fromkeys(self._counts, 0)

    def close(self) -> None:
        """Close the input of every process, and end those that are not gone a second later."""
        for slot in self._slots:
            if slot.process is not None:
                slot.process.close()
            slot.forget()
        self._breaker.reset()

    def ask(self, batch: Batch, rows: Sequence[int]) -> list[RawAnswer]:
        """Ask; interrupted, it ends all processes at once. An answer is a success of `CircuitBreaker`."""
        self._breaker.begin(batch.catalog.hash)
        messages = request_messages(batch, rows, self._options.send)
        pending = deque(
            _PendingRequest(row, message["query"], message["catalog"], dumps(message)) for row, message in messages
        )
        replies: dict[int, RawAnswer] = {}
        n_pending = len(pending)
        try:
            while len(replies) < n_pending:
                if self._breaker.refusal:
                    replies |= {request.row: RawAnswer(error=self._breaker.refusal) for request in pending}
                    pending.clear()
                for slot in self._slots:
                    self._fill(slot, pending, replies, batch)
                if len(replies) < n_pending:
                    self._await(pending, replies)
        except BaseException:
            _kill(self._slots)
            raise
        return [replies[row] for row in rows]

    def _catalog_line(self, batch: Batch, request: _PendingRequest) -> str:
        """The line of a request's catalog; empty where nothing is sent."""
        if self._catalog_cache[0] != request.catalog:
            message = catalog_message(batch, request.row, self._options.send)
            self._catalog_cache = (request.catalog, "" if message is None else dumps(message))
        return self._catalog_cache[1]

    def _fill(self, slot: _Slot, pending: deque[_PendingRequest], replies: dict[int, RawAnswer], batch: Batch) -> None:
        """Send what may be in flight. A request that a process ended on before is sent alone, to be sure of it.

        Another catalog is told when all before is answered, so that a process need not keep two.

        Query ids repeat from dataset to dataset. Where the process still owes an answer to the same id, that answer
        could be taken for the one to this request, so another process is asked.
        """
        while pending and len(slot.in_flight) < self._options.in_flight:
            suspect = pending[0].ended > 0 or any(request.ended for request in slot.in_flight.values())
            owed = pending[0].query in slot.given_up
            if (suspect or owed or pending[0].catalog != slot.catalog) and slot.in_flight:
                return
            if owed and slot.process is not None:
                slot.process.kill()
                slot.forget()
            process = slot.process or self._start(slot, pending, replies)
            if process is None:
                return
            request = pending.popleft()
            if slot.catalog != request.catalog:
                slot.catalog = request.catalog
                if line := self._catalog_line(batch, request):
                    process.write(line)
            request.sent = time.perf_counter()
            limit = self._options.timeout * (len(slot.in_flight) + 1)
            request.deadline = request.sent + limit + (self._options.start_timeout if slot.fresh else 0.0)
            request.timed = self._options.in_flight == 1 and not slot.fresh
            slot.in_flight[request.query] = request
            process.write(request.line)

    def _start(self, slot: _Slot, pending: deque[_PendingRequest], replies: dict[int, RawAnswer]) -> LineProcess | None:
        try:
            slot.process = LineProcess(self._argv, cwd=self._base, events=self._events)
        except OSError as error:
            while pending:
                replies[pending.popleft().row] = RawAnswer(
                    error=f"the command cannot be started: {error.strerror or error}; is it a program?"
                )
            return None
        self._counts["restarts"] += slot.used
        slot.used = True
        return slot.process

    def _await(self, pending: deque[_PendingRequest], replies: dict[int, RawAnswer]) -> None:
        """Wait for one event, or for the first time limit."""
        first = min((request.deadline for slot in self._slots for request in slot.in_flight.values()), default=0.0)
        try:
            event = self._events.get(timeout=max(first - time.perf_counter(), 0.0) + 0.001)
        except queue.Empty:
            self._expire(pending, replies)
            return
        slot = next((slot for slot in self._slots if slot.process is event.process), None)
        if slot is None:
            return  # of a process that was ended
        if event.line is None:
            self._ended(slot, pending, replies)
        elif event.line.strip():
            self._line(slot, event.line, event.at, replies)

    def _line(self, slot: _Slot, line: bytes, at: float, replies: dict[int, RawAnswer]) -> None:
        try:
            answer = loads(line)
        except MalformedError as error:
            self._blame(slot, malformed_line(line, error), replies)
            return
        query = answer.get("query") if isinstance(answer, dict) else None
        if not isinstance(query, str):
            self._blame(slot, queryless_line(answer, line), replies)
        elif query in slot.in_flight:
            request = slot.in_flight.pop(query)
            slot.fresh, slot.last = False, query
            self._breaker.succeeded()
            replies[request.row] = RawAnswer(answer=answer, seconds=at - request.sent if request.timed else math.nan)
        elif query in slot.given_up:
            slot.given_up.discard(query)
            self._counts["late_answers"] += 1
        else:
            twice = "which it had answered already; write one answer a request"
            detail = twice if query == slot.last else "which was not asked, or answered already"
            line_text = quoted(line.decode("utf-8", "replace"))
            self._blame(slot, f"{NOT_AWAITED}{quoted(query)}, {detail}: {line_text}", replies)

    def _blame(self, slot: _Slot, error: str, replies: dict[int, RawAnswer]) -> None:
        """Make the oldest request in flight an error."""
        if not slot.in_flight:
            self._counts["stray_lines"] += 1
            return
        request = slot.in_flight.pop(next(iter(slot.in_flight)))
        slot.given_up.add(request.query)
        replies[request.row] = RawAnswer(error=error)

    def _ended(self, slot: _Slot, pending: deque[_PendingRequest], replies: dict[int, RawAnswer]) -> None:
        """Handle the end of a process: ask again what was in flight, or give it up."""
        fate = "" if slot.process is None else slot.process.fate()
        in_flight = list(slot.in_flight.values())
        slot.forget()
        retries = []
        for request in in_flight:
            request.ended += 1
            if request.ended < _ASKED_AT_MOST:
                retries.append(request)
            else:
                self._breaker.failed(fate)
                replies[request.row] = RawAnswer(error=f"{fate} (asked {_ASKED_AT_MOST} times)")
        pending.extendleft(reversed(retries))

    def _expire(self, pending: deque[_PendingRequest], replies: dict[int, RawAnswer]) -> None:
        """End the processes that kept a request too long; what else they were asked is asked again."""
        current_time = time.perf_counter()
        for slot in self._slots:
            late = [request for request in slot.in_flight.values() if request.deadline <= current_time]
            if not late or slot.process is None:
                continue
            rest = [request for request in slot.in_flight.values() if request.deadline > current_time]
            slot.process.kill()
            words = slot.process.last_words()
            slot.forget()
            for request in late:
                why = f"no answer within {request.deadline - request.sent:g} s (does it flush its output?)"
                self._breaker.failed(why)
                replies[request.row] = RawAnswer(error=f"{why}; the process was ended{words}")
            pending.extendleft(reversed(rest))


def _kill(slots: Sequence[_Slot]) -> None:
    for slot in slots:
        if slot.process is not None:
            slot.process.kill()
        slot.forget()


def _describe(argv: Sequence[str], base: Path, source: list[str] | str | None) -> dict[str, Any]:
    """The arguments without absolute paths and secrets, and the SHA-256 of their source files (`--option=file` too).

    Where a secret is left out, the SHA-256 of the arguments with it stands for it.

    Raises:
        ParameterError: what `source` names is not there.
    """
    arguments, files = [], []
    for part in argv:
        option, sign, value = part.rpartition("=") if part.startswith("-") else ("", "", part)
        path = base / value
        is_file = bool(value) and os.path.isfile(path)  # noqa: PTH113 - False for what is too long for a path
        name = shown_path(Path(value), base) if is_file or Path(value).is_absolute() else value
        arguments.append(f"{option}{sign}{name}")
        files += [path] if is_file else []
    redacted = shown_arguments(arguments)
    joined = "\0".join(arguments).encode("utf-8", "surrogateescape")
    hashes, own_files = source_files(files, base, code_of(source, base))
    return {
        "command": redacted,
        **({"command_sha256": hashlib.sha256(joined).hexdigest()} if redacted != arguments else {}),
        "files": hashes,
        "own": own_files,
        **({} if source is None else {"source": [shown_path(path, base) for path in code_of(source, base)]}),
    }
