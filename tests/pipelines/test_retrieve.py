from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.pipelines.strategies.retrieve import Dense, Everything, Nothing, Random
from ctxbench.search.embedders import EmbedderIdentity, Vectors
from ctxbench.search.resources import LocalResources
from ctxbench.search.tokens import CharsCounter
from ctxbench.testing import check_step

VECTORS = {
    "east": [1.0, 0.0],
    "north": [0.0, 1.0],
    "west": [-1.0, 0.0],
    "northeast": [0.6, 0.8],
    "eastnorth": [0.8, 0.6],
}


class Compass:
    """Embeds the texts above: the last word of a text counts."""

    identity = EmbedderIdentity("compass", "1", "test", "float32", 2)

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def embed(self, texts, *, on_done=None):
        self.asked.update(texts)
        return np.array([VECTORS[text.split()[-1]] for text in texts], dtype=np.float32).reshape(len(texts), 2)


@pytest.fixture
def embedder():
    return Compass()


@pytest.fixture
def resources(embedder):
    return LocalResources(Vectors(embedder, None), CharsCounter())


def catalog(*texts: str) -> Catalog:
    """Rules `0`, `1` ...; a text is one chunk, and so is the rule's name before it, which faces west."""
    return Catalog([Item(type="rule", name=f"{n} west", text=text) for n, text in enumerate(texts)])


def found(step, items: Catalog, *chunks: list[str], resources, **request) -> list[list[tuple[int, float]]]:
    """(item, score) of requests with these chunks, whose text is the chunks together."""
    requests = [Request(id=str(n), text=" ".join(row), **request) for n, row in enumerate(chunks)]
    batch = Batch.of(items, requests)
    table = step(Query.of_chunks(batch, chunks), resources)
    rows = [table.rows(request) for request in range(len(requests))]
    return [
        [(item, round(score, 6)) for item, score in zip(table.item[r].tolist(), table.score[r].tolist(), strict=True)]
        for r in rows
    ]


