"""Private writes of one user change nothing that another user is answered, by any shipped selector."""

from __future__ import annotations

import random

import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.memory import stores
from ctxbench.memory.memories import Event, Memory, Relationship
from ctxbench.search.word_index import WordIndex
from ctxbench.selectors.definitions import shipped
from tests.draws import draws
from tests.memory.dict_store import DictStore
from tests.memory.service_world import WORKSPACE, service_over

WORDS = ("redundancy", "merger", "garden", "lunch", "parser", "cache", "token", "budget", "invoice", "login", "queue")
FILES = [f"src/{word}.py" for word in WORDS]
WHOLE = """
name: own
about: Counts over the whole catalog.
parameters: {}
pipeline:
  analyse: whole
  retrieve: {merge: {near: dense, words: bm25, fields: {bm25f: {statistics: scope}}}}
  refine: [rrf]
"""


class Pair:
    """A store that Bob writes to and one that he does not, each with a service for Alice."""

    def __init__(self, selector, seed):
        self.random = random.Random(seed)
        self.stores = [DictStore(), DictStore()]
        self.n_rows, self.bobs, self.others = 0, [], []
        for store in self.stores:
            store.create_workspace(WORKSPACE)
        for user in (None, "alice") * 15:
            self.insert(user, both=True)
        self.services = [service_over(store, selector=selector) for store in self.stores]
        self.answers = 0

    def text(self):
        return " ".join(self.random.choices(WORDS, k=self.random.randint(3, 25)))

    def insert(self, user, *, both):
        self.n_rows += 1
        kind = self.random.choice(("file", "message", "memory"))
        row = Memory(
            id=f"{self.random.choice(FILES)}{self.n_rows}" if kind == "file" else f"{kind} {self.n_rows}",
            workspace=WORKSPACE,
            content=self.text(),
            type=kind,
            user=user,
            conversation=self.random.choice((None, "s", "t")),
            created=f"2026-03-01T09:{self.n_rows // 60:02}:{self.n_rows % 60:02}Z",
        )
        for store in self.stores if both else self.stores[:1]:
            store.insert(row)
        (self.others if both else self.bobs).append(row.id)

    def write(self):
        """One write of Bob's, of which only the first store knows."""
        store, id_ = self.stores[0], self.random.choice(self.bobs) if self.bobs else None
        match self.random.choice(("insert", "insert", "update", "delete", "relate", "record", "ask")):
            case "update" if id_:
                store.update(WORKSPACE, id_, content=self.text())
            case "delete" if id_ and len(self.bobs) > 5:
                self.bobs.remove(id_)
                store.delete(WORKSPACE, id_)
            case "relate" if id_:  # from what is everybody's, too
                other = self.random.choice(self.others)
                store.relate(Relationship(workspace=WORKSPACE, source=other, target=id_, type="about"))
            case "record" if id_:
                store.record(Event(kind="access", workspace=WORKSPACE, id=id_, user="bob", conversation="t"))
            case "ask":
                self.services[0].build(self.text(), thread="t", user="bob", time="2026-04-01T00:00:00Z")
            case _:
                self.insert("bob", both=False)

    def ask(self):
        """One request of Alice's, which both services must answer alike."""
        if self.random.random() < 0.15:  # what is Alice's, or everybody's, is written to both
            self.insert(self.random.choice(("alice", None)), both=True)
        message, thread = self.text(), self.random.choice((None, "t"))
        given = {"thread": thread, "user": "alice", "time": "2026-04-01T00:00:00Z"}
        asked = [getattr(service, self.random.choice(("build", "preview"))) for service in self.services]
        one, other = (ask(message, **given).as_dict() for ask in asked)
        assert one == other
        self.answers += bool(one["data"]["items"])


@pytest.mark.parametrize("selector", [*shipped(), "assembly/embeddings", "learned/conservative"])
def test_alice_is_answered_as_if_bob_never_wrote(selector, monkeypatch):
    monkeypatch.setattr("ctxbench.model.strategies.side_by_side", waiting_for_all)  # a busy machine makes a source late
    pair = Pair(selector, seed=selector)
    for _ in range(draws(500, 30)):
        pair.write()
        if pair.random.random() < 0.5:
            pair.ask()
    pair.ask()
    assert pair.answers  # not empty on both sides


def waiting_for_all(calls, *, seconds):
    return {name: call() for name, call in calls.items()}, ()


