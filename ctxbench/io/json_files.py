"""Reading JSON and JSON lines with faults by file, line and column, and writing them.

What is read holds no NaN, no infinity and no key twice.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ctxbench.core.errors import Fault, InputError
from ctxbench.io.files import iter_lines, read_text
from ctxbench.io.merge_conflicts import MERGED, conflicts, without_marks

_DEEP = "JSON is nested too deeply"
_MARGIN = 200  # columns that an entry of a list may stand to the right, for faults that say where
_BETWEEN = re.compile(r"[ \t\r\n,:]*")  # what separates values


def iter_jsonl(path: Path | str, faults: list[Fault]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (1-based line number, row) of a file with one JSON object a line; what `iter_records` takes for one.

    A line that is not UTF-8, not JSON or no object is added to `faults` and passed over, so that one pass finds
    all of them: look at `faults` when the iterator is at its end.

    Raises:
        StorageError: the file is missing or cannot be read.
    """
    for number, text in iter_records(path, faults):
        try:
            row = parse_json(text, path=path, line=number)
        except InputError as error:
            faults.extend(error.faults)
            continue
        if isinstance(row, dict):
            yield number, row
        else:
            faults.append(Fault(f"expected a JSON object {{...}} on each line, got {_kind(row)}", path, number, 1))


def iter_records(path: Path | str, faults: list[Fault]) -> Iterator[tuple[int, str]]:
    """Yield (1-based line number, text) of every record of a file that should hold one a line; blank lines are not.

    A file that is one JSON list, or holds values that are spread over lines, gives the text of each entry or value with
    the line that it starts in. One that starts so and is malformed gives nothing, and is one fault. An empty file
    yields nothing.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is compressed, so that it has no lines.
    """
    before = len(faults)
    lines = ((line, text) for line, text in without_marks(iter_lines(path, faults), path, faults) if text.strip())
    first = next(lines, None)
    if first is None:
        return
    if first[1].strip() != "{" and not first[1].lstrip().startswith("["):
        yield first
        yield from lines
        return
    numbered = [first, *lines]
    parts, line = [], 1
    for number, value in numbered:
        parts.append("\n" * (number - line) + value)
        line = number
    text = "".join(parts)
    try:
        records = list(_spread_records(text))
    except (ValueError, RecursionError) as error:
        if _is_one_a_line(numbered):
            yield from numbered
        elif len(faults) == before:  # else lines are missing, which is said
            faults.append(_spread_fault(text, error, path))
        return
    yield from records


def is_lines(path: Path | str) -> bool:
    """Whether a file that is no JSON document holds JSON objects one after the other; False where it is malformed.

    Raises:
        StorageError: the file is missing or cannot be read.
    """
    first = next((text for _, text in iter_records(path, [])), "")
    return first.lstrip().startswith("{") and _is_json(first)


def _spread_records(text: str) -> Iterator[tuple[int, str]]:
    """The line and the text of each value, and of each entry of a list that holds objects.

    Raises:
        ValueError: something is no JSON value.
    """
    decoder = json.JSONDecoder()
    line, counted = 1, 0
    position = _after_blanks(text, 0)
    while position < len(text):
        value, end = decoder.raw_decode(text, position)
        entries = [(position, end)]
        if isinstance(value, list) and (not value or any(isinstance(entry, dict) for entry in value)):
            entries, inner = [], position + 1
            for _ in value:
                start = _after_blanks(text, inner)
                _, inner = decoder.raw_decode(text, start)
                entries.append((start, inner))
        for start, stop in entries:
            line, counted = line + text.count("\n", counted, start), start
            margin = start - (text.rfind("\n", max(start - _MARGIN, 0), start) + 1)
            yield line, " " * (margin if margin < _MARGIN else 0) + text[start:stop]
        position = _after_blanks(text, end)


def _after_blanks(text: str, position: int) -> int:
    between = _BETWEEN.match(text, position)
    return position if between is None else between.end()


