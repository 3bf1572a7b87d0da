"""Catalogs of the files or definitions of a git tree, with the commits that changed them."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ctxbench.catalogs.git_history import (
    GitRepository,
    Hunks,
    LineCommit,
    LineHunk,
    clean_message,
    line_hunks,
    line_times,
    path_fault,
)
from ctxbench.catalogs.snapshots import corpus_path
from ctxbench.io.errors import Message, StorageError, check_choice, count, one_line
from ctxbench.io.files import note_read
from ctxbench.model.items import Catalog, Item, ItemKey, Link
from ctxbench.search.code_grammars import LONGEST_LINE, CodeDefinition, CodeFacts, is_minified, language_of

VIEWS = ("files", "definitions")
MOST_BYTES = 1_000_000
_LOOKED_AT = 8_192  # bytes in which git, too, looks for a NUL


def text_or_fault(data: bytes) -> tuple[str, str]:
    """The text of a file with line feeds at line ends, and a fault if no item can hold it: one of them is empty."""
    if b"\0" in data[:_LOOKED_AT]:
        return "", "binary"
    try:
        text = data.removeprefix(BOM_UTF8).decode()
    except UnicodeDecodeError:
        return "", "not UTF-8"
    if "\r" in text:  # one letter is looked for ten times as fast as two
        text = text.replace("\r\n", "\n")
    return ("", Message("catalogs.minified", n=LONGEST_LINE)) if is_minified(text) else (text, "")


def file_items(
    path: str,
    content: str,
    *,
    view: str = "files",
    versioned: bool = False,
    created: str | None = None,
    until: str | None = None,
) -> list[Item]:
    """The items of one file.

    Args:
        path: in the tree, with slashes; the title of each item.
        content: as `text_or_fault` gives it.
        view: `files`: one item with the whole text. `definitions`: an outline, and a chunk for each definition; a file
            without definitions, or whose language is not read, is whole.
        versioned: whether names end in `@` and 12 hex digits of the SHA-256 of the item's text, for a catalog that
            holds several versions of a file.
        created, until: of each item, see `Item`.

    Returns:
        The item of type `file` first, then `chunk` items by place, named `path::Class.method`.
    """
    language = language_of(path)
    texts = [("file", path, f"{path}\n\n{content}")]
    if view == "definitions" and (facts := facts_of({path: content})[path]).definitions:
        texts = [("file", path, _outline(path, facts))]
        texts += [
            ("chunk", f"{path}::{definition.name}", f"{path}\n\n{text}")
            for definition, text in _bodies(content, facts.definitions)
        ]
    return [
        Item(
            type=kind,
            name=f"{name}@{hashlib.sha256(text.encode()).hexdigest()[:12]}" if versioned else name,
            title=path,
            text=text,
            kind=language,
            created=created,
            until=until,
        )
        for kind, name, text in texts
    ]


def facts_of(contents: Mapping[str, str]) -> dict[str, CodeFacts]:
    """The code facts of files by path; cached by text, so ask for many files at once."""
    from ctxbench.search.code_facts import all_code_facts  # grammars wait until definitions are asked for

    return all_code_facts(contents)


def _outline(path: str, facts: CodeFacts) -> str:
    """The outline of a file: path, first line of its documentation, imports, and signatures by depth."""
    imports = ", ".join(
        "." * entry.level + entry.target + (f" ({', '.join(entry.names)})" if entry.names else "")
        for entry in facts.imports
    )
    signatures = "\n".join(
        "    " * definition.name.count(".") + definition.signature for definition in facts.definitions
    )
    return "\n\n".join(filter(None, (path, facts.doc, f"imports: {imports}" if imports else "", signatures)))


def _bodies(content: str, definitions: Sequence[CodeDefinition]) -> Iterator[tuple[CodeDefinition, str]]:
    """Each definition with its lines; those inside it are reduced to signatures, since they are separate items."""
    for index, definition in enumerate(definitions):
        line = content.rfind("\n", 0, definition.start) + 1
        parts, at = [], definition.start if content[line : definition.start].strip() else line
        for inner in definitions[index + 1 :]:
            if inner.start >= definition.end:
                break
            if inner.start >= at and inner.end <= definition.end:  # else it is inside a definition that was skipped
                parts += [content[at : inner.start], inner.signature]
                at = inner.end
        yield definition, "".join([*parts, content[at : definition.end]])


@lru_cache(maxsize=1 << 14)  # files that one commit brought have one time
def iso_time(seconds: int) -> str:
    """Seconds since 1970 as ISO 8601 in UTC, as items have it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def commit_item(commit: LineCommit, *, text: str, created: str, changed: Iterable[ItemKey]) -> Item | None:
    """A commit as an item of type `message` and kind `commit`, which no search offers; None if it changed no file.

    Args:
        commit: its hash is taken, and how many files it changed, whether or not they are items.
        text: its message, cleaned.
        created: its time on the line, see `line_times`.
        changed: the items that it made, or ended without another version; the item links to them by `changes`.
    """
    if not commit.changes:
        return None
    return Item(
        type="message",
        name=f"commit-{commit.sha[:12]}",
        text=text,
        kind="commit",
        include="manual",
        created=created,
        metadata={"files": len(commit.changes)},
        links=tuple(Link("changes", key) for key in changed),
    )


