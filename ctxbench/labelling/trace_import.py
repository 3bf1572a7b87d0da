"""Import logs: read them, report what cannot be read, and write a dataset.

A log has turns (one turn or one model call per line), requests to a model with their responses, spans, or sessions of
agents. Each document is recognised by its fields, and sessions by the first documents of their file. The reading of a
large log can be interrupted and goes on where it stopped.
"""

from __future__ import annotations

import json
import pickle
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from types import FrameType

from ctxbench.catalogs.tool_lists import mapped, renamed
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.files import copy_other_files, refuse_loss, write_files
from ctxbench.datasets.layout import CARD, EXPOSURE, Exposure, own_files, read_card, write_exposures
from ctxbench.io.console import ProgressListener, silent
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, merge_equal_faults, none_found, raise_first
from ctxbench.io.files import atomic_folder, cache_dir, write_atomic
from ctxbench.io.redaction import Redactor, redactor
from ctxbench.labelling.agent_sessions import KINDS, SessionReader, transcript_fields
from ctxbench.labelling.record_files import AMBIGUOUS, UNKNOWN, NameResolver, unresolved
from ctxbench.labelling.sources import Document, documents, sample
from ctxbench.labelling.trace_exports import LogReader
from ctxbench.labelling.trace_labels import SOURCE, Builder, SessionNames, TraceReport, listed, writable
from ctxbench.labelling.trace_messages import LogFindings, Record
from ctxbench.labelling.trace_turns import conversations
from ctxbench.model.items import Catalog, ItemKey, suggest_items


class LogFiles:
    """Reads the files of logs into records; it can be stored after any document, to go on later.

    Attributes:
        findings: counts and faults.
        names: finds the items of names.
        has_sessions: whether a file has sessions of agents.
    """

    def __init__(self, source: TraceSource, *, history: int) -> None:
        self.findings = LogFindings()
        self.names = NameResolver(source.catalog, source.renames)
        self._paths, self._kind, self._fields = source.logs, source.kind, source.fields
        self._mapped: set[str] = set()  # the fields of `_fields` that a document had
        self._rows = LogReader(self.findings, history=history)
        self._sessions = SessionReader(SessionNames(source.catalog, self.names), self.findings)
        self._turns: list[Record] = []
        self._hashes: set[bytes] = set()  # of documents
        self._n_files = self._n_documents = 0
        self.has_sessions = False

    def records(self) -> list[Record]:
        """All records read."""
        return [*self._turns, *self._rows.records()]

    def read(self, progress: ProgressListener = silent) -> Iterator[None]:
        """Read the files from where reading stopped; gives control back after each document.

        Repeated documents are counted and ignored.

        Raises:
            StorageError: a file is missing or cannot be read.
            InputError: more than half of the documents are wrong: the first faults.
            ParameterError: no document has a mapped field.
        """
        sizes = [path.stat().st_size if path.is_file() else 0 for path in self._paths]
        counts, faults = self.findings.counts, self.findings.faults
        for number, path in list(enumerate(self._paths))[self._n_files :]:
            if self._n_documents == 0:
                self._turns += self._sessions.start_file(path)
            yield from self._read_file(path, progress, sum(sizes[:number]), sum(sizes))
            self._n_files, self._n_documents = number + 1, 0
        self._turns += self._sessions.finish()
        n_wrong, n_readable = counts["lines_unreadable"], counts["lines"] - counts["lines_unreadable"]
        if faults and n_wrong > n_readable:
            raise _unreadable(faults, f"traces: {n_wrong} lines cannot be read, {n_readable} can")
        for name in self._fields.keys() - self._mapped:
            files = ", ".join(map(str, self._paths))
            raise ParameterError(
                Message("labelling.mapped-field-missing", files=files, name=self._fields[name], field=name)
            )

    def _read_file(self, path: Path, progress: ProgressListener, before: int, total: int) -> Iterator[None]:
        values = [document.value for document in sample(path)]
        kinds = [kind.name for kind in KINDS if kind.matches(values)]
        is_session = self._kind in _SESSIONS if self._kind else bool(kinds)
        self._sessions.fields = transcript_fields(values) if kinds == ["transcript"] else {}
        self.has_sessions |= is_session
        counts, faults = self.findings.counts, self.findings.faults
        n_faults = len(faults)
        try:
            read = documents(path, faults, lambda n: progress("reading traces, bytes", before + n, total))
            for n, document in enumerate(read, start=1):
                if n <= self._n_documents:  # read before the interruption
                    del faults[n_faults:]
                    continue
                counts.update(lines=1 + len(faults) - n_faults, lines_unreadable=len(faults) - n_faults)
                counts["lines_unreadable"] += not self._read_document(document, is_session=is_session)
                self._n_documents, n_faults = n, len(faults)
                yield
        except InputError as error:
            faults += error.faults
        counts.update(lines=len(faults) - n_faults, lines_unreadable=len(faults) - n_faults)

    def _read_document(self, document: Document, *, is_session: bool) -> bool:
        """Read a document; returns whether it, or a part of it, could be read."""
        counts, at, value = self.findings.counts, Fault("", document.path, document.line), document.value
        names = {name: field for name, field in self._fields.items() if name == "conversation" or not is_session}
        if names and isinstance(value, dict):
            self._mapped.update(mapped(value, names))
            value = renamed(value, names)
        if is_session:
            n_faults = len(self.findings.faults)
            self._turns += self._sessions.read(value, counts["lines"], at)
            return n_faults == len(self.findings.faults)
        text = document.text.strip() or json.dumps(document.value)
        if (digest := blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()) in self._hashes:
            counts["lines_twice"] += 1
            return True
        self._hashes.add(digest)
        return self._rows.read(value, counts["lines"], at)