def test_a_pipeline_that_counts_over_the_whole_catalog_answers_one_user_alone(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(WHOLE)
    store = DictStore()
    store.create_workspace(WORKSPACE)
    service = service_over(store, selector=str(path))
    service.check_users(["alice", "alice"])
    with pytest.raises(ParameterError, match=r"own\.yaml.*step bm25 .*statistics: scope"):
        service.check_users(["alice", "bob"])
    path.write_text(WHOLE.replace("words: bm25", "words: {bm25: {statistics: scope}}"))
    service_over(store, selector=str(path)).check_users(["alice", "bob"])
    service_over(store, selector="hybrid").check_users(["alice", "bob"])


def test_the_items_of_many_users_are_not_all_held(monkeypatch):
    monkeypatch.setattr(stores, "USERS", 2)
    store = DictStore()
    store.create_workspace(WORKSPACE)
    for user in ("ana", "ben", "eve"):
        store.insert(Memory(id=user, workspace=WORKSPACE, content=f"green tea of {user}", user=user))
    service = service_over(store, selector="hybrid")
    for user in ("ana", "ben", "eve", "ana", "eve", "ben"):
        texts = [item["content"] for item in service.build("green tea", user=user).as_dict()["data"]["items"]]
        assert texts == [f"green tea of {user}"]
    assert len(service._catalogs._user_catalogs) == 2


@pytest.fixture
def shared():
    """A service over two public files, of which one has a link to each user's note, and the store."""
    store = DictStore()
    store.create_workspace(WORKSPACE)
    for id_, user in (("one", None), ("two", None), ("anas", "ana"), ("bens", "ben")):
        store.insert(Memory(id=id_, workspace=WORKSPACE, content=f"green tea {id_}", user=user, created="2026-03-01"))
    for source, target in (("one", "anas"), ("one", "bens"), ("one", "two"), ("anas", "two"), ("anas", "bens")):
        store.relate(Relationship(workspace=WORKSPACE, source=source, target=target, type="about"))
    return service_over(store, selector="bm25"), store


def test_users_share_the_public_items(shared):
    service, store = shared
    public, ana, ben = (service._catalog(user) for user in ("eve", "ana", "ben"))
    assert service._catalog(None) is public
    assert [item.name for item in ana] == ["one@1", "two@1", "anas@1"]
    assert [[link.item.name for link in item.links] for item in ana] == [["two@1"], [], ["two@1"]]
    assert all(own is item is other for own, item, other in zip(ana, public, ben, strict=False))
    assert list(ana.prefixes("name")) == [(2, public.hash_of("name"))]
    store.insert(Memory(id="more", workspace=WORKSPACE, content="x", user="ben"))
    assert [service._catalog(user) for user in ("eve", "ana")] == [public, ana]
    assert service._catalog("eve") is public
    assert service._catalog("ana") is ana
    assert service._catalog("ben").hash_of("name") != ben.hash_of("name")
    assert set(service._catalogs._user_catalogs) == {"ana", "ben"}  # who owns nothing costs nothing
    store.insert(Memory(id="three", workspace=WORKSPACE, content="x"))
    assert list(service._catalog("eve").prefixes("name")) == [(2, public.hash_of("name"))]
    assert [item.name for item in service._catalog("ana")] == ["one@1", "two@1", "three@1", "anas@1"]
    store.delete(WORKSPACE, "anas")
    assert service._catalog("ana") is service._catalog("eve")


def test_public_items_are_indexed_once(shared, monkeypatch):
    service, store = shared
    made, make = [], WordIndex.__init__
    monkeypatch.setattr(WordIndex, "__init__", lambda self, catalog: made.append(len(catalog)) or make(self, catalog))
    for user in ("ana", "ben", "eve", "ana"):
        service.build("green tea", user=user)
    store.insert(Memory(id="more", workspace=WORKSPACE, content="green", user="ben"))
    store.insert(Memory(id="three", workspace=WORKSPACE, content="green"))
    for number in range(10):  # more than are kept of a catalog that grows
        store.insert(Memory(id=f"own {number}", workspace=WORKSPACE, content="green", user="ana"))
        service.build("green tea", user="ana")
    service.build("green tea", user="ben")
    assert made == [2]


def test_the_catalogs_of_users_are_bounded_in_bytes(shared, monkeypatch):
    service, _ = shared
    monkeypatch.setattr(stores, "USERS_BYTES", 2_000)
    for user in ("ana", "ben", "eve", "ana"):
        service._catalog(user)
    assert set(service._catalogs._user_catalogs) == {"ana"}
