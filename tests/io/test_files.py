"""Files are read whole or by line with every fault placed, and written whole or not at all."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ctxbench.io.errors import Fault, InputError, StorageError
from ctxbench.io.files import (
    FilesRead,
    atomic_folder,
    exclusive,
    folder_fault,
    iter_lines,
    read_bytes,
    read_text,
    readable,
    recover_folder,
    special,
    temporary_path,
    write_atomic,
)
from tests.children import child


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


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_file_in_utf16_is_one_fault_however_many_lines_it_has(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("{one}\n{two}\n".encode(encoding))
    fault = Fault("the file is UTF-16; save it as UTF-8", path, 1)
    faults: list[Fault] = []
    assert list(iter_lines(path, faults)) == []
    assert faults == [fault]
    with pytest.raises(InputError) as caught:
        read_text(path)
    assert caught.value.faults == (fault,)


@pytest.mark.parametrize("data", [b"\0", b"a\0b", b"a\0bc\0", b"one\na\0"])
def test_a_nul_byte_is_no_sign_of_utf16(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"contains a NUL byte.* \(.*a\.txt, line {1 + data.count(10)}, column .\)"):
        read_text(path)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a\0", "it holds NUL"),
        ("\ud800", "it holds half a character"),
        ("dsü", r"the locale's encoding \(.*\) has no '\\xfc'; set LC_ALL=C.UTF-8 or PYTHONUTF8=1"),
    ],
)
def test_why_a_text_can_be_no_path_is_told(name: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "locale" in why:
        monkeypatch.setattr(os, "fsencode", lambda path: path.encode("ascii"))
    with pytest.raises(StorageError, match=f"can be no path: {why}; expected the path of a file"):
        readable(name)


def test_why_a_folder_cannot_be_listed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    assert folder_fault(tmp_path) == ""
    assert folder_fault(tmp_path / "gone") == "no such folder"
    assert folder_fault(tmp_path / "file") == "it is a file"
    assert folder_fault(tmp_path / "loop") == os.strerror(errno.ELOOP)


def test_a_missing_file_and_a_folder_are_storage_errors(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nothing\.txt: No such file"):
        read_text(tmp_path / "nothing.txt")
    with pytest.raises(StorageError, match="folder"):
        list(iter_lines(tmp_path, []))


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices of POSIX")
def test_what_is_no_file_is_refused_before_anybody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
    odd = {"pipe": "a pipe", "link": "a pipe", "socket": "a socket", "/dev/zero": "a character device"}
    for name, what in odd.items():
        path = tmp_path / name
        assert special(path) == what
        for use in (read_bytes, read_text, lambda p: list(iter_lines(p, []))):
            with pytest.raises(StorageError) as caught:
                use(path)
            assert str(caught.value) == f"cannot read {path}: it is {what}; expected a file"
    (tmp_path / "file").write_text("x")
    assert [special(tmp_path / name) for name in ("file", "", "none")] == ["", "", ""]


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="pipes of a shell")
def test_a_pipe_that_the_process_was_given_is_read_where_once_is_enough() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo\n")
    os.close(writing)
    try:
        path = f"/dev/fd/{reading}"
        with pytest.raises(StorageError, match="it is a pipe; expected a file"):
            readable(path, repeatedly=True)
        assert list(iter_lines(path, [])) == [(1, "one"), (2, "two")]
    finally:
        os.close(reading)


def test_writing_makes_folders_follows_links_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a" / "b.txt", "ä\n")
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b.txt")
    write_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"new"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "b.txt", "link"]


def test_what_can_be_no_path_is_a_storage_error(tmp_path: Path) -> None:
    for name in ("a\0b", "a\ud800b"):
        path = tmp_path / name
        for use in (read_bytes, read_text, lambda p: list(iter_lines(p, [])), lambda p: write_atomic(p, "x")):
            with pytest.raises(StorageError, match="can be no path"):
                use(path)
        for block in (atomic_folder(path), exclusive(path, waiting=lambda: None)):
            with pytest.raises(StorageError, match="can be no path"), block:
                pass
    assert list(tmp_path.iterdir()) == []


def test_a_name_of_many_bytes_is_written(tmp_path: Path) -> None:
    path = tmp_path / ("\u6f22" * 80 + ".json")  # 245 bytes; file systems take 255
    for text in ("old", "new"):
        write_atomic(path, text)
        with atomic_folder(tmp_path / ("\u6f22" * 85)) as folder:
            (folder / text).write_text("x")
    assert path.read_text() == "new"
    assert sorted(p.name for p in tmp_path.rglob("*")) == sorted([path.name, "\u6f22" * 85, "new"])


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_what_was_private_stays_private(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", "old")
    with atomic_folder(tmp_path / "d") as folder:
        write_atomic(folder / "x", "old")
    (tmp_path / "a").chmod(0o600)
    (tmp_path / "d").chmod(0o700)
    write_atomic(tmp_path / "a", "new")
    with atomic_folder(tmp_path / "d") as folder:
        write_atomic(folder / "x", "new")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "d" / "x").read_text() == "new"


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


_KILLED_BETWEEN = """
import os, sys
from pathlib import Path
from ctxbench.io.files import atomic_folder
rename = Path.rename
def killed(self, target):
    rename(self, target)
    if self.name == "d":
        os._exit(9)  # the old folder has gone aside, the new one is not there yet
