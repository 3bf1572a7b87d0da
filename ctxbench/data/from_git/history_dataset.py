"""A labelled dataset of a repository's history: a query a commit, over the tree that the commit was made in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice, pairwise
from pathlib import PurePosixPath

from ctxbench.bench.metrics.inputs import Grade
from ctxbench.core.errors import ParameterError, check_choice, check_range
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.core.requests import Request
from ctxbench.data.datasets.dataset import Dataset
from ctxbench.data.datasets.query_labels import DatasetQuery, Label
from ctxbench.data.from_git.changed_definitions import changed_definitions
from ctxbench.data.from_git.commit_choice import ChosenCommit, CommitChoice, CommitRules, choose_commits
from ctxbench.data.from_git.item_versions import ItemVersions, SeenItems
from ctxbench.index.code.languages import language_of
from ctxbench.index.code.path_kinds import is_side_file, is_test_path
from ctxbench.sources.repository.commit_links import definition_lines
from ctxbench.sources.repository.git_reader import FileChange, GitRepository, LineCommit, line_times
from ctxbench.sources.repository.line_hunks import line_hunks
from ctxbench.sources.repository.tree_items import (
    MOST_BYTES,
    VIEWS,
    commit_item,
    file_items,
    iso_time,
    text_or_fault,
)
from ctxbench.sources.repository.tree_stretches import tree_stretches

NAMED, TESTS = "names a file", "tests"
_LABELLING = {
    "files": (
        "A commit's message is the query, and the files of the tree before it that the commit changed, deleted or "
        "renamed are required (2); documentation, changelogs, lock files and generated files among them help (1). "
        "Files that it added cannot be offered. Every other file counts as not needed."
    ),
    "definitions": (
        "A commit's message is the query, and the definitions of the tree before it that hold changed lines are "
        "required (2): for lines that were only added the one around their place, for lines outside of all the outline "
        "of their file, which also stands for a file that was only renamed, or deleted. In documentation, changelogs, "
        "lock files and generated files they help (1). What the commit added cannot be offered. All else counts as not "
        "needed."
    ),
}
_NOTES = (
    "Nobody has read the labels: a commit may change what its message does not say, and developers read files that "
    "they do not change."
)

Notify = Callable[[str, int, int], None]
"""Told how far something is: what, how much is done, and of how much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """Settings of a dataset of a history.

    Attributes:
        name: of the dataset.
        head: the newest commit: a branch, a tag or a hash.
        commits: how many of the newest commits of its first-parent line are looked at, >= 1.
        rules: which of them are queries.
        view: items are `files`, or `definitions`: outlines of files, and a chunk for each definition.
        first: the hash of the commit that is the first query, if all from there on are to be queries; else the newest
            are, as many as the rules say.
        test_share: the share of the queries, the newest, that are the split `test`, 0 to 1; the others are `tuning`.
    """

    name: str = "history"
    head: str = "HEAD"
    commits: int = 5_000
    rules: CommitRules = field(default_factory=CommitRules)
    view: str = "files"
    test_share: float = 0.4
    first: str | None = None

    def __post_init__(self) -> None:
        check_choice("view", self.view, VIEWS)
        check_range("split", self.test_share, 0, 1)
        check_range("commits", self.commits, 1)
        check_range("queries", self.rules.queries, 1)


