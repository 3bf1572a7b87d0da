"""Files that cannot be used: each is one clear error, and nothing in them has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from ctxbench.io.errors import ParameterError, StorageError
from ctxbench.memory import ContextEngine
from ctxbench.memory.memories import Event
from ctxbench.memory.sqlite_store import APPLICATION, MIGRATIONS, SqliteStore
from tests.children import LIMIT, child
from tests.memory.store_cases import changed, memory


@pytest.fixture
def path(tmp_path):
    """A store of one memory, closed."""
    path = tmp_path / "store" / "memories.sqlite"
    path.parent.mkdir()
    with SqliteStore(path) as store:
        store.create_workspace("w")
        store.insert(memory("a"))
    return path


def test_a_missing_folder_is_said_and_not_made(tmp_path):
    with pytest.raises(StorageError, match=r"cannot open .*: no such folder; create that folder, or name another"):
        SqliteStore(tmp_path / "gone" / "memories.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_its_place_is_said(tmp_path):
    with pytest.raises(StorageError, match="it is a folder; expected a database of memories"):
        SqliteStore(tmp_path)


def test_a_missing_file_is_made_only_where_that_is_wanted(tmp_path):
    with pytest.raises(StorageError, match="no such file; expected a database of memories"):
        SqliteStore(tmp_path / "memories.sqlite", create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_what_can_be_no_path_is_said(tmp_path, name):
    with pytest.raises(StorageError, match="can be no path"):
        SqliteStore(tmp_path / name)


def test_a_file_that_is_no_database_is_said_and_left(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be looked at" * 100)
    before = path.read_bytes()
    with pytest.raises(StorageError, match="not a database; expected a database of memories"):
        SqliteStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("statement", ["CREATE TABLE things (key)", "PRAGMA user_version = 1"])
def test_a_database_of_something_else_is_said_and_left(tmp_path, statement):
    path = tmp_path / "other.sqlite"
    changed(path, statement)
    before = path.read_bytes()
    with pytest.raises(StorageError, match="is a database of another application"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_a_newer_schema_is_said_and_left(path):
    changed(path, "PRAGMA user_version = 99")
    with pytest.raises(StorageError, match=r"has schema 99, but this version of ctxbench supports 3; update ctxbench"):
        SqliteStore(path)
    assert changed(path, "SELECT content FROM versions", "PRAGMA user_version") == [[("text of a",)], [(99,)]]


def test_an_empty_file_becomes_a_store(tmp_path):
    path = tmp_path / "memories.sqlite"
    path.touch()  # as left by a process that was killed while it made the file
    with SqliteStore(path) as store:
        assert store.workspaces() == ()


def test_a_damaged_file_is_said(path):
    data = bytearray(path.read_bytes())
    data[4096:] = b"\x5a" * len(data[4096:])
    path.write_bytes(data)
    with pytest.raises(StorageError, match="restore a copy"), SqliteStore(path) as store:
        store.get("w", "a")


_AS_NOBODY = """
import os, sys, tomllib
sys.path[:0] = sys.argv[2].split(os.pathsep)
from ctxbench.io.errors import StorageError
from ctxbench.memory.memories import Memory
from ctxbench.memory.sqlite_store import SqliteStore
os.setuid(65534)
for step in ("open", "get", "insert"):
    try:
        if step == "open":
            store = SqliteStore(sys.argv[1])
        elif step == "get":
            print(store.get("w", "a").content)
        else:
            store.insert(Memory(id="b", workspace="w", content="text"))
    except StorageError as error:
        print(error)
        break
"""


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize(("folder", "said"), [(0o777, ["text of a"]), (0o755, [])])
def test_a_file_that_cannot_be_written(path, folder, said):
    for above in list(path.parents)[:-2]:
        above.chmod(above.stat().st_mode | 0o055)  # a folder of the test runs of root is open to nobody else
    path.parent.chmod(folder)
    path.chmod(0o444)
    command = [sys.executable, "-c", _AS_NOBODY, path, os.pathsep.join(sys.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
    *read, refused = done.stdout.splitlines()
    assert read == said
    assert refused.startswith(f"cannot use {path}: it cannot be ")
    path.chmod(0o644)
    with SqliteStore(path) as store:
        assert [item.name for item in store.catalog("w")] == ["a@1"]


_LOCKING = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("now", flush=True)
sys.stdin.read()
"""


