"""Read commits and earlier versions of files from git, without touching the checkout."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self, cast

from ctxbench.io.errors import Message, StorageError

_SETTINGS = ("-c", "log.showSignature=false", "-c", "color.ui=false", "--no-pager")
_LITERAL = ("--literal-pathspecs",)  # which `check-ignore` refuses
SILENCE_S = 60.0
"""Seconds after which git is ended if it prints nothing."""
_FILES = ("100644", "100755")  # modes: no links, and no other repositories


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit.

    Attributes:
        hash, short: whole and abbreviated.
        date: when it was committed, ISO 8601 with its offset.
        message: the first line.
    """

    hash: str
    short: str
    date: str
    message: str


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository with a checkout.

    Attributes:
        root: the folder of the checkout, without links.
    """

    root: Path

    @classmethod
    def around(cls, path: Path) -> Repository | None:
        """The repository that a path lies in, which need not exist; None = in none.

        Raises:
            StorageError: git is not installed, or refuses.
        """
        folder = Path(os.path.realpath(path))
        while not folder.is_dir() and folder != folder.parent:
            folder = folder.parent
        done = run_git(folder, "rev-parse", "--show-toplevel")
        if done.returncode and b"not a git repository" in done.stderr:
            return None
        return cls(Path(os.path.realpath(git_text(checked_output(done, folder)).strip())))

    def is_shallow(self) -> bool:
        """Whether the clone lacks older commits."""
        return self._git("rev-parse", "--is-shallow-repository").strip() == b"true"

    def commits(self, folder: Path, *, limit: int | None = None) -> list[Commit]:
        """The commits that changed what is in a folder, oldest first; none where there is no commit at all.

        Args:
            folder: in the checkout; it need not be there any more.
            limit: the newest so many; None = all.

        Raises:
            StorageError: git refuses.
        """
        if run_git(self.root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}").returncode:
            return []
        newest = () if limit is None else (f"--max-count={limit}",)
        form = "--format=%H%x00%h%x00%cI%x00%B"
        data = self._git("log", "-z", "--date-order", "--encoding=UTF-8", form, *newest, "--", self._inside(folder))
        fields = git_text(data).split("\0")
        rows = [fields[start : start + 4] for start in range(0, len(fields) - 3, 4)]
        return [Commit(hash=h, short=s, date=d, message=m.strip("\n").split("\n")[0]) for h, s, d, m in rows[::-1]]

    def files(self, commit: Commit, folder: Path) -> dict[str, str]:
        """The hashes of the files below a folder at a commit, by their paths in the folder.

        Raises:
            StorageError: git refuses.
        """
        inside = self._inside(folder)
        data = self._git("ls-tree", "-r", "-z", "--full-tree", commit.hash, *([] if inside == "." else [f"{inside}/"]))
        start = 0 if inside == "." else len(os.fsencode(inside)) + 1
        hashes = {}
        for entry in filter(None, data.split(b"\0")):
            about, _, path = entry.partition(b"\t")
            mode, _, digest = about.decode().split()
            if mode in _FILES:
                hashes[os.fsdecode(path[start:])] = digest
        return hashes

    def text(self, commit: Commit, file: Path) -> str | None:
        """The content of a file at a commit; None where it did not exist.

        Args:
            file: in the checkout; it need not be there any more.

        Raises:
            StorageError: git refuses.
        """
        digest = self.files(commit, file.parent).get(file.name)
        return None if digest is None else git_text(self._contents([digest])[0])

    def write(self, files: Mapping[str, str], target: Path) -> None:
        """Write files into a folder as git has them: no filters, and line ends as they were committed.

        Args:
            files: hashes by path in the folder, as `files` gives them.
            target: the folder; it is made.

        Raises:
            StorageError: git has lost one, a path leads out of the folder, or a file cannot be written.
        """
        target.mkdir(parents=True, exist_ok=True)
        for path, data in zip(files, self._contents(list(files.values())), strict=True):
            file = Path(os.path.normpath(target / path))
            if not file.is_relative_to(target):
                raise StorageError(f"{path!r}, a path that git has, leads out of its folder; it is not written")
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            except OSError as error:
                raise StorageError(f"cannot write {file}: {error.strerror or error}") from error

    def _contents(self, hashes: Sequence[str]) -> list[bytes]:
        data = self._git("cat-file", "--batch", stdin="".join(f"{hash_}\n" for hash_ in hashes).encode())
        contents = []
        for digest, content in zip(hashes, _objects(data), strict=True):
            if content is None:
                raise StorageError(f"git has lost {digest} of {self.root}; `git fsck` says more")
            contents.append(content)
        return contents

    def _inside(self, folder: Path) -> str:
        """The path of a folder from the root, as git writes it.

        Raises:
            StorageError: it lies outside.
        """
        real = Path(os.path.realpath(folder))
        if not real.is_relative_to(self.root):
            raise StorageError(f"{folder} lies outside the git repository {self.root}; name a folder inside it")
        return real.relative_to(self.root).as_posix()

    def _git(self, *words: str, stdin: bytes = b"") -> bytes:
        return checked_output(run_git(self.root, *words, stdin=stdin), self.root)


def file_versions(file: Path, revisions: Sequence[str]) -> dict[str, bytes]:
    """The content of a file at some revisions that have it, by revision; empty where git fails.

    Args:
        file: it need not be there any more.
        revisions: names such as `HEAD` or `origin/main`; they need not exist.
    """
    folder = next(parent for parent in (file.parent, *file.parent.parents) if parent.is_dir())
    path = file.relative_to(folder).as_posix()
    if "\n" in path:
        return {}
    try:
        names = "".join(f"{revision}:./{path}\n" for revision in revisions)
        done = run_git(folder, "cat-file", "--batch", stdin=os.fsencode(names))
    except StorageError:
        return {}
    objects = [] if done.returncode else [*_objects(done.stdout)]
    return {revision: data for revision, data in zip(revisions, objects, strict=bool(objects)) if data is not None}


def merge_base(folder: Path, revision: str) -> str:
    """The newest commit that the checkout around a folder has in common with a revision; empty where there is none.

    Raises:
        StorageError: git is not installed.
    """
    done = run_git(folder, "merge-base", "HEAD", revision)
    return "" if done.returncode else git_text(done.stdout).strip()


def _objects(data: bytes) -> Iterator[bytes | None]:
    """The contents that `git cat-file --batch` printed, in order; None for what is missing."""
    position = 0
    while position < len(data):
        end = data.index(b"\n", position)
        head = data[position:end]
        position = end + 1
        if head.endswith((b" missing", b" ambiguous")):
            yield None
        else:
            size = int(head.split()[-1])
            yield data[position : position + size]
            position += size + 1


def run_git(
    folder: Path,
    *words: str,
    stdin: bytes = b"",
    settings: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder and wait for it, at most `SILENCE_S` without output.

    Args:
        folder: where.
        words: a command of git and what follows it.
        given: its input.
        settings: options before the command.
        only: its whole environment; None = that of this process.

    Raises:
        StorageError: it is not installed, or prints nothing for too long.
    """
    environment = variables or {**os.environ, "LC_ALL": "C"}
    with _started(folder, words, settings, environment, subprocess.PIPE, subprocess.PIPE) as process:
        unsent: bytes | None = stdin
        n_printed = 0
        while True:
            try:
                output, errors = process.communicate(unsent, timeout=SILENCE_S)
                return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
            except subprocess.TimeoutExpired as late:
                unsent = None  # it is being sent
                if len(late.output or b"") == n_printed:
                    process.kill()
                    raise _silent(folder) from late
                n_printed = len(late.output or b"")
            except BaseException:  # such as Ctrl-C
                process.kill()
                raise


