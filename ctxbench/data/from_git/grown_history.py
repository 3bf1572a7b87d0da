"""Extend a dataset of a history with new commits; the other queries stay as people edited them."""

from __future__ import annotations

from dataclasses import replace

from ctxbench.core.errors import ParameterError
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.from_git.commit_choice import CommitChoice
from ctxbench.data.from_git.history_dataset import HistorySettings, Notify, history_dataset
from ctxbench.sources.repository.git_reader import GitRepository

_SAME = ("view", "merges", "keep_issues", "folder")  # what decides which items a query sees


def grown_history(
    old: Dataset, repository: GitRepository, settings: HistorySettings, *, notify: Notify
) -> tuple[Dataset, CommitChoice]:
    """The dataset with the requests of the commits after its head.

    Queries and labels that are there stay as they are, those that were taken out stay out, and the new ones are in the
    split of the last one. How many queries it has does not count. Version 1 becomes 2; another text stays.

    Args:
        old: as `history_dataset` made it, or as somebody edited it.
        repository, settings, notify: as of `history_dataset`.

    Returns:
        The dataset, and which commits it is made of.

    Raises:
        ParameterError: it is of another history or made in another way, or its labels name items that are in none.
        StorageError: the repository cannot be read, or lacks files.
    """
    source = old.about.get("source")
    if not isinstance(source, dict) or source.get("format") != "git" or not {"head", "first"} <= source.keys():
        raise ParameterError(f"dataset {old.name} was not made by `ctxbench data from-git`; name another folder")
    line = [commit.sha for commit in repository.first_parents(repository.resolve(settings.head), settings.commits)]
    for name in ("head", "first"):
        if source[name] not in line:
            raise ParameterError(
                f"dataset {old.name}: commit {source[name]} ({name} in its card) is not among the {len(line):,} newest "
                f"of the first-parent line of {settings.head} in {repository.path}; name a head that follows it or "
                "look at more --commits, or write to another folder"
            )
    new, choice = history_dataset(repository, replace(settings, first=source["first"]), notify=notify)
    about = new.about["source"]
    if changed := [name for name in _SAME if source.get(name, about[name]) != about[name]]:
        was = ", ".join(f"{name} {source[name]}" for name in changed)
        raise ParameterError(f"dataset {old.name} was made with {was} (its card says so); ask for the same to grow it")
    later = {sha[:12] for sha in line[line.index(source["head"]) + 1 :]}
    added = [replace(query, split=old.queries[-1].split) for query in new.queries if query.id in later]
    if lost := sorted(item.id for item in old.catalog if new.catalog.find(item.key) is None):
        raise ParameterError(
            f"dataset {old.name}: {len(lost):,} of its items are none of what is asked for now, such as {lost[0]}; "
            "give the --commits and --queries-from that it was made with, or write to another folder"
        )
    labels = (*old.labels, *(label for label in new.labels if label.query in later))
    version = str(int(old.version) + 1) if added and old.version.isdecimal() else old.version
    card = {**old.about, "source": {**source, **about}}
    return (
        replace(old, version=version, catalog=new.catalog, queries=(*old.queries, *added), labels=labels, about=card),
        choice,
    )
