from __future__ import annotations

import numpy as np

from ctxbench.search.word_index import by_item


def test_weights_of_the_same_item_are_added():
    item, value = by_item(np.array([0, 0, 2, 5, 5]), np.array([1.0, 0.5, 2.0, 0.25, 0.25]))
    assert (item.tolist(), value.tolist()) == ([0, 2, 5], [1.5, 2.0, 0.5])
    assert [len(row) for row in by_item(np.zeros(0, dtype=np.int64), np.zeros(0))] == [0, 0]
