"""Rows in places that cannot be written, or hold something else."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys

import pytest

from ctxbench.io import cache
from ctxbench.io.errors import StorageError
from tests.children import LIMIT
from tests.io.checked_rows.rows_cases import MANY, NO_DATABASE, changed, killed_inside_a_transaction, locked_out, said


def test_a_read_only_place_can_be_read(rows, opened, path, monkeypatch):
    rows.put({b"a": b"1"})
    rows.close()
    before = path.read_bytes()
    locked_out(monkeypatch)
    reader = opened()
    assert reader.get([b"a", b"b"]) == {b"a": b"1"}
    assert not reader.writable
    with pytest.raises(StorageError, match="cannot be written"):
        reader.put({b"b": b"2"})
    with pytest.raises(StorageError, match="cannot be written, so nothing can be removed"):
        reader.remove([b"a"])
    assert [one.name for one in path.parent.iterdir()] == ["rows.sqlite"]
    assert path.read_bytes() == before


def test_damage_in_a_read_only_place_is_said_once_and_left(rows, opened, path, monkeypatch, caplog):
    rows.put({b"a": b"1", b"b": b"2"})
    changed(path, "UPDATE things SET value = x'30'")
    rows.close()
    before = path.read_bytes()
    locked_out(monkeypatch)
    reader = opened()
    assert [reader.get([key]) for key in (b"a", b"b")] == [{}, {}]
    (line,) = said(caplog)
    assert line.startswith(f"{path} does not match its checksum;")
    assert path.read_bytes() == before


def test_a_read_only_file_that_is_no_database_is_done_without(opened, path, monkeypatch, caplog):
    path.parent.mkdir()
    path.write_bytes(NO_DATABASE)
    locked_out(monkeypatch)
    reader = opened()
    assert [reader.get([b"a"]), reader.get([b"a"])] == [{}, {}]
    assert not reader.writable
    assert said(caplog) == [f"{path} cannot be used ('file is not a database') or replaced; nothing is cached there"]
    assert [one.name for one in path.parent.iterdir()] == ["rows.sqlite"]


def test_a_read_only_place_without_a_file_is_empty(opened, path, monkeypatch):
    path.parent.mkdir()
    locked_out(monkeypatch)
    reader = opened()
    assert (reader.get([b"a"]), reader.writable, path.exists()) == ({}, False, False)


def test_a_read_only_file_without_tables_is_empty(opened, path, monkeypatch):
    path.parent.mkdir()
    path.touch()  # as left by a process that was killed while it made the file
    locked_out(monkeypatch)
    reader = opened()
    assert (reader.get([b"a"]), len(reader), reader.writable) == ({}, 0, False)


_AS_NOBODY = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2].split(os.pathsep)
from ctxbench.io.cache import CheckedRows
os.setuid(65534)
rows = CheckedRows(Path(sys.argv[1]), "things")
print(rows.get([b"a", b"b"]), rows.writable)
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("file_mode", [0o444, 0o666])
def test_another_user_can_read_where_he_may_not_write(rows, path, file_mode):
    rows.put({b"a": b"1"})
    rows.close()
    path.chmod(file_mode)
    path.parent.chmod(0o555)
    for folder in list(path.parent.parents)[:-2]:
        folder.chmod(folder.stat().st_mode | 0o055)
    shown = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, str(path), os.pathsep.join(sys.path)],
        capture_output=True, text=True, check=True, timeout=LIMIT,
    )  # fmt: skip
    assert shown.stdout.split("\n")[0] == "{b'a': b'1'} False"


def test_a_read_only_file_that_a_killed_process_left_half_changed_is_done_without(
    rows, opened, path, monkeypatch, caplog
):
    killed_inside_a_transaction(path)
    with monkeypatch.context() as read_only:
        locked_out(read_only)
        assert opened().get([b"whole"]) == {}
        assert len(said(caplog)) == 1
    assert rows.get([b"whole"]) == {b"whole": b"1"}  # opened where it can be written
    locked_out(monkeypatch)
    assert opened().get([b"whole"]) == {b"whole": b"1"}


def test_a_file_in_place_of_the_folder(rows, path):
    path.parent.write_text("")
    assert rows.get([b"a"]) == {}
    with pytest.raises(StorageError, match=r"the folder .*/folder cannot be made: File exists"):
        rows.put({b"a": b"1"})


def test_a_folder_in_place_of_the_file_is_done_without(rows, path, caplog):
    path.mkdir(parents=True)
    assert rows.get([b"a"]) == {}
    assert not rows.writable
    assert said(caplog) == [f"{path} cannot be opened (unable to open database file); nothing is cached there"]
    with pytest.raises(StorageError, match="cannot be written"):
        rows.put({b"a": b"1"})


def test_a_full_disk_stores_nothing_of_the_batch(rows):
    rows.put({b"a": b"1"})
    connection = rows._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages + 1}")  # SQLite then answers as on a full disk
    with pytest.raises(StorageError, match=r"no room in .*rows\.sqlite.*free some and run again"):
        rows.put(MANY)
    assert len(rows) == 1
    rows.put(MANY)  # opened again, without that bound
    assert len(rows) == 3001


def test_another_process_that_does_not_let_go_is_named(rows, path, monkeypatch):
    monkeypatch.setattr(cache, "_BUSY_SECONDS", 0.05)
    rows.put({b"a": b"1"})
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="locked by another process"):
            rows.put({b"b": b"2"})
        assert rows.get([b"a"]) == {b"a": b"1"}  # reading goes on
        blocker.execute("ROLLBACK")


def test_optional_rows_are_done_without_where_the_file_stays_locked(path, monkeypatch, caplog):
    monkeypatch.setattr(cache, "_BUSY_SECONDS", 0.05)
    rows = cache.OptionalRows(path, "things")
    rows.put({b"a": b"1"})
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as blocker:
        blocker.execute("BEGIN EXCLUSIVE")
        assert rows.get([b"a"]) == {}
        rows.put({b"b": b"2"})
        blocker.execute("ROLLBACK")
    assert rows.get([b"a", b"b"]) == {b"a": b"1"}
    assert len(said(caplog)) == 2
    rows.close()
