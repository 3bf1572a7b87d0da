"""What must not leave a configuration: values of `env` and headers, taken out of every text that is kept."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from ctxbench.jsonio import dump_json

HIDDEN = "<hidden>"
_IN_ERRORS = 4  # characters from which a value is hidden anywhere in an error; a shorter one only as a whole word
_IN_TOOLS = 6  # from which it is hidden in tool definitions; a shorter one stands there by chance
_LONG_SEGMENT = 16  # characters of a part of a URL's path that looks like a key
_FLAG = re.compile(
    r"--?[\w-]*(?:key|token|secret|password|passwd|auth|credential|header)[\w-]*(=(?P<value>.*))?", re.IGNORECASE
)


class Secrets:
    """Values that are replaced by `<hidden>` wherever they turn up, also as JSON or a URL would write them."""

    def __init__(self, values: Iterable[str]) -> None:
        found: set[str] = set()
        for value in values:
            for one in {value, *value.splitlines(), *value.split()}:
                found |= {one, one.strip(), quote(one), quote(one, safe=""), dump_json(one)[1:-1], repr(one)[1:-1]}
        found.discard("")
        self._long = _pattern((value for value in found if len(value) >= _IN_TOOLS), "")
        middle = _pattern((value for value in found if len(value) >= _IN_ERRORS), "")
        short = _pattern((value for value in found if len(value) < _IN_ERRORS), r"(?<![^\W_]){}(?![^\W_])")
        self._errors = [pattern for pattern in (middle, short) if pattern is not None]

    def hide(self, text: str) -> str:
        """The text of an error without them."""
        for pattern in self._errors:
            text = pattern.sub(HIDDEN, text)
        return text

    def hide_in(self, value: Any) -> Any:
        """A JSON value with the longer ones (6 characters and more) hidden in its texts and keys."""
        if self._long is None:
            return value
        if isinstance(value, str):
            return self._long.sub(HIDDEN, value)
        if isinstance(value, list):
            return [self.hide_in(entry) for entry in value]
        if isinstance(value, dict):
            return {self.hide_in(key): self.hide_in(entry) for key, entry in value.items()}
        return value


def in_arguments(arguments: Iterable[str]) -> set[str]:
    """What looks like a secret among a command's arguments: the values of `--token X` and `--api-key=X`."""
    found: set[str] = set()
    takes_next = False
    for argument in arguments:
        flag = _FLAG.fullmatch(argument)
        if takes_next and not argument.startswith("-"):
            found.add(argument)
        takes_next = flag is not None and flag["value"] is None
        if flag is not None and flag["value"]:
            found.add(flag["value"])
    return found


def in_url(url: str) -> set[str]:
    """What may be a secret in a URL: user and password, values of its query, long parts of its path."""
    try:
        parts = urlsplit(url)
        user = (parts.username, parts.password)
    except ValueError:
        return {url}
    query = [pair.partition("=")[2] for pair in parts.query.split("&")]
    long = [segment for segment in parts.path.split("/") if len(segment) >= _LONG_SEGMENT]
    found = {value for value in (*user, *query, *long, parts.fragment) if value}
    return found | {unquote(value) for value in found}


def _pattern(values: Iterable[str], around: str) -> re.Pattern[str] | None:
    """One pattern for all values, the longest first so that none is hidden in half."""
    ordered = sorted(values, key=lambda value: (-len(value), value))
    if not ordered:
        return None
    either = "(?:" + "|".join(re.escape(value) for value in ordered) + ")"
    return re.compile(around.replace("{}", either) if around else either)
