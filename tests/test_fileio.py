"""Files are read whole or by line with every fault placed, and written whole or not at all."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ctxbench.errors import Fault, InputError, StorageError
from ctxbench.fileio import atomic_folder, iter_lines, read_text, write_atomic


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\r\ntwo\u2028still two\x0cand\n\nlast".encode())
    faults: list[Fault] = []
    assert list(iter_lines(path, faults)) == [(1, "one"), (2, "two\u2028still two\x0cand"), (3, ""), (4, "last")]
    assert faults == []


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert list(iter_lines(tmp_path / "a", [])) == []
    assert read_text(tmp_path / "a") == ""


def test_every_line_that_is_not_utf8_is_a_fault_with_its_column(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("fine\nä\udcff".encode("utf-8", "surrogateescape") + b"\nfine\n\xc3")
    faults: list[Fault] = []
    assert [number for number, _ in iter_lines(path, faults)] == [1, 3]
    assert [(f.line, f.column) for f in faults] == [(2, 2), (4, 1)]
    with pytest.raises(InputError) as caught:
        read_text(path)
    assert [(f.line, f.column) for f in caught.value.faults] == [(2, 2), (4, 1)]
    assert "byte 0xff" in str(caught.value)


def test_a_missing_file_and_a_folder_are_storage_errors(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nothing\.txt: No such file"):
        read_text(tmp_path / "nothing.txt")
    with pytest.raises(StorageError, match="directory"):
        list(iter_lines(tmp_path, []))


def test_writing_makes_folders_follows_links_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a" / "b.txt", "ä\n")
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b.txt")
    write_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"new"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "b.txt", "link"]


def test_a_full_disk_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    write_atomic(path, "old")

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match=r"cannot write .*a\.txt: No space left on device"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_is_no_folder_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot write"):
        write_atomic(tmp_path / "file" / "a.txt", "new")
    with pytest.raises(StorageError, match="cannot write"), atomic_folder(tmp_path / "file" / "a"):
        pass


def test_a_folder_takes_the_place_of_the_old_one_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "d"
    for name in ("one", "two"):
        with atomic_folder(target) as folder:
            (folder / name).write_text("x")
    assert [p.name for p in target.iterdir()] == ["two"]
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_fails_half_way_changes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "d"
    with atomic_folder(target) as folder:
        (folder / "one").write_text("x")
    with pytest.raises(ZeroDivisionError), atomic_folder(target) as folder:
        _ = (folder / "two").write_text("x") / 0
    assert [p.name for p in target.iterdir()] == ["one"]
    assert list(tmp_path.iterdir()) == [target]


def test_many_writers_of_one_folder_leave_one_whole(tmp_path: Path) -> None:
    target = tmp_path / "d"

    def write(writer: int) -> None:
        for _ in range(20):
            with atomic_folder(target) as folder:
                for name in "abc":
                    (folder / name).write_text(str(writer))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert [p.name for p in sorted(target.iterdir())] == ["a", "b", "c"]
    assert len({p.read_text() for p in target.iterdir()}) == 1
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_made_by_another_process_meanwhile_can_be_kept(tmp_path: Path) -> None:
    target = tmp_path / "d"
    with atomic_folder(target, keep=True) as folder:
        (folder / "mine").write_text("x")
        target.mkdir()
        (target / "theirs").write_text("x")
    assert [p.name for p in target.iterdir()] == ["theirs"]


def test_killed_at_any_moment_the_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomic(path, "0" * 100_000)
    code = (
        "import sys\nfrom ctxbench.fileio import write_atomic\nprint(1, flush=True)\n"
        f"while True:\n    for c in '0123456789':\n        write_atomic({str(path)!r}, c * 100_000)\n"
    )
    for pause in (0.0, 0.003, 0.006, 0.011, 0.017):
        writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(pause)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        data = path.read_text()
        assert len(data) == 100_000
        assert len(set(data)) == 1
