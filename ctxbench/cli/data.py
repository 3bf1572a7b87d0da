"""`ctxbench data list`, `show`, `validate`, `fetch`, `from-git` and `import`."""

from __future__ import annotations

import logging
import os
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ctxbench.catalogs.agent_file import is_agent_file
from ctxbench.catalogs.git_history import GitRepository
from ctxbench.catalogs.tool_lists import read_field_names
from ctxbench.cli.capture import keep_parts
from ctxbench.cli.common import dataset_inputs, print_json, print_result
from ctxbench.datasets import lookup
from ctxbench.datasets.dataset import Dataset, name_fault, name_of_path
from ctxbench.datasets.files import create_dataset, read_dataset, validate as faults_of, write_dataset
from ctxbench.datasets.layout import CARD, RENAMES, read_card
from ctxbench.datasets.lookup import dataset_folder, import_own, open_dataset
from ctxbench.datasets.queries import unlabelled_words
from ctxbench.evaluation.experiment import versions
from ctxbench.io.cache import refuse_outputs, row_with
from ctxbench.io.console import progress, say
from ctxbench.io.documents import dump_json, dump_jsonl, dump_yaml
from ctxbench.io.errors import Fault, InputError, ParameterError, UnknownNameError, UserError, count, first_few, quoted
from ctxbench.io.files import write_atomic
from ctxbench.io.rows import read_run
from ctxbench.io.workers import OptionalPool, Workers
from ctxbench.labelling import judgment_files, published
from ctxbench.labelling.conversion import ImportSettings, read_grades
from ctxbench.labelling.git_history import HistorySettings, grown_history, history_dataset
from ctxbench.labelling.import_files import (
    MAPPED_FIELDS,
    TRACES,
    Imported,
    ImportOptions,
    ImportPlan,
    check_target,
    import_files,
    open_items,
    plan_import,
    write_import,
)
from ctxbench.labelling.rebase import read_renames
from ctxbench.labelling.record_files import JOINED_FIELDS
from ctxbench.labelling.sources import CATALOG, COLLECTION, EVALS, LOG, data_files, import_kinds
from ctxbench.labelling.trace_import import scopes_of
from ctxbench.labelling.trace_labels import is_searchable
from ctxbench.model.items import ITEM_TYPES, Catalog

_STATES = {
    "cached": "on this machine, ready to use",
    "importable": "its source is installed; it is made at the first use",
    "not installed": "install the package in brackets first",
    "not fetched": "its files are public; the command in brackets fetches them",
}


def list_datasets(*, as_json: bool) -> None:
    """Print every dataset that has a name."""
    rows = lookup.list_datasets()
    width = max((len(row.name) for row in rows), default=0)
    shipped = dict.fromkeys(published.PackageData.provides, "  (comes with ctxbench)")
    how = {row.name: f"  ({row.install})" for row in rows if row.state.startswith("not ")}
    lines = (f"{r.name:<{width}}  {r.state:<13}  {r.version}{(shipped | how).get(r.name, '')}" for r in rows)
    print_result([asdict(row) for row in rows], *lines, as_json=as_json)
    words = [f"{state}: {meaning}" for state, meaning in _STATES.items() if any(r.state == state for r in rows)]
    if words and not as_json:
        say(f"({'; '.join(words)})", err=True)


def show(name: str, *, query: str | None, as_json: bool) -> None:
    """Print a dataset's card, or one query with its labels.

    Raises:
        UnknownNameError: there is no such dataset or query.
    """
    with progress() as bar:
        dataset = open_dataset(name, notify=bar.say)
    if query is not None:
        _show_query(dataset.take([query]), as_json=as_json)
        return
    card = {**dataset.card, "hash": dataset.hash}
    if "agent" in card:
        card["agent"] = os.path.relpath(card["agent"])
    of_items = {item.conversation for item in dataset.catalog} - {None}
    of_queries = {query.request.conversation for query in dataset.queries} - {None}
    if of_items or of_queries:
        card["conversations"] = {"items": len(of_items), "queries": len(of_queries)}
    sizes = {scope: f"{len(items)} items" for scope, items in card.get("scopes", {}).items()}
    text = dump_yaml(card | {"scopes": sizes} if sizes else card)
    print_result(card, *text.removesuffix("\n").split("\n"), as_json=as_json)