class TouchedFile(NamedTuple):
    """A file that a commit touched, by its path in the tree at the end; in that at the start if the end lacks it.

    The blobs are those before and after the commit, None where it had none.
    """

    path: str
    gone: bool
    old_blob: str | None
    new_blob: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeStretch:
    """The commits after one query and before the next one.

    Attributes:
        first: the place of the first commit in its line; those at `first`, `first + 1` ... are in it.
        gone: files of the tree at the start that the one at the end lacks, by path.
        come: (path, blob) of files of the end that are new or changed, by path.
        ended: when each path of the start was first touched, seconds.
        brought: when each path of the end was last touched, seconds.
        touched: by commit, in order.
        renamed: files of the end, each with the path that it had at the start, where that is another.
    """

    first: int
    gone: tuple[str, ...]
    come: tuple[tuple[str, str], ...]
    ended: Mapping[str, int]
    brought: Mapping[str, int]
    touched: tuple[tuple[TouchedFile, ...], ...]
    renamed: Mapping[str, str]


def tree_stretches(
    line: Sequence[LineCommit], times: Sequence[int], queries: Sequence[int], tree: Mapping[str, str]
) -> list[TreeStretch]:
    """Cut a line of commits at its queries.

    What comes and goes between two queries is left out: only the trees that queries see are described. The first
    stretch leads from nothing to the tree of the first query.

    Args:
        line: commits, oldest first.
        times: theirs, rising, seconds.
        queries: places of the commits that are queries, rising. Each sees the tree before its commit.
        tree: what the first query sees, blobs by path.
    """
    stretches, start, first = list[TreeStretch](), dict[str, str](), 0
    for query in queries:
        end = _after(line[first:query], start) if stretches else dict(tree)
        stretches.append(_stretch(line[first:query], times[first:query], first, (start, end)))
        start, first = end, query
    return stretches


def _after(commits: Sequence[LineCommit], tree: Mapping[str, str]) -> dict[str, str]:
    """A tree after some commits."""
    after = dict(tree)
    for commit in commits:
        for change in commit.changes:
            if change.old_blob is not None:
                after.pop(change.old_path or change.path, None)
        after |= {change.path: change.new_blob for change in commit.changes if change.new_blob is not None}
    return after


