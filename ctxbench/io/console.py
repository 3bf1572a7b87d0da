"""Standard output and error, progress messages, and keys from the terminal.

No other module writes to a stream (`tests/io/test_console.py` reads the source). Lines go through `say`, texts of
several lines through `show_text`, tables through `show_tables`, JSON through `show_json`; `write_own` writes control
characters of ctxbench itself. `guarded` wraps the streams, for output of libraries, of user code and of Python.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from datetime import timedelta
from importlib import import_module
from types import FrameType
from typing import IO, TYPE_CHECKING, Any, Self, TextIO, TypeAlias, cast

from ctxbench.io.errors import (
    STYLE,
    Message,
    ParameterError,
    StorageError,
    harmless,
    joined,
    one_line,
    visible,
    visible_json,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


_NARROWEST = 40  # columns that tables take, whatever a terminal says that it has
_OPEN = re.compile(rf"(?:\s|{STYLE})*:?")  # the beginning of a line that may yet become a command


class Guard:
    """A text stream that marks what a terminal would obey, and breaks what a runner of workflows would.

    It has no `buffer`, by which it could be gone around; in all else it is the stream that it guards.
    """

    def __init__(self, stream: IO[str]) -> None:
        """Guard a stream."""
        self._stream = stream
        self._tail = ""  # what was written of the line, as far as it decides what may follow

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write what anyone wrote; a carriage return, which would overwrite a line, ends it."""
        before, text = self._tail, visible(re.sub("\r\n?", "\n", text))
        self.write_own(harmless(before + text)[len(before) :])
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts one after the other."""
        self.write("".join(lines))

    def write_own(self, text: str) -> None:
        """Write text of ctxbench itself, unchanged."""
        line = re.split("[\r\n]", self._tail + text)[-1]
        self._tail = line if _OPEN.fullmatch(line) else f".{line[-2:]}"  # a full stop: no line begins here
        self._stream.write(text)


@contextmanager
def guarded(*, for_good: bool = False) -> Iterator[None]:
    """Guard everything that is written to `sys.stdout` and `sys.stderr` inside the block. May be nested.

    Args:
        for_good: also afterwards: the process ends, and Python may still print an exception.
    """
    before = sys.stdout, sys.stderr
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a character that the terminal lacks is no reason to stop
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is not None:  # it is closed
            setattr(sys, name, _guard(getattr(sys, name)))
    try:
        yield
    finally:
        if not for_good:
            sys.stdout, sys.stderr = before


def _guard(stream: IO[str]) -> Guard:
    return stream if isinstance(stream, Guard) else Guard(stream)


def say(*lines: str, err: bool = False, end: str = "\n") -> None:
    """Print lines, each one line whatever it holds; nothing where there are none, or the stream is closed.

    Args:
        lines: printed one below the other.
        err: on standard error: for the person, not for a program.
        end: what follows the last line.

    Raises:
        BrokenPipeError: the reader is gone.
    """
    if lines:
        _write(joined(lines) + end, err=err)


def show_text(text: str) -> None:
    """Print a text of several lines on standard output, with no line end that it has not, but for a terminal.

    It is printed unchanged, except for what a terminal or a runner of workflows would obey.

    Raises:
        BrokenPipeError: the reader is gone.
    """
    _write(text if text.endswith("\n") or not is_terminal() else f"{text}\n", err=False)


def show_json(document: str) -> None:
    """Print a JSON document on standard output, unchanged or with equivalent escapes.

    What standard output cannot hold is escaped, and so is what a terminal or a runner of workflows would obey.

    Raises:
        BrokenPipeError: the reader is gone.
    """
    try:
        document.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        document = json.dumps(json.loads(document), indent=2) + "\n"
    _write(visible_json(document), err=False)


def write_own(text: str, *, err: bool = False) -> None:
    """Print what is ours with the control characters and commands in it; what others wrote in it is made fit before.

    Raises:
        BrokenPipeError: the reader is gone.
    """
    _write(text, err=err, is_ours=True)


def _write(text: str, *, err: bool, is_ours: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    if stream is None:
        return
    door = _guard(stream)
    (door.write_own if is_ours else door.write)(text)
    door.flush()


def show_tables(
    make_tables: Callable[[Console], Iterable[RenderableType]], *, file: IO[str] | None = None, width: int | None = None
) -> None:
    """Print what rich lays out, all at once: a reader that leaves is for the caller to deal with.

    Args:
        make_tables: makes the parts for a console.
        file: standard output if None.
        width: columns; None asks the terminal (80 where there is none).

    Raises:
        BrokenPipeError: the reader is gone.
    """
    stream = file or sys.stdout
    if stream is None:  # it is closed
        return
    door = _guard(stream)
    console = _console(door, width)
    with console.capture() as text:
        for part in make_tables(console):
            console.print(part)
    door.write_own(harmless(text.get()))
    door.flush()


def _console(door: Guard, width: int | None) -> Console:
    """A console whose texts are visible before they get their styles: square brackets in a name are no markup."""
    from rich.console import Console
    from rich.segment import Segment

    class Visible(Console):
        def render(self, *arguments: Any, **options: Any) -> Iterator[Segment]:
            yield from (
                segment if segment.control else Segment(visible(segment.text), segment.style)
                for segment in super().render(*arguments, **options)
            )

    console = Visible(file=cast(IO[str], door), width=width, highlight=False, emoji=False, markup=False)
    console.width = max(console.width, _NARROWEST)
    return console


@contextmanager
def printing_to_stderr() -> Iterator[None]:
    """Inside, what Python code prints goes to standard error: standard output is for our data."""
    with redirect_stdout(sys.stderr):
        yield


def flush() -> None:
    """Print what waits to be printed on standard output.

    Raises:
        BrokenPipeError: the reader is gone.
    """
    if sys.stdout is not None:
        sys.stdout.flush()


def keep_numbers() -> None:
    """Take the numbers of streams that are closed, or a file that is opened got one, and what a child prints."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)


