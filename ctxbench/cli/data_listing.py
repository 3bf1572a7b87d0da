"""`ctxbench data`: list, show, validate and import datasets."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.core.errors import InputError, ParameterError
from ctxbench.io.console import say
from ctxbench.io.json_files import dump_json
from ctxbench.io.visible import quoted

if TYPE_CHECKING:
    from ctxbench.data.datasets.dataset import Dataset

_STATES = {
    "cached": "on this machine, ready to use",
    "importable": "its source is installed; it is made at the first use",
    "not installed": "install the package in brackets first",
    "not fetched": "its files are public; the command in brackets fetches them",
}


def list_datasets(*, as_json: bool) -> None:
    """Print every dataset that has a name."""
    from ctxbench.data.datasets.lookup import list_datasets as listed

    rows = listed()
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
    from ctxbench.data.datasets.lookup import open_dataset

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
        from ctxbench.io.yaml_files import dump_yaml

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
    from ctxbench.data.datasets.reader import validate as faults_of

    folder = _folder_of(name)
    faults = faults_of(folder)
    if as_json:
        rows = [
            {"message": f.message, "path": None if f.path is None else str(f.path), "line": f.line, "column": f.column}
            for f in faults
        ]
        print_json({"dataset": str(folder), "valid": not faults, "faults": rows})
    else:
        for fault in faults:
            say(str(fault))
        counted = f"{len(faults)} fault{'' if len(faults) == 1 else 's'}" if faults else f"valid; {_counts(folder)}"
        say(f"{folder}: {counted}")
    return 2 if faults else 0


def _counts(folder: Path) -> str:
    """What a valid dataset holds, in one line: who reads it sees what will be measured."""
    from ctxbench.data.datasets.query_labels import unlabelled_words
    from ctxbench.data.datasets.reader import read_dataset
    from ctxbench.io.visible import count

    counts = read_dataset(folder).counts
    queries, none = (count(counts[name], "query", "queries") for name in ("queries", "needs_nothing"))
    text = f"{count(counts['items'], 'item')}, {queries}, {count(counts['labels'], 'label')}"
    text += f"; {none} {'needs' if counts['needs_nothing'] == 1 else 'need'} nothing"
    if counts["unlabelled"]:
        left = unlabelled_words(counts["unlabelled"], counts["partly_labelled"])
        text += f"; {left}, and so left out of every figure"
    return text


def _folder_of(name: str) -> Path:
    """The folder that a dataset is in; what an importer provides is imported first, as by `show`."""
    from ctxbench.data.datasets.dataset import name_fault
    from ctxbench.data.datasets.lookup import dataset_folder, open_dataset

    if not Path(name).is_dir() and not name_fault(name):
        with progress() as bar, suppress(InputError):  # its faults are what is asked for
            open_dataset(name, notify=bar.say)
    return dataset_folder(name)


def import_dataset(
    name: str, *, out: Path | None, source: Path | None = None, own_files: bool = False, as_json: bool = False
) -> None:
    """Import a dataset into the cache, from the published files in the folder `source`; with `out`, write a copy.

    With `own_files` the files are the user's, in the same form, and the dataset is written to `out` alone.
    """
    from ctxbench.data.datasets.dataset import name_of_path
    from ctxbench.data.datasets.lookup import import_dataset as imported
    from ctxbench.data.datasets.lookup import import_own, open_dataset
    from ctxbench.data.datasets.writer import create_dataset

    with progress() as bar:
        if own_files:
            if source is None or out is None:
                raise ParameterError("--own needs the files, --from PLACE, and where the dataset goes, --out FOLDER")
            dataset = import_own(name, source, called=name_of_path(out, "own"))
            name = dataset.name
        elif out is None or source is not None:
            dataset = imported(name, source=source, notify=bar.say)
        else:
            dataset = open_dataset(name, notify=bar.say)
        if out is not None:
            create_dataset(dataset, out)
            done = "written" if own_files else "copied"
            bar.say(f"dataset {name}: {len(dataset)} queries over {len(dataset.catalog)} items {done} to {out}")
    if as_json:
        facts = {"dataset": name, "version": dataset.version, "hash": dataset.hash, "queries": len(dataset)}
        print_json({**facts, "items": len(dataset.catalog), "written": None if out is None else str(out)})
