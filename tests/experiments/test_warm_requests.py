"""Warm requests of several pipelines in turns: what is asked, how often, and of whom."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from warm_requests import warm_in_turns

from ctxbench.bench.latency.clock import Contender, seconds_in_turns
from ctxbench.core import registry
from ctxbench.core.errors import ParameterError
from ctxbench.core.items import Catalog, Item
from ctxbench.core.pipeline import Pipeline
from ctxbench.core.requests import Request
from ctxbench.embedding.hashing import HashingEmbedder
from ctxbench.embedding.vectors import Vectors, VectorStore
from ctxbench.index.resources import LocalResources
from ctxbench.text.tokens import open_counter

CATALOG = Catalog([Item(type="tool", name=name, description=f"{name} things") for name in ("cut", "join", "paint")])
REQUESTS = (Request(id="a", text="Cut it. Join it."), Request(id="b", text="Paint"))
DENSE = Pipeline.of({"analyse": "sentences", "retrieve": "dense"})
BM25 = Pipeline.of({"analyse": "whole", "retrieve": "bm25"})

seen: list[tuple[str, tuple[str, ...]]] = []


@dataclass(frozen=True)
class Noted:
    """Notes who was asked what."""

    name: str = ""

    def __call__(self, query, candidates, resources):
        seen.append((self.name, query.batch.ids))
        return candidates


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))
    monkeypatch.setitem(registry._BUILT_IN["cut"], "noted", f"{__name__}:Noted")
    seen.clear()


def measured(pipelines, requests=REQUESTS, **given):
    return warm_in_turns(
        pipelines, CATALOG, requests, embedder=HashingEmbedder(), counter=open_counter("chars/4"), **given
    )


def test_every_pipeline_is_asked_every_request_in_every_round_and_once_before():
    found = measured({"dense": DENSE, "bm25": BM25}, rounds=3)
    assert {name: (one.n, one.rounds) for name, one in found.request.items()} == {"dense": (6, 3), "bm25": (6, 3)}
    assert all(one.low <= one.p50 <= one.high for one in found.request.values())


def test_rounds_go_to_and_fro_one_request_at_a_time():
    noted = {name: Pipeline.of({"retrieve": "bm25", "refine": [{"noted": {"name": name}}]}) for name in ("x", "y")}
    measured(noted, rounds=2)
    warm = [("x", ("a",)), ("x", ("b",)), ("y", ("a",)), ("y", ("b",))]
    assert seen == [*warm, *warm, *warm[2:], *warm[:2]]


def test_chunks_are_those_that_a_new_request_has_embedded():
    found = measured({"dense": DENSE, "bm25": BM25}, rounds=1)
    assert found.chunks == {"dense": 1.5, "bm25": 0.0}
    assert found.embedding is not None
    assert found.embedding.n == 2


def test_where_nothing_is_embedded_no_time_is_given_for_it():
    assert measured({"bm25": BM25}, rounds=1).embedding is None


def test_one_request_and_one_round_will_do_and_fewer_will_not():
    assert measured({"bm25": BM25}, REQUESTS[:1], rounds=1).request["bm25"].n == 1
    for requests, rounds in (((), 1), (REQUESTS, 0)):
        with pytest.raises(ParameterError, match="one request and one round at least"):
            measured({"bm25": BM25}, requests, rounds=rounds)
    assert measured({}).request == {}


def test_progress_ends_with_all_done():
    told = []
    measured({"dense": DENSE, "bm25": BM25}, rounds=2, progress=lambda *what: told.append(what))
    assert told[-1] == ("latency", 6, 6)
    assert [done for _, done, _ in told] == list(range(7))


def contender(name, requests=REQUESTS, items=CATALOG):
    embedder = HashingEmbedder()
    return Contender(
        pipeline=Pipeline.of({"retrieve": "bm25", "refine": [{"noted": {"name": name}}]}),
        catalog=items,
        requests=requests,
        resources=LocalResources(Vectors(embedder, VectorStore(embedder.identity)), open_counter("chars/4")),
    )


def test_paired_they_take_turns_at_every_request():
    taken = seconds_in_turns({name: contender(name) for name in ("x", "y")}, rounds=2, paired=True)
    warm = [("x", ("a",)), ("x", ("b",)), ("y", ("a",)), ("y", ("b",))]
    first = [("x", ("a",)), ("y", ("a",)), ("y", ("b",)), ("x", ("b",))]
    second = [("y", ("a",)), ("x", ("a",)), ("x", ("b",)), ("y", ("b",))]
    assert seen == [*warm, *first, *second]
    assert {name: [len(one) for one in rounds] for name, rounds in taken.items()} == {"x": [2, 2], "y": [2, 2]}
    assert all(seconds > 0 for rounds in taken.values() for one in rounds for seconds in one)


def test_each_has_a_catalog_of_its_own():
    other = Catalog([Item(type="tool", name="cut", description="cut things")])
    taken = seconds_in_turns({"x": contender("x"), "y": contender("y", items=other)}, rounds=1)
    assert [len(rounds[0]) for rounds in taken.values()] == [2, 2]


def test_those_that_are_paired_have_as_many_requests():
    both = {"x": contender("x"), "y": contender("y", REQUESTS[:1])}
    assert [len(rounds[0]) for rounds in seconds_in_turns(both, rounds=1).values()] == [2, 1]
    with pytest.raises(ParameterError, match="as many requests each"):
        seconds_in_turns(both, rounds=1, paired=True)