def test_a_file_that_is_locked_is_said(path):
    with child([sys.executable, "-c", _LOCKING, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with SqliteStore(path, busy_seconds=0.1) as store:
            assert store.get("w", "a").content == "text of a"
            with pytest.raises(StorageError, match=r"locked by another process for 0\.1 s"):
                store.insert(memory("b"))
        other.kill()
    with SqliteStore(path) as store:
        assert store.insert(memory("b")).version == 1


def test_an_unknown_workspace_names_the_closest(path):
    with SqliteStore(path) as store:
        store.create_workspace("kitchen")
        with pytest.raises(ParameterError, match="unknown workspace 'kichen'; did you mean 'kitchen'"):
            store.catalog("kichen")
        with pytest.raises(ParameterError, match="unknown workspace None; Known: kitchen, w"):
            store.catalog(None)


def test_a_file_of_the_first_schema_is_brought_up_and_keeps_what_it_holds(tmp_path):
    path, row = tmp_path / "old.sqlite", "INSERT INTO {} VALUES ({})"
    pragmas = [f"PRAGMA application_id = {APPLICATION}", "PRAGMA user_version = 1"]
    changed(path, *MIGRATIONS[0].split(";"), *pragmas, row.format("workspaces", "1, 'w', 1, 0"))
    version = "1, 1, 1, 1, 'text of a', 'note', 1.0, '2026-03-01T00:00:00+00:00', NULL, NULL, NULL, '{}'"
    changed(path, row.format("memories", "1, 1, 'a'"), row.format("versions", version))
    with SqliteStore(path) as store:
        assert store.get("w", "a") == replace(memory("a"), created="2026-03-01T00:00:00+00:00")
        store.insert(memory("x.md", type="file"))
        store.record(Event(kind="access", workspace="w", id="x.md"))
        assert [item.id for item in store.catalog("w")] == ["memory:a%401", "file:x.md%401"]
    assert changed(path, "PRAGMA user_version") == [[(len(MIGRATIONS),)]]


def test_a_file_of_the_second_schema_keeps_its_events(tmp_path):
    path, row = tmp_path / "old.sqlite", "INSERT INTO {} VALUES ({})"
    pragmas = [f"PRAGMA application_id = {APPLICATION}", "PRAGMA user_version = 2"]
    changed(path, *";".join(MIGRATIONS[:2]).split(";"), *pragmas, row.format("workspaces", "1, 'w', 1, 0"))
    changed(path, row.format("memories", "1, 1, 'a', 'memory'"))
    first = "'2026-03-01T00:00:00+00:00'"
    changed(path, row.format("versions", f"1, 1, 1, 1, 'text of a', 'note', 1.0, {first}, NULL, NULL, NULL, '{{}}'"))
    changed(path, row.format("events", f"1, 1, 1, 'feedback', 'ana', 't', {first}, 0, '{{\"n\": 1}}'"))
    with SqliteStore(path) as store:
        (event,) = store.events("w")
        assert (event.kind, event.id, event.user, event.useful, event.metadata) == (
            "feedback",
            "a",
            "ana",
            False,
            {"n": 1},
        )
        store.delete("w", "a")
        assert store.events("w") == ()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_new_file_and_its_log_are_for_their_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        with SqliteStore(tmp_path / "memories.sqlite") as store:
            store.create_workspace("w")
            store.insert(memory("a"))
            modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("memories.sqlite", "memories.sqlite-wal", "memories.sqlite-shm"), 0o600)


def test_a_file_that_is_there_keeps_its_mode(path):
    path.chmod(0o640)
    with SqliteStore(path) as store:
        store.insert(memory("b"))
    assert path.stat().st_mode & 0o777 == 0o640


def test_metadata_of_an_earlier_version_that_nests_deep_stops_no_search(path, caplog):
    deep = '{"k":' + "[" * 900 + "]" * 900 + "}"
    changed(path, f"UPDATE versions SET metadata = '{deep}'")
    with SqliteStore(path) as store:
        assert store.get("w", "a").metadata == {}
        engine = ContextEngine(store, embedder="hashing")
        assert engine.search("text", "w").contents == ["text of a"]
        assert engine.build("text", "w").tokens > 0
        assert store.update("w", "a", content="a later text").version == 2
    assert "'a': its metadata has more than 64 levels" in caplog.text