def _unreadable(faults: Sequence[Fault], subject: str) -> InputError:
    return InputError(merge_equal_faults(faults)[:_SHOWN], subject=subject)


def _check_turns(groups: Sequence[object], logs: Sequence[Path], reader: LogFiles) -> None:
    """Check that the logs have a turn.

    Raises:
        InputError: lines are wrong.
        ParameterError: no line has a user message.
    """
    findings, n, files = reader.findings, reader.findings.counts, ", ".join(map(str, logs))
    if groups:
        return
    if findings.faults:
        raise _unreadable(findings.faults, "traces")
    raise_first(
        (reader.has_sessions, Message("labelling.session-without-request", files=files, lines=n["lines"])),
        (not n["lines"], Message("labelling.empty-log", files=files)),
    )
    raise ParameterError(
        Message(
            "labelling.log-without-turns",
            files=files,
            lines=n["lines"],
            spans=n["spans"] or "none",
            calls=n["spans_without_content"] or "none",
            names=listed(findings.span_names),
        )
    )


_SESSIONS = [kind.name for kind in KINDS]
UNSTATED = "not stated; contains user texts"
"""The licence of a dataset of logs whose licence was not given."""
_WORD = re.compile(r"[^\W_]+")
_KEPT = 24 * 60 * 60  # seconds for which the state of an interrupted import is kept
_EXAMPLES, _SHOWN = 5, 20  # faults that the report and an error name
_FIELDS = 20  # ignored fields that the card lists


@dataclass(frozen=True, kw_only=True)
class TraceImport:
    """The result of an import.

    Attributes:
        dataset: one query per turn.
        exposures: in the order of the queries.
        report: the counts of the import.
    """

    dataset: Dataset
    exposures: tuple[Exposure, ...]
    report: TraceReport


