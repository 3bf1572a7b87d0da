"""Several changes of a SQLite store as one transaction."""

from __future__ import annotations

import pytest

from ctxbench.core.errors import ParameterError
from ctxbench.stores.memories import Relationship
from ctxbench.stores.sqlite import SqliteStore
from tests.stores.store_cases import memory


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
