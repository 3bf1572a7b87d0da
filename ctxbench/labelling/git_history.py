"""Datasets from git history: commits as queries, changed files as labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, compress, islice, pairwise
from pathlib import PurePosixPath
from typing import NamedTuple, TypeAlias

from ctxbench.catalogs.git_history import (
    FileChange,
    GitRepository,
    Hunks,
    LineCommit,
    QueryTexts,
    clean_message,
    has_word,
    line_hunks,
    line_times,
)
from ctxbench.catalogs.git_trees import (
    MOST_BYTES,
    VIEWS,
    TouchedFile,
    TreeStretch,
    changed_definitions,
    changed_lines,
    commit_item,
    commit_links,
    definition_lines,
    file_items,
    iso_time,
    text_or_fault,
    tree_stretches,
)
from ctxbench.datasets.dataset import Dataset
from ctxbench.datasets.queries import DatasetQuery, Label
from ctxbench.io.errors import Message, ParameterError, check_choice, check_range
from ctxbench.io.workers import OptionalPool
from ctxbench.model.arrays import Grade
from ctxbench.model.items import Catalog, Item, ItemKey, Link
from ctxbench.model.requests import Request
from ctxbench.search.code_facts import is_side_file, is_test_path
from ctxbench.search.code_grammars import language_of
from ctxbench.search.code_index import RENAMED
from ctxbench.search.words import WordRule

MOST_FILES = 10
MERGE, REVERT, BOT, VERSION = "merges", "reverts", "by bots", "version bumps and releases"
NO_WORD, REPEATED, NOTHING = "messages without words", "repeated messages", "without a change"
ADDITIONS, DOCUMENTATION, MANY = "only additions", "only documentation or generated files", f"over {MOST_FILES} files"
FORMATTING, UNREADABLE = "only white space", "no changed file in catalog"

_REVERT = re.compile(r"\W*(?:revert(?:s|ed)?|back ?out)\b", re.IGNORECASE)
_REVERT_LATER = re.compile(r"^This reverts commit\b", re.MULTILINE)
_BOT = re.compile(
    r"\[bot\]|\b(?:dependabot|renovate|greenkeeper|pre-commit-ci|github-actions|snyk-bot|pyup|imgbot|allcontributors"
    r"|semantic-release|weblate)\b|\b\w+[-_ ]bot\b",
    re.IGNORECASE,
)
_V = r"[`'\"]?v?\d+(?:\.\w+)*(?:[-+.]\w+)*[`'\"]?"
_KIND = r"(?:(?:chore|build|ci|docs?|fix|feat|deps?|pkg)?(?:\([\w ,/-]+\))?!?:\s*)?"  # `chore(deps): `
_START = (
    r"(?:(?:prepare|prep|start|begin|cut|tag|make|do|new|back to|set)\s+(?:for\s+)?(?:the\s+)?(?:next\s+|new\s+)*)?"
)
_RELEASE = r"(?:release|version|rel|dev(?:elopment)?)\b"
_DEPENDENCIES = r"(?:dependencies|deps|requirements|lock ?files?|pre-commit hooks?)"
_VERSION = re.compile(
    "|".join(
        (
            rf"{_KIND}(?:this is |[\w/@.-]+[ -])?{_V}",
            rf"{_KIND}{_START}{_RELEASE}(?:\s+(?:of|for|to|as|is|version|notes)\b)?\s*:?\s*(?:\S+[ -])?{_V}.*",
            rf"{_KIND}{_START}{_RELEASE}(?:\s+(?:version|cycle|mode|bump|notes))?",
            rf"{_KIND}bump(?:s|ed|ing)?\b.*",
            r"\[pre-commit\.ci\].*",
            r"deps?(?:\([\w ,/-]+\))?: \S+@\S+",
            rf"{_KIND}(?:update|upgrade)s?\s+(?:\S+\s+){{1,4}}(?:from\s+{_V}\s+)?to\s+(?:version\s+)?{_V}",
            rf"{_KIND}(?:update|upgrade|lock)\s+(?:all\s+)?(?:\w+\s+)?{_DEPENDENCIES}",
        )
    ),
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenCommit:
    """A commit that is a request.

    Attributes:
        position: the position in the line of commits.
        text: the cleaned message, or the text that replaces it.
        changes: the changes of files.
        tags: of `DELETES` and `NAMES_NOTHING` those that apply.
    """

    position: int
    text: str
    changes: tuple[FileChange, ...]
    tags: tuple[str, ...] = ()

    @property
    def changed(self) -> tuple[FileChange, ...]:
        """The changes of files in the tree before the commit."""
        return tuple(change for change in self.changes if change.old_blob is not None)

    @property
    def blobs(self) -> list[str]:
        """The blobs of these files before and after the commit."""
        return [blob for change in self.changed for blob in (change.old_blob, change.new_blob) if blob]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRules:
    """The rules for commits that are requests.

    Attributes:
        queries: the largest number of queries, the newest.
        merges: whether merges with a descriptive message are requests.
        keep_issues: keep numbers of issues in messages.
        texts: texts that replace messages as queries; items of commits keep their messages.
    """

    queries: int = 300
    merges: bool = False
    keep_issues: bool = False
    texts: QueryTexts = field(default_factory=QueryTexts)

    def text_of(self, commit: LineCommit) -> str:
        """The cleaned message of a commit."""
        return clean_message(commit.message, keep_issues=self.keep_issues)

    def query_of(self, commit: LineCommit) -> str:
        """The query of a commit: its message, or the text that replaces it; cleaned."""
        text = self.texts.of(commit)
        return self.text_of(commit) if text is None else clean_message(text, keep_issues=self.keep_issues)


@dataclass(frozen=True, kw_only=True)
class CommitChoice:
    """The commits that are requests, oldest first, and the numbers of the other commits by reason."""

    chosen: tuple[ChosenCommit, ...]
    out: Mapping[str, int] = field(default_factory=dict)
    looked_at: int = 0


Texts = Callable[[Sequence[str]], Mapping[str, str | None]]
"""From hashes of blobs to their texts; None for blobs that cannot be items."""
_AT_ONCE = 50  # commits whose files are in memory together
_FILES = 200  # that a worker takes at once


def choose_commits(
    line: Sequence[LineCommit],
    rules: CommitRules,
    texts: Texts,
    *,
    first: int | None = None,
    pool: OptionalPool | None = None,
) -> CommitChoice:
    """Choose the newest commits that are requests.

    Args:
        line: commits, oldest first.
        rules: the rules for requests.
        texts: reads files, for a few commits at once.
        first: choose all requests from this position on; None = the newest.
        pool: compares commits with the texts of their files.

    Returns:
        The requests, and the reasons of the other commits from the oldest request on.
    """
    candidates: list[ChosenCommit] = []
    reasons: list[str] = []
    messages: set[str] = set()
    for position, commit in enumerate(line):
        text = rules.query_of(commit)
        candidate = ChosenCommit(position=position, text=text, changes=commit.changes)
        reasons.append(_reason(commit, candidate, rules, messages))
        messages.add(text.casefold())
        if not reasons[-1] and position >= (first or 0):
            candidates.append(candidate)
    chosen: list[ChosenCommit] = []
    limit = rules.queries if first is None else len(line)
    pool = pool or OptionalPool()
    while candidates and len(chosen) < limit:
        some = candidates[-max(limit - len(chosen), _AT_ONCE) :][::-1]
        del candidates[-len(some) :]
        parts = [some[start : start + _AT_ONCE] for start in range(0, len(some), _AT_ONCE)]
        compared = pool.map(
            _compared, parts, make=lambda part: (part, texts([blob for commit in part for blob in commit.blobs]))
        )
        for candidate, (reason, tags) in zip(some, chain.from_iterable(compared), strict=True):
            reasons[candidate.position] = reason
            if not reason and len(chosen) < limit:
                chosen.append(replace(candidate, tags=tags))
    oldest = chosen[-1].position if chosen else 0
    out = Counter(filter(None, reasons[oldest:]))
    return CommitChoice(chosen=tuple(chosen[::-1]), out=dict(out.most_common()), looked_at=len(line) - oldest)


def _compared(
    unit: tuple[Sequence[ChosenCommit], Mapping[str, str | None]],
) -> list[tuple[str, tuple[str, ...]]]:
    """Why commits are not requests, by the texts of their files; empty with the tags of those that are."""
    candidates, blob_texts = unit
    reasons = [_text_reason(candidate, blob_texts) for candidate in candidates]
    return [
        (reason, () if reason else _change_tags(candidate, blob_texts))
        for candidate, reason in zip(candidates, reasons, strict=True)
    ]


def _reason(commit: LineCommit, candidate: ChosenCommit, rules: CommitRules, messages: set[str]) -> str:
    """Why a commit is not a request, by its message and paths; empty if it may be one."""
    text, message = candidate.text, rules.text_of(commit)
    paths = [change.path for change in commit.changes]
    checks = (
        (MERGE, len(commit.parents) > 1 and not rules.merges),
        (REVERT, _REVERT.match(message) or _REVERT_LATER.search(commit.message)),
        (BOT, _BOT.search(commit.author)),
        (VERSION, _VERSION.fullmatch(message.split("\n")[0].strip(" .!"))),
        (NO_WORD, not has_word(text)),
        (REPEATED, text.casefold() in messages),
        (NOTHING, not paths),
        (ADDITIONS, not candidate.changed),
        (MANY, len(paths) > MOST_FILES),
        (DOCUMENTATION, all(map(is_side_file, paths))),
    )
    return next((reason for reason, applies in checks if applies), "")


def _text_reason(candidate: ChosenCommit, blob_texts: Mapping[str, str | None]) -> str:
    """Why a commit is not a request, by the texts of its files; empty if it is one."""
    pairs = [
        (blob_texts.get(change.old_blob or ""), blob_texts.get(change.new_blob or ""), change)
        for change in candidate.changed
    ]
    if all(old is None for old, _, _ in pairs):
        return UNREADABLE
    only_formatting = (
        old is not None and new is not None and old != new and "".join(old.split()) == "".join(new.split())
        for old, new, _ in pairs
    )
    if len(candidate.changes) == len(pairs) and all(only_formatting):
        return FORMATTING
    return DOCUMENTATION if all(old is None or is_side_file(change.path, old) for old, _, change in pairs) else ""


DELETES, NAMES_NOTHING = "deletes only", "names nothing"
_WORDS = WordRule(split=True, stop=True, stem=True), WordRule(stop=True, stem=True)  # `OpenBSD` is `openbsd`, too


def _change_tags(candidate: ChosenCommit, blob_texts: Mapping[str, str | None]) -> tuple[str, ...]:
    """Whether a commit only deletes, and whether its text has no word of the changed paths and lines.

    Side files do not count, nor stop words and endings. The lines are those of `changed_lines`; of new files the paths.
    """
    named: list[str] = []
    deletes = True
    for change in candidate.changes:
        old, new = (blob_texts.get(blob) if blob else "" for blob in (change.old_blob, change.new_blob))
        if is_side_file(change.path, old or ""):
            continue
        removed, added = changed_lines(old or "", new or "")
        named += [change.path, _old_path(change), *removed, *added]
        deletes &= change.old_blob is not None and _old_path(change) == change.path and not added and new is not None
    request_words, changed_words = (
        {word for rule in _WORDS for word in rule.words(text)} for text in (candidate.text, "\n".join(named))
    )
    return (*([DELETES] if deletes else []), *([NAMES_NOTHING] if request_words.isdisjoint(changed_words) else []))


class FileView(NamedTuple):
    """A file as items.

    Attributes:
        items: with versions in their names; empty if it cannot be an item.
        lines: the definition around each line, see `definition_lines`; empty if nothing asks for it.
        fault: why it cannot be an item; empty if it is.
    """

    items: Sequence[Item]
    lines: Sequence[str] = ()
    fault: str = ""


CommitView: TypeAlias = Callable[[int, Sequence[ItemKey]], Item | None]
"""From the position of a commit and its changed items to its item; None if it changed no file."""

SeenItems: TypeAlias = Mapping[str, ItemKey]
"""The visible items of one file by their names without the version."""


class ItemVersions:
    """Creates and ends the versions of items along a history."""

    def __init__(self, commit: CommitView) -> None:
        self._commit = commit
        self._items: list[Item] = []
        self._ends: dict[int, str] = {}
        self._live: dict[str, dict[str, int]] = {}  # by path, positions in the items by name
        self._lines: dict[str, Sequence[str]] = {}  # of the files that are there
        self._n_versions: Counter[str] = Counter()

    def follow(
        self,
        stretches: Sequence[TreeStretch],
        files: Iterator[FileView],
        query_paths: Sequence[Iterable[str]],
        hunks: Hunks,
    ) -> list[Mapping[str, SeenItems]]:
        """Process a history.

        Args:
            stretches: one per query.
            files: the files that are added in them, in order.
            query_paths: by query, the paths whose items are returned.
            hunks: the hunks of all commits, for links to definitions.

        Returns:
            By query, the visible items at each of these paths.
        """
        visible: list[Mapping[str, SeenItems]] = []
        for stretch, paths in zip(stretches, query_paths, strict=True):
            gone = (touched_file.path for touched in stretch.touched for touched_file in touched if touched_file.gone)
            start = {path: self._visible(path) for path in {*gone, *stretch.renamed.values()}}
            for path in stretch.gone:
                self._become(path, (), stretch, {})
            for path, _ in stretch.come:
                file = next(files)
                self._lines[path] = file.lines
                self._become(path, file.items, stretch, start)
            links = commit_links(stretch, hunks, self._lines.__getitem__, partial(self._at, start))
            commits = (self._commit(position, changed) for position, changed in enumerate(links, stretch.first))
            self._items += [item for item in commits if item is not None]
            visible.append({path: self._visible(path) for path in paths})
        return visible

    def catalog(self) -> Catalog:
        """All items, in the order in which they appear in the history."""
        return Catalog(replace(item, until=self._ends.get(at)) for at, item in enumerate(self._items))

    def _become(self, path: str, items: Sequence[Item], stretch: TreeStretch, start: Mapping[str, SeenItems]) -> None:
        """Replace the items of a path; existing versions continue."""
        before, current = self._live.pop(path, {}), dict[str, int]()
        old = stretch.renamed.get(path, "")
        was = start.get(old, {}).get(old)
        for item in items:
            at = before.pop(item.name, None)
            links = (Link(RENAMED, was),) if was and item.type == "file" else ()
            current[item.name] = (
                self._begin(replace(item, links=links), stretch.brought.get(path)) if at is None else at
            )
        self._ends |= {at: iso_time(stretch.ended[path]) for at in before.values()}
        if current:
            self._live[path] = current

    def _begin(self, item: Item, time: int | None) -> int:
        """Add an item; a version that is restored becomes a new one, `NAME.2`."""
        self._n_versions[item.id] += 1
        n = self._n_versions[item.id]
        name = item.name if n == 1 else f"{item.name}.{n}"
        self._items.append(replace(item, name=name, created=None if time is None else iso_time(time)))
        return len(self._items) - 1

    def _at(self, start: Mapping[str, SeenItems], touched_file: TouchedFile) -> SeenItems:
        return start[touched_file.path] if touched_file.gone else self._visible(touched_file.path)

    def _visible(self, path: str) -> SeenItems:
        return {name.rpartition("@")[0]: self._items[at].key for name, at in self._live.get(path, {}).items()}


NAMED, TESTS = "names a file", "tests"
_LABELLING = {"files": "labelling.card-git-files", "definitions": "labelling.card-git-definitions"}

Notify = Callable[[str, int, int], None]
"""Called with the step, the finished part and the total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """Settings of a dataset of a history.

    Attributes:
        name: the name of the dataset.
        head: the newest commit: a branch, a tag or a hash.
        commits: the number of commits of its first-parent line to read, >= 1.
        rules: the rules for queries.
        view: items are `files`, or `definitions`: outlines of files, and a chunk for each definition.
        first: the hash of the first query, to use all requests from there on; None = the newest requests.
        test_share: the share of the newest queries in the split `test`, 0 to 1; the others are `tuning`.
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
    repository: GitRepository, settings: HistorySettings, *, notify: Notify, pool: OptionalPool | None = None
) -> tuple[Dataset, CommitChoice]:
    """Make a dataset of the newest commits that are requests.

    The time of a query is one second before its commit, so that it sees the tree and the commits before.

    Args:
        repository: the repository, or a folder in it.
        settings: settings of the dataset.
        notify: called with the progress.
        pool: compares commits with files, and reads definitions; None = this process.

    Returns:
        The dataset, and its commits.

    Raises:
        ParameterError: there is no such commit, or no commit is a request.
        StorageError: the repository cannot be read, or has missing files.
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
        line,
        settings.rules,
        lambda blobs: {blob: text for blob, text, _ in _read(repository, blobs)},
        first=first,
        pool=pool,
    )
    if not choice.chosen:
        why = "; ".join(f"{n:,} {reason}" for reason, n in choice.out.items())
        shallow = "; the clone is shallow (`git fetch --unshallow`)" if repository.shallow else ""
        raise ParameterError(
            f"none of the {len(line):,} newest commits of {repository.path} is a request ({why}){shallow}; expected "
            "commits that change files of the tree before them and say why"
        )
    times = line_times([commit.time for commit in line])
    history = _History(repository=repository, settings=settings, line=line, times=times, chosen=choice.chosen)
    catalog, visible = history.items(notify, pool or OptionalPool())
    about = {
        "licence": "that of the repository",
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
        "labelling": str(Message(_LABELLING[settings.view])),
        "notes": str(Message("labelling.card-git-notes")),
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
    """A line of commits with its queries. Files that cannot be items are counted by reason."""

    repository: GitRepository
    settings: HistorySettings
    line: Sequence[LineCommit]
    times: Sequence[int]
    chosen: Sequence[ChosenCommit]
    left_out: Counter[str] = field(default_factory=Counter)

    def items(self, notify: Notify, pool: OptionalPool) -> tuple[Catalog, list[Mapping[str, SeenItems]]]:
        """The catalog, and for each query the items of the files that its commit changed."""
        positions = [commit.position for commit in self.chosen]
        parent = self.line[positions[0]].parents[0]
        stretches = tree_stretches(self.line, self.times, positions, self.repository.files(parent))
        files = self._files([come for stretch in stretches for come in stretch.come], notify, pool)
        hunks = line_hunks(self.repository, self.line[: positions[-1]]) if self.settings.view == "definitions" else {}
        versions = ItemVersions(self._commit_item)
        visible = versions.follow(stretches, files, [map(_old_path, commit.changed) for commit in self.chosen], hunks)
        return versions.catalog(), visible

    def _files(self, blobs: Sequence[tuple[str, str]], notify: Notify, pool: OptionalPool) -> Iterator[FileView]:
        """Files by path and blob, as items."""
        parts = [blobs[start : start + _FILES] for start in range(0, len(blobs), _FILES)]
        views = pool.map(partial(_file_views, self.settings.view), parts, make=self._texts)
        for number, file in enumerate(chain.from_iterable(views)):
            notify("reading files", number, len(blobs))
            self.left_out.update([file.fault] if file.fault else [])
            yield file

    def _texts(self, blobs: Sequence[tuple[str, str]]) -> list[tuple[str, str | None, str]]:
        """Paths with texts, or None and why they cannot be items."""
        read = _read(self.repository, [blob for _, blob in blobs])
        return [(path, text, fault) for (path, _), (_, text, fault) in zip(blobs, read, strict=True)]

    def _commit_item(self, position: int, changed: Sequence[ItemKey]) -> Item | None:
        commit, time = self.line[position], iso_time(self.times[position])
        return commit_item(commit, text=self.settings.rules.text_of(commit), created=time, changed=changed)

    def queries(self) -> tuple[DatasetQuery, ...]:
        """A query for each chosen commit, oldest first."""
        groups = self._groups()
        return tuple(
            DatasetQuery(
                request=Request(id=self._id(commit), text=commit.text, time=iso_time(self.times[commit.position] - 1)),
                split=split,
                group=group,
                tags=_tags(commit),
            )
            for commit, group, split in zip(self.chosen, groups, self._splits(groups), strict=True)
        )

    def _id(self, commit: ChosenCommit) -> str:
        return self.line[commit.position].sha[:12]

    def _groups(self) -> Sequence[str | None]:
        """Groups of queries by author and day; none if one has over a tenth of the queries, or all are of one day."""
        authors: dict[str, dict[str, int]] = {}
        groups = []
        for commit in self.chosen:
            day = iso_time(self.times[commit.position])[:10]
            of_day = authors.setdefault(day, {})
            groups.append(f"{day} {of_day.setdefault(self.line[commit.position].author, len(of_day) + 1)}")
        small = max(Counter(groups).values()) <= max(2, len(groups) // 10) and len(authors) > 1
        return groups if small else [None] * len(groups)

    def _splits(self, groups: Sequence[str | None]) -> list[str]:
        """The splits of queries: `tuning`, then `test`; with groups, `test` begins at the nearest new day."""
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
            notify: called with the progress.
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
                    yield from (
                        Label(self._id(commit), items[path][name], int(grade))
                        for name in dict.fromkeys(_item_name(path, name, items[path]) for name in names)
                    )

    def _changed_names(self, change: FileChange, old: str, new: str | None) -> tuple[str, ...]:
        """The definitions with changes; an empty name is the file itself."""
        if self.settings.view == "files" or new is None or new == old:
            return ("",)
        from ctxbench.search.code_facts import code_facts  # loads grammars

        return changed_definitions(old, new, code_facts(_old_path(change), old).definitions) or ("",)


def _file_views(view: str, files: Sequence[tuple[str, str | None, str]]) -> list[FileView]:
    """Files as items, by path, text and fault."""
    return [
        FileView((), (), fault)
        if text is None
        else FileView(
            file_items(path, text, view=view, versioned=True),
            definition_lines(path, text) if view == "definitions" else (),
        )
        for path, text, fault in files
    ]


def _item_name(path: str, definition: str, items: SeenItems) -> str:
    """The name of the innermost item around a definition, or of its file."""
    while definition and f"{path}::{definition}" not in items:
        definition = definition.rpartition(".")[0]
    return f"{path}::{definition}" if definition else path


def _read(repository: GitRepository, blobs: Sequence[str]) -> Iterator[tuple[str, str | None, str]]:
    """Blobs in order with their texts, or None and why they cannot be items. Large ones are not read."""
    sizes = repository.sizes(blobs)
    small = [sizes.get(blob, 0) <= MOST_BYTES for blob in blobs]  # missing blobs are reported on reading
    read = repository.blobs(compress(blobs, small))
    for blob, is_small in zip(blobs, small, strict=True):
        text, fault = text_or_fault(next(read)[1]) if is_small else ("", f"over {MOST_BYTES / 1_000_000:g} MB")
        yield blob, None if fault else text, fault


def _old_path(change: FileChange) -> str:
    """The path of a changed file in the tree before."""
    return change.old_path or change.path


def _tags(commit: ChosenCommit) -> tuple[str, ...]:
    """Whether the text names a changed file, whether tests changed, the commit's tags, and the commonest language."""
    paths = [_old_path(change) for change in commit.changed]
    main = [path for path in paths if not is_side_file(path)] or paths
    languages = Counter(language_of(path) or "other" for path in main)
    named = any(_names(commit.text, path) for path in paths)
    tests = any(is_test_path(change.path) for change in commit.changes)
    return (*([NAMED] if named else []), *([TESTS] if tests else []), *commit.tags, languages.most_common(1)[0][0])


def _names(text: str, path: str) -> bool:
    """Whether a text contains the path of a file, or its name if that has an ending."""
    name = PurePosixPath(path).name
    names = [path, name] if PurePosixPath(path).suffix else [path]
    return any(re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w/-])", text) for name in names)


_SAME = ("view", "merges", "keep_issues", "folder")  # settings that the visible items depend on


def grown_history(
    old: Dataset,
    repository: GitRepository,
    settings: HistorySettings,
    *,
    notify: Notify,
    pool: OptionalPool | None = None,
) -> tuple[Dataset, CommitChoice]:
    """The dataset with the requests of the commits after its head.

    Existing queries and labels stay, removed ones stay removed, and new queries get the split of the last one. The
    limit of queries is ignored. Version 1 becomes 2; a version that is not a number stays.

    Args:
        old: from `history_dataset`, perhaps edited.
        repository, settings, notify, pool: as in `history_dataset`.

    Returns:
        The dataset, and its commits.

    Raises:
        ParameterError: it is of another history, has other settings, or has items that do not exist with these.
        StorageError: the repository cannot be read, or has missing files.
    """
    source = old.about.get("source")
    if not isinstance(source, dict) or source.get("format") != "git" or not {"head", "first"} <= source.keys():
        raise ParameterError(f"dataset {old.name} was not made by `ctxbench data from-git`; name another folder")
    line = [commit.sha for commit in repository.first_parents(repository.resolve(settings.head), settings.commits)]
    for name in ("head", "first"):
        if source[name] not in line:
            raise ParameterError(
                f"dataset {old.name}: commit {source[name]} ({name} in its card) is not among the {len(line):,} newest "
                f"of the first-parent line of {settings.head} in {repository.path}; name a later head, read more "
                "--commits, or write to another folder"
            )
    new, choice = history_dataset(repository, replace(settings, first=source["first"]), notify=notify, pool=pool)
    about = new.about["source"]
    if changed := [name for name in _SAME if source.get(name, about[name]) != about[name]]:
        was = ", ".join(f"{name} {source[name]}" for name in changed)
        raise ParameterError(f"dataset {old.name} was made with {was} (see its card); use the same settings")
    later = {sha[:12] for sha in line[line.index(source["head"]) + 1 :]}
    added = [replace(query, split=old.queries[-1].split) for query in new.queries if query.id in later]
    if lost := sorted(item.id for item in old.catalog if new.catalog.find(item.key) is None):
        raise ParameterError(
            f"dataset {old.name}: {len(lost):,} of its items do not exist with these settings, such as {lost[0]}; "
            "use the --commits and --queries-from that it was made with, or write to another folder"
        )
    labels = (*old.labels, *(label for label in new.labels if label.query in later))
    version = str(int(old.version) + 1) if added and old.version.isdecimal() else old.version
    card = {**old.about, "source": {**source, **about}}
    return (
        replace(old, version=version, catalog=new.catalog, queries=(*old.queries, *added), labels=labels, about=card),
        choice,
    )
