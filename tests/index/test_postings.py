from __future__ import annotations

from math import log

import numpy as np

from ctxbench.index.postings import counted, logarithms


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_a_word_counts_as_often_as_it_stands_times_the_weight_of_its_text():
    texts = [["pear", "apple", "pear"], ["apple"], ["pear"]]  # a field of two items, and another of the second
    made = counted(texts, item=ints(0, 1, 1), weight=np.array([1.0, 1.0, 0.5]), n_items=3)
    rows = {word: (made.item[made.of(word)].tolist(), made.value[made.of(word)].tolist()) for word in made.word}
    assert rows == {"pear": ([0, 1], [2.0, 0.5]), "apple": ([0, 1], [1.0, 1.0])}
    assert made.held().tolist() == [2, 2]
    assert made.by_posting(np.array([5.0, 7.0])).tolist() == [5.0, 5.0, 7.0, 7.0]


def test_scores_are_sums_over_the_words_asked():
    made = counted([["pear", "apple"], ["pear"]], item=ints(0, 2), weight=np.ones(2), n_items=3)
    assert made.scores({"pear": 2.0, "apple": 1.0, "fig": 9.0}).tolist() == [3.0, 0.0, 2.0]
    assert made.shares_word({"apple": 1.0, "fig": 1.0}).tolist() == [True, False, False]
    assert made.of("fig") == slice(0, 0)


def test_no_text_no_word_and_no_item():
    for texts, n in (([], 0), ([], 2), ([[]], 1)):
        made = counted(texts, item=np.arange(len(texts)), weight=np.ones(len(texts)), n_items=n)
        assert made.scores({"apple": 1.0}).tolist() == [0.0] * n
        assert made.held().tolist() == []


def test_equal_values_have_equal_logarithms_wherever_they_stand():
    values = np.tile([1.1, 2.7, 3.3], 7)
    assert logarithms(values).tolist() == [log(value) for value in values.tolist()]
    assert logarithms(np.empty(0)).tolist() == []
