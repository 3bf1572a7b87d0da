from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ctxbench.embedding.base import EmbedderIdentity
from ctxbench.embedding.vectors import Vectors
from ctxbench.errors import ParameterError
from ctxbench.index.resources import LocalResources
from ctxbench.items import Catalog, Item
from ctxbench.pipeline import Pipeline
from ctxbench.query import Query
from ctxbench.requests import Batch, Request
from ctxbench.steps.retrieve import Bm25, Dense, Everything, Random, ranked_by
from ctxbench.tokens import CharsCounter

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

    def test_a_depth_below_one_is_an_error(self):
        for step in (Dense, Bm25, Random):
            with pytest.raises(ParameterError, match="depth must be 1 or more, got 0"):
                step(depth=0)


class TestBm25:
    ITEMS = Catalog([Item(type="rule", name=text) for text in ("apple pie", "apple", "banana", "apple pie")][:3])

    def test_items_that_share_a_word_are_ranked(self, resources):
        (got,) = found(Bm25(), self.ITEMS, ["an apple"], resources=resources)
        assert [item for item, _ in got] == [1, 0]  # the shorter text is nearer
        assert got[0][1] > got[1][1] > 0

    def test_a_blank_request_and_one_that_shares_no_word_find_nothing(self, resources):
        assert found(Bm25(), self.ITEMS, [""], ["fig"], [], resources=resources) == [[], [], []]

    def test_ties_keep_catalog_order_and_depth_counts_items(self, resources):
        items = Catalog([Item(type=kind, name="same words") for kind in ("rule", "reference", "file")])
        (got,) = found(Bm25(depth=2), items, ["words"], resources=resources)
        assert [item for item, _ in got] == [0, 1]

    def test_only_what_a_request_may_get(self, resources):
        got = found(Bm25(), self.ITEMS, ["apple"], resources=resources, available=(self.ITEMS[0].key,))
        assert [item for item, _ in got[0]] == [0]

    def test_no_request_and_no_item(self, resources):
        assert found(Bm25(), self.ITEMS, resources=resources) == []
        assert found(Bm25(), Catalog([]), ["apple"], resources=resources) == [[]]

    def test_other_parameters_are_another_index(self, resources):
        ask = ["pie apple"]
        one, other, again = (
            found(step, self.ITEMS, ask, resources=resources) for step in (Bm25(), Bm25(k1=0.1), Bm25())
        )
        assert one == again != other

    def test_a_variant_that_scores_everything_finds_only_what_shares_a_word(self, resources):
        (got,) = found(Bm25(variant="bm25+"), self.ITEMS, ["an apple"], resources=resources)
        assert [item for item, _ in got] == [1, 0]

    def test_an_unknown_variant_is_an_error(self):
        with pytest.raises(ParameterError, match=r"variant must be one of lucene, robertson, bm25\+, got 'okapi'"):
            Bm25(variant="okapi")

    @pytest.mark.parametrize("given", [{"k1": -0.1}, {"b": 1.1}, {"b": -0.1}])
    def test_parameters_out_of_range_are_errors(self, given):
        with pytest.raises(ParameterError, match="k1 must be 0 or more and b 0 to 1"):
            Bm25(**given)


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


def test_ranking_by_scores_takes_only_what_was_found():
    scores = [np.array([0.5, 0.9, 0.5, 0.7]), np.array([0.0, 0.0, 0.0, 0.0])]
    masks = [np.array([True, False, True, True]), np.zeros(4, dtype=bool)]
    table = ranked_by(scores, masks, depth=2)
    assert table.item.tolist() == [3, 0]
    assert table.chunk_rank.tolist() == [0, 1]
    assert table.start.tolist() == [0, 2, 2]
