"""Random writes: the catalog that a store carries on equals the one of a store that was opened just now."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.io.errors import InputError, ParameterError
from ctxbench.memory.memories import Relationship, memory_catalog
from ctxbench.memory.sqlite_store import SqliteStore
from ctxbench.model.requests import Batch, Request
from ctxbench.model.resources import index_over, row_over
from ctxbench.search.words import document_frequency
from tests.memory.dict_store import DictStore
from tests.memory.store_cases import memory
from tests.model.test_items import facts_of

IDS = ("a", "b", "a@1", "c")
TIMES = tuple(f"2026-03-0{day}" for day in range(1, 6))
ids, times, words = (st.sampled_from(one) for one in (IDS, TIMES, ("tea", "coffee", "milk tea")))
kinds, users = st.sampled_from(["memory", "file"]), st.sampled_from([None, "ana", "ben"])


def _insert(one, word, at, kind, user):
    return lambda store: store.insert(memory(one, content=word, created=at, type=kind, user=user))


def _update(one, word, at, user):
    return lambda store: store.update("w", one, at=at, content=word, user=user)


def _relate(one, other, out):
    link = Relationship(workspace="w", source=one, target=other, type="follows")
    return lambda store: store.unrelate(link) if out else store.relate(link)


writes = st.one_of(
    st.builds(_insert, ids, words, times, kinds, users),
    st.builds(_update, ids, words, times, users),
    st.builds(_relate, ids, ids, st.booleans()),
    st.builds(lambda one: lambda store: store.delete("w", one), ids),
)


def _sizes(items):
    return np.array([len(item.text) for item in items], dtype=np.int64)


def _indexes(catalog, resources):
    """What indexes over a catalog say: of ends, of texts, and by words."""
    ends = index_over(catalog, resources, "ends", over=("until",), make=lambda: [item.until for item in catalog])
    sizes = row_over(catalog, resources, "sizes", over=("text",), make=_sizes)
    visible = np.array([item.until is None for item in catalog], dtype=np.bool_)
    weights = document_frequency(catalog, resources).weights(["tea", "milk", "coffee"], visible)
    return ends, sizes.tolist(), dict(weights)


def _seen(catalog):
    """What each user sees and may be offered at each time."""
    asked = [(user, time) for user in ("ana", "ben") for time in (*TIMES, None)]
    requests = [Request(id=f"{one}", text="t", workspace="w", user=one[0], time=one[1]) for one in asked]
    batch = Batch.of(catalog, requests)
    return np.asarray(batch.visible).tolist(), np.asarray(batch.eligible).tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(writes, st.booleans()), min_size=8, max_size=25))
def test_a_catalog_that_is_carried_on_equals_one_made_anew(steps):
    with tempfile.TemporaryDirectory() as folder:
        resources = testing.mock_resources()
        stores = DictStore(), SqliteStore(Path(folder) / "memories.sqlite")
        for store in stores:
            store.create_workspace("w")
            store.insert_many([memory(one, created=TIMES[0]) for one in IDS[:2]])
            _ = store.catalog("w").facts
        for write, looked in steps:
            for store in stores:
                try:
                    write(store)
                except (ParameterError, InputError):
                    continue
            if not looked:
                continue
            with SqliteStore(stores[1].path) as opened:
                anew = opened.catalog("w")
            fresh = _indexes(anew, testing.mock_resources())
            for store in stores:
                catalog = store.catalog("w")
                assert list(catalog) == list(anew)
                assert (catalog.hash, catalog.ids) == (anew.hash, anew.ids)
                for names in (("search_text",), ("created", "until")):
                    assert catalog.hash_of(*names) == anew.hash_of(*names)
                assert facts_of(catalog) == facts_of(anew)
                assert _seen(catalog) == _seen(anew)
                assert _indexes(catalog, resources) == fresh
        for store in stores:
            store.close()


@pytest.mark.parametrize("related", [False, True])
def test_an_update_makes_no_index_anew_unless_links_change(related):
    store, read = DictStore(), []
    store.create_workspace("w")
    store.insert_many([memory(one, created="2026-03-01") for one in "abc"])
    store.relate(Relationship(workspace="w", source="a", target="b", type="follows"))
    resources = testing.mock_resources()

    def sizes(some):
        read.append([item.name for item in some])
        return _sizes(some)

    def row():
        return row_over(store.catalog("w"), resources, "sizes", over=("text",), make=sizes).tolist()

    assert row() == [9, 9, 9]
    store.update("w", "b" if related else "c", at="2026-03-02", content="new")
    assert row() == [9, 9, 9, 3]
    whole = ["a@1", "b@1", "c@1"]
    assert read == [whole, [*whole, "b@2"] if related else ["c@2"]]
    links = [[link.item.name for link in item.links] for item in store.catalog("w")]
    assert links == ([["b@1", "b@2"], [], [], []] if related else [["b@1"], [], [], []])


def test_of_versions_that_came_together_the_last_alone_has_no_end():
    store = DictStore()
    store.create_workspace("w")
    store.insert(memory("a", created="2026-03-01"))
    _ = store.catalog("w").facts
    for day in (2, 2, 3):
        store.update("w", "a", at=f"2026-03-0{day}", content=f"day {day}")
    days = [item.until and item.until[8:10] for item in store.catalog("w")]
    assert days == ["02", "02", "03", None]
    anew = memory_catalog(store._added("w", 0)[0])
    assert (store.catalog("w").hash, facts_of(store.catalog("w"))) == (anew.hash, facts_of(anew))
