"""Read trees, blobs, commits and changed lines from a git repository.

The commits are those of the first-parent line. The repository may be hostile, so nothing in it is run: git is asked by
plumbing (`ls-tree`, `cat-file`, `diff-tree`, `log` without differences) that uses no hooks, filters or textconv;
settings that name a program are overridden; nothing is fetched. Replaced objects, grafts and variables `GIT_...` of the
caller are ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from ctxbench.io.cache import OptionalRows
from ctxbench.io.errors import Fault, Message, ParameterError, StorageError, raise_faults, suggest
from ctxbench.io.files import cache_dir, folder_fault, note_folders, note_read
from ctxbench.io.git import GitStream, checked_output, git_text, run_git
from ctxbench.io.rows import Row, jsonl_rows

LONGEST_MESSAGE = 20_000  # characters; the rest is not read
# A message may be made to take long. The expressions below take a time that grows with its length, not with the square
# of it: what repeats gives nothing back (`*+`), or is bounded.
_TRAILER_NAMES = (
    "signed-off-by co-authored-by co-developed-by reviewed-by acked-by tested-by reported-by suggested-by helped-by "
    "approved-by authored-by cc change-id pr-url link bug bugs issue issues refs ref closes fixes resolves see "
    "pull-request differential revision reviewers subscribers release-note git-svn-id pr pr-close pull request"
)
_TRAILER = re.compile(rf"^\s*(?:{'|'.join(_TRAILER_NAMES.split())})[ \t]*:", re.IGNORECASE)
_ANY_TRAILER = re.compile(r"^[A-Z][A-Za-z]*(?:-[A-Za-z]+)+: \S")  # where a whole last paragraph is made of them
_NOTES = re.compile(
    r"^\(?cherry[- ]picked from\b|^git-svn-id|generated (?:with|by) \[?[A-Z]|^-{3,}$|^# "
    r"|^\s*+[*-]?\s*+\[?(?:skip ci|ci skip)\]?\s*$",
    re.IGNORECASE,
)
_MERGE = re.compile(
    r"^(?:merge(?:d|s)? (?:pull[- ]request|pr|mr|branch(?:es)?|tag|commit|remote|remote-tracking)\b.*"
    r"|merge \S+ (?:in)?to \S+.*|merge (?=\S+/\S)\S++|auto merge of .*)$",
    re.IGNORECASE,
)
_SKIP = re.compile(r"\[(?:skip ci|ci skip|no ci|skip actions|actions skip)\]", re.IGNORECASE)
_BRACKET = re.compile(r"!?\[([^\]\n]*+)(\]\([^)\s]{1,2000}+\))?")  # of a Markdown link, if there is the second group
_LINK = re.compile(r"<?\bhttps?://[^\s<>\"'`)\]]+>?")
_EMAIL = re.compile(r"<(?=[^<>\s]+@[^<>\s])[^<>\s]++>")
_WORD_BEFORE = (
    r"(?:(?:(?:this|which|it|and|also|that|should)\s++){0,8}+"
    r"(?:fix(?:e[sd]|ing)?|clos(?:es?|ed|ing)|resolv(?:es?|ed|ing)|address(?:es|ed)?|implement(?:s|ed)?|see(?: also)?"
    r"|refs?|references|related to|relates to|part of|follow[- ]?up (?:to|of)|as (?:in|of)|per|cf\.?|in|from|of|by|for"
    r"|with|to|via)\b:?\s++)"
)
_THING = r"(?:(?:issues?|bugs?|tickets?|pull requests?|prs?|mrs?)\s++)"
_NUMBER = r"(?:\b[\w.-]{1,200}+/[\w.-]{1,200}|(?<![\w&]))(?:#|gh-)\d++\b"
_ISSUE_LIST = (
    rf"(?>(?:{_WORD_BEFORE})?{_THING}?{_NUMBER}"
    rf"(?:(?:\s*+,\s*+|\s*+/\s*+|\s++(?:and|&|\+)\s++|\s++)(?:{_WORD_BEFORE})?{_NUMBER})*)"
)
_ISSUES = re.compile(rf"\({_ISSUE_LIST}\)|\[{_ISSUE_LIST}\]|{_ISSUE_LIST}", re.IGNORECASE)
_TICKET = re.compile(
    r"^(?!(?:UTF|SHA|ISO|PEP|RFC|CVE|IPV|HTTP|WIN|ARM)-)(?:\[[A-Z][A-Z0-9]+-\d+\]|[A-Z][A-Z0-9]+-\d+\b:?)", re.MULTILINE
)
_EMPTY_BRACKETS = re.compile(r"(?<!\S)(?:\(\s*+[,;]?\s*+\)|\[\s*\]|`\s*`)")
_LEFT_OVER = re.compile(r"\b(?:see(?: also)?|refs?|from|source|via)\s*:?$", re.IGNORECASE)
_CUT = "\0"  # no commit message holds it
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]{2,}")


def clean_message(message: str, *, keep_issues: bool = False) -> str:
    """The message without what only the tools around a repository read.

    Out: trailers (`Signed-off-by: ...`), other authors, `Merge pull request ...`, links and addresses, notes of
    cherry-picks and for builds, and, if they are not kept, numbers of issues with the words before them (`Fixes #12`,
    `(#12)`, `GH-12`, `ABC-12:`).

    Args:
        message: as git has it; only the first 20,000 characters are used.
        keep_issues: leave the numbers of issues where they are.

    Returns:
        The subject, and after an empty line what is left of the rest; empty if nothing is.
    """
    message = message[:LONGEST_MESSAGE].replace("\r\n", "\n").replace("\r", "\n").strip()
    paragraphs = re.split(r"\n[ \t]*+\n", message)
    if len(paragraphs) > 1 and all(map(_ANY_TRAILER.match, paragraphs[-1].splitlines())):
        paragraphs.pop()
    clean_lines = []
    for number, paragraph in enumerate(paragraphs):
        lines = [line for line in paragraph.split("\n") if not (_TRAILER.match(line) or _NOTES.search(line))]
        lines = lines[1:] if not number and lines and _MERGE.match(lines[0].strip()) else lines
        cleaned = [_clean_line(line) for line in _cut("\n".join(lines), keep_issues).split("\n")]
        clean_lines.append("\n".join(line for line in cleaned if line))
    return "\n\n".join(filter(None, clean_lines))


def has_word(text: str) -> bool:
    """Whether a text holds a word: two letters in a row, of any script."""
    return _WORD.search(text) is not None


def _cut(paragraph: str, keep_issues: bool) -> str:
    """A paragraph with a mark in place of what is out, which may go over the end of a line."""
    text = _BRACKET.sub(
        lambda bracket: f"{bracket[1]}{_CUT}" if bracket[2] else bracket[0],  # the text of a Markdown link stays
        _SKIP.sub(_CUT, paragraph),
    )
    for pattern in (_LINK, _EMAIL, *(() if keep_issues else (_TICKET, _ISSUES))):
        text = pattern.sub(_CUT, text)
    return text


def _clean_line(line: str) -> str:
    """A line in which something may have been cut, as if it had never been there; empty if only signs are left."""
    if _CUT not in line:
        return line.rstrip()
    text = re.sub(r"[ \t]{2,}", " ", _EMPTY_BRACKETS.sub("", line.replace(_CUT, "")))
    text = re.sub(r"(?<!\s)\s++([,.;!?)])(?=\s|$)", r"\1", text).replace("( ", "(").replace("..", ".")
    text = text.strip().lstrip(",;:.").rstrip(",;:-(")
    text = _LEFT_OVER.sub("", text).strip()
    return line[: len(line) - len(line.lstrip())] + text if _LETTER.search(text) else ""


_K = TypeVar("_K", str, int)
_HASH = re.compile(r"[0-9a-f]{7,64}")
_CLOSED = (  # the most certain first
    re.compile(r"\(#(\d{1,9})\)\s*$"),
    re.compile(r"^Merge(?:d|s)? (?:pull[- ]request|pr) #(\d{1,9})\b", re.IGNORECASE),
    re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+(?:#|gh-)(\d{1,9})\b", re.IGNORECASE),
    re.compile(r"\(#(\d{1,9})\)"),
)


@dataclass(frozen=True, slots=True)
class QueryTexts:
    """Texts that replace commit messages.

    Attributes:
        commits: by the hash of a commit, or its first 7 digits or more.
        numbers: by the number of an issue or pull request.
    """

    commits: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[int, str] = field(default_factory=dict)

    def used(self, line: Iterable[LineCommit]) -> int:
        """How many of the texts belong to commits of a line."""
        matched: set[str | int] = set()
        for commit in line:
            matched.update(start for start in self.commits if commit.sha.startswith(start))
            matched.update(number for number in _closed(commit.message) if number in self.numbers)
        return len(matched)

    def __len__(self) -> int:
        return len(self.commits) + len(self.numbers)

    def of(self, commit: LineCommit) -> str | None:
        """The text of a commit, else of the first issue or pull request that its message closes; None = there is none.

        Those are `(#12)` at the end of the first line, `Merge pull request #12`, `Fixes #12`, and `(#12)` elsewhere.
        """
        text = next((text for start, text in self.commits.items() if commit.sha.startswith(start)), None)
        return text if text is not None else next(filter(None, map(self.numbers.get, _closed(commit.message))), None)


def _closed(message: str) -> Iterator[int]:
    """The numbers that a message closes, the most certain first."""
    first = message.split("\n", maxsplit=1)[0]
    yield from (
        int(number)
        for index, pattern in enumerate(_CLOSED)
        for number in pattern.findall(message if index > 1 else first)
    )


def read_query_texts(path: Path) -> QueryTexts:
    """Read rows `{"commit": HASH, "text": ...}` and `{"number": 12, "text": ...}`.

    Raises:
        StorageError: the file cannot be read.
        InputError: rows are malformed, or two belong to the same: all faults, with their lines.
    """
    faults: list[Fault] = []
    commits: dict[str, str] = {}
    numbers: dict[int, str] = {}
    for row in jsonl_rows(path, faults):
        row.refuse_unknown(("commit", "number", "text"))
        text = row.take("text", str, "", required=True)
        if ("commit" in row.data) == ("number" in row.data):
            row.fault(Message("catalogs.commit-or-number"))
        elif "commit" in row.data:
            _add(row, commits, _hash(row), text)
        else:
            _add(row, numbers, row.take("number", int, 0, required=True), text)
    faults += [
        Fault(Message("catalogs.commit-prefix", first=prefix, second=sha), path)
        for prefix, sha in pairwise(sorted(commits))
        if sha.startswith(prefix)
    ]
    raise_faults(faults, subject=str(path))
    return QueryTexts(commits, numbers)


def _hash(row: Row) -> str:
    if (value := row.take("commit", str, "", required=True).lower()) and not _HASH.fullmatch(value):
        row.fault(Message("catalogs.commit-hash", got=value), at="commit")
    return value


def _add(row: Row, texts: dict[_K, str], key: _K, text: str) -> None:
    if key in texts:
        row.fault(Message("catalogs.commit-repeated", key=key))
    texts[key] = text


_SETTINGS = tuple(
    word
    for setting in (
        "safe.directory=*",  # the tree of another owner is read, and none of its programs run
        "core.hooksPath=/dev/null",
        "core.fsmonitor=false",
        "core.attributesFile=/dev/null",
        "log.mailmap=false",
        "protocol.allow=never",
        "core.quotePath=false",
    )
    for word in ("-c", setting)
)
_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # stronger than what the repository allows by `protocol.ext.allow`
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "LC_ALL": "C",
}
_READ_BY_GIT = (  # in `.git`; git would wait for ever for one that is a named pipe
    *("HEAD", "config", "config.worktree", "commondir", "index", "packed-refs", "shallow"),
    *("info/exclude", "objects/info/alternates"),
)
_DIFFERENCES = ("--no-ext-diff", "--no-textconv", "--diff-algorithm=myers", "--inter-hunk-context=0", "--no-color")
_REGULAR = (b"100644", b"100755", b"100664")  # 100664: as early versions of git wrote it
_SYMLINK, _SUBMODULE = b"120000", b"160000"
_LATEST = 221_845_392_000  # 9000-01-01; a commit may claim any time; later ones are cut to this
_HUNK = rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@"
_PATCHED = re.compile(rb"([0-9a-f]{40,64})\n|index ([0-9a-f]+)\.\.([0-9a-f]+)|" + _HUNK)
_RENAMES = 400  # files that come, times those that go, beyond which only equal files are taken for renamed


class TreeEntry(NamedTuple):
    """A path of a tree: `kind` is "file", "symlink" or "submodule"; `sha` of the blob."""

    path: str
    sha: str
    kind: str


class FileChange(NamedTuple):
    """What a commit did to a file. No `old_blob`: it is new; no `new_blob`: it is gone. Paths are as in a tree.

    `old_path` is that of the file that it was renamed from, else None.
    """

    path: str
    old_path: str | None
    old_blob: str | None
    new_blob: str | None


class LineHunk(NamedTuple):
    """Lines of a file that a commit replaced.

    Where `n_old` or `n_new` is 0, `old` or `new` is the line before the change; lines count from 1.
    """

    old: int
    n_old: int
    new: int
    n_new: int


Hunks: TypeAlias = Mapping[tuple[str, str], Sequence[LineHunk]]
"""The parts that differ between two blobs, in order, by the blobs before and after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineCommit:
    """A commit of a first-parent line.

    Attributes:
        sha: its hash.
        parents: theirs, the first parent first; empty for the first commit, and where a shallow clone ends.
        time: of the committer, seconds since 1970 in UTC, as the commit says.
        author: `Name <address>`.
        message: its first 20,000 characters; what is not UTF-8 is replaced.
        changes: of files, against the first parent, by path; empty where a shallow clone ends, as they are unknown.
    """

    sha: str
    parents: tuple[str, ...]
    time: int
    author: str
    message: str
    changes: tuple[FileChange, ...]