def _stretch(
    commits: Sequence[LineCommit], times: Sequence[int], first: int, trees: tuple[Mapping[str, str], Mapping[str, str]]
) -> TreeStretch:
    """The changes from one tree to another, read from the end, where paths are known, back to the start."""
    start, end = trees
    later: dict[str, str | None] = {}  # a path at the commit: the path at the end; None = the file has gone by then
    ended: dict[str, int] = {}
    brought: dict[str, int] = {}
    touched: list[tuple[TouchedFile, ...]] = []
    for commit, time in zip(reversed(commits), reversed(times), strict=True):
        commit_files, before = [], dict[str, str | None]()
        for change in commit.changes:
            old = change.old_path or change.path
            target = None if change.new_blob is None else later.get(change.path, change.path)
            if target is not None and target in end:
                brought.setdefault(target, time)
                commit_files.append(TouchedFile(target, False, change.old_blob, change.new_blob))
            elif old in start:
                commit_files.append(TouchedFile(old, True, change.old_blob, change.new_blob))
            elif change.path in end:  # an older file of that path, which went before another one came
                commit_files.append(TouchedFile(change.path, False, change.old_blob, change.new_blob))
            if change.old_blob is not None:
                ended[old] = time
                before[old] = target
        later |= before
        touched.append(tuple(dict.fromkeys(commit_files)))
    return TreeStretch(
        first=first,
        gone=tuple(sorted(start.keys() - end.keys())),
        come=tuple(sorted((path, blob) for path, blob in end.items() if start.get(path) != blob)),
        ended=ended,
        brought=brought,
        touched=tuple(touched[::-1]),
        renamed={path: old for old, path in later.items() if path and path != old and path in end and old in start},
    )


def changed_definitions(old: str, new: str, definitions: Sequence[CodeDefinition]) -> tuple[str, ...]:
    """The names of the definitions that hold changed lines.

    A line that was changed or taken away is in the innermost definition around it. Lines that were only added are in
    the one around their position; at the end of one also where they are indented as its body is. Empty lines count only
    where nothing else changed.

    Args:
        old, new: the file before and after.
        definitions: of `old`.

    Returns:
        Each name once, by position; an empty one for lines outside of all definitions. Nothing changed: none.
    """
    before, after = old.split("\n"), new.split("\n")
    names: dict[str, None] = {}
    for first, last, added in _hunks(before, after):
        lines = [number for number in range(first, last) if before[number].strip()] or list(range(first, last))
        names |= dict.fromkeys(_around(definitions, number + 1, number + 1) for number in lines)
        if not lines:
            names[_around_position(definitions, before, first, added)] = None
    return tuple(names)


def changed_lines(old: str, new: str) -> tuple[list[str], list[str]]:
    """The lines of a file that a change takes away, each with those that it is indented under, and the lines it adds.

    Args:
        old, new: the file before and after.

    Returns:
        Lines of `old`, also those above the place where lines are added, and lines of `new`; both without empty lines.
    """
    before, after = old.split("\n"), new.split("\n")
    removed: list[str] = []
    added: list[str] = []
    for first, last, lines in _hunks(before, after):
        depth = min((_indent(line) for line in (*before[first:last], *lines) if line.strip()), default=0)
        for line in reversed(before[:first]):
            if line.strip() and _indent(line) < depth:
                removed.append(line)
                depth = _indent(line)
        removed += filter(str.strip, before[first:last])
        added += filter(str.strip, lines)
    return removed, added


def _hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int, int, Sequence[str]]]:
    """Parts that differ: lines [first, last) of the old text, and those that replace them.

    What is equal at both ends is passed over first, since comparing takes time that grows by the square.
    """
    shortest, head, tail = min(len(before), len(after)), 0, 0
    while head < shortest and before[head] == after[head]:
        head += 1
    while tail < shortest - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    yield from (
        (head + first, head + last, new[new_first:new_last])
        for tag, first, last, new_first, new_last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if tag != "equal"
    )


def _around(definitions: Sequence[CodeDefinition], first: int, last: int) -> str:
    """The innermost definition that holds lines, from 1; empty if none does."""
    around = [
        definition for definition in definitions if definition.first_line <= first and last <= definition.last_line
    ]
    return min(around, key=lambda definition: definition.end - definition.start).name if around else ""


def _around_position(
    definitions: Sequence[CodeDefinition], before: Sequence[str], position: int, added: Sequence[str]
) -> str:
    """The innermost definition that lines are added in, after the first `position` lines."""
    depth = min((_indent(line) for line in added if line.strip()), default=0)
    inside = [
        definition
        for definition in definitions
        if definition.first_line <= position < definition.last_line
        or (
            definition.last_line <= position
            and depth > _indent(before[definition.first_line - 1])
            and not any(line.strip() for line in before[definition.last_line : position])
        )
    ]
    return min(inside, key=lambda definition: definition.end - definition.start).name if inside else ""


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def definition_lines(path: str, content: str) -> list[str]:
    """The name of the innermost definition around each line of a file, empty where there is none."""
    definitions = facts_of({path: content})[path].definitions
    lines = [""] * (content.count("\n") + 1 if definitions else 0)
    for definition in definitions:  # nested ones come after it
        lines[definition.first_line - 1 : definition.last_line] = [definition.name] * (
            definition.last_line + 1 - definition.first_line
        )
    return lines


