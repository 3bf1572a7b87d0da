from __future__ import annotations

import itertools
import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench.io.errors import EmbeddingError
from ctxbench.pipelines.strategies.retrieve import Pooling
from ctxbench.search import dense
from ctxbench.search.dense import ChunkMatrix, search

EAST, NORTH, BETWEEN = [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]
POOLS = ("max", "mean", "top")


def matrix_of(*items: list[list[float]]) -> ChunkMatrix:
    """Items 0, 1, ... with the vectors of their chunks."""
    rows = [(item, place, vector) for item, vectors in enumerate(items) for place, vector in enumerate(vectors)]
    vectors = np.array([vector for *_, vector in rows], dtype=np.float32).reshape(len(rows), 2)
    return ChunkMatrix.of(vectors, np.array([r[0] for r in rows], dtype=int), np.array([r[1] for r in rows], dtype=int))


def hits_of(matrix, queries, pooling, *, depth=100, weight=None, start=None, eligible=None):
    queries = np.array(queries, dtype=np.float32).reshape(len(queries), matrix.vectors.shape[1])
    start = np.array([0, len(queries)] if start is None else start)
    n_items = int(matrix.item.max()) + 1
    eligible = np.ones((len(start) - 1, n_items), dtype=bool) if eligible is None else np.array(eligible, dtype=bool)
    weight = np.ones(len(queries)) if weight is None else np.array(weight)
    return list(pooling.search(queries, start, eligible, matrix, depth=depth, weight=weight))


def scores(matrix, queries, pooling, **given_) -> dict[int, float]:
    (hits,) = hits_of(matrix, queries, pooling, **given_)
    return dict(zip(matrix.item[hits.row].tolist(), [round(s, 6) for s in hits.score.tolist()], strict=True))


class TestPooling:
    ITEMS = matrix_of([EAST, NORTH, BETWEEN], [EAST])

    def test_over_chunks(self):
        # east x item 0: 1, 0, 0.6
        assert scores(self.ITEMS, [EAST], Pooling("mean", "max")) == {0: round(1.6 / 3, 6), 1: 1.0}
        assert scores(self.ITEMS, [EAST], Pooling("top", "max", 2)) == {0: 0.8, 1: 1.0}

    def test_over_queries(self):
        # item 0: best chunk 1 for either; item 1: 1 for east, 0 for north, 0.6 for between
        queries = [EAST, NORTH, BETWEEN]
        assert scores(self.ITEMS, queries, Pooling("max", "mean")) == {0: 1.0, 1: round(1.6 / 3, 6)}
        assert scores(self.ITEMS, queries, Pooling("max", "top", 2)) == {0: 1.0, 1: 0.8}

    def test_chunks_are_pooled_before_queries(self):
        # means over item 0's chunks: east 1.6 / 3, north 1.8 / 3
        assert scores(self.ITEMS, [EAST, NORTH], Pooling("mean", "max")) == {0: 0.6, 1: 1.0}
        assert scores(self.ITEMS, [EAST, NORTH], Pooling("mean", "mean")) == {0: round(3.4 / 6, 6), 1: 0.5}

    def test_weights(self):
        queries, weight = [EAST, NORTH], [1.0, 0.25]
        assert scores(self.ITEMS, queries, Pooling("max", "mean"), weight=weight) == {0: 1.0, 1: 0.8}  # 1 / 1.25
        assert scores(self.ITEMS, queries, Pooling("mean", "max"), weight=weight)[0] == round(1.6 / 3, 6)
        assert scores(self.ITEMS, queries, Pooling("max", "top", 2), weight=weight) == {0: 0.625, 1: 0.5}

    def test_top_takes_all_there_are_if_fewer(self):
        assert scores(self.ITEMS, [EAST], Pooling("top", "top", 9)) == {0: round(1.6 / 3, 6), 1: 1.0}

    def test_the_pair_is_the_best_one_whatever_the_pooling(self):
        for over_chunks, over_queries in itertools.product(POOLS, POOLS):
            pooling = Pooling(over_chunks, over_queries, 2)
            (hits,) = hits_of(matrix_of([NORTH, BETWEEN, EAST]), [BETWEEN, EAST], pooling)
            assert (hits.row.tolist(), hits.query_chunk.tolist()) == ([1], [0])  # 1.0, as east x east behind it

    def test_of_equal_pairs_the_first_chunk_and_then_the_first_query_chunk(self):
        (hits,) = hits_of(matrix_of([NORTH, EAST]), [EAST, NORTH, NORTH], Pooling("mean", "mean"))
        assert (hits.row.tolist(), hits.query_chunk.tolist()) == ([0], [1])

    def test_ties_keep_catalog_order_and_depth_counts_items(self):
        matrix = matrix_of([NORTH], [EAST, EAST], [EAST], [EAST])
        (hits,) = hits_of(matrix, [EAST], Pooling("mean", "mean"), depth=2)
        assert matrix.item[hits.row].tolist() == [1, 2]

    def test_what_is_not_eligible_is_not_found(self):
        matrix = matrix_of([EAST], [EAST, NORTH], [NORTH])
        found = hits_of(matrix, [EAST, NORTH, EAST], Pooling("mean", "mean"), start=[0, 1, 2, 2, 3],
                        eligible=[[0, 1, 1], [1, 0, 0], [1, 1, 1], [0, 0, 0]])  # fmt: skip
        assert [matrix.item[hits.row].tolist() for hits in found] == [[1, 2], [0], [], []]

    def test_a_vector_that_is_no_number_is_an_error(self):
        with pytest.raises(EmbeddingError, match="query chunk 1 holds NaN"):
            hits_of(self.ITEMS, [EAST, [np.nan, 0.0]], Pooling("mean", "max"))


