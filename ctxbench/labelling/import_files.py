"""Import files of any kind: recognise each, group them by family, and read them as one dataset or catalog."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from ctxbench.catalogs.instructions import is_instructions
from ctxbench.catalogs.snapshots import SnapshotPart, refuse_other
from ctxbench.catalogs.tool_lists import OTHER_NAMES, listed_tools
from ctxbench.datasets.dataset import Dataset, name_of_path
from ctxbench.datasets.files import create_dataset
from ctxbench.datasets.layout import Exposure, write_known_items
from ctxbench.datasets.lookup import find_catalog
from ctxbench.io.console import ProgressListener, silent
from ctxbench.io.errors import Fault, InputError, Message, ParameterError, UserError, check_choice, suggest
from ctxbench.labelling.conversion import (
    AMBIGUOUS,
    EXPORT_FILE,
    FIELD_NAMES,
    NO_DOCUMENT,
    NO_QUERY,
    Conversion,
    ImportSettings,
)
from ctxbench.labelling.evals import NOWHERE, SEVERAL_PLACES, import_evals
from ctxbench.labelling.judgment_files import import_collection, read_catalog_files
from ctxbench.labelling.record_files import MAPPED
from ctxbench.labelling.sources import (
    CATALOG,
    COLLECTION,
    EVALS,
    LOG,
    SAMPLE,
    ImportKind,
    data_files,
    documents,
    kind_named,
    recognise,
)
from ctxbench.labelling.trace_import import (
    UNSTATED,
    TraceImport,
    TraceSettings,
    TraceSource,
    import_traces,
    redactor_for,
    refuse_overwriting,
    write_import as write_traces,
)
from ctxbench.labelling.trace_turns import LOG_FIELDS
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Catalog, ItemKey

GOLDEN = "golden"
"""The kind of hand-written evals, under any field names."""
_FILE_FIELDS = (*MAPPED, *OTHER_NAMES, *FIELD_NAMES)
MAPPED_FIELDS = tuple(dict.fromkeys((*_FILE_FIELDS, *LOG_FIELDS)))
"""The fields that may be mapped, of files of all kinds."""
TRACES = "traces"
"""The name for logs of any kind, each document read by its own form."""
INSTRUCTIONS = ("skills", "rules")
"""Kinds of files that are items as a whole."""
_LEFT_OUT = (
    *("labelling.names-unknown", "labelling.names-ambiguous", "labelling.names-outside", "labelling.calls-unread"),
    *("labelling.lines-unreadable", "labelling.spans-unreadable", "labelling.records-without-request"),
    *(NOWHERE, SEVERAL_PLACES, AMBIGUOUS, NO_DOCUMENT, NO_QUERY),
)
"""Messages and counts of what was left out."""
_FIELDS = 8  # fields that a message lists
_FILES = 5  # files of a folder whose faults a message lists


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """How files are imported.

    Attributes:
        kind: the kind of all files, or `TRACES`; None = recognised by content.
        names: the names of fields in the files, by field.
        settings: name, version, licence, grades, and the type of items.
        history: logs: the largest number of earlier messages of a query.
        all_offered: logs: turns without a list of offered items were offered everything.
        renames: logs: ids in the catalog by ids in the logs.
        redact: logs: whether texts are redacted.
        patterns: logs: a file with patterns for the redaction.
        nothing_else: trigger evals: requests that trigger no skill in their file need nothing.
        server: lists of tools: the server of tools that name none.
        folder: where the dataset goes; all but an export of ctxbench is named after it by default.
    """

    kind: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    settings: ImportSettings = field(default_factory=ImportSettings)
    history: int = 20
    all_offered: bool = False
    renames: Mapping[ItemKey, ItemKey] = field(default_factory=dict)
    redact: bool = True
    patterns: Path | None = None
    nothing_else: bool = False
    server: str | None = None
    folder: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ImportPlan:
    """Files by kind, and what they become.

    Attributes:
        kinds: the kind of each file.
        skipped: files of a folder that are of no kind, and lists of items where a catalog is given.
        family: of the dataset; `CATALOG` if the files make a catalog.
    """

    kinds: Mapping[Path, ImportKind]
    skipped: Sequence[Path]
    family: str

    def of_family(self, *families: str) -> list[Path]:
        """The files of some families."""
        return [path for path, kind in self.kinds.items() if kind.family in families]

    @cached_property
    def titles(self) -> dict[ImportKind, list[Path]]:
        """The files of each kind."""
        kinds = dict.fromkeys(self.kinds.values())
        return {kind: [path for path in self.kinds if self.kinds[path] is kind] for kind in kinds}


@dataclass(frozen=True, kw_only=True)
class Imported:
    """The result of an import.

    Attributes:
        plan: the files by kind.
        dataset: None if the files make a catalog.
        parts: the parts of the catalog, if they do.
        exposures: of a log.
        report: of a dataset: lines, and data for JSON.
    """

    plan: ImportPlan
    dataset: Dataset | None = None
    parts: Sequence[SnapshotPart] = ()
    exposures: Sequence[Exposure] = ()
    report: Conversion | TraceImport | None = None

    @property
    def found(self) -> dict[str, int]:
        """Counts of requests, labels, forbidden items and offered sets."""
        if self.dataset is None:
            return {}
        grades = [label.grade for label in self.dataset.labels]
        offered = sum(bool(exposure.offered) for exposure in self.exposures)
        return {
            "requests": len(self.dataset),
            "labels": sum(grade != Grade.IRRELEVANT for grade in grades),
            "forbidden": sum(grade == Grade.IRRELEVANT for grade in grades),
            "offered": offered or sum(query.request.available is not None for query in self.dataset.queries),
        }

    def lines(self) -> list[str]:
        """What was counted, one line each, for people."""
        if isinstance(self.report, TraceImport):
            return self.report.report.lines()
        return [] if self.report is None else self.report.lines()

    def left_out(self) -> list[str]:
        """The lines on labels, records and files that were left out."""
        paths = self.plan.skipped
        skipped = [Message("labelling.files-skipped", n=len(paths), paths=paths[:_FILES])] if paths else []
        lines = (line for line in self.lines() if getattr(line, "key", "") in _LEFT_OUT or line.startswith(_LEFT_OUT))
        return [*skipped, *lines]

    def as_dict(self) -> dict[str, Any]:
        """What was recognised, found and counted, as JSON."""
        report = self.report.report if isinstance(self.report, TraceImport) else self.report
        files = [{"path": str(path), "kind": kind.name} for path, kind in self.plan.kinds.items()]
        skipped = [str(path) for path in self.plan.skipped]
        return {"files": files, "skipped": skipped, "found": self.found, **({} if report is None else report.as_dict())}


def plan_import(
    paths: Sequence[Path],
    *,
    kind: str | None = None,
    has_catalog: bool = False,
    command: str = ImportSettings.command,
    names: Collection[str] = (),
) -> ImportPlan:
    """Recognise the kind of each file.

    Args:
        paths: files, folders and patterns.
        kind: the kind of all files that are not part of the catalog; None = by content.
        has_catalog: whether a catalog is given; then a file of unknown fields may hold evals.
        command: with a catalog, for the message on a file of unknown fields.
        names: mapped fields; with those of evals, a file of unknown fields holds evals.

    Raises:
        StorageError: a file is missing.
        InputError: a file is of no kind, or there is none in a folder.
        ParameterError: files of several families.
        UnknownNameError: there is no such kind.
    """
    kinds: dict[Path, ImportKind] = {}
    unknown: dict[Path, tuple[Any, list[Fault]]] = {}  # the first document, and faults
    forced = None if kind is None else kind_named("turns" if kind == TRACES else kind)
    for path in data_files(paths):
        values, faults = _head(path)
        recognised = recognise(values)
        if recognised is None and values and is_instructions(path):  # AGENTS.md is a text like any other
            recognised = kind_named("rules")
        is_data = recognised is not None or path in paths or any(fault.line for fault in faults)
        of_catalog = recognised is not None and recognised.family == CATALOG
        of_forced = recognised is not None and forced is not None and recognised.family == forced.family
        if forced is not None and is_data and (forced.family == CATALOG or not of_catalog):
            recognised = recognised if kind == TRACES and of_forced else forced
        if recognised is not None:
            kinds[path] = recognised
        else:
            unknown[path] = next(iter(values), None), faults
    families = {kind.family for kind in kinds.values()}
    is_mapped = bool({"query", "expected", "forbidden"} & set(names))
    if (has_catalog or is_mapped) and families <= {
        EVALS,
        CATALOG,
    }:  # objects beside evals, such as settings, are hardly evals
        evals = [path for path in unknown if path in paths or EVALS not in families]
        kinds |= {path: kind_named(GOLDEN) for path in evals if isinstance(unknown[path][0], dict)}
        unknown = {path: head for path, head in unknown.items() if path not in kinds}
    is_missing = forced is not None and all(kind.family != forced.family for kind in kinds.values())
    wrong = [path for path in unknown if is_missing or path in paths or not kinds]
    if wrong:
        named = [path for path in wrong if path in paths] or wrong[:_FILES]
        subject = f"none of {len(wrong):,} files is of a kind that is read here" if len(named) < len(wrong) else ""
        alone = "" if has_catalog else command
        raise InputError([fault for path in named for fault in _unknown(path, *unknown[path], alone)], subject=subject)
    if forced is not None and is_missing:
        raise ParameterError(Message("labelling.none-of-kind", paths=paths, title=forced.title))
    read_families = list(dict.fromkeys(kind.family for kind in kinds.values() if kind.family != CATALOG))
    if len(read_families) > 1 and set(read_families) != {EVALS, COLLECTION}:
        firsts = [next(path for path, kind in kinds.items() if kind.family == family) for family in read_families]
        files = [f"{path} ({kinds[path].title})" for path in firsts]
        raise ParameterError(Message("labelling.several-families", files=files))
    family = COLLECTION if COLLECTION in read_families else read_families[0] if read_families else CATALOG
    has_skills = not has_catalog and any(kind.name in INSTRUCTIONS for kind in kinds.values())
    if (has_catalog and family in (EVALS, LOG)) or (has_skills and family == EVALS):  # items that are not asked for
        names = INSTRUCTIONS if has_skills else ()
        unknown |= {
            path: (None, []) for path, kind in kinds.items() if kind.family == CATALOG and kind.name not in names
        }
        kinds = {path: kind for path, kind in kinds.items() if path not in unknown}
    return ImportPlan(kinds=kinds, skipped=list(unknown), family=family)


def _values(path: Path) -> Iterator[Any]:
    """The values of the documents of a file, up to one that cannot be read."""
    with suppress(InputError):
        yield from (document.value for document in documents(path, []))


def _head(path: Path) -> tuple[list[Any], list[Fault]]:
    """The values of the first documents of a file, and the faults before their end.

    Raises:
        StorageError: the file cannot be read, or is parquet and pyarrow is missing.
    """
    values: list[Any] = []
    faults: list[Fault] = []
    try:
        values.extend(document.value for document in islice(documents(path, faults), SAMPLE))
    except InputError as error:
        faults += error.faults
    return values, faults


def _unknown(path: Path, first: Any, faults: Sequence[Fault], command: str) -> Sequence[Fault]:
    """Why a file is of no kind: what is wrong with it, or its fields."""
    if first in (None, [], {}):
        return faults or [Fault(Message("labelling.empty-file"), path, 1)]
    fields = [repr(name) for name in first][:_FIELDS] if isinstance(first, dict) else []
    return (
        [Fault(Message("labelling.unknown-fields", fields=fields, command=command), path)]
        if fields and command
        else [Fault(Message("labelling.unknown-kind", fields=fields or ["none"]), path)]
    )


def open_items(name: str, read: Callable[[str], Catalog] = find_catalog) -> Catalog:
    """Open a catalog; also a list of tools or documents, or a folder of skills and rules.

    Args:
        name: as of `find_catalog`, or a path.
        read: what reads a catalog that is neither of these.

    Raises:
        UserError: it is none of these; the error of `read`. Or it is a faulty list.
    """
    try:
        return read(name)
    except UserError:
        try:
            plan = plan_import([Path(name)])
        except UserError:
            plan = None
        if plan is None or plan.family != CATALOG:
            raise
    return Catalog(item for part in import_files(plan).parts for item in part.items)


def import_files(
    paths: Sequence[Path] | ImportPlan,
    catalog: Catalog | None = None,
    *,
    options: ImportOptions | None = None,
    scopes: Mapping[str, tuple[ItemKey, ...]] | None = None,
    progress: ProgressListener = silent,
) -> Imported:
    """Read files as one dataset, or as parts of a catalog; nothing is written.

    Lists of tools or documents, and skills, among the files are the catalog if none is given; without these, the tools
    that logs list.

    Args:
        paths: files, folders and patterns; or the plan of these.
        catalog: the items; None = those in the files.
        options: how the files are read.
        scopes: named sets of items, for logs.
        progress: called with the step and its progress.

    Raises:
        UserError: files are missing, of no kind, of kinds that do not go together, or faulty.
    """
    options = options or ImportOptions()
    plan = paths
    if not isinstance(plan, ImportPlan):
        command = options.settings.command
        plan = plan_import(
            plan, kind=options.kind, has_catalog=catalog is not None, command=command, names=options.names
        )
    items = plan.of_family(CATALOG)
    _check_names(plan, options.names)
    if plan.family == CATALOG:
        return Imported(plan=plan, parts=read_catalog_files(items, plan.kinds, options))
    settings = options.settings
    is_export = any((path.parent / EXPORT_FILE).is_file() for path in plan.of_family(COLLECTION))  # which has a name
    if settings.name is None and options.folder is not None and not is_export:
        settings = replace(settings, name=name_of_path(options.folder, plan.family))
    if plan.family == COLLECTION:
        files = plan.of_family(COLLECTION, EVALS, CATALOG)
        files = [path for path in files if plan.kinds[path].name not in INSTRUCTIONS]
        kind = next((kind.name for kind in plan.titles if kind.family == COLLECTION), None)
        conversion = import_collection(files, catalog, kind=kind, settings=settings, names=options.names)
        return Imported(plan=plan, dataset=conversion.dataset, report=conversion)
    has_skills = catalog is None and any(plan.kinds[path].name in INSTRUCTIONS for path in items)
    if catalog is None and items and not (has_skills and plan.family == EVALS):
        catalog = Catalog(item for part in read_catalog_files(items, plan.kinds, options) for item in part.items)
    if catalog is None and plan.family == LOG:
        catalog = listed_tools(value for path in plan.of_family(LOG) for value in _values(path)) or None
    if catalog is None and not (has_skills and plan.family == EVALS):
        files, command = plan.of_family(EVALS, LOG), settings.command
        raise ParameterError(Message("labelling.needs-catalog", files=files, command=command))
    if plan.family == EVALS or catalog is None:
        conversion = import_evals(
            plan.of_family(EVALS, *[CATALOG] * has_skills),
            catalog,
            kind=options.kind,
            settings=settings,
            names=options.names,
            nothing_else=options.nothing_else,
        )
        return Imported(plan=plan, dataset=conversion.dataset, report=conversion)
    traces = import_traces(
        TraceSource(
            logs=tuple(plan.of_family(LOG)),
            catalog=catalog,
            scopes=scopes or {},
            renames=options.renames,
            kind="" if options.kind in (None, TRACES) else options.kind,
            fields={name: theirs for name, theirs in options.names.items() if name in LOG_FIELDS},
        ),
        TraceSettings(
            name=settings.name or "traces",
            licence=settings.licence or UNSTATED,
            history=options.history,
            assume_full=options.all_offered,
        ),
        redact=redactor_for(catalog, options.patterns) if options.redact else None,
        progress=progress,
    )
    return Imported(plan=plan, dataset=traces.dataset, exposures=traces.exposures, report=traces)


def _check_names(plan: ImportPlan, names: Mapping[str, str]) -> None:
    """Check that mapped fields are those of the files.

    Raises:
        ParameterError: one is not.
    """
    allowed, files = _FILE_FIELDS, "these files"
    if plan.family == LOG:
        allowed, files = (*LOG_FIELDS, *(OTHER_NAMES if plan.of_family(CATALOG) else ())), "a log"
    for name, theirs in names.items():
        if name not in allowed:
            hint = (
                f"; did you mean {theirs}={name}?" if theirs in allowed else suggest(name, allowed, most=len(allowed))
            )
            raise ParameterError(Message("labelling.mapped-field", name=name, files=files, hint=hint))


def import_options(**options: Any) -> ImportOptions:
    """Options by name, those of `ImportSettings` among them; `redact` may be a file with patterns.

    Raises:
        ParameterError: there is no such option, or a value is invalid.
    """
    general = [entry.name for entry in fields(ImportSettings)]
    allowed = [entry.name for entry in fields(ImportOptions) if entry.name not in ("settings", "patterns")]
    for name in options:
        check_choice("option", name, [*allowed, *general])
    settings = ImportSettings(**{name: options.pop(name) for name in general if name in options})
    if "renames" in options:
        options["renames"] = {ItemKey.parse(old): ItemKey.parse(new) for old, new in (options["renames"] or {}).items()}
    if not isinstance(options.get("redact", True), bool):
        options |= {"redact": True, "patterns": Path(options["redact"])}
    return ImportOptions(settings=settings, **options)


def check_target(plan: ImportPlan, folder: Path) -> None:
    """Check, before files are read, that a folder may be written.

    Raises:
        ParameterError: it holds something else, or labels of people.
    """
    if plan.family == CATALOG:
        refuse_other(folder)
    elif plan.family == LOG:
        refuse_overwriting(folder)


def write_import(imported: Imported, dataset: Dataset, folder: Path) -> bool:
    """Write the dataset of an import into a folder, all of it or nothing.

    Args:
        imported: the import.
        dataset: its dataset, perhaps over an agent file.
        folder: the folder; an earlier import of the same files is replaced if nothing was added to it.

    Returns:
        Whether an earlier import was replaced by another one.

    Raises:
        ParameterError: the folder has other contents, or labels that would be lost.
        StorageError: it cannot be written.
    """
    is_replaced = False
    if isinstance(imported.report, TraceImport):
        write_traces(replace(imported.report, dataset=dataset), folder)
    else:
        is_replaced = create_dataset(dataset, folder, replace=True)
    write_known_items(folder, dataset.catalog.ids)
    return is_replaced
