"""Texts of others, fit to be printed: they give no orders to a terminal, and none to a runner of workflows.

What would move a cursor, turn a line around or hide stands as U+FFFD. `ctxbench.io.console` passes all that is printed
through here.

Sources: for the signs that turn text around Unicode's UAX #9; for commands "Workflow commands for GitHub Actions" and
actions/runner, src/Runner.Common/ActionCommand.cs: a line that begins with `::` behind blanks, and `##[` anywhere in a
line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MARK = "\ufffd"
STYLE = r"\x1b\[[0-9;]*m"  # a colour or weight, as our own tables have them

_SEPARATORS = "\t\n"
# Control characters, signs of direction, line ends of Unicode, half characters, and what has no width. Joiners stay:
# emoji, Persian and Indic scripts are written with them.
_OTHERS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f"
)
_HIDDEN = re.compile(f"[{_OTHERS}]")
_HIDDEN_OR_BREAK = re.compile(f"[{_SEPARATORS}{_OTHERS}]")
_ENDS = "\r\v\f\x1c-\x1e\x85\u2028\u2029"  # of lines, beside the line feed
_COMMAND = re.compile(rf"((?:^|(?<=[{_ENDS}]))(?:[^\S\n{_ENDS}]|{STYLE})*:)(?=:)|##(?=\[)", re.MULTILINE)
_QUOTE = "  | "


def visible(text: str) -> str:
    """A text of several lines: U+FFFD for all that a terminal would obey or hide; tabs and line feeds stay."""
    return _HIDDEN.sub(MARK, text)


def one_line(text: str) -> str:
    """A text for use inside a line: as `visible`, and U+FFFD for tabs and line feeds, too."""
    return _HIDDEN_OR_BREAK.sub(MARK, text)


def quoted(text: str) -> list[str]:
    """A text of several lines as lines of which all but the first are marked, so that none looks like one of ours."""
    first, *rest = text.replace("\r\n", "\n").split("\n")
    return [first, *(f"{_QUOTE}{line}" for line in rest)]


def message_lines(message: str) -> list[str]:
    """The lines of a message, all but the first indented, so that none looks like a message of its own."""
    first, *rest = message.split("\n")
    return [first, *(line if line.startswith("  ") else f"  {line}" for line in rest)]


def joined(lines: Iterable[str]) -> str:
    """Lines as one text, without a line feed at its end: each is one line, whatever it holds, and no command."""
    return harmless("\n".join(map(one_line, lines)))


def harmless(text: str) -> str:
    """The text with a blank inside of every sign of a command, so that it is none; lines stay as they are."""
    return _COMMAND.sub(r"\g<0> ", text)


def visible_json(document: str) -> str:
    """The JSON document with what is not visible, and the sign of a command, as escapes: it says the same.

    Its lines begin with no colon.
    """
    return _HIDDEN.sub(_escape, document).replace("##[", "#\\u0023[")


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[start]:02x}{units[start + 1]:02x}" for start in range(0, len(units), 2))


def count(n: int, singular: str, plural: str = "") -> str:
    """A number of things in words: `1 query`, `1,053 queries`."""
    return f"{n:,} {singular if n == 1 else plural or f'{singular}s'}"