def _show_query(dataset: Dataset, *, as_json: bool) -> None:
    query = dataset.queries[0]
    labels: list[dict[str, Any]] = [
        {
            "id": label.item.id,
            "grade": label.grade,
            "via": label.via,
            "alternatives": label.alternatives,
            **({"quote": label.quote} if label.quote else {}),
        }
        for label in dataset.labels_of(query.id)
    ]
    row, grades = query.as_row(), {2: "required", 1: "helpful", 0: "irrelevant"}
    context = {name: row.get(name) for name in ("workspace", "user", "time", "only", "available", "scope")}
    lines = []
    for label in labels:
        group = f", one of {label['alternatives']}" if label["alternatives"] else ""
        lines.append(f"  {grades[label['grade']]:<10} {label['id']} ({label['via']}{group})")
        lines += [f"             of which it needs: {label['quote']}"] if "quote" in label else []
    print_result(
        {**row, "labels": labels},
        f"{query.id} ({query.split}; {', '.join(query.tags) or 'no tags'})",
        *quoted(query.request.text),
        *(f"  {name} {v if isinstance(v, str) else dump_json(v)}" for name, v in context.items() if v is not None),
        *lines,
        *["  needs nothing"] * query.needs_nothing,
        as_json=as_json,
    )


def validate(name: str, *, as_json: bool) -> int:
    """Print everything that is wrong with a dataset; the exit code is 0 if nothing is, else 2.

    Raises:
        UnknownNameError: it is neither a folder nor the name of a dataset.
        StorageError: its source is not installed.
    """
    if not Path(name).is_dir() and not name_fault(name):  # what an importer provides is imported first, as by `show`
        with progress() as bar, suppress(InputError):  # its faults are what is asked for
            open_dataset(name, notify=bar.say)
    folder = dataset_folder(name)
    faults = faults_of(folder)
    if as_json:
        rows = [
            {"message": f.message, "path": None if f.path is None else str(f.path), "line": f.line, "column": f.column}
            for f in faults
        ]
        print_json({"dataset": str(folder), "valid": not faults, "faults": rows})
    else:
        say(*map(str, faults))
        say(f"{folder}: {count(len(faults), 'fault')}" if faults else f"{folder}: valid; {_counts(folder)}")
    return 2 if faults else 0


def _counts(folder: Path) -> str:
    """What a valid dataset holds, in one line: who reads it sees what will be measured."""
    counts = read_dataset(folder).counts
    queries, none = (count(counts[name], "query", "queries") for name in ("queries", "needs_nothing"))
    text = f"{count(counts['items'], 'item')}, {queries}, {count(counts['labels'], 'label')}"
    text += f"; {none} {'needs' if counts['needs_nothing'] == 1 else 'need'} nothing"
    if counts["unlabelled"]:
        left = unlabelled_words(counts["unlabelled"], counts["partly_labelled"])
        text += f"; {left}, and so left out of every figure"
    return text


def import_dataset(
    name: str, *, out: Path | None, source: Path | None = None, own_files: bool = False, as_json: bool = False
) -> None:
    """Import a dataset into the cache, from the published files in the folder `source`; with `out`, write a copy.

    With `own_files` the files are the user's, in the same form, and the dataset is written to `out` alone.
    """
    with progress() as bar:
        if own_files:
            if source is None or out is None:
                raise ParameterError("--own needs the files, --from PLACE, and where the dataset goes, --out FOLDER")
            dataset = import_own(name, source, called=name_of_path(out, "own"))
            name = dataset.name
        elif out is None or source is not None:
            dataset = lookup.import_dataset(name, source=source, notify=bar.say)
        else:
            dataset = open_dataset(name, notify=bar.say)
        if out is not None:
            create_dataset(dataset, out)
            done = "written" if own_files else "copied"
            bar.say(f"dataset {name}: {len(dataset)} queries over {len(dataset.catalog)} items {done} to {out}")
            partly = {query.id for query in dataset.queries if query.partly_labelled}
            if own_files and (bare := [query for query in dataset.unlabelled if query not in partly]):
                why = "no turn is given as evidence, or none of these is an item"
                bar.say(f"{count(len(bare), 'query', 'queries')} without a label: {first_few(bare)}; {why}")
    if as_json:
        print_json(
            {
                "dataset": name,
                "version": dataset.version,
                "hash": dataset.hash,
                "queries": len(dataset),
                "items": len(dataset.catalog),
                "written": None if out is None else str(out),
            }
        )