class GitStream:
    """Git that reads from an open file, and whose output is read as it comes; what it says of faults is dropped.

    A context manager, at whose end git ends. A read that gets nothing for `SILENCE_S` ends it, too. Arguments and
    errors are those of `run_git`.
    """

    def __init__(
        self, folder: Path, *words: str, stdin: IO[bytes], settings: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        """Start it."""
        self._folder = folder
        self._process = _started(folder, words, settings, environment, stdin, subprocess.DEVNULL)
        self._output = cast("IO[bytes]", self._process.stdout)  # it was asked for
        self._reading_since: float | None = None
        self._ended = threading.Event()
        self._is_late = False
        self._watchdog = threading.Thread(target=self._watch, daemon=True)
        self._watchdog.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._process.kill()  # the output is not read to its end
        self._process.__exit__(None, None, None)
        self._watchdog.join()

    def __iter__(self) -> Iterator[bytes]:
        """Its lines."""
        return iter(self.readline, b"")

    def readline(self) -> bytes:
        """The next line; empty at the end."""
        return self._read(self._output.readline)

    def read(self, n_bytes: int) -> bytes:
        """So many bytes; fewer at the end."""
        return self._read(self._output.read, n_bytes)

    def wait(self) -> int:
        """Its exit code, at the end of its output."""
        return self._process.wait()

    def _read(self, read: Callable[..., bytes], *words: int) -> bytes:
        self._reading_since = time.monotonic()
        data = read(*words)
        self._reading_since = None
        if self._is_late:
            raise _silent(self._folder)
        return data

    def _watch(self) -> None:
        while not self._ended.wait(min(SILENCE_S, 1.0)):
            since = self._reading_since  # between two reads it is git that waits
            if since is not None and time.monotonic() - since > SILENCE_S:
                self._is_late = True
                self._process.kill()
                return


def _started(
    folder: Path,
    words: Sequence[str],
    settings: Sequence[str],
    environment: Mapping[str, str],
    stdin: int | IO[bytes],
    stderr: int,
) -> subprocess.Popen[bytes]:
    command = ["git", "-C", str(folder), *_SETTINGS, *_LITERAL[words[0] == "check-ignore" :], *settings, *words]
    try:
        return subprocess.Popen(  # noqa: S603 - our own words, and paths that are no options
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, env=environment
        )
    except OSError as error:
        why = error.strerror or error
        raise StorageError(
            f"git cannot be run ({why}); install it, or put it on PATH: commits are read by it"
        ) from error


def _silent(folder: Path) -> StorageError:
    return StorageError(Message("io.git-silent", n=SILENCE_S, folder=folder))


def checked_output(done: subprocess.CompletedProcess[bytes], folder: Path) -> bytes:
    """What git printed.

    Raises:
        StorageError: it failed.
    """
    if done.returncode:
        message = git_text(done.stderr).strip().split("\n")[0].removeprefix("fatal: ") or f"exit code {done.returncode}"
        raise StorageError(f"git cannot read the repository around {folder}: {message}")
    return done.stdout


def git_text(data: bytes) -> str:
    """What git printed as text; what is no UTF-8 is replaced."""
    return data.decode("utf-8", "replace")
