"""A tree as a catalog, as users name it: `REPO`, `REPO@COMMIT`, `REPO:definitions`."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from ctxbench.core.errors import StorageError, check_choice
from ctxbench.core.items import Catalog, Item, ItemKey
from ctxbench.io.visible import count, one_line
from ctxbench.sources.catalogs import corpus_path
from ctxbench.sources.repository.commit_links import commit_links, definition_lines
from ctxbench.sources.repository.commit_messages import clean_message
from ctxbench.sources.repository.git_reader import GitRepository, Hunks, line_times, path_fault
from ctxbench.sources.repository.line_hunks import line_hunks
from ctxbench.sources.repository.tree_items import (
    MOST_BYTES,
    VIEWS,
    commit_item,
    facts_of,
    file_items,
    iso_time,
    text_or_fault,
)
from ctxbench.sources.repository.tree_stretches import tree_stretches

MOST_COMMITS = 5_000
_CARD = "dataset.yaml"

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
            ParameterError: behind the top of a repository stands no view.
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
        reasons = "; ".join(
            f"{len(paths):,} {why}, such as {one_line(paths[0])}" for why, paths in tree.left_out.items()
        )
        n = sum(map(len, tree.left_out.values()))
        _log.warning("%s: %s of the tree left out: %s", name.folder, count(n, "path"), reasons)
    if repository.shallow:
        _log.warning("%s: a shallow clone; of older commits nothing is known (`git fetch --unshallow`)", name.folder)
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
        commits: at most so many of the newest on the first-parent line; 0 = none. What they link to is told by
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
        out = f"; {sum(map(len, left_out.values())):,} are left out: {', '.join(left_out)}" if left_out else ""
        raise StorageError(f"{repository.path} has no file that can be an item{out}")
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
    lost = [path for path, sha in files.items() if sha not in sizes]
    if lost:
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
    root = repository.root
    if root is None:
        raise StorageError(f"{repository.path} has no working tree; name a commit, such as HEAD")
    plain: dict[str, bool] = {}
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
    return ((folder / ".git").exists() or bare) and not (folder / _CARD).exists()
