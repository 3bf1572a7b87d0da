"""Mutants of data files: fields and rows that are changed, and bytes that are damaged. Seeded by the caller."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Node = tuple[Any, Any]

LARGE = "9" * 400
REPLACEMENTS: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: True,
    lambda: 0,
    lambda: -1.5,
    lambda: 10**18,
    lambda: int(LARGE),
    lambda: float("inf"),
    lambda: float("nan"),
    lambda: "",
    lambda: "   ",
    lambda: "text",
    lambda: "\ud800 alone",
    lambda: "\x00\x1b[31m",
    lambda: "word " * 4000,
    lambda: "{not json",
    lambda: '{"role": ["user"]}',
    lambda: "2026-13-45T99:99:99Z",
    list,
    lambda: [None],
    lambda: [[], {}, 1, "x"],
    dict,
    lambda: {"": None},
    lambda: {"type": 1, "content": {"text": []}},
    lambda: nested(40),
    lambda: nested(300),
)


def nested(depth: int) -> Any:
    """A list in lists."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def mutate(content: bytes, name: str, draw: random.Random) -> bytes:
    """A mutant of a file.

    Args:
        content: the file.
        name: its name; by its end JSON, lines of JSON and tables are changed as such, others only as bytes.
        draw: decides what is changed.
    """
    suffix = name.rpartition(".")[2]
    if suffix in STRUCTURED and draw.random() < 0.7:
        content = STRUCTURED[suffix](content.decode(), draw).encode("utf-8", "surrogatepass")
        if draw.random() < 0.8:
            return content
    return draw.choice(DAMAGES)(content, draw)


def _mutate_json(text: str, draw: random.Random) -> str:
    if text[:1] == "{" and "\n{" in text:
        return _mutate_lines(text, draw)
    return _dumped(_changed([json.loads(text)], draw)[0], draw.choice((None, 1)))


def _mutate_lines(text: str, draw: random.Random) -> str:
    rows = _changed([json.loads(line) for line in text.splitlines() if line.strip()], draw)
    lines = [_dumped(row, None) for row in rows]
    if draw.random() < 0.1:
        draw.shuffle(lines)
    return "\n".join(lines) + draw.choice(("\n", ""))


def _mutate_table(text: str, draw: random.Random) -> str:
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    for _ in range(draw.randint(1, 3)):
        row = draw.choice(rows)
        column = draw.randrange(len(row)) if row else 0
        action = draw.randrange(5)
        if action == 0 and row:
            del row[column]
        elif action == 1:
            rows.append(list(row))
        elif row:
            _replace(row, column, [], draw)
            row[column] = row[column] if isinstance(row[column], str) else _dumped(row[column], None)
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n", escapechar="\\").writerows(rows)
    return out.getvalue()


STRUCTURED: dict[str, Callable[[str, random.Random], str]] = {
    "json": _mutate_json,
    "jsonl": _mutate_lines,
    "csv": _mutate_table,
    "tsv": _mutate_table,
}


def _dumped(value: Any, indent: int | None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False)


def _nodes(value: Any) -> Iterator[Node]:
    """Each member of each object and list, with its key or index."""
    stack = [value]
    while stack:
        parent = stack.pop()
        keys = list(parent) if isinstance(parent, dict) else range(len(parent))
        for key in keys:
            yield parent, key
            if isinstance(parent[key], dict | list):
                stack.append(parent[key])


def _changed(rows: list[Any], draw: random.Random) -> list[Any]:
    """Rows of which one to four members are changed; also such that stand as JSON in a text."""
    for _ in range(draw.randint(1, 4)):
        nodes = list(_nodes(rows))
        if not nodes:
            break
        parent, key = draw.choice(nodes)
        draw.choice(CHANGES)(parent, key, nodes, draw)
        rows = rows or [{}]
    return rows


def _drop(parent: Any, key: Any, nodes: list[Node], draw: random.Random) -> None:
    del parent[key]


def _replace(parent: Any, key: Any, nodes: list[Node], draw: random.Random) -> None:
    value = parent[key]
    if isinstance(value, str) and value[:1] in ("{", "[") and draw.random() < 0.7:
        try:
            inner = _changed([json.loads(value)], draw)
        except ValueError:
            return
        parent[key] = _dumped(inner[0], None)
    else:
        parent[key] = draw.choice(REPLACEMENTS)()


def _repeat(parent: Any, key: Any, nodes: list[Node], draw: random.Random) -> None:
    if isinstance(parent, list):
        parent.insert(key, parent[key])
    else:
        parent[f"{key}.0.{key}"] = parent[key]


def _wrap(parent: Any, key: Any, nodes: list[Node], draw: random.Random) -> None:
    parent[key] = draw.choice(([parent[key]], {"value": parent[key]}, {str(key): parent[key]}))


def _rename(parent: Any, key: Any, nodes: list[Node], draw: random.Random) -> None:
    if isinstance(parent, dict):
        parent[draw.choice(("id", "type", "role", "content", "input", "name", ""))] = parent.pop(key)


def _copy(parent: Any, key: Any, nodes: list[Node], draw: random.Random) -> None:
    """A value of another member; by a copy, as JSON has no cycles."""
    source, source_key = draw.choice(nodes)
    if isinstance(source, dict):
        present = source_key in source
    else:
        present = isinstance(source_key, int) and source_key < len(source)
    if present:
        parent[key] = deepcopy(source[source_key])


CHANGES = (_drop, _replace, _replace, _replace, _repeat, _wrap, _rename, _copy)


def _cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _swap(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.randint(1, 20)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed)


def _remove(content: bytes, draw: random.Random) -> bytes:
    first = draw.randrange(len(content))
    return content[:first] + content[first + draw.randint(1, 200) :]


def _insert(content: bytes, draw: random.Random) -> bytes:
    parts = (
        b"\0",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\n",
        b"{",
        b"]",
        b'"',
        b"\\u",
        b"1e999",
        b"9" * 5000,
        b"[" * 3000,
        b"\xef\xbb\xbf",
    )
    position = draw.randrange(len(content))
    return content[:position] + draw.choice(parts) + content[position:]


def _double(content: bytes, draw: random.Random) -> bytes:
    return content + draw.choice((b"", b"\n", b"---\n")) + content


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _cut,
    _cut,
    _swap,
    _swap,
    _remove,
    _insert,
    _insert,
    _double,
    lambda content, draw: draw.choice((b"", b"\n", b"{}", b"[]", b"null", b"[{}]", b'"text"', b"1", b"---\n")),
    lambda content, draw: gzip.compress(content, mtime=0),
    lambda content, draw: gzip.compress(content, mtime=0)[: draw.randint(2, 60)],
    lambda content, draw: content.decode("utf-8", "replace").encode("utf-16"),
    lambda content, draw: content.replace(b"\n", b"\r\n"),
    lambda content, draw: content.replace(b'"', b"'"),
)