class TestDense:
    def test_an_item_scores_as_its_best_pair(self, resources):
        items = catalog("north", "northeast\n\nnorth", "east")
        got = found(Dense(), items, ["east"], ["north", "east"], resources=resources)
        assert got == [[(2, 1.0), (1, 0.6), (0, 0.0)], [(0, 1.0), (1, 1.0), (2, 1.0)]]

    def test_the_winning_pair_and_the_place_of_its_chunk_are_told(self, resources):
        items = catalog("northeast\n\neastnorth", "east", "north")
        batch = Batch.of(items, [Request(id="q", text="")])
        table = Dense()(Query.of_chunks(batch, [["north", "east"]]), resources)
        # chunks by score: item 1 (1.0, by the second query chunk), item 2 (1.0, by the first), then those of item 0:
        # 0.8 twice, its second chunk by "north" x "northeast" being the first in the catalog
        assert table.item.tolist() == [1, 2, 0]
        assert table.query_chunk.tolist() == [1, 0, 0]
        assert table.item_chunk.tolist() == [1, 1, 1]
        assert table.chunk_rank.tolist() == [0, 1, 2]

    def test_chunk_ranks_count_all_chunks_before(self, resources):
        items = catalog("east\n\neastnorth\n\nnortheast", "north")
        batch = Batch.of(items, [Request(id="q", text="")])
        table = Dense()(Query.of_chunks(batch, [["east"]]), resources)
        assert table.chunk_rank.tolist() == [0, 3]  # the first item's three chunks stand before the second's

    def test_ties_keep_catalog_order(self, resources):
        assert found(Dense(), catalog("east", "east", "east"), ["east"], resources=resources) == [
            [(0, 1.0), (1, 1.0), (2, 1.0)]
        ]

    def test_depth_counts_items(self, resources):
        items = catalog("east\n\neastnorth", "northeast", "north", "east")
        assert found(Dense(depth=2), items, ["east"], resources=resources) == [[(0, 1.0), (3, 1.0)]]
        assert found(Dense(depth=1), items, ["east"], resources=resources) == [[(0, 1.0)]]

    def test_a_request_without_chunks_embeds_nothing(self, resources, embedder):
        assert found(Dense(), catalog("east"), [], resources=resources) == [[]]
        assert not embedder.asked

    def test_a_request_that_may_get_nothing_embeds_nothing(self, resources, embedder):
        assert found(Dense(), catalog("east"), ["north"], resources=resources, available=()) == [[]]
        assert not embedder.asked

    def test_only_what_may_be_offered_is_embedded_and_each_text_once(self, resources, embedder):
        items = catalog("east", "north", "east")
        available = (items[0].key, items[2].key)
        for _ in range(2):
            got = found(Dense(), items, ["east"], resources=resources, available=available)
            assert got == [[(0, 1.0), (2, 1.0)]]
        assert set(embedder.asked) == {"0 west", "2 west", "east"}
        assert set(embedder.asked.values()) == {1}

    def test_no_request_and_no_item(self, resources):
        assert found(Dense(), catalog("east"), resources=resources) == []
        assert found(Dense(), Catalog([]), ["east"], resources=resources) == [[]]

    def test_what_was_indexed_for_others_changes_no_answer(self, resources):
        items = catalog("northeast", "east", "eastnorth")
        scope = (items[0].key, items[2].key)
        before = found(Dense(depth=1), items, ["east"], resources=resources, available=scope)
        found(Dense(), items, ["east"], resources=resources)
        assert found(Dense(depth=1), items, ["east"], resources=resources, available=scope) == before == [[(2, 0.8)]]

    def test_items_are_split_by_the_rule(self, resources, embedder):
        items = catalog("north east\n\nnorth west")
        pairs = {"windows": {"size": 2, "overlap": 0}}
        assert found(Dense(chunks=pairs), items, ["east"], resources=resources) == [[(0, 1.0)]]
        assert set(embedder.asked) == {"0 west", "north east", "north west", "east"}
        assert found(Dense(chunks="whole"), items, ["east"], resources=resources) == [[(0, -1.0)]]
        assert embedder.asked["0 west\n\nnorth east\n\nnorth west"] == 1

    def test_a_tool_is_one_chunk_unless_it_is_split_too(self, resources):
        tool = Catalog([Item(type="tool", name="t", description="go north; then go east")])
        assert found(Dense(chunks="clauses"), tool, ["north"], resources=resources) == [[(0, 0.0)]]
        split = Dense(chunks={"clauses": {"shortest": 1}}, split_tools=True)
        assert found(split, tool, ["north"], ["east"], resources=resources) == [[(0, 1.0)], [(0, 1.0)]]

    def test_chunkings_side_by_side_keep_indexes_of_their_own(self, resources):
        items = catalog("northeast\n\neast")
        for _ in range(2):
            assert found(Dense(), items, ["east"], resources=resources) == [[(0, 1.0)]]
            assert found(Dense(chunks={"windows": {}}), items, ["north"], resources=resources) == [[(0, 0.0)]]

    def test_pooling_over_the_chunks_of_the_request(self, resources):
        items = catalog("north", "northeast")
        queries = ["east", "north", "northeast"]  # by item: 0, 1, 0.8 and 0.6, 0.8, 1
        assert found(Dense(over_queries="mean"), items, queries, resources=resources) == [[(1, 0.8), (0, 0.6)]]
        top = Dense(over_queries="top", top=2)
        (rows,) = found(top, items, queries, resources=resources)
        assert dict(rows) == {0: 0.9, 1: 0.9}

    def test_pooling_over_the_chunks_of_an_item(self, resources):
        items = catalog("east\n\neast", "east")  # with their names, which face west
        assert found(Dense(over_chunks="mean"), items, ["east"], resources=resources) == [[(0, 0.333333), (1, 0.0)]]

    def test_an_item_that_is_pooled_is_one_match(self, resources):
        items = catalog("east\n\neastnorth\n\nnortheast", "north")
        batch = Batch.of(items, [Request(id="q", text="")])
        table = Dense(over_chunks="mean")(Query.of_chunks(batch, [["east"]]), resources)
        assert table.chunk_rank.tolist() == [0, 1]
        assert table.item_chunk.tolist() == [1, 1]  # the best pair: east x east, and east x north before the name

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"chunks": "paragraph"}, "chunks: unknown chunk strategy 'paragraph'"),
            ({"chunks": {"windows": {"size": 0}}}, "chunks: size must be 1 or more, got 0"),
            ({"over_queries": "top"}, "top, how many of the best the mean is of, must be given"),
            ({"over_queries": "mean", "top": 2}, "top is given, but neither over_queries nor over_chunks is top"),
            ({"over_chunks": "top", "top": 0}, "top must be 1 or more, got 0"),
            ({"original": True, "chunks": "marked"}, "original answers as the specification's engine does"),
            ({"original": True, "split_tools": True}, "original answers as the specification's engine does"),
            ({"original": True, "over_queries": "mean"}, "original answers as the specification's engine does"),
        ],
    )
    def test_parameters_that_do_not_fit_are_errors(self, parameters, message):
        with pytest.raises(ParameterError, match=message):
            Dense(**parameters)

    @pytest.mark.parametrize(
        "parameters",
        [
            {"chunks": {"windows": {"size": 5, "overlap": 2}}, "split_tools": True},
            {"over_queries": "mean", "over_chunks": "mean", "depth": 4},
            {"over_queries": "top", "over_chunks": "top", "top": 2, "chunks": "marked"},
            {"over_chunks": "mean"},
        ],
    )
    def test_it_conforms_however_it_splits_and_pools(self, parameters):
        check_step("retrieve", "dense", parameters, processes=0)

    def test_a_depth_below_one_is_an_error(self):
        for step in (Dense, Random):
            with pytest.raises(ParameterError, match="depth must be 1 or more, got 0"):
                step(depth=0)


