"""Random operations of three users over HTTP: nobody sees another's item, citation, count or context."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ctxbench.io.errors import ParameterError
from ctxbench.memory.memories import Event, Memory
from ctxbench.memory.web_app import UserTokens
from tests.memory.dict_store import DictStore
from tests.memory.service_world import WORKSPACE, service_over

TestClient = pytest.importorskip("starlette.testclient").TestClient
from ctxbench.memory.web_app import Access, web_app  # noqa: E402 - needs the extra

USERS = ("ana", "ben", "eve")
WORDS = ("flat tyre", "green tea", "rye bread", "tyre pump")
users, texts, threads = st.sampled_from(USERS), st.sampled_from(WORDS), st.sampled_from(("s", "t"))
types = st.sampled_from(("file", "message", "memory"))
numbers = st.integers(0, 5)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.one_of(st.none(), users), types, texts, threads),
        st.tuples(st.sampled_from(("reference", "access", "feedback")), users, numbers, threads),
        st.tuples(st.just("build"), users, texts, threads),
        st.tuples(st.just("judge"), users, users, numbers),
    ),
    min_size=6,
    max_size=30,
)


class World:
    """One service for all, and for each user one over a store that the others never wrote to."""

    def __init__(self, selector):
        self.stores = {who: DictStore() for who in ("all", *USERS)}
        for store in self.stores.values():
            store.create_workspace(WORKSPACE)
        tokens = UserTokens({name * 8: name for name in USERS})
        self.services = {who: service_over(store, selector=selector) for who, store in self.stores.items()}
        access = Access(tokens=tokens)
        self.clients = {who: TestClient(web_app(one, access)) for who, one in self.services.items()}
        self.inserted = []  # ids with their users
        self.contexts = {name: [] for name in USERS}

    def post(self, where, path, user, body):
        return self.clients[where].post(path, json=body, headers={"Authorization": f"Bearer {user * 8}"})

    def insert(self, user, kind, text, thread):
        row = Memory(
            id=f"{kind} {len(self.inserted)}",
            workspace=WORKSPACE,
            content=f"{text} of {user}",
            type=kind,
            user=user,
            conversation=thread,
            created=f"2026-03-01T09:00:{len(self.inserted):02}Z",
        )
        for who in self.stores if user is None else ("all", user):
            self.stores[who].insert(row)
        self.inserted.append((row.id, user))

    def record(self, kind, user, number, thread):
        if number >= len(self.inserted):
            return
        id_, owner = self.inserted[number]
        useful = True if kind == "feedback" else None
        event = Event(kind=kind, workspace=WORKSPACE, id=id_, user=user, conversation=thread, useful=useful)
        for who in ("all", user):
            if owner in (None, user):
                self.stores[who].record(event)
            else:
                with pytest.raises(ParameterError):
                    self.stores[who].record(event)

    def build(self, user, text, thread):
        body = {"message": text, "threadId": thread}
        shared, alone = (self.post(where, "/context/build", user, body).json() for where in ("all", user))
        self.contexts[user].append(shared["data"].pop("id"))
        alone["data"].pop("id")
        if shared["data"]["notes"] or alone["data"]["notes"]:
            return  # a source was late on a busy machine, and says so
        assert shared == alone  # items, order, scores, counts and citations: as if there were nobody else
        assert all(f"of {other}" not in str(shared) for other in USERS if other != user)

    def judge(self, user, owner, number):
        """Feedback by a user in a context of perhaps another, on anything."""
        if not self.contexts[owner] or number >= len(self.inserted):
            return
        id_, of = self.inserted[number]
        item = f"{id_.split()[0]}:{id_.replace(' ', '%20')}%401"
        body = {"contextItemId": item, "useful": True, "contextId": self.contexts[owner][-1]}
        status = self.post("all", "/context/feedback", user, body).status_code
        assert status == 404 if owner != user else status in (200, 404)
        del body["contextId"]
        assert self.post("all", "/context/feedback", user, body).status_code == (200 if of in (None, user) else 404)
        self.mirror(user)

    def mirror(self, user):
        """What a user said of the shared service is said of the user's own, too."""
        there = [one for one in self.stores["all"].events(WORKSPACE) if one.user == user]
        for event in there[len(self.stores[user].events(WORKSPACE)) :]:
            self.stores[user].record(event)


@pytest.mark.parametrize("selector", ["memory", "assembly"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(operations)
def test_nobody_sees_what_is_anothers(selector, drawn):
    world = World(selector)
    for what, *given_ in drawn:
        if what in ("reference", "access", "feedback"):
            world.record(what, *given_)
        else:
            getattr(world, what)(*given_)