def history_dataset(
    repository: GitRepository, settings: HistorySettings, *, notify: Notify
) -> tuple[Dataset, CommitChoice]:
    """Make a dataset of the newest commits that are requests.

    The query of a commit is asked one second before it, so that it sees the first parent's tree and the commits before.

    Args:
        repository: whose history; of a folder in it, what is below that.
        settings: see there.
        notify: told how far it is.

    Returns:
        The dataset, and which commits it is made of.

    Raises:
        ParameterError: there is no such commit, or no commit is a request.
        StorageError: the repository cannot be read, or lacks files.
    """
    head = repository.resolve(settings.head)
    notify("reading commits", 0, settings.commits)
    line = repository.first_parents(head, settings.commits)
    if len(settings.rules.texts) and not settings.rules.texts.used(line):
        raise ParameterError(
            f"none of the {len(settings.rules.texts):,} texts belongs to one of the {len(line):,} newest commits of "
            f"{repository.path}; expected hashes of commits, or numbers that messages close: (#12), Fixes #12"
        )
    first = next((position for position, commit in enumerate(line) if commit.sha == settings.first), None)
    choice = choose_commits(
        line, settings.rules, lambda blobs: {blob: text for blob, text, _ in _read(repository, blobs)}, first=first
    )
    if not choice.chosen:
        why = "; ".join(f"{n:,} {reason}" for reason, n in choice.out.items())
        shallow = "; the clone is shallow, `git fetch --unshallow` gets the others" if repository.shallow else ""
        raise ParameterError(
            f"none of the {len(line):,} newest commits of {repository.path} is a request ({why}){shallow}; expected "
            "commits that change files of the tree before them and say why"
        )
    times = line_times([commit.time for commit in line])
    history = _History(repository=repository, settings=settings, line=line, times=times, chosen=choice.chosen)
    catalog, visible = history.items(notify)
    about = {
        "licence": "that of the repository, whose texts these are",
        "source": {
            "format": "git",
            "head": head,
            "first": line[choice.chosen[0].position].sha,
            "commits": choice.looked_at,
            "out": dict(choice.out),
            "files_out": dict(history.left_out.most_common()),
            "view": settings.view,
            "folder": repository.inside,
            "merges": settings.rules.merges,
            "keep_issues": settings.rules.keep_issues,
            **({"texts_used": settings.rules.texts.used(line)} if len(settings.rules.texts) else {}),
        },
        "labelling": _LABELLING[settings.view],
        "notes": _NOTES,
    }
    dataset = Dataset(
        name=settings.name,
        version="1",
        catalog=catalog,
        queries=history.queries(),
        labels=tuple(history.labels(visible, notify)),
        about=about,
    )
    return dataset, choice


