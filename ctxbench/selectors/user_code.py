"""Running a user's Python code in this process: it cannot end the process, and prints to standard error only."""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, BinaryIO, NoReturn, TextIO, cast

from ctxbench.selectors.protocol import shown_path

_STREAMS = ("stdout", "stderr", "__stdout__", "__stderr__")


class EndedError(SystemExit):
    """`os._exit` was called by code of others; the message says where."""


@contextlib.contextmanager
def confined() -> Iterator[None]:
    """Run code of others: `exit_held`, `stdout_to_stderr`, and no Ctrl-C is lost.

    Raises:
        EndedError: as `exit_held`.
        KeyboardInterrupt: Ctrl-C was pressed inside, also if it was caught there; the second ends the process.
    """
    _EXIT.was_used = True
    with _InterruptGuard(), exit_held(), stdout_to_stderr():
        yield


def leave() -> None:
    """Let this process end with our code and our data, if code of others ran in it; else do nothing.

    Threads of theirs, and what they registered to run at the end, run on: they may have processes and folders to clean
    up. But from now on `os._exit` is held, and what they print goes to standard error.
    """
    if not _EXIT.was_used:
        return
    _EXIT.hold()
    to = 2
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):  # nobody reads it any more, or it is closed: what is left goes nowhere
        to = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError):  # standard error is closed
        os.dup2(to, 1)


@contextlib.contextmanager
def exit_held() -> Iterator[None]:
    """Inside, `os._exit` raises in place of ending the process.

    A process that ends so ends with the exit code that was asked for, and 0 would be read as our verdict. May be
    nested. In child processes `os._exit` does what it always does. What ends the process from C, by a signal, or by
    putting another program in its place, is not held.

    Raises:
        EndedError: `os._exit` was called, in whatever thread, also if whoever called it went on.
    """
    with _EXIT.replacing():
        yield


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send what is written to standard output inside to standard error: by `print`, by C code, by child processes.

    Standard output is for our data. The redirection holds for the whole process while it lasts. What is closed or
    replaced inside, of `sys.stdout`, `sys.stderr` and their descriptors, is as it was afterwards.
    """
    streams = {name: getattr(sys, name) for name in _STREAMS}
    for stream in filter(None, (sys.stdout, sys.stderr)):  # a program without a console has none
        stream.flush()
    copies = {descriptor: copy for descriptor in (1, 2) if (copy := _copied(descriptor)) is not None}
    lent = None if sys.stderr is None else _StreamProxy(sys.stderr)
    try:
        if len(copies) == 2:
            os.dup2(2, 1)
        for name in _STREAMS:
            setattr(sys, name, lent)
        yield
    finally:
        for name, stream in streams.items():
            setattr(sys, name, stream)
        for descriptor, copy in copies.items():
            os.dup2(copy, descriptor)
            os.close(copy)
        if lent is not None:
            lent.flush()


def _copied(descriptor: int) -> int | None:
    """A copy of a file descriptor; None if it is not open."""
    try:
        return os.dup(descriptor)
    except OSError:
        return None


class _StreamProxy:
    """A stream, lent to code of others, which may write to it; what else they do to it does nothing to the stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bytes: BinaryIO | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> BinaryIO:
        """A separate buffer: a text stream that wraps it closes it when the stream is gone."""
        if self._bytes is None or self._bytes.closed:
            try:
                self._bytes = open(self._stream.fileno(), "wb", closefd=False)  # noqa: SIM115 - it is lent
            except OSError:  # a stream in memory
                return self._stream.buffer
        return self._bytes

    def detach(self) -> BinaryIO:
        """The buffer; the stream keeps its own."""
        return self.buffer

    def flush(self) -> None:
        """Flush the stream, and the buffer of its own."""
        self._stream.flush()
        if self._bytes is not None and not self._bytes.closed:
            self._bytes.flush()

    def close(self) -> None:
        """What was written is flushed; the stream is not ours to close."""
        self.flush()


