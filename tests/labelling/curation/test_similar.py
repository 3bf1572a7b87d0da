"""Near-duplicate items: by words and by vectors."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from ctxbench.io.errors import ParameterError
from ctxbench.labelling.overlap import SimilarPair, connected_groups, similar_by_vectors, similar_by_words
from ctxbench.model.items import Catalog
from ctxbench.search.embedders import HashingEmbedder


def test_similarity_is_the_cosine_of_tf_idf_weights():
    # Three texts: a is in all (idf ln 2), b in two (ln 2.5), c and d in one (ln 4).
    a, b, c = math.log(1 + 3 / 3), math.log(1 + 3 / 2), math.log(1 + 3 / 1)
    twice = 1 + math.log(2)  # a is twice in the second text
    expected = (twice * a * a + b * b) / (math.sqrt(a * a + b * b) * math.sqrt((twice * a) ** 2 + b * b + c * c))
    (pair,) = similar_by_words(["a b", "a a b c", "a d"], threshold=0.5)
    assert pair == SimilarPair(0, 1, pytest.approx(expected, abs=1e-12))


def test_equal_words_in_another_order_and_case_are_one_text():
    assert similar_by_words(["Open an issue", "issue: an OPEN", ""], threshold=1) == (SimilarPair(0, 1, 1.0),)


def test_nothing_is_near_nothing():
    assert similar_by_words([], threshold=0.1) == ()
    assert similar_by_words(["", "", "..."], threshold=0.1) == ()
    assert connected_groups(()) == ()


@pytest.mark.parametrize("threshold", [0, -0.1, 1.1, math.nan])
def test_a_threshold_is_above_0_and_at_most_1(threshold):
    with pytest.raises(ParameterError, match="above 0 and at most 1"):
        similar_by_words(["a"], threshold=threshold)


def test_pairs_do_not_depend_on_the_order_of_texts():
    rng = random.Random(3)
    texts = [" ".join(rng.choices("abcdefgh", k=6)) for _ in range(40)]
    order = list(range(40))
    rng.shuffle(order)
    found = {frozenset((p.first, p.second)): p.similarity for p in similar_by_words(texts, threshold=0.6)}
    shuffled = similar_by_words([texts[i] for i in order], threshold=0.6)
    assert found
    assert {frozenset((order[p.first], order[p.second])): p.similarity for p in shuffled} == found


def test_some_rows_give_all_pairs_that_they_are_in():
    texts = ["a b", "a b", "a b", "c"]
    assert similar_by_words(texts, threshold=0.9, rows=[1]) == (SimilarPair(0, 1, 1.0), SimilarPair(1, 2, 1.0))
    assert similar_by_words(texts, threshold=0.9, rows=[0, 1]) == (
        SimilarPair(0, 1, 1.0),
        SimilarPair(0, 2, 1.0),
        SimilarPair(1, 2, 1.0),
    )


def test_groups_connect_pairs_over_others():
    pairs = [SimilarPair(4, 7, 0.9), SimilarPair(1, 2, 0.9), SimilarPair(0, 7, 0.8)]
    assert connected_groups(pairs) == ((0, 4, 7), (1, 2))


def test_vectors_compare_the_mean_of_the_chunks(make):
    catalog = Catalog(
        [make.tool("open", "an issue"), make.tool("open", "an issue", server="t"), make.tool("rain", "x")]
    )
    found = similar_by_vectors(catalog, HashingEmbedder().embed)
    assert [(pair.first, pair.second) for pair in found] == [(0, 1)]
    assert found[0].similarity == pytest.approx(1.0, abs=1e-6)


def test_vectors_of_several_chunks_are_averaged():
    from ctxbench.model.items import Item

    table = {"a: x": [1, 0], "b: x": [1, 0], "other": [0, 1]}
    items = [
        Item(type="rule", name="a", description="x", text="other"),  # mean (1, 1) / sqrt 2
        Item(type="rule", name="b", description="x"),
    ]
    found = similar_by_vectors(
        Catalog(items), lambda texts, kind: np.array([table[t] for t in texts], dtype=np.float32), threshold=0.7
    )
    assert found == (SimilarPair(0, 1, pytest.approx(1 / math.sqrt(2), abs=1e-9)),)
