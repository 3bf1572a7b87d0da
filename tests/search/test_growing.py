"""Indexes over a catalog that grows give what those over a catalog made anew give, bit for bit."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.features import item_words, query_stems
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.retrieve import Bm25, Bm25f, Dense, Fuzzy, Random, Servers
from ctxbench.search.dense import DenseIndex, dense_index, ranked_by
from ctxbench.search.embedders import HashingEmbedder, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter
from tests.draws import draws


class ItemWordsOf:
    """What the fitted ranking reads of the words of items, as scores of a retriever."""

    def __str__(self) -> str:
        return "item words"

    def __call__(self, query, resources):
        words = item_words(query.batch.catalog, resources)
        rows = []
        for request in range(len(query.batch)):
            asked = query_stems(" ".join(query.chunks(request)))
            shares = [share for side in words.overlaps(asked) for share in side.values()]
            rows.append(np.sum(shares, axis=0) + words.bm25.scores(dict.fromkeys(asked, 1.0)))
        return ranked_by(rows, [np.ones(len(row), dtype=bool) for row in rows], depth=5)


POOLS = ("max", "mean", "top")
STEPS = [
    *(
        Dense(over_queries=q, over_chunks=c, top=2 if "top" in (q, c) else None, depth=3, split_tools=True)
        for q in POOLS
        for c in POOLS
    ),
    Dense(original=True),
    Servers(servers=1),
    Bm25(depth=4),
    ItemWordsOf(),
    Bm25(variant="bm25+", words="plain", stop=False, stem=False, server=False),
    Bm25f(),
    Bm25f(weights={"text": 2.0, "name": 0.0}, b={"text": 1.0}),
    Fuzzy(threshold=0.0, near=0.3, fields=("name", "description")),
    Random(),
]
WORDS = st.sampled_from(
    ["create", "issue", "list", "users", "delete", "createIssue", "file", "files", "the", "x9", "ä", "pear"]
)
TEXT = st.lists(WORDS, max_size=6).map(" ".join)


@st.composite
def parts(draw) -> list[list[Item]]:
    """What a catalog grows by, time after time; names may share words, identities differ."""
    sizes = draw(st.lists(st.integers(0, 4), min_size=2, max_size=5))
    numbers = iter(range(sum(sizes)))
    return [
        [
            Item(
                type=draw(st.sampled_from(["tool", "rule"])),
                server=draw(st.sampled_from([None, "git"])),
                name=f"{draw(WORDS)}_{next(numbers)}",
                description=draw(TEXT),
                text="\n\n".join(draw(st.lists(TEXT, max_size=3))),
                schema=draw(st.none() | WORDS.map(lambda word: {"properties": {word: {"description": word}}})),
                include=draw(st.sampled_from(["agent", "agent", "manual"])),
            )
            for _ in range(size)
        ]
        for size in sizes
    ]


class Chosen(LocalResources):
    """Resources that note which texts were embedded, in memory."""

    def __init__(self) -> None:
        super().__init__(Vectors(HashingEmbedder(), None), CharsCounter())
        self.asked: list[str] = []

    def vectors(self, texts, *, kind="query"):
        self.asked += texts
        return super().vectors(texts, kind=kind)


def query(catalog: Catalog, texts: list[list[str]], available=None) -> Query:
    keys = None if available is None else tuple(catalog[place].key for place in available if place < len(catalog))
    batch = Batch.of(catalog, [Request(id=str(n), text="x", available=keys) for n in range(len(texts))])
    return Query.of_chunks(batch, texts)


def same(one, other) -> None:
    for name in one.row_arrays():
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    assert one.start.tolist() == other.start.tolist()


@pytest.mark.parametrize("step", STEPS, ids=str)
@settings(max_examples=draws(40, 15), deadline=None, database=None, derandomize=True)
@given(
    grows=parts(),
    texts=st.lists(st.lists(TEXT.filter(bool), max_size=3), min_size=1, max_size=3),
    searched=st.lists(st.none() | st.lists(st.integers(0, 15), unique=True), min_size=5, max_size=5),
    branch=st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_search_over_an_extended_catalog_is_that_over_one_made_anew(step, grows, texts, searched, branch):
    """Some searches may get a few items only, and some extensions are tried out and left for another."""
    resources, catalog = Chosen(), Catalog([])
    for part, available, tried in zip(grows, searched, branch, strict=False):
        if tried:
            other = catalog.extended([Item(type="rule", name="tried out", description="create the list", text="x9")])
            step(query(other, texts), resources)
        catalog = catalog.extended(part)
        step(query(catalog, texts, available), resources)
        asked = query(catalog, texts)
        anew = query(Catalog(catalog), texts)
        same(step(asked, resources), step(anew, Chosen()))


REFINED = [
    [{"expansion": {"threshold": 0.1, "depth": 2}}],
    [{"expansion": {"by": "graph", "graph_threshold": 0.1, "types": ["rule"]}}],
    [{"mmr": {"n": 2}}],
    [{"tool_rules": {"rules": {"the_0": ["the_1", "git/*"]}}}],
    [{"probability": {}}, {"budget": {"tokens": 40}}],
]


@pytest.mark.parametrize("refine", REFINED, ids=str)
@settings(max_examples=25, deadline=None, database=None, derandomize=True)
@given(grows=parts(), texts=st.lists(TEXT.filter(bool), min_size=1, max_size=2))
def test_what_steps_make_of_an_extended_catalog_is_what_they_make_of_one_made_anew(refine, grows, texts):
    pipeline = Pipeline.of({"retrieve": {"dense": {"depth": 30}}, "refine": [{"standard": {"topN": 2}}, *refine]})
    resources, catalog = Chosen(), Catalog([])
    for part in grows:
        catalog = catalog.extended(part)
        requests = [Request(id=str(n), text=text) for n, text in enumerate(texts)]
        found = pipeline.run(Batch.of(catalog, requests), resources).candidates
        same(found, pipeline.run(Batch.of(Catalog(catalog), requests), Chosen()).candidates)


def rules(*names: str) -> list[Item]:
    return [Item(type="rule", name=name, text=f"about {name}\n\nmore") for name in names]


class TestDense:
    def search(self, catalog: Catalog, resources, available=None):
        Dense()(query(catalog, [["asked"]], available), resources)
        return dense_index(catalog, resources)

    def test_only_what_was_added_is_chunked_and_embedded(self, monkeypatch):
        resources, chunked = Chosen(), []
        real = type(Dense().chunking).__call__
        monkeypatch.setattr(
            type(Dense().chunking), "__call__", lambda self, item: chunked.append(item.name) or real(self, item)
        )
        catalog = Catalog(rules("a", "b"))
        self.search(catalog, resources)
        resources.asked.clear()
        chunked.clear()
        self.search(catalog.extended(rules("c")), resources)
        assert resources.asked == ["c", "about c", "more", "asked"]
        assert chunked == ["c"]

    def test_rows_are_shared_and_not_stacked_again(self):
        resources, catalog = Chosen(), Catalog(rules("a", "b"))
        before = self.search(catalog, resources)._embedded.matrix
        after = self.search(catalog.extended(rules("c")), resources)._embedded.matrix
        assert np.shares_memory(before.vectors, after.vectors)
        assert np.shares_memory(before.item, after.item)
        assert before.item.tolist() == [0, 0, 0, 1, 1, 1]
        assert after.item.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        assert after.first.tolist() == [0, 3, 6]

    def test_two_extensions_do_not_write_into_each_other(self):
        resources, catalog = Chosen(), Catalog(rules("a"))
        self.search(catalog, resources)
        one, other = catalog.extended(rules("b")), catalog.extended(rules("c"))
        first = self.search(one, resources)._embedded.matrix
        copy = first.vectors.copy()
        second = self.search(other, resources)._embedded.matrix
        assert first.vectors.tobytes() == copy.tobytes()
        assert not np.shares_memory(first.vectors, second.vectors)
        assert second.vectors[-2].tolist() == resources.vectors(["about c"])[0].tolist()

    def test_what_the_catalog_before_needs_later_does_not_reach_the_other(self):
        resources, catalog = Chosen(), Catalog(rules("a", "b", "c"))
        self.search(catalog, resources, available=[0])
        extended = catalog.extended(rules("d"))
        held = self.search(extended, resources, available=[0, 3])._embedded.matrix
        copy = held.vectors.copy()
        old = self.search(catalog, resources)._embedded.matrix
        assert held.vectors.tobytes() == copy.tobytes()
        assert (held.item.tolist(), old.item.tolist()) == ([0, 0, 0, 3, 3, 3], [0, 0, 0, 1, 1, 1, 2, 2, 2])
        whole = self.search(extended, resources)._embedded.matrix
        assert whole.item.tolist() == np.repeat(np.arange(4), 3).tolist()
        assert whole.vectors.tobytes() == self.search(Catalog(extended), Chosen())._embedded.matrix.vectors.tobytes()

    def test_room_grows_by_half_so_that_copies_stay_few_and_are_let_go(self):
        resources, catalog = Chosen(), Catalog(rules("first"))
        rooms = weakref.WeakSet()
        made = 0
        for n in range(400):
            catalog = catalog.extended(rules(str(n)))
            room = self.search(catalog, resources)._embedded.room
            made += room not in rooms
            rooms.add(room)
        del room
        gc.collect()
        assert made <= 9  # for 401 x 3 rows: 64 to start with, then half more each time
        assert len(rooms) == 1

    def test_an_index_made_by_hand_is_extended_likewise(self):
        index = DenseIndex(Catalog([]))
        catalog = Catalog(rules("a"))
        assert index.extended(catalog).matrix(np.array([True]), HashingEmbedder().embed).item.tolist() == [0, 0, 0]
        assert index.matrix(np.zeros(0, dtype=bool), HashingEmbedder().embed) is None
