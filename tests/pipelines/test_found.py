"""The rows that features are made of: which they are, in which order, and the similarity that they share."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ctxbench import testing
from ctxbench.model.candidates import SEARCHED, Candidates
from ctxbench.model.requests import Query
from ctxbench.pipelines.features import RETRIEVED, FeatureInput, best_of_chunks, log1p, ranks_of
from ctxbench.search.dense import ChunkMatrix
from tests.pipelines.feature_cases import CATALOG, asked, table

PROPERTY = settings(max_examples=50, deadline=None, database=None, derandomize=True)


def found(candidates: Candidates, query: Query | None = None) -> FeatureInput:
    query = query or asked(*["x"] * candidates.n_requests)
    return FeatureInput.of(query, candidates, testing.mock_resources())


def said(*sentences: str) -> Query:
    """One request of several chunks."""
    return Query.of_chunks(asked(" ".join(sentences)).batch, [sentences])


class TestRows:
    def test_the_score_of_retrieval_counts_where_another_took_its_place(self):
        held = table([0.2, 0.1, 0.9]).with_columns(**{RETRIEVED: np.array([0.4, 0.7, 0.6])})
        rows = found(held)  # they stand as items 2, 0, 1
        assert rows.item.tolist() == [0, 1, 2]
        assert rows.score.tolist() == [0.7, 0.6, 0.4]
        assert held.item[rows.rows].tolist() == [0, 1, 2]

    def test_what_an_expansion_took_over_keeps_its_place_in_the_search(self):
        column = np.array([np.nan, np.nan, 0.6])
        held = replace(table([0.9, 0.5, 0.3], origin=np.array([1, 1, 2])), columns={SEARCHED: column})
        assert found(held).item.tolist() == [0, 2, 1]
        assert found(held).score.tolist() == [0.9, 0.6, 0.5]

    def test_sessions_are_no_rows(self):
        mixed = table([0.9, 0.5, 0.3], origin=np.array([0, 1, 2]))
        assert found(mixed).rows.tolist() == [1, 2]
        assert FeatureInput.of(asked("area"), mixed, testing.mock_resources(), expanded=False).rows.tolist() == [1]

    def test_ties_keep_catalog_order(self):
        assert found(table([0.5, 0.9, 0.5])).item.tolist() == [1, 0, 2]

    def test_each_request_has_its_rows(self):
        rows = found(table([0.9, 0.5], [], [0.4]))
        assert rows.asking.tolist() == [0, 2]
        assert [(request, rows.item[span].tolist()) for request, span in rows.spans()] == [(0, [0, 1]), (2, [0])]
        assert len(rows) == 3

    def test_nothing_found_has_none(self):
        rows = found(Candidates.empty(1))
        assert (len(rows), list(rows.spans()), rows.similarity) == (0, [], {})


class TestSimilarity:
    def test_a_request_without_chunks_is_left_out(self):
        rows = found(table([0.9, 0.5], [0.4]), asked("", "area"))
        assert {request: values.shape for request, values in rows.similarity.items()} == {1: (1, 1)}
        (span,) = (span for request, span in rows.spans() if request == 1)
        assert [(near.shape, words.shape) for near, words in rows.sentences(1, span)] == [((1, 1), (1, 1))]

    def test_a_sentence_that_is_said_again_is_compared_once(self):
        rows = found(table([0.9, 0.5]), said("Find the area", "Find it now", "Find the area"))
        assert rows.similarity[0].shape == (2, 2)

    def test_common_words_count_in_no_sentence_where_another_has_words_of_its_own(self):
        rows = found(table([0.9, 0.5]), said("Can you do it", "Find the area"))
        ((_, words),) = rows.sentences(0, next(rows.spans())[1])
        assert not words[0].any()
        assert words[1].any()

    def test_a_few_sentences_at_a_time_give_the_same(self, monkeypatch):
        rows = found(table([0.9, 0.5]), said("Find the area", "Write a rule", "Stop it"))
        span = next(rows.spans())[1]
        whole = [np.concatenate(values) for values in zip(*rows.sentences(0, span), strict=True)]
        monkeypatch.setattr("ctxbench.pipelines.features.BLOCK", 1)
        parts = list(rows.sentences(0, span))
        assert len(parts) == 3
        for one, other in zip(whole, zip(*parts, strict=True), strict=True):
            np.testing.assert_array_equal(one, np.concatenate(other))

    def test_nothing_is_embedded_of_what_no_request_found(self):
        resources = testing.mock_resources()
        rows = FeatureInput.of(asked("area"), table([0.9, 0.5]), resources)
        assert rows.similarity[0].shape == (1, 2)
        assert resources.stats.embedded == 1 + 1 + 2  # the request; a chunk of the tool, two of the rule

    def test_weights_of_chunks_count(self):
        batch = asked("x").batch
        light, full = (Query.of_chunks(batch, [["area", "tone"]], weights=[[w, 1.0]]) for w in (0.25, 1.0))
        one, other = (found(table([0.9, 0.5, 0.4]), query).similarity[0] for query in (light, full))
        assert one.tolist() == [(other[0] * 0.25).tolist(), other[1].tolist()]

    @PROPERTY
    @given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(1, 5))
    def test_an_item_is_as_near_as_its_best_chunk(self, seed, sizes, n_queries):
        drawn = np.random.default_rng(seed)
        owner = np.repeat(np.arange(len(sizes)) * 3, sizes)  # held items need not be neighbours
        vectors = drawn.normal(size=(len(owner), 8)).astype(np.float32)
        queries = drawn.normal(size=(n_queries, 8)).astype(np.float32)
        for some in (vectors, queries):
            some /= np.linalg.norm(some, axis=1, keepdims=True)
        matrix = ChunkMatrix.of(vectors, owner, np.concatenate([np.arange(size) for size in sizes]))
        item = drawn.permutation(np.unique(owner))
        whole = best_of_chunks(queries, matrix, item)
        products = queries.astype(np.float64) @ vectors.astype(np.float64).T
        slow = np.stack([products[:, owner == one].max(axis=1) for one in item], axis=1)
        np.testing.assert_allclose(whole, slow, rtol=0, atol=1e-12)
        for row, query in enumerate(queries):
            for column, one in enumerate(item.tolist()):
                alone = best_of_chunks(query[None], matrix, np.array([one]))
                assert alone[0, 0] == whole[row, column], "the same bits, whatever stands around it"


class TestPlaces:
    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            ([0.5, 0.9, 0.5, 0.1], [1, 0, 1, 3]),  # ties share the best place, and the next one is behind both
            ([[1.0, 2.0], [2.0, 2.0]], [[1, 0], [0, 0]]),
            ([], []),
            ([0.3], [0]),
        ],
    )
    def test_it_is_the_number_of_better_ones(self, values, expected):
        assert ranks_of(np.array(values)).tolist() == expected

    def test_no_row_has_no_places(self):
        assert ranks_of(np.zeros((0, 3))).shape == (0, 3)


def test_logarithms_keep_their_shape():
    assert log1p(np.array([[0, 1], [2, 3]])).tolist() == [[0.0, math.log1p(1)], [math.log1p(2), math.log1p(3)]]
    assert log1p(np.zeros((0, 2))).shape == (0, 2)


def test_words_of_a_catalog_are_kept_with_the_resources():
    resources = testing.mock_resources()
    one, other = (FeatureInput.of(asked("x"), table([0.5]), resources).words for _ in range(2))
    assert one is other
    assert CATALOG.hash == asked("x").batch.catalog.hash
