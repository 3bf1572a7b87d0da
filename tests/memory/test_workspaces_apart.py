"""Random operations over three workspaces with one engine: nothing that it says of one is of another."""

from __future__ import annotations

import json
import logging
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ctxbench.io.errors import UserError
from ctxbench.memory import ContextEngine, ContextOptions, EngineError, SearchOptions
from ctxbench.memory.memories import Memory, Relationship
from ctxbench.memory.sqlite_store import SqliteStore
from tests.memory.dict_store import DictStore

WORKSPACES = ("crimson", "emerald", "azure")
"""What they hold says so in capitals."""

places = st.sampled_from(WORKSPACES)
ids = st.sampled_from(["a", "b", "c", "d"])
times = st.sampled_from([f"2026-03-0{day}" for day in range(1, 6)])
words = st.sampled_from(["tea", "coffee", "milk"])
users = st.sampled_from([None, "ana", "ben"])
asked = st.sampled_from(["tea", "coffee with milk", "milk?"])


def _insert(place, one, word, at, user):
    content = f"{place.upper()} {word}" + (f" of {user}" if user else "")  # what is whose can be read in it
    memory = Memory(
        id=one, workspace=place, content=content, created=at, user=user, conversation=f"{place.upper()} talk"
    )
    return lambda store, _: store.insert(memory)


def _found(found):
    return [found.results(), found.explained()]


def _built(built):
    return [built.as_dict(), built.preview(), built.explained()]


def _search(place, text, time, user, ranker):
    options = SearchOptions(limit=5, time=time, user=user, relationships=True, ranker=ranker)
    return lambda _, engine: _found(engine.search(text, place, options))


def _by_vector(place, text, user):
    def step(_, engine):
        vector = engine._vectors.get([text])[0]
        return _found(engine.search_by_vector(vector, place, SearchOptions(user=user)))

    return step


def _build(place, text, user, budget):
    options = ContextOptions(relationships=True, user=user, budget=budget, template="detailed")
    return lambda _, engine: _built(engine.build(text, place, options))


operations = st.one_of(
    st.builds(_insert, places, ids, words, times, users),
    st.builds(_insert, places, ids, words, times, users),
    st.builds(
        lambda place, one, word, at: (
            lambda store, _: store.update(place, one, at=at, content=f"{place.upper()} {word}!")
        ),
        *(places, ids, words, times),
    ),
    st.builds(lambda place, one: lambda store, _: store.delete(place, one), places, ids),
    st.builds(
        lambda place, one, other: (
            lambda store, _: store.relate(
                Relationship(workspace=place, source=one, target=other, type=f"{place.upper()} tie")
            )
        ),
        *(places, ids, ids),
    ),
    st.builds(_search, places, asked, st.none() | times, users, st.sampled_from(["default", "similarity", "recency"])),
    st.builds(_by_vector, places, asked, users),
    st.builds(_build, places, asked, users, st.sampled_from([8, 40, 2000])),
    st.builds(lambda place: lambda _, engine: engine.embed(place), places),
    st.builds(lambda place: lambda _, engine: _found(engine.search(" ", place)), places),
    st.builds(lambda place: lambda _, engine: _built(engine.build("tea", f"{place}s")), places),
)


@pytest.mark.essential
@pytest.mark.parametrize("kind", ["dict", "sqlite"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(operations, min_size=10, max_size=40))
def test_what_is_said_is_of_one_workspace_and_of_the_user_who_asks(kind, steps, caplog):
    caplog.set_level(logging.DEBUG, logger="ctxbench")
    with tempfile.TemporaryDirectory() as folder:
        store = DictStore() if kind == "dict" else SqliteStore(Path(folder) / "memories.sqlite")
        for place in WORKSPACES:
            store.create_workspace(place)
        engine = ContextEngine(store, embedder="hashing", counter="chars/4")
        for step in steps:
            caplog.clear()
            try:
                said = json.dumps(step(store, engine), default=str)
            except (EngineError, UserError) as error:
                said = f"{error}"
            said += caplog.text
            assert sum(place.upper() in said for place in WORKSPACES) <= 1, said
            assert not ("of ana" in said and "of ben" in said), said
        store.close()
