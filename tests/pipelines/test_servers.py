from __future__ import annotations

import numpy as np
import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.strategies.retrieve import Dense, Servers, best_servers
from ctxbench.search.embedders import EmbedderIdentity, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter


class Dial:
    """Embeds a text as the direction whose cosine with `ask` is the number that the text ends with, in hundredths."""

    identity = EmbedderIdentity("dial", "1", "test", "float32", 2)

    def __init__(self) -> None:
        self.asked: list[str] = []

    def embed(self, texts, *, on_done=None):
        self.asked += texts
        cosines = [1.0 if text == "ask" else int(text.split()[-1]) / 100 for text in texts]
        return np.array([[c, (1 - c * c) ** 0.5] for c in cosines], dtype=np.float32).reshape(len(texts), 2)


@pytest.fixture
def embedder():
    return Dial()


@pytest.fixture
def resources(embedder):
    return LocalResources(Vectors(embedder, None), CharsCounter())


def catalog(**servers: list[int]) -> Catalog:
    """A tool a number, which is its cosine with `ask` in hundredths; `none` is no server."""
    return Catalog(
        [
            Item(type="tool", server=None if server == "none" else server, name=f"{n} {cosine}")
            for server, cosines in servers.items()
            for n, cosine in enumerate(cosines)
        ]
    )


def found(step, items: Catalog, *chunks: list[str], resources, **request) -> list[list[tuple[int, float]]]:
    requests = [Request(id=str(n), text=" ".join(row), **request) for n, row in enumerate(chunks)]
    table = step(Query.of_chunks(Batch.of(items, requests), chunks), resources)
    rows = [table.rows(row) for row in range(len(requests))]
    scores = [np.round(table.score[row], 6).tolist() for row in rows]
    return [list(zip(table.item[row].tolist(), score, strict=True)) for row, score in zip(rows, scores, strict=True)]


def test_only_tools_of_the_best_servers_are_found(resources):
    items = catalog(mail=[90, 10], tracker=[80, 70], wiki=[60])
    assert found(Servers(servers=1), items, ["ask"], resources=resources) == [[(0, 0.9), (1, 0.1)]]
    (got,) = found(Servers(servers=2), items, ["ask"], resources=resources)
    assert [item for item, _ in got] == [0, 2, 3, 1]


def test_a_server_may_count_by_the_mean_of_its_tools_or_of_the_best_of_them(resources):
    items = catalog(mail=[90, 10], tracker=[80, 70, -60])  # means .5 and .3; of the best two .5 and .75
    (by_mean,) = found(Servers(servers=1, pool="mean"), items, ["ask"], resources=resources)
    assert [item for item, _ in by_mean] == [0, 1]
    (by_top,) = found(Servers(servers=1, pool="top", top=2), items, ["ask"], resources=resources)
    assert [item for item, _ in by_top] == [2, 3, 4]


def test_items_without_a_server_compete_as_before(resources):
    items = catalog(none=[85, 5], mail=[90], tracker=[80])
    (got,) = found(Servers(servers=1), items, ["ask"], resources=resources)
    assert [item for item, _ in got] == [2, 0, 1]


def test_with_as_many_servers_as_there_are_it_is_dense(resources):
    items = catalog(none=[85], mail=[90, 10], tracker=[80, 70])
    asked = (["ask"], ["50", "ask"], [])
    batch = Batch.of(items, [Request(id=str(n), text=" ".join(row)) for n, row in enumerate(asked)])
    query = Query.of_chunks(batch, asked)
    one, other = (step(query, resources) for step in (Servers(servers=9, depth=3), Dense(depth=3)))
    for name in ("start", "item", "score", "chunk_rank", "query_chunk", "item_chunk"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name


def test_servers_that_tie_with_the_last_one_are_kept(resources):
    items = catalog(mail=[80, 10], tracker=[80], wiki=[60])
    (got,) = found(Servers(servers=1), items, ["ask"], resources=resources)
    assert [item for item, _ in got] == [0, 2, 1]


def test_a_server_counts_only_by_what_the_request_may_get(embedder, resources):
    items = catalog(mail=[90, 10], tracker=[80])
    (got,) = found(Servers(servers=1), items, ["ask"], resources=resources, available=(items[1].key, items[2].key))
    assert got == [(2, 0.8)]
    assert not any(text.endswith("90") for text in embedder.asked)


def test_depth_counts_items_and_ties_keep_catalog_order(resources):
    items = catalog(mail=[50, 90, 50])
    (got,) = found(Servers(depth=2), items, ["ask"], resources=resources)
    assert got == [(1, 0.9), (0, 0.5)]


def test_no_request_no_item_and_no_chunk(embedder, resources):
    items = catalog(mail=[90])
    assert found(Servers(), items, resources=resources) == []
    assert found(Servers(), Catalog([]), ["ask"], resources=resources) == [[]]
    assert found(Servers(), items, [], resources=resources) == [[]]
    assert found(Servers(), items, ["ask"], resources=resources, available=()) == [[]]
    assert embedder.asked == []


@pytest.mark.parametrize(
    ("pool", "top", "expected"),
    [("max", None, [0]), ("mean", None, [1]), ("top", 2, [1])],
)
def test_best_servers_by_arithmetic(pool, top, expected):
    server = np.array([0, 1, 1, 0, -1, 0])
    score = np.array([0.9, 0.8, 0.7, 0.3, 0.2, 0.1])  # means .433 and .75; of the best two .6 and .75
    assert best_servers(server, score, servers=1, pool=pool, top=top).tolist() == expected


def test_best_servers_of_none():
    none = np.empty(0, dtype=np.int64)
    assert best_servers(none, np.empty(0), servers=2).tolist() == []
    assert best_servers(np.array([-1, -1]), np.array([0.5, 0.4]), servers=2).tolist() == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"servers": 0}, "servers must be 1 or more, got 0"),
        ({"pool": "sum"}, "pool must be one of max, mean, top, got 'sum'"),
        ({"depth": 0}, "depth must be 1 or more, got 0"),
        ({"pool": "top"}, "belongs to pool: top"),
        ({"top": 2}, "belongs to pool: top"),
        ({"pool": "top", "top": 0}, "top must be 1 or more, got 0"),
    ],
)
def test_parameters_out_of_range_are_errors(given, said):
    with pytest.raises(ParameterError, match=said):
        Servers(**given)
