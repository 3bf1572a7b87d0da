"""Several changes of a SQLite store as one transaction."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from ctxbench.io.errors import ParameterError, StorageError
from ctxbench.memory.memories import Relationship
from ctxbench.memory.sqlite_store import SqliteStore
from tests.memory.store_cases import memory


@pytest.fixture
def store(tmp_path):
    with SqliteStore(tmp_path / "memories.sqlite") as made:
        made.create_workspace("w")
        made.insert(memory("old"))
        yield made


def changes(store):
    store.create_workspace("other")
    store.insert_many([memory("a"), memory("b")])
    store.update("w", "old", content="new text")
    store.relate(Relationship(workspace="w", source="a", target="old", type="about"))


def test_all_of_it_is_kept(store):
    with store.together():
        changes(store)
    with SqliteStore(store.path) as other:
        assert other.workspaces() == ("w", "other")
        assert [item.name for item in other.catalog("w")] == ["old@1", "a@1", "b@1", "old@2"]
        assert len(other.relationships("w", "a")) == 1


def test_on_an_error_nothing_is(store):
    def fail():
        with store.together():
            changes(store)
            store.get("w", "gone")

    with pytest.raises(ParameterError, match="no memory 'gone'"):
        fail()
    assert store.workspaces() == ("w",)
    assert [item.name for item in store.catalog("w")] == ["old@1"]


def test_a_refusal_that_is_caught_inside_undoes_only_itself(store):
    with store.together():
        store.insert(memory("a"))
        with pytest.raises(ParameterError):
            store.insert(memory("a"))
        store.insert(memory("b"))
    assert [item.name for item in store.catalog("w")] == ["old@1", "a@1", "b@1"]


def test_others_see_nothing_of_it_before_its_end(store):
    with SqliteStore(store.path) as other, store.together():
        changes(store)
        assert len(other.catalog("w")) == 1


def test_a_catalog_that_was_read_inside_goes_with_what_is_undone(store):
    def fail():
        with store.together():
            store.insert(memory("a"))
            assert len(store.catalog("w")) == 2
            store.get("w", "gone")

    before = store.catalog("w")
    with pytest.raises(ParameterError, match="no memory 'gone'"):
        fail()
    assert store.catalog("w") is before
    store.insert(memory("b"))  # the workspace's revision is then what it was inside
    assert [item.name for item in store.catalog("w")] == ["old@1", "b@1"]


def test_after_a_failure_of_sqlite_inside_nothing_is_kept(store):
    """SQLite rolls back by itself where the disk is full."""

    def fill():
        with store.together():
            store.insert(memory("a"))
            with pytest.raises(StorageError, match="no space on the disk"):
                store.insert(memory("large", content="x" * 900_000))
            for call in (lambda: store.insert(memory("b")), lambda: store.catalog("w")):
                with pytest.raises(StorageError, match="an earlier failure undid all changes"):
                    call()

    (pages,) = store._sql("PRAGMA page_count").fetchone()
    store._sql(f"PRAGMA max_page_count = {pages + 5}")
    before = store.catalog("w")
    with pytest.raises(StorageError, match="an earlier failure undid all changes"):
        fill()
    assert store.catalog("w") is before
    store.insert(memory("c"))
    with SqliteStore(store.path) as other:
        assert [item.name for item in other.catalog("w")] == ["old@1", "c@1"]


def test_nothing_is_closed_or_deleted_inside(tmp_path):
    forgotten = []
    with SqliteStore(tmp_path / "m.sqlite", forget=forgotten.extend) as store:
        store.create_workspace("w")
        store.insert(memory("old"))
        with store.together():
            store.insert(memory("a"))
            with pytest.raises(ParameterError, match="close is not allowed inside `together`"):
                store.close()
            with pytest.raises(ParameterError, match="delete is not allowed inside `together`"):
                store.delete("w", "old")
            store.insert(memory("b"))
        assert forgotten == []
        assert [item.name for item in store.catalog("w")] == ["old@1", "a@1", "b@1"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_while_another_thread_writes_sees_what_was_committed(store):
    def write():
        with store.together():
            store.insert(memory("a"))
            store.catalog("w")
            inside.set()
            forked.wait(60)

    inside, forked = threading.Event(), threading.Event()
    thread = threading.Thread(target=write)
    thread.start()
    inside.wait(60)
    child = os.fork()
    if not child:
        try:
            signal.alarm(20)  # rather than wait for ever
            os._exit(len(store.catalog("w")))
        finally:
            os._exit(99)
    seen = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])  # while the thread is still writing
    forked.set()
    thread.join(60)
    assert seen == 1
    assert len(store.catalog("w")) == 2
