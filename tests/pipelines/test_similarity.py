"""Features of similarity: values worked by hand on vectors of two dimensions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ctxbench.model.items import Catalog, Item
from ctxbench.model.requests import Batch, Query, Request
from ctxbench.pipelines.feature_families import by_sentence, score_margin_rank
from tests.pipelines.feature_cases import Plane, asked, rows_of, table

SIMILARITY = ("similarity.score", "similarity.margin", "similarity.rank")
SENTENCE = tuple(f"sentence.{name}" for name in ("margin", "rank", "bm25_share", "bm25_rank", "fusion"))
MAP = Catalog(
    [
        Item(type="tool", name="east"),
        Item(type="rule", name="both", text="one\n\ntwo"),
        Item(type="tool", name="north"),
    ]
)
PLANE = Plane(
    MAP,
    {"east": [(1, 0)], "both": [(-1, 0), (0.6, 0.8), (0.8, 0.6)], "north": [(0, 1)]},
    **{"x": (1, 0), "y": (0, 1), "x east": (1, 0), "north or both": (0, 1)},
)
ANY = table([0.9, 0.8, 0.7])


def of_chunks(*chunks: list[str], weights=None) -> Query:
    batch = Batch.of(MAP, [Request(id=str(i), text=" ".join(own)) for i, own in enumerate(chunks)])
    return Query.of_chunks(batch, list(chunks), weights=weights)


def columns(query: Query, names: tuple[str, ...], candidates=ANY) -> list[list[float]]:
    """By column, the values of the rows."""
    rows = rows_of(query, candidates, *names, resources=PLANE)
    return [[row[name] for row in rows] for name in names]


class TestSimilarity:
    def test_an_item_counts_by_its_best_chunk(self):
        score, margin, rank = columns(of_chunks(["x"]), SIMILARITY)
        assert score == pytest.approx([1.0, 0.8, 0.0], abs=1e-6)
        assert margin == pytest.approx([0.0, 0.2, 1.0], abs=1e-6)
        assert rank == [0.0, math.log1p(1), math.log1p(2)]

    def test_a_request_counts_by_its_best_sentence(self):
        score, margin, rank = columns(of_chunks(["x", "y"]), SIMILARITY)
        assert score == pytest.approx([1.0, 0.8, 1.0], abs=1e-6)
        assert margin == pytest.approx([0.0, 0.2, 0.0], abs=1e-6)
        assert rank == [0.0, math.log1p(2), 0.0]  # ties share the best place

    def test_a_sentence_of_less_weight_is_less_like_anything(self):
        score, _, rank = columns(of_chunks(["x", "y"], weights=[[0.5, 1.0]]), SIMILARITY)
        assert score == pytest.approx([0.5, 0.8, 1.0], abs=1e-6)
        assert rank == [math.log1p(2), math.log1p(1), 0.0]

    def test_the_score_of_retrieval_plays_no_part(self):
        other = table([0.1, 0.2, 0.9])
        assert sorted(map(tuple, zip(*columns(of_chunks(["x"]), SIMILARITY, other), strict=True))) == sorted(
            map(tuple, zip(*columns(of_chunks(["x"]), SIMILARITY), strict=True))
        )

    def test_only_what_was_found_is_compared(self):
        score, margin, rank = columns(of_chunks(["y"]), SIMILARITY, table([0.9, 0.8]))  # north is not among it
        assert score == pytest.approx([0.0, 0.8], abs=1e-6)
        assert margin == pytest.approx([0.8, 0.0], abs=1e-6)
        assert rank == [math.log1p(1), 0.0]

    def test_a_request_without_chunks_is_like_nothing(self):
        assert columns(of_chunks([]), (*SIMILARITY, *SENTENCE)) == [[0.0] * 3] * 8


class TestSentence:
    def test_an_item_stands_as_for_the_sentence_that_suits_it_best(self):
        margin, rank, share, word_rank, fusion = columns(of_chunks(["x", "y"]), SENTENCE)
        assert margin == pytest.approx([0.0, 0.2, 0.0], abs=1e-6)
        assert rank == [0.0, math.log1p(1), 0.0]  # in the middle of both sentences
        assert share == [0.0, 0.0, 0.0]
        assert word_rank == [math.log1p(3)] * 3  # none shares a word: behind all three
        assert fusion == pytest.approx([1.0, 61 / 62, 1.0])

    def test_shared_words_count_by_sentence(self):
        _, _, share, word_rank, fusion = columns(of_chunks(["x east", "y"]), SENTENCE)
        assert share == [1.0, 0.0, 0.0]
        assert word_rank == [0.0, math.log1p(3), math.log1p(3)]
        assert fusion == pytest.approx([2.0, 61 / 62, 1.0])

    def test_worked_by_hand(self):
        near = np.array([[0.9, 0.5, 0.1], [0.2, 0.6, 0.4]])
        words = np.array([[0.0, 2.0, 4.0], [0.0, 0.0, 0.0]])
        margin, rank, share, word_rank, fusion = by_sentence(near, words).T.tolist()
        assert margin == pytest.approx([0.0, 0.0, 0.2])
        assert rank == [0.0, 0.0, math.log1p(1)]
        assert share == [0.0, 0.5, 1.0]
        assert word_rank == [math.log1p(3), math.log1p(1), 0.0]  # the first shares none: behind all three
        # the second stands second twice in the first sentence, which is more than first once in the other
        assert fusion == pytest.approx([1.0, 61 / 62 + 61 / 62, 61 / 63 + 1.0])

    def test_ties_share_a_place(self):
        (_, rank, share, word_rank, fusion) = by_sentence(np.full((1, 3), 0.5), np.full((1, 3), 2.0)).T.tolist()
        assert (rank, share, word_rank, fusion) == ([0.0] * 3, [1.0] * 3, [0.0] * 3, [2.0] * 3)

    def test_a_single_item_is_best_at_everything(self):
        assert by_sentence(np.array([[0.3]]), np.array([[0.1]])).tolist() == [[0.0, 0.0, 1.0, 0.0, 2.0]]


class TestRetrieved:
    def test_scores_margins_and_places(self):
        names = ("retrieved.score", "retrieved.margin", "retrieved.rank")
        rows = rows_of(asked("zzz"), table([0.9, 0.5, 0.5]), *names)
        assert [row["retrieved.score"] for row in rows] == [0.9, 0.5, 0.5]
        assert [row["retrieved.margin"] for row in rows] == pytest.approx([0.0, 0.4, 0.4])
        assert [row["retrieved.rank"] for row in rows] == [0.0, math.log1p(1), math.log1p(1)]

    def test_standing_of_one(self):
        assert score_margin_rank(np.array([-0.5])).tolist() == [[-0.5, 0.0, 0.0]]
