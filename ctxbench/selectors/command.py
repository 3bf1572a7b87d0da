"""A command as a selector: a child process that exchanges JSON lines."""

from __future__ import annotations

import hashlib
import math
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

from ctxbench.catalogs.agent_file import OWN_FORM, program_form
from ctxbench.catalogs.mcp_config import imported_files
from ctxbench.io.errors import Message, ParameterError, raise_first
from ctxbench.io.secrets import shown_arguments
from ctxbench.model.requests import Batch
from ctxbench.selectors.protocol import (
    NO_ANSWER,
    NOT_AWAITED,
    CircuitBreaker,
    CommandOptions,
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

_OPERATOR = re.compile(r"(?:^|\s)(\|\|?|&&?|;|>>?|<|2>|2>&1)(?=\s|$)")  # of a shell, as a word of its own
_INTERPRETER = re.compile(r"(?:python|pypy)[\d.]*|node|deno|bun|ruby|perl|php|bash|sh|zsh|Rscript|lua|tsx|ts-node")
_SCRIPT = re.compile(r"\.(?:py|[cm]?[jt]s|rb|pl|php|sh|R|lua)")
_NO_SCRIPT = re.compile(r"-(?:[cmepr]$|-eval|-print|-require|-import|-loader)")  # options that a word of theirs follows


def split_command(command: str) -> list[str]:
    """Split a text as a shell would.

    Raises:
        ParameterError: it cannot be split, or something in it is for a shell, which does not run it.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ParameterError(f"command cannot be split into words: {error}; give it as a list") from error
    if (operator := _OPERATOR.search(command)) and operator.group(1) in words:
        shell = f"{{command: [bash, -c, {shlex.quote(command)}]}}"
        raise ParameterError(
            f"command: no shell runs it, so that {operator.group(1)!r} would be an argument of {words[0]!r}; name the "
            f"program alone, or a shell: {shell}"
        )
    return words


def checked_words(command: Sequence[str] | str, base: Path) -> tuple[list[str], str]:
    """The words of a command, and the program to run: of the path if it has no slash, else relative to `base`.

    Raises:
        ParameterError: it is empty, or there is no such program, or no such script for the program to run.
    """
    argv = split_command(command) if isinstance(command, str) else list(command)
    raise_first(
        (not argv, f"command is empty; name the program and its arguments, {OWN_FORM}"),
        (
            not all(isinstance(part, str) and part and "\0" not in part for part in argv),
            "command must be a list of texts that are not empty, the program first",
        ),
    )
    program = _program(argv[0], base)
    _refuse_missing_script(argv, base)
    return argv, program


def _program(name: str, base: Path) -> str:
    if Path(name).name == name:
        if (program := shutil.which(name)) is None:
            raise ParameterError(f"command: there is no program {name!r} on the path; install it, or give its place")
        return program
    path = (base / name).absolute()
    if shutil.which(str(path)) is None:
        if not path.is_file():
            raise ParameterError(f"command: the program {name!r} does not exist{_nearest(path)}")
        how = program_form(name)
        raise ParameterError(
            f"command: the program {name!r} is not executable; run `chmod +x "
            f"{shlex.quote(name)}`{f', or write {how}' if how else ''}"
        )
    return str(path)


def _refuse_missing_script(argv: Sequence[str], base: Path) -> None:
    """Refuse an interpreter's script that is not there, since the interpreter would fail for every query."""
    if not _INTERPRETER.fullmatch(Path(argv[0]).name) or any(_NO_SCRIPT.match(part) for part in argv[1:]):
        return
    script = next((part for part in argv[1:] if not part.startswith("-")), "")
    path = base / script
    if _SCRIPT.fullmatch(Path(script).suffix) and not path.is_file():
        raise ParameterError(f"command: there is no file {str(path)!r} for {argv[0]} to run{_nearest(path)}")


def _nearest(missing: Path) -> str:
    """'; did you mean ...?' for the file in its folder with the nearest name; empty where there is none."""
    try:
        names = [path.name for path in missing.parent.iterdir() if path.is_file()]
    except OSError:
        return ""
    close = get_close_matches(missing.name, names, n=1)
    return Message("selectors.did-you-mean", name=close[0]) if close else ""


def malformed_line(line: bytes, error: object) -> str:
    """Why a line of a process is no answer.

    Args:
        line: what the process wrote.
        error: what is wrong with it.
    """
    return Message(
        "selectors.malformed-line", start=NO_ANSWER, error=error, line=quoted(line.decode("utf-8", "replace"))
    )


_LINE_LIMIT = 64 * 2**20  # bytes; a longer line arrives in pieces, none of which is an answer
_STDERR_LINES = 40
_LAST_LINES = 3  # of standard error, which a message quotes
_LOCATION = re.compile(r"\S+\.[A-Za-z]\w*:\d+")  # what Node prints first: file:///home/me/select.mjs:2
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
        self._process = subprocess.Popen(  # noqa: S603 - running the user's own command is what this is for
            list(argv),
            cwd=cwd,
            env={"PYTHONUNBUFFERED": "1", **os.environ},
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
            how = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
        except subprocess.TimeoutExpired:
            how = "closed its standard output"
        self.kill()
        return f"the process {how}{self.last_words()}"

    def last_words(self) -> str:
        """The last three lines of its standard error, to be put behind a message; empty if there are none.

        Before them, where none of the three is such a line, the file and line that Node begins with, and the first line
        that names an error: a stack, or what a runtime adds, may follow it.
        """
        lines = [line for line in list(self._stderr) if line.strip()]
        end = lines[-_LAST_LINES:]
        error_line = next(filter(_ERROR.match, lines), None) or next((line for line in lines if "Error" in line), None)
        first = [line for line in filter(_LOCATION.fullmatch, lines) if line not in end][:1]
        first += [] if error_line is None or any("Error" in line for line in end) else [error_line.strip()]
        quoted = [*first, "...", *end] if first else end
        return Message("selectors.standard-error", lines=" | ".join(quoted)) if lines else ""

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


MOST = 200
"""So many files are hashed one by one; more count as one, by the name of their folder."""

_MOST_SEEN = 20_000  # source files and folders; a home folder may hold more
_CODE = frozenset(
    (
        *(".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".py", ".rb", ".go", ".rs", ".java", ".kt"),
        *(".scala", ".cs", ".fs", ".php", ".pl", ".lua", ".ex", ".exs", ".erl", ".clj", ".swift", ".c", ".h", ".cc"),
        *(".cpp", ".hpp", ".sh", ".bash", ".ps1", ".wasm"),
    )
)
_SETTINGS = frozenset({"package.json", "tsconfig.json", "pyproject.toml", "Cargo.toml", "go.mod"})
_PASSED_OVER = frozenset({"node_modules", "venv", "__pycache__", "runs", "target", "site-packages"})


def code_of(source: Sequence[str] | str | None, base: Path) -> list[Path]:
    """The files and folders that `source` names; none without it.

    Raises:
        ParameterError: one is not there.
    """
    named = [source] if isinstance(source, str) else source or ()
    if missing := [name for name in named if not (base / name).exists()]:
        raise ParameterError(f"source: there is no {missing[0]!r}; name files and folders of its code")
    return [base / name for name in named]


def source_files(
    argv_files: Sequence[Path], base: Path, source: Sequence[Path] = ()
) -> tuple[dict[str, str], list[str]]:
    """The SHA-256 of the files of a command, by name, and which of them certainly belong to it.

    These are the files that the command names and the source code in the folder that it runs in, subfolders included.
    For a named file outside of that folder it is the source code in the folder of the file. `source` replaces the
    folders. Hidden folders, `node_modules` and the like are ignored, and so is data.

    Args:
        argv_files: that the command names; they are there.
        base: the folder that the command runs in.
        source: files and folders that hold its code; empty = not given.

    Returns:
        Names relative to `base` where they lie below it, else to the folder that was searched; one hash for files of
        one name. Where there are more than `MOST` that are not named, one hash for all those that are in no folder of
        a named file, and where even these are more, for all. Behind it the names of its own files, sorted: those that
        it names, and that these import; all where it names no source code, or `source` does.
    """
    hashes: dict[str, str] = {}
    named = dict.fromkeys((*argv_files, *(path for path in source if not path.is_dir())))
    for path in named:
        _add(hashes, shown_path(path, base), _sha256(path))
    own_folders = dict.fromkeys(path.parent for path in named if path.suffix in _CODE)
    own_names = {shown_path(path, base) for path in named}
    folders = [path for path in source if path.is_dir()] if source else [*(own_folders or [base])]
    for folder in dict.fromkeys(base if path.is_relative_to(base) and not source else path for path in folders):
        top = "" if folder == base else f"{shown_path(folder, base)}/"
        nearby = {path: f"{top}{path.relative_to(folder).as_posix()}" for path in _code_below(folder, named)}
        near = {path for path in nearby if any(path.is_relative_to(parent) for parent in own_folders)}
        separate = nearby if len(nearby) <= MOST else near if len(near) <= MOST else ()
        for path in separate:
            _add(hashes, nearby[path], _sha256(path))
        if rest := [path for path in nearby if path not in separate]:
            _add(hashes, top or "./", _joined(*(nearby[path] for path in rest), *map(_sha256, rest)))
        own_names |= {nearby[path] for path in imported_files([*named], separate, base)}
    return hashes, sorted(own_names if own_folders and not source else hashes)


def _add(hashes: dict[str, str], name: str, sha256: str) -> None:
    hashes[name] = _joined(hashes[name], sha256) if name in hashes else sha256


def _joined(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogateescape")).hexdigest()


def _code_below(folder: Path, named: Container[Path]) -> list[Path]:
    """The source files of a folder and those below it, sorted, without the named, as far as it is looked through."""
    paths: list[Path] = []
    n_seen = 0
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not (name.startswith(".") or name in _PASSED_OVER))
        code = sorted(name for name in files if name in _SETTINGS or os.path.splitext(name)[1] in _CODE)  # noqa: PTH122 - of thousands
        paths += [path for name in code if (path := Path(root, name)) not in named and os.path.isfile(path)]  # noqa: PTH113 - False where it cannot be looked at
        n_seen += 1 + len(code)
        if n_seen >= _MOST_SEEN:
            break
    return paths


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return "unreadable"


_ASKED_AT_MOST = 2  # a query during which the process ends is asked once more, of a new process
_EVENTS = 10_000


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
    """A place for one process at a time.

    Attributes:
        process: the running process, or None.
        catalog: hash of the catalog that it was sent.
        in_flight: what it was asked and has not answered, oldest first.
        given_up: queries that are errors already and whose answer may still come.
        fresh: it has not answered yet.
        used: a process was started here before.
    """

    process: LineProcess | None = None
    catalog: str = ""
    in_flight: dict[str, _PendingRequest] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)
    fresh: bool = True
    used: bool = False

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
        self._options = options or CommandOptions.model_validate({})
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
        start = self._options.start_timeout if slot.fresh else 0.0
        limit = Message("selectors.time-limit", seconds=first.deadline - first.sent, start=start)
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
        pending = deque(
            _PendingRequest(row, message["query"], message["catalog"], dumps(message))
            for row, message in request_messages(batch, rows, self._options.send)
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
        """Send as many requests as may be in flight. A request that a process ended on before is sent alone.

        Another catalog is sent after all earlier requests are answered, so a process keeps one at a time.

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
            message = Message("selectors.command-not-started", error=error.strerror or error)
            while pending:
                replies[pending.popleft().row] = RawAnswer(error=message)
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
            got = quoted(query if isinstance(answer, dict) else answer)
            self._blame(slot, malformed_line(line, Message("selectors.query-malformed", got=got)), replies)
        elif query in slot.in_flight:
            request = slot.in_flight.pop(query)
            slot.fresh = False
            self._breaker.succeeded()
            replies[request.row] = RawAnswer(answer=answer, seconds=at - request.sent if request.timed else math.nan)
        elif query in slot.given_up:
            slot.given_up.discard(query)
            self._counts["late_answers"] += 1
        else:
            text = quoted(line.decode("utf-8", "replace"))
            message = Message("selectors.answer-not-awaited", start=NOT_AWAITED, query=quoted(query), line=text)
            self._blame(slot, message, replies)

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
                error = Message("selectors.no-answer-in-time", seconds=request.deadline - request.sent, output=words)
                self._breaker.failed(error)
                replies[request.row] = RawAnswer(error=error)
            pending.extendleft(reversed(rest))


def _kill(slots: Sequence[_Slot]) -> None:
    for slot in slots:
        if slot.process is not None:
            slot.process.kill()
        slot.forget()


def _describe(argv: Sequence[str], base: Path, source: Sequence[str] | str | None) -> dict[str, Any]:
    """The arguments without absolute paths and secrets, and the SHA-256 of their source files (`--option=file` too).

    If a secret is left out, the SHA-256 of all arguments is added.

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
        "direct_files": own_files,
        **({} if source is None else {"source": [shown_path(path, base) for path in code_of(source, base)]}),
    }