def fetch_source(name: str, *, as_json: bool) -> None:
    """Fetch the files of a source, or of the source of a dataset, into the cache.

    Raises:
        UnknownNameError: there is no such source or dataset.
        StorageError: a file could not be had, or is another one than expected.
    """
    if name in ("bfcl", *published.BFCL.provides):
        _fetch_bfcl(as_json=as_json)
        return
    source = published.source_of(name)
    datasets = published.sources()[source.name][1]
    with progress() as bar:
        bar.say(f"{source.name}: from {source.page}; licence: {source.licence}")
        files = published.fetch(source, host=published.HOST, show=bar, notify=bar.say)
    _print_fetched(source.name, source.licence, source.folder, files, datasets, as_json=as_json)


def _fetch_bfcl(*, as_json: bool) -> None:
    licence = "Apache-2.0"
    with progress() as bar:
        bar.say(f"bfcl: from the wheel {published.BFCL_WHEEL.requirement}; licence: {licence}")
        folder, files = published.fetch_bfcl()
    _print_fetched("bfcl", licence, folder, files, published.BFCL.provides, as_json=as_json)


def _print_fetched(
    name: str, licence: str, folder: Path, files: Sequence[published.Fetched], datasets: Sequence[str], *, as_json: bool
) -> None:
    fresh, size = sum(file.fresh for file in files), sum(file.size for file in files)
    print_result(
        {
            "source": name,
            "licence": licence,
            "folder": str(folder),
            "files": [{"path": str(f.path), "bytes": f.size, "sha256": f.sha256, "fetched": f.fresh} for f in files],
            "datasets": list(datasets),
        },
        f"{name}: {len(files)} files, {size:,} bytes in {folder} ({fresh} fetched now)",
        f"datasets of it, imported at the first use: {', '.join(datasets)}",
        as_json=as_json,
    )


def write_history(
    folder: Path,
    settings: HistorySettings,
    *,
    out: Path | None,
    grow: bool = False,
    workers: Workers | None = None,
    as_json: bool,
) -> None:
    """Write the dataset of a repository, and say which commits it is made of.

    Args:
        folder: of the repository.
        settings: see there.
        out: where to; None = `datasets/NAME`.
        grow: a dataset of an older head is there, and goes on.
        workers: read commits; None = this process.
        as_json: print an object.

    Raises:
        UserError: the repository cannot be read, no commit of it is a request, or the folder holds something else.
    """
    repository, old = GitRepository(folder), None
    target = out if out is not None else Path("datasets") / _folder_name(repository.path)
    settings = replace(settings, name=name_of_path(target, "history"))
    with OptionalPool(workers, versions) as pool, progress() as bar:
        if grow:
            old = read_dataset(target)
            dataset, choice = grown_history(old, repository, settings, notify=bar, pool=pool)
            write_dataset(dataset, target)
        else:
            dataset, choice = history_dataset(repository, settings, notify=bar, pool=pool)
            _create(dataset, target)
    if repository.shallow:
        logging.getLogger(__name__).warning(
            "%s: a shallow clone; older commits are no queries (`git fetch --unshallow`)", folder
        )
    counts, source = dataset.counts, dataset.about["source"]
    splits = ", ".join(f"{name} {n:,}" for name, n in counts["splits"].items())
    new = "" if old is None else f", {len(dataset) - len(old):,} of them new"
    n_texts = len(settings.rules.texts)
    optional = {
        f"{source.get('texts_used', 0):,} of {n_texts:,} texts belong to commits that were looked at": n_texts,
        "left out: " + "; ".join(f"{n:,} {reason}" for reason, n in choice.out.items()): choice.out,
        "versions of files left out: "
        + "; ".join(f"{n:,} {reason}" for reason, n in source["files_out"].items()): source["files_out"],
    }
    print_result(
        {
            "dataset": str(target),
            "name": dataset.name,
            "commits": choice.looked_at,
            "out": dict(choice.out),
            "filesOut": source["files_out"],
            "counts": counts,
        },
        f"{target}: {count(len(dataset), 'query', 'queries')}{new} ({splits}) of {count(choice.looked_at, 'commit')}",
        f"{count(counts['items'], 'item')}: {', '.join(f'{n:,} {kind}' for kind, n in counts['types'].items())}; "
        f"{counts['required']:,} required, {counts['helpful']:,} helpful",
        *(line for line, applies in optional.items() if applies),
        f"next: `{shlex.join(['ctxbench', 'data', 'show', str(target)])}`",
        f"then `ctxbench run EXPERIMENT.yaml`, with `datasets: [{target}]` and `selectors: [bm25, codebase]` in that "
        "file",
        as_json=as_json,
    )


