from __future__ import annotations

from math import log

import numpy as np

from ctxbench.core.arrays import owners
from ctxbench.index.bm25 import Occurrences, logarithms


def counted(texts, *, item, n_items, weight=None, field=None):
    """Postings of texts that are all of one field, unless told otherwise."""
    field = np.zeros(len(texts), dtype=np.int64) if field is None else field
    return Occurrences.of(texts, item=item, field=field).postings(np.ones((1, n_items)) if weight is None else weight)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_a_word_counts_as_often_as_it_stands_times_the_weight_of_its_field():
    texts = [["pear", "apple", "pear"], ["apple"], ["pear"]]  # a field of two items, and another of the second
    made = counted(texts, item=ints(0, 1, 1), field=ints(0, 0, 1), weight=np.array([[1.0] * 3, [0.5] * 3]), n_items=3)
    rows = {word: (made.item[made.of(word)].tolist(), made.value[made.of(word)].tolist()) for word in made.word}
    assert rows == {"pear": ([0, 1], [2.0, 0.5]), "apple": ([0, 1], [1.0, 1.0])}
    assert np.diff(made.start).tolist() == [2, 2]
    assert (np.array([5.0, 7.0]))[owners(made.start)].tolist() == [5.0, 5.0, 7.0, 7.0]


def test_scores_are_sums_over_the_words_asked():
    made = counted([["pear", "apple"], ["pear"]], item=ints(0, 2), n_items=3)
    assert made.scores({"pear": 2.0, "apple": 1.0, "fig": 9.0}).tolist() == [3.0, 0.0, 2.0]
    assert made.shares_word({"apple": 1.0, "fig": 1.0}).tolist() == [True, False, False]
    assert made.of("fig") == slice(0, 0)


def test_no_text_no_word_and_no_item():
    for texts, n in (([], 0), ([], 2), ([[]], 1)):
        made = counted(texts, item=np.arange(len(texts)), n_items=n)
        assert made.scores({"apple": 1.0}).tolist() == [0.0] * n
        assert np.diff(made.start).tolist() == []


def test_occurrences_of_further_items_stand_behind_those_of_their_word():
    texts = [["pear", "apple"], ["apple", "apple"], ["fig", "pear", "fig"]]
    first, second = (
        Occurrences.of(texts[rows], item=np.arange(3)[rows], field=np.zeros(3, dtype=np.int64)[rows])
        for rows in (slice(1), slice(1, 3))
    )
    whole, anew = first.extended(second), Occurrences.of(texts, item=np.arange(3), field=np.zeros(3, dtype=np.int64))
    assert list(whole.word) == ["pear", "apple", "fig"] == list(anew.word)
    assert whole.start.tolist() == [0, 2, 5, 7] == anew.start.tolist()
    assert whole.item.tolist() == [0, 2, 0, 1, 1, 2, 2] == anew.item.tolist()
    assert (list(first.word), first.item.tolist()) == (["pear", "apple"], [0, 0])


def test_equal_values_have_equal_logarithms_wherever_they_stand():
    values = np.tile([1.1, 2.7, 3.3], 7)
    assert logarithms(values).tolist() == [log(value) for value in values.tolist()]
    assert logarithms(np.empty(0)).tolist() == []