@dataclass(frozen=True, kw_only=True)
class TraceSource:
    """Logs, and the catalog of their agent.

    Attributes:
        logs: files, in reading order.
        catalog: the items of the agent.
        scopes: named sets of items, for the field `scope`.
        renames: from ids in the logs to ids in the catalog.
        kind: the name of an import kind; empty to recognise sessions by their content.
        fields: what turns and requests call `LOG_FIELDS`, by field.
    """

    logs: tuple[Path, ...]
    catalog: Catalog
    scopes: Mapping[str, tuple[ItemKey, ...]] = field(default_factory=dict)
    renames: Mapping[ItemKey, ItemKey] = field(default_factory=dict)
    kind: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.logs:
            raise ParameterError("expected at least one log file")
        for old, new in self.renames.items():
            if self.catalog.find(new) is None:
                raise ParameterError(
                    f"rename {old.id} to {new.id}: the catalog has no "
                    f"{new.id!r}{suggest_items(new.id, self.catalog.ids)}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """Settings of an import of traces.

    Attributes:
        name: the name of the dataset.
        licence: the licence of the texts, for the card.
        history: the largest number of earlier messages of a query.
        assume_full: turns without a list of offered items were offered everything.
    """

    name: str
    licence: str = UNSTATED
    history: int = 20
    assume_full: bool = False

    def __post_init__(self) -> None:
        if self.history < 0:
            raise ParameterError(f"history must be 0 messages or more, got {self.history}")


def import_traces(
    source: TraceSource,
    settings: TraceSettings,
    *,
    redact: Redactor | None,
    progress: ProgressListener = silent,
) -> TraceImport:
    """Make a dataset of the logs of an agent.

    A query is a user message with all calls up to the next one. Successfully called items are required. A query is
    labelled in full if all items available to it were offered and are tools, each call is resolved and succeeded in
    the end, and there is no signal of a miss; otherwise it is `partly_labelled`. A query without a label is
    unlabelled, unless the log has a mark that it needs nothing. The same logs give the same dataset.

    Args:
        source: logs and catalog.
        settings: settings of the import.
        redact: removes secrets from texts; None leaves texts unchanged.
        progress: called with the step and its progress.

    Raises:
        StorageError: a log cannot be read.
        InputError: more than half of the lines are wrong, or no line has a user message.
        ParameterError: no item in the logs is in the catalog; or the logs have responses or calls, but none of them
            gives a label. Sessions of agents are excepted.
    """
    reader = _read_logs(source, settings, progress)
    findings = reader.findings
    groups = list(conversations(reader.records(), findings, history=settings.history))
    _check_turns(groups, source.logs, reader)
    builder = Builder(source.catalog, source.scopes, reader.names, settings.assume_full, redact, findings)
    builder.add_conversations(groups, progress)
    if not reader.has_sessions:  # an agent may have used its own tools alone
        _check_labels(builder, source.logs)
    report = _report(builder)
    times = sorted(query.request.time for query in builder.queries if query.request.time is not None)
    origin = {"kind": "logs of an agent", "files": len(source.logs), "turns": len(builder.queries)}
    about = {
        "licence": settings.licence,
        "source": origin | ({"from": times[0], "to": times[-1]} if times else {}),
        "labelling": report.labelling(),
        "notes": {"traces": report.as_dict()},
    }
    return TraceImport(dataset=builder.dataset(settings.name, about), exposures=tuple(builder.exposures), report=report)


def _read_logs(source: TraceSource, settings: TraceSettings, progress: ProgressListener) -> LogFiles:
    """Read logs. Ctrl-C stores what was read, and the same import goes on after it.

    The state is a file of the user's cache for its owner alone, since it holds texts that are not redacted. It is
    removed when all is read, and after a day by the next import of any log.
    """
    code = sorted(Path(__file__).parent.glob("*.py"))  # another version reads otherwise
    files = [(path.resolve(), path.stat()) for path in (*code, *source.logs) if path.exists()]
    versions = [(path, stat.st_size, stat.st_mtime_ns, stat.st_ino) for path, stat in files]
    key = repr((versions, source.catalog.hash, sorted(source.renames.items()), source.kind, source.fields, settings))
    stored = cache_dir() / "imports" / f"{blake2b(key.encode(), digest_size=16).hexdigest()}.pickle"
    for state in stored.parent.glob("*"):
        with suppress(OSError):
            if state.stat().st_mtime < time.time() - _KEPT:
                state.unlink()
    try:
        reader: LogFiles = pickle.loads(stored.read_bytes())  # noqa: S301 - of this user
    except Exception:  # noqa: BLE001 - absent or damaged
        reader = LogFiles(source, history=settings.history)
    with interrupts() as signals:
        for _ in chain(reader.read(progress), (None,)):  # also after the last document
            if signals:
                write_atomic(stored, pickle.dumps(reader), private=True)
                stopped = KeyboardInterrupt()
                stopped.add_note(Message("labelling.import-resumes"))
                raise stopped
    stored.unlink(missing_ok=True)
    return reader


@contextmanager
def interrupts() -> Iterator[list[int]]:
    """Note the first Ctrl-C in a list; the second raises `KeyboardInterrupt`. Only in the main thread."""
    signals: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)

    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, note) if is_main else None
    try:
        yield signals
    finally:
        if is_main:
            signal.signal(signal.SIGINT, handler)


def write_import(result: TraceImport, folder: Path | str) -> None:
    """Write a dataset of traces with its exposures into a folder, all of it or nothing.

    An earlier import is replaced; other files stay.

    Raises:
        ParameterError: the folder has other contents, or labels that are not from a log and would be lost.
        StorageError: it cannot be written.
    """
    target = Path(folder)
    refuse_overwriting(target)
    with atomic_folder(target) as temporary:
        copy_other_files(target, temporary, {*own_files(target), EXPOSURE})
        write_files(result.dataset, temporary, home=target)
        write_exposures(result.exposures, temporary)


def refuse_overwriting(folder: Path) -> None:
    """Check that a folder is new, empty, or has an import of traces and no other labels.

    Raises:
        ParameterError: the folder has labels of people (also answers that are not in the dataset yet) or other
            contents, or it cannot be read.
    """
    if (folder / CARD).is_file():
        refuse_loss(
            folder,
            is_own=lambda dataset: isinstance(notes := dataset.about.get("notes"), dict) and "traces" in notes,
            sources=(SOURCE,),
        )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ParameterError(f"{folder} exists and is not a dataset; name a new folder, or an import to replace")


def scopes_of(folder: Path) -> dict[str, tuple[ItemKey, ...]]:
    """The scopes of the dataset of a catalog; empty for a file, or a folder without a card.

    Raises:
        InputError: the card cannot be read.
    """
    scopes = (read_card(folder).get("scopes") if (folder / CARD).is_file() else None) or {}
    return {name: tuple(ItemKey.parse(item_id) for item_id in ids) for name, ids in scopes.items()}


def redactor_for(catalog: Catalog, patterns: Path | None = None) -> Redactor:
    """A redactor that keeps the names of items and servers, and the words of a catalog.

    Raises:
        StorageError, InputError: the file with patterns is missing or wrong.
    """
    names = {name for item in catalog for name in (item.id, item.name, item.server) if name}
    texts = (text for item in catalog for text in (item.name, item.server or "", item.description))
    return redactor(patterns, keep=names, ordinary={word for text in texts for word in _WORD.findall(text)})


def _check_labels(builder: Builder, logs: Sequence[Path]) -> None:
    """Check that names, calls and responses in the logs gave a label.

    Raises:
        ParameterError: no query has a label or needs nothing, and no name is in the catalog, or something was not read.
    """
    findings, n, resolved = builder.findings, builder.findings.counts, builder.resolved_names()
    if builder.labels or n["queries_nothing"]:
        return
    if resolved and all(match.rule == UNKNOWN for match in resolved):
        names = list(unresolved(resolved, builder.name_counts, UNKNOWN))
        raise ParameterError(
            f"{none_found(names, 'names of the log', 'the catalog', builder.catalog.ids)}. "
            "Check that this is the catalog of the agent that wrote the log."
        )
    if findings.unread or builder.calls_not_found or n["calls_unread"] or n["calls_without_request"]:
        raise ParameterError(
            Message(
                "labelling.nothing-read",
                files=", ".join(map(str, logs)),
                fields=listed(findings.unread),
                names=listed(builder.calls_not_found),
                unreadable=n["calls_unread"] or "none",
                lost=n["calls_without_request"] or "none",
            )
        )


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
        outside={clean(name): n for name, n in findings.outside.most_common()},
        ambiguous=ambiguous,
        ignored={clean(name): n for name, n in findings.ignored.most_common(_FIELDS)},
        redaction=None if builder.redactor is None else builder.redactor.counts,
        examples=tuple(str(fault) for fault in merge_equal_faults(findings.faults)[:_EXAMPLES]),
    )
