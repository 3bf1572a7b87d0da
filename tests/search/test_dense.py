from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.io.errors import EmbeddingError
from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Request
from ctxbench.pipelines.pipeline import Pipeline
from ctxbench.search import dense
from ctxbench.search.dense import ChunkMatrix, DenseIndex, chunks_of, multiply, row_dots, search
from ctxbench.search.embedders import ModelError
from ctxbench.testing.contract import answer_rows

X, Y = [1.0, 0.0], [0.0, 1.0]


def matrix_of(*items: list[list[float]]) -> ChunkMatrix:
    """Items 0, 1, ... with the vectors of their chunks."""
    rows = [(item, place, vector) for item, vectors in enumerate(items) for place, vector in enumerate(vectors)]
    vectors = np.array([vector for *_, vector in rows], dtype=np.float32).reshape(len(rows), 2)
    return ChunkMatrix.of(vectors, np.array([r[0] for r in rows], dtype=int), np.array([r[1] for r in rows], dtype=int))


def hits_of(matrix, queries, *, depth=100, eligible=None, weight=None, start=None, n_items=None):
    queries = np.array(queries, dtype=np.float32).reshape(len(queries), matrix.vectors.shape[1])
    start = np.array([0, len(queries)] if start is None else start)
    n_items = int(matrix.item.max()) + 1 if n_items is None else n_items
    eligible = np.ones((len(start) - 1, n_items), dtype=bool) if eligible is None else np.array(eligible)
    weight = np.ones(len(queries)) if weight is None else np.array(weight)
    return list(search(queries, start, eligible, matrix, depth=depth, weight=weight))


