from __future__ import annotations

import numpy as np

from ctxbench.index.word_index import Occurrences, by_item


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def test_occurrences_stand_by_word_then_by_item_then_by_field():
    texts = [["pear", "apple", "pear"], ["apple"], ["pear"]]  # a field of two items, and another of the second
    made = Occurrences.of_texts(texts, item=ints(0, 1, 1), field=ints(0, 0, 1))
    rows = {word: (made.item[made.of(word)].tolist(), made.field[made.of(word)].tolist()) for word in made.word}
    assert rows == {"pear": ([0, 0, 1], [0, 0, 1]), "apple": ([0, 1], [0, 0])}
    assert made.of("fig") == slice(0, 0)


def test_no_text_and_no_word():
    for texts in ([], [[]]):
        made = Occurrences.of_texts(texts, item=np.arange(len(texts)), field=np.arange(len(texts)))
        assert (made.start.tolist(), made.item.tolist()) == ([0], [])


def test_occurrences_of_further_items_stand_behind_those_of_their_word():
    texts = [["pear", "apple"], ["apple", "apple"], ["fig", "pear", "fig"]]
    zeros = np.zeros(3, dtype=np.int64)
    first, second = (
        Occurrences.of_texts(texts[rows], item=np.arange(3)[rows], field=zeros[rows])
        for rows in (slice(1), slice(1, 3))
    )
    whole, anew = first.extended(second), Occurrences.of_texts(texts, item=np.arange(3), field=zeros)
    assert list(whole.word) == ["pear", "apple", "fig"] == list(anew.word)
    assert whole.start.tolist() == [0, 2, 5, 7] == anew.start.tolist()
    assert whole.item.tolist() == [0, 2, 0, 1, 1, 2, 2] == anew.item.tolist()
    assert (list(first.word), first.item.tolist()) == (["pear", "apple"], [0, 0])


def test_weights_of_the_same_item_are_added():
    item, value = by_item(ints(0, 0, 2, 5, 5), np.array([1.0, 0.5, 2.0, 0.25, 0.25]))
    assert (item.tolist(), value.tolist()) == ([0, 2, 5], [1.5, 2.0, 0.5])
    assert [len(row) for row in by_item(ints(), np.zeros(0))] == [0, 0]