def commit_links(
    stretch: TreeStretch,
    hunks: Hunks,
    lines: Callable[[str], Sequence[str]],
    items: Callable[[TouchedFile], Mapping[str, ItemKey]],
) -> list[list[ItemKey]]:
    """The links of the commits of a stretch, in their order.

    That is the file which each change leads to in the tree at the end, whatever its path was then; and every definition
    of that tree that holds lines which the commit changed, added, or took away between lines of it. Lines are led back
    through the changes from the end, as `git log -L` does, so that no older file is parsed. Of a file that the end
    lacks it is the one at the start.

    Args:
        stretch: the commits.
        hunks: of their changes; where some are unknown, older commits link to the file alone.
        lines: for a path of the end, what `definition_lines` gives.
        items: the items of a file of the end, or of one that is gone, by their names without a version.
    """
    names_by_path: dict[str, list[str]] = {}
    links = []
    for touched in reversed(stretch.touched):
        keys: dict[ItemKey, None] = {}
        for file in touched:
            items_of_file, names = items(file), [""]
            if not file.gone:
                if file.path not in names_by_path:
                    names_by_path[file.path] = list(lines(file.path))
                names += _changed_names(file, hunks, names_by_path[file.path])
            candidates = (
                items_of_file.get(f"{file.path}::{name}" if name else file.path) for name in dict.fromkeys(names)
            )
            keys |= dict.fromkeys(key for key in candidates if key is not None)
        links.append(list(keys))
    return links[::-1]


def _changed_names(file: TouchedFile, hunks: Hunks, lines: list[str]) -> list[str]:
    """The definitions that a change was made in; the lines become those of the file before it."""
    pair = file.old_blob or "", file.new_blob or ""
    names: list[str] = []
    if pair[0] == pair[1]:  # it was only renamed
        return names
    if pair not in hunks:
        names = [] if pair[0] else lines.copy()  # all are new
        lines.clear()
    for hunk in reversed(hunks.get(pair, ())):
        names += _lead_back(hunk, lines)
    return names


def _lead_back(hunk: LineHunk, lines: list[str]) -> list[str]:
    """Replace the newer lines of a hunk by the older ones; returns their definitions."""
    first = hunk.new - 1 if hunk.n_new else hunk.new
    names = lines[first : first + hunk.n_new]
    if not hunk.n_new:
        before, after = ["", *lines, ""][first : first + 2] if lines else ("", "")
        names = [before if before == after else ""]
    if lines:
        last = len(names) - 1
        lines[first : first + hunk.n_new] = [names[min(at, last)] for at in range(hunk.n_old)] if names else []
    return names


MOST_COMMITS = 5_000

_LeftOut = defaultdict[str, list[str]]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TreeName:
    """The name of a tree as a catalog.

    Attributes:
        folder: of the repository, or one in its working tree.
        commit: a branch, tag or hash; None = the working tree, or `HEAD` where there is none.
        view: one of `VIEWS`.
    """

    folder: Path
    commit: str | None = None
    view: str = "files"

    @classmethod
    def read(cls, text: str) -> TreeName | None:
        """`FOLDER[@COMMIT][:files|:definitions]`; None where it names no folder of a repository.

        A folder that is named alone is the top of a repository. A folder inside one is named with a view or a commit,
        so that a slip in the name of a dataset's folder does not give the tree around it.

        Raises:
            ParameterError: the name of a repository's top folder ends in an unknown view.
        """
        name, _, view = text.rpartition(":")
        if view not in VIEWS:
            if os.path.isdir(name) and not os.path.isdir(text) and _is_top(Path(name)):  # noqa: PTH112 - as below
                check_choice("view", view, VIEWS)
            name, view = text, ""
        if os.path.isdir(name):  # noqa: PTH112 - unlike Path's, False where it can be no path
            return cls(Path(name), view=view or "files") if view or _is_top(Path(name)) else None
        at = len(name)
        while (at := name.rfind("@", 0, at)) > 0:  # a commit may be `HEAD@{1}`, and a folder `@types`
            if os.path.isdir(name[:at]):  # noqa: PTH112 - as above
                commit, colon, commit_view = name[at + 1 :].partition(":")
                if colon:  # no name of a commit has one
                    check_choice("view", commit_view, VIEWS)
                return cls(Path(name[:at]), commit, view or "files")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeItems:
    """The items of a tree, and what was left out.

    Attributes:
        items: of files, by path, then of commits, oldest first.
        left_out: paths that are no items, by why.
    """

    items: tuple[Item, ...]
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)