def _create(dataset: Dataset, target: Path) -> None:
    """Write a new dataset; if there is one of the same history, the error names --grow."""
    try:
        create_dataset(dataset, target)
    except ParameterError as error:
        source: object = None
        with suppress(UserError):
            source = read_dataset(target).about.get("source")
        head = source.get("head") if isinstance(source, dict) and source.get("format") == "git" else None
        if head in (None, dataset.about["source"]["head"]):
            raise
        raise ParameterError(
            f"{target} holds a dataset of commit {str(head)[:12]}; --grow adds the requests since then and keeps its "
            "queries and labels; or name another folder"
        ) from error


def _folder_name(repository: Path) -> str:
    """The name of a repository's folder: of a checkout that of the working tree, of a bare one without its ending."""
    folder = repository.resolve()
    of_checkout = folder.parent if folder.name == ".git" else folder
    return name_of_path(of_checkout.with_name(of_checkout.name.removesuffix(".git")), "history")


_SHOWN = 3  # requests that --dry-run shows
_RENAMED = 10  # renamed items that a message names
_GOLDEN = (
    "An item that the expected ones of a request do not name counts as not needed, whatever its kind; an empty "
    "list of expected items says that nothing is needed, and a request without one, or with an empty cell, is "
    "unlabelled."
)
_DOCUMENTS = (
    "A document that the labels of a query do not name counts as not needed, whatever its --type (here {type}); a "
    "query without a required document is unlabelled."
)
_TRIGGERS = (
    "A skill whose file does not name a request counts as not needed if the request should trigger another one. "
    "Else that is unknown, and the request is unlabelled (with --nothing-else it needs nothing)."
)
_TRIGGERS_ALONE = (
    "A skill whose file does not name a request counts as not needed; a request that should trigger none needs "
    "nothing, as --nothing-else says."
)


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """What `ctxbench data import` was asked for; the fields are its options."""

    paths: Sequence[str]
    catalog: str | None = None
    out: Path | None = None
    kind: str | None = None
    names: str | None = None
    dry_run: bool = False
    item_type: str | None = None
    grades: str | None = None
    name: str | None = None
    licence: str | None = None
    version: str | None = None
    history: int | None = None
    all_offered: bool = False
    renames: Path | None = None
    redact: Path | None = None
    no_redact: bool = False
    nothing_else: bool = False
    server: str | None = None
    hide_keys: bool = False
    source: Path | None = None
    own_files: bool = False
    dataset: str | None = None
    keep: int | None = None

    @property
    def command(self) -> str:
        """The command, without the mapping of fields."""
        catalog = ["-c", self.catalog or "CATALOG"]
        out = ["--out", str(self.out)] if self.out else ["--dry-run"]
        kind = ["--as", self.kind] if self.kind else []
        return shlex.join(["ctxbench", "data", "import", *self.paths, *catalog, *out, *kind])

    def options(self) -> ImportOptions:
        """The options of `import_files`.

        Raises:
            ParameterError: an option is invalid, or two exclude each other.
        """
        if self.no_redact and self.redact is not None:
            raise ParameterError("--redact and --no-redact exclude each other; leave one out")
        return ImportOptions(
            kind=self.kind,
            names=read_field_names(self.names, allowed=MAPPED_FIELDS, of="a file", joined=JOINED_FIELDS)
            if self.names
            else {},
            settings=ImportSettings(
                name=self.name,
                version=self.version,
                type=self.item_type or ImportSettings.type,
                grades=None if self.grades is None else read_grades(self.grades),
                licence=self.licence,
                command=self.command,
            ),
            history=20 if self.history is None else self.history,
            all_offered=self.all_offered,
            renames={} if self.renames is None else read_renames(self.renames),
            redact=not self.no_redact,
            patterns=self.redact,
            nothing_else=self.nothing_else,
            server=self.server,
        )

    def check_only(self, names: Collection[str], title: str) -> None:
        """Check that no options but some are used.

        Raises:
            ParameterError: another one is.
        """
        for entry in fields(self):
            if entry.name not in (*names, "paths", "kind") and getattr(self, entry.name) != entry.default:
                raise ParameterError(f"--{_FLAGS.get(entry.name, entry.name.replace('_', '-'))} is not for {title}")

    def check_options(self, plan: ImportPlan) -> None:
        """Check that each option is of the family of the files.

        Raises:
            ParameterError: an option is for files of another family.
        """
        for family, names in _OPTIONS.items():
            used = [name for name in names if getattr(self, name) not in (None, False)]
            if used and not plan.of_family(family):
                option = used[0].replace("_", "-")
                titles = ", ".join(kind.title for kind in plan.titles)
                raise ParameterError(f"--{option} is for {_FAMILIES[family]}; the files are {titles}")


