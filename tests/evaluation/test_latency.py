"""Times of warm requests: what is asked, how often, and of whom. No time is asserted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import pytest

from ctxbench.evaluation.latency import (
    Quantiles,
    growth_sizes,
    requests_like,
    time_embedding,
    time_growth,
    time_requests,
)
from ctxbench.io.errors import ParameterError, SelectorError
from ctxbench.model import registry
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import HashingEmbedder
from ctxbench.search.resources import local_resources
from ctxbench.search.tokens import open_counter
from ctxbench.selectors.definitions import SelectorSpec
from ctxbench.testing.contract import resized

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


class TestGrowth:
    def test_exponents_are_recovered_from_synthetic_timings(self, monkeypatch):
        """The clock is moved by the selector itself: 1 ms for each item, sqrt(n) ms for a query, 5 ms for a catalog."""
        clock = {"ns": 0}
        monkeypatch.setattr("ctxbench.evaluation.runner.time.perf_counter", lambda: clock["ns"] / 1e9)

        def spend(milliseconds):
            clock["ns"] += int(1e6 * milliseconds)

        growth = grown(
            {"linear": lambda n, _: spend(n), "root": lambda _, m: spend(m**0.5), "flat": lambda *_: spend(5)}
        )
        exponents = {
            (name, cost.cost, cost.over): round(cost.fit.exponent, 4)
            for name, costs in growth.items()
            for cost in costs
        }
        by_items = {name: exponents[name, "request", "items"] for name in growth}
        by_queries = {name: exponents[name, "batch", "queries"] for name in growth}
        assert by_items == {"linear": 1.0, "root": 0.0, "flat": 0.0}
        assert by_queries == {"linear": 0.0, "root": 0.5, "flat": 0.0}
        assert exponents["linear", "preparation", "items"] == exponents["linear", "batch", "items"] == 1.0

    def test_sizes_that_time_does_not_allow_are_left_out_but_four_are_measured(self):
        (costs,) = grown({"any": lambda *_: None}, seconds=0).values()
        assert {cost.over: cost.sizes for cost in costs} == {"items": (2, 4, 8, 16), "queries": (1, 4, 16, 64)}
        assert {cost.n for cost in costs if cost.cost == "preparation"} == {(1, 1, 1, 1)}

    def test_a_selector_that_fails_is_named_with_its_reason(self):
        def fail(*_):
            raise ValueError("no luck")

        with pytest.raises(SelectorError, match=r"fails.*2 items: .*no luck"):
            grown({"fails": fail})

    def test_sizes_are_an_eighth_to_eight_times_of_the_catalog(self):
        assert growth_sizes(80) == (10, 20, 40, 80, 160, 320, 640)
        assert growth_sizes(1) == (1, 2, 4, 8)
        assert growth_sizes(80, [30, 10, 20, 40, 10]) == (10, 20, 30, 40)

    @pytest.mark.parametrize(
        ("n_items", "sizes", "code"),
        [(0, (), "CTX5052"), (9, (1, 2, 3), "CTX5053"), (9, (0, 1, 2, 3), "CTX5053"), (9, (1, 2, 3, 10**7), "CTX5053")],
    )
    def test_no_item_and_sizes_out_of_range_are_refused(self, n_items, sizes, code):
        with pytest.raises(ParameterError) as refused:
            growth_sizes(n_items, sizes)
        assert refused.value.args[0].code == code


def grown(selectors, *, sizes=(2, 4, 8, 16, 32, 64, 128), seconds=0.0001):
    """The growth of functions of (items, queries), each the whole cost of a selector."""

    @dataclass(frozen=True)
    class Costing:
        spend: Callable[[int, int], None]

        def select(self, batch):
            try:
                self.spend(len(batch.catalog), len(batch))
            except ValueError as error:
                return SimpleNamespace(errors={0: str(error)})
            return SimpleNamespace(errors={})

    specs = [SelectorSpec(name, lambda *_, spend=spend: Costing(spend)) for name, spend in selectors.items()]
    new_resources = partial(local_resources, HashingEmbedder(), open_counter("chars/4"))
    return time_growth(specs, partial(resized, CATALOG), sizes, new_resources=new_resources, seconds=seconds)