def open_tree(name: TreeName) -> Catalog:
    """The catalog of a tree, with its history. What was left out, and why, is logged as one warning.

    Raises:
        StorageError: it lies in no repository, has no commits, or lacks files.
        ParameterError: there is no such commit.
    """
    repository = GitRepository(name.folder)
    commit = name.commit if name.commit is not None or repository.root else "HEAD"
    tree = items_of_tree(repository, None if commit is None else repository.resolve(commit), view=name.view)
    if tree.left_out:
        reasons = [f"{len(paths):,} {why} ({one_line(paths[0])})" for why, paths in tree.left_out.items()]
        n = sum(map(len, tree.left_out.values()))
        _log.warning("%s", Message("catalogs.paths-excluded", folder=name.folder, n=n, reasons="; ".join(reasons)))
    if repository.shallow:
        _log.warning("%s", Message("catalogs.shallow-clone", folder=name.folder))
    return Catalog(tree.items)


def tree_view(name: str) -> str | None:
    """The view of the tree that a catalog's name means; None where it means a file or a dataset."""
    try:
        corpus_path(Path(name))
    except StorageError:
        tree = TreeName.read(name)
        return None if tree is None else tree.view
    return None


def items_of_tree(
    repository: GitRepository,
    commit: str | None = None,
    *,
    view: str = "files",
    commits: int = MOST_COMMITS,
    most_bytes: int = MOST_BYTES,
) -> TreeItems:
    """The items of one tree and of the commits that led to it.

    Args:
        repository: with the tree; of a folder inside it, only what is below.
        commit: its hash; None = the working tree: tracked files, and others that are not ignored, as they are now.
        view: one of `VIEWS`, see `file_items`.
        commits: at most so many of the newest on the first-parent line; 0 = none. Their links are those of
            `commit_links`. A file is `created` by the newest of them that changed it, else its time is not known.
        most_bytes: of a file; a larger one is left out.

    Raises:
        StorageError: the repository lacks files, as a partial clone may, or there is no file.
    """
    check_choice("view", view, VIEWS)
    left_out: _LeftOut = defaultdict(list)
    read = _at_commit if commit is not None else _in_working_tree
    head = commit or repository.head()
    with ThreadPoolExecutor(1) as pool:  # git walks the history meanwhile
        walked = pool.submit(repository.first_parents, head, commits) if head and commits else None
        texts = dict(sorted(read(repository, commit or "", most_bytes, left_out)))
    if not texts:
        reasons = f"; left out: {', '.join(left_out)}" if left_out else ""
        raise StorageError(f"{repository.path} has no file that can be an item{reasons}")
    line = walked.result() if walked is not None else []
    times = line_times([commit.time for commit in line])
    (stretch,) = tree_stretches(line, times, [len(line)], dict.fromkeys(texts, ""))
    hunks: Hunks = {}
    older: Mapping[str, str] = {}
    defined = view == "definitions"
    if defined:
        facts_of(texts)
        hunks = line_hunks(repository, line)
        older = _committed(repository, head, texts) if head and commit is None else {}
    items: list[Item] = []
    keys: dict[str, dict[str, ItemKey]] = {}
    for path in list(texts):
        text = texts[path] if defined else texts.pop(path)  # let go of at once, as its item holds another
        at = stretch.brought.get(path)
        items_of_file = file_items(path, text, view=view, created=None if at is None else iso_time(at))
        keys[path] = {item.name: item.key for item in items_of_file}
        items += items_of_file
    links = commit_links(
        stretch,
        hunks,
        lambda path: definition_lines(path, older.get(path, texts[path])) if defined else (),
        lambda file: keys[file.path],
    )
    for line_commit, time, changed in zip(line, times, links, strict=True):
        item = commit_item(
            line_commit, text=clean_message(line_commit.message), created=iso_time(time), changed=changed
        )
        items += [] if item is None else [item]
    return TreeItems(items=tuple(items), left_out=left_out)


