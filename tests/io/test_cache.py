"""Where caches are kept, and files of them that are checked."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs
import pytest

from ctxbench.io.cache import CheckedRows, altered, map_sealed, read_sealed, seal_folder, write_sealed
from ctxbench.io.errors import ParameterError
from ctxbench.io.files import TEMPORARY, atomic_folder, cache_dir, temporary_path, write_atomic


def test_the_environment_moves_it(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "here"))
    assert cache_dir() == tmp_path / "here"


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CTXBENCH_CACHE", "~/vectors")
    assert cache_dir() == tmp_path / "vectors"


def test_the_home_folder_of_nobody_is_the_users_fault(monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", "~nobody_here/x")
    with pytest.raises(ParameterError, match=r"CTXBENCH_CACHE is '~nobody_here/x', but that home folder is unknown"):
        cache_dir()


def test_without_it_the_platform_decides(monkeypatch):
    monkeypatch.delenv("CTXBENCH_CACHE", raising=False)
    assert cache_dir() == Path(platformdirs.user_cache_dir("ctxbench"))
    monkeypatch.setenv("CTXBENCH_CACHE", "")
    assert cache_dir() == Path(platformdirs.user_cache_dir("ctxbench"))


def test_it_is_not_made(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path / "here"))
    cache_dir()
    assert not (tmp_path / "here").exists()


def test_what_a_killed_writer_left_is_swept_by_the_next(tmp_path):
    left = temporary_path(tmp_path / "kept", TEMPORARY)
    left.write_bytes(b"half")
    write_sealed(tmp_path / "kept", b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert read_sealed(tmp_path / "kept") == b"data"


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path):
    (tmp_path / "file").touch()
    write_sealed(tmp_path / "file" / "kept", b"data")
    assert read_sealed(tmp_path / "file" / "kept") is None


def test_what_is_missing_is_not_said(tmp_path, caplog):
    assert read_sealed(tmp_path / "kept") is None
    assert not caplog.records


def test_what_cannot_be_read_is_said_with_its_reason(tmp_path, caplog):
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it: who opened it would wait for ever
    (tmp_path / "folder").mkdir()
    (tmp_path / "damaged").write_bytes(b"00000000\ndata")
    assert [read_sealed(tmp_path / name) for name in ("pipe", "folder", "damaged")] == [None] * 3
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot read {tmp_path / 'pipe'}: it is a pipe; expected a file; its content is computed again",
        f"cannot read {tmp_path / 'folder'}: it is a folder; expected a readable file; its content is computed again",
        f"{tmp_path / 'damaged'} does not match its checksum; its content is computed again",
    ]


def test_a_mapped_file_is_read_as_it_was_kept_and_checked_likewise(tmp_path, caplog):
    data = bytes(range(256)) * 10_000  # more than one block
    write_sealed(tmp_path / "kept", data[:5], memoryview(data)[5:])
    mapped = map_sealed(tmp_path / "kept")
    assert mapped == data == read_sealed(tmp_path / "kept")
    write_sealed(tmp_path / "kept", b"new")
    assert mapped == data  # of the file that was replaced
    whole = (tmp_path / "kept").read_bytes()
    for damage in (b"", whole[:5], whole[:-1], whole + b"x", whole.replace(b"new", b"old")):
        (tmp_path / "kept").write_bytes(damage)
        assert map_sealed(tmp_path / "kept") is None
    assert map_sealed(tmp_path / "missing") is None
    (tmp_path / "folder").mkdir()
    assert map_sealed(tmp_path / "folder") is None
    assert [record.getMessage().split(":")[0].split(";")[0] for record in caplog.records] == [
        *[f"{tmp_path / 'kept'} does not match its checksum"] * 5,
        f"cannot read {tmp_path / 'folder'}",
    ]


def test_a_pipe_in_place_of_a_sealed_file_is_no_file(tmp_path):
    (tmp_path / "one").write_bytes(b"1")
    seal_folder(tmp_path, ["one"])
    assert altered(tmp_path) == []
    (tmp_path / "one").unlink()
    os.mkfifo(tmp_path / "one")
    assert altered(tmp_path) == ["one"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_what_is_made_is_for_its_owner_alone_and_what_is_there_keeps_its_mode(tmp_path, monkeypatch):
    mask = os.umask(0o022)
    try:
        for root in (tmp_path / "new" / "cache", tmp_path / "old"):
            monkeypatch.setenv("CTXBENCH_CACHE", str(root))
            if root.name == "old":
                root.mkdir(mode=0o755)
            write_sealed(root / "chat" / "one.json", b"reply")
            rows = CheckedRows(root / "rows" / "rows.sqlite", "things")
            rows.put({b"a": b"1"})
            rows.close()
            with atomic_folder(tmp_path / root.name / "out"):
                pass
            modes = [path.stat().st_mode & 0o777 for path in (root, *root.glob("*/*.*"))]
            assert modes == [0o755 if root.name == "old" else 0o700, 0o600, 0o600]
        write_atomic(tmp_path / "result.json", b"{}")
        assert (tmp_path / "result.json").stat().st_mode & 0o777 == 0o644
    finally:
        os.umask(mask)