class TestSearch:
    def test_chunks_stand_by_score_then_catalog(self):
        matrix = matrix_of([[0.6, 0.8]], [X, Y], [X])
        (hits,) = hits_of(matrix, [X])
        assert hits.row.tolist() == [1, 3, 0, 2]
        assert hits.score == pytest.approx([1.0, 1.0, 0.6, 0.0], abs=1e-7)

    def test_the_best_query_chunk_counts_and_of_equals_the_first(self):
        (hits,) = hits_of(matrix_of([X], [Y], [[0.6, 0.8]]), [Y, X, Y])
        assert hits.row.tolist() == [0, 1, 2]
        assert hits.query_chunk.tolist() == [1, 0, 0]
        assert hits.score == pytest.approx([1.0, 1.0, 0.8], abs=1e-7)

    def test_a_weight_multiplies_the_scores_of_its_chunk(self):
        (hits,) = hits_of(matrix_of([X], [Y]), [X, Y], weight=[0.5, 0.25])
        assert hits.score.tolist() == [0.5, 0.25]

    def test_what_is_not_eligible_is_not_found(self):
        matrix = matrix_of([X], [X], [Y])
        found = hits_of(matrix, [X, X, X], start=[0, 1, 2, 3], eligible=[[0, 1, 1], [0, 0, 0], [1, 1, 1]])
        assert [hits.row.tolist() for hits in found] == [[1, 2], [], [0, 1, 2]]

    def test_a_request_without_chunks_finds_nothing(self):
        found = hits_of(matrix_of([X], [Y]), [X, Y], start=[0, 0, 1, 1, 2, 2])
        assert [len(hits.row) for hits in found] == [0, 2, 0, 2, 0]

    def test_no_request_no_chunk_and_one_chunk(self):
        one = matrix_of([X])
        assert hits_of(one, [], start=[0]) == []
        assert hits_of(one, [X])[0].row.tolist() == [0]
        none = ChunkMatrix.of(np.empty((0, 2), dtype=np.float32), np.empty(0, dtype=int), np.empty(0, dtype=int))
        assert hits_of(none, [X], n_items=0)[0].row.tolist() == []

    def test_a_vector_that_is_no_number_is_an_error(self):
        with pytest.raises(EmbeddingError, match="query chunk 1 holds NaN"):
            hits_of(matrix_of([X]), [X, [np.nan, 0.0]])

    def test_a_request_of_many_chunks_is_searched_in_parts(self, monkeypatch):
        matrix = matrix_of([X], [Y], [[0.6, 0.8]])
        queries = [X, [0.8, 0.6], Y, X, [0.0, -1.0]]
        whole = hits_of(matrix, queries, start=[0, 4, 5], weight=[1, 2, 1, 1, 1])
        monkeypatch.setattr(dense, "BLOCK", 4)
        for one, other in zip(whole, hits_of(matrix, queries, start=[0, 4, 5], weight=[1, 2, 1, 1, 1]), strict=True):
            assert one.row.tolist() == other.row.tolist()
            assert one.query_chunk.tolist() == other.query_chunk.tolist()
            assert one.score.tolist() == other.score.tolist()

    @settings(max_examples=120, deadline=None, database=None, derandomize=True)
    @given(
        seed=st.integers(0, 2**32 - 1),
        items=st.lists(st.integers(1, 3), min_size=1, max_size=30),
        chunks=st.lists(st.integers(0, 3), min_size=1, max_size=5),
        depth=st.integers(1, 35),
        block=st.integers(1, 200),
        share=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
        dimensions=st.sampled_from([2, 16, 384]),
        weighted=st.booleans(),
    )
    def test_it_equals_a_sort_of_exact_products(self, seed, items, chunks, depth, block, share, dimensions, weighted):
        random = np.random.default_rng(seed)
        vectors = with_duplicates(random, sum(items), dimensions)
        queries = with_duplicates(random, sum(chunks), dimensions)
        weight = random.choice([0.5, 1.0, 2.0], sum(chunks)) if weighted else np.ones(sum(chunks))
        item = np.repeat(np.arange(len(items)), items)
        matrix = ChunkMatrix.of(vectors, item, np.zeros(len(item), dtype=np.int64))
        start = np.concatenate([[0], np.cumsum(chunks)]).astype(np.int64)
        eligible = random.random((len(chunks), len(items))) < share
        with mock.patch.object(dense, "BLOCK", block):
            found = list(search(queries, start, eligible, matrix, depth=depth, weight=weight))
        assert len(found) == len(chunks)
        for row, hits in enumerate(found):
            span = slice(start[row], start[row + 1])
            expected = naive(queries[span], weight[span], vectors, item, eligible[row])
            n = prefix(expected, item, depth)
            got = list(zip(hits.row.tolist(), hits.query_chunk.tolist(), hits.score.tolist(), strict=True))
            assert got[:n] == expected[:n]
            assert len(got) >= n
            assert set(got) <= set(expected)

    @pytest.mark.parametrize("depth", [1, 5, 50])
    def test_scores_that_float32_cannot_tell_apart_are_in_their_exact_order(self, depth):
        random = np.random.default_rng(8)
        one = with_duplicates(random, 1, 384)
        vectors = (one + random.standard_normal((300, 384)) * 3e-8).astype(np.float32)
        queries = (one + random.standard_normal((6, 384)) * 3e-8).astype(np.float32)
        item = np.arange(300)
        matrix = ChunkMatrix.of(vectors, item, np.zeros(300, dtype=np.int64))
        (hits,) = search(queries, np.array([0, 6]), np.ones((1, 300), bool), matrix, depth=depth, weight=np.ones(6))
        expected = naive(queries, np.ones(6), vectors, item, np.ones(300, dtype=bool))
        got = list(zip(hits.row.tolist(), hits.query_chunk.tolist(), hits.score.tolist(), strict=True))
        assert got[:depth] == expected[:depth]
        assert expected[0][2] - expected[-1][2] < 1e-6


