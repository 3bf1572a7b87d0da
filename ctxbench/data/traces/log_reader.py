"""Read the records of log files, whose documents are turns, bodies of requests or spans, and their faults.

A turn is a row of JSON lines: one turn, or one model call, a line. A body of a request to OpenAI or Anthropic, alone or
with its response, becomes a turn. It is recognised by its fields: `tools` and `messages`, or an `input` (OpenAI's
responses). Its tools are what the model was offered. A line may be a body, or `{"request": body, "response": body}`,
each also inside a `body`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ctxbench.bench.progress_listener import Progress, silent
from ctxbench.core.errors import Fault, InputError, StorageError, merge_equal_faults
from ctxbench.data.importers.formats.eval_fields import is_eval
from ctxbench.data.traces.bodies import RESPONSES, BodyTurn, as_turn, unread_request, unread_responses
from ctxbench.data.traces.langfuse import holds_observations, read_observations
from ctxbench.data.traces.otlp import TURN_MARKS, Span, holds_spans, read_spans
from ctxbench.data.traces.records import Interner, LogFindings, Record
from ctxbench.data.traces.responses import holds_calls
from ctxbench.data.traces.spans import SpanReader
from ctxbench.data.traces.turn_rows import TURN_FIELDS, meant_field, read_turn
from ctxbench.io.files import readable
from ctxbench.io.json_files import iter_records, parse_json


def read_records(
    paths: Sequence[Path], findings: LogFindings, *, history: int, progress: Progress = silent
) -> list[Record]:
    """Read the records of log files, in the order of the files and their lines; those of spans come last.

    A line that stands there again is counted and left out. What cannot be read is in `findings.faults`.

    Args:
        paths: JSON lines of turns, OTLP/JSON or spans, in any mixture.
        findings: where counts and faults go.
        history: how many earlier messages a record keeps at most.
        progress: called with the bytes that are read, and all there are.

    Raises:
        StorageError: a file is missing or cannot be read.
        InputError: more lines are wrong than right: all faults.
    """
    total = sum(_size(path) for path in paths)
    reader = _DocumentReader(findings, history=history)
    line_hashes: set[bytes] = set()  # of lines, as hashes
    n_readable = position = done = 0
    for path in paths:
        for line, data, length in _documents(path, line_hashes, findings):
            done += length
            progress("reading traces, bytes", done, total)
            position += 1
            if data is not None:
                n_readable += reader.read(data, position, Fault("", path, line))
    n_wrong = position - n_readable - findings.counts["lines_twice"]
    findings.counts.update(lines=position, lines_unreadable=n_wrong)
    if findings.faults and n_wrong > n_readable:
        raise InputError(
            merge_equal_faults(findings.faults), subject=f"traces: {n_wrong} lines cannot be read, {n_readable} can"
        )
    return reader.records()


class _DocumentReader:
    """Reads documents one by one, each a turn, spans, or a fault."""

    def __init__(self, findings: LogFindings, *, history: int) -> None:
        self._findings = findings
        self._interner = Interner(history=history)
        self._spans = SpanReader(findings, self._interner)
        self._records: list[Record] = []

    def records(self) -> list[Record]:
        """All records read, spans last."""
        return [*self._records, *self._spans.records()]

    def read(self, data: dict[str, Any], position: int, at: Fault) -> bool:
        """Read one document; adds its faults.

        Args:
            data: the document.
            position: its 1-based position in the log.
            at: its file and line, for what is wrong.

        Returns:
            Whether any of it could be read.
        """
        counts, faults = self._findings.counts, self._findings.faults
        n_faults, n_spans = len(faults), counts["spans"] - counts["spans_unreadable"]
        self._read(data, position, at)
        if len(faults) == n_faults or counts["spans"] - counts["spans_unreadable"] > n_spans:
            return True
        self._findings.unread.update(name for name in (*RESPONSES, "called") if data.get(name))
        return False

    def _read(self, data: dict[str, Any], position: int, at: Fault) -> None:
        if holds_observations(data):
            self._read_spans(read_observations(data, position), position, at)
        elif (body := as_turn(data)) is not None:
            self._read_body(data, body, position, at)
        elif holds_spans(data):
            self._read_spans(read_spans(data), position, at)
        elif any(name in data for name in TURN_MARKS) and not is_eval(data):  # of either the request may be `text`
            if (record := self._read_turn(data, position, at)) is not None and "called" not in data:
                self._findings.unread.update(unread_responses(data, has_tools=record.offered is not None))
        else:
            fields = ", ".join(map(repr, list(data)[:5]))
            problem = f"neither a turn (an object with messages; fields: {', '.join(TURN_FIELDS)}) nor a span"
            problem += f", but {fields or 'an empty object'}{unread_request(data)}{''.join(map(meant_field, data))}"
            self._findings.faults.append(replace(at, message=problem))

    def _read_spans(self, spans: Iterator[Span], position: int, at: Fault) -> None:
        faults = self._findings.faults
        try:
            for span in spans:
                try:
                    self._spans.add(span, position)
                except (TypeError, ValueError, AttributeError, RecursionError):
                    problem = (
                        f"span {span.id or span.name!r}: messages or tools are not as the GenAI conventions have them"
                    )
                    faults.append(replace(at, message=problem))
                    self._findings.counts["spans_unreadable"] += 1
                    self._findings.unread[span.name or "span"] += 1
        except (TypeError, ValueError, AttributeError, KeyError, RecursionError):
            faults.append(replace(at, message="no span as OTLP/JSON or the SDKs write it"))

    def _read_body(self, data: dict[str, Any], body: BodyTurn, position: int, at: Fault) -> None:
        record = self._read_turn(body.turn, position, at)
        if record is None:
            return
        self._findings.ignored.update(body.passed_over)
        self._findings.unread.update(name for name in body.passed_over if holds_calls(name, data[name]))
        self._findings.counts["responses_unread"] += body.response == "unread"
        self._findings.unread.update(body.unread)
        self._findings.counts["responses_missing"] += body.response == "missing"
        record.doubtful = body.response == "unread"

    def _read_turn(self, data: dict[str, Any], position: int, at: Fault) -> Record | None:
        record = read_turn(data, position, at, findings=self._findings, interner=self._interner)
        self._records += [] if record is None else [record]
        return record


def _documents(
    path: Path, line_hashes: set[bytes], findings: LogFindings
) -> Iterator[tuple[int, dict[str, Any] | None, int]]:
    """Line, object and length of each document of a file; the object of a repeated or faulty line is None."""
    path = readable(path, repeatedly=True)
    n_faults = len(findings.faults)
    for line, text in iter_records(path, findings.faults):
        yield from ((fault.line, None, 0) for fault in findings.faults[n_faults:])  # lines that are no text
        plain = text.strip()
        digest = blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        is_twice = digest in line_hashes
        findings.counts["lines_twice"] += is_twice
        line_hashes.add(digest)
        yield line, None if is_twice else _line_object(plain, path, line, findings), len(text)
        n_faults = len(findings.faults)
    yield from ((fault.line, None, 0) for fault in findings.faults[n_faults:])


def _line_object(text: str, path: Path, line: int, findings: LogFindings) -> dict[str, Any] | None:
    """The JSON object of a line; anything else is a fault."""
    try:
        value = parse_json(text, path=path, line=line)
    except InputError as error:
        findings.faults += error.faults
        return None
    if isinstance(value, dict):
        return value
    findings.faults.append(Fault("expected a JSON object on each line", path, line))
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}; expected a log file") from error