_OF_DATASETS = ("out", "source", "own_files")  # the options for a public dataset
_OF_RUNS = ("out", "dataset", "keep")
_FLAGS = {"names": "map", "item_type": "type", "source": "from", "own_files": "own"}
_FAMILIES = {
    LOG: "logs",
    EVALS: "evals",
    CATALOG: "lists of tools or documents",
}
_OPTIONS = {
    LOG: ("history", "all_offered", "renames", "redact", "no_redact"),
    EVALS: ("nothing_else",),
    CATALOG: ("server", "hide_keys"),
}


def import_any(request: ImportRequest, *, as_json: bool) -> int:
    """Import files of any kind, or a public dataset, and print what was found; returns the exit code.

    Raises:
        UserError: files are missing, of no kind, or faulty; or the folder holds something else.
    """
    first = request.paths[0]
    _check_first(request)
    if request.kind == "dataset" or (first in lookup.importers() and not Path(first).exists()):
        if len(request.paths) > 1:
            raise ParameterError(f"one public dataset at a time; got {', '.join(request.paths)}")
        request.check_only(_OF_DATASETS, "public datasets")
        import_dataset(first, out=request.out, source=request.source, own_files=request.own_files, as_json=as_json)
        return 0
    if request.kind == "run":
        request.check_only(_OF_RUNS, "rankings of TREC (--as run), which take --dataset, --keep and --out")
        import_run(request, as_json=as_json)
        return 0
    if request.out is None and not request.dry_run:
        data_files([Path(path) for path in request.paths])  # a missing file is named first
        raise ParameterError("name the folder for the result: --out FOLDER; or use --dry-run")
    special = {*_OF_DATASETS, *_OF_RUNS} - {"out"}
    request.check_only([entry.name for entry in fields(request) if entry.name not in special], "files of this kind")
    return _import_paths(request, as_json=as_json)


def _check_first(request: ImportRequest) -> None:
    """Check that the first path, if there is no such file, is no misspelt kind or name of a public dataset.

    Raises:
        ParameterError: it is nearly the name of a kind.
        UnknownNameError: it is nearly the name of a dataset, and stands alone.
    """
    first, names = request.paths[0], lookup.importers()
    if request.kind is not None or first in names or Path(first).exists():
        return
    kinds = get_close_matches(first, [*import_kinds(), TRACES, "dataset", "run"], 1, 0.75)
    if kinds and len(request.paths) > 1:
        raise ParameterError(f"no import {first!r}; did you mean {kinds[0]}? See `ctxbench data import --help`")
    close = get_close_matches(first, names, 1, 0.75) or [name for name in names if name.startswith(f"{first}-")]
    if len(request.paths) == 1 and close:
        raise UnknownNameError("dataset", first, names)


