"""Warm requests of several pipelines: what a new request costs besides."""

from __future__ import annotations

import pytest
from warm_requests import time_warm_requests

from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Request
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search.embedders import HashingEmbedder
from ctxbench.search.tokens import open_counter

CATALOG = Catalog([Item(type="tool", name=name, description=f"{name} things") for name in ("cut", "join", "paint")])
REQUESTS = (Request(id="a", text="Cut it. Join it."), Request(id="b", text="Paint"))
DENSE = Pipeline.of({"analyse": "sentences", "retrieve": "dense"})
BM25 = Pipeline.of({"analyse": "whole", "retrieve": "bm25"})


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXBENCH_CACHE", str(tmp_path))


def timed(pipelines):
    model, counter = HashingEmbedder(), open_counter("chars/4")
    return time_warm_requests(pipelines, CATALOG, REQUESTS, embedder=model, counter=counter, seconds=0)


def test_chunks_are_those_that_a_new_request_has_embedded():
    found = timed({"dense": DENSE, "bm25": BM25})
    assert {name: one.n for name, one in found.request.items()} == {"dense": 1, "bm25": 1}
    assert found.chunks == {"dense": 1.5, "bm25": 0.0}
    assert found.embedding is not None
    assert found.embedding.n == 2


def test_where_nothing_is_embedded_no_time_is_given_for_it():
    assert timed({"bm25": BM25}).embedding is None