class _ExitGuard:
    """Stands for `os._exit` of this process while code of others runs; once they have called it, until `leave`.

    Attributes:
        was_used: whether any ran.
    """

    def __init__(self) -> None:
        self.was_used = False
        self._lock = threading.Lock()
        self._inside = 0
        self._process = os.getpid()
        self._real: Callable[[int], NoReturn] = os._exit  # a child's own way out
        self._called: str = ""
        self._stays = False  # they may call it again

    @contextlib.contextmanager
    def replacing(self) -> Iterator[None]:
        """Take the place of `os._exit`; the last to leave puts it back, unless a thread may call it again."""
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._process = os.getpid()
                self._put(self._refuse)
        try:
            yield
        finally:
            with self._lock:
                called, self._called = self._called, ""
                self._inside -= 1
                self._stays = self._stays or (bool(called) and _own_process())
                if not self._inside and not self._stays:
                    self._put(self._real)
        if called:  # in another thread, or it was caught
            raise EndedError(called)

    def hold(self) -> None:
        """Take the place of `os._exit` for good."""
        with self._lock:
            self._inside += 1
            self._process = os.getpid()
            self._put(self._refuse)

    def _put(self, function: Callable[[int], NoReturn]) -> None:
        for module in filter(None, map(sys.modules.get, ("os", os.name))):  # `posix` or `nt` has it, too
            vars(module)["_exit"] = function

    def end(self, status: int, message: str) -> NoReturn:
        """End this process, with a last message on standard error."""
        with contextlib.suppress(Exception):  # it may be closed, or in the midst of a write
            sys.stderr.flush()
        with contextlib.suppress(OSError):
            os.write(2, message.encode())
        self._real(status)

    def _refuse(self, status: int) -> NoReturn:
        if os.getpid() != self._process:
            self._real(status)
        location = _location(cast(FrameType, inspect.currentframe()).f_back)
        self._called = f"os._exit({status!r}) was called{location}, which would have ended ctxbench"
        raise EndedError(self._called)


class _InterruptGuard:
    """Notes Ctrl-C while code of others runs, which may catch the KeyboardInterrupt and go on.

    On leaving it is raised again, with the lines where it came; at a second Ctrl-C the process ends at once, with 130.
    Only in the main thread, where signals arrive, and only where Python's own handler is in place: a program around
    us that handles or ignores Ctrl-C goes on to do so, and the outermost of several notes for all.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self._installed = False
        self._noted: KeyboardInterrupt | None = None

    def __enter__(self) -> None:
        """Take the place of Python's own handler."""
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._installed = True
            signal.signal(signal.SIGINT, self._note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the handler, whatever is there now, and raise what was noted."""
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._noted is not None and not isinstance(error, KeyboardInterrupt):
            raise self._noted from None

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a child does as it always does
            raise KeyboardInterrupt
        if self._noted is not None:
            _EXIT.end(130, "stopped: ended at once, as Ctrl-C was pressed again; nothing is half-written\n")
        self._noted = KeyboardInterrupt()
        raise self._noted


def _own_process() -> bool:
    """Whether `ctxbench` was started, and not a program that uses this package: it ends by `leave`."""
    started = getattr(sys.modules.get("__main__"), "__spec__", None)
    return "ctxbench.__main__" in sys.modules or getattr(started, "name", "") == "ctxbench.__main__"


def _location(frame: FrameType | None) -> str:
    """File and line of a call, in brackets; without folders, which messages of runs must not hold."""
    return "" if frame is None else f" ({Path(frame.f_code.co_filename).name}, line {frame.f_lineno})"


_EXIT = _ExitGuard()


def signature_fault(function: Callable[..., Any], arguments: Sequence[Any], *, batch: bool, base: Path) -> str:
    """Why a function cannot be called with these arguments, where it is and what to change; empty if it can.

    Args:
        function: that was called.
        arguments: the request, or requests, and the items where any are sent.
        batch: several requests at once.
        base: what its file is shown relative to.
    """
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        why = str(error)
    except ValueError:  # it tells no signature
        return ""
    else:
        return ""
    named = inspect.unwrap(function)
    code = getattr(named, "__code__", None)
    location = f" ({shown_path(Path(code.co_filename), base)}, line {code.co_firstlineno})" if code else ""
    parameters = list(inspect.signature(function).parameters)
    name = getattr(named, "__name__", type(named).__name__)
    first = "requests" if batch else "request"
    called = f"({first}, items)" if len(arguments) > 1 else f"({first})"
    if parameters[:1] == ["self"]:
        advice = f"it is a method of a class: make an object of it, `own = Class().{name}`, and name `own`"
    elif len(arguments) > 1 and len(parameters) == 1:
        advice = f"take the items too, or write `send: nothing` for a function of the {first} alone"
    elif len(arguments) == 1:
        advice = f"with `send: nothing` it gets the {first} alone; leave that out, or take one argument"
    else:
        advice = "take these two arguments"
    return f"{name} cannot be called as {called}: {why}; {advice}{location}"