def _import_paths(request: ImportRequest, *, as_json: bool) -> int:
    options, out = request.options(), request.out
    options = replace(options, folder=out)
    catalog = None if request.catalog is None else open_items(request.catalog)
    scopes = {} if request.catalog is None else scopes_of(dataset_folder(request.catalog))
    files = [Path(path) for path in request.paths]
    plan = plan_import(
        files, kind=request.kind, has_catalog=catalog is not None, command=request.command, names=options.names
    )
    request.check_options(plan)
    if out is not None:
        check_target(plan, out)
    say(*label_notes(plan, options, catalog), err=True)
    try:
        with progress() as bar:
            imported = import_files(plan, catalog, options=options, scopes=scopes, progress=bar)
    except UserError as error:
        say(*kind_lines(plan), err=True)
        if isinstance(error, InputError) and plan.family == EVALS and out is not None and (followed := _followed(out)):
            fault = Fault(followed, plan.of_family(EVALS)[0])
            raise InputError([*error.faults, fault], subject=error.subject) from error
        raise
    say(*kind_lines(plan), err=as_json)
    if request.dry_run or out is None:
        _show(imported, as_json=as_json)
        return 0
    if imported.dataset is None:
        return keep_parts(imported.parts, out=out, as_json=as_json, hide_keys=request.hide_keys)
    dataset = _with_agent(imported.dataset, plan, request)
    replaced = write_import(imported, dataset, out)
    from ctxbench.cli.tune import next_step_line  # both load what fits selectors
    from ctxbench.tuning.held_out import next_step

    with progress() as bar:
        line = next_step_line(next_step(dataset, progress=bar), str(out))
    if as_json:
        written = {"dataset": dataset.name, "hash": dataset.hash, "written": str(out)}
        print_json({**imported.as_dict(), **written, "replaced": replaced, "next": line.removeprefix("next: ")})
        return 0
    say(f"{out}: {found_line(imported)}", *imported.lines())
    if replaced:
        say("replaced what an earlier import of the files made")
    say(line)
    return 0


def _show(imported: Imported, *, as_json: bool) -> None:
    """Print what an import would write: the first requests with their labels."""
    dataset = imported.dataset
    if as_json:
        print_json({**imported.as_dict(), "written": None})
    elif dataset is None:
        say(f"{count(sum(len(part.items) for part in imported.parts), 'item')}; nothing was written (--dry-run)")
    else:
        say(found_line(imported), *imported.lines())
        for query in dataset.queries[:_SHOWN]:
            _show_query(dataset.take([query.id]), as_json=False)
        say("nothing was written (--dry-run)")


def _with_agent(dataset: Dataset, plan: ImportPlan, request: ImportRequest) -> Dataset:
    """The dataset over the agent file of the catalog, if it is one, with the path of its file of evals."""
    if plan.family == EVALS and request.out is not None and len(files := plan.of_family(EVALS)) == 1:
        source = {**dataset.about["source"], "path": _path_from(request.out, files[0])}
        dataset = replace(dataset, about={**dataset.about, "source": source})
    return dataset.of_agent(Path(request.catalog) if request.catalog and is_agent_file(request.catalog) else None)


def _path_from(folder: Path, file: Path) -> str:
    """The path of a file relative to a folder; where there is none (another drive), its name."""
    try:
        return Path(os.path.relpath(file.absolute(), folder.absolute())).as_posix()
    except ValueError:
        return file.name


def _followed(folder: Path) -> str:
    """That the dataset which an import would replace follows renamed items, whose old ids the file may have."""
    renames = read_card(folder).get(RENAMES) if (folder / CARD).is_file() else None
    if not isinstance(renames, dict) or not renames:
        return ""
    pairs = ", ".join(f"{old} is {new} now" for old, new in list(renames.items())[:_RENAMED])
    return f"{folder} follows renamed items; write their new ids in the evals, too: {pairs}"


