"""Random operations over three workspaces: a file and a dict answer alike, and neither shows another's memory."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import InputError, ParameterError
from ctxbench.memory.memories import ASKED, EVENTS, SUFFICIENT, Event, Relationship
from ctxbench.memory.sqlite_store import SqliteStore
from tests.memory.dict_store import DictStore
from tests.memory.store_cases import memory

WORKSPACES = ("crimson", "emerald", "azure")
places = st.sampled_from(WORKSPACES)
ids = st.sampled_from(["a", "b", "c", "d"])
times = st.sampled_from([f"2026-03-0{day}" for day in range(1, 6)])
words = st.sampled_from(["tea", "coffee", "milk"])


def _insert(place, one, word, at):
    return lambda store: store.insert(memory(one, place, content=f"{place} {word}", created=at, metadata={"of": place}))


def _insert_many(place, some, word):
    rows = [memory(one, place, content=f"{place} {word}", conversation=place) for one in some]
    return lambda store: store.insert_many(rows)


def _relate(place, one, other, word, out):
    link = Relationship(workspace=place, source=one, target=other, type=f"{place} {word}")
    return lambda store: store.unrelate(link) if out else store.relate(link)


def _record(place, some, kind, at, useful):
    useful = useful if kind in ("feedback", SUFFICIENT) else None
    event = Event(kind=kind, workspace=place, id=some[0], conversation=place, at=at, useful=useful)
    if kind == SUFFICIENT:
        asked = {
            "context": some[0],
            "text": "tea",
            "time": "2026-03-05",
            "items": [f"memory:{id_}%401" for id_ in some],
        }
        event = replace(event, metadata={ASKED: asked})
    return lambda store: store.record(event)


operations = st.one_of(
    st.builds(_insert, places, ids, words, times),
    st.builds(_insert_many, places, st.lists(ids, max_size=3), words),
    st.builds(
        lambda place, one, word, at: lambda store: store.update(place, one, at=at, content=f"{place} {word}"),
        *(places, ids, words, times),
    ),
    st.builds(
        lambda place, some: lambda store: store.delete(place, *some), places, st.lists(ids, min_size=1, max_size=2)
    ),
    st.builds(_relate, places, ids, ids, words, st.booleans()),
    st.builds(lambda place, one, at: lambda store: store.get(place, one, at=at), places, ids, st.none() | times),
    st.builds(lambda place, one: lambda store: store.relationships(place, one), places, ids),
    st.builds(lambda place: lambda store: [item.as_row() for item in store.catalog(place)], places),
    st.builds(_record, places, st.lists(ids, min_size=1, max_size=2), st.sampled_from(EVENTS), times, st.booleans()),
    st.builds(lambda place: lambda store: store.events(place), places),
    st.builds(
        lambda place, at: lambda store: store.request(place, "tea", conversation=place, time=at).as_dict(),
        *(places, st.none() | times),
    ),
    st.just(lambda store: store.close()),
)


def _answer(store, operation):
    try:
        return operation(store)
    except (ParameterError, InputError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.essential
@settings(max_examples=100, deadline=None)
@given(st.lists(operations, min_size=10, max_size=40))
def test_a_file_and_a_dict_agree_and_keep_workspaces_apart(steps):
    with tempfile.TemporaryDirectory() as folder:
        forgotten = {"dict": [], "file": []}
        plain = DictStore(forget=lambda texts: forgotten["dict"].append(sorted(texts)))
        file = SqliteStore(
            Path(folder) / "memories.sqlite", forget=lambda texts: forgotten["file"].append(sorted(texts))
        )
        for place in WORKSPACES:
            plain.create_workspace(place)
            file.create_workspace(place)
        for step in steps:
            before = {place: plain.catalog(place).hash for place in WORKSPACES}
            answer = _answer(plain, step)
            assert _answer(file, step) == answer
            for place in WORKSPACES:
                catalog = file.catalog(place)
                assert catalog.hash == plain.catalog(place).hash
                assert {item.workspace for item in catalog} <= {place}
                text = repr([item.as_row() for item in catalog])
                assert not any(other in text for other in WORKSPACES if other != place)
            assert sum(before[place] != plain.catalog(place).hash for place in WORKSPACES) <= 1
            shown = [place for place in WORKSPACES if place in repr(answer)]
            assert len(shown) <= 1  # of one workspace, whatever was asked, errors included
        assert forgotten["file"] == forgotten["dict"]
        file.close()
