"""Keys: one at a time from a terminal, a line at a time from anything else."""

from __future__ import annotations

import sys
from typing import Any, Self, TextIO

from ctxbench.core.errors import StorageError
from ctxbench.io.console import say

CONTROL_C, END = "\x03", "\x04"


def refuse_closed() -> None:
    """Refuse to ask where nobody can answer, before anything is written.

    Raises:
        StorageError: standard input is closed.
    """
    if sys.stdin is None:
        raise StorageError("standard input is closed, and answers are read from it; leave it open, or pipe keys in")


class Keys:
    """Reads single keys where standard input is a terminal; elsewhere lines, whose characters are the keys.

    Use it as a context: a terminal is given back as it was at the end.

    A line `/pull request` is the key `/` and then the text `pull request`; an empty line is the key Enter.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdin
        self._terminal = self._stream.isatty()
        self._buffer = ""
        self._ahead = b""  # what a terminal sent behind a line of text
        self._before: list[Any] | None = None

    def __enter__(self) -> Self:
        if self._terminal and sys.platform != "win32":
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
        elif self._terminal:
            key = self._pressed()
        else:
            line = self._stream.readline()
            if not line:
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
        """A line with its end; empty where there is none. Keys pressed behind it on a terminal stay keys."""
        if not self._terminal or sys.platform == "win32":
            return self._stream.readline()
        import os

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
        import os

        if not self._ahead:
            return os.read(self._stream.fileno(), n)
        data, self._ahead = self._ahead[:n], self._ahead[n:]
        return data