def _is_one_a_line(numbered: Sequence[tuple[int, str]]) -> bool:
    """Whether a file that starts as JSON spread over lines does not go on so: its first line is one record."""
    return _is_json(numbered[0][1]) or (
        len(numbered) > 1 and numbered[1][1].lstrip().startswith("{") and numbered[0][1].strip() == "{"
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _spread_fault(text: str, error: Exception, path: Path | str) -> Fault:
    """What is wrong with JSON that is spread over lines."""
    if not isinstance(error, json.JSONDecodeError):
        return Fault(f"malformed JSON: {error}" if isinstance(error, ValueError) else _DEEP, path)
    return Fault(_malformed(text, error), path, error.lineno, error.colno)


def read_json(path: Path | str) -> Any:
    """Read one JSON document.

    Raises:
        StorageError: the file is missing or cannot be read.
        InputError: it is not UTF-8 or not JSON (line and column), or an object has a key twice (all of them).
    """
    return parse_json(read_text(path), path=path)


def parse_json(text: str, *, path: Path | str | None = None, line: int = 1) -> Any:
    """Parse one JSON document.

    Args:
        text: the document.
        path: named in faults.
        line: the 1-based line of the file at which the text starts.

    Raises:
        InputError: not JSON, NaN or an infinite number, or an object has a key twice (all of them).
    """
    twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        row = dict(items)
        if len(row) != len(items):
            twice.append("")
        return row

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=_no_constant, parse_float=finite)
    except json.JSONDecodeError as error:
        if conflict_lines := conflicts(text):
            raise InputError([Fault(MERGED, path, line + number - 1) for number in conflict_lines]) from error
        message = "the file is empty; expected JSON" if not text.strip() else _malformed(text, error)
        raise InputError([Fault(message, path, line + error.lineno - 1, error.colno)]) from error
    except RecursionError as error:
        raise InputError([Fault(_DEEP, path, line)]) from error
    except _NotFiniteError as error:
        starts = [start for start, word in _words(text) if word == error.number]
        where = place_of(text, starts[0] if starts else 0, line)
        raise InputError([Fault(f"{error.number} is no JSON number; expected a finite one", path, *where)]) from error
    except ValueError as error:  # an integer of more than 4,300 digits
        raise InputError([Fault(f"malformed JSON: {error}", path, line)]) from error
    if twice:
        raise InputError(
            [
                Fault(f"key {key!r} stands twice in one object", path, *place_of(text, start, line))
                for start, key in _duplicate_keys(text)
            ]
        )
    return value


def values_with_lines(text: str, position: int = 0, *, end: str = "") -> Iterator[tuple[int, Any]]:
    """Yield JSON values that follow each other, with blanks, commas and colons between, each with its 1-based line.

    Args:
        text: holds the values.
        position: where they begin.
        end: characters of which any ends the values; the end of the text does in any case.

    Raises:
        ValueError: something is no JSON value; after all values before it.
    """
    decoder = json.JSONDecoder()
    line, counted = 1, 0
    while True:
        between = _BETWEEN.match(text, position)
        position = position if between is None else between.end()
        if text[position : position + 1] in {"", *end}:
            return
        line, counted = line + text.count("\n", counted, position), position
        value, position = decoder.raw_decode(text, position)
        yield line, value


def _malformed(text: str, error: json.JSONDecodeError) -> str:
    """What is wrong with JSON; a string that does not end goes on to the end of the text."""
    cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    return f"malformed JSON: it ends too early, as if cut off ({error.msg})" if cut else f"malformed JSON: {error.msg}"


def dump_json(value: Any, *, indent: int | None = None) -> str:
    """Write JSON: compact on one line, or indented with a line end; keys in their order, text readable.

    Lone surrogates, which UTF-8 cannot hold, are escaped (with all other non-ASCII text of that value).

    Raises:
        ValueError: a number is NaN or infinite.
    """
    text = _encoder(indent, ascii_only=False).encode(value)
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            text = _encoder(indent, ascii_only=True).encode(value)
    return text + "\n" if indent else text


@cache  # making one takes longer than writing a short row
def _encoder(indent: int | None, *, ascii_only: bool) -> json.JSONEncoder:
    separators = (",", ": ") if indent else (",", ":")
    return json.JSONEncoder(ensure_ascii=ascii_only, allow_nan=False, indent=indent, separators=separators)


def dump_jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    """Write one JSON object a line; no rows give an empty text."""
    return "".join(f"{dump_json(row)}\n" for row in rows)


def _kind(value: object) -> str:
    """What a JSON value is called in a message."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number",
             float: "a number", type(None): "null"}  # fmt: skip
    return names.get(type(value), type(value).__name__)


class _NotFiniteError(ValueError):
    def __init__(self, number: str) -> None:
        self.number = number
        super().__init__(number)


def _no_constant(number: str) -> float:
    raise _NotFiniteError(number)


def finite(number: str) -> float:
    """The number that a text tells.

    Raises:
        ValueError: it is infinite, or the text tells none.
    """
    value = float(number)
    if math.isinf(value):
        raise _NotFiniteError(number)
    return value


def place_of(text: str, offset: int, first_line: int) -> tuple[int, int]:
    """The 1-based (line, column) of an offset."""
    before = text[:offset]
    return first_line + before.count("\n"), offset - (before.rfind("\n") + 1) + 1


def _words(text: str) -> Iterator[tuple[int, str]]:
    """The words of valid JSON (or of JSON with NaN) with their offsets; blanks, commas and colons left out."""
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[\[\]{}:]|[^\s,:\[\]{}"]+', text, re.DOTALL):
        yield match.start(), match.group()


def _duplicate_keys(text: str) -> Iterator[tuple[int, str]]:
    """Offset and name of each key that its object has already."""
    open_objects: list[set[str]] = []
    last = (0, "")
    for start, word in _words(text):
        if word in "[{":
            open_objects.append(set())
        elif word in "]}":
            open_objects.pop()
        elif word == ":":
            key = json.loads(last[1])
            if key in open_objects[-1]:
                yield last[0], key
            open_objects[-1].add(key)
        last = (start, word)