def _committed(repository: GitRepository, head: str, texts: Mapping[str, str]) -> dict[str, str]:
    """The files of a working tree that differ from its head, as they are at the head."""
    files = repository.files(head)
    digest = hashlib.sha1 if len(head) == 40 else hashlib.sha256
    changed = {}
    for path in texts.keys() & files.keys():
        data = texts[path].encode()
        if digest(b"blob %d\0" % len(data) + data).hexdigest() != files[path]:
            changed[path] = files[path]
    blobs = repository.blobs(changed.values())
    return {path: text_or_fault(data)[0] for path, (_, data) in zip(changed, blobs, strict=True)}


def _too_large(most_bytes: int) -> str:
    return f"over {most_bytes / 1_000_000:g} MB"


def _at_commit(
    repository: GitRepository, commit: str, most_bytes: int, left_out: _LeftOut
) -> Iterator[tuple[str, str]]:
    """The paths and texts of a commit's files."""
    files = {}
    for path, sha, kind in repository.entries(commit):
        if why := path_fault(path) or ("" if kind == "file" else kind):
            left_out[why].append(path)
        else:
            files[path] = sha
    sizes = repository.sizes(files.values())
    if lost := [path for path, sha in files.items() if sha not in sizes]:
        raise StorageError(
            f"{repository.path} lacks the contents of {len(lost):,} of {count(len(files), 'file')}, such as {lost[0]}: "
            "the clone is partial or damaged, and nothing is fetched here; clone without --filter"
        )
    for path in [path for path, sha in files.items() if sizes[sha] > most_bytes]:
        left_out[_too_large(most_bytes)].append(path)
        del files[path]
    for path, (_, data) in zip(files, repository.blobs(files.values()), strict=True):
        text, why = text_or_fault(data)
        if why:
            left_out[why].append(path)
        else:
            yield path, text


def _in_working_tree(
    repository: GitRepository, _: str, most_bytes: int, left_out: _LeftOut
) -> Iterator[tuple[str, str]]:
    """The paths and texts of the files of a working tree."""
    if (root := repository.root) is None:
        raise StorageError(f"{repository.path} has no working tree; name a commit, such as HEAD")
    plain: dict[str, bool] = {}
    repository.note_working_files()
    for path in repository.working_files():
        bare = path.rstrip("/")  # of a repository in a folder
        folder = bare.rpartition("/")[0]
        if folder not in plain:  # it may be a link by now, and an index that was tampered with lead out
            parent = root / folder
            plain[folder] = os.path.realpath(parent) == str(parent) and parent.is_relative_to(root)
        text, why = ("", path_fault(path)) if plain[folder] else ("", "symlink")
        if not why:
            text, why = _on_disk(f"{root}/{bare}", most_bytes)
        if why:
            left_out[why].append(path)
        else:
            yield path, text


def _on_disk(path: str, most_bytes: int) -> tuple[str, str]:
    """The text of a file, or why it is left out."""
    note_read(path)
    try:
        status = os.lstat(path)
        if stat.S_ISREG(status.st_mode):
            if status.st_size > most_bytes:
                return "", _too_large(most_bytes)
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - faster, for thousands
                return text_or_fault(file.read())
    except FileNotFoundError:
        return "", "not in the working tree"
    except OSError as error:
        return "", f"unreadable ({error.strerror})"
    if stat.S_ISLNK(status.st_mode):
        return "", "symlink"
    return "", "submodule" if stat.S_ISDIR(status.st_mode) else "neither file nor folder"


def _is_top(folder: Path) -> bool:
    """Whether a folder is the top of a checkout or a bare repository, and no dataset."""
    bare = all((folder / name).exists() for name in ("HEAD", "objects", "refs"))
    return ((folder / ".git").exists() or bare) and not (folder / "dataset.yaml").exists()
