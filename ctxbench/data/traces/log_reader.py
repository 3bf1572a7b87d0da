"""Reading log files: which documents they hold, whether each is a turn or spans, and what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

from ctxbench.core.errors import Fault, InputError, StorageError
from ctxbench.data.traces.bodies import as_turn
from ctxbench.data.traces.otlp import SAID, holds_spans, read_spans
from ctxbench.data.traces.records import Record, Shared, Tally
from ctxbench.data.traces.spans import SpanReader
from ctxbench.data.traces.turn_rows import TURN_FIELDS, TurnReader
from ctxbench.io.files import iter_lines, read_text, readable
from ctxbench.io.json_files import parse_json

Notify: TypeAlias = Callable[[str, int, int], None]
"""Called with what is done, how much of it is done, and how much there is."""

_WHOLE = ("{", "[", "[{")  # first lines of JSON that is spread over lines; JSON lines end theirs


def silent(_text: str, _done: int, _total: int) -> None:
    """Say nothing."""


def read_records(paths: Sequence[Path], tally: Tally, *, history: int, notify: Notify = silent) -> list[Record]:
    """Read the records of log files, in the order of the files and their lines; those of spans come last.

    A line that stands there again is counted and left out. What cannot be read is in `tally.faults`.

    Args:
        paths: JSON lines of turns, OTLP/JSON or spans, in any mixture.
        tally: takes counts and faults.
        history: how many earlier messages a record keeps at most.
        notify: told how many bytes are read.

    Raises:
        StorageError: a file is missing or cannot be read.
        InputError: more lines are wrong than right: all faults.
    """
    total = sum(_size(path) for path in paths)
    shared = Shared()
    turns, spans = TurnReader(tally, shared, history=history), SpanReader(tally, shared, history=history)
    records: list[Record] = []
    seen: set[bytes] = set()  # of lines, as hashes
    readable = place = done = 0
    for path in paths:
        for line, data, length in _documents(path, seen, tally):
            done += length
            notify("reading traces, bytes", done, total)
            place += 1
            if data is None:
                continue
            before = len(tally.faults)
            data = as_turn(data) or data
            if holds_spans(data):
                _take_spans(data, spans, place, tally, Fault("", path, line))
            elif any(name in data for name in SAID):
                record = turns.read(data, place, path, line)
                records += [] if record is None else [record]
            else:
                fields = ", ".join(map(repr, list(data)[:5]))
                what = f"neither a turn (an object with messages; fields: {', '.join(TURN_FIELDS)}) nor a span"
                tally.faults.append(Fault(f"{what}, but {fields or 'an empty object'}", path, line))
            readable += len(tally.faults) == before
    tally.counts["lines"] = place
    wrong = len({(fault.path, fault.line) for fault in tally.faults})
    tally.counts["lines_unreadable"] = wrong
    if tally.faults and wrong > readable:
        raise InputError(together(tally.faults), subject=f"traces: {wrong} lines cannot be read, {readable} can")
    records += spans.records()
    return records


def together(faults: Sequence[Fault]) -> list[Fault]:
    """Faults with those of equal words as one, at the first place, with how many more lines have it."""
    same: dict[tuple[str, Path | str | None], list[Fault]] = {}
    for fault in faults:
        same.setdefault((fault.message, fault.path), []).append(fault)
    return [
        replace(first, message=f"{first.message}; so are {len(more):,} more lines" if more else first.message)
        for first, *more in same.values()
    ]


def _take_spans(data: dict[str, Any], reader: SpanReader, place: int, tally: Tally, at: Fault) -> None:
    try:
        for span in read_spans(data):
            try:
                reader.add(span, place)
            except (TypeError, ValueError, AttributeError, RecursionError):
                what = f"span {span.id or span.name!r}: messages or tools are not as the GenAI conventions have them"
                tally.faults.append(Fault(what, at.path, at.line))
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError):
        tally.faults.append(Fault("no span as OTLP/JSON or the SDKs write it", at.path, at.line))


def _documents(path: Path, seen: set[bytes], tally: Tally) -> Iterator[tuple[int, dict[str, Any] | None, int]]:
    """(line, object, length) of each document of a file; None for what only moves progress on."""
    path = readable(path, again=True)
    first = next((text for _, text in iter_lines(path, []) if text.strip()), "")
    if first.strip() in _WHOLE or first.lstrip().startswith("["):
        found = _whole(path)
        if found is not None:
            for line, data in found:
                yield line, data, 0
            return
    for line, text in iter_lines(path, tally.faults):
        plain = text.strip()
        if not plain:
            continue
        digest = blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if digest in seen:
            tally.counts["lines_twice"] += 1
            yield line, None, len(text)
            continue
        seen.add(digest)
        yield line, _object(plain, path, line, tally), len(text)


def _object(text: str, path: Path, line: int, tally: Tally) -> dict[str, Any] | None:
    """The JSON object of a line; anything else is a fault."""
    try:
        value = parse_json(text, path=path, line=line)
    except InputError as error:
        tally.faults += error.faults
        return None
    if isinstance(value, dict):
        return value
    tally.faults.append(Fault("expected a JSON object on each line", path, line))
    return None


def _whole(path: Path) -> list[tuple[int, dict[str, Any]]] | None:
    """The objects of a file whose JSON is spread over lines, one after the other or in a list; None if it is none."""
    text = read_text(path)
    decoder = json.JSONDecoder()
    out: list[tuple[int, dict[str, Any]]] = []
    position, line, counted = 0, 1, 0
    while True:
        while text[position : position + 1] and text[position] in " \t\r\n,":
            position += 1
        if position >= len(text):
            return out
        line, counted = line + text.count("\n", counted, position), position
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return None
        for entry in value if isinstance(value, list) else [value]:
            if not isinstance(entry, dict):
                return None
            out.append((line, entry))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}; expected a log file") from error
