"""Import logs: read them, report what is unreadable, and write a dataset.

A log has turns (one turn or one model call per line), bodies of requests to OpenAI or Anthropic, or spans. A body is
recognised by its fields: `tools` with `messages`, or an `input` (OpenAI's responses). Its tools are those that the
model was offered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ctxbench.datasets.dataset import Dataset, name_fault, name_of_path
from ctxbench.datasets.files import copy_other_files, refuse_loss, write_files
from ctxbench.datasets.layout import CARD, EXPOSURE, Exposure, own_files, read_card, write_exposures
from ctxbench.io.console import ProgressListener, silent
from ctxbench.io.documents import iter_records, parse_json
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, StorageError, merge_equal_faults, none_found
from ctxbench.io.files import atomic_folder, readable
from ctxbench.io.redaction import Redactor, redactor
from ctxbench.labelling.record_files import AMBIGUOUS, UNKNOWN, NameResolver, is_eval, unresolved
from ctxbench.labelling.trace_labels import SOURCE, Builder, TraceReport, listed, writable
from ctxbench.labelling.trace_messages import Interner, LogFindings, Record, holds_calls
from ctxbench.labelling.trace_spans import (
    TURN_MARKS,
    Span,
    SpanReader,
    holds_observations,
    holds_spans,
    read_observations,
    read_spans,
)
from ctxbench.labelling.trace_turns import (
    RESPONSES,
    BodyTurn,
    as_turn,
    conversations,
    read_turn,
    unread_line,
    unread_responses,
)
from ctxbench.model.items import Catalog, ItemKey, suggest_items


def read_records(
    paths: Sequence[Path], findings: LogFindings, *, history: int, progress: ProgressListener = silent
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
            self._findings.faults.append(replace(at, message=unread_line(data)))

    def _read_spans(self, spans: Iterator[Span], position: int, at: Fault) -> None:
        faults = self._findings.faults
        try:
            for span in spans:
                try:
                    self._spans.add(span, position)
                except (TypeError, ValueError, AttributeError, RecursionError):
                    faults.append(replace(at, message=Message("labelling.span-form", name=span.id or span.name)))
                    self._findings.counts["spans_unreadable"] += 1
                    self._findings.unread[span.name or "span"] += 1
        except (TypeError, ValueError, AttributeError, KeyError, RecursionError):
            faults.append(replace(at, message=Message("labelling.not-a-span")))

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
    findings.faults.append(Fault(Message("labelling.json-object-per-line"), path, line))
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}; expected a log file") from error


def _check_turns(groups: Sequence[object], logs: Sequence[Path], findings: LogFindings) -> None:
    """Check that the logs have a turn.

    Raises:
        InputError: lines are wrong.
        ParameterError: no line has a user message.
    """
    if groups:
        return
    if findings.faults:
        raise InputError(merge_equal_faults(findings.faults), subject="traces")
    n, files = findings.counts, ", ".join(map(str, logs))
    if not n["lines"]:
        raise ParameterError(Message("labelling.empty-log", files=files))
    names = {"names": listed(findings.span_names), "roles": listed(findings.roles)}
    figures = {"lines": n["lines"], "spans": n["spans"], "calls": n["spans_without_content"]}
    raise ParameterError(Message("labelling.log-without-turns", files=files, **names, **figures))


_WORD = re.compile(r"[^\W_]+")
_EXAMPLES = 5
_FIELDS = 20  # names of fields that the card lists


@dataclass(frozen=True, kw_only=True)
class TraceImport:
    """The result of an import.

    Attributes:
        dataset: a query for each turn that a user asked.
        exposures: in the order of the queries.
        report: counts of what the logs hold.
    """

    dataset: Dataset
    exposures: tuple[Exposure, ...]
    report: TraceReport


@dataclass(frozen=True, kw_only=True)
class TraceSource:
    """Logs, and the catalog that they are about.

    Attributes:
        logs: files, in the order in which they are read.
        catalog: the items that the agent could have offered.
        scopes: named sets of them, for the field `scope`.
        renames: items that the logs know by another id, old to new.
    """

    logs: tuple[Path, ...]
    catalog: Catalog
    scopes: Mapping[str, tuple[ItemKey, ...]] = field(default_factory=dict)
    renames: Mapping[ItemKey, ItemKey] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.logs:
            raise ParameterError("expected at least one log file")
        for old, new in self.renames.items():
            if self.catalog.find(new) is None:
                raise ParameterError(
                    f"rename {old.id} to {new.id}: the catalog holds no "
                    f"{new.id!r}{suggest_items(new.id, self.catalog.ids)}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """Settings of an import of traces.

    Attributes:
        name: of the dataset.
        licence: of the log's texts, for the card.
        history: how many earlier messages a query keeps, >= 0.
        assume_full: where the log does not say what was offered, everything was.
    """

    name: str
    licence: str = "not stated; contains user texts"
    history: int = 20
    assume_full: bool = False

    def __post_init__(self) -> None:
        if self.history < 0:
            raise ParameterError(f"history must be 0 messages or more, got {self.history}")

    @classmethod
    def of_folder(
        cls, out: Path, *, name: str | None, licence: str | None, history: int, all_offered: bool
    ) -> TraceSettings:
        """Settings of an import into a folder; the dataset is named after the folder by default.

        Raises:
            ParameterError: the name is none for a dataset, or the history is negative.
        """
        if name is None:
            name = name_of_path(out, "traces")
        if fault := name_fault(name):
            raise ParameterError(f"{fault} (--name)")
        settings = cls(name=name, history=history, assume_full=all_offered)
        return settings if licence is None else replace(settings, licence=licence)


def import_traces(
    source: TraceSource,
    settings: TraceSettings,
    *,
    redact: Redactor | None,
    progress: ProgressListener = silent,
) -> TraceImport:
    """Make a dataset of the logs of an agent.

    A query is a message of a user's with all calls up to the next one. What was called without an error is required.
    A query is labelled wholly only if everything that it may get was offered, all of that can be called, every call
    is resolved and did well in the end, and no signal hints at a miss; else it is `partly_labelled`. A query without a
    label is unlabelled, unless the log says that it needs nothing. The same logs give the same dataset.

    Args:
        source: logs and catalog.
        settings: see there.
        redact: takes secrets out of every text; None leaves texts as they are.
        progress: called with the step, and how much of it is done.

    Raises:
        StorageError: a log cannot be read.
        InputError: more lines are wrong than right, or no line holds a message of a user's.
        ParameterError: the log names items, and none of them is in the catalog; or it holds responses or calls, and
            gives no label, as they could not be read.
    """
    findings = LogFindings()
    records = read_records(source.logs, findings, history=settings.history, progress=progress)
    groups = list(conversations(records, findings, history=settings.history))
    _check_turns(groups, source.logs, findings)
    names = NameResolver(source.catalog, source.renames)
    builder = Builder(source.catalog, source.scopes, names, settings.assume_full, redact, findings)
    builder.add_conversations(groups, progress)
    _check_catalog(builder)
    _check_labels(builder, source.logs)
    report = _report(builder)
    about = {
        "licence": settings.licence,
        "source": _origin(builder, len(source.logs)),
        "labelling": report.labelling(),
        "notes": {"traces": report.as_dict()},
    }
    return TraceImport(dataset=builder.dataset(settings.name, about), exposures=tuple(builder.exposures), report=report)


def import_into(
    folder: Path,
    source: TraceSource,
    settings: TraceSettings,
    *,
    redact: bool = True,
    patterns: Path | None = None,
    progress: ProgressListener = silent,
) -> TraceImport:
    """Make a dataset of logs and write it into a folder, all of it or nothing.

    Args:
        folder: where to.
        source: logs and catalog.
        settings: see there.
        redact: whether texts are redacted.
        patterns: a file of own patterns for that.
        progress: called with the step, and how much of it is done.

    Raises:
        UserError: as `import_traces` and `write_import`; the folder is looked at first.
    """
    refuse_overwriting(folder)
    redactor = redactor_for(source.catalog, patterns) if redact else None
    result = import_traces(source, settings, redact=redactor, progress=progress)
    write_import(result, folder)
    return result


def write_import(result: TraceImport, folder: Path | str) -> None:
    """Write a dataset of traces with its exposures into a folder, all of it or nothing; an earlier import is replaced.

    Files that are of neither stay. Exposures are never left with the queries of another import, however this ends.

    Raises:
        ParameterError: the folder holds something else, or labels that do not come from a log and would be lost.
        StorageError: it cannot be written.
    """
    target = Path(folder)
    refuse_overwriting(target)
    with atomic_folder(target) as temporary:
        copy_other_files(target, temporary, {*own_files(target), EXPOSURE})
        write_files(result.dataset, temporary)
        write_exposures(result.exposures, temporary)


def refuse_overwriting(folder: Path) -> None:
    """Refuse a folder whose dataset holds more than an import of traces.

    Raises:
        ParameterError: somebody has labelled there (answers that are not in the dataset yet count), it is something
            else, or it cannot be read.
    """
    if not (folder / CARD).is_file():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ParameterError(f"{folder} is there and is no dataset; name a new folder, or an import to replace")
        return
    refuse_loss(folder, is_own=_by_traces, sources=(SOURCE,))


def _by_traces(dataset: Dataset) -> bool:
    notes = dataset.about.get("notes")
    return isinstance(notes, dict) and "traces" in notes


def scopes_of(folder: Path) -> dict[str, tuple[ItemKey, ...]]:
    """The scopes of the dataset that a catalog belongs to; none where it is a file, or a folder without a card.

    Raises:
        InputError: the card cannot be read.
    """
    if not (folder / CARD).is_file():
        return {}
    return {name: tuple(ItemKey.parse(i) for i in ids) for name, ids in (read_card(folder).get("scopes") or {}).items()}


def redactor_for(catalog: Catalog, patterns: Path | None = None) -> Redactor:
    """A redactor that leaves names of a catalog's items and servers, and its words, in the texts.

    Raises:
        StorageError, InputError: the file of own patterns is missing or wrong.
    """
    names = {name for item in catalog for name in (item.id, item.name, item.server) if name}
    texts = (text for item in catalog for text in (item.name, item.server or "", item.description))
    return redactor(patterns, keep=names, ordinary={word for text in texts for word in _WORD.findall(text)})


def _check_catalog(builder: Builder) -> None:
    """Check that a name of the log is in the catalog.

    Raises:
        ParameterError: the log has names, and none is resolved.
    """
    resolved = builder.resolved_names()
    if not resolved or any(match.key is not None or match.rule == AMBIGUOUS for match in resolved):
        return
    names = list(unresolved(resolved, builder.name_counts, UNKNOWN))
    raise ParameterError(
        f"{none_found(names, 'names of the log', 'the catalog', builder.catalog.ids)}. "
        "Is it the catalog of the agent that wrote the log?"
    )


def _check_labels(builder: Builder, logs: Sequence[Path]) -> None:
    """Check that calls and responses in the logs gave a label.

    Raises:
        ParameterError: no query has a label or needs nothing, and something was not read.
    """
    findings, n = builder.findings, builder.findings.counts
    lost = {"unreadable": n["calls_unread"], "lost": n["calls_without_request"]}
    if builder.labels or n["queries_nothing"] or not (findings.unread or builder.calls_not_found or any(lost.values())):
        return
    names = {"fields": listed(findings.unread), "names": listed(builder.calls_not_found)}
    raise ParameterError(Message("labelling.nothing-read", files=", ".join(map(str, logs)), **names, **lost))


def _report(builder: Builder) -> TraceReport:
    findings = builder.findings
    resolved = builder.resolved_names()

    def clean(name: str) -> str:
        return writable(builder.redactor.text(name) if builder.redactor is not None else name)

    unknown, ambiguous = (
        {clean(name): n for name, n in unresolved(resolved, builder.name_counts, rule).items()}
        for rule in (UNKNOWN, AMBIGUOUS)
    )
    return TraceReport(
        counts=findings.counts,
        rules=dict(sorted(Counter(match.rule for match in resolved if match.key is not None).items())),
        unknown=unknown,
        ambiguous=ambiguous,
        skew=findings.skew,
        ignored={clean(name): n for name, n in findings.ignored.most_common(_FIELDS)},
        redaction=None if builder.redactor is None else builder.redactor.counts,
        examples=tuple(str(fault) for fault in merge_equal_faults(findings.faults)[:_EXAMPLES]),
    )


def _origin(builder: Builder, files: int) -> dict[str, object]:
    """The card's `source`."""
    times = sorted(query.request.time for query in builder.queries if query.request.time is not None)
    origin: dict[str, object] = {"kind": "logs of an agent", "files": files, "turns": len(builder.queries)}
    return origin | ({"from": times[0], "to": times[-1]} if times else {})
