"""`ctxbench data from-git`: a dataset of a repository's history, written and summed up."""

from __future__ import annotations

import logging
import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ctxbench.cli.output import print_json
from ctxbench.cli.progress import progress
from ctxbench.core.errors import ParameterError, UserError
from ctxbench.data.datasets.dataset import Dataset, name_of_path
from ctxbench.data.datasets.reader import read_dataset
from ctxbench.data.datasets.writer import create_dataset, write_dataset
from ctxbench.data.from_git.grown_history import grown_history
from ctxbench.data.from_git.history_dataset import HistorySettings, history_dataset
from ctxbench.io.console import say
from ctxbench.io.visible import count
from ctxbench.sources.repository.git_reader import GitRepository

_log = logging.getLogger(__name__)


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
        _log.warning("%s: a shallow clone; older commits are no queries (`git fetch --unshallow`)", folder)
    if as_json:
        facts = {
            "dataset": str(target),
            "name": dataset.name,
            "commits": choice.looked_at,
            "out": dict(choice.out),
            "filesOut": dataset.about["source"]["files_out"],
        }
        print_json({**facts, "counts": dataset.counts})
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
