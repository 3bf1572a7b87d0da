"""The one door to standard output and standard error: what others wrote passes it as `ctxbench.io.visible` says.

Lines go through `say`, texts of several through `show_text`, tables through `show_tables`, JSON through `show_json`;
control characters and commands that are ours through `write_own`. `guarded` makes the streams themselves such a door,
for what libraries, code of others and Python itself write. No other module writes to a stream
(`tests/io/test_console.py` reads the source).
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import IO, TYPE_CHECKING, Any, cast

from ctxbench.io.visible import STYLE, harmless, joined, visible, visible_json

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
        """Write texts one behind the other."""
        self.write("".join(lines))

    def write_own(self, text: str) -> None:
        """Write what is ours, as it stands."""
        line = re.split("[\r\n]", self._tail + text)[-1]
        self._tail = line if _OPEN.fullmatch(line) else f".{line[-2:]}"  # a full stop: no line begins here
        self._stream.write(text)


@contextmanager
def guarded(*, for_good: bool = False) -> Iterator[None]:
    """Inside, what is written to `sys.stdout` and `sys.stderr` is guarded, whoever writes it. May be nested.

    Args:
        for_good: also afterwards: the process ends, and Python may have an exception to tell.
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
        lines: what is said.
        err: on standard error: for the person, not for a program.
        end: what follows the last line.

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    if lines:
        _write(joined(lines) + end, err=err)


def show_text(text: str) -> None:
    """Print a text of several lines on standard output, with no line end that it has not, but for a terminal.

    It is as it stands, but for what a terminal or a runner of workflows would obey.

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    _write(text if text.endswith("\n") or not is_terminal() else f"{text}\n", err=False)


def show_json(document: str) -> None:
    """Print a JSON document on standard output, as it stands or with escapes that say the same.

    What standard output cannot hold is escaped, and so is what a terminal or a runner of workflows would obey.

    Raises:
        BrokenPipeError: nobody reads any more.
    """
    try:
        document.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        document = json.dumps(json.loads(document), indent=2) + "\n"
    _write(visible_json(document), err=False)


def write_own(text: str, *, err: bool = False) -> None:
    """Print what is ours with the control characters and commands in it; what others wrote in it is made fit before.

    Raises:
        BrokenPipeError: nobody reads any more.
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
        made: makes the parts for a console.
        file: standard output if None.
        width: columns; None asks the terminal (80 where there is none).

    Raises:
        BrokenPipeError: nobody reads any more.
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
            for segment in super().render(*arguments, **options):
                yield segment if segment.control else Segment(visible(segment.text), segment.style)

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
        BrokenPipeError: nobody reads any more.
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