def with_duplicates(random, n: int, dimensions: int):
    """Unit vectors, a third of them exact copies of others and some a last bit away from one."""
    vectors = random.standard_normal((n, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for row in range(1, n):
        kind = random.random()
        if kind < 0.45:
            vectors[row] = vectors[random.integers(row)]
        if kind < 0.1:
            vectors[row, 0] = np.nextafter(vectors[row, 0], np.float32(2))
    return vectors


def naive(queries, weight, vectors, item, allowed) -> list[tuple[int, int, float]]:
    """All (chunk, query chunk, score), best first: float64 products one pair at a time, sorted by Python."""
    best = []
    for row, vector in enumerate(vectors):
        products = [
            (-float(np.sum(query.astype(np.float64) * vector.astype(np.float64)) * factor), place)
            for place, (query, factor) in enumerate(zip(queries, weight, strict=True))
        ]
        if products and allowed[item[row]]:
            score, place = min(products)
            best.append((row, place, -score))
    return sorted(best, key=lambda hit: (-hit[2], hit[0]))


def prefix(expected, item, depth: int) -> int:
    """How many hits score at least as high as the best chunk of the item in place `depth`."""
    seen: set[int] = set()
    for row, _, score in expected:
        seen.add(int(item[row]))
        if len(seen) == depth:
            return sum(one[2] >= score for one in expected)
    return len(expected)


class TestProducts:
    def test_a_row_product_depends_on_its_two_rows_alone(self):
        random = np.random.default_rng(3)
        left, right = (random.standard_normal((200, 384)).astype(np.float32) for _ in range(2))
        together = row_dots(left, right)
        assert [row_dots(left[n : n + 1], right[n : n + 1])[0] for n in range(200)] == together.tolist()
        assert row_dots(left[::-3], right[::-3]).tolist() == together[::-3].tolist()

    @pytest.mark.parametrize("small", [0, 10**9])
    def test_one_thread_or_many_multiply_alike(self, monkeypatch, small):
        monkeypatch.setattr(dense, "SMALL", small)
        left, right = np.array([[1, 2], [3, 4]], dtype=np.float32), np.array([[5, 6]], dtype=np.float32)
        assert multiply(left, right).tolist() == [[17.0], [39.0]]


class Embed:
    """Counts the texts, gives each a vector of its length, and fails on some."""

    def __init__(self, *failing: str, error: type[EmbeddingError] = EmbeddingError, value: float = 1.0) -> None:
        self.asked: list[str] = []
        self.failing, self.error, self.value = failing, error, value

    def __call__(self, texts, *, kind="query"):
        assert kind == "item"
        self.asked += texts
        if set(texts) & set(self.failing):
            raise self.error("cannot be embedded")
        return np.array([[len(text), self.value] for text in texts], dtype=np.float32)


CATALOG = Catalog(
    [
        Item(type="tool", name="a", description="  d  "),
        Item(type="rule", name="b", text="one\n\ntwo"),
        Item(type="rule", name="c"),
    ]
)


def need(*positions: int):
    needed = np.zeros(len(CATALOG), dtype=bool)
    needed[list(positions)] = True
    return needed


class TestDenseIndex:
    def test_a_tool_is_one_chunk_never_trimmed(self):
        assert chunks_of(CATALOG[0]) == ("a:   d  ",)
        assert chunks_of(CATALOG[1]) == ("b", "one", "two")

    def test_an_item_is_embedded_when_it_is_first_needed_and_once(self):
        embed, index = Embed(), DenseIndex(CATALOG)
        assert index.matrix(need(), embed) is None
        assert index.matrix(need(2), embed).item.tolist() == [2]
        assert embed.asked == ["c"]
        matrix = index.matrix(need(0, 2), embed)
        assert embed.asked == ["c", "a:   d  "]
        assert matrix.item.tolist() == [0, 2]
        index.matrix(need(0), embed)
        assert embed.asked == ["c", "a:   d  "]

    def test_rows_stand_in_catalog_order_whenever_they_came(self):
        embed, index = Embed(), DenseIndex(CATALOG)
        for position in (2, 0, 1):
            matrix = index.matrix(need(position), embed)
        assert matrix.item.tolist() == [0, 1, 1, 1, 2]
        assert matrix.ordinal.tolist() == [0, 0, 1, 2, 0]
        assert matrix.first.tolist() == [0, 1, 4]
        assert matrix.vectors[:, 0].tolist() == [8, 1, 3, 3, 1]

    def test_a_chunk_that_fails_stops_and_keeps_nothing(self):
        index = DenseIndex(CATALOG)
        with pytest.raises(EmbeddingError, match="cannot be embedded"):
            index.matrix(need(1), Embed("two"))
        assert index.matrix(need(1), Embed()).ordinal.tolist() == [0, 1, 2]

    def test_the_original_leaves_a_chunk_that_fails_out(self):
        index = DenseIndex(CATALOG)
        matrix = index.matrix(need(1, 2), Embed("two"), skip_failed=True)
        assert (matrix.item.tolist(), matrix.ordinal.tolist()) == ([1, 1, 2], [0, 1, 0])
        assert DenseIndex(CATALOG).matrix(need(2), Embed("c"), skip_failed=True) is None

    def test_without_a_model_no_text_is_at_fault(self):
        with pytest.raises(ModelError):
            DenseIndex(CATALOG).matrix(need(1), Embed("two", error=ModelError), skip_failed=True)

    def test_a_vector_that_is_no_number_names_its_chunk(self):
        with pytest.raises(EmbeddingError, match="chunk 0 of item rule:c holds NaN"):
            DenseIndex(CATALOG).matrix(need(2), Embed(value=np.nan))


@pytest.mark.parametrize("depth", [1, 3, 100])
@pytest.mark.parametrize("paragraphs", [1, 3], ids=["a chunk an item", "several chunks an item"])
def test_few_items_are_searched_as_all_are(monkeypatch, paragraphs, depth):
    words = ["refund", "order", "late", "parcel", "invoice", "address"]
    texts = [[f"{words[n % 6]} {words[(n + p) % 5]} {n % 7}" for p in range(paragraphs)] for n in range(60)]
    catalog = Catalog(Item(type="memory", name=f"m{n}", text="\n\n".join(one)) for n, one in enumerate(texts))
    available = [None, tuple(catalog[n].key for n in (50, 3, 17)), tuple(catalog[n].key for n in (3, 4)), ()]
    requests = [
        Request(id=f"q{n}", text=f"a late {word}. Is it paid?", available=one)
        for n, (word, one) in enumerate(zip(words, available, strict=False))
    ]
    pipeline, resources = Pipeline.of({"retrieve": {"dense": {"depth": depth}}}), testing.mock_resources()
    pipeline.run(Batch.of(catalog, requests[:1]), resources)  # now all are indexed
    found = []
    for few in (dense.FEW, 10**9):  # where few may be found these alone are multiplied, or never
        monkeypatch.setattr(dense, "FEW", few)
        for chosen in (requests, requests[1:], requests[1:2], requests[3:]):
            outcome = pipeline.run(Batch.of(catalog, chosen), resources)
            found.append(answer_rows(outcome.query, outcome.candidates))
    assert found[:4] == found[4:]
    assert [len(answer["rows"]) for answer in found[1]] == [min(depth, 3), min(depth, 2), 0]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(st.integers(-3, 3), st.just(-np.inf), st.floats(-1, 1, width=32)), min_size=1), st.data())
def test_a_limit_is_reached_by_as_many_values_of_each_row(values, data):
    n = data.draw(st.integers(1, 2 * len(values)))
    times = data.draw(st.integers(1, 40))
    rows = np.array([values * times, values[::-1] * times], dtype=np.float32)
    lowest = np.finfo(np.float32).min
    for row, limit in zip(rows, dense.reached_by(rows, n), strict=True):
        assert limit == lowest or np.count_nonzero(row >= limit) >= n
        if n <= len(row) <= n * dense.GROUP:  # the values are not looked at in groups
            assert limit == max(np.sort(row)[::-1][n - 1], lowest)
