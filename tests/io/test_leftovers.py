"""What killed processes leave half-written is removed by the next; what another still fills is left alone."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ctxbench.io import files
from ctxbench.io.files import (
    TEMPORARY,
    atomic_folder,
    held_folder,
    left,
    let_go,
    make_private_file,
    recover_folder,
    sweep,
    temporary_folder,
    temporary_path,
    write_atomic,
)
from tests.children import LIMIT, child

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders are not locked on Windows")

# Each fills something under the path that it is given, and then stops for good: killed, or waiting for its input.
FILLS = {
    "folder": """
with atomic_folder(path) as folder:
    (folder / "x").write_text("half")
    stop()
""",
    "file": """
def never(_handle):
    stop()
os.fsync = never
write_atomic(path, "half")
""",
    "own": """
with temporary_folder(path) as folder:
    (folder / "x").write_text("half")
    stop()
""",
}
START = """
import os, sys
from pathlib import Path
from ctxbench.io.files import atomic_folder, temporary_folder, write_atomic
path = Path(sys.argv[1])
def stop():
    print("filling", flush=True)
    sys.stdin.read() if sys.argv[2] == "wait" else os._exit(9)
"""
NEXT = {
    "folder": recover_folder,
    "file": lambda path: write_atomic(path, "new"),
    "own": sweep,
}


@contextmanager
def filling(kind: str, path: Path, then: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", START + FILLS[kind], path, then]
    with child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"filling\n"
        yield process


@pytest.mark.parametrize("kind", FILLS)
def test_what_a_killed_process_was_filling_is_removed_by_the_next(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "made"
    for _ in range(2):
        with filling(kind, path, "die"):
            pass
    assert len(left(path, TEMPORARY)) == 1  # the second has removed what the first left
    NEXT[kind](path)
    assert left(path, TEMPORARY) == []


@pytest.mark.parametrize("kind", FILLS)
def test_what_another_process_still_fills_is_left_alone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "made"
    with filling(kind, path, "wait") as process:
        [held] = left(path, TEMPORARY)
        os.utime(held, (time.time() - 2 * 86_400,) * 2)  # however long it takes
        NEXT[kind](path)
        assert left(path, TEMPORARY) == [held]
        process.kill()
    NEXT[kind](path)
    assert left(path, TEMPORARY) == []


def test_only_names_of_the_place_itself_are_removed(tmp_path: Path) -> None:
    others = [".made.tmp", ".made.1-ab.tmp", ".other.1-0123abcd.tmp", "made.1-0123abcd.tmp", ".made.1-0123abcd.tmp.x"]
    for name in others:
        (tmp_path / name).write_text("of somebody")
    (tmp_path / ".made.1-0123abcd.tmp").write_text("left")
    sweep(tmp_path / "made")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)
    sweep(tmp_path / "none" / "made")


def test_without_locks_a_day_must_have_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "try_lock", lambda _handle: None)
    path = tmp_path / "made"
    with atomic_folder(path) as folder:
        sweep(path)
        assert folder.exists()
    for age, there in ((86_000, True), (86_500, False)):
        one = temporary_path(path, TEMPORARY)
        one.mkdir()
        os.utime(one, (time.time() - age,) * 2)
        sweep(path)
        assert one.exists() == there


def test_a_folder_taken_before_it_is_held_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, taken = files.try_lock, iter([True, False, True])

    def raced(handle: int) -> bool | None:
        if next(taken, False):
            sweep(tmp_path / "made")  # by another process, just before
        return lock(handle)

    monkeypatch.setattr(files, "try_lock", raced)
    path, handle = held_folder(tmp_path / "made")
    assert left(tmp_path / "made", TEMPORARY) == [path]
    let_go(handle)


def test_a_file_that_is_taken_for_a_leftover_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = Path.replace
    taken = iter([True, True])

    def raced(self: Path, target: Path) -> Path:
        if next(taken, False):
            sweep(target)  # by another process, between closing the file and renaming it
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", raced)
    write_atomic(tmp_path / "made", "whole")
    assert (tmp_path / "made").read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_a_folder_of_ones_own_is_private_and_gone_at_the_end(tmp_path: Path) -> None:
    with temporary_folder(tmp_path / "made") as folder:
        assert folder.stat().st_mode & 0o077 == 0
    with pytest.raises(ZeroDivisionError), temporary_folder(tmp_path / "made") as folder:
        _ = (folder / "x").write_text("x") / 0
    assert list(tmp_path.iterdir()) == []


def test_where_no_folder_can_be_made_it_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match=r"File exists|Not a directory"), temporary_folder(tmp_path / "file" / "made"):
        pass


def test_a_private_file_leaves_the_locks_of_this_process_on_the_one_that_is_there(tmp_path):
    path = tmp_path / "rows.sqlite"
    make_private_file(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("CREATE TABLE things (name TEXT)")
        writer.execute("BEGIN EXCLUSIVE")
        make_private_file(path)
        program = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('SELECT * FROM things')"
        done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, check=False, timeout=LIMIT)
    assert b"database is locked" in done.stderr
