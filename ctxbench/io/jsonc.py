"""JSON as people write it by hand: with comments and trailing commas; and the lines of its entries, for faults."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ctxbench.io.files import read_text
from ctxbench.io.json_files import parse_json
from ctxbench.io.yaml_files import YamlPath

_TOKEN = re.compile(  # what is never closed goes to its end at once: looking on behind every mark would take for ever
    r'(?P<kept>"(?:[^"\\\n]|\\.)*"?)|//[^\n]*|/\*.*?\*/|(?P<open>/\*.*)', re.DOTALL
)
_TRAILING_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*"?)|,(?=\s*[\]}])')
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s,:\[\]{}"]+', re.DOTALL)


def read_jsonc(path: Path | str) -> tuple[Any, str]:
    """Read one JSON document that may hold `//` and `/* */` comments and trailing commas.

    Returns:
        The data, and its text as plain JSON of the same lines and columns (for `entry_lines`).

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is not UTF-8 or not JSON (line and column), or an object has a key twice.
    """
    text = plain_json(read_text(path))
    return parse_json(text, path=path), text


def plain_json(text: str) -> str:
    """Replace comments and trailing commas by blanks; every other character keeps its line and column."""
    without = _TOKEN.sub(lambda m: m["kept"] or m["open"] or re.sub(r"[^\n]", " ", m.group()), text)
    return _TRAILING_COMMA.sub(lambda m: m.group(1) or " ", without)


def entry_lines(text: str) -> dict[YamlPath, int]:
    """The 1-based line of every value of valid JSON by its path; that of an object's field is where its key stands.

    `lines["tools", 3]` is the line where the fourth entry of the list `tools` starts; `lines[()]` that of the whole.
    """
    breaks = [match.start() for match in re.finditer("\n", text)]
    return {path: bisect_right(breaks, start) + 1 for path, start in _values(text)}


def _values(text: str) -> Iterator[tuple[YamlPath, int]]:
    """(path, offset) of every value; a field's offset is that of its key."""
    path: list[str | int] = []
    objects: list[bool] = []  # for each open bracket, whether it is an object's
    key: str | None = None  # set between a key and its value
    for match in _WORD.finditer(text):
        word, start = match.group(), match.start()
        if word in ":,":
            continue
        if word in "]}":
            objects.pop()
            path.pop()
            key = None
            continue
        if objects and objects[-1] and key is None:
            key = str(parse_json(word))
            path[-1] = key
            yield tuple(path), start
            continue
        if objects and not objects[-1]:
            path[-1] = int(path[-1]) + 1
            yield tuple(path), start
        elif not objects:
            yield (), start
        key = None
        if word in "[{":
            objects.append(word == "{")
            path.append(-1)