@dataclass(frozen=True, kw_only=True)
class _History:
    """A line of commits, and those of it that are queries. Files that no item can hold are counted by reason."""

    repository: GitRepository
    settings: HistorySettings
    line: Sequence[LineCommit]
    times: Sequence[int]
    chosen: Sequence[ChosenCommit]
    left_out: Counter[str] = field(default_factory=Counter)

    def items(self, notify: Notify) -> tuple[Catalog, list[Mapping[str, SeenItems]]]:
        """The catalog of all queries, and for each query the items of the files that its commit changed."""
        positions = [commit.position for commit in self.chosen]
        parent = self.line[positions[0]].parents[0]
        stretches = tree_stretches(self.line, self.times, positions, self.repository.files(parent))
        defined = self.settings.view == "definitions"
        versions = ItemVersions(self._file_items, self._commit_item, _lines if defined else lambda *_: ())
        texts = self._file_texts([blob for stretch in stretches for _, blob in stretch.come], notify)
        hunks = line_hunks(self.repository, self.line[: positions[-1]]) if defined else {}
        visible = versions.follow(stretches, texts, [map(_old_path, commit.changed) for commit in self.chosen], hunks)
        return versions.catalog(), visible

    def _file_texts(self, blobs: Sequence[str], notify: Notify) -> Iterator[str | None]:
        for number, (_, text, fault) in enumerate(_read(self.repository, blobs)):
            notify("reading files", number, len(blobs))
            self.left_out.update([fault] if fault else [])
            yield text

    def _file_items(self, path: str, text: str | None) -> Sequence[Item]:
        return () if text is None else file_items(path, text, view=self.settings.view, versioned=True)

    def _commit_item(self, position: int, changed: Sequence[ItemKey]) -> Item | None:
        commit, time = self.line[position], iso_time(self.times[position])
        return commit_item(commit, text=self.settings.rules.text_of(commit), created=time, changed=changed)

    def queries(self) -> tuple[DatasetQuery, ...]:
        """A query for each chosen commit, oldest first."""
        groups = self._groups()
        splits = self._splits(groups)
        return tuple(
            DatasetQuery(
                request=Request(id=self._id(commit), text=commit.text, time=iso_time(self.times[commit.position] - 1)),
                split=split,
                group=group,
                tags=_tags(commit),
            )
            for commit, group, split in zip(self.chosen, groups, splits, strict=True)
        )

    def _id(self, commit: ChosenCommit) -> str:
        return self.line[commit.position].sha[:12]

    def _groups(self) -> Sequence[str | None]:
        """A group for the queries of one author and day; none where one holds over a tenth, or all are of a day."""
        authors: dict[str, dict[str, int]] = {}
        groups = []
        for commit in self.chosen:
            day = iso_time(self.times[commit.position])[:10]
            of_day = authors.setdefault(day, {})
            groups.append(f"{day} {of_day.setdefault(self.line[commit.position].author, len(of_day) + 1)}")
        small = max(Counter(groups).values()) <= max(2, len(groups) // 10) and len(authors) > 1
        return groups if small else [None] * len(groups)

    def _splits(self, groups: Sequence[str | None]) -> list[str]:
        """`tuning`, then `test` from the query on that makes the share; with groups from the nearest new day on."""
        n = len(groups)
        first = n - round(self.settings.test_share * n)
        days = [(group or "").split(" ")[0] for group in groups]
        if days[0] and 0 < first < n:
            starts = [at for at, (day, next_day) in enumerate(pairwise(days), 1) if day != next_day]
            first = min(starts, key=lambda at: abs(at - first))
        return ["tuning"] * first + ["test"] * (n - first)

    def labels(self, visible: Sequence[Mapping[str, SeenItems]], notify: Notify) -> Iterator[Label]:
        """The labels of all queries.

        Args:
            visible: by query, the items of each changed file.
            notify: told how far it is.
        """
        read = _read(self.repository, [blob for commit in self.chosen for blob in commit.blobs])
        for number, (commit, items) in enumerate(zip(self.chosen, visible, strict=True)):
            notify("labelling queries", number, len(self.chosen))
            texts = {blob: text for blob, text, _ in islice(read, len(commit.blobs))}
            for change in commit.changed:
                path, old = _old_path(change), texts[change.old_blob or ""]
                if old is not None:
                    grade = Grade.HELPFUL if is_side_file(path, old) else Grade.REQUIRED
                    names = self._changed_names(change, old, texts.get(change.new_blob or ""))
                    for name in dict.fromkeys(_item_name(path, name, items[path]) for name in names):
                        yield Label(self._id(commit), items[path][name], int(grade))

    def _changed_names(self, change: FileChange, old: str, new: str | None) -> tuple[str, ...]:
        """The definitions that a change was made in; an empty name is the file itself."""
        if self.settings.view == "files" or new is None or new == old:
            return ("",)
        from ctxbench.index.code.code_facts import code_facts  # grammars wait until definitions are asked for

        return changed_definitions(old, new, code_facts(_old_path(change), old).definitions) or ("",)


def _lines(path: str, text: str | None) -> Sequence[str]:
    return () if text is None else definition_lines(path, text)


def _item_name(path: str, definition: str, items: SeenItems) -> str:
    """The name of the item of a definition, or of the innermost around it that is one; of none the file's."""
    while definition and f"{path}::{definition}" not in items:
        definition = definition.rpartition(".")[0]
    return f"{path}::{definition}" if definition else path


def _read(repository: GitRepository, blobs: Sequence[str]) -> Iterator[tuple[str, str | None, str]]:
    """Blobs in their order with their texts; None and why of one that no item can hold. Large ones are not read."""
    sizes = repository.sizes(blobs)
    small = [sizes.get(blob, 0) <= MOST_BYTES for blob in blobs]  # a missing blob is reported when it is read
    read = repository.blobs(compress(blobs, small))
    for blob, is_small in zip(blobs, small, strict=True):
        text, fault = text_or_fault(next(read)[1]) if is_small else ("", f"over {MOST_BYTES / 1_000_000:g} MB")
        yield blob, None if fault else text, fault


def _old_path(change: FileChange) -> str:
    """The path of a changed file in the tree before."""
    return change.old_path or change.path


def _tags(commit: ChosenCommit) -> tuple[str, ...]:
    """Whether the text names a changed file, whether tests changed, and the language of most changed files."""
    paths = [_old_path(change) for change in commit.changed]
    main = [path for path in paths if not is_side_file(path)] or paths
    languages = Counter(language_of(path) or "other" for path in main)
    named = any(_names(commit.text, path) for path in paths)
    tests = any(is_test_path(change.path) for change in commit.changes)
    return (*([NAMED] if named else []), *([TESTS] if tests else []), languages.most_common(1)[0][0])


def _names(text: str, path: str) -> bool:
    """Whether a text contains the path of a file, or its name if that has an ending."""
    name = PurePosixPath(path).name
    names = [path, name] if PurePosixPath(path).suffix else [path]
    return any(re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w/-])", text) for name in names)
