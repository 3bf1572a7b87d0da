"""`ctxbench data list`, `show`, `validate`, `fetch`, `from-git` and `import`."""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from ctxbench.catalogs.agent_file import is_agent_file, open_catalog
from ctxbench.catalogs.git_history import GitRepository
from ctxbench.cli.common import dataset_inputs, print_json
from ctxbench.cli.select import find_catalog
from ctxbench.datasets import lookup
from ctxbench.datasets.dataset import Dataset, name_fault, name_of_path
from ctxbench.datasets.files import create_dataset, read_dataset, write_dataset
from ctxbench.datasets.files import validate as faults_of
from ctxbench.datasets.layout import CARD, RENAMES, read_card, write_known_items
from ctxbench.datasets.lookup import dataset_folder, import_own, open_dataset
from ctxbench.datasets.queries import unlabelled_words
from ctxbench.io.cache import refuse_outputs, row_with
from ctxbench.io.console import progress, say
from ctxbench.io.documents import dump_json, dump_jsonl, dump_yaml
from ctxbench.io.errors import Fault, InputError, ParameterError, UserError, count, quoted
from ctxbench.io.files import write_atomic
from ctxbench.labelling import evals, judgment_files, published
from ctxbench.labelling.conversion import Conversion, ImportSettings, read_grades
from ctxbench.labelling.git_history import HistorySettings, grown_history, history_dataset
from ctxbench.labelling.rebase import read_renames
from ctxbench.labelling.record_files import read_eval_names
from ctxbench.labelling.trace_import import TraceSettings, TraceSource, import_into, refuse_overwriting, scopes_of
from ctxbench.labelling.trace_labels import kind_notes

_STATES = {
    "cached": "on this machine, ready to use",
    "importable": "its source is installed; it is made at the first use",
    "not installed": "install the package in brackets first",
    "not fetched": "its files are public; the command in brackets fetches them",
}


def list_datasets(*, as_json: bool) -> None:
    """Print every dataset that has a name."""
    rows = lookup.list_datasets()
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        how = f"  ({row.install})" if row.state.startswith("not ") else ""
        say(f"{row.name:<{width}}  {row.state:<13}  {row.version}{how}")
    if words := [f"{state}: {meaning}" for state, meaning in _STATES.items() if any(r.state == state for r in rows)]:
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
    if as_json:
        print_json(card)
    else:
        if "scopes" in card:
            card["scopes"] = {scope: f"{len(items)} items" for scope, items in card["scopes"].items()}
        say(*dump_yaml(card).removesuffix("\n").split("\n"))


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
    if as_json:
        print_json({**query.as_row(), "labels": labels})
        return
    say(f"{query.id} ({query.split}; {', '.join(query.tags) or 'no tags'})")
    say(*quoted(query.request.text))
    context = {name: query.as_row().get(name) for name in ("workspace", "user", "time", "only", "available", "scope")}
    for name, value in context.items():
        if value is not None:
            say(f"  {name} {value if isinstance(value, str) else dump_json(value)}")
    grades = {2: "required", 1: "helpful", 0: "irrelevant"}
    for label in labels:
        group = f", one of {label['alternatives']}" if label["alternatives"] else ""
        say(f"  {grades[label['grade']]:<10} {label['id']} ({label['via']}{group})")
        if "quote" in label:
            say(f"             of which it needs: {label['quote']}")
    if query.needs_nothing:
        say("  needs nothing")


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
    source = published.source_of(name)
    datasets = published.sources()[source.name][1]
    with progress() as bar:
        bar.say(f"{source.name}: from {source.page}; licence: {source.licence}")
        files = published.fetch(source, host=published.HOST, show=bar, notify=bar.say)
    if as_json:
        rows = [{"path": str(f.path), "bytes": f.size, "sha256": f.sha256, "fetched": f.fresh} for f in files]
        print_json(
            {
                "source": source.name,
                "licence": source.licence,
                "folder": str(source.folder),
                "files": rows,
                "datasets": list(datasets),
            }
        )
        return
    fresh = sum(file.fresh for file in files)
    size = sum(file.size for file in files)
    say(f"{source.name}: {len(files)} files, {size:,} bytes in {source.folder} ({fresh} fetched now)")
    say(f"datasets of it, imported at the first use: {', '.join(datasets)}")