Path.rename = killed
with atomic_folder(Path(sys.argv[1])) as folder:
    (folder / "x").write_text("new")
"""


@pytest.fixture
def orphaned(tmp_path: Path) -> Path:
    """Where a folder was when its writer was killed."""
    target = tmp_path / "d"
    with atomic_folder(target) as folder:
        (folder / "x").write_text("old")
    killed = subprocess.run([sys.executable, "-c", _KILLED_BETWEEN, str(target)], check=False, timeout=120)
    assert killed.returncode == 9
    assert not target.exists()
    return target


def test_a_reader_brings_back_what_a_killed_writer_put_aside(orphaned: Path) -> None:
    recover_folder(orphaned)
    assert (orphaned / "x").read_text() == "old"
    recover_folder(orphaned)
    assert (orphaned / "x").read_text() == "old"


def test_a_writer_that_fails_leaves_what_a_killed_one_put_aside(orphaned: Path) -> None:
    with pytest.raises(ZeroDivisionError), atomic_folder(orphaned):
        _ = 1 / 0
    assert (orphaned / "x").read_text() == "old"


def test_the_next_writer_keeps_or_replaces_it_and_clears_away_what_is_left(orphaned: Path) -> None:
    with atomic_folder(orphaned, keep=True) as folder:
        (folder / "x").write_text("newer")
    assert (orphaned / "x").read_text() == "old"
    with atomic_folder(orphaned) as folder:
        (folder / "x").write_text("newer")
    assert (orphaned / "x").read_text() == "newer"
    assert [p.name for p in orphaned.parent.iterdir() if p.name.endswith(".old")] == []


def test_a_reader_and_a_writer_clear_away_what_a_killed_one_was_filling(orphaned: Path) -> None:
    [left] = (p for p in orphaned.parent.iterdir() if p.name.endswith(".tmp"))
    recover_folder(orphaned)
    assert not left.exists()
    assert list(orphaned.parent.iterdir()) == [orphaned]


def test_recovering_takes_the_newest_and_nothing_of_another_folder(tmp_path: Path) -> None:
    for age, name in enumerate((".d.1-0000000a.old", ".d.1-0000000b.old", ".d.e.1-0000000c.old", ".d.old")):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("x")
        os.utime(tmp_path / name, (1000 + age, 1000 + age))
    recover_folder(tmp_path / "d")
    assert [p.name for p in (tmp_path / "d").iterdir()] == [".d.1-0000000b.old"]
    recover_folder(tmp_path / "none" / "d")
    assert not (tmp_path / "none").exists()


def test_long_names_that_begin_alike_are_not_mixed_up(tmp_path: Path) -> None:
    one, two = (tmp_path / ("n" * 230 + end) for end in "12")
    with atomic_folder(one) as folder:
        (folder / "x").write_text("one")
    one.rename(temporary_path(one, ".old"))
    recover_folder(two)
    assert not two.exists()
    recover_folder(one)
    assert (one / "x").read_text() == "one"


def test_killed_at_any_moment_the_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomic(path, "0" * 100_000)
    code = (
        "import sys\nfrom ctxbench.io.files import write_atomic\nprint(1, flush=True)\n"
        f"while True:\n    for c in '0123456789':\n        write_atomic({str(path)!r}, c * 100_000)\n"
    )
    for pause in (0.0, 0.003, 0.006, 0.011, 0.017):
        with child([sys.executable, "-c", code], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(pause)
            writer.kill()
        data = path.read_text()
        assert len(data) == 100_000
        assert len(set(data)) == 1


def test_a_folder_that_goes_while_it_is_looked_at_is_made_anew(tmp_path, monkeypatch):
    """Another process that ends removes the folder between the making, which finds it there, and the look at it."""
    make, seen = Path.mkdir, []

    def mkdir(self, *args, **given):
        seen.append(self)
        if len(seen) == 1:
            raise FileExistsError(errno.EEXIST, "File exists", str(self))
        return make(self, *args, **given)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with exclusive(tmp_path / "run" / ".lock", waiting=lambda: None):
        assert (tmp_path / "run" / ".lock").exists()
    assert len(seen) == 2


def _append(path: Path) -> None:
    with path.open("a") as file:
        file.write("more")


CHANGES = {
    "other size": _append,
    "other time": lambda path: os.utime(path, ns=(1, 1)),
    "other file": lambda path: (path.with_name("new").write_text("text"), path.with_name("new").replace(path)),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_read_is_noted_and_a_change_is_seen(tmp_path: Path, change: Callable[[Path], object]) -> None:
    path, other = tmp_path / "a.txt", tmp_path / "other.txt"
    path.write_text("text")
    other.write_text("text")
    with FilesRead() as files:
        read_text(path)
    read_text(other)
    other.write_text("other")
    assert not files.changed()
    change(path)
    assert files.changed()
    after = FilesRead()
    after.add_all(files)
    assert not after.changed()


def test_a_file_that_was_missing_is_seen_when_it_is_there(tmp_path: Path) -> None:
    with FilesRead() as files, pytest.raises(StorageError):
        read_text(tmp_path / "a.txt")
    assert not files.changed()
    (tmp_path / "a.txt").touch()
    assert files.changed()
