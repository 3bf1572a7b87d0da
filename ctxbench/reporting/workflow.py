"""Texts that a runner of workflows prints: what stands in ids and messages must not become one of its commands.

Source: "Workflow commands for GitHub Actions", and for both forms actions/runner, src/Runner.Common/ActionCommand.cs: a
line that begins with `::` behind blanks, and `##[` anywhere in a line.
"""

from __future__ import annotations

import re

_ENDS = "\r\v\f\x1c-\x1e\x85\u2028\u2029"  # of lines, beside the line feed
_COMMAND = re.compile(rf"(?:^|(?<=[{_ENDS}]))(\s*):(?=:)|#(?=#\[)", re.MULTILINE)


def harmless(text: str) -> str:
    """The text with a blank inside of every sign of a command, so that it is none; lines stay as they are."""
    return _COMMAND.sub(lambda found: "# " if found[0] == "#" else f"{found[1]}: ", text)


def harmless_json(text: str) -> str:
    """The JSON document with such signs written as escapes: it says the same. Lines of it begin with no colon."""
    return text.replace("##[", "#\\u0023[")