def label_notes(plan: ImportPlan, options: ImportOptions, catalog: Catalog | None) -> list[str]:
    """Which items without a label will count as not needed."""
    if plan.family == LOG:
        return [] if catalog is None else list(_log_notes(catalog))
    if plan.family == COLLECTION:
        return [_DOCUMENTS.format(type=options.settings.type)]
    names = {kind.name for kind in plan.titles if kind.family == EVALS}
    triggers = _TRIGGERS_ALONE if options.nothing_else else _TRIGGERS
    return [*[_GOLDEN] * bool(names - {"triggers"}), *[triggers] * ("triggers" in names)]


def _log_notes(catalog: Catalog) -> Iterator[str]:
    """What the types of the items of a catalog mean for the labels of a log."""
    if not (counts := Counter(item.type for item in catalog if is_searchable(item))):
        yield (
            "Items that were not called count as unknown: no item of the catalog can be found by search (all are "
            "disabled, always included, or manual)."
        )
    elif counts.keys() == {"tool"}:
        yield (
            "Tools that were not called count as not needed if the request was offered all tools that it may get "
            f"({counts['tool']:,} in the catalog); else as unknown, and the query is labelled in part."
        )
    else:
        types = ", ".join(count(counts[name], f"{name} item") for name in ITEM_TYPES if counts[name])
        if n_left_out := len(catalog) - counts.total():
            types += f", and {n_left_out:,} more that no search offers"
        yield (
            f"Items that were not called count as unknown: the catalog has {types}, and a log cannot show whether a "
            "rule, skill or reference was needed."
        )
        if counts["tool"]:
            yield "Only requests that may get tools alone can be labelled in full."


def kind_lines(plan: ImportPlan) -> Iterator[str]:
    """What each file was taken for, one line per kind."""
    for kind, paths in plan.titles.items():
        names = f"{paths[0]}" if len(paths) == 1 else f"{len(paths):,} files from {paths[0]} on"
        yield f"{names}: {kind.title} (--as {kind.name})"
    if plan.skipped:
        some = ", ".join(str(path) for path in plan.skipped[:_SHOWN])
        more = ", ..." if len(plan.skipped) > _SHOWN else ""
        yield f"{count(len(plan.skipped), 'file')} left out (of no known kind, or items beside -c): {some}{more}"


def found_line(imported: Imported) -> str:
    """What an import found, in one line."""
    found, dataset = imported.found, imported.dataset
    if dataset is None:
        return ""
    splits = ", ".join(f"{name} {n:,}" for name, n in dataset.counts["splits"].items())
    text = f"{count(found['requests'], 'request')} ({splits}), {count(found['labels'], 'label')}"
    text += f", {count(found['forbidden'], 'forbidden item')}, {count(found['offered'], 'offered set')}"
    text += f" over {count(len(dataset.catalog), 'item')}"
    partly = dataset.counts["partly_labelled"]
    unlabelled = dataset.counts["unlabelled"] - partly
    full = len(dataset) - dataset.counts["unlabelled"]
    return f"{text}; {full:,} labelled in full, {partly:,} in part, {unlabelled:,} not at all"


def import_run(request: ImportRequest, *, as_json: bool) -> None:
    """Write a TREC run as answers that `ctxbench score` reads.

    Raises:
        ParameterError: the dataset or the file for the answers is not named.
    """
    if request.dataset is None or request.out is None:
        raise ParameterError("a ranking becomes answers: name the dataset with -d, and the file with --out")
    run, out, keep = Path(request.paths[0]), request.out, 5 if request.keep is None else request.keep
    read = {"the ranking": [run], **dataset_inputs(request.dataset)}
    refuse_outputs({"--out": out}, read, may_replace={"--out": row_with("query", "items", "ranking")})
    with progress() as bar:
        opened = open_dataset(request.dataset, notify=bar.say)
    answers, odd = judgment_files.answers_of_run(read_run(run), opened, keep=keep)
    write_atomic(out, dump_jsonl(answers))
    print_result(
        {"answers": len(answers), "written": str(out), "odd": odd},
        *(
            f"{problem}: {len(ids):,} ({', '.join(ids[:3])}{', ...' if len(ids) > 3 else ''})"
            for problem, ids in odd.items()
            if ids
        ),
        f"{len(answers):,} answers, at most {keep} items offered in each, written to {out}",
        as_json=as_json,
    )
