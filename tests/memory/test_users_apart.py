"""Random operations of three users over threads, files, messages and events: none is shown what is another's."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import ParameterError
from ctxbench.memory.memories import EVENTS, Event
from ctxbench.memory.sqlite_store import SqliteStore
from ctxbench.memory.stores import RECENT
from ctxbench.model.requests import Batch
from tests.memory.dict_store import DictStore
from tests.memory.store_cases import memory

USERS = ("ada", "ben", "cyd")
PLACES = ("w", "other")
DAYS = [f"2026-03-0{day}" for day in range(1, 6)]
places, days = st.sampled_from(PLACES), st.sampled_from(DAYS)
users = st.sampled_from([None, *USERS])
ids = st.sampled_from(["src/a.py", "b@2.md", "c.md", "said", "fact"])
threads = st.sampled_from(["t1", "t2"])


def _insert(place, id_, user, thread, day):
    kind = "message" if id_ == "said" else "memory" if id_ == "fact" else "file"
    return lambda store: store.insert(
        memory(id_, place, type=kind, user=user, conversation=thread, created=day, content=f"{place} {user}")
    )


def _update(place, id_, user, day):
    return lambda store: store.update(place, id_, at=day, user=user, content=f"{place} {user}")


def _record(place, kind, id_, whose, day):
    user, thread = whose
    useful = True if kind == "feedback" else None
    event = Event(kind=kind, workspace=place, id=id_, user=user, conversation=thread, at=day, useful=useful)
    return lambda store: store.record(event)


operations = st.one_of(
    st.builds(_insert, places, ids, users, threads, days),
    st.builds(_insert, places, ids, users, threads, days),
    st.builds(_update, places, ids, users, days),
    st.builds(lambda place, id_: lambda store: store.delete(place, id_), places, ids),
    *[st.builds(_record, places, st.sampled_from(EVENTS), ids, st.tuples(users, threads), days)] * 4,
)


def _tried(store, operation):
    try:
        operation(store)
    except ParameterError as error:
        return str(error)
    return ""


def _expected(log, user, thread, day):
    """What a user did, as the events say it: ids referred to, opened and found useful."""
    own = [one for one in log if day is None or one.at[:10] <= day]
    standing = []
    for one in own:
        if one.conversation == thread and one.user in (None, user) and one.kind in ("reference", "unreference"):
            standing = [id_ for id_ in standing if id_ != one.id or one.kind == "reference"]
            standing += [one.id] if one.kind == "reference" and one.id not in standing else []
    mine = [one for one in own if one.user == user]
    opened = dict.fromkeys(one.id for one in reversed(mine) if one.kind == "access")
    useful = [one.id for one in mine if one.kind == "feedback"]
    return standing, list(opened), {id_: useful.count(id_) for id_ in useful}


@settings(max_examples=60, deadline=None)
@given(st.lists(operations, min_size=15, max_size=50))
def test_no_request_names_or_may_get_what_is_anothers(steps):
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder) / "store.sqlite") as file:
        plain = DictStore()
        for store in (plain, file):
            for place in PLACES:
                store.create_workspace(place)
        for step in steps:
            assert _tried(plain, step) == _tried(file, step)
        for place in PLACES:
            log, catalog = file.events(place), file.catalog(place)
            assert log == plain.events(place)
            for user, thread, day in ((u, t, d) for u in (None, *USERS) for t in ("t1", "t2") for d in (None, *DAYS)):
                asked = {"user": user, "conversation": thread, "time": day}
                request = file.request(place, "x", **asked)
                assert plain.request(place, "x", **asked) == request
                batch = Batch.of(catalog, [request])  # an `InputError` if it names what it does not see
                seen = [catalog[position] for position in np.flatnonzero(batch.visible[0]).tolist()]
                assert {item.user for item in seen} <= {None, user}
                assert {item.text for item in seen} <= {f"{place} {who}" for who in (None, user)}
                now = {item.name.rpartition("@")[0]: item for item in seen}
                assert len(now) == len(seen)  # one version of each
                standing, opened, useful = _expected(log, user, thread, day)
                assert request.explicit == tuple(now[id_].key for id_ in standing if id_ in now)
                files = [id_ for id_ in opened if id_ in now and now[id_].type == "file"]
                assert request.recent == tuple(now[id_].key for id_ in files)
                assert dict(request.uses) == {now[id_].key: n for id_, n in useful.items() if id_ in now}


@settings(max_examples=30, deadline=None)
@given(st.lists(operations, min_size=10, max_size=30), ids, st.sampled_from(USERS))
def test_a_refusal_of_an_event_tells_nothing_of_anothers_items(steps, id_, user):
    """It says the same of what is another's as of what is not there at all."""
    store = DictStore()
    for place in PLACES:
        store.create_workspace(place)
    for step in steps:
        _tried(store, step)
    said = _tried(store, _record("w", "access", id_, (user, None), "2026-03-09"))
    seen = {item.name.rpartition("@")[0] for item in store.catalog("w") if item.until is None}
    if said:
        bare = DictStore()
        bare.create_workspace("w")
        assert said == _tried(bare, _record("w", "access", id_, (user, None), "2026-03-09"))
    else:
        assert id_ in seen


def test_a_request_says_the_last_hundred_files_alone():
    store, names = DictStore(), [f"{n:03d}.md" for n in range(RECENT + 5)]
    store.create_workspace("w")
    store.insert_many([memory(name, type="file") for name in names])
    store.record(*(Event(kind="access", workspace="w", id=name, at="2026-03-02") for name in names))
    recent = [key.name for key in store.request("w", "x").recent]
    assert recent == [f"{name}@1" for name in reversed(names[5:])]