class GitRepository:
    """A git repository, read and never changed.

    Attributes:
        path: as it was named.
        root: the folder of the working tree, without links; None for a bare repository.
        inside: the named folder's path in the tree with a slash at the end, empty for the root. Only files below it
            are listed, by their paths from the root.
        shallow, partial: whether the clone lacks older commits, or files.
    """

    def __init__(self, path: Path | str) -> None:
        """Find the repository that a folder lies in.

        Raises:
            StorageError: it lies in none, is no folder, or git is not installed.
        """
        self.path = Path(path)
        self._folder = Path(os.path.realpath(path))
        if fault := folder_fault(self._folder):
            raise StorageError(f"cannot read the repository {path}: {fault}; expected the folder of a git repository")
        _check_regular(self._folder)
        answer = self._run("rev-parse", "--is-bare-repository", "--is-shallow-repository", "--is-inside-work-tree")
        if answer.returncode and b"not a git repository" in answer.stderr:
            raise StorageError(
                f"{path} is no git repository: expected a folder in a checkout, or a bare repository; "
                "`git init` makes one"
            )
        bare, shallow, working = checked_output(answer, self.path).split()
        self.shallow = shallow == b"true"
        self.partial = bool(
            self._run("config", "--get-regexp", r"^(extensions\.partialclone|remote\..*\.promisor)$").stdout
        )
        self.root: Path | None = None
        self.inside = ""
        if bare == b"false" and working == b"true":
            top = self._git("rev-parse", "--show-toplevel").removesuffix(b"\n")
            self.root = Path(os.path.realpath(os.fsdecode(top)))
            self.inside = os.fsdecode(self._git("rev-parse", "--show-prefix").removesuffix(b"\n"))

    def resolve(self, name: str = "HEAD") -> str:
        """The hash of the commit that a branch, a tag, a hash or `HEAD~3` names.

        Raises:
            ParameterError: it names none; says which branches and tags are close.
            StorageError: the repository has no commits yet.
        """
        if name and not name.startswith("-") and name.isprintable():
            answer = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            if not answer.returncode:
                return answer.stdout.decode().strip()
        refs = git_text(self._git("for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/tags")).split("\n")
        if name == "HEAD":
            raise StorageError(f"{self.path} has no commit checked out; commit something, or name a branch or a tag")
        raise ParameterError(
            f"no commit {name!r} in {self.path}: expected a branch, a tag or a hash{suggest(name, filter(None, refs))}"
        )

    def head(self) -> str | None:
        """The hash of the commit that is checked out; None before the first one."""
        answer = self._run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return None if answer.returncode else answer.stdout.decode().strip()

    def working_files(self) -> list[str]:
        """Paths in the working tree: of tracked files, which may be gone, and of others that are not ignored.

        A submodule is one path; a repository that is not tracked ends in a slash. Symbolic links are among them.
        """
        data = self._git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--full-name")
        return list(dict.fromkeys(map(os.fsdecode, data.split(b"\0")[:-1])))  # a path in conflict comes thrice

    def note_working_files(self) -> None:
        """Note, within a `with` block of `FilesRead`, what can change `working_files` and the commit checked out.

        These are files of git and all folders that are not ignored, as a new file may be in any of them.
        """
        if not note_read(self._folder):
            return
        outer = (parent for parent in self._folder.parents if parent.is_relative_to(self.root or self._folder))
        words = (word for name in ("logs/HEAD", "index", "info/exclude") for word in ("--git-path", name))
        git_paths = os.fsdecode(self._git("rev-parse", *words)).split("\n")[:-1]
        note_read(*(self._folder / name for name in git_paths), *(parent / ".gitignore" for parent in outer))
        listed = self._git("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory").split(b"\0")
        folders = b"\0".join(b"./" + path for path in listed if path.endswith(b"/"))  # of some, only files are ignored
        ignored = self._run("check-ignore", "-z", "--stdin", stdin=folders).stdout.split(b"\0")
        skipped = {self._folder / name for name in (".git", *map(os.fsdecode, ignored)) if name}
        note_folders(self._folder, lambda path: path in skipped or os.path.lexists(path / ".git"))

    def entries(self, commit: str) -> list[TreeEntry]:
        """Everything that a commit's tree holds, by path as git orders it; paths that are not UTF-8 with surrogates.

        Args:
            commit: a hash, as of `resolve`.

        Raises:
            StorageError: git refuses.
        """
        within = ["--", self.inside] if self.inside else []
        entries = []
        for entry in self._git("ls-tree", "-r", "-z", "--full-tree", commit, *within).split(b"\0")[:-1]:
            about, _, path = entry.partition(b"\t")
            mode, _, sha = about.split(b" ")
            kind = "symlink" if mode == _SYMLINK else "submodule" if mode == _SUBMODULE else "file"
            entries.append(TreeEntry(os.fsdecode(path), sha.decode(), kind))
        return entries

    def files(self, commit: str) -> dict[str, str]:
        """The hashes of a commit's files by path; without links, submodules and paths that `path_fault` names."""
        return {path: sha for path, sha, kind in self.entries(commit) if kind == "file" and not path_fault(path)}

    def sizes(self, shas: Iterable[str]) -> dict[str, int]:
        """The sizes of blobs in bytes; those that a partial clone lacks are left out."""
        requested = dict.fromkeys(shas)
        form = "--batch-check=%(objectname) %(objectsize)"
        data = (
            self._git("cat-file", "--batch-all-objects", "--unordered", form)
            if self.partial  # asked for one that it lacks, git would stop, as it may not fetch
            else self._git("cat-file", form, stdin=_lines(requested))
        )
        rows = (row.split(b" ") for row in data.splitlines())
        return {name: int(size) for sha, size in rows if size != b"missing" and (name := sha.decode()) in requested}

    def blobs(self, shas: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """The contents of blobs, in the order of the hashes, with repeats.

        Raises:
            StorageError: one is not there; a partial clone lacks some.
        """
        requested = list(shas)
        with tempfile.TemporaryFile() as stdin:  # a pipe could fill before the answers are read
            stdin.write(_lines(requested))
            stdin.seek(0)
            with GitStream(
                self._folder, "cat-file", "--batch", stdin=stdin, settings=_settings(), environment=_only_env()
            ) as git:
                yield from ((sha, self._next_object(sha, git)) for sha in requested)

    def _next_object(self, sha: str, git: GitStream) -> bytes:
        head = git.readline().split()
        if len(head) != 3:  # `HASH missing`
            raise StorageError(Message("catalogs.blob-missing", path=self.path, sha=sha))
        return git.read(int(head[2]) + 1)[:-1]

    def first_parents(self, head: str, n: int) -> list[LineCommit]:
        """The newest commits of a first-parent line, oldest first.

        A file that is half the same as a removed one counts as renamed. In a partial clone, and where very many came
        and went, only one that is wholly the same.

        Args:
            head: the hash of the newest.
            n: at most so many, >= 1.

        Raises:
            StorageError: git refuses.
        """
        form = "--format=%H%x00%P%x00%ct%x00%an <%ae>%x00%B"
        data = self._git("log", "-z", "--first-parent", "--encoding=UTF-8", form, f"--max-count={n}", head, "--")
        fields = git_text(data).split("\0")
        rows = [fields[start : start + 5] for start in range(0, len(fields) - 4, 5)][::-1]
        ends = self._shallow_ends()
        changes = self._changes([f"{sha} {parents.partition(' ')[0]}" for sha, parents, *_ in rows])
        return [
            LineCommit(
                sha=sha,
                parents=tuple(parents.split()),
                time=int(time or 0),  # a damaged commit has none
                author=author,
                message=message[:LONGEST_MESSAGE],
                changes=() if sha in ends else changes[sha],
            )
            for sha, parents, time, author, message in rows
        ]

    def hunks(self, commits: Iterable[LineCommit]) -> Iterator[tuple[str, Hunks]]:
        """The lines that commits changed, against their first parents, by hash; those that changed none are left out.

        Files are paired as by `first_parents`, all are taken for text, and what attributes say of them is passed over.

        Raises:
            StorageError: a file is not there; a partial clone lacks some.
        """
        words = ("diff-tree", "--stdin", "-r", "-p", "-U0", "--text", "--full-index", "--submodule=short")
        with tempfile.TemporaryFile() as stdin:  # as for blobs
            stdin.write(
                _lines(f"{commit.sha} {commit.parents[0]}" for commit in commits if commit.parents and commit.changes)
            )
            stdin.seek(0)
            how = (*words, *_DIFFERENCES, *self._renamed())
            with GitStream(self._folder, *how, stdin=stdin, settings=_settings(), environment=_only_env()) as git:
                sha, hunks, file_hunks = "", dict[tuple[str, str], Sequence[LineHunk]](), list[LineHunk]()
                for line in git:
                    if (match := _PATCHED.match(line)) is None:  # the lines themselves begin with a sign
                        continue
                    commit, old, new, *ranges = match.groups()
                    if commit:
                        if sha:
                            yield sha, hunks
                        sha, hunks = commit.decode(), {}
                    elif old:
                        hunks[old.decode(), new.decode()] = file_hunks = []
                    else:
                        file_hunks.append(LineHunk(*(1 if number is None else int(number) for number in ranges)))
                if git.wait():
                    raise StorageError(f"{self.path}: git cannot compare its commits; `git fsck` says more")
                if sha:
                    yield sha, hunks

    def _renamed(self) -> list[str]:
        return ["-M100%" if self.partial else "-M", f"-l{_RENAMES}"]

    def _shallow_ends(self) -> Collection[str]:
        """The commits whose parents a shallow clone lacks."""
        if not self.shallow:
            return ()
        path = self._git("rev-parse", "--path-format=absolute", "--git-path", "shallow").removesuffix(b"\n")
        return Path(os.fsdecode(path)).read_text("ascii").split()

    def _changes(self, pairs: Sequence[str]) -> dict[str, tuple[FileChange, ...]]:
        """What commits changed, by their hashes; a pair is a commit and its first parent, or a commit alone."""
        words = ["diff-tree", "--stdin", "--root", "--always", "-r", "-z", "--raw", "--no-abbrev", *_DIFFERENCES]
        changes: dict[str, list[FileChange]] = {}
        fields = iter(self._git(*words, *self._renamed(), stdin=_lines(pairs)).split(b"\0")[:-1])
        for part in fields:
            if not part.startswith(b":"):
                commit = changes.setdefault(part.decode(), [])
                continue
            old = next(fields)
            path = next(fields) if part[-4:-3] == b"R" else old  # `R086`
            commit += _changes(part, os.fsdecode(old), os.fsdecode(path), self.inside)
        return {sha: tuple(some) for sha, some in changes.items()}

    def _run(self, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return run_git(self._folder, *words, stdin=stdin, settings=_settings(), variables=_only_env())

    def _git(self, *words: str, stdin: bytes = b"") -> bytes:
        return checked_output(self._run(*words, stdin=stdin), self.path)


def _check_regular(folder: Path) -> None:
    """Check that what git reads around a folder, before any object, are files.

    Raises:
        StorageError: one is a named pipe or a device, which may have no end.
    """
    top = next((parent for parent in (folder, *folder.parents) if os.path.lexists(parent / ".git")), None)
    git_folder = folder if top is None else top / ".git"
    within = (parent for parent in (folder, *folder.parents) if top is not None and parent.is_relative_to(top))
    for path in [
        git_folder,
        *(git_folder / name for name in _READ_BY_GIT),
        *(parent / ".gitignore" for parent in within),
    ]:
        try:
            mode = path.stat().st_mode
        except OSError:  # it is not there, which git may say
            continue
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise StorageError(f"git cannot read {path}: it is a named pipe or a device; remove it")


def path_fault(path: str) -> str:
    """Why a path cannot be an item's; empty if it can. Paths that differ only by case are different paths."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return "path not UTF-8"
    return "" if path.isprintable() else "control character in the path"


def line_times(times: Sequence[int]) -> list[int]:
    """Times of commits that rise strictly along their line: each at least 2 s after the one before.

    Args:
        times: of the committers, oldest first, seconds since 1970; what lies outside of 1970 to 8999 is drawn in.
    """
    return list(accumulate(times, lambda before, time: max(min(time, _LATEST), before + 2), initial=-2))[1:]


def _only_env() -> dict[str, str]:
    """The environment that git is run in: a caller, such as a hook, may have variables for another repository."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _ENVIRONMENT


def _settings() -> tuple[str, ...]:
    """The settings of git. The user's global ignore file is read, but none that a repository names."""
    folder = os.environ.get("XDG_CONFIG_HOME") or f"{os.environ.get('HOME', '')}/.config"
    return (*_SETTINGS, "-c", f"core.excludesFile={folder}/git/ignore")


def _lines(shas: Iterable[str]) -> bytes:
    return "".join(f"{sha}\n" for sha in shas).encode()


def _changes(about: bytes, old: str, path: str, inside: str) -> Iterator[FileChange]:
    """A change from a line `:MODE MODE SHA SHA STATUS`; None if it has no file that can be an item."""
    is_inside = [name.startswith(inside) and not path_fault(name) for name in (old, path)]
    old_mode, new_mode, old_sha, new_sha, _ = about[1:].split(b" ")
    before = old_sha.decode() if old_mode in _REGULAR and is_inside[0] else None
    after = new_sha.decode() if new_mode in _REGULAR and is_inside[1] else None
    if old != path and not (before and after):  # one of the two is unknown
        yield from [FileChange(old, None, before, None)] if before else []
        yield from [FileChange(path, None, None, after)] if after else []
    elif before or after:
        yield FileChange(path, old if old != path else None, before, after)


_FORM = "2"  # goes up with whatever changes the hunks of a commit


def line_hunks(repository: GitRepository, line: Sequence[LineCommit]) -> Hunks:
    """The lines that commits changed; of a partial clone, which may lack the files, nothing.

    They are kept in `hunks-1.sqlite` of the cache folder, by commit. Where nothing can be read or written there, git
    is asked each time.

    Raises:
        StorageError: the repository is damaged.
    """
    if repository.partial:
        return {}
    keys = {commit.sha: hashlib.sha256(f"{_FORM}\0{commit.sha}".encode()).digest() for commit in line}
    hunks: dict[tuple[str, str], Sequence[LineHunk]] = {}
    with closing(OptionalRows(cache_dir() / "hunks-1.sqlite", "hunks")) as rows:
        stored = rows.get(keys.values())
        for value in stored.values():
            hunks |= {(old, new): [LineHunk(*fields) for fields in some] for old, new, some in json.loads(value)}
        uncached = [
            commit for commit in line if commit.parents and commit.changes and keys[commit.sha] not in stored
        ]  # as far as is known
        if uncached:
            computed: dict[str, Hunks] = {commit.sha: {} for commit in uncached}
            computed |= repository.hunks(uncached)
            rows.put(
                {
                    keys[sha]: json.dumps([[*blobs, some] for blobs, some in by_blobs.items()]).encode()
                    for sha, by_blobs in computed.items()
                }
            )
            hunks |= {blobs: some for by_blobs in computed.values() for blobs, some in by_blobs.items()}
    return hunks