def pool(values: list[float], how: str, top: int) -> float:
    best = sorted(values, reverse=True)
    return (
        max(values)
        if how == "max"
        else math.fsum(best[: top if how == "top" else None]) / len(best[: top if how == "top" else None])
    )


def naive(queries, weight, vectors, item, pooling) -> dict[int, float]:
    """Scores by item, by the definition."""
    out = {}
    for one in dict.fromkeys(item.tolist()):
        rows = vectors[item == one].astype(np.float64)
        by_query = [pool([float(np.dot(q.astype(np.float64), r)) for r in rows], pooling.over_chunks, pooling.top)
                    for q in queries]  # fmt: skip
        weighted = [value * w for value, w in zip(by_query, weight, strict=True)]
        if pooling.over_queries == "mean":
            out[one] = math.fsum(weighted) / math.fsum(weight)
        else:
            out[one] = pool(weighted, pooling.over_queries, pooling.top)
    return out


@settings(max_examples=150, deadline=None, database=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    items=st.lists(st.integers(1, 4), min_size=1, max_size=25),
    chunks=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    depth=st.integers(1, 30),
    block=st.integers(1, 200),
    pooling=st.builds(Pooling, st.sampled_from(POOLS), st.sampled_from(POOLS), st.integers(1, 4)),
    dimensions=st.sampled_from([2, 16, 384]),
)
def test_it_equals_the_definition_and_a_batch_its_requests_to_the_bit(
    seed, items, chunks, depth, block, pooling, dimensions
):
    random = np.random.default_rng(seed)
    vectors, queries = (_unit(random, n, dimensions) for n in (sum(items), sum(chunks)))
    weight = random.choice([0.5, 1.0, 2.0], sum(chunks))
    item = np.repeat(np.arange(len(items)), items)
    matrix = ChunkMatrix.of(vectors, item, np.zeros(len(item), dtype=np.int64))
    start = np.concatenate([[0], np.cumsum(chunks)]).astype(np.int64)
    eligible = np.ones((len(chunks), len(items)), dtype=bool)
    with mock.patch.object(dense, "BLOCK", block):
        found = list(pooling.search(queries, start, eligible, matrix, depth=depth, weight=weight))
    for row, hits in enumerate(found):
        span = slice(start[row], start[row + 1])
        expected = naive(queries[span], weight[span], vectors, item, pooling)
        got = dict(zip(matrix.item[hits.row].tolist(), hits.score.tolist(), strict=True))
        assert len(got) == min(depth, len(items))
        assert got == pytest.approx({one: expected[one] for one in got}, abs=1e-12)
        left = [score for one, score in expected.items() if one not in got]
        assert not left or max(left) <= min(got.values()) + 1e-12
        alone, = pooling.search(queries[span], np.array([0, chunks[row]]), eligible[:1], matrix, depth=depth,
                                weight=weight[span])  # fmt: skip
        assert alone.score.tolist() == hits.score.tolist()
        assert (alone.row.tolist(), alone.query_chunk.tolist()) == (hits.row.tolist(), hits.query_chunk.tolist())


@settings(max_examples=80, deadline=None, database=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 20), chunks=st.integers(1, 4), top=st.booleans())
def test_the_best_pair_pooled_is_what_the_search_finds(seed, n, chunks, top):
    random = np.random.default_rng(seed)
    vectors, queries = _unit(random, 2 * n, 16), _unit(random, chunks, 16)
    matrix = ChunkMatrix.of(vectors, np.repeat(np.arange(n), 2), np.tile([0, 1], n))
    given_ = {"depth": n, "weight": random.choice([0.5, 1.0], chunks)}
    start, eligible = np.array([0, chunks]), np.ones((1, n), dtype=bool)
    pooling = Pooling("top", "top", 1) if top else Pooling("max", "max")
    (pooled,) = pooling.search(queries, start, eligible, matrix, **given_)
    (hits,) = search(queries, start, eligible, matrix, **given_)
    _, first = np.unique(matrix.item[hits.row], return_index=True)
    kept = np.sort(first)
    assert pooled.row.tolist() == hits.row[kept].tolist()
    assert pooled.score.tolist() == hits.score[kept].tolist()
    assert pooled.query_chunk.tolist() == hits.query_chunk[kept].tolist()


def _unit(random, n: int, dimensions: int):
    """Unit vectors, a third of them copies of others."""
    vectors = random.standard_normal((n, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for row in range(1, n):
        if random.random() < 0.35:
            vectors[row] = vectors[random.integers(row)]
    return vectors
