"""`ctxbench data import beir | trec | autorag | golden | triggers | run`: other files as datasets and answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.cli.read_files import dataset_inputs
from ctxbench.core.errors import Fault, InputError, ParameterError
from ctxbench.io.console import say
from ctxbench.io.output_paths import refuse_outputs, row_with

if TYPE_CHECKING:
    from ctxbench.data.importers.formats.conversion import Conversion, ImportSettings

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
    from ctxbench.data.importers.formats.conversion import ImportSettings, read_grades

    mapping = None if grades is None else read_grades(grades)
    return ImportSettings(name=name, version=version, type=item_type, grades=mapping, licence=licence)


def import_beir(folder: Path, how: ImportSettings, *, out: Path, as_json: bool) -> None:
    """Make a dataset of a BEIR folder."""
    from ctxbench.data.importers.formats.qrels import import_beir as imported

    _written(lambda: imported(folder, how), out, label_note=_documents(how), as_json=as_json)


def import_trec(
    qrels: Sequence[str], how: ImportSettings, *, queries: Path, corpus: Path, out: Path, as_json: bool
) -> None:
    """Make a dataset of TREC qrels (each as PATH or SPLIT=PATH), queries and documents.

    Raises:
        ParameterError: two files are given for one split.
    """
    from ctxbench.data.importers.formats.qrels import import_trec as imported

    files: dict[str, Path] = {}
    for text in qrels:
        split, sign, path = text.partition("=")
        name, file = (split, path) if sign and not Path(text).exists() else ("", text)
        if name in files:
            raise ParameterError(
                f"two files of qrels for {f'split {name!r}' if name else 'no split'}; name their splits"
            )
        files[name] = Path(file)
    make = partial(imported, files, queries=queries, corpus=corpus, settings=how)
    _written(make, out, label_note=_documents(how), as_json=as_json)


def import_autorag(qa: Path, how: ImportSettings, *, corpus: Path, out: Path, as_json: bool) -> None:
    """Make a dataset of AutoRAG's questions and corpus."""
    from ctxbench.data.importers.formats.autorag import import_autorag as imported

    _written(lambda: imported(qa, corpus=corpus, settings=how), out, label_note=_documents(how), as_json=as_json)


def import_golden(
    file: Path, how: ImportSettings, *, catalog: str, out: Path, names: str | None = None, as_json: bool
) -> None:
    """Make a dataset of hand-written evals over a catalog.

    `names` says what the file calls the fields, see `read_field_names`.
    """
    from ctxbench.cli.select import find_catalog
    from ctxbench.data.datasets.dataset import name_of_path
    from ctxbench.data.importers.formats.eval_fields import read_eval_names
    from ctxbench.data.importers.formats.golden import import_golden as imported
    from ctxbench.sources.agent_file import is_agent_file

    mapping = read_eval_names(names or "")
    items, agent = find_catalog(catalog), Path(catalog) if is_agent_file(catalog) else None

    def make() -> Conversion:
        named = replace(how, name=how.name or name_of_path(out, "evals"))
        try:
            conversion = imported(file, items, settings=named, names=mapping)
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
    from ctxbench.data.datasets.layout import CARD, RENAMES, read_card

    renames = read_card(folder).get(RENAMES) if (folder / CARD).is_file() else None
    if not isinstance(renames, dict) or not renames:
        return ""
    pairs = ", ".join(f"{old} is {new} now" for old, new in list(renames.items())[:_SHOWN])
    return f"{folder} follows renamed items; write their new ids in the evals, too: {pairs}"


def import_triggers(folder: Path, how: ImportSettings, *, nothing_else: bool, out: Path, as_json: bool) -> None:
    """Make a dataset of a folder of skills and their trigger evals."""
    from ctxbench.data.importers.formats.triggers import import_triggers as imported

    make = partial(imported, folder, settings=how, nothing_else=nothing_else)
    _written(make, out, label_note=_TRIGGERS_ALONE if nothing_else else _TRIGGERS, as_json=as_json)


def import_run(run: Path, *, dataset: str, keep: int, out: Path, as_json: bool) -> None:
    """Write a TREC run as answers that `ctxbench score` reads."""
    from ctxbench.data.datasets.lookup import open_dataset
    from ctxbench.data.importers.formats.qrels import answers_of_run, read_run
    from ctxbench.io.files import write_atomic
    from ctxbench.io.json_files import dump_jsonl

    read = {"the ranking": [run], **dataset_inputs(dataset)}
    refuse_outputs({"--out": out}, read, may_replace={"--out": row_with("query", "items", "ranking")})
    with progress() as bar:
        opened = open_dataset(dataset, notify=bar.say)
    answers, odd = answers_of_run(read_run(run), opened, keep=keep)
    write_atomic(out, dump_jsonl(answers))
    if as_json:
        print_json({"answers": len(answers), "written": str(out), "odd": odd})
        return
    for problem, ids in odd.items():
        if ids:
            say(f"{problem}: {len(ids):,} ({', '.join(ids[:3])}{', ...' if len(ids) > 3 else ''})")
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
        replace_import: replace what an earlier import made of the same file, if nobody has added to it.
    """
    from ctxbench.data.datasets.layout import write_known_items
    from ctxbench.data.datasets.query_labels import unlabelled_words
    from ctxbench.data.datasets.writer import create_dataset
    from ctxbench.io.visible import count

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
    for line in conversion.lines():
        say(line)
    splits = ", ".join(f"{name} {n:,}" for name, n in counts["splits"].items())
    say(
        f"dataset {dataset.name}: {count(len(dataset), 'query', 'queries')} ({splits}), "
        f"{count(len(dataset.labels), 'label')} over {count(len(dataset.catalog), 'item')}; "
        f"{unlabelled_words(counts['unlabelled'], counts['partly_labelled'])}"
    )
    say(f"written to {out}{', in place of what an earlier import of the file made' if replaced else ''}")