def drop_output(*, err: bool = False) -> None:
    """Send what is left to be printed nowhere, or Python would fail on it once more at the very end."""
    stream = sys.stderr if err else sys.stdout
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def is_terminal(*, err: bool = False) -> bool:
    """Whether a person reads the stream."""
    stream = sys.stderr if err else sys.stdout
    return stream is not None and stream.isatty()


def is_plain(encoding: str | None = None) -> bool:
    """Whether an encoding, that of standard output if None, lacks Unicode, so that signs must be plain."""
    return not (encoding or getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")


Notify: TypeAlias = Callable[[str], None]


ProgressListener: TypeAlias = Callable[[str, int, int], None]
"""Called with the progress of a run: (text, done, total), where `done` of `total` parts of `text` are done."""


def silent(text: str, done: int, total: int) -> None:
    """Ignore how far a run is."""


def nothing_said(_message: str) -> None:
    """Ignore a message."""


AFTER = 1.0  # seconds of silence first
EVERY_TERMINAL = 0.2  # of a notebook, too; a line takes 3 ms to draw
EVERY_FILE = 10.0
_WIDEST = 100  # columns of a bar
_CLEARED = {"text/plain": "", "text/html": ""}


class Progress:
    """Shows progress; nothing in the first second.

    On a terminal and in a notebook it is one line with a bar, the rate and the time left, which goes away at the end.
    Elsewhere it is a line every ten seconds.

    Attributes:
        begin: when the first second began; infinite = it never ends.
    """

    def __init__(self, *, in_files: bool = True) -> None:
        """Start the first second.

        Args:
            in_files: whether to print lines where standard error is neither a terminal nor that of a notebook.
        """
        self.begin = time.monotonic()
        self._last_shown = 0.0
        self._width = 0
        self._handle: Any = None  # of the notebook's output
        self._notebook = _in_notebook()
        self._terminal = not self._notebook and is_terminal(err=True)
        self._in_files = in_files
        self._starts: dict[str, tuple[float, int, int]] = {}

    def __call__(self, text: str, done: int, total: int) -> None:
        """Show that `done` of `total` of what `text` names are done; what its text has after a comma may change."""
        current, activity = time.monotonic(), text.partition(", ")[0]
        began, first, last = self._starts.get(activity, (current, done, done))
        if done < last:  # the next time that it is done
            began, first = current, done
        self._starts[activity] = (began, first, done)
        is_live = self._terminal or self._notebook
        interval = EVERY_TERMINAL if is_live else EVERY_FILE
        if current - self.begin < AFTER or current - self._last_shown < interval:
            return
        self._last_shown = current
        if is_live:
            self._draw(text, done, total, (done - first) / max(current - began, 1e-9))
        elif self._in_files:
            say(f"{text}: {done:,} of {total:,}", err=True)

    def _draw(self, text: str, done: int, total: int, rate: float) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Column, Table
        from rich.text import Text

        texts = [f"{done:,} of {total:,}"]
        if rate:
            left = timedelta(seconds=round((total - done) / rate))
            texts += [f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s", f"{left} left"]
        columns = (Column(no_wrap=True), Column(ratio=1), *(Column(no_wrap=True, justify="right") for _ in texts))
        row = Table.grid(*columns, padding=(0, 2, 0, 0), expand=True)
        row.add_row(Text(one_line(text)), ProgressBar(max(total, 1), done), *map(Text, texts))
        if self._notebook:
            if self._handle is None:
                self._handle = import_module("IPython.display").display(row, display_id=True)
            else:
                self._handle.update(row)
        else:
            console = _console(_guard(sys.stderr), None)
            console.width = self._width = min(console.width - 1, _WIDEST)  # a full line might be broken
            with console.capture() as line:
                console.print(row, end="")
            write_own("\r" + harmless(line.get().rstrip("\n")), err=True)

    def say(self, text: str) -> None:
        """Print one line that stays."""
        self.close()
        say(text, err=True)

    def close(self) -> None:
        """Clear the line."""
        if self._terminal and self._width:
            write_own("\r" + " " * self._width + "\r", err=True)
            self._width = 0
        if self._handle is not None:
            self._handle.update(_CLEARED, raw=True)


def _in_notebook() -> bool:
    """Whether this process is a kernel of Jupyter, which shows what is printed below a cell."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


@contextmanager
def progress(*, in_files: bool = True) -> Iterator[Progress]:
    """Progress that is cleared at the end; `in_files` as for `Progress`."""
    bar = Progress(in_files=in_files)
    try:
        yield bar
    finally:
        bar.close()
        bar.begin = math.inf  # what still has this listener may go on calling it


@contextmanager
def progress_listener(option: bool | ProgressListener) -> Iterator[ProgressListener]:
    """What the argument `progress` of a function of the library asks for, inside the block.

    Args:
        option: True = show progress to a person, on a terminal or in a notebook; False = nothing; or a listener.

    Raises:
        ParameterError: it is none of these.
    """
    argument: object = option
    if not (isinstance(argument, bool) or callable(argument)):
        raise ParameterError(Message("io.progress", got=type(option).__name__))
    with progress(in_files=False) if option is True else nullcontext(option or silent) as listener:
        yield listener


@contextmanager
def embedding_progress() -> Iterator[Callable[[int, int], None]]:
    """Progress of texts being embedded."""
    with progress() as bar:
        yield lambda done, total: bar("embedding texts", done, total)


CLEAR = "\x1b[H\x1b[2J"


def clear_screen(scroll: int = 0) -> None:
    """Empty the terminal of standard error, after line feeds that scroll what stands on it away, so that it is kept."""
    if os.environ.get("TERM", "dumb") != "dumb":
        write_own("\n" * scroll + CLEAR, err=True)


def cut(text: str, columns: int) -> str:
    """A text in one line of at most so many columns, its end replaced by `...`; wide characters take two columns."""
    from rich.cells import cell_len, set_cell_size

    flat = one_line(" ".join(text.split()))
    return flat if cell_len(flat) <= columns else f"{set_cell_size(flat, max(columns - 3, 0)).rstrip()}..."


def wrapped(text: str, columns: int) -> list[str]:
    """The lines of a text, broken at blanks to have at most so many columns; an empty text is an empty line."""
    from rich.console import Console
    from rich.text import Text

    console = Console(width=columns)
    lines = (Text(one_line(line.expandtabs(4))) for line in text.splitlines() or [""])
    return [part.plain.rstrip() for line in lines for part in line.wrap(console, columns)]


CONTROL_C, END = "\x03", "\x04"


def refuse_closed() -> None:
    """Refuse to ask where there is no terminal, before anything is written.

    Raises:
        StorageError: standard input is closed.
    """
    if sys.stdin is None:
        raise StorageError("standard input is closed, and answers are read from it; leave it open, or pipe keys in")


class Keys:
    """Reads single keys where standard input is a terminal; elsewhere lines, whose characters are the keys.

    Use it as a context: a terminal is given back as it was at the end.

    A line `/pull request` is the key `/` and then the text `pull request`; an empty line is the key Enter.

    Attributes:
        terminal: whether keys are pressed on a terminal.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdin
        self.terminal = self._stream.isatty()
        self._buffer = ""
        self._ahead = b""  # what a terminal sent after a line of text
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if self.terminal and sys.platform != "win32":
            import termios

            self._before = termios.tcgetattr(self._stream.fileno())
            self._single(on=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._single(on=False)
        self._before = None

    def _single(self, *, on: bool) -> None:
        """Take keys as they are pressed, without showing them, or lines, as terminals do."""
        if self._before is None or sys.platform == "win32":
            return
        import termios
        import tty

        handle = self._stream.fileno()
        if on:
            tty.setcbreak(handle, termios.TCSADRAIN)  # what was typed ahead stays
        else:
            termios.tcsetattr(handle, termios.TCSADRAIN, self._before)

    def key(self) -> str:
        """The next key, in lower case; Enter is a line feed.

        Raises:
            EOFError: there is none.
            KeyboardInterrupt: Ctrl-C.
        """
        if self._buffer:
            key, self._buffer = self._buffer[0], self._buffer[1:]
        elif self.terminal:
            key = self._pressed()
        else:
            if not (line := self._stream.readline()):
                raise EOFError
            text = line.strip()
            key, self._buffer = text[:1] or "\n", text[1:]
        if key == CONTROL_C:
            raise KeyboardInterrupt
        if key == END:
            raise EOFError
        return "\n" if key == "\r" else key.lower()

    def text(self, prompt: str) -> str:
        """A line of text; what is left of a piped line comes first.

        Raises:
            EOFError: there is none.
        """
        if self._buffer:
            text, self._buffer = self._buffer, ""
            return text.strip()
        say(prompt, err=True, end="")
        self._single(on=False)
        try:
            line = self._line()
        finally:
            self._single(on=True)
        if not line:
            raise EOFError
        return line.strip()

    def _line(self) -> str:
        """A line with its end; empty where there is none. Keys pressed after it on a terminal stay keys."""
        if not self.terminal or sys.platform == "win32":
            return self._stream.readline()
        line, end, self._ahead = self._ahead.partition(b"\n")
        while not end and (data := os.read(self._stream.fileno(), 4096)):
            chunk, end, self._ahead = data.partition(b"\n")
            line += chunk
        return (line + end).decode("utf-8", errors="replace")

    def back(self, key: str) -> None:
        """Put a key back: it is the next one."""
        self._buffer = key + self._buffer

    def drop(self) -> None:
        """Forget what is left of a line: the key before it was not understood."""
        self._buffer = ""

    def _pressed(self) -> str:
        if sys.platform == "win32":
            import msvcrt

            return msvcrt.getwch()
        data = self._read(1)
        if data == b"\x1b":  # an arrow or function key sends three bytes or more: one key that means nothing
            data += self._rest()
        elif data and data[0] >= 0xC0:  # the first byte of a character of several
            data += self._read(2 if data[0] >= 0xE0 else 1)
        if not data:
            raise EOFError
        return data.decode("utf-8", errors="replace")[:1]

    def _rest(self) -> bytes:
        """What a terminal sent with an escape: up to the letter or tilde that ends it."""
        import select

        sent = b""
        while self._ahead or select.select([self._stream], [], [], 0.02)[0]:
            sent += self._read(1)
            if (sent[-1:].isalpha() and sent[-1:] != b"O") or sent[-1:] in (b"~", b""):
                break
        return sent

    def _read(self, n: int) -> bytes:
        """At most `n` bytes of a terminal, at least one unless it is closed."""
        if not self._ahead:
            return os.read(self._stream.fileno(), n)
        data, self._ahead = self._ahead[:n], self._ahead[n:]
        return data


_SIGNALS = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP
_caught: list[int] = []


def catch_signals() -> None:
    """Handle SIGTERM and SIGHUP as Ctrl-C from now on, unless they are ignored (as by `nohup`) or already handled."""
    for name in _SIGNALS:
        if (number := getattr(signal, name, None)) is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _interrupt)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_restore_signals)


def exit_code() -> int:
    """The exit code of a stopped command: 128 plus the number of the signal; 130 for Ctrl-C."""
    return 128 + (_caught[0] if _caught else signal.SIGINT)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C would do; if that is ignored, as in a background job, raise `KeyboardInterrupt`."""
    _caught.append(number)
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(number, frame)
    raise KeyboardInterrupt


def _restore_signals() -> None:
    """Restore the default in a forked child, which its parent expects to end by the signal."""
    for name in _SIGNALS:
        if (number := getattr(signal, name, None)) is not None and signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_DFL)
