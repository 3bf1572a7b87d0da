"""Times of warm requests: what is asked, how often, and of whom. No time is asserted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import pytest

from ctxbench.evaluation.runner import Quantiles, requests_like, time_embedding, time_requests
from ctxbench.io.errors import ParameterError
from ctxbench.model import registry
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import HashingEmbedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter

CATALOG = Catalog([Item(type="tool", name=name, description=f"{name} things") for name in ("cut", "join", "paint")])
REQUESTS = (Request(id="a", text="Cut it. Join it."), Request(id="b", text="Paint"))

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


def timed(pipelines, requests=REQUESTS, **given):
    new_resources = partial(local_resources, HashingEmbedder(), open_counter("chars/4"))
    return time_requests(pipelines, CATALOG, requests, new_resources=new_resources, **given)


def test_all_requests_are_asked_once_untimed_and_then_of_all_in_turn():
    noted = {name: Pipeline.of({"retrieve": "bm25", "refine": [{"noted": {"name": name}}]}) for name in ("x", "y")}
    found = timed(noted, seconds=0)
    assert seen == [("x", ("a",)), ("x", ("b",)), ("y", ("a",)), ("y", ("b",)), ("x", ("a",)), ("y", ("a",))]
    assert {name: one.n for name, one in found.items()} == {"x": 1, "y": 1}


def test_requests_are_asked_over_and_over_until_time_is_over():
    (found,) = timed({"bm25": Pipeline.of({"retrieve": "bm25"})}, seconds=0.1).values()
    assert found.n > len(REQUESTS)
    assert 0 < found.p50 <= found.p95 <= found.p99


def test_without_a_request_nothing_can_be_timed():
    with pytest.raises(ParameterError, match="no request"):
        timed({"bm25": Pipeline.of({"retrieve": "bm25"})}, ())


def test_quantiles_are_seconds_between_the_nearest_times():
    assert Quantiles.of([4_000_000_000, 2_000_000_000]) == Quantiles(2, 3.0, 3.9, 3.98)


def test_each_text_is_embedded_once_and_the_first_also_before():
    texts = []

    class Noting(HashingEmbedder):
        def embed(self, given, *, on_done=None):
            texts.extend(given)
            return super().embed(given, on_done=on_done)

    assert time_embedding(Noting(), ["a", "b"]).n == 2
    assert texts == ["a", "a", "b"]


def test_requests_are_different_descriptions_spread_over_the_catalog():
    items = Catalog([Item(type="tool", name=f"t{n}", description="same" if n < 2 else f"d{n}") for n in range(6)])
    assert [one.text for one in requests_like(items)] == ["same", "d2", "d3", "d4", "d5"]
    assert [one.text for one in requests_like(items, 2)] == ["same", "d3"]
    assert requests_like(Catalog([Item(type="tool", name="bare")]))[0].text == "bare"
    assert requests_like(Catalog([])) == ()