def write_history(
    folder: Path, settings: HistorySettings, *, out: Path | None, grow: bool = False, as_json: bool
) -> None:
    """Write the dataset of a repository, and say which commits it is made of.

    Args:
        folder: of the repository.
        settings: see there.
        out: where to; None = `datasets/NAME`.
        grow: a dataset of an older head is there, and goes on.
        as_json: print an object.

    Raises:
        UserError: the repository cannot be read, no commit of it is a request, or the folder holds something else.
    """
    repository, old = GitRepository(folder), None
    target = out if out is not None else Path("datasets") / _folder_name(repository.path)
    settings = replace(settings, name=name_of_path(target, "history"))
    with progress() as bar:
        if grow:
            old = read_dataset(target)
            dataset, choice = grown_history(old, repository, settings, notify=bar)
            write_dataset(dataset, target)
        else:
            dataset, choice = history_dataset(repository, settings, notify=bar)
            _create(dataset, target)
    if repository.shallow:
        logging.getLogger(__name__).warning(
            "%s: a shallow clone; older commits are no queries (`git fetch --unshallow`)", folder
        )
    if as_json:
        print_json(
            {
                "dataset": str(target),
                "name": dataset.name,
                "commits": choice.looked_at,
                "out": dict(choice.out),
                "filesOut": dataset.about["source"]["files_out"],
                "counts": dataset.counts,
            }
        )
        return
    counts = dataset.counts
    splits = ", ".join(f"{name} {n:,}" for name, n in counts["splits"].items())
    new = "" if old is None else f", {len(dataset) - len(old):,} of them new"
    say(f"{target}: {count(len(dataset), 'query', 'queries')}{new} ({splits}) of {count(choice.looked_at, 'commit')}")
    say(
        f"{count(counts['items'], 'item')}: {', '.join(f'{n:,} {kind}' for kind, n in counts['types'].items())}; "
        f"{counts['required']:,} required, {counts['helpful']:,} helpful"
    )
    if n_texts := len(settings.rules.texts):
        say(f"{dataset.about['source']['texts_used']:,} of {n_texts:,} texts belong to commits that were looked at")
    if choice.out:
        say("left out: " + "; ".join(f"{n:,} {reason}" for reason, n in choice.out.items()))
    if files_out := dataset.about["source"]["files_out"]:
        say("versions of files left out: " + "; ".join(f"{n:,} {reason}" for reason, n in files_out.items()))
    name = str(target)
    say(f"next: `{shlex.join(['ctxbench', 'data', 'show', name])}`")
    say(
        f"then `ctxbench run EXPERIMENT.yaml`, with `datasets: [{name}]` and `selectors: [bm25, codebase]` in that file"
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


NEXT_MINUTES = 20


def import_traces(
    logs: list[Path],
    *,
    catalog: str,
    out: Path,
    settings: TraceSettings,
    renames: Path | None = None,
    redact: bool | Path,
    as_json: bool,
) -> None:
    """Make a dataset of logs, write it, and print what it holds and what to do next.

    What the catalog means for the labels is said on standard error before a log is read.

    Args:
        logs: files of turns or spans.
        catalog: a file of items, a dataset's folder, or its name; or an agent file, whose items the dataset then
            reads anew each time.
        out: the folder to write.
        settings: see there.
        renames: a file of ids that the logs have, old to new.
        redact: whether texts are redacted; a path names a file of own patterns.
        as_json: print the report as JSON.

    Raises:
        StorageError, InputError, ParameterError: a log, the catalog or the folder is not what it should be.
    """
    refuse_overwriting(out)  # before a catalog is read, which may take long
    items, scopes = open_catalog(catalog), scopes_of(dataset_folder(catalog))
    if all(log.is_file() for log in logs):  # else nothing will be read
        say(*kind_notes(items), err=True)
    with progress() as bar:
        source = TraceSource(
            logs=tuple(logs),
            catalog=items,
            scopes=scopes,
            renames={} if renames is None else read_renames(renames),
        )
        imported = import_into(
            out,
            source,
            settings,
            redact=bool(redact),
            patterns=redact if isinstance(redact, Path) else None,
            progress=bar,
        )
    if is_agent_file(catalog):
        write_dataset(imported.dataset.of_agent(Path(catalog)), out)
        write_known_items(out, items.ids)
    next_step = shlex.join(["ctxbench", "data", "label", str(out), "--minutes", str(NEXT_MINUTES)])
    if as_json:
        print_json({"dataset": str(out), "hash": imported.dataset.hash, **imported.report.as_dict(), "next": next_step})
        return
    lines = imported.report.lines()
    if imported.report.is_labelled:
        lines[0] = f"{out}: {lines[0]}"
    say(*lines)
    if imported.dataset.unlabelled:
        say(f"Only wholly labelled queries are measured with. To label more: {next_step}")


def redaction(patterns: Path | None, *, off: bool) -> bool | Path:
    """Whether texts are redacted, and with which own patterns.

    Raises:
        ParameterError: patterns are named and redaction is off.
    """
    if off and patterns is not None:
        raise ParameterError("--redact and --no-redact exclude each other; leave one out")
    return not off if patterns is None else patterns


_SHOWN = 10  # renamed items that a message names
_GOLDEN = (
    "An item that `expected` does not name counts as not needed, whatever its kind; a record without `expected` "
    "is unlabelled."
)
_TRIGGERS = (
    "A skill whose file does not name a request counts as not needed if the request should trigger another one. "
    "Else that is unknown, and the request is unlabelled (with --nothing-else it needs nothing)."
)
_TRIGGERS_ALONE = (
    "A skill whose file does not name a request counts as not needed; a request that should trigger none needs "
    "nothing, as --nothing-else says."
)


def settings(
    *, name: str | None, item_type: str, grades: str | None, licence: str | None, version: str | None
) -> ImportSettings:
    """The settings of an import, from the options of the command line.

    Raises:
        ParameterError: the name, the type or the mapping of grades is none.
    """
    return ImportSettings(
        name=name,
        version=version,
        type=item_type,
        grades=None if grades is None else read_grades(grades),
        licence=licence,
    )


def import_beir(folder: Path, how: ImportSettings, *, out: Path, as_json: bool) -> None:
    """Make a dataset of a BEIR folder."""
    _written(lambda: judgment_files.import_beir(folder, how), out, label_note=_documents(how), as_json=as_json)


def import_trec(
    qrels: Sequence[str], how: ImportSettings, *, queries: Path, corpus: Path, out: Path, as_json: bool
) -> None:
    """Make a dataset of TREC qrels (each as PATH or SPLIT=PATH), queries and documents.

    Raises:
        ParameterError: two files are given for one split.
    """
    files: dict[str, Path] = {}
    for text in qrels:
        split, sign, path = text.partition("=")
        name, file = (split, path) if sign and not Path(text).exists() else ("", text)
        if name in files:
            raise ParameterError(
                f"two files of qrels for {f'split {name!r}' if name else 'no split'}; name their splits"
            )
        files[name] = Path(file)
    make = partial(judgment_files.import_trec, files, queries=queries, corpus=corpus, settings=how)
    _written(make, out, label_note=_documents(how), as_json=as_json)


def import_autorag(qa: Path, how: ImportSettings, *, corpus: Path, out: Path, as_json: bool) -> None:
    """Make a dataset of AutoRAG's questions and corpus."""
    make = partial(judgment_files.import_autorag, qa, corpus=corpus, settings=how)
    _written(make, out, label_note=_documents(how), as_json=as_json)


def import_golden(
    file: Path, how: ImportSettings, *, catalog: str, out: Path, names: str | None = None, as_json: bool
) -> None:
    """Make a dataset of hand-written evals over a catalog.

    `names` says what the file calls the fields, see `read_field_names`.
    """
    mapping = read_eval_names(names or "")
    items, agent = find_catalog(catalog), Path(catalog) if is_agent_file(catalog) else None

    def make() -> Conversion:
        named = replace(how, name=how.name or name_of_path(out, "evals"))
        try:
            conversion = evals.import_golden(file, items, settings=named, names=mapping)
        except InputError as error:
            if followed := _followed(out):
                raise InputError([*error.faults, Fault(followed, file)], subject=error.subject) from error
            raise
        dataset = conversion.dataset.of_agent(agent)
        source = {**dataset.about["source"], "path": _path_from(out, file)}
        return replace(conversion, dataset=replace(dataset, about={**dataset.about, "source": source}))

    _written(make, out, label_note=_GOLDEN, as_json=as_json, replace_import=True)


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
    pairs = ", ".join(f"{old} is {new} now" for old, new in list(renames.items())[:_SHOWN])
    return f"{folder} follows renamed items; write their new ids in the evals, too: {pairs}"


def import_triggers(folder: Path, how: ImportSettings, *, nothing_else: bool, out: Path, as_json: bool) -> None:
    """Make a dataset of a folder of skills and their trigger evals."""
    make = partial(evals.import_triggers, folder, settings=how, nothing_else=nothing_else)
    _written(make, out, label_note=_TRIGGERS_ALONE if nothing_else else _TRIGGERS, as_json=as_json)


def import_run(run: Path, *, dataset: str, keep: int, out: Path, as_json: bool) -> None:
    """Write a TREC run as answers that `ctxbench score` reads."""
    read = {"the ranking": [run], **dataset_inputs(dataset)}
    refuse_outputs({"--out": out}, read, may_replace={"--out": row_with("query", "items", "ranking")})
    with progress() as bar:
        opened = open_dataset(dataset, notify=bar.say)
    answers, odd = judgment_files.answers_of_run(judgment_files.read_run(run), opened, keep=keep)
    write_atomic(out, dump_jsonl(answers))
    if as_json:
        print_json({"answers": len(answers), "written": str(out), "odd": odd})
        return
    say(
        *(
            f"{problem}: {len(ids):,} ({', '.join(ids[:3])}{', ...' if len(ids) > 3 else ''})"
            for problem, ids in odd.items()
            if ids
        )
    )
    say(f"{len(answers):,} answers, at most {keep} items offered in each, written to {out}")


def _documents(how: ImportSettings) -> str:
    return (
        f"A document that the labels of a query do not name counts as not needed, whatever its --type (here "
        f"{how.type}); a query without a required document is unlabelled."
    )


def _written(
    make: Callable[[], Conversion], out: Path, *, label_note: str, as_json: bool, replace_import: bool = False
) -> None:
    """Make a dataset, write it, and print what was counted on the way.

    Args:
        make: makes it.
        out: the folder to write.
        label_note: whether an item without a label is not needed; printed before anything is written.
        as_json: print JSON.
        replace_import: replace what an earlier import made of the same file, if nothing was added to it.
    """
    conversion = make()
    dataset = conversion.dataset
    say(label_note, err=True)
    replaced = create_dataset(dataset, out, replace=replace_import)
    write_known_items(out, dataset.catalog.ids)
    if as_json:
        print_json({**conversion.as_dict(), "written": str(out), **({"replaced": True} if replaced else {})})
        return
    counts = dataset.counts
    if not dataset.labels and not counts["needs_nothing"]:
        say(f"0 labels: {count(len(dataset), 'request')} to label")
    say(*conversion.lines())
    splits = ", ".join(f"{name} {n:,}" for name, n in counts["splits"].items())
    say(
        f"dataset {dataset.name}: {count(len(dataset), 'query', 'queries')} ({splits}), "
        f"{count(len(dataset.labels), 'label')} over {count(len(dataset.catalog), 'item')}; "
        f"{unlabelled_words(counts['unlabelled'], counts['partly_labelled'])}"
    )
    say(f"written to {out}{', in place of what an earlier import of the file made' if replaced else ''}")
