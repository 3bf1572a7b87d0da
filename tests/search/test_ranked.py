from __future__ import annotations

import numpy as np

from ctxbench.search.dense import ranked_by


def test_ranking_by_scores_takes_only_what_was_found():
    scores = [np.array([0.5, 0.9, 0.5, 0.7]), np.array([0.0, 0.0, 0.0, 0.0])]
    masks = [np.array([True, False, True, True]), np.zeros(4, dtype=bool)]
    table = ranked_by(scores, masks, depth=2)
    assert table.item.tolist() == [3, 0]
    assert table.chunk_rank.tolist() == [0, 1]
    assert table.start.tolist() == [0, 2, 2]