class TestEverything:
    def test_all_that_a_request_may_get_in_catalog_order(self, resources):
        items = catalog("a", "b", "c")
        assert found(Everything(), items, ["x"], resources=resources) == [[(0, 0.0), (1, 0.0), (2, 0.0)]]
        got = found(Everything(), items, [""], resources=resources, available=(items[2].key, items[0].key))
        assert got == [[(0, 0.0), (2, 0.0)]]

    def test_no_request_and_no_item(self, resources):
        assert found(Everything(), Catalog([]), ["x"], resources=resources) == [[]]
        assert found(Everything(), catalog("a"), resources=resources) == []

    def test_it_is_no_ranking(self):
        assert not Pipeline.of({"retrieve": "everything"}).ranks
        assert Pipeline.of({"retrieve": "random"}).ranks


class TestNothing:
    def test_nothing_is_found_whatever_is_asked(self):
        assert found(Nothing(), catalog("a", "b"), ["x"], [], resources=None) == [[], []]
        assert found(Nothing(), Catalog([]), resources=None) == []

    def test_it_uses_nothing_and_conforms(self):
        assert Pipeline.of({"retrieve": "nothing"}).retrieve.uses == ()
        check_step("retrieve", "nothing", processes=0)


class TestRandom:
    def test_a_score_depends_on_seed_request_and_item_alone(self, resources):
        items = catalog(*"abcdef")
        mixed = Catalog(reversed(items))
        one, other = (found(Random(), of, ["x"], ["y"], resources=resources) for of in (items, mixed))
        for left, right in zip(one, other, strict=True):
            assert [(items[item].id, score) for item, score in left] == [(mixed[i].id, score) for i, score in right]
        assert one[0] != one[1]
        assert found(Random(seed=1), items, ["x"], resources=resources)[0] != one[0]

    def test_every_item_has_the_same_chance(self, resources):
        # 3000 requests, 5 items: each is first 600 times; the deviation of a count is sqrt(3000 x 0.2 x 0.8) = 21.9
        firsts = Counter(
            rows[0][0] for rows in found(Random(depth=1), catalog(*"abcde"), *[["x"]] * 3000, resources=resources)
        )
        assert all(abs(firsts[item] - 600) < 4 * 21.9 for item in range(5))

    def test_no_request_no_item_and_one(self, resources):
        assert found(Random(), catalog("a"), resources=resources) == []
        assert found(Random(), Catalog([]), ["x"], resources=resources) == [[]]
        (((item, score),),) = found(Random(), catalog("a"), ["x"], resources=resources)
        assert item == 0
        assert 0 < score < 1
