"""Make datasets from traces: read, order, label, redact, and record the origin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ctxbench.bench.progress_listener import Progress, silent
from ctxbench.core.errors import InputError, ParameterError, merge_equal_faults, none_found
from ctxbench.core.item_suggestions import suggest_items
from ctxbench.core.items import Catalog, ItemKey
from ctxbench.data.datasets.dataset import Dataset, name_fault, name_of_path
from ctxbench.data.datasets.layout import CARD, own_files, read_card
from ctxbench.data.datasets.replacement import refuse_loss
from ctxbench.data.datasets.writer import copy_other_files, write_files
from ctxbench.data.labelling.query_files import EXPOSURE, Exposure, write_exposures
from ctxbench.data.traces.builder import SOURCE, Builder, writable
from ctxbench.data.traces.conversations import conversations
from ctxbench.data.traces.import_report import TraceReport
from ctxbench.data.traces.log_reader import read_records
from ctxbench.data.traces.nothing_read import what_was_not_read, what_was_seen
from ctxbench.data.traces.records import LogFindings
from ctxbench.io.files import atomic_folder
from ctxbench.sources.name_resolver import AMBIGUOUS, UNKNOWN, NameResolver, unresolved
from ctxbench.text.redaction import Redactor, redactor

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
                problem = f"rename {old.id} to {new.id}: the catalog holds no {new.id!r}"
                raise ParameterError(f"{problem}{suggest_items(new.id, self.catalog.ids)}")


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
    licence: str = "not stated: texts of users, not for publication"
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
    progress: Progress = silent,
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
    if not groups:
        if findings.faults:
            raise InputError(merge_equal_faults(findings.faults), subject="traces")
        raise ParameterError(f"no turn in {', '.join(map(str, source.logs))}: {what_was_seen(findings)}")
    names = NameResolver(source.catalog, source.renames)
    builder = Builder(source.catalog, source.scopes, names, settings.assume_full, redact, findings)
    builder.add_conversations(groups, progress)
    _refuse_other_catalog(builder)
    _refuse_no_labels(builder, source.logs)
    report = _report(builder)
    about = {
        "licence": settings.licence,
        "source": _origin(builder, len(source.logs)),
        "labelling": report.labelling(),
        "notes": {"traces": report.as_dict()},
    }
    dataset = builder.dataset(settings.name, about)
    return TraceImport(dataset=dataset, exposures=tuple(builder.exposures), report=report)


def import_into(
    folder: Path,
    source: TraceSource,
    settings: TraceSettings,
    *,
    redact: bool = True,
    patterns: Path | None = None,
    progress: Progress = silent,
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
    scopes = read_card(folder).get("scopes") or {}
    return {name: tuple(ItemKey.parse(i) for i in ids) for name, ids in scopes.items()}


def redactor_for(catalog: Catalog, patterns: Path | None = None) -> Redactor:
    """A redactor that leaves names of a catalog's items and servers, and its words, in the texts.

    Raises:
        StorageError, InputError: the file of own patterns is missing or wrong.
    """
    names = {name for item in catalog for name in (item.id, item.name, item.server) if name}
    texts = (text for item in catalog for text in (item.name, item.server or "", item.description))
    return redactor(patterns, keep=names, ordinary={word for text in texts for word in _WORD.findall(text)})


def _refuse_other_catalog(builder: Builder) -> None:
    """Refuse a log none of whose names is in the catalog: it is about another one.

    Raises:
        ParameterError: names stand in the log, and none is resolved.
    """
    resolved = builder.resolved_names()
    if not resolved or any(match.key is not None or match.rule == AMBIGUOUS for match in resolved):
        return
    names = list(unresolved(resolved, builder.name_counts, UNKNOWN))
    raise ParameterError(
        f"{none_found(names, 'names of the log', 'the catalog', builder.catalog.ids)}. "
        "Is it the catalog of the agent that wrote the log?"
    )


def _refuse_no_labels(builder: Builder, logs: Sequence[Path]) -> None:
    """Refuse logs without a label although they hold responses or calls: these could not be read.

    Raises:
        ParameterError: no query has a label or needs nothing, and something was not read.
    """
    if builder.labels or builder.findings.counts["queries_nothing"]:
        return
    if unread := what_was_not_read(builder.findings, builder.calls_not_found):
        raise ParameterError(f"no label could be read from {', '.join(map(str, logs))}: {unread}")


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
